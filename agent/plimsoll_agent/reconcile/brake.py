"""The brake: defers large changes until an operator approves them, in case they come from a typo. Pure.

It compares a disk's desired limits with those desired last, or without any with the actual ones. It defers

- changes that cut a disk to less than half, or raise, add or remove a limit, and disks that are no longer, or again,
  left alone, where they are too many (``Brake.stops``);
- after an edit of rules or catalogue, every removal, every cut to a tenth or less, every raise to ten times as much
  or more, and every limit that is lower than any sane one, whatever their number.

``plimsoll approve`` approves a revision, or the change of one disk. Why it is as it is:

- It compares what is desired with what was desired, so a guest that came back with other limits, or a limit that was
  removed behind plimsoll, is no edit and is corrected at once.
- It counts the large changes of the last hour: many passes over one guest each would otherwise pass below it.
- A stopped revision stays stopped until it is approved or edited again, though fewer disks may be left to change.
- Whether a raise is large is asked of what the disks really used, which is read only then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property

from plimsoll_agent.catalogue.model import Catalogue
from plimsoll_agent.catalogue.orders import Of, RegionApproval
from plimsoll_agent.model.approvals import Approval, digest_of_change
from plimsoll_agent.model.direction import (
    LOWEST,
    SMALL_RAISE,
    Direction,
    added_limits,
    direction,
    share_left,
    times_more,
    too_low,
)
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.later import Later
from plimsoll_agent.model.limits import PARAMETERS, Limits, Unit
from plimsoll_agent.model.memory import Remembered
from plimsoll_agent.model.origin import edited, origin_of
from plimsoll_agent.model.reason import Code, Reason, because
from plimsoll_agent.model.usage import Used
from plimsoll_agent.policy.decide import Desired, Situation, Unmanaged
from plimsoll_agent.reconcile.outcome import Braked, Counted, Earlier, Edit, Outcome
from plimsoll_agent.util.frozen import frozen

MANAGE = "manage"
"""The parameter of an edit by which a rule leaves disks alone, or no longer does."""
_RECENT = timedelta(hours=1)
_SOONER = timedelta(hours=1)
"""So long before the end of a rule its change may be made by an edit, as it was known to come."""
_LEFT_ALONE = timedelta(days=30)
"""So long a rule may leave disks alone without a question, if it ends then: a mistyped year is no end."""


@frozen(kw_only=True)
class Brake:
    """How many disks of a node may have large changes without an approval, and how far one may be cut."""

    disks: int = 5
    percent: int = 20
    factor: int = 10
    """A cut or a raise of one disk by this factor or more is deferred."""
    lowest_iops: int = LOWEST["iops"]
    lowest_bytes: int = LOWEST["bytes"]
    """A limit of one disk that is set or lowered to less is deferred; 0 is no bound."""
    approvals: tuple[Approval, ...] = ()

    @property
    def lowest(self) -> Mapping[Unit, int]:
        return {"iops": self.lowest_iops, "bytes": self.lowest_bytes}

    def stops(self, number: int, of: int) -> bool:
        return number > max(self.disks, of * self.percent / 100)


@frozen(kw_only=True)
class LargeChange:
    """A change that is so large that the brake counts its disk."""

    key: str
    """``Disk.key``."""
    before: Limits
    """What was desired last, else the actual limits."""
    after: Limits
    how: Counted
    left: float
    """The smallest share that is left of a limit: 0.01 is a cut to a hundredth."""
    alone: Reason | None
    """Why it is deferred whatever the number of others."""
    reason: Reason
    edited: bool = True
    """Rules or catalogue were edited since the disk's last decision."""


def stage_in_effect(situation: Situation) -> RegionApproval | None:
    """The approval with stages that has reached this node, if it is of the catalogue or the rules in use.

    None once it has ended by this node's clock: its brake lets nothing through by it then.
    """
    orders, catalogue = situation.orders, situation.catalogue
    digests = {Of.RULES: {situation.revision, situation.rules.revision}}
    if isinstance(catalogue, Catalogue):
        digests[Of.SPECS] = {catalogue.digest}
    approvals = (one for one in orders.approvals if one.stages and one.stands(situation.now))
    return next((one for one in approvals if one.digest in digests.get(one.of, ())), None)


