"""What a disk's limits should be: pure, values in and values out.

Three stages: *base* (the first source that is not silent), *shape* (floors and ceilings bound what it said) and
*hold* (an operator's exception has the last word, over what is unknown as well).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from plimsoll_agent.approvals import digest_of_change
from plimsoll_agent.catalogue import Catalogue
from plimsoll_agent.direction import Direction, direction
from plimsoll_agent.disk import Disk
from plimsoll_agent.holds import Hold
from plimsoll_agent.limits import Limits
from plimsoll_agent.reason import Code, Reason, Unknown, because
from plimsoll_agent.regionorders import Orders
from plimsoll_agent.rules import Rule, Rules
from plimsoll_agent.shape import at_least, at_most
from plimsoll_agent.sightings import Sightings


@dataclass(frozen=True, slots=True)
class Remembered:
    """What plimsoll wants for a disk and since when, and what it put in force there last."""

    wanted: Limits | None
    """What the sources wanted last, holds and limits by hand aside; None while they never wanted anything."""
    since: datetime
    seen: datetime
    put: Limits | None
    """None while plimsoll only observed, or met limits that were right already."""
    attachment: str | None
    """The attachment that this is about; None once the guest was away, or the node restarted."""
    returns: Limits | None = None
    """What was in force before a hold: to go back to when it ends and no source wants anything."""
    theirs: bool = False
    """That was somebody else's, not put there by plimsoll."""
    fought: int = 0
    """How often in a row plimsoll put back what somebody else had changed."""
    fought_at: datetime | None = None
    kept: bool = False
    """An enforcing pass had it in force: to want something else is to change it for the guest."""
    by_type: str | None = None
    """The volume type whose QoS spec wanted it, which no rule bounded; None for another's word."""
    by_rules: tuple[str, ...] = ()
    """The names of the rules that had a part in it."""
    revision: str | None = None
    """The revision of rules and catalogue (``brake.revision``) by which it was; None where that is not known."""
    mark: str | None = None
    """The digest of the mark that the disk had in its guest's metadata when this was remembered."""
    source: Code | None = field(default=None, compare=False)
    """Which kind of source wanted it last, by its reason; None where that is not known. It says where limits came
    from, and makes no other limits of them.
    """
    released: str | None = None
    """The volume type ("" for none) for which orphaned limits of this disk were released; None without a release."""


@dataclass(frozen=True, slots=True)
class Situation:
    """All that a decision may depend on, the clock too."""

    now: datetime
    rules: Rules
    memory: Mapping[str, Remembered] = field(default_factory=dict)
    """By ``Disk.key``."""
    holds: Mapping[str, Hold] = field(default_factory=dict)
    """By ``Disk.key``."""
    catalogue: Catalogue | Unknown | None = None
    """What the control plane said last; None while nobody is to be asked."""
    sightings: Sightings = field(default_factory=Sightings)
    """The attachments of this pass: what the catalogue says of others does not count."""
    judged: str | None = None
    """The revision that a pass over the whole node went through with, and the brake kept nothing back."""
    recent: Mapping[str, datetime] = field(default_factory=dict)
    """Disks that were changed so much that the brake counts them, by ``Disk.key``, and when: of the last hour."""
    asks_nova: bool = True
    """Whether the catalogue is to know flavors that the guests' definitions do not tell."""

    orders: Orders = field(default_factory=Orders)
    """What was decided for the whole region."""

    def ours(self, disk: Disk) -> Remembered | None:
        """What is remembered of this attachment; one that was made anew without our limits starts afresh.

        A guest that is started again from its persistent definition brings along the limits that plimsoll
        wrote into it: those are still ours.
        """
        remembered = self.memory.get(disk.key)
        if remembered is None:
            return None
        same = remembered.attachment == disk.attachment
        return remembered if same or (remembered.put is not None and remembered.put == disk.defined) else None

    def hold(self, disk: Disk) -> Hold | None:
        """The hold that stands on the disk: this node's own, else one of the region."""
        hold = self.holds.get(disk.key)
        return self.orders.hold(disk, self.now) if hold is None or hold.ended(self.now) else hold


@dataclass(frozen=True, slots=True)
class Wants:
    """A source's word; ``Limits()`` in it says "no limit" aloud."""

    limits: Limits
    reason: Reason


