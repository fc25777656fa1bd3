"""Columns of logs and their edges."""

from __future__ import annotations

import numpy as np
import pytest

from plimsoll_insight.hist.scale import COARSENESS, SCALES, Scale, common, places
from plimsoll_probes.model import histogram


def test_each_number_of_columns_is_one_scale() -> None:
    assert len(SCALES) == 14
    assert {scale.columns for scale in SCALES.values()} == {n >> c for n in (1856, 1216) for c in COARSENESS}


def test_edges_of_nanoseconds_are_those_of_the_probes() -> None:
    edges = SCALES[1856].edges()
    assert [int(edge) for edge in edges[:-1]] == [histogram.edges(index)[0] for index in range(1856)]
    assert edges[-1] == 17_179_869_184  # 2^34


@pytest.mark.parametrize("coarseness", COARSENESS)
def test_a_coarse_column_spans_the_fine_ones_that_it_sums_up(coarseness: int) -> None:
    fine, coarse = Scale(29, 0).edges(), Scale(29, coarseness).edges()
    assert list(coarse) == list(fine[:: 1 << coarseness])


def test_old_logs_count_in_microseconds() -> None:
    assert SCALES[1216].edges()[100] == 100_000
    assert SCALES[1216].edges()[-1] == 2**24 * 1000  # 16.8 s


def test_the_common_scale_is_the_coarsest_of_nanoseconds() -> None:
    assert common({Scale(29, 1), Scale(19, 3)}) == Scale(29, 3)
    assert common({Scale(19, 1), Scale(19, 3)}) == Scale(19, 3)


@pytest.mark.parametrize("source", SCALES.values())
@pytest.mark.parametrize("coarseness", [0, 3, 6])
def test_a_column_moves_to_where_its_middle_lies(source: Scale, coarseness: int) -> None:
    target = common({source, Scale(29, coarseness)})
    edges, place = target.edges(), places(source, target)
    middles = source.midpoints()
    assert np.all(edges[place] <= middles)
    assert np.all(middles < edges[place + 1])
