"""What is wrong in a region, by node: the worst first, nodes with the same problems as one, and what to run next."""

from __future__ import annotations

import operator
import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

from plimsoll_agent.monitor.thresholds import MEASURES, Level
from plimsoll_agent.util import durations
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import plural, printable
from plimsoll_monitoring.node.health import JudgedFigure
from plimsoll_monitoring.region.answers import NodeKey
from plimsoll_monitoring.region.status import Node, Status

MOST = 20
"""Problems on one screen."""
_NAMED = 4
"""How many nodes are named, and asked about by name."""
_OF_DISKS = ("unlimited", "behind", "failed", "unknown", "at_limit")
_OF_PROBES = ("probe_late", "probe_broken", "probe_failed")
_LAST = ("good_pass_age", "observed_age", "pass_seconds")
_ORDER = (*(measure.name for measure in MEASURES if measure.name not in _LAST), *_LAST)
"""Of what is wrong at the same level: causes before what follows from them."""


@frozen(kw_only=True)
class RegionProblem:
    """Everything that is wrong with one node, or with several nodes that have the same problems."""

    level: Level
    text: str
    """Which nodes, and what; safe to show."""
    do: str
    """The command to run next."""
    nodes: tuple[NodeKey, ...]
    figures: tuple[str, ...]
    """The names of what is out of its range."""


def problems(status: Status, options: Sequence[str] = (), arguments: Sequence[str] = ()) -> Iterator[RegionProblem]:
    """The worst first. ``options`` of ``plimsoll``, and ``arguments`` of the command, go into what to run next."""
    alike: dict[object, list[Node]] = {}
    for node in status.nodes:
        if node.judgement.wrong:
            alike.setdefault(_kind(node), []).append(node)
    groups = sorted(alike.values(), key=lambda nodes: (-nodes[0].judgement.level, -len(nodes)))
    commands = _Commands(status, tuple(options), tuple(arguments))
    top = groups if len(groups) <= MOST else groups[: MOST - 1]
    yield from (_problem(sorted(nodes, key=_badness), status, commands) for nodes in top)
    if rest := [node for nodes in groups[len(top) :] for node in nodes]:
        figures = dict.fromkeys(finding.measure.name for node in rest for finding in node.judgement.wrong)
        text = f"{plural(len(rest), 'more node')} with problems"
        do = commands.here("region", "status", *arguments, "-f", "json")
        yield RegionProblem(
            level=rest[0].judgement.level, text=text, do=do, nodes=tuple(map(_key, rest)), figures=tuple(figures)
        )


def _kind(node: Node) -> object:
    """Nodes with the same kind have the same problems, in other numbers."""
    wrong = tuple((each.measure, each.level, each.figure.value is None, each.figure.about) for each in _wrong(node))
    return node.unreachable_since is None, _observes(node), wrong


def _observes(node: Node) -> bool:
    """Whether its disks are out of sync because of its mode."""
    behind = [finding.figure.about for finding in node.judgement.wrong if finding.measure.name == "behind"]
    return any("out of sync" in about for about in behind) and node.enforcing is False


def _wrong(node: Node) -> list[JudgedFigure]:
    return sorted(node.judgement.wrong, key=lambda finding: (-finding.level, _ORDER.index(finding.measure.name)))


def _badness(node: Node) -> tuple[float, str]:
    value = _wrong(node)[0].figure.value
    return -(value or 0.0), node.instance


def _key(node: Node) -> NodeKey:
    return node.region, node.instance


def _problem(nodes: Sequence[Node], status: Status, commands: _Commands) -> RegionProblem:
    head, wrong = nodes[0], [_wrong(node) for node in nodes]
    if head.unreachable_since is not None:
        since = min(node.unreachable_since or status.at for node in nodes)
        what = f"unreachable for {_at_most(nodes)}about {_duration(status.at - since)} (no metrics in Prometheus)"
    else:
        what = "; ".join(_words(list(zip(*wrong, strict=True)), nodes))
    names = [_name(node, status) for node in nodes]
    if len(nodes) == 1:
        text = f"{names[0]}: {what}"
    else:
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        text = f"{len(nodes)} nodes: {what}: {', '.join(names[:_NAMED])}{more}"
    figures = tuple(finding.measure.name for finding in wrong[0])
    do = commands.next(nodes, figures[0])
    return RegionProblem(level=head.judgement.level, text=text, do=do, nodes=tuple(map(_key, nodes)), figures=figures)


def _name(node: Node, status: Status) -> str:
    """With its region where there are several: their nodes may have the same name."""
    name = printable(node.instance)
    return f"{name} ({printable(node.region) or '(none)'})" if len(status.regions) > 1 else name


# --- what is wrong


def _words(columns: Sequence[Sequence[JudgedFigure]], nodes: Sequence[Node]) -> Iterator[str]:
    """A column is the same finding of all these nodes: numbers add up, and of durations the longest is told."""
    without_pass, brakes = "", list[float]()
    for findings in columns:
        measure, about = findings[0].measure, printable(findings[0].figure.about)
        values = [finding.figure.value for finding in findings if finding.figure.value is not None]
        if measure.name == "braked":
            brakes = values
        if measure.name == "behind" and values and brakes and not any(map(operator.gt, values, brakes)):
            continue  # they are the same disks; the brake counts more where some are held
        if not values:
            yield _UNKNOWN.get(measure.name, f"{measure.name} unknown")
        elif measure.unit == "s":
            duration = f"{_at_most(nodes)}{_duration(max(values))}"
            if duration != without_pass:  # without a pass there is no good one either
                yield f"{measure.wrong} {duration}"
            if measure.name == "pass_age":
                without_pass = duration
        elif measure.name in _WORDS:
            one, words = _WORDS[measure.name]
            yield words.format(number=plural(round(sum(values)), one), about=about or "unknown") + (
                " (mode observe)" if measure.name == "behind" and _observes(nodes[0]) else ""
            )
        else:
            yield f"{measure.wrong}: {about}"


def _at_most(nodes: Sequence[Node]) -> str:
    return "up to " if len(nodes) > 1 else ""


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


# --- what to run next


@frozen
class _Commands:
    """On a node there is its own ``plimsoll status``, which knows its set-up."""

    status: Status
    options: tuple[str, ...]
    arguments: tuple[str, ...]

    def here(self, *words: str) -> str:
        return printable(shlex.join(("plimsoll", *self.options, *words)))

    def next(self, nodes: Sequence[Node], figure: str) -> str:
        """For the worst that is wrong with these nodes."""
        has_detail = not all(_key(node) in self.status.aggregates for node in nodes)
        if figure in _OF_DISKS:
            return self._of(nodes, "region", "disks") if has_detail else _on(nodes[0], "disk", "list")
        if figure in _OF_PROBES:
            by = ("region", "probes", "--by", "guest")
            return self._of(nodes, *by) if has_detail else _on(nodes[0], "probe", "list")
        return _on(nodes[0], "plan" if figure == "braked" else "status")

    def _of(self, nodes: Sequence[Node], *words: str) -> str:
        regions = {node.region for node in nodes}
        region = ("--region", *regions) if len(regions) == 1 else ()
        names = [word for node in nodes for word in ("--node", node.instance)] if len(nodes) <= _NAMED else []
        return self.here(*words, *self.arguments, *region, *names)


def _on(node: Node, *words: str) -> str:
    return f"{shlex.join(('plimsoll', *words))}   (on {printable(node.instance)})"
