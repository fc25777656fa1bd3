"""A wheelhouse: all wheels that one version needs on one kind of machine, with their checksums."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from plimsoll_installer.errors import InstallError
from plimsoll_installer.machine import Machine

SUMS = "SHA256SUMS"
DESCRIPTION = "wheelhouse.json"
CONSTRAINTS = "constraints.txt"
INSTALLER = "install"
BASE = "base"
_WORD = r"[A-Za-z0-9][A-Za-z0-9._+-]*"


@dataclass(frozen=True, slots=True)
class Wheelhouse:
    """An unpacked wheelhouse."""

    directory: Path
    version: str
    machine: Machine
    needs: Mapping[str, tuple[str, ...]]
    """File names of the dependencies' wheels: without extras (``base``), and with each extra."""

    @property
    def extras(self) -> tuple[str, ...]:
        return tuple(sorted(self.needs.keys() - {BASE}))

    def wheels(self, extras: Iterable[str]) -> list[Path]:
        """All wheels to install for plimsoll with these extras."""
        names = {name for need in (BASE, *extras) for name in self.needs[need]}
        return [self.wheel, *(self.directory / name for name in sorted(names))]

    @property
    def name(self) -> str:
        return name_of(self.version, self.machine)

    @property
    def wheel(self) -> Path:
        """plimsoll's wheel."""
        return self.directory / f"plimsoll_agent-{self.version}-py3-none-any.whl"

    @property
    def pip(self) -> Path:
        """The wheel of pip, so that the node needs no pip."""
        for file in sorted(self.directory.glob("pip-*.whl")):
            return file
        raise InstallError(f"{self.directory}: has no wheel of pip; build it again with script/wheelhouse")

    @property
    def digest(self) -> str:
        """Differs from that of another build with the same name."""
        try:
            return hashlib.sha256((self.directory / SUMS).read_bytes()).hexdigest()
        except OSError as error:
            raise _unreadable(self.directory / SUMS, error) from error

    def files(self) -> list[Path]:
        """All files of the wheelhouse."""
        return [self.directory / SUMS, *(self.directory / name for name in self._sums())]

    def verify(self) -> int:
        """Check all files against their sums; returns how many. Raises ``InstallError`` at the first wrong one."""
        sums = self._sums()
        for name in (
            DESCRIPTION,
            INSTALLER,
            self.wheel.name,
            *(name for need in self.needs.values() for name in need),
        ):
            if name not in sums:
                raise InstallError(f"{self.directory / SUMS}: does not list {name}; unpack the wheelhouse again")
        for name, known in sums.items():
            try:
                with (self.directory / name).open("rb") as content:
                    found = hashlib.file_digest(content, "sha256").hexdigest()
            except OSError as error:
                raise _unreadable(self.directory / name, error) from error
            if found != known:
                raise InstallError(
                    f"{self.directory / name}: is not the file that was built: its SHA-256 is not the one in {SUMS};"
                    " unpack the wheelhouse again, and if that does not help, fetch it again"
                )
        return len(sums)

    def fit(self, here: Machine) -> None:
        """Raises ``InstallError`` where it was built for another kind of machine."""
        if self.machine == here:
            return
        differs = [
            f"{what} {theirs}, and this node has {ours}"
            for what, theirs, ours in (
                ("the operating system", self.machine.os, here.os),
                ("Python", self.machine.python, here.python),
                ("the processor", self.machine.arch, here.arch),
            )
            if theirs != ours
        ]
        raise InstallError(
            f"{self.name} is for {'; for '.join(differs)}. Run script/wheelhouse on such a machine, and install"
            f" {name_of(self.version, here)} here"
        )

    def shipped(self) -> dict[str, bytes]:
        """The data files of plimsoll's wheel, by their path in the environment."""
        top = f"plimsoll_agent-{self.version}.data/data/"
        with zipfile.ZipFile(self.wheel) as archive:
            return {
                name.removeprefix(top): archive.read(name)
                for name in archive.namelist()
                if name.startswith(top) and not name.endswith("/")
            }

    def _sums(self) -> dict[str, str]:
        path = self.directory / SUMS
        try:
            lines = path.read_text(encoding="ascii").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise _unreadable(path, error) from error
        sums = {}
        for line in lines:
            match = re.fullmatch(rf"([0-9a-f]{{64}})  ({_WORD})", line)
            if match is None:
                raise InstallError(f"{path}: {line[:80]!r} is not a sum and a file name; unpack the wheelhouse again")
            sums[match[2]] = match[1]
        return sums


def name_of(version: str, machine: Machine) -> str:
    """The name of the directory and of the tarball."""
    return f"plimsoll-{version}-{machine}"


def load(directory: Path) -> Wheelhouse:
    """The wheelhouse in a directory. Raises ``InstallError``."""
    path = directory / DESCRIPTION
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        words = [content[key] for key in ("version", "os", "python", "arch")]
        needs = {extra: tuple(names) for extra, names in content["wheels"].items()}
        for word in (*words, *needs, *needs[BASE], *(name for names in needs.values() for name in names)):
            if not re.fullmatch(_WORD, word):
                raise ValueError(f"{word!r} is not a name")
    except FileNotFoundError as error:
        raise InstallError(
            f"{directory}: is not a wheelhouse: {DESCRIPTION} is missing. Unpack one and run the install in it, or"
            " name it with --wheelhouse"
        ) from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _unreadable(path, error) from error
    version, *machine = words
    return Wheelhouse(directory, version, Machine(*machine), needs)


def _unreadable(path: Path, error: Exception) -> InstallError:
    why = error.strerror if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
    return InstallError(f"{path}: cannot be read: {why}; unpack the wheelhouse again")
