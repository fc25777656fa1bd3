"""What is promised, in rows and in words; a real Prometheus answers the queries in functional/test_promised."""

from __future__ import annotations

import pytest

from plimsoll_agent.util.frozen import replace
from plimsoll_monitoring.region import messages
from plimsoll_monitoring.region.answers import Series
from plimsoll_monitoring.region.promised import (
    UNITS,
    Over,
    Place,
    PromisedBy,
    PromiseRow,
    group_places,
    row_questions,
    rows,
)

NOW = 1_800_000_000.0
GOLD = PromiseRow(
    labels={"region": "north", "volume_type": "gold"},
    unit="operations",
    disks=2400,
    unlimited=0,
    unknown=0,
    promised=1_200_000,
    most=340_000,
    most_at=NOW - 3600,
    use=0.61,
    p99=0.018,
    since=NOW - 40 * 86400,
)
BYTES = replace(GOLD, unit="bytes", promised=2**40, most=2**38)


def sentence(row: PromiseRow, in_bytes: PromiseRow = BYTES, over: Over = Over.WEEK) -> str:
    (said,) = messages.promised_lines([row, in_bytes], over, regions=False)
    return said


def test_the_sentence_has_the_promise_the_most_their_ratio_the_use_and_the_latency() -> None:
    assert sentence(GOLD, over=Over.MONTH) == (
        "gold: 1.2 M IOPS promised, 340000 the most seen in a month (3.5×), peak use 61 %, p99 at that peak 18 ms"
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"unlimited": 3, "unknown": 2},
            "gold: at least 1.2 M IOPS promised (3 of 2400 disks unlimited, 2 unknown),"
            " 340000 the most seen in a week (at least 3.5×), peak use at most 61 %, p99 at that peak 18 ms",
        ),
        ({"p99": None}, "p99 at that peak unknown"),
        ({"most": None, "use": None}, "gold: 1.2 M IOPS promised; what was taken is unknown"),
        ({"most": 0.0, "use": 0.0}, "promised, 0 the most seen in a week, peak use 0 %"),
        ({"promised": 999_999.0}, "gold: 999999 IOPS promised"),
        (
            {"promised": 12_000_000.0, "most": 1.0},
            "gold: 12 M IOPS promised, 1 the most seen in a week (12000000×)",
        ),
        (
            {"disks": 0, "promised": None, "use": None},
            "gold: no disks now, 340000 IOPS the most seen in a week, p99",
        ),
    ],
)
def test_what_is_missing_in_the_sum_makes_it_a_bound(change: dict[str, object], said: str) -> None:
    unbound = replace(BYTES, promised=None)
    assert said in sentence(replace(GOLD, **change), unbound)  # type: ignore[arg-type]


def test_where_no_limit_is_on_requests_the_sentence_is_on_bytes() -> None:
    free = replace(GOLD, promised=None, unlimited=2400, use=None)
    assert sentence(free).startswith("gold: 1 TiB/s promised, 256 GiB/s the most seen in a week (4×)")
    neither = replace(BYTES, promised=None, unlimited=2400)
    assert sentence(free, neither).startswith(
        "gold: nothing promised (2400 of 2400 disks unlimited), 340000 IOPS the most seen in a week, p99"
    )


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        (None, "bytes", "-"),
        (1234.4, "operations", "1234"),
        (0.0, "bytes", "0 KiB/s"),
        (2.0**20, "bytes", "1 MiB/s"),
        (1023 * 2.0**20, "bytes", "1023 MiB/s"),
        (1.5 * 2**30, "bytes", "1.5 GiB/s"),
        (5000 * 2.0**40, "bytes", "5000 TiB/s"),
    ],
)
def test_amounts_have_units_that_people_know(value: float | None, unit: str, said: str) -> None:
    assert messages.amount(value, unit) == said


