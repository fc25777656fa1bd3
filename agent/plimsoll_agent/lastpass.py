"""What the last pass over the whole node came to, and what it adds up to with all before: what ``status``, metrics,
checks and gates are views of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from statistics import median

from plimsoll_agent.catalogue import Catalogue
from plimsoll_agent.changes import BY_OTHERS
from plimsoll_agent.decide import Wants
from plimsoll_agent.disk import Disk, DiskName, guest_of
from plimsoll_agent.holds import standing_holds
from plimsoll_agent.hypervisor import GuestRef
from plimsoll_agent.limits import Limits
from plimsoll_agent.outcome import Kind, Outcome, Overlooked, PassReport
from plimsoll_agent.reason import Code, Reason, Unknown
from plimsoll_agent.refreshdir import Calls
from plimsoll_agent.usage import AT_WALL, Rates, Reading, Usage, follow


class Grade(StrEnum):
    """How a pass ended."""

    GOOD = "good"
    """Every disk is as wanted, or left alone for a reason that is nobody's fault."""
    PARTIAL = "partial"
    """Some disk or guest could not be done or looked at, or waits, or the rules are older ones than meant."""
    FAILED = "failed"
    """There was no pass: nothing could be looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastDisk:
    """One disk as the pass left it."""

    named: DiskName
    volume_type: str | None
    flavor: str | None
    cluster: str | None
    kind: Kind
    reason: Reason
    in_force: Limits | None
    """After the pass; None is not known."""
    wanted: Limits | None
    """None where nothing is wanted of it, or nobody knows what."""
    drifted: bool
    corrected: int
    """How often plimsoll has put back here what somebody else had changed."""
    attachment: str = ""
    """``Disk.attachment``: the counters of another one began anew."""
    reading: Reading | None = None
    """QEMU's counters, in seconds since the node started; None where they were not read."""
    rates: Rates | None = None
    """What it did on average since the reading before; None without one."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """The share of each limit that it used meanwhile, by the limit's name."""
    allowed: Mapping[str, float] = field(default_factory=dict)
    """What each of these limits would have let pass a second, its burst included."""

    @property
    def unlimited(self) -> bool | None:
        """None is not known."""
        return None if self.in_force is None else self.in_force.unlimited

    @property
    def at_wall(self) -> bool:
        """Held back by a limit, on average between the two readings."""
        return max(self.shares.values(), default=0.0) >= AT_WALL

    @property
    def orphaned(self) -> bool:
        """It keeps limits whose source is gone."""
        return self.kind is Kind.LEFT_ALONE and self.reason.code is Code.ORPHANED

    @property
    def astray(self) -> bool:
        """A limit is wanted, and there is none at all."""
        return bool(self.unlimited) and self.wanted is not None and not self.wanted.unlimited


