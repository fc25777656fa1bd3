"""What is wrong as lines, the worst first, each with the command to run next below it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.cells import cell_len

from plimsoll_agent.messages.tones import TONES
from plimsoll_agent.monitor.thresholds import Level
from plimsoll_agent.terminal.output import Terminal
from plimsoll_agent.terminal.wrap import wrapped
from plimsoll_agent.util.frozen import frozen

_LEAST = 20
"""Columns of text beside an indent, however narrow the terminal is."""


@frozen
class Line:
    """A thing to be told, and the command to run next. ``level`` None is for information."""

    level: Level | None
    text: str
    do: str = ""

    @property
    def word(self) -> str:
        return "INFO" if self.level is None else self.level.name


def problem_lines(lines: Iterable[Line], terminal: Terminal) -> Iterator[str]:
    """``WARNING  text``, wrapped between words; a command stays on one line, so that it can be copied."""
    entries = sorted(lines, key=lambda line: -1 if line.level is None else -line.level)
    entries = [line for line in entries if line.level is not None] + [line for line in entries if line.level is None]
    indent = max((len(line.word) for line in entries), default=0) + 2
    for line in entries:
        head, *rest = _beside(line.text, terminal.width, indent)
        yield f"{terminal.toned(line.word, TONES.get(line.word))}{' ' * (indent - len(line.word))}{head}"
        yield from (" " * indent + text for text in rest)
        if line.do:
            yield from _command(line.do, terminal.width, indent)


def _command(text: str, width: int | None, indent: int) -> Iterator[str]:
    """On one line that can be copied; without the indent where only that fits."""
    begin = f"{' ' * indent}next: "
    if width is None or len(begin) + cell_len(text) <= width or cell_len(text) > width:
        yield begin + text
    else:
        yield begin.rstrip()
        yield text


def _beside(text: str, width: int | None, indent: int) -> list[str]:
    return [text] if width is None else wrapped(text, max(width - indent, _LEAST))
