"""The ``plimsoll`` command on a terminal, as a person sees it."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import termios
from pathlib import Path

from lab.command import Forked


def on_a_terminal(*words: str | Path, columns: int) -> tuple[int, list[str]]:
    """Its exit status, and the lines of both standard output and standard error."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    with Forked(*words, stdout=slave, stderr=slave, env=environment) as process:
        os.close(slave)
        printed = b""
        while True:
            try:
                read = os.read(master, 65536)
            except OSError:  # Linux's end of a terminal whose other side is closed
                break
            if not read:
                break
            printed += read
        status = process.wait(20)
    os.close(master)
    return status, printed.decode().replace("\r", "").splitlines()
