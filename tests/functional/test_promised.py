"""``plimsoll region promised`` against a real Prometheus with the simulated regions: sums made by hand.

In the north gold disks (500 IOPS, 20 MB/s) are on the nodes 1 to 16 but 8 (standard) and 9 (no plimsoll); each has
150 IOPS and 1.5 MB/s. Node 11 is gone after step 53, node 10 has had no pass for two hours, node 6's is unlimited.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from plimsoll_agent.config import settings as config
from plimsoll_monitoring.adapters.prometheus import Prometheus
from plimsoll_monitoring.alerts.files import alerts_text, rules_text
from plimsoll_monitoring.alerts.site import Site
from plimsoll_monitoring.cli.promised import RegionPromised
from plimsoll_monitoring.region.device_classes import classes_of
from tests.simulated_region import LAST, STEP, Served, served
from tests.unit.node import FSID
from tests.unit.person import Person, Ran
from tests.unit.widths import WIDTHS, misfits

MS_40, MS_400 = (0.0335, 0.0504), (0.268, 0.403)
"""The buckets of probes on node 17, and on node 8."""


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(rules_text(Site()), alerts_text(Site()), tmp_path_factory.mktemp("region")) as there:
        yield there


def ran(prometheus: Served, *words: str) -> Ran:
    def connect(self: Any, *_: object) -> Prometheus:
        self._name = prometheus.url
        there = Prometheus(prometheus.url, token_file=None, ca_file=None, deadline=60)
        there._at = LAST * STEP  # the end of the simulated time
        return there

    person = Person()
    status = person.types(RegionPromised, *words, settings=config.load([], []), connect=connect)
    return Ran(status, person.out, person.err)


def rows(prometheus: Served, *words: str) -> list[dict[str, Any]]:
    done = ran(prometheus, *words, "-f", "json")
    assert done.status == 0, done.err
    found: list[dict[str, Any]] = json.loads(done.out)
    return found


def of(found: list[dict[str, Any]], unit: str = "operations", **labels: str | None) -> dict[str, Any]:
    (row,) = (row for row in found if row["unit"] == unit and labels.items() <= row.items())
    return row


def test_what_is_promised_by_type_is_the_sum_of_limits_of_the_nodes_that_still_have_passes(
    prometheus: Served,
) -> None:
    found = rows(prometheus, "--over", "day")
    gold = of(found, region="north", volume_type="gold")
    assert (gold["disks"], gold["unlimited"], gold["unknown"], gold["at_least"]) == (12, 1, 0, True)
    assert gold["promised"] == 11 * 500
    assert of(found, "bytes", region="north", volume_type="gold")["promised"] == 11 * 20e6
    south = of(found, region="south", volume_type="gold")
    assert (south["disks"], south["promised"], south["at_least"]) == (3, 1500, False)


def test_the_most_is_that_of_the_time_when_more_nodes_were_there(prometheus: Served) -> None:
    gold = of(rows(prometheus, "--over", "day"), region="north", volume_type="gold")
    assert gold["most"] == 14 * 150
    assert gold["ratio"] == pytest.approx(5500 / 2100)
    last = datetime.fromisoformat(gold["most_at"]).timestamp() - 53 * STEP
    assert 0 <= last <= 300, "a sample counts for five minutes"
    assert gold["p99"] is None, "the probes next to it were two hours before and three after"


def test_peak_use_is_of_what_was_promised_at_the_same_time(prometheus: Served) -> None:
    found = rows(prometheus, "--over", "day")
    # 2100 of 6500 and 1950 of 6000 were less.
    assert of(found, region="north", volume_type="gold")["peak_use"] == pytest.approx(1800 / 5500)
    assert of(found, "bytes", region="north", volume_type="gold")["peak_use"] == pytest.approx(18 / 220)
    assert of(found, region="south", volume_type="gold")["peak_use"] == pytest.approx(0.3)


def test_p99_is_that_of_the_probes_near_the_peak(prometheus: Served) -> None:
    found = rows(prometheus, "--over", "day")
    for region, (low, high) in (("north", MS_400), ("south", MS_40)):
        row = of(found, region=region, volume_type="standard")
        assert low < row["p99"] < high
        assert datetime.fromisoformat(row["most_at"]).timestamp() == LAST * STEP


def test_by_pool_all_types_in_it_are_one(prometheus: Served) -> None:
    found = rows(prometheus, "--by", "pool", "--over", "day")
    north, south = (of(found, region=region, pool="volumes", cluster=FSID) for region in ("north", "south"))
    # Gold as above, one of standard, and vda of 13 nodes, one of them unlimited.
    assert (north["disks"], north["unlimited"]) == (12 + 1 + 13, 2)
    assert north["promised"] == 5500 + 500 + 12 * 250
    assert north["most"] == 30 * 150
    assert south["promised"] == 4 * (500 + 250)
    assert MS_40[0] < south["p99"] < MS_40[1]


def report(directory: Path, fsid: str, rule: str) -> str:
    file = directory / f"{fsid[:4]}-{rule}.json"
    told = {
        "osdmap": {"fsid": fsid, "pools": [{"pool_name": "volumes", "crush_rule": 3}]},
        "crushmap": {"rules": [{"rule_id": 3, "steps": [{"op": "take", "item_name": rule}, {"op": "emit"}]}]},
    }
    file.write_text(json.dumps(told))
    return str(file)


def test_by_class_a_pool_is_of_the_class_that_its_crush_rule_takes(prometheus: Served, tmp_path: Path) -> None:
    file = report(tmp_path, FSID, "default~ssd")
    found = rows(prometheus, "--by", "class", "--ceph-report", file, "--over", "day")
    assert of(found, region="north", **{"class": "ssd"})["promised"] == 9000
    other = report(tmp_path, "0" * 36, "default~ssd")
    found = rows(prometheus, "--by", "class", "--ceph-report", other, "--over", "day")
    assert of(found, region="north", **{"class": None})["promised"] == 9000


def dumped(directory: Path) -> list[str]:
    """The maps of a cluster whose pool ``rbd`` takes devices of class nvme, as Ceph's own tools print them."""

    def run(*words: str) -> str:
        return subprocess.run(words, cwd=directory, check=True, capture_output=True, text=True, timeout=60).stdout

    run("osdmaptool", "--createsimple", "3", "osds", "--with-default-pool")
    run("osdmaptool", "osds", "--export-crush", "crush")
    run("crushtool", "-d", "crush", "-o", "crush.txt")
    text = (directory / "crush.txt").read_text()
    for number in range(3):
        text = text.replace(f"device {number} osd.{number}\n", f"device {number} osd.{number} class nvme\n")
    (directory / "classes.txt").write_text(text.replace("step take default\n", "step take default class nvme\n"))
    run("crushtool", "-c", "classes.txt", "-o", "classes")
    (directory / "crush.json").write_text(run("crushtool", "-i", "classes", "--dump"))
    (directory / "osds.json").write_text(run("osdmaptool", "osds", "--dump", "json"))
    return [str(directory / name) for name in ("crush.json", "osds.json")]


