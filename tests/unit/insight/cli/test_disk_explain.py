"""``plimsoll disk explain --since``: what a node knows of the past of a disk, and what it does not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from plimsoll_agent.config import settings as config
from plimsoll_agent.consoles import file as consoles_file
from plimsoll_agent.consoles.model import Consoles, GuestConsole, Stalls
from plimsoll_agent.consoles.patterns import StallKind
from plimsoll_agent.model.entries import Conclusion, Ending
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Reason, because
from plimsoll_agent.model.usage import Rates
from plimsoll_agent.monitor import pass_summary_file
from plimsoll_agent.monitor.pass_summary import LastDisk
from plimsoll_agent.monitor.usage_history import append
from plimsoll_agent.policy.decide import decide
from plimsoll_agent.policy.diff import change_between
from plimsoll_agent.policy.sources import SOURCES
from plimsoll_agent.reconcile.outcome import Kind, PassReport
from plimsoll_agent.store.record import Record
from plimsoll_agent.store.state import State
from plimsoll_agent.util.frozen import replace
from plimsoll_insight.cli import disk_explain
from plimsoll_insight.cli.disk_explain import DiskExplain
from plimsoll_insight.cli.top import sentence_for
from tests import schemas
from tests.unit.lastpasses import a_last_disk, a_last_pass, a_name
from tests.unit.node import uuid_of
from tests.unit.outcomes import a_pass, staying
from tests.unit.person import Person
from tests.unit.values import a_disk, a_situation

LIMITS = Limits(total_iops_sec=500)
DISK = a_disk(actual=LIMITS, defined=LIMITS)
NOW = datetime(2026, 11, 20, 12, 0, 30, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    """What these tests assert depends on what is minutes old, and a run of all of them takes minutes."""
    monkeypatch.setattr(disk_explain, "now_of", lambda state: NOW)


def ran(state: Path, *words: str) -> tuple[int, str, str]:
    situation = a_situation()
    outcome = staying(DISK, decide(DISK, situation, SOURCES), Kind.LEFT_ALONE, because(Code.NO_LIMIT))
    passed = a_pass(outcome, situation=situation)

    def look(command: Any, *_: object, **__: object) -> PassReport:
        command.status = 0
        return passed

    person = Person()
    settings = replace(config.load([], []), state_dir=state)
    status = person.types(DiskExplain, DISK.guest.name, *words, settings=settings, look=look)
    return status, person.out, person.err


def keep(state: Path, *disks: LastDisk) -> None:
    last = a_last_pass(*disks, ended=NOW - timedelta(seconds=41), looked=NOW - timedelta(seconds=42))
    pass_summary_file.save(State(state), last)


def own(share: float = 0.2, latency: float | None = 0.004) -> LastDisk:
    rates = Rates(read_iops=100, write_iops=400, read_bytes=4e5, write_bytes=1.6e6, seconds=300, latency=latency)
    return a_last_disk(DISK.named, actual=LIMITS, rates=rates, shares={"total_iops_sec": share})


def others(*rates: float, latency: float = 0.004) -> Sequence[LastDisk]:
    return [
        a_last_disk(
            a_name(number),
            rates=Rates(
                read_iops=rate, write_iops=0, read_bytes=rate * 4096, write_bytes=0, seconds=300, latency=latency
            ),
        )
        for number, rate in enumerate(rates, 50)
    ]


def remember(state: Path, *passes: Sequence[LastDisk]) -> None:
    """Passes of every five minutes until now."""
    for back, disks in zip(range(len(passes) - 1, -1, -1), passes, strict=True):
        append(State(state), a_last_pass(*disks, looked=NOW - timedelta(minutes=5 * back, seconds=42)))


def test_without_since_it_is_the_explanation_of_limits_alone(tmp_path: Path) -> None:
    keep(tmp_path, own(1.0, 0.04))
    status, out, _ = ran(tmp_path)
    assert (status, "In the last" in out) == (0, False)
    assert "past" not in json.loads(ran(tmp_path, "-f", "json")[1])


CALM = [own(), *others(100, 100, 100)]
CAUSES: dict[str, tuple[list[LastDisk], str]] = {
    "its limit": ([own(0.99, 0.04), *others(100, 100, 100)], "its own limit, 500 IOPS; between"),
    "a neighbour": (
        [own(latency=0.09), *others(100, 100, 9000, latency=0.09)],
        f"a neighbour: guest instance-00000052 ({uuid_of(52)}) did 92.9 % of all bytes of the node; between",
    ),
    "the node": (
        [own(latency=0.09), *others(100, 100, 100, latency=0.09)],
        "unknown: the disks of other guests on this node are slow too: it is the node, or the cluster; between",
    ),
    "alone": (
        [own(latency=0.09), *others(100, 100, 100)],
        "unknown: it is slow, and the disks of other guests on this node are not",
    ),
    "not slow": (CALM, "none, it is not slow; known 100 % of the time since 2026-11-20 09:39 UTC"),
}


@pytest.mark.parametrize("what", CAUSES)
def test_the_cause_is_found_in_what_passes_measured(tmp_path: Path, what: str) -> None:
    slow, words = CAUSES[what]
    remember(tmp_path, *[CALM] * 20, *[slow] * 9)
    keep(tmp_path, *slow)
    status, out, _ = ran(tmp_path, "--since", "24h")
    assert status == 0
    assert f"Cause: {words}" in out
    assert "usual for its type 4 ms" in out
    assert f"plimsoll region explain {DISK.guest.uuid} --since 24h" in out
    data = json.loads(ran(tmp_path, "--since", "24h", "-f", "json")[1])
    schemas.hold("disk explain", json.dumps(data), "json")
    past = data["past"]["disk"]
    assert (len(past["intervals"]), past["known_intervals"], past["interval"]) == (29, 29, 300)


def test_the_answer_stands_before_the_limits_with_a_row_of_the_time(tmp_path: Path) -> None:
    slow, _ = CAUSES["a neighbour"]
    remember(tmp_path, *[CALM] * 20, *[slow] * 9)
    keep(tmp_path, *slow)
    out = ran(tmp_path, "--since", "24h")[1]
    first, scale, row, legend, following, tenant, nothing, *_ = out.splitlines()
    assert first == (
        f"{DISK.guest.name} {DISK.target} was slow because of a NEIGHBOUR on this node: instance-00000052 did"
        " 92.9 % of the node's bytes   11:14–11:59 UTC (45 min)"
    )
    assert row == f"{DISK.target}  {'·' * 21}{'█' * 9}  4 ms → 90 ms"
    assert (scale.split()[0], legend.strip(), nothing) == ("10h", "· usual  █ slow", "")
    assert following == "next: plimsoll region load --by guest --since 24h"
    assert tenant.startswith('tenant: "For your volume ')


def test_other_guests_that_did_nothing_count_in_what_the_busiest_usually_does(tmp_path: Path) -> None:
    busy = others(0, 0, 9000)
    slow = [own(latency=0.09), *busy]
    remember(tmp_path, *[[own(), *others(0, 0, 0)]] * 12, *[[own(), *busy]] * 6, *[slow] * 9)
    keep(tmp_path, *slow)
    _, out, _ = ran(tmp_path, "--since", "24h")
    assert "Cause: a neighbour: guest instance-00000052" in out


def test_what_was_before_the_time_is_left_out_and_yet_tells_what_is_usual(tmp_path: Path) -> None:
    remember(tmp_path, *[CALM] * 90, *[CAUSES["alone"][0]] * 12)
    past = json.loads(ran(tmp_path, "--since", "1h", "-f", "json")[1])["past"]["disk"]
    assert (len(past["intervals"]), past["slow_intervals"], past["usual_latency"]) == (12, 12, 0.004)


def test_time_since_the_last_pass_is_unknown_and_it_is_told_since_when_passes_are_kept(tmp_path: Path) -> None:
    """No pass in the last half of the day."""
    remember(tmp_path, *[CALM] * 144, *[[]] * 144)
    out = ran(tmp_path, "--since", "24h")[1]
    first = NOW - timedelta(minutes=5 * 287, seconds=42)
    assert f"  what passes measured of it is kept since {first:%Y-%m-%d %H:%M} UTC\n" in out
    past = json.loads(ran(tmp_path, "--since", "24h", "-f", "json")[1])["past"]["disk"]
    assert (len(past["intervals"]), past["known_intervals"]) == (287, 144)


@pytest.mark.parametrize(("alike", "cause"), [(0, "unknown"), (2, "not-slow")])
def test_a_disk_that_is_always_slow_is_not_usual_by_itself(tmp_path: Path, alike: int, cause: str) -> None:
    of_type = [replace(each, volume_type=None) for each in others(*[100] * alike, latency=0.5)]
    every = [replace(own(latency=0.5), volume_type=None), *of_type]
    remember(tmp_path, *[every] * 20)
    keep(tmp_path, *every)
    past = json.loads(ran(tmp_path, "--since", "24h", "-f", "json")[1])["past"]["disk"]
    assert past["cause"] == cause


def test_time_without_passes_is_unknown(tmp_path: Path) -> None:
    remember(tmp_path, *[CALM] * 6, *[[]] * 10, *[CALM] * 6)
    past = json.loads(ran(tmp_path, "--since", "24h", "-f", "json")[1])["past"]["disk"]
    assert (len(past["intervals"]), past["known_intervals"]) == (22, 12)


@pytest.mark.parametrize(("after", "cause"), [(0.004, "not-slow"), (0.9, "unknown")])
def test_a_gap_is_in_the_first_reading_after_it(tmp_path: Path, after: float, cause: str) -> None:
    """Libvirt is busy now and then; what a guest waits for in a gap shows in the averages over it."""
    without = [*others(100, 100, 100)]
    remember(tmp_path, *[CALM] * 9, without, without, [own(latency=after), *without], *[CALM] * 9)
    past = json.loads(ran(tmp_path, "--since", "24h", "-f", "json")[1])["past"]["disk"]
    assert (past["cause"], past["unexplained"]) == (cause, "not-read" if cause == "unknown" else None)


def test_what_was_after_the_time_is_left_out(tmp_path: Path) -> None:
    slow, _ = CAUSES["its limit"]
    remember(tmp_path, *[CALM] * 12, *[slow] * 12)
    keep(tmp_path, *slow)
    before = (NOW - timedelta(hours=1, minutes=1)).strftime("%H:%M")
    out = ran(tmp_path, "--since", "2h", "--until", before)[1]
    assert "Cause: none, it is not slow; known 100 % of the time" in out
    assert f"to {before} UTC, by the passes and the record of this node:\n" in out
    assert "last pass" not in out, "that is of now"
    assert "its own limit" in ran(tmp_path, "--since", "2h")[1]


def test_a_guest_that_did_not_answer_is_told_and_is_not_called_not_slow(tmp_path: Path) -> None:
    remember(tmp_path, *[CALM] * 9)
    hung = frozenset({DISK.guest.uuid})
    for back in (1, 0):
        looked = NOW - timedelta(minutes=5 * back, seconds=42) + timedelta(minutes=10)
        append(State(tmp_path), a_last_pass(*others(5), looked=looked, hung_guests=hung))
    out = ran(tmp_path, "--since", "24h")[1]
    assert "  the guest did not answer: 2 intervals between 2026-11-20 11:59 and 12:09 UTC\n" in out
    assert "Cause: unknown: it had no reading while its requests may have waited; Ceph's health is unknown" in out
    assert "no longer than usual" not in out


TOO_LITTLE = "too little is known (few requests, or few passes with [metrics] textfile_dir)"
NO_USUAL = "what is usual for its type is unknown: few passes, or few disks of its type here"


@pytest.mark.parametrize(
    ("disks", "why"),
    [([own(0.2, 0.9)], NO_USUAL), ([own(1.0, None)], "fewer than three passes"), (others(5), TOO_LITTLE)],
)
def test_one_pass_shows_no_cause(tmp_path: Path, disks: list[LastDisk], why: str) -> None:
    keep(tmp_path, *disks)
    remember(tmp_path, disks)
    status, out, _ = ran(tmp_path, "--since", "24h")
    assert status == 0
    assert f"Cause: unknown: {why}" in out


def test_what_its_kernel_reported_in_that_time_is_told(tmp_path: Path) -> None:
    stalls = {
        StallKind.HUNG_TASK: Stalls(3, NOW - timedelta(hours=2)),
        StallKind.IO_ERROR: Stalls(9, NOW - timedelta(days=2)),
    }
    console = GuestConsole(name="i", server=None, project=None, tried=NOW, stalls=stalls)
    consoles_file.save(
        State(tmp_path), Consoles(NOW, {DISK.guest.uuid: replace(console, trouble="Permission denied")})
    )
    out = ran(tmp_path, "--since", "24h")[1]
    last = f"{NOW - timedelta(hours=2):%Y-%m-%d %H:%M} UTC"
    assert f"  its kernel reported hung-task: 3 lines since its console is read, the last {last}\n" in out
    assert "  its console cannot be read (Permission denied): it is unknown whether it stalled\n" in out
    assert "io-error" not in out
    told = json.loads(ran(tmp_path, "--since", "24h", "-f", "json")[1])
    schemas.hold("disk explain", json.dumps(told), "json")
    assert told["past"]["console"]["state"] == "unreadable"
    assert {kind: each["lines"] for kind, each in told["past"]["console"]["stalls"].items()} == {"hung-task": 3}


def test_changes_in_that_time_are_told_with_why_and_older_ones_are_not(tmp_path: Path) -> None:
    keep(tmp_path, own())
    record = Record(tmp_path / "record.sqlite")
    for back, iops in ((timedelta(days=2), 111), (timedelta(hours=2), 333)):
        after = Limits(total_iops_sec=iops)
        change = change_between(DISK, Limits(), after, Reason(Code.NODE_DEFAULT))
        (id_,) = record.intend([change], NOW - back, "root")
        record.conclude([Conclusion(id_, Ending.DONE)], NOW - back)
    out = ran(tmp_path, "--since", "1d")[1]
    past = out.partition("In the last 1d")[2]
    assert "unlimited → 333 IOPS" in past
    assert "111" not in past
    data = json.loads(ran(tmp_path, "--since", "1d", "-f", "json")[1])
    assert [entry["after"] for entry in data["past"]["entries"]] == [{"total_iops_sec": 333}]
    schemas.hold("disk explain", json.dumps(data), "json")


def test_what_cannot_be_read_is_told_and_is_not_zero(tmp_path: Path) -> None:
    (tmp_path / "pass.json").write_text("{")
    (tmp_path / "consoles.json").write_text("{")
    (tmp_path / "usage.jsonl").mkdir()
    (tmp_path / "record.sqlite").write_text("no database " * 100)
    status, out, _ = ran(tmp_path, "--since", "24h", "-f", "json")
    past = json.loads(out)["past"]
    assert (status, past["entries"], past["console"], past["disk"]["cause"]) == (1, None, None, "unknown")
    assert len(past["complaints"]) == 4


@pytest.mark.parametrize("since", ["soon", "-1h", "0s", ""])
def test_a_time_that_is_none_is_a_usage_error(tmp_path: Path, since: str, caplog: pytest.LogCaptureFixture) -> None:
    status, out, _ = ran(tmp_path, f"--since={since}")
    assert (status, out) == (64, "")
    assert caplog.messages[0].startswith("--since: ")


# --- the sentence of ``plimsoll top``


@pytest.mark.parametrize("what", CAUSES)
def test_a_tenants_sentence_has_the_cause_and_no_other_tenant_and_nothing_is_copied_without_a_cause(
    tmp_path: Path, what: str
) -> None:
    slow, words = CAUSES[what]
    remember(tmp_path, *[CALM] * 20, *[slow] * 9)
    keep(tmp_path, *slow)
    answer = sentence_for(replace(config.load([], []), state_dir=tmp_path), DISK, NOW)
    (shown,) = answer.head
    if words.startswith("unknown"):
        assert (shown.startswith("unknown: "), answer.copy) == (True, "")
        return
    assert answer.copy == shown
    part = {"its limit": "500 IOPS", "a neighbour": "other load", "not slow": "took no longer than usual"}[what]
    assert part in shown
    assert "instance-" not in shown


def test_a_history_that_cannot_be_read_is_no_sentence_that_all_is_well(tmp_path: Path) -> None:
    (tmp_path / "usage.jsonl").mkdir()
    answer = sentence_for(replace(config.load([], []), state_dir=tmp_path), DISK, NOW)
    assert answer.copy == ""
    assert answer.head[0].startswith("unknown: ")
