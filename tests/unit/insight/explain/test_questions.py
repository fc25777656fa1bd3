"""Evidence from the answers of a Prometheus that is told by hand: moves, gaps, unlimited disks, what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import pytest

from plimsoll_insight.explain import messages, questions
from plimsoll_insight.explain.cause import find
from plimsoll_insight.explain.diagnosis import Cause, Unexplained
from plimsoll_insight.explain.evidence import SharedPlace, idle
from plimsoll_insight.explain.guests import ExplainedDisk, FoundGuest, Stay, StepSpan
from plimsoll_monitoring.promql import SeriesSelection
from plimsoll_monitoring.region.answers import Series, TimeSeries

NOW, SPAN = 36_000.0, StepSpan(3600 * 4, 300)
GUEST = FoundGuest(uuid="u1", region="r1", name="instance-00000001", server="web", project="p1", project_name="shop")
Values = Mapping[float, float]
TIMES = SPAN.times(NOW)


def on(node: str, values: Values, **labels: str) -> TimeSeries:
    disk = {"target_device": "vdb", "uuid": "u1"}
    return TimeSeries({"region": "r1", "instance": node, **disk, **labels}, values)


def always(value: float, since: float = 0, until: float = NOW) -> Values:
    return {at: value for at in TIMES if since <= at <= until}


def explained(
    told: Mapping[str, Sequence[TimeSeries]], usual: float | None = 0.004, asked: list[str] | None = None
) -> tuple[ExplainedDisk, list[Stay]]:
    (disk,), stays = every_explained(told, usual, asked)
    return disk, stays


def every_explained(
    told: Mapping[str, Sequence[TimeSeries]],
    usual: float | None = 0.004,
    asked: list[str] | None = None,
    volume: str | None = None,
) -> tuple[list[ExplainedDisk], list[Stay]]:
    nodes = {line.labels["instance"] for line in told["plimsoll_disk_info"]}
    fresh = [TimeSeries({"region": "r1", "instance": node}, {at: at - 40 for at in TIMES}) for node in nodes]
    told = {"plimsoll_health_gate_shut": [], "pool_average": [], "pass_observed_timestamp": fresh, **told}

    def over(promql: str) -> Sequence[TimeSeries]:
        if asked is not None:
            asked.append(promql)
        found = [lines for name, lines in told.items() if name in promql and "uuid!=" not in promql]
        return found[0] if found else []

    def ask(promql: str) -> Sequence[Series]:
        return [] if usual is None else [Series({}, usual)]

    return questions.disks(ask, over, SeriesSelection(), GUEST, volume, NOW, SPAN)


def test_the_times_end_now_and_are_a_step_apart() -> None:
    assert TIMES[-1] == NOW
    assert {later - one for one, later in pairwise(TIMES)} == {300.0}
    assert len(TIMES) == 48


@pytest.mark.parametrize(("seconds", "step"), [(300, 60), (10800, 60), (10801, 300), (604800, 300), (7776000, 3900)])
def test_a_longer_time_has_longer_steps_and_never_too_many(seconds: int, step: int) -> None:
    assert StepSpan.of(seconds).step == step
    assert len(StepSpan.of(seconds).times(NOW)) <= 2016


def test_where_both_nodes_have_the_guest_for_a_while_the_new_one_counts() -> None:
    """The old node's metrics stay until its next pass."""
    moved = NOW - 3600
    info = [on("old", always(1, 0, moved + 600)), on("new", always(1, moved))]
    latency = [on("old", always(0.9, 0, moved + 600)), on("new", always(0.001, moved))]
    disk, stays = explained({"plimsoll_disk_info": info, "average_latency_seconds": latency})
    assert [(stay.node[1], stay.since, stay.until) for stay in stays] == [
        ("old", TIMES[0], moved - 300),
        ("new", moved, NOW),
    ]
    assert {one.latency for one in disk.evidence.intervals if one.at >= moved} == {0.001}
    assert disk.evidence.intervals[-1].node == "new"


def test_a_guest_that_came_back_is_followed_there_and_back() -> None:
    there, back = NOW - 7200, NOW - 3600
    at_home = {at: 1.0 for at in TIMES if at < there or at >= back}
    info = [on("home", at_home), on("away", always(1, there, back + 300))]
    disk, stays = explained({"plimsoll_disk_info": info, "average_latency_seconds": info})
    assert [stay.node[1] for stay in stays] == ["home", "away", "home"]
    assert all(one.latency is not None for one in disk.evidence.intervals)


