"""Stalls: nothing completes in them, what waited is counted, and the request that ended one is at its end."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import zstandard
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from plimsoll_agent.errors import UsageError
from plimsoll_agent.util.frozen import replace
from plimsoll_insight.hist.flows import FlowWindows, of_histogram
from plimsoll_insight.hist.percentiles import Latency, PercentileInterval
from plimsoll_insight.hist.scale import Scale
from plimsoll_insight.hist.study import IntervalRow, Rows, StudyPart, stalls, study
from plimsoll_insight.hist.timeline import Clock, Timeline
from plimsoll_probes.model.histogram import Histogram
from tests import depth
from tests.unit.insight.hist.fiolog import Request, bucket, fio_log
from tests.unit.insight.hist.test_exact import FRACTIONS, looked, parts_of

MS = 10**6
DEPTH = 4


def a_stall(begin_s: float, end_s: float, until_s: int) -> list[Request]:
    """Four requests at a time of 10 ms each, and four that wait through the stall."""
    requests = []
    for lane in range(DEPTH):
        now = lane * MS
        while now < until_s * 1000 * MS:
            stalled = now < begin_s * 1e9 <= now + 10 * MS
            latency = int(end_s * 1e9) + lane * MS - now if stalled else 10 * MS
            requests.append(Request(now, latency))
            now += latency
    return requests


@pytest.fixture
def stalled(tmp_path: Path) -> list[PercentileInterval]:
    (tmp_path / "a_clat_hist.1.log").write_text(fio_log(a_stall(20.2, 32.5, 60), 5000))
    return looked(tmp_path, 1000)


def test_in_a_stall_nothing_completed_and_all_waited(stalled: list[PercentileInterval]) -> None:
    inside = stalled[21:32]
    assert [each.completed for each in inside] == [0] * 11
    assert all(each.is_stalled for each in inside)
    # The interval in which a request completed is known, not when: so the begin of its wait is less sharp.
    assert [each.waiting for each in inside[2:]] == pytest.approx([DEPTH] * 9, abs=0.1)


def test_before_and_after_a_stall_requests_completed_as_they_did(stalled: list[PercentileInterval]) -> None:
    for each in stalled[2:18] + stalled[38:50]:
        assert each.completed == pytest.approx(400, rel=0.05)
        assert each.waiting == pytest.approx(DEPTH, rel=0.05)


def test_who_waited_through_the_stall_completed_at_its_end(stalled: list[PercentileInterval]) -> None:
    slowest = stalled[32].slowest
    assert slowest is not None
    assert slowest.lower <= 12.31e9
    assert (slowest.upper or 0) >= 12.29e9
    assert all(each.slowest.middle < 20 * MS for each in stalled[:19] if each.slowest)


def test_a_stall_is_told_once_from_its_begin_to_its_end(stalled: list[PercentileInterval]) -> None:
    [run] = stalls([IntervalRow(None, each) for each in stalled])
    assert (run[0].begin_ms, run[-1].end_ms) == (21_000, 32_000)


def test_a_stall_that_fills_no_interval_is_told_as_nearly_one(tmp_path: Path) -> None:
    (tmp_path / "a_clat_hist.1.log").write_text(fio_log(a_stall(20.2, 32.5, 60), 5000))
    found = [IntervalRow(None, each) for each in looked(tmp_path, 10_000)]
    assert not any(row.interval.is_stalled for row in found)
    [run] = stalls(found)
    assert [(each.begin_ms, each.end_ms) for each in run] == [(20_000, 30_000)]
    assert 0 < run[0].completed < 0.05 * 4000
    assert run[0].waiting > DEPTH / 2


def test_few_requests_that_no_client_waits_for_are_no_stall(tmp_path: Path) -> None:
    requests = [Request(each * 10 * MS, MS) for each in range(2000)]
    requests += [Request((20_000 + each * 2000) * MS, MS) for each in range(5)]
    requests += [Request((30_000 + each * 10) * MS, MS) for each in range(1000)]
    (tmp_path / "a_clat_hist.1.log").write_text(fio_log(requests, 1000))
    found = [IntervalRow(None, each) for each in looked(tmp_path, 5000)]
    assert [round(row.interval.completed) for row in found][4:6] < [10, 10]
    assert stalls(found) == []


def test_a_time_without_requests_is_idle_and_no_stall(tmp_path: Path) -> None:
    requests = [Request(each * 10 * MS, MS) for each in [*range(500), *range(1500, 2500)]]
    (tmp_path / "a_clat_hist.1.log").write_text(fio_log(requests, 1000))
    found = looked(tmp_path, 1000)
    assert [each.completed for each in found[7:14]] == [0] * 7
    assert not any(each.is_stalled for each in found)


def test_what_took_longer_than_the_last_bucket_is_called_saturated(tmp_path: Path) -> None:
    (tmp_path / "a_clat_hist.1.log").write_text(fio_log(a_stall(20, 50, 90), 5000))
    found = looked(tmp_path, 5000)
    assert sum(each.saturated for each in found) == pytest.approx(DEPTH)
    last = found[10].slowest if found[10].slowest and found[10].slowest.upper is None else found[9].slowest
    assert last is not None
    assert last.upper is None
    assert last.middle == last.lower == pytest.approx(17.0457e9, rel=1e-4)


def row(end_ms: int, counts: dict[int, int], direction: int = 0) -> str:
    columns = [str(counts.get(each, 0)) for each in range(1856)]
    return f"{end_ms}, {direction}, 4096, {', '.join(columns)}\n"


FAST, LAST = bucket(MS, 1856), 1855


def test_a_stall_longer_than_the_last_bucket_is_a_stall_from_its_begin(tmp_path: Path) -> None:
    """Eight requests at a time; the OSD stopped from 10 s to 70 s."""
    before = "".join(row(second * 1000, {FAST: 1000}) for second in range(1, 11))
    (tmp_path / "a_clat_hist.1.log").write_text(before + row(70_000, {LAST: 8}))
    found = looked(tmp_path, 5000)
    assert [each.completed for each in found] == [5000] * 2 + [0] * 11 + [8]
    assert [each.is_stalled for each in found] == [False] * 2 + [True] * 11 + [False]
    # The eight of a row of fio's last bucket, and 1000 a second of 1 ms before.
    assert [each.waiting for each in found] == pytest.approx([1] * 2 + [8] * 12, abs=0.02)


def test_who_is_logged_after_the_row_that_ended_a_long_stall_waited_as_long(tmp_path: Path) -> None:
    """As fio writes it: a row for each request until its intervals have caught up, then those that are left."""
    log = row(1000, {FAST: 1000}) + row(41_000, {FAST: 500, LAST: 1})
    log += row(41_000, {LAST: 1}) * 2 + row(42_000, {FAST: 1000, LAST: 4}) + row(43_000, {FAST: 1000})
    (tmp_path / "a_clat_hist.1.log").write_text(log)
    found = looked(tmp_path, 1000)
    assert [each.waiting for each in found[3:40]] == pytest.approx([7] * 37, abs=0.01)
    assert all(each.is_stalled for each in found[2:40])
    assert found[40].completed == 7
    assert [found[1].completed, found[41].completed, found[42].completed] == [500, 1000, 1000]


def test_a_long_stall_is_the_same_wherever_a_block_or_a_part_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = row(1000, {FAST: 1000}) + row(61_000, {FAST: 500, LAST: 1}) + row(61_000, {LAST: 1}) * 3
    (tmp_path / "a_clat_hist.1.log").write_text(log + row(62_000, {FAST: 1000}))
    whole = looked(tmp_path, 1000)
    assert all(each.is_stalled for each in whole[2:60])
    monkeypatch.setattr("plimsoll_insight.hist.records.BLOCK", 6000)
    assert looked(tmp_path, 1000) == whole
    monkeypatch.setattr("plimsoll_insight.hist.timeline.CELLS", 30 * 1856)
    assert [each.waiting for each in looked(tmp_path, 1000)] == pytest.approx([each.waiting for each in whole])


def test_the_first_interval_of_a_direction_begins_with_its_first_completion(tmp_path: Path) -> None:
    """A job whose first request ends at 20 s: fio writes the first row at 25 s."""
    log = "".join(row(end * 1000, {FAST: 5000}) for end in (25, 30, 35))
    (tmp_path / "a_clat_hist.1.log").write_text(log)
    assert [each.completed for each in looked(tmp_path, 5000)] == [0] * 4 + [5000] * 3
    reads = "".join(row(end * 1000, {FAST: 10}) for end in range(5, 25, 5))
    both = reads + row(25_000, {FAST: 5000}, 1) + row(25_000, {FAST: 10}) + row(30_000, {FAST: 70}, 1)
    (tmp_path / "a_clat_hist.1.log").write_text(both)
    assert [each.completed for each in looked(tmp_path, 5000, "write")] == [0] * 4 + [5000, 70]


def test_a_late_row_of_zeros_is_nothing(tmp_path: Path) -> None:
    log = row(1000, {FAST: 7}) + row(2000, {FAST: 7}) + row(40_000, {}) + row(41_000, {FAST: 7})
    (tmp_path / "a_clat_hist.1.log").write_text(log)
    assert sum(each.completed for each in looked(tmp_path, 1000)) == 21


def test_a_time_without_rows_has_intervals_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows in the first and the last part of the time, or of one direction in the first part only."""
    monkeypatch.setattr("plimsoll_insight.hist.timeline.CELLS", 60 * 1856)
    log = "".join(row(end * 1000, {FAST: 10}) for end in (1, 2, 3, 150, 151))
    (tmp_path / "a_clat_hist.1.log").write_text(log)
    assert [each.begin_ms for each in looked(tmp_path, 1000)] == [1000 * each for each in range(151)]
    log += row(1000, {FAST: 10}, 1) + row(2000, {FAST: 10}, 1)
    (tmp_path / "a_clat_hist.1.log").write_text(log)
    for direction in ("write", "all"):
        assert len(looked(tmp_path, 1000, direction)) == 151


