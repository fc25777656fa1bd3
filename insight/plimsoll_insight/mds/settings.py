"""The settings that end thrashing, as steps from one value to another, and the way back. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import PurePosixPath

from plimsoll_agent.errors import UsageError
from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.mds.answers import Directory, FileSystem, Owners
from plimsoll_insight.mds.moves import Authority

NOT_PINNED = {"ceph.dir.pin": "-1", "ceph.dir.pin.distributed": "0", "ceph.dir.pin.random": "0"}
"""The extended attributes of a directory, with their values where it has no pin."""


class Name(StrEnum):
    AUTOMATE = "balance_automate"
    """Of a file system, since Reef."""
    INTERVAL = "mds_bal_interval"
    """Of all file systems of a cluster; 0 is no balancing."""
    PIN = "ceph.dir.pin"
    DISTRIBUTED = "ceph.dir.pin.distributed"
    RANDOM = "ceph.dir.pin.random"


PINS = (Name.PIN, Name.DISTRIBUTED, Name.RANDOM)


@frozen
class CephSetting:
    """``of``: the file system, the section of the monitors' database, or the directory."""

    name: Name
    of: str


@frozen
class SettingStep:
    """None is a value that is not set."""

    setting: CephSetting
    before: str | None
    after: str | None


Read = Callable[[CephSetting], str | None]
"""Raises ``PlimsollError``."""


def balancing_off(file_system: FileSystem) -> tuple[CephSetting, str]:
    """The setting, and its value."""
    if file_system.balances is None:
        return CephSetting(Name.INTERVAL, "mds"), "0"
    return CephSetting(Name.AUTOMATE, file_system.name), "false"


def pin_of(text: str, ranks: Sequence[int]) -> tuple[str, Mapping[Name, str]]:
    """``/home=distributed``, ``/home/a=2``, ``/home=0.01`` or ``/home=none``. Raises ``UsageError``."""
    path, _, where = text.rpartition("=")
    directory = str(PurePosixPath("/", path.lstrip("/")))  # two slashes at the begin are a root of their own
    if not path.startswith("/") or directory == "/" or ".." in PurePosixPath(path).parts:
        raise UsageError(
            f"--pin {text}: write DIR=RANK, DIR=distributed, DIR=SHARE or DIR=none, with DIR below the root of the"
            " file system: Ceph pins no root"
        )
    values = {Name.PIN: "-1", Name.DISTRIBUTED: "0", Name.RANDOM: "0"}
    if where == "distributed":
        return directory, {**values, Name.DISTRIBUTED: "1"}
    if where == "none":
        return directory, values
    if where.isdecimal():
        if int(where) not in ranks:
            raise UsageError(f"--pin {text}: no rank {where} is active; there are {', '.join(map(str, ranks))}")
        return directory, {**values, Name.PIN: str(int(where))}
    return directory, {**values, Name.RANDOM: _share(text, where)}


def _share(text: str, where: str) -> str:
    """Raises ``UsageError``."""
    try:
        share = float(where)
    except ValueError:
        share = -1.0
    if not 0 < share <= 1:
        raise UsageError(f"--pin {text}: {where!r} is no rank, no share of directories such as 0.01, not distributed")
    return f"{share:g}"


def gathered(owners: Owners, rank: int) -> list[str]:
    """The directories below the root that must be pinned to a rank so that it has everything."""
    away = {PurePosixPath(each.path) for each, owner in owners.items() if owner != rank}
    return sorted({f"/{path.parts[1]}" for path in away if len(path.parts) > 1})


def steps(desired: Sequence[tuple[CephSetting, str]], read: Read) -> list[SettingStep]:
    """What differs, with what is there now. Raises what ``read`` does."""
    changes = [SettingStep(setting, read(setting), value) for setting, value in desired]
    return [step for step in changes if not is_same(step.before, step.after)]


def is_same(first: str | None, second: str | None) -> bool:
    """``0.01`` and ``0.010000`` are one."""
    try:
        return first == second or float(first or "") == float(second or "")
    except ValueError:
        return False


def pins_last(values: Mapping[Name, str]) -> list[tuple[Name, str]]:
    """What is removed first: Ceph takes one of the three."""
    return sorted(values.items(), key=lambda pair: pair[1] != NOT_PINNED[pair[0]])


def spread_by(desired: Sequence[tuple[CephSetting, str]]) -> list[str]:
    """The directories whose contents ranks spread in their own time; by themselves they are on any rank."""
    return [setting.of for setting, value in desired
            if setting.name in (Name.DISTRIBUTED, Name.RANDOM) and value != NOT_PINNED[setting.name]]  # fmt: skip


def strays(desired: Sequence[tuple[CephSetting, str]], owners: Owners) -> list[str]:
    """Directories that are not on the rank that they are pinned to; those below with a pin of their own may be."""
    of_rank = {setting.of: int(value) for setting, value in desired if setting.name is Name.PIN and int(value) >= 0}
    others = {setting.of for setting, _ in desired if setting.name in PINS} - of_rank.keys()
    authority = Authority(owners)
    away = []
    for path, rank in of_rank.items():
        owner = authority.of(Directory(path))
        if owner != rank:
            away.append(f"{path} is on rank {'?' if owner is None else owner}")
    for each, owner in owners.items():
        parents = [each.path, *map(str, PurePosixPath(each.path).parents)]
        nearest = next((path for path in parents if path in of_rank or path in others), None)
        if nearest in of_rank and owner != of_rank[nearest]:
            away.append(f"{each.path} is on rank {owner}, below {nearest} of rank {of_rank[nearest]}")
    return list(dict.fromkeys(away))
