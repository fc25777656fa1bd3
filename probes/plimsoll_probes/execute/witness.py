"""Observes a run from outside the guest: limits, QEMU's counters, the cluster's health."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from plimsoll_agent.errors import NotFound, PlimsollError
from plimsoll_agent.model.clusters import Cluster
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.hypervisor import BlockStats, Hypervisor, Movement
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.policy.decide import Situation
from plimsoll_agent.policy.sources.cinder import typed
from plimsoll_agent.reconcile.health_gate import Gate
from plimsoll_agent.util.frozen import frozen
from plimsoll_probes.model.finding import Trouble, Why
from plimsoll_probes.model.result import Circumstances, Health, QemuCounts

# Seconds between readings. Each takes a worker of libvirtd for some milliseconds.
_EVERY = 1.0
# The last part of a run begins at this share of its time. Its rate shows whether a burst is over.
_LAST_PART = 0.7


@frozen
class GuestReading:
    """The counters of a guest's disks by target, at a time of the monotonic clock."""

    at: float
    stats: dict[str, BlockStats]


@frozen
class Look:
    """A guest's RBD disks with their actual limits, and whether the guest is being migrated."""

    disks: tuple[Disk, ...]
    actual: dict[str, Limits | None]
    """By target; None where unknown."""
    movement: Movement


