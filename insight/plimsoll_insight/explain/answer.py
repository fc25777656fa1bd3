"""The answer, before its figures: the cause in a line, when, what to run next, and the tenant's sentence."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from rich.cells import cell_len

from plimsoll_agent.messages.tones import TONES
from plimsoll_agent.model.usage import AT_LIMIT_RATIO
from plimsoll_agent.terminal.moments import Window
from plimsoll_agent.terminal.output import Terminal
from plimsoll_agent.terminal.wrap import wrapped
from plimsoll_agent.util import durations
from plimsoll_agent.util.frozen import frozen, replace
from plimsoll_agent.util.text import both_ends, minute, plural, printable
from plimsoll_insight.explain import strip
from plimsoll_insight.explain.diagnosis import Cause, Diagnosis, Unexplained
from plimsoll_insight.explain.evidence import SharedPlace
from plimsoll_insight.explain.guests import ExplainedDisk
from plimsoll_insight.explain.messages import (
    figures_words,
    idle,
    limit_words,
    moment,
    tenant_words,
    usual_limit,
    whose,
)
from plimsoll_insight.explain.strip import DiskStrip
from plimsoll_monitoring.region.answers import NodeKey
from plimsoll_monitoring.region.messages import percent, without_port
from plimsoll_monitoring.region.problems import on_node

Explained = tuple[ExplainedDisk, Diagnosis]
_MOST_NAMED = 6
_TONES: Mapping[Cause, str] = {
    Cause.LIMIT: "at-limit",
    Cause.CLUSTER: "slow",
    Cause.NEIGHBOUR: "slow",
    Cause.UNKNOWN: "unknown",
}
_WORDS: Mapping[Cause, str] = {
    Cause.LIMIT: "LIMIT",
    Cause.CLUSTER: "CLUSTER",
    Cause.NEIGHBOUR: "NEIGHBOUR",
    Cause.UNKNOWN: "UNKNOWN",
}


@frozen(kw_only=True)
class ExplainCase:
    """A server's disks, or one of them, in a time."""

    server: str
    disks: tuple[Explained, ...]
    window: Window
    names: Mapping[str, str]
    """Of other guests, by UUID."""
    reasons: Mapping[Unexplained, str]
    node: NodeKey | None = None
    """Where the guest is, if that is another machine."""

    @property
    def groups(self) -> list[list[Explained]]:
        """Disks with the same cause together, those with most slow intervals first, the unknown last."""
        alike: dict[object, list[Explained]] = {}
        for disk, diagnosis in self.disks:
            one = diagnosis.neighbour
            neighbour = None if one is None else (one.uuid, one.place)
            key = diagnosis.cause, diagnosis.unexplained, neighbour, diagnosis.raised
            alike.setdefault(key, []).append((disk, diagnosis))
        return sorted(alike.values(), key=_rank)

    @property
    def guilty(self) -> list[list[Explained]]:
        """Without those that were not slow, if any was or may have been."""
        return [group for group in self.groups if group[0][1].cause is not Cause.NOT_SLOW]

    @property
    def subjects(self) -> list[Explained]:
        """Those whose figures are shown."""
        return [each for group in self.guilty or self.groups for each in group]


def _rank(group: Sequence[Explained]) -> tuple[bool, int]:
    return group[0][1].cause is Cause.UNKNOWN, -sum(len(diagnosis.slow) for _, diagnosis in group)


def lines(case: ExplainCase, terminal: Terminal, *, blocks: bool = True) -> Iterator[str]:
    """The cause of each group, the time line, what to run next, and the tenant's sentences."""
    for group in case.guilty or case.groups[:1]:
        yield from _cause_lines(case, group, terminal)
    rows = [
        DiskStrip(disk.name, strip.parts(disk.evidence, diagnosis), figures_words(disk, diagnosis))
        for disk, diagnosis in case.subjects
    ]
    yield from strip.lines(rows, terminal, blocks=blocks)
    if innocent := [disk.name for disk, diagnosis in case.disks if diagnosis.cause is Cause.NOT_SLOW and case.guilty]:
        more = f" and {len(innocent) - _MOST_NAMED} more" if len(innocent) > _MOST_NAMED else ""
        yield f"not slow: {printable(', '.join(innocent[:_MOST_NAMED]))}{more}"
    yield from (f"next: {each}" for each in dict.fromkeys(_next(case)))
    for group in case.guilty or case.groups:
        yield from (f'tenant: "{sentence}"' for sentence in _tenant_words(group))


