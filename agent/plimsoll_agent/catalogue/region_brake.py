"""The brake of a region: what changed QoS specs and types would do to its attached volumes. Pure.

A node's brake stops an edit that changes more than a few of its disks. But five disks on each of 700 nodes are
3,500, so the machine that makes the region's file counts too before it publishes changed specs and types.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from functools import cache

from plimsoll_agent.catalogue.model import Lists, VolumeType
from plimsoll_agent.catalogue.orders import Of, Orders, RegionBrake
from plimsoll_agent.catalogue.planner import TypeOf
from plimsoll_agent.catalogue.qosspec import QosSpec, evaluate
from plimsoll_agent.model.direction import LOWEST, SMALL_RAISE, added_limits, share_left, times_more, too_low
from plimsoll_agent.model.limits import Limits, Unit
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.util.frozen import frozen

SIZES = (1, 10, 100, 1000)
"""GiB to judge a per-GB spec with where a volume's size is unknown; the largest effect counts."""

TENFOLD = 10
_HIDDEN = Unknown(because(Code.SPEC_HIDDEN, type=""))


class Effect(StrEnum):
    """What an edit does to the limits of a volume, the largest first; all else is not counted.

    Not counted are a cut to half or more, a raise to one and a half times as much or less, and a spec that cannot be
    read any more (nodes then keep the volumes' limits).
    """

    REMOVED = "removed"
    """Its type would give it no limits any more; a node's rules may still give it some."""
    TENFOLD = "tenfold"
    """One limit would be cut to a tenth or less, or to one part in ``factor``."""
    LOW = "low"
    """One limit would be set or lowered to less than the lowest in the settings."""
    MANIFOLD = "manifold"
    """One limit would be raised to ten times as much or more, or ``factor``, or be no limit any more."""
    CUT = "cut"
    """One limit would be cut to less than half."""
    ADDED = "added"
    """They would get a first limit, or one more."""
    RAISED = "raised"
    NOT_COMPARABLE = "not-comparable"
    """The spec before cannot be read; the new one gives limits."""


LARGEST = (Effect.REMOVED, Effect.TENFOLD, Effect.LOW, Effect.MANIFOLD)
"""Need an approval if one attached volume is affected."""


@frozen(kw_only=True)
class RegionEdit:
    """One difference between two states: a key of a spec, its consumer, or the spec of a type. None: not set."""

    of: str
    """The name of the spec, or that of the type where the type's spec is another."""
    key: str
    before: str | None
    after: str | None


@frozen
class TypeEffects:
    """The attached volumes of one type that get other limits by the same edits."""

    type: VolumeType
    edits: tuple[RegionEdit, ...]
    counts: Mapping[Effect, int]

    @property
    def number(self) -> int:
        return sum(self.counts.values())


@frozen(kw_only=True)
class RegionJudgement:
    """What changed specs and types would do; ``of`` is the number of attached volumes in the region."""

    rows: tuple[TypeEffects, ...] = ()
    of: int = 0
    brake: RegionBrake = field(default_factory=RegionBrake)
    factor: int = TENFOLD
    lowest: Mapping[Unit, int] = field(default_factory=lambda: LOWEST, hash=False)

    @property
    def number(self) -> int:
        return sum(row.number for row in self.rows)

    @property
    def removals(self) -> frozenset[str]:
        """Ids of the types whose volumes would lose their limits."""
        return frozenset(row.type.id for row in self.rows if row.counts.get(Effect.REMOVED))

    @property
    def stops(self) -> bool:
        """Whether the new state needs an approval."""
        if any(row.counts.get(effect) for row in self.rows for effect in LARGEST):
            return True
        return self.number > max(self.brake.volumes, self.of * self.brake.percent / 100)


