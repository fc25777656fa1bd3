"""Whether this plimsoll can read what another one left: file by file, and nothing is touched by the looking."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from plimsoll_agent.app.fetched import region_orders
from plimsoll_agent.app.state_check import CheckedFile, FileCondition, check, readable
from plimsoll_agent.catalogue import model as catalogue
from plimsoll_agent.catalogue import signed_file
from plimsoll_agent.ceilings.buckets import CeilingKey, LastCounters, Shared, Whose
from plimsoll_agent.congestion.following import Followed
from plimsoll_agent.consoles import file as consoles_file
from plimsoll_agent.credits.ledger import Account
from plimsoll_agent.model.approvals import Approval
from plimsoll_agent.model.hypervisor import BlockStats
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code
from plimsoll_agent.model.usage import Reading
from plimsoll_agent.monitor import daemon_status, pass_summary_file, usage_history
from plimsoll_agent.rules import loader
from plimsoll_agent.store import clock, refresh_state
from plimsoll_agent.store.refresh_state import RefreshDir, RefreshNotes
from plimsoll_agent.store.state import (
    APPROVAL,
    DAEMON_LOCK,
    FILE_SYSTEMS_LOCK,
    FILES,
    GUESTS_LOCK,
    HISTOGRAMS_LOCK,
    MEMORY,
    PASS_LOCK,
    PROBES,
    PROBES_LOCK,
    RECORD,
    STORE_LOCK,
    Given,
    State,
    StateError,
)
from plimsoll_agent.util import files, locks
from plimsoll_insight.load import latency
from plimsoll_probes.store.history import History
from tests.unit.clouds import a_catalogue
from tests.unit.consolevalues import some_consoles
from tests.unit.daemonstatus import FULL
from tests.unit.enforcing import settings
from tests.unit.lastpasses import a_varied_pass
from tests.unit.node import FSID, Node, a_volume, guest, own_disk, uuid_of
from tests.unit.regionfile import keep_region_file
from tests.unit.results import a_probe
from tests.unit.sql import do
from tests.unit.values import NOON, OF_0_1_0

FOLLOWED = Followed(x=0.73, device_class="ssd", published=0.73, until=NOON, generation=7, moves=(NOON,))
SHARED = Shared(
    ceiling=Limits(total_iops_sec=500),
    disks=2,
    own={"guest/disk": {"total_iops_sec": 500}},
    used={"total_iops_sec": None},
    parts={"a": {"total_iops_sec": 250}},
    moves=(NOON,),
)
LOOK = LastCounters(
    "a1", Reading(7200.5, BlockStats(read_requests=7, read_bytes=28672, write_requests=0, write_bytes=0))
)
DATABASES = ("record.sqlite", "probes.sqlite", "probes-latest.sqlite")
WITH_VERSION = tuple(file.name for file in FILES if file.version is not None)
PASSING = (
    "attachments.json",
    "pass.json",
    "consoles.json",
    "daemon.json",
    "histograms.json",
    "clock.json",
    "versions.json",
    "probes-latest.sqlite",
    "region-file.json",
    "refresh.json",
)
"""Files that are written anew, whatever stands in them."""
LASTING = (*(name for name in WITH_VERSION if name not in PASSING), "catalogue.json")


@pytest.fixture
def used(tmp_path: Path, template: Path) -> Path:
    """The directories of a node on which all that plimsoll does has been done: ``state`` and ``catalogue``."""
    return Path(shutil.copytree(template, tmp_path / "node"))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("used")
    directory, fetched = home / "state", home / "catalogue"
    State(directory).prepare()
    node = Node(directory, guest(1))
    node.run()
    node.catalogue = a_catalogue()
    node.run()
    state = State(directory)
    state.save_approvals([Given(Approval("04d2ab" * 3), "ann", NOON)])
    state.keep_rules("default: {limits: {total_iops_sec: 250}}\n")
    state.note_busy()
    clock.save(state.clock, clock.TrustedTime(NOON, "a boot", 7.5))
    state.save_accounts({"a": Account(at=1.5)})
    state.save_factors({(FSID, "volumes"): FOLLOWED})
    state.save_ceilings({CeilingKey(Whose.GUEST, uuid_of(1), "small"): SHARED}, {uuid_of(1): LOOK})
    pass_summary_file.save(state, a_varied_pass())
    usage_history.append(state, a_varied_pass())
    state.usage_before.touch()
    state.file_systems.touch()
    consoles_file.save(state, some_consoles())
    daemon_status.save(state, FULL)
    latency.save(state, [latency.HistogramGuest("qemu:///system", uuid_of(1))])
    history = History(state.probes)
    history.add(a_probe())
    history.show(NOON)
    for lock in (PASS_LOCK, GUESTS_LOCK, STORE_LOCK, DAEMON_LOCK, PROBES_LOCK, HISTOGRAMS_LOCK, FILE_SYSTEMS_LOCK):
        os.close(locks.take(directory / lock.name))
    RefreshDir(fetched).prepare()
    catalogue.save(fetched, node.catalogue)
    RefreshDir(fetched).save_notes(RefreshNotes(failures=2))
    public = keep_region_file(fetched)
    chosen = settings(fetched, source="region-file", region_key=public)
    assert region_orders(chosen, state, keep=True).unknown is None
    return home


def found(directory: Path) -> dict[str, CheckedFile]:
    return {file.path.name: file for file in check(directory / "state", directory / "catalogue")}


def path_of(directory: Path, name: str) -> Path:
    return (
        directory
        / ("catalogue" if name in (catalogue.NAME, signed_file.NAME, refresh_state.NAME) else "state")
        / name
    )


def set_version(path: Path, version: int) -> None:
    if path.suffix == ".sqlite":
        do(path, f"PRAGMA user_version = {version}")
    else:
        path.write_text(json.dumps({**json.loads(path.read_text()), "version": version}))


def everything_in(directory: Path) -> dict[str, tuple[bytes, int]]:
    return {str(one): (one.read_bytes(), one.stat().st_mtime_ns) for one in directory.rglob("*") if one.is_file()}


def test_no_file_of_the_node_is_forgotten(tmp_path: Path) -> None:
    assert set(found(tmp_path)) == {file.name for file in FILES} | {
        catalogue.NAME,
        signed_file.NAME,
        refresh_state.NAME,
    }


def test_a_new_node_has_nothing_and_that_is_no_fault(tmp_path: Path) -> None:
    assert {file.condition for file in found(tmp_path).values()} == {FileCondition.MISSING}
    assert not any(file.bad for file in found(tmp_path).values())


def test_all_that_this_plimsoll_wrote_is_ok_with_its_version(used: Path) -> None:
    now = found(used)
    assert {name: file.condition for name, file in now.items()} == dict.fromkeys(now, FileCondition.OK)
    assert {file.name: now[file.name].version for file in FILES} == {file.name: file.version for file in FILES}
    assert (now["catalogue.json"].version, now["refresh.json"].version) == (catalogue.VERSION, refresh_state.VERSION)


@pytest.mark.parametrize("name", [*LASTING])
def test_a_newer_file_that_would_stop_a_downgraded_plimsoll_is_bad(used: Path, name: str) -> None:
    set_version(path_of(used, name), 99)
    file = found(used)[name]
    assert (file.condition, file.version, file.bad) == (FileCondition.NEWER, 99, True)
    assert file.newest is not None
    assert file.newest < 99


@pytest.mark.parametrize(
    ("name", "version"),
    [*((name, 99) for name in PASSING), *((name, 0) for name in PASSING if name not in DATABASES)],
)
def test_a_file_that_is_begun_again_keeps_no_version_from_being_installed(
    used: Path, name: str, version: int
) -> None:
    set_version(path_of(used, name), version)
    file = found(used)[name]
    assert (file.condition, file.version, file.bad) == (FileCondition.REPLACED, version, False)


def test_a_newer_database_with_other_tables_is_newer_and_not_corrupt(used: Path) -> None:
    do(used / "state/record.sqlite", "ALTER TABLE change RENAME TO row", "PRAGMA user_version = 9")
    assert found(used)["record.sqlite"].condition is FileCondition.NEWER


@pytest.fixture
def of_0_1_0(tmp_path: Path) -> Path:
    shutil.copytree(OF_0_1_0, tmp_path / "node" / "state")
    return tmp_path / "node"


def test_what_0_1_0_left_is_older_or_replaced_and_stays_as_it_is(of_0_1_0: Path) -> None:
    before = everything_in(of_0_1_0)
    now = found(of_0_1_0)
    versions = {MEMORY: 3, APPROVAL: 1, RECORD: 2, PROBES: 3}
    for file, version in versions.items():
        assert (now[file.name].condition, now[file.name].version) == (FileCondition.OLDER, version)
        assert (now[file.name].oldest, now[file.name].newest) == (version, file.version)
    assert now["pass.json"].condition is FileCondition.REPLACED
    assert now["rules.last.yaml"].condition is FileCondition.OK
    assert not any(file.bad for file in now.values())
    assert everything_in(of_0_1_0) == before


def test_a_pass_goes_on_where_one_of_0_1_0_ended(of_0_1_0: Path) -> None:
    at_100, by_hold = Limits(total_iops_sec=100), Limits(total_iops_sec=500)
    node = Node(of_0_1_0 / "state", guest(1), guest(2, own_disk(2), a_volume(2, Limits(read_iops_sec=40))))
    for number, target, limits in ((1, "vda", at_100), (1, "vdb", by_hold), (2, "vda", at_100)):
        node.disk(number, target).actual = limits
    node.rules = loader.parse(node.state.last_rules.read_text(), "rules.last.yaml")
    node.now = datetime(2026, 11, 23, 6, tzinfo=UTC)
    holds = node.holds
    report = node.run()
    assert node.hypervisor.writes == []
    held = [outcome.decision.desired.reason.code for outcome in report.outcomes if outcome.disk.key in holds]
    assert held == [Code.HOLD, Code.HOLD]
    assert node.holds == holds
    assert node.recorded("id", "result")[-1] == (13, "took"), "the one that QEMU did not answer is settled"
    now = found(of_0_1_0)
    assert [now[file.name].condition for file in (MEMORY, RECORD)] == [FileCondition.OK, FileCondition.OK]


def test_a_downgrade_is_refused_and_its_pass_stops_with_every_hold_kept(of_0_1_0: Path) -> None:
    path = of_0_1_0 / "state" / MEMORY.name
    set_version(path, 8)
    before, node = path.read_bytes(), Node(of_0_1_0 / "state", guest(1))
    assert found(of_0_1_0)[MEMORY.name].bad
    with pytest.raises(StateError, match=r"written by a newer plimsoll \(version 8, known up to 7\)"):
        node.run()
    assert path.read_bytes() == before
    assert node.hypervisor.writes == []


DAMAGED: dict[str, Callable[[Path], object]] = {
    "emptied": lambda path: path.write_bytes(b""),
    "overwritten": lambda path: path.write_bytes(b"\xff\x00 no file of plimsoll\n" * 300),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[: min(150, path.stat().st_size // 2)]),
}


@pytest.mark.parametrize("name", [*WITH_VERSION, "catalogue.json", "region-file.json", "refresh.json"])
@pytest.mark.parametrize("how", DAMAGED)
def test_a_damaged_file_is_corrupt_whatever_it_is(used: Path, name: str, how: str) -> None:
    path = path_of(used, name)
    DAMAGED[how](path)
    file = found(used)[name]
    assert (file.condition, file.bad) == (FileCondition.CORRUPT, True)
    assert file.detail
    assert file.detail.isprintable()


INSIDE = {
    "memory.json": '{"version": 3, "disks": {}}',
    "approval.json": '{"version": 1}',
    "attachments.json": '{"version": 1, "volumes": []}',
    "pass.json": '{"version": 6}',
    "clock.json": '{"version": 1, "at": "soon"}',
    "credits.json": '{"version": 1, "boot": "", "accounts": {"a": {"at": -1}}}',
    "factors.json": '{"version": 1, "pools": [{"x": 2}]}',
    "ceilings.json": '{"version": 1, "boot": "b", "ceilings": [{"whose": "node"}], "looks": {}}',
    "versions.json": '{"version": 1, "libvirt": "9.0.0", "qemu": 7002022}',
    "catalogue.json": '{"kind": "plimsoll catalogue", "version": 1}',
}


@pytest.mark.parametrize("name", INSIDE)
def test_a_right_version_above_what_cannot_be_read_is_corrupt(used: Path, name: str) -> None:
    path_of(used, name).write_text(INSIDE[name])
    assert found(used)[name].condition is FileCondition.CORRUPT


@pytest.mark.parametrize("name", DATABASES)
def test_a_database_of_something_else_is_corrupt(used: Path, name: str) -> None:
    path = used / "state" / name
    path.unlink()
    do(path, "CREATE TABLE another (id INTEGER)", "PRAGMA user_version = 1")
    assert found(used)[name].condition is FileCondition.CORRUPT


def test_a_version_below_the_first_is_none(used: Path) -> None:
    set_version(used / "state/memory.json", 0)
    assert found(used)["memory.json"].condition is FileCondition.CORRUPT


def test_rules_that_only_the_other_plimsoll_understands_are_of_no_matter(used: Path) -> None:
    (used / "state/rules.last.yaml").write_text("a word that is to come: 1\n")
    file = found(used)["rules.last.yaml"]
    assert (file.condition, file.bad) == (FileCondition.REPLACED, False)


@pytest.mark.parametrize("name", [*WITH_VERSION, "catalogue.json"])
def test_what_cannot_be_read_at_all_is_unreadable_and_no_command_waits_for_it(used: Path, name: str) -> None:
    path = path_of(used, name)
    path.unlink()
    os.mkfifo(path)  # root may read everything: what is no file stands for a file without the right to read it
    file = found(used)[name]
    assert (file.condition, file.bad) == (FileCondition.UNREADABLE, True)


def test_the_notes_of_the_refresher_are_its_own_and_need_not_be_readable(used: Path) -> None:
    path = used / "catalogue/refresh.json"
    path.unlink()
    os.mkfifo(path)
    file = found(used)["refresh.json"]
    assert (file.condition, file.bad) == (FileCondition.UNREADABLE, False)


@pytest.fixture
def killed(used: Path, tmp_path: Path) -> Path:
    """The record as a writer left it that was killed: with a journal that takes back what it had not committed."""
    record = used / "state/record.sqlite"
    with closing(sqlite3.connect(record, isolation_level=None)) as writer:
        writer.executescript("PRAGMA cache_size = 1; BEGIN; PRAGMA user_version = 77; CREATE TABLE x (y)")
        writer.executemany("INSERT INTO x VALUES (?)", [("z" * 4000,)] * 50)  # more than it keeps to itself
        for ending in ("", "-journal"):  # as they lie there when it is killed
            shutil.copy(f"{record}{ending}", tmp_path / f"killed{ending}")
    for ending in ("", "-journal"):
        shutil.move(tmp_path / f"killed{ending}", f"{record}{ending}")
    journal = (used / "state/record.sqlite-journal").read_bytes()
    assert journal[:8] == bytes.fromhex("d9d505f920a163d7"), "it must be a hot one, else this tests nothing"
    return record


def test_looking_changes_nothing_not_even_what_a_killed_writer_left(used: Path, killed: Path) -> None:
    before = everything_in(used)
    file = found(used)["record.sqlite"]
    assert (file.condition, file.version) == (FileCondition.OK, RECORD.version), (
        "what was not committed does not count"
    )
    assert everything_in(used) == before


def test_a_pass_that_mends_what_a_killed_one_left_since_hides_no_file(
    used: Path, killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def after_a_pass(*paths: str, copy: Callable[..., object] = shutil.copyfile) -> object:
        set_version(killed, 99)
        return copy(*paths)

    monkeypatch.setattr(shutil, "copyfile", after_a_pass)
    file = found(used)["record.sqlite"]
    assert (file.condition, file.version) == (FileCondition.NEWER, 99)


@pytest.mark.parametrize(
    ("name", "most"), [("catalogue.json", 2**22), ("region-file.json", 2**25), ("refresh.json", 2**16)]
)
def test_of_what_another_user_writes_no_more_is_read_than_plimsoll_reads(
    used: Path, name: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, read = path_of(used, name), list[int]()
    content = path.read_bytes()

    def counted(*asked: Any, read_whole: Callable[..., bytes] = files.read_whole, **how: Any) -> bytes:
        found = read_whole(*asked, **how)
        read.append(len(found))
        return found

    monkeypatch.setattr(files, "read_whole", counted)
    for size, condition in ((most, FileCondition.OK), (most + 1000, FileCondition.CORRUPT)):
        path.write_bytes(content.ljust(size))
        assert found(used)[name].condition is condition
    assert max(read) == most + 1


def test_what_an_error_quotes_of_a_hostile_file_is_fit_to_be_shown(used: Path) -> None:
    sighting = {"mark": "m", "since": NOON.isoformat(), "stirred": 0, "found": {"\x1b[2J": 1}, "came_with": None}
    given = {"digest": "04d2ab" * 3, "remove": False, "by": "ann", "at": "x" * 5000}
    approval = {"version": 2, "approvals": [given]}
    written = {
        "attachments.json": {"version": 1, "volumes": {"k": sighting}, "guests": {}},
        "approval.json": approval,
    }
    for name, value in written.items():
        (used / "state" / name).write_text(json.dumps(value))
        file = found(used)[name]
        assert file.condition is FileCondition.CORRUPT
        assert file.detail is not None
        assert file.detail.isprintable()
        assert len(file.detail) <= 200


def test_what_a_package_refuses_by_is_what_the_files_say_without_those_that_are_replaced() -> None:
    lasting = {file.name: (file.oldest, file.version) for file in FILES if file.oldest is not None}
    of_the_catalogue = {catalogue.NAME: (1, catalogue.VERSION)}
    assert readable() == lasting | of_the_catalogue
    assert "pass.json" not in lasting
