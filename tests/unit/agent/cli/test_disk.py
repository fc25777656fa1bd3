"""What ``plimsoll disk`` shows of names that tenants chose."""

from __future__ import annotations

import io
import json
import re
from datetime import timedelta
from pathlib import Path

import pytest

from plimsoll_agent.cli.disk import DiskExplain, DiskList, DiskShow
from plimsoll_agent.config import settings as config
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.entries import Conclusion, Ending
from plimsoll_agent.model.hypervisor import GuestRef
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.marks import Mark, Marks
from plimsoll_agent.model.reason import Code, Reason, because
from plimsoll_agent.policy.decide import Desired, decide
from plimsoll_agent.policy.diff import change_between
from plimsoll_agent.policy.sources import SOURCES
from plimsoll_agent.reconcile.outcome import Kind, Outcome, PassReport, Result, UnreachableGuest
from plimsoll_agent.rules.model import Match, Rule, Rules
from plimsoll_agent.store.record import Record
from plimsoll_agent.util.frozen import replace
from tests.unit.clouds import a_catalogue, a_spec, a_type, knowing, met
from tests.unit.manydisks import a_pass_over
from tests.unit.outcomes import a_pass, planned, staying
from tests.unit.person import Person, Terminal
from tests.unit.values import NOON, VOLUME, a_disk, a_guest, a_situation
from tests.unit.widths import WIDTHS, misfits, plain

HOSTILE = "a\x1b[2J\x07b\nc\rd\u202ee\u2028f"


def hostile_pass() -> PassReport:
    words = ("name", "display_name", "project_name", "project", "user", "flavor", "image", "uuid")
    guest = a_guest(**dict.fromkeys(words, HOSTILE))
    names = dict.fromkeys(("target", "pool", "image", "namespace", "bus", "alias"), HOSTILE)
    # Its definition says otherwise: that has a line of its own in ``explain``.
    disk = a_disk(guest, **names, volume_id=None, monitors=(HOSTILE,), defined=Limits(total_iops_sec=1))
    rules = Rules(rules=(Rule(name=HOSTILE, match=Match(pool=("x",)), manage=False),))
    decision = decide(disk, a_situation(rules), SOURCES)
    outcome = staying(disk, decision, Kind.FAILED, because(Code.REJECTED, detail=HOSTILE))
    hidden = UnreachableGuest(GuestRef("u", HOSTILE), because(Code.NOT_READ, detail=HOSTILE))
    return a_pass(outcome, situation=a_situation(rules), unreachable=(hidden,))


def printed(command: type, passed: PassReport, state: Path, *words: str) -> list[str]:
    """What the command says of a pass that was made already."""

    person = Person()
    person.types(
        command, *words, settings=replace(config.load([], []), state_dir=state), look=lambda *_, **__: passed
    )
    return (person.out + person.err).split("\n")


@pytest.mark.parametrize("command", [DiskList, DiskShow, DiskExplain])
def test_no_name_reaches_the_terminal_as_it_is(command: type, tmp_path: Path) -> None:
    lines = printed(command, hostile_pass(), tmp_path, *([] if command is DiskList else [HOSTILE]))
    assert [line for line in lines if not line.isprintable()] == []
    assert any("a?[2J?b?c?d?e?f" in line for line in lines)


def explained(disk: Disk, tmp_path: Path) -> list[str]:
    """What ``disk explain`` says of a volume that Cinder limits by its size."""
    spec = a_spec("gold-iops", total_iops_sec_per_gb="30", total_iops_sec_per_gb_min="500")
    gold = a_type("gold", spec)
    known = a_catalogue(spec, types=[gold], volumes={VOLUME: gold}, met=met(disk))
    situation = knowing(
        known, met(disk), Rule(name="night", match=Match(pool=("*",)), ceiling=Limits(total_iops_sec=2000))
    )
    decision = decide(disk, situation, SOURCES)
    outcome = staying(disk, decision, Kind.LEFT_ALONE, because(Code.NO_LIMIT))
    return printed(
        DiskExplain,
        a_pass(outcome, situation=situation),
        tmp_path,
        disk.guest.name,
    )


