"""What somebody does who goes behind libvirt's back: limits through QEMU's raw monitor."""

from __future__ import annotations

import json
from typing import Any

from lab.cloud import Guest
from plimsoll_agent.model.limits import PARAMETERS, Limits


def query_block(guest: Guest) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = _monitor(guest, "query-block")
    return answer


def set_limits(guest: Guest, target: str, limits: Limits) -> None:
    """``block_set_io_throttle`` on the device whose image is the target's."""
    # The six bases must be there; bursts and the rest may be left out where they are zero.
    numbers = {p.qmp: getattr(limits, p.name) for p in PARAMETERS if p.role == "base" or getattr(limits, p.name)}
    _monitor(guest, "block_set_io_throttle", id=device_of(guest, target), **numbers)


def device_of(guest: Guest, target: str) -> str:
    """QEMU's name of the target's device."""
    image = guest.disks[target].image
    (device,) = (device for device in query_block(guest) if image in device.get("inserted", {}).get("file", ""))
    return str(device["qdev"])


def read(guest: Guest, device: str, size: int) -> None:
    """A request of the device, through its limits; the guest may be paused."""
    line = f'qemu-io -d {device} "aio_read -q 0 {size}"'
    answer = _monitor(guest, "human-monitor-command", **{"command-line": line})
    if answer:
        raise RuntimeError(answer)


def _monitor(guest: Guest, command: str, **arguments: object) -> Any:
    import libvirt_qemu

    text = json.dumps({"execute": command, "arguments": arguments})
    answer = json.loads(libvirt_qemu.qemuMonitorCommand(guest.domain(), text, 0))
    if "error" in answer:
        raise RuntimeError(answer["error"]["desc"])
    return answer["return"]