def test_time_without_metrics_is_unknown_and_not_left_out() -> None:
    gap = {at: 1.0 for at in TIMES if not NOW - 7200 < at < NOW - 3600}
    disk, _ = explained({"plimsoll_disk_info": [on("n", gap)], "average_latency_seconds": [on("n", gap)]})
    assert len(disk.evidence.intervals) == len(TIMES)
    assert sum(one.latency is None for one in disk.evidence.intervals) == 11


def test_other_guests_that_did_nothing_are_told_apart_from_those_that_are_unknown() -> None:
    known = {at: 100.0 for at in TIMES if at < NOW - 3600}
    whole = TimeSeries({"region": "r1", "instance": "n"}, known)
    disk, _ = explained({"plimsoll_disk_info": [on("n", always(1))], "sum by (region, instance) (": [whole]})
    idle_there = tuple(idle(SharedPlace.NODE, unit) for unit in ("operations", "bytes"))
    told = {one.at: one.neighbours for one in disk.evidence.intervals}
    assert {at for at, neighbours in told.items() if neighbours == idle_there} == set(known)
    assert all(not neighbours for at, neighbours in told.items() if at not in known)


@pytest.mark.parametrize(("rate", "share"), [(900.0, 0.9), (5100.0, None)])
def test_a_guest_that_did_more_than_all_of_its_pool_is_no_neighbour(rate: float, share: float | None) -> None:
    """What is told of it is of other nodes than the sum."""
    asked = list[str]()
    disk, _ = explained(
        {
            "plimsoll_disk_info": [on("n", always(1), cluster="c", pool="p")],
            "pool_average": [TimeSeries({}, always(1000))],
            "average_operations_per_second:top3": [TimeSeries({"uuid": "u9"}, always(rate))],
        },
        asked=asked,
    )
    shares = {each.share for one in disk.evidence.intervals for each in one.neighbours if each.place == "pool"}
    assert shares == (set() if share is None else {share})
    assert any("sum(" in promql and "pool_average" in promql and promql.endswith(" < 3600)") for promql in asked)


def test_metrics_of_a_node_whose_passes_have_stopped_are_unknown_when_the_next_one_is_overdue() -> None:
    """Its last file is scraped for ever."""
    stopped = {at: min(at, TIMES[0]) for at in TIMES}
    measured = {
        name: [on("n", always(value))] for name, value in (("average_latency_seconds", 0.004), ("average_op", 9))
    }
    observed = [TimeSeries({"region": "r1", "instance": "n"}, stopped)]
    disk, _ = explained({"plimsoll_disk_info": [on("n", always(1))], "pass_observed_timestamp": observed, **measured})
    assert [one.latency is not None for one in disk.evidence.intervals] == [True] * 3 + [False] * 45
    assert find(disk.evidence).unexplained is Unexplained.TOO_LITTLE
    fresh, _ = explained({"plimsoll_disk_info": [on("n", always(1))], **measured})
    assert (find(fresh.evidence).cause, find(fresh.evidence).known) == (Cause.NOT_SLOW, 48)
    never = {"plimsoll_disk_info": [on("n", always(1))], "pass_observed_timestamp": [], **measured}
    assert find(explained(never)[0].evidence).known == 0


def test_after_its_metrics_have_ended_a_disk_is_unknown_until_a_pass_is_without_it() -> None:
    """Its node is down, or nothing scrapes it: it was taken for not slow, known all of the time."""
    end = NOW - 3600
    there = always(1, until=end)
    measured = {
        "plimsoll_disk_info": [on("n", there)],
        "average_latency_seconds": [on("n", always(0.004, until=end))],
        "average_op": [on("n", always(9, until=end))],
    }
    disk, _ = explained({**measured, "pass_observed_timestamp": [on("n", {at: at - 40 for at in there})]})
    assert [one.read for one in disk.evidence.intervals] == [True] * 36 + [False] * 12
    assert find(disk.evidence).unexplained is Unexplained.NOT_READ
    gone, _ = explained(measured)
    assert [one.at for one in gone.evidence.intervals] == [*there]
    assert find(gone.evidence).cause is Cause.NOT_SLOW
    back = {at: at - 40 for at in TIMES if at <= end or at > NOW - 1200}
    away, _ = explained({**measured, "pass_observed_timestamp": [on("n", back)]})
    assert [one.read for one in away.evidence.intervals] == [True] * 36 + [False] * 8


