"""Sums of a replay by hand: groups, gaps, and what is left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from plimsoll_agent.model.limits import Limits
from plimsoll_insight.replay.columns import Rows, Steps
from plimsoll_insight.replay.questions import Nodes, ReplayNode
from plimsoll_insight.replay.run import Replay, ReplayExtent, extent_of
from plimsoll_insight.replay.summary import ReplayBy, rows, worst_first
from plimsoll_insight.replay.values import Fate, FigureRange, ReplayedDisk, ReplayVerdict, UnknownReason
from plimsoll_monitoring.promql import SeriesSelection
from plimsoll_monitoring.region.answers import Series
from tests.unit.node import uuid_of

STEPS = 10
ACTUAL = 500


class Region:
    """Answers as Prometheus does, of disks of one node; each writes so many requests a second of 4 KiB.

    ``reads``: how many it reads for each that it writes.
    """

    def __init__(
        self,
        *loads: Sequence[float],
        ratio: float | None = 0.5,
        latency: float | Sequence[float] = np.nan,
        ratios: Sequence[float] | None = None,
        actual: int = ACTUAL,
        step: int = 60,
        pass_seconds: float | None = None,
        reads: int = 0,
        fresh: Sequence[bool] = (True,),
        desired: int = ACTUAL,
        state: str = "in-sync",
        several_volumes: Sequence[int] = (),
    ) -> None:
        """``ratio`` is the highest of ``ratios``, or that of all steps; ``fresh`` is by step, or of all."""
        self.loads, self.ratio, self.actual, self.desired, self.state = loads, ratio, actual, desired, state
        self.columns = {"limit_ratio": ratios or [ratio or np.nan] * len(loads[0]), "latency": latency}
        until = step * len(loads[0])
        self.extent = ReplayExtent(since=0, until=until, step=step, pass_seconds=pass_seconds or step)
        self.factors = {"read": reads, "write": 1, "total": 1 + reads}
        self.fresh, self.several_volumes = fresh, several_volumes
        self.ranges: list[str] = []

    def labels(self, disk: int) -> dict[str, str]:
        return {"region": "r1", "instance": "n1", "uuid": uuid_of(1), "domain": "d", "target_device": f"vd{disk}"}

    def ask(self, promql: str) -> list[Series]:
        answer = []
        for disk, load in enumerate(self.loads):
            labels, most = self.labels(disk), max((each for each in load if not np.isnan(each)), default=None)
            if "min_over_time" in promql:
                answer.append(Series({"region": "r1", "instance": "n1"}, float(min(self.fresh))))
            elif "target_device, volume)" in promql:
                answer += [Series(labels, 2)] if disk in self.several_volumes else []
            elif "disk_info" in promql:
                answer.append(Series({**labels, "project": f"p{disk}", "pool": "volumes"}, 1))
            elif "disk_state" in promql:
                answer.append(Series({**labels, "state": self.state, "reason": "qos-spec"}, 1))
            elif "disk_unlimited" in promql:
                answer.append(Series(labels, 0))
            elif "limit_actual_operations" in promql:
                answer.append(Series({**labels, "parameter": "total_iops_sec"}, self.actual))
            elif "limit_desired_operations" in promql:
                answer.append(Series({**labels, "parameter": "total_iops_sec"}, self.desired))
            elif "pass_last_timestamp" in promql:
                answer.append(Series({"region": "r1", "instance": "n1"}, self.extent.step))
            elif "count_over_time" in promql:
                answer.append(Series(labels, float(len(load))))
            elif "sum_over_time" in promql:
                answer.append(Series(labels, float(np.sum(load)) * self.factors["total"]))
            elif "max_over_time(plimsoll_disk_average_limit" in promql and self.ratio is not None:
                answer.append(Series(labels, self.ratio))
            elif "max_over_time" in promql and most is not None and "limit" not in promql:
                size = 4096 if "bytes" in promql else 1
                answer += [Series({**labels, "direction": side}, most * size * self.factors[side])
                           for side in ("read", "write")]  # fmt: skip
        return answer

    def source(self, promql: str, steps: Steps) -> Rows:
        self.ranges.append(promql)
        if "observed" in promql:
            return [({"region": "r1", "instance": "n1"}, np.full(steps.number, self.fresh, float))]
        found: Rows = []
        for disk, load in enumerate(self.loads):
            side = next((side for side in ("read", "write") if f'"{side}"' in promql), "total")
            column = np.array(load) * self.factors[side] * (4096 if "bytes" in promql else 1)
            for name, values in self.columns.items():
                if name in promql:
                    column = np.full(steps.number, values)
            found.append((self.labels(disk), column))
        return found

    def fates(self, *limits: dict[str, Any] | UnknownReason | None) -> list[Fate]:
        def decide(subject: ReplayedDisk) -> Limits | UnknownReason | None:
            one = limits[int(subject.target[2:])]
            return Limits(**one) if isinstance(one, dict) else one

        replay = Replay(self.ask, self.source, decide, self.extent, lambda *_: None)
        fates = list(replay.run([ReplayNode(("r1", "n1"), len(self.loads))], SeriesSelection()))
        return sorted(fates, key=lambda fate: fate.subject.target)


def test_disks_that_would_share_a_limit_wait_together() -> None:
    """200 and 400 a second for 300: half of all fits, a third of what waits is of the first."""
    together = {"total_iops_sec": 300, "group_name": "g"}
    first, second, third = Region([200] * STEPS, [400] * STEPS, [200] * STEPS).fates(
        together, together, {"total_iops_sec": 300}
    )
    assert (first.verdict, second.verdict, third.verdict) == (
        ReplayVerdict.WORSE,
        ReplayVerdict.WORSE,
        ReplayVerdict.SAME,
    )
    overflow = 300 * 600 - 30
    assert first.waited is not None
    assert second.waited is not None
    assert first.waited.low == pytest.approx(overflow / 3, rel=0.01)
    assert second.waited.low == pytest.approx(overflow * 2 / 3, rel=0.01)


@pytest.mark.parametrize("state", ["in-sync", "changed"])
@pytest.mark.parametrize(("number", "verdict"), [(250, ReplayVerdict.MAYBE_WORSE), (600, ReplayVerdict.SAME)])
def test_new_limits_are_compared_with_the_desired_ones_of_a_disk_that_is_reduced(
    number: int, verdict: ReplayVerdict, state: str
) -> None:
    """It did 100 a second as congestion left it no more: 250 in place of 500 are no improvement."""
    (fate,) = Region([100] * STEPS, ratio=1.0, actual=100, desired=500, state=state).fates({"total_iops_sec": number})
    assert (fate.subject.actual, fate.verdict) == (Limits(total_iops_sec=500), verdict)


@pytest.mark.parametrize("number", [400, 500])
def test_a_planned_raise_is_no_reduction_that_ends(number: int) -> None:
    """In mode observe the 250 in force stay."""
    (fate,) = Region([248] * STEPS, ratio=0.99, actual=250, desired=500, state="planned").fates(
        {"total_iops_sec": number}
    )
    assert (fate.subject.actual, fate.verdict) == (Limits(total_iops_sec=250), ReplayVerdict.SAME)


@pytest.mark.parametrize("state", ["deferred", "failed", ""])
def test_whether_limits_are_lower_for_now_is_unknown_where_a_change_is_deferred(state: str) -> None:
    (fate,) = Region([248] * STEPS, ratio=0.99, actual=250, desired=500, state=state).fates({"total_iops_sec": 400})
    assert (fate.verdict, fate.why) == (ReplayVerdict.UNKNOWN, UnknownReason.ACTUAL)


def test_what_may_be_no_reduction_is_in_force_where_a_change_is_deferred() -> None:
    (fate,) = Region([400] * STEPS, actual=500, desired=250, state="deferred").fates({"total_iops_sec": 250})
    assert (fate.subject.actual, fate.verdict) == (Limits(total_iops_sec=500), ReplayVerdict.WORSE)


def test_what_waits_and_comes_while_the_load_is_unknown_is_not_counted() -> None:
    (fate,) = Region([400.0] * 5 + [np.nan] * 5).fates({"total_iops_sec": 300})
    assert (fate.served_before, fate.share_known) == (pytest.approx(400), 0.5)
    assert fate.served == FigureRange(pytest.approx(300, abs=0.2), pytest.approx(300, abs=0.2))


def test_a_group_is_unknown_while_one_of_its_disks_is() -> None:
    together = {"total_iops_sec": 300, "group_name": "g"}
    half = [200.0] * 5 + [np.nan] * 5
    first, second = Region([200] * STEPS, half).fates(together, together)
    assert first.waited is not None
    assert first.waited.low == pytest.approx(100 * 300 / 2, rel=0.01)
    assert (first.share_known, second.share_known) == (1, 0.5)


def test_a_disk_that_never_comes_near_the_limit_is_not_read_step_by_step() -> None:
    region = Region([100] * STEPS)
    (fate,) = region.fates({"total_iops_sec": 300})
    assert (fate.verdict, fate.at_limit, region.ranges) == (ReplayVerdict.SAME, FigureRange(0, 0), [])
    assert fate.hidden == pytest.approx((100 * 60 - 30) / 300)
    assert (fate.served_before, fate.served) == (100, FigureRange(100, 100))


def test_a_quiet_disk_of_which_some_averages_are_no_numbers_is_known_in_part() -> None:
    (fate,) = Region([100.0] * 5 + [np.nan] * 5).fates({"total_iops_sec": 300})
    assert (fate.verdict, fate.share_known, fate.served_before) == (ReplayVerdict.SAME, 0.5, 100)
    assert fate.served == FigureRange(100, 100)


def test_a_quiet_disk_whose_node_served_old_metrics_is_known_in_part() -> None:
    (fate,) = Region([100.0] * STEPS, fresh=[True] * 5 + [False] * 5).fates({"total_iops_sec": 300})
    assert (fate.verdict, fate.share_known, fate.served_before) == (ReplayVerdict.SAME, 0.5, 100)


def test_reads_do_not_wait_at_a_limit_of_writes() -> None:
    (fate,) = Region([400] * STEPS).fates({"read_iops_sec": 10, "write_iops_sec": 1000})
    assert (fate.verdict, fate.waited) == (ReplayVerdict.SAME, FigureRange(0, 0))


def test_a_disk_at_its_limit_all_the_time_has_no_upper_bound() -> None:
    """Its latency without the wait is unknown, and so is what would have come."""
    (fate,) = Region([500] * STEPS, ratio=1.0, latency=0.064).fates({"total_iops_sec": 600})
    assert (fate.verdict, fate.at_limit, fate.at_limit_before) == (ReplayVerdict.SAME, FigureRange(0, 1), 1)
    assert fate.longest == FigureRange(0, None)
    assert fate.hidden is None
    assert fate.served == FigureRange(pytest.approx(500), pytest.approx(600, abs=0.2)), (
        "no more than the limit lets through"
    )


def test_without_limits_nothing_waits_whatever_comes() -> None:
    (fate,) = Region([500] * STEPS, ratio=1.0, latency=0.064).fates({})
    assert (fate.verdict, fate.at_limit, fate.longest) == (ReplayVerdict.BETTER, FigureRange(0, 0), FigureRange(0, 0))
    assert fate.served == FigureRange(pytest.approx(500), None)


def test_what_comes_beside_the_new_limits_is_unbounded_where_it_was_hidden() -> None:
    """250 reads and 250 writes come to a limit on both; the new one is on reads alone."""
    (fate,) = Region([250] * STEPS, ratio=1.0, reads=1).fates({"read_iops_sec": 200})
    assert fate.served == FigureRange(pytest.approx(450, abs=0.2), None)


def test_what_comes_later_is_served_in_a_pause_and_what_is_not_sent_again_is_not() -> None:
    """400 for 300 and then none, in turn: three quarters of it, or all of it; the first bucket holds 30 more."""
    (fate,) = Region([400, 0] * (STEPS // 2)).fates({"total_iops_sec": 300})
    assert fate.served_before == 200
    assert fate.served == FigureRange(pytest.approx(150, abs=0.5), pytest.approx(200))


def test_large_requests_are_served_between_two_ways_to_count_them() -> None:
    """100 of 4096 bytes count as 400 for each 1024, or as 500 at most: of 300 a second they are 75, or 60."""
    (fate,) = Region([100] * STEPS).fates({"total_iops_sec": 300, "size_iops_sec": 1024})
    assert fate.served == FigureRange(pytest.approx(60, rel=0.01), pytest.approx(75, rel=0.01))


def test_disks_that_would_share_a_limit_are_served_by_what_they_asked_for() -> None:
    together = {"total_iops_sec": 300, "group_name": "g"}
    fates = Region([200] * STEPS, [400] * STEPS).fates(together, together)
    assert [fate.served_before for fate in fates] == [200, 400]
    (pool,) = rows(fates, ReplayBy.POOL)
    assert pool.served_before == 600
    for served, rate in zip([fate.served for fate in fates] + [pool.served], (100, 200, 300), strict=True):
        assert served == FigureRange(pytest.approx(rate, rel=0.01), pytest.approx(rate, rel=0.01))


@pytest.mark.parametrize("rest", [0.4, 0.6])
def test_what_was_left_of_a_burst_tells_no_latency_without_a_wait(rest: float) -> None:
    """20 in flight are 500 a second at 40 ms, and four times as many at 10 ms. What came next to them may have
    waited, and what comes later too where two minutes have more than the 50 that the limit lets through at once.
    """
    loads = [500, 500, rest, rest, rest, rest, rest, rest, rest, rest]
    latency = [0.04, 0.04, 0.001, *[0.01] * 7]
    (fate,) = Region(loads, ratio=1, ratios=[each / ACTUAL for each in loads], latency=latency).fates(
        {"total_iops_sec": 5000}
    )
    most = 4 * 500 if rest == 0.4 else 5000
    low, high = ((2 * each + 8 * rest) / STEPS for each in (500, most))
    assert fate.served == FigureRange(pytest.approx(low), pytest.approx(high, rel=0.002))
    assert (fate.hidden is None) == (rest == 0.6)


def test_in_steps_shorter_than_averages_the_one_before_is_not_the_value_before() -> None:
    """An average over five minutes is five values; of the next one the five values may be of requests that waited."""
    few = 0.05
    loads, latency = [500, *[few] * 9], [0.04, *[0.001] * 5, *[0.01] * 4]
    ratios = [each / ACTUAL for each in loads]
    (fate,) = Region(loads, ratio=1, ratios=ratios, latency=latency, pass_seconds=300).fates({"total_iops_sec": 5000})
    assert fate.served == FigureRange(pytest.approx((500 + 9 * few) / STEPS), pytest.approx((2000 + 9 * few) / STEPS))


def test_what_another_volume_did_at_the_same_target_is_no_load_of_this_one() -> None:
    """Nor is it known what those did that would share a limit with it."""
    together = {"total_iops_sec": 300, "group_name": "g"}
    fates = Region(*[[100] * STEPS] * 3, several_volumes=[0]).fates(together, together, {"total_iops_sec": 300})
    assert [fate.why for fate in fates] == [UnknownReason.VOLUMES, UnknownReason.VOLUMES, None]
    assert fates[0].share_known is None


@pytest.mark.parametrize("ratio", [None, 0.5])
def test_no_samples_are_no_load_of_zero(ratio: float | None) -> None:
    """A limited disk without its used share was not watched either."""
    load = [np.nan] * STEPS if ratio else [400.0] * STEPS
    (fate,) = Region(load, ratio=ratio).fates({"total_iops_sec": 300})
    assert (fate.verdict, fate.why, fate.at_limit) == (ReplayVerdict.UNKNOWN, UnknownReason.NO_SAMPLES, None)


def test_rows_have_the_worst_first_and_count_those_that_are_untouched() -> None:
    loads = [[100] * STEPS, [600] * STEPS, [400] * STEPS, [100] * STEPS]
    new = {"total_iops_sec": 300}
    fates = Region(*loads).fates(new, new, new, None)
    assert [fate.subject.target for fate in worst_first(fates)] == ["vd1", "vd2", "vd0", "vd3"]
    (pool,) = rows(fates, ReplayBy.POOL)
    assert pool.verdicts == {ReplayVerdict.SAME: 1, ReplayVerdict.WORSE: 2, ReplayVerdict.UNTOUCHED: 1}
    assert pool.turns == {(Limits(total_iops_sec=500), Limits(total_iops_sec=300)): 3}
    assert pool.at_limit == FigureRange(pytest.approx(2 / 3), pytest.approx(2 / 3))
    assert next(row.labels["project"] for row in rows(fates, ReplayBy.PROJECT)) in ("p1", "p2")


def test_steps_are_as_far_apart_as_passes_and_no_further_than_five_minutes() -> None:
    def step(passes: float | None, samples: float | None) -> int:
        nodes = Nodes(
            nodes=(), aggregates=frozenset(), unreachable=frozenset(), pass_seconds=passes, scrape_seconds=samples
        )
        return extent_of(nodes, 0, 3600).step

    assert [step(60, 15), step(30, 60), step(900, 60), step(1, 5), step(None, None)] == [60, 60, 300, 15, 15]
