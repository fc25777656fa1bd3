"""``plimsoll region approve``, ``pause``, ``resume`` and ``hold``: what is decided for a whole region.

They run on the machine that makes the region's file, and need no key: what they write is published by the next
``plimsoll catalogue refresh --region-file``.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cliff import lister

from plimsoll_agent import spans, views
from plimsoll_agent.catalogue_words import SHOWN
from plimsoll_agent.cli.base import LocalCommand, given_reason, limits_from
from plimsoll_agent.cli.formats import Shown
from plimsoll_agent.cli.standing import who
from plimsoll_agent.errors import ConfigError, UsageError
from plimsoll_agent.limits import Limits
from plimsoll_agent.regionorders import Of, Orders, RegionApproval, RegionHold, RegionPause
from plimsoll_agent.regionstate import LastReading, RegionState
from plimsoll_agent.report import minute, printable, short_limits

_DIGEST = re.compile(r"[0-9a-f]{16,64}", re.ASCII)
_WHOLE = 64
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_LONGEST = timedelta(days=366)
_MOST, _MOST_APPROVALS = 1000, 50
"""Holds, and approvals, which may name many types: they go to every node, and its catalogue has a bound."""
_NEXT = (
    "It goes out with the next plimsoll catalogue refresh --region-file; each node goes by it once it has that file."
)


class _RegionOrder(LocalCommand):
    """A command about the region's file of this machine."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--region-file", metavar="OUT", type=Path, help="the region's file, instead of [region] file"
        )
        return parser

    def state(self, parsed_args: argparse.Namespace) -> RegionState:
        """Raises ``ConfigError``."""
        file: Path | None = parsed_args.region_file or self.settings(parsed_args).region.file
        if file is None:
            raise ConfigError(
                "[region] file: is not set: this machine makes no region's file; run this where plimsoll catalogue"
                " refresh --region-file runs, and set it there or give --region-file"
            )
        if not file.parent.is_dir():
            raise ConfigError(f"{file.parent}: is no directory; the region's file is to be there")
        return RegionState(file.absolute())

    @contextmanager
    def changing(self, state: RegionState, now: datetime) -> Iterator[Orders]:
        """What stands now, while no other command changes it. Raises ``CatalogueError``."""
        with state.locked():
            yield self.present(state, now)

    @staticmethod
    def present(state: RegionState, now: datetime) -> Orders:
        """Where the file was lost, what was published last. Raises ``CatalogueError``."""
        orders = state.orders()
        if orders is None:
            last = state.last()
            orders = last.orders if last is not None else Orders()
        return orders.standing(now)

    def say(self, *lines: str) -> None:
        for line in lines:
            self.app.stdout.write(f"{self.app.for_journal(line)}\n")


