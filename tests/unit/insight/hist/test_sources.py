"""Which files are logs, whose they are, and what is said of those that cannot be read."""

from __future__ import annotations

import gzip
import json
import os
import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import pytest
import zstandard

from plimsoll_agent.errors import UsageError
from plimsoll_insight.files.packed import UnreadableLog, opened
from plimsoll_insight.hist.flows import FlowWindows, Log, NoHistograms, survey
from plimsoll_insight.hist.sources import FileChoice, LogSource, sources
from plimsoll_insight.hist.study import StudyPart, seconds_of, study
from tests.unit.insight.hist.fiolog import Request, fio_log

MS = 10**6
SAMPLES = Path(__file__).parents[2] / "data" / "fio-hist"
"""Four jobs of a real guest on a real cluster, 90 s, while one OSD was stopped; rows each 5 s."""
NOISE = random.Random(1).randbytes(1_000_000)
LOG = fio_log([Request(each * MS, 2 * MS, each % 2) for each in range(4000)], 1000)


def flows(source: LogSource) -> Iterator[FlowWindows]:
    return Log(source, survey(source)).flows(float("-inf"), float("inf"), float("inf"))


def requests(path: Path) -> int:
    source = LogSource(path=path, guest="g", group="")
    return sum(int(flow.count.sum()) for flow in flows(source))


def found(directory: Path, **groups: str) -> list[tuple[str, str, str]]:
    return [(each.path.name, each.guest, each.group) for each in sources([directory], FileChoice(groups, {}))]


def test_a_guest_is_the_directory_below_or_the_name_before_the_suffix(tmp_path: Path) -> None:
    for name in ("web_clat_hist.1.log", "db/F_clat_hist.1.log", "db/F_clat_hist.2.log.gz", "mail_lat_hist.3.log.zst"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "web_bw.1.log").write_text("")
    assert found(tmp_path, gold="web*", silver="*.2.log.gz") == [
        ("F_clat_hist.1.log", "db", "others"),
        ("F_clat_hist.2.log.gz", "db", "silver"),
        ("mail_lat_hist.3.log.zst", "mail", "others"),
        ("web_clat_hist.1.log", "web", "gold"),
    ]


def test_json_in_a_directory_counts_only_without_logs_of_the_same_requests(tmp_path: Path) -> None:
    (tmp_path / "out.json").write_text("{}")
    assert found(tmp_path) == [("out.json", "out", "others")]
    (tmp_path / "F_clat_hist.1.log").write_text(LOG)
    assert found(tmp_path) == [("F_clat_hist.1.log", "F", "others")]


def test_a_directory_without_logs_is_an_error_that_says_what_they_are_called(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"_clat_hist\.N\.log"):
        sources([tmp_path], FileChoice({}, {}))
    with pytest.raises(UsageError, match="no such file"):
        sources([tmp_path / "gone"], FileChoice({}, {}))


@pytest.mark.parametrize("pack", [lambda text: text, gzip.compress, lambda text: zstandard.compress(text)],
                         ids=["plain", "gzip", "zstd"])  # fmt: skip
def test_compressed_files_are_known_by_their_first_bytes_not_their_names(tmp_path: Path, pack) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "whatever"
    path.write_bytes(pack(LOG.encode()))
    plain = tmp_path / "plain"
    plain.write_text(LOG)
    assert requests(path) == requests(plain) > 1000


@pytest.mark.parametrize("damage", [
    lambda: gzip.compress(NOISE)[:-9_000], lambda: zstandard.compress(NOISE)[:-9_000],
    lambda: gzip.compress(NOISE) + gzip.compress(b"0" * 99)[:-1], lambda: gzip.compress(NOISE) + b"rest",
    lambda: zstandard.compress(NOISE) + b"rest", lambda: zstandard.compress(NOISE) + zstandard.compress(NOISE)[:3],
])  # fmt: skip
def test_of_damaged_compressed_data_what_was_before_is_read_and_it_is_said(
    tmp_path: Path, damage: Callable[[], bytes]
) -> None:
    (tmp_path / "x").write_bytes(damage())
    why: list[str] = []
    with opened(tmp_path / "x", why.append) as stream:
        got = stream.read()
    assert len(got) > 900_000
    assert NOISE.startswith(got[: len(NOISE)])
    assert len(why) == 1
    with pytest.raises(UnreadableLog, match="x: "), opened(tmp_path / "x") as stream:
        stream.read()


