"""Readings of ranks, as short as tests write them."""

from __future__ import annotations

from collections.abc import Mapping

from plimsoll_insight.mds.answers import Directory, Owners, RankCounters, Subtrees, directory
from plimsoll_insight.mds.watch import RankReading, RanksReading


def owned(by_path: Mapping[str, int]) -> dict[Directory, int]:
    """Roots of subtrees: ``/a`` or ``/a.01*``, a fragment of it."""
    owners = {}
    for path, rank in by_path.items():
        name, _, bits = path.partition(".")
        owners[directory(name, f"0x1000.{bits}" if bits else "0x1000")] = rank
    return owners


def counted(requests: int = 0, forwards: int = 0, replies: int = 0, seconds: float = 0.0) -> RankCounters:
    return RankCounters(
        requests=requests,
        forwards=forwards,
        replies=replies,
        reply_seconds=seconds,
        exported=0,
        imported=0,
        sessions=1,
        inodes=10,
        caps=5,
        subtrees=2,
        cache=1 << 20,
    )


def reading(
    time: float, owners: Owners, counters: Mapping[int, RankCounters], errors: Mapping[int, str] | None = None
) -> RanksReading:
    ranks = {
        rank: RankReading(
            daemon=f"of-{rank}",
            counters=each,
            subtrees=Subtrees({at: of for at, of in owners.items() if of == rank}, {}),
        )
        for rank, each in counters.items()
    }
    return RanksReading(time, ranks, errors or {})
