"""Text on probes: verdicts, their reasons and what to do next. Text from a guest is made printable here."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from plimsoll_agent.messages.limits import short_limits, short_size
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.rules.model import Objective
from plimsoll_agent.util.text import minute, printable
from plimsoll_probes.model.finding import BROKEN, Finding, Verdict, Why
from plimsoll_probes.model.histogram import LAST, Quantile, edges
from plimsoll_probes.model.job import Job, JobName
from plimsoll_probes.model.result import Circumstances, Health, Measured, Postponed, ProbeResult

UNKNOWN = "-"
Streak = tuple[datetime, datetime | None]
"""When the first run of a streak of one verdict began, and when the last ``kept`` run before it began."""

_Facts = Mapping[str, Any]
_WITH_SINCE = (*BROKEN, Verdict.FAILED)
# Reasons that the cluster's health may explain.
_WITH_CEPH = (Why.CLUSTER_SHORT, Why.OBJECTIVE_MISSED, Why.UNFINISHED, Why.FILL_UNFINISHED)
_LONGEST_DETAIL = 200
_MOST_CHECKS = 3
_LAST_BUCKET = edges(LAST)[0] / 10**9

_SENTENCES: Mapping[Why, str | Callable[[_Facts], str]] = {
    Why.WITHIN: lambda facts: _limit(facts) + "; the guest's other requests took the rest" * ("own" in facts),
    Why.UNLIMITED: "no limit of the disk applies to this job, so there is no promise to check",
    Why.CLUSTER_SHORT: lambda facts: f"{_part(facts)} of {_limit(facts)}",
    Why.NOT_SET: lambda facts: (
        f"{_part(facts)} of the promised {_limit(facts)}, but QEMU has {_set(facts['actual'])}: see plimsoll plan"
    ),
    Why.TOO_MUCH: lambda facts: (
        f"{_part(facts)} of {_limit(facts)}, which QEMU reports as set:"
        f" see plimsoll disk show {facts.get('of') or 'GUEST DISK'} --verify"
    ),
    Why.OBJECTIVE_MISSED: lambda facts: (
        f"{_objective(facts)} {_latency(facts)}, objective {seconds_words(facts['objective'])}{_wait(facts)}"
    ),
    Why.FROZEN: "the guest's file systems were frozen during the run, as for a snapshot; wait for the next probe",
    Why.MOVED: "the guest was migrated during the run; its new node probes it from now on",
    Why.LIMITS_CHANGED: lambda facts: (
        f"the limits changed during the run, {_set(facts['before'])} → {_set(facts['after'])}; see plimsoll record"
    ),
    Why.LIMITS_UNKNOWN: lambda facts: (
        f"unknown: {_limits_unknown(facts['detail'])}; see plimsoll disk show, or set --limits with probe run --here"
    ),
    Why.REDUCED: lambda facts: (
        f"{_set(facts['promised'])} → {_set(facts['actual'])} for now, and the guest gets that;"
        " see plimsoll disk explain"
    ),
    Why.GUEST_BUSY: lambda facts: (
        f"the guest's CPUs were {_percent(facts['busy'])} busy, so the run measured them and not the disk;"
        " probe when it is idle, or give it more CPUs"
    ),
    Why.TOO_SHALLOW: lambda facts: (
        f"{facts['in_flight']} requests in flight reach the limit only if each takes less than"
        f" {seconds_words(facts['needed'])}; raise processes in [probe], or io_depth with libaio or io_uring"
    ),
    Why.AGENT_ABSENT: "the guest has no agent channel: set hw_qemu_guest_agent=yes on its image and rebuild it",
    Why.AGENT_TIMED_OUT: "the guest's agent does not answer ({detail}): still booting, stopped or hung;"
    " check qemu-guest-agent in the guest",
    Why.EXEC_FORBIDDEN: lambda facts: (
        f"the guest's agent cannot start programs, though guest-exec is enabled ({_plain(facts['detail'])}):"
        " check SELinux and free memory in the guest"
        if facts.get("enabled")
        else f"guest-exec is disabled in the guest's agent ({_plain(facts['detail'])}): allow guest-exec and"
        " guest-exec-status (/etc/sysconfig/qemu-ga, or --allow-rpcs)"
    ),
    Why.NOT_SUPPORTED: "the guest lacks what a probe needs ({detail}): a probe needs Linux with sh, gzip, timeout"
    " with -k, and fio 3.0 or newer",
    Why.NO_FIO: "fio is missing: install fio in the guest",
    Why.NO_ENGINE: "its fio has none of the engines libaio, io_uring, posixaio and psync: install another fio",
    Why.NO_SPACE: lambda facts: (
        f"{short_size(_number(facts['free']))} free in {_plain(facts['directory'])},"
        f" {short_size(_number(facts['needed']))} needed: free space,"
        " or lower file_size or keep_free in [probe]"
    ),
    Why.NOT_WRITABLE: "cannot write in {directory} ({detail}): choose another directory in [probe] or in the rule",
    Why.NO_DISK: "{directory} is on {device}, not on one RBD disk of the guest: choose another directory",
    Why.FILL_UNFINISHED: lambda facts: (
        f"the file was not written within {seconds_words(facts['seconds'])}: lower file_size in [probe],"
        " or check the cluster"
    ),
    Why.FIO_FAILED: "fio failed ({detail}): run the same job in the guest by hand",
    Why.UNFINISHED: lambda facts: (
        f"requests did not end within {seconds_words(facts['seconds'])}{_stall_words(facts)}:"
        " check the cluster's slow requests"
    ),
    Why.NONSENSE: "the guest's answers are implausible ({detail}): check what runs as its agent",
    Why.CONTRADICTED: lambda facts: (
        f"the guest reports {_count(facts['said'])} requests, the host counted {_count(facts['counted'])}:"
        " check what runs as its agent and as fio"
    ),
    Why.REBOOTED: "the guest or its agent was restarted during the run; wait for the next probe",
    Why.NOT_FOUND: "the guest was stopped or removed during the run; nothing to do if that was intended",
    Why.UNREACHABLE: "libvirt does not answer ({detail}): check libvirtd on this node",
    Why.NOT_REACHED: "not started: an earlier job ended the probe ({after}); see that job",
    Why.UNHEALTHY: "Ceph is unhealthy ({detail}); --ignore-health probes now",
    Why.NO_SLOT: "no free slot in the region ({detail}); see slots and coordination in [probe]",
    Why.PAUSED: "this node is paused: plimsoll resume ends the pause",
}


# --- verdicts


def why_words(why: Why, facts: Mapping[str, object]) -> str:
    """The sentence of a reason; its code where a fact in the history is missing or invalid."""
    sentence = _SENTENCES[why]
    try:
        if callable(sentence):
            return sentence(facts)
        return sentence.format_map({name: _plain(fact) for name, fact in facts.items()})
    except (LookupError, AttributeError, TypeError, ValueError, OverflowError, ZeroDivisionError):
        return str(why)


def because_words(result: ProbeResult, streak: Streak | None = None) -> str:
    """The reason of the verdict, Ceph's health during the run, and since when."""
    parts = [_reason_words(result)]
    if result.finding.why in _WITH_CEPH:
        parts.append(f"Ceph: {ceph_words(result.circumstances)}")
    if streak is not None and result.finding.verdict in _WITH_SINCE:
        parts.append(since_words(streak))
    return "; ".join(parts)


