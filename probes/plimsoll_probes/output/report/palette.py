"""The colours of a report, for light and for dark pages.

Those of any two verdicts differ by 25 or more (CIEDE2000), also for people who see no red, no green or no blue, and
have a contrast of 3 to the page; the tests compute both. What ``reduced``, ``inconclusive`` and ``failed``
share says nothing of the promise.
"""

from __future__ import annotations

from collections.abc import Mapping

VERDICTS: Mapping[str, tuple[str, str]] = {
    "kept": ("#357c71", "#50867d"),
    "no-limit": ("#a07cf8", "#6edaff"),
    "short": ("#8d2b00", "#d22c01"),
    "slow": ("#b78e05", "#ffbf00"),
    "over-limit": ("#5700c3", "#9a2aff"),
    "unjudged": ("#000000", "#faffeb"),
}
"""On a light page, and on a dark one."""
PAPER = ("#ffffff", "#16181a")
LINES: Mapping[str, tuple[str, str]] = {
    "paper": PAPER,
    "ink": ("#1a1a1a", "#ececec"),
    "faint": ("#5c5c5c", "#a8a8a8"),
    "line": ("#d9d9d9", "#3c3f42"),
    "beyond": ("#eeeeee", "#26292c"),
    "p50": ("#0072b2", "#56b4e9"),
    "p99": ("#c25400", "#ff9f40"),
    "p999": ("#7d3c98", "#cf9fe8"),
    "slowest": ("#4d4d4d", "#b3b3b3"),
    "limit": ("#b3400e", "#ff8a50"),
}
"""Of the page and its figures. No two are alike on a light page: figures are drawn in these, and named afterwards."""
HEAT = "#2b7fc4"
"""The hue of the heat map, more or less transparent, on both."""


def css() -> str:
    """The colours as variables, by the theme of the reader; paper is light."""
    light, dark = ("".join(f"--{name}: {both[theme]}; " for name, both in _ALL.items()) for theme in (0, 1))
    return f":root {{ {light}}}\n@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark}}} }}\n"


_ALL = {**LINES, **VERDICTS}
