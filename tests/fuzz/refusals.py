"""What a parser says of what it refuses."""

from __future__ import annotations

import re

from plimsoll_probes.model.finding import Trouble


def assert_clear(error: Exception, where: str = "", most: int = 1000) -> None:
    """It begins with the file, does not repeat it, and shows nothing that a terminal would obey."""
    assert str(error).startswith(where)
    assert 0 < len(str(error)) < most
    assert str(error).isprintable()


def assert_each_has_a_line(error: Exception, where: str) -> None:
    """Each fault names file and line."""
    for fault in str(error).splitlines():
        assert re.match(rf"{re.escape(where)}:[1-9]\d*: \S", fault), fault


def assert_short_facts(trouble: Trouble, most: int) -> None:
    """They are shown to operators, and a guest may have chosen their text."""
    for fact in trouble.facts.values():
        assert len(str(fact)) <= most
        assert str(fact).isprintable()
