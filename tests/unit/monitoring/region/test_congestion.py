"""What the publisher makes of answers: which classes pools use, why there is no signal, and where factors go on."""

from __future__ import annotations

from datetime import timedelta

import pytest

from plimsoll_agent.congestion.law import Action, ClassState
from plimsoll_agent.congestion.published import Gap
from plimsoll_monitoring.region import congestion
from plimsoll_monitoring.region.answers import Series
from plimsoll_monitoring.region.congestion import LEAST, MeasuredClass, elements, gap, measured, sparkline
from tests.unit.agent.congestion.values import a_factor, a_factor_file
from tests.unit.node import FSID
from tests.unit.values import NOON

NAN = float("nan")
SLOW = MeasuredClass(latency=0.009, rate=500.0, osds=0.008)


@pytest.mark.parametrize(
    ("classes", "used"),
    [
        ({"a": "ssd", "b": "ssd+hdd"}, {"a": ("ssd",), "b": ("hdd", "ssd")}),
        ({"a": "ssd", "b": "any", "c": "hdd"}, {"a": ("ssd",), "b": ("hdd", "ssd"), "c": ("hdd",)}),
        ({"a": "any", "b": "any"}, {"a": ("any",), "b": ("any",)}),
        ({"a": ""}, {"a": ("any",)}),
    ],
)
def test_a_pool_for_any_device_shares_osds_with_every_class_of_its_cluster(
    classes: dict[str, str], used: dict[str, tuple[str, ...]]
) -> None:
    other = {("other", "x"): "nvme"}
    here = elements({(FSID, pool): name for pool, name in classes.items()} | other)
    assert here == {(FSID, pool): names for pool, names in used.items()} | {("other", "x"): ("nvme",)}


@pytest.mark.parametrize(
    ("now", "target", "why"),
    [
        (SLOW, 0.006, None),
        (MeasuredClass(latency=0.0065), 0.006, None),  # within the band nothing is lowered, so no OSD is asked
        (MeasuredClass(), 0.006, Gap.NO_REQUESTS),
        (MeasuredClass(has_increase=False), 0.006, Gap.TOO_SELDOM),
        (MeasuredClass(has_fsid=False), 0.006, Gap.CLUSTER_UNKNOWN),
        (SLOW, None, Gap.NO_TARGET),
        (MeasuredClass(latency=0.009), 0.006, Gap.OSDS_UNKNOWN),
        (MeasuredClass(latency=0.009, osds=0.004), 0.006, Gap.NOT_IN_OSDS),
    ],
)
def test_a_latency_is_a_signal_only_with_a_target_and_where_the_osds_are_slow_too(
    now: MeasuredClass, target: float | None, why: Gap | None
) -> None:
    assert gap(now, target, lambda: None) == why


def test_the_cluster_is_asked_only_of_what_may_lower_its_factor() -> None:
    assert gap(SLOW, 0.006, lambda: Gap.UNHEALTHY) == Gap.UNHEALTHY
    assert gap(MeasuredClass(latency=0.005), 0.006, pytest.fail) is None
    assert gap(MeasuredClass(latency=0.009, osds=0.001), 0.006, pytest.fail) is Gap.NOT_IN_OSDS


def test_a_half_answer_and_a_value_that_is_no_number_are_unknown_and_no_zero() -> None:
    pools = {(FSID, "volumes"): ("ssd",)}
    where = {"cluster": FSID, "pool": "volumes"}
    answers = {name: list[Series]() for name in congestion.questions(congestion.SeriesSelection(), "cluster")}
    answers |= {"requests": [Series(where, LEAST)], "osd_seconds": [Series({"device_class": "ssd"}, 1.0)]}
    assert measured(answers, pools, "cluster") == {(FSID, "ssd"): MeasuredClass()}
    answers |= {"seconds": [Series(where, float("nan"))], "osd_requests": [Series({"device_class": "ssd"}, 0.0)]}
    assert measured(answers, pools, "cluster") == {(FSID, "ssd"): MeasuredClass()}


NORTH, SOUTH = "dc1/north", "dc1/south"


