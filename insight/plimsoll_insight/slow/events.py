"""What lines of Ceph's logs say about slow requests, from Jewel to Tentacle: each line for itself.

The cluster's log has ``cluster [WRN]``; of Quincy and Reef ``cluster 3``.

Dialects of one request: Jewel to Mimic ``slow request 30.0 seconds old, received at T: OP currently STATE``; Nautilus
to early Pacific ``slow request OP initiated T currently STATE``. Sums, since late Pacific: ``N slow requests (by type
[ 'STATE' : N ] most affected pool [ 'P' : N ])``. The OSD's own log has ``get_health_metrics reporting N slow ops,
oldest is OP``, the monitor ``N slow ops, oldest one blocked for S sec, daemons [osd.a,osd.b] have slow ops``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from operator import itemgetter

from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.slow.blame import Blame
from plimsoll_insight.slow.wrapped import WrappedEntry, time_around, unwrap

OSD = int
UNKNOWN_OSD: OSD = -1
"""An OSD that no line and no file's name tells."""


def osd_name(osd: OSD) -> str:
    return "osd.?" if osd == UNKNOWN_OSD else f"osd.{osd}"


@frozen(kw_only=True)
class Operation:
    """One request: ``client.4140.0:39903``. ``image`` is of RBD, ``pool`` the number in its placement group."""

    id: bytes
    is_replica: bool
    """This OSD does a part of another one's request."""
    pool: int | None
    image: str | None
    image_pool: int | None
    """The pool that has the image's name; its data may be in another one."""
    is_erasure_coded: bool = False
    """Its placement group, ``4.1s0``, has shards."""


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
    blame: Blame | None = None
    """None where the state tells."""


@frozen(kw_only=True)
class SlowCount:
    """An OSD has so many slow requests now."""

    time: float
    osd: OSD
    number: int
    states: Mapping[str, int]
    pools: Mapping[str, int]


@frozen(kw_only=True)
class Oldest:
    """The oldest slow request of an OSD, by its own log."""

    time: float
    osd: OSD
    number: int
    operation: Operation


@frozen(kw_only=True)
class MonitorReport:
    """OSDs with slow requests, by the monitor. ``age`` is 0 where it names several: no line says whose it is."""

    time: float
    osds: tuple[OSD, ...]
    age: float
    number: int = 0
    """At once, of all of them; 0 where the line has none."""
    oldest: float = 0.0
    """Seconds of the oldest one, whosesoever it is."""
    others: bool = False
    """A monitor or another daemon may have some of them."""


@frozen
class Batch(MonitorReport):
    """An OSD tells of a few of its slow requests, and how many it has."""


@frozen
class DiskStalls:
    """Slow operations of BlueStore: of the OSD's own disk. ``age`` is 0 where the line has none."""

    time: float
    osds: tuple[OSD, ...]
    age: float = 0.0


@frozen
class OsdChange:
    """``failed``, ``boot`` or ``wrongly down``."""

    time: float
    osd: OSD
    what: str


@frozen
class Known:
    """Understood, and nothing to count."""


@frozen
class Muted(Known):
    """``ceph -s`` and ``ceph health`` leave out checks of slow requests that are muted, and only name them."""


@frozen
class OfOthers(Known):
    """Slow requests to monitors, which are named, or of metadata servers: none is an OSD's."""

    time: float
    monitors: tuple[str, ...] = ()


@frozen
class Retold:
    """What another line may have told already, and a log may have no other line of it: a monitor tells its state
    again after minutes or an hour, and its own log has what the cluster's has.
    """

    what: MonitorReport | OsdChange

    @property
    def time(self) -> float:
        return self.what.time


@frozen
class Cleared:
    """A monitor: there are no slow requests any more."""

    time: float
    was: MonitorReport | None


