"""A pass that is killed at any moment: nothing raised, no wrong limit, a record without a gap and without a lie."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Callable
from itertools import groupby, pairwise
from pathlib import Path

import pytest

from lab.cloud import Cloud, Guest
from lab.looking import actual
from lab.node import Node
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.model.entries import Ending, RecordedChange
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.store import record_query
from plimsoll_agent.store.record_query import Selection
from tests import depth

pytestmark = [pytest.mark.hurt, pytest.mark.core]

KILLS = depth.count(quick=4, landing=12, soak=100)  # even: the last one is followed by a whole pass
# So many must meet changes under way, or they prove nothing.
MET = KILLS // 3
Guests = Callable[..., list[Guest]]


def test_killed_at_any_moment_the_next_pass_is_clean_and_the_record_tells_the_truth(
    tmp_path: Path, cloud: Cloud, guests: Guests, hypervisor: Libvirt
) -> None:
    made = guests(6)
    scope = [word for guest in made for word in ("--guest", guest.uuid)]
    node = Node(tmp_path, cloud, rules(9000))
    node.run("enforce", *scope)  # a first time, to have everything in the caches
    node.write_rules(rules(8999))
    process = node.start("enforce", *scope)
    wait_for_an_intent(process, node)
    began = time.monotonic()
    process.communicate()
    assert process.returncode == 0
    writing = time.monotonic() - began

    moments, in_the_middle = random.Random(20261121), 0
    for number in range(KILLS):
        iops = 8998 - number  # tighter each time: whatever is looser than before was never meant
        node.write_rules(rules(iops))
        before = len(rows(node))
        process = node.start("enforce", *scope, installed=number % 4 == 3)
        if number % 4 == 3:  # at any moment from the start on
            time.sleep(moments.uniform(0, 2 * writing))
        else:
            wait_for_an_intent(process, node)
            # Half of it, as the rest is for the results and the memory; rather early, as this pass may be faster.
            time.sleep(writing / 2 * moments.random() ** 2)
        process.kill()
        process.communicate()
        meanwhile = {limit(hypervisor, guest, target) for guest in made for target in ("vda", "vdb")}
        assert meanwhile <= {Limits(total_iops_sec=iops + older) for older in range(3)}, number
        in_the_middle += len(rows(node)) > before and meanwhile != {Limits(total_iops_sec=iops)}
        if number % 2:  # every other time the next pass is the one that is killed
            after = node.run("enforce", *scope)
            assert after.status == 0, after.out + after.err
            assert all(limit(hypervisor, g, t) == Limits(total_iops_sec=iops) for g in made for t in ("vda", "vdb"))
            assert "left alone" not in after.out, "no limit of ours is taken for another's"
    assert in_the_middle >= MET, "too few of the kills met changes under way to prove anything"

    assert node.run("record", "--verify").status == 0
    every = rows(node)
    assert [row.id for row in every] == list(range(1, len(every) + 1)), "no gap"
    assert not [row for row in every if row.open], "nothing is left open"
    by_disk = sorted(every, key=lambda row: (row.disk.key, row.id))
    for key, of_disk in groupby(by_disk, key=lambda row: row.disk.key):
        took = [row for row in of_disk if row.result in (Ending.DONE, Ending.TOOK)]
        for earlier, later in pairwise(took):
            assert later.before == earlier.after, f"{key}: a change is missing, or one that took is said not to have"
        (now,) = {limit(hypervisor, g, t) for g in made for t in ("vda", "vdb") if disk_key(hypervisor, g, t) == key}
        assert took[-1].after == now


def wait_for_an_intent(process: subprocess.Popen[str], node: Node) -> None:
    """Returns when the pass is about to make its first change, or has ended."""
    while process.poll() is None and not node.record.unsettled():
        time.sleep(0.003)


def rules(iops: int) -> str:
    return f"default: {{limits: {{total_iops_sec: {iops}}}}}\n"


def rows(node: Node) -> list[RecordedChange]:
    return [entry for entry in record_query.entries(node.record, Selection()) if isinstance(entry, RecordedChange)]


def limit(hypervisor: Libvirt, guest: Guest, target: str) -> Limits:
    return actual(hypervisor, guest.uuid, target)


def disk_key(hypervisor: Libvirt, guest: Guest, target: str) -> str:
    from lab.looking import disk_of

    return disk_of(hypervisor, guest.uuid, target).key
