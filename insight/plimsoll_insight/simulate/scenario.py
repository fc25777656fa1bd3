"""A scenario: a cluster, disks with their load and limits, and what happens when. Text in, values out, or every fault
in it with its line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from plimsoll_agent.model.limits import PARAMETERS, Limits, LimitsError
from plimsoll_agent.rules.schema import parameter_value
from plimsoll_agent.util import quantities, schema
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.quantities import Quantity
from plimsoll_agent.util.schema import Invalid, Keys, boolean, each, line, one_of, repeated, shown
from plimsoll_insight.simulate.arms import ARMS

Domain = Literal["osd", "host", "rack"]
Act = Literal["lose", "return", "degrade", "speed"]

MOST_PERIODS = 2000
"""Of a run: what is drawn has no more columns."""
MOST_DISKS = 200_000
MOST_OSDS = 20_000
LONGEST = 31 * 86_400.0
MOST_UNDER_WAY = 256
"""Requests of a disk: as many as a queue of virtio-blk has."""
MOST_IMBALANCE = 0.9
"""With more, an OSD might get nothing at all."""
MOST_SHARE = 1000
LEAST_SPEED = 0.01
_PERIODS = 120
_GROUPS_PER_OSD = 32
_DOMAINS: tuple[Domain, ...] = ("osd", "host", "rack")
_PLACE = re.compile(r"(osd|host|rack|node)\.(\d{1,6})", re.ASCII)


@frozen(kw_only=True)
class SimulatedCluster:
    """OSDs, each a queue with ``servers``, and how copies lie on them. Seconds, bytes, shares from 0 to 1."""

    hosts: int = 3
    osds_per_host: int = 4
    racks: int = 1
    servers: int = 4
    read: float = 0.001
    write: float = 0.001
    service: str = "random"
    """``random``: exponential with this mean; ``fixed``."""
    bytes_sec: float = math.inf
    network: float = 0.0
    copies: int = 3
    min_copies: int = 2
    domain: Domain = "host"
    groups: int = 0
    imbalance: float = 0.0
    objects: int = 1_000_000
    object_read: float = 0.022
    object_write: float = 0.022
    recovery_active: int = 3
    recovery_sleep: float = 0.0
    detect: float = 20.0
    peering: float = 2.0

    @property
    def osds(self) -> int:
        return self.hosts * self.osds_per_host

    def domain_of(self, osd: int, domain: str) -> int:
        """The number of the OSD's host or rack; hosts go to racks in turn."""
        host = osd // self.osds_per_host
        return {"osd": osd, "host": host, "rack": host % self.racks}[domain]


@frozen(kw_only=True)
class Disks:
    """Disks that are alike. An open loop sends ``iops``, served or not; a closed one keeps ``queue``
    requests under way.
    """

    name: str
    guests: int
    disks: int = 1
    limits: Limits = Limits()
    iops: float = 0.0
    queue: int = 0
    arrivals: str = "random"
    size: int = 4096
    writes: float = 0.5
    begins: float = 0.0
    ends: float = math.inf
    light: bool = False
    """What an operator wants to protect: the words below the table tell of them."""
    floor: Limits | None = None
    """Under congestion; None: never reduced."""
    share: float = 1.0

    @property
    def number(self) -> int:
        return self.guests * self.disks


@frozen(kw_only=True)
class ScenarioEvent:
    """``place``: what is lost or returns, as ``host.1``. ``share``: of all objects those with a stale copy, or of the
    OSDs' speed what is left.
    """

    at: float
    act: Act
    place: str = ""
    share: float = 0.0


@frozen(kw_only=True)
class Congestion:
    """What is done against it, and what is wrong with the signal. Each arm is a run of its own."""

    objective: float
    """Seconds: mean latency of light disks."""
    arms: tuple[str, ...] = ("nothing", "half", "aimd", "plimsoll")
    delay: int = 0
    """Periods by which the signal is late."""
    noise: float = 0.0
    lost: float = 0.0
    cut: float = math.inf
    """When the signal ends."""


@frozen(kw_only=True)
class Scenario:
    title: str
    duration: float
    cluster: SimulatedCluster
    disks: tuple[Disks, ...]
    events: tuple[ScenarioEvent, ...] = ()
    nodes: int = 1
    seed: int = 1
    warm_up: float = 0.0
    period: float = 0.0
    congestion: Congestion | None = None

    @property
    def seconds(self) -> float:
        """What is counted."""
        return self.duration - self.warm_up


