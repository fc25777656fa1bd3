"""Plans the steps that make Cinder match what is declared, in a safe order. ``apply`` takes them.

After an interruption, a new plan has the remaining steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from plimsoll_agent.catalogue.qosspec import Consumer, evaluate
from plimsoll_agent.model.limits import BASES
from plimsoll_agent.model.reason import Unknown
from plimsoll_agent.qos.cinder import Live, LiveType
from plimsoll_agent.qos.file import Declaration, DeclaredType, Spec
from plimsoll_agent.util.frozen import frozen

Texts = Mapping[str, str | None]
# In the body of a PUT this is a key, in that of a POST the spec's own name.
_NAME = "name"
_ABSENT = object()
# GiB: limits from per-GB keys may be impossible at some sizes only.
_SIZES = (1, 1000)
_ENDINGS = ("", "_max", "_max_length", "_per_gb", "_per_gb_min")

_CINDERS_DEFAULT = "__DEFAULT__"
"""The type of volumes without any: Cinder makes it, and refuses to delete it while it is a default."""


@frozen
class CreateSpec:
    """Create a QoS spec with all its keys."""

    spec: Spec


@frozen
class ChangeSpec:
    """Give a QoS spec other keys, or another consumer."""

    before: Spec
    after: Spec

    @property
    def put(self) -> dict[str, str | None]:
        """The keys that are new or different."""
        return _difference(self.before.keys, self.after.keys)

    @property
    def unset(self) -> tuple[str, ...]:
        """The keys to remove."""
        return tuple(key for key in self.before.keys if key not in self.after.keys)

    @property
    def interim(self) -> dict[str, str]:
        """The values of the keys to remove until they are removed, and of bursts until they are set.

        Cinder sets keys in one transaction and removes keys in later ones. A volume that is attached in between keeps
        the limits of that moment, so at no moment may the spec allow more than before and after, or be impossible (a
        total beside reads, a burst below its limit). So a key to remove is set to 0, unlimited, in the transaction
        that sets its replacement, and is removed then.
        """
        if self.before.consumer == self.after.consumer == Consumer.BACK_END:
            return {}  # for the storage a 0 may have another meaning
        values = {key: _interim(key, self.before.keys, self.after.keys) for key in self.unset}
        values |= {f"{base}_max": self.after.keys[base] for base in BASES if f"{base}_max" in self.bursts}
        before = self.before.keys
        return {key: value for key, value in values.items() if value is not None and value != before.get(key)}

    @property
    def bursts(self) -> dict[str, str | None]:
        """Those of ``put`` to set last: beside a per-GB key, which goes, each would be its maximum."""
        bases = [base for base in BASES if base in self.after.keys and f"{base}_per_gb" in self.unset]
        keys = {f"{base}{ending}" for base in bases for ending in ("_max", "_max_length")}
        return {key: value for key, value in self.put.items() if key in keys}


@frozen
class CreateType:
    """Create a volume type, without a spec."""

    type: DeclaredType


@frozen
class ChangeType:
    """Give a volume type another description or visibility; None keeps it."""

    before: LiveType
    description: str | None
    public: bool | None


@frozen
class ChangeExtraSpecs:
    """Give a volume type other extra specs. Cinder refuses it while a volume has the type."""

    name: str
    before: Texts
    after: Texts

    @property
    def put(self) -> dict[str, str | None]:
        """The keys that are new or different."""
        return {key: value for key, value in self.after.items() if self.before.get(key, _ABSENT) != value}

    @property
    def unset(self) -> tuple[str, ...]:
        """The keys to remove."""
        return tuple(key for key in self.before if key not in self.after)


@frozen
class Associate:
    """Give a volume type a QoS spec.

    Cinder refuses it for a type that has another one, so that is disassociated just before. For one request the type
    has no spec; after a crash in that time the next run associates this one.
    """

    type: str
    spec: str
    instead_of: str | None = None


@frozen
class Disassociate:
    """Take a volume type's QoS spec away."""

    type: str
    spec: str


@frozen
class DeleteType:
    """Cinder refuses it while a volume has the type, and for the default type."""

    name: str


@frozen
class DeleteSpec:
    """Cinder refuses it while a volume type has the spec; with ``force`` those types have none then."""

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


def plan(declaration: Declaration, live: Live, *, prune: bool = False, force: bool = False) -> tuple[Step, ...]:
    """The steps from what Cinder has to what is declared.

    With ``prune`` what is not declared is deleted at the end, except ``kept_by_prune``: first types, since they use
    specs. Without ``force`` Cinder keeps a spec that a type still has.
    """
    steps = [*_specs(declaration, live), *_types(declaration, live), *_associations(declaration, live)]
    if prune:
        types, specs = undeclared(declaration, live)
        kept_types, kept_specs = kept_by_prune(declaration, live)
        steps += [DeleteType(name) for name in types if name not in kept_types]
        steps += [DeleteSpec(name, force) for name in specs if name not in kept_specs]
    return tuple(steps)


