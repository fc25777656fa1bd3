"""QEMU's block I/O limits: one frozen value of 19 numbers and a group; an impossible set cannot be built."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from plimsoll_agent.util import quantities
from plimsoll_agent.util.frozen import frozen, names, set_once
from plimsoll_agent.util.quantities import Quantity

# QEMU, include/qemu/throttle.h: THROTTLE_VALUE_MAX; libvirt: QEMU_BLOCK_IOTUNE_MAX.
VALUE_MAX = 10**15

Scope = Literal["total", "read", "write"]
Unit = Literal["bytes", "iops"]
Role = Literal["base", "max", "length", "size"]

SCOPES: tuple[Scope, ...] = ("total", "read", "write")
UNITS: tuple[Unit, ...] = ("bytes", "iops")


@frozen
class LimitsProblem:
    """Why a set of limits is impossible; ``names`` are the parameters that clash, first the one to change."""

    names: tuple[str, ...]
    text: str


class LimitsError(ValueError):
    """QEMU or libvirt would refuse the limits; ``problems`` has every reason."""

    def __init__(self, problems: tuple[LimitsProblem, ...]) -> None:
        super().__init__("; ".join(problem.text for problem in problems))
        self.problems = problems


@frozen(kw_only=True, omit_defaults=True, forbid_unknown_fields=True)
class Limits:
    """The full set of a disk's limits, under libvirt's and Cinder's names; 0 is unlimited.

    Rates are in bytes or requests per second, lengths in seconds, ``size_iops_sec`` in bytes: a larger request
    counts as several. The fields are the one table of parameters, from which ``PARAMETERS`` is made.

    Raises ``LimitsError`` for a set that QEMU (``util/throttle.c``) or libvirt would refuse.
    """

    total_bytes_sec: int = 0
    read_bytes_sec: int = 0
    write_bytes_sec: int = 0
    total_iops_sec: int = 0
    read_iops_sec: int = 0
    write_iops_sec: int = 0
    total_bytes_sec_max: int = 0
    read_bytes_sec_max: int = 0
    write_bytes_sec_max: int = 0
    total_iops_sec_max: int = 0
    read_iops_sec_max: int = 0
    write_iops_sec_max: int = 0
    total_bytes_sec_max_length: int = 0
    read_bytes_sec_max_length: int = 0
    write_bytes_sec_max_length: int = 0
    total_iops_sec_max_length: int = 0
    read_iops_sec_max_length: int = 0
    write_iops_sec_max_length: int = 0
    size_iops_sec: int = 0
    group_name: str | None = None

    def __post_init__(self) -> None:
        problems = tuple(_problems(self))
        if problems:
            raise LimitsError(problems)
        # A burst lasts 1 s by default, and QEMU and libvirt report that as 0, 1 or not at all: one spelling here,
        # so that equal limits compare equal.
        for _, burst, length in _BURSTS:
            if getattr(self, length) <= 1:
                set_once(self, length, 1 if getattr(self, burst) else 0)

    @property
    def unlimited(self) -> bool:
        return not self.in_effect()

    def in_effect(self) -> dict[str, int | str]:
        """The parameters that are set, in the table's order, without a burst length of 1 s."""
        in_effect: dict[str, int | str] = {
            parameter.name: value
            for parameter in PARAMETERS
            if (value := getattr(self, parameter.name)) > (1 if parameter.role == "length" else 0)
        }
        if self.group_name is not None:
            in_effect["group_name"] = self.group_name
        return in_effect

    def shortens(self, other: Limits) -> bool:
        """Whether these are the other limits, with the same bursts, shorter ones or none."""
        alike = (*BASES, "size_iops_sec", "group_name")
        if any(getattr(self, name) != getattr(other, name) for name in alike):
            return False
        return all(self.has_part(other, base) for base in BASES)

    def has_part(self, other: Limits, base: str) -> bool:
        """Whether this limit has the burst of the other, a shorter one or none."""
        peak, length = (getattr(self, base + ending) for ending in ("_max", "_max_length"))
        whole, most = (getattr(other, base + ending) for ending in ("_max", "_max_length"))
        # A burst of 1 s is no rate to QEMU, only the room of its bucket: such a one may have a lower peak.
        return not peak or (length <= most and (peak == whole or (most == 1 and peak < whole)))

    def rates(self) -> tuple[str, ...]:
        """The limits that are set, without bursts and ``size_iops_sec``."""
        return tuple(base for base in BASES if getattr(self, base))

    def with_changes(self, values: Mapping[str, int]) -> Limits:
        """These limits with other values of some parameters; 0 removes one.

        A burst goes with a limit that is removed, or raised above it, unless ``values`` has that too. Raises
        ``LimitsError``.
        """
        new: dict[str, Any] = {name: value for name, value in {**self.in_effect(), **values}.items() if value}
        for base in BASES:
            burst, length = f"{base}_max", f"{base}_max_length"
            if burst not in values and new.get(base, VALUE_MAX) > new.get(burst, 0):
                new.pop(burst, None)
            if length not in values and burst not in new:
                new.pop(length, None)
        if "size_iops_sec" not in values and not any(base in new for base in BASES if "_iops_" in base):
            new.pop("size_iops_sec", None)
        return Limits.from_mapping(new)

    def full_set(self) -> dict[str, int | str]:
        """All 19 numbers, zeros too, under libvirt's names, and the group if there is one.

        Always the full set: of a part, libvirt would set the other parameters of the same category to zero and leave
        other categories unchanged (qemuDomainSetBlockIoTuneDefaults).
        """
        numbers: dict[str, int | str] = {p.name: getattr(self, p.name) for p in PARAMETERS}
        return numbers if self.group_name is None else numbers | {"group_name": self.group_name}

    def most(self, base: str, seconds: float) -> float:
        """The most that one base allows in so many seconds, in its own unit; it must be set.

        QEMU, util/throttle.c, throttle_compute_wait: a bucket of ``max × length`` that leaks at the base's rate.
        Without a burst the bucket is a tenth of a second; a burst of more than 1 s is itself limited to ``max``, plus
        a tenth of a second.
        """
        rate, peak, length = (getattr(self, base + ending) for ending in ("", "_max", "_max_length"))
        high = rate * seconds + (peak * length if peak else rate / 10)
        return float(min(high, peak * seconds + peak / 10) if length > 1 else high)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, object]) -> Limits:
        """Limits by libvirt's names; absent ones are unlimited. An unknown name is a problem too."""
        fields = names(cls)
        unknown = tuple(
            LimitsProblem((name,), f"{name} is not a limit that libvirt knows")
            for name in mapping
            if name not in fields
        )
        if unknown:
            raise LimitsError(unknown)
        return cls(**mapping)  # type: ignore[arg-type]  # __post_init__ checks the types

    @classmethod
    def from_qmp(cls, device: Mapping[str, object]) -> Limits:
        """Limits from QEMU's ``query-block`` (BlockDeviceInfo), without the group: QEMU always has one."""
        return cls(**{p.name: device[p.qmp] for p in PARAMETERS if p.qmp in device})  # type: ignore[arg-type]


