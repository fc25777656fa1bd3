"""Coverage of tests in their own process: of what a test itself executes, in the beginning of it.

While coverage looks, all that runs takes three times as long with Python 3.11, pytest and hypothesis among it. A test
that goes on executes the same lines with other values, and so does a test or a fixture with other parameters: it is
left alone as soon as nothing is new. A process that a test forks is not measured, and of imports those of the product
are. So a line may be missed, and none is told that was not executed.
"""

from __future__ import annotations

import os
import posix
import signal
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager, nullcontext
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest

SOURCES = tuple(
    str(Path(__file__).resolve().parents[1] / folder)
    for folder in ("agent", "probes", "monitoring", "insight", "ansible")
)
QUIET = 0.05
"""A test or fixture is measured until nothing was new for so many seconds of processor time, whatever the load."""
IDLE = 3
"""One that executed nothing new so many times in a row is not measured again, whatever its parameters."""


@contextmanager
def unmeasured() -> Iterator[None]:
    """Programs that begin meanwhile are not: Ansible, Sphinx and setuptools take three times as long, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("COVERAGE_PROCESS_START", raising=False)
        yield


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
        self._seen = 0
        self._idle: Counter[object] = Counter()
        signal.signal(signal.SIGVTALRM, self._another_while)
        os.register_at_fork(after_in_child=self._leave)
        coverage.stop()
        execute = SourceFileLoader.exec_module

        def measured(loader: SourceFileLoader, module: ModuleType) -> None:
            with self._measured() if loader.path.startswith(SOURCES) else nullcontext():
                execute(loader, module)

        SourceFileLoader.exec_module = measured  # type: ignore[method-assign]

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        with self._beginning(fixturedef.func):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Generator[None, object, object]:
        with self._beginning(pyfuncitem.nodeid.partition("[")[0]):
            return (yield)

    def pytest_sessionfinish(self) -> None:
        self._coverage.save()

    @contextmanager
    def _beginning(self, part: object) -> Iterator[None]:
        if self._idle[part] == IDLE:
            yield
            return
        before = self._executed()
        self._seen = before
        with self._measured():
            signal.setitimer(signal.ITIMER_VIRTUAL, QUIET, QUIET)
            try:
                yield
            finally:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        self._idle[part] = self._idle[part] + 1 if self._executed() == before else 0

    @contextmanager
    def _measured(self) -> Iterator[None]:
        if self._within:  # a fixture that another one asks for, or an import
            yield
            return
        self._within = True
        way_out = os._exit
        self._coverage.start()
        os._exit = way_out  # which saves first: each start wraps it once more
        try:
            yield
        finally:
            self._coverage.stop()
            self._within = False

    def _leave(self) -> None:
        """A child has no timer that would end it."""
        self._coverage.stop()
        os._exit = posix._exit  # writes nothing

    def _executed(self) -> int:
        """How many branches so far."""
        return sum(map(len, self._coverage._collector.data.values()))

    def _another_while(self, number: int, frame: FrameType | None) -> None:
        executed = self._executed()
        if executed == self._seen:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            self._coverage.stop()
            self._within = False
        self._seen = executed