def large_changes(outcomes: Sequence[Outcome], situation: Situation, brake: Brake) -> tuple[LargeChange, ...]:
    """The largest change of each disk that the brake counts, without those that are approved.

    A change at the end of a rule counts now, since the rule is edited now. Disks that do not answer, or have a hold,
    count too: their change comes later.
    """
    this_revision = situation.revision
    largest: dict[str, LargeChange] = {}
    use = _Use(outcomes, situation)
    for change in _weighed(outcomes, situation):
        large = _large_change(change, situation, this_revision, brake, use)
        if large is not None:
            largest[large.key] = max(largest.get(large.key, large), large, key=_how_large)
    for outcome in outcomes:
        large = _left_alone(outcome, situation, this_revision, brake)
        if large is not None:
            largest.setdefault(large.key, large)
    return tuple(largest.values())


def _how_large(large: LargeChange) -> tuple[bool, float]:
    return large.alone is not None, -large.left


def braked(
    changes: Sequence[LargeChange],
    situation: Situation,
    brake: Brake,
    *,
    disks: int,
    whole: bool,
    judged: bool = True,
) -> Braked | None:
    """What is deferred until an operator approves it, None where nothing is.

    ``disks`` is how many were considered: all of the node (``whole``), or of some guests. Large changes of the last
    hour count too, else many small passes would change the whole node. Where an edit would change too many, all its
    changes stay deferred until it is approved or edited again. Until the revision is ``judged``, all its changes are.
    """
    this_revision = situation.revision
    keys = {large.key for large in changes}
    recent = still_recent(situation.brake.recent, situation.now)
    number = len(keys | recent.keys())
    if not whole:
        disks = max(disks, sum(each.attachment is not None for each in situation.memory.values()))
    too_many, goes_on = brake.stops(number, disks), situation.brake.stopped == this_revision
    waits = goes_on or not judged
    deferrals = list(changes) if too_many else _deferrals(changes, waits=waits)
    if not deferrals:
        return None
    hows = Counter(large.how for large in deferrals)
    catalogue = situation.catalogue
    return Braked(
        revision=this_revision,
        catalogue=catalogue.revision if isinstance(catalogue, Catalogue) else None,
        keys=frozenset(large.key for large in deferrals),
        of=disks,
        removed=hows[Counted.REMOVED],
        raised=hows[Counted.RAISED],
        lowered=hows[Counted.LOWERED],
        low=hows[Counted.LOW],
        added=hows[Counted.ADDED],
        managed=hows[Counted.MANAGED],
        unmanaged=hows[Counted.UNMANAGED],
        many=too_many or (waits and any(large.edited for large in deferrals)),
        alone={large.key: large.alone for large in deferrals if large.alone is not None},
        edits=tuple(_edits(deferrals)),
        earlier=tuple(_earlier({key: at for key, at in recent.items() if key not in keys}, situation)),
        left=tuple(sorted({large.left for large in deferrals if large.how is Counted.LOWERED})),
    )


def _deferrals(changes: Iterable[LargeChange], *, waits: bool) -> list[LargeChange]:
    """Those that are deferred whatever the number of others; where the revision ``waits``, all that are its."""
    return [large for large in changes if large.alone is not None or (waits and large.edited)]


def _earlier(times: Mapping[str, datetime], situation: Situation) -> Iterator[Earlier]:
    """The disks that were changed before, by the pass that did it and by the source of their limits."""
    counts = Counter((at, _source_of(situation.memory.get(key))) for key, at in times.items())
    for (at, source), disks in sorted(counts.items(), key=lambda item: (item[0][0], item[0][1] or "")):
        yield Earlier(at, disks, source)


def _source_of(entry: Remembered | None) -> str | None:
    if entry is None:
        return None
    if entry.by_type is not None or entry.by_rules:
        return entry.by_type or entry.by_rules[0]
    return None if entry.source is None else entry.source.value


def still_recent(times: Mapping[str, datetime], now: datetime) -> dict[str, datetime]:
    """Those of the last hour; a time in the future is from a wrong clock, and counts as now."""
    return {key: min(at, now) for key, at in times.items() if now - at < _RECENT}


@frozen(kw_only=True)
class _Weighed:
    """A change of a disk's desired limits, now or at a later time (``at``), and what it is compared with."""

    outcome: Outcome
    before: Later
    before_limits: Limits
    desired: Desired
    at: datetime | None
    left: float
    """As ``LargeChange.left``."""


