"""The base of commands that query the region's Prometheus."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from plimsoll_agent.config.settings import PrometheusSettings, Settings
from plimsoll_agent.errors import ConfigError, Rejected, UsageError
from plimsoll_agent.monitor.site_labels import SiteLabels
from plimsoll_agent.terminal.base import LocalCommand
from plimsoll_agent.terminal.moments import Window, ends, window
from plimsoll_agent.util import durations
from plimsoll_agent.util.frozen import replace
from plimsoll_agent.util.text import printable
from plimsoll_monitoring.adapters.prometheus import Prometheus
from plimsoll_monitoring.promql import SeriesSelection
from plimsoll_monitoring.region import messages
from plimsoll_monitoring.region.answers import Answers, NodeKey

NOT_SET = "[prometheus] url: not set; set it"


class PrometheusCommand(LocalCommand):
    """A command that may query the region's Prometheus."""

    _labels = SiteLabels()

    def add_source(self, parser: argparse.ArgumentParser) -> None:
        """The option that names the Prometheus."""
        parser.add_argument(
            "--prometheus",
            metavar="URL",
            help="query this Prometheus instead of the one in the settings; their token is sent only to the same"
            " host and port, or if the settings have no url",
        )

    def connect(self, parsed_args: argparse.Namespace, settings: Settings) -> Prometheus:
        """It connects at the first query. Raises ``ConfigError``."""
        target = chosen(settings.prometheus, parsed_args.prometheus)
        self._name = target.url
        self._labels = target.labels
        return prometheus_of(target)


class RegionCommand(PrometheusCommand):
    """A command that queries the region's Prometheus, and no node."""

    of_nodes = True
    """It can be asked of single nodes."""
    _prometheus: Prometheus | None = None
    """Whose warnings are not told yet."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        self.add_source(parser)
        parser.add_argument("--region", metavar="NAME", help="only this region, by its label in Prometheus")
        if self.of_nodes:
            parser.add_argument(
                "--node",
                metavar="NODE",
                action="append",
                default=[],
                help="only this node, by its name or its instance in Prometheus; repeatable",
            )
        return parser

    def connect(self, parsed_args: argparse.Namespace, settings: Settings) -> Prometheus:
        self._prometheus = super().connect(parsed_args, settings)
        return self._prometheus

    def before_error(self) -> None:
        """Where an answer was incomplete, what is missing in it may be there."""
        if self._prometheus is not None:
            self.warn(self._prometheus)

    def selection(self, parsed_args: argparse.Namespace) -> SeriesSelection:
        return SeriesSelection(region=parsed_args.region, nodes=tuple(parsed_args.node))

    def window(
        self,
        parsed_args: argparse.Namespace,
        prometheus: Prometheus,
        default: str,
        least: str,
        most: str,
        why: str = "",
    ) -> Window:
        """What --since and --until say; all later queries are as of its end. Raises ``UsageError``, and as ``query``.

        ``least`` and ``most`` are durations that it must have, ``why`` a word on them.
        """
        # What is wrong by itself is told before anything is asked.
        if parsed_args.until is None:
            _check_bounds(window(parsed_args, datetime.now(UTC), default), least, most, why)
        else:
            ends(parsed_args, datetime.now(UTC))
        period = window(parsed_args, datetime.fromtimestamp(prometheus.now(), UTC), default)
        _check_bounds(period, least, most, why)
        prometheus.as_of(period.until.timestamp())
        return period

    def ask(self, prometheus: Prometheus, questions: Mapping[str, str]) -> Answers:
        """Raises ``Unreachable``, ``DeadlineExceeded``, ``Rejected``."""
        return {name: prometheus.query(question) for name, question in questions.items()}

    def warn(self, prometheus: Prometheus) -> None:
        """Print that the result is incomplete, and end with status 1."""
        self._prometheus = None
        for warning in prometheus.warnings:
            self.warn_of(warning)
            self.status = 1

    def partly(self, aggregates: Iterable[NodeKey], *, several: bool) -> None:
        """Print the nodes whose disks and guests cannot be listed."""
        self.remark(messages.aggregate_lines(sorted(aggregates), regions=several))

    def name_unreachable(
        self, unreachable: Iterable[NodeKey], reporting: Iterable[NodeKey], *, several: bool
    ) -> None:
        """Print the nodes that had metrics lately and have none, beside those that have some."""
        self.remark(messages.unreachable_lines(sorted(unreachable), reporting, regions=several))

    def remark(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.app.stderr.write(f"{line}\n")

    def no_detail(self, what: str) -> Rejected:
        """The error where no node has metrics to list."""
        return Rejected(
            f"{self._name}: no metrics of single {what}: the nodes have [metrics] detail = aggregate; see"
            " plimsoll region status, or plimsoll disk list and probe list on a node"
        )

    def nothing(self, selection: SeriesSelection) -> Rejected:
        """The error where Prometheus has no metrics of the selection."""
        of = [f"region {selection.region}"] if selection.region is not None else []
        of += [f"node {node}" for node in selection.nodes]
        extent = f" of {', '.join(of)}" if of else ""
        return Rejected(
            printable(
                f"{self._name}: no metrics of plimsoll{extent}; set [metrics] textfile_dir on the nodes, have"
                f" node_exporter read it, and have this Prometheus scrape node_exporter{self._named_so(of)}"
            )
        )

    def _named_so(self, of: list[str]) -> str:
        """Where regions or nodes were selected: by which labels."""
        if not of:
            return ""
        return (
            f", with the labels {', '.join(self._labels.of_targets)} or those that [prometheus] region_labels and"
            " instance_label name"
        )


def _check_bounds(period: Window, least: str, most: str, why: str) -> None:
    """Raises ``UsageError``."""
    if not durations.parse(least) <= period.until - period.since <= durations.parse(most):
        raise UsageError(f"--since must be {least} or more before the end, and {most} or less{why}")


def prometheus_of(settings: PrometheusSettings) -> Prometheus:
    """Raises ``ConfigError``."""
    if not settings.url:
        raise ConfigError(NOT_SET)
    return Prometheus(
        settings.url,
        token_file=Path(settings.token_file) if settings.token_file else None,
        ca_file=Path(settings.ca_file) if settings.ca_file else None,
        deadline=settings.deadline,
        labels=settings.labels,
    )


def chosen(settings: PrometheusSettings, url: str | None) -> PrometheusSettings:
    """Which Prometheus to query, and how. Raises ``ConfigError``."""
    if not url:
        if not settings.url:
            raise ConfigError(f"{NOT_SET}, or give --prometheus URL")
        return settings
    # The token is sent only to the Prometheus that it is for.
    same = not settings.url or _origin(settings.url) == _origin(url)
    return replace(settings, url=url, token_file=settings.token_file if same else "")


def _origin(url: str) -> object:
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None
