"""``plimsoll status -f json``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from plimsoll_agent.monitor.daemon_status import DaemonStatus, WaitingGuest
from plimsoll_agent.monitor.pass_summary import LastDisk, LastPass
from plimsoll_agent.reconcile.grade import Grade
from plimsoll_agent.reconcile.outcome import Kind
from plimsoll_monitoring.node import consoles
from plimsoll_monitoring.node.health import (
    JudgedFigure,
)
from plimsoll_monitoring.node.status import ListedProblem, NodeStatus, Probes, by_type
from plimsoll_probes.model.finding import Verdict
from plimsoll_probes.output.serialize import time_data

FORMAT_VERSION = 3


def data(status: NodeStatus) -> dict[str, object]:
    """Keys are stable; times are in UTC, durations in seconds, and unknown is null."""
    last = status.last
    look = None if last is None or last.looked is None else last
    return {
        "version": FORMAT_VERSION,
        "level": status.level.name.lower(),
        "complaints": [each.text for each in status.trouble],
        "problems": [_problem_data(entry) for entry in status.problems()],
        "findings": [_finding_data(finding) for finding in status.judgement.findings],
        "pass": None if last is None else _pass_data(last),
        "sources": None if last is None else dict(last.sources),
        "catalogue": None if last is None or last.catalogue is None else _catalogue_data(last),
        "guests": None if look is None else _guests_data(look),
        "disks": None if look is None else _disks_data(look),
        "paused": None if status.paused is None else status.paused.as_record(),
        "braked": None
        if last is None or last.braked is None
        else {"revision": last.braked, "disks": last.braked_disks},
        "holds": None if look is None else look.holds,
        "consoles": None if status.consoles is None else consoles.data(status.consoles),
        "daemon": None if status.daemon is None else _daemon_data(status.daemon, status.now),
        "probes": None if status.probes is None else _probes_data(status.probes),
        "files": {str(path): time_data(at) for path, at in status.written.items()},
    }


def _daemon_data(daemon: DaemonStatus, now: datetime) -> dict[str, object]:
    def waiting(guests: Sequence[WaitingGuest]) -> list[dict[str, object]]:
        return [{"uuid": each.uuid, "guest": each.name, "until": time_data(each.until)} for each in guests]

    return {
        "runs": daemon.runs(now),
        "plimsoll": daemon.version,
        "pid": daemon.pid,
        "started": time_data(daemon.started),
        "written": time_data(daemon.written),
        "connected_since": daemon.connected_since and time_data(daemon.connected_since),
        "events": sum(daemon.events.values()),
        "event_passes": dict(daemon.passes),
        "last_full_pass": daemon.last_full_pass and time_data(daemon.last_full_pass),
        "set_aside": waiting(daemon.set_aside),
        "damped": waiting(daemon.damped),
        "reload_trouble": daemon.trouble or None,
    }


def _problem_data(entry: ListedProblem) -> dict[str, object]:
    problem = entry.problem
    return {
        "level": entry.level.name.lower(),
        "figure": entry.figure or None,
        "text": problem.text,
        "next": problem.do or None,
        "since": problem.since and time_data(problem.since),
        "reason": None if problem.reason is None else problem.reason.as_record(),
        "names": list(problem.names),
    }


def _finding_data(finding: JudgedFigure) -> dict[str, object]:
    figure, ranges = finding.figure, finding.thresholds
    return {
        "name": figure.name,
        "value": figure.value,
        "level": finding.level.name.lower(),
        "warning": ranges.warning or None,
        "critical": ranges.critical or None,
        "about": figure.about,
        "do": figure.do,
    }


def _pass_data(last: LastPass) -> dict[str, object]:
    return {
        "plimsoll": last.version,
        "started": time_data(last.started),
        "ended": time_data(last.ended),
        "result": last.grade.value,
        "enforcing": last.enforcing,
        "trouble": last.trouble or None,
        "notes": [note.as_record() for note in last.notes],
        "looked": last.looked and time_data(last.looked),
        "last_good": last.last_good and time_data(last.last_good),
        "seconds": dict(last.phases),
        "interval": last.interval,
        "so_far": {grade.value: last.totals.passes.get(grade, 0) for grade in Grade},
        "lock_busy": last.busy,
    }


def _catalogue_data(last: LastPass) -> dict[str, object]:
    catalogue = last.catalogue
    issue_time = None if catalogue is None else catalogue.issued
    return {
        "issued": issue_time and time_data(issue_time),
        "source": None if catalogue is None else catalogue.source or None,
        "refreshes": {"good": last.calls.good, "failed": last.calls.failed},
        "calls": dict(last.calls.of_service),
    }


def _guests_data(last: LastPass) -> dict[str, object]:
    return {
        "looked_at": last.guests,
        "unreachable": [
            {
                "guest": each.guest.name,
                "guest_uuid": each.guest.uuid,
                "server": last.servers.get(each.guest.uuid),
                "reason": each.reason.as_record(),
            }
            for each in last.running_unreachable
        ],
    }


def _disks_data(last: LastPass) -> dict[str, object]:
    return _sums(last.disks, last) | {
        "corrected": sum(last.totals.corrected.values()),
        "kernel_mapped": len(last.kernel_mapped),
        "by_type": [
            {"volume_type": name or None} | _sums(disks, last) for name, disks in by_type(last.disks).items()
        ],
    }


def _sums(disks: Sequence[LastDisk], last: LastPass) -> dict[str, object]:
    return {
        "disks": len(disks),
        "states": {kind.value: sum(disk.kind is kind for disk in disks) for kind in Kind},
        "unlimited": sum(disk.astray for disk in disks),
        "unknown": sum(disk.unknown for disk in disks),
        "unknown_acknowledged": sum(disk.acknowledged is not None for disk in disks),
        "at_limit": None if last.interval is None else sum(disk.at_limit for disk in disks),
    }


def _probes_data(probes: Probes) -> dict[str, object]:
    newest = max((each.ended for each in probes.results), default=None)
    return {
        "chosen": len(probes.chosen),
        "newest_runs": {verdict.value: probes.verdicts[verdict] for verdict in Verdict},
        "postponed": len(probes.postponed),
        "last": newest and time_data(newest),
    }
