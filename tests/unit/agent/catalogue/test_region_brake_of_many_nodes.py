"""A region of simulated nodes with few disks each: what no node's brake sees, what makes the region's file stops."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from plimsoll_agent.catalogue import signed_file
from plimsoll_agent.catalogue.model import Catalogue, Lists, digest_of
from plimsoll_agent.catalogue.orders import Of, Orders, RegionApproval, RegionBrake
from plimsoll_agent.catalogue.planner import TypeOf, slice_of
from plimsoll_agent.catalogue.qosspec import QosSpec
from plimsoll_agent.catalogue.region_brake import judge, stopped
from plimsoll_agent.catalogue.signed_file import Region
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.rules.model import Rules
from plimsoll_agent.util.frozen import replace
from tests import depth
from tests.fakes import FakeDisk
from tests.unit.clouds import a_spec, a_type
from tests.unit.node import Node, a_volume, guest
from tests.unit.values import NOON

NODES, DISKS = depth.count(quick=8, landing=20, soak=50), 3
GOLD = a_spec("gold", total_iops_sec="3000")
TYPE = a_type("gold", GOLD)
RICH, LESS = Limits(total_iops_sec=3000), Limits(total_iops_sec=1000)


class Publisher:
    """Makes the region's file, as ``cli.regional`` does, out of what Cinder has."""

    def __init__(self, volumes: Iterable[str]) -> None:
        self.spec = GOLD
        self.types: dict[str, str | None] = dict.fromkeys(volumes, TYPE.id)
        self.orders = Orders()
        self.generation = 0
        self.published: Lists | None = None
        self.stopped = 0

    @property
    def read(self) -> Lists:
        return Lists({self.spec.id: self.spec}, {TYPE.id: TYPE})

    def make(self, now: datetime, *, brake: bool = True) -> bytes:
        volumes = {id: TypeOf(type=type, gib=10) for id, type in self.types.items()}
        digest = digest_of(self.read.specs, self.read.types)
        if self.published is not None and brake:
            found = judge(self.published, self.read, volumes, RegionBrake(volumes=DISKS, percent=1))
            self.stopped = found.number if stopped(found, self.orders, digest, now) else 0
        if not self.stopped:
            self.published = self.read
        assert self.published is not None
        self.generation += 1
        specs, types = self.published.specs, self.published.types
        orders = self.orders.standing(now)
        return signed_file.encode(
            Region(
                generation=self.generation,
                issued=now,
                begun=now,
                source="lab",
                specs=specs,
                types=types,
                volumes=self.types,
                servers={},
                orders=orders,
            )
        )


class SimulatedRegion:
    def __init__(self, directory: Path) -> None:
        self.now = NOON
        self.nodes = []
        for number in range(NODES):
            place = directory / f"node{number}"
            place.mkdir()
            node = Node(place, *(guest(n, disk_of(number, n)) for n in range(DISKS)), rules=Rules(revision="aaaaaa"))
            node.catalogue = Unknown(because(Code.NO_CATALOGUE, detail="?"))
            self.nodes.append(node)
        self.publisher = Publisher(disk_of(node, n).volume_id or "" for node in range(NODES) for n in range(DISKS))

    def tick(self, *, brake: bool = True, back: Iterable[int] | None = None) -> None:
        """A new file, which the nodes take (those that are away later), and a pass of each."""
        self.now += timedelta(minutes=10)
        content = self.publisher.make(self.now, brake=brake)
        for node in self.nodes if back is None else [self.nodes[number] for number in back]:
            node.now = max(node.now, self.now)
            before = None if isinstance(node.catalogue, Unknown) else node.catalogue
            met = node.state.load_attachments()
            region = signed_file.decode(content, "it")
            node.catalogue, node.orders = slice_of(before, region, met, source="it"), region.orders
            node.run()

    def actual(self) -> list[Limits]:
        return [disk.actual for node in self.nodes for disk in node.disks()]

    def generations(self) -> set[int]:
        return {node.catalogue.generation for node in self.nodes if isinstance(node.catalogue, Catalogue)}

    def digest(self) -> str:
        return digest_of(self.publisher.read.specs, self.publisher.read.types)


def disk_of(node: int, number: int) -> FakeDisk:
    disk = a_volume(number)
    id = f"{node:04}{number:04}-001a-4ea4-a2eb-d491b58efc11"
    return replace(disk, image=f"volume-{id}", volume_id=id)


@pytest.fixture
def region(tmp_path: Path) -> SimulatedRegion:
    region = SimulatedRegion(tmp_path)
    region.tick()  # the nodes meet their volumes
    region.tick()
    assert region.actual() == [RICH] * NODES * DISKS
    return region


def edit(spec: QosSpec, **keys: str) -> QosSpec:
    return replace(spec, keys=keys)


def test_a_slip_that_no_nodes_brake_sees_reaches_no_node(region: SimulatedRegion) -> None:
    region.publisher.spec = edit(GOLD, total_iops_sec="1000")
    for _ in range(3):
        region.tick()
        assert region.publisher.stopped == NODES * DISKS
    assert region.actual() == [RICH] * NODES * DISKS
    assert region.generations() == {region.publisher.generation}
    region.publisher.spec = GOLD
    region.tick()
    assert region.publisher.stopped == 0
    # And this is what it is there for.
    region.publisher.spec = edit(GOLD, total_iops_sec="1000")
    region.tick(brake=False)
    assert region.actual() == [LESS] * NODES * DISKS


def test_what_is_approved_reaches_every_node_also_one_that_comes_back_later(region: SimulatedRegion) -> None:
    region.publisher.spec = edit(GOLD, total_iops_sec="1000")
    region.tick()
    approval = RegionApproval(
        of=Of.SPECS,
        digest=region.digest(),
        since=region.now,
        until=region.now + timedelta(days=7),
        by="ann",
        why="meant",
    )
    region.publisher.orders = Orders(approvals=(approval,))
    away = NODES - 1
    region.tick(back=range(away))
    assert region.actual() == [LESS] * away * DISKS + [RICH] * DISKS
    region.now += timedelta(days=3)
    region.tick()
    assert region.actual() == [LESS] * NODES * DISKS


def test_an_approval_of_another_state_or_one_that_has_ended_publishes_nothing(region: SimulatedRegion) -> None:
    region.publisher.spec = edit(GOLD, total_iops_sec="1000")
    approval = RegionApproval(
        of=Of.SPECS,
        digest=region.digest(),
        since=region.now,
        until=region.now + timedelta(minutes=5),
        by="ann",
        why="meant",
    )
    region.publisher.orders = Orders(approvals=(approval,))
    region.tick()
    assert region.actual() == [RICH] * NODES * DISKS
    region.publisher.orders = Orders(approvals=(replace(approval, until=region.now + timedelta(days=1)),))
    region.publisher.spec = edit(GOLD, total_iops_sec="1000", x="forged")
    region.tick()
    assert region.actual() == [RICH] * NODES * DISKS


def test_one_volume_that_is_given_another_type_is_no_edit(region: SimulatedRegion) -> None:
    volume = next(iter(region.publisher.types))
    region.publisher.types[volume] = None
    region.tick()
    assert region.publisher.stopped == 0
