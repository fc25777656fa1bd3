"""Text in lines that fit, ending between words: a number stays with its unit, and a name with its number."""

from __future__ import annotations

import re
from functools import lru_cache

from rich.cells import cell_len

from plimsoll_agent.util import distribution

GLUE = "\ue000"
"""In place of a space at which no line ends. It is not printable, so it is in no text."""
_LOOSE = ("\ue001", "\ue002")
"""In place of those at which a line ends only where there is no room for both sides: the last gives way first."""
_WHOLE = "\ue003"
"""In place of one in a command, at which no line ends at all."""
_UNIT = re.compile(r"(?<![^\s(])(\d(?:[\d.,]*\d)?\+?) (?=[^\W\d]|%)")
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

    words = _words(_commands().sub(lambda match: match[0].replace(" ", _LOOSE[0]), text), width)
    # No console is asked about text without styles.
    lines = Text(" ".join(words)).wrap(None, max(1, width), overflow="fold")  # type: ignore[arg-type]
    return [unglued(line.plain.rstrip()) for line in lines]


def folded(text: str, width: int) -> list[str]:
    """As ``wrapped``, each line with the indent of the first; a word or a command that is wider is on a line of its
    own.
    """
    if cell_len(text) <= width:
        return [text]
    indent = " " * (len(text) - len(text.lstrip(" ")))
    room, lines = width - len(indent), list[str]()
    for word in _words(_commands().sub(lambda match: match[0].replace(" ", _WHOLE), text.strip(" ")), room):
        if lines and cell_len(lines[-1]) + 1 + cell_len(word) <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return [indent + unglued(line) for line in lines]


def _words(text: str, width: int) -> list[str]:
    """What no line ends in, while there is room for it."""
    loose = glued(text)
    for pattern, glue in _JOINED:
        loose = pattern.sub(glue, loose)
    words = loose.split(" ")
    for glue in (*reversed(_LOOSE), GLUE):
        words = [part for word in words for part in ((word,) if cell_len(word) <= width else word.split(glue))]
    return words


@lru_cache(maxsize=1)
def _commands() -> re.Pattern[str]:
    """What one copies: a command of plimsoll in a sentence with its options and names; all that follows ``next:``."""
    names = "|".join(sorted(distribution.commands(), key=len, reverse=True))
    argument = r"--?\w[\w-]*(?:=\S+)?|[A-Z][A-Z_.]+\b|instance-\w+|[vs]d[a-z]+\b|[0-9a-f]{16,}|\d+\b|/\S+"
    return re.compile(rf"(?<=next: ).*|(?:sudo )?\bplimsoll(?: --[\w-]+=\S+)*(?: (?:{names})\b)?(?: (?:{argument}))*")


def unglued(text: str) -> str:
    for glue in (GLUE, *_LOOSE, _WHOLE):
        text = text.replace(glue, " ")
    return text
