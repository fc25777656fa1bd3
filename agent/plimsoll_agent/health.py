"""How a node is: figures held against ranges. ``status``, ``check_plimsoll`` and gates all judge by ``judge``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from nagiosplugin import Range

from plimsoll_agent import spans
from plimsoll_agent.lastpass import Grade, LastDisk, LastPass
from plimsoll_agent.measures import MEASURE, Level, Measure, Thresholds
from plimsoll_agent.outcome import Kind
from plimsoll_agent.report import minute, overlooked_words, printable
from plimsoll_agent.report import words as reason_words

_LONGEST_NAME = 60
_CLOCKS_DIFFER = timedelta(minutes=1)
_CENTURY = 36525 * 86400.0
_NEVER = {
    "pass_age": "no pass over this node yet",
    "good_pass_age": "no pass yet that left nothing undone",
    "catalogue_age": "nothing that Cinder said counts",
    "looked_age": "the disks were not looked at yet",
}


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value: of the measure with this name, None where it is not known.

    ``about`` says in a few words which disks, guests or sources it is, the first of them first; ``do`` what to do
    about it. ``each`` has a line for each of them, and why. All of it can be shown.
    """

    name: str
    value: float | None
    about: str = ""
    do: str = ""
    each: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """One figure, judged."""

    measure: Measure
    figure: Figure
    thresholds: Thresholds
    level: Level


@dataclass(frozen=True, slots=True)
class Judgement:
    """All findings, the worst first."""

    findings: tuple[Finding, ...]

    @property
    def level(self) -> Level:
        return max((finding.level for finding in self.findings), default=Level.UNKNOWN)

    @property
    def wrong(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.level is not Level.OK)


def judge(figures: Iterable[Figure], thresholds: Mapping[str, Thresholds]) -> Judgement:
    """Each figure against its ranges: the one place where it is decided how bad something is."""
    findings = [_judged(figure, thresholds[figure.name]) for figure in figures]
    return Judgement(tuple(sorted(findings, key=lambda finding: -finding.level)))


def _judged(figure: Figure, thresholds: Thresholds) -> Finding:
    measure = MEASURE[figure.name]
    if figure.value is None:
        # What nobody watches may stay unknown.
        level = measure.missing if thresholds.warning or thresholds.critical else Level.OK
    elif thresholds.critical and not Range(thresholds.critical).match(figure.value):
        level = Level.CRITICAL
    elif thresholds.warning and not Range(thresholds.warning).match(figure.value):
        level = Level.WARNING
    else:
        level = Level.OK
    return Finding(measure, figure, thresholds, level)


def words(finding: Finding) -> str:
    """What is the matter, without what to do: ``change failed: instance-00000007 vdb and 2 more``."""
    measure, value, about = finding.measure, finding.figure.value, finding.figure.about
    if value is None:
        return about or f"not known: {measure.what}"
    if measure.unit == "s":
        return f"{measure.wrong} {span_words(value)}" + (f": {about}" if about else "")
    return f"{measure.wrong}: {about or f'{value:g}'}"


def span_words(seconds: float) -> str:
    """``2 h 5 min``; a damaged file may hold any number."""
    return f"{seconds:.3f} s" if seconds < 1 else spans.words(timedelta(seconds=min(seconds, _CENTURY)))


def figures_of_pass(last: LastPass | None, now: datetime) -> tuple[Figure, ...]:
    """Those of ``agent`` and ``limits``. Without a pass nothing is known, and the ages say so."""
    if last is None:
        do = "run plimsoll plan, and see to the timer of plimsoll enforce"
        return tuple(Figure(name, None, _NEVER["pass_age"], do) for name in ("pass_age", "looked_age"))
    down = sorted(name for name, up in last.sources.items() if not up)
    trouble = printable(last.trouble.partition("\n")[0])
    paused = "" if last.paused is None else reason_words(last.paused)
    figures = [
        _age("pass_age", now, last.ended, "", "see to the timer of plimsoll enforce"),
        _age("good_pass_age", now, last.last_good, trouble, "run plimsoll enforce and read what it says"),
        Figure("sources_down", len(down), printable(", ".join(down)), _do_about(down)),
        Figure("paused", int(last.paused is not None), paused, "plimsoll resume, when it is time"),
        Figure("braked", last.braked_disks, _disks(last.braked_disks), _do_about_brake(last)),
    ]
    if last.grade is not Grade.FAILED:
        figures.append(Figure("pass_seconds", sum(last.phases.values()), _longest(last), "see plimsoll plan"))
    if last.catalogue is not None:
        issued, source = last.catalogue.issued, last.catalogue.source
        figures.append(
            _age("catalogue_age", now, issued, f"source {printable(source)}", "plimsoll catalogue refresh")
        )
    return (*figures, *figures_of_disks(last, now))


