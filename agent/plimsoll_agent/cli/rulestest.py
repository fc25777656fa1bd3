"""``plimsoll rules test``: what a rules file would come to on this node, before it is in force."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cliff import lister

from plimsoll_agent import report, rulesfile, views
from plimsoll_agent.brake import braked, graves
from plimsoll_agent.cli.base import NodeCommand
from plimsoll_agent.cli.formats import Shown
from plimsoll_agent.cli.standing import Standing, run, standing
from plimsoll_agent.decide import Silent, Wants
from plimsoll_agent.outcome import Braked, Outcome, PassReport, Scope
from plimsoll_agent.passes import Mode, consider
from plimsoll_agent.sources import SOURCES


@dataclass(frozen=True, slots=True)
class _Trial:
    """One disk under the rules in force, and under those that are tried."""

    now: Outcome
    then: Outcome

    @property
    def differs(self) -> bool:
        """Other limits, or another way of leaving it alone; who says so is of no matter."""
        return _comes_to(self.now) != _comes_to(self.then)


class RulesTest(NodeCommand, lister.Lister):
    """Say which rule of FILE would win for each disk of this node, and what would differ from the rules in force.

    Nothing is changed, and the rules in force stay. Disks for which FILE comes to the same are left out unless
    --all is given.

    Exit status: 0 nothing differs, 2 something does, 1 trouble, 64 usage.
    """

    formatter_namespace = "plimsoll.formatter.list"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("file", metavar="FILE", type=Path, help="the rules to try")
        parser.add_argument("--guest", metavar="GUEST", action="append", default=[], help="only this guest")
        parser.add_argument("--disk", metavar="DISK", help="only this disk, by its target (vda) or volume id")
        parser.add_argument("--all", action="store_true", help="also disks for which nothing would differ")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        settings = self.settings(parsed_args)
        tried = rulesfile.parse(rulesfile.read(parsed_args.file, required=True), str(parsed_args.file))
        stand = standing(settings, look_only=True)
        with self.libvirt(settings) as hypervisor:
            scope = Scope(frozenset(parsed_args.guest))
            passed = run(settings, hypervisor, stand, scope=scope, mode=Mode.PLAN)
        situation = replace(stand.situation, rules=tried)
        then = [consider(outcome.disk, situation, SOURCES) for outcome in passed.outcomes]
        trials = [_Trial(*pair) for pair in zip(passed.outcomes, then, strict=True)]
        trials = [trial for trial in trials if parsed_args.disk in (None, *_names(trial))]
        self._passed, self._trials = passed, trials
        brake, whole = stand.caution.brake, scope.everything
        self._braked = braked(graves(then, situation, brake), situation, brake, disks=len(then), whole=whole)
        differing = sum(trial.differs for trial in trials)
        if tried.edition == stand.situation.rules.edition:
            self.app.stderr.write(f"{parsed_args.file} is in force already: see plimsoll plan\n")
        self._complaint(stand, passed, differing)
        shown = [trial for trial in trials if trial.differs or parsed_args.all]
        return _COLUMNS, [_row(trial) for trial in shown]

    def _complaint(self, stand: Standing, passed: PassReport, differing: int) -> None:
        for overlooked in passed.overlooked:
            self.app.stderr.write(f"{report.overlooked_words(overlooked)}\n")
        if stand.complaint:
            self.app.stderr.write(f"{stand.complaint}\n")
        self.status = 1 if stand.complaint or passed.failures else 2 if differing else 0

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Iterable[Sequence[Any]]
    ) -> int:
        data = list(data)
        if data or parsed_args.formatter != "table":
            super().produce_output(parsed_args, column_names, data)
        if parsed_args.formatter == "table":
            self.app.stdout.write(f"{_sum(self._trials)}\n")
        if self._braked is not None:
            people = self.app.stdout if parsed_args.formatter == "table" else self.app.stderr
            people.write(f"{_brake_words(self._braked, some=bool(parsed_args.guest))}\n")
        return 0


_COLUMNS = ("guest", "disk", "volume", "pool", "decided_by", "wanted_now", "wanted_then", "change", "reason")


def _comes_to(outcome: Outcome) -> object:
    wanted = outcome.decision.wanted
    return wanted.limits if isinstance(wanted, Wants) else type(wanted)


def _names(trial: _Trial) -> tuple[str | None, ...]:
    return trial.now.disk.target, trial.now.disk.volume_id


def _row(trial: _Trial) -> tuple[object, ...]:
    disk, now, then = trial.now.disk, trial.now.decision.wanted, trial.then.decision.wanted
    change = trial.then.change
    return (
        Shown(disk.guest.name, report.printable(disk.guest.name)),
        Shown(disk.target, report.printable(disk.target)),
        Shown(disk.volume_id, disk.volume_id or "(own disk)"),
        Shown(disk.pool, report.printable(disk.pool)),
        Shown(_decided_by(trial.then), report.printable(_decided_by(trial.then))),
        Shown(views.limits_data(now), report.wanted_words(now)),
        Shown(views.limits_data(then), report.wanted_words(then)),
        Shown(None if change is None else change.direction.value, "-" if change is None else change.direction.value),
        Shown(then.reason.as_record(), report.words(then.reason)),
    )


def _decided_by(outcome: Outcome) -> str:
    """Who had the last word; nobody where all were silent."""
    spoke = [step.asked for step in outcome.decision.trail if not isinstance(step.answer, Silent)]
    return spoke[-1] if spoke else "nobody"


def _sum(trials: Sequence[_Trial]) -> str:
    differing = sum(trial.differs for trial in trials)
    changes = sum(trial.differs and trial.then.change is not None for trial in trials)
    return f"{len(trials)} disks: {differing} would be wanted otherwise than now, {changes} of them changed"


def _brake_words(stop: Braked, *, some: bool) -> str:
    """``some``: not all guests of the node were looked at."""
    whose = " of the guests looked at" if some else ""
    return (
        f"The brake would stop {len(stop.keys)} of {stop.of} disks{whose} until: plimsoll approve {stop.edition:.16}"
        " (with these rules in force)"
    )
