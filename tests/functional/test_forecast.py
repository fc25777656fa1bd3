"""``plimsoll forecast``, by counts and on a cluster that answers as a real one did."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.functional.conftest import Ran, name_cluster
from tests.functional.test_slow import TREE

LATENCIES = ("--write-latency", "1ms", "--object-latency", "22ms")
CEPH = """#!/bin/sh
case "$*" in
*"osd tree"*) cat {tree} ;;
*"pg dump"*) echo '{{"pg_stats": [{{"pgid": "1.0", "acting": [0, 1]}}, {{"pgid": "1.1", "acting": [1, 2]}}]}}' ;;
*"pool ls"*) echo '[{{"pool_id": 1, "pool_name": "volumes", "size": 2, "min_size": 2}}]' ;;
{more}
*" df"*) echo '{{"pools": [{{"id": 1, "stats": {{"objects": 100, "stored": 209715200}}}}]}}' ;;
*) echo "Error EACCES: access denied" >&2; exit 13 ;;
esac
"""


SETTINGS = """
*"show-with-defaults osd."*) echo '{osd}' ;;
*"show-with-defaults mgr.a"*) echo '{manager}' ;;
*"mgr dump"*) echo '{{"active_name": "a"}}' ;;
*"osd metadata"*) echo '{{"id": 0, "rotational": "1", "journal_rotational": "1"}}' ;;
*"perf dump"*) echo '{counters}' ;;
"""
COUNTERS = {
    "osd": {"op_w_latency": {"avgcount": 1000, "sum": 2.0}},
    "recoverystate_perf": {
        f"{name}_latency": {"avgcount": 25, "sum": sum_}
        for name, sum_ in {"peering": 20.0, "getinfo": 1.0, "getlog": 0, "getmissing": 0, "waitupthru": 19.0}.items()
    },
}
OSD = {
    "osd_recovery_max_active": "0", "osd_recovery_max_active_hdd": "3", "osd_recovery_sleep": "0.000000",
    "osd_recovery_sleep_hdd": "0.100000", "osd_max_backfills": "1", "osd_heartbeat_grace": "6",
    "osd_heartbeat_interval": "1", "osd_op_queue": "wpq", "osd_memory_target": "4294967296",
    "osd_target_pg_log_entries_per_osd": "300000", "osd_max_pg_log_entries": "500", "osd_min_pg_log_entries": "100",
}  # fmt: skip
MANAGER = {"mgr_stats_period": "2", "mgr_tick_period": "1"}


def shown(values: dict[str, str]) -> str:
    return json.dumps([{"name": name, "value": value, "source": "file"} for name, value in values.items()])


def live(
    plimsoll: Callable[..., Ran],
    path: Path,
    *words: str,
    settings: bool = False,
    queue: str = "wpq",
    change: tuple[str, str] = ("", ""),
) -> Ran:
    told = {"osd": shown(OSD | {"osd_op_queue": queue}), "manager": shown(MANAGER), "counters": json.dumps(COUNTERS)}
    more = SETTINGS.format(**told) if settings else ""
    (path / "ceph").write_text(CEPH.format(tree=TREE, more=more.strip()).replace(*change))
    (path / "ceph").chmod(0o755)
    name_cluster(path)
    return plimsoll("forecast", "--live", *words, PATH=f"{path}:{os.environ['PATH']}")


def test_a_row_for_each_number_of_domains_and_what_is_unknown_has_its_options(plimsoll: Callable[..., Ran]) -> None:
    ran = plimsoll("forecast", "--domains", "3,10", "--copies", "3", *LATENCIES, "--network", "10Gbit/s")
    assert (ran.status, ran.err) == (0, "")
    lines = [line.split("  ") for line in ran.out.splitlines()]
    assert [" ".join(line).split()[4:10] for line in lines[1:3]] == [
        ["100", "%", "?", "20–29", "s", "45"], ["30", "%", "?", "20–29", "s", "14"],
    ]  # fmt: skip
    assert "stale objects and the time to clean: give --objects, --write-iops and --away" in ran.out
    rows = json.loads(plimsoll("forecast", "--degraded", "75,90", *LATENCIES, "-f", "json").out)
    assert [row["service"]["low"] for row in rows] == [0.034, 0.0406]
    assert rows[0]["clean"] is None
    assert rows[0]["detect"] == {"low": 20, "high": 29}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "give one of --domains N, --degraded P and --live"),
        (("--domains", "3"), "--domains needs --copies: how many each object has"),
        (("--domains", "3", "--copies", "3"), "give --write-latency and --object-latency"),
        (("--domains", "3", "--copies", "4", *LATENCIES), "--domains 3: 1 of 3 failure domains cannot be lost"),
        (("--degraded", "0", *LATENCIES), "--degraded 0: write per cent above 0"),
        (("--degraded", "50", "--write-latency", "2ms..1ms"), "--write-latency 2ms..1ms: 0.002 is not at most 0.001"),
        (("--degraded", "50", "--network", "10Gb"), "--network: '10Gb' is ambiguous"),
        (
            ("--degraded", "50", "--osds-per-domain", "2", "--hosts-per-domain", "3"),
            "--osds-per-domain 2: fewer than hosts (--hosts-per-domain 3)",
        ),
        (("--live",), "--live needs --each TYPE or --lose NAME, and not both"),
    ],
)
def test_a_wrong_command_line_is_one_line(
    plimsoll: Callable[..., Ran], words: tuple[str, ...], complaint: str
) -> None:
    ran = plimsoll("forecast", *words)
    assert (ran.status, ran.out, len(ran.err.splitlines())) == (64, "", 1)
    assert complaint in ran.err


def test_the_hosts_of_racks_receive_side_by_side(plimsoll: Callable[..., Ran]) -> None:
    words = ("forecast", "--domains", "10", "--copies", "3", "--network", "40MiB", "--hosts-per-domain", "20")
    [rack] = json.loads(plimsoll(*words, "-f", "json").out)
    assert rack["objects_sec"] == {"low": 200, "high": 200}


def test_each_osd_of_a_cluster_has_its_share(plimsoll: Callable[..., Ran], tmp_path: Path) -> None:
    ran = live(plimsoll, tmp_path, "--each", "osd", "-f", "json", *LATENCIES)
    rows = {row["failure"]: row for row in json.loads(ran.out)}
    assert {name: row["degraded"]["low"] for name, row in rows.items()} == {"osd.0": 0.5, "osd.1": 1, "osd.2": 0.5}
    assert rows["osd.1"]["stopped"] == {"low": 1, "high": 1}
    # 0.5 · 45 + 0.5 · 1 ms
    assert rows["osd.0"]["service"] == {"low": 0.023, "high": 0.023}
    assert rows["osd.0"]["memory"] is None
    complaints = ran.err.splitlines()
    assert complaints[0].startswith(
        "The settings of OSDs are unknown: ceph config show-with-defaults osd.0 ended with 13"
    )
    assert complaints[1].startswith("The times of writes and of peering are unknown: ceph tell osd.0 perf dump ended")
    assert complaints[2].startswith("The settings of the manager are unknown, its defaults are taken: ceph mgr dump")
    shown = live(plimsoll, tmp_path, "--lose", "osd.0", "--lose", "osd.2").out
    assert "Assumed: objects of 2 MiB." in shown


def test_what_is_not_given_is_asked_of_osds_and_told(plimsoll: Callable[..., Ran], tmp_path: Path) -> None:
    words = ("--lose", "osd.0", "--stale", "200", "--peering", "1s", "--object-latency", "0.05s")
    ran = live(plimsoll, tmp_path, *words, "--wide", settings=True)
    assert (ran.status, ran.err) == (0, "")
    # osd.2 shares no placement group with osd.0, and is not asked.
    # One placement group with its primary on osd.0, of more than 100 objects each: osd.1 sends 200, one each 0.2 s.
    # And 1 s of peering, up to 3 s until the status tells.
    assert "41–44 s" in ran.out
    assert (
        "Of osd.0 and osd.1: osd_recovery_max_active 3, a recovery sleep of 100 ms, osd_max_backfills 1, 4 GiB"
        " of memory an OSD (osd_memory_target), logs of 500 entries, writes that took 2.0 ms since they started"
    ) in " ".join(ran.out.split())
    for sleep, low, high in (("0s", 21, 24), ("0s..0.1s", 21, 44)):
        ran = live(plimsoll, tmp_path, *words, "--recovery-sleep", sleep, "-f", "json", settings=True)
        [given] = json.loads(ran.out)
        assert given["clean"] == {"low": low, "high": high}
    assert given["detect"] == {"low": 6, "high": 10}
    assert "written to a placement group" not in ran.out
    more = live(plimsoll, tmp_path, "--lose", "osd.0", "--stale", "501", settings=True, queue="mclock_scheduler").out
    assert "osd_op_queue is mclock_scheduler: its profile may let recovery take longer." in more
    assert "More may be written to a placement group than its log has entries (500)" in more


def test_peering_is_what_osds_counted_before_it_is_assumed(plimsoll: Callable[..., Ran], tmp_path: Path) -> None:
    words = ("--lose", "osd.0", "--stale", "200", "--object-latency", "0.05s")
    shown = live(plimsoll, tmp_path, *words, settings=True).out
    assert "peering that takes 800 ms–1.6 s (peering_latency, twice at most)" in " ".join(shown.split())
    assert "peering takes" not in shown
    [row] = json.loads(live(plimsoll, tmp_path, *words, "-f", "json", settings=True).out)
    assert row["clean"] == {"low": 40.8, "high": 44.6}
    assumed = live(plimsoll, tmp_path, *words, "--recovery-active", "3").out
    assert "Assumed: peering takes 1.0–10 s" in " ".join(assumed.split())


@pytest.mark.parametrize("settings", [True, False])
def test_an_osd_without_placement_groups_costs_nothing(
    plimsoll: Callable[..., Ran], tmp_path: Path, settings: bool
) -> None:
    moved = ('"acting": [1, 2]', '"acting": [1, 0]')
    words = ("--each", "osd", "--osd-memory", "4GiB", "--write-iops", "10", "--away", "10m", *LATENCIES)
    ran = live(plimsoll, tmp_path, *words, "-f", "json", settings=settings, change=moved)
    rows = {row["failure"]: row for row in json.loads(ran.out)}
    assert ran.status == 0
    assert [rows[f"osd.{osd}"]["degraded"]["high"] for osd in range(3)] == [1, 1, 0]
    assert rows["osd.2"]["stale"] == {"low": 0, "high": 0}
    assert None not in [row["memory"] for row in rows.values()]


def test_what_the_cluster_has_not_is_named(plimsoll: Callable[..., Ran], tmp_path: Path) -> None:
    ran = live(plimsoll, tmp_path, "--lose", "ods.1")
    assert (ran.status, ran.err.strip()) == (64, "--lose: the CRUSH map has no ods.1; did you mean osd.1?")
    ran = plimsoll("forecast", "--live", "--each", "host", "--ceph-conf", str(tmp_path / "none"))
    assert (ran.status, ran.err) == (64, f"--ceph-conf: {tmp_path}/none: no such file\n")


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        (
            ('{"pgid": "1.1", "acting": [1, 2]}', '{"pgid": "1.1", "state": "unknown", "acting": []}'),
            0,
            "1 placement group unknown to the manager: figures go up to",
        ),
        (
            ('"acting": [0, 1]}, {"pgid": "1.1", "acting": [1, 2]}', '"state": "unknown", "acting": []}'),
            1,
            "the manager has no report of any placement group of volumes: ask again when",
        ),
    ],
)
def test_what_the_manager_does_not_know_is_no_all_clear(
    plimsoll: Callable[..., Ran], tmp_path: Path, change: tuple[str, str], status: int, words: str
) -> None:
    ran = live(plimsoll, tmp_path, "--lose", "osd.2", *LATENCIES, change=change)
    assert ran.status == status
    assert words in " ".join((ran.out + ran.err).split())
    assert status or "0–50 %" in ran.out


def test_too_few_domains_for_all_copies_are_told(plimsoll: Callable[..., Ran]) -> None:
    words = ("--domains", "3,4", "--copies", "3", "--objects", "9M", "--network", "10Gbit/s")
    ran = plimsoll("forecast", *words, *LATENCIES)
    assert "Not made again elsewhere: copies of 1 of 3 domains, as too few" in " ".join(ran.out.split())
    rows = json.loads(plimsoll("forecast", *words, *LATENCIES, "-f", "json").out)
    assert [row["rebuild"] is None for row in rows] == [True, False]
