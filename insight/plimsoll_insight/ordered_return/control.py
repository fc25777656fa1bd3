"""What to do next while OSDs return: what was seen in, the next step out. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from enum import StrEnum

from plimsoll_agent.util.frozen import frozen, replace
from plimsoll_insight.drill.status import ClusterCounts
from plimsoll_insight.forecast.arithmetic import GAIN
from plimsoll_insight.ordered_return.cluster import ReturnGroup
from plimsoll_insight.ordered_return.hosts import HostMemory
from plimsoll_insight.ordered_return.plan import WavePlan

_GROWTH = 1.02
"""A peak that is higher by less is the same."""
_MARGIN = 1.2
"""Where all peaks so far were below their forecasts, the next may be so much nearer to its own than any of them."""
_NAMED = 3


class StepReason(StrEnum):
    """Why a step is not the next start."""

    SILENT = "silent"
    CHECK = "check"
    FLAG = "flag"
    LOST = "gone"
    SLOW = "slow"
    MEMORY_LOW = "memory-low"
    MEMORY_UNKNOWN = "memory-unknown"
    NOT_STARTED = "not-started"
    NEVER_UP = "never-up"
    NO_ROOM = "no-room"
    STUCK = "stuck"
    BOOTING = "booting"
    PEERING = "peering"
    GROWING = "growing"
    RECOVERING = "recovering"


HOLDS = frozenset(tuple(StepReason)[: tuple(StepReason).index(StepReason.BOOTING)])
"""Of these, each needs something else than time; the others come to an end by themselves."""


@frozen(kw_only=True)
class ReturnBounds:
    """What operators allow."""

    reserve: float
    """The share of a host's memory that stays free."""
    slow: int
    """Slow requests."""
    start_within: float
    """Seconds until an OSD that was started is up."""
    steady: float
    """Seconds without a higher peak, after which the memory of an OSD has peaked."""
    stuck_after: float
    """Seconds without one placement group or object less to wait for, after which they are stuck."""
    patience: float
    """Seconds for which it holds before it gives up."""
    restarts: bool
    """Where the next would not fit, the OSD is restarted that holds most."""
    until_clean: bool
    tolerated: frozenset[str] = frozenset()


@frozen
class HostView:
    """None is unknown, ``trouble`` says why."""

    memory: HostMemory | None
    resident: Mapping[int, int]
    """Bytes of each OSD that runs."""
    trouble: str = ""


@frozen(kw_only=True)
class ReturnObservation:
    now: float
    """Of the monotonic clock."""
    trouble: str = ""
    """Why the cluster did not answer: all but ``now`` and hosts is unknown then."""
    counts: ClusterCounts | None = None
    up: frozenset[int] = frozenset()
    blocking_flags: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    groups: Mapping[str, ReturnGroup] = field(default_factory=dict)
    hosts: Mapping[str, HostView] = field(default_factory=dict)


@frozen(kw_only=True)
class OsdStart:
    """An OSD that this run has started, or restarted."""

    osd: int
    at: float
    peak: int | None = None
    grown: float = 0.0
    """When its peak was reached."""
    learned: float = 1.0
    """What its forecast was multiplied by when it was started."""
    former: int = 0
    """Its peak before it was restarted."""

    @property
    def highest(self) -> int:
        return max(self.peak or 0, self.former)


@frozen
class ReturnPace:
    """The fewest that were left of what is waited for, and since when."""

    step: ReturnStep
    """What is waited for, without facts."""
    rest: tuple[int, ...]
    at: float


@frozen(kw_only=True)
class ReturnProgress:
    waves: tuple[tuple[int, ...], ...]
    """What is to be started yet."""
    current: tuple[OsdStart, ...] = ()
    finished: tuple[OsdStart, ...] = ()
    restarts: frozenset[int] = frozenset()
    expected: frozenset[int] = frozenset()
    """OSDs that were up, or came up since."""
    learned: float = 1.0
    """The highest of peaks by their forecasts, with a margin where it is below 1."""
    pace: ReturnPace | None = None


class Act(StrEnum):
    START = "start"
    RESTART = "restart"
    WAIT = "wait"
    DONE = "done"


@frozen(kw_only=True)
class ReturnStep:
    act: Act
    osds: tuple[int, ...] = ()
    why: StepReason | None = None
    facts: tuple[str, ...] = ()

    @property
    def is_hold(self) -> bool:
        return self.act is Act.WAIT and self.why in HOLDS


def wait(why: StepReason, *facts: object, osds: tuple[int, ...] = ()) -> ReturnStep:
    return ReturnStep(act=Act.WAIT, osds=osds, why=why, facts=tuple(map(str, facts)))


def begin(plan: WavePlan, up: Collection[int]) -> ReturnProgress:
    return ReturnProgress(waves=tuple(wave.osds for wave in plan.waves), expected=frozenset(up))


