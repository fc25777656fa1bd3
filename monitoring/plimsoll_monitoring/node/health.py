"""A node's figures against their ranges. ``status``, ``check_plimsoll`` and gates all use ``judge``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from plimsoll_agent.messages.brake import braked_otherwise
from plimsoll_agent.messages.sentences import missed_words, note_words, unreachable_words, why_deferred
from plimsoll_agent.messages.sentences import words as reason_words
from plimsoll_agent.model.hypervisor import GuestRef
from plimsoll_agent.model.reason import Code, Reason, because
from plimsoll_agent.monitor.daemon_status import DOES_NOT_RUN, NO_EVENTS, NOT_RELOADED, DaemonStatus
from plimsoll_agent.monitor.next_command import CATALOGUE_UNIT, ENFORCE_UNIT, NodeSetup
from plimsoll_agent.monitor.pass_summary import BRAKED, PAUSED, LastDisk, LastPass
from plimsoll_agent.monitor.thresholds import MEASURE, Level, Measure, Thresholds, alarms
from plimsoll_agent.reconcile.grade import Grade
from plimsoll_agent.reconcile.outcome import Kind
from plimsoll_agent.util import durations, files
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import minute, plural, printable

_LONGEST_NAME = 60
_REASONS = 3
"""How many reasons of disks have a problem of their own."""
_CLOCKS_DIFFER = timedelta(minutes=1)
_CENTURY = 36525 * 86400.0
NEVER_PASSED = "no pass over this node yet"
_OBSERVED = "mode is observe: nothing is written"
_NEVER = {
    "pass_age": NEVER_PASSED,
    "good_pass_age": "no good pass yet",
    "catalogue_age": "no usable catalogue",
    "observed_age": "disks not observed yet",
}


@frozen(kw_only=True)
class Problem:
    """One thing that is wrong if its figure is out of range: disks or guests with the same reason are one. All texts
    are safe to show.
    """

    text: str
    """What, where, since when, why: ``1 disk unlimited since 12:02 UTC: instance-00000519 (ci-7) vda: …``."""
    do: str = ""
    """The command to run next."""
    since: datetime | None = None
    reason: Reason | None = None
    """Of the first disk or guest."""
    names: tuple[str, ...] = ()
    """Of the disks, guests or probes."""


@frozen(kw_only=True)
class Figure:
    """The value of the measure with this name; None is unknown.

    ``about`` names the disks, guests or sources in a few words; ``each`` has a line for each of them, with the
    reason. All texts are safe to show.
    """

    name: str
    value: float | None
    about: str = ""
    problems: tuple[Problem, ...] = ()
    each: tuple[str, ...] = ()

    @property
    def do(self) -> str:
        """The command to run next."""
        return self.problems[0].do if self.problems else ""


@frozen(kw_only=True)
class JudgedFigure:
    """One figure, judged."""

    measure: Measure
    figure: Figure
    thresholds: Thresholds
    level: Level


@frozen
class Judgement:
    """All findings, the worst first."""

    findings: tuple[JudgedFigure, ...]

    @property
    def level(self) -> Level:
        return max((finding.level for finding in self.findings), default=Level.UNKNOWN)

    @property
    def wrong(self) -> tuple[JudgedFigure, ...]:
        return tuple(finding for finding in self.findings if finding.level is not Level.OK)


def judge(figures: Iterable[Figure], thresholds: Mapping[str, Thresholds]) -> Judgement:
    """Grade each figure by its ranges. No other module decides on levels."""
    findings = [_judge_figure(figure, thresholds[figure.name]) for figure in figures]
    return Judgement(tuple(sorted(findings, key=lambda finding: -finding.level)))


def _judge_figure(figure: Figure, thresholds: Thresholds) -> JudgedFigure:
    measure = MEASURE[figure.name]
    if figure.value is None:
        # A figure without ranges may stay unknown.
        level = measure.missing if thresholds.warning or thresholds.critical else Level.OK
    elif alarms(thresholds.critical, figure.value):
        level = Level.CRITICAL
    elif alarms(thresholds.warning, figure.value):
        level = Level.WARNING
    else:
        level = Level.OK
    return JudgedFigure(measure=measure, figure=figure, thresholds=thresholds, level=level)


def words(finding: JudgedFigure) -> str:
    """What is wrong, without what to do: the first of its problems, and how many more there are."""
    figure = finding.figure
    if not figure.problems:
        return finding.measure.what if figure.value is None else f"{finding.measure.wrong}: {figure.value:g}"
    first, *others = figure.problems
    return first.text + (f" (and {len(others)} more)" if others else "")


def duration_words(seconds: float) -> str:
    """``2 h 5 min``, for any number that a damaged file may hold."""
    return f"{seconds:.3f} s" if seconds < 1 else durations.words(timedelta(seconds=min(seconds, _CENTURY)))


def figures_of_pass(
    last: LastPass | None, now: datetime, setup: NodeSetup | None = None, approval: str = ""
) -> tuple[Figure, ...]:
    """The figures of ``agent`` and ``limits``; without a pass, two unknown ages.

    ``approval``: by whom and when, since that pass, what its brake deferred, and which pass applies it.
    """
    setup = setup or NodeSetup()
    if last is None:
        never = Problem(text=NEVER_PASSED, do=setup.no_pass())
        return tuple(
            Figure(name=name, value=None, about=NEVER_PASSED, problems=(never,))
            for name in ("pass_age", "observed_age")
        )
    trouble = _first_line(last.trouble)
    figures = [
        _age("pass_age", now, last.ended, setup.not_enabled(ENFORCE_UNIT), setup.no_recent_pass()),
        _age("good_pass_age", now, last.last_good, trouble, _no_good_pass(last, setup)),
        _sources_down(last, trouble, now, setup),
        *_of_observation(last, now, setup, approval),
    ]
    if last.grade is not Grade.FAILED:
        figures.append(_pass_seconds(last, setup))
    if last.catalogue is not None:
        issue_time, source = last.catalogue.issued, f"source {printable(last.catalogue.source or setup.catalogue)}"
        about = ", ".join(filter(None, (source, setup.not_enabled(CATALOGUE_UNIT))))
        figures.append(_age("catalogue_age", now, issue_time, about, setup.no_catalogue()))
    return (*figures, *figures_of_disks(last, now, setup))


def _no_good_pass(last: LastPass, setup: NodeSetup) -> str:
    otherwise = setup.no_pass() if last.grade is Grade.FAILED else setup.no_good_pass()
    return _first_source_down(last, setup) or otherwise


def _first_source_down(last: LastPass, setup: NodeSetup) -> str:
    """For the first source that is down, if any."""
    down = sorted(name for name, up in last.sources.items() if not up)
    return _source_down(last, setup, down[0]) if down else ""


def _source_down(last: LastPass, setup: NodeSetup, name: str) -> str:
    if name == "disks" and last.missing:
        return setup.definition(last.missing[0])
    return setup.source_down(name)


_NOTED = {
    "writes": Code.TRIAL_FAILED,
    "disks": Code.NO_DISK_FOUND,
    "refresh": Code.REFRESH_FAILED,
    "orders": Code.ORDERS_UNKNOWN,
    "congestion": Code.CONGESTION_UNKNOWN,
}
"""The notes of a pass that tell why a source is down."""


def _why_down(name: str, last: LastPass) -> str:
    return next((note_words(note) for note in last.notes if note.code is _NOTED.get(name)), "")


def _of_observation(last: LastPass, now: datetime, setup: NodeSetup, approval: str) -> tuple[Figure, ...]:
    """Before the first observation they are unknown."""
    if last.looked is None:
        return Figure(name="paused", value=None), Figure(name="braked", value=None)
    pause = paused_figure(last.paused, last.wrong_since.get(PAUSED), now, setup, paused_disks(last))
    return pause, _brake(last, now, setup, approval)


def _age(name: str, now: datetime, then: datetime | None, about: str, do: str) -> Figure:
    """How long ago; unknown where it never happened, or the clock was set back since."""
    if then is None:
        text = _NEVER[name] + (f": {about}" if about else "")
        return Figure(name=name, value=None, about=text, problems=(Problem(text=text, do=do),))
    if then - now > _CLOCKS_DIFFER:
        text = f"{_NEVER[name]}: {minute(then)} is in the future"
        return Figure(name=name, value=None, about=text, problems=(Problem(text=text, do="timedatectl"),))
    seconds = max((now - then).total_seconds(), 0.0)
    text = f"{MEASURE[name].wrong} {duration_words(seconds)}, since {since_words(then, now)}"
    return Figure(
        name=name,
        value=seconds,
        about=about,
        problems=(Problem(text=text + (f": {about}" if about else ""), do=do, since=then),),
    )


def _sources_down(last: LastPass, trouble: str, now: datetime, setup: NodeSetup) -> Figure:
    """A problem for each of them; a pass without its rules tells why."""
    down = sorted(name for name, up in last.sources.items() if not up)
    problems = []
    for name in down:
        since = last.wrong_since.get(name)
        why = trouble if name == "rules" or last.grade is Grade.FAILED else _why_down(name, last)
        text = f"{MEASURE['sources_down'].wrong}{_since(since, now)}: {printable(name)}" + (f": {why}" if why else "")
        problems.append(Problem(text=text, do=_source_down(last, setup, name), since=since))
    return Figure(name="sources_down", value=len(down), about=printable(", ".join(down)), problems=tuple(problems))


def paused_disks(last: LastPass | None) -> int:
    """Whose change the last pass deferred for the pause."""
    disks = () if last is None else last.disks
    return sum(disk.kind is Kind.DEFERRED and disk.reason.code is Code.PAUSED for disk in disks)


def paused_figure(
    reason: Reason | None, since: datetime | None, now: datetime, setup: NodeSetup, disks: int = 0
) -> Figure:
    if reason is None:
        return Figure(name="paused", value=0)
    those = f" ({plural(disks, 'disk')} deferred)" if disks else ""
    text = f"{MEASURE['paused'].wrong}{_since(since, now)}{those}: {reason_words(reason)}"
    return Figure(
        name="paused",
        value=1,
        about=reason_words(reason),
        problems=(Problem(text=text, do=setup.pause(reason), since=since, reason=reason),),
    )


def _brake(last: LastPass, now: datetime, setup: NodeSetup, approval: str) -> Figure:
    if not last.braked_disks:
        return Figure(name="braked", value=0)
    since, revision = last.wrong_since.get(BRAKED), printable(last.braked or "")[:16]
    disks = plural(last.braked_disks, "disk")
    needs = approval or MEASURE["braked"].wrong
    others = braked_words(last)
    text = f"{disks} deferred by the brake{_since(since, now)}{others}: revision {revision} {needs}"
    return Figure(
        name="braked",
        value=last.braked_disks,
        about=disks,
        problems=(Problem(text=text, do=setup.plimsoll("plan"), since=since),),
    )


def braked_words(last: LastPass) -> str:
    """`` (1 of them gets its previous limit)``; nothing where all of them are deferred."""
    codes = Counter(disk.reason.code for disk in last.disks)
    others = last.braked_disks - codes[Code.BRAKED] - codes[Code.LARGE_CHANGE]
    text = braked_otherwise(others, min(codes[Code.DESIRED_BEFORE], others)) if others > 0 else ""
    return f" (of them {text})" if text else ""


NO_ROOM = Measure("state", "agent", "", "", "", "whether passes can save what they find", "not saved", Level.UNKNOWN)
"""It has no value and no ranges: a problem, or nothing."""


def no_room(directory: Path) -> JudgedFigure | None:
    """That the state directory is full or read-only: then the last pass that was saved may not be the last one."""
    if not (why := files.no_room(directory)):
        return None
    text = f"{printable(str(directory))}: {why}: what passes find now is not saved, and not shown here"
    reason = because(Code.NOT_READ, source=NO_ROOM.name, detail=text)
    figure = Figure(
        name=NO_ROOM.name,
        value=None,
        about=why,
        problems=(Problem(text=text, do=f"df -h {printable(str(directory))}", reason=reason),),
    )
    return JudgedFigure(measure=NO_ROOM, figure=figure, thresholds=Thresholds("", ""), level=NO_ROOM.missing)


def figures_of_daemon(
    daemon: DaemonStatus | None, now: datetime, setup: NodeSetup | None = None
) -> tuple[Figure, ...]:
    """None where there is none, or it was stopped."""
    if daemon is None:
        return ()
    setup, faults = setup or NodeSetup(), daemon.faults(now)
    since = since_words(daemon.written, now)
    silence = f"(pid {daemon.pid}) has written nothing since {since}"
    if daemon.gone:
        silence = f"(pid {daemon.pid}) was killed or crashed after {since}"
    problems = {
        DOES_NOT_RUN: Problem(text=f"the daemon {silence}: only the timer's passes set limits", do=setup.daemon()),
        NO_EVENTS: Problem(
            text=f"the daemon has no events: {_first_line(daemon.disconnected)}", do=setup.virsh("list")
        ),
        NOT_RELOADED: Problem(
            text=f"the daemon uses earlier settings: {_first_line(daemon.trouble)}", do=setup.plimsoll("settings")
        ),
    }
    return (
        Figure(
            name="daemon_faults",
            value=len(faults),
            about=", ".join(faults),
            problems=tuple(problems[each] for each in faults),
        ),
    )


def _first_line(text: str) -> str:
    return printable(text.partition("\n")[0])


def _pass_seconds(last: LastPass, setup: NodeSetup) -> Figure:
    seconds, longest = sum(last.phases.values()), max(last.phases, key=lambda phase: last.phases[phase], default="")
    about = f"mostly {printable(longest)}" if longest else ""
    text = f"{MEASURE['pass_seconds'].wrong} {duration_words(seconds)}" + (f": {about}" if about else "")
    return Figure(
        name="pass_seconds", value=seconds, about=about, problems=(Problem(text=text, do=setup.phase(longest)),)
    )


def _since(then: datetime | None, now: datetime) -> str:
    return "" if then is None else f" since {since_words(then, now)}"


def since_words(then: datetime, now: datetime) -> str:
    """``09:14 UTC``; with the date if that is another day."""
    then, now = then.astimezone(UTC), now.astimezone(UTC)
    return f"{then:%H:%M} UTC" if then.date() == now.date() else minute(then)


def figures_of_disks(last: LastPass, now: datetime, setup: NodeSetup | None = None) -> tuple[Figure, ...]:
    """The figures of ``limits``; before the first observation they are unknown."""
    setup = setup or NodeSetup()
    if last.looked is None:
        names = ("unlimited", "failed", "behind", "unknown", "unreachable_guests", "at_limit")
        age = _age("observed_age", now, None, "", _first_source_down(last, setup) or setup.virsh("list"))
        return (age, *(Figure(name=name, value=None, about=_NEVER["observed_age"]) for name in names))
    unreachable = sorted(last.running_unreachable, key=lambda unreachable: unreachable.guest.name)
    at_limit = [disk for disk in last.disks if disk.at_limit]

    def of_disks(name: str, disks: Sequence[LastDisk]) -> Figure:
        each = tuple(f"{_name(disk)}  {_why(disk)}" for disk in disks)
        return Figure(
            name=name,
            value=len(disks),
            about=first([_name(disk) for disk in disks]),
            problems=problems_of_disks(name, disks, now, setup),
            each=each,
        )

    return (
        _age("observed_age", now, last.looked, "", _first_source_down(last, setup) or setup.virsh("list")),
        *(of_disks(name, [disk for disk in last.disks if is_wrong(disk)]) for name, is_wrong in OF_DISKS.items()),
        Figure(
            name="unreachable_guests",
            value=len(unreachable),
            about=first([_guest_name(each.guest, last) for each in unreachable]),
            problems=_problems(
                "unreachable_guests",
                [
                    _Case(
                        name=_guest_name(each.guest, last),
                        why=reason_words(each.reason),
                        reason=each.reason,
                        since=last.wrong_since.get(each.guest.uuid),
                        do=setup.guest(each.guest.name, each.guest.uuid),
                        disks=sum(disk.unknown and disk.named.guest_uuid == each.guest.uuid for disk in last.disks),
                    )
                    for each in unreachable
                ],
                now,
                setup.virsh("list"),
            ),
            each=tuple(map(unreachable_words, unreachable)),
        ),
        Figure(
            name="at_limit",
            value=None if last.interval is None else len(at_limit),
            about=first([_name(disk) for disk in at_limit]),
            problems=_problems(
                "at_limit",
                [
                    _Case(name=_name(disk), why=_nearest(disk), reason=None, since=None, do=setup.plimsoll("top"))
                    for disk in at_limit
                ],
                now,
            ),
            each=tuple(f"{_name(disk)}  {_nearest(disk)}" for disk in at_limit),
        ),
    )


OF_DISKS: Mapping[str, Callable[[LastDisk], bool]] = {
    "unlimited": lambda disk: disk.astray,
    "failed": lambda disk: disk.kind is Kind.FAILED,
    "behind": lambda disk: disk.kind in (Kind.PLANNED, Kind.DEFERRED),
    "unknown": lambda disk: disk.unknown,
}
"""The figures that count disks, and which; a disk may be in several."""


def problems_of_disks(name: str, disks: Sequence[LastDisk], now: datetime, setup: NodeSetup) -> tuple[Problem, ...]:
    """These disks, wrong by the measure ``name``: a problem for each reason, the most frequent first."""
    return _problems(name, [_case(disk, setup) for disk in disks], now, setup.plimsoll("disk", "list"))


@frozen(kw_only=True)
class _Case:
    """One disk or guest that is wrong."""

    name: str
    why: str
    reason: Reason | None
    since: datetime | None
    do: str
    disks: int = 0
    """Of an unreachable guest, that are unknown for that."""


def _case(disk: LastDisk, setup: NodeSetup) -> _Case:
    if disk.kind is Kind.PLANNED:
        # The reason is that of the desired limits.
        return _Case(name=_name(disk), why=_why(disk), reason=None, since=disk.since, do=setup.plimsoll("plan"))
    attempt = disk.kind is Kind.FAILED and disk.reason.code in (Code.REJECTED, Code.READ_BACK_DIFFERS)
    do = setup.record(disk.named) if attempt else setup.disk(disk.reason, disk.named)
    return _Case(name=_name(disk), why=_why(disk), reason=disk.reason, since=disk.since, do=do)


def _why(disk: LastDisk) -> str:
    """Why it is as it is."""
    if disk.kind is Kind.PLANNED:
        return _OBSERVED
    if disk.kind is Kind.UNKNOWN and disk.astray and disk.desired is not None:
        return missed_words(disk.desired, disk.reason)
    return why_deferred(disk.reason) if disk.kind is Kind.DEFERRED else reason_words(disk.reason)


def _problems(name: str, cases: Sequence[_Case], now: datetime, do: str = "") -> tuple[Problem, ...]:
    """The first few reasons, and one problem for the others, for which ``do`` is the next command."""
    alike: dict[Code | None, list[_Case]] = {}
    for case in cases:
        alike.setdefault(None if case.reason is None else case.reason.code, []).append(case)
    groups = sorted(alike.values(), key=len, reverse=True)
    problems = [_problem(name, each, now) for each in groups[:_REASONS]]
    if others := [case for each in groups[_REASONS:] for case in each]:
        text = f"{_what(name, others)} for {plural(len(groups) - _REASONS, 'other reason')}"
        problems.append(Problem(text=text, do=do, since=None, reason=None, names=tuple(case.name for case in others)))
    return tuple(problems)


def _problem(name: str, cases: Sequence[_Case], now: datetime) -> Problem:
    starts = [case.since for case in cases if case.since is not None]
    since = min(starts) if len(starts) == len(cases) else None
    head, names = cases[0], tuple(case.name for case in cases)
    why, more = head.why, f" and {len(cases) - 1} more" if len(cases) > 1 else ""
    where = f"{first(names)}: {why}"
    if any(case.why != why for case in cases):
        where = f"{first(names[:1])}: {why};{more}"
    disks = sum(case.disks for case in cases)
    unknown = f" ({plural(disks, 'disk')} unknown)" if disks else ""
    text = f"{_what(name, cases)}{_since(since, now)}{unknown}: {where}"
    return Problem(text=text, do=head.do, since=since, reason=head.reason, names=names)


def _what(name: str, cases: Sequence[_Case]) -> str:
    all_deferred = name == "behind" and all(case.reason is not None for case in cases)
    return _WHAT["deferred" if all_deferred else name](len(cases))


_WHAT: Mapping[str, Callable[[int], str]] = {
    "unlimited": lambda number: f"{plural(number, 'disk')} unlimited",
    "failed": lambda number: f"change failed on {plural(number, 'disk')}",
    "behind": lambda number: f"{plural(number, 'disk')} out of sync",
    "deferred": lambda number: f"{plural(number, 'disk')} deferred",
    "unknown": lambda number: f"{plural(number, 'disk')} unknown",
    "unreachable_guests": lambda number: f"{plural(number, 'guest')} unreachable",
    "at_limit": lambda number: f"{plural(number, 'disk')} at limit",
}
"""What is wrong with as many disks or guests."""


def _name(disk: LastDisk) -> str:
    """``instance-00000519 (ci-7) vda``."""
    return f"{_with_server(disk.named.guest_name, disk.server)} {printable(disk.named.target)}"


def _guest_name(guest: GuestRef, last: LastPass) -> str:
    return _with_server(guest.name, last.servers.get(guest.uuid))


def _with_server(guest: str, server: str | None) -> str:
    return f"{printable(guest)} ({printable(server)})" if server else printable(guest)


def _nearest(disk: LastDisk) -> str:
    limit = max(disk.shares, key=lambda name: disk.shares[name])
    return f"{disk.shares[limit]:.0%} of {limit}"


def first(names: Sequence[str]) -> str:
    """The first name, shortened, and how many more there are."""
    if not names:
        return ""
    return shorten(names[0]) + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def shorten(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
