"""How a node is: figures held against ranges. ``status``, ``check_plimsoll`` and gates all judge by ``judge``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from nagiosplugin import Range

from plimsoll_agent.lastpass import Grade, LastDisk, LastPass
from plimsoll_agent.measures import MEASURE, Level, Measure, Thresholds
from plimsoll_agent.outcome import Kind
from plimsoll_agent.report import printable


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value: of the measure with this name, None where it is not known.

    ``about`` says in a few words which disks, guests or sources it is; ``do`` what to do about it.
    """

    name: str
    value: float | None
    about: str = ""
    do: str = ""


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


def figures_of_pass(last: LastPass | None, now: datetime) -> tuple[Figure, ...]:
    """Those of ``agent`` and ``limits``. Without a pass nothing is known, and the age says so."""
    if last is None:
        return (Figure("pass_age", None, "no pass over this node yet", "run plimsoll plan, and see to its timer"),)
    age = max((now - last.ended).total_seconds(), 0.0)
    good = None if last.last_good is None else max((now - last.last_good).total_seconds(), 0.0)
    down = sorted(name for name, up in last.sources.items() if not up)
    figures = [
        Figure("pass_age", age, "", "see to the timer of plimsoll enforce"),
        Figure("good_pass_age", good, last.trouble.partition("\n")[0], "run plimsoll enforce and read what it says"),
        Figure("sources_down", len(down), ", ".join(down), _do_about(down)),
        Figure("paused", int(last.paused is not None), "", "plimsoll resume, when it is time"),
        Figure("braked", last.braked_disks, "", f"plimsoll plan; if it is meant: plimsoll approve {last.braked}"),
    ]
    if last.grade is not Grade.FAILED:
        figures.append(Figure("pass_seconds", sum(last.phases.values()), _longest(last), "see plimsoll plan"))
    if last.catalogue is not None:
        issued = last.catalogue.issued
        told = None if issued is None else max((now - issued).total_seconds(), 0.0)
        figures.append(Figure("catalogue_age", told, last.catalogue.source, "plimsoll catalogue refresh"))
    return (*figures, *_of_disks(last))


def _do_about(down: list[str]) -> str:
    does = {"libvirt": "virsh list", "rules": "plimsoll rules check", "catalogue": "plimsoll catalogue age"}
    return f"see {does.get(down[0], 'plimsoll record --verify')}" if down else ""


def _longest(last: LastPass) -> str:
    return max(last.phases, key=lambda phase: last.phases[phase], default="")


def _of_disks(last: LastPass) -> tuple[Figure, ...]:
    kinds = {
        "behind": (Kind.PLANNED, Kind.WAITS),
        "failed": (Kind.FAILED,),
        "not_known": (Kind.NOT_KNOWN,),
    }
    of_kind = [
        Figure(name, last.count(*of), _named([disk for disk in last.disks if disk.kind in of]), "plimsoll disk list")
        for name, of in kinds.items()
    ]
    astray = [disk for disk in last.disks if disk.astray]
    silent = sorted(each.guest.name for each in last.silent)
    return (
        Figure("unlimited", len(astray), _named(astray), "plimsoll enforce"),
        *of_kind,
        Figure("silent_guests", len(silent), _first(silent), "virsh domstate"),
    )


def _named(disks: Sequence[LastDisk]) -> str:
    return _first([f"{disk.named.guest_name} {disk.named.target}" for disk in disks])


def _first(names: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    if not names:
        return ""
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{printable(names[0])}{more}"
