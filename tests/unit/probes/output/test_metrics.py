"""What probes found, as Prometheus reads it: the text is parsed again, as node_exporter does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from math import ceil, inf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from prometheus_client.core import Sample
from prometheus_client.parser import text_string_to_metric_families

from plimsoll_agent.monitor.prometheus_text import Family, text
from plimsoll_agent.rules.model import Objective
from plimsoll_agent.util.frozen import replace
from plimsoll_probes.model.finding import Finding, Verdict, Why
from plimsoll_probes.model.histogram import BUCKETS, LAST, Histogram, bucket_of, edges
from plimsoll_probes.model.job import JobName
from plimsoll_probes.model.result import Postponed, ProbeResult
from plimsoll_probes.output import metrics
from plimsoll_probes.schedule.targets import ChosenTarget
from plimsoll_probes.store.history import History
from plimsoll_probes.store.tally import Promise, Sums, Tally
from tests.unit.results import MS, a_finding, a_flow, a_measurement, a_probe, a_subject
from tests.unit.values import GUEST, NOON, examples

GOLDEN = Path(__file__).parents[2] / "data" / "probe_metrics.prom"
OTHER = "22222222-2222-4222-8222-222222222222"
GONE = "33333333-3333-4333-8333-333333333333"
NOW = NOON + timedelta(hours=1)
HOSTILE = ['a"} 1\nb 2', "\\", 'x\\"', "\r\x00\x1b[2J", "\ud800", "\u2028", "ñ☃", "n" * 10_000, "# TYPE x", ""]
P99 = Objective(((0.99, 0.05),))


def a_target(**other: Any) -> ChosenTarget:
    values = {
        "guest_uuid": GUEST,
        "guest_name": "instance-00000001",
        "directory": "/var/tmp",
        "rule": "canaries",
        "jobs": (JobName.READ, JobName.WRITE),
        "every": timedelta(hours=6),
        "since": NOON - timedelta(days=1),
        "seen": NOON,
    }
    return ChosenTarget(**values | other)


def postponed(at: datetime, **other: Any) -> Postponed:
    values = {"guest_uuid": OTHER, "guest_name": "instance-00000002", "directory": "/srv", "why": Why.UNHEALTHY}
    return Postponed(**{"at": at, "node": "node1", "facts": {}} | values | other)


def ago(result: ProbeResult, **time: float) -> ProbeResult:
    span = timedelta(**time)
    return replace(result, started=result.started - span, ended=result.ended - span)


def of(
    results: Sequence[ProbeResult] = (),
    postponed: Sequence[Postponed] = (),
    chosen: Sequence[ChosenTarget] = (),
    tallies: Iterable[Tally] | None = None,
    *,
    detail: str = "disk",
    now: datetime = NOW,
    last_good: Any = None,
    by_timetable: bool = True,
    **other: Any,
) -> list[Family]:
    """With the tallies of just these results, unless others are given."""
    counted = [*map(Tally.of, results)] if tallies is None else tallies
    said = {"detail": detail, "now": now, "by_timetable": by_timetable} | other
    return [*metrics.families(results, postponed, chosen, counted, last_good or {}, **said)]


def samples(families: Iterable[Family]) -> list[Sample]:
    """As they are read from the text."""
    return [sample for family in text_string_to_metric_families(text(families)) for sample in family.samples]


def named(families: Iterable[Family], name: str) -> dict[tuple[str, ...], float]:
    """The values of a metric's series, by those of their labels in the order of these."""
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for sample in samples(families)
        if sample.name == f"plimsoll_probe_{name}"
    }


# --- all of it


def example() -> list[Family]:
    """A guest whose writes are short, one that was never probed, and one that has left."""
    read = a_probe(objective=P99)
    slow_writes = a_measurement(None, a_flow([3 * MS] * 600 + [700 * MS] * 20 + [18 * 10**9]))
    write = a_probe(
        job=JobName.WRITE,
        started=NOON + timedelta(minutes=1),
        finding=a_finding(Verdict.SHORT, Why.CLUSTER_SHORT, parameter="total_iops_sec", allowed=7500.0, done=621),
        measured=slow_writes,
        objective=P99,
    )
    left = ago(a_probe(subject=a_subject(guest_uuid=GONE, guest_name="instance-00000003"), objective=P99), days=8)
    chosen = a_target(guest_uuid=OTHER, guest_name="instance-00000002", directory="/srv")
    return of(
        [read, write, left],
        [postponed(NOON + timedelta(minutes=30))],
        [a_target(), chosen],
        last_good={(GUEST, "/var/tmp", JobName.READ): read.ended},
    )


