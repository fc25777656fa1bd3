"""``plimsoll region plan``: whom each stage of an approval would reach."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from plimsoll_agent.catalogue.orders_file import RegionState
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.terminal.columns import Column
from plimsoll_agent.terminal.formats import Shown
from plimsoll_agent.terminal.listing import Listing
from plimsoll_monitoring.cli.base import RegionCommand
from plimsoll_monitoring.cli.region_approvals import DEFAULT_STAGES, percents
from plimsoll_monitoring.promql import SeriesSelection
from plimsoll_monitoring.region import plan
from plimsoll_monitoring.region.disks import aggregates


class RegionPlan(RegionCommand, Listing):
    """List whom each stage of an approval reaches.

    A row is a project in a stage, with its guests and disks that the stage adds; the first stage comes first.

    Counted are disks of the volume types that the QoS specs would change which the region's brake has deferred, as
    this machine read them last, or those of --type. Without either, all disks are.

    Exit status:
        0   done
        1   error
        64  usage

    Examples:
        plimsoll region plan
        plimsoll region plan --stages 5%,25%,100%
        plimsoll region plan --type gold --region north
    """

    of_nodes = False

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--stages",
            metavar="PERCENT,…",
            default=DEFAULT_STAGES,
            help="as in plimsoll region approve; default: 1%%,10%%,100%%",
        )
        parser.add_argument(
            "--type",
            metavar="TYPE",
            action="append",
            default=[],
            help="only this volume type, by its name; repeatable",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        stages, settings = percents(parsed_args.stages), self.settings(parsed_args)
        types = tuple(parsed_args.type) or self._touched(settings)
        selection = SeriesSelection(region=parsed_args.region, types=types)
        prometheus = self.connect(parsed_args, settings)
        answers = self.ask(prometheus, plan.questions(selection))
        if not answers["nodes"]:
            raise self.nothing(selection)
        if not answers["disks"] and aggregates(self.ask(prometheus, {"aggregates": plan.without_disks(selection)})):
            raise self.no_detail("disks")
        self.warn(prometheus)
        rows = list(plan.reaches(answers, stages))
        of_types = f"Disks of type {', '.join(types)}." if types else "Disks of all types."
        self.closing = (of_types, *plan.stage_lines(answers, stages, rows))
        self.empty = "\n".join(self.closing)
        several = len({row.region for row in rows}) > 1
        columns = [
            Column("region", long=not several),
            Column("stage", right=True),
            Column("percent", right=True),
            Column("nodes", right=True),
            Column("project", most=36),
            Column("guests", right=True),
            Column("disks", right=True),
        ]
        return columns, [
            (
                row.region,
                row.stage,
                Shown(row.percent, f"{row.percent:g} %"),
                row.nodes,
                Shown(row.project, row.name or row.project or "no project"),
                row.guests,
                row.disks,
            )
            for row in rows
        ]

    def _touched(self, settings: Settings) -> tuple[str, ...]:
        """The names of the types that an edit would change which this machine has read."""
        if settings.region.file is None:
            return ()
        try:
            last = RegionState(settings.region.file).last()
        except PlimsollError as error:
            self.warn_of(str(error))
            return ()
        return () if last is None else tuple(sorted(last.types.get(id, id) for id in last.touched))
