"""``plimsoll load --latency``: which disks are chosen, and when."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from plimsoll_agent.config import settings as config
from plimsoll_agent.util.frozen import replace
from plimsoll_insight.cli import load
from plimsoll_insight.cli.load import Load
from plimsoll_insight.load.latency import BOUNDARIES, LatencyHistogram
from tests import schemas
from tests.fakes import FakeGuest, FakeHypervisor, volume
from tests.unit.person import Person
from tests.unit.values import GUEST
from tests.unit.waitingclock import WaitingClock

IDLE = "0c1d2e3f-0000-4000-8000-000000000001"
QUIET, LAST = 3, 8
"""Rounds in which no disk does anything, and all of them."""


class Node(FakeHypervisor):
    """A guest with two disks, of which one writes, or ``both``, in every round after ``quiet`` ones.

    ``set`` has the devices with histograms. In the first ``dark`` readings libvirt has no counters.
    """

    def __init__(self, quiet: int, *, both: bool, dark: int) -> None:
        disks = {"vda": volume(), "vdb": volume(IDLE)}
        super().__init__(FakeGuest("db", GUEST, disks))
        self.busy = list(disks.values()) if both else [disks["vda"]]
        self.quiet, self.dark, self.rounds = quiet, dark, 0
        self.set: dict[str, list[int]] = {}

    def guests(self) -> Any:
        self.rounds += 1
        if self.rounds > self.quiet + 2:  # the first is the check, the next the first reading
            for disk in self.busy:
                reads, read, writes, written = disk.done
                disk.done = (reads, read, writes + 10, written + 40960)
        return super().guests()

    def block_stats(self, uuid: str, targets: Iterable[str]) -> Any:
        return {} if self.rounds < self.dark + 2 else super().block_stats(uuid, targets)

    def monitor(self, uuid: str, command: str, arguments: Mapping[str, Any] | None = None) -> Any:
        if command == "block-latency-histogram-set":
            self.set[(arguments or {})["id"]] = (arguments or {}).get("boundaries", [])
            return {}
        paths = [f"/machine/peripheral/{disk.alias}/virtio-backend" for disk in self.look(uuid).disks]
        names = ("rd_latency_histogram", "wr_latency_histogram", "flush_latency_histogram")
        return [
            {
                "qdev": path,
                "stats": {name: {"boundaries": edges, "bins": [0] * (len(edges) + 1)} for name in names}
                if (edges := self.set.get(path))
                else {},
            }
            for path in paths
        ]


def typed(
    quiet: int, state: Path, monkeypatch: pytest.MonkeyPatch, *words: str, both: bool = False, dark: int = 0
) -> tuple[int, str, str]:
    clock = WaitingClock()
    monkeypatch.setattr(load, "time", clock)
    monkeypatch.setattr(load, "ended_early", lambda: nullcontext(clock))
    person, node = Person(), Node(quiet, both=both, dark=dark)
    words = ("--for", "8s", "--interval", "1s", *words)
    status = person.types(Load, *words, settings=replace(config.load([], []), state_dir=state), hypervisor=node)
    return status, person.err, person.out


def measured(quiet: int, state: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str, list[Any]]:
    status, err, out = typed(quiet, state, monkeypatch, "--latency", "--top", "5", "-f", "json")
    return status, err, json.loads(out)


@pytest.mark.parametrize(
    ("nanoseconds", "words"),
    [(0, "under 32.8 µs"), (32_767, "under 32.8 µs"), (32_768, "36.9 µs"), (1 << 40, "over 15 s")],
)
def test_a_latency_below_the_first_boundary_has_no_figure_that_looks_exact(nanoseconds: int, words: str) -> None:
    counts = [0] * (len(BOUNDARIES) + 1)
    counts[sum(boundary <= nanoseconds for boundary in BOUNDARIES)] = 1
    assert load._quantile_words(LatencyHistogram(tuple(counts)).quantile(0.5)) == words


@pytest.mark.parametrize("quiet", [0, QUIET])
def test_disks_are_chosen_when_the_first_one_does_something(
    quiet: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, err, (row,) = measured(quiet, tmp_path, monkeypatch)
    assert "libvirt marks these guests as tainted (custom-monitor) until they stop: db" in err
    assert (status, row["latency"]["disks"]) == (0, 1)


@pytest.mark.parametrize("both", [False, True])
def test_latencies_of_a_part_of_the_disks_are_told_as_such(
    both: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = typed(0, tmp_path, monkeypatch, "--latency", "--top", "1", "--by", "guest", both=both)[2]
    line = "Latencies are of 1 of 2 disks in these rows; the others have none."
    assert (line in " ".join(out.split())) == both


@pytest.mark.parametrize("quiet", [LAST - 1, LAST])
def test_latencies_that_are_not_measured_as_no_disk_did_anything_are_told(
    quiet: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, err, rows = measured(quiet, tmp_path, monkeypatch)
    assert err.startswith(
        "latencies not measured: no disk did anything before the last interval; give a longer --for"
    )
    assert (status, [row["latency"] for row in rows]) == (1, [None] * (LAST - quiet))


def test_each_interval_has_a_row_with_its_time_and_its_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status, err, out = typed(0, tmp_path, monkeypatch, "--by", "time", "-f", "json")
    assert (status, err) == (0, "")
    schemas.hold("load", out, "json")
    rows = json.loads(out)
    assert [row["end"] for row in rows[:-1]] == [row["begin"] for row in rows[1:]]
    assert sum(row["write_iops"] for row in rows) == 10 * LAST
    some = [row for row in rows if row["write_iops"]]
    assert {(row["write_size"], *row["sizes"]["write"].items()) for row in some} == {(4096, ("4096", 1.0))}
    assert {(row["read_iops"], row["read_size"], *row["sizes"]["read"]) for row in rows} == {(0, None)}


def test_the_busiest_intervals_are_in_the_order_of_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, out = typed(QUIET, tmp_path, monkeypatch, "--by", "time", "--top", "2", "-f", "json")
    rows = json.loads(out)
    assert all(row["write_iops"] for row in rows)
    assert [row["begin"] for row in rows] == sorted(row["begin"] for row in rows)


def test_intervals_in_which_no_disk_did_anything_are_told_in_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert typed(LAST, tmp_path, monkeypatch, "--by", "time")[2] == "No disk did anything.\n"


@pytest.mark.parametrize("by", ["volume", "time"])
@pytest.mark.parametrize("dark", [1, LAST, LAST + 1])
def test_disks_without_counters_are_not_told_as_idle(
    by: str, dark: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "Incomplete: counters of 2 disks could not be read all the time."
    status, _, out = typed(LAST, tmp_path, monkeypatch, "--by", by, dark=dark)
    said = " ".join(out.split())
    assert status == 1
    assert "No disk did anything" not in said
    assert said.endswith(words)
    status, err, out = typed(LAST, tmp_path, monkeypatch, "--by", by, "-f", "json", dark=dark)
    assert (status, words in err) == (1, True)
    assert "pass" not in err, "load is none"


def test_incomplete_figures_of_disks_that_worked_are_told_in_every_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "Incomplete: counters of 2 disks could not be read all the time."
    _, err, out = typed(0, tmp_path, monkeypatch, dark=1)
    assert (err, words in " ".join(out.split())) == ("", True)
    assert words in typed(0, tmp_path, monkeypatch, "-f", "csv", dark=1)[1]
