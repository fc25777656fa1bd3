"""``plimsoll disk``: look at the disks of this node, at one of them, and at why its limits are what they are."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from cliff import lister, show

from plimsoll_agent import report, views
from plimsoll_agent.cli.base import NodeCommand
from plimsoll_agent.cli.formats import Shown
from plimsoll_agent.cli.standing import run, standing, state_of
from plimsoll_agent.config import Settings
from plimsoll_agent.disk import Disk
from plimsoll_agent.errors import Rejected, Unreachable, UsageError
from plimsoll_agent.limits import Limits
from plimsoll_agent.outcome import Kind, Outcome, PassReport, Scope
from plimsoll_agent.passes import Mode
from plimsoll_agent.reason import Code, Unknown
from plimsoll_agent.record import Record
from plimsoll_agent.record_words import reason_words
from plimsoll_agent.state import StateError


class _DiskCommand(NodeCommand):
    """A command that looks at disks and changes nothing."""

    _sound = True
    """The rules are those that the operator meant."""

    def look(self, parsed_args: argparse.Namespace, guests: Iterable[str] = ()) -> PassReport:
        settings = self.settings(parsed_args)
        stand = standing(settings, look_only=True)
        with self.libvirt(settings) as hypervisor:
            scope = Scope(frozenset(guests))
            passed = run(settings, hypervisor, stand, scope=scope, mode=Mode.PLAN, sizes=True)
        if stand.complaint:
            self.app.stderr.write(f"{stand.complaint}\n")
        self._sound = stand.complaint is None
        self.status = 1 if stand.complaint or passed.failures else 0
        return passed


class DiskList(_DiskCommand, lister.Lister):
    """List the RBD disks of the running guests, with the limits in force and the wanted ones."""

    @property
    def formatter_namespace(self) -> str:
        return "plimsoll.formatter.list"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--guest", metavar="GUEST", action="append", default=[], help="only this guest, by libvirt's name or uuid"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        passed = self.look(parsed_args, parsed_args.guest)
        for overlooked in passed.overlooked:
            self.app.stderr.write(f"{report.overlooked_words(overlooked)}\n")
        self._passed = passed
        return LIST_COLUMNS, [_row(outcome) for outcome in passed.outcomes]

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Iterable[Sequence[Any]]
    ) -> int:
        super().produce_output(parsed_args, column_names, data)
        if parsed_args.formatter == "table":
            self.app.stdout.write(f"{_list_sum(self._passed)}\n")
        return 0


LIST_COLUMNS = ("guest", "disk", "volume", "type", "pool", "size", "in_force", "wanted", "state")


def _row(outcome: Outcome) -> tuple[object, ...]:
    disk, wanted = outcome.disk, outcome.decision.wanted
    return (
        Shown(disk.guest.name, report.printable(disk.guest.name)),
        Shown(disk.target, report.printable(disk.target)),
        Shown(disk.volume_id, disk.volume_id or "(own disk)"),
        Shown(disk.volume_type, report.printable(disk.volume_type or "-")),
        Shown(disk.pool, report.printable(disk.pool)),
        Shown(disk.size, report.short_size(disk.size)),
        Shown(views.limits_data(disk.in_force), report.in_force_words(disk.in_force)),
        Shown(views.limits_data(wanted), report.wanted_words(wanted)),
        Shown(outcome.result.kind.value, report.state_words(outcome)),
    )


def _list_sum(passed: PassReport) -> str:
    disks = len(passed.outcomes)
    waiting = f" {passed.count(Kind.WAITS)} waiting," if passed.count(Kind.WAITS) else ""
    guests = len({outcome.disk.guest.uuid for outcome in passed.outcomes})
    return (
        f"{disks} disk{'' if disks == 1 else 's'} on {guests} guest{'' if guests == 1 else 's'}:"
        f" {passed.count(Kind.RIGHT)} ok, {passed.count(Kind.PLANNED)} to change,"
        f" {passed.count(Kind.LEFT_ALONE)} left alone,{waiting} {passed.count(Kind.NOT_KNOWN)} not known"
    )


class OneDisk(_DiskCommand):
    """A command about one disk."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("guest", help="libvirt's name or uuid of the guest, or the id of a volume")
        parser.add_argument(
            "disk", nargs="?", help="the disk by its target (vda) or volume id; may be left out where there is one"
        )
        return parser

    def find(self, parsed_args: argparse.Namespace) -> Outcome:
        """The one disk that is meant. Raises ``UsageError`` when none or several are."""
        passed = self.passed = self.look(parsed_args)
        meant = [o for o in passed.outcomes if o.disk.named.means(parsed_args.guest, parsed_args.disk)]
        if len(meant) == 1:
            trouble = meant[0].result.kind is Kind.NOT_KNOWN
            self.status = 1 if trouble or not self._sound else 0  # of this disk, whatever ails the others
            return meant[0]
        for missed in passed.overlooked:
            if parsed_args.guest in (missed.guest.name, missed.guest.uuid):
                raise Unreachable(report.overlooked_words(missed))
        asked = " ".join(filter(None, (parsed_args.guest, parsed_args.disk)))
        if not meant:
            raise UsageError(f"no running guest has an RBD disk that is meant by {asked!r}; see: plimsoll disk list")
        names = ", ".join(report.disk_name(outcome.disk) for outcome in meant)
        raise UsageError(f"{asked!r} can mean {names}; name the guest and the disk")


