"""``plimsoll slow`` on the logs of a real cluster, as a person sees it and as a program reads it."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.functional.conftest import Ran

SAMPLES = Path(__file__).parents[1] / "unit" / "data" / "ceph-pacific"
LOGS = [str(each) for each in sorted(SAMPLES.glob("*.log.gz"))]
TREE = str(SAMPLES / "osd-tree.json")


def test_the_tree_has_sums_and_its_osds(plimsoll: Callable[..., Ran]) -> None:
    ran = plimsoll("slow", *LOGS, "--tree", TREE)
    assert (ran.status, ran.err) == (0, "")
    rows = [line.split() for line in ran.out.splitlines()]
    heads = "NAME PRIMARY REPLICA LOCKS WAITS UNKNOWN TOTAL FAILED BOOT WRONGLY DOWN WORST AGE VERDICT"
    assert rows[0] == heads.split()
    assert rows[1][:7] == ["default", "24", "-", "?", "-", "1", "25"]
    assert rows[5] == ["·", "·", "osd.2", "14", "-", "?", "-", "-", "14", "1", "2", "-", "4", "s", "-"]
    assert "No host, rack or OSD stands out." in ran.out


def test_csv_has_a_column_for_each_level_of_the_tree(plimsoll: Callable[..., Ran]) -> None:
    rows = list(csv.DictReader(io.StringIO(plimsoll("slow", *LOGS, "--tree", TREE, "-f", "csv").out)))
    assert [(row["root"], row["host"], row["osd"]) for row in rows] == [
        ("default", "", ""),
        *(("default", "vm", osd) for osd in ("", "0", "1", "2")),
    ]
    assert [row["slow_primary"] for row in rows] == ["24", "24", "3", "7", "14"]


@pytest.mark.parametrize(
    ("by", "first"),
    [
        ("pool", {"pool": "volumes", "requests": 25}),
        ("image", {"image": "102afe660f2", "name": None, "volume": None, "server": None, "guest": None,
                   "guest_uuid": None, "requests": 3}),
        ("state", {"state": "delayed", "requests": 24}),
        ("time", {"begin": "2026-11-21T09:35:00+00:00", "end": "2026-11-21T09:36:00+00:00", "requests": 22,
                  "osds": {"osd.2": 12, "osd.1": 6, "osd.0": 3}}),
    ],
)  # fmt: skip
def test_other_views_of_the_same_requests(plimsoll: Callable[..., Ran], by: str, first: dict[str, object]) -> None:
    assert json.loads(plimsoll("slow", *LOGS, "--by", by, "-f", "json").out)[0] == first


def test_locks_are_null_where_no_line_tells_them(plimsoll: Callable[..., Ran]) -> None:
    rows = json.loads(plimsoll("slow", *LOGS, "--tree", TREE, "-f", "json").out)
    assert [row["rwlock"] for row in rows] == [None] * 5


def test_an_interval_is_as_long_as_told_and_has_hosts_with_a_tree(plimsoll: Callable[..., Ran]) -> None:
    words = ("slow", *LOGS, "--by", "time", "--interval", "10s", "--tree", TREE)
    rows = json.loads(plimsoll(*words, "-f", "json").out)
    assert rows[1] == {
        "begin": "2026-11-21T09:35:30+00:00", "end": "2026-11-21T09:35:40+00:00", "requests": 12,
        "hosts": {"vm": 12}, "osds": {"osd.2": 12},
    }  # fmt: skip
    assert "2026-11-21 09:35:30 UTC        12  vm 12  osd.2 12" in plimsoll(*words).out


def test_an_image_has_its_name_volume_and_guest(plimsoll: Callable[..., Ran], test_node: str, tmp_path: Path) -> None:
    plimsoll("enforce", "--uri", test_node)
    shown = next(each for each in json.loads(plimsoll("disk", "list", "--uri", test_node, "-f", "json").out)
                 if each["guest"] == "instance-00000001" and each["volume"])  # fmt: skip
    volume, pool = shown["volume"], shown["pool"]
    images = tmp_path / "images"
    images.write_text(f"102afe660f2 {pool}/volume-{volume}\n")
    words = ("slow", *LOGS, "--by", "image", "--images", str(images))
    [row] = json.loads(plimsoll(*words, "-f", "json").out)
    assert row == {"image": "102afe660f2", "name": f"{pool}/volume-{volume}", "volume": volume,
                   "server": shown["server"], "guest": "instance-00000001", "guest_uuid": shown["guest_uuid"],
                   "requests": 3}  # fmt: skip
    assert f"102afe660f2  {pool}/volume-{volume}" in plimsoll(*words).out
    images.write_text("102afe660f2\n")
    ran = plimsoll(*words, "-f", "json")
    assert ran.status == 1
    assert "images:1: 102afe660f2 (write ID IMAGE" in ran.err


def test_pools_have_their_names_where_they_are_given_and_else_their_numbers(
    plimsoll: Callable[..., Ran], tmp_path: Path
) -> None:
    (tmp_path / "ceph.log").write_text(
        "2021-09-19T13:05:31.3+0000 osd.1 (osd.1) 4 : cluster [WRN] slow request osd_op(client.1.0:1 7.3 o)"
        " initiated 2021-09-19T13:05:01.3+0000 currently delayed\n"
        "2021-09-19T13:05:32.3+0000 osd.2 (osd.2) 4 : cluster [WRN] 1 slow requests (by type [ 'delayed' : 1 ]"
        " most affected pool [ 'volumes' : 1 ])\n"
    )
    (tmp_path / "pools").write_text("1 volumes\n7 vms\n")

    def by_pool(*words: str) -> dict[str, int]:
        ran = plimsoll("slow", str(tmp_path / "ceph.log"), "--by", "pool", "-f", "json", *words)
        return {row["pool"]: row["requests"] for row in json.loads(ran.out)}

    assert by_pool() == {"pool 7": 1, "volumes": 1}
    assert by_pool("--pools", str(tmp_path / "pools")) == {"vms": 1, "volumes": 1}
    may_be_the_same = "A pool with a number may be one of those with a name"
    words = ("slow", str(tmp_path / "ceph.log"), "--by", "pool")
    assert may_be_the_same in plimsoll(*words).out
    assert may_be_the_same not in plimsoll(*words, "--pools", str(tmp_path / "pools")).out


def test_the_zone_of_times_without_one_is_told(plimsoll: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "ceph.log").write_text(
        "2016-09-19 13:05:31.343245 osd.1 10.0.0.1:6800/123 456 : cluster [WRN] slow request 30.1 seconds old,"
        " received at 2016-09-19 13:05:01.343245: osd_op(client.41.0:1 o 1.ce1654c3 e20) currently reached_pg\n"
    )
    words = ("slow", str(tmp_path / "ceph.log"), "--by", "time")
    said = "Times without a zone were read as UTC; --timezone gives another one."
    assert said in plimsoll(*words).out
    ran = plimsoll(*words, "-f", "json")
    assert (json.loads(ran.out)[0]["begin"], ran.err) == ("2016-09-19T13:05:00+00:00", f"{said}\n")
    ran = plimsoll(*words, "--timezone", "Europe/Berlin", "-f", "json")
    assert (json.loads(ran.out)[0]["begin"], ran.err) == ("2016-09-19T11:05:00+00:00", "")
    assert "Times without a zone were read as Europe/Berlin." in plimsoll(*words, "--timezone", "Europe/Berlin").out


def test_a_dump_of_an_osd_names_whom_it_waited_for(plimsoll: Callable[..., Ran]) -> None:
    rows = json.loads(plimsoll("slow", str(SAMPLES / "osd.1-dump_historic_slow_ops.json"), "-f", "json").out)
    assert {row["name"]: row["slow_subop"] for row in rows} == {"osd.1": 0, "osd.2": 1}


def test_an_osd_that_stands_out_is_named(plimsoll: Callable[..., Ran], tmp_path: Path) -> None:
    lines = [
        f"2021-09-19T13:{minute:02}:31.3+0000 osd.{osd} (osd.{osd}) 4 : cluster [WRN] {count} slow requests"
        f" (by type [ 'delayed' : {count} ] most affected pool [ 'volumes' : {count} ])\n"
        for minute in range(10)
        for osd, count in ((0, 2), (1, 40), (2, 1))
    ]
    (tmp_path / "ceph.log").write_text("".join(lines))
    ran = plimsoll("slow", str(tmp_path / "ceph.log"), "--tree", TREE)
    assert (
        "osd.1 stands out: 400 of the 430 requests that hdd OSDs may have caused are its own, the next OSD has 20."
        " They lie in 10 minutes, and it leads in 10." in " ".join(ran.out.split())
    )
    assert [line.split()[2] for line in ran.out.splitlines() if line.endswith("stands out")] == ["osd.1"]
    page = tmp_path / "slow.html"
    plimsoll("slow", str(tmp_path / "ceph.log"), "--tree", TREE, "--plot", str(page))
    headline, then = re.findall(r"<h1>(.*?)</h1>|<p>(.*?)</p>", page.read_text())[:2]
    assert (headline[0], then[1][:34]) == ("osd.1 stands out", "400 of the 430 requests that hdd O")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "give logs, or --live, and not both"),
        (("nowhere",), "nowhere: no such file"),
        ((TREE.replace("osd-tree", "no"), "--tree", "x"), "--tree: x: no such file"),
        ((LOGS[0], "--timezone", "Mars/Olympus"), "--timezone Mars/Olympus: no such zone"),
        ((LOGS[0], "--interval", "500ms"), "--interval: must be from 1 seconds to a day"),
        ((LOGS[0], "--pools", "x"), "--pools: x: no such file"),
        ((LOGS[0], "--until", "never"), "--until: 'never' is not a time"),
    ],
)
def test_a_wrong_word_is_one_line_and_status_64(
    plimsoll: Callable[..., Ran], words: tuple[str, ...], sentence: str
) -> None:
    ran = plimsoll("slow", *words)
    assert (ran.status, ran.out) == (64, "")
    assert sentence in ran.err


def test_a_file_that_is_no_tree_and_a_cluster_that_is_not_there(plimsoll: Callable[..., Ran], tmp_path: Path) -> None:
    ran = plimsoll("slow", TREE)
    assert (ran.status, "JSON without requests of an OSD" in ran.err) == (1, True)
    (tmp_path / "dump.json").write_text('{"ops": [], "num_ops": 0}')
    ran = plimsoll("slow", str(tmp_path / "dump.json"))
    assert (ran.status, "whose is it? its name must have osd.N" in ran.err) == (64, True)
    ran = plimsoll("slow", LOGS[0], "--tree", LOGS[0])
    assert ran.status == 1
    assert "not the output of ceph osd tree" in ran.err
    ran = plimsoll("slow", "--live", "--ceph-conf", str(tmp_path / "none.conf"))
    assert (ran.status, ran.err) == (64, f"--ceph-conf: {tmp_path}/none.conf: no such file\n")


def test_a_log_without_slow_requests_says_so(plimsoll: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "ceph.log").write_text("2021-09-19T13:05:31.3+0000 mon.a (mon.0) 4 : cluster [DBG] pgmap v1\n")
    assert plimsoll("slow", str(tmp_path / "ceph.log")).out.splitlines()[0] == "No slow requests."


def test_a_file_that_is_no_log_does_not_look_like_one_without_slow_requests(
    plimsoll: Callable[..., Ran], tmp_path: Path
) -> None:
    foreign, empty = tmp_path / "a.log", tmp_path / "b.log"
    foreign.write_text("a,b\n1,2\n")
    empty.touch()
    ran = plimsoll("slow", str(foreign))
    assert (ran.status, ran.out) == (1, "")
    assert f"{foreign}: no line begins as in a log of Ceph; give ceph.log or ceph-osd.N.log" in " ".join(
        ran.err.split()
    )
    assert f"Not a log of Ceph: {foreign}." in " ".join(plimsoll("slow", LOGS[0], str(foreign)).out.split())
    ran = plimsoll("slow", str(empty))
    said = f"No slow requests in what is known. {empty} is empty. So it cannot be told whether there are any."
    assert (ran.status, " ".join(ran.out.split()).startswith(said)) == (5, True)


def test_a_log_in_which_no_line_is_understood_does_not_look_like_one_without_slow_requests(
    plimsoll: Callable[..., Ran], tmp_path: Path
) -> None:
    (tmp_path / "ceph.log").write_text(
        "2021-09-19T13:05:31.3+0000 osd.1 (osd.1) 4 : a slow request, told otherwise\n" * 3
    )
    said = "3 lines about slow requests not understood; the first: 2021-09-19T13:05:31.3+0000 osd.1"
    assert plimsoll("slow", str(tmp_path / "ceph.log")).out.startswith(f"No slow requests in what is known. {said}")
    ran = plimsoll("slow", str(tmp_path / "ceph.log"), "-f", "json")
    [row] = json.loads(ran.out)
    assert (ran.status, row["answer"], row["reason"].startswith(said)) == (5, "cannot tell", True)
    assert ran.err.startswith(said)


def test_an_osd_that_only_reports_a_number_is_shown_and_not_blamed(
    plimsoll: Callable[..., Ran], tmp_path: Path
) -> None:
    (tmp_path / "ceph-osd.5.log").write_text("".join(
        f"2019-09-19 13:05:{30 + second}.343 7f0ad8ff96c0 -1 osd.5 20 get_health_metrics reporting {10 * second} slow"
        " ops, oldest is osd_op(client.4140.0:39903 1.3 1:ce1654c3:::rbd_data.102afe660f2.0000000000000094:head)\n"
        for second in range(1, 10)
    ))  # fmt: skip
    ran = plimsoll("slow", str(tmp_path / "ceph-osd.5.log"))
    assert ran.out.splitlines()[1].split()[:7] == ["osd.5", "-", "-", "?", "-", "90", "90"]
    assert "No line tells what the requests of osd.5 wait for" in ran.out
    [row] = json.loads(plimsoll("slow", str(tmp_path / "ceph-osd.5.log"), "--by", "time", "-f", "json").out)
    assert row["requests"] == 90


LIVE = """#!/bin/sh
case "$*" in
*"osd tree"*) cat {tree} ;;
*tell\\ osd.{guilty}\\ *) echo "Error EACCES: access denied" >&2; exit 13 ;;
*) echo '{{"ops": []}}' ;;
esac
"""


def live(plimsoll: Callable[..., Ran], path: Path, guilty: str, *words: str, script: str = LIVE) -> Ran:
    tree = json.loads(Path(TREE).read_text())
    tree["nodes"] = [node | ({"status": "down"} if node["id"] == 0 else {}) for node in tree["nodes"]]
    (path / "tree.json").write_text(json.dumps(tree))
    (path / "ceph").write_text(script.format(tree=path / "tree.json", guilty=guilty))
    (path / "ceph").chmod(0o755)
    (path / "ceph.conf").touch()
    return plimsoll(
        "slow", "--live", "--ceph-conf", str(path / "ceph.conf"), *words, PATH=f"{path}:{os.environ['PATH']}"
    )


def test_osds_that_do_not_answer_and_those_that_are_down_are_named(
    plimsoll: Callable[..., Ran], tmp_path: Path
) -> None:
    unknown = "No answer from, and not counted: osd.2; osd.2: ceph tell osd.2 dump_historic_slow_ops ended with 13"
    ran = live(plimsoll, tmp_path, "2")
    assert ran.out.startswith(f"No slow requests in what is known. {unknown}")
    assert "Down, and not asked: osd.0." in ran.out
    assert "ended with 13: Error EACCES: access denied; client.plimsoll may not: name another by --id" in " ".join(
        ran.out.split()
    )
    ran = live(plimsoll, tmp_path, "2", "-f", "json")
    [row] = json.loads(ran.out)
    assert (ran.status, row["answer"], row["reason"].startswith(unknown)) == (5, "cannot tell", True)
    assert ran.err.startswith(unknown)


def test_a_cluster_of_which_no_osd_answers_is_an_error(plimsoll: Callable[..., Ran], tmp_path: Path) -> None:
    ran = live(plimsoll, tmp_path, "[12]")
    assert (ran.status, ran.out) == (1, "")
    assert "no OSD answered (2 up, 1 down); osd.1: ceph tell osd.1" in ran.err


def test_what_an_osd_s_log_and_its_dump_both_tell_counts_once(plimsoll: Callable[..., Ran]) -> None:
    dump = str(SAMPLES / "osd.1-dump_historic_slow_ops.json")
    rows = json.loads(plimsoll("slow", *LOGS, dump, "--tree", TREE, "-f", "json").out)
    assert {row["name"]: row["total_slow"] for row in rows if row["type"] == "osd"} == {
        "default/vm/osd.0": 3, "default/vm/osd.1": 8, "default/vm/osd.2": 14,
    }  # fmt: skip


def test_live_requests_count_since_a_time_and_an_osd_that_remembers_no_more_is_named(
    plimsoll: Callable[..., Ran], tmp_path: Path
) -> None:
    dump = json.loads((SAMPLES / "osd.1-dump_historic_slow_ops.json").read_text())
    one, now = dump["Ops"][0], datetime.now(UTC)
    for name, ago in (("new", timedelta(minutes=20)), ("old", timedelta(hours=2))):
        ops = [one | {"initiated_at": (now - ago).isoformat(), "description": f"osd_op(client.1.{name}:{number} 1.3)"}
               for number in range(20)]  # fmt: skip
        (tmp_path / f"{name}.json").write_text(json.dumps(dump | {"Ops": ops}))
    more = (
        f"""*tell*osd.1*historic*) cat {tmp_path}/new.json ;;\n*tell*osd.2*historic*) cat {tmp_path}/old.json ;;\n"""
    )

    def counted(*words: str) -> tuple[dict[str, int], str]:
        script = LIVE.replace("*tell", more + "*tell", 1)
        ran = live(plimsoll, tmp_path, "9", "-f", "json", *words, script=script)
        return {row["name"]: row["total_slow"] for row in json.loads(ran.out) if row["type"] == "osd"}, ran.err

    rows, said = counted()
    assert sum(rows.values()) == 20
    assert "osd.1 may have had more" in said
    rows, said = counted("--since", (now - timedelta(minutes=10)).isoformat())
    assert (rows, said) == ({}, "Down, and not asked: osd.0.\n")
    rows, said = counted("--since", "3h")
    assert sum(rows.values()) == 40
    assert "osd.1, osd.2 may have had more" in said


def test_a_live_image_has_the_name_that_rbd_tells_and_one_that_is_gone_has_none(
    plimsoll: Callable[..., Ran], tmp_path: Path
) -> None:
    dump = json.loads((SAMPLES / "osd.1-dump_historic_slow_ops.json").read_text())
    now = datetime.now(UTC).isoformat()
    ops = [dump["Ops"][0] | {"initiated_at": now,
                             "description": f"osd_op(client.1.0:{number} 1.3 1:c:::rbd_data.{id}.{number:016x}:head)"}
           for number, id in enumerate(("aaaaaaaa", "aaaaaaaa", "bbbbbbbb"))]  # fmt: skip
    (tmp_path / "ops.json").write_text(json.dumps(dump | {"Ops": ops}))
    (tmp_path / "rbd").write_text(
        '#!/bin/sh\ncase "$*" in *\'--pool volumes --image-id aaaaaaaa --format json\') echo \'{"name": "a"}\' ;;\n'
        "*) echo 'error opening image: (2) No such file' >&2; exit 2 ;; esac\n"
    )
    (tmp_path / "rbd").chmod(0o755)
    more = f"""*tell*osd.1*historic*) cat {tmp_path}/ops.json ;;
