"""Limits are lower while their cluster is congested, or others share a ceiling with them, and grow back: the last
step of a decision. Pure.

Everything before it knows disks as if nothing was reduced (``recognised``): sources, memory, brake, undo and the
record of changes. Here a disk gets the limits that are really written, and the change that leads to them.

A change back towards what a disk has without a reduction is a restore: no brake stops it, and no cluster is asked. It
never leads above limits that were written before, or that the same pass may write anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache

from plimsoll_agent.ceilings.buckets import CeilingKey, within
from plimsoll_agent.congestion.reduction import is_reduction, written
from plimsoll_agent.credits.ledger import Account, Member, account_key, affordable, bursts, to_write
from plimsoll_agent.model.direction import Direction, direction, most_permissive
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.memory import Remembered
from plimsoll_agent.model.origin import origin_of
from plimsoll_agent.model.reason import Code
from plimsoll_agent.policy.decide import Desired, Situation, buckets_of
from plimsoll_agent.policy.diff import Change, Reduction
from plimsoll_agent.policy.reduced import bounds_of
from plimsoll_agent.reconcile.groups import may_be_in
from plimsoll_agent.reconcile.outcome import Kind, Outcome, Result
from plimsoll_agent.reconcile.savings import member_of, of_memory
from plimsoll_agent.rules.model import UnderCongestion
from plimsoll_agent.store.reductions import Intended
from plimsoll_agent.util.frozen import frozen, replace

_OWN_LIMITS_STAY = (
    Code.BRAKED,
    Code.LARGE_CHANGE,
    Code.CLUSTER_UNHEALTHY,
    Code.CLUSTER_UNREACHABLE,
    Code.ORDERS_UNKNOWN,
)
"""Why a change is deferred of a disk that keeps the limits that plimsoll set: these are reduced like any others."""


# --- what is reduced


def recognised(
    disks: Iterable[Disk],
    situation: Situation,
    lookup: Callable[[Disk], Intended | None],
    open_changes: Callable[[], Collection[str]] = tuple,
) -> tuple[Disk, ...]:
    """The disks; those that plimsoll has reduced as if they were not, with ``reduced``.

    ``lookup`` reads what the record has last of a disk: a pass that was killed may have remembered nothing, and the
    memory may be lost. It is called only if the disk has limits that may be from such a pass: less than those that
    are remembered, or any others of an attachment that is not remembered, or where its own change is one of the
    ``open_changes`` (``Disk.key``).
    """
    open_ones = cache(open_changes)

    def of_record(disk: Disk) -> Limits | None:
        last = lookup(disk)
        same = last is not None and (last.attachment, last.limits) == (disk.attachment, disk.actual)
        return last.of if last is not None and same else None

    return tuple(
        _recognised(disk, situation.memory.get(disk.key), of_record, lambda disk: disk.key in open_ones())
        for disk in disks
    )


def _recognised(
    disk: Disk,
    entry: Remembered | None,
    of_record: Callable[[Disk], Limits | None],
    is_unsettled: Callable[[Disk], bool],
) -> Disk:
    actual = disk.actual
    if not isinstance(actual, Limits) or actual.unlimited or disk.drifted or disk.filters:
        return disk
    of = _unreduced(disk, actual, entry, of_record, is_unsettled)
    return disk if of is None or of == actual else replace(disk, actual=of, defined=of, reduced=actual)


def _unreduced(
    disk: Disk,
    actual: Limits,
    entry: Remembered | None,
    of_record: Callable[[Disk], Limits | None],
    is_unsettled: Callable[[Disk], bool],
) -> Limits | None:
    """What the disk has without a reduction, by its memory, its mark or the record; None where none has it."""
    here = entry is not None and entry.attachment == disk.attachment
    if entry is not None and here and entry.reduced == actual:
        return entry.unreduced
    if not here and disk.mark is not None and disk.mark.reduced:
        # ``applied`` of the mark may have a shorter burst than the limits in force.
        last = disk.mark.applied or disk.mark.desired
        whole = disk.mark.desired or last
        return last if whole is not None and is_reduction(actual, whole) else None
    if entry is None or (
        actual not in (last_ones := (entry.applied, entry.desired))
        # A memory that was rebuilt from the record is of no attachment.
        and (not here or any(each and is_reduction(actual, each) for each in last_ones) or is_unsettled(disk))
    ):
        return of_record(disk)
    return None


# --- what is written


@frozen
class Own:
    """What a disk has without a reduction."""

    limits: Limits
    whole: Limits
    """With all of their bursts, of which ``limits`` may have what was saved."""
    answer: Desired | None
    """Where they are from; None of a disk that is not reduced."""


@frozen(kw_only=True)
class _Aim:
    """What a disk has without a reduction, and what it gets."""

    of: Limits
    limits: Limits
    whole: Limits | None = None
    """With all of the bursts that it leaves; None if they are as saved already."""
    x: float = 1.0
    """The factor of congestion in that,"""
    ceilings: tuple[CeilingKey, ...] = ()
    """and the ceilings."""

    @property
    def is_reduced(self) -> bool:
        return self.limits != self.of


def with_reductions(outcomes: Sequence[Outcome], situation: Situation, *, others: bool = True) -> list[Outcome]:
    """The outcomes, with the changes that lead to reduced limits, or back.

    A disk that is not reduced, and is not to be, keeps its outcome as it is. One whose own change is deferred, or
    that is left alone or unknown now, follows or is restored in place of that; without ``others`` it stays as it is.
    """
    following = situation.following
    pools = {pool for pool, each in following.pools.items() if each.x < 1}
    on_disks = (each.disk.reduced is not None or (each.disk.cluster, each.disk.pool) in pools for each in outcomes)
    if not situation.ceilings.shared and not any(on_disks):
        return list(outcomes)
    guests: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        guests.setdefault(outcome.disk.guest.uuid, []).append(outcome)
    aims: dict[str, _Aim] = {}
    for guest in guests.values():
        members = [o for o in guest if others or (o.change is not None and o.result.kind is Kind.PLANNED)]
        each = {o.disk.key: aim for o in members if (aim := _aim(o, situation)) is not None}
        aims |= _as_saved(guest, _as_groups(guest, each, situation), situation.accounts)
    return [_aimed(each, aims[each.disk.key], situation) if each.disk.key in aims else each for each in outcomes]


def own_of(outcome: Outcome) -> Own | None:
    """What the disk has without a reduction; None where plimsoll neither reduces nor restores it."""
    disk, target, kind = outcome.disk, outcome.decision.written, outcome.result.kind
    if not isinstance(disk.actual, Limits):
        return None
    if kind in (Kind.PLANNED, Kind.IN_SYNC) and isinstance(target, Desired):
        return Own(target.limits, target.whole, target)
    desired, whole = outcome.decision.desired, of_memory(outcome) or disk.actual
    if kind is Kind.DEFERRED and isinstance(desired, Desired) and (disk.reduced is not None or _keeps_ours(outcome)):
        return Own(disk.actual, whole, desired)
    return None if disk.reduced is None else Own(disk.actual, whole, None)


def _aim(outcome: Outcome, situation: Situation, *, congested: bool = True) -> _Aim | None:
    own = own_of(outcome)
    return None if own is None else _reduced(outcome.disk, own, situation, congested=congested)


def _keeps_ours(outcome: Outcome) -> bool:
    ours = outcome.decision.ours
    return outcome.result.reason.code in _OWN_LIMITS_STAY and ours is not None and ours.applied == outcome.disk.actual


def is_reducible(own: Own) -> bool:
    """Whether they may be lower for a while: no hold and no command line gives them, and there are some."""
    return own.answer is not None and not own.limits.unlimited and not origin_of(own.answer.reason.code).aside


def _reduced(disk: Disk, own: Own, situation: Situation, *, congested: bool) -> _Aim:
    limits, whole = own.limits, own.whole
    if not is_reducible(own):
        return _Aim(of=limits, limits=limits, whole=whole)
    x = situation.following.x(disk.cluster, disk.pool) if congested else 1.0
    less = _under_congestion(disk, whole, x, situation) if x < 1 else whole
    x = x if less != whole else 1.0
    ceilings: list[CeilingKey] = []
    for bucket, _ in buckets_of(disk, situation) if situation.ceilings.shared else ():
        before, less = less, within(less, situation.ceilings.parts(bucket, account_key(disk.key, limits)))
        if less != before:
            ceilings.append(bucket)
    if less == whole:
        return _Aim(of=limits, limits=limits, whole=whole)
    return _Aim(of=limits, limits=less, whole=less, x=x, ceilings=tuple(ceilings))


def _under_congestion(disk: Disk, limits: Limits, x: float, situation: Situation) -> Limits:
    bounds = bounds_of(disk, situation)
    if not isinstance(bounds, tuple):
        return limits
    under: UnderCongestion = bounds[1]
    return written(limits, x, under.floor, under.share)


def _as_groups(guest: Sequence[Outcome], aims: Mapping[str, _Aim], situation: Situation) -> dict[str, _Aim]:
    """A group has one set of limits: all its members are reduced alike, by one factor, or none is."""
    after = dict(aims)
    names = {aim.of.group_name for aim in aims.values() if aim.is_reduced} - {None}
    for name in filter(None, names):
        members = [o for o in guest if may_be_in(name, o.disk.found) or _joins(name, aims.get(o.disk.key))]
        after |= _as_group(name, members, after, situation)
    return after


def _as_group(
    name: str, members: Sequence[Outcome], aims: Mapping[str, _Aim], situation: Situation
) -> Mapping[str, _Aim]:
    disks = [member.disk for member in members]
    if len({(disk.cluster, situation.following.device_class(disk.cluster, disk.pool)) for disk in disks}) > 1:
        fewer = {o.disk.key: _aim(o, situation, congested=False) for o in members if o.disk.key in aims}
        aims = {key: aim for key, aim in fewer.items() if aim is not None}
    targets = {aims[disk.key].limits if disk.key in aims else None for disk in disks}
    foreign = any(name in disk.guest.other_groups | disk.guest.filter_groups for disk in disks)
    if len(targets) > 1 or foreign:
        return {d.key: _Aim(of=aims[d.key].of, limits=aims[d.key].of) for d in disks if d.key in aims}
    return aims


def _as_saved(guest: Sequence[Outcome], aims: Mapping[str, _Aim], accounts: Mapping[str, Account]) -> dict[str, _Aim]:
    """The aims of which something will be written, with each burst that they leave as long as what is saved of it."""
    after, sharing = dict(aims), dict[str, list[tuple[Outcome, Limits]]]()
    for outcome in guest:
        aim = aims.get(outcome.disk.key)
        whole = None if aim is None or not (aim.is_reduced or outcome.disk.reduced) else aim.whole
        if whole is not None and bursts(whole):
            sharing.setdefault(account_key(outcome.disk.key, whole), []).append((outcome, whole))
    for key, pairs in sharing.items():
        account = accounts.get(key)
        for outcome, whole in pairs:
            aim = aims[outcome.disk.key]
            if aim.is_reduced:
                limits = to_write(whole, account, [_reduced_member(each, whole) for each, _ in pairs])
                after[outcome.disk.key] = replace(aim, limits=limits)
            elif account is not None:
                limits = affordable(whole, account)
                after[outcome.disk.key] = replace(aim, of=limits, limits=limits)
    return after


def _reduced_member(outcome: Outcome, limits: Limits) -> Member:
    """The disk as a member of its account, where these reduced limits stand in place of those desired."""
    ours = outcome.decision.ours
    return replace(member_of(outcome), applied=None if ours is None else ours.reduced, desired=limits)


def _joins(name: str, aim: _Aim | None) -> bool:
    return aim is not None and aim.of.group_name == name


def _aimed(outcome: Outcome, aim: _Aim, situation: Situation) -> Outcome:
    disk, change = outcome.disk, outcome.change
    is_planned = change is not None and outcome.result.kind is Kind.PLANNED
    in_force = disk.in_force
    if not isinstance(in_force, Limits) or (not aim.is_reduced and disk.reduced is None):
        return outcome
    reduction = _reduction(disk, aim, situation)
    outcome = replace(outcome, reduced_by=reduction.reason if aim.is_reduced else None)
    # Of bursts that are not reduced themselves, the aim has what is saved.
    own = change.own if change is not None and is_planned and change.cause is not Code.BURST_SAVED else None
    if own is None and in_force == aim.limits:
        return (
            replace(outcome, change=None, result=Result(Kind.IN_SYNC, change.reason))
            if is_planned and change
            else outcome
        )
    after = _change_to(aim, disk, in_force, own, replace(reduction, own=own))
    return replace(outcome, change=after, result=Result(Kind.PLANNED, after.reason))


def _change_to(aim: _Aim, disk: Disk, in_force: Limits, own: Change | None, reduction: Reduction) -> Change:
    how = Direction.LOWER if direction(in_force, aim.limits) is Direction.LOWER else Direction.RESTORE
    why = reduction.reason
    return Change(
        disk=disk.found,
        before=in_force,
        after=aim.limits,
        direction=how if own is None else most_permissive([own.direction, how]),
        reason=why if own is None else own.reason,
        cause=why.code if own is None else own.cause,
        reduction=reduction,
    )


def _reduction(disk: Disk, aim: _Aim, situation: Situation) -> Reduction:
    cluster = disk.cluster or ""
    ceilings = aim.ceilings
    if not aim.is_reduced:  # those that it had
        ceilings = situation.ceilings.of(account_key(disk.key, aim.of))
    return Reduction(
        of=aim.of,
        own=None,
        x=aim.x,
        cluster=cluster,
        device_class=situation.following.device_class(cluster, disk.pool),
        ceilings=ceilings,
        ends=not aim.is_reduced,
    )
