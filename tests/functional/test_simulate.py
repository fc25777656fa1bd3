"""``plimsoll simulate``: the table, JSON, a page, and what is wrong with a scenario."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from tests import schemas
from tests.functional.conftest import Ran

SCENARIO = """
title: Two kinds of <guests>
duration: 20
period: 5
cluster: {hosts: 3}
disks:
  - {name: light, guests: 10, iops: 5, limits: {total_iops_sec: 50}, light: true}
  - {name: heavy, guests: 2, queue: 16, limits: {total_iops_sec: 100}}
"""


def test_a_scenario_is_a_table_with_what_was_counted(plimsoll: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(SCENARIO)
    ran = plimsoll("simulate", str(tmp_path / "s.yaml"))
    assert ran.status == 0
    head, light, heavy, *_ = ran.out.splitlines()
    assert head.split()[:2] == ["DISKS", "NUMBER"]
    assert light.split()[:2] == ["light", "10"]
    assert heavy.split()[:4] == ["heavy", "2", "203", "201"]  # 100 each, and at the begin a tenth of a second of them
    assert "\nTwo kinds of <guests>\n20 s counted" in ran.out
    assert "light: p99 was longest in the period until" in ran.out


def test_its_json_holds_to_the_schema_and_a_seed_changes_it(plimsoll: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(SCENARIO)
    outputs = []
    for words in ((), ("--seed", "1"), ("--seed", "2")):
        ran = plimsoll("simulate", str(tmp_path / "s.yaml"), *words, "-f", "json")
        schemas.hold("simulate", ran.out, "json")
        outputs.append(ran.out)
    assert outputs[0] == outputs[1] != outputs[2]
    light, heavy = json.loads(outputs[0])
    assert [period["total_iops_sec"] for period in heavy["periods"]] == [100] * 4
    assert light["p99"] < 0.02 < heavy["p50"]


def test_a_page_has_a_picture_of_each_kind_of_disks(plimsoll: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(SCENARIO)
    ran = plimsoll("simulate", str(tmp_path / "s.yaml"), "--plot", str(tmp_path / "page.html"))
    assert f"Drawn: {tmp_path}/page.html" in " ".join(ran.out.split())
    page = (tmp_path / "page.html").read_text()
    assert page.count("<img ") == 2
    assert "<h1>light: p99 5.1 ms, 48 IOPS.</h1>" in page
    assert ">Two kinds of &lt;guests&gt;</p>" in page
    assert "queue of 16" in page


def test_each_arm_against_congestion_has_a_row_a_sentence_and_a_picture(
    plimsoll: Callable[..., Ran], tmp_path: Path
) -> None:
    text = SCENARIO.replace("queue: 16", "queue: 16, congestion: {floor: {total_iops_sec: 20}}")
    (tmp_path / "s.yaml").write_text(text + "congestion: {objective: 0.1ms, arms: [nothing, plimsoll]}\n")
    ran = plimsoll("simulate", str(tmp_path / "s.yaml"), "--plot", str(tmp_path / "page.html"))
    assert [line.split()[:2] for line in ran.out.splitlines()[1:5]] == [
        ["nothing", "light"], ["nothing", "heavy"], ["plimsoll", "light"], ["plimsoll", "heavy"],
    ]  # fmt: skip
    words = " ".join(ran.out.split())
    assert "plimsoll: light disks were above 1.25 times the objective in 4 of 4 periods; x was 0.26 at least" in words
    assert (tmp_path / "page.html").read_text().count("<img ") == 4
    ran = plimsoll("simulate", str(tmp_path / "s.yaml"), "-f", "json")
    schemas.hold("simulate", ran.out, "json")
    rows = json.loads(ran.out)
    assert [row["arm"] for row in rows] == ["nothing", "nothing", "plimsoll", "plimsoll"]
    assert [period["total_iops_sec"] for period in rows[3]["periods"]] == [100, 100, 64, 41]


HANGS = """
title: two of three hosts are lost
duration: 40s
period: 5s
cluster: {hosts: 3, osds_per_host: 1, servers: 4, read: 10ms, write: 10ms}
disks:
  - {name: light, guests: 10, iops: 2, writes: 100%, limits: {total_iops_sec: 100}, light: true}
events: [{at: 20s, lose: host.0}, {at: 20s, lose: host.1}]
congestion: {objective: 50ms, arms: [nothing]}
"""


def test_periods_in_which_nothing_ended_are_not_told_as_good_ones(
    plimsoll: Callable[..., Ran], tmp_path: Path
) -> None:
    (tmp_path / "s.yaml").write_text(HANGS)
    words = " ".join(plimsoll("simulate", str(tmp_path / "s.yaml")).out.split())
    assert "above 1.25 times the objective in 0 of 8 periods (no request of theirs ended in 3);" in words
    assert re.search(r"nothing, light: \d+ % of the requests had not ended at the end", words)


WARMS_UP = """
title: slow while it warms up
duration: 10s
warm_up: 5s
cluster: {hosts: 3, osds_per_host: 1, servers: 1, read: 1ms, write: 1ms}
disks: [{name: light, guests: 10, iops: 20, light: true}]
events: [{at: 1s, speed: 10%}, {at: 3s, speed: 100%}]
"""


def test_the_longest_p99_is_of_the_time_that_counts_and_no_period_is_of_nanoseconds(
    plimsoll: Callable[..., Ran], tmp_path: Path
) -> None:
    (tmp_path / "s.yaml").write_text(WARMS_UP)
    words = " ".join(plimsoll("simulate", str(tmp_path / "s.yaml")).out.split())
    (end,) = re.findall(r"p99 was longest in the period until ([\d.]+) s", words)
    assert 5 < float(end) <= 10
    (row,) = json.loads(plimsoll("simulate", str(tmp_path / "s.yaml"), "-f", "json").out)
    assert len(row["periods"]) == 120


def test_a_load_beyond_the_cluster_is_told(plimsoll: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        SCENARIO.replace("hosts: 3", "hosts: 3, servers: 1, osds_per_host: 1, write: 100ms")
    )
    ran = plimsoll("simulate", str(tmp_path / "s.yaml"))
    assert " % of the requests had not ended at the end; latencies are of the others." in " ".join(ran.out.split())


def test_scenarios_that_come_with_plimsoll_are_listed_by_name(plimsoll: Callable[..., Ran]) -> None:
    ran = plimsoll("simulate", "--samples", "-f", "json")
    schemas.hold("simulate", ran.out, "json")
    names = [sample["name"] for sample in json.loads(ran.out)]
    assert names == [
        "degraded-half", "four-volumes", "host-lost-of-787", "room-for-recovery", "shares-under-congestion",
        "third-lost-and-returned",
    ]  # fmt: skip


def test_a_wrong_name_is_met_with_the_nearest_one(plimsoll: Callable[..., Ran]) -> None:
    ran = plimsoll("simulate", "four-volume")
    assert (ran.status, ran.err) == (1, "four-volume: no such file or scenario; did you mean four-volumes?\n")


def test_rubbish_is_one_line(plimsoll: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_bytes(bytes(range(128, 256)))
    ran = plimsoll("simulate", str(tmp_path / "s.yaml"))
    assert ran.status == 1
    assert ran.err.count("\n") == 1
    assert ran.err.startswith(f"{tmp_path}/s.yaml:1: cannot be read: ")
