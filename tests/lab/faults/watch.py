"""What QEMU says of every disk's limits, asked again and again beside the daemon, on connections of its own."""

from __future__ import annotations

import threading
import time
import xml.etree.ElementTree as ET
from typing import Any

from lab.cloud.libvirtd import bindings
from plimsoll_agent.model.limits import PARAMETERS, Limits

BETWEEN = 0.2
_LIVE = 1  # VIR_DOMAIN_AFFECT_LIVE
_FOREVER = float("inf")


class Watch:
    """Collects what must never be: a disk that had its limits, and has others although no test has set these.

    Each guest has a thread and a connection: one that hangs keeps no other from being watched.
    """

    def __init__(self, uri: str, limits: Limits) -> None:
        self._uri = uri
        self.right = {limits}
        """What a disk may have once it is limited. A test that changes the rules adds to it."""
        self.wrong: list[str] = []
        self.looks = 0
        self._watched: set[str] = set()
        self._limited: set[tuple[object, ...]] = set()
        self._excused: dict[tuple[str, str], float] = {}
        """Until when the limits of a disk are those that the test set."""

    def begin(self, uuid: str) -> None:
        self._watched.add(uuid)
        threading.Thread(target=self._run, args=(uuid,), name=f"watch-{uuid}", daemon=True).start()

    def end(self, uuid: str) -> None:
        self._watched.discard(uuid)

    def excuse(self, uuid: str, target: str) -> None:
        """The test is about to set other limits."""
        self._excused[uuid, target] = _FOREVER

    def excuse_no_more(self, uuid: str, target: str) -> None:
        """They are right again."""
        self._excused[uuid, target] = time.monotonic()

    def _run(self, uuid: str) -> None:
        libvirt = bindings()
        connection: Any = None
        while uuid in self._watched:
            try:
                if connection is None:
                    connection = libvirt.open(self._uri)
                self._look(connection, uuid)
            except libvirt.libvirtError:  # the guest is off, or libvirtd is gone
                if connection is not None and not connection.isAlive():
                    connection = None
            time.sleep(BETWEEN)
        if connection is not None:
            connection.close()

    def _look(self, connection: Any, uuid: str) -> None:
        domain = connection.lookupByUUIDString(uuid)
        run = domain.ID()
        for target, image in _disks(domain.XMLDesc()):
            began = time.monotonic()
            limits = read(domain, target)
            if connection.lookupByUUIDString(uuid).ID() != run:  # started again meanwhile: an object keeps its number
                return
            self._judge(uuid, run, target, image, limits, began)

    def _judge(self, uuid: str, run: int, target: str, image: str, limits: Limits, began: float) -> None:
        self.looks += 1
        key = (uuid, run, target, image)
        if limits in self.right:
            self._limited.add(key)
        elif key in self._limited and began > self._excused.get((uuid, target), 0.0):
            self.wrong.append(f"{uuid} {target} ({image}): {limits}")


def read(domain: Any, target: str) -> Limits:
    """The actual limits. Raises ``libvirtError``."""
    told = domain.blockIoTune(target, _LIVE)
    return Limits(**{each.name: told[each.name] for each in PARAMETERS if told.get(each.name)})


def _disks(text: str) -> list[tuple[str, str]]:
    """Of each disk on RBD its target, and its image."""
    found = []
    for disk in ET.fromstring(text).iterfind("devices/disk"):
        target, source = disk.find("target"), disk.find("source")
        if target is not None and source is not None and source.get("protocol") == "rbd":
            found.append((target.get("dev", ""), source.get("name", "")))
    return found