@frozen(kw_only=True)
class Parameter:
    """One of the 19 numbers; ``name`` is its name in libvirt and Cinder, ``qmp`` the one in QMP."""

    name: str
    qmp: str
    """qapi/block-core.json, BlockIOThrottle."""
    nova: bool
    """Whether Nova passes on this key of a QoS spec."""
    role: Role
    scope: Scope | None
    unit: Unit

    @classmethod
    def named(cls, name: str) -> Parameter:
        if name == "size_iops_sec":
            return cls(name=name, qmp="iops_size", nova=True, role="size", scope=None, unit="iops")
        # total_bytes_sec_max_length is bps_max_length in QMP, and read_iops_sec iops_rd.
        scope, unit, _, *ending = name.split("_")
        words = "bps" if unit == "bytes" else "iops", {"total": "", "read": "rd", "write": "wr"}[scope], *ending
        role = ending[-1] if ending else "base"
        qmp = "_".join(filter(None, words))
        return cls(name=name, qmp=qmp, nova=role != "length", role=role, scope=scope, unit=unit)  # type: ignore[arg-type]

    @property
    def quantity(self) -> Quantity:
        if self.role in ("length", "size"):
            return Quantity.SECONDS if self.role == "length" else Quantity.SIZE
        return Quantity.BYTES if self.unit == "bytes" else Quantity.REQUESTS

    def read(self, text: str) -> int:
        """The number that an operator wrote, with a unit or without. Raises ``ValueError``."""
        return quantities.read(text, self.quantity)


PARAMETERS = tuple(Parameter.named(name) for name in names(Limits) if name != "group_name")
BASES = tuple(parameter.name for parameter in PARAMETERS if parameter.role == "base")
_BURSTS = tuple((base, f"{base}_max", f"{base}_max_length") for base in BASES)
_EXCLUSIVE = tuple(
    (f"total_{unit}_sec{ending}", f"{scope}_{unit}_sec{ending}")
    for unit in UNITS
    for ending in ("", "_max")
    for scope in ("read", "write")
)


# The group of a disk that was taken out of a shared one: neither QEMU nor libvirt can express "no group".
_ALONE = "plimsoll-alone:"


def group_alone(guest_uuid: str, target: str) -> str:
    """A group for one disk."""
    return f"{_ALONE}{guest_uuid}:{target}"


def filter_group(name: str) -> str:
    """What QEMU calls a throttle group that libvirt calls so in <throttlegroups>.

    A disk that is given ``group_name`` of that name replaces the group's limits (libvirt 11.3 and 12.8).
    """
    return f"throttle-{name}"