def next_step(
    progress: ReturnProgress,
    view: ReturnObservation,
    plan: WavePlan,
    whole: Mapping[str, tuple[int, ...]],
    bounds: ReturnBounds,
) -> tuple[ReturnProgress, ReturnStep]:
    """The step is to be taken, and told by ``after``; the progress has what was view."""
    if view.trouble:
        return progress, wait(StepReason.SILENT, view.trouble)
    progress = _looked(progress, view)
    if hold := _hold(progress, view, whole, bounds):
        return progress, hold
    if remainder := _unfinished(progress.current, view, bounds):
        return progress, remainder
    if moving := _moving(progress.current, view, whole):
        return _paced(progress, StepReason.PEERING, moving, (len(moving),), view, bounds)
    # One whose memory is unknown has not peaked.
    if growing := tuple(
        one.osd for one in progress.current if one.peak is None or view.now - one.grown < bounds.steady
    ):
        return progress, wait(StepReason.GROWING, osds=growing)
    starts = progress.finished + progress.current
    progress = replace(progress, finished=starts, current=(), learned=_learned(starts, plan))
    if progress.waves:
        return progress, _start(progress, view, plan, bounds)
    unclean = [id for id, group in view.groups.items() if _gets_clean(group, whole.get(id, ()), view.up)]
    if unclean and bounds.until_clean:
        copies = view.counts.degraded + view.counts.misplaced if view.counts else 0
        return _paced(progress, StepReason.RECOVERING, unclean, (len(unclean), copies), view, bounds)
    return progress, ReturnStep(act=Act.DONE)


def _paced(
    progress: ReturnProgress,
    why: StepReason,
    groups: Sequence[str],
    rest: tuple[int, ...],
    view: ReturnObservation,
    bounds: ReturnBounds,
) -> tuple[ReturnProgress, ReturnStep]:
    """Waits for these placement groups, or holds where the ``rest`` of the work became no less for long."""
    kind = wait(why, osds=tuple(sorted(one.osd for one in progress.current)))
    pace = progress.pace
    if pace is None or pace.step != kind:
        pace = ReturnPace(kind, rest, view.now)
    elif (fewest := tuple(map(min, pace.rest, rest))) != pace.rest:
        pace = ReturnPace(kind, fewest, view.now)
    progress = replace(progress, pace=pace)
    if view.now - pace.at > bounds.stuck_after:
        return progress, _stuck(groups, view, kind.osds, bounds)
    return progress, replace(kind, facts=(str(len(groups)),))


def _stuck(groups: Sequence[str], view: ReturnObservation, osds: tuple[int, ...], bounds: ReturnBounds) -> ReturnStep:
    order = sorted(groups)
    names = [f"{id} ({view.groups[id].state})" for id in order[:_NAMED]]
    more = [f"{len(order) - _NAMED} more"] if len(order) > _NAMED else []
    return wait(
        StepReason.STUCK, len(order), ", ".join([*names, *more]), f"{bounds.stuck_after:.0f}", order[0], osds=osds
    )


def after(progress: ReturnProgress, step: ReturnStep, now: float) -> ReturnProgress:
    """The step was taken."""
    if step.act is Act.START:
        rest = tuple(osd for osd in progress.waves[0] if osd not in step.osds)
        waves = (rest, *progress.waves[1:]) if rest else progress.waves[1:]
        starts = tuple(OsdStart(osd=osd, at=now, learned=progress.learned) for osd in step.osds)
        return replace(progress, waves=waves, current=progress.current + starts)
    if step.act is Act.RESTART:
        former = {one.osd: one for one in progress.finished}
        again = tuple(_again(former.get(osd), osd, now) for osd in step.osds)
        others = tuple(one for one in progress.finished if one.osd not in step.osds)
        return replace(
            progress,
            current=again,
            finished=others,
            restarts=progress.restarts | set(step.osds),
            expected=progress.expected - set(step.osds),
        )
    return progress


def _again(former: OsdStart | None, osd: int, now: float) -> OsdStart:
    if former is None:
        return OsdStart(osd=osd, at=now)
    return OsdStart(osd=osd, at=now, learned=former.learned, former=former.highest)


def _looked(progress: ReturnProgress, view: ReturnObservation) -> ReturnProgress:
    # One that came up by itself is not started, and waited for as if it were.
    risen = sorted(view.up.intersection(osd for wave in progress.waves for osd in wave))
    current = tuple(
        _grown(one, view) for one in (*progress.current, *(OsdStart(osd=osd, at=view.now) for osd in risen))
    )
    return replace(
        progress,
        waves=tuple(rest for wave in progress.waves if (rest := tuple(osd for osd in wave if osd not in view.up))),
        current=current,
        expected=progress.expected | (view.up & {one.osd for one in current}),
    )


def _learned(starts: Collection[OsdStart], plan: WavePlan) -> float:
    ratios = [
        one.highest / memory.high
        for one in starts
        if one.highest and one.osd in plan.returning and (memory := plan.returning[one.osd].memory)
    ]
    most = max(ratios, default=1.0)
    return max(most, min(1.0, _MARGIN * most))


