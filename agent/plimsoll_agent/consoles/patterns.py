"""Counts the lines by which Linux in a guest says that its disks do not answer. Pure.

Each pattern has a literal, which is searched for in C, and bounded expressions for what must stand just before and
after it: so a hostile line costs no more than a few microseconds, however long it is and however many of them match.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum

from plimsoll_agent.util.frozen import frozen


class StallKind(StrEnum):
    """What a line tells."""

    HUNG_TASK = "hung-task"
    IO_ERROR = "io-error"
    DISK_TIMEOUT = "disk-timeout"


MOST_LINE = 1024
"""The kernel's longest line (LOG_LINE_MAX); of a longer one only what is near a literal is looked at."""
_BEFORE, _AFTER = 192, 64

# Not fd0, sr0 or loop0: guests without a floppy report I/O errors of it at every boot.
_DISK = (
    rb"(?:(?:[hsv]d|xvd)[a-z]{1,3}[0-9]{0,3}|nvme[0-9]{1,3}n[0-9]{1,3}(?:p[0-9]{1,3})?|dm-[0-9]{1,4}|md[0-9]{1,4})\b"
)


@frozen(kw_only=True)
class _Pattern:
    kind: StallKind
    literal: bytes
    before: re.Pattern[bytes] | None = None
    """Searched for in the line before the literal; ends at it if it ends by ``\\Z``."""
    after: re.Pattern[bytes] | None = None
    """Matched just after it."""


# libata-eh.c, drivers/nvme/host/pci.c, virtio_blk.c, scsi_error.c, sd.c
_DRIVER = re.compile(
    rb"(?:ata[0-9]{1,3}(?:\.[0-9]{2})?|nvme nvme[0-9]{1,3}|nvme[0-9]{1,3}|virtio_(?:blk|scsi) virtio[0-9]{1,3}"
    rb"|sd [0-9]{1,3}:[0-9]{1,3}:[0-9]{1,3}:[0-9]{1,6}): "
)
_PATTERNS = (
    _Pattern(  # kernel/hung_task.c
        kind=StallKind.HUNG_TASK,
        literal=b" for more than ",
        before=re.compile(rb"INFO: task .{1,64}:[0-9]{1,10} blocked(?: in I/O wait)?\Z"),
        after=re.compile(rb"[0-9]{1,10} seconds"),
    ),
    # blk-core.c: end_request, blk_update_request or print_req_error before it, or nothing
    _Pattern(kind=StallKind.IO_ERROR, literal=b"I/O error, dev ", after=re.compile(_DISK)),
    _Pattern(
        kind=StallKind.IO_ERROR, literal=b"Buffer I/O error on dev", after=re.compile(rb"(?:ice)? " + _DISK)
    ),  # fs/buffer.c
    _Pattern(kind=StallKind.IO_ERROR, literal=b"EXT4-fs error (device ", after=re.compile(_DISK)),
    _Pattern(  # fs/ext4/page-io.c, super.c
        kind=StallKind.IO_ERROR,
        literal=b"I/O error",
        before=re.compile(rb"EXT4-fs (?:warning |error )?\((?:device )?" + _DISK + rb"\): .{0,64}\Z"),
    ),
    _Pattern(  # fs/jbd2/journal.c
        kind=StallKind.IO_ERROR,
        literal=b"JBD2: I/O error when updating journal superblock for ",
        after=re.compile(_DISK),
    ),
    _Pattern(kind=StallKind.IO_ERROR, literal=b"I/O error", before=re.compile(rb"XFS \([^()]{1,32}\): .{0,64}\Z")),
    _Pattern(kind=StallKind.DISK_TIMEOUT, literal=b"timeout error, dev ", after=re.compile(_DISK)),  # blk-core.c
    _Pattern(kind=StallKind.DISK_TIMEOUT, literal=b"Emask 0x4 (timeout)"),
    *(
        _Pattern(kind=StallKind.DISK_TIMEOUT, literal=literal, before=_DRIVER)
        for literal in (b"timeout", b"timed out", b"timed-out", b"timing out", b"DID_TIME_OUT")
    ),
)


def count(data: bytes) -> Mapping[StallKind, int]:
    """How many lines tell of each kind; only kinds that are there."""
    # After a truncation a log may begin with a hole of NUL bytes, and a guest may write them.
    text = data.translate(None, b"\0")
    lines: dict[StallKind, set[int]] = {}
    for pattern in _PATTERNS:
        for end, before, after in _lines(text, pattern.literal):
            if (pattern.before is None or pattern.before.search(before)) and (
                pattern.after is None or pattern.after.match(after)
            ):
                lines.setdefault(pattern.kind, set()).add(end)
    return {kind: len(ends) for kind, ends in lines.items()}


def _lines(text: bytes, literal: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """For each line with the literal: where it ends, and what is before and after the first one in it."""
    at = text.find(literal)
    while at >= 0:
        end = text.find(b"\n", at)
        end = len(text) if end < 0 else end
        least = max(0, at - _BEFORE)
        start = text.rfind(b"\n", least, at) + 1 or least
        past = at + len(literal)
        yield end, text[start:at], text[past : min(end, past + _AFTER)]
        at = text.find(literal, end)
