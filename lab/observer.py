"""libvirt's events, on a connection and in a process of its own: by them it is known how long plimsoll took.

``python -m lab.observer URI`` prints a line of JSON for each: when (CLOCK_MONOTONIC), what, the guest's uuid,
and of limits that were set the disk's target and the parameters.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PATIENT = 60.0
STARTED, DEVICE_ADDED, TUNABLE = "started", "device-added", "tunable"


@dataclass(frozen=True)
class Seen:
    at: float
    what: str
    uuid: str
    target: str = ""
    limits: dict[str, Any] = field(default_factory=dict)


class Observer:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._seen: list[Seen] = []
        self._more = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._more:
                self._seen.append(Seen(**json.loads(line)))
                self._more.notify_all()

    def wait(self, true: Callable[[Seen], bool], after: float = 0.0, patience: float = PATIENT) -> Seen:
        """The first that is so, no earlier than that."""

        def found() -> Seen | None:
            return next((seen for seen in self._seen if seen.at >= after and true(seen)), None)

        with self._more:
            self._more.wait_for(lambda: found() is not None, patience)
            seen = found()
        assert seen is not None, self._seen[-20:]
        return seen

    def reaction(self, what: str, uuid: str, iops: int, *targets: str, after: float) -> float:
        """Seconds from that event to the last of the events by which these disks have the limit."""
        begun = self.wait(lambda seen: (seen.what, seen.uuid) == (what, uuid), after)
        ends = [
            self.wait(
                lambda seen, target=target: (
                    (seen.what, seen.uuid, seen.target) == (TUNABLE, uuid, target)
                    and seen.limits.get("total_iops_sec") == iops
                ),
                begun.at,
            ).at
            for target in targets
        ]
        return max(ends) - begun.at


@contextmanager
def observing(uri: str) -> Iterator[Observer]:
    command = [sys.executable, "-m", "lab.observer", uri]
    root = Path(__file__).parents[1]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        try:
            observer = Observer(process)
            observer.wait(lambda seen: seen.what == "ready")
            yield observer
        finally:
            process.terminate()


def main(uri: str) -> None:
    import libvirt

    def tell(what: str, uuid: str = "", **more: object) -> None:
        print(json.dumps({"at": time.monotonic(), "what": what, "uuid": uuid} | more), flush=True)

    def lifecycle(_: Any, domain: Any, event: int, *__: object) -> None:
        if event == libvirt.VIR_DOMAIN_EVENT_STARTED:
            tell(STARTED, domain.UUIDString())

    def tunable(_: Any, domain: Any, given: dict[str, Any], __: object) -> None:
        limits = {name.removeprefix("blkdeviotune."): value for name, value in given.items()}
        tell(TUNABLE, domain.UUIDString(), target=limits.pop("disk", ""), limits=limits)

    libvirt.virEventRegisterDefaultImpl()
    connection = libvirt.open(uri)
    connection.domainEventRegisterAny(None, libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, lifecycle, None)
    connection.domainEventRegisterAny(None, libvirt.VIR_DOMAIN_EVENT_ID_TUNABLE, tunable, None)
    connection.domainEventRegisterAny(
        None,
        libvirt.VIR_DOMAIN_EVENT_ID_DEVICE_ADDED,
        lambda _, domain, *__: tell(DEVICE_ADDED, domain.UUIDString()),
        None,
    )
    tell("ready")
    while connection.isAlive():
        libvirt.virEventRunDefaultImpl()


if __name__ == "__main__":
    main(sys.argv[1])