class Witness:
    """Observes one guest through libvirt. Its calls raise ``Trouble`` where the guest or libvirt is gone."""

    def __init__(
        self,
        hypervisor: Hypervisor,
        uuid: str,
        situation: Callable[[], Situation],
        gate: Gate,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``situation`` is read again at the end of a run: passes may have reduced limits since the command began."""
        self._hypervisor = hypervisor
        self._uuid = uuid
        self._situation = situation
        self.gate = gate
        self.clock = clock

    def look(self) -> Look:
        try:
            survey = self._hypervisor.survey(self._uuid)
        except NotFound as error:
            raise Trouble(Why.NOT_FOUND) from error
        except PlimsollError as error:
            raise Trouble(Why.UNREACHABLE, detail=str(error)) from error
        situation = self._situation()
        disks = tuple(typed(self.gate.clusters.placed(disk), situation) for disk in survey.disks)
        answers = survey.actual if survey.movement is Movement.STAYS else {}
        actual = {disk.target: answers.get(disk.target) for disk in disks}
        by_target = {target: limits if isinstance(limits, Limits) else None for target, limits in actual.items()}
        return Look(disks, by_target, survey.movement)

    def read(self, disks: Sequence[Disk]) -> GuestReading | None:
        """The counters of these disks; None where they are unknown."""
        try:
            stats = self._hypervisor.block_stats(self._uuid, [disk.target for disk in disks])
            return GuestReading(self.clock(), dict(stats))
        except PlimsollError:
            return None

    def promised(self, disk: Disk) -> Limits | None:
        """The limits that plimsoll set on the disk, or else libvirt's; None where unknown.

        Of a disk that is reduced, under congestion or by a ceiling that it shares, those without that.
        """
        ours = self._situation().ours(disk)
        if ours is not None and ours.reduced is not None and ours.reduced == disk.defined:
            return ours.unreduced
        if ours is not None and ours.applied is not None:
            return ours.applied
        return disk.defined if isinstance(disk.defined, Limits) else None

    def is_reduced(self, disk: Disk, actual: Limits | None) -> bool:
        """Whether plimsoll has set these limits in place of the promised ones: it has reduced them for now."""
        ours = self._situation().ours(disk)
        return ours is not None and ours.reduced is not None and ours.reduced == actual

    def health(self, disk: Disk) -> Health:
        """The health of the disk's cluster now."""
        cluster = self.gate.clusters.of(disk)
        if cluster is None:
            return Health(
                None, f"no ceph.conf of this node names the monitors {', '.join(disk.monitors) or '(none)'}"
            )
        try:
            answer = self.gate.health(cluster)
        except PlimsollError as error:
            return Health(None, str(error))
        return Health(answer.raised, "; ".join(answer.words), self.gate.blocks(answer))

    def healths(self, disks: Sequence[Disk]) -> dict[Cluster | None, Health]:
        """The health of all clusters that have these disks."""
        one_of_each = {self.gate.clusters.of(disk): disk for disk in disks}
        return {cluster: self.health(disk) for cluster, disk in one_of_each.items()}

    def against(self, healths: Iterable[Health]) -> str | None:
        """Why no probe may begin on these clusters now; None where none of the blocking checks is raised."""
        for health in healths if self.gate.blocking else ():
            if health.raised is None:
                return f"the cluster's health is unknown: {health.detail}"
            if health.blocking:
                return ", ".join(health.blocking)
        return None


class Watch:
    """Observes one run on one disk: create it before the run, ``tell`` it regularly, ``end`` it afterwards."""

    def __init__(self, witness: Witness, disk: Disk, seconds: float) -> None:
        self._witness = witness
        self._disk = disk
        self._seconds = seconds
        self._readings: list[GuestReading] = []
        self._before = witness.look()
        self._counts = True
        self._read()

    def tell(self) -> None:
        if self._readings and self._witness.clock() - self._readings[-1].at >= _EVERY:
            self._read()

    def end(self, *, frozen: bool) -> tuple[QemuCounts | None, Circumstances]:
        """Raises ``Trouble`` when the guest is gone."""
        self._counts = True
        self._read()
        after = self._witness.look()
        has_moved = {self._before.movement, after.movement} != {Movement.STAYS}
        before, disk = self._actual(self._before), self._disk_in(after) or self._disk
        return self._totals(), Circumstances(
            promised=self._witness.promised(disk),
            before=before,
            after=self._actual(after),
            reduced=self._witness.is_reduced(disk, before),
            frozen=frozen,
            moved=has_moved,
        )

    def _actual(self, look: Look) -> Limits | None:
        return look.actual.get(self._disk.target) if self._disk_in(look) else None

    def _disk_in(self, look: Look) -> Disk | None:
        """With the limits of then; None where another disk has taken its place."""
        own = self._disk.key, self._disk.target
        return next((disk for disk in look.disks if (disk.key, disk.target) == own), None)

    def _read(self) -> None:
        if not self._counts:
            return
        reading = self._witness.read([self._disk])
        if reading is None or self._disk.target not in reading.stats:
            self._counts = False  # for the rest of the run: a guest that hangs is not asked again
        else:
            self._readings.append(reading)

    def _totals(self) -> QemuCounts | None:
        if len(self._readings) < 2 or not self._counts:
            return None
        first, last = self._readings[0], self._readings[-1]
        sums = self._stats(last).since(self._stats(first))
        # A restarted guest counts from 0, and at the end it may have counted more than before: so step by step.
        steps = (self._stats(other).since(self._stats(one)) for one, other in pairwise(self._readings))
        if sums is None or None in steps:
            return None
        return QemuCounts(
            seconds=last.at - first.at,
            read_operations=sums.read_requests,
            write_operations=sums.write_requests,
            read_bytes=sums.read_bytes,
            write_bytes=sums.write_bytes,
            last_rate=self._last_rate(),
        )

    def _last_rate(self) -> float | None:
        begin = self._readings[0].at
        part = [one for one in self._readings if _LAST_PART <= (one.at - begin) / self._seconds <= 1.0]
        if len(part) < 2 or part[-1].at - part[0].at < _EVERY:
            return None
        return (self._operations(part[-1]) - self._operations(part[0])) / (part[-1].at - part[0].at)

    def _operations(self, reading: GuestReading) -> int:
        stats = self._stats(reading)
        return stats.read_requests + stats.write_requests

    def _stats(self, reading: GuestReading) -> BlockStats:
        return reading.stats[self._disk.target]
