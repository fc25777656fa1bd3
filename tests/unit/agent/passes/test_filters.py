"""Disks behind libvirt's throttle filters: told with the limits that hold, and never written to."""

from __future__ import annotations

from pathlib import Path

import pytest

from plimsoll_agent.errors import Rejected
from plimsoll_agent.messages import sentences
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.reconcile.outcome import Kind, Mode
from plimsoll_agent.rules.model import Rules
from plimsoll_agent.util.frozen import replace
from tests.fakes import domain_xml
from tests.unit.agent.reconcile.test_undo import Person
from tests.unit.node import DEFAULT, Node, a_volume, codes, guest, kinds, uuid_of

GROUPS = (
    "<throttlegroups><throttlegroup><total_iops_sec>300</total_iops_sec><group_name>limit0</group_name>"
    "</throttlegroup></throttlegroups>"
)
FILTER = "<throttlefilters><throttlefilter group='limit0'/></throttlefilters>"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """Its guest has vda behind a filter, and vdb without."""
    node = Node(tmp_path, guest(1, a_volume(0), a_volume(1)))
    filter_vda(node)
    return node


def filter_vda(node: Node, total_iops_sec: int = 300) -> None:
    there = node.hypervisor.by_uuid[uuid_of(1)]
    text = domain_xml(there).replace("<devices>", f"{GROUPS.replace('300', str(total_iops_sec))}<devices>")
    there.xml = text.replace("<target dev='vda' bus='virtio'/>", f"<target dev='vda' bus='virtio'/>{FILTER}")


@pytest.mark.parametrize("mode", Mode)
def test_it_is_left_alone_with_its_limits_and_the_other_disk_is_not(node: Node, mode: Mode) -> None:
    passed = node.run(mode)
    filtered, other = passed.outcomes
    assert filtered.result.kind is Kind.LEFT_ALONE
    assert filtered.after.actual == Limits(total_iops_sec=300, group_name="throttle-limit0")
    assert passed.failures == passed.unknown == 0
    assert other.change is not None
    told = "left alone: limited by libvirt's throttle filters: limit0 (300 IOPS)"
    assert sentences.state_words(filtered) == told
    assert {write[1] for write in node.hypervisor.writes} == ({"vdb"} if mode is Mode.ENFORCE else set())


def test_filters_whose_limits_are_unknown_are_what_is_reported_of_the_disk(node: Node) -> None:
    """And not that QEMU was not asked, which tells an operator nothing."""
    there = node.hypervisor.by_uuid[uuid_of(1)]
    assert there.xml is not None
    there.xml = there.xml.replace(GROUPS, "")
    behind, _ = node.run().outcomes
    assert behind.result.kind is Kind.LEFT_ALONE
    assert behind.disk.actual == Unknown(because(Code.THROTTLE_FILTERS, groups={"limit0": None}))


def test_no_hold_and_no_command_line_reaches_it(node: Node) -> None:
    node.hold(1, "vda", Limits(total_iops_sec=50))
    assert codes(node.run())[0] is Code.THROTTLE_FILTERS
    node.rules = Rules(command_line=Limits(total_iops_sec=7))
    assert codes(node.run())[0] is Code.THROTTLE_FILTERS


def test_what_was_remembered_from_before_its_filters_is_not_written(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1, a_volume(0), a_volume(1)))
    assert kinds(node.run()) == ["changed", "changed"]
    filter_vda(node)
    node.rules = Rules(default=replace(DEFAULT, total_iops_sec=99))
    node.hypervisor.writes.clear()
    passed = node.run()
    assert kinds(passed)[0] == "left-alone"
    assert passed.failures == 0
    assert {write[1] for write in node.hypervisor.writes} == {"vdb"}


def test_an_undo_writes_to_the_other_disk_alone(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1, a_volume(0), a_volume(1)))
    moment = node.now
    node.run()
    filter_vda(node, total_iops_sec=DEFAULT.total_iops_sec)
    there = node.hypervisor.by_uuid[uuid_of(1)]
    wide = "<throttlegroup><total_bytes_sec>104857600</total_bytes_sec><group_name>wide</group_name></throttlegroup>"
    text = str(there.xml).replace("</throttlegroups>", f"{wide}</throttlegroups>")
    there.xml = text.replace("</throttlefilters>", "<throttlefilter group='wide'/></throttlefilters>")
    assert node.seen(1, "vda").actual == DEFAULT, "as the pass left it"
    undone = Person(node).undo(moment)
    assert {write[1:] for write in node.hypervisor.writes[2:]} == {("vdb", Limits())}
    assert [(each.disk.target, each.result.kind) for each in undone.undone] == [
        ("vda", Kind.LEFT_ALONE),
        ("vdb", Kind.CHANGED),
    ]


def test_a_group_of_filters_is_given_to_no_other_disk(node: Node) -> None:
    node.rules = Rules(default=Limits(total_iops_sec=90, group_name="throttle-limit0"))
    passed = node.run()
    assert codes(passed) == [Code.THROTTLE_FILTERS, Code.GROUP_OF_FILTERS]
    assert kinds(passed)[1] == "deferred"
    assert node.hypervisor.writes == []
    node.rules = Rules(default=Limits(total_iops_sec=90, group_name="limit0"))
    assert kinds(node.run())[1] == "changed", "QEMU has another name for the group of filters"


def test_a_group_of_filters_that_came_just_before_the_write_is_seen(node: Node) -> None:
    there = node.hypervisor.by_uuid[uuid_of(1)]
    there.xml = None
    node.rules = Rules(default=Limits(total_iops_sec=90, group_name="throttle-limit0"))
    looks = iter((lambda: node.hypervisor.before.update(look=lambda: filter_vda(node)),))
    node.hypervisor.before["look"] = next(looks)
    passed = node.run()
    assert codes(passed) == [Code.CHANGED_SINCE, Code.CHANGED_SINCE]
    assert node.hypervisor.writes == []


def test_the_fake_refuses_as_libvirt_does(node: Node) -> None:
    with pytest.raises(Rejected, match="throttlefilters"):
        node.hypervisor.set_limits(node.seen(1, "vda"), Limits(total_iops_sec=5))
