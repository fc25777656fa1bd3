"""A cluster of three hosts with two OSDs each, and what is seen of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from plimsoll_agent.errors import Unreachable
from plimsoll_agent.util.frozen import replace
from plimsoll_insight.drill.status import ClusterCounts
from plimsoll_insight.forecast.ranges import Range
from plimsoll_insight.ordered_return.cluster import ReturnGroup
from plimsoll_insight.ordered_return.control import HostView, ReturnBounds, ReturnObservation
from plimsoll_insight.ordered_return.hosts import HostMemory
from plimsoll_insight.ordered_return.journal import ChangeTarget, ReturnJournal, TargetKind
from plimsoll_insight.ordered_return.plan import Returning, WavePlan, plan

MIB = 2**20
HOSTS = {0: "a", 1: "a", 2: "b", 3: "b", 4: "c", 5: "c"}
WHOLE = {"1.0": (0, 2), "1.1": (0, 4), "1.2": (2, 4), "1.3": (1, 3), "1.4": (3, 5), "1.5": (1, 2)}
BOUNDS = ReturnBounds(
    reserve=0.1,
    slow=10,
    start_within=60,
    steady=5,
    stuck_after=200,
    patience=100,
    restarts=False,
    until_clean=True,
)
PEAK = 200 * MIB
FLAG = ChangeTarget(TargetKind.FLAG, "noout")
SETTING = ChangeTarget(TargetKind.SETTING, "osd_max_backfills")
RESTARTS = ChangeTarget(TargetKind.RESTARTS, "a")
DESIRED = {FLAG: "set", SETTING: "1", RESTARTS: "no"}


def groups(up: Collection[int]) -> dict[str, ReturnGroup]:
    return {
        id: ReturnGroup("active+clean" if len(on) == 2 else "active+undersized" if on else "stale+active+clean", on)
        for id, osds in WHOLE.items()
        for on in [tuple(osd for osd in osds if osd in up)]
    }


def returning(osds: Iterable[int], away: Mapping[int, float | None] | None = None) -> list[Returning]:
    times = away or {}
    return [
        Returning(number=osd, host=HOSTS[osd], away=times.get(osd, 60), memory=Range(100 * MIB, PEAK)) for osd in osds
    ]


def planned(down: Sequence[int], per_host: int = 1, away: Mapping[int, float | None] | None = None) -> WavePlan:
    up = set(HOSTS) - set(down)
    return plan(returning(down, away), groups(up), WHOLE, {"1": 1}, up, per_host=per_host, at_once=9,
                wave_seconds=Range(10, 70))  # fmt: skip


def counts(slow: int | None = 0, degraded: int = 0) -> ClusterCounts:
    return ClusterCounts(
        osds=6,
        up=6,
        within=6,
        states={"active+clean": 6},
        objects=10,
        degraded=degraded,
        misplaced=0,
        copies=0,
        recovering=0,
        slow=slow,
    )


def host(free: int = 1000 * MIB, resident: Mapping[int, int] | None = None) -> HostView:
    return HostView(HostMemory(2000 * MIB, free), resident or {})


def view(now: float, up: Iterable[int], **other: object) -> ReturnObservation:
    shown = frozenset(up)
    usual: dict[str, object] = {
        "counts": counts(), "groups": groups(shown),
        "hosts": {name: host(resident={osd: 150 * MIB for osd in shown if HOSTS[osd] == name}) for name in "abc"},
    }  # fmt: skip
    return ReturnObservation(now=now, up=shown, **(usual | other))  # type: ignore[arg-type]


class Killed(BaseException):
    """kill -9."""


class FakeWorld:
    """Remembers what is set; OSDs come up at the next look. ``deadly``: the number of the act that ends the process,
    before or after it was done.
    """

    def __init__(self, down: Iterable[int], deadly: tuple[int, bool] | None = None) -> None:
        self.up = set(HOSTS) - set(down)
        self.values: dict[ChangeTarget, str | None] = {SETTING: "4"}
        self.acts: list[tuple[object, ...]] = []
        self.deadly = deadly
        self.now = 0.0
        self.silent: set[str] = set()
        self.never_up: set[int] = set()
        self.faults: dict[str, object] = {}

    def observe(self) -> ReturnObservation:
        self.now += 5
        if "cluster" in self.silent:
            return ReturnObservation(now=self.now, trouble="no answer from Ceph within 30 s")
        return replace(view(self.now, self.up), **self.faults)

    def conditions(self, osds: Sequence[int]) -> Mapping[int, str]:
        return dict.fromkeys(osds, "failed (oom-kill)")

    def start(self, osds: Sequence[int]) -> None:
        self._act("start", *osds)
        self.up |= set(osds) - self.never_up

    def restart(self, osd: int) -> None:
        self._act("restart", osd)

    def may_stop(self, osd: int) -> bool:
        return True

    def value(self, target: ChangeTarget) -> str | None:
        self._ask()
        return self.values.get(target)

    def change(self, target: ChangeTarget, value: str | None) -> None:
        if target.kind is not TargetKind.RESTARTS:
            self._ask()
        self._act("change", target, value, done=lambda: self.values.__setitem__(target, value))

    def _act(self, *act: object, done: object = None) -> None:
        deadly, afterwards = self.deadly or (0, False)
        is_last = len(self.acts) + 1 == deadly
        self.acts.append(act)
        if is_last and not afterwards:
            raise Killed
        if callable(done):
            done()
        if is_last:
            raise Killed

    def _ask(self) -> None:
        if "cluster" in self.silent:
            raise Unreachable("no answer from Ceph within 30 s")


def journal_at(path: Path, run: str = "first") -> ReturnJournal:
    return ReturnJournal(path, run, "root", lambda: datetime(2026, 11, 30, tzinfo=UTC))
