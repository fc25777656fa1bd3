"""``plimsoll drill``: recordings beside a Ceph that answers, hangs or is killed, and their reports."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lab.command import Forked
from lab.waiting import until
from plimsoll_insight.drill.recording import read
from tests import depth
from tests.functional.conftest import Ran, name_cluster
from tests.unit.insight.drill.recorded import BEGAN, drill, status, write

LONG, MANY = depth.count(quick=600, landing=900, soak=3600), depth.count(quick=64, landing=256, soak=512)
LARGEST = 3_000_000
STATUS = {
    "health": {"checks": {}}, "osdmap": {"num_osds": 3, "num_up_osds": 3, "num_in_osds": 3},
    "pgmap": {"pgs_by_state": [{"state_name": "active+clean", "count": 24}], "num_objects": 90},
}  # fmt: skip
CEPH = """#!/bin/sh
case "$*" in
*status*) {wait} cat {home}/status.json ;;
*) echo '[]' ;;
esac
"""


@pytest.fixture
def ceph(tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """Makes a ``ceph`` in the PATH, which does ``wait`` before it tells its status."""

    def make(wait: str = "") -> dict[str, str]:
        (tmp_path / "status.json").write_text(json.dumps(STATUS))
        (tmp_path / "ceph").write_text(CEPH.format(home=tmp_path, wait=wait))
        (tmp_path / "ceph").chmod(0o755)
        name_cluster(tmp_path)
        return {"PATH": f"{tmp_path}:{os.environ['PATH']}"}

    return make


def test_a_recording_has_the_cluster_and_its_marks_and_a_report(
    plimsoll: Callable[..., Ran], ceph: Callable[..., dict[str, str]], test_node: str, tmp_path: Path
) -> None:
    file = str(tmp_path / "drill")
    words = ("drill", "record", file, "--for", "2s", "--interval", "500ms", "--uri", test_node)
    assert plimsoll(*words, "--mon-store", str(tmp_path), **ceph()) == Ran(0, "", "")
    assert plimsoll("drill", "mark", file, "OSD\x1b stopped") == Ran(0, "", "")
    found = read(Path(file))
    assert (found.ended, found.damaged) == ("over", 0)
    assert found.statuses[0][1].up == 3
    ran = plimsoll("drill", "report", file, "-f", "json")
    assert (ran.status, ran.err) == (0, "")
    told = json.loads(ran.out)
    assert [mark["text"] for mark in told["marks"]] == ["OSD? stopped"]
    assert [phase["phase"] for phase in told["phases"]] == ["normal"]
    assert told["incidents"] == []
    assert told["mon_store_bytes"]["most"] >= told["mon_store_bytes"]["first"] > 0
    again = plimsoll(*words, **ceph())
    assert (again.status, again.err) == (1, f"{file}: there is such a file; give another name\n")


def test_guests_that_do_nothing_cannot_stall_and_the_recording_says_so(
    plimsoll: Callable[..., Ran], ceph: Callable[..., dict[str, str]], test_node: str, tmp_path: Path
) -> None:
    words = ("drill", "record", str(tmp_path / "drill"), "--for", "1s", "--interval", "500ms", "--uri", test_node)
    ran = plimsoll(*words, "--until-stalled", "10s", **ceph())
    assert (ran.status, ran.err) == (
        3, "no disk of a guest was busy, so none could have stalled (--until-stalled): start a load\n",
    )  # fmt: skip
    assert read(tmp_path / "drill").ended == "over"


def test_only_guests_that_a_rule_chooses_are_probed(
    plimsoll: Callable[..., Ran], ceph: Callable[..., dict[str, str]], test_node: str, tmp_path: Path
) -> None:
    words = ("drill", "record", str(tmp_path / "drill"), "--for", "1s", "--uri", test_node, "--probe", "no-such")
    name_cluster(tmp_path)
    ran = plimsoll(*words, **ceph())
    assert (ran.status, len(ran.err.splitlines())) == (64, 1)
    assert "no-such" in ran.err
    assert not (tmp_path / "drill").exists()


def test_a_ceph_that_hangs_is_a_gap_and_the_guests_are_recorded(
    plimsoll: Callable[..., Ran], ceph: Callable[..., dict[str, str]], test_node: str, tmp_path: Path
) -> None:
    file = tmp_path / "drill"
    words = ("drill", "record", str(file), "--for", "3s", "--interval", "500ms", "--deadline", "1s")
    ran = plimsoll(*words, "--uri", test_node, **ceph("sleep 60;"))
    assert (ran.status, ran.err) == (1, "ceph: never answered: no answer from Ceph within 1 s\n")
    found = read(file)
    assert {gap.source for gap in found.gaps if "Ceph" in gap.why} == {"ceph"}
    assert found.statuses == []
    assert found.ended == "over"


def test_a_recording_that_is_killed_reports_until_then(
    plimsoll: Callable[..., Ran], ceph: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    file = tmp_path / "drill"
    words = ("drill", "record", str(file), "--no-guests", "--interval", "500ms")
    with Forked(
        "--config-file", tmp_path / "plimsoll.conf", *words,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | ceph(),
    ) as process:  # fmt: skip
        # It is empty for a moment.
        until(lambda: file.exists() and file.stat().st_size and len(read(file).statuses) >= 3)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    told = json.loads(plimsoll("drill", "report", str(file), "-f", "json").out)
    assert (told["ended"], told["seconds"] >= 1) == (None, True)


def test_drills_are_reported_compared_with_a_forecast_and_with_each_other(
    plimsoll: Callable[..., Ran], tmp_path: Path
) -> None:
    files = [tmp_path / "one", tmp_path / "two"]
    for file, recovery in zip(files, (10, 20), strict=True):
        write(file, drill(recovery=recovery), disks=2)
    forecast = tmp_path / "forecast.json"
    forecast.write_text(plimsoll("forecast", "--degraded", "50", "--network", "1MB", "--objects", "100",
                                 "--write-iops", "100", "--away", "20", "-f", "json").out)  # fmt: skip
    ran = plimsoll("drill", "report", str(files[0]), "--forecast", str(forecast))
    assert (ran.status, ran.err) == (0, "")
    assert [line.split()[0] for line in ran.out.splitlines() if " s  " in line] == [
        "normal", "outage", "degraded", "return", "recovery", "normal",
    ]  # fmt: skip
    assert "Forecast: objects degraded 50 %; measured 50 %, within it." in ran.out
    assert "2 stalls of 2 guests, of 2 busy disks: 16 s in all, the longest 8 s." in ran.out
    stalled = [line for line in ran.out.splitlines() if line.startswith("Stalled: ")]
    at = f"{datetime.fromtimestamp(BEGAN + 20, UTC):%H:%M:%S}"
    assert stalled == [f"Stalled: instance-00000000 vda, instance-00000001 vda at {at} UTC for 8 s."], "once for both"
    json.loads(plimsoll("drill", "report", str(files[0]), "--forecast", str(forecast), "-f", "json").out)
    rows = json.loads(plimsoll("drill", "compare", *map(str, files), "-f", "json").out)
    assert [(row["recover"], row["recovery_seconds"], row["outage_seconds"]) for row in rows] == [
        (14, 10, 8), (24, 20, 8),
    ]  # fmt: skip
    assert rows[0]["normal_iops"] == pytest.approx(200)


def test_a_page_of_an_hour_with_many_guests_is_small(plimsoll: Callable[..., Ran], tmp_path: Path) -> None:
    rest = [(100.0, status())] * (LONG - len(drill()))
    write(tmp_path / "drill", [*rest, *drill()], disks=MANY)
    for name in ("page.html", "plot.png", "plot.svg"):
        ran = plimsoll("drill", "report", str(tmp_path / "drill"), "--plot", str(tmp_path / name))
        assert (ran.status, ran.err) == (0, "")
        assert 10_000 < (tmp_path / name).stat().st_size < LARGEST
    page = (tmp_path / "page.html").read_text()
    cost = "Guests stood still for up to 8 s; Ceph noticed after 7 s; 44 % of normal for 14 s after the return"
    assert f'<h1>{cost}</h1>\n<p class="subject">Drill on node-1, ' in page
    assert "<h2>What happened</h2>" not in page, "nothing has happened"
    assert page.count("<img ") == 3
    phases = re.search(
        r"The phases: normal \d+ s, outage 8 s, degraded 20 s, return 4 s, recovery 10 s, normal", page
    )
    assert phases, "one strip, also in words"
    assert phases.start() < page.index("Latency above, IOPS below"), "above what it is the key of"


@pytest.mark.parametrize(
    ("words", "status", "complaint"),
    [
        (("record", "{}/new", "--interval", "0.1"), 64, "--interval: must be from 0.5 seconds to a minute"),
        (("record", "{}/new", "--no-guests", "--no-ceph"), 64, "--no-guests: nothing would be recorded"),
        (("record", "{}/new", "--until-stalled", "1s"), 64, "--until-stalled: must be two intervals or more"),
        (
            ("record", "{}/new", "--until-stalled", "9s", "--no-ceph"),
            64,
            "--until-stalled needs the guests, and Ceph",
        ),
        (("mark", "{}/none", "text"), 1, "none: no such file"),
        (("mark", "{}/none", " "), 64, "TEXT: must have 1 to 200 characters"),
        (("report", "{}/plimsoll.conf"), 1, "not a recording of plimsoll drill record"),
        (("compare", "{}/none"), 1, "none: no such file"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    plimsoll: Callable[..., Ran], tmp_path: Path, words: tuple[str, ...], status: int, complaint: str
) -> None:
    ran = plimsoll("drill", *(word.format(tmp_path) for word in words))
    assert (ran.status, ran.out, len(ran.err.splitlines())) == (status, "", 1)
    assert complaint in ran.err
    assert not (tmp_path / "new").exists()


def test_a_recording_without_an_answer_of_ceph_is_no_fault_of_the_program(
    plimsoll: Callable[..., Ran], test_node: str, tmp_path: Path
) -> None:
    """Ceph did not answer all the while, or the recording was killed before it did."""
    file = str(tmp_path / "host-3.drill")
    (tmp_path / "ceph.conf").write_text("[global]\nmon_host = 127.0.0.1:1\n")
    words = ("--for", "1s", "--interval", "500ms", "--uri", test_node, "--ceph-conf", str(tmp_path / "ceph.conf"))
    plimsoll("drill", "record", file, *words)
    assert plimsoll("drill", "mark", file, "OSDs of host-3 stopped").status == 0
    reported = plimsoll("drill", "report", file)
    assert "zip" not in reported.err
    assert reported.out or reported.err
