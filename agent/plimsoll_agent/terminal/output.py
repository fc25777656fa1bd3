"""What stands behind a command's output: how wide it is, and whether it shows colour. Both are decided here alone."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from plimsoll_agent.messages.tones import Tone

if TYPE_CHECKING:
    from rich.console import Console

COLOUR_CHOICES = ("auto", "always", "never")
USUAL_WIDTH = 80
_UNBOUNDED = 100_000
"""The width of rich's console for a pipe: rich knows no output without one."""


@dataclass(frozen=True)
class Terminal:
    """The output of one command."""

    width: int | None
    """In columns; None for a pipe or a file, where nothing is cut or wrapped."""
    colour: bool

    def toned(self, text: str, tone: Tone | None) -> str:
        """The text, in the tone's colour if colour is shown. The text must be printable."""
        return f"\x1b[{tone.sgr}m{text}\x1b[0m" if self.colour and tone is not None else text


def terminal_of(stdout: TextIO, colour: str = "auto") -> Terminal:
    """``colour`` is what ``--color`` says."""
    return Terminal(_columns(stdout) if stdout.isatty() else None, _shows_colour(stdout, colour))


def marked(stream: TextIO, mark: str, text: str) -> str:
    """``error: …`` and ``warning: …`` for people at a terminal; programs and the journal get the text alone."""
    return f"{mark}: {text}" if stream.isatty() else text


def console(stdout: TextIO, colour: str = "auto") -> Console:
    """rich's console on this output. It takes no text for markup, and paints nothing unasked."""
    from rich.console import Console  # here, since it takes a tenth of a command's time

    here = terminal_of(stdout, colour)
    return Console(
        file=stdout,
        width=here.width or _UNBOUNDED,
        color_system=None if not here.colour else "auto" if stdout.isatty() and colour == "auto" else "standard",
        no_color=not here.colour,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=here.width is None,
    )


def _columns(stdout: TextIO) -> int:
    """The width of a terminal; COLUMNS comes first, as in other programs."""
    text = os.environ.get("COLUMNS", "")
    if text.isascii() and text.isdigit() and int(text):
        return int(text)
    try:
        return os.get_terminal_size(stdout.fileno()).columns or USUAL_WIDTH
    except (OSError, ValueError):
        return USUAL_WIDTH


def _shows_colour(stdout: TextIO, choice: str) -> bool:
    if choice != "auto":
        return choice == "always"
    # no-color.org: set, and not empty.
    return stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb" and not os.environ.get("NO_COLOR")
