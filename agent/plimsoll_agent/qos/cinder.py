"""Reads QoS specs, volume types and attached volumes from Cinder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any, Protocol, TypeVar

from plimsoll_agent.catalogue.api import BLOCK_STORAGE, CloudApi
from plimsoll_agent.catalogue.qosspec import QosSpec
from plimsoll_agent.errors import Rejected
from plimsoll_agent.qos.file import Declared, Spec, Type
from plimsoll_agent.util.decoding import UNREADABLE
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import printable

QOS_SPECS_ID_POLICY = "volume_extension:access_types_qos_specs_id"
T = TypeVar("T")
Named = TypeVar("Named", QosSpec, "LiveType")


class Cinder(CloudApi, Protocol):
    """A ``CloudApi`` that can change things. Every call raises what its ``get`` raises.

    After ``Unreachable`` and ``DeadlineExceeded`` it is unknown whether the change was made.
    """

    def post(self, service: str, path: str, body: object) -> Any:
        """The parsed answer; None where it is empty."""

    def put(self, service: str, path: str, body: object) -> Any:
        """As ``post``."""

    def delete(self, service: str, path: str, params: Mapping[str, str] | None = None) -> Any:
        """As ``post``."""


@frozen
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

    def declared(self) -> Declared:
        """The same as a file declares it."""
        return Declared(
            specs={name: Spec(name, spec.consumer, dict(spec.keys)) for name, spec in self.specs.items()},
            types={
                name: Type(name, type.qos_spec, type.description or None, type.public, type.extra_specs or None)
                for name, type in self.types.items()
            },
        )


@frozen
class Attached:
    """An attached volume, with the name of its type and its size by Cinder."""

    type: str | None
    gib: int


def read(api: CloudApi) -> Live:
    """In three calls, or more where a list has several pages. Raises what ``CloudApi`` raises."""
    specs = tuple(_each(api, "/qos-specs", "qos_specs", QosSpec.read))
    names = {spec.id: spec.name for spec in specs}
    # Without is_public Cinder shows an admin the public types only.
    types = _each(api, "/types", "volume_types", lambda value: _type(value, names), {"is_public": "None"})
    return Live(_by_name("QoS specs", specs), _by_name("volume types", types), _default(api))


def attached(api: CloudApi) -> tuple[Attached, ...]:
    """Every attached volume of the region, a page at a time. Raises what ``CloudApi`` raises."""
    # This misses the few volumes that are being extended or retyped; reading all volumes would take many more pages.
    return tuple(_each(api, "/volumes/detail", "volumes", _attached, {"all_tenants": "1", "status": "in-use"}))


def _type(value: Any, specs: Mapping[str, str]) -> LiveType:
    if "qos_specs_id" not in value:
        raise Rejected(
            f"Cinder hides the QoS specs of volume types: allow the user's role in its policy {QOS_SPECS_ID_POLICY}"
        )
    extra = value.get("extra_specs")
    return LiveType(
        id=_text(value["id"]),
        name=_text(value["name"]),
        # Cinder too ignores a spec that no longer exists (qos_specs.associate_qos_with_type).
        qos_spec=specs.get(value["qos_specs_id"]),
        description=value.get("description") or "",
        public=bool(value.get("is_public", True)),
        extra_specs=None if extra is None else dict(extra),
    )


def _attached(value: Any) -> Attached:
    type = value.get("volume_type")
    return Attached(None if type is None else _text(type), int(value["size"]))


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is not a name")
    return value


def _by_name(what: str, values: Iterable[Named]) -> dict[str, Named]:
    named: dict[str, Named] = {}
    for value in values:
        # Two requests at once can create two of a name: Cinder's check has no lock. Pages can repeat the same one.
        there = named.setdefault(value.name, value)
        if there.id != value.id:
            raise Rejected(
                f"Cinder: there are two {what} named {printable(value.name)} ({there.id} and {value.id}); delete or"
                " rename one of them first"
            )
    return named


def _default(api: CloudApi) -> str | None:
    try:
        return _text(api.get(BLOCK_STORAGE, "/types/default")["volume_type"]["name"])
    except (Rejected, *UNREADABLE):  # there may be none
        return None


def _each(
    api: CloudApi, path: str, word: str, make: Callable[[Any], T], params: Mapping[str, str] | None = None
) -> Iterator[T]:
    for page in api.pages(BLOCK_STORAGE, path, word, params):
        try:
            yield from [make(value) for value in page]
        except UNREADABLE as error:
            raise Rejected(f"Cinder: its answer to {path} cannot be read: {printable(str(error))}") from error