def test_a_node_that_passes_each_minute_is_overdue_sooner() -> None:
    stopped = {at: min(at, TIMES[0]) for at in TIMES}
    told = {
        "plimsoll_disk_info": [on("n", always(1))],
        "average_latency_seconds": [on("n", always(0.004))],
        "pass_observed_timestamp": [on("n", stopped)],
        "pass_interval_seconds": [on("n", always(60))],
    }
    disk, _ = explained(told)
    assert [one.read for one in disk.evidence.intervals] == [True] + [False] * 47


def test_two_holds_are_two_and_one_that_ended_holds_no_more() -> None:
    held = {at: at + 60 for at in TIMES if at < NOW - 7200} | {at: NOW - 1800.0 for at in TIMES if at >= NOW - 3600}
    disk, _ = explained({"plimsoll_disk_info": [on("n", always(1))], "hold_end_timestamp": [on("n", held)]})
    assert disk.held == ((TIMES[0], NOW - 7500), (NOW - 3600, NOW - 2100))
    assert sum("held by an operator" in line for line in told(disk)) == 2


def test_a_type_of_few_disks_that_are_slow_all_the_time_has_no_usual() -> None:
    """The median of one disk is itself."""
    slow = {
        "plimsoll_disk_info": [on("n", always(1))],
        "latency_seconds:count": [TimeSeries({}, always(1))],
        "latency_seconds:median": [],
        "average_latency_seconds": [on("n", always(0.5))],
        "average_operations": [on("n", always(50))],
    }
    assert find(explained(slow, usual=0.5)[0].evidence).unexplained is Unexplained.NO_USUAL
    many = {**slow, "latency_seconds:count": [TimeSeries({}, always(5))]}
    assert find(explained(many, usual=0.5)[0].evidence).cause is Cause.NOT_SLOW


def test_before_a_guest_was_there_is_no_part_of_its_time() -> None:
    disk, _ = explained({"plimsoll_disk_info": [on("n", always(1, NOW - 900))]})
    assert len(disk.evidence.intervals) == 4


def test_a_limit_that_was_removed_is_a_change_to_unlimited() -> None:
    half = NOW - 7200
    disk, _ = explained(
        {
            "plimsoll_disk_info": [on("n", always(1))],
            "limit_actual_operations": [on("n", always(500, 0, half), parameter="total_iops_sec")],
            "plimsoll_disk_unlimited": [on("n", {at: float(at > half) for at in TIMES})],
            "plimsoll_disk_state": [on("n", always(1), state="changed", reason="hold")],
        }
    )
    (change,) = disk.changes
    assert (change.at, change.before, change.after, change.reason) == (
        half + 300,
        {"total_iops_sec": 500},
        {},
        "hold",
    )
    assert disk.limits == {}
    assert any("limit 500 IOPS → unlimited (hold)" in line for line in told(disk))


def test_what_another_volume_did_at_the_same_target_is_not_this_ones() -> None:
    """It was told to the tenant of the new one, of a time before that was there."""
    half = NOW - 7200

    def both(before: float, after: float, **labels: str) -> list[TimeSeries]:
        return [on("n", {at: before if at < half else after for at in TIMES}, **labels)]

    old = on("n", always(1, until=half - 300), volume="6665c608-001a", volume_type="slow")
    told = {
        "plimsoll_disk_info": [old, on("n", always(1, half), volume="NEW", volume_type="gold")],
        "average_latency_seconds": both(0.2, 0.004),
        "limit_ratio": both(1.0, 0.1, parameter="total_iops_sec"),
        "average_operations": both(500, 100),
        "limit_actual_operations": both(500, 1000, parameter="total_iops_sec"),
        "external_changes_reverted": both(0, 3),
        "hold_end_timestamp": both(half, 0),
    }
    disks, _ = every_explained(told)
    assert [(disk.name, disk.volume_type, find(disk.evidence).cause) for disk in disks] == [
        ("vdb (6665c608)", "slow", Cause.LIMIT),
        ("vdb", "gold", Cause.NOT_SLOW),
    ]
    before, after = disks
    assert [one.at for one in before.evidence.intervals] == [at for at in TIMES if at < half]
    assert [one.at for one in after.evidence.intervals] == [at for at in TIMES if at >= half]
    assert (before.limits, after.limits) == ({"total_iops_sec": 500}, {"total_iops_sec": 1000})
    assert (before.changes, after.changes, after.reverted, after.held) == ((), (), (), ())
    assert before.held == ((TIMES[0], half - 300),)
    assert [every_explained(told, volume=each.volume)[0] for each in disks] == [[before], [after]]


