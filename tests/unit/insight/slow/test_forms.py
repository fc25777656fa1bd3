"""Every form in which a line about slow requests reaches a person: each says whose they are, how many, and when."""

from __future__ import annotations

import gzip
import json
import os
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from plimsoll_insight.slow.answers import SlowAnswer, answer_of
from plimsoll_insight.slow.blocks import BEGIN, is_newest_first
from plimsoll_insight.slow.counts import Counts
from plimsoll_insight.slow.events import UNKNOWN_OSD, LogClock
from plimsoll_insight.slow.log_reading import LogReading
from plimsoll_insight.slow.messages import closing_lines, unknown_lines
from plimsoll_insight.slow.reading import read
from plimsoll_insight.slow.tree import CrushBucket, Tree
from plimsoll_insight.slow.union import together
from plimsoll_insight.slow.verdict import OfBucket, OfOsd, judge

T0 = datetime(2024, 3, 27, 18, 29, 18, 120000, UTC)
OP = (
    "osd_op(client.5110.0:901 4.1f 4:f8a11c2e:::rbd_data.8c1d2f3a4b5c.0000000000000201:head [write 4096~8192]"
    " snapc 0=[] ondisk+write+known_if_redirected+supports_pool_eio e2301)"
)


def oldest(number: int, osd: int = 7) -> str:
    return f"osd.{osd} 2301 get_health_metrics reporting {number} slow ops, oldest is {OP}"


def sums(number: int) -> str:
    return f"{number} slow requests (by type [ 'delayed' : {number} ] most affected pool [ 'volumes' : {number} ])"


def channel(number: int) -> str:
    return f"log_channel(cluster) log [WRN] : {sums(number)}"


def own(second: int, words: str) -> str:
    level = "-1" if "get_health" in words else " 0"
    return f"2024-03-27T18:29:{18 + second}.120+0000 7f4444441640 {level} {words}"


def array_of(wrap: Callable[[int, str], object], *, dated: bool = True) -> str:
    """The same as one document in a line, newest first."""
    each = [(second, words) for second, number in ((0, 3), (1, 5)) for words in (oldest(number), channel(number))]
    return json.dumps([wrap(second, own(second, words) if dated else words) for second, words in each[::-1]])


def source(second: int, line: str) -> dict[str, object]:
    return {"_index": "logs", "_source": {"@timestamp": moment(second).isoformat(), "message": line, "unit": UNIT}}


POD, UNIT = "rook-ceph-osd-7-6f9c8d7b5-abcde", "ceph-osd@7.service"


def text_of(wrap: Callable[[int, str], str], *, dated: bool = True) -> str:
    """3 requests, a second later 5."""
    told = [(second, words) for second, number in ((0, 3), (1, 5)) for words in (oldest(number), channel(number))]
    return "".join(f"{wrap(second, own(second, words) if dated else words)}\n" for second, words in told)


def moment(second: int) -> datetime:
    return T0.replace(second=T0.second + second)


def micros(second: int) -> str:
    return str(int(moment(second).timestamp() * 1e6))


def fields(second: int, words: str, unit: str = "ceph-osd@7.service") -> dict[str, str]:
    return {
        "__CURSOR": "s=00ff;i=1", "__REALTIME_TIMESTAMP": micros(second), "_HOSTNAME": "osd-3", "PRIORITY": "4",
        "SYSLOG_IDENTIFIER": "ceph-osd", "_PID": "4242", "_SYSTEMD_UNIT": unit, "MESSAGE": words,
    }  # fmt: skip


def exported(second: int, words: str) -> str:
    return "".join(f"{name}={value}\n" for name, value in fields(second, words).items())


def verbose(second: int, words: str) -> str:
    told = "".join(f"    {name}={value}\n" for name, value in fields(second, words).items() if name[:2] != "__")
    return f"Wed 2024-03-27 18:29:{18 + second}.120000 UTC [s=00ff;i={second};b=00;m=1;t=2;x=3]\n{told}"[:-1]


