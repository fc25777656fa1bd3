"""A scenario in discrete events: one heap of what happens next, whole nanoseconds, and random numbers by the seed.

The result is the same on every machine: time is a whole number, what happens at the same time keeps the order in
which it was planned, and ``random.Random.random`` gives the same numbers in every release of Python. Each group of
disks, and the cluster, has a stream of its own, so one more group leaves the load of the others as it was.

What is modelled:

- A guest's request waits in QEMU's throttle (``throttle``), then goes to a placement group, each as likely.
- A write is served by all OSDs of the group and ends with the slowest; a read by the first. An OSD serves first come,
  first served, with a number of servers. So the end of a request is known when it comes.
- What is lost answers no more: requests of its groups wait until it is detected and the groups have peered, those
  of groups with fewer than ``min_copies`` until it returns. What was under way ends as if nothing had happened.
- After the return, objects that were written since the loss are stale on what was lost. A write to one waits until
  the object was read whole and written whole; each OSD that returned recovers ``recovery_active`` of them at a time,
  in the same queues as guests' requests.

Not modelled: copies that are made elsewhere when an OSD is marked out, priorities of recovery (mClock), caches.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush, heapreplace
from math import log

from plimsoll_agent.model.limits import Limits
from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.simulate.disks import AlikeDisks, Request, SimulatedDisk, ThrottleGate, nanoseconds
from plimsoll_insight.simulate.latency import cell_of
from plimsoll_insight.simulate.placement import SimulatedGroup, place
from plimsoll_insight.simulate.results import SimulatedOutcome, SimulationResult
from plimsoll_insight.simulate.scenario import MOST_UNDER_WAY, Scenario, ScenarioEvent
from plimsoll_insight.simulate.throttle import NEVER, SECOND

_ARRIVAL, _WAKE, _END, _CALL = range(4)
_Random = Callable[[], float]
_Group = SimulatedGroup[tuple[Request, int]]


@frozen
class Period:
    """What a controller may look at; ``ended`` and ``latency`` of ``disks`` rise from the start, as requests end."""

    number: int
    end: float
    disks: Sequence[SimulatedDisk]


Controller = Callable[[Period], Mapping[int, Limits]]
"""Asked at the end of each period: which disks get which limits now. It may lose or delay what it was shown."""


def run(scenario: Scenario, controller: Controller | None = None) -> SimulationResult:
    return _Run(scenario, controller).run()


class _Run:
    def __init__(self, scenario: Scenario, controller: Controller | None) -> None:
        self.scenario, self.cluster = scenario, scenario.cluster
        self.controller = controller
        self.heap: list[tuple[int, int, int, object]] = []
        self.order = 0
        self.end = nanoseconds(scenario.duration)
        self.warm = nanoseconds(scenario.warm_up)
        self.period = nanoseconds(scenario.period)
        self.random: _Random = random.Random(f"{scenario.seed}/cluster").random  # noqa: S311
        cluster = scenario.cluster
        self.free = [[0] * cluster.servers for _ in range(cluster.osds)]
        """Of each OSD, when each of its servers is free: a heap."""
        self.groups = place(cluster, random.Random(f"{scenario.seed}/placement").random)  # noqa: S311
        self.of_osd: list[list[_Group]] = [[] for _ in range(cluster.osds)]
        for group in self.groups:
            for osd in group.members:
                self.of_osd[osd].append(group)
        self.is_fixed = cluster.service == "fixed"
        self.network = nanoseconds(cluster.network)
        self.slowness = 1.0
        self.lost: set[int] = set()
        self.ended: dict[int, dict[SimulatedDisk, tuple[int, int]]] = {}
        """For a controller, by the number of the period: requests that end in it, and their latency."""
        self.workers = [0] * cluster.osds
        self.services = self.requests = self.recovered = self.steps = 0
        self.alike, self.disks = self._disks()

    def _disks(self) -> tuple[list[AlikeDisks], list[SimulatedDisk]]:
        each: list[AlikeDisks] = []
        disks: list[SimulatedDisk] = []
        guest = 0
        for kind in self.scenario.disks:
            alike = AlikeDisks(kind, f"{self.scenario.seed}/{kind.name}")
            each.append(alike)
            for _ in range(kind.guests):
                gate = ThrottleGate(kind.limits, kind.disks) if kind.limits.group_name else None
                for member in range(kind.disks):
                    disk = SimulatedDisk(len(disks), alike, guest % self.scenario.nodes)
                    if not kind.limits.unlimited:
                        disk.gate = gate or ThrottleGate(kind.limits, 1)
                        disk.member = member if gate else 0
                    alike.members.append(disk)
                    disks.append(disk)
                guest += 1
        return each, disks

    # --- the loop

    def run(self) -> SimulationResult:
        self._plan()
        heap, end, arrive, release = self.heap, self.end, self._arrive, self._release
        steps = 0
        while heap:
            now, _, step, what = heappop(heap)
            if now > end:
                break
            steps += 1
            if step == _ARRIVAL:
                arrive(now, what)  # type: ignore[arg-type]  # a Disk
            elif step == _END:
                if what.running:  # type: ignore[attr-defined]
                    self._send(now, what)  # type: ignore[arg-type]
                else:
                    what.idle += 1  # type: ignore[attr-defined]
            elif step == _WAKE:
                release(now, what)  # type: ignore[arg-type]  # a ThrottleGate
            else:
                what(now)  # type: ignore[operator]
        self.steps = steps
        return self._result()

    def at(self, now: int, call: Callable[[int], None]) -> None:
        self.order += 1
        heappush(self.heap, (now, self.order, _CALL, call))

    def _plan(self) -> None:
        for alike in self.alike:
            kind = alike.kind
            for disk in alike.members:
                if kind.queue:  # within 10 ms, so that they are not in step
                    for _ in range(kind.queue):
                        self._push(alike.begins + int(alike.random() * SECOND / 100), _END, disk)
                else:
                    self._push(alike.begins + int(alike.random() * alike.interval), _ARRIVAL, disk)
        for event in self.scenario.events:
            self.at(nanoseconds(event.at), self._happening(event))
        self.at(min(self.period, self.end), lambda now: self._close(now, 0))
        if self.warm:
            self.at(self.warm, self._warmed_up)

    def _push(self, at: int, kind: int, what: object) -> None:
        self.order += 1
        heappush(self.heap, (at, self.order, kind, what))

    def _close(self, now: int, number: int) -> None:
        for alike in self.alike:
            alike.close(number, number * self.period / SECOND, now / SECOND)
        if self.controller is not None:
            for disk, (requests, latency) in self.ended.pop(number, {}).items():
                disk.ended += requests
                disk.latency += latency
            for place, limits in self.controller(Period(number, now / SECOND, self.disks)).items():
                self._limit(now, self.disks[place], limits)
        if now < self.end:
            self.at(min(now + self.period, self.end), lambda later: self._close(later, number + 1))

    def _limit(self, now: int, disk: SimulatedDisk, limits: Limits) -> None:
        if disk.gate is None:
            disk.gate = ThrottleGate(limits, 1)
            disk.gate.throttle.write(limits, now)
            return
        for request in disk.gate.throttle.write(limits, now, disk.member):
            self._serve(now, request)
        self._wake_later(disk.gate)

    def _warmed_up(self, _: int) -> None:
        for alike in self.alike:
            alike.before = [(disk.requests, disk.unsent) for disk in alike.members]
            alike.arrivals = 0

    # --- requests

    def _arrive(self, now: int, disk: SimulatedDisk) -> None:
        """Of an open loop: the next one comes whether this one ends or not."""
        alike = disk.alike
        if now >= alike.ends:
            return
        wait = alike.interval if alike.is_regular else -alike.interval * log(1.0 - alike.random())
        self.order += 1
        heappush(self.heap, (now + int(wait), self.order, _ARRIVAL, disk))
        if disk.running:
            self._send(now, disk)

    def _send(self, now: int, disk: SimulatedDisk) -> None:
        alike = disk.alike
        kind = alike.kind
        if now >= alike.ends:
            return
        alike.arrivals += 1
        write = alike.random() < kind.writes
        request = (disk, now, kind.size, write)
        gate = disk.gate
        if gate is None:
            self._serve(now, request)
        elif kind.iops and gate.throttle.waiting(disk.member) >= MOST_UNDER_WAY:
            disk.unsent += 1
        elif gate.throttle.arrive(now, kind.size, write, request, disk.member):
            self._serve(now, request)
        else:
            self._wake_later(gate)

    def _wake_later(self, gate: ThrottleGate) -> None:
        due = gate.throttle.due
        if due < gate.due:
            gate.due = due
            self._push(due, _WAKE, gate)

    def _release(self, now: int, gate: ThrottleGate) -> None:
        if gate.due == now:
            gate.due = NEVER
        for request in gate.throttle.wake(now):
            self._serve(now, request)
        self._wake_later(gate)

    def _serve(self, now: int, request: Request) -> None:
        """From the throttle to a placement group."""
        groups = self.groups
        group = groups[int(self.random() * len(groups))]
        if not group.clean and not self._may_go(now, group, request):
            return
        self._finish(now, now, group, request)

    def _finish(self, came: int, now: int, group: _Group, request: Request) -> None:
        """``came``: when it left the throttle."""
        disk, arrival, size, write = request
        cluster = self.cluster
        mean = cluster.write if write else cluster.read
        mean = (mean + size / cluster.bytes_sec) * SECOND * self.slowness
        at = now + self.network
        end = at
        for osd in group.acting if write else group.acting[:1]:
            last = self._occupy(osd, at, mean)
            if last > end:
                end = last
        self._note(end + self.network, came, disk, arrival)

    def _occupy(self, osd: int, at: int, mean: float) -> int:
        """When the OSD has served it."""
        free = self.free[osd]
        first = free[0]
        service = mean if self.is_fixed else -mean * log(1.0 - self.random())
        end = (first if first > at else at) + int(service)
        if len(free) == 1:
            free[0] = end
        else:
            heapreplace(free, end)
        self.services += 1
        return end

    def _note(self, end: int, came: int, disk: SimulatedDisk, arrival: int) -> None:
        alike = disk.alike
        if alike.kind.queue:
            self.order += 1
            heappush(self.heap, (end, self.order, _END, disk))
        self.requests += 1
        if end > self.end:
            return
        latency, service = end - arrival, end - came
        cell = cell_of(latency)
        number = end // self.period
        cells = alike.open.get(number)
        if cells is None:
            cells = alike.open[number] = {}
        cells[cell] = cells.get(cell, 0) + 1
        disk.requests += 1
        if self.controller is not None:
            period = self.ended.setdefault(number, {})
            requests, whole = period.get(disk, (0, 0))
            period[disk] = requests + 1, whole + latency
        if arrival >= self.warm:
            alike.sum += latency
            alike.latencies[cell] = alike.latencies.get(cell, 0) + 1
            if service != latency:
                cell = cell_of(service)
            alike.services[cell] = alike.services.get(cell, 0) + 1

    # --- failures

    def _may_go(self, now: int, group: _Group, request: Request) -> bool:
        """Whether it is served now; else something later will."""
        write = request[3]
        primary = group.acting[0] if group.acting else -1
        hangs = any(osd in self.lost for osd in group.acting) if write else primary in self.lost
        if group.are_blocked or hangs:
            if request[0].alike.kind.queue or len(group.waiting) < 100 * MOST_UNDER_WAY:
                group.waiting.append((request, now))
            else:
                request[0].unsent += 1
            return False
        if write and group.absent:
            group.written += 1
        needs = write or primary in group.targets
        if group.stale >= 1 and needs and self.random() < group.stale / group.objects:
            self._recover(now, group, lambda later: self._finish(now, later, group, request))
            return False
        return True

    def _recover(self, now: int, group: _Group, after: Callable[[int], None]) -> None:
        """One object: read whole, then written whole."""
        group.stale -= 1
        sources = [osd for osd in group.acting if osd not in group.targets and osd not in self.lost] or [
            group.acting[0]
        ]
        read = self._occupy(sources[0], now, self.cluster.object_read * SECOND)

        def write(later: int) -> None:
            ends = [self._occupy(osd, later, self.cluster.object_write * SECOND) for osd in group.targets]
            self.at(max(ends, default=later), recovered)

        def recovered(later: int) -> None:
            self.recovered += 1
            self._tidy(group)
            after(later)

        self.at(read, write)

    def _tidy(self, group: _Group) -> None:
        if group.stale < 1:
            group.stale = 0.0
            group.clean = not (group.absent or group.are_blocked or group.waiting)

    def _happening(self, event: ScenarioEvent) -> Callable[[int], None]:
        kind, _, number = event.place.partition(".")
        if event.act == "degrade":
            return lambda now: self._degrade(now, event.share)
        if event.act == "speed":
            return lambda _: setattr(self, "slowness", 1 / event.share)
        if kind == "node":
            return lambda now: self._node(now, int(number), event.act == "return")
        osds = {osd for osd in range(self.cluster.osds) if self.cluster.domain_of(osd, kind) == int(number)}
        return (lambda now: self._return(now, osds)) if event.act == "return" else (lambda now: self._lose(now, osds))

    def _node(self, now: int, node: int, runs: bool) -> None:
        for disk in self.disks:
            if disk.node == node and disk.running is not runs:
                disk.running = runs
                for _ in range(disk.idle if runs else 0):
                    self._push(now, _END, disk)
                disk.idle = 0

    def _touched(self, osds: set[int]) -> list[_Group]:
        """In order."""
        return list(dict.fromkeys(group for osd in sorted(osds) for group in self.of_osd[osd]))

    def _lose(self, now: int, osds: set[int]) -> None:
        self.lost |= osds
        for group in self._touched(osds):
            group.clean = False
        self.at(now + nanoseconds(self.cluster.detect), lambda later: self._detect(later, osds & self.lost))

    def _detect(self, now: int, osds: set[int]) -> None:
        groups = self._touched(osds)
        for group in groups:
            group.are_blocked = True
            group.absent |= osds & set(group.members)
            group.acting = tuple(osd for osd in group.members if osd not in group.absent)
        self.at(now + nanoseconds(self.cluster.peering), lambda later: self._peered(later, groups))

    def _peered(self, now: int, groups: Sequence[_Group]) -> None:
        for group in groups:
            group.are_blocked = len(group.acting) < self.cluster.min_copies
            if not group.are_blocked:
                self._let_wait_no_more(now, group)
            self._tidy(group)

    def _let_wait_no_more(self, now: int, group: _Group) -> None:
        waiting, group.waiting = group.waiting, []
        for request, came in waiting:
            if self._may_go(now, group, request):
                self._finish(came, now, group, request)

    def _return(self, now: int, osds: set[int]) -> None:
        osds = osds & self.lost
        self.lost -= osds
        groups = self._touched(osds)
        for group in groups:
            group.are_blocked = True
        self.at(now + nanoseconds(self.cluster.peering), lambda later: self._returned(later, osds, groups))

    def _returned(self, now: int, osds: set[int], groups: Sequence[_Group]) -> None:
        for group in groups:
            back = tuple(osd for osd in group.members if osd in osds and osd in group.absent)
            group.absent -= set(back)
            group.acting = tuple(osd for osd in group.members if osd not in group.absent)
            # n · (1 - e^(-w/n)) of n objects are reached by w writes.
            share = 1 - (1 - 1 / group.objects) ** group.written if group.objects > 1 else float(group.written > 0)
            if back:
                group.stale = max(group.stale, float(round(share * group.objects)))
                group.targets = tuple(dict.fromkeys((*group.targets, *back)))
                if not group.absent:
                    group.written = 0
        self._peered(now, groups)
        for osd in sorted(osds):
            self._start_recovery(now, osd)

    def _degrade(self, now: int, share: float) -> None:
        for group in self.groups:
            group.stale = float(round(share * group.objects))
            group.targets = group.members[-1:]
            group.clean = group.clean and group.stale < 1
        for osd in range(self.cluster.osds):
            self._start_recovery(now, osd)

    def _start_recovery(self, now: int, osd: int) -> None:
        for _ in range(self.cluster.recovery_active - self.workers[osd]):
            self.workers[osd] += 1
            self._recover_next(now, osd, 0)

    def _recover_next(self, now: int, osd: int, place: int) -> None:
        """One after another, from one group to the next that has something."""
        groups = self.of_osd[osd]
        for step in range(len(groups)):
            group = groups[(place + step) % len(groups)]
            if group.stale >= 1 and osd in group.targets and not group.are_blocked and osd not in self.lost:
                self._recover(now, group, self._recover_later(osd, place + step + 1))
                return
        self.workers[osd] -= 1

    def _recover_later(self, osd: int, place: int) -> Callable[[int], None]:
        pause = nanoseconds(self.cluster.recovery_sleep)
        return lambda now: self.at(now + pause, lambda later: self._recover_next(later, osd, place))

    # --- what comes of it

    def _result(self) -> SimulationResult:
        return SimulationResult(
            outcomes=[self._outcome(alike) for alike in self.alike],
            events=self.steps + self.services,
            requests=self.requests,
            recovered=self.recovered,
            stale=round(sum(group.stale for group in self.groups)),
        )

    def _outcome(self, alike: AlikeDisks) -> SimulatedOutcome:
        before = alike.before or [(0, 0)] * len(alike.members)
        number = sum(alike.latencies.values())
        return SimulatedOutcome(
            disks=alike.kind,
            sent=alike.arrivals,
            unsent=sum(disk.unsent - first for disk, (_, first) in zip(alike.members, before, strict=True)),
            requests=[disk.requests - first for disk, (first, _) in zip(alike.members, before, strict=True)],
            mean=alike.sum / number / SECOND if number else None,
            latencies=alike.latencies,
            services=alike.services,
            slices=alike.slices,
        )