def test_the_time_of_another_volume_between_is_unknown_and_metrics_of_an_old_node_are_no_other_volume() -> None:
    there, back = NOW - 7200, NOW - 3600
    mine = {at: 1.0 for at in TIMES[1:] if not there <= at < back}
    told = {
        "plimsoll_disk_info": [
            on("n", mine, volume="MINE"),
            on("n", always(1, there, back - 300), volume="OTHER"),
            on("old", always(1), volume="OTHER"),
        ],
        "average_latency_seconds": [on("n", always(0.004))],
    }
    (disk,), _ = every_explained(told, volume="MINE")
    assert {one.at for one in disk.evidence.intervals if one.read} == {*mine}
    assert len(disk.evidence.intervals) == len(TIMES) - 1


def test_a_limit_has_its_burst_and_its_size() -> None:
    disk, _ = explained(
        {
            "plimsoll_disk_info": [on("n", always(1))],
            "limit_ratio": [on("n", always(0.8), parameter="total_iops_sec")],
            "limit_actual_operations": [
                on("n", always(500), parameter="total_iops_sec"),
                on("n", always(900), parameter="total_iops_sec_max"),
            ],
            "limit_actual_seconds": [on("n", always(9), parameter="total_iops_sec_max_length")],
        }
    )
    limits = {"total_iops_sec": 500, "total_iops_sec_max": 900, "total_iops_sec_max_length": 9}
    assert disk.limits == limits
    assert {(one.limit, one.allowed, one.burst) for one in disk.evidence.intervals} == {("total_iops_sec", 500, True)}


@pytest.mark.parametrize(("state", "is_reduced"), [("in-sync", True), ("changed", True), ("deferred", False)])
def test_a_limit_below_the_desired_one_is_reduced_for_now_where_no_change_is_outstanding(
    state: str, is_reduced: bool
) -> None:
    disk, _ = explained(
        {
            "plimsoll_disk_info": [on("n", always(1))],
            "limit_ratio": [on("n", always(1.0), parameter="total_iops_sec")],
            "average_operations": [on("n", always(250))],
            "limit_actual_operations": [on("n", always(250), parameter="total_iops_sec")],
            "limit_desired_operations": [on("n", always(500), parameter="total_iops_sec")],
            "plimsoll_disk_state": [on("n", always(1), state=state, reason="congestion")],
        }
    )
    assert {one.desired for one in disk.evidence.intervals} == {500 if is_reduced else None}
    words = "250 IOPS, reduced from 500 IOPS" if is_reduced else "250 IOPS"
    assert told(disk)[-1].strip().startswith(f"Cause: its own limit, {words}; between ")


def test_limits_that_are_unknown_are_no_change_and_not_unlimited() -> None:
    known = {at: 500.0 for at in TIMES if not NOW - 7200 < at < NOW - 3600}
    disk, _ = explained(
        {
            "plimsoll_disk_info": [on("n", always(1))],
            "limit_actual_operations": [on("n", known, parameter="total_iops_sec")],
        }
    )
    assert disk.changes == ()
    none, _ = explained({"plimsoll_disk_info": [on("n", always(1))]})
    assert none.limits is None
    assert "limit unknown" in told(none)[0]


def test_reverted_external_changes_are_told_and_a_move_is_none() -> None:
    moved = NOW - 3600
    counts = [
        on("old", {at: float(at >= NOW - 9000) for at in TIMES if at <= moved}),
        on("new", always(7, moved)),
    ]
    info = [on("old", always(1, 0, moved)), on("new", always(1, moved))]
    disk, _ = explained({"plimsoll_disk_info": info, "external_changes_reverted": counts})
    assert disk.reverted == (NOW - 9000,)