LOCKS, REPLICAS, UNKNOWN = "waiting for rw locks", "waiting for sub ops", "unknown"
DELAYED = "delayed"
STARTED, OF_SHARDS = "started", "started, erasure-coded"
"""A request to an erasure-coded pool is in the same state as long as it waits for any of its shards."""
Event = SlowRequest | SlowCount | Oldest | MonitorReport | DiskStalls | OsdChange | Retold | Cleared | Known
_KNOWN = Known()
_MOST_OSDS = 1 << 15
"""Of a cluster: it bounds the memory that a hostile log can take."""
_OF_INTEREST = (
    b"slow request",
    b"slow op",
    b" blocked > ",
    b" requests > ",
    b"stalled read",
    b"stalled aio",
    b"slow aio_wait",
    b"(muted: ",
    b" failed (",
    b" boot\n",
    b"wrongly marked",
    b"but it is still running",
)
"""Whatever is counted has one of these."""
_OF_CEPH = (b"slow request", b"slow op", b" blocked > ", b"stuck request", b"wrongly marked")
"""Of these, those that no other program of a host writes."""
_CLUSTER = re.compile(rb"\S+(?: [\d:.]+)? (\w+)\.(\S+) (?:\[\w+\]|.*? : (?:cluster )?(?:\[\w+\]|\d)) (.*)", re.DOTALL)
"""In a file, or shorter, as ``ceph -w`` prints it."""
_OF_OSD = re.compile(rb"log_channel\((\w+)\) log (?:\[\w+\]|\d) : (.*)", re.DOTALL)
_METRICS = re.compile(
    rb"(?:\bosd\.(\d+) \d+ )?get_health_metrics reporting (\d{1,9}) slow ops, oldest is"
    rb"(?: (?:m=\[)?([\w ]{1,40}?)\((.*))?",
    re.DOTALL,
)
"""``m=[OP]`` is Crimson's. In a mail the operation may be on a line of its own."""
_OF_MONITOR = re.compile(rb"\bmon\.(\S{1,100})@\d+\(.*get_health_metrics (reporting )?", re.DOTALL)
_STORE = re.compile(
    rb"slow (?:operation observed for|aio_wait, txc =) .{0,400}?latency = ([\d.]{1,12})s|"
    rb"\bstalled (?:read|aio) .{0,400}?since \S+, timeout is ",
    re.DOTALL,
)
"""``BlueStore.cc``, and of its devices ``KernelDevice.cc``, which says since when by a clock of its own."""
_DIRECTORY = re.compile(rb"/osd/[\w.]{0,60}-(\d{1,5})\b")
_OBSERVED = re.compile(rb"\bosd\.(\d{1,5}) observed (?:slow operation|stalled read) indications")
_EXPERIENCING = re.compile(
    rb"OSD\(s\) experiencing (?:slow operations|stalled read)|_STALLED_READ_ALERT|_SLOW_OP_ALERT"
)
_WHAT = rb"(?:([\w ]{1,40}?)\((.*)\)|([^(]{1,500}))"
_OLD = re.compile(
    rb"slow request ([\d.]+) seconds old, received at \S+ \S+: " + _WHAT + rb" currently (.*)", re.DOTALL
)
_NEW = re.compile(rb"slow request " + _WHAT + rb" initiated (\S+(?: [\d:.]+)?) currently (.*)", re.DOTALL)
_NO_STATE = re.compile(
    rb"slow request (?:([\d.]+) seconds old, received at \S+ \S+: )?(?:m=\[)?(osd_\w{1,40}|MOSD\w{1,40})\((.*)",
    re.DOTALL,
)
"""Of a line that syslog or a terminal has cut, or of Crimson, whose lines end with ``initiated T``."""
_INITIATED = re.compile(rb" initiated (\S+T[\d:]{8}\.\d{6}[+-]\d{4})")
_BEGUN = re.compile(rb" (?:initiated|received at) (\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\.\d{1,9}(?:Z|[+-]\d\d:?\d\d)?)")
_YEAR = 363 * 86_400.0
"""Seconds, less two days: a time without a zone may be read as earlier than it is, and the last day is left to it."""
_SUM = re.compile(rb"(\d{1,9}) slow requests \(by type \[ ([^][]*)(\](?: most affected pool \[ ([^][]*)\])?)?")
_OF_CRIMSON = re.compile(rb"slow requests \(most affected pool ")
"""Without their number, which the line before has."""
_BATCH = re.compile(rb"(\d{1,9}) slow requests, \d+ included below; oldest blocked for > ([\d.]+) secs")
_HEALTH = re.compile(
    rb"\b(\d{1,9}) (?:slow ops, oldest one blocked for|(?:slow |stuck )?(?:requests|ops) are blocked >) "
    rb"(\d{1,9}(?:\.\d{1,6})?(?:e\+\d\d)?) sec(?:[s.,]*(?: on osd\.(\d{1,5})\b| Implicated osds? ([\d,]+)|(.*)))",
    re.DOTALL,
)
_HAVE = re.compile(
    rb"\bosds?[ .]([\d,]{1,2000}) ha(?:s|ve) (?:blocked|stuck) requests > ([\d.]{1,15}(?:e\+\d\d)?) sec"
)
_WHOSE = re.compile(
    rb"[\s>]*(?:daemons \[[^]\n]{0,2000}\]|[a-z]{3}\.[\w.-]{1,100}) ha(?:s|ve) slow ops\.?(?: \(SLOW_OPS\))?\s*$"
)
"""A detail of early Mimic; also the end of a sum that a mail has cut."""
_COUNTED = re.compile(rb"\b\d{1,9} osds have slow requests")
_DAEMON = re.compile(rb"\b(osd|mon|mds|mgr)[.,]([\w-]+)(?=[^\w\n-])")
"""``osd.1``; in a list of early Nautilus ``osd,1``. At the end of a line that was cut it may be ``osd.17``."""
_CLEARED = re.compile(
    rb"Health check cleared: |Health detail|overall HEALTH_|HEALTH_WARN|MDSs? reports? slow|MDS_SLOW_"
)
_MUTED = re.compile(
    rb"\(muted: .{0,1000}?\b(?:SLOW_OPS|REQUEST_SLOW|REQUEST_STUCK|\w{1,60}_(?:SLOW_OP|STALLED_READ)_ALERT)\b"
)
_AGAIN = re.compile(rb"(?:Health detail: |overall )HEALTH_|\[(?:WRN|ERR)\] (?:SLOW_OPS|REQUEST_\w+): ")
_OF_OTHERS = re.compile(
    rb"client_request\(|internal op \w{1,40}:mds\.|peer_request|slave_request|\(mds\.\d+\): |slow metadata IO"
)
"""Requests to a metadata server, and what monitors say of it: ``mds.a(mds.0): 3 slow requests are blocked …``."""
_OF_MDS = re.compile(rb"slow metadata IO|MDSs? reports? slow|\bMDS_SLOW_(?:METADATA_IO|REQUEST)\b")
_FAILED = re.compile(rb"osd\.(\d+) (?:\S+ )?failed \(")
_BOOT = re.compile(rb"osd\.(\d+) \S+ boot$")
_NO_BOOT = re.compile(rb"waiting to boot\s*$|\bnot healthy\b|start_boot|_send_boot")
_RUNNING = re.compile(rb"Monitor daemon marked osd\.(\d+) down, but it is still running")
_WRONGLY = re.compile(rb"[Mm]ap e\d+ wrongly marked me down( at e)?")
"""With its end, as since Luminous, it follows the line above in the same moment."""
_PAIR = re.compile(rb"'([^']*)' : (\d{1,9})\b")
_PEERS = re.compile(rb"waiting for sub ?ops from ([\d,]+)")
_SUB_OP = re.compile(rb"sub_op_(?:commit|applied)_rec")
_ID = re.compile(rb"\b(\w{1,64}\.\d+\.\d+:\d+)")
_PG = re.compile(rb"(?:^|[ (])(\d{1,9})\.[0-9a-f]+(s\d+)? ")
_IMAGE = re.compile(
    rb"rbd_(?:data\.(?:(\d{1,9})\.)?([0-9a-f]{6,64})\.[0-9a-f]{16}\b|(?:header|object_map)\.([0-9a-f]{6,64})(?=\W))"
)
"""At the end of a line that was cut the image's id may be too."""
_SECONDS = re.compile(rb":(\d\d(?:\.\d{1,9})?)([+-]\d\d:?\d\d|Z)?")
_ZERO = (b"+0000", b"Z")
_REPLICA = (b"osd_repop", b"osd_sub_op", b"MOSDECSubOp")
_PING = re.compile(rb"rbd_\S{1,200} \[watch ping")
"""A client that holds an image open asks each few seconds whether it still does: no load of the image."""


