"""``plimsoll simulate --from-prometheus`` against two hours in a real Prometheus: figures made by hand.

Each guest has one disk of type gold, whose limit is 500 requests a second and would be 300. What it does:

=====  =============================================================================================================
1      200 a second
2      400 a second: a quarter of them does not fit
3      500, at its limit, at 64 ms for an hour; then one in 5 s at 1 ms, so few that none waits
4      295 a second: less than the new limit, by less than a twentieth
5      is of type silver, which keeps its limits, and does 400
6      200 a second; there are no averages for an hour, as after a restart
7      has no averages at all
8      is of type sized, with limits per GiB
9      of another project: its limit is 250; 250 at 40 ms for an hour, then one in 5 s at 1 ms
10     400 a second, and is held
11     400 a second on node2, whose metrics are an hour old at the end: node_exporter serves them all the same
12     400 a second for an hour, then NaN
13     200 a second on node2
=====  =============================================================================================================

All are on node1 but 11 and 13. Passes and samples are a minute apart, samples of node2 half a minute.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.usage import Rates
from plimsoll_agent.monitor import pass_metrics
from tests.functional.conftest import Ran
from tests.simulated_region import Served, prometheus_of, series_lines
from tests.unit.lastpasses import PROJECT, a_last_disk, a_last_pass, a_name
from tests.unit.node import uuid_of

STEP, LAST = 60, 120
HOUR = 3600
OTHER = "0" * 32
IDLE = (0.2, 0.001)
LOADS: dict[int, tuple[tuple[float, float] | None, tuple[float, float] | None]] = {
    1: ((200, 0.001),) * 2,
    2: ((400, 0.001),) * 2,
    3: ((500, 0.064), IDLE),
    4: ((295, 0.001),) * 2,
    5: ((400, 0.001),) * 2,
    6: (None, (200, 0.001)),
    7: (None, None),
    8: ((400, 0.001),) * 2,
    9: ((250, 0.04), IDLE),
    10: ((400, 0.001),) * 2,
    11: ((400, 0.001),) * 2,
    12: ((400, 0.001),) * 2,
    13: ((200, 0.001),) * 2,
}
"""Writes a second of 4 KiB and their latency, in either hour; None is no averages."""
QOS = """\
qos_specs:
  gold: {consumer: front-end, keys: {total_iops_sec: 300}}
  silver: {consumer: front-end, keys: {total_iops_sec: 500}}
  sized: {consumer: front-end, keys: {total_iops_sec_per_gb: 30}}
