"""Whether the balancer of a file system is thrashing: the rule, and what it would help to pin. Pure.

Three signs, each with its bound, of which ``docs/guide/cephfs`` has the measured rate of false alarms:

* a directory went from rank to rank ``MOVES`` times or more within ``WITHIN`` seconds
* of the requests at least ``FORWARDED`` were forwarded, from one rank to another, where there were ``BUSY`` a second
* one rank served at least ``MOST`` of the requests, while another that is active served ``IDLE`` or less
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import PurePosixPath

from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.mds.moves import DirectoryMove, most_within
from plimsoll_insight.mds.watch import RanksPeriod
from plimsoll_monitoring.alerts.cephfs import BUSY, FORWARDED

MOVES, WITHIN = 4, 600.0
MOST, IDLE = 0.9, 0.02
_MOST_PINS = 8


class MdsAnswer(StrEnum):
    THRASHING = "thrashing"
    UNEVEN = "uneven"
    CALM = "calm"
    CANNOT_TELL = "cannot tell"


@frozen
class Uneven:
    most: int
    share: float
    idle: tuple[int, ...]


@frozen(kw_only=True)
class MdsVerdict:
    """``repeated``: by path, how often a directory moved, where that is a sign. ``forwarded``: the share."""

    answer: MdsAnswer
    repeated: Mapping[str, int]
    forwarded: float | None
    uneven: Uneven | None


def judge(span: RanksPeriod, last: RanksPeriod, *, complete: bool) -> MdsVerdict:
    """Of a whole watch and of its last half, as clients have to learn where directories are."""
    repetition = _repetition(span.moves)
    share = last.forwards / last.requests if _is_busy(last) else 0.0
    is_forwarded = share >= FORWARDED
    uneven = _uneven(last)
    if repetition or is_forwarded:
        answer = MdsAnswer.THRASHING
    elif uneven is not None:
        answer = MdsAnswer.UNEVEN
    else:
        answer = MdsAnswer.CALM if complete and last.ranks else MdsAnswer.CANNOT_TELL
    return MdsVerdict(answer=answer, repeated=repetition, forwarded=share if is_forwarded else None, uneven=uneven)


def judge_moves(moves: Sequence[DirectoryMove], *, complete: bool) -> MdsVerdict:
    """Of what logs have alone."""
    repetition = _repetition(moves)
    calm = MdsAnswer.CALM if complete else MdsAnswer.CANNOT_TELL
    return MdsVerdict(
        answer=MdsAnswer.THRASHING if repetition else calm, repeated=repetition, forwarded=None, uneven=None
    )


def _repetition(moves: Sequence[DirectoryMove]) -> dict[str, int]:
    return {path: number for path, number in most_within(moves, WITHIN).items() if number >= MOVES}


def _is_busy(span: RanksPeriod) -> bool:
    seconds = span.end - span.begin
    return seconds > 0 and span.requests / seconds >= BUSY


def _uneven(span: RanksPeriod) -> Uneven | None:
    load = {rank: did.served for rank, did in span.ranks.items()}
    whole = sum(load.values())
    if not _is_busy(span) or not whole or len(load) < 2:
        return None
    most = max(load, key=load.__getitem__)
    idle = tuple(rank for rank, number in load.items() if number <= IDLE * whole)
    share = load[most] / whole
    return Uneven(most, share, idle) if share >= MOST and idle else None


def pins(directories: Sequence[str], ranks: Sequence[int]) -> list[str]:
    """What ``mds settle --pin`` takes: children of one directory are spread by it, others over the ranks in turn."""
    below: defaultdict[str, list[str]] = defaultdict(list)
    for path in directories:
        below[str(PurePosixPath(path).parent)].append(path)
    spread = [parent for parent, each in below.items() if len(each) > 1 and parent != "/"]
    alone = [path for parent, each in below.items() if parent not in spread for path in each if path != "/"]
    alone = [path for path in alone if not any(f"{path}/".startswith(f"{parent}/") for parent in spread)]
    proposals = [f"{parent}=distributed" for parent in sorted(spread)]
    proposals += [f"{path}={ranks[number % len(ranks)]}" for number, path in enumerate(sorted(alone))]
    return proposals[:_MOST_PINS]
