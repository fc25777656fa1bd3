"""Which figures a node is judged by, and the ranges that are shipped: one row each, for settings, checks and docs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum


class Level(IntEnum):
    """The worse the greater, as a person looks at them: what nobody knows is worse than a warning."""

    OK = 0
    WARNING = 1
    UNKNOWN = 2
    CRITICAL = 3


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure that there is: its name, whom it is about, and the ranges that are shipped ("" is never)."""

    name: str
    subject: str
    """``limits``, ``agent`` or ``probe``: the check that it belongs to."""
    unit: str
    """"s", or "" for a number of things."""
    warning: str
    critical: str
    what: str
    """What is measured: "seconds since …", "disks whose …"."""
    wrong: str
    """What is the matter, in words that a span of time or names come after: "no pass for", "change failed"."""
    missing: Level = Level.OK
    """What it is where the figure is not known."""


MEASURES: tuple[Measure, ...] = (
    Measure("pass_age", "agent", "s", "900", "1800", "seconds since the last pass over all guests",
            "no pass over all guests for", Level.UNKNOWN),
    Measure("good_pass_age", "agent", "s", "3600", "", "seconds since one that left nothing undone",
            "no pass that left nothing undone for", Level.WARNING),
    Measure("pass_seconds", "agent", "s", "240", "", "seconds that the last pass took",
            "the last pass took"),
    Measure("sources_down", "agent", "", "", "0", "sources that did not answer: libvirt, rules, record, catalogue",
            "no good answer of"),
    Measure("catalogue_age", "agent", "s", "7200", "86400", "seconds since Cinder said what counts",
            "no word of Cinder for", Level.CRITICAL),
    Measure("paused", "agent", "", "0", "", "1 while a pause file stops all writes",
            "no limit is written"),
    Measure("braked", "agent", "", "0", "", "disks whose change waits for plimsoll approve",
            "waits for an approval"),
    Measure("looked_age", "limits", "s", "1800", "", "seconds since the disks were looked at",
            "the disks were not looked at for", Level.UNKNOWN),
    Measure("unlimited", "limits", "", "0", "", "disks without any limit though one is wanted",
            "no limit though one is wanted"),
    Measure("behind", "limits", "", "0", "", "disks whose change waits, or is planned while the mode is observe",
            "not yet as wanted"),
    Measure("failed", "limits", "", "", "0", "disks whose change failed",
            "change failed"),
    Measure("not_known", "limits", "", "0", "", "disks of which nobody knows what is in force",
            "not known what is in force"),
    Measure("silent_guests", "limits", "", "0", "", "guests that do not let themselves be looked at",
            "cannot be looked at"),
    Measure("at_wall", "limits", "", "", "", "disks that a limit held back, on average between the last two passes",
            "held back by a limit"),
    Measure("probe_late", "probe", "", "0", "", "probes that were due twice and not made",
            "probe late"),
    Measure("probe_broken", "probe", "", "", "0", "probes whose newest verdict is short, over-limit or slow",
            "promise broken"),
    Measure("probe_failed", "probe", "", "0", "", "probes whose newest run failed",
            "probe failed"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Ranges as Nagios writes them; "" is never."""

    warning: str
    critical: str


MEASURE = {measure.name: measure for measure in MEASURES}
SHIPPED = {measure.name: Thresholds(measure.warning, measure.critical) for measure in MEASURES}

_NUMBER = r"-?[0-9]+(?:\.[0-9]+)?"
_RANGE = re.compile(rf"@?(?:(?P<start>{_NUMBER}|~)?:)?(?P<end>{_NUMBER})?")


def checked_range(text: str) -> str:
    """A range as Nagios writes it, or "". Raises ``ValueError`` that says what a range is."""
    text = text.strip()
    found = _RANGE.fullmatch(text)
    start, end = (found["start"], found["end"]) if found else (None, None)
    # Without a start it is 0.
    backwards = start != "~" and end is not None and float(start or 0) > float(end)
    if not found or backwards or (text and not (start or end)):
        raise ValueError(f"{text!r} is no range: write 10 (0 to 10 is well), 5:, ~:10, 5:10 or @5:10")
    return text
