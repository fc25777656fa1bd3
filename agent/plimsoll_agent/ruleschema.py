"""What may stand in a rules file: every validator returns the value that the rest of plimsoll works with.

Or raises ``Invalid`` with all that is wrong below it, each with its path.
"""

from __future__ import annotations

import difflib
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from plimsoll_agent import spans
from plimsoll_agent.limits import PARAMETERS, UNITS, Limits, LimitsError
from plimsoll_agent.rules import JOBS, UUID, DiskKind, Match, Objective, Probing, Rule, Rules, directory_of


class Invalid(Exception):
    """What is wrong with a value; ``path`` leads from there to the part of it that is to blame."""

    def __init__(self, text: Any, path: Iterable[str | int] = ()) -> None:
        """``text`` may be something that becomes words only when they are asked for."""
        super().__init__(text)
        self.text = text
        self.path = list(path)


class InvalidParts(Invalid):
    """Several things are wrong with a value."""

    def __init__(self, parts: Sequence[Invalid]) -> None:
        super().__init__(f"{len(parts)} faults")
        self.parts = parts


MOST_RULES = 1000
_MOST_PERCENTILES = 20
_LONGEST_TEXT = 255
_LONGEST_REASON = 200
_UNTIL = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
Steps = tuple[str | int, ...]


def short(text: str, most: int) -> str:
    """Text in one line of bounded length: some of it may be anything."""
    shown = "".join(character if character.isprintable() else "?" for character in text[: most + 1])
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


_FILE_KEYS = ("default", "rules", "objectives")
_MATCH_KEYS = ("project", "user", "flavor", "image", "kind", "pool", "volume", "guest", "cluster")
_SWITCHES = ("boot_volume_by_flavor",)
_REMOVED = {
    "release_when_silent": "was removed: orphaned limits are released by plimsoll approve --remove,"
    " see Orphaned limits in the guide; take it out"
}
"""Words that a rule could have once, and what is there instead."""
_EFFECTS = ("limits", "ceiling", "floor", "manage", *_SWITCHES, "probe", "objective")
_LIMITS_KEYS = (*(parameter.name for parameter in PARAMETERS), "group_name")
_PROBE_KEYS = ("every", "jobs", "directory")
# Any other percentile may stand there too.
_OBJECTIVE_KEYS = ("p50", "p95", "p99", "p99.9", "slowest")

_PLACES: Mapping[str, str] = {
    **dict.fromkeys(_FILE_KEYS, "at the top of the file"),
    "match": "in a rule",
    **dict.fromkeys((*_EFFECTS, "override", "until", "reason"), "in a rule, beside match"),
    "limits": "under default, or in a rule beside match",
    **dict.fromkeys(_MATCH_KEYS, "under match"),
    **dict.fromkeys(_LIMITS_KEYS, "under limits"),
    **dict.fromkeys(_PROBE_KEYS, "under probe"),
    **dict.fromkeys(_OBJECTIVE_KEYS, "under objective, or under a volume type in objectives"),
}
"""Where a word belongs, to tell those who wrote it elsewhere."""


