"""Which guests are to be probed, where in them and by which rule; and how fast their requests are to be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from plimsoll_agent.disk import Disk, Guest
from plimsoll_agent.reason import Unknown
from plimsoll_agent.rules import Objective, Probing, Rules
from plimsoll_probes.job import JobName


@dataclass(frozen=True, slots=True)
class Target:
    """One directory in one guest, to be probed."""

    guest: Guest
    directory: str
    rule: str | None = None
    """The name of the rule that chose the guest; None where a person did."""

    @property
    def key(self) -> tuple[str, str]:
        """The guest's uuid, and the directory."""
        return self.guest.uuid, self.directory


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned(Target):
    """A target that is probed again and again from this node."""

    node: str
    probing: Probing
    until: datetime | None = None
    """When the rule ends."""

    @property
    def jobs(self) -> tuple[JobName, ...]:
        return tuple(JobName(job) for job in self.probing.jobs)


@dataclass(frozen=True, slots=True)
class ChosenTarget:
    """A target as the history keeps it: what the last looks at this node's guests chose."""

    guest_uuid: str
    guest_name: str
    directory: str
    rule: str | None
    jobs: tuple[JobName, ...]
    every: timedelta
    since: datetime
    """From when on it has been chosen without interruption."""
    seen: datetime
    """The last look that chose it."""

    @classmethod
    def of(cls, target: Planned, since: datetime, seen: datetime) -> ChosenTarget:
        guest, probing = target.guest, target.probing
        return cls(guest.uuid, guest.name, target.directory, target.rule, target.jobs, probing.every, since, seen)

    @property
    def key(self) -> tuple[str, str]:
        """The guest's uuid, and the directory."""
        return self.guest_uuid, self.directory


@dataclass(frozen=True, slots=True)
class Doubt:
    """A rule that would choose the guest if something were known that is not."""

    guest: Guest
    rule: str
    unknown: Unknown


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is to be probed, in the order of the guests, and what perhaps was to be."""

    targets: tuple[Planned, ...]
    doubts: tuple[Doubt, ...]


def chosen(rules: Rules, disks: Iterable[Disk], now: datetime, *, node: str, default_directory: str) -> Chosen:
    """The first rule that says ``probe`` of one of a guest's RBD disks chooses the guest, and it alone.

    A rule of which nobody knows whether it matches chooses nothing and is a doubt; the rules after it are asked.
    """
    of_guests: dict[str, list[Disk]] = {}
    for disk in disks:
        of_guests.setdefault(disk.guest.uuid, []).append(disk)
    targets: list[Planned] = []
    doubts: list[Doubt] = []
    for its_disks in of_guests.values():
        guest = its_disks[0].guest
        for rule in rules.rules:
            if rule.probe is None or rule.ended(now):
                continue
            misfits = [rule.match.misfit(disk) for disk in its_disks]
            if None in misfits:
                directories = rule.probe.directories or (default_directory,)
                targets += [
                    Planned(guest, directory, rule.name, node=node, probing=rule.probe, until=rule.until)
                    for directory in directories
                ]
                break
            unknown = next((misfit for misfit in misfits if isinstance(misfit, Unknown)), None)
            if unknown is not None:
                doubts.append(Doubt(guest, rule.name, unknown))
    return Chosen(tuple(targets), tuple(doubts))


def objective_for(rules: Rules, disk: Disk, now: datetime) -> Objective | None:
    """That of the first matching rule that has one, else that of the disk's volume type.

    None too where nobody knows whether a rule matches: a disk is not judged by what perhaps was never promised.
    """
    for rule in rules.rules:
        if rule.objective is None or rule.ended(now):
            continue
        misfit = rule.match.misfit(disk)
        if misfit is None:
            return rule.objective
        if isinstance(misfit, Unknown):
            return None
    return None if disk.volume_type is None else rules.objectives.get(disk.volume_type)
