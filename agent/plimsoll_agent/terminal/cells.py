"""Text in the cells of a terminal: of a given width, with numbers that are never cut. Pure."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size

from plimsoll_agent.util.text import printable

# Terminals disagree on the width of these: an emoji loses its variant and colour, a flag becomes its letters.
_STEADY = {
    **dict.fromkeys((*range(0xFE00, 0xFE10), *range(0x1F3FB, 0x1F400))),
    **{0x1F1E6 + number: chr(ord("A") + number) for number in range(26)},
}


def steady(text: str) -> str:
    """Foreign text, safe to show, and of the same width in all terminals."""
    return printable(text).translate(_STEADY)


def cut(text: str, most: int) -> str:
    """Text in at most ``most`` cells; an ellipsis shows that it was cut."""
    return text if cell_len(text) <= most else set_cell_size(text, max(most - 1, 0)).rstrip() + "…"


def cut_middle(text: str, most: int) -> str:
    """The same, but cut in the middle, for names that differ at their ends."""
    if cell_len(text) <= most:
        return text
    tail, room = "", most // 2
    for character in reversed(text):
        room -= cell_len(character)
        if room < 0:
            break
        tail = character + tail
    return cut(text, most - cell_len(tail)) + tail


def cut_words(text: str, most: int) -> str:
    """The same, but cut between words, and never between a number and its unit."""
    if cell_len(text) <= most:
        return text
    words: list[str] = []
    for word in text.split(" "):
        if words and words[-1][-1:].isdigit():
            words[-1] += f" {word}"
        else:
            words.append(word)
    while words and cell_len(" ".join(words)) + 1 > most:
        words.pop()
    return " ".join(words).rstrip(",;") + "…" if words else cut(text, most)


def fit(text: str, width: int, *, right: bool = False) -> str:
    """Text in exactly ``width`` cells."""
    text = cut(text, width)
    spare = " " * (width - cell_len(text))
    return spare + text if right else text + spare


def bar(share: float, width: int) -> str:
    """``███░░░``: a share on its track; above 100 % it ends in a plus."""
    if share > 1.005:
        return "█" * (width - 1) + "+"
    full = min(round(share * width), width)
    return "█" * full + "░" * (width - full)


def iops(value: float) -> str:
    return _little(value) or f"{value:.0f}"


def mib(value: float) -> str:
    value /= 2**20
    return _little(value) or (f"{value:.1f}" if value < 1000 else f"{value:.0f}")


def _little(value: float) -> str:
    """A value below 1, so that only 0 is shown as 0; empty for others."""
    return "0" if value == 0 else "<0.1" if value < 0.1 else f"{value:.1f}" if value < 1 else ""


def percent(share: float) -> str:
    return "<1 %" if 0 < share < 0.01 else f"{share * 100:.0f} %"
