"""``plimsoll congestion publish`` and ``plimsoll region congestion``."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from plimsoll_agent.app.congestion_file import CongestionFile
from plimsoll_agent.congestion.law import TUNING
from plimsoll_agent.congestion.published import Factor
from plimsoll_agent.errors import Rejected
from plimsoll_agent.messages.congestion import milliseconds, state_words
from plimsoll_agent.model.clusters import short_fsid
from plimsoll_agent.terminal.columns import Column
from plimsoll_agent.terminal.formats import Shown
from plimsoll_agent.terminal.listing import Listing
from plimsoll_agent.util.text import ago, printable
from plimsoll_monitoring.cli.base import RegionCommand
from plimsoll_monitoring.cli.congestion_publisher import CongestionPublisher
from plimsoll_monitoring.promql import SeriesSelection
from plimsoll_monitoring.region import congestion, serialize
from plimsoll_monitoring.region.congestion import CongestedClass


class CongestionPublish(RegionCommand):
    """Publish the factors of congested clusters, for nodes.

    Every 30 seconds it compares the latency of light disks with its target, for each device class of the clusters in
    [ceph] conf_files, and writes the factor x of each, signed. Nodes fetch the file: plimsoll congestion fetch.

    One machine publishes for a cluster. With [probe] coordination several may run this: the one with the lock in etcd
    publishes, the others wait for it. What is unknown lowers no factor: without a signal x returns to 1.

    Exit status:
        0   published, with --once
        1   an error, or with --once nothing could be published
        64  usage

    Examples:
        plimsoll congestion publish --out /srv/www/congestion.json --signing-key congestion.key
        plimsoll congestion publish --out /srv/www/congestion.json --signing-key congestion.key --once
        plimsoll congestion publish --out /srv/www/congestion.json --signing-key congestion.key --region north
    """

    of_nodes = False

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--out", metavar="FILE", type=Path, required=True, help="the file that nodes fetch")
        parser.add_argument(
            "--signing-key",
            metavar="KEY",
            type=Path,
            required=True,
            help="sign it with this private ed25519 key",
        )
        parser.add_argument("--once", action="store_true", help="publish one period, show it, and end")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        settings = self.settings(parsed_args)
        self.connect(parsed_args, settings)  # a wrong address ends it before the first period
        publisher = CongestionPublisher(
            settings,
            CongestionFile(parsed_args.out, parsed_args.signing_key),
            SeriesSelection(region=parsed_args.region),
            lambda: self.connect(parsed_args, settings),
        )
        while True:
            begin = time.monotonic()
            file = publisher.period(datetime.now(UTC), begin)
            if parsed_args.once:
                for factor in () if file is None else file.factors:
                    self.app.stdout.write(f"{_line(factor)}\n")
                return 1 if file is None else 0
            time.sleep(max(0.0, begin + TUNING.period - time.monotonic()))


def _line(factor: Factor) -> str:
    """``ssd of cluster c1: x 0.73, lowered (9.1 ms, target 6 ms)``."""
    state = state_words(factor.action, factor.why)
    measurement = f"{milliseconds(factor.latency)}, target {milliseconds(factor.target)}"
    place = f"{printable(factor.device_class)} of cluster {short_fsid(factor.cluster)}"
    return f"{place}: x {factor.x:.2f}, {state} ({measurement})"


class RegionCongestion(RegionCommand, Listing):
    """List clusters with their congestion.

    A row is a device class of a cluster: the factor x of its disks, the latency of light disks, its target, how many
    disks are reduced, and the lowest x of each hour of the last day. x is 1 unless a cluster is congested.

    Exit status:
        0   done
        1   error
        64  usage

    Examples:
        plimsoll region congestion
        plimsoll region congestion -f json
        plimsoll region congestion --prometheus http://prometheus.example:9090
    """

    of_nodes = False

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        settings, selection = self.settings(parsed_args), self.selection(parsed_args)
        prometheus = self.connect(parsed_args, settings)
        answers = self.ask(prometheus, congestion.list_questions(selection))
        if not answers["factor"]:
            raise Rejected(
                f"{self._name}: no factors of congestion; run plimsoll congestion publish with [metrics] textfile_dir"
                " set, and have this Prometheus scrape node_exporter there"
            )
        day = prometheus.over(congestion.day_question(selection), 86400, 3600)
        rows = congestion.classes(answers, day, prometheus.now())
        self.warn(prometheus)
        several = len({row.region for row in rows}) > 1
        self.closing = tuple(_stale_lines(rows, prometheus.now()))
        return _columns(several), [_cells(row) for row in rows]

    def selection(self, parsed_args: argparse.Namespace) -> SeriesSelection:
        return SeriesSelection(region=parsed_args.region)


_TRAITS: dict[str, dict[str, Any]] = {
    "cluster": {},
    "class": {},
    "x": {"right": True},
    "latency": {"right": True},
    "target": {"right": True},
    "action": {"head": "STATE", "wraps": True},
    "why": {"long": True},
    "reduced": {"right": True, "drop": 3},
    "day": {"drop": 1},
    "published": {"long": True},
}


def _columns(several: bool) -> list[Column]:
    traits = {**_TRAITS, "region": {"drop": 2, "long": not several}}
    return [Column(name, **traits[name]) for name in serialize.CONGESTION_COLUMNS]


def _cells(row: CongestedClass) -> list[object]:
    people = {
        "cluster": short_fsid(printable(row.cluster)),
        "class": printable(row.device_class),
        "x": "unknown" if row.x is None else f"{row.x:.2f}",
        "latency": milliseconds(row.latency),
        "target": milliseconds(row.target),
        "action": state_words(row.action, row.why),
        "reduced": "" if row.reduced is None else str(row.reduced),
        "day": congestion.sparkline(row.day),
    }
    pairs = zip(serialize.CONGESTION_COLUMNS, serialize.congestion_cells(row), strict=True)
    return [Shown(value, people[name]) if name in people else value for name, value in pairs]


def _stale_lines(rows: Iterable[CongestedClass], now: float) -> Iterable[str]:
    for row in rows:
        if row.x is None:
            since = datetime.fromtimestamp(row.published, UTC)
            place = f"{printable(row.device_class)} of cluster {short_fsid(printable(row.cluster))}"
            yield f"{place}: last published {ago(since, datetime.fromtimestamp(now, UTC))}, so no node uses it."
