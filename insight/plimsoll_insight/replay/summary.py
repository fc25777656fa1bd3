"""The fates of disks, by project, type, pool or each: the worst off first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum

from plimsoll_agent.model.limits import Limits
from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.replay.values import Fate, FigureRange, ReplayVerdict, UnknownReason

TURNS = 3
"""Of changes of limits, the most frequent of a row."""


class ReplayBy(StrEnum):
    """What is a row."""

    PROJECT = "project"
    TYPE = "type"
    POOL = "pool"
    DISK = "disk"


_LABELS: Mapping[ReplayBy, tuple[str, ...]] = {
    ReplayBy.PROJECT: ("project", "project_name"),
    ReplayBy.TYPE: ("volume_type",),
    ReplayBy.POOL: ("cluster", "pool"),
}


@frozen(kw_only=True)
class Row:
    """Several disks together. None is unknown, or for all of them absent."""

    region: str
    labels: Mapping[str, str] = field(hash=False)
    verdicts: Mapping[ReplayVerdict, int] = field(hash=False)
    reasons: Mapping[UnknownReason, int] = field(hash=False)
    """Why disks are unknown."""
    turns: Mapping[tuple[Limits, Limits], int] = field(hash=False)
    """Limits before and after, of those that are touched."""
    at_limit_before: float | None
    """Of the time of all disks that are touched; so too the figures below."""
    at_limit: FigureRange | None
    served_before: float | None
    """Requests a second, of all together."""
    served: FigureRange | None
    waited: FigureRange | None
    longest: FigureRange | None
    hidden: float | None
    share_known: float | None

    @property
    def disks(self) -> int:
        return sum(self.verdicts.values())

    @property
    def badness(self) -> tuple[float, ...]:
        """The higher, the worse."""
        more = 0.0
        if self.at_limit is not None:
            high = 1.0 if self.at_limit.high is None else self.at_limit.high
            more = (self.at_limit.low + high) / 2 - (self.at_limit_before or 0.0)
        numbers = (self.verdicts.get(one, 0) for one in (ReplayVerdict.WORSE, ReplayVerdict.MAYBE_WORSE))
        waits = self.waited.low if self.waited else 0.0
        return (
            *numbers,
            more,
            waits,
            self.verdicts.get(ReplayVerdict.UNKNOWN, 0),
            -self.verdicts.get(ReplayVerdict.BETTER, 0),
        )


def rows(fates: Iterable[Fate], by: ReplayBy) -> list[Row]:
    """Of groups; the worst first, and then by their labels."""
    groups: dict[tuple[str, ...], list[Fate]] = {}
    for fate in fates:
        facts = fate.subject.facts
        # Of a project with several names any.
        parts = _LABELS[by][:1] if by is ReplayBy.PROJECT else _LABELS[by]
        groups.setdefault((fate.subject.region, *(facts.get(name, "") for name in parts)), []).append(fate)
    each = [_row(by, members) for _, members in sorted(groups.items())]
    return sorted(each, key=lambda row: row.badness, reverse=True)


def worst_first(fates: Iterable[Fate]) -> list[Fate]:
    """The disks, by their verdict, then by how much."""
    order = list(ReplayVerdict)

    def badness(fate: Fate) -> tuple[float, ...]:
        if fate.at_limit is None or fate.waited is None:
            return order.index(fate.verdict), 0.0, 0.0
        high = 1.0 if fate.at_limit.high is None else fate.at_limit.high
        more = (fate.at_limit.low + high) / 2 - (fate.at_limit_before or 0.0)
        return order.index(fate.verdict), -more, -fate.waited.low

    return sorted(fates, key=badness)


def _row(by: ReplayBy, fates: Sequence[Fate]) -> Row:
    facts = fates[0].subject.facts
    figures = [fate for fate in fates if fate.at_limit is not None]
    turns = Counter(
        (fate.subject.actual, fate.limits)
        for fate in fates
        if fate.subject.actual is not None and fate.limits is not None and fate.verdict is not ReplayVerdict.UNTOUCHED
    )
    return Row(
        region=fates[0].subject.region,
        labels={name: facts.get(name, "") for name in _LABELS[by]},
        verdicts=Counter(fate.verdict for fate in fates),
        reasons=Counter(fate.why for fate in fates if fate.why is not None),
        turns=dict(turns.most_common()),
        at_limit_before=_mean([(fate.at_limit_before, fate.share_known) for fate in figures]),
        at_limit=_mean_span([(fate.at_limit, fate.share_known) for fate in figures]),
        served_before=sum(fate.served_before or 0.0 for fate in figures) if figures else None,
        served=_sum([fate.served for fate in figures]),
        waited=_sum([fate.waited for fate in figures]),
        longest=_longest([fate.longest for fate in figures]),
        hidden=_most([fate.hidden for fate in figures]),
        share_known=_mean([(fate.share_known, 1.0) for fate in figures]),
    )


def _mean(pairs: Sequence[tuple[float | None, float | None]]) -> float | None:
    """Weighted."""
    whole = sum(weight or 0.0 for _, weight in pairs)
    return sum((value or 0.0) * (weight or 0.0) for value, weight in pairs) / whole if whole else None


def _mean_span(pairs: Sequence[tuple[FigureRange | None, float | None]]) -> FigureRange | None:
    low = _mean([(span.low if span else None, weight) for span, weight in pairs])
    high = _mean([(span.high if span else None, weight) for span, weight in pairs])
    return None if low is None else FigureRange(low, high)


def _sum(spans: Sequence[FigureRange | None]) -> FigureRange | None:
    numbers = [span for span in spans if span is not None]
    if not numbers:
        return None
    highs = [span.high for span in numbers if span.high is not None]
    return FigureRange(sum(span.low for span in numbers), sum(highs) if len(highs) == len(numbers) else None)


def _longest(spans: Sequence[FigureRange | None]) -> FigureRange | None:
    numbers = [span for span in spans if span is not None]
    return FigureRange(max(span.low for span in numbers), _most([span.high for span in numbers])) if numbers else None


def _most(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return max(numbers) if numbers and len(numbers) == len(values) else None
