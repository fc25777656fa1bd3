"""``plimsoll rules test``: the limits of this node under another rules file."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from plimsoll_agent.app.context import PassContext, pass_context, run
from plimsoll_agent.app.impacts import impacts_of
from plimsoll_agent.app.node import state_of
from plimsoll_agent.messages import sentences, serialize
from plimsoll_agent.messages.brake import brake_words
from plimsoll_agent.messages.disk_lines import severity_of, sign_of, turn_words, turns_words
from plimsoll_agent.messages.impacts import impact_lines, impact_words, missing_words, with_impacts
from plimsoll_agent.messages.limits import short_change
from plimsoll_agent.messages.lines import DiskLine, Line, Severity, TextLine, alike
from plimsoll_agent.model.direction import direction
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Unknown
from plimsoll_agent.policy.decide import Desired, NoOpinion, Unmanaged
from plimsoll_agent.policy.diff import change_between
from plimsoll_agent.policy.sources import SOURCES
from plimsoll_agent.reconcile.brake import braked, large_changes
from plimsoll_agent.reconcile.consider import consider
from plimsoll_agent.reconcile.observe import scope_of
from plimsoll_agent.reconcile.outcome import Braked, Mode, Outcome, PassReport
from plimsoll_agent.rules import loader
from plimsoll_agent.terminal.base import NodeCommand, add_guests
from plimsoll_agent.terminal.changes import laid_out
from plimsoll_agent.terminal.columns import GUEST, Column
from plimsoll_agent.terminal.formats import Shown, terminal_for
from plimsoll_agent.terminal.listing import Listing
from plimsoll_agent.terminal.page import write_lines
from plimsoll_agent.util.frozen import frozen, replace
from plimsoll_agent.util.text import plural, printable


@frozen
class _Trial:
    """One disk under the present rules, and under the tested ones."""

    now: Outcome
    then: Outcome

    @property
    def differs(self) -> bool:
        """Whether the limits differ, or why the disk is left alone; the rule does not matter."""
        return _comes_to(self.now) != _comes_to(self.then)

    @property
    def turn(self) -> tuple[Limits, Limits] | None:
        """The limits under either file, if they are known and differ; a disk that is left alone keeps its own."""
        before, after = _limits_of(self.now), _limits_of(self.then)
        return None if before is None or after is None or before == after else (before, after)

    @property
    def words(self) -> str:
        return "" if self.turn is None else turn_words(*self.turn)


_REMEDY = "--wide"
_COLUMNS = (
    Column("server", most=20),
    GUEST,
    Column("disk", most=12),
    Column("volume", long=True),
    Column("pool", drop=1, most=16),
    Column("decided_by", drop=2, most=32),
    Column("desired_now", wraps=True),
    Column("desired_then", wraps=True),
    Column("change"),
    Column("impact", long=True),
    Column("reason", wraps=True, note=True),
)


class RulesTest(NodeCommand, Listing):
    """Show which disks would get other limits from a file.

    Nothing is changed. On a terminal, disks that change alike are one line; --wide lists each. Disks for which FILE
    gives the same limits are listed only with --all.

    Exit status:
        0   no differences
        2   differences
        1   error
        64  usage

    Examples:
        plimsoll rules test new.yaml
        plimsoll rules test new.yaml --guest instance-00000412
        plimsoll rules test new.yaml --all -f json
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("file", metavar="FILE", type=Path, help="the rules file to test")
        add_guests(parser)
        parser.add_argument("--disk", metavar="DISK", help="only this disk, by its target (vda) or volume ID")
        parser.add_argument("--all", action="store_true", help="also list disks whose limits would stay the same")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        settings = self.settings(parsed_args)
        rules = loader.parse(loader.read(parsed_args.file, required=True), str(parsed_args.file))
        context = pass_context(settings, read_only=True, without_rules=True)
        with self.libvirt(settings) as hypervisor:
            scope = scope_of(hypervisor, parsed_args.guest)
            report = run(settings, hypervisor, context, scope=scope, mode=Mode.PLAN)
        situation = replace(context.situation, rules=rules)
        then = [consider(outcome.disk, situation, SOURCES) for outcome in report.outcomes]
        trials = [_Trial(*pair) for pair in zip(report.outcomes, then, strict=True)]
        trials = [trial for trial in trials if parsed_args.disk in (None, *_names(trial))]
        turns = {trial.now.disk.key: trial.turn for trial in trials if trial.turn is not None}
        self._impacts = impacts_of(state_of(settings), turns)
        self._missing = missing_words(settings.metrics.textfile_dir is not None)
        self._report, self._trials = report, trials
        brake, whole = context.caution.brake, scope.everything
        self._braked = braked(large_changes(then, situation, brake), situation, brake, disks=len(then), whole=whole)
        differing = sum(trial.differs for trial in trials)
        if rules.revision == context.situation.rules.revision:
            self.app.stderr.write(
                f"{parsed_args.file} has the same rules as the present rules file; see plimsoll plan\n"
            )
        self._complaint(context, report, differing)
        self._shown = [trial for trial in trials if trial.differs or parsed_args.all]
        return _COLUMNS, [_row(trial, self._impacts) for trial in self._shown]

    def _complaint(self, context: PassContext, report: PassReport, differing: int) -> None:
        for unreachable in report.unreachable:
            self.warn_of(sentences.unreachable_words(unreachable))
        if context.complaint:
            self.warn_of(context.complaint)
        self.status = 1 if context.complaint or report.failures else 2 if differing else 0

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Iterable[Sequence[Any]]
    ) -> int:
        self.empty, self.closing = "", (_sum(self._trials, self._braked),)
        here = terminal_for(self.app.stdout, parsed_args)
        wants_columns = parsed_args.columns or parsed_args.wide or parsed_args.sort_columns
        if parsed_args.formatter == "table" and here.width is not None and not wants_columns:
            disks = with_impacts(((trial.now.disk.key, _line(trial)) for trial in self._shown), self._impacts)
            lines: list[Line] = [
                *alike(disks),
                *impact_lines(self._impacts, missing=self._missing),
                *map(TextLine, self.closing),
            ]
            write_lines(self.app.stdout, laid_out(lines, here, remedy=_REMEDY))
        else:
            super().produce_output(parsed_args, column_names, data)
        if self._braked is not None:
            people = self.app.stdout if parsed_args.formatter == "table" else self.app.stderr
            people.write(f"{self._brake_words(self._braked, some=bool(parsed_args.guest))}\n")
        return 0

    def _brake_words(self, stop: Braked, *, some: bool) -> str:
        """``some``: not all guests of the node were read."""
        outcomes = [each.then for each in self._trials if each.then.disk.key in stop.keys]
        holds = sum(outcome.decision.aside is not None for outcome in outcomes)
        whose = " of these guests" * some + f" ({holds} of them held now)" * bool(holds)
        return (
            f"The brake would defer {brake_words(stop, whose)}. Once they are in use, and if it is meant:"
            f" {sentences.approve_words(stop.revision, bool(stop.removed))}"
        )


