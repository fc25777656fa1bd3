"""Who is rolled out to when, and when a rollout stops."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleFilterError

from lab.collection import ROOT, plugin

batches = plugin("filter.batches")
results = plugin("filter.batch_result")


def hosts(region: str, number: int) -> list[str]:
    return [f"{region}-{n}" for n in range(1, number + 1)]


def sizes(found: list[dict[str, object]]) -> list[tuple[object, object, int]]:
    return [(each["region"], each["stage"], len(each["hosts"])) for each in found]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("number", "percent", "desired"),
    [
        (1, 10, [1]),
        (2, 10, [1, 1]),
        (3, 10, [1, 1, 1]),
        (20, 10, [1, 2, 17]),
        (29, 10, [1, 2, 26]),
        (750, 10, [1, 75, 674]),
        (750, 2.5, [1, 18, 731]),
        (10, 0, [1, 1, 8]),
        (10, 100, [1, 9]),
    ],
)
def test_a_region_is_a_canary_then_a_share_of_all_of_it_then_the_rest(
    number: int, percent: float, desired: list[int]
) -> None:
    found = batches.batches({"r1": hosts("r1", number)}, ["r1"], hosts("r1", number), percent)
    assert [len(each["hosts"]) for each in found] == desired
    assert [host for each in found for host in each["hosts"]] == hosts("r1", number)


@pytest.mark.parametrize("number", [1, 3, 8])
def test_each_region_is_done_before_the_next_is_begun_in_the_order_given(number: int) -> None:
    regions = [f"r{n}" for n in range(number, 0, -1)]
    groups = {region: hosts(region, 3) for region in sorted(regions)}
    found = batches.batches(groups, regions, [host for each in groups.values() for host in each], 10)
    assert sizes(found) == [(r, stage, 1) for r in regions for stage in ("canary", "fraction", "rest")]


def test_the_group_of_canaries_comes_first_wherever_its_hosts_stand() -> None:
    groups = {"r1": hosts("r1", 6), "r1_canary": ["r1-5", "r1-3", "elsewhere"]}
    found = batches.batches(groups, ["r1"], hosts("r1", 6), 10)
    assert [each["hosts"] for each in found] == [["r1-3", "r1-5"], ["r1-1"], ["r1-2", "r1-4", "r1-6"]]


def test_where_the_limit_leaves_no_canary_the_first_that_is_left_is_one() -> None:
    groups = {"r1": hosts("r1", 6), "r1_canary": ["r1-1"], "r2": hosts("r2", 2)}
    found = batches.batches(groups, ["r1", "r2"], ["r1-4", "r1-5"], 10)
    assert sizes(found) == [("r1", "canary", 1), ("r1", "fraction", 1)]
    assert found[0]["hosts"] == ["r1-4"]


def test_the_share_is_of_the_region_and_not_of_what_the_limit_leaves() -> None:
    found = batches.batches({"r1": hosts("r1", 40)}, ["r1"], hosts("r1", 20), 10)
    assert [len(each["hosts"]) for each in found] == [1, 4, 15]


def test_hosts_of_another_kind_in_a_region_are_neither_counted_nor_refused() -> None:
    """As the group of a site has its controllers, and hosts of Ceph, beside compute nodes."""
    nodes = [*hosts("r1", 3), *hosts("r2", 3)]
    groups = {region: ["bastion", *hosts(f"ceph-{region}", 20), *hosts(region, 3)] for region in ("r1", "r2")}
    found = batches.batches(groups, ["r1", "r2"], nodes, 10, nodes)
    assert sizes(found) == [(r, stage, 1) for r in ("r1", "r2") for stage in ("canary", "fraction", "rest")]
    with pytest.raises(AnsibleFilterError, match="r1-1 is in two regions"):
        batches.batches({**groups, "r2": ["r1-1"]}, ["r1", "r2"], nodes, 10, nodes)


def test_a_host_in_two_regions_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="r1-1 is in two regions, r1 and r2"):
        batches.batches({"r1": ["r1-1"], "r2": ["r1-1"]}, ["r1", "r2"], ["r1-1"])


def test_a_region_that_is_no_group_is_refused_by_its_name() -> None:
    with pytest.raises(
        AnsibleFilterError, match="plimsoll_rollout_regions has groups that the inventory has not: r9"
    ):
        batches.batches({"r1": ["r1-1"]}, ["r1", "r9"], ["r1-1"])


@pytest.mark.parametrize("percent", [-1, 101, "some", None])
def test_a_share_that_is_none_is_refused(percent: object) -> None:
    with pytest.raises(AnsibleFilterError, match="plimsoll_rollout_fraction"):
        batches.batches({"r1": ["r1-1"]}, ["r1"], ["r1-1"], percent)


def test_the_share_is_a_tenth_where_none_is_given() -> None:
    found = batches.batches({"r1": hosts("r1", 101)}, ["r1"], hosts("r1", 101))
    assert [len(each["hosts"]) for each in found] == [1, 10, 90]


def test_each_host_has_the_number_of_its_batch() -> None:
    assert batches.batch_numbers(THREE) == {"a": 0, "b": 1, "c": 1, "d": 1, "e": 1, "f": 2}


def test_a_batch_is_told_by_region_stage_and_hosts() -> None:
    fraction = {"region": "r1", "stage": "fraction", "hosts": ["g", "h"]}
    assert [batches.batch_words(each) for each in (*THREE[:2], fraction)] == [
        "r1, canary: a",
        "r1, the rest: b, c, d, e",
        "r1, the first part: g, h",
    ]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (1, "h-1"),
        (5, "h-1, h-2, h-3, h-4, h-5"),
        (6, "h-1, h-2, h-3, h-4, h-5 and 1 more"),
        (9, "h-1, h-2, h-3, h-4, h-5 and 4 more"),
    ],
)
def test_of_many_hosts_five_are_named_and_the_others_counted(number: int, words: str) -> None:
    assert batches.some(hosts("h", number)) == words


def test_the_filters_that_playbooks_and_roles_ask_for_are_there() -> None:
    asked = {
        name
        for file in (*ROOT.glob("playbooks/*.yml"), *ROOT.glob("roles/*/*/*.yml"))
        for name in re.findall(r"\| (?:map\(')?plimsoll\.cloud\.(\w+)", file.read_text(encoding="utf-8"))
    }
    modules = [plugin(f"filter.{file.stem}") for file in ROOT.glob("plugins/filter/*.py")]
    offered = {name: filter_ for module in modules for name, filter_ in module.FilterModule().filters().items()}
    assert asked - set(offered) == set()
    assert {name: offered[name].__name__ for name in asked} == {name: name for name in asked}


# --- the result of a batch

THREE = [
    {"region": "r1", "stage": "canary", "hosts": ["a"]},
    {"region": "r1", "stage": "rest", "hosts": ["b", "c", "d", "e"]},
    {"region": "r2", "stage": "canary", "hosts": ["f"]},
]
REACHED: dict[str, dict[str, object]] = {host: {"__rollout_node": {"rc": 0}} for host in "abcdef"}
FAILED = {"__rollout_node": {"rc": 0}, "__rollout_trouble": "Install plimsoll: no\n  space"}
DOWN = {"__rollout_node": {"unreachable": True, "msg": "timed out"}}


def judged(number: int = 1, left: str = "bcde", **known: object) -> SimpleNamespace:
    options = {
        name: known.pop(name) for name in ("percent", "monitoring", "looking", "earlier", "begun") if name in known
    }
    return SimpleNamespace(**results.batch_result({**REACHED, **known}, THREE, number, list(left), **options))


def test_a_batch_that_is_well_goes_on_with_one_line() -> None:
    said = judged()
    assert not said.stop
    assert said.lines == ["r1, the rest: 4 of 4 healthy"]
    assert said.batches == 2


def test_one_that_failed_stops_the_rollout_and_is_named_with_its_reason_on_one_line() -> None:
    said = judged(c=FAILED)
    assert said.stop
    assert said.lines == [
        "STOPPED at r1, the rest: 3 of 4 healthy",
        "  c: Install plimsoll: no space",
        "Not started: 1 of r2",
    ]
    assert said.go_on == ["c", "f"]
    assert said.back == ["a", "b", "c", "d", "e"]
    assert judged(c=FAILED, begun=["x", "c"]).back == ["x", "c", "a", "b", "d", "e"]


def test_one_that_is_down_counts_like_one_that_failed() -> None:
    said = judged(b=DOWN)
    assert said.stop
    assert said.bad == {"b": "is unreachable: timed out"}


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ({"msg": "Task failed: not\nreached over ssh: No route to host"}, "No route to host"),
        ({}, ""),
    ],
)
def test_of_one_that_is_down_only_the_words_of_ssh_are_told(first: dict[str, str], words: str) -> None:
    said = judged(b={"__rollout_node": {"unreachable": True, **first}})
    assert said.bad == {"b": f"is unreachable: {words}"}


def test_one_that_was_lost_on_the_way_counts_too() -> None:
    said = judged(left="bce")
    assert said.stop
    assert said.bad == {"d": "failed, see above"}


@pytest.mark.parametrize(("percent", "stops"), [(0, True), (24.9, True), (25, False), ("25", False), (100, False)])
def test_as_many_may_fail_as_is_allowed_and_no_more(percent: object, stops: bool) -> None:
    assert judged(c=FAILED, percent=percent).stop is stops


def test_one_of_very_many_stops_where_no_share_may_fail() -> None:
    many = hosts("r1", 200)
    batch = {"region": "r1", "stage": "rest", "hosts": many}
    known = {host: {"__rollout_node": {"rc": 0}} for host in many} | {"r1-7": FAILED}
    assert results.batch_result(known, [batch], 0, many)["stop"]


def test_hosts_that_were_not_begun_are_counted_by_region() -> None:
    known = dict.fromkeys("abcdefgh", REACHED["a"]) | {"a": FAILED}
    more = [*THREE, {"region": "r2", "stage": "rest", "hosts": ["g", "h"]}]
    assert results.batch_result(known, more, 0, ["a"])["lines"][-1] == "Not started: 4 of r1, 3 of r2"


def test_a_batch_of_which_none_is_well_stops_whatever_is_allowed() -> None:
    assert judged(b=DOWN, c=DOWN, d=DOWN, e=FAILED, percent=100).stop


def test_those_that_were_let_pass_are_among_those_to_go_on_with() -> None:
    said = judged(number=2, left="f", earlier=["c"], f=FAILED)
    assert said.go_on == ["c", "f"]


def test_an_alert_stops_where_all_nodes_are_well() -> None:
    said = judged(monitoring="PlimsollChangesFail cmp-1")
    assert said.stop
    assert "  Prometheus: PlimsollChangesFail cmp-1" in said.lines


def test_a_look_without_changes_goes_through_all_and_stops_only_at_its_end() -> None:
    begun = judged(c=FAILED, looking=True)
    assert not begun.stop
    assert begun.lines[0] == "r1, the rest: 3 of 4 without problems"
    assert begun.so_far == ["c"]
    last = judged(number=2, left="f", earlier=["c"], f=FAILED, looking=True)
    assert last.stop
    assert last.lines[-1] == "With problems: 2. c, f"
    assert judged(number=2, left="f", earlier=["c"], looking=True).stop
    assert not judged(number=2, left="f", looking=True).stop


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"json": {"data": {"result": [{"metric": {"alertname": "A", "instance": "n1"}}]}}}, "A n1"),
        ({"json": {"data": {"result": [{"metric": {"alertname": name}} for name in "AB"]}}}, "A, B"),
        ({"msg": "Connection refused"}, "query failed: Connection refused"),
        ({}, "query failed: no answer"),
        ({"json": {"status": "error"}, "msg": "HTTP 400"}, "query failed: HTTP 400"),
        ({"json": {"data": {"result": [{"metric": {"alertname": "A", "replica": name}} for name in "ab"]}}}, "A"),
        ({"json": {"data": {"result": []}, "warnings": ["PromQL info: no counter"], "isPartial": False}}, ""),
        ({"json": {"data": {"result": []}, "warnings": None}}, ""),
        (
            {"json": {"data": {"result": []}, "warnings": ["no store for rule-1"]}},
            "the answer is incomplete: no store for rule-1",
        ),
        (
            {"json": {"data": {"result": []}, "isPartial": True}},
            "the answer is incomplete: a storage node did not answer",
        ),
    ],
)
def test_an_alert_and_a_prometheus_that_cannot_be_asked_are_told_apart(answer: object, words: str) -> None:
    assert results.alerts(answer) == words


def planned(braked: object) -> dict[str, object]:
    """A host whose plan has this of the brake."""
    plans = [{"stdout": json.dumps({"braked": braked})}, {"stdout": "Plan: 1 to set"}]
    return {"__rollout_plans": {"results": plans}}


def test_only_revisions_of_nodes_that_enforce_need_an_approval() -> None:
    """One that observes is not asked for its plan as data."""
    revision = "7f3a91" + "0" * 58
    enforcing = planned({"revision": revision, "disks": 3})
    observing = {"__rollout_plans": {"results": [{"skipped": True}, {"stdout": "Plan: 1 to set"}]}}
    assert results.revisions([observing, {}]) == []
    assert results.revisions([enforcing, planned(None), observing, enforcing]) == [revision]


@pytest.mark.parametrize(
    ("words", "number"),
    [("", 0), ("7f3a91", 0), ("7f3a91c25d08e64", 0), ("7f3a91c25d08e64b", 1), ("x 7F3A91C25D08E64B00", 1),
     ("7f3a91c25d08e64c", 0), ("7f3a91c25d08e64b" + "0" * 48, 1), ("5555,7f3a91c25d08e64b", 1)],
)  # fmt: skip
def test_sixteen_digits_of_a_revision_approve_it_and_fewer_do_not(words: str, number: int) -> None:
    revision = "7f3a91c25d08e64b" + "0" * 48
    assert results.approved([revision, "5" * 64], words) == [revision][:number]
    assert results.shown([revision, "5" * 64]) == "7f3a91c25d08e64b," + "5" * 16


def test_a_plan_that_failed_and_an_answer_that_is_no_revision_are_nothing_to_approve_of() -> None:
    failed = {"__rollout_plans": {"results": [{"stdout": ""}]}}
    skipped = {"__rollout_plans": {"skipped": True}}
    assert results.revisions([failed, skipped, planned({"revision": "--yes "})]) == []


def test_where_prometheus_stops_a_last_batch_that_is_well_its_own_hosts_are_to_go_on_with() -> None:
    """An empty limit would be a limit to no host, or to all of them."""
    said = judged(number=2, left="f", monitoring="alerts fire")
    assert said.stop
    assert said.go_on == ["f"]
