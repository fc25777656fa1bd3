"""``plimsoll region``: the whole region, from the Prometheus that has its metrics."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from plimsoll_agent.config.settings import Settings
from plimsoll_agent.errors import UsageError
from plimsoll_agent.messages.tones import TONES, Tone, worst
from plimsoll_agent.monitor.thresholds import Level
from plimsoll_agent.terminal.columns import GUEST, NOTHING, Column
from plimsoll_agent.terminal.formats import Shown
from plimsoll_agent.terminal.listing import Listing
from plimsoll_agent.terminal.moments import add_window
from plimsoll_agent.terminal.page import Page
from plimsoll_agent.terminal.problems import Line
from plimsoll_monitoring.cli.base import RegionCommand
from plimsoll_monitoring.promql import SeriesSelection
from plimsoll_monitoring.region import disks as fleet_disks
from plimsoll_monitoring.region import messages, serialize
from plimsoll_monitoring.region import probes as fleet_probes
from plimsoll_monitoring.region import problems as fleet_problems
from plimsoll_monitoring.region import status as fleet_status
from plimsoll_monitoring.region.answers import key_of
from plimsoll_monitoring.region.disks import RegionDisk
from plimsoll_monitoring.region.probes import QUANTILES, ProbeRow, ProbesBy

_LISTED = 50
_SINCE = "1d"


_TYPE_DROPS = {"reverted": 1, "p99.9": 2, "p50": 3, "runs": 4, "at_limit": 5}
"""Where the terminal is narrow, columns of volume types are left out in this order."""


class RegionStatus(RegionCommand, Page):
    """Show the region, what is wrong first.

    It lists what is wrong with its nodes and the command to run next, then nodes, disks and probes.

    Nodes are judged by the ranges in [health] of this machine's settings. Alerts of plimsoll that fire in this
    Prometheus are told, too.

    Exit status:
        0   no problems
        3   problems
        1   error
        64  usage

    Examples:
        plimsoll region status
        plimsoll region status --region north
        plimsoll region status --node node12
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        settings, selection = self.settings(parsed_args), self.selection(parsed_args)
        prometheus = self.connect(parsed_args, settings)
        answers = self.ask(prometheus, fleet_status.questions(selection))
        status = fleet_status.status(answers, prometheus.now(), settings.health)
        if not status.nodes:
            raise self.nothing(selection)
        self.status = 0 if status.level is Level.OK else 3
        self.warn(prometheus)
        several = len(status.regions) > 1
        if status.types:
            columns = [
                Column(name, right=name not in ("region", "type"), drop=_TYPE_DROPS.get(name, 0))
                for name in messages.type_columns(regions=several)
            ]
            self.table = columns, [*messages.type_rows(status, regions=several)]
        arguments = ("--prometheus", parsed_args.prometheus) if parsed_args.prometheus else ()
        problems = [*fleet_problems.problems(status, self.app.settings_options, arguments)]
        lines = [Line(problem.level, problem.text, problem.do) for problem in problems]
        lines = lines or [Line(Level.OK, messages.good_words(status))]
        self.opening = [*lines, *(Line(None, remark) for remark in messages.remarks(status))]
        people = messages.status_facts(status)
        return self.page(parsed_args, people, serialize.status_data(status, problems))