FORMS: dict[str, str] = {
    "its own file": text_of(lambda _, line: line),
    "container": text_of(lambda _, line: f"debug {line}"),
    "short": text_of(lambda second, line: f"Mar 27 18:29:{18 + second} stor-07 ceph-osd[4242]: {line}"),
    "short, native": text_of(
        lambda second, line: f"Mar 27 18:29:{18 + second} osd-3 ceph-osd[4242]: {line}", dated=False
    ),
    "short-precise": text_of(
        lambda second, line: f"Mar 27 18:29:{18 + second}.123456 stor-07 ceph-8a1c-osd-7[131]: {line}"
    ),
    "short-iso": text_of(
        lambda second, line: f"2024-03-27T18:29:{18 + second}+0000 osd-3 ceph-osd[4242]: {line}", dated=False
    ),
    "short-iso, systemd 255": text_of(
        lambda second, line: f"2024-03-27T19:29:{18 + second}+01:00 osd.example ceph-osd[4242]: {line}", dated=False
    ),
    "short-iso-precise": text_of(
        lambda second, line: f"2024-03-27T18:29:{18 + second}.120001+0000 stor-07 ceph-osd[4242]: {line}", dated=False
    ),
    "short-full": text_of(
        lambda second, line: f"Wed 2024-03-27 18:29:{18 + second} UTC stor-07 ceph-osd[4242]: {line}", dated=False
    ),
    "with-unit": text_of(
        lambda second, line: f"Wed 2024-03-27 18:29:{18 + second} UTC stor-07 ceph-osd@7.service[4242]: {line}",
        dated=False,
    ),
    "short-unix": text_of(
        lambda second, line: f"{moment(second).timestamp():.6f} stor-07 ceph-osd[4242]: {line}", dated=False
    ),
    "cat": text_of(lambda _, line: line),
    "json": text_of(lambda second, line: json.dumps(fields(second, line)), dated=False),
    "json-seq": text_of(lambda second, line: "\x1e" + json.dumps(fields(second, line)), dated=False),
    "json-sse": text_of(lambda second, line: f"data: {json.dumps(fields(second, line))}\n", dated=False),
    "json-pretty": text_of(lambda second, line: json.dumps(fields(second, line), indent="\t"), dated=False),
    "export": text_of(exported, dated=False),
    "verbose": text_of(verbose, dated=False),
    "bytes in json": text_of(
        lambda second, line: json.dumps(fields(second, "") | {"MESSAGE": list(line.encode())}), dated=False
    ),
    "syslog": text_of(lambda second, line: f"Mar 27 18:29:{18 + second} stor-07 ceph-osd: {line}"),
    "syslog, RFC 5424": text_of(
        lambda second, line: f"<28>1 2024-03-27T18:29:{18 + second}.120Z stor-07 ceph-osd 4242 - - {line}"
    ),
    "rsyslog": text_of(
        lambda second, line: f"2024-03-27T18:29:{18 + second}.120001+00:00 stor-07 ceph-osd[4242]: {line}"
    ),
    "cri": text_of(lambda second, line: f"2024-03-27T18:29:{18 + second}.120000001Z stderr F debug {line}"),
    "cri, in parts": text_of(
        lambda second, line: f"2024-03-27T18:29:{18 + second}.120000001Z stderr P debug {line[:99]}\n"
        f"2024-03-27T18:29:{18 + second}.120000001Z stderr F {line[99:]}"
    ),
    "docker": text_of(
        lambda second, line: json.dumps(
            {"log": f"debug {line}\n", "stream": "stderr", "time": moment(second).isoformat()}
        )
    ),
    "rook": text_of(
        lambda second, line: f"[pod/rook-ceph-osd-7-6f9c8-abcde/osd] 2024-03-27T18:29:{18 + second}.12Z debug {line}"
    ),
    "stern": text_of(lambda _, line: f"rook-ceph-osd-7-6f9c8d7b5-abcde osd debug {line}"),
    "fluentd": text_of(
        lambda second, line: json.dumps(
            {"@timestamp": moment(second).isoformat(), "message": line,
             "kubernetes": {"pod_name": "rook-ceph-osd-7-6f9c-abcde"}}
        ),
        dated=False,
    ),
    "collectors of logs": text_of(
        lambda second, line: json.dumps(
            {"@timestamp": moment(second).isoformat(), ("body", "_msg")[second]: line, "unit": "ceph-osd@7.service"}
        ),
        dated=False,
    ),
    "filebeat": text_of(
        lambda second, line: json.dumps(
            {"@timestamp": moment(second).isoformat(), "message": line,
             "log": {"offset": second, "file": {"path": "/var/log/ceph/osd-3/ceph-osd.7.log"}}}
        ),
        dated=False,
    ),
    "filebeat, a container": text_of(
        lambda second, line: json.dumps(
            {"@timestamp": moment(second).isoformat(), "message": line,
             "file": f"/var/log/containers/rook-ceph-osd-7-6f9c-abcde_rook-ceph_osd-{'1a2bc0ff' * 8}.log"}
        ),
        dated=False,
    ),
    "a container of Kolla": text_of(
        lambda second, line: json.dumps(
            {"@timestamp": moment(second).isoformat(), "MESSAGE": line, "CONTAINER_NAME": "ceph_osd_7"}
        ),
        dated=False,
    ),
    "filebeat, in Kubernetes": text_of(
        lambda second, line: json.dumps(
            {"@timestamp": moment(second).isoformat(), "message": line, "log": {"offset": second},
             "kubernetes": {"container": {"name": "osd"}, "pod": {"name": "rook-ceph-osd-7-6f9c-abcde"}}}
        ),
        dated=False,
    ),
    "short-monotonic": text_of(
        lambda second, line: f"[{123 + second}.123456] stor-07 ceph-osd[4242]: {line}"
    ),
    "kubectl logs --timestamps": text_of(
        lambda second, line: f"2024-03-27T18:29:{18 + second}.120000001Z debug {line}"
    ),
    "docker compose": text_of(lambda _, line: f"osd7  | debug {line}"),
    "grep": text_of(lambda _, line: f"/srv/osd-3/ceph-osd.7.log-20240327:{line}"),
    "grep -n": text_of(lambda second, line: f"{12 + second}:{line}"),
    "grep -n of several files": text_of(lambda second, line: f"ceph-osd.7.log:{12 + second}:{line}"),
    "context of grep": text_of(lambda second, line: f"ceph-osd.7.log-{12 + second}-{line}"),
    "crashed": text_of(lambda second, line: f"  {second - 9}> {line}"),
    "cephadm, docker": text_of(
        lambda second, line: f"Mar 27 18:29:{18 + second} stor-07 bash[131]: debug {line}"
    ),
    "grep's colours": text_of(lambda _, line: "\x1b[35m7:\x1b[m" + line.replace("slow", "\x1b[31m\x1b[Kslow\x1b[m")),
    "stern -o json": text_of(
        lambda _, line: json.dumps({"message": f"debug {line}", "podName": POD, "containerName": "osd"})
    ),
    "logcli -o jsonl": text_of(
        lambda second, line: json.dumps(
            {"labels": {"unit": UNIT}, "line": line, "timestamp": moment(second).isoformat()}
        ),
        dated=False,
    ),
    "grafana": array_of(
        lambda second, line: {"line": line, "timestamp": f"{micros(second)}000", "fields": {"pod": POD}}, dated=False
    ),
    "elasticdump": text_of(lambda second, line: json.dumps(source(second, line)), dated=False),
    "a search of elasticsearch": '{"took": 3, "hits": {"total": {"value": 4}, "hits": '
    + array_of(source, dated=False).replace("}}, {", "}},\n    {") + "}}\n",
    "kibana": text_of(
        lambda second, line: f'"Mar 27, 2024 @ 18:29:{18 + second}.120",{POD},"{line}"', dated=False
    ),
    "windows' line ends": text_of(lambda _, line: f"{line}\r"),
}  # fmt: skip


def found(path: Path, *names: str) -> tuple[LogReading, Counts]:
    read_ = read([path / name for name in names], lambda _: None, LogReading.nothing(LogClock()))
    return read_, together(read_.cluster, read_.own, read_.dumped)


def write(path: Path, name: str, text: str) -> str:
    (path / name).write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    os.utime(path / name, (T0.timestamp() + 3600, T0.timestamp() + 3600))
    return name


@pytest.mark.parametrize("form", list(FORMS))
def test_five_requests_of_osd_7(tmp_path: Path, form: str) -> None:
    read_, counts = found(tmp_path, write(tmp_path, "saved.txt", FORMS[form]))
    assert (read_.missed, read_.examples, read_.unattributed) == (0, [], [])
    assert {osd: (each.primary, each.least, each.most) for osd, each in counts.osds.items()} == {7: (5, 5, 5)}
    assert counts.first == pytest.approx(T0.timestamp(), abs=1)
    assert counts.last == pytest.approx(T0.timestamp() + 1, abs=1)
    assert answer_of(read_, counts) is SlowAnswer.SOME


@pytest.mark.parametrize("form", [each for each in FORMS if each != "its own file"])
def test_what_two_forms_tell_counts_once(tmp_path: Path, form: str) -> None:
    names = [write(tmp_path, "ceph-osd.7.log.gz", FORMS["its own file"]), write(tmp_path, "saved", FORMS[form])]
    for order in (names, names[::-1]):
        _, counts = found(tmp_path, *order)
        assert {osd: (each.primary, each.least) for osd, each in counts.osds.items()} == {7: (5, 5)}


