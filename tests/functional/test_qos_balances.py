"""``plimsoll qos balances`` with a real Prometheus and a Cinder that keeps the real one's rules.

Each volume is ``vdb`` of a guest of its own:

=========  ===============================================================================================
saved      37.5 % of its IOPS and 90 % of its bytes are saved; two jobs scrape its node
ended      no burst is desired any more; none was shown for ``plain``
plain      the same
unread     a burst is desired, and its counters were not read yet
unsure     its desired limits are unknown
silent     80 % are saved, by a pass of an hour ago
moves      20 % are saved on one node, and 30 % on another
swapped    two jobs that scrape its node saw two volumes of the disk
=========  ===============================================================================================
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from plimsoll_agent.catalogue.api import Refused
from plimsoll_agent.qos.balances import KEY
from tests.fakecinder import FakeCinder
from tests.functional.cloudserver import credentials
from tests.functional.test_qos import Site, serving
from tests.simulated_region import Served, prometheus_of
from tests.unit.node import uuid_of

NAMES = ("saved", "ended", "plain", "unread", "unsure", "silent", "moves", "swapped")
VOLUMES = {name: f"{number:08}-bbbb-4bbb-8bbb-bbbbbbbbbbbb" for number, name in enumerate(NAMES)}
OLD = "91 % at 2026-11-30 10:00 UTC"


def lines() -> dict[str, list[str]]:
    now = int(time.time())
    found: dict[str, list[str]] = {}

    def put(metric: str, labels: str, value: float) -> None:
        found.setdefault(metric, []).append(f"plimsoll_{metric}{{{labels}}} {value} {now}")

    for number, name in enumerate(NAMES):
        for node, job in {"saved": [(0, "a"), (0, "b")], "moves": [(6, "a"), (9, "a")]}.get(name, [(number, "a")]):
            at = f'job="{job}",region="r1",instance="node{node}:9100"'
            disk = f'{at},domain="d",target_device="vdb",uuid="{uuid_of(number)}"'
            put("pass_observed_timestamp_seconds", at, now - (3600 if name == "silent" else 60))
            put("disk_info", f'{disk},volume="{VOLUMES[name]}"', 1)
            put("disk_state", f'{disk},state="{"unknown" if name == "unsure" else "in-sync"}",reason="default"', 1)
            iops = {"saved": 0.375, "silent": 0.8, "moves": 0.2 if node == 6 else 0.3, "swapped": 0.5}.get(name)
            if iops is not None:
                put("disk_burst_saved_ratio", f'{disk},parameter="total_iops_sec"', iops)
            if name == "saved":
                put("disk_burst_saved_ratio", f'{disk},parameter="total_bytes_sec"', 0.9)
            if iops is not None or name == "unread":
                put("disk_limit_desired_operations_per_second", f'{disk},parameter="total_iops_sec_max"', 3000)
            else:
                put("disk_limit_desired_operations_per_second", f'{disk},parameter="total_iops_sec"', 300)
        if name == "swapped":
            put("disk_info", disk.replace('job="a"', 'job="b"') + ',volume="another"', 1)
    return {name: sorted(each) for name, each in found.items()}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with prometheus_of(lines(), tmp_path_factory.mktemp("balances")) as there:
        yield there


@pytest.fixture
def site(tmp_path: Path, served: Served) -> Iterator[Site]:
    """All volumes but ``plain`` and ``saved`` have an old balance."""
    cinder = FakeCinder()
    for name, volume in VOLUMES.items():
        cinder.volume(None, 100)
        cinder.volumes[-1] |= {"id": volume, "metadata": {} if name in ("plain", "saved") else {KEY: OLD}}
    with serving(cinder) as url:
        settings = tmp_path / "plimsoll.conf"
        file = credentials(tmp_path, f"{url}/identity")
        settings.write_text(f"[catalogue]\ncredentials_file = {file}\n[prometheus]\nurl = {served.url}\n")
        yield Site(cinder, file, settings)


def shown(site: Site) -> dict[str, str | None]:
    names = {volume: name for name, volume in VOLUMES.items()}
    return {names[one["id"]]: one["metadata"].get(KEY) for one in site.cinder.volumes}


def test_what_is_known_is_written_and_what_is_unknown_stays(site: Site) -> None:
    told = site.run("balances", "--dry-run")
    assert (told.status, told.err, site.cinder.writes()) == (0, "", [])
    assert f"volume {VOLUMES['ended']}  {OLD} → none\n" in told.out
    ran = site.run("balances")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == "8 attached volumes: 2 written, 1 removed, 1 unchanged, 4 unknown; 4 calls to Cinder.\n"
    there = shown(site)
    for name, percent in (("saved", 38), ("moves", 20)):
        assert str(there.pop(name)).startswith(f"{percent} % at 20"), name
    assert there == {"ended": None, "plain": None, **dict.fromkeys(("unread", "unsure", "silent", "swapped"), OLD)}
    again = site.run("balances")
    assert (again.status, again.out.split(": ")[1].split(";")[0]) == (
        0,
        "0 written, 0 removed, 4 unchanged, 4 unknown",
    )


def test_of_more_than_may_be_written_the_next_run_has_the_rest(site: Site) -> None:
    assert "1 written" in (first := site.run("balances", "--most", "1").out) or "1 removed" in first
    assert "2 left to the next run (--most)" in first
    assert "left" not in site.run("balances").out
    assert shown(site)["ended"] is None


def test_a_user_who_may_only_read_is_told_the_policy_once(site: Site) -> None:
    def before(method: str, path: str) -> None:
        if method != "GET":
            raise Refused("Policy doesn't allow volume:create_volume_metadata to be performed.", 403)

    site.cinder.before = before
    ran = site.run("balances")
    assert ran.status == 1
    (line,) = ran.err.splitlines()
    assert "forbidden (403) by its policy volume:create_volume_metadata; allow the user's role there" in line
    assert "3 not written" in ran.out


def test_where_prometheus_has_nothing_new_nothing_is_asked_of_cinder(
    site: Site, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with prometheus_of({"up": [f"up 1 {int(time.time())}"]}, tmp_path_factory.mktemp("none")) as none:
        ran = site.run("balances", "--prometheus", none.url)
    assert (ran.status, site.cinder.asked) == (1, [])
    assert "no disks that a pass observed in the last 15 minutes; nothing is written" in ran.err


@pytest.mark.parametrize("words", [("--step", "0"), ("--step", "101"), ("--most", "0")])
def test_bounds_that_make_no_sense_are_a_wrong_command_line(site: Site, words: tuple[str, str]) -> None:
    assert site.run("balances", *words).status == 64
    assert site.cinder.asked == []
