"""The summary of the last pass over the whole node, with sums over all passes. ``status``, metrics, checks and
rollouts read it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime

from plimsoll_agent.catalogue.model import Catalogue
from plimsoll_agent.congestion.published import Factors
from plimsoll_agent.congestion.signal import PoolKey, Wait, of_pools
from plimsoll_agent.model.disk import Disk, DiskName, guest_of
from plimsoll_agent.model.holds import active_holds
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Reason, Unknown, because
from plimsoll_agent.model.usage import AT_LIMIT_RATIO, Rates, Reading, Usage, follow
from plimsoll_agent.policy.decide import Desired
from plimsoll_agent.policy.diff import EXTERNAL
from plimsoll_agent.reconcile.brake import stage_in_effect
from plimsoll_agent.reconcile.grade import Grade, grade
from plimsoll_agent.reconcile.outcome import ACKNOWLEDGED, NEW, Kind, Mode, Outcome, PassReport, UnreachableGuest
from plimsoll_agent.reconcile.savings import shares
from plimsoll_agent.store.refresh_state import Calls
from plimsoll_agent.util.decoding import Amount, Count, Moment
from plimsoll_agent.util.frozen import frozen, replace

PAUSED, BRAKED, TO_PROBE = "paused", "braked", "to-probe"
"""Keys of ``LastPass.wrong_since``, beside names of sources and uuids of guests."""
_GATED = (Code.CLUSTER_UNHEALTHY, Code.CLUSTER_UNREACHABLE, Code.CLUSTER_UNKNOWN)


@frozen(kw_only=True)
class LastDisk:
    """One disk after the pass."""

    named: DiskName
    volume_type: str | None
    flavor: str | None
    cluster: str | None
    kind: Kind
    reason: Reason
    actual: Limits | None
    """After the pass; None is unknown."""
    desired: Limits | None
    """None where no limits are desired, or they are unknown; then of an unlimited disk those desired last."""
    drifted: bool
    corrected: Count
    """How many external changes plimsoll has reverted on this disk."""
    attachment: str = ""
    """``Disk.attachment``: another one has counters from 0."""
    reading: Reading | None = None
    """QEMU's counters, in seconds since the node started; None where they were not read."""
    rates: Rates | None = None
    """Averages since the reading before; None without one."""
    shares: Mapping[str, Amount] = field(default_factory=dict)
    """The share of each limit that it used in that time, by the limit's name."""
    allowed: Mapping[str, Amount] = field(default_factory=dict)
    """What each of these limits allowed a second, its burst included."""
    unreduced: Limits | None = None
    """The limits without a reduction under congestion; None for a disk that is not reduced."""
    device_class: str | None = None
    """The class of its pool for which it is reduced."""
    saved: Mapping[str, Amount] = field(default_factory=dict)
    """The share of each burst that is saved, by the limit's name; where it is known."""
    server: str | None = None
    """The guest's name in Nova."""
    project_name: str | None = None
    is_new: bool = False
    """Its limits are unknown only until the next catalogue."""
    acknowledged: Reason | None = None
    """An operator knows that it is unknown."""
    held_until: Moment | None = None
    """The end of an operator's hold."""
    since: Moment | None = None
    """The pass that first found it in this state for this reason; None is unknown."""

    @property
    def unlimited(self) -> bool | None:
        """None is unknown."""
        return None if self.actual is None else self.actual.unlimited

    @property
    def at_limit(self) -> bool:
        """Whether it was at a limit, on average between the two readings."""
        return max(self.shares.values(), default=0.0) >= AT_LIMIT_RATIO

    @property
    def state(self) -> str:
        """As ``PassReport.state``."""
        if self.acknowledged is not None:
            return ACKNOWLEDGED
        return NEW if self.is_new else self.kind.value

    @property
    def unknown(self) -> bool:
        """Its actual or its desired limits are unknown, and should be known, and no operator knows of it."""
        return self.state == Kind.UNKNOWN

    @property
    def gated(self) -> bool:
        """A change is deferred since its cluster is unhealthy, or its health unknown."""
        return self.kind is Kind.DEFERRED and self.reason.code in _GATED

    @property
    def orphaned(self) -> bool:
        """Whether it keeps limits whose source is gone."""
        return self.kind is Kind.LEFT_ALONE and self.reason.code is Code.ORPHANED

    @property
    def astray(self) -> bool:
        """Whether a limit is desired and the disk has none."""
        return bool(self.unlimited) and self.desired is not None and not self.desired.unlimited


