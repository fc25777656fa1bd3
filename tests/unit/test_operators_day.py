"""A day in an operator's life: how often a person is asked for an approval, and that the slip alone is stopped."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from plimsoll_agent.approvals import digest_of_change
from plimsoll_agent.brake import revision
from plimsoll_agent.decide import Situation
from plimsoll_agent.limits import Limits
from plimsoll_agent.qosspec import QosSpec
from plimsoll_agent.rules import Match, Rule, Rules
from plimsoll_agent.state import State
from tests import depth
from tests.fakes import FakeGuest
from tests.unit.clouds import a_catalogue, a_server, a_spec, a_type
from tests.unit.node import Node, a_volume, guest, own_disk

NODES = [1, depth.count(quick=5, landing=50, soak=50)]
NOISY, OWN = "noisy", ("ephemeral",)


class Cloud:
    """Nodes of three disks each: a volume of type gold, one of a type by its size, and the guest's own."""

    def __init__(self, directory: Path, nodes: int) -> None:
        self.specs: dict[str, QosSpec | None] = {
            "gold": a_spec("gold", total_iops_sec="3000"),
            "bronze": a_spec("bronze", total_iops_sec="40"),
            "by-size": a_spec("by-size", total_iops_sec_per_gb="10"),
        }
        self.types: dict[str, str] = {}
        self.rules: tuple[Rule, ...] = (
            Rule(name="small", match=Match(kind=OWN, flavor=("m1.small",)), limits=Limits(total_iops_sec=250)),
            Rule(name="large", match=Match(kind=OWN, flavor=("m1.large",)), limits=Limits(total_iops_sec=1000)),
        )
        self.nodes = []
        for number in range(nodes):
            node = Node(directory / f"{number}", self._guest(number))
            node.state = State(directory / f"{number}", boot=f"boot of {number}")
            node.state.prepare()
            self.nodes.append(node)
        self.passes()

    def _guest(self, number: int) -> FakeGuest:
        gold, by_size = a_volume(10 * number), a_volume(10 * number + 1)
        self.types |= {str(gold.volume_id): "gold", str(by_size.volume_id): "by-size"}
        made = guest(number, gold, by_size, own_disk(number))
        return replace(made, project=NOISY) if number == 0 else made

    def passes(self) -> int:
        """Everywhere, until all is done; returns on how many nodes the brake asked a person, who approved."""
        asked = set()
        for _ in range(3):  # attachments are met, asked for, and limited
            for number, node in enumerate(self.nodes):
                self._refresh(node)
                if node.run().braked is not None:
                    asked.add(number)
                    node.approve(self._revision(node), remove=True)
                    assert node.run().braked is None
        return len(asked)

    def stopped(self) -> int:
        """On how many nodes the brake stops what nobody approves of."""
        stopped = 0
        for node in self.nodes:
            self._refresh(node)
            stopped += node.run().braked is not None
        return stopped

    def _refresh(self, node: Node) -> None:
        met = node.state.load_sightings()
        types = {name: a_type(name, spec) for name, spec in self.specs.items()}
        node.rules = Rules(self.rules, edition=digest_of_change(repr(self.rules), Limits()))
        node.catalogue = a_catalogue(
            *[spec for spec in self.specs.values() if spec is not None],
            types=list(types.values()),
            volumes={volume: types[self.types[volume]] for volume in met.marks_of_volumes()},
            met=met,
            servers={uuid: a_server(met, uuid) for uuid in met.guests},
        )

    def _revision(self, node: Node) -> str:
        return revision(Situation(node.now, node.rules, catalogue=node.catalogue))

    def has(self, target: str) -> set[int]:
        guests = [each for node in self.nodes for each in node.hypervisor.by_uuid.values()]
        return {each.disks[target].in_force.total_iops_sec for each in guests}


@pytest.mark.parametrize("nodes", NODES)
def test_the_slip_alone_waits_for_a_person(tmp_path: Path, nodes: int) -> None:
    cloud = Cloud(tmp_path, nodes)
    first = cloud.nodes[0]
    (one,) = first.hypervisor.by_uuid.values()
    assert (cloud.has("vda"), cloud.has("vdb"), cloud.has("vdc")) == ({3000}, {100}, {250})
    asks: dict[str, int] = {}

    one.disks["vdb"].size = 100 * 2**30
    asks["extend a volume limited by its size"] = cloud.passes()
    assert 1000 in cloud.has("vdb")

    cloud.types[str(one.disks["vdb"].volume_id)] = "bronze"
    first.hypervisor.restart(one)
    asks["retype a volume"] = cloud.passes()
    assert 40 in cloud.has("vdb")

    one.flavor = "m1.large"
    first.hypervisor.restart(one)
    asks["resize a guest"] = cloud.passes()
    assert 1000 in cloud.has("vdc")

    night = first.now + timedelta(hours=8)
    limit = Rule(
        name="night",
        match=Match(project=(NOISY,), kind=("volume",)),
        limits=Limits(total_iops_sec=500),
        override=True,
        until=night,
    )
    cloud.rules = (limit, *cloud.rules)
    asks["limit a noisy project at night"] = cloud.passes()
    assert 500 in cloud.has("vda")
    for node in cloud.nodes:
        node.now += timedelta(hours=9)
    asks["the end of the night"] = cloud.passes()
    assert cloud.has("vda") == {3000}

    cloud.specs["bronze"] = None
    asks["delete a spec (one volume has it)"] = cloud.passes()
    assert 40 in cloud.has("vdb"), "orphaned limits are kept until a person releases them"

    if nodes > 1:
        last = cloud.nodes[-1]
        for each in list(last.hypervisor.by_uuid.values()):
            last.hypervisor.migrate(each, cloud.nodes[1].hypervisor)
        asks["drain a host"] = cloud.passes()

    cloud.specs["gold"] = a_spec("gold", total_iops_sec="30")
    with_gold = sum(bool(node.hypervisor.by_uuid) for node in cloud.nodes)
    assert cloud.stopped() == with_gold
    assert cloud.has("vda") == {3000}
    cloud.specs["gold"] = a_spec("gold", total_iops_sec="3000")
    assert cloud.stopped() == 0

    assert {act: number for act, number in asks.items() if number} == {}
