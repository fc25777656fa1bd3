"""A line of Ceph's logs, and what is around it, for ``plimsoll slow``: names of images in it are a tenant's."""

from __future__ import annotations

from plimsoll_insight.slow.events import UNKNOWN_OSD, LogClock, event, lines
from plimsoll_insight.slow.wrapped import form_of, plain

_UNTIL = 1_700_000_000.0


def target(data: bytes) -> None:
    clock = LogClock()
    clock.until = _UNTIL
    form = form_of(data)
    whole = data if form == "lines" else b"\n".join(plain(data.splitlines(keepends=True), form)) + b"\n"
    for line in lines(whole):
        event(line, None, clock)
        event(line, UNKNOWN_OSD, clock)