def test_copies_of_the_cluster_s_log_of_three_monitors_count_once(tmp_path: Path) -> None:
    line = "2024-03-27T18:{:02}:18.120000+0000 osd.{} (osd.{}) 1 : cluster [WRN] {}\n"
    text = "".join(line.format(minute, osd, osd, sums(2)) for minute in range(30) for osd in (1, 2))
    for name in ("a", "b", "c"):
        write(tmp_path, name, text if name != "b" else text[: len(text) // 2])
    _, counts = found(tmp_path, "a", "b", "c")
    assert {osd: each.primary for osd, each in counts.osds.items()} == {1: 60, 2: 60}


def test_the_end_of_a_crashed_osd_counts_where_no_other_line_has_it_and_once_where_one_has(tmp_path: Path) -> None:
    crash = FORMS["crashed"]
    whole = FORMS["its own file"]
    for text in (whole + crash, crash, whole.splitlines(keepends=True)[0] + crash):
        _, counts = found(tmp_path, write(tmp_path, "ceph-osd.7.log", text))
        assert {osd: each.total for osd, each in counts.osds.items()} == {7: 5}


@pytest.mark.parametrize(("name", "osd"), [
    ("ceph-osd.7.log", 7), ("osd7.log", 7), ("ceph-osd.7.log-20240820", 7), ("osd.2024.log", 2024),
    ("osd-2024-08-20.log", UNKNOWN_OSD), ("osd_2024_08_20.log", UNKNOWN_OSD), ("osd.20240820.log", UNKNOWN_OSD),
    ("osd-20-08-2024.log", UNKNOWN_OSD), ("saved.log", UNKNOWN_OSD), ("ceph-osd@12.service.txt", 12),
    ("docker_logs_-t_ceph_osd_7", 7), ("journalctl_--unit_ceph-osd_12.service", 12), ("ceph-mon-1_ceph-osd.7.log", 7),
    ("ceph-mgr.osd-3.abcdef.log", UNKNOWN_OSD), ("mgr.osd-3.abcdef.txt", UNKNOWN_OSD),
])  # fmt: skip
def test_whose_log_it_is_by_its_name_and_never_by_a_date(tmp_path: Path, name: str, osd: int) -> None:
    read_, counts = found(tmp_path, write(tmp_path, name, f"{own(0, channel(3))}\n"))
    assert {each: count.primary for each, count in counts.osds.items()} == {osd: 3}
    assert bool(read_.unattributed) == (osd == UNKNOWN_OSD)


@pytest.mark.parametrize("folder", [
    "rook-ceph_rook-ceph-osd-7-6f9c8d7b5-abcde_8a1c/osd", "pods/rook-ceph-osd-7-6f9c8d7b5-abcde/osd/osd/logs",
])  # fmt: skip
def test_whose_log_it_is_by_the_folder_of_its_pod_and_never_of_a_host(tmp_path: Path, folder: str) -> None:
    for each, osd in ((folder, 7), ("report-ceph-osd-3-2024-03-27-abcde/logs", UNKNOWN_OSD)):
        (tmp_path / each).mkdir(parents=True)
        _, counts = found(tmp_path, write(tmp_path, f"{each}/0.log", f"{own(0, channel(3))}\n"))
        assert {number: count.primary for number, count in counts.osds.items()} == {osd: 3}


def test_a_folder_of_a_metadata_server_s_pod_has_no_requests_to_osds(tmp_path: Path) -> None:
    (tmp_path / "rook-ceph-mds-fs-a-6f9c8d7b5-abcde").mkdir()
    text = f"{own(0, f'log_channel(cluster) log [WRN] : {BATCH}')}\n"
    read_, counts = found(tmp_path, write(tmp_path, "rook-ceph-mds-fs-a-6f9c8d7b5-abcde/0.log", text))
    assert (dict(counts.osds), answer_of(read_, counts)) == ({}, SlowAnswer.CANNOT_TELL)


@pytest.mark.parametrize("prefix", ["", "2024-03-27T18:29:19.928 INFO:run.stor-07.stdout:"])
def test_the_cluster_s_log_may_have_seconds_since_the_epoch(tmp_path: Path, prefix: str) -> None:
    line = f"{prefix}{T0.timestamp():.7f} osd.7 (osd.7) 4 : cluster [WRN] {sums(5)}\n"
    read_, counts = found(tmp_path, write(tmp_path, "ceph.log", line))
    assert (read_.missed, {osd: each.primary for osd, each in counts.osds.items()}) == (0, {7: 5})
    assert counts.first == pytest.approx(T0.timestamp(), abs=0.001)


def test_lines_that_say_whose_they_are_have_the_last_word(tmp_path: Path) -> None:
    _, counts = found(tmp_path, write(tmp_path, "ceph-osd.3.log", FORMS["its own file"]))
    assert list(counts.osds) == [7]


@pytest.mark.parametrize("prefix", ["osd-3: ", "ceph-osd-03: ", "osd-3: Mar 27 18:29:18 osd-3 ceph-osd[4242]: "])
def test_a_host_s_name_before_a_line_is_no_osd(tmp_path: Path, prefix: str) -> None:
    """As pdsh prints them."""
    lines = "".join(f"{prefix}{own(0, words)}\n" for words in (oldest(4), channel(4)))
    _, counts = found(tmp_path, write(tmp_path, "saved", lines))
    assert {osd: each.primary for osd, each in counts.osds.items()} == {7: 4}


@pytest.mark.parametrize("name", ["osd01.log", "osd-1.log"])
def test_of_a_process_its_lines_tell_first_and_last_the_name_of_a_file_which_may_be_a_host_s(
    tmp_path: Path, name: str
) -> None:
    lines = [f"Mar 27 18:29:18 osd01 ceph-osd[4242]: {words}\n" for words in (channel(4), oldest(4))]
    _, counts = found(tmp_path, write(tmp_path, name, "".join(lines)))
    assert {osd: each.primary for osd, each in counts.osds.items()} == {7: 4}
    _, counts = found(tmp_path, write(tmp_path, name, lines[0]))
    assert {osd: each.primary for osd, each in counts.osds.items()} == {1 if name == "osd-1.log" else UNKNOWN_OSD: 4}
    others = [line.replace("4242", "99") for line in (oldest(2, 8), channel(3))]
    text = "".join((*lines, *(f"Mar 27 18:29:19 osd01 ceph-osd[{pid}]: {words}\n" for pid, words in
                              ((99, others[0]), (77, others[1])))))  # fmt: skip
    _, counts = found(tmp_path, write(tmp_path, name, text))
    assert 1 not in counts.osds, "lines tell of two others"


def test_a_journal_of_a_host_has_several_osds_by_their_processes(tmp_path: Path) -> None:
    lines = [f"Mar 27 18:29:18 stor-07 ceph-osd[{pid}]: {words}" for pid, osd, number in ((11, 4, 6), (12, 5, 9))
             for words in (channel(number), oldest(number, osd))]  # fmt: skip
    _, counts = found(tmp_path, write(tmp_path, "journal.txt", "\n".join(lines)))
    assert {osd: each.primary for osd, each in counts.osds.items()} == {4: 6, 5: 9}


@pytest.mark.parametrize("prefix", ["ceph.log:", "ceph.log-20240327-", "/srv/osd-3/ceph.log.1.gz:17:", "17:", "> "])
@pytest.mark.parametrize(
    "speaker", ["osd.9 (osd.9) 1", "osd.9 osd.9 10.0.0.3:6800/2205 784", "osd.9 10.0.0.3:6800/2205 784"]
)
def test_a_found_line_of_the_cluster_s_log_names_its_osd_and_its_time(
    tmp_path: Path, prefix: str, speaker: str
) -> None:
    line = f"{prefix}2024-03-27T18:29:18.120000+0000 {speaker} : cluster [WRN] {sums(4)}\n"
    read_, counts = found(tmp_path, write(tmp_path, "saved", line))
    assert ({osd: each.primary for osd, each in counts.osds.items()}, read_.unattributed) == ({9: 4}, [])
    assert counts.first == pytest.approx(T0.timestamp(), abs=1)


def test_lines_of_two_osds_with_the_same_thread_are_told_apart_by_the_file_that_grep_names(tmp_path: Path) -> None:
    text = "".join(f"ceph-osd.{osd}.log:{own(0, channel(number))}\n" for osd, number in ((4, 6), (5, 9)))
    _, counts = found(tmp_path, write(tmp_path, "saved", text))
    assert {osd: each.primary for osd, each in counts.osds.items()} == {4: 6, 5: 9}


def test_the_cluster_s_log_in_the_journal_names_its_osd(tmp_path: Path) -> None:
    told = fields(0, sums(4), "ceph-mon@a.service") | {"CEPH_NAME": "osd.9", "CEPH_CHANNEL": "cluster"}
    _, counts = found(tmp_path, write(tmp_path, "journal.json", json.dumps(told)))
    assert {osd: each.primary for osd, each in counts.osds.items()} == {9: 4}


def test_a_monitor_s_journal_tells_again_what_osds_have_told_and_names_none_of_them(tmp_path: Path) -> None:
    """Real lines of Ceph 18.2.7 with ``log_to_journald``: two writes of osd.2, for which osd.1 has its part to do."""
    text = (Path(__file__).parents[2] / "data/reports/slow/journal-short-reef.txt").read_text()
    read_, counts = found(tmp_path, write(tmp_path, "journal.txt", text))
    assert (read_.missed, read_.unattributed, counts.by_monitor.number) == (0, [], 55)
    told = {osd: (each.replica, each.unknown) for osd, each in counts.osds.items()}
    assert told == {0: (0, 14), 1: (2, 0), 2: (0, 2)}
    alone = "".join(line for line in text.splitlines(keepends=True) if "ceph-mon" in line)
    read_, counts = found(tmp_path, write(tmp_path, "journal.txt", alone))
    assert (counts.requests, counts.osds[UNKNOWN_OSD].total, read_.unattributed) == (2, 2, [])


@pytest.mark.parametrize("head", ["Mar 27 18:29:18 stor-07 ceph-mon[13]: ", ""])
def test_sums_of_several_osds_that_no_line_names_are_so_many_at_once_at_least(tmp_path: Path, head: str) -> None:
    own_ = "".join(f"{oldest(number, osd)}\n{channel(number)}\n" for osd, number in ((7, 3), (8, 4)))
    text = "".join(f"{head}{sums(number)}\n" for number in (3, 4, 3, 4, 2, 4)) if head else own_
    _, counts = found(tmp_path, write(tmp_path, "saved", text))
    assert (counts.by_monitor.number, UNKNOWN_OSD in counts.osds) == (4, False)
    assert {osd: each.unknown for osd, each in counts.osds.items()} == ({} if head else {7: 3, 8: 4})


# --- monitors

MON = "2019-06-11 03:10:14.100001 mon.stor1 (mon.0) 51001 : cluster [WRN] "
STATES = {
    "12 slow ops, oldest one blocked for 403 sec, daemons [osd.1,osd.4] have slow ops.": (12, {1, 4}, 403.0),
    "12 slow ops, oldest one blocked for 403 sec, osd.4 has slow ops": (12, {4}, 403.0),
    "12 slow ops, oldest one blocked for 403 sec, daemons [osd,1,osd,4] have slow ops.": (12, {1, 4}, 403.0),
    "0 slow ops, oldest one blocked for 6 sec, osd.1 has slow ops": (1, {1}, 6.0),
    "14 slow requests are blocked > 32 sec. Implicated osds 1,4": (14, {1, 4}, 32.0),
    "5 stuck requests are blocked > 4096 sec. Implicated osds 4": (5, {4}, 4096.0),
    "5 stuck requests are blocked > 4096 sec. Implicated osd 4,7": (5, {4, 7}, 4096.0),
    "30 requests are blocked > 32 sec": (30, set(), 32.0),
}


@pytest.mark.parametrize("begin", [
    f"{MON}Health check failed: ", f"{MON}Health check update: ", f"{MON}overall HEALTH_WARN ",
    f"{MON}Health detail: HEALTH_WARN ", f"{MON}[WRN] SLOW_OPS: ", "HEALTH_WARN ", "[WRN] SLOW_OPS: ",
    "SLOW_OPS ", "REQUEST_SLOW ", "            ", f"{MON}Health check cleared: SLOW_OPS (was: ", "cluster " + MON,
    "Mar 27 18:29:18 stor1 ceph-mon[7]: log_channel(cluster) log [WRN] : Health check failed: ",
    "2019-06-11T03:10:14.1+0000 7f44 0 log_channel(cluster) log [WRN] : Health check update: ",
    "2019-06-11 03:10:14.100001 mon.stor1 [WRN] Health check failed: ",
    f"ceph.log-20190611:{MON}Health check failed: ",
])  # fmt: skip
@pytest.mark.parametrize("words", list(STATES))
def test_a_monitor_s_sum_is_at_least_so_many_of_these_osds(tmp_path: Path, begin: str, words: str) -> None:
    read_, counts = found(tmp_path, write(tmp_path, "saved", f"{begin}{words}\n"))
    told = counts.by_monitor
    assert (read_.missed, told.number, told.osds, told.oldest) == (0, *STATES[words])
    assert answer_of(read_, counts) is SlowAnswer.SOME
    for osd, each in counts.osds.items():
        assert (each.least, each.most) == (told.number if len(told.osds) == 1 else 1, None), osd


@pytest.mark.parametrize("prefix", [
    "Mar 27 18:29:18 mon1 ceph-mon[99]: ", "2024-03-27T18:29:18+0000 mon1 ceph-mon[99]: ",
    "<28>Mar 27 18:29:18 mon1 ceph-mon[99]: ", "Mar 27 18:29:18 mon1 ceph-mon: ",
    "Wed 2024-03-27 18:29:18 UTC mon1 ceph-mon@a.service[99]: ", "1711564158.120000 mon1 ceph-mon[99]: ",
    "/var/log/messages:Mar 27 18:29:18 mon1 ceph-mon[99]: ", "<28>1 2024-03-27T18:29:18.120Z mon1 ceph-mon 99 - - ",
    "[pod/rook-ceph-mon-a-6f9c8-abcde/mon] 2024-03-27T18:29:18.12Z ",
])  # fmt: skip
@pytest.mark.parametrize("speaker", ["", "mon.a (mon.0) 77 : "])
def test_what_a_monitor_says_without_a_stamp_has_the_time_of_what_is_around_it(
    tmp_path: Path, prefix: str, speaker: str
) -> None:
    words = (
        "Health check failed: 6 slow ops, oldest one blocked for 31 sec, osd.9 has slow ops (SLOW_OPS)",
        "osd.9 failed (root=default,host=h1) (2 reporters from different host after 22.0 >= grace 20.0)",
    )
    name = write(tmp_path, "saved", "".join(f"{prefix}{speaker}{each}\n" for each in words))
    read_, counts = found(tmp_path, name)
    assert (counts.osds[9].least, counts.osds[9].failed, read_.clock.is_guessed) == (6, 1, False)
    assert counts.first == counts.last == pytest.approx(T0.timestamp(), abs=1)


@pytest.mark.parametrize("head", [
    "", "osd.3 [WRN] ", "1517479232.12 n3 ceph-osd[99]: osd.3 10.0.0.1:6800/1 45 : ",
    "Feb  1 10:00:32 n3 ceph-osd[99]: ", "Feb  1 10:00:32 n3 ceph-mon[99]: osd.3 10.0.0.1:6800/1 45 : ",
])  # fmt: skip
def test_the_time_within_an_older_osd_s_words_is_no_head_of_its_line(tmp_path: Path, head: str) -> None:
    """Else what is before it is cut off, and the rest says nothing: a false all-clear."""
    words = (
        "slow request 30.92 seconds old, received at 2018-02-01 10:00:00.123456: osd_op(client.1.0:1 1.1 x) currently"
    )
    scrub = "2018-02-01 09:00:00.1 7f44 0 log_channel(cluster) log [INF] : 1.1 scrub ok\n"
    name = write(tmp_path, "ceph-osd.3.log", f"{scrub}{head}{words} waiting for subops from 11\n")
    read_, counts = found(tmp_path, name)
    assert answer_of(read_, counts) is not SlowAnswer.NONE
    assert read_.missed or counts.osds


def test_of_more_than_ten_daemons_a_monitor_names_ten_so_others_have_some_too(tmp_path: Path) -> None:
    ten = (0, 1, *range(10, 18))
    words = f"480 slow ops, oldest one blocked for 123 sec, daemons [{','.join(f'osd.{osd}' for osd in ten)}]"
    for end, others in (("...", True), ("", False)):
        line = f"{MON}Health check update: {words}{end} have slow ops. (SLOW_OPS)\n"
        _, counts = found(tmp_path, write(tmp_path, "ceph.log", line))
        assert (counts.by_monitor.osds, counts.by_monitor.others) == (set(ten), others)


@pytest.mark.parametrize("end", ["", "daemons", "daemons [", "daemons [osd.1", "daemons [mon.a,os", "osd.1"])
@pytest.mark.parametrize("begin", ["Health check update: ", "Health detail: HEALTH_WARN 1 osds down; "])
def test_a_monitor_s_sum_counts_where_its_line_was_cut(tmp_path: Path, begin: str, end: str) -> None:
    line = f"{MON}{begin}12 slow ops, oldest one blocked for 403 sec, {end}"
    read_, counts = found(tmp_path, write(tmp_path, "ceph.log", line))
    assert (counts.by_monitor.number, answer_of(read_, counts)) == (12, SlowAnswer.SOME)


def test_requests_of_osds_have_ended_where_those_of_monitors_have_that_came_after(tmp_path: Path) -> None:
    words = ("failed: 5 slow ops, oldest one blocked for 31 sec, osd.1 has slow ops (SLOW_OPS)",
             "cleared: SLOW_OPS (was: 2 slow ops, oldest one blocked for 34 sec, mon.b has slow ops)")  # fmt: skip
    _, counts = found(tmp_path, write(tmp_path, "ceph.log", "".join(f"{MON}Health check {each}\n" for each in words)))
    assert (counts.by_monitor.number, counts.by_monitor.cleared) == (5, counts.last)


def test_details_name_osds(tmp_path: Path) -> None:
    text = """HEALTH_ERR 5 stuck requests are blocked > 4096 sec. Implicated osds 3,9
REQUEST_STUCK 5 stuck requests are blocked > 4096 sec. Implicated osds 3,9
    5 ops are blocked > 4194.3 sec
    osd.3 has stuck requests > 4194.3 sec
    osds 8,9 have blocked requests > 65.536 sec
"""
    read_, counts = found(tmp_path, write(tmp_path, "health", text))
    assert (read_.missed, counts.by_monitor.number, counts.by_monitor.osds) == (0, 5, {3, 8, 9})
    assert {osd: each.worst_age for osd, each in counts.osds.items()} == {3: 4194.3, 8: 65.536, 9: 65.536}


@pytest.mark.parametrize(("detail", "osds"), [
    ("    osd.3 has slow ops", {3}), ("    daemons [osd.3,mon.a,osd.4] have slow ops.", {3, 4}),
    ("> daemons [osd.3,osd.4] have slow ops. (SLOW_OPS)", {3, 4}), ("    mon.a has slow ops", set()),
])  # fmt: skip
def test_a_detail_names_the_daemons_of_a_sum(tmp_path: Path, detail: str, osds: set[int]) -> None:
    text = f"HEALTH_WARN 9 slow ops, oldest one blocked for 33 sec\n{detail}\n"
    read_, counts = found(tmp_path, write(tmp_path, "health", text))
    assert (read_.missed, counts.by_monitor.number, counts.by_monitor.osds, set(counts.osds)) == (0, 9, osds, osds)


def test_health_detail_of_jewel_has_the_number_of_each_osd(tmp_path: Path) -> None:
    text = """HEALTH_WARN 30 requests are blocked > 32 sec; 2 osds have slow requests
10 ops are blocked > 32.768 sec on osd.4
20 ops are blocked > 65.536 sec on osd.7
2 osds have slow requests
"""
    read_, counts = found(tmp_path, write(tmp_path, "health", text))
    assert (read_.missed, counts.by_monitor.number) == (0, 30)
    assert {osd: (each.least, each.worst_age) for osd, each in counts.osds.items()} == {
        4: (10, 32.768), 7: (20, 65.536),
    }  # fmt: skip


@pytest.mark.parametrize("line", [
    "     osd.4 observed slow operation indications in BlueStore",
    "[WRN] BLUESTORE_SLOW_OP_ALERT: osd.4 observed slow operation indications in BlueStore",
    f"{MON}     osd.4 observed stalled read indications in DB device",
    "2024-03-27T18:29:18.120+0000 7f44444 0 bluestore(/var/lib/ceph/osd/ceph-4) log_latency_fn slow operation"
    " observed for _txc_committed_kv, latency = 7.3s, txc = 0x55",
    "Mar 27 18:29:18 stor-07 ceph-osd[4242]: bluestore(/var/lib/ceph/osd/ceph-4) log_latency slow operation"
    " observed for submit_transact, latency = 5.1s",
    "2024-03-27T18:29:18.120+0000 7f44444 0 bluestore(/var/lib/ceph/osd/ceph-4) _txc_state_proc slow aio_wait, txc ="
    " 0x55d96303af00, latency = 6.402924154s",
    "2024-03-27T18:29:18.120+0000 7f44444 -1 bdev(0x5612 /var/lib/ceph/osd/ceph-4/block) read stalled read "
    " 0x29f40370000~100000 (buffered) since 63410177.290546s, timeout is 5.000000s",
    "Mar 27 18:29:18 stor-07 ceph-osd[4242]: bdev(0x5612 /var/lib/ceph/osd/ceph-4/block.db) direct_read_unaligned"
    " stalled read  0x29f40370000~1000 since 63410177.290546s, timeout is 5.000000s",
    "2024-03-27T18:29:18.120+0000 7f44444 -1 bdev(0x5612 /var/lib/ceph/osd/ceph-4/block) debug_aio_unlink stalled aio"
    " 0x55d96303af00 since 2024-03-27T18:29:11.119874+0000, timeout is 5s",
])  # fmt: skip
def test_bluestore_s_own_words_are_of_that_osd_s_disk(tmp_path: Path, line: str) -> None:
    read_, counts = found(tmp_path, write(tmp_path, "saved", f"{line}\n"))
    assert (read_.missed, {osd: each.stalls for osd, each in counts.osds.items()}) == (0, {4: 1})
    assert answer_of(read_, counts) is SlowAnswer.SOME


@pytest.mark.parametrize("text", [
    f"{MON}Health check failed: 1 MDSs report slow requests (MDS_SLOW_REQUEST)\n",
    "[WRN] MDS_SLOW_REQUEST: 1 MDSs report slow requests\n    mds.a(mds.0): 4 slow requests are blocked > 30 secs\n",
    "[WRN] MDS_SLOW_METADATA_IO: 1 MDSs report slow metadata IOs\n    mds.a(mds.0): 3 slow metadata IOs are blocked"
    " > 30 secs, oldest blocked for 33 secs\n",
    f"{MON}9 slow ops, oldest one blocked for 34 sec, mon.ceph-b has slow ops (SLOW_OPS)\n",
    f"{MON}9 slow ops, oldest one blocked for 34 sec, daemons [mon.a,mon.b] have slow ops. (SLOW_OPS)\n",
    "Mar 27 18:29:18 stor-07 ceph-mds[7]: log_channel(cluster) log [WRN] : 1 slow requests, 1 included below; oldest"
    " blocked for > 31.0 secs\nHEALTH_OK\n",
])  # fmt: skip
def test_requests_to_metadata_servers_and_monitors_are_none_of_an_osd(tmp_path: Path, text: str) -> None:
    read_, counts = found(tmp_path, write(tmp_path, "saved", text))
    assert (read_.missed, dict(counts.osds), answer_of(read_, counts)) == (0, {}, SlowAnswer.NONE)
    assert (bool(read_.monitors), read_.has_of_mds) == ("mon.ceph-b" in text or "mon.b" in text, "MDS_" in text)
    words = " ".join(unknown_lines(read_, counts, ()))
    assert ("of monitors themselves" in words, "of metadata servers" in words) == (
        bool(read_.monitors),
        "MDS_" in text,
    )


def test_slow_ops_of_a_monitor_outside_the_quorum_are_reported_and_tell_nothing_of_osds(tmp_path: Path) -> None:
    text = own(0, "mon.b@0(probing) e0 get_health_metrics reporting 22 slow ops, oldest is log(1 entries)") + "\n"
    read_, counts = found(tmp_path, write(tmp_path, "saved", text))
    assert (read_.monitors, read_.missed, answer_of(read_, counts)) == ({"mon.b"}, 0, SlowAnswer.CANNOT_TELL)


@pytest.mark.parametrize(
    ("state", "words"), [("delayed", ["40 of these are delayed: by its queue"]), ("started", [])]
)
@pytest.mark.parametrize("osds", [[3], [0, 1, 2, 3]], ids=["an OSD", "a host"])
def test_of_who_stands_out_with_delayed_requests_it_is_said_what_these_may_wait_for(
    tmp_path: Path, osds: list[int], state: str, words: list[str]
) -> None:
    tree = Tree(bucket_of={osd: CrushBucket((("root", "default"), ("host", f"h{osd // 4}"))) for osd in range(80)})
    text = "".join(
        f"2024-03-27T18:{minute}:00.120000+0000 osd.{osd} (osd.{osd}) 1 : cluster [WRN]"
        f" {sums(4 // len(osds)).replace('delayed', state)}\n" for minute in range(10, 20) for osd in osds
    )  # fmt: skip
    _, counts = found(tmp_path, write(tmp_path, "ceph.log", text))
    verdict = judge(counts.blamed.counts, tree)
    assert isinstance(verdict, OfOsd if len(osds) == 1 else OfBucket)
    lines = [*closing_lines(counts, tree, verdict, is_complete=True)]
    assert [line.partition(", a lock")[0] for line in lines if "delayed" in line] == words


def test_those_that_have_ended_or_are_of_another_time_are_not_reported(tmp_path: Path) -> None:
    text = f"{MON}Health check cleared: MDS_SLOW_REQUEST (was: 1 MDSs report slow requests)\n"
    read_, _ = found(tmp_path, write(tmp_path, "saved", text))
    assert not read_.has_of_mds
    read_ = LogReading.nothing(LogClock())
    read_.since = T0.timestamp() - 7200
    early = "2024-03-27T10:00:00.1+0000 mon.a (mon.0) 3 : cluster [WRN] 9 slow ops, oldest one blocked for 34 sec,"
    text = f"{early} mon.b has slow ops (SLOW_OPS)\n{own(0, 'osd.7 2301 tick')}\n"
    read([tmp_path / write(tmp_path, "saved", text)], lambda _: None, read_)
    assert not read_.monitors


JEWEL = "2017-05-01 10:00:00.123456 osd.5 10.0.0.1:6800/1234 17 : cluster [WRN] "
OLD = f"slow request 30.5 seconds old, received at 2017-05-01 09:59:29.6: {OP} currently queued_for_pg"
OF_A_CLIENT = "slow request 31.0 seconds old, received at 2017-05-01 09:59:29.6: client_request(client.4:7 getattr)"
BATCH = "1 slow requests, 1 included below; oldest blocked for > 31.0 secs"


@pytest.mark.parametrize("text", [
    f"{JEWEL}{OLD}\n", f"{JEWEL}{BATCH}\n", f"2017-05-01 10:00:00.123456 osd.5 [WRN] {OLD}\n",
    f"{own(0, channel(4))}\n",
    "2024-03-27T18:29:18.120+0000 7f44444 0 bluestore(/var/lib/ceph/osd/ceph-4) log_latency_fn slow operation"
    " observed for _txc_committed_kv, latency = 7.3s, txc = 0x55\n",
    "[WRN] SLOW_OPS: 4 slow ops, oldest one blocked for 32 sec, osd.1 has slow ops\n",
    "    health: HEALTH_WARN\n            4 slow ops, oldest one blocked for 32 sec, osd.1 has slow ops\n",
])  # fmt: skip
@pytest.mark.parametrize("prefix", ["", "ceph-mds01: ", "ceph-mds-01: "])
@pytest.mark.parametrize("name", ["ceph-mds01-ceph.log", "saved"])
def test_what_is_saved_under_the_name_of_a_host_of_metadata_servers_counts(
    tmp_path: Path, name: str, prefix: str, text: str
) -> None:
    lines = "".join(f"{prefix}{line}\n" for line in text.splitlines())
    read_, counts = found(tmp_path, write(tmp_path, name, lines))
    assert (read_.missed, answer_of(read_, counts)) == (0, SlowAnswer.SOME)


def test_the_own_log_of_a_metadata_server_has_no_requests_to_osds(tmp_path: Path) -> None:
    """An OSD's sums until Mimic have the same words."""
    internal = OF_A_CLIENT.replace("client_request(client.4:7 getattr)", "internal op exportdir:mds.0:12")
    words = (BATCH, f"{OF_A_CLIENT} currently failed to rdlock", BATCH, f"{internal} currently dispatched")
    text = "".join(f"{own(0, f'log_channel(cluster) log [WRN] : {each}')}\n" for each in words)
    fsid = "2b1c9d6e-1111-4222-8333-abcdefabcdef"
    journal = "Mar 27 18:29:18 osd-3 {}[4242]: debug "
    for name, prefix in (
        ("ceph-mds.a.log", ""), ("saved", "ceph-mds.a.log:"),
        # On a host that is named as an OSD.
        ("ceph-mds.osd3.log", ""), ("ceph-mds.cephfs.osd-3.xyzabc.log", ""), ("mds.cephfs.osd-3.xyzabc.txt", ""),
        ("saved", journal.format(f"ceph-{fsid}-mds-cephfs-osd-3-xyzabc")),
        ("saved", journal.format("ceph-mds-osd-3")),
    ):  # fmt: skip
        lines = "".join(f"{prefix}{line}\n" for line in text.splitlines())
        read_, counts = found(tmp_path, write(tmp_path, name, lines))
        assert (dict(counts.osds), answer_of(read_, counts)) == ({}, SlowAnswer.CANNOT_TELL)


def test_sums_of_a_thread_that_tells_of_requests_to_files_are_none_of_an_unknown_osd(tmp_path: Path) -> None:
    head, other = (
        f"2018-11-02 19:45:46.719 I | x-fs-5d84: 2018-11-02 19:45:46.71 7f38{each} 0" for each in ("aa", "bb")
    )
    channel_ = "log_channel(cluster) log [WRN] : "
    text = f"{head} {channel_}{BATCH}\n{head} {channel_}{OF_A_CLIENT} currently failed to xlock, waiting\n"
    read_, counts = found(tmp_path, write(tmp_path, "saved", text))
    assert (dict(counts.osds), read_.has_of_mds, answer_of(read_, counts)) == ({}, True, SlowAnswer.CANNOT_TELL)
    _, counts = found(tmp_path, write(tmp_path, "saved", f"{text}{other} {channel_}{BATCH}\n"))
    assert [*counts.osds] == [UNKNOWN_OSD]


@pytest.mark.parametrize("prefix", ["", "> "])
def test_the_journal_of_a_metadata_server_is_no_all_clear_of_osds(tmp_path: Path, prefix: str) -> None:
    head = f"{prefix}Mar 27 18:29:18 stor-07 ceph-mds[3133]: log_channel(cluster) log [WRN] : "
    text = "".join(f"{head}{each}\n" for each in (BATCH, f"{OF_A_CLIENT} currently acquired locks"))
    read_, counts = found(tmp_path, write(tmp_path, "saved", text))
    assert (dict(counts.osds), answer_of(read_, counts)) == ({}, SlowAnswer.CANNOT_TELL)


def test_windows_line_ends_hide_no_boot(tmp_path: Path) -> None:
    text = f"{MON[:-6]}[INF] osd.12 [v2:10.0.0.1:6800/1,v1:10.0.0.1:6801/1] boot\r\n"
    for name in ("ceph.log", "ceph.log.gz"):
        _, counts = found(tmp_path, write(tmp_path, name, text))
        assert counts.osds[12].boot == 1


# --- none, or cannot tell


@pytest.mark.parametrize(("text", "answer"), [
    (f"{MON}Health check cleared: OSD_DOWN (was: 1 osds down)\n", SlowAnswer.NONE),
    ("HEALTH_OK\n", SlowAnswer.NONE),
    (f"{own(0, 'osd.7 2301 tick')}\n", SlowAnswer.NONE),
    (f"{own(0, 'osd.7 80 not healthy; waiting to boot')}\n", SlowAnswer.NONE),
    ("2024-03-27T18:29:18.1+0000 mon.a (mon.0) 4 : audit [INF] from='client.1' cmd=[{\"prefix\": \"x\"}]\n",
     SlowAnswer.CANNOT_TELL),
    ("2024-03-27T18:29:18.1+0000 7f44444 0 mgr.server handle_open\n", SlowAnswer.CANNOT_TELL),
    ("Mar 27 18:29:18 stor-07 kernel: sd 0:0:0:0: [sda] done\n", SlowAnswer.CANNOT_TELL),
    ("Mar 27 18:29:18 stor-07 sshd[7]: connection failed (timeout)\nMar 27 18:29:19 stor-07 systemd[1]: will boot\n",
     SlowAnswer.CANNOT_TELL),
    ("Mar 27 18:29:18 stor-07 sshd[7]: connection failed (timeout)\n"
     "Mar 27 18:29:18 stor-07 ceph-osd[4242]: osd.7 2301 tick\n", SlowAnswer.NONE),
    ("    health: HEALTH_WARN\n            noout flag(s) set\n            (muted: OSDMAP_FLAGS(5m) SLOW_OPS(59m))\n",
     SlowAnswer.CANNOT_TELL),
    ("HEALTH_OK (muted: DB_DEVICE_STALLED_READ_ALERT)\n", SlowAnswer.CANNOT_TELL),
    ("HEALTH_OK (muted: OSD_DOWN MDS_SLOW_REQUEST)\n", SlowAnswer.NONE),
    (f"{MON}overall HEALTH_OK (muted: SLOW_OPS)\n", SlowAnswer.NONE),
    ("2024-06-10 16:20:23,226 7f81ab DEBUG /usr/bin/podman: stdout  \"type\": \"bluestore\"\n"
     "2024-06-10 16:20:24,226 7f81ab DEBUG Running command: ceph-volume lvm prepare --osd-objectstore bluestore\n",
     SlowAnswer.CANNOT_TELL),
    ("[2024-06-10 16:20:23,226][ceph_volume.process][INFO  ] stderr 2024-06-10T16:20:23.226+0000 7f7ff -1"
     " bluestore(/var/lib/ceph/osd/ceph-3/) _read_fsid unparsable uuid\n", SlowAnswer.CANNOT_TELL),
    ("2024-06-10T16:20:23.226+0000 7fc33ca06700  4 rocksdb: options of bluefs\n", SlowAnswer.CANNOT_TELL),
    (f"{own(0, 'bluestore(/var/lib/ceph/osd/ceph-3) _open_db')}\n", SlowAnswer.NONE),
    (f"debug {own(0, 'bluefs mount')}\n", SlowAnswer.NONE),
    ("", SlowAnswer.CANNOT_TELL),
    (f"{own(0, 'log_channel(cluster) log [WRN] : slow requests in words that no release has')}\n",
     SlowAnswer.CANNOT_TELL),
])  # fmt: skip
def test_what_could_not_have_told_is_not_none(tmp_path: Path, text: str, answer: SlowAnswer) -> None:
    read_, counts = found(tmp_path, write(tmp_path, "ceph-osd.7.log" if "osd.7" in text else "saved", text))
    assert answer_of(read_, counts) is answer


def test_muted_checks_of_health_detail_count(tmp_path: Path) -> None:
    text = (
        "HEALTH_OK (muted: SLOW_OPS(59m))\n(MUTED ttl 59m) [WRN] SLOW_OPS: 4 slow ops, oldest one blocked for 32 sec,"
        " osd.1 has slow ops\n"
    )
    read_, counts = found(tmp_path, write(tmp_path, "saved", text))
    assert (read_.missed, counts.by_monitor.number, counts.by_monitor.osds) == (0, 4, {1})


# --- numbers with their bounds


def test_ticks_that_an_osd_missed_do_not_double_its_count(tmp_path: Path) -> None:
    """Its log names the same oldest request before and after."""
    times = ((0, 6), (1, 6), (2, 6), (3, 6), (6, 7))
    text = "".join(
        f"{own(second, words)}\n" for second, number in times for words in (oldest(number), channel(number))
    )
    _, counts = found(tmp_path, write(tmp_path, "ceph-osd.7.log", text))
    assert (counts.osds[7].primary, counts.osds[7].least) == (7, 7)
    line = "2024-03-27T18:29:{}.12+0000 osd.7 (osd.7) 1 : cluster [WRN] {}\n"
    text = "".join(line.format(18 + second, sums(number)) for second, number in times)
    _, counts = found(tmp_path, write(tmp_path, "ceph.log", text))
    assert (counts.osds[7].least, counts.osds[7].most) == (7, 13), "the cluster's log does not name it"


def test_a_batch_says_how_many_there_are_at_least(tmp_path: Path) -> None:
    head = "2018-06-05 10:00:10.000000 osd.2 osd.2 10.0.0.4:6800/11 1 : cluster [WRN] "
    _, counts = found(tmp_path, write(tmp_path, "ceph.log", (
        f"{head}480 slow requests, 1 included below; oldest blocked for > 31.0 secs\n"
        f"{head}slow request 31.0 seconds old, received at 2018-06-05 09:59:39.0: {OP} currently queued_for_pg\n"
    )))  # fmt: skip
    assert (counts.osds[2].total, counts.osds[2].least, counts.osds[2].most) == (1, 480, None)


def test_five_stuck_requests_for_an_hour_are_five(tmp_path: Path) -> None:
    line = (
        "2018-06-05 10:{:02}:10.0 mon.a mon.0 10.0.0.1:6789/0 5 : cluster [ERR] Health check update: 5 stuck requests"
    )
    text = "".join(f"{line.format(m)} are blocked > 4096 sec. Implicated osds 3 (REQUEST_STUCK)\n" for m in range(60))
    _, counts = found(tmp_path, write(tmp_path, "ceph.log", text))
    assert (counts.osds[3].least, counts.osds[3].total, counts.by_monitor.number) == (5, 0, 5)


def test_lines_since_and_until_a_time_count_and_a_long_log_is_not_read_to_get_there(tmp_path: Path) -> None:
    line = "2024-03-27T{:02}:{:02}:{:02}.12+0000 osd.7 (osd.7) 1 : cluster [WRN] {}\n"
    text = "".join(
        line.format(hour, minute, second, sums(1)) + "x" * 200 + "\n"
        for hour in range(24) for minute in range(0, 60, 5) for second in range(0, 60, 20)
    )  # fmt: skip
    text = text.replace("x\n", "x" * 2000 + "\n")
    read_ = LogReading.nothing(LogClock())
    read_.since = datetime(2024, 3, 27, 12, 0, 0, tzinfo=UTC).timestamp()
    read_.until = datetime(2024, 3, 27, 12, 9, 59, tzinfo=UTC).timestamp()
    read([tmp_path / write(tmp_path, "ceph.log", text)], lambda _: None, read_)
    assert read_.cluster.osds[7].total == 2 * 3
    assert read_.bytes < len(text) / 2


STORMS = [
    f"2024-03-27T{hour}:29:{18 + second}.120000+0000 {{}}{sums(number)}"
    for hour in (10, 11, 12) for second, number in enumerate((2, 15, 15, 3))
]  # fmt: skip
OF_CLUSTER, OF_OSD = "osd.7 (osd.7) 1 : cluster [WRN] ", "7f44 0 log_channel(cluster) log [WRN] : "


@pytest.mark.parametrize("says", [OF_CLUSTER, OF_OSD])
@pytest.mark.parametrize(
    "order", [STORMS[::-1], STORMS[4:] + STORMS[:4], STORMS], ids=["newest first", "joined", "usual"]
)
@pytest.mark.parametrize(("since", "until", "number"), [
    (None, None, 45), (10, 12, 30), (10, 11, 15), (12, 13, 15), (11, 13, 30), (14, None, None), (None, 9, None),
])  # fmt: skip
def test_a_log_that_is_newest_first_has_as_many(
    tmp_path: Path, says: str, order: list[str], since: int | None, until: int | None, number: int | None
) -> None:
    read_ = LogReading.nothing(LogClock())
    read_.since, read_.until = (
        None if each is None else datetime(2024, 3, 27, each, tzinfo=UTC).timestamp() for each in (since, until)
    )
    text = "\n".join(order).format(*[says] * 12) + "\n"
    read([tmp_path / write(tmp_path, "ceph-osd.7.log", text)], lambda _: None, read_)
    counts = together(read_.cluster, read_.own, read_.dumped)
    have = [(each.total, each.least, each.most) for each in counts.osds.values()]
    assert have == ([(number, number, number)] if number else [])
    assert answer_of(read_, counts) is (SlowAnswer.SOME if number else SlowAnswer.CANNOT_TELL)


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("seed", range(8))
def test_late_lines_of_osds_turn_no_log_around(tmp_path: Path, seed: int, order: int) -> None:
    """Each OSD has 20 at once, four times a minute apart, and its lines come up to 5 s late."""
    source = random.Random(seed)
    late = [source.uniform(0, 5) for _ in range(40)]
    each = [
        (60 * storm + second + late[osd] + osd / 1e3, osd, 60 * storm + second + osd / 1e3)
        for storm in range(4) for second in range(9) for osd in range(40)
    ]  # fmt: skip
    lines = [
        f"{(T0 + timedelta(seconds=at)).isoformat(timespec='microseconds')[:-6]}+0000 osd.{osd} (osd.{osd}) 1 :"
        f" cluster [WRN] {sums(20 if at % 60 >= 1 else 5)}"
        for _, osd, at in sorted(each)[::order]
    ]  # fmt: skip
    path = tmp_path / write(tmp_path, "ceph.log", "\n".join(lines) + "\n")
    begin = path.read_bytes()[:BEGIN]
    assert is_newest_first(path, begin, "lines", LogClock(), T0.timestamp()) is (order == -1)
    _, counts = found(tmp_path, path.name)
    assert {one.total for one in counts.osds.values()} == {80}


def test_the_oldest_requests_of_rotated_logs_that_were_joined_are_each_of_their_time(tmp_path: Path) -> None:
    each = [line.split("{}")[0] + f"7f44 -1 {oldest(int(line.split('{}')[1].split()[0]))}" for line in STORMS]
    each = [line.replace("5110.0:901", f"5110.0:{number // 4}") for number, line in enumerate(each)]
    for order in (each, each[::-1], each[4:] + each[:4]):
        _, counts = found(tmp_path, write(tmp_path, "saved", "\n".join(order) + "\n"))
        assert [(one.unknown, one.least, one.most) for one in counts.osds.values()] == [(45, 45, 45)]


@pytest.mark.parametrize(("since", "until", "answer"), [
    (None, None, SlowAnswer.SOME), (-60, None, SlowAnswer.SOME), (1, None, SlowAnswer.SOME),
    (3600, None, SlowAnswer.CANNOT_TELL), (None, -60, SlowAnswer.CANNOT_TELL),
    (2, 3, SlowAnswer.NONE), (2, 3600, SlowAnswer.NONE),
])  # fmt: skip
def test_a_log_of_another_time_could_not_have_told(
    tmp_path: Path, since: int | None, until: int | None, answer: SlowAnswer
) -> None:
    later = own(5, "osd.7 2301 tick")
    read_ = LogReading.nothing(LogClock())
    begin = T0.timestamp()
    read_.since, read_.until = (None if each is None else begin + each for each in (since, until))
    text = FORMS["its own file"] + f"{later}\n"
    read([tmp_path / write(tmp_path, "ceph-osd.7.log", text)], lambda _: None, read_)
    assert answer_of(read_, together(read_.cluster, read_.own, read_.dumped)) is answer


@pytest.mark.parametrize(("since", "answer"), [(None, SlowAnswer.SOME), (7200.0, SlowAnswer.CANNOT_TELL)])
@pytest.mark.parametrize("name", ["saved", "ceph-osd.7.log"])
def test_where_a_time_is_asked_for_a_line_without_one_may_be_of_it(
    tmp_path: Path, name: str, since: float | None, answer: SlowAnswer
) -> None:
    read_ = LogReading.nothing(LogClock())
    read_.since = since and T0.timestamp() + since
    text = "[WRN] SLOW_OPS: 4 slow ops, oldest one blocked for 32 sec, osd.1 has slow ops\n"
    read([tmp_path / write(tmp_path, name, text)], lambda _: None, read_)
    assert answer_of(read_, together(read_.cluster, read_.own, read_.dumped)) is answer


def test_a_line_without_a_time_that_tells_of_no_request_leaves_none_none(tmp_path: Path) -> None:
    read_ = LogReading.nothing(LogClock())
    read_.until = T0.timestamp()
    text = f"{own(-5, 'osd.7 2301 tick')}\nosd.7 80 not healthy; waiting to boot\n"
    read([tmp_path / write(tmp_path, "ceph-osd.7.log", text)], lambda _: None, read_)
    assert answer_of(read_, together(read_.cluster, read_.own, read_.dumped)) is SlowAnswer.NONE


@pytest.mark.parametrize("order", [1, -1])
def test_a_stamp_without_a_year_is_before_its_own_file_was_written_whichever_file_is_read_with_it(
    tmp_path: Path, order: int
) -> None:
    """As ``messages`` and ``messages-20240324``, which a week's rotation leaves."""

    def stamped(moment: datetime, words: str) -> str:
        return f"{moment:%b} {moment.day:2} {moment:%H:%M:%S} stor-07 {words}\n"

    begin = T0 - timedelta(days=2)
    text = [stamped(begin + timedelta(minutes=minute), "kernel: eth0: up " + "x" * 300) for minute in range(2880)]
    text.insert(2160, stamped(T0 - timedelta(hours=12), f"ceph-osd[4242]: {oldest(4)}"))
    write(tmp_path, "messages", "".join(text) + stamped(T0, "ceph-osd[4242]: osd.7 2301 tick"))
    then = T0 - timedelta(days=4)
    write(tmp_path, "messages-20240323", stamped(then, "ceph-osd[4242]: osd.7 2301 tick"))
    os.utime(tmp_path / "messages-20240323", (then.timestamp(), then.timestamp()))
    read_ = LogReading.nothing(LogClock())
    read_.since = T0.timestamp() - 86_400
    names = ["messages", "messages-20240323"][::order]
    read([tmp_path / name for name in names], lambda _: None, read_)
    counts = together(read_.cluster, read_.own, read_.dumped)
    assert (counts.osds[7].unknown, counts.first) == (4, T0.replace(microsecond=0).timestamp() - 43_200)
    assert read_.outside == [str(tmp_path / "messages-20240323")]
    assert answer_of(read_, counts) is SlowAnswer.SOME


@pytest.mark.parametrize("words", [
    "overall HEALTH_WARN 40 slow ops, oldest one blocked for 123 sec, osd.1 has slow ops",
    "Health check cleared: SLOW_OPS (was: 40 slow ops, oldest one blocked for 123 sec, osd.1 has slow ops)",
    "Health check update: 40 slow ops, oldest one blocked for 123 sec, osd.1 has slow ops (SLOW_OPS)",
])  # fmt: skip
def test_what_a_monitor_told_again_or_cleared_before_the_time_that_is_asked_for_is_not_of_it(
    tmp_path: Path, words: str
) -> None:
    text = f"2024-03-27T10:00:00.1+0000 mon.a (mon.0) 12 : cluster [WRN] {words}\n{own(0, 'osd.7 2301 tick')}\n"
    for hours, answer in ((1, SlowAnswer.NONE), (12, SlowAnswer.SOME)):
        read_ = LogReading.nothing(LogClock())
        read_.since = T0.timestamp() - 3600 * hours
        read([tmp_path / write(tmp_path, "ceph.log", text)], lambda _: None, read_)
        assert answer_of(read_, together(read_.cluster, read_.own, read_.dumped)) is answer