def _weighed(outcomes: Sequence[Outcome], situation: Situation) -> Iterator[_Weighed]:
    """The disks whose desired limits differ from before, except where a change to these was already known to come."""
    changes = [
        (outcome, at, before, limits, desired)
        for outcome in outcomes
        for at, before, limits, desired in _changes(outcome, situation)
    ]
    sharing_before = _sharing((outcome.disk, limits) for outcome, _, _, limits, _ in changes)
    sharing = _sharing((outcome.disk, desired.limits) for outcome, *_, desired in changes)
    for outcome, at, before, limits, desired in changes:
        entry = situation.memory.get(outcome.disk.key)
        if desired.limits in (limits, *_to_come(entry, at or situation.now)):
            continue
        share, uuid, group = share_left(limits, desired.limits), outcome.disk.guest.uuid, desired.limits.group_name
        if group not in (None, limits.group_name) and not limits.unlimited:
            # Each member of a throttle group may do its part of the limits.
            before_it = 1 if limits.group_name is None else len(sharing_before[uuid, limits.group_name])
            share *= min(1.0, before_it / len(sharing[uuid, group]))
        yield _Weighed(outcome=outcome, before=before, before_limits=limits, desired=desired, at=at, left=share)


def _to_come(entry: Remembered | None, at: datetime) -> Iterator[Limits | None]:
    """What was desired last, and for the time of a change, or for an hour later at most.

    Else a rule with an end in years would let everything through that is like its end, today or at a nearer end.
    """
    if entry is not None:
        yield entry.desired
        yield from (each.limits for each in entry.later or () if each.at - at <= _SOONER)


def _changes(outcome: Outcome, situation: Situation) -> Iterator[tuple[datetime | None, Later, Limits, Desired]]:
    """What the sources desire for a disk, now and later, each with what was desired before for that time.

    Later changes are left out where it is unknown what was desired for then.
    """
    disk, decision, now = outcome.disk, outcome.decision, situation.now
    entry = situation.memory.get(disk.key)
    answers = {now: decision.aside or decision.desired}
    certain = entry is None or entry.later is not None
    if certain:
        answers |= dict(decision.ahead)
    turns = {each.at for each in entry.later or () if each.at > now} if entry is not None else set()
    for at in sorted(answers.keys() | turns):
        word = answers[max(turn for turn in answers if turn <= at)]
        before = Later(at=at, limits=None) if entry is None else entry.desired_at(at)
        limits = _last(disk, entry, before)
        if isinstance(word, Desired) and limits is not None:
            yield None if at == now else at, before, limits, word


def _last(disk: Disk, entry: Remembered | None, before: Later) -> Limits | None:
    """What the change is compared with; None where that is unknown: then no change is made either."""
    if before.limits is not None:
        return before.limits
    if entry is not None and entry.restore_to is not None:  # the actual limits are a hold's
        return entry.restore_to
    return disk.actual if isinstance(disk.actual, Limits) else None


def _sharing(limits: Iterable[tuple[Disk, Limits]]) -> dict[tuple[str, str | None], set[str]]:
    """The disks of each throttle group, by the uuid of the guest and the group's name."""
    members: dict[tuple[str, str | None], set[str]] = {}
    for disk, its in limits:
        members.setdefault((disk.guest.uuid, its.group_name), set()).add(disk.key)
    return members


def _large_change(
    change: _Weighed, situation: Situation, this_revision: str, brake: Brake, use: _Use
) -> LargeChange | None:
    """None for a change that is small, decided by an operator, or approved."""
    desired, disk = change.desired, change.outcome.disk
    after, entry = desired.limits, situation.memory.get(disk.key)
    if origin_of(desired.reason.code).decided or (entry is None and situation.brake.judged == this_revision):
        return None  # a disk that came after this revision was judged is new
    before, share = change.before_limits, change.left
    if _has_none_of_ours(disk, entry):
        before, share = Limits(), 1.0
    if before == after:
        return None
    returns = disk.key in situation.returning
    if direction(before, after) is Direction.LOWER and _has_it_already(change) and not returns:
        return None
    if _any_approved_for_the_region(change, entry, situation, this_revision):
        return None
    # Without an edit, the disk's own type, size or flavor has changed.
    is_edit = entry is None or entry.revision != this_revision
    size = _Size(
        before=before,
        after=after,
        left=share,
        times=times_more(before, after),
        low=too_low(before, after, brake.lowest) if is_edit else (),
    )
    additions = added_limits(before, after) if is_edit and entry is not None else {}
    how = _counted(
        size,
        is_addition=lambda: bool(additions) and use.is_more_than(disk, additions),
        was_unmanaged=entry is not None and entry.source is Code.RULE_UNMANAGES,
    )
    if how is None:
        return None
    digest = digest_of_change(disk.key, after)
    large = LargeChange(
        key=disk.key,
        before=before,
        after=after,
        how=how,
        left=share,
        alone=_alone(size, brake, digest, change.at) if is_edit else None,
        reason=desired.reason,
        edited=is_edit,
    )
    return None if _approved(large, digest, situation, this_revision, brake) else large


