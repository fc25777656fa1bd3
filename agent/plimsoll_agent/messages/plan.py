"""What ``plan``, ``enforce`` and ``undo`` tell of disks: lines with a sign, words and a severity, not laid out."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import timedelta
from enum import StrEnum

from plimsoll_agent.messages.limits import (
    exact_change,
    exact_edit,
    exact_limits,
    kept_limits,
    rate_words,
    set_options,
    short_change,
    short_edit,
    short_limits,
)
from plimsoll_agent.messages.sentences import (
    STATE_WORDS,
    approve_words,
    deferred_words,
    large_words,
    note_words,
    orphaned_lines,
    unknown_words,
    words,
)
from plimsoll_agent.model.direction import Direction, direction, drains, dropped, share_left
from plimsoll_agent.model.disk import Disk, DiskName
from plimsoll_agent.model.holds import Hold
from plimsoll_agent.model.impact import Impact
from plimsoll_agent.model.limits import BASES, Limits, Unit, of_unit
from plimsoll_agent.model.reason import Code, Reason, Unknown
from plimsoll_agent.policy.diff import EXTERNAL, Change
from plimsoll_agent.reconcile.brake import MANAGE
from plimsoll_agent.reconcile.outcome import Braked, Edit, Kind, Outcome, PassReport, Result
from plimsoll_agent.util import durations
from plimsoll_agent.util.frozen import frozen, replace
from plimsoll_agent.util.text import minute, plural, printable

REMEDY = "plimsoll plan --all"
DONE_IN = "; done in "
_BRAKE = "BRAKE"
_MOST_EDITS = 5
_MOST_BRAKED = 5
"""So many kinds of changes that the brake defers are listed."""


class Severity(StrEnum):
    """How bad it is for the guest, or how uncertain. The words of a line say the same."""

    CUT = "cut"
    """A limit is removed, or cut to a tenth or less; or a change failed."""
    LOWERED = "lowered"
    """A limit is cut to less than half, or a change is deferred."""
    UNKNOWN = "unknown"
    SET = "set"
    PLAIN = "plain"
    FAINT = "left-alone"


@frozen(kw_only=True)
class DiskLine:
    """A disk: its sign, its names, what is changed and why. All text is printable."""

    sign: str
    """``+`` set where unlimited, ``~`` change, ``-`` remove, ``!`` deferred or failed, ``?`` unknown, ``=`` held."""
    names: tuple[str, ...]
    """Guest, server (may be empty), disk."""
    what: str
    why: str
    severity: Severity = Severity.PLAIN
    share: float = 0.0
    """The share of the time that is known in which the disk would have been at its new limits."""


@frozen
class Alike:
    """Lines that differ in nothing but the disk."""

    lines: tuple[DiskLine, ...]


@frozen
class TextLine:
    """A line about all disks. ``head`` is a word in the margin (``BRAKE``)."""

    text: str
    severity: Severity = Severity.PLAIN
    head: str = ""


@frozen
class CommandLine:
    """A command to type, behind its occasion."""

    when: str
    command: str


Line = DiskLine | Alike | TextLine | CommandLine


@frozen
class Manner:
    """What an operator asked for, and what this node has."""

    exact: bool = False
    """Parameters and bytes as libvirt has them."""
    every: bool = False
    """Every disk: no line stands for others that are alike."""
    region: bool = False
    """The catalogue is from a region file: there are approvals for the whole region."""
    impacts: Mapping[str, Impact | None] = field(default_factory=dict, hash=False)
    """By ``Disk.key`` what new limits would have meant lately; None where the disk's use is unknown."""

    def change(self, before: Limits, after: Limits) -> str:
        return exact_change(before, after) if self.exact else short_change(before, after)

    def limits(self, limits: Limits) -> str:
        return exact_limits(limits) if self.exact else short_limits(limits)


# --- one disk


def sign_of(change: Change) -> str:
    """``+``, ``-`` or ``~``."""
    if change.before.unlimited:
        return "+"
    return "-" if change.direction is Direction.REMOVE else "~"


def severity_of(before: Limits, after: Limits) -> Severity:
    if direction(before, after) is Direction.REMOVE:
        return Severity.CUT
    share = share_left(before, after)
    if share < 0.5:
        return Severity.CUT if share <= 0.1 else Severity.LOWERED
    return Severity.SET if before.unlimited else Severity.PLAIN


