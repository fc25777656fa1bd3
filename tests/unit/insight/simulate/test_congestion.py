"""Arms against congestion, in discrete events and as a fluid: what each of them does to light and heavy disks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from bench import fairness, fluid
from plimsoll_insight.simulate import congestion, scenario
from plimsoll_insight.simulate.congestion import Arm
from plimsoll_insight.simulate.engine import run
from plimsoll_insight.simulate.scenario import Scenario
from tests.depth import DEPTH, Depth

SCENARIO = """
title: half of the speed is gone from 3 to 13 minutes
duration: 20m
period: 10s
cluster: {hosts: 3, osds_per_host: 1, servers: 4, read: 50ms, write: 50ms}
disks:
  - {name: light, guests: 10, iops: 1, writes: 100%, limits: {total_iops_sec: 100}, light: true}
  - {name: heavy, guests: 4, queue: 16, limits: &l {total_iops_sec: 10}, congestion: {floor: &f {total_iops_sec: 3}}}
  - {name: three times, guests: 2, queue: 16, limits: *l, congestion: {floor: *f, share: 3}}
  - {name: untouched, guests: 1, queue: 16, limits: {total_iops_sec: 5}}
events: [{at: 3m, speed: 50%}, {at: 13m, speed: 100%}]
congestion: {objective: 250ms, noise: 10%, lost: 5%}
"""


def of(text: str = SCENARIO) -> Scenario:
    return scenario.parse(text.replace("&l ", "").replace("&f ", "").replace("*l", "{total_iops_sec: 10}")
                          .replace("*f", "{total_iops_sec: 3}"), "f")  # fmt: skip


@pytest.fixture(scope="module")
def arms() -> Mapping[str, Arm]:
    text = of()
    assert text.congestion is not None
    return {arm.name: arm for arm in congestion.arms(text, text.congestion)}


def limits(arm: Arm, name: str) -> list[float | None]:
    return next(
        [each.limit for each in outcome.slices] for outcome in arm.result.outcomes if outcome.disks.name == name
    )


def test_doing_nothing_is_the_scenario_without_congestion(arms: Mapping[str, Arm]) -> None:
    plain = run(of())
    assert [each.requests for each in arms["nothing"].result.outcomes] == [each.requests for each in plain.outcomes]


def test_light_disks_are_better_off_than_with_nothing_and_heavy_ones_than_with_half(arms: Mapping[str, Arm]) -> None:
    assert arms["plimsoll"].above < arms["nothing"].above / 2
    served = {name: sum(sum(each.requests) for each in arm.result.outcomes) for name, arm in arms.items()}
    assert served["plimsoll"] > 1.1 * served["half"]
    assert arms["plimsoll"].factors[-1] == 1


def test_floors_shares_and_disks_without_a_floor_hold_in_every_period(arms: Mapping[str, Arm]) -> None:
    for name, arm in arms.items():
        share = 1 if name == "half" else 3
        # A period shows the limit before that of its own end.
        for x, heavy, three in zip(
            arm.factors, limits(arm, "heavy")[1:], limits(arm, "three times")[1:], strict=False
        ):
            assert heavy == pytest.approx(max(3, min(10, 10 * x)), abs=1)
            assert three == pytest.approx(max(3, min(10, share * 10 * x)), abs=1)
        assert {*limits(arm, "untouched"), *limits(arm, "light")} == {5, 100}


def test_a_signal_that_ends_returns_all_limits() -> None:
    text = of(SCENARIO.replace("lost: 5%", "cut: 8m, arms: [plimsoll]"))
    assert text.congestion is not None
    (arm,) = congestion.arms(text, text.congestion)
    assert min(arm.factors[:47]) < 0.8
    assert limits(arm, "heavy")[47 + 3 + 10] == 10


def test_a_reduction_that_only_makes_room_for_a_foreign_load_ends() -> None:
    foreign = "  - {name: foreign, guests: 4, queue: 64, begins: 3m}\nevents: []\n"
    text = of(SCENARIO.replace("events: [{at: 3m, speed: 50%}, {at: 13m, speed: 100%}]\n", foreign)
              .replace("lost: 5%", "arms: [plimsoll]").replace("queue: 16", "queue: 2"))  # fmt: skip
    assert text.congestion is not None
    (arm,) = congestion.arms(text, text.congestion)
    assert min(arm.factors) < 0.7
    assert arm.factors[-1] == 1
    assert arm.above > 90, "the latency has not fallen"


# --- as a fluid


@pytest.mark.parametrize(("servers", "load"), [(1, 0.5), (4, 0.7)])
def test_the_fluid_has_the_latency_of_the_discrete_events(servers: int, load: float) -> None:
    requests = load * servers * 40 * 1000 / (0.3 + 0.7 * 3)
    text = f"""
        title: as many OSDs as make copies independent
        duration: 4
        warm_up: 1
        cluster: {{hosts: 40, osds_per_host: 1, servers: {servers}, read: 1ms, write: 1ms, groups: 4000}}
        disks: [{{name: all, guests: 100, iops: {requests / 100}, writes: 70%}}]
    """
    (outcome,) = run(scenario.parse(text, "f")).outcomes
    loads, latencies = fluid.curve(servers, 0.0)
    assert outcome.mean == pytest.approx(float(np.interp(load, loads, latencies)), rel=0.05)


def test_the_law_meets_its_targets_in_the_fluid() -> None:
    """All but those that the guide states as not met."""
    met: dict[str, list[bool]] = {}
    for region in fairness.regions(quick=DEPTH is not Depth.SOAK):
        half, ours = fairness.judged(region, ("half", "plimsoll"))
        for words, is_met in fairness.targets(ours, half).items():
            met.setdefault(words, []).append(is_met)
        assert ours.first <= (30 if region.servers == 1 else 17)
        assert ours.throughput >= (0.55 if region.servers == 1 else 0.8)
    latency, p95, swing, throughput, jain, half_beaten, bounds = (sum(each) / len(each) for each in met.values())
    assert (jain, half_beaten, bounds) == (1, 1, 1)
    assert min(latency, p95) >= 0.85
    assert throughput >= 0.5
    assert swing >= (0.6 if DEPTH is Depth.SOAK else 0.3)


def test_a_lost_signal_returns_limits_within_ten_minutes_and_a_healthy_week_has_no_reduction() -> None:
    region = fluid.Region(servers=4)
    assert 0 < fairness.back_after_loss(region) <= 20
    assert fairness.reductions_in_a_healthy_week(4, 0.3, 1) == 0
