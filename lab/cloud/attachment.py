"""A Cinder volume attached to a guest: what Cinder hands out, and the disk that Nova makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .disk import GIB, Disk, Image

# What Nova takes of a QoS spec (nova/virt/libvirt/volume/volume.py); all else is dropped silently.
TUNED = (
    "total_bytes_sec",
    "read_bytes_sec",
    "write_bytes_sec",
    "total_iops_sec",
    "read_iops_sec",
    "write_iops_sec",
    "read_bytes_sec_max",
    "read_iops_sec_max",
    "write_bytes_sec_max",
    "write_iops_sec_max",
    "total_bytes_sec_max",
    "total_iops_sec_max",
    "size_iops_sec",
)


@dataclass(frozen=True)
class Attachment:
    id: str
    volume_id: str
    size_gib: int
    instance_uuid: str
    target: str  # vdb, say
    connection_info: dict[str, Any]

    @property
    def qos_specs(self) -> dict[str, Any]:
        """As they were at the moment of the attachment; none where the spec is the back end's alone."""
        return self.connection_info.get("qos_specs") or {}

    def disk(self) -> Disk:
        pool, _, image = self.connection_info["name"].partition("/")
        tuned = ((name, int(value)) for name, value in self.qos_specs.items() if name in TUNED)
        return Disk(Image(pool, image, self.volume_id), self.size_gib * GIB, iotune=tuple(tuned))
