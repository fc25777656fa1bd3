"""The schema of the rules file: every validator returns the value of its part of the file.

It raises ``Invalid`` with all faults in that part, each with its path.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import Any

from plimsoll_agent.ceilings.buckets import Whose
from plimsoll_agent.credits.model import PEAKS, Credits
from plimsoll_agent.model.limits import PARAMETERS, UNITS, Limits, LimitsError, Parameter
from plimsoll_agent.rules.model import (
    JOBS,
    UUID,
    DiskKind,
    Match,
    Objective,
    Probing,
    Rule,
    Rules,
    UnderCongestion,
    directory_of,
)
from plimsoll_agent.util import durations
from plimsoll_agent.util.schema import (
    Invalid,
    InvalidParts,
    Keys,
    Steps,
    below,
    boolean,
    each,
    line,
    one_of,
    repeated,
    short,
    shown,
)
from plimsoll_agent.util.text import nearest

MOST_RULES = 1000
_MOST_PERCENTILES = 20
_LONGEST_TEXT = 255
_LONGEST_REASON = 200
_UNTIL = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)

_FILE_KEYS = ("default", "rules", "objectives")
_MATCH_KEYS = ("project", "user", "flavor", "image", "kind", "pool", "volume", "guest", "cluster")
_SWITCHES = ("boot_volume_by_flavor",)
_REMOVED = {
    "release_when_silent": "was removed: orphaned limits are released by plimsoll approve --remove,"
    " see Orphaned limits in the guide; take it out"
}
"""Keys of former releases, and what replaces them."""
_SHARED = tuple(whose.word for whose in Whose)
_BOUNDS = ("ceiling", "floor", *_SHARED)
_EFFECTS = ("limits", "credits", *_BOUNDS, "manage", *_SWITCHES, "probe", "objective", "congestion")
_LIMITS_KEYS = (*(parameter.name for parameter in PARAMETERS), "group_name")
_CREDITS_KEYS = (*PEAKS, "capacity")
_PROBE_KEYS = ("every", "jobs", "directory")
# Any other percentile is allowed too.
_OBJECTIVE_KEYS = ("p50", "p95", "p99", "p99.9", "slowest")

_PLACES: Mapping[str, str] = {
    **dict.fromkeys(_FILE_KEYS, "at the top of the file"),
    "match": "in a rule",
    **dict.fromkeys((*_EFFECTS, "override", "until", "reason"), "in a rule, beside match"),
    "limits": "under default, or in a rule beside match",
    **dict.fromkeys(_MATCH_KEYS, "under match"),
    **dict.fromkeys(_LIMITS_KEYS, "under limits"),
    "capacity": "under credits",
    **dict.fromkeys(_PROBE_KEYS, "under probe"),
    "share": "under congestion",
    **dict.fromkeys(_OBJECTIVE_KEYS, "under objective, or under a volume type in objectives"),
}
"""Where a key belongs, for the message about one that is elsewhere."""


class _Keys(Keys):
    def unknown(self, name: str) -> str:
        key, word = short(name, 40), name.lower()
        if word in _REMOVED:
            return f"{key} {_REMOVED[word]}"
        if word in _PLACES and word not in self.known:
            return f"{key} is not a key here; it belongs {_PLACES[word]}"
        if not nearest(word, self.known) and (elsewhere := nearest(word, _PLACES, cutoff=0.8)):
            return f"{key} is not a key here; did you mean {elsewhere}? It belongs {_PLACES[elsewhere]}"
        return super().unknown(name)


_text = line(_LONGEST_TEXT)


def _until(raw: object) -> datetime:
    # YAML's own times may lack a zone: some versions of PyYAML read them as UTC, others as local time.
    try:
        if isinstance(raw, str) and _UNTIL.fullmatch(raw):
            return datetime.fromisoformat(raw.upper()).astimezone(UTC)
    except (ValueError, OverflowError):  # a 13th month, a year before the first
        pass
    raise Invalid(
        f"must be a time with its zone, such as 2026-12-01T18:00:00Z or 2026-12-01T19:00:00+01:00, not {shown(raw)}"
    )


def _each(one: Callable[[object], str]) -> Callable[[object], tuple[str, ...]]:
    """One value, or a list of them."""

    def validate(raw: object) -> tuple[str, ...]:
        if not isinstance(raw, list):
            return (one(raw),)
        if not raw:
            raise Invalid("is an empty list, which matches nothing")
        return tuple(each(one, raw))

    return validate


def _uuid(raw: object) -> str:
    """An id as Cinder and libvirt write it; dashes may be missing in the file, and capitals are allowed."""
    value = _text(raw)
    if not UUID.fullmatch(value):
        raise Invalid(f"must be an id (uuid), not {shown(value)}: names are not unique, and can be changed")
    return _canonical(value)


def _dashless(raw: object) -> str:
    """An id as Keystone writes it."""
    return _uuid(raw).replace("-", "")


def _guest(raw: object) -> str:
    value = _text(raw)
    return _canonical(value) if UUID.fullmatch(value) else value


def _canonical(id: str) -> str:
    import uuid  # rarely needed, and slow to import

    return str(uuid.UUID(id))


_MATCH: Mapping[str, Callable[[object], tuple[str, ...]]] = {
    "project": _each(_dashless),
    "user": _each(_dashless),
    "flavor": _each(_text),
    "image": _each(_uuid),
    "kind": _each(one_of([*DiskKind])),
    "pool": _each(_text),
    "volume": _each(_uuid),
    "guest": _each(_guest),
    "cluster": _each(_uuid),
}


def _match(raw: object) -> Match:
    keys = _Keys(raw, _MATCH)
    if not keys.given:
        raise Invalid("is empty; limits for every disk belong under default")
    # Tenants choose the names and images of their guests: these alone must not give a guest another limit.
    if keys.lacks("project"):
        if not all(UUID.fullmatch(guest) for guest in keys.values.get("guest", ())):
            keys.fault("guest by name needs project too: tenants choose the names of their guests", "guest")
        if "image" in keys.given:
            keys.fault("image needs project too: tenants choose the images of their guests", "image")
    return Match(**keys.done())


def parameter_value(parameter: Parameter, raw: object) -> object:
    """The value of a parameter; text is a number with its unit. ``Limits`` refuses what is no whole number."""
    if not isinstance(raw, str):
        return raw
    try:
        return parameter.read(raw)
    except ValueError as error:
        raise Invalid(str(error)) from error


_PARAMETERS = {parameter.name: parameter for parameter in PARAMETERS}
_LIMITS: Mapping[str, Callable[[object], object]] = {
    **{parameter.name: partial(parameter_value, parameter) for parameter in PARAMETERS},
    "group_name": lambda raw: raw,
}


def _limits(raw: object) -> Limits:
    if raw == "unlimited":
        return Limits()
    if isinstance(raw, str) and nearest(raw, ["unlimited"]):
        raise Invalid(f"must be limits or the word unlimited, not {shown(raw)}; did you mean unlimited?")
    values = _Keys(
        raw, _LIMITS, f"must be limits such as {{total_iops_sec: 500}}, or the word unlimited, not {shown(raw)}"
    )
    if not values.given:
        raise Invalid("is empty; for no limit, write: limits: unlimited")
    limits = _possible(values)
    if limits.unlimited:
        raise Invalid("has no limit in it; for no limit, write: limits: unlimited")
    return limits


def _bound(raw: object) -> Limits:
    """A ceiling or a floor."""
    if raw == "unlimited":
        raise Invalid("unlimited is not a bound; remove it")
    values = _Keys(raw, _LIMITS, f"must be limits such as {{total_iops_sec: 500}}, not {shown(raw)}")
    if not values.given:
        raise Invalid("is empty; name what it bounds, such as total_iops_sec")
    for name in ("size_iops_sec", "group_name"):
        if name in values.given:
            values.fault(f"{name} is not a bound; it belongs under limits", name)
            values.values.pop(name)
    for name, value in list(values.values.items()):
        if value == 0 and isinstance(value, int) and not name.endswith("_length"):
            values.fault(f"{name} is 0, which means unlimited and is not a bound; remove it", name)
    return _possible(values)


def _credits(raw: object) -> Credits:
    keys = _Keys(
        raw,
        {**{name: _LIMITS[name] for name in PEAKS}, "capacity": lambda value: value},
        f"must be such as {{total_iops_sec_max: 3000, capacity: 5400000}}, not {shown(raw)}",
    )
    peaks = [name for name in PEAKS if name in keys.given]
    if len(peaks) != 1:
        keys.fault(f"must have one rate of a burst, such as total_iops_sec_max, and has {len(peaks) or 'none'}")
        raise InvalidParts(keys.faults)
    keys.need("capacity", ": what is saved at most, such as 5400000")
    values = keys.done()
    peak = peaks[0]
    try:
        capacity = parameter_value(_PARAMETERS[peak], values["capacity"])
    except Invalid as error:
        raise Invalid(str(error), ["capacity"]) from error
    try:
        return Credits(peak.removesuffix("_max"), values[peak], capacity)  # type: ignore[arg-type]  # it checks
    except ValueError as error:
        raise Invalid(str(error)) from error


def _possible(keys: _Keys) -> Limits:
    """The limits in the mapping. What QEMU would refuse becomes a fault."""
    try:
        limits = Limits.from_mapping(keys.values)
    except LimitsError as error:
        for problem in error.problems:
            keys.fault(problem.text, problem.names[0])
        raise InvalidParts(keys.faults) from error
    keys.done()
    return limits


# A shorter period would keep a guest busy with probes; a longer one is probably a mistake.
_SHORTEST_PERIOD, _LONGEST_PERIOD = timedelta(minutes=5), timedelta(days=366)


def _period(raw: object) -> timedelta:
    if not isinstance(raw, str):
        raise Invalid(f"must be a duration such as 6h, 90m or 1d12h, not {shown(raw)}")
    try:
        period = durations.parse(short(raw, 40))
    except ValueError as error:
        raise Invalid(str(error)) from error
    if not _SHORTEST_PERIOD <= period <= _LONGEST_PERIOD:
        raise Invalid(f"must be at least 5m and at most 366d, not {raw}")
    return period


def _directory(raw: object) -> str:
    if not isinstance(raw, str):
        raise Invalid(f"must be text, not {shown(raw)}; put it in quotes")
    try:
        return directory_of(raw)
    except ValueError as error:
        raise Invalid(f"{error}; it is {shown(raw)}") from error


def _once(some: Callable[[object], tuple[str, ...]]) -> Callable[[object], tuple[str, ...]]:
    def validate(raw: object) -> tuple[str, ...]:
        values = some(raw)
        again = [Invalid(f"{values[at]} is listed twice; remove one", path=[at]) for at in repeated(values)]
        if again:
            raise InvalidParts(again)
        return values

    return validate


def _probe(raw: object) -> Probing:
    keys = _Keys(raw, {"every": _period, "jobs": _once(_each(one_of(JOBS))), "directory": _once(_each(_directory))})
    keys.need("every", ": how often, such as every: 6h")
    values = keys.done()
    return Probing(values["every"], values.get("jobs", JOBS), values.get("directory", ()))


_PERCENTILE = re.compile(r"p(\d{1,2}(\.\d{1,6})?)", re.ASCII)
_TIME = re.compile(r"(\d{1,9}(\.\d{1,9})?) ?(us|ms|s)", re.ASCII)
_MICROSECONDS = {"us": 1, "ms": 1000, "s": 1_000_000}
# fio counts everything above 17.18 s as equal.
_LONGEST_QUANTILE = 17
# How long a probe waits for requests after a job's time is over.
_LONGEST_SLOWEST = 3600


def _time(longest: int, why: str) -> Callable[[object], float]:
    """Seconds."""

    def validate(raw: object) -> float:
        match = _TIME.fullmatch(raw) if isinstance(raw, str) else None
        if match is None:
            raise Invalid(f"must be a time with its unit, such as 800us, 50ms or 1.5s, not {shown(raw)}")
        seconds = float(match[1]) * _MICROSECONDS[match[3]] / 1_000_000
        if not seconds:
            raise Invalid("must be more than 0")
        if seconds >= longest:
            raise Invalid(f"must be less than {longest}s: {why}")
        return seconds

    return validate


_quantile_time = _time(_LONGEST_QUANTILE, "fio measures longer times for the slowest request only")
_slowest_time = _time(_LONGEST_SLOWEST, "a probe does not wait longer for a request")


def _share(name: str) -> float | None:
    """``p99.9`` is 0.999; None if it is not a percentile."""
    match = _PERCENTILE.fullmatch(name)
    # Moving the point in the text gives the nearest float; a division may not.
    share = float(f"{match[1]}e-2") if match else 0
    return share or None


def _objective(raw: object) -> Objective:
    names = [name for name in raw if _share(name)] if isinstance(raw, dict) else []
    if len(names) > _MOST_PERCENTILES:
        raise Invalid(f"has more than {_MOST_PERCENTILES} percentiles")
    validators = dict.fromkeys((*_OBJECTIVE_KEYS, *names), _quantile_time) | {"slowest": _slowest_time}
    keys = _Keys(raw, validators)
    if not keys.given:
        raise Invalid("is empty; write how long requests may take, such as p99: 50ms")
    quantiles = sorted((share, name) for name in names if (share := _share(name)) and name in keys.values)
    rising = [*quantiles, (1.0, "slowest")] if "slowest" in keys.values else quantiles
    for (share, name), (next_share, next_name) in pairwise(rising):
        if share == next_share:
            keys.fault(f"is the same percentile as {name}; remove one", next_name)
        elif keys.values[next_name] < keys.values[name]:
            keys.fault(f"must not be below {name} ({keys.given[name]})", next_name)
    values = keys.done()
    return Objective(tuple((share, values[name]) for share, name in quantiles), values.get("slowest"))


def _objectives(raw: object) -> dict[str, Objective]:
    """By volume type."""
    if not isinstance(raw, dict):
        raise Invalid("must be a mapping of names of volume types, each with an objective")
    keys = _Keys(raw, dict.fromkeys(raw, _objective))
    for name in raw:
        if len(name) > _LONGEST_TEXT:
            keys.fault(f"must be at most {_LONGEST_TEXT} characters, and is {len(name)}", name)
    return keys.done()


_LARGEST_SHARE = 1000


def _share_of_cluster(raw: object) -> float:
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not 1 <= raw <= _LARGEST_SHARE:
        raise Invalid(f"must be a number from 1 to {_LARGEST_SHARE}, not {shown(raw)}: a multiple of desired limits")
    return float(raw)


def _lasting_bound(raw: object) -> Limits:
    """A floor without bursts, which nothing has while it is reduced."""
    limits = _bound(raw)
    if bursts := [name for name in limits.in_effect() if "_max" in name]:
        raise Invalid(f"{bursts[0]} is a burst, and reduced disks have none; remove it")
    return limits


def _shared_bound(raw: object) -> Limits:
    """A ceiling for several disks together: without bursts, which are no rate to share."""
    limits = _bound(raw)
    if bursts := [name for name in limits.in_effect() if "_max" in name]:
        raise Invalid(f"{bursts[0]} is a burst, and several disks share rates only; remove it")
    return limits


def _congestion(raw: object) -> UnderCongestion:
    keys = _Keys(raw, {"share": _share_of_cluster, "floor": _lasting_bound})
    keys.need("floor", ", such as floor: {total_iops_sec: 50}: without one these disks are never reduced")
    return UnderCongestion(**keys.done())


_RULE: Mapping[str, Callable[[Any], Any]] = {
    "name": _text,
    "match": _match,
    "limits": _limits,
    "override": boolean,
    "credits": _credits,
    "ceiling": _bound,
    "floor": _bound,
    **dict.fromkeys(_SHARED, _shared_bound),
    "manage": boolean,
    "boot_volume_by_flavor": boolean,
    "probe": _probe,
    "objective": _objective,
    "congestion": _congestion,
    "until": _until,
    "reason": line(_LONGEST_REASON),
}


def _rule(raw: object) -> Rule:
    keys = _Keys(raw, _RULE)
    for name in ("name", "match"):
        keys.need(name)
    _check_effects(keys)
    values = keys.values
    match = values.get("match")
    # A guest's agent that runs one program can run any; and tenants choose what the other keys match.
    if "probe" in keys.given and match is not None and not (match.project or match.guest or match.volume):
        keys.fault(
            "probe needs project, a guest's uuid or volume under match: it runs programs inside guests", "probe"
        )
    credits, limits = values.get("credits"), values.get("limits")
    if credits is not None and limits is not None and (obstacle := credits.obstacle(limits)):
        keys.fault(f"credits are not possible with these limits: {obstacle}", "credits")
    for name, words in _above(values.get("floor"), values.get("ceiling")):
        keys.fault(words, "floor", name)
    values = keys.done()
    return Rule(**{"why" if name == "reason" else name: value for name, value in values.items()})


def _check_effects(keys: _Keys) -> None:
    """A rule has an effect, and none of its keys is without one."""
    values = keys.values
    if values.get("manage") is False:
        for name in ("limits", "override", "credits", *_BOUNDS, "congestion", *_SWITCHES):
            if name in keys.given and values.get(name) is not False:
                keys.fault(f"{name} has no effect beside manage: false; remove one of them", name)
    elif values.get("override") and keys.lacks("limits"):
        keys.fault("override needs limits, which it puts before those of Cinder and the flavor", "override")
    # A key with a wrong value is a fault already, and may be the rule's effect.
    effects = [name for name in _EFFECTS if name in keys.given and values.get(name) is not (name == "manage")]
    if (
        not effects
        and not _REMOVED.keys() & keys.given.keys()
        and keys.lacks("limits", "credits", *_BOUNDS, "probe", "objective")
    ):
        switches = "".join(f"{name}: true, " for name in _SWITCHES)
        keys.fault(
            f"has none of limits, credits, ceiling, floor, {', '.join(_SHARED)}, manage: false, {switches}probe,"
            " objective and congestion"
        )


def _above(floor: Limits | None, ceiling: Limits | None) -> Iterator[tuple[str, str]]:
    """The parameters of a floor that are above the ceiling, each with its message."""
    if floor is None or ceiling is None:
        return
    pairs = (("total", "total"), ("read", "read"), ("write", "write"), ("read", "total"), ("write", "total"))
    for unit in UNITS:
        for own, other in pairs:
            yield from _exceeds(floor, ceiling, f"{own}_{unit}_sec", f"{other}_{unit}_sec")
        total, parts = f"total_{unit}_sec", [f"read_{unit}_sec", f"write_{unit}_sec"]
        for above, low, under, high in (
            (" and ".join(parts), _sum(floor, parts), total, _sum(ceiling, [total])),
            (total, _sum(floor, [total]), " and ".join(parts), _sum(ceiling, parts)),
        ):
            if low > high > 0:
                verb = "is" if above == total else "are"
                yield above.split()[0], f"{above} ({low}) {verb} above the ceiling's {under} ({high})"


def _sum(limits: Limits, names: list[str]) -> int:
    """What they allow together: 0, for unlimited, if one is unlimited."""
    values = [getattr(limits, name) for name in names]
    return sum(values) if all(values) else 0


def _exceeds(floor: Limits, ceiling: Limits, own: str, other: str) -> Iterator[tuple[str, str]]:
    most = getattr(ceiling, other)
    if not most:
        return
    # A ceiling without a burst bounds bursts too.
    top = f"{other}_max" if getattr(ceiling, f"{other}_max") else other
    for name, bound in ((own, other), (f"{own}_max", top)):
        if getattr(floor, name) > getattr(ceiling, bound):
            yield name, f"{name} ({getattr(floor, name)}) is above the ceiling's {bound} ({getattr(ceiling, bound)})"
    name, bound = f"{own}_max_length", f"{other}_max_length"
    if getattr(floor, name) > getattr(ceiling, bound) > 0:
        yield name, f"{name} ({getattr(floor, name)}) is above the ceiling's {bound} ({getattr(ceiling, bound)})"


def _rule_list(raw: object) -> tuple[Rule, ...]:
    if not isinstance(raw, list):
        raise Invalid("must be a list")
    faults = [Invalid(f"are more than {MOST_RULES}", path=[MOST_RULES])] if len(raw) > MOST_RULES else []
    rules: list[Rule] = []
    try:
        rules = each(_rule, raw[:MOST_RULES])
    except Invalid as wrong:
        faults += below(wrong)
    names = [item.get("name") if isinstance(item, dict) else None for item in raw]
    for index in repeated(names):
        faults.append(Invalid(f"name {shown(names[index])} is taken by an earlier rule", path=[index, "name"]))
    if faults:
        raise InvalidParts(faults)
    return tuple(rules)


def _default(raw: object) -> Limits:
    keys = _Keys(raw, {"limits": _limits})
    keys.need("limits")
    limits: Limits = keys.done()["limits"]
    return limits


def rules_of(raw: object) -> Rules:
    """The rules in a document. Raises ``Invalid``."""
    if raw is None:
        return Rules()
    values = _Keys(raw, {"default": _default, "rules": _rule_list, "objectives": _objectives}).done()
    rules = Rules(
        rules=values.get("rules", ()), default=values.get("default"), objectives=values.get("objectives", {})
    )
    clashes = [Invalid(words, path) for path, words in _clashing_groups(rules)]
    if clashes:
        raise InvalidParts(clashes)
    return rules


def _clashing_groups(rules: Rules) -> Iterator[tuple[Steps, str]]:
    """QEMU keeps one set of limits for a group: with two sets, each pass would write both in turn."""
    limits_of: dict[str, Limits] = {}
    everywhere: list[tuple[Steps, Limits | None]] = [(("default",), rules.default)]
    everywhere += [(("rules", index), rule.limits) for index, rule in enumerate(rules.rules)]
    for path, limits in everywhere:
        if limits is not None and limits.group_name and limits_of.setdefault(limits.group_name, limits) != limits:
            words = f"group_name {limits.group_name} has different limits elsewhere; a group has one set"
            yield (*path, "limits", "group_name"), words
