"""The ``ceph`` command as a process: what it is told, and what becomes of one that says nothing, or too much."""

from __future__ import annotations

import json
import os
import resource
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from plimsoll_agent.adapters.ceph import Ceph, CephProgram, environment, question
from plimsoll_agent.errors import DeadlineExceeded, Rejected, Unreachable
from plimsoll_agent.model.clusters import Cluster
from plimsoll_agent.reconcile.health_gate import ClusterHealth
from plimsoll_insight.adapters.conversation import Conversation

FSID = "4b5c8c0a-ff60-454b-a1b4-9747aa737d19"
CLUSTER = Cluster(Path("/etc/ceph/it's a cluster.conf"), FSID, frozenset())
STATUS = json.dumps({"fsid": FSID, "health": {"status": "HEALTH_WARN", "checks": {"OSD_DOWN": {}}}})
HEALTH = ClusterHealth(fsid=FSID, raised=("OSD_DOWN",))
LONG = 60.0
"""A deadline that no test reaches unless it fails."""
SOON = 20.0
"""Much less than that; the machine may be busy."""

Stands = Callable[[str], str]


@pytest.fixture
def stands_in(tmp_path: Path) -> Stands:
    """Writes a script that is run in the place of ``ceph``, in a directory of its own."""

    def write(script: str) -> str:
        command = tmp_path / "ceph"
        command.write_text(f"#!/bin/sh\ncd {tmp_path}\n{script}\n")
        command.chmod(0o755)
        return str(command)

    return write


@pytest.fixture(autouse=True)
def _nothing_stays_behind() -> Iterator[None]:
    before, descriptors = children(), len([*Path("/proc/self/fd").iterdir()])
    yield
    assert children() == before, "every process was reaped"
    # There may be fewer: what a test before this one forgot is collected at any time.
    assert len([*Path("/proc/self/fd").iterdir()]) <= descriptors, "every pipe was closed"


def children() -> set[str]:
    found: set[str] = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended meanwhile
            found.update((task / "children").read_text().split())
    return found


