"""The brake: a slip in one line must not reach a whole node before a person has seen what it does. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from plimsoll_agent.catalogue import Catalogue
from plimsoll_agent.decide import Remembered, Situation, Wants
from plimsoll_agent.direction import Direction, cut_by_more_than_half, direction
from plimsoll_agent.limits import Limits
from plimsoll_agent.outcome import Braked, Outcome
from plimsoll_agent.reason import BY_A_PERSON


@dataclass(frozen=True, slots=True)
class Brake:
    """How many disks of a node may be changed gravely, because something else is wanted of them, without asking."""

    disks: int = 5
    percent: int = 20
    approved: str | None = None
    """The edition that a person approved of."""

    def stops(self, grave: int, of: int) -> bool:
        return grave > max(self.disks, of * self.percent / 100)


def edition(situation: Situation) -> str:
    """What tells this state of rules and catalogue from others; a rule that has ended makes another state of it."""
    parts = [rule.name for rule in situation.rules.rules if rule.ended(situation.now)]
    if isinstance(situation.catalogue, Catalogue):
        parts.append(f"catalogue {situation.catalogue.edition}")
    if not parts:
        return situation.rules.edition
    return hashlib.sha256("\0".join([situation.rules.edition, *parts]).encode()).hexdigest()[:6]


def braked(considered: Sequence[Outcome], situation: Situation, brake: Brake, *, observing: bool) -> Braked | None:
    """What must wait for a person, None when nothing must.

    Only what is wanted *anew* counts: what was wanted of the disk before is in the memory, by ``Disk.key``, so
    that neither a new guest nor one that lost its limits in a reboot is held up. A disk that does not answer
    counts too: its change is to come. While plimsoll only observes, only what an enforcing pass kept counts.
    """
    this_edition = edition(situation)
    if brake.approved == this_edition:
        return None
    grave = [
        (outcome.disk.key, how)
        for outcome in considered
        if (how := _grave(outcome, situation, observing)) is not None
    ]
    if not brake.stops(len(grave), len(considered)):
        return None
    hows = [how for _, how in grave]
    catalogue = situation.catalogue
    return Braked(
        this_edition,
        catalogue.edition if isinstance(catalogue, Catalogue) else None,
        frozenset(key for key, _ in grave),
        len(considered),
        released=hows.count(Direction.LIFT),
        loosened=hows.count(Direction.LOOSEN),
        cut=hows.count(Direction.TIGHTEN),
    )


def _grave(outcome: Outcome, situation: Situation, observing: bool) -> Direction | None:
    """How gravely the disk would be changed: released, loosened, or (``TIGHTEN``) cut by more than half."""
    wanted, in_force = outcome.decision.wanted, outcome.disk.in_force
    remembered = situation.memory.get(outcome.disk.key)
    if remembered is None or not isinstance(wanted, Wants) or wanted.reason.code in BY_A_PERSON:
        return None
    if remembered.wanted == wanted.limits or _approved_for_the_region(wanted, remembered, situation):
        return None
    if observing and not remembered.kept:
        return None
    if remembered.wanted is None and remembered.put is not None:  # by a person; rules are the way back
        return None
    if isinstance(in_force, Limits) and outcome.change is None:
        return None
    before = _before(remembered, in_force)
    how = direction(before, wanted.limits)
    return None if how is Direction.TIGHTEN and not cut_by_more_than_half(before, wanted.limits) else how


def _approved_for_the_region(wanted: Wants, remembered: Remembered, situation: Situation) -> bool:
    """Whether a type's QoS spec says something else now, and the region approved of these very specs and types.

    Of what rules make of them, or made until now, it knows nothing, nor of volumes that are given another type; of
    limits that go only if it names the type.
    """
    catalogue, type = situation.catalogue, wanted.reason.of_type
    if type is None or type != remembered.by_type or not isinstance(catalogue, Catalogue):
        return False
    return catalogue.approved(situation.now, removing=type if wanted.limits.unlimited else None)


def _before(remembered: Remembered, in_force: object) -> Limits:
    if remembered.wanted is not None and remembered.kept:
        return remembered.wanted
    return in_force if isinstance(in_force, Limits) else remembered.wanted or Limits()
