"""The rules as values: which disks each speaks of, and what it says of them. ``rulesfile`` reads them from text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase

from plimsoll_agent.disk import Disk, Guest
from plimsoll_agent.limits import Limits
from plimsoll_agent.reason import Code, Reason, Unknown, because

UUID = re.compile(r"[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}", re.ASCII)
# What fio takes for the name of one file: a colon would part two.
DIRECTORY = r"/[A-Za-z0-9_./-]{0,199}"
# What lies there is the kernel's, or in memory: neither is a file on a disk.
_NO_FILES = ("/proc", "/sys", "/dev", "/run")
JOBS = ("read", "write", "mixed")
"""What a probe can do."""
_PATTERNS = ("flavor", "pool", "guest")


class DiskKind(StrEnum):
    """Whose a disk is."""

    VOLUME = "volume"
    """Cinder's."""
    EPHEMERAL = "ephemeral"
    """The guest's own."""


@dataclass(frozen=True, slots=True)
class Match:
    """Which disks a rule speaks of: every kind of word that is given must fit, one of its values suffices."""

    project: tuple[str, ...] = ()
    user: tuple[str, ...] = ()
    flavor: tuple[str, ...] = ()
    image: tuple[str, ...] = ()
    """Glance's id of the image that the guest was made from."""
    kind: tuple[str, ...] = ()
    pool: tuple[str, ...] = ()
    volume: tuple[str, ...] = ()
    guest: tuple[str, ...] = ()
    cluster: tuple[str, ...] = ()
    """Ceph's fsid."""

    def misfit(self, disk: Disk) -> str | Unknown | None:
        """The first word that does not fit the disk, None when all fit, ``Unknown`` when only the cluster could."""
        guest = disk.guest
        has: Mapping[str, str | None] = {
            "project": plain(guest.project),
            "user": plain(guest.user),
            "flavor": guest.flavor,
            "image": guest.image,
            "kind": DiskKind.VOLUME if disk.volume_id else DiskKind.EPHEMERAL,
            "pool": disk.pool,
            "volume": disk.volume_id,
        }
        for word, value in has.items():
            wanted = getattr(self, word)
            # Ids are compared whole: there may be many, and they are asked for each disk.
            fits = any(_fits(value, pattern) for pattern in wanted) if word in _PATTERNS else value in wanted
            if wanted and not fits:
                return word
        if self.guest and not any(_means(pattern, guest) for pattern in self.guest):
            return "guest"
        if self.cluster and disk.cluster is None:
            return Unknown(because(Code.CLUSTER_NOT_KNOWN, monitors=", ".join(disk.monitors)))
        return "cluster" if self.cluster and disk.cluster not in self.cluster else None

    def covers(self, other: Match) -> bool:
        """Whether it fits every disk that the other fits; False also where that cannot be told from the words."""
        return all(
            theirs and all(their in ours or (word in _PATTERNS and _surely_fits(their, ours)) for their in theirs)
            for word, ours, theirs in ((f.name, getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
            if ours
        )


@dataclass(frozen=True, slots=True)
class Objective:
    """How long requests may take: of each direction, which part of them is to be done in how many seconds."""

    quantiles: tuple[tuple[float, float], ...] = ()
    """``(0.99, 0.05)``: 99 % of the requests within 50 ms; in rising order."""
    slowest: float | None = None
    """The slowest request of a run, in seconds."""


@dataclass(frozen=True, slots=True)
class Probing:
    """That the guests of a rule are to be probed: with which jobs, how often, on which of their file systems."""

    every: timedelta
    jobs: tuple[str, ...] = JOBS
    directories: tuple[str, ...] = ()
    """Inside the guest; none stands for the one in the settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule: what it says of the disks that match; each of its words may be missing."""

    name: str
    match: Match
    manage: bool = True
    """False: never written to, whatever they have."""
    limits: Limits | None = None
    override: bool = False
    """The rule's limits come before what Cinder and the flavor say, not after."""
    ceiling: Limits | None = None
    """At most this, whoever gave the limits."""
    floor: Limits | None = None
    """At least this, whoever gave the limits."""
    boot_volume_by_flavor: bool = False
    """The volume that a guest boots from gets its flavor's limits where its QoS spec has none."""
    probe: Probing | None = None
    """Its guests are probed."""
    objective: Objective | None = None
    """Before that of the volume type."""
    until: datetime | None = None
    """From then on the rule is as if it were not there."""
    why: str | None = None
    """The operator's reason."""

    @property
    def reason(self) -> Reason:
        code = Code.RULE if self.manage else Code.RULE_UNMANAGES
        return because(code, rule=self.name) if self.why is None else because(code, rule=self.name, why=self.why)

    def ended(self, now: datetime) -> bool:
        return self.until is not None and now >= self.until


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules in the file's order, and the node's default limits."""

    rules: tuple[Rule, ...] = ()
    default: Limits | None = None
    objectives: Mapping[str, Objective] = field(default_factory=dict, hash=False)
    """By volume type."""
    command_line: Limits | None = None
    """Limits that a person gave by hand: they stand in for every rule but those that say ``manage: false``."""
    edition: str = field(default="", compare=False)
    """What tells these rules from others: a short digest of their text."""

    def with_command_line(self, limits: Limits) -> Rules:
        return replace(self, command_line=limits)


def directory_of(written: str) -> str:
    """The directory inside guests that a person means, without needless slashes.

    Raises ``ValueError`` with what is wrong, to stand after its name.
    """
    if not re.fullmatch(DIRECTORY, written, re.ASCII):
        raise ValueError("must be an absolute path of at most 200 letters, digits and _ . - /")
    parts = [part for part in written.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ValueError("must not have .. in it")
    directory = "/" + "/".join(parts)
    if not parts or f"/{parts[0]}" in _NO_FILES:
        raise ValueError(f"must be a directory for files, not {directory} nor below {', '.join(_NO_FILES)}")
    return directory


def plain(identifier: str | None) -> str | None:
    """Keystone writes ids of projects and users without dashes, people with them."""
    return identifier and identifier.replace("-", "").lower()


def _fits(value: str | None, pattern: str) -> bool:
    return value is not None and fnmatchcase(value, pattern)


def _surely_fits(literal: str, patterns: tuple[str, ...]) -> bool:
    if any(character in literal for character in "*?[") or UUID.fullmatch(literal):
        return False
    return any(_fits(literal, pattern) for pattern in patterns)


def _means(pattern: str, guest: Guest) -> bool:
    # An id means the guest that has it, not one whose tenant chose it for a name.
    if UUID.fullmatch(pattern):
        return guest.uuid == pattern
    return any(_fits(value, pattern) for value in (guest.name, guest.display_name, guest.uuid))
