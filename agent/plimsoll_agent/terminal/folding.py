"""Lines for people outside tables: on a terminal they end between words, and a command to copy is never broken."""

from __future__ import annotations

import io
from typing import TextIO, cast

from plimsoll_agent.terminal.output import terminal_of


def folding(stream: TextIO) -> TextIO:
    """The stream, with lines folded at the width of the terminal behind it; the stream itself without one."""
    width = terminal_of(stream).width
    return stream if width is None else cast(TextIO, _Folding(stream, width))


class _Folding(io.TextIOBase):
    """Colours and moves of a cursor are left as they are: what has them is laid out already."""

    def __init__(self, stream: TextIO, width: int) -> None:
        self._stream, self._width, self._begun = stream, width, ""

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
            return [line]
        if not line.isprintable():
            return [line]
        from plimsoll_agent.terminal.wrap import folded  # here, since rich takes time to import

        return folded(line, self._width)
