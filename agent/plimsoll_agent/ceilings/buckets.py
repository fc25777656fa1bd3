"""The disks that share a ceiling, and what each of them may have of it. Pure: time is an argument.

Disks with a ``group_name`` share as one: QEMU gives them one limit. Who shares a ceiling alone has all of it, always:
its limits are not above it. Else the ceiling is split again only if a disk that is at its limit would get clearly
more, or if what is split does not hold any more: each split costs writes of limits, which fill QEMU's buckets. There
are at most ``MOST_MOVES`` an hour; the last of them splits equally, whatever the disks need.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from enum import Enum, StrEnum
from hashlib import sha256

from plimsoll_agent.ceilings.split import Need, floor, split
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.usage import Reading
from plimsoll_agent.util.decoding import Amount, Count, Moment
from plimsoll_agent.util.frozen import frozen, replace

MOST_MOVES = 20
WITHIN = timedelta(hours=1)
PERIOD = timedelta(seconds=30)
_WORTH = 1.1
"""A disk at its limit must get so many times what it has."""


class Whose(StrEnum):
    """Whose disks share a ceiling. The rules' keys begin with these words."""

    GUEST = "guest"
    PROJECT = "project"

    @property
    def word(self) -> str:
        """The rules' key."""
        return f"{self.value}_ceiling"


@frozen
class CeilingKey:
    """A ceiling of one guest or project."""

    whose: Whose
    owner: str
    """The guest's uuid, or the project's id."""
    rule: str


@frozen(kw_only=True)
class Sharer:
    """A disk, or the disks of a group, and what its limits are without the ceiling."""

    key: str
    """As ``credits.ledger.account_key``."""
    limits: Limits
    rates: Mapping[str, float | None] = field(hash=False)
    """By the ceiling's rates what it did lately, as ``Need.rate``."""


@frozen(kw_only=True)
class Sharing:
    """Who shares a ceiling now."""

    ceiling: Limits
    disks: int
    sharers: tuple[Sharer, ...]
    kept: Mapping[str, Limits] = field(default_factory=dict, hash=False)
    """By ``Disk.key`` limits that stay as they are: held, left alone, or of a change that is deferred."""
    used: Mapping[str, float | None] = field(default_factory=dict, hash=False)
    """What all of the disks did lately, by the ceiling's rates; None where that is unknown."""


def group_of(rules: Iterable[str]) -> str:
    """The throttle group of a guest's disks that have no limits but the ceilings of these rules."""
    return f"plimsoll-ceiling:{sha256('/'.join(rules).encode()).hexdigest()[:8]}"


Parts = Mapping[str, Mapping[str, int]]
"""By ``Sharer.key``, and by the ceiling's rates."""


@frozen(kw_only=True)
class Shared:
    """How a ceiling is split."""

    ceiling: Limits
    disks: Count
    used: Mapping[str, Amount | None]
    own: Mapping[str, Mapping[str, Count]] = field(default_factory=dict, hash=False)
    """By the keys of sharers, and of limits that stay: what these allow without the ceiling, bursts included."""
    parts: Mapping[str, Mapping[str, Count]] = field(default_factory=dict, hash=False)
    """Of each who shares it. A part is empty where what the limits allow together is within the ceiling."""
    moves: tuple[Moment, ...] = ()
    """When it was split again in the last hour."""
    refused: frozenset[str] = frozenset()
    """The keys of sharers that could not be lowered, and whose parts are what they have: others share the rest."""

    def has(self, key: str, rate: str) -> int:
        """What is counted of the ceiling: the part, else what the own limits allow."""
        part = self.parts.get(key, {}).get(rate)
        return self.own.get(key, {}).get(rate, 0) if part is None else part

    @property
    def keys(self) -> frozenset[str]:
        return frozenset({*self.parts, *self.own})

    @property
    def allowed(self) -> dict[str, int]:
        """What the limits of all these disks allow together."""
        return {rate: sum(self.has(key, rate) for key in self.keys) for rate in self.ceiling.rates()}


