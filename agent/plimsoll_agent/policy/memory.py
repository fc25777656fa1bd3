"""What a node remembers of its disks after a pass, an undo or a change whose result was unknown. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta

from plimsoll_agent.credits.ledger import whole
from plimsoll_agent.model.disk import Disk, guest_of
from plimsoll_agent.model.entries import Conclusion, Ending, RecordedChange
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.memory import Pending, Remembered
from plimsoll_agent.model.origin import origin_of
from plimsoll_agent.model.reason import Code, Reason, Unknown
from plimsoll_agent.policy.adoption import awaits_adoption
from plimsoll_agent.policy.decide import Decision, Desired, Situation, Unmanaged, limits_lost, released_for
from plimsoll_agent.policy.diff import EXTERNAL, Change, was_actual
from plimsoll_agent.util.frozen import frozen, replace

# A guest that is off stays in the memory: when it is started again, its definition has the limits that plimsoll set.
KEPT_FOR = timedelta(days=30)


# External changes once a day are not repeated ones.
ROUNDS_WITHIN = timedelta(days=1)


# The daemon reverts at once: a script that sets a limit again until it stays would use up all rounds in a second.
ROUND = timedelta(minutes=1)


def settled(
    open_changes: Sequence[RecordedChange], disks: Sequence[Disk], situation: Situation, *, everything: bool
) -> tuple[list[Conclusion], dict[str, Remembered]]:
    """How each open change ended, if that is known, and what to remember.

    With ``everything``, ``disks`` are all disks of the node: one that is not among them is gone.
    """
    present = {disk.key: disk for disk in disks}
    of_disk: dict[str, list[RecordedChange]] = {}
    for change in open_changes:
        of_disk.setdefault(change.disk.key, []).append(change)
    conclusions: list[Conclusion] = []
    ours: dict[str, Remembered] = {}
    memory = dict(situation.memory)
    so_far = replace(situation, memory=memory)  # grows: the result of one change counts for the next
    for key, changes in of_disk.items():
        disk = present.get(key)
        for number, change in enumerate(changes, start=1):
            if disk is None:
                if everything:
                    conclusions.append(Conclusion(change.id, Ending.GONE))
            elif disk.attachment != change.attachment:
                conclusions.append(Conclusion(change.id, Ending.GONE))
            elif (took := _took(change, changes[number:], disk)) is not None:
                conclusions.append(Conclusion(change.id, Ending.TOOK if took else Ending.DID_NOT_TAKE))
                if took or disk.defined == change.after:  # there may have been an external change over QMP since
                    memory[key] = ours[key] = _taken(change, disk, so_far)
    return sorted(conclusions, key=lambda conclusion: conclusion.id), ours


def _took(change: RecordedChange, later: Sequence[RecordedChange], disk: Disk) -> bool | None:
    """Whether a change took effect; None if unknown.

    The limits that a later change found show whether this one took effect. A call that timed out may do so late.
    """
    if later and later[0].before == change.after:
        return True
    if not isinstance(disk.actual, Limits):
        return None
    return disk.actual == change.after and all(change.after != another.after for another in later)


def _taken(change: RecordedChange, disk: Disk, situation: Situation) -> Remembered:
    """The memory of a disk on which a change took effect, but had no recorded result."""
    now, entry = situation.now, _known(disk, situation)
    last = situation.memory.get(disk.key)
    if change.result is None and last is not None and last.seen >= change.at and last.applied == change.after:
        return entry  # that pass was killed after it stored the memory, before it recorded the result
    reason = change.reason
    if not origin_of(reason.code).aside:
        desired = whole(change.after, reason)
        since = entry.since if entry.desired == desired else now
        if reason.code is not Code.DESIRED_BEFORE:
            entry = replace(entry, by_type=reason.of_type, by_rules=reason.rules, source=reason.code)
        entry = replace(
            entry, desired=desired, since=since, enforced=True, revision=change.revision, later=None, pending=None
        )
    return _after_own(change, entry, now)


@frozen(kw_only=True)
class Findings:
    """What a pass found on the node: decisions for its disks, and guests that it did not read.

    ``applied`` are the changes that plimsoll made in this pass, by ``Disk.key``; ``unseen`` are the uuids of guests
    that were unreachable or out of scope. All other guests are off or gone.
    """

    decided: Sequence[tuple[Disk, Decision]]
    applied: Mapping[str, Change]
    unseen: Collection[str]
    braked: Collection[str] = field(default_factory=frozenset)
    """Keys of disks whose desired limits are not remembered until an operator approves them."""
    enforcing: bool = True
    revision: str | None = None
    """The revision of rules and catalogue of this pass."""


def remembering(situation: Situation, findings: Findings) -> dict[str, Remembered]:
    """The memory after a pass."""
    now = situation.now
    read = {disk.guest.uuid for disk, _ in findings.decided}
    entries: dict[str, Remembered] = {}
    for key, old in situation.memory.items():
        uuid = guest_of(key)
        if uuid in findings.unseen:
            entries[key] = old
        elif uuid not in read and now - old.seen < KEPT_FOR:
            entries[key] = replace(old, attachment=None)
    for disk, decision in findings.decided:
        if awaits_adoption(disk, situation.memory.get(disk.key)):
            if (old_stay := situation.memory.get(disk.key)) is not None:
                entries[disk.key] = old_stay
            continue
        # A new disk whose desired limits are unknown is not remembered: nothing was desired, not even no limit.
        if disk.key in situation.memory or not isinstance(decision.desired, Unknown):
            entries[disk.key] = _remembered(disk, decision, situation, findings)
    return entries


def _remembered(disk: Disk, decision: Decision, situation: Situation, findings: Findings) -> Remembered:
    """What to remember of a disk after its decision."""
    after, says, code = _known(disk, situation), decision.of_sources, decision.desired.reason.code
    if disk.key not in findings.braked:
        # With neither desired limits before nor actual limits, the brake could not weigh a change.
        if says is not None and (after.desired is not None or isinstance(disk.actual, Limits)):
            after = _desiring(says, disk, decision, after, situation, findings)
        elif code in (Code.RULE_UNMANAGES, Code.TAKEN_BACK):
            after = _unmanaged(decision, after)
    after = replace(after, released=_released(disk, decision, after))
    change = findings.applied.get(disk.key)
    actual = disk.actual if change is None else change.unreduced
    right = decision.stands(actual)
    # Only a hold in force protects the limits before it: without one, they may still be changed externally.
    if findings.enforcing and right and sets_others(decision.desired.reason) and after.restore_to is None:
        after = _held(disk, after)
    after = _as_reduced(disk, after)
    if change is not None:
        after = remembered_after(change, after, situation.now)
    elif (still_due := limits_lost(disk, situation)) is not None:  # until a pass can write them
        after = replace(after, attachment=situation.memory[disk.key].attachment, applied=still_due)
    elif code is Code.HOLD and isinstance(decision.desired, Unmanaged):
        after = replace(after, applied=_left_of_ours(disk, after))
    elif after.applied is not None and after.applied.unlimited and actual == after.desired:
        after = replace(after, applied=after.desired)  # set back since, by others too
    if (
        findings.enforcing
        and after.desired is not None
        and (actual == after.desired or (right and says == after.desired))
    ):
        after = replace(after, enforced=True)
    return _without_hold(after, says, code) if right and code is not Code.HOLD else after


def _desiring(
    limits: Limits, disk: Disk, decision: Decision, entry: Remembered, situation: Situation, findings: Findings
) -> Remembered:
    """The memory of a disk for which the sources desire these limits."""
    now = situation.now
    left_alone = entry.source is Code.RULE_UNMANAGES and isinstance(disk.actual, Limits) and disk.actual.unlimited
    since = entry.since if limits == entry.desired else now
    if entry.enforced and entry.desired not in (None, limits):
        entry = replace(entry, pending=_pending(entry, entry.desired, situation, findings))
    entry = replace(entry, desired=limits, since=since, revision=findings.revision, later=decision.later)
    if left_alone:
        entry = replace(entry, taken_over=now)
    if decision.source is not Code.RELEASED:  # the origin of released limits stays remembered
        entry = replace(entry, by_type=decision.by_type, by_rules=decision.by_rules, source=decision.source)
    return entry


def _unmanaged(decision: Decision, entry: Remembered) -> Remembered:
    """The memory of a disk that is left alone. The brake weighs the next change against the limits of then."""
    return replace(
        entry,
        desired=None,
        enforced=False,
        by_type=None,
        by_rules=(),
        source=Code.RULE_UNMANAGES,
        taken_over=entry.taken_over if decision.desired.reason.code is Code.TAKEN_BACK else None,
        revision=None,
        later=decision.later,
        pending=None,
    )


def _as_reduced(disk: Disk, entry: Remembered) -> Remembered:
    """The memory with how the disk is reduced, where that is known."""
    if not isinstance(disk.actual, Limits):
        return entry
    return replace(entry, reduced=disk.reduced, unreduced=None if disk.reduced is None else disk.actual)


def _without_hold(entry: Remembered, says: Limits | None, code: Code) -> Remembered:
    """The memory of a disk that has its limits and no hold (any more)."""
    if code is Code.HOLD_ENDED:
        entry = replace(entry, applied=None if entry.foreign else entry.restore_to)
    entry = replace(entry, restore_to=None, foreign=False)
    return replace(entry, pending=None) if says == entry.desired else entry


def _pending(entry: Remembered, before: Limits, situation: Situation, findings: Findings) -> Pending:
    """A change of what was desired; of several before one is in force, the first one has the limits of before."""
    return Pending(
        before=before if entry.pending is None else entry.pending.before,
        at=situation.now,
        revision=findings.revision,
        rules=situation.rules.revision,
    )


def _released(disk: Disk, decision: Decision, entry: Remembered) -> str | None:
    """The release, which lasts until the volume type changes or a source has an opinion."""
    of_sources = decision.aside or decision.desired
    if of_sources.reason.code is Code.RELEASED:
        return released_for(disk)
    keeps = isinstance(of_sources, Unknown) or origin_of(of_sources.reason.code).aside
    return entry.released if keeps else None


def releasing(orphans: Iterable[Disk], memory: Mapping[str, Remembered]) -> dict[str, Remembered]:
    """What to remember of these disks when their limits are released; each of them is in ``memory``."""
    return {disk.key: replace(memory[disk.key], released=released_for(disk)) for disk in orphans}


def _known(disk: Disk, situation: Situation) -> Remembered:
    """What is remembered of a disk that is attached now."""
    now, entry, ours = situation.now, situation.memory.get(disk.key), situation.ours(disk)
    if ours is not None:
        return replace(ours, seen=now, attachment=disk.attachment)
    if entry is None:
        return Remembered(desired=None, since=now, seen=now, applied=None, attachment=disk.attachment)
    return _reattached(entry, disk, now)


def _reattached(entry: Remembered, disk: Disk, now: datetime) -> Remembered:
    """The limits that plimsoll set are gone, those desired are the same."""
    fresh = replace(entry, applied=None, restore_to=None, foreign=False, reverts=0, reverted_at=None, taken_over=None)
    return replace(fresh, seen=now, attachment=disk.attachment, reduced=None, unreduced=None)


def _held(disk: Disk, entry: Remembered) -> Remembered:
    """The memory of a disk when a hold begins. Limits that were changed over QMP are not restored after it."""
    had = disk.defined if disk.drifted else disk.actual
    return replace(entry, restore_to=had, foreign=entry.applied is None) if isinstance(had, Limits) else entry


def sets_others(reason: Reason) -> bool:
    """Whether it is a hold's limits, and not those that the disk had: nothing is to be restored after these."""
    return reason.code is Code.HOLD and not reason.facts.get("as_it_is")


