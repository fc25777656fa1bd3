"""Thresholds and colours. Figures with a range in the table of measures use that one, and its severities' colours."""

from __future__ import annotations

import re
from collections.abc import Sequence

from plimsoll_agent.monitor.thresholds import MEASURE
from plimsoll_monitoring.alerts.site import Site
from plimsoll_monitoring.dashboards.series import VERDICTS

Steps = Sequence[tuple[float | None, str]]
"""(from this value on, colour); the first begins at None."""

GOOD, WARNING, BAD, INFO, PLAIN = "green", "orange", "red", "blue", "text"
"""Of what is fine, of the severities warning, critical and info, and of what is no fault."""

NEUTRAL: Steps = ((None, PLAIN),)
WARN_FROM_ONE: Steps = ((None, GOOD), (1, WARNING))
CRITICAL_FROM_ONE: Steps = ((None, GOOD), (1, BAD))
BURN: Steps = ((None, GOOD), (1, WARNING), (6, BAD))
"""As PlimsollLatencyBudgetBurning has it: over three days, over six hours."""

# Any two states, and any two verdicts, differ by 25 (CIEDE2000), also for people who see no red, no green or no blue,
# and can be seen in both themes: a test computes it.
OF_STATE = {
    "in-sync": "#6d8483",
    "changed": "#4adbff",
    "planned": "#e2d9c2",
    "deferred": "#e06104",
    "left-alone": "#33374a",
    "unknown": "#900afd",
    "failed": "#76160d",
}
# Near those of the report of probes. Those that say nothing of the promise share one.
OF_VERDICT = {
    "kept": "#45887a",
    "no-limit": "#48dfe7",
    "short": "#b12304",
    "slow": "#eca700",
    "over-limit": "#a44ff9",
    "reduced": "#44386a",
    "inconclusive": "#44386a",
    "failed": "#44386a",
}
VERDICT_WORDS = {str(number): (verdict, OF_VERDICT[verdict]) for number, verdict in enumerate(VERDICTS)}
SEVERITY_WORDS = {"3": ("critical", BAD), "2": ("warning", WARNING), "1": ("info", INFO)}
_UP_TO = re.compile(r"(?:~:|0?:)?([0-9.]+)")


def measure(site: Site, name: str) -> Steps:
    """The site's ranges of plimsoll's checks for this figure; those that alarm below a value have no colour."""
    # A range alerts above its end, a step of Grafana's from its value on: add one to a count.
    beyond = 0 if MEASURE[name].unit == "s" else 1
    ranges = ((site.range_of(name, "warning"), WARNING), (site.range_of(name, "critical"), BAD))
    ends = ((_UP_TO.fullmatch(text), colour) for text, colour in ranges)
    return ((None, GOOD), *((float(end[1]) + beyond, colour) for end, colour in ends if end))


def first(site: Site, name: str) -> float:
    """The lowest value that is a problem; no value is where the site has no range."""
    return min((value for value, _ in measure(site, name) if value is not None), default=float("inf"))


def promise(site: Site) -> Steps:
    """Of a share of guests: critical where PlimsollPromiseBroken can be."""
    return ((None, BAD), (1 - site.broken_percent / 100, WARNING), (0.99, GOOD))
