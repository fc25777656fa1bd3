"""A region's slots on a real etcd, while nodes and etcd itself are killed and frozen."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import etcd3gw
import pytest

from lab.cloud import ports
from lab.cloud.etcd import Etcd
from plimsoll_probes.adapters import slots
from plimsoll_probes.model.finding import Trouble, Why
from tests import depth

pytestmark = pytest.mark.hurt

NODES, SLOTS = 12, 3
LONGEST, DEADLINE, MARGIN = 4.0, 2.0, 1.0
TTL = slots.lease_for(LONGEST, DEADLINE, MARGIN)
# What two busy cores may add to anything.
SLACK = 1.5
ROUNDS = depth.count(quick=1, landing=1, soak=5)
# Of an etcd that was killed, in seconds.
OUTAGE = depth.count(quick=3, landing=3, soak=10)


@dataclass(frozen=True)
class Entry:
    """A line of the nodes' log; times are the machine's monotonic clock."""

    word: str
    node: str
    began: float
    ended: float

    def during(self, moment: float) -> bool:
        return self.began <= moment < self.ended


class Region:
    """Twelve nodes, each a process that probes whenever it gets a slot. A killed one is started again, as by its
    timer."""

    def __init__(self, url: str, log: Path) -> None:
        self.log = log
        self._url = url
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        log.touch()

    def start(self) -> None:
        for number in range(NODES):
            self._start(f"node-{number}")

    def _start(self, node: str) -> None:
        arguments = {"url": self._url, "count": SLOTS, "node": node, "log": str(self.log)}
        bounds = {"longest": LONGEST, "deadline": DEADLINE, "margin": MARGIN}
        script = Path(__file__).with_name("slotnode.py")
        self._nodes[node] = subprocess.Popen([sys.executable, script, json.dumps(arguments | bounds)])

    def end(self) -> None:
        for process in self._nodes.values():
            process.kill()
            process.wait()

    def entries(self, word: str) -> list[Entry]:
        every = [Entry(*json.loads(line)) for line in self.log.read_text().splitlines()]
        return [entry for entry in every if entry.word == word]

    def prober(self) -> str:
        """A node that has just begun a probe and goes on with it for another moment."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            probing = [one.node for one in self.entries("probe") if one.during(time.monotonic() + 0.5)]
            if probing:
                return random.choice(probing)
            time.sleep(0.05)
        raise AssertionError("nobody probes")

    def kill_a_prober(self) -> None:
        node = self.prober()
        self._nodes[node].kill()
        self._nodes[node].wait()
        self._start(node)

    def signal(self, node: str, number: int) -> None:
        os.kill(self._nodes[node].pid, number)

    def crashed(self) -> list[str]:
        return [node for node, process in self._nodes.items() if process.poll() is not None]


@pytest.fixture(autouse=True)
def _all_free(etcd: Etcd) -> Iterator[None]:
    """Killed nodes leave their locks behind for as long as the leases last."""
    yield
    etcd.daemon.heal()
    client = etcd3gw.client(port=ports.ETCD)
    client.delete_prefix("/tooz/locks")
    client.session.close()


@pytest.fixture
def region(etcd: Etcd, tmp_path: Path) -> Iterator[Region]:
    region = Region(etcd.url, tmp_path / "log")
    yield region
    region.end()


def most_at_once(probes: list[Entry]) -> int:
    return max(sum(one.during(other.began) for one in probes) for other in probes)


@dataclass(frozen=True)
class Outage:
    """etcd was away from ``begun`` to ``over``, and served again at ``back``."""

    begun: float
    over: float
    back: float


def outage(begin: Callable[[], object], end: Callable[[], object], seconds: float) -> Outage:
    begin()
    begun = time.monotonic()
    time.sleep(seconds)
    over = time.monotonic()
    end()
    return Outage(begun, over, time.monotonic())


@dataclass(frozen=True)
class Frozen:
    """A node that was stopped until ``thawed``, for longer than its lease lasts."""

    node: str
    thawed: float


def killed_and_frozen(region: Region) -> Frozen:
    """Two nodes are killed. One is as behind a partition: its guests go on, its lease ends, others take its slot."""
    region.kill_a_prober()
    frozen = region.prober()
    region.signal(frozen, signal.SIGSTOP)
    froze = time.monotonic()
    region.kill_a_prober()
    time.sleep(max(0, froze + TTL + 0.5 - time.monotonic()))
    region.signal(frozen, signal.SIGCONT)
    return Frozen(frozen, time.monotonic())


