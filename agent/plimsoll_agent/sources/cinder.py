"""Cinder as a source: a volume's type, the type's QoS spec, and its arithmetic on the disk's present size."""

from __future__ import annotations

from dataclasses import asdict

from plimsoll_agent.catalogue import Catalogue, VolumeType
from plimsoll_agent.decide import Answer, Silent, Situation, Step, Wants
from plimsoll_agent.disk import Disk
from plimsoll_agent.qosspec import QosSpec, evaluate
from plimsoll_agent.reason import Code, Unknown, because

ASKED = "Cinder"
_GIB = 2**30


def qos_spec(disk: Disk, situation: Situation) -> tuple[Step, ...]:
    """What the volume's QoS spec gives; silent where Cinder says that there is none for Nova."""
    return (Step(ASKED, _answer(disk, situation)),)


def volume_type(disk: Disk, situation: Situation) -> VolumeType | Unknown | Silent | None:
    """The type of the volume; None where Cinder says that it has none."""
    catalogue = situation.catalogue
    if disk.volume_id is None:
        return Silent(because(Code.NO_VOLUME))
    if catalogue is None:
        return Silent(because(Code.NOBODY_ASKED))
    if isinstance(catalogue, Unknown):
        return catalogue
    volume, sighting = catalogue.volumes.get(disk.volume_id), situation.sightings.volumes.get(disk.key)
    if volume is None or sighting is None or sighting.mark not in volume.marks:
        since = situation.now if sighting is None else sighting.since
        return Unknown(because(Code.VOLUME_NOT_ASKED, since=since.isoformat()))
    if volume.missing:
        return Unknown(because(Code.VOLUME_MISSING))
    if volume.type is None:
        return None
    return catalogue.types.get(volume.type) or Unknown(because(Code.TYPE_NOT_LISTED, id=volume.type))


def per_gib(disk: Disk, catalogue: Catalogue | Unknown | None) -> bool:
    """Whether the limits of this disk hang on its size: then it has to be asked for."""
    if disk.volume_id is None or not isinstance(catalogue, Catalogue):
        return False
    volume = catalogue.volumes.get(disk.volume_id)
    of = catalogue.types.get(volume.type or "") if volume else None
    spec = catalogue.specs.get(of.qos_spec or "") if of else None
    return spec is not None and spec.per_gib


def _answer(disk: Disk, situation: Situation) -> Answer:
    known = volume_type(disk, situation)
    if isinstance(known, Unknown | Silent):
        return known
    if known is None:
        return Silent(because(Code.NO_VOLUME_TYPE))
    catalogue = situation.catalogue
    if known.hidden or not isinstance(catalogue, Catalogue):
        return Unknown(because(Code.SPEC_HIDDEN, type=known.name))
    if known.qos_spec is None:
        return Silent(because(Code.NO_QOS_SPEC, type=known.name))
    spec = catalogue.specs.get(known.qos_spec)
    if spec is None:
        return Unknown(because(Code.SPEC_NOT_LISTED, type=known.name, id=known.qos_spec))
    if not spec.for_nova:
        return Silent(because(Code.SPEC_FOR_BACK_END, type=known.name, spec=spec.name, consumer=spec.consumer))
    return _evaluated(spec, known, disk)


def _evaluated(spec: QosSpec, of: VolumeType, disk: Disk) -> Answer:
    facts: dict[str, object] = {"type": of.name, "spec": spec.name, "consumer": spec.consumer}
    gib = 0
    if spec.per_gib:
        if disk.size is None:
            return Unknown(because(Code.SIZE_NOT_KNOWN, **facts))
        # A LUKS header takes its part of the image, so that libvirt's size is less than Cinder's whole GiB.
        gib = -(-disk.size // _GIB)
        facts["gib"] = gib
    evaluated = evaluate(spec, gib)
    if isinstance(evaluated, Unknown):
        return evaluated
    if not evaluated.said:
        return Silent(because(Code.SPEC_SAYS_NOTHING, **facts))
    if evaluated.arithmetic:
        facts["arithmetic"] = [asdict(row) for row in evaluated.arithmetic]
    return Wants(evaluated.limits, because(Code.QOS_SPEC, **facts))