def change_words(before: Limits, after: Limits, manner: Manner, *, kept: bool = False) -> str:
    """``3000 → 30 IOPS (to 1 %)``; ``250 IOPS → unlimited (removed)``; with ``kept`` also what it leaves as it is."""
    what = manner.change(before, after)
    if direction(before, after) is Direction.REMOVE:
        return f"{what} (removed)"
    share = share_left(before, after)
    notes = [f"to {_percent(share)} %"] if share < 0.5 else []
    if drains(before, after):
        notes.append("what waits passes at once")
    if kept and (rest := kept_limits(before, after)):
        notes.append(f"{rest} kept")
    return f"{what} ({'; '.join(notes)})" if notes else what


def turn_words(before: Limits, after: Limits) -> str:
    """``set``, ``raise``, ``lower (to 1 %)``, ``remove``; ``raise and lower`` if reads gain and writes lose."""
    if before.unlimited or after.unlimited:
        return "remove" if after.unlimited else "set"
    share = share_left(before, after)
    how = direction(before, after).value
    if share < 1 and how == Direction.RAISE:
        how = "raise and lower"
    return f"{how} (to {_percent(share)} %)" if share < 0.5 else how


def turns_words(before: Limits, after: Limits) -> str:
    """``IOPS lower (to 40 %), bytes remove``: by unit, where both change and not alike."""
    units: tuple[tuple[Unit, str], ...] = (("iops", "IOPS"), ("bytes", "bytes"))
    pairs = [(name, of_unit(before, unit), of_unit(after, unit)) for unit, name in units]
    turns = {name: turn_words(old, new) for name, old, new in pairs if old != new}
    if len(set(turns.values())) < 2:
        return turn_words(before, after)
    return ", ".join(f"{name} {turn}" for name, turn in turns.items())


def _percent(share: float) -> str:
    return f"{100 * share:.2g}" if share >= 0.0001 else "less than 0.01"


def outcome_line(outcome: Outcome, manner: Manner) -> DiskLine | None:
    """The line of a disk; None for one that is only counted."""
    result, change, disk = outcome.result, outcome.change, outcome.disk
    names = _names(disk)
    if change is not None:
        return _change_line(names, change, result, manner)
    keeps = _keeps(disk, manner)
    if is_held(outcome):
        return DiskLine(sign="=", names=names, what=keeps, why=words(result.reason), severity=Severity.FAINT)
    if result.kind is Kind.UNKNOWN:
        why, note = unknown_words(result.reason), outcome.acknowledged
        if note is not None:
            return DiskLine(sign="?", names=names, what=keeps, why=f"{why}; {words(note)}", severity=Severity.FAINT)
        return DiskLine(sign="?", names=names, what=keeps, why=why, severity=Severity.UNKNOWN)
    if result.kind is Kind.FAILED:
        return DiskLine(sign="!", names=names, what="", why=f"failed: {words(result.reason)}", severity=Severity.CUT)
    return None


def held_line(disk: Disk, hold: Hold, manner: Manner) -> DiskLine:
    """What a hold would make of a disk."""
    before, after = disk.actual, hold.limits
    if after is None or not isinstance(before, Limits) or before == after:
        return DiskLine(
            sign="=", names=_names(disk), what=_keeps(disk, manner), why=words(hold.reason), severity=Severity.FAINT
        )
    change = Change(disk, before, after, direction(before, after), hold.reason, Code.DESIRED_CHANGED)
    return _change_line(_names(disk), change, Result(Kind.PLANNED, hold.reason), manner)


def _names(disk: Disk) -> tuple[str, ...]:
    return printable(disk.guest.name), printable(disk.guest.display_name or ""), printable(disk.target)


def _keeps(disk: Disk, manner: Manner) -> str:
    if not isinstance(disk.actual, Limits):
        return ""
    return "stays unlimited" if disk.actual.unlimited else f"keeps {manner.limits(disk.actual)}"


def undone_line(
    disk: DiskName, server: str | None, change: Change | None, result: Result, manner: Manner
) -> DiskLine | None:
    """The line of a disk in ``undo``; None for one that has these limits already."""
    names = (printable(disk.guest_name), printable(server or ""), printable(disk.target))
    if change is not None:
        return _change_line(names, change, result, manner)
    if result.kind is Kind.IN_SYNC:
        return None
    if result.kind is Kind.UNKNOWN:
        return DiskLine(sign="?", names=names, what="", why=unknown_words(result.reason), severity=Severity.UNKNOWN)
    return DiskLine(
        sign="=", names=names, what="", why=f"left alone: {words(result.reason)}", severity=Severity.FAINT
    )


