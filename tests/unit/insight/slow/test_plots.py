"""What is drawn of slow requests over time."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from plimsoll_insight.slow import plots
from plimsoll_insight.slow.events import UNKNOWN_OSD
from plimsoll_insight.slow.over_time import OverTime, SlowInterval
from plimsoll_insight.slow.plots import chart_of, render
from plimsoll_insight.slow.tree import CrushBucket, Tree

TREE = Tree(
    bucket_of={osd: CrushBucket((("root", "default"), ("host", f"host-{'ba'[osd // 2]}"))) for osd in range(4)}
)


def over(*intervals: SlowInterval, width: float = 60.0) -> OverTime:
    return OverTime(width, intervals)


def test_intervals_without_requests_are_drawn_too_and_rows_are_in_the_order_of_the_tree() -> None:
    chart = chart_of(
        over(
            SlowInterval(begin=600, requests=5, osds={2: 3, 1: 1}, hosts={"host-a": 3, "host-b": 1}),
            SlowInterval(begin=780, requests=2, osds={1: 2, 0: 1}, hosts={"host-b": 3}),
        ),
        TREE,
    )
    assert (chart.begin, chart.width, chart.requests) == (600, 60, [5, 0, 0, 2])
    assert chart.osds == [
        ("host-b osd.0", [0, 0, 0, 1]), ("host-b osd.1", [1, 0, 0, 2]), ("host-a osd.2", [3, 0, 0, 0]),
    ]  # fmt: skip
    assert dict(chart.hosts) == {"host-b": [1, 0, 0, 3], "host-a": [3, 0, 0, 0]}


def test_an_osd_that_is_unknown_is_no_number() -> None:
    chart = chart_of(over(SlowInterval(begin=0, requests=5, osds={UNKNOWN_OSD: 3, 1: 1}, hosts={})), None)
    assert [words.strip() for words, _ in chart.osds] == ["osd.?", "osd.1"]


def test_hosts_with_one_osd_each_are_not_drawn_twice() -> None:
    chart = chart_of(
        over(SlowInterval(begin=0, requests=5, osds={2: 3, 1: 1}, hosts={"host-a": 3, "host-b": 1})), TREE
    )
    assert (len(chart.hosts), len(chart.osds)) == (0, 2)


def test_a_long_time_and_many_osds_are_bounded_and_keep_the_sum() -> None:
    intervals = [
        SlowInterval(begin=60.0 * number, requests=2, osds={number % 100: 2}, hosts={}) for number in range(5000)
    ]
    chart = chart_of(over(*intervals), None)
    assert (len(chart.requests), chart.width, sum(chart.requests)) == (313, 960, 10_000)
    assert len(chart.osds) == 40
    assert (
        sum(
            chart_of(
                over(
                    SlowInterval(begin=0, requests=1, osds={7: 1}, hosts={}),
                    SlowInterval(begin=1e8, requests=1, osds={}, hosts={}),
                ),
                None,
            ).requests
        )
        == 2
    )


def test_the_hosts_with_most_are_chosen_once_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = Tree(
        bucket_of={osd: CrushBucket((("root", "default"), ("host", f"host-{osd // 2}"))) for osd in range(200)}
    )
    most, asked = plots._most, []
    monkeypatch.setattr(plots, "_most", lambda rows: asked.append(len(rows)) or most(rows))
    requests = SlowInterval(
        begin=0,
        requests=200,
        osds=dict.fromkeys(range(200), 1),
        hosts={f"host-{number}": number for number in range(100)},
    )
    assert [host for host, _ in chart_of(over(requests), tree).hosts] == [
        f"host-{number}" for number in range(60, 100)
    ]
    assert sorted(asked) == [100, 200]


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (("rack2-a", "host.example"), ["rack2-a", "host.example"]),
        (("ceph-storage-01.example", "ceph-storage-02.example"), ["ceph-storage-01", "ceph-storage-02"]),
        (
            ("storage-node-az1-r12-0042.a.b", "storage-node-az1-r12-0043.a.b"),
            ["stora…1-r12-0042", "stora…1-r12-0043"],
        ),
        (("ceph-storage.dc1", "ceph-storage.dc22"), ["ceph-storage.dc1", "ceph-…orage.dc22"]),
    ],
)
def test_long_names_of_hosts_stay_different(names: tuple[str, ...], shown: list[str]) -> None:
    tree = Tree(bucket_of={osd: CrushBucket((("root", "default"), ("host", names[osd // 2]))) for osd in range(4)})
    chart = chart_of(
        over(SlowInterval(begin=0, requests=4, osds=dict.fromkeys(range(4), 1), hosts=dict.fromkeys(names, 2))), tree
    )
    assert [host for host, _ in chart.hosts] == shown
    assert [osd for osd, _ in chart.osds] == [f"{shown[number // 2]} osd.{number}" for number in range(4)]


def test_a_chart_of_the_osds_with_most_says_so() -> None:
    def titles(number: int) -> list[str]:
        svg = render(
            ".svg",
            over(SlowInterval(begin=0, requests=number, osds=dict.fromkeys(range(number), 1), hosts={})),
            None,
            [],
        )
        return [each.strip() for each in ET.fromstring(svg).itertext() if "may have caused" in each]

    assert titles(41) == ["the 40 OSDs that may have caused most"]
    assert titles(40) == ["slow requests that each OSD may have caused"]


@pytest.mark.parametrize("width", [1.0, 2.5, 60.0, 7680.0])
def test_a_figure_has_its_words_and_times(width: float) -> None:
    chart = over(
        *(SlowInterval(begin=width * number, requests=2, osds={1: 2}, hosts={"host-b": 2}) for number in range(100)),
        width=width,
    )
    svg = render(".svg", chart, TREE, [])
    words = [each.strip() for each in ET.fromstring(svg).itertext()]
    assert "slow requests that each OSD may have caused" in words
    assert "host-b osd.1" in words
    named = {1.0: "1 s", 2.5: "2.5 s", 60.0: "1 min", 7680.0: "2 h 8 min"}
    assert f"slow requests in {named[width]}" in words
    assert 2 <= sum(":" in each and each.replace(":", "")[-4:].isdigit() for each in words) <= 14


def test_a_log_without_slow_requests_is_drawn_as_that() -> None:
    assert b"no request was slow" in render(".svg", over(), None, [])


def test_a_hostile_name_is_text() -> None:
    tree = Tree(bucket_of={1: CrushBucket((("root", "default"), ("host", "<script>\x1b$x$")))})
    page = render(".html", over(SlowInterval(begin=0, requests=1, osds={1: 1}, hosts={})), tree, ["<script>"])
    assert b"<script>" not in page
    assert b"\x1b" not in render(".svg", over(SlowInterval(begin=0, requests=1, osds={1: 1}, hosts={})), tree, [])
