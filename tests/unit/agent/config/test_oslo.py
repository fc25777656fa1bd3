"""What oslo.config imports and plimsoll has no use for comes when it is asked for."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

from plimsoll_agent.config import oslo


def test_a_library_that_stands_in_for_itself_comes_with_the_first_question(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = oslo._OnDemand("colorsys")
    monkeypatch.setitem(sys.modules, "colorsys", stand_in)
    assert stand_in.rgb_to_hsv(0, 0, 0) == (0.0, 0.0, 0)
    assert import_module("colorsys") is not stand_in
    assert stand_in.hsv_to_rgb(0.0, 0.0, 0) == (0, 0, 0), "whoever imported it before keeps the stand-in"


def test_an_option_that_needs_one_of_them_works() -> None:
    assert oslo.types.IPAddress()("192.0.2.1") == "192.0.2.1"
    assert oslo.types.URI()("https://cinder.example.org") == "https://cinder.example.org"
