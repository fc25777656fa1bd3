"""The lab under a bench: up for it, told line by line, and down after it."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from plimsoll_agent.monitor import daemon_status
from plimsoll_agent.monitor.daemon_status import DaemonStatus
from tests.lab.cloud import Cloud, LabError
from tests.lab.node import Node

PATIENCE = 120.0


def say(line: str = "") -> None:
    print(line, flush=True)


def in_lab(measure: Callable[[Cloud], object], parts: Sequence[str] = ("ceph", "libvirt")) -> int:
    """The exit status of a bench. ``PLIMSOLL_LAB_KEEP=1`` leaves the lab up."""
    cloud = Cloud(say=say)
    try:
        cloud.up(parts)
        measure(cloud)
    except (LabError, RuntimeError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    finally:
        if not os.environ.get("PLIMSOLL_LAB_KEEP"):
            cloud.down()
    return 0


@contextmanager
def daemon_on(node: Node) -> Iterator[Callable[[], DaemonStatus]]:
    """``plimsoll daemon`` after its first pass over the node; gives what it tells of itself."""
    process = node.start("daemon", installed=True)
    for stream in (process.stdout, process.stderr):  # or it waits for us once a pipe is full
        threading.Thread(target=list, args=(stream,), daemon=True).start()

    def known() -> DaemonStatus:
        end = time.monotonic() + PATIENCE
        while (status := daemon_status.load(node.state)) is None or not status.last_full_pass:
            if time.monotonic() > end or process.poll() is not None:
                raise LabError("the daemon does not start")
            time.sleep(0.1)
        return status

    try:
        known()
        yield known
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=PATIENCE)
