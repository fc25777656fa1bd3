"""The figures of probes that a node is judged by: ``status`` and ``check_plimsoll probe`` show them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from plimsoll_agent import spans
from plimsoll_agent.health import Figure, first
from plimsoll_agent.report import printable
from plimsoll_probes.chosen import ChosenTarget
from plimsoll_probes.finding import Verdict, Why
from plimsoll_probes.late import Late, late
from plimsoll_probes.result import Postponed, ProbeResult
from plimsoll_probes.words import Streak, guest_cell, postponed_words, verdict_words

BROKEN = (Verdict.SHORT, Verdict.OVER_LIMIT, Verdict.SLOW)
FORGOTTEN = timedelta(days=7)
"""After that the result of a target that is no longer chosen counts no more."""

_TOLD_SINCE = 20
"""So many results are told with since when it has been so: each costs a look at the history."""


def figures_of_probes(
    latest: Iterable[ProbeResult],
    begun: Mapping[tuple[str, str], datetime],
    postponed: Iterable[Postponed],
    chosen: Sequence[ChosenTarget],
    now: datetime,
    streak: Callable[[ProbeResult], Streak | None] = lambda _: None,
) -> tuple[Figure, ...]:
    """Those of ``probe``. ``latest`` are the newest results by guest, directory and job; ``begun`` is when
    the newest run of each guest (uuid) and directory began; ``streak`` says since when a result is what it is, and is
    asked for a few only.
    """
    counted = [result for result in latest if counts(result, chosen, now)]
    return (
        _late(begun, postponed, chosen, now),
        _of_results("probe_broken", [each for each in counted if each.finding.verdict in BROKEN], streak),
        _of_results("probe_failed", [each for each in counted if each.finding.verdict is Verdict.FAILED], streak),
    )


def counts(result: ProbeResult, chosen: Sequence[ChosenTarget], now: datetime) -> bool:
    """Nobody mends what nobody probes again."""
    if now - result.started < FORGOTTEN:
        return True
    key = (result.subject.guest_uuid, result.subject.directory)
    return any(target.key == key and result.job.name in target.jobs for target in chosen)


def _late(
    begun: Mapping[tuple[str, str], datetime],
    postponed: Iterable[Postponed],
    chosen: Sequence[ChosenTarget],
    now: datetime,
) -> Figure:
    put_off = {(each.guest_uuid, each.directory): each for each in postponed}

    def why(one: Late) -> str:
        last = put_off.get(one.target.key)
        return f"; {postponed_words(last)}" if last is not None and last.at >= one.since else ""

    found = late(chosen, begun, now)
    each = tuple(
        f"{_target_words(one.target)}  {_began_words(one.target, begun, now)}, due every"
        f" {spans.words(one.target.every)}{why(one)}"
        for one in found
    )
    about = first([_target_words(one.target) for one in found]) + (why(found[0]) if found else "")
    return Figure("probe_late", len(found), about, "plimsoll probe timetable, and see to its timer", each)


def _target_words(target: ChosenTarget) -> str:
    return f"{guest_cell(target.guest_name)} {printable(target.directory)}"


def _began_words(target: ChosenTarget, begun: Mapping[tuple[str, str], datetime], now: datetime) -> str:
    if target.key in begun:
        return f"begun {spans.words(now - begun[target.key])} ago"
    return f"never begun, chosen {spans.words(now - target.since)} ago"


def _of_results(name: str, results: list[ProbeResult], streak: Callable[[ProbeResult], Streak | None]) -> Figure:
    if not results:
        return Figure(name, 0)
    # What was not reached is no news beside what it was not reached for.
    results.sort(key=lambda result: result.finding.why is Why.NOT_REACHED)
    said = [verdict_words(each, streak(each) if at < _TOLD_SINCE else None) for at, each in enumerate(results)]
    names = [_result_name(result) for result in results]
    number = "" if results[0].id is None else f" {results[0].id}"
    return Figure(
        name,
        len(results),
        f"{first(names)}: {said[0]}",
        f"plimsoll probe show{number}",
        tuple(f"{name}  {sentence}" for name, sentence in zip(names, said, strict=True)),
    )


def _result_name(result: ProbeResult) -> str:
    return f"{guest_cell(result.subject.guest_name, result.subject.display_name)} {result.job.name}"