def _change_line(names: tuple[str, ...], change: Change, result: Result, manner: Manner) -> DiskLine:
    before, after = change.before, change.after
    by_hold = change.reason.code is Code.HOLD
    what, why = change_words(before, after, manner, kept=by_hold), words(result.reason)
    external = f" ({words(Reason(change.cause))})" if change.cause in EXTERNAL else ""
    match result.kind:
        case Kind.PLANNED:
            return DiskLine(
                sign=sign_of(change),
                names=names,
                what=what,
                why=why + external,
                severity=severity_of(before, after),
            )
        case Kind.CHANGED:
            reason = f"{why}{external}{DONE_IN}{result.seconds * 1000:.0f} ms"
            return DiskLine(
                sign=sign_of(change),
                names=names,
                what=what,
                why=reason,
                severity=severity_of(before, after),
            )
        case Kind.DEFERRED:
            # The reason for the pause is printed once, below the disks.
            reason = "deferred: paused" if result.reason.code is Code.PAUSED else deferred_words(result.reason)
            losses = dropped(before, after)
            if losses and not after.unlimited:
                reason += f"; it would remove {' and '.join(losses)}"
                reason += (
                    f"; to keep that: plimsoll disk hold add with {set_options(before, after)}" if by_hold else ""
                )
            return DiskLine(sign="!", names=names, what=what, why=reason, severity=Severity.LOWERED)
        case Kind.UNKNOWN:
            return DiskLine(
                sign="?", names=names, what=what, why=unknown_words(result.reason), severity=Severity.UNKNOWN
            )
        case Kind.LEFT_ALONE:
            return DiskLine(sign="=", names=names, what=what, why=f"left alone: {why}", severity=Severity.FAINT)
        case _:
            return DiskLine(sign="!", names=names, what=what, why=f"failed: {why}", severity=Severity.CUT)


def is_held(outcome: Outcome) -> bool:
    """It has a hold, and nothing to change."""
    return outcome.change is None and outcome.result.reason.code is Code.HOLD


# --- a whole pass


def plan_lines(report: PassReport, manner: Manner) -> Iterator[Line]:
    """All of it, first what the brake stops, then what a pass would change, then what it would not, and the sum."""
    yield from _brake_lines(report, manner)
    changes = [outcome for outcome in report.outcomes if outcome.change is not None and not _braked(outcome, report)]
    yield from _alike(changes, manner)
    yield from _others(report, manner)
    yield from impact_lines(manner.impacts)
    yield TextLine(sum_words(report, planned=True))


def closing_lines(report: PassReport, manner: Manner) -> Iterator[Line]:
    """What ``enforce`` tells below the lines of disks that it told as they ended (``told_at_once``)."""
    yield from _brake_lines(report, manner)
    rest = [o for o in report.outcomes if o.change is not None and not told_at_once(o) and not _braked(o, report)]
    yield from _alike(rest, manner)
    yield from _others(report, manner)
    yield TextLine(sum_words(report, planned=False))


def told_at_once(outcome: Outcome) -> bool:
    """Whether ``enforce`` tells it in the order in which changes end."""
    return outcome.change is not None and outcome.result.kind not in (Kind.DEFERRED, Kind.PLANNED)


_ORDER = (Severity.CUT, Severity.LOWERED, Severity.PLAIN, Severity.SET)


def _alike(outcomes: Iterable[Outcome], manner: Manner) -> Iterator[Line]:
    lines = ((outcome.disk.key, outcome_line(outcome, manner)) for outcome in outcomes)
    return alike(with_impacts(lines, manner.impacts))


def alike(lines: Sequence[DiskLine]) -> Iterator[Alike]:
    """Those that feel it most first, then the worst, deferred ones last; lines that differ only in the disk are one
    ``Alike``.
    """
    groups: dict[tuple[str, str, str, Severity], list[DiskLine]] = {}
    for line in lines:
        groups.setdefault((line.sign, line.what, line.why, line.severity), []).append(line)

    def rank(group: list[DiskLine]) -> tuple[bool, float, int, int]:
        first = group[0]
        severity = _ORDER.index(first.severity) if first.severity in _ORDER else 9
        return first.sign == "!", -first.share, severity, -len(group)

    for group in sorted(groups.values(), key=rank):
        yield Alike(tuple(group))


