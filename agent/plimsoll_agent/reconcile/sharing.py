"""Who shares the ceilings of guests and projects on this node, and how a pass splits them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

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
    stayed,
    step,
)
from plimsoll_agent.credits.ledger import account_key, is_of_group
from plimsoll_agent.model.direction import Direction
from plimsoll_agent.model.disk import Disk, guest_of
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.origin import origin_of
from plimsoll_agent.model.reason import Code, Reason, because
from plimsoll_agent.model.usage import AT_LIMIT_RATIO, Rates, Reading, rates_between
from plimsoll_agent.policy.decide import Situation, buckets_of
from plimsoll_agent.policy.diff import Change
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
    unseen = _Unseen(outcomes, unreachable)
    visible = [outcome for outcome in outcomes if _sharer_key(outcome) not in unseen]
    members, limits = _members(visible, situation, readings if by_need else {})
    stay = {bucket for bucket, its in members.items() if any(_is_braked(each.outcome) for each in its)}
    sizes = Counter(map(_sharer_key, outcomes))
    now = {bucket: _sharing(limits[bucket], its, sizes) for bucket, its in members.items() if bucket not in stay}
    absent = {key for each in ceilings.shared.values() for key in each.keys if key in unseen}
    splits = step({b: each for b, each in ceilings.shared.items() if b not in stay}, now, situation.now, absent)
    as_before = {b: each for b, each in ceilings.shared.items() if b in stay}
    splits |= {b: each for b, each in with_newcomers(as_before, visible, situation).items() if b in as_before}
    looks = _looks(members, readings) if by_need else {}
    return replace(ceilings, shared=splits, before=ceilings.shared, looks=looks, is_split=True)


def with_newcomers(
    splits: Mapping[CeilingKey, Shared], outcomes: Iterable[Outcome], situation: Situation
) -> dict[CeilingKey, Shared]:
    """The splits, with a part of each disk that is new in them (``joined``), for passes that do not split."""
    after = dict(splits)
    for outcome in outcomes:
        own = own_of(outcome)
        if own is None or not is_reducible(own):
            continue
        for bucket, rule in buckets_of(outcome.disk, situation):
            its_split = after.get(bucket) or Shared(ceiling=getattr(rule, bucket.whose.word), disks=0, used={})
            key = account_key(outcome.disk.key, own.limits)
            after[bucket] = joined(its_split, key, own.limits, outcome.disk.reduced)
    return after


def without_room(holdouts: Iterable[Outcome], situation: Situation) -> dict[CeilingKey, Disk]:
    """The ceilings with one of these disks, which is named here.

    Where the split counts what such a disk has (``refused``) there is room.
    """
    return {
        bucket: each.disk
        for each in holdouts
        for bucket, _ in buckets_of(each.disk, situation)
        if not situation.ceilings.has_refused(bucket, _sharer_key(each))
    }


def not_lowered(outcomes: Iterable[Outcome], situation: Situation) -> list[Outcome]:
    """Those that were to make room for others, and did not, or not yet."""
    return [
        outcome
        for outcome in outcomes
        if (change := outcome.change) is not None
        and makes_room(change, situation)
        and outcome.result.kind is not Kind.CHANGED
        and (outcome.result.kind is not Kind.DEFERRED or change.reduction is not None)
    ]


def makes_room(change: Change, situation: Situation) -> bool:
    """Whether it only lowers limits that share a ceiling. A group's own limits change together with who is in it."""
    is_alone = change.own is None or {change.before.group_name, change.after.group_name} == {None}
    return change.direction is Direction.LOWER and is_alone and bool(buckets_of(change.disk, situation))


def needs_room(change: Change, situation: Situation, full: Mapping[CeilingKey, Disk]) -> Reason | None:
    """Why a change waits that raises limits within one of these ceilings."""
    if change.direction is Direction.LOWER or origin_of(change.reason.code).aside:
        return None
    for bucket, _ in buckets_of(change.disk, situation):
        if bucket in full:
            disk = full[bucket]
            facts = {"whose": bucket.whose.value, "rule": bucket.rule}
            return because(Code.CEILING_FULL, **facts, guest=disk.guest.name, target=disk.target)
    return None


