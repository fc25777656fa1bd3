"""Text about the nodes, types, disks and probes of a region."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from plimsoll_agent.messages.sentences import STATE_WORDS, states_words
from plimsoll_agent.monitor.thresholds import Level, Thresholds
from plimsoll_agent.reconcile.outcome import Kind
from plimsoll_agent.util import durations
from plimsoll_agent.util.text import plural, printable, rounded
from plimsoll_monitoring.node.health import Figure, judge
from plimsoll_monitoring.region import promised
from plimsoll_monitoring.region.answers import NodeKey
from plimsoll_monitoring.region.disks import AT_LIMIT, UNLIMITED, RegionDisk
from plimsoll_monitoring.region.probes import QUANTILES, ProbeRow, kept_ratio, proving
from plimsoll_monitoring.region.status import UNKNOWN_VERSION, Node, RegionSnapshot

UNKNOWN = "-"
_NAMED = 4
_COUNTED = 100
"""Of so many runs and more the share is told."""
_LAST_EDGE = 17.0
"""Seconds: latencies in fio's last bucket are longer."""
QUANTILE_HEADS = tuple(f"p{quantile * 100:g}" for quantile in QUANTILES.values())
_STATES: Mapping[str, str] = {**STATE_WORDS, UNLIMITED: "unlimited", AT_LIMIT: "at limit"}


def percent(ratio: float | None) -> str:
    """A share below 1 is never rounded up to 100 %; a share may be above 1."""
    if ratio is None:
        return UNKNOWN
    percentage = round(ratio * 100, 1)
    return f"{99.9 if ratio < 1 and percentage == 100 else percentage:g} %"


def whole_percent(ratio: float) -> str:
    """A used share of a limit, in whole per cent, and below 1 never 100 %."""
    if 0 < ratio < 0.01:
        return "<1 %"
    return f"{min(round(100 * ratio), 99) if ratio < 1 else round(100 * ratio)} %"


def seconds_words(seconds: float | None) -> str:
    """A latency with three digits."""
    if seconds is None:
        return UNKNOWN
    if seconds >= _LAST_EDGE:
        return f"over {_LAST_EDGE:g} s"
    for unit, name in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= unit:
            return f"{rounded(seconds / unit)} {name}"
    return f"{rounded(seconds * 1e6)} µs"


def rate_words(rate: float | None) -> str:
    return UNKNOWN if rate is None else f"{rate:.0f}"


def ago(earlier: float, now: float) -> str:
    return f"{_duration(now - earlier)} ago"


def node_name(node: NodeKey, *, regions: bool) -> str:
    """With its region where there are several: their nodes may have the same name."""
    region, instance = node
    return f"{printable(instance)} ({name_or_no('region', region)})" if regions else printable(instance)


def name_or_no(noun: str, name: str) -> str:
    """The name, or ``no type``, ``no region``."""
    return printable(name) or f"no {noun}"


def noun_of(label: str) -> str:
    """What a label of metrics is called."""
    return "type" if label == "volume_type" else label.replace("_", " ")


def state_name(state: str) -> str:
    return _STATES.get(state, printable(state))


# --- region status ---------------------------------------------------------------------------------------


def status_facts(status: RegionSnapshot) -> dict[str, str]:
    """The lines about the whole region, by their titles."""
    facts = {"region": ", ".join(name_or_no("region", region) for region in status.regions)}
    facts["nodes"] = _nodes(status.nodes)
    facts["versions"] = _count_nodes(status.versions)
    facts["mode"] = _modes(status.nodes)
    states = states_words(status.all_states)
    facts["disks"] = f"{sum(status.states.values())}: {states}" if states else "none"
    facts["unlimited"] = f"{sum(one.unlimited for one in status.types)} although a limit is desired"
    facts["at limit"] = str(sum(one.at_limit for one in status.types))
    facts["reverted"] = f"{plural(round(sum(one.drift for one in status.types)), 'external change')} in a day"
    facts["probes"] = _probes(status)
    runs = status.runs
    of = "" if proving(runs) < _COUNTED else f" of {plural(proving(runs), 'run')}"
    facts["promise"] = f"kept in {kept_words(runs)}{of or ' runs'} in a day"
    if not proving(runs):
        facts["promise"] = "unknown: no conclusive run in a day"
    return facts


def _nodes(nodes: Sequence[Node]) -> str:
    levels = Counter("unreachable" if node.unreachable_since is not None else _level_word(node) for node in nodes)
    order = ("ok", "warning", "unknown", "critical", "unreachable")
    return f"{len(nodes)}: {', '.join(f'{levels[level]} {level}' for level in order if levels[level])}"


