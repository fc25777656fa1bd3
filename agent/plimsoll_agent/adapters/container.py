"""Has the daemon make a pass in a container, where it is process 1 and no systemd is."""

from __future__ import annotations

import os
import signal
from pathlib import Path

DAEMON = "plimsoll daemon"
_FIRST = Path("/proc/1/cmdline")


def is_here(first: Path = _FIRST) -> bool:
    """Whether process 1, with this command line, is the daemon."""
    try:
        words = [os.fsdecode(word) for word in first.read_bytes().split(b"\0")]
    except OSError:
        return False
    names = [Path(word).name for word in words]
    return "plimsoll" in names and "daemon" in words[names.index("plimsoll") :]  # options may stand between them


def reload_daemon() -> str:
    """Let the daemon make a pass, which begins after this; why not, or ""."""
    try:
        os.kill(1, signal.SIGHUP)
    except OSError as error:
        return f"{DAEMON} (process 1) cannot be signalled: {error.strerror}"
    return ""
