"""What became of a probe: the verdict and why, as codes. ``words`` makes sentences of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from plimsoll_agent.errors import PlimsollError


class Verdict(StrEnum):
    """Whether the promise is kept."""

    KEPT = "kept"
    SHORT = "short"
    OVER_LIMIT = "over-limit"
    SLOW = "slow"
    NO_LIMIT = "no-limit"
    DISCARDED = "discarded"
    FAILED = "failed"


GOOD = (Verdict.KEPT, Verdict.NO_LIMIT)
"""Nothing to do."""


class Why(StrEnum):
    """The reason of a verdict. The comment names the facts that come with it."""

    # kept
    WITHIN = "within"  # parameter, allowed, done
    # no-limit
    UNLIMITED = "unlimited"
    # short
    CLUSTER_SHORT = "cluster-short"  # parameter, allowed, done
    # over-limit
    NOT_IN_FORCE = "not-in-force"  # parameter, allowed, done, in_force
    TOO_MUCH = "too-much"  # parameter, allowed, done
    # slow
    OBJECTIVE_MISSED = "objective-missed"  # direction, quantile, objective, measured, wait (seconds)
    # discarded: there may be a result, and it proves nothing
    FROZEN = "frozen"
    MOVED = "moved"
    LIMITS_CHANGED = "limits-changed"  # before, after
    LIMITS_NOT_KNOWN = "limits-not-known"  # detail
    GUEST_BUSY = "guest-busy"  # busy (share of its CPUs)
    TOO_SHALLOW = "too-shallow"  # in_flight, needed (seconds a request)
    # failed: there is no result
    AGENT_ABSENT = "agent-absent"
    AGENT_SILENT = "agent-silent"  # detail
    EXEC_FORBIDDEN = "exec-forbidden"  # detail
    NOT_SUPPORTED = "not-supported"  # detail
    NO_FIO = "no-fio"
    NO_ENGINE = "no-engine"  # engine, has
    NO_SPACE = "no-space"  # directory, free, needed (bytes)
    NOT_WRITABLE = "not-writable"  # directory, detail
    NO_DISK = "no-disk"  # directory, device
    FILL_UNFINISHED = "fill-unfinished"  # seconds
    FIO_FAILED = "fio-failed"  # detail
    UNFINISHED = "unfinished"  # seconds, done, unfinished
    NONSENSE = "nonsense"  # detail: the guest's answers cannot be believed
    CONTRADICTED = "contradicted"  # said, counted: the host saw other requests than the guest tells of
    REBOOTED = "rebooted"
    VANISHED = "vanished"
    UNREACHABLE = "unreachable"  # detail: libvirt
    NOT_REACHED = "not-reached"  # after: why an earlier job on the same file was the last one
    # not begun: no verdict at all
    UNHEALTHY = "unhealthy"  # detail: the checks that are raised, or why the cluster is not known to be well
    NO_SLOT = "no-slot"  # detail
    PAUSED = "paused"


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict, why, and the figures that show it."""

    verdict: Verdict
    why: Why
    facts: Mapping[str, object] = field(default_factory=dict, hash=False)


class Trouble(PlimsollError):
    """A probe cannot go on, through nobody's fault who called: it costs that probe and nothing else."""

    def __init__(self, why: Why, **facts: object) -> None:
        super().__init__(str(why))
        self.why = why
        self.facts = facts
