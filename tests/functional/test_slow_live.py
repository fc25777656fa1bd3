"""A cluster that answers wrongly, or too late."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from plimsoll_agent.errors import DeadlineExceeded
from plimsoll_insight.adapters.cluster import LiveCluster
from plimsoll_insight.slow.events import LogClock
from plimsoll_insight.slow.tree import UnreadableTree

SAMPLES = Path(__file__).parents[1] / "unit" / "data" / "ceph-pacific"


def cluster(path: Path, script: str) -> LiveCluster:
    (path / "ceph").write_text(f"#!/bin/sh\n{script}\n")
    (path / "ceph").chmod(0o755)
    return LiveCluster(conf=path / "ceph.conf", client="admin", deadline=5.0, command=str(path / "ceph"))


@pytest.mark.parametrize("answer", ["", "no JSON", "-1 1.0 root default\n 0 1.0     osd.0 up 1 1", "{}", "[]"])
def test_a_tree_that_is_no_json_is_one_line(tmp_path: Path, answer: str) -> None:
    with pytest.raises(UnreadableTree, match=r"^ceph osd tree: "):
        cluster(tmp_path, f"echo '{answer}'").map()


def test_the_map_has_who_is_up(tmp_path: Path) -> None:
    found = cluster(tmp_path, f'sed \'0,/"up"/s//"down"/\' {SAMPLES}/osd-tree.json').map()
    assert (found.up, found.down, sorted(found.tree.osds)) == ([1, 2], [0], [0, 1, 2])


def test_no_osd_is_asked_after_the_end_and_one_that_hangs_only_until_it(tmp_path: Path) -> None:
    hanging, begin = cluster(tmp_path, "sleep 60"), time.monotonic()
    with pytest.raises(DeadlineExceeded, match="the time for all OSDs has ended"):
        hanging.requests(1, begin, LogClock())
    with pytest.raises(DeadlineExceeded, match="no answer from Ceph"):
        hanging.requests(1, begin + 0.5, LogClock())
    assert time.monotonic() - begin < 3
