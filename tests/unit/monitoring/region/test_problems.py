"""What is wrong in a region, the worst first: each thing once, with its nodes, and what to run next."""

from __future__ import annotations

import re
from typing import Any

import pytest

from plimsoll_agent.monitor.thresholds import MEASURE, SHIPPED, Level, Thresholds
from plimsoll_agent.util.frozen import replace
from plimsoll_monitoring.alerts.files import alerts_of
from plimsoll_monitoring.alerts.site import Site
from plimsoll_monitoring.node.health import Figure, JudgedFigure, Judgement
from plimsoll_monitoring.region.firing import SUMMARIES
from plimsoll_monitoring.region.problems import MOST, RegionProblem, problems
from tests.unit.monitoring.region.test_status import HOUR, NOW, Series, series, status

NAMES = ("n1", "n2", "n3")


def everywhere(value: float, names: tuple[str, ...] = NAMES) -> list[Series]:
    return [series(value, name) for name in names]


def told(names: tuple[str, ...] = NAMES, **answers: list[Series]) -> list[RegionProblem]:
    """Of nodes that are well, but for these answers."""
    well = {name: everywhere(NOW - 60, names) for name in ("last_pass", "good_pass", "seen", "observed")}
    well |= {"paused": everywhere(0, names), "enforcing": everywhere(1, names)}
    return list(problems(status(**{**well, **answers})))


def test_a_region_without_problems_has_none() -> None:
    assert told() == []


@pytest.mark.parametrize(
    ("answers", "level", "text", "do"),
    [
        ({"last_pass": [series(NOW - 5 * HOUR)]}, Level.CRITICAL, "no pass for 5 h", "ssh n1 plimsoll status"),
        ({"last_pass": [series(NOW + 3 * HOUR)]}, Level.UNKNOWN, "time of the last pass unknown",
         "ssh n1 plimsoll status"),
        ({"good_pass": []}, Level.WARNING, "time of the last good pass unknown", "ssh n1 plimsoll status"),
        ({"phases": [series(250, phase="apply")]}, Level.WARNING,
         "the last pass took 4 min 10 s", "ssh n1 plimsoll status"),
        ({"sources": [series(0, source="rules")]}, Level.WARNING, "source down: rules", "ssh n1 plimsoll status"),
        ({"catalogue": [series(NOW - 3 * HOUR)]}, Level.WARNING, "catalogue stale: not refreshed for 3 h",
         "ssh n1 plimsoll status"),
        ({"configured": [series(7200)]}, Level.WARNING, "no usable catalogue", "ssh n1 plimsoll status"),
        ({"observed": [], "paused": []}, Level.UNKNOWN, "disks not observed yet", "ssh n1 plimsoll status"),
        ({"paused": [series(1)]}, Level.WARNING, "paused: nothing is written", "ssh n1 plimsoll status"),
        ({"braked": [series(3, revision="7f3a91c2b04d88e1")]}, Level.WARNING,
         "3 disks deferred by the brake: revision 7f3a91c2b04d88e1 needs approval", "ssh n1 plimsoll plan"),
        ({"unlimited": [series(1, volume_type="gold")]}, Level.WARNING, "1 disk unlimited",
         "plimsoll region disks --region r1 --node n1"),
        ({"disks": [series(2, volume_type="", state="deferred")]}, Level.WARNING, "2 disks deferred",
         "plimsoll region disks --region r1 --node n1"),
        ({"disks": [series(2, volume_type="", state="planned")], "enforcing": [series(0)]}, Level.WARNING,
         "2 disks out of sync (mode observe)", "plimsoll region disks --region r1 --node n1"),
        ({"disks": [series(1, volume_type="", state="failed")]}, Level.WARNING, "change failed on 1 disk",
         "plimsoll region disks --region r1 --node n1"),
        ({"unknown": [series(2, volume_type="gold")]}, Level.WARNING, "2 disks unknown",
         "plimsoll region disks --region r1 --node n1"),
        ({"unknown": [series(2, volume_type="gold")], "aggregates": [series(1)]}, Level.WARNING, "2 disks unknown",
         "ssh n1 plimsoll disk list"),
        ({"unreachable_guests": [series(2)]}, Level.WARNING, "2 guests unreachable", "ssh n1 plimsoll status"),
        ({"daemon_wrote": [series(NOW - 70)], "daemon_connected": [series(0)]}, Level.WARNING,
         "daemon: does not run", "ssh n1 plimsoll status"),
        ({"daemon_wrote": [series(NOW - 10)], "daemon_connected": [series(0)], "daemon_reloaded": [series(0)]},
         Level.WARNING, "daemon: has no events, settings not reloaded", "ssh n1 plimsoll status"),
    ],
)  # fmt: skip
def test_a_problem_of_a_node_has_the_command_to_run_next(
    answers: dict[str, list[Series]], level: Level, text: str, do: str
) -> None:
    (problem,) = told(("n1",), **answers)
    assert (problem.level, problem.text, problem.do) == (level, f"{text}: n1", do)


