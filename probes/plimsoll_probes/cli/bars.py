"""What a person sees while probes are under way: a bar for each guest, and a line for each result."""

from __future__ import annotations

import io
import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as RichProgress
from rich.text import Text

from plimsoll_probes.runner import Phase, Progress
from plimsoll_probes.words import guest_words

LOG = logging.getLogger(__name__)
_WIDTH = 20
FULL = "█" * _WIDTH


class Outlet(io.TextIOBase):
    """Standard output, whose reader may go away, or whose disk fill up: a probe goes on unheard, and cleans up."""

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

    def _try(self, work: Callable[[], object]) -> None:
        if self.gone:
            return
        try:
            work()
        except OSError as error:
            self.gone = True
            LOG.error("standard output is gone (%s); the probes go on unheard", error)


class Lines:
    """Without a terminal: each line as it comes, also for the journal."""

    def __init__(self, stream: Outlet, dressed: Callable[[str], str]) -> None:
        self._stream = stream
        self._dressed = dressed
        self._lock = threading.Lock()

    bar = ""
    """What stands in a line for a job that is done."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Nothing to take down."""

    def tell(self, progress: Progress) -> None:
        """Only results are worth a line."""

    def done(self, key: tuple[str, str]) -> None:
        """Nothing to take away."""

    def say(self, line: str) -> None:
        with self._lock:
            print(self._dressed(line), file=self._stream, flush=True)


class Bars:
    """In a terminal: a bar for each guest that is being probed, below the results so far."""

    bar = FULL

    def __init__(self, stream: Outlet) -> None:
        # No markup: what looks like it, or like the name of an emoji, is a part of somebody's name.
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
        name = guest_words(target.guest.name, target.guest.display_name)
        what = str(progress.job) if progress.phase is Phase.RUNNING else progress.phase.value
        time = f"{progress.elapsed:.0f} s" if seconds is None else f"{progress.elapsed:.0f}/{seconds:.0f} s"
        if seconds is not None and progress.elapsed > seconds:
            time = f"{progress.elapsed:.0f} s, waiting for what is under way"
        with self._lock:
            task = self._tasks.get(target.key)
            if task is None:
                task = self._tasks[target.key] = self._rich.add_task("", total=None, time="")
            self._rich.update(
                task,
                description=f"{name}  {what}",
                total=seconds,
                completed=progress.elapsed if seconds is None else min(progress.elapsed, seconds),
                time=time,
            )

    def done(self, key: tuple[str, str]) -> None:
        """The target has no bar any more."""
        with self._lock:
            task = self._tasks.pop(key, None)
            if task is not None:
                self._rich.remove_task(task)

    def say(self, line: str) -> None:
        self._rich.console.print(Text(line), soft_wrap=True)
