"""A forked command is the installed program: same statuses, output, signals and descriptors, and nothing shared."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.command import PLIMSOLL, Forked, Installed
from plimsoll_agent.store.record import Record
from tests.fakecinder import FakeCinder
from tests.functional.cloudserver import credentials
from tests.functional.conftest import Ran, ended
from tests.functional.test_qos import FILE, serving
from tests.unit.agent.store.test_record import a_change
from tests.unit.values import NOON

ROOT = Path(__file__).parents[2]
PIPE = subprocess.PIPE
KINDS = (Forked, Installed)
Kind = type[Forked | Installed]


@pytest.fixture
def address() -> Iterator[str]:
    """Of a cloud with one volume type, and a spec of its own."""
    cinder = FakeCinder()
    cinder.default = cinder.type("__DEFAULT__")
    cinder.type("gold", cinder.spec("gold", {"total_iops_sec": "3000"}))
    with serving(cinder) as address:
        yield address


def home(tmp_path: Path, name: str, address: str = "") -> Path:
    """A node's files, the same below every name; returns where they are."""
    home = tmp_path / name
    (home / "state").mkdir(mode=0o750, parents=True)
    (home / "rules.yaml").write_text("default: {limits: {total_iops_sec: 250}}\n")
    (home / "qos.yaml").write_text(FILE)
    (home / "plimsoll.conf").write_text(
        f"[DEFAULT]\nstate_dir = {home}/state\nrules_file = {home}/rules.yaml\n[catalogue]\nsource = openstack\n"
        f"directory = {home}/catalogue\nnova = false\ncredentials_file = {credentials(home, f'{address}/identity')}\n"
    )
    Record(home / "state/record.sqlite").intend([a_change()], NOON, "root")
    return home


# A command of each noun, with what it alone imports, and each way to end.
@pytest.mark.parametrize(
    "line",
    [
        "",
        "--version",
        "hold add",
        "-f json settings --changed",
        "plan --uri NODE --total-iops-sec 350 -f json",
        "plan --uri test:///nowhere.xml",
        "enforce --mode observe --uri NODE",
        "enforce --mode enforce --yes --uri NODE --guest instance-00000001",
        "top --once --interval 0.5 --uri test:///default",
        "disk list --uri NODE -f csv",
        "record",
        "undo --since 1h",
        "rules check -",
        "catalogue refresh --now",
        "probe run --uri NODE",
        "region status --prometheus http://127.0.0.1:9",
        "status",
        "qos plan HOME/qos.yaml",
    ],
)
def test_what_it_tells_is_what_the_installed_program_tells(
    tmp_path: Path, test_node: str, address: str, line: str
) -> None:
    def run(kind: Kind, name: str) -> Ran:
        place = home(tmp_path, name, address)
        words = line.replace("NODE", test_node).replace("HOME", str(place)).split()
        start = [f"--config-file={place}/plimsoll.conf"] if words else []
        with kind(*start, *words, stdin=PIPE, stdout=PIPE, stderr=PIPE) as process:
            ran = ended(process, "rules: 5\n")
        return Ran(ran.status, *(timeless(text.replace(str(place), "HOME")) for text in (ran.out, ran.err)))

    forked, installed = run(Forked, "a"), run(Installed, "b")
    assert forked == installed
    assert forked.out + forked.err


def timeless(text: str) -> str:
    text = re.sub(r"(\d{4}-\d\d-\d\d[ T])?\d\d:\d\d(:\d\d(\.\d+)?)?", "THEN", text)
    return re.sub(r"\b\d+(\.\d+)? (ms|s|seconds?)\b|(?<=\"seconds\": )[\d.]+", "A WHILE", text)


@contextmanager
def following(kind: Kind, place: Path, **others: object) -> Iterator[Forked | Installed]:
    """A command that has told its first line, and waits for another."""
    words = ["--config-file", place / "plimsoll.conf", "record", "--follow", "--last", "1", "-f", "json"]
    with kind(*words, stdout=PIPE, stderr=PIPE, **others) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("{")
            yield process
        finally:
            process.kill()


def test_it_has_the_descriptors_signals_and_threads_of_the_installed_program(tmp_path: Path) -> None:
    place = home(tmp_path, "a")

    def seen(kind: Kind) -> tuple[object, ...]:
        with following(kind, place) as process:
            proc = Path("/proc", str(process.pid))
            files = {each.name: re.sub(r"\d+", "N", str(each.readlink())) for each in (proc / "fd").iterdir()}
            status = dict(line.split(":\t", 1) for line in (proc / "status").read_text().splitlines())
            told = [status[key] for key in ("SigBlk", "SigIgn", "SigCgt", "Threads", "Umask", "Uid", "Groups")]
            return files, told, (proc / "cwd").readlink(), (proc / "exe").readlink()

    assert seen(Forked) == seen(Installed)


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_one_is_told_by_its_signal_and_keeps_its_number_until_then(tmp_path: Path, kind: Kind) -> None:
    with following(kind, home(tmp_path, "a")) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.communicate(timeout=0.01)
        assert process.poll() is None
        watched = os.pidfd_open(process.pid)
        os.kill(process.pid, signal.SIGKILL)
        select.select([watched], [], [])
        os.close(watched)
        Forked("--version", stdout=subprocess.DEVNULL).wait(60)  # by then the server knows of the first one's end
        assert Path("/proc", str(process.pid), "stat").read_text().split()[2] == "Z"
        assert process.wait(60) == -signal.SIGKILL
        process.kill()  # and no other that may have its number now


