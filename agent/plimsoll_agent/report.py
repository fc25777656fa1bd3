"""Words: reasons, changes and passes as sentences. The only place that has them, so that nothing parses prose."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from plimsoll_agent.changes import Change
from plimsoll_agent.decide import Answer, Silent, Unmanaged, Wants
from plimsoll_agent.disk import Disk
from plimsoll_agent.limits import BASES, SCOPES, Limits
from plimsoll_agent.outcome import Kind, Outcome, PassReport
from plimsoll_agent.reason import Code, Reason, Unknown

UNLIMITED = "unlimited"
_BY_OTHERS = (Code.BEHIND_LIBVIRT, Code.CHANGED_BY_ANOTHER)
_MIB = 2**20

_SENTENCES: Mapping[Code, str | Callable[[Mapping[str, Any]], str]] = {
    Code.COMMAND_LINE: "given on the command line",
    Code.RULE: 'rule "{rule}"',
    Code.NODE_DEFAULT: "node default",
    Code.RULE_DOES_NOT_MATCH: "does not match ({word})",
    Code.CLUSTER_NOT_KNOWN: "no configuration of Ceph on this node names its monitors ({monitors})",
    Code.NO_DEFAULT: "none is configured",
    Code.RULE_UNMANAGES: 'rule "{rule}" says manage: false',
    Code.NO_LIMIT: "no source gives a limit",
    Code.FOREIGN_LIMIT: "attached with limits already, and no rule overrides them",
    Code.MIGRATING: "the guest is migrating out; the target sets its limits",
    Code.INCOMING: "the guest is migrating in and does not run yet",
    Code.UNANSWERED: "{detail}: not known; read again in the next pass",
    Code.NOT_SENT: "{detail}; tried again in the next pass",
    Code.REJECTED: "refused: {detail}",
    Code.VANISHED: "{detail}",
    Code.IMPOSSIBLE: "has limits that QEMU would not accept: {detail}",
    Code.UNREADABLE_XML: "its definition cannot be read: {detail}",
    Code.NOT_LOOKED_AT: "could not be looked at: {detail}",
    Code.ANOTHER_DISK: lambda facts: (
        f"{facts['target']} is another disk now ({facts['now']})"
        if facts.get("now")
        else f"{facts['target']} is gone"
    ),
    Code.TOO_MANY_HUNG: "not tried: guests that do not answer in this pass: {hung}",
    Code.NO_RECORD: "no record can be written, and without one nothing is loosened",
    Code.NO_RESULTS: "the results are not in the record, the next pass finds them out",
    Code.NOT_REMEMBERED: "what was put in force is not remembered, and will look like limits of others",
    Code.NOT_SETTLED: "changes of an earlier pass stay unsettled",
    Code.READ_BACK_DIFFERS: lambda facts: f"QEMU has {_listed(facts['in_force'])} in force after the write",
    Code.NEVER_LIMITED: "not limited by plimsoll yet",
    Code.BEHIND_LIBVIRT: "set behind libvirt's back",
    Code.WANTED_CHANGED: "what is wanted changed",
    Code.CHANGED_BY_ANOTHER: "changed by somebody else",
}


def words(reason: Reason) -> str:
    """The sentence of a reason."""
    sentence = _SENTENCES[reason.code]
    facts = {name: printable(fact) if isinstance(fact, str) else fact for name, fact in reason.facts.items()}
    return sentence(facts) if callable(sentence) else sentence.format_map(facts)


def printable(text: str) -> str:
    """Text that somebody else chose, safe to show: control, format and line characters become question marks."""
    return "".join(character if character.isprintable() else "?" for character in text)


def short_limits(limits: Limits) -> str:
    """``250 iops 100 MiB/s``; bursts and the rest follow only where they are set."""
    parts: list[str] = []
    for unit, show in (("iops", _iops), ("bytes", _rate)):
        for scope in SCOPES:
            base = f"{scope}_{unit}_sec"
            rate, peak, length = (getattr(limits, base + ending) for ending in ("", "_max", "_max_length"))
            if rate:
                whole = f"{'' if scope == 'total' else scope + ' '}{show(rate)}"
                burst = f" (burst {show(peak)}{f' for {length} s' if length > 1 else ''})" if peak else ""
                parts.append(whole + burst)
    if limits.size_iops_sec:
        parts.append(f"counted per {_size(limits.size_iops_sec)}")
    if limits.group_name:
        parts.append(f"shared as {printable(limits.group_name)}")
    return " ".join(parts) or UNLIMITED


def _iops(value: int) -> str:
    return f"{value} iops"


def _rate(value: int) -> str:
    return f"{_size(value)}/s"


def _size(value: int) -> str:
    for unit, name in ((2**40, "TiB"), (2**30, "GiB"), (_MIB, "MiB"), (2**10, "KiB")):
        if value >= unit:
            return f"{value / unit:.4g} {name}"
    return f"{value} B"


def short_size(value: int | None) -> str:
    """``100 GiB``, or a question mark where it is not known."""
    return "?" if value is None else _size(value)


def change_words(change: Change) -> str:
    """``total_iops_sec 500 → 3000``: the parameters that differ, under libvirt's names."""
    before, after = change.before.in_effect(), change.after.in_effect()
    if not before:
        return f"{UNLIMITED} → {_listed(after)}"
    if not after:
        return f"{_listed(before)} → {UNLIMITED}"
    names = [*before, *(name for name in after if name not in before)]
    return ", ".join(
        f"{name} {before.get(name) or _absent(name)} → {after.get(name) or _absent(name)}"
        for name in names
        if before.get(name) != after.get(name)
    )