def test_the_text_is_the_golden_one() -> None:
    assert text(example()) == GOLDEN.read_text(), "look at each line that differs, then copy it there"


def test_large_sites_keep_aggregates_by_volume_type_only() -> None:
    runs = [a_probe(objective=P99), a_probe(objective=P99, subject=a_subject(guest_uuid=OTHER, volume_type=None))]
    families = of([*runs, ago(runs[0], days=90)], chosen=[a_target()], detail="aggregate")
    assert {tuple(sorted(set(sample.labels) - {"le"})) for sample in samples(families)} == {
        (),
        ("volume_type",),
        ("verdict", "volume_type"),
        ("probe", "verdict", "volume_type"),
        ("direction", "probe", "volume_type"),
        ("objective", "volume_type"),
    }
    counted = named(families, "runs_total")
    assert counted["read", "kept", "gold"] == 2, "guests that are long gone among them"
    assert counted["read", "kept", ""] == 1
    assert named(families, "latency_seconds_count") == {("read", "read", "gold"): 15060, ("read", "read", ""): 7530}
    assert named(families, "objective_requests_total") == {("0.99", "gold"): 15060, ("0.99", ""): 7530}


def test_a_node_on_which_nothing_was_probed_says_when_it_said_so() -> None:
    assert text(of()).splitlines()[2:] == ["plimsoll_probe_written_timestamp_seconds 1.7951796e+09"]


# --- whom they tell of


def guests(families: Iterable[Family]) -> set[str]:
    return {sample.labels["uuid"] for sample in samples(families) if "uuid" in sample.labels}


def test_a_guest_is_shown_while_it_is_chosen_and_a_week_after_its_last_run() -> None:
    old, recent = ago(a_probe(), days=8), ago(a_probe(subject=a_subject(guest_uuid=OTHER)), days=6)
    assert guests(of([old, recent])) == {OTHER}
    assert guests(of([old, recent], chosen=[a_target()])) == {GUEST, OTHER}
    assert guests(of([], chosen=[a_target()])) == {GUEST}, "though it was never probed"


def test_a_job_that_the_rules_no_longer_want_is_forgotten_after_a_week_though_the_guest_is_chosen() -> None:
    """Its last verdict would stand for ever."""
    jobs = [ago(a_probe(job=job), days=8) for job in (JobName.READ, JobName.MIXED)]
    assert {values[2] for values in named(of(jobs, chosen=[a_target()]), "verdict")} == {"read"}


def test_a_guest_that_is_not_shown_has_no_counters_and_its_sums_do_not_turn_up_in_others() -> None:
    """A series that took them over would rise by all of them at once, and that is what increase() would tell."""
    here, left = a_probe(), ago(a_probe(subject=a_subject(guest_uuid=OTHER)), days=8)
    nameless = replace(Tally.of(left), guest_uuid="", guest_name="")
    families = of([here, left], tallies=[*map(Tally.of, (here, left)), nameless])
    assert sum(named(families, "runs_total").values()) == 1
    assert {values[-2] for values in named(families, "runs_total")} == {"kept", *Verdict}
    assert guests(families) == {GUEST}


def test_counters_of_runs_that_were_removed_to_make_room_are_still_shown() -> None:
    families = of([], tallies=[Tally.of(a_probe())])
    assert named(families, "latency_seconds_count") == {("read", "instance-00000001", "read", GUEST, "gold"): 7530}


def test_all_series_of_a_guest_have_one_name_or_they_could_not_be_joined() -> None:
    renamed = a_subject(guest_name="instance-new")
    runs = [a_probe(), ago(a_probe(job=JobName.WRITE, subject=renamed), hours=9)]
    assert {sample.labels.get("domain") for sample in samples(of(runs))} == {"instance-00000001", None}
    chosen = [a_target(guest_name="instance-newest")]
    assert {sample.labels.get("domain") for sample in samples(of(runs, chosen=chosen))} == {"instance-newest", None}


