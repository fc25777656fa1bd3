"""Bursts are written as long as what is saved of them: the accounts of a pass, and what is written instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from plimsoll_agent.credits.ledger import (
    FULL,
    Account,
    Member,
    account_key,
    arrived,
    brought_forward,
    bursts,
    missing,
    to_write,
    written,
)
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.usage import Reading
from plimsoll_agent.policy.decide import Desired, Situation
from plimsoll_agent.policy.diff import Change
from plimsoll_agent.reconcile.consider import outcome_of
from plimsoll_agent.reconcile.outcome import Kind, Outcome
from plimsoll_agent.util.frozen import replace


def may_burst(disk: Disk, situation: Situation) -> bool:
    """Whether the disk may have an account: its counters are read."""
    entry = situation.memory.get(disk.key)
    desired = None if entry is None else entry.desired
    return any(isinstance(limits, Limits) and bursts(limits) for limits in (disk.actual, desired))


def with_arrivals(before: Situation, after: Situation, disks: Iterable[Disk]) -> dict[str, Account]:
    """The accounts, with those of disks whose marks the situation ``after`` has taken over from other nodes."""
    accounts = dict(after.accounts)
    for disk in disks:
        mark = disk.mark
        if mark is None or after.memory.get(disk.key) is before.memory.get(disk.key):
            continue
        if mark.desired is not None and mark.applied is not None and bursts(mark.desired):
            key = account_key(disk.key, mark.desired)
            account = arrived(accounts.get(key), disk.key, disk.attachment, mark.desired, mark.applied)
            if account is not None:
                accounts[key] = account
    return accounts


def forwarded(
    outcomes: Sequence[Outcome], readings: Mapping[str, Reading], before: Mapping[str, Account]
) -> dict[str, Account]:
    """The accounts of these disks after the readings; where limits are reduced, or held, by the desired ones."""
    sharing: dict[str, tuple[Limits, list[Member]]] = {}
    for outcome in outcomes:
        limits = with_bursts(outcome)
        if limits is not None and not outcome.disk.filters:
            member = member_of(outcome, readings.get(outcome.disk.key))
            sharing.setdefault(account_key(outcome.disk.key, limits), (limits, []))[1].append(member)
    unread = {key: account for key, account in before.items() if account.is_unread}  # its limits may be unknown yet
    accounts = ((key, brought_forward(before.get(key), *each)) for key, each in sharing.items())
    return unread | {key: account for key, account in accounts if account is not None}


def instead(outcomes: Sequence[Outcome], accounts: Mapping[str, Account]) -> dict[str, Desired]:
    """By ``Disk.key`` what to write now where that has shorter bursts than desired."""
    sharing: dict[str, list[tuple[Outcome, Desired]]] = {}
    for outcome in outcomes:
        target, kind = outcome.decision.written, outcome.result.kind
        if isinstance(target, Desired) and bursts(target.whole) and kind in (Kind.PLANNED, Kind.IN_SYNC):
            key = account_key(outcome.disk.key, target.whole)
            sharing.setdefault(key, []).append((outcome, target))
    return {
        outcome.disk.key: desired
        for key, pairs in sharing.items()
        for outcome, desired in _saved(pairs, accounts.get(key))
        if desired is not None
    }


def account_of(outcome: Outcome, accounts: Mapping[str, Account]) -> tuple[Limits, Account | None] | None:
    """The limits of the disk's account, and the account if it is known; None for a disk without a burst."""
    limits = with_bursts(outcome)
    return None if limits is None else (limits, accounts.get(account_key(outcome.disk.key, limits)))


def shares(outcome: Outcome, accounts: Mapping[str, Account]) -> dict[str, float]:
    """The share of each burst of the disk that is saved, by the limit's name; none where it is unknown."""
    match account_of(outcome, accounts):
        case (limits, Account() as account):
            return {
                base: max(0.0, account.balance(limits, base)) / burst.capacity
                for base, burst in bursts(limits).items()
            }
    return {}


def after_writes(accounts: Mapping[str, Account], changes: Iterable[Change]) -> dict[str, Account]:
    """The accounts after these changes."""
    after = dict(accounts)
    for change in changes:
        key = account_key(change.disk.key, change.after)
        if key in after:
            after[key] = written(after[key], change.after)
    return after


def _saved(
    pairs: Sequence[tuple[Outcome, Desired]], account: Account | None
) -> Iterable[tuple[Outcome, Desired | None]]:
    members = [member_of(outcome) for outcome, _ in pairs]
    for outcome, target in pairs:
        limits = to_write(target.whole, account, members)
        if limits == target.limits:
            continue
        facts = {name: fact for name, fact in target.reason.facts.items() if name != FULL}
        if gap := missing(target.whole, limits):
            facts[FULL] = gap
        yield outcome, Desired(limits, replace(target.reason, facts=facts))


def with_bursts(outcome: Outcome) -> Limits | None:
    """The limits that the disk's account is for; None for a disk without a burst.

    Under a hold without a burst it goes on for the limits of the sources, which return with its end; of a reduced
    disk with no answer now, for those that it is restored to.
    """
    decision = outcome.decision
    for answer in (decision.written, decision.desired, decision.aside):
        if isinstance(answer, Desired) and bursts(answer.whole):
            return answer.whole
    return None if outcome.disk.reduced is None else of_memory(outcome)


def of_memory(outcome: Outcome) -> Limits | None:
    """What was desired last, if the disk has it, or would have without a reduction, with its bursts shortened."""
    actual, ours = outcome.disk.actual, outcome.decision.ours
    desired = None if ours is None else ours.desired
    if desired is None or not isinstance(actual, Limits) or not bursts(desired):
        return None
    return desired if actual.shortens(desired) else None


def member_of(outcome: Outcome, reading: Reading | None = None) -> Member:
    """The disk as a member of its account, by what is in force, and was applied and desired last."""
    disk, ours = outcome.disk, outcome.decision.ours
    return Member(
        key=disk.key,
        attachment=disk.attachment,
        actual=disk.in_force,
        applied=None if ours is None else ours.applied,
        desired=None if ours is None else ours.desired,
        reading=reading,
    )


def as_saved(outcomes: Sequence[Outcome], situation: Situation) -> list[Outcome]:
    """The outcomes, with each burst as long as what is saved of it."""
    savings = instead(outcomes, situation.accounts)
    return [
        replace(
            outcome_of(o.disk, replace(o.decision, instead=savings[o.disk.key])), acknowledgement=o.acknowledgement
        )
        if o.disk.key in savings
        else o
        for o in outcomes
    ]
