"""A version on the node: a virtual environment, which is never changed once it is complete."""

from __future__ import annotations

import csv
import json
import os
import zipfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from plimsoll_installer.errors import InstallError
from plimsoll_installer.hand import Hand
from plimsoll_installer.layout import Layout, linked
from plimsoll_installer.wheelhouse import Wheelhouse

RECORD_FORMAT = 1
_BLOCK = 4096
# Imports all that a pass needs, including the node's libvirt library.
_PROOF = """\
import libvirt, plimsoll_agent.cli.passes
from importlib.metadata import version
print(version("plimsoll-agent"))
"""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What an environment was made from; written beside it when it is complete."""

    wheelhouse: str
    digest: str
    extras: tuple[str, ...]
    python: str
    replaces: str = ""
    """The environment of the same version that this one replaced: a pass may still run in it."""

    def makes_the_same_as(self, other: Recipe) -> bool:
        return asdict(self) | {"replaces": ""} == asdict(other) | {"replaces": ""}


@dataclass(frozen=True, slots=True)
class Environment:
    """``versions/NAME``; the name is the version, with ``~2`` for a second environment of the same version."""

    directory: Path

    @property
    def name(self) -> str:
        return self.directory.name

    @property
    def version(self) -> str:
        return version_of(self.name)

    @property
    def record(self) -> Path:
        return self.directory.with_name(f"{self.name}.json")

    @property
    def python(self) -> Path:
        return self.directory / "bin/python"

    @property
    def command(self) -> Path:
        return self.directory / "bin/plimsoll"

    def recipe(self) -> Recipe | None:
        """What it was made from; None where unknown."""
        try:
            content = json.loads(self.record.read_text(encoding="utf-8"))
            if content.pop("format") != RECORD_FORMAT:
                return None
            return Recipe(**content | {"extras": tuple(content["extras"])})
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def is_whole(self) -> bool:
        """Whether it is complete and its Python still exists."""
        return self.recipe() is not None and self.python.exists() and self.command.exists()

    def shipped(self) -> dict[str, bytes]:
        """plimsoll's own files in ``share``, by their path in the environment."""
        found = {}
        for info in (self.directory / "lib").glob("python*/site-packages/plimsoll_agent-*.dist-info"):
            for row in csv.reader((info / "RECORD").read_text(encoding="utf-8").splitlines()):
                file = Path(os.path.normpath(info.parent / row[0]))
                if file.is_relative_to(self.directory / "share"):
                    found[file.relative_to(self.directory).as_posix()] = file.read_bytes()
        return found

    def may_be_of(self, wheelhouse: str) -> bool:
        """Whether it was made from the wheelhouse of this name, or may have been where that is unknown."""
        recipe = self.recipe()
        return recipe.wheelhouse == wheelhouse if recipe else wheelhouse.startswith(f"plimsoll-{self.version}-")


def environment(layout: Layout, name: str) -> Environment:
    return Environment(layout.versions / name)


def choose(layout: Layout, version: str, recipe: Recipe) -> Environment:
    """The environment that was made from the same, or else a new one, which no link names."""
    number = 1
    while True:
        name = version if number == 1 else f"{version}~{number}"
        candidate = environment(layout, name)
        known = candidate.recipe()
        if known is not None and known.makes_the_same_as(recipe):
            return candidate
        if known is None and name not in (linked(layout.current), linked(layout.previous)):
            return candidate
        number += 1


def all_of(layout: Layout) -> list[Environment]:
    """Complete ones, and remains of others."""
    names = {path.name.removesuffix(".json") for path in layout.versions.glob("[!.]*")}
    return [environment(layout, name) for name in sorted(names)]


def version_of(name: str) -> str:
    """The version of an environment with this name."""
    return name.partition("~")[0]


def make(hand: Hand, home: Environment, wheelhouse: Wheelhouse, recipe: Recipe) -> None:
    """Make the environment, which ``finish`` completes. Raises ``InstallError``, ``OSError``."""
    hand.remove(home.record)
    hand.remove(home.directory)
    hand.directory(home.directory.parent)
    venv = [recipe.python, "-I", "-m", "venv", "--without-pip", str(home.directory)]
    hand.call(venv, f"{home.directory}: cannot be made")
    # Byte code is compiled now: the units mount the file system read-only.
    pip = [str(home.python), "-I", *_pip_install(wheelhouse, recipe.extras)]
    hand.call(pip, f"{home.directory}: pip could not install {wheelhouse.name}")
    _prove(hand, home)


def finish(hand: Hand, home: Environment, recipe: Recipe) -> None:
    """Record that it is complete; without the record it is made again. Raises ``InstallError``, ``OSError``."""
    hand.call(["sync", "--file-system", str(home.directory)], f"{home.directory}: cannot be written to the disk")
    content = {"format": RECORD_FORMAT, **asdict(recipe)}
    hand.write(home.record, (json.dumps(content, indent=1) + "\n").encode())


def runs(hand: Hand, home: Environment) -> bool:
    """Whether the version runs on this node."""
    try:
        _prove(hand, home)
    except InstallError:
        return False
    return True


def _prove(hand: Hand, home: Environment) -> None:
    said = hand.call([str(home.python), "-I", "-c", _PROOF], f"{home.directory}: does not run on this node").strip()
    if said != home.version:
        raise InstallError(f"{home.directory}: contains plimsoll {said} instead of {home.version}; run it again")


def needed_bytes(wheelhouse: Wheelhouse, extras: Iterable[str]) -> int:
    """Bytes on disk that the environment will take, with byte code, which is about as large as its source."""
    total = 0
    for wheel in wheelhouse.wheels(extras):
        with zipfile.ZipFile(wheel) as archive:
            for file in archive.infolist():
                total += -(-file.file_size // _BLOCK) * _BLOCK * (2 if file.filename.endswith(".py") else 1)
    return total


def _pip_install(wheelhouse: Wheelhouse, extras: Iterable[str]) -> list[str]:
    """pip's arguments to install exactly these files, without any index."""
    words = [f"{wheelhouse.pip}/pip", "install", "--isolated", "--quiet", "--no-input", "--no-cache-dir"]
    words += ["--disable-pip-version-check", "--no-index", "--no-deps", "--compile"]
    return [*words, *map(str, wheelhouse.wheels(extras))]