@frozen
class LastCatalogue:
    """The catalogue that the pass used."""

    issued: Moment | None
    """None where there is no valid catalogue."""
    source: str
    stale_after: Count
    """Seconds."""


@frozen(kw_only=True)
class LastCeiling:
    """A ceiling of a guest or project, by its rates under libvirt's names."""

    whose: str
    owner: str
    rule: str
    ceiling: Mapping[str, Count]
    allowed: Mapping[str, Count]
    """What the limits of its disks allow together."""
    used: Mapping[str, Amount | None]
    """What these did since the pass before; None is unknown."""


@frozen(kw_only=True)
class Totals:
    """Sums over all passes of this node over all its guests."""

    passes: Mapping[Grade, Count] = field(default_factory=dict)
    outcomes: Mapping[Kind, Count] = field(default_factory=dict)
    corrected: Mapping[str, Count] = field(default_factory=dict)
    """By the name of the volume type; "" for disks without one."""
    light: Mapping[PoolKey, Wait] = field(default_factory=dict)
    """What light disks of each pool waited."""


@frozen(kw_only=True)
class LastPass:
    """After a failed pass the disks are those of the one before."""

    version: str
    """plimsoll's."""
    boot: str
    """The node's boot id."""
    started: Moment
    ended: Moment
    grade: Grade
    enforcing: bool
    trouble: str = ""
    """Why there was no pass, or why it did not use the current rules."""
    looked: Moment | None = None
    """When the disks were observed; earlier than ``started`` after a failed pass."""
    last_good: Moment | None = None
    phases: Mapping[str, Amount] = field(default_factory=dict)
    """Seconds by part: observe, decide, gate, apply, keep."""
    interval: Amount | None = None
    """Seconds between the two readings of the counters; None without two."""
    disks: tuple[LastDisk, ...] = ()
    unreachable: tuple[UnreachableGuest, ...] = ()
    guests: Count = 0
    """How many answered."""
    notes: tuple[Reason, ...] = ()
    paused: Reason | None = None
    revision: str = ""
    """The revision of the rules that it ran on."""
    braked: str | None = None
    """The revision that needs approval."""
    braked_disks: Count = 0
    holds: Count = 0
    sources: Mapping[str, bool] = field(default_factory=dict)
    """Which are up: libvirt, rules, record, writes, disks, where they are configured the catalogue, its refresh
    and the region's orders."""
    catalogue: LastCatalogue | None = None
    calls: Calls = field(default_factory=Calls)
    busy: Count = 0
    """How many passes were skipped because another one was running."""
    totals: Totals = field(default_factory=Totals)
    missing: tuple[DiskName, ...] = ()
    """Disks of an earlier pass, if no RBD disk is found, while their guests run with disks in their places."""
    kernel_mapped: tuple[str, ...] = ()
    """As in ``Observation``: disks on RBD that plimsoll does not limit."""
    unseen: Mapping[str, Count] = field(default_factory=dict)
    """``corrected`` of disks of unreachable guests, by ``Disk.key``."""
    unread: Mapping[str, tuple[str, Reading]] = field(default_factory=dict)
    """``attachment`` and the last ``reading`` of disks that were not read now, by ``Disk.key``: what such a disk does
    until its next reading is in the averages then."""
    wrong_since: Mapping[str, Moment] = field(default_factory=dict)
    """The first pass of those on end that found this: ``PAUSED``, ``BRAKED``, guests ``TO_PROBE``, a source that is
    down, a guest (by its uuid) that is unreachable."""

    paused_guests: frozenset[str] = frozenset()
    """The uuids of those that a person had paused."""
    hung_guests: frozenset[str] = frozenset()
    """The uuids of those that did not answer a call of the pass, writes included."""
    healthy: frozenset[str] = frozenset()
    """As in ``PassReport``."""
    position: Amount | None = None
    """Where the node is in stages of approvals; None without a region file."""
    stage: str | None = None
    """The digest of the approval with stages whose specs and types, or rules, it used."""
    guests_to_probe: Count = 0
    """How many a rule with ``probe`` chooses."""
    ceilings: tuple[LastCeiling, ...] = ()
    servers: Mapping[str, str] = field(default_factory=dict)
    """The names of servers whose guests (by uuid) are unreachable, from passes in which they were not."""

    @property
    def running_unreachable(self) -> tuple[UnreachableGuest, ...]:
        """Guests that run but are unreachable, without those that have stopped."""
        return tuple(each for each in self.unreachable if each.reason.code is not Code.NOT_FOUND)


