"""Probes in words: what people read stands in data/probe_words.txt, and no guest can speak to a terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from plimsoll_agent.model.limits import Limits
from plimsoll_agent.util.frozen import replace
from plimsoll_probes.model.finding import Finding, Verdict, Why
from plimsoll_probes.model.job import Job, JobName
from plimsoll_probes.model.result import Circumstances, Flow, Health, Measured
from plimsoll_probes.output import messages, serialize
from tests.unit.results import HOSTILE, KEPT_UNTIL, MS, SINCE, a_finding, a_flow, a_measurement, a_probe, a_subject
from tests.unit.values import NOON, golden

WORDS = Path(__file__).parents[2] / "data" / "probe_words.txt"

LIMIT = Limits(total_iops_sec=250)
ACTUAL = Circumstances(promised=LIMIT, before=LIMIT, after=LIMIT)
DOWN = Health(("OSD_DOWN",), "1 osds down")
WELL = Health((), "")

DETAIL = {"detail": "what was said"}
FACTS: Mapping[Why, Mapping[str, object]] = {
    Why.WITHIN: {"parameter": "total_iops_sec", "allowed": 7525.0, "done": 7530},
    Why.CLUSTER_SHORT: {"parameter": "total_iops_sec", "allowed": 7500.0, "done": 2850},
    Why.NOT_SET: {"parameter": "total_iops_sec", "allowed": 7500.0, "done": 90000, "actual": Limits()},
    Why.TOO_MUCH: {"parameter": "total_iops_sec", "allowed": 7500.0, "done": 8100},
    Why.OBJECTIVE_MISSED: {"direction": "write", "quantile": 0.99, "objective": 0.05, "measured": 0.066},
    Why.LIMITS_CHANGED: {"before": {"total_iops_sec": 250}, "after": {"total_iops_sec": 500}},
    Why.LIMITS_UNKNOWN: {"detail": "promised, after"},
    Why.REDUCED: {"promised": {"total_iops_sec": 500}, "actual": {"total_iops_sec": 250}},
    Why.GUEST_BUSY: {"busy": 0.97},
    Why.TOO_SHALLOW: {"in_flight": 8, "needed": 0.0004},
    Why.AGENT_TIMED_OUT: DETAIL,
    Why.EXEC_FORBIDDEN: DETAIL,
    Why.NOT_SUPPORTED: DETAIL,
    Why.NO_SPACE: {"directory": "/var/tmp", "free": 700 * 2**20, "needed": 1536 * 2**20},
    Why.NOT_WRITABLE: {"directory": "/srv", "detail": "Read-only file system"},
    Why.NO_DISK: {"directory": "/srv", "device": "tmpfs"},
    Why.FILL_UNFINISHED: {"seconds": 90},
    Why.FIO_FAILED: DETAIL,
    Why.UNFINISHED: {"seconds": 90, "done": 412, "unfinished": 8},
    Why.NONSENSE: DETAIL,
    Why.CONTRADICTED: {"said": 7500, "counted": 12},
    Why.UNREACHABLE: DETAIL,
    Why.NOT_REACHED: {"after": "rebooted"},
    Why.UNHEALTHY: {"detail": "OSD_DOWN"},
    Why.NO_SLOT: {"detail": "3 of 3 are taken"},
}


def reasons() -> list[str]:
    facts = {why: FACTS.get(why, {}) | {"limit": 250} for why in Why}
    below_the_wait = FACTS[Why.OBJECTIVE_MISSED] | {"wait": 0.064}
    started_nothing = DETAIL | {"enabled": True}
    return [
        f"objective-missed: {messages.why_words(Why.OBJECTIVE_MISSED, below_the_wait)}",
        f"exec-forbidden: {messages.why_words(Why.EXEC_FORBIDDEN, started_nothing)}",
    ] + [f"{why}: {messages.why_words(why, facts[why])}" for why in Why]


def verdicts() -> list[str]:
    def said(verdict: Verdict, why: Why, health: Health | None = WELL, **facts: object) -> str:
        circumstances = replace(ACTUAL, health_before=WELL, health_after=health)
        finding = Finding(verdict, why, facts or FACTS.get(why, {}))
        return messages.verdict_words(a_probe(finding=finding, circumstances=circumstances), (SINCE, KEPT_UNTIL))

    stalled = {"direction": "read", "quantile": 0.999, "objective": 1, "measured": 17.112760320}
    shared = {"detail": "group_name bronze"}
    slowest = {"direction": "read", "quantile": 1.0, "objective": 1, "measured": 31.25}
    return [
        said(Verdict.KEPT, Why.WITHIN),
        said(Verdict.KEPT, Why.WITHIN, parameter="total_iops_sec", allowed=7525.0, done=7530.0, own=4000.0),
        said(Verdict.NO_LIMIT, Why.UNLIMITED),
        said(Verdict.SHORT, Why.CLUSTER_SHORT, DOWN),
        said(Verdict.SHORT, Why.CLUSTER_SHORT, WELL),
        said(Verdict.SHORT, Why.CLUSTER_SHORT, Health(None, "no answer within 5 s")),
        said(Verdict.SHORT, Why.CLUSTER_SHORT, None),
        said(Verdict.SHORT, Why.CLUSTER_SHORT, WELL, parameter="total_iops_sec", allowed=7500.0, done=7100),
        said(Verdict.SHORT, Why.CLUSTER_SHORT, WELL, parameter="total_iops_sec", allowed=7500.0, done=12),
        said(Verdict.SLOW, Why.OBJECTIVE_MISSED, DOWN),
        said(Verdict.SLOW, Why.OBJECTIVE_MISSED, WELL, **slowest),
        said(Verdict.SLOW, Why.OBJECTIVE_MISSED, WELL, **stalled),
        said(Verdict.OVER_LIMIT, Why.NOT_SET),
        said(Verdict.OVER_LIMIT, Why.TOO_MUCH),
        said(Verdict.INCONCLUSIVE, Why.FROZEN),
        said(Verdict.INCONCLUSIVE, Why.LIMITS_UNKNOWN, WELL, **shared),
        said(Verdict.FAILED, Why.UNFINISHED, DOWN),
        said(Verdict.FAILED, Why.UNFINISHED, WELL, seconds=90),
        said(Verdict.FAILED, Why.NO_FIO),
    ]


def lines() -> list[str]:
    stalled = a_measurement(reads=a_flow([20_000 * MS] * 3, 31_250 * MS), unfinished=8)
    few = a_measurement(reads=a_flow([41 * MS] * 120))
    failed = replace(a_probe(job=JobName.MIXED, finding=a_finding(Verdict.FAILED, Why.NO_FIO)), measured=None)
    short = a_finding(Verdict.SHORT, Why.CLUSTER_SHORT, **FACTS[Why.CLUSTER_SHORT])
    down = replace(ACTUAL, health_before=WELL, health_after=DOWN)
    return [
        messages.result_line(a_probe(circumstances=ACTUAL)),
        messages.result_line(a_probe(circumstances=ACTUAL, job=JobName.MIXED), bar="████"),
        messages.result_line(a_probe(measured=few, finding=short, circumstances=down), (SINCE, KEPT_UNTIL)),
        messages.result_line(a_probe(measured=stalled, finding=short, circumstances=down), (SINCE, None)),
        messages.result_line(failed),
    ]


SECTIONS: Mapping[str, Callable[[], list[str]]] = {"reasons": reasons, "verdicts": verdicts, "lines": lines}


@pytest.mark.parametrize("section", SECTIONS)
def test_people_read_what_the_golden_file_says(section: str) -> None:
    assert SECTIONS[section]() == golden(WORDS)[section]


@pytest.mark.parametrize("why", Why)
def test_a_reason_out_of_the_history_reads_as_when_it_was_new(why: Why) -> None:
    facts = FACTS.get(why, {}) | {"limit": 250}
    stored = json.loads(json.dumps(serialize.facts_data(facts)))
    assert messages.why_words(why, stored) == messages.why_words(why, facts)


@pytest.mark.parametrize("why", Why)
def test_a_reason_without_its_facts_is_told_by_its_code(why: Why) -> None:
    for facts in ({}, dict.fromkeys(FACTS.get(why, {}), "odd"), dict.fromkeys(FACTS.get(why, {}), None)):
        said = messages.why_words(why, facts)
        assert said
        assert "{" not in said
    if FACTS.get(why):
        assert messages.why_words(why, {}) == str(why)


@pytest.mark.parametrize("why", Why)
def test_no_guest_speaks_to_the_terminal_through_a_reason(why: Why) -> None:
    texts = {name: HOSTILE * 99 if isinstance(fact, str) else fact for name, fact in FACTS.get(why, {}).items()}
    said = messages.why_words(why, texts)
    assert said.isprintable()
    assert len(said) < 1000, "a guest may say much, and nobody wants to read it"


def test_no_name_speaks_to_the_terminal_through_a_line() -> None:
    hostile = a_subject(display_name=HOSTILE, guest_name=HOSTILE)
    health = replace(ACTUAL, health_after=Health((HOSTILE,), HOSTILE), health_before=None)
    result = a_probe(
        subject=hostile,
        finding=a_finding(Verdict.SHORT, Why.CLUSTER_SHORT, parameter=HOSTILE, allowed=1, done=1),
        circumstances=health,
    )
    assert messages.result_line(result).isprintable()


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1_000, "1.0 µs"),
        (9_949, "9.9 µs"),
        (9_960, "10 µs"),
        (850_400, "850 µs"),
        (999_600, "1.0 ms"),
        (41 * MS, "41 ms"),
        (1_900 * MS, "1.9 s"),
        (999_499_999, "999 ms"),
        (999_500_000, "1.0 s"),
        (31_250 * MS, "31 s"),
        (1_234_567 * MS, "1235 s"),
    ],
)
def test_a_latency_has_the_unit_that_a_person_would_take(nanoseconds: int, text: str) -> None:
    assert messages.latency_words(nanoseconds) == text


def test_what_is_unknown_is_a_dash_and_never_0() -> None:
    nothing = Measured(
        seconds=30.0,
        read=None,
        write=Flow(operations=0, bytes=0, latency=a_flow([]).latency, latency_max=0),
        unfinished=0,
        fio="fio-3.33",
        engine="libaio",
        cpu_busy=None,
    )
    assert "p99 -" in messages.figures_words(nothing)
    assert messages.share_words(None) == "-"
    assert messages.limits_words(None) == "unknown"
    assert messages.limits_words(Limits()) == "unlimited"


def test_the_end_of_the_last_good_run_has_its_date_where_it_was_another_day() -> None:
    first = datetime(2026, 11, 20, 0, 5, tzinfo=UTC)
    assert messages.since_words((first, first - timedelta(minutes=4))).endswith("(kept until 00:01)")
    assert messages.since_words((first, first - timedelta(minutes=9))).endswith("(kept until 2026-11-19 23:56 UTC)")


def test_a_cluster_that_was_unhealthy_only_when_the_run_began_is_not_called_well() -> None:
    assert "OSD_DOWN" in messages.ceph_words(Circumstances(health_before=DOWN, health_after=WELL))
    silent = Health(None, "no answer")
    assert "unknown" in messages.ceph_words(Circumstances(health_before=silent, health_after=WELL))
    assert "unknown" in messages.ceph_words(Circumstances(health_before=WELL, health_after=silent))


def test_a_limit_that_is_not_actual_is_told_by_what_was_promised() -> None:
    looser = Limits(total_iops_sec=3000)
    finding = a_finding(Verdict.OVER_LIMIT, Why.NOT_SET, **{**FACTS[Why.NOT_SET], "actual": looser})
    said = messages.verdict_words(
        a_probe(finding=finding, circumstances=Circumstances(promised=LIMIT, before=looser, after=looser))
    )
    assert "of the promised limit 250 IOPS, but QEMU has total_iops_sec 3000" in said


def test_the_parameters_of_a_job_are_told_in_a_line() -> None:
    assert messages.job_words(Job(name=JobName.MIXED, read_percent=70)) == (
        "random read and write, 70 % reads, 16 KiB, 4 × 2 in flight, 30 s, file of 1 GiB"
    )


def test_a_kept_promise_has_no_since_and_a_broken_one_has(tmp_path: Path) -> None:
    streak = (NOON, None)
    assert "since" not in messages.verdict_words(a_probe(), streak)
    short: Any = a_finding(Verdict.SHORT, Why.CLUSTER_SHORT, **FACTS[Why.CLUSTER_SHORT])
    assert messages.verdict_words(a_probe(finding=short), streak).endswith("since 2026-11-20 12:00 UTC")
