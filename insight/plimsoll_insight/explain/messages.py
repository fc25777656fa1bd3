"""A diagnosis in words: for the operator, and in one sentence for the tenant, without anything of other tenants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from statistics import fmean, median

from plimsoll_agent.messages.limits import short_change, short_limits, short_size
from plimsoll_agent.model.limits import Limits, LimitsError
from plimsoll_agent.model.usage import AT_LIMIT_RATIO
from plimsoll_agent.util.text import both_ends, minute, plural, printable
from plimsoll_insight.explain.diagnosis import Cause, Diagnosis, Unexplained
from plimsoll_insight.explain.evidence import PassInterval, SharedPlace
from plimsoll_insight.explain.guests import ExplainedDisk, FoundGuest, Stall, Stay
from plimsoll_monitoring.region.messages import percent, seconds_words

CAUSES: Mapping[Cause, str] = {
    Cause.LIMIT: "its own limit",
    Cause.CLUSTER: "the cluster",
    Cause.NEIGHBOUR: "a neighbour",
    Cause.NOT_SLOW: "none, it is not slow",
    Cause.UNKNOWN: "unknown",
}
FEW_PASSES = "fewer than three passes have measured it: ask again after the next ones, or for a longer --since"
UNEXPLAINED: Mapping[Unexplained, str] = {
    Unexplained.NOT_READ: "it had no reading while its requests may have waited",
    Unexplained.TOO_LITTLE: "too little is known",
    Unexplained.FEW_PASSES: FEW_PASSES,
    Unexplained.STANDS_STILL: "no requests ended in the last pass, and they may wait: ask again after the next one",
    Unexplained.NODE_STANDS_STILL: "no request of any guest on its node ended in the last pass: the node may be cut"
    " off from Ceph",
    Unexplained.NO_USUAL: "what is usual for its type is unknown: load plimsoll-rules.yaml into Prometheus",
    Unexplained.NODE: "other guests on its node are slow or stand still too, and the region is not: look at the node",
    Unexplained.BURSTS: "perhaps its own limit: on average it used half of it or more, and nothing around it is slow",
    Unexplained.ALONE: "it is slow, and nothing around it is (large requests take longer)",
}


def head(guest: FoundGuest, stays: Sequence[Stay]) -> str:
    """``server web-1 (project shop) on compute-117 since …, before on compute-104``."""
    project = guest.project_name or guest.project
    now, before = stays[-1], list(dict.fromkeys(stay.node[1] for stay in reversed(stays[:-1])))
    words = f"server {guest.server or guest.name}" + (f" (project {project})" if project else "")
    words += f" on {now.node[1]}" + (f" since {moment(now.since)}" if before else "")
    return printable(words + (f", before on {', '.join(before)}" if before else ""))


def stall_lines(stalls: Sequence[Stall]) -> Iterator[str]:
    """By kind how often the guest's kernel reported stalled I/O, and when."""
    for kind in sorted({stall.kind for stall in stalls}):
        theirs = [stall for stall in stalls if stall.kind == kind]
        number = plural(sum(stall.lines for stall in theirs), "line")
        when = _between(theirs[0].at, theirs[-1].at) if len(theirs) > 1 else f"before {moment(theirs[0].at)}"
        yield f"its kernel reported {printable(kind)}: {number} {when}"


