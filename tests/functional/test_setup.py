"""script/setup: steps side by side, and what each part of it needs."""

from __future__ import annotations

import configparser
import os
import signal
import subprocess
import time
from pathlib import Path

from lab.cloud.kept import KEPT
from lab.interrupted import heeds_ctrl_c

ROOT = Path(__file__).resolve().parents[2]


def bash(directory: Path, text: str) -> subprocess.Popen[str]:
    script = directory / "script"
    script.write_text(
        f"set -euo pipefail\ncd {directory}\n. {ROOT}/script/steps.sh\n{text}\nrun_steps logs\necho end\n"
    )
    return subprocess.Popen(
        ["bash", str(script)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heeds_ctrl_c,
    )


def in_lib(text: str, path: str = "") -> str:
    environ = os.environ | {"PATH": f"{path}:{os.environ['PATH']}" if path else os.environ["PATH"]}
    script = f"set -euo pipefail\n. script/lib.sh\n{text}"
    return subprocess.run(
        ["bash", "-c", script], cwd=ROOT, env=environ, capture_output=True, text=True, check=True
    ).stdout


def wait_for(file: Path) -> None:
    deadline = time.monotonic() + 60
    while not file.exists() or not file.read_text():
        assert time.monotonic() < deadline, f"{file} does not come"
        time.sleep(0.02)


def lives(pid: str) -> bool:
    """Not yet reaped is not alive."""
    try:
        return "State:\tZ" not in Path("/proc", pid, "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_steps_run_side_by_side_and_wait_for_those_that_they_need(tmp_path: Path) -> None:
    meet = "until [ -e {other} ]; do sleep 0.02; done"
    running = bash(
        tmp_path,
        f"one() {{ touch one; {meet.format(other='two')}; touch one-done; }}\n"
        f"two() {{ touch two; {meet.format(other='one')}; }}\n"
        "after() { [ -e one-done ]; }\n"
        'add_step after "one not-added" "what comes after" after\n'
        'add_step one "" "the one" one\nadd_step two "" "the other" two',
    )
    out, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (0, "")
    lines = out.splitlines()
    assert lines[:2] == ["[2/3] the one", "[3/3] the other"]
    assert lines[-2].startswith("[1/3] done in ") or lines[-2].startswith("[3/3] done in ")
    assert lines.index("[1/3] what comes after") > next(i for i, line in enumerate(lines) if "s: the one" in line)
    assert lines[-1] == "end"


def test_a_setup_that_is_complete_has_nothing_to_do(tmp_path: Path) -> None:
    assert bash(tmp_path, ":").communicate(timeout=60) == ("end\n", "")


def test_a_step_that_fails_ends_the_others_and_shows_what_it_said(tmp_path: Path) -> None:
    running = bash(
        tmp_path,
        "long() { sh -c 'echo $$ > pid; exec sleep 600'; }\n"
        "bad() { until [ -s pid ]; do sleep 0.02; done; echo no network; false; echo not reached; }\n"
        'add_step long "" "a long one" long\nadd_step bad "" "a bad one" bad\nadd_step never bad "a later one" long',
    )
    out, err = running.communicate(timeout=60)
    assert running.returncode == 1
    assert err.splitlines()[:2] == ["[2/3] failed: a bad one; the end of logs/bad.log:", "no network"]
    assert "not reached" not in err
    assert "a later one" not in out
    assert not lives((tmp_path / "pid").read_text().strip())


def test_an_interrupted_setup_leaves_nothing_at_work(tmp_path: Path) -> None:
    running = bash(
        tmp_path,
        "long() { sh -c 'echo $$ > pid; exec sleep 600'; }\nadd_step long \"\" \"a long one\" long",
    )  # fmt: skip
    wait_for(tmp_path / "pid")
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    assert running.returncode == 130
    assert not lives((tmp_path / "pid").read_text().strip())


def test_parts_name_what_there_is_and_all_has_all_of_it() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    groups = [line.strip("[]") for line in (ROOT / "script/packages.txt").read_text().splitlines() if line[:1] == "["]
    known = (set(groups), set(setup["options.extras_require"]), set(KEPT))
    parts = in_lib("known_parts").split()
    assert {"demo", "unit", "functional", "lab", "all"} <= set(parts)
    for part in parts:
        needs = [set(in_lib(f"of_parts {column} {part}").split()) for column in (1, 2, 3)]
        assert all(needed <= there for needed, there in zip(needs, known, strict=True)), part
        if part == "all":
            assert needs[0] == known[0]
            assert needs[2] == known[2]


def test_a_package_that_was_not_installed_to_the_end_is_missing(tmp_path: Path) -> None:
    query = tmp_path / "dpkg-query"
    query.write_text("#!/bin/sh\necho 'installed gcc'\necho 'half-configured python3-venv'\n")
    query.chmod(0o755)
    assert "python3-venv" in in_lib("missing_packages agent", str(tmp_path)).split()
    assert "gcc" not in in_lib("missing_packages agent", str(tmp_path)).split()
