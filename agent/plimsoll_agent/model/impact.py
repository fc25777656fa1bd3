"""Who will feel new limits, by what disks did lately. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from plimsoll_agent.model.limits import BASES, Limits, Unit
from plimsoll_agent.model.usage import AT_LIMIT_RATIO, Rates
from plimsoll_agent.util.frozen import frozen


@frozen(kw_only=True)
class Impact:
    """How a disk's averages between passes compare with limits that it may get.

    An average hides peaks, and a disk that is at a limit already would perhaps do more without it: ``share`` is the
    least that it will feel.
    """

    seconds: float
    """The time that is known."""
    share: float
    """The part of it in which the disk's average reached the new limits, their bursts included."""
    base: str
    """The parameter that it would reach most, under libvirt's name."""
    present: float
    """What the newest average had of that, per second."""

    @property
    def felt(self) -> bool:
        return self.share > 0

    @property
    def unit(self) -> Unit:
        return "bytes" if "_bytes_" in self.base else "iops"


def tightened_bases(before: Limits, after: Limits) -> tuple[str, ...]:
    """The limits of ``after`` that allow less than the same ones of ``before``, or that ``before`` does not have."""
    return tuple(base for base in BASES if getattr(after, base) and _allows_less(before, after, base))


def impact(before: Limits, after: Limits, averages: Iterable[Rates]) -> Impact | None:
    """What ``after`` in place of ``before`` would have meant in these averages, the oldest first.

    None where it limits nothing more than before, or without averages: then nothing is known.
    """
    bases = tightened_bases(before, after)
    seconds = seconds_at_limit = 0.0
    most: dict[str, float] = dict.fromkeys(bases, 0.0)
    newest = None
    for rates in averages:
        highest = 0.0
        for base in bases:
            share = rates.counted_by(base, after) * rates.seconds / after.most(base, rates.seconds)
            highest, most[base] = max(highest, share), max(most[base], share)
        newest = rates
        seconds += rates.seconds
        if highest >= AT_LIMIT_RATIO:
            seconds_at_limit += rates.seconds
    if newest is None or not bases or not seconds:
        return None
    base = max(bases, key=most.__getitem__)
    return Impact(
        seconds=seconds, share=seconds_at_limit / seconds, base=base, present=newest.counted_by(base, after)
    )


def _allows_less(before: Limits, after: Limits, base: str) -> bool:
    if not getattr(before, base):
        return True
    finer = after.size_iops_sec and (not before.size_iops_sec or after.size_iops_sec < before.size_iops_sec)
    if finer and "_iops_" in base:
        return True
    return any(after.most(base, seconds) < before.most(base, seconds) for seconds in (1, 60, 3600))
