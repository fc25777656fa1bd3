"""What may defer a desired change, and what a pass over single guests leaves to one over the node."""

from __future__ import annotations

from collections.abc import Callable

from plimsoll_agent.model.reason import Reason
from plimsoll_agent.policy.decide import Situation
from plimsoll_agent.reconcile.brake import Brake
from plimsoll_agent.reconcile.health_gate import Gate
from plimsoll_agent.util.frozen import frozen


@frozen(kw_only=True)
class Caution:
    """What may defer a desired change."""

    brake: Brake
    gate: Gate
    paused: Callable[[], Reason | None]
    rounds: int | None
    """How many times in a row an external change is reverted; then the disk is left alone."""
    sure: bool = False
    """An operator confirmed at the terminal: the brake defers nothing, unless the pass only observes."""
    on_event: bool = False
    """The pass asks only its own guests, and leaves to a pass over the node what that must do first: to judge a
    revision, and to try versions of libvirt and QEMU again whose trial failed."""


def leaves_judgement(caution: Caution, situation: Situation) -> bool:
    """Whether the pass defers what an edit changes much, until a pass over the node has judged the revision."""
    return caution.on_event and not situation.is_judged
