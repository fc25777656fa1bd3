"""Looks whether another factor of congestion is to be applied, so that a pass over the node is due."""

from __future__ import annotations

from plimsoll_agent.app.congestion_following import applied
from plimsoll_agent.app.fetched import congestion_actual
from plimsoll_agent.app.node import now_of, pause_actual, state_of
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.congestion.following import follow
from plimsoll_agent.congestion.law import TUNING
from plimsoll_agent.congestion.signal import PoolKey


class CongestionWatch:
    def __init__(self) -> None:
        self._asked: dict[PoolKey, float] = {}
        """What the pass is for that was asked for last,"""
        self._again = 0.0
        """and when it is asked for again, should it not have been applied (on the clock of ``now``)."""

    def changed(self, settings: Settings, now: float) -> bool:
        """Whether a pass is due. Raises nothing: what cannot be read is a factor of 1."""
        if settings.mode != "enforce":
            return False
        state = state_of(settings)
        before = applied(state)
        if not before and not settings.congestion.files:
            return False
        at = now_of(state)
        factors = congestion_actual(settings.congestion, settings.catalogue.directory, at)
        after = follow(before, factors, at, settings.congestion.enforces)
        targets = {
            pool: each.x for pool, each in after.items() if each.x != (before[pool].x if pool in before else 1.0)
        }
        if not targets or (targets == self._asked and now < self._again) or pause_actual(settings, at) is not None:
            return False
        self._asked, self._again = targets, now + TUNING.period
        return True
