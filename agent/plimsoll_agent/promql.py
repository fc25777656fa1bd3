"""Questions to Prometheus, and what it answers: series, the labels that choose them, and text that is quoted."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from plimsoll_agent.errors import UsageError


@dataclass(frozen=True, slots=True)
class Series:
    """One series at one moment; its labels were chosen by whoever made it, guests and tenants among them."""

    labels: Mapping[str, str]
    value: float

    @property
    def known(self) -> float | None:
        """The value, None where it is no number: a ratio of nothing, a quantile of no requests."""
        return self.value if math.isfinite(self.value) else None


Answers = Mapping[str, Sequence[Series]]
"""The series that answer each question, by its name."""
NodeKey = tuple[str, str]
"""Region and instance: two regions may have a node of one name."""
Ask = Callable[[str], Sequence[Series]]
"""An instant query, all of a command at one moment. Raises ``PlimsollError``."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What a person wants to see; nothing given is everything. ``nodes`` may be host names without the port."""

    region: str | None = None
    nodes: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()

    def matchers(self, *more: str, types: bool = False, projects: bool = False) -> str:
        """``{region="r1",…}`` for series that have a region and a node, and where it is said a type, a project."""
        each = [] if self.region is None else [f"region={quoted(self.region)}"]
        each += _any_of("instance", [_host(node) for node in self.nodes])
        if types:
            each += _any_of("volume_type", [re.escape(name) for name in self.types])
        if projects:
            each += _any_of("project", [re.escape(name) for name in self.projects])
        return "{" + ",".join([*each, *more]) + "}"


def key_of(series: Series) -> NodeKey:
    return label(series, "region"), label(series, "instance")


def label(series: Series, name: str) -> str:
    return series.labels.get(name, "")


def each(metric: str, matchers: str, *labels: str) -> str:
    """The metric of each node, once: a site may have two jobs that scrape the same one."""
    return f"max by (region, instance{''.join(f', {name}' for name in labels)}) ({metric}{matchers})"


def increased(metric: str, matchers: str, window: str) -> str:
    return f"max without (job) (increase({metric}{matchers}[{window}]))"


def any_of(label: str, values: Sequence[str]) -> str:
    """A matcher for exactly these values."""
    return _any_of(label, [re.escape(value) for value in values])[0]


def _any_of(label: str, patterns: Sequence[str]) -> list[str]:
    # Prometheus anchors patterns on both sides, and looks up alternatives of plain text like names.
    return [f"{label}=~{quoted('|'.join(patterns))}"] if patterns else []


def _host(node: str) -> str:
    """``compute-17`` is the instance of that name, in any domain and with any port; one with a port is itself."""
    return re.escape(node) if ":" in node else re.escape(node) + r"([.][^:]*)?(:[0-9]+)?"


def quoted(text: str) -> str:
    """As PromQL quotes, which is as Go does: as JSON, but without pairs of surrogates. Raises ``UsageError``."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{text!r} is no UTF-8, and no label of Prometheus can be so") from error
    return json.dumps(text, ensure_ascii=False)
