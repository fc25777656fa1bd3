"""What an OSD remembers of its slow requests, and whom it waited for."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from plimsoll_insight.cli.slow_sources import read_logs
from plimsoll_insight.files.packed import UnreadableLog
from plimsoll_insight.slow.counts import Counts
from plimsoll_insight.slow.dumps import UnreadWords, is_dump, parse, requests
from plimsoll_insight.slow.events import LogClock
from plimsoll_insight.slow.log_reading import LogReading
from plimsoll_insight.slow.messages import next_lines, unknown_lines
from plimsoll_insight.slow.union import together

SAMPLE = Path(__file__).parents[2] / "data/ceph-pacific/osd.1-dump_historic_slow_ops.json"
DESCRIPTION = (
    "osd_op(client.4140.0:39903 1.3 1:ce1654c3:::rbd_data.102afe660f2.0000000000000094:head [write 0~4096] e20)"
)


def dump(*events: tuple[float, str], duration: float = 15.0) -> bytes:
    told = [{"event": text, "time": f"2026-11-21T09:35:{15 + seconds:09.6f}+0000"} for seconds, text in events]
    one = {
        "description": DESCRIPTION, "initiated_at": "2026-11-21T09:35:15.000000+0000", "age": 175.9,
        "duration": duration, "type_data": {"flag_point": "commit sent; apply or cleanup", "events": told},
    }  # fmt: skip
    return json.dumps({"Ops": [one]}).encode()


def test_a_real_write_that_waited_for_a_stopped_replica_blames_that_one() -> None:
    """osd.2 was stopped: osd.1 committed after 13 ms, osd.2 after 15 s. A duration of 4,294,967,296 s is a wrap."""
    [found] = requests(SAMPLE.read_bytes(), 1, "sample", LogClock())
    assert (found.osd, found.peers, found.state) == (1, (2,), "waiting for sub ops")
    assert found.age == pytest.approx(14.98, abs=0.01)
    counts = Counts()
    counts.add(found)
    assert (counts.osds[1].blamed, counts.osds[2].blamed) == (0, 1)


@pytest.mark.parametrize(
    ("events", "peers"),
    [
        ([(0, "waiting for subops from 2"), (14, "op_commit"), (14.1, "sub_op_commit_rec"), (15, "done")], ()),
        ([(0, "waiting for subops from 2,3"), (0.1, "op_commit"), (0.2, "sub_op_commit_rec from 2"),
          (14, "sub_op_commit_rec from 3")], (3,)),
        ([(0, "waiting for subops from 2,3"), (0.1, "op_commit"), (0.2, "sub_op_commit_rec"),
          (14, "sub_op_commit_rec")], ()),
        ([(0, "waiting for subops from 2"), (0.1, "op_commit")], (2,)),
        ([(0, "waiting for subops from 2,3"), (0.1, "op_commit"), (0.2, "sub_op_commit_rec from 2")], (3,)),
        ([(0, "queued_for_pg"), (14, "reached_pg"), (15, "done")], ()),
    ],
    ids=["its own disk", "one of two, named", "unnamed", "no answer yet", "one did not answer", "a queue"],
)  # fmt: skip
def test_who_is_blamed(events: list[tuple[float, str]], peers: tuple[int, ...]) -> None:
    [found] = requests(dump(*events), 1, "dump", LogClock())
    assert found.peers == peers


def test_times_before_octopus_are_read_in_the_zone_that_is_given() -> None:
    [found] = requests(dump((0, "done")).replace(b"+0000", b""), 1, "dump", LogClock(ZoneInfo("Europe/Berlin")))
    assert datetime.fromtimestamp(found.time, UTC) == datetime(2026, 11, 21, 8, 35, 15, 0, UTC)


def test_the_state_is_where_most_time_went() -> None:
    [found] = requests(dump((0, "queued_for_pg"), (14, "reached_pg"), (15, "done")), 1, "dump", LogClock())
    assert found.state == "queued_for_pg"
    [found] = requests(dump((0, "waiting for rw locks"), (14, "reached_pg")), 1, "dump", LogClock())
    assert found.state == "waiting for rw locks"


@pytest.mark.parametrize(
    "text", [b"", b"{}", b'{"Ops": 5}', b'{"Ops": [{}]}', b"[" * 10_000, b'{"ops": [{"description": 5}]}']
)
def test_what_is_no_dump_is_one_line(text: bytes) -> None:
    with pytest.raises(UnreadableLog, match=r"^here: not the output of ceph daemon osd\.N dump_historic_slow_ops$"):
        requests(text, 1, "here", LogClock())


NOTHING = 'osd.0: {\n    "ops": [],\n    "num_blocked_ops": 0\n}\n'
TRACKER = "op_tracker tracking is not enabled now, so no ops are tracked currently"
ASK = "# ceph daemon osd.{} dump_blocked_ops\n"
NO_ANSWER = "Error ENXIO: problem getting command descriptions from osd.1"


@pytest.mark.parametrize(("text", "unread"), [
    (NOTHING, []),
    (f"# warning: x [y] {{z}}\n{NOTHING}# ceph tell osd.* dump_blocked_ops\n{NOTHING}", []),
    (f"{NOTHING}{NO_ANSWER}\n{NOTHING}osd.3: Error EINTR: no answer\n", [NO_ANSWER, "osd.3: Error EINTR: no answer"]),
    (f"{NO_ANSWER.replace('prob', '[errno 6] prob')}\n{NOTHING}", [NO_ANSWER.replace("prob", "[errno 6] prob")]),
    (f"{NOTHING}osd.1: problem getting command descriptions from osd.1\n",
     ["osd.1: problem getting command descriptions from osd.1"]),
    (f"{NOTHING}admin_socket: exception getting command descriptions: [Errno 111] Connection refused\n",
     ["admin_socket: exception getting command descriptions: [Errno 111] Connection refused"]),
    (f"Can't get admin socket path: unable to get conf option admin_socket for osd.9\n{NOTHING}",
     ["Can't get admin socket path: unable to get conf option admin_socket for osd.9"]),
    (f'{NOTHING}osd.4: {{\n    "ops": [\n        {{"type_data": {{"events": [{{"event": "initiated"}}',
     ["an answer of osd.4 that was cut"]),
    (f"{NOTHING}osd.12345: {{", ["an answer of osd.12345 that was cut"]),
    (f'osd.4: {{"ops": [{{"age": 1}}, {{\n{NOTHING}', ["an answer of osd.4 that was cut"]),
    (f'# osd.4\n{{\n    "ops": [\n# osd.0\n{NOTHING[7:]}', ["an answer of osd.4 that was cut"]),
    (f"{NOTHING}osd.1: {TRACKER}\n", [f"osd.1: {TRACKER}"]),
    (f"{ASK.format(0)}{NOTHING[7:]}{ASK.format(1)}ERROR: (22) Invalid argument\n{TRACKER}\n\n"
     f"{ASK.format(2)}{NOTHING[7:]}",
     [f"osd.1: ERROR: (22) Invalid argument {TRACKER}"]),
    (f"{ASK.format(0)}{NOTHING[7:]}{ASK.format(1)}ERROR: (22) Invalid argument\n",
     ["osd.1: ERROR: (22) Invalid argument"]),
    (f"== osd.1 ==\nerror: unable to upgrade connection: x\n== osd.0 ==\n{NOTHING[7:]}== osd.2 ==\n",
     ["no answer of osd.1", "no answer of osd.2"]),
    (f"[root@n1 ~]{ASK.format(3)}^C\n[root@n1 ~]{ASK.format(0)}{NOTHING[7:]}", ["no answer of osd.3"]),
    (f"# ceph osd ok-to-stop osd.3\n{ASK.format(0)}{NOTHING[7:]}", []),
    ('{"ops": [', ["an answer that was cut"]),
])  # fmt: skip
def test_an_osd_that_did_not_answer_and_an_answer_that_was_cut_are_not_none(text: str, unread: list[str]) -> None:
    dumps = parse(text.encode(), None, "here", LogClock())
    assert [each.text for one in dumps for each in one.events if isinstance(each, UnreadWords)] == unread


def test_what_other_lines_of_a_paste_say_of_slow_requests_counts() -> None:
    health = "[WRN] SLOW_OPS: 12 slow ops, oldest one blocked for 403 sec, daemons [osd.1,osd.4] have slow ops."
    stamp = "2024-03-27T18:29:18.120+0000 7f4444441640"
    own = f"{stamp} -1 osd.7 23 get_health_metrics reporting 5 slow ops, oldest is {DESCRIPTION}"
    cut = f"{stamp}  0 log_channel(cluster) log [WRN] : 3 slow requests (by type [ 'delayed' : 3 ])"
    others = json.dumps({"ops": [{"description": "log(1 entries)"}], "num_ops": 1})
    status = json.dumps({"checks": {"SLOW_OPS": {"summary": {"message": health[16:].replace("osd.1,", "osd.2,")}}}})
    text = f"# ceph daemon mon.a ops\n{others}\n# ceph health -f json\n{status}\n"
    text += f"# ceph health detail\n{health}\n# slow ops of osd.4\n{NOTHING[7:]}# tail ceph-osd.7.log\n{own}\n{cut}\n"
    clock = LogClock()
    clock.until = 1.7e9
    counts, unread = Counts(), []
    for event in (each for part in parse(text.encode(), None, "here", clock) for each in part.events):
        if isinstance(event, UnreadWords):
            unread.append(event.text)
        else:
            counts.add(event)
    assert (counts.by_monitor.number, counts.by_monitor.osds, counts.osds[7].reported) == (12, {1, 2, 4}, 5)
    assert unread == [cut]


SLOW = json.loads(dump((0, "queued_for_pg"), (14, "reached_pg")))["Ops"]
QUICK = [{**SLOW[0], "duration": 9.5}]


@pytest.mark.parametrize(("text", "whose"), [
    (json.dumps(SLOW), [5]), (json.dumps(SLOW + QUICK, indent=2), [5]),
    ("\n".join(json.dumps(each, indent=2) for each in SLOW + QUICK + SLOW), [5, 5]),
    (json.dumps({"num to keep": 20, "threshold to keep": 1, "Ops": SLOW + SLOW + QUICK}, indent=4)[:-300], [5, 5]),
    (json.dumps({"Ops": [*SLOW, "CUT", *SLOW]}).replace('"CUT"', "..."), [5, 5]),
    (f"# osd.7\n{json.dumps({'Ops': [*SLOW, 'CUT']}).replace('CUT', '')[:-3]}", [7]),
    (f"# ceph daemon mon.a ops\n{json.dumps({'ops': SLOW})}\n{ASK.format(8)}{json.dumps({'ops': SLOW})}", [8]),
    (f"[root@n1 osd.2 {{x}}]# tail -1 ceph.log\n2026-11-21T09:35:15.0+0000 osd.9 (osd.9) 3 : cluster [DBG] 2.1"
     f" scrub ok\n{json.dumps({'ops': SLOW})}", [2]),
])  # fmt: skip
def test_requests_by_themselves_and_in_an_answer_that_was_cut_are_of_whom_was_asked(
    text: str, whose: list[int]
) -> None:
    assert is_dump(text.encode())
    assert [each.osd for part in parse(text.encode(), 5, "here", LogClock()) for each in part.requests] == whose


@pytest.mark.parametrize(("head", "slow", "quick", "full"), [
    ({"num to keep": 2, "threshold to keep": 9}, 2, 0, True),
    ({"num to keep": 2, "threshold to keep": 9}, 1, 0, False),
    ({"size": 2, "duration": 600}, 2, 0, True), ({"size": 2, "duration": 600}, 1, 1, False),
    ({"num_blocked_ops": 2}, 2, 0, False), ({"size": "2"}, 2, 0, False),
])  # fmt: skip
def test_an_osd_that_has_as_many_as_it_remembers_may_have_had_more(
    tmp_path: Path, head: dict[str, int], slow: int, quick: int, full: bool
) -> None:
    (tmp_path / "osd.5.json").write_text(json.dumps(head | {"ops": SLOW * slow + QUICK * quick}))
    reading = LogReading.nothing(LogClock())
    read_logs([tmp_path / "osd.5.json"], reading, lambda _: None)
    words = [*unknown_lines(reading, together(reading.cluster, reading.own, reading.dumped), ())]
    assert words == (["osd.5 may have had more: an OSD remembers no more than its last 20 or so."] if full else [])
    reading = LogReading.nothing(LogClock())
    reading.since = datetime(2026, 11, 21, 10, tzinfo=UTC).timestamp()
    read_logs([tmp_path / "osd.5.json"], reading, lambda _: None)
    assert not reading.full


def test_whose_dump_is_there_is_not_asked_for_it_again(tmp_path: Path) -> None:
    lease = json.loads(dump((0, "waiting for readable"), (14, "reached_pg")))
    paths = [tmp_path / "osd.5.json", tmp_path / "saved"]
    paths[0].write_text(json.dumps(lease))
    paths[1].write_text("[WRN] SLOW_OPS: 1 slow ops, oldest one blocked for 403 sec, osd.4 has slow ops\n")
    for logs, next_ in ((paths[:1], []), (paths, ["osd.4"])):
        reading = LogReading.nothing(LogClock())
        read_logs(logs, reading, lambda _: None)
        counts = together(reading.cluster, reading.own, reading.dumped)
        assert [line.split()[3] for line in next_lines(counts, None)] == next_


OWN = {1: (1, 0, 0, 0, 0)}
WAITS = {1: (0, 0, 0, 1, 0)}
UNKNOWN = {1: (0, 0, 0, 0, 1)}
LOCKS = {1: (0, 0, 1, 0, 0)}
REPLICA_2 = {1: (0, 0, 0, 0, 0), 2: (0, 1, 0, 0, 0)}


@pytest.mark.parametrize(
    ("events", "duration", "counts"),
    [
        ([(0, "queued_for_pg"), (0.02, "waiting for subops from 2,3"), (0.1, "op_commit"), (0.2, "sub_op_commit_rec"),
          (14, "sub_op_commit_rec"), (14, "commit_sent"), (14, "done")], 14, WAITS),
        ([(0, "queued_for_pg"), (0.1, "reached_pg"), (0.1, "waiting for rw locks")], 45, LOCKS),
        ([(0, "queued_for_pg"), (0.1, "waiting for subops from 2,3"), (0.2, "op_commit")], 45, WAITS),
        ([(0, "queued_for_pg"), (0.1, "waiting for subops from 2"), (0.2, "op_commit")], 45, REPLICA_2),
        ([(0, "queued_for_pg"), (0.1, "waiting for subops from 2")], 45, UNKNOWN),
        ([(0, "queued_for_pg"), (0.1, "waiting for subops from 2"), (0.2, "sub_op_commit_rec")], 45, OWN),
        ([(0, "waiting for subops from 2"), (14, "op_commit"), (14.1, "sub_op_commit_rec"), (15, "done")], 15, OWN),
        ([(0, "queued_for_pg"), (14, "reached_pg"), (15, "done")], 15, OWN),
    ],
    ids=["two replicas", "still locked", "still waiting for two", "still for one", "nobody has committed",
         "its own disk, still", "its own disk", "its queue"],
)  # fmt: skip
def test_who_is_counted(events: list[tuple[float, str]], duration: float, counts: dict[int, tuple[int, ...]]) -> None:
    assert counted(events, duration) == counts


def counted(events: list[tuple[float, str]], duration: float) -> dict[int, tuple[int, ...]]:
    some = Counts()
    for each in requests(dump(*events, duration=duration), 1, "dump", LogClock()):
        some.add(each)
    names = ("primary", "replica", "locks", "waits", "unknown")
    return {osd: tuple(getattr(each, name) for name in names) for osd, each in some.osds.items()}


@pytest.mark.parametrize(
    ("wait", "counts"),
    [
        ("waiting for peered", WAITS),
        ("waiting for readable", WAITS),
        ("waiting for replay end", UNKNOWN),
        ("waiting for missing object", UNKNOWN),
        ("waiting for all missing", UNKNOWN),
        ("waiting for clean to repair", UNKNOWN),
        ("waiting for cache not full", UNKNOWN),
        ("waiting_for_map not empty", UNKNOWN),
        ("op must wait for map", UNKNOWN),
        ("waiting_for_osdmap", UNKNOWN),
        ("waiting for scrub", OWN),
        ("waiting for flush", OWN),
    ],
)
def test_a_delayed_request_waits_for_what_its_event_says(wait: str, counts: dict[int, tuple[int, ...]]) -> None:
    """What ``mark_delayed`` is called with, and ``flag_point`` is ``delayed``."""
    events = [(0.0, "queued_for_pg"), (0.1, "reached_pg"), (0.2, wait), (14.0, "reached_pg"), (15.0, "done")]
    assert counted(events, 15.0) == counts


def test_a_request_that_waits_for_leases_waits_for_others_and_a_ping_is_no_load_of_its_image() -> None:
    """Of an OSD whose replica was frozen: since Octopus others must renew the lease of a placement group."""
    write, inside = "0000000000000094:head [write 0~4096]", "watch ping cookie 140 gen 2"
    ping = DESCRIPTION.replace(f"data.102afe660f2.{write}", f"header.102afe660f2:head [{inside}]")
    ping = ping.replace("39903", "39904")
    waits = (
        (0, "queued_for_pg"),
        (0.1, "reached_pg"),
        (0.2, "waiting for readable"),
        (14.9, "reached_pg"),
        (15, "done"),
    )
    counts = Counts()
    for description in (ping, DESCRIPTION):
        [found] = requests(dump(*waits).replace(DESCRIPTION.encode(), description.encode()), 0, "dump", LogClock())
        assert (found.state, found.peers) == ("waiting for readable", ())
        assert found.operation.image == (None if description == ping else "102afe660f2")
        counts.add(found)
    assert (counts.osds[0].total, counts.osds[0].blamed) == (2, 0)


def test_the_age_is_that_of_whom_it_waited_for_too() -> None:
    some = Counts()
    for each in requests(SAMPLE.read_bytes(), 1, "sample", LogClock()):
        some.add(each)
    assert some.osds[2].worst_age == pytest.approx(14.98, abs=0.01)


def test_a_step_without_a_time_is_none_of_a_request() -> None:
    text = dump((0, "throttled"), (0, "queued_for_pg"), (14, "reached_pg")).decode()
    text = text.replace('"throttled", "time": "2026-11-21T09:35:15.000000+0000"', '"throttled", "time": "0.000000"')
    [one] = requests(text.encode(), 1, "dump", LogClock())
    assert (one.state, "0.000000" in text) == ("queued_for_pg", True)


JEWEL = {"summary": [{"severity": "HEALTH_WARN", "summary": "9 requests are blocked > 32 sec"}],
         "detail": ["9 ops are blocked > 65.536 sec on osd.4"], "overall_status": "HEALTH_WARN"}  # fmt: skip
LUMINOUS = {"checks": {
    "REQUEST_SLOW": {"summary": {"message": "5 slow requests are blocked > 32 sec. Implicated osds 4"}},
    "REQUEST_STUCK": {"summary": {"message": "4 stuck requests are blocked > 4096 sec. Implicated osds 4"}},
}}  # fmt: skip


DASHBOARD = {"checks": [{"type": name, **check} for name, check in LUMINOUS["checks"].items()]}


@pytest.mark.parametrize("health", [JEWEL, {"health": {"health_services": []}} | JEWEL, LUMINOUS, DASHBOARD])
@pytest.mark.parametrize("command", ["health", "status"])
def test_the_checks_of_a_cluster_are_those_of_its_text(health: dict[str, object], command: str) -> None:
    text = json.dumps(health if command == "health" else {"fsid": "029b", "health": health}).encode()
    clock = LogClock()
    clock.until = 1.7e9
    counts = Counts()
    for event in (each for part in parse(text, None, "here", clock) for each in part.events):
        assert not isinstance(event, UnreadWords)
        counts.add(event)
    assert (counts.by_monitor.number, counts.by_monitor.osds, counts.osds[4].least) == (9, {4}, 9)


def test_json_of_something_else_is_no_osd_s_without_a_name() -> None:
    with pytest.raises(UnreadableLog, match=r"^here: JSON without requests of an OSD"):
        parse(b'{"nodes": [{"id": -1}], "stray": []}', None, "here", LogClock())


@pytest.mark.parametrize("duration", ["NaN", "Infinity", "1" + "0" * 400, "-1"])
def test_a_duration_that_nothing_has_is_one_line(duration: str) -> None:
    with pytest.raises(UnreadableLog, match="not the output"):
        requests(dump(duration=7.25).replace(b"7.25", duration.encode()), 1, "here", LogClock())