def _level_word(node: Node) -> str:
    return node.judgement.level.name.lower()


def _modes(nodes: Sequence[Node]) -> str:
    names = {True: "enforce", False: "observe", None: "unknown"}
    counts = Counter(names[node.enforcing] for node in nodes if node.unreachable_since is None)
    pauses = sum(node.paused for node in nodes)
    return _count_nodes(counts) + (f"; {pauses} paused" if pauses else "")


def _count_nodes(counts: Counter[str]) -> str:
    return (
        ", ".join(f"{printable(name)} on {plural(number, 'node')}" for name, number in counts.most_common())
        or UNKNOWN
    )


def _probes(status: RegionSnapshot) -> str:
    guests = len({one.uuid for one in status.probed})
    if not guests:
        return "no metrics of single guests" if status.runs else "none"
    late = len({one.uuid for one in status.probed if one.late(status.at)})
    postponements = [one for one in status.probed if one.postponed is not None]
    why = sorted({printable(one.why) for one in postponements if one.why})
    text = f"{plural(guests, 'guest')}, {late} overdue, {len({one.uuid for one in postponements})} postponed"
    return f"{text} ({', '.join(why)})" if why else text


def type_columns(*, regions: bool) -> tuple[str, ...]:
    head = ("region",) if regions else ()
    return (*head, "type", "disks", "in_sync", "unlimited", "at_limit", "reverted", "kept", "runs", *QUANTILE_HEADS)


def type_rows(status: RegionSnapshot, *, regions: bool) -> list[tuple[str, ...]]:
    """A row for each volume type: its disks, and its probes of a day."""
    return [
        (
            *([name_or_no("region", one.region)] if regions else []),
            name_or_no("type", one.name),
            str(sum(one.states.values())),
            str(one.states.get(Kind.IN_SYNC.value, 0)),
            str(one.unlimited),
            str(one.at_limit),
            str(round(one.drift)),
            kept_words(one.runs),
            str(proving(one.runs)),
            *(seconds_words(one.quantiles[name]) for name in QUANTILES),
        )
        for one in status.types
    ]


def good_words(status: RegionSnapshot) -> str:
    """The line of a region without problems."""
    states = states_words(status.all_states)
    disks = plural(sum(status.states.values()), "disk") if states else "no disks"
    return f"{plural(len(status.nodes), 'node')}, {disks}" + (f": {states}" if states else "")


def remarks(status: RegionSnapshot) -> Iterator[str]:
    """What to know beside the problems."""
    versions = status.versions.keys() - {UNKNOWN_VERSION}
    if len(versions) > 1:
        yield f"{len(versions)} versions: figures that only one of them reports are incomplete"
    yield from aggregate_lines(status.aggregates, regions=len(status.regions) > 1)
    yield from _daemon_lines(status)
    for one in status.stages:
        where = f" in {printable(one.node[0]) or '(none)'}" if len(status.regions) > 1 else ""
        since = "" if one.since is None else f" for {_duration(status.at - one.since)}"
        stops = ", ".join(f"{printable(name)}{'' if certain else ' (unknown)'}" for name, certain in one.stops)
        yield (
            f"approval {printable(one.approval)}{where}: stage {one.stage} of {one.stages}{since}"
            + (f"; the next does not begin: {stops}" if stops else "")
        )
    if status.unruled:
        yield "percentiles unknown: this Prometheus has not loaded plimsoll-rules.yaml, or only just now"
    if any(node.unreachable_since is not None for node in status.nodes):
        yield "disks and probes of unreachable nodes are not counted"


def _daemon_lines(status: RegionSnapshot) -> Iterator[str]:
    """A daemon that never started has no metrics: it is missing where most of the others have some."""
    reporting = [node for node in status.nodes if node.unreachable_since is None]
    absent = [node for node in reporting if not node.has_daemon]
    if 0 < 2 * len(absent) < len(reporting):
        names = first([node_name((node.region, node.instance), regions=len(status.regions) > 1) for node in absent])
        those = f"{plural(len(absent), 'node')} without a daemon, which the others have"
        yield f"{those}: stopped, or never started: {names}"


def _duration(seconds: float) -> str:
    return durations.words(timedelta(seconds=max(seconds, 0)))