volume_types: {gold: {qos_spec: gold}, silver: {qos_spec: silver}, sized: {qos_spec: sized}}
"""
Run = Callable[..., Ran]


def of_node(node: int, second_hour: bool, at: int) -> list[str]:
    disks = []
    for guest, loads in LOADS.items():
        if (guest in (11, 13)) != (node == 2):
            continue
        load = loads[second_hour]
        limit = 250 if guest == 9 else 500
        limits = Limits(total_iops_sec=limit)
        rates = (
            None
            if load is None
            else Rates(
                read_iops=0,
                write_iops=load[0],
                read_bytes=0,
                write_bytes=load[0] * 4096,
                seconds=60.0,
                latency=load[1],
            )
        )
        disks.append(
            a_last_disk(
                a_name(guest, project=OTHER if guest == 9 else PROJECT, key=f"{uuid_of(guest)}/vdb"),
                volume_type={5: "silver", 8: "sized"}.get(guest, "gold"),
                project_name="other" if guest == 9 else "shop",
                server=f"web-{guest}",
                actual=limits,
                desired=limits,
                rates=rates,
                shares={} if load is None else {"total_iops_sec": load[0] / limit},
                held_until=datetime.fromtimestamp(at, UTC) + timedelta(days=1) if guest == 10 else None,
            )
        )
    ended = datetime.fromtimestamp(at, UTC)
    told = a_last_pass(*disks, interval=60.0, ended=ended, looked=ended)
    own = f'job="node",region="r1",instance="node{node}:9100"'
    lines = []
    for line in series_lines(pass_metrics.families(told, detail="disk")):
        name, _, rest = line.partition("{")
        lines.append(f"{name}{{{own},{rest}" if rest else f"{{{own}}} ".join(name.split(" ")))
    return lines


def all_lines(now: int, first: int = 0) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for step in range(first, LAST):
        at = now - (LAST - 1 - step) * STEP
        for node in (1, 2):
            # node2 is served as it was at the end of the first hour.
            then = min(at, now - HOUR) if node == 2 else at
            for line in of_node(node, step >= LAST / 2, then):
                key, _, value = line.rpartition(" ")
                if step >= LAST / 2 and "_average_" in key and f'uuid="{uuid_of(12)}"' in key:
                    value = "NaN"
                often = (30, 0) if node == 2 else (0,)
                found.setdefault(key.partition("{")[0], []).extend(f"{key} {value} {at - before}" for before in often)
    return found


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with prometheus_of(all_lines(int(time.time())), tmp_path_factory.mktemp("replay")) as there:
        yield there


@pytest.fixture
def replay(plimsoll: Run, prometheus: Served, tmp_path: Path) -> Run:
    return replay_of(plimsoll, prometheus, tmp_path)


def replay_of(plimsoll: Run, served: Served, home: Path) -> Run:
    (home / "rules.yaml").write_text("{}\n")
    (home / "qos.yaml").write_text(QOS)
    files = ("--rules", str(home / "rules.yaml"), "--qos", str(home / "qos.yaml"))
    return lambda *words: plimsoll("simulate", "--from-prometheus", served.url, "--since", "119m", *files, *words)


def by_server(ran: Ran) -> dict[str, dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(ran.out)
    return {row["server"]: row for row in found}


@pytest.fixture
def disks(replay: Run) -> dict[str, dict[str, Any]]:
    ran = replay("--by", "disk", "-f", "json")
    assert ran.status == 2, ran.err
    return by_server(ran)


def test_each_disk_fares_as_its_load_says(disks: dict[str, dict[str, Any]]) -> None:
    assert {name: row["verdict"] for name, row in disks.items()} == {
        "web-1": "same",
        "web-2": "worse",
        "web-3": "worse",
        "web-4": "maybe-worse",
        "web-6": "same",
        "web-7": "unknown",
        "web-8": "unknown",
        "web-9": "same",
        "web-11": "worse",
        "web-12": "worse",
        "web-13": "same",
    }
    assert {name: row["reason"] for name, row in disks.items() if row["reason"]} == {
        "web-7": "no-samples",
        "web-8": "size",
    }


def test_what_does_not_fit_waits_at_least_and_everything_at_most(disks: dict[str, dict[str, Any]]) -> None:
    """400 for 300: a hundred a second do not fit. In an open loop all wait; the queue is 100 × 7140 at the end."""
    row = disks["web-2"]
    assert (row["at_limit_before"], row["at_limit_after"]) == (0, {"low": 1, "high": 1})
    assert row["waited"] == {"low": near(100 * 7140), "high": near(400 * 7140)}
    assert row["longest_wait"]["high"] == near(100 * 7140 / 300)
    assert row["longest_wait"]["low"] < 0.001, "a guest that waits for its only request waits for a moment"
    assert (row["limits_before"], row["limits_after"]) == ({"total_iops_sec": 500}, {"total_iops_sec": 300})


def test_what_was_at_its_limit_is_a_range(disks: dict[str, dict[str, Any]]) -> None:
    """32 requests are outstanding at 500 a second and 64 ms: at 300 each waits 107 ms, 43 ms longer. If all comes
    later instead, 720,000 are left, which are served at 300 a second in two thirds of the second hour."""
    row = disks["web-3"]
    assert row["at_limit_before"] == near(0.5)
    assert row["at_limit_after"] == {"low": near(0.5), "high": near(5 / 6)}
    assert row["longest_wait"] == {"low": near(32 / 300 - 0.064), "high": near(200 * HOUR / 300)}


def test_a_raised_limit_may_be_reached_too_if_the_queue_is_let_through(disks: dict[str, dict[str, Any]]) -> None:
    """At 1 ms ten requests outstanding are 10,000 a second; what was served, 250, is below 300."""
    row = disks["web-9"]
    assert row["at_limit_before"] == near(0.5)
    assert row["at_limit_after"] == {"low": 0, "high": near(0.5)}


def test_what_would_be_served_is_a_range_where_demand_was_hidden(disks: dict[str, dict[str, Any]]) -> None:
    """The other half of the time disks 3 and 9 do next to nothing, or the first what waits, if that comes later."""
    served = {name: (row["served_before"], row["served_after"]) for name, row in disks.items()}
    assert served["web-1"] == (near(200), {"low": near(200), "high": near(200)}), "left out by its highest rate"
    assert served["web-2"] == (near(400), {"low": near(300), "high": near(300)})
    assert served["web-3"] == (near(250), {"low": near(150), "high": near(250)})
    assert served["web-9"] == (near(125), {"low": near(125), "high": near(150)})
    assert served["web-6"] == (near(200), {"low": near(200), "high": near(200)}), "of the time that is known"
    assert served["web-7"] == (None, None)


def test_near_the_limit_nothing_surely_waits(disks: dict[str, dict[str, Any]]) -> None:
    row = disks["web-4"]
    assert (row["at_limit_after"], row["waited"]) == ({"low": 1, "high": 1}, {"low": 0, "high": 0})


def test_a_burst_within_a_minute_is_bounded(disks: dict[str, dict[str, Any]]) -> None:
    """If a minute's 12,000 came at once, the last would wait for those before it, but for a tenth of a second."""
    assert disks["web-1"]["burst_wait"] == near((200 * 60 - 30) / 300)


