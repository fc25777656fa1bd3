"""Exports in logs of MDSs: lines as real daemons of each release wrote them, cut behind the path's states."""

from __future__ import annotations

import io

import pytest

from plimsoll_insight.mds import exports
from plimsoll_insight.mds.answers import Directory
from plimsoll_insight.mds.exports import LogExports, RankSpan
from plimsoll_insight.slow.events import LogClock

JEWEL = (
    "2016-08-21 06:45:21.870151 7fd03aaf7700  0 mds.0.migrator nicely exporting to mds.1 "
    "[dir 100000006ab /client-test2/ [2,head] auth pv=33 v=32 cv=32/0 ap=2+3+4"
)
PACIFIC = (
    "2026-11-30T09:53:47.479+0000 7fa7156136c0  7 mds.0.mig maybe_do_queued_export nicely exporting to mds.1 "
    "[dir 0x10000000005.110* /hot/d1/ [2,head] auth pv=53661 v=52867 cv=52865/48855 ap=400+1533"
)
STARTING = (
    "2026-11-30T09:53:47.481+0000 7fa7156136c0  4 mds.0.mig export_dir Starting export to mds.1 "
    "[dir 0x10000000005.110* /hot/d1/ [2,head] auth pv=53661 v=52867 cv=52865/48855 ap=400+1533"
)
OF_OTHERS = (
    "2026-11-30T09:53:47.487+0000 7f916b7fe6c0  7 mds.2.mig handle_export_discover #0x1/hot/d1",
    "2026-11-30T09:53:42.015+0000 7fa7156136c0  5 mds.0.bal try_rebalance    - exporting [pop IRD:[C 0.00e+00]",
    "2026-11-30T09:54:13.831+0000 7fa7156136c0  3 mds.0.mig export_finish [dir 0x10000000005.011* /hot/d1/ [2,head]",
)
QUIET = "2026-11-30T09:53:47.479+0000 7fa7156136c0  1 mds.b Updating MDS map to version 9 from mon.0"


def of(*lines: str) -> LogExports:
    return exports.read(io.BytesIO("\n".join(lines).encode() + b"\n"), LogClock())


@pytest.mark.parametrize(
    ("line", "time", "directory"),
    [
        (JEWEL, 1471761921.870151, Directory("/client-test2")),
        (PACIFIC, 1796032427.479, Directory("/hot/d1", "110")),
        (STARTING, 1796032427.481, Directory("/hot/d1", "110")),
        (f"Nov 30 09:53:47 host ceph-mds[812]: {STARTING}", 1796032427.481, Directory("/hot/d1", "110")),
        (f"  -42> {STARTING}", 1796032427.481, Directory("/hot/d1", "110")),
        (STARTING.replace("/hot/d1/", "/a b [2/"), 1796032427.481, Directory("/a b [2", "110")),
        (STARTING.replace("0x10000000005.110* /hot/d1/", "0x1 /"), 1796032427.481, Directory("/")),
    ],
)
def test_an_export_is_read_in_each_dialect_and_around_it(line: str, time: float, directory: Directory) -> None:
    [move] = of(line).moves
    assert (move.source, move.target, move.directory) == (0, 1, directory)
    assert move.time == pytest.approx(time, abs=0.001)


def test_one_export_counts_once_though_a_log_has_two_lines_of_it_and_a_crash_both_again() -> None:
    later = STARTING.replace("09:53:47", "09:55:47")
    read = of(PACIFIC, STARTING, *OF_OTHERS, f" -2> {PACIFIC}", f" -1> {STARTING}", later)
    assert [round(move.time) for move in read.moves] == [1796032427, 1796032547]


@pytest.mark.parametrize(
    ("line", "tells"), [(QUIET, False), (OF_OTHERS[0], True), (JEWEL[:43] + "mds.0.7 handle_mds_map", True)]
)
def test_a_log_whose_level_is_too_low_for_exports_is_not_one_without_exports(line: str, tells: bool) -> None:
    read = of(line)
    assert (read.moves, read.is_of_mds, read.tells) == ((), True, tells)


def test_a_line_that_ends_in_another_block_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    for size in (60, 150, 4096):
        monkeypatch.setattr(exports, "_BLOCK", size)
        assert len(of(QUIET, PACIFIC, QUIET, PACIFIC.replace("mds.1", "mds.2")).moves) == 2


@pytest.mark.parametrize("prefix", ["", "Nov 30 09:53:47 host ceph-mds[812]: "])
def test_of_several_ranks_that_a_daemon_was_the_last_one_counts_from_its_first_line_on(
    monkeypatch: pytest.MonkeyPatch, prefix: str
) -> None:
    lines = [
        f"{prefix}2026-11-30T09:53:{second}.5+0000 7fa715  4 mds.{rank}.9 said by mds.7.9 "
        for second, rank in enumerate((1, 0, 1, 1, 1), 10)
    ]
    for size in (60, 150, 4096):
        monkeypatch.setattr(exports, "_BLOCK", size)
        assert of(*lines, QUIET).last == RankSpan(1, 1796032392.5, 1796032394.5)
    assert of(QUIET).last is None
