"""The sentences of a return. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

from plimsoll_agent.util import durations
from plimsoll_agent.util.text import plural, printable
from plimsoll_insight.forecast.ranges import Range
from plimsoll_insight.ordered_return.control import Act, OsdStart, ReturnProgress, ReturnStep, StepReason
from plimsoll_insight.ordered_return.hosts import by_host
from plimsoll_insight.ordered_return.journal import ChangeTarget, ClusterChange, TargetKind
from plimsoll_insight.ordered_return.plan import WavePlan

_MOST_WAVES = 20
_WAITS = {
    StepReason.SILENT: "Ceph does not answer: {0}. Nothing is started until it does",
    StepReason.CHECK: "{0}: more is wrong than OSDs that are down. Correct it, or tolerate it (--tolerate NAME)",
    StepReason.FLAG: "the cluster has the flag {0}, with which no OSD serves again: ceph osd unset FLAG",
    StepReason.LOST: "{osds} went down during the return: find out why (journalctl -u UNIT there), and start it",
    StepReason.SLOW: "{0} slow requests, at most {1} are allowed (--slow)",
    StepReason.MEMORY_LOW: "{0} has {1} of memory left, less than the {2} to be kept free (--reserve)",
    StepReason.MEMORY_UNKNOWN: "the memory of {0} is unknown: {1}",
    StepReason.NOT_STARTED: "{osds} could not be started: {0}",
    StepReason.NEVER_UP: "{osds} did not come up within {0} s: look at its log there; to return the others, stop this"
    " and run again with --skip",
    StepReason.NO_ROOM: "{osds} may take {1}, and {0} has {2} for it: wait, or restart what holds most"
    " (--when-full restart)",
    StepReason.STUCK: "{0} placement groups have not moved on for {2} s: {1}. ceph pg {3} query says why",
    StepReason.BOOTING: "{osds} started, not up yet",
    StepReason.PEERING: "{0} placement groups peer",
    StepReason.GROWING: "the memory of {osds} has not peaked",
    StepReason.RECOVERING: "all OSDs of this return are up, {0} placement groups not clean",
}
_SIZES = {StepReason.MEMORY_LOW: (1, 2), StepReason.NO_ROOM: (1, 2)}


def size(value: float) -> str:
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20)):
        if abs(value) >= factor:
            return f"{value / factor:.1f} {unit}" if unit == "GiB" else f"{value / factor:.0f} {unit}"
    return f"{value / 2**10:.0f} KiB"


def sizes(range_: Range) -> str:
    low, high = size(range_.low), size(range_.high)
    return low if low == high else f"{low} to {high}"


def seconds(value: float) -> str:
    return durations.words(timedelta(seconds=round(value)))


def time_range(range_: Range | None) -> str:
    if range_ is None:
        return "unknown"
    low, high = seconds(range_.low), seconds(range_.high)
    return low if low == high else f"{low} to {high}"


def osd_words(osds: Sequence[int], plan: WavePlan) -> str:
    """``osd.3, osd.4 of host-a; osd.9 of host-b``."""
    inside = [osd for osd in osds if osd in plan.returning]
    hosts = by_host(inside, {osd: plan.host_of(osd) for osd in inside})
    words = [f"{', '.join(f'osd.{osd}' for osd in on)} of {printable(host)}" for host, on in hosts.items()]
    return "; ".join([*words, *(f"osd.{osd}" for osd in osds if osd not in plan.returning)])


def step_words(step: ReturnStep, plan: WavePlan, conditions: Mapping[int, str] | None = None) -> str:
    osds = osd_words(step.osds, plan)
    if conditions:
        osds += " (" + ", ".join(f"{words}" for words in conditions.values()) + ")"
    if step.act is Act.START:
        return f"starts {osds}"
    if step.act is Act.RESTART:
        return f"restarts {osds}, which holds most there, to make room on {step.facts[0]}"
    if step.act is Act.DONE or step.why is None:
        return "done"
    facts = list(step.facts)
    for place in _SIZES.get(step.why, ()):
        facts[place] = size(float(facts[place]))
    words = _WAITS[step.why].format(*facts, osds=osds)
    return f"holds: {words}" if step.is_hold else words


def target_words(target: ChangeTarget) -> str:
    return {
        TargetKind.FLAG: f"the flag {target.name}",
        TargetKind.SETTING: f"{target.name} of all OSDs",
        TargetKind.RESTARTS: f"restarts by systemd on {target.name}",
    }[target.kind]


def change_words(change: ClusterChange) -> str:
    if change.target.kind is TargetKind.FLAG:
        return f"sets the flag {change.target.name}"
    if change.target.kind is TargetKind.RESTARTS:
        return f"systemd on {change.target.name} restarts no OSD that fails"
    before = "not set before" if change.before is None else f"before: {change.before}"
    return f"sets {change.target.name} = {change.after} for all OSDs ({before})"


def restored_words(change: ClusterChange) -> str:
    if change.target.kind is TargetKind.FLAG:
        return f"unset the flag {change.target.name}" if change.before is None else f"set {change.target.name} again"
    if change.target.kind is TargetKind.RESTARTS:
        return f"systemd on {change.target.name} restarts OSDs again as before"
    return f"{change.target.name} of all OSDs: {change.before or 'not set'}, as before"


def plan_lines(plan: WavePlan) -> tuple[str, str]:
    inactive = f", {plural(plan.inactive, 'placement group')} inactive" if plan.inactive else ""
    return (
        f"{plural(len(plan.returning), 'OSD')} to return in {plural(len(plan.waves), 'wave')}{inactive}.",
        f"Time until the last wave serves: {time_range(plan.seconds)}, if nothing holds it.",
    )


def wave_lines(plan: WavePlan) -> Iterator[str]:
    for number, wave in enumerate(plan.waves[:_MOST_WAVES], 1):
        peaks = [memory for osd in wave.osds if (memory := plan.returning[osd].memory)]
        serves = f", makes {plural(wave.served, 'placement group')} active" if wave.served else ""
        peak = ""
        if len(peaks) == len(wave.osds):
            each = Range(min(one.low for one in peaks), max(one.high for one in peaks))
            peak = f", {sizes(each)} of memory each"
        yield f"Wave {number}: {osd_words(wave.osds, plan)}{serves}{peak}."
    if len(plan.waves) > _MOST_WAVES:
        yield f"{len(plan.waves) - _MOST_WAVES} more waves: plimsoll return plan lists them."


def memory_lines(progress: ReturnProgress, plan: WavePlan) -> Iterator[str]:
    """What each OSD took at most, beside its forecast."""
    starts: dict[int, OsdStart] = {one.osd: one for one in (*progress.finished, *progress.current)}
    errors = []
    for osd, start in sorted(starts.items()):
        memory = plan.returning[osd].memory if osd in plan.returning else None
        if memory is None or not start.highest:
            continue
        high = memory.high * start.learned
        forecast, error = Range(min(memory.low, high), high), start.highest / high - 1
        errors.append(error)
        yield f"osd.{osd}: {size(start.highest)} at most; forecast {sizes(forecast)}, {error:+.0%}".replace("%", " %")
    if errors:
        near = sum(abs(error) <= 0.3 for error in errors)
        yield f"Peaks within 30 % of the highest forecast: {near} of {len(errors)}."