def _left_of_ours(disk: Disk, entry: Remembered) -> Limits | None:
    """What of plimsoll's limits a hard reboot could lose on a disk that is held as it is: none where others have
    replaced them. Bursts may be as long as what is saved of them.
    """
    if entry.applied is None or not isinstance(disk.actual, Limits) or disk.actual.shortens(entry.applied):
        return entry.applied
    is_set_back = entry.desired is not None and disk.actual.shortens(entry.desired)
    return disk.actual if is_set_back else Limits()


def is_foreign(reason: Reason) -> bool:
    """Whether a change for this reason restored limits that plimsoll had not set."""
    return reason.code is Code.UNDONE and bool(reason.facts.get("foreign"))


def remembered_after(change: Change, entry: Remembered, now: datetime) -> Remembered:
    """The memory of a disk that was changed; after an undo its limits may be external."""
    own, reduction = change.own, change.reduction
    if own is not None:
        entry = _after_own(own, entry, now)
    elif entry.applied is not None or _lacks_bursts(change.unreduced, entry.desired):
        entry = replace(entry, applied=change.unreduced)  # with as much of its bursts as is saved now
    if reduction is None or change.after == reduction.of:
        return replace(entry, reduced=None, unreduced=None)
    return replace(entry, reduced=change.after, unreduced=reduction.of)


