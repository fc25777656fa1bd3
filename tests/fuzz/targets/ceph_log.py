"""A line of Ceph's logs, for ``plimsoll slow``: names of images in it are a tenant's."""

from __future__ import annotations

from plimsoll_insight.slow.events import Clock, event, lines


def target(data: bytes) -> None:
    for line in lines(data):
        event(line, None, Clock())
