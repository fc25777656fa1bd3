"""``plimsoll mds`` beside a Ceph that answers, refuses, or is changed by something else."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plimsoll_agent.store.state import State
from plimsoll_agent.util import locks
from tests.functional.conftest import Ran, name_cluster

FSID = "8c82a945-76ed-4df4-80a3-37629c1ef6ed"
CEPH = r"""#!/usr/bin/python3 -I
import json, os, pathlib, signal, sys
home = pathlib.Path(__file__).parents[1]
state = json.loads((home / "ceph.json").read_text())
words = sys.argv[sys.argv.index("--format") + 2:]
with (home / "asked").open("a") as asked:
    print(*words, file=asked)
def perf():
    count = len([line for line in (home / "asked").read_text().splitlines() if line.endswith("perf dump")])
    return {"mds": {"request": 100 * count, "forward": 0, "exported": 0, "imported": 0, "inodes": 1, "caps": 1,
                    "subtrees": 1, "reply_latency": {"avgcount": count, "sum": 0.1}},
            "mds_sessions": {"session_count": 1}}
match words:
    case ["tell", daemon, *_] if daemon == state.get("silent"):
        sys.exit("Error ENXIO: problem getting command descriptions")
    case ["tell", daemon, "perf", "dump"]: print(json.dumps(perf()))
    case ["tell", "mds.a", "get", "subtrees"]:
        print(json.dumps([{"is_auth": True, "auth_first": 0, "dir": {"path": "", "dirfrag": "0x1"}}]))
    case ["tell", daemon, "get", "subtrees"]: print("[]")
    case ["tell", daemon, "config", "get", name]: print(json.dumps({name: state["in_force"]}))
    case ["fs", "dump"]: print(json.dumps({"filesystems": state["filesystems"]}))
    case ["osd", "lspools"]: print('[{"poolnum": 5, "poolname": "cephfs_data"}]')
    case ["fsid"]: print(json.dumps({"fsid": state["fsid"]}))
    case ["mds", "metadata"]: print('[{"name": "a", "hostname": "host-1"}, {"name": "b"}]')
    case ["status"]: print(json.dumps({"fsid": state["fsid"], "health": {"checks": state.get("checks", {})}}))
    case ["config", "dump"]: print(json.dumps(state["stored"]))
    case ["config", "set" | "rm" as verb, who, name, *value]:
        state["stored"] = [{"section": who, "name": name, "value": value[0]}] if value else []
        state["in_force"] = "10" if not value or state.get("stuck") else value[0]
    case ["fs", "set", name, "balance_automate", value]:
        for each in state["filesystems"]:
            if each["mdsmap"]["fs_name"] == name:
                each["mdsmap"]["flags_state"]["balance_automate"] = value == "true"
    case _: sys.exit(f"not known: {words}")
if "set" in words or "rm" in words:
    (home / "ceph.new").write_text(json.dumps(state))
    (home / "ceph.new").rename(home / "ceph.json")
if (home / "kills").exists() and ("set" in words):
    (home / "kills").unlink()
    os.kill(os.getppid(), signal.SIGKILL)
