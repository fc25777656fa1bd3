"""Which directories have gone from one rank to another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath

from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.mds.answers import Directory, Owners


@frozen(kw_only=True)
class DirectoryMove:
    """``time`` is in seconds since the epoch: when it was seen, or when its log line says."""

    time: float
    directory: Directory
    source: int
    target: int


class Authority:
    """Which rank has a directory, at one moment."""

    def __init__(self, owners: Owners) -> None:
        self._owners = owners
        self._fragments: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
        for each, rank in owners.items():
            self._fragments[each.path].append((each.fragment, rank))

    def of(self, directory: Directory) -> int | None:
        """By its own entry, else that of what is around it; None where several ranks may be meant."""
        if directory in self._owners:
            return self._owners[directory]
        ranks = {rank for fragment, rank in self._fragments.get(directory.path, ()) if _overlap(fragment, directory)}
        return _only(ranks) if ranks else self._around(directory.path)

    def _around(self, path: str) -> int | None:
        for parent in map(str, PurePosixPath(path).parents):
            if parent in self._fragments:
                return _only({rank for _, rank in self._fragments[parent]})
        return None


def _overlap(fragment: str, directory: Directory) -> bool:
    return fragment.startswith(directory.fragment) or directory.fragment.startswith(fragment)


def _only(ranks: set[int]) -> int | None:
    return next(iter(ranks)) if len(ranks) == 1 else None


def moves(before: Owners, after: Owners, time: float) -> Iterator[DirectoryMove]:
    """Of the roots of subtrees, those of before and those of after."""
    then, now = Authority(before), Authority(after)
    for each in dict.fromkeys((*before, *after)):
        source, target = then.of(each), now.of(each)
        if source is not None and target is not None and source != target:
            yield DirectoryMove(time=time, directory=each, source=source, target=target)


def most_within(moves: Iterable[DirectoryMove], seconds: float) -> dict[str, int]:
    """By path, how often one fragment of it moved in any so many seconds, the most first."""
    times: dict[tuple[Directory, str], list[float]] = defaultdict(list)
    for move in moves:
        times[move.directory, move.directory.inode].append(move.time)
    most: dict[str, int] = {}
    for (directory, _), each in times.items():
        most[directory.path] = max(most.get(directory.path, 0), _most(sorted(each), seconds))
    return dict(sorted(most.items(), key=lambda pair: (-pair[1], pair[0])))


def _most(times: Sequence[float], seconds: float) -> int:
    return max(sum(begin <= time < begin + seconds for time in times) for begin in times)
