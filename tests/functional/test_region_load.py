"""``plimsoll region load`` in a simulated region, over an hour in a real Prometheus: sums made by hand.

Region r1 has ten nodes with two guests of two disks each, vda of type bronze and vdb of type gold, all of one
project; each disk does 10 reads and 10 writes of 4 KiB a second. What is different:

=======  ==============================================================================================
node1    is scraped by a second job; guest 2 (writer): vdb does 2000 writes of 4 KiB instead
node2    is scraped every 15 seconds, the others every minute;
         guest 4 (reader), of another project: vdb does 300 reads of 512 KiB instead
node3    guest 6 is there for half of the time and then on node4; its vdb does 400 reads of 4 KiB instead
node5    guest 10: its kernel reports 5 lines of a stall in the middle, and 2 from before
node7    guest 14 is there for half of the time and is deleted then
node8    guest 16 has another volume as vdb for half of the time
node9    was observed 50 minutes ago for the last time: vdb of guest 18 does 50000 writes
node10   has no metrics of single disks
node11   is gone for half of the time
=======  ==============================================================================================

Region r2 has one such node, where nothing is different.
"""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest

from plimsoll_agent.model.usage import Rates
from plimsoll_agent.monitor import pass_metrics
from plimsoll_insight.load.region import LoadBy, of_region
from plimsoll_monitoring.adapters.prometheus import Prometheus
from plimsoll_monitoring.region.answers import Series
from tests import schemas
from tests.functional.conftest import Ran
from tests.simulated_region import Served, prometheus_of, series_lines
from tests.unit.lastpasses import PROJECT, a_last_disk, a_last_pass, a_name
from tests.unit.node import uuid_of
from tests.unit.widths import WIDTHS, misfits

STEP, LAST = 60, 60
KIB = 1024
WRITER, READER, MOVED, STALLED, DELETED, REPLACED = 2, 4, 6, 10, 14, 16
OTHER = "0" * 32
CALM = (10, 10, 4 * KIB, 4 * KIB)
"""Reads and writes a second, and their sizes."""
DOES = {
    (WRITER, "vdb"): (10, 2000, 4 * KIB, 4 * KIB),
    (READER, "vdb"): (300, 10, 512 * KIB, 4 * KIB),
    (MOVED, "vdb"): (400, 10, 4 * KIB, 4 * KIB),
    (18, "vdb"): (10, 50000, 4 * KIB, 4 * KIB),
}
COUNTED = 9 * 4 - 1
"""Disks of r1 without node9; two that were there for half of the time are one."""
WRITES, READS = (COUNTED - 1) * 10 + 2000, (COUNTED - 2) * 10 + 300 + 400
READ_BYTES = (READS - 300) * 4 * KIB + 300 * 512 * KIB
Run = Callable[..., Ran]


def volume(guest: int) -> str:
    return f"{guest:08}-aaaa-4aaa-8aaa-aaaaaaaaaaaa"


@cache
def told(node: int, region: str, guests: tuple[int, ...], ended: datetime, *, before: bool) -> list[str]:
    disks = []
    for guest in guests:
        for target in ("vda", "vdb"):
            reads, writes, read_size, write_size = DOES.get((guest, target), CALM) if region == "r1" else CALM
            gold = target == "vdb"
            disks.append(
                a_last_disk(
                    a_name(
                        guest,
                        target,
                        volume_id=volume(guest + 100 * (before and guest == REPLACED)) if gold else None,
                        project=OTHER if guest == READER else PROJECT,
                        key=f"{uuid_of(guest)}/{target}",
                    ),
                    volume_type="gold" if gold else "bronze",
                    server=f"web-{guest}",
                    project_name="other" if guest == READER else "shop",
                    rates=Rates(
                        read_iops=reads,
                        write_iops=writes,
                        read_bytes=reads * read_size,
                        write_bytes=writes * write_size,
                        seconds=60.0,
                    ),
                )
            )
    told = a_last_pass(*disks, interval=300.0, ended=ended, looked=ended)
    own = f'job="node",region="{region}",instance="node{node}:9100"'
    lines = []
    for line in series_lines(pass_metrics.families(told, detail="aggregate" if node == 10 else "disk")):
        name, _, rest = line.partition("{")
        if rest:
            lines.append(f"{name}{{{own},{rest}")
        else:
            metric, value = name.split(" ")
            lines.append(f"{metric}{{{own}}} {value}")
    return [*lines, *(line.replace('job="node"', 'job="again"') for line in lines if node == 1)]


