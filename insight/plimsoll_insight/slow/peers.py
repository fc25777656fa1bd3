"""Which replicas were late, where OSDs wait for each other.

An OSD that stands still reads answers late that were there in time, and blames those who gave them. At the same time
others wait for it. So of two that wait for each other, the one is blamed for which more OSDs wait. An OSD with
requests that wait for no other one counts as waiting for itself.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from plimsoll_agent.util.frozen import replace
from plimsoll_insight.slow.blame import Blame, of_state
from plimsoll_insight.slow.events import SlowRequest

_Span = tuple[float, float]


def settle(requests: Sequence[SlowRequest]) -> list[SlowRequest]:
    """The same of all OSDs, without peers for which fewer OSDs wait than for the one that waits for them."""
    spans: dict[int, dict[int, list[_Span]]] = {}
    for each in requests:
        own = each.operation.is_replica or (each.blame or of_state(each.state)) is Blame.OWN
        for slow in each.peers or ((each.osd,) if own else ()):
            spans.setdefault(slow, {}).setdefault(each.osd, []).append(_span(each))
    waiting = {slow: [_join(of_osd) for of_osd in of.values()] for slow, of in spans.items()}

    def number(osd: int, span: _Span) -> int:
        """Of OSDs that waited for it at least half of that time."""
        return sum(2 * _both(span, wait) >= span[1] - span[0] for wait in waiting.get(osd, ()))

    return [
        replace(
            each,
            peers=tuple(peer for peer in each.peers if number(peer, _span(each)) >= number(each.osd, _span(each))),
        )
        for each in requests
    ]


def _span(request: SlowRequest) -> _Span:
    return request.time, request.time + request.age


def _join(spans: Iterable[_Span]) -> list[_Span]:
    union: list[_Span] = []
    for begin, end in sorted(spans):
        if union and begin <= union[-1][1]:
            union[-1] = (union[-1][0], max(end, union[-1][1]))
        else:
            union.append((begin, end))
    return union


def _both(span: _Span, union: Sequence[_Span]) -> float:
    first = max(bisect_right(union, span[0], key=lambda each: each[0]) - 1, 0)
    whole = 0.0
    for begin, end in union[first:]:
        if begin >= span[1]:
            break
        whole += max(min(end, span[1]) - max(begin, span[0]), 0.0)
    return whole