def test_what_was_postponed_is_told_until_it_begins() -> None:
    told = "postponed_timestamp_seconds"
    put_off = postponed(NOON + timedelta(seconds=1), guest_uuid=GUEST, directory="/var/tmp", why=Why.NO_SLOT)
    key = ("/var/tmp", "instance-00000001", GUEST, "no-slot")
    assert named(of([a_probe()], [put_off]), told) == {key: put_off.at.timestamp()}
    assert named(of([a_probe(started=NOON + timedelta(seconds=2))], [put_off]), told) == {}
    assert named(of([], [put_off]), told) == {}, "nobody wants it any more"
    assert named(of([], [put_off], [a_target()]), told) == {key: put_off.at.timestamp()}


# --- what they tell of a run


def test_a_run_without_a_result_has_a_verdict_and_no_figures() -> None:
    """No result is not zero requests a second."""
    for measured in (None, a_measurement(a_flow([MS]))):
        families = of([a_probe(measured=measured, finding=Finding(Verdict.FAILED, Why.CONTRADICTED))])
        assert [*named(families, "verdict")] == [("/var/tmp", "instance-00000001", "read", GUEST, "failed")]
        assert {"iops", "bytes_per_second", "allowed_ratio"}.isdisjoint(
            sample.name.removeprefix("plimsoll_probe_") for sample in samples(families)
        )


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"done": 5},
        {"done": 5, "allowed": 0},
        {"done": "5", "allowed": 10},
        {"done": None, "allowed": 10},
        {"done": 5, "allowed": inf},
        {"done": 10**400, "allowed": 1},
        {"done": float("nan"), "allowed": 1},
    ],
    ids=str,
)
def test_of_facts_that_are_no_numbers_no_share_is_made(facts: dict[str, object]) -> None:
    families = of([a_probe(finding=Finding(Verdict.KEPT, Why.WITHIN, facts))])
    assert set(named(families, "allowed_ratio").values()) <= {0.0}, "5 of infinitely many"
    assert named(families, "operations_per_second")


def test_every_verdict_is_counted_from_the_first_run_on() -> None:
    """A first broken promise in a new series is no increase to Prometheus."""
    counted = named(of([a_probe()], detail="aggregate"), "runs_total")
    assert counted == {("read", verdict.value, "gold"): float(verdict is Verdict.KEPT) for verdict in Verdict}


# --- names


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_hostile_names_break_no_line_and_make_no_series_of_their_own(name: str) -> None:
    subject = a_subject(guest_name=name, project=name, volume_id=name, volume_type=name, pool=name, directory=name)
    run = a_probe(subject=subject, objective=P99)
    target = a_target(guest_name=name, rule=name, directory=name)
    plain = of([a_probe(objective=P99)], [], [a_target()], last_good={(GUEST, "/var/tmp", JobName.READ): NOON})
    families = of([run], [], [target], last_good={(GUEST, name, JobName.READ): NOON})
    assert [sample.name for sample in samples(families)] == [sample.name for sample in samples(plain)]
    assert len(text(families).splitlines()) == len(text(plain).splitlines())
    assert max(map(len, text(families).splitlines())) < 2500
    assert not {*"\r\x00\x1b\u2028"} & {*text(families)}


def test_types_that_are_told_apart_by_what_cannot_be_shown_are_one_series() -> None:
    """node_exporter refuses a file with a series twice, and all that is in it."""
    runs = [
        a_probe(objective=P99, subject=a_subject(volume_type=name, guest_uuid=uuid, directory=directory))
        for name, uuid, directory in [("g\r", GUEST, "/a\r"), ("g\n", GUEST, "/a\n"), ("g\x00", OTHER, "/a")]
    ]
    for detail in ("disk", "aggregate"):
        families = of(runs, chosen=[a_target(directory="/a\t"), a_target(directory="/a\r")], detail=detail)
        lines = [line.rpartition(" ")[0] for line in text(families).splitlines() if not line.startswith("#")]
        assert len(lines) == len(set(lines))
        assert sum(named(families, "runs_total").values()) == 3
        assert sum(named(families, "objective_requests_total").values()) == 3 * 7530


# --- histograms


def test_le_are_edges_of_fios_buckets_from_66_microseconds_to_where_fio_ends() -> None:
    assert all(edges(bucket_of(le))[0] == le for le in metrics.LE), "else a bucket would lie on both sides"
    assert (metrics.LE[0], metrics.LE[-1]) == (2**16, 17_045_651_456)
    assert len(set(metrics.LE)) == len(metrics.LE) == 29
    assert bucket_of(metrics.LE[-1]) == LAST


