"""The disks of a replay, and how each would fare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from plimsoll_agent.model.limits import BASES, SCOPES, UNITS, Limits, Scope, Unit
from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.simulate.throttle import LeakyBucket

DiskKey = tuple[str, str, str]
"""The region, the guest's uuid, the target."""


class ReplayVerdict(StrEnum):
    """How a disk would fare; the worst first."""

    WORSE = "worse"
    """Requests that were served would have waited."""
    MAYBE_WORSE = "maybe-worse"
    """They may have: it depends on demand that cannot be seen."""
    UNKNOWN = "unknown"
    BETTER = "better"
    """It was at its limit, and would have been less."""
    SAME = "same"
    """Other limits, and no request would have waited longer."""
    UNTOUCHED = "untouched"
    """It keeps its limits."""


class UnknownReason(StrEnum):
    """Why it is unknown."""

    ACTUAL = "actual-limits"
    ATTACH = "attach-time-limits"
    CLUSTER = "cluster"
    FLAVOR = "flavor-quota"
    NO_SAMPLES = "no-samples"
    RULE_KEYS = "rule-keys"
    SIZE = "size"
    SPEC = "qos-spec"
    SPECS = "no-qos-file"
    TYPE = "volume-type"
    TYPE_NOT_LISTED = "type-not-in-file"
    VOLUMES = "several-volumes"


@frozen(kw_only=True)
class ReplayedDisk:
    """A disk at the end of the time, by its metrics. An empty label is none, or unknown."""

    region: str
    uuid: str
    domain: str
    target: str
    facts: Mapping[str, str] = field(hash=False)
    """Labels of ``plimsoll_disk_info`` and ``plimsoll_guest_info``."""
    actual: Limits | None
    """Without a group, which no metric has; None is unknown."""
    reason: str = ""
    """The code of its state."""
    held: bool = False

    @property
    def key(self) -> DiskKey:
        return self.region, self.uuid, self.target


@frozen
class FigureRange:
    """A figure that lies between two; ``high`` is None where nothing bounds it."""

    low: float
    high: float | None


ZERO = FigureRange(0.0, 0.0)


@frozen(kw_only=True)
class Fate:
    """One disk under its own limits and under others. None is unknown."""

    subject: ReplayedDisk
    limits: Limits | None
    """Under the other rules; None is unknown."""
    verdict: ReplayVerdict
    why: UnknownReason | None = None
    share_known: float | None = None
    """Of the time, in which its load is known."""
    at_limit_before: float | None = None
    """The share of that time that it was at limit."""
    at_limit: FigureRange | None = None
    served_before: float | None = None
    """Requests a second, of that time."""
    served: FigureRange | None = None
    waited: FigureRange | None = None
    """Requests."""
    longest: FigureRange | None = None
    """Seconds."""
    hidden: float | None = None
    """Seconds that a request waited at most if all of an interval came at once."""


def tightens(before: Limits, after: Limits) -> bool:
    """Whether some load that the limits before let through would wait under those after."""
    if after.group_name is not None:
        return True  # it may share with others what it had alone
    if after.size_iops_sec and not 0 < before.size_iops_sec <= after.size_iops_sec:
        return True
    return any(getattr(after, base) and not _covers(before, after, base) for base in BASES)


def _covers(before: Limits, after: Limits, base: str) -> bool:
    """Whether the limits before never let through more than this one after."""
    scope, unit = scope_of(base), unit_of(base)
    new_rate, new_room, new_peak = bucket(after, base)
    total, parts = f"total_{unit}_sec", (f"read_{unit}_sec", f"write_{unit}_sec")
    candidates = ((total,), parts) if scope == "total" else ((base,), (total,))
    for names in candidates:
        if all(getattr(before, name) for name in names):
            rate, room, peak = (sum(each) for each in zip(*(bucket(before, name) for name in names), strict=True))
            # The bucket of a longer burst has room for a tenth of its rate, and leaks faster than the first one.
            if rate <= new_rate and room <= new_room and min(peak / 10, room) <= new_peak / 10:
                return True
    return False


def bucket(limits: Limits, base: str) -> tuple[float, float, float]:
    """What enforces one base: the rate at which its bucket leaks, how much fits in, and the rate of a burst."""
    one = LeakyBucket(*(getattr(limits, base + ending) for ending in ("", "_max", "_max_length")))
    return float(one.rate), float(one.room), float(one.peak or "inf")


def scope_of(base: str) -> Scope:
    return next(scope for scope in SCOPES if base.startswith(scope))


def unit_of(base: str) -> Unit:
    return next(unit for unit in UNITS if f"_{unit}_" in base)
