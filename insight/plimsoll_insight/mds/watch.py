"""What ranks did between readings of their counters, and which directories moved. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.mds.answers import Directory, Owners, RankCounters, Subtrees
from plimsoll_insight.mds.moves import Authority, DirectoryMove, moves


@frozen(kw_only=True)
class RankReading:
    """What a rank answered. ``loads`` are by path; None where it was not asked, or cannot tell."""

    daemon: str
    counters: RankCounters
    subtrees: Subtrees
    loads: Mapping[str, float] | None = None


@frozen
class RanksReading:
    """One look at all ranks. Those that gave no answer are in ``errors``; ``time`` is since the epoch."""

    time: float
    ranks: Mapping[int, RankReading]
    errors: Mapping[int, str]

    @property
    def owners(self) -> Owners | None:
        """None where a rank is unknown: its directories would seem to have moved."""
        if self.errors:
            return None
        # One on its way may be no rank's own, since ranks answer one after another: it is whose others say it is. Or
        # both have it for seconds: the lower one counts each time, so that it has moved once.
        owners: dict[Directory, int] = {}
        for name in ("others", "own"):
            for _, each in sorted(self.ranks.items(), reverse=True):
                owners |= getattr(each.subtrees, name)
        return owners


@frozen
class RankDid:
    """In the ``seconds`` in which it is known. A request that was forwarded is one of ``requests`` too."""

    rank: int
    seconds: float = 0.0
    requests: int = 0
    forwards: int = 0
    replies: int = 0
    reply_seconds: float = 0.0
    exported: int = 0
    imported: int = 0

    @property
    def latency(self) -> float | None:
        """The mean of a reply in seconds."""
        return self.reply_seconds / self.replies if self.replies else None

    @property
    def served(self) -> int:
        return max(self.requests - self.forwards, 0)


@frozen(kw_only=True)
class RanksPeriod:
    """Of a time: what ranks did, which directories moved, and how long it is unknown where directories are."""

    begin: float
    end: float
    ranks: Mapping[int, RankDid]
    moves: Sequence[DirectoryMove]
    unknown: float

    @property
    def requests(self) -> int:
        return sum(each.requests for each in self.ranks.values())

    @property
    def forwards(self) -> int:
        return sum(each.forwards for each in self.ranks.values())


def spans(readings: Sequence[RanksReading]) -> list[RanksPeriod]:
    """From each reading to the next."""
    return [_between(before, after) for before, after in pairwise(readings)]


def together(parts: Sequence[RanksPeriod]) -> RanksPeriod:
    """One of several in their order, of which there is at least one."""
    ranks: dict[int, RankDid] = {}
    for did in (each for part in parts for each in part.ranks.values()):
        ranks[did.rank] = _sum(ranks.get(did.rank, RankDid(did.rank)), did)
    every = [move for part in parts for move in part.moves]
    return RanksPeriod(
        begin=parts[0].begin,
        end=parts[-1].end,
        ranks=dict(sorted(ranks.items())),
        moves=every,
        unknown=sum(part.unknown for part in parts),
    )


def _between(before: RanksReading, after: RanksReading) -> RanksPeriod:
    did = [
        _did(rank, now.counters, then.counters, after.time - before.time)
        for rank, now in after.ranks.items()
        if (then := before.ranks.get(rank)) is not None and _continues(then, now)
    ]
    owners = before.owners, after.owners
    is_known = owners[0] is not None and owners[1] is not None
    changes = moves(owners[0], owners[1], after.time) if owners[0] is not None and owners[1] is not None else ()
    unknown = 0.0 if is_known else after.time - before.time
    return RanksPeriod(
        begin=before.time,
        end=after.time,
        ranks={each.rank: each for each in did},
        moves=list(changes),
        unknown=unknown,
    )


def _continues(then: RankReading, now: RankReading) -> bool:
    """Whether it is the same process: another daemon of the rank, or one that began again, has other counters."""
    return then.daemon == now.daemon and all(
        getattr(then.counters, name) <= getattr(now.counters, name)
        for name in ("requests", "forwards", "replies", "exported", "imported")
    )


def _did(rank: int, now: RankCounters, then: RankCounters, seconds: float) -> RankDid:
    return RankDid(
        rank, seconds, now.requests - then.requests, now.forwards - then.forwards, now.replies - then.replies,
        max(now.reply_seconds - then.reply_seconds, 0.0), now.exported - then.exported, now.imported - then.imported,
    )  # fmt: skip


def _sum(first: RankDid, second: RankDid) -> RankDid:
    names = ("seconds", "requests", "forwards", "replies", "reply_seconds", "exported", "imported")
    return RankDid(first.rank, *(getattr(first, name) + getattr(second, name) for name in names))


def load_shares(readings: Sequence[RanksReading]) -> dict[str, float]:
    """By path, the share of all ranks' load that the directory itself had, the mean of all readings that know it, the
    most first. Empty where none knows it, or nothing was done.
    """
    every = [loads for reading in readings if (loads := _loads(reading)) is not None]
    shares: defaultdict[str, float] = defaultdict(float)
    for loads in every:
        whole = sum(loads.values())
        for path, load in loads.items():
            shares[path] += load / whole / len(every) if whole else 0.0
    return {path: share for path, share in sorted(shares.items(), key=lambda pair: -pair[1]) if share > 0}


def _loads(reading: RanksReading) -> Mapping[str, float] | None:
    """Of all ranks; None where one is unknown, and the shares of all others would be too large."""
    if reading.errors:
        return None
    whole: defaultdict[str, float] = defaultdict(float)
    for rank in reading.ranks.values():
        if rank.loads is None:
            return None
        for path, load in rank.loads.items():
            whole[path] += load
    return whole


def fragmented(owners: Owners) -> dict[str, list[int]]:
    """Directories of which several ranks have fragments, with these ranks."""
    ranks: dict[str, set[int]] = {}
    for directory, rank in owners.items():
        ranks.setdefault(directory.path, set()).add(rank)
    return {path: sorted(each) for path, each in sorted(ranks.items()) if len(each) > 1}


def ranks_of(directories: Iterable[str], owners: Owners) -> dict[str, list[int]]:
    """Which ranks have a root of each; where there is none, the one that has what is around it."""
    authority = Authority(owners)
    roots: defaultdict[str, set[int]] = defaultdict(set)
    for each, rank in owners.items():
        roots[each.path].add(rank)
    around = {path: authority.of(Directory(path)) for path in directories}
    return {path: sorted(roots[path]) or ([] if rank is None else [rank]) for path, rank in around.items()}
