"""What a cluster answers about its OSDs, their placement groups and what is set for them. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import field
from datetime import datetime
from typing import Any

from plimsoll_agent.errors import Rejected
from plimsoll_agent.util import ceph_json
from plimsoll_agent.util.decoding import UNREADABLE, complaint, several
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import printable
from plimsoll_insight.slow.tree import NO_OSD, Tree

_STUCK = ("down", "incomplete")
"""In its state, a placement group waits for an OSD that is down: it does not peer on."""
_MOVING = ("peering", "activating", "unknown", "creating", "wait")
EXPECTED = frozenset(
    [
        "PG_AVAILABILITY",
        "PG_DEGRADED",
        "OBJECT_MISPLACED",
        "SLOW_OPS",
        "REQUEST_SLOW",
        "REQUEST_STUCK",
        "OSDMAP_FLAGS",
        "OSD_FLAGS",
        "PG_NOT_SCRUBBED",
        "PG_NOT_DEEP_SCRUBBED",
        "RECENT_CRASH",
        "OSD_SLOW_PING_TIME_BACK",
        "OSD_SLOW_PING_TIME_FRONT",
        "POOL_APP_NOT_ENABLED",
        "POOL_NO_REDUNDANCY",
        "POOL_TOO_FEW_PGS",
        "POOL_TOO_MANY_PGS",
        "TOO_MANY_PGS",
        "TOO_FEW_PGS",
        "OBJECT_UNFOUND",
        "OSD_NEARFULL",
        "OSD_BACKFILLFULL",
        "POOL_NEARFULL",
        "POOL_NEAR_FULL",
        "POOL_BACKFILLFULL",
        "PG_BACKFILL_FULL",
        "CEPHADM_FAILED_DAEMON",
        "MGR_MODULE_DEPENDENCY",
        "BLUESTORE_SLOW_OP_ALERT",
        "BLOCK_DEVICE_STALLED_READ_ALERT",
        "DB_DEVICE_STALLED_READ_ALERT",
        "WAL_DEVICE_STALLED_READ_ALERT",
        "DEGRADED_STRETCH_MODE",
        "RECOVERING_STRETCH_MODE",
        "FS_DEGRADED",
        "MDS_CLIENTS_LAGGY",
        "MDS_SLOW_METADATA_IO",
        "MDS_SLOW_REQUEST",
        "MDS_TRIM",
    ]
)
"""Health checks that OSDs raise which are down, or which have to do neither with OSDs nor with their return. Objects
are unfound whose newest copy is on one that is down, others fill with copies of what it had, cephadm counts its unit
as failed, MDSs wait for its groups and keep clients that do, too, and a stretched cluster goes on with one of its two
sites; OSDs keep alerts on slow operations for a day. On Debian 13 some modules
of the manager cannot be imported.
"""
_DOWN = re.compile(r"OSD_(?:[A-Z]+_)?DOWN")
_UNFOUND = re.compile(
    r"Possible data damage: \d+ pgs? (?:recovery|backfill)_unfound(?:, \d+ pgs? backfill_unfound)?", re.ASCII
)
"""Of ``PG_DAMAGED``, without other damage: with ``OBJECT_UNFOUND`` Ceph raises that, too (``PGMap.cc``)."""
BLOCKING_FLAGS = frozenset({"noup", "noin", "pauserd", "pausewr"})
"""With one of them no OSD that starts serves again."""
_ROW = re.compile(r"(\d+\.[0-9a-f]+)\t\[([\d,]*)\]\t", re.ASCII)


@frozen
class ReturnGroup:
    """A placement group."""

    state: str
    acting: tuple[int, ...]

    @property
    def is_inactive(self) -> bool:
        """It serves no request; a stale one is as it was when its last OSD went."""
        words = self.state.split("+")
        return "active" not in words or "stale" in words

    @property
    def is_moving(self) -> bool:
        """It is on its way to another state by itself."""
        words = self.state.split("+")
        return any(word in words for word in _MOVING) and not any(word in words for word in _STUCK)

    @property
    def is_recovering(self) -> bool:
        """It moves, or copies objects, or waits until it may."""
        return self.is_moving or "recover" in self.state or "backfill" in self.state

    @property
    def is_clean(self) -> bool:
        words = set(self.state.split("+"))
        return {"active", "clean"} <= words and "stale" not in words


@frozen(kw_only=True)
class Osd:
    is_up: bool
    is_destroyed: bool
    down_since: float | None
    """Seconds since the Unix epoch; None is unknown: of one whose connections were refused, Ceph keeps none."""
    down_at: int
    """The epoch of the map since which it is down."""
    flags: frozenset[str] = frozenset()
    """Its own, of those with which it does not serve again."""
    is_auto_out: bool = False
    """The monitors took it out because it was down, and take it in when it is up again."""


@frozen(kw_only=True)
class OsdMap:
    fsid: str
    modified: float
    """Seconds since the Unix epoch."""
    flags: frozenset[str]
    osds: Mapping[int, Osd]
    group_flags: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Of buckets and OSDs of the CRUSH map, and of device classes, by their names."""

    @property
    def up(self) -> frozenset[int]:
        return frozenset(number for number, osd in self.osds.items() if osd.is_up)

    def blocked(self, osds: Collection[int], tree: Tree) -> dict[str, str]:
        """What keeps some of these OSDs from serving again, and the command that ends it."""
        names: dict[str, str] = {}
        for osd in osds:
            for flag in sorted(self.osds[osd].flags):
                names[f"osd.{osd} has the flag {flag}"] = f"ceph osd rm-{flag} osd.{osd}"
            above = [name for _, name in tree.bucket_of[osd].path] if osd in tree.bucket_of else []
            for name in (f"osd.{osd}", tree.class_of.get(osd, ""), *above):
                for flag in sorted(self.group_flags.get(name, frozenset()) & BLOCKING_FLAGS):
                    names[f"{printable(name)} has the flag {flag}"] = f"ceph osd unset-group {flag} {printable(name)}"
        return names

    @property
    def down(self) -> list[int]:
        """Those that could return."""
        return sorted(number for number, osd in self.osds.items() if not osd.is_up and not osd.is_destroyed)


