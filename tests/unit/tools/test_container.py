"""plimsoll's image: of which debs it is made; and how the container begins, as Kolla's containers do."""

from __future__ import annotations

import json
import os
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import container
import packing
import pytest
from ospackage import PackageError

MAIN, OPENSTACK = "plimsoll_0.2.0~rc1-1+debian12_amd64.deb", "plimsoll-openstack_0.2.0~rc1-1+debian12_amd64.deb"


def test_version_and_system_are_those_of_the_debs() -> None:
    assert container.version_and_system([OPENSTACK, MAIN]) == ("0.2.0~rc1-1", "debian12")


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ([OPENSTACK], "the package plimsoll is missing"),
        ([MAIN, OPENSTACK.replace("0.2.0~rc1", "0.1.0")], "are not one deb of each package, of one version"),
        ([MAIN, OPENSTACK.replace("debian12", "debian13")], "for one system"),
        ([MAIN, MAIN.replace("amd64", "arm64")], "are not one deb of each package"),
        (["plimsoll-0.1.0-1.el9.x86_64.rpm"], "is not the name of a deb that script/package has made"),
    ],
)
def test_debs_that_do_not_go_together_are_refused(names: list[str], why: str) -> None:
    with pytest.raises(PackageError, match=why):
        container.version_and_system(names)


def test_a_system_without_an_image_of_its_own_needs_a_base(tmp_path: Path) -> None:
    deb = tmp_path / "plimsoll_0.1.0-1+devuan5_amd64.deb"
    with pytest.raises(PackageError, match="no image of devuan5 to build on: name one with --base"):
        container.build([deb], "podman", None, None, 0)


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The program, with ``began``: the command that took its place."""
    loader = SourceFileLoader("plimsoll_start", str(packing.ROOT / "packaging/container/plimsoll-start"))
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    program: Any = module_from_spec(spec)
    loader.exec_module(program)
    program.CONFIG, program.began = str(tmp_path / "config.json"), []
    monkeypatch.setattr("sys.argv", ["plimsoll-start"])
    monkeypatch.setattr(os, "execvp", lambda name, command: program.began.append(command))
    return program


def write(start: Any, *files: dict[str, object], command: str = "plimsoll daemon") -> None:
    Path(start.CONFIG).write_text(json.dumps({"command": command, "config_files": files}))


def entry(source: Path, dest: str, **more: object) -> dict[str, object]:
    return {"source": str(source), "dest": dest, "owner": "plimsoll", "perm": "0600"} | more


def test_without_config_json_the_daemon_runs(start: Any) -> None:
    start.main()
    assert start.began == [["plimsoll", "daemon"]]


def test_files_are_in_place_with_their_rights_before_the_command_runs(start: Any, tmp_path: Path) -> None:
    for name in ("a.keyring", "b.keyring"):
        (tmp_path / name).write_text(name)
    there = tmp_path / "etc"
    write(
        start,
        entry(tmp_path / "*.keyring", f"{there}/"),
        entry(tmp_path / "none", f"{there}/none", optional=True),
        command="every 60 plimsoll catalogue refresh",
    )
    start.main()
    assert start.began == [["every", "60", "plimsoll", "catalogue", "refresh"]]
    assert sorted(path.name for path in there.iterdir()) == ["a.keyring", "b.keyring"]
    assert (there / "a.keyring").read_text() == "a.keyring"
    assert (there / "a.keyring").stat().st_mode & 0o777 == 0o600


def test_words_are_the_command_with_the_files_in_place(
    start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rules.yaml").write_text("{}")
    write(start, entry(tmp_path / "rules.yaml", f"{tmp_path}/etc/"))
    monkeypatch.setattr("sys.argv", ["plimsoll-start", "plimsoll", "plan"])
    start.main()
    assert start.began == [["plimsoll", "plan"]]
    assert (tmp_path / "etc/rules.yaml").exists()


def test_a_fault_is_one_line_and_nothing_runs(start: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said() -> str:
        assert start.main() == 1
        assert start.began == []
        text = capsys.readouterr().err
        assert text.count("\n") == 1
        return text

    write(start, entry(tmp_path / "none", "/nowhere"))
    assert "none: does not exist; mount it, or write optional: true" in said()
    write(start, entry(tmp_path / "none", "/nowhere", merge=True))
    assert "unknown keys of config_files: merge" in said()
    write(start, entry(Path(start.CONFIG), "/proc/none"))
    assert "cannot be copied to /proc/none" in said()
    Path(start.CONFIG).write_text("{")
    assert f"{start.CONFIG}: " in said()
