"""``plimsoll region hold``: holds on disks of a region, wherever their guests run."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from plimsoll_agent.app.context import who
from plimsoll_agent.catalogue.orders import RegionHold
from plimsoll_agent.errors import UsageError
from plimsoll_agent.messages import serialize
from plimsoll_agent.messages.limits import short_limits
from plimsoll_agent.model.limits import Limits, Unit, of_unit
from plimsoll_agent.terminal.base import given_duration, given_reason, limits_from
from plimsoll_agent.terminal.columns import Column
from plimsoll_agent.terminal.formats import Shown
from plimsoll_agent.terminal.listing import Listing
from plimsoll_agent.util.frozen import replace
from plimsoll_agent.util.text import minute, printable
from plimsoll_monitoring.cli.region_orders import DECISION_COLUMNS, NEXT, RegionOrder, decision_cells

_HOLD_COLUMNS = (Column("disk"), Column("limits", wraps=True), *DECISION_COLUMNS)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_MOST = 1000
"""Each node gets all holds, and the size of its catalogue is bounded."""


class RegionHoldAdd(RegionOrder):
    """Hold disks at limits, wherever their guests run.

    They are held at their present limits, or at --limits.

    DISK is a volume ID, GUEST/VOLUME for that volume in one guest, or GUEST/POOL/IMAGE for a guest's own disk; GUEST
    is the guest's UUID. A hold on the node itself (plimsoll disk hold) comes first. No limit is raised or removed
    while the Ceph cluster is unhealthy. A second hold on the same DISK replaces the first.

    Exit status:
        0   held
        1   not held
        64  usage

    Examples:
        plimsoll region hold add 6695eb01-5d3c-4c1b-9d0c-1f0f6f0f3b6a --for 2h --reason backup
        plimsoll region hold add 6695eb01-5d3c-4c1b-9d0c-1f0f6f0f3b6a --for 2h --limits total_iops_sec=200 --reason db
        plimsoll region hold add 6695eb01-5d3c-4c1b-9d0c-1f0f6f0f3b6a --for 7d --limits unlimited --reason move
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("disks", metavar="DISK", nargs="+", help="VOLUME, GUEST/VOLUME or GUEST/POOL/IMAGE")
        parser.add_argument("--for", dest="span", metavar="DURATION", required=True, help="how long: 2h, 90m, 1d12h")
        parser.add_argument(
            "--limits",
            metavar="NAME=VALUE[,NAME=VALUE...]",
            help="the full set (total_iops_sec=2k,total_bytes_sec=100MiB; the rest is unlimited during the hold), or"
            " unlimited; default: the disks' present limits",
        )
        parser.add_argument("--reason", metavar="TEXT", required=True, help="why; shown with the disk")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        why, span, limits = (
            given_reason(parsed_args.reason),
            given_duration("--for", parsed_args.span),
            limits_from(parsed_args.limits),
        )
        disks = [_disk(word) for word in dict.fromkeys(parsed_args.disks)]
        state, now = self.state(parsed_args), datetime.now(UTC)
        new = [RegionHold(disk=disk, limits=limits, since=now, until=now + span, by=who(), why=why) for disk in disks]
        with self.changing(state, now) as orders:
            others = [hold for hold in orders.holds if hold.disk not in disks]
            if len(others) + len(new) > _MOST:
                raise UsageError(f"a region can have {_MOST} holds at most; use a rule for permanent limits")
            state.save_orders(replace(orders, holds=(*others, *new)))
        if limits is not None and not limits.unlimited:
            units: tuple[tuple[Unit, str], ...] = (("iops", "requests"), ("bytes", "bytes"))
            for unit, name in units:
                if of_unit(limits, unit).unlimited:
                    self.app.stderr.write(
                        f"warning: --limits is the full set, without a limit of {name}: the disks have none during"
                        f" the hold; to keep one, add total_{unit}_sec to it\n"
                    )
        for hold in new:
            self.say(f"{hold.disk}  held until {minute(hold.until)}: {_held_at(limits)}")
        self.say(NEXT)
        return 0


class RegionHoldRemove(RegionOrder):
    """End holds of the region early.

    Exit status:
        0   ended
        1   not ended
        64  no such hold, or usage

    Examples:
        plimsoll region hold remove 6695eb01-5d3c-4c1b-9d0c-1f0f6f0f3b6a
        plimsoll region hold remove 6695eb01-5d3c-4c1b-9d0c-1f0f6f0f3b6a -q
        plimsoll region hold remove 6695eb01-5d3c-4c1b-9d0c-1f0f6f0f3b6a --region-file /srv/www/region.json
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("disks", metavar="DISK", nargs="+", help="as listed by plimsoll region hold list")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        state, now = self.state(parsed_args), datetime.now(UTC)
        disks = [_disk(word) for word in dict.fromkeys(parsed_args.disks)]
        with self.changing(state, now) as orders:
            for disk in disks:
                if disk not in (hold.disk for hold in orders.holds):
                    raise UsageError(f"no hold of the region on {disk}; see: plimsoll region hold list")
            state.save_orders(replace(orders, holds=tuple(hold for hold in orders.holds if hold.disk not in disks)))
        for disk in disks:
            self.say(f"{disk}  no longer held")
        self.say(NEXT)
        return 0


class RegionHoldList(RegionOrder, Listing):
    """List the holds of the region.

    Exit status:
        0   done
        1   they are unknown

    Examples:
        plimsoll region hold list
        plimsoll region hold list -f json
        plimsoll region hold list --region-file /srv/www/region.json
    """

    empty = "No holds in the region; those of a node: plimsoll disk hold list"

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        now = datetime.now(UTC)
        holds = sorted(self.present(self.state(parsed_args), now).holds, key=lambda hold: (hold.until, hold.disk))
        return _HOLD_COLUMNS, [
            (
                hold.disk,
                Shown(serialize.limits_data(hold.limits), _held_at(hold.limits)),
                *decision_cells(hold, now),
            )
            for hold in holds
        ]


def _disk(word: str) -> str:
    """The identity of a disk. Raises ``UsageError``."""
    first, *rest = word.split("/")
    guest = first.lower()
    if not _UUID.fullmatch(guest) or not word.isprintable() or any(not part for part in rest):
        raise UsageError(
            f"{printable(word)}: not a disk; give a volume ID, GUEST/VOLUME or GUEST/POOL/IMAGE,"
            " with the guest's UUID as GUEST"
        )
    if len(rest) == 1 and not _UUID.fullmatch(rest[0].lower()):
        raise UsageError(
            f"{printable(word)}: {printable(rest[0])} is not a volume ID; a guest's own disk is GUEST/POOL/IMAGE"
        )
    return "/".join([guest, *([rest[0].lower()] if len(rest) == 1 else rest)])


def _held_at(limits: Limits | None) -> str:
    return "present limits" if limits is None else short_limits(limits)
