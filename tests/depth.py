"""How deep the tests go: the one setting from which every count of repetitions and examples is taken.

``PLIMSOLL_TEST_DEPTH`` is ``quick`` (the default, and what ``script/test`` runs), ``landing`` (``script/test all``)
or ``soak`` (``script/soak``).
"""

from __future__ import annotations

import os
from enum import StrEnum

VARIABLE = "PLIMSOLL_TEST_DEPTH"


class Depth(StrEnum):
    QUICK = "quick"
    LANDING = "landing"
    SOAK = "soak"


DEPTH = Depth(os.environ.get(VARIABLE) or Depth.QUICK)


def count(*, quick: int, landing: int, soak: int) -> int:
    """How often to repeat something."""
    return {Depth.QUICK: quick, Depth.LANDING: landing, Depth.SOAK: soak}[DEPTH]


def examples(landing: int) -> int:
    """How many examples of a property to try, from their number at landing depth: a sixth of it, or ten times."""
    return count(quick=max(5, landing // 6), landing=landing, soak=10 * landing)