def parse(text: str, origin: str) -> Scenario:
    """Raises ``ConfigError``: a line ``origin:line: key: text`` for each fault."""
    return schema.check(text, _scenario).good(origin)


# --- numbers


def _number(raw: object, read: Callable[[str], float], what: str, *, least: float = 0.0, zero: bool = False) -> float:
    fault = f"must be {what} {'and 0 or more' if zero else 'and above 0'}, not {shown(raw)}"
    if isinstance(raw, bool) or not isinstance(raw, int | float | str) or str(raw).startswith("-"):
        raise Invalid(fault)
    try:
        value = read(raw) if isinstance(raw, str) else float(raw)
    except (ValueError, OverflowError) as error:
        raise Invalid(str(error)) from error
    if not math.isfinite(value) or value < least or (value == 0 and not zero):
        raise Invalid(fault)
    return value


_time = partial(_number, read=quantities.read_time, what="a time, such as 10ms, 5s or 2m,")
_NONE = re.compile(r"0+(ms|[smhd])?", re.ASCII)


def _read_time(text: str) -> float:
    return 0.0 if _NONE.fullmatch(text) else quantities.read_time(text)


_time_or_none = partial(_time, read=_read_time, zero=True)
_rate = partial(
    _number, read=lambda text: float(quantities.read(text, Quantity.REQUESTS)), what="requests a second, such as 35,"
)
_bytes = partial(
    _number, read=lambda text: float(quantities.read(text, Quantity.BYTES)), what="bytes a second, such as 500MB,"
)


def _size(raw: object) -> int:
    return int(
        _number(raw, lambda text: float(quantities.read(text, Quantity.SIZE)), "a size, such as 4KiB,", least=1)
    )


def _whole(least: int, most: int) -> Callable[[object], int]:
    def validate(raw: object) -> int:
        if isinstance(raw, bool) or not isinstance(raw, int) or not least <= raw <= most:
            raise Invalid(f"must be a whole number from {least} to {most}, not {shown(raw)}")
        return raw

    return validate


def _share(raw: object) -> float:
    text = raw.strip() if isinstance(raw, str) else ""
    try:
        value = float(text.removesuffix("%")) / 100 if text.endswith("%") else math.nan
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise Invalid(f"must be per cent from 0% to 100%, such as 70%, not {shown(raw)}")
    return value


# --- parts


_LIMITS: Mapping[str, Callable[[object], object]] = {
    **{parameter.name: partial(parameter_value, parameter) for parameter in PARAMETERS},
    "group_name": line(255),
}


def _limits(raw: object) -> Limits:
    if raw == "unlimited":
        return Limits()
    keys = Keys(raw, _LIMITS, f"must be limits such as {{total_iops_sec: 500}}, or unlimited, not {shown(raw)}")
    try:
        limits = Limits.from_mapping(keys.values)
    except LimitsError as error:
        for problem in error.problems:
            keys.fault(problem.text, problem.names[0])
        limits = Limits()
    keys.done()
    return limits


_CLUSTER: Mapping[str, Callable[[Any], Any]] = {
    "hosts": _whole(1, MOST_OSDS),
    "osds_per_host": _whole(1, MOST_OSDS),
    "racks": _whole(1, MOST_OSDS),
    "servers": _whole(1, 64),
    "read": _time,
    "write": _time,
    "service": one_of(["random", "fixed"]),
    "bytes_sec": _bytes,
    "network": _time_or_none,
    "copies": _whole(1, 16),
    "min_copies": _whole(1, 16),
    "domain": one_of(_DOMAINS),
    "groups": _whole(1, 10**6),
    "imbalance": _share,
    "objects": _whole(1, 10**12),
    "object_read": _time,
    "object_write": _time,
    "recovery_active": _whole(0, 64),
    "recovery_sleep": _time_or_none,
    "detect": _time_or_none,
    "peering": _time_or_none,
}