def _lacks_bursts(limits: Limits, desired: Limits | None) -> bool:
    return desired is not None and limits != desired and limits.shortens(desired)


def _after_own(change: Change | RecordedChange, entry: Remembered, now: datetime) -> Remembered:
    """The memory after a change, without what congestion makes of it."""
    code = change.reason.code
    if sets_others(change.reason) and entry.restore_to is None:
        entry = replace(entry, restore_to=change.before, foreign=entry.applied is None)
    elif not origin_of(code).of_hold:
        entry = replace(entry, restore_to=None, foreign=False)
    is_revert = change.cause in EXTERNAL and was_actual(entry, Desired(change.after, change.reason))
    reverts, reverted_at = _reverts(entry, now) if is_revert else (0, None)
    if change.cause is Code.BURST_SAVED:  # what is set stays the same
        reverts, reverted_at = entry.reverts, entry.reverted_at
    # Without limits, ``applied`` would say that others have replaced them.
    is_aside = code is Code.UNDONE or (code is Code.COMMAND_LINE and change.after.unlimited)
    return replace(
        entry,
        applied=None if is_foreign(change.reason) else change.after,
        enforced=entry.desired == change.after if is_aside else entry.enforced,
        released=None if code is Code.UNDONE else entry.released,
        reverts=reverts,
        reverted_at=reverted_at,
    )


