"""Limits that a disk was attached with: Nova's, from a QoS spec or a flavor, as long as nobody asks those."""

from __future__ import annotations

from plimsoll_agent.decide import Silent, Situation, Step, Unmanaged
from plimsoll_agent.disk import Disk
from plimsoll_agent.limits import Limits
from plimsoll_agent.reason import Code, Unknown, because

_ASKED = "attached with"


def limits_of_others(disk: Disk, situation: Situation) -> tuple[Step, ...]:
    """A disk whose definition has limits that plimsoll did not set is left alone; a rule may override.

    Not so a volume of which Cinder said that nothing limits it: what it was attached with is of old.

    The definition decides, not QEMU: Nova and Cinder speak through it. A limit that stands in QEMU alone was
    set behind libvirt's back and is nobody's promise. While a hold stands on the disk, or has just ended, what
    it had before counts.
    """
    if disk.volume_id is not None and situation.catalogue is not None:
        return ()
    if isinstance(disk.defined, Unknown):
        return (Step(_ASKED, disk.defined),)
    remembered = situation.ours(disk)
    attached_with = disk.defined
    if remembered is not None and remembered.put is not None:
        attached_with = (remembered.returns if remembered.theirs else None) or Limits()
    if attached_with.unlimited:
        return (Step(_ASKED, Silent(because(Code.NO_LIMIT))),)
    return (Step(_ASKED, Unmanaged(because(Code.FOREIGN_LIMIT, limits=attached_with.in_effect()))),)
