"""``plimsoll region record``: who changed a limit on any node, by the logs that were collected and by metrics."""

from __future__ import annotations

import argparse
import gzip
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from plimsoll_agent.errors import ConfigError, PlimsollError, UsageError
from plimsoll_agent.messages.record import time_words
from plimsoll_agent.messages.tones import TONES
from plimsoll_agent.monitor import metrics
from plimsoll_agent.terminal.columns import GUEST, NOTHING, Column
from plimsoll_agent.terminal.formats import Shown
from plimsoll_agent.terminal.listing import Listing
from plimsoll_agent.terminal.moments import add_window, ends
from plimsoll_agent.util import files
from plimsoll_agent.util.text import plural
from plimsoll_monitoring import promql
from plimsoll_monitoring.cli.base import RegionCommand
from plimsoll_monitoring.region import shipped
from plimsoll_monitoring.region.answers import TimeSeries
from plimsoll_monitoring.region.shipped import Logs, RowOrigin, ShippedRow, ShippedSelection

_LISTED = 50
_DAY = 86_400
_VALUES = 5_000
"""Of a series at most: Prometheus refuses more than 11,000."""
_STEP = 60
_DISKS = 100
"""Of how many disks limits over time are asked for."""
_JOURNAL = b"LPKSHHRH"
"""How a file of journald itself begins (systemd.io/JOURNAL_FILE_FORMAT)."""