@dataclass(frozen=True, slots=True)
class LastCatalogue:
    """What the pass had of the control plane: when it was issued, None where it has nothing that counts."""

    issued: datetime | None
    source: str
    old_after: int
    """Seconds."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over all passes of this node over all its guests."""

    passes: Mapping[Grade, int] = field(default_factory=dict)
    outcomes: Mapping[Kind, int] = field(default_factory=dict)
    corrected: Mapping[str, int] = field(default_factory=dict)
    """By the name of the volume type; "" for disks without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastPass:
    """Of a failed pass the disks are those of the one before: what is known of them last."""

    version: str
    """plimsoll's."""
    boot: str
    """Which run of the node it was in."""
    started: datetime
    ended: datetime
    grade: Grade
    enforcing: bool
    trouble: str = ""
    """Why there was no pass, or which rules it did not run on."""
    looked: datetime | None = None
    """When the disks were looked at; earlier than ``started`` after a pass that failed."""
    last_good: datetime | None = None
    phases: Mapping[str, float] = field(default_factory=dict)
    """Seconds by part: observe, decide, gate, apply, keep."""
    interval: float | None = None
    """Seconds between the two readings of the counters; None without two."""
    disks: tuple[LastDisk, ...] = ()
    overlooked: tuple[Overlooked, ...] = ()
    guests: int = 0
    """Those that answered."""
    notes: tuple[Reason, ...] = ()
    paused: Reason | None = None
    braked: str | None = None
    """The edition that waits for an approval."""
    braked_disks: int = 0
    holds: int = 0
    sources: Mapping[str, bool] = field(default_factory=dict)
    """Who answered: libvirt, rules, record, and the catalogue where one is configured."""
    catalogue: LastCatalogue | None = None
    calls: Calls = field(default_factory=Calls)
    busy: int = 0
    """How many passes found the node held by another one."""
    totals: Totals = field(default_factory=Totals)
    unseen: Mapping[str, int] = field(default_factory=dict)
    """How often limits were put back on disks of guests that were overlooked, by ``Disk.key``."""

    @property
    def silent(self) -> tuple[Overlooked, ...]:
        """Guests that run and do not let themselves be looked at; one that is gone is not among them."""
        return tuple(each for each in self.overlooked if each.reason.code is not Code.VANISHED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a pass is not told by its report: the node around it."""

    version: str
    boot: str
    enforcing: bool
    ended: datetime
    complaint: str = ""
    """What was wrong with the rules if it ran on older ones."""
    catalogue: LastCatalogue | None = None
    calls: Calls = field(default_factory=Calls)
    busy: int = 0


def fold(before: LastPass | None, report: PassReport, setting: Setting) -> LastPass:
    """The last pass after one that went over the whole node."""
    disks = _disks(before, report, setting.boot)
    overlooked = (*report.overlooked, *_hung(report))
    grade = _grade(report, setting)
    corrected = Counter(outcome.disk.volume_type or "" for outcome in report.outcomes if _puts_back(outcome))
    totals = _added(
        Totals() if before is None else before.totals,
        grade,
        Counter(outcome.result.kind for outcome in report.outcomes),
        corrected,
    )
    good = setting.ended if grade is Grade.GOOD else None if before is None else before.last_good
    seconds = [disk.rates.seconds for disk in disks if disk.rates is not None]
    return LastPass(
        version=setting.version,
        boot=setting.boot,
        started=report.started,
        ended=setting.ended,
        grade=grade,
        enforcing=setting.enforcing,
        trouble=setting.complaint,
        looked=report.started,
        last_good=good,
        phases=report.phases,
        interval=median(seconds) if seconds else None,
        disks=disks,
        overlooked=overlooked,
        guests=report.guests - len(overlooked),
        notes=report.notes,
        paused=report.paused,
        braked=None if report.braked is None else report.braked.edition,
        braked_disks=0 if report.braked is None else len(report.braked.keys),
        holds=len(standing_holds(report.situation.holds, report.started)),
        sources=_sources(report, setting),
        catalogue=setting.catalogue,
        calls=setting.calls,
        busy=setting.busy,
        totals=totals,
        unseen=_unseen(before, overlooked),
    )


def uncounted(before: LastPass | None, last: LastPass) -> LastPass:
    """The last pass with the counters as they were: what cannot be kept would fall with the next."""
    known = _corrected(before)
    return replace(
        last,
        totals=Totals() if before is None else before.totals,
        disks=tuple(replace(disk, corrected=known.get(disk.named.key, 0)) for disk in last.disks),
    )


def failed(before: LastPass | None, why: str, source: str, started: datetime, setting: Setting) -> LastPass:
    """The last pass after one that could not begin, since ``source`` did not answer."""
    if before is None:
        before = LastPass(
            version=setting.version,
            boot=setting.boot,
            started=started,
            ended=setting.ended,
            grade=Grade.FAILED,
            enforcing=setting.enforcing,
        )
    return replace(
        before,
        version=setting.version,
        started=started,
        ended=setting.ended,
        grade=Grade.FAILED,
        enforcing=setting.enforcing,
        trouble=why,
        phases={},
        interval=None,
        # What the disks did then is no average up to now.
        disks=tuple(replace(disk, rates=None, shares={}, allowed={}) for disk in before.disks),
        sources={source: False},  # nobody else was asked
        calls=setting.calls,
        busy=setting.busy,
        totals=_added(before.totals, Grade.FAILED, Counter(), Counter()),
    )


def _added(before: Totals, grade: Grade, outcomes: Mapping[Kind, int], corrected: Mapping[str, int]) -> Totals:
    return Totals(
        Counter(before.passes) + Counter([grade]),
        Counter(before.outcomes) + Counter(outcomes),
        Counter(before.corrected) + Counter(corrected),
    )


def _grade(report: PassReport, setting: Setting) -> Grade:
    left_undone = report.failures or report.braked or (setting.enforcing and report.count(Kind.WAITS))
    not_known = report.doubts or isinstance(report.situation.catalogue, Unknown)
    not_as_it_should = setting.complaint or report.notes
    return Grade.PARTIAL if left_undone or not_known or not_as_it_should else Grade.GOOD


def _sources(report: PassReport, setting: Setting) -> dict[str, bool]:
    unrecorded = {Code.NO_RECORD, Code.NO_RESULTS, Code.NOT_REMEMBERED, Code.NOT_SETTLED}
    sources = {
        "libvirt": True,
        "rules": not setting.complaint,
        "record": not any(note.code in unrecorded for note in report.notes),
    }
    if setting.catalogue is not None:
        sources["catalogue"] = isinstance(report.situation.catalogue, Catalogue)
    return sources


def _hung(report: PassReport) -> tuple[Overlooked, ...]:
    """Guests that libvirt lists, whose QEMU does not answer."""
    hung = {
        outcome.disk.guest.uuid: Overlooked(
            GuestRef(outcome.disk.guest.uuid, outcome.disk.guest.name), outcome.result.reason
        )
        for outcome in report.outcomes
        if outcome.result.kind is Kind.NOT_KNOWN and outcome.result.reason.code is Code.UNANSWERED
    }
    return tuple(hung.values())


def _corrected(before: LastPass | None) -> dict[str, int]:
    """How often limits were put back, by ``Disk.key``."""
    if before is None:
        return {}
    return {**before.unseen, **{disk.named.key: disk.corrected for disk in before.disks}}


def _unseen(before: LastPass | None, overlooked: Iterable[Overlooked]) -> dict[str, int]:
    guests = {each.guest.uuid for each in overlooked}
    return {key: number for key, number in _corrected(before).items() if number and guest_of(key) in guests}


def _puts_back(outcome: Outcome) -> bool:
    change = outcome.change
    return outcome.result.kind is Kind.CHANGED and change is not None and change.cause in BY_OTHERS


def _disks(before: LastPass | None, report: PassReport, boot: str) -> tuple[LastDisk, ...]:
    known = {} if before is None else {disk.named.key: disk for disk in before.disks}
    same_run = before is not None and before.boot == boot
    usages = _usages(known if same_run else {}, report)
    corrected = _corrected(before)
    return tuple(
        _disk(outcome, corrected.get(outcome.disk.key, 0), usages[outcome.disk.key]) for outcome in report.outcomes
    )


def _disk(outcome: Outcome, corrected: int, usage: Usage) -> LastDisk:
    disk, wanted, in_force = outcome.disk, outcome.decision.wanted, outcome.disk.in_force
    rates, then = usage.rates, usage.disk.in_force
    return LastDisk(
        named=disk.named,
        volume_type=disk.volume_type,
        flavor=disk.guest.flavor,
        cluster=disk.cluster,
        kind=outcome.result.kind,
        reason=outcome.result.reason,
        in_force=in_force if isinstance(in_force, Limits) else None,
        wanted=wanted.limits if isinstance(wanted, Wants) else None,
        drifted=disk.drifted,
        corrected=corrected + _puts_back(outcome),
        attachment=disk.attachment,
        reading=usage.reading,
        rates=rates,
        shares=usage.shares,
        allowed={base: then.most(base, rates.seconds) / rates.seconds for base in usage.shares}
        if rates is not None and isinstance(then, Limits)
        else {},
    )


def _usages(known: Mapping[str, LastDisk], report: PassReport) -> dict[str, Usage]:
    """What the disks did since the reading before, by ``Disk.key``."""
    of_guest: dict[str, list[Disk]] = {}
    for outcome in report.outcomes:
        of_guest.setdefault(outcome.disk.guest.uuid, []).append(_meanwhile(outcome))
    usages: dict[str, Usage] = {}
    for disks in of_guest.values():
        last = [
            Usage(disk, then.reading)
            for disk in disks
            if (then := known.get(disk.key)) is not None and then.attachment == disk.attachment
        ]
        read = {disk.target: report.readings[disk.key] for disk in disks if disk.key in report.readings}
        usages |= {usage.disk.key: usage for usage in follow(last, disks, read)}
    return usages


def _meanwhile(outcome: Outcome) -> Disk:
    """With what was in force up to this pass: what was used is not held against what the pass has put there."""
    return outcome.disk if outcome.change is None else replace(outcome.disk, in_force=outcome.change.before)
