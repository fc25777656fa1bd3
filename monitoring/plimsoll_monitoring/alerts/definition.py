"""One alert, one recording rule: as values, before they become YAML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from textwrap import indent
from typing import Any

from plimsoll_agent.monitor.thresholds import MEASURE
from plimsoll_monitoring.alerts.site import Site, outside


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An alert. What of a measure it is about, and where its dashboard stands."""

    name: str
    severity: str
    expr: str
    hold: str
    """``for``."""
    summary: str
    description: str
    of_node: bool = True
    """About a node, else about a region."""
    measure: str = ""
    """The measure whose range it is made of, or which says the same on a node; "" where no node can tell."""
    labels: Mapping[str, str] = field(default_factory=dict)
    why: str = ""
    """A comment above the expression."""


@dataclass(frozen=True, slots=True)
class RecordingRule:
    """A recording rule."""

    name: str
    expr: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleGroup:
    """Rules that are evaluated one after another."""

    name: str
    rules: tuple[Alert | RecordingRule, ...]
    interval: str = ""
    why: str = ""


def by_measure(
    site: Site, measure: str, figure: str, also: str = "", count_by: str = "", **fields: Any
) -> Iterator[Alert]:
    """An alert for each range of the measure, by the level that the range raises on the node itself.

    ``also`` is what must hold beside it; ``count_by`` are the labels by which nodes are counted.
    """
    for severity in site.levels(measure):
        expr = out_of_range(site, measure, figure, also, site.range_of(measure, severity))
        if count_by:
            expr = f"count by {count_by} (\n{indent(expr, '  ')}\n)"
        yield Alert(severity=severity, expr=expr, measure=measure, **fields)


def out_of_range(site: Site, measure: str, figure: str, also: str = "", text: str = "") -> str:
    """The figure where it is outside of this range, or of the first that the site has.

    What a pass found counts unless passes are overdue: then that is the only alert.
    """
    if MEASURE[measure].subject != "probe" and measure != "pass_age":
        also += site.overdue
    return outside(text or site.range_of(measure, "warning") or site.range_of(measure, "critical"), figure) + also


def number(noun: str) -> str:
    """The value and what it counts, in the singular or the plural."""
    return f'{{{{ $value | printf "%.0f" }}}} {noun}{{{{ if ne $value 1.0 }}}}s{{{{ end }}}}'
