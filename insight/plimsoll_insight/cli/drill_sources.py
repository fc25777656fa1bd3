"""What ``plimsoll drill record`` asks beside guests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from plimsoll_agent.app.record_follow import FollowedRecord
from plimsoll_agent.errors import Unreachable
from plimsoll_agent.messages.record import entry_words
from plimsoll_agent.model.entries import RecordedChange
from plimsoll_agent.util import files
from plimsoll_agent.util.frozen import asdict
from plimsoll_agent.util.text import printable
from plimsoll_insight.adapters.cluster import LiveCluster, StandingCluster
from plimsoll_insight.drill.recording import status_line
from plimsoll_insight.drill.sources import Line, Source
from plimsoll_insight.drill.status import ClusterCounts

_LOG_LINES = 100


class ClusterStatus:
    """A source."""

    def __init__(self, cluster: LiveCluster, now: Callable[[], float]) -> None:
        self.cluster, self._standing, self._now = cluster, StandingCluster(cluster), now
        self.last: ClusterCounts | None = None

    def __call__(self) -> Iterator[Line]:
        begin = self._now()
        self.last = self._standing.status()
        # It is of some time between the question and the answer.
        yield (begin + self._now()) / 2, status_line(self.last)


class ClusterLog:
    """A source: lines since the recording began, each once."""

    def __init__(self, of: ClusterStatus, began: float) -> None:
        self._standing, self._since = StandingCluster(of.cluster), began
        self._seen: set[tuple[float, str, int]] = set()

    def __call__(self) -> Iterator[Line]:
        for line in self._standing.log(_LOG_LINES):
            key = line.time, line.who, line.number
            if line.time >= self._since and key not in self._seen:
                self._seen.add(key)
                fields = asdict(line)
                yield fields.pop("time"), {"event": fields}


def changes(following: FollowedRecord) -> Source:
    """plimsoll's own, since the first question."""
    is_begun = False

    def ask() -> Iterator[Line]:
        nonlocal is_begun
        if not is_begun:
            is_begun = True
            for _ in following.start(1):
                pass
        for entry, _ in following.new():
            if not (isinstance(entry, RecordedChange) and entry.open):
                yield entry.at.timestamp(), {"change": printable(entry_words(entry))}

    return ask


def stores() -> list[Path]:
    """Of monitors on this machine: of packages, and of cephadm."""
    home = Path("/var/lib/ceph")
    return [*home.glob("mon/*/store.db"), *home.glob("*/mon.*/store.db")]


def store_size(directories: Sequence[Path], now: Callable[[], float]) -> Source:
    """Ceph itself tells it nowhere, so it is known on the monitor's host only."""

    def ask() -> Iterator[Line]:
        try:
            sizes = [each.stat().st_size for store in directories for each in store.iterdir()]
        except FileNotFoundError:  # one is replaced while it is looked at
            if not all(map(files.is_directory, directories)):
                raise Unreachable("the monitor's store is not there") from None
            return
        except OSError as error:
            raise Unreachable(f"{error.filename}: {error.strerror}") from error
        yield now(), {"store": sum(sizes)}

    return ask
