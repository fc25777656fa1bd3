"""What Cinder and Nova say in unit tests: a catalogue that knows the attachments of these attachments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from plimsoll_agent.catalogue.attachments import Attachments, sight
from plimsoll_agent.catalogue.model import Catalogue, Server, Volume, VolumeType
from plimsoll_agent.catalogue.orders import Of, Orders, RegionApproval
from plimsoll_agent.catalogue.qosspec import QosSpec
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.reason import Unknown
from plimsoll_agent.policy.decide import Situation
from plimsoll_agent.rules.model import Rule, Rules
from tests.unit.values import NOON


def a_spec(name: str, consumer: str = "front-end", **keys: str | None) -> QosSpec:
    return QosSpec(id=f"id-of-{name}", name=name, consumer=consumer, keys=keys)


def a_type(name: str, spec: QosSpec | None, **other: Any) -> VolumeType:
    return VolumeType(id=f"id-of-{name}", name=name, qos_spec=None if spec is None else spec.id, **other)


def a_catalogue(
    *specs: QosSpec,
    types: Sequence[VolumeType] = (),
    volumes: Mapping[str, VolumeType | None] | None = None,
    met: Attachments | None = None,
    **other: Any,
) -> Catalogue:
    """Every volume (by its id) was asked for just the attachments that are ``met``."""
    marks = {} if met is None else met.marks_of_volumes()
    return Catalogue(
        **{
            "generation": 1,
            "issued": NOON,
            "source": "north",
            "specs": {spec.id: spec for spec in specs},
            "types": {type.id: type for type in types},
            "volumes": {
                volume: Volume(type=of and of.id, marks=frozenset(marks.get(volume, ())), read=NOON)
                for volume, of in (volumes or {}).items()
            },
        }
        | other
    )


def met(*disks: Disk) -> Attachments:
    return sight(disks, Attachments(), {}, NOON, boot="b1")


def orders_for(
    known: Catalogue, *remove: VolumeType, of: Of = Of.SPECS, until: datetime = NOON + timedelta(days=7)
) -> Orders:
    """The region approved of just the specs and types of this catalogue, and of removals of these types."""
    removed = frozenset(type.id for type in remove)
    return Orders(
        approvals=(
            RegionApproval(
                of=of, digest=known.digest, since=NOON, until=until, by="root (ann)", why="as agreed", remove=removed
            ),
        )
    )


def a_server(met: Attachments, uuid: str, missing: bool = False, **extra_specs: str) -> Server:
    specs = {f"quota:{name}": value for name, value in extra_specs.items()}
    return Server(extra_specs=specs, marks=frozenset({met.guests[uuid].mark}), read=NOON, missing=missing)


def knowing(known: Catalogue | Unknown | None, met: Attachments, *rules: Rule, **other: Any) -> Situation:
    return Situation(now=NOON, rules=Rules(rules=rules), catalogue=known, attachments=met, **other)
