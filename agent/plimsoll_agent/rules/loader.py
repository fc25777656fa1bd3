"""The rules file: text in, ``Rules`` out, or every fault in it with its line.

The file is YAML: ``default: {limits: …}``, an ordered list ``rules``, each with a ``name``, a ``match`` and its
effects on disks that match, and ``objectives`` by volume type. Sets of limits are taken whole, never merged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from plimsoll_agent.ceilings.buckets import Whose
from plimsoll_agent.errors import ConfigError
from plimsoll_agent.model.direction import LOWEST, too_low
from plimsoll_agent.model.limits import BASES, PARAMETERS, UNITS, Limits, Unit, filter_group
from plimsoll_agent.rules.model import Rule, Rules
from plimsoll_agent.rules.schema import rules_of
from plimsoll_agent.util import quantities, schema
from plimsoll_agent.util.frozen import frozen, replace
from plimsoll_agent.util.schema import FaultSeverity, Remark, RemarkCode, Steps
from plimsoll_agent.util.text import minute


class NoRules(ConfigError):
    """The rules file is missing or empty."""


_SHARED = tuple(whose.word for whose in Whose)
_QUANTITIES = {parameter.name: parameter.quantity for parameter in PARAMETERS}


@frozen
class CheckedRules:
    """The rules in a text, None if there are faults, and every remark in the order of the lines."""

    rules: Rules | None
    remarks: tuple[Remark, ...]

    @property
    def warnings(self) -> int:
        return sum(remark.severity is FaultSeverity.WARNING for remark in self.remarks)


Read = Callable[[Path], str | None]
"""Returns the text of a file, None if it is missing. Raises ``ConfigError``."""


def read(path: Path, *, required: bool, read: Read = schema.read) -> str:
    """The text of the rules file; empty if there is none and it is not ``required``.

    Raises ``ConfigError``, ``NoRules`` if it is missing or empty.
    """
    text = read(path)
    if text is None and required:
        raise NoRules(f"{path}: no such file; for no rules, write {{}} into it")
    return some(text or "", str(path)) if required else text or ""


def is_empty(text: str) -> bool:
    """Whether there is nothing in it, or nothing but comments, a null and the marks of a YAML document."""
    contents = (line.partition("#")[0].removeprefix("---").strip() for line in text.splitlines())
    return all(content in ("", "...", "~", "null") for content in contents)


def some(text: str, origin: str) -> str:
    """The text, which must not be empty. Raises ``NoRules``."""
    if is_empty(text):
        raise NoRules(f"{origin}: is empty; for no rules, write {{}} into it")
    return text


def parse(text: str, origin: str) -> Rules:
    """The rules in the text. Raises ``ConfigError``: a line ``origin:line: key: text`` for each fault."""
    return replace(schema.check(text, rules_of).good(origin), revision=revision_of(text))


def check(text: str, now: datetime, lowest: Mapping[Unit, int] = LOWEST) -> CheckedRules:
    """The faults in the text, or if there are none, warnings, and the numbers that were written with a unit.

    Limits below ``lowest`` are warnings.
    """
    result = schema.check(text, rules_of)
    if result.value is None:
        return CheckedRules(None, result.faults)
    document, rules = result.document, result.value
    entries = [(FaultSeverity.WARNING, *warning) for warning in _warnings(rules, document.value, now)]
    entries += [(FaultSeverity.WARNING, RemarkCode.TOO_LOW, *warning) for warning in _low(rules, lowest)]
    entries += [(FaultSeverity.NOTE, RemarkCode.EXACT_NUMBER, *note) for note in _numbers(document.value)]
    remarks = (
        Remark(line=document.line_of(path), key=schema.key_of(path), text=words, code=code, severity=severity)
        for severity, code, path, words in entries
    )
    return CheckedRules(replace(rules, revision=revision_of(text)), schema.in_order(remarks))


def revision_of(text: str) -> str:
    """The SHA-256 digest of the text: 64 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def _limit_sets(document: Any) -> Iterator[tuple[Steps, Mapping[str, object]]]:
    """Every set of limits in a valid file, as it is written, with its path."""
    content = document or {}
    parts: list[tuple[Steps, Mapping[str, object]]] = [(("default",), content.get("default") or {})]
    parts += [(("rules", index), rule) for index, rule in enumerate(content.get("rules") or ())]
    for path, part in parts:
        for name in ("limits", "ceiling", "floor", *_SHARED):
            limits = part.get(name)
            if isinstance(limits, Mapping):
                yield (*path, name), limits
        if isinstance(under := part.get("congestion"), Mapping):
            yield (*path, "congestion", "floor"), under["floor"]


