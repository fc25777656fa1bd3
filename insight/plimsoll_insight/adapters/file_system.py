"""A file system of CephFS: its ranks through ``ceph tell``, its settings, and pins through a mount."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TypeVar

from plimsoll_agent.adapters.deadline import Deadlines
from plimsoll_agent.errors import NotFound, PlimsollError, Rejected, Unreachable
from plimsoll_agent.util.concurrency import side_by_side
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import printable
from plimsoll_insight.adapters.cluster import LiveCluster
from plimsoll_insight.mds import answers
from plimsoll_insight.mds.answers import FileSystem
from plimsoll_insight.mds.settings import CephSetting, Name
from plimsoll_insight.mds.watch import RankReading, RanksReading

Answer = TypeVar("Answer")
_AT_ONCE = 8
_ROOT = 1
"""The inode of the root of every file system; a mount of a directory below shows another one."""


@frozen
class LiveFileSystems:
    """As a client that may ``tell`` MDSs: one with ``mon 'allow r' mds 'allow *'``."""

    cluster: LiveCluster

    def all(self) -> list[FileSystem]:
        """Raises ``PlimsollError``."""
        return answers.file_systems(self.cluster.ask("fs", "dump"))

    def fsid(self) -> str:
        """Raises ``PlimsollError``."""
        return answers.fsid(self.cluster.ask("fsid"))

    def hosts(self) -> dict[str, str]:
        """Of the daemons that are up, by their names. Raises ``PlimsollError``."""
        return answers.hosts(self.cluster.ask("mds", "metadata"))

    def reading(self, name: str, *, loads: bool = False) -> RanksReading:
        """``loads``: with those of directories. Raises ``PlimsollError`` where no rank answers."""
        file_system = named(self.all(), name)
        ranks: dict[int, RankReading] = {}
        errors = dict.fromkeys(file_system.inactive, "is not active")

        def ask(rank: int) -> RankReading | PlimsollError:
            try:
                return self._rank(file_system.ranks[rank], loads=loads)
            except PlimsollError as error:
                return error

        for rank, answer in side_by_side(ask, list(file_system.ranks), _AT_ONCE):
            if isinstance(answer, RankReading):
                ranks[rank] = answer
            else:
                errors[rank] = str(answer)
        if not ranks:
            raise Unreachable(f"no rank of {name} answered: {'; '.join(errors.values()) or 'none is active'}")
        return RanksReading(time.time(), dict(sorted(ranks.items())), errors)

    def _rank(self, daemon: str, *, loads: bool) -> RankReading:
        counters = answers.counters(self.tell(daemon, "perf", "dump"), daemon)
        subtrees = answers.subtrees(self.tell(daemon, "get", "subtrees"), daemon)
        return RankReading(
            daemon=daemon, counters=counters, subtrees=subtrees, loads=self._loads(daemon) if loads else None
        )

    def _loads(self, daemon: str) -> dict[str, float] | None:
        """None where it does not answer that: moves are known all the same."""
        try:
            return answers.loads(self.tell(daemon, "dump", "loads"), daemon)
        except PlimsollError:
            return None

    def in_force(self, daemon: str, name: str) -> str:
        """The value of an option that a daemon has. Raises ``PlimsollError``."""
        return answers.setting(self.tell(daemon, "config", "get", name), name, daemon)

    def tell(self, daemon: str, *words: str) -> str:
        return self.cluster.ask("tell", f"mds.{daemon}", *words)


def named(file_systems: list[FileSystem], name: str) -> FileSystem:
    """Raises ``NotFound``."""
    for each in file_systems:
        if each.name == name:
            return each
    raise NotFound(
        f"there is no file system {printable(name)}; there are: {', '.join(each.name for each in file_systems)}"
    )


class DirectoryGone(Rejected):
    """What was pinned is there no more."""


class LiveSettings:
    """Reads and writes settings. Pins need ``mount``: a mount of the root, of a client with ``mds 'allow rwp'``."""

    def __init__(self, live: LiveFileSystems, mount: Path | None) -> None:
        self._live, self._mount = live, mount
        self._calls = Deadlines(live.cluster.deadline, 1)

    def read(self, setting: CephSetting) -> str | None:
        """Raises ``PlimsollError``."""
        match setting.name:
            case Name.AUTOMATE:
                balances = named(self._live.all(), setting.of).balances
                return None if balances is None else str(balances).lower()
            case Name.INTERVAL:
                return answers.stored(self._live.cluster.ask("config", "dump"), setting.of, setting.name)
        return self._in_mount(setting, None)

    def write(self, setting: CephSetting, value: str | None) -> None:
        """None removes it. Raises ``PlimsollError``."""
        ask = self._live.cluster.ask
        match setting.name, value:
            case Name.AUTOMATE, str():
                ask("fs", "set", setting.of, setting.name, value)
            case Name.INTERVAL, str():
                ask("config", "set", setting.of, setting.name, value)
            case Name.INTERVAL, None:
                ask("config", "rm", setting.of, setting.name)
            case _, str():
                self._in_mount(setting, value)

    def check_mount(self, fsid: str, file_system: FileSystem) -> None:
        """Raises ``PlimsollError`` where it is not the root of this file system."""
        mount, names = self._root(), self._live.cluster.pools()
        pools = [names[number] for number in file_system.pools if number in names]

        def check() -> None:
            own, pool = _text(mount, "ceph.cluster_fsid"), _text(mount, "ceph.dir.layout.pool")
            if mount.stat().st_ino != _ROOT:
                raise Rejected(f"--mount {mount}: not the root of a file system of CephFS")
            if own != fsid or pool not in pools:
                raise Rejected(f"--mount {mount} has its data in pool {pool} of cluster {own}, and {file_system.name}"
                               f" in {', '.join(pools)} of {fsid}")  # fmt: skip

        self._call(check, mount)

    def _root(self) -> Path:
        """Raises ``NotFound``."""
        if self._mount is None:
            raise NotFound("pins are set through a mount of the file system's root: give --mount DIR")
        return self._mount

    def _in_mount(self, setting: CephSetting, value: str | None) -> str:
        """Reads a pin, after it was written where there is a value. Raises ``PlimsollError``."""
        mount, name = self._root(), str(setting.name)

        def call() -> str:
            with _directory(mount, setting.of) as descriptor:
                if value is not None:
                    os.setxattr(descriptor, name, value.encode())
                return _text(descriptor, name)

        return self._call(call, mount / setting.of.lstrip("/"), f"{name}: ")

    def _call(self, call: Callable[[], Answer], path: Path, what: str = "") -> Answer:
        """Raises ``PlimsollError``."""
        try:
            return self._calls.call("the mount", call)
        except FileNotFoundError as error:
            raise DirectoryGone(f"{printable(str(path))}: {what}{_words(error)}") from error
        except OSError as error:
            raise Rejected(f"{printable(str(path))}: {what}{_words(error)}") from error


def _words(error: OSError) -> str:
    match error.errno:
        case errno.ENODATA | errno.ENOTSUP:
            return "not a mount of CephFS, or of a client that is too old for this attribute"
        case errno.EACCES | errno.EPERM:
            return f"{error.strerror}; the mount's client needs mds 'allow rwp'"
        case errno.ELOOP | errno.ENOTDIR:
            return "not a directory; links are not followed"
    return error.strerror or str(error)


def _text(of: int | Path, name: str) -> str:
    """Raises ``OSError``."""
    return printable(os.getxattr(of, name).decode("ascii", "replace"))


@contextmanager
def _directory(mount: Path, path: str) -> Iterator[int]:
    """Step by step from the mount: tenants may put a link in the place of any directory. Raises ``OSError``."""
    descriptor = os.open(mount, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in PurePosixPath(path).parts[1:]:
            inside = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inside
        yield descriptor
    finally:
        os.close(descriptor)
