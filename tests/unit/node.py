"""A whole node for unit tests: passes one after the other on the fake hypervisor, with a real state directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from plimsoll_agent.catalogue.attachments import Attachments
from plimsoll_agent.catalogue.model import Catalogue
from plimsoll_agent.catalogue.orders import Orders
from plimsoll_agent.ceilings.buckets import Ceilings, Split
from plimsoll_agent.congestion.following import Following
from plimsoll_agent.congestion.published import Factors
from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.model.acknowledged import Acknowledgement
from plimsoll_agent.model.approvals import Approval
from plimsoll_agent.model.clusters import Cluster, Clusters
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.holds import Hold
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.memory import Remembered
from plimsoll_agent.model.reason import Code, Reason, Unknown
from plimsoll_agent.model.usage import Used
from plimsoll_agent.policy.decide import Situation
from plimsoll_agent.policy.diff import Change
from plimsoll_agent.policy.sources import SOURCES
from plimsoll_agent.reconcile.brake import Brake
from plimsoll_agent.reconcile.caution import Caution
from plimsoll_agent.reconcile.health_gate import ClusterHealth, Gate
from plimsoll_agent.reconcile.limit_writer import Bounds
from plimsoll_agent.reconcile.observe import observe
from plimsoll_agent.reconcile.outcome import Mode, Outcome, PassReport, Scope
from plimsoll_agent.reconcile.run import by_sources, run_pass
from plimsoll_agent.rules.model import Rules
from plimsoll_agent.store.node_store import NodeStore
from plimsoll_agent.store.state import CorruptState, Given, State
from plimsoll_agent.util.frozen import replace
from tests.fakes import FakeDisk, FakeGuest, FakeHypervisor, volume
from tests.unit.sql import asked
from tests.unit.values import NOON

DEFAULT = Limits(total_iops_sec=250, total_bytes_sec=104857600)
TIGHTER = Limits(total_iops_sec=200, total_bytes_sec=104857600)
EVERYTHING = Scope()
FSID = "bcebd1ee-e0de-43ae-9dbe-a7fd9e23a0d7"


def uuid_of(number: int) -> str:
    return f"00000{number:03}-0000-4000-8000-000000000000"


UUIDS = [uuid_of(number) for number in range(9)]


def guest(number: int, *disks: FakeDisk) -> FakeGuest:
    letters = {f"vd{'abcdef'[n]}": disk for n, disk in enumerate(disks or (own_disk(number), a_volume(number)))}
    return FakeGuest(f"instance-{number:08}", uuid_of(number), letters)


def own_disk(number: int) -> FakeDisk:
    return FakeDisk(image=f"{uuid_of(number)}_disk", pool="vms")


def a_volume(number: int, limits: Limits | None = None, pool: str = "volumes") -> FakeDisk:
    """Attached with these limits, where some are given."""
    disk = volume(f"aaaaa{number:03}-001a-4ea4-a2eb-d491b58efc11", pool=pool)
    return disk if limits is None else replace(disk, actual=limits, defined=limits)


@dataclass
class FakeCeph:
    """A cluster that says how it is; ``asked`` counts how often."""

    raised: tuple[str, ...] = ()
    silent: PlimsollError | None = None
    asked: int = 0
    known: Clusters = field(
        default_factory=lambda: Clusters((Cluster(Path("ceph.conf"), FSID, frozenset({"127.0.0.1"})),))
    )

    def health(self, cluster: Cluster) -> ClusterHealth:
        self.asked += 1
        if self.silent is not None:
            raise self.silent
        return ClusterHealth(fsid=FSID, raised=self.raised, words=(), counts=dict.fromkeys(self.raised, 1), osds=3)


class Node:
    """A node with its state; the clock moves five minutes with each pass."""

    def __init__(self, directory: Path, *guests: FakeGuest, rules: Rules | None = None) -> None:
        self.hypervisor = FakeHypervisor(*guests)
        self.state = State(directory)
        self.rules = rules or Rules(default=DEFAULT)
        self.catalogue: Catalogue | Unknown | None = None
        self.ceph = FakeCeph()
        self.paused: Callable[[], Reason | None] = lambda: None
        self.orders = Orders()
        """What was decided for the region, as the region's file had it last."""
        self.orders_unknown: Reason | None = None
        self.factors: Factors | None = None
        """Of congestion, as they were fetched last."""
        self.used: dict[str, Used] = {}
        """What disks used lately, by ``Disk.key``."""
        self.following = Following()
        """The factors of congestion that passes apply."""
        self.split = Split.STAY
        """How passes split ceilings."""
        self.rounds = 3
        self.now = NOON
        self.told: list[Outcome] = []

    # --- passes

    def run(
        self,
        mode: Mode = Mode.ENFORCE,
        scope: Scope = EVERYTHING,
        node_store: NodeStore | None = None,
        *,
        at_once: int = 1,
        yes: bool = False,
        on_event: bool = False,
        clock: Callable[[], float] | None = None,
        tell: Callable[[Outcome], None] | None = None,
    ) -> PassReport:
        """A pass like the commands': all that is remembered comes off the disk, and goes back there."""
        self.now += timedelta(minutes=5)
        self.told.clear()
        node_store = node_store or NodeStore(self.state, "tests")
        read_only = mode is Mode.PLAN
        memory = node_store.recall(self.now, read_only=read_only)
        known = self.catalogue
        try:
            splits, looks = self.state.load_ceilings()
        except CorruptState:
            splits, looks = {}, {}
        return run_pass(
            scope,
            Situation(
                now=self.now,
                rules=self.rules,
                memory=memory.disks,
                holds=memory.holds,
                catalogue=known,
                attachments=Attachments() if known is None else self.state.load_attachments(),
                brake=memory.brake,
                orders=self.orders,
                acknowledged=memory.acknowledged,
                orders_unknown=self.orders_unknown,
                used=lambda: self.used,
                congestion=lambda: self.factors,
                following=self.following,
                ceilings=Ceilings(how=self.split, shared=splits, looks=looks),
            ),
            mode,
            hypervisor=self.hypervisor,
            decider=by_sources(SOURCES),
            node_store=node_store,
            notes=node_store.notes,
            bounds=Bounds(at_once=at_once),
            caution=replace(self.caution(node_store, read_only=read_only, yes=yes), on_event=on_event),
            clock=clock,
            tell=tell or self.told.append,
        )

    def caution(self, node_store: NodeStore, *, read_only: bool = True, yes: bool = False) -> Caution:
        return Caution(
            brake=Brake(approvals=node_store.approved(read_only=read_only)),
            gate=Gate(self.ceph.known, self.ceph.health),
            paused=lambda: self.paused() or self.orders.paused(self.now),
            rounds=None if yes else self.rounds,
            sure=yes,
        )

    # --- what people do

    def approve(self, digest: str, *, remove: bool = False) -> None:
        self.state.save_approvals([Given(Approval(digest, remove), "ann", self.now)])

    def hold(
        self,
        number: int,
        target: str,
        limits: Limits | None,
        span: timedelta = timedelta(hours=2),
        *,
        ignore_health: bool = False,
    ) -> None:
        disk = self.seen(number, target)
        hold = Hold(
            disk=disk.named,
            limits=limits,
            since=self.now,
            until=self.now + span,
            by="ann",
            why="a test",
            ignore_health=ignore_health,
        )
        memory = NodeStore(self.state, "ann").recall(self.now, read_only=False)
        self.state.save_memory(replace(memory, holds={**memory.holds, disk.key: hold}))

    def acknowledge(self, number: int, target: str, span: timedelta = timedelta(days=2)) -> None:
        disk = self.seen(number, target)
        given = Acknowledgement(disk=disk.named, since=self.now, until=self.now + span, by="ann", why="a test")
        memory = NodeStore(self.state, "ann").recall(self.now, read_only=False)
        self.state.save_memory(replace(memory, acknowledged={**memory.acknowledged, disk.key: given}))

    # --- what there is

    def disk(self, number: int, target: str = "vda") -> FakeDisk:
        return self.hypervisor.by_uuid[uuid_of(number)].disks[target]

    def disks(self) -> list[FakeDisk]:
        return [disk for guest in self.hypervisor.by_uuid.values() for disk in guest.disks.values()]

    def seen(self, number: int, target: str) -> Disk:
        disks = observe(self.hypervisor, Scope(frozenset({uuid_of(number)})), clusters=self.ceph.known).disks
        return next(disk for disk in disks if disk.target == target)

    @property
    def memory(self) -> Mapping[str, Remembered]:
        memory = self.state.load_memory()
        assert memory is not None
        return memory.disks

    @property
    def acknowledged(self) -> Mapping[str, Acknowledgement]:
        memory = self.state.load_memory()
        return {} if memory is None else memory.acknowledged

    @property
    def holds(self) -> Mapping[str, Hold]:
        memory = self.state.load_memory()
        return {} if memory is None else memory.holds

    def recorded(self, *columns: str) -> list[tuple[object, ...]]:
        return asked(self.state.record, f"SELECT {', '.join(columns)} FROM change ORDER BY id")


def set_by_hand(disk: FakeDisk, limits: Limits) -> None:
    """Somebody else's ``virsh blkdeviotune``."""
    disk.actual = disk.defined = limits


def kinds(report: PassReport) -> list[str]:
    return [outcome.result.kind.value for outcome in report.outcomes]


def codes(report: PassReport) -> list[Code]:
    return [outcome.result.reason.code for outcome in report.outcomes]


def notes(report: PassReport) -> list[Code]:
    return [note.code for note in report.notes]


def changes(report: PassReport) -> list[Change]:
    return [outcome.change for outcome in report.outcomes if outcome.change is not None]
