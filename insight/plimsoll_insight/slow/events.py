"""What lines of Ceph's logs say about slow requests, from Jewel to Squid: each line for itself.

The cluster's log has ``cluster [WRN]``; of Quincy and Reef ``cluster 3``.

Dialects of one request: Jewel to Mimic ``slow request 30.0 seconds old, received at T: OP currently STATE``; Nautilus
to early Pacific ``slow request OP initiated T currently STATE``. Sums, since late Pacific: ``N slow requests (by type
[ 'STATE' : N ] most affected pool [ 'P' : N ])``. The OSD's own log has ``get_health_metrics reporting N slow ops,
oldest is OP``, the monitor ``N slow ops, oldest one blocked for S sec, daemons [osd.a,osd.b] have slow ops``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache

from plimsoll_agent.util.frozen import frozen

OSD = int


@frozen
class Operation:
    """One request: ``client.4140.0:39903``. ``image`` is of RBD, ``pool`` the number in its placement group."""

    id: bytes
    is_replica: bool
    """This OSD does a part of another one's request."""
    pool: int | None
    image: str | None


@frozen
class SlowRequest:
    """An OSD complains of one request. ``peers`` are those whose answer it waits for, where the line names them."""

    time: float
    osd: OSD
    state: str
    age: float
    peers: tuple[OSD, ...]
    operation: Operation


@frozen
class SlowCount:
    """An OSD has so many slow requests now."""

    time: float
    osd: OSD
    number: int
    states: Mapping[str, int]
    pools: Mapping[str, int]


@frozen
class Oldest:
    """The oldest slow request of an OSD, by its own log."""

    time: float
    osd: OSD
    number: int
    operation: Operation


@frozen
class Blamed:
    """The monitor names OSDs with slow requests; the oldest is blocked for ``age`` seconds."""

    time: float
    osds: tuple[OSD, ...]
    age: float


@frozen
class Changed:
    """``failed``, ``boot`` or ``wrongly down``."""

    time: float
    osd: OSD
    what: str


@frozen
class Known:
    """Understood, and nothing to count."""


Event = SlowRequest | SlowCount | Oldest | Blamed | Changed | Known
_KNOWN = Known()
_OF_INTEREST = (b"slow request", b"slow ops", b" failed (", b" boot\n", b"wrongly marked", b"but it is still running")
"""Whatever is counted has one of these."""
_CLUSTER = re.compile(rb"\S+(?: [\d:.]+)? (\w+)\.(\S+) .*? : (?:cluster )?(?:\[\w+\]|\d) (.*)", re.DOTALL)
_OF_OSD = re.compile(rb"log_channel\(cluster\) log \[\w+\] : (.*)", re.DOTALL)
_METRICS = re.compile(rb" osd\.(\d+) \d+ get_health_metrics reporting (\d+) slow ops, oldest is (\w+)\((.*)\)")
_OLD = re.compile(rb"slow request ([\d.]+) seconds old, received at \S+ \S+: (\w+)\((.*)\) currently (.*)", re.DOTALL)
_NEW = re.compile(rb"slow request (\w+)\((.*)\) initiated (\S+(?: [\d:.]+)?) currently (.*)", re.DOTALL)
_SUM = re.compile(rb"(\d+) slow requests \(by type \[ (.*?) \](?: most affected pool \[ (.*?) \])?\)")
_BATCH = re.compile(rb"(\d+) slow requests, \d+ included below; oldest blocked for > ([\d.]+) secs")
_HEALTH = re.compile(
    rb"Health check (?:failed|update): \d+ slow (?:ops, oldest one blocked for|requests are blocked >)"
    rb" (\d+) sec[s.,]*"
    rb"(?: (?:daemons \[)?(osd\.[\w.,]+)\]? ha(?:s|ve) slow ops| Implicated osds ([\d,]+))?"
)
_CLEARED = re.compile(rb"Health check cleared: (?:SLOW_OPS|REQUEST_SLOW)|Health detail|overall HEALTH_|HEALTH_WARN")
_FAILED = re.compile(rb"osd\.(\d+) (?:\S+ )?failed \(")
_BOOT = re.compile(rb"osd\.(\d+) \S+ boot$")
_RUNNING = re.compile(rb"Monitor daemon marked osd\.(\d+) down, but it is still running")
_WRONGLY = re.compile(rb"[Mm]ap e\d+ wrongly marked me down")
_PAIR = re.compile(rb"'([^']*)' : (\d+)")
_PEERS = re.compile(rb"waiting for sub ?ops from ([\d,]+)")
_ID = re.compile(rb"(\w+\.\d+\.\d+:\d+)")
_PG = re.compile(rb" (\d+)\.[0-9a-f]+(?:s\d+)? ")
_IMAGE = re.compile(rb"rbd_(?:data|header|object_map)\.(?:\d+\.)?([0-9a-f]{6,})")
_REPLICA = (b"osd_repop", b"osd_sub_op", b"MOSDECSubOp")


