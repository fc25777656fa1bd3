"""Attach-time limits: Nova's, from a QoS spec or a flavor, if plimsoll has no catalogue to ask."""

from __future__ import annotations

from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.policy.decide import NoOpinion, Situation, Step, Unmanaged

_ASKED = "attached with"


def attach_time_limits(disk: Disk, situation: Situation) -> tuple[Step, ...]:
    """Limits in the definition that plimsoll did not set are not changed; a rule may override them.

    With a catalogue this does not apply to volumes: their attach-time limits may be outdated. That is an answer too,
    for whoever asks why the default changes them.

    The definition counts, not QEMU: Nova writes limits there, and limits in QEMU alone were set over QMP. During a
    hold, or just after it, the limits before the hold count.
    """
    is_overruled = disk.volume_id is not None and situation.catalogue is not None
    if isinstance(disk.defined, Unknown):
        return () if is_overruled else (Step(_ASKED, disk.defined),)
    memory = situation.ours(disk)
    attached_with = disk.defined
    if memory is not None and memory.applied is not None:
        attached_with = (memory.restore_to if memory.foreign else None) or Limits()
    if is_overruled:
        reason = because(Code.ATTACH_TIME_OVERRULED, limits=attached_with.in_effect())
        return () if attached_with.unlimited else (Step(_ASKED, NoOpinion(reason)),)
    if attached_with.unlimited:
        return (Step(_ASKED, NoOpinion(because(Code.NO_LIMIT))),)
    return (Step(_ASKED, Unmanaged(because(Code.FOREIGN_LIMIT, limits=attached_with.in_effect()))),)
