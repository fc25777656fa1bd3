"""``plimsoll region``: the whole region at a glance, from the Prometheus that has its metrics."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from cliff import lister

from plimsoll_agent import region, region_views, region_words, regiondisks, regionprobes, spans
from plimsoll_agent.adapters.prometheus import Prometheus
from plimsoll_agent.cli.base import LocalCommand
from plimsoll_agent.cli.page import Page, write_lines
from plimsoll_agent.config import PrometheusSettings, Settings
from plimsoll_agent.errors import ConfigError, Rejected, UsageError
from plimsoll_agent.measures import Level
from plimsoll_agent.promql import Answers, NodeKey, Selection, key_of
from plimsoll_agent.regiondisks import RegionDisk
from plimsoll_agent.regionprobes import QUANTILES, By, Row
from plimsoll_agent.report import printable

_LISTED = 50
_SHORT = 8
"""Characters that remain of an id where the terminal is narrow."""
_WIDE = 10**6
Item = TypeVar("Item")
Words = Callable[[str], str]


class RegionCommand(LocalCommand):
    """A command that asks the region's Prometheus, and no node."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--prometheus",
            metavar="URL",
            help="ask this Prometheus instead of the one in the settings; their token goes along only where it is the"
            " same host and port, or the settings name none",
        )
        parser.add_argument("--region", metavar="NAME", help="only this region, by Prometheus' label of that name")
        parser.add_argument(
            "--node",
            metavar="NODE",
            action="append",
            default=[],
            help="only this node, by its name or as Prometheus has it (instance); may be given more than once",
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

    def partly(self, aggregates: Iterable[NodeKey], *, several: bool) -> None:
        """Tell of whom nothing can be listed one by one."""
        for line in region_words.aggregate_lines(sorted(aggregates), regions=several):
            self.app.stderr.write(f"{line}\n")

    def summed(self, what: str) -> Rejected:
        """That there is nothing to list."""
        return Rejected(
            f"{self._name}: single {what} are not known, the nodes keep sums only ([metrics] detail = aggregate); see"
            " plimsoll region status, or plimsoll disk list and probe list on a node"
        )

    def nothing(self, selection: Selection) -> Rejected:
        """That Prometheus knows nothing of what was asked for."""
        of = [f"region {selection.region}"] if selection.region is not None else []
        of += [f"node {node}" for node in selection.nodes]
        asked = f" of {', '.join(of)}" if of else ""
        return Rejected(
            printable(
                f"{self._name}: has no metrics of plimsoll{asked}; set [metrics] textfile_dir on the nodes, and let"
                " node_exporter read it and this Prometheus scrape that"
            )
        )


def _prometheus(settings: PrometheusSettings, url: str | None) -> PrometheusSettings:
    """Whom to ask. Raises ``ConfigError``."""
    if not url:
        if not settings.url:
            raise ConfigError(
                "[prometheus] url: is not set, so nobody can be asked; set it, or give --prometheus URL"
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


class RegionStatus(RegionCommand, Page):
    """Show the region on one screen: its nodes, disks and probes, and what is wrong.

    A node is judged by the ranges of [health] as these settings have them.

    Exit status: 0 all is well, 3 something is not, 1 trouble, 64 usage.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        settings, selection = self.settings(parsed_args), self.selection(parsed_args)
        prometheus = self.connected(parsed_args, settings)
        answers = self.ask(prometheus, region.questions(selection))
        found = region.status(answers, prometheus.now(), settings.health)
        if not found.nodes:
            raise self.nothing(selection)
        self.status = 0 if found.level is Level.OK else 3
        self.warned(prometheus)
        several = len(found.regions) > 1
        if found.types:
            columns = region_words.type_columns(regions=several)
            self.table = columns, [*region_words.type_rows(found, regions=several)]
        self.closing = ["", *region_words.closing_lines(found)]
        return self.page(parsed_args, region_words.status_facts(found), region_views.status_data(found))


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
            write_lines(self.app.stdout, self.closing)
        return 0


def _fitting(items: Sequence[Item], cells: Callable[[Item, Words], Sequence[str]]) -> list[Sequence[str]]:
    """Rows with whole ids where the terminal has room for them, else with their beginnings."""
    rows = [cells(item, printable) for item in items]
    width = sum(max(map(len, column)) + 2 for column in zip(*rows, strict=True))
    if width <= shutil.get_terminal_size((_WIDE, 24)).columns:
        return rows
    return [cells(item, _beginning) for item in items]


def _beginning(id_: str) -> str:
    text = printable(id_)
    return text if len(text) <= _SHORT + 1 else f"{text[:_SHORT]}…"


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
    """List the disks of the region without a limit though one is wanted, not as wanted, or at the wall.

    At the wall is a disk that used 95 % of a limit or more, on average between its node's last two passes; iops is
    such an average too. The worst come first: unlimited, failed, not known, waiting, planned, at the
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
        answers = self.ask(prometheus, regiondisks.number_questions(selection, states))
        if not answers["nodes"]:
            raise self.nothing(selection)
        aggregates = regiondisks.aggregates(answers)
        if aggregates >= {key_of(series) for series in answers["nodes"]}:
            raise self.summed("disks")
        numbers = regiondisks.numbers(answers, states)
        found = regiondisks.search(prometheus.query, selection, numbers, states, most)
        disks: list[RegionDisk] = []
        if found:
            facts = self.ask(prometheus, regiondisks.fact_questions(selection, found))
            disks = _sorted(regiondisks.worst_first(regiondisks.disks(facts, found), states), parsed_args.sort)
        self.warned(prometheus)
        several = len({key_of(series)[0] for series in answers["nodes"]}) > 1
        self.partly(aggregates, several=several)
        self.closing = (region_words.disks_sum(numbers, len(disks), everything=not aggregates),)
        if parsed_args.formatter != "table":
            return region_views.DISK_COLUMNS, [region_views.disk_cells(disk) for disk in disks]
        columns = ("guest", "disk", "node", "type", "volume", "project", "iops", "used", "state")
        cells = partial(_disk_cells, now=prometheus.now(), settings=settings, several=several)
        return (*(["region"] if several else []), *columns), _fitting(disks, cells)


def _sorted(disks: list[RegionDisk], by: str) -> list[RegionDisk]:
    if by in _BY_NUMBER:
        return sorted(disks, key=_BY_NUMBER[by], reverse=True)
    return sorted(disks, key=_BY_LABEL[by]) if by in _BY_LABEL else disks


def _disk_cells(
    disk: RegionDisk, shortened: Words, *, now: float, settings: Settings, several: bool
) -> Sequence[str]:
    facts, nothing = disk.facts, region_words.NOT_KNOWN
    return (
        *([region_words.name_or_none(disk.node[0])] if several else []),
        printable(disk.domain),
        printable(disk.target),
        printable(disk.node[1]),
        printable(facts["volume_type"]) or nothing,
        shortened(facts["volume"]) or "(own disk)",
        shortened(facts["project"]) or nothing,
        region_words.rate_words(disk.operations),
        region_words.share_words(disk),
        region_words.disk_state(disk, now, settings.health),
    )


class RegionProbes(_RegionList):
    """List what probes found in the region, and which promises are broken: by type, project, node or guest.

    Runs, the part of them that kept the promise, and percentiles are those of the last day, or of --since; the
    percentiles come from all latencies of a row together. The numbers of guests that are probed, whose newest verdict
    breaks a promise, that are late (due twice, and not probed) and that were put off are as it is now. The worst come
    first.

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
        if not answers["nodes"]:
            raise self.nothing(selection)
        rows = regionprobes.rows(answers, by, selection, prometheus.now())
        aggregates = regionprobes.aggregates(answers)
        if not answers["known"] and aggregates and (by in (By.PROJECT, By.GUEST) or selection.projects):
            raise self.summed("guests")
        self.warned(prometheus)
        listed = rows[: parsed_args.limit or None]
        several = len({row.labels["region"] for row in rows}) > 1
        self.partly(aggregates, several=several)
        self.closing = (region_words.probes_sum(rows, len(listed)),)
        if parsed_args.formatter != "table":
            return region_views.row_columns(by), [region_views.row_cells(row) for row in listed]
        counts = () if by is By.GUEST else ("guests",)
        columns = (*_NAMES[by], "runs", "kept", *region_words.QUANTILE_HEADS, *counts, "broken", "late", "put_off")
        cells = partial(_probe_cells, by=by, several=several)
        return (*(["region"] if several else []), *columns), _fitting(listed, cells)


def _window(since: str) -> str:
    """As PromQL has it. Raises ``UsageError``."""
    try:
        return f"{int(spans.parse(since).total_seconds())}s"
    except ValueError as error:
        raise UsageError(f"--since: {error}") from error


_NAMES = {By.TYPE: ("type",), By.PROJECT: ("project",), By.NODE: ("node",), By.GUEST: ("guest", "node")}


def _probe_cells(row: Row, shortened: Words, *, by: By, several: bool) -> Sequence[str]:
    count = region_words.count_words
    labels = {name: region_words.NOT_KNOWN if value is None else value for name, value in row.labels.items()}
    match by:
        case By.TYPE:
            names = [region_words.name_or_none(labels["volume_type"])]
        case By.PROJECT:
            names = [shortened(labels["project"]) or "(none)"]
        case By.NODE:
            names = [printable(labels["instance"])]
        case By.GUEST:
            names = [printable(labels["domain"]) or "(not told)", printable(labels["instance"])]
    numbers = (row.guests, row.broken, row.late, row.put_off)
    return (
        *([region_words.name_or_none(labels["region"])] if several else []),
        *names,
        count(sum(row.runs.values())),
        region_words.percent(row.kept),
        *(region_words.seconds_words(row.quantiles[name]) for name in QUANTILES),
        *(count(number) for number in numbers[1 if by is By.GUEST else 0 :]),
    )
