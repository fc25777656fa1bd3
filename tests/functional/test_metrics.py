"""The golden metrics before the judges that read them in earnest, and what they cost who wants none."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

DATA = Path(__file__).parents[1] / "unit" / "data"
GOLDEN = sorted(DATA.glob("*_metrics.prom"))


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.stem)
def test_promtool_finds_nothing_to_say_of_the_metrics(golden: Path) -> None:
    text = golden.read_text(encoding="utf-8")
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.stem)
def test_no_series_is_in_a_file_twice(golden: Path) -> None:
    """promtool is content with it; node_exporter serves one of the two and drops the other without an error."""
    lines = golden.read_text(encoding="utf-8").splitlines()
    series = [line.rpartition(" ")[0] for line in lines if line and not line.startswith("#")]
    assert series
    assert not [name for name, number in Counter(series).items() if number > 1]


def test_no_family_is_in_two_files() -> None:
    """node_exporter puts them together: two help texts of one family, and it refuses it."""
    families = [
        line.split()[2]
        for golden in GOLDEN
        for line in golden.read_text(encoding="utf-8").splitlines()
        if line.startswith("# TYPE ")
    ]
    assert families
    assert len(families) == len(set(families))
