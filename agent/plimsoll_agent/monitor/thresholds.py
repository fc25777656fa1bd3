"""The figures that a node is judged by, with their default ranges: one row each, for settings, checks, alerts, docs.

Limits that are in force stay in force whatever fails, so a node that is out of order for a while can wait for working
hours, and so can a single disk or guest: a warning. Critical is what leaves a whole node to itself (no pass for four
hours: guests started since have no limits) or all of its volumes (no catalogue for a day). What hits a region is
judged where the region is seen: ``plimsoll_monitoring.alerts``.
"""

from __future__ import annotations

import re
from enum import IntEnum

from plimsoll_agent.util import durations
from plimsoll_agent.util.frozen import frozen


class Level(IntEnum):
    """The greater, the worse; unknown is worse than a warning."""

    OK = 0
    WARNING = 1
    UNKNOWN = 2
    CRITICAL = 3


SUBJECTS = {
    "limits": "do the disks of this node have their desired limits?",
    "agent": "does plimsoll run on this node, and are its sources up?",
    "probe": "do this node's probed guests get what their limits allow?",
}
"""The checks, and the question that each answers."""


@frozen
class Measure:
    """A figure, the check that it belongs to, and its default ranges ("" is never)."""

    name: str
    subject: str
    """``limits``, ``agent`` or ``probe``: the check that it belongs to."""
    unit: str
    """"s", or "" for a count."""
    warning: str
    critical: str
    what: str
    """What is measured: "seconds since …", "disks whose …"."""
    wrong: str
    """What is wrong, before a duration or names: "no pass for", "change failed"."""
    missing: Level = Level.OK
    """Its level where the figure is unknown."""


MEASURES: tuple[Measure, ...] = (
    Measure("pass_age", "agent", "s", "900", "14400", "seconds since the last pass",
            "no pass for", Level.UNKNOWN),
    Measure("good_pass_age", "agent", "s", "3600", "", "seconds since the last good pass",
            "no good pass for", Level.WARNING),
    Measure("pass_seconds", "agent", "s", "240", "", "duration of the last pass in seconds",
            "the last pass took"),
    Measure("sources_down", "agent", "", "0", "", "sources that are down: libvirt, rules, record, writes, disks,"
            " catalogue, refresh, congestion", "source down"),
    Measure("catalogue_age", "agent", "s", "7200", "86400", "age of the catalogue in seconds",
            "catalogue stale: not refreshed for", Level.WARNING),
    Measure("paused", "agent", "", "0", "", "whether a pause file stops all writes (1 or 0)",
            "nothing is written"),
    Measure("braked", "agent", "", "0", "", "disks whose change is deferred until plimsoll approve",
            "needs approval"),
    Measure("daemon_faults", "agent", "", "0", "", "faults of the daemon: does not run, has no events, settings not"
            " reloaded", "daemon"),
    Measure("observed_age", "limits", "s", "1800", "", "seconds since the disks were observed",
            "disks not observed for", Level.UNKNOWN),
    Measure("unlimited", "limits", "", "0", "", "unlimited disks for which a limit is desired",
            "unlimited"),
    Measure("behind", "limits", "", "0", "", "disks whose change is deferred, or only planned (mode observe)",
            "out of sync"),
    Measure("failed", "limits", "", "0", "", "disks whose change failed",
            "change failed"),
    Measure("unknown", "limits", "", "0", "", "disks whose actual or desired limits are unknown",
            "unknown"),
    Measure("unreachable_guests", "limits", "", "0", "", "guests that do not answer",
            "unreachable"),
    Measure("at_limit", "limits", "", "", "", "disks at a limit, on average between the last two passes",
            "at limit"),
    Measure("probe_off", "probe", "", "0", "", "guests that a rule chooses for probes, while nothing runs probes",
            "not probed"),
    Measure("probe_late", "probe", "", "0", "", "probes that were due twice and did not run",
            "probe overdue"),
    Measure("probe_broken", "probe", "", "0", "", "probes whose newest verdict is short, over-limit or slow",
            "promise broken"),
    Measure("probe_failed", "probe", "", "0", "", "probes whose newest run failed",
            "probe failed"),
)  # fmt: skip

ROUND_OVERDUE = 7200
"""Seconds after which probes are not run by their timetable any more: the timer does every few minutes."""


@frozen
class Thresholds:
    """Ranges as Nagios writes them; "" is never."""

    warning: str
    critical: str


MEASURE = {measure.name: measure for measure in MEASURES}
SHIPPED = {measure.name: Thresholds(measure.warning, measure.critical) for measure in MEASURES}

_NUMBER = r"-?[0-9]+(?:\.[0-9]+)?"
_EXAMPLE = "10 (alarm outside 0 to 10), 5:, ~:10, 5:10"
_DURATION = re.compile(r"(?<![^@:])(?:[0-9]{1,6}[dhms])+(?![^:])")
_RANGE = re.compile(rf"(?P<inside>@)?(?:(?P<start>{_NUMBER}|~)?:)?(?P<end>{_NUMBER})?")


def checked_range(text: str, unit: str = "") -> str:
    """A range as Nagios writes it, or ""; with the unit "s" its numbers may be durations, and become seconds.

    Raises ``ValueError`` that says what a range is.
    """
    source = text.strip()
    text = _DURATION.sub(_in_seconds, source) if unit == "s" else source
    match = _RANGE.fullmatch(text)
    start, end = (match["start"], match["end"]) if match else (None, None)
    # Without a start it is 0.
    backwards = start != "~" and end is not None and float(start or 0) > float(end)
    if not match or backwards or (text and not (start or end)):
        example = "15m (alarm outside 0 to 15m), 900, 1m:, 1m:1h" if unit == "s" else _EXAMPLE
        raise ValueError(f"{source!r} is not a range: write {example} or @5:10")
    return text


def _in_seconds(duration: re.Match[str]) -> str:
    return f"{durations.parse(duration[0]).total_seconds():.0f}"


def alarms(text: str, value: float) -> bool:
    """Whether this value raises an alarm by a range from ``checked_range``; never where that is empty."""
    match = _RANGE.fullmatch(text)
    if not text or match is None:
        return False
    start, end = match["start"], match["end"]
    inside = (start == "~" or float(start or 0) <= value) and (end is None or value <= float(end))
    return inside == bool(match["inside"])
