"""Reads and writes ``Consoles`` as a file in the state directory. Nothing that a guest wrote is in it."""

from __future__ import annotations

from functools import partial
from typing import Any

from plimsoll_agent.consoles.model import Consoles, GuestConsole
from plimsoll_agent.store.state import CONSOLES, CorruptState, State, StateError
from plimsoll_agent.util import decoding, files
from plimsoll_agent.util.decoding import as_json, count, data_of, mapping, value_of

# A guest takes some 600 bytes.
MOST_BYTES = 8 * 2**20


def load(state: State) -> Consoles | None:
    """None before the first reading. Raises ``CorruptState``, ``StateError``."""

    def of(value: Any) -> Consoles:
        if count(value["version"]) != CONSOLES.version:
            raise StateError(f"{state.consoles}: written by another version; the next pass replaces it")
        guests = mapping(partial(value_of, GuestConsole), value["guests"])
        return value_of(Consoles, {**value, "guests": guests})

    return decoding.load(state.consoles, MOST_BYTES, of, StateError, corrupt=CorruptState)


def save(state: State, consoles: Consoles) -> None:
    """Replace the file as a whole. Raises ``StateError``."""
    files.save(state.consoles, as_json({"version": CONSOLES.version} | data_of(consoles)) + "\n", StateError)
