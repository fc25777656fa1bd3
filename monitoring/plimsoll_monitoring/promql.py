"""PromQL as text: what commands, alerts, rules and dashboards build their queries of.

Labels are in plimsoll's own names in commands (``SeriesSelection``), elsewhere in the site's (``alerts.site``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Protocol

from plimsoll_agent.errors import UsageError
from plimsoll_agent.monitor import metrics
from plimsoll_agent.monitor.metrics import Metric
from plimsoll_agent.util.frozen import frozen
from plimsoll_probes.model.finding import BROKEN, GOOD, LACKING

SPARE, USUAL_INTERVAL = 120, 300
"""Seconds: how much later than twice its interval a pass may be, and the interval where a node does not tell it."""
OBSERVED_LATE = 3600
"""Seconds without a reading after which what a node says of its disks is in no sum: they may be elsewhere."""

CLOCKS_DIFFER = 60
"""Seconds by which a time may be in the future."""
_PRESENT = 120
"""Moments of a time at which a node is looked for: how much of the time it was there."""


def selector(metric: str, *matchers: str, over: str = "") -> str:
    """The metric's series; empty matchers are left out, and ``over`` is a range."""
    return metric + (braces(*matchers) if any(matchers) else "") + (f"[{over}]" if over else "")


def braces(*matchers: str) -> str:
    """A selector without the metric: ``{region="r1", …}``; empty matchers are left out."""
    return f"{{{', '.join(filter(None, matchers))}}}"


def label_list(*labels: str) -> str:
    """Labels to group by, each once."""
    return f"({', '.join(dict.fromkeys(labels))})"


def each(metric: str, matchers: str, *labels: str) -> str:
    """The metric of each node, once: two jobs of a site may scrape the same node."""
    return f"max by {label_list('region', 'instance', *labels)} ({metric}{matchers})"


class SeriesNames(Protocol):
    """A site's names, of the series that it has or that a dashboard's variables select."""

    def __call__(self, metric: str, *matchers: str, over: str = "") -> str: ...

    def node(self, *labels: str) -> str: ...

    def own(self, label: str) -> str: ...


def once(its: SeriesNames, metric: Metric, *matchers: str, over: str = "") -> str:
    """Each series of a metric, or with ``over`` its increase, once where two jobs scrape the same node.

    Their targets may differ in other labels too.
    """
    series = its(metric, *matchers, over=over)
    labels = its.node(*(its.own(label) for label in metric.labels))
    return f"max by {labels} ({f'increase({series})' if over else series})"


def fresh(matchers: str) -> str:
    """1 for a node whose metrics are of its present passes: node_exporter serves those of an old one for ever."""
    reading = each(metrics.PASS_OBSERVED_TIMESTAMP_SECONDS, matchers)
    interval = each(metrics.PASS_INTERVAL_SECONDS, matchers)
    return f"(time() - {reading}) <= bool (2 * ({interval} or 0 * {reading} + {USUAL_INTERVAL}) + {SPARE})"


def increase(metric: Metric, matchers: str, window: str) -> str:
    """What a counter counted in the window."""
    return each(f"increase({metric}{matchers}[{window}])", "", *metric.labels)


def sum_over_time(function: str, metric: Metric, matchers: str, by: str) -> str:
    """Of what ``function`` (``count``, ``avg`` or ``max``) makes of each series; ``matchers`` end with a range."""
    return f"sum by ({by}) ({each(f'{function}_over_time({metric}{matchers})', '', *metric.labels)})"


def step_of(seconds: int) -> int:
    """Seconds between the moments at which a node is looked for."""
    return max(seconds // _PRESENT, 1)


def apart(series: str, seconds: int) -> str:
    """Seconds between two samples of each series, while it was there: nodes may be scraped at different rates."""
    step = step_of(seconds)
    return f"{step} * count_over_time({series}[{seconds}s:{step}s]) / count_over_time({series}[{seconds}s])"


def quantile(share: float, by: str, buckets: str) -> str:
    """A quantile of the buckets that were counted, merged by the labels of ``by``: quantiles cannot be merged."""
    return f"histogram_quantile({share}, sum by {by} ({buckets}))"


# --- matchers


def any_verdict(*verdicts: str, matches: str = "=~") -> str:
    return f'verdict{matches}"{"|".join(verdicts)}"'


CONCLUSIVE = any_verdict(*GOOD, *BROKEN)
"""Not by those that are none: nodes of other versions may have others."""


BELOW = any_verdict(*LACKING)
"""Less than promised, which is not the guest's limit."""


def equal(label: str, value: str) -> str:
    return f"{label}={quote(value)}"


def any_of(label: str, values: Sequence[str]) -> str:
    """A matcher for exactly these values."""
    return matching(label, [re.escape(value) for value in values])


def matching(label: str, patterns: Sequence[str]) -> str:
    # Prometheus anchors patterns on both sides, and has an index for alternatives of plain text.
    return f"{label}=~{quote('|'.join(patterns))}"


def quote(text: str) -> str:
    """Quoted for PromQL, which quotes as Go does: like JSON, but without surrogates. Raises ``UsageError``."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{text!r} is not UTF-8; labels of Prometheus are") from error
    return json.dumps(text, ensure_ascii=False)


@frozen(kw_only=True)
class SeriesSelection:
    """What to show; an empty field selects everything. ``nodes`` may be host names without the port."""

    region: str | None = None
    nodes: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()

    def matchers(self, *more: str, types: bool = False, projects: bool = False) -> str:
        """``{region="r1", …}`` for series with a region and a node, and if given with a type or a project."""
        return braces(
            "" if self.region is None else equal("region", self.region),
            matching("instance", [_host(node) for node in self.nodes]) if self.nodes else "",
            any_of("volume_type", self.types) if types and self.types else "",
            any_of("project", self.projects) if projects and self.projects else "",
            *more,
        )


def _host(node: str) -> str:
    """A pattern: ``compute-17`` matches that instance in any domain and with any port; with a port only itself.

    An address of IPv6 has brackets in instances with a port.
    """
    if node.count(":") > 1 and not re.search(r"\]:[0-9]+$", node):
        address = re.escape(node.removeprefix("[").removesuffix("]"))
        return rf"{address}|\[{address}\](:[0-9]+)?"
    return re.escape(node) if ":" in node else re.escape(node) + r"([.][^:]*)?(:[0-9]+)?"