def _reason_words(result: ProbeResult) -> str:
    finding, subject = result.finding, result.subject
    limit = _limit_of(finding, result.circumstances)
    facts = {**finding.facts, **({} if limit is None else {"limit": limit})}
    if subject.target:
        facts["of"] = printable(shlex.join((subject.guest_name, subject.target)))
    return why_words(finding.why, facts)


def alike_words(results: Sequence[ProbeResult], streaks: Sequence[Streak | None]) -> str:
    """``32–47 % of their limits; Ceph: SLOW_OPS in 5 of 6 probes; since …``: of several with the same verdict and
    reason. Not all streaks may be known.
    """
    finding, texts = results[0].finding, dict.fromkeys(map(_reason_words, results))
    text = next(iter(texts))
    if len(texts) > 1:
        text = _range_words(results) or f"{text}; and {len(results) - 1} more like it"
    parts = [text]
    if finding.why in _WITH_CEPH:
        parts.append(f"Ceph: {_ceph_of_all([each.circumstances for each in results])}")
    starts = [streak[0] for streak in streaks if streak is not None]
    if starts:
        parts.append(f"since {minute(min(starts))}" + (" or earlier" if len(starts) < len(results) else ""))
    return "; ".join(parts)


def _range_words(results: Sequence[ProbeResult]) -> str:
    """What they were short of, did too much or took too long; nothing for another reason, or an invalid fact."""
    facts, why = [each.finding.facts for each in results], results[0].finding.why
    try:
        if why in (Why.CLUSTER_SHORT, Why.NOT_SET, Why.TOO_MUCH):
            shares: list[float] = sorted(each["done"] / each["allowed"] for each in facts)  # type: ignore[operator]
            least, most = _percent(shares[0]), _percent(shares[-1])
            between = least if least == most else f"{least.removesuffix(' %')}–{most}"
            return f"{between} of their limits"
        if why is Why.OBJECTIVE_MISSED:
            times = sorted(float(each["measured"]) / float(each["objective"]) for each in facts)  # type: ignore[arg-type]
            least, most = f"{times[0]:.2g}", f"{times[-1]:.2g}"
            return f"{least if least == most else f'{least}–{most}'} times their objectives"
    except (LookupError, TypeError, ValueError, OverflowError, ZeroDivisionError):
        pass
    return ""


