"""Which lines of a console count, and what hostile ones cost."""

from __future__ import annotations

import re
from unittest.mock import patch

import pytest

from plimsoll_agent.consoles import patterns
from plimsoll_agent.consoles.patterns import StallKind, count

# As kernels from 3.10 to 6.12 print them.
LINES = {
    StallKind.HUNG_TASK: [
        "[  242.654321] INFO: task jbd2/vda1-8:231 blocked for more than 120 seconds.",
        "<3>[  242.654321] INFO: task kworker/u8:1:12 blocked for more than 245 seconds.\r",
        "[  242.654321][   T35] INFO: task systemd:1 blocked for more than 5 seconds.",
        "debian login: [  242.6] INFO: task (sd-pam):999 blocked for more than 120 seconds.",
        "[  242.6] INFO: task dd:456 blocked in I/O wait for more than 122 seconds.",
    ],
    StallKind.IO_ERROR: [
        "[   99.1] end_request: I/O error, dev vda, sector 2048",
        "[   99.1] blk_update_request: I/O error, dev vdb, sector 0 op 0x1:(WRITE) flags 0x800 phys_seg 1",
        "[   99.1] print_req_error: I/O error, dev sda, sector 4096",
        "[   99.1] I/O error, dev nvme0n1, sector 40 op 0x0:(READ) flags 0x80700 phys_seg 1 prio class 2",
        "[   99.1] Buffer I/O error on dev vda1, logical block 131072, lost async page write",
        "[   99.1] Buffer I/O error on device dm-0, logical block 7",
        "[   99.1] EXT4-fs error (device vda1): ext4_find_entry:1455: inode #2: comm ls: reading directory lblock 0",
        '[   99.1] XFS (vda1): metadata I/O error in "xfs_trans_read_buf_map+0x1a" at daddr 0x1 len 8 error 5',
        "[   99.1] XFS (dm-0): log I/O error -5",
        "[   99.1] EXT4-fs warning (device dm-1): ext4_end_bio:316: I/O error -19 writing to inode 7",
        "[   99.1] EXT4-fs (vdc): I/O error while writing superblock",
        "[   99.1] JBD2: I/O error when updating journal superblock for vdc-8.",
    ],
    StallKind.DISK_TIMEOUT: [
        "[  181.2] ata1.00: qc timeout (cmd 0xec)",
        "[  181.2]          res 40/00:00:00:4f:c2/00:00:00:00:00/00 Emask 0x4 (timeout)",
        "[  181.2] nvme nvme0: I/O 12 QID 3 timeout, aborting",
        "[  181.2] nvme nvme0: I/O tag 12 (100c) opcode 0x2 (I/O Cmd) QID 3 timeout, aborting req_op:READ(0)",
        "[  181.2] sd 0:0:0:1: [sdb] tag#3 timing out command, waited 180s",
        "[  181.2] sd 2:0:0:0: [sda] tag#12 ABORT operation timed-out.",
        "[  181.2] sd 2:0:0:0: [sda] tag#0 FAILED Result: hostbyte=DID_TIME_OUT driverbyte=DRIVER_OK cmd_age=180s",
        "[  181.2] virtio_blk virtio1: [vda] request timed out",
        "[  181.2] blk_update_request: timeout error, dev sda, sector 8",
    ],
}
EVERY = [(kind, line) for kind, lines in LINES.items() for line in lines]
NONE = [
    "[    1.0] blk_update_request: I/O error, dev fd0, sector 0",
    "[    1.0] Buffer I/O error on dev sr0, logical block 0",
    "task jbd2/vda1-8:231 blocked for more than 120 seconds",
    "INFO: task blocked for more than 120 seconds",
    "INFO: task a:1 blocked for more than long",
    "systemd[1]: dev-vda1.device: Job timed out.",
    "curl: (28) Connection timed out",
    "EXT4-fs (vda1): mounted filesystem with ordered data mode",
    "NFS: server timeout, I/O error",
    "INFO: task a:1\n blocked for more than 120 seconds",
]


@pytest.mark.parametrize(("kind", "line"), EVERY)
def test_a_line_of_the_kernel_counts_once_as_its_kind(kind: StallKind, line: str) -> None:
    assert count(f"before\n{line}\nafter\n".encode()) == {kind: 1}


@pytest.mark.parametrize("line", NONE)
def test_other_lines_do_not_count(line: str) -> None:
    assert count(line.encode()) == {}


def test_lines_are_counted_each() -> None:
    text = "\n".join(line for _, line in EVERY * 3)
    assert count(text.encode()) == {kind: 3 * len(lines) for kind, lines in LINES.items()}


@pytest.mark.parametrize("hole", [b"\0" * 5000, b"INFO: \0task a\0:1 ", b"x" * 5000])
def test_nul_bytes_and_long_lines_hide_no_line(hole: bytes) -> None:
    line = LINES[StallKind.HUNG_TASK][0].encode()
    assert count(hole + line.replace(b" ", b"\0 \0") + b"y" * 5000) == {StallKind.HUNG_TASK: 1}


HOSTILE = {
    "the literal again and again in one line": b" blocked for more than " * 40_000,
    "beginnings": b"INFO: task " * 90_000,
    "numbers": b"INFO: task " + b":1" * 500_000 + b" blocked for more than ",
    "lines that almost match": b"INFO: task a:1 blocked for more than x seconds timeout I/O error\n" * 15_000,
    "lines that match": b"INFO: task a:1 blocked for more than 1 seconds\n" * 20_000,
    "XFS": (b"XFS (" * 30 + b"): I/O error\n") * 6000,
    "drivers": (b"sd 0:0:0:0 " * 20 + b"timeout\n") * 4500,
}


class Counting:
    """An expression that counts how often it is used, and on how many bytes."""

    def __init__(self, expression: re.Pattern[bytes] | None, used: list[int]) -> None:
        self._expression, self._used = expression, used

    def _seen(self, text: bytes) -> bytes:
        self._used.append(len(text))
        return text

    def search(self, text: bytes) -> object:
        return self._expression is None or self._expression.search(self._seen(text))

    match = search


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_line_is_looked_at_once_for_each_literal_and_only_near_it(name: str) -> None:
    """A count, not a time: bench/consoles.py measures."""
    text, used = HOSTILE[name], list[int]()
    counting = tuple(
        patterns._Pattern(
            kind=each.kind,
            literal=each.literal,
            before=Counting(each.before, used),  # type: ignore[arg-type]
            after=Counting(each.after, used),  # type: ignore[arg-type]
        )
        for each in patterns._PATTERNS
    )
    with patch.object(patterns, "_PATTERNS", counting):
        count(text)
    lines = text.count(b"\n") + 1
    assert len(used) <= 2 * len(patterns._PATTERNS) * lines
    assert max(used, default=0) <= 192
