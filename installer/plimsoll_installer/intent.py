"""The change that is under way, kept on disk, so that the next run completes one that was killed."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from plimsoll_installer.hand import Hand
from plimsoll_installer.layout import Layout


@dataclass(frozen=True, slots=True)
class Intent:
    """Which environments ``current`` and ``previous`` will name, and whether this is a rollback."""

    current: str
    previous: str
    back: bool


def read(layout: Layout) -> Intent | None:
    """The change under way; None if there is none."""
    try:
        return Intent(**json.loads(layout.intent.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def write(hand: Hand, layout: Layout, intent: Intent) -> None:
    hand.write(layout.intent, (json.dumps(asdict(intent)) + "\n").encode())


def done(hand: Hand, layout: Layout) -> None:
    hand.remove(layout.intent)
