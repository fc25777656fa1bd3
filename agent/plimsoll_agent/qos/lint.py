"""Finds faults in a QoS spec: Cinder accepts any key and any text, and most mistakes silently do nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from enum import StrEnum
from typing import Literal

from plimsoll_agent.catalogue.qosspec import (
    Consumer,
    Evaluation,
    QosSpec,
    cinders_number,
    evaluate,
    libvirts_number,
)
from plimsoll_agent.credits.model import KEYS, with_credits
from plimsoll_agent.model.direction import LOWEST
from plimsoll_agent.model.limits import BASES, PARAMETERS, SCOPES, UNITS, VALUE_MAX, Parameter, Unit
from plimsoll_agent.util import quantities
from plimsoll_agent.util.frozen import frozen, replace
from plimsoll_agent.util.text import nearest

Severity = Literal["error", "warning"]

_KEYS = {parameter.name: parameter for parameter in PARAMETERS}
_PER_GB = {f"{base}{ending}": _KEYS[base] for base in BASES for ending in ("_per_gb", "_per_gb_min")}
PARAMETER_OF: Mapping[str, Parameter] = {**_KEYS, **_PER_GB}
"""Which parameter a key of a spec is a value of."""
# Cinder's RBD driver (29.0.0), QOS_KEY_MAP: it sets total_iops_sec_max as librbd's burst of bytes.
_OF_LIBRBD = frozenset(each.name for each in PARAMETERS if each.role in ("base", "max")) - {"total_iops_sec_max"}
_QMP = {parameter.qmp: parameter.name for parameter in PARAMETERS}
_NEGATIVE = re.compile(r"\s*-[0-9]+\s*")
_SECTOR = 512
# Linux merges requests up to max_sectors_kb, 1280 by default, so no request is larger than this.
_LARGEST_REQUEST = 4 * 2**20
_LARGE_GIB = 1000


class LintCode(StrEnum):
    BACK_END = "back-end"
    OTHER_BACK_END = "other-back-end"
    BOTH = "both"
    UNKNOWN_CONSUMER = "unknown-consumer"
    NO_KEYS = "no-keys"
    UNKNOWN_KEY = "unknown-key"
    OF_STORAGE = "of-storage"
    GROUP_NAME = "group-name"
    NO_VALUE = "no-value"
    NOT_A_NUMBER = "not-a-number"
    NEGATIVE = "negative"
    TOO_LARGE = "too-large"
    ZERO = "zero"
    ZERO_MAX = "zero-max"
    TOTAL_AND_PART = "total-and-part"
    ONE_DIRECTION = "one-direction"
    MAX_WITHOUT_BASE = "max-without-base"
    MAX_BELOW_BASE = "max-below-base"
    MAX_IS_CEILING = "max-is-ceiling"
    BASE_OVERWRITTEN = "base-overwritten"
    MIN_WITHOUT_PER_GB = "min-without-per-gb"
    LENGTH_WITHOUT_MAX = "length-without-max"
    LENGTH_ONLY_HERE = "length-only-here"
    SIZE_WITHOUT_IOPS = "size-without-iops"
    SIZE_IS_NO_SIZE = "size-is-no-size"
    TOO_LOW = "too-low"
    CREDITS = "credits"


WARNINGS = frozenset(
    {
        LintCode.OTHER_BACK_END,
        LintCode.BOTH,
        LintCode.OF_STORAGE,
        LintCode.ZERO,
        LintCode.ONE_DIRECTION,
        LintCode.MAX_IS_CEILING,
        LintCode.LENGTH_ONLY_HERE,
        LintCode.SIZE_IS_NO_SIZE,
        LintCode.TOO_LOW,
    }
)
"""The spec does what it says, but perhaps not what was intended."""
_NOT_COMPARABLE = (LintCode.NOT_A_NUMBER, LintCode.NEGATIVE, LintCode.TOO_LARGE)


@frozen(kw_only=True)
class SpecFault:
    """One fault of a spec or of its key, with the facts for its sentence."""

    spec: str
    key: str | None
    code: LintCode
    facts: Mapping[str, object] = field(default_factory=dict)

    @property
    def severity(self) -> Severity:
        """``error``: the spec does not do what it says."""
        return "warning" if self.code in WARNINGS else "error"


def lint(spec: QosSpec, lowest: Mapping[Unit, int] = LOWEST) -> tuple[SpecFault, ...]:
    """The faults of one spec for volumes on RBD; limits below ``lowest`` are one.

    A spec that no volume can be attached with has at least one error, unless only some sizes of volumes are refused.
    """
    return tuple(
        SpecFault(spec=spec.name, key=key, code=code, facts=facts) for key, code, facts in _faults(spec, lowest)
    )


_Found = tuple[str | None, LintCode, dict[str, object]]


def _faults(spec: QosSpec, lowest: Mapping[Unit, int]) -> Iterator[_Found]:
    if spec.consumer == Consumer.BACK_END:
        is_other = bool(spec.keys) and all(map(_is_of_storage, spec.keys))
        if is_other:
            yield None, LintCode.OTHER_BACK_END, {}
        else:
            yield None, LintCode.BACK_END, _in_librbd(spec)
        return
    if not spec.for_nova:
        yield None, LintCode.UNKNOWN_CONSUMER, {"consumer": spec.consumer}
        return
    of_storage = [key for key in spec.keys if spec.consumer == Consumer.BOTH and _is_of_storage(key)]
    if spec.consumer == Consumer.BOTH and not of_storage:
        yield None, LintCode.BOTH, _in_librbd(spec)
    if not spec.keys:
        yield None, LintCode.NO_KEYS, {}
    for key in sorted(spec.keys):
        if key == "group_name":
            yield key, LintCode.GROUP_NAME, {}
        elif key in of_storage:
            yield key, LintCode.OF_STORAGE, {}
        elif key not in PARAMETER_OF and key not in KEYS:
            yield key, LintCode.UNKNOWN_KEY, {"nearest": _nearest(key)}
    for base in BASES:
        yield from _of_base(spec.keys, base)
        yield from _of_lowest(spec.keys, base, lowest)
    yield from _of_totals(spec.keys)
    yield from _of_directions(spec.keys)
    yield from _of_size(spec.keys)
    yield from _of_credits(spec)


def _in_librbd(spec: QosSpec) -> dict[str, object]:
    """Whether Cinder's RBD driver sets a limit of it; the keys that limit in QEMU, or are meant to, and not there."""
    without = sorted(key for key in spec.keys if key in PARAMETER_OF and key not in _OF_LIBRBD)
    return {"limits": any(spec.keys.get(base) for base in BASES), "without": without}


