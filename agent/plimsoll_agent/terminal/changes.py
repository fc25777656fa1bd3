"""Lays out the lines of ``plan``, ``enforce`` and ``undo``: for a terminal, or one line a disk for a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from plimsoll_agent.messages.lines import Alike, CommandLine, DiskLine, Line, TextLine
from plimsoll_agent.messages.tones import TONES
from plimsoll_agent.terminal.output import Terminal
from plimsoll_agent.util.frozen import replace

FEW = 3
"""So many lines that are alike are all shown; of more only the first."""
_LONGEST_NAMES = ((64, 64, 32), (32, 16, 12))
"""Guest, server, disk: longer names are cropped on a terminal, to the latter where lines would not fit with the
first. Tenants choose the names of servers.
"""
_INDENT = 4
_NARROWEST = 28
"""Text beside the names is at least so wide, or it goes below them."""


def laid_out(lines: Iterable[Line], terminal: Terminal, *, every: bool = False, remedy: str = "") -> Iterator[str]:
    """``every``: no line stands for others that are alike. ``remedy`` is what shows all."""
    if terminal.width is None:
        yield from (_of_pipe(line, terminal) for line in _some(lines, every, remedy))
    else:
        yield from _Page(terminal, terminal.width).lines(_some(_headed(lines), every, remedy))


def _headed(lines: Iterable[Line]) -> Iterator[Line]:
    """With the reason of several disks that are deferred or unknown above them, once."""
    for (sign, why), group in groupby(lines, key=_reason):
        run = list(group)
        alikes = [line for line in run if isinstance(line, Alike)]
        if why and sum(1 if len(each.lines) > FEW else len(each.lines) for each in alikes) > 1:
            yield TextLine(why, alikes[0].lines[0].severity, head=sign)
            yield from (Alike(tuple(replace(line, why="") for line in each.lines)) for each in alikes)
        else:
            yield from run


def _reason(line: Line) -> tuple[str, str]:
    """What a line has in common with others below one reason; of all other lines nothing."""
    if isinstance(line, Alike) and line.lines[0].sign in "!?":
        return line.lines[0].sign, line.lines[0].why
    return "", ""


def _of_pipe(line: DiskLine | TextLine | CommandLine, terminal: Terminal) -> str:
    match line:
        case DiskLine():
            names, tone = " ".join(filter(None, line.names)), TONES.get(line.severity)
            text = terminal.toned(f"{line.sign} {names}", tone)
            return "  ".join(filter(None, (text, line.what, line.why)))
        case TextLine():
            return "  ".join(filter(None, (terminal.toned(line.head, TONES.get(line.severity)), line.text)))
        case CommandLine():
            return f"{line.when}: {line.command}"


def _some(lines: Iterable[Line], every: bool, remedy: str) -> Iterator[DiskLine | TextLine | CommandLine]:
    for line in lines:
        if not isinstance(line, Alike):
            yield line
            continue
        few = line.lines if every or len(line.lines) <= FEW else line.lines[:1]
        yield from few
        if len(few) < len(line.lines):
            yield TextLine(f"  … {len(line.lines) - 1} more like it ({remedy})")


class _Page:
    """Lines no wider than a terminal, which end between words."""

    def __init__(self, terminal: Terminal, width: int) -> None:
        # Here: a pass from the timer needs none of it.
        from rich.cells import cell_len

        from plimsoll_agent.terminal.cells import cut_middle
        from plimsoll_agent.terminal.wrap import wrapped

        self._terminal, self._width = terminal, width
        self._size, self._crop, self._wrapped = cell_len, cut_middle, wrapped

    def lines(self, lines: Iterable[DiskLine | TextLine | CommandLine]) -> Iterator[str]:
        every = list(lines)
        for longest in _LONGEST_NAMES:
            disks = [self._short(line, longest) for line in every if isinstance(line, DiskLine)]
            names = [max((self._size(line.names[part]) for line in disks), default=0) for part in range(3)]
            margin = 2 + sum(names) + len([width for width in names if width]) + 1
            what = self._what_width(disks, margin)
            if what:
                break
        for line in every:
            match line:
                case DiskLine():
                    yield from self._disk(self._short(line, longest), names, margin, what)
                case TextLine():
                    yield from self._text(line)
                case CommandLine():
                    yield from self._command(line)

    def _short(self, line: DiskLine, longest: Sequence[int]) -> DiskLine:
        names = tuple(self._crop(name, most) for name, most in zip(line.names, longest, strict=True))
        return DiskLine(sign=line.sign, names=names, what=line.what, why=line.why, severity=line.severity)

    def _what_width(self, lines: list[DiskLine], margin: int) -> int:
        """The column of changes, where all reasons fit beside it; else 0."""
        changing = [line for line in lines if line.what]
        what = max((self._size(line.what) for line in changing), default=0)
        widest = max((self._size(line.why) for line in changing), default=0)
        return what if margin + what + 2 + widest <= self._width else 0

    def _disk(self, line: DiskLine, names: list[int], margin: int, what: int) -> Iterator[str]:
        """The change and its reason beside the names where they fit, else below each other, or below the names."""
        tone = TONES.get(line.severity)
        cells = [self._padded(name, width) for name, width in zip(line.names, names, strict=True) if width]
        head = f"{self._terminal.toned(line.sign, tone)} {' '.join(cells)}"
        beside = self._width - margin
        whole = f"{self._padded(line.what, what)}  {line.why}" if line.what else line.why
        if self._size(whole) <= beside:
            words = self._terminal.toned(line.what, tone) + whole[len(line.what) :] if line.what else line.why
            yield f"{head}  {words}".rstrip()
            return
        below = []
        for number, (text, tone_of_it) in enumerate(((line.what, tone), (line.why, None))):
            indent = margin if beside >= _NARROWEST and self._size(text) <= beside else _INDENT
            if number == 0 and beside >= _NARROWEST:
                indent = margin
            below += [(indent, piece, tone_of_it) for piece in self._wrapped(text, self._width - indent) if text]
        if below and below[0][0] == margin:
            _, text, first_tone = below.pop(0)
            head += f"  {self._terminal.toned(text, first_tone)}"
        yield head.rstrip()
        yield from (" " * indent + self._terminal.toned(text, its_tone) for indent, text, its_tone in below)

    def _text(self, line: TextLine) -> Iterator[str]:
        tone, text = TONES.get(line.severity), line.text.lstrip()
        head = f"{self._terminal.toned(line.head, tone)}  " if line.head else " " * (len(line.text) - len(text))
        indent = len(line.head) + 2 if line.head else len(head) or _INDENT // 2
        first, *rest = self._wrapped(text, self._width - indent)
        its = None if line.head else tone
        yield head + self._terminal.toned(first, its)
        yield from (" " * indent + self._terminal.toned(piece, its) for piece in rest)

    def _command(self, line: CommandLine) -> Iterator[str]:
        """A command that is too long goes on behind a backslash, so that it can still be copied."""
        head = f"{line.when}: "
        if self._size(head + line.command) <= self._width:
            yield head + line.command
            return
        *parts, last = self._wrapped(line.command, self._width - _INDENT - 2)
        yield line.when + ":"
        yield from (f"{' ' * _INDENT}{part} \\" for part in parts)
        yield " " * _INDENT + last

    def _padded(self, text: str, width: int) -> str:
        return text + " " * max(width - self._size(text), 0)
