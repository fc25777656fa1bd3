"""``plimsoll disk``: list disks, show one, explain its limits."""

from __future__ import annotations

import argparse
import re
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from plimsoll_agent.app.context import pass_context, run
from plimsoll_agent.app.node import state_of
from plimsoll_agent.cli import server_names
from plimsoll_agent.cli.many import add_many, add_options, choice_of, one_or_many, words_of
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.errors import PlimsollError, Rejected, Unreachable, UsageError
from plimsoll_agent.messages import ceilings, explain, sentences, serialize
from plimsoll_agent.messages.limits import BURST, SPLIT, short_limits
from plimsoll_agent.messages.savings import saved_data, saved_words
from plimsoll_agent.messages.tones import TONES, Tone
from plimsoll_agent.model.clusters import short_fsid
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.entries import RecordedChange
from plimsoll_agent.model.hypervisor import Hypervisor
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Unknown
from plimsoll_agent.policy.decide import Desired
from plimsoll_agent.reconcile.observe import guests_with, no_disk_is, scope_of
from plimsoll_agent.reconcile.outcome import ACKNOWLEDGED, NEW, Kind, Mode, Outcome, PassReport, Scope
from plimsoll_agent.reconcile.savings import account_of
from plimsoll_agent.store import record_query
from plimsoll_agent.store.record import Record
from plimsoll_agent.store.state import StateError
from plimsoll_agent.terminal.base import NodeCommand, add_guests, add_verbose
from plimsoll_agent.terminal.columns import NOTHING, Column, guest_column
from plimsoll_agent.terminal.formats import Showing, Shown, Table, terminal_for
from plimsoll_agent.terminal.listing import Listing
from plimsoll_agent.terminal.page import write_lines
from plimsoll_agent.terminal.table import paragraph
from plimsoll_agent.util.frozen import replace
from plimsoll_agent.util.text import plural, printable


class _DiskCommand(NodeCommand):
    """A command that reads disks and changes nothing."""

    _sound = True
    """The rules file is valid, so the rules are not the last good ones."""

    def look(self, parsed_args: argparse.Namespace, scope: Callable[[Hypervisor], Scope]) -> PassReport:
        settings = self.settings(parsed_args)
        context = pass_context(settings, read_only=True, without_rules=True)
        with self.libvirt(settings) as hypervisor:
            report = run(settings, hypervisor, context, scope=scope(hypervisor), mode=Mode.PLAN, sizes=True)
        if context.complaint:
            self.warn_of(context.complaint)
        self._sound = not context.complaint
        self.status = 1 if context.complaint or report.failures else 0
        return report

    def pasts(self, parsed_args: argparse.Namespace, outcomes: Iterable[Outcome]) -> dict[str, RecordedChange]:
        """The change behind each planned one, by ``Disk.key``; none, said on stderr, if the record cannot be read."""
        changes = {outcome.disk.key: outcome for outcome in outcomes if outcome.result.kind is Kind.PLANNED}
        if not changes:
            return {}
        try:
            last = record_query.last_of_each(Record(state_of(self.settings(parsed_args)).record))
        except StateError as error:
            self.warn_of(f"{printable(str(error))}; changes that failed are shown as out of sync")
            return {}
        return {key: past for key, o in changes.items() if (past := sentences.behind(o, last.get(key))) is not None}


LIST_COLUMNS = (
    Column("server", most=17),
    guest_column(drop=3),
    Column("disk", most=12),
    Column("volume", long=True),
    Column("type", drop=2, most=16),
    Column("pool", long=True),
    Column("size", right=True, drop=1),
    Column("actual", wraps=True),
    Column("desired", wraps=True, drop=4),
    Column("state"),
    Column("reason", wraps=True, note=True),
    *(Column(name, long=True) for name in ("project", "project_name", "guest_uuid", "cluster")),
)


