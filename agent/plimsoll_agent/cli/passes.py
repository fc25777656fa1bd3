"""``plimsoll plan`` and ``plimsoll enforce``: the same pass, once without and once with hands."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from plimsoll_agent import report, views
from plimsoll_agent.adapters.refresher import refresh
from plimsoll_agent.approvals import Approval
from plimsoll_agent.cli.base import NodeCommand, add_limits, given_approval, given_limits
from plimsoll_agent.cli.publishing import Publisher, counters_clock
from plimsoll_agent.cli.standing import run, standing, state_of
from plimsoll_agent.config import Settings
from plimsoll_agent.errors import PlimsollError, UsageError
from plimsoll_agent.limits import Limits
from plimsoll_agent.outcome import Kind, Outcome, PassReport, Scope
from plimsoll_agent.passes import Mode, tell_sightings
from plimsoll_agent.reason import Unknown
from plimsoll_agent.state import Busy, State, StateError

LOG = logging.getLogger(__name__)


class _Pass(NodeCommand):
    """What plan and enforce share."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--guest",
            metavar="GUEST",
            action="append",
            default=[],
            help="only this guest, by libvirt's name or uuid; may be given more than once",
        )
        parser.add_argument("-f", "--format", choices=("text", "json"), default="text", help="default: text")
        add_limits(parser)
        return parser

    def do(
        self,
        parsed_args: argparse.Namespace,
        settings: Settings,
        by_hand: Limits | None,
        mode: Mode,
        *,
        sure: bool = False,
        approvals: tuple[Approval, ...] = (),
        refresh: bool = False,
    ) -> _Ended:
        state = state_of(settings)
        if mode is not Mode.PLAN:
            state.prepare()
        text = parsed_args.format == "text"
        scope = Scope(frozenset(parsed_args.guest))
        seen_by_others = scope.everything and mode is not Mode.PLAN
        with nullcontext() if mode is Mode.PLAN else _held(state):
            complete = self._refresh(settings) if refresh else True
            publisher = Publisher(settings, state, mode) if seen_by_others else None
            with _telling(publisher, "rules"):
                look_only = mode is Mode.PLAN
                stand = standing(settings, by_hand, look_only=look_only, sure=sure, approvals=approvals)
            with _telling(publisher, "libvirt"), self.libvirt(settings) as hypervisor:
                passed = run(
                    settings,
                    hypervisor,
                    stand,
                    scope=scope,
                    mode=mode,
                    clock=counters_clock(settings) if seen_by_others else None,
                    tell=self._tell if text else lambda _: None,
                )
            if publisher is not None:
                complete = publisher.passed(passed, stand.complaint) and complete
        if text:
            for line in report.closing_lines(passed, planned=mode is not Mode.ENFORCE):
                self.say(line)
        else:
            self.say(json.dumps(views.report_data(passed), indent=2))
        if stand.complaint:
            self.app.stderr.write(f"{stand.complaint}\n")
        return _Ended(passed, mode, sound=stand.complaint is None and not self.unheard, complete=complete)

    def _refresh(self, settings: Settings) -> bool:
        """Let the catalogue be fetched anew, for what is attached now; False, and said, where it stays as it was."""
        stand = standing(settings, look_only=True)
        try:
            with self.libvirt(settings) as hypervisor:
                tell_sightings(stand.situation, hypervisor, stand.ledger, stand.caution, settings.bounds.at_once)
            said = refresh(self.app.settings_options, settings.catalogue.directory, settings.catalogue.deadline)
        except PlimsollError as error:
            LOG.error("%s", error)
            return False
        LOG.info("%s", said)
        return True

    def _tell(self, outcome: Outcome) -> None:
        line = report.outcome_line(outcome)
        if line is not None:
            self.say(line)


@contextmanager
def _held(state: State) -> Iterator[None]:
    """The node's lock; that another pass has it is counted. Raises ``Busy``, ``StateError``."""
    try:
        with state.locked():
            yield
    except Busy:
        state.note_busy()
        raise


@contextmanager
def _telling(publisher: Publisher | None, source: str) -> Iterator[None]:
    """What keeps a pass from being one is told to those who watch; ``source`` is whose fault it is."""
    try:
        yield
    except PlimsollError as error:
        if publisher is not None:
            publisher.failed(error, "record" if isinstance(error, StateError) else source)
        raise