def _others(report: PassReport, manner: Manner) -> Iterator[Line]:
    """Unknown and held disks, notes, and what is left alone."""
    still = [o for o in report.outcomes if o.change is None]
    lines = [line for outcome in still if (line := outcome_line(outcome, manner)) is not None]
    for sign in "!?":
        yield from alike([line for line in lines if line.sign == sign])
    for guest in report.unreachable:
        names, why = (printable(guest.guest.name), "", ""), words(guest.reason)
        if guest.reason.code is Code.NOT_FOUND:
            yield DiskLine(sign="=", names=names, what="", why=why, severity=Severity.FAINT)
        else:
            yield DiskLine(sign="?", names=names, what="", why=f"unreachable: {why}", severity=Severity.UNKNOWN)
    yield from alike([line for line in lines if line.sign == "="])
    if report.paused is not None:
        yield TextLine(f"Nothing is written: {words(report.paused)}", Severity.LOWERED)
    yield from (TextLine(note_words(note), Severity.LOWERED) for note in report.notes)
    yield from map(TextLine, orphaned_lines(report))
    alone = Counter(words(o.result.reason) for o in still if _left_alone(o))
    for sentence, number in alone.items():
        yield TextLine(f"{plural(number, 'disk')} left alone: {sentence}", Severity.FAINT)


def _left_alone(outcome: Outcome) -> bool:
    """Left alone, and told as one of many."""
    alone = outcome.result.kind is Kind.LEFT_ALONE and not is_held(outcome)
    return alone and outcome.result.reason.code is not Code.ORPHANED


# --- who will feel it


def with_impacts(
    lines: Iterable[tuple[str, DiskLine | None]], impacts: Mapping[str, Impact | None]
) -> list[DiskLine]:
    """The lines that there are, by ``Disk.key``: of disks that may get other limits with what they did lately."""
    if not any(impacts.values()):  # without any measurement one line says so
        impacts = {}
    return [_with_impact(line, impacts[key]) if key in impacts else line for key, line in lines if line is not None]


def _with_impact(line: DiskLine, impact: Impact | None) -> DiskLine:
    why = f"{impact_words(impact)}; {line.why}"
    return replace(line, why=why, share=0.0 if impact is None else impact.share)


def impact_words(impact: Impact | None) -> str:
    """``does 140 IOPS now, would be at limit 71 % of 26 h``; no figures for a disk that will not feel it."""
    if impact is None:
        return "use unknown"
    if not impact.felt:
        return "will not feel it"
    now = rate_words(round(impact.present), impact.unit)
    share = "less than 1" if impact.share < 0.01 else f"{100 * impact.share:.0f}"
    return f"does {now} now, would be at limit {share} % of {_span(impact.seconds)}"


def impact_lines(impacts: Mapping[str, Impact | None]) -> Iterator[TextLine]:
    """``Of 14 disks with lower limits 3 will feel it, 9 will not (averages between passes of 26 h).``"""
    figures = [impact for impact in impacts.values() if impact is not None]
    hits, unknown = sum(impact.felt for impact in figures), len(impacts) - len(figures)
    if not impacts:
        return
    if not figures:
        yield TextLine(f"Who will feel it is unknown: no pass has measured the {plural(len(impacts), 'disk')} yet.")
        return
    numbers = ((hits, "will feel it"), (len(figures) - hits, "will not"), (unknown, "may: their use is unknown"))
    parts = [f"{number} {what}" for number, what in numbers if number]
    span = _span(max(impact.seconds for impact in figures))
    disks = f"{plural(len(impacts), 'disk')} that would get a lower limit or a first one"
    text = f"Of {disks} {', '.join(parts)} (averages between passes of {span})."
    yield TextLine(text, Severity.LOWERED if hits else Severity.PLAIN)


def _span(seconds: float) -> str:
    return durations.words(timedelta(seconds=seconds))


# --- the brake


def _braked(outcome: Outcome, report: PassReport) -> bool:
    return report.braked is not None and outcome.result.reason.code in (Code.BRAKED, Code.LARGE_CHANGE)


