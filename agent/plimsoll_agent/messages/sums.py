"""Sums of a pass: how many disks of each kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from plimsoll_agent.messages.disk_lines import is_held
from plimsoll_agent.messages.sentences import (
    STATE_WORDS,
    words,
)
from plimsoll_agent.model.direction import Direction, share_left
from plimsoll_agent.model.reason import Code, Unknown
from plimsoll_agent.policy.diff import Change
from plimsoll_agent.reconcile.outcome import Kind, Outcome, PassReport, Result
from plimsoll_agent.util.text import plural

KINDS = (
    *("set", "raise", "lower", "remove", "failed", "unknown", "acknowledged", "new", "deferred", "left-alone"),
    "in-sync",
)
_PLANNED = {"set": "to set", "raise": "to raise", "lower": "to lower", "remove": "to remove"}
_DONE = {"set": "set", "raise": "raised", "lower": "lowered", "remove": "removed"}


def counts(report: PassReport) -> dict[str, int]:
    """How many disks of each kind, without zeros; each disk is one of them. Guests that cannot be read are apart."""
    numbers = Counter(_kind(outcome, report) for outcome in report.outcomes)
    return {name: numbers[name] for name in KINDS if numbers[name]}


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
    yield from (f"{number[name]} {verbs[name]}" for name in KINDS if number.get(name))


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
