"""``plimsoll probe report``: the history of a span of time as one page to look at."""

from __future__ import annotations

import argparse
import logging
import socket
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from importlib import metadata
from pathlib import Path

from plimsoll_agent import files
from plimsoll_agent.errors import PlimsollError, UsageError
from plimsoll_agent.report import short_size
from plimsoll_probes.cli.base import HistoryCommand, add_choice, job_of, now, since
from plimsoll_probes.cli.looking import counted_words, still_postponed
from plimsoll_probes.history import History
from plimsoll_probes.job import JobName
from plimsoll_probes.late import Late, late
from plimsoll_probes.report.gathered import Gathered, gather
from plimsoll_probes.report.span import Span
from plimsoll_probes.result import Postponed, ProbeResult

_AT_ONCE = 500
"""Results that are in memory at the same time: each is some tens of KiB."""
_TOLD_EVERY = 2000
_FIRST = datetime(2000, 1, 1, tzinfo=UTC)
"""No run began before; the columns of a longer span would say nothing."""
STDOUT = "-"


class NoDrawing(PlimsollError):
    """What draws the page is not installed."""


class ProbeReport(HistoryCommand):
    """Make a page of what was probed on this node: how it stands, verdicts, latencies over time, the worst guests.

    It is one HTML file that needs no network and no script. Times are in UTC. A moment is a time
    (2026-11-20T14:00, in UTC unless it has a zone of its own), a date (its midnight), today, yesterday, or a span
    back from now (90m, 2h, 7d).

    Exit status: 0, 1 trouble, 64 usage.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--since", metavar="MOMENT", default="7d", help="from this moment on; default: 7d")
        add_choice(parser, "only")
        parser.add_argument(
            "-o", "--output", metavar="FILE", required=True, help="the file to write or replace; - for stdout"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        at = now()
        begin = max(since(parsed_args, at) or at, _FIRST)
        if begin >= at:
            raise UsageError(f"--since {parsed_args.since!r} is not before now")
        output = None if parsed_args.output == STDOUT else _file(parsed_args.output)
        span = Span(begin, at)
        with self.history(parsed_args) as history:
            page, gathered = self._page(history, span, parsed_args)
        if output is None:
            # Whatever the locale's encoding is, HTML has ASCII for it.
            self.app.stdout.write(page.encode("ascii", "xmlcharrefreplace").decode("ascii"))
        else:
            _write(output, page)
        size = short_size(round(len(page.encode()) / 1024) * 1024)
        guests = counted_words(len(gathered.guests), "guest")
        self.app.stderr.write(f"{parsed_args.output}: {counted_words(gathered.runs, 'run')} of {guests}, {size}\n")

    def _page(self, history: History, span: Span, parsed_args: argparse.Namespace) -> tuple[str, Gathered]:
        # When it is imported it tells at INFO that it looks for fonts, at WARNING that it cannot keep what it found.
        logging.getLogger("matplotlib").setLevel(logging.ERROR)
        try:
            from plimsoll_probes.report import page
        except ImportError as error:
            raise NoDrawing(
                f"a report needs matplotlib and Jinja2 ({error}): pip install 'plimsoll-agent[report]'"
            ) from error
        guest, job = parsed_args.guest, job_of(parsed_args)
        gathered = gather(self._told(paged(history, span, guest, job)), span)
        text = page.page(
            gathered,
            page.Waiting(*_waiting(history, guest, span.until)),
            page.Reader(lambda uuid: paged(history, span, uuid, job), history.streak),
            page.Made(socket.gethostname(), metadata.version("plimsoll-agent"), guest, parsed_args.job),
        )
        return text, gathered

    def _told(self, results: Iterable[ProbeResult]) -> Iterator[ProbeResult]:
        """The same, and on a terminal how far it has come."""
        stderr = self.app.stderr
        shown = stderr.isatty()
        for number, result in enumerate(results, 1):
            yield result
            if shown and number % _TOLD_EVERY == 0:
                stderr.write(f"\r{number} runs read")
                stderr.flush()
        if shown:
            stderr.write("\r\x1b[K")


def paged(history: History, span: Span, guest: str | None, job: JobName | None) -> Iterator[ProbeResult]:
    """The runs of the span, newest first, and never more than some of them in memory."""
    until, most = span.until, _AT_ONCE
    seen: set[int | None] = set()
    while True:
        found = history.runs(guest=guest, job=job, since=span.since, until=until, most=most)
        new = [result for result in found if result.id not in seen]
        yield from new
        if len(found) < most:
            return
        # Others may have begun at the same moment as the last one.
        until = found[-1].started + timedelta(microseconds=1)
        seen = {result.id for result in found if result.started == found[-1].started}
        most = most if new else 2 * most  # never less again: the next part must hold all that is seen


def _waiting(history: History, guest: str | None, at: datetime) -> tuple[Sequence[Postponed], Sequence[Late]]:
    """What was not probed though it was time; what is late and was postponed is called postponed."""
    begun = history.last_begun(at)
    postponed = still_postponed(history.postponed(), begun)
    put_off = {(each.guest_uuid, each.directory) for each in postponed}
    waiting = [each for each in late(history.chosen_targets(), begun, at) if each.target.key not in put_off]
    if guest is None:
        return postponed, waiting
    meant = (guest.lower(), guest)
    return (
        [each for each in postponed if each.guest_uuid == meant[0] or each.guest_name == meant[1]],
        [each for each in waiting if each.target.guest_uuid == meant[0] or each.target.guest_name == meant[1]],
    )


def _file(name: str) -> Path:
    """Raises ``UsageError`` where a directory or a device is, which a file must not replace."""
    path = Path(name)
    if path.is_dir():
        raise UsageError(f"-o {name} is a directory; name the file in it")
    if path.exists() and not path.is_file():
        raise UsageError(f"-o {name} is no regular file; -o - writes to stdout")
    return path


def _write(path: Path, page: str) -> None:
    try:
        files.write_whole(path, page)
    except OSError as error:
        raise PlimsollError(f"{path}: cannot be written: {error.strerror or error}") from error
