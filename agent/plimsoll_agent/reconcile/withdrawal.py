"""An approval of rules that the region withdrew: the node takes back what it let through, by its own record.

What is remembered as desired becomes what was desired before. So the brake stops these rules as before they were
approved, until they are approved again or edited, and the pass restores the limits of before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from plimsoll_agent.catalogue.orders import Of, Withdrawal
from plimsoll_agent.catalogue.signed_file import AHEAD
from plimsoll_agent.credits.ledger import whole
from plimsoll_agent.model.entries import RecordedChange
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.memory import Pending, Remembered
from plimsoll_agent.model.origin import origin_of
from plimsoll_agent.model.reason import Code
from plimsoll_agent.policy.decide import Situation
from plimsoll_agent.store.node_store import NodeStore
from plimsoll_agent.store.past import Past, pasts
from plimsoll_agent.util.frozen import frozen, replace

_EVER = datetime.min.replace(tzinfo=UTC)


def with_limits_of_before(situation: Situation, node_store: NodeStore) -> Situation:
    """The situation as before the approvals that the region withdrew. Raises ``StateError``."""
    withdrawals = situation.orders.withdrawn(Of.RULES, situation.now)
    if not withdrawals or _approved_here(situation):
        return situation
    revision, rules = situation.revision, situation.rules.revision
    memory, returning = dict(situation.memory), dict[str, Withdrawal]()
    for withdrawal in withdrawals:
        # The clock of a node that accepts the region file may be so far behind.
        since = withdrawal.began - AHEAD
        approval = _Approval(digest=withdrawal.digest, revision=revision, rules=rules)
        for key, before, after in _let_through(node_store.changes_since(since), memory, since, approval):
            entry = memory.get(key)
            if entry is not None and entry.desired in (before, after):
                memory[key] = replace(entry, desired=before, revision=None, later=None)
                returning[key] = withdrawal
    if not returning:
        return situation
    brake = replace(situation.brake, judged=None, let_through=(), stopped=revision)
    return replace(situation, memory=memory, brake=brake, returning=returning)


def _approved_here(situation: Situation) -> bool:
    """Whether an operator of this node approved the rules in use; that has precedence."""
    brake = situation.brake
    return brake.approved_rules == situation.rules.revision or (
        brake.judged == situation.revision and bool(brake.let_through)
    )


@frozen(kw_only=True)
class _Approval:
    """What a withdrawn approval let through of the rules in use."""

    digest: str
    """Of the rules, or of a revision: of rules and catalogue."""
    revision: str
    """The present one."""
    rules: str
    """The digest of those in use."""

    def has(self, change: RecordedChange | Pending) -> bool:
        if change.rules is None:  # recorded by an earlier version: known under the present catalogue only
            return change.revision == self.revision and self.digest in (self.revision, self.rules)
        return change.rules == self.rules and self.digest in (change.revision, change.rules)


def _let_through(
    rows: Sequence[RecordedChange], memory: Mapping[str, Remembered], since: datetime, approval: _Approval
) -> Iterator[tuple[str, Limits, Limits | None]]:
    """The disks, by ``Disk.key``, with the limits before and after what it let through since then."""
    for key, entry in [*memory.items()]:
        pending, by_rules = entry.pending, entry.source is not None and origin_of(entry.source).in_rules
        if by_rules and pending is not None and pending.at >= since and approval.has(pending):
            yield key, pending.before, entry.desired
    for past in _changed(rows, since, approval):
        if past.before is not None:
            yield past.disk.key, past.before, past.after


def _changed(rows: Sequence[RecordedChange], since: datetime, approval: _Approval) -> Iterator[Past]:
    """The disks that it changed since then, and nothing but rules after that."""
    by_disk: dict[str, list[RecordedChange]] = {}
    for row in rows:
        by_disk.setdefault(row.disk.key, []).append(row)
    for of_disk in by_disk.values():
        first = next((row.at for row in of_disk if row.at >= since and approval.has(row)), None)
        if first is None:
            continue
        # A hold is beside what is desired, and stays.
        rest = [row for row in of_disk if row.at < first or not origin_of(row.reason.code).of_hold]
        if all(_of_rules(row) for row in rest if row.at >= first):
            yield from pasts(_with_whole_bursts(rest), first, _EVER, {})


def _with_whole_bursts(rows: Sequence[RecordedChange]) -> Iterator[RecordedChange]:
    """The changes of a disk with limits as desired, of whose bursts only what was saved was written."""
    limits: dict[Limits, Limits] = {}
    for row in rows:
        full = whole(row.after, row.reason)
        yield replace(row, before=limits.get(row.before, row.before), after=full)
        limits = {row.after: full}


def _of_rules(row: RecordedChange) -> bool:
    return row.reason.code is Code.DESIRED_BEFORE or origin_of(row.reason.code).in_rules
