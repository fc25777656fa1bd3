"""What congestion of a disk's cluster leaves of its desired limits. Pure, and no part of what is desired."""

from __future__ import annotations

from datetime import datetime

from plimsoll_agent.congestion.law import Action
from plimsoll_agent.congestion.published import Factor
from plimsoll_agent.congestion.reduction import written
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.origin import origin_of
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.policy.decide import Decision, Desired, NoOpinion, Situation, no_opinion_of
from plimsoll_agent.rules.model import UnderCongestion
from plimsoll_agent.util.frozen import frozen, replace


@frozen(kw_only=True)
class Reduced:
    """The limits while x is what it is; those that are desired while it is 1."""

    limits: Limits
    desired: Limits
    factor: Factor
    issued: datetime
    share: float
    rule: str
    enforced: bool
    """They are written; else only shown."""


def reduced(disk: Disk, decision: Decision, situation: Situation) -> Reduced | NoOpinion | Unknown | None:
    """None if congestion is switched off here; ``NoOpinion`` of a disk that is never reduced."""
    factors, desired = situation.congestion(), decision.desired
    if factors is None:
        return None
    if not isinstance(desired, Desired) or desired.limits.unlimited or origin_of(desired.reason.code).aside:
        return NoOpinion(desired.reason) if not isinstance(desired, Unknown) else desired
    bounds = bounds_of(disk, situation)
    if isinstance(bounds, NoOpinion | Unknown):
        return bounds
    pool = disk.cluster or "", disk.pool
    file, own = factors.clusters.get(disk.cluster or ""), situation.following.pools.get(pool)
    own = own if own is not None and own.counts(situation.now) else None
    factor, at = (None, situation.now) if file is None else (file.of(pool), file.issued)
    if own is not None:
        factor = factor or Factor(
            cluster=pool[0],
            device_class=own.device_class,
            x=own.x,
            action=Action.NO_SIGNAL.value,
            latency=None,
            target=None,
        )
        factor = replace(factor, x=own.x)
    if factor is None:
        missing = factors.fault or f"no device class of pool {disk.pool} is published"
        return Unknown(because(Code.CONGESTION_UNKNOWN, detail=missing))
    rule, bound = bounds
    return Reduced(
        limits=written(desired.limits, factor.x, bound.floor, bound.share),
        desired=desired.limits,
        factor=factor,
        issued=at,
        share=bound.share,
        rule=rule,
        enforced=own is not None,
    )


def bounds_of(disk: Disk, situation: Situation) -> tuple[str, UnderCongestion] | NoOpinion | Unknown:
    """Those of the first rule that matches and has them, with its name."""
    for rule in situation.rules.rules:
        if rule.congestion is None:
            continue
        misfit = no_opinion_of(rule, disk, situation.now)
        if misfit is None:
            return rule.name, rule.congestion
        if isinstance(misfit, Unknown):
            return misfit
    return NoOpinion(because(Code.NO_CONGESTION_FLOOR))
