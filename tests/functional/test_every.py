"""``every`` of plimsoll's image."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

from lab.waiting import until

EVERY = Path(__file__).parents[2] / "packaging/container/every"


def test_a_command_is_run_again_also_where_it_fails_and_sigterm_ends_it_in_order(tmp_path: Path) -> None:
    command = f"trap 'echo ended > {tmp_path}/ended; exit 7' TERM; echo run >> {tmp_path}/runs; "
    command += f'[ "$(wc -l < {tmp_path}/runs)" -lt 3 ] && exit 5; while :; do sleep 0.05; done'
    with subprocess.Popen([str(EVERY), "0.01", "sh", "-c", command]) as process:
        until(lambda: (tmp_path / "runs").exists() and (tmp_path / "runs").read_text().count("run") == 3, 30)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert (tmp_path / "ended").read_text() == "ended\n"


def test_sigterm_while_a_command_starts_is_not_lost(tmp_path: Path) -> None:
    for number in range(20):
        with subprocess.Popen([str(EVERY), "0.001", "touch", str(tmp_path / f"{number}")]) as process:
            until((tmp_path / f"{number}").exists, 30)
            time.sleep(number / 1000)
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0


def test_what_it_cannot_run_is_one_line() -> None:
    for words in (["0.1", "no-such-command"], ["soon", "true"], []):
        ran = subprocess.run([EVERY, *words], capture_output=True, text=True, timeout=30, check=False)
        assert (ran.returncode, len(ran.stderr.splitlines())) == (1, 1)


def test_sigterm_between_two_runs_ends_it_at_once(tmp_path: Path) -> None:
    with subprocess.Popen([str(EVERY), "3600", "touch", str(tmp_path / "run")]) as process:
        until((tmp_path / "run").exists, 30)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
