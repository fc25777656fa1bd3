"""The command to run next, as it works on this node: with its units or none, its catalogue, as root or with sudo."""

from __future__ import annotations

import re
import shlex

from plimsoll_agent.model.disk import DiskName
from plimsoll_agent.model.reason import Code, Reason
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import printable

ENFORCE_UNIT, CATALOGUE_UNIT, PROBE_UNIT = "plimsoll-enforce", "plimsoll-catalogue", "plimsoll-probe"
FETCH_SERVICE = "plimsoll-congestion-fetch.service"
_SYSTEM = "qemu:///system"
"""What virsh asks too, as root."""
_PLAIN = re.compile(r"[\w][\w.-]*", re.ASCII)
_UNANSWERED = (Code.TIMED_OUT, Code.NOT_SENT, Code.NOT_READ, Code.GUEST_TIMED_OUT)
_UNHEALTHY = (Code.CLUSTER_UNHEALTHY, Code.CLUSTER_UNREACHABLE)
_UNRECORDED = (Code.NO_RECORD, Code.NO_RESULTS, Code.NOT_REMEMBERED, Code.NOT_SETTLED)
_NOT_FETCHED = (Code.VOLUME_NOT_FETCHED, Code.FLAVOR_NOT_FETCHED)
_NO_CATALOGUE = (
    Code.NO_CATALOGUE,
    Code.CATALOGUE_UNREADABLE,
    Code.CATALOGUE_EXPIRED,
    Code.CATALOGUE_STALE,
    Code.ORDERS_UNKNOWN,
)


@frozen(kw_only=True)
class NodeSetup:
    """What of this node's set-up decides which command works."""

    sudo: bool = False
    """Whoever reads the command is not root."""
    options: tuple[str, ...] = ()
    """Options of ``plimsoll`` that lead to the same settings."""
    timers: frozenset[str] = frozenset((ENFORCE_UNIT, CATALOGUE_UNIT, PROBE_UNIT))
    """Units whose timer is enabled."""
    disabled: frozenset[str] = frozenset()
    """Units whose timer is installed, and not enabled, or masked."""
    daemon_enabled: bool = False
    """Its unit is enabled."""
    container: bool = False
    """plimsoll's package is here, and no systemd: logs are those of its containers."""
    fetcher: bool = True
    """``FETCH_SERVICE`` is installed."""
    catalogue: str = "openstack"
    """``[catalogue] source``."""
    uri: str = _SYSTEM
    ceph_id: str = "plimsoll"

    def plimsoll(self, *words: str) -> str:
        return self._as_root("plimsoll", *self.options, *words)

    def virsh(self, *words: str) -> str:
        return self._as_root("virsh", *(() if self.uri == _SYSTEM else ("-c", self.uri)), *words)

    def ceph_health(self) -> str:
        return self._as_root("ceph", "--id", self.ceph_id, "health", "detail")

    def no_pass(self) -> str:
        """There was none yet, or it failed."""
        return self.plimsoll("enforce", "--mode", "observe")

    def no_good_pass(self) -> str:
        """The last pass left something undone."""
        return self.plimsoll("plan")

    def no_recent_pass(self) -> str:
        """The timer or the container, or without one a pass."""
        return self._look(ENFORCE_UNIT) or self._log("plimsoll") or self.plimsoll("enforce")

    def no_recent_probe(self) -> str:
        return self._look(PROBE_UNIT) or self.plimsoll("probe", "timetable")

    def daemon(self) -> str:
        return self._log("plimsoll") or "systemctl status plimsoll-daemon.service"

    def no_catalogue(self) -> str:
        """It is old or cannot be used: what the refresher wrote, or the refresh itself."""
        if CATALOGUE_UNIT in self.timers:
            return self._as_root("journalctl", "-n", "20", "-u", f"{CATALOGUE_UNIT}.service")
        return (
            self._look(CATALOGUE_UNIT) or self._log(CATALOGUE_UNIT) or self.plimsoll("catalogue", "refresh", "--now")
        )

    def not_enabled(self, unit: str) -> str:
        """``plimsoll-enforce.timer is not enabled``, else nothing."""
        return f"{unit}.timer is not enabled" if unit in self.disabled else ""

    def _look(self, unit: str) -> str:
        """Not a command that enables the timer: an operator may have disabled it, so that nothing is written."""
        there = unit in self.timers | self.disabled
        return f"systemctl status {unit}.timer {unit}.service" if there else ""

    def _log(self, container: str) -> str:
        """Those are the names on the page on containers; Kolla's have underscores."""
        return f"podman logs {container}   (on the node, or as it is called there)" if self.container else ""

    def source_down(self, source: str) -> str:
        match source:
            case "libvirt":
                return self.virsh("list")
            case "rules":
                return self.plimsoll("rules", "check")
            case "catalogue" | "refresh" | "orders":
                return self.no_catalogue()
            case "congestion":
                if self.fetcher:
                    return f"systemctl status {FETCH_SERVICE}"
                return self._log("plimsoll-congestion-fetch") or self.plimsoll("congestion", "fetch")
            case "writes":
                return self.plimsoll("enforce")
            case _:
                return self.plimsoll("record", "--verify")

    def pause(self, reason: Reason) -> str:
        if reason.facts.get("region"):
            return "plimsoll region resume   (on the machine that makes the region file)"
        return self.plimsoll("resume", "--reason", "TEXT")

    def phase(self, longest: str) -> str:
        """The phase of a pass that takes long."""
        return {"observe": self.virsh("list"), "gate": self.ceph_health()}.get(longest, self.plimsoll("plan"))

    def guest(self, name: str, uuid: str) -> str:
        """It is unreachable."""
        return self.virsh("domstate", _typed(name, uuid))

    def definition(self, name: DiskName) -> str:
        """libvirt's definition of its guest."""
        return self.virsh("dumpxml", _typed(name.guest_name, name.guest_uuid))

    def disk(self, reason: Reason, name: DiskName) -> str:
        """It is not as desired, or unknown, for this reason."""
        code, guest = reason.code, _typed(name.guest_name, name.guest_uuid)
        if code is Code.PAUSED:
            return self.pause(reason)
        if code in _UNHEALTHY:
            return self.ceph_health()
        if code is Code.CLUSTER_UNKNOWN:
            return self.plimsoll("settings", "ceph")
        if code in _UNANSWERED:
            return self.guest(name.guest_name, name.guest_uuid)
        if code in _UNRECORDED:
            return self.source_down("record")
        if code in _NOT_FETCHED:
            if self.catalogue == "region-file":  # no node asks Cinder: the file must be newer than the attachment
                return self.plimsoll("catalogue", "age")
            if self.catalogue == "openstack":
                return self.plimsoll("enforce", "--refresh")
        if code in _NO_CATALOGUE:
            return self.no_catalogue()
        if code in (Code.BRAKED, Code.LARGE_CHANGE, Code.GROUP_WITHHELD):
            return self.plimsoll("plan")
        if code is Code.REVERTED_TOO_OFTEN:
            return self.record(name)
        return self.plimsoll("disk", "explain", guest, _typed(name.target, name.volume_id or name.target))

    def record(self, name: DiskName) -> str:
        """What was tried, and how it ended."""
        return self.plimsoll("record", "--guest", _typed(name.guest_name, name.guest_uuid))

    def _as_root(self, *words: str) -> str:
        return shlex.join((*(("sudo",) if self.sudo else ()), *words))


def _typed(name: str, id_: str) -> str:
    """The name, or the id of what has a name that cannot be typed as it is shown."""
    return name if _PLAIN.fullmatch(name) else printable(id_)
