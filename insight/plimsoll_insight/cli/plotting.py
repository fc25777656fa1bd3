"""``--plot`` of commands: what it needs, and which names a file may have."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from plimsoll_agent.errors import PlimsollError, UsageError
from plimsoll_agent.util import files
from plimsoll_agent.util.distribution import needs

KINDS = (".png", ".svg", ".html")


class NoNumbers(PlimsollError):
    """A library of the extra ``insight`` is not installed."""


@contextmanager
def plotting(path: Path) -> Iterator[None]:
    """Around the imports of what draws. Raises ``NoNumbers``, ``UsageError`` for another name."""
    if path.suffix not in KINDS:
        raise UsageError(f"--plot {path}: the name must end with {', '.join(KINDS)}")
    try:
        is_directory = files.is_directory(path)
    except OSError as error:
        raise PlimsollError(f"--plot {path}: {error.strerror}") from error
    if is_directory:
        raise UsageError(f"--plot {path} is a directory; name the file in it")
    # Its import logs that it looks for fonts.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        yield
    except ImportError as error:
        raise NoNumbers(f"--plot needs matplotlib and Jinja2: {needs('insight')}") from error
