"""``plimsoll status`` as text: facts, remarks, a row a volume type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from plimsoll_agent.messages.sentences import note_words, short_size, states_words
from plimsoll_agent.messages.sentences import words as reason_words
from plimsoll_agent.monitor import daemon_status
from plimsoll_agent.monitor.pass_summary import LastDisk, LastPass
from plimsoll_agent.reconcile.grade import Grade
from plimsoll_agent.reconcile.outcome import Kind
from plimsoll_agent.util import durations
from plimsoll_agent.util.text import ago, plural, printable
from plimsoll_monitoring.node import consoles
from plimsoll_monitoring.node.health import (
    NEVER_PASSED,
)
from plimsoll_monitoring.node.status import NONE, NodeStatus, Probes, by_type
from plimsoll_probes.model.finding import Verdict


def good_words(status: NodeStatus) -> str:
    """The line of a node without problems: what the last pass found, and when it ended."""
    last = status.last
    if last is None:
        return NEVER_PASSED
    disks = f"{plural(len(last.disks), 'disk')}: {_counted(last.disks)}" if last.disks else "no disks"
    return f"{disks}; last pass {ago(last.ended, status.now)}"


def remarks(status: NodeStatus) -> Iterator[str]:
    """What to know beside the problems."""
    if status.consoles is not None:
        yield from consoles.remarks(status.consoles)
    last = status.last
    if last is None:
        return
    if last.braked and status.approvals_unread:
        yield f"{status.approvals_unread}; an approval since the last pass is not shown"
    yield from map(note_words, last.notes)
    if last.paused is not None and status.paused is None:
        yield "the last pass was paused, the node is not any more: the next pass writes"
    if last.enforcing and status.observe:
        yield "the last pass was in mode enforce; the settings have mode observe"


def facts(status: NodeStatus, *, long: bool = False) -> dict[str, str]:
    """The lines of the text form."""
    last, told = status.last, dict[str, str]()
    told["passes"] = "unknown" if "pass" in status.complaints else "none yet"
    if last is not None:
        told["passes"] = _passes(last, status.now)
    if status.daemon is not None:
        runs = "runs" if status.daemon.runs(status.now) else "does not run any more"
        told["daemon"] = f"{runs}; {daemon_status.line(status.daemon)}"
    told |= _mode(status)
    if last is not None and last.looked is not None:
        told |= _facts_of_disks(last, status)
    if last is not None and last.catalogue is not None:
        told["catalogue"] = _catalogue(last, status.now, long=long)
    if status.consoles is not None:
        told["consoles"] = consoles.fact(status.consoles, status.now)
    told["probes"] = "unknown" if status.probes is None else _probes(status.probes, status.now)
    if long and last is not None:
        counted = ", ".join(f"{last.totals.passes.get(grade, 0)} {grade.value}" for grade in Grade)
        told["so far"] = counted + (f"; {last.busy} skipped, since another pass was running" if last.busy else "")
        told["sources"] = _sources(last)
    if long:
        written = (f"{path.name} {ago(at, status.now)}" for path, at in status.written.items())
        told["files"] = ", ".join(written) or NONE
    return told


def _passes(last: LastPass, now: datetime) -> str:
    how = {Grade.GOOD: "good", Grade.PARTIAL: "partial", Grade.FAILED: "FAILED"}[last.grade]
    took = f", {sum(last.phases.values()):.1f} s" if last.phases else ""
    good = "never" if last.last_good is None else ago(last.last_good, now)
    return f"last {ago(last.ended, now)}: {how}{took}; last good {good}"


def _mode(status: NodeStatus) -> dict[str, str]:
    last, told = status.last, dict[str, str]()
    observe = status.observe if last is None else not last.enforcing
    told["mode"] = "enforce"
    if observe:
        told["mode"] = f"observe: {f'no limit is written until {_ENFORCE}' if status.observe else _LAST_OBSERVED}"
    if status.paused is not None:
        told["pause"] = f"nothing is written: {reason_words(status.paused)}"
    return told


_ENFORCE = "mode = enforce in the settings"
_LAST_OBSERVED = "the last pass wrote no limit; the settings have mode enforce"


def _facts_of_disks(last: LastPass, status: NodeStatus) -> dict[str, str]:
    told = {"disks": _disks(last.disks)}
    if last.looked is not None and last.looked < last.started:
        told["disks"] += f"; observed {ago(last.looked, status.now)}"
    told["guests"] = f"{last.guests} reachable" + (
        f", {len(last.running_unreachable)} unreachable" if last.running_unreachable else ""
    )
    told["limits"] = _limits(last)
    if last.braked_disks:
        revision = printable(last.braked or "")[:16]
        how = f": revision {revision} {status.approved}" if status.approved else f" until plimsoll approve {revision}"
        told["brake"] = f"{plural(last.braked_disks, 'disk')} deferred{how}"
    if last.holds:
        told["holds"] = f"{last.holds} (plimsoll disk hold list)"
    if acknowledged := sum(disk.acknowledged is not None for disk in last.disks):
        told["acknowledged"] = f"{acknowledged} unknown (plimsoll disk acknowledge list)"
    clusters = sorted({disk.cluster for disk in last.disks if disk.cluster})
    if clusters:
        told["cluster"] = "; ".join(_cluster(cluster, last.disks) for cluster in clusters)
    return told


def _cluster(cluster: str, disks: Sequence[LastDisk]) -> str:
    """Its health is asked for only where a limit is to be raised or removed."""
    gated = [disk for disk in disks if disk.cluster == cluster and disk.gated]
    why = f"{plural(len(gated), 'disk')} {reason_words(gated[0].reason)}" if gated else "no change deferred"
    return why if printable(cluster) in why else f"{printable(cluster)}: {why}"


def _sources(last: LastPass) -> str:
    down = [printable(name) for name, is_up in last.sources.items() if not is_up]
    up = [printable(name) for name, is_up in last.sources.items() if is_up]
    told = [f"DOWN: {', '.join(down)}"] if down else []
    return "; ".join(told + ([f"up: {', '.join(up)}"] if up else []))


def _catalogue(last: LastPass, now: datetime, *, long: bool) -> str:
    catalogue, calls = last.catalogue, last.calls
    if catalogue is None or catalogue.issued is None:
        return "none usable"
    stale = "stale: " if (now - catalogue.issued).total_seconds() > catalogue.stale_after else ""
    asked = f"; {plural(calls.good, 'refresh', 'refreshes')}, {calls.failed} failed" if long else ""
    return f"{stale}from {printable(catalogue.source)}, {ago(catalogue.issued, now)}{asked}"


def _disks(disks: Sequence[LastDisk]) -> str:
    return f"{len(disks)}: {_counted(disks)}" if disks else "none"


def _counted(disks: Sequence[LastDisk]) -> str:
    """``239 in sync, 1 unknown``: each disk once, as in plan."""
    return states_words(Counter(disk.state for disk in disks))


def _limits(last: LastPass) -> str:
    told = [f"{sum(disk.astray for disk in last.disks)} unlimited where a limit is desired"]
    if last.interval is not None:
        at_limit = sum(disk.at_limit for disk in last.disks)
        told.append(f"{at_limit} at limit in the last {_duration(last.interval)}")
    orphaned = sum(disk.orphaned for disk in last.disks)
    if orphaned:
        told.append(f"{orphaned} orphaned (plimsoll plan)")
    reverted = sum(last.totals.corrected.values())
    if reverted:
        told.append(f"{plural(reverted, 'external change')} reverted so far")
    return "; ".join(told)


def _duration(seconds: float) -> str:
    return durations.words(timedelta(seconds=seconds))


def _probes(probes: Probes, now: datetime) -> str:
    """By the last ``probe run``; the rules may have changed since."""
    guests = plural(len({target.guest_uuid for target in probes.chosen}), "guest")
    seen = max((each.seen for each in probes.chosen), default=None)
    never = "no guest to be probed, or no probe run --due yet (plimsoll probe timetable)"
    told = [never if seen is None else f"{guests} to be probed as of {ago(seen, now)}"]
    late = next((figure.value for figure in probes.figures if figure.name == "probe_late"), None)
    told += [f"{late:.0f} overdue"] if late else []
    told += [f"{len(probes.postponed)} postponed"] if probes.postponed else []
    verdicts = probes.verdicts
    named = ", ".join(f"{verdicts[each]} {each.value}" for each in Verdict if verdicts[each])
    newest = max((each.ended for each in probes.results), default=None)
    told += ["no result yet"] if newest is None else [f"newest: {named} ({ago(newest, now)})"]
    return "; ".join(told)


def type_table(last: LastPass) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """A row for each volume type, and a column for each state that any disk is in."""
    types = by_type(last.disks)
    kinds = [kind for kind in Kind if any(disk.kind is kind for disk in last.disks)]
    columns = ["type", "disks", *(kind.value.replace("-", "_") for kind in kinds), "unlimited"]
    rated = last.interval is not None
    columns += ["at_limit", "iops", "bytes/s"] if rated else []
    rows = []
    for name, disks in types.items():
        row = [printable(name) or NONE, len(disks), *(sum(disk.kind is kind for disk in disks) for kind in kinds)]
        row.append(sum(disk.astray for disk in disks))
        if rated:
            rates = [disk.rates for disk in disks if disk.rates is not None]
            done = sum(each.read_iops + each.write_iops for each in rates)
            moved = sum(each.read_bytes + each.write_bytes for each in rates)
            at_limit = sum(disk.at_limit for disk in disks)
            row += [at_limit, f"{done:.0f}", short_size(round(moved))] if rates else [NONE] * 3
        rows.append(tuple(map(str, row)))
    return tuple(columns), rows
