"""Files at their bounds, in whatever shape takes most memory, and the memory that the units of passes have."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryFile

import pytest

from lab.command import PLIMSOLL
from plimsoll_agent.catalogue import attachments
from plimsoll_agent.catalogue import model as catalogue
from plimsoll_agent.monitor import daemon_status, pass_summary_file
from plimsoll_agent.store import state as state_module
from plimsoll_agent.util import schema

pytestmark = pytest.mark.usefixtures("programs_unmeasured")  # what coverage takes counts as the program's

UNITS = Path(__file__).parents[2] / "systemd"
_CGROUPS = Path("/sys/fs/cgroup")
_PATIENT = 120.0


def _memory_max(unit: str) -> int:
    text = (UNITS / f"plimsoll-{unit}.service").read_text()
    (mebibytes,) = re.findall(r"^MemoryMax=(\d+)M$", text, re.MULTILINE)
    return int(mebibytes) * 2**20


@contextmanager
def _confined(most: int) -> Iterator[Path | None]:
    """The file that takes a process into a cgroup with so much memory; None where none can be made here."""
    for top, limit in ((_CGROUPS, "memory.max"), (_CGROUPS / "memory", "memory.limit_in_bytes")):
        group = top / f"plimsoll-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            if (group / limit).exists():
                (group / limit).write_text(str(most))
                yield group / "cgroup.procs"
                return
        finally:
            with suppress(OSError):
                group.rmdir()
    yield None


# What this process takes itself counts for a child of it, too (getrusage(2): maxrss lasts through execve). So a small
# one starts it, forwards SIGTERM, and writes down how it ended and what it took.
_WATCH = """
import os, signal, sys
pid = os.fork()
if not pid:
    os.execv(sys.argv[2], sys.argv[2:])
signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))
_, status, used = os.wait4(pid, 0)
with open(sys.argv[1], "w") as file:
    print(os.waitstatus_to_exitcode(status), used.ru_maxrss, file=file)
"""


def _peak_of(most: int, *words: str | Path, until: Callable[[], bool] | None = None) -> tuple[int, int, str]:
    """Exit status (negative: the signal), bytes of memory at the most, and what it said.

    It has ``most`` bytes, and is stopped when ``until`` is true.
    """
    with ExitStack() as stack:
        entry = stack.enter_context(_confined(most))
        enter = [] if entry is None else ["sh", "-c", f'echo $$ > {entry} && exec "$@"', "sh"]
        told = stack.enter_context(TemporaryFile("w+"))  # a pipe that nobody reads would block it
        ended = stack.enter_context(NamedTemporaryFile("r"))
        watch = [sys.executable, "-I", "-c", _WATCH, ended.name, PLIMSOLL, *words]
        process = subprocess.Popen([*enter, *watch], stdout=told, stderr=subprocess.STDOUT)
        end = time.monotonic() + _PATIENT
        while until is not None and not until() and time.monotonic() < end:
            time.sleep(0.05)
        if until is not None:
            process.terminate()
        process.wait()
        told.seek(0)
        said = told.read()
        assert time.monotonic() < end, f"it did not make its passes: {said[-2000:]}"
        status, used = map(int, ended.read().split())
    return status, used * 1024, said


def _filled(most: int) -> str:
    """JSON that takes more memory for its length than any other."""
    entry = '{"":0}'
    return "[" + ",".join([entry] * ((most - 2) // (len(entry) + 1))) + "]"


def _a_catalogue(most: int) -> str:
    """One that is right, and takes as much as one of that length can."""
    head = (
        '{"kind":"plimsoll-catalogue","version":1,"generation":1,"issued":"2026-01-01T00:00:00+00:00","source":"",'
        '"approved":[],"specs":{},"types":{},"volumes":{},"servers":{"a":{"marks":[],"read":"20260101T00Z",'
        '"missing":true,"extra_specs":{'
    )
    entries = [f'"{number:x}":""' for number in range((most - len(head)) // 12)]
    return head + ",".join(entries) + "}}}}"


@pytest.mark.parametrize("unit", ["enforce", "daemon"])
@pytest.mark.parametrize("right", [True, False], ids=["a catalogue", "none"])
def test_a_pass_whose_files_are_all_at_their_bounds_stays_within_the_memory_of_its_unit(
    tmp_path: Path, test_node: str, right: bool, unit: str
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    settings = tmp_path / "plimsoll.conf"
    settings.write_text(
        f"[DEFAULT]\nstate_dir = {state}\nrules_file = {tmp_path}/rules.yaml\n"
        f"[libvirt]\nuri = {test_node}\n"
        f"[catalogue]\nsource = openstack\ndirectory = {tmp_path}\n"
    )
    bounds = {
        state / "memory.json": state_module.MOST_BYTES,
        state / "approval.json": state_module.MOST_BYTES,
        state / "attachments.json": attachments.MOST_BYTES,
        state / "pass.json": pass_summary_file.MOST_BYTES,
        tmp_path / "catalogue.json": catalogue.MOST_BYTES,
    }
    for path, most in bounds.items():
        path.write_text(_filled(most))
        assert most - 10 < path.stat().st_size <= most
    if right:
        text = _a_catalogue(catalogue.MOST_BYTES)
        assert catalogue.MOST_BYTES * 0.9 < len(text) <= catalogue.MOST_BYTES
        (tmp_path / "catalogue.json").write_text(text)
    (tmp_path / "rules.yaml").write_text(f"rules: [{','.join(['1'] * (schema.LARGEST // 2 - 10))}]")
    (state / "rules.last.yaml").write_text("{}\n")
    most, command = _memory_max(unit), ("--config-file", settings, unit)
    if unit == "enforce":
        status, peak, said = _peak_of(most, *command)
        assert status == 1, "the rules are none; killed by a signal where there was too little memory"
        assert re.search(r"^Plan: .*(left alone|unknown)", said, re.MULTILINE), "or it was not a pass at all"
        assert (f"{tmp_path}/catalogue.json: is corrupt" in said) is not right
    else:

        def two_passes() -> bool:
            found = daemon_status.load_or_none(state_module.State(state))
            return found is not None and found.full_passes.get("done", 0) >= 2

        status, peak, said = _peak_of(most, *command, until=two_passes)
        assert status == 0
        assert pass_summary_file.load(state_module.State(state)) is not None
    assert "Traceback" not in said
    assert peak < most, f"{peak / 2**20:.0f} MiB"
    print(f"{peak / 2**20:.0f} MiB of {most / 2**20:.0f}")
