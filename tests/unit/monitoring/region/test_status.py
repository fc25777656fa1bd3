"""The region at a glance: what answers of Prometheus come to, at any state of its nodes."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll_agent.monitor.thresholds import SHIPPED, Level, Thresholds
from plimsoll_agent.util.frozen import replace
from plimsoll_monitoring.promql import SeriesSelection
from plimsoll_monitoring.region import messages, serialize
from plimsoll_monitoring.region import status as fleet_status
from plimsoll_monitoring.region.answers import Series
from plimsoll_monitoring.region.status import RegionSnapshot, questions

NOW = 1_800_000_000.0
HOUR = 3600.0


def series(value: float, node: str = "n1", region_name: str = "r1", **labels: str) -> Series:
    return Series({"region": region_name, "instance": node, **labels}, value)


def answers(**told: list[Series]) -> dict[str, list[Series]]:
    """A node n1 that is well, unless it is told otherwise."""
    well = {
        "last_pass": [series(NOW - 60)],
        "good_pass": [series(NOW - 60)],
        "seen": [series(NOW - 60)],
        "enforcing": [series(1)],
        "paused": [series(0)],
        "observed": [series(NOW - 60, node) for node in ("n1", "n2", "n3")],
        "braked": [series(0)],
        "sources": [series(1, source="libvirt")],
        "versions": [series(1, version="1.2.3")],
        "disks": [series(4, volume_type="gold", state="in-sync")],
    }
    return {name: told.get(name, well.get(name, [])) for name in questions(SeriesSelection())}


def status(thresholds: dict[str, Thresholds] | None = None, **told: list[Series]) -> RegionSnapshot:
    return fleet_status.status(answers(**told), NOW, thresholds or SHIPPED)


def wrong(found: RegionSnapshot) -> dict[str, Level]:
    return {each.measure.name: each.level for node in found.nodes for each in node.judgement.wrong}


def test_a_region_where_all_is_well_is_well() -> None:
    assert wrong(status()) == {}
    assert status().level is Level.OK
    assert list(messages.remarks(status())) == []
    assert messages.good_words(status()) == "1 node, 4 disks: 4 in sync"


def test_metrics_that_disagree_make_no_negative_number_of_disks() -> None:
    found = status(disks=[series(2, volume_type="gold", state="unknown")], unknown=[series(5, volume_type="gold")])
    assert messages.good_words(found) == "1 node, 2 disks: 5 unknown"


@pytest.mark.parametrize(
    ("told", "name", "level"),
    [
        ({"last_pass": [series(NOW - 5 * HOUR)]}, "pass_age", Level.CRITICAL),
        ({"last_pass": [series(NOW - 1000)]}, "pass_age", Level.WARNING),
        ({"last_pass": [series(NOW + 3 * HOUR)]}, "pass_age", Level.UNKNOWN),
        ({"good_pass": [series(NOW - 2 * HOUR)]}, "good_pass_age", Level.WARNING),
        ({"good_pass": []}, "good_pass_age", Level.WARNING),
        ({"phases": [series(200, phase="apply"), series(50, phase="gate")]}, "pass_seconds", Level.WARNING),
        ({"sources": [series(0, source="rules")]}, "sources_down", Level.WARNING),
        ({"catalogue": [series(NOW - 3 * HOUR)]}, "catalogue_age", Level.WARNING),
        ({"observed": [series(NOW - HOUR)]}, "observed_age", Level.WARNING),
        ({"paused": [series(1)]}, "paused", Level.WARNING),
        ({"braked": [series(3)]}, "braked", Level.WARNING),
        ({"unlimited": [series(1, volume_type="gold")]}, "unlimited", Level.WARNING),
        ({"disks": [series(1, volume_type="", state="deferred")]}, "behind", Level.WARNING),
        ({"disks": [series(1, volume_type="", state="planned")]}, "behind", Level.WARNING),
        ({"disks": [series(1, volume_type="", state="failed")]}, "failed", Level.WARNING),
        ({"disks": [series(1, volume_type="", state="unknown")]}, "unknown", Level.WARNING),
        ({"unknown": [series(2, volume_type="gold")]}, "unknown", Level.WARNING),
        ({"unreachable_guests": [series(2)]}, "unreachable_guests", Level.WARNING),
        ({"daemon_age": [series(70)]}, "daemon_faults", Level.WARNING),
    ],
)
def test_each_ill_of_a_node_is_an_ill_of_the_region(told: Any, name: str, level: Level) -> None:
    found = status(**told)
    assert wrong(found) == {name: level}


def test_probes_are_not_overdue_in_a_pause_nor_for_what_was_missed_while_the_node_was_off() -> None:
    guest = {"uuid": "u1", "domain": "i1", "directory": "/srv"}
    told = {"probe_last": [series(NOW - 30 * HOUR, **guest)], "probe_every": [series(6 * HOUR, **guest)]}
    assert wrong(status(**told)) == {"probe_late": Level.WARNING}
    assert wrong(status(**told, paused=[series(1)])) == {"paused": Level.WARNING}
    assert wrong(status(**told, boot=[series(NOW - HOUR)])) == {}


def test_several_versions_are_skew_and_no_problem() -> None:
    """A rollout takes weeks. What 0.1.0 calls otherwise is counted by its own name, and not judged."""
    both = [series(NOW - 60), series(NOW - 60, "n2")]
    found = status(
        last_pass=both,
        good_pass=both,
        seen=both,
        versions=[series(1, version="0.2.0"), series(1, "n2", version="0.1.0")],
        disks=[series(4, volume_type="gold", state="in-sync"), series(2, "n2", volume_type="gold", state="right")],
        runs=[Series({"region": "r1", "volume_type": "gold", "verdict": "discarded"}, 9.0)],
        p50=[Series({"region": "r1", "volume_type": "gold"}, 0.01)],
    )
    assert (found.level, wrong(found)) == (Level.OK, {})
    assert list(messages.remarks(found)) == ["2 versions: figures that only one of them reports are incomplete"]
    facts = messages.status_facts(found)
    assert facts["versions"] == "0.1.0 on 1 node, 0.2.0 on 1 node"
    assert facts["disks"].startswith("6: 4 ")
    assert facts["disks"].endswith(", 2 right")


def test_a_daemon_that_never_started_is_told_where_most_nodes_have_one() -> None:
    names = ("n1", "n2", "n3")
    every = [series(NOW - 60, name) for name in names]

    def remarks(*daemons: str) -> list[str]:
        found = status(last_pass=every, good_pass=every, seen=every, daemon_age=[series(5, name) for name in daemons])
        assert found.level is Level.OK
        return list(messages.remarks(found))

    assert remarks("n1", "n3") == ["1 node without a daemon, which the others have: stopped, or never started: n2"]
    assert remarks(*names) == remarks("n1") == remarks() == []


def test_rules_are_not_loaded_where_nothing_is_recorded_and_not_where_no_probe_had_a_request() -> None:
    runs = [Series({"region": "r1", "volume_type": "gold", "verdict": "failed"}, 0.0)]
    assert list(messages.remarks(status(runs=runs, recorded=[Series({}, 1.0)]))) == []
    (remark,) = messages.remarks(status(runs=runs))
    assert remark.startswith("percentiles unknown: this Prometheus has not loaded plimsoll-rules.yaml")


def test_a_node_whose_version_is_unknown_is_no_second_version() -> None:
    both = [series(NOW - 60), series(NOW - 60, "n2")]
    found = status(last_pass=both, good_pass=both, seen=both, versions=[series(1, version="0.2.0")])
    assert list(messages.remarks(found)) == []


def test_the_ranges_of_the_settings_count_and_no_others() -> None:
    patient = {**SHIPPED, "pass_age": Thresholds("", "7200")}
    assert wrong(status(patient, last_pass=[series(NOW - HOUR)])) == {}
    assert wrong(status(patient, last_pass=[series(NOW - 3 * HOUR)])) == {"pass_age": Level.CRITICAL}
    wall = {"at_limit": [series(9, volume_type="gold")]}
    assert wrong(status(None, **wall)) == {}
    assert wrong(status({**SHIPPED, "at_limit": Thresholds("5", "")}, **wall)) == {"at_limit": Level.WARNING}


def test_a_node_without_series_is_not_ok_and_none_of_its_figures_is_zero() -> None:
    found = status(seen=[series(NOW), series(NOW - HOUR, "n2")])
    (unreachable,) = [node for node in found.nodes if node.unreachable_since is not None]
    assert (unreachable.instance, unreachable.unreachable_since) == ("n2", NOW - HOUR)
    assert [finding.figure.value for finding in unreachable.judgement.findings] == [None]
    assert list(messages.remarks(found)) == ["disks and probes of unreachable nodes are not counted"]
    assert messages.status_facts(found)["nodes"] == "2: 1 ok, 1 unreachable"
    assert messages.status_facts(found)["versions"] == "1.2.3 on 1 node"


def test_nodes_of_one_name_in_two_regions_are_two() -> None:
    both = [series(NOW - 60), series(NOW - 9000, region_name="r2")]
    found = status(last_pass=both, seen=both, good_pass=[replace(one, value=NOW) for one in both])
    assert len(found.nodes) == 2
    assert "region" in messages.type_columns(regions=True)


def test_types_add_up_over_nodes_and_not_over_regions() -> None:
    gold = {"volume_type": "gold"}
    found = status(
        disks=[
            series(2, "n1", **gold, state="in-sync"),
            series(3, "n2", **gold, state="in-sync"),
            series(1, "n2", **gold, state="deferred"),
            series(7, "n1", "r2", **gold, state="in-sync"),
        ],
        unlimited=[series(1, "n1", **gold), series(1, "n2", **gold)],
        at_limit=[series(2, "n2", **gold), series(0, "n1", **gold)],
        drift=[Series({"region": "r1", **gold}, 3.0004)],
        runs=[Series({"region": "r1", **gold, "verdict": verdict}, 1.001) for verdict in ("kept", "short", "failed")],
        p99=[Series({"region": "r1", **gold}, 0.041)],
        p50=[Series({"region": "r1", **gold}, float("nan"))],
    )
    first, second = found.types
    assert (dict(first.states), first.unlimited, first.at_limit, round(first.drift)) == (
        {"in-sync": 5, "deferred": 1},
        2,
        2,
        3,
    )
    assert dict(second.states) == {"in-sync": 7}
    row = dict(zip(messages.type_columns(regions=True), messages.type_rows(found, regions=True)[0], strict=True))
    assert (row["kept"], row["runs"], row["p99"], row["p50"], row["p99.9"]) == ("1 of 2", "2", "41 ms", "-", "-")


def test_disks_without_a_type_and_nodes_without_a_region_are_said_to_have_none() -> None:
    found = status(disks=[series(2, region_name="", volume_type="", state="in-sync")])
    assert messages.type_rows(found, regions=True)[0][:3] == ("no region", "no type", "2")


def test_percentiles_that_no_rule_records_are_said_to_be_unknown() -> None:
    runs = [Series({"region": "r1", "volume_type": "gold", "verdict": "kept"}, 2.0)]
    assert any("plimsoll-rules.yaml" in line for line in messages.remarks(status(runs=runs)))
    known = status(runs=runs, p99=[Series({"region": "r1", "volume_type": "gold"}, 0.1)])
    assert not any("plimsoll-rules.yaml" in line for line in messages.remarks(known))


def test_without_a_run_the_promise_is_unknown_and_not_broken() -> None:
    assert "unknown" in messages.status_facts(status())["promise"]
    assert serialize.status_data(status(), [])["kept"] is None


def test_recorded_percentiles_are_asked_for_unless_it_is_about_some_nodes() -> None:
    assert questions(SeriesSelection())["p99"] == "volume_type:plimsoll_probe_latency_seconds:p99_1d{}"
    assert "_bucket" in questions(SeriesSelection(nodes=("n1",)))["p99"]


def test_no_label_is_shown_as_it_is() -> None:
    evil = "x\x1b[2J\u202e\n"
    everywhere = answers(
        last_pass=[series(NOW - 9000, evil, evil)],
        seen=[series(NOW, evil, evil)],
        versions=[series(1, evil, evil, version=evil)],
        sources=[series(0, evil, evil, source=evil)],
        disks=[series(1, evil, evil, volume_type=evil, state=evil)],
        probe_postponed=[series(NOW, evil, evil, uuid=evil, domain=evil, directory=evil, why=evil)],
        aggregates=[series(1, evil, evil)],
    )
    found = fleet_status.status(everywhere, NOW, SHIPPED)
    words = [
        *messages.status_facts(found).values(),
        *messages.remarks(found),
        *(cell for row in messages.type_rows(found, regions=True) for cell in row),
    ]
    assert [word for word in words if not word.isprintable()] == []
    assert any("x?[2J??" in word for word in words)


# --- figures in words ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (None, "-"),
        (1.0, "100 %"),
        (0.9999, "99.9 %"),
        (0.79996, "80 %"),
        (0.95, "95 %"),
        (0.0, "0 %"),
        (1.2, "120 %"),
    ],
)
def test_what_is_not_whole_is_never_rounded_to_100(ratio: float | None, words: str) -> None:
    assert messages.percent(ratio) == words


@pytest.mark.parametrize(
    ("ratio", "words"),
    [(0.0, "0 %"), (0.004, "<1 %"), (0.306, "31 %"), (0.9999, "99 %"), (1.0, "100 %"), (1.2, "120 %")],
)
def test_a_used_share_is_in_whole_per_cent_and_a_part_of_a_limit_is_never_all_of_it(ratio: float, words: str) -> None:
    assert messages.whole_percent(ratio) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "-"),
        (0.000066, "66 µs"),
        (0.0419, "41.9 ms"),
        (0.4, "400 ms"),
        (0.9997, "1000 ms"),
        (1.94, "1.94 s"),
        (17.045651456, "over 17 s"),
    ],
)
def test_latencies_have_three_figures_and_the_last_edge_is_a_bound(seconds: float | None, words: str) -> None:
    assert messages.seconds_words(seconds) == words


def test_an_approval_is_told_with_its_stage_and_what_stops_the_next() -> None:
    of = {"approval": "0a1b0a1b0a1b0a1b"}
    reached = {
        "stage": [series(1, **of), series(2, **of | {"approval": "cc"})],
        "stages": [series(3, **of), series(float("nan"), **of | {"approval": "cc"})],
        "stage_entered": [series(NOW - 2400, **of)],
    }
    assert list(messages.remarks(status(**reached))) == ["approval 0a1b0a1b0a1b0a1b: stage 1 of 3 for 40 min"]
    stops = [series(1, **of, condition="health", known="false"), series(1, **of, condition="at-limit", known="true")]
    found = status(**reached, stage_stopped=stops)
    assert list(messages.remarks(found)) == [
        "approval 0a1b0a1b0a1b0a1b: stage 1 of 3 for 40 min; the next does not begin: at-limit, health (unknown)"
    ]
