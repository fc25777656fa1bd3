"""Lines for people outside tables: on a terminal they end between words, and a command to copy is never broken."""

from __future__ import annotations

import io
from typing import TextIO, cast

from plimsoll_agent.messages.tones import Tone
from plimsoll_agent.terminal.output import Terminal, terminal_of

_MARKS = {"error:": Tone.CRITICAL, "warning:": Tone.WARNING}


def folding(stream: TextIO, *, marks: bool = False) -> TextIO:
    """The stream, with lines folded at the width of the terminal behind it; the stream itself without one.

    ``marks``: ``error:`` and ``warning:`` at the beginning of a line are coloured.
    """
    terminal = terminal_of(stream)
    if terminal.width is None:
        return stream
    return cast(TextIO, Folding(stream, terminal.width, terminal if marks else None))


class Folding(io.TextIOBase):
    """Colours and moves of a cursor are left as they are: what has them is laid out already."""

    def __init__(self, stream: TextIO, width: int, marks: Terminal | None = None) -> None:
        self._stream, self._width, self._begun = stream, width, ""
        self._marks = marks

    def choose_colour(self, choice: str) -> None:
        """``choice`` is what ``--color`` says."""
        if self._marks is not None:
            self._marks = terminal_of(self._stream, choice)

    @property
    def encoding(self) -> str:  # type: ignore[override]  # in typeshed it is a variable
        return self._stream.encoding

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()

    def write(self, text: str, /) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        if lines:
            self._stream.write("".join(f"{line}\n" for whole in lines for line in self._folded(whole)))
        return len(text)

    def _coloured(self, line: str) -> str:
        mark, space, rest = line.partition(" ")
        if self._marks is None or mark not in _MARKS:
            return line
        return f"{self._marks.toned(mark, _MARKS[mark])}{space}{rest}"

    def flush(self) -> None:
        rest, self._begun = self._begun, ""
        self._stream.write(rest)
        self._stream.flush()

    @property
    def closed(self) -> bool:
        """Python asks when it is collected: after the stream was closed nothing can be flushed."""
        return self._stream.closed

    def _folded(self, line: str) -> list[str]:
        if len(line) * 2 <= self._width or (len(line) <= self._width and line.isascii()):
            return [self._coloured(line)]
        if not line.isprintable():
            return [line]
        from plimsoll_agent.terminal.wrap import folded  # here, since rich takes time to import

        first, *rest = folded(line, self._width)
        return [self._coloured(first), *rest]
