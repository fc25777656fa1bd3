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
from datetime import UTC, datetime, tzinfo
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
    image_pool: int | None
    """The pool that has the image's name; its data may be in another one."""


@frozen
class SlowRequest:
    """An OSD complains of one request. ``peers`` are those whose answer it waits for, where the line names them."""

    time: float
    osd: OSD
    state: str
    age: float
    peers: tuple[OSD, ...]
    operation: Operation
    tells_locks: bool
    """Whether a wait for a lock would be told as that. Since Nautilus logs call it ``delayed``, as other waits."""


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
    """OSDs with slow requests, by the monitor. ``age`` is 0 where it names several: no line says whose it is."""

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


LOCKS, REPLICAS, UNKNOWN = "waiting for rw locks", "waiting for sub ops", "unknown"
OTHERS = frozenset({LOCKS, REPLICAS, UNKNOWN})
"""States in which an OSD is not to blame, or it is unknown."""
Event = SlowRequest | SlowCount | Oldest | Blamed | Changed | Known
_KNOWN = Known()
_MOST_OSDS = 1 << 15
"""Of a cluster: it bounds the memory that a hostile log can take."""
_OF_INTEREST = (
    b"slow request",
    b"stuck requests",
    b"slow ops",
    b" failed (",
    b" boot\n",
    b"wrongly marked",
    b"but it is still running",
)
"""Whatever is counted has one of these."""
HEAD = re.compile(
    rb"(?:(?:\w{3} [ \d]\d [\d:]{8}|\d\S{18,40}) \S{1,255} (?:\S*?osd[.-](\d{1,6}))?\S*?\[\d+\]: )?(?:debug )?"
)
"""Before the time: of a container's output, and of syslog with the daemon's name in it."""
REPEATED = re.compile(rb" *-?\d{1,5}> ")
"""Of an OSD that crashes: it prints its last 10,000 lines again."""
_CLUSTER = re.compile(rb"\S+(?: [\d:.]+)? (\w+)\.(\S+) (?:\[\w+\]|.*? : (?:cluster )?(?:\[\w+\]|\d)) (.*)", re.DOTALL)
"""In a file, or shorter, as ``ceph -w`` prints it."""
_OF_OSD = re.compile(rb"log_channel\(cluster\) log (?:\[\w+\]|\d) : (.*)", re.DOTALL)
_METRICS = re.compile(rb" osd\.(\d+) \d+ get_health_metrics reporting (\d{1,9}) slow ops, oldest is (\w+)\((.*)\)")
_WHAT = rb"(?:([\w ]{1,40}?)\((.*)\)|([^(]{1,500}))"
_OLD = re.compile(
    rb"slow request ([\d.]+) seconds old, received at \S+ \S+: " + _WHAT + rb" currently (.*)", re.DOTALL
)
_NEW = re.compile(rb"slow request " + _WHAT + rb" initiated (\S+(?: [\d:.]+)?) currently (.*)", re.DOTALL)
_SUM = re.compile(rb"(\d{1,9}) slow requests \(by type \[ ([^][]*) \](?: most affected pool \[ ([^][]*) \])?\)")
_BATCH = re.compile(rb"\d{1,9} slow requests, \d+ included below; oldest blocked for > ([\d.]+) secs")
_HEALTH = re.compile(
    rb"Health check (?:failed|update): \d+ (?:slow ops, oldest one blocked for|(?:slow|stuck) requests are blocked >)"
    rb" (\d{1,9}) sec[s.,]*(?: Implicated osds ([\d,]+)|(.*))",
    re.DOTALL,
)
_DAEMON = re.compile(rb"\b(osd|mon|mds|mgr)[.,]([\w-]+)")
"""``osd.1``; in a list of early Nautilus ``osd,1``."""
_CLEARED = re.compile(
    rb"Health check cleared: |Health detail|overall HEALTH_|HEALTH_WARN|MDSs? reports? slow|MDS_SLOW_"
)
_OF_OTHERS = re.compile(rb"client_request\(|peer_request|slave_request")
"""Kinds of requests to a metadata server."""
_FAILED = re.compile(rb"osd\.(\d+) (?:\S+ )?failed \(")
_BOOT = re.compile(rb"osd\.(\d+) \S+ boot$")
_RUNNING = re.compile(rb"Monitor daemon marked osd\.(\d+) down, but it is still running")
_WRONGLY = re.compile(rb"[Mm]ap e\d+ wrongly marked me down( at e)?")
"""With its end, as since Luminous, it follows the line above in the same moment."""
_PAIR = re.compile(rb"'([^']*)' : (\d{1,9})\b")
_PEERS = re.compile(rb"waiting for sub ?ops from ([\d,]+)")
_SUB_OP = re.compile(rb"sub_op_(?:commit|applied)_rec")
_ID = re.compile(rb"\b(\w{1,64}\.\d+\.\d+:\d+)")
_PG = re.compile(rb"(?:^|[ (])(\d{1,9})\.[0-9a-f]+(?:s\d+)? ")
_IMAGE = re.compile(
    rb"rbd_(?:data\.(?:(\d{1,9})\.)?([0-9a-f]{6,64})\.[0-9a-f]{16}\b|(?:header|object_map)\.([0-9a-f]{6,64}))"
)
_SECONDS = re.compile(rb":(\d\d(?:\.\d{1,9})?)([+-]\d\d:?\d\d|Z)?")
_REPLICA = (b"osd_repop", b"osd_sub_op", b"MOSDECSubOp")


