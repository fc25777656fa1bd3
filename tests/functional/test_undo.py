"""``plimsoll undo`` and ``plimsoll state check`` as installed, over libvirt's test driver.

The test driver puts few limits in force, now these and now those: the record is made to say that it had, and what
QEMU has in the end is shown in the lab.
"""

from __future__ import annotations

import json
import os
import pty
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from lab.command import NO_BRAKE, Forked, Installed
from plimsoll_agent.store.state import RECORD
from tests.functional.conftest import Ran

Plimsoll = Callable[..., Ran]
NINE = {"total_iops_sec": 9, "total_iops_sec_max": 9}
DESIRED = "default: {limits: {total_iops_sec: 5, total_iops_sec_max: 5}}\n"


@pytest.fixture
def changed(plimsoll: Plimsoll, test_node: str, tmp_path: Path) -> tuple[str, ...]:
    """What to undo on a node on which a pass meant to limit disks, none of which has a limit."""
    (tmp_path / "rules.yaml").write_text(DESIRED)
    assert "5 IOPS" in plimsoll("enforce", "--mode", "enforce", "--uri", test_node, **NO_BRAKE).out
    return ("undo", "--since", "1h", "--uri", test_node)


def pretend(tmp_path: Path, before: dict[str, int], after: dict[str, int]) -> None:
    """Let the record say that plimsoll changed every disk from this to that."""
    with closing(sqlite3.connect(tmp_path / "state/record.sqlite")) as database, database:
        done = "UPDATE change SET result = 'done', before = ?, after = ?"
        assert database.execute(done, (json.dumps(before), json.dumps(after))).rowcount > 1


def undone(plimsoll: Plimsoll) -> list[dict[str, object]]:
    """What the record has of it."""
    told: list[dict[str, object]] = json.loads(plimsoll("record", "--reason", "undone", "-f", "json").out)
    return told


def test_what_did_not_take_is_nothing_to_undo(plimsoll: Plimsoll, changed: tuple[str, ...], tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "state/record.sqlite")) as database, database:
        database.execute("UPDATE change SET result = 'timed-out'")  # of a few the driver may have said that they took
    done = plimsoll(*changed, "--yes")
    assert (done.status, done.out) == (0, "No change that took effect is recorded: nothing to undo.\n")
    assert json.loads(plimsoll("record", "--result", "did-not-take", "-f", "json").out), "and that is settled now"


def test_what_is_as_before_needs_no_write(plimsoll: Plimsoll, changed: tuple[str, ...], tmp_path: Path) -> None:
    pretend(tmp_path, {}, {"total_iops_sec": 5})
    done = plimsoll(*changed, "--yes")
    assert done.status == 0, done.err
    assert "Undone: nothing changed, " in done.out
    assert " already restored, in " in done.out
    assert undone(plimsoll) == []


def test_a_disk_with_something_else_actual_is_listed(
    plimsoll: Plimsoll, changed: tuple[str, ...], tmp_path: Path
) -> None:
    pretend(tmp_path, {"total_iops_sec": 9}, {"total_iops_sec": 8})
    done = plimsoll(*changed, "--yes", "-f", "json")
    data = json.loads(done.out)
    assert done.status == 1
    assert {disk["reason"]["code"] for disk in data["disks"]} == {"external-change"}
    assert {str(disk["before"]) for disk in data["disks"]} == {"{}"}
    assert data["counts"]["left-alone"] == len(data["disks"]) > 0
    assert undone(plimsoll) == []


def test_only_what_was_read_back_is_called_restored(
    plimsoll: Plimsoll, changed: tuple[str, ...], tmp_path: Path
) -> None:
    pretend(tmp_path, NINE, {})
    dry = plimsoll(*changed, "--dry-run")
    assert dry.status == 0
    assert undone(plimsoll) == []
    done = plimsoll(*changed, "--yes")
    planned, told = (
        sorted(line[2:].split("IOPS")[0] for line in ran.out.splitlines() if "→" in line) for ran in (dry, done)
    )
    assert told == planned, "in whatever order the guests answered"
    results = [entry["result"] for entry in undone(plimsoll)]
    assert len(results) == len(planned)
    took, missed, kept = (results.count(result) for result in ("done", "timed-out", "not-sent"))
    # Under a libvirt that is not proven yet up to three guests are tried. Where none reads back, no other is written.
    # The driver may read anything, so that there may be no others.
    assert (took > 0) is not (kept > 0) or missed == len(planned) <= 3
    counted = ((kept, "failed"), (missed, "unknown"))
    parts = [f"{took} set" if took else "nothing changed", *(f"{n} {word}" for n, word in counted if n)]
    assert f"Undone: {', '.join(parts)}, in " in done.out
    assert done.out.count("QEMU reports no limit after the write") == missed
    assert done.status == (0 if not missed else 3 if took else 1)
    assert {str(entry["after"]) for entry in undone(plimsoll)} == {str(NINE)}