def test_explain_prints_the_whole_chain_from_the_volume_to_its_limit(tmp_path: Path) -> None:
    told = "\n".join(explained(a_disk(size=100 * 2**30, target="vda"), tmp_path))
    chain = [
        f"volume {VOLUME}, 100 GiB",
        "volume type gold → QoS spec gold-iops (front-end), read 0 s ago",
        "total_iops_sec = max(500, 30 × 100 GiB) = 3000",
        'ceiling of rule "night"',
        'capped by rule "night"',
    ]
    places = [told.find(link) for link in chain]
    assert -1 not in places
    assert places == sorted(places)


def test_explain_says_that_each_attachment_of_a_shared_volume_is_limited_alone(tmp_path: Path) -> None:
    """Two guests with 3000 IOPS each may do 6000 to one volume, which its owner did not pay for."""
    for shareable in (True, False):
        told = "\n".join(explained(a_disk(size=2**30, shareable=shareable), tmp_path))
        assert ("each attachment is limited separately" in told) is shareable


def test_a_recorded_reason_without_its_facts_is_explained_by_its_code(tmp_path: Path) -> None:
    limits = Limits(total_iops_sec=500)
    disk = a_disk(actual=limits, defined=limits)
    record = Record(tmp_path / "record.sqlite")
    change = change_between(disk, Limits(), limits, Reason(Code.RULE))
    (id_,) = record.intend([change], NOON, "root")
    record.conclude([Conclusion(id_, Ending.DONE)], NOON)
    decision = decide(disk, a_situation(), SOURCES)
    outcome = staying(disk, decision, Kind.LEFT_ALONE, because(Code.NO_LIMIT))
    lines = printed(
        DiskExplain,
        a_pass(outcome),
        tmp_path,
        disk.guest.name,
    )
    assert any("(by plimsoll: rule; run by root)" in line for line in lines)


