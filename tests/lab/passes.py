"""A pass within the test's own process, and a hypervisor on which the world changes in the middle of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from lab.cloud import Guest
from lab.node import Node
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.model.clusters import Cluster, Clusters
from plimsoll_agent.model.hypervisor import Sighting
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.policy.decide import Situation
from plimsoll_agent.policy.sources import SOURCES
from plimsoll_agent.reconcile.brake import Brake
from plimsoll_agent.reconcile.caution import Caution
from plimsoll_agent.reconcile.health_gate import ClusterHealth, Gate
from plimsoll_agent.reconcile.limit_writer import Bounds
from plimsoll_agent.reconcile.outcome import Mode, PassReport, Scope
from plimsoll_agent.reconcile.run import by_sources, run_pass
from plimsoll_agent.rules.model import Rules
from plimsoll_agent.store.node_store import NodeStore

LIMIT = Limits(total_iops_sec=250)


def pass_over(
    guest: Guest, node: Node, hypervisor: Libvirt, *, now: datetime | None = None, rules: Rules | None = None
) -> PassReport:
    now = now or datetime.now(UTC)
    node_store = NodeStore(node.state, "test")
    memory = node_store.recall(now, read_only=False)
    return run_pass(
        Scope(frozenset({guest.uuid})),
        Situation(now=now, rules=rules or Rules(default=LIMIT), memory=memory.disks, holds=memory.holds),
        Mode.ENFORCE,
        hypervisor=hypervisor,
        decider=by_sources(SOURCES),
        node_store=node_store,
        notes=node_store.notes,
        bounds=Bounds(),
        caution=Caution(brake=Brake(), gate=Gate(Clusters(), _never_asked), paused=lambda: None, rounds=3),
        tell=lambda _: None,
    )


def _never_asked(cluster: Cluster) -> ClusterHealth:
    raise AssertionError("nothing is raised here")


class ChangesUnderTheHand(Libvirt):
    """Does something to the world between the first look and the one just before the write."""

    def __init__(self, uri: str, between: Callable[[], object]) -> None:
        super().__init__(uri, deadline=5, at_once=4)
        self._between = between
        self._looks = 0

    def look(self, uuid: str) -> Sighting:
        self._looks += 1
        if self._looks == 1:
            self._between()
        return super().look(uuid)