class Clock:
    """Reads the times of logs: those without a zone, as before Octopus, in ``zone``."""

    def __init__(self, zone: tzinfo = UTC) -> None:
        self.zone = zone
        self.is_used = False
        """Whether there was a time without a zone."""
        self._minute = lru_cache(maxsize=4096)(_minute)

    def time(self, text: bytes) -> float:
        """Seconds since the epoch of the time that ``text`` begins with. Raises ``ValueError``."""
        rest = _SECONDS.match(text, 16)
        if not rest:
            raise ValueError("no time")
        if rest[2] is None:
            self.is_used = True
            return self._minute(text[:16], self.zone) + float(rest[1])
        minute = self._minute(text[:16], UTC) + float(rest[1])
        if rest[2] == b"Z":
            return minute
        zone = (60 * int(rest[2][1:3]) + int(rest[2][-2:])) * 60
        return minute - (zone if rest[2].startswith(b"+") else -zone)


def event(line: bytes, osd: OSD | None, clock: Clock) -> Event | None:
    """What the line says; None if that is not understood. ``osd`` is whose log it is, None for the cluster's."""
    # Most lines begin with the time: they need no look for what is before it.
    head = HEAD.match(line) if b"]: " in line[:160] or not line.startswith(b"2") else None
    if head and head.end():
        line, osd = line[head.end() :], osd if head[1] is None else int(head[1])
    if REPEATED.match(line):
        return _KNOWN
    try:
        time = clock.time(line)
        if b"get_health_metrics" in line:
            return _oldest(time, line)
        own = _OF_OSD.search(line)
        if own and osd is not None:
            return _said(time, osd, own[1], clock)
        if own:  # a monitor's says what the cluster's log says, too
            return _KNOWN if isinstance(_said(time, None, own[1], clock), Blamed | Changed | Known) else None
        cluster = _CLUSTER.match(line)
        if not cluster:
            return None
        if cluster[1] == b"mds":
            return _KNOWN
        who = _osd(cluster[2]) if cluster[1] == b"osd" else None
        return _said(time, who, cluster[3], clock)
    except ValueError:
        return None


