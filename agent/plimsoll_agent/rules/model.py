"""The rules as values: which disks each matches, and its effects on them. ``loader`` reads them from text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase

from plimsoll_agent.credits.model import Credits
from plimsoll_agent.model.disk import Disk, Guest
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Reason, Unknown, because
from plimsoll_agent.util.decoding import Amount
from plimsoll_agent.util.frozen import frozen, names, replace

UUID = re.compile(r"[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}", re.ASCII)
# The name of one file to fio: a colon would separate two.
DIRECTORY = r"/[A-Za-z0-9_./-]{0,199}"
# Files there are the kernel's, or in memory, not on a disk.
_NO_FILES = ("/proc", "/sys", "/dev", "/run")
JOBS = ("read", "write", "mixed")
"""Jobs of a probe."""
_PATTERNS = ("flavor", "pool", "guest")


class DiskKind(StrEnum):
    VOLUME = "volume"
    """Cinder's."""
    EPHEMERAL = "ephemeral"
    """Nova's, created with the guest."""


@frozen(kw_only=True)
class Match:
    """Which disks a rule matches: every key that is given must match, by any of its values."""

    project: tuple[str, ...] = ()
    user: tuple[str, ...] = ()
    flavor: tuple[str, ...] = ()
    image: tuple[str, ...] = ()
    """Glance's id of the image that the guest was created from."""
    kind: tuple[str, ...] = ()
    pool: tuple[str, ...] = ()
    volume: tuple[str, ...] = ()
    guest: tuple[str, ...] = ()
    cluster: tuple[str, ...] = ()
    """Ceph's fsid."""

    def misfit(self, disk: Disk) -> str | Unknown | None:
        """The first key that does not match the disk, None if all match, ``Unknown`` if it depends on the cluster."""
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
            desired = getattr(self, word)
            # Ids are compared whole: there may be many, and each disk is compared with all of them.
            fits = any(_fits(value, pattern) for pattern in desired) if word in _PATTERNS else value in desired
            if desired and not fits:
                return word
        if self.guest and not any(_means(pattern, guest) for pattern in self.guest):
            return "guest"
        if self.cluster and disk.cluster is None:
            return Unknown(because(Code.CLUSTER_UNKNOWN, monitors=", ".join(disk.monitors)))
        return "cluster" if self.cluster and disk.cluster not in self.cluster else None

    def covers(self, other: Match) -> bool:
        """Whether it surely matches every disk that the other matches."""
        return all(
            others and all(value in own or (word in _PATTERNS and _surely_fits(value, own)) for value in others)
            for word, own, others in ((name, getattr(self, name), getattr(other, name)) for name in names(self))
            if own
        )


@frozen
class Objective:
    """How long requests may take; reads and writes are compared with it separately."""

    quantiles: tuple[tuple[Amount, Amount], ...] = ()
    """``(0.99, 0.05)`` is 99 % of the requests within 50 ms; in rising order."""
    slowest: Amount | None = None
    """The longest time of any request of a run, in seconds."""


@frozen
class Probing:
    """How the guests of a rule are probed: how often, with which jobs, on which of their file systems."""

    every: timedelta
    jobs: tuple[str, ...] = JOBS
    directories: tuple[str, ...] = ()
    """Inside the guest; if empty, the directory in the settings."""


@frozen
class UnderCongestion:
    """How far disks may be reduced while their cluster is congested."""

    floor: Limits
    """Never below these; a limit without a floor here is never reduced."""
    share: float = 1.0
    """The part of the cluster that they get, as a multiple of their desired limits."""


@frozen(kw_only=True)
class Rule:
    """One rule: its match, and its effects on disks that match."""

    name: str
    match: Match
    manage: bool = True
    """False: plimsoll never writes limits of these disks."""
    limits: Limits | None = None
    override: bool = False
    """The rule's limits take precedence over those of Cinder and the flavor."""
    ceiling: Limits | None = None
    """The upper bound, whatever source the limits come from."""
    floor: Limits | None = None
    """The lower bound, whatever source the limits come from."""
    guest_ceiling: Limits | None = None
    """The upper bound of all disks of a guest together."""
    project_ceiling: Limits | None = None
    """The upper bound of all disks of a project on this node together."""
    credits: Credits | None = None
    """The burst on top of the limits, whatever source they come from."""
    boot_volume_by_flavor: bool = False
    """The volume that a guest boots from gets its flavor's limits if its QoS spec has none."""
    probe: Probing | None = None
    objective: Objective | None = None
    """Takes precedence over that of the volume type."""
    congestion: UnderCongestion | None = None
    until: datetime | None = None
    """The rule has no effect from then on."""
    why: str | None = None
    """The operator's reason."""

    @property
    def reason(self) -> Reason:
        code = Code.RULE if self.manage else Code.RULE_UNMANAGES
        return because(code, rule=self.name) if self.why is None else because(code, rule=self.name, why=self.why)

    def ended(self, now: datetime) -> bool:
        return self.until is not None and now >= self.until


@frozen(kw_only=True)
class Rules:
    """The rules in the file's order, and the node's default limits."""

    rules: tuple[Rule, ...] = ()
    default: Limits | None = None
    objectives: Mapping[str, Objective] = field(default_factory=dict, hash=False)
    """By volume type."""
    command_line: Limits | None = None
    """Limits from the command line: they replace every rule except those with ``manage: false``."""
    revision: str = field(default="", compare=False)
    """The digest of their text."""

    def with_command_line(self, limits: Limits) -> Rules:
        return replace(self, command_line=limits)

    @property
    def share_ceilings(self) -> bool:
        """Whether a rule has a ceiling for several disks together."""
        return any(rule.guest_ceiling is not None or rule.project_ceiling is not None for rule in self.rules)

    def guests_to_probe(self, disks: Iterable[Disk], now: datetime) -> frozenset[str]:
        """The uuids of the guests that a rule with ``probe`` chooses, as far as that is known."""
        rules = [rule for rule in self.rules if rule.probe is not None and not rule.ended(now)]
        return frozenset(disk.guest.uuid for disk in disks if any(rule.match.misfit(disk) is None for rule in rules))


def directory_of(text: str) -> str:
    """The directory inside guests that is written so, without needless slashes.

    Raises ``ValueError``; its text follows the option's name.
    """
    if not re.fullmatch(DIRECTORY, text, re.ASCII):
        raise ValueError("must be an absolute path of at most 200 letters, digits and _ . - /")
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ValueError("must not have .. in it")
    directory = "/" + "/".join(parts)
    if not parts or f"/{parts[0]}" in _NO_FILES:
        raise ValueError(f"must be a directory for files, not {directory} nor below {', '.join(_NO_FILES)}")
    return directory


def plain(identifier: str | None) -> str | None:
    """Keystone writes ids of projects and users without dashes, people often with them."""
    return identifier and identifier.replace("-", "").lower()


def _fits(value: str | None, pattern: str) -> bool:
    return value is not None and fnmatchcase(value, pattern)


def _surely_fits(literal: str, patterns: tuple[str, ...]) -> bool:
    if any(character in literal for character in "*?[") or UUID.fullmatch(literal):
        return False
    return any(_fits(literal, pattern) for pattern in patterns)


def _means(pattern: str, guest: Guest) -> bool:
    # An id matches the guest that has it, not one whose tenant gave it that name.
    if UUID.fullmatch(pattern):
        return guest.uuid == pattern
    return any(_fits(value, pattern) for value in (guest.name, guest.display_name, guest.uuid))
