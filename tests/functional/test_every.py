"""``every`` of plimsoll's image, in the shell that runs it there."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

EVERY = Path(__file__).parents[2] / "packaging/container/every"


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_command_is_run_again_also_where_it_fails_and_sigterm_ends_it_in_order(tmp_path: Path) -> None:
    command = f"trap 'echo ended > {tmp_path}/ended; exit 7' TERM; echo run >> {tmp_path}/runs; "
    command += f'[ "$(wc -l < {tmp_path}/runs)" -lt 3 ] && exit 5; while :; do sleep 0.05; done'
    with subprocess.Popen(["sh", str(EVERY), "0.01", "sh", "-c", command]) as process:
        until(lambda: (tmp_path / "runs").exists() and (tmp_path / "runs").read_text().count("run") == 3)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert (tmp_path / "ended").read_text() == "ended\n"


def test_sigterm_between_two_runs_ends_it_at_once(tmp_path: Path) -> None:
    with subprocess.Popen(["sh", str(EVERY), "3600", "touch", str(tmp_path / "run")]) as process:
        until((tmp_path / "run").exists)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