def speaks_of_slow(part: bytes) -> bool:
    """Whether it has words that only Ceph has, and only of what is slow."""
    return any(words in part for words in _OF_CEPH)


class LogClock:
    """Reads the times of logs: those without a zone, as before Octopus, in ``zone``."""

    def __init__(self, zone: tzinfo = UTC) -> None:
        self.zone = zone
        self.is_used = False
        """Whether there was a time without a zone."""
        self._minute = lru_cache(maxsize=4096)(_minute)
        self.until: float | None = None
        """When the file was written: a time without a year is before that, and a line without a time of then."""
        self.is_guessed = False
        """Whether a line had no time."""

    def time(self, text: bytes) -> float:
        """Seconds since the epoch of the time that ``text`` begins with. Raises ``ValueError``."""
        rest = _SECONDS.match(text, 16)
        if not rest:
            raise ValueError("no time")
        if rest[2] is None:
            self.is_used = True
            return self._minute(text[:16], self.zone) + float(rest[1])
        return self.zoned(text[:16], rest[1], rest[2])

    def zoned(self, minute: bytes, second: bytes, zone: bytes) -> float:
        """The time of ``2021-09-19T13:05``, ``31.343245`` and ``+0200`` or ``Z``. Raises ``ValueError``."""
        time = self._minute(minute, UTC) + float(second)
        if zone in _ZERO:
            return time
        east = (60 * int(zone[1:3]) + int(zone[-2:])) * 60
        return time - (east if zone.startswith(b"+") else -east)

    def around(self, head: bytes, words: bytes = b"") -> float:
        """The time in what is before Ceph's words; where there is none, that of the file. A time without a year is
        within the year after that of a request in the words. Raises ``ValueError``.
        """
        until, since = self.until, _BEGUN.search(words)
        if until is not None and since:
            until = min(until, self.time(since[1]) + _YEAR)
        try:
            time, has_no_zone = time_around(head, self.zone, until)
        except ValueError:
            if self.until is None:
                raise
            self.is_guessed = True
            return self.until
        self.is_used |= has_no_zone
        return time


