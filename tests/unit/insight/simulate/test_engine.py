"""The model against closed forms, against arithmetic, and against itself."""

from __future__ import annotations

import hashlib
import math
import re
import tracemalloc
from collections.abc import Mapping

import pytest

from plimsoll_agent.model.limits import Limits
from plimsoll_insight.cli.simulate import load
from plimsoll_insight.simulate import scenario
from plimsoll_insight.simulate.engine import Period, run
from plimsoll_insight.simulate.results import SimulationResult, jain
from plimsoll_insight.simulate.scenario import Scenario
from tests.depth import DEPTH, Depth, count

LENGTH = count(quick=150, landing=300, soak=1000)
"""Seconds of a station."""
STATIONS = [(1, 500), (1, 700), (4, 2400), *([(16, 12_800)] if DEPTH is Depth.SOAK else [])]
"""Servers, each of 1,000 requests a second, and requests a second."""


def of(text: str) -> Scenario:
    return scenario.parse(text, "scenario.yaml")


def result(text: str) -> SimulationResult:
    return run(of(text))


ONE_OSD = "cluster: {hosts: 1, osds_per_host: 1, servers: SERVERS, read: 1ms, copies: 1, min_copies: 1, domain: osd}"


def station(servers: int, rate: int) -> SimulationResult:
    return result(f"""
        title: a station
        duration: {LENGTH}
        warm_up: 5
        {ONE_OSD.replace("SERVERS", str(servers))}
        disks: [{{name: all, guests: 1, iops: {rate}, writes: 0%}}]
    """)


def erlang_c(servers: int, load: float) -> float:
    """The probability that a request waits (A. K. Erlang, 1917)."""
    last = load**servers / math.factorial(servers) * servers / (servers - load)
    return last / (sum(load**number / math.factorial(number) for number in range(servers)) + last)


@pytest.mark.parametrize(("servers", "rate"), STATIONS)
def test_a_station_has_the_latency_of_its_closed_form(servers: int, rate: int) -> None:
    """M/M/1 and M/M/c: 1/μ + C / (cμ - λ)."""
    mean = 0.001 + erlang_c(servers, rate * 0.001) / (servers * 1000 - rate)
    (outcome,) = station(servers, rate).outcomes
    assert outcome.mean == pytest.approx(mean, rel=0.02)
    assert sum(outcome.requests) == pytest.approx(rate * (LENGTH - 5), rel=0.01)


def test_of_an_overloaded_station_only_what_ended_is_counted() -> None:
    text = f"title: t\nduration: 10\n{ONE_OSD}\ndisks: [{{name: all, guests: 1, iops: 2000, writes: 0%}}]"
    (outcome,) = result(text.replace("SERVERS", "1")).outcomes
    assert sum(outcome.requests) == pytest.approx(10_000, rel=0.03)
    assert outcome.unfinished == pytest.approx(10_000, rel=0.05)
    assert outcome.percentile(0.99) == pytest.approx(5, rel=0.05)


def test_percentiles_of_one_server_are_those_of_its_closed_form() -> None:
    """Of M/M/1 the latency is exponential, with the mean 1 / (μ - λ)."""
    (outcome,) = station(1, 500).outcomes
    for fraction in (0.5, 0.95, 0.99):
        assert outcome.percentile(fraction) == pytest.approx(-math.log(1 - fraction) / 500, rel=0.03)


def test_osds_at_half_of_their_speed_have_the_latency_of_their_closed_form() -> None:
    (outcome,) = result(f"""
        title: slow
        duration: {LENGTH}
        {ONE_OSD.replace("SERVERS", "1")}
        disks: [{{name: all, guests: 1, iops: 250, writes: 0%}}]
        events: [{{at: 0s, speed: 50%}}]
    """).outcomes
    assert outcome.mean == pytest.approx(1 / (500 - 250), rel=0.03)


@pytest.mark.parametrize(("share", "mean"), [("50%", 0.023), ("90%", 0.041)])
def test_writes_to_degraded_objects_take_what_the_arithmetic_says(share: str, mean: float) -> None:
    """d · (22 + 22 + 1) + (1 - d) · 1 ms."""
    text = load_text("degraded-half").replace("degrade: 50%", f"degrade: {share}").replace("300s", "100s")
    (outcome,) = result(text).outcomes
    assert outcome.mean == pytest.approx(mean, rel=0.1)


