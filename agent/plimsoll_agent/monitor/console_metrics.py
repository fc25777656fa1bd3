"""What the consoles of guests told, as families of series for Prometheus.

Budget: ``PER_NODE`` series of the node, one of each project with a guest that stalled, and with ``disk`` one of each
guest whose console is read and each kind of line. A console that cannot be read has no series, never a zero.
"""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll_agent.consoles.model import Consoles, ConsoleState
from plimsoll_agent.consoles.patterns import StallKind
from plimsoll_agent.monitor.prometheus_text import Family, counter, gauge

PER_NODE = 5


def families(consoles: Consoles, *, detail: str) -> Iterator[Family]:
    """``detail`` is ``disk``, or ``aggregate`` for no series of single guests."""
    yield gauge(
        "plimsoll_console_read_timestamp_seconds",
        "When the consoles of guests were last read",
        (),
        [((), consoles.read.timestamp())],
    )
    yield gauge(
        "plimsoll_consoles",
        "Guests by whether their console is read",
        ("state",),
        [((state.value,), len(consoles.in_state(state))) for state in ConsoleState],
    )
    yield counter(
        "plimsoll_console_skipped_bytes_total",
        "Bytes of consoles that were more than a pass reads",
        (),
        [((), consoles.skipped)],
    )
    yield from (family for family in _of_stalls(consoles, detail) if family.samples)


def _of_stalls(consoles: Consoles, detail: str) -> Iterator[Family]:
    yield gauge(
        "plimsoll_project_stalled_timestamp_seconds",
        "When a guest of the project was last found to have stalled, by its console",
        ("project",),
        [((project,), last.timestamp()) for project, last in consoles.projects.items()],
    )
    if detail == "disk":
        read = [(uuid, guest) for uuid, guest in consoles.guests.items() if guest.state is ConsoleState.READ]
        yield counter(
            "plimsoll_guest_stall_lines_total",
            "Lines of the guest's kernel about disks that do not answer",
            ("domain", "uuid", "kind"),
            [
                ((guest.name, uuid, kind.value), stalls.lines if (stalls := guest.stalls.get(kind)) else 0)
                for uuid, guest in read
                for kind in StallKind
            ],
        )
