"""``plimsoll undo``: restores the limits from before plimsoll's changes since a given time."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path

from plimsoll_agent.app.context import PATIENCE, pass_context
from plimsoll_agent.app.node import now_of, pause_actual, state_of
from plimsoll_agent.cli import server_names
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.errors import PlimsollError, UsageError
from plimsoll_agent.messages.disk_lines import Manner, undone_line
from plimsoll_agent.messages.lines import DiskLine, TextLine, alike
from plimsoll_agent.messages.record import time_words
from plimsoll_agent.messages.sentences import words
from plimsoll_agent.messages.undo import undo_data, undo_lines
from plimsoll_agent.model.disk import DiskName
from plimsoll_agent.model.hypervisor import GuestRef
from plimsoll_agent.monitor import daemon_status
from plimsoll_agent.policy.sources import SOURCES
from plimsoll_agent.reconcile.outcome import Kind, Mode, Scope
from plimsoll_agent.reconcile.undo import Undone, UndoReport, Wish, run_undo
from plimsoll_agent.store import record_query
from plimsoll_agent.store.record import Record
from plimsoll_agent.store.state import State
from plimsoll_agent.terminal.base import YES, add_guests
from plimsoll_agent.terminal.moments import EXAMPLES, moment_of
from plimsoll_agent.terminal.telling import TellsDisks
from plimsoll_agent.util.frozen import replace
from plimsoll_agent.util.locks import ByteLocks
from plimsoll_agent.util.text import plural, second

_BOOTED = "btime "
"""The beginning of the line in ``/proc/stat`` with the time of the boot (proc(5))."""


_OLD = timedelta(days=1)
"""How far back an undo goes without the number of disks."""
_STOP = "systemctl stop plimsoll-daemon.service plimsoll-enforce.timer"


class Paused(PlimsollError):
    """This node is paused: no limit is written, not even for an operator's undo."""