# --- the cause


def _cause_lines(case: ExplainCase, group: Sequence[Explained], terminal: Terminal) -> Iterator[str]:
    cause, when = group[0][1].cause, _when(case, group)
    text = printable(_cause_words(case, group))
    both = f"{text}   {when}" if when else text
    if terminal.width is None or cell_len(both) <= terminal.width:
        texts = [both]
    else:
        texts = [*wrapped(text, terminal.width), *([f"  {when}"] if when else [])]
    if word := _WORDS.get(cause):
        tone = TONES[_TONES[cause]]
        place = next((number for number, each in enumerate(texts) if word in each), 0)
        texts[place] = texts[place].replace(word, terminal.toned(word, tone), 1)
    yield from texts


def _cause_words(case: ExplainCase, group: Sequence[Explained]) -> str:
    """``web-29 was slow because of a NEIGHBOUR on node7: web-28 did 94 % of the node's requests``."""
    diagnosis, who = group[0][1], case.server
    if len(group) < len(case.disks) or len(case.disks) == 1:
        who += f" {', '.join(disk.name for disk, _ in group)}"
    slow = f"{who} was slow because of"
    match diagnosis.cause:
        case Cause.LIMIT:
            limits = dict.fromkeys(limit_words(each.slow).removeprefix("its ") for _, each in group)
            of_each = (f"{disk.name} {limit_words(each.slow).removeprefix('its ')}" for disk, each in group)
            which = (
                f"its own LIMIT, {next(iter(limits))}"
                if len(limits) == 1
                else f"its own LIMITs: {', '.join(of_each)}"
            )
            in_bursts = all((each.share or 0.0) < AT_LIMIT_RATIO for _, one in group for each in one.slow)
            return f"{slow} {which}{', in bursts' if in_bursts else ''}"
        case Cause.CLUSTER:
            checks = ", ".join(diagnosis.raised)
            return f"{slow} the CLUSTER: {checks or 'the median disk of its type was slow too'}"
        case Cause.NEIGHBOUR:
            return f"{slow} a NEIGHBOUR {_neighbour_words(case, group)}"
        case Cause.NOT_SLOW:
            did_nothing = all(idle(disk.evidence.intervals) for disk, _ in group)
            did = "made no requests" if did_nothing else "was not slow"
            return f"{who} {did} in {case.window.words}{_since_words(group)}"
        case _:
            why = case.reasons[diagnosis.unexplained] if diagnosis.unexplained else "nothing is known"
            if diagnosis.slow:
                return f"{who} was slow, the cause is UNKNOWN: {why}"
            return f"{who}: whether it was slow is UNKNOWN: {why}{_little_words(group)}{_end_words(group)}"


def _since_words(group: Sequence[Explained]) -> str:
    """``, measured since 2026-12-01 14:05 UTC``, where that is later than asked for."""
    times = [disk.evidence.since for disk, _ in group if disk.evidence.since is not None]
    return f", measured since {moment(max(times))}" if times else ""


def _neighbour_words(case: ExplainCase, group: Sequence[Explained]) -> str:
    (disk, _), *_ = group
    one = max((each.neighbour for _, each in group if each.neighbour), key=lambda each: each.share)
    unit = "requests" if one.unit == "operations" else "bytes"
    who = case.names.get(one.uuid) or one.uuid
    if one.place is SharedPlace.POOL:
        return f"in pool {disk.pool}: {who} did {percent(one.share)} of the pool's {unit}"
    slow = [each for _, diagnosis in group for each in diagnosis.slow]
    node = next((each.node for each in reversed(slow) if each.node and one in each.neighbours), None)
    return f"on {without_port(node) if node else 'this node'}: {who} did {percent(one.share)} of the node's {unit}"


