"""The change that is under way, on the disk: a run that was killed is completed by the next."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from plimsoll_installer.hand import Hand
from plimsoll_installer.layout import Layout


@dataclass(frozen=True, slots=True)
class Intent:
    """Which environments ``current`` and ``previous`` are to name, and whether that is a step back."""

    current: str
    previous: str
    back: bool


def read(layout: Layout) -> Intent | None:
    """None when none is under way."""
    try:
        return Intent(**json.loads(layout.intent.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def write(hand: Hand, layout: Layout, intent: Intent) -> None:
    hand.write(layout.intent, (json.dumps(asdict(intent)) + "\n").encode())


def done(hand: Hand, layout: Layout) -> None:
    hand.remove(layout.intent)
