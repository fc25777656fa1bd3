"""Limits and changes of limits for people: in units that people know, or exact under libvirt's names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from plimsoll_agent.model.direction import dropped
from plimsoll_agent.model.limits import BASES, PARAMETERS, SCOPES, Limits, Unit
from plimsoll_agent.util.text import printable

UNLIMITED = "unlimited"
NONE = "none"
BURST = "+ "
"""Behind the number of a limit with bursts, where there is no room for these."""
SPLIT = "/"
"""Between limits of reads and of writes, where there is no room for their names."""
_NUMBERS = {parameter.name: parameter for parameter in PARAMETERS}


def short_limits(limits: Limits, *, brief: bool = False) -> str:
    """``250 IOPS 100 MiB/s``; bursts and the rest follow only where they are set.

    ``brief``: ``250+ IOPS`` stands for a limit with bursts, ``300/100 IOPS`` for ``read 300 IOPS write 100 IOPS``.
    """
    parts = [_of_unit(limits, unit, brief=brief) for unit in ("iops", "bytes")]
    if limits.size_iops_sec:
        parts.append(f"counted per {short_size(limits.size_iops_sec)}")
    if limits.group_name:
        parts.append(f"shared as {printable(limits.group_name)}")
    return " ".join(filter(None, parts)) or UNLIMITED


def lowest_words(lowest: Mapping[Unit, int]) -> str:
    """``10 IOPS or 1 MiB/s``."""
    return " or ".join(rate_words(number, unit) for unit, number in lowest.items())


def short_change(old: Limits, new: Limits) -> str:
    """``500 → 3000 IOPS, 100 MiB/s → 50 MiB/s``: what differs; all of it where one is unlimited."""
    if old.unlimited or new.unlimited:
        return f"{short_limits(old)} → {short_limits(new)}"
    parts = [part for unit in ("iops", "bytes") for part in _unit_change(old, new, unit)]
    if old.size_iops_sec != new.size_iops_sec:
        parts.append(f"counted per {_counted(old)} → {_counted(new)}")
    if old.group_name != new.group_name:
        parts.append(f"shared as {_group(old)} → {_group(new)}")
    return ", ".join(parts)


def kept_limits(old: Limits, new: Limits) -> str:
    """``100 MiB/s``, ``burst 500 IOPS``: what a change of the rest leaves as it is; nothing where all is the same."""
    if old == new:
        return ""
    parts = []
    units: tuple[Unit, ...] = ("iops", "bytes")
    for unit in units:
        for scope in SCOPES:
            (rate, *burst), (new_rate, *new_burst) = _numbers(old, scope, unit), _numbers(new, scope, unit)
            if burst == new_burst and rate == new_rate and rate:
                parts.append(_of_scope(new, scope, unit))
            elif burst == new_burst and burst[0]:
                parts.append(f"{_whose(scope)}burst {_burst(burst[0], burst[1], unit)}")
    return ", ".join(parts)


def set_options(old: Limits, new: Limits) -> str:
    """``--set total_iops_sec=200``: changes the limits that ``new`` has, and keeps those that it lacks."""
    losses = dropped(old, new)
    before, after = old.in_effect(), new.in_effect()
    return " ".join(
        f"--set {parameter.name}={after.get(parameter.name, 0)}"
        for parameter in PARAMETERS
        if before.get(parameter.name) != after.get(parameter.name)
        and (parameter.name in after or (parameter.role == "base" and parameter.name not in losses))
    )


def exact_limits(limits: Limits) -> str:
    """``total_bytes_sec 104857600, total_iops_sec 250``: as libvirt has them."""
    return listed(limits.in_effect()) or UNLIMITED


def exact_change(old: Limits, new: Limits) -> str:
    """``total_iops_sec 500 → 3000``: the parameters that differ, under libvirt's names."""
    if old.unlimited or new.unlimited:
        return f"{exact_limits(old)} → {exact_limits(new)}"
    before, after = old.in_effect(), new.in_effect()
    names = [*before, *(name for name in after if name not in before)]
    return ", ".join(
        f"{name} {before.get(name) or absent(name)} → {after.get(name) or absent(name)}"
        for name in names
        if before.get(name) != after.get(name)
    )


def short_edit(name: str, before: Sequence[object], after: Sequence[object]) -> str:
    """``3000 → 30 IOPS``, ``burst 20–100 MiB/s → none``: one parameter of several disks; 0 is none."""
    parameter = _NUMBERS.get(name)
    if parameter is None:
        return f"shared as {_values(before, NONE, str)} → {_values(after, NONE, str)}"
    whose, none = _whose(parameter.scope or "total"), absent(name)
    number: Callable[[int], str] = partial(rate_words, unit=parameter.unit)
    match parameter.role:
        case "max":
            whose += "burst "
        case "length":
            whose, number = f"{whose}burst length ", "{} s".format
        case "size":
            whose, none, number = "counted per ", "request", short_size
    old, new = _values(before, none, number), _values(after, none, number)
    unit = " IOPS"
    if old.endswith(unit) and new.endswith(unit):
        old = old.removesuffix(unit)
    return f"{whose}{old} → {new}"


