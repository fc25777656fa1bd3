"""``plimsoll plan`` and ``plimsoll enforce``: the same pass, without and with writes."""

from __future__ import annotations

import argparse
import functools
import logging
import shlex
from collections.abc import Callable
from datetime import UTC, datetime

from plimsoll_agent.adapters.refresher import refresh
from plimsoll_agent.app.context import PATIENCE, Asked, pass_context, run
from plimsoll_agent.app.guest_pass import pass_over
from plimsoll_agent.app.impacts import impacts_of
from plimsoll_agent.app.node import state_of
from plimsoll_agent.app.node_pass import pass_over_node
from plimsoll_agent.cli import server_names
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.errors import PlimsollError, UsageError
from plimsoll_agent.messages import serialize
from plimsoll_agent.messages.disk_lines import Manner, outcome_line
from plimsoll_agent.messages.impacts import missing_words
from plimsoll_agent.messages.lines import REMEDY, TextLine
from plimsoll_agent.messages.plan import closing_lines, plan_lines, told_at_once
from plimsoll_agent.messages.sums import incomplete_words
from plimsoll_agent.model.limits import PARAMETERS, Limits
from plimsoll_agent.monitor import daemon_status
from plimsoll_agent.reconcile.grade import exit_status
from plimsoll_agent.reconcile.observe import guests_of
from plimsoll_agent.reconcile.outcome import Mode, Outcome, PassReport, Scope
from plimsoll_agent.reconcile.run import save_attachments
from plimsoll_agent.terminal.base import add_guests, add_limits, given_approval, given_limits, option_of
from plimsoll_agent.terminal.telling import TellsDisks
from plimsoll_agent.util.distribution import version
from plimsoll_agent.util.frozen import replace
from plimsoll_agent.util.text import minute, printable

LOG = logging.getLogger(__name__)


