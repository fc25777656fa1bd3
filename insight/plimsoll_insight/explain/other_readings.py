"""What is measured around a guest's disks: other disks, the nodes, the pools, the clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from plimsoll_agent.monitor import metrics
from plimsoll_agent.util.frozen import replace
from plimsoll_insight.explain.evidence import Neighbour, PassInterval, SharedPlace, idle
from plimsoll_insight.explain.guests import FoundGuest, Stay
from plimsoll_insight.explain.series import DISK, PLACE, Over, by_node, finite, only, whole_number, within
from plimsoll_insight.explain.slowness import LEAST_OF_TYPE, usual_of
from plimsoll_monitoring.promql import OBSERVED_LATE, any_of, braces, each, equal, fresh, quote, selector
from plimsoll_monitoring.region.answers import Ask, NodeKey, TimeSeries, key_of, label, may_be_of

SLOW_CHECKS = ("PG_AVAILABILITY", "SLOW_OPS", "OSD_FULL", "POOL_FULL", "PG_*_FULL", "OSD_DOWN", "OSD_*_DOWN")
"""Ceph's checks that tell of stopped or slow requests: those of the health gate, and any OSD that is down."""
GATE = "health gate of plimsoll"
_USUAL = "7d"
_MOST_OF_WHOLE = 1.5


