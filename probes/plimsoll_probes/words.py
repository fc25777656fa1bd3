"""Probes in words: verdicts, their reasons and what to do next. Whatever a guest said is made printable here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from plimsoll_agent.limits import Limits
from plimsoll_agent.report import minute, printable, short_limits, short_size
from plimsoll_agent.rules import Objective
from plimsoll_probes.finding import Finding, Verdict, Why
from plimsoll_probes.histogram import LAST, Quantile, edges
from plimsoll_probes.job import Job, JobName
from plimsoll_probes.result import Circumstances, Health, Measured, Postponed, ProbeResult

UNKNOWN = "-"
HERE = "this machine"
Streak = tuple[datetime, datetime | None]
"""When the first run of an unbroken row with this verdict began, and when the last ``kept`` before it did."""

_Facts = Mapping[str, Any]
_TOLD_SINCE = (Verdict.SHORT, Verdict.SLOW, Verdict.OVER_LIMIT, Verdict.FAILED)
# Where the cluster may be the reason, or explain it.
_TOLD_WITH_CEPH = (Why.CLUSTER_SHORT, Why.OBJECTIVE_MISSED, Why.UNFINISHED, Why.FILL_UNFINISHED)
_LONGEST_DETAIL = 200
_MOST_CHECKS = 3
_LAST_BUCKET = edges(LAST)[0] / 10**9

_SENTENCES: Mapping[Why, str | Callable[[_Facts], str]] = {
    Why.WITHIN: lambda facts: f"limit {_limit(facts)}",
    Why.UNLIMITED: "no limit is in force on the disk, so there is nothing to hold the figures against",
    Why.CLUSTER_SHORT: lambda facts: f"{_part(facts)} of {_limit(facts)}",
    Why.NOT_IN_FORCE: lambda facts: (
        f"{_part(facts)} of {_limit(facts)}, which is promised, while QEMU has {_set(facts['in_force'])} in force:"
        " see plimsoll plan"
    ),
    Why.TOO_MUCH: lambda facts: (
        f"{_part(facts)} of {_limit(facts)}, though QEMU says that it is in force: see plimsoll disk show --verify"
    ),
    Why.OBJECTIVE_MISSED: lambda facts: (
        f"{_objective(facts)} {_measured(facts)}, and the objective is"
        f" {seconds_words(facts['objective'])}{_wait(facts)}"
    ),
    Why.FROZEN: "the guest's file systems were frozen meanwhile, as for a snapshot: it proves nothing;"
    " wait for the next one",
    Why.MOVED: "the guest was migrated meanwhile: it proves nothing; the target's node probes it from now on",
    Why.LIMITS_CHANGED: lambda facts: (
        f"the limits were changed meanwhile, {_set(facts['before'])} → {_set(facts['after'])}:"
        " it proves nothing; see plimsoll record"
    ),
    Why.LIMITS_NOT_KNOWN: lambda facts: (
        f"it is not known {_limits_not_known(facts['detail'])}: it proves nothing; see plimsoll disk show, and of"
        " probe run --here its --limits"
    ),
    Why.GUEST_BUSY: lambda facts: (
        f"the guest's own processors were {_percent(facts['busy'])} busy: it measured them and not the disk;"
        " probe when it is idle, or give it more"
    ),
    Why.TOO_SHALLOW: lambda facts: (
        f"{facts['in_flight']} requests in flight reach the limit only below {seconds_words(facts['needed'])} each:"
        " it proves nothing; raise io_depth or processes in [probe]"
    ),
    Why.AGENT_ABSENT: "the guest has no agent channel: set hw_qemu_guest_agent=yes on its image and rebuild it",
    Why.AGENT_SILENT: "the guest's agent does not answer ({detail}): still booting, stopped or hung;"
    " look at qemu-guest-agent in the guest",
    Why.EXEC_FORBIDDEN: "guest-exec is disabled in the guest's agent ({detail}): allow guest-exec and"
    " guest-exec-status (/etc/sysconfig/qemu-ga, or --allow-rpcs)",
    Why.NOT_SUPPORTED: "the guest lacks what a probe needs ({detail}): a probe needs Linux with sh, timeout and gzip",
    Why.NO_FIO: "there is no fio: install fio in the guest",
    Why.NO_ENGINE: lambda facts: (
        f"its fio has no engine {_plain(facts['engine'])}, only {_list(facts['has'])}: set engine in [probe] to auto"
    ),
    Why.NO_SPACE: lambda facts: (
        f"{short_size(_number(facts['free']))} are free in {_plain(facts['directory'])} and"
        f" {short_size(_number(facts['needed']))} are needed: make room,"
        " or lower file_size or keep_free in [probe]"
    ),
    Why.NOT_WRITABLE: "cannot write in {directory} ({detail}): choose another directory in [probe] or in the rule",
    Why.NO_DISK: "{directory} lies on {device}, which is no RBD disk of the guest: choose a directory that does",
    Why.FILL_UNFINISHED: lambda facts: (
        f"the file was not filled within {seconds_words(facts['seconds'])}: lower file_size in [probe],"
        " or look at the cluster"
    ),
    Why.FIO_FAILED: "fio failed ({detail}): run the same job in the guest by hand",
    Why.UNFINISHED: lambda facts: (
        f"requests did not end within {seconds_words(facts['seconds'])}{_stalled(facts)}:"
        " see the cluster's slow requests"
    ),
    Why.NONSENSE: "what the guest answered cannot be believed ({detail}): look at what runs as its agent",
    Why.CONTRADICTED: lambda facts: (
        f"the guest tells of {_count(facts['said'])} requests and the host counted {_count(facts['counted'])}:"
        " look at what runs as its agent and as fio"
    ),
    Why.REBOOTED: "the guest was rebooted meanwhile: wait for the next one",
    Why.VANISHED: "the guest was stopped or taken away meanwhile: nothing to do if that was meant",
    Why.UNREACHABLE: "libvirt does not answer ({detail}): look at libvirtd on this node",
    Why.NOT_REACHED: "not begun, since a job before it ended the probe ({after}): see that job",
    Why.UNHEALTHY: "Ceph is not well ({detail}): it is probed when that is over; --ignore-health probes now",
    Why.NO_SLOT: "no slot of the region was free ({detail}): tried again until its time is over;"
    " see slots and coordination in [probe]",
    Why.PAUSED: "this node is paused: see plimsoll resume",
}


# --- verdicts


def why_words(why: Why, facts: Mapping[str, object]) -> str:
    """The sentence part of a reason; its code where a fact of it is missing or odd, as out of a history it may be."""
    sentence = _SENTENCES[why]
    try:
        if callable(sentence):
            return sentence(facts)
        return sentence.format_map({name: _plain(fact) for name, fact in facts.items()})
    except (LookupError, AttributeError, TypeError, ValueError, OverflowError, ZeroDivisionError):
        return str(why)


def because_words(result: ProbeResult, streak: Streak | None = None) -> str:
    """Why the verdict is what it is, what the cluster said meanwhile, and since when it has been so."""
    finding, circumstances = result.finding, result.circumstances
    limit = _limit_of(finding, circumstances)
    parts = [why_words(finding.why, {**finding.facts, **({} if limit is None else {"limit": limit})})]
    if finding.why in _TOLD_WITH_CEPH:
        parts.append(f"Ceph: {meanwhile_words(circumstances)}")
    if streak is not None and finding.verdict in _TOLD_SINCE:
        parts.append(since_words(streak))
    return "; ".join(parts)


def verdict_words(result: ProbeResult, streak: Streak | None = None) -> str:
    """``kept  (limit total_iops_sec 250)``, or ``short: 38 % of total_iops_sec 250; Ceph: …; since …``."""
    verdict, because = result.finding.verdict, because_words(result, streak)
    return f"{verdict}  ({because})" if verdict is Verdict.KEPT else f"{verdict}: {because}"


def since_words(streak: Streak) -> str:
    """``since 2026-11-20 09:13 UTC (kept until 09:01)``."""
    first, kept = streak
    if kept is None:
        return f"since {minute(first)}"
    same_day = first.astimezone(UTC).date() == kept.astimezone(UTC).date()
    return f"since {minute(first)} (kept until {f'{kept.astimezone(UTC):%H:%M}' if same_day else minute(kept)})"


def health_words(health: Health | None) -> str:
    """``OSD_DOWN (1 osds down)``."""
    if health is None:
        return "not asked"
    detail = f" ({_plain(health.detail)})" if health.detail else ""
    if health.raised is None:
        return f"not known{detail}"
    return f"{', '.join(map(printable, health.raised))}{detail}" if health.raised else "no check raised"


def checks_words(health: Health | None) -> str:
    """``OSD_DOWN (1 osds down)``, or ``OSD_DOWN, PG_AVAILABILITY, PG_DEGRADED and 2 more``: for a line."""
    if health is None or not health.raised or len(health.raised) == 1:
        return health_words(health)
    told, more = health.raised[:_MOST_CHECKS], len(health.raised) - _MOST_CHECKS
    return ", ".join(map(printable, told)) + (f" and {more} more" if more > 0 else "")


def meanwhile_words(circumstances: Circumstances) -> str:
    """What the cluster said before and after a run: the end alone where something was raised by then."""
    before, after = map(checks_words, (circumstances.health_before, circumstances.health_after))
    raised = circumstances.health_after is not None and circumstances.health_after.raised
    return after if raised or before == after else f"{before} when it began, {after} when it ended"


def postponed_words(postponed: Postponed) -> str:
    """Why a probe that was due was not begun."""
    return f"postponed: {why_words(postponed.why, postponed.facts)}"


# --- results


def guest_words(guest_name: str, display_name: str | None) -> str:
    """Its name as the tenant gave it, or else libvirt's."""
    return printable(display_name or guest_name)


