"""``plimsoll slow``: Ceph's slow requests on the CRUSH tree, and which host or OSD stands out."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from plimsoll_agent.command.base import LocalCommand
from plimsoll_agent.command.formats import Shown
from plimsoll_agent.command.listing import Listing
from plimsoll_agent.command.moments import seconds_of
from plimsoll_agent.errors import PlimsollError, Unreachable, UsageError
from plimsoll_agent.layout.columns import NOTHING, Column
from plimsoll_agent.messages.tones import Tone
from plimsoll_agent.util.concurrency import side_by_side
from plimsoll_agent.util.text import minute, plural, printable
from plimsoll_insight.adapters.cluster import LiveCluster, Remembered
from plimsoll_insight.files.packed import UnreadableLog, opened
from plimsoll_insight.slow import dumps
from plimsoll_insight.slow.counts import Counts, OsdCount, together
from plimsoll_insight.slow.reading import OF_OSD, Read, read
from plimsoll_insight.slow.tree import Tree, parsed
from plimsoll_insight.slow.verdict import LEAST, OfBucket, OfOsd, Verdict, verdict

_BY = ("tree", "pool", "image", "state", "time")
_AT_ONCE = 8
_ALL_OSDS = 120.0
"""Seconds for all OSDs of a cluster."""
_SHOWN = 10
_LARGEST_TREE = 64 << 20


class Slow(LocalCommand, Listing):
    """Slow requests of Ceph by OSD, host, rack and root, out of its logs or live, and which of them stands out.

    A LOG is the cluster's (ceph.log) or an OSD's (ceph-osd.N.log), of any release from Jewel to Squid, plain, gzip or
    zstd, in any order; or the JSON of dump_historic_slow_ops, with osd.N in its name. Each request counts once.

    Exit status: 0, 1 error, 64 usage.
    """

    empty = "No slow requests."

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("logs", metavar="LOG", nargs="*", type=Path, help="logs of Ceph, also rotated ones")
        parser.add_argument("--tree", metavar="FILE", type=Path, help="the output of ceph osd tree, as text or JSON")
        parser.add_argument("--live", action="store_true", help="ask the running cluster, for its tree too")
        parser.add_argument("--since", metavar="DURATION", default="1h",
                            help="with --live: how far back: 10m, 7d; default: 1h")  # fmt: skip
        parser.add_argument("--ceph-conf", metavar="FILE", type=Path, default=Path("/etc/ceph/ceph.conf"),
                            help="of the live cluster; default: /etc/ceph/ceph.conf")  # fmt: skip
        parser.add_argument("--id", default="admin", help="the client that asks it; default: admin")
        parser.add_argument("--by", choices=_BY, default="tree", help="rows for each of these; default: tree")
        parser.add_argument("--all", action="store_true", help="OSDs and buckets without slow requests too")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        if bool(parsed_args.logs) == parsed_args.live:
            raise UsageError("give logs, or --live, and not both")
        tree = _tree(parsed_args.tree) if parsed_args.tree else None
        unknown: Sequence[str] = ()
        if parsed_args.live:
            found, of_cluster, unknown = self._live(parsed_args)
            tree = tree or of_cluster
        else:
            found = self._logged(parsed_args.logs)
        counts = together(found.cluster, found.own, found.dumped)
        said = verdict(counts.blamed.counts, tree)
        unknown = (*unknown, *_unknown(found, counts))
        self.closing = (*_closing(counts, tree, said, is_complete=not unknown), *unknown)
        if parsed_args.by in ("image", "pool") and counts.osds:
            self.empty = " ".join((f"No line names {parsed_args.by}s.", *unknown))
        elif unknown:
            self.empty = " ".join(("No slow requests in what is known.", *unknown))
        if parsed_args.formatter != "table":
            self.app.stderr.write("".join(f"{each}\n" for each in unknown))
        if parsed_args.by != "tree":
            return _by(parsed_args.by, counts)
        return _on_the_tree(counts, tree, said, parsed_args)

    def _logged(self, paths: Sequence[Path]) -> Read:
        for path in paths:
            _must_be_there(path, "")
        jsons = [path for path in paths if _is_json(path)]
        found = read([path for path in paths if path not in jsons], self._progress)
        for path in jsons:
            named = OF_OSD.search(path.name)
            if not named:
                raise UsageError(f"{path}: whose is it? its name must have osd.N")
            with opened(path) as stream:
                for request in dumps.requests(stream.read(_LARGEST_TREE), int(named[1]), str(path)):
                    found.dumped.add(request)
        self._progress(None)
        return found

    def _live(self, parsed_args: argparse.Namespace) -> tuple[Read, Tree, list[str]]:
        """With what is unknown. Raises ``PlimsollError``, also where no OSD answers."""
        cluster, found = LiveCluster(parsed_args.ceph_conf, parsed_args.id, 30.0), Read()
        begin = time.time() - seconds_of("--since", parsed_args.since)
        map = cluster.map()
        failed: dict[int, PlimsollError] = {}
        full: list[int] = []
        end = time.monotonic() + _ALL_OSDS

        def ask(osd: int) -> Remembered | PlimsollError:
            try:
                return cluster.requests(osd, end)
            except PlimsollError as error:
                return error

        for number, (osd, told) in enumerate(side_by_side(ask, map.up, _AT_ONCE), 1):
            if isinstance(told, PlimsollError):
                failed[osd] = told
            else:
                recent = [request for request in told.requests if request.time + request.age >= begin]
                for request in recent:
                    found.dumped.add(request)
                if told.is_full and len(recent) == len(told.requests):
                    full.append(osd)
            self._say(f"{number} of {len(map.up)} OSDs asked")
        self._say("")
        if len(failed) == len(map.up):
            why = "; ".join(f"osd.{osd}: {error}" for osd, error in sorted(failed.items())[:1])
            raise Unreachable(f"no OSD answered ({len(map.up)} up, {len(map.down)} down){why and f'; {why}'}")
        unknown = []
        if failed:
            osd, error = min(failed.items())
            unknown.append(f"No answer from, and not counted: {_osds(failed)}; osd.{osd}: {error}.")
        if map.down:
            unknown.append(f"Down, and not asked: {_osds(map.down)}.")
        if full:
            unknown.append(f"{_osds(full)} may have had more: an OSD remembers no more than its last 20 or so.")
        return found, map.tree, unknown

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


def _is_json(path: Path) -> bool:
    with opened(path) as stream:
        return stream.read(64).lstrip().startswith(b"{")


def _tree(path: Path) -> Tree:
    _must_be_there(path, "--tree: ")
    with opened(path) as stream:
        return parsed(stream.read(_LARGEST_TREE).decode("utf-8", "replace"), str(path))


# --- rows

_FIGURES = (
    Column("slow_primary", head="PRIMARY", right=True),
    Column("slow_subop", head="REPLICA", right=True),
    Column("rwlock", head="LOCKS", right=True, drop=2),
    Column("waits", right=True, drop=1),
    Column("unknown", right=True, drop=1),
    Column("total_slow", head="TOTAL", right=True),
    Column("failed", right=True),
    Column("boot", right=True, drop=4),
    Column("wrongly_down", right=True, drop=3),
    Column("worst_age", right=True),
    Column("verdict"),
)


def _on_the_tree(
    counts: Counts, tree: Tree | None, said: Verdict, parsed_args: argparse.Namespace
) -> tuple[Sequence[Column], list[Sequence[object]]]:
    rows = list(_rows(counts, tree or Tree({}), everything=parsed_args.all))
    if parsed_args.formatter == "csv":
        types = tree.types() if tree else []
        branches = [dict(path) for path, _, _ in rows]
        heads = [*(Column(type) for type in types), Column("osd"), *_FIGURES]
        return heads, [
            (*(branch.get(type) for type in types), osd, *_cells(count, path, osd, said))
            for branch, (path, osd, count) in zip(branches, rows, strict=True)
        ]
    heads = [Column("name"), Column("type", long=True), *_FIGURES]
    return heads, [
        (_name(path, osd), "osd" if osd is not None else path[-1][0], *_cells(count, path, osd, said))
        for path, osd, count in rows
    ]


def _rows(
    counts: Counts, tree: Tree, *, everything: bool
) -> Iterator[tuple[tuple[tuple[str, str], ...], int | None, OsdCount]]:
    """Buckets in the order of the map, each before what is in it, and OSDs that are not in the map at the end."""
    buckets = tree.buckets()
    for bucket, osds in buckets.items():
        sum_ = _sum([counts.osds[osd] for osd in osds if osd in counts.osds])
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
    for name in ("primary", "replica", "locks", "waits", "unknown", "failed", "boot", "wrongly_down"):
        setattr(whole, name, sum(getattr(each, name) for each in counts))
    return whole


def _has_any(count: OsdCount) -> bool:
    return bool(count.total or count.failed or count.boot or count.wrongly_down or count.worst_age)


def _name(path: Sequence[tuple[str, str]], osd: int | None) -> Shown:
    words = path[-1][1] if osd is None else f"osd.{osd}"
    depth = len(path) if osd is not None else len(path) - 1
    return Shown(
        "/".join([*(name for _, name in path), *([words] if osd is not None else [])]), f"{'· ' * depth}{words}"
    )


def _cells(count: OsdCount, path: Sequence[tuple[str, str]], osd: int | None, said: Verdict) -> tuple[object, ...]:
    named = _is_named(path, osd, said)
    return (
        *(
            Shown(number, str(number) if number else NOTHING)
            for number in (
                count.primary, count.replica, count.locks, count.waits, count.unknown, count.total, count.failed,
                count.boot, count.wrongly_down,
            )
        ),
        Shown(round(count.worst_age, 3) or None, f"{count.worst_age:.0f} s" if count.worst_age else NOTHING),
        Shown(named, "stands out" if named else NOTHING, Tone.CRITICAL if named else None),
    )  # fmt: skip


def _is_named(path: Sequence[tuple[str, str]], osd: int | None, said: Verdict) -> bool:
    match said:
        case OfOsd():
            return osd == said.osd
        case OfBucket():
            return osd is None and tuple(path) == said.bucket.path
        case _:
            return False


def _by(what: str, counts: Counts) -> tuple[Sequence[Column], list[Sequence[object]]]:
    if what == "time":
        width = counts.bins.width
        return (Column("begin"), Column("end", long=True), Column("requests", right=True)), [
            (_moment(bin * width), _moment((bin + 1) * width), number)
            for bin, number in sorted(counts.bins.counts.items())
        ]
    named: Mapping[str, Counter[str]] = {"pool": counts.pools, "image": counts.images, "state": counts.states}
    return (Column(what), Column("requests", right=True)), [
        (printable(name), number) for name, number in named[what].most_common()
    ]


def _moment(seconds: float) -> Shown:
    time = datetime.fromtimestamp(seconds, UTC)
    return Shown(time.isoformat(), minute(time))


# --- sentences


def _closing(counts: Counts, tree: Tree | None, said: Verdict, *, is_complete: bool) -> Iterator[str]:
    if counts.first is not None and counts.last is not None:
        begin, end = (minute(datetime.fromtimestamp(each, UTC)) for each in (counts.first, counts.last))
        yield f"{plural(counts.requests, 'slow request')} from {begin} to {end}."
    yield _sentence(said, counts, is_complete=is_complete)
    if tree is None:
        yield "Without --tree no host or rack can stand out."
    else:
        unknown = sorted(set(counts.osds) - set(tree.osds))
        if unknown:
            yield f"Not in the tree: {_osds(unknown)}."


def _unknown(found: Read, counts: Counts) -> Iterator[str]:
    """What the figures do not have in them."""
    untold = [osd for osd, each in counts.osds.items() if each.unknown]
    if untold:
        yield f"No line tells the state of the requests of {_osds(untold)}: they may wait for other OSDs."
    if found.missed:
        yield f"{plural(found.missed, 'line')} about slow requests not understood; the first: {found.examples[0]}"


def _osds(osds: Iterable[int]) -> str:
    names = [f"osd.{osd}" for osd in sorted(osds)]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


def _sentence(said: Verdict, counts: Counts, *, is_complete: bool) -> str:
    kind = f"{said.device_class} " if said is not None and said.device_class else ""
    match said:
        case OfBucket():
            return (
                f"{said.bucket.type} {said.bucket.name} stands out: {said.inside} of its {said.osds} {kind}OSDs are"
                f" among the {said.slowest} slowest of {said.all}, by chance in less than {_percent(said.chance)} of"
                f" clusters. Look at the {said.bucket.type}, not at osd.{said.worst} alone."
            )
        case OfOsd():
            return (
                f"osd.{said.osd} stands out: of {plural(said.all, 'request')} that {kind}OSDs may be the cause of"
                f" {said.number} are its own; the next one has {said.next}. It has them in"
                f" {plural(said.minutes, 'minute')}, and leads in {said.led}."
            )
        case _:
            if sum(each.blamed for each in counts.osds.values()) < LEAST:
                return (
                    f"Fewer than {LEAST} requests have an OSD as their cause: too few to say whether one stands out."
                )
            return f"No host, rack or OSD stands out{'' if is_complete else ' in what is known'}."


def _percent(chance: float) -> str:
    return f"{100 * max(chance, 1e-9):.1g} %"