def test_each_thing_that_is_wrong_is_one_line_with_its_nodes_in_the_order_of_their_numbers() -> None:
    names = tuple(f"node{number}:9100" for number in (1, 2, 6, 7, 10))
    found = told(
        names,
        last_pass=[series(NOW - (5 * HOUR if name == "node2:9100" else 60), name) for name in names],
        unlimited=[series(1, f"node{number}:9100", volume_type="gold") for number in (7, 6)],
        sources=[series(0, f"node{number}:9100", source="rules") for number in (10, 2)],
    )
    assert [(each.level.name, each.text, each.do) for each in found] == [
        ("CRITICAL", "no pass for 5 h: node2", "ssh node2 plimsoll status"),
        ("WARNING", "source down: rules: node2, node10", "ssh node2 plimsoll status"),
        ("WARNING", "2 disks unlimited: node6, node7",
         "plimsoll region disks --region r1 --node node6 --node node7"),
    ]  # fmt: skip
    assert found[1].nodes == (("r1", "node2:9100"), ("r1", "node10:9100"))


def test_two_exporters_of_one_host_keep_their_ports() -> None:
    found = told(
        ("h:1", "h:2", "[::1]:9100"), sources=[series(0, name, source="rules") for name in ("h:2", "[::1]:9100")]
    )
    assert found[0].text == "source down: rules: ::1, h:2"
    assert found[0].do == "ssh ::1 plimsoll status"


def test_what_follows_from_another_problem_is_told_with_it() -> None:
    (problem,) = told(("n1",), good_pass=[series(NOW - 2 * HOUR)], braked=[series(3, revision="aa")], sources=[])
    assert problem.text == "3 disks deferred by the brake: revision aa needs approval; no good pass for 2 h: n1"
    assert problem.do == "ssh n1 plimsoll plan"
    (problem,) = told(("n1",), unreachable_guests=[series(1)], unknown=[series(2, volume_type="gold")])
    assert problem.text == "1 guest unreachable; 2 disks unknown: n1"
    failures = [series(2, volume_type="", state="failed")]
    (problem,) = told(("n1",), unlimited=[series(2)], disks=failures, good_pass=[series(NOW - 2 * HOUR)])
    assert problem.text == "2 disks unlimited; change failed on 2 disks; no good pass for 2 h: n1"
    (problem,) = told(("n1",), paused=[series(1)], disks=[series(2, volume_type="", state="deferred")])
    assert problem.text == "paused: nothing is written; 2 disks deferred: n1"


def test_what_follows_on_some_of_the_nodes_says_on_how_many() -> None:
    failures = [series(1, name, volume_type="", state="failed") for name in NAMES]
    (problem,) = told(
        disks=failures, good_pass=[series(NOW - 2 * HOUR), series(NOW - 60, "n2"), series(NOW - 9 * HOUR, "n3")]
    )
    assert problem.text == "change failed on 3 disks; no good pass for up to 9 h (on 2 of them): n1, n2, n3"