def together(sets: Sequence[Limits]) -> Limits | None:
    """What several sets in a row leave of requests, as one set; None where no set says exactly that."""
    result: dict[str, object] = {}
    for limits in sets:
        effective = limits.in_effect()
        for base in BASES:
            names = (base, f"{base}_max", f"{base}_max_length")
            theirs, ours = ({name: of[name] for name in names if name in of} for of in (result, effective))
            if ours and theirs and not _within(ours, theirs, base):
                if not _within(theirs, ours, base):
                    return None
                ours = theirs
            if ours:
                result = {name: value for name, value in result.items() if name not in names} | ours
    sizes = {limits.size_iops_sec for limits in sets if limits_requests(limits)} or {0}
    if len(sizes) > 1:
        return None
    try:
        return Limits.from_mapping(result | {"size_iops_sec": sizes.pop()})
    except LimitsError:  # such as a total beside a part of it
        return None


def _within(one: Mapping[str, Any], other: Mapping[str, Any], base: str) -> bool:
    """Whether one limit never allows more than the other."""
    if one[base] > other[base]:
        return False
    burst, length = f"{base}_max", f"{base}_max_length"
    if burst not in one:
        return True
    return bool(one[burst] <= other.get(burst, 0) and one.get(length, 1) <= other.get(length, 1))


def shared_group(name: str | None, alias: str | None = None) -> str | None:
    """The group if it was named to be shared, None for a group of one disk.

    QEMU puts every limited disk in a group. One without a name it names after the device: by its id (``alias``, of
    SCSI disks) or by its path (``/machine/…``, of virtio disks), ``drive-…`` in older versions.
    """
    return None if not name or name == alias or name.startswith((_ALONE, "/machine/", "drive-")) else name


def limits_requests(limits: Limits) -> bool:
    """Whether a rate of requests is limited: else ``size_iops_sec`` has no meaning."""
    return any(getattr(limits, base) for base in BASES if "_iops_" in base)


def _problems(limits: Limits) -> Iterator[LimitsProblem]:
    """What QEMU's ``throttle_is_valid`` or libvirt's driver would refuse."""
    not_numbers = tuple(_not_numbers(limits))
    yield from not_numbers
    if not_numbers:  # the checks below compare numbers
        return
    yield from _exclusive(limits)
    for names_of_burst in _BURSTS:
        yield from _bad_burst(limits, *names_of_burst)
    if limits.size_iops_sec and not limits_requests(limits):
        yield LimitsProblem(
            ("size_iops_sec",),
            "size_iops_sec needs one of total_iops_sec, read_iops_sec and write_iops_sec:"
            " it is the size from which a request counts as several",
        )
    if limits.group_name is not None and not any(getattr(limits, base) for base in BASES):
        yield LimitsProblem(("group_name",), "group_name needs a limit to share")


def _not_numbers(limits: Limits) -> Iterator[LimitsProblem]:
    for parameter in PARAMETERS:
        value = getattr(limits, parameter.name)
        if not isinstance(value, int) or isinstance(value, bool):
            yield LimitsProblem((parameter.name,), f"{parameter.name} must be a whole number, not {value!r}")
        elif not 0 <= value <= VALUE_MAX:
            yield LimitsProblem((parameter.name,), f"{parameter.name} must be between 0 and 10^15, not {value}")
    group = limits.group_name
    if group is None:
        return
    if not (isinstance(group, str) and group.isprintable() and 0 < len(group) < 256):
        yield LimitsProblem(("group_name",), "group_name must be a printable name of 1 to 255 characters")
    elif shared_group(group) is None:
        yield LimitsProblem(
            ("group_name",), f"group_name {group} is a name that QEMU or plimsoll gives; choose another"
        )


def _exclusive(limits: Limits) -> Iterator[LimitsProblem]:
    for total, part in _EXCLUSIVE:
        if getattr(limits, total) and getattr(limits, part):
            yield LimitsProblem((total, part), f"{total} and {part} exclude each other; remove one")


def _bad_burst(limits: Limits, base: str, burst: str, length: str) -> Iterator[LimitsProblem]:
    rate, peak, seconds = getattr(limits, base), getattr(limits, burst), getattr(limits, length)
    if peak and not rate:
        yield LimitsProblem((burst, base), f"{burst} needs {base}: a burst rises above a limit")
    elif peak and peak < rate:
        yield LimitsProblem((burst, base), f"{burst} ({peak}) is below {base} ({rate}); raise it or remove it")
    if seconds > 1 and not peak:
        yield LimitsProblem((length, burst), f"{length} needs {burst}: it is how long that burst may last")
    elif peak * seconds > VALUE_MAX:
        yield LimitsProblem((length, burst), f"{length} × {burst} must not exceed 10^15, and is {peak * seconds}")


def of_unit(limits: Limits, unit: Unit) -> Limits:
    """Those of requests, or those of bytes, alone."""
    return Limits.from_mapping({name: value for name, value in limits.in_effect().items() if f"_{unit}_" in name})
