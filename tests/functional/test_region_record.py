"""``plimsoll region record`` against a real Prometheus: limits of a disk, a value a minute, raised in the fourth."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from plimsoll_agent.model.limits import Limits
from plimsoll_agent.monitor import pass_metrics
from tests.functional.conftest import Ran
from tests.simulated_region import Served, prometheus_of, series_lines
from tests.unit.lastpasses import a_last_disk, a_last_pass, a_name
from tests.unit.values import VOLUME

START = datetime(2026, 11, 20, 14, tzinfo=UTC)
LIMITS = [Limits(total_iops_sec=500)] * 3 + [Limits(total_iops_sec=3000)] * 3
JOBS = ("node", "node-again")
WINDOW = ("--since", "2026-11-20T13:55", "--until", "2026-11-20T14:06")


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    if shutil.which("prometheus") is None:
        pytest.skip("there is no prometheus on this machine")
    lines: dict[str, list[str]] = {}
    for minute, limits in enumerate(LIMITS):
        disk = a_last_disk(a_name(1, "vdb"), actual=limits, desired=limits)
        for line in series_lines(pass_metrics.families(a_last_pass(disk), detail="disk")):
            name, _, value = line.strip().rpartition(" ")
            metric, _, labels = name.partition("{")
            for job in JOBS if metric.startswith("plimsoll_disk_") else ():
                own = f'job="{job}",region="r1",instance="n1:9100"'
                at = int(START.timestamp()) + 60 * minute
                lines.setdefault(metric, []).append(f"{metric}{{{own},{labels} {value} {at}")
    lines = {metric: sorted(each, key=lambda line: line.rsplit(" ", 2)[0]) for metric, each in lines.items()}
    with prometheus_of(lines, tmp_path_factory.mktemp("region")) as there:
        yield there


@pytest.mark.parametrize("words", [("--volume", VOLUME), ("--server", "instance-00000001")], ids=["volume", "server"])
def test_metrics_show_when_the_limit_was_changed_and_that_the_cause_is_unknown(
    plimsoll: Callable[..., Ran], prometheus: Served, words: tuple[str, ...]
) -> None:
    ran = plimsoll("region", "record", "--prometheus", prometheus.url, *WINDOW, *words, "-f", "json")
    assert ran.status == 0, ran.err
    (row,) = json.loads(ran.out)
    assert (row["change"], row["by"], row["source"], row["node"]) == ("500 → 3000 IOPS", None, "metrics", "n1:9100")
    assert (row["not_before"], row["at"]) == ("2026-11-20T14:02:00+00:00", "2026-11-20T14:03:00+00:00")