def event(line: bytes, osd: OSD | None, clock: LogClock) -> Event | None:
    """What the line says; None if that is not understood. ``osd`` is whose log it is, None for the cluster's."""
    entry = unwrap(line)
    if entry.is_repeated:
        return _KNOWN
    return event_of(entry, osd if entry.osd is None else entry.osd, clock)


def event_of(entry: WrappedEntry, osd: OSD | None, clock: LogClock) -> Event | None:
    """What Ceph's text says; None if that is not understood. ``osd`` is whose it is, as far as that is known."""
    was_guessed = clock.is_guessed
    words = _said(entry, osd, clock)
    if isinstance(words, Known):
        clock.is_guessed = was_guessed  # nothing counts, whenever that was
    return words


def _said(entry: WrappedEntry, osd: OSD | None, clock: LogClock) -> Event | None:
    line = entry.text
    try:
        time = clock.time(line) if entry.is_dated else clock.around(entry.head, line)
        cluster = _CLUSTER.match(line) if entry.is_dated else None
        if cluster is not None:
            if cluster[1] == b"mds":
                return OfOthers(time) if b"slow request" in cluster[3] else _KNOWN
            return _event(time, _osd(cluster[2]) if cluster[1] == b"osd" else None, cluster[3], clock)
        if b"get_health_metrics" in line:
            if own := _OF_MONITOR.search(line):  # of what OSDs report to it, for example
                return OfOthers(time, (_monitor(own[1]),)) if own[2] else _KNOWN
            return _oldest(time, line, osd)
        own = _OF_OSD.search(line)
        if own and own[1] != b"cluster":
            return _KNOWN
        if own and osd is not None:
            return _event(time, osd, own[2], clock)
        if own:  # a monitor's says what the cluster's log says, too
            report = _event(time, None, own[2], clock)
            if isinstance(report, MonitorReport | OsdChange):
                return Retold(report)
            return report if isinstance(report, DiskStalls | Retold | Cleared | Known) else None
        store = _STORE.search(line)
        if store:
            directory = _DIRECTORY.search(line[: store.start()])
            whose = _osd(directory[1]) if directory else osd
            return None if whose is None else DiskStalls(time, (whose,), float(store[1] or 0.0))
        words = _event(time, osd, line, clock)
        return Muted() if words == _KNOWN and not entry.is_dated and _MUTED.search(line) else words
    except ValueError:
        return None


