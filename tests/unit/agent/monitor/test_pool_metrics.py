"""What is promised and taken by pool and volume type: sums made by hand."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from plimsoll_agent.model.limits import Limits, Unit
from plimsoll_agent.model.usage import Rates
from plimsoll_agent.monitor import prometheus_text
from plimsoll_agent.monitor.pass_summary import LastDisk
from plimsoll_agent.monitor.pool_metrics import PER_POOL, of_pools, promise
from tests.unit.lastpasses import a_last_disk, a_name
from tests.unit.node import FSID, uuid_of

UNLIMITED = Limits()


@pytest.mark.parametrize(
    ("limits", "unit", "promised"),
    [
        (Limits(total_iops_sec=500, total_iops_sec_max=2000), "iops", 500),
        (Limits(read_iops_sec=300, write_iops_sec=200), "iops", 500),
        (Limits(read_iops_sec=300), "iops", None),  # writes have no limit
        (Limits(total_iops_sec=500), "bytes", None),
        (Limits(read_bytes_sec=3000, write_bytes_sec=1000, total_iops_sec=5), "bytes", 4000),
        (UNLIMITED, "iops", None),
    ],
)
def test_a_promise_is_the_limit_on_reads_and_writes_together(
    limits: Limits, unit: Unit, promised: int | None
) -> None:
    assert promise(limits, unit) == promised


def told(*disks: LastDisk) -> dict[tuple[str, ...], float]:
    """The values by the name, without its beginning, and those of the labels pool, unit and volume_type."""
    text = prometheus_text.text(family for family in of_pools(disks) if family.samples)
    return {
        (
            sample.name.removeprefix("plimsoll_pool_"),
            *(value for name, value in sorted(sample.labels.items()) if name != "cluster"),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def a_disk(number: int, actual: Limits | None, pool: str = "volumes", **other: object) -> LastDisk:
    return a_last_disk(a_name(number, key=f"{uuid_of(number)}/{pool}", pool=pool), actual=actual, **other)


def test_an_unlimited_disk_and_an_unknown_one_are_counted_apart_and_never_as_zero() -> None:
    found = told(
        a_disk(1, Limits(total_iops_sec=500, total_bytes_sec=7000)),
        a_disk(2, Limits(total_iops_sec=250)),
        a_disk(3, UNLIMITED),
        a_disk(4, None),
    )
    assert found == {
        ("disks", "volumes", "gold"): 4,
        ("disks_unknown", "volumes", "gold"): 1,
        ("disks_unlimited", "volumes", "operations", "gold"): 1,
        ("disks_unlimited", "volumes", "bytes", "gold"): 2,
        ("promised_operations_per_second", "volumes", "gold"): 750,
        ("promised_bytes_per_second", "volumes", "gold"): 7000,
    }


def test_what_is_taken_is_of_reads_and_writes_of_all_disks_whose_rates_are_known() -> None:
    limits = Limits(total_iops_sec=500)
    found = told(
        a_disk(
            1,
            limits,
            rates=Rates(read_iops=100.0, write_iops=50.0, read_bytes=4000.0, write_bytes=1000.0, seconds=300.0),
        ),
        a_disk(
            2, limits, rates=Rates(read_iops=1.0, write_iops=2.0, read_bytes=30.0, write_bytes=40.0, seconds=300.0)
        ),
        a_disk(3, limits),
    )
    assert found["average_operations_per_second", "volumes", "gold"] == 153
    assert found["average_bytes_per_second", "volumes", "gold"] == 5070


def test_disks_that_share_a_limit_have_one_promise() -> None:
    shared = Limits(total_iops_sec=500, group_name="web")
    found = told(
        a_last_disk(a_name(1, "vdb", key=f"{uuid_of(1)}/b"), actual=shared),
        a_last_disk(a_name(1, "vdc", key=f"{uuid_of(1)}/c"), actual=shared),
        a_last_disk(a_name(2, "vdb", key=f"{uuid_of(2)}/b"), actual=shared),  # of another guest: another QEMU
    )
    assert found["promised_operations_per_second", "volumes", "gold"] == 1000
    assert found["disks", "volumes", "gold"] == 3


def test_each_pair_of_pool_and_type_has_the_series_of_the_budget() -> None:
    rates = Rates(read_iops=1.0, write_iops=2.0, read_bytes=3.0, write_bytes=4.0, seconds=300.0)
    disks = [
        a_disk(1, UNLIMITED, rates=rates),
        a_disk(2, UNLIMITED, "vms", rates=rates, volume_type=None),
        a_disk(3, UNLIMITED, "vms", rates=rates, cluster=None),
    ]
    samples = [sample for family in of_pools(disks) for sample in family.samples]
    assert len(samples) == 3 * PER_POOL
    assert sum(FSID in sample.labels.values() for sample in samples) == 2 * PER_POOL
