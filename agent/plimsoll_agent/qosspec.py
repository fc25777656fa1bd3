"""Cinder's QoS specs: read one, and say which limits Cinder, Nova and libvirt make of it for a volume's size."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from plimsoll_agent.limits import BASES, PARAMETERS, Limits
from plimsoll_agent.reason import Code, Unknown, because

# libvirt, virXPathULongLong: base 10, space and a plus may stand in front, nothing may follow. lxml, through which
# Nova writes, lets no other space through than these. Cinder and Nova have no text above 255 characters.
_LIBVIRTS_NUMBER = re.compile(r"[ \t\n\r]*\+?[0-9]{1,255}")


class Consumer(StrEnum):
    """Who is to keep a spec's limits."""

    FRONT_END = "front-end"
    """QEMU, by way of Nova."""
    BACK_END = "back-end"
    """The storage; of RBD, librbd."""
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class QosSpec:
    """A QoS spec as Cinder keeps it."""

    id: str
    name: str
    consumer: str
    """One of ``Consumer``, or what a Cinder of another time says."""
    keys: Mapping[str, str | None]
    """Nothing is checked by Cinder: any name, any text, or null."""

    @classmethod
    def read(cls, value: object) -> QosSpec:
        """One of ``GET /v3/{project}/qos-specs``. Raises ``ValueError`` naming what is wrong."""
        if not isinstance(value, Mapping):
            raise ValueError(f"a QoS spec is an object, not {_shown(value)}")
        told: dict[str, str] = {}
        for word in ("id", "name", "consumer"):
            said = value.get(word)
            if not isinstance(said, str) or not said:
                whose = f"QoS spec {_shown(value.get('name') or value.get('id'))}"
                raise ValueError(f"{whose}: {word} must be text, not {_shown(said)}")
            told[word] = said
        if "specs" not in value:  # no answer, and not the answer "no keys"
            raise ValueError(f"QoS spec {_shown(told['name'])}: specs is missing")
        # Null where a spec has a consumer and nothing else (cinder/objects/qos_specs.py, _from_db_object).
        specs = {} if value["specs"] is None else value["specs"]
        if not isinstance(specs, Mapping):
            raise ValueError(f"QoS spec {_shown(told['name'])}: specs must be an object, not {_shown(specs)}")
        return cls(**told, keys={key: _text(told["name"], key, text) for key, text in specs.items()})

    @property
    def for_nova(self) -> bool:
        """Whether Cinder hands it to Nova at all (cinder/volume/manager.py, _parse_connection_options)."""
        return self.consumer in (Consumer.FRONT_END, Consumer.BOTH)

    @property
    def per_gib(self) -> bool:
        """Whether its limits hang on the size of the volume."""
        return any(f"{base}_per_gb" in self.keys for base in BASES)


@dataclass(frozen=True, slots=True)
class PerGb:
    """How a limit follows from a volume's size: max(minimum, per_gb × gib), and at most ``maximum``."""

    parameter: str
    per_gb: int
    gib: int
    minimum: int | None
    maximum: int | None
    """What the key ``_max`` says, which is no burst beside a per-GB key."""
    result: int


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The limits of a spec for one size, and how those that depend on the size were found."""

    limits: Limits
    arithmetic: tuple[PerGb, ...] = ()
    said: bool = True
    """Whether it has a key at all that Nova hands on: one that says 0 is a word, no such key is none."""


def evaluate(spec: QosSpec, gib: int) -> Evaluated | Unknown:
    """The limits that a volume of ``gib`` GiB would get if it were attached now; ask it of specs ``for_nova``.

    All is as Cinder, Nova, libvirt and QEMU do it, and ``_max_length`` comes on top where QEMU would take it.
    ``Unknown`` where one of them would refuse to attach the volume, and for a size that no volume has: per GB
    of nothing would be no limit.
    """
    try:
        arithmetic = tuple(_per_gb(spec.keys, base, gib) for base in BASES if f"{base}_per_gb" in spec.keys)
        numbers = dict(_numbers(spec.keys, arithmetic))
        limits = Limits.from_mapping(numbers)
    except ValueError as refused:
        return Unknown(because(Code.QOS_SPEC_UNREADABLE, spec=spec.name, detail=str(refused)))
    return Evaluated(_with_lengths(spec.keys, limits), arithmetic, said=bool(numbers))


def cinders_number(key: str, value: str | None) -> int:
    """A value of which Cinder makes a number: Python's int(), so ``1_000`` and every script's digits too.

    Raises ``ValueError``; null is no number either, and Cinder then fails to attach (TypeError).
    """
    if value is None:
        raise ValueError(f"{key} is null, and Cinder needs a number there")
    try:
        return int(value)
    except ValueError:
        raise ValueError(f"{key} must be a whole number, not {_shown(value)}") from None


def libvirts_number(key: str, value: str | None) -> int | None:
    """A value that comes to libvirt as it is. None for null, which Nova leaves out (nova/virt/libvirt/config.py,
    _format_iotune), and for an empty text, which libvirt takes for an absent one. Raises ``ValueError``.
    """
    if not value:
        return None
    if not _LIBVIRTS_NUMBER.fullmatch(value):
        raise ValueError(f"{key} must be a whole number, not {_shown(value)}")
    return int(value)


def _per_gb(keys: Mapping[str, str | None], base: str, gib: int) -> PerGb:
    """cinder/volume/manager.py, _parse_connection_options. There too a maximum of 0 makes 0 of it, unlimited."""
    if gib < 1:
        raise ValueError(f"{base}_per_gb needs a size of at least 1 GiB, not {gib}")
    per_gb = cinders_number(f"{base}_per_gb", keys[f"{base}_per_gb"])
    minimum, maximum = (
        cinders_number(key, keys[key]) if key in keys else None for key in (f"{base}_per_gb_min", f"{base}_max")
    )
    result = max(minimum or 0, per_gb * gib)
    return PerGb(base, per_gb, gib, minimum, maximum, result if maximum is None else min(result, maximum))


def _numbers(keys: Mapping[str, str | None], arithmetic: tuple[PerGb, ...]) -> Iterator[tuple[str, int]]:
    """The keys that Nova hands on (nova/virt/libvirt/volume/volume.py, get_config); all others it drops."""
    computed = {row.parameter: row.result for row in arithmetic}
    consumed = {f"{base}_max" for base in computed}
    for parameter in PARAMETERS:
        if not parameter.nova or parameter.name in consumed:
            continue
        number = computed.get(parameter.name)  # in place of a fixed one beside it
        if number is None:
            number = libvirts_number(parameter.name, keys.get(parameter.name))
        if number is not None:
            yield parameter.name, number


def _with_lengths(keys: Mapping[str, str | None], limits: Limits) -> Limits:
    """Nova drops the lengths, so one that is no number, or has no burst, costs the volume nothing else."""
    for base in BASES:
        key = f"{base}_max_length"
        if key not in keys:
            continue
        with suppress(ValueError):
            limits = Limits.from_mapping(limits.full_set() | {key: libvirts_number(key, keys[key]) or 0})
    return limits


def _text(name: str, key: object, value: object) -> str | None:
    if not isinstance(key, str):
        raise ValueError(f"QoS spec {_shown(name)}: a key must be text, not {_shown(key)}")
    if isinstance(value, bool) or not (value is None or isinstance(value, str | int)):
        raise ValueError(f"QoS spec {_shown(name)}: {key} must be text or null, not {_shown(value)}")
    return str(value) if isinstance(value, int) else value


def _shown(value: object) -> str:
    said = repr(value)
    return said if len(said) <= 60 else f"{said[:60]}…"