def test_a_log_is_read_only_for_the_parts_of_the_time_that_it_is_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten logs of ten seconds each, one after the other."""
    monkeypatch.setattr("plimsoll_insight.hist.timeline.CELLS", 30 * 1856)
    for number in range(10):
        times = range(1_700_000_000 + 10 * number, 1_700_000_000 + 10 * number + 10)
        (tmp_path / f"{number}_clat_hist.1.log").write_text("".join(row(each * 1000, {FAST: 1}) for each in times))
    read = []

    def counted(part: StudyPart) -> StudyPart:
        return replace(part, flows=lambda *time: read.append(part.name) or part.flows(*time))

    asked = study([counted(part) for part in parts_of(tmp_path)], 1000, FRACTIONS, lambda *_: None)
    assert sum(each.interval.completed for each in asked.rows(None)) == 100
    # A part is of 11 s, and 19 s more: of four logs at most.
    assert max(read.count(name) for name in read) <= 4


def test_who_only_reads_has_a_row_of_all_where_others_have(tmp_path: Path) -> None:
    (tmp_path / "a_clat_hist.1.log").write_text(row(1000, {FAST: 10}))
    (tmp_path / "b_clat_hist.1.log").write_text(row(1000, {FAST: 10}) + row(1000, {FAST: 10}, 1))
    rows = study(parts_of(tmp_path), 1000, FRACTIONS, lambda *_: None).rows(lambda part: part.guest)
    assert [(each.whose, each.interval.direction, each.interval.completed) for each in rows] == [
        ("a", "read", 10), ("a", "all", 10),
        ("b", "read", 10), ("b", "write", 10), ("b", "all", 20),
        (None, "read", 20), (None, "write", 10), (None, "all", 30),
    ]  # fmt: skip


def test_a_guest_may_be_named_all(tmp_path: Path) -> None:
    for name in ("all", "b"):
        (tmp_path / f"{name}_clat_hist.1.log").write_text(row(1000, {FAST: 10}))
    asked = study(parts_of(tmp_path), 1000, FRACTIONS, lambda *_: None)
    rows = asked.rows(lambda part: part.guest)
    assert [(each.whose, each.interval.completed) for each in rows] == [("all", 10), ("b", 10), (None, 20)]


def test_a_share_of_a_saturated_request_is_saturated(tmp_path: Path) -> None:
    """A row of five seconds in intervals of one."""
    (tmp_path / "a_clat_hist.1.log").write_text("".join(row(end, {FAST: 5, LAST: 1}) for end in (5000, 10_000)))
    assert all(each.is_saturated for each in looked(tmp_path, 1000))


@pytest.mark.parametrize("width_ms", [1000, 100])
@pytest.mark.parametrize("latency_ms", [3, 150, 999, 1000, 2500, 12_345])
def test_waiting_is_the_time_that_requests_waited(latency_ms: int, width_ms: int) -> None:
    """Beside a sum over requests that end everywhere in one interval."""
    number = 30_000 // width_ms
    timeline = Timeline(Clock(0, width_ms, number), Scale(29, 0))
    timeline.add(of_histogram(0, 20_000, 20_000 + width_ms, Histogram.of([latency_ms * MS] * 100)))
    middle = timeline.scale.midpoints()[int(np.flatnonzero(timeline.done[0, 20_000 // width_ms])[0])] / MS
    expected = np.zeros(number)
    ends = 20_000 + (np.arange(20_000) + 0.5) * width_ms / 20_000
    for interval in range(number):
        inside = np.minimum(ends, (interval + 1) * width_ms) - np.maximum(ends - middle, interval * width_ms)
        expected[interval] = 100 * np.maximum(inside, 0).mean() / width_ms
    assert timeline.waiting(0) == pytest.approx(expected, abs=1e-3)
    assert timeline.waiting(0).sum() == pytest.approx(100 * middle / width_ms)


def test_intervals_that_are_short_beside_the_longest_latency_need_few_parts() -> None:
    """Each part is computed with a tail of 17.18 s, here 1720 intervals."""
    assert [wanted for _, wanted in Clock(0, 10, 9000).parts(Scale(29, 0), 2)] == [1720] * 5 + [400]


def test_parts_of_a_long_clock_are_as_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a_clat_hist.1.log").write_text(fio_log(a_stall(20, 32, 60), 5000))
    whole = looked(tmp_path, 1000)
    monkeypatch.setattr("plimsoll_insight.hist.timeline.CELLS", 30 * 1856)
    in_parts = looked(tmp_path, 1000)
    assert [each.begin_ms for each in in_parts] == [each.begin_ms for each in whole]
    assert [each.percentiles for each in in_parts] == [each.percentiles for each in whole]
    assert [each.waiting for each in in_parts] == pytest.approx([each.waiting for each in whole])


@st.composite
def logs(draw: st.DrawFn) -> str:
    """Coarse rows of three directions: gaps, stalls longer than the last bucket, times out of order."""
    rows, has_slow = [], False
    for direction in draw(st.sets(st.integers(0, 2), min_size=1)):
        now = draw(st.sampled_from([0, 1000, 90_000, 1_700_000_000_000]))
        for _ in range(draw(st.integers(1, 12))):
            now += draw(st.sampled_from([0, 1000, 1000, 1000, 1700, 20_000, 70_000, -5000]))
            counts = draw(st.dictionaries(st.sampled_from([0, 20, 27, 28]), st.integers(1, 9)))
            has_slow |= max(counts, default=0) >= 20
            columns = ", ".join(str(counts.get(each, 0)) for each in range(29))
            rows.append((max(now, 0), f"{max(now, 0)}, {direction}, 4096, {columns}\n"))
    assume(has_slow)  # else a row without a count is of a fio that left out what was slow
    mixed = draw(st.booleans())
    return "".join(text for _, text in (sorted(rows) if mixed else rows))


@settings(max_examples=depth.examples(60))
@given(logs(), st.sampled_from([100, 300, 1000]), st.sampled_from(["", ".gz", ".zst"]))
def test_any_log_is_in_parts_as_it_is_whole(text: str, block: int, suffix: str) -> None:
    packed = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress}[suffix]
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        Path(directory, f"a_clat_hist.1.log{suffix}").write_bytes(packed(text.encode()))
        [part] = parts_of(Path(directory))
        assume(part.end_ms - part.begin_ms < 400 * 1000)

        def rows() -> list[tuple[object, ...]]:
            asked = study([part], 1000, FRACTIONS, lambda *_: None)
            return [
                (each.begin_ms, each.direction, *each.percentiles, pytest.approx(each.waiting, abs=1e-6))
                for each in (row.interval for row in asked.rows(None))
            ]

        patch.setattr("plimsoll_insight.hist.records.BLOCK", block)
        whole = rows()
        patch.setattr("plimsoll_insight.hist.timeline.CELLS", 100 * 29)
        assert rows() == whole
        assert rows() == whole, "from the beginning again"


@pytest.mark.parametrize("stalls", [(), (80, 200)])
def test_in_any_number_of_parts_a_log_is_parsed_once_but_for_their_borders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stalls: tuple[int, ...]
) -> None:
    """300 s of a row each second. A part is of 31 s, and 19 s more."""
    monkeypatch.setattr("plimsoll_insight.hist.timeline.CELLS", 50 * 1856)
    monkeypatch.setattr("plimsoll_insight.hist.records.BLOCK", 6000)
    times = [each for each in range(1, 301) if not any(begin < each < begin + 9 for begin in stalls)]
    (tmp_path / "a_clat_hist.1.log").write_text("".join(row(each * 1000, {FAST: 1}) for each in times))
    [part] = parts_of(tmp_path)
    read = 0

    def counted(*time: float) -> Iterator[FlowWindows]:
        nonlocal read
        for flow in part.flows(*time):
            read += len(flow.end_ms)
            yield flow

    asked = study([replace(part, flows=counted)], 1000, FRACTIONS, lambda *_: None)
    assert sum(each.interval.completed for each in asked.rows(None)) == len(times)
    assert read < 2 * len(times)


def test_a_row_of_the_result_takes_little_memory() -> None:
    """A day at one second has 86,400 of each direction."""
    scale = Scale(29, 0)
    told = [
        PercentileInterval(
            begin_ms=each * 1000.0,
            end_ms=each * 1000.0 + 1000,
            direction="write",
            completed=7,
            percentiles=(Latency(64, 65), None),
            slowest=Latency(96, 97),
            saturated=0,
            waiting=0.5,
        )
        for each in range(100)
    ]
    rows = Rows(Clock(0, 1000, 10_000), scale, 2)
    tracemalloc.start()
    try:
        for _ in range(100):
            rows.add(None, told)
        assert tracemalloc.get_traced_memory()[0] < 100 * 10_000
    finally:
        tracemalloc.stop()
    assert [row.interval for row in rows] == told * 100


def test_more_rows_than_fit_into_memory_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plimsoll_insight.hist.study.MOST_ROWS", 25)
    for name in "ab":
        (tmp_path / f"{name}_clat_hist.1.log").write_text(row(10_000, {FAST: 10}))
    asked = study(parts_of(tmp_path), 1000, FRACTIONS, lambda *_: None)
    assert len(list(asked.rows(None))) == 10
    with pytest.raises(UsageError, match="--interval: 30 rows are too many, at most 25"):
        asked.rows(lambda part: part.guest)


def test_intervals_so_short_that_a_part_does_not_fit_into_memory_are_refused(tmp_path: Path) -> None:
    for direction, name in enumerate("ab"):
        (tmp_path / f"{name}_clat_hist.1.log").write_text(row(60_000, {FAST: 10}, direction))
    with pytest.raises(UsageError, match="--interval: 2 ms takes too much memory with logs this fine"):
        study(parts_of(tmp_path), 2, FRACTIONS, lambda *_: None).rows(None)
