"""The signal of congestion: which disks count, and what they add to the sums of their pool."""

from __future__ import annotations

import pytest

from plimsoll_agent.congestion.signal import LIGHT_SIZE, Wait, of_pools, wait_of
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.model.usage import Rates, Usage
from plimsoll_agent.util.frozen import replace
from tests.unit.node import FSID
from tests.unit.values import a_disk

LIMITS = Limits(total_iops_sec=500, total_bytes_sec=2**30)
RATES = Rates(
    read_iops=60.0, write_iops=40.0, read_bytes=60.0 * 4096, write_bytes=40.0 * 4096, seconds=30.0, latency=0.004
)
LIGHT = Usage(
    disk=a_disk(actual=LIMITS, cluster=FSID), rates=RATES, shares={"total_iops_sec": 0.2, "total_bytes_sec": 0.01}
)
HUNG = Unknown(because(Code.TIMED_OUT, detail="no answer"))


def test_a_light_disk_waited_its_latency_times_its_requests() -> None:
    assert wait_of(LIGHT) == Wait(pytest.approx(12.0), 3000.0)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"shares": {"total_iops_sec": 0.5, "total_bytes_sec": 0.01}}, id="half of one limit"),
        pytest.param({"shares": {"total_iops_sec": 0.2}}, id="use of one limit unknown"),
        pytest.param({"disk": a_disk(cluster=FSID), "shares": {}}, id="no limit"),
        pytest.param({"disk": a_disk(cluster=FSID, actual=HUNG), "shares": {}}, id="limits unknown"),
        pytest.param({"disk": a_disk(actual=LIMITS)}, id="cluster unknown"),
        pytest.param({"rates": None}, id="no two readings"),
        pytest.param({"rates": replace(RATES, latency=None)}, id="times unknown"),
        pytest.param({"rates": replace(RATES, read_iops=0.0, write_iops=0.0)}, id="flushes alone"),
        pytest.param({"rates": replace(RATES, read_bytes=100.0 * LIGHT_SIZE)}, id="large requests"),
    ],
)
def test_a_disk_that_may_wait_for_its_own_load_or_limit_does_not_count(other: dict[str, object]) -> None:
    assert wait_of(replace(LIGHT, **other)) is None


def test_pools_add_up_apart_and_one_without_light_requests_stands_where_it_was() -> None:
    busy = replace(LIGHT, disk=a_disk(actual=LIMITS, cluster=FSID, pool="vms"), shares={})
    unread = replace(LIGHT, disk=a_disk(actual=LIMITS, cluster=FSID, pool="fast"), rates=None)
    before = {(FSID, "vms"): Wait(7.0, 9.0), (FSID, "fast"): Wait(1.0, 1.0)}
    assert of_pools(before, [LIGHT, busy, LIGHT, unread]) == {
        (FSID, "volumes"): Wait(pytest.approx(24.0), 6000.0),
        (FSID, "vms"): Wait(7.0, 9.0),
    }