_latencies = st.lists(
    st.integers(0, 2**35) | st.integers(40_000_000, 60_000_000) | st.sampled_from(metrics.LE), min_size=1, max_size=40
)
_histograms = st.dictionaries(st.integers(0, BUCKETS - 1), st.integers(1, 10**6), min_size=1, max_size=30).map(
    lambda counts: Histogram(tuple(sorted(counts.items())))
)


def a_tally(latency: Histogram, **other: Any) -> Tally:
    sums = Sums({Verdict.KEPT: 1}, {"read": latency}, {0.99: Promise(1, 0)})
    return replace(Tally.of(a_probe()), sums=sums, **other)


def buckets(*nodes: Iterable[Family]) -> list[tuple[float, float]]:
    """``sum by (le)`` over several nodes, in rising order."""
    summed: dict[float, float] = {}
    for families in nodes:
        for sample in samples(families):
            if sample.name == "plimsoll_probe_latency_seconds_bucket":
                le = float(sample.labels["le"])
                summed[le] = summed.get(le, 0) + sample.value
    return sorted(summed.items())


@examples
@given(_latencies)
def test_each_le_counts_just_the_latencies_below_it(latencies: list[int]) -> None:
    found = buckets(of(tallies=[a_tally(Histogram.of(latencies))]))
    assert [count for _, count in found] == [
        *(sum(each < le for each in latencies) for le in metrics.LE),
        len(latencies),
    ]
    assert [le for le, _ in found] == [*(le / 10**9 for le in metrics.LE), inf]


def prometheus_quantile(fraction: float, found: Sequence[tuple[float, float]]) -> float:
    """promql/quantile.go, bucketQuantile: linear within the bucket in which the rank falls."""
    rank = fraction * found[-1][1]
    position = next(position for position, (_, count) in enumerate(found) if count >= rank)
    if position == len(found) - 1:
        return found[-2][0]
    start, before = found[position - 1] if position else (0.0, 0.0)
    end, count = found[position]
    return start + (end - start) * (rank - before) / (count - before)


@examples
@given(st.lists(_histograms, min_size=2, max_size=4), st.sampled_from([0.5, 0.9, 0.95, 0.99, 0.999]))
def test_prometheus_finds_quantiles_over_nodes_in_the_bucket_in_which_the_merged_histogram_has_them(
    histograms: list[Histogram], fraction: float
) -> None:
    merged = Histogram.merged(histograms)
    quantile = merged.quantile(fraction)
    assert quantile is not None
    # Where the rank is whole, floats may make more of it: that is Prometheus's own affair.
    assume(ceil(fraction * merged.count) <= fraction * merged.count + 0.999999)
    details = ["aggregate", "disk"]
    nodes = [of(tallies=[a_tally(each)], detail=details[number % 2]) for number, each in enumerate(histograms)]
    found = prometheus_quantile(fraction, buckets(*nodes))
    start = max(le for le in (0, *metrics.LE) if le <= quantile.lower)
    end = min((le for le in metrics.LE if quantile.upper is not None and le >= quantile.upper), default=start)
    assert start / 10**9 <= found <= end / 10**9


def test_a_sum_is_of_the_middles_of_fios_buckets_and_so_nearly_exact() -> None:
    latencies = [round(100_000 * 1.01**step) for step in range(1000)]
    families = of(tallies=[a_tally(Histogram.of(latencies))])
    (found,) = named(families, "latency_seconds_sum").values()
    assert found == pytest.approx(sum(latencies) / 10**9, rel=0.008)


def test_counts_of_a_damaged_file_that_no_float_can_hold_cost_themselves_only() -> None:
    absurd = a_tally(Histogram(((5, 10**400),)))
    assert named(of(tallies=[absurd]), "runs_total")


# --- the budget


