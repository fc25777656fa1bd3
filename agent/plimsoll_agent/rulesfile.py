"""The rules file: text in, ``Rules`` out, or every fault in it with its line.

The file is YAML: ``default: {limits: …}``, an ordered list ``rules``, each with a ``name``, a ``match`` and what it
says of the disks that match, and ``objectives`` by volume type. Sets of limits are taken whole, never merged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from plimsoll_agent import files, lined_yaml
from plimsoll_agent.errors import ConfigError
from plimsoll_agent.rules import Rule, Rules
from plimsoll_agent.ruleschema import InvalidParts, Steps, rules_of, short

MOST_FAULTS = 200
"""What a person can still read; the nearest words of a hundred thousand odd ones would take minutes."""
LARGEST = 2**20
"""Bytes of a rules file."""


class Severity(StrEnum):
    """What a remark means for the pass."""

    FAULT = "fault"
    """The file is refused whole."""
    WARNING = "warning"
    """The file is taken, and perhaps not meant so."""


@dataclass(frozen=True, slots=True)
class Remark:
    """Something about one place in the file; ``key`` is like ``rules[2].match.pool``, empty for the whole file."""

    line: int
    key: str
    text: str
    severity: Severity = Severity.FAULT

    def at(self, origin: str) -> str:
        """``origin:line: key: what is wrong``; the key's last word is left out where the text begins with it."""
        around, _, last = self.key.rpartition(".")
        key = around if last and self.text.startswith(last) else self.key
        return f"{origin}:{self.line}: {key}: {self.text}" if key else f"{origin}:{self.line}: {self.text}"


@dataclass(frozen=True, slots=True)
class Checked:
    """The rules in a text, None where there are faults, and every remark in the order of the lines."""

    rules: Rules | None
    remarks: tuple[Remark, ...]


def read(path: Path, *, required: bool) -> str:
    """The text of the rules file; empty when there is none and none is ``required``. Raises ``ConfigError``."""
    try:
        written = files.read_whole(path, LARGEST + 1, follow=True)
    except FileNotFoundError:
        written = b""
    except (OSError, ValueError) as error:  # a path with a null character in it
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    return decoded(written, str(path), required=required)


def decoded(written: bytes, origin: str, *, required: bool) -> str:
    """The text in the bytes of a rules file. Raises ``ConfigError``."""
    if len(written) > LARGEST:
        raise ConfigError(f"{origin}:1: is larger than 1 MiB")
    try:
        text = written.decode("utf-8")
    except UnicodeDecodeError as error:
        line = written.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{origin}:{line}: cannot be read: {error}") from error
    if required and not text.strip():
        raise ConfigError(f"{origin}: is missing or empty; a file that says {{}} stands for no rules")
    return text


def parse(text: str, origin: str) -> Rules:
    """The rules in the text. Raises ``ConfigError`` with ``origin:line: key: what is wrong``, one a fault."""
    rules, _, faults = _parsed(text)
    if rules is None:
        raise ConfigError("\n".join(fault.at(origin) for fault in faults))
    return rules


def check(text: str, now: datetime) -> Checked:
    """All that there is to say of the text: faults, or where there are none, what is perhaps not meant so."""
    rules, line_of, remarks = _parsed(text)
    if rules is not None:
        remarks = _in_order(
            Remark(line_of(path), _key(path), words, Severity.WARNING) for path, words in _warnings(rules, now)
        )
    return Checked(rules, remarks)


def edition_of(text: str) -> str:
    """The SHA-256 digest, 64 hexadecimal digits, of just this text."""
    return hashlib.sha256(text.encode()).hexdigest()


def _parsed(text: str) -> tuple[Rules | None, Callable[[Steps], int], tuple[Remark, ...]]:
    document = lined_yaml.load(text)
    rules, faults = Rules(), list(document.faults)
    if document.value is not None:
        try:
            rules = rules_of(document.value)
        except InvalidParts as wrong:
            for fault in wrong.parts:
                path = tuple(fault.path)
                if path not in document.odd:
                    faults.append(lined_yaml.Fault(document.line_of(path), path, fault.text))
    if not faults:
        return replace(rules, edition=edition_of(text)), document.line_of, ()
    faults.sort(key=lambda fault: fault.line)
    told = [Remark(fault.line, _key(fault.path), short(str(fault.text), 400)) for fault in faults[:MOST_FAULTS]]
    if len(faults) > MOST_FAULTS:
        told.append(Remark(faults[MOST_FAULTS].line, "", f"and {len(faults) - MOST_FAULTS} more faults"))
    return None, document.line_of, _in_order(told)


def _in_order(remarks: Iterable[Remark]) -> tuple[Remark, ...]:
    return tuple(sorted(dict.fromkeys(remarks), key=lambda remark: remark.line))


def _key(path: Steps) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{short(step, 40)}" for step in path).lstrip(".")


def _warnings(rules: Rules, now: datetime) -> Iterator[tuple[Steps, str]]:
    for index, rule in enumerate(rules.rules):
        if rule.until is not None and rule.ended(now):
            ago = f"{rule.until:%Y-%m-%d %H:%M} UTC"
            yield ("rules", index, "until"), f"until has passed ({ago}): the rule is as if it were not there"
    standing = [(index, rule) for index, rule in enumerate(rules.rules) if not rule.ended(now)]
    for index, rule in standing:
        for effect in _effects(rule):
            for other_index, other in standing:
                if other is not rule and _silences(other, other_index, rule, index, effect):
                    words = f'{effect} is never asked: rule "{other.name}" comes first and means all of these disks'
                    yield ("rules", index, effect), words
                    break


def _effects(rule: Rule) -> list[str]:
    said = {
        "manage": not rule.manage,
        "limits": rule.limits is not None,
        "ceiling": rule.ceiling is not None,
        "floor": rule.floor is not None,
        "boot_volume_by_flavor": rule.boot_volume_by_flavor,
        "probe": rule.probe is not None,
        "objective": rule.objective is not None,
    }
    return [name for name, is_said in said.items() if is_said]


def _silences(first: Rule, first_index: int, rule: Rule, index: int, effect: str) -> bool:
    """Whether the first is asked before the rule for the effect, whenever the rule could be. Errs towards no."""
    if first.until is not None and (rule.until is None or rule.until > first.until):
        return False
    early, late = first.override or not first.manage, rule.override or not rule.manage
    if effect in ("manage", "limits"):
        comes_first = (not early, first_index) < (not late, index) and (first.limits is not None or not first.manage)
    else:
        comes_first = first_index < index and effect in _effects(first)
        # What plimsoll never writes to it may measure.
        comes_first |= not first.manage and effect not in ("probe", "objective")
    return comes_first and first.match.covers(rule.match)
