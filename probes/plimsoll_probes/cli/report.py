"""``plimsoll probe report``: the results of some days as one HTML page."""

from __future__ import annotations

import argparse
import logging
import socket
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from importlib import metadata
from pathlib import Path

from plimsoll_agent.errors import PlimsollError, UsageError
from plimsoll_agent.messages.sentences import short_size
from plimsoll_agent.terminal.moments import add_window, window
from plimsoll_agent.util import files
from plimsoll_agent.util.distribution import needs
from plimsoll_agent.util.text import plural
from plimsoll_probes.cli.base import HistoryCommand, add_choice, guest_of, job_of, now
from plimsoll_probes.cli.looking import still_postponed
from plimsoll_probes.model.job import JobName
from plimsoll_probes.model.result import Postponed, ProbeResult
from plimsoll_probes.output.report.gathered import Summary, gather
from plimsoll_probes.output.report.span import ReportPeriod, usual
from plimsoll_probes.schedule.late import Late, late
from plimsoll_probes.store.history import History

_AT_ONCE = 500
"""Results in memory at the same time: each takes some tens of KiB."""
_TOLD_EVERY = 2000
_FIRST = datetime(2000, 1, 1, tzinfo=UTC)
"""No run began before, and a longer report would have nothing but empty columns."""
STDOUT = "-"
_SINCE = "7d"


class NoDrawing(PlimsollError):
    """A library that draws the page is not installed."""


class ProbeReport(HistoryCommand):
    """Write the results of this node as one page.

    It has a summary, verdicts, latency over time and the worst guests.

    It is a single HTML file without scripts that needs no network. Times are in UTC, and so is
    a moment without a zone.

    Exit status:
        0   done
        1   error
        64  usage

    Examples:
        plimsoll probe report -o report.html
        plimsoll probe report -o week.html --since 7d
        plimsoll probe report -o guest.html --guest instance-00000412 --job read
    """

    prints_files = True

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_window(parser, "runs", _SINCE)
        add_choice(parser, "only")
        parser.add_argument(
            "-o", "--output", metavar="FILE", required=True, help="the file to write or replace; - for stdout"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        period = window(parsed_args, now(), _SINCE)
        output = None if parsed_args.output == STDOUT else _file(parsed_args.output)
        with self.history(parsed_args) as history:
            page, summary = self._page(history, max(period.since, _FIRST), period.until, parsed_args)
        if output is None:
            # The locale's encoding may lack characters of the page; HTML can write all in ASCII.
            self.app.stdout.write(page.encode("ascii", "xmlcharrefreplace").decode("ascii"))
        else:
            _write(output, page)
        size = short_size(round(len(page.encode()) / 1024) * 1024)
        guests = plural(len(summary.guests), "guest")
        self.app.stderr.write(f"{parsed_args.output}: {plural(summary.runs, 'run')} of {guests}, {size}\n")

    def _page(
        self, history: History, begin: datetime, at: datetime, parsed_args: argparse.Namespace
    ) -> tuple[str, Summary]:
        # Its import logs at INFO that it looks for fonts, and at WARNING that it cannot cache them.
        logging.getLogger("matplotlib").setLevel(logging.ERROR)
        try:
            from plimsoll_probes.output.report import page
        except ImportError as error:
            raise NoDrawing(f"a report needs matplotlib and Jinja2 ({error}): {needs('report')}") from error
        guest, job = guest_of(history, parsed_args), job_of(parsed_args)
        intervals = history.intervals(guest, begin, at)
        plans = {each.guest_uuid: each.every for each in history.chosen_targets()}
        span = ReportPeriod(begin, at, usual(intervals.values()))
        summary = gather(self._told(paged(history, span, guest, job)), span, intervals, plans)
        text = page.page(
            summary,
            page.WaitingTargets(*(_waiting(history, guest, at) if parsed_args.until is None else ((), ()))),
            page.Reader(lambda uuid: paged(history, span, uuid, job), history.streak),
            page.ReportOrigin(
                node=socket.gethostname(),
                version=metadata.version("plimsoll-agent"),
                guest=parsed_args.guest,
                job=parsed_args.job,
            ),
        )
        return text, summary

    def _told(self, results: Iterable[ProbeResult]) -> Iterator[ProbeResult]:
        """The same results; shows on a terminal how many have been read."""
        stderr = self.app.stderr
        on_terminal = stderr.isatty()
        for number, result in enumerate(results, 1):
            yield result
            if on_terminal and number % _TOLD_EVERY == 0:
                stderr.write(f"\r{number} runs read")
                stderr.flush()
        if on_terminal:
            stderr.write("\r\x1b[K")


def paged(history: History, span: ReportPeriod, guest: str | None, job: JobName | None) -> Iterator[ProbeResult]:
    """The runs of the span, newest first, read in parts: all of them may not fit into memory."""
    until, most = span.until, _AT_ONCE
    ids: set[int | None] = set()
    while True:
        results = history.runs(guest=guest, job=job, since=span.since, until=until, most=most)
        new = [result for result in results if result.id not in ids]
        yield from new
        if len(results) < most:
            return
        # Others may have begun at the same time as the last one.
        until = results[-1].started + timedelta(microseconds=1)
        ids = {result.id for result in results if result.started == results[-1].started}
        most = most if new else 2 * most  # the next part must have room for all that were seen


def _waiting(history: History, guest: str | None, at: datetime) -> tuple[Sequence[Postponed], Sequence[Late]]:
    """Postponed targets, and overdue ones that were not postponed."""
    starts = history.last_begun(at)
    postponements = still_postponed(history.postponed(), starts)
    postponed_keys = {(each.guest_uuid, each.directory) for each in postponements}
    waiting = [each for each in late(history.chosen_targets(), starts, at) if each.target.key not in postponed_keys]
    if guest is None:
        return postponements, waiting
    uuid, name = guest.lower(), guest
    return (
        [each for each in postponements if each.guest_uuid == uuid or each.guest_name == name],
        [each for each in waiting if each.target.guest_uuid == uuid or each.target.guest_name == name],
    )


def _file(name: str) -> Path:
    """Raises ``UsageError`` where a directory or a device is, which a file must not replace."""
    path = Path(name)
    try:
        if files.is_directory(path):
            raise UsageError(f"-o {name} is a directory; name the file in it")
        if files.exists(path) and not files.is_regular(path):
            raise UsageError(f"-o {name} is not a regular file; -o - writes to stdout")
    except OSError as error:
        raise PlimsollError(f"-o {name}: {files.reason(error)}") from error
    return path


def _write(path: Path, page: str) -> None:
    files.save(path, page, PlimsollError)