def test_a_guest_takes_no_more_series_than_the_budget_allows() -> None:
    both = a_measurement(a_flow([MS]), a_flow([MS]))
    runs = [a_probe(job=job, measured=both, objective=P99) for job in JobName]
    late = postponed(NOW, guest_uuid=GUEST, directory="/var/tmp")
    last_good = {(GUEST, "/var/tmp", job): NOON for job in JobName}
    families = of(runs, [late], [a_target()], last_good=last_good)
    of_objectives, of_the_node = 4, 2
    of_guest = 3 * metrics.PER_PROBE + metrics.PER_TARGET
    assert len(samples(families)) == of_guest + metrics.PER_VERDICTS + of_objectives + of_the_node
    # As jobs are: only the mixed one has both directions.
    runs = [a_probe(job=job, objective=P99) for job in JobName]
    families = of(runs, [late], [a_target()], last_good=last_good)
    assert len(samples(families)) == 174 + of_objectives + metrics.PER_VERDICTS + of_the_node
    assert "174 for a guest with the three jobs" in " ".join((metrics.__doc__ or "").split())


def test_aggregates_take_no_more_series_the_more_guests_there_are() -> None:
    runs = [
        a_probe(job=job, objective=P99, subject=a_subject(guest_uuid=f"{number:08}{GUEST[8:]}"))
        for number in range(20)
        for job in JobName
    ]
    assert len(samples(of(runs, detail="aggregate"))) == metrics.PER_TYPE + 4 + 1


# --- from the history


def test_what_the_history_gives_is_what_is_told(tmp_path: Path) -> None:
    history = History(tmp_path / "probes.sqlite")
    history.add(a_probe(objective=P99))
    history.add(a_probe(started=NOON + timedelta(minutes=5), finding=Finding(Verdict.SHORT, Why.CLUSTER_SHORT)))
    families = [
        *metrics.families(
            history.latest(),
            history.postponed(),
            history.chosen_targets(),
            history.tallies(),
            history.last_good(),
            detail="disk",
            by_timetable=True,
            now=datetime.now(UTC).replace(year=2026, month=11, day=20),
        )
    ]
    key = ("/var/tmp", "instance-00000001", "read", GUEST)
    assert named(families, "verdict") == {(*key, "short"): 1}
    assert named(families, "last_good_timestamp_seconds") == {key: NOON.timestamp() + 30}
    assert sum(named(families, "runs_total").values()) == 2


# --- guests by verdict, and the timetable


@pytest.mark.parametrize(
    ("verdicts", "worst"),
    [
        ((Verdict.KEPT, Verdict.SHORT, Verdict.SLOW), "short"),
        ((Verdict.KEPT, Verdict.REDUCED, Verdict.INCONCLUSIVE), "reduced"),
        ((Verdict.KEPT, Verdict.REDUCED, Verdict.FAILED), "failed"),
    ],
)
def test_a_guest_counts_once_by_the_worst_of_its_jobs_however_many_runs_a_probe_has(
    verdicts: Sequence[Verdict], worst: str
) -> None:
    """A blip of one probe is one, not three."""
    each = zip(JobName, verdicts, strict=True)
    runs = [a_probe(job=job, finding=a_finding(verdict, Why.CLUSTER_SHORT)) for job, verdict in each]
    for detail in ("disk", "aggregate"):
        counted = named(of(runs, chosen=[a_target()], detail=detail), "targets")
        assert {key for key, number in counted.items() if number} == {(worst, "gold")}


def test_a_promise_is_broken_again_where_the_trouble_began_before_this_probe() -> None:
    short = a_probe(finding=a_finding(Verdict.SHORT, Why.CLUSTER_SHORT))
    for before, again in ((timedelta(0), 0), (timedelta(hours=6), 1)):
        families = of([short], chosen=[a_target()], since=lambda run, before=before: run.started - before)
        assert named(families, "targets_broken_again") == {("gold",): again}


def test_a_guest_that_is_no_longer_chosen_counts_for_a_day() -> None:
    for ago_, counted in ((timedelta(hours=23), 1), (timedelta(hours=26), 0)):
        assert sum(named(of([a_probe()], now=NOON + ago_), "targets").values()) == counted


def test_only_a_run_of_the_timetable_tells_that_it_is_run() -> None:
    seen = NOON - timedelta(hours=5)
    by_hand = of([a_probe()], chosen=[a_target(seen=seen)], by_timetable=False)
    assert named(by_hand, "round_timestamp_seconds") == {(): seen.timestamp()}
    assert named(of([a_probe()], by_timetable=False), "round_timestamp_seconds") == {}
    assert named(of([], chosen=[a_target(seen=seen)]), "round_timestamp_seconds") == {(): NOW.timestamp()}
    assert named(of([]), "round_timestamp_seconds") == {}, "no guest is chosen"
