"""Credits: a burst that an operator states by its capacity, on top of what a source limits a disk to."""

from __future__ import annotations

from collections.abc import Mapping

from plimsoll_agent.model.limits import BASES, PARAMETERS, VALUE_MAX, Limits
from plimsoll_agent.util.frozen import frozen

PEAKS = tuple(f"{base}_max" for base in BASES)
"""The keys for the rate of a burst, under libvirt's names."""

KEYS = tuple(f"plimsoll:{name}" for name in (*PEAKS, "capacity"))
"""The keys in QoS specs and in extra specs of flavors, which Cinder and Nova ignore."""
_PARAMETERS = {f"plimsoll:{parameter.name}": parameter for parameter in PARAMETERS}


@frozen
class Credits:
    """A disk saves what it does not use of its limit, up to ``capacity``, and spends it at the rate ``peak``.

    Raises ``ValueError`` for a burst that QEMU cannot have.
    """

    base: str
    """The limit: ``total_iops_sec``."""
    peak: int
    capacity: int
    """Requests or bytes."""

    def __post_init__(self) -> None:
        for name, number in ((f"{self.base}_max", self.peak), ("capacity", self.capacity)):
            if not isinstance(number, int) or isinstance(number, bool):
                raise ValueError(f"{name} must be a whole number, not {number!r:.60}")
        if not 0 < self.peak <= VALUE_MAX:
            raise ValueError(f"{self.base}_max must be between 1 and 10^15, not {self.peak}")
        if not self.peak <= self.capacity <= VALUE_MAX:
            raise ValueError(
                f"capacity ({self.capacity}) must be at least {self.base}_max ({self.peak}), a burst of a second, and"
                " at most 10^15"
            )

    def obstacle(self, limits: Limits) -> str | None:
        """Why these limits can have no such burst; None if they can."""
        rate = getattr(limits, self.base)
        if not rate:
            return f"there is no {self.base}"
        if getattr(limits, f"{self.base}_max"):
            return f"there is {self.base}_max already"
        if self.base.endswith("iops_sec") and limits.size_iops_sec:
            return "size_iops_sec counts a request as several, which no counter shows"
        return f"{self.base} ({rate}) is not below {self.base}_max ({self.peak})" if rate >= self.peak else None

    def added_to(self, limits: Limits) -> Limits:
        """The limits with the burst: QEMU counts its length in whole seconds. There must be no ``obstacle``."""
        return limits.with_changes(
            {f"{self.base}_max": self.peak, f"{self.base}_max_length": self.capacity // self.peak}
        )


def with_credits(keys: Mapping[str, str | None], limits: Limits) -> Limits:
    """The limits with the credits that a QoS spec or a flavor states; a limit that is as high as its burst has none.

    Raises ``ValueError``, also where these limits can have none.
    """
    credits = of_keys(keys)
    if credits is None or getattr(limits, credits.base) >= credits.peak:
        return limits
    if obstacle := credits.obstacle(limits):
        raise ValueError(f"plimsoll:{credits.base}_max is not possible: {obstacle}")
    return credits.added_to(limits)


def of_keys(keys: Mapping[str, str | None]) -> Credits | None:
    """The credits that these keys state; None without any. Raises ``ValueError``."""
    own = [key for key in KEYS if key in keys]
    if not own:
        return None
    peaks = [key for key in own if key != KEYS[-1]]
    if len(peaks) != 1 or KEYS[-1] not in own:
        raise ValueError(
            f"credits are {KEYS[-1]} and one rate of a burst, such as {KEYS[3]}; there is {', '.join(own)}"
        )
    numbers: list[int] = []
    for key in (peaks[0], KEYS[-1]):
        value = keys[key]
        try:
            if value is None:
                raise ValueError("has no value (null); state a number, or remove the key")
            numbers.append(_PARAMETERS[peaks[0]].read(value))
        except ValueError as error:
            raise ValueError(f"{key} {error}") from None
    return Credits(peaks[0].removeprefix("plimsoll:").removesuffix("_max"), *numbers)
