"""The ceilings that a disk shares, in words and as plain data: what they are, how much of them is used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from plimsoll_agent.ceilings.buckets import CeilingKey, Shared, Whose
from plimsoll_agent.credits.ledger import account_key
from plimsoll_agent.messages.limits import rate_words
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.limits import Limits, Unit
from plimsoll_agent.policy.decide import Situation, buckets_of
from plimsoll_agent.reconcile.outcome import Outcome
from plimsoll_agent.reconcile.reducing import own_of
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import plural, printable


@frozen(kw_only=True)
class CeilingShare:
    """A ceiling that a disk shares."""

    bucket: CeilingKey
    ceiling: Limits
    its_split: Shared | None
    """As the last pass over the node split it; None before one."""
    part: Mapping[str, int]
    """Empty for a disk that shares it with no other, or has limits that stay as they are."""


def ceilings_of(outcome: Outcome, situation: Situation) -> tuple[CeilingShare, ...]:
    own = own_of(outcome)
    shares = list[CeilingShare]()
    for bucket, rule in buckets_of(outcome.disk, situation):
        its_split, part = situation.ceilings.shared.get(bucket), dict[str, int]()
        if own is not None and its_split is not None:
            part = dict(its_split.parts.get(account_key(outcome.disk.key, own.limits), {}))
        shares.append(
            CeilingShare(bucket=bucket, ceiling=getattr(rule, bucket.whose.word), its_split=its_split, part=part)
        )
    return tuple(shares)


def lines(shares: Iterable[CeilingShare], disk: Disk) -> Iterator[str]:
    """``project db-team: 412 of 3000 IOPS on this node, its part 900 IOPS (rule "databases"; 7 disks)``."""
    for one in shares:
        rates = [_rate_words(rate, one.ceiling, one.its_split) for rate in one.ceiling.rates()]
        parts = [f"{_side(rate)}{rate_words(number, _unit(rate))}" for rate, number in one.part.items()]
        disks = "" if one.its_split is None else f"; {plural(one.its_split.disks, 'disk')}"
        yield (
            f"{_owner(one.bucket, disk)}: {', '.join(rates)}"
            + " on this node" * (one.bucket.whose is Whose.PROJECT)
            + (f", its part {', '.join(parts)}" if parts else "")
            + f' (rule "{printable(one.bucket.rule)}"{disks})'
        )


def brief(shares: Iterable[CeilingShare], disk: Disk) -> str:
    """``part of 3000 IOPS of project db-team``, where the disk has only a part; else nothing."""
    parts = [
        f"{', '.join(_rate_words(rate, one.ceiling, None) for rate in one.part)} of {_owner(one.bucket, disk)}"
        for one in shares
        if one.part
    ]
    return f"part of {' and '.join(parts)}" if parts else ""


def data(shares: Iterable[CeilingShare]) -> list[dict[str, object]]:
    return [
        {
            "whose": one.bucket.whose.value,
            "owner": one.bucket.owner,
            "rule": one.bucket.rule,
            "ceiling": one.ceiling.in_effect(),
            "disks": None if one.its_split is None else one.its_split.disks,
            "used": {} if one.its_split is None else dict(one.its_split.used),
            "allowed": {} if one.its_split is None else one.its_split.allowed,
            "part": dict(one.part),
        }
        for one in shares
    ]


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
