"""What Ceph answers about file systems, ranks and subtrees."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeVar

from plimsoll_agent.errors import Rejected
from plimsoll_agent.util.decoding import UNREADABLE, complaint, count, flag, maybe, number, text
from plimsoll_agent.util.frozen import frozen

Value = TypeVar("Value")
_OWN = "~"
"""What a path begins with that is a rank's own, as ``~mds0``: it never moves."""
_INODE = re.compile(r"^0x([0-9a-f]+)\.?")
_NO_NUMBER = re.compile(r'("halflife"|"meta_load"): ?-?(?:inf|nan)\b')
"""``dump loads`` has the rate of an empty counter as ``-inf`` (16.2.15), which is no JSON."""
_WEIGHTS = (1, 2, 1, 2, 4)
"""What the balancer takes a read and a write of an inode, a listing, a fetch and a store of a directory for
(``meta_load`` in Ceph's src/mds/mdstypes.h, the same from Jewel to Tentacle)."""


class UnreadableAnswer(Rejected):
    """Ceph's answer is not what this release of plimsoll knows."""


@frozen(kw_only=True)
class FileSystem:
    """``ranks``: the daemon of each that is active. ``balances`` is its setting; None where the release has none.
    ``pools`` are those of its data, by their numbers.
    """

    id: int
    name: str
    ranks: Mapping[int, str]
    inactive: Sequence[int]
    balances: bool | None
    pools: Sequence[int]


@frozen(kw_only=True)
class RankCounters:
    """Since the daemon's start, down to ``imported``; then those of the moment. Seconds and bytes.

    A request that is forwarded counts as one. ``exported`` and ``imported`` are subtrees.
    """

    requests: int
    forwards: int
    replies: int
    reply_seconds: float
    exported: int
    imported: int
    sessions: int
    inodes: int
    caps: int
    subtrees: int
    cache: int | None


@frozen
class Directory:
    """A directory, or a fragment of it: ``0110`` of ``10000000004.0110*``."""

    path: str
    fragment: str = ""
    inode: str = field(default="", compare=False)
    """Of the directory: one that was removed and made again is another one at the same place."""


Owners = Mapping[Directory, int]
"""The roots of subtrees, with the rank that has each."""


@frozen
class Subtrees:
    """What a rank has itself, and what it has heard of ``others``."""

    own: Owners
    others: Owners


def file_systems(answer: str) -> list[FileSystem]:
    """Of ``ceph fs dump``. Raises ``UnreadableAnswer``."""
    return _read(answer, "ceph fs dump", lambda dump: [_file_system(each) for each in dump["filesystems"]])


def _file_system(entry: Mapping[str, Any]) -> FileSystem:
    mds_map = entry["mdsmap"]
    active = {count(each["rank"]): text(each["name"]) for each in mds_map["info"].values()
              if each["state"] == "up:active"}  # fmt: skip
    inactive = [rank for rank in map(count, mds_map["in"]) if rank not in active]
    balances = maybe(flag, mds_map.get("flags_state", {}).get("balance_automate"))
    ranks, pools = dict(sorted(active.items())), list(map(count, mds_map["data_pools"]))
    return FileSystem(
        id=count(entry["id"]),
        name=text(mds_map["fs_name"]),
        ranks=ranks,
        inactive=inactive,
        balances=balances,
        pools=pools,
    )


def counters(answer: str, daemon: str) -> RankCounters:
    """Of ``perf dump``. Raises ``UnreadableAnswer``."""
    return _read(answer, f"perf dump of mds.{daemon}", _counters)


def _counters(dump: Mapping[str, Any]) -> RankCounters:
    mds = dump["mds"]
    return RankCounters(
        requests=count(mds["request"]), forwards=count(mds["forward"]),
        replies=count(mds["reply_latency"]["avgcount"]), reply_seconds=number(mds["reply_latency"]["sum"]),
        exported=count(mds["exported"]), imported=count(mds["imported"]),
        sessions=count(dump["mds_sessions"]["session_count"]),
        inodes=count(mds["inodes"]), caps=count(mds["caps"]), subtrees=count(mds["subtrees"]),
        cache=maybe(count, dump.get("mempool", {}).get("mds_co_bytes")),
    )  # fmt: skip


def subtrees(answer: str, daemon: str) -> Subtrees:
    """What a rank knows, by ``get subtrees``. Raises ``UnreadableAnswer``."""
    return _read(answer, f"get subtrees of mds.{daemon}", _subtrees)


def _subtrees(roots: Sequence[Mapping[str, Any]]) -> Subtrees:
    own: dict[Directory, int] = {}
    others: dict[Directory, int] = {}
    for each in roots:
        if not each["dir"]["path"].startswith(_OWN):
            at = directory(each["dir"]["path"], each["dir"]["dirfrag"])
            (own if flag(each["is_auth"]) else others)[at] = count(each["auth_first"])
    return Subtrees(own, others)


def loads(answer: str, daemon: str) -> dict[str, float]:
    """By path, how much of its work a rank had in the directory itself, by ``dump loads``: a sum of counters that
    decay, of which only the share is of use. Raises ``UnreadableAnswer``.
    """
    return _read(_NO_NUMBER.sub(r"\1: null", answer), f"dump loads of mds.{daemon}", _loads)


def _loads(dump: Mapping[str, Any]) -> dict[str, float]:
    by_path: defaultdict[str, float] = defaultdict(float)
    for each in dump["dirfrags"]:
        counters = [number(one["value"]) for one in each["pop_me"]["Decay Counters"]]
        path = directory(each["path"], each["dirfrag"]).path
        by_path[path] += sum(weight * value for weight, value in zip(_WEIGHTS, counters, strict=True))
    return dict(by_path)


def directory(path: str, dirfrag: str) -> Directory:
    """Of the path and ``0x10000000004.0110*`` as Ceph prints them."""
    inode = _INODE.match(text(dirfrag))
    return Directory(
        text(path).rstrip("/") or "/", _INODE.sub("", dirfrag).rstrip("*"), inode[1] if inode is not None else ""
    )


def setting(answer: str, name: str, daemon: str) -> str:
    """What a daemon has in force, by ``config get``. Raises ``UnreadableAnswer``."""
    return _read(answer, f"config get {name} of mds.{daemon}", lambda values: text(values[name]))


def fsid(answer: str) -> str:
    """Of ``ceph fsid``. Raises ``UnreadableAnswer``."""
    return _read(answer, "ceph fsid", lambda values: text(values["fsid"]))


def hosts(answer: str) -> dict[str, str]:
    """Of ``ceph mds metadata``, by the names of daemons that are up. Raises ``UnreadableAnswer``."""
    return _read(answer, "ceph mds metadata", lambda all: {
        text(each["name"]): text(each["hostname"]) for each in all if "hostname" in each})  # fmt: skip


def stored(answer: str, section: str, name: str) -> str | None:
    """The value of an option in the monitors' database, for all of the section; None for none. Raises as above."""
    return _read(answer, "ceph config dump", lambda entries: next(
        (text(each["value"]) for each in entries
         if (each["section"], each["name"], each.get("mask", "")) == (section, name, "")), None))  # fmt: skip


def _read(answer: str, what: str, read: Callable[[Any], Value]) -> Value:
    try:
        return read(json.loads(answer))
    except UNREADABLE as error:
        raise UnreadableAnswer(f"{what}: not the JSON that is known: {complaint(error)}") from None
