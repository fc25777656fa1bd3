"""From the id of an RBD image to its name, its volume and its guest."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import printable

if TYPE_CHECKING:
    from plimsoll_agent.monitor.pass_summary import LastDisk

_UUID = r"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
_VOLUME = re.compile(rf"volume-{_UUID}")
_OF_NOVA = re.compile(rf"{_UUID}_disk(?:\.\w+)?")


class UnreadableImages(PlimsollError):
    """A file is no list of images and their ids."""


@frozen(kw_only=True)
class Owner:
    """Whose image it is. ``server`` and ``guest`` are names, ``uuid`` the guest's; None is unknown."""

    volume: str | None = None
    server: str | None = None
    guest: str | None = None
    uuid: str | None = None


def parse(text: str, where: str) -> dict[str, str]:
    """Names by ids, out of lines ``ID IMAGE`` or ``ID POOL/IMAGE``. Raises ``UnreadableImages``."""
    names = {}
    for number, line in enumerate(text.splitlines(), 1):
        id, _, name = line.strip().partition(" ")
        if not id:
            continue
        if not re.fullmatch("[0-9a-f]{6,64}", id) or not name.strip():
            raise UnreadableImages(
                f"{where}:{number}: {printable(line[:60])} (write ID IMAGE, as 102afe660f2 volume-…)"
            )
        names[id] = name.strip()
    return names


def owner(path: str, disks: Sequence[LastDisk]) -> Owner:
    """Whose image ``POOL/IMAGE``, ``POOL/NAMESPACE/IMAGE`` or ``IMAGE`` is: of the disks that this node's last pass
    saw, else by its name. These disks have no namespace: an image in one is theirs if just one has its pool and name.
    """
    *pool, name = path.split("/")
    same = [disk for disk in disks if disk.named.image == name and pool[:1] in ([], [disk.named.pool])]
    if same and (len(pool) < 2 or len(same) == 1):
        identity = same[0].named
        return Owner(
            volume=identity.volume_id, server=same[0].server, guest=identity.guest_name, uuid=identity.guest_uuid
        )
    volume, server = _VOLUME.fullmatch(name), _OF_NOVA.fullmatch(name)
    return Owner(volume=volume[1] if volume else None, uuid=server[1] if server else None)


def path(name: str | None, pool: str | None) -> str | None:
    """``POOL/IMAGE`` where the pool is known, of ``IMAGE`` or ``POOL/IMAGE``."""
    return f"{pool}/{name}" if name and pool and "/" not in name else name
