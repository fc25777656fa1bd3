"""What a site changes of its alerts and recording rules, read from a YAML file; and PromQL in the site's names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from plimsoll_agent.errors import ConfigError
from plimsoll_agent.monitor import metrics
from plimsoll_agent.monitor.site_labels import NAME, SiteLabels
from plimsoll_agent.monitor.thresholds import MEASURE, SHIPPED, Thresholds, checked_range
from plimsoll_agent.util import schema
from plimsoll_agent.util.frozen import replace
from plimsoll_agent.util.schema import Invalid, Keys, boolean, one_of, shown
from plimsoll_monitoring.promql import label_list, selector

SEVERITIES = ("critical", "warning", "info")
DOCS = "https://docs.example.org/plimsoll/"
GRAFANA = "https://grafana.example.org/"
NEVER = "~:"
"""A range that no value is outside of."""
_TEXT = r'"(?:[^"\\\n]|\\.)*"'
_MATCHER = rf"{NAME.pattern} ?(?:=|!=|=~|!~) ?{_TEXT}"
_MATCHERS = re.compile(rf"{_MATCHER}(?:, ?{_MATCHER})*", re.ASCII)
_DURATION = re.compile(r"(?:[0-9]{1,4}[wdhms])+", re.ASCII)
OVERDUE, OVERDUE_HOLD = "PlimsollPassOverdue", "10m"
"""The alert that stands in for others, and its ``for``."""
_SECONDS = {"w": 604800, "d": 86400, "h": 3600, "m": 60, "s": 1}


@dataclass(frozen=True, slots=True)
class Override:
    """What a site changes of one alert; None leaves it."""

    enabled: bool = True
    severity: str | None = None
    hold: str | None = None
    """``for``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The values; each key of the file has the name of a field."""

    region: tuple[str, ...] = SiteLabels().region
    """Labels of the targets that tell regions or clusters apart."""
    instance: str = SiteLabels().instance
    """The label that tells nodes apart."""
    selector: str = ""
    """Matchers that every selector gets: ``job="node"``."""
    compute_nodes: str = ""
    """Matchers of ``up`` for the node_exporters of compute nodes; without it, no alert on nodes without plimsoll."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """More labels of every alert."""
    docs_url: str = DOCS
    dashboards_url: str = GRAFANA
    ceph: str = ""
    """Matchers for the targets of Ceph's mgr, and of ``ceph-exporter``: ``job=~"ceph|ceph-exporter"``."""
    ceph_url: str = ""
    """Ceph's own dashboard; without it, no link to it."""
    rollout: str = "3d"
    """How long nodes of a region may differ in version or mode."""
    retired: str = "2h"
    """How long an alert looks back for metrics that a node no longer has."""
    probes_off: str = "1d"
    """How long an alert waits for a timetable that is no longer run."""
    broken_guests: int = 3
    """So many guests of a volume type with a broken promise are no fault of a single guest."""
    broken_percent: int = 10
    """It is critical if they are so much of the probed ones."""
    broken_many: int = 10
    """Or so many, however many are probed."""
    stalled_projects: int = 3
    """Guests of so many projects that stall at once are the cluster's fault, and no trick of a tenant."""
    promised_ratio: float | None = None
    """So many times what guests take at most may be promised; without it, no alert on that."""
    burst_left: float | None = None
    """The share of a burst below which it is nearly spent; without it, no alert on that."""
    thresholds: Mapping[str, Thresholds] = field(default_factory=dict)
    """Ranges as in ``[health]``, by measure, where they are not the shipped ones."""
    alerts: Mapping[str, Override] = field(default_factory=dict)

    # --- PromQL

    def __call__(self, metric: str, *matchers: str, over: str = "") -> str:
        """A selector of the metric's series: the site's matchers, and these; ``over`` is a range."""
        return selector(metric, self.selector, *matchers, over=over)

    def in_region(self, *labels: str) -> str:
        return label_list(*self.region, *labels)

    def node(self, *labels: str) -> str:
        return self.in_region(self.instance, *labels)

    def own(self, label: str) -> str:
        """A label of plimsoll's own metrics, as Prometheus has it."""
        return SiteLabels(self.region, self.instance).own(label)

    @property
    def legend(self) -> str:
        """The region, in the legend of a graph."""
        return " ".join(f"{{{{{label}}}}}" for label in self.region)

    def range_of(self, measure: str, level: str) -> str:
        text: str = getattr(self.thresholds.get(measure, SHIPPED[measure]), level)
        return "" if text == NEVER else text

    def levels(self, measure: str) -> list[str]:
        """Those with a range, warning first."""
        return [level for level in ("warning", "critical") if self.range_of(measure, level)]

    @property
    def overdue(self) -> str:
        """``unless`` for nodes whose passes are overdue: what their last pass found is old.

        Only once PlimsollPassOverdue fires for them: between two late passes nothing would. Two evaluations later, so
        that it is first.
        """
        its = self.alerts.get(OVERDUE, Override())
        text = self.range_of("pass_age", "warning") or self.range_of("pass_age", "critical")
        if not its.enabled or not text:
            return ""
        minutes = -(-seconds(its.hold or OVERDUE_HOLD) // 60) + 2
        # Passes whose time is in the future may have stopped as well.
        age = f"max by {self.node()} (abs(time() - {self(metrics.PASS_LAST_TIMESTAMP_SECONDS)}))"
        age = f"min_over_time(({age})[{minutes}m:1m])"
        return f"\nunless on {self.node()} {outside(text, age)}"

    def seconds_of(self, duration: str) -> int:
        """Of the value with this name."""
        return seconds(getattr(self, duration))

    # --- text of annotations

    @property
    def in_words(self) -> str:
        """`` in north``, nothing where the targets have no region."""
        return "".join(f"{{{{ with $labels.{label} }}}} in {{{{ . }}}}{{{{ end }}}}" for label in self.region)

    @property
    def node_words(self) -> str:
        return f"{{{{ $labels.{self.instance} }}}}"

    def runbook(self, alert: str) -> str:
        return f"{self.docs_url}reference/alerts.html#{alert.lower()}"

    def dashboard(self, of_node: bool) -> str:
        link = f"{self.dashboards_url}d/plimsoll-{'node' if of_node else 'region'}?var-region="
        link += f"{{{{ $labels.{self.region[0]} | urlquery }}}}"
        return link + (f"&var-instance={{{{ $labels.{self.instance} | urlquery }}}}" if of_node else "")


def outside(text: str, expr: str) -> str:
    """PromQL for the values of the expression that raise an alarm by a range, as ``thresholds.alarms`` has it."""
    inside, (start, _, end) = text.startswith("@"), text.removeprefix("@").rpartition(":")
    if inside:
        lower = "" if start == "~" else f" >= {start or 0}"
        return f"{expr}{lower}" + (f" <= {end}" if end else "")
    if start in ("", "~"):  # no figure is negative
        return f"{expr} > {end}"
    below = f"{expr} < {start}"
    return f"({below} or {expr} > {end})" if end else below


def seconds(duration: str) -> int:
    return sum(int(number) * _SECONDS[unit] for number, unit in re.findall(r"([0-9]+)([wdhms])", duration))


# --- the file


def read(path: Path, alerts: tuple[str, ...], labels: SiteLabels = SiteLabels()) -> Site:  # noqa: B008  # a value
    """The values in a file, with ``labels`` where it names none; ``alerts`` are the names of all there are.

    Raises ``ConfigError``, a line a fault.
    """
    text = schema.read(path)
    if text is None:
        raise ConfigError(f"{path}: no such file")
    return schema.check(text, lambda content: _site(content, alerts, labels)).good(str(path))


def of_labels(labels: SiteLabels) -> Site:
    return Site(region=labels.region, instance=labels.instance)


def _site(content: object, alerts: tuple[str, ...], labels: SiteLabels) -> Site:
    if content is None:
        return of_labels(labels)
    values = Keys(
        content,
        {
            "region": lambda value: (_label(value),) if isinstance(value, str) else tuple(schema.each(_label, value)),
            "instance": _label,
            "selector": _matchers,
            "compute_nodes": _matchers,
            "labels": _labels,
            "docs_url": _url,
            "dashboards_url": _url,
            "ceph": _matchers,
            "ceph_url": _url,
            "rollout": _duration,
            "retired": _duration,
            "probes_off": _duration,
            "broken_guests": _count,
            "broken_percent": _count,
            "broken_many": _count,
            "stalled_projects": _count,
            "promised_ratio": _ratio,
            "burst_left": _ratio,
            "thresholds": lambda value: Keys(value, {name: _thresholds(name) for name in MEASURE}).done(),
            "alerts": lambda value: Keys(value, dict.fromkeys(alerts, _override)).done(),
        },
    ).done()
    if not values.get("region", True):
        raise Invalid("must name at least one label", ["region"])
    return replace(of_labels(labels), **values)


def _label(value: object) -> str:
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise Invalid(f"must be the name of a label, not {shown(value)}")
    return value


def _matchers(value: object) -> str:
    if value != "" and not (isinstance(value, str) and _MATCHERS.fullmatch(value)):
        raise Invalid(f"must be matchers without braces, like 'job=\"node\"', not {shown(value)}")
    return str(value)


def _labels(content: object) -> dict[str, str]:
    keys = Keys(content, {name: schema.line(200) for name in content} if isinstance(content, dict) else {}, "labels")
    for name in keys.known:
        if not NAME.fullmatch(name) or name in ("alertname", "component", "severity"):
            keys.fault("is not a label that a site may add", name)
    return keys.done()


def _url(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"https?://[^\s\"{}]+", value):
        raise Invalid(f"must be an address that begins with https://, not {shown(value)}")
    return f"{value.rstrip('/')}/"


def _duration(value: object) -> str:
    if not isinstance(value, str) or not _DURATION.fullmatch(value) or not seconds(value):
        raise Invalid(f"must be a duration like 15m, 2h or 3d, not {shown(value)}")
    return value


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise Invalid(f"must be a number from 1, not {shown(value)}")
    return value


def _ratio(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < inf:
        raise Invalid(f"must be a number above 0, not {shown(value)}")
    return float(value)


def _thresholds(measure: str) -> Any:
    check_range = partial(_range, MEASURE[measure].unit)

    def validate(content: object) -> Thresholds:
        values = Keys(content, {"warning": check_range, "critical": check_range}).done()
        return replace(SHIPPED[measure], **values)

    return validate


def _range(unit: str, value: object) -> str:
    try:
        return checked_range(str(value) if isinstance(value, str | int | float) else "none", unit)
    except ValueError as error:
        raise Invalid(str(error)) from error


def _override(content: object) -> Override:
    keys = Keys(content, {"enabled": boolean, "severity": one_of(SEVERITIES), "for": _duration})
    values = keys.done()
    if "for" in values:
        values["hold"] = values.pop("for")
    return Override(**values)
