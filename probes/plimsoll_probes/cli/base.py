"""What the commands on results share: the history, which result a person means, and a page of one thing."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from plimsoll_agent.cli.base import LocalCommand
from plimsoll_agent.cli.record import moment
from plimsoll_agent.cli.standing import state_of
from plimsoll_agent.config import Settings
from plimsoll_agent.errors import UsageError
from plimsoll_agent.state import CorruptState, StateError
from plimsoll_probes.history import History, readable
from plimsoll_probes.job import JobName
from plimsoll_probes.result import ProbeResult


class HistoryCommand(LocalCommand):
    """A command about what was probed on this node."""

    @contextmanager
    def history(self, parsed_args: argparse.Namespace) -> Iterator[History]:
        """What was kept; said on stderr when that is nothing yet. Raises ``StateError``."""
        with history_of(self.settings(parsed_args)) as history:
            if not history.path.exists():
                self.app.stderr.write("nothing was probed on this node yet; see: plimsoll probe run\n")
            yield history


@contextmanager
def history_of(settings: Settings, *, shown: bool = False) -> Iterator[History]:
    """The node's history of probes; of a damaged one, what becomes of it. Raises ``StateError``.

    What is ``shown`` of it is enough for who asks as checks do.
    """
    state = state_of(settings)
    try:
        yield readable(state) if shown else History(state.probes)
    except CorruptState as error:
        raise StateError(f"{error}; the next plimsoll probe run sets it aside and begins a new one") from error


def add_one(parser: argparse.ArgumentParser) -> None:
    """The words that mean one result."""
    parser.add_argument(
        "id", nargs="?", type=int, help="the number of a result, as probe list and probe history tell"
    )
    add_choice(parser, "the newest result of")


def add_choice(parser: argparse.ArgumentParser, which: str) -> None:
    parser.add_argument("--guest", help=f"{which} this guest, by its name or uuid")
    parser.add_argument("--job", choices=[name.value for name in JobName], help=f"{which} this job")


def one(history: History, parsed_args: argparse.Namespace) -> ProbeResult:
    """The result that is meant. Raises ``UsageError``."""
    if parsed_args.id is not None:
        if parsed_args.guest or parsed_args.job:
            raise UsageError("give the number of a result, or --guest and --job, not both")
        result = history.get(parsed_args.id)
        if result is None:
            raise UsageError(f"there is no result {parsed_args.id} in the history; see: plimsoll probe history")
        return result
    if not parsed_args.guest:
        raise UsageError("which result: give its number, or --guest for the newest of a guest")
    newest = history.runs(guest=parsed_args.guest, job=job_of(parsed_args), most=1)
    if not newest:
        job = f" with the job {parsed_args.job}" if parsed_args.job else ""
        raise UsageError(f"no result of a guest {parsed_args.guest!r}{job}; see: plimsoll probe list")
    return newest[0]


def job_of(parsed_args: argparse.Namespace) -> JobName | None:
    return JobName(parsed_args.job) if parsed_args.job else None


def since(parsed_args: argparse.Namespace, now: datetime) -> datetime | None:
    """``--since`` as a time. Raises ``UsageError``."""
    if parsed_args.since is None:
        return None
    try:
        return moment(parsed_args.since, now)
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"--since {parsed_args.since!r} is no moment; write it like 2026-11-20, 2026-11-20T14:00, today,"
            " yesterday, or 7d for seven days ago"
        ) from error


def now() -> datetime:
    return datetime.now(UTC)
