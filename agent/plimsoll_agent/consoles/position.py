"""How far a console log was read, and where to read on when it was rotated, truncated or replaced. Pure."""

from __future__ import annotations

import hashlib
from typing import Annotated

from msgspec import Meta

from plimsoll_agent.consoles.patterns import MOST_LINE
from plimsoll_agent.util.decoding import Count
from plimsoll_agent.util.frozen import frozen

MOST_BYTES = 2**20
"""Of a guest in a pass: of more, the newest."""
TAIL = 64
"""Bytes before the offset by which a log is recognised that was truncated and has grown again."""


@frozen(kw_only=True)
class ConsolePosition:
    """Where the next pass reads on; ``tail`` is ``digest`` of the bytes before."""

    device: Count
    inode: Count
    offset: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    """As pread takes it."""
    tail: str


@frozen
class ByteRange:
    """What to read; ``skipped`` bytes before it are more than a pass reads."""

    start: int
    length: int
    skipped: int


def digest(tail: bytes) -> str:
    """Not the bytes themselves: a guest wrote them."""
    return hashlib.sha256(tail).hexdigest()[:16]


def same_file(before: ConsolePosition, device: int, inode: int, size: int) -> bool:
    """Whether it may be the file that was read; then its tail decides."""
    return (before.device, before.inode) == (device, inode) and size >= before.offset


def span(begin: int, size: int, most: int) -> ByteRange:
    """From ``begin`` to the end, but at most so many bytes."""
    start = max(begin, size - most)
    return ByteRange(start, max(0, size - start), start - begin)


def whole_lines(data: bytes) -> int:
    """How many bytes are done with: an incomplete last line is read again, unless it is longer than any of Linux'."""
    end = data.rfind(b"\n") + 1
    return len(data) if len(data) - end > MOST_LINE else end
