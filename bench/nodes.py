"""``script/bench nodes``: what the nodes of a region ask of Keystone and Cinder, seen from there.

Keystone and Cinder are real, with as many volumes in Cinder's database as the nodes have; so are the requests, which
the services themselves log. The nodes are directories, on which a few processes run the refresher's own code with the
node's time: 750 interpreters on one machine would measure the machine.

First all nodes start at once without a catalogue, as after an outage of the whole region, in real time. Then an hour
of their steady state passes, in a few minutes: what was read long ago is asked for again, volumes are attached, and
each refresh is an authentication too. Last, one machine asks for all of them, and writes the region's file.

Not to be taken from here: Keystone's share as shipped. The lab's checks a secret with 2^4 rounds of bcrypt; with 2^12
each authentication costs it a fifth of a second more.
"""

from __future__ import annotations

import argparse
import heapq
import multiprocessing
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from multiprocessing.pool import AsyncResult, Pool
from pathlib import Path

from cryptography.hazmat.primitives import serialization as pem
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bench.lab import in_lab, say
from bench.measure import Cost, once
from bench.simulated import Node
from bench.volumes import fill
from bench.ways import PLIMSOLL
from lab.cloud import Cloud, Daemon, Login, OpenStack, Request
from plimsoll_agent.config import settings as config

TYPES = 20
HOUR = 3600.0
READ_AGAIN = timedelta(days=1)
# What a refresher needs: docs say the same to operators.
ACCESS = [
    ("block-storage", "GET", path) for path in ("/v3/qos-specs", "/v3/types", "/v3/volumes/detail", "/v3/volumes/*")
]
PROCESSES = 3


def main(words: Sequence[str]) -> int:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="script/bench nodes", description=__doc__, formatter_class=layout)
    parser.add_argument("--nodes", type=int, default=750, metavar="N", help="default: %(default)s")
    parser.add_argument("--volumes", type=int, default=40, metavar="N", help="attached to each node; default: 40")
    parser.add_argument(
        "--every", type=float, default=300, metavar="SECONDS", help="of the timer (OnUnitActiveSec); default: 300"
    )
    parser.add_argument(
        "--jitter", type=float, default=300, metavar="SECONDS", help="its RandomizedDelaySec; default: 300"
    )
    parser.add_argument(
        "--attached", type=float, default=2, metavar="N", help="new volumes of each node in an hour; default: 2"
    )
    parser.add_argument(
        "--hour", type=float, default=600, metavar="SECONDS", help="that the hour is made to take; default: 600"
    )
    arguments = parser.parse_args(words)

    def measure(cloud: Cloud) -> None:
        with tempfile.TemporaryDirectory() as home:
            Bench(cloud, Path(home), arguments).run()

    return in_lab(measure, ("ceph", "openstack"))


@dataclass
class Watched:
    """What the services did in some time: requests of plimsoll's, and CPU seconds, without those of their own."""

    requests: list[Request] = field(default_factory=list)
    cinder: float = 0
    keystone: float = 0

    @property
    def calls(self) -> list[Request]:
        """Authentication and discovery are not among them."""
        return [request for request in self.requests if request.service == "cinder" and request.path not in _FOUND]

    def peak(self, seconds: float) -> float:
        """Calls a second, over the busiest so many seconds."""
        began = sorted(request.began for request in self.calls)
        busiest, first = 0, 0
        for last, moment in enumerate(began):
            while began[first] <= moment - seconds:
                first += 1
            busiest = max(busiest, last - first + 1)
        return busiest / seconds


_FOUND = ("", "/", "/v3", "/v3/")


class Services:
    """Keystone and Cinder, watched from outside."""

    def __init__(self, openstack: OpenStack) -> None:
        self._openstack = openstack
        began, seconds = self._used(), 10
        time.sleep(seconds)
        self._idle = [(after - before) / seconds for before, after in zip(began, self._used(), strict=True)]

    @contextmanager
    def watched(self) -> Iterator[Watched]:
        into = Watched()
        mark, began, clock = self._openstack.mark(), self._used(), time.monotonic()
        yield into
        seconds = time.monotonic() - clock
        into.requests = self._openstack.requests_since(mark, "plimsoll")
        into.cinder, into.keystone = (
            max(0.0, after - before - idle * seconds)
            for before, after, idle in zip(began, self._used(), self._idle, strict=True)
        )

    def _used(self) -> list[float]:
        return [_cpu(daemon) for daemon in (self._openstack.cinder, self._openstack.keystone)]


