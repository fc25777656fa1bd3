"""What the consoles of a node's guests told, as several unit tests start from it."""

from __future__ import annotations

from datetime import timedelta

from plimsoll_agent.consoles.model import Consoles, GuestConsole, Stalls
from plimsoll_agent.consoles.patterns import StallKind
from plimsoll_agent.consoles.position import ConsolePosition
from tests.unit.node import uuid_of
from tests.unit.values import NOON, PROJECT

OTHER_PROJECT = "0dd0a1b2c3d4e5f60718293a4b5c6d7e"


def some_consoles() -> Consoles:
    """Of five guests: two that stalled, one that did not, one that cannot be read, and one without a log."""

    def guest(number: int, **other: object) -> GuestConsole:
        values = {"name": f"instance-{number:08}", "server": f"web{number}", "project": PROJECT, "tried": NOON}
        position = ConsolePosition(device=64768, inode=1000 + number, offset=4096, tail="0123456789abcdef")
        files = {"files": {f"/var/lib/nova/instances/{uuid_of(number)}/console.log": position}}
        return GuestConsole(**values | files | other)  # type: ignore[arg-type]

    earlier = NOON - timedelta(hours=2)
    hung = {StallKind.HUNG_TASK: Stalls(3, NOON), StallKind.IO_ERROR: Stalls(1, earlier)}
    return Consoles(
        NOON,
        {
            uuid_of(1): guest(1, stalls=hung),
            uuid_of(2): guest(2, project=OTHER_PROJECT, stalls={StallKind.DISK_TIMEOUT: Stalls(7, earlier)}),
            uuid_of(3): guest(3),
            uuid_of(4): guest(4, files={}, trouble="Permission denied"),
            uuid_of(5): guest(5, server=None, project=None, files={}),
        },
        skipped=5000,
    )
