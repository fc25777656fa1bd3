"""What ``ceph status --format json`` says, in the shapes that releases gave it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll_agent.adapters.ceph import parse
from plimsoll_agent.errors import Rejected
from plimsoll_agent.reconcile.health_gate import ClusterHealth
from tests.unit.values import examples

FSID = "4b5c8c0a-ff60-454b-a1b4-9747aa737d19"

WELL = """
{"fsid":"4b5c8c0a-ff60-454b-a1b4-9747aa737d19","health":{"status":"HEALTH_OK","checks":{},"mutes":[]},
"election_epoch":5,"quorum":[0],"quorum_names":["a"],"quorum_age":86,"monmap":{"epoch":1,"num_mons":1},
"osdmap":{"epoch":42,"num_osds":3,"num_up_osds":3,"num_in_osds":3},"progress_events":{}}"""

UNWELL = """
{"fsid":"4b5c8c0a-ff60-454b-a1b4-9747aa737d19","health":{"status":"HEALTH_ERR","checks":{
"SLOW_OPS":{"severity":"HEALTH_WARN","summary":{"message":"12 slow ops, oldest one blocked for 41 sec, osd.1 has slow
 ops","count":12},"muted":false},
"OSD_DOWN":{"severity":"HEALTH_WARN","summary":{"message":"1 osds down","count":1},"muted":true}},
"mutes":[{"code":"OSD_DOWN","sticky":false,"summary":"1 osds down","count":1}]},"quorum":[0]}""".replace(
    "slow\n", "slow"
)

LUMINOUS = """
{"fsid":"4b5c8c0a-ff60-454b-a1b4-9747aa737d19","health":{"checks":{"PG_AVAILABILITY":{"severity":"HEALTH_WARN",
"summary":{"message":"Reduced data availability: 3 pgs inactive"}}},"status":"HEALTH_WARN","summary":[{"severity":
"HEALTH_WARN","summary":"'ceph health' JSON format has changed in luminous."}],"overall_status":"HEALTH_WARN"}}"""


def test_a_cluster_that_is_well_raises_nothing() -> None:
    assert parse(WELL.encode()) == ClusterHealth(fsid=FSID, raised=(), osds=3)


def test_checks_that_are_raised_are_named_muted_ones_too() -> None:
    """A mute says that somebody knows, not that it is well."""
    words = ("1 osds down", "12 slow ops, oldest one blocked for 41 sec, osd.1 has slow ops")
    assert parse(UNWELL.encode()) == ClusterHealth(
        fsid=FSID, raised=("OSD_DOWN", "SLOW_OPS"), words=words, counts={"OSD_DOWN": 1, "SLOW_OPS": 12}
    )


def test_luminous_is_read_as_well() -> None:
    words = ("Reduced data availability: 3 pgs inactive",)
    assert parse(LUMINOUS.encode()) == ClusterHealth(fsid=FSID, raised=("PG_AVAILABILITY",), words=words)


@pytest.mark.parametrize(
    ("osdmap", "osds"),
    [
        ({"epoch": 42, "num_osds": 700, "num_up_osds": 699, "num_in_osds": 700}, 700),
        ({"osdmap": {"epoch": 42, "num_osds": 700}}, 700),  # up to Nautilus
        ({"num_osds": "700"}, None),
        ({"num_osds": -1}, None),
        ({"num_osds": True}, None),
        ({"num_osds": 7e2}, None),
        ({"osdmap": []}, None),
        ([], None),
        (None, None),
    ],
)
def test_the_number_of_osds_is_a_number_or_unknown(osdmap: object, osds: int | None) -> None:
    status = {"fsid": FSID, "health": {"checks": {}}, "osdmap": osdmap}
    assert parse(json.dumps(status).encode()).osds == osds


@pytest.mark.parametrize("count", ["1", -1, 1.0, None, True, {}])
def test_a_count_that_is_no_number_is_unknown(count: object) -> None:
    status = {"fsid": FSID, "health": {"checks": {"OSD_DOWN": {"summary": {"message": "x", "count": count}}}}}
    assert parse(json.dumps(status).encode()) == ClusterHealth(fsid=FSID, raised=("OSD_DOWN",), words=("x",))


@pytest.mark.parametrize(
    ("message", "number"),
    [
        ("25 slow ops, oldest one blocked for 36 sec, daemons [osd.0,osd.3] have slow ops.", 25),
        ("1 slow ops, oldest one blocked for 67565 sec, mon.a has slow ops", 1),
        ("0 slow ops, oldest one blocked for 41 sec, osd.13 has slow ops", None),
        ("slow ops", None),
        (None, None),
    ],
)
def test_the_number_of_slow_requests_is_that_of_the_text_and_not_the_count_which_is_1(
    message: str | None, number: int | None
) -> None:
    checks = {"SLOW_OPS": {"summary": {"message": message, "count": 1}}}
    counts = parse(json.dumps({"fsid": FSID, "health": {"checks": checks}}).encode()).counts
    assert counts.get("SLOW_OPS") == number


@pytest.mark.parametrize(
    ("whose", "of_monitors"),
    [
        ("mon.a has slow ops", True),
        ("daemons [mon.a-1,mon.b] have slow ops.", True),
        ("daemons [mon.a,osd.1] have slow ops.", False),
        ("daemons [mon.a,mon.b]... have slow ops.", False),
        (f"daemons [{','.join(f'mon.{name}{30 * chr(120)}' for name in 'abcdefg')}] have slow ops.", False),
        ("osd.1 has slow ops", False),
    ],
    ids=range(6),
)
def test_slow_requests_are_of_monitors_where_the_whole_text_names_no_other(whose: str, of_monitors: bool) -> None:
    checks = {"SLOW_OPS": {"summary": {"message": f"7 slow ops, oldest one blocked for 39 sec, {whose}"}}}
    health = parse(json.dumps({"fsid": FSID, "health": {"checks": checks}}).encode())
    assert (health.raised, health.monitors_are_slow) == (("SLOW_OPS",), of_monitors)


def test_a_check_that_ceph_counts_nothing_of_has_no_number() -> None:
    checks = {"OSD_NO_SORTBITWISE": {"summary": {"message": "'sortbitwise' flag is not set", "count": 0}}}
    assert parse(json.dumps({"fsid": FSID, "health": {"checks": checks}}).encode()).counts == {}


@pytest.mark.parametrize(
    ("flags", "paused"),
    [
        ("pauserd,pausewr", ("pauserd", "pausewr")),
        ("pausewr,noout,norebalance", ("pausewr",)),
        ("pauserec,noup,nodown,noout", ()),
    ],
)
def test_a_flag_that_pauses_requests_is_told_from_the_others(flags: str, paused: tuple[str, ...]) -> None:
    checks = {"OSDMAP_FLAGS": {"summary": {"message": f"{flags} flag(s) set", "count": len(flags)}}}
    assert parse(json.dumps({"fsid": FSID, "health": {"checks": checks}}).encode()).paused == paused


def test_checks_that_are_new_are_named() -> None:
    status = {"fsid": FSID, "health": {"status": "HEALTH_WARN", "checks": {"NEW_IN_2030": "whatever"}}}
    assert parse(json.dumps(status).encode()) == ClusterHealth(fsid=FSID, raised=("NEW_IN_2030",))


NO_STATUS = {
    "nothing": b"",
    "words": b"HEALTH_OK",
    "a text": b'"HEALTH_OK"',
    "a list": b"[]",
    "no object": b"null",
    "an empty object": b"{}",
    "no fsid": b'{"health": {"checks": {}}}',
    "an fsid that is none": b'{"fsid": null, "health": {"checks": {}}}',
    "no health": f'{{"fsid": "{FSID}"}}'.encode(),
    "health in a word": f'{{"fsid": "{FSID}", "health": "HEALTH_OK"}}'.encode(),
    "no checks, as before luminous": f'{{"fsid": "{FSID}", "health": {{"overall_status": "HEALTH_OK"}}}}'.encode(),
    "checks in a list": f'{{"fsid": "{FSID}", "health": {{"checks": []}}}}'.encode(),
    "checks that are none": f'{{"fsid": "{FSID}", "health": {{"checks": null}}}}'.encode(),
    "no text": b'{"fsid": "\xff", "health": {"checks": {}}}',
    "cut off": WELL.encode()[:-1],
    "two": WELL.encode() * 2,
    "nested beyond reason": b'{"health":' * 100_000,
    "a number beyond reason": b"9" * 5000,
}


@pytest.mark.parametrize("answer", NO_STATUS.values(), ids=NO_STATUS)
def test_what_is_no_status_is_not_taken_for_health(answer: bytes) -> None:
    with pytest.raises(Rejected, match=r"^ceph status cannot be read: "):
        parse(answer)


def test_an_answer_that_cannot_be_read_is_not_told_in_full() -> None:
    with pytest.raises(Rejected) as caught:
        parse(b'{"fsid": "' + b"\xff" * 100_000)
    assert len(str(caught.value)) < 300


@examples
@given(st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1, max_size=50), st.booleans())
def test_any_check_with_any_summary_is_read_as_it_stands(text: str, ascii: bool) -> None:
    checks = {"PG_AVAILABILITY": {"summary": {"message": text, "count": 3}}}
    status = {"fsid": FSID, "health": {"status": text, "checks": checks}, "more": text}
    answer = json.dumps(status, ensure_ascii=ascii).encode()
    expected = ClusterHealth(fsid=FSID, raised=("PG_AVAILABILITY",), words=(text,), counts={"PG_AVAILABILITY": 3})
    assert parse(answer) == expected