def test_disks_that_the_brake_defers_are_told_once() -> None:
    braked = {"braked": [series(3, revision="aa")]}
    (problem,) = told(("n1",), **braked, disks=[series(3, volume_type="", state="deferred")])
    assert problem.text == "3 disks deferred by the brake: revision aa needs approval: n1"
    assert problem.figures == ("braked", "behind")
    (problem,) = told(("n1",), **braked, disks=[series(4, volume_type="", state="deferred")])
    assert problem.text.endswith("needs approval; 4 disks deferred: n1")


def test_without_a_pass_it_is_not_said_thrice() -> None:
    old = [series(NOW - 2 * HOUR)]
    (problem,) = told(("n1",), last_pass=old, good_pass=old, observed=old)
    assert problem.text == "no pass for 2 h: n1"
    assert problem.figures == ("pass_age", "good_pass_age", "observed_age")
    (problem,) = told(("n1",), last_pass=old, good_pass=[series(NOW - 9 * HOUR)], observed=old)
    assert problem.text == "no pass for 2 h; no good pass for 9 h: n1"


def test_the_mode_sets_only_nodes_apart_whose_disks_are_out_of_sync() -> None:
    modes = [series(0, "n1"), series(1, "n2"), series(1, "n3")]
    assert len(told(enforcing=modes, unreachable_guests=everywhere(1))) == 1
    behind = [series(1, name, volume_type="", state="planned") for name in NAMES]
    assert len(told(enforcing=modes, disks=behind)) == 2


def test_the_worst_nodes_stand_first() -> None:
    found = told(
        last_pass=[series(NOW - 1000, "n1"), series(NOW - 60, "n2"), series(NOW - 5 * HOUR, "n3")],
        seen=everywhere(NOW - 60, (*NAMES, "n4")),
    )
    assert [problem.level for problem in found] == [Level.CRITICAL, Level.UNKNOWN, Level.WARNING]
    assert [problem.text.rpartition(": ")[2] for problem in found] == ["n3", "n4", "n1"]


def test_many_nodes_are_counted_numbers_add_up_and_the_worst_is_where_to_look() -> None:
    names = tuple(f"n{number}" for number in range(12))
    found = told(
        names,
        last_pass=[series(NOW - 1000 - number, name) for number, name in enumerate(names)],
        unlimited=[series(2, name, volume_type="gold") for name in names],
    )
    assert [(each.text, each.do) for each in found] == [
        ("no pass for up to 16 min 51 s: 12 nodes, n0, n1, n2, n3 and 8 more", "ssh n11 plimsoll status"),
        ("24 disks unlimited: 12 nodes, n0, n1, n2, n3 and 8 more", "plimsoll region disks --region r1"),
    ]
    assert len(found[0].nodes) == 12


def test_of_another_revision_or_source_is_another_problem() -> None:
    found = told(
        braked=[series(3, "n1", revision="aa"), series(4, "n2", revision="bb"), series(5, "n3", revision="aa")]
    )
    assert {problem.text for problem in found} == {
        "8 disks deferred by the brake: revision aa needs approval: n1, n3",
        "4 disks deferred by the brake: revision bb needs approval: n2",
    }
    assert len(told(sources=[series(0, "n1", source="rules"), series(0, "n2", source="libvirt")])) == 2


# --- alerts


def an_alert(
    name: str, severity: str = "warning", node: str = "", since: float = NOW - HOUR, **labels: str
) -> Series:
    return Series({"region": "r1", "instance": node, "alertname": name, "severity": severity, **labels}, since)


