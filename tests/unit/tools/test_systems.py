"""Debs for several systems: on which image each is built, and what is said where one fails."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
import systems
from ospackage import PackageError


def test_a_system_has_its_official_image_or_the_one_that_is_named() -> None:
    named = systems.images(["debian13", "ubuntu24.04=mirror.example/ubuntu:24.04"])
    assert named == {"debian13": "docker.io/library/debian:13-slim", "ubuntu24.04": "mirror.example/ubuntu:24.04"}


def test_a_system_without_an_image_is_refused_with_what_to_write() -> None:
    with pytest.raises(PackageError, match=r"devuan5: is none of debian12, debian13, .*: devuan5=IMAGE"):
        systems.images(["debian12", "devuan5"])


def test_a_build_that_fails_is_one_line_and_nothing_is_put_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first system succeeds: debs of some systems only would be taken for all."""

    def run(words: list[object], what: str, where: Path | None = None) -> str:
        if "build" in words and "BASE=second" in words:
            raise PackageError(f"{what}: STEP 1\nSTEP 2\nno route to the index")
        if "build" in words:
            made = Path(str(words[words.index("--output") + 1]).partition("dest=")[2])
            made.mkdir()
            (made / "plimsoll_0.1.0-1+debian12_amd64.deb").touch()
        return ""

    monkeypatch.setattr(systems, "run", run)
    asked = argparse.Namespace(
        systems=["debian12=first", "debian13=second"], engine="podman", network=None, revision=1, output=tmp_path
    )
    with pytest.raises(PackageError, match=r"^podman could not build the debs of debian13: no route[^\n]*3\.log$"):
        systems.build(asked)
    assert [file.name for file in tmp_path.iterdir()] == ["debian13.log"]
    assert "STEP 2" in (tmp_path / "debian13.log").read_text()


def test_what_is_in_no_commit_is_not_left_out_in_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systems, "run", lambda words, *_, **__: " M setup.cfg" if "status" in words else "")
    asked = argparse.Namespace(systems=["debian12"], engine="podman", network=None, revision=1, output=tmp_path)
    with pytest.raises(PackageError, match="has changes that are in no commit"):
        systems.build(asked)
