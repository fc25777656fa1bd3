"""What decisions for a whole region share; ``plimsoll region pause`` and ``resume``.

They run on the machine that writes the region file, and need no key: what they write is published by the next
``plimsoll catalogue refresh --region-file``.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from plimsoll_agent.app.context import who
from plimsoll_agent.catalogue.orders import Orders, RegionApproval, RegionHold, RegionPause
from plimsoll_agent.catalogue.orders_file import RegionState
from plimsoll_agent.errors import ConfigError, UsageError
from plimsoll_agent.terminal.base import LocalCommand, given_duration, given_reason
from plimsoll_agent.terminal.columns import Column
from plimsoll_agent.terminal.formats import Shown
from plimsoll_agent.util import durations, files
from plimsoll_agent.util.frozen import replace
from plimsoll_agent.util.text import minute, printable

DECISION_COLUMNS = (
    Column("since", drop=1),
    Column("until"),
    Column("left", drop=2),
    Column("by", most=16),
    Column("reason", wraps=True),
)
NEXT = "Published by the next plimsoll catalogue refresh --region-file; takes effect on each node with that file."


class RegionOrder(LocalCommand):
    """A command about the region file that this machine writes."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--region-file",
            metavar="OUT",
            type=Path,
            help="the region file, instead of [region] file in the settings",
        )
        return parser

    def state(self, parsed_args: argparse.Namespace) -> RegionState:
        """Raises ``ConfigError``."""
        file: Path | None = parsed_args.region_file or self.settings(parsed_args).region.file
        if file is None:
            raise ConfigError(
                "[region] file: not set: this machine writes no region file. Run this where plimsoll catalogue"
                " refresh --region-file runs, and set [region] file there or give --region-file"
            )
        if not files.is_directory(file.parent):
            raise ConfigError(f"{file.parent}: is not a directory (of the region file)")
        return RegionState(file.absolute())

    @contextmanager
    def changing(self, state: RegionState, now: datetime) -> Iterator[Orders]:
        """The present orders, locked against other commands. Raises ``CatalogueError``."""
        with state.locked():
            yield self.present(state, now)

    @staticmethod
    def present(state: RegionState, now: datetime) -> Orders:
        """The active orders; if their file is lost, those that were published last. Raises ``CatalogueError``."""
        orders = state.orders()
        if orders is None:
            last = state.last()
            orders = last.orders if last is not None else Orders()
            # The approvals for a return to the specs of before are made of the withdrawals at each publication.
            returns = {each.since for each in orders.withdrawals}
            approvals = (one for one in orders.approvals if one.since not in returns)
            orders = replace(orders, approvals=tuple(approvals))
        return orders.standing(now)

    def say(self, *lines: str) -> None:
        for line in lines:
            self.app.stdout.write(f"{self.app.for_journal(line)}\n")


def decision_cells(one: RegionApproval | RegionHold, now: datetime) -> tuple[object, ...]:
    """The columns ``DECISION_COLUMNS`` of a decision."""
    return (
        Shown(one.since.isoformat(timespec="seconds"), minute(one.since)),
        Shown(one.until.isoformat(timespec="seconds"), minute(one.until)),
        Shown(int((one.until - now).total_seconds()), durations.words(one.until - now)),
        one.by,
        one.why,
    )


class RegionPauseAll(RegionOrder):
    """Stop writing limits on all nodes of the region.

    It lasts for a time, or until plimsoll region resume.

    It takes effect on a node with the next region file that it fetches; passes still read and report. To pause one
    node at once: plimsoll pause.

    Exit status:
        0   paused
        1   not paused
        64  already paused, or usage

    Examples:
        plimsoll region pause --for 2h --reason "Ceph is being upgraded"
        plimsoll region pause --reason CHG-412
        plimsoll region pause --reason CHG-412 --region-file /srv/www/region.json
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--for", dest="span", metavar="DURATION", help="how long; default: until plimsoll region resume"
        )
        parser.add_argument("--reason", metavar="TEXT", required=True, help="why; shown by every pass on every node")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        why, now = given_reason(parsed_args.reason), datetime.now(UTC)
        until = None if parsed_args.span is None else now + given_duration("--for", parsed_args.span)
        state = self.state(parsed_args)
        with self.changing(state, now) as orders:
            if orders.pause is not None:
                raise UsageError(
                    f"the region is paused already, by {printable(orders.pause.by)}: {printable(orders.pause.why)};"
                    " to change that: plimsoll region resume, then plimsoll region pause"
                )
            state.save_orders(replace(orders, pause=RegionPause(since=now, until=until, by=who(), why=why)))
        self.say(f"Paused {'until plimsoll region resume' if until is None else f'until {minute(until)}'}.", NEXT)
        return 0


class RegionResume(RegionOrder):
    """Write limits on the nodes of the region again.

    It ends plimsoll region pause.

    Exit status:
        0   resumed
        1   still paused
        64  not paused, or usage

    Examples:
        plimsoll region resume
        plimsoll region resume --region-file /srv/www/region.json
        plimsoll region resume -q
    """

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        state, now = self.state(parsed_args), datetime.now(UTC)
        with self.changing(state, now) as orders:
            if orders.pause is None:
                raise UsageError("the region is not paused")
            state.save_orders(replace(orders, pause=None))
        self.say("Resumed.", NEXT)
        return 0