@pytest.mark.parametrize("kind", KINDS)
def test_ctrl_c_ends_it_well(tmp_path: Path, kind: Kind) -> None:
    with following(kind, home(tmp_path, "a")) as process:
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60) == ("", "")
        assert process.returncode == 0


@pytest.mark.parametrize(
    "line",
    [
        "plan",
        "enforce --mode observe",
        "status",
        "disk list",
        "disk list -f json",
        "record",
        "pause --reason x",
        "resume --reason x",
        "help",
    ],
)
def test_with_standard_output_closed_from_the_start_it_does_the_same(
    tmp_path: Path, test_node: str, line: str
) -> None:
    environment = os.environ | {"OS_LIBVIRT__URI": test_node, "OS_DEFAULT__PAUSE_FILE": "paused"}

    def to(end: str) -> tuple[int, str]:
        place = home(tmp_path, "closed" if end == "&-" else "open")
        words = ["sh", "-c", f'exec "$0" "$@" >{end}', PLIMSOLL, "--config-file", "plimsoll.conf", *line.split()]
        ran = subprocess.run(
            words, env=environment, cwd=place, stderr=PIPE, encoding="utf-8", timeout=60, check=False
        )
        return ran.returncode, ran.stderr.replace(str(place), "")

    assert to("&-") == to("/dev/null")


def test_a_pass_in_a_pipe_does_not_import_what_lays_out_terminals(tmp_path: Path, test_node: str) -> None:
    (tmp_path / "rules.yaml").write_text("{}\n")
    (tmp_path / "plimsoll.conf").write_text(
        f"[DEFAULT]\nstate_dir = {tmp_path}/state\nrules_file = {tmp_path}/rules.yaml\n"
    )
    words = ["--config-file", tmp_path / "plimsoll.conf", "enforce", "--uri", test_node, "--total-iops-sec", "400"]
    command = [sys.executable, "-X", "importtime", PLIMSOLL, *words]
    ran = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=False)
    assert "400 IOPS" in ran.stdout
    imported = set(re.findall(r"^import time:.*\| +(\S+)$", ran.stderr, re.MULTILINE))
    assert "plimsoll_agent.terminal.changes" in imported
    assert not {name for name in imported if name.partition(".")[0] == "rich"}


def test_two_in_a_row_share_nothing(tmp_path: Path, test_node: str) -> None:
    first, second = home(tmp_path, "a"), home(tmp_path, "b")
    (second / "rules.yaml").write_text("{}\n")

    def run(place: Path, **environment: str) -> Ran:
        more = {"env": os.environ | environment, "cwd": place}
        with Forked("--config-file", "plimsoll.conf", "plan", stdout=PIPE, stderr=PIPE, **more) as process:
            return ended(process)

    before = run(second, OS_LIBVIRT__URI="test:///default")
    set_ = run(first, OS_LIBVIRT__URI=test_node, OS_DEFAULT__MODE="enforce", COLUMNS="40")
    assert set_.out != before.out
    assert "250" in set_.out
    shutil.rmtree(first)
    assert run(second, OS_LIBVIRT__URI="test:///default") == before
    assert "qemu:///system" in run(second).err


def test_what_the_interpreter_itself_reads_makes_it_the_installed_program(tmp_path: Path) -> None:
    place = home(tmp_path, "a")

    def program(**environment: str) -> str:
        with following(Forked, place, env=os.environ | environment) as process:
            return Path("/proc", str(process.pid), "cmdline").read_text().split("\0")[1]

    assert program(OS_CLOUD="lab").endswith("commandserver.py")
    assert program(PYTHONIOENCODING="latin-1") == str(PLIMSOLL)
    assert program(HOME=str(tmp_path)) == str(PLIMSOLL), "an import asks for it"


def test_all_goes_when_the_test_process_is_killed(tmp_path: Path) -> None:
    place = home(tmp_path, "a")
    script = f"""
import subprocess, time
from pathlib import Path
from lab.command import Forked
words = ["--config-file", {str(place / "plimsoll.conf")!r}, "record", "--follow"]
process = Forked(*words, stdout=subprocess.DEVNULL)  # with a reader it would end as soon as that is gone
print(process.pid, Path(f"/proc/{{process.pid}}/stat").read_text().split()[3], flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=PIPE, text=True) as tests:
        assert tests.stdout is not None
        running = [os.pidfd_open(int(pid)) for pid in tests.stdout.readline().split()]
        assert len(running) == 2
        tests.kill()
    for each in running:
        assert select.select([each], [], [], 60)[0], "still there"
        os.close(each)