def _ceph_of_all(circumstances: Sequence[Circumstances]) -> str:
    texts = Counter(map(ceph_words, circumstances))
    if len(texts) == 1:
        return next(iter(texts))
    checks_of = [
        {check for health in (each.health_before, each.health_after) if health for check in health.raised or ()}
        for each in circumstances
    ]
    checks = Counter(check for each in checks_of for check in sorted(each))
    number = sum(map(bool, checks_of))
    if not number:
        return " or ".join(texts)
    names = [printable(check) for check, _ in checks.most_common(_MOST_CHECKS)]
    more = f" and {len(checks) - _MOST_CHECKS} more" if len(checks) > _MOST_CHECKS else ""
    return ", ".join(names) + more + (f" in {number} of {len(checks_of)} probes" if number < len(checks_of) else "")


def verdict_words(result: ProbeResult, streak: Streak | None = None) -> str:
    """``kept  (limit 250 IOPS)``, or ``short: 38 % of limit 250 IOPS; Ceph: …; since …``."""
    verdict, because = result.finding.verdict, because_words(result, streak)
    return f"{verdict}  ({because})" if verdict is Verdict.KEPT else f"{verdict}: {because}"


def since_words(streak: Streak) -> str:
    """``since 2026-11-20 09:13 UTC (kept until 09:01)``."""
    first, last_good = streak
    if last_good is None:
        return f"since {minute(first)}"
    same_day = first.astimezone(UTC).date() == last_good.astimezone(UTC).date()
    until = f"{last_good.astimezone(UTC):%H:%M}" if same_day else minute(last_good)
    return f"since {minute(first)} (kept until {until})"


def health_words(health: Health | None) -> str:
    """``OSD_DOWN (1 osds down)``."""
    if health is None:
        return "not asked"
    detail = f" ({_plain(health.detail)})" if health.detail else ""
    if health.raised is None:
        return f"unknown{detail}"
    return f"{', '.join(map(printable, health.raised))}{detail}" if health.raised else "no check raised"


def checks_words(health: Health | None) -> str:
    """``OSD_DOWN (1 osds down)``, or ``OSD_DOWN, PG_AVAILABILITY, PG_DEGRADED and 2 more``: for a line."""
    if health is None or not health.raised or len(health.raised) == 1:
        return health_words(health)
    checks, more = health.raised[:_MOST_CHECKS], len(health.raised) - _MOST_CHECKS
    return ", ".join(map(printable, checks)) + (f" and {more} more" if more > 0 else "")


def ceph_words(circumstances: Circumstances) -> str:
    """Ceph's health before and after a run; only the latter where a check was raised then."""
    before, after = map(checks_words, (circumstances.health_before, circumstances.health_after))
    has_checks = circumstances.health_after is not None and circumstances.health_after.raised
    return after if has_checks or before == after else f"{before} at the start, {after} at the end"


