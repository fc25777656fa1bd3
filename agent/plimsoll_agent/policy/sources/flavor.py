"""The flavor as a source: ``quota:disk_*`` of its extra specs, for disks that are not volumes.

Nova does not apply it to volumes, so a guest that boots from a volume escapes it; a rule may apply it there.
"""

from __future__ import annotations

from collections.abc import Mapping

from plimsoll_agent.catalogue.flavorquota import quota
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.policy.decide import Answer, Desired, NoOpinion, Situation, Step, no_opinion_of
from plimsoll_agent.policy.sources.attached import attach_time_limits

ASKED = "flavor"


def disk_quota(disk: Disk, situation: Situation) -> tuple[Step, ...]:
    """The flavor's limits; no opinion on volumes, unless a rule applies it to the one that the guest boots from."""
    if disk.volume_id is None:
        return (Step(ASKED, _answer(disk, situation)),)
    if not (disk.root and disk.guest.boots_from_volume):
        return (Step(ASKED, NoOpinion(because(Code.NOT_FOR_VOLUMES))),)
    for rule in situation.rules.rules:
        if rule.boot_volume_by_flavor:
            no_opinion = no_opinion_of(rule, disk, situation.now)
            if isinstance(no_opinion, Unknown):
                return (Step(f'rule "{rule.name}"', no_opinion),)
            if no_opinion is None:  # without a catalogue, its attach-time limits may be from its QoS spec
                return (*attach_time_limits(disk, situation), Step(ASKED, _answer(disk, situation)))
    return (Step(ASKED, NoOpinion(because(Code.NOT_FOR_VOLUMES))),)


def _answer(disk: Disk, situation: Situation) -> Answer:
    guest = disk.guest
    if not guest.by_nova:
        return NoOpinion(because(Code.NOT_BY_NOVA))
    specs = guest.extra_specs if guest.extra_specs is not None else _from_nova(disk, situation)
    if isinstance(specs, Unknown | NoOpinion):
        return specs
    limits = quota(specs)
    if isinstance(limits, Unknown):
        return limits
    if limits is None:
        return NoOpinion(because(Code.NO_QUOTA, flavor=guest.flavor or "?"))
    return Desired(limits, because(Code.FLAVOR, flavor=guest.flavor or "?"))


def _from_nova(disk: Disk, situation: Situation) -> Mapping[str, str] | Unknown | NoOpinion:
    catalogue, uuid = situation.catalogue, disk.guest.uuid
    if catalogue is None or not situation.asks_nova:
        return NoOpinion(because(Code.FLAVOR_UNKNOWN))
    if isinstance(catalogue, Unknown):
        return catalogue
    server, sighting = catalogue.servers.get(uuid), situation.attachments.guests.get(uuid)
    if server is None or sighting is None or sighting.mark not in server.marks:
        return Unknown(because(Code.FLAVOR_NOT_FETCHED))
    return Unknown(because(Code.SERVER_MISSING)) if server.missing else server.extra_specs
