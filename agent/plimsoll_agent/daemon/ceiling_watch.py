"""Looks whether ceilings are to be split again, so that a pass over the node is due: each period while some share."""

from __future__ import annotations

from plimsoll_agent.app.node import state_of
from plimsoll_agent.ceilings.buckets import PERIOD
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.rules.model import Rules
from plimsoll_agent.store.state import StateError


class CeilingWatch:
    def __init__(self) -> None:
        self._again = 0.0
        """When a pass may be due (on the clock of ``now``)."""
        self._has_new = False

    def changed(self, rules: Rules) -> None:
        """A pass over a guest has changed limits: its disks may be new ones that share."""
        self._has_new = self._has_new or rules.share_ceilings

    def due(self, settings: Settings, now: float) -> bool:
        """Whether a pass is due. Raises nothing."""
        if settings.mode != "enforce" or now < self._again:
            return False
        is_due = self._has_new or _is_split(settings)
        if is_due:
            self._again, self._has_new = now + PERIOD.total_seconds(), False
        return is_due


def _is_split(settings: Settings) -> bool:
    try:
        splits, _ = state_of(settings).load_ceilings()
    except StateError:  # each pass says so
        return False
    return any(part for each in splits.values() for part in each.parts.values())