def _reverts(entry: Remembered, now: datetime) -> tuple[int, datetime]:
    """The number of rounds, and when the last began; one more revert in a round counts no further."""
    last = entry.reverted_at
    if last is None or not _within_a_day(last, now):
        return 1, now
    return (entry.reverts, last) if now - last < ROUND else (entry.reverts + 1, now)


def gone_astray(disk: Disk, limits: Limits, entry: Remembered | None, revision: str, now: datetime) -> Remembered:
    """The memory of a disk that got limits meant for another: plimsoll's, so that the next pass corrects it.

    That is no edit to the brake: these limits are of this ``revision``, or else what was desired stays known.
    """
    if entry is not None and entry.desired is not None:
        return replace(_reattached(entry, disk, now), applied=limits)
    return Remembered(
        desired=limits, since=now, seen=now, applied=limits, attachment=disk.attachment, revision=revision
    )


def with_changes(situation: Situation, changes: Mapping[str, Change]) -> dict[str, Remembered]:
    """The memory after changes (by ``Disk.key``), with the same desired limits; the memory of a disk may be lost."""
    now = situation.now
    entries = {key: remembered_after(each, _known(each.disk, situation), now) for key, each in changes.items()}
    return {**situation.memory, **entries}


def reverted_too_often(entry: Remembered | None, target: Desired, rounds: int, now: datetime) -> bool:
    """Whether plimsoll reverted external changes so often that it now leaves the limit unchanged."""
    if entry is None or not was_actual(entry, target):
        return False
    return entry.reverts >= rounds and _within_a_day(entry.reverted_at, now)


def _within_a_day(reverted_at: datetime | None, now: datetime) -> bool:
    """False for a time in the future, which is from a wrong clock."""
    return reverted_at is not None and timedelta(0) <= now - reverted_at < ROUNDS_WITHIN