@dataclass(frozen=True, slots=True)
class Unmanaged:
    """Never written to, whatever it has."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Silent:
    """The source has nothing to say; the next one is asked."""

    reason: Reason


Answer = Wants | Unmanaged | Silent | Unknown
Source = Callable[[Disk, Situation], tuple["Step", ...]]


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the trail: who was asked, and what the answer was."""

    asked: str
    answer: Answer


@dataclass(frozen=True, slots=True)
class Decision:
    """What is wanted for a disk, and the trail that led there."""

    wanted: Wants | Unmanaged | Unknown
    trail: tuple[Step, ...]
    aside: Wants | Unmanaged | Unknown | None = None
    """What the sources want, where a hold has the last word."""

    @property
    def of_sources(self) -> Limits | None:
        """What the sources want, holds and limits by hand aside; None when that is nothing, or not known."""
        said = self.aside or self.wanted
        return said.limits if isinstance(said, Wants) and said.reason.code is not Code.COMMAND_LINE else None

    @property
    def source(self) -> Code | None:
        """Which kind of source wants that, by its reason."""
        said = self.aside or self.wanted
        return said.reason.code if isinstance(said, Wants) else None

    @property
    def by_type(self) -> str | None:
        """The volume type whose QoS spec's own word it is that the sources want."""
        said = self.aside or self.wanted
        return said.reason.of_type if isinstance(said, Wants) else None

    @property
    def by_rules(self) -> tuple[str, ...]:
        """The names of the rules that have a part in what the sources want."""
        said = self.aside or self.wanted
        return said.reason.rules if isinstance(said, Wants) else ()

    def and_then(self, asked: str, answer: Answer) -> Decision:
        """The decision after one more was asked; a silent one leaves it as it is."""
        wanted = self.wanted if isinstance(answer, Silent) else answer
        return Decision(wanted, (*self.trail, Step(asked, answer)))


def decide(disk: Disk, situation: Situation, sources: tuple[Source, ...]) -> Decision:
    """Ask the sources, bound what they said, and let an operator's hold have the last word.

    Where no source has an opinion, limits whose source is gone are told from others.
    """
    said = _shape(disk, situation, _base(disk, situation, sources))
    return _hold(disk, situation, _orphaned(disk, situation, said))


def _base(disk: Disk, situation: Situation, sources: tuple[Source, ...]) -> Decision:
    """The first answer that is not ``Silent``."""
    trail: list[Step] = []
    for source in sources:
        for step in source(disk, situation):
            trail.append(step)
            if not isinstance(step.answer, Silent):
                return Decision(step.answer, tuple(trail))
    return Decision(Unmanaged(because(Code.NO_LIMIT)), tuple(trail))


def _shape(disk: Disk, situation: Situation, decision: Decision) -> Decision:
    """Floor, then ceiling, so that the ceiling wins; each from the first rule that matches and has one."""
    if isinstance(decision.wanted, Wants) and decision.wanted.reason.code is not Code.COMMAND_LINE:
        for word, bound in (("floor", at_least), ("ceiling", at_most)):
            for rule in situation.rules.rules:
                limit: Limits | None = getattr(rule, word)
                if limit is None or not isinstance(decision.wanted, Wants):
                    continue
                silence = silence_of(rule, disk, situation)
                decision = decision.and_then(
                    f'{word} of rule "{rule.name}"',
                    silence or _bounded(decision.wanted, bound(decision.wanted.limits, limit), word, rule),
                )
                if silence is None:
                    break
    return decision


def _bounded(wanted: Wants, limits: Limits, word: str, rule: Rule) -> Answer:
    if limits == wanted.limits:
        return Silent(because(Code.RULE_BOUNDS_NOTHING))
    reason = wanted.reason
    return Wants(limits, replace(reason, facts={**reason.facts, word: rule.name}))


def silence_of(rule: Rule, disk: Disk, situation: Situation) -> Silent | Unknown | None:
    """Why a rule has nothing to say of the disk, or that nobody knows whether it has; None when it speaks."""
    if rule.until is not None and rule.ended(situation.now):
        return Silent(because(Code.RULE_ENDED, until=rule.until.isoformat()))
    misfit = rule.match.misfit(disk)
    if misfit is None or isinstance(misfit, Unknown):
        return misfit
    return Silent(because(Code.RULE_DOES_NOT_MATCH, word=misfit))


