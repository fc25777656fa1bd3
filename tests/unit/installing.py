"""A node for the installer: wheelhouses made here, and programs that do in little what venv and pip do."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from plimsoll_installer import environment, node, removal, wheelhouse
from plimsoll_installer.hand import Ended, Hand
from plimsoll_installer.layout import Layout
from plimsoll_installer.machine import Machine
from plimsoll_installer.node import Node, Versions
from plimsoll_installer.system import System

HERE = Machine("debian12", "cp311", "x86_64")
SITE = "lib/python3.11/site-packages"
UNITS = {
    "sysusers.conf": b"g plimsoll-ceph - -\nu plimsoll - -\n",
    "tmpfiles.conf": b"d /var/lib/plimsoll 2750 plimsoll plimsoll\n",
    "network.conf": b"# a sample\n",
    "plimsoll-enforce.service": b"[Service]\n",
    "plimsoll-enforce.timer": b"[Timer]\n",
}


def make_wheelhouse(
    directory: Path,
    version: str,
    *,
    machine: Machine = HERE,
    units: Mapping[str, bytes] = UNITS,
    other: bytes = b"",
) -> Path:
    """Unpacked, as ``tar`` leaves it; ``other`` makes another build of it."""
    house = directory / f"plimsoll-{version}-{machine}"
    house.mkdir(parents=True)
    data = {f"share/plimsoll/systemd/{name}": content for name, content in units.items()}
    data |= {"share/man/man1/plimsoll.1": b".TH PLIMSOLL\n"}
    info = f"plimsoll_agent-{version}.dist-info"
    files = {f"{info}/METADATA": b"Name: plimsoll-agent\n", "plimsoll_agent/__init__.py": version.encode()}
    files |= {f"plimsoll_agent-{version}.data/data/{name}": content for name, content in data.items()}
    _zip(house / f"plimsoll_agent-{version}-py3-none-any.whl", files)
    _zip(house / "cliff-1-py3-none-any.whl", {"cliff/__init__.py": other or b"cliff"})
    _zip(house / "matplotlib-1-py3-none-any.whl", {"matplotlib/__init__.py": b"plots"})
    _zip(house / "pip-26-py3-none-any.whl", {"pip/__main__.py": b""})
    wheels = {
        "base": ["cliff-1-py3-none-any.whl"],
        "report": ["cliff-1-py3-none-any.whl", "matplotlib-1-py3-none-any.whl"],
    }
    described = {
        "version": version,
        "os": machine.os,
        "python": machine.python,
        "arch": machine.arch,
        "wheels": wheels,
    }
    (house / "wheelhouse.json").write_text(json.dumps(described), encoding="utf-8")
    (house / "constraints.txt").write_text("cliff==1\n", encoding="utf-8")
    (house / "install").write_bytes(b"#!/usr/bin/python3\n# of " + version.encode())
    sum_up(house)
    return house


def sum_up(house: Path) -> None:
    """Write ``SHA256SUMS``, as the one who builds it does."""
    files = sorted(path for path in house.iterdir() if path.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (house / "SHA256SUMS").write_text("".join(lines), encoding="ascii")


def _zip(path: Path, files: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)


@dataclass
class Programs:
    """What is run, and what it does."""

    state: Ended = field(default_factory=lambda: Ended(0, "[]", ""))
    """How ``plimsoll state check`` ends."""
    broken: dict[str, Ended] = field(default_factory=dict)
    """How a program ends whose command line has this word."""
    ran: list[list[str]] = field(default_factory=list)

    def __call__(self, argv: Sequence[str]) -> Ended:
        self.ran.append(list(argv))
        for word, ended in self.broken.items():
            if any(word in each for each in argv):
                return ended
        if "venv" in argv:
            _venv(Path(argv[-1]))
        elif "install" in argv:
            _pip_install(Path(argv[0]).parents[1], [Path(word) for word in argv if word.endswith(".whl")])
        elif "-c" in argv:
            return _prove(Path(argv[0]).parents[1])
        elif argv[1:3] == ["state", "check"]:
            return self.state
        return Ended(0, "", "")

    def names(self) -> list[str]:
        """The programs, without the ones that make and try an environment."""
        return [argv[0] for argv in self.ran if argv[0].startswith("system") or argv[0].endswith(("del", "con"))]


def _venv(home: Path) -> None:
    (home / "bin").mkdir(parents=True)
    (home / "bin/python").write_text("#!", encoding="utf-8")


def _pip_install(home: Path, wheels: Sequence[Path]) -> None:
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                _, _, inside = name.partition(".data/data/")
                target = home / inside if inside else home / SITE / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(name))
    own = next((home / SITE).glob("plimsoll_agent-*.dist-info"))
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    rows.writerows(
        (f"../../../{path.relative_to(home)}", "", "")
        for path in sorted((home / "share").rglob("*"))
        if path.is_file()
    )
    (own / "RECORD").write_text(record.getvalue(), encoding="utf-8")
    (home / "bin/plimsoll").write_text("#!", encoding="utf-8")


def _prove(home: Path) -> Ended:
    try:
        return Ended(0, (home / SITE / "plimsoll_agent/__init__.py").read_text(encoding="utf-8") + "\n", "")
    except FileNotFoundError:
        return Ended(1, "", "Traceback:\nModuleNotFoundError: No module named 'plimsoll_agent'")


class Host:
    """A node below a directory of the test, that believes itself to be one with systemd."""

    def __init__(self, root: Path, hand: type[Hand] = Hand) -> None:
        self.layout = Layout(root)
        self.programs = Programs()
        self.hand = hand(self.programs, False)

    def node(self, **more: bool) -> Node:
        system = System(self.hand, self.layout, is_up=True, is_node=True, is_labelled=False)
        return Node(self.layout, self.hand, system, HERE, "/usr/bin/python3.11", **more)

    def install(self, house: Path, *extras: str, **more: bool) -> tuple[Versions, Node]:
        """With these extras; as on a command line that names none where there are none."""
        there = self.node(**more)
        if not there.check:
            self.hand.directory(self.layout.base)
        return node.install(there, wheelhouse.load(house), extras or None), there

    def rollback(self, only_from: str = "", **more: bool) -> tuple[Versions, Node]:
        there = self.node(**more)
        return node.rollback(there, only_from), there

    def remove(self, *, state: bool = False, **more: bool) -> tuple[Versions, Node]:
        there = self.node(**more)
        return removal.remove(there, state=state), there

    def actual(self) -> str:
        """What the environment in force says that it is."""
        return (self.layout.current / SITE / "plimsoll_agent/__init__.py").read_text(encoding="utf-8")

    def is_sound(self) -> bool:
        """Whether what is in force, if anything is, is whole."""
        if not self.layout.current.is_symlink():
            return True
        home = environment.environment(self.layout, self.layout.current.readlink().name)
        return home.is_whole() and self.actual() == home.version

    def all_there(self) -> dict[str, str]:
        """The node as it is: every path with its mode and content."""
        root = self.layout.root
        return {str(path.relative_to(root)): _told(path) for path in sorted(root.rglob("*"))}

    def save(self, to: Path) -> Path:
        """A copy to come back to."""
        shutil.copytree(self.layout.root, to, symlinks=True)
        return to

    def restore(self, saved: Path) -> None:
        """As it was."""
        shutil.rmtree(self.layout.root, ignore_errors=True)
        shutil.copytree(saved, self.layout.root, symlinks=True)


def _told(path: Path) -> str:
    if path.is_symlink():
        return f"-> {path.readlink()}"
    mode = f"{path.stat().st_mode & 0o7777:o}"
    return mode if path.is_dir() else f"{mode} {hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"
