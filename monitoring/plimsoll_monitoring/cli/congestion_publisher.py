"""Publishes the factors of congestion, a period at a time."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from datetime import datetime
from functools import partial
from math import inf

from plimsoll_agent.adapters.ceph import Ceph
from plimsoll_agent.app.congestion_file import CongestionFile
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.congestion.law import TUNING, ClassState
from plimsoll_agent.congestion.published import ClassKey, Factor, FactorFile, Gap
from plimsoll_agent.errors import ConfigError, PlimsollError, Rejected
from plimsoll_agent.model import clusters
from plimsoll_agent.model.clusters import Cluster
from plimsoll_agent.monitor import congestion_metrics, textfile
from plimsoll_monitoring.adapters.prometheus import Prometheus
from plimsoll_monitoring.promql import SeriesSelection
from plimsoll_monitoring.region import congestion
from plimsoll_monitoring.region.congestion import MeasuredClass, Pools
from plimsoll_monitoring.region.device_classes import classes_of
from plimsoll_probes.adapters import slots
from plimsoll_probes.model.finding import Trouble

LOG = logging.getLogger(__name__)
_POOLS_FOR, _USUAL_FOR = 600.0, 3600.0
"""Seconds for which pools with their classes, and what is usual, count."""


class _Lock:
    """The right to publish for a cluster; without etcd this machine has it."""

    def __init__(self, url: str, fsid: str) -> None:
        self._url, self._name = url, f"congestion:{fsid}"
        self._stack = ExitStack()
        self._slot: slots.Slot | None = None

    def hold(self) -> None:
        """Raises ``Trouble`` where another machine has it, or etcd does not answer; ``ConfigError``.

        A lock that cannot be renewed now is kept until another one is taken: once etcd answers again, it may still be
        this machine's, and would keep it from a new one until its lease ends.
        """
        if self._slot is not None:
            with suppress(Trouble):
                self._slot.ensure(TUNING.period)
                return
        ttl, node = slots.lease_for(TUNING.period), socket.gethostname()
        with ExitStack() as stack:
            lock = slots.acquire(self._url, 0, node=node, names=[self._name], ttl=ttl)
            slot = stack.enter_context(lock)
            slot.ensure(TUNING.period)
            self.release()
            self._slot, self._stack = slot, stack.pop_all()

    def release(self) -> None:
        self._stack.close()
        self._slot = None


class CongestionPublisher:
    """Raises ``ConfigError`` where it has no cluster."""

    def __init__(
        self, settings: Settings, file: CongestionFile, selection: SeriesSelection, connect: Callable[[], Prometheus]
    ) -> None:
        self._settings, self._textfile_dir = settings.congestion, settings.metrics.textfile_dir
        self._file, self._selection, self._connect = file, selection, connect
        self._ceph = Ceph(settings.ceph.id, settings.ceph.deadline)
        every = clusters.read(settings.ceph.conf_files).known
        self._clusters: Mapping[str, Cluster] = {each.fsid: each for each in every if each.fsid is not None}
        if not self._clusters:
            raise ConfigError("[ceph] conf_files: no file with the fsid of a cluster; nothing to publish")
        self._locks = {fsid: _Lock(settings.probe.coordination, fsid) for fsid in self._clusters}
        self._stands_back: dict[str, float] = {}
        self._pools: dict[str, tuple[float, Pools]] = {}
        self._usual: dict[ClassKey, tuple[float, float | None]] = {}
        self._last = file.last()
        self._faults: dict[str, str] = {}

    def period(self, now: datetime, clock: float) -> FactorFile | None:
        """Publish one period; None if it cannot, which is logged. ``clock`` never goes back.

        Raises ``ConfigError``.
        """
        pools: Pools = {}
        for fsid in self._clusters:
            if self._stands_back.get(fsid, -inf) <= clock and self._may_publish(fsid):
                its = self._pools_of(fsid, clock)
                pools = {**pools, **its}
                if not its:
                    self._stand_back(fsid, clock)
        if not pools:
            return None
        file = self._next(pools, now, clock)
        success = self._try("congestion file", lambda: self._file.write(file))
        if success:
            self._last = file
        else:
            for fsid in {cluster for cluster, _ in pools}:
                self._stand_back(fsid, clock)
        if self._textfile_dir is not None:
            directory = self._textfile_dir
            families = congestion_metrics.families(file)
            self._try("metrics", lambda: textfile.write(directory, "congestion", families))
        return file if success else None

    def _may_publish(self, fsid: str) -> bool:
        try:
            self._locks[fsid].hold()
        except Trouble as trouble:
            level = logging.INFO if isinstance(trouble, slots.Held) else logging.ERROR  # standing by is no fault
            why = f"cluster {fsid} is not published here: {trouble.facts.get('detail')}"
            self._tell(f"lock of {fsid}", why, level)
            return False
        self._tell(f"lock of {fsid}", "")
        return True

    def _stand_back(self, fsid: str, clock: float) -> None:
        """Another machine may be able to do what this one cannot."""
        self._locks[fsid].release()
        self._stands_back[fsid] = clock + slots.lease_for(TUNING.period)

    def _pools_of(self, fsid: str, clock: float) -> Pools:
        """Those known last, if Ceph does not answer now."""
        at, pools = self._pools.get(fsid, (-inf, {}))
        if clock - at >= _POOLS_FOR:
            try:
                classes = classes_of(self._ceph.maps(self._clusters[fsid]))
                pools = congestion.elements({pool: name for pool, name in classes.items() if pool[0] == fsid})
                self._pools[fsid] = clock, pools
                none = f"cluster {fsid}: no pool in what Ceph answers; does the ceph.conf with this fsid lead to it?"
                self._tell(f"pools of {fsid}", "" if pools else none)
            except PlimsollError as error:
                self._tell(f"pools of {fsid}", f"pools of cluster {fsid}: {error}")
        return pools

    # --- factors

    def _next(self, pools: Pools, now: datetime, clock: float) -> FactorFile:
        states = congestion.states(self._last, now)
        own = set(states) if congestion.is_recent(self._last, now) else set()
        keys = congestion.keys(pools)
        try:
            prometheus = self._connect()
            figures = self._measured(prometheus, pools)
            states |= self._resumed(prometheus, figures.keys() - own)
            targets = {key: self._target(prometheus, key, its, pools, clock) for key, its in figures.items()}
            if prometheus.warnings:  # the latency of a part is not that of a class
                raise Rejected("; ".join(prometheus.warnings))
        except PlimsollError as error:
            self._tell("Prometheus", str(error))
            figures, targets = {}, {}
            # Where another machine left the others is unknown. With none, nodes return step by step; 1 is at once.
            keys = [key for key in keys if key in own]
        else:
            self._tell("Prometheus", "")
        factors: list[Factor] = []
        for key in keys:
            its, target = figures.get(key), targets.get(key)
            why = congestion.gap(its, target, partial(self._stopped, key[0]))
            states[key] = congestion.next_state(states.get(key, ClassState()), its, target, why)
            factors.append(congestion.factor(key, states[key], its, target, why))
        states = {factor.key: states[factor.key] for factor in factors}
        return congestion.next_file(self._last, factors, states, pools, now)

    def _measured(self, prometheus: Prometheus, pools: Pools) -> dict[ClassKey, MeasuredClass]:
        queries = congestion.questions(self._selection, self._settings.osd_label)
        answers = {name: prometheus.query(query) for name, query in queries.items()}
        return congestion.measured(answers, pools, self._settings.osd_label, self._selection.region)

    def _resumed(self, prometheus: Prometheus, keys: Iterable[ClassKey]) -> dict[ClassKey, ClassState]:
        """Where another machine left factors that this one has not published itself."""
        own = set(keys)
        if not own:
            return {}
        answers = {name: prometheus.query(query) for name, query in congestion.LAST.items()}
        return {key: state for key, state in congestion.last_states(answers).items() if key in own}

    def _target(
        self, prometheus: Prometheus, key: ClassKey, now: MeasuredClass, pools: Pools, clock: float
    ) -> float | None:
        objective = congestion.objective(now, dict(self._settings.targets))
        if objective is not None:
            return objective
        at, usual = self._usual.get(key, (-inf, None))
        if clock - at >= _USUAL_FOR:
            own = congestion.own_pools(key, pools)
            queries = congestion.usual_questions(self._selection, key[0], own)
            usual = congestion.usual({name: prometheus.query(query) for name, query in queries.items()})
            if not prometheus.warnings:
                self._usual[key] = clock, usual
        return None if usual is None else usual * self._settings.multiple

    def _stopped(self, fsid: str) -> Gap | None:
        try:
            health = self._ceph.health(self._clusters[fsid])
        except PlimsollError as error:
            self._tell(f"health of {fsid}", f"health of cluster {fsid}: {error}")
            return Gap.HEALTH_UNKNOWN
        self._tell(f"health of {fsid}", "")
        return Gap.UNHEALTHY if congestion.STOPPED & {*health.raised} else None

    # --- what it tells

    def _try(self, what: str, write: Callable[[], object]) -> bool:
        try:
            write()
        except PlimsollError as error:
            self._tell(what, str(error))
            return False
        self._tell(what, "")
        return True

    def _tell(self, what: str, fault: str, level: int = logging.ERROR) -> None:
        """Once, when it begins, and when it ends."""
        before = self._faults.get(what, "")
        if fault and fault != before:
            LOG.log(level, "%s", fault)
        elif before and not fault:
            LOG.warning("%s: well again", what)
        self._faults[what] = fault
