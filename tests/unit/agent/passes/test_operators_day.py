"""A day in an operator's life: how often a person is asked for an approval, and that the slip alone is stopped."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from plimsoll_agent.catalogue.orders import Orders
from plimsoll_agent.catalogue.qosspec import QosSpec
from plimsoll_agent.model.approvals import digest_of_change
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code
from plimsoll_agent.policy.decide import Situation
from plimsoll_agent.policy.memory import releasing
from plimsoll_agent.reconcile.outcome import Mode
from plimsoll_agent.rules.model import Match, Rule, Rules
from plimsoll_agent.store.state import State
from plimsoll_agent.util.frozen import replace
from tests import depth
from tests.fakes import FakeGuest
from tests.unit.clouds import a_catalogue, a_server, a_spec, a_type, orders_for
from tests.unit.node import Node, a_volume, guest, own_disk

NODES = [1, depth.count(quick=5, landing=10, soak=50)]
NOISY, OWN = "noisy", ("ephemeral",)


class Cloud:
    """Nodes of three disks each: a volume of type gold, one of a type by its size, and the guest's own."""

    def __init__(self, directory: Path, nodes: int) -> None:
        self.specs: dict[str, QosSpec | None] = {
            "gold": a_spec("gold", total_iops_sec="3000"),
            "bronze": a_spec("bronze", total_iops_sec="60"),
            "by-size": a_spec("by-size", total_iops_sec_per_gb="10"),
        }
        self.types: dict[str, str] = {}
        self.orders = Orders()
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

    def released(self, volume_type: str) -> int:
        """A person releases what is orphaned of the type, as ``approve --remove --type`` does; returns on how many
        nodes there was something to release.
        """
        nodes = 0
        for node in self.nodes:
            planned = node.run(Mode.PLAN)
            orphans = [
                outcome.disk
                for outcome in planned.outcomes
                if outcome.result.reason.code is Code.ORPHANED and outcome.disk.volume_type == volume_type
            ]
            if orphans:
                nodes += 1
                memory = node.state.load_memory()
                assert memory is not None
                released = {**memory.disks, **releasing(orphans, planned.situation.memory)}
                node.state.save_memory(replace(memory, disks=released))
        return nodes

    def stopped(self) -> int:
        """On how many nodes the brake stops what nobody approves of."""
        stopped = 0
        for node in self.nodes:
            self._refresh(node)
            stopped += node.run().braked is not None
        return stopped

    def _refresh(self, node: Node) -> None:
        met = node.state.load_attachments()
        types = {name: a_type(name, spec) for name, spec in self.specs.items()}
        node.rules = Rules(rules=self.rules, revision=digest_of_change(repr(self.rules), Limits()))
        node.catalogue = a_catalogue(
            *[spec for spec in self.specs.values() if spec is not None],
            types=list(types.values()),
            volumes={volume: types[self.types[volume]] for volume in met.marks_of_volumes()},
            met=met,
            servers={uuid: a_server(met, uuid) for uuid in met.guests},
        )
        node.orders = self.orders

    def _revision(self, node: Node) -> str:
        return Situation(now=node.now, rules=node.rules, catalogue=node.catalogue).revision

    def has(self, target: str) -> set[int]:
        guests = [each for node in self.nodes for each in node.hypervisor.by_uuid.values()]
        return {each.disks[target].actual.total_iops_sec for each in guests}


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
    assert 60 in cloud.has("vdb")

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
    assert 60 in cloud.has("vdb"), "orphaned limits are kept until a person releases them"

    released = {"release the limits of the deleted spec": cloud.released("bronze")}
    asks["the passes after the release"] = cloud.passes()
    assert 60 not in cloud.has("vdb")
    first.hypervisor.restart(one, Limits(total_iops_sec=60))
    asks["a reboot that brings released limits back"] = cloud.passes()
    assert 60 not in cloud.has("vdb")

    cloud.specs["by-size"] = None
    asks["delete a spec that volumes of every node have"] = cloud.passes()
    assert cloud.has("vdb") == ({0, 100} if nodes > 1 else {0})
    assert first.catalogue is not None
    cloud.orders = orders_for(first.catalogue, a_type("by-size", None), until=first.now + timedelta(days=7))
    asks["release them by one approval of the region"] = cloud.passes()
    assert cloud.has("vdb") == {0}

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
    assert released == {"release the limits of the deleted spec": 1}