def test_what_ceph_itself_prints_of_its_maps_has_the_class_of_each_pool(tmp_path: Path) -> None:
    known = classes_of((file, Path(file).read_bytes()) for file in dumped(tmp_path))
    assert known == {("0" * 8 + "-0000-0000-0000-" + "0" * 12, "rbd"): "nvme"}


def test_a_region_alone_is_that_region(prometheus: Served) -> None:
    assert {row["region"] for row in rows(prometheus, "--region", "south")} == {"south"}


def test_people_get_a_sentence_on_each_and_what_is_missing(prometheus: Served) -> None:
    done = ran(prometheus, "--region", "north")
    said = " ".join(done.out.split())
    assert (
        "gold: at least 5500 IOPS promised (1 of 12 disks unlimited), 2100 the most seen in a week"
        " (at least 2.6×), peak use at most 33 %, p99 at that peak unknown" in said
    )
    assert "standard: 500 IOPS promised, 150 the most seen in a week (3.3×), peak use 30 %, p99" in said
    assert "Prometheus has what was taken since 1970-01-01 00:" in said
    assert done.err == (
        "1 node not counted: unreachable (no metrics in Prometheus): node11:9100\n"
        "1 node not counted (not observed for an hour, or an older version): node10:9100\n"
    )


@pytest.mark.parametrize("by", ["type", "pool"])
def test_the_table_fits_every_terminal(by: str, prometheus: Served) -> None:
    pipe = ran(prometheus, "--by", by, "--max-width", "0", "--wide").out
    for width in WIDTHS:
        done = ran(prometheus, "--by", by, "--max-width", str(width))
        assert misfits(done.out, pipe, width) == []


def test_labels_that_were_made_to_break_out_are_only_labels(prometheus: Served) -> None:
    assert ran(prometheus, "--region", 'x"} or vector(1) or y{a="').status == 1


def test_the_time_is_that_of_the_end(prometheus: Served) -> None:
    (row,) = {row["since"] for row in rows(prometheus, "--over", "day") if row["region"] == "south"}
    assert datetime.fromisoformat(row) == datetime.fromtimestamp(LAST * STEP - 86400, UTC)
