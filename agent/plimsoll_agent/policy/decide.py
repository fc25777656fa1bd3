"""The desired limits of a disk. Pure.

Three stages: *base* (the first source with an opinion), *shape* (floors and ceilings) and *hold* (an operator's
exception, which also replaces unknown limits).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import datetime, timedelta

from plimsoll_agent.catalogue.attachments import Attachments
from plimsoll_agent.catalogue.model import Catalogue
from plimsoll_agent.catalogue.orders import Of, Orders, Withdrawal
from plimsoll_agent.ceilings.buckets import NO_CEILINGS, CeilingKey, Ceilings, Whose, group_of
from plimsoll_agent.congestion.following import Following
from plimsoll_agent.congestion.published import Factors
from plimsoll_agent.credits import ledger
from plimsoll_agent.credits.ledger import Account
from plimsoll_agent.credits.model import Credits
from plimsoll_agent.model.acknowledged import Acknowledgement
from plimsoll_agent.model.approvals import digest_of_change
from plimsoll_agent.model.direction import Direction, direction
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.holds import Hold
from plimsoll_agent.model.later import Later
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.memory import BrakeMemory, Remembered
from plimsoll_agent.model.origin import ORIGINS, origin_of
from plimsoll_agent.model.reason import Code, Reason, Unknown, because
from plimsoll_agent.model.usage import Used
from plimsoll_agent.policy.clamp import at_least, at_most
from plimsoll_agent.rules.model import Rule, Rules
from plimsoll_agent.util.frozen import frozen, replace

_TAKEN_BACK_WITHIN = timedelta(days=1)


@frozen(kw_only=True)
class Situation:
    """Everything that a decision depends on, the time too."""

    now: datetime
    rules: Rules
    memory: Mapping[str, Remembered] = field(default_factory=dict)
    """By ``Disk.key``."""
    holds: Mapping[str, Hold] = field(default_factory=dict)
    """By ``Disk.key``."""
    catalogue: Catalogue | Unknown | None = None
    """None without a catalogue in the settings."""
    attachments: Attachments = field(default_factory=Attachments)
    """The attachments of this pass: entries of the catalogue for others do not count."""
    brake: BrakeMemory = field(default_factory=BrakeMemory)
    asks_nova: bool = True
    """Whether the catalogue has the flavors that guests' definitions lack."""

    orders: Orders = field(default_factory=Orders)
    """Orders for the whole region."""
    returning: Mapping[str, Withdrawal] = field(default_factory=dict)
    """By ``Disk.key`` the withdrawn approval that changed it: the limits of before are restored."""
    acknowledged: Mapping[str, Acknowledgement] = field(default_factory=dict)
    """By ``Disk.key``."""
    orders_unknown: Reason | None = None
    """Why the region's present orders are unknown: then nothing is raised or removed."""
    used: Callable[[], Mapping[str, Used]] = field(default=dict, compare=False)
    """Reads what disks used lately, by ``Disk.key``."""
    accounts: Mapping[str, Account] = field(default_factory=dict, compare=False)
    """What disks have saved of their bursts, by ``credits.ledger.account_key``."""
    congestion: Callable[[], Factors | None] = field(default=lambda: None, compare=False)
    """Reads the factors of congestion; None where that is switched off."""
    following: Following = field(default_factory=Following)
    """The factors that are applied."""
    ceilings: Ceilings = NO_CEILINGS
    """How the ceilings of guests and projects are split."""

    @property
    def revision(self) -> str:
        """The digest of the rules' text with QoS specs and types (and limits on the command line)."""
        parts = [self.rules.revision]
        if self.rules.command_line is not None:
            parts.append(f"command line {json.dumps(self.rules.command_line.in_effect())}")
        if isinstance(self.catalogue, Catalogue):
            parts.append(f"catalogue {self.catalogue.revision}")
        return parts[0] if len(parts) == 1 else hashlib.sha256("\0".join(parts).encode()).hexdigest()

    @property
    def is_judged(self) -> bool:
        """Whether a pass over the node has judged the revision."""
        return self.brake.judged == self.revision

    def ours(self, disk: Disk) -> Remembered | None:
        """What is remembered of this attachment; None for a new one that does not have plimsoll's limits.

        A guest that is started again from its persistent definition has the limits that plimsoll wrote into it.
        """
        entry = self.memory.get(disk.key)
        if entry is None:
            return None
        same = entry.attachment == disk.attachment
        return entry if same or (entry.applied is not None and entry.applied == disk.defined) else None

    def acknowledgement(self, disk: Disk) -> Acknowledgement | None:
        """The one that is active, if the disk is unknown."""
        entry = self.acknowledged.get(disk.key)
        return None if entry is None or entry.ended(self.now) else entry

    def awaits_catalogue(self, disk: Disk, why: Reason) -> bool:
        """Whether limits are unknown because the disk was attached after the catalogue was read."""
        if why.code is Code.VOLUME_NOT_FETCHED:
            entry = self.attachments.volumes.get(disk.key)
            if entry is not None and entry.external_changes:  # its limits are known to be others than at the attach
                return False
        elif why.code is Code.FLAVOR_NOT_FETCHED:
            entry = self.attachments.guests.get(disk.guest.uuid)
        else:
            return False
        return entry is None or (isinstance(self.catalogue, Catalogue) and not self.catalogue.covers(entry.since))

    def approved_specs(self, removing: str | None = None) -> bool:
        """Whether the region approved the catalogue's specs and types; ``removing`` names a type whose volumes they
        would leave without limits.
        """
        catalogue = self.catalogue
        if not isinstance(catalogue, Catalogue):
            return False
        type = None if removing is None else catalogue.id_of_type(removing)
        return self.orders.approve(Of.SPECS, catalogue.digest, self.now, removing=type)

    def hold(self, disk: Disk) -> Hold | None:
        """The active hold of the disk: this node's own, else one of the region."""
        hold = self.holds.get(disk.key)
        return self.orders.hold(disk, self.now) if hold is None or hold.ended(self.now) else hold


