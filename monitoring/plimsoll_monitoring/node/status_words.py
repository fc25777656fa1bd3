"""``plimsoll status`` as text: facts, remarks, a row a volume type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from plimsoll_agent.messages.sentences import kernel_mapped_words, note_words, short_size, states_words
from plimsoll_agent.messages.sentences import words as reason_words
from plimsoll_agent.model.clusters import short_fsid
from plimsoll_agent.monitor import daemon_status
from plimsoll_agent.monitor.pass_summary import LastDisk, LastPass
from plimsoll_agent.reconcile.grade import Grade
from plimsoll_agent.reconcile.outcome import Kind
from plimsoll_agent.util import durations
from plimsoll_agent.util.text import ago, plural, printable
from plimsoll_monitoring.node import consoles
from plimsoll_monitoring.node.health import (
    NEVER_PASSED,
    braked_words,
)
from plimsoll_monitoring.node.status import NONE, NodeStatus, Probes, by_type
from plimsoll_probes.model.finding import Verdict


def good_words(status: NodeStatus) -> str:
    """The line of a node without problems: what the last pass found, and when it ended."""
    last = status.last
    if last is None:
        return NEVER_PASSED
    return f"{disks_words(last)}; last pass {ago(last.ended, status.now)}"


def disks_words(last: LastPass) -> str:
    if not last.disks:
        return "no disks that QEMU opens on RBD" if last.kernel_mapped else "no disks"
    return f"{plural(len(last.disks), 'disk')}: {_count_states(last.disks)}"


def remarks(status: NodeStatus) -> Iterator[str]:
    """What to know beside the problems."""
    if status.consoles is not None:
        yield from consoles.remarks(status.consoles)
    if status.daemon_is_absent:
        yield (
            "the daemon is enabled and does not run: only the timer's passes set limits"
            " (systemctl status plimsoll-daemon.service)"
        )
    last = status.last
    if last is None:
        return
    if last.braked and status.approvals_unread:
        yield f"{status.approvals_unread}; an approval since the last pass is not shown"
    yield from map(note_words, last.notes)
    if last.kernel_mapped:
        yield kernel_mapped_words(last.kernel_mapped)
    if last.paused is not None and status.paused is None:
        yield "the last pass was paused, the node is not any more: the next pass writes"
    if last.enforcing and status.observe:
        yield "the last pass was in mode enforce; the settings have mode observe"


def facts(status: NodeStatus, *, everything: bool = False) -> dict[str, str]:
    """The lines of the text form."""
    last, lines = status.last, dict[str, str]()
    lines["passes"] = "unknown" if "pass" in status.complaints else "none yet"
    if last is not None:
        lines["passes"] = _passes(last, status.now)
    if status.daemon is not None:
        runs = "runs" if status.daemon.runs(status.now) else "does not run any more"
        lines["daemon"] = f"{runs}; {daemon_status.line(status.daemon)}"
    lines |= _mode(status)
    if last is not None and last.looked is not None:
        lines |= _facts_of_disks(last, status)
    if last is not None and last.catalogue is not None:
        lines["catalogue"] = _catalogue(last, status.now, everything=everything)
    if status.consoles is not None:
        lines["consoles"] = consoles.fact(status.consoles, status.now)
    lines["probes"] = "unknown" if status.probes is None else _probes(status.probes, status.now)
    if everything and last is not None:
        grades = ", ".join(f"{last.totals.passes.get(grade, 0)} {grade.value}" for grade in Grade)
        lines["so far"] = grades + (f"; {last.busy} skipped, since another pass was running" if last.busy else "")
        lines["sources"] = _sources(last)
    if everything:
        files = (f"{path.name} {ago(at, status.now)}" for path, at in status.written.items())
        lines["files"] = ", ".join(files) or NONE
    return lines


def _passes(last: LastPass, now: datetime) -> str:
    how = {Grade.GOOD: "good", Grade.PARTIAL: "partial", Grade.FAILED: "FAILED"}[last.grade]
    took = f", {sum(last.phases.values()):.1f} s" if last.phases else ""
    good = "never" if last.last_good is None else ago(last.last_good, now)
    return f"last {ago(last.ended, now)}: {how}{took}" + ("" if last.grade is Grade.GOOD else f"; last good {good}")


def _mode(status: NodeStatus) -> dict[str, str]:
    last, lines = status.last, dict[str, str]()
    observe = status.observe if last is None else not last.enforcing
    lines["mode"] = "enforce"
    if observe:
        lines["mode"] = f"observe: {_OBSERVING if status.observe else _LAST_OBSERVED}"
    if status.paused is not None:
        lines["pause"] = f"nothing is written: {reason_words(status.paused)}"
    return lines


_OBSERVING = "timer and daemon write no limit until mode = enforce in the settings"
_LAST_OBSERVED = "the last pass wrote no limit; the settings have mode enforce"


def _facts_of_disks(last: LastPass, status: NodeStatus) -> dict[str, str]:
    lines = {"disks": _disks(last.disks)}
    if last.looked is not None and last.looked < last.started:
        lines["disks"] += f"; observed {ago(last.looked, status.now)}"
    lines["guests"] = f"{last.guests} reachable" + (
        f", {len(last.running_unreachable)} unreachable" if last.running_unreachable else ""
    )
    lines["limits"] = _limits(last)
    if last.braked_disks:
        revision = printable(last.braked or "")[:16]
        how = f": revision {revision} {status.approved}" if status.approved else f" until plimsoll approve {revision}"
        lines["brake"] = f"{plural(last.braked_disks, 'disk')} deferred{braked_words(last)}{how}"
    if last.holds:
        lines["holds"] = f"{last.holds} (plimsoll disk hold list)"
    if acknowledgements := sum(disk.acknowledged is not None for disk in last.disks):
        lines["acknowledged"] = f"{acknowledgements} unknown (plimsoll disk acknowledge list)"
    clusters = sorted({disk.cluster for disk in last.disks if disk.cluster})
    if clusters:
        lines["cluster"] = "; ".join(_cluster(cluster, last, status.now) for cluster in clusters)
    return lines


def _cluster(cluster: str, last: LastPass, now: datetime) -> str:
    """Its health when it was asked, or why it was not."""
    name, when = printable(short_fsid(cluster)), f"asked {ago(last.looked or last.started, now)}"
    reasons = [disk.reason for disk in last.disks if disk.cluster == cluster and disk.gated]
    if reasons:
        facts, number = reasons[0].facts, f"{plural(len(reasons), 'disk')} deferred"
        if "checks" in facts:
            return f"{name}: {printable(str(facts['checks']))} ({when}): {number}"
        detail = facts.get("detail")
        why = (
            f"({when}): {printable(detail)}"
            if isinstance(detail, str)
            else f"(not asked): {reason_words(reasons[0])}"
        )
        return f"{name}: health unknown {why}: {number}"
    if cluster in last.healthy:
        return f"{name}: no check that defers changes ({when})"
    why = "a pass asks only before it raises or removes a limit" if last.enforcing else "mode observe writes nothing"
    return f"{name}: not asked: {why}"


def _sources(last: LastPass) -> str:
    down = [printable(name) for name, is_up in last.sources.items() if not is_up]
    up = [printable(name) for name, is_up in last.sources.items() if is_up]
    parts = [f"DOWN: {', '.join(down)}"] if down else []
    return "; ".join(parts + ([f"up: {', '.join(up)}"] if up else []))


def _catalogue(last: LastPass, now: datetime, *, everything: bool) -> str:
    catalogue, calls = last.catalogue, last.calls
    if catalogue is None or catalogue.issued is None:
        return "none usable"
    stale = "stale: " if (now - catalogue.issued).total_seconds() > catalogue.stale_after else ""
    refreshes = f"; {plural(calls.good, 'refresh', 'refreshes')}, {calls.failed} failed" if everything else ""
    return f"{stale}from {printable(catalogue.source)}, {ago(catalogue.issued, now)}{refreshes}"


def _disks(disks: Sequence[LastDisk]) -> str:
    return f"{len(disks)}: {_count_states(disks)}" if disks else "none"


def _count_states(disks: Sequence[LastDisk]) -> str:
    """``239 in sync, 1 unknown``: each disk once, as in plan."""
    return states_words(Counter(disk.state for disk in disks))


def _limits(last: LastPass) -> str:
    parts = [f"{sum(disk.astray for disk in last.disks)} unlimited where a limit is desired"]
    if last.interval is not None:
        at_limit = sum(disk.at_limit for disk in last.disks)
        parts.append(f"{at_limit} at limit in the last {_duration(last.interval)}")
    orphans = sum(disk.orphaned for disk in last.disks)
    if orphans:
        parts.append(f"{orphans} orphaned (plimsoll plan)")
    reverts = sum(last.totals.corrected.values())
    if reverts:
        parts.append(f"{plural(reverts, 'external change')} reverted so far")
    return "; ".join(parts)


def _duration(seconds: float) -> str:
    return durations.words(timedelta(seconds=seconds))


def _probes(probes: Probes, now: datetime) -> str:
    """By the last ``probe run``; the rules may have changed since."""
    guests = plural(len({target.guest_uuid for target in probes.chosen}), "guest")
    as_of = max((each.seen for each in probes.chosen), default=None)
    parts = [] if as_of is None else [f"{guests} to be probed as of {ago(as_of, now)}"]
    late = next((figure.value for figure in probes.figures if figure.name == "probe_late"), None)
    parts += [f"{late:.0f} overdue"] if late else []
    parts += [f"{len(probes.postponed)} postponed"] if probes.postponed else []
    verdicts = probes.verdicts
    numbers = ", ".join(f"{verdicts[each]} {each.value}" for each in Verdict if verdicts[each])
    newest = max((each.ended for each in probes.results), default=None)
    if newest is not None:
        parts.append(f"newest: {numbers} ({ago(newest, now)})")
    elif parts:
        parts.append("no result yet")
    return "; ".join(parts) or "none has run yet (plimsoll probe timetable)"


def type_table(last: LastPass) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """A row for each volume type, and a column for each state that any disk is in."""
    types = by_type(last.disks)
    kinds = [kind for kind in Kind if any(disk.kind is kind for disk in last.disks)]
    columns = ["type", "disks", *(kind.value.replace("-", "_") for kind in kinds), "unlimited"]
    has_rates = last.interval is not None
    columns += ["at_limit", "iops", "bytes/s"] if has_rates else []
    rows = []
    for name, disks in types.items():
        row = [printable(name) or NONE, len(disks), *(sum(disk.kind is kind for disk in disks) for kind in kinds)]
        row.append(sum(disk.astray for disk in disks))
        if has_rates:
            rates = [disk.rates for disk in disks if disk.rates is not None]
            iops = sum(each.read_iops + each.write_iops for each in rates)
            bandwidth = sum(each.read_bytes + each.write_bytes for each in rates)
            at_limit = sum(disk.at_limit for disk in disks)
            row += [at_limit, f"{iops:.0f}", short_size(round(bandwidth))] if rates else [NONE] * 3
        rows.append(tuple(map(str, row)))
    return tuple(columns), rows
