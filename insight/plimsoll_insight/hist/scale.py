"""The buckets of a histogram log: their edges in nanoseconds, told by how many columns a row has."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from plimsoll_agent.util.frozen import frozen

Floats = NDArray[np.float64]
_BITS = 6
_GROUPS = {29: 1, 19: 1000}
"""fio, stat.h: FIO_IO_U_PLAT_GROUP_NR, and the nanoseconds of its unit: since fio 2.99, and before."""
COARSENESS = range(7)
"""fio's log_hist_coarseness: 2^n of its buckets are one column."""


@frozen
class Scale:
    """The columns of a log: ``groups`` of fio's 64 buckets, each 2^``coarseness`` of which are one column."""

    groups: int
    coarseness: int

    @property
    def columns(self) -> int:
        return self.groups << _BITS >> self.coarseness

    @property
    def unit(self) -> int:
        """What fio counted in, in nanoseconds."""
        return _GROUPS[self.groups]

    def edges(self) -> Floats:
        """The lower edge of each column and, as the last, the upper edge of all, in nanoseconds.

        fio counts any longer time in the last column too: that edge is a saturation, not a bound.
        """
        return _edges(self)

    def midpoints(self) -> Floats:
        """The middle of each column: a latency in it differs by at most half of the column's width."""
        edges = _edges(self)
        return (edges[:-1] + edges[1:]) / 2


@cache
def _edges(scale: Scale) -> Floats:
    fine = [_lower(index) for index in range((scale.groups << _BITS) + 1)]
    edges = np.array(fine[:: 1 << scale.coarseness], dtype=np.float64) * scale.unit
    edges.flags.writeable = False
    return edges


def _lower(index: int) -> int:
    """fio's plat_idx_to_val: buckets of one unit below 128, then 64 in each factor of two."""
    shift = max((index >> _BITS) - 1, 0)
    return (index - (shift << _BITS)) << shift


SCALES = {scale.columns: scale for scale in (Scale(groups, each) for groups in _GROUPS for each in COARSENESS)}
"""By the number of columns: no two scales have as many."""


def common(scales: set[Scale]) -> Scale:
    """The scale that all of these can be told in: of nanoseconds where one is, and as coarse as the coarsest."""
    return Scale(max(scale.groups for scale in scales), max(scale.coarseness for scale in scales))


@cache
def places(scale: Scale, target: Scale) -> NDArray[np.int64]:
    """For each column of ``scale``, the column of ``target`` that its middle lies in.

    Exact where both count in the same unit. Old logs of microseconds move by at most half a column of theirs.
    """
    if scale.unit == target.unit:
        return np.arange(scale.columns, dtype=np.int64) >> (target.coarseness - scale.coarseness)
    columns = np.searchsorted(target.edges(), scale.midpoints(), side="right") - 1
    return np.minimum(columns, target.columns - 1).astype(np.int64)