def test_a_prometheus_that_is_younger_than_the_time_says_so() -> None:
    young = replace(GOLD, since=NOW - 2 * 86400)
    assert list(messages.known_since([GOLD, young], NOW, Over.WEEK)) == []  # some of it is known for longer
    (said,) = messages.known_since([young], NOW, Over.WEEK)
    assert said == "Prometheus has what was taken since 2027-01-13 08:00 UTC only (2 d ago)."
    assert list(messages.known_since([young], NOW, Over.DAY)) == []


# --- rows


SSD, HDD, UNKNOWN, NO_CLUSTER = (
    Place(region="north", cluster="c1", pool="fast", volume_type="gold"),
    Place(region="north", cluster="c1", pool="slow", volume_type="gold"),
    Place(region="north", cluster="c2", pool="fast", volume_type="bronze"),
    Place(region="north", cluster="", pool="slow", volume_type=""),
)
CLASSES = {("c1", "fast"): "ssd", ("c1", "slow"): "hdd"}


@pytest.mark.parametrize(
    ("by", "keys"),
    [
        (PromisedBy.TYPE, {("north", "gold"): 2, ("north", "bronze"): 1, ("north", ""): 1}),
        (
            PromisedBy.POOL,
            {
                ("north", "c1", "fast"): 1,
                ("north", "c1", "slow"): 1,
                ("north", "c2", "fast"): 1,
                ("north", "", "slow"): 1,
            },
        ),
        # A pool of another cluster is in no report; a node without its cluster's name has a pool of only one.
        (PromisedBy.CLASS, {("north", "ssd"): 1, ("north", "hdd"): 2, ("north", None): 1}),
    ],
)
def test_places_are_of_the_row_of_their_labels(by: PromisedBy, keys: dict[tuple[str | None, ...], int]) -> None:
    groups = group_places([SSD, HDD, UNKNOWN, NO_CLUSTER], by, CLASSES)
    assert {key: len(of) for key, of in groups.items()} == keys


def test_the_highest_ratio_is_first_and_nothing_limited_is_no_promise_of_zero() -> None:
    groups = group_places([SSD, UNKNOWN, NO_CLUSTER], PromisedBy.TYPE, {})

    def told(*values: float | None) -> list[Series]:
        return [Series({"row": str(n)}, value) for n, value in enumerate(values) if value is not None]

    answers = {name: told() for name in row_questions(groups, PromisedBy.TYPE, 60)} | {
        "disks": told(2, 2, 3),
        "disks_unknown": told(0, 0, 1),
        "unlimited_operations": told(0, 1, 2),
        "unlimited_bytes": told(2, 2, 2),
        "promised_operations": told(1000, 500, 0),
        "promised_bytes": told(0, 0, 0),
        "most_operations": told(500, 100, 70),
    }
    found = rows(groups, PromisedBy.TYPE, answers, {}, {})
    assert [(row.labels["volume_type"], row.unit) for row in found[::2]] == [
        ("bronze", "operations"),
        ("gold", "operations"),
        ("", "operations"),
    ]
    assert [row.unit for row in found[:2]] == list(UNITS)
    assert [(row.promised, row.ratio, row.at_least) for row in found] == [
        (500, 5, True),
        (None, None, True),
        (1000, 2, False),
        (None, None, True),
        (None, None, True),
        (None, None, True),
    ]


def test_values_of_labels_are_quoted_in_queries() -> None:
    groups = group_places(
        [Place(region='n"', cluster="c\\", pool="p\n", volume_type='g"} or vector(1)')], PromisedBy.TYPE, {}
    )
    asked = row_questions(groups, PromisedBy.CLASS, 60)
    assert '{region="n\\"", cluster="c\\\\", pool=~"p' in asked["most_bytes"]
    for question in (asked["disks"], asked["promised_bytes"]):
        assert '{region="n\\"", cluster="c\\\\", pool="p\\n", volume_type="g\\"} or vector(1)"' in question
    groups = group_places(
        [Place(region='n"', cluster="c\\", pool="p\n", volume_type='g"} or vector(1)')], PromisedBy.TYPE, {}
    )
    assert (
        '{region="n\\"", volume_type="g\\"} or vector(1)"}'
        in row_questions(groups, PromisedBy.TYPE, 60)["most_bytes"]
    )
