"""How much a set of limits lets a guest do in a given time: what a measurement is held against."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll_agent.limits import PARAMETERS, Limits, Parameter
from plimsoll_probes.job import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Requests and bytes by direction: what was done in some time, or one request of a job on average."""

    read_operations: float = 0
    write_operations: float = 0
    read_bytes: float = 0
    write_bytes: float = 0

    @classmethod
    def of(cls, job: Job) -> Load:
        """One request of the job: of a mixed one, the parts of it that are reads and writes."""
        reads, writes = job.shares.get("read", 0), job.shares.get("write", 0)
        return cls(
            read_operations=reads,
            write_operations=writes,
            read_bytes=reads * job.block_size,
            write_bytes=writes * job.block_size,
        )


@dataclass(frozen=True, slots=True)
class Bound:
    """What one limit lets pass in a time, in its own unit: bytes, or requests as QEMU counts them.

    ``low`` is what it lets pass in any case, base × time, also when a burst was used up before. ``high`` is the
    most, with a bucket that was empty: base × time + burst × length, and no more than the burst's own height.
    """

    parameter: Parameter
    low: float
    high: float
    bursts: bool
    size_iops_sec: int

    def taken(self, load: Load) -> float:
        """How much of this limit the load takes up.

        QEMU, util/throttle.c, throttle_account: a request above ``size_iops_sec`` counts as its size divided by
        that. So requests of unknown sizes count at least as their number, and at least as all their bytes do.
        """
        scope, unit = self.parameter.scope, self.parameter.unit
        directions = ("read", "write") if scope == "total" else (scope,)
        operations, size = (
            sum(getattr(load, f"{direction}_{what}") for direction in directions) for what in ("operations", "bytes")
        )
        if unit == "bytes":
            return float(size)
        return float(max(operations, size / self.size_iops_sec if self.size_iops_sec else 0))


def bounds(limits: Limits, seconds: float, load: Load) -> tuple[Bound, ...]:
    """What each of the limits lets pass in so many seconds, of those that such a load takes from."""
    every = (_bound(limits, parameter, seconds) for parameter in PARAMETERS if parameter.role == "base")
    return tuple(bound for bound in every if bound is not None and bound.taken(load) > 0)


def _bound(limits: Limits, parameter: Parameter, seconds: float) -> Bound | None:
    rate, peak = (getattr(limits, parameter.name + ending) for ending in ("", "_max"))
    if not rate:
        return None
    most = limits.most(parameter.name, seconds)
    return Bound(parameter, float(rate * seconds), most, peak > 0, limits.size_iops_sec)


@dataclass(frozen=True, slots=True)
class Reach:
    """How many requests of a job the limits allow in a time: ``low`` in any case, ``high`` with a full burst."""

    low: float
    high: float


def reach(limits: Limits, job: Job, seconds: float) -> Reach | None:
    """In both directions together; None where no limit holds the job back.

    Reads and writes of a job come in fixed parts, so a mixed one runs at the pace of its slower half: with T, R and W
    allowed in all, to reads and to writes, min(T, R ÷ share of reads, W ÷ share of writes), for requests and bytes.
    """
    request = Load.of(job)
    binding = bounds(limits, seconds, request)
    if not binding:
        return None
    return Reach(
        min(bound.low / bound.taken(request) for bound in binding),
        min(bound.high / bound.taken(request) for bound in binding),
    )
