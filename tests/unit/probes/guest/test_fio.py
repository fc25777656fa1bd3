"""fio's job files and its JSON+; the result is what fio 3.33 printed of a run through an outage."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from plimsoll_probes.guest.fio import DETAIL_MAX, TEXT_MAX, best_engine, job_file, parse
from plimsoll_probes.model.finding import Trouble, Why
from plimsoll_probes.model.job import Job, JobName
from plimsoll_probes.model.result import Measured

TEXT = (Path(__file__).parents[2] / "data" / "fio-osd-stopped.json").read_text(encoding="utf-8")
MIXED = Job(name=JobName.MIXED)
NOTHING = {"total_ios": 0, "io_bytes": 0, "runtime": 0, "clat_ns": {"min": 0, "max": 0, "N": 0}}
# Of 2,200 ns, in the bucket that begins at 2,176.
ONE = {"total_ios": 1, "io_bytes": 16384, "runtime": 9, "clat_ns": {"max": 2200, "N": 1, "bins": {"2192": 1}}}


def result(**of_group: Any) -> str:
    """A result of fio with some parts of its group replaced."""
    whole = json.loads(TEXT)
    whole["jobs"][0] |= of_group
    return json.dumps(whole)


def read(text: str, job: Job = MIXED) -> Measured:
    return parse(text, job, engine="libaio")


def why_not(text: str, job: Job = MIXED) -> tuple[Why, str]:
    with pytest.raises(Trouble) as caught:
        read(text, job)
    return caught.value.why, str(caught.value.facts["detail"])


def options(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith(";"))


# --- the job file


@pytest.mark.parametrize("name", JobName)
def test_the_packaged_job_is_the_job_by_default(name: JobName) -> None:
    packaged = files("plimsoll_probes.guest.jobs").joinpath(f"{name}.fio").read_text(encoding="utf-8")
    assert job_file(Job(name=name), "data", "0-3", "libaio") == packaged


def test_every_value_of_a_job_reaches_fio() -> None:
    job = Job(
        name=JobName.MIXED, seconds=7, file_size=2**20, block_size=4096, io_depth=8, processes=3, read_percent=70
    )
    said = options(job_file(job, "/mnt/a-b/data", "0,2", "io_uring"))
    desired = {
        "rw": "randrw",
        "rwmixread": "70",
        "filename": "/mnt/a-b/data",
        "size": "1048576",
        "bs": "4096",
        "iodepth": "8",
        "numjobs": "3",
        "runtime": "7",
        "cpus_allowed": "0,2",
        "ioengine": "io_uring",
    }
    assert said | desired == said


def test_where_the_processors_are_unknown_none_is_named() -> None:
    assert "cpus" not in job_file(MIXED, "data", None, "libaio")


@pytest.mark.parametrize(
    "filename", ["/dev/vdb", "a:b", "a b", "a\nexec_prerun=reboot", "${HOME}", "data;", "", "/dev"]
)
def test_a_device_or_what_fio_would_read_as_more_than_a_name_is_no_file(filename: str) -> None:
    with pytest.raises(ValueError, match="not a file name for fio"):
        job_file(MIXED, filename, None, "libaio")


@pytest.mark.parametrize(
    ("has", "best"),
    [
        (("psync", "posixaio", "io_uring", "libaio"), "libaio"),
        (("psync", "posixaio", "io_uring"), "io_uring"),
        (("psync", "posixaio"), "posixaio"),
        (("mmap", "psync"), "psync"),
    ],
)
def test_the_best_engine_that_the_guest_has_is_taken(has: tuple[str, ...], best: str) -> None:
    assert best_engine(has, 2) == best


@pytest.mark.parametrize(("has", "best"), [(("libaio", "psync"), "psync"), (("libaio", "io_uring"), "libaio")])
def test_one_request_at_a_time_is_timed_from_its_submission(has: tuple[str, ...], best: str) -> None:
    assert best_engine(has, 1) == best


def test_a_fio_without_a_known_engine_is_told() -> None:
    with pytest.raises(Trouble) as caught:
        best_engine(["mmap"], 2)
    assert caught.value.why is Why.NO_ENGINE


# --- the result


def test_a_real_result_is_read_whole() -> None:
    measured = read(TEXT)
    assert measured.seconds == 90.179
    assert measured.read is not None
    assert measured.write is not None
    assert (measured.read.operations, measured.write.operations) == (27186, 27507)
    assert (measured.read.bytes, measured.write.bytes) == (445415424, 450674688)
    assert (measured.read.latency_max, measured.write.latency_max) == (23011950235, 23014589748)
    assert (measured.fio, measured.engine, measured.unfinished) == ("fio-3.33", "libaio", 0)
    assert measured.iops == pytest.approx(301.467 + 305.027, abs=0.01), "fio's own means"


def test_our_percentiles_of_an_outage_are_fios_own() -> None:
    measured, group = read(TEXT), json.loads(TEXT)["jobs"][0]
    for direction, flow in measured.flows:
        for percent, nanoseconds in group[direction]["clat_ns"]["percentile"].items():
            quantile = flow.latency.quantile(float(percent) / 100)
            assert quantile is not None
            assert quantile.value == nanoseconds, f"{direction} p{percent}"


def test_what_was_begun_and_did_not_end_is_counted() -> None:
    text = result(read=ONE | {"total_ios": 4}, write=NOTHING | {"total_ios": 3})
    measured = read(text)
    assert measured.unfinished == 6
    assert measured.operations == 1
    assert measured.write is None, "of writes none ended"


@pytest.mark.parametrize(("first", "second"), [(10000, 0), (0, 2500), (9999, 10001)])
def test_a_run_lasted_as_long_as_its_longer_direction(first: int, second: int) -> None:
    text = result(read=ONE | {"runtime": first}, write=ONE | {"runtime": second})
    assert read(text).seconds == max(first, second) / 1000


def test_an_old_fio_that_counts_no_latencies_is_believed_its_histogram() -> None:
    latencies = {"max": 2200, "bins": {"2192": 1}}
    assert read(result(read=ONE | {"clat_ns": latencies}, write=NOTHING)).operations == 1


def test_a_complaint_before_the_result_is_no_failure() -> None:
    assert read(f"fio: io_u error on file data: Success\nnote: both iodepth >= 1\n{TEXT}") == read(TEXT)


def test_a_job_that_failed_is_told_with_its_error_and_what_fio_said() -> None:
    complaint = "fio: io_u error on file data: Input/output error"
    assert why_not(f"{complaint}\n{result(error=5)}") == (Why.FIO_FAILED, f"error 5: {complaint}")
    assert why_not(result(error=5)) == (Why.FIO_FAILED, "error 5: no message")
    assert why_not("fio: failed opening data\n") == (Why.FIO_FAILED, "fio: failed opening data")


def test_a_guests_words_cannot_move_the_cursor_nor_fill_the_screen() -> None:
    _, detail = why_not("\x1b[2Jfio:\nfailed\x07" + "x" * 10**5)
    assert detail.startswith("[2Jfio: failed xxx")
    assert len(detail) == DETAIL_MAX


def test_a_result_that_is_cut_off_or_too_long_is_nonsense() -> None:
    assert why_not(TEXT[:-100])[0] is Why.NONSENSE
    why, detail = why_not(TEXT + " " * TEXT_MAX)
    assert why is Why.NONSENSE
    assert detail == f"a result of {len(TEXT) + TEXT_MAX} characters"


@pytest.mark.parametrize("jobs", [[], [json.loads(TEXT)["jobs"][0]] * 2, {}, None])
def test_more_or_less_than_one_group_is_nonsense(jobs: object) -> None:
    assert why_not(json.dumps({"fio version": "fio-3.33", "jobs": jobs}))[0] is Why.NONSENSE


@pytest.mark.parametrize(
    "number", ["Infinity", "NaN", "-1", "1e999", "1.0", "true", "null", "[]", '"7"', "9" * 20, "9" * 5000]
)
@pytest.mark.parametrize("of", ['"io_bytes": 445415424', '"max": 23011950235', '"N": 27186', '"total_ios": 27186'])
def test_a_number_that_is_none_is_nonsense(of: str, number: str) -> None:
    key, _, _ = of.partition(":")
    assert of in TEXT
    assert why_not(TEXT.replace(of, f"{key}: {number}", 1))[0] is Why.NONSENSE


@pytest.mark.parametrize(
    "changed",
    [
        {"total_ios": 27185},  # fewer begun than ended
        {"clat_ns": json.loads(TEXT)["jobs"][0]["read"]["clat_ns"] | {"N": 27185}},
        {"clat_ns": {"max": 1, "N": 1, "bins": {"2191": 1}}},  # no bucket's middle
        {"clat_ns": {"max": 1, "N": 1, "bins": {"-5": 1}}},
        {"clat_ns": {"max": 1, "N": 1, "bins": [1]}},
        {"clat_ns": []},
    ],
)
def test_a_direction_that_contradicts_itself_is_nonsense(changed: dict[str, object]) -> None:
    side = json.loads(TEXT)["jobs"][0]["read"] | changed
    assert why_not(result(read=side))[0] is Why.NONSENSE


def test_requests_of_a_direction_that_the_job_has_not_are_nonsense() -> None:
    assert why_not(TEXT, Job(name=JobName.READ)) == (Why.NONSENSE, "not a result of fio: writes in a read job;")
    assert read(result(write=NOTHING), Job(name=JobName.READ)).operations == 27186


def test_a_run_that_took_no_time_is_nonsense() -> None:
    assert why_not(result(read=NOTHING, write=NOTHING))[0] is Why.NONSENSE


@pytest.mark.parametrize("deep", ["[", '{"a":'])
def test_a_result_nested_beyond_reason_is_nonsense(deep: str) -> None:
    assert why_not('{"jobs":' + deep * 100_000)[0] is Why.NONSENSE
