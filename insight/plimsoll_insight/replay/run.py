"""A replay, in chunks of disks and of time: what is asked, what is left out, and how each disk would fare."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from plimsoll_agent.model.limits import BASES, Limits
from plimsoll_agent.model.usage import AT_LIMIT_RATIO
from plimsoll_agent.monitor import metrics
from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.replay import questions
from plimsoll_insight.replay.buckets import Buckets, Flags, Floats, ReplayInterval
from plimsoll_insight.replay.columns import SeriesSource, Steps
from plimsoll_insight.replay.questions import Most, Nodes, ReplayNode
from plimsoll_insight.replay.values import (
    ZERO,
    DiskKey,
    Fate,
    FigureRange,
    ReplayedDisk,
    ReplayVerdict,
    UnknownReason,
    bucket,
    scope_of,
    tightens,
    unit_of,
)
from plimsoll_monitoring.promql import SeriesSelection
from plimsoll_monitoring.region.answers import Ask

_DISKS = 2000
"""Disks whose facts are asked for at once."""
_TOGETHER, _HELD = 1000, 10_000_000
"""Disks that are replayed at once, and their steps."""
_SAMPLES = 1_000_000
"""Of an answer, at most: some 30 MB."""
_MOST_STEPS = 10_000
"""Of an answer; Prometheus refuses more than 11,000."""
_SHORTEST, _LONGEST = 15, 300
"""Seconds of a step."""
_ENDLESS = 1e9
_STAYS = 0.5
"""Intervals: less is rounding."""

Halves = NDArray[np.float32]
Decide = Callable[[ReplayedDisk], Limits | UnknownReason | None]
Report = Callable[[int, int], None]
"""Disks that are ready, of how many."""


@frozen(kw_only=True)
class ReplayExtent:
    """The time that is replayed."""

    since: int
    until: int
    step: int
    pass_seconds: float
    """An average is over so many seconds, at most: what comes within them cannot be told apart."""

    @property
    def seconds(self) -> int:
        return self.until - self.since


def extent_of(nodes: Nodes, since: int, until: int, step: int | None = None) -> ReplayExtent:
    """``step``: seconds; None is the interval of passes or of samples, the longer."""
    longest = max(nodes.pass_seconds or 0.0, nodes.scrape_seconds or 0.0)
    step = step or int(min(max(longest, _SHORTEST), _LONGEST))
    return ReplayExtent(
        since=since,
        until=until,
        step=step,
        pass_seconds=max(longest, float(step)),
    )


@dataclass
class _Unit:
    """A disk, or the disks of a guest that would share a limit, with the limits that they would have."""

    limits: Limits
    members: list[ReplayedDisk] = field(default_factory=list)


class Replay:
    """``ask`` is as of the end of the time."""

    def __init__(self, ask: Ask, source: SeriesSource, decide: Decide, extent: ReplayExtent, report: Report) -> None:
        self._ask, self._source, self._decide = ask, source, decide
        self._extent, self._report = extent, report
        self._fresh: dict[tuple[str, Steps], Mapping[str, Flags]] = {}
        self._stale: dict[str, frozenset[str]] = {}
        self._sample_seconds: dict[str, Mapping[str, float]] = {}
        self._together = max(min(_TOGETHER, _HELD * extent.step // extent.seconds), 1)
        self._most: dict[DiskKey, Most] = {}
        self._several: frozenset[DiskKey] = frozenset()

    def run(self, nodes: Sequence[ReplayNode], selection: SeriesSelection) -> Iterator[Fate]:
        """Each disk once. Raises ``PlimsollError``."""
        whole, ready = sum(node.disks for node in nodes), 0
        for _, group in groupby(nodes, key=lambda node: node.key[0]):
            waiting: list[_Unit] = []
            for chunk in _chunks(list(group)):
                subjects = questions.subjects(self._ask, chunk, selection, self._extent.until)
                units = yield from self._sort_out(subjects)
                waiting += units
                ready += sum(node.disks for node in chunk)
                while len(waiting) >= self._together:
                    yield from self._replay(waiting[: self._together])
                    del waiting[: self._together]
                self._report(max(ready - len(waiting), 0), whole)
            if waiting:
                yield from self._replay(waiting)
            self._report(ready, whole)

    def _sort_out(self, subjects: Sequence[ReplayedDisk]) -> Generator[Fate, None, list[_Unit]]:
        """Those whose fate is known without their rates; returns the others."""
        units: dict[tuple[str, ...], _Unit] = {}
        for subject in subjects:
            limits = self._decide(subject)
            if isinstance(limits, UnknownReason):
                yield Fate(subject=subject, limits=None, verdict=ReplayVerdict.UNKNOWN, why=limits)
            elif limits is None or limits == subject.actual:
                yield Fate(subject=subject, limits=subject.actual, verdict=ReplayVerdict.UNTOUCHED)
            elif subject.actual is None:
                yield Fate(subject=subject, limits=limits, verdict=ReplayVerdict.UNKNOWN, why=UnknownReason.ACTUAL)
            else:
                group = (limits.group_name,) if limits.group_name else (subject.target, "")
                units.setdefault((*subject.key[:2], *group), _Unit(limits)).members.append(subject)
        changing = [member for unit in units.values() for member in unit.members]
        if not changing:
            return []
        region, seconds = changing[0].region, self._extent.seconds
        if region not in self._stale:
            self._stale[region] = questions.stale_nodes(self._ask, region, seconds)
            self._sample_seconds[region] = questions.sample_seconds(self._ask, region, seconds)
        own = self._stale[region], self._sample_seconds[region]
        self._most = questions.most(self._ask, changing, seconds, *own)
        self._several = questions.with_several_volumes(self._ask, changing, seconds)
        rest = []
        for unit in units.values():
            fates = self._quiet(unit)
            if fates is None:
                rest.append(unit)
            else:
                yield from fates
        return rest

    def _quiet(self, unit: _Unit) -> list[Fate] | None:
        """If what its disks did is known, none was at its limit, and all together never came near the new ones."""
        if any(member.key in self._several for member in unit.members):
            return [_without(member, unit.limits, UnknownReason.VOLUMES) for member in unit.members]
        most = [self._most[member.key] for member in unit.members]
        if any(_misses(one, member) for one, member in zip(most, unit.members, strict=True)):
            return [_without(member, unit.limits) for member in unit.members]
        means = [one.mean for one in most if one.mean is not None]
        if len(means) < len(most) or any((one.ratio or 0.0) >= AT_LIMIT_RATIO for one in most):
            return None
        if any(amount >= AT_LIMIT_RATIO * rate for amount, rate, _, _ in _loads(unit.limits, most)):
            return None
        window = self._extent.pass_seconds
        wait = max(
            (
                max((amount * window - room) / rate, (amount * window - peak / 10) / peak, 0.0)
                for amount, rate, room, peak in _loads(unit.limits, most)
            ),
            default=0.0,
        )
        return [
            Fate(
                subject=member,
                limits=unit.limits,
                verdict=ReplayVerdict.SAME,
                share_known=min(one.seconds / self._extent.seconds, 1.0),
                at_limit_before=0.0,
                at_limit=ZERO,
                served_before=mean,
                served=FigureRange(mean, mean),
                waited=ZERO,
                longest=ZERO,
                hidden=wait,
            )
            for one, mean, member in zip(most, means, unit.members, strict=True)
        ]

    def _replay(self, units: Sequence[_Unit]) -> Iterator[Fate]:
        disks = [member for unit in units for member in unit.members]
        spans = list(self._spans(len(disks)))
        # Those of the whole time first: what a request takes away from the limit is needed from the first step on.
        ratio, latency = (
            np.concatenate([self._table(disks, steps, promql).astype(np.float32) for steps in spans], axis=1)
            for promql in (questions.ratio_of(disks), questions.latency_of(disks))
        )
        run = _Run(units, ratio, latency, self._extent)
        for steps in spans:
            run.advance(
                *(
                    np.array([self._table(disks, steps, questions.rate_of(unit, disks, side)) for side in run.sides])
                    for unit in metrics.UNITS
                )
            )
        yield from run.fates()

    def _spans(self, disks: int) -> Iterator[Steps]:
        extent = self._extent
        number = extent.seconds // extent.step
        most = max(min(_SAMPLES // disks, _MOST_STEPS), 1)
        for begin in range(0, number, most):
            # A value is of the time before its moment.
            first = extent.until - (number - 1 - begin) * extent.step
            yield Steps(first, extent.step, min(most, number - begin))

    def _table(self, disks: Sequence[ReplayedDisk], steps: Steps, promql: str) -> Floats:
        """By disk and step."""
        fresh = self._fresh_nodes(disks[0].region, steps)
        place = {disk.key[1:]: number for number, disk in enumerate(disks)}
        table = np.full((len(disks), steps.number), np.nan)
        for labels, column in self._source(promql, steps):
            number = place.get((labels.get("uuid", ""), labels.get("target_device", "")))
            valid = fresh.get(labels.get("instance", ""))
            if number is not None and valid is not None:
                # A guest that migrates is on two nodes for a moment.
                table[number] = np.fmax(table[number], np.where(valid, column, np.nan))
        return table

    def _fresh_nodes(self, region: str, steps: Steps) -> Mapping[str, Flags]:
        if (region, steps) not in self._fresh:
            rows = self._source(questions.fresh_nodes(region), steps)
            self._fresh[region, steps] = {labels.get("instance", ""): column == 1 for labels, column in rows}
        return self._fresh[region, steps]


class _Throttles:
    """Three with the same limits, for what was served: what does not fit is not sent again (``served``), the queue at
    today's limit had been let through (``let_through``), or what waits comes later (``later``).
    """

    def __init__(self, limits: Sequence[Limits], sides: Sequence[str], *, most: bool) -> None:
        self._served = Buckets(limits, sides, most=most, queues=False)
        self._let_through = Buckets(limits, sides, most=most, queues=False)
        self.later = Buckets(limits, sides, most=most, queues=True)

    def advance(self, here: Sequence[Floats], more: Sequence[Floats], seconds: float) -> tuple[ReplayInterval, ...]:
        return (
            self._served.advance(here[0], here[1], seconds),
            self._let_through.advance(more[0], more[1], seconds),
            self.later.advance(here[0], here[1], seconds),
        )


class _Run:
    """The sums of some disks, over the time."""

    def __init__(self, units: Sequence[_Unit], ratio: Halves, latency: Halves, extent: ReplayExtent) -> None:
        """``ratio`` and ``latency`` are of the whole time, by disk and step."""
        self._units, self._extent = units, extent
        free = [member.actual is not None and member.actual.unlimited for unit in units for member in unit.members]
        self._ratio = np.where(np.isnan(ratio) & np.array(free)[:, None], np.float32(0), ratio)
        self._latency, self._place = latency, 0
        spare = np.array([_spare(member.actual or Limits()) for unit in units for member in unit.members])
        # The average before one is so many values before, or fewer.
        two = _most_before(self._ratio, -(-int(extent.pass_seconds) // extent.step)) + self._ratio
        fits = two * extent.pass_seconds <= np.minimum(spare, extent.pass_seconds)[:, None]
        self._own = np.fmin.reduce(np.where(fits & (latency > 0), latency, np.nan), axis=1)
        limits = [unit.limits for unit in units]
        by_side = any(getattr(one, base) for one in limits for base in BASES if scope_of(base) != "total")
        self.sides = ("read", "write") if by_side else ("total",)
        self._has_limit = np.array(
            [[any(getattr(one, base) for base in BASES if scope_of(base) in ("total", side)) for one in limits]
             for side in self.sides]
        )  # fmt: skip
        self._of_disk = np.array([number for number, unit in enumerate(units) for _ in unit.members], np.intp)
        self._begins = np.flatnonzero(np.diff(self._of_disk, prepend=-1))
        # With size_iops_sec requests count between two bounds; else both are the same.
        self._fewest = _Throttles(limits, self.sides, most=False)
        has_sizes = any(one.size_iops_sec for one in limits)
        self._most = _Throttles(limits, self.sides, most=True) if has_sizes else self._fewest
        number = len(units)
        self._steps, self._at_least, self._at_most = np.zeros(number), np.zeros(number), np.zeros(number)
        self._waited, self._waited_most = np.zeros(number), np.zeros(number)
        self._longest, self._longest_most, self._hidden = np.zeros(number), np.zeros(number), np.zeros(number)
        self._least_served, self._most_served = np.zeros(number), np.zeros(number)
        self._unbounded = np.zeros(number, bool)
        self._disk_steps, self._disk_at, self._disk_requests = (np.zeros(len(ratio)) for _ in range(3))

    def advance(self, rates: Floats, byte_rates: Floats) -> None:
        """The next steps; by side, disk and step."""
        seconds = float(self._extent.step)
        place, self._place = self._place, self._place + rates.shape[2]
        ratio, latency = self._ratio[:, place : self._place], self._latency[:, place : self._place]
        valid = ~np.isnan(rates).any(0) & ~np.isnan(byte_rates).any(0) & ~np.isnan(ratio)
        at_limit = valid & (ratio >= AT_LIMIT_RATIO)
        self._disk_steps += valid.sum(1)
        self._disk_at += at_limit.sum(1)
        factor = np.where(at_limit, np.maximum(latency / self._own[:, None], 1.0), 1.0)
        whole_rate = rates.sum(0)
        outstanding = np.where(whole_rate > 0, whole_rate * latency, 0.0)
        # What nothing bounds is more than any limit lets through.
        times = np.where(np.isnan(factor), _ENDLESS, factor)
        open_ended = self._any(at_limit & np.isnan(factor))
        requests, size = rates * seconds, byte_rates * seconds
        whole = self._all(valid)
        self._disk_requests += np.where(whole[self._of_disk], whole_rate, 0.0).sum(1) * seconds
        for number in range(valid.shape[1]):
            now = whole[:, number]
            here = [np.where(now, self._sum(each[:, :, number]), 0.0) for each in (requests, size)]
            more = [np.where(now, self._sum(each[:, :, number] * times[:, number]), 0.0) for each in (requests, size)]
            self._interval(
                now,
                here,
                more,
                self._any(at_limit[:, [number]])[:, 0],
                open_ended[:, number],
                self._sum(outstanding[None, :, number])[0],
                seconds,
            )

    def _interval(
        self,
        valid: Flags,
        here: Sequence[Floats],
        more: Sequence[Floats],
        at_limit: Flags,
        open_ended: Flags,
        outstanding: Floats,
        seconds: float,
    ) -> None:
        least, few_through, few_later = self._fewest.advance(here, more, seconds)
        most, through, later = (
            (least, few_through, few_later) if self._most is self._fewest else self._most.advance(here, more, seconds)
        )
        self._steps += valid
        self._least_served += most.served
        endless = open_ended & ((here[0] > 0) & ~self._has_limit).any(0)
        most_served = np.where(endless, np.inf, np.maximum(few_through.served, few_later.served))
        self._most_served += np.where(valid, most_served, 0.0)
        open_ended = open_ended & self._has_limit.any(0)
        self._at_least += valid & least.at_limit
        self._at_most += valid & (least.at_limit | through.at_limit | later.at_limit | open_ended)
        self._waited += least.overflow
        came = here[0].sum(0)
        held_back = at_limit & (open_ended | (through.overflow > 0))
        self._waited_most += np.where(valid, np.maximum(later.waited, np.where(held_back, came, 0.0)), 0.0)
        # In a closed loop a request waits for those that are outstanding, and no longer.
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = np.where(came > 0, outstanding / came, 0.0)
        queue = self._most.later.drain(here[0] * scale, here[1] * scale)
        latency = np.where(came > 0, outstanding * seconds / np.maximum(came, 1e-9), 0.0)
        queue_wait = np.where(least.overflow > 0, np.maximum(np.minimum(queue - latency, least.drain), 0.0), 0.0)
        self._longest = np.fmax(self._longest, queue_wait)
        self._longest_most = np.fmax(self._longest_most, np.fmax(later.drain, np.where(held_back, queue, 0.0)))
        together = self._extent.pass_seconds / seconds
        burst = self._most.later.burst(here[0] * together, here[1] * together)
        self._hidden = np.fmax(self._hidden, later.drain + burst)
        self._unbounded |= open_ended

    def fates(self) -> Iterator[Fate]:
        step = self._extent.step
        number = self._extent.seconds // step
        disk = 0
        for place, unit in enumerate(self._units):
            whole = sum(self._disk_requests[disk : disk + len(unit.members)])
            for member in unit.members:
                steps = self._disk_steps[disk]
                if not steps or not self._steps[place]:
                    yield _without(member, unit.limits)
                else:
                    share = self._disk_requests[disk] / whole if whole else 0.0
                    before = float(self._disk_at[disk] / steps)
                    rate = whole * share / (self._steps[place] * step)
                    yield self._fate(member, unit.limits, place, before, share, rate, float(steps / number))
                disk += 1

    def _fate(
        self,
        member: ReplayedDisk,
        limits: Limits,
        place: int,
        before: float,
        share: float,
        served_before: float,
        share_known: float,
    ) -> Fate:
        steps = self._steps[place]
        at_limit = FigureRange(float(self._at_least[place] / steps), float(self._at_most[place] / steps))
        no_bound = bool(self._unbounded[place])
        waits = FigureRange(float(self._waited[place] * share), float(self._waited_most[place] * share))
        rate = share / (steps * self._extent.step)
        most = float(self._most_served[place] * rate) if rate else 0.0
        longest_most = None if no_bound else float(self._longest_most[place])
        return Fate(
            subject=member,
            limits=limits,
            verdict=_verdict(member.actual or Limits(), limits, before, at_limit, waits, _STAYS / steps),
            share_known=share_known,
            at_limit_before=before,
            at_limit=at_limit,
            served_before=served_before,
            served=FigureRange(float(self._least_served[place] * rate), most if np.isfinite(most) else None),
            waited=waits,
            longest=FigureRange(float(self._longest[place]), longest_most),
            hidden=None if no_bound else float(max(self._hidden[place], self._longest_most[place])),
        )

    def _sum(self, values: Floats) -> Floats:
        """Of the disks of each unit, along the last axis."""
        return np.add.reduceat(values, self._begins, axis=-1)

    def _any(self, flags: Flags) -> Flags:
        return np.logical_or.reduceat(flags, self._begins, axis=0)

    def _all(self, flags: Flags) -> Flags:
        return np.logical_and.reduceat(flags, self._begins, axis=0)


def _chunks(nodes: Sequence[ReplayNode]) -> Iterator[list[ReplayNode]]:
    """Nodes with so many disks together, of one region."""
    chunk: list[ReplayNode] = []
    for node in nodes:
        if chunk and sum(each.disks for each in chunk) + node.disks > _DISKS:
            yield chunk
            chunk = []
        chunk.append(node)
    if chunk:
        yield chunk


def _misses(most: Most, subject: ReplayedDisk) -> bool:
    """Whether what it did is unknown."""
    sides = {"read", "write"}
    has_limit = subject.actual is not None and not subject.actual.unlimited
    return not (sides <= set(most.operations) and sides <= set(most.bytes)) or (has_limit and most.ratio is None)


def _loads(limits: Limits, most: Iterable[Most]) -> Iterator[tuple[float, float, float, float]]:
    """For each limit: the most that disks may have used together, and its rate, room and peak."""
    each_disk = list(most)
    for base in BASES:
        if getattr(limits, base):
            scope = scope_of(base)
            sides = ("read", "write") if scope == "total" else (scope,)
            amount = 0.0
            for one in each_disk:
                size = sum(one.bytes[side] for side in sides)
                if unit_of(base) == "bytes":
                    amount += size
                else:
                    per = limits.size_iops_sec
                    amount += sum(one.operations[side] for side in sides) + (size / per if per else 0.0)
            yield amount, *bucket(limits, base)


def _spare(limits: Limits) -> float:
    """What fits in at once, in seconds of the limit: where an average and the one before are no more, none waited."""
    buckets = [bucket(limits, base) for base in BASES if getattr(limits, base)]
    return min((min(room, peak / 10) / rate for rate, room, peak in buckets), default=0.0)


def _most_before(values: Halves, number: int) -> Halves:
    """The highest of so many values before each; NaN where one of them is unknown."""
    row = np.pad(values, ((0, 0), (number, 0)), constant_values=np.nan)[:, :-1]
    highest: Halves = sliding_window_view(row, number, axis=1).max(-1)
    return highest


def _without(subject: ReplayedDisk, limits: Limits, why: UnknownReason = UnknownReason.NO_SAMPLES) -> Fate:
    return Fate(subject=subject, limits=limits, verdict=ReplayVerdict.UNKNOWN, why=why)


def _verdict(
    before: Limits, after: Limits, at_limit_before: float, at_limit: FigureRange, waits: FigureRange, rounding: float
) -> ReplayVerdict:
    high = 1.0 if at_limit.high is None else at_limit.high
    if not tightens(before, after):
        return ReplayVerdict.BETTER if at_limit_before > high + rounding else ReplayVerdict.SAME
    if waits.low >= 1:
        return ReplayVerdict.WORSE
    if (waits.high is None or waits.high >= 1) or high > at_limit_before + rounding:
        return ReplayVerdict.MAYBE_WORSE
    return ReplayVerdict.SAME
