"""What was met or told before, and by whom, in memory that does not grow with the log."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from operator import add

_REMEMBERED = 100_000
_REQUESTS = 50_000
"""So many by which a later line about the same one is known."""
_EACH = 1 << 20
"""More than OSDs."""


class Once:
    """Whether something is met for the first time; forgets what it met long ago."""

    def __init__(self) -> None:
        self._new: set[int] = set()
        self._old: set[int] = set()

    def __call__(self, *key: Hashable) -> bool:
        digest = hash(key)
        if digest in self._new or digest in self._old:
            return False
        if len(self._new) >= _REMEMBERED:
            self._old, self._new = self._new, set()
        self._new.add(digest)
        return True

    def is_known(self, *key: Hashable) -> bool:
        digest = hash(key)
        return digest in self._new or digest in self._old


class Tellers:
    """Which OSD was the first to tell of a request; forgets those of long ago."""

    def __init__(self) -> None:
        self._new: dict[int, int] = {}
        """By request, a number of its own and the OSD in one: so the first one is known by what the others have."""
        self._old: dict[int, int] = {}
        self._next = _EACH

    def each(self, ids: Sequence[bytes], osds: Sequence[int]) -> list[int | None]:
        """The first one of each request before this OSD tells of it; None where there is none."""
        firsts: list[int | None] = []
        while len(firsts) < len(ids):
            if len(self._new) >= _REQUESTS:
                self._old, self._new = self._new, {}
            part = slice(len(firsts), len(firsts) + _REQUESTS - len(self._new))
            firsts += self._each(ids[part], osds[part])
        return firsts

    def _each(self, ids: Sequence[bytes], osds: Sequence[int]) -> Sequence[int | None]:
        digests = [*map(hash, ids)]
        if not self._old.keys().isdisjoint(digests):
            for digest in digests:
                if digest in self._old:
                    self._new.setdefault(digest, self._old[digest])
        own = [*map(add, osds, range(self._next, self._next + len(ids) * _EACH, _EACH))]
        self._next += len(ids) * _EACH
        firsts = [*map(self._new.setdefault, digests, own)]
        if firsts == own:
            return [None] * len(ids)
        # An OSD may be -1 or -2.
        return [None if one == mine else (one + 2) % _EACH - 2 for one, mine in zip(firsts, own, strict=True)]
