"""A terminal for a command that fills the screen: its keys, and frames of which only changed lines are written.

rich makes the text; its Live writes every line of every frame, and has neither keys nor a way to be suspended.
"""

from __future__ import annotations

import base64
import codecs
import contextlib
import os
import select
import signal
import termios
import threading
import tty
from collections.abc import Callable, Sequence
from types import FrameType, TracebackType
from typing import Any, TextIO

from rich.text import Text

from plimsoll_agent.terminal.output import console, terminal_of

# xterm's control sequences. Without wrapping (?7l), a line that a terminal takes for longer stays in its line.
_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"
_LEAVE = "\x1b[m\x1b[?7h\x1b[?25h\x1b[?1049l"
_CLEAR = "\x1b[m\x1b[H\x1b[2J"
_ENDS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_PLAIN = str.maketrans({"█": "#", "░": ".", "…": "~", "→": ">", "←": "<", "↑": "^", "↓": "v", "×": "x"})
"""For a terminal whose encoding has no such characters."""


class Screen:
    """As a context, the terminal is restored on every way out, signals and suspension too."""

    def __init__(self, stdin: TextIO, stdout: TextIO, colour: str) -> None:
        self._stdin, self._stdout = stdin.fileno(), stdout.fileno()
        stdout.flush()
        self._console = console(stdout, "always")
        self._console.no_color = not terminal_of(stdout, colour).colour  # a cursor is reversed without colour too
        self._encoding = stdout.encoding or "ascii"
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._drawn: list[Text] = []
        self._drawn_size = (0, 0)
        self._suspended = self._continued = False

    def __enter__(self) -> Screen:
        self._mode = termios.tcgetattr(self._stdin)
        self._woken, self._wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._wakeup = signal.set_wakeup_fd(self._wakes, warn_on_full_buffer=False)
        handlers: dict[signal.Signals, Callable[[int, FrameType | None], Any]] = dict.fromkeys(_ENDS, _end)
        handlers |= {
            signal.SIGTSTP: self._on_suspend,
            signal.SIGCONT: self._on_continue,
            signal.SIGWINCH: _wake,
        }
        try:
            self._handlers = {number: signal.signal(number, handler) for number, handler in handlers.items()}
            self._show()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in self._handlers:  # another signal must not stop what follows
            signal.signal(number, signal.SIG_IGN)
        self._hide()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        os.close(self._woken)
        os.close(self._wakes)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        try:
            columns, lines = os.get_terminal_size(self._stdout)
        except OSError:
            columns = lines = 0
        return columns or 80, lines or 24

    def draw(self, lines: Sequence[Text]) -> None:
        """Show these lines, in one write. Raises ``OSError`` when the terminal is gone."""
        parts: list[str] = []
        size = self.size
        if self._drawn_size != size:
            self._drawn, self._drawn_size = [], size
            parts.append(_CLEAR)
        for number, line in enumerate(lines):
            if number >= len(self._drawn) or not _same(self._drawn[number], line):
                parts.append(f"\x1b[{number + 1};1H\x1b[2K{self._painted(line)}")
        parts += (f"\x1b[{number + 1};1H\x1b[2K" for number in range(len(lines), len(self._drawn)))
        self._write("".join(parts))
        self._drawn = list(lines)

    def copy(self, text: str) -> None:
        """Give the text to the terminal's clipboard (OSC 52, which some terminals refuse)."""
        self._write(f"\x1b]52;c;{base64.b64encode(text.encode()).decode()}\x07")

    def keys(self, seconds: float, has_rest: Callable[[str], bool]) -> str | None:
        """What was typed in this time, or until a signal came; None when the terminal is gone."""
        text = ""
        while ready := select.select([self._stdin, self._woken], [], [], 0.05 if text else seconds)[0]:
            if self._woken in ready:
                self._heed_signals()
                return text
            try:
                data = os.read(self._stdin, 1024)
            except OSError:
                return None
            if not data:
                return None
            text += self._decoder.decode(data)
            if not has_rest(text):
                break
        return text

    def _painted(self, line: Text) -> str:
        try:
            line.plain.encode(self._encoding)
        except UnicodeEncodeError:
            plain = line.plain.translate(_PLAIN).encode(self._encoding, "replace").decode(self._encoding)
            line = Text(plain, style=line.style, spans=line.spans)
        with self._console.capture() as capture:
            self._console.print(line, end="", soft_wrap=True)
        return capture.get()

    def _write(self, text: str) -> None:
        rest = text.encode(self._encoding, "replace")
        while rest:
            rest = rest[os.write(self._stdout, rest) :]

    def _show(self) -> None:
        tty.setcbreak(self._stdin)
        self._write(_ENTER)
        self._drawn_size = (0, 0)

    def _hide(self) -> None:
        with contextlib.suppress(OSError, termios.error):  # it may be gone
            termios.tcflow(self._stdout, termios.TCOON)  # after Ctrl-S nothing else would get out
            self._write(_LEAVE)
            termios.tcsetattr(self._stdin, termios.TCSADRAIN, self._mode)

    def _heed_signals(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._woken, 1024)
        if self._suspended:
            self._hide()
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            signal.pthread_kill(threading.get_ident(), signal.SIGTSTP)  # to this thread: it stops here
            signal.signal(signal.SIGTSTP, self._on_suspend)
        if self._suspended or self._continued:
            self._show()  # a shell has set the terminal up for itself
        self._suspended = self._continued = False

    def _on_suspend(self, _number: int, _frame: FrameType | None) -> None:
        self._suspended = True

    def _on_continue(self, _number: int, _frame: FrameType | None) -> None:
        self._continued = True


def _wake(_number: int, _frame: FrameType | None) -> None:
    """Ends the waiting for keys."""


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _same(one: Text, other: Text) -> bool:
    return one.plain == other.plain and one.spans == other.spans and one.style == other.style