def guest_cell(guest_name: str, display_name: str | None = None) -> str:
    """``instance-00000412 (canary)``: for lists, where two tenants may have chosen the same name."""
    return printable(f"{guest_name} ({display_name})" if display_name else guest_name)


def result_line(result: ProbeResult, streak: Streak | None = None, bar: str = "") -> str:
    """``canary-r2-n14  read   30 s   251 iops  p99 41 ms   kept  (limit total_iops_sec 250)``.

    ``bar`` stands before the seconds: how far it has come, while it runs.
    """
    name = guest_words(result.subject.guest_name, result.subject.display_name)
    job = f"{result.job.name:{max(map(len, JobName))}}"
    head = f"{name}  {job}  {f'{bar} ' if bar else ''}"
    if result.measured is None:
        return f"{head}{verdict_words(result, streak)}"
    measured = result.measured
    return f"{head}{measured.seconds:.0f} s  {figures_words(measured)}   {verdict_words(result, streak)}"


def figures_words(measured: Measured) -> str:
    """``251 iops  p99 41 ms  max 66 ms``."""
    p99, slowest = quantile_words(measured.latency.quantile(0.99)), latency_words(measured.latency_max)
    figures = f"{iops_words(measured.iops):>5} iops  p99 {p99}  max {slowest}"
    return f"{figures}  {measured.unfinished} unfinished" if measured.unfinished else figures


