"""``plimsoll daemon`` on a node of the lab."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

from lab.node import Node
from lab.waiting import PATIENT
from plimsoll_agent.monitor import daemon_status
from plimsoll_agent.monitor.daemon_status import DaemonStatus


class Daemon:
    def __init__(self, node: Node, *words: str, installed: bool = False) -> None:
        self.node = node
        self.process = node.start("daemon", *words, installed=installed)
        self._said: list[str] = []
        self._readers = [
            threading.Thread(target=self._read, args=(stream,), daemon=True)
            for stream in (self.process.stdout, self.process.stderr)
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, stream: IO[str]) -> None:
        """All the time: the daemon would wait for us once a pipe is full."""
        with stream:
            self._said.extend(stream)

    @property
    def said(self) -> str:
        return "".join(self._said)

    @property
    def known(self) -> DaemonStatus | None:
        """What this daemon tells of itself."""
        known = daemon_status.load(self.node.state)
        return known if known is not None and known.pid == self.process.pid else None

    def told(self) -> DaemonStatus:
        return self.until(lambda known: known)

    def until(self, true: Callable[[DaemonStatus], object]) -> DaemonStatus:
        """What it tells when that is true."""
        end = time.monotonic() + PATIENT
        while (known := self.known) is None or not true(known):
            assert time.monotonic() < end, (known.passes, known.events, known) if known else self.said
            assert self.process.poll() is None, self.said
            time.sleep(0.01)
        return known

    def stop(self) -> str:
        """What it said."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENT) == 0, self.said
        for reader in self._readers:
            reader.join(PATIENT)
        return self.said


@contextmanager
def daemon_on(node: Node, *words: str, installed: bool = False) -> Iterator[Daemon]:
    """From its first pass over the node on."""
    daemon = Daemon(node, *words, installed=installed)
    try:
        daemon.until(lambda known: known.connected_since and known.last_full_pass)
        yield daemon
    finally:
        if daemon.process.poll() is None:
            daemon.stop()