class RegionRecord(RegionCommand, Listing):
    """List who changed limits on any node, also one that is gone.

    It reads logs of nodes that were collected elsewhere.

    Oldest first; the last 50 entries by default. Each is listed once. SOURCE is what an entry was read from: fields
    (all that plimsoll logs), text (its message, which has no volume and no project), or metrics (limits over time in
    Prometheus, if --volume, --server or --project is given: when a limit was changed, not by whom). Nodes without a
    log, or with none of that time, are named.

    FILE is the output of journalctl -o json or -o short-iso, a file of syslog, or the log of a container, also with
    gzip; - is the standard input. All files of a directory and below are read.

    Exit status:
        0   done
        1   error, or a source that could not be read
        64  usage

    Examples:
        plimsoll region record --from /var/log/remote
        plimsoll region record --from node12.json --since 2h
        plimsoll region record --from /var/log/remote --server instance-00000412 --last 0
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--from",
            dest="files",
            metavar="FILE",
            nargs="+",
            action="extend",
            default=[],
            help="logs of nodes: files or directories; repeatable",
        )
        parser.add_argument("--volume", metavar="ID", help="only this volume, by its ID")
        parser.add_argument("--server", metavar="SERVER", help="only this server, by its UUID or libvirt name")
        parser.add_argument("--project", metavar="ID", help="only guests of this project, by its ID")
        add_window(parser, "only entries")
        parser.add_argument(
            "--last",
            metavar="N",
            type=int,
            default=_LISTED,
            help=f"the last N entries, 0 for all; default: {_LISTED}",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        if parsed_args.last < 0:
            raise UsageError("--last must be 0 or more")
        settings, now = self.settings(parsed_args), datetime.now(UTC)
        since, until = ends(parsed_args, now)
        choice = ShippedSelection(
            volume=parsed_args.volume,
            server=parsed_args.server,
            project=parsed_args.project,
            nodes=tuple(parsed_args.node),
            since=since,
            until=until,
        )
        has_prometheus = bool(parsed_args.prometheus or settings.prometheus.url)
        if not parsed_args.files and not has_prometheus:
            raise ConfigError("no source: give --from FILE, or set [prometheus] url")
        logs = Logs(now)
        for path in parsed_args.files:
            self._read(path, logs)
        if parsed_args.files and not logs.lines and not self.status:
            self._complain(f"{', '.join(parsed_args.files)}: no line of a log is there")
        changes: list[ShippedRow] = []
        nodes: list[str] = []
        if has_prometheus:
            try:
                changes, nodes = self._metrics(parsed_args, settings, choice)
            except PlimsollError as error:
                if not parsed_args.files:
                    raise
                self._complain(str(error))
        rows, unsure = shipped.selected(shipped.once([*logs.rows, *changes]), choice)
        for line in self._remarks(logs, choice, unsure, nodes, now):
            self.app.stderr.write(f"{line}\n")
        self.empty = "no such entries"
        last = rows[-parsed_args.last :] if parsed_args.last else rows
        if len(last) < len(rows):
            self.closing = (f"The last {len(last)} of {len(rows)} entries; --last 0 lists all.",)
        return COLUMNS, [_cells(row) for row in last]

    def _complain(self, text: str) -> None:
        self.app.stderr.write(f"{text}\n")
        self.status = 1

    def _remarks(
        self, logs: Logs, choice: ShippedSelection, unsure: int, nodes: Sequence[str], now: datetime
    ) -> Iterator[str]:
        """What the sources do not have."""
        if logs.zoneless:
            yield f"{plural(logs.zoneless, 'line')} with a time without a zone: read as UTC"
        if unsure:
            yield (
                f"{plural(unsure, 'entry', 'entries')} left out, of which the log does not have what you ask for;"
                " collect journalctl -o json, which has time, node, volume and project"
            )
        yield from shipped.gaps(logs.spans, nodes, choice, now)

    # --- logs

    def _read(self, path: str, logs: Logs) -> None:
        if path == "-":
            _feed(sys.stdin.buffer, logs)
            return
        top = Path(path)
        try:
            below = files.regular_below(top) if files.is_directory(top) else [top]
        except OSError as error:
            self._complain(f"{error.filename}: {error.strerror}")
            return
        for file in below:
            before = logs.lines
            try:
                with file.open("rb") as stream:
                    start = stream.peek(8)
                    if start.startswith(_JOURNAL):
                        self._complain(f"{file}: is journald's own format; give the output of journalctl -o json")
                        continue
                    if start.startswith(b"\x1f\x8b"):
                        with gzip.open(stream) as contents:
                            _feed(contents, logs)
                    else:
                        _feed(stream, logs)
            except (OSError, EOFError) as error:
                self._complain(f"{file}: {getattr(error, 'strerror', None) or error}")
                continue
            if logs.lines == before and start:
                self._complain(f"{file}: no line is of a form that this command reads (see --help)")

    # --- metrics

    def _metrics(
        self, parsed_args: argparse.Namespace, settings: Any, choice: ShippedSelection
    ) -> tuple[list[ShippedRow], list[str]]:
        """Changes of limits over time, and the nodes that Prometheus has now. Raises ``PlimsollError``."""
        prometheus = self.connect(parsed_args, settings)
        selection = self.selection(parsed_args)
        present = {
            label for series in prometheus.query(metrics.PASS_LAST_TIMESTAMP_SECONDS + selection.matchers())
            if (label := series.labels.get("instance"))
        }  # fmt: skip
        nodes = sorted(present)
        if not (choice.volume or choice.server or choice.project):
            self.warn(prometheus)
            return [], nodes
        here = prometheus.now()
        end = here if choice.until is None else min(choice.until.timestamp(), here)
        window = int(end - choice.since.timestamp()) if choice.since else _DAY
        prometheus.as_of(end)
        step = max(_STEP, -(-window // _VALUES))
        if window < 2 * step:
            raise UsageError(f"--since must be {2 * step} seconds or more before the end, to see changes in metrics")
        infos: list[TimeSeries] = []
        for matchers in _disks(choice):
            infos += prometheus.over(metrics.DISK_INFO + selection.matchers(*matchers), window, step)
        if len(infos) > _DISKS:
            raise UsageError(f"{len(infos)} disks in metrics; give --volume or --server, or no --prometheus")
        uuids = sorted({line.labels.get("uuid", "") for line in infos})
        lines: list[TimeSeries] = []
        flags: Sequence[TimeSeries] = ()
        if uuids:
            disks = selection.matchers(promql.any_of("uuid", uuids))
            for metric in metrics.DISK_LIMIT_ACTUAL.values():
                lines += prometheus.over(metric + disks, window, step)
            flags = prometheus.over(metrics.DISK_UNLIMITED + disks, window, step)
        self.warn(prometheus)
        return shipped.changes_of(infos, lines, flags), nodes


def _disks(choice: ShippedSelection) -> Iterator[list[str]]:
    """Matchers of the disks in question; several where a name may be one of two things."""
    common = [promql.equal("volume", choice.volume)] if choice.volume else []
    common += [promql.equal("project", choice.project)] if choice.project else []
    if not choice.server:
        yield common
        return
    for name in ("uuid", "domain"):
        yield [*common, promql.equal(name, choice.server)]


def _feed(stream: IO[bytes] | gzip.GzipFile, logs: Logs) -> None:
    for line in stream:
        logs.read(line.decode("utf-8", "replace"))


COLUMNS = (
    Column("at", head="AT (UTC)"),
    Column("node", most=24),
    GUEST,
    Column("disk", most=12),
    Column("change", wraps=True),
    Column("why", head="REASON", wraps=True, note=True),
    Column("by", most=24),
    Column("source", drop=1),
    *(
        Column(name, long=True)
        for name in (
            *("what", "guest_uuid", "project", "volume", "before", "after", "reason", "cause", "result"),
            *("not_before", "record_id"),
        )
    ),
)


def _cells(row: ShippedRow) -> list[object]:
    at = None if row.at is None else row.at.isoformat()
    when = "unknown" if row.at is None else time_words(row.at)
    guest = row.guest or ("this node" if row.origin is not RowOrigin.METRICS else NOTHING)
    why = row.why or ("unknown: metrics do not have it" if row.origin is RowOrigin.METRICS else NOTHING)
    return [
        Shown(at, when),
        Shown(row.node, row.node or "unknown"),
        Shown(row.guest, guest),
        row.disk,
        row.change,
        Shown(row.why, why, TONES.get(str(row.result))),
        Shown(row.by, row.by or "unknown"),
        row.origin.value,
        row.what,
        row.guest_uuid,
        row.project,
        row.volume,
        row.before,
        row.after,
        row.reason,
        row.cause,
        row.result,
        None if row.not_before is None else row.not_before.isoformat(),
        row.record_id,
    ]