def first(names: Sequence[str]) -> str:
    """The first few, and how many more there are."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def aggregate_lines(nodes: Sequence[NodeKey], *, regions: bool) -> Iterator[str]:
    """A line about nodes whose disks and guests cannot be listed."""
    if nodes:
        names = first([node_name(node, regions=regions) for node in nodes])
        yield (
            f"{plural(len(nodes), 'node')} without metrics of single disks and guests"
            f" ([metrics] detail = aggregate): {names}"
        )


def unreachable_lines(nodes: Sequence[NodeKey], reporting: Iterable[NodeKey], *, regions: bool) -> Iterator[str]:
    if nodes:
        names = first([node_name(node, regions=regions) for node in nodes])
        why = f"no metrics in Prometheus{namesakes(nodes, reporting)}"
        yield f"{plural(len(nodes), 'node')} not counted: unreachable ({why}): {names}"


def namesakes(unreachable: Iterable[NodeKey], reporting: Iterable[NodeKey]) -> str:
    """Nodes whose targets have got other labels are not gone; in two regions they may be two nodes."""
    hosts = {_host(instance) for _, instance in reporting}
    number = sum(_host(instance) in hosts for _, instance in unreachable)
    if not number:
        return ""
    whom = "a node of the same name has" if number == 1 else f"{number} nodes of the same names have"
    return f"; {whom} some, with other labels"


def without_port(instance: str) -> str:
    return re.sub(r":\d+$", "", instance).removeprefix("[").removesuffix("]")


def _host(instance: str) -> str:
    """Its host without port and domain."""
    host = without_port(instance)
    return host if re.fullmatch(r"[0-9.]+", host) else host.partition(".")[0]


def overdue_lines(ages: Mapping[NodeKey, float | None], *, regions: bool) -> Iterator[str]:
    """A line about nodes whose disks may be in another state now."""
    if ages:
        longest = max((age for age in ages.values() if age is not None), default=None)
        since = "an unknown time" if None in ages.values() or longest is None else _duration(longest)
        up_to = "up to " if len(ages) > 1 else ""
        names = first([node_name(node, regions=regions) for node in sorted(ages)])
        yield f"{plural(len(ages), 'node')} not observed for {up_to}{since}, so counted as of then: {names}"


# --- region disks ----------------------------------------------------------------------------------------


def disk_state(disk: RegionDisk, now: float, thresholds: Mapping[str, Thresholds]) -> str:
    """Its states, and their age where the node's last pass is too old."""
    states = [state for state in disk.states if state != Kind.IN_SYNC or len(disk.states) == 1]
    text = ", ".join(map(state_name, states)) or "unknown"
    end = disk.pass_ended
    if end is not None and judge([Figure(name="pass_age", value=now - end)], thresholds).level is not Level.OK:
        text += f" ({ago(end, now)})"
    return text


def share_words(disk: RegionDisk) -> str:
    """``98 % IOPS``: of ``total_iops_sec``."""
    if disk.share is None or disk.limit is None:
        return UNKNOWN
    limit = disk.limit.removeprefix("total_").removesuffix("_sec").replace("_", " ").replace("iops", "IOPS")
    return f"{whole_percent(disk.share)} {printable(limit)}"


def disks_sum(numbers: Mapping[str, int], lines: int, *, everything: bool) -> str:
    """``3 unlimited, 212 at limit; the worst 50 are listed``. ``everything``: of all nodes, as they are now."""
    text = ", ".join(f"{numbers[state]} {state_name(state)}" for state in numbers if numbers[state])
    if not text:
        return "No such disk." if everything else "No such disk among the nodes with current metrics of single disks."
    return f"{text}; the worst {lines} are listed" if max(numbers.values()) > lines else text


# --- region probes ---------------------------------------------------------------------------------------


def kept_words(runs: Mapping[str, float]) -> str:
    """``6 of 8``; of many runs their share."""
    number, ratio = proving(runs), kept_ratio(runs)
    return f"{ratio * number:.0f} of {number}" if ratio is not None and number < _COUNTED else percent(ratio)


def count_words(number: float | None) -> str:
    return UNKNOWN if number is None else str(round(number))


def probes_sum(rows: Iterable[ProbeRow], lines: int, *, everything: bool) -> str:
    """``3 runs: 2 kept, 1 short``. ``everything``: of all nodes."""
    of = list(rows)
    if not of:
        return "No probe results." if everything else "No probe results of the nodes with metrics."
    runs: Counter[str] = Counter()
    for row in of:
        runs.update({verdict: round(number) for verdict, number in row.runs.items()})
    verdicts = ", ".join(f"{number} {printable(verdict)}" for verdict, number in runs.most_common() if number)
    text = f"{plural(sum(runs.values()), 'run')}{': ' if verdicts else ''}{verdicts}"
    return f"{text}; the worst {lines} of {len(of)} are listed" if len(of) > lines else text