@frozen
class Desired:
    """The desired limits of a source; ``Limits()`` means explicitly unlimited."""

    limits: Limits
    reason: Reason

    @property
    def whole(self) -> Limits:
        """The limits with all of their bursts, of which these may have what is saved."""
        return ledger.whole(self.limits, self.reason)


@frozen
class Unmanaged:
    """plimsoll does not write the disk's limits."""

    reason: Reason


@frozen
class NoOpinion:
    """The next source is asked."""

    reason: Reason


Answer = Desired | Unmanaged | NoOpinion | Unknown
Source = Callable[[Disk, Situation], tuple["Step", ...]]


@frozen
class Step:
    """One line of the trail: the source that was asked, and its answer."""

    asked: str
    answer: Answer


@frozen(kw_only=True)
class Decision:
    """What is desired for a disk, and the trail of sources asked."""

    desired: Desired | Unmanaged | Unknown
    trail: tuple[Step, ...]
    aside: Desired | Unmanaged | Unknown | None = None
    """The sources' answer, if a hold replaces it."""
    ahead: tuple[tuple[datetime, Desired | Unmanaged | Unknown], ...] = ()
    """Their answers after the end of each rule that has one, the next first."""
    instead: Desired | Unmanaged | Unknown | None = None
    """Written for now in place of ``desired``; not a change of desired limits to memory and brake."""
    ours: Remembered | None = field(default=None, compare=False)
    """What is remembered of this attachment of the disk (``Situation.ours``)."""

    @property
    def written(self) -> Desired | Unmanaged | Unknown:
        """What the pass writes."""
        return self.instead or self.desired

    def stands(self, actual: Limits | Unknown | None) -> bool:
        """Whether what is desired is in force, with bursts as long as what is saved of them."""
        desired, target = self.desired, self.written
        if not isinstance(desired, Desired) or not isinstance(target, Desired):
            return False
        return actual == desired.limits or (actual == target.limits and target.whole == desired.limits)

    @property
    def of_sources(self) -> Limits | None:
        """The sources' limits, without hold and command line; None if they have no opinion or it is unknown."""
        answer = self.aside or self.desired
        return answer.limits if isinstance(answer, Desired) and not origin_of(answer.reason.code).aside else None

    @property
    def last_desired(self) -> Limits | None:
        """What was desired last for this attachment, if the desired limits are unknown now."""
        return self.ours.desired if self.ours is not None and isinstance(self.desired, Unknown) else None

    @property
    def later(self) -> tuple[Later, ...]:
        """``ahead`` as it is remembered."""
        return tuple(
            Later(at=at, limits=answer.limits, by_type=answer.reason.of_type, source=answer.reason.code)
            if isinstance(answer, Desired)
            else Later(at=at, limits=None)
            for at, answer in self.ahead
        )

    @property
    def source(self) -> Code | None:
        """The kind of source of ``of_sources``, by its reason."""
        answer = self.aside or self.desired
        return answer.reason.code if isinstance(answer, Desired) else None

    @property
    def by_type(self) -> str | None:
        """The volume type whose QoS spec gives exactly these limits."""
        answer = self.aside or self.desired
        return answer.reason.of_type if isinstance(answer, Desired) else None

    @property
    def by_rules(self) -> tuple[str, ...]:
        """The names of the rules behind ``of_sources``."""
        answer = self.aside or self.desired
        return answer.reason.rules if isinstance(answer, Desired) else ()

    def and_then(self, question: str, answer: Answer) -> Decision:
        """The decision after one more answer; ``NoOpinion`` changes nothing."""
        desired = self.desired if isinstance(answer, NoOpinion) else answer
        return replace(self, desired=desired, trail=(*self.trail, Step(question, answer)))