def disk_lines(
    disk: ExplainedDisk,
    diagnosis: Diagnosis,
    probes: Mapping[str, int] | None,
    names: Mapping[str, str],
    reasons: Mapping[Unexplained, str] = UNEXPLAINED,
) -> Iterator[str]:
    """The first names the disk, the last is the cause. ``names`` has those of other guests, by UUID."""
    intervals = disk.evidence.intervals
    what = f"volume {disk.volume}" if disk.volume else "own disk"
    limits = "unknown" if disk.limits is None else short_limits(Limits.from_mapping(disk.limits))
    spec = f" (QoS spec {disk.qos_spec})" if disk.qos_spec else ""
    kind = f"type {disk.volume_type}" if disk.volume_type else "no type"
    yield printable(f"{disk.disk}  {what}, {kind}{spec}, limit {limits}")
    for change in disk.changes:
        why = f" ({printable(change.reason)})" if change.reason else ""
        yield f"  {moment(change.at)}: limit {_change(change.before, change.after)}{why}"
    for at in disk.reverted:
        yield f"  {moment(at)}: an external change was reverted"
    for hold in disk.held:
        yield f"  held by an operator: {_between(*hold)}"
    yield from (f"  {line}" for line in _unread_lines(disk, diagnosis))
    yield f"  {_load_words(intervals)}"
    if not idle(intervals):
        yield f"  {_latency_words(disk, diagnosis)}"
    yield f"  {_cluster_words(intervals)}; probes on its node: {_probe_words(probes)}"
    yield f"  Cause: {cause_words(disk, diagnosis, names, reasons)}"


def cause_words(
    disk: ExplainedDisk, diagnosis: Diagnosis, names: Mapping[str, str], reasons: Mapping[Unexplained, str]
) -> str:
    """``its own limit, 500 IOPS; between 2026-11-22 14:00 and 15:20 UTC, 12 of 15 slow intervals; …``."""
    words = CAUSES[diagnosis.cause]
    if diagnosis.unexplained:
        words += f": {reasons[diagnosis.unexplained]}"
    if diagnosis.cause is Cause.LIMIT:
        words += f", {limit_words(diagnosis.slow).removeprefix('its ')}"
    if diagnosis.raised:
        words += f": {printable(', '.join(diagnosis.raised))}"
    if diagnosis.neighbour:
        one = diagnosis.neighbour
        unit = "requests" if one.unit == "operations" else "bytes"
        who = f"guest {names[one.uuid]} ({one.uuid})" if names.get(one.uuid) else f"guest {one.uuid}"
        words += f": {printable(who)} did {percent(one.share)} of all {unit} of the {one.place.value}"
    if diagnosis.slow:
        words += (
            f"; {_between(*_span(disk, diagnosis))}, {len(diagnosis.slow)} of {diagnosis.all_slow} slow intervals"
        )
    share = percent(diagnosis.known / diagnosis.total) if diagnosis.total else "0 %"
    since = disk.evidence.since
    return f"{words}; known {share} of the time{'' if since is None else f' since {moment(since)}'}"


def whose(disks: Sequence[ExplainedDisk]) -> str:
    """``disk vda, volume 6665c608-… and volume 8f4c1a7e-…``: the disks as their tenant knows them."""
    *others, last = (f"volume {disk.volume}" if disk.volume else f"disk {disk.disk}" for disk in disks)
    return printable(f"{', '.join(others)} and {last}" if others else last)


def figures_words(disk: ExplainedDisk, diagnosis: Diagnosis) -> str:
    """``4 ms → 200 ms``, or the limit that it was at."""
    if diagnosis.cause is Cause.LIMIT:
        return f"limit {limit_words(diagnosis.slow).removeprefix('its ')}"
    took, usual = _median([each.latency for each in diagnosis.slow]), disk.evidence.usual
    if took is None:
        return "no requests ended" if diagnosis.slow and any(each.read for each in diagnosis.slow) else ""
    return seconds_words(took) if usual is None else f"{seconds_words(usual)} → {seconds_words(took)}"


def tenant_words(disk: ExplainedDisk, diagnosis: Diagnosis, subject: str = "") -> str:
    """One sentence to paste."""
    subject = subject or whose([disk])
    if diagnosis.cause is Cause.UNKNOWN or (diagnosis.cause is not Cause.NOT_SLOW and not diagnosis.slow):
        return f"Our measurements do not show what your {subject} waited for."
    if diagnosis.cause is Cause.NOT_SLOW:
        return _not_slow_words(disk, subject)
    between = f"{_share_of_span(disk, diagnosis)}{_between(*_span(disk, diagnosis))}"
    if diagnosis.cause is Cause.LIMIT:
        usage = median(each.share or 0.0 for each in diagnosis.slow)
        if usage < AT_LIMIT_RATIO:
            limit = limit_words(diagnosis.slow)
            of_limit = f"{percent(usage)} of {limit}{',' if ', ' in limit else ''} on average, more in bursts,"
            return f"Your {subject} used {of_limit} {between}."
        limit = limit_words(diagnosis.slow)
        return f"Your {subject} used all of {limit}{',' if ', ' in limit else ''} {between}."
    if diagnosis.cause is Cause.CLUSTER:
        why = "our storage cluster was impaired"
    elif diagnosis.neighbour and diagnosis.neighbour.place is SharedPlace.NODE:
        why = "other load on the same host was unusually high"
    else:
        why = "other load on the same storage was unusually high"
    return f"For your {subject}, {_waits_words(disk, diagnosis)} {between}, because {why}."