def test_whole_zstd_files_are_not_called_cut(tmp_path: Path) -> None:
    """Of several frames, with and without a checksum, with one to skip, of one byte again and again, and of none."""
    skip = b"\x50\x2a\x4d\x18\x05\x00\x00\x00abcde"
    checked = zstandard.ZstdCompressor(write_checksum=True).compress(NOISE)
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(b"0" * 10**6)
    (tmp_path / "x").write_bytes(checked + skip + unsized + zstandard.compress(b""))
    with opened(tmp_path / "x") as stream:
        assert stream.read() == NOISE + b"0" * 10**6


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x")
    with pytest.raises(UnreadableLog, match="not a regular file"), opened(tmp_path / "x"):
        pass


def test_no_escape_of_a_directory_s_name_is_in_a_message(tmp_path: Path) -> None:
    (tmp_path / "evil\x1b[31m").mkdir()
    path = tmp_path / "evil\x1b[31m" / "a_clat_hist.1.log"
    path.write_text("no row\n")
    with pytest.raises(UnreadableLog) as told:
        requests(path)
    assert str(told.value).isprintable()


def test_what_would_count_twice_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "a_clat_hist.1.log"
    log.write_text(LOG)
    for given in ([log, log], [tmp_path, log]):
        with pytest.raises(UsageError, match="would count twice"):
            sources(given, FileChoice({}, {}))
    (tmp_path / "a_clat_hist.1.log.gz").write_bytes(gzip.compress(LOG.encode()))
    with pytest.raises(UsageError, match="would count twice"):
        sources([tmp_path], FileChoice({}, {}))


def test_other_latencies_of_the_same_requests_count_only_without_clat(tmp_path: Path) -> None:
    for name in ("a_clat", "a_lat", "a_slat", "b_lat", "b_slat"):
        (tmp_path / f"{name}_hist.1.log").write_text("")
    assert [name for name, _, _ in found(tmp_path)] == ["a_clat_hist.1.log", "b_lat_hist.1.log"]


def test_a_directory_that_may_not_be_read_is_not_left_out_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "g1").mkdir()
    (tmp_path / "g1" / "a_clat_hist.1.log").write_text("")
    (tmp_path / "g2").mkdir()
    scan = os.scandir

    def refused(path: str) -> object:
        if str(path).endswith("g2"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr("os.scandir", refused)
    with pytest.raises(UsageError, match="g2: Permission denied"):
        sources([tmp_path], FileChoice({}, {}))


def test_a_name_that_no_file_can_have_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="File name too long"):
        sources([tmp_path / ("x" * 300)], FileChoice({}, {}))