class _Pass(TellsDisks):
    """What ``plan`` and ``enforce`` share."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_guests(parser)
        add_limits(parser)
        return parser

    def do(
        self,
        parsed_args: argparse.Namespace,
        settings: Settings,
        request: Asked,
        mode: Mode,
        *,
        refresh: bool = False,
    ) -> int:
        """Run a pass and print its result; returns the exit status."""
        text = parsed_args.format == "text"
        # Of a plan, a pipe gets a line a disk; a pass from the timer does not fill the journal with lines alike.
        every = parsed_args.all or (mode is Mode.PLAN and self.terminal.width is None)
        self._manner = Manner(
            exact=self.wants_exact(parsed_args),
            every=every,
            region=settings.catalogue.source == "region-file",
            by_hand="" if request.limits is None else _command(parsed_args),
        )
        scope = self._scope(parsed_args, settings, mode)
        tell = self._tell if text and mode is Mode.ENFORCE else lambda _: None
        with self.telling():
            if mode is Mode.PLAN:
                report, complete = self._planned(settings, request, scope), True
                changes = {o.disk.key: (o.change.before, o.change.after) for o in report.outcomes if o.change}
                missing = missing_words(settings.metrics.textfile_dir is not None)
                self._manner = replace(self._manner, impacts=impacts_of(state_of(settings), changes), missing=missing)
            else:
                report, complete = self._run(settings, request, scope, mode, tell, refresh=refresh)
        if text:
            lines_of = closing_lines if mode is Mode.ENFORCE else plan_lines
            self.tell(lines_of(report, self._manner), every=every, remedy=REMEDY)
        else:
            self.say_data(serialize.report_data(report, self._manner.impacts), parsed_args.format)
        if report.complaint:
            self.warn_of(report.complaint)
        status = exit_status(report) or (0 if complete else 3)
        if text and status == 3 and mode is not Mode.PLAN:
            self.tell([TextLine(incomplete_words(report, complete))])
        return 1 if self.stdout_gone else status

    def _scope(self, parsed_args: argparse.Namespace, settings: Settings, mode: Mode) -> Scope:
        """The guests that were named. Asks before it writes to one that is named by its server's name."""
        if not parsed_args.guest:
            return Scope()
        with self.libvirt(settings) as hypervisor:
            servers = server_names.here(hypervisor, parsed_args.guest)
        for server in servers if mode is Mode.ENFORCE else ():
            if not self.app.stdin.isatty() or parsed_args.format != "text":
                raise UsageError(f"{server}: to write its limits, give --guest {printable(server.guest_name)}")
            server.ask(self)
        return Scope(server_names.words_for(parsed_args.guest, servers))

    def _planned(self, settings: Settings, request: Asked, scope: Scope) -> PassReport:
        context = pass_context(settings, request, read_only=True, without_rules=True)
        with self.libvirt(settings) as hypervisor:
            return run(settings, hypervisor, context, scope=scope, mode=Mode.PLAN)

    def _run(
        self,
        settings: Settings,
        request: Asked,
        scope: Scope,
        mode: Mode,
        tell: Callable[[Outcome], None],
        *,
        refresh: bool,
    ) -> tuple[PassReport, bool]:
        """The pass, and whether the refresh before it succeeded, if there was one."""

        def first() -> bool:
            return self._refresh(settings) if refresh else True

        if scope.everything:
            libvirt = functools.partial(self.libvirt, settings)
            return pass_over_node(settings, libvirt, mode=mode, request=request, first=first, tell=tell)
        complete = first()
        with self.libvirt(settings) as hypervisor:
            uuids = {guest.uuid for guest in guests_of(hypervisor, scope)}
            report = pass_over(settings, hypervisor, uuids, mode=mode, request=request, patience=PATIENCE, tell=tell)
        return report, complete

    def _refresh(self, settings: Settings) -> bool:
        """Refresh the catalogue for what is attached now; False, with an error logged, if that failed."""
        state_of(settings).prepare()
        context = pass_context(settings, read_only=True)
        try:
            with self.libvirt(settings) as hypervisor:
                save_attachments(
                    context.situation, hypervisor, context.node_store, context.caution, settings.bounds.at_once
                )
            message = refresh(self.app.settings_options, settings.catalogue.directory, settings.catalogue.deadline)
        except PlimsollError as error:
            LOG.error("%s", error)
            return False
        LOG.info("%s", message)
        return True

    def _tell(self, outcome: Outcome) -> None:
        line = outcome_line(outcome, self._manner) if told_at_once(outcome) else None
        if line is not None:
            self.tell_one(line, every=self._manner.every)


class Plan(_Pass):
    """Show what a pass would change; change nothing.

    If the brake would defer changes, plan shows the edit behind them and the command that approves it.

    Exit status:
        0   nothing to change
        2   changes
        3   no change but a disk is unknown
        4   the brake defers changes
        1   error
        64  usage

    Examples:
        plimsoll plan
        plimsoll plan --guest instance-00000412 -v
        plimsoll plan --total-iops-sec 250 --total-bytes-sec 100MiB
    """

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        request = Asked(given_limits(parsed_args))
        return self.do(parsed_args, self.settings(parsed_args), request, Mode.PLAN)


