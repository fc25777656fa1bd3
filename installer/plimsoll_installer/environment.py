"""A version on the node: a virtual environment, never changed once it is whole."""

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
# Everything that a pass imports, libvirt's library of the node included.
_PROOF = """\
import libvirt, plimsoll_agent.cli.passes
from importlib.metadata import version
print(version("plimsoll-agent"))
"""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What an environment was made of; written beside it when it is whole."""

    wheelhouse: str
    digest: str
    extras: tuple[str, ...]
    python: str
    replaces: str = ""
    """The environment of the same version that this one took the place of: a pass may still be running in it."""

    def makes_the_same_as(self, other: Recipe) -> bool:
        return asdict(self) | {"replaces": ""} == asdict(other) | {"replaces": ""}


@dataclass(frozen=True, slots=True)
class Environment:
    """``versions/NAME``; the name is the version, with ``~2`` where that was taken by another make of it."""

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
        """What it was made of, None where that is not known."""
        try:
            content = json.loads(self.record.read_text(encoding="utf-8"))
            if content.pop("format") != RECORD_FORMAT:
                return None
            return Recipe(**content | {"extras": tuple(content["extras"])})
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def is_whole(self) -> bool:
        """Whether it was made to the end, and its Python is still there."""
        return self.recipe() is not None and self.python.exists() and self.command.exists()

    def shipped(self) -> dict[str, bytes]:
        """What plimsoll, and not what it needs, has put into ``share``, by its path below the environment."""
        found = {}
        for info in (self.directory / "lib").glob("python*/site-packages/plimsoll_agent-*.dist-info"):
            for row in csv.reader((info / "RECORD").read_text(encoding="utf-8").splitlines()):
                file = Path(os.path.normpath(info.parent / row[0]))
                if file.is_relative_to(self.directory / "share"):
                    found[file.relative_to(self.directory).as_posix()] = file.read_bytes()
        return found

    def may_be_of(self, wheelhouse: str) -> bool:
        """Whether it was made of the wheelhouse of this name, or would be, where that is not known."""
        recipe = self.recipe()
        return recipe.wheelhouse == wheelhouse if recipe else wheelhouse.startswith(f"plimsoll-{self.version}-")


def environment(layout: Layout, name: str) -> Environment:
    return Environment(layout.versions / name)


def choose(layout: Layout, version: str, recipe: Recipe) -> Environment:
    """The environment that is made so already, else one that may be made: not one that a link names."""
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
    """Whole ones, and what is left of others."""
    names = {path.name.removesuffix(".json") for path in layout.versions.glob("[!.]*")}
    return [environment(layout, name) for name in sorted(names)]


def version_of(name: str) -> str:
    """The version that an environment of this name is of."""
    return name.partition("~")[0]


def make(hand: Hand, home: Environment, wheelhouse: Wheelhouse, recipe: Recipe) -> None:
    """Make it from nothing; ``finish`` makes it whole. Raises ``InstallError``, ``OSError``."""
    hand.remove(home.record)
    hand.remove(home.directory)
    hand.directory(home.directory.parent)
    venv = [recipe.python, "-I", "-m", "venv", "--without-pip", str(home.directory)]
    hand.call(venv, f"{home.directory}: cannot be made")
    # Byte code is made now: the units find the file system read-only.
    pip = [str(home.python), "-I", *_pip_install(wheelhouse, recipe.extras)]
    hand.call(pip, f"{home.directory}: pip could not install {wheelhouse.name}")
    _prove(hand, home)


def finish(hand: Hand, home: Environment, recipe: Recipe) -> None:
    """Record that it is whole; where that is missing, it is made again. Raises ``InstallError``, ``OSError``."""
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
        raise InstallError(f"{home.directory}: holds plimsoll {said}, and was to hold {home.version}")


def needed_bytes(wheelhouse: Wheelhouse, extras: Iterable[str]) -> int:
    """What the environment will take on the disk, with byte code, which is about as large as what it is made from."""
    total = 0
    for wheel in wheelhouse.wheels(extras):
        with zipfile.ZipFile(wheel) as archive:
            for file in archive.infolist():
                total += -(-file.file_size // _BLOCK) * _BLOCK * (2 if file.filename.endswith(".py") else 1)
    return total


def _pip_install(wheelhouse: Wheelhouse, extras: Iterable[str]) -> list[str]:
    """Of just these files: there is nothing to find, and nothing to choose from."""
    words = [f"{wheelhouse.pip}/pip", "install", "--isolated", "--quiet", "--no-input", "--no-cache-dir"]
    words += ["--disable-pip-version-check", "--no-index", "--no-deps", "--compile"]
    return [*words, *map(str, wheelhouse.wheels(extras))]