def decide(disk: Disk, situation: Situation, sources: tuple[Source, ...]) -> Decision:
    """Ask the sources, apply floor and ceiling, then a hold.

    If no source has an opinion, find out whether the limits are orphaned. A disk with throttle filters is left alone,
    whatever the sources say.
    """
    filters = disk.behind_filters
    if filters is not None:
        answer = Unmanaged(filters)
        return Decision(desired=answer, trail=(Step("throttle filters", answer),), ours=situation.ours(disk))
    decision = replace(_shape(disk, situation, _base(disk, situation, sources)), ours=situation.ours(disk))
    outcome = _taken_back(disk, situation, _hold(disk, situation, _orphaned(disk, situation, decision)))
    ahead = _ahead(disk, situation, sources, decision.desired)
    return replace(outcome, ahead=ahead) if ahead else outcome


def _ahead(
    disk: Disk, situation: Situation, sources: tuple[Source, ...], answer: Desired | Unmanaged | Unknown
) -> tuple[tuple[datetime, Desired | Unmanaged | Unknown], ...]:
    """The sources' answers after the end of each rule, if they change then."""
    rules, now = situation.rules, situation.now
    if rules.command_line is not None:
        return ()
    ends = {
        rule.until
        for rule in rules.rules
        if rule.until is not None
        and not rule.ended(now)
        # Only rules that match, or may match, count.
        and isinstance(rule.match.misfit(disk), Unknown | None)
    }
    ahead: list[tuple[datetime, Desired | Unmanaged | Unknown]] = []
    for end in sorted(ends):
        rest = replace(rules, rules=tuple(rule for rule in rules.rules if not rule.ended(end)))
        then = replace(situation, rules=rest)
        next_answer = _shape(disk, then, _base(disk, then, sources)).desired
        if next_answer != answer:
            ahead.append((end, next_answer))
        answer = next_answer
    return tuple(ahead)


def _base(disk: Disk, situation: Situation, sources: tuple[Source, ...]) -> Decision:
    """The first answer that is not ``NoOpinion``."""
    trail: list[Step] = []
    for source in sources:
        for step in source(disk, situation):
            trail.append(step)
            if not isinstance(step.answer, NoOpinion):
                return Decision(desired=step.answer, trail=tuple(trail))
    return Decision(desired=Unmanaged(because(Code.NO_LIMIT)), trail=tuple(trail))


def _shape(disk: Disk, situation: Situation, decision: Decision) -> Decision:
    """Add credits, apply floor, then ceiling, so that the ceiling wins; each from the first rule that matches and has
    one.
    """
    if isinstance(decision.desired, Desired) and not origin_of(decision.desired.reason.code).aside:
        decision = _with_credits(disk, situation, decision)
        for word, bound in (("floor", at_least), ("ceiling", at_most)):
            for rule in situation.rules.rules:
                limit: Limits | None = getattr(rule, word)
                if limit is None or not isinstance(decision.desired, Desired):
                    continue
                no_opinion = no_opinion_of(rule, disk, situation.now)
                decision = decision.and_then(
                    f'{word} of rule "{rule.name}"',
                    no_opinion or _bounded(decision.desired, bound(decision.desired.limits, limit), word, rule),
                )
                if no_opinion is None:
                    break
    return _under_shared(disk, situation, decision)


def _under_shared(disk: Disk, situation: Situation, decision: Decision) -> Decision:
    """With the ceilings of all disks of its guest, and of its project, on one disk.

    Where no source limits the disk, it gets them as a limit of the group that its guest's other such disks are in.
    """
    if not situation.rules.share_ceilings or not _may_be_shared(decision.desired):
        return decision
    rules = {bucket.whose: rule for bucket, rule in buckets_of(disk, situation)}
    name = group_of(rule.name for rule in rules.values())
    for whose in Whose:
        for rule in situation.rules.rules:
            ceiling: Limits | None = getattr(rule, whose.word)
            if ceiling is None:
                continue
            no_opinion = shared_opinion(rule, whose, disk, situation)
            answer = no_opinion or _shared(decision.desired, ceiling, name, whose, rule)
            decision = decision.and_then(f'{whose.word} of rule "{rule.name}"', answer)
            if isinstance(answer, Unknown):
                return decision
            if no_opinion is None:
                break
    return decision


