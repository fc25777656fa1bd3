"""The verdict on a probe and its reason, as codes; ``output.messages`` turns them into sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.util.frozen import frozen


class Verdict(StrEnum):
    """Whether the promise is kept."""

    KEPT = "kept"
    SHORT = "short"
    OVER_LIMIT = "over-limit"
    SLOW = "slow"
    NO_LIMIT = "no-limit"
    REDUCED = "reduced"
    """Neither kept nor broken: the limits are reduced for now, and the guest gets those."""
    INCONCLUSIVE = "inconclusive"
    FAILED = "failed"

    @classmethod
    def _missing_(cls, value: object) -> Verdict | None:
        """By the name that histories of 0.1.0 have."""
        return cls.INCONCLUSIVE if value == "discarded" else None


GOOD = (Verdict.KEPT, Verdict.NO_LIMIT)
"""Nothing to do."""
BROKEN = (Verdict.SHORT, Verdict.OVER_LIMIT, Verdict.SLOW)
"""The promise was not kept."""
LACKING = (Verdict.SHORT, Verdict.SLOW)
"""The guest gets less than promised."""
WORST_FIRST = (*LACKING, Verdict.OVER_LIMIT, Verdict.FAILED, Verdict.REDUCED, Verdict.INCONCLUSIVE, *GOOD)


class Why(StrEnum):
    """The reason of a verdict. The comment names the facts that come with it."""

    # kept
    WITHIN = (
        "within"  # parameter, allowed, done, own (of done by fio, where the guest's other requests took the rest)
    )
    # no-limit
    UNLIMITED = "unlimited"
    # short
    CLUSTER_SHORT = "cluster-short"  # parameter, allowed, done
    # over-limit
    NOT_SET = "not-set"  # parameter, allowed, done, actual
    TOO_MUCH = "too-much"  # parameter, allowed, done
    # slow
    OBJECTIVE_MISSED = "objective-missed"  # direction, quantile, objective, measured, wait (seconds)
    # reduced
    REDUCED = "reduced"  # promised, actual
    # inconclusive: a result, if there is one, proves nothing
    FROZEN = "frozen"
    MOVED = "moved"
    LIMITS_CHANGED = "limits-changed"  # before, after
    LIMITS_UNKNOWN = "limits-unknown"  # detail
    GUEST_BUSY = "guest-busy"  # busy (share of its CPUs)
    TOO_SHALLOW = "too-shallow"  # in_flight, needed (seconds a request)
    # failed: there is no result
    AGENT_ABSENT = "agent-absent"
    AGENT_TIMED_OUT = "agent-timed-out"  # detail
    EXEC_FORBIDDEN = "exec-forbidden"  # detail, enabled (it may, and something else in the guest forbids it)
    NOT_SUPPORTED = "not-supported"  # detail
    NO_FIO = "no-fio"
    NO_ENGINE = "no-engine"
    NO_SPACE = "no-space"  # directory, free, needed (bytes)
    NOT_WRITABLE = "not-writable"  # directory, detail
    NO_DISK = "no-disk"  # directory, device
    FILL_UNFINISHED = "fill-unfinished"  # seconds
    FIO_FAILED = "fio-failed"  # detail
    UNFINISHED = "unfinished"  # seconds, done, unfinished
    NONSENSE = "nonsense"  # detail: the guest's answers are invalid
    CONTRADICTED = "contradicted"  # said, counted: the numbers of requests by guest and host differ
    REBOOTED = "rebooted"
    NOT_FOUND = "not-found"
    UNREACHABLE = "unreachable"  # detail: libvirt
    NOT_REACHED = "not-reached"  # after: why an earlier job on the same file was the last one
    # not begun: no verdict at all
    UNHEALTHY = "unhealthy"  # detail: the checks that are raised, or why the health is unknown
    NO_SLOT = "no-slot"  # detail
    PAUSED = "paused"

    @classmethod
    def _missing_(cls, value: object) -> Why | None:
        """By the names that histories of 0.1.0 have."""
        return {
            "agent-silent": cls.AGENT_TIMED_OUT,
            "limits-not-known": cls.LIMITS_UNKNOWN,
            "not-in-force": cls.NOT_SET,
            "vanished": cls.NOT_FOUND,
        }.get(str(value))


@frozen
class Finding:
    """A verdict, why, and the figures that show it."""

    verdict: Verdict
    why: Why
    facts: Mapping[str, object] = field(default_factory=dict, hash=False)


class Trouble(PlimsollError):
    """One probe cannot go on. It ends that probe only."""

    def __init__(self, why: Why, **facts: object) -> None:
        super().__init__(str(why))
        self.why = why
        self.facts = facts