def postponed_words(postponement: Postponed) -> str:
    """Why a due probe was not started."""
    return f"postponed: {why_words(postponement.why, postponement.facts)}"


# --- results


def guest_words(guest_name: str, display_name: str | None) -> str:
    """The tenant's name of the guest, or else libvirt's."""
    return printable(display_name or guest_name)


def guest_cell(guest_name: str, display_name: str | None = None) -> str:
    """``instance-00000412 (canary)``: for lists, since two tenants may choose the same name."""
    return printable(f"{guest_name} ({display_name})" if display_name else guest_name)


def result_line(result: ProbeResult, streak: Streak | None = None, bar: str = "") -> str:
    """``canary-r2-n14 vdb /mnt  read   30 s   251 IOPS  p99 41 ms   kept  (limit 250 IOPS)``.

    ``bar`` goes before the seconds: a running job's progress.
    """
    subject = result.subject
    name = guest_words(subject.guest_name, subject.display_name)
    where = " ".join(printable(part) for part in (subject.target, subject.directory) if part)
    job = f"{result.job.name:{max(map(len, JobName))}}"
    head = f"{name} {where}  {job}  {f'{bar} ' if bar else ''}"
    if result.measured is None:
        return f"{head}{verdict_words(result, streak)}"
    measurement = result.measured
    return f"{head}{measurement.seconds:.0f} s  {figures_words(measurement)}   {verdict_words(result, streak)}"


def figures_words(measurement: Measured) -> str:
    """``251 IOPS  p99 41 ms  max 66 ms``."""
    most = measurement.latency_max
    p99, slowest = quantile_words(measurement.latency.quantile(0.99, most)), latency_words(most)
    figures = f"{iops_words(measurement.iops):>5} IOPS  p99 {p99}  max {slowest}"
    return f"{figures}  {measurement.unfinished} unfinished" if measurement.unfinished else figures


def iops_words(iops: float) -> str:
    """Whole numbers; tenths below ten."""
    return f"{iops:.1f}" if 0 < iops < 9.95 else f"{iops:.0f}"


def quantile_words(quantile: Quantile | None) -> str:
    """``41 ms``; ``> 17 s`` beyond fio's last bucket."""
    if quantile is None:
        return UNKNOWN
    if quantile.saturated:
        return f"> {latency_words(quantile.lower)}"
    return latency_words(quantile.value)


def latency_words(nanoseconds: float) -> str:
    """``850 µs``, ``1.9 s``: two digits, or three before the point."""
    for unit, size in (("ns", 1), ("µs", 10**3), ("ms", 10**6), ("s", 10**9)):
        value = nanoseconds / size
        if value < 999.5 or unit == "s":
            break
    return f"{value:.1f} {unit}" if value < 9.95 and unit != "ns" else f"{value:.0f} {unit}"


def seconds_words(seconds: Any) -> str:
    """A time from the rules or settings, unrounded: ``50 ms``, ``1.5 s``."""
    value = float(seconds)
    if value == 0 or value >= 1:
        return f"{value:.4g} s"
    return f"{value * 1000:.4g} ms" if value >= 0.001 else f"{value * 10**6:.4g} µs"


def share_words(share: float | None) -> str:
    return UNKNOWN if share is None else _percent(share)


def rate_words(bytes_per_second: float) -> str:
    return f"{short_size(round(bytes_per_second))}/s"


def limits_words(limits: Limits | None) -> str:
    return "unknown" if limits is None else short_limits(limits)


def job_words(job: Job) -> str:
    """fio's parameters: ``random read and write, 50 % reads, 16 KiB, 4 × 2 in flight, 30 s, file of 1 GiB``."""
    kind = {
        JobName.READ: "random read",
        JobName.WRITE: "random write",
        JobName.MIXED: f"random read and write, {job.read_percent} % reads",
    }[job.name]
    in_flight = f"{job.processes} × {job.io_depth} in flight"
    return f"{kind}, {short_size(job.block_size)}, {in_flight}, {job.seconds} s, file of {short_size(job.file_size)}"


# --- facts


