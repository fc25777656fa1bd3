"""The ceilings that a disk shares, in words and as plain data: what they are, how much of them is used."""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll_agent.ceilings.buckets import CeilingKey, Shared, Whose
from plimsoll_agent.credits.ledger import account_key
from plimsoll_agent.messages.limits import rate_words
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.limits import Limits, Unit
from plimsoll_agent.policy.decide import Situation, buckets_of
from plimsoll_agent.reconcile.outcome import Outcome
from plimsoll_agent.reconcile.reducing import own_of
from plimsoll_agent.util.text import plural, printable


def lines(outcome: Outcome, situation: Situation) -> Iterator[str]:
    """``project db-team: 412 of 3000 IOPS on this node, its part 900 IOPS (rule "databases"; 7 disks)``, as the last
    pass over the node split it.
    """
    for bucket, ceiling, its_split, part in _each(outcome, situation):
        rates = [_rate_words(rate, ceiling, its_split) for rate in ceiling.rates()]
        parts = [f"{_side(rate)}{rate_words(number, _unit(rate))}" for rate, number in part.items()]
        disks = "" if its_split is None else f"; {plural(its_split.disks, 'disk')}"
        yield (
            f"{_owner(bucket, outcome.disk)}: {', '.join(rates)}"
            + " on this node" * (bucket.whose is Whose.PROJECT)
            + (f", its part {', '.join(parts)}" if parts else "")
            + f' (rule "{printable(bucket.rule)}"{disks})'
        )


def data(outcome: Outcome, situation: Situation) -> list[dict[str, object]]:
    return [
        {
            "whose": bucket.whose.value,
            "owner": bucket.owner,
            "rule": bucket.rule,
            "ceiling": ceiling.in_effect(),
            "disks": None if its_split is None else its_split.disks,
            "used": {} if its_split is None else dict(its_split.used),
            "allowed": {} if its_split is None else dict(its_split.allowed),
            "part": part,
        }
        for bucket, ceiling, its_split, part in _each(outcome, situation)
    ]


def _each(
    outcome: Outcome, situation: Situation
) -> Iterator[tuple[CeilingKey, Limits, Shared | None, dict[str, int]]]:
    """The part is empty for a disk that shares it with no other, or has limits that stay as they are."""
    own = own_of(outcome)
    for bucket, rule in buckets_of(outcome.disk, situation):
        part: dict[str, int] = {}
        its_split = situation.ceilings.shared.get(bucket)
        if own is not None and its_split is not None:
            part = dict(its_split.parts.get(account_key(outcome.disk.key, own.limits), {}))
        yield bucket, getattr(rule, bucket.whose.word), its_split, part


def _owner(bucket: CeilingKey, disk: Disk) -> str:
    guest = disk.guest
    name = guest.name if bucket.whose is Whose.GUEST else guest.project_name or bucket.owner
    return f"{bucket.whose.value} {printable(name)}"


def _rate_words(rate: str, ceiling: Limits, its_split: Shared | None) -> str:
    words = f"{_side(rate)}{rate_words(getattr(ceiling, rate), _unit(rate))}"
    use = None if its_split is None else its_split.used.get(rate)
    if use is None:
        return words
    did = rate_words(round(use), _unit(rate))
    return f"{did.removesuffix(' IOPS')} of {words}"


def _side(rate: str) -> str:
    side = rate.partition("_")[0]
    return "" if side == "total" else f"{side} "


def _unit(rate: str) -> Unit:
    return "bytes" if "_bytes_" in rate else "iops"
