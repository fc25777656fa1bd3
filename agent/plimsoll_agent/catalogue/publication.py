"""What the region file publishes while an approval has stages, or was withdrawn. Pure.

The progress of stages is in the published file only: what is killed before the file is replaced has advanced nothing,
and no stage ends before it was published for its whole time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from plimsoll_agent.catalogue.model import Lists
from plimsoll_agent.catalogue.orders import Of, Orders, RegionApproval, Withdrawal
from plimsoll_agent.catalogue.stages import ALWAYS, ConditionFinding, StageCheck
from plimsoll_agent.util.frozen import frozen, replace
from plimsoll_agent.util.text import minute, plural

Judge = Callable[[RegionApproval], Iterable[ConditionFinding]]
"""Judges the nodes that have the present stage; it raises nothing."""
_SHOWN = 16


@frozen(kw_only=True)
class PublicationStep:
    """The orders to publish, and what stops the next stage of an approval whose time has come."""

    orders: Orders
    stops: tuple[ConditionFinding, ...] = ()


def advanced(
    orders: Orders, last: Orders, read: str, judge: Judge, now: datetime, removals: frozenset[str] = frozenset()
) -> PublicationStep:
    """The orders with the progress of their stages.

    ``read`` is the digest of what Cinder has, ``removals`` are the types whose volumes lose their limits by that, and
    ``last`` are the orders that were published last.
    """
    stops: list[ConditionFinding] = []
    results: list[RegionApproval] = []
    for one in (_continued(each, last, now) for each in orders.staged):
        due = None if one.stages is None else one.stages.due()
        if one.stages is None or due is None or now < due:
            results.append(one)
            continue
        conditions = [each for each in StageCheck if each not in one.stages.without - ALWAYS]
        findings = _judged(one, conditions, orders, read, removals, judge, now)
        against = [each for each in findings if each.holds is not True]
        stops += against
        stages = one.stages if against else one.stages.at(one.stages.reached + 1, now)
        results.append(replace(one, stages=stages))
    return PublicationStep(orders=replace(orders, staged=tuple(results)), stops=tuple(stops))


def _continued(one: RegionApproval, last: Orders, now: datetime) -> RegionApproval:
    before = next((each for each in last.staged if each.is_of(one)), None)
    if one.stages is None:
        return one
    if before is None or before.stages is None:
        return replace(one, stages=one.stages.at(0, now))
    return replace(one, stages=one.stages.after(before.stages, renewed=before.since != one.since, now=now))


def _judged(
    one: RegionApproval,
    conditions: Iterable[StageCheck],
    orders: Orders,
    read: str,
    removals: frozenset[str],
    judge: Judge,
    now: datetime,
) -> list[ConditionFinding]:
    """The findings of all conditions that an operator wants judged; a condition without one is unknown."""
    findings: list[ConditionFinding] = []
    if one.of is Of.SPECS and one.digest != read:
        findings.append(
            ConditionFinding(
                StageCheck.APPROVED, False, f"Cinder has other QoS specs and types now ({read[:_SHOWN]})"
            )
        )
    elif one.of is Of.SPECS and removals - one.remove:
        # In the last stage the region's brake would publish the specs of before for all nodes.
        number = plural(len(removals - one.remove), "more volume type")
        findings.append(
            ConditionFinding(
                StageCheck.APPROVED, False, f"volumes of {number} lose their limits: approve it with --remove"
            )
        )
    if orders.paused(now) is not None:
        findings.append(ConditionFinding(StageCheck.RUNNING, False, "the region is paused"))
    if findings:
        return findings
    by_condition = {each.condition: each for each in judge(one)}
    return [
        by_condition.get(each, ConditionFinding(each, None, "was not judged"))
        for each in conditions
        if each not in {StageCheck.APPROVED, StageCheck.RUNNING}
    ]


@frozen(kw_only=True)
class States:
    """The specs and types that are known: as read from Cinder, and those of the file published before."""

    read: Lists
    main: Lists | None
    other: Lists | None

    def of(self, digest: str) -> Lists | None:
        return next((each for each in (self.read, self.main, self.other) if each and each.digest == digest), None)

    def before(self, orders: Orders, last: Orders, now: datetime) -> Lists | None:
        """What an edit is compared with: the main ones, or if these were withdrawn, those of before.

        A small edit, such as one more type, may have followed since all nodes had what is withdrawn now.
        """
        if self.main is None:
            return None
        digests = {self.main.digest, *(one.digest for one in last.staged if one.complete)}
        withdrawal = next((each for each in orders.withdrawn(Of.SPECS, now) if each.digest in digests), None)
        return self.main if withdrawal is None else self.of(withdrawal.before) or self.main


def in_stages(orders: Orders) -> RegionApproval | None:
    """The approval of specs that has stages."""
    return next((one for one in orders.staged if one.of is Of.SPECS), None)


def other_of(orders: Orders, states: States, publication: Lists) -> Lists | None:
    """What the file has besides the specs and types that it publishes for all nodes: see ``Region.other``."""
    one = in_stages(orders)
    if one is None or one.stages is None:
        return None
    other = states.of(one.stages.before if one.complete else one.digest)
    return None if other is None or other.digest == publication.digest else other


def with_returns(
    orders: Orders, last: Orders, digest: str, removals: Callable[[Withdrawal, str], frozenset[str]], now: datetime
) -> Orders:
    """The orders with approvals for each withdrawal, so that all nodes return to the specs of before.

    They return to the ``digest`` that is published, where that is a small edit of these when the withdrawal is first
    published. ``removals`` are the types whose limits a return removes; a published approval stays as it is.
    """
    returns: list[RegionApproval] = []
    for each in orders.withdrawn(Of.SPECS, now):
        same = [one for one in last.approvals if one.since == each.since]
        why = f"withdrawn at {minute(each.since)}: {each.why}"
        returns += same or [
            RegionApproval(
                of=Of.SPECS,
                digest=to,
                since=each.since,
                until=each.until,
                by=each.by,
                why=why,
                remove=removals(each, to),
            )
            for to in dict.fromkeys((each.before, digest))
            if to != each.digest
        ]
    new = (one for one in dict.fromkeys(returns) if one not in orders.approvals)
    return replace(orders, approvals=(*orders.approvals, *new))
