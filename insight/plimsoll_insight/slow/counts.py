"""Counts by OSD, pool, image, state and time, in memory that does not grow with the log."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from operator import not_
from typing import TYPE_CHECKING, TypeVar, cast

from plimsoll_insight.slow.blame import Blame, of_state
from plimsoll_insight.slow.events import (
    STARTED,
    UNKNOWN_OSD,
    Batch,
    Cleared,
    DiskStalls,
    Event,
    MonitorReport,
    Oldest,
    Operation,
    OsdChange,
    Retold,
    SlowCount,
    SlowRequest,
)
from plimsoll_insight.slow.firsts import Once, Tellers
from plimsoll_insight.slow.osd_count import MonitorSums, OsdCount
from plimsoll_insight.slow.tallies import MOST_BY_OSD, CountsByOsd, OsdIntervals

if TYPE_CHECKING:
    from plimsoll_insight.slow.columns import RequestColumns

_OF_PART = -2
"""Instead of an OSD: a replica's part of the request was told first."""
_PAUSE = 10.0
"""Seconds after which an OSD's count of slow requests begins again from 0, as long as it is unknown how often it is
logged: each second (``osd_tick_interval``) while it is not 0."""
_MISSED = 2.5
"""As many times the least time between two lines of the OSD: that many lines are missing, so the count was 0."""
_MOST_OLDEST = 100
_MOST_SINGLY = 1000
_MANY = 10
"""As many slow requests in the same states as before count as the same ones: an OSD that is stuck logs late too."""
_MOST_NAMES = 1000
MINUTE = 60.0
_Name = TypeVar("_Name", bound=str | int)


