"""A real CephFS with three active ranks: what its balancer does is seen as it was, and ended and undone."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.cloud import Cloud
from lab.cloud.filesystem import FileSystem, file_system
from lab.node import Node
from tests import depth

pytestmark = pytest.mark.hurt

CLIENTS = 3
WATCHED = depth.count(quick=30, landing=45, soak=45)
RATE = 150
RUNS = depth.count(quick=0, landing=0, soak=10)
"""Of each kind of load."""
MOST_WRONG = RUNS // 10
PERIOD = 5.0
"""Seconds after which all clients create in another directory."""
PINS = ("ceph.dir.pin", "ceph.dir.pin.distributed", "ceph.dir.pin.random")


@pytest.fixture(scope="module")
def ranks(cloud: Cloud) -> Iterator[FileSystem]:
    with file_system(cloud.ceph, cloud.layout, cloud.namespace) as made:
        yield made
    cloud.ceph.wait_healthy(steady=1)


@pytest.fixture
def node(tmp_path: Path, cloud: Cloud) -> Node:
    return Node(tmp_path, cloud, mode="observe")


def asked(cloud: Cloud) -> list[str]:
    return ["--ceph-conf", str(cloud.ceph.conf), "--id", "admin"]


def watched(node: Node, cloud: Cloud, seconds: int, *words: str) -> list[dict[str, Any]]:
    words = ("mds", "watch", *asked(cloud), "--for", f"{seconds}s", "--interval", "3s", *words, "-f", "json")
    ran = node.run(*words, timeout=seconds + 90)
    assert (ran.status, ran.err) == (0, "")
    rows: list[dict[str, Any]] = ran.data()
    return rows


def settings(cloud: Cloud, ranks: FileSystem, mount: Path) -> dict[str, Any]:
    """All that `mds settle` may change, to the byte."""
    return {
        "stored": cloud.ceph.monitor("config dump", format="json"),
        "flags": ranks.map()["flags"],
        "pins": {
            f"{path}: {name}": os.getxattr(path, name)
            for path in sorted(mount.iterdir())
            for name in PINS
        },
    }  # fmt: skip


def authorities(cloud: Cloud, ranks: FileSystem) -> set[int]:
    """Of all directories but those that are a rank's own, as each rank says itself."""
    found = set()
    for daemon in ranks.active().values():
        for each in json.loads(cloud.ceph.run("tell", f"mds.{daemon}", "get", "subtrees")):
            if each["is_auth"] and not each["dir"]["path"].startswith("~"):
                found.add(each["auth_first"])
    return found


def test_moves_are_seen_ended_with_one_authority_and_settings_undone_to_the_byte(
    cloud: Cloud, ranks: FileSystem, node: Node, tmp_path: Path
) -> None:
    with ranks.mounted(tmp_path / "mount") as mount, ranks.creating("/shared", CLIENTS, WATCHED + 12, period=PERIOD):
        rows = watched(node, cloud, WATCHED, "--by", "directory")
    assert {"/shared"} == {row["directory"][:7] for row in rows if row["moves"]}
    assert all({row["last"]["from"], row["last"]["to"]} <= {0, 1, 2} for row in rows if row["moves"])
    shares = {row["directory"]: row["load"] for row in rows}
    assert 0.9 < sum(share for path, share in shares.items() if path.startswith("/shared/")) <= 1
    with ranks.mounted(tmp_path / "mount") as mount:
        before = settings(cloud, ranks, mount)
        words = ["--mount", str(mount), *asked(cloud)]
        dry = node.run("mds", "settle", *words, "--gather", "0", "--dry-run")
        assert (dry.status, settings(cloud, ranks, mount)) == (0, before)
        done = node.run("mds", "settle", *words, "--gather", "0", "--yes", "--wait", "60s")
        assert (done.status, done.err, authorities(cloud, ranks)) == (0, "", {0})
        assert settings(cloud, ranks, mount) != before
        undone = node.run("mds", "undo", *words, "--yes")
        assert (undone.status, undone.err, settings(cloud, ranks, mount)) == (0, "", before)


@pytest.mark.skipif(not RUNS, reason="half an hour")
@pytest.mark.timeout(3600)
def test_good_and_bad_balancing_are_told_apart(cloud: Cloud, ranks: FileSystem, node: Node) -> None:
    wrong = []
    for run in range(RUNS):
        for load, period in (("own", 0.0), ("shared", 12.0)):
            with ranks.creating(f"/{load}-{run}", 4, WATCHED + 20, rate=RATE, period=period):
                rows = watched(node, cloud, WATCHED)
            answer = rows[0]["answer"]
            print(load, run, answer, [(row["requests_sec"], row["forwarded"]) for row in rows])
            if (answer == "thrashing") is (load == "own"):
                wrong.append((load, run, answer))
    assert len(wrong) <= MOST_WRONG, wrong


@pytest.mark.skipif(not RUNS, reason="seven minutes")
def test_when_one_rank_has_all_clients_learn_it_and_no_request_is_forwarded(
    cloud: Cloud, ranks: FileSystem, node: Node, tmp_path: Path
) -> None:
    before, after = 36, 180  # clients asked the ranks of before for 110 s
    with ranks.mounted(tmp_path / "mount") as mount:
        words = ["--mount", str(mount), *asked(cloud)]
        with ranks.creating("/to-settle", 4, before + after + 60, rate=RATE, period=12.0) as clients:
            forwarded = [row["forwarded"] for row in watched(node, cloud, before, "--by", "time")]
            done = node.run("mds", "settle", *words, "--gather", "0", "--yes", "--wait", "60s")
            assert (done.status, authorities(cloud, ranks)) == (0, {0})
            settled = [row["forwarded"] for row in watched(node, cloud, after, "--by", "time")]
        assert node.run("mds", "undo", *words, "--yes").status == 0
    for name, part in (("before", slice(20, before)), ("after", slice(-after + 10, None))):
        created = sum(sum(client["created"][part]) for client in clients)
        waits = [max(client["waits"][part]) for client in clients]
        print(name, created / len(clients[0]["waits"][part]), "files a second; longest wait", max(waits), "s")
    assert (settled[-1] or 0.0) < 0.02 < max(filter(None, forwarded))
