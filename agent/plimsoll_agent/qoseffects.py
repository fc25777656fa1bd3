"""What a plan does to the volumes that are attached: which types' limits change, for how many, and how."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from plimsoll_agent.limits import Limits
from plimsoll_agent.qoscloud import Attached, Live
from plimsoll_agent.qosfile import Declared
from plimsoll_agent.qosspec import Evaluated, QosSpec, evaluate
from plimsoll_agent.reason import Unknown

Given = Limits | Unknown | None
"""What a spec gives to a volume; None where there is no spec that Nova is told of."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a volume of this size gets before and after."""

    gib: int
    before: Given
    after: Given


@dataclass(frozen=True, slots=True)
class Effect:
    """What becomes of the attached volumes of one type."""

    type: str
    changed: int
    unchanged: int
    median: Change | None
    """That of the volume in the middle, by size, of those that change."""
    refused: int = 0
    """Of those that change: no volume can be attached with what they would get, so they keep what they have."""


def effects(
    declared: Declared, live: Live, attached: Iterable[Attached], *, forced: Collection[str] = ()
) -> tuple[Effect, ...]:
    """The effect on each type whose spec would say something else, in the order of their names.

    ``forced`` are specs that are to be deleted even while types have them.
    """
    then = _specs_then(declared, live, forced)
    touched = {
        name: (spec, then[name])
        for name, spec in _specs_now(live).items()
        if name in then and _says(spec) != _says(then[name])
    }
    sizes: dict[str, Counter[int]] = {name: Counter() for name in touched}
    for volume in attached:
        if volume.type in touched:
            sizes[volume.type][volume.gib] += 1
    return tuple(_effect(name, *touched[name], sizes[name]) for name in sorted(touched))


def _specs_now(live: Live) -> dict[str, QosSpec | None]:
    return {name: None if type.qos_spec is None else live.specs[type.qos_spec] for name, type in live.types.items()}


def _specs_then(declared: Declared, live: Live, forced: Collection[str]) -> dict[str, QosSpec | None]:
    """Of types that are to be deleted as well: those that have volumes stay."""
    specs = dict(live.specs)
    for name, spec in declared.specs.items():
        specs[name] = QosSpec(specs[name].id if name in specs else "", name, spec.consumer, spec.keys)
    then: dict[str, QosSpec | None] = {}
    for name, type in live.types.items():
        spec_name = declared.types[name].qos_spec if name in declared.types else type.qos_spec
        then[name] = None if spec_name is None or spec_name in forced else specs[spec_name]
    return then


def _says(spec: QosSpec | None) -> Mapping[str, str | None] | None:
    """What Nova is told; that of another spec with the same keys is the same."""
    return spec.keys if spec is not None and spec.for_nova else None


def _effect(type: str, before: QosSpec | None, after: QosSpec | None, sizes: Counter[int]) -> Effect:
    changes = {gib: Change(gib, _given(before, gib), _given(after, gib)) for gib in sizes}
    differing = sorted(gib for gib, change in changes.items() if not _same(change))
    changed = sum(sizes[gib] for gib in differing)
    in_order = [gib for gib in differing for _ in range(sizes[gib])]
    return Effect(
        type,
        changed,
        sum(sizes.values()) - changed,
        changes[in_order[changed // 2]] if changed else None,
        sum(sizes[gib] for gib in differing if isinstance(changes[gib].after, Unknown)),
    )


def _given(spec: QosSpec | None, gib: int) -> Given:
    if spec is None or not spec.for_nova:
        return None
    evaluated = evaluate(spec, gib)
    return evaluated.limits if isinstance(evaluated, Evaluated) else evaluated


def _same(change: Change) -> bool:
    # A spec without any limit, and none at all, are two things to plimsoll, and one to the volume that is attached.
    return change.before == change.after or (isinstance(change.before, Unknown) and isinstance(change.after, Unknown))
