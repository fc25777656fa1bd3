"""What has to be done to Cinder so that it has what was declared: steps, in an order that is safe.

``plan`` takes values and returns values; ``qosapply`` takes the steps one by one. A plan for what an interrupted one
left half done is just another plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from plimsoll_agent.limits import BASES
from plimsoll_agent.qoscloud import Live, LiveType
from plimsoll_agent.qosfile import Declared, Spec, Type
from plimsoll_agent.qosspec import Consumer, evaluate
from plimsoll_agent.reason import Unknown

Texts = Mapping[str, str | None]
# On PUT this is part of the body beside the keys, on POST it is the spec's own name.
_NAME = "name"
_ABSENT = object()
# GiB; what per-GB keys come to may be impossible at some size only.
_SIZES = (1, 1000)
_ENDINGS = ("", "_max", "_max_length", "_per_gb", "_per_gb_min")


@dataclass(frozen=True, slots=True)
class CreateSpec:
    """Make a QoS spec, with all its keys at once."""

    spec: Spec


@dataclass(frozen=True, slots=True)
class ChangeSpec:
    """Give a QoS spec other keys, or another consumer."""

    before: Spec
    after: Spec

    @property
    def put(self) -> dict[str, str | None]:
        """The keys that are new or different."""
        return _changed(self.before.keys, self.after.keys)

    @property
    def unset(self) -> tuple[str, ...]:
        """The keys that go."""
        return tuple(key for key in self.before.keys if key not in self.after.keys)

    @property
    def meanwhile(self) -> dict[str, str]:
        """What keys that go say until they are gone.

        Cinder sets keys in one transaction and removes them in others. Whatever is attached between the two keeps
        the limits of that moment until it is attached again, so there must be none in which the spec is looser than
        before and after, or impossible (a total beside reads, a burst below its limit). So what is to go says
        "unlimited" in the transaction that sets what comes in its place, and is removed then.
        """
        if self.before.consumer == self.after.consumer == Consumer.BACK_END:
            return {}  # the storage's own, who may take a 0 for something else
        said = {key: _meanwhile(key, self.before.keys, self.after.keys) for key in self.unset}
        return {key: value for key, value in said.items() if value is not None and value != self.before.keys[key]}


@dataclass(frozen=True, slots=True)
class CreateType:
    """Make a volume type, which has no spec yet."""

    type: Type


@dataclass(frozen=True, slots=True)
class ChangeType:
    """Give a volume type another description or visibility; None is left as it is."""

    before: LiveType
    description: str | None
    public: bool | None


@dataclass(frozen=True, slots=True)
class ChangeExtraSpecs:
    """Give a volume type other extra specs. Cinder refuses it while a volume has the type."""

    name: str
    before: Texts
    after: Texts

    @property
    def put(self) -> dict[str, str | None]:
        """What is new or different."""
        return {key: value for key, value in self.after.items() if self.before.get(key, _ABSENT) != value}

    @property
    def unset(self) -> tuple[str, ...]:
        """The keys that go."""
        return tuple(key for key in self.before if key not in self.after)


@dataclass(frozen=True, slots=True)
class Associate:
    """Give a volume type a QoS spec.

    Cinder refuses it to a type that has another one, so that one is taken away just before. The moment without any
    is as long as one request; a crash in it leaves a type without a spec, to which the next run gives this one.
    """

    type: str
    spec: str
    instead_of: str | None = None


@dataclass(frozen=True, slots=True)
class Disassociate:
    """Leave a volume type without a QoS spec."""

    type: str
    spec: str


@dataclass(frozen=True, slots=True)
class DeleteType:
    """Cinder refuses it while a volume has the type, and of the default type."""

    name: str


@dataclass(frozen=True, slots=True)
class DeleteSpec:
    """Cinder refuses it while a volume type has the spec, unless with ``force``, which leaves those types without."""

    name: str
    force: bool


Step = (
    CreateSpec
    | ChangeSpec
    | CreateType
    | ChangeType
    | ChangeExtraSpecs
    | Associate
    | Disassociate
    | DeleteType
    | DeleteSpec
)


def plan(declared: Declared, live: Live, *, prune: bool = False, force: bool = False) -> tuple[Step, ...]:
    """The steps from what Cinder has to what was declared, none where that is the same.

    With ``prune`` what was not declared is deleted, last of all: types first, since they hold specs. A spec that a
    type still has then is kept, unless with ``force``.
    """
    steps = [*_specs(declared, live), *_types(declared, live), *_associations(declared, live)]
    if prune:
        types, specs = undeclared(declared, live)
        steps += [DeleteType(name) for name in types if name != live.default]
        steps += [DeleteSpec(name, force) for name in specs]
    return tuple(steps)


def undeclared(declared: Declared, live: Live) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of volume types and of QoS specs that Cinder has and the file has not."""
    types = tuple(sorted(name for name in live.types if name not in declared.types))
    return types, tuple(sorted(name for name in live.specs if name not in declared.specs))


