"""What is measured of the guest's own disks, by node and step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from plimsoll_agent.model.limits import PARAMETERS
from plimsoll_agent.monitor import metrics
from plimsoll_agent.reconcile.outcome import Kind
from plimsoll_insight.explain.evidence import LimitChange, PassInterval
from plimsoll_insight.explain.guests import Stay
from plimsoll_insight.explain.series import (
    DISK,
    Over,
    by_disk,
    by_node,
    finite,
    lines_by_disk,
    value_of,
    within,
)
from plimsoll_monitoring.promql import SPARE, USUAL_INTERVAL, SeriesSelection, any_of, each
from plimsoll_monitoring.region.answers import NodeKey, key_of, label


class OwnReadings:
    """What is measured of the guest's own disks."""

    def __init__(self, over: Over, own: str, stays: Sequence[Stay], step: int) -> None:
        nodes = SeriesSelection(region=stays[0].node[0] or None).matchers(
            any_of("instance", sorted({stay.node[1] for stay in stays}))
        )
        self._observed = by_node(over(each(metrics.PASS_OBSERVED_TIMESTAMP_SECONDS, nodes)))
        self._apart = by_node(over(each(metrics.PASS_INTERVAL_SECONDS, nodes)))
        by = f"region, instance, {', '.join(DISK)}"
        rate = {unit: each(metrics.DISK_AVERAGE[unit], own, *DISK, "direction") for unit in metrics.UNITS}
        self._rates = {unit: by_disk(over(f"sum by ({by}) ({rate[unit]})")) for unit in metrics.UNITS}
        self._latency = by_disk(over(each(metrics.DISK_AVERAGE_LATENCY_SECONDS, own, *DISK)))
        self._shares = lines_by_disk(over(each(metrics.DISK_AVERAGE_LIMIT_RATIO, own, *DISK, "parameter")))
        self._limits = lines_by_disk(
            line
            for metric in metrics.DISK_LIMIT_ACTUAL.values()
            for line in over(each(metric, own, *DISK, "parameter"))
        )
        self._desired = lines_by_disk(
            line
            for unit in metrics.UNITS
            for line in over(each(metrics.DISK_LIMIT_DESIRED[f"{unit}_per_second"], own, *DISK, "parameter"))
        )
        self._unlimited = by_disk(over(each(metrics.DISK_UNLIMITED, own, *DISK)))
        self._states = lines_by_disk(over(each(metrics.DISK_STATE, own, *DISK, "state", "reason")))
        self._hung = by_node(over(f"max by (region, instance) ({within(metrics.GUEST_HUNG + own, step)})"))
        self._paused = by_node(over(each(metrics.GUEST_PAUSED, own, "uuid")))
        self._reverted = by_disk(over(each(metrics.DISK_EXTERNAL_CHANGES_REVERTED_TOTAL, own, *DISK)))
        self._held = over(each(metrics.DISK_HOLD_END_TIMESTAMP_SECONDS, own, *DISK))

    def observed(self, node: NodeKey, at: float) -> float | None:
        """When the last pass before that time read; None where the next one is overdue: its metrics stay for ever."""
        read_at = self._observed.get(node, {}).get(at)
        apart = finite(self._apart.get(node, {}).get(at)) or USUAL_INTERVAL
        return None if read_at is None or at - read_at > 2 * apart + SPARE else read_at

    def at(self, target: str, node: NodeKey | None, at: float) -> PassInterval:
        read_at = None if node is None else self.observed(node, at)
        if node is None or read_at is None:
            return PassInterval(at=at)
        key = node, target
        shares = {
            label(line, "parameter"): line.values[at]
            for line in self._shares.get(key, ())
            if finite(line.values.get(at)) is not None
        }
        limit = max(shares, key=lambda name: shares[name], default=None)
        limits = self._set(key, at) or {}
        amount = None if limit is None else limits.get(limit)
        return PassInterval(
            at=at,
            node=node[1],
            operations=value_of(self._rates["operations"], key, at),
            bytes=value_of(self._rates["bytes"], key, at),
            share=None if limit is None else shares[limit],
            limit=limit,
            allowed=amount,
            desired=self._reduced_from(key, limit, amount, at),
            burst=f"{limit}_max" in limits,
            latency=value_of(self._latency, key, at),
            observed=read_at,
            unanswered=at in self._hung.get(node, ()),
            paused=at in self._paused.get(node, ()),
        )

    def _set(self, key: tuple[NodeKey, str], at: float) -> dict[str, int] | None:
        """Its actual limits then; None is unknown."""
        limits = {
            label(line, "parameter"): int(line.values[at]) for line in self._limits.get(key, ()) if at in line.values
        }
        if not limits and value_of(self._unlimited, key, at) is None:
            return None
        return {one.name: limits[one.name] for one in PARAMETERS if one.name in limits}

    def _reduced_from(
        self, key: tuple[NodeKey, str], limit: str | None, amount: int | None, at: float
    ) -> float | None:
        """The desired value of this limit, where a lower one is in force and no change is outstanding."""
        is_settled = any(
            at in line.values and label(line, "state") in (Kind.IN_SYNC, Kind.CHANGED)
            for line in self._states.get(key, ())
        )
        lines = (line for line in self._desired.get(key, ()) if label(line, "parameter") == limit)
        desired = next((value for line in lines if (value := finite(line.values.get(at))) is not None), None)
        is_less = amount is not None and desired is not None and amount < desired
        return desired if is_settled and is_less else None

    def limits(self, target: str, nodes: Mapping[float, NodeKey], steps: Sequence[float]) -> dict[str, int] | None:
        every = (self._set((nodes[at], target), at) for at in reversed(steps) if at in nodes)
        return next((limits for limits in every if limits is not None), None)

    def changes(self, target: str, nodes: Mapping[float, NodeKey], steps: Sequence[float]) -> Iterator[LimitChange]:
        before: dict[str, int] | None = None
        for at in steps:
            now = self._set((nodes[at], target), at) if at in nodes else None
            if now is None:
                continue
            if before is not None and now != before:
                yield LimitChange(at=at, before=before, after=now, reason=self._reason((nodes[at], target), at))
            before = now

    def _reason(self, key: tuple[NodeKey, str], at: float) -> str | None:
        return next((label(line, "reason") for line in self._states.get(key, ()) if at in line.values), None)

    def reverted(self, target: str, nodes: Mapping[float, NodeKey], steps: Sequence[float]) -> Iterator[float]:
        before: tuple[NodeKey, float] | None = None
        for at in steps:
            node = nodes.get(at)
            count = None if node is None else value_of(self._reverted, (node, target), at)
            if node is None or count is None:
                continue
            if before is not None and before[0] == node and count > before[1]:
                yield at
            before = node, count

    def held(
        self, target: str, nodes: Mapping[float, NodeKey], steps: Sequence[float]
    ) -> Iterator[tuple[float, float]]:
        lines = [line for line in self._held if label(line, "target_device") == target]

        def holds(at: float) -> bool:
            return any(line.values.get(at, 0.0) > at and nodes.get(at) == key_of(line) for line in lines)

        for is_held, run in groupby(steps, key=holds):
            times = list(run)
            if is_held:
                yield times[0], times[-1]
