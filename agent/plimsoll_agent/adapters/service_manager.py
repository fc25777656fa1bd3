"""Tells systemd how the service is (sd_notify(3)): a datagram to the socket that it names in the environment."""

from __future__ import annotations

import os
import socket
import time


class ServiceManager:
    """Without ``NOTIFY_SOCKET`` nothing is told."""

    def __init__(self) -> None:
        # Taken out: a program that plimsoll starts must not speak for the service.
        self._address = os.environ.pop("NOTIFY_SOCKET", "")
        microseconds = os.environ.pop("WATCHDOG_USEC", "")
        for_us = os.environ.pop("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self.watchdog: float | None = (
            int(microseconds) / 1e6 if for_us and microseconds.isdecimal() and int(microseconds) else None
        )
        """Seconds after which systemd kills the service unless ``alive`` is called; None if it does not."""
        self._status = ""

    def ready(self) -> None:
        self._send("READY=1")

    def reloading(self) -> None:
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def alive(self) -> None:
        if self.watchdog is not None:
            self._send("WATCHDOG=1")

    def status(self, line: str) -> None:
        """The line that ``systemctl status`` shows; the same one is sent once."""
        if line != self._status:
            self._status = line
            self._send(f"STATUS={line}")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as to:
                to.setblocking(False)
                to.sendto(message.encode(), address)
        except OSError:  # full, or gone: the next message tells the same
            return
