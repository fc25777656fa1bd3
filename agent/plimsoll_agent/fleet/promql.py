"""Queries over nodes, and the series in their answers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from plimsoll_agent.monitor.promql import any_of, matching, quoted
from plimsoll_agent.util.frozen import frozen


@frozen
class Series:
    """One series at one time; tenants may have chosen values of its labels."""

    labels: Mapping[str, str]
    value: float

    @property
    def known(self) -> float | None:
        """The value, None where it is not a number, as a quantile of no requests."""
        return self.value if math.isfinite(self.value) else None


@frozen
class Line:
    """One series over time: values by their times (seconds since 1970)."""

    labels: Mapping[str, str]
    values: Mapping[float, float] = field(hash=False)


Answers = Mapping[str, Sequence[Series]]
"""The answer to each query, by its name."""
NodeKey = tuple[str, str]
"""Region and instance: two regions may have nodes of the same name."""
Ask = Callable[[str], Sequence[Series]]
"""An instant query; all of a command are as of one time. Raises ``PlimsollError``."""


@frozen
class Selection:
    """What to show; an empty field selects everything. ``nodes`` may be host names without the port."""

    region: str | None = None
    nodes: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()

    def matchers(self, *more: str, types: bool = False, projects: bool = False) -> str:
        """``{region="r1",…}`` for series with a region and a node, and if given with a type or a project."""
        each = [] if self.region is None else [f"region={quoted(self.region)}"]
        if self.nodes:
            each.append(matching("instance", [_host(node) for node in self.nodes]))
        if types and self.types:
            each.append(any_of("volume_type", self.types))
        if projects and self.projects:
            each.append(any_of("project", self.projects))
        return "{" + ",".join([*each, *more]) + "}"


def key_of(series: Series | Line) -> NodeKey:
    return label(series, "region"), label(series, "instance")


def label(series: Series | Line, name: str) -> str:
    return series.labels.get(name, "")


def each(metric: str, matchers: str, *labels: str) -> str:
    """The metric of each node, once: two jobs of a site may scrape the same node."""
    return f"max by (region, instance{''.join(f', {name}' for name in labels)}) ({metric}{matchers})"


def increased(metric: str, matchers: str, window: str) -> str:
    return f"max without (job) (increase({metric}{matchers}[{window}]))"


def _host(node: str) -> str:
    """A pattern: ``compute-17`` matches that instance in any domain and with any port; with a port only itself."""
    return re.escape(node) if ":" in node else re.escape(node) + r"([.][^:]*)?(:[0-9]+)?"