def _cpu(daemon: Daemon) -> float:
    """Seconds of user and system time so far (proc_pid_stat(5): fields 14 and 15)."""
    words = Path(f"/proc/{daemon.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


class Bench:
    """The nodes, and their time."""

    def __init__(self, cloud: Cloud, home: Path, arguments: argparse.Namespace) -> None:
        self._home = home
        self._arguments = arguments
        self._openstack = cloud.openstack
        number = arguments.nodes * arguments.volumes
        say(f"making {number} volumes of {TYPES} types in Cinder's database")
        self._volumes = fill(cloud, number, TYPES)
        login = cloud.openstack.create_application_credential(cloud.openstack.admin, "nodes", access_rules=ACCESS)
        self._write_settings(login)
        self._settings = config.load([home / "plimsoll.conf"])
        self._nodes = [Node.made(home / str(n), self._settings) for n in range(arguments.nodes)]
        self._services = Services(cloud.openstack)

    def _write_settings(self, login: Login) -> None:
        credentials = self._home / "openstack.conf"
        credentials.touch(mode=0o600)
        said = {
            "auth_type": login.auth_type,
            "auth_url": self._openstack.auth_url,
            "region_name": self._openstack.region,
        }
        lines = [f"{name} = {value}" for name, value in (said | login.auth).items()]
        credentials.write_text("\n".join(["[openstack]", *lines, ""]))
        (self._home / "plimsoll.conf").write_text(
            f"[catalogue]\nsource = openstack\ncredentials_file = {credentials}\nnova = false\n"
        )

    def run(self) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["bench.simulated", "plimsoll_agent.adapters.openstack"])
        # Each session of keystoneauth leaves a thread behind, which in a real node ends with its process.
        with context.Pool(PROCESSES, maxtasksperchild=200) as pool:
            self._warm_up(pool)
            restart = self._restart(pool)
            steady = self._steady(pool)
        region, cost = self._region()
        self._show(restart, steady, region, cost)

    def _warm_up(self, pool: Pool) -> None:
        """What a service does but once is not the nodes' doing."""
        crew = _Crew(pool, datetime.now(UTC))
        for number in range(5):
            node = Node.made(self._home / f"first-{number}", self._settings)
            node.attach(self._volumes[: number + 1], datetime.now(UTC))
            crew.refresh(node, 0)
        crew.rest()

    def _restart(self, pool: Pool) -> Watched:
        jitter, each = self._arguments.jitter, self._arguments.volumes
        say(f"all nodes start at once, in real time: {jitter:.0f} s")
        now = datetime.now(UTC)
        for number, node in enumerate(self._nodes):
            node.attach(self._volumes[number * each : (number + 1) * each], now)
        crew = _Crew(pool, now)
        with self._services.watched() as watched:
            for moment, number in sorted((random.uniform(0, jitter), n) for n in range(len(self._nodes))):
                crew.refresh(self._nodes[number], moment)
            crew.rest()
        return watched

    def _steady(self, pool: Pool) -> Watched:
        every, jitter, pace = self._arguments.every, self._arguments.jitter, HOUR / self._arguments.hour
        say(f"an hour of their steady state, in {self._arguments.hour:.0f} s")
        # Later than the start: the lists that were read there are due at some time of the first quarter.
        now = datetime.now(UTC) + timedelta(seconds=every + jitter)
        for node in self._nodes:
            node.spread_reading(now, READ_AGAIN)
        crew = _Crew(pool, now, pace)
        ticks = [(random.uniform(0, every + jitter / 2), n) for n in range(len(self._nodes))]
        heapq.heapify(ticks)
        with self._services.watched() as watched:
            while ticks[0][0] < HOUR:
                moment, number = ticks[0]
                heapq.heapreplace(ticks, (moment + every + random.uniform(0, jitter), number))
                new = self._attached_since(every + jitter / 2)
                crew.refresh(self._nodes[number], moment, new)
            crew.rest()
        return watched

    def _attached_since(self, seconds: float) -> list[str]:
        """As many volumes as come to one node in that time; the mean is what counts."""
        mean = self._arguments.attached * seconds / HOUR
        number = int(mean) + (random.random() < mean % 1)
        return random.sample(self._volumes, number)

    def _region(self) -> tuple[Watched, Cost]:
        """One run of the region's machine."""
        say("one machine asks for all")
        write_key(self._home)
        words = ["catalogue", "refresh", f"--region-file={self._home}/region", f"--signing-key={self._home}/key"]
        with self._services.watched() as watched:
            cost = once([PLIMSOLL, f"--config-file={self._home}/plimsoll.conf", *words], os.environ)
        return watched, cost

    def _show(self, restart: Watched, steady: Watched, region: Watched, cost: Cost) -> None:
        nodes, jitter = len(self._nodes), self._arguments.jitter
        say(
            f"\n{nodes} nodes with {self._arguments.volumes} volumes each, {TYPES} volume types with a QoS spec each;"
        )
        say(f"timer: every {self._arguments.every:.0f} s and up to {jitter:.0f} s at random;")
        say(f"{self._arguments.attached:g} volumes attached to each node in an hour")
        say(f"\n{'an hour of the steady state':34}{'each node asks':>18}{'one asks for all':>18}")
        for name, value in _ROWS:
            say(f"  {name:32}{value(steady):18.1f}{_RUNS * value(region):18.1f}")
        a_node = len(steady.calls) / nodes
        say(f"  {'calls of one node':32}{a_node:18.1f}{0:18.1f}")
        for call, count in Counter(request.call for request in steady.calls).most_common():
            say(f"    {call:30}{count / nodes:18.1f}")
        say(f"\nall nodes start at once, without a catalogue, each within {jitter:.0f} s")
        for name, value in _ROWS:
            say(f"  {name:32}{value(restart):18.1f}")
        say(f"  {'calls a second, busiest second':32}{restart.peak(1):18.1f}")
        say(f"  {'calls a second, busiest 10 s':32}{restart.peak(10):18.1f}")
        size = (self._home / "region").stat().st_size / 2**20
        say(f"\none run of the one that asks for all: {len(region.calls)} calls in {cost.wall:.1f} s,")
        say(f"  {cost.cpu:.1f} s of its own CPU, {cost.memory / 1024:.0f} MiB at the most, a file of {size:.2f} MiB")
        say("\ngoal")
        say(f"  {'met   ' if a_node <= 12 else 'MISSED'}  at most 12 calls of a node in an hour: {a_node:.1f}")


