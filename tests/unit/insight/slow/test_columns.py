"""Usual requests by columns beside the same lines one by one: in lines, and in whole logs, cut at any place."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import ahocorasick_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll_insight import slow
from plimsoll_insight.slow import blocks, columns, log_file, reading
from plimsoll_insight.slow.counts import Counts
from plimsoll_insight.slow.events import _OF_INTEREST, OF_SHARDS, Event, LogClock, SlowRequest, event, finder, lines
from plimsoll_insight.slow.log_reading import LogReading
from plimsoll_insight.slow.reading import read
from tests import depth

OP = (
    "osd_op(client.4140.0:39903 1.3 1:ce1654c3:::rbd_data.102afe660f2.0000000000000094:head"
    " [write 2424832~16384 in=16384b] snapc 0=[] ondisk+write+known_if_redirected e20)"
)
USUAL = (
    f"2021-09-19T13:05:31.343245+0000 osd.382 (osd.382) 456 : cluster [WRN] slow request {OP}"
    " initiated 2021-09-19T13:04:31.343245+0000 currently delayed"
)
SAMPLES = [
    line
    for path in sorted((Path(__file__).parents[2] / "data/ceph-dialects").glob("*/*"))
    for line in lines(path.read_bytes().rstrip(b"\n") + b"\n")
]
_FIELD = re.compile(r"[\w.+:-]+|[^\w.+:-]+")
_OTHER_FIELDS = [
    "", "60.0", "24:61", "9999-01-01T00:00:00+0000", "2021-09-19T13:05:31Z", "2021-09-19T13:05:31+02:00", "osd.32768",
    "2021-09-19T13:05:31.5-0530", "2021-09-19 13:05:31", "2021-09-19T13:05:31+9999", "[watch ping", "client.1.0:3",
    " currently ", "waiting for subops from 1,2", ") initiated ", "rbd_header.aabbcc", "(", " 1.3 ", " [", "watch",
    "rbd_data.3.77aabb00ccdd.0000000000000001", "rbd_data.123456.0000000000000000.0000000000000001", "3.1fs0",
    "2021-09-31T13:05:31.343245+0000", "2021-10-01T00:00:00.000001+0000", "2021-09-19T13:05:31.343245+0530", "osd.7",
    "1:ce1654c3:::rbd_data.9.102afe660f2.0000000000000094:head", "4.1f", "commit sent; apply or cleanup", "123456789",
    "2021-09-19T13:05:61.999999+0000", "2021-09-19T25:05:31.343245+0000", "sub_op_commit_rec", "get_health_metrics",
    "1:ce1654c3:::rbd_data.0123456789.102afe660f2.0000000000000094:head", "client.18446744073709551615.0:99999999999",
]  # fmt: skip


@st.composite
def _changed(draw: st.DrawFn) -> bytes:
    """A usual line with other fields, or a real line of a dialect with other bytes; or only its begin."""
    if draw(st.booleans()):
        fields = _FIELD.findall(USUAL)
        for _ in range(draw(st.integers(0, 3))):
            place, new = draw(st.integers(0, len(fields) - 1)), draw(st.sampled_from(_OTHER_FIELDS))
            fields[place] = fields[place] + new if draw(st.booleans()) else new
        line = "".join(fields).encode()
    else:
        line = draw(st.sampled_from(SAMPLES))
        for _ in range(draw(st.integers(0, 2))):
            place, more = draw(st.integers(0, 400)), draw(st.binary(max_size=3)).replace(b"\n", b"")
            line = line[:place] + more + line[place + len(more) :]
    return line[: draw(st.integers(0, 400))] if draw(st.integers(0, 9)) == 0 else line


def by_columns(told: Sequence[bytes]) -> list[Event | None]:
    usual, others = columns.requests(told, LogClock())
    found: list[Event | None] = list(usual.each())
    for place, (before, line) in enumerate(others):
        found.insert(before + place, event(line, None, LogClock()))
    return found


@given(st.lists(_changed(), min_size=1, max_size=12))
@settings(max_examples=depth.count(quick=300, landing=1500, soak=1_000_000))
def test_lines_are_read_by_columns_as_one_by_one(told: list[bytes]) -> None:
    assert by_columns(told) == [event(line, None, LogClock()) for line in told]


@pytest.mark.parametrize(("old", "new"), [
    ("", ""),
    ("1.3 1:", "3.1fs0 1:"),
    ("rbd_data.102afe660f2", "rbd_data.9.102afe660f2"),
    ("rbd_data.102afe660f2", "rbd_data.0123456789abcdef"),
    ("delayed", "commit sent; apply or cleanup"),
    ("+0000", "+0530"),
    ("client.4140.0:39903", "client.18446744073709551615.0:99999999999"),
    (" snapc 0=[]", " rbd_data.3.77aabb00ccdd.0000000000000001 [watch ping"),  # of another object
])  # fmt: skip
def test_usual_forms_are_read_by_columns(old: str, new: str) -> None:
    line = USUAL.replace(old, new).encode()
    usual, others = columns.requests([line], LogClock())
    assert not others
    assert list(usual.each()) == [event(line, None, LogClock())]


@pytest.mark.parametrize("state", ["started", "started ", "started\r", " started"])
def test_a_request_with_shards_is_known_by_its_state_without_blanks(state: str) -> None:
    line = USUAL.replace(" 1.3 ", " 1.3s0 ").replace("delayed", state).encode()
    usual, others = columns.requests([line], LogClock())
    assert not others
    assert [each.state for each in usual.each()] == [OF_SHARDS]
    assert list(usual.each()) == [event(line, None, LogClock())]


def test_the_first_line_gives_month_and_zone_and_those_of_others_are_read_one_by_one() -> None:
    other = USUAL.replace("2021-09-19", "2021-10-19")
    told = [each.encode() for each in (f"x{USUAL}", USUAL, other, USUAL.replace("+0000", "+0200"), USUAL)]
    usual, others = columns.requests(told, LogClock())
    assert len(usual.times) == 2
    assert others == [(0, told[0]), (1, told[2]), (1, told[3])]


@pytest.mark.parametrize(("old", "new"), [
    ("client.4140.0:39903", f"client.{'4' * 20}.{'1' * 10}:{'3' * 11}"),
    ("delayed", "delayed" * 7),
    ("delayed", "delayed\0"),
    ("[write 2424832~16384", f"[write 2424832~16384,{'write 0~1,' * 30}"),
])  # fmt: skip
def test_what_a_column_has_no_room_for_is_read_one_by_one(old: str, new: str) -> None:
    """NumPy cuts what is too long, and drops a NUL at the end."""
    told = [USUAL.encode(), USUAL.replace(old, new).encode()]
    usual, others = columns.requests(told, LogClock())
    assert (len(usual.times), others) == (1, [(1, told[1])])


@pytest.mark.parametrize("time", [
    "2021-02-28T23:59:59.999999+0000", "2020-02-29T00:00:00.000000-0530", "2021-12-31T23:00:00.5+0000",
    "2021-02-29", "2021-13-01", "2021-04-31", "2021-04-00", "2021-04-30T24:00", "2021-04-30T23:60",
    "2021-04-30 23:50", "2021-04-30U23:50", "2021-04-30T23;50", "1921-04-30",
])  # fmt: skip
def test_a_day_that_the_month_has_not_is_no_time(time: str) -> None:
    line = time.encode() + USUAL[len(time) :].encode()
    assert by_columns([line]) == [event(line, None, LogClock())]


# --- whole logs

_STATES = [
    "delayed", "waiting for sub ops", "waiting for rw locks", "commit sent; apply or cleanup", "sub_op_commit_rec",
    "waiting for subops from 1,2", "waiting for readable", "started",
]  # fmt: skip


def _stamp(second: int) -> str:
    return f"2021-09-30T23:{58 + second // 60}:{second % 60:02}.{second * 7919 % 1_000_000:06}+0000"


@st.composite
def _line(draw: st.DrawFn, second: int) -> str:
    """Of any kind, of three OSDs and few requests, so that they meet."""
    now, osd, request = _stamp(second), draw(st.integers(0, 2)), draw(st.integers(0, 5))
    name = draw(st.sampled_from(["102afe660f2", "9.102afe660f3", "aabbccddeeff00"]))
    words = (
        f"slow request osd_op(client.4.0:{request} 1.3 1:ce1654c3:::rbd_data.{name}.0000000000000094:head [write 0~1"
        f" in=1b] snapc 0=[] e20) initiated {_stamp(draw(st.integers(0, second)))} currently"
        f" {draw(st.sampled_from(_STATES))}"
    )
    head = f"{now} osd.{osd} (osd.{osd}) 4 : cluster [WRN]"
    line = f"{head} {words}"
    number = draw(st.integers(1, 9))
    match draw(st.integers(0, 15)):
        case 0:
            return f"{head} {number} slow requests (by type [ 'delayed' : {number} ])"
        case 1:
            return line.replace("osd_op(", "osd_repop(")
        case 2:
            return f"{now} 7f0ad8ff96c0  0 log_channel(cluster) log [WRN] : {words}"
        case 3:
            return f"{now} mon.a (mon.0) 9 : cluster [INF] osd.{osd} failed (root=default,host=x)"
        case 4:
            sum_ = f"Health check update: {number} slow ops, oldest one blocked for 32 sec, osd.{osd} has slow ops"
            return f"{now} mon.a (mon.0) 9 : cluster [WRN] {sum_} (SLOW_OPS)"
        case 5:
            oldest = f"reporting {number} slow ops, oldest is osd_op(client.4.0:{request} 1.3)"
            return f"{now} 7f0a1b2c3d -1 osd.{osd} 20 get_health_metrics {oldest}"
        case 6:
            return line[: draw(st.integers(0, len(line)))]
        case 7:
            return line.replace("[write 0~1", "[watch ping cookie 1")
        case 8:
            return f"{now} mgr.x (mgr.4) 24 : cluster [DBG] pgmap v29: 17 pgs: 17 active+clean"
        case 9:
            return line.replace("+0000", "+0200")
        case _:
            return line


@st.composite
def _log(draw: st.DrawFn) -> list[str]:
    seconds = draw(st.lists(st.integers(0, 119), min_size=1, max_size=40))
    if draw(st.booleans()):
        seconds.sort()
    return [draw(_line(second)) for second in seconds]


def counted(counts: Counts) -> dict[str, Any]:
    return {
        "osds": counts.osds,
        "states": {osd: dict(each) for osd, each in counts.by_state.of.items()},
        "pools": {osd: dict(each) for osd, each in counts.by_pool.of.items()},
        "images": dict(counts.images),
        "pool of image": counts.pool_of_image,
        "slow": dict(counts.bins.counts),
        "blamed": dict(counts.blamed.counts),
        "span": (counts.first, counts.last),
        "monitor": counts.by_monitor,
    }


def read_as(texts: Sequence[str], many: int, size: int = 1 << 20, since: float | None = None) -> list[object]:
    sizes = patch.object(reading, "_BLOCK", size), patch.object(blocks, "SMALL_BLOCK", size)
    with TemporaryDirectory() as home, sizes[0], sizes[1], patch.object(log_file, "_MANY", many):
        paths = [Path(home) / f"ceph.log.{number}" for number in range(len(texts))]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text)
        found = LogReading.nothing()
        found.since = since
        read(paths, lambda _: None, found)
        examples = [each.replace(home, "") for each in found.examples]
        return [counted(found.cluster), counted(found.own), found.missed, examples, found.telling, len(found.silent)]


ONE_BY_ONE = 1 << 60


@given(_log(), st.integers(1, 3), st.integers(200, 9000), st.booleans(), st.randoms(use_true_random=False))
@settings(max_examples=depth.count(quick=60, landing=250, soak=200_000))
def test_a_log_has_the_same_counts_by_columns_as_one_by_one(
    log: list[str], files: int, size: int, is_since: bool, chance: Any
) -> None:
    """Also one that lies in several files, and of which a part of the time is asked for."""
    texts = [""] * files
    for line in log:
        texts[chance.randrange(files)] += line + "\n"
    since = 1_633_046_310.0 if is_since else None
    assert read_as(texts, 1, size, since) == read_as(texts, ONE_BY_ONE, size, since)


def test_wherever_a_block_ends_the_counts_are_the_same() -> None:
    kinds = [
        USUAL,
        USUAL.replace("39903", "39904"),
        USUAL.replace("osd.382", "osd.7"),
        USUAL.split(" : ")[0] + " : cluster [WRN] 3 slow requests (by type [ 'delayed' : 3 ])",
        USUAL.replace("39903", "39905").replace("05:31.34", "05:35.34"),
        USUAL[:200],
        USUAL.replace("39903", "39906").replace("osd.382", "osd.7").replace("05:31.34", "05:36.34"),
    ]
    text = "\n".join(kinds)
    whole = read_as([text], ONE_BY_ONE)
    for size in range(1, len(text) + 1, depth.count(quick=13, landing=5, soak=1)):
        assert read_as([text], 1, size) == whole, size


def test_identical_logs_of_three_monitors_count_once() -> None:
    text = "".join(f"{USUAL.replace('39903', str(number))}\n" for number in range(40))
    [one, *_], [three, *_] = read_as([text], 1), read_as([text] * 3, 1)
    assert one == three
    assert one == read_as([text], ONE_BY_ONE)[0]


def test_what_another_file_says_between_two_requests_counts_between_them() -> None:
    """One at 05:31, two at 05:41 by the OSD's count, and one at 05:51 that the count of ten seconds ago has not."""
    later = USUAL.replace("39903", "39904").replace("13:05:31", "13:05:51")
    between = USUAL.split(" : ")[0].replace("13:05:31", "13:05:41")
    texts = [f"{USUAL}\n{later}\n", f"{between} : cluster [WRN] 2 slow requests (by type [ 'delayed' : 2 ])\n"]
    found: Any = read_as(texts, 1)
    assert found[0]["osds"][382].primary == 3
    assert found == read_as(texts, ONE_BY_ONE)