class _RegionList(RegionCommand, Listing):
    """A list, the worst first."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        for name, what in (("type", "volume type, by its name"), ("project", "project, by its ID")):
            parser.add_argument(
                f"--{name}",
                metavar=name.upper(),
                action="append",
                default=[],
                help=f"only this {what}; repeatable",
            )
        parser.add_argument(
            "--top",
            metavar="N",
            type=int,
            default=_LISTED,
            help=f"only the worst N, 0 for all; default: {_LISTED}",
        )
        return parser

    def selection(self, parsed_args: argparse.Namespace) -> SeriesSelection:
        """Raises ``UsageError``."""
        if parsed_args.top < 0:
            raise UsageError("--top must be 0 or more")
        return SeriesSelection(
            region=parsed_args.region,
            nodes=tuple(parsed_args.node),
            types=tuple(parsed_args.type),
            projects=tuple(parsed_args.project),
        )


_BY_LABEL: Mapping[str, Callable[[RegionDisk], str]] = {
    "node": lambda disk: disk.node[1],
    "type": lambda disk: disk.facts["volume_type"],
    "project": lambda disk: disk.facts["project"],
}
_BY_NUMBER: Mapping[str, Callable[[RegionDisk], float]] = {
    "used": lambda disk: disk.share or 0.0,
    "iops": lambda disk: disk.operations or 0.0,
}


class RegionDisks(_RegionList):
    """List disks that are unlimited, out of sync, at limit.

    The worst comes first.

    At limit: at least 95 % of a limit used, on average between the last two passes of its node; iops is the same
    average. Order: unlimited, failed, unknown, deferred, planned, at limit; within each, the busiest first.

    Exit status:
        0   done
        1   error
        64  usage

    Examples:
        plimsoll region disks
        plimsoll region disks --state unlimited
        plimsoll region disks --type gold --sort used
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--state",
            action="append",
            metavar="STATE",
            choices=fleet_disks.STATES,
            help="only disks in this state; repeatable, and listed in this order: " + ", ".join(fleet_disks.STATES),
        )
        parser.add_argument(
            "--sort",
            choices=("worst", *_BY_NUMBER, *_BY_LABEL),
            default="worst",
            help="order in the list; which disks are listed stays the same; default: worst",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        settings, selection = self.settings(parsed_args), self.selection(parsed_args)
        states, most = tuple(dict.fromkeys(parsed_args.state or fleet_disks.WORST)), parsed_args.top
        prometheus = self.connect(parsed_args, settings)
        questions = fleet_status.node_questions(selection.matchers())
        answers = self.ask(prometheus, questions | fleet_disks.number_questions(selection, states))
        if not answers["last_pass"]:
            raise self.nothing(selection)
        nodes, aggregates = {key_of(series) for series in answers["last_pass"]}, fleet_disks.aggregates(answers)
        if aggregates >= nodes:
            raise self.no_detail("disks")
        numbers = fleet_disks.numbers(answers, states)
        keys = fleet_disks.search(prometheus.query, selection, numbers, states, most)
        disks: list[RegionDisk] = []
        if keys:
            facts = self.ask(prometheus, fleet_disks.fact_questions(selection, keys))
            disks = _sort(fleet_disks.worst_first(fleet_disks.disks(facts, keys), states), parsed_args.sort)
        self.warn(prometheus)
        unreachable = fleet_status.unreachable(answers)
        overdue = fleet_status.overdue(answers, prometheus.now(), settings.health)
        several = len({region for region, _ in nodes | unreachable}) > 1
        self.partly(aggregates, several=several)
        self.name_unreachable(unreachable, nodes, several=several)
        self.remark(messages.overdue_lines(overdue, regions=several))
        everything = not (aggregates or unreachable or overdue)
        self.closing = (messages.disks_sum(numbers, len(disks), everything=everything),)
        self.empty = self.closing[0]
        return _disk_columns(several), [_disk_cells(disk, prometheus.now(), settings) for disk in disks]


def _sort(disks: list[RegionDisk], by: str) -> list[RegionDisk]:
    if by in _BY_NUMBER:
        return sorted(disks, key=_BY_NUMBER[by], reverse=True)
    return sorted(disks, key=_BY_LABEL[by]) if by in _BY_LABEL else disks


_DISK_TRAITS: Mapping[str, Mapping[str, Any]] = {
    "node": {"most": 24},
    "server": {"most": 20},
    "guest": {"most": GUEST.most, "least": GUEST.least, "drop": 4, "apart": True},
    "disk": {},
    "volume": {"drop": 1},
    "project": {"drop": 2, "most": 36},
    "volume_type": {"head": "TYPE", "most": 16},
    "states": {"head": "STATE", "wraps": True},
    "operations_per_second": {"head": "IOPS", "right": True},
    "limit_ratio": {"head": "USED", "right": True},
}
"""Of the columns for people; programs have more."""


def _disk_columns(several: bool) -> list[Column]:
    traits = {**_DISK_TRAITS, "region": {"drop": 3, "long": not several}}
    return [Column(name, **traits.get(name, {"long": True})) for name in serialize.DISK_COLUMNS]


def _disk_cells(disk: RegionDisk, now: float, settings: Settings) -> list[object]:
    people = {
        "region": messages.name_or_no("region", disk.node[0]),
        "volume": disk.facts["volume"] or "(own disk)",
        "project": disk.facts["project_name"] or disk.facts["project"] or NOTHING,
        "operations_per_second": messages.rate_words(disk.operations),
        "limit_ratio": messages.share_words(disk),
        "states": messages.disk_state(disk, now, settings.health),
    }
    return _cells(serialize.DISK_COLUMNS, serialize.disk_cells(disk), people, {"states": worst(disk.states)})


def _cells(
    names: Sequence[str], values: Sequence[object], people: Mapping[str, str], tones: Mapping[str, Tone | None]
) -> list[object]:
    pairs = zip(names, values, strict=True)
    return [Shown(value, people[name], tones.get(name)) if name in people else value for name, value in pairs]


class RegionProbes(_RegionList):
    """List the results of probes in the region.

    A row is a type, a project, a node or a guest; the worst comes first.

    Runs, the share of them that kept the promise, and latency percentiles are those of the last day, or since
    --since; percentiles come from all latencies of a row together. The numbers of guests (probed, with a broken
    promise as newest verdict, overdue: due twice without a run, postponed) are those of now.

    Exit status:
        0   done
        1   error
        64  usage

    Examples:
        plimsoll region probes
        plimsoll region probes --by guest --type gold
        plimsoll region probes --since 7d --region north
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--by",
            choices=[by.value for by in ProbesBy],
            default=ProbesBy.TYPE.value,
            help="one row per type, project, node or guest; default: type",
        )
        add_window(parser, "runs that ended", _SINCE)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        settings, selection, by = self.settings(parsed_args), self.selection(parsed_args), ProbesBy(parsed_args.by)
        prometheus = self.connect(parsed_args, settings)
        window = self.window(parsed_args, prometheus, _SINCE, least="1m", most="366d")
        questions = fleet_status.node_questions(selection.matchers())
        answers = self.ask(prometheus, questions | fleet_probes.questions(selection, by, f"{window.seconds}s"))
        if not answers["last_pass"]:
            raise self.nothing(selection)
        rows = fleet_probes.rows(answers, by, selection, prometheus.now())
        aggregates = fleet_probes.aggregates(answers)
        if not answers["known"] and aggregates and (by in (ProbesBy.PROJECT, ProbesBy.GUEST) or selection.projects):
            raise self.no_detail("guests")
        self.warn(prometheus)
        top = rows[: parsed_args.top or None]
        unreachable = fleet_status.unreachable(answers)
        several = len({row.labels["region"] for row in rows} | {region for region, _ in unreachable}) > 1
        self.partly(aggregates, several=several)
        self.name_unreachable(unreachable, map(key_of, answers["last_pass"]), several=several)
        self.closing = (messages.probes_sum(rows, len(top), everything=not unreachable),)
        self.empty = self.closing[0]
        return _probe_columns(by, several), [_probe_cells(row, by) for row in top]


def _probe_columns(by: ProbesBy, several: bool) -> list[Column]:
    traits: dict[str, Mapping[str, Any]] = {
        "region": {"drop": 5, "long": not several},
        "volume_type": {"head": "TYPE", "most": 24},
        "guest": {"most": GUEST.most, "least": GUEST.least},
        "node": {"most": 24},
        "guest_uuid": {"long": True},
        "project": {"most": 36},
        "guests": {"right": True, "drop": 3, "long": by is ProbesBy.GUEST},
        "postponed": {"right": True, "drop": 2},
        "p50": {"right": True, "drop": 1},
        "p999": {"right": True, "drop": 4, "head": "P99.9"},
        **{name: {"right": True} for name in ("runs", "kept", "p99", "broken")},
        "late": {"right": True, "head": "OVERDUE"},
    }
    return [Column(name, **traits.get(name, {})) for name in serialize.row_columns(by)]


def _probe_cells(row: ProbeRow, by: ProbesBy) -> list[object]:
    names = serialize.row_columns(by)
    count = messages.count_words
    people = dict[str, str]()
    for name, value in zip(names[: len(row.labels)], row.labels.values(), strict=True):
        nothing = "(unknown)" if name == "guest" else f"no {messages.noun_of(name)}"
        people[name] = messages.UNKNOWN if value is None else value or nothing
    people |= {name: messages.seconds_words(row.quantiles[name]) for name in QUANTILES}
    people |= {"runs": count(sum(row.runs.values())), "kept": messages.kept_words(row.runs)}
    wrong = {name: number for name, number in (("broken", row.broken), ("late", row.late)) if number}
    people |= {name: count(number) for name, number in wrong.items()}
    tones = {name: TONES[name] for name in wrong}
    return _cells(names, serialize.row_cells(row), people, tones)
