"""What a pass came to, as Prometheus reads it: the text is parsed again, as node_exporter does."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.core import Sample
from prometheus_client.parser import text_string_to_metric_families

from plimsoll_agent.catalogue.orders import Of, RegionApproval
from plimsoll_agent.catalogue.stages import ConditionFinding, StageCheck, Stages
from plimsoll_agent.model.hypervisor import BlockStats
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, because
from plimsoll_agent.model.usage import Rates, Reading
from plimsoll_agent.monitor import pass_metrics, prometheus_text
from plimsoll_agent.monitor.pass_summary import LastDisk, LastPass, PassSetting, failed
from plimsoll_agent.monitor.pool_metrics import PER_POOL
from plimsoll_agent.reconcile.grade import Grade
from plimsoll_agent.reconcile.outcome import Kind, Mode
from plimsoll_agent.util.frozen import replace
from tests.unit.lastpasses import BRONZE, a_last_disk, a_last_pass, a_name, a_varied_pass
from tests.unit.node import uuid_of
from tests.unit.values import NOON, examples

GOLDEN = Path(__file__).parents[2] / "data" / "pass_metrics.prom"
READING = Reading(100.0, BlockStats(read_requests=1, read_bytes=2, write_requests=3, write_bytes=4, nanoseconds=5))
RATES = Rates(read_iops=1.0, write_iops=2.0, read_bytes=3.0, write_bytes=4.0, seconds=300.0, latency=0.005)
PARTS = ("read_iops_sec", "write_iops_sec", "read_bytes_sec", "write_bytes_sec")
HOSTILE = ['a"} 1\nb 2', "\\", 'x\\"', "\r\x00\x1b[2J", "\ud800", "\u2028", "ñ☃", "n" * 10_000, "# TYPE x", ""]


def text(last: LastPass, detail: str = "disk") -> str:
    return prometheus_text.text(pass_metrics.families(last, detail=detail))


def samples(last: LastPass, detail: str = "disk") -> list[Sample]:
    """As they are read from the text."""
    return [sample for family in text_string_to_metric_families(text(last, detail)) for sample in family.samples]


def named(last: LastPass, name: str) -> dict[tuple[str, ...], float]:
    """The values of a metric's series, by those of their labels in the order of these."""
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for sample in samples(last)
        if sample.name == f"plimsoll_{name}"
    }


def used(**other: object) -> LastDisk:
    """With all that a disk can have."""
    shares = dict.fromkeys(("total_iops_sec", "total_bytes_sec"), 0.5)
    return a_last_disk(**{"reading": READING, "rates": RATES, "shares": shares, "allowed": shares} | other)


def down(last: LastPass | None) -> LastPass:
    """After it, libvirt did not answer."""
    setting = PassSetting(version="1.2.3", boot="b1", ended=NOON)
    return failed(last, Mode.ENFORCE, "libvirt does not answer", "libvirt", NOON, setting)


# --- all of it


def test_the_text_is_the_golden_one() -> None:
    assert text(a_varied_pass()).splitlines() == GOLDEN.read_text(encoding="utf-8").splitlines()


def test_the_text_of_the_regions_machine_is_the_golden_one() -> None:
    stages = Stages(percent=(1.0, 10.0, 100.0), wait=timedelta(minutes=30), reached=1, entered=NOON)
    one = RegionApproval(
        of=Of.SPECS,
        digest="0a1b" * 16,
        since=NOON,
        until=NOON + timedelta(days=7),
        by="ann",
        why="sale",
        stages=stages,
    )
    stops = [
        ConditionFinding(StageCheck.AT_LIMIT, False, "40 %"),
        ConditionFinding(StageCheck.HEALTH, None, "no answer"),
    ]
    families = [*pass_metrics.of_region(NOON, deferred=True, volumes=3412), *pass_metrics.of_stages([one], stops)]
    told = prometheus_text.text(families)
    assert told.splitlines() == (GOLDEN.parent / "region_metrics.prom").read_text(encoding="utf-8").splitlines()