# --- region promised -------------------------------------------------------------------------------------


def amount(value: float | None, unit: str) -> str:
    """``340000``, or ``1.2 GiB/s``."""
    if value is None:
        return UNKNOWN
    if unit == "operations":
        return f"{value:.0f}"
    for factor, name in ((2**40, "TiB/s"), (2**30, "GiB/s"), (2**20, "MiB/s")):
        if value >= factor:
            return f"{value / factor:.0f} {name}" if value >= 1000 * factor else f"{rounded(value / factor)} {name}"
    return f"{rounded(value / 2**10)} KiB/s"


def promised_words(row: promised.PromiseRow) -> str:
    if row.promised is None:
        return "unlimited" if row.unlimited else UNKNOWN
    return f"{'≥ ' if row.at_least else ''}{amount(row.promised, row.unit)}"


def times_words(row: promised.PromiseRow) -> str:
    """``3.5×``."""
    return UNKNOWN if row.ratio is None else f"{'≥ ' if row.at_least else ''}{_times(row.ratio)}"


def use_words(row: promised.PromiseRow) -> str:
    return UNKNOWN if row.use is None else f"{'≤ ' if row.at_least else ''}{whole_percent(row.use)}"


def _times(ratio: float) -> str:
    return f"{ratio:.2g}×" if ratio < 10 else f"{ratio:.0f}×"


def promised_name(row: promised.PromiseRow, *, regions: bool) -> str:
    """``gold``, with its region where there are several."""
    region, (label, name) = row.labels["region"], list(row.labels.items())[-1]
    text = "(unknown)" if name is None else name_or_no(noun_of(label), name)
    return f"{text} ({name_or_no('region', region or '')})" if regions else text


def promised_lines(rows: Sequence[promised.PromiseRow], over: promised.Over, *, regions: bool) -> Iterator[str]:
    """A sentence on each type, pool or class: of requests, or of bytes if no limit on requests is known."""
    pairs = zip(rows[::2], rows[1::2], strict=True)
    for operations, in_bytes in pairs:
        row = in_bytes if operations.promised is None and in_bytes.promised is not None else operations
        yield f"{promised_name(row, regions=regions)}: {_promised_sentence(row, over)}"


def _promised_sentence(row: promised.PromiseRow, over: promised.Over) -> str:
    unit = " IOPS" if row.unit == "operations" else ""
    without = _left_out(row)
    if row.promised is None:
        text = f"nothing promised{without}" if row.disks else "no disks now"
    else:
        bound = "at least " if row.at_least else ""
        text = f"{bound}{_short(row.promised, row.unit)}{unit} promised{without}"
    if row.most is None:
        return f"{text}; what was taken is unknown"
    text += f", {amount(row.most, row.unit)}{unit if row.promised is None else ''} the most seen in a {over.value}"
    if row.ratio is not None:
        text += f" ({'at least ' if row.at_least else ''}{_times(row.ratio)})"
    if row.use is not None:
        text += f", peak use {'at most ' if row.at_least else ''}{whole_percent(row.use)}"
    return f"{text}, p99 at that peak {'unknown' if row.p99 is None else seconds_words(row.p99)}"


def _left_out(row: promised.PromiseRow) -> str:
    """`` (1 of 12 disks unlimited, 2 unknown)``."""
    counts = [(number, word) for number, word in ((row.unlimited, "unlimited"), (row.unknown, "unknown")) if number]
    parts = [f"{number} {word}" for number, word in counts[1:]]
    if counts:
        number, word = counts[0]
        parts.insert(0, f"{number} of {plural(row.disks, 'disk')} {word}")
    return f" ({', '.join(parts)})" if parts else ""


def _short(value: float, unit: str) -> str:
    return f"{value / 1e6:.3g} M" if unit == "operations" and value >= 1e6 else amount(value, unit)


def known_since(rows: Iterable[promised.PromiseRow], now: float, over: promised.Over) -> Iterator[str]:
    """A line where Prometheus has not yet seen all of that time."""
    since = min((row.since for row in rows if row.since is not None), default=None)
    if since is not None and now - since < promised.WINDOWS[over] - 3600:
        moment = datetime.fromtimestamp(since, UTC)
        yield f"Prometheus has what was taken since {moment:%Y-%m-%d %H:%M} UTC only ({ago(since, now)})."


def left_out_lines(nodes: Sequence[NodeKey], why: str, *, regions: bool) -> Iterator[str]:
    if nodes:
        names = first([node_name(node, regions=regions) for node in nodes])
        yield f"{plural(len(nodes), 'node')} not counted ({why}, or an older version): {names}"
