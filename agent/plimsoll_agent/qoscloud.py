"""What Cinder has of QoS specs and volume types, and the volumes attached, read over its API."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from plimsoll_agent.cloudapi import BLOCK_STORAGE, CloudApi
from plimsoll_agent.errors import Rejected
from plimsoll_agent.qosfile import Declared, Spec, Type
from plimsoll_agent.qosspec import QosSpec
from plimsoll_agent.report import printable

QOS_SPECS_ID_POLICY = "volume_extension:access_types_qos_specs_id"
T = TypeVar("T")
Named = TypeVar("Named", QosSpec, "LiveType")
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


class Cinder(CloudApi, Protocol):
    """``CloudApi`` of one who may change things. Every call raises what its ``get`` raises.

    After ``Unreachable`` and ``Unanswered`` nobody knows whether what was asked for was done.
    """

    def post(self, service: str, path: str, body: object) -> Any:
        """What the POST answers, parsed; None where it is empty."""

    def put(self, service: str, path: str, body: object) -> Any:
        """As ``post``."""

    def delete(self, service: str, path: str, params: Mapping[str, str] | None = None) -> Any:
        """As ``post``."""


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Live:
    """What Cinder has, by name."""

    specs: Mapping[str, QosSpec] = field(default_factory=dict)
    types: Mapping[str, LiveType] = field(default_factory=dict)
    default: str | None = None
    """The name of the type of volumes that are made without one; Cinder does not delete it."""

    def declared(self) -> Declared:
        """The file that this is the fulfilment of."""
        return Declared(
            specs={name: Spec(name, spec.consumer, dict(spec.keys)) for name, spec in self.specs.items()},
            types={
                name: Type(name, type.qos_spec, type.description or None, type.public, type.extra_specs or None)
                for name, type in self.types.items()
            },
        )


@dataclass(frozen=True, slots=True)
class Attached:
    """A volume that is attached somewhere; ``type`` is the name, ``gib`` Cinder's size."""

    type: str | None
    gib: int


def read(api: CloudApi) -> Live:
    """In three calls, unless there are more than a page of something. Raises what ``CloudApi`` raises."""
    specs = tuple(_each(api, "/qos-specs", "qos_specs", QosSpec.read))
    names = {spec.id: spec.name for spec in specs}
    # Without the word is_public an administrator is shown the public ones only.
    types = _each(api, "/types", "volume_types", lambda value: _type(value, names), {"is_public": "None"})
    return Live(_by_name("QoS specs", specs), _by_name("volume types", types), _default(api))


def attached(api: CloudApi) -> tuple[Attached, ...]:
    """Every attached volume of the region, a page at a time. Raises what ``CloudApi`` raises."""
    # Volumes that just extend or retype are missed: they are few, and pages of detached ones cost as much as these.
    return tuple(_each(api, "/volumes/detail", "volumes", _attached, {"all_tenants": "1", "status": "in-use"}))


def _type(value: Any, specs: Mapping[str, str]) -> LiveType:
    if "qos_specs_id" not in value:
        raise Rejected(
            "Cinder: does not say which QoS spec a volume type has; its policy"
            f" {QOS_SPECS_ID_POLICY} must let the user's role through"
        )
    extra = value.get("extra_specs")
    return LiveType(
        id=_text(value["id"]),
        name=_text(value["name"]),
        # A spec that is not there any more is none to Cinder as well (qos_specs.associate_qos_with_type).
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
        raise ValueError(f"{value!r} is no name")
    return value


def _by_name(what: str, values: Iterable[Named]) -> dict[str, Named]:
    named: dict[str, Named] = {}
    for value in values:
        # Two requests at one moment can make two of a name, since Cinder's check is no lock. The same one twice is
        # what pages do.
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
    except (Rejected, *_UNREADABLE):  # there is none, which is allowed
        return None


def _each(
    api: CloudApi, path: str, word: str, make: Callable[[Any], T], params: Mapping[str, str] | None = None
) -> Iterator[T]:
    for page in api.pages(BLOCK_STORAGE, path, word, params):
        try:
            yield from [make(value) for value in page]
        except _UNREADABLE as error:
            raise Rejected(f"Cinder: what it answers to {path} cannot be read: {printable(str(error))}") from error
