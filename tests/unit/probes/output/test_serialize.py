"""Probes as plain data: what a program that reads ``-f json`` may rely on."""

from __future__ import annotations

import json
from datetime import timedelta, timezone
from typing import Any

from plimsoll_agent.model.limits import Limits
from plimsoll_agent.util.frozen import replace
from plimsoll_probes.evaluate.compare import compare
from plimsoll_probes.model.finding import Verdict, Why
from plimsoll_probes.model.histogram import Histogram
from plimsoll_probes.model.job import JobName
from plimsoll_probes.model.result import Circumstances, Health, Postponed, QemuCounts
from plimsoll_probes.output import serialize
from tests.unit.results import HOSTILE, KEPT_UNTIL, MS, SINCE, a_finding, a_flow, a_measurement, a_probe, a_subject
from tests.unit.values import NOON


def data(*args: Any, **options: Any) -> Any:
    """As a program reads it."""
    return json.loads(json.dumps(serialize.result_data(*args, **options), allow_nan=False))


def test_latencies_are_in_seconds_with_both_bounds() -> None:
    read = data(a_probe(measured=a_measurement(a_flow([41 * MS] * 99 + [66 * MS]))))["measured"]["read"]
    p99 = read["latency"]["p99"]
    assert p99["lower"] <= 0.041 < p99["upper"]
    assert p99["lower"] <= p99["value"] < p99["upper"]
    assert p99["saturated"] is False
    assert read["latency"]["max"] == 0.066
    assert list(read["latency"]) == ["p50", "p90", "p95", "p99", "p99.9", "p99.99", "max"]
    assert read["iops"] == 100 / 30


def test_a_saturated_latency_has_no_value_and_no_upper_bound_and_the_exact_maximum_beside_it() -> None:
    stalled = a_measurement(a_flow([41 * MS, 20_000 * MS], 31_250 * MS), unfinished=3)
    measured = data(a_probe(measured=stalled))["measured"]
    worst = measured["read"]["latency"]["p99"]
    assert (worst["value"], worst["upper"], worst["saturated"]) == (None, None, True)
    assert 17.04 < worst["lower"] < 17.05
    assert measured["read"]["latency"]["max"] == 31.25
    assert (measured["read"]["saturated"], measured["unfinished"]) == (1, 3)


def test_the_buckets_are_those_of_the_histogram_and_only_told_when_asked_for() -> None:
    result = a_probe(measured=a_measurement(a_flow([1, 1, 41 * MS, 20_000 * MS])))
    assert "histogram_ns" not in data(result)["measured"]["read"]
    buckets = data(result, histograms=True)["measured"]["read"]["histogram_ns"]
    assert buckets[0] == [1, 2, 2]
    assert buckets[1][0] <= 41 * MS < buckets[1][1]
    assert buckets[2][1:] == [None, 1]
    rebuilt = Histogram.of([lower for lower, _, count in buckets for _ in range(count)])
    assert result.measured is not None
    assert rebuilt == result.measured.latency


def test_what_was_not_measured_is_null_and_never_0() -> None:
    assert data(replace(a_probe(), measured=None))["measured"] is None
    idle = data(a_probe(job=JobName.WRITE, measured=a_measurement(None, a_flow([]))))["measured"]
    assert idle["read"] is None
    assert idle["both"] is None
    assert idle["write"]["latency"]["p99"] is None
    assert idle["write"]["latency"]["max"] is None


def test_what_is_unknown_is_told_from_what_is_unlimited_and_from_what_was_not_asked() -> None:
    met = data(
        a_probe(circumstances=Circumstances(promised=Limits(), health_before=Health(None, "no answer"), before=None))
    )["circumstances"]
    assert (met["promised"], met["before"]) == ({}, None)
    assert met["health_before"] == {"raised": None, "detail": "no answer"}
    assert met["health_after"] is None


def test_times_are_in_utc_whatever_the_clock_says() -> None:
    elsewhere = NOON.astimezone(timezone(timedelta(hours=9)))
    told = data(a_probe(started=elsewhere), streak=(SINCE, KEPT_UNTIL))
    assert told["started"] == "2026-11-20T12:00:00+00:00"
    assert (told["since"], told["kept_until"]) == ("2026-11-20T09:13:00+00:00", "2026-11-20T09:01:00+00:00")
    assert data(a_probe(), streak=(SINCE, None))["kept_until"] is None


def test_names_of_others_go_out_whole_and_facts_of_every_kind_are_json() -> None:
    facts = {"limits": Limits(total_iops_sec=250), "at": NOON, "has": ("a", HOSTILE), "deep": {"x": {1: None}}}
    finding = a_finding(Verdict.SHORT, Why.CLUSTER_SHORT, **facts)
    told = data(a_probe(subject=a_subject(guest_name=HOSTILE), finding=finding))
    assert told["guest"] == HOSTILE
    assert told["facts"]["limits"] == {"total_iops_sec": 250}
    assert told["facts"]["has"] == ["a", HOSTILE]
    assert (told["verdict"], told["why"]) == ("short", "cluster-short")


def test_what_the_host_counted_is_told_by_direction() -> None:
    counted = data(
        a_probe(
            counted=QemuCounts(
                seconds=30.5, read_operations=1, write_operations=2, read_bytes=3, write_bytes=4, last_rate=250.5
            )
        )
    )["counted"]
    assert counted == {
        "seconds": 30.5,
        "read_operations": 1,
        "write_operations": 2,
        "read_bytes": 3,
        "write_bytes": 4,
        "last_rate": 250.5,
    }


def test_a_comparison_with_nothing_is_null_where_it_would_be_a_number() -> None:
    alone = json.loads(json.dumps(serialize.comparison_data(compare(a_probe(), []))))
    assert (alone["then"], alone["iops_ratio"], alone["latency"]) == (None, None, [])
    before = a_probe(started=NOON - timedelta(days=1), iops=502)
    both = json.loads(json.dumps(serialize.comparison_data(compare(a_probe(), [before]))))
    assert both["iops_ratio"] == 0.5
    assert both["span"] == 604800
    assert both["verdicts"] == {"kept": 1}
    assert {row["quantile"] for row in both["latency"]} == {"p50", "p90", "p95", "p99", "p99.9", "p99.99"}


def test_a_postponed_probe_tells_who_and_why() -> None:
    postponed = Postponed(
        at=NOON,
        node="node1",
        guest_uuid="u",
        guest_name="g",
        directory="/srv",
        why=Why.UNHEALTHY,
        facts={"detail": "OSD_DOWN"},
    )
    assert serialize.postponed_data(postponed) == {
        "at": "2026-11-20T12:00:00+00:00",
        "node": "node1",
        "guest": "g",
        "guest_uuid": "u",
        "directory": "/srv",
        "why": "unhealthy",
        "facts": {"detail": "OSD_DOWN"},
    }
