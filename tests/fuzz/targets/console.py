"""A guest's console, in which its tenant writes what they like."""

from __future__ import annotations

from collections import Counter

from plimsoll_agent.consoles.patterns import count

_MOST_LINES = 500


def target(data: bytes) -> None:
    whole, lines = count(data), data.translate(None, b"\0").split(b"\n")
    assert all(0 < number <= len(lines) for number in whole.values())
    # A line counts once as its kind, whatever the other lines are.
    if len(lines) < _MOST_LINES:
        assert whole == Counter(kind for line in lines for kind in count(line))
    # Read in two passes it has the same lines.
    end = data.find(b"\n", len(data) // 2) + 1
    first, second = count(data[:end]), count(data[end:])
    assert whole == {kind: first.get(kind, 0) + second.get(kind, 0) for kind in first.keys() | second.keys()}