def test_without_the_recorded_rules_the_cause_is_unknown_and_says_what_to_load() -> None:
    disk, _ = explained(
        {
            "plimsoll_disk_info": [on("n", always(1))],
            "average_latency_seconds": [on("n", always(0.9))],
            "average_operations": [on("n", always(50))],
        },
        usual=None,
    )
    found = find(disk.evidence)
    assert (found.cause, found.unexplained) == (Cause.UNKNOWN, Unexplained.NO_USUAL)
    assert any("load plimsoll-rules.yaml" in line for line in told(disk))


def test_checks_of_other_clusters_and_checks_that_tell_of_no_request_do_not_count() -> None:
    health = [
        TimeSeries({"name": "SLOW_OPS", "cluster": "other"}, always(1)),
        TimeSeries({"name": "POOL_NEAR_FULL", "cluster": "c"}, always(1)),
        TimeSeries({"name": "OSD_HOST_DOWN"}, always(1, NOW - 600)),
    ]
    disk, _ = explained(
        {
            "plimsoll_disk_info": [on("n", always(1), cluster="c")],
            "ceph_health_detail": health,
            "ceph_health_status": [TimeSeries({"cluster": "c"}, always(0))],
        }
    )
    assert {one.raised for one in disk.evidence.intervals} == {(), ("OSD_HOST_DOWN",)}
    unknown, _ = explained({"plimsoll_disk_info": [on("n", always(1), cluster="c")]})
    assert {one.raised for one in unknown.evidence.intervals} == {None}


def test_an_unhealthy_cluster_whose_mgr_tells_of_no_check_is_unknown() -> None:
    """The mgr of Octopus and before has no ``ceph_health_detail``: HEALTH_ERR without a check is not all well."""
    ill, gate, other = NOW - 7200, NOW - 3600, NOW - 1800
    disk, _ = explained(
        {
            "plimsoll_disk_info": [on("n", always(1), cluster="c")],
            "ceph_health_status": [TimeSeries({"cluster": "c"}, {at: 2.0 if at >= ill else 0.0 for at in TIMES})],
            "ceph_health_detail": [
                TimeSeries({"name": "POOL_NEAR_FULL", "cluster": "c"}, always(1, other)),
                TimeSeries({"name": "POOL_NEAR_FULL", "cluster": "other"}, always(1)),
            ],
            "plimsoll_health_gate_shut": [TimeSeries({}, always(1, gate))],
        }
    )

    def expected(at: float) -> tuple[str, ...] | None:
        if at < ill or at >= other:
            return ()
        return None if at < gate else ("health gate of plimsoll",)

    assert {one.at: one.raised for one in disk.evidence.intervals} == {at: expected(at) for at in TIMES}


@pytest.mark.parametrize("region", ["", "r1", "c"])
def test_checks_without_the_label_of_a_cluster_are_of_a_region_that_may_be_the_guests(region: str) -> None:
    for name, raised in ((region, ("SLOW_OPS",)), ("r2", None)):
        disk, _ = explained(
            {
                "plimsoll_disk_info": [on("n", always(1), cluster="c")],
                "ceph_health_detail": [TimeSeries({"name": "SLOW_OPS", "region": name}, always(1))],
                "ceph_health_status": [TimeSeries({"region": name}, always(1))],
            }
        )
        assert {one.raised for one in disk.evidence.intervals} == {raised}


def test_a_health_gate_counts_where_ceph_itself_tells_nothing_and_of_fresh_nodes() -> None:
    """It is shut too on a node that cannot ask Ceph, and for ever on one whose passes have stopped."""
    asked = list[str]()
    since, end = NOW - 7200, NOW - 3600
    disk, _ = explained(
        {
            "plimsoll_disk_info": [on("n", always(1), cluster="c")],
            "plimsoll_health_gate_shut": [TimeSeries({}, always(1, since))],
            "ceph_health_status": [TimeSeries({"cluster": "c"}, always(0, until=end))],
        },
        asked=asked,
    )
    raised = {one.at: one.raised for one in disk.evidence.intervals}
    assert raised == {at: () if at <= end else ("health gate of plimsoll",) for at in TIMES}
    (query,) = [promql for promql in asked if "plimsoll_health_gate_shut" in promql]
    assert query.startswith(
        'max(plimsoll_health_gate_shut{region="r1", cluster="c"} and on (region, instance) ((time() - max by'
        ' (region, instance) (plimsoll_pass_observed_timestamp_seconds{region="r1"})) <= bool '
    )