@pytest.mark.timeout(120 * ROUNDS)
def test_twelve_nodes_never_probe_more_than_three_at_once_whatever_is_killed_or_frozen(
    etcd: Etcd, region: Region
) -> None:
    outages: list[Outage] = []
    thawed: list[Frozen] = []
    region.start()
    for _ in range(ROUNDS):
        thawed.append(killed_and_frozen(region))
        outages.append(outage(etcd.daemon.kill, etcd.daemon.start, OUTAGE))
        region.kill_a_prober()
        outages.append(outage(etcd.daemon.stop, etcd.daemon.cont, TTL + 1.5))
        region.prober()

    assert region.crashed() == []
    probes = region.entries("probe")
    assert most_at_once(probes) == SLOTS
    turns = Counter(one.node for one in probes)
    # Locks are not a queue: whose turn it is is chance, so some of twelve may well go without for half a minute, and
    # more of them on a busy machine, with its few turns. Fewer than that means that a node holds on to what it should
    # give back.
    assert len(turns) > min(NODES / 2, len(probes) / 3), turns
    for away in outages:
        assert [one for one in probes if away.begun + SLACK / 3 < one.began < away.over] == []
        # An etcd that was restarted has elected its leader first, and gives every lease its whole time again.
        assert [one for one in probes if away.back < one.began < away.back + TTL + 2 * SLACK] != []
    for word in ("attempt", "ensure", "leave"):
        asked = [
            one
            for one in region.entries(word)
            if not any(one.node == frozen.node and one.during(frozen.thawed) for frozen in thawed)
        ]
        # Twelve nodes share two cores with other tests; without the deadline it would be the outage's length.
        assert max(one.ended - one.began for one in asked) < DEADLINE + 2 * SLACK, word
    print(f"{len(probes)} probes, {min(turns.values())} to {max(turns.values())} a node")


def acquire(etcd: Etcd, node: str, count: int = SLOTS, **more: Any) -> Any:
    keywords: dict[str, Any] = {"ttl": TTL, "deadline": DEADLINE, "margin": MARGIN} | more
    return slots.acquire(etcd.url, count, node=node, **keywords)


def refused(etcd: Etcd, **more: Any) -> str:
    """Why, or nothing."""
    try:
        with acquire(etcd, "asks", **more):
            return ""
    except Trouble as trouble:
        return str(trouble.facts["detail"])


def test_killed_holders_free_their_slots_when_the_lease_ends_and_not_before(etcd: Etcd) -> None:
    """Each holds one, on a lease that it has just renewed."""
    script = (
        "import sys, time; from plimsoll_probes.adapters import slots\n"
        f"with slots.acquire({etcd.url!r}, {SLOTS}, node=sys.argv[1], ttl={TTL}, deadline=5, margin=0) as held:\n"
        "    began = time.monotonic(); held.ensure(1); print(began, flush=True); time.sleep(60)\n"
    )
    holders = [
        subprocess.Popen([sys.executable, "-c", script, str(number)], stdout=subprocess.PIPE, text=True)
        for number in range(SLOTS)
    ]
    try:
        renewed = [float(holder.stdout.readline()) for holder in holders if holder.stdout]
    finally:
        for holder in holders:
            holder.kill()
            holder.communicate()
    killed = time.monotonic()
    assert refused(etcd) == "all 3 slots of the region are taken"
    while refused(etcd):
        assert time.monotonic() < killed + TTL + SLACK
        time.sleep(0.1)
    assert time.monotonic() > min(renewed) + TTL


def test_a_lease_that_ended_unnoticed_is_noticed_before_the_next_job(etcd: Etcd) -> None:
    """tooz' own heartbeat says True all the time."""
    pool = "pool:5f1c/vms"
    late = acquire(etcd, "late", 1, names=[pool], ttl=3, margin=0)
    held = late.__enter__()
    held.ensure(1)
    assert refused(etcd, count=1) == "the one slot of the region is taken"
    assert refused(etcd, count=2, names=[pool]) == f"another node of the region holds {pool}"
    time.sleep(3 + SLACK)
    with acquire(etcd, "next", 1, names=[pool]) as other:
        with pytest.raises(Trouble) as caught:
            held.ensure(1)
        assert caught.value.why is Why.NO_SLOT
        assert "lost" in str(caught.value.facts["detail"])
        late.__exit__(None, None, None)
        other.ensure(1)
    assert refused(etcd, count=1, names=[pool]) == ""
