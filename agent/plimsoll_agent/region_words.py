"""What the commands about the region say of nodes, types, disks and probes, for people and for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta

from plimsoll_agent import spans
from plimsoll_agent.health import Figure, Finding, judge
from plimsoll_agent.measures import MEASURE, Level, Measure, Thresholds
from plimsoll_agent.outcome import Kind
from plimsoll_agent.promql import NodeKey
from plimsoll_agent.region import Node, Status
from plimsoll_agent.regiondisks import UNLIMITED, WALL, RegionDisk
from plimsoll_agent.regionprobes import QUANTILES, Row, kept_ratio, proving
from plimsoll_agent.report import printable

NOT_KNOWN = "-"
_NAMED = 4
_SOURCES = "sources_down"
_LAST_EDGE = 17.0
"""Seconds: what fio's last bucket holds took longer, and nobody knows how much."""
QUANTILE_HEADS = tuple(f"p{quantile * 100:g}" for quantile in QUANTILES.values())
_STATES: Mapping[str, str] = {
    UNLIMITED: "unlimited",
    WALL: "at the wall",
    Kind.LEFT_ALONE.value: "left alone",
    Kind.NOT_KNOWN.value: "not known",
}


def number_of(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def percent(ratio: float | None) -> str:
    """What is not whole never looks so, however little it lacks; a share may be above all."""
    if ratio is None:
        return NOT_KNOWN
    rounded = round(ratio * 100, 1)
    return f"{99.9 if ratio < 1 and rounded == 100 else rounded:g} %"


def seconds_words(seconds: float | None) -> str:
    """A latency in three figures."""
    if seconds is None:
        return NOT_KNOWN
    if seconds >= _LAST_EDGE:
        return f"over {_LAST_EDGE:g} s"
    for unit, name in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds * 1e6:.3g} µs"


def rate_words(rate: float | None) -> str:
    return NOT_KNOWN if rate is None else f"{rate:.0f}"


def ago(earlier: float, now: float) -> str:
    return f"{_span(now - earlier)} ago"


def node_name(node: NodeKey, *, regions: bool) -> str:
    """With its region where there are several: nodes of two may have one name."""
    region, instance = node
    return f"{printable(instance)} ({name_or_none(region)})" if regions else printable(instance)


def name_or_none(name: str) -> str:
    return printable(name) or "(none)"


def state_name(state: str) -> str:
    return _STATES.get(state, printable(state))


# --- region status ---------------------------------------------------------------------------------------


def status_facts(status: Status) -> dict[str, str]:
    """The region line by line."""
    facts = {"region": ", ".join(name_or_none(region) for region in status.regions)}
    facts["nodes"] = _nodes(status.nodes)
    facts["versions"] = _listed(Counter(node.version or "?" for node in status.nodes if node.silent_since is None))
    facts["mode"] = _modes(status.nodes)
    states = status.states
    disks = sum(states.values())
    named = ", ".join(f"{states[kind.value]} {state_name(kind.value)}" for kind in Kind if states[kind.value])
    facts["disks"] = f"{disks}: {named}" if disks else "0"
    facts["unlimited"] = f"{sum(one.unlimited for one in status.types)} though a limit is wanted"
    facts["at the wall"] = str(sum(one.at_wall for one in status.types))
    facts["put back"] = f"{round(sum(one.drift for one in status.types))} limits in a day, changed by somebody else"
    facts["probes"] = _probes(status)
    runs = status.runs
    facts["promise"] = f"kept in {percent(kept_ratio(runs))} of {number_of(proving(runs), 'run')} in a day"
    if not proving(runs):
        facts["promise"] = "not known: no run in a day has proved anything"
    return facts


def _nodes(nodes: Sequence[Node]) -> str:
    levels = Counter("silent" if node.silent_since is not None else _level_word(node) for node in nodes)
    order = ("well", "warning", "unknown", "critical", "silent")
    return f"{len(nodes)}: {', '.join(f'{levels[level]} {level}' for level in order if levels[level])}"


def _level_word(node: Node) -> str:
    return "well" if node.judgement.level is Level.OK else node.judgement.level.name.lower()


def _modes(nodes: Sequence[Node]) -> str:
    names = {True: "enforce", False: "observe", None: "not known"}
    counted = Counter(names[node.enforcing] for node in nodes if node.silent_since is None)
    paused = sum(node.paused for node in nodes)
    return _listed(counted) + (f"; {paused} paused" if paused else "")


def _listed(counted: Counter[str]) -> str:
    return (
        ", ".join(f"{printable(name)} on {number_of(number, 'node')}" for name, number in counted.most_common())
        or NOT_KNOWN
    )


def _probes(status: Status) -> str:
    guests = len({one.uuid for one in status.probed})
    if not guests:
        return "not told one by one" if status.runs else "none"
    late = len({one.uuid for one in status.probed if one.late(status.at)})
    put_off = [one for one in status.probed if one.postponed is not None]
    why = sorted({printable(one.why) for one in put_off if one.why})
    said = f"{number_of(guests, 'guest')}, {late} late, {len({one.uuid for one in put_off})} put off"
    return f"{said} ({', '.join(why)})" if why else said


def type_columns(*, regions: bool) -> tuple[str, ...]:
    head = ("region",) if regions else ()
    return (*head, "type", "disks", "right", "unlimited", "at_wall", "put_back", "kept", "runs", *QUANTILE_HEADS)


