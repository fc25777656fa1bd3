"""What check_plimsoll looks at: the files of the last pass and of the probes, and no hypervisor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from nagiosplugin import Metric, Resource

from plimsoll_agent import passfile
from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.health import Figure, figures_of_disks, figures_of_pass
from plimsoll_agent.lastpass import LastPass
from plimsoll_agent.measures import MEASURE
from plimsoll_agent.report import ago
from plimsoll_agent.state import State, StateError
from plimsoll_probes.chosen import ChosenTarget
from plimsoll_probes.health import figures_of_probes
from plimsoll_probes.history import History, readable
from plimsoll_probes.result import Postponed, ProbeResult


class NoData(PlimsollError):
    """There is nothing to judge: no pass yet, no such guest here, or the state cannot be read."""


@dataclass(frozen=True, slots=True)
class Only:
    """What is looked at: all, or one guest (name or uuid; of probes its display name too), or one volume type."""

    guest: str | None = None
    volume_type: str | None = None

    def __bool__(self) -> bool:
        return self.guest is not None or self.volume_type is not None


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures, and in a few words what they are figures of."""

    figures: tuple[Figure, ...]
    extent: str


class Measuring(Resource):  # type: ignore[misc]  # nagiosplugin has no types
    """One subject of this node, as nagiosplugin wants it: a metric for each figure, in the context of its name."""

    def __init__(self, measured: Measured) -> None:
        self.of = {figure.name: figure for figure in measured.figures}

    def probe(self) -> Iterator[Metric]:
        for name, figure in self.of.items():
            yield Metric(name, figure.value, MEASURE[name].unit or None, min=0)


def measure(subject: str, directory: Path, only: Only, now: datetime) -> Measured:
    """The figures of ``limits``, ``agent`` or ``probe``. Raises ``NoData``."""
    try:
        if not directory.is_dir():
            raise NoData(f"{directory}: there is no such directory; run plimsoll plan, or see state_dir")
        if subject == "probe":
            return _of_probes(readable(State(directory)), only, now)
        return _of_pass(subject, passfile.load(State(directory)), only, now)
    except OSError as error:
        raise NoData(f"{directory}: {error.strerror}; {_PERMIT}") from error
    except StateError as error:
        barred = isinstance(error.__cause__, PermissionError)
        raise NoData(f"{error}; {_PERMIT}" if barred else str(error)) from error


_PERMIT = "put the user of this check into its group"


def _of_pass(subject: str, last: LastPass | None, only: Only, now: datetime) -> Measured:
    if last is None:
        never = next(figure for figure in figures_of_pass(None, now) if MEASURE[figure.name].subject == subject)
        raise NoData(f"{never.about}; {never.do}")
    if subject == "agent":
        mode = "enforce" if last.enforcing else "observe"
        figures = tuple(each for each in figures_of_pass(last, now) if MEASURE[each.name].subject == subject)
        return Measured(figures, f"last pass {ago(last.ended, now)}, mode {mode}, {len(last.disks)} disks")
    last = _only_disks(last, only)
    looked = "never looked at" if last.looked is None else f"looked at {ago(last.looked, now)}"
    guests = len({disk.named.guest_uuid for disk in last.disks})
    return Measured(figures_of_disks(last, now), f"{len(last.disks)} disks of {guests} guests, {looked}")


def _only_disks(last: LastPass, only: Only) -> LastPass:
    if not only:
        return last
    disks, overlooked = last.disks, last.overlooked
    if only.guest is not None:
        disks = tuple(disk for disk in disks if only.guest in (disk.named.guest_name, disk.named.guest_uuid))
        overlooked = tuple(each for each in overlooked if only.guest in (each.guest.name, each.guest.uuid))
    if only.volume_type is not None:
        disks = tuple(disk for disk in disks if disk.volume_type == only.volume_type)
    if only.guest is not None and not disks and not overlooked:
        raise NoData(f"no disk of guest {only.guest} at the last look; see where it runs")
    return replace(last, disks=disks, overlooked=overlooked)


def _of_probes(history: History, only: Only, now: datetime) -> Measured:
    latest: Sequence[ProbeResult] = history.latest()
    chosen: Sequence[ChosenTarget] = history.chosen_targets()
    postponed: Sequence[Postponed] = history.postponed()
    if only.guest is not None:
        its = {only.guest} | {each.subject.guest_uuid for each in latest if only.guest in _names(each)}
        latest = [each for each in latest if each.subject.guest_uuid in its]
        chosen = [each for each in chosen if each.guest_uuid in its or each.guest_name == only.guest]
        if not latest and not chosen:
            raise NoData(
                f"guest {only.guest} is not chosen to be probed here, and never was; see plimsoll probe list"
            )
    figures = figures_of_probes(latest, history.last_begun(now), postponed, chosen, now, history.streak)
    return Measured(figures, _extent(latest, chosen, now))


def _names(result: ProbeResult) -> tuple[str | None, ...]:
    return result.subject.guest_uuid, result.subject.guest_name, result.subject.display_name


def _extent(latest: Sequence[ProbeResult], chosen: Sequence[ChosenTarget], now: datetime) -> str:
    targets = f"{len(chosen)} targets chosen" if chosen else "no guest of this node is chosen to be probed"
    newest = max((each.started for each in latest), default=None)
    return targets if newest is None else f"{targets}, the newest run began {ago(newest, now)}"
