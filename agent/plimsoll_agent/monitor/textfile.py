"""Writes metrics for node_exporter: a file in the directory of its textfile collector."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.util import files

if TYPE_CHECKING:
    from plimsoll_agent.monitor.prometheus_text import Family

# node_exporter runs as another user.
_MODE = 0o644


class TextfileError(PlimsollError):
    """The metrics could not be written."""


def path(directory: Path, producer: str) -> Path:
    """The file of one producer of metrics (``pass``, ``console``, ``probe``, ``region``)."""
    return directory / f"plimsoll-{producer}.prom"


def write(directory: Path, producer: str, families: Iterable[Family]) -> None:
    """Replace the producer's file atomically.

    node_exporter rejects a whole file that has a timestamp, or a series twice: families have neither. Raises
    ``TextfileError``, and keeps the old file then.
    """
    from plimsoll_agent.monitor.prometheus_text import text  # not for who removes a file only

    file = path(directory, producer)
    content = text(families)
    try:
        files.sweep(directory, (file.name,))
        files.write_whole(file, content, _MODE, durable=False)  # the next pass or probe writes it again
    except OSError as error:
        raise TextfileError(
            f"{file}: the metrics cannot be written: {error.strerror}; see textfile_dir in [metrics]"
        ) from error


def remove(directory: Path, producer: str) -> None:
    """Remove the producer's file, if there is one. Raises ``TextfileError``."""
    file = path(directory, producer)
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        raise TextfileError(f"{file}: cannot be removed: {error.strerror}; remove it by hand") from error
