"""The figures of probes that ``status`` and ``check_plimsoll probe`` judge."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from plimsoll_agent.monitor.next_command import PROBE_UNIT, NodeSetup
from plimsoll_agent.monitor.pass_summary import TO_PROBE, LastPass
from plimsoll_agent.monitor.thresholds import ROUND_OVERDUE
from plimsoll_agent.util import durations
from plimsoll_agent.util.text import ago, plural, printable
from plimsoll_monitoring.node.health import Figure, Problem, first, shorten, since_words
from plimsoll_probes.model.finding import BROKEN, WORST_FIRST, Verdict, Why
from plimsoll_probes.model.result import Postponed, ProbeResult
from plimsoll_probes.output.messages import (
    Streak,
    alike_words,
    because_words,
    guest_cell,
    postponed_words,
    verdict_words,
)
from plimsoll_probes.schedule.late import Late, late
from plimsoll_probes.schedule.targets import ChosenTarget

FORGOTTEN = timedelta(days=7)
"""How long the result of a target counts that is no longer chosen."""

_NAMED = 3
"""Guests of one cause that are named."""
_TOLD_SINCE = 20
"""Results for which the start of the streak is shown: each needs a query of the history."""


def figures_of_probes(
    latest: Iterable[ProbeResult],
    starts: Mapping[tuple[str, str], datetime],
    postponements: Iterable[Postponed],
    targets: Sequence[ChosenTarget],
    now: datetime,
    streak: Callable[[ProbeResult], Streak | None] = lambda _: None,
    setup: NodeSetup | None = None,
    last: LastPass | None = None,
    boot: datetime | None = None,
    *,
    of_all: bool = True,
) -> tuple[Figure, ...]:
    """The figures of ``probe``. ``latest`` are the newest results by guest, directory and job; ``starts`` is when
    the newest run of each guest (uuid) and directory began; ``streak`` finds since when a verdict has been the same,
    and is called for a few results only. ``boot`` is the start of the node. Without ``of_all`` these are of one
    guest, while ``last`` has the number of all guests to be probed, which is then unknown.
    """
    setup = setup or NodeSetup()
    # Nothing is probed in a pause, and that has a figure of its own.
    cases = () if last is not None and last.paused is not None else late(targets, starts, now, boot)
    results = [result for result in latest if counts(result, targets, now)]
    broken_results = [each for each in results if each.finding.verdict in BROKEN]
    failed_results = [each for each in results if each.finding.verdict is Verdict.FAILED]
    return (
        _off(last if of_all else None, targets, now, setup),
        _late(cases, starts, postponements, now, setup),
        _of_results("probe_broken", broken_results, streak, setup),
        _of_results("probe_failed", failed_results, streak, setup),
    )


def counts(result: ProbeResult, targets: Sequence[ChosenTarget], now: datetime) -> bool:
    """Whether a result still counts: it is recent, or its target is still chosen."""
    if now - result.started < FORGOTTEN:
        return True
    key = (result.subject.guest_uuid, result.subject.directory)
    return any(target.key == key and result.job.name in target.jobs for target in targets)


def _off(last: LastPass | None, targets: Sequence[ChosenTarget], now: datetime, setup: NodeSetup) -> Figure:
    """Guests that the rules of the last pass choose. Where the timer is not enabled that counts at once, unless
    something else has run probes lately, as cron may; else once they are chosen for so long without any.
    """
    if last is None or last.looked is None:
        return Figure(name="probe_off", value=None)
    if last.paused is not None:  # nothing is probed then, and that has a figure of its own
        return Figure(name="probe_off", value=0)
    newest, since = max((target.seen for target in targets), default=None), last.wrong_since.get(TO_PROBE)
    longest = timedelta(seconds=ROUND_OVERDUE)
    is_run, is_new = newest is not None and now - newest < longest, since is None or now - since < longest
    if not last.guests_to_probe or is_run or (is_new and PROBE_UNIT not in setup.disabled):
        return Figure(name="probe_off", value=0)
    since = since if newest is None else newest
    why = setup.not_enabled(PROBE_UNIT) or "plimsoll probe run --due does not run"
    guests, when = plural(last.guests_to_probe, "guest"), "" if since is None else f" since {since_words(since, now)}"
    text = f"{guests} not probed{when}: a rule chooses {'it' if last.guests_to_probe == 1 else 'them'}, and {why}"
    problem = Problem(text=text, do=setup.no_recent_probe(), since=since)
    return Figure(name="probe_off", value=last.guests_to_probe, about=why, problems=(problem,))


def _late(
    cases: Sequence[Late],
    starts: Mapping[tuple[str, str], datetime],
    postponements: Iterable[Postponed],
    now: datetime,
    setup: NodeSetup,
) -> Figure:
    postponed_of = {(each.guest_uuid, each.directory): each for each in postponements}

    def why(one: Late) -> str:
        last = postponed_of.get(one.target.key)
        return f"; {postponed_words(last)}" if last is not None and last.at >= one.since else ""

    each = tuple(
        f"{_target_words(one.target)}  {_began_words(one.target, starts, now)}, due every"
        f" {durations.words(one.target.every)}{why(one)}"
        for one in cases
    )
    if not cases:
        return Figure(name="probe_late", value=0)
    names = tuple(_target_words(one.target) for one in cases)
    off = "".join(f"; {note}" for note in (setup.not_enabled(PROBE_UNIT),) if note)
    about, since = first(names) + why(cases[0]) + off, min(one.since + 2 * one.target.every for one in cases)
    text = f"{plural(len(cases), 'probe')} overdue since {since_words(since, now)}: {about}"
    return Figure(
        name="probe_late",
        value=len(cases),
        about=about,
        problems=(Problem(text=text, do=setup.no_recent_probe(), since=since, reason=None, names=names),),
        each=each,
    )


def _target_words(target: ChosenTarget) -> str:
    return f"{guest_cell(target.guest_name)} {printable(target.directory)}"


def _began_words(target: ChosenTarget, starts: Mapping[tuple[str, str], datetime], now: datetime) -> str:
    if target.key in starts:
        return f"last begun {ago(starts[target.key], now)}"
    return f"never begun, chosen {ago(target.since, now)}"


def _of_results(
    name: str, results: list[ProbeResult], streak: Callable[[ProbeResult], Streak | None], setup: NodeSetup
) -> Figure:
    """A problem for each cause, the worst first."""
    if not results:
        return Figure(name=name, value=0)
    groups = _by_cause(results)
    streak_of = {
        id(each): streak(each) for each in itertools.islice(itertools.chain.from_iterable(groups), _TOLD_SINCE)
    }
    problems = []
    for those in groups:
        streaks = [streak_of.get(id(each)) for each in those]
        starts = [each[0] for each in streaks if each is not None]
        problems.append(
            Problem(
                text=_cause_words(those, streaks),
                do=_show(those, setup),
                since=min(starts) if len(starts) == len(those) else None,
                reason=None,
                names=tuple(map(_result_name, those)),
            )
        )
    worst = groups[0][0]
    names = first([each for problem in problems for each in problem.names])
    return Figure(
        name=name,
        value=len(results),
        about=f"{names}: {verdict_words(worst, streak_of[id(worst)])}",
        problems=tuple(problems),
        each=tuple(problem.text for problem in problems),
    )


def _by_cause(results: Sequence[ProbeResult]) -> list[list[ProbeResult]]:
    """Those with the same verdict and reason together; what another job of the guest prevented is with that job."""
    by_cause: dict[tuple[Verdict, str], list[ProbeResult]] = {}
    for each in sorted(results, key=lambda each: each.finding.why is Why.NOT_REACHED):
        verdict, why = each.finding.verdict, each.finding.why.value
        after = str(each.finding.facts.get("after")) if each.finding.why is Why.NOT_REACHED else ""
        by_cause.setdefault((verdict, after if (verdict, after) in by_cause else why), []).append(each)
    return sorted(by_cause.values(), key=lambda those: (WORST_FIRST.index(those[0].finding.verdict), -len(those)))


def _cause_words(those: Sequence[ProbeResult], streaks: Sequence[Streak | None]) -> str:
    """``probe short: canary-3 read, write: …``, or ``probe short: 5 guests, 9 probes: …: canary-3, … and 2 more``."""
    head = f"probe {those[0].finding.verdict}"
    name, jobs = _result_name(those[0]), [each.job.name for each in those[1:]]
    if not jobs:
        return f"{head}: {name}: {because_words(those[0], streaks[0])}"
    pairs = [(each, period) for each, period in zip(those, streaks, strict=True) if not _is_prevented(each, those)]
    text = alike_words(*zip(*pairs, strict=True))
    guests = {each.subject.guest_uuid: _guest_name(each) for each in those}
    if len(guests) == 1:
        return f"{head}: {', '.join([name, *jobs])}: {text}"
    names = [shorten(name) for name in [*guests.values()][:_NAMED]]
    more = f" and {len(guests) - _NAMED} more" if len(guests) > _NAMED else ""
    return f"{head}: {len(guests)} guests, {len(those)} probes: {text}: {', '.join(names)}{more}"


def _is_prevented(one: ProbeResult, those: Sequence[ProbeResult]) -> bool:
    return one.finding.why is Why.NOT_REACHED and those[0].finding.why is not Why.NOT_REACHED


def _show(those: Sequence[ProbeResult], setup: NodeSetup) -> str:
    """The result of one guest; the list where there are several."""
    if len({each.subject.guest_uuid for each in those}) > 1:
        return setup.plimsoll("probe", "list")
    return setup.plimsoll("probe", "show", *([] if those[0].id is None else [str(those[0].id)]))


def _result_name(result: ProbeResult) -> str:
    return f"{_guest_name(result)} {result.job.name}"


def _guest_name(result: ProbeResult) -> str:
    return guest_cell(result.subject.guest_name, result.subject.display_name)
