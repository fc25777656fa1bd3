"""The cluster and the hosts of its OSDs, as a return sees them and acts on them."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence

from plimsoll_agent.adapters import program
from plimsoll_agent.errors import PlimsollError, Rejected
from plimsoll_agent.util.concurrency import side_by_side
from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.adapters.cluster_writer import ClusterWriter
from plimsoll_insight.ordered_return import hosts
from plimsoll_insight.ordered_return.cluster import BLOCKING_FLAGS
from plimsoll_insight.ordered_return.control import HostView, ReturnObservation
from plimsoll_insight.ordered_return.hosts import NotStarted, Ways, by_host
from plimsoll_insight.ordered_return.journal import ChangeTarget, TargetKind

_AT_ONCE = 8
"""Hosts that are asked at once."""


@frozen(kw_only=True)
class OsdHosts:
    """The hosts of OSDs, each through the words that run something there, such as ``ssh``."""

    ways: Ways
    host_of: Mapping[int, str]
    deadline: float
    start_deadline: float = 120.0

    def osds_of(self, host: str) -> list[int]:
        return sorted(osd for osd, name in self.host_of.items() if name == host)

    def views(self, names: Sequence[str]) -> dict[str, HostView]:
        return dict(side_by_side(self.view, sorted(names), _AT_ONCE))

    def view(self, host: str) -> HostView:
        try:
            memory = hosts.memory(self._run(host, hosts.MEMORY))
            return HostView(memory, hosts.resident(self._run(host, hosts.PROCESSES, statuses=(0, 1))))
        except PlimsollError as error:
            return HostView(None, {}, str(error))

    def conditions(self, osds: Sequence[int]) -> dict[int, str]:
        """Of their units, without those that are unknown."""
        if not self.ways.is_systemd:
            return {}
        each: dict[int, str] = {}
        for host, on in by_host(osds, self.host_of).items():
            try:
                states = hosts.unit_states(self._run(host, self.ways.states(on)))
            except PlimsollError:
                continue
            each |= {osd: states[unit] for osd in on if (unit := self.ways.unit_of(osd)) in states}
        return each

    def start(self, osds: Sequence[int]) -> None:
        """On each host. Raises ``NotStarted`` for those of hosts that have not started theirs."""
        errors: dict[str, PlimsollError] = {}
        hosts_of = by_host(osds, self.host_of)
        for host, on in hosts_of.items():
            try:
                if self.ways.is_systemd:  # one that failed too often is not started again else
                    self._run(host, ("systemctl", "reset-failed", *self.ways.units(on)), statuses=range(256))
                self._run(host, (*self.ways.start, *self.ways.units(on)), deadline=self.start_deadline)
            except PlimsollError as error:
                errors[host] = error
        if errors:
            raise NotStarted(errors, [osd for host in errors for osd in hosts_of[host]])

    def restart(self, osd: int) -> None:
        """Raises ``PlimsollError``."""
        self._run(self.host_of[osd], (*self.ways.restart, self.ways.unit_of(osd)), deadline=self.start_deadline)

    def forbid_restarts(self, host: str, forbidden: bool) -> None:
        """By systemd, of OSDs that end by themselves, until that is allowed or the host boots. Raises
        ``PlimsollError``.
        """
        osds = self.osds_of(host)
        if forbidden:
            self._run(host, ("mkdir", "-p", *self.ways.directories(osds)))
            self._run(host, ("tee", *self.ways.drop_ins(osds)), content=hosts.DROP_IN.encode())
        else:
            self._run(host, ("rm", "-f", *self.ways.drop_ins(osds)))
        self._run(host, ("systemctl", "daemon-reload"))

    def _run(
        self,
        host: str,
        words: Sequence[str],
        *,
        statuses: Sequence[int] = (0,),
        content: bytes = b"",
        deadline: float | None = None,
    ) -> str:
        argv = [*self.ways.prefix(host), *words]
        environment = os.environ | {"LC_ALL": "C"}
        run = program.run(host, argv, deadline or self.deadline, environment=environment, content=content)
        if run.status not in statuses:
            raise Rejected(f"{host}: {words[0]} {words[1]} ended with {run.status}: {run.last_complaint}")
        return run.out.decode("utf-8", "replace")


class ReturnWorld:
    """The ``ClusterAndHosts`` of ``ordered_return.runner``."""

    def __init__(
        self, cluster: ClusterWriter, osd_hosts: OsdHosts, watch: Sequence[str], exceptions: frozenset[str]
    ) -> None:
        """``watch``: the hosts whose memory counts."""
        self._cluster, self._hosts, self._watch, self._exceptions = cluster, osd_hosts, watch, exceptions

    def observe(self) -> ReturnObservation:
        views = self._hosts.views(self._watch)
        try:
            counts, health = self._cluster.health()
            osd_map, groups = self._cluster.osd_map(), self._cluster.groups()
        except PlimsollError as error:
            return ReturnObservation(now=time.monotonic(), trouble=str(error), hosts=views)
        return ReturnObservation(
            now=time.monotonic(),
            counts=counts,
            up=osd_map.up,
            blocking_flags=tuple(sorted(osd_map.flags & BLOCKING_FLAGS)),
            unexpected=tuple(health.unexpected(self._exceptions)),
            groups=groups,
            hosts=views,
        )

    def conditions(self, osds: Sequence[int]) -> Mapping[int, str]:
        return self._hosts.conditions(osds)

    def start(self, osds: Sequence[int]) -> None:
        self._hosts.start(osds)

    def restart(self, osd: int) -> None:
        self._hosts.restart(osd)

    def may_stop(self, osd: int) -> bool:
        return self._cluster.may_stop(osd)

    def value(self, target: ChangeTarget) -> str | None:
        match target.kind:
            case TargetKind.FLAG:
                return "set" if target.name in self._cluster.osd_map().flags else None
            case TargetKind.SETTING:
                return self._cluster.osd_section().get(target.name)
            case TargetKind.RESTARTS:
                return None

    def change(self, target: ChangeTarget, value: str | None) -> None:
        match target.kind:
            case TargetKind.FLAG:
                self._cluster.set_flag(target.name, value is not None)
            case TargetKind.SETTING:
                self._cluster.set_for_osds(target.name, value)
            case TargetKind.RESTARTS:
                self._hosts.forbid_restarts(target.name, value is not None)
