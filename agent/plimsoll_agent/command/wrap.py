"""Text in lines that fit, ending between words: a number stays with its unit, and a name with its number."""

from __future__ import annotations

import re

from rich.cells import cell_len

GLUE = "\ue000"
"""In place of a space at which no line ends. It is not printable, so it is in no text."""
_LOOSE = ("\ue001", "\ue002")
"""In place of those at which a line ends only where there is no room for both sides: the last gives way first."""
_UNIT = re.compile(r"(?<![^\s(])(\d(?:[\d.,]*\d)?) (?=[^\W\d]|%)")
_NAMED = re.compile(r"(\w_\w+|\bread|\bwrite|--\w+) (?=\d|[A-Z]+\b)")
_JOINED = ((re.compile(r"(?<=\(burst) |(?<=\(to) | (?=→)|(?<=→) "), _LOOSE[0]), (re.compile(r" (?=\()"), _LOOSE[1]))


def glued(text: str) -> str:
    """The text with ``GLUE`` between numbers and their units, and between names and their numbers."""
    return _NAMED.sub(rf"\1{GLUE}", _UNIT.sub(rf"\1{GLUE}", text))


def longest_word(text: str) -> int:
    """The width that the text needs at least, in terminal cells."""
    return max(map(cell_len, glued(text).split()), default=0)


def wrapped(text: str, width: int) -> list[str]:
    """The text, which must be printable, in lines; only a word that is itself wider is broken."""
    if cell_len(text) <= width:
        return [text]
    from rich.text import Text  # here, since few texts have to be wrapped

    loose = glued(text)
    for pattern, glue in _JOINED:
        loose = pattern.sub(glue, loose)
    words = [loose]
    for glue in (" ", *reversed(_LOOSE), GLUE):
        words = [part for word in words for part in ((word,) if cell_len(word) <= width else word.split(glue))]
    # No console is asked about text without styles.
    lines = Text(" ".join(words)).wrap(None, width, overflow="fold")  # type: ignore[arg-type]
    return [unglued(line.plain.rstrip()) for line in lines]


def unglued(text: str) -> str:
    for glue in (GLUE, *_LOOSE):
        text = text.replace(glue, " ")
    return text
