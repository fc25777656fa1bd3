"""``plimsoll load``: which volumes make this node's load, and what their requests look like."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import Any

from plimsoll_agent.app.node import state_of
from plimsoll_agent.errors import UsageError
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.reconcile.observe import scope_of
from plimsoll_agent.store.state import Busy, CorruptState, State, StateError
from plimsoll_agent.terminal.base import NodeCommand, add_guests
from plimsoll_agent.terminal.cells import iops, mib, percent
from plimsoll_agent.terminal.columns import NOTHING, Column
from plimsoll_agent.terminal.formats import Shown
from plimsoll_agent.terminal.listing import Listing
from plimsoll_agent.terminal.moments import time_of
from plimsoll_agent.terminal.until import ended_early
from plimsoll_agent.top.rows import guest_words
from plimsoll_agent.top.sampler import Sampler
from plimsoll_agent.util import files, locks
from plimsoll_agent.util.text import plural, printable
from plimsoll_insight.load.latency import MOST_DISKS, Histograms, Latencies, LatencyHistogram, merge
from plimsoll_insight.load.tally import (
    DIRECTIONS,
    Did,
    Intervals,
    LoadTally,
    Share,
    heaviest,
    key_of,
    share_of,
    size_words,
)
from plimsoll_monitoring.region.messages import seconds_words
from plimsoll_probes.model.histogram import Quantile
from plimsoll_probes.output.serialize import quantile_data

BY = ("volume", "guest", "project", "type", "time")
_LEAST, _MOST = 0.5, 3600.0
_SIZES_SHOWN = 2
_QUANTILES = {"p50": 0.5, "p99": 0.99}
_SHOWN = {"read": _QUANTILES, "write": _QUANTILES, "flush": {"p99": 0.99}}
"""The quantiles that have a column, by direction."""
_NANOSECONDS = 1e9
_SECOND = timedelta(seconds=1)


class Load(NodeCommand, Listing):
    """List who makes the load of this node.

    It watches the disks for some time, and lists shares, rates and sizes of requests.

    QEMU is asked for its counters once each interval and guest, as by top. SIZES are the mean sizes of requests in
    intervals, the most frequent first: 4k 74 % are requests in intervals whose mean was 4 to 8 KiB. With --by time
    each interval has a row, with the sizes of its disks. SIGINT and SIGTERM end it early, with the list of the time
    until then.

    Exit status:
        0   done
        1   error or incomplete
        64  usage
        75  another load measures latencies

    Examples:
        plimsoll load
        plimsoll load --for 5m --by project
        plimsoll load --for 1m --guest instance-00000412 --latency
    """

    empty = "No disk did anything."

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--for", dest="length", metavar="TIME", default="10s", help="how long; default: 10s")
        parser.add_argument("--interval", metavar="TIME", default="1s", help="between two readings; default: 1s")
        parser.add_argument("--by", choices=BY, default="volume", help="rows for each of these; default: volume")
        parser.add_argument("--top", metavar="N", type=int, help="only the N rows with most requests")
        add_guests(parser)
        parser.add_argument(
            "--latency",
            action="store_true",
            help="have QEMU keep latency histograms of the disks of each --guest, or of the --top N disks; libvirt"
            " marks these guests as tainted until they stop",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        length, interval = _times(parsed_args)
        by, settings = parsed_args.by, self.settings(parsed_args)
        state = state_of(settings)
        with self.libvirt(settings) as hypervisor, ended_early() as stop:
            scope = scope_of(hypervisor, parsed_args.guest)
            sampler = Sampler(hypervisor, scope, clock=time.monotonic, at_once=settings.bounds.at_once)
            sampler.check()
            began = datetime.now(UTC)
            tally = LoadTally(Intervals(time.monotonic(), interval) if by == "time" else None)
            histograms = Histograms(hypervisor, state, settings.uri)
            latencies: Mapping[str, Latencies] = {}
            rounds = self._watch(sampler, tally, length, interval, stop)
            if parsed_args.latency:
                with self._lock(state):
                    latencies = self._measured(histograms, tally, rounds, parsed_args.top)
            else:
                self._try_leftovers(state, histograms)
                for _ in rounds:
                    pass
            sample = sampler.sample()
        troubles = [guest_words(unreachable) for unreachable in sample.unreachable]
        for line in (*troubles, *histograms.complaints):
            self.warn_of(line)
        self.status = 1 if troubles or histograms.complaints or tally.unknown else 0
        incomplete = tuple(_incomplete(tally))
        if parsed_args.formatter != "table" or parsed_args.columns:  # without lines for people
            for line in incomplete:
                self.warn_of(line)
        if troubles or incomplete:
            self.empty = " ".join(("No disk whose counters could be read did anything.", *incomplete))
        if tally.intervals is not None:
            self.closing = incomplete
            return TIME_COLUMNS, list(_over_time(tally.intervals, began, parsed_args.top))
        whole = tally.whole
        shares = [each for each in tally.by(key_of(by)) if any(each.did.requests.values())]
        top = shares[: parsed_args.top]
        self.closing = (
            *_closing(shares, whole, parsed_args),
            *incomplete,
            *_not_measured(top, tally, by, latencies),
        )
        rows = [_cells(each, whole, tally, by) for each in top]
        if not parsed_args.latency:
            return _columns(by), rows
        cells = [_latency_cells(each, tally, by, latencies) for each in top]
        return (*_columns(by), *LATENCY_COLUMNS), [(*row, *more) for row, more in zip(rows, cells, strict=True)]

    def _watch(
        self, sampler: Sampler, tally: LoadTally, length: float, interval: float, stop: Event
    ) -> Iterator[int]:
        """How many rounds follow each; they begin on time, however long one took. Progress on a terminal."""
        stderr, began = self.app.stderr, time.monotonic()
        rounds = round(length / interval)
        for number in range(rounds + 1):
            sampler.ask()
            tally.add(sampler.sample().usages)
            yield rounds - number
            is_last = number == rounds
            if not is_last and stderr.isatty():
                stderr.write(f"\r{number * interval:.0f} s of {length:.0f} s")
                stderr.flush()
            if is_last or stop.wait(max(began + (number + 1) * interval - time.monotonic(), 0)):
                break
        if stderr.isatty():
            stderr.write("\r\x1b[K")
            stderr.flush()

    @contextmanager
    def _lock(self, state: State) -> Iterator[None]:
        state.prepare()
        busy = Busy("another plimsoll load --latency is under way on this node; no histogram was set")
        with locks.held(state.histograms_lock, busy, StateError, "; no histogram was set"):
            yield

    def _measured(
        self, histograms: Histograms, tally: LoadTally, rounds: Iterable[int], top: int | None
    ) -> Mapping[str, Latencies]:
        """Latencies of the busiest disks, from the first round on in which there are any."""
        self._remove_leftovers(histograms)
        try:
            disks: Sequence[Disk] = ()
            for rest in rounds:
                if rest and not disks:
                    disks = _busiest(tally, top)
                    self._measure(histograms, disks)
            if top and not disks:
                histograms.complaints.append(
                    "latencies not measured: no disk did anything before the last interval; give a longer"
                    " --for, or --guest without --top"
                )
            return histograms.read()
        finally:
            histograms.remove()

    def _measure(self, histograms: Histograms, disks: Sequence[Disk]) -> None:
        """Raises ``UsageError``, ``StateError``."""
        if len(disks) > MOST_DISKS:
            raise UsageError(
                f"--latency is for {MOST_DISKS} disks or fewer, not {len(disks)}; add --top {MOST_DISKS}"
            )
        if disks:
            names = ", ".join(sorted({printable(disk.guest.name) for disk in disks}))
            warning = "libvirt marks these guests as tainted (custom-monitor) until they stop"
            self.app.stderr.write(f"--latency uses QEMU's monitor: {warning}: {names}\n")
            histograms.set(disks)

    def _remove_leftovers(self, histograms: Histograms) -> None:
        """Raises ``StateError``; not for a corrupt file, which the next histograms replace."""
        try:
            had = histograms.remove()
        except CorruptState as error:
            self.warn_of(f"{error}; histograms that it named stay until their guests stop")
            return
        if had:
            words = (
                f"Removed the latency histograms that an earlier plimsoll load left in {plural(len(had), 'guest')}"
            )
            self.app.stderr.write(f"{words}: {', '.join(map(printable, had))}\n")

    def _try_leftovers(self, state: State, histograms: Histograms) -> None:
        """Unless another load is measuring them."""
        try:
            if not files.exists(state.histograms):
                return
            with self._lock(state):
                self._remove_leftovers(histograms)
        except Busy:
            return
        except StateError as error:
            self.warn_of(str(error))
        except OSError as error:
            self.warn_of(f"{state.histograms}: {files.reason(error)}")


def _times(parsed_args: argparse.Namespace) -> tuple[float, float]:
    """How long, and between two readings. Raises ``UsageError``, also for options that do not fit together."""
    length = time_of("--for", parsed_args.length)
    interval = time_of("--interval", parsed_args.interval)
    if not _LEAST <= interval <= length <= _MOST:
        raise UsageError(f"--interval must be {_LEAST:g} seconds or more, and --for from there to an hour")
    if parsed_args.top is not None and parsed_args.top < 1:
        raise UsageError("--top must be 1 or more")
    if parsed_args.latency:
        if not parsed_args.guest and parsed_args.top is None:
            raise UsageError("--latency needs --guest GUEST or --top N: it is for few disks")
        if (parsed_args.top or 0) > MOST_DISKS:
            raise UsageError(f"--latency is for {MOST_DISKS} disks or fewer; lower --top")
        if parsed_args.by == "time":
            raise UsageError("--latency is of the whole time; give another --by than time")
        if length < 2 * interval:
            raise UsageError("--latency needs two intervals or more; give a longer --for")
    return length, interval


def _busiest(tally: LoadTally, top: int | None) -> list[Disk]:
    """All of them, or those with most requests until now; none before a disk has any."""
    if top is None:
        return list(tally.disks.values())
    did = {key: sum(each.requests.values()) for key, each in tally.did.items()}
    busiest = sorted((key for key in did if did[key]), key=lambda key: -did[key])
    return [tally.disks[key] for key in busiest[:top]]


def side_columns() -> list[Column]:
    """Of reads, then of writes: their share of all, their rate, and the mean size of a request."""
    return [
        column
        for direction in DIRECTIONS
        for column in (
            Column(f"{direction}_share", right=True),
            Column(f"{direction}_iops", right=True, drop=6),
            Column(f"{direction}_bytes_share", head=f"{direction.upper()} BYTES", right=True, drop=3),
            Column(f"{direction}_bytes_sec", head=f"{direction.upper()} MiB/s", right=True, drop=2),
            Column(f"{direction}_size", right=True, drop=5 if direction == "read" else 4),
        )
    ]


def side_cells(did: Did, whole: Did, seconds: float) -> list[Shown]:
    """The cells of these columns."""
    cells = []
    for direction in DIRECTIONS:
        requests, throughput, size = _did_cells(did, direction, seconds)
        cells += [
            _part(share_of(did, whole, "requests", direction)),
            requests,
            _part(share_of(did, whole, "bytes", direction)),
            throughput,
            size,
        ]
    return cells


def _did_cells(did: Did, direction: str, seconds: float) -> tuple[Shown, Shown, Shown]:
    """Requests and bytes in a second, and the mean size of a request."""
    size = did.mean_size(direction)
    return (
        _rate(did.requests[direction] / seconds, iops),
        _rate(did.bytes[direction] / seconds, mib),
        Shown(None if size is None else round(size), NOTHING if size is None else size_words(size)),
    )


def _columns(by: str) -> Sequence[Column]:
    names = (
        [Column("server", most=16), Column("guest", most=32, least=17, drop=1)] if by in ("volume", "guest") else []
    )
    return (
        Column(by, most=36),
        *names,
        Column("disks", right=True, long=True),
        *side_columns(),
        Column("sizes", wraps=True, drop=1),
    )


def _cells(share: Share, whole: Did, tally: LoadTally, by: str) -> tuple[object, ...]:
    names: tuple[object, ...] = ()
    if by in ("volume", "guest"):
        guest = next(disk.guest for disk in tally.disks.values() if key_of(by)(disk) == share.name)
        names = guest.display_name, guest.name
    return (share.name, *names, share.disks, *side_cells(share.did, whole, tally.seconds), _sizes(share.did))


TIME_COLUMNS = (
    Column("begin", head="UTC"),
    Column("end", long=True),
    *(
        column
        for direction in DIRECTIONS
        for column in (
            Column(f"{direction}_iops", right=True, drop=2),
            Column(f"{direction}_bytes_sec", head=f"{direction.upper()} MiB/s", right=True, drop=1),
            Column(f"{direction}_size", right=True),
        )
    ),
    Column("sizes", wraps=True),
)


def _over_time(intervals: Intervals, began: datetime, top: int | None) -> Iterator[tuple[object, ...]]:
    """None if no disk did anything; of ``top``, those with most requests, in the order of time."""
    parts = list(enumerate(intervals.each()))
    if not any(any(did.requests.values()) for _, did in parts):
        return
    busiest = sorted(parts, key=lambda each: -sum(each[1].requests.values()))[:top]
    length = timedelta(seconds=intervals.seconds)
    for number, did in sorted(busiest, key=lambda each: each[0]):
        begin = began + number * length
        rates = [cell for direction in DIRECTIONS for cell in _did_cells(did, direction, intervals.seconds)]
        words = f"{begin:%H:%M:%S}" if length >= _SECOND else f"{begin:%H:%M:%S.%f}"[:10]
        yield (Shown(_iso(begin), words), _iso(begin + length), *rates, _sizes(did))


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")


LATENCY_COLUMNS = (
    *(
        Column(f"{way}_{name}", right=True, drop=1 if way == "flush" else 7 if name == "p50" else 0)
        for way, quantiles in _SHOWN.items()
        for name in quantiles
    ),
    Column("latency", long=True),
)


def _latency_cells(share: Share, tally: LoadTally, by: str, by_key: Mapping[str, Latencies]) -> list[Shown]:
    of = [by_key[key] for key, disk in tally.disks.items() if key in by_key and key_of(by)(disk) == share.name]
    latencies = merge(of)
    cells = []
    for way, quantiles in _SHOWN.items():
        for fraction in quantiles.values():
            quantile = latencies[way].quantile(fraction)
            cells.append(Shown(quantile_data(quantile), _quantile_words(quantile)))
    data = {"disks": len(of), **{way: _latency_data(histogram) for way, histogram in latencies.items()}}
    return [*cells, Shown(data if of else None, "yes" if of else NOTHING)]


def _quantile_words(quantile: Quantile | None) -> str:
    if quantile is None:
        return NOTHING
    if quantile.upper is not None and quantile.lower == 0:
        return f"under {seconds_words(quantile.upper / _NANOSECONDS)}"
    words = seconds_words(quantile.value / _NANOSECONDS)
    return f"over {words}" if quantile.saturated else words


def _latency_data(histogram: LatencyHistogram) -> dict[str, object]:
    return {
        "requests": histogram.count,
        "saturated": histogram.saturated,
        "histogram_ns": [list(each) for each in histogram.intervals],
    }


def _part(share: float | None) -> Shown:
    return Shown(None if share is None else round(share, 4), NOTHING if share is None else percent(share))


def _rate(value: float, words: Any) -> Shown:
    return Shown(round(value, 3), words(value))


def _sizes(did: Did) -> Shown:
    return Shown(_sizes_data(did), _sizes_words(did))


def _sizes_data(did: Did) -> dict[str, dict[str, float]]:
    return {
        direction: {str(size): round(part, 4) for size, part in sorted(did.usual_sizes(direction))}
        for direction in DIRECTIONS
    }


def _sizes_words(did: Did) -> str:
    parts = []
    for direction in DIRECTIONS:
        usual = did.usual_sizes(direction)[:_SIZES_SHOWN]
        if usual:
            parts.append(f"{direction} " + ", ".join(f"{size_words(size)} {percent(part)}" for size, part in usual))
    return "; ".join(parts) or NOTHING


def heaviest_lines(did: Sequence[Did], whole: Did, one: str, of: str, whose: str = "") -> Iterator[str]:
    """How few make a quarter of the load; ``of`` is how many there are: "96 active", "96 in r1"."""
    for direction, verb in (("write", "written"), ("read", "read")):
        requests = heaviest(did, whole, "requests", direction)
        volume = heaviest(did, whole, "bytes", direction)
        if requests is not None:
            number, part = requests
            also = "" if volume is None else f", {percent(volume[1])} of bytes {verb} from {volume[0]}"
            yield f"{percent(part)} of {whose}{direction}s come from {plural(number, one)} of {of}{also}."


def _closing(shares: Sequence[Share], whole: Did, parsed_args: argparse.Namespace) -> Iterator[str]:
    of, whose = f"{len(shares)} active", "these guests' " if parsed_args.guest else ""
    yield from heaviest_lines([share.did for share in shares], whole, parsed_args.by, of, whose)


def _not_measured(
    shares: Sequence[Share], tally: LoadTally, by: str, latencies: Mapping[str, Latencies]
) -> Iterator[str]:
    """Where latencies are of a part of the disks in these rows that did something."""
    names = {share.name for share in shares}
    active = [key for key, did in tally.did.items() if any(did.requests.values())]
    disks = [key for key in active if key_of(by)(tally.disks[key]) in names]
    number = sum(key in latencies for key in disks)
    if latencies and number < len(disks):
        yield f"Latencies are of {number} of {plural(len(disks), 'disk')} in these rows; the others have none."


def _incomplete(tally: LoadTally) -> Iterator[str]:
    if tally.unknown:
        yield f"Incomplete: counters of {plural(len(tally.unknown), 'disk')} could not be read all the time."
