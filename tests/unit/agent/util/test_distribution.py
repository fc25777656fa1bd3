"""plimsoll's version and commands, as ``importlib.metadata`` has them and by the files of an installed one."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from importlib.metadata import distribution as installed
from pathlib import Path

import pytest

from plimsoll_agent.util import distribution

METADATA = "Metadata-Version: 2.4\nName: plimsoll-agent\nVersion: 7.1\nSummary: s\n\nVersion: none of it\n"
ENTRY_POINTS = "[console_scripts]\na = b:c\n\n[plimsoll.commands]\ndisk_list = p.q:R\nplan = p.s:T\n\n[z]\nx = y:z\n"


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    functions = distribution.version, distribution.commands
    for function in functions:
        function.cache_clear()
    yield
    for function in functions:
        function.cache_clear()


@pytest.mark.parametrize("has_old_form", [False, True])
def test_a_checkout_has_what_python_has_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_old_form: bool
) -> None:
    """setuptools leaves an .egg-info in a checkout, with files of other names; Python finds that first there."""
    if has_old_form:
        (tmp_path / "plimsoll_agent.egg-info").mkdir()
        (tmp_path / "plimsoll_agent.egg-info/PKG-INFO").write_text(METADATA)
        (tmp_path / "plimsoll_agent.egg-info/entry_points.txt").write_text(ENTRY_POINTS)
        monkeypatch.syspath_prepend(tmp_path)
    ours = installed("plimsoll-agent")
    assert (ours.version == "7.1") == has_old_form
    assert distribution.version() == ours.version
    points = ours.entry_points.select(group="plimsoll.commands")
    assert distribution.commands() == {point.name.replace("_", " "): point.value for point in points}


@pytest.mark.parametrize("beside", [["plimsoll_agent-7.1"], ["plimsoll_agent-7.1", "plimsoll_agent_else-1"]])
def test_the_files_beside_the_package_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beside: list[str]
) -> None:
    for name in beside:
        (tmp_path / f"{name}.dist-info").mkdir()
        (tmp_path / f"{name}.dist-info/METADATA").write_text(METADATA)
        (tmp_path / f"{name}.dist-info/entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.setattr(distribution, "__file__", str(tmp_path / "plimsoll_agent/util/distribution.py"))
    assert distribution.version() == "7.1"
    assert distribution.commands() == {"disk list": "p.q:R", "plan": "p.s:T"}


def test_of_two_versions_beside_the_package_neither_is_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("7.1", "7.2"):
        (tmp_path / f"plimsoll_agent-{name}.dist-info").mkdir()
    monkeypatch.setattr(distribution, "__file__", str(tmp_path / "plimsoll_agent/util/distribution.py"))
    assert distribution.version() == installed("plimsoll-agent").version


def test_without_an_installation_python_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distribution, "_NAME", "plimsoll-of-nowhere")
    with pytest.raises(PackageNotFoundError):
        distribution.version()
