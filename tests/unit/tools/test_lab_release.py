"""Whose programs the lab starts: this machine's, or those of another release of Debian."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from lab.cloud import LabError, release
from lab.cloud.layout import Layout


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: {"VERSION_CODENAME": "bookworm"})
    layout = Layout(tmp_path / "cloud", tmp_path / "cache")
    layout.root.mkdir()
    return layout


@pytest.mark.parametrize("asked", ["", "bookworm"])
def test_this_machines_programs_are_started_as_they_stand(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    monkeypatch.setenv(release.VARIABLE, asked)
    assert release.program(["ceph", layout.root], layout.cache) == ["ceph", str(layout.root)]


def test_another_releases_programs_are_those_of_its_tree(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(release.VARIABLE, "sid")
    *_, tree, first, last = release.program(["ceph", "status"], layout.cache)
    assert (first, last) == ("ceph", "status")
    assert (Path(tree).parent, Path(tree).name.partition("-")[0]) == (layout.cache, "sid")


def test_a_release_that_the_lab_does_not_know_is_named_with_those_that_it_knows(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(release.VARIABLE, "trixi")
    with pytest.raises(LabError, match="PLIMSOLL_LAB_RELEASE=trixi: the lab knows bookworm, trixie, sid"):
        release.program(["ceph"], layout.cache)


def test_a_cloud_that_is_up_is_not_taken_for_one_of_another_release(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(release.VARIABLE, "trixie")
    release.write(layout)
    release.check(layout)
    monkeypatch.delenv(release.VARIABLE)
    with pytest.raises(LabError, match="a cloud of trixie is up"):
        release.check(layout)
