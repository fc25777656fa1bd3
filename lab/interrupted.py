"""Processes that are to be interrupted."""

from __future__ import annotations

import signal


def heeds_ctrl_c() -> None:
    """For a process that is to be interrupted: a shell's background ignores SIGINT, and nohup SIGHUP."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
