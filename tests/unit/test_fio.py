"""fio's command line and its JSON; the file is what fio 3.33 printed, without its histograms."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll_probes.fio import FioError, Job, Totals, parse
from tests.unit.values import examples

TEXT = (Path(__file__).parent / "data" / "fio-randrw.json").read_text(encoding="utf-8")
REAL = Totals(
    read_operations=27186, write_operations=27507, read_bytes=445415424, write_bytes=450674688, seconds=90.179
)
JOB = Job("randrw", "/dev/vdb", 90)

_junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def result(**of_job: Any) -> str:
    """A result of fio with some parts of its job replaced."""
    whole = json.loads(TEXT)
    whole["jobs"][0] |= of_job
    return json.dumps(whole)


def one_way(operations: int = 0, size: int = 0, milliseconds: int = 0) -> dict[str, int]:
    return {"total_ios": operations, "io_bytes": size, "runtime": milliseconds}


# --- the command line


def test_a_job_is_a_list_of_words_that_no_shell_reads() -> None:
    name = "/dev/disk/by-id/a b; rm -rf $HOME '\""
    words = Job("randread", name, 10).argv()
    assert words[0] == "fio"
    assert f"--filename={name}" in words, "one word, as it was given"


def test_every_setting_of_a_job_reaches_fio() -> None:
    job = Job("randwrite", "/dev/vdc", 7, size=2**20, block_size=4096, io_depth=8, jobs=3)
    said = dict(word.removeprefix("--").split("=") for word in job.argv() if "=" in word)
    assert (
        said
        | {
            "filename": "/dev/vdc",
            "rw": "randwrite",
            "runtime": "7",
            "size": "1048576",
            "bs": "4096",
            "iodepth": "8",
            "numjobs": "3",
        }
        == said
    )


@pytest.mark.parametrize(
    "word",
    [
        "--direct=1",  # the guest's page cache would be measured
        "--time_based",  # a small file would end the run early
        "--randrepeat=0",  # the second run would find its blocks cached
        "--group_reporting",  # a result for each of the jobs, where one is read
        "--output-format=json",
    ],
)
def test_what_a_measurement_needs_is_always_said(word: str) -> None:
    assert word in JOB.argv()


# --- the result


def test_a_real_result_is_read_in_operations_bytes_and_seconds() -> None:
    assert parse(TEXT) == REAL


def test_totals_are_of_both_directions_and_the_rate_is_over_the_whole_run() -> None:
    assert (REAL.operations, REAL.bytes) == (54693, 896090112)
    assert REAL.iops == pytest.approx(301.467 + 305.027, abs=0.01), "fio's own means"


@pytest.mark.parametrize(
    ("read", "write", "seconds"),
    [
        (one_way(100, 1600, 10000), one_way(), 10.0),
        (one_way(), one_way(100, 1600, 2500), 2.5),
        (one_way(9, 9, 9999), one_way(9, 9, 10001), 10.001),
    ],
)
def test_a_run_lasted_as_long_as_its_longer_direction(
    read: dict[str, int], write: dict[str, int], seconds: float
) -> None:
    assert parse(result(read=read, write=write)).seconds == seconds


def test_a_complaint_before_the_result_is_no_failure() -> None:
    assert parse(f"fio: io_u error on file /dev/vdb: Success\nnote: both iodepth >= 1\n{TEXT}") == REAL


def test_a_job_that_failed_is_told_with_its_error_and_what_fio_said() -> None:
    with pytest.raises(FioError, match=r"error 5: fio: io_u error on file /dev/vdb: Input/output error"):
        parse(f"fio: io_u error on file /dev/vdb: Input/output error\n{result(error=5)}")
    with pytest.raises(FioError, match="error 5: no message"):
        parse(result(error=5))


def test_without_a_result_the_complaint_is_what_is_told() -> None:
    with pytest.raises(FioError, match=r"^no result of fio: 'fio: failed opening /dev/vdx'$"):
        parse("fio: failed opening /dev/vdx\n")
    with pytest.raises(FioError, match=r"^no result of fio: 'fio: killed'$"):
        parse(f"fio: killed\n{TEXT[:1000]}")


def test_a_long_text_that_is_no_result_is_told_in_its_beginning() -> None:
    with pytest.raises(FioError) as error:
        parse("{" + "x" * 10**5)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize("jobs", [[], [json.loads(TEXT)["jobs"][0]] * 2, {}, None])
def test_more_or_less_than_one_group_is_no_result(jobs: object) -> None:
    with pytest.raises(FioError):
        parse(json.dumps({"jobs": jobs}))


@pytest.mark.parametrize("number", ["Infinity", "NaN", "1e999", "null", "[]", '"many"', "9" * 5000])
def test_a_number_that_is_none_is_no_result(number: str) -> None:
    with pytest.raises(FioError):
        parse(TEXT.replace("445415424", number, 1))


def test_a_result_nested_beyond_reason_is_no_result() -> None:
    with pytest.raises(FioError):
        parse('{"jobs":' + "[" * 100_000)


@examples
@given(st.text() | st.text(alphabet='{}[]":,0123456789ejobs '))
def test_any_text_is_a_result_or_a_fio_error(text: str) -> None:
    with pytest.raises(FioError):
        parse(text)


@examples
@given(st.integers(0, len(TEXT) - 3))
def test_a_result_that_was_cut_off_is_no_result(length: int) -> None:
    with pytest.raises(FioError):
        parse(TEXT[:length])


@examples
@given(st.sampled_from(["error", "read", "write", "jobname"]), _junk)
def test_a_job_with_anything_in_it_is_a_result_or_a_fio_error(part: str, value: object) -> None:
    try:
        totals = parse(result(**{part: value}))
    except FioError:
        return
    assert part == "jobname" or (part == "error" and not value)
    assert totals == replace(REAL)


@examples
@given(st.sampled_from(["total_ios", "io_bytes", "runtime"]), _junk)
def test_a_direction_with_anything_in_it_is_a_result_or_a_fio_error(number: str, value: object) -> None:
    try:
        totals = parse(result(read=one_way(1, 1, 1) | {number: value}, write=one_way(1, 1, 1)))
    except FioError:
        return
    assert isinstance(totals.operations + totals.bytes, int)
    assert totals.seconds >= 0.001


def test_a_run_that_took_no_time_is_no_result() -> None:
    side = {"total_ios": 0, "io_bytes": 0, "runtime": 0}
    with pytest.raises(FioError, match="no time at all"):
        parse(json.dumps({"jobs": [{"error": 0, "read": side, "write": side}]}))
