"""What Cinder has of QoS specs and volume types, and the volumes attached, read over its API."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from plimsoll_agent.errors import Rejected, Unreachable
from plimsoll_agent.qosfile import Declared, Spec, Type
from plimsoll_agent.qosspec import QosSpec
from plimsoll_agent.report import printable

QOS_SPECS_ID_POLICY = "volume_extension:access_types_qos_specs_id"
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


class BlockStorage(Protocol):
    """Cinder's API, below ``/v3/{project}``; an answer is its JSON.

    Every call raises ``Rejected`` where Cinder says no, ``Unreachable`` where there is no answer of its own, and
    ``Unanswered`` where the deadline passed and nobody knows whether it was done.
    """

    def get(self, path: str, /, **query: str) -> Any: ...

    def post(self, path: str, body: object, /) -> Any: ...

    def put(self, path: str, body: object, /) -> Any: ...

    def delete(self, path: str, /, **query: str) -> Any: ...


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


def read(api: BlockStorage) -> Live:
    """In three calls, unless there are more than a page of something. Raises what ``BlockStorage`` raises."""
    specs = _each(api, "/qos-specs", "qos_specs", QosSpec.read)
    names = {spec.id: spec.name for spec in specs}
    # Without the word is_public an administrator is shown the public ones only.
    types = _each(api, "/types", "volume_types", lambda value: _type(value, names), is_public="None")
    return Live(_by_name("QoS specs", specs), _by_name("volume types", types), _default(api))


def attached(api: BlockStorage) -> tuple[Attached, ...]:
    """Every attached volume of the region, a page at a time. Raises what ``BlockStorage`` raises."""
    # Not those of a moment's other status (extending, retyping): their number is small, and a page of detached ones
    # costs as much as one of these.
    volumes = _each(api, "/volumes/detail", "volumes", _attached, all_tenants="1", status="in-use")
    return tuple(volumes)


def _each[T](api: BlockStorage, path: str, word: str, make: Callable[[Any], T], **query: str) -> list[T]:
    made: list[T] = []
    for page in _pages(api, path, word, query):
        try:
            made += [make(value) for value in page]
        except _UNREADABLE as error:
            raise Unreachable(f"Cinder's answer to GET {path} cannot be read: {printable(str(error))}") from error
    return made


def _pages(api: BlockStorage, path: str, word: str, query: Mapping[str, str]) -> Iterator[list[Any]]:
    """Cinder gives osapi_max_limit (1000) at once, and a link where there may be more."""
    marker: dict[str, str] = {}
    while True:
        answer = api.get(path, **query, **marker)
        try:
            page = list(answer[word])
            links = answer.get(f"{word.removesuffix('s')}_links" if word != "qos_specs" else "qos_specs_links")
            last = str(page[-1]["id"]) if page else None
        except _UNREADABLE as error:
            raise Unreachable(f"Cinder's answer to GET {path} cannot be read: it has no list of {word}") from error
        yield page
        if not links or last is None or last == marker.get("marker"):
            return
        marker = {"marker": last}