def _is_of_storage(key: str) -> bool:
    """Of an array, whose driver reads it: it is none of Nova's names, nor like one."""
    return key != "group_name" and key not in PARAMETER_OF and not _is_ours(key) and _nearest(key) is None


def _is_ours(key: str) -> bool:
    return key.startswith("plimsoll:")


def _nearest(key: str) -> str | None:
    """The key that was probably meant by a typo, or by a flavor's or QEMU's name for it."""
    if _is_ours(key):
        return nearest(key.lower(), KEYS)
    plain = key.lower().removeprefix("quota:disk_")
    if plain in _QMP:
        return _QMP[plain]
    return nearest(plain, (*_KEYS, *_PER_GB), cutoff=0.75)


def _of_base(keys: Mapping[str, str | None], base: str) -> Iterator[_Found]:
    peak, length, per_gb, minimum = f"{base}_max", f"{base}_max_length", f"{base}_per_gb", f"{base}_per_gb_min"
    is_scaled = per_gb in keys
    for_cinder = (per_gb, minimum, peak) if is_scaled else ()
    handed_on = (length,) if is_scaled else (base, peak, length)
    values = [each for key in for_cinder for each in _of_value(keys, key, cinder=True)]
    values += [each for key in handed_on for each in _of_value(keys, key)]
    yield from values
    if is_scaled and base in keys:
        yield base, LintCode.BASE_OVERWRITTEN, {"by": per_gb}
    if not is_scaled and minimum in keys:
        yield minimum, LintCode.MIN_WITHOUT_PER_GB, {"needs": per_gb}
    if not any(code in _NOT_COMPARABLE for _, code, _ in values):
        yield from _of_burst(keys, base, is_scaled=is_scaled)


def _of_burst(keys: Mapping[str, str | None], base: str, *, is_scaled: bool) -> Iterator[_Found]:
    """What is wrong between a limit, its burst and the burst's length, each of which is right for itself."""
    peak, length, per_gb = f"{base}_max", f"{base}_max_length", f"{base}_per_gb"
    if is_scaled and _number(keys, peak, cinder=True):
        yield peak, LintCode.MAX_IS_CEILING, {"by": per_gb}
    rate, burst = (0, 0) if is_scaled else (_number(keys, base) or 0, _number(keys, peak) or 0)
    if burst and not rate:
        yield peak, LintCode.MAX_WITHOUT_BASE, {"needs": base}
    elif 0 < burst < rate:
        yield peak, LintCode.MAX_BELOW_BASE, {"base": base, "max": keys[peak], "limit": keys[base]}
    seconds = _number(keys, length) or 0
    if seconds > 1 and not burst:
        yield length, LintCode.LENGTH_WITHOUT_MAX, {"needs": peak, "per_gb": per_gb if is_scaled else None}
    elif seconds * burst > VALUE_MAX:
        yield length, LintCode.TOO_LARGE, {"value": keys[length], "times": peak}
    elif seconds > 1:
        yield length, LintCode.LENGTH_ONLY_HERE, {}


