"""Reads what is new in a console log of a guest. Only regular files are opened, and no link is followed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from plimsoll_agent.consoles import position
from plimsoll_agent.consoles.position import TAIL, Position
from plimsoll_agent.util import files
from plimsoll_agent.util.frozen import frozen

_ROTATED = ".0"
"""What virtlogd calls the log before this one."""


@frozen(kw_only=True)
class NewText:
    """What was added, hostile; ``position`` is where the next pass reads on."""

    text: bytes
    position: Position
    skipped: int
    written: datetime
    """The file's mtime."""


def read(path: str, known: Position | None, most: int) -> NewText:
    """At most ``most`` bytes. A log that was never read before is only remembered: how old it is, is unknown.

    Raises ``OSError``.
    """
    before, skipped, text = b"", 0, b""
    with _opened(path) as log:
        status = os.fstat(log)
        begin = status.st_size if known is None else 0
        if known is not None:
            if _continues(log, known):
                begin = known.offset
            elif (known.device, known.inode) != (status.st_dev, status.st_ino):
                before, skipped = _rest_of_rotated(path, known, most)
        span = position.span(begin, status.st_size, most - len(before))
        text = _read(log, span.start, span.length)
        done = position.whole_lines(text)
        offset = span.start + done
        tail = _read(log, max(0, offset - TAIL), min(TAIL, offset))
    return NewText(
        text=before + text[:done],
        position=Position(device=status.st_dev, inode=status.st_ino, offset=offset, tail=position.digest(tail)),
        skipped=skipped + span.skipped,
        written=datetime.fromtimestamp(status.st_mtime, UTC),
    )


@contextmanager
def _opened(path: str) -> Iterator[int]:
    # O_NONBLOCK: the holder of a lease on the file would delay this.
    log = files.open_regular(Path(path), os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield log
    finally:
        os.close(log)


def _continues(log: int, known: Position) -> bool:
    """Whether the file is the known one, and has only grown."""
    status = os.fstat(log)
    if not position.same_file(known, status.st_dev, status.st_ino, status.st_size):
        return False
    return position.digest(_read(log, max(0, known.offset - TAIL), min(TAIL, known.offset))) == known.tail


def _rest_of_rotated(path: str, known: Position, most: int) -> tuple[bytes, int]:
    """What the log before this one got after it was last read, and how many bytes of it were skipped."""
    with suppress(OSError), _opened(path + _ROTATED) as log:
        if _continues(log, known):
            span = position.span(known.offset, os.fstat(log).st_size, most)
            return _read(log, span.start, span.length) + b"\n", span.skipped
    return b"", 0


def _read(log: int, start: int, length: int) -> bytes:
    """Less if the file has become shorter."""
    parts = []
    while length > 0 and (part := os.pread(log, length, start)):
        parts.append(part)
        start, length = start + len(part), length - len(part)
    return b"".join(parts)
