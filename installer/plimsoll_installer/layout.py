"""The installer's paths on a node; under another root for tests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Layout:
    """All paths that the installer changes."""

    root: Path = Path("/")

    @property
    def is_node(self) -> bool:
        """Whether this is the machine itself and not a directory for a test."""
        return self.root == Path("/")

    @property
    def base(self) -> Path:
        return self.root / "opt/plimsoll"

    @property
    def versions(self) -> Path:
        return self.base / "versions"

    @property
    def wheelhouses(self) -> Path:
        return self.base / "wheelhouses"

    @property
    def installer(self) -> Path:
        """The copy of the installer that operators use for ``rollback`` and ``remove``."""
        return self.base / "install"

    @property
    def current(self) -> Path:
        return self.base / "current"

    @property
    def previous(self) -> Path:
        return self.base / "previous"

    @property
    def intent(self) -> Path:
        """Exists while a change is under way."""
        return self.base / "under-way.json"

    @property
    def placed(self) -> Path:
        """The list of files outside of ``base``."""
        return self.base / "placed.json"

    @property
    def units(self) -> Path:
        return self.root / "etc/systemd/system"

    @property
    def sysusers(self) -> Path:
        return self.root / "etc/sysusers.d/plimsoll.conf"

    @property
    def tmpfiles(self) -> Path:
        return self.root / "etc/tmpfiles.d/plimsoll.conf"

    @property
    def commands(self) -> Path:
        return self.root / "usr/local/bin"

    @property
    def shared(self) -> Path:
        return self.root / "usr/local/share"

    @property
    def settings(self) -> Path:
        return self.root / "etc/plimsoll"

    @property
    def states(self) -> tuple[Path, ...]:
        """The directories that ``remove --state`` removes."""
        return (self.root / "var/lib/plimsoll", self.root / "var/lib/plimsoll-catalogue")


def linked(link: Path) -> str:
    """The last part of the link's target; empty if it is not a link."""
    try:
        return link.readlink().name
    except OSError:
        return ""
