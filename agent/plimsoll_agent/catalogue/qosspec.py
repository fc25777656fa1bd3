"""Cinder's QoS specs, and which limits Cinder, Nova and libvirt make of one for a volume's size."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import StrEnum

from plimsoll_agent.credits.model import with_credits
from plimsoll_agent.model.limits import BASES, PARAMETERS, Limits
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.util.frozen import frozen

# libvirt, virXPathULongLong: base 10, with space and a plus before, nothing after. lxml, through which Nova writes,
# allows only these kinds of space. Cinder and Nova have no text above 255 characters.
_LIBVIRTS_NUMBER = re.compile(r"[ \t\n\r]*\+?[0-9]{1,255}")


class Consumer(StrEnum):
    """Who enforces a spec's limits."""

    FRONT_END = "front-end"
    """QEMU, through Nova."""
    BACK_END = "back-end"
    """The storage; for RBD, librbd."""
    BOTH = "both"


@frozen(kw_only=True)
class QosSpec:
    """A QoS spec as Cinder stores it."""

    id: str
    name: str
    consumer: str
    """One of ``Consumer``, or a value of another version of Cinder."""
    keys: Mapping[str, str | None]
    """Any name, with any text or null: Cinder checks nothing."""

    @classmethod
    def read(cls, value: object) -> QosSpec:
        """One of ``GET /v3/{project}/qos-specs``. Raises ``ValueError`` naming what is wrong."""
        if not isinstance(value, Mapping):
            raise ValueError(f"a QoS spec is an object, not {_short(value)}")
        words: dict[str, str] = {}
        for word in ("id", "name", "consumer"):
            entry = value.get(word)
            if not isinstance(entry, str) or not entry:
                whose = f"QoS spec {_short(value.get('name') or value.get('id'))}"
                raise ValueError(f"{whose}: {word} must be text, not {_short(entry)}")
            words[word] = entry
        if "specs" not in value:  # not the same as "no keys"
            raise ValueError(f"QoS spec {_short(words['name'])}: specs is missing")
        # Null where a spec has a consumer and nothing else (cinder/objects/qos_specs.py, _from_db_object).
        specs = {} if value["specs"] is None else value["specs"]
        if not isinstance(specs, Mapping):
            raise ValueError(f"QoS spec {_short(words['name'])}: specs must be an object, not {_short(specs)}")
        return cls(**words, keys={key: _text(words["name"], key, text) for key, text in specs.items()})

    @property
    def for_nova(self) -> bool:
        """Whether Cinder passes it to Nova (cinder/volume/manager.py, _parse_connection_options)."""
        return self.consumer in (Consumer.FRONT_END, Consumer.BOTH)

    @property
    def per_gib(self) -> bool:
        """Whether its limits depend on the size of the volume."""
        return any(f"{base}_per_gb" in self.keys for base in BASES)


@frozen(kw_only=True)
class PerGb:
    """How a limit follows from a volume's size: max(minimum, per_gb × gib), and at most ``maximum``."""

    parameter: str
    per_gb: int
    gib: int
    minimum: int | None
    maximum: int | None
    """The value of the key ``_max``, which beside a per-GB key is no burst."""
    result: int


@frozen
class Evaluation:
    """The limits of a spec for one size, and how those that depend on the size were computed."""

    limits: Limits
    arithmetic: tuple[PerGb, ...] = ()
    said: bool = True
    """Whether it has a key that Nova passes on, even with the value 0; a spec without one has no opinion."""


def evaluate(spec: QosSpec, gib: int) -> Evaluation | Unknown:
    """The limits that a volume of ``gib`` GiB would get if it were attached now, for a spec ``for_nova``.

    They are those of Cinder, Nova, libvirt and QEMU, plus ``_max_length`` where QEMU would accept it, and credits.
    ``Unknown`` where one of them would refuse to attach the volume or credits are not possible, and for a size
    below 1 GiB.
    """
    try:
        arithmetic = tuple(_per_gb(spec.keys, base, gib) for base in BASES if f"{base}_per_gb" in spec.keys)
        numbers = dict(_numbers(spec.keys, arithmetic))
        limits = with_credits(spec.keys, _with_lengths(spec.keys, Limits.from_mapping(numbers)))
    except ValueError as refused:
        return Unknown(because(Code.QOS_SPEC_UNREADABLE, spec=spec.name, detail=str(refused)))
    return Evaluation(limits, arithmetic, said=bool(numbers))


def cinders_number(key: str, value: str | None) -> int:
    """A value that Cinder parses with Python's int(), so ``1_000`` and every script's digits count.

    Raises ``ValueError``, also for null, with which Cinder fails to attach (TypeError).
    """
    if value is None:
        raise ValueError(f"{key} is null; Cinder needs a number there")
    try:
        return int(value)
    except ValueError:
        raise ValueError(f"{key} must be a whole number, not {_short(value)}") from None


def libvirts_number(key: str, value: str | None) -> int | None:
    """A value that reaches libvirt unchanged. None for null, which Nova leaves out (nova/virt/libvirt/config.py,
    _format_iotune), and for an empty text, which libvirt treats as absent. Raises ``ValueError``.
    """
    if not value:
        return None
    if not _LIBVIRTS_NUMBER.fullmatch(value):
        raise ValueError(f"{key} must be a whole number, not {_short(value)}")
    return int(value)


def _per_gb(keys: Mapping[str, str | None], base: str, gib: int) -> PerGb:
    """As cinder/volume/manager.py, _parse_connection_options, where a maximum of 0 results in 0 (unlimited) too."""
    if gib < 1:
        raise ValueError(f"{base}_per_gb needs a size of at least 1 GiB, not {gib}")
    per_gb = cinders_number(f"{base}_per_gb", keys[f"{base}_per_gb"])
    minimum, maximum = (
        cinders_number(key, keys[key]) if key in keys else None for key in (f"{base}_per_gb_min", f"{base}_max")
    )
    result = max(minimum or 0, per_gb * gib)
    return PerGb(
        parameter=base,
        per_gb=per_gb,
        gib=gib,
        minimum=minimum,
        maximum=maximum,
        result=result if maximum is None else min(result, maximum),
    )


def _numbers(keys: Mapping[str, str | None], arithmetic: tuple[PerGb, ...]) -> Iterator[tuple[str, int]]:
    """The keys that Nova passes on (nova/virt/libvirt/volume/volume.py, get_config)."""
    results = {row.parameter: row.result for row in arithmetic}
    ceilings = {f"{base}_max" for base in results}
    for parameter in PARAMETERS:
        if not parameter.nova or parameter.name in ceilings:
            continue
        number = results.get(parameter.name)  # instead of a fixed one beside it
        if number is None:
            number = libvirts_number(parameter.name, keys.get(parameter.name))
        if number is not None:
            yield parameter.name, number


def _with_lengths(keys: Mapping[str, str | None], limits: Limits) -> Limits:
    """Adds the lengths, which Nova drops: one that is not a number, or has no burst, is ignored."""
    for base in BASES:
        key = f"{base}_max_length"
        if key not in keys:
            continue
        with suppress(ValueError):
            limits = Limits.from_mapping(limits.full_set() | {key: libvirts_number(key, keys[key]) or 0})
    return limits


def _text(name: str, key: object, value: object) -> str | None:
    if not isinstance(key, str):
        raise ValueError(f"QoS spec {_short(name)}: a key must be text, not {_short(key)}")
    if isinstance(value, bool) or not (value is None or isinstance(value, str | int)):
        raise ValueError(f"QoS spec {_short(name)}: {key} must be text or null, not {_short(value)}")
    return str(value) if isinstance(value, int) else value


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
