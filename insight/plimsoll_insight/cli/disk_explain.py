"""``plimsoll disk explain --since``: also what this node knows of the disk's past."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from plimsoll_agent.app.node import now_of, state_of
from plimsoll_agent.cli import disk
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.consoles import file as consoles_file
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.monitor import pass_summary_file, usage_history
from plimsoll_agent.store import record_query
from plimsoll_agent.store.record import Record
from plimsoll_agent.store.record_query import Selection
from plimsoll_agent.store.state import State, StateError
from plimsoll_agent.terminal.moments import Window, add_window, window
from plimsoll_agent.terminal.page import write_lines
from plimsoll_insight.cli.answering import answer_lines
from plimsoll_insight.explain import cause, node
from plimsoll_insight.explain.evidence import Evidence
from plimsoll_insight.explain.node import NodeEvidence
from plimsoll_probes.app.history import history_of

_T = TypeVar("_T")
_MOST_ENTRIES = 50
_SINCE = "24h"
"""Before --until, where that alone is given."""


class DiskExplain(disk.DiskExplain):
    """Explain a disk's limits, and whether it was slow.

    It lists the answer of each source, in order; with --since also whether the disk was slow, and why.

    That is what this node knows: what its passes measured of the disk and of others, changes of its limits and holds,
    probes, and stalls that the guest's console tells of. With Ceph's health and other nodes: plimsoll region explain.

    Exit status:
        0   the guest answered
        1   a guest is unreachable, the rules file is broken, or a file cannot be read
        64  usage

    Examples:
        plimsoll disk explain instance-00000412 vda
        plimsoll disk explain instance-00000412 vda --since 2h
        plimsoll disk explain instance-00000412 vda --since 14:00 --until 15:00
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_window(parser, "its past too,")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        self._found: NodeEvidence | None = None
        state = state_of(self.settings(parsed_args))
        now, past = now_of(state), (parsed_args.since, parsed_args.until) != (None, None)
        period = window(parsed_args, now, _SINCE) if past else None
        names, values = super().take_action(parsed_args)
        if period is None:
            return names, values
        self._found = evidence_of(self.settings(parsed_args), state, self._outcome.disk, period, now)
        self.status = self.status or int(bool(self._found.complaints))
        return (*names, "past"), (*values, node.data(self._found))

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Sequence[Any]
    ) -> int:
        facts = self._found if parsed_args.formatter == "table" and not parsed_args.columns else None
        if facts is not None:
            write_lines(self.app.stdout, (*answer_lines(node.case_of(facts), self.app.stdout, parsed_args), ""))
        status = super().produce_output(parsed_args, column_names, data)
        if facts is not None:
            write_lines(self.app.stdout, ("", *node.lines(facts)))
        return status


def evidence_of(settings: Settings, state: State, this_disk: Disk, period: Window, now: datetime) -> NodeEvidence:
    complaints, since, until = list[str](), period.since, period.until

    def read(what: Callable[[], _T]) -> _T | None:
        try:
            return what()
        except StateError as error:
            complaints.append(str(error))
            return None

    def probes() -> dict[str, int]:
        with history_of(settings) as history:
            return node.verdicts([each.finding.verdict.value for each in history.runs(since=since, until=until)])

    record = Record(state.record)
    selection = Selection(disk=this_disk.key, since=since, until=until)
    entries = read(lambda: record_query.newest(record, selection, _MOST_ENTRIES))
    last = read(lambda: pass_summary_file.load(state))
    ran, consoles = read(probes), read(lambda: consoles_file.load(state))
    types = {} if last is None else {each.named.key: each.volume_type for each in last.disks}
    past = read(lambda: node.evidence(usage_history.passes(state), this_disk, types, period, now))
    past = past or Evidence(seconds=300.0, intervals=())
    return NodeEvidence(
        window=period,
        now=now,
        entries=None if entries is None else tuple(entries),
        last=last,
        disk=None if last is None else next((each for each in last.disks if each.named.key == this_disk.key), None),
        probes=ran,
        console=None if consoles is None else consoles.guests.get(this_disk.guest.uuid),
        explained=node.explain(this_disk, past),
        diagnosis=cause.find(past),
        guest_name=this_disk.guest.name,
        complaints=tuple(complaints),
    )