class _Ended:
    """How a pass ended, as an exit status."""

    def __init__(self, passed: PassReport, mode: Mode, *, sound: bool, complete: bool) -> None:
        self._passed = passed
        self._sound = sound
        self._complete = complete
        self._waiting = passed.count(Kind.WAITS) if mode is Mode.ENFORCE else 0
        self._braked = passed.braked is not None

    def of_plan(self) -> int:
        """0 nothing to change, 2 changes, 4 the brake would defer some, 1 trouble."""
        if self._passed.failures or not self._sound or isinstance(self._passed.situation.catalogue, Unknown):
            return 1
        if self._braked:
            return 4
        return 2 if self._passed.count(Kind.PLANNED, Kind.WAITS) else 0

    def of_enforce(self) -> int:
        """0 done, 4 the brake deferred some, 3 some is deferred or failed, 1 all of it failed, or older rules."""
        if not self._sound:
            return 1
        if self._braked:
            return 4
        if self._passed.failures and not self._passed.count(Kind.CHANGED, Kind.RIGHT, Kind.PLANNED, Kind.WAITS):
            return 1
        undone = self._passed.failures or self._waiting or self._passed.notes or self._passed.doubts
        return 3 if undone or not self._complete else 0


class Plan(_Pass):
    """Say what a pass would change, and change nothing.

    Where the brake would defer changes, it says which edit is behind them, and what to approve.

    Exit status: 0 nothing to change, 2 changes, 4 changes that the brake would defer, 1 trouble, 64 usage.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        by_hand = given_limits(parsed_args)
        return self.do(parsed_args, self.settings(parsed_args), by_hand, Mode.PLAN).of_plan()


class Enforce(_Pass):
    """Put the wanted limits in force on every RBD disk of this node.

    Nothing is written while the mode is observe, which is what is shipped: set ``mode = enforce`` in the
    settings, or say ``--mode enforce``. Limits that are given here are a decision too, and need neither.

    Where too many disks would be cut to less than half, raised or released, or a single one cut to a tenth or
    released, because rules, QoS specs or types were edited, these changes wait for plimsoll approve; limits that are
    given here pass the same brake.

    Exit status: 0 done; 3 some changes are deferred or failed, or what is desired is not well known; 4 changes wait
    for plimsoll approve; 1 all failed, or the rules cannot be read; 64 usage; 75 another pass runs.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--dry-run", action="store_true", help="say what would be changed, and change nothing")
        parser.add_argument(
            "--yes",
            action="store_true",
            help="for a person at a terminal: change many disks at once without plimsoll approve, and put back what"
            " is changed from outside again and again",
        )
        parser.add_argument(
            "--approve",
            metavar="DIGEST",
            action="append",
            default=[],
            help="let through in this pass what the digest stands for, as plimsoll plan prints it: a revision, or the"
            " change of one disk; may be given more than once",
        )
        parser.add_argument("--remove", action="store_true", help="what --approve lets through may remove limits")
        parser.add_argument("--mode", choices=("observe", "enforce"), help="instead of the mode in the settings")
        parser.add_argument(
            "--refresh",
            action="store_true",
            help="first let plimsoll catalogue refresh ask Cinder, or read the region's file, as its own user; where"
            " it fails, the pass goes on with what was said last, and ends with status 3",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        by_hand = given_limits(parsed_args)
        settings = self.settings(parsed_args)
        mode = _mode(parsed_args, settings, by_hand)
        if parsed_args.refresh and mode is Mode.PLAN:
            raise UsageError("--refresh keeps what Cinder says, a dry run nothing; see: plimsoll catalogue diff")
        if parsed_args.refresh and settings.catalogue.source == "none":
            raise UsageError("--refresh has nobody to ask: [catalogue] source is none")
        if parsed_args.yes and not self.app.stdin.isatty():
            raise UsageError("--yes is for a person at a terminal; in a script: --approve DIGEST, see plimsoll plan")
        approvals = tuple(given_approval("--approve", typed, parsed_args.remove) for typed in parsed_args.approve)
        ended = self.do(
            parsed_args,
            settings,
            by_hand,
            mode,
            sure=parsed_args.yes,
            approvals=approvals,
            refresh=parsed_args.refresh,
        )
        if mode is not Mode.ENFORCE and parsed_args.format == "text":
            why = "This was a dry run" if mode is Mode.PLAN else "The mode is observe (--mode enforce is the other)"
            self.say(f"{why}: nothing was changed.")
        return ended.of_enforce()


def _mode(parsed_args: argparse.Namespace, settings: Settings, by_hand: Limits | None) -> Mode:
    if parsed_args.dry_run:
        return Mode.PLAN
    if parsed_args.mode:
        return Mode(parsed_args.mode)
    if by_hand is not None and not settings.mode_chosen:
        return Mode.ENFORCE
    return Mode(settings.mode)
