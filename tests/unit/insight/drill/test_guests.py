"""What the disks of a node do, as lines of a recording."""

from __future__ import annotations

from plimsoll_insight.drill.guests import GuestDisks
from tests.unit.agent.top.test_sampler import A, B, Node


def rounds(node: Node, guests: GuestDisks, number: int = 1) -> list[dict[str, object]]:
    """The lines of the last of so many rounds, without samples of disks that are known."""
    told: list[dict[str, object]] = []
    for _ in range(number):
        node.clock.now += 1
        told = [dict(line) for _, line in guests()]
    assert list(told[-1]) == ["disks"]
    return told


def test_a_disk_that_leaves_is_told_as_gone_and_told_again_when_it_comes_back() -> None:
    node = Node()
    guests = GuestDisks(node.sampler, lambda at: at, node.clock)
    a, b = {"disk": [0, "a", A, "vda"]}, {"disk": [1, "b", B, "vda"]}
    first = rounds(node, guests)
    assert first[:-1] == [a, b]
    [known] = rounds(node, guests)
    assert "u" not in str(known["disks"])
    del node.hypervisor.by_uuid[B]
    assert rounds(node, guests)[:-1] == [{"gone": [1]}]
    assert rounds(node, guests)[:-1] == []
    node.hypervisor.by_uuid[B] = node.b
    *lines, sample = rounds(node, guests)
    assert lines == [b]
    # There is no reading before this one to tell what it did.
    assert "'u': [1]" in str(sample)
    [known] = rounds(node, guests)
    assert "u" not in str(known["disks"])


def test_a_guest_that_does_not_answer_is_not_gone() -> None:
    node = Node()
    guests = GuestDisks(node.sampler, lambda at: at, node.clock)
    rounds(node, guests, 2)
    node.b.trouble = OSError("no answer")
    assert [list(line) for line in rounds(node, guests, 3)] == [["disks"]]