def alive(pid: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def gone(file: Path) -> bool:
    """Whether the process whose number stands in the file is gone, or is within a moment."""
    pid = int(file.read_text())
    end = time.monotonic() + SOON
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not alive(pid)


def ask(command: str, deadline: float = LONG) -> ClusterHealth:
    return Ceph("plimsoll", deadline, command).health(CLUSTER)


# --- what it is told


def test_the_answer_is_the_clusters_health(stands_in: Stands) -> None:
    assert ask(stands_in(f"echo '{STATUS}'")) == HEALTH


def test_it_is_told_conf_client_deadline_and_format_each_as_one_word(stands_in: Stands, tmp_path: Path) -> None:
    ask(stands_in(f"for word; do echo \"$word\" >> words; done; echo '{STATUS}'"), 12.7)
    assert (tmp_path / "words").read_text().splitlines() == [
        *("--conf", str(CLUSTER.conf)),
        *("--id", "plimsoll"),
        *("--connect-timeout", "12"),
        *("--format", "json"),
        "status",
    ]


def test_words_from_the_environment_do_not_change_what_is_asked(
    stands_in: Stands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CEPH_ARGS", "--mon-host 10.9.9.9")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("CEPH_KEYRING", "/somewhere")
    ask(stands_in(f"env > env; echo '{STATUS}'"))
    environment = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines() if "=" in line)
    assert "CEPH_ARGS" not in environment
    assert environment["LC_ALL"] == "C"
    assert environment["CEPH_KEYRING"] == "/somewhere", "where its key is, is the operator's word"
    assert environment["PATH"] == os.environ["PATH"]


def test_of_cephs_own_program_the_interpreter_asks_by_librados(tmp_path: Path) -> None:
    """Its own start takes half a second of a core, each pass and each second of a recording."""
    interpreter, ceph = tmp_path / "python3.9", tmp_path / "ceph"
    interpreter.write_text(f"#!/bin/sh\nfor word; do echo \"$word\" >> {tmp_path}/words; done; echo '{STATUS}'\n")
    ceph.write_text(f"#! {interpreter} -s\nfrom ceph_argparse import parse_json_funcsigs\n")
    for program in (interpreter, ceph):
        program.chmod(0o755)
    assert ask(str(ceph), 12.7) == HEALTH
    isolated, program, *words = (tmp_path / "words").read_text().splitlines()
    assert (isolated, Path(program).name) == ("-I", "asking_monitors.py")
    assert words == [str(CLUSTER.conf), "plimsoll", "12", '{"prefix": "status", "format": "json"}']


@pytest.mark.parametrize(
    "program",
    [
        b"#!/usr/bin/python3\nimport os\nos.execvp('podman', ['podman', 'exec', 'ceph-mon', 'ceph'])\n",
        b"#!/usr/bin/env python3\nimport ceph_argparse\n",
        b"#!/opt/python3-tools/run\nimport ceph_argparse\n",
        b"\x7fELF ceph_argparse",
    ],
)
def test_any_other_ceph_is_run_itself(tmp_path: Path, program: bytes) -> None:
    """A wrapper that enters a container, say: a Python of this machine knows neither its keys nor its monitors."""
    (tmp_path / "ceph").write_bytes(program)
    (tmp_path / "ceph").chmod(0o755)
    asked = CephProgram(conf=Path("c"), client="x", deadline=1, command=str(tmp_path / "ceph"))
    assert asked.librados_argv() is None
    assert asked.argv(["status"], question("status"))[0] == str(tmp_path / "ceph")


def test_it_cannot_wait_for_words_from_a_terminal(stands_in: Stands) -> None:
    assert ask(stands_in(f"cat; echo '{STATUS}'")) == HEALTH


def test_what_it_grumbles_is_no_part_of_its_answer(stands_in: Stands) -> None:
    assert ask(stands_in(f"echo warning >&2; echo '{STATUS}'; echo warning >&2")) == HEALTH


def test_a_long_answer_is_read_in_full(stands_in: Stands) -> None:
    assert ask(stands_in(f"head -c 3000000 /dev/zero | tr '\\0' ' '; echo '{STATUS}'")) == HEALTH


# --- an answer that is none


def test_an_error_is_told_in_its_own_last_words(stands_in: Stands) -> None:
    script = (
        "echo '2026-11-20 monclient: hunting' >&2; echo '[errno 13] RADOS permission denied' >&2; echo >&2; exit 1"
    )
    with pytest.raises(Rejected, match=r"^ceph ended with 1: \[errno 13\] RADOS permission denied$"):
        ask(stands_in(script))


def test_an_error_is_an_error_whatever_stands_in_the_answer(stands_in: Stands) -> None:
    with pytest.raises(Rejected, match=r"^ceph ended with 22: no error text$"):
        ask(stands_in(f"echo '{STATUS}'; exit 22"))


def test_one_that_was_killed_by_another_is_an_error(stands_in: Stands) -> None:
    with pytest.raises(Rejected, match=r"^ceph ended with -9"):
        ask(stands_in(f"echo '{STATUS}'; kill -9 $$"))


def test_long_last_words_are_cut(stands_in: Stands) -> None:
    with pytest.raises(Rejected) as caught:
        ask(stands_in("head -c 1000000 /dev/zero | tr '\\0' x >&2; exit 1"))
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("script", ["echo HEALTH_OK", "true", "printf '\\377'", "head -c 1000 /dev/zero"])
def test_rubbish_is_rejected(stands_in: Stands, script: str) -> None:
    with pytest.raises(Rejected, match="ceph status cannot be read"):
        ask(stands_in(script))


# --- no answer


def test_one_that_hangs_is_killed_with_what_it_started_and_no_caller_waits_longer(
    stands_in: Stands, tmp_path: Path
) -> None:
    script = "sleep 600 & echo $! > child; echo $$ > parent; trap '' TERM INT HUP; wait; sleep 600"
    before = time.monotonic()
    with pytest.raises(DeadlineExceeded, match=r"^no answer from Ceph within 1\.5 s$"):
        ask(stands_in(script), 1.5)
    assert 1.5 <= time.monotonic() - before < SOON
    assert gone(tmp_path / "parent")
    assert gone(tmp_path / "child")


def test_one_that_leaves_while_its_child_holds_the_pipe_is_waited_for_no_longer_than_the_deadline(
    stands_in: Stands, tmp_path: Path
) -> None:
    before = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        ask(stands_in(f"sleep 600 & echo $! > child; echo '{STATUS}'"), 1.0)
    assert time.monotonic() - before < SOON
    assert gone(tmp_path / "child")


def test_one_that_closes_its_mouth_and_stays_is_killed(stands_in: Stands, tmp_path: Path) -> None:
    with pytest.raises(DeadlineExceeded):
        ask(stands_in(f"echo '{STATUS}'; echo $$ > parent; exec >&- 2>&-; exec sleep 600"), 1.0)
    assert gone(tmp_path / "parent")


def test_what_a_good_answer_leaves_behind_is_ended_as_well(stands_in: Stands, tmp_path: Path) -> None:
    assert ask(stands_in(f"sleep 600 > /dev/null 2>&1 & echo $! > child; echo '{STATUS}'")) == HEALTH
    assert gone(tmp_path / "child")


def test_a_child_that_left_for_a_session_of_its_own_delays_no_pass(stands_in: Stands, tmp_path: Path) -> None:
    before = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        ask(stands_in("setsid sleep 30 & echo $! > child; exit 0"), 1.0)
    assert time.monotonic() - before < SOON
    with suppress(ProcessLookupError):
        os.kill(int((tmp_path / "child").read_text()), 9)


# --- too much


@pytest.mark.parametrize("where", ["", ">&2"])
def test_a_flood_is_stopped_and_does_not_fill_the_memory(stands_in: Stands, tmp_path: Path, where: str) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(Rejected, match="Ceph: its output is longer than 16 MiB"):
        ask(stands_in(f"echo $$ > parent; exec head -c 100000000 /dev/zero {where}"))
    assert gone(tmp_path / "parent")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 60_000, "KiB"


def test_a_trickle_ends_at_the_deadline(stands_in: Stands) -> None:
    before = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        ask(stands_in("while true; do echo '{'; sleep 0.05; done"), 1.0)
    assert time.monotonic() - before < SOON


# --- no command


def test_a_command_that_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="ceph: cannot be run: No such file or directory"):
        ask(str(tmp_path / "ceph"))