def _plain(fact: object) -> str:
    """A fact from a guest as one short, printable line."""
    text = printable(str(fact))
    return text if len(text) <= _LONGEST_DETAIL else f"{text[:_LONGEST_DETAIL]}…"


def _limit_of(finding: Finding, circumstances: Circumstances) -> object:
    """The value of the limit of a finding; the promised one where the finding is that it is not set."""
    promise, actual = circumstances.promised, circumstances.before
    limits = promise if finding.why is Why.NOT_SET else actual or promise
    return getattr(limits, str(finding.facts.get("parameter")), None) or None


def _limit(facts: _Facts) -> str:
    """``limit 250 IOPS``, ``limit read 100 MiB/s``."""
    parameter = _plain(facts["parameter"])
    if "limit" not in facts:
        return f"limit {parameter}"
    return f"limit {short_limits(Limits.from_mapping({parameter: facts['limit']}))}"


def _part(facts: _Facts) -> str:
    return _percent(facts["done"] / facts["allowed"])


def _percent(share: float) -> str:
    """With tenths near 100 %, where the verdict is decided, and near 0 %."""
    percent = 100 * share
    tenths = 90 <= percent < 110 or 0 < percent < 0.95
    return f"{percent:.1f} %".replace(".0 ", " ") if tenths else f"{percent:.0f} %"


def _set(limits: Any) -> str:
    """Limits, as ``Limits`` or as the mapping of the history."""
    if limits is None:
        return "unknown limits"
    if isinstance(limits, Mapping | Limits):
        values = limits.in_effect() if isinstance(limits, Limits) else limits
        return ", ".join(f"{_plain(name)} {_plain(value)}" for name, value in values.items()) or "no limit"
    return _plain(limits) if limits else "no limit"


def quantile_name(quantile: float) -> str:
    """``p99.9``."""
    return f"p{100 * quantile:.6g}"


_MOMENTS = {
    "promised": "the promised limits",
    "before": "the actual limits at the start",
    "after": "the actual limits at the end",
}


def _limits_unknown(detail: Any) -> str:
    """What is unknown: ``before, after``, or ``group_name NAME`` of a limit that other disks share."""
    kind, _, name = str(detail).partition(" ")
    if kind == "group_name":
        return f"how much other disks used of the limits of group {_plain(name)}"
    return ", ".join(_MOMENTS.get(name, _plain(name)) for name in str(detail).split(", "))


def _objective(facts: _Facts) -> str:
    direction, quantile = _plain(facts["direction"]), facts["quantile"]
    if quantile is None or not isinstance(quantile, int | float) or quantile >= 1:
        return f"the slowest {direction} took"
    return f"{quantile_name(quantile)} of {direction}s is"


def objective_words(objective: Objective | None) -> str:
    """``p99 50 ms, slowest 2 s``."""
    if objective is None:
        return UNKNOWN
    parts = [f"{quantile_name(part)} {seconds_words(seconds)}" for part, seconds in objective.quantiles]
    if objective.slowest is not None:
        parts.append(f"slowest {seconds_words(objective.slowest)}")
    return ", ".join(parts)


def _wait(facts: _Facts) -> str:
    if "wait" not in facts:
        return ""
    wait = latency_words(float(facts["wait"]) * 10**9)
    return f" (unreachable: at this queue depth the limit alone adds {wait})"


def _latency(facts: _Facts) -> str:
    seconds = float(facts["measured"])
    # fio's last bucket has no upper edge; only the slowest request is exact.
    beyond = facts["quantile"] not in (None, 1) and seconds >= _LAST_BUCKET
    return f"> {latency_words(_LAST_BUCKET * 10**9)}" if beyond else latency_words(seconds * 10**9)


def _list(names: Any) -> str:
    if isinstance(names, str):
        return _plain(names) or "none"
    return _plain(", ".join(map(str, names))) or "none"


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


def _stall_words(facts: _Facts) -> str:
    """How many ended and how many did not, where known."""
    counts = {"done": facts.get("done"), "unfinished": facts.get("unfinished")}
    parts = [f"{int(number)} {what}" for what, number in counts.items() if number is not None]
    return f" ({', '.join(parts)})" if parts else ""


def _count(number: Any) -> str:
    return "an unknown number of" if number is None else f"{int(number)}"
