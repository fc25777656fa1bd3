"""Decisions against what is in force: the changes to make."""

from __future__ import annotations

from dataclasses import dataclass, field

from plimsoll_agent.decide import Decision, Situation, Wants
from plimsoll_agent.direction import Direction, direction
from plimsoll_agent.disk import Disk
from plimsoll_agent.limits import Limits
from plimsoll_agent.reason import Code, Reason, Unknown

BY_OTHERS = (Code.BEHIND_LIBVIRT, Code.CHANGED_BY_ANOTHER)
"""Causes that are somebody else's hand."""


@dataclass(frozen=True, slots=True)
class Change:
    """Put ``after`` in force where ``before`` is."""

    disk: Disk
    before: Limits
    after: Limits
    direction: Direction
    reason: Reason
    """Why ``after`` is wanted."""
    cause: Code
    """How ``before`` came to be something else."""
    members: tuple[tuple[str, Limits | Unknown], ...] = field(default=(), compare=False)
    """Of a change of a group: its members' ``Disk.key`` and what was defined for them when the change was judged."""

    @property
    def leaves_group(self) -> bool:
        """True when the disk must be taken out of a group: without a word it would stay, and take all along."""
        defined = self.disk.defined
        # libvirt adds the group that its definition has to a write that names none.
        # A definition that cannot be read may have one.
        in_group = self.before.group_name or not isinstance(defined, Limits) or defined.group_name
        return bool(in_group) and self.after.group_name is None


def change_for(disk: Disk, decision: Decision, situation: Situation) -> Change | None:
    """The change that the decision asks for; None when it is right already, not wanted or not known."""
    wanted, before = decision.wanted, disk.in_force
    if not isinstance(wanted, Wants) or not isinstance(before, Limits) or before == wanted.limits:
        return None
    return Change(
        disk,
        before,
        wanted.limits,
        direction(before, wanted.limits),
        wanted.reason,
        _cause(disk, wanted.limits, situation),
    )


def _cause(disk: Disk, wanted: Limits, situation: Situation) -> Code:
    if disk.drifted:
        return Code.BEHIND_LIBVIRT
    remembered = situation.ours(disk)
    if remembered is None or remembered.put is None:
        return Code.NEVER_LIMITED
    return Code.CHANGED_BY_ANOTHER if remembered.put == wanted else Code.WANTED_CHANGED