class Counts:
    """What the logs of one kind say: those of the cluster, or those of OSDs."""

    def __init__(self, width: float = MINUTE) -> None:
        """``width``: of an interval, in seconds."""
        self.width = width
        self.osds: dict[int, OsdCount] = {}
        self.by_pool = CountsByOsd[str | int]()
        """By name, or by number where a line has that."""
        self.by_state = CountsByOsd[str]()
        self.images: Counter[str] = Counter()
        self.pool_of_image: dict[str, int] = {}
        self.bins = OsdIntervals(width, MOST_BY_OSD)
        """Requests where they are slow, whoever is to blame."""
        self.reported = OsdIntervals(width, MOST_BY_OSD)
        self.blamed = OsdIntervals(width, MOST_BY_OSD)
        self.started = OsdIntervals(width, MOST_BY_OSD)
        """Of ``blamed``, as ``OsdCount.started``."""
        self.with_shards = set[int]()
        self.without_shards = set[int]()
        """OSDs with requests of which a line tells the placement group: of pools that are erasure-coded, or not."""
        self.dumped = set[int]()
        """OSDs of which it has what they remember: no other line tells more."""
        self.first: float | None = None
        self.last: float | None = None
        self._once = Once()
        self._tellers = Tellers()
        self._singly: defaultdict[int, deque[float]] = defaultdict(lambda: deque(maxlen=_MOST_SINGLY))
        """By OSD, when its last requests were told one by one."""
        self._pause: dict[int, float] = {}
        """By OSD."""
        self._latest: dict[int, SlowCount] = {}
        self._latest_reported: dict[int, Oldest] = {}
        self._oldest_of: dict[int, dict[bytes, float]] = {}
        """By OSD, the oldest requests that it had, and since when."""
        self._highest: dict[int, int] = {}
        """By OSD, the most that it had at once since its count began."""
        self._begun: dict[int, tuple[Oldest, Oldest, int]] = {}
        """By OSD, the line that seems to begin a count again after a pause, the one before, and the most before."""
        self.by_monitor = MonitorSums()

    @property
    def requests(self) -> int:
        return self.states.total()

    @property
    def states(self) -> Counter[str]:
        return self.by_state.of_all

    @property
    def pools(self) -> Counter[str | int]:
        return self.by_pool.of_all

    def osd(self, number: int) -> OsdCount:
        count = self.osds.get(number)
        if count is None:
            count = self.osds[number] = OsdCount()
        return count

    def add(self, event: Event, *, is_repeated: bool = False) -> None:
        """``is_repeated``: an OSD that crashes prints it again; the first time may not be there."""
        kind = type(event)
        if kind is SlowRequest:
            self._request(event)  # type: ignore[arg-type]
            self._note_time(event.time)  # type: ignore[union-attr]
            return
        match event:
            case SlowCount():
                is_new = self._once(event.osd, round(event.time, 3), event.number)
                if is_new or not is_repeated:
                    self._count(event)
            case Oldest():
                is_new = self._once(event.osd, "oldest", round(event.time, 3), event.number)
                if is_new or not is_repeated:
                    self._oldest(event)
            case Batch():
                self._batch(event)
            case MonitorReport():
                self._report(event)
            case DiskStalls():
                self._stalls(event)
            case OsdChange():
                self._change(event)
            case Retold():
                self.add(event.what)
                return
            case Cleared():
                if event.was is not None:
                    self._report(event.was)
                self.by_monitor.clear(event.time)
            case _:
                return
        self._note_time(event.time)

    def _note_time(self, time: float) -> None:
        if self.first is None or self.last is None:
            self.first = self.last = time
        elif time < self.first:
            self.first = time
        elif time > self.last:
            self.last = time

    def _batch(self, event: Batch) -> None:
        for osd in event.osds:
            self._age(osd, event.age)
            self.osd(osd).at_once = max(self.osd(osd).at_once, event.number)

    def _report(self, event: MonitorReport) -> None:
        if not (event.number or event.osds):
            return  # a monitor's own
        self.by_monitor.add(event)
        for osd in event.osds:
            self._age(osd, event.age)
            count = self.osd(osd)
            count.is_named = True
            if len(event.osds) == 1 and not event.others:
                count.at_once = max(count.at_once, event.number)

    def _stalls(self, event: DiskStalls) -> None:
        self.by_monitor.stalls |= not event.osds
        for osd in event.osds:
            if self._once("stall", osd, round(event.time, 3), event.age):
                self.osd(osd).stalls += 1

    def _request(self, event: SlowRequest) -> None:
        one = event.operation
        # A replica's part has the id of the whole request.
        [first] = self._tellers.each([one.id], [_OF_PART if one.is_replica else event.osd])
        is_first = first is None
        self._note_pool(event.osd, one)
        if event.osd == UNKNOWN_OSD and not is_first:
            return
        self._age(event.osd, event.age)
        if event.peers:
            self._replicas(event)
        if one.is_replica:
            is_new = self._once(one.id, event.osd)
        else:
            is_new = is_first or (first != event.osd and self._once(one.id, event.osd, "request"))
        if not is_new:
            return
        if is_first:
            self._image(one.image, one.image_pool)
            if one.pool is not None:
                self.by_pool.add(event.osd, one.pool)
            if one.is_replica:
                self._once(one.id, "part")
        if not one.is_replica and self._has_sum(event.osd, event.time):
            return
        blame = event.blame or (Blame.REPLICA if event.peers else of_state(event.state))
        self._blame(event.osd, blame, 1, event.time, is_replica=one.is_replica, known=bool(event.peers))
        if is_first or not (one.is_replica or self._once.is_known(one.id, "part")):
            self._singly[event.osd].append(event.time)
            self._slow(event.osd, event.state, 1, event.time)
        self.osd(event.osd).told += event.tells_locks and not one.is_replica

    def _replicas(self, event: SlowRequest) -> None:
        for peer in event.peers:
            self._age(peer, event.age)
            if self._once(event.operation.id, peer):
                self.osd(peer).replica += 1
                self.blamed.add(event.time, peer, 1)

    def add_all(self, requests: RequestColumns) -> None:
        """The same as ``add`` of each of them, at least one."""
        from plimsoll_insight.slow.columns import numbers  # needs NumPy, which ``requests`` are made of

        for osd, _, ages in requests.by_osd():
            self._age(osd, float(ages.max()))
        self._note_time(float(requests.times.min()))
        self._note_time(float(requests.times.max()))
        self.with_shards.update(requests.osds[requests.are_erasure_coded].tolist())
        self.without_shards.update(requests.osds[~requests.are_erasure_coded].tolist())
        osds = requests.osds.tolist()
        tellers = self._tellers.each(requests.ids.tolist(), osds)
        first = requests
        if tellers.count(None) < len(tellers):
            first = requests.select([teller is None for teller in tellers])
        images = zip(first.images.tolist(), first.image_pools.tolist(), strict=True)
        for (image, pool), number in Counter(images).items():
            self._image(image.decode(), pool, number)
        for osd, pool, number in numbers(first.osds, first.pools):
            self.by_pool.add(osd, pool, number)
        if self._latest:
            has_sum = map(self._has_sum, first.osds.tolist(), first.times.tolist())
            first = first.select([*map(not_, has_sum)])
        for osd, state, number in numbers(first.osds, first.states):
            self.by_state.add(osd, first.names[state], number)
            self._charge(osd, of_state(first.names[state]), number)
        for time, osd, number in first.over_time(self.width, [True for _ in first.names]):
            self.bins.add(time, osd, number)
        for time, osd, number in first.over_time(self.width, [of_state(each) is Blame.OWN for each in first.names]):
            self.blamed.add(time, osd, number)
        for osd, times, _ in first.by_osd():
            self._singly[osd].extend(times.tolist())
        if tellers.count(None) < len(tellers):
            again = [teller not in (None, osd) for teller, osd in zip(tellers, osds, strict=True)]
            for event in requests.select(again).each():
                self._request(event)

    def _has_sum(self, osd: int, time: float) -> bool:
        """Whether the OSD's count, which it logs at the same time, has this one too."""
        latest = self._latest.get(osd)
        return latest is not None and abs(time - latest.time) <= _MISSED

    def _blame(
        self, osd: int, blame: Blame, number: int, time: float, *, is_replica: bool = False, known: bool = False
    ) -> None:
        """``known``: the peers that are waited for are counted, so the primary is not to blame."""
        if self._charge(osd, blame, number, is_replica=is_replica, known=known):
            self.blamed.add(time, osd, number)

    def _charge(self, osd: int, blame: Blame, number: int, *, is_replica: bool = False, known: bool = False) -> bool:
        """Whether the OSD itself may be the cause."""
        count = self.osd(osd)
        if is_replica:
            count.replica += number
        elif blame is Blame.LOCK:
            count.locks += number
        elif blame in (Blame.REPLICA, Blame.NETWORK):
            count.waits += 0 if known else number
        elif blame is Blame.UNKNOWN:
            count.unknown += number
        else:
            count.primary += number
        return is_replica or blame is Blame.OWN

    def _slow(self, osd: int, state: str, number: int, time: float) -> None:
        """One of which several OSDs complain is one, of the OSD that does first."""
        self.by_state.add(osd, state, number)
        self.bins.add(time, osd, number)

    def _count(self, event: SlowCount) -> None:
        """The number rises by those that became slow since the last line; what stays slow is counted once."""
        before = self._latest.get(event.osd)
        self._latest[event.osd] = event
        if before is not None:
            gap = event.time - before.time
            if self._is_paused(event.osd, gap) and not self._goes_on(event.osd, before.time, event.time):
                if _is_same(before, event):
                    self.osd(event.osd).again += event.number
                else:
                    if abs(gap) <= _PAUSE:
                        self.osd(event.osd).twice += min(before.number, event.number)
                    before = None
        times = self._singly.pop(event.osd, None) if before is None else None
        singly = sum(event.time - time <= _PAUSE for time in times or ())
        growth = event.number - (before.number if before else singly)
        if growth <= 0:
            return
        rises = {
            state: number - (before.states.get(state, 0) if before else 0) for state, number in event.states.items()
        }
        rest = growth
        # A request that changes its state is not a new one: the states that rose most have the new ones.
        for state, rise in sorted(rises.items(), key=lambda each: -each[1]):
            new = min(rise, rest)
            if new > 0:
                self._blame(event.osd, of_state(state), new, event.time)
                self._slow(event.osd, state, new, event.time)
                if state == STARTED:
                    self.osd(event.osd).started += new
                    self.started.add(event.time, event.osd, new)
                rest -= new
        for pool, number in event.pools.items():
            new = max(min(growth, number - (before.pools.get(pool, 0) if before else 0)), 0)
            self.by_pool.add(event.osd, pool, new)
            self.by_pool.add(event.osd, "other pools", growth - new)

    def _oldest(self, event: Oldest) -> None:
        osd, id = event.osd, event.operation.id
        self._note_pool(osd, event.operation)
        before = self._latest_reported.get(osd)
        self._latest_reported[osd] = event
        oldest = self._oldest_of.setdefault(osd, {})
        is_known = id in oldest
        count = self.osd(osd)
        count.at_once = max(count.at_once, event.number)
        if before is not None and self._is_paused(osd, event.time - before.time) and not is_known:
            self._begun.pop(osd, None)
            if event.time > before.time:
                self._begun[osd] = (event, before, self._highest.get(osd, 0))
            if abs(event.time - before.time) > _PAUSE:
                self._highest[osd] = 0
            before = None
        elif osd in self._begun and oldest.get(id, event.time) <= self._begun[osd][1].time:
            # As long as one request is slow, there was no time without one: the count had not begun again.
            again, last, highest = self._begun.pop(osd)
            same = min(again.number, last.number)
            count.reported -= same
            self.reported.add(again.time, osd, -same)
            if again.time - last.time > _PAUSE:
                count.reported_least -= min(highest, self._highest[osd])
                self._highest[osd] = max(highest, self._highest[osd])
        growth = event.number - (before.number if before else 0)
        if growth > 0:
            count.reported += growth
            self.reported.add(event.time, osd, growth)
        more = event.number - self._highest.get(osd, 0)
        if more > 0:
            count.reported_least += more
            self._highest[osd] = event.number
        if len(oldest) >= _MOST_OLDEST and not is_known:
            del oldest[next(iter(oldest))]
        oldest.setdefault(id, event.time)
        if self._once(id, "oldest"):
            self._image(event.operation.image, event.operation.image_pool)

    def _note_pool(self, osd: int, one: Operation) -> None:
        if one.pool is not None:
            (self.with_shards if one.is_erasure_coded else self.without_shards).add(osd)

    def _goes_on(self, osd: int, before: float, now: float) -> bool:
        """Whether the OSD's own log names the same request as the oldest one before and after."""
        latest = self._latest_reported.get(osd)
        if now < before or latest is None or not -1.0 <= now - latest.time <= 1.0:
            return False
        return self._oldest_of[osd].get(latest.operation.id, now) <= before + 0.5

    def _is_paused(self, osd: int, time: float) -> bool:
        """So long after its last line, or before it."""
        pause = self._pause.get(osd, _PAUSE)
        if time > 0:
            pause = self._pause[osd] = min(pause, _MISSED * max(time, 1.0))
        return abs(time) > pause  # it is earlier where rotated logs were joined, the newest first

    def _change(self, event: OsdChange) -> None:
        count = self.osd(event.osd)
        name = event.what.replace(" ", "_")
        setattr(count, name, getattr(count, name) + 1)

    def _image(self, image: str | None, pool: int | None, number: int = 1) -> None:
        self._count_name(self.images, image, number)
        if image and image in self.images and pool is not None:
            self.pool_of_image.setdefault(image, pool)

    def _age(self, osd: int, age: float) -> None:
        count = self.osd(osd)
        if age > count.worst_age:
            count.worst_age = age

    @staticmethod
    def _count_name(counter: Counter[_Name], name: _Name | None, number: int = 1) -> None:
        if name is not None and number > 0:
            counter[name if name in counter or len(counter) < _MOST_NAMES else cast(_Name, "other")] += number


def _is_same(before: SlowCount, now: SlowCount) -> bool:
    many = now.number >= _MANY and abs(now.time - before.time) <= _PAUSE
    return many and (now.number, now.states) == (before.number, before.states)