"""


def file_system(name: str = "cephfs", *, second: str = "up:active", **more: object) -> dict[str, Any]:
    info = {"1": {"name": "a", "rank": 0, "state": "up:active"}, "2": {"name": "b", "rank": 1, "state": second}}
    return {"id": 1, "mdsmap": {"fs_name": name, "in": [0, 1], "info": info, "data_pools": [5], **more}}


REEF = file_system(flags_state={"balance_automate": True})


class Beside:
    """The command, beside that Ceph."""

    def __init__(self, home: Path, plimsoll: Callable[..., Ran]) -> None:
        self.home, self._plimsoll = home, plimsoll
        name_cluster(home)
        (home / "bin").mkdir()
        (home / "bin/ceph").write_text(CEPH)
        (home / "bin/ceph").chmod(0o755)
        self.has(REEF)

    def has(self, *file_systems: dict[str, Any], **more: object) -> None:
        state = {"fsid": FSID, "stored": [], "in_force": "10", "filesystems": file_systems, **more}
        (self.home / "ceph.json").write_text(json.dumps(state))

    @property
    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads((self.home / "ceph.json").read_text())
        return state

    def mds(self, *words: str) -> Ran:
        return self._plimsoll("mds", *words, PATH=f"{self.home}/bin:{os.environ['PATH']}")


@pytest.fixture
def beside(tmp_path: Path, plimsoll: Callable[..., Ran]) -> Beside:
    return Beside(tmp_path, plimsoll)


def watch(beside: Beside, *words: str) -> Ran:
    return beside.mds("watch", "--for", "1s", "--interval", "1s", *words)


def test_a_rank_without_an_answer_is_named_and_the_rest_is_not_called_calm(beside: Beside) -> None:
    assert watch(beside).out.endswith("Calm: no sign of thrashing or of uneven load.\n")
    beside.has(REEF, silent="mds.b")
    ran = watch(beside, "-f", "json")
    rows = {row["rank"]: (row["daemon"], row["requests_sec"] is None, row["answer"]) for row in json.loads(ran.out)}
    assert (ran.status, rows) == (5, {0: ("a", False, "cannot tell"), 1: (None, True, "cannot tell")})
    assert ran.err.startswith("rank 1: no answer, and so not counted: ceph tell mds.b perf dump ended with 1")
    assert "so it cannot be told" in watch(beside, "--by", "directory").out


@pytest.mark.parametrize(
    ("file_systems", "words", "status", "why"),
    [
        ((), (), 1, "this cluster has no file system"),
        ((REEF, file_system("other")), (), 64, "--fs: name one of cephfs, other"),
        ((REEF,), ("--yes", "--fs", "none"), 64, "--fs: name one of cephfs"),
        ((file_system(second="up:rejoin"),), ("--yes",), 1, "cephfs: rank 1 is not active; mend that first"),
        ((REEF,), (), 64, "no terminal to ask on; add --yes, or --dry-run to look first"),
        ((REEF,), ("--yes", "--gather", "2"), 64, "--gather: no rank 2 is active; there are 0, 1"),
        ((REEF,), ("--yes", "--pin", "/a=0"), 1, "pins are set through a mount of the file system's root"),
        ((REEF,), ("--yes", "--pin", "/a=0", "--mount", "/proc"), 1, "not a mount of CephFS"),
    ],
)
def test_what_cannot_be_settled_is_refused_in_a_line_and_nothing_is_changed(
    beside: Beside, file_systems: tuple[dict[str, Any], ...], words: tuple[str, ...], status: int, why: str
) -> None:
    beside.has(*file_systems)
    before = beside.state
    look = () if "--yes" in words or "terminal" in why else ("--dry-run",)
    ran = beside.mds("settle", *words, *look)
    assert (ran.status, ran.out, beside.state) == (status, "", before)
    assert why in " ".join(ran.err.split())


@pytest.mark.parametrize("check", ["PG_AVAILABILITY", "FS_DEGRADED", "MDS_DAMAGE"])
def test_an_unhealthy_cluster_is_not_settled_unless_an_operator_says_so(beside: Beside, check: str) -> None:
    beside.has(REEF, checks={check: {"summary": {"message": "bad", "count": 1}}})
    before = beside.state
    ran = beside.mds("settle", "--yes")
    assert (ran.status, beside.state) == (1, before)
    assert f"cluster {FSID} is unhealthy: {check}; mend that first, or --ignore-health" in " ".join(ran.err.split())
    assert beside.mds("settle", "--yes", "--ignore-health").status == 0


@pytest.mark.parametrize("of", [REEF, file_system()])
@pytest.mark.parametrize("killed", [False, True])
def test_balancing_is_off_and_undone_to_the_byte_also_after_an_end_in_the_middle(
    beside: Beside, of: dict[str, Any], killed: bool
) -> None:
    beside.has(of)
    before = beside.state
    shown = beside.mds("settle", "--dry-run")
    assert f"of cluster {FSID} (rank 0: mds.a on host-1, rank 1: mds.b on an unknown host)" in shown.out
    assert beside.state == before
    if killed:
        (beside.home / "kills").touch()
    ran = beside.mds("settle", "--yes")
    assert (ran.status, beside.state != before) == (-9 if killed else 0, True)
    again = beside.mds("settle", "--yes")
    assert (again.status, "all is set already; nothing to change" in again.out) == (0, True)
    undone = beside.mds("undo", "--yes")
    assert (undone.status, undone.out.endswith("1 of 1 change taken back.\n"), beside.state) == (0, True, before)
    assert "has nothing to take back" in beside.mds("undo", "--yes").out


def test_what_something_else_changed_since_is_left_alone_and_stays_in_the_record(beside: Beside) -> None:
    beside.has(file_system())
    beside.mds("settle", "--yes")
    beside.has(file_system(), stored=[{"section": "mds", "name": "mds_bal_interval", "value": "30"}])
    ran = beside.mds("undo", "--yes")
    assert (ran.status, beside.state["stored"][0]["value"]) == (1, "30")
    assert "mds_bal_interval of mds: left at 30: something else changed it" in " ".join(ran.err.split())
    beside.has(file_system(), stored=[{"section": "mds", "name": "mds_bal_interval", "value": "0"}])
    assert (beside.mds("undo", "--yes").status, beside.state["stored"]) == (0, [])


def test_another_cluster_has_nothing_of_this_record(beside: Beside) -> None:
    beside.mds("settle", "--yes")
    beside.has(REEF, fsid=FSID.replace("8", "9"))
    assert "has nothing to take back" in beside.mds("undo", "--yes").out


def test_two_at_once_are_one_and_the_other_changes_nothing(beside: Beside) -> None:
    state = State(beside.home / "state")
    state.prepare()
    before = beside.state
    lock = locks.take(state.directory / "file-systems.lock")
    ran = beside.mds("settle", "--yes")
    os.close(lock)
    assert (ran.status, beside.state) == (75, before)
    assert "another mds settle or mds undo is under way; this one changed nothing" in " ".join(ran.err.split())


def test_a_daemon_that_keeps_its_own_value_is_named_and_all_is_not_said_to_be_done(beside: Beside) -> None:
    beside.has(file_system(), stuck=True)
    ran = beside.mds("settle", "--yes", "--wait", "100ms")
    assert (ran.status, "All ranks" in ran.out) == (3, False)
    assert "not yet so: mds.a has mds_bal_interval 10, by a setting of its own" in " ".join(ran.err.split())


def test_logs_name_directories_and_one_of_too_low_a_level_cannot_tell(beside: Beside, tmp_path: Path) -> None:
    log, quiet = tmp_path / "ceph-mds.a.log", tmp_path / "ceph-mds.b.log"
    line = "2026-11-30T09:5{}:47.481+0000 7fa7156136c0  4 mds.0.mig export_dir Starting export to mds.1 "
    line += "[dir 0x10000000005.110* /hot/d1/ [2,head] auth pv=53661\n"
    log.write_text("".join(line.format(minute) for minute in range(4)))
    quiet.write_text("2026-11-30T09:53:47.479+0000 7fa7156136c0  1 mds.b Updating MDS map to version 9 from mon.0\n")
    ran = beside.mds("watch", str(log))
    assert (ran.status, "the balancer moved /hot/d1 4 times." in " ".join(ran.out.split())) == (0, True)
    ran = beside.mds("watch", str(quiet))
    assert (ran.status, "debug_mds was below 4" in " ".join(ran.out.split())) == (5, True)
    assert not (tmp_path / "asked").exists()