def test_a_stall_between_two_passes_is_seen_by_its_check_and_its_guest() -> None:
    """Prometheus answers for the whole step, so that a minute is seen among steps of five."""
    asked = list[str]()
    stall = NOW - 3600
    answers: Mapping[str, Sequence[TimeSeries]] = {
        "plimsoll_disk_info": [on("n", always(1), cluster="c")],
        "average_latency_seconds": [on("n", always(0.004))],
        "average_operations": [on("n", always(50))],
        "plimsoll_guest_hung": [on("n", {stall: 1.0})],
        "ceph_health_detail": [TimeSeries({"name": "SLOW_OPS"}, {stall: 1.0})],
        "ceph_health_status": [TimeSeries({}, always(0))],
    }
    disk, _ = explained(answers, asked=asked)
    assert [one.at for one in disk.evidence.intervals if one.unanswered] == [stall]
    assert (find(disk.evidence).cause, find(disk.evidence).raised) == (Cause.CLUSTER, ("SLOW_OPS",))
    for metric in ("plimsoll_guest_hung{", "ceph_health_detail"):
        assert any(f"max_over_time({metric}" in promql and "[299s]" in promql for promql in asked)


def test_a_pause_is_that_of_the_guest_on_the_node_where_it_was_then() -> None:
    """The old node's metrics stay until its next pass."""
    moved, paused = NOW - 3600, NOW - 7200
    of_guest = {"region": "r1", "uuid": "u1"}
    told = {
        "plimsoll_disk_info": [on("old", always(1, 0, moved)), on("new", always(1, moved))],
        "average_operations": [on("old", always(0, 0, moved)), on("new", always(0, moved))],
        "plimsoll_guest_paused": [TimeSeries({**of_guest, "instance": "old"}, always(1, paused, moved + 600))],
    }
    disk, _ = explained(told)
    times = [one.at for one in disk.evidence.intervals if one.paused]
    assert times == [at for at in TIMES if paused <= at < moved]


def test_the_median_of_a_type_is_not_shown_where_the_disk_is_alone_in_it() -> None:
    answers = {
        "plimsoll_disk_info": [on("n", always(1))],
        "latency_seconds:count": [TimeSeries({}, always(1))],
        "latency_seconds:median": [TimeSeries({}, always(0.0525))],
        "average_latency_seconds": [on("n", always(0.0525))],
    }
    disk, _ = explained(answers)
    assert {one.of_type for one in disk.evidence.intervals} == {None}
    assert any("the median disk of its type is itself, the only one with requests" in line for line in told(disk))
    two, _ = explained({**answers, "latency_seconds:count": [TimeSeries({}, always(2))]})
    assert {one.of_type for one in two.evidence.intervals} == {0.0525}


@pytest.mark.parametrize(("region", "matchers"), [("r1", 'region="r1", instance=~"n"'), ("", 'instance=~"n"')])
def test_probes_of_a_node_of_the_same_name_in_another_region_do_not_count(region: str, matchers: str) -> None:
    asked = list[str]()

    def ask(promql: str) -> Sequence[Series]:
        asked.append(promql)
        return [Series({"verdict": "kept"}, 5)]

    assert questions.probe_runs(ask, [Stay((region, "n"), 0, 1)], 3600) == {"kept": 5}
    assert f"plimsoll_probe_runs_total{{{matchers}}}[3600s]" in asked[0]


def test_names_that_tenants_chose_are_shown_safely() -> None:
    hostile = FoundGuest(
        uuid="u1", region="r1", name="i", server="web\x1b[2J", project="p", project_name="shop\u202e"
    )
    assert messages.head(hostile, [Stay(("r1", "n"), 0, 1)]) == "server web?[2J (project shop?) on n"
    disk, _ = explained({"plimsoll_disk_info": [on("n", always(1), volume="\x1b", volume_type="g\n")]})
    assert all(line.isprintable() for line in told(disk))


def told(disk: ExplainedDisk) -> list[str]:
    return list(messages.disk_lines(disk, find(disk.evidence), {}, {}))
