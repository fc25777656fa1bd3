"""What is wrong in a region, by what it is: the worst first, with its nodes, and what to run next."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from plimsoll_agent.monitor.thresholds import Level
from plimsoll_agent.util import durations
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import first_few, plural, printable
from plimsoll_monitoring.node.health import JudgedFigure, since_words
from plimsoll_monitoring.region.answers import NodeKey
from plimsoll_monitoring.region.firing import Firing
from plimsoll_monitoring.region.messages import name_or_no, namesakes, without_port
from plimsoll_monitoring.region.status import Node, RegionSnapshot

MOST = 20
"""Problems on one screen."""
_NAMED = 4
"""How many nodes are named, and asked about by name."""
_OF_DISKS = ("unlimited", "behind", "failed", "unknown", "at_limit")
_OF_PROBES = ("probe_late", "probe_broken", "probe_failed")
_ORDER = (
    "unlimited",
    "failed",
    "unreachable_guests",
    "probe_broken",
    "pass_age",
    "sources_down",
    "",
    "unknown",
    "braked",
    "paused",
    "behind",
    "catalogue_age",
    "daemon_faults",
    "probe_failed",
    "probe_late",
    "at_limit",
    "good_pass_age",
    "observed_age",
    "pass_seconds",
)
"""Of what is wrong at the same level, the worst first: what guests feel, then what may become so; "" are alerts."""
_CAUSES: Mapping[str, tuple[str, ...]] = {
    "good_pass_age": (
        *("pass_age", "sources_down", "failed", "unreachable_guests"),
        *("braked", "paused", "behind", "unknown"),
    ),
    "observed_age": ("pass_age", "sources_down"),
    "failed": ("unlimited",),
    "behind": ("braked", "paused"),
    "unknown": ("unreachable_guests",),
}
"""What is told with the first of these that is wrong on the same node."""
_SAME = 60.0
"""Seconds; without a pass there was no good one either."""


@frozen(kw_only=True)
class RegionProblem:
    """One thing that is wrong, with all nodes on which it is."""

    level: Level
    text: str
    """What, and on which nodes; safe to show."""
    do: str
    """The command to run next."""
    nodes: tuple[NodeKey, ...]
    figures: tuple[str, ...]
    """The names of what is out of its range."""
    alerts: tuple[str, ...] = ()
    """The names of alerts that fire and tell the same."""


@frozen
class _Case:
    """One thing that is wrong with one node, and what is told with it."""

    node: Node
    finding: JudgedFigure
    effects: tuple[JudgedFigure, ...] = ()


@frozen
class _Group:
    """The same on several nodes."""

    cases: tuple[_Case, ...]
    alerts: tuple[Firing, ...] = ()

    @property
    def figure(self) -> str:
        return self.cases[0].finding.measure.name if self.cases else ""

    @property
    def level(self) -> Level:
        levels = [each.level for case in self.cases for each in (case.finding, *case.effects)]
        return max(levels + [alert.level for alert in self.alerts])

    @property
    def nodes(self) -> tuple[NodeKey, ...]:
        """In the order of their names."""
        keys = {_key(case.node) for case in self.cases} or {alert.node for alert in self.alerts if alert.node[1]}
        return tuple(sorted(keys, key=lambda key: (_natural(key[1]), key)))

    @property
    def order(self) -> tuple[object, ...]:
        return (
            -self.level,
            _ORDER.index(self.figure),
            -len(self.nodes),
            *(_natural(name) for _, name in self.nodes[:1]),
        )


def problems(
    status: RegionSnapshot, options: Sequence[str] = (), arguments: Sequence[str] = ()
) -> Iterator[RegionProblem]:
    """The worst first. ``options`` of ``plimsoll``, and ``arguments`` of the command, go into what to run next."""
    alike: dict[object, list[_Case]] = {}
    for node in status.nodes:
        for case in _cases(node):
            alike.setdefault(_kind(case), []).append(case)
    groups = [_Group(tuple(cases)) for cases in alike.values()]
    others: dict[object, list[Firing]] = {}
    for alert in status.alerts:
        place = next((at for at, group in enumerate(groups) if _tells(group, alert)), None)
        if place is None:
            others.setdefault((alert.name, alert.summary), []).append(alert)
        else:
            groups[place] = _Group(groups[place].cases, (*groups[place].alerts, alert))
    groups += [_Group((), tuple(those)) for those in others.values()]
    groups.sort(key=lambda group: group.order)
    writer = _Writer(status, tuple(options), tuple(arguments))
    top = groups if len(groups) <= MOST else groups[: MOST - 1]
    yield from map(writer.problem, top)
    if rest := groups[len(top) :]:
        figures = dict.fromkeys(name for group in rest for name in _figures(group))
        keys = dict.fromkeys(key for group in rest for key in group.nodes)
        yield RegionProblem(
            level=rest[0].level,
            text=f"{plural(len(rest), 'more problem')} of {plural(len(keys), 'node')}",
            do=writer.here("region", "status", *arguments, "-f", "json"),
            nodes=tuple(keys),
            figures=tuple(figures),
        )


def _cases(node: Node) -> Iterator[_Case]:
    wrong = {finding.measure.name: finding for finding in node.judgement.wrong}
    effects: dict[str, list[JudgedFigure]] = {}
    for name in sorted(wrong.keys() & _CAUSES.keys(), key=_ORDER.index):
        if cause := _root(name, wrong):
            effects.setdefault(cause, []).append(wrong[name])
    followers = {each.measure.name for those in effects.values() for each in those}
    for name in sorted(wrong.keys() - followers, key=_ORDER.index):
        yield _Case(node, wrong[name], tuple(effects.get(name, ())))


def _root(name: str, wrong: Collection[str]) -> str:
    """What this is told with, of all that is wrong on its node; "" if it stands alone."""
    cause = next((each for each in _CAUSES.get(name, ()) if each in wrong), "")
    return (_root(cause, wrong) or cause) if cause else ""


def _kind(case: _Case) -> object:
    """Cases of the same kind are one problem."""
    finding = case.finding
    unknown = finding.figure.value is None
    unreachable = case.node.unreachable_since is not None
    return unreachable, finding.level, finding.measure, unknown, finding.figure.about, _observes(case)


def _observes(case: _Case) -> bool:
    """Whether its disks are out of sync because of its mode."""
    finding = case.finding
    out_of_sync = finding.measure.name == "behind" and "out of sync" in finding.figure.about
    return out_of_sync and case.node.enforcing is False


def _tells(group: _Group, alert: Firing) -> bool:
    """Whether the group has what the alert is about, on its node, or somewhere in its region."""
    figures, (region, instance) = _figures(group), alert.node
    return alert.measure in figures and any(region == node[0] and instance in ("", node[1]) for node in group.nodes)


def _figures(group: _Group) -> tuple[str, ...]:
    findings = (each for case in group.cases for each in (case.finding, *case.effects))
    return tuple(dict.fromkeys(each.measure.name for each in findings))


def _key(node: Node) -> NodeKey:
    return node.region, node.instance


def _natural(name: str) -> tuple[tuple[str, int], ...]:
    """node2 before node10."""
    return tuple((text, int(number or 0)) for text, number in re.findall(r"(\D*)(\d{0,18})", name))


# --- what is wrong


def _what(group: _Group) -> str:
    if not group.cases:
        return group.alerts[0].summary
    cases, many = group.cases, len(group.cases) > 1
    text = _words([case.finding for case in cases], observes=_observes(cases[0]))
    for name in _figures(group)[1:]:
        pairs = [(case.finding, each) for case in cases for each in case.effects if each.measure.name == name]
        pairs = [pair for pair in pairs if not _is_same(*pair)]
        if pairs:
            on = f" (on {len(pairs)} of them)" if many and len(pairs) < len(cases) else ""
            text += f"; {_words([each for _, each in pairs])}{on}"
    return text


def _is_same(cause: JudgedFigure, effect: JudgedFigure) -> bool:
    """Whether it says no more than its cause."""
    one, other = cause.figure.value, effect.figure.value
    if one is None or other is None:
        return False
    if cause.measure.name == "braked" and effect.measure.name == "behind":
        return other <= one  # they are the same disks; the brake counts more where some are held
    return cause.measure.name == "pass_age" and abs(other - one) < _SAME


def _words(findings: Sequence[JudgedFigure], *, observes: bool = False) -> str:
    """The same figure of all these nodes: numbers add up, and of durations the longest is told."""
    measure, about = findings[0].measure, printable(findings[0].figure.about)
    values = [finding.figure.value for finding in findings if finding.figure.value is not None]
    if not values:
        return _UNKNOWN.get(measure.name, f"{measure.name} unknown")
    if measure.unit == "s":
        return f"{measure.wrong} {'up to ' if len(findings) > 1 else ''}{_duration(max(values))}"
    if measure.name in _WORDS:
        one, words = _WORDS[measure.name]
        text = words.format(number=plural(round(sum(values)), one), about=about or "unknown")
        return f"{text} (mode observe)" if observes else text
    return f"{measure.wrong}: {about}"


def _duration(seconds: float) -> str:
    return durations.words(timedelta(seconds=max(seconds, 0)))


_UNKNOWN = {
    "pass_age": "time of the last pass unknown",
    "good_pass_age": "time of the last good pass unknown",
    "catalogue_age": "no usable catalogue",
    "observed_age": "disks not observed yet",
}
_WORDS: Mapping[str, tuple[str, str]] = {
    "paused": ("pause", "paused: nothing is written"),
    "braked": ("disk", "{number} deferred by the brake: revision {about} needs approval"),
    "unlimited": ("disk", "{number} unlimited"),
    "behind": ("disk", "{number} {about}"),
    "failed": ("disk", "change failed on {number}"),
    "unknown": ("disk", "{number} unknown"),
    "unreachable_guests": ("guest", "{number} unreachable"),
    "at_limit": ("disk", "{number} at limit"),
    "probe_late": ("probe", "{number} overdue"),
    "probe_broken": ("promise", "{number} broken"),
    "probe_failed": ("probe", "{number} failed"),
}
"""What is counted, and what is wrong with it."""

_COMMANDS: Mapping[str, str] = {
    "PlimsollPromiseBroken": "probes",
    "PlimsollOverLimit": "probes",
    "PlimsollLatencyBudgetBurning": "probes",
    "PlimsollOversubscribed": "promised",
    "PlimsollCongested": "congestion",
    "PlimsollCongestionNoSignal": "congestion",
    "PlimsollCongestionStale": "congestion",
}
"""Of ``plimsoll region``: what to run for alerts on a region that may have no volume type."""


# --- with its nodes, and what to run next


@frozen
class _Writer:
    """On a node there is its own ``plimsoll status``, which knows its set-up."""

    status: RegionSnapshot
    options: tuple[str, ...]
    arguments: tuple[str, ...]

    def problem(self, group: _Group) -> RegionProblem:
        text = _what(group)
        if group.figure == "pass_age" and (unreachable := _unreachable(group)):
            since = _duration(self.status.at - min(unreachable))
            more = "up to " if len(unreachable) > 1 else ""
            reporting = [_key(each) for each in self.status.nodes if each.unreachable_since is None]
            why = f"no metrics in Prometheus{namesakes(group.nodes, reporting)}"
            text = f"unreachable for {more}about {since} ({why})"
        return RegionProblem(
            level=group.level,
            text=f"{text}{self._where(group)}{self._alerts(group)}",
            do=self._next(group),
            nodes=group.nodes,
            figures=_figures(group),
            alerts=tuple(dict.fromkeys(alert.name for alert in group.alerts)),
        )

    def here(self, *words: str) -> str:
        return printable(shlex.join(("plimsoll", *self.options, *words)))

    def _where(self, group: _Group) -> str:
        """``: node2, node10``, or ``: 12 nodes, node1, node2, …``; a region where it is about no node."""
        names = [self._name(node) for node in group.nodes]
        if not names:
            regions = dict.fromkeys(printable(alert.node[0]) for alert in group.alerts if alert.node[0])
            return f" in {', '.join(regions)}" if regions and len(self.status.regions) > 1 else ""
        number = f"{len(names)} nodes, " if len(names) > _NAMED else ""
        return f": {number}{first_few(names, _NAMED)}"

    def _name(self, node: NodeKey) -> str:
        """With its region where there are several: their nodes may have the same name."""
        region, _ = node
        name = printable(self._host(node))
        return f"{name} ({name_or_no('region', region)})" if len(self.status.regions) > 1 else name

    def _host(self, node: NodeKey) -> str:
        """Without the port, if no other node of the region has the same."""
        region, instance = node
        host = without_port(instance)
        hosts = Counter(without_port(each.instance) for each in self.status.nodes if each.region == region)
        return host if hosts[host] <= 1 else instance

    def _alerts(self, group: _Group) -> str:
        """`` (alert PlimsollX since 14:02 UTC)``, where no figure of a node tells it."""
        if group.cases or not group.alerts:
            return ""
        starts, since = [alert.since for alert in group.alerts if alert.since is not None], ""
        if len(starts) == len(group.alerts):
            now = datetime.fromtimestamp(self.status.at, UTC)
            since = f" since {since_words(datetime.fromtimestamp(min(starts), UTC), now)}"
        return f" (alert {printable(group.alerts[0].name)}{since})"

    def _next(self, group: _Group) -> str:
        """For the worst of these nodes, or for all of them."""
        figure, nodes = group.figure, group.nodes
        if not group.cases:
            return self._of_alert(group.alerts[0])
        has_detail = not all(node in self.status.aggregates for node in nodes)
        worst = max(group.cases, key=lambda case: (case.finding.figure.value or 0.0, -nodes.index(_key(case.node))))
        on = _key(worst.node)
        if figure in _OF_DISKS:
            return self._of(nodes, "region", "disks") if has_detail else on_node(on, "disk", "list")
        if figure in _OF_PROBES:
            by = ("region", "probes", "--by", "guest")
            return self._of(nodes, *by) if has_detail else on_node(on, "probe", "list")
        return on_node(on, "plan" if figure == "braked" else "status")

    def _of_alert(self, alert: Firing) -> str:
        region, instance = alert.node
        if instance:
            return on_node(alert.node, "status")
        if alert.name in ("PlimsollGuestsStalled", "PlimsollHealthGateShut"):
            return "ceph health detail"
        if alert.name == "PlimsollMdsThrashing":
            return "plimsoll mds watch"
        if alert.name == "PlimsollCongestionIneffective":
            return "plimsoll slow"
        # Not by its labels: one on disks without a volume type has no label of a type.
        volume_type = alert.labels.get("volume_type")
        command = _COMMANDS.get(alert.name, "probes" if volume_type else "disks")
        of_type = ("--type", volume_type) if volume_type and command == "probes" else ()
        return self.here("region", command, *self.arguments, *(("--region", region) if region else ()), *of_type)

    def _of(self, nodes: Sequence[NodeKey], *words: str) -> str:
        regions = {region for region, _ in nodes}
        region = ("--region", *regions) if len(regions) == 1 else ()
        names = [word for node in nodes for word in ("--node", self._host(node))] if len(nodes) <= _NAMED else []
        return self.here(*words, *self.arguments, *region, *names)


def _unreachable(group: _Group) -> list[float]:
    """When the metrics of its nodes ended."""
    return [case.node.unreachable_since for case in group.cases if case.node.unreachable_since is not None]


def on_node(node: NodeKey, *words: str) -> str:
    """To be pasted, where the instance is the name or the address of a host."""
    host, command = without_port(node[1]), shlex.join(("plimsoll", *words))
    if re.fullmatch(r"[\w.:][\w.:-]*", host, re.ASCII):
        return f"ssh {host} {command}"
    return f"{command}   (on {printable(node[1])})"