def test_requests_that_the_count_of_their_osd_has_and_those_of_several_osds() -> None:
    """osd.382 has three, one of which it tells a second later; osd.7 and osd.8 both complain of one more."""
    count = USUAL.split(" : ")[0] + " : cluster [WRN] 3 slow requests (by type [ 'delayed' : 3 ])"
    told = USUAL.replace("13:05:31", "13:05:32")
    of_two = [told.replace("39903", "39904").replace("osd.382", f"osd.{osd}") for osd in (7, 8, 7)]
    text = "\n".join([count, told, *of_two])
    found: Any = read_as([text], 1)
    assert {osd: each.primary for osd, each in found[0]["osds"].items()} == {382: 3, 7: 1, 8: 1}
    assert found == read_as([text], ONE_BY_ONE)


def test_many_lines_that_others_interrupt_have_the_same_counts() -> None:
    """Three logs tell in turns, so that each request is a part for itself."""
    later = "".join(f"{USUAL.replace('39903', str(n)).replace('13:05:31', f'13:0{n // 60}:{n % 60:02}')}\n" for n in
                    range(240))  # fmt: skip
    with patch.object(reading, "_MOST_PARTS", 7):
        assert read_as([later] * 3, 1)[0] == read_as([later], ONE_BY_ONE)[0]