def test_large_sites_keep_aggregates_only() -> None:
    told = samples(a_varied_pass(), "aggregate")
    assert not {"domain", "uuid", "target_device"} & {name for sample in told for name in sample.labels}
    of_disks = {sample.name for sample in samples(a_varied_pass())} - {sample.name for sample in told}
    assert all(name.startswith(("plimsoll_disk_", "plimsoll_guest_")) for name in of_disks)
    assert "plimsoll_average_bytes_per_second" in {sample.name for sample in told}


def test_no_series_has_a_label_that_prometheus_itself_puts_there() -> None:
    names = {name for sample in samples(a_varied_pass()) for name in sample.labels}
    assert not names & {"instance", "job", "region"}


def test_no_line_has_a_timestamp_or_node_exporter_would_refuse_the_whole_file() -> None:
    assert all(sample.timestamp is None for sample in samples(a_varied_pass()))


# --- unknown is absent


def test_a_node_on_which_no_pass_ever_looked_tells_nothing_that_only_a_look_can_tell() -> None:
    told = {sample.name for sample in samples(down(None))}
    only_a_look = {"guests", "holds", "pass_paused", "pass_braked_disks", "pass_last_good_timestamp_seconds", "disks"}
    only_a_look |= {"pass_guests_to_probe", "stage_position", "stage_in_effect"}
    assert not told & {f"plimsoll_{name}" for name in only_a_look}
    assert {"plimsoll_pass_last_timestamp_seconds", "plimsoll_source_up", "plimsoll_passes_total"} <= told


def test_a_failed_pass_keeps_limits_and_counters_and_has_no_averages() -> None:
    told = {sample.name for sample in samples(down(a_last_pass(used(), interval=300.0)))}
    assert {"plimsoll_disk_limit_actual_operations_per_second", "plimsoll_disk_bytes_total", "plimsoll_disks"} <= told
    assert not [name for name in told if "average" in name]
    assert not told & {"plimsoll_pass_interval_seconds", "plimsoll_pass_duration_seconds", "plimsoll_disks_at_limit"}


def test_a_disk_with_unknown_limits_is_not_reported_as_one_without() -> None:
    last = a_last_pass(a_last_disk(actual=None, desired=None, kind=Kind.UNKNOWN))
    for name in ("disk_unlimited", *(f"disk_limit_{which}_operations_per_second" for which in ("actual", "desired"))):
        assert named(last, name) == {}
    assert named(last, "disks_unlimited") == {("gold",): 0}


def test_disks_with_orphaned_limits_are_counted() -> None:
    gone = a_last_disk(kind=Kind.LEFT_ALONE, reason=because(Code.ORPHANED, type="gold"), desired=None)
    alone = a_last_disk(a_name(2), kind=Kind.LEFT_ALONE, reason=because(Code.NO_LIMIT), desired=None)
    assert named(a_last_pass(gone, alone), "disks_orphaned") == {("gold",): 1}


def test_a_disk_that_does_nothing_is_told_from_one_that_was_not_read() -> None:
    idle = used(
        rates=Rates(read_iops=0, write_iops=0, read_bytes=0, write_bytes=0, seconds=300.0),
        shares={"total_iops_sec": 0.0},
        allowed={"total_iops_sec": 700.0},
    )
    last = a_last_pass(idle, a_last_disk(a_name(2), volume_type="bronze", reading=READING))
    assert set(named(last, "disk_average_bytes_per_second").values()) == {0.0}
    assert {key[1] for key in named(last, "disk_average_bytes_per_second")} == {"instance-00000001"}
    assert {key[1] for key in named(last, "average_operations_per_second")} == {"gold"}
    assert named(last, "disks_at_limit") == {("gold",): 0}


def test_a_disk_without_requests_has_no_latency_and_not_a_latency_of_zero() -> None:
    idle = used(named=a_name(2), rates=Rates(read_iops=0, write_iops=0, read_bytes=0, write_bytes=0, seconds=300.0))
    latency = named(a_last_pass(used(), idle), "disk_average_latency_seconds")
    assert {key[0]: value for key, value in latency.items()} == {"instance-00000001": 0.005}