@pytest.mark.parametrize(
    ("start", "answer", "written"),
    [(Installed, b"y\n", True), (Forked, b"n\n", False), (Forked, b"\x04", False)],
)
def test_a_person_at_a_terminal_is_asked(
    plimsoll: Plimsoll,
    changed: tuple[str, ...],
    tmp_path: Path,
    start: type[Forked | Installed],
    answer: bytes,
    written: bool,
) -> None:
    pretend(tmp_path, NINE, {})
    master, slave = pty.openpty()
    words, pipe = ["--config-file", tmp_path / "plimsoll.conf", *changed], subprocess.PIPE
    try:
        with start(*words, stdin=slave, stdout=pipe, stderr=pipe, text=False) as asked:
            os.write(master, answer)
            out, err = asked.communicate(timeout=60)
    finally:
        os.close(master)
        os.close(slave)
    assert written or asked.returncode == 1, out + err
    before, _, after = out.partition(b"? [y/N] ")
    assert "→ 9 IOPS".encode() in before, "what the question is about was shown"
    assert (b"Nothing changed." in after) is not written
    assert bool(undone(plimsoll)) is written


def test_without_a_terminal_and_without_a_word_nothing_is_done(plimsoll: Plimsoll, changed: tuple[str, ...]) -> None:
    refused = plimsoll(*changed)
    assert refused.status == 64
    assert refused.err.count("\n") == 1
    assert "--dry-run" in refused.err


# --- state check


def test_a_node_that_was_in_use_is_read_by_the_plimsoll_that_used_it(
    plimsoll: Plimsoll, changed: tuple[str, ...], tmp_path: Path
) -> None:
    checked = plimsoll("state", "check", "-f", "json")
    assert checked.status == 0, checked.out
    found = {Path(row["file"]).name: row for row in json.loads(checked.out)}
    assert {name for name, row in found.items() if row["condition"] == "ok"} >= {
        "memory.json",
        "record.sqlite",
        "pass.json",
    }
    assert found["record.sqlite"] == {
        "file": str(tmp_path / "state/record.sqlite"),
        "version": RECORD.version,
        "reads_from": RECORD.oldest,
        "reads_to": RECORD.version,
        "condition": "ok",
        "detail": None,
    }


def test_a_directory_that_is_not_there_is_64(plimsoll: Plimsoll, tmp_path: Path) -> None:
    checked = plimsoll("state", "check", "--state-dir", str(tmp_path / "typo"))
    assert (checked.status, checked.out) == (64, "")
    assert checked.err == f"--state-dir {tmp_path}/typo: no such directory\n"


def test_a_file_of_a_newer_plimsoll_is_1_and_named(
    plimsoll: Plimsoll, changed: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "state/memory.json").write_text('{"version": 77}')
    checked = plimsoll("state", "check")
    assert checked.status == 1
    (line,) = (line for line in checked.out.splitlines() if "memory.json" in line)
    assert line.split()[1:5] == ["77", "3", "7", "newer"]


def test_another_directory_may_be_looked_at(plimsoll: Plimsoll, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/approval.json").write_text("damaged")
    checked = plimsoll("state", "check", "--state-dir", str(tmp_path / "elsewhere"), "-f", "csv")
    assert checked.status == 1
    assert f"{tmp_path}/elsewhere/approval.json,,1,2,corrupt," in checked.out


def test_a_word_too_many_is_64(plimsoll: Plimsoll) -> None:
    assert plimsoll("state", "check", "everything").status == 64
