"""``plimsoll status``: what is wrong on this node and what to do, then how it is."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from plimsoll_agent.app.node import pause_actual, state_of
from plimsoll_agent.app.node_setup import node_setup
from plimsoll_agent.catalogue import model as catalogue
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.consoles import file as consoles_file
from plimsoll_agent.consoles.model import Consoles
from plimsoll_agent.monitor import daemon_status, pass_summary_file, textfile
from plimsoll_agent.monitor.daemon_status import DaemonStatus
from plimsoll_agent.monitor.pass_summary import LastPass
from plimsoll_agent.monitor.thresholds import Level
from plimsoll_agent.store import clock
from plimsoll_agent.store.state import CorruptState, Given, State, StateError
from plimsoll_agent.terminal.page import Page
from plimsoll_agent.terminal.problems import Line
from plimsoll_agent.util.text import printable
from plimsoll_monitoring.node import status_data, status_words
from plimsoll_monitoring.node.health import no_room
from plimsoll_monitoring.node.status import NodeStatus, Probes
from plimsoll_probes.app.history import history_of
from plimsoll_probes.cli.base import HistoryCommand, now

_T = TypeVar("_T")
LOG = logging.getLogger(__name__)


class Status(HistoryCommand, Page):
    """Show this node, what is wrong first.

    Each problem has the command to run next; then come passes, disks and probes.

    It reads only the files of passes and probes. It needs no libvirt, Ceph or network, so it works while those hang.
    The ranges in [health] decide what is a problem.

    Exit status:
        0   no problems
        3   problems
        1   no pass yet, a file cannot be read, or the state directory is full or read-only
        64  usage

    Examples:
        plimsoll status
        plimsoll status --config-file /srv/node12/plimsoll.conf
        plimsoll status -f json
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--all", action="store_true", help="also sources, all passes, files, and a table of volume types"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[object]]:
        status = look(self.settings(parsed_args), now(), self.app.settings_options)
        self.status = status.exit_status
        last, everything = status.last, parsed_args.all
        if everything and last is not None and last.disks:
            self.table = status_words.type_table(last)
        self.opening = tuple(_lines(status))
        people = status_words.facts(status, everything=everything)
        return self.page(parsed_args, people, status_data.data(status))


def _lines(status: NodeStatus) -> Iterator[Line]:
    problems = [Line(entry.level, entry.problem.text, entry.problem.do) for entry in status.problems()]
    yield from problems or [Line(Level.OK, status_words.good_words(status))]
    yield from (Line(None, remark) for remark in status_words.remarks(status))


def look(settings: Settings, at: datetime, options: Sequence[str] = ()) -> NodeStatus:
    """The state of this node now; ``options`` of ``plimsoll`` lead to these settings."""
    state, complaints, setup = state_of(settings), dict[str, str](), node_setup(settings, options)

    def read(name: str, what: Callable[[], _T]) -> _T | None:
        try:
            return what()
        except StateError as error:
            complaints[name] = printable(str(error))
            return None

    def probes() -> Probes:
        with history_of(settings, shown=True) as history:
            return Probes.of(history, at, setup, last, clock.boot(at))

    last = read("pass", lambda: _last_pass(state))
    approvals, approvals_unread = _approvals(state)
    daemon, is_absent = _daemon(state)
    return NodeStatus(
        now=at,
        last=last,
        probes=read("probes", probes),
        paused=pause_actual(settings, at),
        approvals=approvals,
        approvals_unread=approvals_unread,
        observe=settings.mode == "observe",
        written=dict(_written(settings, state)),
        thresholds=settings.health,
        setup=setup,
        complaints=complaints,
        no_room=no_room(state.directory),
        consoles=_consoles(state) if settings.consoles.read else None,
        daemon=daemon,
        daemon_is_absent=is_absent and setup.daemon_enabled,
    )


def _last_pass(state: State) -> LastPass | None:
    """Raises ``StateError``."""
    try:
        return pass_summary_file.load(state)
    except CorruptState as error:
        raise StateError(f"{error}; the next pass writes it again") from error


def _consoles(state: State) -> Consoles | None:
    try:
        return consoles_file.load(state)
    except StateError:  # then the next pass begins again
        return None


def _approvals(state: State) -> tuple[Sequence[Given], str]:
    """And why they cannot be read, if so."""
    try:
        return state.load_approvals(), ""
    except StateError as error:
        return (), printable(str(error))


def _daemon(state: State) -> tuple[DaemonStatus | None, bool]:
    """And whether there is certainly nothing of it."""
    try:
        daemon = daemon_status.load(state)
    except StateError as error:
        LOG.warning("%s", error)
        return None, False
    return daemon, daemon is None


def _written(settings: Settings, state: State) -> Iterator[tuple[Path, datetime]]:
    files = [state.last_pass, state.memory, state.record, state.probes]
    if settings.catalogue.source != "none":
        files.append(settings.catalogue.directory / catalogue.NAME)
    if settings.metrics.textfile_dir is not None:
        files += [textfile.path(settings.metrics.textfile_dir, producer) for producer in ("pass", "probe")]
    for file in files:
        try:
            yield file, datetime.fromtimestamp(file.stat().st_mtime, UTC)
        except OSError:
            continue