def judge(
    before: Lists,
    after: Lists,
    volumes: Mapping[str, TypeOf],
    brake: RegionBrake,
    factor: int = TENFOLD,
    lowest: Mapping[Unit, int] = LOWEST,
) -> RegionJudgement:
    """Compare the limits that both states give to the volumes by their present type and size.

    So a retyped or extended volume is not counted, nor is one of a new type. ``qosspec.evaluate`` gives the limits.
    """

    @cache
    def effect_of(type: str, gib: int | None) -> Effect | None:
        sizes = SIZES if gib is None else (gib,)
        outcomes = {
            _effect(_limits(before, type, size), _limits(after, type, size), factor, lowest) for size in sizes
        }
        return next((effect for effect in Effect if effect in outcomes), None)

    in_use = [volume for volume in volumes.values() if volume.attached]
    counts: dict[str, Counter[Effect]] = {}
    for volume in in_use:
        if volume.type is None or volume.type not in before.types or volume.type not in after.types:
            continue
        effect = effect_of(volume.type, volume.gib)
        if effect is not None:
            counts.setdefault(volume.type, Counter())[effect] += 1
    rows = [TypeEffects(after.types[type], edits(before, after, type), dict(count)) for type, count in counts.items()]
    rows.sort(key=lambda row: (-row.number, row.type.name, row.type.id))
    return RegionJudgement(rows=tuple(rows), of=len(in_use), brake=brake, factor=factor, lowest=lowest)


def stopped(judgement: RegionJudgement, orders: Orders, digest: str, now: datetime) -> bool:
    """Whether the state with this digest must not be published without a further approval.

    An approval covers removals only for the types that it names.
    """
    if not judgement.stops:
        return False
    removals: list[str | None] = [None, *judgement.removals]
    return not all(orders.approve(Of.SPECS, digest, now, removing=type) for type in removals)


def _name(spec: QosSpec | None) -> str | None:
    return None if spec is None else spec.name


def edits(before: Lists, after: Lists, type: str) -> tuple[RegionEdit, ...]:
    """What differs for the volumes of a type that both states have."""
    old, new = _spec(before, type), _spec(after, type)
    if old is None or new is None or old.id != new.id:
        of = after.types[type].name
        return (RegionEdit(of=of, key="QoS spec", before=_name(old), after=_name(new)),)
    parts = [("consumer", old.consumer, new.consumer)]
    keys = sorted(old.keys.keys() | new.keys.keys())
    return tuple(
        RegionEdit(of=new.name, key=key, before=one, after=other)
        for key, one, other in [*parts, *((key, old.keys.get(key), new.keys.get(key)) for key in keys)]
        if one != other
    )


def _spec(lists: Lists, type: str) -> QosSpec | None:
    id = lists.types[type].qos_spec
    return None if id is None else lists.specs.get(id)


def _limits(lists: Lists, type: str, gib: int) -> Limits | Unknown | None:
    """As ``sources.cinder`` on a node: None where the type has no opinion, Unknown also where its spec is hidden."""
    volume_type = lists.types[type]
    spec = _spec(lists, type)
    if volume_type.hidden or (volume_type.qos_spec is not None and spec is None):
        return _HIDDEN
    if spec is None or not spec.for_nova:
        return None
    result = evaluate(spec, gib)
    # A spec without a key that Nova passes on has no opinion, which here is the same as "unlimited".
    return result if isinstance(result, Unknown) else result.limits


def _effect(
    before: Limits | Unknown | None, after: Limits | Unknown | None, factor: int, lowest: Mapping[Unit, int]
) -> Effect | None:
    if isinstance(after, Unknown):
        return None
    new = after or Limits()
    if isinstance(before, Unknown):
        if new.unlimited:
            return None
        return Effect.LOW if too_low(Limits(), new, lowest) else Effect.NOT_COMPARABLE
    old = before or Limits()
    if new.unlimited:
        return None if old.unlimited else Effect.REMOVED
    share, times = share_left(old, new), times_more(old, new)
    if share <= 1 / factor:
        return Effect.TENFOLD
    if too_low(old, new, lowest):
        return Effect.LOW
    if times >= factor:
        return Effect.MANIFOLD
    if share < 1 / 2:
        return Effect.CUT
    if added_limits(old, new):
        return Effect.ADDED
    return Effect.RAISED if times > SMALL_RAISE else None