def _may_be_shared(answer: Desired | Unmanaged | Unknown) -> bool:
    if isinstance(answer, Desired):
        return not origin_of(answer.reason.code).aside
    return answer.reason.code is Code.NO_LIMIT


def _shared(answer: Desired | Unmanaged | Unknown, ceiling: Limits, group: str, whose: Whose, rule: Rule) -> Answer:
    desired = answer if isinstance(answer, Desired) else Desired(Limits(), rule.reason)
    limits = desired.limits
    if not limits.unlimited and limits.group_name != group:
        return _bounded(desired, at_most(limits, ceiling), whose.word, rule)
    alone = at_most(replace(limits, group_name=None), ceiling)
    return _bounded(desired, replace(alone, group_name=group), whose.word, rule)


def buckets_of(disk: Disk, situation: Situation) -> list[tuple[CeilingKey, Rule]]:
    """The ceilings that it shares, each of the first rule that matches and has one."""
    pairs: list[tuple[CeilingKey, Rule]] = []
    for whose in Whose if situation.rules.share_ceilings else ():
        owner = _owner(disk, whose)
        for rule in situation.rules.rules if owner is not None else ():
            if getattr(rule, whose.word) is None:
                continue
            no_opinion = no_opinion_of(rule, disk, situation.now)
            if no_opinion is None and owner is not None:
                pairs.append((CeilingKey(whose, owner, rule.name), rule))
            if not isinstance(no_opinion, NoOpinion):
                break
    return pairs


def shared_opinion(rule: Rule, whose: Whose, disk: Disk, situation: Situation) -> NoOpinion | Unknown | None:
    if _owner(disk, whose) is None:
        return NoOpinion(because(Code.NOT_BY_NOVA))
    return no_opinion_of(rule, disk, situation.now)


def _owner(disk: Disk, whose: Whose) -> str | None:
    return disk.guest.uuid if whose is Whose.GUEST else disk.guest.project


def _with_credits(disk: Disk, situation: Situation, decision: Decision) -> Decision:
    for rule in situation.rules.rules:
        if rule.credits is None or not isinstance(decision.desired, Desired):
            continue
        no_opinion = no_opinion_of(rule, disk, situation.now)
        answer = no_opinion or _credited(decision.desired, rule.credits, rule)
        decision = decision.and_then(f'credits of rule "{rule.name}"', answer)
        if no_opinion is None:
            break
    return decision


def _credited(desired: Desired, credits: Credits, rule: Rule) -> Answer:
    obstacle = credits.obstacle(desired.limits)
    if obstacle is not None:
        return NoOpinion(because(Code.CREDITS_NOT_POSSIBLE, obstacle=obstacle))
    return _bounded(desired, credits.added_to(desired.limits), "credits", rule)


def _bounded(desired: Desired, limits: Limits, word: str, rule: Rule) -> Answer:
    if limits == desired.limits:
        return NoOpinion(because(Code.RULE_WITHOUT_LIMITS))
    reason = desired.reason
    return Desired(limits, replace(reason, facts={**reason.facts, word: rule.name}))


def no_opinion_of(rule: Rule, disk: Disk, now: datetime) -> NoOpinion | Unknown | None:
    """Why a rule has no opinion on the disk, or why that is unknown; None if it has one."""
    if rule.until is not None and rule.ended(now):
        return NoOpinion(because(Code.RULE_ENDED, until=rule.until.isoformat()))
    misfit = rule.match.misfit(disk)
    if misfit is None or isinstance(misfit, Unknown):
        return misfit
    return NoOpinion(because(Code.RULE_DOES_NOT_MATCH, word=misfit))


def _orphaned(disk: Disk, situation: Situation, decision: Decision) -> Decision:
    """Limits whose source is gone stay until an operator releases them; a release lasts until the type changes.

    Floor and ceiling do not apply to them.
    """
    entry = situation.memory.get(disk.key)
    if entry is None or decision.desired.reason.code is not Code.NO_LIMIT:
        return decision
    is_orphan = _are_orphaned(disk, entry, decision)
    if entry.released == released_for(disk) or (is_orphan and _region_releases(entry, situation)):
        facts = {} if disk.volume_type is None else {"type": disk.volume_type}
        return decision.and_then("release", Desired(Limits(), because(Code.RELEASED, **facts)))
    return decision.and_then("limits in force", Unmanaged(_origin(disk, entry))) if is_orphan else decision


