"""Where a program runs: inside a guest, or on this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from plimsoll_agent.util.frozen import frozen


@frozen(kw_only=True)
class Ran:
    """How a program ended: by itself with ``status``, or by ``signal``."""

    status: int | None
    signal: int | None
    out: bytes
    err: bytes
    frozen: bool = False
    """The guest's file systems were frozen while it ran."""


class Shell(Protocol):
    """Runs a list of arguments; no shell reads them."""

    def run(
        self,
        argv: Sequence[str],
        *,
        seconds: float,
        lasts: float = 0,
        stdin: bytes = b"",
        tell: Callable[[], None] = lambda: None,
    ) -> Ran:
        """Run a program for at most so many seconds, and call ``tell`` regularly while it runs.

        A shell that polls for the end polls often again after ``lasts`` seconds.

        Raises ``Trouble``; the program may then still run until those seconds are over.
        """
        ...