def _cluster(raw: object) -> SimulatedCluster:
    keys = Keys(raw, _CLUSTER)
    cluster = SimulatedCluster(**keys.values)
    if cluster.osds > MOST_OSDS:
        keys.fault(f"hosts × osds_per_host are {cluster.osds} OSDs, more than {MOST_OSDS}", "hosts")
    elif cluster.racks > cluster.hosts:
        keys.fault(f"racks must be no more than the {cluster.hosts} hosts", "racks")
    else:
        places = {"osd": cluster.osds, "host": cluster.hosts, "rack": cluster.racks}[cluster.domain]
        if places < cluster.copies:
            keys.fault(
                f"copies: {cluster.copies} need so many of domain {cluster.domain}, and there are {places};"
                " write another domain or fewer copies",
                "copies",
            )
    if cluster.imbalance > MOST_IMBALANCE:
        keys.fault(f"imbalance must be at most {100 * MOST_IMBALANCE:g}%", "imbalance")
    if cluster.min_copies > cluster.copies:
        keys.fault(f"min_copies must be no more than copies, {cluster.copies}", "min_copies")
    values = keys.done()
    return SimulatedCluster(**{"groups": _GROUPS_PER_OSD * cluster.osds, **values})


def _under_congestion(raw: object) -> tuple[Limits, float]:
    keys = Keys(raw, {"floor": _limits, "share": _weight})
    keys.need("floor", ": without one a disk is never reduced")
    values = keys.done()
    return values["floor"], values.get("share", 1.0)


def _weight(raw: object) -> float:
    share = _number(raw, float, "a number from 1 on, such as 2,", least=1)
    if share > MOST_SHARE:
        raise Invalid(f"must be at most {MOST_SHARE}")
    return share


_DISKS: Mapping[str, Callable[[Any], Any]] = {
    "name": line(40),
    "guests": _whole(1, MOST_DISKS),
    "disks": _whole(1, 1000),
    "limits": _limits,
    "iops": _rate,
    "queue": _whole(1, MOST_UNDER_WAY),
    "arrivals": one_of(["random", "regular"]),
    "size": _size,
    "writes": _share,
    "begins": _time_or_none,
    "ends": _time,
    "light": boolean,
    "congestion": _under_congestion,
}


def _disks(raw: object) -> Disks:
    keys = Keys(raw, _DISKS)
    keys.need("name")
    keys.need("guests", ", how many there are")
    if keys.lacks("iops", "queue"):
        keys.fault("iops is missing, or queue for a closed loop", "iops", code=schema.RemarkCode.MISSING_KEY)
    elif "iops" in keys.given and "queue" in keys.given:
        keys.fault("queue and iops exclude each other: a closed loop sends as fast as it is served", "queue")
    if "arrivals" in keys.given and "queue" in keys.given:
        keys.fault("arrivals are of an open loop; remove it, or give iops", "arrivals")
    if keys.values.get("ends", math.inf) <= keys.values.get("begins", 0.0):
        keys.fault("ends must be after begins", "ends")
    values = keys.done()
    floor, share = values.pop("congestion", (None, 1.0))
    return Disks(**values, floor=floor, share=share)


def _speed(raw: object) -> float:
    share = _share(raw)
    if share < LEAST_SPEED:
        raise Invalid(f"must be at least {100 * LEAST_SPEED:g}%, not {shown(raw)}")
    return share


_EVENT: Mapping[str, Callable[[Any], Any]] = {
    "at": _time_or_none,
    "lose": line(40),
    "return": line(40),
    "degrade": _share,
    "speed": _speed,
}
_ACTS: tuple[Act, ...] = ("lose", "return", "degrade", "speed")


def _event(raw: object) -> ScenarioEvent:
    keys = Keys(raw, _EVENT)
    keys.need("at")
    acts = [act for act in _ACTS if act in keys.given]
    if len(acts) != 1 and not keys.faults:
        keys.fault("must have one of lose, return, degrade and speed")
    values = keys.done()
    act = acts[0]
    value = values[act]
    return (
        ScenarioEvent(at=values["at"], act=act, share=value)
        if act in ("degrade", "speed")
        else ScenarioEvent(at=values["at"], act=act, place=value)
    )


def _arms(raw: object) -> tuple[str, ...]:
    names = _list(one_of(list(ARMS)), f"some of {', '.join(ARMS)}", least=1)(raw)
    return tuple(dict.fromkeys(names))


_CONGESTION: Mapping[str, Callable[[Any], Any]] = {
    "objective": _time,
    "arms": _arms,
    "delay": _whole(0, 20),
    "noise": _share,
    "lost": _share,
    "cut": _time_or_none,
}