def released_for(disk: Disk) -> str:
    """The volume type for which a release of the disk's orphaned limits counts; "" without a type."""
    return disk.volume_type or ""


def _are_orphaned(disk: Disk, entry: Remembered, decision: Decision) -> bool:
    """Whether the actual limits are known to be from a source that is gone; the sources have no opinion now."""
    had, ours = disk.actual, decision.ours
    if not isinstance(had, Limits) or had.unlimited or entry.desired is None or entry.restore_to is not None:
        return False
    origins = ORIGINS.values() if entry.source is None else (origin_of(entry.source),)
    not_used = {origin.not_used for origin in origins}
    if any(step.answer.reason.code in not_used for step in decision.trail):
        return False  # then the source may desire today what it desired before
    return (entry.enforced and entry.desired == had) or (ours is not None and ours.applied == had)


def _region_releases(entry: Remembered, situation: Situation) -> bool:
    """Whether the region approved these specs and types, and that volumes of this type lose their limits."""
    type = entry.by_type
    return type is not None and situation.approved_specs(removing=type)


def _origin(disk: Disk, entry: Remembered) -> Reason:
    """Where orphaned limits came from, and the digest that releases them."""
    facts: dict[str, object] = {"digest": digest_of_change(disk.key, Limits())}
    if entry.by_type is not None:
        facts["type"] = entry.by_type
    elif entry.by_rules:
        facts["rule"] = entry.by_rules[0]
    elif entry.source is not None and origin_of(entry.source).name:
        facts["source"] = entry.source.value
    return because(Code.ORPHANED, **facts)


def _hold(disk: Disk, situation: Situation, decision: Decision) -> Decision:
    """Apply an operator's hold; after its end, restore the limits before it, unless a source has an opinion.

    A rule with ``manage: false`` takes precedence: then plimsoll does not write the disk's limits.
    """
    if decision.desired.reason.code is Code.RULE_UNMANAGES:
        return decision
    hold = situation.hold(disk)
    if hold is not None:
        limits, why = hold.limits, hold.reason
        if limits is None and isinstance(disk.actual, Limits):
            limits, why = limits_lost(disk, situation), replace(why, facts={**why.facts, "as_it_is": True})
        answer = Unmanaged(hold.reason) if limits is None else Desired(limits, why)
        return replace(decision.and_then("hold", answer), aside=decision.desired)
    entry = decision.ours
    if entry is None or entry.restore_to is None or isinstance(decision.desired, Desired):
        return decision
    if isinstance(decision.desired, Unknown) and not _lowers(disk, entry.restore_to):
        return decision  # the hold's limits stay while the desired ones are unknown
    end = decision.and_then("hold", Desired(entry.restore_to, because(Code.HOLD_ENDED)))
    return replace(end, aside=decision.desired)


def limits_lost(disk: Disk, situation: Situation) -> Limits | None:
    """What plimsoll set last, of a disk held as it is that was attached again without limits: a hard reboot.

    So too while it cannot be read: it may be without.
    """
    hold, entry = situation.hold(disk), situation.memory.get(disk.key)
    if hold is None or hold.limits is not None or entry is None or entry.attachment == disk.attachment:
        return None
    if entry.applied is None or entry.applied.unlimited:
        return None
    return entry.applied if not isinstance(disk.actual, Limits) or disk.actual.unlimited else None


def _taken_back(disk: Disk, situation: Situation, decision: Decision) -> Decision:
    """A rule that leaves a disk alone again takes back the first limits that it got since, as by a mistake."""
    answer, ours = decision.desired, decision.ours
    if answer.reason.code is not Code.RULE_UNMANAGES or ours is None:
        return decision
    since, now = ours.taken_over, situation.now
    if since is None or not timedelta(0) <= now - since < _TAKEN_BACK_WITHIN or ours.applied != disk.actual:
        return decision
    why = because(Code.TAKEN_BACK, rule=answer.reason.facts["rule"], since=since.isoformat())
    return decision.and_then("limits in force", Desired(Limits(), why))


def _lowers(disk: Disk, limits: Limits) -> bool:
    return isinstance(disk.actual, Limits) and direction(disk.actual, limits) is Direction.LOWER
