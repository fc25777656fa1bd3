"""``plimsoll region load``: which volumes make a region's load, from its Prometheus."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from plimsoll_agent.errors import Rejected, UsageError
from plimsoll_agent.terminal.columns import GUEST, NOTHING, Column
from plimsoll_agent.terminal.formats import Shown
from plimsoll_agent.terminal.listing import Listing
from plimsoll_agent.terminal.moments import add_window
from plimsoll_agent.util.text import plural
from plimsoll_insight.cli.load import heaviest_lines, side_cells, side_columns
from plimsoll_insight.load import region
from plimsoll_insight.load.region import LoadBy, LoadRow, RegionLoad
from plimsoll_monitoring.cli.base import RegionCommand
from plimsoll_monitoring.region import disks as fleet_disks
from plimsoll_monitoring.region import messages, serialize
from plimsoll_monitoring.region import status as fleet_status
from plimsoll_monitoring.region.answers import key_of

_SINCE = "1h"
_MOST = 200
_STALE = "no passes in a tenth of this time or more"


class RegionLoadList(RegionCommand, Listing):
    """List who makes the load of the region.

    It lists shares of all requests and bytes, rates, and mean sizes of requests.

    All are averages since --since, by the averages of passes: a row has the load of the whole time, also if it was
    there for a part of it; where a volume was replaced by another one, that of both. Nodes without passes in a tenth
    of it or more, or without metrics at its end, are named and not counted. Order: the largest share first, of reads,
    writes, bytes read or bytes written.

    Exit status:
        0   done
        1   error
        64  usage

    Examples:
        plimsoll region load
        plimsoll region load --by project --since 2h
        plimsoll region load --since 14:00 --until 15:00 --node node12
    """

    empty = "No disk did anything."

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--by",
            choices=[by.value for by in LoadBy],
            default=LoadBy.VOLUME.value,
            help="rows for each of these; default: volume",
        )
        add_window(parser, "the load", _SINCE)
        parser.add_argument(
            "--top", metavar="N", type=int, default=20, help=f"only the N heaviest, at most {_MOST}; default: 20"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        by, top = LoadBy(parsed_args.by), parsed_args.top
        if not 1 <= top <= _MOST:
            raise UsageError(f"--top must be 1 or more, and {_MOST} or less")
        settings, selection = self.settings(parsed_args), self.selection(parsed_args)
        prometheus = self.connect(parsed_args, settings)
        longest = ("7d", "") if parsed_args.node else ("1d", ", with --node 7d or less")
        seconds = self.window(parsed_args, prometheus, _SINCE, "5m", *longest).seconds
        first = self.ask(prometheus, region.first_questions(selection, seconds))
        if not first["last_pass"]:
            raise self.nothing(selection)
        stale, names = region.stale(first), region.regions(first)
        there = {key_of(series) for series in first["last_pass"]} - set(stale)
        if not there:
            raise Rejected(f"{self._name}: no node to count: all had {_STALE}, or have an older version")
        aggregates = fleet_disks.aggregates(first)
        if by is not LoadBy.TYPE and aggregates >= there:
            raise self.no_detail("disks")
        unreachable = fleet_status.unreachable(first)
        out = {*stale, *unreachable}
        loads = [region.of_region(prometheus.query, name, selection.nodes, out, by, seconds, top) for name in names]
        self.warn(prometheus)
        several = len({*names, *(name for name, _ in unreachable)}) > 1
        self.name_unreachable(unreachable, map(key_of, first["last_pass"]), several=several)
        for line in messages.left_out_lines(stale, _STALE, regions=several):
            self.app.stderr.write(f"{line}\n")
        if by is not LoadBy.TYPE:
            self.partly(aggregates, several=several)
        if out or (aggregates and by is not LoadBy.TYPE):
            self.empty = "No disk of the counted nodes did anything."
        rows = [(row, load) for load in loads for row in load.rows[:top] if any(row.did.requests.values())]
        rows.sort(key=lambda pair: -pair[0].largest(pair[1].whole))
        self.closing = tuple(line for load in loads for line in _closing(load, by, several=several))
        return _columns(by, several), [_cells(row, load, by, seconds) for row, load in rows[:top]]


def _columns(by: LoadBy, several: bool) -> list[Column]:
    stall = Column("stall_lines", right=True, drop=1)
    names = {
        LoadBy.VOLUME: [
            Column("volume", most=36),
            Column("several_volumes", long=True),
            Column("server", most=16),
            Column("guest", most=GUEST.most, least=GUEST.least, long=True),
            Column("guest_uuid", long=True),
            Column("disk", drop=2),
            Column("volume_type", head="TYPE", most=16, drop=1),
            Column("project", long=True),
            Column("project_name", long=True),
            stall,
        ],
        LoadBy.GUEST: [
            Column("guest", most=GUEST.most, least=GUEST.least),
            Column("guest_uuid", long=True),
            Column("server", most=20),
            Column("project", long=True),
            Column("project_name", head="PROJECT", most=16, drop=1),
            stall,
        ],
        LoadBy.PROJECT: [
            Column("project", most=36),
            Column("project_name", head="NAME", most=20),
            Column("stalled", drop=1),
        ],
        LoadBy.TYPE: [Column("volume_type", head="TYPE", most=24)],
    }[by]
    return [Column("region", most=16, long=not several), *names, *side_columns()]


def _cells(row: LoadRow, load: RegionLoad, by: LoadBy, seconds: int) -> list[object]:
    values: Mapping[str, object] = {
        "region": _name(row.region),
        "volume": _volume(row),
        "several_volumes": Shown(row.several_volumes, "yes" if row.several_volumes else "no"),
        "guest": _name(row.labels.get("domain")),
        "guest_uuid": row.labels.get("uuid"),
        "disk": row.labels.get("target_device"),
        "stall_lines": row.stall_lines,
        "stalled": serialize.moment(row.stalled),
    }
    names = _columns(by, several=True)
    sides = side_cells(row.did, load.whole, seconds)
    cells = [values.get(name, _name(row.labels.get(name))) for name in names[: -len(sides)]]
    return [*cells, *sides]


def _volume(row: LoadRow) -> Shown:
    name = row.labels.get("volume")
    return Shown(name or None, "(several)" if row.several_volumes else name or "(own disk)")


def _name(value: str | None) -> Shown:
    return Shown(value or None, value or NOTHING)


def _closing(load: RegionLoad, by: LoadBy, *, several: bool) -> Iterator[str]:
    of = f"{load.number} in {messages.name_or_no('region', load.region)}" if several else f"{load.number}"
    yield from heaviest_lines([row.did for row in load.rows], load.whole, by.value, of)
    if load.stalled_projects:
        guests = f"Guests of {plural(load.stalled_projects, 'project')} stalled in this time, by their consoles"
        yield f"{guests} ({messages.name_or_no('region', load.region)})." if several else f"{guests}."