@lru_cache(maxsize=4096)
def _sums(words: bytes) -> tuple[int, Mapping[str, int], Mapping[str, int]] | None:
    together = _SUM.match(words)
    if not together:
        return None
    number, states = int(together[1]), _pairs(together[2])
    if not together[3] and states:  # cut, and so may be the last number
        states.popitem()
    if (rest := number - sum(states.values())) > 0:
        states[UNKNOWN] = rest
    return number, states, _pairs(together[4] or b"")


def _event(time: float, osd: OSD | None, words: bytes, clock: LogClock) -> Event | None:
    if osd is not None:
        own = _of_one(time, osd, words, clock)
        if own is not None:
            return own
    if _HEALTH.search(words) and (report := _by_monitors(time, words)) is not None:
        return report
    have = _HAVE.search(words)
    if have:
        return MonitorReport(
            time=time, osds=tuple(_osd(each) for each in have[1].split(b",") if each), age=float(have[2])
        )
    if _WHOSE.match(words):
        osds = _osds(_DAEMON.findall(words))
        if not osds:
            return OfOthers(time, _monitors(_DAEMON.findall(words)))
        return MonitorReport(time=time, osds=osds, age=0.0, others=True)
    stall = _OBSERVED.search(words)
    if stall:
        return DiskStalls(time, (_osd(stall[1]),))
    if _EXPERIENCING.search(words.partition(b"(muted: ")[0]) and b"cleared" not in words:
        return DiskStalls(time, ())
    for pattern, what in ((_FAILED, "failed"), (_BOOT, "boot"), (_RUNNING, "wrongly down")):
        change = pattern.search(words)
        if change:
            return OsdChange(time, _osd(change[1]), what)
    is_of_others = _OF_OTHERS.search(words)
    if b"cleared" not in words and (_OF_MDS.search(words) or (is_of_others and b"slow request" in words)):
        return OfOthers(time)
    if _OF_CRIMSON.match(words) or is_of_others or _NO_BOOT.search(words) or _COUNTED.search(words):
        return _KNOWN
    return _KNOWN if _CLEARED.search(words) or not any(each in words for each in _OF_CEPH) else None


def _by_monitors(time: float, words: bytes) -> Event | None:
    """Of a line with several checks, ``…; 1 MDSs report slow metadata IOs; 5 slow ops, …``, those of OSDs; None
    without any.
    """
    checks = [part for part in words.split(b"; ") if not _OF_OTHERS.search(part)]
    sums = [health for part in checks if (health := _HEALTH.search(part))]
    if not sums:
        return None
    reports = [report for health in sums if (report := _by_monitor(time, health)) is not None]
    if not reports:
        return _KNOWN
    report = reports[0] if len(reports) == 1 else _together(time, reports)
    if not report.number and not report.osds and not words.lstrip().startswith(b"Health check cleared"):
        return OfOthers(time, _monitors(daemon for health in sums for daemon in _DAEMON.findall(health[5] or b"")))
    if words.lstrip().startswith(b"Health check cleared"):
        return Cleared(time, report)
    return Retold(report) if _AGAIN.search(words) else report