def test_an_alert_that_no_node_can_tell_is_a_problem_before_those_of_nodes() -> None:
    burning = "PlimsollLatencyBudgetBurning"
    found = told(
        unlimited=everywhere(1),
        alerts=[
            an_alert(burning, "critical", volume_type="standard", window="6h", objective="0.99"),
            an_alert(burning, volume_type="standard", window="3d", since=NOW - 2 * HOUR),
            an_alert("PlimsollDaemonRestarts", node="n2"),
            an_alert("PlimsollNewName", node="n3", since=0),
            an_alert("PlimsollVersionSkew", "info"),
        ],
    )
    assert [(each.level.name, each.text, each.do) for each in found] == [
        ("CRITICAL",
         "latency budget of volume type standard burns too fast"
         " (alert PlimsollLatencyBudgetBurning since 06:00 UTC)",
         "plimsoll region probes --region r1 --type standard"),
        ("WARNING", "the daemon restarts again and again: n2 (alert PlimsollDaemonRestarts since 07:00 UTC)",
         "ssh n2 plimsoll status"),
        ("WARNING", "alert: n3 (alert PlimsollNewName)", "ssh n3 plimsoll status"),
        ("WARNING", "3 disks unlimited: n1, n2, n3",
         "plimsoll region disks --region r1 --node n1 --node n2 --node n3"),
    ]  # fmt: skip
    assert found[0].alerts == (burning,)


def test_an_alert_on_what_nodes_tell_is_not_told_again_but_its_severity_counts() -> None:
    (problem,) = told(
        unlimited=everywhere(1),
        alerts=[an_alert("PlimsollDisksUnlimited", "critical", "n2"), an_alert("PlimsollDisksUnlimited", node="n1")],
    )
    assert (problem.level, problem.text) == (Level.CRITICAL, "3 disks unlimited: n1, n2, n3")
    assert problem.alerts == ("PlimsollDisksUnlimited",)
    assert len(told(unlimited=everywhere(1, ("n1",)), alerts=[an_alert("PlimsollDisksUnlimited", node="n9")])) == 2
    (problem,) = told(catalogue=[series(NOW - 3 * HOUR)], alerts=[an_alert("PlimsollCatalogueStale")])
    assert problem.alerts == ("PlimsollCatalogueStale",)


def test_an_alert_makes_a_region_of_good_nodes_no_good_one() -> None:
    assert status(alerts=[an_alert("PlimsollGuestsStalled")]).level is Level.WARNING


def test_an_alert_without_a_region_names_none() -> None:
    both = [series(NOW - 60), series(NOW - 60, region_name="r2")]
    alert = replace(an_alert("PlimsollMdsThrashing"), labels={"alertname": "PlimsollMdsThrashing"})
    (problem,) = problems(status(last_pass=both, seen=both, good_pass=both, observed=both, alerts=[alert]))
    assert problem.text.startswith("ranks of a CephFS forward many requests (alert ")


def test_each_alert_that_warns_has_a_summary_with_labels_that_it_has() -> None:
    for alert in alerts_of(Site(compute_nodes='job="node"', promised_ratio=1, burst_left=0.1)):
        if alert.severity != "info":
            names = set(re.findall(r"{(\w+)}", SUMMARIES[alert.name]))
            shown = set(re.findall(r"labels\.(\w+)", alert.summary + alert.description)) | {"domain"}
            assert names <= shown, alert.name


def test_an_alert_on_congestion_leads_to_the_list_of_its_classes() -> None:
    (problem,) = told(alerts=[an_alert("PlimsollCongested", cluster="c1", device_class="ssd")])
    assert problem.text.startswith("class ssd of cluster c1 congested for hours")
    assert problem.do == "plimsoll region congestion --region r1"


def test_nodes_without_factors_of_congestion_are_told_once_with_their_alert() -> None:
    (problem,) = told(sources=[series(0, source="congestion")], alerts=[an_alert("PlimsollCongestionStale")])
    assert problem.alerts == ("PlimsollCongestionStale",)


