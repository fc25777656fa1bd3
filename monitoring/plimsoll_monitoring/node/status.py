"""The state of this node, from the files of passes and probes."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from pathlib import Path

from plimsoll_agent.consoles.model import Consoles
from plimsoll_agent.model.reason import Code, Reason, because
from plimsoll_agent.monitor.daemon_status import DaemonStatus
from plimsoll_agent.monitor.next_command import NodeSetup
from plimsoll_agent.monitor.pass_summary import PAUSED, LastDisk, LastPass
from plimsoll_agent.monitor.thresholds import Level, Thresholds
from plimsoll_agent.reconcile.outcome import Kind
from plimsoll_agent.store.state import Given
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import printable
from plimsoll_monitoring.node.figures import counts, figures_of_probes
from plimsoll_monitoring.node.health import (
    OF_DISKS,
    Figure,
    JudgedFigure,
    Judgement,
    Problem,
    figures_of_daemon,
    figures_of_pass,
    judge,
    paused_disks,
    paused_figure,
    problems_of_disks,
    since_words,
    words,
)
from plimsoll_probes.model.finding import Verdict
from plimsoll_probes.model.result import Postponed, ProbeResult
from plimsoll_probes.schedule.targets import ChosenTarget
from plimsoll_probes.store.history import History

NONE = "-"


@frozen(kw_only=True)
class Probes:
    """The probes of this node; ``results`` are the newest of each guest, directory and job that still count."""

    chosen: Sequence[ChosenTarget]
    results: Sequence[ProbeResult]
    postponed: Sequence[Postponed]
    """Those that have not started since."""
    figures: Sequence[Figure]

    @classmethod
    def of(
        cls,
        history: History,
        now: datetime,
        setup: NodeSetup | None = None,
        last: LastPass | None = None,
        boot: datetime | None = None,
    ) -> Probes:
        """Raises ``StateError``."""
        targets, latest, postponements = history.chosen_targets(), history.latest(), history.postponed()
        starts = history.last_begun(now)
        return cls(
            chosen=targets,
            results=[each for each in latest if counts(each, targets, now)],
            postponed=[each for each in postponements if _is_postponed(each, targets, starts)],
            figures=figures_of_probes(latest, starts, postponements, targets, now, history.streak, setup, last, boot),
        )

    @property
    def verdicts(self) -> Counter[Verdict]:
        return Counter(each.finding.verdict for each in self.results)


def _is_postponed(
    postponement: Postponed, targets: Sequence[ChosenTarget], starts: Mapping[tuple[str, str], datetime]
) -> bool:
    key = postponement.guest_uuid, postponement.directory
    return any(target.key == key for target in targets) and (key not in starts or starts[key] < postponement.at)


@frozen
class ListedProblem:
    """A problem as it is told: with its level, and the figure that it belongs to ("" for a file)."""

    level: Level
    figure: str
    problem: Problem


@frozen(kw_only=True)
class NodeStatus:
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
    no_room: JudgedFigure | None = None
    consoles: Consoles | None = None
    """None where they are not read."""
    daemon: DaemonStatus | None = None
    """None where it does not run, or has ended by itself, or its file cannot be read."""
    daemon_is_absent: bool = False
    """Its unit is enabled, and there is nothing of it: it was stopped, or never came as far as to write its state."""

    @property
    def judgement(self) -> Judgement:
        figures = () if "pass" in self.complaints else figures_of_pass(self.last, self.now, self.setup, self.approved)
        figures = tuple(each for each in figures if each.name != "paused")
        daemon = figures_of_daemon(self.daemon, self.now, self.setup)
        since = None if self.last is None or self.last.paused is None else self.last.wrong_since.get(PAUSED)
        pause = paused_figure(self.paused, since, self.now, self.setup, paused_disks(self.last))
        probes = () if self.probes is None else self.probes.figures
        return judge((pause, *figures, *daemon, *probes), self.thresholds)

    @property
    def approved(self) -> str:
        """``approved by root 16:14 UTC; the next pass applies it``: what the brake of the last pass deferred."""
        revision = self.last.braked if self.last is not None else None
        approvals = [each for each in self.approvals if revision and each.approval.covers(revision, removal=False)]
        if not approvals:
            return ""
        best = max(approvals, key=lambda each: each.approval.remove)
        text = f"approved by {printable(best.by)} {since_words(best.at, self.now)}"
        text += "" if best.approval.remove else ", without removals"
        which = "next pass"
        if self.observe:
            which = "first pass in mode enforce"
        elif self.paused is not None:
            which = "first pass after the pause"
        return f"{text}; the {which} applies it"

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

    def problems(self) -> Iterator[ListedProblem]:
        """What is wrong, the worst first. What two figures tell of the same disks is told once, with its cause."""
        entries = [ListedProblem(Level.UNKNOWN, "", each) for each in self.trouble]
        texts: set[str] = set()
        disks: set[str] = set()
        wrong = self.judgement.wrong
        disks_of = {each.measure.name: self._disks_of(each.measure.name) for each in wrong}
        for finding in wrong:
            name = finding.measure.name
            effects = [
                each.level
                for each in wrong
                if name in {self._cause(each.measure.name, disk) for disk in disks_of[each.measure.name]}
            ]
            own = [disk for disk in disks_of[name] if self._cause(name, disk) not in disks_of]
            for problem in self._problems_of(finding, own, disks):
                if problem.text not in texts:
                    entries.append(ListedProblem(max([finding.level, *effects]), name, problem))
                texts.add(problem.text)
        alone = (entry for entry in entries if not _follows(entry, entries))
        yield from sorted(alone, key=lambda entry: (-entry.level, entry.figure == "good_pass_age"))

    def _disks_of(self, figure: str) -> Sequence[LastDisk]:
        if self.last is None or figure not in OF_DISKS:
            return ()
        return [disk for disk in self.last.disks if OF_DISKS[figure](disk)]

    def _cause(self, figure: str, disk: LastDisk) -> str:
        """The figure that tells why this disk is wrong, if that is another."""
        unreachable = () if self.last is None else self.last.running_unreachable
        if figure == "unknown" and any(disk.named.guest_uuid == each.guest.uuid for each in unreachable):
            return "unreachable_guests"
        causes = {Code.BRAKED: "braked", Code.LARGE_CHANGE: "braked", Code.PAUSED: "paused"}
        return causes.get(disk.reason.code, "") if figure == "behind" and disk.kind is Kind.DEFERRED else ""

    def _problems_of(self, finding: JudgedFigure, own: Sequence[LastDisk], keys: set[str]) -> Sequence[Problem]:
        """``keys``: those of disks that were told before; others are added."""
        name = finding.measure.name
        if self.last is None or name not in OF_DISKS:
            return finding.figure.problems or (Problem(text=words(finding)),)
        disks = [disk for disk in own if disk.named.key not in keys]
        keys |= {disk.named.key for disk in disks}
        return problems_of_disks(name, disks, self.now, self.setup)


def _follows(entry: ListedProblem, entries: Sequence[ListedProblem]) -> bool:
    """Whether it is that there was no good pass, and a problem that is as bad has the same next command."""
    others = [other for other in entries if other.figure != "good_pass_age"]
    return entry.figure == "good_pass_age" and any(
        entry.problem.do == other.problem.do and entry.level <= other.level for other in others
    )


def _complaint(name: str, text: str, setup: NodeSetup) -> Problem:
    no_access = setup.sudo and os.strerror(errno.EACCES) in text
    do = setup.plimsoll("status") if no_access else setup.plimsoll("state", "check")
    return Problem(text=text, do=do, reason=because(Code.NOT_READ, source=name, detail=text))


# --- as text


def by_type(disks: Sequence[LastDisk]) -> dict[str, list[LastDisk]]:
    types: dict[str, list[LastDisk]] = {name: [] for name in sorted({disk.volume_type or "" for disk in disks})}
    for disk in disks:
        types[disk.volume_type or ""].append(disk)
    return types