@frozen(kw_only=True)
class PassSetting:
    """What the summary needs beside the report of the pass."""

    version: str
    boot: str
    ended: datetime
    stale_after: int = 0
    """Seconds after which a catalogue is stale."""
    calls: Calls = field(default_factory=Calls)
    refreshes_failed: int = 0
    """How many refreshes of the catalogue failed in a row."""
    refresh_trouble: str = ""
    """Why the last one of these failed."""
    busy: int = 0
    between: tuple[Outcome, ...] = ()
    """What passes over single guests have changed, or failed to, since the pass before."""
    takes_orders: bool = False
    """There may be orders for the region: the node uses its region file."""


TOLERATED_FAILURES = 1
"""One refresh may meet a restart of Cinder or of its load balancer; the next one is minutes later."""


def _median(seconds: Iterable[float]) -> float:
    """Like that of ``statistics``, which is slow to import."""
    values = sorted(seconds)
    return (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2


def fold(before: LastPass | None, report: PassReport, setting: PassSetting) -> LastPass:
    """The summary after a pass over the whole node."""
    readings = _readings(before, setting)
    usages = _usages(readings, report)
    disks = _disks(before, report, setting, usages)
    unreachable = report.unreachable_guests
    missing = _missing(before, report)
    notes = (*report.notes, *_notes_of(missing))
    own_grade = grade(replace(report, notes=notes))
    outcomes = (*report.outcomes, *setting.between)
    reverts = Counter(outcome.disk.volume_type or "" for outcome in outcomes if _reverts(outcome))
    totals = _added(
        Totals() if before is None else before.totals,
        own_grade,
        Counter(outcome.result.kind for outcome in outcomes),
        reverts,
        usages.values(),
    )
    sources, complaints = _sources(report, setting, disks, missing)
    notes, pause, brake = (*notes, *complaints), report.paused, report.braked
    good = setting.ended if own_grade is Grade.GOOD else None if before is None else before.last_good
    seconds = [disk.rates.seconds for disk in disks if disk.rates is not None]
    to_probe = report.situation.rules.guests_to_probe((outcome.disk for outcome in report.outcomes), report.started)
    return LastPass(
        version=setting.version,
        boot=setting.boot,
        started=report.started,
        ended=setting.ended,
        grade=own_grade,
        enforcing=report.mode is Mode.ENFORCE,
        trouble=report.complaint,
        looked=report.started,
        last_good=good,
        phases=report.phases,
        interval=_median(seconds) if seconds else None,
        disks=disks,
        unreachable=unreachable,
        guests=report.guests - len(unreachable),
        notes=notes,
        paused=pause,
        revision=report.situation.rules.revision,
        braked=None if brake is None else brake.revision,
        braked_disks=0 if brake is None else len(brake.keys),
        holds=len(active_holds(report.situation.holds, report.started)),
        sources=sources,
        catalogue=_catalogue(report.situation.catalogue, setting.stale_after),
        calls=setting.calls,
        busy=setting.busy,
        totals=totals,
        missing=missing,
        kernel_mapped=report.kernel_mapped,
        unseen=_unseen(before, unreachable),
        unread=_unread(readings, disks, unreachable),
        healthy=report.healthy,
        paused_guests=report.paused_guests,
        hung_guests=report.hung_guests.union(
            each.guest.uuid for each in unreachable if each.reason.code is Code.TIMED_OUT
        ),
        ceilings=tuple(_ceilings(report)),
        guests_to_probe=len(to_probe),
        position=report.situation.orders.position,
        stage=None if (approval := stage_in_effect(report.situation)) is None else approval.digest,
        servers=_servers(before, report, unreachable),
        wrong_since=_wrong_since(
            before,
            report.started,
            [PAUSED] * (pause is not None)
            + [BRAKED] * (brake is not None)
            + [TO_PROBE] * bool(to_probe)
            + [source for source, is_up in sources.items() if not is_up]
            + [each.guest.uuid for each in unreachable],
        ),
    )


def _ceilings(report: PassReport) -> Iterator[LastCeiling]:
    for bucket, each in report.situation.ceilings.shared.items():
        yield LastCeiling(
            whose=bucket.whose.value,
            owner=bucket.owner,
            rule=bucket.rule,
            ceiling={rate: getattr(each.ceiling, rate) for rate in each.ceiling.rates()},
            allowed=each.allowed,
            used=each.used,
        )


def _missing(before: LastPass | None, report: PassReport) -> tuple[DiskName, ...]:
    """Disks that were on RBD. A detached volume leaves no disk in its place, and a guest without any has none."""
    if before is None or report.outcomes:
        return ()
    others = report.other_disks
    disks = {each.key: each for each in (*before.missing, *(disk.named for disk in before.disks))}
    return tuple(
        each
        for each in disks.values()
        if each.guest_uuid in others and (each.target in others[each.guest_uuid] or not others[each.guest_uuid])
    )


def _notes_of(missing: Sequence[DiskName]) -> Iterator[Reason]:
    if missing:
        head, more = missing[0], f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        yield because(Code.NO_DISK_FOUND, detail=f"{head.guest_name} {head.target}{more}")


def uncounted(before: LastPass | None, last: LastPass) -> LastPass:
    """The summary with the counters of ``before``: if it cannot be saved, higher ones would fall at the next pass."""
    reverts = _corrected(before)
    return replace(
        last,
        totals=Totals() if before is None else before.totals,
        disks=tuple(replace(disk, corrected=reverts.get(disk.named.key, 0)) for disk in last.disks),
    )


def failed(
    before: LastPass | None, mode: Mode, why: str, source: str, start: datetime, setting: PassSetting
) -> LastPass:
    """The summary after a pass that failed because ``source`` did not answer."""
    if before is None:
        before = LastPass(
            version=setting.version,
            boot=setting.boot,
            started=start,
            ended=setting.ended,
            grade=Grade.FAILED,
            enforcing=mode is Mode.ENFORCE,
        )
    return replace(
        before,
        version=setting.version,
        started=start,
        ended=setting.ended,
        grade=Grade.FAILED,
        enforcing=mode is Mode.ENFORCE,
        trouble=why,
        phases={},
        interval=None,
        # Their averages are not up to now.
        disks=tuple(replace(disk, rates=None, shares={}, allowed={}) for disk in before.disks),
        sources={source: False},  # no other source was asked
        wrong_since={**before.wrong_since, **_wrong_since(before, start, [source])},
        calls=setting.calls,
        busy=setting.busy,
        totals=_added(before.totals, Grade.FAILED, Counter(), Counter()),
    )


def _wrong_since(before: LastPass | None, now: datetime, wrong: Iterable[str]) -> dict[str, datetime]:
    since = {} if before is None else before.wrong_since
    return {name: since.get(name, now) for name in wrong}


def _added(
    before: Totals,
    grade: Grade,
    outcomes: Mapping[Kind, int],
    reverts: Mapping[str, int],
    usages: Collection[Usage] = (),
) -> Totals:
    return Totals(
        passes=Counter(before.passes) + Counter([grade]),
        outcomes=Counter(before.outcomes) + Counter(outcomes),
        corrected=Counter(before.corrected) + Counter(reverts),
        light=of_pools(before.light, usages) if usages else before.light,
    )


def _serve(factors: Factors, disks: Iterable[LastDisk]) -> bool:
    """Of several machines that may publish a cluster one does, so a file that is missing may be no fault."""
    clusters = {disk.cluster for disk in disks if disk.cluster}
    return bool(factors.clusters) and clusters <= factors.clusters.keys()


def _catalogue(catalogue: Catalogue | Unknown | None, stale_after: int) -> LastCatalogue | None:
    """None where none is configured."""
    if isinstance(catalogue, Catalogue):
        return LastCatalogue(catalogue.issued, catalogue.source, stale_after)
    return None if catalogue is None else LastCatalogue(None, "", stale_after)


def _sources(
    report: PassReport, setting: PassSetting, disks: Sequence[LastDisk], missing: Sequence[DiskName]
) -> tuple[dict[str, bool], list[Reason]]:
    """Which sources the pass had, and notes about those that it had not."""
    no_record = {Code.NO_RECORD, Code.NO_RESULTS, Code.NOT_REMEMBERED, Code.NOT_SETTLED}
    sources = {
        "libvirt": True,
        "rules": not report.complaint,
        "record": not any(note.code in no_record for note in report.notes),
        "writes": not any(note.code is Code.TRIAL_FAILED for note in report.notes),
    }
    if report.situation.catalogue is not None:
        sources["catalogue"] = isinstance(report.situation.catalogue, Catalogue)
    sources["disks"] = not missing
    if setting.takes_orders:
        sources["orders"] = report.situation.orders_unknown is None
    notes: list[Reason] = []
    if "catalogue" in sources:
        failures, detail = setting.refreshes_failed, setting.refresh_trouble
        sources["refresh"] = failures <= TOLERATED_FAILURES
        if not sources["refresh"]:
            notes.append(because(Code.REFRESH_FAILED, refreshes=failures, detail=detail))
    factors = report.situation.congestion()
    if factors is not None:
        sources["congestion"] = not factors.fault or _serve(factors, disks)
        if not sources["congestion"]:
            notes.append(because(Code.CONGESTION_UNKNOWN, detail=factors.fault))
    return sources, notes


def _corrected(before: LastPass | None) -> dict[str, int]:
    """How many external changes were reverted, by ``Disk.key``."""
    if before is None:
        return {}
    return {**before.unseen, **{disk.named.key: disk.corrected for disk in before.disks}}


def _servers(before: LastPass | None, report: PassReport, unreachable: Iterable[UnreachableGuest]) -> dict[str, str]:
    names: dict[str, str | None] = {}
    if before is not None:
        names = {**before.servers, **{disk.named.guest_uuid: disk.server for disk in before.disks}}
    names |= {outcome.disk.guest.uuid: outcome.disk.guest.display_name for outcome in report.outcomes}
    return {each.guest.uuid: name for each in unreachable if (name := names.get(each.guest.uuid))}


def _unseen(before: LastPass | None, unreachable: Iterable[UnreachableGuest]) -> dict[str, int]:
    guests = {each.guest.uuid for each in unreachable}
    return {key: number for key, number in _corrected(before).items() if number and guest_of(key) in guests}


def _reverts(outcome: Outcome) -> bool:
    change = outcome.change
    return outcome.result.kind is Kind.CHANGED and change is not None and change.cause in EXTERNAL


def _disks(
    before: LastPass | None, report: PassReport, setting: PassSetting, usages: Mapping[str, Usage]
) -> tuple[LastDisk, ...]:
    last_disks = {} if before is None else {disk.named.key: disk for disk in before.disks}
    reverts = Counter(_corrected(before))
    reverts.update(outcome.disk.key for outcome in setting.between if _reverts(outcome))
    return tuple(
        _disk(
            report,
            outcome,
            reverts[outcome.disk.key],
            usages[outcome.disk.key],
            _since(last_disks.get(outcome.disk.key), outcome, report.started),
        )
        for outcome in report.outcomes
    )


def _since(before: LastDisk | None, outcome: Outcome, now: datetime) -> datetime | None:
    result = outcome.result
    if before is None or (before.kind, before.reason.code) != (result.kind, result.reason.code):
        return now
    return before.since


def _disk(report: PassReport, outcome: Outcome, reverts: int, usage: Usage, since: datetime | None) -> LastDisk:
    disk, desired = outcome.after, outcome.decision.desired
    rates, then, hold = usage.rates, usage.disk.in_force, report.situation.hold(outcome.disk)
    following = report.situation.following
    return LastDisk(
        named=disk.named,
        volume_type=disk.volume_type,
        flavor=disk.guest.flavor,
        cluster=disk.cluster,
        kind=outcome.result.kind,
        reason=outcome.result.reason,
        actual=disk.in_force if isinstance(disk.in_force, Limits) else None,
        unreduced=disk.actual if disk.reduced is not None and isinstance(disk.actual, Limits) else None,
        device_class=following.device_class(disk.cluster, disk.pool) if _is_congested(outcome) else None,
        desired=desired.limits if isinstance(desired, Desired) else outcome.missed,
        drifted=disk.drifted,
        corrected=reverts + _reverts(outcome),
        attachment=disk.attachment,
        reading=usage.reading,
        rates=rates,
        shares=usage.shares,
        allowed={base: then.most(base, rates.seconds) / rates.seconds for base in usage.shares}
        if rates is not None and isinstance(then, Limits)
        else {},
        saved=shares(outcome, report.situation.accounts),
        server=disk.guest.display_name,
        project_name=disk.guest.project_name,
        is_new=report.is_new(outcome),
        acknowledged=outcome.acknowledged,
        held_until=None if hold is None else hold.until,
        since=since,
    )


def _is_congested(outcome: Outcome) -> bool:
    """Whether congestion is why it is reduced; a ceiling may be that alone."""
    reason = outcome.reduced_by
    of_ceiling = reason is not None and reason.code is Code.CEILING and reason.facts["x"] == 1
    return outcome.after.reduced is not None and not of_ceiling


def _readings(before: LastPass | None, setting: PassSetting) -> dict[str, tuple[str, Reading]]:
    """``attachment`` and the last reading, by ``Disk.key``; the clock of readings starts with the node."""
    if before is None or before.boot != setting.boot:
        return {}
    readings = {disk.named.key: (disk.attachment, disk.reading) for disk in before.disks if disk.reading is not None}
    return {**before.unread, **readings}


def _unread(
    readings: Mapping[str, tuple[str, Reading]], disks: Iterable[LastDisk], unreachable: Iterable[UnreachableGuest]
) -> dict[str, tuple[str, Reading]]:
    """Of disks that are still there, as far as is known."""
    is_read = {disk.named.key: disk.reading is not None for disk in disks}
    guests = {each.guest.uuid for each in unreachable}
    return {key: last for key, last in readings.items() if not is_read.get(key, guest_of(key) not in guests)}


def _usages(readings: Mapping[str, tuple[str, Reading]], report: PassReport) -> dict[str, Usage]:
    """The disks' usage since the reading before, by ``Disk.key``."""
    of_guest: dict[str, list[Disk]] = {}
    for outcome in report.outcomes:
        # As observed: usage is compared with the limits before the pass.
        of_guest.setdefault(outcome.disk.guest.uuid, []).append(outcome.disk)
    usages: dict[str, Usage] = {}
    for disks in of_guest.values():
        last = [
            Usage(disk=disk, reading=then[1])
            for disk in disks
            if (then := readings.get(disk.key)) is not None and then[0] == disk.attachment
        ]
        read = {disk.target: report.readings[disk.key] for disk in disks if disk.key in report.readings}
        usages |= {usage.disk.key: usage for usage in follow(last, disks, read)}
    return usages