class Enforce(_Pass):
    """Apply the desired limits to every RBD disk of this node.

    Nothing is written in mode observe, the default: set mode = enforce in the settings, or give --mode enforce.
    Limits given on the command line are written too, unless the settings have mode = observe.

    The brake defers large changes after an edit of rules, QoS specs or volume types, until plimsoll approve: when too
    many disks would be cut to less than half, raised, or lose their limits, or when one disk would be cut to a tenth
    or lose its limits. Limits given on the command line pass the same brake.

    Exit status:
        0   no change failed or deferred
        3   some failed, deferred or unknown
        4   the brake deferred changes
        1   none changed, none after the first, or the rules cannot be read
        64  usage
        75  another pass is running, with --guest over that guest

    With --dry-run as plimsoll plan.

    Examples:
        plimsoll enforce --dry-run
        plimsoll enforce --mode enforce
        plimsoll enforce --guest instance-00000412 --total-iops-sec 250
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--dry-run", action="store_true", help="show what would be changed; change nothing")
        parser.add_argument(
            "--yes",
            action="store_true",
            help="for an operator at a terminal: skip the brake, and revert external changes however often they"
            " recur",
        )
        parser.add_argument(
            "--approve",
            metavar="DIGEST",
            action="append",
            default=[],
            help="approve for this pass a revision, or one disk's change, by the digest that plimsoll plan prints;"
            " repeatable",
        )
        parser.add_argument("--remove", action="store_true", help="--approve also allows limits to be removed")
        parser.add_argument(
            "--mode", choices=("observe", "enforce"), help="use this mode instead of the one in the settings"
        )
        parser.add_argument(
            "--refresh",
            action="store_true",
            help="run plimsoll catalogue refresh first; if it fails, the pass uses the last catalogue and ends with"
            " status 3",
        )
        parser.add_argument(
            "--unless-daemon",
            action="store_true",
            help="do nothing while plimsoll daemon of this version and in this mode runs on this node and its passes"
            " over the whole node succeed",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        by_hand = given_limits(parsed_args)
        settings = self.settings(parsed_args)
        if parsed_args.unless_daemon and self._daemon_enforces(settings, parsed_args.mode or settings.mode):
            return 0
        mode = _mode(parsed_args, settings, by_hand)
        if parsed_args.refresh and mode is Mode.PLAN:
            raise UsageError(
                "--refresh does not go with a dry run; to see what it would change: plimsoll catalogue diff"
            )
        if parsed_args.refresh and settings.catalogue.source == "none":
            raise UsageError("--refresh: there is no catalogue to refresh ([catalogue] source is none)")
        if parsed_args.yes and not self.app.stdin.isatty():
            raise UsageError(
                "--yes needs a terminal; in a script use --approve DIGEST (plimsoll plan prints the digest)"
            )
        approvals = tuple(given_approval("--approve", digest, parsed_args.remove) for digest in parsed_args.approve)
        request = Asked(by_hand, approvals, sure=parsed_args.yes)
        status = self.do(parsed_args, settings, request, mode, refresh=parsed_args.refresh)
        if mode is not Mode.ENFORCE and parsed_args.format == "text":
            why = "Dry run" if mode is Mode.PLAN else "Mode is observe (--mode enforce writes)"
            self.say(f"{why}: nothing is written.")
        return status

    def _daemon_enforces(self, settings: Settings, mode: str) -> bool:
        daemon, now = daemon_status.load_or_none(state_of(settings)), datetime.now(UTC)
        if daemon is None or daemon.last_full_pass is None or not daemon.enforces(version(), mode, now):
            return False
        self.say(
            f"No pass: plimsoll daemon runs (pid {daemon.pid}); its last full pass {minute(daemon.last_full_pass)}."
        )
        return True


def _command(parsed_args: argparse.Namespace) -> str:
    """The ``enforce`` command over the same guests with the limits that were given, to be pasted into a shell."""
    options = [("--guest", guest) for guest in parsed_args.guest]
    options += [("--mode", getattr(parsed_args, "mode", None))]
    options += [(option_of(parameter), getattr(parsed_args, parameter.name)) for parameter in PARAMETERS]
    words = [word for option, value in options if value is not None for word in (option, value)]
    return shlex.join(["plimsoll", "enforce", *words])


def _mode(parsed_args: argparse.Namespace, settings: Settings, by_hand: Limits | None) -> Mode:
    if parsed_args.dry_run:
        return Mode.PLAN
    if parsed_args.mode:
        return Mode(parsed_args.mode)
    if by_hand is not None and not settings.mode_chosen:
        return Mode.ENFORCE
    return Mode(settings.mode)
