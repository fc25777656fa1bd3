"""What others import and plimsoll seldom uses comes when it is called, and not before."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

from plimsoll_agent.util.on_demand import absent, postponed

USER = """
import wsgiref.util
import colorsys
from colorsys import rgb_to_hsv

class Row:
    hue: colorsys.Hue.kind[int] | None
    other: int | colorsys.Other

def of_red():
    return rgb_to_hsv(1, 0, 0)

def of_green():
    return colorsys.rgb_to_hsv(0, 1, 0)

def uri(environ):
    return wsgiref.util.application_uri(environ)
"""


def test_a_library_comes_when_it_is_called_and_to_all_that_import_it_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "user_of_colours.py").write_text(USER)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("colorsys", "wsgiref.util", "user_of_colours"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with postponed("colorsys", "wsgiref.util"):
        user = import_module("user_of_colours")
    assert {"colorsys", "wsgiref.util"}.isdisjoint(sys.modules)
    assert user.of_red() == (0.0, 1.0, 1)
    assert "colorsys" in sys.modules
    assert user.of_green()[1:] == (1.0, 1)
    assert import_module("colorsys").rgb_to_hsv is not user.rgb_to_hsv
    environ = {"wsgi.url_scheme": "http", "HTTP_HOST": "node"}
    assert user.uri(environ) == "http://node/", "a module of a package is found in its package"


def test_what_is_loaded_already_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = import_module("colorsys")
    with postponed("colorsys"):
        assert import_module("colorsys") is loaded
    assert sys.modules["colorsys"] is loaded


def test_a_library_is_absent_only_for_what_is_imported_within(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with absent("colorsys"), pytest.raises(ImportError):
        import_module("colorsys")
    loaded = import_module("colorsys")
    with absent("colorsys"):
        assert import_module("colorsys") is loaded
    assert sys.modules["colorsys"] is loaded