@frozen
class LastCounters:
    """A disk's counters at the last look."""

    attachment: str
    reading: Reading


class Split(Enum):
    """How a pass splits ceilings."""

    BY_NEED = "by-need"
    EQUALLY = "equally"
    """As if each disk needed all that it can get."""
    STAY = "stay"
    """The last split."""


@frozen(kw_only=True)
class Ceilings:
    """What a pass does about them."""

    how: Split = Split.STAY
    shared: Mapping[CeilingKey, Shared] = field(default_factory=dict, hash=False)
    """The last split; after the pass has split them, as they are."""
    looks: Mapping[str, LastCounters] = field(default_factory=dict, hash=False)
    """By ``Disk.key``."""
    is_split: bool = False
    """By this pass."""
    before: Mapping[CeilingKey, Shared] = field(default_factory=dict, hash=False)
    """The split before it."""

    def of(self, key: str) -> tuple[CeilingKey, ...]:
        """Those of which a sharer had a part."""
        last = self.before if self.is_split else self.shared
        return tuple(bucket for bucket, each in last.items() if each.parts.get(key))

    def has_refused(self, bucket: CeilingKey, key: str) -> bool:
        """Whether the last split could not lower a sharer, and this one counts what it has."""
        last, now = (self.before if self.is_split else self.shared).get(bucket), self.shared.get(bucket)
        return now is not None and key in _obstacles(last, now.ceiling)

    def parts(self, bucket: CeilingKey, key: str) -> Mapping[str, int]:
        """What a sharer gets, by the ceiling's rates; nothing where its own limits count."""
        its_split = self.shared.get(bucket)
        return {} if its_split is None else its_split.parts.get(key, {})


NO_CEILINGS = Ceilings()


def step(
    before: Mapping[CeilingKey, Shared],
    now_shared: Mapping[CeilingKey, Sharing],
    now: datetime,
    unseen: Collection[str] = (),
) -> dict[CeilingKey, Shared]:
    """How each ceiling is split now. Those that are ``unseen``, by their keys, keep what they have."""
    after = {
        bucket: _only(each, absent)
        for bucket, each in before.items()
        if bucket not in now_shared and (absent := each.keys.intersection(unseen))
    }
    for bucket, sharing in now_shared.items():
        after[bucket] = _split_again(before.get(bucket), sharing, now, unseen)
    return after


