"""Who shares the ceilings of guests and projects on this node, and how a pass splits them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from plimsoll_agent.ceilings.buckets import (
    PERIOD,
    CeilingKey,
    Ceilings,
    LastCounters,
    Shared,
    Sharer,
    Sharing,
    Split,
    bounding,
    joined,
    step,
)
from plimsoll_agent.credits.ledger import account_key
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code
from plimsoll_agent.model.usage import AT_LIMIT_RATIO, Rates, Reading, rates_between
from plimsoll_agent.policy.decide import Situation, buckets_of
from plimsoll_agent.reconcile.outcome import Kind, Outcome
from plimsoll_agent.reconcile.reducing import Own, is_reducible, own_of
from plimsoll_agent.util.frozen import frozen, replace

_LONGEST = 10 * PERIOD.total_seconds()
"""Seconds between two readings: an average over more says little about now."""
_BRAKED = (Code.BRAKED, Code.LARGE_CHANGE)


def is_counted(disk: Disk, situation: Situation) -> bool:
    """Whether its counters are needed."""
    return situation.ceilings.how is Split.BY_NEED and bool(buckets_of(disk, situation))


def split_now(
    outcomes: Sequence[Outcome], situation: Situation, readings: Mapping[str, Reading], unreachable: Collection[str]
) -> Ceilings:
    """The ceilings after a pass over the node has split them; ``unreachable`` are uuids of guests.

    A ceiling with a disk that the brake stops stays as it was split, or is not split yet: it may be the mistake. Who
    is new gets what is left of it.
    """
    ceilings = situation.ceilings
    if not (situation.rules.share_ceilings or ceilings.shared or ceilings.looks):
        return ceilings
    by_need = ceilings.how is Split.BY_NEED
    unseen = {*unreachable, *(o.disk.guest.uuid for o in outcomes if not isinstance(o.disk.in_force, Limits))}
    members: dict[CeilingKey, list[_Member]] = {}
    limits: dict[CeilingKey, Limits] = {}
    for outcome in outcomes:
        buckets = [] if outcome.disk.guest.uuid in unseen else buckets_of(outcome.disk, situation)
        for bucket, rule in buckets:
            ceiling = getattr(rule, bucket.whose.word)
            limits[bucket] = ceiling
            rates = _rates(outcome.disk, ceilings.looks, readings) if by_need else None
            members.setdefault(bucket, []).append(_Member(outcome, own_of(outcome), rates))
    stay = {bucket for bucket, its in members.items() if any(_is_braked(each.outcome) for each in its)}
    sizes = Counter(map(_sharer_key, outcomes))
    now = {bucket: _sharing(limits[bucket], its, sizes) for bucket, its in members.items() if bucket not in stay}
    splits = step({b: each for b, each in ceilings.shared.items() if b not in stay}, now, situation.now, unseen)
    splits |= {b: _as_it_was(ceilings.shared[b], members[b]) for b in stay if b in ceilings.shared}
    disks = {each.outcome.disk for its in members.values() for each in its}
    looks = (
        {d.key: LastCounters(d.attachment, readings[d.key]) for d in disks if d.key in readings} if by_need else {}
    )
    return replace(ceilings, shared=splits, before=ceilings.shared, looks=looks, is_split=True)


@frozen
class _Member:
    outcome: Outcome
    own: Own | None
    rates: Rates | None

    @property
    def key(self) -> str:
        return account_key(self.outcome.disk.key, self.limits)

    @property
    def limits(self) -> Limits:
        return _limits(self.outcome, self.own)


def _limits(outcome: Outcome, own: Own | None) -> Limits:
    """Without a reduction."""
    limits = outcome.disk.actual if own is None else own.limits
    return limits if isinstance(limits, Limits) else Limits()


def _as_it_was(its_split: Shared, members: Sequence[_Member]) -> Shared:
    for member in members:
        if member.own is not None and is_reducible(member.own):
            its_split = joined(its_split, member.key, member.limits)
    return its_split


def _sharer_key(outcome: Outcome) -> str:
    return account_key(outcome.disk.key, _limits(outcome, own_of(outcome)))


def _sharing(ceiling: Limits, members: Sequence[_Member], sizes: Mapping[str, int]) -> Sharing:
    """``sizes`` are how many disks of the node each key has: a group shares whole, or stays as it is."""
    together: dict[str, list[_Member]] = {}
    for member in members:
        together.setdefault(member.key, []).append(member)
    sharers, others = list[Sharer](), list[Limits]()
    for key, its in together.items():
        alike = {each.limits for each in its if each.own is not None and is_reducible(each.own)}
        if len(alike) == 1 and all(each.own is not None for each in its) and len(its) == sizes[key]:
            (limits,) = alike
            rates = {rate: _need(its, limits, rate) for rate in ceiling.rates()}
            sharers.append(Sharer(key=key, limits=limits, rates=rates))
        else:
            others += {each.limits for each in its}
    return Sharing(
        ceiling=ceiling,
        disks=len(members),
        sharers=tuple(sharers),
        kept=tuple(others),
        used={rate: _used(members, rate) for rate in ceiling.rates()},
    )


def _need(members: Sequence[_Member], limits: Limits, rate: str) -> float | None:
    """What they did of this rate, as their limits count it; None is without bound: unknown, or all that they may.

    With ``size_iops_sec`` QEMU may have counted more requests than its counters have.
    """
    own = [each.rates for each in members if each.rates is not None]
    if len(own) < len(members) or (limits.size_iops_sec and "_iops_" in rate):
        return None
    in_force = members[0].outcome.disk.in_force
    if not isinstance(in_force, Limits):
        return None
    for base in bounding(in_force, rate):
        if sum(each.of(base) for each in own) >= AT_LIMIT_RATIO * getattr(in_force, base):
            return None
    return sum(each.of(base) for each in own for base in bounding(limits, rate) or (rate,))


def _used(members: Sequence[_Member], rate: str) -> float | None:
    own = [each.rates for each in members if each.rates is not None]
    return sum(each.of(rate) for each in own) if len(own) == len(members) else None


def _rates(disk: Disk, looks: Mapping[str, LastCounters], readings: Mapping[str, Reading]) -> Rates | None:
    """None is unknown."""
    look, reading = looks.get(disk.key), readings.get(disk.key)
    if look is None or reading is None or look.attachment != disk.attachment:
        return None
    rates = rates_between(look.reading, reading)
    return None if rates is None or rates.seconds > _LONGEST else rates


def _is_braked(outcome: Outcome) -> bool:
    return outcome.result.kind is Kind.DEFERRED and outcome.result.reason.code in _BRAKED
