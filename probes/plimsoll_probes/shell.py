"""Somewhere to run a program: inside a guest, or on this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Ran:
    """How a program ended: by itself with ``status``, or by ``signal``."""

    status: int | None
    signal: int | None
    out: bytes
    err: bytes
    frozen: bool = False
    """The guest's file systems were frozen meanwhile."""


class Shell(Protocol):
    """Runs a list of words, never text that a shell would read."""

    def run(
        self,
        argv: Sequence[str],
        *,
        seconds: float,
        lasts: float = 0,
        stdin: bytes = b"",
        tell: Callable[[], None] = lambda: None,
    ) -> Ran:
        """Run it for so many seconds at the most; ``tell`` is called now and then while it lasts.

        Where its end has to be asked for, that is done often again once it has lasted ``lasts`` seconds.

        Raises ``Trouble``: the program may still run then, but no longer than those seconds.
        """
        ...
