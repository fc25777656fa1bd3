"""What a pass does about congestion and ceilings: the daemon's passes follow the cluster, and what disks need. One of
the timer restores what was reduced under congestion, and splits ceilings equally.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path

from plimsoll_agent.ceilings.buckets import Ceilings, Split
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.congestion.following import Following, Pools, ended, follow
from plimsoll_agent.congestion.published import Factors
from plimsoll_agent.monitor import daemon_status
from plimsoll_agent.store.state import State, StateError

LOG = logging.getLogger(__name__)
_FAULTS: dict[Path, str] = {}
"""The last fault of the factors in a state directory, which was logged; "" for none."""


class Follow(Enum):
    """How a pass takes the factors."""

    MOVE = "move"
    """As they are published now: the daemon's pass over the node."""
    STAY = "stay"
    """As the last one of these applied them: its passes over single guests."""
    KEEP = "keep"
    """The same while the daemon runs; else all are 1."""
    END = "end"
    """All are 1: what is reduced is restored."""


def following(
    settings: Settings, state: State, what: Follow, factors: Callable[[], Factors | None], now: datetime
) -> Following:
    before = applied(state)
    if what is Follow.MOVE:
        return Following(follow(before, factors(), now, settings.congestion.enforces), saves=True)
    if what is Follow.STAY or (what is Follow.KEEP and before and _daemon_follows(state)):
        return Following(before)
    return Following(ended(before, now), saves=True)


def ceilings(state: State, what: Follow) -> Ceilings:
    try:
        splits, looks = state.load_ceilings()
    except StateError as error:
        LOG.warning("%s; how ceilings are split is unknown", error)
        splits, looks = {}, {}
    if what is Follow.END:
        return Ceilings(before=splits, is_split=True)
    how = {Follow.MOVE: Split.BY_NEED, Follow.STAY: Split.STAY}.get(what)
    if how is None:
        how = Split.STAY if splits and _daemon_follows(state) else Split.EQUALLY
    return Ceilings(how=how, shared=splits, looks=looks)


def applied(state: State) -> Pools:
    """The factors that are applied now; where that cannot be read, all are 1. The daemon asks each second."""
    fault = ""
    try:
        return state.load_factors()
    except StateError as error:
        fault = str(error)
        if fault != _FAULTS.get(state.directory):
            LOG.warning("%s; every factor of congestion counts as 1", error)
        return {}
    finally:
        _FAULTS[state.directory] = fault


def _daemon_follows(state: State) -> bool:
    """Whether a daemon runs whose passes over the node succeed; one of another version, too.

    The daemon writes its times by the node's clock, whether or not that is trusted, so they are compared with it.
    """
    daemon = daemon_status.load_or_none(state)
    return daemon is not None and daemon.enforces(daemon.version, "enforce", datetime.now(UTC))