def _span(option: str, text: str) -> timedelta:
    """Raises ``UsageError``."""
    try:
        span = spans.parse(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error
    if span > _LONGEST:
        raise UsageError(f"{option}: {text} is more than a year")
    return span


class RegionApprove(_RegionOrder):
    """Let through what a brake stops, in the whole region, until an end.

    DIGEST is that of a state of QoS specs and types, as the region's brake names it: just that state is published
    then, and the brakes of all nodes let it through. --rules is the same for a revision of the nodes' rules, as their
    brakes name it. Limits that are removed are let through only for the volume types that --remove names. --disks and
    --percent raise the bounds of [brake] on all nodes, whatever is changed; removals and cuts to a tenth stay so.

    Nodes that come back later go by it too, until its end.

    Exit status: 0 approved, 1 not approved, 64 usage, or another state is there by now.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "digest", metavar="DIGEST", nargs="?", help="of the specs and types, as printed: at least 16 hex digits"
        )
        parser.add_argument(
            "--remove",
            metavar="TYPE",
            nargs="+",
            action="extend",
            default=[],
            help="volume types (names or ids) whose volumes may lose their limits",
        )
        parser.add_argument("--rules", metavar="DIGEST", help="of a revision of the rules: all 64 hex digits")
        parser.add_argument("--disks", metavar="NUMBER", type=int, help="so many disks a node ([brake] disks)")
        parser.add_argument("--percent", metavar="NUMBER", type=int, help="so many percent ([brake] percent)")
        parser.add_argument("--for", dest="span", metavar="DURATION", default="7d", help="how long; default: 7d")
        parser.add_argument("--reason", metavar="TEXT", required=True, help="why; the signed file carries it")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        why, span = given_reason(parsed_args.reason), _span("--for", parsed_args.span)
        state, now, by = self.state(parsed_args), datetime.now(UTC), who()
        last = state.last()
        base = RegionApproval(Of.SPECS, "", now, now + span, by, why, _types(parsed_args.remove, last))
        given: list[RegionApproval] = []
        if parsed_args.digest is not None:
            given.append(_of_specs(base, parsed_args.digest, last))
        if parsed_args.rules is not None:
            given.append(replace(base, of=Of.RULES, digest=_whole(parsed_args.rules)))
        if parsed_args.disks is not None or parsed_args.percent is not None:
            disks, percent = parsed_args.disks or 0, parsed_args.percent or 0
            if not (0 <= disks <= 10**6 and 0 <= percent <= 100 and disks + percent):
                raise UsageError("--disks and --percent: a number from 1 on, and percent up to 100")
            given.append(replace(base, of=Of.BOUNDS, disks=disks, percent=percent, remove=frozenset()))
        if not given:
            raise UsageError("nothing to approve: give DIGEST, --rules, or --disks and --percent")
        if base.remove and not any(one.remove for one in given):
            raise UsageError("--remove goes with DIGEST or --rules: bounds let no removal through")
        with self.changing(state, now) as orders:
            if len(orders.approvals) + len(given) > _MOST_APPROVALS:
                raise UsageError(f"there are {_MOST_APPROVALS} approvals already; they end by themselves")
            state.save_orders(replace(orders, approvals=(*orders.approvals, *given)))
        for one in given:
            self.say(f"Approved until {minute(one.until)}: {_approval_words(one, last)}.")
        self.say(_NEXT)
        return 0


def _of_specs(base: RegionApproval, typed: str, last: LastReading | None) -> RegionApproval:
    """Raises ``UsageError``."""
    if last is None:
        raise UsageError(f"{printable(typed)}: nothing was read yet; see: plimsoll catalogue refresh --region-file")
    digest = typed.lower()
    if not _DIGEST.fullmatch(digest):
        raise UsageError(f"{printable(typed)}: type at least {SHOWN} hex digits of the digest, as they were printed")
    known = [whole for whole in dict.fromkeys((last.read, last.published)) if whole.startswith(digest)]
    if len(known) != 1:
        raise UsageError(
            f"{digest[:SHOWN]} does not stand for the QoS specs and types that were read last"
            f" ({last.read[:SHOWN]}, {minute(last.at)}); see: plimsoll catalogue refresh --region-file"
        )
    if known[0] == last.read and (left := last.removals - base.remove):
        names = ", ".join(sorted(printable(last.types.get(id, id)) for id in left))
        raise UsageError(
            f"{digest[:SHOWN]} would remove the limits of volumes of type {names}; add --remove if meant"
        )
    return replace(base, digest=known[0])


def _whole(typed: str) -> str:
    digest = typed.lower()
    if not (_DIGEST.fullmatch(digest) and len(digest) == _WHOLE):
        raise UsageError(
            f"--rules: {printable(typed)}: give all {_WHOLE} hex digits (braked.edition of plimsoll plan -f json):"
            " this machine does not know the rules of the nodes"
        )
    return digest


def _types(named: Sequence[str], last: LastReading | None) -> frozenset[str]:
    """The ids of volume types. Raises ``UsageError``."""
    types = last.types if last is not None else {}
    found: set[str] = set()
    for name in named:
        ids = [id for id, one in types.items() if name in (id, one)]
        if not ids:
            raise UsageError(
                f"--remove: {printable(name)}: no volume type is called so; see: openstack volume type list"
            )
        found.update(ids)
    return frozenset(found)


def _approval_words(one: RegionApproval, last: LastReading | None) -> str:
    match one.of:
        case Of.SPECS:
            said = f"QoS specs and types {one.digest[:SHOWN]}"
        case Of.RULES:
            said = f"rules {one.digest[:SHOWN]}"
        case Of.BOUNDS:
            said = f"bounds of the nodes' brakes: {one.disks} disks, {one.percent} %"
    types = last.types if last is not None else {}
    names = ", ".join(sorted(printable(types.get(id, id)) for id in one.remove))
    return f"{said}, removals of {names}" if names else said


class RegionPauseAll(_RegionOrder):
    """Let no node of the region write a limit, until plimsoll region resume or an end.

    Nodes learn of it with the next region's file that they take; passes go on to look and to report. On one node at
    once: plimsoll pause.

    Exit status: 0 paused, 1 not paused, 64 usage, or it is paused already.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--for", dest="span", metavar="DURATION", help="how long; default: until it is resumed")
        parser.add_argument("--reason", metavar="TEXT", required=True, help="why; every pass of every node shows it")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        why, now = given_reason(parsed_args.reason), datetime.now(UTC)
        until = None if parsed_args.span is None else now + _span("--for", parsed_args.span)
        state = self.state(parsed_args)
        with self.changing(state, now) as orders:
            if orders.pause is not None:
                raise UsageError(
                    f"the region is paused already, by {printable(orders.pause.by)}: {printable(orders.pause.why)};"
                    " to change that: plimsoll region resume, then plimsoll region pause"
                )
            state.save_orders(replace(orders, pause=RegionPause(now, until, who(), why)))
        self.say(f"Paused {'until plimsoll region resume' if until is None else f'until {minute(until)}'}.", _NEXT)
        return 0


class RegionResume(_RegionOrder):
    """End the pause of the region.

    Exit status: 0 resumed, 1 still paused, 64 when the region was not paused.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        state, now = self.state(parsed_args), datetime.now(UTC)
        with self.changing(state, now) as orders:
            if orders.pause is None:
                raise UsageError("the region is not paused")
            state.save_orders(replace(orders, pause=None))
        self.say("Resumed.", _NEXT)
        return 0


class RegionHoldAdd(_RegionOrder):
    """Hold disks wherever their guests run: as they are, or at other limits, until an end.

    DISK is the id of a volume; or GUEST/VOLUME for that volume in one guest, or GUEST/POOL/IMAGE for a disk of the
    guest's own, where GUEST is the guest's uuid. A hold of the node itself (plimsoll disk hold) comes before it. As
    ever, nothing is loosened while the cluster is not well. A second hold on the same DISK replaces the first.

    Exit status: 0 held, 1 not held, 64 usage.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("disks", metavar="DISK", nargs="+", help="VOLUME, GUEST/VOLUME or GUEST/POOL/IMAGE")
        parser.add_argument("--for", dest="span", metavar="DURATION", required=True, help="how long: 2h, 90m, 1d12h")
        parser.add_argument(
            "--limits",
            metavar="NAME=VALUE[,NAME=VALUE...]",
            help="the full set (total_iops_sec=500): what is not named is unlimited; or the word unlimited;"
            " without it the disks are left as they are",
        )
        parser.add_argument("--reason", metavar="TEXT", required=True, help="why; shown wherever the disk is")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        why, span, limits = (
            given_reason(parsed_args.reason),
            _span("--for", parsed_args.span),
            limits_from(parsed_args.limits),
        )
        disks = [_disk(given) for given in dict.fromkeys(parsed_args.disks)]
        state, now = self.state(parsed_args), datetime.now(UTC)
        new = [RegionHold(disk, limits, now, now + span, who(), why) for disk in disks]
        with self.changing(state, now) as orders:
            others = [hold for hold in orders.holds if hold.disk not in disks]
            if len(others) + len(new) > _MOST:
                raise UsageError(f"a region has {_MOST} holds at the most; what is to last belongs into a rule")
            state.save_orders(replace(orders, holds=(*others, *new)))
        for hold in new:
            self.say(f"{hold.disk}  held until {minute(hold.until)}: {_held_at(limits)}")
        self.say(_NEXT)
        return 0


class RegionHoldRemove(_RegionOrder):
    """End holds of the region before their time.

    Exit status: 0 ended, 1 not ended, 64 when there is no such hold.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("disks", metavar="DISK", nargs="+", help="as plimsoll region hold list has it")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        state, now = self.state(parsed_args), datetime.now(UTC)
        disks = [_disk(given) for given in dict.fromkeys(parsed_args.disks)]
        with self.changing(state, now) as orders:
            for disk in disks:
                if disk not in (hold.disk for hold in orders.holds):
                    raise UsageError(f"no hold of the region is on {disk}; see: plimsoll region hold list")
            state.save_orders(replace(orders, holds=tuple(hold for hold in orders.holds if hold.disk not in disks)))
        for disk in disks:
            self.say(f"{disk}  no longer held")
        self.say(_NEXT)
        return 0


class RegionHoldList(_RegionOrder, lister.Lister):
    """List the holds of the region.

    Exit status: 0, 1 when they are not known.
    """

    formatter_namespace = "plimsoll.formatter.list"

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        now = datetime.now(UTC)
        holds = sorted(self.present(self.state(parsed_args), now).holds, key=lambda hold: (hold.until, hold.disk))
        return ("disk", "limits", "since", "until", "left", "by", "reason"), [
            (
                hold.disk,
                Shown(views.limits_data(hold.limits), _held_at(hold.limits)),
                Shown(hold.since.isoformat(timespec="seconds"), minute(hold.since)),
                Shown(hold.until.isoformat(timespec="seconds"), minute(hold.until)),
                Shown(int((hold.until - now).total_seconds()), spans.words(hold.until - now)),
                Shown(hold.by, printable(hold.by)),
                Shown(hold.why, printable(hold.why)),
            )
            for hold in holds
        ]


def _disk(given: str) -> str:
    """The identity of a disk. Raises ``UsageError``."""
    first, *rest = given.split("/")
    guest = first.lower()
    if not _UUID.fullmatch(guest) or not given.isprintable() or any(not part for part in rest):
        raise UsageError(
            f"{printable(given)}: is no disk: write the id of a volume, GUEST/VOLUME or GUEST/POOL/IMAGE,"
            " GUEST being the guest's uuid"
        )
    if len(rest) == 1 and not _UUID.fullmatch(rest[0].lower()):
        raise UsageError(
            f"{printable(given)}: {printable(rest[0])} is no volume's id;"
            " a disk of the guest's own is GUEST/POOL/IMAGE"
        )
    return "/".join([guest, *([rest[0].lower()] if len(rest) == 1 else rest)])


def _held_at(limits: Limits | None) -> str:
    return "as they are" if limits is None else short_limits(limits)
