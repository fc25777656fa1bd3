"""What the consoles of guests told, as families of series for Prometheus.

Budget: ``PER_NODE`` series of the node, one of each project with a guest that stalled, and with ``disk`` one of each
guest whose console is read and each kind of line. A console that cannot be read has no series, never a zero.
"""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll_agent.consoles.model import Consoles, ConsoleState
from plimsoll_agent.consoles.patterns import StallKind
from plimsoll_agent.monitor import metrics
from plimsoll_agent.monitor.prometheus_text import Family, counter, gauge, single

PER_NODE = 5


def families(consoles: Consoles, *, detail: str) -> Iterator[Family]:
    """``detail`` is ``disk``, or ``aggregate`` for no series of single guests."""
    yield single(metrics.CONSOLE_READ_TIMESTAMP_SECONDS, consoles.read)
    yield gauge(metrics.CONSOLES, [((state.value,), len(consoles.in_state(state))) for state in ConsoleState])
    yield counter(metrics.CONSOLE_SKIPPED_BYTES_TOTAL, [((), consoles.skipped)])
    yield from (family for family in _of_stalls(consoles, detail) if family.samples)


def _of_stalls(consoles: Consoles, detail: str) -> Iterator[Family]:
    yield gauge(
        metrics.PROJECT_STALLED_TIMESTAMP_SECONDS,
        [((project,), last.timestamp()) for project, last in consoles.projects.items()],
    )
    if detail == "disk":
        read = [(uuid, guest) for uuid, guest in consoles.guests.items() if guest.state is ConsoleState.READ]
        yield counter(
            metrics.GUEST_STALL_LINES_TOTAL,
            [
                ((guest.name, uuid, kind.value), stalls.lines if (stalls := guest.stalls.get(kind)) else 0)
                for uuid, guest in read
                for kind in StallKind
            ],
        )