@pytest.mark.parametrize("server", ["web-6", "web-11", "web-12", "web-13"])
def test_gaps_and_metrics_that_no_pass_renews_are_unknown_not_idle(
    disks: dict[str, dict[str, Any]], server: str
) -> None:
    row = disks[server]
    assert row["share_known"] == pytest.approx(0.5, abs=0.05)
    if row["verdict"] == "worse":
        assert row["at_limit_after"]["low"] == near(1), "of the time that is known"


def test_all_of_the_time_is_known_of_a_node_that_is_scraped_less_often_than_another(
    disks: dict[str, dict[str, Any]],
) -> None:
    assert [disks[server]["share_known"] for server in ("web-1", "web-2")] == [near(1), near(1)]


def test_of_a_region_that_is_younger_than_an_hour_the_time_before_is_unknown(plimsoll: Run, tmp_path: Path) -> None:
    minutes = 20
    with prometheus_of(all_lines(int(time.time()), LAST - minutes), tmp_path) as young:
        rows = by_server(replay_of(plimsoll, young, tmp_path)("--by", "disk", "-f", "json"))
    for server in ("web-1", "web-2"):  # left out by its highest rate, and replayed step by step
        assert rows[server]["share_known"] == pytest.approx(minutes / 119, rel=0.15), server


def test_rows_of_projects_and_types_add_up_with_untouched_disks(replay: Run) -> None:
    ran = replay("-f", "json")
    first, second = json.loads(ran.out)
    assert (first["project_name"], second["project_name"]) == ("shop", "other")
    counts = ("disks", "worse", "maybe_worse", "better", "same", "untouched", "unknown")
    assert [first[name] for name in counts] == [12, 4, 1, 0, 3, 2, 2]
    assert [second[name] for name in counts] == [1, 0, 0, 0, 1, 0, 0]
    types = json.loads(replay("--by", "type", "-f", "json").out)
    assert [(row["volume_type"], row["disks"]) for row in types] == [("gold", 11), ("sized", 1)]
    assert first["limits"] == ["500 → 300 IOPS", "500 → 30 IOPS"][:1]