def _age(name: str, now: datetime, then: datetime | None, about: str, do: str) -> Figure:
    """How long ago; not known where it never was, or where a clock was set back since."""
    if then is None:
        return Figure(name, None, _NEVER[name] + (f": {about}" if about else ""), do)
    if then - now > _CLOCKS_DIFFER:
        return Figure(name, None, f"{_NEVER[name]}: {minute(then)} is yet to come", "see to the clock of this node")
    return Figure(name, max((now - then).total_seconds(), 0.0), about, do)


def _do_about(down: list[str]) -> str:
    does = {
        "libvirt": "virsh list",
        "rules": "plimsoll rules check",
        "catalogue": "plimsoll catalogue age",
    }
    return f"see {does.get(down[0], 'plimsoll record --verify')}" if down else ""


def _disks(number: int) -> str:
    return f"{number} disk{'s' if number != 1 else ''}" if number else ""


def _do_about_brake(last: LastPass) -> str:
    return f"plimsoll plan; if it is meant: plimsoll approve {printable(last.braked)[:16]}" if last.braked else ""


def _longest(last: LastPass) -> str:
    longest = max(last.phases, key=lambda phase: last.phases[phase], default="")
    return f"{printable(longest)} the most" if longest else ""


def figures_of_disks(last: LastPass, now: datetime) -> tuple[Figure, ...]:
    """Those of ``limits``."""
    how = "see plimsoll plan" if last.enforcing else "mode is observe: see plimsoll plan, and set it to enforce"
    silent = sorted(last.silent, key=lambda overlooked: overlooked.guest.name)
    at_wall = [disk for disk in last.disks if disk.at_wall]
    return (
        _age("looked_age", now, last.looked, "", "run plimsoll plan and read what it says"),
        _of_disks("unlimited", [disk for disk in last.disks if disk.astray], how),
        _of_disks("behind", _of_kind(last, Kind.PLANNED, Kind.WAITS), how),
        _of_disks("failed", _of_kind(last, Kind.FAILED), "plimsoll disk list"),
        _of_disks("not_known", _of_kind(last, Kind.NOT_KNOWN), "plimsoll disk list"),
        Figure(
            "silent_guests",
            len(silent),
            first([printable(each.guest.name) for each in silent]),
            "virsh domstate",
            tuple(map(overlooked_words, silent)),
        ),
        Figure(
            "at_wall",
            None if last.interval is None else len(at_wall),
            first([_name(disk) for disk in at_wall]),
            "plimsoll top",
            tuple(f"{_name(disk)}  {_wall(disk)}" for disk in at_wall),
        ),
    )


def _of_kind(last: LastPass, *kinds: Kind) -> list[LastDisk]:
    return [disk for disk in last.disks if disk.kind in kinds]


def _of_disks(name: str, disks: Sequence[LastDisk], do: str) -> Figure:
    each = tuple(f"{_name(disk)}  {reason_words(disk.reason)}" for disk in disks)
    return Figure(name, len(disks), first([_name(disk) for disk in disks]), do, each)


def _name(disk: LastDisk) -> str:
    return f"{printable(disk.named.guest_name)} {printable(disk.named.target)}"


def _wall(disk: LastDisk) -> str:
    limit = max(disk.shares, key=lambda name: disk.shares[name])
    return f"{disk.shares[limit]:.0%} of {limit}"


def first(names: Sequence[str]) -> str:
    """The first of them, shortened, and how many more there are."""
    if not names:
        return ""
    name = names[0] if len(names[0]) <= _LONGEST_NAME else f"{names[0][: _LONGEST_NAME - 1]}…"
    return name + (f" and {len(names) - 1} more" if len(names) > 1 else "")