def _little_words(group: Sequence[Explained]) -> str:
    """Since when there is anything at all, and which limit it was at, where there are few intervals."""
    words = ""
    intervals = [each for disk, _ in group for each in disk.evidence.intervals]
    readings = [each for each in intervals if each.read]
    if readings and group[0][1].unexplained in (Unexplained.FEW_PASSES, Unexplained.TOO_LITTLE):
        first = datetime.fromtimestamp(min(each.at for each in readings), UTC)
        words += f"; first measured {minute(first)}"
        at_limit = [each for each in readings if each.share is not None and each.share >= AT_LIMIT_RATIO]
        if at_limit:
            words += f"; at limit, {limit_words(at_limit).removeprefix('its ')}, in {len(at_limit)} of"
            words += f" {plural(len(readings), 'interval')}"
    return words


def _end_words(group: Sequence[Explained]) -> str:
    """Until when there is anything: its node may have stopped since."""
    (disk, _), *_ = group
    readings = [each.at for each in disk.evidence.intervals if each.read]
    is_over = bool(readings) and not disk.evidence.intervals[-1].read
    return f"; last measured {moment(readings[-1])}" if is_over else ""


def _when(case: ExplainCase, group: Sequence[Explained]) -> str:
    """``18:56–22:16 UTC (3 h 20 min)``; with its day where that is not the last one of the time."""
    begins = [diagnosis.slow[0].at - disk.evidence.seconds for disk, diagnosis in group if diagnosis.slow]
    ends = [diagnosis.slow[-1].at for _, diagnosis in group if diagnosis.slow]
    if not begins:
        return ""
    first, last = datetime.fromtimestamp(min(begins), UTC), datetime.fromtimestamp(max(ends), UTC)
    begin, end = both_ends(first, last)
    if first.date() == case.window.until.astimezone(UTC).date():
        begin = f"{first:%H:%M}"
    dash = "–" if len(end) < len("2026-11-22") else " – "
    return f"{begin}{dash}{end} ({durations.words(timedelta(seconds=max(ends) - min(begins)))})"


# --- what to do


def _next(case: ExplainCase) -> Iterator[str]:
    """The commands to run next, as they can be pasted."""
    for group in case.guilty:
        for disk, diagnosis in group:
            yield from _commands(case, disk, diagnosis)


def _commands(case: ExplainCase, disk: ExplainedDisk, diagnosis: Diagnosis) -> Iterator[str]:
    match diagnosis.cause:
        case Cause.LIMIT if not disk.replaced:
            one = usual_limit(diagnosis.slow)
            limit = None if one is None else one.limit
            words: tuple[str, ...] = ("disk", "explain", disk.guest_uuid, disk.disk)
            if one is None or one.desired is None:
                hold = ("disk", "hold", "add", disk.guest_uuid, disk.disk, "--for", "2h", "--set", f"{limit}=N")
                words = (*hold, "--reason", "TEXT")
            yield printable(shlex.join(("plimsoll", *words))) if case.node is None else on_node(case.node, *words)
        case Cause.CLUSTER:
            yield "ceph health detail"
            yield "plimsoll slow --live"
        case Cause.NEIGHBOUR:
            yield f"plimsoll region load --by guest {case.window.options}"
        case _:
            pass


def _tenant_words(group: Sequence[Explained]) -> Iterator[str]:
    """One for disks that waited for the same, if the same is usual for them."""
    if group[0][1].cause in (Cause.LIMIT, Cause.NOT_SLOW):
        yield from (tenant_words(disk, diagnosis, whose([disk])) for disk, diagnosis in group)
        return
    alike: dict[float | None, list[Explained]] = {}
    for disk, diagnosis in group:
        alike.setdefault(disk.evidence.usual, []).append((disk, diagnosis))
    for those in alike.values():
        slow = {each.at: each for _, diagnosis in those for each in diagnosis.slow}
        whole = replace(those[0][1], slow=tuple(slow[at] for at in sorted(slow)))
        yield tenant_words(those[0][0], whole, whose([disk for disk, _ in those]))
