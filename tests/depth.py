"""How deep the tests go: the one setting from which every count of repetitions and examples is taken.

``PLIMSOLL_TEST_DEPTH`` is ``quick`` (the default, and what ``script/test`` runs), ``landing`` (``script/test all``)
or ``soak`` (``script/soak``).
"""

from __future__ import annotations

import os
import sys
from enum import StrEnum

VARIABLE = "PLIMSOLL_TEST_DEPTH"


class Depth(StrEnum):
    QUICK = "quick"
    LANDING = "landing"
    SOAK = "soak"


DEPTH = Depth(os.environ.get(VARIABLE) or Depth.QUICK)


TAKEN: dict[str, list[int]] = {}
"""By the name of a module: the counts that it was given, for the summary of a run."""


def count(*, quick: int, landing: int, soak: int) -> int:
    """How often to repeat something."""
    chosen = _of_this_depth(quick, landing, soak)
    TAKEN.setdefault(sys._getframe(1).f_globals["__name__"], []).append(chosen)
    return chosen


def examples(usual: int) -> int:
    """How many examples of a property to try: a sixth of the usual number, half of it, or ten times as many."""
    return _of_this_depth(max(5, usual // 6), max(5, usual // 2), 10 * usual)


def _of_this_depth(quick: int, landing: int, soak: int) -> int:
    return {Depth.QUICK: quick, Depth.LANDING: landing, Depth.SOAK: soak}[DEPTH]