def test_a_disk_that_a_guest_does_not_have_is_answered_with_those_that_it_has(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    outcomes = [
        staying(disk, decide(disk, a_situation(), SOURCES), Kind.LEFT_ALONE, because(Code.NO_LIMIT))
        for disk in (a_disk(target="vda", image="x", volume_id=None), a_disk())
    ]
    passed = a_pass(*outcomes)
    name = outcomes[0].disk.guest.name
    person = Person()
    status = person.types(
        DiskShow, name, "vdz", settings=replace(config.load([], []), state_dir=tmp_path), look=lambda *_, **__: passed
    )
    assert (status, person.out) == (64, "")
    assert caplog.messages == [f"guest {name} has no disk 'vdz', but vda, vdb"]


@pytest.mark.parametrize(
    ("qemu", "status", "words"),
    [
        (Limits(total_iops_sec=500), 0, "500 IOPS (asked QEMU; libvirt agrees)"),
        (Limits(), 1, "unlimited (asked QEMU; libvirt DISAGREES)"),
    ],
)
def test_verify_says_who_was_asked_and_whether_libvirt_agrees(
    tmp_path: Path, qemu: Limits, status: int, words: str
) -> None:
    limits = Limits(total_iops_sec=500)
    disk = a_disk(actual=limits, defined=limits)
    decision = decide(disk, a_situation(), SOURCES)
    outcome = staying(disk, decision, Kind.LEFT_ALONE, because(Code.NO_LIMIT))
    passed = a_pass(outcome)
    person = Person()
    settings = replace(config.load([], []), state_dir=tmp_path)
    fakes = {"look": lambda *_, **__: passed, "_qemu_says": lambda *_: qemu}
    assert person.types(DiskShow, disk.guest.name, "--verify", settings=settings, **fakes) == status
    assert f"qemu {words}" in [" ".join(line.split()) for line in person.out.splitlines()]


def first_limits(disk: Disk, limits: Limits) -> Outcome:
    """Planned, by the default."""
    decision = decide(disk, a_situation(Rules(default=limits)), SOURCES)
    return planned(disk, limits, because(Code.NODE_DEFAULT), Code.NEVER_LIMITED, decision=decision)


BY_UNDO = because(Code.UNDONE, since=NOON.isoformat())


@pytest.mark.parametrize(
    ("reason", "found", "again", "told"),
    [
        (BY_UNDO, Limits(), False, "undone 2026-11-20 12:00 UTC by root"),
        (because(Code.RULE, rule="r"), Limits(), False, "limits not set yet"),
        (BY_UNDO, Limits(total_iops_sec=9), False, "limits not set yet"),
        (BY_UNDO, Limits(), True, "limits not set yet"),
    ],
    ids=["undone", "not by undo", "changed since", "reattached since"],
)
def test_a_disk_out_of_sync_after_an_undo_is_listed_with_who_undid_it(
    tmp_path: Path, reason: Reason, found: Limits, again: bool, told: str
) -> None:
    limits = Limits(total_iops_sec=500)
    disk = a_disk(actual=found, defined=found)
    record = Record(tmp_path / "record.sqlite")
    before = replace(disk, node="1") if again else disk
    undo = change_between(before, limits, Limits(), reason)
    (id_,) = record.intend([undo], NOON, "root")
    record.conclude([Conclusion(id_, Ending.DONE)], NOON)
    rules = Rules(default=limits)
    outcome = first_limits(disk, limits)
    passed = a_pass(outcome, situation=a_situation(rules))
    assert any(
        line.endswith(f"out of sync  {told}") for line in printed(DiskList, passed, tmp_path, "--max-width", "0")
    )
    assert f"reason        {told}" in printed(DiskShow, passed, tmp_path, disk.guest.name, "--max-width", "0")
    (row,) = json.loads("\n".join(printed(DiskList, passed, tmp_path, "-f", "json")))
    if told.startswith("undone"):
        facts = {"cause": "undone", "undone_at": NOON.isoformat(), "undone_by": "root"}
    else:
        facts = {"cause": "never-limited"}
    assert row["reason"] == {"code": "node-default", **facts}


@pytest.mark.parametrize(
    ("result", "other", "told"),
    [
        (Ending.REFUSED, False, "since 2026-11-20 12:00 UTC, 3 times: rejected: too high"),
        (Ending.NOT_SENT, False, "since 2026-11-20 12:00 UTC, 3 times: not sent: too high"),
        (Ending.DID_NOT_TAKE, False, "since 2026-11-20 12:00 UTC, 3 times: without effect: too high"),
        (Ending.REFUSED, True, "limits not set yet"),
    ],
)
def test_a_disk_whose_change_failed_before_is_shown_with_that_and_since_when(
    tmp_path: Path, result: Ending, other: bool, told: str
) -> None:
    limits, disk = Limits(total_iops_sec=500), a_disk()
    record = Record(tmp_path / "record.sqlite")
    rules = Rules(default=limits)
    outcome = first_limits(disk, limits)
    change = outcome.change
    assert change is not None
    for minutes in range(3):
        at = NOON + timedelta(minutes=minutes)
        before = replace(change, after=Limits(total_iops_sec=7)) if other else change
        (id_,) = record.intend([before], at, "root")
        record.conclude([Conclusion(id_, result, "too high")], at)
    passed = a_pass(outcome, situation=a_situation(rules))
    state = "out of sync" if other else "failed"
    lines = printed(DiskList, passed, tmp_path, "--max-width", "0")
    assert any(line.endswith(f"{state}  {told}") for line in lines)
    assert f"1 disk, 1 guest: 1 {state}" in lines, "as status has it"
    explained = printed(DiskExplain, passed, tmp_path, disk.guest.name, "--max-width", "0")
    between = ":" if other else ""
    assert f"state {state}{between} {told}" in [" ".join(line.split()) for line in explained]
    assert f"state {state}" in [
        " ".join(line.split()) for line in printed(DiskShow, passed, tmp_path, disk.guest.name, "--max-width", "0")
    ]
    (row,) = json.loads("\n".join(printed(DiskList, passed, tmp_path, "-f", "json")))
    failed = {"last_result": result.value, "failed_since": NOON.isoformat(), "failed_times": 3, "detail": "too high"}
    expected = {"code": "node-default", "cause": "never-limited", **({} if other else failed)}
    assert (row["state"], row["reason"]) == ("planned", expected), "as in plan -f json"
    data = json.loads("\n".join(printed(DiskExplain, passed, tmp_path, disk.guest.name, "-f", "json")))
    assert data["reason"] == expected


@pytest.mark.parametrize("applied", [Limits(total_iops_sec=500), Limits(total_iops_sec=501), None])
def test_explain_says_whose_limits_a_guest_brought_along(tmp_path: Path, applied: Limits | None) -> None:
    limits = Limits(total_iops_sec=500)
    disk = a_disk(
        a_guest(marks=Marks({VOLUME: Mark(desired=limits, since=NOON, applied=applied)})),
        actual=limits,
        defined=limits,
    )
    told = "\n".join(explained(disk, tmp_path))
    whose = "set by plimsoll (not in this node's record)" if applied == limits else "not set by plimsoll"
    assert f"500 IOPS, {whose}" in told


# --- the list at every width


def listed(number: int, stdout: io.StringIO, *words: str, in_sync: int = 0) -> str:
    person, passed = Person(), a_pass_over(number)
    right = [in_sync_one(passed.outcomes[0], each) for each in range(in_sync)]
    passed = replace(passed, outcomes=(*right, *passed.outcomes))
    person.types(DiskList, *words, stdout=stdout, look=lambda *_, **__: passed)
    return person.out


def in_sync_one(outcome: Outcome, number: int) -> Outcome:
    limits = Limits(total_iops_sec=777)
    guest = replace(outcome.disk.guest, name=f"instance-f{number:07x}", uuid=f"f{number:07x}")
    return replace(
        outcome,
        disk=replace(outcome.disk, guest=guest, actual=limits),
        decision=replace(outcome.decision, desired=Desired(limits, because(Code.NODE_DEFAULT))),
        change=None,
        result=Result(Kind.IN_SYNC, because(Code.NODE_DEFAULT)),
    )


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("number", [1, 50, 500])
def test_the_list_fits_every_terminal_and_names_every_guest(
    monkeypatch: pytest.MonkeyPatch, number: int, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    page, pipe = listed(number, Terminal(), "--all"), listed(number, io.StringIO())
    assert misfits(page, pipe, width) == []
    guests = [f"instance-{each:08x}" for each in range(number)]
    if "GUEST" in plain(page)[0]:
        named = {name for line in plain(page) for name in line.split() if name.startswith("instance-")}
        assert sorted(named) == guests
    assert sorted(re.findall(r"instance-\w{8}(?=  +vd)", pipe)) == guests
    assert " ".join(plain(page)).endswith(pipe.splitlines()[-1]), "the sum"


def test_what_is_wrong_comes_first_and_more_than_a_screenful_in_sync_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("LINES", "24")
    whole = plain(listed(10, Terminal(), "--all", in_sync=15))
    folded = plain(listed(10, Terminal(), in_sync=15))
    states = [line.split("  ")[-1].strip() for line in whole[1:26]]
    assert ["in sync" in state for state in states] == [False] * 10 + [True] * 15
    assert not [line for line in folded if "777 IOPS" in line]
    assert folded[-1] == f"{whole[-1]}; --all lists those in sync too"
    assert len(json.loads(listed(10, Terminal(), "-f", "json", in_sync=15))) == 25
    monkeypatch.setenv("LINES", "40")
    assert plain(listed(10, Terminal(), in_sync=15)) == whole


def test_the_desired_limits_are_shown_where_they_are_others() -> None:
    cells = [
        line.split("  ") for line in listed(1, io.StringIO(), "-c", "actual", "-c", "desired", in_sync=1).splitlines()
    ]
    words = [[cell.strip() for cell in row if cell.strip()] for row in cells]
    assert words == [["ACTUAL", "DESIRED"], ["unlimited", "250 IOPS 100 MiB/s"], ["777 IOPS"]]


def test_a_state_chooses_disks_in_every_format_and_an_empty_answer_is_a_sentence() -> None:
    rows = json.loads(listed(50, io.StringIO(), "-f", "json", "--state", "unknown", "--state", "planned"))
    assert {row["state"] for row in rows} == {"unknown", "planned"}
    assert listed(1, io.StringIO(), "--state", "failed") == "No disk is failed; plimsoll disk list has all.\n"


def test_a_node_without_rbd_disks_says_so_instead_of_an_empty_table() -> None:
    person = Person()
    passed = replace(a_pass_over(1), outcomes=())
    for running, sentence in (
        (0, "No guest runs here; plimsoll lists the disks of running guests.\n"),
        (1, "1 guest runs here, QEMU itself opens none of its disks on RBD: plimsoll has nothing to limit.\n"),
        (2, "2 guests run here, QEMU itself opens none of their disks on RBD: plimsoll has nothing to limit.\n"),
    ):
        person.types(DiskList, look=lambda *_, **__: passed, _running=running)
        assert person.out == sentence


def test_disks_that_the_kernel_maps_are_told_below_the_others_and_where_there_are_no_others() -> None:
    person = Person()
    passed = replace(a_pass_over(1), kernel_mapped=("a vdb", "a vdc", "b vda", "c vda"))
    words = "4 disks on RBD that the kernel maps are not limited by plimsoll: a vdb, a vdc, b vda and 1 more"
    person.types(DiskList, look=lambda *_, **__: passed, _running=3)
    assert person.out.splitlines()[-1] == words
    person.types(DiskList, look=lambda *_, **__: replace(passed, outcomes=()), _running=3)
    assert person.out.splitlines()[-1] == f"No disk that QEMU opens on RBD. {words}."
    person.types(DiskList, "-f", "json", look=lambda *_, **__: passed, _running=3)
    json.loads(person.out)


@pytest.mark.parametrize("words", [(), ("--wide",)])
def test_a_disk_with_a_burst_is_one_line_on_a_narrow_terminal_and_whole_where_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("LINES", "500")
    page = listed(50, Terminal(), *words)
    assert ("3000+ IOPS 100 MiB/s " in page, "5000 IOPS" in page) == (not words, bool(words))
    if not words:
        rows = [line for line in plain(page) if re.search(r"  vdb  ", line)]
        assert plain(page)[51].startswith(("Hidden: ", "[1]")), "50 rows and their heads"
        assert len(rows) == 50
        assert "+: more in bursts; --wide shows them." in plain(page)
        assert "n/m: n of reads, m of writes; --wide names them." in plain(page)


def test_room_goes_where_it_makes_most_rows_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """One disk in ten has a burst, which takes more room than all that the others need."""
    monkeypatch.setenv("COLUMNS", "120")
    rows = [line for line in plain(listed(50, Terminal())) if " unlimited " in line and "out of sync" in line]
    assert len(rows) == 20
    assert all("250 IOPS 100 MiB/s" in row for row in rows)


def test_the_same_state_has_the_same_colour_in_every_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the change would be; what is unlimited and should not be is red where it says so."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    page = listed(50, Terminal())
    assert set(re.findall(r"\x1b\[([\d;]+)m(?:out of sync|deferred)", page)) == {"1;33"}
    assert set(re.findall(r"\x1b\[([\d;]+)munknown", page)) == {"1;35"}
    assert len(re.findall(r"\x1b\[1;31munlimited\x1b\[0m", page)) == 20
    assert not re.search(r"\x1b\[[\d;]+min sync", page)


def test_explain_shows_what_does_not_hold_in_the_same_colours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    person, passed = Person(), a_pass_over(1)
    (outcome,) = passed.outcomes
    unwell = because(Code.CLUSTER_UNHEALTHY, cluster="fsid", checks="OSD_DOWN")
    deferred = replace(passed, outcomes=(replace(outcome, result=Result(Kind.DEFERRED, unwell)),))
    settings = replace(config.load([], []), state_dir=tmp_path)
    disk = outcome.disk
    words = (disk.guest.name, disk.target)
    person.types(DiskExplain, *words, settings=settings, stdout=Terminal(), look=lambda *_, **__: deferred)
    assert "\x1b[1;31munlimited" in person.out
    assert "\x1b[1;33mdeferred" in person.out


@pytest.mark.parametrize("command", [DiskList, DiskShow, DiskExplain])
@pytest.mark.parametrize("format", ["table", "json"])
def test_a_record_that_cannot_be_read_is_told_once_where_it_would_tell_of_failures(
    command: type, format: str, tmp_path: Path
) -> None:
    limits, disk = Limits(total_iops_sec=500), a_disk()
    rules, to_come = Rules(default=limits), first_limits(disk, limits)
    in_sync = replace(to_come, change=None, result=Result(Kind.IN_SYNC, because(Code.NODE_DEFAULT)))
    (tmp_path / "record.sqlite").write_text("no database, but long enough to be read as one" * 99)

    def told(outcome: Outcome) -> int:
        passed = a_pass(outcome, situation=a_situation(rules))
        words = ["-f", format, *([] if command is DiskList else [disk.guest.name])]
        said = "changes that failed are shown as out of sync"
        return " ".join(" ".join(printed(command, passed, tmp_path, *words)).split()).count(said)

    assert (told(to_come), told(in_sync)) == (1, 0)
