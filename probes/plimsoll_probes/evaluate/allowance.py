"""How much a set of limits allows in a given time, for comparison with what was measured."""

from __future__ import annotations

from plimsoll_agent.model.limits import PARAMETERS, Limits, Parameter
from plimsoll_agent.util.frozen import frozen
from plimsoll_probes.model.job import Job


@frozen(kw_only=True)
class RequestLoad:
    """Requests and bytes by direction: of a run, or of the average request of a job."""

    read_operations: float = 0
    write_operations: float = 0
    read_bytes: float = 0
    write_bytes: float = 0

    @classmethod
    def of(cls, job: Job) -> RequestLoad:
        """The average request of the job; in a mixed job it is part read, part write."""
        reads, writes = job.shares.get("read", 0), job.shares.get("write", 0)
        return cls(
            read_operations=reads,
            write_operations=writes,
            read_bytes=reads * job.block_size,
            write_bytes=writes * job.block_size,
        )


@frozen(kw_only=True)
class Bound:
    """What one limit allows in a time, in its unit: bytes, or requests as QEMU counts them.

    ``low`` is without any burst: base × time. ``high`` is with a full burst: base × time + burst × length, and no
    more than the burst's rate allows.
    """

    parameter: Parameter
    low: float
    high: float
    bursts: bool
    size_iops_sec: int

    def taken(self, load: RequestLoad) -> float:
        """How much of this limit the load uses.

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


def bounds(limits: Limits, seconds: float, load: RequestLoad) -> tuple[Bound, ...]:
    """What each limit that the load uses allows in so many seconds."""
    every = (_bound(limits, parameter, seconds) for parameter in PARAMETERS if parameter.role == "base")
    return tuple(bound for bound in every if bound is not None and bound.taken(load) > 0)


def _bound(limits: Limits, parameter: Parameter, seconds: float) -> Bound | None:
    rate, peak = (getattr(limits, parameter.name + ending) for ending in ("", "_max"))
    if not rate:
        return None
    most = limits.most(parameter.name, seconds)
    return Bound(
        parameter=parameter, low=float(rate * seconds), high=most, bursts=peak > 0, size_iops_sec=limits.size_iops_sec
    )


@frozen
class Reach:
    """How many requests of a job the limits allow in a time: ``low`` without a burst, ``high`` with a full one."""

    low: float
    high: float


def reach(limits: Limits, job: Job, seconds: float) -> Reach | None:
    """Of both directions together; None where nothing limits the job.

    Reads and writes of a mixed job come in fixed shares, so the slower direction sets its rate. With T requests
    allowed in total, R reads and W writes, it is min(T, R ÷ share of reads, W ÷ share of writes); likewise for bytes.
    """
    request = RequestLoad.of(job)
    binding = bounds(limits, seconds, request)
    if not binding:
        return None
    return Reach(
        min(bound.low / bound.taken(request) for bound in binding),
        min(bound.high / bound.taken(request) for bound in binding),
    )
