"""The node's history of probes, for commands that only read it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from plimsoll_agent.app.node import state_of
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.store.state import CorruptState, StateError
from plimsoll_probes.store.history import History, readable


@contextmanager
def history_of(settings: Settings, *, shown: bool = False) -> Iterator[History]:
    """The node's history of probes; ``shown`` reads only what checks need.

    Raises ``StateError``, with what to do where the file is damaged.
    """
    state = state_of(settings)
    try:
        yield readable(state) if shown else History(state.probes)
    except CorruptState as error:
        raise StateError(f"{error}; the next plimsoll probe run sets it aside and begins a new one") from error