def osd_map(text: str) -> OsdMap:
    """Of ``ceph osd dump`` as JSON. Raises ``Rejected``."""
    try:
        document = ceph_json.parse(text)
        more = {int(each["osd"]): each for each in document["osd_xinfo"]}
        osds = {int(each["osd"]): _osd(each, more.get(int(each["osd"]))) for each in document["osds"]}
        groups = {**document.get("crush_node_flags", {}), **document.get("device_class_flags", {})}
        moment = datetime.fromisoformat(document["modified"]).timestamp()
        return OsdMap(
            fsid=str(document["fsid"]),
            modified=moment,
            flags=frozenset(str(document["flags"]).split(",")),
            osds=osds,
            group_flags={str(name): frozenset(map(str, flags)) for name, flags in groups.items()},
        )
    except UNREADABLE as error:
        raise Rejected(f"ceph osd dump cannot be read: {complaint(error)}") from error


def _osd(entry: Mapping[str, Any], more: Mapping[str, Any] | None) -> Osd:
    # One whose connections were refused keeps the time at which it went down before.
    is_of_before = more is None or more.get("dead_epoch", 0) >= entry.get("up_from", math.inf)
    since = None if more is None or is_of_before else _moment(more["down_stamp"])
    is_gone = not {"destroyed", "new"}.isdisjoint(entry["state"]) or "exists" not in entry["state"]
    return Osd(
        is_up=bool(entry["up"]),
        is_destroyed=is_gone,
        down_since=since,
        down_at=int(entry["down_at"]),
        flags=BLOCKING_FLAGS.intersection(entry["state"]),
        is_auto_out="autoout" in entry["state"],
    )


