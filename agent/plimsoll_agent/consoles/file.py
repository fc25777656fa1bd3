"""Reads and writes ``Consoles`` as a file in the state directory. Nothing that a guest wrote is in it."""

from __future__ import annotations

import json
from typing import Any

from plimsoll_agent.consoles.model import Consoles, GuestConsole, Stalls
from plimsoll_agent.consoles.patterns import StallKind
from plimsoll_agent.consoles.position import Position
from plimsoll_agent.store.state import CONSOLES, CorruptState, State, StateError
from plimsoll_agent.util import decoding, files
from plimsoll_agent.util.decoding import count, mapping, maybe, text, time
from plimsoll_agent.util.frozen import asdict

# A guest takes some 600 bytes.
MOST_BYTES = 8 * 2**20


def load(state: State) -> Consoles | None:
    """None before the first reading. Raises ``CorruptState``, ``StateError``."""

    def of(value: Any) -> Consoles:
        if count(value["version"]) != CONSOLES.version:
            raise StateError(f"{state.consoles}: written by another version; the next pass replaces it")
        return Consoles(time(value["read"]), mapping(_guest, value["guests"]), count(value["skipped"]))

    return decoding.load(state.consoles, MOST_BYTES, of, StateError, corrupt=CorruptState)


def save(state: State, consoles: Consoles) -> None:
    """Replace the file as a whole. Raises ``StateError``."""
    data = {
        "version": CONSOLES.version,
        "read": consoles.read.isoformat(),
        "skipped": consoles.skipped,
        "guests": {uuid: _guest_data(guest) for uuid, guest in consoles.guests.items()},
    }
    files.save(state.consoles, json.dumps(data) + "\n", StateError)


def _guest_data(guest: GuestConsole) -> dict[str, object]:
    return {
        "name": guest.name,
        "server": guest.server,
        "project": guest.project,
        "tried": guest.tried.isoformat(),
        "stalls": {
            kind.value: {"lines": each.lines, "last": each.last.isoformat()} for kind, each in guest.stalls.items()
        },
        "files": {path: asdict(position) for path, position in guest.files.items()},
        "trouble": guest.trouble,
    }


def _guest(value: Any) -> GuestConsole:
    return GuestConsole(
        name=text(value["name"]),
        server=maybe(text, value["server"]),
        project=maybe(text, value["project"]),
        tried=time(value["tried"]),
        stalls={StallKind(kind): each for kind, each in mapping(_stalls, value["stalls"]).items()},
        files=mapping(_position, value["files"]),
        trouble=maybe(text, value["trouble"]),
    )


def _stalls(value: Any) -> Stalls:
    return Stalls(count(value["lines"]), time(value["last"]))


def _position(value: Any) -> Position:
    most = 2**63  # what pread takes
    return Position(
        device=count(value["device"]),
        inode=count(value["inode"]),
        offset=count(value["offset"], most),
        tail=text(value["tail"]),
    )