def exact_edit(name: str, before: Sequence[object], after: Sequence[object]) -> str:
    """``total_iops_sec 1500–3000 → 30``: the same under libvirt's names."""
    return f"{name} {_values(before, absent(name), str)} → {_values(after, absent(name), str)}"


def _values(values: Sequence[object], none: str, words: Callable[[int], str]) -> str:
    """``15–30 IOPS or unlimited``: all of them, numbers as a range."""
    numbers = sorted({value for value in values if isinstance(value, int) and value})
    texts = [_span(*map(words, (numbers[0], numbers[-1])))] if numbers else []
    texts += sorted({printable(value) for value in values if isinstance(value, str)})
    return " or ".join(texts + [none] * any(not value for value in values))


def _span(least: str, most: str) -> str:
    """``15–30 IOPS``, ``512 KiB/s–1 MiB/s``: the unit once where it is the same."""
    unit = most.partition(" ")[2]
    return most if least == most else f"{least.removesuffix(f' {unit}')}–{most}"


def listed(in_effect: Mapping[str, object]) -> str:
    """Parameters and their values; empty without any."""
    return ", ".join(f"{name} {printable(str(value))}" for name, value in in_effect.items())


def absent(name: str) -> str:
    """What a parameter is that is not set."""
    return UNLIMITED if name in BASES else NONE


def short_size(value: int | None) -> str:
    """``100 GiB``, or a question mark where it is unknown."""
    if value is None:
        return "?"
    for unit, name in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if value >= unit:
            return f"{value / unit:.4g} {name}"
    return f"{value} B"


def _of_unit(limits: Limits, unit: Unit, *, brief: bool = False) -> str:
    scopes = {scope: _of_scope(limits, scope, unit, brief=brief) for scope in SCOPES}
    if brief and scopes["read"] and scopes["write"]:
        read, write = (scopes[scope].removeprefix(_whose(scope)).split(" ") for scope in ("read", "write"))
        if read[1:] == write[1:]:
            return f"{read[0]}{SPLIT}{' '.join(write)}"
    return " ".join(filter(None, scopes.values()))


def _of_scope(limits: Limits, scope: str, unit: Unit, *, brief: bool = False) -> str:
    rate, peak, length = _numbers(limits, scope, unit)
    if brief and peak:
        return _whose(scope) + rate_words(rate, unit).replace(" ", BURST, 1)
    burst = f" (burst {_burst(peak, length, unit)})" if peak else ""
    return f"{_whose(scope)}{rate_words(rate, unit)}{burst}" if rate else ""


def _unit_change(old: Limits, new: Limits, unit: Unit) -> Iterator[str]:
    scopes = [scope for scope in SCOPES if _numbers(old, scope, unit)[0]]
    if scopes != [scope for scope in SCOPES if _numbers(new, scope, unit)[0]]:
        yield f"{_of_unit(old, unit) or UNLIMITED} → {_of_unit(new, unit) or UNLIMITED}"
        return
    for scope in scopes:
        (before, *burst_before), (after, *burst_after) = _numbers(old, scope, unit), _numbers(new, scope, unit)
        if before != after:
            yield f"{_whose(scope)}{_rates(before, after, unit)}"
        if burst_before != burst_after:
            yield f"{_whose(scope)}burst {_bursts(burst_before, burst_after, unit)}"


def _numbers(limits: Limits, scope: str, unit: Unit) -> tuple[int, int, int]:
    """The rate, the peak rate and the length of a burst."""
    base = f"{scope}_{unit}_sec"
    return getattr(limits, base), getattr(limits, f"{base}_max"), getattr(limits, f"{base}_max_length")


def _whose(scope: str) -> str:
    return "" if scope == "total" else f"{scope} "


def rate_words(value: int, unit: Unit) -> str:
    return f"{value} IOPS" if unit == "iops" else f"{short_size(value)}/s"


def _rates(before: int, after: int, unit: Unit) -> str:
    if unit == "iops":
        return f"{before} → {after} IOPS"
    old, new = rate_words(before, unit), rate_words(after, unit)
    return f"{old} → {new}" if old != new else f"{before} → {after} B/s"


def _burst(peak: int, length: int, unit: Unit) -> str:
    return rate_words(peak, unit) + (f" for {length} s" if length > 1 else "")


def _bursts(before: list[int], after: list[int], unit: Unit) -> str:
    (old, length), (new, new_length) = before, after
    if old and new and length == new_length:
        return _rates(old, new, unit) + (f" for {length} s" if length > 1 else "")
    return " → ".join(_burst(peak, seconds, unit) if peak else NONE for peak, seconds in (before, after))


def _counted(limits: Limits) -> str:
    return short_size(limits.size_iops_sec) if limits.size_iops_sec else "request"


def _group(limits: Limits) -> str:
    return printable(limits.group_name or NONE)
