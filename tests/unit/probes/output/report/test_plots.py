"""The figures of a report: what is drawn, and what must not be."""

from __future__ import annotations

import base64
import re
from xml.etree import ElementTree

import pytest

from plimsoll_agent.model.limits import Limits
from plimsoll_agent.rules.model import Objective
from plimsoll_agent.util.frozen import replace
from plimsoll_probes.model.histogram import BUCKETS, LAST, edges
from plimsoll_probes.model.result import Circumstances, ProbeResult
from plimsoll_probes.output.report import drawing, plots
from plimsoll_probes.output.report.gathered import curve
from tests.unit.probes.output.report.test_gathered import DAY, SHORT, run
from tests.unit.probes.output.report.test_page import made
from tests.unit.results import MS, a_flow, a_measurement

BEYOND = "percentiles here: > 17 s"
UNLIMITED = Circumstances(promised=Limits(), before=Limits(), after=Limits())


def of_type(*runs: ProbeResult) -> bytes:
    each = curve(runs, DAY)
    return plots.type_svg(each, DAY, plots.Ranges.of([each]))


def of_guest(*runs: ProbeResult) -> bytes:
    each = curve(runs, DAY)
    return plots.guest_svg(each, DAY, plots.Ranges.of([each]))


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
    assert "limit" in texts(of_type(run(3)))
    assert "limit" in texts(of_guest(run(3)))
    assert "limit" not in texts(of_guest(run(3, circumstances=UNLIMITED)))
    free = texts(of_type(run(3, circumstances=UNLIMITED)))
    assert "limit" not in free
    assert "no limit, or limits unknown" in free


def test_the_objectives_are_lines_on_the_axis_and_named() -> None:
    """Also where all requests are far from them."""
    objective = Objective(((0.5, 0.1), (0.99, 60.0)), slowest=200.0)
    each = curve([run(3, objective=objective), run(4)], DAY)
    low, high = plots.Ranges.of([each]).latencies
    assert low < 0.1
    assert high > 200
    said = texts(of_type(run(3, objective=objective)))
    assert [label for label in said if label.startswith("≤")] == ["≤ p50", "≤ p99", "≤ all"]
    assert not [label for label in texts(of_type(run(3, objective=None))) if label.startswith("≤")]


def test_healthy_latencies_have_labels_beside_them() -> None:
    """Milliseconds with a few slow requests: not 100 ms and 1 s only."""
    said = texts(of_guest(run(3, latencies=[20 * MS] * 99 + [900 * MS]), run(4, latencies=[41 * MS] * 100)))
    assert {"20 ms", "50 ms", "100 ms", "1.0 s"} <= set(said)


def test_a_limit_of_which_one_run_knows_nothing_is_drawn_for_the_others() -> None:
    """Not known is a gap in the line, and no limit of 0."""
    assert "limit" in texts(of_guest(run(4), run(3, circumstances=Circumstances())))


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


def test_whoever_draws_leaves_matplotlib_as_it_was() -> None:
    before = drawing.mpl.rcParams["font.size"], drawing.mpl.rcParams["svg.fonttype"]
    of_type(run(3))
    assert (drawing.mpl.rcParams["font.size"], drawing.mpl.rcParams["svg.fonttype"]) == before


def test_no_bucket_of_fio_lies_in_two_rows_of_the_heat_map() -> None:
    for index in range(1, BUCKETS):
        lower, upper = edges(index)
        row = drawing.row_of(index)
        if index == LAST:
            assert row == drawing.row_of(LAST - 1) + 1, "what is beyond has a row of its own"
            continue
        assert upper is not None
        assert drawing.edge_of(row) <= lower, index
        assert upper <= max(drawing.edge_of(row + 1), 2), index


def test_figures_of_a_page_have_the_same_axes() -> None:
    """Also where one type has latencies a thousand times those of the other, and more than its limits."""
    quick, slow = (run(3, latencies=[size * MS] * 10) for size in (1, 2_000))
    curves = [curve([each], DAY) for each in (quick, slow)]
    ranges = plots.Ranges.of(curves)
    one, other = (texts(plots.type_svg(each, DAY, ranges)) for each in curves)
    assert [each for each in one if each.endswith("s")] == [each for each in other if each.endswith("s")]
    low, high = ranges.latencies
    assert low <= 0.001 < 2 < high
    over = replace(curves[0], points=(replace(curves[0].points[0], shares=(1, 1, 9)),))
    assert plots.Ranges.of([over]).shares == 2


def test_a_figure_has_no_colour_but_by_name_so_that_it_is_dark_on_a_dark_page() -> None:
    stuck = a_measurement(a_flow([20_000 * MS] * 10))
    pictures = of_type(run(3, measured=stuck), run(4, SHORT)), of_guest(run(3)), of_guest(run(3, measured=None))
    for svg in pictures:
        styles, drawn = svg.decode().split("</style>")
        assert re.findall(r"#[0-9a-f]{6}|rgb", re.sub(r'href="[^"]*"', "", drawn)) == []
        assert set(re.findall(r"var\((--\w+)\)", drawn)) <= set(re.findall(r"(--\w+):", styles))
        assert "(prefers-color-scheme: dark)" in styles
    assert b"fill: var(--paper)" not in pictures[1], "it has no paper of its own"


def test_the_limit_is_drawn_in_a_page_where_the_worst_are() -> None:
    (source,) = re.findall(
        r'<img src="data:image/svg\+xml;base64,([^"]*)" alt="IOPS of instance', made(run(3, SHORT))
    )
    assert b">limit</text>" in base64.b64decode(source)
