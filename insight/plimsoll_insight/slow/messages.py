"""What ``plimsoll slow`` says: how many requests, of which OSDs, who stands out, what is unknown, what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from plimsoll_agent.util.text import first_few, minute, plural, printable, second
from plimsoll_insight.slow.counts import MINUTE, Counts
from plimsoll_insight.slow.events import DELAYED, UNKNOWN_OSD, LogClock, osd_name
from plimsoll_insight.slow.log_reading import LogReading
from plimsoll_insight.slow.over_time import width_words
from plimsoll_insight.slow.tree import Tree
from plimsoll_insight.slow.verdict import LEAST, OfBucket, OfOsd, Verdict

_SHOWN = 10
NO_TREE = "Without --tree no host or rack can stand out."
NAMES = "give ceph health detail, or the OSDs' own logs, which name them."


def zone_words(clock: LogClock, zone: str | None) -> Sequence[str]:
    if not clock.is_used:
        return ()
    return (f"Times without a zone were read as {zone or 'UTC'}{'' if zone else '; --timezone gives another one'}.",)


def closing_lines(counts: Counts, tree: Tree | None, verdict: Verdict, *, is_complete: bool) -> Iterator[str]:
    if counts.first is not None and counts.last is not None:
        begin, end = (minute(datetime.fromtimestamp(each, UTC)) for each in (counts.first, counts.last))
        if counts.requests or not (counts.by_monitor.number or any(each.stalls for each in counts.osds.values())):
            yield f"{_requests(counts)} from {begin} to {end}."
    yield from _most_of(counts, tree)
    yield from monitor_lines(counts)
    yield verdict_words(verdict, counts, is_complete=is_complete)
    yield from _caution(counts, tree, verdict)
    if tree is None:
        yield NO_TREE
    else:
        unknown = sorted(set(counts.osds) - set(tree.osds) - {UNKNOWN_OSD})
        if unknown:
            yield f"Not in the tree: {osds_words(unknown)}."
    yield from next_lines(counts, verdict)


def _caution(counts: Counts, tree: Tree | None, verdict: Verdict) -> Iterator[str]:
    """Where the requests of who stands out may wait for something else: since Nautilus no line tells what for."""
    osds = [verdict.osd] if isinstance(verdict, OfOsd) else []
    if isinstance(verdict, OfBucket) and tree is not None:
        osds = tree.buckets()[verdict.bucket]
    number = sum(counts.osds[osd].blamed for osd in osds if osd in counts.osds)
    late = sum(counts.by_state.of[osd][DELAYED] for osd in osds if osd in counts.by_state.of)
    if 2 * late > number:
        yield (
            f"{late} of these are delayed: by its queue, a lock, recovery, or a placement group that is not active"
            " (ceph health detail)."
        )


def _requests(counts: Counts) -> str:
    """With the bounds of their number."""
    least = sum(max(each.at_once, counts.by_state.number(osd) - each.twice) for osd, each in counts.osds.items())
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
        # A request that waited for several OSDs is one.
        one_by_one = sum(max(each.at_once, counts.by_state.number(osd)) for osd, each in counts.osds.items())
        what = f"{least}{have[worst]} of {more}{one_by_one}"
        if have[worst] == one_by_one:
            what = f"all {more}{one_by_one}"
        yield f"{osd_name(worst)}{osds} has {what} slow requests, whatever they wait for."
        return
    for bucket, inside in reversed((tree.buckets() if tree else {}).items()):
        number = sum(have.get(osd, 0) for osd in inside)
        if 3 * number >= 2 * all_ and len(bucket.path) > 1:
            yield f"{bucket.type} {bucket.name} has {number} of {more}{all_} slow requests, whatever they wait for."
            return


def monitor_lines(counts: Counts) -> Iterator[str]:
    monitor = counts.by_monitor
    if not monitor.number or monitor.begin is None or monitor.end is None:
        return
    total = sum(each.total for each in counts.osds.values())
    if total >= monitor.number and all(counts.osds[osd].total for osd in monitor.osds if osd in counts.osds):
        return
    begin, end = (
        second(datetime.fromtimestamp(each, UTC)) for each in (monitor.begin, monitor.cleared or monitor.end)
    )
    whose = f" of {osds_words(monitor.osds)}" if monitor.osds else ""
    whose += " and of other daemons" if monitor.others and monitor.osds else ""
    end_words = ", when they had ended" if monitor.cleared is not None else ""
    oldest = f"; the oldest one for {monitor.oldest:.0f} s" if monitor.oldest else ""
    yield f"Monitors: at least {monitor.number} at once{whose}, from {begin} to {end}{end_words}{oldest}."


def next_lines(counts: Counts, verdict: Verdict) -> Iterator[str]:
    """What to look at next."""
    osds = [osd for osd, each in counts.osds.items() if each.stalls]
    if counts.by_monitor.stalls and not osds:
        yield "BlueStore of OSDs that no line names was slow itself."
    if osds:
        yield f"BlueStore of {osds_words(osds)} was slow itself: look at the disk (smartctl, dmesg, iostat)."
    have = {osd: max(each.total, each.least) for osd, each in counts.osds.items() if each.total or each.least}
    untold = sum(each.waits + each.unknown + max(each.least - each.total, 0) for each in counts.osds.values())
    silent = have.keys() - counts.dumped
    if silent and verdict is None and 2 * untold >= sum(have.values()):
        worst = max(sorted(silent), key=lambda osd: have[osd])
        name = f"osd.{worst}" if worst != UNKNOWN_OSD else "osd.N"
        yield (
            f"Next: ceph daemon {name} dump_historic_slow_ops tells for which OSD each waited; save it as"
            f" {name}.json, and give it too."
        )


def unknown_lines(reading: LogReading, counts: Counts, of_any_pool: Sequence[int]) -> Iterator[str]:
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
        yield f"No line tells what the requests of {osds_words(untold)} wait for: it may be other OSDs."
    if of_any_pool:
        yield (
            f"Started requests of {osds_words(of_any_pool)} count as PRIMARY, which is right for replicated pools;"
            " those to erasure-coded pools may wait for other OSDs. Next: give --pools, with ceph osd pool ls detail."
        )
    if reading.full:
        yield f"{osds_words(reading.full)} may have had more: an OSD remembers no more than its last 20 or so."
    if reading.monitors:
        names = [printable(each) for each in sorted(reading.monitors)]
        yield f"Slow ops of monitors themselves do not count: {_few(names)}. Next: ceph daemon {names[0]} ops."
    if reading.has_of_mds:
        yield "Slow requests and metadata IOs of metadata servers do not count. Next: ceph health detail names them."
    if reading.missed:
        yield f"{plural(reading.missed, 'line')} about slow requests not understood; the first: {reading.examples[0]}"
    if reading.clock.is_guessed:
        yield "Lines without a time were taken as of when their file was written."


def _few(names: Sequence[str]) -> str:
    return first_few(names, _SHOWN)


def next_words(reading: LogReading, *, live: bool) -> str:
    if live:
        return "ask the OSDs that did not answer again, or give ceph.log."
    if reading.missed:
        return "give the cluster's log (ceph.log) too, or the journal as journalctl -o short-iso prints it."
    return "give ceph.log, or ceph-osd.N.log of the OSDs, of the time in question."


def osds_words(osds: Iterable[int]) -> str:
    return _few([osd_name(osd) for osd in sorted(osds)])


def verdict_words(verdict: Verdict, counts: Counts, *, is_complete: bool) -> str:
    kind = f"{verdict.device_class} " if verdict is not None and verdict.device_class else ""
    match verdict:
        case OfBucket():
            type = verdict.bucket.type
            return (
                f"{type[:1].upper()}{type[1:]} {verdict.bucket.name} stands out: {verdict.inside} of its"
                f" {verdict.osds} {kind}OSDs are among the {verdict.slowest} slowest of {verdict.all}, by chance in"
                f" less than {_percent(verdict.chance)} of clusters. Look at the {type}, not at"
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
