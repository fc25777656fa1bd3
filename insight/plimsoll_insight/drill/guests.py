"""What the disks of a node do, round by round, as lines of a recording."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from plimsoll_agent.model.usage import Usage
from plimsoll_agent.top.sampler import Sampler
from plimsoll_insight.drill.recording import DrillDisk, DrillSample, sample_line
from plimsoll_insight.drill.sources import Line
from plimsoll_insight.drill.stalled import StallWatch

_MICROSECONDS = 1e6


class GuestDisks:
    """A source. ``epoch`` turns the sampler's clock into seconds since the Unix epoch."""

    def __init__(
        self,
        sampler: Sampler,
        epoch: Callable[[float], float],
        now: Callable[[], float],
        stalls: StallWatch | None = None,
    ) -> None:
        self._sampler, self._epoch, self._now, self._stalls = sampler, epoch, now, stalls
        self._numbers: dict[str, int] = {}
        self._present: set[int] = set()
        """Those of the last round."""
        self.names: list[DrillDisk] = []
        """By their numbers."""
        self._read: dict[str, float] = {}
        self.iops = 0.0
        self.latency: float | None = None
        """Seconds, the mean of all requests of the last round."""

    def __call__(self) -> Iterator[Line]:
        self._sampler.ask()
        usages = self._sampler.sample().usages
        new = [each for each in usages if self._is_new(each)]
        time = self._now()
        for usage in new:
            guest, number = usage.disk.guest, self._numbers.setdefault(usage.disk.key, len(self._numbers))
            if number == len(self.names):
                self.names.append(DrillDisk(guest.name, guest.uuid, usage.disk.target))
            if number not in self._present:
                yield time, {"disk": [number, guest.name, guest.uuid, usage.disk.target]}
        # One that was not asked in this round is new in none, and still there.
        present = {self._numbers[each.disk.key] for each in usages if each.disk.key in self._numbers}
        if absent := sorted(self._present - present):
            yield time, {"gone": absent}
        self._present = present
        if self._stalls is not None:
            self._stalls.only(present)
        yield time, sample_line(self._sample(time, new))

    def _is_new(self, usage: Usage) -> bool:
        """A guest that was not asked in this round still has the reading of the one before."""
        if usage.reading is None:
            return True
        before = self._read.get(usage.disk.key)
        self._read[usage.disk.key] = usage.reading.at
        return usage.reading.at != before

    def _sample(self, time: float, usages: list[Usage]) -> DrillSample:
        sample = DrillSample(time=time, numbers=[], ends=[], seconds=[], requests=[], latency=[], unknown=[])
        wait = all = 0.0
        is_timed = True
        for usage in usages:
            number, rates = self._numbers[usage.disk.key], usage.rates
            if rates is None or usage.reading is None:
                sample.unknown.append(number)
                continue
            requests = round((rates.read_iops + rates.write_iops) * rates.seconds)
            if self._stalls is not None:
                self._stalls.saw(number, self._epoch(usage.reading.at), served=requests > 0)
            if not requests:
                continue
            sample.numbers.append(number)
            sample.ends.append(self._epoch(usage.reading.at) - time)
            sample.seconds.append(rates.seconds)
            sample.requests.append(requests)
            sample.latency.append(None if rates.latency is None else round(rates.latency * _MICROSECONDS))
            all += requests / rates.seconds
            is_timed = is_timed and rates.latency is not None
            wait += requests / rates.seconds * (rates.latency or 0.0)
        self.iops, self.latency = all, wait / all if all and is_timed else None
        return sample