_TOO_LATE = 5.0
_RUNS = 4
"""In an hour, of the machine that asks for all: [catalogue] interval is 900 s as it is shipped."""
_ROWS: tuple[tuple[str, Callable[[Watched], float]], ...] = (
    ("calls", lambda watched: len(watched.calls)),
    ("authentication and discovery", lambda watched: len(watched.requests) - len(watched.calls)),
    ("Cinder, s of CPU", lambda watched: watched.cinder),
    ("Keystone, s of CPU", lambda watched: watched.keystone),
)


class _Crew:
    """Processes that refresh nodes when it is time; ``pace`` is how much faster than ours the nodes' clocks go."""

    def __init__(self, pool: Pool, now: datetime, pace: float = 1.0) -> None:
        self._pool = pool
        self._now = now
        self._pace = pace
        self._began = time.monotonic()
        self._late = 0.0
        self._under_way: list[AsyncResult[tuple[str | None, float]]] = []

    def refresh(self, node: Node, moment: float, attached: Sequence[str] = ()) -> None:
        """When the nodes' clocks are at that moment, in seconds; they may not be asked to go back."""
        due = self._began + moment / self._pace
        time.sleep(max(0.0, due - time.monotonic()))
        at = self._now + timedelta(seconds=moment)
        self._under_way.append(self._pool.apply_async(_refresh, (node, at, list(attached), due)))

    def rest(self) -> None:
        """Wait until all is done. Raises ``RuntimeError`` when something did not succeed."""
        told = [answer.get() for answer in self._under_way]
        troubles = [trouble for trouble, _ in told if trouble]
        if troubles:
            raise RuntimeError(f"{len(troubles)} of {len(told)} refreshes did not succeed, the first: {troubles[0]}")
        late = max(late for _, late in told)
        slow = "" if late < _TOO_LATE else ": this machine is TOO SLOW, and no peak is of the nodes' making"
        say(f"  {len(told)} refreshes, the latest begun {late:.1f} s after its time{slow}")


def _refresh(node: Node, now: datetime, attached: list[str], due: float) -> tuple[str | None, float]:
    """In one of the crew's processes; returns what went wrong, and how late it began, in real seconds."""
    late = time.monotonic() - due
    if attached:
        node.attach(attached, now)
    return node.refresh(now), late


def write_key(home: Path) -> None:
    """A pair of keys as ``openssl genpkey -algorithm ed25519`` makes it: ``key``, ``key.pub``."""
    key, file = Ed25519PrivateKey.generate(), home / "key"
    file.touch(mode=0o600)
    file.write_bytes(key.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.NoEncryption()))
    public = key.public_key().public_bytes(pem.Encoding.PEM, pem.PublicFormat.SubjectPublicKeyInfo)
    file.with_name("key.pub").write_bytes(public)
