"""A version's files outside of its environment: units, users, directories, links."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from plimsoll_installer.hand import Hand
from plimsoll_installer.layout import Layout

_UNITS = "share/plimsoll/systemd/"
_LINKED = ("share/man/", "share/bash-completion/")
_COMMANDS = ("plimsoll", "check_plimsoll")


@dataclass(frozen=True, slots=True)
class Thing:
    """A file with its content, or a link with its target."""

    path: Path
    content: bytes = b""
    target: str = ""
    mode: int = 0o644

    def is_there(self) -> bool:
        """Whether it exists with the right content and mode."""
        try:
            if self.target:
                return str(self.path.readlink()) == self.target
            found = self.path.lstat()
            whole = stat.S_ISREG(found.st_mode) and stat.S_IMODE(found.st_mode) == self.mode
            return whole and self.path.read_bytes() == self.content
        except OSError:
            return False

    def is_foreign(self, layout: Layout) -> bool:
        """Whether a file that is not plimsoll's is in the place of this link."""
        if not self.target or not os.path.lexists(self.path):
            return False
        try:
            return not self.path.readlink().is_relative_to(layout.base)
        except OSError:
            return True


def desired(layout: Layout, shipped: Mapping[str, bytes], installer: bytes) -> list[Thing]:
    """All files of the version outside of its environment, in the order of placing, and the installer."""
    things = [*_users(layout, shipped), *_units(layout, shipped), *_links(layout, shipped)]
    return [*things, Thing(layout.installer, installer, mode=0o755)] if installer else things


def _users(layout: Layout, shipped: Mapping[str, bytes]) -> Iterator[Thing]:
    for name, path in (("sysusers.conf", layout.sysusers), ("tmpfiles.conf", layout.tmpfiles)):
        if _UNITS + name in shipped:
            yield Thing(path, shipped[_UNITS + name])


def _units(layout: Layout, shipped: Mapping[str, bytes]) -> Iterator[Thing]:
    for name, content in sorted(shipped.items()):
        if name.startswith(_UNITS) and name.endswith((".service", ".timer", ".socket", ".path")):
            yield Thing(layout.units / PurePosixPath(name).name, content)


def _links(layout: Layout, shipped: Mapping[str, bytes]) -> Iterator[Thing]:
    for command in _COMMANDS:
        yield Thing(layout.commands / command, target=str(layout.current / "bin" / command))
    for name in sorted(shipped):
        if name.startswith(_LINKED):
            yield Thing(layout.shared / PurePosixPath(name).relative_to("share"), target=str(layout.current / name))


def placed(layout: Layout) -> list[Path]:
    """The files that earlier runs placed, including killed ones."""
    try:
        names = json.loads(layout.placed.read_text(encoding="utf-8"))
        return [layout.root / str(name).lstrip("/") for name in names]
    except (OSError, ValueError, TypeError):
        return []


def stale(layout: Layout, things: Sequence[Thing]) -> list[Path]:
    """The files of another version that this one does not have."""
    ours = {thing.path for thing in things}
    return [path for path in placed(layout) if path not in ours and _is_still_ours(layout, path)]


def _is_still_ours(layout: Layout, path: Path) -> bool:
    if not path.is_symlink():
        return path.is_file()
    return path.readlink().is_relative_to(layout.base)


def list_placed(hand: Hand, layout: Layout, paths: set[Path]) -> None:
    """List the files before they are placed: a file that is not on the list is never removed."""
    names = sorted(f"/{path.relative_to(layout.root)}" for path in paths)
    content = (json.dumps(names, indent=1) + "\n").encode()
    if not Thing(layout.placed, content).is_there():
        hand.write(layout.placed, content)


def stage(hand: Hand, thing: Thing) -> None:
    """Raises ``OSError``."""
    if thing.target:
        hand.stage_link(thing.path, thing.target)
    else:
        hand.stage(thing.path, thing.content, thing.mode)


def is_unit(layout: Layout, path: Path) -> bool:
    return path.parent == layout.units
