"""``plimsoll hist`` on a real log, as a person sees it and as a program reads it."""

from __future__ import annotations

import csv
import gzip
import html
import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.functional.conftest import Ran

SAMPLES = Path(__file__).parents[1] / "unit" / "data" / "fio-hist"
"""Four jobs of one guest, 90 s of which one OSD was stopped."""


def test_the_stall_of_a_stopped_osd_is_in_the_table_and_below_it(plimsoll: Callable[..., Ran]) -> None:
    ran = plimsoll("hist", str(SAMPLES))
    assert (ran.status, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert " ".join(lines[0].split()) == "BEGIN DIRECTION REQUESTS IOPS P50 P95 P99 P99.9 SLOWEST WAITING STATE"
    stalled = [line.split()[0] for line in lines if line.endswith("  stalled") and " all " in line]
    assert stalled == ["25", "35"]
    numbers = {cells[0]: int(cells[3]) for line in lines if (cells := line.split())[2:3] == ["all"]}
    assert (numbers["25"], numbers["35"]) == (0, 0)
    assert 0 < numbers["20"] < numbers["15"] / 20
    few = sum(numbers[begin] for begin in ("20", "25", "30", "35"))
    assert f"Stalled: only {few} requests completed from 20 s to 40 s; up to 8 waited." in lines


def test_a_longer_interval_does_not_hide_that_stall(plimsoll: Callable[..., Ran]) -> None:
    lines = plimsoll("hist", str(SAMPLES), "--interval", "10s").out.splitlines()
    states = {line.split()[0]: line.split()[-2:] for line in lines if " all " in line}
    assert [begin for begin, words in states.items() if words == ["nearly", "stalled"]] == ["20", "30"]
    (sentence,) = (line for line in lines if "tall" in line and "completed from" in line)
    assert re.fullmatch(r"Nearly stalled: only \d+ requests completed from 20 s to 40 s; up to 8 waited\.", sentence)


def test_counts_are_those_of_the_logs(plimsoll: Callable[..., Ran]) -> None:
    lines = plimsoll("hist", str(SAMPLES)).out.splitlines()
    # awk counts as many in the four logs.
    assert any(line.startswith("52613 requests in 4 logs; percentiles are within 0.78 %") for line in lines)
    assert any(line.startswith("fio never logs its last interval: up to 5 s") for line in lines)


def test_programs_are_given_seconds_and_nothing_for_what_is_unknown(plimsoll: Callable[..., Ran]) -> None:
    rows = json.loads(plimsoll("hist", str(SAMPLES), "-f", "json").out)
    stalled = next(row for row in rows if row["state"] == "stalled")
    assert (stalled["p99"], stalled["slowest"], stalled["requests"]) == (None, None, 0)
    assert sum(row["requests"] for row in rows if row["direction"] == "all") == pytest.approx(52_613, abs=0.1)
    assert all(0.0001 < row["p50"] < 20 for row in rows if row["p50"] is not None)
    assert sum(row["saturated"] for row in rows if row["direction"] == "all") == pytest.approx(7, abs=0.01)


def test_rows_by_group_and_their_sum(plimsoll: Callable[..., Ran]) -> None:
    chosen = ("--group", "odd=*.[13].log.gz", "--interval", "2m", "--percentiles", "50,99.99")
    ran = plimsoll("hist", str(SAMPLES), *chosen, "-f", "csv")
    rows = [row for row in csv.DictReader(io.StringIO(ran.out)) if row["direction"] == "all"]
    assert [row["group"] for row in rows] == ["odd", "others", ""]
    assert "p99.99" in rows[0]
    counts = [float(row["requests"]) for row in rows]
    assert counts[0] + counts[1] == pytest.approx(counts[2])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "give files or directories, or --probes, and not both"),
        (("nowhere",), "nowhere: no such file"),
        ((str(SAMPLES), "--percentiles", "50;99"), "--percentiles 50;99: write numbers with commas between them"),
        ((str(SAMPLES), "--percentiles", "0"), "--percentiles 0: up to 20 numbers above 0 and up to 100"),
        ((str(SAMPLES), "--interval", "soon"), "--interval:"),
        ((str(SAMPLES), "--group", "gold"), "--group gold: write NAME=VALUE"),
        ((str(SAMPLES), "--interval", "1s", "--offset", "*.1.log.gz=90d"), "intervals are too many"),
        (("--probes", "1d"), "no probe completed a request since then"),
    ],
)
def test_a_wrong_word_is_one_line_and_status_64(
    plimsoll: Callable[..., Ran], words: tuple[str, ...], sentence: str
) -> None:
    ran = plimsoll("hist", *words)
    assert (ran.status, ran.out) == (64, "")
    assert sentence in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("name", "text"), [
        ("a_clat_hist.1.log", "no row\n"), ("a.json", '{"jobs": []}'), ("a_clat_hist.1.log.fz", "x"),
        ("a_clat_hist.1.log", f"1000, 0, 4096, {', '.join(['0'] * 29)}\n"),
    ],
)  # fmt: skip
def test_a_file_without_histograms_cannot_tell(
    plimsoll: Callable[..., Ran], tmp_path: Path, name: str, text: str
) -> None:
    """That is neither an idle disk, status 0, nor a file that cannot be read, 1."""
    (tmp_path / name).write_text(text)
    ran = plimsoll("hist", str(tmp_path / name))
    assert (ran.status, ran.out, len(ran.err.splitlines())) == (5, "", 1)