def test_people_get_the_sum_the_reasons_and_the_bound(replay: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    ran = replay("--plot", str(page))
    said = " ".join(ran.out.split())
    assert "Of 13 disks: 4 worse off, 1 may be worse off, 2 unknown, 4 as well off, 2 untouched." in said
    assert "Unknown of 1 disk: a QoS spec has limits per GiB, and sizes are in no metric." in said
    assert "Averages are over up to 60 s" in said
    text = page.read_text()
    assert text.count("<svg") == 0
    assert text.count("data:image/svg+xml;base64,") == 2
    assert "shop" in text


def test_a_project_alone_has_only_its_disks_and_its_own_status(replay: Run) -> None:
    ran = replay("--project", OTHER, "-f", "json")
    assert ran.status == 0, ran.err
    assert [row["disks"] for row in json.loads(ran.out)] == [1]


def test_with_ceilings_that_disks_share_no_one_can_tell_that_none_is_worse_off(
    plimsoll: Run, prometheus: Served, tmp_path: Path
) -> None:
    rules = tmp_path / "rules.yaml"
    asking = ("--from-prometheus", prometheus.url, "--since", "119m", "--project", OTHER)
    statuses = []
    for more in ("", ", project_ceiling: {total_iops_sec: 30000}"):
        rule = f"match: {{project: '{OTHER}'}}, limits: {{total_iops_sec: 20000}}, override: true{more}"
        rules.write_text(f"rules: [{{name: few, {rule}}}]\n")
        ran = plimsoll("simulate", *asking, "--rules", str(rules))
        statuses.append((ran.status, "Not judged: ceilings of guests and projects" in ran.out))
    assert statuses == [(0, False), (5, True)]


def test_rules_without_qos_specs_tell_only_what_needs_none(plimsoll: Run, prometheus: Served, tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(
        f"rules: [{{name: few, match: {{project: '{OTHER}'}}, limits: {{total_iops_sec: 20000}}, override: true}}]\n"
    )
    ran = plimsoll(
        "simulate", "--from-prometheus", prometheus.url, "--since", "119m", "--rules", str(rules), "--by", "disk",
        "-f", "json",
    )  # fmt: skip
    assert ran.status == 5, ran.err
    rows = by_server(ran)
    assert rows["web-9"]["verdict"] == "better"
    assert rows["web-9"]["at_limit_after"] == {"low": 0, "high": 0}
    assert {row["reason"] for name, row in rows.items() if name != "web-9"} == {"no-qos-file"}
    assert "give --qos FILE" in ran.err


@pytest.mark.parametrize(
    ("words", "message", "status"),
    [
        ((), "nothing to try: give --rules FILE, --qos FILE or both", 64),
        (("--qos", "{there}/none.yaml"), "none.yaml: no such file", 1),
        (("--rules", "{there}/bad.yaml"), "bad.yaml:1: ruls is not a key here; did you mean rules?", 1),
        (("--rules", "{there}/good.yaml", "--top", "0"), "--top must be 1 or more", 64),
        (("--rules", "{there}/good.yaml", "--since", "90d"), "--since must be 1h or more", 64),
        (("--rules", "{there}/good.yaml", "--project", "p"), "no disk of project p at the end of the time", 64),
        (
            ("--rules", "{there}/good.yaml", "--plot", "page.pdf"),
            "--plot page.pdf: the name must end with .png, .svg, .html",
            64,
        ),
    ],
)
def test_what_cannot_be_replayed_is_one_line(
    plimsoll: Run, prometheus: Served, tmp_path: Path, words: tuple[str, ...], message: str, status: int
) -> None:
    (tmp_path / "bad.yaml").write_text("ruls: []\n")
    (tmp_path / "good.yaml").write_text("{}\n")
    ran = plimsoll("simulate", "--from-prometheus", prometheus.url, *(word.format(there=tmp_path) for word in words))
    assert (ran.status, ran.out) == (status, "")
    assert message in ran.err
    assert len(ran.err.splitlines()) == 1


def near(value: float) -> Any:
    """An interval at either end, or where the hours meet, may be within the time or not."""
    return pytest.approx(value, rel=0.03)
