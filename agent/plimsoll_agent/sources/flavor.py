"""The flavor as a source: ``quota:disk_*`` of its extra specs, for the disks of the guest's own.

Nova gives volumes nothing of it, so that a guest that boots from one escapes its flavor; a rule may say otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping

from plimsoll_agent.decide import Answer, Silent, Situation, Step, Wants, silence_of
from plimsoll_agent.disk import Disk
from plimsoll_agent.flavorquota import quota
from plimsoll_agent.reason import Code, Unknown, because
from plimsoll_agent.sources.attached import limits_of_others

ASKED = "flavor"


def disk_quota(disk: Disk, situation: Situation) -> tuple[Step, ...]:
    """What the flavor gives; silent for volumes, unless a rule wants it for the one that the guest boots from."""
    if disk.volume_id is None:
        return (Step(ASKED, _answer(disk, situation)),)
    if not (disk.root and disk.guest.boots_from_volume):
        return (Step(ASKED, Silent(because(Code.NOT_FOR_VOLUMES))),)
    for rule in situation.rules.rules:
        if rule.boot_volume_by_flavor:
            silence = silence_of(rule, disk, situation)
            if isinstance(silence, Unknown):
                return (Step(f'rule "{rule.name}"', silence),)
            if silence is None:  # while nobody asks Cinder, what it was attached with may be its QoS spec's
                return (*limits_of_others(disk, situation), Step(ASKED, _answer(disk, situation)))
    return (Step(ASKED, Silent(because(Code.NOT_FOR_VOLUMES))),)


def _answer(disk: Disk, situation: Situation) -> Answer:
    guest = disk.guest
    if not guest.by_nova:
        return Silent(because(Code.NOT_BY_NOVA))
    specs = guest.extra_specs if guest.extra_specs is not None else _from_nova(disk, situation)
    if isinstance(specs, Unknown | Silent):
        return specs
    limits = quota(specs)
    if isinstance(limits, Unknown):
        return limits
    if limits is None:
        return Silent(because(Code.NO_QUOTA, flavor=guest.flavor or "?"))
    return Wants(limits, because(Code.FLAVOR, flavor=guest.flavor or "?"))


def _from_nova(disk: Disk, situation: Situation) -> Mapping[str, str] | Unknown | Silent:
    catalogue, uuid = situation.catalogue, disk.guest.uuid
    if catalogue is None or not situation.asks_nova:
        return Silent(because(Code.FLAVOR_NOT_TOLD))
    if isinstance(catalogue, Unknown):
        return catalogue
    server, sighting = catalogue.servers.get(uuid), situation.sightings.guests.get(uuid)
    if server is None or sighting is None or sighting.mark not in server.marks:
        return Unknown(because(Code.FLAVOR_NOT_ASKED))
    return Unknown(because(Code.SERVER_MISSING)) if server.missing else server.extra_specs
