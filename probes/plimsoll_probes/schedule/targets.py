"""Finds which guests the rules choose for probes, in which directory, and with which latency objective."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from plimsoll_agent.model.disk import Disk, Guest
from plimsoll_agent.model.reason import Unknown
from plimsoll_agent.rules.model import Objective, Probing, Rules
from plimsoll_agent.util.frozen import frozen
from plimsoll_probes.model.job import JobName


@frozen
class Target:
    """One directory in one guest that is probed."""

    guest: Guest
    directory: str
    rule: str | None
    """The name of the rule that chose the guest; None with ``--here``."""

    @property
    def key(self) -> tuple[str, str]:
        """The guest's uuid, and the directory."""
        return self.guest.uuid, self.directory


@frozen
class PlannedTarget(Target):
    """A target that this node probes regularly."""

    node: str
    probing: Probing
    until: datetime | None = None
    """When the rule ends."""

    @property
    def jobs(self) -> tuple[JobName, ...]:
        return tuple(JobName(job) for job in self.probing.jobs)


@frozen(kw_only=True)
class ChosenTarget:
    """A target as the history keeps it: what the last ``probe run`` chose."""

    guest_uuid: str
    guest_name: str
    directory: str
    rule: str | None
    jobs: tuple[JobName, ...]
    every: timedelta
    since: datetime
    """Since when it has been chosen without interruption."""
    seen: datetime
    """When it was last chosen."""

    @classmethod
    def of(cls, target: PlannedTarget, since: datetime, now: datetime) -> ChosenTarget:
        guest, probing = target.guest, target.probing
        return cls(
            guest_uuid=guest.uuid,
            guest_name=guest.name,
            directory=target.directory,
            rule=target.rule,
            jobs=target.jobs,
            every=probing.every,
            since=since,
            seen=now,
        )

    @property
    def key(self) -> tuple[str, str]:
        """The guest's uuid, and the directory."""
        return self.guest_uuid, self.directory


@frozen
class Doubt:
    """A rule of which it is unknown whether it chooses the guest."""

    guest: Guest
    rule: str
    unknown: Unknown


@frozen
class TargetChoice:
    """The targets, in the order of the guests, and the doubts."""

    targets: tuple[PlannedTarget, ...]
    doubts: tuple[Doubt, ...]


def choose(rules: Rules, disks: Iterable[Disk], now: datetime, *, node: str, default_directory: str) -> TargetChoice:
    """The first rule with ``probe`` that matches any RBD disk of a guest chooses the guest.

    Where it is unknown whether a rule matches, it chooses nothing and becomes a doubt; the next rules are tried.
    """
    of_guests: dict[str, list[Disk]] = {}
    for disk in disks:
        of_guests.setdefault(disk.guest.uuid, []).append(disk)
    targets: list[PlannedTarget] = []
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
                    PlannedTarget(guest, directory, rule.name, node=node, probing=rule.probe, until=rule.until)
                    for directory in directories
                ]
                break
            unknown = next((misfit for misfit in misfits if isinstance(misfit, Unknown)), None)
            if unknown is not None:
                doubts.append(Doubt(guest, rule.name, unknown))
    return TargetChoice(tuple(targets), tuple(doubts))


def objective_for(rules: Rules, disk: Disk, now: datetime) -> Objective | None:
    """The objective of the first matching rule that has one, else that of the disk's volume type.

    None also where it is unknown whether a rule matches: its objective may not have been promised.
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