class Undo(TellsDisks):
    """Restore the limits from before plimsoll's changes.

    Those are the changes since MOMENT, or of its last pass.

    plimsoll record lists these changes with their times. A disk is restored only if it is still attached (the same
    volume, not reattached, its guest not restarted), if its limits are the last that plimsoll applied, and if it has
    no hold and no rule with manage: false. The other disks are listed, each with the reason.

    On a terminal it shows the changes and asks; that answer counts as the brake's approval. --yes does not ask. For
    more disks than [brake] allows, or more than a day ago, the number of disks is asked for, in case that the time is
    a mistake; --yes then needs it as --disks. No limit is raised or removed while the disk's Ceph cluster is
    unhealthy. The mode does not matter, but in mode enforce the next pass applies the desired limits again; the
    daemon would do so at once, so undo refuses while it runs in that mode. To keep the restored limits: stop daemon
    and timer, undo, then plimsoll pause or mode = observe, and start them.

    Exit status:
        0   all disks restored, or nothing to do
        3   some disks not restored, or not recorded or remembered
        1   none restored
        64  usage

    Examples:
        plimsoll undo --last --dry-run
        plimsoll undo --since 14:00
        plimsoll undo --since 2h --guest instance-00000412
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("--last", action="store_true", help="undo the last pass that changed limits")
        which.add_argument(
            "--since",
            metavar="MOMENT",
            help=f"undo changes since this time: {EXAMPLES}",
        )
        add_guests(parser)
        parser.add_argument("--dry-run", action="store_true", help="show what would be restored; change nothing")
        parser.add_argument("--yes", action="store_true", help="do not ask")
        parser.add_argument(
            "--disks",
            metavar="NUMBER",
            type=int,
            help="how many disks --dry-run would restore; if it is another number now, nothing is changed",
        )
        parser.add_argument(
            "--ignore-health",
            action="store_true",
            help="raise and remove limits even while the Ceph cluster is unhealthy",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        settings = self.settings(parsed_args)
        self._manner = Manner(exact=self.wants_exact(parsed_args))
        self._every = parsed_args.all or self.terminal.width is None
        now = now_of(state_of(settings))
        record = Record(state_of(settings).record)
        since = self._since(parsed_args, record, now)
        asks = not parsed_args.yes and not parsed_args.dry_run
        if asks and (parsed_args.format != "text" or not self.app.stdin.isatty()):
            raise UsageError("no terminal to ask on; add --yes, or --dry-run to look first")
        _check_recorded(record, since, parsed_args.since)
        wish = Wish(since, self._guests(parsed_args.guest, record, settings))
        self._scope = Scope(wish.guests)
        if parsed_args.dry_run:
            return self._told(self._run(parsed_args, settings, wish, read_only=True), parsed_args, settings)
        _check_writable(settings, now)
        preview = self._run(parsed_args, settings, wish, read_only=True)
        number = preview.count(Kind.PLANNED)
        bound = settings.brake.stops(number, preview.of) or (number > 0 and now - since > _OLD)
        if parsed_args.disks not in (None, number) or (bound and not asks and parsed_args.disks is None):
            raise UsageError(
                f"nothing changed: since {second(since)} limits of {plural(number, 'disk')} would be restored; if"
                f" --dry-run lists the right ones, add --disks {number}"
            )
        if asks:
            self._close(preview, settings, planned=True)
            if not number:
                return preview.exit_status
            if not self._agrees(number, since, bound=bound and parsed_args.disks is None):
                self.say("Nothing changed.")
                return 1
        if asks or bound:
            wish = replace(wish, agreed=preview.agreement)
        return self._told(self._run(parsed_args, settings, wish, read_only=False), parsed_args, settings)

    def _guests(self, words: Sequence[str], record: Record, settings: Settings) -> frozenset[str]:
        """The guests' names and uuids; says which guest a server's name means. A name in the record is a guest's."""
        names = record_query.guest_names(record) if words else ()
        unknown = [word for word in words if word not in names]
        if not unknown:
            return frozenset(words)
        with self.libvirt(settings) as hypervisor:
            servers = server_names.here(hypervisor, unknown)
        for server in servers:
            self.app.stderr.write(f"{server}\n")
        return server_names.words_for(words, servers)

    def _since(self, parsed_args: argparse.Namespace, record: Record, now: datetime) -> datetime:
        """Raises ``UsageError``."""
        if not parsed_args.last:
            since = moment_of("--since", parsed_args.since, now)
            if since > now:
                raise UsageError(f"--since {parsed_args.since} is in the future")
            return since
        last = record_query.last_pass(record)
        if last is None:
            raise UsageError("--last: the record has no pass that changed limits")
        if parsed_args.format == "text":
            self.say(f"The last pass that changed limits began at {second(last)}.")
        return last

    def _agrees(self, number: int, since: datetime, *, bound: bool) -> bool:
        """``bound``: the number of disks must be typed."""
        disks = plural(number, "disk")
        question = f"Restore limits of {disks}? [y/N] "
        if bound:
            question = f"Restore limits of {disks} from before {second(since)}? Type the number of disks: "
        answer = self.answer_to(question)
        return answer == str(number) if bound else answer in YES

    def _run(self, parsed_args: argparse.Namespace, settings: Settings, wish: Wish, *, read_only: bool) -> UndoReport:
        """Raises ``Busy``, and as ``run_undo`` does."""
        state = state_of(settings)
        if not read_only:
            state.prepare()
        with self.telling(), nullcontext() if read_only else self._held(state, wish) as locks:
            context = pass_context(settings, read_only=read_only, locks=locks)
            if context.complaint and read_only:  # each undo looks first
                self.warn_of(context.complaint)
            gate, heedless = context.caution.gate, parsed_args.ignore_health
            with self.libvirt(settings) as hypervisor:
                return run_undo(
                    wish,
                    context.situation,
                    hypervisor=hypervisor,
                    sources=SOURCES,
                    record=Record(state.record),
                    node_store=context.node_store,
                    notes=context.notes,
                    bounds=settings.bounds,
                    caution=replace(context.caution, gate=replace(gate, blocking=()) if heedless else gate),
                    boot=_booted(),
                    read_only=read_only,
                    tell=self._tell_one if parsed_args.format == "text" and not read_only else lambda _: None,
                )

    @contextmanager
    def _held(self, state: State, wish: Wish) -> Iterator[ByteLocks]:
        """Hold the node's lock and those of the guests to restore; the disks of one that is busy are not restored.

        Raises ``Busy``, ``StateError``.
        """
        with state.locked(patience=PATIENCE), state.guest_locks() as locks:
            disks = {row.disk for row in record_query.changes_of_disks(Record(state.record), wish.since)}
            uuids = {disk.guest_uuid for disk in disks if self._concerns(disk)}
            locks.take(uuids, PATIENCE)
            yield locks

    def _concerns(self, disk: DiskName) -> bool:
        return GuestRef(disk.guest_uuid, disk.guest_name) in self._scope

    def _tell_one(self, undone: Undone) -> None:
        line = self._line(undone)
        if line is not None:
            self.tell_one(line, every=self._every)

    def _line(self, undone: Undone) -> DiskLine | None:
        return undone_line(undone.disk, undone.server, undone.change, undone.result, self._manner)

    def _close(self, report: UndoReport, settings: Settings, *, planned: bool) -> None:
        if planned:
            lines = [line for one in report.undone if (line := self._line(one)) is not None]
            self.tell(alike(lines), every=self._every, remedy="--all lists them")
        last = None
        if not report.undone:
            last = record_query.newest_effect(Record(state_of(settings).record), self._concerns)
        enforcing = Mode(settings.mode) is Mode.ENFORCE
        self.tell(map(TextLine, undo_lines(report, planned=planned, enforcing=enforcing, last=last)))

    def _told(self, report: UndoReport, parsed_args: argparse.Namespace, settings: Settings) -> int:
        """Print the result; returns the exit status."""
        if parsed_args.format != "text":
            self.say_data(undo_data(report, dry_run=parsed_args.dry_run, mode=settings.mode), parsed_args.format)
        else:
            self._close(report, settings, planned=parsed_args.dry_run)
            if parsed_args.dry_run:
                self.say("Dry run: nothing is written.")
        return 1 if self.stdout_gone else report.exit_status