*lspools*) echo '[{{{{"poolnum":1,"poolname":"volumes"}}}}]' ;;\n"""
    script = LIVE.replace("*tell", more + "*tell", 1)
    ran = live(plimsoll, tmp_path, "9", "--by", "image", "-f", "json", script=script)
    assert {row["image"]: row["name"] for row in json.loads(ran.out)} == {"aaaaaaaa": "volumes/a", "bbbbbbbb": None}
    assert "1 image without a name: rbd info --image-id bbbbbbbb ended with 2: error opening" in ran.err
    [row] = json.loads(live(plimsoll, tmp_path, "9", "--by", "pool", "-f", "json", script=script).out)
    assert row == {"pool": "volumes", "requests": 3}


def test_a_directory_that_may_not_be_searched_and_too_long_a_name_are_one_line(
    plimsoll: Callable[..., Ran], tmp_path: Path
) -> None:
    ran = plimsoll("slow", str(tmp_path / ("x" * 300)))
    assert (ran.status, ran.out) == (1, "")
    assert "xxx: File name too long" in ran.err
    ran = plimsoll("slow", *LOGS, "--plot", str(tmp_path / ("x" * 300 + ".svg")))
    assert (ran.status, "xxx.svg: File name too long" in ran.err) == (1, True)
    assert "Errno" not in ran.err


@pytest.mark.parametrize(("kind", "begin"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".html", b"<!DOCTYPE html>")])
def test_requests_over_time_are_drawn(plimsoll: Callable[..., Ran], tmp_path: Path, kind: str, begin: bytes) -> None:
    path = tmp_path / f"slow{kind}"
    ran = plimsoll("slow", *LOGS, "--tree", TREE, "--plot", str(path))
    assert (ran.status, ran.out.splitlines()[-1]) == (0, f"Drawn: {path}"), ran.err
    assert path.read_bytes().startswith(begin)
    if kind == ".html":
        answer = '<h1>No host, rack or OSD stands out.</h1>\n<p class="subject">Slow requests over time</p>'
        assert answer in path.read_text()
        assert path.read_text().count("stands out") == 1
    ran = plimsoll("slow", *LOGS, "--plot", str(tmp_path / "slow.gif"))
    assert (ran.status, "the name must end with .png, .svg, .html" in ran.err) == (64, True)


def test_a_log_that_names_no_images_says_so(plimsoll: Callable[..., Ran]) -> None:
    assert plimsoll("slow", str(SAMPLES / "ceph.log.gz"), "--by", "image").out == "No line names images.\n"


REPORTS = Path(__file__).parents[1] / "unit" / "data" / "reports" / "slow"


def totals(rows: list[dict[str, object]]) -> dict[str, tuple[object, ...]]:
    """Of OSDs: what they have, at least and at most, and what they wait for."""
    figures = ("slow_primary", "slow_subop", "waits", "unknown", "total_least", "total_most")
    return {
        str(row["name"]).rpartition("/")[2]: tuple(row[each] for each in figures)
        for row in rows if row["type"] == "osd"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "expected", "sentence"),
    [
        ("01-monitor-only-ceph.log", {f"osd.{osd}": (0, 0, 0, 0, 1, None) for osd in (2, 4, 11)},
         "Monitors: at least 61 at once of osd.2, osd.4, osd.11"),
        ("03-bluestore-alert-ceph.log", {f"osd.{osd}": (0,) * 6 for osd in (4, 11)},
         "BlueStore of osd.4, osd.11 was slow itself"),
        ("05-warning-before-osd.3.json", {"osd.3": (0,) * 6, "osd.8": (0, 1, 0, 0, 1, 1)}, ""),
        ("06-journal-native-osd.7.txt", {"osd.7": (5, 0, 0, 0, 5, 5)}, ""),
        ("07-monitor-container.log", {"osd.5": (7, 0, 0, 0, 7, 7)}, ""),
        ("09-short-precise-osd.7.txt", {"osd.7": (3, 0, 0, 0, 3, 3)}, ""),
        ("10-health-detail-octopus.txt", {f"osd.{osd}": (0, 0, 0, 0, 1, None) for osd in (1, 4)},
         "at least 12 at once of osd.1, osd.4"),
        ("12-detail-in-ceph.log", {f"osd.{osd}": (0, 0, 0, 0, 1, None) for osd in (1, 4)},
         "at least 12 at once of osd.1, osd.4"),
        ("13-answered-replica-ceph.log", {"osd.4": (0, 0, 0, 120, 120, 120)}, "osd.4 of 12 OSDs has all 120"),
        ("15-op-commit-ceph.log",
         {f"osd.{osd}": (0, 0, 16, 0, 16, 16) for osd in range(6)} | {
             f"osd.{osd}": (0, 0, 12, 0, 12, 12) for osd in (6, 7)
         }, ""),
        ("17-included-below-ceph.log",
         {"osd.2": (60, 0, 0, 0, 480, None), "osd.3": (60, 0, 0, 0, 60, 60), "osd.7": (60, 0, 0, 0, 60, 60)},
         "osd.2 of 12 OSDs has at least 480 of at least 600 slow requests"),
        ("19-historic-ops-osd.3.json", {}, "No slow requests."),
        ("20-same-oldest-ceph-osd.40.log", {"osd.40": (0, 0, 0, 100, 90, 100)}, "90–100"),
        ("21-osd-2024-08-20.log", {"osd.?": (12, 0, 0, 0, 12, 12)}, "name it ceph-osd.N.log"),
        ("23-names-itself.log", {"osd.7": (12, 0, 0, 0, 12, 12)}, ""),
    ],
)  # fmt: skip
def test_reports_as_people_send_them(
    plimsoll: Callable[..., Ran], name: str, expected: dict[str, tuple[object, ...]], sentence: str
) -> None:
    words = ("slow", str(REPORTS / name), "--tree", str(REPORTS / "tree.txt"))
    ran = plimsoll(*words, "-f", "json")
    assert (ran.status, totals(json.loads(ran.out))) == (0, expected)
    if sentence:
        assert sentence in " ".join(plimsoll(*words).out.split())


def test_several_osds_in_one_dump_each_with_its_heading(plimsoll: Callable[..., Ran], tmp_path: Path) -> None:
    dump = (REPORTS / "05-warning-before-osd.3.json").read_text()
    whole = (
        f"# ceph daemon osd.3 dump_historic_slow_ops\n{dump}\nosd.6: {dump[dump.index('{') :].replace('5521', '7')}"
    )
    (tmp_path / "saved.txt").write_text(whole)
    rows = json.loads(plimsoll("slow", str(tmp_path / "saved.txt"), "-f", "json").out)
    assert {row["name"]: row["slow_subop"] for row in rows} == {"osd.3": 0, "osd.6": 0, "osd.8": 2}


def test_of_osds_that_did_not_answer_none_is_not_told(plimsoll: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "saved.txt").write_text(
        'osd.0: {\n    "ops": [],\n    "num_blocked_ops": 0\n}\n'
        "Error ENXIO: problem getting command descriptions from osd.1\n"
    )
    ran = plimsoll("slow", str(tmp_path / "saved.txt"))
    assert (ran.status, "problem getting command descriptions from osd.1" in ran.out) == (5, True)


def test_the_health_of_a_cluster_as_json(plimsoll: Callable[..., Ran], tmp_path: Path) -> None:
    message = "12 slow ops, oldest one blocked for 403 sec, daemons [osd.1,osd.4] have slow ops."
    checks = {"SLOW_OPS": {"severity": "HEALTH_WARN", "summary": {"message": message, "count": 12}, "detail": []}}
    for name, told in (
        ("detail", {"status": "HEALTH_WARN", "checks": checks}),
        ("status", {"health": {"checks": checks}}),
    ):
        (tmp_path / name).write_text(json.dumps(told))
        assert "at least 12 at once of osd.1, osd.4" in plimsoll("slow", str(tmp_path / name)).out
    (tmp_path / "none").write_text(json.dumps({"status": "HEALTH_OK", "checks": {}}))
    ran = plimsoll("slow", str(tmp_path / "none"))
    assert (ran.status, ran.out) == (0, "No slow requests.\n")


@pytest.mark.parametrize(("words", "sentence"), [
    ("HEALTH_WARN; 30 requests are blocked > 32 sec; 3 osds have slow requests", "Monitors: at least 30 at once"),
    ("Health check failed: 2 OSD(s) experiencing slow operations in BlueStore (BLUESTORE_SLOW_OP_ALERT)",
     "BlueStore of OSDs that no line names was slow itself."),
])  # fmt: skip
def test_some_of_osds_that_no_line_names_are_not_none(
    plimsoll: Callable[..., Ran], tmp_path: Path, words: str, sentence: str
) -> None:
    (tmp_path / "ceph.log").write_text(
        f"2018-06-05 10:00:10.0 mon.a mon.0 10.0.0.1:6789/0 5 : cluster [INF] {words}\n"
    )
    ran = plimsoll("slow", str(tmp_path / "ceph.log"))
    assert (ran.status, " ".join(ran.out.split()).startswith(sentence)) == (0, True)
    [row] = json.loads(plimsoll("slow", str(tmp_path / "ceph.log"), "-f", "json").out)
    assert (row["answer"], row["reason"].startswith(sentence)) == ("some", True)


@pytest.mark.parametrize("by", ["time", "state", "pool", "image"])
def test_a_view_without_rows_of_what_monitors_sum_up_says_so(plimsoll: Callable[..., Ran], by: str) -> None:
    ran = plimsoll("slow", str(REPORTS / "01-monitor-only-ceph.log"), "--by", by)
    assert "Monitors: at least 61 at once" in ran.out
    assert "No slow requests" not in ran.out


def test_the_last_lines_of_the_cluster_s_log_as_json(plimsoll: Callable[..., Ran], tmp_path: Path) -> None:
    words = "6 slow requests (by type [ 'delayed' : 6 ] most affected pool [ 'volumes' : 6 ])"
    entry = {"name": "osd.4", "stamp": "2024-03-27T18:29:18.120000+0000", "seq": 1, "channel": "cluster",
             "priority": "[WRN]", "message": words}  # fmt: skip
    (tmp_path / "saved").write_text(json.dumps([entry, entry]))
    rows = json.loads(plimsoll("slow", str(tmp_path / "saved"), "-f", "json").out)
    assert {row["name"]: row["total_slow"] for row in rows} == {"osd.4": 6}


def test_only_the_osds_that_have_most_are_shown(plimsoll: Callable[..., Ran]) -> None:
    report = str(REPORTS / "17-included-below-ceph.log")
    rows = json.loads(plimsoll("slow", report, "--top", "1", "-f", "json").out)
    assert [row["name"] for row in rows] == ["osd.2"]
    assert plimsoll("slow", report, "--top", "0").status == 64