# What tells that a kind of source was not asked: then it may want today what it wanted before.
_NOT_ASKED = {Code.QOS_SPEC: Code.NOBODY_ASKED, Code.FLAVOR: Code.FLAVOR_NOT_TOLD}


def _orphaned(disk: Disk, situation: Situation, decision: Decision) -> Decision:
    """Limits whose source is gone stay until a person releases them; a release stands until the type changes.

    No floor or ceiling bounds them: no source has an opinion here.
    """
    remembered = situation.memory.get(disk.key)
    if remembered is None or decision.wanted.reason.code is not Code.NO_LIMIT:
        return decision
    orphaned = _are_orphaned(disk, remembered, situation, decision.trail)
    if remembered.released == released_for(disk) or (orphaned and _region_releases(remembered, situation)):
        facts = {} if disk.volume_type is None else {"type": disk.volume_type}
        return decision.and_then("release", Wants(Limits(), because(Code.RELEASED, **facts)))
    return decision.and_then("limits in force", Unmanaged(_origin(disk, remembered))) if orphaned else decision


def released_for(disk: Disk) -> str:
    """What a release of the disk's orphaned limits is bound to: its volume type, "" where it has none."""
    return disk.volume_type or ""


def _are_orphaned(disk: Disk, remembered: Remembered, situation: Situation, trail: tuple[Step, ...]) -> bool:
    """Whether the limits in force are known to be of a source that is gone; the sources have no opinion now."""
    had, ours = disk.in_force, situation.ours(disk)
    if not isinstance(had, Limits) or had.unlimited or remembered.wanted is None or remembered.returns is not None:
        return False
    of_source = {remembered.source} if remembered.source is not None else _NOT_ASKED.keys()
    if any(step.answer.reason.code is _NOT_ASKED.get(source) for step in trail for source in of_source):
        return False
    return (remembered.kept and remembered.wanted == had) or (ours is not None and ours.put == had)


def _region_releases(remembered: Remembered, situation: Situation) -> bool:
    """Whether the region approved of these specs and types, and that volumes of this type lose their limits."""
    known, type = situation.catalogue, remembered.by_type
    return type is not None and isinstance(known, Catalogue) and known.approved(situation.now, removing=type)


def _origin(disk: Disk, remembered: Remembered) -> Reason:
    """Where orphaned limits came from, and the digest that releases them."""
    facts: dict[str, object] = {"digest": digest_of_change(disk.key, Limits())}
    if remembered.by_type is not None:
        facts["type"] = remembered.by_type
    elif remembered.by_rules:
        facts["rule"] = remembered.by_rules[0]
    elif remembered.source in (Code.NODE_DEFAULT, Code.FLAVOR):
        facts["source"] = remembered.source.value
    return because(Code.ORPHANED, **facts)


def _hold(disk: Disk, situation: Situation, decision: Decision) -> Decision:
    """An operator's exception; after it, what was there before, unless a source wants something by now.

    A rule that says ``manage: false`` stands: then plimsoll has no hand on the disk at all.
    """
    if isinstance(decision.wanted, Unmanaged) and decision.wanted.reason.code is Code.RULE_UNMANAGES:
        return decision
    hold = situation.hold(disk)
    if hold is not None:
        answer = Unmanaged(hold.reason) if hold.limits is None else Wants(hold.limits, hold.reason)
        return replace(decision.and_then("hold", answer), aside=decision.wanted)
    remembered = situation.ours(disk)
    if remembered is None or remembered.returns is None or isinstance(decision.wanted, Wants):
        return decision
    if isinstance(decision.wanted, Unknown) and not _tightens(disk, remembered.returns):
        return decision  # the hold's limits stay: what is to come after them nobody knows
    ended = decision.and_then("hold", Wants(remembered.returns, because(Code.HOLD_ENDED)))
    return replace(ended, aside=decision.wanted)


def _tightens(disk: Disk, limits: Limits) -> bool:
    return isinstance(disk.in_force, Limits) and direction(disk.in_force, limits) is Direction.TIGHTEN
