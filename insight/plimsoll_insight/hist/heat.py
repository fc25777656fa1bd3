"""The completions of a whole study by interval and by coarse latencies, for a heat map: two rows a factor of two."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from plimsoll_insight.hist.records import DIRECTIONS
from plimsoll_insight.hist.scale import Scale
from plimsoll_insight.hist.timeline import Timeline
from plimsoll_probes.model.histogram import bucket_of
from plimsoll_probes.output.report.drawing import row_of


class Heat:
    """``counts[direction]`` has a row for each interval and a column for each row of the map."""

    def __init__(self, scale: Scale) -> None:
        # A column of old or coarse logs is where its middle is.
        middles = [bucket_of(int(middle)) for middle in scale.midpoints()]
        self._row = np.array([row_of(bucket) for bucket in middles])
        self._row[-1] = row_of(len(middles) - 1) if scale.columns == 1856 else self._row[-1]
        self._parts: list[list[NDArray[np.float64]]] = [[] for _ in DIRECTIONS]

    def add(self, timeline: Timeline, number: int) -> None:
        for direction, parts in enumerate(self._parts):
            table = np.zeros((number, int(self._row.max()) + 1))
            np.add.at(table.T, self._row, timeline.done[direction, :number].T)
            parts.append(table)

    @property
    def counts(self) -> list[NDArray[np.float64]]:
        return [np.concatenate(parts) for parts in self._parts]