class DiskShow(OneDisk, show.ShowOne):
    """Show one disk: who it is, what QEMU has in force, and what libvirt's definition says."""

    @property
    def formatter_namespace(self) -> str:
        return "plimsoll.formatter.show"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--verify",
            action="store_true",
            help="ask QEMU itself too, past libvirt (its monitor's query-block; libvirt notes the guest as tainted)",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        outcome = self.find(parsed_args)
        disk = outcome.disk
        shown: dict[str, object] = {
            name: Shown(value, _text(value)) for name, value in views.disk_data(disk).items() if name != "size"
        }
        shown["size"] = Shown(disk.size, report.short_size(disk.size))
        shown["in_force"] = Shown(views.limits_data(disk.in_force), report.in_force_words(disk.in_force))
        shown["defined"] = Shown(views.limits_data(disk.defined), report.in_force_words(disk.defined))
        shown["wanted"] = Shown(
            views.limits_data(outcome.decision.wanted), report.wanted_words(outcome.decision.wanted)
        )
        shown["state"] = Shown(outcome.result.kind.value, report.state_words(outcome))
        if parsed_args.verify:
            limits = self._qemu_says(self.settings(parsed_args), disk)
            agrees = limits == _without_group(disk.in_force)
            words = "as libvirt says" if agrees else "NOT what libvirt says"
            shown["qemu"] = Shown(limits.in_effect(), f"{report.short_limits(limits)} ({words})")
            self.status = self.status or int(not agrees)
        return tuple(shown), tuple(shown.values())

    def _qemu_says(self, settings: Settings, disk: Disk) -> Limits:
        with self.libvirt(settings) as hypervisor:
            told = hypervisor.qemu_says(disk.guest.uuid)
        if disk.path not in told:
            raise Rejected(f"QEMU does not list {disk.path} among the disks of {report.printable(disk.guest.name)}")
        return told[disk.path]


def _without_group(in_force: Limits | Unknown | None) -> Limits | None:
    return replace(in_force, group_name=None) if isinstance(in_force, Limits) else None


def _text(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(report.printable(str(item)) for item in value) or "-"
        case _:
            return report.printable(str(value))


class DiskExplain(OneDisk, lister.Lister):
    """Tell why a disk's limits are what they are: who was asked in which order, and what the answers were."""

    @property
    def formatter_namespace(self) -> str:
        return "plimsoll.formatter.list"

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        outcome = self.find(parsed_args)
        disk, wanted = outcome.disk, outcome.decision.wanted
        self._head = _head(disk)
        rows = [line for step in outcome.decision.trail for line in report.step_lines(step, self.passed.situation)]
        rows.append(("wanted", f"{report.wanted_words(wanted)}, {report.words(wanted.reason)}"))
        history = _history(disk, Record(state_of(self.settings(parsed_args)).record))
        rows.append(("in force", report.in_force_words(disk.in_force) + history))
        if disk.drifted:
            rows.append(("defined", f"{report.in_force_words(disk.defined)} (libvirt's belief)"))
        if outcome.result.kind is Kind.WAITS:
            rows.append(("state", report.state_words(outcome)))
        if outcome.result.reason.code is Code.ORPHANED:
            rows.append(("release", f"plimsoll approve --remove {outcome.result.reason.facts['digest']:.16}"))
        return ("asked", "answer"), rows

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Iterable[Sequence[Any]]
    ) -> int:
        if parsed_args.formatter == "table":
            self.app.stdout.write(f"{self._head}\n")
        return super().produce_output(parsed_args, column_names, data)


def _head(disk: Disk) -> str:
    guest = disk.guest
    project = guest.project_name or guest.project
    parts: tuple[str, ...] = (
        f"volume {disk.volume_id}" if disk.volume_id else f"own disk {disk.image}",
        report.short_size(disk.size),
        f"pool {disk.pool}",
        f"guest {guest.name}",
        f"project {project}" if project else "not made by Nova",
    )
    if disk.shareable:
        parts += ("multi-attached: each of its attachments is limited alone",)
    return report.printable(", ".join(parts))


def _history(disk: Disk, record: Record) -> str:
    if not isinstance(disk.in_force, Limits):
        return f", {report.words(disk.in_force.reason)}" if disk.in_force else ""
    try:
        last = record.last_in_force(disk.key)
    except StateError as error:
        return f", since nobody knows when ({error})"
    if last is None or disk.in_force != last.after:
        if disk.mark is not None and disk.mark.put == disk.in_force:
            return ", set by plimsoll, which this node's record does not have"
        return "" if disk.in_force.unlimited else ", not set by plimsoll"
    by = report.printable(last.by)
    return f", since {report.minute(last.at)} (by plimsoll, {reason_words(last.reason)}, run by {by})"
