"""The figures of a report: what is drawn, and what must not be."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from datetime import timedelta
from xml.etree import ElementTree

import pytest

from plimsoll_agent.limits import Limits
from plimsoll_probes.histogram import BUCKETS, LAST, edges
from plimsoll_probes.report import plots
from plimsoll_probes.report.gathered import curve, run_of
from plimsoll_probes.result import Circumstances, ProbeResult
from tests.unit.probes import MS, a_flow, a_measurement
from tests.unit.test_report_gathered import DAY, SHORT, run
from tests.unit.test_report_page import made
from tests.unit.values import NOON

BEYOND = "percentiles here: > 17 s, nobody knows how far"
UNLIMITED = Circumstances(Limits(), Limits(), Limits())


def of_type(*runs: ProbeResult) -> bytes:
    return plots.type_svg(curve(runs, DAY), DAY)


def of_guest(*runs: ProbeResult) -> bytes:
    return plots.guest_svg([run_of(each) for each in runs], curve(runs, DAY), DAY)


def texts(svg: bytes) -> list[str]:
    """The text in it, which fails where it is no XML."""
    return [each.text or "" for each in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_what_cannot_be_told_is_drawn_as_such_and_never_as_a_number() -> None:
    stuck = a_measurement(a_flow([20_000 * MS] * 10))
    said = texts(of_type(run(3, measured=stuck)))
    assert BEYOND in said
    assert "> 17 s" in said  # the row of the heat map
    assert not [each for each in said if re.match(r"^1[67]\.\d", each)]


def test_where_all_latencies_are_known_nothing_speaks_of_those_that_are_not() -> None:
    said = texts(of_type(run(3)))
    assert BEYOND not in said
    assert "> 17 s" not in said


def test_the_slowest_is_drawn_though_the_percentiles_end() -> None:
    """It is exact: 100 s must be on the axis."""
    stuck = a_measurement(a_flow([20_000 * MS] * 10, slowest=120_000 * MS))
    assert "100 s" in texts(of_guest(run(3, measured=stuck)))


def test_the_limit_is_drawn_where_there_is_one_and_nowhere_else() -> None:
    assert "the limit" in texts(of_type(run(3)))
    assert "the limit" in texts(of_guest(run(3)))
    assert "the limit" not in texts(of_guest(run(3, circumstances=UNLIMITED)))
    free = texts(of_type(run(3, circumstances=UNLIMITED)))
    assert "the limit" not in free
    assert "no limit is in force, or none is known" in free


def test_runs_that_broke_the_promise_are_marked_by_more_than_a_colour() -> None:
    assert "not kept" in texts(of_guest(run(3, SHORT)))
    assert "not kept" not in texts(of_guest(run(3)))


def test_a_limit_of_which_one_run_knows_nothing_is_drawn_for_the_others() -> None:
    """Not known is a gap in the line, and no limit of 0."""
    assert "the limit" in texts(of_guest(run(4), run(3, circumstances=Circumstances())))


@pytest.mark.parametrize("measured", [None, a_measurement()], ids=["no result", "no request completed"])
def test_runs_without_a_single_request_are_drawn_without_a_complaint(measured: object) -> None:
    nothing = [run(3, measured=measured)]
    for svg in (of_type(*nothing), of_guest(*nothing)):
        assert "no request was completed" in texts(svg)


def test_the_same_runs_make_the_same_file() -> None:
    """No date, no random name: a report that is made again can be compared."""
    assert of_type(run(3), run(4, SHORT)) == of_type(run(3), run(4, SHORT))


def test_a_figure_fetches_nothing() -> None:
    svg = of_type(run(3), run(4, SHORT))
    links = re.findall(rb'(?:href|src)="([^"]*)"', svg)
    assert links  # the heat map is a picture within
    assert not [link for link in links if not link.startswith((b"#", b"data:image/png;base64,"))]
    assert b"@import" not in svg
    assert b"<script" not in svg


def test_thousands_of_runs_do_not_make_a_figure_large() -> None:
    one = run_of(run(3, SHORT))
    many = [
        replace(one, result=replace(one.result, started=NOON - timedelta(seconds=10 * number)))
        for number in range(1, 5000)
    ]
    assert len(plots.guest_svg(many, curve([run(3)], DAY), DAY)) < 150_000


def test_whoever_draws_leaves_matplotlib_as_it_was() -> None:
    before = plots.mpl.rcParams["font.size"], plots.mpl.rcParams["svg.fonttype"]
    of_type(run(3))
    assert (plots.mpl.rcParams["font.size"], plots.mpl.rcParams["svg.fonttype"]) == before


def test_no_bucket_of_fio_lies_in_two_rows_of_the_heat_map() -> None:
    for index in range(1, BUCKETS):
        lower, upper = edges(index)
        row = plots._row(index)
        if index == LAST:
            assert row == plots._row(LAST - 1) + 1, "what is beyond has a row of its own"
            continue
        assert upper is not None
        assert plots._edge(row) <= lower, index
        assert upper <= max(plots._edge(row + 1), 2), index


def test_no_line_is_drawn_over_a_time_without_runs() -> None:
    """Of points in columns 0 to 3 and 40 to 43 the line has a gap between."""
    points = curve([run(24 - column / 2 - 0.1) for column in (1, 2, 3, 4, 41, 42, 43)], DAY).points
    places, values = plots._with_gaps([(point, 1.0) for point in points])
    assert [value != value for value in values].index(True) == 4
    assert len(places) == len(points) + 1


def test_the_limit_is_drawn_in_a_page_where_the_worst_are() -> None:
    (source,) = re.findall(
        r'<img src="data:image/svg\+xml;base64,([^"]*)" alt="IOPS of each run', made(run(3, SHORT))
    )
    assert b">the limit</text>" in base64.b64decode(source)
