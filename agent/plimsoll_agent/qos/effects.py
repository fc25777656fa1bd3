"""The effects of a plan on attached volumes: for which types, for how many volumes, and from what to what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from plimsoll_agent.catalogue.qosspec import Evaluation, QosSpec, evaluate
from plimsoll_agent.model.impact import Impact, tightened_bases
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Unknown
from plimsoll_agent.qos.cinder import AttachedVolume, Live
from plimsoll_agent.qos.file import Declaration
from plimsoll_agent.util.frozen import frozen

Given = Limits | Unknown | None
"""The limits of a spec for a volume; None where Nova gets no spec."""


@frozen
class VolumeChange:
    """The limits of a volume of this size before and after."""

    gib: int
    before: Given
    after: Given


@frozen(kw_only=True)
class TypeEffect:
    """The effect on the attached volumes of one type."""

    type: str
    changed: int
    unchanged: int
    median: VolumeChange | None
    """The change of the volume of median size among those that change."""
    refused: int = 0
    """How many of those that change keep their limits, because no volume can be attached with the new ones."""


@frozen
class Cut:
    """An attached volume that gets a lower limit, or a first one."""

    volume: AttachedVolume
    before: Limits
    after: Limits


@frozen
class VolumeImpact:
    """What the new limits of a volume would have meant lately; None where its use is unknown."""

    cut: Cut
    impact: Impact | None
    server: str | None = None
    """The name of its guest's server; tenants choose it."""


def effects(
    declaration: Declaration, live: Live, volumes: Iterable[AttachedVolume], *, deletions: Collection[str] = ()
) -> tuple[TypeEffect, ...]:
    """The effect on each type whose spec changes, in the order of their names.

    ``deletions`` are specs that are deleted even if types have them.
    """
    pairs = _pairs(declaration, live, deletions)
    sizes: dict[str, Counter[int]] = {name: Counter() for name in pairs}
    for volume in volumes:
        if volume.type in pairs:
            sizes[volume.type][volume.gib] += 1
    return tuple(_effect(name, *pairs[name], sizes[name]) for name in sorted(pairs))


def cuts(
    declaration: Declaration, live: Live, volumes: Iterable[AttachedVolume], *, deletions: Collection[str] = ()
) -> tuple[Cut, ...]:
    """The volumes that get a lower limit, or a first one. One that Nova got no spec for counts as unlimited."""
    pairs, cuts = _pairs(declaration, live, deletions), []
    for volume in volumes:
        if volume.type in pairs:
            before, after = (_limits(spec, volume.gib) for spec in pairs[volume.type])
            old = before if isinstance(before, Limits) else Limits()
            if isinstance(after, Limits) and tightened_bases(old, after):
                cuts.append(Cut(volume, old, after))
    return tuple(cuts)


def _pairs(
    declaration: Declaration, live: Live, deletions: Collection[str]
) -> dict[str, tuple[QosSpec | None, QosSpec | None]]:
    """The spec before and after of each type for which Nova gets another."""
    then = _specs_then(declaration, live, deletions)
    return {
        name: (spec, then[name])
        for name, spec in _specs_now(live).items()
        if name in then and _nova_keys(spec) != _nova_keys(then[name])
    }


def _specs_now(live: Live) -> dict[str, QosSpec | None]:
    return {name: None if type.qos_spec is None else live.specs[type.qos_spec] for name, type in live.types.items()}


def _specs_then(declaration: Declaration, live: Live, deletions: Collection[str]) -> dict[str, QosSpec | None]:
    """Also of types that the plan deletes: Cinder keeps those with volumes."""
    specs = dict(live.specs)
    for name, spec in declaration.specs.items():
        specs[name] = QosSpec(
            id=specs[name].id if name in specs else "", name=name, consumer=spec.consumer, keys=spec.keys
        )
    then: dict[str, QosSpec | None] = {}
    for name, type in live.types.items():
        spec_name = declaration.types[name].qos_spec if name in declaration.types else type.qos_spec
        then[name] = None if spec_name is None or spec_name in deletions else specs[spec_name]
    return then


def _nova_keys(spec: QosSpec | None) -> Mapping[str, str | None] | None:
    """The keys that Cinder passes to Nova, whatever the spec's name."""
    return spec.keys if spec is not None and spec.for_nova else None


def _effect(type: str, before: QosSpec | None, after: QosSpec | None, sizes: Counter[int]) -> TypeEffect:
    changes = {gib: VolumeChange(gib, _limits(before, gib), _limits(after, gib)) for gib in sizes}
    differing = sorted(gib for gib, change in changes.items() if not _same(change))
    number = sum(sizes[gib] for gib in differing)
    in_order = [gib for gib in differing for _ in range(sizes[gib])]
    return TypeEffect(
        type=type,
        changed=number,
        unchanged=sum(sizes.values()) - number,
        median=changes[in_order[number // 2]] if number else None,
        refused=sum(sizes[gib] for gib in differing if isinstance(changes[gib].after, Unknown)),
    )


def _limits(spec: QosSpec | None, gib: int) -> Given:
    if spec is None or not spec.for_nova:
        return None
    result = evaluate(spec, gib)
    return result.limits if isinstance(result, Evaluation) else result


def _same(change: VolumeChange) -> bool:
    # Two reasons why no volume can be attached are no change.
    return change.before == change.after or (isinstance(change.before, Unknown) and isinstance(change.after, Unknown))