def _congestion(raw: object) -> Congestion:
    keys = Keys(raw, _CONGESTION)
    keys.need("objective", ", the mean latency that light disks should have")
    return Congestion(**keys.done())


def _list(one: Callable[[object], Any], example: str, *, least: int) -> Callable[[object], list[Any]]:
    def validate(raw: object) -> list[Any]:
        if not isinstance(raw, list) or len(raw) < least:
            raise Invalid(f"must be a list of {example}, not {shown(raw)}")
        return each(one, raw)

    return validate


_KEYS: Mapping[str, Callable[[Any], Any]] = {
    "title": line(200),
    "seed": _whole(0, 2**63),
    "duration": _time,
    "warm_up": _time_or_none,
    "period": _time,
    "nodes": _whole(1, 100_000),
    "cluster": _cluster,
    "disks": _list(_disks, "disks, such as {name: light, guests: 100, iops: 10}", least=1),
    "events": _list(_event, "events, such as {at: 60s, lose: host.0}", least=0),
    "congestion": _congestion,
}


def _scenario(raw: object) -> Scenario:
    keys = Keys(raw, _KEYS)
    for name in ("title", "duration", "cluster", "disks"):
        keys.need(name)
    values = keys.done()
    duration, warm_up = values["duration"], values.get("warm_up", 0.0)
    # In whole nanoseconds, rounded up: else one more period is some nanoseconds long.
    usual = math.ceil(min(duration, LONGEST) * 1e9 / _PERIODS) / 1e9
    period = values.setdefault("period", usual)
    if duration > LONGEST:
        keys.fault("duration must be at most 31 days", "duration")
    if warm_up >= duration:
        keys.fault("warm_up must be less than duration", "warm_up")
    if duration / period > MOST_PERIODS:
        keys.fault(
            f"period: {duration / period:.0f} periods are more than {MOST_PERIODS}; give a longer one", "period"
        )
    disks: list[Disks] = values["disks"]
    for index in repeated(one.name for one in disks):
        keys.fault(f"name {disks[index].name} is there twice", "disks", index, "name")
    if (number := sum(one.number for one in disks)) > MOST_DISKS:
        keys.fault(f"disks: {number} disks are more than {MOST_DISKS}", "disks")
    if "congestion" in values and not any(one.light for one in disks):
        keys.fault("congestion needs disks with light: true, whose latency is its signal", "congestion")
    for index, event in enumerate(values.get("events", ())):
        _check_place(keys, index, event, values["cluster"], values.get("nodes", 1))
        if event.at >= duration:
            keys.fault("at must be before the end, which duration sets", "events", index, "at")
    values = keys.done()
    events: list[ScenarioEvent] = values.get("events", [])
    _check_returns(keys, events, values["cluster"])
    keys.done()
    return Scenario(**{**values, "disks": tuple(disks), "events": tuple(sorted(events, key=_at))})


def _at(event: ScenarioEvent) -> float:
    return event.at


def _check_place(keys: Keys, index: int, event: ScenarioEvent, cluster: SimulatedCluster, nodes: int) -> None:
    if event.act in ("degrade", "speed"):
        return
    place = _PLACE.fullmatch(event.place)
    if place is None:
        keys.fault(f"must be osd.N, host.N, rack.N or node.N, not {shown(event.place)}", "events", index, event.act)
        return
    number = {"osd": cluster.osds, "host": cluster.hosts, "rack": cluster.racks, "node": nodes}[place[1]]
    if int(place[2]) >= number:
        keys.fault(
            f"there is no {event.place}: {number} of them, {place[1]}.0 to {place[1]}.{number - 1}",
            *("events", index, event.act),
        )


def _check_returns(keys: Keys, events: Sequence[ScenarioEvent], cluster: SimulatedCluster) -> None:
    """Only what is lost can return."""
    losses: set[tuple[str, int]] = set()
    for index, event in sorted(enumerate(events), key=lambda one: _at(one[1])):
        if event.act not in ("lose", "return"):
            continue
        kind, _, number = event.place.partition(".")
        if kind == "node":
            members = {(kind, int(number))}
        else:
            members = {("osd", osd) for osd in range(cluster.osds) if cluster.domain_of(osd, kind) == int(number)}
        if event.act == "return" and not members & losses:
            keys.fault(f"{event.place} is not lost before", "events", index, event.act)
        losses = losses | members if event.act == "lose" else losses - members
