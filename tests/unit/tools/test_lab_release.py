"""Whose programs the lab starts: this machine's, or those of another release of Debian."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from lab.cloud import LabError, image, recipe, release
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
    ceph = release.tree(layout.cache) / "usr/bin/ceph"
    ceph.parent.mkdir(parents=True)
    ceph.write_text("#!/usr/bin/python3\nimport ceph_argparse\n")
    release.write(layout)
    assert (
        layout.commands / "ceph"
    ).read_text() == f"#!{layout.commands}/interpreter/python3\nimport ceph_argparse\n"
    release.check(layout)
    monkeypatch.delenv(release.VARIABLE)
    with pytest.raises(LabError, match="a cloud of trixie is up"):
        release.check(layout)


def test_each_releases_guest_is_kept_beside_those_of_others_and_takes_the_place_of_its_own_before(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(suite: str, tree: Path, out: Path, log: Path) -> None:
        (out / "root.raw").write_text(suite)

    monkeypatch.setattr(image, "_make", make)

    def kept() -> dict[str, str]:
        """The directory of each release's."""
        return {root.read_text(): root.parent.name for root in layout.cache.glob("*/root.raw")}

    def ensure(asked: str) -> Path:
        monkeypatch.setenv(release.VARIABLE, asked)
        assert image.cached(layout.cache) is None
        made = image.ensure(layout.cache, lambda _: None)
        assert image.cached(layout.cache) == made
        return made.root

    first = {suite: ensure(asked) for asked, suite in (("", "bookworm"), ("trixie", "trixie"), ("sid", "sid"))}
    assert {suite: root.read_text() for suite, root in first.items()} == {suite: suite for suite in first}
    monkeypatch.setattr(recipe, "SIZE", recipe.SIZE + 1)
    second = ensure("trixie")
    assert second != first["trixie"]
    assert sorted(kept()) == ["bookworm", "sid", "trixie"]
    assert kept()["trixie"] == second.parent.name


def test_the_guest_is_the_same_on_every_machine_that_asks_for_no_release(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(release.VARIABLE, raising=False)
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: {"VERSION_CODENAME": "trixie"})
    assert release.of_guests() == recipe.SUITE
    assert release.kept() is None