def test_a_command_that_may_not_be_run_is_told(stands_in: Stands) -> None:
    command = Path(stands_in("true"))
    command.chmod(stat.S_IRUSR)
    with pytest.raises(Unreachable, match="ceph: cannot be run: Permission denied"):
        ask(str(command))


def test_a_command_that_is_no_program_is_told(tmp_path: Path) -> None:
    (tmp_path / "ceph").write_bytes(b"\0\1\2")
    (tmp_path / "ceph").chmod(0o755)
    with pytest.raises(Unreachable, match="ceph: cannot be run: Exec format error"):
        ask(str(tmp_path / "ceph"))


def test_it_may_be_asked_from_several_threads(stands_in: Stands) -> None:
    command, answers = stands_in(f"sleep 0.1; echo '{STATUS}'"), []
    hands = [threading.Thread(target=lambda: answers.append(ask(command))) for _ in range(4)]
    for hand in hands:
        hand.start()
    for hand in hands:
        hand.join()
    assert answers == [HEALTH] * 4


# --- one that stays, and is asked again and again


@pytest.fixture
def talk(stands_in: Stands) -> Callable[[str], Conversation]:
    """With a program that does ``each`` for every line of its input, in ``$line``."""

    def make(each: str) -> Conversation:
        return Conversation([stands_in(f"echo >> starts; while read -r line; do {each}; done")], environment())

    return make


def starts(home: Path) -> int:
    return (home / "starts").read_text().count("\n")


def test_one_process_answers_all_questions_each_with_its_own_answer(
    talk: Callable[[str], Conversation], tmp_path: Path
) -> None:
    conversation = talk('printf "0 %s \\n%s" "${#line}" "$line"')
    assert [conversation.ask(each, SOON) for each in ("a", "a longer one")] == [b"a", b"a longer one"]
    assert starts(tmp_path) == 1


def test_after_each_trouble_the_next_question_goes_to_a_new_process(
    talk: Callable[[str], Conversation], tmp_path: Path
) -> None:
    """What a process that was given up says at last would be taken for the answer to another question."""
    conversation = talk(
        'case $line in late) sleep 60 ;; no) echo "13 0 Error EACCES: access denied" ;;'
        ' end) echo one >&2; echo "the last word" >&2; exit 1 ;; *) printf "0 2 \\nok" ;; esac'
    )
    with pytest.raises(DeadlineExceeded, match=r"^no answer from Ceph within 0.2 s$"):
        conversation.ask("late", 0.2)
    assert conversation.ask("well", SOON) == b"ok"
    with pytest.raises(Rejected, match=r"^ceph: Error EACCES: access denied$"):
        conversation.ask("no", SOON)
    with pytest.raises(Rejected, match=r"^ceph: the last word$"):
        conversation.ask("end", SOON)
    assert conversation.ask("well", SOON) == b"ok"
    assert starts(tmp_path) == 4


def test_a_program_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="cannot be run: No such file"):
        Conversation([str(tmp_path / "none")], {}).ask("status", SOON)