def _grown(start: OsdStart, view: ReturnObservation) -> OsdStart:
    sizes = [view.resident[start.osd] for view in view.hosts.values() if start.osd in view.resident]
    if not sizes or (start.peak is not None and sizes[0] <= start.peak * _GROWTH):
        return start
    return replace(start, peak=sizes[0], grown=view.now)


def _gets_clean(group: ReturnGroup, members: Collection[int], up: Collection[int]) -> bool:
    """It is not clean and will be: not one that only waits for an OSD which is down and no part of this return."""
    return not group.is_clean and (group.is_recovering or all(osd in up for osd in members))


def _serves_by(
    waves: Sequence[Collection[int]], view: ReturnObservation, whole: Mapping[str, tuple[int, ...]]
) -> bool:
    """Whether some of what is to be started may bring placement groups to service."""
    rest = {osd for wave in waves for osd in wave}
    return any(group.is_inactive and not rest.isdisjoint(whole.get(id, ())) for id, group in view.groups.items())


def _hold(
    progress: ReturnProgress, view: ReturnObservation, whole: Mapping[str, tuple[int, ...]], bounds: ReturnBounds
) -> ReturnStep | None:
    """What must change before anything else is started."""
    if view.blocking_flags:
        return wait(StepReason.FLAG, ", ".join(view.blocking_flags))
    if missing := sorted(progress.expected - view.up):
        return wait(StepReason.LOST, osds=tuple(missing))
    if view.unexpected:
        return wait(StepReason.CHECK, "; ".join(view.unexpected))
    late = tuple(
        one.osd for one in progress.current if one.osd not in view.up and view.now - one.at > bounds.start_within
    )
    if late:
        return wait(StepReason.NEVER_UP, f"{bounds.start_within:.0f}", osds=late)
    slow = view.counts.slow if view.counts else None
    # Requests to placement groups that serve none are slow until the next OSDs are started.
    if slow is None or (slow > bounds.slow and not _serves_by(progress.waves, view, whole)):
        return wait(StepReason.SLOW, "an unknown number of" if slow is None else slow, bounds.slow)
    for host, each in sorted(view.hosts.items()):
        if each.memory is None:
            return wait(StepReason.MEMORY_UNKNOWN, host, each.trouble)
        if each.memory.available < (least := bounds.reserve * each.memory.total) and progress.current:
            return wait(StepReason.MEMORY_LOW, host, each.memory.available, int(least))
    return None


def _unfinished(current: tuple[OsdStart, ...], view: ReturnObservation, bounds: ReturnBounds) -> ReturnStep | None:
    """OSDs that are not up yet, or whose process is not found."""
    if booting := tuple(one.osd for one in current if one.osd not in view.up):
        return wait(StepReason.BOOTING, osds=booting)
    unseen = [one.osd for one in current if one.peak is None and view.now - one.at > bounds.start_within]
    if unseen:
        return wait(StepReason.MEMORY_UNKNOWN, f"osd.{unseen[0]}", "ps on its host has no process of it")
    return None


def _moving(
    current: tuple[OsdStart, ...], view: ReturnObservation, whole: Mapping[str, tuple[int, ...]]
) -> list[str]:
    """The placement groups of what was started that peer."""
    of = {one.osd for one in current}
    return [
        id for id, group in view.groups.items()
        if group.is_moving and not of.isdisjoint((*whole.get(id, ()), *group.acting))
    ]  # fmt: skip


def _start(progress: ReturnProgress, view: ReturnObservation, plan: WavePlan, bounds: ReturnBounds) -> ReturnStep:
    """Those of the next wave that fit; where none does, room is made, or waited for."""
    room = {host: view.memory.available - bounds.reserve * view.memory.total
            for host, view in view.hosts.items() if view.memory}  # fmt: skip
    choice, peaks = [], {}
    for osd in progress.waves[0]:
        one = plan.returning[osd]
        if one.memory is None or one.host not in room:
            return wait(
                StepReason.MEMORY_UNKNOWN, one.host, "it was not asked" if one.memory else "there is no forecast"
            )
        peaks[osd] = one.memory.high * progress.learned
        if peaks[osd] <= room[one.host]:
            room[one.host] -= peaks[osd]
            choice.append(osd)
    if choice:
        return ReturnStep(act=Act.START, osds=tuple(choice))
    osd = progress.waves[0][0]
    host = plan.host_of(osd)
    if bounds.restarts and (largest := _largest(progress, view.hosts[host], plan)) is not None:
        return ReturnStep(act=Act.RESTART, osds=(largest,), why=StepReason.NO_ROOM, facts=(host,))
    return wait(StepReason.NO_ROOM, host, int(peaks[osd]), int(room[host]), osds=(osd,))


def _largest(progress: ReturnProgress, view: HostView, plan: WavePlan) -> int | None:
    """The OSD that holds most, and more than OSDs hold in peace; each is restarted once."""
    peace = max((one.memory.low for one in plan.returning.values() if one.memory), default=0.0)
    sizes = {
        size: osd for osd, size in view.resident.items()
        if osd in progress.expected and osd not in progress.restarts and size > GAIN * peace
    }  # fmt: skip
    return sizes[max(sizes)] if sizes else None