def _together(time: float, reports: Sequence[MonitorReport]) -> MonitorReport:
    return MonitorReport(
        time=time,
        osds=tuple(dict.fromkeys(osd for report in reports for osd in report.osds)),
        age=0.0,
        number=sum(report.number for report in reports),
        oldest=max(report.oldest for report in reports),
        others=any(report.others for report in reports),
    )


def _by_monitor(time: float, health: re.Match[bytes]) -> MonitorReport | None:
    """``6 slow ops, oldest one blocked for 32 sec, daemons [osd.4,osd.11] have slow ops.``

    Of more than ten it names ten: ``[osd.0,…,osd.17]... have slow ops.`` (``DaemonHealthMetricCollector.cc``). A
    first report of Tentacle counts 0 of them, and has the age of the oldest one: so there is one. Of monitors' own
    none is to an OSD. None of a detail: it is of a part of those that the line before has.
    """
    if health[3] is None and b" ops are blocked > " in health[0]:
        return None
    names = health[3] or health[4]
    rest = health[5] or b""
    daemons = [(b"osd", each) for each in names.split(b",") if each] if names else _DAEMON.findall(rest)
    osds = _osds(daemons)
    oldest = float(health[2])
    is_cut = b"[" in rest and (b"]" not in rest or b"]..." in rest)
    age = oldest if len(daemons) == 1 and not is_cut else 0.0
    others = len(osds) < len(daemons) or is_cut
    number = 0 if daemons and not osds and not is_cut else max(int(health[1]), 1)
    return MonitorReport(time=time, osds=osds, age=age, number=number, oldest=oldest, others=others)


def _of_one(time: float, osd: OSD, words: bytes, clock: LogClock) -> Event | None:
    """What an OSD says of itself."""
    old = _OLD.match(words)
    if old:
        return _request(time, osd, float(old[1]), old[2] or old[4], old[3] or old[4], old[5], tells_locks=True)
    new = _NEW.match(words)
    if new:
        age = time - clock.time(new[4])
        return _request(time, osd, age, new[1] or new[3], new[2] or new[3], new[5], tells_locks=False)
    cut = _NO_STATE.match(words)
    if cut:
        since = _INITIATED.search(words)
        age = float(cut[1]) if cut[1] else time - clock.time(since[1]) if since else 0.0
        return SlowRequest(time, osd, UNKNOWN, max(age, 0.0), (), operation(cut[2], cut[3]), tells_locks=False)
    sums = _sums(words)
    if sums:
        number, states, pools = sums
        return SlowCount(time=time, osd=osd, number=number, states=states, pools=pools)
    batch = _BATCH.match(words)
    if batch:
        age = float(batch[2])
        return Batch(time=time, osds=(osd,), age=age, number=int(batch[1]), oldest=age)
    wrongly = _WRONGLY.match(words)
    return (_KNOWN if wrongly[1] else OsdChange(time, osd, "wrongly down")) if wrongly else None


def _request(
    time: float, osd: OSD, age: float, kind: bytes, inside: bytes, state: bytes, *, tells_locks: bool
) -> Event:
    if _OF_OTHERS.match(kind + b"("):
        return _KNOWN
    name, peers, blame = state_of(state)
    one = operation(kind, inside)
    return SlowRequest(time, osd, state_in(one, name), max(age, 0.0), peers, one, tells_locks, blame)


def state_in(one: Operation, name: str) -> str:
    """The state, by whether the request has shards of which each may be the late one."""
    return OF_SHARDS if name == STARTED and one.is_erasure_coded and not one.is_replica else name


