"""The brake: a slip in one line must not reach the guests before a person has seen what it does. Pure.

What plimsoll desires for a disk is held against what it desired last, else against what is in force there. Deferred
are

- all changes that cut a disk to less than half, raise or remove a limit, where they are too many (``Brake.stops``);
- whatever their number, a removal, and a cut to a tenth or less, where rules or catalogue were edited since.

``plimsoll approve`` lets a revision through, or the change of one disk.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from plimsoll_agent.approvals import Approval, digest_of_change
from plimsoll_agent.catalogue import Catalogue
from plimsoll_agent.decide import Remembered, Situation, Wants
from plimsoll_agent.direction import Direction, direction, share_left
from plimsoll_agent.disk import Disk
from plimsoll_agent.limits import PARAMETERS, Limits
from plimsoll_agent.outcome import Braked, Edit, Outcome
from plimsoll_agent.reason import Code, Reason, because
from plimsoll_agent.regionorders import Of

_BY_A_PERSON = (Code.HOLD, Code.HOLD_ENDED, Code.UNDONE, Code.RELEASED)
"""What a person decided for this very disk, or the region for its type. Limits on the command line are for many, and
may be a slip.
"""
_RECENT = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Brake:
    """How many disks of a node may be changed so much without an approval, and how far a single one may be cut."""

    disks: int = 5
    percent: int = 20
    factor: int = 10
    """A cut of one disk by so much, or more, is deferred."""
    approvals: tuple[Approval, ...] = ()

    def stops(self, grave: int, of: int) -> bool:
        return grave > max(self.disks, of * self.percent / 100)


@dataclass(frozen=True, slots=True)
class Grave:
    """A disk that would be changed so much that the brake counts it."""

    key: str
    """``Disk.key``."""
    before: Limits
    """What was desired last, else what is in force."""
    after: Limits
    how: Direction
    """``TIGHTEN`` is a cut to less than half."""
    alone: bool
    """It is deferred whatever the number of others."""
    reason: Reason

    @property
    def digest(self) -> str:
        """What an approval of just this change names."""
        return digest_of_change(self.key, self.after)

    @property
    def too_much(self) -> Reason:
        """Why it is deferred whatever the number of others; ``percent`` is what it leaves, None of a removal."""
        removal = self.how is Direction.LIFT
        left = None if removal else round(100 * share_left(self.before, self.after), 2)
        return because(Code.LARGE_CHANGE, digest=self.digest, percent=left)


def revision(situation: Situation) -> str:
    """The text of the rules with QoS specs and types (and limits on the command line), as a digest."""
    rules, catalogue = situation.rules, situation.catalogue
    parts = [rules.edition]
    if rules.command_line is not None:
        parts.append(f"command line {json.dumps(rules.command_line.in_effect())}")
    if isinstance(catalogue, Catalogue):
        parts.append(f"catalogue {catalogue.edition}")
    return rules.edition if len(parts) == 1 else hashlib.sha256("\0".join(parts).encode()).hexdigest()


def graves(considered: Sequence[Outcome], situation: Situation, brake: Brake) -> tuple[Grave, ...]:
    """The disks that the brake counts, without those that are approved.

    A disk that does not answer counts too: its change is to come.
    """
    this_revision = revision(situation)
    found = (_grave(outcome, situation, this_revision, brake.factor) for outcome in considered)
    return tuple(
        grave
        for grave in found
        if grave is not None
        and not any(
            approval.covers(this_revision, grave.digest, removal=grave.how is Direction.LIFT)
            for approval in brake.approvals
        )
    )


def braked(found: Sequence[Grave], situation: Situation, brake: Brake, *, disks: int, whole: bool) -> Braked | None:
    """What has to wait for a person, None when nothing has.

    ``disks`` is how many were considered: all of the node (``whole``), or of some guests. Then those that were
    changed within the last hour count too, since guest by guest the whole node would come through.
    """
    number = len(found)
    if not whole:
        number = len({grave.key for grave in found} | still_recent(situation.recent, situation.now).keys())
        disks = max(disks, len(situation.memory))
    many = brake.stops(number, disks)
    stopped = [grave for grave in found if many or grave.alone]
    if not stopped:
        return None
    hows = Counter(grave.how for grave in stopped)
    catalogue = situation.catalogue
    return Braked(
        revision(situation),
        catalogue.edition if isinstance(catalogue, Catalogue) else None,
        frozenset(grave.key for grave in stopped),
        disks,
        released=hows[Direction.LIFT],
        loosened=hows[Direction.LOOSEN],
        cut=hows[Direction.TIGHTEN],
        many=many,
        alone={grave.key: grave.too_much for grave in stopped if grave.alone},
        edits=tuple(_edits(stopped)),
    )


def still_recent(changed: Mapping[str, datetime], now: datetime) -> dict[str, datetime]:
    """Those of the last hour; a time to come is one of a clock that was wrong."""
    return {key: at for key, at in changed.items() if timedelta(0) <= now - at < _RECENT}


def _grave(outcome: Outcome, situation: Situation, this_revision: str, factor: int) -> Grave | None:
    """None for a change that is no slip, or none at all."""
    disk, wanted = outcome.disk, outcome.decision.wanted
    if not isinstance(wanted, Wants) or wanted.reason.code in _BY_A_PERSON:
        return None
    if isinstance(disk.in_force, Limits) and outcome.change is None:
        return None
    remembered = situation.memory.get(disk.key)
    before = _last(disk, remembered)
    if before is None or before == wanted.limits or _first(disk, remembered, situation, this_revision):
        return None
    if remembered is not None and (
        _ended(remembered, situation, this_revision) or _approved_for_the_region(wanted, remembered, situation)
    ):
        return None
    how, left = direction(before, wanted.limits), share_left(before, wanted.limits)
    if how is Direction.TIGHTEN and left >= 0.5:
        return None
    if _rules_approved_for_the_region(wanted, disk, situation, this_revision):
        return None
    # Under the same rules, specs and types it is the disk's own type, size or flavor that changed.
    edited = remembered is None or remembered.revision != this_revision
    alone = edited and (how is Direction.LIFT or left <= 1 / factor)
    return Grave(disk.key, before, wanted.limits, how, alone, wanted.reason)


def _last(disk: Disk, remembered: Remembered | None) -> Limits | None:
    """What the change is weighed against; None where that is not known, which is no leave to change anything."""
    if remembered is not None:
        if remembered.wanted is not None:
            return remembered.wanted
        if remembered.returns is not None:  # what is in force is a hold's
            return remembered.returns
    return disk.in_force if isinstance(disk.in_force, Limits) else None


def _first(disk: Disk, remembered: Remembered | None, situation: Situation, this_revision: str) -> bool:
    """Whether the disk has no limit and never had one of plimsoll's, or is new under a revision that was judged."""
    if remembered is None and situation.judged == this_revision:
        return True
    ours = remembered is not None and (remembered.kept or remembered.put is not None)
    return not ours and isinstance(disk.in_force, Limits) and disk.in_force.unlimited


