"""A guest's console, in which its tenant writes what they like."""

from __future__ import annotations

from plimsoll_agent.consoles.patterns import count


def target(data: bytes) -> None:
    lines = data.translate(None, b"\0").count(b"\n") + 1
    whole = count(data)
    assert all(0 < number <= lines for number in whole.values())
    # Read in two passes it has the same lines.
    end = data.find(b"\n", len(data) // 2) + 1
    first, second = count(data[:end]), count(data[end:])
    assert whole == {kind: first.get(kind, 0) + second.get(kind, 0) for kind in first.keys() | second.keys()}