class _Stranger:
    """The words about a key that does not belong where it stands; made only if they are told."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self._name, self._known = name, tuple(known)

    def __str__(self) -> str:
        name, word = short(self._name, 40), self._name[:40].lower()
        if word in _REMOVED:
            return f"{name} {_REMOVED[word]}"
        if word in _PLACES and word not in self._known:
            return f"{name} is no key here; it belongs {_PLACES[word]}"
        here = difflib.get_close_matches(word, self._known, n=1)
        if not here and (elsewhere := difflib.get_close_matches(word, _PLACES, n=1, cutoff=0.8)):
            return f"{name} is no key here; did you mean {elsewhere[0]}? It belongs {_PLACES[elsewhere[0]]}"
        meant = f"did you mean {here[0]}?" if here else f"known are {', '.join(self._known)}"
        return f"{name} is no key here; {meant}"


class _Keys:
    """A mapping while it is judged: the values that were right, and all that was wrong."""

    def __init__(self, given: object, known: Mapping[str, Callable[[Any], Any]]) -> None:
        if not isinstance(given, dict):
            raise Invalid(f"must be a mapping with {', '.join(known)}")
        self.given = given
        self.values: dict[str, Any] = {}
        self.faults: list[Invalid] = []
        self._strangers = [name.lower() for name in given if name not in known]
        for name, value in given.items():
            if name not in known:
                stranger: Any = _Stranger(name, known)  # words, once they are asked for
                self.faults.append(Invalid(stranger, path=[name]))
                continue
            try:
                self.values[name] = known[name](value)
            except Invalid as wrong:
                self.faults += _under(name, wrong)

    def fault(self, text: str, *path: str | int) -> None:
        self.faults.append(Invalid(text, path=list(path)))

    def lacks(self, *words: str) -> bool:
        """None of the words stands here, and none is the one that somebody misspelled."""
        if any(word in self.given for word in words):
            return False
        return not any(difflib.get_close_matches(stranger[:40], words, n=1) for stranger in self._strangers[:20])

    def done(self) -> dict[str, Any]:
        if self.faults:
            raise InvalidParts(self.faults)
        return self.values


def _under(step: str | int, wrong: Invalid) -> list[Invalid]:
    faults = wrong.parts if isinstance(wrong, InvalidParts) else [wrong]
    for fault in faults:
        fault.path.insert(0, step)
    return list(faults)


def _shown(given: object) -> str:
    return short(repr(given), 60)


def _line(most: int) -> Callable[[object], str]:
    def validate(given: object) -> str:
        if not isinstance(given, str) or not given.strip():
            raise Invalid(f"must be text, not {_shown(given)}; put it in quotes")
        if len(given) > most:
            raise Invalid(f"must be at most {most} characters, and is {len(given)}")
        if not given.isprintable():
            raise Invalid(f"must be one line of characters that can be seen, not {_shown(given)}")
        return given

    return validate


_text = _line(_LONGEST_TEXT)


def _boolean(given: object) -> bool:
    if not isinstance(given, bool):
        raise Invalid(f"must be true or false, not {_shown(given)}")
    return given


def _until(given: object) -> datetime:
    # YAML's own times would be read without a zone too, as UTC in one version of PyYAML and as local in another.
    try:
        if isinstance(given, str) and _UNTIL.fullmatch(given):
            return datetime.fromisoformat(given.upper()).astimezone(UTC)
    except (ValueError, OverflowError):  # a 13th month, a year before the first
        pass
    raise Invalid(
        f"must be a time with its zone, as 2026-12-01T18:00:00Z or 2026-12-01T19:00:00+01:00, not {_shown(given)}"
    )


def _each(one: Callable[[object], str]) -> Callable[[object], tuple[str, ...]]:
    """One value, or a list of them."""

    def validate(given: object) -> tuple[str, ...]:
        if not isinstance(given, list):
            return (one(given),)
        if not given:
            raise Invalid("is an empty list, which nothing can match")
        values: list[str] = []
        faults: list[Invalid] = []
        for index, value in enumerate(given):
            try:
                values.append(one(value))
            except Invalid as wrong:
                faults += _under(index, wrong)
        if faults:
            raise InvalidParts(faults)
        return tuple(values)

    return validate


def _uuid(given: object) -> str:
    """An id as Cinder and libvirt write it; people write it without dashes and in capitals too."""
    value = _text(given)
    if not UUID.fullmatch(value):
        raise Invalid(f"must be an id (uuid), not {_shown(value)}: names are not unique, and can be changed")
    return str(uuid.UUID(value))


def _dashless(given: object) -> str:
    """An id as Keystone writes it."""
    return _uuid(given).replace("-", "")


def _guest(given: object) -> str:
    value = _text(given)
    return str(uuid.UUID(value)) if UUID.fullmatch(value) else value


def _kind(given: object) -> str:
    if not isinstance(given, str) or given not in tuple(DiskKind):
        near = difflib.get_close_matches(str(given)[:40].lower(), DiskKind, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise Invalid(f"must be {' or '.join(DiskKind)}, not {_shown(given)}{meant}")
    return DiskKind(given)


_MATCH: Mapping[str, Callable[[object], tuple[str, ...]]] = {
    "project": _each(_dashless),
    "user": _each(_dashless),
    "flavor": _each(_text),
    "image": _each(_uuid),
    "kind": _each(_kind),
    "pool": _each(_text),
    "volume": _each(_uuid),
    "guest": _each(_guest),
    "cluster": _each(_uuid),
}


def _match(given: object) -> Match:
    keys = _Keys(given, _MATCH)
    if not keys.given:
        raise Invalid("is empty; limits for every disk belong under default")
    # Tenants choose the names and images of their guests: these alone must not buy anybody another limit.
    if keys.lacks("project"):
        if not all(UUID.fullmatch(guest) for guest in keys.values.get("guest", ())):
            keys.fault("guest by name needs project too: tenants choose the names of their guests", "guest")
        if "image" in keys.given:
            keys.fault("image needs project too: tenants choose the images of their guests", "image")
    return Match(**keys.done())


def _limits(given: object) -> Limits:
    if given == "unlimited":
        return Limits()
    if isinstance(given, str) and difflib.get_close_matches(given[:40].lower(), ["unlimited"]):
        raise Invalid(f"must be a mapping or the word unlimited, not {_shown(given)}; did you mean unlimited?")
    values = _Keys(given, dict.fromkeys(_LIMITS_KEYS, lambda value: value))
    if not values.given:
        raise Invalid("is empty; to say that there is no limit, write: limits: unlimited")
    limits = _possible(values)
    if limits.unlimited:
        raise Invalid("is no limit at all; if that is meant, write: limits: unlimited")
    return limits


def _bound(given: object) -> Limits:
    """A ceiling or a floor."""
    if given == "unlimited":
        raise Invalid("unlimited bounds nothing; remove it")
    values = _Keys(given, dict.fromkeys(_LIMITS_KEYS, lambda value: value))
    if not values.given:
        raise Invalid("is empty; name what it bounds, as total_iops_sec")
    for name in ("size_iops_sec", "group_name"):
        if name in values.given:
            values.fault(f"{name} is no bound; it belongs under limits", name)
            values.values.pop(name)
    for name, value in list(values.values.items()):
        if value == 0 and isinstance(value, int) and not name.endswith("_length"):
            values.fault(f"{name} is 0, which stands for unlimited and bounds nothing; remove it", name)
    return _possible(values)


def _possible(keys: _Keys) -> Limits:
    """The limits that the mapping says, with what QEMU would refuse among the faults."""
    try:
        limits = Limits.from_mapping(keys.values)
    except LimitsError as error:
        for problem in error.problems:
            keys.fault(problem.text, problem.names[0])
        raise InvalidParts(keys.faults) from error
    keys.done()
    return limits


# More often than that, guests would do little else; and a year and a day is a slip of the pen.
_SHORTEST_PERIOD, _LONGEST_PERIOD = timedelta(minutes=5), timedelta(days=366)


def _period(given: object) -> timedelta:
    if not isinstance(given, str):
        raise Invalid(f"must be a span of time as 6h, 90m or 1d12h, not {_shown(given)}")
    try:
        period = spans.parse(short(given, 40))
    except ValueError as error:
        raise Invalid(str(error)) from error
    if not _SHORTEST_PERIOD <= period <= _LONGEST_PERIOD:
        raise Invalid(f"must be at least 5m and at most 366d, not {given}")
    return period


def _job(given: object) -> str:
    if not isinstance(given, str) or given not in JOBS:
        near = difflib.get_close_matches(str(given)[:40].lower(), JOBS, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise Invalid(f"must be {', '.join(JOBS[:-1])} or {JOBS[-1]}, not {_shown(given)}{meant}")
    return given


def _directory(given: object) -> str:
    if not isinstance(given, str):
        raise Invalid(f"must be text, not {_shown(given)}; put it in quotes")
    try:
        return directory_of(given)
    except ValueError as error:
        raise Invalid(f"{error}; it is {_shown(given)}") from error


def _once(each: Callable[[object], tuple[str, ...]]) -> Callable[[object], tuple[str, ...]]:
    def validate(given: object) -> tuple[str, ...]:
        values = each(given)
        seen: set[str] = set()
        again: list[Invalid] = []
        for index, value in enumerate(values):
            if value in seen:
                again.append(Invalid(f"{value} stands here twice; remove one", path=[index]))
            seen.add(value)
        if again:
            raise InvalidParts(again)
        return values

    return validate


def _probe(given: object) -> Probing:
    keys = _Keys(given, {"every": _period, "jobs": _once(_each(_job)), "directory": _once(_each(_directory))})
    if keys.lacks("every"):
        keys.fault("every is missing: how often, as every: 6h", "every")
    values = keys.done()
    return Probing(values["every"], values.get("jobs", JOBS), values.get("directory", ()))


_PERCENTILE = re.compile(r"p(\d{1,2}(\.\d{1,6})?)", re.ASCII)
_TIME = re.compile(r"(\d{1,9}(\.\d{1,9})?) ?(us|ms|s)", re.ASCII)
_MICROSECONDS = {"us": 1, "ms": 1000, "s": 1_000_000}
# fio counts all that takes longer than 17.18 s as one.
_LONGEST_QUANTILE = 17
# As long as requests are waited for at the most once a job's time is over.
_LONGEST_SLOWEST = 3600


def _time(longest: int, why: str) -> Callable[[object], float]:
    """Seconds."""

    def validate(given: object) -> float:
        found = _TIME.fullmatch(given) if isinstance(given, str) else None
        if found is None:
            raise Invalid(f"must be a time with its unit, as 800us, 50ms or 1.5s, not {_shown(given)}")
        seconds = float(found[1]) * _MICROSECONDS[found[3]] / 1_000_000
        if not seconds:
            raise Invalid("must be more than 0")
        if seconds >= longest:
            raise Invalid(f"must be less than {longest}s: {why}")
        return seconds

    return validate


_quantile_time = _time(_LONGEST_QUANTILE, "fio tells longer times apart for the slowest request only")
_slowest_time = _time(_LONGEST_SLOWEST, "nobody waits longer for a request")


def _share(name: str) -> float | None:
    """``p99.9`` is 0.999; None for what is no percentile."""
    found = _PERCENTILE.fullmatch(name)
    # Moving the point in the text gives the nearest float; a division may give its neighbour.
    share = float(f"{found[1]}e-2") if found else 0
    return share or None


def _objective(given: object) -> Objective:
    names = [name for name in given if _share(name)] if isinstance(given, dict) else []
    if len(names) > _MOST_PERCENTILES:
        raise Invalid(f"has more than {_MOST_PERCENTILES} percentiles")
    known = dict.fromkeys((*_OBJECTIVE_KEYS, *names), _quantile_time) | {"slowest": _slowest_time}
    keys = _Keys(given, known)
    if not keys.given:
        raise Invalid("is empty; say how long requests may take, as p99: 50ms")
    quantiles = sorted((share, name) for name in names if (share := _share(name)) and name in keys.values)
    rising = [*quantiles, (1.0, "slowest")] if "slowest" in keys.values else quantiles
    for (share, name), (next_share, next_name) in pairwise(rising):
        if share == next_share:
            keys.fault(f"says the same as {name}; remove one", next_name)
        elif keys.values[next_name] < keys.values[name]:
            keys.fault(f"must not be below {name} ({keys.given[name]})", next_name)
    values = keys.done()
    return Objective(tuple((share, values[name]) for share, name in quantiles), values.get("slowest"))


def _objectives(given: object) -> dict[str, Objective]:
    """By volume type."""
    if not isinstance(given, dict):
        raise Invalid("must be a mapping of names of volume types, each with an objective")
    keys = _Keys(given, dict.fromkeys(given, _objective))
    for name in given:
        if len(name) > _LONGEST_TEXT:
            keys.fault(f"must be at most {_LONGEST_TEXT} characters, and is {len(name)}", name)
    return keys.done()


_RULE: Mapping[str, Callable[[Any], Any]] = {
    "name": _text,
    "match": _match,
    "limits": _limits,
    "override": _boolean,
    "ceiling": _bound,
    "floor": _bound,
    "manage": _boolean,
    "boot_volume_by_flavor": _boolean,
    "probe": _probe,
    "objective": _objective,
    "until": _until,
    "reason": _line(_LONGEST_REASON),
}


def _rule(given: object) -> Rule:
    keys = _Keys(given, _RULE)
    for name in ("name", "match"):
        if keys.lacks(name):
            keys.fault(f"{name} is missing", name)
    values = keys.values
    if values.get("manage") is False:
        for name in ("limits", "override", "ceiling", "floor", *_SWITCHES):
            if name in keys.given and values.get(name) is not False:
                keys.fault(f"{name} means nothing beside manage: false; remove one of them", name)
    elif values.get("override") and keys.lacks("limits"):
        keys.fault("override needs limits: it puts them before those of Cinder and the flavor", "override")
    # A word that is there and wrong is told already, and may be what the rule was to say.
    said = [name for name in _EFFECTS if name in keys.given and values.get(name) is not (name == "manage")]
    if (
        not said
        and not _REMOVED.keys() & keys.given.keys()
        and keys.lacks("limits", "ceiling", "floor", "probe", "objective")
    ):
        switches = "".join(f"{name}: true, " for name in _SWITCHES)
        keys.fault(f"says none of limits, ceiling, floor, manage: false, {switches}probe and objective")
    match = values.get("match")
    # Whoever may run one program in a guest may run any; and tenants choose all else that a match can ask for.
    if "probe" in keys.given and match is not None and not (match.project or match.guest or match.volume):
        keys.fault(
            "probe needs project, a guest's uuid or volume under match: it runs programs inside guests", "probe"
        )
    for name, words in _above(values.get("floor"), values.get("ceiling")):
        keys.fault(words, "floor", name)
    values = keys.done()
    return Rule(**{"why" if name == "reason" else name: value for name, value in values.items()})


def _above(floor: Limits | None, ceiling: Limits | None) -> Iterator[tuple[str, str]]:
    """Where a floor promises what the ceiling forbids: the parameter, and the words for it."""
    if floor is None or ceiling is None:
        return
    pairs = (("total", "total"), ("read", "read"), ("write", "write"), ("read", "total"), ("write", "total"))
    for unit in UNITS:
        for own, other in pairs:
            yield from _exceeds(floor, ceiling, f"{own}_{unit}_sec", f"{other}_{unit}_sec")
        total, parts = f"total_{unit}_sec", [f"read_{unit}_sec", f"write_{unit}_sec"]
        for above, promised, below, allowed in (
            (" and ".join(parts), _sum(floor, parts), total, _sum(ceiling, [total])),
            (total, _sum(floor, [total]), " and ".join(parts), _sum(ceiling, parts)),
        ):
            if promised > allowed > 0:
                yield above.split()[0], f"{above} ({promised}) are above the ceiling's {below} ({allowed})"


def _sum(limits: Limits, names: list[str]) -> int:
    """What they allow together: 0, for unlimited, where one is."""
    values = [getattr(limits, name) for name in names]
    return sum(values) if all(values) else 0


def _exceeds(floor: Limits, ceiling: Limits, own: str, other: str) -> Iterator[tuple[str, str]]:
    allowed = getattr(ceiling, other)
    if not allowed:
        return
    # A ceiling without a burst bounds bursts too.
    top = f"{other}_max" if getattr(ceiling, f"{other}_max") else other
    for name, bound in ((own, other), (f"{own}_max", top)):
        if getattr(floor, name) > getattr(ceiling, bound):
            yield name, f"{name} ({getattr(floor, name)}) is above the ceiling's {bound} ({getattr(ceiling, bound)})"
    name, bound = f"{own}_max_length", f"{other}_max_length"
    if getattr(floor, name) > getattr(ceiling, bound) > 0:
        yield name, f"{name} ({getattr(floor, name)}) is above the ceiling's {bound} ({getattr(ceiling, bound)})"


def _rule_list(given: object) -> tuple[Rule, ...]:
    if not isinstance(given, list):
        raise Invalid("must be a list")
    rules: list[Rule] = []
    faults: list[Invalid] = []
    if len(given) > MOST_RULES:
        faults.append(Invalid(f"are more than {MOST_RULES}", path=[MOST_RULES]))
    for index, item in enumerate(given[:MOST_RULES]):
        try:
            rules.append(_rule(item))
        except Invalid as wrong:
            faults += _under(index, wrong)
    faults += [
        Invalid(f"name {_shown(name)} is taken by an earlier rule", path=[index, "name"])
        for index, name in _repeated(given)
    ]
    if faults:
        raise InvalidParts(faults)
    return tuple(rules)


def _repeated(given: list[object]) -> Iterator[tuple[int, str]]:
    seen: set[str] = set()
    for index, item in enumerate(given):
        name = item.get("name") if isinstance(item, dict) else None
        if isinstance(name, str):
            if name in seen:
                yield index, name
            seen.add(name)


def _default(given: object) -> Limits:
    keys = _Keys(given, {"limits": _limits})
    if keys.lacks("limits"):
        keys.fault("limits is missing", "limits")
    limits: Limits = keys.done()["limits"]
    return limits


def rules_of(given: object) -> Rules:
    try:
        keys = _Keys(given, {"default": _default, "rules": _rule_list, "objectives": _objectives})
    except Invalid as wrong:
        raise InvalidParts([wrong]) from wrong
    for path, words in _clashing_groups(keys.given):
        keys.fault(words, *path)
    values = keys.done()
    return Rules(
        rules=values.get("rules", ()), default=values.get("default"), objectives=values.get("objectives", {})
    )


def _clashing_groups(given: Mapping[str, Any]) -> Iterator[tuple[Steps, str]]:
    """QEMU keeps one set of limits for a group: with two, each pass would undo the one before."""
    seen: dict[str, Limits] = {}
    rules = given.get("rules")
    everywhere: list[tuple[Steps, object]] = [(("default",), given.get("default"))]
    everywhere += [(("rules", index), rule) for index, rule in enumerate(rules if isinstance(rules, list) else ())]
    for path, around in everywhere:
        written = around.get("limits") if isinstance(around, dict) else None
        if not isinstance(written, dict) or "group_name" not in written:
            continue
        try:
            limits = _limits(written)
        except Invalid:  # told where it stands
            continue
        name = str(limits.group_name)
        if seen.setdefault(name, limits) != limits:
            words = f"group_name {name} stands with other limits elsewhere; a group has one set"
            yield (*path, "limits", "group_name"), words