@frozen(kw_only=True)
class _Size:
    """How large a change is."""

    before: Limits
    after: Limits
    left: float
    """As ``LargeChange.left``."""
    times: float
    """How many times more is allowed."""
    low: tuple[Unit, ...]
    """The units whose limit is set or lowered to less than the least."""


def _counted(size: _Size, *, is_addition: Callable[[], bool], was_unmanaged: bool) -> Counted | None:
    """As what the brake counts it; None for a small change. ``is_addition``: a limit that the disk did not have."""
    before, after = size.before, size.after
    if after.unlimited:
        return Counted.REMOVED
    if size.left < 0.5:
        return Counted.LOWERED
    if size.low:
        return Counted.LOW
    if is_addition():
        return Counted.ADDED
    # Another group ends the sharing of a limit.
    if size.times > SMALL_RAISE or (before.group_name != after.group_name and not before.unlimited):
        return Counted.RAISED
    return Counted.MANAGED if was_unmanaged else None


def _alone(size: _Size, brake: Brake, digest: str, at: datetime | None) -> Reason | None:
    """Why the change is deferred whatever the number of others; None where it is not so large."""
    facts: dict[str, object] = {"percent": round(100 * size.left, 2)}
    if size.after.unlimited:
        facts["percent"] = None
    elif size.left > 1 / brake.factor:
        if size.low:
            facts["below"] = {unit: brake.lowest[unit] for unit in size.low}
        elif size.times >= brake.factor:
            facts["times"] = None if size.times == float("inf") else round(size.times, 2)
        else:
            return None
    when = {} if at is None else {"from": at.isoformat()}
    return because(Code.LARGE_CHANGE, digest=digest, **facts, **when)


def _left_alone(outcome: Outcome, situation: Situation, this_revision: str, brake: Brake) -> LargeChange | None:
    """The end of what plimsoll desires for a disk, by an edit of a rule with ``manage: false``; None without."""
    answer, disk = outcome.decision.desired, outcome.disk
    if not isinstance(answer, Unmanaged) or answer.reason.code is not Code.RULE_UNMANAGES:
        return None
    entry = situation.memory.get(disk.key)
    if entry is None or entry.desired is None or entry.revision == this_revision:
        return None
    its, orders, now = entry.desired, situation.orders, situation.now
    ends = (at for at, later in outcome.decision.ahead if isinstance(later, Desired) and later.limits == its)
    if any(at - now <= _LEFT_ALONE for at in ends):
        return None
    if any(orders.approve(Of.RULES, digest, now) for digest in (this_revision, situation.rules.revision)):
        return None
    large = LargeChange(
        key=disk.key, before=its, after=its, how=Counted.UNMANAGED, left=1.0, alone=None, reason=answer.reason
    )
    return None if _approved(large, None, situation, this_revision, brake) else large


def _approved(large: LargeChange, digest: str | None, situation: Situation, this_revision: str, brake: Brake) -> bool:
    """Whether an operator of this node approved it; ``digest`` is that of this change alone."""
    approvals = brake.approvals
    if large.edited and situation.brake.judged == this_revision:  # the disk came after these approvals
        approvals += situation.brake.let_through
    digests = [this_revision] if digest is None else [this_revision, digest]
    return any(each.covers(*digests, removal=large.how is Counted.REMOVED) for each in approvals)