def lines() -> dict[str, list[str]]:
    now = int(time.time())
    found: dict[str, list[str]] = {}
    series: dict[str, list[str]] = {}
    for step in range(LAST):
        at = now - (LAST - 1 - step) * STEP
        for region, node in [*(("r1", node) for node in range(1, 12)), ("r2", 21)]:
            if node == 11 and step >= LAST / 2:
                continue
            gone = {MOVED, DELETED} if step >= LAST / 2 else {MOVED}
            there = [guest for guest in (2 * node - 1, 2 * node) if guest not in gone]
            if region == "r1" and node == (3 if step < LAST / 2 else 4):
                there.append(MOVED)
            last = min(at, now - 3000) if node == 9 else at
            ended = datetime.fromtimestamp(last // 600 * 600, UTC)
            for line in told(node, region, tuple(there), ended, before=step < LAST / 2):
                key, _, value = line.rpartition(" ")
                often = (45, 30, 15, 0) if node == 2 else (0,)
                series.setdefault(key, []).extend(f"{value} {at - before}" for before in often)
        own = 'job="node",region="r1",instance="node5:9100"'
        stalled = f'{own},uuid="{uuid_of(STALLED)}",domain="instance-{STALLED:08}",kind="hung-task"'
        later = step > LAST / 2
        series.setdefault(f"plimsoll_guest_stall_lines_total{{{stalled}}}", []).append(f"{2 + 5 * later} {at}")
        key = f'plimsoll_project_stalled_timestamp_seconds{{{own},project="{PROJECT}"}}'
        series.setdefault(key, []).append(f"{now - 1800 if later else now - 90000} {at}")
    for key, values in series.items():
        found.setdefault(key.partition("{")[0], []).extend(f"{key} {value}" for value in values)
    return found


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with prometheus_of(lines(), tmp_path_factory.mktemp("load")) as there:
        yield there


@pytest.fixture
def load(plimsoll: Run, prometheus: Served) -> Run:
    return lambda *words: plimsoll("region", "load", "--prometheus", prometheus.url, *words)


STDERR = (
    "1 node not counted: unreachable (no metrics in Prometheus): node11:9100 (r1)\n"
    "1 node not counted (no passes in a tenth of this time or more, or an older version): node9:9100 (r1)\n"
    "1 node without metrics of single disks and guests ([metrics] detail = aggregate): node10:9100 (r1)\n"
)


def rows(load: Run, *words: str) -> list[dict[str, Any]]:
    ran = load(*words, "-f", "json")
    assert ran.status == 0, ran.err
    schemas.hold("region load", ran.out, "json")
    found: list[dict[str, Any]] = json.loads(ran.out)
    return found


def of(found: list[dict[str, Any]], **labels: object) -> dict[str, Any]:
    (row,) = (row for row in found if labels.items() <= row.items())
    return row


def near(value: float) -> object:
    """Samples of the last minute may be within the hour or not."""
    return pytest.approx(value, rel=0.02)


def test_who_writes_4k_and_who_reads_512k_come_first_with_their_sizes_and_shares(load: Run) -> None:
    found = rows(load, "--region", "r1")
    first, second = found[:2]
    assert {first["volume"], second["volume"]} == {volume(WRITER), volume(READER)}
    writer, reader = of(found, volume=volume(WRITER)), of(found, volume=volume(READER))
    assert (writer["write_size"], reader["read_size"]) == (4 * KIB, 512 * KIB)
    assert writer["write_iops"] == near(2000)
    assert reader["read_bytes_sec"] == near(300 * 512 * KIB)
    assert writer["write_share"] == near(2000 / WRITES)
    assert reader["read_share"] == near(300 / READS)
    assert reader["read_bytes_share"] == near(300 * 512 * KIB / READ_BYTES)
    assert (writer["server"], writer["volume_type"], writer["disk"]) == (f"web-{WRITER}", "gold", "vdb")
    assert (writer["guest_uuid"], writer["project"]) == (uuid_of(WRITER), PROJECT)


def test_a_guest_that_moved_has_the_load_of_both_nodes(load: Run) -> None:
    found = of(rows(load, "--region", "r1", "--by", "guest"), guest_uuid=uuid_of(MOVED))
    assert found["read_iops"] == near(400 + 10)


def test_a_disk_with_another_volume_before_is_named_as_neither(load: Run) -> None:
    found = rows(load, "--node", "node8")
    both = of(found, guest_uuid=uuid_of(REPLACED), disk="vdb")
    assert (both["several_volumes"], both["volume"], both["volume_type"]) == (True, None, None)
    assert both["write_iops"] == near(10)
    assert [row["disk"] for row in found if row["several_volumes"]] == ["vdb"]
    assert "(several)" in load("--node", "node8").out


def test_a_second_job_that_scrapes_a_node_changes_nothing(load: Run) -> None:
    assert of(rows(load, "--node", "node1"), volume=volume(WRITER))["write_share"] == near(2000 / 2030)


def test_nodes_whose_passes_stood_still_are_named_and_not_counted(load: Run) -> None:
    ran = load("-f", "json")
    assert ran.err == STDERR
    assert volume(18) not in ran.out


def test_by_type_and_project_sums_are_those_of_all_their_disks(load: Run) -> None:
    types = rows(load, "--region", "r1", "--by", "type")
    assert of(types, volume_type="gold")["write_share"] == near((WRITES - COUNTED / 2 * 10) / WRITES)
    assert sum(row["write_share"] for row in types) == pytest.approx(1, abs=0.01)
    projects = rows(load, "--region", "r1", "--by", "project")
    other = of(projects, project=OTHER, project_name="other")
    assert other["read_bytes_share"] == near((300 * 512 * KIB + 10 * 4 * KIB) / READ_BYTES)
    # The four disks of node10 are in the whole, and in no project.
    assert sum(row["read_share"] for row in projects) == near(1 - 40 / READS)


def test_stalls_stand_beside_the_load_of_who_had_them(load: Run) -> None:
    found = rows(load, "--region", "r1", "--by", "guest", "--top", "50")
    assert of(found, guest_uuid=uuid_of(STALLED))["stall_lines"] == pytest.approx(5, abs=1)
    assert of(found, guest_uuid=uuid_of(WRITER))["stall_lines"] is None, "its console is not read"
    assert of(rows(load, "--region", "r1", "--by", "project"), project=PROJECT)["stalled"] is not None
    said = load("--region", "r1").out
    assert "Guests of 1 project stalled in this time, by their consoles." in " ".join(said.split())


def test_people_are_told_how_few_make_a_quarter(load: Run) -> None:
    said = " ".join(load("--region", "r1").out.split())
    share = f"{2000 / WRITES * 100:.0f} %"
    assert f"{share} of writes come from 1 volume of {8 * 4}, {share} of bytes written from 1." in said


def test_top_is_how_many_rows_there_are(load: Run) -> None:
    assert len(rows(load, "--top", "3")) == 3
    assert len(rows(load, "--top", "200")) == 8 * 4 + 4


@pytest.mark.parametrize("by", [LoadBy.VOLUME, LoadBy.GUEST])
def test_prometheus_answers_with_the_heaviest_disks_not_with_every_disk(prometheus: Served, by: LoadBy) -> None:
    connection = Prometheus(prometheus.url, token_file=None, ca_file=None, deadline=60)
    answered: list[int] = []

    def ask(promql: str) -> Sequence[Series]:
        answered.append(len(answer := connection.query(promql)))
        return answer

    found = of_region(ask, "r1", (), [("r1", "node9:9100")], by, 3600, 1)
    assert 1 <= len(found.rows) <= 4, "one of each direction and unit"
    # A guest has two disks, which are read and written.
    assert max(answered) <= 4 * 2 * 2


def test_regions_have_shares_of_their_own(load: Run) -> None:
    found = rows(load, "--by", "type")
    assert of(found, region="r2", volume_type="gold")["write_share"] == near(0.5)


def test_csv_has_the_same_columns(load: Run) -> None:
    (first, *_) = csv.DictReader(io.StringIO(load("-f", "csv", "--top", "1").out))
    assert {"region", "volume", "read_share", "write_bytes_share"} <= first.keys()


@pytest.mark.parametrize("by", ["volume", "guest", "project", "type"])
def test_the_table_fits_every_terminal(load: Run, by: str) -> None:
    for width in WIDTHS:
        whole = ("--by", by, "--max-width", "0", "--wide")
        before = load(*whole).out
        listed = load("--by", by, "--max-width", str(width)).out.partition("Hidden:")[0]  # heads have units
        # Rates change with time, and a page has those of before or of after.
        assert not misfits(listed, before, width) or not misfits(listed, load(*whole).out, width)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--since", "soon"), "--since: 'soon' is not a time; write 14:00"),
        (("--since", "1s"), "--since must be 5m or more before the end, and 1d or less, with --node 7d or less"),
        (("--since", "25h"), "--since must be 5m or more before the end, and 1d or less, with --node 7d or less"),
        (
            ("--since", "8d", "--node", "node1"),
            "--since must be 5m or more before the end, and 7d or less",
        ),
        (("--top", "0"), "--top must be 1 or more, and 200 or less"),
    ],
)
def test_a_wrong_word_is_one_line(load: Run, words: tuple[str, ...], said: str) -> None:
    ran = load(*words)
    assert (ran.status, ran.out) == (64, "")
    assert said in ran.err


def test_a_region_without_metrics_is_an_error(load: Run) -> None:
    ran = load("--region", "nowhere")
    assert (ran.status, ran.out) == (1, "")
    assert "no metrics of plimsoll of region nowhere" in " ".join(ran.err.split())