def _comes_to(outcome: Outcome) -> object:
    desired = outcome.decision.desired
    return desired.limits if isinstance(desired, Desired) else type(desired)


def _limits_of(outcome: Outcome) -> Limits | None:
    desired, actual = outcome.decision.desired, outcome.disk.actual
    if isinstance(desired, Desired):
        return desired.limits
    return actual if isinstance(actual, Limits) and isinstance(desired, Unmanaged) else None


def _names(trial: _Trial) -> tuple[str | None, ...]:
    return trial.now.disk.target, trial.now.disk.volume_id


def _row(trial: _Trial, impacts: serialize.Impacts) -> tuple[object, ...]:
    disk, now, then = trial.now.disk, trial.now.decision.desired, trial.then.decision.desired
    turn, impact = trial.turn, impacts.get(disk.key)
    return (
        disk.guest.display_name,
        disk.guest.name,
        disk.target,
        Shown(disk.volume_id, disk.volume_id or "(own disk)"),
        disk.pool,
        _decided_by(trial.then),
        Shown(serialize.limits_data(now), sentences.desired_words(now)),
        Shown(serialize.limits_data(then), sentences.desired_words(then)),
        None if turn is None else Shown(direction(*turn).value, trial.words),
        Shown(serialize.impact_data(impact), impact_words(impact)) if disk.key in impacts else None,
        Shown(then.reason.as_record(), sentences.words(then.reason)),
    )


def _line(trial: _Trial) -> DiskLine:
    """As ``plan`` tells a change, but between what is desired now and then."""
    disk, now, then = trial.now.disk, trial.now.decision.desired, trial.then.decision.desired
    names = (printable(disk.guest.name), printable(disk.guest.display_name or ""), printable(disk.target))
    why = sentences.words(then.reason)
    if trial.turn is not None:
        before, after = trial.turn
        reason = f"{turns_words(before, after)}: {why}"
        return DiskLine(
            sign=sign_of(change_between(disk, before, after, then.reason)),
            names=names,
            what=short_change(before, after),
            why=reason,
            severity=severity_of(before, after),
        )
    what = f"{_state(now)} → {_state(then)}" if trial.differs else ""
    if isinstance(then, Unknown):
        return DiskLine(sign="?", names=names, what=what, why=why, severity=Severity.UNKNOWN)
    return DiskLine(sign="=", names=names, what=what, why=why, severity=Severity.FAINT)


def _state(desired: Desired | Unmanaged | Unknown) -> str:
    return "left alone" if isinstance(desired, Unmanaged) else sentences.desired_words(desired)


def _decided_by(outcome: Outcome) -> str:
    """The source that decided; none if no source has an opinion."""
    spoke = [step.asked for step in outcome.decision.trail if not isinstance(step.answer, NoOpinion)]
    return spoke[-1] if spoke else "none"


def _sum(trials: Sequence[_Trial], stop: Braked | None) -> str:
    differing = sum(trial.differs for trial in trials)
    keys = frozenset() if stop is None else stop.keys
    others = [trial for trial in trials if trial.then.disk.key not in keys]
    changes = sum(trial.differs and trial.then.change is not None for trial in others)
    turns = Counter(words.partition(" (")[0] for trial in trials if (words := trial.words))
    kinds = f" ({', '.join(f'{number} to {turn}' for turn, number in turns.most_common())})" if turns else ""
    disks = plural(len(trials), "disk")
    still = sentences.states_words(Counter(t.then.result.kind for t in trials if t.differs and t.then.change is None))
    states = f" ({still})" if still else ""
    return f"{differing} of {disks} would get other limits{kinds}; the next pass would write {changes}{states}"
