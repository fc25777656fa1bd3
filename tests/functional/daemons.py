"""``plimsoll daemon`` as a process, with a socket on which it speaks to what stands for systemd."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.command import Installed

PATIENT = 30.0


class Daemon:
    def __init__(self, directory: Path, uri: str, *, abstract: bool = False, watchdog: float | None = None) -> None:
        self.directory = directory
        self.config = directory / "daemon.conf"
        self.rules = directory / "rules-of-the-daemon.yaml"
        self.rules.write_text("default: {limits: {total_iops_sec: 250}}\n")
        self.write()
        address = f"@plimsoll-test-{os.getpid()}" if abstract else str(directory / "notify")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(f"\0{address[1:]}" if abstract else address)
        self._socket.settimeout(PATIENT)
        environment = os.environ | {"NOTIFY_SOCKET": address, "OS_LIBVIRT__URI": uri}
        if watchdog is not None:
            environment["WATCHDOG_USEC"] = str(int(watchdog * 1e6))
        self.heard: list[str] = []
        self.process = Installed(
            *("--config-file", self.config, "daemon"), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def write(self, more: str = "") -> None:
        """Its settings."""
        self.config.write_text(
            f"[DEFAULT]\nrules_file = {self.rules}\nstate_dir = {self.directory / 'state'}\n"
            f"pause_file = {self.directory / 'paused'}\n[ceph]\nconf_files =\nblocking_checks =\n"
            f"[metrics]\ntextfile_dir = {self.directory}\n{more}"
        )

    def until(self, beginning: str) -> str:
        """The next message with a line that begins so."""
        while True:
            message = self._socket.recv(4096).decode()
            self.heard.append(message)
            for line in message.splitlines():
                if line.startswith(beginning):
                    return message

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        """Its exit status after SIGTERM."""
        self.signal(signal.SIGTERM)
        self.out, self.err = self.process.communicate(timeout=PATIENT)
        return self.process.returncode

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate(timeout=PATIENT)
        self._socket.close()


@contextmanager
def a_daemon(directory: Path, uri: str, *, abstract: bool = False, watchdog: float | None = None) -> Iterator[Daemon]:
    daemon = Daemon(directory, uri, abstract=abstract, watchdog=watchdog)
    try:
        yield daemon
    finally:
        daemon.close()
