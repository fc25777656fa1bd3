"""The history of probes, in a real SQLite file: what is read back, what is asked of it, and what damage costs."""

from __future__ import annotations

import json
import resource
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll_agent.model.disk import Guest
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.rules.model import Objective, Probing
from plimsoll_agent.store import database as database_module
from plimsoll_agent.store.state import PROBES, PROBES_SHOWN, State, StateError
from plimsoll_agent.util.frozen import names, replace
from plimsoll_probes.model.finding import Finding, Verdict, Why
from plimsoll_probes.model.histogram import BUCKETS, Histogram
from plimsoll_probes.model.job import Job, JobName
from plimsoll_probes.model.result import (
    Circumstances,
    Flow,
    Health,
    Measured,
    Postponed,
    ProbeResult,
    QemuCounts,
    Subject,
)
from plimsoll_probes.schedule.targets import ChosenTarget, PlannedTarget
from plimsoll_probes.store.history import SCHEMA_VERSION, CorruptHistory, History, readable
from plimsoll_probes.store.tally import Promise, Sums, Tally
from tests.unit.nobody import as_nobody
from tests.unit.results import a_finding, a_flow, a_measurement, a_probe, a_subject
from tests.unit.sql import asked, do
from tests.unit.values import GUEST, NOON, OF_0_1_0, examples_of, possible_limits

OTHER = GUEST.replace("1", "2")
fewer = examples_of(60)  # each waits for the disk


@pytest.fixture(autouse=True, scope="module")
def _nobody_else_has_the_file() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database_module, "_SETTLE", 0)
        yield


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "probes.sqlite"


@pytest.fixture
def history(path: Path) -> History:
    return History(path)


def at(hour: float) -> datetime:
    """So many hours after noon."""
    return NOON + timedelta(hours=hour)


def postponed(hour: float = 0, **other: Any) -> Postponed:
    values = {
        "at": at(hour),
        "node": "node1",
        "guest_uuid": GUEST,
        "guest_name": "instance-00000001",
        "directory": "/var/tmp",
        "why": Why.UNHEALTHY,
        "facts": {"detail": "1 osds down"},
    }
    return Postponed(**values | other)


def started(results: Sequence[ProbeResult]) -> list[float]:
    """In hours after noon."""
    return [(result.started - NOON) / timedelta(hours=1) for result in results]


# --- what is read back

_counts = st.integers(0, 2**53)
_numbers = st.floats(0, 2**53, allow_nan=False)
_names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_maybe = st.none() | _names
_times = st.datetimes(
    datetime(2000, 1, 1),
    datetime(2100, 1, 1),
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=-9, minutes=30))]),
)
_facts = st.dictionaries(
    _names,
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _names,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)
_histograms = st.dictionaries(st.integers(0, BUCKETS - 1), st.integers(1, 2**53), max_size=20).map(
    lambda counts: Histogram(tuple(sorted(counts.items())))
)
_flows = st.builds(Flow, operations=_counts, bytes=_counts, latency=_histograms, latency_max=_counts)
_healths = st.builds(Health, raised=st.none() | st.lists(_names, max_size=3).map(tuple), detail=_names)
_limits = st.none() | possible_limits()

