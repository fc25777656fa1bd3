"""What output on a terminal keeps at every width, beside what a pipe gets of the same."""

from __future__ import annotations

import re

from rich.cells import cell_len

WIDTHS = (80, 100, 120, 160, 200)
_OF_TERMINALS = re.compile(
    r"\[\d+\]|…|\\|Hidden:|A|wider|terminal,?|or|-c|--wide|shows|them\.|all:|nodes:|[\d.]+\+|\+:|more|in|bursts;"
    r"|[\d.]+\+?/[\d.]+\+?|n/m:|[nm]|of|reads,|writes;|names"
)
"""Words that a pipe does not get."""
_APART = re.compile(r"^ *(IOPS|[KMGT]iB(/s)?|%|→)|→$")
"""What no line begins or ends with: a unit apart from its number."""


def plain(text: str) -> list[str]:
    """The lines, without colour."""
    return re.sub(r"\x1b\[[\d;]*m", "", text).splitlines()


def misfits(page: str, pipe: str, width: int) -> list[str]:
    """Lines of a page that are too wide or break a unit from its number, and words that are broken or foreign."""
    lines, words = plain(page), {part for word in pipe.split() for part in (word, word.rstrip(",.:"))}
    found = [line for line in lines if cell_len(line) > width or _APART.search(line)]
    for word in {word for line in lines for word in line.split()} - words:
        head, mark, tail = word.partition("…")
        cropped = mark and any(w.startswith(head) for w in words) and any(w.endswith(tail) for w in words)
        if not (cropped or word.rstrip(",.") in words or _OF_TERMINALS.fullmatch(word)):
            found.append(word)
    return found