def _not_slow_words(disk: ExplainedDisk, subject: str) -> str:
    since = disk.evidence.since
    ours = "In our measurements" if since is None else f"In our measurements, since {moment(since)},"
    if idle(disk.evidence.intervals):
        return f"{ours} your {subject} made no requests."
    took = _median([each.latency for each in disk.evidence.intervals])
    words = f"{ours} requests of your {subject} took no longer than usual"
    return f"{words} ({seconds_words(took)} on average)." if took is not None else f"{words}."


def _waits_words(disk: ExplainedDisk, diagnosis: Diagnosis) -> str:
    """``requests took 200 ms on average instead of 4 ms``, or that hardly any were completed."""
    took, usual = _median([each.latency for each in diagnosis.slow]), disk.evidence.usual
    completions = sum(each.latency is not None for each in diagnosis.slow)
    if took is not None and 2 * completions > len(diagnosis.slow):
        words = f"requests took {seconds_words(took)} on average"
        return words if usual is None else f"{words} instead of {seconds_words(usual)}"
    if not all(each.read for each in diagnosis.slow):
        return "requests waited"
    return f"{'hardly any' if completions else 'no'} requests were completed"


# --- parts


def _span(disk: ExplainedDisk, diagnosis: Diagnosis) -> tuple[float, float]:
    """An interval ends at its time."""
    return diagnosis.slow[0].at - disk.evidence.seconds, diagnosis.slow[-1].at


def _share_of_span(disk: ExplainedDisk, diagnosis: Diagnosis) -> str:
    """``for 61 % of the time ``; nothing where it was the whole time."""
    begin, end = _span(disk, diagnosis)
    share = len(diagnosis.slow) * disk.evidence.seconds / (end - begin)
    return f"for {share:.0%} of the time ".replace("%", " %") if share < 0.95 else ""


def _between(begin: float, end: float) -> str:
    """``between 2026-11-22 14:00 and 15:20 UTC``."""
    first, last = both_ends(datetime.fromtimestamp(begin, UTC), datetime.fromtimestamp(end, UTC))
    return f"between {first} and {last}"


def moment(at: float) -> str:
    return minute(datetime.fromtimestamp(at, UTC))


def _change(before: Mapping[str, int], after: Mapping[str, int]) -> str:
    try:
        return short_change(Limits.from_mapping(before), Limits.from_mapping(after))
    except LimitsError:
        return f"{dict(before)} → {dict(after)}"


def limit_words(slow: Sequence[PassInterval]) -> str:
    """``its 3,000 IOPS``: the limit that was used up most often."""
    one = usual_limit(slow)
    if one is None or one.limit is None or one.allowed is None:
        return "its limit"
    words = f"its {_value(one.limit, one.allowed)}"
    return words if one.desired is None else f"{words}, reduced from {_value(one.limit, one.desired)}"


def usual_limit(slow: Sequence[PassInterval]) -> PassInterval | None:
    """An interval with the limit that was used up most often."""
    limits = Counter((each.limit, each.allowed, each.desired) for each in slow if each.limit)
    most = limits.most_common(1)
    return next((each for each in slow if most and (each.limit, each.allowed, each.desired) == most[0][0]), None)


