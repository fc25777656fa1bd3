"""Progress of running probes: bars on a terminal, lines without one; and a line for each result."""

from __future__ import annotations

import io
import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as RichProgress
from rich.text import Text

from plimsoll_agent.util.text import printable
from plimsoll_probes.execute.runner import Phase, Progress
from plimsoll_probes.output.messages import guest_words

LOG = logging.getLogger(__name__)
_WIDTH = 20
FULL = "█" * _WIDTH
SILENCE = 10.0
"""Seconds without a line after which progress is printed."""


class Outlet(io.TextIOBase):
    """Standard output that may fail, closed or on a full disk, without ending the probe before its cleanup."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.gone = False

    @property
    def encoding(self) -> str:  # type: ignore[override]  # in typeshed it is a variable
        return getattr(self._stream, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    def write(self, text: str, /) -> int:
        self._try(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        self._try(self._stream.flush)

    @property
    def closed(self) -> bool:
        """Python asks when it is collected: after the stream was closed nothing can be flushed."""
        return self._stream.closed

    def _try(self, work: Callable[[], object]) -> None:
        if self.gone:
            return
        try:
            work()
        except OSError as error:
            self.gone = True
            LOG.error("standard output is closed (%s); the probes go on without output", error)


class Lines:
    """Without a terminal: a line for each result, and on standard error what is being done.

    ``progress`` is None where nothing but results is printed.
    """

    bar = ""
    """A finished job has no bar in its line."""

    def __init__(
        self,
        stream: Outlet,
        for_journal: Callable[[str], str],
        progress: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._for_journal = for_journal
        self._progress = progress
        self._clock = clock
        self._lock = threading.Lock()
        self._under_way: dict[tuple[str, str], Progress] = {}
        self._last = clock()
        self._ended = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()

    def tell(self, progress: Progress) -> None:
        """Print a line where another phase or job begins."""
        key = progress.target.key
        with self._lock:
            before = self._under_way.get(key)
            self._under_way[key] = progress
            if before is None or (before.phase, before.job) != (progress.phase, progress.job):
                self._note(_begun(progress))

    def done(self, key: tuple[str, str]) -> None:
        with self._lock:
            self._under_way.pop(key, None)

    def say(self, line: str) -> None:
        with self._lock:
            print(self._for_journal(line), file=self._stream, flush=True)
            self._last = self._clock()

    def heartbeat(self) -> None:
        """Print how far each probe is, if nothing was printed for a while."""
        with self._lock:
            if self._clock() - self._last >= SILENCE:
                for progress in self._under_way.values():
                    self._note(_so_far(progress))
                if not self._under_way:
                    self._note("waiting for the turn of a guest")

    def _tick(self) -> None:
        while not self._ended.wait(1):
            self.heartbeat()

    def _note(self, line: str) -> None:
        if self._progress is None:
            return
        self._last = self._clock()
        try:
            print(line, file=self._progress, flush=True)
        except OSError:  # results matter more
            self._progress = None


def _begun(progress: Progress) -> str:
    match progress.phase:
        case Phase.LOOKING:
            what = "looking at the guest"
        case Phase.FILLING:
            what = "writing the file"
        case _:
            what = f"{progress.job}: running" + ("" if progress.seconds is None else f" for {progress.seconds:.0f} s")
    return f"{_where(progress)}  {what}"


def _so_far(progress: Progress) -> str:
    what = str(progress.job) if progress.phase is Phase.RUNNING else progress.phase.value
    return f"{_where(progress)}  {what}: {_time(progress)}"


def _where(progress: Progress) -> str:
    guest = progress.target.guest
    return f"{guest_words(guest.name, guest.display_name)} {printable(progress.target.directory)}"


def _time(progress: Progress) -> str:
    run_time, seconds = progress.elapsed, progress.seconds
    if seconds is None:
        return f"{run_time:.0f} s"
    if run_time > seconds:
        return f"{run_time:.0f} s, waiting for the last requests"
    return f"{run_time:.0f}/{seconds:.0f} s"


class Bars:
    """In a terminal: a bar for each guest that is being probed, below the results so far."""

    bar = FULL

    def __init__(self, stream: Outlet) -> None:
        # No markup and no emoji: names of guests may contain what looks like either.
        self._rich = RichProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=_WIDTH),
            TextColumn("{task.fields[time]}", markup=False),
            console=Console(file=stream, highlight=False),  # type: ignore[arg-type]  # no IO[str] by its name
            transient=True,
        )
        self._tasks: dict[tuple[str, str], TaskID] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._rich.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._rich.stop()

    def tell(self, progress: Progress) -> None:
        target, seconds = progress.target, progress.seconds
        what = str(progress.job) if progress.phase is Phase.RUNNING else progress.phase.value
        with self._lock:
            task = self._tasks.get(target.key)
            if task is None:
                task = self._tasks[target.key] = self._rich.add_task("", total=None, time="")
            self._rich.update(
                task,
                description=f"{_where(progress)}  {what}",
                total=seconds,
                completed=progress.elapsed if seconds is None else min(progress.elapsed, seconds),
                time=_time(progress),
            )

    def done(self, key: tuple[str, str]) -> None:
        """Remove the target's bar."""
        with self._lock:
            task = self._tasks.pop(key, None)
            if task is not None:
                self._rich.remove_task(task)

    def say(self, line: str) -> None:
        self._rich.console.print(Text(line), soft_wrap=True)
