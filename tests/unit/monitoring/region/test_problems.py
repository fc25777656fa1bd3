"""What is wrong in a region, the worst first: each thing once, with its nodes, and what to run next."""

from __future__ import annotations

import re
from typing import Any

from plimsoll_agent.monitor.thresholds import MEASURE, SHIPPED, Level, Thresholds
from plimsoll_agent.util.frozen import replace
from plimsoll_monitoring.alerts.files import alerts_of
from plimsoll_monitoring.alerts.site import Site
from plimsoll_monitoring.node.health import Figure, JudgedFigure, Judgement
from plimsoll_monitoring.region.firing import SUMMARIES
from plimsoll_monitoring.region.problems import MOST, RegionProblem, problems
from tests import golden
from tests.unit.monitoring.region.test_status import HOUR, NOW, Series, series, status

NAMES = ("n1", "n2", "n3")


def everywhere(value: float, names: tuple[str, ...] = NAMES) -> list[Series]:
    return [series(value, name) for name in names]


def told(names: tuple[str, ...] = NAMES, **answers: list[Series]) -> list[RegionProblem]:
    """Of nodes that are well, but for these answers."""
    well = {name: everywhere(NOW - 60, names) for name in ("last_pass", "good_pass", "seen", "observed")}
    well |= {"paused": everywhere(0, names), "enforcing": everywhere(1, names)}
    return list(problems(status(**{**well, **answers})))


def an_alert(
    name: str, severity: str = "warning", node: str = "", since: float = NOW - HOUR, **labels: str
) -> Series:
    return Series({"region": "r1", "instance": node, "alertname": name, "severity": severity, **labels}, since)


def of_disks(state: str, number: float = 2, names: tuple[str, ...] = ("n1",)) -> list[Series]:
    return [series(number, name, volume_type="", state=state) for name in names]


def unlimited(number: float, names: tuple[str, ...] = ("n1",)) -> list[Series]:
    return [series(number, name, volume_type="gold") for name in names]


def down(**sources: str) -> list[Series]:
    return [series(0, name, source=source) for name, source in sources.items()]


ONE, TWELVE = ("n1",), tuple(f"n{number}" for number in range(12))
FIVE = tuple(f"node{number}:9100" for number in (1, 2, 6, 7, 10))
OLD = [series(NOW - 2 * HOUR)]
BRAKED = [series(3, revision="aa")]
UNKNOWN = [series(2, volume_type="gold")]
MODES = [series(0, "n1"), series(1, "n2"), series(1, "n3")]
BURNING = {"volume_type": "standard", "objective": "0.99"}
PROBE = {"uuid": "u", "directory": "/mnt", "domain": "canary", "verdict": "short"}
BUDGET = "PlimsollLatencyBudgetBurning"