def test_without_a_catalogue_there_is_nothing_of_one() -> None:
    assert "catalogue" not in text(a_last_pass(used()))


def test_parameters_that_are_not_set_have_no_series() -> None:
    last = a_last_pass(a_last_disk(actual=BRONZE, desired=Limits()))
    assert [key[1] for key in named(last, "disk_limit_actual_operations_per_second")] == ["total_iops_sec"]
    assert named(last, "disk_limit_desired_operations_per_second") == {}


def test_a_name_that_disks_share_a_limit_by_is_no_number() -> None:
    last = a_last_pass(a_last_disk(actual=replace(BRONZE, group_name="both"), desired=None))
    assert [key[1] for key in named(last, "disk_limit_actual_operations_per_second")] == ["total_iops_sec"]


# --- counts


def test_a_state_that_no_disk_of_a_type_is_in_is_zero_so_that_an_alert_can_end() -> None:
    last = a_last_pass(a_last_disk(), a_last_disk(a_name(2), kind=Kind.FAILED))
    counted = {state: value for (state, _), value in named(last, "disks").items()}
    assert counted == dict.fromkeys(Kind, 0) | {Kind.IN_SYNC: 1, Kind.FAILED: 1}


def test_drift_of_a_type_is_counted_from_its_first_disk_on_or_increase_would_miss_the_first() -> None:
    assert named(a_last_pass(a_last_disk(volume_type="new")), "external_changes_reverted_total") == {("new",): 0}


def test_a_disk_is_at_limit_from_95_percent_of_any_limit_on() -> None:
    almost, held = {"total_iops_sec": 0.94}, {"total_iops_sec": 0.2, "total_bytes_sec": 0.95}
    last = a_last_pass(used(shares=almost), used(named=a_name(2), shares=held))
    assert named(last, "disks_at_limit") == {("gold",): 1}
    assert named(last, "disks_left_alone_at_limit") == {("gold",): 0}
    left_alone = (
        used(named=a_name(number), shares=each, kind=Kind.LEFT_ALONE) for number, each in ((3, held), (4, almost))
    )
    last = a_last_pass(*last.disks, *left_alone)
    assert named(last, "disks_at_limit") == {("gold",): 2}
    assert named(last, "disks_left_alone_at_limit") == {("gold",): 1}


def test_averages_of_a_type_are_sums_over_its_disks_by_direction() -> None:
    last = a_last_pass(
        used(),
        used(
            named=a_name(2),
            rates=Rates(read_iops=10.0, write_iops=20.0, read_bytes=30.0, write_bytes=40.0, seconds=300.0),
        ),
    )
    assert named(last, "average_operations_per_second") == {("read", "gold"): 11, ("write", "gold"): 22}
    assert named(last, "average_bytes_per_second") == {("read", "gold"): 33, ("write", "gold"): 44}


def test_a_guest_that_is_gone_is_not_silent() -> None:
    assert named(a_varied_pass(), "guests") == {("reachable",): 3, ("unreachable",): 1}


# --- what others chose


_OF_DISKS = ("volume_type", "flavor", "cluster", "server", "project_name")


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("place", ["guest_name", "target", "pool", "project", *_OF_DISKS])
def test_hostile_names_break_no_line_and_make_no_series_of_their_own(place: str, name: str) -> None:
    of_guest = place in ("guest_name", "target", "pool", "project")
    disk = used(named=a_name(**{place: name})) if of_guest else used(**{place: name})
    nothing = place == "cluster" and not name
    plain = samples(a_last_pass(used(**{place: None} if nothing else {})))
    told = samples(a_last_pass(disk))
    assert [(sample.name, sample.value) for sample in told] == [(sample.name, sample.value) for sample in plain]


def test_types_that_are_told_apart_by_what_cannot_be_shown_are_one_series() -> None:
    last = a_last_pass(used(volume_type="gold\x01"), used(named=a_name(2), volume_type="gold\x02"))
    assert named(last, "disks")["in-sync", "gold?"] == 2


