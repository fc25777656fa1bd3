"""Congestion in words: the factor of a device class, and what it leaves of a disk's limits."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC

from plimsoll_agent.congestion.law import Action
from plimsoll_agent.congestion.published import Factor, Gap
from plimsoll_agent.messages import sentences, serialize
from plimsoll_agent.messages.limits import short_limits
from plimsoll_agent.model.clusters import short_fsid
from plimsoll_agent.model.reason import Unknown
from plimsoll_agent.policy.decide import NoOpinion
from plimsoll_agent.policy.reduced import Reduced
from plimsoll_agent.util.text import printable, rounded

GAPS: Mapping[str, str] = {
    Gap.NO_REQUESTS: "too few requests of light disks",
    Gap.TOO_SELDOM: "Prometheus scrapes nodes too seldom",
    Gap.CLUSTER_UNKNOWN: "label cluster of nodes' metrics is no fsid",
    Gap.NO_TARGET: "no target yet",
    Gap.OSDS_UNKNOWN: "latency of the OSDs unknown",
    Gap.NOT_IN_OSDS: "the OSDs themselves are fast",
    Gap.UNHEALTHY: "placement groups do not serve requests, or OSDs are full",
    Gap.HEALTH_UNKNOWN: "health of the cluster unknown",
    Gap.NO_ANSWER: "no answer from Prometheus",
}
ACTIONS: Mapping[str, str] = {
    Action.FULL: "not reduced",
    Action.NOTICED: "above target, not for long",
    Action.IN_BAND: "at target",
    Action.WAITING: "waiting for the effect",
    Action.PAUSED: "below target, raised later",
    Action.LOWERED: "lowered",
    Action.RAISED: "raised",
    Action.LOWEST: "as low as it goes",
    Action.NO_SIGNAL: "no signal",
    Action.RETURNING: "no signal, returning",
    Action.INEFFECTIVE: "lowering had no effect",
}


def milliseconds(seconds: float | None) -> str:
    return "unknown" if seconds is None else f"{rounded(seconds * 1000)} ms"


def state_words(action: str, why: str) -> str:
    """``at target``, ``no signal: latency of the OSDs unknown``; codes of another version as they are."""
    words = ACTIONS.get(action, printable(action))
    return f"{words}: {GAPS.get(why, printable(why))}" if why else words


def words(answer: Reduced | NoOpinion | Unknown | None) -> str | None:
    """``0.73 × 3000 IOPS = 2190 IOPS (ssd of cluster c1: 9.1 ms, target 6 ms, 12:04 UTC), observed``; None where
    congestion is switched off.
    """
    if answer is None:
        return None
    if not isinstance(answer, Reduced):
        return sentences.words(answer.reason)
    factor = answer.factor
    place = f"{printable(factor.device_class)} of cluster {short_fsid(printable(factor.cluster))}"
    figures = f"{milliseconds(factor.latency)}, target {milliseconds(factor.target)}"
    cause = f"({place}: {figures}, {answer.issued.astimezone(UTC):%H:%M} UTC)"
    if factor.x >= 1:
        return f"not reduced, x is 1 {cause}"
    share = f"{answer.share:g} × " if answer.share != 1 else ""
    limits, whole = short_limits(answer.limits), short_limits(answer.desired)
    return f"{factor.x:.2g} × {share}{whole} = {limits} {cause}{'' if answer.enforced else ', observed'}"


def data(answer: Reduced | NoOpinion | Unknown | None) -> dict[str, object] | None:
    if answer is None:
        return None
    if isinstance(answer, Reduced):
        return {
            "answer": "limits",
            "enforced": answer.enforced,
            "limits": serialize.limits_data(answer.limits),
            "reason": None,
            "rule": answer.rule,
            "share": answer.share,
            "class": _class_data(answer.factor) | {"issued": answer.issued.isoformat()},
        }
    kind = "unknown" if isinstance(answer, Unknown) else "no-opinion"
    return {"answer": kind, "limits": None, "reason": answer.reason.as_record()}


def _class_data(factor: Factor) -> dict[str, object]:
    return {
        "cluster": factor.cluster,
        "class": factor.device_class,
        "x": factor.x,
        "action": factor.action,
        "why": factor.why,
        "latency": factor.latency,
        "target": factor.target,
    }