def load_text(name: str) -> str:
    from plimsoll_insight.cli.simulate import SAMPLES

    return (SAMPLES[0] / f"{name}.yaml").read_text()


SMALL = """
    title: small
    duration: 30
    period: 5
    cluster: {hosts: 3, osds_per_host: 2}
    disks:
      - {name: light, guests: 10, iops: 5, limits: {total_iops_sec: 50}}
      - {name: heavy, guests: 2, queue: 16, limits: {total_iops_sec: 100, total_iops_sec_max: 300}}
"""


def digest(outcome: SimulationResult) -> str:
    return hashlib.sha256(
        repr([(each.requests, each.mean, each.slices) for each in outcome.outcomes]).encode()
    ).hexdigest()


def test_a_seed_gives_the_same_result_on_every_machine() -> None:
    assert digest(result(SMALL))[:16] == "1173e8d28a32f0eb"
    assert digest(result(SMALL.replace("title", "seed: 2\n    title")))[:16] != "1173e8d28a32f0eb"


def test_more_disks_of_one_kind_leave_what_others_send_as_it_was() -> None:
    more = SMALL.replace("guests: 2, queue", "guests: 3, queue")
    assert result(more).outcomes[0].sent == result(SMALL).outcomes[0].sent


def test_a_closed_loop_is_served_at_its_limit_and_its_burst_once() -> None:
    light, heavy = result(SMALL).outcomes
    assert heavy.requests == pytest.approx([30 * 100 + 300] * 2, abs=20)
    assert [round(each.limit or 0) for each in heavy.slices] == [100] * 6
    assert heavy.mean == pytest.approx(16 / (3300 / 30), rel=0.02)  # Little's law
    assert (light.percentile(0.99) or 1) < 0.02


def test_disks_of_a_group_share_one_limit() -> None:
    text = SMALL.replace("{total_iops_sec: 100, total_iops_sec_max: 300}", "{total_iops_sec: 100, group_name: g}")
    (_, heavy) = result(text.replace("guests: 2, queue", "guests: 1, disks: 4, queue")).outcomes
    assert sum(heavy.requests) == pytest.approx(3000, abs=20)
    assert jain(heavy.requests) == pytest.approx(1, abs=1e-3)


def test_what_an_open_loop_sends_beyond_its_queue_is_counted_and_not_kept() -> None:
    text = SMALL.replace("iops: 5, limits: {total_iops_sec: 50}", "iops: 100, limits: {total_iops_sec: 50}")
    light = result(text).outcomes[0]
    assert light.unsent == pytest.approx(10 * (30 * 50 - 256), rel=0.1)
    assert sum(light.requests) == pytest.approx(10 * 30 * 50, rel=0.02)


LOST = """
    title: lost
    duration: 100
    period: 10
    cluster: {hosts: 3, osds_per_host: 1, copies: COPIES, min_copies: 2, detect: 10s, peering: 1s, objects: 960,
              object_read: 2ms, object_write: 2ms, recovery_active: ACTIVE}
    disks: [{name: light, guests: 10, iops: 20, writes: 100%}]
    events: [{at: 20, lose: host.1}, {at: 60, return: host.1}]
"""


def test_writes_wait_until_a_lost_host_is_detected_and_again_while_groups_peer() -> None:
    outcome = result(LOST.replace("COPIES", "3").replace("ACTIVE", "3"))
    slices = outcome.outcomes[0].slices
    assert [each.iops / 20 for each in slices] == pytest.approx([10, 10, 0, 20, 10, 10, 10, 10, 10, 10], abs=1)
    # Those that came in the eleven seconds waited for their end.
    assert slices[3].p99 == pytest.approx(11, rel=0.05)
    assert (slices[4].p99 or 1) < 0.02
    # 960 objects were written 5,800 times in 29 s: all are stale, and are recovered.
    assert (outcome.recovered, outcome.stale) == (960, 0)


def test_without_recovery_only_objects_that_are_written_are_recovered() -> None:
    outcome = result(LOST.replace("COPIES", "3").replace("ACTIVE", "0").replace("objects: 960", "objects: 96000"))
    assert 0 < outcome.recovered <= 40 * 200
    assert outcome.stale > 0