def _said(time: float, osd: OSD | None, words: bytes, clock: Clock) -> Event | None:
    if osd is not None:
        found = _of_one(time, osd, words, clock)
        if found is not None:
            return found
    health = _HEALTH.search(words)
    if health:
        daemons = [(b"osd", each) for each in (health[2] or b"").split(b",") if each] or _DAEMON.findall(
            health[3] or b""
        )
        osds = tuple(_osd(name) for kind, name in daemons if kind == b"osd")
        return Blamed(time, osds, float(health[1]) if len(daemons) == 1 else 0.0)
    for pattern, what in ((_FAILED, "failed"), (_BOOT, "boot"), (_RUNNING, "wrongly down")):
        changed = pattern.search(words)
        if changed:
            return Changed(time, _osd(changed[1]), what)
    if _OF_OTHERS.search(words):
        return _KNOWN
    return _KNOWN if _CLEARED.search(words) or not any(each in words for each in _OF_INTEREST) else None


def _of_one(time: float, osd: OSD, words: bytes, clock: Clock) -> Event | None:
    """What an OSD says of itself."""
    old = _OLD.match(words)
    if old:
        return _request(time, osd, float(old[1]), old[2] or old[4], old[3] or old[4], old[5], tells_locks=True)
    new = _NEW.match(words)
    if new:
        age = time - clock.time(new[4])
        return _request(time, osd, age, new[1] or new[3], new[2] or new[3], new[5], tells_locks=False)
    together = _SUM.match(words)
    if together:
        return SlowCount(time, osd, int(together[1]), _pairs(together[2]), _pairs(together[3] or b""))
    batch = _BATCH.match(words)
    if batch:
        return Blamed(time, (osd,), float(batch[1]))
    wrongly = _WRONGLY.match(words)
    return (_KNOWN if wrongly[1] else Changed(time, osd, "wrongly down")) if wrongly else None


def _request(
    time: float, osd: OSD, age: float, kind: bytes, inside: bytes, state: bytes, *, tells_locks: bool
) -> Event:
    """Who has an answer of one replica, ``sub_op_commit_rec from 22``, waits for the others."""
    if _OF_OTHERS.match(kind + b"("):
        return _KNOWN
    peers = _PEERS.search(state)
    named = tuple(_osd(each) for each in peers[1].split(b",") if each) if peers else ()
    words = REPLICAS.encode() if peers or _SUB_OP.match(state) else state[:100].strip()
    name = words.decode("utf-8", "replace")
    return SlowRequest(time, osd, name, max(age, 0.0), named, operation(kind, inside), tells_locks)


def _oldest(time: float, line: bytes) -> Event | None:
    found = _METRICS.search(line)
    if not found:
        return None if b" osd." in line else _KNOWN
    return Oldest(time, _osd(found[1]), int(found[2]), operation(found[3], found[4]))


def _osd(number: bytes) -> OSD:
    """Raises ``ValueError``."""
    if not number.isdigit() or len(number) > 5 or int(number) >= _MOST_OSDS:
        raise ValueError("no number of an OSD")
    return int(number)


def operation(kind: bytes, inside: bytes) -> Operation:
    """``osd_op(client.4140.0:39903 1.3 1:ce1654c3:::rbd_data.102afe660f2.0000000000000094:head [write …] … e20)``"""
    found, group, image = _ID.search(inside), _PG.search(inside), _IMAGE.search(inside)
    pool = int(group[1]) if group else None
    return Operation(
        found[1] if found else inside[:64],
        kind.startswith(_REPLICA),
        pool,
        (image[2] or image[3]).decode() if image else None,
        int(image[1]) if image and image[1] else pool,
    )


def _pairs(text: bytes) -> dict[str, int]:
    return {name[:100].decode("utf-8", "replace"): int(number) for name, number in _PAIR.findall(text)}


def _minute(text: bytes, zone: tzinfo) -> float:
    if not text.startswith(b"20"):
        raise ValueError("not of this century")
    return datetime.fromisoformat(text.decode("ascii")).replace(tzinfo=zone).timestamp()


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
