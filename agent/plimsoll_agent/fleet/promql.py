"""PromQL: series, the labels that select them, and quoted text."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from plimsoll_agent.errors import UsageError
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
        each += _any_of("instance", [_host(node) for node in self.nodes])
        if types:
            each += _any_of("volume_type", [re.escape(name) for name in self.types])
        if projects:
            each += _any_of("project", [re.escape(name) for name in self.projects])
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


def any_of(label: str, values: Sequence[str]) -> str:
    """A matcher for exactly these values."""
    return _any_of(label, [re.escape(value) for value in values])[0]


def _any_of(label: str, patterns: Sequence[str]) -> list[str]:
    # Prometheus anchors patterns on both sides, and has an index for alternatives of plain text.
    return [f"{label}=~{quoted('|'.join(patterns))}"] if patterns else []


def _host(node: str) -> str:
    """A pattern: ``compute-17`` matches that instance in any domain and with any port; with a port only itself."""
    return re.escape(node) if ":" in node else re.escape(node) + r"([.][^:]*)?(:[0-9]+)?"


def quoted(text: str) -> str:
    """Quoted for PromQL, which quotes as Go does: like JSON, but without surrogates. Raises ``UsageError``."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{text!r} is not UTF-8; labels of Prometheus are") from error
    return json.dumps(text, ensure_ascii=False)
