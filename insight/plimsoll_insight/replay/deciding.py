"""The limits that a disk would have under other rules and QoS specs: ``decide`` as on nodes, on what metrics tell.

What no metric has is not guessed: where the answer depends on it, it is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import product

from plimsoll_agent.catalogue.attachments import Attachment, Attachments
from plimsoll_agent.catalogue.model import Catalogue, Volume, VolumeType
from plimsoll_agent.model.disk import Disk, Guest
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.policy.decide import Desired, Situation, Unmanaged, decide
from plimsoll_agent.policy.sources import SOURCES
from plimsoll_agent.qos.file import Declaration
from plimsoll_agent.rules.model import Rules
from plimsoll_agent.util.frozen import replace
from plimsoll_insight.replay.values import ReplayedDisk, UnknownReason

_MARK = "replay"
_IN_NO_METRIC = ("user", "image")
_MOST_OPEN = 6
"""Rules of which it is open whether they match; each doubles the cases."""
_WHY: Mapping[Code, UnknownReason] = {
    Code.NO_CATALOGUE: UnknownReason.SPECS,
    Code.VOLUME_NOT_FETCHED: UnknownReason.TYPE,
    Code.TYPE_NOT_LISTED: UnknownReason.TYPE_NOT_LISTED,
    Code.SIZE_UNKNOWN: UnknownReason.SIZE,
    Code.FLAVOR_NOT_FETCHED: UnknownReason.FLAVOR,
    Code.CLUSTER_UNKNOWN: UnknownReason.CLUSTER,
    Code.NOT_READ: UnknownReason.ATTACH,
}


class Deciding:
    """The other rules and QoS specs; None where the specs are unknown."""

    def __init__(self, rules: Rules, declaration: Declaration | None, now: datetime) -> None:
        self._now, self._rules = now, rules
        self._catalogue: Catalogue | Unknown = (
            Unknown(because(Code.NO_CATALOGUE)) if declaration is None else _catalogue(declaration, now)
        )
        self._open = {
            rule.name: replace(rule, match=replace(rule.match, user=(), image=()))
            for rule in rules.rules
            if any(getattr(rule.match, key) for key in _IN_NO_METRIC)
        }
        self._roots = (False, True) if any(rule.boot_volume_by_flavor for rule in rules.rules) else (False,)
        self._cases: dict[tuple[str, ...], list[Rules]] = {}

    def limits(self, subject: ReplayedDisk) -> Limits | UnknownReason | None:
        """Its limits; None where plimsoll leaves those that it has."""
        if subject.held or subject.reason == Code.THROTTLE_FILTERS:
            return None
        disk = disk_of(subject)
        fitting = tuple(name for name, rule in self._open.items() if not isinstance(rule.match.misfit(disk), str))
        if len(fitting) > _MOST_OPEN:
            return UnknownReason.RULE_KEYS
        if fitting not in self._cases:
            self._cases[fitting] = list(self._each_case(fitting))
        answers = {self._decided(subject, rules, root) for rules, root in product(self._cases[fitting], self._roots)}
        return answers.pop() if len(answers) == 1 else UnknownReason.RULE_KEYS

    def _each_case(self, names: Sequence[str]) -> Iterator[Rules]:
        """The rules, if each of these matches, and if it does not."""
        for matches in product((True, False), repeat=len(names)):
            choice = dict(zip(names, matches, strict=True))
            rules = (
                self._open.get(rule.name, rule) if choice.get(rule.name) else rule
                for rule in self._rules.rules
                if choice.get(rule.name, True)
            )
            yield replace(self._rules, rules=tuple(rules))

    def _decided(self, subject: ReplayedDisk, rules: Rules, root: bool) -> Limits | UnknownReason | None:
        disk = disk_of(subject, root=root)
        attachment = {disk.key: Attachment(mark=_MARK, since=self._now)}
        situation = Situation(
            now=self._now, rules=rules, catalogue=self._with(disk), attachments=Attachments(volumes=attachment)
        )
        match decide(disk, situation, SOURCES).desired:
            case Desired(limits=limits):
                return limits
            case Unmanaged():
                return None
            case Unknown(reason=reason):
                return _WHY.get(reason.code, UnknownReason.SPEC)

    def _with(self, disk: Disk) -> Catalogue | Unknown:
        """A volume whose type no metric has is left out."""
        if isinstance(self._catalogue, Unknown) or disk.volume_id is None or disk.volume_type is None:
            return self._catalogue
        volume = Volume(type=disk.volume_type, marks=frozenset([_MARK]), read=self._now)
        return Catalogue(
            generation=1,
            issued=self._now,
            source=self._catalogue.source,
            specs=self._catalogue.specs,
            types=self._catalogue.types,
            volumes={disk.volume_id: volume},
        )


def disk_of(subject: ReplayedDisk, *, root: bool = False) -> Disk:
    """The disk as a pass sees it, as far as metrics tell; ``root``: its guest boots from it."""
    facts = {name: value or None for name, value in subject.facts.items()}
    volume = facts.get("volume")
    quotas, attach_time = _source(subject)
    guest = Guest(
        uuid=subject.uuid,
        name=subject.domain,
        run=None,
        display_name=facts.get("server"),
        project=facts.get("project"),
        project_name=facts.get("project_name"),
        flavor=facts.get("flavor"),
        extra_specs=quotas,
        boots_from_volume=root and volume is not None,
    )
    return Disk(
        guest=guest,
        target=subject.target,
        pool=subject.facts.get("pool", ""),
        image="",
        node="",
        volume_id=volume,
        defined=attach_time,
        root=root,
        volume_type=facts.get("volume_type"),
        cluster=facts.get("cluster"),
        actual=subject.actual,
    )


def _source(subject: ReplayedDisk) -> tuple[Mapping[str, str] | None, Limits | Unknown]:
    """The extra specs of its flavor, and its attach-time limits: known where sources after them had the last word."""
    match subject.reason:
        case Code.NODE_DEFAULT | Code.NO_LIMIT:
            return {}, Limits()
        case Code.FOREIGN_LIMIT if subject.actual is not None:
            return {}, subject.actual
    return None, Unknown(because(Code.NOT_READ, detail="in no metric"))


def _catalogue(declaration: Declaration, now: datetime) -> Catalogue:
    """As Cinder would answer: names are the ids."""
    return Catalogue(
        generation=1,
        issued=now,
        source="file",
        specs={name: replace(spec.as_cinders, id=name) for name, spec in declaration.specs.items()},
        types={
            name: VolumeType(id=name, name=name, qos_spec=type.qos_spec) for name, type in declaration.types.items()
        },
    )
