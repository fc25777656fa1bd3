"""``plimsoll qos plan`` against a real Prometheus: which of some volumes with known loads will feel new limits.

Each is ``vdb`` of a guest of its own, for two hours, by a reading a minute:

=========  ===============================================================================================
steady     140 reads a second of 4 KiB
bursty     100 writes a second of 4 KiB in a quarter of the time, else 3
idle       3 reads a second
large      5 reads a second of 1 MiB
moved      140 reads a second, the first hour on another node
unknown    no averages
=========  ===============================================================================================

Two jobs scrape the node of ``steady``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from plimsoll_agent.model.impact import Impact
from plimsoll_agent.model.limits import Limits
from plimsoll_monitoring.adapters.prometheus import Prometheus
from plimsoll_monitoring.region import volume_use
from tests import schemas
from tests.fakecinder import FakeCinder
from tests.functional.cloudserver import credentials
from tests.functional.conftest import Ran
from tests.functional.test_qos import Site, serving
from tests.simulated_region import Served, prometheus_of
from tests.unit.node import uuid_of

NAMES = ("steady", "bursty", "idle", "large", "moved", "unknown")
VOLUMES = {name: f"{number:08}-aaaa-4aaa-8aaa-aaaaaaaaaaaa" for number, name in enumerate(NAMES)}
MINUTES = 120
KIB, MIB = 1024, 2**20


def _does(name: str, minute: int) -> tuple[float, float, float, float]:
    """Reads, writes, and their bytes, a second."""
    if name == "bursty":
        writes = 100 if minute % 40 < 10 else 3
        return 0, writes, 0, writes * 4 * KIB
    reads, size = {"idle": (3, 4 * KIB), "large": (5, MIB)}.get(name, (140, 4 * KIB))
    return reads, 0, reads * size, 0


def lines() -> dict[str, list[str]]:
    now = int(time.time()) // 60 * 60
    found: dict[str, list[str]] = {}

    def put(metric: str, labels: str, value: float, at: int) -> None:
        found.setdefault(metric, []).append(f"{metric}{{{labels}}} {value} {at}")

    for number, name in enumerate(NAMES):
        for minute in range(MINUTES):
            at = now - (MINUTES - 1 - minute) * 60
            node = "other" if name == "moved" and minute < MINUTES / 2 else f"node{number}"
            for job in ("node", "again") if name == "steady" else ("node",):
                own = f'job="{job}",region="r1",instance="{node}:9100"'
                disk = f'{own},domain="instance-{number:08}",target_device="vdb",uuid="{uuid_of(number)}"'
                put("plimsoll_disk_info", f'{disk},volume="{VOLUMES[name]}",volume_type="gold"', 1, at)
                put("plimsoll_guest_info", f'{own},uuid="{uuid_of(number)}",server="web-{number}"', 1, at)
                if name != "unknown":
                    reads, writes, read_bytes, written_bytes = _does(name, minute)
                    for side, operations, of_bytes in (("read", reads, read_bytes), ("write", writes, written_bytes)):
                        for unit, value in (("operations", operations), ("bytes", of_bytes)):
                            metric = f"plimsoll_disk_average_{unit}_per_second"
                            put(metric, f'{disk},direction="{side}"', value, at)
    # By series, in the order of time.
    return {name: sorted(each, key=lambda line: line.rpartition("}")[0]) for name, each in found.items()}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with prometheus_of(lines(), tmp_path_factory.mktemp("use")) as there:
        yield there


def asked(served: Served, before: Limits, after: Limits) -> dict[str, Impact | None]:
    prometheus = Prometheus(served.url, token_file=None, ca_file=None, deadline=20.0)
    limits = dict.fromkeys(VOLUMES.values(), (before, after))
    answer = volume_use.impacts(prometheus.query, limits)
    return {name: answer[volume] for name, volume in VOLUMES.items()}


FAST = Limits(total_iops_sec=3000)


@pytest.mark.parametrize(
    ("before", "after", "shares"),
    [
        (FAST, Limits(total_iops_sec=25), {"steady": 1, "bursty": 0.25, "idle": 0, "large": 0, "moved": 1}),
        (FAST, Limits(total_iops_sec=200), dict.fromkeys(NAMES[:-1], 0)),
        (Limits(), Limits(write_iops_sec=80), {"steady": 0, "bursty": 0.25, "idle": 0, "large": 0, "moved": 0}),
        (FAST, Limits(total_bytes_sec=2 * MIB), {"steady": 0, "bursty": 0, "idle": 0, "large": 1, "moved": 0}),
        # 1 MiB counts as 256 requests of 4 KiB.
        (
            FAST,
            Limits(total_iops_sec=500, size_iops_sec=4 * KIB),
            {"steady": 0, "bursty": 0, "idle": 0, "large": 1, "moved": 0},
        ),
        # A burst of 300 s makes more than the average of the pass that it is in.
        (
            FAST,
            Limits(total_iops_sec=25, total_iops_sec_max=150, total_iops_sec_max_length=300),
            dict.fromkeys(NAMES[:-1], 0),
        ),
    ],
)
def test_the_share_of_the_time_at_the_new_limit_is_the_one_of_the_load(
    served: Served, before: Limits, after: Limits, shares: dict[str, float]
) -> None:
    answer = asked(served, before, after)
    assert answer.pop("unknown") is None, "unknown is not zero"
    assert {name: impact and impact.share for name, impact in answer.items()} == {
        name: pytest.approx(share, abs=0.08) for name, share in shares.items()
    }
    assert all(impact and 6600 <= impact.seconds <= 7800 for impact in answer.values()), answer


def test_the_present_use_is_counted_once_where_two_jobs_scrape_the_node(served: Served) -> None:
    impact = asked(served, FAST, Limits(total_iops_sec=25))["steady"]
    assert impact is not None
    assert (impact.base, impact.present) == ("total_iops_sec", 140)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """The volumes at 3000 IOPS, and a file that has 25 for them."""
    cinder = FakeCinder()
    cinder.type("gold", cinder.spec("gold", {"total_iops_sec": "3000"}))
    for volume in VOLUMES.values():
        cinder.volume("gold", 100)
        cinder.volumes[-1]["id"] = volume
    file = tmp_path / "qos.yaml"
    file.write_text(
        "qos_specs:\n  gold:\n    consumer: front-end\n    keys: {total_iops_sec: 25}\n"
        "volume_types:\n  gold: {qos_spec: gold}\n"
    )
    with serving(cinder) as url:
        settings = tmp_path / "plimsoll.conf"
        settings.write_text(f"[catalogue]\ncredentials_file = {credentials(tmp_path, f'{url}/identity')}\n")
        yield Site(cinder, file, settings)


def test_a_plan_names_who_will_feel_it_the_worst_first_and_counts_the_rest(site: Site, served: Served) -> None:
    ran = site.run("plan", str(site.file), "--prometheus", served.url)
    assert (ran.status, ran.err) == (2, "")
    volumes = [line for line in ran.out.splitlines() if line.startswith("  volume ")]
    assert [line.split()[3] for line in volumes] == ["web-0", "web-4", "web-1"]
    assert "3000 → 25 IOPS (to 0.83 %)   does 140 IOPS now, would be at limit 100 % of" in volumes[0]
    assert "Of 6 volumes with a lower or a first limit, 3 will feel it, 2 will not, 1 may" in ran.out
    data = site.run("plan", str(site.file), "--prometheus", served.url, "-f", "json")
    schemas.hold("qos plan", data.out, "json")
    by_volume = {each["volume"]: each["impact"]["at_limit"] for each in json.loads(data.out)["impacts"]}
    assert by_volume[VOLUMES["unknown"]] is None
    assert by_volume[VOLUMES["steady"]] == 1


@pytest.mark.parametrize("words", [(), ("--prometheus", "http://127.0.0.1:9")], ids=["none", "gone"])
def test_without_prometheus_a_plan_stands_and_says_that_the_use_is_unknown(
    site: Site, words: tuple[str, ...]
) -> None:
    ran: Ran = site.run("plan", str(site.file), *words)
    assert ran.status == 2
    why = "Prometheus was not asked about all of" if words else "set [prometheus] url to have the use of"
    assert f"Who will feel it is unknown: {why} the 6 volumes" in ran.out
    assert ("what volumes used is unknown" in ran.err) == bool(words)
