"""``plimsoll region``: the whole region at a glance, from the Prometheus that has its metrics."""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from cliff import lister, show

from plimsoll_agent import region, region_words, regiondisks, regionprobes, spans
from plimsoll_agent.adapters.prometheus import Prometheus
from plimsoll_agent.cli.base import LocalCommand
from plimsoll_agent.cli.formats import PlainTable, Shown
from plimsoll_agent.config import PrometheusSettings, Settings
from plimsoll_agent.errors import ConfigError, Rejected, UsageError
from plimsoll_agent.measures import Level
from plimsoll_agent.promql import Answers, Selection
from plimsoll_agent.regiondisks import RegionDisk
from plimsoll_agent.regionprobes import QUANTILES, By, Row
from plimsoll_agent.report import printable

_LISTED = 50
_SHORT = 8
"""Characters that remain of an id where the terminal is narrow."""
_WIDE = 10**6
Item = TypeVar("Item")


class RegionCommand(LocalCommand):
    """A command that asks the region's Prometheus, and no node."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--prometheus",
            metavar="URL",
            help="ask this Prometheus instead of the one in the settings; the token of the settings goes along only if"
            " it is the same host and port, or the settings name none",
        )
        parser.add_argument("--region", metavar="NAME", help="only this region, by Prometheus' label of that name")
        parser.add_argument(
            "--node",
            metavar="NODE",
            action="append",
            default=[],
            help="only this node, by its name or as Prometheus has it (the label instance); may be given more than once",
        )
        return parser

    def selection(self, parsed_args: argparse.Namespace) -> Selection:
        return Selection(parsed_args.region, tuple(parsed_args.node))

    def connected(self, parsed_args: argparse.Namespace, settings: Settings) -> Prometheus:
        """Nothing is asked yet. Raises ``ConfigError``."""
        given = _prometheus(settings.prometheus, parsed_args.prometheus)
        self._name = given.url
        return Prometheus(
            given.url,
            token_file=Path(given.token_file) if given.token_file else None,
            ca_file=Path(given.ca_file) if given.ca_file else None,
            deadline=given.deadline,
        )

    def ask(self, prometheus: Prometheus, questions: Mapping[str, str]) -> Answers:
        """Raises ``Unreachable``, ``Unanswered``, ``Rejected``."""
        return {name: prometheus.query(question) for name, question in questions.items()}

    def warned(self, prometheus: Prometheus) -> None:
        """Tell that what is shown is not whole, and end so."""
        for warning in prometheus.warnings:
            self.app.stderr.write(f"{warning}\n")
            self.status = 1

    def nothing(self, selection: Selection) -> Rejected:
        """That Prometheus knows nothing of what was asked for."""
        of = [f"region {selection.region}"] if selection.region is not None else []
        of += [f"node {node}" for node in selection.nodes]
        asked = f" of {', '.join(of)}" if of else ""
        return Rejected(
            printable(
                f"{self._name}: has no metrics of plimsoll{asked}; see that [metrics] textfile_dir is set on the nodes,"
                " that node_exporter reads it, and that this Prometheus scrapes that"
            )
        )


def _prometheus(settings: PrometheusSettings, url: str | None) -> PrometheusSettings:
    """Whom to ask. Raises ``ConfigError``."""
    if not url:
        if not settings.url:
            raise ConfigError(
                "[prometheus] url: is not set, so nobody can be asked about the region; set it, or give --prometheus URL"
            )
        return settings
    # A token is for whom it was meant.
    same = not settings.url or _origin(settings.url) == _origin(url)
    return PrometheusSettings(url, settings.token_file if same else "", settings.ca_file, settings.deadline)


def _origin(url: str) -> object:
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None


class RegionStatus(RegionCommand, show.ShowOne):
    """Show the region on one screen: its nodes, disks and probes, and what is wrong.

    A node is judged by the ranges of [health] as these settings have them.

    Exit status: 0 all is well, 3 something is not, 1 trouble, 64 usage.
    """

    @property
    def formatter_namespace(self) -> str:
        return "plimsoll.formatter.show"

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        settings, selection = self.settings(parsed_args), self.selection(parsed_args)
        prometheus = self.connected(parsed_args, settings)
        answers = self.ask(prometheus, region.questions(selection))
        self._found = region.status(answers, prometheus.now(), settings.health)
        if not self._found.nodes:
            raise self.nothing(selection)
        self.status = 0 if self._found.level is Level.OK else 3
        self.warned(prometheus)
        if parsed_args.formatter == "table":
            facts = region_words.status_facts(self._found)
            return tuple(facts), tuple(facts.values())
        data = region_words.status_data(self._found)
        if parsed_args.formatter == "csv":  # a cell holds no objects
            data = {
                name: json.dumps(value) if isinstance(value, dict | list) else value for name, value in data.items()
            }
        return tuple(data), tuple(data.values())

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Sequence[Any]
    ) -> int:
        super().produce_output(parsed_args, column_names, data)
        if parsed_args.formatter == "table" and not parsed_args.columns:
            several = len(self._found.regions) > 1
            if self._found.types:
                self.app.stdout.write("\n")
                PlainTable().emit_list(
                    region_words.type_columns(regions=several),
                    region_words.type_rows(self._found, regions=several),
                    self.app.stdout,
                    parsed_args,
                )
            self.app.stdout.write("\n")
            for line in region_words.closing_lines(self._found):
                self.app.stdout.write(f"{line}\n")
        return 0


class _RegionList(RegionCommand, lister.Lister):
    """A list of the worst of the region."""

    closing: Sequence[str] = ()

    @property
    def formatter_namespace(self) -> str:
        return "plimsoll.formatter.list"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        for name, what in (("type", "volume type, by its name"), ("project", "project, by its id")):
            parser.add_argument(
                f"--{name}",
                metavar=name.upper(),
                action="append",
                default=[],
                help=f"only this {what}; may be given more than once",
            )
        parser.add_argument(
            "--limit",
            metavar="N",
            type=int,
            default=_LISTED,
            help=f"the worst N, 0 for all; default: {_LISTED}",
        )
        return parser

    def selection(self, parsed_args: argparse.Namespace) -> Selection:
        """Raises ``UsageError``."""
        if parsed_args.limit < 0:
            raise UsageError("--limit must be 0 or more")
        return Selection(
            parsed_args.region, tuple(parsed_args.node), tuple(parsed_args.type), tuple(parsed_args.project)
        )

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Iterable[Sequence[Any]]
    ) -> int:
        super().produce_output(parsed_args, column_names, data)
        if parsed_args.formatter == "table":
            for line in self.closing:
                self.app.stdout.write(f"{line}\n")
        return 0


def _fitting(items: Sequence[Item], cells: Callable[[Item, Callable[[str], str]], Sequence[Shown]]) -> list[Any]:
    """Rows with whole ids where the terminal has room, else with their beginnings; programs get them whole."""
    rows = [cells(item, printable) for item in items]
    columns = zip(*([shown.human_readable() for shown in row] for row in rows), strict=True)
    width = sum(max(map(len, column)) + 2 for column in columns)
    if width <= shutil.get_terminal_size((_WIDE, 24)).columns:
        return rows
    return [cells(item, _beginning) for item in items]


def _beginning(id_: str) -> str:
    text = printable(id_)
    return text if len(text) <= _SHORT + 1 else f"{text[:_SHORT]}…"


DISK_COLUMNS = ("guest", "disk", "node", "type", "volume", "project", "iops", "bytes_sec", "used", "state")
_BY_LABEL: Mapping[str, Callable[[RegionDisk], str]] = {
    "node": lambda disk: disk.node[1],
    "type": lambda disk: disk.facts["volume_type"],
    "project": lambda disk: disk.facts["project"],
}
_BY_NUMBER: Mapping[str, Callable[[RegionDisk], float]] = {
    "used": lambda disk: disk.share or 0.0,
    "iops": lambda disk: disk.operations or 0.0,
    "bytes_sec": lambda disk: disk.bytes or 0.0,
}


class RegionDisks(_RegionList):
    """List the disks of the region without a limit though one is wanted, not as wanted, or at the wall.

    At the wall is a disk that used 95 % of a limit or more, on average between its node's last two passes; iops and
    bytes_sec are such averages too. The worst come first: unlimited, failed, not known, waiting, planned, at the
    wall, and among these those that do the most.

    Exit status: 0, 1 trouble, 64 usage.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--state",
            action="append",
            choices=regiondisks.STATES,
            help="only disks in this state; may be given more than once, and the order is that of the list then",
        )
        parser.add_argument(
            "--sort",
            choices=("worst", *_BY_NUMBER, *_BY_LABEL),
            default="worst",
            help="the order of what is listed, which are the worst whatever their order; default: worst",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        settings, selection = self.settings(parsed_args), self.selection(parsed_args)
        states, most = tuple(dict.fromkeys(parsed_args.state or regiondisks.WORST)), parsed_args.limit
        prometheus = self.connected(parsed_args, settings)
        answers = self.ask(prometheus, regiondisks.find_questions(selection, states, most))
        numbers = regiondisks.numbers(answers, states)
        found = regiondisks.found(answers, states, most)
        if not answers["nodes"]:
            raise self.nothing(selection)
        facts = self.ask(prometheus, regiondisks.fact_questions(selection, found)) if found else {}
        disks = _sorted(regiondisks.disks(facts, found) if found else [], parsed_args.sort)
        self.warned(prometheus)
        aggregates = region_words.aggregate_lines(sorted(regiondisks.aggregates(answers)))
        self.closing = (region_words.disks_sum(numbers, len(disks)), *aggregates)
        cells = partial(_disk_cells, now=prometheus.now(), settings=settings)
        return DISK_COLUMNS, _fitting(disks, cells)


def _sorted(disks: list[RegionDisk], by: str) -> list[RegionDisk]:
    if by in _BY_NUMBER:
        return sorted(disks, key=_BY_NUMBER[by], reverse=True)
    return sorted(disks, key=_BY_LABEL[by]) if by in _BY_LABEL else disks


def _disk_cells(
    disk: RegionDisk, shortened: Callable[[str], str], *, now: float, settings: Settings
) -> Sequence[Shown]:
    facts, nothing = disk.facts, region_words.NOT_KNOWN
    return (
        Shown({"name": disk.domain, "uuid": disk.uuid}, printable(disk.domain)),
        Shown(disk.target, printable(disk.target)),
        Shown(disk.node[1], printable(disk.node[1])),
        Shown(facts["volume_type"] or None, printable(facts["volume_type"]) or nothing),
        Shown(facts["volume"] or None, shortened(facts["volume"]) or "(own disk)"),
        Shown(facts["project"] or None, shortened(facts["project"]) or nothing),
        Shown(disk.operations, region_words.rate_words(disk.operations)),
        Shown(disk.bytes, region_words.bytes_words(disk.bytes)),
        Shown({} if disk.wall is None else {disk.wall: disk.share}, region_words.share_words(disk)),
        Shown(list(disk.states), region_words.disk_state(disk, now, settings.health)),
    )


class RegionProbes(_RegionList):
    """List what probes found in the region, and which promises are broken: by type, project, node or guest.

    Runs, the part of them that kept the promise, and percentiles are those of the last day, or of --since. Percentiles
    come from all latencies of a row together. Guests, broken (their newest verdict), late (due twice, and not
    probed) and put off are as it is now. The worst come first.

    Exit status: 0, 1 trouble, 64 usage.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--by",
            choices=[by.value for by in By],
            default=By.TYPE.value,
            help="what a row stands for; default: type",
        )
        parser.add_argument("--since", metavar="SPAN", default="1d", help="how far back: 6h, 7d; default: 1d")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        settings, selection, by = self.settings(parsed_args), self.selection(parsed_args), By(parsed_args.by)
        prometheus = self.connected(parsed_args, settings)
        answers = self.ask(prometheus, regionprobes.questions(selection, by, _window(parsed_args.since)))
        rows = regionprobes.rows(answers, by, prometheus.now())
        self.warned(prometheus)
        listed = rows[: parsed_args.limit or None]
        aggregates = region_words.aggregate_lines(sorted(regionprobes.aggregates(answers)))
        self.closing = (region_words.probes_sum(rows, len(listed)), *aggregates)
        return _probe_columns(by), _fitting(listed, partial(_probe_cells, by=by))


def _window(since: str) -> str:
    """As PromQL has it. Raises ``UsageError``."""
    try:
        return f"{int(spans.parse(since).total_seconds())}s"
    except ValueError as error:
        raise UsageError(f"--since: {error}") from error


_NAMES = {By.TYPE: ("type",), By.PROJECT: ("project",), By.NODE: ("node",), By.GUEST: ("guest", "node")}


def _probe_columns(by: By) -> tuple[str, ...]:
    counts = () if by is By.GUEST else ("guests",)
    return ("region", *_NAMES[by], "runs", "kept", *QUANTILES, *counts, "broken", "late", "put_off")


def _probe_cells(row: Row, shortened: Callable[[str], str], *, by: By) -> Sequence[Shown]:
    labels, count = row.labels, region_words.count_words
    runs = {verdict: round(number) for verdict, number in row.runs.items() if round(number)}
    names = {
        By.TYPE: lambda: [Shown(labels["volume_type"], region_words.name_or_none(labels["volume_type"]))],
        By.PROJECT: lambda: [Shown(labels["project"], shortened(labels["project"]) or "(none)")],
        By.NODE: lambda: [Shown(labels["instance"], printable(labels["instance"]))],
        By.GUEST: lambda: [
            Shown({"name": labels["domain"], "uuid": labels["uuid"]}, printable(labels["domain"]) or "(not told)"),
            Shown(labels["instance"], printable(labels["instance"])),
        ],
    }[by]()
    numbers = (row.guests, row.broken, row.late, row.put_off)
    return (
        Shown(labels["region"], region_words.name_or_none(labels["region"])),
        *names,
        Shown(runs, str(sum(runs.values()))),
        Shown(row.kept, region_words.percent(row.kept)),
        *(Shown(row.quantiles[name], region_words.seconds_words(row.quantiles[name])) for name in QUANTILES),
        *(Shown(number, count(number)) for number in numbers[1 if by is By.GUEST else 0 :]),
    )