results = st.builds(
    ProbeResult,
    node=_names,
    subject=st.builds(
        Subject,
        **dict.fromkeys(names(Subject), _maybe) | dict.fromkeys(("guest_uuid", "guest_name", "directory"), _names),
    ),
    job=st.builds(
        Job,
        name=st.sampled_from(JobName),
        **{name: _counts for name in names(Job) if name != "name"},
    ),
    started=_times,
    ended=_times,
    finding=st.builds(Finding, st.sampled_from(Verdict), st.sampled_from(Why), _facts),
    measured=st.none()
    | st.builds(
        Measured,
        seconds=st.floats(0.001, 10**6),
        read=st.none() | _flows,
        write=st.none() | _flows,
        unfinished=_counts,
        fio=_names,
        engine=_names,
        cpu_busy=st.none() | _numbers,
    ),
    counted=st.none()
    | st.builds(
        QemuCounts,
        seconds=_numbers,
        read_operations=_counts,
        write_operations=_counts,
        read_bytes=_counts,
        write_bytes=_counts,
        last_rate=st.none() | _numbers,
    ),
    circumstances=st.builds(
        Circumstances,
        promised=_limits,
        before=_limits,
        after=_limits,
        health_before=st.none() | _healths,
        health_after=st.none() | _healths,
        frozen=st.booleans(),
        moved=st.booleans(),
    ),
    rule=_maybe,
    session=_names,
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> History:
    """For hypothesis, whose examples share it."""
    return History(tmp_path_factory.mktemp("history") / "probes.sqlite")


@fewer
@given(result=results)
def test_a_result_is_read_back_as_it_was(shared: History, result: ProbeResult) -> None:
    id_ = shared.add(result)
    assert shared.get(id_) == replace(result, id=id_)


def test_facts_that_json_has_no_word_for_are_kept_as_what_they_say(history: History) -> None:
    facts = {"before": Limits(total_iops_sec=250), "has": ("libaio", "psync"), "device": Path("/dev/vdb")}
    id_ = history.add(a_probe(finding=Finding(Verdict.INCONCLUSIVE, Why.LIMITS_CHANGED, facts)))
    read = history.get(id_)
    assert read is not None
    assert read.finding.facts == {
        "before": {"total_iops_sec": 250},
        "has": ["libaio", "psync"],
        "device": "/dev/vdb",
    }


def test_who_asks_the_file_itself_finds_names_rates_and_times_in_utc_in_columns(history: History, path: Path) -> None:
    history.add(a_probe(iops=250, started=NOON.astimezone(timezone(timedelta(hours=9)))))
    history.add(a_probe(measured=None, finding=Finding(Verdict.FAILED, Why.NO_FIO)))
    columns = "started, guest_name, target, volume_type, job, verdict, why, iops, bytes_sec"
    names = ("2026-11-20T12:00:00+00:00", "instance-00000001", "vdb", "gold", "read")
    assert asked(path, f"SELECT {columns} FROM run") == [
        (*names, "kept", "within", 250.0, 4096000.0),
        (*names, "failed", "no-fio", None, None),
    ]


def test_a_histogram_takes_a_few_bytes_a_bucket(history: History, path: Path) -> None:
    """What makes three months of fifty guests, three jobs and four a day fit into ``keep_mib``, which is 256."""
    latencies = [round(10_000_000 * 1.012**step) for step in range(240)]
    mixed = a_measurement(*(a_flow([latency for latency in latencies for _ in range(31)]) for _ in range(2)))

    def size(hours: range) -> int:
        for hour in hours:
            history.add(a_probe(job=JobName.MIXED, started=at(hour), measured=mixed))
        return path.stat().st_size

    before = size(range(10))  # the file itself, and its tables
    assert (size(range(10, 60)) - before) / 50 * 50 * 3 * 4 * 90 < 256 * 2**20


def test_a_number_is_never_given_twice(history: History) -> None:
    ids = [history.add(a_probe(started=at(hour))) for hour in (0, 1)]
    assert history.prune(at(24 * 100), 90, 256) == 2
    assert history.add(a_probe()) > max(ids)


@pytest.mark.parametrize("id_", [0, -1, 2, 2**63, -(2**63) - 1, 10**40])
def test_a_number_that_no_result_has_is_none(history: History, id_: int) -> None:
    history.add(a_probe())
    assert history.get(id_) is None


# --- what is asked


@pytest.fixture
def listed(history: History) -> History:
    """Hours 0 to 5, and not in that order: two guests by turns, of one also another job and another directory."""
    other = a_subject(guest_uuid=OTHER, guest_name="instance-00000002", display_name="db")
    history.add(a_probe(started=at(4)))
    history.add(a_probe(started=at(0)))
    history.add(a_probe(started=at(1), subject=other))
    history.add(a_probe(started=at(2), job=JobName.MIXED))
    history.add(a_probe(started=at(3), subject=other))
    history.add(a_probe(started=at(5), subject=a_subject(directory="/srv")))
    return history


@pytest.mark.parametrize(
    ("chosen", "hours"),
    [
        ({}, [5, 4, 3, 2, 1, 0]),
        ({"guest": GUEST}, [5, 4, 2, 0]),
        ({"guest": GUEST.upper()}, [5, 4, 2, 0]),
        ({"guest": "instance-00000002"}, [3, 1]),
        ({"guest": "db"}, [3, 1]),
        ({"guest": "nobody"}, []),
        ({"guest": "'; DROP TABLE run; --"}, []),
        ({"job": JobName.MIXED}, [2]),
        ({"since": at(3)}, [5, 4, 3]),
        ({"until": at(3)}, [2, 1, 0]),
        ({"since": at(1), "until": at(4), "guest": GUEST}, [2]),
        ({"most": 2}, [5, 4]),
        ({"most": 1, "guest": "db"}, [3]),
        ({"most": 10**30}, [5, 4, 3, 2, 1, 0]),
    ],
    ids=str,
)
def test_the_chosen_runs_are_listed_newest_first(
    listed: History, chosen: dict[str, Any], hours: Sequence[int]
) -> None:
    assert started(listed.runs(**chosen)) == list(hours)


def test_the_newest_of_each_guest_directory_and_job_is_the_one_that_began_last(listed: History) -> None:
    assert sorted(started(listed.latest())) == [2, 3, 4, 5]
    begun = {(GUEST, "/var/tmp"): at(4), (GUEST, "/srv"): at(5), (OTHER, "/var/tmp"): at(3)}
    assert listed.last_begun(at(5)) == begun


def test_runs_of_a_clock_that_was_set_back_do_not_hide_when_the_last_one_began(listed: History) -> None:
    assert listed.last_begun(at(3.5)) == {(GUEST, "/var/tmp"): at(2), (OTHER, "/var/tmp"): at(3)}


def test_runs_that_began_at_once_are_told_apart_by_their_numbers(history: History) -> None:
    ids = [history.add(a_probe()) for _ in range(3)]
    assert [result.id for result in history.runs()] == ids[::-1]
    assert [result.id for result in history.latest()] == ids[-1:]


def test_fractions_of_a_second_are_after_the_whole_one(history: History) -> None:
    for microseconds in (5, 0, 900_000):
        history.add(a_probe(started=NOON + timedelta(microseconds=microseconds)))
    assert [result.started.microsecond for result in history.runs()] == [900_000, 5, 0]
    assert len(history.runs(until=NOON + timedelta(microseconds=5))) == 1


def test_how_far_runs_are_apart_is_told_for_each_guest_by_one_directory_and_job(history: History) -> None:
    """The median, so that neither a probe by hand nor a day without one matters."""

    def add(guest: str, *hours_ago: float, **other: Any) -> None:
        for each in hours_ago:
            began = NOON - timedelta(hours=each)
            history.add(a_probe(started=began, subject=a_subject(guest_uuid=guest, guest_name=guest), **other))

    add("a", 80, 40, 32, 24, 16, 15.9, 8)
    add("a", *(each - 0.01 for each in (80, 40, 32, 24, 16, 8)), job=JobName.WRITE)
    add("b", 50, 26, 2)
    add("once", 5)
    eight, day = timedelta(hours=8), timedelta(hours=24)
    assert history.intervals(None, NOON - timedelta(days=30), NOON) == {"a": eight, "b": day}
    assert history.intervals("b", NOON - timedelta(days=30), NOON) == {"b": day}
    assert history.intervals("b", NOON - timedelta(days=1), NOON) == {}


def test_of_postponed_probes_the_newest_of_each_guest_and_directory_is_kept(history: History) -> None:
    later = postponed(2, why=Why.NO_SLOT, facts={})
    for each in (postponed(1), later, postponed(0), postponed(0, directory="/srv"), postponed(1, guest_uuid=OTHER)):
        history.postpone(each)
    assert sorted(history.postponed(), key=lambda each: (each.guest_uuid, each.directory)) == sorted(
        [later, postponed(0, directory="/srv"), postponed(1, guest_uuid=OTHER)],
        key=lambda each: (each.guest_uuid, each.directory),
    )


class Explained(History):
    """Keeps how SQLite goes about each query."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.plan: list[str] = []

    def _rows(self, query: str, *others: Any) -> list[sqlite3.Row]:
        self.plan += [row["detail"] for row in super()._rows(f"EXPLAIN QUERY PLAN {query}", *others)]
        return super()._rows(query, *others)


@pytest.mark.parametrize(
    "ask",
    [
        History.runs,
        lambda history: history.runs(guest="nobody", job=JobName.READ, since=at(0), until=at(9), most=1),
        lambda history: history.get(1),
        History.latest,
        lambda history: history.last_begun(NOON),
        History.last_good,
        lambda history: history.streak(found(Verdict.SHORT, 0)),
    ],
)
def test_no_question_goes_through_all_rows_nor_sorts_them(path: Path, ask: Callable[[History], object]) -> None:
    """A row takes a page: 54,000 of them are 200 MB."""
    history = Explained(path)
    history.add(a_probe())
    ask(history)
    assert history.plan
    assert [step for step in history.plan if step.startswith("SCAN run") and "INDEX" not in step] == []
    assert ask is History.latest or "USE TEMP B-TREE FOR ORDER BY" not in history.plan


# --- since when

K, N, S, O, L, R, D, F = (  # noqa: E741
    Verdict.KEPT,
    Verdict.NO_LIMIT,
    Verdict.SHORT,
    Verdict.OVER_LIMIT,
    Verdict.SLOW,
    Verdict.REDUCED,
    Verdict.INCONCLUSIVE,
    Verdict.FAILED,
)


def found(verdict: Verdict, hour: float, **other: Any) -> ProbeResult:
    return a_probe(finding=Finding(verdict, Why.WITHIN), started=at(hour), **other)


@pytest.mark.parametrize(
    ("verdicts", "first", "kept"),
    [
        ([S], 0, None),
        ([K, S], 1, 0),
        ([N, L], 1, 0),
        ([K, S, O, L], 1, 0),
        ([S, K, S, S], 2, 1),
        ([K, K, S], 2, 1),
        ([K, S, D, S], 1, 0),
        ([K, S, R, S], 1, 0),
        ([K, R, S], 2, 0),
        ([K, D, S], 2, 0),
        ([K, S, D], 1, 0),
        ([K, S, F, S], 1, 0),
        ([K, F, S], 2, 0),
        ([K, S, F], 1, 0),
        ([K, F, F], 1, 0),
        ([F, D, F], 0, None),
    ],
    ids=str,
)
def test_a_streak_begins_with_the_first_run_in_trouble_after_the_last_good_one(
    history: History, verdicts: Sequence[Verdict], first: int, kept: int | None
) -> None:
    for hour, verdict in enumerate(verdicts):
        history.add(found(verdict, hour))
    last = history.runs(most=1)[0]
    assert history.streak(last) == (at(first), None if kept is None else at(kept))


@pytest.mark.parametrize("verdicts", [[K], [S, K], [S, N], [K, D], [D], [K, R], [R]], ids=str)
def test_without_trouble_there_is_no_streak(history: History, verdicts: Sequence[Verdict]) -> None:
    for hour, verdict in enumerate(verdicts):
        history.add(found(verdict, hour))
    assert history.streak(history.runs(most=1)[0]) is None


def test_a_streak_is_of_one_guest_directory_and_job_and_ends_with_the_run_that_is_asked_about(
    history: History,
) -> None:
    history.add(found(K, 0))
    for hour, other in ((1, {"subject": a_subject(guest_uuid=OTHER)}), (2, {"job": JobName.WRITE})):
        history.add(found(S, hour, **other))
        history.add(found(K, hour + 2, **other))
    history.add(found(S, 5))
    asked_about = found(S, 6)
    history.add(found(K, 7))
    assert history.streak(asked_about) == (at(5), at(0)), "though it is not in the history itself"


def test_the_first_result_of_all_may_be_a_streak(history: History) -> None:
    assert history.streak(found(S, 3)) == (at(3), None)


# --- what is removed


def fill(history: History, days: int, size: int = 10_000) -> None:
    """A run a day, the last one at noon; each of so many bytes."""
    facts = {"detail": "x" * size}
    for day in range(days):
        history.add(a_probe(started=at(-24 * day), finding=Finding(Verdict.FAILED, Why.FIO_FAILED, facts)))


def test_what_is_too_old_is_removed_and_the_file_becomes_smaller(history: History, path: Path) -> None:
    fill(history, 40)
    history.postpone(postponed(-24 * 31))
    history.postpone(postponed(-24 * 29, directory="/srv"))
    size = path.stat().st_size
    assert history.prune(at(1), 30, 256) == 10
    assert started(history.runs())[-1] == -24 * 29
    assert [each.directory for each in history.postponed()] == ["/srv"]
    assert path.stat().st_size < size * 0.85
    assert history.prune(at(1), 30, 256) == 0


def test_what_is_too_much_goes_oldest_first_and_no_more_of_it_than_must(history: History, path: Path) -> None:
    fill(history, 60, size=40_000)
    assert path.stat().st_size > 2 * 2**20
    removed = history.prune(at(1), 3660, 1)
    kept = started(history.runs())
    assert len(kept) == 60 - removed
    assert kept == [-24 * day for day in range(len(kept))]
    assert 0.9 * 2**20 < path.stat().st_size <= 2**20


def test_pruning_where_nothing_was_probed_makes_no_file(history: History, path: Path) -> None:
    assert history.prune(NOON, 90, 1) == 0
    assert not path.exists()


# --- files that are no history

Use = Callable[[History], object]
WRITERS: Sequence[Use] = (
    lambda history: history.add(a_probe()),
    lambda history: history.postpone(postponed()),
    lambda history: history.chosen([a_target()], NOON),
)
READERS: Sequence[Use] = (
    lambda history: history.get(1),
    History.runs,
    History.latest,
    lambda history: history.last_begun(NOON),
    History.postponed,
    History.last_good,
    History.chosen_targets,
    History.tallies,
    lambda history: history.streak(found(Verdict.SHORT, 0)),
)
WRONG = (b"", b"this is no database\n" * 100, b"\0" * 5000, b"SQLite format 3\0" + b"\xff" * 5000)


@pytest.mark.parametrize("use", READERS)
def test_reading_makes_no_file_and_finds_nothing(history: History, path: Path, use: Use) -> None:
    assert not use(history) or use is READERS[-1]
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("use", READERS)
@pytest.mark.parametrize("content", WRONG)
def test_who_reads_a_damaged_file_is_told_and_leaves_it(path: Path, content: bytes, use: Use) -> None:
    path.write_bytes(content)
    with pytest.raises(CorruptHistory, match=str(path)):
        use(History(path))
    assert path.read_bytes() == content


@pytest.mark.parametrize("use", [*WRITERS, lambda history: history.prune(NOON, 90, 256)])
@pytest.mark.parametrize("content", WRONG)
def test_who_writes_sets_a_damaged_file_aside_and_loses_nothing(
    path: Path, content: bytes, use: Use, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("probes.sqlite.corrupt", "probes.sqlite.corrupt.2"):
        path.write_bytes(content)
        path.with_name("probes.sqlite-journal").write_bytes(b"of a killed probe")
        use(History(path))
        assert path.with_name(name).read_bytes() == content
        assert name in caplog.messages[-1]
    kept = [*History(path).runs(), *History(path).postponed(), *History(path).chosen_targets()]
    assert len(kept) == (use in WRITERS)
    assert len(caplog.messages) == 2


@pytest.mark.parametrize("use", [*WRITERS, *READERS])
def test_a_history_of_a_newer_plimsoll_is_refused_and_kept(history: History, path: Path, use: Use) -> None:
    history.add(a_probe())
    do(path, "PRAGMA user_version = 99")
    before = path.read_bytes()
    with pytest.raises(StateError, match="newer plimsoll") as error:
        use(history)
    assert not isinstance(error.value, CorruptHistory), "it must not be set aside"
    assert path.read_bytes() == before


# --- rows that are nonsense


def put(column: str, key: str, value: object) -> str:
    """A statement that changes one place in the JSON of the first run."""
    return f"UPDATE run SET {column} = json_set({column}, '{key}', json('{json.dumps(value)}')) WHERE id = 1"


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE run SET verdict = 'of tomorrow' WHERE id = 1",
        "UPDATE run SET why = 'of tomorrow' WHERE id = 1",
        "UPDATE run SET job = 'trim' WHERE id = 1",
        "UPDATE run SET started = 'once' WHERE id = 1",
        "UPDATE run SET ended = x'ff' WHERE id = 1",
        "UPDATE run SET guest_name = CAST(x'ff' AS TEXT) WHERE id = 1",
        "UPDATE run SET facts = '[]' WHERE id = 1",
        "UPDATE run SET detail = '{}' WHERE id = 1",
        put("detail", "$.job.seconds", "30"),
        put("detail", "$.measured.engine", None),
        put("detail", "$.measured.seconds", 0),
        put("detail", "$.measured.unfinished", -1),
        put("detail", "$.measured.cpu_busy", "much"),
        put("detail", "$.measured.read.latency", [[5, 0]]),
        put("detail", "$.measured.read.latency", [[5, 1.5]]),
        put("detail", "$.measured.read.latency", [[5, 1], [4, 1]]),
        put("detail", "$.measured.read.latency", [[BUCKETS - 1, 1, 1]]),
        put("detail", "$.measured.read.bytes", 1.5),
        put("detail", "$.circumstances.before", {"total_iops_sec": -1}),
        put("detail", "$.circumstances.frozen", 0),
        put("detail", "$.circumstances.health_before", ["OSD_DOWN", ""]),
        put("detail", "$.counted", []),
    ],
    ids=lambda damage: damage[15:75],
)
def test_a_row_that_no_plimsoll_writes_costs_itself_and_is_reported(
    history: History, path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    history.add(a_probe())
    history.add(a_probe(started=at(-1), subject=a_subject(guest_uuid=OTHER)))
    do(path, damage)
    assert [result.id for result in history.runs()] == [2]
    assert [result.id for result in history.latest()] == [2]
    assert history.get(1) is None
    assert len(caplog.messages) == 3
    assert all(message.startswith(f"{path}: run 1 cannot be read (") for message in caplog.messages)
    assert (OTHER, "/var/tmp") in history.last_begun(at(1))
    assert history.streak(found(Verdict.SHORT, 1)) is not None
    assert history.add(a_probe()) == 3, "and it is no reason to set the file aside"


@pytest.mark.parametrize("damage", ["why = 'of tomorrow'", "at = 'once'", "facts = '1'", "node = x'00'"])
def test_a_postponed_probe_that_cannot_be_read_costs_itself(
    history: History, path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    history.postpone(postponed())
    history.postpone(postponed(guest_uuid=OTHER))
    do(path, f"UPDATE postponed SET {damage} WHERE guest_uuid = '{GUEST}'")
    assert history.postponed() == [postponed(guest_uuid=OTHER)]
    assert "cannot be read" in caplog.text


# --- sums of runs


def by_job(history: History) -> dict[tuple[str, str, str], Tally]:
    return {(each.guest_uuid, each.volume_type, each.job.value): each for each in history.tallies()}


def test_what_was_counted_stays_when_its_runs_are_removed(history: History, path: Path) -> None:
    for hour in range(3):
        history.add(a_probe(started=at(hour), objective=Objective(((0.99, 0.05),))))
    counted = history.tallies()
    assert [each.sums.runs for each in counted] == [{Verdict.KEPT: 3}]
    assert counted[0].sums.latency["read"].count == 3 * 7530
    assert counted[0].sums.promised == {0.99: Promise(3 * 7530, 0)}
    assert counted[0].last == at(2) + timedelta(seconds=30)
    do(path, "DELETE FROM run")
    assert History(path).tallies() == counted


def test_guests_types_and_jobs_are_counted_apart(history: History) -> None:
    history.add(a_probe())
    history.add(a_probe(subject=a_subject(guest_uuid=OTHER)))
    history.add(a_probe(subject=a_subject(volume_type=None)))
    history.add(a_probe(job=JobName.MIXED))
    history.add(a_probe(subject=a_subject(directory="/srv")))
    assert {key: each.sums.runs for key, each in by_job(history).items()} == {
        (GUEST, "gold", "read"): {Verdict.KEPT: 2},
        (OTHER, "gold", "read"): {Verdict.KEPT: 1},
        (GUEST, "", "read"): {Verdict.KEPT: 1},
        (GUEST, "gold", "mixed"): {Verdict.KEPT: 1},
    }


@fewer
@given(several=st.lists(results, min_size=1, max_size=4))
def test_whatever_was_counted_is_read_back_as_it_was(several: list[ProbeResult]) -> None:
    with tempfile.TemporaryDirectory() as name:
        history = History(Path(name) / "probes.sqlite")
        for result in several:
            history.add(result)
        expected: dict[tuple[str, str, str], Sums] = {}
        for result in several:
            tally = Tally.of(result)
            key = tally.guest_uuid, tally.volume_type, tally.job.value
            expected[key] = expected.get(key, Sums()).plus(tally.sums)
        assert {key: each.sums for key, each in by_job(history).items()} == expected


def test_a_result_that_is_not_kept_is_not_counted_either(history: History, path: Path) -> None:
    history.add(a_probe())
    do(path, "CREATE TRIGGER full BEFORE INSERT ON tally BEGIN SELECT RAISE(ABORT, 'full'); END")
    with pytest.raises(StateError, match="full"):
        history.add(a_probe())
    assert (len(history.runs()), history.tallies()[0].sums.runs) == (1, {Verdict.KEPT: 1})


def test_guests_that_were_not_run_for_long_become_nameless_and_no_sum_falls(history: History) -> None:
    others = a_subject(guest_uuid=OTHER)
    history.add(a_probe(started=at(-24 * 40), objective=Objective(((0.99, 0.05),))))
    history.add(a_probe(started=at(-24 * 35), subject=others))
    history.add(a_probe(started=at(-24), job=JobName.WRITE))
    before = Sums.together(each.sums for each in history.tallies())
    history.prune(at(0), 30, 256)
    assert set(by_job(history)) == {("", "gold", "read"), (GUEST, "gold", "write")}
    history.add(a_probe(started=at(-24 * 31), subject=others))
    history.prune(at(0), 30, 256)
    assert Sums.together(each.sums for each in history.tallies()) == before.plus(Sums.of(a_probe()))
    nameless = by_job(history)["", "gold", "read"]
    assert (nameless.guest_name, nameless.sums.runs) == ("", {Verdict.KEPT: 3})
    history.prune(at(24 * 365), 30, 256)
    assert {key[0] for key in by_job(history)} == {""}
    assert by_job(history)["", "gold", "read"] == nameless, "and it is not folded into itself"


@pytest.mark.parametrize(
    "damage",
    [
        "runs = '{\"of tomorrow\": 1}'",
        "read = '[[5, 0]]'",
        "promised = '[[0.99, 1]]'",
        "last = 'once'",
        "guest_name = CAST(x'ff' AS TEXT)",
    ],
)
def test_a_sum_that_cannot_be_read_begins_again_and_costs_no_result(
    history: History, path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    history.add(a_probe())
    history.add(a_probe(job=JobName.WRITE))
    do(path, f"UPDATE tally SET {damage} WHERE job = 'read'")
    assert [key[2] for key in by_job(history)] == ["write"]
    assert "cannot be read" in caplog.text
    assert history.add(a_probe()) == 3
    assert by_job(history)[GUEST, "gold", "read"].sums.runs == {Verdict.KEPT: 1}


# --- what is chosen


def a_target(directory: str = "/var/tmp", uuid: str = GUEST, hours: float = 6) -> PlannedTarget:
    probing = Probing(timedelta(hours=hours), ("read", "mixed"))
    return PlannedTarget(
        Guest(uuid=uuid, name="instance-00000001", run="1"), directory, "canaries", node="node1", probing=probing
    )


def test_what_is_chosen_is_read_back_with_how_often_and_since_when(history: History) -> None:
    history.chosen([a_target()], at(1))
    jobs = (JobName.READ, JobName.MIXED)
    six = timedelta(hours=6)
    assert history.chosen_targets() == (
        ChosenTarget(
            guest_uuid=GUEST,
            guest_name="instance-00000001",
            directory="/var/tmp",
            rule="canaries",
            jobs=jobs,
            every=six,
            since=at(1),
            seen=at(1),
        ),
    )


def test_it_is_chosen_since_the_first_time_unless_it_was_not_chosen_in_between(history: History) -> None:
    history.chosen([a_target(), a_target("/srv")], at(0))
    history.chosen([a_target(hours=1)], at(1))
    history.chosen([a_target(), a_target("/srv")], at(2))
    found = {each.directory: (each.since, each.seen, each.every) for each in history.chosen_targets()}
    six = timedelta(hours=6)
    assert found == {"/var/tmp": (at(0), at(2), six), "/srv": (at(2), at(2), six)}
    history.chosen([], at(3))
    assert history.chosen_targets() == ()


def test_a_guest_that_could_not_be_looked_at_stays_what_it_was(history: History) -> None:
    history.chosen([a_target(), a_target(uuid=OTHER)], at(0))
    history.chosen([], at(1), unsure=[OTHER, "another"])
    assert [(each.guest_uuid, each.seen) for each in history.chosen_targets()] == [(OTHER, at(0))]
    history.chosen([a_target(uuid=OTHER)], at(2), unsure=[OTHER])
    assert [(each.since, each.seen) for each in history.chosen_targets()] == [(at(0), at(2))]


def test_where_nothing_is_chosen_and_nothing_was_probed_no_file_is_made(history: History, path: Path) -> None:
    history.chosen([], NOON)
    assert not path.exists()


@pytest.mark.parametrize("damage", ["jobs = '[\"trim\"]'", "every = 'often'", "every = -1.0", "since = 'once'"])
def test_a_target_that_cannot_be_read_costs_itself_until_it_is_chosen_again(
    history: History, path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    history.chosen([a_target(), a_target("/srv")], at(0))
    do(path, f"UPDATE chosen SET {damage} WHERE directory = '/srv'")
    assert [each.directory for each in history.chosen_targets()] == ["/var/tmp"]
    assert "cannot be read" in caplog.text
    history.chosen([a_target(), a_target("/srv")], at(1))
    assert [(each.directory, each.since) for each in history.chosen_targets()] == [
        ("/srv", at(1)),
        ("/var/tmp", at(0)),
    ]


def test_the_last_good_run_is_the_newest_that_kept_its_promise_or_had_none(history: History) -> None:
    end = timedelta(seconds=30)
    for hour, verdict in enumerate([Verdict.KEPT, Verdict.NO_LIMIT, Verdict.SHORT, Verdict.FAILED]):
        history.add(found(verdict, hour))
    history.add(found(Verdict.KEPT, 0, subject=a_subject(directory="/srv")))
    history.add(found(Verdict.SHORT, 0, job=JobName.WRITE))
    assert history.last_good() == {
        (GUEST, "/var/tmp", JobName.READ): at(1) + end,
        (GUEST, "/srv", JobName.READ): at(0) + end,
    }


# --- the version before


@pytest.fixture
def old(path: Path) -> History:
    return History(Path(shutil.copyfile(OF_0_1_0 / "probes.sqlite", path)))


def test_the_version_in_the_table_of_state_files_is_the_one_that_is_written() -> None:
    assert PROBES.version == PROBES_SHOWN.version == SCHEMA_VERSION


FIRST, WEB = datetime(2026, 11, 23, 4, tzinfo=UTC), "00000001-0000-4000-8000-000000000000"


def test_a_history_of_0_1_0_is_read_by_the_words_of_today_and_not_touched(old: History) -> None:
    before = old.path.read_bytes()
    runs = old.runs(guest="instance-00000001")
    assert [(run.finding.verdict, run.finding.why) for run in reversed(runs)] == [
        (Verdict.KEPT, Why.WITHIN),
        (Verdict.OVER_LIMIT, Why.NOT_SET),
        (Verdict.INCONCLUSIVE, Why.LIMITS_UNKNOWN),
        (Verdict.FAILED, Why.AGENT_TIMED_OUT),
        (Verdict.FAILED, Why.NOT_FOUND),
    ]
    assert runs[3].finding.facts["actual"] == {"total_iops_sec": 900}
    at_250, first = Limits(total_iops_sec=250), runs[-1]
    read = Flow(
        operations=7500,
        bytes=7500 * 16384,
        latency=Histogram(((300, 7000), (301, 490), (420, 10))),
        latency_max=90_000_000,
    )
    assert first.measured == Measured(
        seconds=30.0, read=read, write=None, unfinished=8, fio="fio-3.33", engine="libaio", cpu_busy=0.25
    )
    assert first.counted == QemuCounts(
        seconds=30.0,
        read_operations=7508,
        write_operations=3,
        read_bytes=7508 * 16384,
        write_bytes=4096,
        last_rate=250.0,
    )
    unwell = Health(("OSD_DOWN",), "1 osds down")
    assert first.circumstances == Circumstances(
        promised=at_250, before=at_250, after=at_250, health_before=Health(()), health_after=unwell
    )
    assert (first.job, first.objective, first.rule) == (
        Job(name=JobName.READ),
        Objective(((0.99, 0.02),)),
        "gold guests",
    )
    assert (first.node, first.subject.volume_type, first.started) == ("compute-1", "gold", FIRST)
    (tally,) = old.tallies()
    runs_by_verdict = {Verdict.KEPT: 1, Verdict.OVER_LIMIT: 1, Verdict.INCONCLUSIVE: 1, Verdict.FAILED: 2}
    assert (tally.sums.runs, tally.sums.latency["read"].count) == (runs_by_verdict, 3 * 7500)
    (chosen,) = old.chosen_targets()
    assert (chosen.guest_uuid, chosen.every, chosen.since) == (WEB, timedelta(hours=6), FIRST)
    assert [(each.guest_name, each.why) for each in old.postponed()] == [("instance-00000002", Why.UNHEALTHY)]
    assert old.last_good() == {(WEB, "/var/tmp", JobName.READ): FIRST + timedelta(seconds=30)}
    assert old.path.read_bytes() == before


@pytest.mark.parametrize("use", [*WRITERS, lambda history: history.prune(NOON, 90, 256)])
def test_whoever_writes_a_history_of_0_1_0_makes_it_what_a_new_one_is(old: History, tmp_path: Path, use: Use) -> None:
    before = old.runs()
    use(old)
    new = tmp_path / "new.sqlite"
    History(new).add(a_probe())
    tables = "SELECT name, replace(replace(sql, ' ', ''), char(10), '') FROM sqlite_master ORDER BY name"
    assert asked(old.path, tables) == asked(new, tables)
    assert asked(old.path, "PRAGMA user_version") == [(SCHEMA_VERSION,)]
    assert asked(old.path, "SELECT DISTINCT verdict FROM run WHERE id = 3") == [("inconclusive",)]
    assert [run for run in old.runs() if run in before] == before


def test_what_was_inconclusive_as_limits_were_reduced_is_reduced_from_the_next_write_on(history: History) -> None:
    """In a file of version 4, whose reader did not know the verdict."""
    for why in (Why.REDUCED, Why.FROZEN):
        history.add(a_probe(finding=Finding(Verdict.INCONCLUSIVE, why)))
    do(history.path, "PRAGMA user_version = 4")
    assert [run.finding.why for run in history.runs()] == [Why.FROZEN, Why.REDUCED]
    history.add(a_probe())
    verdicts = [run.finding.verdict for run in history.runs()]
    assert verdicts == [Verdict.KEPT, Verdict.INCONCLUSIVE, Verdict.REDUCED]
    (tally,) = history.tallies()
    assert tally.sums.runs == {Verdict.INCONCLUSIVE: 2, Verdict.KEPT: 1}


# --- rights and room


def test_another_user_who_may_read_the_file_reads_it_and_is_told_when_writing() -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "probes.sqlite"
        History(path).add(a_probe())
        path.chmod(0o444)
        path.parent.chmod(0o555)
        with as_nobody():
            assert len(History(path).latest()) == 1
            for use in WRITERS:
                with pytest.raises(StateError, match=f"^{path}: .*readonly"):
                    use(History(path))
        path.parent.chmod(0o755)
        path.unlink()
        path.parent.chmod(0o555)
        with as_nobody(), pytest.raises(StateError, match=f"^{path}: Permission denied"):
            History(path).add(a_probe())
        path.parent.chmod(0o755)


def test_a_full_disk_is_a_sentence_and_costs_nothing_that_was_kept(history: History, path: Path) -> None:
    history.add(a_probe())
    size = path.stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    facts = {"detail": "x" * 100_000}
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        with pytest.raises(StateError, match=f"^{path}: disk I/O error|full"):
            history.add(a_probe(finding=Finding(Verdict.FAILED, Why.FIO_FAILED, facts)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [result.id for result in history.runs()] == [1]
    assert history.add(a_probe()) == 2


# --- what checks are shown


def answers(history: History, now: datetime) -> list[object]:
    """All that check_plimsoll, status and metrics ask."""
    latest = history.latest()
    return [
        latest,
        [history.streak(each) for each in latest],
        history.last_begun(now),
        history.last_good(),
        history.postponed(),
        history.chosen_targets(),
        history.tallies(),
    ]


@given(
    runs=st.lists(
        st.tuples(
            st.sampled_from([(guest, job) for guest in (1, 2) for job in (JobName.READ, JobName.WRITE)]),
            st.sampled_from([*Verdict]),
            st.integers(-3, 30),
        ),
        max_size=25,
        unique_by=lambda run: (run[0], run[2]),
    )
)
@fewer
def test_what_is_shown_answers_checks_as_the_history_does(
    tmp_path_factory: pytest.TempPathFactory, runs: list[tuple[tuple[int, JobName], Verdict, int]]
) -> None:
    """Two of the hours are still to come, as after a clock that was set back."""
    path = tmp_path_factory.mktemp("shown") / "probes.sqlite"
    history = History(path)
    for (guest, job), verdict, hours in runs:
        subject = a_subject(guest_uuid=f"{guest:08x}-0000-4000-8000-000000000000")
        history.add(a_probe(job=job, subject=subject, started=at(-hours), finding=a_finding(verdict)))
    history.postpone(postponed())
    history.show(NOON)
    shown = History(path.with_name("probes-latest.sqlite"))
    assert answers(shown, NOON) == answers(history, NOON)
    assert [each.id for each in shown.latest()] == [each.id for each in history.latest()]


def test_what_is_shown_stays_short_however_long_the_history_is(history: History, path: Path) -> None:
    for hours in range(60):
        verdict = Verdict.SHORT if hours < 50 else Verdict.KEPT
        history.add(a_probe(started=at(-hours), finding=a_finding(verdict)))
    history.show(NOON)
    assert len(History(path.with_name("probes-latest.sqlite")).runs()) == 3


def test_nothing_is_shown_of_nothing(history: History, path: Path) -> None:
    history.show(NOON)
    assert [*path.parent.iterdir()] == []


def test_who_may_not_read_the_history_reads_what_is_shown_of_it() -> None:
    with tempfile.TemporaryDirectory() as name:
        state = State(Path(name))
        history = History(state.probes)
        history.add(a_probe())
        Path(name).chmod(0o755)
        with as_nobody(), pytest.raises(StateError, match="only its owner and root may read it"):
            readable(state).latest()
        history.show(NOON)
        assert readable(state).path == state.probes
        state.probes_shown.chmod(0o644)
        with as_nobody():
            assert readable(state).path == state.probes_shown
            assert len(readable(state).latest()) == 1
