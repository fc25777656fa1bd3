"""What check_plimsoll reads: the files of the last pass, the daemon and the probes. It asks no hypervisor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from nagiosplugin import Metric, Resource

from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.monitor import daemon_status, pass_summary_file
from plimsoll_agent.monitor.daemon_status import DaemonStatus
from plimsoll_agent.monitor.next_command import NodeSetup
from plimsoll_agent.monitor.pass_summary import LastPass
from plimsoll_agent.monitor.thresholds import MEASURE
from plimsoll_agent.store import clock
from plimsoll_agent.store.state import State, StateError
from plimsoll_agent.util import files
from plimsoll_agent.util.frozen import frozen, replace
from plimsoll_agent.util.text import ago, plural, printable
from plimsoll_monitoring.node.figures import figures_of_probes
from plimsoll_monitoring.node.health import (
    Figure,
    JudgedFigure,
    figures_of_daemon,
    figures_of_disks,
    figures_of_pass,
    no_room,
)
from plimsoll_probes.model.result import Postponed, ProbeResult
from plimsoll_probes.schedule.targets import ChosenTarget
from plimsoll_probes.store.history import History, readable


class NoData(PlimsollError):
    """There is nothing to judge: no pass yet, no such guest here, or the state cannot be read."""


@frozen
class Only:
    """What is checked: all, one guest (name or uuid; for probes its display name too), or one volume type."""

    guest: str | None = None
    volume_type: str | None = None

    def __bool__(self) -> bool:
        return self.guest is not None or self.volume_type is not None


@frozen
class Measurement:
    """The figures, a short text on what they cover, and what is found without a figure."""

    figures: tuple[Figure, ...]
    extent: str
    findings: tuple[JudgedFigure, ...] = ()


class Measuring(Resource):  # type: ignore[misc]  # nagiosplugin has no types
    """One subject of this node for nagiosplugin: a metric for each figure, in the context of the same name."""

    def __init__(self, measurement: Measurement) -> None:
        self.of = {figure.name: figure for figure in measurement.figures}
        self.findings = measurement.findings

    def probe(self) -> Iterator[Metric]:
        for name, figure in self.of.items():
            yield Metric(name, figure.value, MEASURE[name].unit or None, min=0)
        for finding in self.findings:
            yield Metric(finding.measure.name, None)


def measure(subject: str, directory: Path, only: Only, now: datetime, setup: NodeSetup | None = None) -> Measurement:
    """The figures of ``limits``, ``agent`` or ``probe``. Raises ``NoData``."""
    setup = setup or NodeSetup()
    try:
        if not files.is_directory(directory):
            raise NoData(f"{directory}: no such directory; check state_dir in plimsoll.conf")
        if subject == "probe":
            return _of_probes(readable(State(directory)), _last_or_none(State(directory)), only, now, setup)
        state = State(directory)
        daemon = daemon_status.load_or_none(state) if subject == "agent" else None
        measurement = _of_pass(subject, pass_summary_file.load(state), daemon, only, now, setup)
        finding = no_room(directory) if subject == "agent" else None
        return measurement if finding is None else replace(measurement, findings=(finding,))
    except OSError as error:
        raise NoData(f"{directory}: {files.reason(error)}") from error
    except StateError as error:
        raise NoData(str(error)) from error


def _of_pass(
    subject: str, last: LastPass | None, daemon: DaemonStatus | None, only: Only, now: datetime, setup: NodeSetup
) -> Measurement:
    if last is None:
        never = next(
            figure for figure in figures_of_pass(None, now, setup) if MEASURE[figure.name].subject == subject
        )
        raise NoData(f"{never.about}: run {never.do}")
    if subject == "agent":
        mode = "enforce" if last.enforcing else "observe"
        figures = (*figures_of_pass(last, now, setup), *figures_of_daemon(daemon, now, setup))
        figures = tuple(each for each in figures if MEASURE[each.name].subject == subject)
        return Measurement(figures, f"last pass {ago(last.ended, now)}, mode {mode}, {len(last.disks)} disks")
    last = _only_disks(last, only)
    when = "never observed" if last.looked is None else f"observed {ago(last.looked, now)}"
    what = f"{len(last.disks)} disks of {len({disk.named.guest_uuid for disk in last.disks})} guests"
    if only.volume_type is not None and not last.disks:  # no fault of a node, but the name may be wrong
        what = f"no disk of volume type {printable(only.volume_type)}"
    return Measurement(figures_of_disks(last, now, setup), f"{what}, {when}")


def _only_disks(last: LastPass, only: Only) -> LastPass:
    if not only:
        return last
    disks, unreachable = last.disks, last.unreachable
    if only.guest is not None:
        disks = tuple(disk for disk in disks if only.guest in (disk.named.guest_name, disk.named.guest_uuid))
        unreachable = tuple(each for each in unreachable if only.guest in (each.guest.name, each.guest.uuid))
    if only.volume_type is not None:
        disks = tuple(disk for disk in disks if disk.volume_type == only.volume_type)
    if only.guest is not None and not disks and not unreachable:
        raise NoData(f"guest {only.guest} had no RBD disk on this node in the last pass; check where it runs")
    return replace(last, disks=disks, unreachable=unreachable)


def _last_or_none(state: State) -> LastPass | None:
    """None too where it cannot be read, which ``agent`` tells."""
    with suppress(StateError):
        return pass_summary_file.load(state)
    return None


def _of_probes(history: History, last: LastPass | None, only: Only, now: datetime, setup: NodeSetup) -> Measurement:
    latest: Sequence[ProbeResult] = history.latest()
    targets: Sequence[ChosenTarget] = history.chosen_targets()
    postponements: Sequence[Postponed] = history.postponed()
    if only.guest is not None:
        its = {only.guest} | {each.subject.guest_uuid for each in latest if only.guest in _names(each)}
        latest = [each for each in latest if each.subject.guest_uuid in its]
        targets = [each for each in targets if each.guest_uuid in its or each.guest_name == only.guest]
        if not latest and not targets:
            raise NoData(
                f"guest {only.guest} is not chosen for probes here and has no results; see plimsoll probe list"
            )
    starts = history.last_begun(now)
    figures = figures_of_probes(
        latest,
        starts,
        postponements,
        targets,
        now,
        history.streak,
        setup,
        last,
        clock.boot(now),
        of_all=only.guest is None,
    )
    return Measurement(figures, _extent(latest, targets, now))


def _names(result: ProbeResult) -> tuple[str | None, ...]:
    return result.subject.guest_uuid, result.subject.guest_name, result.subject.display_name


def _extent(latest: Sequence[ProbeResult], targets: Sequence[ChosenTarget], now: datetime) -> str:
    text = f"{plural(len(targets), 'probe target')}" if targets else "no probe targets"
    newest = max((each.started for each in latest), default=None)
    return text if newest is None else f"{text}, newest run {ago(newest, now)}"
