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
    image = guest.disks[target].image
    (device,) = (device for device in query_block(guest) if image in device.get("inserted", {}).get("file", ""))
    # The six bases must be there; bursts and the rest may be left out where they are zero.
    numbers = {p.qmp: getattr(limits, p.name) for p in PARAMETERS if p.role == "base" or getattr(limits, p.name)}
    _monitor(guest, "block_set_io_throttle", id=device["qdev"], **numbers)


def _monitor(guest: Guest, command: str, **arguments: object) -> Any:
    import libvirt_qemu

    text = json.dumps({"execute": command, "arguments": arguments})
    answer = json.loads(libvirt_qemu.qemuMonitorCommand(guest.domain(), text, 0))
    if "error" in answer:
        raise RuntimeError(answer["error"]["desc"])
    return answer["return"]