def _of_lowest(keys: Mapping[str, str | None], base: str, lowest: Mapping[Unit, int]) -> Iterator[_Found]:
    """A limit that is lower than any that is meant; one per GiB for a large volume."""
    per_gb, unit = f"{base}_per_gb", _KEYS[base].unit
    if per_gb in keys:
        numbers = [_number(keys, key, cinder=True) or 0 for key in (per_gb, f"{per_gb}_min", f"{base}_max")]
        limit = max(numbers[0] * _LARGE_GIB, numbers[1])
        key = per_gb if not 0 < numbers[2] < limit else f"{base}_max"
        limit = min(limit, numbers[2] or limit)
    else:
        key, limit = base, _number(keys, base) or 0
    if 0 < limit < lowest[unit]:
        yield key, LintCode.TOO_LOW, {"unit": unit, "lowest": lowest[unit], "gib": _LARGE_GIB * (key == per_gb)}


def _of_value(keys: Mapping[str, str | None], key: str, *, cinder: bool = False) -> Iterator[_Found]:
    """The faults of a single value; ``cinder`` where Cinder computes with it and Nova does not get it."""
    if key not in keys:
        return
    value = keys[key]
    number = _number(keys, key, cinder=cinder)
    facts: dict[str, object] = {"value": value}
    if not value:
        yield key, LintCode.NO_VALUE, facts | {"refused": cinder}
    elif number is None and not _NEGATIVE.fullmatch(value):
        yield key, LintCode.NOT_A_NUMBER, facts | {"meant": _meanings(key, value)}
    elif number is None or number < 0:
        yield key, LintCode.NEGATIVE, facts
    elif number > VALUE_MAX:
        yield key, LintCode.TOO_LARGE, facts
    elif number == 0 and cinder and key.endswith("_max"):
        yield key, LintCode.ZERO_MAX, {}
    elif number == 0 and not key.endswith(("_min", "_length")):  # 0 is their default
        yield key, LintCode.ZERO, {}


def _meanings(key: str, value: str) -> tuple[tuple[str, int], ...]:
    """The numbers that text with a unit may stand for, each as it is written unambiguously."""
    parameter = PARAMETER_OF[key]
    if quantities.has_unit(value, parameter.quantity):
        return ((value, parameter.read(value)),)
    return tuple(quantities.candidates(value, parameter.quantity))


def _of_totals(keys: Mapping[str, str | None]) -> Iterator[_Found]:
    for unit in UNITS:
        for ending in ("", "_max"):
            total, *parts = (_speaker(keys, f"{scope}_{unit}_sec", ending) for scope in SCOPES)
            for part in parts:
                if total and part:
                    yield total, LintCode.TOTAL_AND_PART, {"part": part}


def _of_directions(keys: Mapping[str, str | None]) -> Iterator[_Found]:
    for unit in UNITS:
        total, *parts = (f"{scope}_{unit}_sec" for scope in SCOPES)
        bases = [base for base in (total, *parts) if base in keys or f"{base}_per_gb" in keys]
        if len(bases) == 1 and bases[0] != total and (speaker := _speaker(keys, bases[0], "")):
            (other,) = (part for part in parts if part != bases[0])
            yield speaker, LintCode.ONE_DIRECTION, {"other": other}


def _speaker(keys: Mapping[str, str | None], base: str, ending: str) -> str | None:
    """The key that sets the limit, if one does; an unreadable value counts, since it was meant as a limit."""
    per_gb = f"{base}_per_gb"
    if per_gb in keys:
        is_set = any(_number(keys, key, cinder=True) != 0 for key in (per_gb, f"{per_gb}_min") if key in keys)
        # Beside a per-GB key there is no burst, and with a maximum of 0 no limit.
        return per_gb if is_set and not ending and _number(keys, f"{base}_max", cinder=True) != 0 else None
    key = f"{base}{ending}"
    return key if keys.get(key) and _number(keys, key) != 0 else None


def _of_size(keys: Mapping[str, str | None]) -> Iterator[_Found]:
    key = "size_iops_sec"
    yield from _of_value(keys, key)
    size = _number(keys, key)
    if not size:
        return
    if not any(_speaker(keys, f"{scope}_iops_sec", "") for scope in SCOPES):
        yield key, LintCode.SIZE_WITHOUT_IOPS, {}
    elif size % _SECTOR or size > _LARGEST_REQUEST:
        yield key, LintCode.SIZE_IS_NO_SIZE, {"value": keys[key]}


def _of_credits(spec: QosSpec) -> Iterator[_Found]:
    """What is wrong with the keys for credits, for 1 GiB; not where the limits have faults of their own."""
    own = [key for key in KEYS if key in spec.keys]
    native = evaluate(replace(spec, keys={key: spec.keys[key] for key in spec.keys if key not in KEYS}), 1)
    if not own or not isinstance(native, Evaluation):
        return
    try:
        with_credits(spec.keys, native.limits)
    except ValueError as error:
        yield own[0], LintCode.CREDITS, {"detail": str(error)}


def _number(keys: Mapping[str, str | None], key: str, *, cinder: bool = False) -> int | None:
    """The key's number as Cinder or libvirt reads it, None without one."""
    try:
        return (cinders_number if cinder else libvirts_number)(key, keys.get(key))
    except ValueError:
        return None
