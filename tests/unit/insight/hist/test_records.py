"""Rows of histogram logs: each form that they have had, damaged ones, and where blocks end."""

from __future__ import annotations

import io
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll_insight.hist import records
from plimsoll_insight.hist.records import RecordReader, Unread
from plimsoll_insight.hist.scale import SCALES
from tests import depth

COLUMNS = sorted(SCALES)
Row = tuple[int, int, dict[int, int], int]


def text(row: Row, separator: str = ", ") -> str:
    time, direction, counts, columns = row
    return separator.join(map(str, [time, direction, 4096, *(counts.get(each, 0) for each in range(columns))]))


def read(data: bytes) -> tuple[list[Row], Unread]:
    reader, found = RecordReader(io.BytesIO(data)), []
    for part in reader:
        for number, (time, direction) in enumerate(zip(part.time_ms, part.direction, strict=True)):
            mine = part.row == number
            counts = dict(zip(part.column[mine].tolist(), part.count[mine].tolist(), strict=True))
            found.append((int(time), int(direction), counts, part.scale.columns))
    return found, reader.unread


@st.composite
def rows(draw: st.DrawFn) -> Row:
    columns = draw(st.sampled_from(COLUMNS))
    counts = draw(st.dictionaries(st.integers(0, columns - 1), st.integers(1, 2**40), max_size=12))
    return draw(st.integers(0, records.LATEST_MS)), draw(st.integers(0, 2)), counts, columns


@settings(max_examples=depth.examples(120))
@given(st.lists(rows(), max_size=8), st.sampled_from([", ", ",", ",  "]), st.sampled_from(["\n", "\r\n"]),
       st.integers(1, 5000))  # fmt: skip
def test_every_row_is_read_however_it_is_separated_and_wherever_a_block_ends(
    told: list[Row], separator: str, end: str, block: int
) -> None:
    data = "".join(f"{text(row, separator)}{end}" for row in told).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "BLOCK", block)
        assert read(data) == (told, Unread())


ROW: Row = (5000, 1, {0: 7, 12: 130, 28: 1}, 29)


@pytest.mark.parametrize(
    "bad",
    [
        "fio: io_u error on file /dev/vdb: Input/output error",
        "",
        text(ROW).replace("130", "13x0"),
        text(ROW).replace("130", "-130"),
        text(ROW).replace(", 0, 0, 130", ", 00, 0, 130, 1"),
        text(ROW).replace(", 0, 0, 130", ", 0, x, 130"),
        text(ROW) + ", 0",
        text(ROW).rpartition(",")[0],
        text((5000, 3, {}, 29)),
        text((9_999_999_999_999_999, 0, {}, 29)),
        text(ROW).replace("5000", "-5000"),
        text(ROW).replace("130", "9" * 40),
        text(ROW).replace("130", "٣"),
        "1" * 2_000_000,
    ],
)
def test_a_line_that_is_no_row_is_left_out_counted_and_named(bad: str) -> None:
    data = f"{text(ROW)}\n{bad}\n{text(ROW)}\n".encode()
    assert read(data) == ([ROW, ROW], Unread(lines=1, first=2))


def test_the_line_that_is_named_is_the_first_also_in_a_later_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "BLOCK", 100)
    data = f"{text(ROW)}\n" * 9 + "bad\n" + f"{text(ROW)}\n" * 3 + "bad\n"
    assert read(data.encode())[1] == Unread(lines=2, first=10)


def test_a_last_line_without_an_end_may_lack_digits_and_is_left_out() -> None:
    assert read(f"{text(ROW)}\n{text(ROW)}".encode()) == ([ROW], Unread(incomplete=True))


def test_a_line_that_is_too_long_is_one_line_wherever_blocks_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "LONGEST", 5000)
    monkeypatch.setattr(records, "BLOCK", 512)
    long = "1" * 20_000 + ", " + text(ROW)
    assert read(f"{text(ROW)}\n{long}\nbad\n{text(ROW)}\n".encode()) == ([ROW, ROW], Unread(lines=2, first=2))


def test_lines_too_short_for_a_row_are_counted_between_rows() -> None:
    data = f"\n\n{text(ROW)}\n1, 2, 3, 7\n{text(ROW)}\n{text(ROW)[:-1]}x\n5\n"
    assert read(data.encode()) == ([ROW, ROW], Unread(lines=5, first=1))


def test_millions_of_empty_lines_take_no_memory_for_each() -> None:
    tracemalloc.start()
    try:
        assert read(b"\n" * (8 << 20))[1] == Unread(lines=8 << 20, first=1)
        assert tracemalloc.get_traced_memory()[1] < 50 << 20
    finally:
        tracemalloc.stop()


def test_a_file_without_lines_has_no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(b"") == ([], Unread())
    monkeypatch.setattr(records, "LONGEST", 1000)
    monkeypatch.setattr(records, "BLOCK", 512)
    assert read(b"0" * 5000)[1].lines > 0


def test_counts_of_a_full_row_are_in_their_columns() -> None:
    full = {each: 10**11 + each for each in range(1856)}
    assert read(f"{text((1, 2, full, 1856))}\n".encode())[0] == [(1, 2, full, 1856)]
