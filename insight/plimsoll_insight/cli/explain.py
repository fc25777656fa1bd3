"""``plimsoll region explain``: why a server or a volume is slow, from the region's Prometheus."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from plimsoll_agent.catalogue import model as catalogue
from plimsoll_agent.catalogue.model import CatalogueError
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.errors import UsageError
from plimsoll_agent.terminal.moments import Window, add_window
from plimsoll_agent.terminal.page import Page, write_lines
from plimsoll_agent.util.frozen import replace
from plimsoll_agent.util.text import printable
from plimsoll_insight.cli.answering import answer_lines
from plimsoll_insight.explain import cause, messages, questions, serialize
from plimsoll_insight.explain.answer import ExplainCase
from plimsoll_insight.explain.guests import FoundGuest, StepSpan
from plimsoll_monitoring.cli.base import RegionCommand
from plimsoll_monitoring.region.answers import TimeSeries

_SINCE = "24h"
_LONGEST_NAME = 255


class RegionExplain(RegionCommand, Page):
    """Explain why a server or a volume was slow.

    The cause is its limit, a neighbour, the cluster, or it was not slow at all.

    It compares each disk with others of its type and its node, by the averages of passes, and prints a sentence for
    the tenant. What is unknown is not counted as fast. For intervals with all figures: -f json.

    Exit status:
        0   done
        1   error
        64  usage

    Examples:
        plimsoll region explain shop-db-1
        plimsoll region explain shop-db-1 --since 14:00 --until 16:00
        plimsoll region explain 6695eb01-5d3c-4c1b-9d0c-1f0f6f0f3b6a --since 2h
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "what", metavar="SERVER|VOLUME", help="a server, by its UUID or name, or a volume, by its UUID"
        )
        add_window(parser, "its past", _SINCE)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        term = _term(parsed_args.what)
        settings, selection = self.settings(parsed_args), self.selection(parsed_args)
        prometheus = self.connect(parsed_args, settings)
        window = self.window(parsed_args, prometheus, _SINCE, least="5m", most="90d")
        span = StepSpan.of(window.seconds)
        servers = questions.guests(prometheus.query, selection, term, span.seconds)
        guest = self._one(servers, term, window)
        volume = term if term not in (guest.uuid, guest.server, guest.name) else None

        def over(promql: str) -> Sequence[TimeSeries]:
            return prometheus.over(promql, span.seconds, span.step)

        disks, stays = questions.disks(
            prometheus.query,
            over,
            selection,
            guest,
            volume,
            prometheus.now(),
            span,
        )
        if not disks:
            raise self._nothing(term, window)
        probes = questions.probe_runs(prometheus.query, stays, span.seconds)
        stalls = questions.stalls(over, guest)
        specs = _specs(settings)
        disks = [replace(disk, qos_spec=specs.get(disk.volume_type, "")) for disk in disks]
        diagnoses = [(disk, cause.find(disk.evidence)) for disk in disks]
        neighbours = (diagnosis.neighbour.uuid for _, diagnosis in diagnoses if diagnosis.neighbour)
        names = questions.names(prometheus.query, guest, neighbours, span.seconds)
        self.warn(prometheus)
        self._case = ExplainCase(
            server=guest.server or guest.name,
            disks=tuple(diagnoses),
            window=window,
            names=names,
            reasons=messages.UNEXPLAINED,
            node=stays[-1].node,
        )
        self._lines = ["", messages.head(guest, stays), *messages.stall_lines(stalls)]
        for disk, diagnosis in self._case.subjects:
            self._lines += messages.disk_lines(disk, diagnosis, probes, names)
        return self.page(parsed_args, {}, serialize.data(guest, stays, diagnoses, probes, stalls, names))

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Sequence[Any]
    ) -> int:
        if parsed_args.formatter != "table" or parsed_args.columns:
            return super().produce_output(parsed_args, column_names, data)
        write_lines(self.app.stdout, (*answer_lines(self._case, self.app.stdout, parsed_args), *self._lines))
        return 0

    def _one(self, servers: Sequence[FoundGuest], term: str, window: Window) -> FoundGuest:
        if not servers:
            raise self._nothing(term, window)
        if len(servers) > 1:
            uuids = ", ".join(printable(guest.uuid) for guest in servers)
            raise UsageError(f"{printable(term)} stands for {len(servers)} servers; give the UUID of one: {uuids}")
        return servers[0]

    def _nothing(self, term: str, window: Window) -> UsageError:
        return UsageError(
            f"{self._name}: no metrics of a server or volume {printable(term)} in {window.words}; see plimsoll"
            " region disks, or give a longer --since (nodes with [metrics] detail = aggregate have none)"
        )


def _specs(settings: Settings) -> dict[str, str]:
    """The QoS spec of each volume type, by their names, where this machine has a catalogue."""
    try:
        current = catalogue.load(settings.catalogue.directory)
    except CatalogueError:
        current = None
    if current is None:
        return {}
    specs = {id: spec.name for id, spec in current.specs.items()}
    return {each.name: specs.get(each.qos_spec or "", "") for each in current.types.values()}


def _term(text: str) -> str:
    """Raises ``UsageError``."""
    if not text.strip() or len(text) > _LONGEST_NAME:
        raise UsageError("give a server's UUID or name, or a volume's UUID")
    return text.strip()
