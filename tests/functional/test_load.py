"""``plimsoll load`` on libvirt's test driver, whose counters are random: its form, its sums, and errors."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.command import Forked
from plimsoll_agent.util import locks
from tests import schemas
from tests.functional.conftest import Ran, ended

SHORT = ("--for", "1s", "--interval", "500ms")


def test_shares_add_up_and_names_are_there(plimsoll: Callable[..., Ran], test_node: str) -> None:
    ran = plimsoll("load", "--uri", test_node, *SHORT, "-f", "json")
    assert (ran.status, ran.err) == (0, "")
    rows = json.loads(ran.out)
    assert rows
    for direction in ("read", "write"):
        parts = [row[f"{direction}_share"] for row in rows if row[f"{direction}_share"] is not None]
        assert not parts or sum(parts) == pytest.approx(1, abs=0.01)


def test_top_is_how_many_rows_there_are(plimsoll: Callable[..., Ran], test_node: str) -> None:
    rows = json.loads(plimsoll("load", "--uri", test_node, *SHORT, "--top", "2", "-f", "json").out)
    assert len(rows) == 2
    first, second = (row["read_iops"] + row["write_iops"] for row in rows)
    assert first >= second - 0.002, "each of the four is rounded to a thousandth"


def test_latencies_that_cannot_be_measured_are_unknown_and_the_rest_is_listed(
    plimsoll: Callable[..., Ran], test_node: str, tmp_path: Path
) -> None:
    """The test driver has no QEMU."""
    ran = plimsoll("load", "--uri", test_node, *SHORT, "--latency", "--guest", "instance-00000001", "-f", "json")
    assert ran.status == 1
    said = " ".join(ran.err.split())
    assert "libvirt marks these guests as tainted (custom-monitor) until they stop: instance-00000001" in said
    assert "instance-00000001: latencies not measured:" in said
    schemas.hold("load", ran.out, "json")
    rows = json.loads(ran.out)
    assert rows
    assert {(row["write_p99"], row["latency"]) for row in rows} == {(None, None)}
    assert "not removed" not in said
    assert not (tmp_path / "state/histograms.json").exists()


def test_two_that_measure_latencies_do_not_meet(plimsoll: Callable[..., Ran], test_node: str, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    words = ("load", "--uri", test_node, *SHORT, "--guest", "instance-00000001")
    lock = locks.take(tmp_path / "state/histograms.lock")
    try:
        ran = plimsoll(*words, "--latency")
        assert (ran.status, ran.out) == (75, "")
        assert "another plimsoll load --latency is under way on this node" in " ".join(ran.err.split())
        assert plimsoll(*words).status == 0
    finally:
        os.close(lock)


def test_a_signal_ends_it_early_with_the_list(test_node: str, tmp_path: Path) -> None:
    (tmp_path / "c").write_text(f"[DEFAULT]\nstate_dir = {tmp_path}/state\n")
    words = ("--config-file", tmp_path / "c", "load", "--uri", test_node, "--for", "1h", "--interval", "500ms")
    pipe = subprocess.PIPE
    with Forked(*words, "-f", "json", stdout=pipe, stderr=pipe, encoding="utf-8", env=os.environ) as process:
        _wait_for_its_handler(process.pid)
        process.send_signal(signal.SIGTERM)
        ran = ended(process)
    assert (ran.status, ran.err) == (0, "")
    assert isinstance(json.loads(ran.out), list)


def _wait_for_its_handler(pid: int) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        (caught,) = re.findall(r"SigCgt:\s*(\w+)", Path(f"/proc/{pid}/status").read_text())
        if int(caught, 16) >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.01)
    pytest.fail("it takes no SIGTERM")


def test_a_person_is_told_who_makes_a_quarter(plimsoll: Callable[..., Ran], test_node: str) -> None:
    ran = plimsoll("load", "--uri", test_node, *SHORT, "--by", "guest")
    assert ran.status == 0
    said = " ".join(ran.out.split())
    assert re.search(r"% of writes come from \d+ guests? of \d+ active", said)
    one = plimsoll("load", "--uri", test_node, *SHORT, "--guest", "instance-00000001").out
    assert "% of these guests' writes come from" in " ".join(one.split())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--for", "soon"), "--for"),
        (
            ("--for", "1s", "--interval", "2s"),
            "--interval must be 0.5 seconds or more, and --for from there to an hour",
        ),
        (("--guest", "no-guest"), "no-guest"),
        (("--top", "0"), "--top must be 1 or more"),
        (("--latency",), "--latency needs --guest GUEST or --top N: it is for few disks"),
        (("--latency", "--top", "21"), "--latency is for 20 disks or fewer; lower --top"),
        (("--latency", "--top", "1", "--by", "time"), "--latency is of the whole time; give another --by than time"),
        (("--latency", "--top", "1", "--for", "1s"), "--latency needs two intervals or more; give a longer --for"),
    ],
)
def test_a_wrong_word_is_one_line_and_status_64(
    plimsoll: Callable[..., Ran], test_node: str, words: tuple[str, ...], sentence: str
) -> None:
    ran = plimsoll("load", "--uri", test_node, *words)
    assert (ran.status, ran.out) == (64, "")
    assert sentence in ran.err