def test_logs_of_two_kinds_of_clocks_are_refused(plimsoll: Callable[..., Ran], tmp_path: Path) -> None:
    row = ", ".join(["1", *["0"] * 28])
    (tmp_path / "a_clat_hist.1.log").write_text(f"1000, 0, 4096, {row}\n")
    (tmp_path / "b_clat_hist.1.log").write_text(f"1700000000000, 0, 4096, {row}\n")
    ran = plimsoll("hist", str(tmp_path))
    assert ran.status == 64
    assert "no clock in common" in ran.err


def test_what_was_left_out_is_told(plimsoll: Callable[..., Ran], tmp_path: Path) -> None:
    row = ", ".join(["1"] * 29)
    (tmp_path / "a_clat_hist.1.log").write_text(f"fio: error\n1000, 0, 4096, {row}\n2000, 0, 40")
    lines = plimsoll("hist", str(tmp_path)).out.splitlines()
    assert "1 log ended in the middle of a line, which is left out." in lines
    assert any(
        line.endswith("a_clat_hist.1.log: 1 line not understood and left out, the first is line 1.") for line in lines
    )


@pytest.mark.parametrize(("kind", "begin"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".html", b"<!DOCTYPE html>")])
def test_percentiles_and_a_heat_map_are_drawn(
    plimsoll: Callable[..., Ran], tmp_path: Path, kind: str, begin: bytes
) -> None:
    path = tmp_path / f"hist{kind}"
    ran = plimsoll("hist", str(SAMPLES), "--plot", str(path))
    assert ran.status == 0, ran.err
    assert ran.out.splitlines()[-1] == f"Drawn: {path}"
    assert path.read_bytes().startswith(begin)
    if kind == ".svg":
        assert path.read_text().count("IOPS; grey: stalled") == 2, "of reads and of writes"
    if kind == ".html":
        stalled = "<h1>Stalled once, for 20 s: only 53 requests completed</h1>"
        assert f'{stalled}\n<p class="subject">Latency over time, 4 logs</p>' in path.read_text()
        assert path.read_text().count("latency and IOPS over time, and a heat map") >= 2, "reads and writes"
        table = re.sub("<[^>]+>", " ", path.read_text().partition("<h2>Intervals</h2>")[2])
        of_all = [line.split() for line in ran.out.splitlines() if re.match(r" *\d+ s  all ", line)]
        assert [line.split() for line in html.unescape(table).split("\n") if " s " in line] == [
            [begin, "s", *rest] for begin, _, _, *rest in of_all
        ], "reads and writes together, as the list has them"


def test_a_page_without_a_stall_says_so_with_what_the_slowest_took(
    plimsoll: Callable[..., Ran], tmp_path: Path
) -> None:
    row = ", ".join(["1"] * 29)
    (tmp_path / "a_clat_hist.1.log").write_text("".join(f"{at}, 0, 4096, {row}\n" for at in (1000, 2000)))
    page = tmp_path / "page.html"
    assert plimsoll("hist", str(tmp_path), "--plot", str(page)).status == 0
    assert re.search(r"<h1>No stall of an interval; read p99\.9 [^,]+</h1>", page.read_text())


