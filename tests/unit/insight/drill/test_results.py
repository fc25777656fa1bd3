"""What a drill cost: figures counted by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from plimsoll_insight.drill.comparison import UnreadableForecast, compare
from plimsoll_insight.drill.phases import DrillPhase
from plimsoll_insight.drill.recording import (
    DrillSample,
    ProbeJob,
    Recording,
    RecordingWriter,
    job_line,
    merge,
    read,
    sample_line,
)
from plimsoll_insight.drill.results import Results, results
from plimsoll_probes.model.histogram import bucket_of
from tests.unit.insight.drill.recorded import BEGAN, Second, drill, lines, status, write


def found(path: Path, seconds: list[Second], disks: int = 1, *, end: bool = True) -> Results:
    write(path / "drill", seconds, disks, end=end)
    return results(read(path / "drill"))


def test_phases_have_their_iops_latencies_and_costs(tmp_path: Path) -> None:
    whole = found(tmp_path, drill())
    by_phase = {each.span.phase: each for each in whole.figures[:-1]}
    assert whole.phases.normal == pytest.approx(100)
    assert by_phase[DrillPhase.DEGRADED].iops == pytest.approx(110)
    assert by_phase[DrillPhase.DEGRADED].change == pytest.approx(0.1)
    assert by_phase[DrillPhase.OUTAGE].change == pytest.approx(-1)
    assert by_phase[DrillPhase.RECOVERY].latency == pytest.approx((0.002, 0.002, 0.002))
    assert by_phase[DrillPhase.OUTAGE].peering == 0
    # 16 placement groups for 4 s, and 20 copies for 10 s; a status is 0.2 s into its second.
    assert by_phase[DrillPhase.RETURN].peering == pytest.approx(16 * 3.8)
    assert by_phase[DrillPhase.RECOVERY].degraded == pytest.approx(20 * 9.8, rel=0.01)


def test_an_incident_has_its_times_and_sums(tmp_path: Path) -> None:
    [incident] = found(tmp_path, drill()).incidents
    assert (incident.begin, incident.end) == (20, 62)
    assert incident.detect == pytest.approx(7.2)
    assert incident.serve == 8
    assert incident.recover == 14
    assert incident.peering == incident.inactive == pytest.approx(16 * 4)
    # For 3 s both answers have 16; 1 s before, 1 s after and 1 s in which 16 fall out of sync may have had them, too.
    assert incident.peering_range == pytest.approx((16 * 3, 16 * 6))
    assert incident.degraded == pytest.approx(50 * 20 + 20 * 9.8)
    assert (incident.share, incident.stale, incident.unknown) == (0.5, 20, pytest.approx(0))


@pytest.mark.parametrize("ends_at", [49, 50, 52])
def test_the_impact_score_is_in_its_range_where_the_recording_ends_within_it(tmp_path: Path, ends_at: int) -> None:
    [incident] = found(tmp_path, drill()[:ends_at], end=False).incidents
    assert incident.peering is not None
    assert incident.peering_range is not None
    least, most = incident.peering_range
    assert 0 <= least <= incident.peering <= most
    assert most >= 16


def test_what_the_cluster_did_not_answer_is_unknown_and_in_no_sum(tmp_path: Path) -> None:
    seconds = drill()
    seconds[35:45] = [(rate, None) for rate, _ in seconds[35:45]]
    whole = found(tmp_path, seconds)
    [incident] = whole.incidents
    # The status of second 34 counts for three seconds.
    assert incident.unknown == pytest.approx(8)
    assert whole.unknown == pytest.approx(8)
    assert incident.degraded == pytest.approx(50 * 12 + 20 * 9.8)


def test_an_incident_of_which_the_cluster_told_nothing_has_no_sums(tmp_path: Path) -> None:
    silent: list[Second] = [(rate, None) for rate, _ in drill()[:28]]
    for path, seconds in (
        (tmp_path, silent),
        (tmp_path / "other", [*drill()[:19], *silent[19:]]),  # it answered until just before
    ):
        whole = found(path, seconds, end=False)
        [incident] = whole.incidents
        assert incident.unknown > 0
        assert (incident.peering, incident.peering_range, incident.inactive, incident.degraded) == (None,) * 4
        assert (whole.figures[-1].peering, whole.figures[-1].degraded) == (None, None)


@pytest.mark.parametrize(("normal", "has_ceph", "sees"), [(20, False, True), (3, True, True), (3, False, False)])
def test_without_the_cluster_and_normal_seconds_no_incident_would_be_seen(
    tmp_path: Path, normal: int, has_ceph: bool, sees: bool
) -> None:
    seconds: list[Second] = [
        (rate, state if has_ceph else None) for rate, state in drill(normal=normal)[: normal + 8]
    ]
    whole = found(tmp_path, seconds, end=False)
    assert (whole.sees_incidents, bool(whole.incidents)) == (sees, sees)


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


def test_a_disk_that_is_gone_has_not_stalled_and_may_come_back(tmp_path: Path) -> None:
    write(tmp_path / "drill", [], 2, end=False)
    writer = RecordingWriter.more(tmp_path / "drill")
    seconds = drill(outage=2, degraded=40)
    for (time, line), (_, of_one) in zip(lines(seconds, 2), lines(seconds, 1), strict=True):
        if time == 26:
            writer.write(BEGAN + time, {"gone": [1, 7]})
        if time == 36:
            writer.write(BEGAN + time, {"disk": [1, "instance-1", "uuid", "vda"]})
        writer.write(BEGAN + time, of_one if 26 <= time < 36 else line)
    whole = results(read(tmp_path / "drill"))
    assert (whole.busy, whole.stalls, whole.recording.damaged) == (2, (), 0)
    assert np.flatnonzero(~whole.seconds.known[1]).tolist() == [*range(25, 35)]
    assert whole.seconds.known[0].all()


def test_peace_has_no_incident(tmp_path: Path) -> None:
    whole = found(tmp_path, [(100.0, status())] * 30)
    assert (whole.incidents, whole.stalls, whole.busy) == ((), (), 1)
    assert [each.span.phase for each in whole.figures] == [DrillPhase.NORMAL]


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
        for one in compare([told], whole, whole.incidents[0])
    }
    assert both == {
        "detect": (7.2, 0), "degraded": (0.5, 0), "iops_share": (0.6, -0.25), "stale": (20, 0.25), "clean": (14, 1),
    }  # fmt: skip
    for damaged in ({}, [], [{}], [{**told, "clean": 1}]):
        with pytest.raises(UnreadableForecast, match="not the output of plimsoll forecast -f json"):
            compare(damaged, whole, whole.incidents[0])


def part(path: Path, uuid: str, begin: int, end: int, *, ceph: bool) -> Recording:
    """Of the drill from second ``begin`` until ``end``, with a disk of this guest."""
    writer = RecordingWriter.begin(path, BEGAN + begin, f"node-{uuid}", 1.0)
    writer.write(BEGAN + begin, {"disk": [0, f"instance-{uuid}", uuid, "vda"]})
    writer.write(
        BEGAN + begin,
        sample_line(DrillSample(time=BEGAN, numbers=[], ends=[], seconds=[], requests=[], latency=[], unknown=[])),
    )
    for time, line in lines(drill(), 1):
        if begin < time <= end and (ceph or "disks" in line):
            writer.write(BEGAN + time, line)
    writer.write(BEGAN + end, {"end": "over"})
    return read(path)


def test_recordings_of_several_nodes_are_one_drill(tmp_path: Path) -> None:
    both = [part(tmp_path / uuid, uuid, 0, 82, ceph=uuid == "a") for uuid in ("a", "b")]
    whole, one = results(merge(both)), results(both[0])
    assert whole.phases.normal == pytest.approx(200)
    assert whole.phases.spans == one.phases.spans
    assert (whole.busy, {stall.disk.uuid for stall in whole.stalls}) == (2, {"a", "b"})
    assert whole.incidents == one.incidents
    assert whole.recording.node == "node-a, node-b"


def test_a_recording_that_goes_on_in_a_second_file_is_one_drill(tmp_path: Path) -> None:
    """Between them nothing is known."""
    parts = (("1", (0, 40)), ("2", (43, 82)))
    whole = results(merge([part(tmp_path / name, "a", *of, ceph=True) for name, of in parts]))
    assert len(whole.recording.disks) == 1
    assert whole.phases.spans == found(tmp_path, drill()).phases.spans
    assert np.flatnonzero(np.isnan(whole.seconds.iops)).tolist() == [40, 41, 42]


def test_a_node_that_was_not_recorded_leaves_what_all_did_unknown(tmp_path: Path) -> None:
    both = [part(tmp_path / "a", "a", 0, 82, ceph=True), part(tmp_path / "b", "b", 0, 30, ceph=False)]
    seconds = results(merge(both)).seconds
    assert np.isnan(seconds.iops).tolist() == [False] * 30 + [True] * 52
    assert seconds.known.sum(axis=1).tolist() == [82, 30]


def test_probes_count_for_the_phase_in_which_the_middle_of_their_job_is(tmp_path: Path) -> None:
    write(tmp_path / "drill", drill(), end=False)
    writer = RecordingWriter.more(tmp_path / "drill")
    slow, fast = bucket_of(9_000_000_000), bucket_of(2_000_000)
    for begin, end, buckets in ((10, 15, ((fast, 100),)), (16, 29, ((fast, 2), (slow, 1))), (29, 34, ((fast, 9),))):
        probed = ProbeJob(
            began=BEGAN + begin, ended=BEGAN + end, guest="instance-1", latency=buckets, slowest=9_100_000_000
        )
        writer.write(probed.ended, job_line(probed))
    whole = results(read(tmp_path / "drill"))
    found = {each.span.phase: each.probed for each in whole.figures[:-1]}
    assert found[DrillPhase.NORMAL] == found[DrillPhase.DEGRADED] == pytest.approx(0.002, rel=0.02)
    assert found[DrillPhase.OUTAGE] == pytest.approx(9, rel=0.02)
    assert found[DrillPhase.RECOVERY] is None