def test_the_same_guest_twice_in_a_damaged_file_is_no_series_twice() -> None:
    """node_exporter would refuse the file, and all others with it."""
    twice = Counter((sample.name, *sorted(sample.labels.items())) for sample in samples(a_last_pass(used(), used())))
    assert set(twice.values()) == {1}


@examples
@given(value=st.floats(0, allow_nan=False) | st.integers(0, 10**400))
def test_no_number_of_a_damaged_file_costs_the_others(value: float) -> None:
    disk = used(
        reading=Reading(1.0, BlockStats(read_requests=value, read_bytes=0, write_requests=0, write_bytes=0)),
        shares={"total_iops_sec": value},
    )  # type: ignore[arg-type]
    assert named(a_last_pass(disk), "pass_enforcing") == {(): 1}


# --- the budget


def of_disk(disk: LastDisk) -> int:
    return len(samples(a_last_pass(disk))) - len(samples(a_last_pass(disk), "aggregate"))


def full(limits: Limits, *bases: str) -> LastDisk:
    saved = {base: 1.0 for base in bases if getattr(limits, f"{base}_max")}
    parts = {"shares": dict.fromkeys(bases, 0.5), "allowed": dict.fromkeys(bases, 1.0), "saved": saved}
    return used(actual=limits, desired=limits, **parts)


@pytest.mark.parametrize(
    ("limits", "most"),
    [
        ({"total_iops_sec": 500, "total_bytes_sec": 2**20}, 21),
        (
            {"total_iops_sec": 5, "total_iops_sec_max": 9, "total_iops_sec_max_length": 60}
            | {"total_bytes_sec": 5, "total_bytes_sec_max": 9, "total_bytes_sec_max_length": 60},
            31,
        ),
        (
            {f"{part}{ending}": 9 for part in PARTS for ending in ("", "_max", "_max_length")} | {"size_iops_sec": 9},
            51,
        ),
    ],
)
def test_a_disk_takes_the_series_that_the_budget_says(limits: dict[str, int], most: int) -> None:
    bases = [name for name in limits if name.endswith(("iops_sec", "bytes_sec")) and not name.startswith("size")]
    disk = full(Limits(**limits), *bases)  # type: ignore[arg-type]
    by_budget = pass_metrics.PER_DISK + pass_metrics.PER_PARAMETER * len(limits) + pass_metrics.PER_LIMIT * len(bases)
    by_budget += pass_metrics.PER_BURST * len(disk.saved)
    assert (of_disk(disk) - pass_metrics.PER_GUEST, by_budget) == (most, most)


@pytest.mark.parametrize("why", ["paused", "hung"])
def test_a_guest_takes_one_more_series_while_a_person_has_paused_it_or_it_does_not_answer(why: str) -> None:
    two = a_last_pass(used(), used(named=a_name(1, "vdc", key=f"{uuid_of(1)}/vms/x")), used(named=a_name(2)))
    silent = replace(two, **{f"{why}_guests": frozenset({uuid_of(1), uuid_of(9)})})  # type: ignore[arg-type]
    assert len(samples(silent)) - len(samples(two)) == 1
    assert named(silent, f"guest_{why}") == {(a_name(1).guest_name, uuid_of(1)): 1}


def test_a_node_and_a_type_take_no_more_series_than_the_budget_allows() -> None:
    node = len(
        samples(
            replace(
                a_varied_pass(),
                disks=(),
                ceilings=(),
                totals=replace(a_varied_pass().totals, corrected={}, light={}),
            )
        )
    )
    of_type = len(samples(a_last_pass(used()), "aggregate")) - len(samples(a_last_pass(), "aggregate"))
    budget = pass_metrics.PER_TYPE + PER_POOL + pass_metrics.PER_CLUSTER
    assert (node, of_type) == (pass_metrics.PER_NODE, budget)
    assert "plimsoll_disk_limit" not in text(a_last_pass(used()), "aggregate")


def test_every_way_that_a_pass_ends_is_counted_from_the_first_one_on() -> None:
    assert named(down(None), "passes_total") == {(grade.value,): int(grade is Grade.FAILED) for grade in Grade}