@pytest.mark.parametrize(
    ("name", "more", "sentence"),
    [
        ("hist.gif", (), "the name must end with .png, .svg, .html"),
        ("", (), "the name must end with .png, .svg, .html"),
        ("hist.png", ("--interval", "1s", "--offset", "*.1.log.gz=1h"), "are more than a screen can show"),
    ],
)
def test_what_cannot_be_drawn_is_one_line(
    plimsoll: Callable[..., Ran], tmp_path: Path, name: str, more: tuple[str, ...], sentence: str
) -> None:
    ran = plimsoll("hist", str(SAMPLES), "--plot", str(tmp_path / name), *more)
    assert ran.status == 64
    assert sentence in ran.err


def a_row(end_ms: int) -> str:
    return f"{end_ms}, 0, 4096, {', '.join(['1'] * 29)}\n"


def test_damaged_logs_are_named_and_the_others_are_counted(plimsoll: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "a_clat_hist.1.log").write_text(a_row(1000))
    packed = gzip.compress(b"".join(a_row(each).encode() for each in range(1000, 9_000_000, 1000)))
    (tmp_path / "b_clat_hist.1.log.gz").write_bytes(packed[: len(packed) // 2])
    (tmp_path / "c_clat_hist.1.log").write_text("")
    ran = plimsoll("hist", str(tmp_path))
    assert ran.status == 0, ran.err
    assert (
        "b_clat_hist.1.log.gz: the compressed data end before their end mark; what was before is counted." in ran.out
    )
    assert "Not counted: " in ran.out
    ran = plimsoll("hist", str(tmp_path), "-f", "json")
    assert ran.status == 0
    assert "end before their end mark" in ran.err
    assert sum(row["requests"] for row in json.loads(ran.out)) > 29


def test_the_bound_of_logs_of_microseconds_is_told(plimsoll: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "a_clat_hist.1.log").write_text(f"1000, 0, 4096, {', '.join(['1'] * 1216)}\n")
    assert "within 0.78 % of the exact ones, or 0.5 µs where that is more." in plimsoll("hist", str(tmp_path)).out


def test_intervals_shorter_than_a_second_and_percentiles_with_all_their_digits(
    plimsoll: Callable[..., Ran], tmp_path: Path
) -> None:
    (tmp_path / "a_clat_hist.1.log").write_text(a_row(1000) + a_row(1500))
    rows = json.loads(
        plimsoll("hist", str(tmp_path), "--interval", "500ms", "--percentiles", "99.99999", "-f", "json").out
    )
    assert [row["begin"] for row in rows] == [0, 0.5, 1]
    assert "p99.99999" in rows[0]
    for wrong in (("--interval", "0"), ("--percentiles", "50,50.0")):
        assert plimsoll("hist", str(tmp_path), *wrong).status == 64


def test_jobs_without_their_start_are_told(plimsoll: Callable[..., Ran], tmp_path: Path) -> None:
    job = {"read": {"runtime": 9000, "clat_ns": {"bins": {"2064": 4}}}}
    (tmp_path / "b.json").write_text(json.dumps({"jobs": [job, job]}))
    ran = plimsoll("hist", str(tmp_path / "b.json"), "-f", "json")
    assert ran.err == f"{tmp_path}/b.json: 2 jobs without job_start: they are taken to have begun together.\n"


def test_json_beside_logs_does_not_make_the_lost_interval_longer(
    plimsoll: Callable[..., Ran], tmp_path: Path
) -> None:
    log, told = tmp_path / "a_clat_hist.1.log", tmp_path / "b.json"
    log.write_text(a_row(1000) + a_row(2000))
    told.write_text(json.dumps({"jobs": [{"read": {"runtime": 90_000, "clat_ns": {"bins": {"2064": 4}}}}]}))
    assert "up to 1 s at the end of each log" in " ".join(plimsoll("hist", str(log), str(told)).out.split())