def forced(steps: Iterable[Step]) -> frozenset[str]:
    """The QoS specs that go even while a volume type has them."""
    return frozenset(step.name for step in steps if isinstance(step, DeleteSpec) and step.force)


def made(steps: Iterable[Step]) -> tuple[Spec, ...]:
    """The QoS specs that the steps make or change, as they are afterwards."""
    specs: dict[str, Spec] = {}
    for step in steps:
        match step:
            case CreateSpec(spec) | ChangeSpec(after=spec):
                specs[spec.name] = spec
    return tuple(specs.values())


def touched(steps: Iterable[Step]) -> tuple[str, ...]:
    """The names of the QoS specs that volumes may be attached with because of the steps, which they had not been."""
    steps = tuple(steps)
    given = (step.spec for step in steps if isinstance(step, Associate))
    return tuple(sorted({*(spec.name for spec in made(steps)), *given}))


def impossible(steps: Iterable[Step]) -> tuple[Unknown, ...]:
    """Why no volume could be attached with what the steps make of a spec: such a plan is not to be taken."""
    found: dict[str, Unknown] = {}
    for spec in made(steps):
        for gib in _SIZES if spec.as_cinders.for_nova else ():
            answer = evaluate(spec.as_cinders, gib)
            if isinstance(answer, Unknown):
                found[spec.name] = answer
    return tuple(found.values())


def _specs(declared: Declared, live: Live) -> Iterator[Step]:
    for name, spec in sorted(declared.specs.items()):
        there = live.specs.get(name)
        if there is None:
            # A key called name can only be put: when a spec is made, the word is taken for its own name.
            first = Spec(name, spec.consumer, {key: value for key, value in spec.keys.items() if key != _NAME})
            yield CreateSpec(first)
            if _changed(first.keys, spec.keys):
                yield ChangeSpec(first, spec)
            continue
        change = ChangeSpec(Spec(name, there.consumer, there.keys), spec)
        if change.put or change.unset or there.consumer != spec.consumer:
            yield change


def _types(declared: Declared, live: Live) -> Iterator[Step]:
    for name, type in sorted(declared.types.items()):
        there = live.types.get(name)
        if there is None:
            yield CreateType(type)
            continue
        description = type.description if type.description != there.description else None
        public = type.public if type.public != there.public else None
        if description is not None or public is not None:
            yield ChangeType(there, description, public)
        if type.extra_specs is not None and type.extra_specs != (there.extra_specs or {}):
            yield ChangeExtraSpecs(name, there.extra_specs or {}, type.extra_specs)


def _associations(declared: Declared, live: Live) -> Iterator[Step]:
    """Types that get a spec come before types that lose one: those attach without limits from then on."""
    losing: list[Step] = []
    for name, type in sorted(declared.types.items()):
        there = live.types.get(name)
        has = None if there is None else there.qos_spec
        if type.qos_spec is not None and type.qos_spec != has:
            yield Associate(name, type.qos_spec, has)
        elif type.qos_spec is None and has is not None:
            losing.append(Disassociate(name, has))
    yield from losing


def _changed(before: Texts, after: Texts) -> dict[str, str | None]:
    # Cinder forgets a null for a key that is not there (objects/qos_specs.py, obj_get_changes): both are one.
    return {key: value for key, value in after.items() if before.get(key) != value}


def _meanwhile(key: str, before: Texts, after: Texts) -> str | None:
    """What the key says between the PUT and its end, None for what it said before. 0 is unlimited."""
    if key == "size_iops_sec":
        return "0"
    base = next((base for base in BASES if key.removeprefix(base) in _ENDINGS), None)
    if base is None:
        return None
    per_gb, burst = f"{base}_per_gb", f"{base}_max"
    if base not in after and per_gb not in after:
        return "0"
    if key == burst and (per_gb in before or per_gb in after):
        # Beside a per-GB key it is a ceiling, and one of 0 no limit at all (cinder/volume/manager.py,
        # _parse_connection_options). Where the per-GB key goes, just before it, the limit to come is a good one.
        return None if per_gb in after else after[base]
    # A base that goes is overwritten by the per-GB key; a per-GB key overwrites the base to come until it is gone.
    return "0" if key == burst or (key.endswith("_min") and per_gb in after) else None