def _brake_lines(report: PassReport, manner: Manner) -> Iterator[Line]:
    brake = report.braked
    if brake is None:
        return
    hows, raises = _hows(brake), sum(_is_raised(outcome, report) for outcome in report.outcomes)
    if raises:
        hows += f"; {raises} of these {'is a raise' if raises == 1 else 'are raises'} now, after an external change"
    waiting, others = _fates(brake, report)
    if others:
        yield TextLine(f"{_number(brake)}: {', '.join([*waiting, others])}", Severity.CUT, head=_BRAKE)
        yield TextLine(" " * (len(_BRAKE) + 2) + hows)
    else:
        yield TextLine(f"{_number(brake)} deferred: {hows}", Severity.CUT, head=_BRAKE)
    edits = list(edits_words(brake.edits, exact=manner.exact))
    if len(edits) > _MOST_EDITS:
        edits[_MOST_EDITS - 1 :] = [f"and {len(edits) - _MOST_EDITS + 1} more edits"]
    yield from (TextLine(" " * (len(_BRAKE) + 2) + line) for line in (*edits, *_earlier_lines(brake)))
    lines = ((o.disk.key, _brake_line(o, report, manner)) for o in report.outcomes)
    groups = list(alike(with_impacts(lines, manner.impacts)))
    first = groups if manner.every else groups[:_MOST_BRAKED]
    yield from first
    rest = sum(len(group.lines) for group in groups[len(first) :])
    if rest:
        others = plural(len(groups) - len(first), "other change")
        yield TextLine(f"  … {plural(rest, 'more disk')} with {others} ({REMEDY})")
    yield from (TextLine(line) for line in _unseen_lines(brake, report))
    yield from _approvals(brake, report, manner)


def _fates(brake: Braked, report: PassReport) -> tuple[list[str], str]:
    """How many of the disks are deferred now, and ``braked_otherwise``."""
    befores = [outcome for outcome in report.outcomes if outcome.result.reason.code is Code.DESIRED_BEFORE]
    number = sum(_braked(outcome, report) for outcome in report.outcomes)
    if not report.scope.everything:  # guests that are not in this pass
        number += len(brake.keys - {outcome.disk.key for outcome in report.outcomes})
    causes = {words(Reason(o.change.cause)) for o in befores if o.change is not None and o.change.cause in EXTERNAL}
    others = braked_otherwise(
        len(brake.keys) - number, len(befores), f" ({causes.pop()})" if len(causes) == 1 else ""
    )
    return [f"{number} deferred"] if number else [], others


def braked_otherwise(number: int, befores: int, cause: str = "") -> str:
    """``1 gets its previous limit (external change), 1 held or unreachable``: the disks of the brake that are not
    deferred now.
    """
    limit = "gets its previous limit" if befores == 1 else "get their previous limits"
    parts = [f"{befores} {limit}{cause}"] if befores else []
    parts += [f"{number - befores} held or unreachable"] if number > befores else []
    return ", ".join(parts)


def _is_raised(outcome: Outcome, report: PassReport) -> bool:
    """Whether the change counts as a cut of what was desired last, and raises what an external change has left."""
    change, last = outcome.change, report.situation.memory.get(outcome.disk.key)
    if change is None or last is None or last.desired is None or not _braked(outcome, report):
        return False
    is_cut = share_left(last.desired, change.after) < 0.5
    return is_cut and not change.before.unlimited and share_left(change.before, change.after) == 1.0


def _earlier_lines(brake: Braked) -> Iterator[str]:
    """``Counted too: 2 disks at 12:05 UTC (gold)``: what makes them too many."""
    if brake.many and brake.earlier:
        each = (f"{plural(e.disks, 'disk')} at {minute(e.at)}{_by(e.source)}" for e in brake.earlier)
        yield f"of the last hour count too: {', '.join(each)}"


def _by(source: str | None) -> str:
    return "" if source is None else f" ({printable(source)})"


def _brake_line(outcome: Outcome, report: PassReport, manner: Manner) -> DiskLine | None:
    """A deferred change as it would be made, with its source; one that is deferred for itself with its digest."""
    change, reason = outcome.change, outcome.result.reason
    if change is None or not _braked(outcome, report):
        return None
    why = words(change.reason)
    last = report.situation.memory.get(outcome.disk.key)
    if last is not None and last.desired is not None and _is_raised(outcome, report):
        why += f"; desired before: {manner.limits(last.desired)}"
    if reason.code is Code.LARGE_CHANGE:
        if reason.facts.keys() & {"below", "times"}:
            why += f"; {large_words(reason.facts)}"
        why += f"; alone: {approve_words(str(reason.facts['digest']), reason.facts['percent'] is None)}"
    what = change_words(change.before, change.after, manner)
    return DiskLine(
        sign=sign_of(change),
        names=_names(outcome.disk),
        what=what,
        why=why,
        severity=severity_of(change.before, change.after),
    )


