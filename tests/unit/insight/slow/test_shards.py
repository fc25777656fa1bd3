"""Requests to erasure-coded pools: lines and states of Ceph 16.2.15 (k=2, m=1), while osd.2, which was frozen, had a
shard of each.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from plimsoll_insight.slow import tallies
from plimsoll_insight.slow.blame import Blame, of_state
from plimsoll_insight.slow.columns import requests
from plimsoll_insight.slow.counts import Counts
from plimsoll_insight.slow.dumps import parse
from plimsoll_insight.slow.events import LogClock, event
from plimsoll_insight.slow.shards import settle_started
from plimsoll_insight.slow.union import together

_AT = "2026-12-01T01:39:0{}.670723+0000"
_WRITE = (
    "osd_op(client.4201.0:1 4.4{} 4:3ef883ed:::rbd_data.1.5e1f4e5d0a1b.0000000000000003:head [writefull 0~65536"
    " in=65536b] snapc 0=[] ondisk+write+known_if_redirected e18)"
)
_SUM = (
    _AT + " osd.0 (osd.0) 3 : cluster [WRN] 3 slow requests (by type [ '{}' : 3 ] most affected pool [ 'ecp' : 3 ])"
)
_OLDEST = _AT + " 7fdf8ce186c0 -1 osd.{} 18 get_health_metrics reporting 3 slow ops, oldest is {}"
SHARD, WHOLE = _WRITE.format("s0"), _WRITE.format("")


def counted(*lines: str) -> Counts:
    clock, one = LogClock(), Counts()
    for line in lines:
        what = event(line.encode(), None, clock)
        assert what is not None, line
        one.add(what)
    return one


def settled(kinds: dict[str | int, bool], *sources: Counts) -> tuple[int, int, int, dict[str, int], list[int]]:
    """What is osd.0's own, what is unknown, its blame over time, its states; and of whom nothing is told."""
    whole = together(*sources)
    untold = settle_started(whole, sources, kinds)
    blamed = sum(number for (_, osd), number in whole.blamed.counts.items() if osd == 0)
    return whole.osds[0].primary, whole.osds[0].unknown, blamed, dict(whole.by_state.of[0]), untold


OWN = (3, 0, 3, {"started": 3}, [])
UNKNOWN = (0, 3, 0, {"started, erasure-coded": 3}, [])


@pytest.mark.parametrize(
    ("kinds", "oldest", "right"),
    [
        ({"ecp": True}, None, UNKNOWN),
        ({"ecp": False}, None, OWN),
        ({}, _OLDEST.format(2, 0, SHARD), UNKNOWN),
        ({}, _OLDEST.format(2, 0, WHOLE), OWN),
        ({}, _OLDEST.format(2, 1, SHARD), UNKNOWN),
        ({}, _OLDEST.format(2, 1, WHOLE), OWN),
        ({"ecp": False}, _OLDEST.format(2, 0, SHARD), OWN),
        ({"other": True}, None, (3, 0, 3, {"started": 3}, [0])),
    ],
    ids=["pools", "pools, replicated", "its own log", "its own log, replicated", "another's", "another's, replicated",
         "pools before lines", "nothing"],
)  # fmt: skip
def test_what_a_sum_calls_started_is_the_osd_s_own_unless_its_pool_may_have_shards(
    kinds: dict[str | int, bool], oldest: str | None, right: object
) -> None:
    cluster = counted(_SUM.format(2, "started"))
    assert settled(kinds, cluster, counted(*([oldest] if oldest else []))) == right


def test_where_states_are_too_many_to_name_none_is_less_than_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tallies, "MOST_BY_OSD", 0)
    sources = counted(_SUM.format(2, "started")), counted(_OLDEST.format(2, 0, SHARD))
    assert settled({}, *sources)[:4] == (0, 3, 0, {"other": 3})


def test_only_what_has_started_may_wait_for_a_shard() -> None:
    assert settled({"ecp": True}, counted(_SUM.format(2, "queued for pg")))[:2] == (3, 0)


def test_of_a_line_each_the_placement_group_tells() -> None:
    """By columns as one by one."""
    line = "{} osd.0 (osd.0) 3 : cluster [WRN] slow request {} initiated {} currently {}"
    lines = [line.format(_AT.format(9), what, _AT.format(0), state).encode() for what, state in
             ((SHARD, "started"), (WHOLE, "started"), (SHARD, "queued for pg"))]  # fmt: skip
    columns, others = requests(lines, LogClock())
    assert not others
    singly = [event(each, None, LogClock()) for each in lines]
    assert [*columns.each()] == singly
    assert [each.state for each in columns.each()] == ["started, erasure-coded", "started", "queued for pg"]


@pytest.mark.parametrize(
    ("state", "right"),
    [("queued for", Blame.OWN), ("op_com", Blame.REPLICA), ("waiting for ", Blame.UNKNOWN), ("star", Blame.UNKNOWN),
     ("started", Blame.OWN), ("a state of tomorrow", Blame.OWN), ("waiting for subo", Blame.UNKNOWN),
     ("waiting for subops from ", Blame.UNKNOWN)],
)  # fmt: skip
def test_what_is_left_of_a_state_blames_only_as_all_that_begin_so(state: str, right: Blame) -> None:
    assert of_state(state) is right


def dumped(description: str, *events: tuple[str, float], lasts: float) -> str:
    """The state of the request of a dump, each event after so many seconds."""

    def at(seconds: float) -> str:
        return datetime.fromtimestamp(1_764_553_140 + seconds, UTC).isoformat()

    one = {
        "description": description,
        "initiated_at": at(0),
        "duration": lasts,
        "type_data": {"events": [{"time": at(seconds), "event": name} for name, seconds in events]},
    }
    text = json.dumps({"num to keep": 20, "threshold to keep": 2, "Ops": [one]}).encode()
    [dump] = parse(text, 0, "here", LogClock())
    return dump.requests[0].state


@pytest.mark.parametrize(
    ("steps", "right"),
    [
        ((("reached_pg", 0), ("started", 0.1)), "started, erasure-coded"),
        ((("started", 0), ("sub_op_started", 0.1), ("sub_op_committed", 0.2)), "sub_op_committed"),
        ((("started", 0), ("sub_op_started", 0.1)), "sub_op_started"),
        ((("started", 0), ("sub_op_started", 0.1), ("sub_op_committed", 8.8)), "waiting for its own disk"),
    ],
    ids=["a read", "its own shard has committed", "no shard has", "its own shard was late"],
)
def test_a_dump_tells_whether_its_own_shard_was_late(steps: tuple[tuple[str, float], ...], right: str) -> None:
    assert dumped(SHARD, *steps, lasts=9) == right
