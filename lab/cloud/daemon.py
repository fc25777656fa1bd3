"""One daemon of the cloud, to be stopped, killed and started again."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from .command import LabError
from .namespace import Namespace, kill_and_wait

State = Literal["running", "stopped", "gone"]


class Daemon:
    def __init__(
        self,
        namespace: Namespace,
        name: str,
        argv: list[str],
        log: Path,
        serves: Callable[[], bool],
    ) -> None:
        self.name = name
        self._namespace = namespace
        self._argv = argv
        self._log = log
        self.serves = serves

    def __repr__(self) -> str:
        return f"Daemon({self.name!r})"

    @property
    def running(self) -> bool:
        return self.name in self._namespace.daemons()

    @property
    def state(self) -> State:
        pid = self._namespace.daemons().get(self.name)
        return process_state(pid) if pid else "gone"

    @property
    def pid(self) -> int:
        """Pid on this host. Raises LabError when it does not run."""
        pid = self._namespace.daemons().get(self.name)
        if pid is None:
            raise LabError(f"{self.name} does not run")
        return pid

    def stop(self) -> None:
        """Freeze it: connections stay open, nothing is answered."""
        os.kill(self.pid, signal.SIGSTOP)

    def cont(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """As if it had crashed; returns when it is gone."""
        kill_and_wait(self.pid)

    def start(self, wait: bool = True) -> None:
        """Start it and, with `wait`, return when it serves."""
        self._namespace.spawn(self.name, self._argv, self._log)
        if wait:
            self.wait_ready()

    def wait_ready(self, timeout: float = 60) -> None:
        deadline = time.monotonic() + timeout
        while not self.serves():
            self._namespace.check_desired()
            if not self.running:
                raise LabError(f"{self.name} ended at once: see {self._log.parent}")
            if time.monotonic() > deadline:
                raise LabError(f"{self.name} does not serve after {timeout:g} s: see {self._log.parent}")
            time.sleep(0.1)

    def heal(self) -> bool:
        """Running and not frozen, whatever it was before; says whether that took anything."""
        state = self.state
        if state == "stopped":
            self.cont()
        elif state == "gone":
            self.start()
        return state != "running"


def process_state(pid: int) -> State:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return "gone"
    return "stopped" if "\nState:\tT" in status else "running"