def event(line: bytes, osd: OSD | None) -> Event | None:
    """What the line says; None if that is not understood. ``osd`` is whose log it is, None for the cluster's."""
    try:
        time = _time(line)
        if b"get_health_metrics" in line:
            return _oldest(time, line)
        own = _OF_OSD.search(line)
        if own:
            return None if osd is None else _said(time, osd, own[1])
        cluster = _CLUSTER.match(line)
        if not cluster:
            return None
        who = int(cluster[2]) if cluster[1] == b"osd" and cluster[2].isdigit() else None
        return _said(time, who, cluster[3])
    except ValueError:
        return None


def _said(time: float, osd: OSD | None, words: bytes) -> Event | None:
    if osd is not None:
        found = _of_one(time, osd, words)
        if found is not None:
            return found
    health = _HEALTH.search(words)
    if health:
        named = re.findall(rb"\d+", (health[2] or health[3] or b"").replace(b"mon.", b""))
        return Blamed(time, tuple(int(each) for each in named), float(health[1]))
    for pattern, what in ((_FAILED, "failed"), (_BOOT, "boot"), (_RUNNING, "wrongly down")):
        changed = pattern.search(words)
        if changed:
            return Changed(time, int(changed[1]), what)
    return _KNOWN if _CLEARED.search(words) or not any(each in words for each in _OF_INTEREST) else None


def _of_one(time: float, osd: OSD, words: bytes) -> Event | None:
    """What an OSD says of itself."""
    old = _OLD.match(words)
    if old:
        return _request(time, osd, float(old[1]), old[2], old[3], old[4])
    new = _NEW.match(words)
    if new:
        return _request(time, osd, time - _time(new[3]), new[1], new[2], new[4])
    together = _SUM.search(words)
    if together:
        return SlowCount(time, osd, int(together[1]), _pairs(together[2]), _pairs(together[3] or b""))
    batch = _BATCH.search(words)
    if batch:
        return Blamed(time, (osd,), float(batch[2]))
    return Changed(time, osd, "wrongly down") if _WRONGLY.search(words) else None


def _request(time: float, osd: OSD, age: float, kind: bytes, inside: bytes, state: bytes) -> SlowRequest:
    peers = _PEERS.search(state)
    named = tuple(int(each) for each in peers[1].split(b",") if each) if peers else ()
    words = b"waiting for sub ops" if peers else state.strip()
    return SlowRequest(time, osd, words.decode("utf-8", "replace"), max(age, 0.0), named, operation(kind, inside))


def _oldest(time: float, line: bytes) -> Event | None:
    found = _METRICS.search(line)
    return found and Oldest(time, int(found[1]), int(found[2]), operation(found[3], found[4]))


def operation(kind: bytes, inside: bytes) -> Operation:
    """``osd_op(client.4140.0:39903 1.3 1:ce1654c3:::rbd_data.102afe660f2.0000000000000094:head [write …] … e20)``"""
    found, group, image = _ID.search(inside), _PG.search(inside), _IMAGE.search(inside)
    return Operation(
        found[1] if found else inside[:64],
        kind in _REPLICA,
        int(group[1]) if group else None,
        image[1].decode() if image else None,
    )


def _pairs(text: bytes) -> dict[str, int]:
    return {name.decode("utf-8", "replace"): int(number) for name, number in _PAIR.findall(text)}


def _time(text: bytes) -> float:
    """Seconds since the epoch; a time without a zone, as before Octopus, is taken for UTC. Raises ``ValueError``."""
    minute = _minute(text[:16])
    rest = re.match(rb":(\d\d(?:\.\d{1,9})?)(?:([+-])(\d\d)(\d\d)|Z)?", text[16:40])
    if not rest:
        raise ValueError("no time")
    zone = (60 * int(rest[3]) + int(rest[4])) * 60 if rest[2] else 0
    return minute + float(rest[1]) - (zone if rest[2] == b"+" else -zone)


@lru_cache(maxsize=4096)
def _minute(text: bytes) -> float:
    return datetime.fromisoformat(text.decode("ascii")).replace(tzinfo=UTC).timestamp()


def lines(block: bytes) -> Iterator[bytes]:
    """The lines of interest in a block that ends with a newline. One search each is faster than one for all."""
    starts: dict[int, int] = {}
    for words in _OF_INTEREST:
        found = block.find(words)
        while found >= 0:
            end = block.find(b"\n", found)
            starts[block.rfind(b"\n", 0, found) + 1] = end
            found = block.find(words, end)
    for start in sorted(starts):
        yield block[start : starts[start]]