def _unseen_lines(brake: Braked, report: PassReport) -> Iterator[str]:
    """Deferred disks without a change to show: unreachable, or of guests that are not in this pass."""
    keys = {outcome.disk.key for outcome in report.outcomes if outcome.change is not None}
    for key, reason in brake.alone.items():
        if key not in keys:
            disk = brake.named.get(key)
            name = key if disk is None else f"{disk.guest_name} {disk.target}"
            yield f"! {printable(name)}  {deferred_words(reason)}"


def brake_words(brake: Braked, whose: str = "") -> str:
    """``30 of 100 disks: 30 cut by more than half (to 1 %)``; ``whose`` comes before the colon."""
    return f"{_number(brake)}{whose}: {_hows(brake)}"


def _number(brake: Braked) -> str:
    return f"{len(brake.keys)} of {plural(brake.of, 'disk')}"


def _hows(brake: Braked) -> str:
    """``1 removed, 10 cut by more than half (to 1 % or more), 3 raised``."""
    shares = dict.fromkeys(map(_percent, brake.left))
    share = f" (to {next(iter(shares))} %{' or more' * (len(shares) > 1)})" if shares else ""
    hows = (
        (brake.removed, "removed"),
        (brake.lowered, f"cut by more than half{share}"),
        (brake.low, "below the lowest limit"),
        (brake.added, "with a limit added"),
        (brake.raised, "raised"),
        (brake.managed, "managed again"),
        (brake.unmanaged, "no longer managed"),
    )
    return ", ".join(f"{number} {how}" for number, how in hows if number)


def _approvals(brake: Braked, report: PassReport, manner: Manner) -> Iterator[CommandLine]:
    """What approves all of it, on this node and, where it belongs to a region, on all nodes."""
    here = approve_words(brake.revision, bool(brake.removed))
    if not manner.region:
        yield CommandLine("If it is meant", here)
        return
    yield CommandLine("If it is meant, on this node", here)
    losses = (o.disk.volume_type for o in report.outcomes if o.disk.key in brake.keys and _removes(o))
    types = {printable(type) for type in losses if type is not None}
    of_specs = brake.catalogue is not None and all(edit.origin == Code.QOS_SPEC for edit in brake.edits)
    what = f"{brake.catalogue:.16}" if of_specs else f"--rules {brake.revision}"
    remove = " ".join(["--remove", *map(shlex.quote, sorted(types))]) if types else ""
    yield CommandLine(
        "On all nodes", " ".join(filter(None, ("plimsoll region approve", what, remove, "--reason TEXT")))
    )


def _removes(outcome: Outcome) -> bool:
    return outcome.change is not None and outcome.change.direction is Direction.REMOVE


def edits_words(edits: Iterable[Edit], *, exact: bool = False) -> Iterator[str]:
    """``QoS spec gold-iops: 3000 → 30 IOPS (12 disks)``; a range where it depends on the disk's size."""
    groups: dict[tuple[str, str, str], list[Edit]] = {}
    for edit in edits:
        groups.setdefault((edit.origin, edit.source, edit.parameter), []).append(edit)
    # Rates first: bursts and lengths follow from them. Of these what is cut most.
    for (origin, source, parameter), each in sorted(groups.items(), key=_edit_order):
        number = plural(sum(edit.disks for edit in each), "disk")
        if parameter == MANAGE:
            yield f"{_source(origin, source)}: manage: false ({number})"
            continue
        before, after = ([getattr(edit, side) for edit in each] for side in ("before", "after"))
        change = (exact_edit if exact else short_edit)(parameter, before, after)
        yield f"{_source(origin, source)}: {change} ({number})"


def _edit_order(item: tuple[tuple[str, str, str], Sequence[Edit]]) -> tuple[bool, float]:
    (_, _, parameter), edits = item
    return parameter not in BASES, min(_edit_share(edit) for edit in edits)