@lru_cache(maxsize=4096)
def state_of(state: bytes) -> tuple[str, tuple[OSD, ...], Blame | None]:
    """The words of a state, the peers that it names, and whom it blames; None where the words tell."""
    peers, answer = _PEERS.search(state), _SUB_OP.match(state)
    numbers = tuple(_osd(each) for each in peers[1].split(b",") if each) if peers else ()
    name = REPLICAS if peers or answer else state[:100].strip().decode("utf-8", "replace")
    # Who has an answer of one replica waits for another one, or for its own disk.
    return name, numbers, Blame.UNKNOWN if answer else None


def _oldest(time: float, line: bytes, osd: OSD | None) -> Event | None:
    match = _METRICS.search(line)
    whose = osd if match is None or match[1] is None else _osd(match[1])
    if not match or whose is None:
        return None
    one = operation(match[3] or b"", match[4] or b"")
    return Oldest(time=time, osd=whose, number=int(match[2]), operation=one)


def _monitors(daemons: Iterable[tuple[bytes, bytes]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_monitor(name) for kind, name in daemons if kind == b"mon"))


def _monitor(name: bytes) -> str:
    return f"mon.{name.decode('utf-8', 'replace')}"


def _osds(daemons: Iterable[tuple[bytes, bytes]]) -> tuple[OSD, ...]:
    return tuple(dict.fromkeys(_osd(name) for kind, name in daemons if kind == b"osd"))


def _osd(number: bytes) -> OSD:
    """Raises ``ValueError``."""
    if not number.isdigit() or len(number) > 5 or int(number) >= _MOST_OSDS:
        raise ValueError("no number of an OSD")
    return int(number)


def operation(kind: bytes, inside: bytes) -> Operation:
    """``osd_op(client.4140.0:39903 1.3 1:ce1654c3:::rbd_data.102afe660f2.0000000000000094:head [write …] … e20)``"""
    match, group, image = _ID.search(inside), _PG.search(inside), _IMAGE.search(inside)
    pool = int(group[1]) if group else None
    return Operation(
        id=match[1] if match else inside[:64],
        is_replica=kind.startswith(_REPLICA),
        pool=pool,
        image=(image[2] or image[3]).decode() if image and not _PING.match(inside, image.start()) else None,
        image_pool=int(image[1]) if image and image[1] else pool,
        is_erasure_coded=bool(group and group[2]),
    )


def _pairs(text: bytes) -> dict[str, int]:
    return {name[:100].decode("utf-8", "replace"): int(number) for name, number in _PAIR.findall(text)}


def _minute(text: bytes, zone: tzinfo) -> float:
    if not text.startswith(b"20"):
        raise ValueError("not of this century")
    return datetime.fromisoformat(text.decode("ascii")).replace(tzinfo=zone).timestamp()


def finder() -> Callable[[bytes], Sequence[int]]:
    """What finds the places of words of interest in a block that ends with a newline, at least one in each line that
    has some. A search for all words at once takes a thirtieth of the time.
    """
    try:
        from ahocorasick_rs import BytesAhoCorasick, MatchKind
    except ImportError:
        return lambda block: sorted(_each_place(block))
    search = BytesAhoCorasick(_OF_INTEREST, matchkind=MatchKind.LeftmostFirst).find_matches_as_indexes
    return lambda block: [*map(itemgetter(1), search(block))]


def _each_place(block: bytes) -> Iterator[int]:
    for words in _OF_INTEREST:
        place = block.find(words)
        while place >= 0:
            yield place
            place = block.find(words, block.find(b"\n", place))


places_in = finder()


def lines(block: bytes, longest: int | None = None, places: Sequence[int] | None = None) -> list[bytes]:
    """The lines of interest in a block that ends with a newline, each up to its ``longest`` bytes; ``places`` are
    those of words of interest, where they are known.
    """
    texts, end = [], 0
    for place in places_in(block) if places is None else places:
        if place >= end:
            start, end = block.rfind(b"\n", 0, place) + 1, block.find(b"\n", place)
            texts.append(block[start:end][:longest])
    return texts
