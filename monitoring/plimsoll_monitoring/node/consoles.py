"""What ``plimsoll status`` says of the consoles of guests: which stalled, and which cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from plimsoll_agent.consoles.model import Consoles, ConsoleState, GuestConsole
from plimsoll_agent.util.text import ago, plural, printable
from plimsoll_probes.output.serialize import time_data

_RECENT = timedelta(days=1)
_MOST_NAMED = 3


def fact(consoles: Consoles, now: datetime) -> str:
    """``12 read, 1 unreadable; stalled within a day: instance-0000041b (web-1) 5 min ago (3 hung-task)``."""
    counts = {state: len(consoles.in_state(state)) for state in ConsoleState}
    totals = ", ".join(f"{number} {state.value}" for state, number in counts.items() if number) or "no guests"
    recent = [guest for _, guest in consoles.stalled if guest.last is not None and now - guest.last <= _RECENT]
    if not recent:
        return f"{totals}; no stall within a day" if counts[ConsoleState.READ] else totals
    guests = ", ".join(_stall_words(guest, now) for guest in recent[:_MOST_NAMED])
    more = f" and {len(recent) - _MOST_NAMED} more" if len(recent) > _MOST_NAMED else ""
    return f"{totals}; stalled within a day: {guests}{more}"


def _stall_words(guest: GuestConsole, now: datetime) -> str:
    lines = ", ".join(f"{stalls.lines} {kind.value}" for kind, stalls in guest.stalls.items())
    return f"{_name(guest)} {ago(guest.last or now, now)} ({lines})"


def _name(guest: GuestConsole) -> str:
    return printable(guest.name) + (f" ({printable(guest.server)})" if guest.server else "")


def remarks(consoles: Consoles) -> Iterator[str]:
    """What an operator has to do so that they can be read."""
    unreadable = consoles.in_state(ConsoleState.UNREADABLE)
    if unreadable:
        first = unreadable[0]
        yield (
            f"the consoles of {plural(len(unreadable), 'guest')} cannot be read, so it is unknown whether they"
            f" stalled: {_name(first)}: {printable(first.trouble or '')}; let plimsoll's user read the logs (Guests"
            " that stalled, in guide/monitoring)"
        )


def data(consoles: Consoles) -> dict[str, object]:
    """Keys are stable; times are in UTC."""
    return {
        "read": time_data(consoles.read),
        "states": {state.value: len(consoles.in_state(state)) for state in ConsoleState},
        "unreadable": [
            _guest(uuid, guest) | {"detail": guest.trouble}
            for uuid, guest in consoles.guests.items()
            if guest.state is ConsoleState.UNREADABLE
        ],
        "stalled": [
            _guest(uuid, guest)
            | {
                "project": guest.project,
                "lines": {
                    kind.value: {"lines": stalls.lines, "last": time_data(stalls.last)}
                    for kind, stalls in guest.stalls.items()
                },
            }
            for uuid, guest in consoles.stalled
        ],
    }


def _guest(uuid: str, guest: GuestConsole) -> dict[str, object]:
    return {"guest": guest.name, "guest_uuid": uuid, "server": guest.server}
