"""This node, for all that needs no pass: its state, its trusted time, and whether it is paused."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path

from plimsoll_agent.app.fetched import region_orders
from plimsoll_agent.catalogue.orders import Orders
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.model.reason import Reason
from plimsoll_agent.reconcile.pause import Pause
from plimsoll_agent.store import clock
from plimsoll_agent.store.clock import Now
from plimsoll_agent.store.state import State

LOG = logging.getLogger(__name__)


def state_of(settings: Settings) -> State:
    """The node's state, with the kernel's boot id; without one, each call counts as a reboot."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        boot = os.urandom(16).hex()
    return State(settings.state_dir, boot)


def paused(settings: Settings, orders: Orders, now: datetime) -> Callable[[], Reason | None]:
    """Returns a function: why nothing may be written now, by the pause file or the region."""
    here, of_region = partial(Pause(settings.pause_file).reason, now), orders.paused(now)
    return lambda: here() or of_region


def pause_actual(settings: Settings, now: datetime) -> Reason | None:
    """Why this node is paused now; None if it is not."""
    return paused(settings, region_orders(settings.catalogue, state_of(settings), keep=False).orders, now)()


def now_of(state: State) -> datetime:
    """The trusted time of this node."""
    return reckoned(state, keep=False).at


def reckoned(state: State, *, keep: bool) -> Now:
    """Time by the clock that is trusted, which ``keep`` stores."""
    try:
        last = clock.load(state.clock)
    except clock.UnreadableClock as error:
        LOG.warning("%s; using the system clock", error)
        last = None
    now = clock.reckon(last, clock.read(state.boot))
    if keep:
        try:
            clock.save(state.clock, now.trusted)
        except OSError as error:
            LOG.warning("%s: cannot be written: %s", state.clock, error.strerror)
    return now
