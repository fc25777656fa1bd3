"""A node with its daemon, the guests around it, and what is asked of them while a fault is there."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lab.cloud import Cloud, Guest
from lab.cloud.command import LabError
from lab.cloud.disk import volume
from lab.cloud.libvirtd import bindings
from lab.node import Node
from lab.waiting import until
from plimsoll_agent.daemon.connections import MOST_CALLS
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.monitor import daemon_status
from plimsoll_agent.monitor.daemon_status import DaemonStatus
from tests.lab.faults.watch import Watch, read
from tests.lab.passes import LIMIT

LOOSE, TIGHT = {"total_iops_sec": 9000}, {"total_iops_sec": 100}
"""What something else than plimsoll sets."""
OTHERS = Limits(total_iops_sec=240)
"""What a row sets by an edit of the rules; ``Watch.right`` must have it."""
USUAL = 20.0
"""Seconds after which limits are right again where no row says other: a few tries, or a full pass."""
FULL_PASSES = 10
"""Seconds between two of them, the least that can be set."""
MORE_MEMORY = 24 * 2**20
"""Bytes by which the daemon may be larger after a fault than before all of them."""
MORE_DESCRIPTORS = 2 * MOST_CALLS
"""As many more may be open: it keeps a connection to libvirt, of two each, for every call made at once."""
_LIVE = 1  # VIR_DOMAIN_AFFECT_LIVE


class Where(NamedTuple):
    """A disk of a guest."""

    guest: Guest
    target: str


class Scene:
    def __init__(self, home: Path, cloud: Cloud) -> None:
        """``home``, where the node has its files, is on a file system of its own, which faults may fill."""
        self.cloud = cloud
        self.node = Node(home, cloud, rules(LIMIT), deadline=2)
        with self.node.settings.open("a") as file:
            file.write(f"[daemon]\nfull_pass_interval = {FULL_PASSES}\n")
        self.log = home.parent / "daemon.log"
        self.watch = Watch(cloud.libvirt_uri, LIMIT)
        self.process: subprocess.Popen[bytes]

    # --- the daemon

    def start(self) -> None:
        """As systemd does, at boot and after the daemon has died."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.node.command("daemon"), stdout=log, stderr=log, env=self.node.environment
            )
        self.until(lambda: self.known is not None and self.known.last_full_pass is not None, "the daemon is ready")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)

    @property
    def known(self) -> DaemonStatus | None:
        """What this daemon tells of itself."""
        told = daemon_status.load_or_none(self.node.state)
        return told if told is not None and told.pid == self.process.pid else None

    @property
    def memory(self) -> int:
        """Resident bytes of the daemon."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    @property
    def descriptors(self) -> int:
        return len(self._open_files())

    def _open_files(self) -> list[str]:
        found = []
        for each in Path(f"/proc/{self.process.pid}/fd").iterdir():
            with suppress(OSError):  # closed meanwhile
                found.append(str(each.readlink()))
        return found

    def said(self, last: int = 4000) -> str:
        """The end of the daemon's log."""
        return self.log.read_text(errors="replace")[-last:]

    # --- guests

    def guests(self, number: int) -> list[Guest]:
        made = self.cloud.paused_guests([[volume(2**30), volume(2**30)] for _ in range(number)])
        for guest in made:
            self.watch.begin(guest.uuid)
        return made

    def end(self, guests: Sequence[Guest]) -> None:
        for guest in guests:
            self.watch.end(guest.uuid)
            guest.undefine()  # without the images: Ceph removes none for 30 s after a QEMU was killed

    def limits(self, guest: Guest) -> dict[str, Limits] | None:
        """By target, as QEMU has them now; None while the guest, or libvirt, does not answer."""
        try:
            domain = guest.domain()
            return {target: read(domain, target) for target in guest.disks}
        except (LabError, bindings().libvirtError):
            return None

    def loosen(self, guest: Guest, *targets: str) -> None:
        """An external change, which plimsoll lowers again."""
        self.set(guest, targets or ("vda", "vdb"), LOOSE)

    def tighten(self, guest: Guest) -> None:
        """An external change, which plimsoll raises again."""
        self.set(guest, ("vda", "vdb"), TIGHT)

    def set(self, guest: Guest, targets: Sequence[str], limits: dict[str, int]) -> None:
        """An external change."""
        for target in targets:
            self.watch.excuse(guest.uuid, target)
            guest.domain().setBlockIoTune(target, limits, _LIVE)

    def until_right(self, guests: Sequence[Guest], within: float, wanted: Limits = LIMIT) -> float:
        """Seconds until each disk of these guests has its limits."""
        began = time.monotonic()
        for guest in guests:
            self.until(
                lambda guest=guest: set((self.limits(guest) or {"": Limits()}).values()) == {wanted},  # type: ignore[misc]
                f"limits of {guest.name}",
                within - (time.monotonic() - began),
                tell=lambda guest=guest: self.limits(guest),  # type: ignore[misc]
            )
            for target in guest.disks:
                self.watch.excuse_no_more(guest.uuid, target)
        return time.monotonic() - began

    def until_all(self, desired: Sequence[tuple[Where, Limits]], within: float) -> None:
        """Wait until each of these disks has its limits."""

        def wrong() -> list[str]:
            found = {guest: self.limits(guest) or {} for guest in {where.guest for where, _ in desired}}
            return [
                f"{where.guest.name} {where.target}: {found[where.guest].get(where.target)}"
                for where, limits in desired
                if found[where.guest].get(where.target) != limits
            ]

        self.until(lambda: not wrong(), "limits", within, wrong)
        for where, _ in desired:
            self.watch.excuse_no_more(where.guest.uuid, where.target)

    def until(
        self, true: Callable[[], object], what: str, within: float = 60.0, tell: Callable[[], Any] = lambda: ""
    ) -> None:
        until(true, within, lambda: f"{what}: not within {within:.1f} s: {tell()}\n{self.said()}")

    # --- what must be so in the end

    def assert_whole(self, descriptors: int, memory: int) -> None:
        """The daemon runs and has given back what it took; record and state are sound."""
        assert self.process.poll() is None, self.said()
        most = descriptors + MORE_DESCRIPTORS
        self.until(lambda: self.descriptors <= most, "descriptors", USUAL, self._open_files)
        assert self.memory <= memory + MORE_MEMORY, f"{self.memory / 2**20:.0f} of {memory / 2**20:.0f} MiB"
        unsettled = self.node.record.unsettled
        self.until(lambda: not unsettled(), "changes whose end is unknown", 2 * FULL_PASSES, unsettled)
        for words in (("record", "--verify"), ("state", "check")):
            ran = self.node.run(*words)
            assert ran.status == 0, ran.out + ran.err
        assert not self.watch.wrong, self.watch.wrong[:5]


Fault = Callable[[Scene, Guest], AbstractContextManager[None]]


@dataclass(frozen=True)
class Row:
    """A fault: it begins where its context is entered, and ends where that is left."""

    name: str
    fault: Fault
    happens: str
    """To the guest or the node, in the documentation."""
    measured: str
    """How long after the end of the fault all limits were right, in the documentation."""
    served: float | None = 5.0
    """Within so many seconds an external change of another guest is reverted while the fault lasts; None: not before
    its end."""
    back: float = USUAL
    """Within so many seconds after its end all limits are right."""


def rules(limits: Limits) -> str:
    return f"default: {{limits: {{total_iops_sec: {limits.total_iops_sec}}}}}\n"