class _Use:
    """What the disks of a node really used. It is looked up only where a limit is added."""

    def __init__(self, outcomes: Sequence[Outcome], situation: Situation) -> None:
        self._outcomes = outcomes
        self._situation = situation

    def is_more_than(self, disk: Disk, limits: Mapping[Unit, float]) -> bool:
        """Whether the disk, or else any disk of its class, used more than the limits that it gets.

        Where that is unknown, they count unless plimsoll has not limited any disk of this node yet.
        """
        usage = self._of_disks.get(disk.key) or self._of_classes.get(_class_of(disk))
        if usage is None:
            return self._has_limited
        return any(limit < usage.of(unit) for unit, limit in limits.items())

    @cached_property
    def _of_disks(self) -> Mapping[str, Used]:
        return self._situation.used()

    @cached_property
    def _of_classes(self) -> Mapping[tuple[str | None, ...], Used]:
        classes: dict[tuple[str | None, ...], Used] = {}
        for disk in (outcome.disk for outcome in self._outcomes):
            usage = self._of_disks.get(disk.key)
            if usage is not None:
                its = _class_of(disk)
                classes[its] = usage if its not in classes else classes[its].or_more(usage)
        return classes

    @cached_property
    def _has_limited(self) -> bool:
        return any(each.enforced or each.applied is not None for each in self._situation.memory.values())


def _class_of(disk: Disk) -> tuple[str | None, ...]:
    """Disks alike: volumes of a type, or where that is unknown, those in a pool."""
    return (disk.volume_type,) if disk.volume_type is not None else (None, disk.pool)


def _has_it_already(change: _Weighed) -> bool:
    """Whether the disk already has these limits, after a reboot or an external change."""
    outcome = change.outcome
    on_hold = outcome.decision.aside is not None
    return change.at is None and not on_hold and outcome.change is None and isinstance(outcome.disk.actual, Limits)


def _has_none_of_ours(disk: Disk, entry: Remembered | None) -> bool:
    """Whether the disk has no limits and never had any from plimsoll: only what is set first counts."""
    ours = entry is not None and (entry.enforced or entry.applied is not None)
    return not ours and isinstance(disk.actual, Limits) and disk.actual.unlimited


def _any_approved_for_the_region(
    change: _Weighed, entry: Remembered | None, situation: Situation, this_revision: str
) -> bool:
    desired, before, disk = change.desired, change.before, change.outcome.disk
    if entry is not None and _approved_for_the_region(desired, before, situation):
        return True
    return _rules_approved_for_the_region(desired, before, disk, situation, this_revision)


def _approved_for_the_region(desired: Desired, before: Later, situation: Situation) -> bool:
    """Whether only the type's QoS spec changed, and the region approved these specs and types.

    Such an approval covers no limits from rules and no retyped volumes, and removals only for the types it names.
    """
    type = desired.reason.of_type
    if type is None or type != before.by_type:
        return False
    return situation.approved_specs(removing=type if desired.limits.unlimited else None)


def _rules_approved_for_the_region(
    desired: Desired, before: Later, disk: Disk, situation: Situation, this_revision: str
) -> bool:
    """Whether the region approved this revision, or these rules where the change is theirs.

    Such an approval covers removals only for disks of the volume types that it names.
    """
    digests = {this_revision}
    if origin_of(desired.reason.code).in_rules and not _source_gone(desired, before, situation):
        digests.add(situation.rules.revision)
    removing: str | None = None
    if desired.limits.unlimited:
        catalogue = situation.catalogue
        removing = catalogue.id_of_type(disk.volume_type) if isinstance(catalogue, Catalogue) else ""
    orders, now = situation.orders, situation.now
    return any(orders.approve(Of.RULES, digest, now, removing=removing) for digest in digests)


def _source_gone(desired: Desired, before: Later, situation: Situation) -> bool:
    """Whether rules decide only because a spec or flavor has no opinion any more; that is no edit of rules."""
    absence = before.by_type if before.source is None else origin_of(before.source).not_used
    if absence is None:
        return False
    overriding = {rule.name for rule in situation.rules.rules if rule.override}
    return desired.reason.facts.get("rule") not in overriding


def _edits(changes: Sequence[LargeChange]) -> list[Edit]:
    """The edits, as inferred from the disks: the same parameter of the same source, the most frequent first."""
    counts: Counter[tuple[str, str, object, object, str]] = Counter()
    for large in changes:
        if large.how is Counted.UNMANAGED:
            counts[edited(large.reason), MANAGE, None, "false", large.reason.code.value] += 1
        old, new = large.before.full_set(), large.after.full_set()
        names = [parameter.name for parameter in PARAMETERS] + ["group_name"]
        for name in names:
            if old.get(name) != new.get(name):
                counts[edited(large.reason), name, old.get(name), new.get(name), large.reason.code.value] += 1
    return [
        Edit(source=source, parameter=parameter, before=before, after=after, disks=number, origin=origin)
        for (source, parameter, before, after, origin), number in counts.most_common()
    ]
