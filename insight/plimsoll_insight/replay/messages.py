"""A replay in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from plimsoll_agent.messages.limits import short_change, short_limits
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.util.text import plural, ranged, rounded
from plimsoll_insight.replay.values import Fate, FigureRange, ReplayVerdict, UnknownReason

VERDICTS: Mapping[ReplayVerdict, str] = {
    ReplayVerdict.WORSE: "worse off",
    ReplayVerdict.MAYBE_WORSE: "may be worse off",
    ReplayVerdict.UNKNOWN: "unknown",
    ReplayVerdict.BETTER: "better off",
    ReplayVerdict.SAME: "as well off",
    ReplayVerdict.UNTOUCHED: "untouched",
}
REASONS: Mapping[UnknownReason, str] = {
    UnknownReason.ACTUAL: "actual limits are unknown, or may be reduced for now, as a change is deferred or failed",
    UnknownReason.ATTACH: "attach-time limits are in no metric; a rule with override: true needs none",
    UnknownReason.CLUSTER: "a rule names a cluster, and theirs is unknown",
    UnknownReason.FLAVOR: "quotas of flavors are in no metric; a rule with override: true needs none",
    UnknownReason.NO_SAMPLES: "Prometheus has no rates of them in this time",
    UnknownReason.RULE_KEYS: "a rule names a user or an image, or the volume that a guest boots from,"
    " which are in no metric",
    UnknownReason.SIZE: "a QoS spec has limits per GiB, and sizes are in no metric",
    UnknownReason.SPEC: "their QoS spec cannot be used; see plimsoll qos lint",
    UnknownReason.SPECS: "QoS specs were not given; give --qos FILE, which plimsoll qos export writes",
    UnknownReason.TYPE: "volumes have no volume type, or it is in no metric",
    UnknownReason.TYPE_NOT_LISTED: "their volume type is not in the file of --qos",
    UnknownReason.VOLUMES: "another volume was at their target, or at that of a disk that would share their limit",
}


def sum_line(fates: Sequence[Fate]) -> str:
    """How many disks would fare how."""
    counts = Counter(fate.verdict for fate in fates)
    parts = ", ".join(f"{counts[verdict]} {words}" for verdict, words in VERDICTS.items() if counts[verdict])
    return f"Of {plural(len(fates), 'disk')}: {parts}."


def unknown_lines(fates: Sequence[Fate]) -> Iterator[str]:
    """A line for each reason, the most frequent first."""
    for why, number in Counter(fate.why for fate in fates if fate.why is not None).most_common():
        yield f"Unknown of {plural(number, 'disk')}: {REASONS[why]}."


CEILINGS_LINE = (
    "Not judged: ceilings of guests and projects, which these rules have. Each disk counts with its own limits alone,"
    " and may get less where disks share a ceiling."
)


def bound_line(pass_seconds: float) -> str:
    return (
        f"Averages are over up to {pass_seconds:.0f} s: a shorter burst is unseen, and BURST is the longest"
        " that it may have waited."
    )


def known_line(fates: Sequence[Fate]) -> str | None:
    """Where some of the time is unknown."""
    shares = [fate.share_known for fate in fates if fate.share_known is not None]
    share = sum(shares) / len(shares) if shares else 1.0
    if share > 0.99:
        return None
    return f"Known is {100 * share:.0f} % of the time of these disks; the rest is in no figure."


def turn_words(before: Limits, after: Limits) -> str:
    """Which limits change; all of them where the words for a part would be none."""
    return short_change(before, after) or f"{short_limits(before)} → {short_limits(after)}"


def share_words(span: FigureRange) -> str:
    low, high = f"{100 * span.low:.0f}", "" if span.high is None else f"{100 * span.high:.0f}"
    return ranged(f"{low} %", f"{high or '?'} %")


def rate_words(span: FigureRange) -> str:
    return _span(span, _rate)


def count_words(span: FigureRange) -> str:
    return _span(span, _count)


def wait_words(span: FigureRange) -> str:
    return _span(span, seconds_words)


def seconds_words(value: float) -> str:
    """``0``, ``12 ms``, ``3.4 s``, ``12 min``, ``5.1 h``."""
    for unit, size, below in (("ms", 1e-3, 1.0), ("s", 1.0, 120.0), ("min", 60.0, 7200.0), ("h", 3600.0, 172_800.0)):
        if value < below:
            number = value / size
            return "0" if number < 0.05 else f"{number:.1f} {unit}" if number < 9.95 else f"{number:.0f} {unit}"
    return f"{value / 86_400:.1f} d"


def _span(span: FigureRange, words: Callable[[float], str]) -> str:
    return ranged(words(span.low), "?" if span.high is None else words(span.high))


def _rate(value: float) -> str:
    return f"{value:.1f}" if value < 9.95 else _count(value)


def _count(value: float) -> str:
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**4, "k")):
        if value >= size:
            return f"{rounded(value / (1000 if letter == 'k' else size))} {letter}"
    return f"{value:.0f}"
