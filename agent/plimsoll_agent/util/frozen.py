"""``@frozen``: values that nothing changes once they are made, which are Structs of msgspec, and what they need.

msgspec defines a class in a fraction of the time that ``dataclass`` takes, which was the largest cost of a start, and
its instances refuse an assignment (``AttributeError``). ``replace`` checks again what ``__post_init__`` checks, from
msgspec 0.21 on (before, a copy with an impossible limit was made).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, field
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform, overload

import msgspec
from msgspec import Struct

Class = TypeVar("Class", bound=type)
Value = TypeVar("Value")
_StructType: Any = type(Struct)


@overload
def frozen(cls: Class, /) -> Class: ...
@overload
def frozen(*, kw_only: bool = False, **options: bool) -> Callable[[Class], Class]: ...


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type | None = None, /, *, kw_only: bool = False, **options: bool) -> Any:
    """Instances compare and hash by value, without fields of ``field(compare=False)`` and ``field(hash=False)``.

    ``options`` are those of ``msgspec.Struct`` for its form as JSON.
    """
    options["kw_only"] = kw_only
    if cls is None:
        return lambda cls: _defined(cls, options)
    return _defined(cls, options)


def _defined(cls: type, options: Mapping[str, bool]) -> type:
    if issubclass(cls, Struct):  # it is made of another one, whose metaclass has defined it already
        return cls
    body = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
    special = {name: value for name, value in body.items() if isinstance(value, Field)}
    body |= {name: _default(value) for name, value in special.items()}
    incomparable = {name for name, value in special.items() if not value.compare}
    unhashable = {name for name, value in special.items() if value.hash is False}
    if incomparable or unhashable:
        fields = list(body["__annotations__"])
        keys = [name for name in fields if name not in incomparable]
        body = _comparison(_values(keys), _values(name for name in keys if name not in unhashable)) | body
    struct: type = _StructType(
        cls.__name__,
        (*(base for base in cls.__bases__ if base is not object), Struct),
        body,
        frozen=True,
        **options,
    )
    return struct


def _default(value: Field[Any]) -> Any:
    if value.default_factory is not MISSING:
        return msgspec.field(default_factory=value.default_factory)
    return msgspec.NODEFAULT if value.default is MISSING else value.default


def _comparison(to_compare: Callable[[Any], Any], to_hash: Callable[[Any], Any]) -> dict[str, object]:
    def equal(self: Any, other: object) -> bool:
        return bool(to_compare(self) == to_compare(other)) if other.__class__ is self.__class__ else NotImplemented

    return {"__eq__": equal, "__hash__": lambda self: hash(to_hash(self))}


def _values(names: Iterable[str]) -> Callable[[Any], Any]:
    """What gives these attributes of an instance as a tuple."""
    match list(names):
        case []:
            return lambda _: ()
        case [name]:
            return lambda instance: (getattr(instance, name),)
        case several:
            return attrgetter(*several)


def set_once(value: object, name: str, new: object) -> None:
    """Give a field the one spelling of its value, in ``__post_init__``."""
    msgspec.structs.force_setattr(value, name, new)  # type: ignore[arg-type]


def names(cls: type | object) -> tuple[str, ...]:
    """The names of the fields, in their order."""
    if hasattr(cls, "__struct_fields__"):
        return tuple(cls.__struct_fields__)
    return tuple(each.name for each in dataclasses.fields(cls))  # type: ignore[arg-type]


def replace(value: Value, /, **changes: Any) -> Value:
    """A copy with other values for these fields. Raises what ``__post_init__`` raises."""
    if isinstance(value, Struct):
        return msgspec.structs.replace(value, **changes)
    return dataclasses.replace(value, **changes)  # type: ignore[type-var]


def asdict(value: object) -> dict[str, Any]:
    """The fields by their names, and so on for the values in them."""
    return {name: _as_data(getattr(value, name)) for name in names(value)}


def _as_data(value: object) -> object:
    if isinstance(value, Struct) or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
        return asdict(value)
    if isinstance(value, tuple | list):
        return type(value)(map(_as_data, value))
    if isinstance(value, Mapping):
        return {key: _as_data(each) for key, each in value.items()}
    return value


def astuple(value: object) -> tuple[Any, ...]:
    """The values of the fields, in their order."""
    return tuple(getattr(value, name) for name in names(value))


def of_tuple(cls: type[Value], values: Sequence[object]) -> Value:
    """The inverse of ``astuple``; fields at the end that have a default may be missing.

    Raises ``TypeError`` for too few values, ``ValueError`` for too many.
    """
    return cls(**dict(zip(names(cls)[: len(values)], values, strict=True)))
