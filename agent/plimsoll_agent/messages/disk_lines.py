"""The line of one disk in what ``plan``, ``enforce``, ``undo`` and holds print."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from plimsoll_agent.messages.impacts import NOT_YET
from plimsoll_agent.messages.limits import (
    exact_change,
    exact_limits,
    kept_limits,
    set_options,
    short_change,
    short_limits,
)
from plimsoll_agent.messages.lines import DiskLine, Severity
from plimsoll_agent.messages.sentences import (
    deferred_words,
    unknown_words,
    words,
)
from plimsoll_agent.model.direction import Direction, direction, drains, dropped, share_left
from plimsoll_agent.model.disk import Disk, DiskName
from plimsoll_agent.model.holds import Hold
from plimsoll_agent.model.impact import Impact
from plimsoll_agent.model.limits import Limits, Unit, of_unit
from plimsoll_agent.model.reason import Code, Reason
from plimsoll_agent.policy.diff import EXTERNAL, Change, change_between
from plimsoll_agent.reconcile.outcome import Kind, Outcome, Result
from plimsoll_agent.util.frozen import frozen, replace
from plimsoll_agent.util.text import printable

DONE_IN = "; done in "


@frozen(kw_only=True)
class Manner:
    """What an operator asked for, and what this node has."""

    exact: bool = False
    """Parameters and bytes as libvirt has them."""
    every: bool = False
    """Every disk: no line stands for others that are alike."""
    region: bool = False
    """The catalogue is from a region file: there are approvals for the whole region."""
    by_hand: str = ""
    """The ``enforce`` command of a pass with limits on the command line: only it can approve changes to these."""
    impacts: Mapping[str, Impact | None] = field(default_factory=dict, hash=False)
    """By ``Disk.key`` what new limits would have meant lately; None where the disk's use is unknown."""
    missing: str = NOT_YET
    """Why the use of all disks is unknown, where it is."""

    def change(self, before: Limits, after: Limits) -> str:
        return exact_change(before, after) if self.exact else short_change(before, after)

    def limits(self, limits: Limits) -> str:
        return exact_limits(limits) if self.exact else short_limits(limits)


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
    notes = [f"to {percent_of(share)} %"] if share < 0.5 else []
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
    return f"{how} (to {percent_of(share)} %)" if share < 0.5 else how


def turns_words(before: Limits, after: Limits) -> str:
    """``IOPS lower (to 40 %), bytes remove``: by unit, where both change and not alike."""
    units: tuple[tuple[Unit, str], ...] = (("iops", "IOPS"), ("bytes", "bytes"))
    pairs = [(name, of_unit(before, unit), of_unit(after, unit)) for unit, name in units]
    turns = {name: turn_words(old, new) for name, old, new in pairs if old != new}
    if len(set(turns.values())) < 2:
        return turn_words(before, after)
    return ", ".join(f"{name} {turn}" for name, turn in turns.items())


def percent_of(share: float) -> str:
    return f"{100 * share:.2g}" if share >= 0.0001 else "less than 0.01"


def outcome_line(outcome: Outcome, manner: Manner) -> DiskLine | None:
    """The line of a disk; None for one that is only counted."""
    result, change, disk = outcome.result, outcome.change, outcome.disk
    names = names_of(disk)
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
            sign="=", names=names_of(disk), what=_keeps(disk, manner), why=words(hold.reason), severity=Severity.FAINT
        )
    change = change_between(disk, before, after, hold.reason)
    return _change_line(names_of(disk), change, Result(Kind.PLANNED, hold.reason), manner)


def names_of(disk: Disk) -> tuple[str, ...]:
    return printable(disk.guest.name), printable(disk.guest.display_name or ""), printable(disk.target)


def _keeps(disk: Disk, manner: Manner) -> str:
    if not isinstance(disk.in_force, Limits):
        return ""
    return "stays unlimited" if disk.in_force.unlimited else f"keeps {manner.limits(disk.in_force)}"


def undone_line(
    disk: DiskName, server: str | None, change: Change | None, result: Result, manner: Manner
) -> DiskLine | None:
    """The line of a disk in ``undo``; None for one that has these limits already."""
    names = (printable(disk.guest_name), printable(server or ""), printable(disk.target))
    if change is not None:
        line = _change_line(names, change, result, manner)
        # Of a plan the sum says since when; each line of what is done may be read alone in a log.
        rest = line.why.removeprefix(words(result.reason)).strip()
        return replace(line, why=rest) if result.kind is Kind.PLANNED else line
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
