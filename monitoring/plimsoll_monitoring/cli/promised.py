"""``plimsoll region promised``: the sums of the limits in force, and the most that guests took."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from plimsoll_agent.errors import ConfigError, Rejected, UsageError
from plimsoll_agent.terminal.columns import Column
from plimsoll_agent.terminal.formats import Shown
from plimsoll_agent.terminal.listing import Listing
from plimsoll_agent.util import files
from plimsoll_monitoring.cli.base import RegionCommand
from plimsoll_monitoring.promql import SeriesSelection
from plimsoll_monitoring.region import messages, promised, serialize
from plimsoll_monitoring.region import status as fleet_status
from plimsoll_monitoring.region.answers import key_of
from plimsoll_monitoring.region.device_classes import PoolKey, classes_of
from plimsoll_monitoring.region.promised import Over, PromisedBy

_MOST_BYTES = 2**30
"""Of a report: that of a cluster with 100,000 placement groups has some 300 MB."""


class RegionPromised(RegionCommand, Listing):
    """List what limits promise, and what guests took.

    Promises stand beside the most that guests took, the highest ratio first.

    Promised is the sum of the limits in force now, on reads and writes together, without bursts; a sum that leaves
    out disks (unlimited, or unknown) is "at least" (≥). The most is the highest sum of averages between passes in the
    last day, week or month; peak use is the highest share of what was promised at the same time; p99 is the latency
    of probes within half an hour of the peak.

    Exit status:
        0   done
        1   error
        64  usage

    Examples:
        plimsoll region promised
        plimsoll region promised --by pool --over month
        plimsoll region promised --ceph-report report.json
    """

    of_nodes = False

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--by",
            choices=[by.value for by in PromisedBy],
            default=PromisedBy.TYPE.value,
            help="one row per volume type, pool or device class; default: type",
        )
        parser.add_argument(
            "--over",
            choices=[over.value for over in Over],
            default=Over.WEEK.value,
            help="how far back to look for the most; default: week",
        )
        parser.add_argument(
            "--ceph-report",
            metavar="FILE",
            type=Path,
            action="append",
            default=[],
            help="for --by class: JSON from ceph report, or from ceph osd dump and ceph osd crush dump; repeatable",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        by, over = PromisedBy(parsed_args.by), Over(parsed_args.over)
        classes = _classes(by, parsed_args.ceph_report)
        settings, selection, window = (
            self.settings(parsed_args),
            SeriesSelection(region=parsed_args.region),
            promised.WINDOWS[over],
        )
        prometheus = self.connect(parsed_args, settings)
        questions = promised.first_questions(selection, window) | fleet_status.node_questions(selection.matchers())
        first = self.ask(prometheus, questions)
        if not first["last_pass"]:
            raise self.nothing(selection)
        groups = promised.group_places(promised.places(first), by, classes)
        if not groups:
            raise Rejected(
                f"{self._name}: no sums of pools; have it load plimsoll-rules.yaml (plimsoll monitoring rules), and"
                " install this version of plimsoll on the nodes"
            )
        answers = self.ask(prometheus, promised.row_questions(groups, by, window))
        hours = self.ask(prometheus, promised.hour_questions(groups, by, answers, window))
        peaks = self.ask(prometheus, promised.peak_questions(groups, by, answers, hours, prometheus.now()))
        latencies = self.ask(prometheus, promised.latency_questions(groups, by, peaks, prometheus.now()))
        rows = promised.rows(groups, by, answers, peaks, latencies)
        self.warn(prometheus)
        several = len({row.labels["region"] for row in rows}) > 1
        self.name_unreachable(fleet_status.unreachable(first), map(key_of, first["last_pass"]), several=several)
        left_out = promised.left_out(first)
        self.remark(messages.left_out_lines(left_out, "not observed for an hour", regions=several))
        self.closing = (
            *messages.promised_lines(rows, over, regions=several),
            *messages.known_since(rows, prometheus.now(), over),
        )
        return _columns(by, several), [_cells(row, by) for row in rows]


def _classes(by: PromisedBy, paths: Sequence[Path]) -> Mapping[PoolKey, str]:
    """Raises ``UsageError``, ``ConfigError``."""
    if by is not PromisedBy.CLASS:
        if paths:
            raise UsageError("--ceph-report is for --by class; add that, or leave the file out")
        return {}
    if not paths:
        raise UsageError(
            "--by class needs --ceph-report FILE: only Ceph knows the device class of a pool (ceph report > FILE)"
        )
    return classes_of((str(path), _read(path)) for path in paths)


def _read(path: Path) -> bytes:
    advice = "give ceph osd dump and ceph osd crush dump instead"
    content = files.read_bounded(path, _MOST_BYTES, ConfigError, advice, follow=True)
    if content is None:
        raise ConfigError(f"{path}: cannot be read: no such file")
    return content


_TRAITS: Mapping[str, Mapping[str, Any]] = {
    "volume_type": {"head": "TYPE", "most": 24},
    "pool": {"most": 24},
    "cluster": {"long": True},
    "disks": {"right": True, "drop": 1},
    "unlimited": {"right": True, "drop": 2},
    "unknown": {"right": True, "long": True},
    "promised": {"right": True},
    "at_least": {"long": True},
    "most": {"right": True},
    "most_at": {"long": True},
    "ratio": {"right": True},
    "peak_use": {"right": True},
    "p99": {"right": True, "drop": 3},
    "since": {"long": True},
}


def _columns(by: PromisedBy, several: bool) -> list[Column]:
    traits = {**_TRAITS, "region": {"drop": 4, "long": not several}}
    return [Column(name, **traits.get(name, {})) for name in serialize.promised_columns(by)]


def _cells(row: promised.PromiseRow, by: PromisedBy) -> list[object]:
    people = {
        name: "(unknown)" if value is None else messages.name_or_no(messages.noun_of(name), value)
        for name, value in row.labels.items()
    } | {
        "unit": "IOPS" if row.unit == "operations" else "bytes",
        "promised": messages.promised_words(row),
        "most": messages.amount(row.most, row.unit),
        "ratio": messages.times_words(row),
        "peak_use": messages.use_words(row),
        "p99": messages.seconds_words(row.p99),
    }
    pairs = zip(serialize.promised_columns(by), serialize.promised_cells(row), strict=True)
    return [Shown(value, people[name]) if name in people else value for name, value in pairs]
