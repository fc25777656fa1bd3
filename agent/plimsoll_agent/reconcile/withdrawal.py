"""An approval of rules that the region withdrew: the node takes back what it let through, by its own record.

What is remembered as desired becomes what was desired before. So the brake stops these rules as before they were
approved, until they are approved again or edited, and the pass restores the limits of before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from datetime import UTC, datetime

from plimsoll_agent.catalogue.orders import Of, Withdrawal
from plimsoll_agent.catalogue.signed_file import AHEAD
from plimsoll_agent.credits.ledger import whole
from plimsoll_agent.model.entries import RecordedChange
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.origin import origin_of
from plimsoll_agent.model.reason import Code
from plimsoll_agent.policy.decide import Situation
from plimsoll_agent.reconcile.brake import revision_of
from plimsoll_agent.store.node_store import NodeStore
from plimsoll_agent.store.past import Past, pasts
from plimsoll_agent.util.frozen import replace

_EVER = datetime.min.replace(tzinfo=UTC)


def withdrawal_of_rules(situation: Situation) -> Withdrawal | None:
    """The one of the rules in use; an operator of this node who approved them has precedence."""
    brake, revision = situation.brake, revision_of(situation)
    if brake.judged == revision and brake.let_through:
        return None
    return situation.orders.withdrawn(Of.RULES, frozenset({revision, situation.rules.revision}), situation.now)


def with_limits_of_before(situation: Situation, node_store: NodeStore) -> Situation:
    """The situation as before the approval that the region withdrew. Raises ``StateError``."""
    withdrawal = withdrawal_of_rules(situation)
    if withdrawal is None:
        return situation
    # The clock of a node that accepts the region file may be so far behind.
    since = withdrawal.began - AHEAD
    rows, memory = node_store.changes_since(since), dict(situation.memory)
    revisions = {withdrawal.digest, revision_of(situation)}
    keys: set[str] = set()
    for past in _let_through(rows, since, revisions):
        key, entry = past.disk.key, memory.get(past.disk.key)
        if entry is not None and past.before is not None and entry.desired in (past.before, past.after):
            memory[key] = replace(entry, desired=past.before, revision=None, later=None)
            keys.add(key)
    if not keys:
        return situation
    brake = replace(situation.brake, judged=None, let_through=(), stopped=revision_of(situation))
    return replace(situation, memory=memory, brake=brake, withdrawal=withdrawal, returning=frozenset(keys))


def _let_through(rows: Sequence[RecordedChange], since: datetime, revisions: Set[str]) -> Iterator[Past]:
    """The disks that these rules changed since then, and nothing but rules after that."""
    by_disk: dict[str, list[RecordedChange]] = {}
    for row in rows:
        by_disk.setdefault(row.disk.key, []).append(row)
    for of_disk in by_disk.values():
        first = next((row.at for row in of_disk if row.at >= since and row.revision in revisions), None)
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
