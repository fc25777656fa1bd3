"""The way out of metrics through node_exporter: a file in the directory that its textfile collector reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from plimsoll_agent import files
from plimsoll_agent.errors import PlimsollError

if TYPE_CHECKING:
    from prometheus_client import Metric

# node_exporter runs as a user of its own.
_MODE = 0o644


class TextfileError(PlimsollError):
    """The metrics could not be written."""


@dataclass(frozen=True, slots=True)
class _Collected:
    families: Iterable[Metric]

    def collect(self) -> Iterator[Metric]:
        yield from self.families


def path(directory: Path, producer: str) -> Path:
    """Where the metrics of one producer go, which is ``pass`` or ``probe``: none writes over another's."""
    return directory / f"plimsoll-{producer}.prom"


def write(directory: Path, producer: str, families: Iterable[Metric]) -> None:
    """Replace the producer's file: who reads it meanwhile finds the old one or the new one, whole.

    node_exporter refuses all of a file with a timestamp in it, or with a series twice: the families have neither.
    Raises ``TextfileError``, and leaves the old file then.
    """
    from prometheus_client import generate_latest  # who writes no metrics does not wait for it

    file = path(directory, producer)
    text = generate_latest(_Collected(families)).decode("utf-8")
    try:
        files.sweep(directory, (file.name,))
        files.write_whole(file, text, _MODE)
    except OSError as error:
        raise TextfileError(
            f"{file}: the metrics cannot be written: {error.strerror}; see textfile_dir in [metrics]"
        ) from error
