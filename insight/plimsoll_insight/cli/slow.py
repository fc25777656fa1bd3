"""``plimsoll slow``: Ceph's slow requests on the CRUSH tree, and which host or OSD stands out."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plimsoll_agent.errors import CannotTell, PlimsollError, Unreachable, UsageError
from plimsoll_agent.messages.tones import Tone
from plimsoll_agent.terminal.base import LocalCommand
from plimsoll_agent.terminal.columns import NOTHING, Column
from plimsoll_agent.terminal.formats import Shown
from plimsoll_agent.terminal.listing import Listing
from plimsoll_agent.terminal.moments import add_window, ends, moment_of, time_of, zone_of
from plimsoll_agent.util import files
from plimsoll_agent.util.concurrency import side_by_side
from plimsoll_agent.util.text import minute, plural, printable, second
from plimsoll_insight.cli.cluster_options import add_cluster, cluster_of
from plimsoll_insight.cli.plotting import plotting
from plimsoll_insight.files.packed import UnreadableLog, opened
from plimsoll_insight.slow import dumps, images, pools
from plimsoll_insight.slow.answers import SlowAnswer, answer_of, is_some
from plimsoll_insight.slow.counts import MINUTE, Counts, OsdCount, together
from plimsoll_insight.slow.events import UNKNOWN_OSD, LogClock, SlowRequest, osd_name
from plimsoll_insight.slow.over_time import over_time, width_words
from plimsoll_insight.slow.peers import settle
from plimsoll_insight.slow.reading import LogReading, read
from plimsoll_insight.slow.shards import settle_started
from plimsoll_insight.slow.tree import Tree, parse
from plimsoll_insight.slow.verdict import LEAST, OfBucket, OfOsd, Verdict, judge
from plimsoll_insight.slow.wrapped import form_of, osd_of_file

if TYPE_CHECKING:
    from plimsoll_agent.monitor.pass_summary import LastDisk
    from plimsoll_insight.adapters.cluster import LiveCluster, OsdRequests

_BY = ("tree", "pool", "image", "state", "time")
_AT_ONCE = 8
_ALL_OSDS = 120.0
"""Seconds for all OSDs of a cluster."""
_ALL_IMAGES = 30.0
_SINCE = "1h"
_MOST_IMAGES = 100
_SHOWN = 10
_SHORTEST, _LONGEST = 1.0, 86_400.0
_LED_BY = 3
_NO_TREE = "Without --tree no host or rack can stand out."
_NAMES = "give ceph health detail, or the OSDs' own logs, which name them."
_LARGEST_FILE = 64 << 20
_BEGIN = 64 << 10


class Slow(LocalCommand, Listing):
    """List Ceph's slow requests by OSD, host and rack.

    It reads logs, or asks the cluster (--live), and says which of them stands out.

    A LOG is the cluster's (ceph.log), an OSD's (ceph-osd.N.log) or a monitor's, of any release from Jewel to
    Tentacle, as a file, a journal or a container has it, plain, gzip or zstd, in any order; or ceph health detail; or
    the JSON of dump_historic_slow_ops, with osd.N in its name. Each request counts once.

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
        if bool(parsed_args.logs) == parsed_args.live:
            raise UsageError("give logs, or --live, and not both")
        if parsed_args.top is not None and parsed_args.top < 1:
            raise UsageError("--top: at least 1")
        width = time_of("--interval", parsed_args.interval)
        if not _SHORTEST <= width <= _LONGEST:
            raise UsageError(f"--interval: must be from {_SHORTEST:g} seconds to a day")
        if parsed_args.plot is not None:
            with plotting(parsed_args.plot):
                from plimsoll_insight.slow import plots
        reading = LogReading.nothing(LogClock(zone_of(parsed_args.timezone)), width)
        now = datetime.now(UTC)
        since, until = ends(parsed_args, now)
        reading.since, reading.until = (each.timestamp() if each else None for each in (since, until))
        tree = parse(_text(parsed_args.tree, "--tree"), str(parsed_args.tree)) if parsed_args.tree else None
        pool_text = _text(parsed_args.pools, "--pools") if parsed_args.pools else ""
        pool_names = pools.parse(pool_text, str(parsed_args.pools)) if pool_text else {}
        names = (
            images.parse(_text(parsed_args.images, "--images"), str(parsed_args.images)) if parsed_args.images else {}
        )
        unknown: Sequence[str] = ()
        gaps: Sequence[str] = ()
        if parsed_args.live:
            cluster = cluster_of(parsed_args, lambda: self.settings(parsed_args).ceph, 30.0)
            of_cluster, gaps, unknown = self._live(cluster, reading, since or moment_of("--since", _SINCE, now))
            unknown = (*gaps, *unknown)
            tree = tree or of_cluster
        else:
            self._read_logs(parsed_args.logs, reading)
        sources = (reading.cluster, reading.own, reading.dumped)
        counts = together(*sources)
        of_any_pool = settle_started(counts, sources, pools.erasure_coded(pool_text) if pool_text else {})
        if parsed_args.live and parsed_args.by in ("pool", "image"):
            pool_names = pool_names or cluster.pools()
        if parsed_args.live and parsed_args.by == "image":
            names, untold = self._images(cluster, counts, pool_names, names)
            unknown = (*unknown, *untold)
        verdict = judge(counts.blamed.counts, tree)
        answer = answer_of(reading, counts, gaps)
        unknown = (*unknown, *_unknown(reading, counts, of_any_pool))
        zone = _zone_words(reading.clock, parsed_args.timezone)
        self.closing = (*_closing(counts, tree, verdict, is_complete=not unknown), *unknown, *zone)
        if parsed_args.plot is not None:
            answer_words = _sentence(verdict, counts, is_complete=not unknown)
            words = (answer_words, *(each for each in self.closing if each not in (answer_words, _NO_TREE)))
            image = plots.render(parsed_args.plot.suffix, over_time(counts, tree), tree, words)
            files.save(parsed_args.plot, image, PlimsollError)
            self.closing = (*self.closing, f"Drawn: {parsed_args.plot}")
        if parsed_args.by == "pool" and any(
            isinstance(pool, int) and pool not in pool_names for pool in counts.pools
        ):
            self.closing = (*self.closing, "A pool with a number may be one of those with a name: --pools tells.")
        if parsed_args.by in ("image", "pool") and counts.osds:
            self.empty = " ".join((f"No line names {parsed_args.by}s.", *unknown))
        elif unknown:
            self.empty = " ".join(("No slow requests in what is known.", *unknown))
        if answer is SlowAnswer.SOME and not counts.requests:
            # No view but the tree has a row of them.
            self.empty = " ".join((*_closing(counts, tree, verdict, is_complete=False), *unknown))
        if answer is SlowAnswer.SOME and not counts.osds:
            # Monitors have a sum, and no line names an OSD.
            why = " ".join((*_by_monitor(counts), *_look_at(counts, None)))
            self.empty = " ".join((why, *unknown, f"Next: {_NAMES}"))
            if parsed_args.formatter != "table":
                rows = [(answer.value, why, _NAMES)]
                return (Column("answer"), Column("reason"), Column("next")), rows
        if answer is SlowAnswer.CANNOT_TELL:
            next_ = _next(reading, live=parsed_args.live)
            self.status = CannotTell.exit_status
            self.empty = f"{self.empty} So it cannot be told whether there are any. Next: {next_}"
            if not counts.osds:
                self.app.stderr.writelines(
                    f"{each}\n" for each in (*unknown, f"Next: {next_}") if parsed_args.formatter != "table"
                )
                own = (answer.value, " ".join(unknown), next_)
                rows = [own] if parsed_args.formatter != "table" else []
                return (Column("answer"), Column("reason"), Column("next")), rows
            self.closing = (*self.closing, self.empty)
        if parsed_args.formatter != "table":
            # A zone that was given needs no word.
            self.app.stderr.writelines(
                f"{each}\n" for each in (*unknown, *(zone if not parsed_args.timezone else ()))
            )
        match parsed_args.by:
            case "tree":
                return _on_the_tree(counts, tree, verdict, answer, parsed_args)
            case "time":
                return _by_time(counts, tree)
            case "pool":
                by_name = Counter[str]()
                for pool, number in counts.pools.items():
                    by_name[pool_names.get(pool, f"pool {pool}") if isinstance(pool, int) else pool] += number
                return _by("pool", by_name)
            case "image":
                return _by_image(counts, pool_names, names, self._last_disks(parsed_args))
            case _:
                return _by("state", counts.states)

    def _last_disks(self, parsed_args: argparse.Namespace) -> Sequence[LastDisk]:
        """Of this node's last pass. A monitor's host has none."""
        # Here: reading a log is often done in less time.
        from plimsoll_agent.app.context import state_of
        from plimsoll_agent.monitor import pass_summary_file

        with suppress(PlimsollError):
            last = pass_summary_file.load(state_of(self.settings(parsed_args)))
            return last.disks if last else ()
        return ()

    def _images(
        self, cluster: LiveCluster, counts: Counts, pool_names: Mapping[int, str], names: Mapping[str, str]
    ) -> tuple[dict[str, str], list[str]]:
        """``POOL/IMAGE`` by id, of the images with most requests; and what is unknown."""
        paths, end = dict(names), time.monotonic() + _ALL_IMAGES
        ids = [id for id, _ in counts.images.most_common(_MOST_IMAGES) if id in counts.pool_of_image]
        ids = [id for id in ids if id not in paths and counts.pool_of_image[id] in pool_names]
        errors: list[PlimsollError] = []

        def ask(id: str) -> str | PlimsollError:
            pool = pool_names[counts.pool_of_image[id]]
            try:
                return f"{pool}/{cluster.image(pool, id, end)}"
            except PlimsollError as error:
                return error

        for id, answer in side_by_side(ask, ids, _AT_ONCE):
            if isinstance(answer, PlimsollError):
                errors.append(answer)
            else:
                paths[id] = answer
        return paths, [f"{plural(len(errors), 'image')} without a name: {errors[0]}."] if errors else []

    def _read_logs(self, paths: Sequence[Path], reading: LogReading) -> None:
        for path in paths:
            _must_be_there(path, "")
        _refuse_twice(paths)
        jsons = [path for path in paths if _is_json(path)]
        read([path for path in paths if path not in jsons], self._progress, reading)
        if len(reading.foreign) == len(paths):
            raise UnreadableLog(
                f"{reading.foreign[0]}: no line begins as in a log of Ceph; give ceph.log or ceph-osd.N.log"
            )
        requests: list[SlowRequest] = []
        for path in jsons:
            reading.clock.until = path.stat().st_mtime
            with opened(path) as stream:
                text = stream.read(_LARGEST_FILE)
            try:
                for dump in dumps.parse(text, osd_of_file(path.name), printable(str(path)), reading.clock):
                    requests += dump.requests
                    for event in dump.events:
                        reading.cluster.add(event)
            except dumps.Nobodys:
                raise UsageError(f"{path}: whose is it? its name must have osd.N") from None
            reading.telling += 1
        for request in settle(requests):
            if _is_within(request, reading):
                reading.dumped.add(request)
        self._progress(None)

    def _live(self, cluster: LiveCluster, reading: LogReading, since: datetime) -> tuple[Tree, list[str], list[str]]:
        """The tree, of whom there is no answer, and what else is unknown. Raises ``PlimsollError``, also where no OSD
        answers.
        """
        map = cluster.map()
        errors: dict[int, PlimsollError] = {}
        full: list[int] = []
        requests: list[SlowRequest] = []
        end = time.monotonic() + _ALL_OSDS

        def ask(osd: int) -> OsdRequests | PlimsollError:
            try:
                return cluster.requests(osd, end, reading.clock)
            except PlimsollError as error:
                return error

        for number, (osd, answer) in enumerate(side_by_side(ask, map.up, _AT_ONCE), 1):
            if isinstance(answer, PlimsollError):
                errors[osd] = answer
            else:
                recent = [request for request in answer.requests if request.time + request.age >= since.timestamp()]
                requests += recent
                if answer.is_full and len(recent) == len(answer.requests):
                    full.append(osd)
            self._say(f"{number} of {len(map.up)} OSDs asked")
        self._say("")
        for request in settle(requests):
            reading.dumped.add(request)
        if len(errors) == len(map.up):
            why = "; ".join(f"osd.{osd}: {error}" for osd, error in sorted(errors.items())[:1])
            raise Unreachable(f"no OSD answered ({len(map.up)} up, {len(map.down)} down){why and f'; {why}'}")
        reading.telling += 1
        gaps, unknown = [], []
        if errors:
            osd, error = min(errors.items())
            gaps.append(f"No answer from, and not counted: {_osds(errors)}; osd.{osd}: {error}.")
        if map.down:
            unknown.append(f"Down, and not asked: {_osds(map.down)}.")
        if full:
            unknown.append(f"{_osds(full)} may have had more: an OSD remembers no more than its last 20 or so.")
        return map.tree, gaps, unknown

    def _progress(self, read: int | None) -> None:
        self._say("" if read is None else f"{read >> 20} MiB read")

    def _say(self, words: str) -> None:
        stderr = self.app.stderr
        if stderr.isatty():
            stderr.write(f"\r\x1b[K{words}")
            stderr.flush()


