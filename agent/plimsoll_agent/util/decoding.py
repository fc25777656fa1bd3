"""JSON that plimsoll wrote, back into values: by their types, or a getter for each.

Both raise ``ValueError`` for a value of another kind.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec

from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.util import files
from plimsoll_agent.util.frozen import names
from plimsoll_agent.util.text import printable

Value = TypeVar("Value")

Count = Annotated[int, msgspec.Meta(ge=0)]
Finite = Annotated[float, msgspec.Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=sys.float_info.max)]
Ratio = Annotated[float, msgspec.Meta(gt=0, le=1)]
if TYPE_CHECKING:
    Moment = datetime
else:

    class _Moment(type):
        __instancecheck__ = datetime.__instancecheck__

    class Moment(metaclass=_Moment):
        """A ``datetime`` that was read by ``time``: msgspec's own may have no time zone, or one that is not UTC."""


UNREADABLE = (ValueError, TypeError, AttributeError, LookupError, OverflowError, RecursionError)
"""What reading raises on a file that plimsoll did not write."""
# The text of an error may be as long as the file.
_LONGEST_COMPLAINT = 200
# Python takes many times as much memory as JSON is long, and the daemon has several threads that read.
_ONE_FILE = threading.RLock()


def load(
    path: Path,
    most: int,
    read: Callable[[Any], Value],
    error: type[PlimsollError],
    *,
    corrupt: type[PlimsollError] | None = None,
    too_large: type[PlimsollError] | None = None,
    follow: bool = False,
) -> Value | None:
    """What ``read`` makes of the JSON in the file, None if there is no file. One thread reads at a time.

    Raises ``error`` if the file cannot be read, ``corrupt`` (else ``error``) if its content is invalid, and
    ``too_large`` (else ``corrupt``) if it has more than ``most`` bytes.
    """
    corrupt = corrupt or error
    with _ONE_FILE:
        content = files.read_bounded(path, most, error, too_large=too_large or corrupt, follow=follow)
        if content is None:
            return None
        try:
            return read(json.loads(content.decode("utf-8")))
        except UNREADABLE as trouble:
            fault = complaint(trouble)
        raise corrupt(f"{path}: is corrupt: {fault}")  # not from the trouble, which keeps what was decoded


def complaint(error: Exception) -> str:
    # Not repr(): for a UnicodeDecodeError that includes the whole file.
    return printable(f"{type(error).__name__}: {str(error)[:_LONGEST_COMPLAINT]}")


def value_of(kind: type[Value], data: object, *optional: str) -> Value:
    """Of a class of ``frozen``; of its fields only the ``optional`` ones may be missing. Raises ``ValueError``.

    Of a class in it, any field with a default may be missing: read such a part by itself before.
    """
    if isinstance(data, dict):
        for name in names(kind):
            if name not in data and name not in optional:
                raise ValueError(f"{name} is missing")
    return msgspec.convert(data, kind, dec_hook=lambda _, moment: time(moment))


def data_of(value: object) -> Any:
    """The reverse, for ``as_json``."""
    return msgspec.to_builtins(value, builtin_types=(datetime,))


def as_json(data: object, indent: int | None = None) -> str:
    return json.dumps(data, indent=indent, default=datetime.isoformat)


def text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a {type(value).__name__} is not text")
    return value


def flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


def count(value: object, below: float = inf) -> int:
    if type(value) is not int or not 0 <= value < below:
        raise ValueError(f"{value!r} is not a whole number from 0 on")
    return value


def number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < inf:
        raise ValueError(f"{value!r} is not a number from 0 on")
    return float(value)


def time(value: object) -> datetime:
    """In UTC. Raises ``ValueError``, and ``OverflowError`` for a time that UTC cannot express."""
    moment = datetime.fromisoformat(text(value))
    if moment.tzinfo is None:
        raise ValueError(f"{value!r} has no time zone")
    return moment.astimezone(UTC)


def maybe(read: Callable[[Any], Value], value: object) -> Value | None:
    return None if value is None else read(value)


def several(read: Callable[[Any], Value], value: object) -> tuple[Value, ...]:
    if not isinstance(value, list):
        raise ValueError(f"a {type(value).__name__} is not a list")
    return tuple(map(read, value))


def mapping(read: Callable[[Any], Value], value: object) -> dict[str, Value]:
    if not isinstance(value, Mapping):
        raise ValueError(f"a {type(value).__name__} is not an object")
    return {key: read(one) for key, one in value.items()}
