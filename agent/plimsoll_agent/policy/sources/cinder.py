"""Cinder as a source: a volume's type, the type's QoS spec, and its arithmetic with the disk's size."""

from __future__ import annotations

from plimsoll_agent.catalogue.attachments import same_attachment
from plimsoll_agent.catalogue.model import Catalogue, VolumeType
from plimsoll_agent.catalogue.qosspec import QosSpec, evaluate
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.policy.decide import Answer, Desired, NoOpinion, Situation, Step
from plimsoll_agent.util.frozen import asdict, replace

ASKED = "Cinder"
_GIB = 2**30


def qos_spec(disk: Disk, situation: Situation) -> tuple[Step, ...]:
    """The limits of the volume's QoS spec; no opinion without a spec for Nova."""
    return (Step(ASKED, _answer(disk, situation)),)


def volume_type(disk: Disk, situation: Situation) -> VolumeType | Unknown | NoOpinion | None:
    """The type of the volume; None if it has none."""
    catalogue = situation.catalogue
    if disk.volume_id is None:
        return NoOpinion(because(Code.NO_VOLUME))
    if catalogue is None:
        return NoOpinion(because(Code.NO_CATALOGUE_SOURCE))
    if isinstance(catalogue, Unknown):
        return catalogue
    volume, sighting = catalogue.volumes.get(disk.volume_id), situation.attachments.volumes.get(disk.key)
    if volume is None or sighting is None or not any(same_attachment(sighting.mark, mark) for mark in volume.marks):
        since = situation.now if sighting is None else sighting.since
        facts: dict[str, object] = {"changed": True} if sighting and sighting.external_changes else {}
        return Unknown(because(Code.VOLUME_NOT_FETCHED, since=since.isoformat(), **facts))
    if volume.missing:
        return Unknown(because(Code.VOLUME_MISSING))
    if volume.type is None:
        return None
    return catalogue.types.get(volume.type) or Unknown(because(Code.TYPE_NOT_LISTED, id=volume.type))


def typed(disk: Disk, situation: Situation) -> Disk:
    """The disk with the name of its volume type, where known."""
    type = volume_type(disk, situation)
    return replace(disk, volume_type=type.name) if isinstance(type, VolumeType) else disk


def per_gib(disk: Disk, catalogue: Catalogue | Unknown | None) -> bool:
    """Whether the limits of this disk depend on its size, which then has to be read."""
    if disk.volume_id is None or not isinstance(catalogue, Catalogue):
        return False
    volume = catalogue.volumes.get(disk.volume_id)
    of = catalogue.types.get(volume.type or "") if volume else None
    spec = catalogue.specs.get(of.qos_spec or "") if of else None
    return spec is not None and spec.per_gib


def _answer(disk: Disk, situation: Situation) -> Answer:
    own_type = volume_type(disk, situation)
    if isinstance(own_type, Unknown | NoOpinion):
        return own_type
    if own_type is None:
        return NoOpinion(because(Code.NO_VOLUME_TYPE))
    catalogue = situation.catalogue
    if own_type.hidden or not isinstance(catalogue, Catalogue):
        return Unknown(because(Code.SPEC_HIDDEN, type=own_type.name))
    if own_type.qos_spec is None:
        return NoOpinion(because(Code.NO_QOS_SPEC, type=own_type.name))
    spec = catalogue.specs.get(own_type.qos_spec)
    if spec is None:
        return Unknown(because(Code.SPEC_NOT_LISTED, type=own_type.name, id=own_type.qos_spec))
    if not spec.for_nova:
        return NoOpinion(because(Code.SPEC_FOR_BACK_END, type=own_type.name, spec=spec.name, consumer=spec.consumer))
    return _of_spec(spec, own_type, disk)


def _of_spec(spec: QosSpec, of: VolumeType, disk: Disk) -> Answer:
    facts: dict[str, object] = {"type": of.name, "spec": spec.name, "consumer": spec.consumer}
    gib = 0
    if spec.per_gib:
        if disk.size is None:
            return Unknown(because(Code.SIZE_UNKNOWN, **facts))
        # libvirt's size is without a LUKS header, so less than Cinder's whole GiB.
        gib = -(-disk.size // _GIB)
        facts["gib"] = gib
    result = evaluate(spec, gib)
    if isinstance(result, Unknown):
        return result
    if not result.said:
        return NoOpinion(because(Code.SPEC_WITHOUT_LIMITS, **facts))
    if result.arithmetic:
        facts["arithmetic"] = [asdict(row) for row in result.arithmetic]
    return Desired(result.limits, because(Code.QOS_SPEC, **facts))
