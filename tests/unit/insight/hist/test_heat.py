"""The heat map has all requests, each in the row of its latency."""

from __future__ import annotations

import pytest

from plimsoll_insight.hist.heat import Heat
from plimsoll_insight.hist.scale import SCALES, Scale
from plimsoll_insight.hist.timeline import Clock, Timeline
from plimsoll_probes.output.report.drawing import edge_of


@pytest.mark.parametrize("scale", SCALES.values(), ids=str)
def test_each_column_is_in_the_row_that_its_middle_lies_in(scale: Scale) -> None:
    timeline = Timeline(Clock(0, 1000, scale.columns), scale)
    for column in range(scale.columns):
        timeline.done[0, column, column] = 1 + column
    heat = Heat(scale)
    heat.add(timeline, scale.columns)
    [table, *others] = heat.counts
    assert all(not other.any() for other in others)
    assert table.sum() == timeline.done.sum()
    for column, middle in enumerate(scale.midpoints()[:-1]):
        [row] = table[column].nonzero()[0]
        if middle > 4:  # below, a bucket is wider than a row
            assert edge_of(row) <= middle < edge_of(row + 1)


def test_what_is_beyond_has_a_row_of_its_own() -> None:
    scale = SCALES[1856]
    timeline = Timeline(Clock(0, 1000, 2), scale)
    timeline.done[0, 0, -1] = timeline.done[0, 1, -2] = 1
    heat = Heat(scale)
    heat.add(timeline, 2)
    beyond, last = (row.nonzero()[0][0] for row in heat.counts[0])
    assert beyond == last + 1


def test_parts_follow_each_other_without_their_tails() -> None:
    heat = Heat(Scale(29, 3))
    for first in (0, 3):
        timeline = Timeline(Clock(1000 * first, 1000, 5), Scale(29, 3))
        for interval in range(5):
            timeline.done[1, interval, 40] = first + interval + 1
        heat.add(timeline, 3)
    assert heat.counts[1].sum(axis=1).tolist() == [1, 2, 3, 4, 5, 6]