def undeclared(declaration: Declaration, live: Live) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of volume types and of QoS specs that only Cinder has."""
    types = tuple(sorted(name for name in live.types if name not in declaration.types))
    return types, tuple(sorted(name for name in live.specs if name not in declaration.specs))


def kept_by_prune(declaration: Declaration, live: Live) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Those of ``undeclared`` that ``prune`` keeps: default types, and the specs that these have."""
    types, specs = undeclared(declaration, live)
    # Cinder's answer is the default of the operator's own project, where that has one.
    defaults = tuple(name for name in types if name in (live.default, _CINDERS_DEFAULT))
    theirs = {live.types[name].qos_spec for name in defaults}
    return defaults, tuple(name for name in specs if name in theirs)


def forced(steps: Iterable[Step]) -> frozenset[str]:
    """The QoS specs that are deleted even if a volume type has them."""
    return frozenset(step.name for step in steps if isinstance(step, DeleteSpec) and step.force)


def made(steps: Iterable[Step]) -> tuple[Spec, ...]:
    """The QoS specs that the steps create or change, as they are afterwards."""
    specs: dict[str, Spec] = {}
    for step in steps:
        match step:
            case CreateSpec(spec) | ChangeSpec(after=spec):
                specs[spec.name] = spec
    return tuple(specs.values())


def touched(steps: Iterable[Step]) -> tuple[str, ...]:
    """The names of the QoS specs that the steps create, change or give to a type."""
    steps = tuple(steps)
    names = (step.spec for step in steps if isinstance(step, Associate))
    return tuple(sorted({*(spec.name for spec in made(steps)), *names}))


def impossible(steps: Iterable[Step]) -> tuple[Unknown, ...]:
    """Why no volume could be attached with a spec after the steps: such a plan must not be applied."""
    unknowns: dict[str, Unknown] = {}
    for spec in made(steps):
        for gib in _SIZES if spec.as_cinders.for_nova else ():
            answer = evaluate(spec.as_cinders, gib)
            if isinstance(answer, Unknown):
                unknowns[spec.name] = answer
    return tuple(unknowns.values())


def _specs(declaration: Declaration, live: Live) -> Iterator[Step]:
    for name, spec in sorted(declaration.specs.items()):
        there = live.specs.get(name)
        if there is None:
            # A key called name can only be set later: at creation Cinder takes it for the spec's own name.
            first = Spec(name, spec.consumer, {key: value for key, value in spec.keys.items() if key != _NAME})
            yield CreateSpec(first)
            if _difference(first.keys, spec.keys):
                yield ChangeSpec(first, spec)
            continue
        change = ChangeSpec(Spec(name, there.consumer, there.keys), spec)
        if change.put or change.unset or there.consumer != spec.consumer:
            yield change


def _types(declaration: Declaration, live: Live) -> Iterator[Step]:
    for name, type in sorted(declaration.types.items()):
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


def _associations(declaration: Declaration, live: Live) -> Iterator[Step]:
    """Types that get a spec come first: types that lose one attach volumes without limits from then on."""
    losing: list[Step] = []
    for name, type in sorted(declaration.types.items()):
        there = live.types.get(name)
        has = None if there is None else there.qos_spec
        if type.qos_spec is not None and type.qos_spec != has:
            yield Associate(name, type.qos_spec, has)
        elif type.qos_spec is None and has is not None:
            losing.append(Disassociate(name, has))
    yield from losing


def _difference(before: Texts, after: Texts) -> dict[str, str | None]:
    # Cinder drops a null for a missing key (objects/qos_specs.py, obj_get_changes), so null equals missing.
    return {key: value for key, value in after.items() if before.get(key) != value}


def _interim(key: str, before: Texts, after: Texts) -> str | None:
    """The key's value between the PUT and its removal, None for the value before. 0 is unlimited."""
    if key == "size_iops_sec":
        return "0"
    base = next((base for base in BASES if key.removeprefix(base) in _ENDINGS), None)
    if base is None:
        return None
    per_gb, burst = f"{base}_per_gb", f"{base}_max"
    if base not in after and per_gb not in after:
        return "0"
    if key == burst and (per_gb in before or per_gb in after):
        # Beside a per-GB key it is a maximum, and 0 would be no limit at all (cinder/volume/manager.py,
        # _parse_connection_options). If the per-GB key is removed, just before it, the new limit is a valid maximum.
        return None if per_gb in after else after[base]
    # A per-GB key overwrites the base, whichever of the two is removed.
    return "0" if key == burst or (key.endswith("_min") and per_gb in after) else None