def test_disks_of_a_few_nodes_are_listed_by_node_and_those_of_many_by_region() -> None:
    names = tuple(f"n{number}" for number in range(9))
    few = told(unlimited=[series(1, name, volume_type="") for name in NAMES])
    many = told(names, unlimited=[series(1, name, volume_type="") for name in names])
    assert [problem.do for problem in few] == ["plimsoll region disks --region r1 --node n1 --node n2 --node n3"]
    assert [problem.do for problem in many] == ["plimsoll region disks --region r1"]


def test_the_command_asks_the_same_prometheus() -> None:
    given = ("--prometheus", "http://p:9090")
    (problem,) = problems(status(unlimited=[series(1, volume_type="gold")]), ("--config-file", "/x"), given)
    assert problem.do == "plimsoll --config-file /x region disks --prometheus http://p:9090 --region r1 --node n1"


def test_probes_lead_to_the_probes_of_the_node() -> None:
    probe = {"uuid": "u", "directory": "/mnt", "domain": "canary"}
    verdicts = [series(1, **probe, probe=job, verdict="short") for job in ("read", "write")]
    (problem,) = told(("n1",), probe_verdicts=verdicts)
    assert problem.text == "2 promises broken: n1"
    assert problem.do == "plimsoll region probes --by guest --region r1 --node n1"


def test_an_unreachable_node_has_no_figures() -> None:
    (problem,) = told(seen=[*everywhere(NOW - 60), series(NOW - HOUR, "n9")])
    assert problem.text == "unreachable for about 1 h (no metrics in Prometheus): n9"
    assert problem.level is Level.UNKNOWN
    assert problem.do == "ssh n9 plimsoll status"


def test_nodes_of_the_same_name_in_two_regions_are_told_apart() -> None:
    both = [series(NOW - 60), series(NOW - 9000, region_name="r2")]
    found = list(problems(status(last_pass=both, seen=both, good_pass=[replace(one, value=NOW) for one in both])))
    assert [problem.text for problem in found] == ["no pass for 2 h 30 min; disks not observed yet: n1 (r2)"]


def test_what_no_screen_holds_is_counted() -> None:
    names = tuple(f"n{number}" for number in range(MOST + 5))
    found = told(names, sources=[series(0, name, source=f"s{name}") for name in names])
    *shown, rest = found
    assert len(shown) == MOST - 1
    assert rest.text == "6 more problems of 6 nodes"
    assert rest.do == "plimsoll region status -f json"
    assert len(rest.nodes) == 6


def test_figures_that_are_unknown_are_told_as_such() -> None:
    watched: dict[str, Thresholds] = {**SHIPPED, "at_limit": Thresholds("5", "")}
    (problem,) = problems(status(watched, at_limit=[series(9, volume_type="gold")]))
    assert problem.text == "9 disks at limit: n1"


def test_an_unknown_number_of_disks_behind_is_told_beside_one_of_the_brake() -> None:
    unknown = [
        JudgedFigure(
            measure=MEASURE[name], figure=Figure(name=name, value=None), thresholds=SHIPPED[name], level=Level.UNKNOWN
        )
        for name in ("braked", "behind")
    ]
    judgement = Judgement(tuple(unknown))
    region = status()
    region = replace(region, nodes=tuple(replace(node, judgement=judgement) for node in region.nodes))
    (problem,) = problems(region)
    assert problem.text == "braked unknown; behind unknown: n1"


def test_no_name_speaks_to_the_terminal() -> None:
    evil = "x\x1b[2J\n"
    answers: dict[str, Any] = {name: [series(NOW - 9000, evil)] for name in ("last_pass", "seen", "observed")}
    answers["sources"] = [series(0, evil, source=evil)]
    answers["braked"] = [series(1, evil, revision=evil)]
    answers["alerts"] = [an_alert(f"Plimsoll{evil}", node=evil), an_alert("PlimsollTextfileStale", file=evil)]
    for problem in problems(status(**answers)):
        assert problem.text.isprintable()
        assert problem.do.isprintable()
