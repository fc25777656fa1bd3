"""What a drill cost: figures counted by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from plimsoll_insight.drill.comparison import UnreadableForecast, compared
from plimsoll_insight.drill.phases import Phase
from plimsoll_insight.drill.recording import read
from plimsoll_insight.drill.results import Results, results
from tests.unit.insight.drill.recorded import Second, drill, status, write


def found(path: Path, seconds: list[Second], disks: int = 1, *, end: bool = True) -> Results:
    write(path / "drill", seconds, disks, end=end)
    return results(read(path / "drill"))


def test_phases_have_their_iops_latencies_and_costs(tmp_path: Path) -> None:
    whole = found(tmp_path, drill())
    by_phase = {each.span.phase: each for each in whole.figures[:-1]}
    assert whole.phases.normal == pytest.approx(100)
    assert by_phase[Phase.DEGRADED].iops == pytest.approx(110)
    assert by_phase[Phase.DEGRADED].change == pytest.approx(0.1)
    assert by_phase[Phase.OUTAGE].change == pytest.approx(-1)
    assert by_phase[Phase.RECOVERY].latency == pytest.approx((0.002, 0.002, 0.002))
    assert by_phase[Phase.OUTAGE].peering == 0
    # 16 placement groups for 4 s, and 20 copies for 10 s; a status is 0.2 s into its second.
    assert by_phase[Phase.RETURN].peering == pytest.approx(16 * 3.8)
    assert by_phase[Phase.RECOVERY].degraded == pytest.approx(20 * 9.8, rel=0.01)


def test_an_incident_has_its_times_and_sums(tmp_path: Path) -> None:
    [incident] = found(tmp_path, drill()).incidents
    assert (incident.begin, incident.end) == (20, 62)
    assert incident.detect == pytest.approx(7.2)
    assert incident.serve == 8
    assert incident.recover == 14
    assert incident.peering == incident.inactive == pytest.approx(16 * 4)
    assert incident.degraded == pytest.approx(50 * 20 + 20 * 9.8)
    assert (incident.share, incident.stale, incident.unknown) == (0.5, 20, pytest.approx(0))


def test_what_the_cluster_did_not_answer_is_unknown_and_in_no_sum(tmp_path: Path) -> None:
    seconds = drill()
    seconds[35:45] = [(rate, None) for rate, _ in seconds[35:45]]
    whole = found(tmp_path, seconds)
    [incident] = whole.incidents
    # The status of second 34 counts for three seconds.
    assert incident.unknown == pytest.approx(8)
    assert whole.unknown == pytest.approx(8)
    assert incident.degraded == pytest.approx(50 * 12 + 20 * 9.8)


def test_a_recording_that_ends_in_the_trouble_tells_no_times_that_are_not_over(tmp_path: Path) -> None:
    [incident] = found(tmp_path, drill()[:25], end=False).incidents
    assert (incident.begin, incident.end, incident.detect, incident.serve, incident.recover) == (
        20, None, None, None, None,
    )  # fmt: skip
    [incident] = found(tmp_path / "other", drill()[:55]).incidents
    assert (incident.end, incident.serve, incident.recover) == (None, 8, None)


@pytest.fixture(autouse=True)
def _another(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()


def test_busy_disks_that_do_nothing_have_stalled(tmp_path: Path) -> None:
    whole = found(tmp_path, drill(), disks=3)
    assert whole.busy == 3
    assert [(stall.disk.guest, stall.begin, stall.end) for stall in whole.stalls] == [
        (f"instance-{number:08x}", 20, 28) for number in range(3)
    ]


def test_a_stall_may_last_until_the_end(tmp_path: Path) -> None:
    [stall] = found(tmp_path, drill()[:26]).stalls
    assert (stall.begin, stall.end, stall.seconds) == (20, None, 6)


def test_unknown_seconds_are_no_stall(tmp_path: Path) -> None:
    seconds = drill()
    seconds[20:28] = [(None, state) for _, state in seconds[20:28]]
    assert found(tmp_path, seconds).stalls == ()


def test_peace_has_no_incident(tmp_path: Path) -> None:
    whole = found(tmp_path, [(100.0, status())] * 30)
    assert (whole.incidents, whole.stalls, whole.busy) == ((), (), 1)
    assert [each.span.phase for each in whole.figures] == [Phase.NORMAL]


def test_percentiles_weigh_each_reading_by_its_requests(tmp_path: Path) -> None:
    # 19 s with 100 requests of 1 ms, then 1 s with 60 of 2 ms: 60 of 1960 are 3 %.
    seconds: list[Second] = [*[(100.0, status())] * 19, (60.0, status()), (100.0, None)]
    [figures] = found(tmp_path, seconds).figures
    assert figures.latency == pytest.approx((0.001, 0.001, 0.002))
    assert figures.mean == pytest.approx((1900 * 0.001 + 60 * 0.002) / 1960)
    assert figures.slowest == pytest.approx(0.002)


def test_a_forecast_is_compared_by_what_lies_beyond_it(tmp_path: Path) -> None:
    whole = found(tmp_path, drill())
    told = {"detect": {"low": 6, "high": 10}, "degraded": {"low": 0.4, "high": 0.6}, "service": None,
            "iops_share": {"low": 0.8, "high": 0.9},
            "stale": {"low": 10, "high": 16}, "objects_sec": None, "clean": {"low": 7, "high": 7}}  # fmt: skip
    both = {
        one.figure: (round(one.measured, 3), round(one.error, 3))
        for one in compared([told], whole, whole.incidents[0])
    }
    assert both == {
        "detect": (7.2, 0), "degraded": (0.5, 0), "iops_share": (0.6, -0.25), "stale": (20, 0.25), "clean": (14, 1),
    }  # fmt: skip
    for damaged in ({}, [], [{}], [{**told, "clean": 1}]):
        with pytest.raises(UnreadableForecast, match="not the output of plimsoll forecast -f json"):
            compared(damaged, whole, whole.incidents[0])
