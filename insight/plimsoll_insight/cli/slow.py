"""``plimsoll slow``: Ceph's slow requests on the CRUSH tree, and which host or OSD stands out."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plimsoll_agent.errors import CannotTell, PlimsollError, UsageError
from plimsoll_agent.terminal.base import LocalCommand
from plimsoll_agent.terminal.columns import Column
from plimsoll_agent.terminal.listing import Listing
from plimsoll_agent.terminal.moments import add_window, ends, moment_of, time_of, zone_of
from plimsoll_agent.util import files
from plimsoll_agent.util.frozen import frozen, replace
from plimsoll_insight.cli.cluster_options import add_cluster, cluster_of
from plimsoll_insight.cli.plotting import plotting
from plimsoll_insight.cli.slow_rows import ANSWER_COLUMNS, image_rows, number_rows, pool_rows, time_rows, tree_rows
from plimsoll_insight.cli.slow_sources import Names, ask_osds, image_names, names_in, read_logs
from plimsoll_insight.slow.answers import SlowAnswer, answer_of
from plimsoll_insight.slow.counts import Counts
from plimsoll_insight.slow.events import LogClock
from plimsoll_insight.slow.log_reading import LogReading
from plimsoll_insight.slow.messages import (
    NAMES,
    NO_TREE,
    closing_lines,
    monitor_lines,
    next_lines,
    next_words,
    unknown_lines,
    verdict_words,
    zone_words,
)
from plimsoll_insight.slow.over_time import over_time
from plimsoll_insight.slow.shards import settle_started
from plimsoll_insight.slow.tree import Tree
from plimsoll_insight.slow.union import together
from plimsoll_insight.slow.verdict import Verdict, judge

if TYPE_CHECKING:
    from plimsoll_agent.monitor.pass_summary import LastDisk

_BY = ("tree", "pool", "image", "state", "time")
_SINCE = "1h"
_SHORTEST, _LONGEST = 1.0, 86_400.0


class Slow(LocalCommand, Listing):
    """List Ceph's slow requests by OSD, host and rack.

    It reads logs, or asks the cluster (--live), and says which of them stands out.

    A LOG is the cluster's (ceph.log), an OSD's (ceph-osd.N.log) or a monitor's, of any release from Jewel to
    Tentacle, as a file, a journal or a container has it, plain, gzip, xz, bzip2 or zstd, in any order; or ceph health
    detail; or the JSON of dump_historic_slow_ops, with osd.N in its name. Each request counts once.

    Exit status:
        0   some or none
        5   cannot tell
        1   error
        64  usage

    Examples:
        plimsoll slow /var/log/ceph/ceph.log
        plimsoll slow --live
        plimsoll slow /var/log/ceph/ceph.log --since 14:00 --tree tree.json --plot slow.html
    """

    empty = "No slow requests."

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("logs", metavar="LOG", nargs="*", type=Path, help="logs of Ceph, also rotated ones")
        parser.add_argument("--tree", metavar="FILE", type=Path, help="the output of ceph osd tree, as text or JSON")
        parser.add_argument("--live", action="store_true", help="ask the running cluster, for its tree too")
        add_window(parser, "requests", f"all, with --live {_SINCE}")
        parser.add_argument(
            "--top", metavar="N", type=int, help="only the N OSDs that have most, and what they are in"
        )
        add_cluster(parser)
        parser.add_argument("--timezone", metavar="ZONE", help="of times without one, as before Octopus:"
                            " Europe/Berlin; default: UTC")  # fmt: skip
        parser.add_argument(
            "--interval", metavar="DURATION", default="1m", help="of --by time, --plot and the verdict; default: 1m"
        )
        parser.add_argument("--pools", metavar="FILE", type=Path, help="the output of ceph osd pool ls detail")
        parser.add_argument(
            "--images", metavar="FILE", type=Path, help="lines ID IMAGE or ID POOL/IMAGE, for --by image"
        )
        parser.add_argument("--by", choices=_BY, default="tree", help="rows for each of these; default: tree")
        parser.add_argument(
            "--plot", metavar="FILE", type=Path, help="draw requests over time too: NAME.png, .svg or .html"
        )
        parser.add_argument("--all", action="store_true", help="OSDs and buckets without slow requests too")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        width = _width(parsed_args)
        render = None if parsed_args.plot is None else _renderer(parsed_args.plot)
        result, names = self._result(parsed_args, width)
        counts, unknown = result.counts, result.unknown
        zone = zone_words(result.reading.clock, parsed_args.timezone)
        lines = closing_lines(counts, names.tree, result.verdict, is_complete=not unknown)
        self.closing = (*lines, *unknown, *zone)
        if render is not None:
            self._draw(render, parsed_args.plot, result, names.tree)
        nameless = {pool for pool in counts.pools if isinstance(pool, int)} - names.pools.keys()
        if parsed_args.by == "pool" and nameless:
            self.closing = (*self.closing, "A pool with a number may be one of those with a name: --pools tells.")
        self.empty = _nothing_words(result, names.tree, parsed_args.by)
        rows = self._answer(result, parsed_args)
        if rows is not None:
            return rows
        if parsed_args.formatter != "table":
            # A zone that was given needs no word.
            self.app.stderr.writelines(
                f"{each}\n" for each in (*unknown, *(zone if not parsed_args.timezone else ()))
            )
        match parsed_args.by:
            case "tree":
                return tree_rows(counts, names.tree, result.verdict, result.answer, parsed_args)
            case "time":
                return time_rows(counts, names.tree)
            case "pool":
                return pool_rows(counts, names.pools)
            case "image":
                return image_rows(counts, names.pools, names.images, self._last_disks(parsed_args))
            case _:
                return number_rows("state", counts.states)

    def _result(self, parsed_args: argparse.Namespace, width: float) -> tuple[_Result, Names]:
        """What logs, or the cluster, say."""
        reading = LogReading.nothing(LogClock(zone_of(parsed_args.timezone)), width)
        now = datetime.now(UTC)
        since, until = ends(parsed_args, now)
        reading.since, reading.until = (each.timestamp() if each else None for each in (since, until))
        names = names_in(parsed_args)
        gaps, unknown = list[str](), list[str]()
        if parsed_args.live:
            cluster = cluster_of(parsed_args, lambda: self.settings(parsed_args).ceph, 30.0)
            tree, gaps, unknown = ask_osds(cluster, reading, since or moment_of("--since", _SINCE, now), self._say)
            names = replace(names, tree=names.tree or tree)
        else:
            read_logs(parsed_args.logs, reading, self._say)
        sources = (reading.cluster, reading.own, reading.dumped)
        counts = together(*sources)
        of_any_pool = settle_started(counts, sources, names.erasure_coded)
        if parsed_args.live and parsed_args.by in ("pool", "image"):
            names = replace(names, pools=names.pools or cluster.pools())
        if parsed_args.live and parsed_args.by == "image":
            paths, failures = image_names(cluster, counts, names.pools, names.images)
            names, unknown = replace(names, images=paths), [*unknown, *failures]
        return _Result(
            reading=reading,
            counts=counts,
            verdict=judge(counts.blamed.counts, names.tree),
            answer=answer_of(reading, counts, gaps),
            unknown=(*gaps, *unknown, *unknown_lines(reading, counts, of_any_pool)),
        ), names

    def _draw(self, render: Callable[..., bytes], path: Path, result: _Result, tree: Tree | None) -> None:
        sentence = verdict_words(result.verdict, result.counts, is_complete=not result.unknown)
        rest = [each for each in self.closing if each not in (sentence, NO_TREE)]
        name, stands_out, how = sentence.partition(" stands out: ")
        words = [f"{name} stands out", f"{how[0].upper()}{how[1:]}", *rest] if stands_out else [name, *rest]
        image = render(path.suffix, over_time(result.counts, tree), tree, words)
        files.save(path, image, PlimsollError)
        self.closing = (*self.closing, f"Drawn: {path}")

    def _answer(
        self, result: _Result, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[Column], list[Sequence[object]]] | None:
        """Instead of rows, for programs, where no row can tell it."""
        is_table, has_osds = parsed_args.formatter == "table", bool(result.counts.osds)
        if result.answer is SlowAnswer.SOME and not has_osds and not is_table:
            return ANSWER_COLUMNS, [(result.answer.value, _monitor_words(result.counts), NAMES)]
        if result.answer is not SlowAnswer.CANNOT_TELL:
            return None
        next_ = next_words(result.reading, live=parsed_args.live)
        self.status = CannotTell.exit_status
        self.empty = f"{self.empty} So it cannot be told whether there are any. Next: {next_}"
        if has_osds:
            self.closing = (*self.closing, self.empty)
            return None
        if is_table:
            return ANSWER_COLUMNS, []
        self.app.stderr.writelines(f"{each}\n" for each in (*result.unknown, f"Next: {next_}"))
        return ANSWER_COLUMNS, [(result.answer.value, " ".join(result.unknown), next_)]

    def _last_disks(self, parsed_args: argparse.Namespace) -> Sequence[LastDisk]:
        """Of this node's last pass. A monitor's host has none."""
        # Here: reading a log is often done in less time.
        from plimsoll_agent.app.node import state_of
        from plimsoll_agent.monitor import pass_summary_file

        with suppress(PlimsollError):
            last = pass_summary_file.load(state_of(self.settings(parsed_args)))
            return last.disks if last else ()
        return ()

    def _say(self, words: str) -> None:
        stderr = self.app.stderr
        if stderr.isatty():
            stderr.write(f"\r\x1b[K{words}")
            stderr.flush()


@frozen(kw_only=True)
class _Result:
    """What was read or asked, and what follows from it."""

    reading: LogReading
    counts: Counts
    verdict: Verdict
    answer: SlowAnswer
    unknown: tuple[str, ...]
    """What the figures do not have in them."""


def _width(parsed_args: argparse.Namespace) -> float:
    """Of an interval, in seconds. Raises ``UsageError``, also for other options that do not fit together."""
    if bool(parsed_args.logs) == parsed_args.live:
        raise UsageError("give logs, or --live, and not both")
    if parsed_args.top is not None and parsed_args.top < 1:
        raise UsageError("--top: at least 1")
    width = time_of("--interval", parsed_args.interval)
    if not _SHORTEST <= width <= _LONGEST:
        raise UsageError(f"--interval: must be from {_SHORTEST:g} seconds to a day")
    return width


def _renderer(path: Path) -> Callable[..., bytes]:
    """What draws. Raises ``PlimsollError``, before anything is read for nothing."""
    with plotting(path):
        from plimsoll_insight.slow import plots
    return plots.render


def _nothing_words(result: _Result, tree: Tree | None, by: str) -> str:
    """In place of rows."""
    counts, unknown = result.counts, result.unknown
    if result.answer is SlowAnswer.SOME and not counts.osds:
        # Monitors have a sum, and no line names an OSD.
        return " ".join((_monitor_words(counts), *unknown, f"Next: {NAMES}"))
    if result.answer is SlowAnswer.SOME and not counts.requests:
        # No view but the tree has a row of them.
        return " ".join((*closing_lines(counts, tree, result.verdict, is_complete=False), *unknown))
    if by in ("image", "pool") and counts.osds:
        return " ".join((f"No line names {by}s.", *unknown))
    return " ".join(("No slow requests in what is known.", *unknown)) if unknown else Slow.empty


def _monitor_words(counts: Counts) -> str:
    return " ".join((*monitor_lines(counts), *next_lines(counts, None)))