def _numbers(document: Any) -> Iterator[tuple[Steps, str]]:
    """What each number with a unit is read as."""
    for path, limits in _limit_sets(document):
        for parameter in PARAMETERS:
            number = limits.get(parameter.name)
            if isinstance(number, str):
                yield (*path, parameter.name), f"{number} is {parameter.read(number)}"


def _low(rules: Rules, lowest: Mapping[Unit, int]) -> Iterator[tuple[Steps, str]]:
    """Limits and ceilings that are lower than any that is meant."""
    sets: list[tuple[Steps, Limits | None]] = [(("default", "limits"), rules.default)]
    for index, rule in enumerate(rules.rules):
        sets += [(("rules", index, word), getattr(rule, word)) for word in ("limits", "ceiling", *_SHARED)]
    for path, limits in sets:
        for unit in () if limits is None else too_low(Limits(), limits, lowest):
            bound = quantities.written(lowest[unit], _QUANTITIES[f"total_{unit}_sec"])
            names = [base for base in BASES if f"_{unit}_" in base and 0 < getattr(limits, base) < lowest[unit]]
            for name in names:
                hint = f": if a unit was forgotten, write it, as {name}: 100MiB" if unit == "bytes" else ""
                yield (*path, name), f"{name} is less than lowest_{unit} in [brake], {bound}{hint}"
            if not names:
                words = f"size_iops_sec allows large requests less than lowest_{unit} in [brake], {bound}"
                yield (*path, "size_iops_sec"), words


def _left_out(default: Limits, limits: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """What the default limits and the limits of a rule do not even name, with what to write for it."""
    for unit in UNITS:
        total = f"total_{unit}_sec"
        missing = {
            part: number
            for part in (f"read_{unit}_sec", f"write_{unit}_sec")
            if (number := getattr(default, part) or getattr(default, total)) and not {part, total} & limits.keys()
        }
        if len(missing) == 2 and getattr(default, total):
            missing = {total: getattr(default, total)}
        for name, number in missing.items():
            yield name, quantities.written(number, _QUANTITIES[name])


def _warnings(rules: Rules, document: Any, now: datetime) -> Iterator[tuple[RemarkCode, Steps, str]]:
    for index, rule in enumerate(rules.rules):
        if rule.until is not None and rule.ended(now):
            words = f"until has passed ({minute(rule.until)}): the rule has no effect; remove it"
            yield RemarkCode.RULE_ENDED, ("rules", index, "until"), words
    sets = dict(_limit_sets(document))
    for place, limits in sets.items():
        if str(limits.get("group_name", "")).startswith(filter_group("")):
            words = "libvirt names the groups of throttle filters so: a guest that has this one is not given it"
            yield RemarkCode.GROUP_OF_FILTERS, (*place, "group_name"), f"{words}; choose another name"
    active = [(index, rule) for index, rule in enumerate(rules.rules) if not rule.ended(now)]
    for index, rule in active:
        path: Steps = ("rules", index, "limits")
        if rules.default is not None and rule.limits is not None and path in sets:
            for name, number in _left_out(rules.default, sets[path]):
                words = f"leaves out {name}, which the default limits to {number}; a set of limits is taken whole"
                yield RemarkCode.LIMITS_LEFT_OUT, path, f"{words}: add {name}: {number}, or {name}: 0 for no limit"
        for effect in _effects(rule):
            for other_index, other in active:
                if other is not rule and _precludes(other, other_index, rule, index, effect):
                    words = f'{effect} has no effect: rule "{other.name}" comes first and matches all of these disks'
                    yield RemarkCode.NO_EFFECT, ("rules", index, effect), words
                    break


def _effects(rule: Rule) -> list[str]:
    effects = {
        "manage": not rule.manage,
        "limits": rule.limits is not None,
        "credits": rule.credits is not None,
        "ceiling": rule.ceiling is not None,
        "floor": rule.floor is not None,
        **{word: getattr(rule, word) is not None for word in _SHARED},
        "boot_volume_by_flavor": rule.boot_volume_by_flavor,
        "probe": rule.probe is not None,
        "objective": rule.objective is not None,
        "congestion": rule.congestion is not None,
    }
    return [name for name, has in effects.items() if has]


def _precludes(first: Rule, first_index: int, rule: Rule, index: int, effect: str) -> bool:
    """Whether the first always takes precedence over the rule's effect. False if in doubt."""
    if first.until is not None and (rule.until is None or rule.until > first.until):
        return False
    early, late = first.override or not first.manage, rule.override or not rule.manage
    if effect in ("manage", "limits"):
        comes_first = (not early, first_index) < (not late, index) and (first.limits is not None or not first.manage)
    else:
        comes_first = first_index < index and effect in _effects(first)
        # Disks that plimsoll never writes to may be probed.
        comes_first |= not first.manage and effect not in ("probe", "objective")
    return comes_first and first.match.covers(rule.match)