class OtherReadings:
    """What is measured of other disks, of the nodes and of the clusters."""

    def __init__(
        self, ask: Ask, over: Over, guest: FoundGuest, stays: Sequence[Stay], region: str, step: int
    ) -> None:
        self._ask, self._over, self._guest, self._region, self._step = ask, over, guest, region, step
        nodes = any_of("instance", sorted({stay.node[1] for stay in stays}))
        self._others = braces(region, nodes, f"uuid!={quote(guest.uuid)}")
        every = braces(region, nodes)
        latency = each(metrics.DISK_AVERAGE_LATENCY_SECONDS, self._others, *DISK)
        by = "region, instance"
        self._of_node = by_node(over(f"quantile by ({by}) (0.5, {latency})"))
        self._of_node_disks = by_node(over(f"count by ({by}) ({latency})"))
        self._on_node: dict[str, list[TimeSeries]] = {}
        self._node_sum: dict[str, dict[NodeKey, Mapping[float, float]]] = {}
        for unit in metrics.UNITS:
            name, labels = metrics.DISK_AVERAGE[unit], (*DISK, "direction")
            busiest = f"topk by ({by}) (1, sum by ({by}, uuid) ({each(name, self._others, *labels)}))"
            self._on_node[unit] = list(over(busiest))
            self._node_sum[unit] = by_node(over(f"sum by ({by}) ({each(name, every, *labels)})"))
        self._types: dict[str, tuple[Mapping[float, float], Mapping[float, float], float | None]] = {}
        self._pools: dict[tuple[str, str], Mapping[str, tuple[list[TimeSeries], Mapping[float, float]]]] = {}
        self._health: dict[str, Callable[[float], tuple[str, ...] | None]] = {}

    def usual(self, volume_type: str) -> float | None:
        return self._of_type(volume_type)[2]

    def _of_type(self, volume_type: str) -> tuple[Mapping[float, float], Mapping[float, float], float | None]:
        if volume_type not in self._types:
            matchers = braces(self._region, equal("volume_type", volume_type))
            usual = self._ask(f"max(quantile_over_time(0.25, {metrics.LATENCY_MEDIAN}{matchers}[{_USUAL}]))")
            counts = only(self._over(f"max({metrics.LATENCY_COUNT}{matchers})"))
            value = next((series.known for series in usual), None)
            self._types[volume_type] = (
                only(self._over(f"max({metrics.LATENCY_MEDIAN}{matchers})")),
                counts,
                usual_of(value, list(counts.values()), LEAST_OF_TYPE),
            )
        return self._types[volume_type]

    def of(self, facts: TimeSeries) -> Callable[[PassInterval], PassInterval]:
        """Adds what was around a disk with these labels."""
        medians, counts, _ = self._of_type(label(facts, "volume_type"))
        place = label(facts, "cluster"), label(facts, "pool")
        pools, checks = self._pool(*place), self._checks(place[0])
        region = key_of(facts)[0]

        def add(one: PassInterval) -> PassInterval:
            disks = whole_number(counts.get(one.at))
            # Of a disk that is alone it would be its own.
            of_type = None if disks == 1 else finite(medians.get(one.at))
            interval = replace(one, of_type=of_type, of_type_disks=disks, raised=checks(one.at))
            if one.node is None:
                return interval
            node = region, one.node
            return replace(
                interval,
                of_node=finite(self._of_node.get(node, {}).get(one.at)),
                of_node_disks=whole_number(self._of_node_disks.get(node, {}).get(one.at)),
                neighbours=tuple(self._neighbours(node, pools, one.at)),
            )

        return add

    def _neighbours(
        self, node: NodeKey, pools: Mapping[str, tuple[list[TimeSeries], Mapping[float, float]]], at: float
    ) -> Iterator[Neighbour]:
        for unit in metrics.UNITS:
            on_node = [line for line in self._on_node[unit] if key_of(line) == node]
            lines_of = (
                (SharedPlace.NODE, on_node, self._node_sum[unit].get(node, {})),
                (SharedPlace.POOL, *pools[unit]),
            )
            for place, lines, sums in lines_of:
                whole = sums.get(at)
                rates = [
                    (label(line, "uuid"), rate) for line in lines if (rate := finite(line.values.get(at))) is not None
                ]
                busy = [(uuid, rate) for uuid, rate in rates if rate and uuid != self._guest.uuid]
                if whole:
                    # Where one did much more than all the sums do not fit together; a little, as rules lag behind.
                    yield from (
                        Neighbour(uuid=uuid, place=place, unit=unit, rate=rate, share=min(1.0, rate / whole))
                        for uuid, rate in busy
                        if rate <= whole * _MOST_OF_WHOLE
                    )
                # A node's lines are of other guests alone, a pool's of the three busiest.
                if whole is not None and not busy and (rates or place is SharedPlace.NODE):
                    yield idle(place, unit)

    def _pool(self, cluster: str, pool: str) -> Mapping[str, tuple[list[TimeSeries], Mapping[float, float]]]:
        if (cluster, pool) not in self._pools:
            matchers = braces(self._region, equal("cluster", cluster), equal("pool", pool))
            observation = each(metrics.PASS_OBSERVED_TIMESTAMP_SECONDS, braces(self._region))
            by_unit = {}
            for unit in metrics.UNITS:
                of_nodes = each(metrics.POOL_AVERAGE[unit], matchers, *PLACE, "volume_type")
                by_unit[unit] = (
                    list(self._over(f"max by (uuid) ({metrics.BUSIEST_GUESTS[unit]}{matchers})")),
                    # Of the nodes that the busiest guests are of.
                    only(
                        self._over(
                            f"sum({of_nodes} and on (region, instance) time() - {observation} < {OBSERVED_LATE})"
                        )
                    ),
                )
            self._pools[cluster, pool] = by_unit
        return self._pools[cluster, pool]

    def _is_of(self, line: TimeSeries, cluster: str) -> bool:
        """Whether Ceph's mgr tells it of this cluster."""
        if label(line, "cluster"):
            return label(line, "cluster") == cluster
        return may_be_of(label(line, "region"), [self._guest.region], [cluster])

    def _checks(self, cluster: str) -> Callable[[float], tuple[str, ...] | None]:
        """By time the checks that were raised; by Ceph's mgr, of which a Prometheus may have several clusters."""
        if cluster not in self._health:
            active = f"({within('ceph_health_detail', self._step)}) == 1"
            every = [
                line for line in self._over(f"max by (name, region, cluster) {active}") if self._is_of(line, cluster)
            ]
            checks = [line for line in every if _tells(label(line, "name"))]
            statuses = [
                line
                for line in self._over("max by (region, cluster) (ceph_health_status)")
                if self._is_of(line, cluster)
            ]
            gate = selector(metrics.HEALTH_GATE_SHUT, self._region, equal("cluster", cluster))
            present = f"({fresh(braces(self._region))}) == 1"
            gates = self._over(f"max({gate} and on (region, instance) {present}) == 1") if cluster else []

            def checks_at(at: float) -> tuple[str, ...] | None:
                labels = [label(line, "name") for line in checks if at in line.values]
                if labels or all_known(at):
                    return tuple(labels)
                # Of a node that cannot ask Ceph the gate is shut too: what Ceph itself tells is more.
                return (GATE,) if any(at in line.values for line in gates) else None

            def all_known(at: float) -> bool:
                """Where Ceph is not HEALTH_OK some check is raised: the mgr of Octopus and before tells of none."""
                its = [line.values[at] for line in statuses if at in line.values]
                return bool(its) and (not any(its) or any(at in line.values for line in every))

            self._health[cluster] = checks_at
        return self._health[cluster]


def _tells(check: str) -> bool:
    return any(fnmatchcase(check, pattern) for pattern in SLOW_CHECKS)