def as_they_stayed(outcomes: Sequence[Outcome], holdouts: Sequence[Outcome], situation: Situation) -> Ceilings:
    """The ceilings after a pass has written limits, or could not write those that were to make room."""
    ceilings, in_force = situation.ceilings, dict[str, Limits]()
    full = {bucket for outcome in holdouts for bucket, _ in buckets_of(outcome.disk, situation)}
    refusals = {_sharer_key(outcome) for outcome in holdouts if outcome.result.kind is Kind.FAILED}
    for outcome in outcomes:
        limits = outcome.disk.in_force
        if outcome.result.kind not in (Kind.CHANGED, Kind.IN_SYNC) and isinstance(limits, Limits):
            in_force[_sharer_key(outcome)] = limits
    splits = {b: stayed(each, in_force, refusals) if b in full else each for b, each in ceilings.shared.items()}
    return replace(ceilings, shared=splits)


class _Unseen:
    """The keys of sharers that cannot be read: they keep what they have.

    A disk of unknown limits may be in any group of its guest.
    """

    def __init__(self, outcomes: Iterable[Outcome], unreachable: Collection[str]) -> None:
        disks = [outcome.disk for outcome in outcomes if not isinstance(outcome.disk.in_force, Limits)]
        self._guests = unreachable
        self._disks = {disk.key for disk in disks}
        self._groups = {disk.guest.uuid for disk in disks}

    def __contains__(self, key: str) -> bool:
        guest = guest_of(key)
        return guest in self._guests or key in self._disks or (guest in self._groups and is_of_group(key))


def _members(
    outcomes: Iterable[Outcome], situation: Situation, readings: Mapping[str, Reading]
) -> tuple[dict[CeilingKey, list[_Member]], dict[CeilingKey, Limits]]:
    """By ceiling who shares it, and the limits that it has."""
    members: dict[CeilingKey, list[_Member]] = {}
    limits: dict[CeilingKey, Limits] = {}
    for outcome in outcomes:
        for bucket, rule in buckets_of(outcome.disk, situation):
            limits[bucket] = getattr(rule, bucket.whose.word)
            rates = _rates(outcome.disk, situation.ceilings.looks, readings)
            members.setdefault(bucket, []).append(_Member(outcome, own_of(outcome), rates))
    return members, limits


def _looks(
    members: Mapping[CeilingKey, Sequence[_Member]], readings: Mapping[str, Reading]
) -> dict[str, LastCounters]:
    """What the next split compares counters with."""
    disks = {each.outcome.disk for its in members.values() for each in its}
    return {d.key: LastCounters(d.attachment, readings[d.key]) for d in disks if d.key in readings}


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


def _sharer_key(outcome: Outcome) -> str:
    return account_key(outcome.disk.key, _limits(outcome, own_of(outcome)))


def _sharing(ceiling: Limits, members: Sequence[_Member], sizes: Mapping[str, int]) -> Sharing:
    """``sizes`` are how many disks of the node each key has: a group shares whole, or stays as it is."""
    together: dict[str, list[_Member]] = {}
    for member in members:
        together.setdefault(member.key, []).append(member)
    sharers, others = list[Sharer](), dict[str, Limits]()
    for key, its in together.items():
        alike = {each.limits for each in its if each.own is not None and is_reducible(each.own)}
        if len(alike) == 1 and all(each.own is not None for each in its) and len(its) == sizes[key]:
            (limits,) = alike
            rates = {rate: _need(its, limits, rate) for rate in ceiling.rates()}
            sharers.append(Sharer(key=key, limits=limits, rates=rates))
        else:
            others |= {key: limits for limits, key in {e.limits: e.outcome.disk.key for e in its}.items()}
    return Sharing(
        ceiling=ceiling,
        disks=len(members),
        sharers=tuple(sharers),
        kept=others,
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
