"""``@frozen``: immutable dataclasses that are defined in a third of the usual time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform, overload

Class = TypeVar("Class", bound=type)


@overload
def frozen(cls: Class, /) -> Class: ...
@overload
def frozen(*, kw_only: bool) -> Callable[[Class], Class]: ...


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type | None = None, /, *, kw_only: bool = False) -> Any:
    """A dataclass with slots whose instances compare and hash by value, like ``dataclass(frozen=True, slots=True)``.

    The standard one compiles six functions for each class, a twentieth of the time of a pass over 100 guests. This
    one compiles ``__init__`` alone. mypy refuses an assignment to a field; at run time nothing does.
    """
    if cls is None:
        return lambda cls: _defined(cls, kw_only)
    return _defined(cls, kw_only)


def _defined(cls: type, kw_only: bool) -> type:
    made: type[Any] = dataclass(repr=False, eq=False, slots=True, kw_only=kw_only)(cls)
    values = _getter(field.name for field in fields(made) if field.compare)
    hashed = _getter(field.name for field in fields(made) if (field.compare if field.hash is None else field.hash))
    shown = [field.name for field in fields(made) if field.repr]

    def equal(self: Any, other: object) -> bool:
        return values(self) == values(other) if other.__class__ is made else NotImplemented

    def digest(self: Any) -> int:
        return hash(hashed(self))

    def representation(self: Any) -> str:
        return f"{made.__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    for name, function in (("__eq__", equal), ("__hash__", digest), ("__repr__", representation)):
        if name not in cls.__dict__:
            setattr(made, name, function)
    return made


def _getter(names: Iterable[str]) -> Callable[[Any], Any]:
    """What gives these attributes of an instance as a tuple."""
    match list(names):
        case []:
            return lambda _: ()
        case [name]:
            return lambda instance: (getattr(instance, name),)
        case several:
            return attrgetter(*several)
