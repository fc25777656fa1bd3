"""Reads what is new in a console log of a guest. Only regular files are opened, and no link is followed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from plimsoll_agent.consoles import position
from plimsoll_agent.consoles.position import TAIL, ConsolePosition
from plimsoll_agent.util import files
from plimsoll_agent.util.frozen import frozen

_ROTATED = ".0"
"""What virtlogd calls the log before this one."""


@frozen(kw_only=True)
class NewText:
    """What was added, hostile; ``position`` is where the next pass reads on."""

    text: bytes
    position: ConsolePosition
    skipped: int
    written: datetime
    """The file's mtime."""


def read(path: str, last: ConsolePosition | None, most: int) -> NewText:
    """At most ``most`` bytes. A log that was never read before is only remembered: how old it is, is unknown.

    Raises ``OSError``.
    """
    before, skipped_bytes, text = b"", 0, b""
    with _opened(path) as log:
        status = os.fstat(log)
        begin = status.st_size if last is None else 0
        if last is not None:
            if _continues(log, last):
                begin = last.offset
            elif (last.device, last.inode) != (status.st_dev, status.st_ino):
                before, skipped_bytes = _rest_of_rotated(path, last, most)
        span = position.span(begin, status.st_size, most - len(before))
        text = _read(log, span.start, span.length)
        length = position.whole_lines(text)
        offset = span.start + length
        tail = _read(log, max(0, offset - TAIL), min(TAIL, offset))
    return NewText(
        text=before + text[:length],
        position=ConsolePosition(
            device=status.st_dev, inode=status.st_ino, offset=offset, tail=position.digest(tail)
        ),
        skipped=skipped_bytes + span.skipped,
        written=datetime.fromtimestamp(status.st_mtime, UTC),
    )


@contextmanager
def _opened(path: str) -> Iterator[int]:
    log = files.open_regular(Path(path), os.O_RDONLY)
    try:
        yield log
    finally:
        os.close(log)


def _continues(log: int, last: ConsolePosition) -> bool:
    """Whether the file is the known one, and has only grown."""
    status = os.fstat(log)
    if not position.same_file(last, status.st_dev, status.st_ino, status.st_size):
        return False
    return position.digest(_read(log, max(0, last.offset - TAIL), min(TAIL, last.offset))) == last.tail


def _rest_of_rotated(path: str, last: ConsolePosition, most: int) -> tuple[bytes, int]:
    """What the log before this one got after it was last read, and how many bytes of it were skipped."""
    with suppress(OSError), _opened(path + _ROTATED) as log:
        if _continues(log, last):
            span = position.span(last.offset, os.fstat(log).st_size, most)
            return _read(log, span.start, span.length) + b"\n", span.skipped
    return b"", 0


def _read(log: int, start: int, length: int) -> bytes:
    """Less if the file has become shorter."""
    parts = []
    while length > 0 and (part := os.pread(log, length, start)):
        parts.append(part)
        start, length = start + len(part), length - len(part)
    return b"".join(parts)