def type_rows(status: Status, *, regions: bool) -> list[tuple[str, ...]]:
    """A row for each volume type: its disks, and what its probes found in a day."""
    return [
        (
            *([name_or_none(one.region)] if regions else []),
            name_or_none(one.name),
            str(sum(one.states.values())),
            str(one.states.get(Kind.RIGHT.value, 0)),
            str(one.unlimited),
            str(one.at_wall),
            str(round(one.drift)),
            percent(kept_ratio(one.runs)),
            str(proving(one.runs)),
            *(seconds_words(one.quantiles[name]) for name in QUANTILES),
        )
        for one in status.types
    ]


def closing_lines(status: Status) -> Iterator[str]:
    """What is wrong, the worst first, and what was not told."""
    several = len(status.regions) > 1
    lines: list[tuple[Level, str]] = []
    for name, where in status.wrong():
        silent = [(node, finding) for node, finding in where if node.silent_since is not None]
        for those in (silent, [one for one in where if one not in silent]):
            if those:
                level = those[0][1].level
                how_many = f"{number_of(len(those), 'node')}: " if len(those) > 1 else ""
                what = "nothing heard from" if those is silent else _what(MEASURE[name])
                said = first([_where(*one, status.at, regions=several) for one in those])
                lines.append((level, f"{level.name:<8}  {how_many}{what} {said}"))
    yield from (line for _, line in sorted(lines, key=lambda line: -line[0]))
    yield from aggregate_lines(status.aggregates, regions=several)
    if status.unruled:
        yield "Percentiles are not known: this Prometheus has not loaded plimsoll-rules.yaml, or only just now."
    if any(node.silent_since is not None for node in status.nodes):
        yield "What silent nodes have is not counted here; nobody knows it."
    yield "All is well." if status.level is Level.OK else "Look on the node: plimsoll status"


def _what(measure: Measure) -> str:
    """Words of a measure that the figures of nodes come after."""
    return measure.wrong if measure.unit or measure.name == _SOURCES else f"{measure.wrong}:"


def _where(node: Node, finding: Finding, now: float, *, regions: bool) -> str:
    """``3 on compute-17``, ``2 h on compute-17``, ``rules on compute-17``."""
    value, name = finding.figure.value, node_name((node.region, node.instance), regions=regions)
    if node.silent_since is not None:
        return f"{name} for about {_span(now - node.silent_since)}"
    if value is None:
        return f"as long as is known on {name}"
    if finding.measure.unit == "s":
        return f"{_span(value)} on {name}"
    if finding.measure.name == _SOURCES:
        return f"{printable(finding.figure.about)} on {name}"
    return f"{value:g} on {name}"


def _span(seconds: float) -> str:
    return spans.words(timedelta(seconds=max(seconds, 0)))


def first(names: Sequence[str]) -> str:
    """The first few, and how many more there are."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def aggregate_lines(nodes: Sequence[NodeKey], *, regions: bool) -> Iterator[str]:
    """That what is shown of single disks and guests is not all."""
    if nodes:
        names = first([node_name(node, regions=regions) for node in nodes])
        keep = "keeps" if len(nodes) == 1 else "keep"
        yield (
            f"{number_of(len(nodes), 'node')} {keep} sums only, and nothing of single disks and guests"
            f" ([metrics] detail = aggregate): {names}"
        )


# --- region disks ----------------------------------------------------------------------------------------


def disk_state(disk: RegionDisk, now: float, thresholds: Mapping[str, Thresholds]) -> str:
    """Its states, and how old the word is where the node has made no pass for too long."""
    states = [state for state in disk.states if state != Kind.RIGHT or len(disk.states) == 1]
    said = ", ".join(map(state_name, states)) or "not known"
    if disk.told is not None and judge([Figure("pass_age", now - disk.told)], thresholds).level is not Level.OK:
        said += f" ({ago(disk.told, now)})"
    return said


def share_words(disk: RegionDisk) -> str:
    """``99.8 % iops``: of ``total_iops_sec``."""
    if disk.share is None or disk.wall is None:
        return NOT_KNOWN
    limit = disk.wall.removeprefix("total_").removesuffix("_sec").replace("_", " ")
    return f"{percent(disk.share)} {printable(limit)}"


def disks_sum(numbers: Mapping[str, int], shown: int, *, everything: bool) -> str:
    """``3 unlimited, 212 at the wall; the worst 50 are listed``. ``everything``: all nodes told of theirs."""
    said = ", ".join(f"{numbers[state]} {state_name(state)}" for state in numbers if numbers[state])
    if not said:
        return "No disk is so." if everything else "No disk is so that was told of."
    return f"{said}; the worst {shown} are listed" if max(numbers.values()) > shown else said


# --- region probes ---------------------------------------------------------------------------------------


def count_words(number: float | None) -> str:
    return NOT_KNOWN if number is None else str(round(number))


def probes_sum(rows: Iterable[Row], shown: int) -> str:
    of = list(rows)
    if not of:
        return "Nothing was probed."
    runs: Counter[str] = Counter()
    for row in of:
        runs.update({verdict: round(number) for verdict, number in row.runs.items()})
    listed = ", ".join(f"{number} {printable(verdict)}" for verdict, number in runs.most_common() if number)
    said = f"{number_of(sum(runs.values()), 'run')}{': ' if listed else ''}{listed}"
    return f"{said}; the worst {shown} of {len(of)} are listed" if len(of) > shown else said
