"""Desired limits of a disk from a future time on: a value."""

from __future__ import annotations

from dataclasses import field

from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code
from plimsoll_agent.util.decoding import Moment
from plimsoll_agent.util.frozen import frozen


@frozen(kw_only=True)
class Later:
    """The desired limits of a disk from the end of a rule (``until``) on."""

    at: Moment
    limits: Limits | None
    """None if no source has an opinion then."""
    by_type: str | None = None
    """The volume type whose QoS spec gives them, as in ``Remembered``."""
    source: Code | None = field(default=None, compare=False)
    """As in ``Remembered``."""
