"""The rows of ``plimsoll slow``: OSDs and what they are in, intervals, pools, images, states."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from plimsoll_agent.messages.tones import Tone
from plimsoll_agent.terminal.columns import NOTHING, Column
from plimsoll_agent.terminal.formats import Shown
from plimsoll_agent.util.text import minute, printable, second
from plimsoll_insight.slow import images
from plimsoll_insight.slow.answers import SlowAnswer, is_some
from plimsoll_insight.slow.counts import MINUTE, Counts
from plimsoll_insight.slow.events import UNKNOWN_OSD, osd_name
from plimsoll_insight.slow.osd_count import OsdCount
from plimsoll_insight.slow.over_time import over_time
from plimsoll_insight.slow.tree import Tree
from plimsoll_insight.slow.verdict import OfBucket, OfOsd, Verdict

if TYPE_CHECKING:
    from plimsoll_agent.monitor.pass_summary import LastDisk

_LED_BY = 3
ANSWER_COLUMNS = (Column("answer"), Column("reason"), Column("next"))
"""Where no row can tell it."""
_STALLS = Column("stalls", head="BLUESTORE", right=True)
FIGURES = (
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


def tree_rows(
    counts: Counts, tree: Tree | None, verdict: Verdict, answer: SlowAnswer, parsed_args: argparse.Namespace
) -> tuple[Sequence[Column], list[Sequence[object]]]:
    top = _top(counts, parsed_args.top) if parsed_args.top else counts
    rows = list(_rows(top, tree or Tree(bucket_of={}), everything=parsed_args.all))
    if parsed_args.formatter == "csv":
        types = tree.types() if tree else []
        branches = [dict(path) for path, _, _ in rows]
        heads = [*(Column(type) for type in types), Column("osd"), *FIGURES]
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
    figures = [_STALLS if has_stalls and each == _STALLS else each for each in FIGURES]
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


def number_rows(what: str, numbers: Counter[str]) -> tuple[Sequence[Column], list[Sequence[object]]]:
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


def image_rows(
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


def time_rows(counts: Counts, tree: Tree | None) -> tuple[Sequence[Column], list[Sequence[object]]]:
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


def pool_rows(counts: Counts, names: Mapping[int, str]) -> tuple[Sequence[Column], list[Sequence[object]]]:
    by_name = Counter[str]()
    for pool, number in counts.pools.items():
        by_name[names.get(pool, f"pool {pool}") if isinstance(pool, int) else pool] += number
    return number_rows("pool", by_name)
