"""What a disk's limits should be: pure, values in and values out.

Three stages: *base* (the first source that is not silent), *shape* (what bounds a source's word) and *hold*
(an operator's exception). Shape and hold have nothing to say yet; they go between ``_base`` and the ``Decision``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from plimsoll_agent.disk import Disk
from plimsoll_agent.limits import Limits
from plimsoll_agent.reason import Code, Reason, Unknown, because
from plimsoll_agent.rules import Rules


@dataclass(frozen=True, slots=True)
class Remembered:
    """What plimsoll wants for a disk and since when, and what it put in force there last."""

    wanted: Limits
    since: datetime
    seen: datetime
    put: Limits | None
    """None while plimsoll only observed, or met limits that were right already."""
    attachment: str | None
    """The attachment that this is about; None once the guest was away, or the node restarted."""


@dataclass(frozen=True, slots=True)
class Situation:
    """All that a decision may depend on, the clock too."""

    now: datetime
    rules: Rules
    memory: Mapping[str, Remembered] = field(default_factory=dict)
    """By ``Disk.key``."""

    def ours(self, disk: Disk) -> Remembered | None:
        """What is remembered of this attachment; one that was made anew without our limits starts afresh.

        A guest that is started again from its persistent definition brings along the limits that plimsoll
        wrote into it: those are still ours.
        """
        remembered = self.memory.get(disk.key)
        if remembered is None:
            return None
        same = remembered.attachment == disk.attachment
        return remembered if same or (remembered.put is not None and remembered.put == disk.defined) else None


@dataclass(frozen=True, slots=True)
class Wants:
    """A source's word; ``Limits()`` in it says "no limit" aloud."""

    limits: Limits
    reason: Reason


@dataclass(frozen=True, slots=True)
class Unmanaged:
    """Never written to, whatever it has."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Silent:
    """The source has nothing to say; the next one is asked."""

    reason: Reason


Answer = Wants | Unmanaged | Silent | Unknown
Source = Callable[[Disk, Situation], tuple["Step", ...]]


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the trail: who was asked, and what the answer was."""

    asked: str
    answer: Answer


@dataclass(frozen=True, slots=True)
class Decision:
    """What is wanted for a disk, and the trail that led there."""

    wanted: Wants | Unmanaged | Unknown
    trail: tuple[Step, ...]


def decide(disk: Disk, situation: Situation, sources: tuple[Source, ...]) -> Decision:
    """Ask the sources in their order; the first answer that is not ``Silent`` is the decision."""
    trail: list[Step] = []
    for source in sources:
        for step in source(disk, situation):
            trail.append(step)
            if not isinstance(step.answer, Silent):
                return Decision(step.answer, tuple(trail))
    return Decision(Unmanaged(because(Code.NO_LIMIT)), tuple(trail))