@pytest.mark.parametrize("content", [
    b'{"jobs": [{"read": {"runtime": Infinity, "clat_ns": {"bins": {"5000": 1}}}}]}',
    b'{"jobs": [' + b"[]," * 200_000, b"{" + b" " * (9 << 20),
    b"", b"\n\n", b"hello\n", gzip.compress(LOG.encode(), mtime=0)[:30], zstandard.compress(LOG.encode())[:60],
    b"{}", b'{"jobs": 5}', b'{"jobs": [{"read": {"runtime": 5, "clat_ns": {"bins": {"5000": -1}}}}]}',
    b"[" * 100_000, b'{"jobs": ' + b"[" * 100_000,
])  # fmt: skip
def test_a_file_without_histograms_is_one_line_that_names_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file.json" if content[:1] in (b"{", b"[") else tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(UnreadableLog, match=f"^{path}: [^\n]*$"):
        requests(path)


def test_a_directory_instead_of_a_file_and_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    with pytest.raises(UnreadableLog, match="Is a directory"):
        requests(tmp_path)


def test_the_sample_has_its_requests_and_its_interval() -> None:
    """Counted with awk: the sum of all columns from the fourth on, in the first log."""
    path = SAMPLES / "F_clat_hist.1.log.gz"
    assert requests(path) == 12_961
    extent = survey(LogSource(path=path, guest="g", group=""))
    assert (sum(extent.rows), extent.first_ms, extent.last_ms) == (34, 5066, 85_095)
    assert 4900 < extent.interval_ms < 5100  # fio ran with log_hist_msec=5000


def test_fio_s_json_has_the_requests_of_its_jobs(tmp_path: Path) -> None:
    """With a line of an error before it, as fio prints them."""
    job = {"read": {"runtime": 3000, "clat_ns": {"bins": {"1": 4, "2064": 6}}}, "write": {"clat_ns": {}}, "trim": {}}
    path = tmp_path / "out.json"
    path.write_text(f"fio: io_u error on file\n{json.dumps({'jobs': [job, job]})}")
    source = LogSource(path=path, guest="g", group="")
    extent = survey(source)
    assert requests(path) == 20
    assert extent.last_ms == 3000
    assert {(flow.direction, float(flow.end_ms[0])) for flow in flows(source)} == {(0, 3000.0)}


AFTER_EACH_OTHER = {
    "fio version": "fio-3.41",
    "jobs": [
        {"jobname": "a", "groupid": 0, "job_start": 1_796_184_700_527, "job_runtime": 1000,
         "read": {"total_ios": 200, "runtime": 1001, "clat_ns": {"N": 200, "bins": {"2064": 200}}},
         "write": {"total_ios": 0, "runtime": 0, "clat_ns": {"N": 0}}},
        {"jobname": "b", "groupid": 1, "job_start": 1_796_184_702_530, "job_runtime": 2000,
         "read": {"total_ios": 0, "runtime": 0, "clat_ns": {"N": 0}},
         "write": {"total_ios": 400, "runtime": 2001, "clat_ns": {"N": 400, "bins": {"2064": 400}}}},
    ],
}  # fmt: skip


def test_jobs_of_fio_s_json_that_ran_one_after_another_are_where_they_were(tmp_path: Path) -> None:
    """With ``stonewall``; the second began 2003 ms after the first."""
    path = tmp_path / "out.json"
    path.write_text(json.dumps(AFTER_EACH_OTHER))
    source = LogSource(path=path, guest="g", group="", offset_ms=500)
    extent = survey(source)
    assert (extent.last_ms, extent.interval_ms, extent.simultaneous) == (2003 + 2001, 2001, 0)
    assert [(flow.direction, float(flow.begin_ms[0]), float(flow.end_ms[0])) for flow in flows(source)] == [
        (0, 500, 1501), (1, 2503, 4504),
    ]  # fmt: skip


def test_jobs_of_which_one_has_no_start_are_taken_as_simultaneous_and_counted(tmp_path: Path) -> None:
    first, second = AFTER_EACH_OTHER["jobs"]
    path = tmp_path / "out.json"
    path.write_text(json.dumps({"jobs": [first, {key: second[key] for key in second if key != "job_start"}]}))
    source = LogSource(path=path, guest="g", group="")
    assert (survey(source).last_ms, survey(source).simultaneous) == (2001, 2)
    assert {float(flow.begin_ms[0]) for flow in flows(source)} == {0}
    path.write_text(json.dumps({"jobs": [{key: first[key] for key in first if key != "job_start"}]}))
    assert survey(source).simultaneous == 0


def test_rows_without_any_count_tell_nothing(tmp_path: Path) -> None:
    """So fio 3.33 writes them with clat_percentiles=0: its requests are in no row."""
    path = tmp_path / "a_clat_hist.1.log"
    path.write_text("".join(f"{time}, 0, 4096, {', '.join(['0'] * 1856)}\n" for time in (208, 405)))
    with pytest.raises(NoHistograms, match="its rows count no request, as those of fio with clat_percentiles=0"):
        survey(LogSource(path=path, guest="g", group=""))


def rows_of(*columns: int | None, number: int = 1856) -> str:
    """One request a second, each in its column."""
    counts = (", ".join("01"[each == column] for each in range(number)) for column in columns)
    return "".join(f"{1000 * second}, 0, 4096, {row}\n" for second, row in enumerate(counts, 1))


@pytest.mark.parametrize(("columns", "number", "may_be_cut"), [
    ((900, 927), 1856, True), ((900, 928), 1856, False), ((500, 700), 1856, False), ((56, 57), 116, True),
    ((56, 58), 116, False), ((900, 927), 1216, False), ((None, 928), 1856, False), ((None, 900), 1216, False),
])  # fmt: skip
def test_a_log_may_lack_what_some_fio_leave_out_where_it_ends_just_below_that(
    tmp_path: Path, columns: tuple[int | None, ...], number: int, may_be_cut: bool
) -> None:
    path = tmp_path / "a_clat_hist.1.log"
    path.write_text(rows_of(*columns, number=number))
    assert survey(LogSource(path=path, guest="g", group="")).may_be_cut is may_be_cut


def test_a_row_without_a_request_is_of_a_fio_that_left_it_out_and_no_idle_interval(tmp_path: Path) -> None:
    """fio writes a row when a request completes: of 3.6 to 3.16 it may have taken 0.79 ms or longer."""
    path = tmp_path / "a_clat_hist.1.log"
    path.write_text(rows_of(900, None, 900, None))
    with pytest.raises(NoHistograms, match=r"2 of its 4 rows count no request, .*: fio 3\.6 to 3\.16 leave out"):
        survey(LogSource(path=path, guest="g", group=""))


@pytest.mark.parametrize(("count", "lines"), [(2**40, 0), (2**40 + 1, 1), (139_637_976_727_552, 1)])
def test_a_count_that_no_fio_reaches_is_no_row(tmp_path: Path, count: int, lines: int) -> None:
    path = tmp_path / "a_clat_hist.1.log"
    path.write_text(rows_of(1000, 1000, 1000).replace("2000, 0, 4096, 0", f"2000, 0, 4096, {count}"))
    assert survey(LogSource(path=path, guest="g", group="")).unread.lines == lines


def test_an_offset_moves_the_times_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "late_clat_hist.1.log").write_text(LOG)
    [source] = sources([tmp_path], FileChoice({}, {"late": 7000}))
    first = next(iter(flows(source)))
    assert first.begin_ms[0] == 7000 + 2  # when the first request ended


def test_times_of_the_unix_epoch_begin_an_interval_before_the_first_row(tmp_path: Path) -> None:
    path = tmp_path / "a_clat_hist.1.log"
    path.write_text(fio_log([Request(each * MS, 2 * MS) for each in range(4000)], 1000, epoch_ms=1_700_000_000_000))
    source = LogSource(path=path, guest="g", group="")
    extent = survey(source)
    assert extent.is_of_epoch
    assert next(iter(flows(source))).begin_ms[0] == extent.first_ms - 1000


REPORTS = SAMPLES.parent / "reports" / "hist"


def rates(*paths: Path) -> list[tuple[object, float]]:
    """Requests of each second, and how long it is."""
    parts = [
        StudyPart(name=str(path), guest="g", group="", extent=extent, offset_ms=0, flows=Log(source, extent).flows)
        for path in paths for source in [LogSource(path=path, guest="g", group="")] for extent in [survey(source)]
    ]  # fmt: skip
    asked = study(parts, 1000, [Fraction(1, 2)], lambda *_: None)
    span = asked.spans(None)[None]
    return [
        (pytest.approx(row.interval.completed), seconds_of(row.interval, span))
        for row in asked.rows(None) if row.interval.direction == "read"
    ]  # fmt: skip


@pytest.mark.parametrize("name", [
    "27-steady_clat_hist.1.log.gz", "29-monotonic_clat_hist.1.log.gz", "30-client/F_clat_hist.1.log.guest-a.gz",
])  # fmt: skip
def test_a_log_of_1000_a_second_that_ends_at_3_5_s(name: str) -> None:
    """By the clock of the machine, and as a server of fio sent it, too."""
    assert rates(REPORTS / name) == [(1000, 1), (1000, 1), (1000, 1), (500, 0.5)]


def test_the_first_interval_of_an_epoch_is_as_long_as_the_log_is_in_it(tmp_path: Path) -> None:
    log = fio_log([Request(each * MS, MS) for each in range(2000)], 100, epoch_ms=1_700_000_000_250)
    (tmp_path / "F_clat_hist.1.log").write_text(log)
    first, second, *_ = (seconds for _, seconds in rates(tmp_path / "F_clat_hist.1.log"))
    assert (first, second) == (pytest.approx(0.749, abs=0.002), 1)


@pytest.mark.parametrize(("rows", "repaired", "open_"), [
    ([5, 5, 10, 10, 15, 15], True, False), ([5, 5, 5, 5, 5, 5], False, True), ([5, 7, 4, 9, 3, 8], False, False),
    ([5, 5, 10], False, True),
])  # fmt: skip
def test_rows_of_a_server_are_repaired_where_the_counts_prove_it_and_else_left(
    tmp_path: Path, rows: list[int], repaired: bool, open_: bool
) -> None:
    def row(number: int, count: int) -> str:
        return ", ".join([f"{500 * number}", "0", "4096", *(str(count * (each == 448)) for each in range(1856))])

    text = "".join(f"{row(number, count)}\n" for number, count in enumerate(rows, 1))
    for name, of_client in (("F_clat_hist.1.log.host-a", True), ("F_clat_hist.1.log", False)):
        (tmp_path / name).write_text(text)
        extent = survey(LogSource(path=tmp_path / name, guest="g", group=""))
        assert (extent.is_subtracted, extent.may_be_subtracted) == (repaired and of_client, open_ and of_client)
        expected = 5 * len(rows) if repaired and of_client else sum(rows)
        assert requests(tmp_path / name) == expected


def test_logs_of_a_client_are_found_by_the_names_of_its_hosts(tmp_path: Path) -> None:
    for name in ("F_clat_hist.1.log.web-1", "F_clat_hist.1.log.10.0.0.7.gz", "F_clat_hist.1.log.zst"):
        (tmp_path / name).write_text("")
    assert sorted(guest for _, guest, _ in found(tmp_path)) == ["10.0.0.7", "F", "web-1"]


@pytest.mark.parametrize(("name", "number"), [
    ("32-mixed-normal-and-json.out", 12_001), ("34-client-stats.json", 12_001), ("35-lat-only.json", 12_000),
])  # fmt: skip
def test_forms_of_fio_s_json(name: str, number: int) -> None:
    assert requests(REPORTS / name) == number


def test_of_status_intervals_the_last_document_counts_and_of_a_client_not_the_sum_of_all(tmp_path: Path) -> None:
    job = json.loads((REPORTS / "35-lat-only.json").read_text())["jobs"][0]
    early = {"jobs": [{**job, "read": {**job["read"], "lat_ns": {"bins": {"100": 1}}}, "write": {}}]}
    late = {"jobs": [], "client_stats": [job, job, {**job, "jobname": "All clients"}], "fio version": "fio-3.41"}
    text = f"g: (g=0)\nfio-3.41\n{json.dumps(early)}\n\n{json.dumps(late, indent=2)}\n\nRun status\n"
    (tmp_path / "out").write_text(text)
    assert requests(tmp_path / "out") == 24_000


@pytest.mark.parametrize(("name", "at", "elapsed", "is_one"), [
    ("g", 64, 64, True), ("g", 64, 4, False), ("other", 64, 64, False), ("g", 64, None, True),
])  # fmt: skip
def test_runs_in_one_file_are_refused_and_a_later_document_of_a_run_is_not(
    tmp_path: Path, name: str, at: int, elapsed: int | None, is_one: bool
) -> None:
    job = json.loads((REPORTS / "35-lat-only.json").read_text())["jobs"][0] | {"jobname": "g"}
    first = {"timestamp_ms": 1_700_000_004_000, "jobs": [{**job, "elapsed": 5}]}
    job = {**job, "jobname": name, "elapsed": elapsed}
    jobs = [{key: value for key, value in job.items() if value is not None}]
    last = {"timestamp_ms": 1_700_000_000_000 + 1000 * at, "jobs": jobs}
    (tmp_path / "out").write_text(f"{json.dumps(first)}\n{json.dumps(last)}\n")
    if is_one:
        assert requests(tmp_path / "out") == 12_000
        return
    with pytest.raises(NoHistograms, match="several runs of fio in it"):
        requests(tmp_path / "out")


def test_what_fio_compressed_says_how_to_read_it() -> None:
    with pytest.raises(UnreadableLog, match="fio --inflate-log="):
        survey(LogSource(path=REPORTS / "36-stored_clat_hist.1.log.fz", guest="g", group=""))


def test_directions_that_are_together_say_so(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"jobs": [{"mixed": {"clat_ns": {"bins": {"100": 5}}}}]}))
    with pytest.raises(UnreadableLog, match="unified_rw_reporting"):
        survey(LogSource(path=tmp_path / "a.json", guest="g", group=""))
