"""All that ``plan`` and ``enforce`` print of a pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from plimsoll_agent.messages.brake import brake_lines, is_braked
from plimsoll_agent.messages.disk_lines import Manner, is_held, outcome_line
from plimsoll_agent.messages.impacts import impact_lines, with_impacts
from plimsoll_agent.messages.lines import DiskLine, Line, Severity, TextLine, alike
from plimsoll_agent.messages.sentences import (
    kernel_mapped_words,
    note_words,
    orphaned_lines,
    words,
)
from plimsoll_agent.messages.sums import sum_words
from plimsoll_agent.model.reason import Code
from plimsoll_agent.reconcile.outcome import Kind, Outcome, PassReport
from plimsoll_agent.util.text import plural, printable


def plan_lines(report: PassReport, manner: Manner) -> Iterator[Line]:
    """All of it, first what the brake stops, then what a pass would change, then what it would not, and the sum."""
    yield from brake_lines(report, manner)
    changes = [
        outcome for outcome in report.outcomes if outcome.change is not None and not is_braked(outcome, report)
    ]
    yield from _alike(changes, manner)
    yield from _others(report, manner)
    yield from impact_lines(manner.impacts, missing=manner.missing)
    yield TextLine(sum_words(report, planned=True))


def closing_lines(report: PassReport, manner: Manner) -> Iterator[Line]:
    """What ``enforce`` tells below the lines of disks that it told as they ended (``told_at_once``)."""
    yield from brake_lines(report, manner)
    rest = [o for o in report.outcomes if o.change is not None and not told_at_once(o) and not is_braked(o, report)]
    yield from _alike(rest, manner)
    yield from _others(report, manner)
    yield TextLine(sum_words(report, planned=False))


def told_at_once(outcome: Outcome) -> bool:
    """Whether ``enforce`` tells it in the order in which changes end."""
    return outcome.change is not None and outcome.result.kind not in (Kind.DEFERRED, Kind.PLANNED)


def _alike(outcomes: Iterable[Outcome], manner: Manner) -> Iterator[Line]:
    lines = ((outcome.disk.key, outcome_line(outcome, manner)) for outcome in outcomes)
    return alike(with_impacts(lines, manner.impacts))


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
    if report.kernel_mapped:
        yield TextLine(kernel_mapped_words(report.kernel_mapped), Severity.FAINT)
    yield from map(TextLine, orphaned_lines(report))
    alone = Counter(words(o.result.reason) for o in still if _left_alone(o))
    for sentence, number in alone.items():
        yield TextLine(f"{plural(number, 'disk')} left alone: {sentence}", Severity.FAINT)


def _left_alone(outcome: Outcome) -> bool:
    """Left alone, and told as one of many."""
    alone = outcome.result.kind is Kind.LEFT_ALONE and not is_held(outcome)
    return alone and outcome.result.reason.code is not Code.ORPHANED
