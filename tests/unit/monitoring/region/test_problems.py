"""What is wrong in a region, by node: the worst first, nodes with the same problems as one, and what to run next."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll_agent.monitor.thresholds import MEASURE, SHIPPED, Level, Thresholds
from plimsoll_agent.util.frozen import replace
from plimsoll_monitoring.node.health import Figure, JudgedFigure, Judgement
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
        ({"last_pass": [series(NOW - 5 * HOUR)]}, Level.CRITICAL, "no pass for 5 h", "status   (on n1)"),
        ({"last_pass": [series(NOW + 3 * HOUR)]}, Level.UNKNOWN, "time of the last pass unknown", "status   (on n1)"),
        ({"good_pass": []}, Level.WARNING, "time of the last good pass unknown", "status   (on n1)"),
        ({"phases": [series(250, phase="apply")]}, Level.WARNING,
         "the last pass took 4 min 10 s", "status   (on n1)"),
        ({"sources": [series(0, source="rules")]}, Level.WARNING, "source down: rules", "status   (on n1)"),
        ({"catalogue": [series(NOW - 3 * HOUR)]}, Level.WARNING, "catalogue stale: not refreshed for 3 h",
         "status   (on n1)"),
        ({"configured": [series(7200)]}, Level.WARNING, "no usable catalogue", "status   (on n1)"),
        ({"observed": [], "paused": []}, Level.UNKNOWN, "disks not observed yet", "status   (on n1)"),
        ({"paused": [series(1)]}, Level.WARNING, "paused: nothing is written", "status   (on n1)"),
        ({"braked": [series(3, revision="7f3a91c2b04d88e1")]}, Level.WARNING,
         "3 disks deferred by the brake: revision 7f3a91c2b04d88e1 needs approval", "plan   (on n1)"),
        ({"unlimited": [series(1, volume_type="gold")]}, Level.WARNING, "1 disk unlimited",
         "region disks --region r1 --node n1"),
        ({"disks": [series(2, volume_type="", state="deferred")]}, Level.WARNING, "2 disks deferred",
         "region disks --region r1 --node n1"),
        ({"disks": [series(2, volume_type="", state="planned")], "enforcing": [series(0)]}, Level.WARNING,
         "2 disks out of sync (mode observe)", "region disks --region r1 --node n1"),
        ({"disks": [series(1, volume_type="", state="failed")]}, Level.WARNING, "change failed on 1 disk",
         "region disks --region r1 --node n1"),
        ({"unknown": [series(2, volume_type="gold")]}, Level.WARNING, "2 disks unknown",
         "region disks --region r1 --node n1"),
        ({"unknown": [series(2, volume_type="gold")], "aggregates": [series(1)]}, Level.WARNING, "2 disks unknown",
         "disk list   (on n1)"),
        ({"unreachable_guests": [series(2)]}, Level.WARNING, "2 guests unreachable", "status   (on n1)"),
        ({"daemon_wrote": [series(NOW - 70)], "daemon_connected": [series(0)]}, Level.WARNING,
         "daemon: does not run", "status   (on n1)"),
        ({"daemon_wrote": [series(NOW - 10)], "daemon_connected": [series(0)], "daemon_reloaded": [series(0)]},
         Level.WARNING, "daemon: has no events, settings not reloaded", "status   (on n1)"),
    ],
)  # fmt: skip
def test_a_problem_of_a_node_has_the_command_to_run_next(
    answers: dict[str, list[Series]], level: Level, text: str, do: str
) -> None:
    (problem,) = told(("n1",), **answers)
    assert (problem.level, problem.text, problem.do) == (level, f"n1: {text}", f"plimsoll {do}")


def test_all_problems_of_a_node_stand_together_the_worst_first() -> None:
    (problem,) = told(
        last_pass=[series(NOW - 60, "n1"), series(NOW - 5 * HOUR, "n2"), series(NOW - 60, "n3")],
        unlimited=[series(3, "n2", volume_type="gold")],
        sources=[series(0, "n2", source="rules")],
    )
    assert problem.text == "n2: no pass for 5 h; source down: rules; 3 disks unlimited"
    assert (problem.level, problem.do) == (Level.CRITICAL, "plimsoll status   (on n2)")


def test_what_follows_from_another_problem_stands_behind_it() -> None:
    (problem,) = told(
        ("n1",), good_pass=[series(NOW - 2 * HOUR)], braked=[series(3, revision="aa")], observed=[series(NOW - HOUR)]
    )
    assert problem.text == (
        "n1: 3 disks deferred by the brake: revision aa needs approval;"
        " no good pass for 2 h; disks not observed for 1 h"
    )
    assert problem.do == "plimsoll plan   (on n1)"


def test_disks_that_the_brake_defers_are_told_once() -> None:
    braked = {"braked": [series(3, revision="aa")]}
    (problem,) = told(("n1",), **braked, disks=[series(3, volume_type="", state="deferred")])
    assert problem.text == "n1: 3 disks deferred by the brake: revision aa needs approval"
    assert problem.figures == ("braked", "behind")
    (problem,) = told(("n1",), **braked, disks=[series(4, volume_type="", state="deferred")])
    assert problem.text.endswith("needs approval; 4 disks deferred")


def test_without_a_pass_it_is_not_said_thrice() -> None:
    old = [series(NOW - 2 * HOUR)]
    (problem,) = told(("n1",), last_pass=old, good_pass=old, observed=old)
    assert problem.text == "n1: no pass for 2 h"
    assert problem.figures == ("pass_age", "good_pass_age", "observed_age")


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
    assert [problem.text.partition(":")[0] for problem in found] == ["n3", "n4", "n1"]


def test_nodes_with_the_same_problems_are_one_line_and_numbers_add_up() -> None:
    names = tuple(f"n{number}" for number in range(12))
    found = told(
        names,
        last_pass=[series(NOW - 1000 - number, name) for number, name in enumerate(names)],
        unlimited=[series(2, name, volume_type="gold") for name in names],
    )
    (problem,) = found
    assert problem.text == (
        "12 nodes: no pass for up to 16 min 51 s; 24 disks unlimited: n11, n10, n9, n8 and 8 more"
    )
    assert problem.do == "plimsoll status   (on n11)"
    assert len(problem.nodes) == 12


def test_of_another_revision_or_source_is_another_problem() -> None:
    found = told(
        braked=[series(3, "n1", revision="aa"), series(4, "n2", revision="bb"), series(5, "n3", revision="aa")]
    )
    assert {problem.text for problem in found} == {
        "2 nodes: 8 disks deferred by the brake: revision aa needs approval: n3, n1",
        "n2: 4 disks deferred by the brake: revision bb needs approval",
    }
    assert len(told(sources=[series(0, "n1", source="rules"), series(0, "n2", source="libvirt")])) == 2


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
    assert problem.text == "n1: 2 promises broken"
    assert problem.do == "plimsoll region probes --by guest --region r1 --node n1"


def test_an_unreachable_node_has_no_figures() -> None:
    (problem,) = told(seen=[*everywhere(NOW - 60), series(NOW - HOUR, "n9")])
    assert problem.text == "n9: unreachable for about 1 h (no metrics in Prometheus)"
    assert problem.level is Level.UNKNOWN
    assert problem.do == "plimsoll status   (on n9)"


def test_nodes_of_the_same_name_in_two_regions_are_told_apart() -> None:
    both = [series(NOW - 60), series(NOW - 9000, region_name="r2")]
    found = list(problems(status(last_pass=both, seen=both, good_pass=[replace(one, value=NOW) for one in both])))
    assert all(problem.text.startswith("n1 (r2): ") for problem in found)


def test_what_no_screen_holds_is_counted() -> None:
    names = tuple(f"n{number}" for number in range(MOST + 5))
    found = told(names, sources=[series(0, name, source=f"s{name}") for name in names])
    *shown, rest = found
    assert len(shown) == MOST - 1
    assert rest.text == "6 more nodes with problems"
    assert rest.do == "plimsoll region status -f json"
    assert len(rest.nodes) == 6


def test_figures_that_are_unknown_are_told_as_such() -> None:
    watched: dict[str, Thresholds] = {**SHIPPED, "at_limit": Thresholds("5", "")}
    (problem,) = problems(status(watched, at_limit=[series(9, volume_type="gold")]))
    assert problem.text == "n1: 9 disks at limit"


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
    assert problem.text == "n1: braked unknown; behind unknown"


def test_no_name_speaks_to_the_terminal() -> None:
    evil = "x\x1b[2J\n"
    answers: dict[str, Any] = {name: [series(NOW - 9000, evil)] for name in ("last_pass", "seen", "observed")}
    answers["sources"] = [series(0, evil, source=evil)]
    answers["braked"] = [series(1, evil, revision=evil)]
    for problem in problems(status(**answers)):
        assert problem.text.isprintable()
        assert problem.do.isprintable()
