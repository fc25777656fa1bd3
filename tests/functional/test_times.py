"""A test that failed and passes at its second try is named, however the run ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import times

ROOT = Path(__file__).resolve().parents[2]


def test_a_test_that_passes_at_its_second_try_is_left_as_flaked(tmp_path: Path) -> None:
    """As ``script/test`` does it: what failed, once more, in a process of its own."""
    folder = tmp_path / "tests/unit"
    folder.mkdir(parents=True)
    (folder / "conftest.py").write_text(
        "from tests import times\n\n"
        "def pytest_sessionstart():\n    times.begin()\n\n"
        "def pytest_terminal_summary(terminalreporter):\n    times.leave(terminalreporter)\n"
    )
    (folder / "test_it.py").write_text(
        "from pathlib import Path\n\n"
        "def test_flakes():\n    mark = Path(__file__).with_name('mark')\n    there = mark.exists()\n"
        "    mark.touch()\n    assert there\n\n"
        "def test_fails():\n    assert False\n\ndef test_passes():\n    pass\n"
    )
    left = tmp_path / "left"
    left.mkdir()
    environment = os.environ | {"PLIMSOLL_TEST_TIMES": str(left), "PYTHONPATH": str(ROOT)}
    environment.pop("COVERAGE_PROCESS_START", None)
    words = [sys.executable, "-m", "pytest", "-q", "-o", f"cache_dir={tmp_path}/cache", "--rootdir", str(tmp_path)]
    subprocess.run([*words, "tests/unit"], cwd=tmp_path, env=environment, capture_output=True, check=False)
    again = [*words, "--last-failed", "--last-failed-no-failures=none", "tests/unit"]
    subprocess.run(
        again, cwd=tmp_path, env=environment | {"PLIMSOLL_TEST_SECOND_TRY": "1"}, capture_output=True, check=False
    )
    first, second = times.read(left)
    assert (first.name, set(first.tests), first.flaked) == (
        "unit",
        {f"tests/unit/test_it.py::test_{name}" for name in ("flakes", "fails", "passes")},
        (),
    )
    assert (second.name, second.flaked) == ("unit, second try", ("tests/unit/test_it.py::test_flakes",))
    assert set(second.tests) == {"tests/unit/test_it.py::test_flakes", "tests/unit/test_it.py::test_fails"}
    assert all(json.loads(path.read_text())["seconds"] > 0 for path in left.iterdir())