def _moment(text: str) -> float | None:
    """``0.000000`` where it was never down."""
    return None if text.startswith("0.0") else datetime.fromisoformat(text).timestamp()


def groups(text: str) -> dict[str, ReturnGroup]:
    """Of ``ceph pg dump pgs_brief`` as JSON, by their ids. Raises ``Rejected``."""
    try:
        document = json.loads(text)
        rows = document["pg_stats"] if isinstance(document, dict) else document
        return {
            str(row["pgid"]): ReturnGroup(str(row["state"]), tuple(osd for osd in row["acting"] if osd != NO_OSD))
            for row in rows
        }
    except UNREADABLE as error:
        raise Rejected(f"ceph pg dump pgs_brief cannot be read: {complaint(error)}") from error


def log_sizes(text: str) -> dict[str, int]:
    """Entries of the logs of placement groups: of ``ceph pg dump pgs`` as JSON, by their ids. Raises ``Rejected``."""
    try:
        document = json.loads(text)
        rows = document["pg_stats"] if isinstance(document, dict) else document
        # Of an unknown one the manager has no report, and 0.
        return {str(row["pgid"]): int(row["log_size"]) for row in rows if row.get("state") != "unknown"}
    except UNREADABLE as error:
        raise Rejected(f"ceph pg dump pgs cannot be read: {complaint(error)}") from error


def full_placement(text: str) -> dict[str, tuple[int, ...]]:
    """Where placement groups are: of ``osdmaptool --test-map-pgs-dump``. Raises ``Rejected``."""
    rows = {group: tuple(map(int, osds.split(","))) for group, osds in _ROW.findall(text) if osds}
    if not rows:
        raise Rejected("osdmaptool --test-map-pgs-dump: no placement group in what it prints")
    return {group: tuple(osd for osd in osds if osd != NO_OSD) for group, osds in rows.items()}


@frozen
class ReturnHealth:
    checks: Mapping[str, str]
    """The summary of each check."""
    writes: float | None
    """Of clients, a second. Ceph leaves them out where there are none, and where all wait."""

    def unexpected(self, exceptions: Collection[str]) -> list[str]:
        """Checks that are not raised by OSDs that are down, each with its summary."""
        return [
            f"{name} ({printable(words)})" for name, words in sorted(self.checks.items())
            if name not in EXPECTED and not _DOWN.fullmatch(name) and name not in exceptions
            and not (name == "PG_DAMAGED" and _UNFOUND.fullmatch(words))
        ]  # fmt: skip


def health(text: str) -> ReturnHealth:
    """Of ``ceph status`` as JSON. Raises ``Rejected``."""
    try:
        document = json.loads(text)
        checks = {
            str(name): str(check["summary"]["message"])[:200] for name, check in document["health"]["checks"].items()
        }
        writes = document["pgmap"].get("write_op_per_sec")
        return ReturnHealth(checks, None if writes is None else float(writes))
    except UNREADABLE as error:
        raise Rejected(f"ceph status cannot be read: {complaint(error)}") from error


def is_same(one: str | None, other: str | None) -> bool:
    """Whether two values of a setting are: the monitors keep ``0.1`` as ``0.100000``."""
    return one == other or (one is not None and other is not None and _plain(one) == _plain(other))


def _plain(value: str) -> str | float:
    try:
        return float({"true": "1", "false": "0"}.get(value.lower(), value))
    except ValueError:
        return value


def osd_section(text: str) -> dict[str, str]:
    """What the monitors' configuration has for all OSDs: of ``ceph config dump`` as JSON. Raises ``Rejected``."""
    try:
        return {
            str(row["name"]): str(row["value"])
            for row in several(dict, json.loads(text)) if row["section"] == "osd" and not row.get("mask")
        }  # fmt: skip
    except UNREADABLE as error:
        raise Rejected(f"ceph config dump cannot be read: {complaint(error)}") from error
