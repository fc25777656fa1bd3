"""The week of ``plimsoll top --prometheus`` from a real Prometheus, whose targets have labels of the site's own.

Seven guests with a disk ``vdb`` each, by a sample every five minutes for eight hours:

========  ==============================================================================================
steady    140 reads a second of 4 KiB and no writes, 0.7 of a limit of 200 IOPS
spike     10 reads a second, of which one sample is 400 and at its limit of 400
moved     140 reads a second; the first four hours on another node
gap       140 reads a second, without a sample between 90 and 220 minutes ago
stale     140 reads a second, of a node whose passes ended three hours ago
swapped   140 reads a second; until two hours ago it was another volume
hung      does not answer in the last 15 minutes
========  ==============================================================================================
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest

from plimsoll_agent.config import settings as config
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.monitor.site_labels import SiteLabels
from plimsoll_agent.monitor.usage_history import PastDisk, PastPass
from plimsoll_agent.util.frozen import replace
from plimsoll_insight.cli.top import Top
from tests.simulated_region import Served, prometheus_of
from tests.unit.node import uuid_of
from tests.unit.values import a_disk, a_guest

NAMES = ("steady", "spike", "moved", "gap", "stale", "swapped", "hung")
HOURS, EVERY = 8, 5
SITE = SiteLabels(("dc",), "node")


@cache
def now() -> int:
    return int(time.time()) // 60 * 60


def volume(name: str) -> str:
    return f"{NAMES.index(name):08}-aaaa-4aaa-8aaa-aaaaaaaaaaaa"


def here(name: str) -> Disk:
    guest = a_guest(uuid=uuid_of(NAMES.index(name)))
    return a_disk(guest, volume_id=volume(name), image=f"volume-{volume(name)}")


def _samples(name: str, ago: int) -> Iterator[tuple[str, str, float]]:
    """The metric, its labels and its value, so many minutes ago."""
    node = "other" if name == "moved" and ago > 240 else "stopped" if name == "stale" else "node1"
    target = f'job="node",dc="r1",node="{node}:9100"'
    uuid = f'uuid="{uuid_of(NAMES.index(name))}"'
    disk = f'{target},domain="instance-{NAMES.index(name):08}",target_device="vdb",{uuid}'
    observed = max(ago, 180) if name == "stale" else ago
    yield "plimsoll_pass_observed_timestamp_seconds", target, now() - observed * 60
    if name == "gap" and 90 < ago < 220:
        return
    its = volume("steady") if name == "swapped" and ago > 120 else volume(name)
    yield "plimsoll_disk_info", f'{disk},volume="{its}"', 1
    if name == "hung" and ago < 15:
        yield "plimsoll_guest_hung", f"{target},{uuid}", 1
        return
    limit = 400 if name == "spike" else 200
    reads = (400 if ago == 60 else 10) if name == "spike" else 140
    for side, rate in (("read", reads), ("write", 0)):
        yield "plimsoll_disk_average_operations_per_second", f'{disk},direction="{side}"', rate
        yield "plimsoll_disk_average_bytes_per_second", f'{disk},direction="{side}"', rate * 4096
    yield "plimsoll_disk_average_limit_ratio", f'{disk},parameter="total_iops_sec"', reads / limit
    yield "plimsoll_disk_limit_actual_operations_per_second", f'{disk},parameter="total_iops_sec"', limit


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    lines: dict[str, dict[str, None]] = {}
    for ago in range(HOURS * 60, -1, -EVERY):
        for name in NAMES:
            for metric, labels, value in _samples(name, ago):
                lines.setdefault(metric, {})[f"{metric}{{{labels}}} {value} {now() - ago * 60}"] = None
    # By series, in the order of time.
    by_series = {name: sorted(each, key=lambda line: line.rpartition("}")[0]) for name, each in lines.items()}
    with prometheus_of(by_series, tmp_path_factory.mktemp("week")) as there:
        yield there


@pytest.fixture(scope="module")
def passes(served: Served) -> list[PastPass]:
    """As of ten minutes ago, as ``top`` asks for them."""
    whole = config.load([], [])
    settings = replace(whole, prometheus=replace(whole.prometheus, url=served.url, labels=SITE))
    earlier = Top.earlier(cast(Any, None), argparse.Namespace(prometheus=""), settings)
    assert earlier is not None
    steps, trouble = earlier([here(name) for name in NAMES], datetime.fromtimestamp(now() - 600, UTC))
    assert trouble == ""
    return [*steps]


def of(passes: list[PastPass], name: str, ago: int) -> PastDisk | None:
    """In the step that ended so many minutes ago."""
    at = datetime.fromtimestamp(now(), UTC) - timedelta(minutes=ago)
    (past,) = (past for past in passes if past.at == at)
    return past.disks.get(here(name).key)


def test_steps_are_longer_the_longer_ago_and_begin_with_the_first_sample(passes: list[PastPass]) -> None:
    ages = [round((now() - past.at.timestamp()) / 60) for past in passes]
    assert ages == [430, 370, 310, *range(300, 0, -10)]
    assert [past.step for past in passes] == [3600] * 3 + [600] * 30


def test_a_step_has_the_average_of_the_rates_and_the_limit_that_was_closest(passes: list[PastPass]) -> None:
    for ago in (10, 300, 430):
        past = of(passes, "steady", ago)
        assert past is not None
        assert (past.operations, past.bytes) == pytest.approx((140, 140 * 4096))
        assert (past.limit, past.allowed, past.latency) == ("total_iops_sec", 200, None)
        assert past.share == pytest.approx(0.7)


def test_the_share_is_the_highest_of_a_pass_so_that_a_spike_is_not_averaged_away(passes: list[PastPass]) -> None:
    past = of(passes, "spike", 60)
    assert past is not None
    assert past.share == 1
    assert 10 < past.operations < 400
    calm = of(passes, "spike", 40)
    assert calm is not None
    assert calm.operations == 10


def test_a_guest_that_moved_has_its_past_on_the_other_node_too(passes: list[PastPass]) -> None:
    for ago in (10, 240, 430):
        past = of(passes, "moved", ago)
        assert past is not None
        assert past.operations == pytest.approx(140)


@pytest.mark.parametrize(
    ("name", "unknown", "known"),
    [("gap", (100, 150, 200), (80, 230)), ("stale", (100, 10), (130, 300)), ("swapped", (140, 300), (100, 10))],
)
def test_where_a_disk_has_no_sample_of_its_own_it_is_unknown(
    passes: list[PastPass], name: str, unknown: tuple[int, ...], known: tuple[int, ...]
) -> None:
    assert [of(passes, name, ago) for ago in unknown] == [None] * len(unknown)
    assert None not in [of(passes, name, ago) for ago in known]


def test_a_guest_that_did_not_answer_is_told(passes: list[PastPass]) -> None:
    assert [past.unanswered for past in passes[-2:]] == [frozenset(), frozenset({uuid_of(NAMES.index("hung"))})]


def test_nothing_is_asked_without_the_option(tmp_path: Path) -> None:
    assert Top.earlier(cast(Any, None), argparse.Namespace(prometheus=None), config.load([], [])) is None