def _value(limit: str, amount: float) -> str:
    if "_iops_" in limit:
        scope = "" if limit.startswith("total") else f"{limit.partition('_')[0]} "
        return f"{amount:.0f} {scope}IOPS"
    return short_limits(Limits.from_mapping({limit: round(amount)}))


def idle(intervals: Sequence[PassInterval]) -> bool:
    """Without a request wherever that is known."""
    return {bool(each.operations) for each in intervals if each.operations is not None} == {False}


def _load_words(intervals: Sequence[PassInterval]) -> str:
    if idle(intervals):
        return "load: no requests"
    shares = [each.share for each in intervals if each.share is not None]
    rates = [each.operations for each in intervals if each.operations is not None]
    if not rates:
        return "load: unknown"
    words = f"load: {fmean(rates):.0f} IOPS on average, {max(rates):.0f} at most"
    loads = [(each.operations, each.bytes) for each in intervals if each.operations and each.bytes is not None]
    if loads:
        size = sum(size or 0.0 for _, size in loads) / sum(number for number, _ in loads)
        words += f", of {short_size(round(size))} each"
    if not shares:
        return f"{words}; no limit is known that it could be at"
    at_limit = [each for each in intervals if each.share is not None and each.share >= AT_LIMIT_RATIO]
    which = f" ({limit_words(at_limit).removeprefix('its ')})" if at_limit else ""
    words += f"; at limit{which} for {percent(len(at_limit) / len(shares))} {_of_time(len(shares) / len(intervals))}"
    return f"{words}, most used {percent(max(shares))}"


def _latency_words(disk: ExplainedDisk, diagnosis: Diagnosis) -> str:
    slow = diagnosis.slow or disk.evidence.intervals
    when = "while slow" if diagnosis.slow else "on average"
    own, of_type, of_node, usual = (
        "unknown" if value is None else seconds_words(value)
        for value in (
            _median([each.latency for each in slow]),
            _median([each.of_type for each in slow]),
            _median([each.of_node for each in slow]),
            disk.evidence.usual,
        )
    )
    if {each.of_type_disks for each in slow if each.latency is not None} == {1}:
        of_type = "is itself, the only one with requests"
    return (
        f"requests took {own} {when}; in the same time the median disk of its type {of_type}, of others on its node"
        f" {of_node};"
        f" usual for its type {usual}"
    )


def _unread_lines(disk: ExplainedDisk, diagnosis: Diagnosis) -> Iterator[str]:
    """When its guest did not answer, when else it had no reading while requests may have waited, and when it was
    paused.
    """
    silent = [each for each in disk.evidence.intervals if each.unanswered]
    pauses = [each for each in disk.evidence.intervals if each.paused]
    for words, intervals in (
        ("the guest did not answer", silent),
        ("no reading while its requests may have waited", [each for each in diagnosis.unread if not each.unanswered]),
        ("a person paused the guest", pauses),
    ):
        if intervals:
            checks = sorted({check for each in intervals for check in each.raised or ()})
            more = f"; raised then: {printable(', '.join(checks))}" if checks else ""
            when = _between(intervals[0].at - disk.evidence.seconds, intervals[-1].at)
            yield f"{words}: {plural(len(intervals), 'interval')} {when}{more}"


def _cluster_words(intervals: Sequence[PassInterval]) -> str:
    answers = [each for each in intervals if each.raised is not None]
    if not answers:
        return "cluster: health unknown"
    times = Counter(check for each in answers for check in each.raised or ())
    if not times:
        return f"cluster: no check raised (known {percent(len(answers) / len(intervals))} of the time)"
    parts = (f"{printable(check)} for {percent(number / len(answers))}" for check, number in times.most_common())
    return f"cluster: {', '.join(parts)} {_of_time(len(answers) / len(intervals))}"


def _of_time(share: float) -> str:
    return "of the time" if share >= 1 else f"of the time that is known ({percent(share)})"


def _probe_words(probes: Mapping[str, int] | None) -> str:
    if probes is None:
        return "unknown"
    return ", ".join(f"{number} {printable(verdict)}" for verdict, number in sorted(probes.items())) or "none"


def _median(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return median(numbers) if numbers else None
