"""Coverage of tests in their own process: of what a test itself executes, in the beginning of it.

While coverage looks, all that runs takes three times as long with Python 3.11, pytest and hypothesis among it. A test
that goes on executes the same lines with other values, and those are not measured again. So a line may be missed, and
none is told that was not executed.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

BEGINNING = 0.1
"""Of processor time, in seconds: what else the machine does makes no difference. Each fixture has as much."""


def measure_beginnings(config: pytest.Config) -> None:
    """Where this process is measured, only so from now on."""
    coverage = sys.modules.get("coverage")  # imported where COVERAGE_PROCESS_START is set
    measured = coverage.Coverage.current() if coverage else None
    if measured and not config.pluginmanager.has_plugin(Measuring.__name__):
        config.pluginmanager.register(Measuring(measured), Measuring.__name__)


class Measuring:
    """A plugin of pytest for a process that ``coverage`` measures."""

    def __init__(self, coverage: Any) -> None:
        self._coverage = coverage
        self._within = False
        signal.signal(signal.SIGVTALRM, self._enough)

    def pytest_collection_finish(self) -> None:
        self._coverage.stop()  # the imports are measured

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self) -> Generator[None, object, object]:
        with self._beginning():
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self) -> Generator[None, object, object]:
        with self._beginning():
            return (yield)

    def pytest_sessionfinish(self) -> None:
        self._coverage.save()

    @contextmanager
    def _beginning(self) -> Iterator[None]:
        if self._within:  # a fixture that another one asks for
            yield
            return
        self._within = True
        way_out = os._exit
        self._coverage.start()
        os._exit = way_out  # which saves first: each start wraps it once more
        signal.setitimer(signal.ITIMER_VIRTUAL, BEGINNING)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            self._coverage.stop()
            self._within = False

    def _enough(self, number: int, frame: FrameType | None) -> None:
        self._coverage.stop()