def _check_recorded(record: Record, since: datetime, moment: str) -> None:
    start = record.since()
    if start is not None and since < start:
        raise UsageError(f"--since {moment}: the record starts at {time_words(start)} UTC; give a later time")


def _check_writable(settings: Settings, now: datetime) -> None:
    """Raises ``Paused``, and ``UsageError`` where the daemon would apply the desired limits again."""
    pause = pause_actual(settings, now)
    if pause is not None and pause.facts.get("region"):
        raise Paused(f"{words(pause)}; no limit is written on this node until plimsoll region resume")
    if pause is not None:
        raise Paused(
            f"{words(pause)}; no limit is written on this node. First: {_STOP}; then plimsoll resume,"
            " plimsoll undo, plimsoll pause"
        )
    daemon = daemon_status.load_or_none(state_of(settings))
    if daemon is not None and daemon.mode == Mode.ENFORCE.value and daemon.runs(datetime.now(UTC)):
        raise UsageError(
            f"plimsoll daemon (pid {daemon.pid}) runs in mode enforce: it would apply the desired limits again at"
            f" once. First: {_STOP}"
        )


def _booted() -> datetime:
    """When the node was booted; if that is unknown, far in the future, so that every change counts as older."""
    try:
        for line in Path("/proc/stat").read_text(encoding="ascii").splitlines():
            if line.startswith(_BOOTED):
                return datetime.fromtimestamp(int(line.removeprefix(_BOOTED)), UTC)
    except (OSError, ValueError):
        pass
    return datetime.max.replace(tzinfo=UTC)