def _absent(name: str) -> str:
    return UNLIMITED if name in BASES else "none"


def _listed(in_effect: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in in_effect.items()) or "no limit"


def disk_name(disk: Disk) -> str:
    return f"{printable(disk.guest.name)} {printable(disk.target)}"


def outcome_line(outcome: Outcome) -> str | None:
    """The line of a disk in ``plan`` and ``enforce``; None for one that is right or left alone as ever."""
    name, result, change = disk_name(outcome.disk), outcome.result, outcome.change
    match result.kind:
        case Kind.PLANNED if change is not None:
            return f"{name}  {change_words(change)}   {_why(change)}"
        case Kind.CHANGED if change is not None:
            return f"{name}  {change_words(change)}   {_why(change)}; done in {result.seconds * 1000:.0f} ms"
        case Kind.FAILED | Kind.NOT_KNOWN if change is not None:
            return f"{name}  {change_words(change)}   {words(result.reason)}"
        case Kind.LEFT_ALONE if change is not None:
            return f"{name}  left alone: {words(result.reason)}"
        case Kind.FAILED | Kind.NOT_KNOWN:
            return f"{name}  {words(result.reason)}"
        case _:
            return None


def _why(change: Change) -> str:
    if change.cause in _BY_OTHERS:
        return f"{words(change.reason)} ({words(Reason(change.cause))})"
    return words(change.reason)


def closing_lines(report: PassReport, *, planned: bool) -> Iterator[str]:
    """What stands below the disks: guests that were overlooked, disks left alone by reason, and the sum."""
    for guest in report.overlooked:
        yield f"{printable(guest.guest.name)}  {words(guest.reason)}"
    for reason in report.notes:
        yield f"{words(reason)} ({printable(str(reason.facts['detail']))})"
    alone: dict[str, int] = {}
    for outcome in report.outcomes:
        if outcome.result.kind is Kind.LEFT_ALONE and outcome.change is None:
            sentence = words(outcome.result.reason)
            alone[sentence] = alone.get(sentence, 0) + 1
    for sentence, number in alone.items():
        yield f"{number} {_disks(number)} left alone: {sentence}"
    yield plan_sum(report) if planned else pass_sum(report)


def plan_sum(report: PassReport) -> str:
    changes = [outcome.change for outcome in report.outcomes if outcome.change is not None]
    release = sum(change.after.unlimited for change in changes)
    parts = [
        f"{len(changes) - release} {_disks(len(changes) - release)} to limit",
        f"{release} to release",
        f"{report.count(Kind.LEFT_ALONE)} left alone",
        f"{report.count(Kind.RIGHT)} already right",
    ]
    if report.failures:
        parts.append(f"{report.failures} not known")
    return f"Plan: {', '.join(parts)}."


def pass_sum(report: PassReport) -> str:
    return (
        f"{report.count(Kind.CHANGED)} changed, {report.count(Kind.RIGHT)} already right,"
        f" {report.count(Kind.LEFT_ALONE)} left alone, {report.failures} failed, in {report.seconds:.1f} s"
    )


def _disks(number: int) -> str:
    return "disk" if number == 1 else "disks"


def state_words(outcome: Outcome) -> str:
    """The STATE of a disk in lists."""
    disk, result, change = outcome.disk, outcome.result, outcome.change
    if result.kind is Kind.RIGHT:
        return "ok, but libvirt's definition says otherwise" if disk.drifted else "ok"
    if result.kind is Kind.PLANNED and change is not None:
        how = words(Reason(change.cause))
        if change.before.unlimited:
            return f"{UNLIMITED}: {how}"
        return how if change.cause in _BY_OTHERS else f"behind: {how}"
    if result.kind is Kind.LEFT_ALONE:
        drift = "; set behind libvirt's back" if disk.drifted else ""
        if result.reason.code is Code.NO_LIMIT:
            return f"no-limit{drift}"
        return f"left alone: {words(result.reason)}{drift}"
    return words(result.reason)


def answer_words(answer: Answer) -> str:
    """What a source answered, for ``disk explain``."""
    match answer:
        case Wants():
            return UNLIMITED if answer.limits.unlimited else _listed(answer.limits.in_effect())
        case Unmanaged():
            return f"leave it alone: {words(answer.reason)}"
        case Unknown():
            return f"unknown: {words(answer.reason)}"
        case Silent():
            return "no limits" if answer.reason.code is Code.NO_LIMIT else words(answer.reason)


def wanted_words(wanted: Wants | Unmanaged | Unknown) -> str:
    if isinstance(wanted, Wants):
        return short_limits(wanted.limits)
    return "-" if isinstance(wanted, Unmanaged) else "unknown"


def in_force_words(in_force: Limits | Unknown | None) -> str:
    return short_limits(in_force) if isinstance(in_force, Limits) else "unknown"
