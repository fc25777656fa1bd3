"""Load that no limit of plimsoll is for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lab.cloud import Cloud, Guest
from lab.cloud.disk import volume


@contextmanager
def others_writes(cloud: Cloud, *options: str) -> Iterator[Guest]:
    """Writes to the volume of a paused guest, by a client of its own, with ``options`` of ``rbd bench``."""
    [guest] = cloud.paused_guests([[volume()]])
    image = guest.disks["vda"]
    try:
        with cloud.ceph.loading(f"{image.pool}/{image.image}", "--io-type", "write", *options):
            yield guest
    finally:
        cloud.destroy_guests([guest])