def test_groups_with_too_few_copies_wait_for_the_return() -> None:
    outcome = result(LOST.replace("COPIES", "2").replace("ACTIVE", "3"))
    slices = outcome.outcomes[0].slices
    # Of three hosts two thirds of the groups have a copy on the lost one, and one is too few for a write.
    assert [round(each.iops / 200, 1) for each in slices[4:6]] == pytest.approx([1 / 3, 1 / 3], abs=0.15)
    assert slices[6].p99 == pytest.approx(41, rel=0.1)
    assert sum(outcome.outcomes[0].requests) == pytest.approx(20_000, rel=0.03)


def test_guests_of_a_lost_node_send_nothing_until_it_returns() -> None:
    text = re.sub("host.1", "node.1", LOST).replace("title: lost", "title: lost\n    nodes: 2")
    slices = result(text.replace("COPIES", "3").replace("ACTIVE", "3")).outcomes[0].slices
    assert [round(each.iops / 10) for each in slices] == pytest.approx(
        [20, 20, 10, 10, 10, 10, 20, 20, 20, 20], abs=2
    )


def test_a_closed_loop_is_as_deep_after_its_node_returned_as_before() -> None:
    """Its requests under way when the node was lost are a part of its queue, also one that ends later."""
    text = """
        title: returns at once
        duration: 40
        period: 10
        nodes: 1
        cluster: {hosts: 1, osds_per_host: 1, servers: 1, copies: 1, min_copies: 1, write: 100ms, service: fixed}
        disks: [{name: all, guests: 1, queue: 8, writes: 100%}]
        events: [{at: 10, lose: node.0}, {at: 10.3, return: node.0}]
    """
    slices = result(text).outcomes[0].slices
    # Eight requests wait for one server: 0.8 s each.
    assert [each.p99 for each in slices] == pytest.approx([0.8] * 4, rel=0.05)


def test_a_controller_sees_each_period_and_sets_limits() -> None:
    seen: list[int] = []

    def halve(period: Period) -> Mapping[int, Limits]:
        seen.append(sum(disk.ended for disk in period.disks if disk.alike.kind.name == "heavy"))
        return {disk.number: Limits(total_iops_sec=50) for disk in period.disks[10:] if period.number == 2}

    _, heavy = run(of(SMALL), halve).outcomes
    assert [each.limit for each in heavy.slices] == [100, 100, 100, 50, 50, 50]
    assert heavy.slices[-1].iops == pytest.approx(100, rel=0.02)
    assert len(seen) == 6
    assert seen == sorted(seen)


def test_a_controller_sees_no_request_before_it_has_ended() -> None:
    seen: list[tuple[int, int]] = []

    def look(period: Period) -> Mapping[int, Limits]:
        seen.append((period.disks[0].ended, period.disks[0].latency))
        return {}

    text = f"title: t\nduration: 10\nperiod: 1\n{ONE_OSD}\ndisks: [{{name: all, guests: 1, iops: 2000, writes: 0%}}]"
    (outcome,) = run(of(text.replace("SERVERS", "1")), look).outcomes
    served = [round(sum(each.iops for each in outcome.slices[: number + 1])) for number in range(10)]
    assert [requests for requests, _ in seen] == served
    # The queue grows all the time: what ended in the first second waited for 0.25 s, and not for a later one.
    assert seen[0][1] / seen[0][0] == pytest.approx(0.25e9, rel=0.2)


def test_memory_does_not_grow_with_time() -> None:
    def peak(duration: int) -> int:
        tracemalloc.start()
        run(of(SMALL.replace("duration: 30\n    period: 5", f"duration: {duration}")))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    assert peak(100) < 1.5 * peak(10)


@pytest.mark.parametrize("name", ["four-volumes", "host-lost-of-787", "room-for-recovery", "third-lost-and-returned"])
def test_a_scenario_that_comes_with_plimsoll_can_be_run(name: str) -> None:
    text = re.sub(r"^duration: .*", "duration: 130s", load_text(name), flags=re.MULTILINE)
    short = re.sub(r"(guests: |iops: )(\d+)", lambda found: f"{found[1]}{max(1, int(found[2]) // 10)}", text)
    short = short.replace("at: 2m", "at: 70s").replace("at: 3m", "at: 90s").replace("at: 4m", "at: 100s")
    assert load(name).title
    assert all(sum(outcome.requests) for outcome in result(short).outcomes)


def test_jains_index() -> None:
    assert jain([1, 1, 1, 1]) == 1
    assert jain([4, 0, 0, 0]) == 0.25
    assert jain([0, 0]) is None
