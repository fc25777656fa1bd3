"""How much a set of limits lets a guest do in a given time: what a measurement is held against."""

from __future__ import annotations

from typing import Literal

from plimsoll_agent.limits import Limits, Unit

Direction = Literal["read", "write"]


def allowed(limits: Limits, unit: Unit, seconds: float, *directions: Direction) -> float:
    """Operations or bytes that the limits allow in the first ``seconds`` of a busy disk; infinity without a limit.

    With both directions a limit on each adds up, and a total bounds the sum. Requests above
    ``size_iops_sec`` count as several, so fewer of them are allowed: that is the caller's to know.
    """
    total = _bucket(limits, f"total_{unit}_sec", seconds)
    return min(total, sum(_bucket(limits, f"{direction}_{unit}_sec", seconds) for direction in directions))


def _bucket(limits: Limits, base: str, seconds: float) -> float:
    """base × time + burst × length, at most what the burst's own height lets through.

    QEMU, util/throttle.c, throttle_compute_wait: a bucket of ``max × length`` that leaks at the base's rate;
    without a burst it holds a tenth of a second; a burst of more than 1 s is itself held to ``max``, with a
    tenth of a second's slack.
    """
    rate, peak, length = (getattr(limits, base + ending) for ending in ("", "_max", "_max_length"))
    if not rate:
        return float("inf")
    sustained = rate * seconds + (peak * length if peak else rate / 10)
    return float(min(sustained, peak * seconds + peak / 10)) if length > 1 else float(sustained)