def iops_words(iops: float) -> str:
    """Whole ones; tenths below ten, where a whole one is much."""
    return f"{iops:.1f}" if 0 < iops < 9.95 else f"{iops:.0f}"


def quantile_words(quantile: Quantile | None) -> str:
    """``41 ms``; ``> 17 s`` beyond fio's last bucket, where nobody knows how far."""
    if quantile is None:
        return UNKNOWN
    if quantile.saturated:
        return f"> {latency_words(quantile.lower)}"
    return latency_words(quantile.value)


def latency_words(nanoseconds: float) -> str:
    """``850 µs``, ``1.9 s``: two figures, or three before the point."""
    for unit, size in (("ns", 1), ("µs", 10**3), ("ms", 10**6), ("s", 10**9)):
        value = nanoseconds / size
        if value < 999.5 or unit == "s":
            break
    return f"{value:.1f} {unit}" if value < 9.95 and unit != "ns" else f"{value:.0f} {unit}"


def seconds_words(seconds: Any) -> str:
    """A time that was stated in seconds, as exactly as it was stated: ``50 ms``, ``1.5 s``."""
    value = float(seconds)
    if value == 0 or value >= 1:
        return f"{value:.4g} s"
    return f"{value * 1000:.4g} ms" if value >= 0.001 else f"{value * 10**6:.4g} µs"