def _must_be_there(path: Path, option: str) -> None:
    """Raises ``UsageError``; ``UnreadableLog`` where that cannot be found out."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(f"{option}{path}: no such file") from error
    except OSError as error:
        raise UnreadableLog(f"{option}{path}: {error.strerror}") from error


def _refuse_twice(paths: Sequence[Path]) -> None:
    """A file that is given by two names would count twice."""
    first: dict[tuple[int, int], Path] = {}
    for path in paths:
        status = path.stat()
        same = first.setdefault((status.st_dev, status.st_ino), path)
        if same is not path:
            raise UsageError(f"{path} is {same}, and would count twice; give one of the two")


def _is_json(path: Path) -> bool:
    with opened(path) as stream:
        begin = stream.read(_BEGIN)
    if form_of(begin) != "lines":
        return False
    return begin.lstrip().startswith(b"{") or dumps.is_dump(begin)


def _is_within(request: SlowRequest, reading: LogReading) -> bool:
    end = request.time + request.age
    return (reading.since is None or end >= reading.since) and (
        reading.until is None or request.time <= reading.until
    )


def _text(path: Path, option: str) -> str:
    _must_be_there(path, f"{option}: ")
    with opened(path) as stream:
        return stream.read(_LARGEST_FILE).decode("utf-8", "replace")


def _zone_words(clock: LogClock, zone: str | None) -> Sequence[str]:
    if not clock.is_used:
        return ()
    return (f"Times without a zone were read as {zone or 'UTC'}{'' if zone else '; --timezone gives another one'}.",)


# --- rows

_STALLS = Column("stalls", head="BLUESTORE", right=True)
_FIGURES = (
    Column("slow_primary", head="PRIMARY", right=True),
    Column("slow_subop", head="REPLICA", right=True),
    Column("rwlock", head="LOCKS", right=True, drop=2),
    Column("waits", right=True, drop=1),
    Column("unknown", right=True, drop=1),
    Column("total_slow", head="TOTAL", right=True),
    Column("total_least", right=True, long=True),
    Column("total_most", right=True, long=True),
    Column("stalls", right=True, long=True),
    Column("failed", right=True),
    Column("boot", right=True, drop=4),
    Column("wrongly_down", right=True, drop=3),
    Column("worst_age", right=True),
    Column("verdict"),
    Column("answer", long=True),
)


def _on_the_tree(
    counts: Counts, tree: Tree | None, verdict: Verdict, answer: SlowAnswer, parsed_args: argparse.Namespace
) -> tuple[Sequence[Column], list[Sequence[object]]]:
    top = _top(counts, parsed_args.top) if parsed_args.top else counts
    rows = list(_rows(top, tree or Tree({}), everything=parsed_args.all))
    if parsed_args.formatter == "csv":
        types = tree.types() if tree else []
        branches = [dict(path) for path, _, _ in rows]
        heads = [*(Column(type) for type in types), Column("osd"), *_FIGURES]
        return heads, [
            (
                *(branch.get(type) for type in types),
                None if osd == UNKNOWN_OSD else osd,
                *_cells(count, path, osd, verdict, answer),
            )
            for branch, (path, osd, count) in zip(branches, rows, strict=True)
        ]
    # Few logs have them.
    has_stalls = any(each.stalls for each in counts.osds.values())
    figures = [_STALLS if has_stalls and each == _STALLS else each for each in _FIGURES]
    heads = [Column("name"), Column("type", long=True), *figures]
    return heads, [
        (_name(path, osd), "osd" if osd is not None else path[-1][0], *_cells(count, path, osd, verdict, answer))
        for path, osd, count in rows
    ]


def _top(counts: Counts, number: int) -> Counts:
    """Only the OSDs that have most."""
    order = sorted(counts.osds, key=lambda osd: (-max(counts.osds[osd].total, counts.osds[osd].least), osd))
    top = Counts(counts.width)
    top.osds = {osd: counts.osds[osd] for osd in order[:number]}
    top.by_monitor = counts.by_monitor
    return top


def _rows(
    counts: Counts, tree: Tree, *, everything: bool
) -> Iterator[tuple[tuple[tuple[str, str], ...], int | None, OsdCount]]:
    """Buckets in the order of the map, each before what is in it, and OSDs that are not in the map at the end."""
    buckets = tree.buckets()
    for bucket, osds in buckets.items():
        sum_ = _sum([counts.osds[osd] for osd in osds if osd in counts.osds])
        monitor = counts.by_monitor
        if monitor.osds and not monitor.others and monitor.osds <= set(osds):
            sum_.at_once = max(sum_.at_once, monitor.number)
        if everything or _has_any(sum_):
            yield bucket.path, None, sum_
        for osd in sorted(each for each in osds if tree.bucket_of[each] == bucket):
            count = counts.osds.get(osd, OsdCount())
            if everything or _has_any(count):
                yield bucket.path, osd, count
    for osd in sorted(set(counts.osds) - set(tree.osds)):
        if _has_any(counts.osds[osd]):
            yield (), osd, counts.osds[osd]


def _sum(counts: Sequence[OsdCount]) -> OsdCount:
    whole = OsdCount(worst_age=max((each.worst_age for each in counts), default=0.0))
    for name in (
        "primary", "replica", "locks", "told", "waits", "unknown", "again",
        "failed", "boot", "wrongly_down", "stalls",
    ):  # fmt: skip
        setattr(whole, name, sum(getattr(each, name) for each in counts))
    least = sum(each.least for each in counts)
    if least > whole.total:
        whole.at_once = least
    else:
        whole.twice = whole.total - least
    return whole


def _has_any(count: OsdCount) -> bool:
    return bool(
        count.total or count.least or count.stalls or count.failed or count.boot or count.wrongly_down
        or count.worst_age
    )  # fmt: skip


def _total(count: OsdCount) -> Shown:
    """A number, a range, or what there is at least."""
    if count.least > count.total:
        return Shown(count.least, f"≥ {count.least}")
    if count.least != count.most:
        return Shown(count.total, f"{count.least}–{count.most}")
    return Shown(count.total, str(count.total or NOTHING))


def _name(path: Sequence[tuple[str, str]], osd: int | None) -> Shown:
    words = path[-1][1] if osd is None else osd_name(osd)
    depth = len(path) if osd is not None else len(path) - 1
    return Shown(
        "/".join([*(name for _, name in path), *([words] if osd is not None else [])]), f"{'· ' * depth}{words}"
    )


def _cells(
    count: OsdCount, path: Sequence[tuple[str, str]], osd: int | None, verdict: Verdict, answer: SlowAnswer
) -> tuple[object, ...]:
    is_named = _is_named(path, osd, verdict)
    return (
        *(
            Shown(number, "?" if number is None else str(number or NOTHING))
            for number in (
                count.primary, count.replica, count.known_locks, count.waits, count.unknown,
            )
        ),
        _total(count),
        count.least,
        count.most,
        *(Shown(number, str(number or NOTHING)) for number in (
            count.stalls, count.failed, count.boot, count.wrongly_down,
        )),
        Shown(round(count.worst_age, 3) or None, f"{count.worst_age:.0f} s" if count.worst_age else NOTHING),
        Shown(is_named, "stands out" if is_named else NOTHING, Tone.CRITICAL if is_named else None),
        (
            SlowAnswer.SOME if is_some(count) else answer if answer is SlowAnswer.CANNOT_TELL else SlowAnswer.NONE
        ).value,
    )  # fmt: skip


def _is_named(path: Sequence[tuple[str, str]], osd: int | None, verdict: Verdict) -> bool:
    match verdict:
        case OfOsd():
            return osd == verdict.osd
        case OfBucket():
            return osd is None and tuple(path) == verdict.bucket.path
        case _:
            return False


def _by(what: str, numbers: Counter[str]) -> tuple[Sequence[Column], list[Sequence[object]]]:
    return (Column(what), Column("requests", right=True)), [
        (printable(name), number) for name, number in numbers.most_common()
    ]


IMAGE_COLUMNS = (
    Column("image", drop=4),
    Column("name", most=52, least=24),
    Column("volume", long=True),
    Column("server", most=24, drop=1),
    Column("guest", most=24, drop=2),
    Column("guest_uuid", long=True),
    Column("requests", right=True),
)


def _by_image(
    counts: Counts, pools: Mapping[int, str], names: Mapping[str, str], disks: Sequence[LastDisk]
) -> tuple[Sequence[Column], list[Sequence[object]]]:
    rows: list[Sequence[object]] = []
    for id, number in counts.images.most_common():
        path = images.path(names.get(id), pools.get(counts.pool_of_image.get(id, -1)))
        whose = images.owner(path, disks) if path else images.Owner()
        cells = (path, whose.volume, whose.server, whose.guest, whose.uuid)
        rows.append((id, *(Shown(cell, printable(cell) if cell else NOTHING) for cell in cells), number))
    return IMAGE_COLUMNS, rows


TIME_COLUMNS = (
    Column("begin"),
    Column("end", long=True),
    Column("requests", right=True),
    Column("hosts", wraps=True),
    Column("osds", wraps=True),
)


def _by_time(counts: Counts, tree: Tree | None) -> tuple[Sequence[Column], list[Sequence[object]]]:
    """Requests of each interval, and the OSDs and hosts that they may be due to."""
    over = over_time(counts, tree)
    columns = (*TIME_COLUMNS[:3], *(TIME_COLUMNS[3:4] if tree else ()), TIME_COLUMNS[4])
    return columns, [
        (
            _moment(each.begin, over.width),
            _moment(each.begin + over.width, over.width),
            each.requests,
            *([_most(each.hosts)] if tree else []),
            _most({osd_name(osd): number for osd, number in each.osds.items()}),
        )
        for each in over.intervals
    ]


def _most(numbers: Mapping[str, int]) -> Shown:
    order = sorted(numbers.items(), key=lambda each: -each[1])
    words = [f"{printable(name)} {number}" for name, number in order[:_LED_BY]]
    if len(order) > _LED_BY:
        words.append(f"{len(order) - _LED_BY} more")
    return Shown(dict(order), ", ".join(words) or NOTHING)


def _moment(seconds: float, width: float = MINUTE) -> Shown:
    time = datetime.fromtimestamp(seconds, UTC)
    return Shown(time.isoformat(), minute(time) if width % 60 == 0 else second(time))


# --- sentences


def _closing(counts: Counts, tree: Tree | None, verdict: Verdict, *, is_complete: bool) -> Iterator[str]:
    if counts.first is not None and counts.last is not None:
        begin, end = (minute(datetime.fromtimestamp(each, UTC)) for each in (counts.first, counts.last))
        if counts.requests or not (counts.by_monitor.number or any(each.stalls for each in counts.osds.values())):
            yield f"{_requests(counts)} from {begin} to {end}."
    yield from _most_of(counts, tree)
    yield from _by_monitor(counts)
    yield _sentence(verdict, counts, is_complete=is_complete)
    if tree is None:
        yield _NO_TREE
    else:
        unknown = sorted(set(counts.osds) - set(tree.osds) - {UNKNOWN_OSD})
        if unknown:
            yield f"Not in the tree: {_osds(unknown)}."
    yield from _look_at(counts, verdict)


def _requests(counts: Counts) -> str:
    """With the bounds of their number."""
    least = sum(each.least for each in counts.osds.values() if each.total or each.at_once)
    twice, again = (sum(getattr(each, name) for each in counts.osds.values()) for name in ("twice", "again"))
    if any(each.most is None for each in counts.osds.values()) and least > counts.requests:
        return f"At least {plural(least, 'slow request')}"
    words = plural(counts.requests + again, "slow request")
    return f"{max(counts.requests - twice, 1)} to {words}" if twice or again else words


def _most_of(counts: Counts, tree: Tree | None) -> Iterator[str]:
    """Where most of them are, whatever they wait for."""
    have = {osd: max(each.total, each.least) for osd, each in counts.osds.items() if each.total or each.at_once}
    all_ = sum(have.values())
    have.pop(UNKNOWN_OSD, None)
    if not have or all_ < 2:
        return
    more = "at least " if any(each.most is None for each in counts.osds.values()) else ""
    worst = max(have, key=lambda osd: have[osd])
    osds = f" of {len(tree.osds)} OSDs" if tree and worst in tree.bucket_of else ""
    if 2 * have[worst] > all_:
        least = "at least " if counts.osds[worst].most is None else ""
        what = f"all {more}{all_}" if have[worst] == all_ else f"{least}{have[worst]} of {more}{all_}"
        yield f"{osd_name(worst)}{osds} has {what} slow requests, whatever they wait for."
        return
    for bucket, inside in reversed((tree.buckets() if tree else {}).items()):
        number = sum(have.get(osd, 0) for osd in inside)
        if 3 * number >= 2 * all_ and len(bucket.path) > 1:
            yield f"{bucket.type} {bucket.name} has {number} of {more}{all_} slow requests, whatever they wait for."
            return


def _by_monitor(counts: Counts) -> Iterator[str]:
    monitor = counts.by_monitor
    if not monitor.number or monitor.begin is None or monitor.end is None:
        return
    total = sum(each.total for each in counts.osds.values())
    if total >= monitor.number and all(counts.osds[osd].total for osd in monitor.osds if osd in counts.osds):
        return
    begin, end = (
        second(datetime.fromtimestamp(each, UTC)) for each in (monitor.begin, monitor.cleared or monitor.end)
    )
    whose = f" of {_osds(monitor.osds)}" if monitor.osds else ""
    whose += " and of other daemons" if monitor.others else ""
    end_words = ", when they had ended" if monitor.cleared is not None else ""
    oldest = f"; the oldest one for {monitor.oldest:.0f} s" if monitor.oldest else ""
    yield f"Monitors: at least {monitor.number} at once{whose}, from {begin} to {end}{end_words}{oldest}."


def _look_at(counts: Counts, verdict: Verdict) -> Iterator[str]:
    """What to look at next."""
    osds = [osd for osd, each in counts.osds.items() if each.stalls]
    if counts.by_monitor.stalls and not osds:
        yield "BlueStore of OSDs that no line names was slow itself."
    if osds:
        yield f"BlueStore of {_osds(osds)} was slow itself: look at the disk (smartctl, dmesg, iostat)."
    have = {osd: max(each.total, each.least) for osd, each in counts.osds.items() if each.total or each.least}
    untold = sum(each.waits + each.unknown + max(each.least - each.total, 0) for each in counts.osds.values())
    if have and verdict is None and 2 * untold >= sum(have.values()):
        worst = max(have, key=lambda osd: have[osd])
        name = f"osd.{worst}" if worst != UNKNOWN_OSD else "osd.N"
        yield (
            f"Next: ceph daemon {name} dump_historic_slow_ops tells for which OSD each waited; save it as"
            f" {name}.json, and give it too."
        )


def _unknown(reading: LogReading, counts: Counts, of_any_pool: Sequence[int]) -> Iterator[str]:
    """What the figures do not have in them."""
    if reading.foreign:
        yield f"Not a log of Ceph: {_few(reading.foreign)}."
    if reading.outside:
        yield f"No line is of that time: {_few(reading.outside)}."
    if reading.silent:
        yield f"No log of the cluster, an OSD or a leading monitor: {_few(reading.silent)}."
    if reading.empty and not reading.bytes:
        yield f"{reading.empty[0]} is empty."
    if reading.unattributed:
        yield f"OSD unknown, by lines and by file name: {_few(reading.unattributed)}; name it ceph-osd.N.log."
    untold = [osd for osd, each in counts.osds.items() if each.unknown and 2 * each.unknown >= each.total]
    if untold:
        yield f"No line tells what the requests of {_osds(untold)} wait for: it may be other OSDs."
    if of_any_pool:
        yield (
            f"Started requests of {_osds(of_any_pool)} count as PRIMARY, which is right for replicated pools; those"
            " to erasure-coded pools may wait for other OSDs. Next: give --pools, with ceph osd pool ls detail."
        )
    if reading.missed:
        yield f"{plural(reading.missed, 'line')} about slow requests not understood; the first: {reading.examples[0]}"
    if reading.clock.is_guessed:
        yield "Lines without a time were taken as of when their file was written."


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


def _next(reading: LogReading, *, live: bool) -> str:
    if live:
        return "ask the OSDs that did not answer again, or give ceph.log."
    if reading.missed:
        return "give the cluster's log (ceph.log) too, or the journal as journalctl -o short-iso prints it."
    return "give ceph.log, or ceph-osd.N.log of the OSDs, of the time in question."


def _osds(osds: Iterable[int]) -> str:
    names = [osd_name(osd) for osd in sorted(osds)]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


def _sentence(verdict: Verdict, counts: Counts, *, is_complete: bool) -> str:
    kind = f"{verdict.device_class} " if verdict is not None and verdict.device_class else ""
    match verdict:
        case OfBucket():
            return (
                f"{verdict.bucket.type} {verdict.bucket.name} stands out: {verdict.inside} of its {verdict.osds}"
                f" {kind}OSDs are among the {verdict.slowest} slowest of {verdict.all}, by chance in less than"
                f" {_percent(verdict.chance)} of clusters. Look at the {verdict.bucket.type}, not at"
                f" osd.{verdict.worst} alone."
            )
        case OfOsd():
            return (
                f"osd.{verdict.osd} stands out: {verdict.number} of the {plural(verdict.all, 'request')} that"
                f" {kind}OSDs may have caused are its own, the next OSD has {verdict.next}. They lie in"
                f" {_intervals(verdict.intervals, counts.blamed.width)}, and it leads in {verdict.led}."
            )
        case _:
            if sum(each.blamed for each in counts.osds.values()) < LEAST:
                return (
                    f"Fewer than {LEAST} requests have an OSD as their cause: too few to say whether one stands out."
                )
            return f"No host, rack or OSD stands out{'' if is_complete else ' in what is known'}."


def _intervals(number: int, width: float) -> str:
    if width == MINUTE:
        return plural(number, "minute")
    return f"{plural(number, 'interval')} of {width_words(width)}"


def _percent(chance: float) -> str:
    return f"{100 * max(chance, 1e-9):.1g} %"
