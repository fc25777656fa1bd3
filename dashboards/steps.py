"""Thresholds and colours. Where plimsoll ships a threshold for a figure, that is the one."""

from __future__ import annotations

from collections.abc import Sequence

from nagiosplugin import Range

from plimsoll_agent.measures import MEASURE, SHIPPED

Steps = Sequence[tuple[float | None, str]]
"""(from this value on, colour); the first begins at None."""

GOOD, WARNING, BAD, PLAIN = "green", "orange", "red", "text"

NEUTRAL: Steps = ((None, PLAIN),)
NONE_EXPECTED: Steps = ((None, GOOD), (1, WARNING))
PROMISE: Steps = ((None, BAD), (0.9, WARNING), (0.99, GOOD))
WALL: Steps = ((None, GOOD), (0.8, WARNING), (0.95, BAD))

OF_STATE = {
    "right": GOOD,
    "changed": "blue",
    "planned": "yellow",
    "waits": WARNING,
    "left-alone": "gray",
    "not-known": "purple",
    "failed": BAD,
}
OF_VERDICT = {
    "kept": GOOD,
    "no-limit": "blue",
    "short": BAD,
    "over-limit": "purple",
    "slow": WARNING,
    "discarded": "gray",
    "failed": "dark-red",
}


def shipped(measure: str) -> Steps:
    """What plimsoll's own checks make of this figure, where a site has not set anything else."""
    thresholds = SHIPPED[measure]
    # A range alerts above its end, a step of Grafana's from its value on: one more where things are counted.
    beyond = 0 if MEASURE[measure].unit == "s" else 1
    found = ((thresholds.warning, WARNING), (thresholds.critical, BAD))
    return ((None, GOOD), *((float(Range(text).end) + beyond, colour) for text, colour in found if text))


def first(measure: str) -> float:
    """From which value on the figure is not right."""
    return min(value for value, _ in shipped(measure) if value is not None)
