"""``plimsoll status``: the state of this node, from the files of passes and probes, as text and as data."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from pathlib import Path

from plimsoll_agent.consoles.model import Consoles
from plimsoll_agent.messages.sentences import note_words, short_size, states_words
from plimsoll_agent.messages.sentences import words as reason_words
from plimsoll_agent.model.reason import Code, Reason, because
from plimsoll_agent.monitor import daemon_status
from plimsoll_agent.monitor.daemon_status import DaemonStatus, WaitingGuest
from plimsoll_agent.monitor.health import (
    NEVER_PASSED,
    OF_DISKS,
    Figure,
    Finding,
    Judgement,
    Problem,
    figures_of_daemon,
    figures_of_pass,
    judge,
    paused_figure,
    problems_of_disks,
    since_words,
    words,
)
from plimsoll_agent.monitor.next_command import NodeSetup
from plimsoll_agent.monitor.pass_summary import PAUSED, LastDisk, LastPass
from plimsoll_agent.monitor.thresholds import Level, Thresholds
from plimsoll_agent.reconcile.grade import Grade
from plimsoll_agent.reconcile.outcome import Kind
from plimsoll_agent.store.state import Given
from plimsoll_agent.util import durations
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import ago, plural, printable
from plimsoll_probes.health import consoles
from plimsoll_probes.health.figures import counts, figures_of_probes
from plimsoll_probes.model.finding import Verdict
from plimsoll_probes.model.result import Postponed, ProbeResult
from plimsoll_probes.output.serialize import time_data
from plimsoll_probes.schedule.targets import ChosenTarget
from plimsoll_probes.store.history import History

FORMAT_VERSION = 3
NONE = "-"


@frozen
class Probes:
    """The probes of this node; ``results`` are the newest of each guest, directory and job that still count."""

    chosen: Sequence[ChosenTarget]
    results: Sequence[ProbeResult]
    postponed: Sequence[Postponed]
    """Those that have not started since."""
    figures: Sequence[Figure]

    @classmethod
    def of(cls, history: History, now: datetime, setup: NodeSetup | None = None) -> Probes:
        """Raises ``StateError``."""
        chosen, latest, postponed = history.chosen_targets(), history.latest(), history.postponed()
        begun = history.last_begun(now)
        return cls(
            chosen,
            [each for each in latest if counts(each, chosen, now)],
            [each for each in postponed if _is_postponed(each, chosen, begun)],
            figures_of_probes(latest, begun, postponed, chosen, now, history.streak, setup),
        )

    @property
    def verdicts(self) -> Counter[Verdict]:
        return Counter(each.finding.verdict for each in self.results)


def _is_postponed(
    postponed: Postponed, chosen: Sequence[ChosenTarget], begun: Mapping[tuple[str, str], datetime]
) -> bool:
    key = postponed.guest_uuid, postponed.directory
    return any(target.key == key for target in chosen) and (key not in begun or begun[key] < postponed.at)


@frozen
class Told:
    """A problem as it is told: with its level, and the figure that it belongs to ("" for a file)."""

    level: Level
    figure: str
    problem: Problem


@frozen(kw_only=True)
class Status:
    """This node by its files. ``complaints`` has an error for each that could not be read: ``pass``, ``probes``."""

    now: datetime
    last: LastPass | None
    probes: Probes | None
    paused: Reason | None
    """Now, not at the last pass."""
    observe: bool = False
    """The settings have mode observe."""
    approvals: Sequence[Given] = ()
    """Of large changes, which no pass has used yet."""
    approvals_unread: str = ""
    """Why they cannot be read, if so."""
    written: Mapping[Path, datetime]
    """When each existing file was written."""
    thresholds: Mapping[str, Thresholds]
    setup: NodeSetup = field(default_factory=NodeSetup)
    complaints: Mapping[str, str] = field(default_factory=dict)
    no_room: Finding | None = None
    consoles: Consoles | None = None
    """None where they are not read."""
    daemon: DaemonStatus | None = None
    """None where it does not run, or has ended by itself."""

    @property
    def judgement(self) -> Judgement:
        figures = () if "pass" in self.complaints else figures_of_pass(self.last, self.now, self.setup, self.approved)
        figures = tuple(each for each in figures if each.name != "paused")
        daemon = figures_of_daemon(self.daemon, self.now, self.setup)
        since = None if self.last is None or self.last.paused is None else self.last.wrong_since.get(PAUSED)
        paused = paused_figure(self.paused, since, self.now, self.setup)
        probes = () if self.probes is None else self.probes.figures
        return judge((*figures, paused, *daemon, *probes), self.thresholds)

    @property
    def approved(self) -> str:
        """``approved by root 16:14 UTC; the next pass applies it``: what the brake of the last pass deferred."""
        revision = self.last.braked if self.last is not None else None
        given = [each for each in self.approvals if revision and each.approval.covers(revision, removal=False)]
        if not given:
            return ""
        best = max(given, key=lambda each: each.approval.remove)
        said = f"approved by {printable(best.by)} {since_words(best.at, self.now)}"
        said += "" if best.approval.remove else ", without removals"
        which = "next pass"
        if self.observe:
            which = "first pass in mode enforce"
        elif self.paused is not None:
            which = "first pass after the pause"
        return f"{said}; the {which} applies it"

    @property
    def trouble(self) -> tuple[Problem, ...]:
        """The files that could not be read, and that passes cannot write them."""
        unread = tuple(_complaint(*each, self.setup) for each in self.complaints.items())
        return unread if self.no_room is None else (*unread, *self.no_room.figure.problems)

    @property
    def known(self) -> bool:
        """Whether all files could be read, and passes can write them."""
        return self.last is not None and not self.trouble

    @property
    def level(self) -> Level:
        """At least UNKNOWN where something could not be read."""
        return max(self.judgement.level, Level.OK if self.known else Level.UNKNOWN)

    @property
    def exit_status(self) -> int:
        if not self.known:
            return 1
        return 0 if self.level is Level.OK else 3

    def problems(self) -> Iterator[Told]:
        """What is wrong, the worst first. What two figures tell of the same disks is told once."""
        found = [Told(Level.UNKNOWN, "", each) for each in self.trouble]
        texts: set[str] = set()
        disks: set[str] = set()
        for finding in self.judgement.wrong:
            for problem in self._problems_of(finding, disks):
                if problem.text not in texts:
                    found.append(Told(finding.level, finding.measure.name, problem))
                texts.add(problem.text)
        alone = (told for told in found if not _follows(told, found))
        yield from sorted(alone, key=lambda told: (-told.level, told.figure == "good_pass_age"))

    def _problems_of(self, finding: Finding, told: set[str]) -> Sequence[Problem]:
        """``told``: the keys of disks that were told before; others are added."""
        name = finding.measure.name
        if self.last is None or name not in OF_DISKS:
            return finding.figure.problems or (Problem(words(finding)),)
        disks = [disk for disk in self.last.disks if OF_DISKS[name](disk) and disk.named.key not in told]
        told |= {disk.named.key for disk in disks}
        if name == "behind" and any(each.measure.name == "braked" for each in self.judgement.wrong):
            disks = [disk for disk in disks if disk.reason.code is not Code.BRAKED]  # told with the brake
        return problems_of_disks(name, disks, self.now, self.setup)


def _follows(told: Told, found: Sequence[Told]) -> bool:
    """Whether it is that there was no good pass, and a problem that is as bad has the same next command."""
    others = [other for other in found if other.figure != "good_pass_age"]
    return told.figure == "good_pass_age" and any(
        told.problem.do == other.problem.do and told.level <= other.level for other in others
    )


def _complaint(name: str, text: str, setup: NodeSetup) -> Problem:
    barred = setup.sudo and os.strerror(errno.EACCES) in text
    do = setup.plimsoll("status") if barred else setup.plimsoll("state", "check")
    return Problem(text, do, reason=because(Code.NOT_READ, source=name, detail=text))


# --- as text


def good_words(status: Status) -> str:
    """The line of a node without problems: what the last pass found, and when it ended."""
    last = status.last
    if last is None:
        return NEVER_PASSED
    disks = f"{plural(len(last.disks), 'disk')}: {_counted(last.disks)}" if last.disks else "no disks"
    return f"{disks}; last pass {ago(last.ended, status.now)}"


def remarks(status: Status) -> Iterator[str]:
    """What to know beside the problems."""
    if status.consoles is not None:
        yield from consoles.remarks(status.consoles)
    last = status.last
    if last is None:
        return
    if last.braked and status.approvals_unread:
        yield f"{status.approvals_unread}; an approval since the last pass is not shown"
    yield from map(note_words, last.notes)
    if last.paused is not None and status.paused is None:
        yield "the last pass was paused, the node is not any more: the next pass writes"
    if last.enforcing and status.observe:
        yield "the last pass was in mode enforce; the settings have mode observe"


def facts(status: Status, *, long: bool = False) -> dict[str, str]:
    """The lines of the text form."""
    last, told = status.last, dict[str, str]()
    told["passes"] = "unknown" if "pass" in status.complaints else "none yet"
    if last is not None:
        told["passes"] = _passes(last, status.now)
    if status.daemon is not None:
        runs = "runs" if status.daemon.runs(status.now) else "does not run any more"
        told["daemon"] = f"{runs}; {daemon_status.line(status.daemon)}"
    told |= _mode(status)
    if last is not None and last.looked is not None:
        told |= _facts_of_disks(last, status)
    if last is not None and last.catalogue is not None:
        told["catalogue"] = _catalogue(last, status.now, long=long)
    if status.consoles is not None:
        told["consoles"] = consoles.fact(status.consoles, status.now)
    told["probes"] = "unknown" if status.probes is None else _probes(status.probes, status.now)
    if long and last is not None:
        counted = ", ".join(f"{last.totals.passes.get(grade, 0)} {grade.value}" for grade in Grade)
        told["so far"] = counted + (f"; {last.busy} skipped, since another pass was running" if last.busy else "")
        told["sources"] = _sources(last)
    if long:
        written = (f"{path.name} {ago(at, status.now)}" for path, at in status.written.items())
        told["files"] = ", ".join(written) or NONE
    return told


def _passes(last: LastPass, now: datetime) -> str:
    how = {Grade.GOOD: "good", Grade.PARTIAL: "partial", Grade.FAILED: "FAILED"}[last.grade]
    took = f", {sum(last.phases.values()):.1f} s" if last.phases else ""
    good = "never" if last.last_good is None else ago(last.last_good, now)
    return f"last {ago(last.ended, now)}: {how}{took}; last good {good}"


def _mode(status: Status) -> dict[str, str]:
    last, told = status.last, dict[str, str]()
    observe = status.observe if last is None else not last.enforcing
    told["mode"] = "enforce"
    if observe:
        told["mode"] = f"observe: {f'no limit is written until {_ENFORCE}' if status.observe else _LAST_OBSERVED}"
    if status.paused is not None:
        told["pause"] = f"nothing is written: {reason_words(status.paused)}"
    return told


_ENFORCE = "mode = enforce in the settings"
_LAST_OBSERVED = "the last pass wrote no limit; the settings have mode enforce"


def _facts_of_disks(last: LastPass, status: Status) -> dict[str, str]:
    told = {"disks": _disks(last.disks)}
    if last.looked is not None and last.looked < last.started:
        told["disks"] += f"; observed {ago(last.looked, status.now)}"
    told["guests"] = f"{last.guests} reachable" + (
        f", {len(last.running_unreachable)} unreachable" if last.running_unreachable else ""
    )
    told["limits"] = _limits(last)
    if last.braked_disks:
        revision = printable(last.braked or "")[:16]
        how = f": revision {revision} {status.approved}" if status.approved else f" until plimsoll approve {revision}"
        told["brake"] = f"{plural(last.braked_disks, 'disk')} deferred{how}"
    if last.holds:
        told["holds"] = f"{last.holds} (plimsoll disk hold list)"
    if acknowledged := sum(disk.acknowledged is not None for disk in last.disks):
        told["acknowledged"] = f"{acknowledged} unknown (plimsoll disk acknowledge list)"
    clusters = sorted({disk.cluster for disk in last.disks if disk.cluster})
    if clusters:
        told["cluster"] = "; ".join(_cluster(cluster, last.disks) for cluster in clusters)
    return told


def _cluster(cluster: str, disks: Sequence[LastDisk]) -> str:
    """Its health is asked for only where a limit is to be raised or removed."""
    gated = [disk for disk in disks if disk.cluster == cluster and disk.gated]
    why = f"{plural(len(gated), 'disk')} {reason_words(gated[0].reason)}" if gated else "no change deferred"
    return why if printable(cluster) in why else f"{printable(cluster)}: {why}"


def _sources(last: LastPass) -> str:
    down = [printable(name) for name, is_up in last.sources.items() if not is_up]
    up = [printable(name) for name, is_up in last.sources.items() if is_up]
    told = [f"DOWN: {', '.join(down)}"] if down else []
    return "; ".join(told + ([f"up: {', '.join(up)}"] if up else []))


def _catalogue(last: LastPass, now: datetime, *, long: bool) -> str:
    catalogue, calls = last.catalogue, last.calls
    if catalogue is None or catalogue.issued is None:
        return "none usable"
    stale = "stale: " if (now - catalogue.issued).total_seconds() > catalogue.stale_after else ""
    asked = f"; {plural(calls.good, 'refresh', 'refreshes')}, {calls.failed} failed" if long else ""
    return f"{stale}from {printable(catalogue.source)}, {ago(catalogue.issued, now)}{asked}"


def _disks(disks: Sequence[LastDisk]) -> str:
    return f"{len(disks)}: {_counted(disks)}" if disks else "none"


def _counted(disks: Sequence[LastDisk]) -> str:
    """``239 in sync, 1 unknown``: each disk once, as in plan."""
    return states_words(Counter(disk.state for disk in disks))


def _limits(last: LastPass) -> str:
    told = [f"{sum(disk.astray for disk in last.disks)} unlimited where a limit is desired"]
    if last.interval is not None:
        at_limit = sum(disk.at_limit for disk in last.disks)
        told.append(f"{at_limit} at limit in the last {_duration(last.interval)}")
    orphaned = sum(disk.orphaned for disk in last.disks)
    if orphaned:
        told.append(f"{orphaned} orphaned (plimsoll plan)")
    reverted = sum(last.totals.corrected.values())
    if reverted:
        told.append(f"{plural(reverted, 'external change')} reverted so far")
    return "; ".join(told)


def _duration(seconds: float) -> str:
    return durations.words(timedelta(seconds=seconds))


def _probes(probes: Probes, now: datetime) -> str:
    """By the last ``probe run``; the rules may have changed since."""
    guests = plural(len({target.guest_uuid for target in probes.chosen}), "guest")
    seen = max((each.seen for each in probes.chosen), default=None)
    never = "no guest to be probed, or no probe run --due yet (plimsoll probe timetable)"
    told = [never if seen is None else f"{guests} to be probed as of {ago(seen, now)}"]
    late = next((figure.value for figure in probes.figures if figure.name == "probe_late"), None)
    told += [f"{late:.0f} overdue"] if late else []
    told += [f"{len(probes.postponed)} postponed"] if probes.postponed else []
    verdicts = probes.verdicts
    named = ", ".join(f"{verdicts[each]} {each.value}" for each in Verdict if verdicts[each])
    newest = max((each.ended for each in probes.results), default=None)
    told += ["no result yet"] if newest is None else [f"newest: {named} ({ago(newest, now)})"]
    return "; ".join(told)


def type_table(last: LastPass) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """A row for each volume type, and a column for each state that any disk is in."""
    types = _by_type(last.disks)
    kinds = [kind for kind in Kind if any(disk.kind is kind for disk in last.disks)]
    columns = ["type", "disks", *(kind.value.replace("-", "_") for kind in kinds), "unlimited"]
    rated = last.interval is not None
    columns += ["at_limit", "iops", "bytes/s"] if rated else []
    rows = []
    for name, disks in types.items():
        row = [printable(name) or NONE, len(disks), *(sum(disk.kind is kind for disk in disks) for kind in kinds)]
        row.append(sum(disk.astray for disk in disks))
        if rated:
            rates = [disk.rates for disk in disks if disk.rates is not None]
            done = sum(each.read_iops + each.write_iops for each in rates)
            moved = sum(each.read_bytes + each.write_bytes for each in rates)
            at_limit = sum(disk.at_limit for disk in disks)
            row += [at_limit, f"{done:.0f}", short_size(round(moved))] if rates else [NONE] * 3
        rows.append(tuple(map(str, row)))
    return tuple(columns), rows


def _by_type(disks: Sequence[LastDisk]) -> dict[str, list[LastDisk]]:
    types: dict[str, list[LastDisk]] = {name: [] for name in sorted({disk.volume_type or "" for disk in disks})}
    for disk in disks:
        types[disk.volume_type or ""].append(disk)
    return types


# --- as data


def data(status: Status) -> dict[str, object]:
    """Keys are stable; times are in UTC, durations in seconds, and unknown is null."""
    last = status.last
    return {
        "version": FORMAT_VERSION,
        "level": status.level.name.lower(),
        "complaints": [each.text for each in status.trouble],
        "problems": [_problem_data(told) for told in status.problems()],
        "findings": [_finding_data(finding) for finding in status.judgement.findings],
        "pass": None if last is None else _pass_data(last),
        "sources": None if last is None else dict(last.sources),
        "catalogue": None if last is None or last.catalogue is None else _catalogue_data(last),
        "guests": None if last is None or last.looked is None else _guests_data(last),
        "disks": None if last is None or last.looked is None else _disks_data(last),
        "paused": None if status.paused is None else status.paused.as_record(),
        "braked": None
        if last is None or last.braked is None
        else {"revision": last.braked, "disks": last.braked_disks},
        "holds": None if last is None or last.looked is None else last.holds,
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


def _problem_data(told: Told) -> dict[str, object]:
    problem = told.problem
    return {
        "level": told.level.name.lower(),
        "figure": told.figure or None,
        "text": problem.text,
        "next": problem.do or None,
        "since": problem.since and time_data(problem.since),
        "reason": None if problem.reason is None else problem.reason.as_record(),
        "names": list(problem.names),
    }


def _finding_data(finding: Finding) -> dict[str, object]:
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
    issued = None if catalogue is None else catalogue.issued
    return {
        "issued": issued and time_data(issued),
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
        "by_type": [
            {"volume_type": name or None} | _sums(disks, last) for name, disks in _by_type(last.disks).items()
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