def within(limits: Limits, parts: Mapping[str, int]) -> Limits:
    """The limits, lowered to the parts of ceilings; of these rates none has a burst.

    Reads and writes under a ceiling for both are lowered alike. The reverse, a limit for both under a ceiling for
    reads, is lowered to that.
    """
    values = limits.full_set()
    for rate, part in parts.items():
        bases = bounding(limits, rate)
        own = {base: int(values[base]) for base in bases}
        whole = sum(own.values())
        for base in bases:
            lower = own[base] if part >= whole else max(1, own[base] * part // whole)
            values |= {base: lower, f"{base}_max": 0, f"{base}_max_length": 0}
    return Limits.from_mapping(values)


def bounding(limits: Limits, rate: str) -> tuple[str, ...]:
    """Those of the limits that bound this rate; none if it is not pairs."""
    scope, rest = rate.split("_", 1)
    if getattr(limits, rate):
        return (rate,)
    parts = (f"read_{rest}", f"write_{rest}") if scope == "total" else (f"total_{rest}",)
    return parts if all(getattr(limits, part) for part in parts) else ()


def most(limits: Limits, rate: str, *, burst: bool = False) -> int | None:
    """What the limits allow of this rate; None is without bound."""
    bases = bounding(limits, rate)
    return sum(getattr(limits, f"{base}_max" if burst else base) or getattr(limits, base) for base in bases) or None


def joined(its_split: Shared, key: str, limits: Limits, in_force: Limits | None = None) -> Shared:
    """The split, with the part of one that is new in it, or has other limits now: what is left, at least a floor.

    One that is reduced, and has no part that is known, does not get more than is ``in_force``.
    """
    own = _allowance(limits, its_split.ceiling)
    if its_split.parts.get(key) or (key in its_split.parts and its_split.own.get(key) == own):
        return its_split
    disks = its_split.disks + (key not in its_split.own)
    part: dict[str, int] = {}
    for rate, total in its_split.allowed.items():
        ceiling, whole = getattr(its_split.ceiling, rate), most(limits, rate)
        if whole is None:
            continue
        others = total - its_split.has(key, rate)
        rest = max(ceiling - others, floor(ceiling, disks))
        has = whole if in_force is None else most(in_force, rate) or whole
        if has < whole or (others and others + own[rate] > ceiling):
            part[rate] = min(has, whole, rest)
    return replace(its_split, disks=disks, own={**its_split.own, key: own}, parts={**its_split.parts, key: part})


def stayed(its_split: Shared, in_force: Mapping[str, Limits], refusals: Collection[str]) -> Shared:
    """The split, where these sharers kept the limits of before: in place of their parts they have these.

    ``refusals`` are those whose lower limits were refused. One without a limit leaves nothing that is known.
    """
    have = {key: _allowance(limits, its_split.ceiling) for key, limits in in_force.items() if key in its_split.keys}
    parts = {
        key: {rate: have.get(key, {}).get(rate, part) for rate, part in its.items()}
        for key, its in its_split.parts.items()
    }
    obstacles = {key: have[key] for key in refusals if set(its_split.ceiling.rates()) == have.get(key, {}).keys()}
    return replace(its_split, parts={**parts, **obstacles}, refused=frozenset(obstacles))


def with_joined(ceilings: Ceilings, now: Mapping[CeilingKey, Shared]) -> dict[CeilingKey, Shared]:
    """The split of a pass, with those who have joined the one before it since, as it is ``now``."""
    after = dict(ceilings.shared)
    for bucket, each in now.items():
        before = ceilings.before.get(bucket)
        its_split = after.get(bucket) or replace(each, disks=0, own={}, parts={})
        new = each.keys - its_split.keys - (frozenset() if before is None else before.keys)
        if new:
            joint = _only(each, new)
            after[bucket] = replace(
                its_split,
                disks=its_split.disks + len(new),
                own={**its_split.own, **joint.own},
                parts={**its_split.parts, **joint.parts},
            )
    return after


def _only(its_split: Shared, keys: Collection[str]) -> Shared:
    own, parts = ({key: its[key] for key in its if key in keys} for its in (its_split.own, its_split.parts))
    return replace(its_split, own=own, parts=parts)


def _allowance(limits: Limits, ceiling: Limits) -> dict[str, int]:
    pairs = ((rate, most(limits, rate, burst=True)) for rate in ceiling.rates())
    return {rate: peak for rate, peak in pairs if peak is not None}


def _obstacles(before: Shared | None, ceiling: Limits) -> frozenset[str]:
    """Those that could not be lowered. What they have of a rate that is new in the ceiling is unknown."""
    return before.refused if before is not None and before.ceiling.rates() == ceiling.rates() else frozenset()


def _split_again(before: Shared | None, sharing: Sharing, now: datetime, unseen: Collection[str]) -> Shared:
    keys = _obstacles(before, sharing.ceiling).intersection(each.key for each in sharing.sharers)
    if before is None or not keys:
        return _split_among(before, sharing, now, unseen)
    others = replace(sharing, sharers=tuple(each for each in sharing.sharers if each.key not in keys))
    after = _split_among(before, others, now, {*unseen, *keys})
    attempt = _split_among(_only(before, before.keys.intersection(unseen)), sharing, now, unseen)
    own = {key: attempt.own[key] for key in keys}
    parts = {
        key: {rate: min(part, before.has(key, rate) or part) for rate, part in attempt.parts[key].items()}
        for key in keys
    }
    return replace(after, own={**after.own, **own}, parts={**after.parts, **parts})


def _split_among(before: Shared | None, sharing: Sharing, now: datetime, unseen: Collection[str]) -> Shared:
    absent = None if before is None else _only(before, before.keys.intersection(unseen))
    moves = () if before is None else tuple(min(at, now) for at in before.moves if now - at < WITHIN)
    others = _Others(sharing, absent)
    scarce = [rate for rate in sharing.ceiling.rates() if others.is_scarce(rate)]
    last = {} if before is None else _last_parts(before, unseen)
    parts: Parts = {each.key: {} for each in sharing.sharers}
    if scarce:
        equally = len(moves) >= MOST_MOVES - 1
        parts = _parts(sharing, scarce, others, equally=equally)
        if not equally and _holds(last, parts, sharing, scarce, others) and not _is_worth(last, parts, sharing):
            parts = last
    if before is not None and _reduced(parts) != _reduced(last):
        moves = (*moves, now)
    own = {each.key: _allowance(each.limits, sharing.ceiling) for each in sharing.sharers}
    own |= {key: _allowance(limits, sharing.ceiling) for key, limits in sharing.kept.items()}
    return Shared(
        ceiling=sharing.ceiling,
        disks=sharing.disks,
        used=sharing.used,
        own=own if absent is None else {**absent.own, **own},
        parts=parts if absent is None else {**absent.parts, **parts},
        moves=moves[-MOST_MOVES:],
    )


def _last_parts(before: Shared, unseen: Collection[str]) -> Parts:
    return {key: its for key, its in before.parts.items() if key not in unseen}


def _reduced(parts: Parts) -> Parts:
    return {key: its for key, its in parts.items() if its}


@frozen
class _Others:
    """What those have who are not split: limits that stay, and what is unseen.

    A limit that does not bound a rate cannot be counted.
    """

    sharing: Sharing
    absent: Shared | None

    def of(self, rate: str) -> int:
        own = sum(most(limits, rate, burst=True) or 0 for limits in self.sharing.kept.values())
        return own + (0 if self.absent is None else sum(self.absent.has(key, rate) for key in self.absent.keys))

    @property
    def count(self) -> int:
        return len(self.sharing.kept) + (0 if self.absent is None else len(self.absent.keys))

    def is_scarce(self, rate: str) -> bool:
        peaks = [most(each.limits, rate, burst=True) or 0 for each in self.sharing.sharers]
        return sum(peaks) + self.of(rate) > getattr(self.sharing.ceiling, rate) and bool(peaks)


def _parts(sharing: Sharing, scarce: Sequence[str], others: _Others, *, equally: bool) -> dict[str, dict[str, int]]:
    parts: dict[str, dict[str, int]] = {each.key: {} for each in sharing.sharers}
    for rate in scarce:
        pairs = [(each, limit) for each in sharing.sharers if (limit := most(each.limits, rate)) is not None]
        needs = [Need(limit, None if equally else each.rates.get(rate)) for each, limit in pairs]
        shares = split(getattr(sharing.ceiling, rate), needs, others_have=others.of(rate), others=others.count)
        for (each, _), share in zip(pairs, shares, strict=True):
            parts[each.key][rate] = share
    return parts


def _holds(last: Parts, new: Parts, sharing: Sharing, scarce: Sequence[str], others: _Others) -> bool:
    """Whether the last split is one for these sharers and this ceiling."""
    if {key: its.keys() for key, its in last.items()} != {key: its.keys() for key, its in new.items()}:
        return False
    for rate in scarce:
        shares = [(its[rate], new[key][rate]) for key, its in last.items() if rate in its]
        ceiling = getattr(sharing.ceiling, rate) - others.of(rate)
        if sum(share for share, _ in shares) > max(ceiling, sum(share for _, share in shares)):
            return False
        least = floor(getattr(sharing.ceiling, rate), len(shares) + others.count)
        for each in sharing.sharers:
            limit, share = most(each.limits, rate), last[each.key].get(rate)
            if limit is not None and share is not None and not min(limit, least) <= share <= limit:
                return False
    return True


def _is_worth(last: Parts, new: Parts, sharing: Sharing) -> bool:
    return any(
        new[each.key][rate] > share * _WORTH
        for each in sharing.sharers
        for rate, share in last[each.key].items()
        if each.rates.get(rate) is None
    )