def _ended(remembered: Remembered, situation: Situation, this_revision: str) -> bool:
    """Whether a rule had a part in what was desired last that has come to its stated end, and nothing was edited."""
    if remembered.revision != this_revision:
        return False
    over = {rule.name for rule in situation.rules.rules if rule.ended(situation.now)}
    return not over.isdisjoint(remembered.by_rules)


def _approved_for_the_region(wanted: Wants, remembered: Remembered, situation: Situation) -> bool:
    """Whether a type's QoS spec says something else now, and the region approved of these very specs and types.

    Of what rules make of them, or made until now, it knows nothing, nor of volumes that are given another type; of
    limits that go only if it names the type.
    """
    catalogue, type = situation.catalogue, wanted.reason.of_type
    if type is None or type != remembered.by_type or not isinstance(catalogue, Catalogue):
        return False
    return catalogue.approved(situation.now, removing=type if wanted.limits.unlimited else None)


def _rules_approved_for_the_region(wanted: Wants, disk: Disk, situation: Situation, this_revision: str) -> bool:
    """Whether the region approved of this very revision, or of these rules, for what they themselves say.

    Of limits that go only if the disk is of a volume type that the approval names.
    """
    digests = {this_revision}
    if wanted.reason.code not in (Code.QOS_SPEC, Code.FLAVOR, Code.COMMAND_LINE):
        digests.add(situation.rules.edition)
    removing: str | None = None
    if wanted.limits.unlimited:
        types = situation.catalogue.types if isinstance(situation.catalogue, Catalogue) else {}
        removing = next((id for id, type in types.items() if type.name == disk.volume_type), "")
    orders, now = situation.orders, situation.now
    return any(orders.approve(Of.RULES, digest, now, removing=removing) for digest in digests)


def _edits(stopped: Sequence[Grave]) -> list[Edit]:
    """What was edited, as far as the disks tell: the same parameter of the same source, the commonest first."""
    counted: Counter[tuple[str, str, object, object]] = Counter()
    for grave in stopped:
        old, new = grave.before.full_set(), grave.after.full_set()
        names = [parameter.name for parameter in PARAMETERS] + ["group_name"]
        for name in names:
            if old.get(name) != new.get(name):
                counted[_source(grave.reason), name, old.get(name), new.get(name)] += 1
    return [Edit(*what, disks=number) for what, number in counted.most_common()]


def _source(reason: Reason) -> str:
    """Where an operator edits it: the QoS spec, the rule, the flavor, the default."""
    for word in ("spec", "rule", "flavor"):
        if word in reason.facts:
            return str(reason.facts[word])
    return {Code.NODE_DEFAULT: "default", Code.COMMAND_LINE: "command line"}.get(reason.code, reason.code.value)
