"""The changes that make actual limits the desired ones."""

from __future__ import annotations

from dataclasses import field

from plimsoll_agent.ceilings.buckets import CeilingKey
from plimsoll_agent.model.direction import Direction, direction
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.memory import Remembered
from plimsoll_agent.model.reason import Code, Reason, Unknown, because
from plimsoll_agent.policy.decide import Decision, Desired
from plimsoll_agent.util.decoding import data_of
from plimsoll_agent.util.frozen import frozen

EXTERNAL = (Code.CHANGED_OVER_QMP, Code.EXTERNAL_CHANGE)
"""Causes that are external changes."""


@frozen(kw_only=True)
class Reduction:
    """Of a change under congestion or by ceilings that disks share, or of one that ends it."""

    of: Limits
    """What the disk has after it without the reduction: the same as ``after``, if it is none any more."""
    own: Change | None
    """The change of these limits, if they change too."""
    x: float
    cluster: str
    device_class: str
    ceilings: tuple[CeilingKey, ...] = ()
    """Those of a guest or project that leave it less, or did."""
    ends: bool = False
    """It is none any more."""

    @property
    def reason(self) -> Reason:
        """With the facts from which the limits can be computed again."""
        congestion = {"x": self.x, "cluster": self.cluster, "class": self.device_class}
        if not self.ceilings:
            return because(Code.CONGESTION, **congestion)
        return because(Code.CEILING, **congestion, ends=self.ends, ceilings=[data_of(each) for each in self.ceilings])


@frozen(kw_only=True)
class Change:
    """Set ``after`` in place of ``before``."""

    disk: Disk
    before: Limits
    after: Limits
    direction: Direction
    reason: Reason
    """Why ``after`` is desired."""
    cause: Code
    """Why ``before`` differs."""
    members: tuple[tuple[str, Limits | Unknown], ...] = field(default=(), compare=False)
    """Of a change of a group: its members' ``Disk.key``, and their defined limits when the change was judged."""

    reduction: Reduction | None = None

    @property
    def unreduced(self) -> Limits:
        """``after`` without a reduction under congestion: what memory, brake and undo know."""
        return self.after if self.reduction is None else self.reduction.of

    @property
    def own(self) -> Change | None:
        """The change of the limits without a reduction; None if only the reduction changes."""
        return self if self.reduction is None else self.reduction.own

    @property
    def leaves_group(self) -> bool:
        """Whether the disk must be taken out of a group: else the change would apply to the whole group."""
        definition = self.disk.defined
        # libvirt adds the group in its definition to a write that names none. An unreadable definition may have one.
        in_group = self.before.group_name or not isinstance(definition, Limits) or definition.group_name
        return bool(in_group) and self.after.group_name is None


def change_for(disk: Disk, decision: Decision) -> Change | None:
    """The change that writes the decision; None if the disk is in sync, unmanaged or unknown, or has filters."""
    target, before = decision.written, disk.actual
    if disk.filters or not isinstance(target, Desired) or not isinstance(before, Limits) or before == target.limits:
        return None
    return change_between(disk, before, target.limits, target.reason, _cause(disk, target, decision.ours))


def change_between(
    disk: Disk, before: Limits, after: Limits, reason: Reason, cause: Code = Code.DESIRED_CHANGED
) -> Change:
    """The change from these limits to those, in the direction that this has."""
    how = direction(before, after)
    return Change(disk=disk, before=before, after=after, direction=how, reason=reason, cause=cause)


def _cause(disk: Disk, target: Desired, ours: Remembered | None) -> Code:
    if target.reason.code is Code.UNDONE:  # plimsoll had set the actual limits
        return Code.DESIRED_CHANGED
    if disk.drifted:
        return Code.CHANGED_OVER_QMP
    if ours is None:
        return Code.NEVER_LIMITED
    if not was_actual(ours, target):
        return Code.NEVER_LIMITED if ours.applied is None else Code.DESIRED_CHANGED
    last = ours.desired if ours.applied is None or _was_replaced(ours) else ours.applied
    return Code.BURST_SAVED if last == disk.actual else Code.EXTERNAL_CHANGE


def _was_replaced(ours: Remembered) -> bool:
    """Whether others replaced plimsoll's limits while the disk was held as it is: another hold restores some."""
    return ours.applied is not None and ours.applied.unlimited and ours.restore_to is None


def was_actual(ours: Remembered, target: Desired) -> bool:
    """Whether plimsoll set the target last, be it with more or less of its bursts, or found it set already."""
    before, whole = ours.applied, target.whole
    if before == target.limits:
        return True
    if before is None or _was_replaced(ours):
        return ours.enforced and ours.pending is None and ours.desired == whole
    # What a hold desires is not remembered, only that it is in force.
    in_hold = target.reason.code is Code.HOLD and ours.restore_to is not None
    return (in_hold or ours.desired == whole) and before.shortens(whole)