REGIONS: dict[str, tuple[tuple[str, ...], dict[str, list[Series]]]] = {
    "no problem": (NAMES, {}),
    "no pass for hours": (ONE, {"last_pass": [series(NOW - 5 * HOUR)]}),
    "a pass in the future": (ONE, {"last_pass": [series(NOW + 3 * HOUR)]}),
    "no good pass known": (ONE, {"good_pass": []}),
    "a long pass": (ONE, {"phases": [series(250, phase="apply")]}),
    "a source is down": (ONE, {"sources": down(n1="rules")}),
    "the catalogue is stale": (ONE, {"catalogue": [series(NOW - 3 * HOUR)]}),
    "no usable catalogue": (ONE, {"configured": [series(7200)]}),
    "not observed": (ONE, {"observed": [], "paused": []}),
    "paused": (ONE, {"paused": [series(1)]}),
    "the brake": (ONE, {"braked": [series(3, revision="7f3a91c2b04d88e1")]}),
    "unlimited": (ONE, {"unlimited": unlimited(1)}),
    "deferred": (ONE, {"disks": of_disks("deferred")}),
    "out of sync, in mode observe": (ONE, {"disks": of_disks("planned"), "enforcing": [series(0)]}),
    "a change failed": (ONE, {"disks": of_disks("failed", 1)}),
    "unknown": (ONE, {"unknown": UNKNOWN}),
    "unknown, where metrics have no disks": (ONE, {"unknown": UNKNOWN, "aggregates": [series(1)]}),
    "unreachable guests": (ONE, {"unreachable_guests": [series(2)]}),
    "the daemon does not run": (ONE, {"daemon_age": [series(70)], "daemon_connected": [series(0)]}),
    "the daemon has no events and earlier settings": (
        ONE,
        {
            "daemon_age": [series(10)],
            "daemon_connected": [series(0)],
            "daemon_reloaded": [series(0)],
        },
    ),
    "each thing once, with its nodes in the order of their numbers": (
        FIVE,
        {
            "last_pass": [series(NOW - (5 * HOUR if name == "node2:9100" else 60), name) for name in FIVE],
            "unlimited": unlimited(1, ("node7:9100", "node6:9100")),
            "sources": down(**{"node10:9100": "rules", "node2:9100": "rules"}),
        },
    ),
    "two exporters of one host": (
        ("h:1", "h:2", "[::1]:9100"),
        {"sources": down(**{"h:2": "rules", "[::1]:9100": "rules"})},
    ),
    "no good pass follows from the brake": (ONE, {"good_pass": OLD, "braked": BRAKED, "sources": []}),
    "unknown disks of an unreachable guest": (ONE, {"unreachable_guests": [series(1)], "unknown": UNKNOWN}),
    "failed changes of unlimited disks": (
        ONE,
        {"unlimited": [series(2)], "disks": of_disks("failed"), "good_pass": OLD},
    ),
    "deferred by the pause": (ONE, {"paused": [series(1)], "disks": of_disks("deferred")}),
    "what follows on some of the nodes": (
        NAMES,
        {
            "disks": of_disks("failed", 1, NAMES),
            "good_pass": [*OLD, series(NOW - 60, "n2"), series(NOW - 9 * HOUR, "n3")],
        },
    ),
    "deferred by the brake: told once": (ONE, {"braked": BRAKED, "disks": of_disks("deferred", 3)}),
    "deferred by the brake, and one more": (ONE, {"braked": BRAKED, "disks": of_disks("deferred", 4)}),
    "no pass, told once": (ONE, {"last_pass": OLD, "good_pass": OLD, "observed": OLD}),
    "no good pass for longer": (
        ONE,
        {"last_pass": OLD, "good_pass": [series(NOW - 9 * HOUR)], "observed": OLD},
    ),
    "the mode is no matter": (NAMES, {"enforcing": MODES, "unreachable_guests": everywhere(1)}),
    "the mode sets nodes apart": (NAMES, {"enforcing": MODES, "disks": of_disks("planned", 1, NAMES)}),
    "the worst nodes first": (
        NAMES,
        {
            "last_pass": [series(NOW - 1000, "n1"), series(NOW - 60, "n2"), series(NOW - 5 * HOUR, "n3")],
            "seen": everywhere(NOW - 60, (*NAMES, "n4")),
        },
    ),
    "many nodes": (
        TWELVE,
        {
            "last_pass": [series(NOW - 1000 - number, name) for number, name in enumerate(TWELVE)],
            "unlimited": unlimited(2, TWELVE),
        },
    ),
    "two revisions": (
        NAMES,
        {"braked": [series(3, revision="aa"), series(4, "n2", revision="bb"), series(5, "n3", revision="aa")]},
    ),
    "two sources": (NAMES, {"sources": down(n1="rules", n2="libvirt")}),
    "alerts that no node can tell": (
        NAMES,
        {
            "unlimited": everywhere(1),
            "alerts": [
                an_alert(BUDGET, "critical", window="6h", **BURNING),
                an_alert(BUDGET, window="3d", since=NOW - 2 * HOUR, volume_type="standard"),
                an_alert("PlimsollDaemonRestarts", node="n2"),
                an_alert("PlimsollNewName", node="n3", since=0),
                an_alert("PlimsollVersionSkew", "info"),
            ],
        },
    ),
    "an alert on what nodes tell": (
        NAMES,
        {
            "unlimited": everywhere(1),
            "alerts": [
                an_alert("PlimsollDisksUnlimited", "critical", "n2"),
                an_alert("PlimsollDisksUnlimited", node="n1"),
            ],
        },
    ),
    "an alert on another node": (
        NAMES,
        {"unlimited": everywhere(1, ONE), "alerts": [an_alert("PlimsollDisksUnlimited", node="n9")]},
    ),
    "alerts on disks without a volume type": (
        NAMES,
        {
            "alerts": [
                an_alert("PlimsollPromiseBroken", "critical"),
                an_alert(BUDGET, "critical", window="6h", objective="0.99"),
                an_alert("PlimsollOversubscribed", unit="IOPS"),
                an_alert("PlimsollCongestionStale"),
            ],
        },
    ),
    "an alert without a node": (
        NAMES,
        {"catalogue": [series(NOW - 3 * HOUR)], "alerts": [an_alert("PlimsollCatalogueStale")]},
    ),
    "a few nodes are listed": (NAMES, {"unlimited": unlimited(1, NAMES)}),
    "many are not": (TWELVE[:9], {"unlimited": unlimited(1, TWELVE[:9])}),
    "probes": (ONE, {"probe_verdicts": [series(1, **PROBE, probe=job) for job in ("read", "write")]}),
    "targets have got a region, and a port": (
        ("c1.example.org:9100", "c2", "10.0.0.1"),
        {
            "seen": [
                series(NOW - HOUR, name, region_name="")
                for name in ("c1.example.org:9100", "c2:9100", "c22:9100", "10.0.0.2")
            ]
        },
    ),
    "a node of this name is in another region": (ONE, {"seen": [series(NOW - HOUR, region_name="r2")]}),
    "an unreachable node has no figures": (NAMES, {"seen": [*everywhere(NOW - 60), series(NOW - HOUR, "n9")]}),
}


def line_of(problem: RegionProblem) -> str:
    nodes = " ".join("/".join(node) for node in problem.nodes)
    figures = " ".join((*problem.figures, *problem.alerts))
    return f"{problem.level.name} {problem.text}\n    next: {problem.do}\n    of {nodes or 'no node'}: {figures}"


def test_each_region_has_the_problems_of_the_golden_file() -> None:
    shown = {
        name: "\n".join(map(line_of, told(names, **answers))) or "none" for name, (names, answers) in REGIONS.items()
    }
    golden.check("region_problems.txt", __file__, shown)


# --- alerts


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


def test_the_command_asks_the_same_prometheus() -> None:
    given = ("--prometheus", "http://p:9090")
    (problem,) = problems(status(unlimited=[series(1, volume_type="gold")]), ("--config-file", "/x"), given)
    assert problem.do == "plimsoll --config-file /x region disks --prometheus http://p:9090 --region r1 --node n1"


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
