"""``plimsoll forecast``, by counts and on a cluster that answers as a real one did."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.functional.conftest import Ran
from tests.functional.test_slow import TREE

LATENCIES = ("--write-latency", "1ms", "--object-latency", "22ms")
CEPH = """#!/bin/sh
case "$*" in
*"osd tree"*) cat {tree} ;;
*"pg dump"*) echo '{{"pg_stats": [{{"pgid": "1.0", "acting": [0, 1]}}, {{"pgid": "1.1", "acting": [1, 2]}}]}}' ;;
*"pool ls"*) echo '[{{"pool_id": 1, "pool_name": "volumes", "size": 2, "min_size": 2}}]' ;;
*df*) echo '{{"pools": [{{"id": 1, "stats": {{"objects": 100, "stored": 209715200}}}}]}}' ;;
*) echo "Error EACCES: access denied" >&2; exit 13 ;;
esac
"""


def live(plimsoll: Callable[..., Ran], path: Path, *words: str) -> Ran:
    (path / "ceph").write_text(CEPH.format(tree=TREE))
    (path / "ceph").chmod(0o755)
    return plimsoll("forecast", "--live", *words, PATH=f"{path}:{os.environ['PATH']}")


def test_a_row_for_each_number_of_domains_and_what_is_unknown_has_its_options(plimsoll: Callable[..., Ran]) -> None:
    ran = plimsoll("forecast", "--domains", "3,10", "--copies", "3", *LATENCIES, "--network", "10Gbit/s")
    assert (ran.status, ran.err) == (0, "")
    lines = [line.split("  ") for line in ran.out.splitlines()]
    assert [" ".join(line).split()[4:8] for line in lines[1:3]] == [
        ["100", "%", "?", "45"], ["30", "%", "?", "14"],
    ]  # fmt: skip
    assert "stale objects and the time to clean: give --objects, --write-iops and --away" in ran.out
    rows = json.loads(plimsoll("forecast", "--degraded", "75,90", *LATENCIES, "-f", "json").out)
    assert [row["service"]["low"] for row in rows] == [0.034, 0.0406]
    assert rows[0]["clean"] is None


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
        (("--live",), "--live needs --each TYPE or --lose NAME, and not both"),
    ],
)
def test_a_wrong_command_line_is_one_line(
    plimsoll: Callable[..., Ran], words: tuple[str, ...], complaint: str
) -> None:
    ran = plimsoll("forecast", *words)
    assert (ran.status, ran.out, len(ran.err.splitlines())) == (64, "", 1)
    assert complaint in ran.err


def test_each_osd_of_a_cluster_has_its_share(plimsoll: Callable[..., Ran], tmp_path: Path) -> None:
    ran = live(plimsoll, tmp_path, "--each", "osd", "-f", "json", *LATENCIES)
    rows = {row["failure"]: row for row in json.loads(ran.out)}
    assert {name: row["degraded"]["low"] for name, row in rows.items()} == {"osd.0": 0.5, "osd.1": 1, "osd.2": 0.5}
    assert rows["osd.1"]["stopped"] == {"low": 1, "high": 1}
    # 0.5 · 45 + 0.5 · 1 ms
    assert rows["osd.0"]["service"] == {"low": 0.023, "high": 0.023}
    assert rows["osd.0"]["memory"] is None
    assert ran.err.startswith("The memory of OSDs is unknown: ceph config get osd osd_memory_target ended with 13")
    shown = live(plimsoll, tmp_path, "--lose", "osd.0", "--lose", "osd.2").out
    assert "Taken: objects of 2 MiB." in shown


def test_what_the_cluster_has_not_is_named(plimsoll: Callable[..., Ran], tmp_path: Path) -> None:
    ran = live(plimsoll, tmp_path, "--lose", "ods.1")
    assert (ran.status, ran.err.strip()) == (64, "--lose: the CRUSH map has no ods.1; did you mean osd.1?")
    ran = plimsoll("forecast", "--live", "--each", "host", "--ceph-conf", str(tmp_path / "none"))
    assert ran.status == 1
    assert len(ran.err.splitlines()) == 1