class DiskList(_DiskCommand, Listing):
    """List the RBD disks of this node with their limits.

    What is wrong comes first. Where the rows are more than a terminal has, disks in sync are only counted, unless
    --all is given. DESIRED is empty where it is what is actual.

    Exit status:
        0   all guests answered
        1   a guest is unreachable, or the rules file is broken or missing
        64  usage

    Examples:
        plimsoll disk list
        plimsoll disk list --state planned --state unknown
        plimsoll disk list --all -f json
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_guests(parser)
        add_options(parser)
        parser.add_argument(
            "--state",
            metavar="STATE",
            action="append",
            default=[],
            choices=_STATES,
            help=f"only disks in this state: {', '.join(_STATES)}; repeatable",
        )
        parser.add_argument("--all", action="store_true", help="also list disks in sync where they are many")
        return parser

    _running = 0

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        choice = choice_of(parsed_args)
        report = self.look(parsed_args, lambda hypervisor: self._scope(parsed_args, hypervisor))
        report = replace(report, outcomes=tuple(outcome for outcome in report.outcomes if choice.has(outcome.disk)))
        for unreachable in report.unreachable:
            self.warn_of(sentences.unreachable_words(unreachable))
        pasts = self.pasts(parsed_args, report.outcomes)
        states = {each.disk.key: _state(report, each, pasts.get(each.disk.key)) for each in report.outcomes}
        matches = [o for o in report.outcomes if _is_in(parsed_args.state, o, states[o.disk.key])]
        if parsed_args.formatter == "table":
            matches.sort(key=lambda each: _rank(each, states[each.disk.key]))
        quiet = _QUIET if self._only_counts(parsed_args, len(matches)) else ()
        visible = [each for each in matches if states[each.disk.key] not in quiet]
        width = self.terminal.width
        brief = width is not None and width < _ROOMY and not parsed_args.wide and not parsed_args.columns
        rows = [_row(each, states[each.disk.key], pasts.get(each.disk.key), brief) for each in visible]
        end = _list_sum(report, states.values())
        has_all = report.outcomes and not parsed_args.state
        self.empty = None if has_all else self._nothing(parsed_args, report)
        if len(visible) < len(matches):
            end = self.empty = f"{end}; --all lists those in sync too"
        self.closing = (*_legend(rows), end)
        if report.kernel_mapped and not (parsed_args.state or choice):
            self.closing += (sentences.kernel_mapped_words(report.kernel_mapped),)
        return LIST_COLUMNS, rows

    def _only_counts(self, parsed_args: argparse.Namespace, rows: int) -> bool:
        """Whether disks in sync are no rows, since these are more than a terminal has."""
        many = self.terminal.width is not None and rows > shutil.get_terminal_size().lines - _AROUND
        return many and not (parsed_args.all or parsed_args.columns or parsed_args.formatter != "table")

    def _scope(self, parsed_args: argparse.Namespace, hypervisor: Hypervisor) -> Scope:
        self._running = len(hypervisor.guests())
        return scope_of(hypervisor, parsed_args.guest)

    def _nothing(self, parsed_args: argparse.Namespace, report: PassReport) -> str:
        if report.outcomes:
            return f"No disk is {' or '.join(map(_in_words, parsed_args.state))}; plimsoll disk list has all."
        if choice_of(parsed_args):
            return f"No disk {words_of(choice_of(parsed_args))}; plimsoll disk list has all."
        if report.unreachable:
            return "No RBD disk of the guests that answer."
        if not self._running:
            return "No guest runs here; plimsoll lists the disks of running guests."
        if report.kernel_mapped:
            return f"No disk that QEMU opens on RBD. {sentences.kernel_mapped_words(report.kernel_mapped)}."
        # One that is encrypted, or in a volume group, may be mapped by the kernel all the same.
        guests, their = ("1 guest runs", "its") if self._running == 1 else (f"{self._running} guests run", "their")
        return f"{guests} here, QEMU itself opens none of {their} disks on RBD: plimsoll has nothing to limit."


_AROUND = 4
"""Lines of a terminal that no row has: the heads, what is hidden, the sum, the prompt."""
_ROOMY = 140
"""Columns of a terminal on which limits with a burst leave room for the rest of a row."""
_BURSTS = "+: more in bursts; --wide shows them."
_SPLITS = re.compile(rf"\d\+?{SPLIT}\d")
_STATES = tuple(str(state) for state in sentences.STATE_WORDS if state != Kind.CHANGED)
_QUIET = frozenset({Kind.IN_SYNC, Kind.CHANGED})
_RANKS = (Kind.FAILED, Kind.PLANNED, Kind.DEFERRED, Kind.UNKNOWN, NEW, ACKNOWLEDGED, Kind.LEFT_ALONE)


def _is_in(choice: Collection[str], outcome: Outcome, state: str) -> bool:
    return not choice or state in choice or outcome.result.kind in choice


def _in_words(state: str) -> str:
    return sentences.STATE_WORDS[state]


def _rank(outcome: Outcome, state: str) -> int:
    """Unlimited where a limit is desired comes first, then what failed, and what is in sync last."""
    if _actual_tone(outcome) is not None:
        return -1
    return _RANKS.index(state) if state in _RANKS else len(_RANKS)


def _state(report: PassReport, outcome: Outcome, past: RecordedChange | None) -> str:
    """As ``status`` counts it."""
    now = sentences.state_now(outcome, past)
    return report.state(outcome) if now is outcome.result.kind else now.value


def _row(outcome: Outcome, state: str, past: RecordedChange | None, brief: bool) -> tuple[object, ...]:
    """``brief``: limits without what their bursts are."""
    disk, desired = outcome.disk, outcome.decision.desired
    actual_words, desired_words = sentences.actual_words(disk.in_force), sentences.desired_words(desired)
    if brief and isinstance(disk.in_force, Limits):
        actual_words = short_limits(disk.in_force, brief=True)
    if brief and isinstance(desired, Desired):
        desired_words = short_limits(desired.limits, brief=True)
    return (
        Shown(disk.guest.display_name, disk.guest.display_name or disk.guest.name),
        disk.guest.name,
        disk.target,
        Shown(disk.volume_id, disk.volume_id or "(own disk)"),
        disk.volume_type,
        disk.pool,
        Shown(disk.size, sentences.short_size(disk.size)),
        Shown(serialize.limits_data(disk.in_force), actual_words, _actual_tone(outcome)),
        Shown(serialize.limits_data(desired), "" if _holds(disk, desired) else desired_words),
        Shown(outcome.result.kind.value, sentences.state_word(outcome, past), TONES.get(state)),
        Shown(serialize.state_reason_data(outcome, past), sentences.state_reason(outcome, past)),
        disk.guest.project,
        disk.guest.project_name,
        disk.guest.uuid,
        Shown(disk.cluster, short_fsid(disk.cluster or NOTHING)),
    )


def _legend(rows: Iterable[Iterable[object]]) -> Iterator[str]:
    """What the signs of short limits mean, if the rows have any."""
    texts = [cell.human_readable() for row in rows for cell in row if isinstance(cell, Shown)]
    if any(BURST in text for text in texts):
        yield _BURSTS
    if any(_SPLITS.search(text) for text in texts):
        yield "n/m: n of reads, m of writes; --wide names them."


def _holds(disk: Disk, desired: object) -> bool:
    return isinstance(desired, Desired) and desired.limits == disk.in_force


def _actual_tone(outcome: Outcome) -> Tone | None:
    desired = outcome.decision.desired
    has_limits = outcome.missed or (isinstance(desired, Desired) and not desired.limits.unlimited)
    return TONES["unlimited"] if has_limits and outcome.disk.actual == Limits() else None


def _list_sum(report: PassReport, states: Iterable[str]) -> str:
    """``4 disks, 3 guests: 1 in sync, 2 out of sync, 1 unknown``."""
    disks, guests = len(report.outcomes), len({outcome.disk.guest.uuid for outcome in report.outcomes})
    parts = sentences.states_words(Counter(states))
    return f"{plural(disks, 'disk')}, {plural(guests, 'guest')}" + (f": {parts}" if parts else "")


GUEST_HELP = "the guest, by its libvirt name, UUID or server name, or a volume ID"


class OneDisk(_DiskCommand):
    """A command about one disk."""

    writes = False
    """It changes something, so it asks where a server name was given: tenants choose these."""
    guest_nargs: str | None = None

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("guest", nargs=self.guest_nargs, help=GUEST_HELP)
        parser.add_argument(
            "disk", nargs="?", help="the disk, by its target (vda) or volume ID; optional if there is only one"
        )
        if self.writes:
            parser.add_argument(
                "--yes", action="store_true", help="do not ask whether a server name means this guest"
            )
        return parser

    def find(self, parsed_args: argparse.Namespace) -> Outcome:
        """The disk that was named. Raises ``UsageError`` for none or several."""
        report = self.report = self.look(parsed_args, lambda hypervisor: guests_with(hypervisor, parsed_args.guest))
        matches = [o for o in report.outcomes if o.disk.named.means(parsed_args.guest, parsed_args.disk)]
        servers = {each.disk.guest for each in report.outcomes if each.disk.guest.display_name == parsed_args.guest}
        if not matches and len(servers) == 1:
            (server,) = servers
            matches = [
                each
                for each in report.outcomes
                if parsed_args.disk is None or each.disk.named.means(server.uuid, parsed_args.disk)
            ]
            if len(matches) == 1 and self.writes:
                sure = parsed_args.yes or getattr(parsed_args, "dry_run", False)
                server_names.of_guest(parsed_args.guest, server).confirm(self, sure=sure)
        if len(matches) != 1:
            raise _not_one(parsed_args, report, matches)
        trouble = matches[0].result.kind is Kind.UNKNOWN
        self.status = 1 if trouble or not self._sound else 0  # other disks do not count
        return matches[0]


def _not_one(parsed_args: argparse.Namespace, report: PassReport, matches: Sequence[Outcome]) -> PlimsollError:
    """Why these words name no disk, or several."""
    for unreachable in report.unreachable:
        if parsed_args.guest in (unreachable.guest.name, unreachable.guest.uuid):
            return Unreachable(sentences.unreachable_words(unreachable))
    query = " ".join(filter(None, (parsed_args.guest, parsed_args.disk)))
    if not matches and report.outcomes and parsed_args.disk:
        targets = ", ".join(printable(outcome.disk.target) for outcome in report.outcomes)
        name = printable(report.outcomes[0].disk.guest.name)
        return UsageError(f"guest {name} has no disk {parsed_args.disk!r}, but {targets}")
    if not matches:
        return no_disk_is(query)
    names = ", ".join(sentences.disk_name(outcome.disk) for outcome in matches)
    return UsageError(f"{query!r} matches several disks: {names}; give the guest and the disk")


class OneOrMany(OneDisk):
    """A command about one disk, or about all that options choose."""

    guest_nargs = "?"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_many(parser)
        return parser

    def find_all(self, parsed_args: argparse.Namespace) -> list[Outcome]:
        """The disk that was named, or all that were chosen. Raises ``UsageError``."""
        choice = one_or_many(parsed_args)
        if choice is None:
            return [self.find(parsed_args)]
        report = self.report = self.look(parsed_args, lambda _: Scope())
        for unreachable in report.unreachable:
            self.warn_of(sentences.unreachable_words(unreachable))
        return [outcome for outcome in report.outcomes if choice.has(outcome.disk)]


class DiskShow(OneDisk, Showing):
    """Show one disk with its actual and desired limits.

    Exit status:
        0   the guest answered
        1   a guest is unreachable, the rules file is broken, or with --verify QEMU and libvirt differ
        64  usage

    Examples:
        plimsoll disk show instance-00000412 vda
        plimsoll disk show instance-00000412 vda --verify
        plimsoll disk show instance-00000412 vda -f json
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--verify",
            action="store_true",
            help="also read the limits from QEMU's monitor (query-block); libvirt then marks the guest as tainted",
        )
        add_verbose(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        outcome, exact = self.find(parsed_args), self.wants_exact(parsed_args)
        disk = outcome.disk
        fields: dict[str, object] = {
            name: Shown(value, _text(value)) for name, value in serialize.disk_data(disk).items() if name != "size"
        }
        fields["size"] = Shown(disk.size, sentences.short_size(disk.size))
        fields["actual"] = Shown(
            serialize.limits_data(disk.in_force), sentences.actual_words(disk.in_force, exact=exact)
        )
        fields["defined"] = Shown(
            serialize.limits_data(disk.found.defined), sentences.actual_words(disk.found.defined, exact=exact)
        )
        fields["desired"] = Shown(
            serialize.limits_data(outcome.decision.desired),
            sentences.desired_words(outcome.decision.desired, exact=exact),
        )
        if (account := account_of(outcome, self.report.situation.accounts)) is not None:
            fields["saved"] = Shown(saved_data(*account), saved_words(*account))
        if shares := ceilings.ceilings_of(outcome, self.report.situation):
            fields["ceilings"] = Shown(ceilings.data(shares), ", ".join(ceilings.lines(shares, disk)))
        past = self.pasts(parsed_args, [outcome]).get(disk.key)
        tone = TONES.get(_state(self.report, outcome, past))
        fields["state"] = Shown(outcome.result.kind.value, sentences.state_word(outcome, past), tone)
        why = sentences.state_reason(outcome, past) or NOTHING
        fields["reason"] = Shown(serialize.state_reason_data(outcome, past), why)
        if parsed_args.verify:
            if disk.filters:
                raise Rejected(f"QEMU does not tell the limits of a disk with throttle filters: {why}")
            limits = self._qemu_says(self.settings(parsed_args), disk)
            agrees = limits == _without_group(disk.actual)
            words = "asked QEMU; libvirt agrees" if agrees else "asked QEMU; libvirt DISAGREES"
            fields["qemu"] = Shown(limits.in_effect(), f"{sentences.limits_words(limits, exact=exact)} ({words})")
            self.status = self.status or int(not agrees)
        return tuple(fields), tuple(fields.values())

    def _qemu_says(self, settings: Settings, disk: Disk) -> Limits:
        with self.libvirt(settings) as hypervisor:
            answer = hypervisor.qemu_says(disk.guest.uuid)
        if disk.path not in answer:
            raise Rejected(f"QEMU does not list {disk.path} among the disks of {printable(disk.guest.name)}")
        return answer[disk.path]


def _without_group(actual: Limits | Unknown | None) -> Limits | None:
    return replace(actual, group_name=None) if isinstance(actual, Limits) else None


def _text(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(printable(str(item)) for item in value) or "-"
        case _:
            return printable(str(value))


_EXPLAINED = (Column("source", most=40), Column("answer", wraps=True))


class DiskExplain(OneDisk, Showing):
    """Explain a disk's limits: the answer of each source, in order."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_verbose(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        outcome = self._outcome = self.find(parsed_args)
        self._record = Record(state_of(self.settings(parsed_args)).record)
        past = self.pasts(parsed_args, [outcome]).get(outcome.disk.key)
        self._state = _state(self.report, outcome, past)
        data = explain.data(outcome, self.report.situation, past, self._record)
        return tuple(data), tuple(data.values())

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Sequence[Any]
    ) -> int:
        if parsed_args.formatter != "table" or parsed_args.columns:
            return super().produce_output(parsed_args, column_names, data)
        head = paragraph(explain.head(self._outcome.disk), terminal_for(self.app.stdout, parsed_args))
        write_lines(self.app.stdout, head)
        rows = explain.rows(self._outcome, self.report.situation, self._record, exact=self.wants_exact(parsed_args))
        tones = {"actual": _actual_tone(self._outcome), "state": TONES.get(self._state)}
        pairs = [(source, Shown(answer, answer, tones.get(source))) for source, answer in rows]
        Table().emit_list(_EXPLAINED, pairs, self.app.stdout, parsed_args)
        return 0
