"""The figures of probes that ``status`` and ``check_plimsoll probe`` judge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from plimsoll_agent.monitor.next_command import PROBE_UNIT, NodeSetup
from plimsoll_agent.monitor.thresholds import MEASURE
from plimsoll_agent.util import durations
from plimsoll_agent.util.text import ago, plural, printable
from plimsoll_monitoring.node.health import Figure, Problem, first, since_words
from plimsoll_probes.model.finding import Verdict, Why
from plimsoll_probes.model.result import Postponed, ProbeResult
from plimsoll_probes.output.messages import Streak, guest_cell, postponed_words, verdict_words
from plimsoll_probes.schedule.late import Late, late
from plimsoll_probes.schedule.targets import ChosenTarget

BROKEN = (Verdict.SHORT, Verdict.OVER_LIMIT, Verdict.SLOW)
FORGOTTEN = timedelta(days=7)
"""How long the result of a target counts that is no longer chosen."""

_EACH = 3
"""Results with a problem of their own."""
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
) -> tuple[Figure, ...]:
    """The figures of ``probe``. ``latest`` are the newest results by guest, directory and job; ``starts`` is when
    the newest run of each guest (uuid) and directory began; ``streak`` finds since when a verdict has been the same,
    and is called for a few results only.
    """
    setup = setup or NodeSetup()
    results = [result for result in latest if counts(result, targets, now)]
    broken_results = [each for each in results if each.finding.verdict in BROKEN]
    failed_results = [each for each in results if each.finding.verdict is Verdict.FAILED]
    return (
        _late(starts, postponements, targets, now, setup),
        _of_results("probe_broken", broken_results, streak, setup),
        _of_results("probe_failed", failed_results, streak, setup),
    )


def counts(result: ProbeResult, targets: Sequence[ChosenTarget], now: datetime) -> bool:
    """Whether a result still counts: it is recent, or its target is still chosen."""
    if now - result.started < FORGOTTEN:
        return True
    key = (result.subject.guest_uuid, result.subject.directory)
    return any(target.key == key and result.job.name in target.jobs for target in targets)


def _late(
    starts: Mapping[tuple[str, str], datetime],
    postponements: Iterable[Postponed],
    targets: Sequence[ChosenTarget],
    now: datetime,
    setup: NodeSetup,
) -> Figure:
    postponed_of = {(each.guest_uuid, each.directory): each for each in postponements}

    def why(one: Late) -> str:
        last = postponed_of.get(one.target.key)
        return f"; {postponed_words(last)}" if last is not None and last.at >= one.since else ""

    cases = late(targets, starts, now)
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
    """A problem for each of the first few guests and verdicts, with its own command, and one for the rest."""
    if not results:
        return Figure(name=name, value=0)
    # The failure that prevented a job comes before that job.
    results.sort(key=lambda result: result.finding.why is Why.NOT_REACHED)
    streaks = [streak(each) if at < _TOLD_SINCE else None for at, each in enumerate(results)]
    texts = [verdict_words(each, period) for each, period in zip(results, streaks, strict=True)]
    names = [_result_name(result) for result in results]
    alike: dict[tuple[str, str], list[int]] = {}
    for at, result in enumerate(results):
        alike.setdefault((result.subject.guest_uuid, texts[at]), []).append(at)
    groups = list(alike.values())
    what = MEASURE[name].wrong
    problems = [
        Problem(
            text=f"{what}: {_names(names[those[0]], [results[at] for at in those])}: {texts[those[0]]}",
            do=_show(results[those[0]], setup),
            since=None if (period := streaks[those[0]]) is None else period[0],
            reason=None,
            names=tuple(names[at] for at in those),
        )
        for those in groups[:_EACH]
    ]
    if rest := [names[at] for those in groups[_EACH:] for at in those]:
        text = f"{what}: {plural(len(rest), 'more probe')}"
        problems.append(
            Problem(text=text, do=setup.plimsoll("probe", "list"), since=None, reason=None, names=tuple(rest))
        )
    return Figure(
        name=name,
        value=len(results),
        about=f"{first(names)}: {texts[0]}",
        problems=tuple(problems),
        each=tuple(f"{name}  {sentence}" for name, sentence in zip(names, texts, strict=True)),
    )


def _show(result: ProbeResult, setup: NodeSetup) -> str:
    return setup.plimsoll("probe", "show", *([] if result.id is None else [str(result.id)]))


def _names(name: str, those: Sequence[ProbeResult]) -> str:
    """``canary-3 read, write``: probes of one guest, of which ``name`` is the first."""
    return ", ".join([name, *(each.job.name for each in those[1:])])


def _result_name(result: ProbeResult) -> str:
    return f"{guest_cell(result.subject.guest_name, result.subject.display_name)} {result.job.name}"