def share_words(share: float | None) -> str:
    return UNKNOWN if share is None else _percent(share)


def rate_words(bytes_per_second: float) -> str:
    return f"{short_size(round(bytes_per_second))}/s"


def limits_words(limits: Limits | None) -> str:
    return "not known" if limits is None else short_limits(limits)


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
    """A fact of a guest in one line that can be shown, and not longer than a reader wants."""
    text = printable(str(fact))
    return text if len(text) <= _LONGEST_DETAIL else f"{text[:_LONGEST_DETAIL]}…"


def _limit_of(finding: Finding, circumstances: Circumstances) -> object:
    """The value of the limit that a finding speaks of: the promised one where another is in force."""
    ours, theirs = circumstances.promised, circumstances.before
    limits = ours if finding.why is Why.NOT_IN_FORCE else theirs or ours
    return getattr(limits, str(finding.facts.get("parameter")), None) or None


def _limit(facts: _Facts) -> str:
    parameter = _plain(facts["parameter"])
    return f"{parameter} {_plain(facts['limit'])}" if "limit" in facts else parameter


def _part(facts: _Facts) -> str:
    return _percent(facts["done"] / facts["allowed"])


def _percent(share: float) -> str:
    """Tenths near the whole, where the verdict is decided, and where there is next to nothing."""
    percent = 100 * share
    tenths = 90 <= percent < 110 or 0 < percent < 0.95
    return f"{percent:.1f} %".replace(".0 ", " ") if tenths else f"{percent:.0f} %"


def _set(limits: Any) -> str:
    """Limits, as they are or as the history keeps them."""
    if limits is None:
        return "something that is not known"
    if isinstance(limits, Mapping | Limits):
        known = limits.in_effect() if isinstance(limits, Limits) else limits
        return ", ".join(f"{_plain(name)} {_plain(value)}" for name, value in known.items()) or "no limit"
    return _plain(limits) if limits else "no limit"


def quantile_name(quantile: float) -> str:
    """``p99.9``."""
    return f"p{100 * quantile:.6g}"


_MOMENTS = {
    "promised": "which limits are promised",
    "before": "what QEMU had in force when it began",
    "after": "what QEMU had in force when it ended",
}


def _limits_not_known(detail: Any) -> str:
    """Of the names of what is not known: ``before, after``, or ``group_name NAME`` of a limit that others share."""
    kind, _, name = str(detail).partition(" ")
    if kind == "group_name":
        return f"how much other disks took of the limits of group {_plain(name)}"
    return ", nor ".join(_MOMENTS.get(name, _plain(name)) for name in str(detail).split(", "))


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
    return f", which the limit forbids: with so many in flight each waits {wait} for its turn"


def _measured(facts: _Facts) -> str:
    measured = float(facts["measured"])
    # fio's last bucket begins there and ends nowhere; only the slowest is known exactly.
    beyond = facts["quantile"] not in (None, 1) and measured >= _LAST_BUCKET
    return f"> {latency_words(_LAST_BUCKET * 10**9)}" if beyond else latency_words(measured * 10**9)


def _list(names: Any) -> str:
    if isinstance(names, str):
        return _plain(names) or "none"
    return _plain(", ".join(map(str, names))) or "none"


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


def _stalled(facts: _Facts) -> str:
    """What became of them, as far as anybody could tell."""
    counts = {"were done": facts.get("done"), "never ended": facts.get("unfinished")}
    told = [f"{int(number)} {what}" for what, number in counts.items() if number is not None]
    return f" ({', '.join(told)})" if told else ""


def _count(number: Any) -> str:
    return "an unknown number of" if number is None else f"{int(number)}"