def test_without_numpy_each_line_is_read_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(f"{USUAL.replace('39903', str(number))}\n" for number in range(40))
    whole = read_as([text], 1)
    monkeypatch.setattr(columns, "requests", lambda *_: pytest.fail("it was used"))
    monkeypatch.delattr(slow, "columns")  # what the package has is not imported again
    monkeypatch.setitem(sys.modules, "plimsoll_insight.slow.columns", None)
    assert read_as([text], 1) == whole


# --- the search


@given(st.lists(st.sampled_from([*_OF_INTEREST, b"\n", b"slow ", b" boot", b"x"]), max_size=30))
@settings(max_examples=depth.examples(300))
def test_one_search_for_all_words_finds_the_lines_that_one_for_each_does(parts: list[bytes]) -> None:
    assert ahocorasick_rs
    block = b"".join(parts) + b"\n"
    with patch.dict(sys.modules, {"ahocorasick_rs": None}):
        for_each = finder()
    assert {block.count(b"\n", 0, place) for place in finder()(block)} == {
        block.count(b"\n", 0, place) for place in for_each(block)
    }


def test_a_request_of_columns_is_one_of_lines() -> None:
    usual, _ = columns.requests([USUAL.encode()], LogClock())
    assert [type(each) for each in usual.each()] == [SlowRequest]
