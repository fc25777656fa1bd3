"""What the commands on results share: the history, and the arguments that choose a result."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from plimsoll_agent.errors import UsageError
from plimsoll_agent.terminal.base import LocalCommand
from plimsoll_agent.util.text import several_servers
from plimsoll_probes.app.history import history_of
from plimsoll_probes.model.job import JobName
from plimsoll_probes.model.result import ProbeResult
from plimsoll_probes.store.history import History


class HistoryCommand(LocalCommand):
    """A command that reads the results of this node."""

    @contextmanager
    def history(self, parsed_args: argparse.Namespace) -> Iterator[History]:
        """The history; a hint on stderr while it is empty. Raises ``StateError``."""
        with history_of(self.settings(parsed_args)) as history:
            if not history.is_there():
                self.app.stderr.write("No probe has run on this node yet; see: plimsoll probe run\n")
            yield history


def add_one(parser: argparse.ArgumentParser) -> None:
    """The arguments that choose one result."""
    parser.add_argument(
        "id", nargs="?", type=_id, help="the number of a result, as in probe list and history; default: the newest"
    )
    add_choice(parser, "the newest result of")


def _id(text: str) -> int:
    """Raises ``ArgumentTypeError``."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not the number of a result; of a guest the newest is shown with --guest"
        ) from None


def add_choice(parser: argparse.ArgumentParser, which: str) -> None:
    parser.add_argument("--guest", help=f"{which} this guest, by its libvirt name, UUID or server name")
    parser.add_argument("--job", choices=[name.value for name in JobName], help=f"{which} this job")


def one(history: History, parsed_args: argparse.Namespace) -> ProbeResult:
    """The result that the arguments choose. Raises ``UsageError``."""
    if parsed_args.id is not None:
        if parsed_args.guest or parsed_args.job:
            raise UsageError("give the number of a result, or --guest and --job, not both")
        result = history.get(parsed_args.id)
        if result is None:
            raise UsageError(f"no result {parsed_args.id} in the history; see: plimsoll probe history")
        return result
    newest = history.runs(guest=guest_of(history, parsed_args), job=job_of(parsed_args), most=1)
    if not newest:
        guest = f" of a guest {parsed_args.guest!r}" if parsed_args.guest else ""
        job = f" with the job {parsed_args.job}" if parsed_args.job else ""
        raise UsageError(f"no result{guest}{job}; see: plimsoll probe list")
    return newest[0]


def guest_of(history: History, parsed_args: argparse.Namespace) -> str | None:
    """The guest that was named; its uuid where that is the name of a server. Raises ``UsageError`` for several."""
    word = parsed_args.guest
    servers = {} if word is None else history.servers(word)
    if len(servers) > 1:
        raise UsageError(several_servers(word, sorted(servers.values())))
    return next(iter(servers), word)


def job_of(parsed_args: argparse.Namespace) -> JobName | None:
    return JobName(parsed_args.job) if parsed_args.job else None


def now() -> datetime:
    return datetime.now(UTC)