@pytest.mark.parametrize(
    ("places", "clusters", "osd_label", "region", "osds"),
    [
        ([{}], 1, "cluster", None, 0.001),
        ([{"cluster": FSID}], 1, "cluster", None, 0.001),
        ([{"cluster": "rook-ceph"}], 1, "cluster", None, None),
        ([{"cluster": "rook-ceph"}, {}], 1, "cluster", None, 0.002),
        ([{}], 2, "cluster", None, None),
        # Of a Prometheus with two regions.
        ([{"region": SOUTH}, {"region": NORTH}], 1, "cluster", None, None),
        ([{"region": SOUTH}, {"region": NORTH}], 1, "cluster", NORTH, 0.002),
        ([{"region": SOUTH}, {"region": NORTH}], 1, "cluster", "dc1", None),
        ([{"region": SOUTH}, {"region": "dc2/west"}], 1, "cluster", "dc1", 0.001),
        ([{"region": SOUTH}, {}], 1, "cluster", NORTH, 0.002),
        ([{"region": SOUTH}, {}], 1, "cluster", None, None),
        ([{"region": SOUTH}, {"region": "dc1/"}], 1, "cluster", NORTH, 0.002),
        ([{"region": NORTH}, {"cluster": FSID}], 1, "cluster", NORTH, 0.002),
        # The site names regions by a label cluster, and Ceph's targets have the fsid in it.
        ([{"region": f"dc1/{FSID}"}, {"region": NORTH}], 2, "cluster", NORTH, 0.001),
        ([{"region": FSID}, {"region": "other"}], 1, "region", None, 0.001),
        ([{"region": "r1"}], 1, "region", "r1", 0.001),
    ],
)
def test_osds_are_of_a_cluster_by_its_fsid_or_of_the_only_one_that_may_be_the_regions(
    places: list[dict[str, str]], clusters: int, osd_label: str, region: str | None, osds: float | None
) -> None:
    pools = {(FSID, "volumes"): ("ssd",), ("other", "volumes"): ("hdd",)}
    answers = {name: list[Series]() for name in congestion.questions(congestion.SeriesSelection(), osd_label)}
    for number, place in enumerate(places, 1):
        answers["osd_seconds"].append(Series({**place, "device_class": "ssd"}, number / 10))
        answers["osd_requests"].append(Series({**place, "device_class": "ssd"}, 100.0))
    figures = measured(answers, dict([*pools.items()][:clusters]), osd_label, region)
    assert figures[FSID, "ssd"].osds == osds


@pytest.mark.parametrize(("samples", "has_increase"), [(1.0, False), (2.0, True), (None, True)])
def test_counters_that_are_scraped_once_in_a_window_tell_of_no_requests_and_not_that_there_are_none(
    samples: float | None, has_increase: bool
) -> None:
    pools = {(FSID, "volumes"): ("ssd",), (FSID, "fast"): ("ssd",)}
    answers = {name: list[Series]() for name in congestion.questions(congestion.SeriesSelection(), "cluster")}
    if samples is not None:
        numbers = {"volumes": samples, "fast": 1.0}
        answers["samples"] = [Series({"cluster": FSID, "pool": pool}, number) for pool, number in numbers.items()]
    assert measured(answers, pools, "cluster") == {(FSID, "ssd"): MeasuredClass(has_increase=has_increase)}


@pytest.mark.parametrize(
    ("clusters", "has_fsid"),
    [(["prod"], False), (["prod", FSID], True), (["0f3c1d52-9a3e-4b62-8d0c-2f0e4d7a9b11"], True), ([""], True)],
)
def test_a_label_of_the_targets_in_the_place_of_the_fsid_is_a_fault_and_no_quiet_hour(
    clusters: list[str], has_fsid: bool
) -> None:
    answers = {name: list[Series]() for name in congestion.questions(congestion.SeriesSelection(), "cluster")}
    answers["samples"] = [Series({"cluster": cluster, "pool": "volumes"}, 2.0) for cluster in clusters]
    (figures,) = measured(answers, {(FSID, "volumes"): ("ssd",)}, "cluster").values()
    assert figures == MeasuredClass(has_fsid=has_fsid)


@pytest.mark.parametrize(
    ("values", "p10", "usual"),
    [
        (288.0, 0.002, 0.002),
        (287.0, 0.002, None),
        (None, 0.002, None),
        (288.0, None, None),
        (288.0, NAN, None),
    ],
)
def test_what_is_usual_is_unknown_until_a_day_of_seven_is_known(
    values: float | None, p10: float | None, usual: float | None
) -> None:
    answers = {
        name: [] if value is None else [Series({}, value)] for name, value in (("values", values), ("p10", p10))
    }
    assert congestion.usual(answers) == usual


@pytest.mark.parametrize(("now", "target"), [(SLOW, None), (None, None)])
def test_without_a_target_or_an_answer_a_reduced_class_returns_to_one(
    now: MeasuredClass | None, target: float | None
) -> None:
    state = ClassState(x=0.5, fine=0.5, action=Action.LOWERED)
    for _ in range(8):
        state = congestion.next_state(state, now, target, gap(now, target, pytest.fail))
    assert state.x == 1


@pytest.mark.parametrize(("seconds", "x"), [(90, 0.4), (119, 0.4), (121, 0.5), (600, 1.0)])
def test_after_the_file_expired_factors_go_on_from_where_nodes_have_returned_to(seconds: int, x: float) -> None:
    before = a_factor_file(a_factor(0.4), states={(FSID, "ssd"): ClassState(x=0.4, fine=0.4)})
    state = congestion.states(before, NOON + timedelta(seconds=seconds))[FSID, "ssd"]
    assert (state.x, state.fine) == (x, x)
    assert congestion.is_recent(before, NOON + timedelta(seconds=seconds)) == (seconds <= 90)


def test_a_clock_that_went_back_does_not_make_an_older_file() -> None:
    before = a_factor_file(generation=2**40)
    assert congestion.next_file(before, (), {}, {}, NOON).generation == 2**40 + 1


def test_a_day_is_a_character_an_hour_and_only_one_is_full() -> None:
    assert sparkline([None, 0.05, 0.5, 0.99, 1.0]) == "·▁▄▇█"
