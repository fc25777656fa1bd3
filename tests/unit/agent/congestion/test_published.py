"""The file of the publisher: all of it comes back, a pool takes its lowest class, and no other file counts."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from plimsoll_agent.congestion.law import ClassState, Start
from plimsoll_agent.congestion.published import Factor, Gap, Unusable, check_fit, decode, encode
from tests.unit.agent.congestion.values import a_factor, a_factor_file
from tests.unit.node import FSID
from tests.unit.values import NOON

LOW = a_factor(0.4, "hdd")
SECOND = timedelta(seconds=1)


def test_all_of_a_file_comes_back() -> None:
    start = Start(x=1.0, level=-4.5, rate=None)
    state = ClassState(x=0.5, gain=0.1, direction=-1, start=start, level=-4.0, after=-4.2, afters=2)
    unknown = a_factor(1, latency=None, target=None, why=Gap.NO_REQUESTS)
    file = a_factor_file(a_factor(), unknown, states={(FSID, "ssd"): state})
    assert decode(encode(file), "f", states=True) == file


def test_a_node_reads_the_file_of_another_version_of_the_law() -> None:
    content = json.loads(encode(a_factor_file(a_factor(action="soared"), states={(FSID, "ssd"): ClassState()})))
    content["states"][0][2] = {"x": "of tomorrow"}
    assert decode(json.dumps(content).encode(), "f").of((FSID, "volumes")) == a_factor(action="soared")
    with pytest.raises(Unusable):
        decode(json.dumps(content).encode(), "f", states=True)


@pytest.mark.parametrize(
    ("pool", "factors", "factor"),
    [
        ("volumes", (a_factor(), LOW), a_factor()),
        ("mixed", (a_factor(), LOW), LOW),
        pytest.param("mixed", (LOW,), None, id="one class of two unknown"),
        pytest.param("odd", (a_factor(),), None, id="no class"),
        pytest.param("other", (a_factor(),), None, id="a pool made since"),
    ],
)
def test_a_pool_takes_the_lowest_factor_of_its_classes_and_none_while_one_is_unknown(
    pool: str, factors: tuple[Factor, ...], factor: Factor | None
) -> None:
    assert a_factor_file(*factors).of((FSID, pool)) == factor


@pytest.mark.parametrize(
    ("newest", "late", "words"),
    [
        (8, timedelta(), "is older"),
        (7, 91 * SECOND, "expired at"),
        (7, -91 * SECOND, "from the future"),
    ],
)
def test_an_older_expired_or_future_file_does_not_count(newest: int, late: timedelta, words: str) -> None:
    check_fit(a_factor_file(), 7, NOON + 90 * SECOND, "f")
    with pytest.raises(Unusable, match=words):
        check_fit(a_factor_file(), newest, NOON + late, "f")


def test_a_file_that_would_last_longer_than_the_design_allows_does_not_count() -> None:
    with pytest.raises(Unusable, match="from the future"):
        check_fit(a_factor_file(valid_until=NOON + 91 * SECOND), 0, NOON, "f")


@pytest.mark.parametrize(
    "damage",
    [
        {"kind": "plimsoll-region"},
        {"version": 2},
        {"generation": -1},
        {"issued": "noon"},
        {"classes": [{"cluster": FSID}]},
        {"pools": [["a", "b"]]},
    ],
)
def test_what_is_no_congestion_file_is_refused_in_a_line(damage: dict[str, object]) -> None:
    content = json.loads(encode(a_factor_file())) | damage
    with pytest.raises(Unusable, match=r"^f: [^\n]+$"):
        decode(json.dumps(content).encode(), "f")
