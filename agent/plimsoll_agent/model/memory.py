"""What a node remembers from one pass to the next: of each disk, and for the brake."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Annotated

from msgspec import Meta

from plimsoll_agent.model.approvals import Approval
from plimsoll_agent.model.later import Later
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code
from plimsoll_agent.util.decoding import Moment
from plimsoll_agent.util.frozen import frozen

Reverts = Annotated[int, Meta(ge=0, lt=10**9)]


@frozen(kw_only=True)
class BrakeMemory:
    """What the brake remembers from one pass to the next."""

    judged: str | None = None
    """The last revision that a pass over the whole node applied without a stop by the brake."""
    let_through: tuple[Approval, ...] = ()
    """Approvals of that revision: they count for later disks too."""
    approved_rules: str | None = None
    """The digest of the rules of that revision, if an operator of this node approved them, under any catalogue."""
    stopped: str | None = None
    """The revision that would change too many disks: it stays stopped, even if fewer disks are left."""
    recent: Mapping[str, Moment] = field(default_factory=dict)
    """Disks with a large change in the last hour, by ``Disk.key``, and its time."""


@frozen(kw_only=True)
class Pending:
    """A change of desired limits that is not in force yet: under a hold, or deferred."""

    before: Limits
    """What was in force last, of what was desired."""
    at: Moment
    revision: str | None
    """As in ``Remembered``, at that time."""
    rules: str
    """The digest of the rules alone, at that time."""


@frozen(kw_only=True)
class Remembered:
    """What the memory has of a disk: desired limits and since when, and the limits that plimsoll set last."""

    desired: Limits | None
    """The last desired limits of the sources, without holds and the command line; None if there never were any."""
    since: Moment
    seen: Moment
    applied: Limits | None
    """None if plimsoll only observed, or the limits were in sync from the start.

    Empty too of a disk held as it is with limits of others in the place of plimsoll's, until it has these again.
    """
    attachment: str | None
    """The attachment that this is about; None after the guest was off, or the node rebooted."""
    restore_to: Limits | None = None
    """The limits before a hold, to be restored at its end if no source has an opinion."""
    foreign: bool = False
    """Whether plimsoll had not set ``restore_to``."""
    reverts: Reverts = 0
    """How often in a row plimsoll reverted an external change; reverts within a minute count once."""
    reverted_at: Moment | None = None
    """When the last of these minutes began."""
    enforced: bool = False
    """A pass in mode enforce had ``desired`` in force: other desired limits are a change for the guest."""
    by_type: str | None = None
    """The volume type whose QoS spec gives exactly ``desired``, without floor or ceiling; else None."""
    by_rules: tuple[str, ...] = ()
    """The names of the rules behind ``desired``."""
    revision: str | None = None
    """The revision of rules and catalogue (``Situation.revision``) behind ``desired``; None if unknown."""
    later: tuple[Later, ...] | None = ()
    """Desired limits after the end of rules, the next first; empty if they will not change, None if unknown."""
    mark: str | None = None
    """The digest of the disk's mark in its guest's metadata at that time."""
    source: Code | None = field(default=None, compare=False)
    """The kind of source of ``desired``, by its reason, or ``RULE_UNMANAGES``; None if unknown."""
    released: str | None = None
    """The volume type ("" for none) for which orphaned limits of this disk were released; None without a release."""
    reduced: Limits | None = None
    """What plimsoll set last under congestion, in place of ``unreduced``; None for a disk that is not reduced."""
    unreduced: Limits | None = None
    taken_over: Moment | None = None
    """When a disk without limits that a rule had left alone got its first ones; None for any other disk."""

    pending: Pending | None = None
    """The last change of ``desired``, until it is in force or taken back."""

    def desired_at(self, at: datetime) -> Later:
        now = Later(at=at, limits=self.desired, by_type=self.by_type, source=self.source)
        return next((each for each in reversed(self.later or ()) if each.at <= at), now)
