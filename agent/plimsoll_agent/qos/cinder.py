"""Reads QoS specs, volume types and attached volumes from Cinder, by openstacksdk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any, Protocol, TypeVar

from plimsoll_agent.catalogue.qosspec import QosSpec
from plimsoll_agent.errors import Rejected
from plimsoll_agent.qos.file import Declaration, DeclaredType, Spec
from plimsoll_agent.util.decoding import UNREADABLE, count
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import printable

QOS_SPECS_ID_POLICY = "volume_extension:access_types_qos_specs_id"
# Cinder shows these extra specs to everyone, and without a sign leaves out others for users that its policy
# volume_extension:types_extra_specs:read_sensitive does not name (cinder/policies/type_extra_specs.py, since Xena).
_FOR_EVERYONE = frozenset({"RESKEY:availability_zones", "multiattach", "replication_enabled"})
T = TypeVar("T")
Named = TypeVar("Named", QosSpec, "LiveType")


class Cinder(Protocol):
    """Every call of ``storage`` raises ``Unreachable``, ``DeadlineExceeded``, ``Rejected`` (also ``Refused``).

    After ``Unreachable`` and ``DeadlineExceeded`` it is unknown whether a change was made.
    """

    name: str
    """For people: the cloud's name, or the address of its Keystone."""

    @property
    def calls(self) -> Counter[str]:
        """How often each kind of resource (``types``, ``volumes`` …) was requested, every attempt counted."""

    @property
    def storage(self) -> Any:
        """Openstacksdk's proxy of block storage (``adapters.block_storage``). Raises ``ConfigError``."""


@frozen(kw_only=True)
class LiveType:
    """A volume type as Cinder has it."""

    id: str
    name: str
    qos_spec: str | None
    """The name of its spec."""
    description: str
    public: bool
    extra_specs: Mapping[str, str | None] | None
    """None where a policy hides them."""


@frozen
class Live:
    """What Cinder has, by name."""

    specs: Mapping[str, QosSpec] = field(default_factory=dict)
    types: Mapping[str, LiveType] = field(default_factory=dict)
    default: str | None = None
    """The name of the default type, which Cinder does not delete."""

    @property
    def has_all_extra_specs(self) -> bool:
        """Whether Cinder certainly shows this user all extra specs: it shows one that not everyone sees."""
        return any((type.extra_specs or {}).keys() - _FOR_EVERYONE for type in self.types.values())

    def declared(self) -> Declaration:
        """The same as a file declares it; without extra specs where Cinder may hide some."""
        has_all = self.has_all_extra_specs
        return Declaration(
            specs={name: Spec(name, spec.consumer, dict(spec.keys)) for name, spec in self.specs.items()},
            types={
                name: DeclaredType(
                    name=name,
                    qos_spec=type.qos_spec,
                    description=type.description or None,
                    public=type.public,
                    extra_specs=(type.extra_specs or None) if has_all else None,
                )
                for name, type in self.types.items()
            },
        )


@frozen
class AttachedVolume:
    """An attached volume, with the name of its type and its size by Cinder."""

    type: str | None
    gib: int
    id: str


def read(api: Cinder) -> Live:
    """In three calls, or more where a list has several pages. Raises what ``Cinder`` raises."""
    storage = api.storage
    specs = tuple(_each("/qos-specs", storage.qos_specs(), _spec))
    names = {spec.id: spec.name for spec in specs}
    # Without is_public Cinder shows an admin the public types only.
    types = _each("/types", storage.types(is_public="None"), lambda value: _type(value, names))
    return Live(_by_name("QoS specs", specs), _by_name("volume types", types), _default(storage))


def attached_volumes(api: Cinder) -> tuple[AttachedVolume, ...]:
    """Every attached volume of the region, a page at a time. Raises what ``Cinder`` raises."""
    return tuple(_attached(api, _attached_volume))


def attached_metadata(api: Cinder) -> Iterator[tuple[str, Mapping[str, str]]]:
    """As ``attached_volumes``: each one's id, and its metadata, which its tenant can write."""
    return _attached(api, lambda value: (_text(value.id), dict(value.metadata)))


def _attached(api: Cinder, make: Callable[[Any], T]) -> Iterator[T]:
    # This misses the few volumes that are being extended or retyped; reading all volumes would take many more pages.
    return _each("/volumes/detail", api.storage.volumes(all_tenants="1", status="in-use"), make)


def _spec(value: Any) -> QosSpec:
    return QosSpec.read({word: getattr(value, word) for word in ("id", "name", "consumer", "specs")})


def _type(value: Any, specs: Mapping[str, str]) -> LiveType:
    if value.qos_specs_id == "":
        raise Rejected(
            f"Cinder hides the QoS specs of volume types: allow the user's role in its policy {QOS_SPECS_ID_POLICY}"
        )
    return LiveType(
        id=_text(value.id),
        name=_text(value.name),
        # Cinder too ignores a spec that no longer exists (qos_specs.associate_qos_with_type).
        qos_spec=specs.get(value.qos_specs_id),
        description=value.description or "",
        public=bool(value.is_public),
        extra_specs=None if value.extra_specs is None else dict(value.extra_specs),
    )


def _attached_volume(value: Any) -> AttachedVolume:
    type = value.volume_type
    return AttachedVolume(None if type is None else _text(type), count(value.size), _text(value.id))


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is not a name")
    return value


def _by_name(what: str, values: Iterable[Named]) -> dict[str, Named]:
    by_name: dict[str, Named] = {}
    for value in values:
        # Two requests at once can create two of a name: Cinder's check has no lock. Pages can repeat the same one.
        there = by_name.setdefault(value.name, value)
        if there.id != value.id:
            raise Rejected(
                f"Cinder: there are two {what} named {printable(value.name)} ({there.id} and {value.id}); delete or"
                " rename one of them first"
            )
    return by_name


def _default(storage: Any) -> str | None:
    try:
        return _text(storage.get_type("default").name)
    except (Rejected, *UNREADABLE):  # there may be none
        return None


def _each(path: str, values: Iterable[Any], make: Callable[[Any], T]) -> Iterator[T]:
    try:
        for value in values:
            yield make(value)
    except UNREADABLE as error:
        raise Rejected(f"Cinder: its answer to {path} cannot be read: {printable(str(error))}") from error
