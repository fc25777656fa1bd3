"""What a pytest leaves in the directory ``PLIMSOLL_TEST_TIMES`` for ``script/times.py``: where its time went."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from pathlib import Path

import pytest

VARIABLE = "PLIMSOLL_TEST_TIMES"
SECOND_TRY = "PLIMSOLL_TEST_SECOND_TRY"
"""Set where only tests run that have failed before: those that pass now have flaked."""
LAB_GROUPS = ("quiet", "shared", "hurt", "hosts", "faults", "newcomer")
_began: list[float] = []


def begin() -> None:
    _began[:] = [time.time()]


def leave(reporter: pytest.TerminalReporter) -> None:
    directory = os.environ.get(VARIABLE)
    if directory is None or hasattr(reporter.config, "workerinput"):  # a worker's tests are told by its controller
        return
    seconds: Counter[str] = Counter()
    names: Counter[str] = Counter()
    for report in (each for reports in reporter.stats.values() for each in reports):
        if isinstance(report, pytest.TestReport):
            seconds[report.nodeid] += report.duration
            names[_group(report)] += 1
    if not names:
        return
    second_try = SECOND_TRY in os.environ
    failed = {report.nodeid for kind in ("failed", "error") for report in reporter.stats.get(kind, ())}
    lane = getattr(reporter.config.option, "lane", None)
    name = lane or names.most_common(1)[0][0]
    data = {
        "name": f"{name}, second try" if second_try else name,
        "began": _began[0],
        "seconds": time.time() - _began[0],
        "tests": seconds,
        "flaked": sorted(seconds.keys() - failed) if second_try else [],
    }
    Path(directory, f"{os.getpid()}.json").write_text(json.dumps(data), encoding="utf-8")


def _group(report: pytest.TestReport) -> str:
    """``unit``, ``functional``, or of a lab test its group."""
    folder = report.nodeid.split("/")[1]
    return next((group for group in LAB_GROUPS if group in report.keywords), folder) if folder == "lab" else folder