def _edit_share(edit: Edit) -> float:
    """What is left of the limit; 0 is unlimited."""
    if not isinstance(edit.before, int) or not isinstance(edit.after, int):
        return math.inf
    before, after = edit.before or math.inf, edit.after or math.inf
    return 0 if after == math.inf else after / before


def _source(origin: str, name: str) -> str:
    rule = 'rule "{}"'
    kinds = {Code.QOS_SPEC: "QoS spec {}", Code.RULE: rule, Code.RULE_UNMANAGES: rule, Code.FLAVOR: "flavor {}"}
    kind = kinds.get(Code(origin) if origin else Code.NODE_DEFAULT, "{}")
    return kind.format(printable(name))


# --- sums


_KINDS = (
    *("set", "raise", "lower", "remove", "failed", "unknown", "acknowledged", "new", "deferred", "left-alone"),
    "in-sync",
)
_PLANNED = {"set": "to set", "raise": "to raise", "lower": "to lower", "remove": "to remove"}
_DONE = {"set": "set", "raise": "raised", "lower": "lowered", "remove": "removed"}


def counts(report: PassReport) -> dict[str, int]:
    """How many disks of each kind, without zeros; each disk is one of them. Guests that cannot be read are apart."""
    numbers = Counter(_kind(outcome, report) for outcome in report.outcomes)
    return {name: numbers[name] for name in _KINDS if numbers[name]}


def _kind(outcome: Outcome, report: PassReport) -> str:
    state = report.state(outcome)
    return kind_of(outcome.change, outcome.result) if state == outcome.result.kind else state


def kind_of(change: Change | None, result: Result) -> str:
    """``set``, ``raise``, ``lower`` or ``remove`` for a change that is planned or made; else the result."""
    if change is None or result.kind not in (Kind.PLANNED, Kind.CHANGED):
        return result.kind.value
    if change.before.unlimited:
        return "set"
    # A raise is also a change that cuts reads and frees writes: what hurts a guest is what it is counted as.
    cut = change.direction is Direction.RAISE and share_left(change.before, change.after) < 0.5
    return Direction.LOWER.value if cut else change.direction.value


def sum_words(report: PassReport, *, planned: bool) -> str:
    """``Plan: 1 to set, 1 to raise, 12 in sync.``; ``Done: 1 set, 1 raised, 12 in sync, in 0.3 s.``"""
    parts = list(parts_of(counts(report), planned=planned))
    if guests := unreachable(report):
        parts.append(f"{plural(guests, 'guest')} unreachable")
    holds = sum(map(is_held, report.outcomes))
    text = ", ".join(parts) + (f"; {holds} of them held" if holds else "")
    return f"Plan: {text}." if planned else f"Done: {text}, in {report.seconds:.1f} s."


def unreachable(report: PassReport) -> int:
    """How many guests could not be read; one that has stopped does not count."""
    return sum(guest.reason.code is not Code.NOT_FOUND for guest in report.unreachable_guests)


def parts_of(number: Mapping[str, int], *, planned: bool, in_sync: str = "in sync") -> Iterator[str]:
    """The parts of a sum, in the order of all sums."""
    verbs = {**STATE_WORDS, **(_PLANNED if planned else _DONE), "in-sync": in_sync}
    if not number.keys() & _PLANNED.keys():
        yield "nothing to change" if planned else "nothing changed"
    yield from (f"{number[name]} {verbs[name]}" for name in _KINDS if number.get(name))


def incomplete_words(report: PassReport, complete: bool) -> str:
    """Why ``enforce`` ends with 3: ``Incomplete: 1 disk unknown, 2 deferred (exit status 3).``"""
    number = counts(report)
    parts = [f"{plural(number[name], 'disk')} {name}" for name in ("failed", "unknown", "deferred") if name in number]
    if guests := unreachable(report):
        parts.append(f"{plural(guests, 'guest')} unreachable")
    if isinstance(report.situation.catalogue, Unknown):
        parts.append(words(report.situation.catalogue.reason))
    notes = len([note for note in report.notes if note != getattr(report.situation.catalogue, "reason", None)])
    above = [f"the {notes} notes" if notes > 1 else "the note"] * bool(notes) + ["the error"] * (not complete)
    if above:
        parts.append(f"see {' and '.join(above)} above")
    return f"Incomplete: {', '.join(parts)} (exit status 3)."
