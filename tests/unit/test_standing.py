"""What a pass stands on: how far Cinder's last word counts, what the commands say of it, and what is approved."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from plimsoll_agent import catalogue
from plimsoll_agent.approvals import Approval
from plimsoll_agent.catalogue import NAME, Catalogue, save
from plimsoll_agent.cli import standing
from plimsoll_agent.cli.approve import Approve
from plimsoll_agent.cli.disk import DiskExplain
from plimsoll_agent.cli.passes import Plan
from plimsoll_agent.cli.standing import catalogue_in_force, rules_in_force
from plimsoll_agent.clock import Clocks
from plimsoll_agent.disk import DiskName, guest_of
from plimsoll_agent.entries import Happening, RecordedEvent
from plimsoll_agent.history import Selection, entries
from plimsoll_agent.holds import Hold
from plimsoll_agent.limits import Limits
from plimsoll_agent.reason import Code, Unknown
from plimsoll_agent.record import Record
from plimsoll_agent.report import note_words
from plimsoll_agent.state import Busy
from tests.fakes import FakeHypervisor
from tests.unit.clouds import a_spec
from tests.unit.enforcing import KNOWN, RICH, Shell, settings
from tests.unit.node import a_volume, guest
from tests.unit.values import NOON

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def counts(known: Catalogue | Unknown | None) -> Code | bool:
    """Whether it counts; the code where nobody knows."""
    return known.reason.code if isinstance(known, Unknown) else known is not None


# --- whether it counts


def test_while_nobody_is_to_be_asked_no_file_counts(tmp_path: Path) -> None:
    save(tmp_path, KNOWN)
    assert catalogue_in_force(settings(tmp_path, source="none"), NOON) == (None, None)


@pytest.mark.parametrize("source", ["openstack", "region-file"])
def test_what_was_fetched_counts_whoever_it_is_from(tmp_path: Path, source: str) -> None:
    save(tmp_path, KNOWN)
    assert catalogue_in_force(settings(tmp_path, source=source), NOON + HOUR) == (KNOWN, None)


def test_before_the_first_refresh_nobody_knows(tmp_path: Path) -> None:
    """And not "nobody is asked": every default would be put on volumes of which Cinder says something else."""
    known, doubt = catalogue_in_force(settings(tmp_path), NOON)
    assert counts(known) is Code.NO_CATALOGUE
    assert doubt is not None
    assert (doubt.code, "plimsoll catalogue refresh" in note_words(doubt)) == (Code.NO_CATALOGUE, True)


@pytest.mark.parametrize("content", ["", "{", '{"kind": "plimsoll-catalogue", "version": 99}'])
def test_a_file_that_cannot_be_read_is_said_with_its_name_and_nobody_knows(tmp_path: Path, content: str) -> None:
    (tmp_path / NAME).write_text(content)
    known, doubt = catalogue_in_force(settings(tmp_path), NOON)
    assert counts(known) is Code.CATALOGUE_UNREADABLE
    assert doubt is not None
    assert str(tmp_path / NAME) in note_words(doubt)
    assert (tmp_path / NAME).read_text() == content, "it is the refresher's: a pass only reads it"


@pytest.mark.parametrize(
    ("age", "keep_for", "expected", "doubt"),
    [
        (2 * HOUR, 0, True, None),
        (2 * HOUR + timedelta(seconds=1), 0, True, Code.CATALOGUE_OLD),
        (1000 * DAY, 0, True, Code.CATALOGUE_OLD),
        (DAY, 86400, True, Code.CATALOGUE_OLD),
        (DAY + timedelta(seconds=1), 86400, Code.CATALOGUE_OUTDATED, Code.CATALOGUE_OUTDATED),
        (HOUR, 60, Code.CATALOGUE_OUTDATED, Code.CATALOGUE_OUTDATED),
        (-DAY, 60, True, None),
    ],
    ids=["fresh", "old", "for ever", "kept", "outdated", "short", "the clock went back a day"],
)
def test_what_cinder_said_last_counts_as_long_as_it_is_to(
    tmp_path: Path, age: timedelta, keep_for: int, expected: Code | bool, doubt: Code | None
) -> None:
    save(tmp_path, KNOWN)
    known, said = catalogue_in_force(settings(tmp_path, keep_for=keep_for, old_after=7200), NOON + age)
    assert counts(known) == expected
    assert (said and said.code) == doubt
    if said is not None:
        assert "nothing new from north since 2026-11-20 12:00 UTC" in note_words(said)


def test_a_clock_that_jumps_a_day_ahead_and_back_loses_nothing(tmp_path: Path) -> None:
    save(tmp_path, KNOWN)
    chosen = settings(tmp_path, keep_for=3600)
    met = [counts(catalogue_in_force(chosen, NOON + ahead)[0]) for ahead in (HOUR, DAY, HOUR)]
    assert met == [True, Code.CATALOGUE_OUTDATED, True]


# --- commands


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """After the first pass, and the first refresh."""
    shell = Shell(tmp_path)
    assert shell.enforce() == 3
    shell.refresh()
    return shell


def in_force(shell: Shell) -> Limits:
    return shell.guest.disks["vda"].in_force


def codes_of_notes(shell: Shell) -> Sequence[str]:
    return [note["code"] for note in json.loads(shell.out)["notes"]]


def test_a_pass_without_any_word_of_cinder_says_so_and_does_not_end_as_if_all_was_well(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    assert shell.enforce() == 3
    assert "nobody knows yet what Cinder and Nova say" in shell.out
    assert shell.hypervisor.writes == []


def test_a_pass_with_cinders_word_limits_and_ends_well(shell: Shell) -> None:
    assert shell.enforce("--format", "json") == 0
    assert in_force(shell) == RICH
    said = json.loads(shell.out)
    assert said["notes"] == []
    assert said["catalogue"]["source"] == "north"
    assert shell.run(Plan) == 0, "and there is nothing left to change"


def test_an_old_catalogue_still_limits_and_is_told_by_the_status(shell: Shell) -> None:
    shell.refresh(issued=datetime.now(UTC) - DAY)
    assert shell.enforce("--format", "json") == 3
    assert codes_of_notes(shell) == ["catalogue-old"]
    assert in_force(shell) == RICH


def test_a_corrupt_catalogue_changes_no_limit_and_is_told_by_the_status(shell: Shell) -> None:
    assert shell.enforce() == 0
    (shell.fetched / NAME).write_bytes(b"\0" * 100)
    shell.hypervisor.restart(shell.guest)
    shell.hypervisor.writes.clear()
    shell.rules.write_text("default: {limits: {total_iops_sec: 9}}")
    assert shell.enforce("--format", "json") == 3
    assert codes_of_notes(shell) == ["catalogue-unreadable"]
    assert (shell.hypervisor.writes, in_force(shell)) == ([], Limits())
    assert (shell.fetched / NAME).exists(), "the refresher sets it aside, a pass only reads"


def test_a_pass_asks_no_refresher_of_its_own_accord(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "save", lambda *_: pytest.fail("a pass wrote the catalogue"))
    before = (shell.fetched / NAME).read_bytes()
    assert shell.enforce() == 0  # a program that was started would fail this test: see conftest
    assert (shell.fetched / NAME).read_bytes() == before


def test_nobody_who_is_not_to_be_asked_can_be_refreshed(shell: Shell) -> None:
    shell.source = "none"
    assert shell.enforce("--refresh") == 64
    assert shell.hypervisor.writes == []


# --- approving of it


def test_an_approval_is_of_rules_and_catalogue_as_they_are_now(shell: Shell) -> None:
    old = shell.revision()
    shell.refresh(a_spec("gold", total_iops_sec="30"))
    new = shell.revision()
    assert old != new
    assert shell.run(Approve, old) == 64, "the catalogue is another by now"
    assert shell.state.load_approvals() == ()
    assert shell.run(Approve, new[:16]) == 0
    (given,) = shell.state.load_approvals()
    assert given.approval == Approval(new), "the whole digest is kept"


def test_a_script_says_what_it_approves_of_and_not_yes(shell: Shell) -> None:
    shell.at_a_terminal = False
    assert shell.enforce("--yes") == 64
    assert shell.hypervisor.writes == []
    assert shell.enforce("--approve", shell.revision()[:16]) == 0


@pytest.mark.parametrize("typed", ["", "0123456789abcde", "0123456789abcdeg", "0" * 65, "gold"])
def test_a_digest_of_too_few_digits_is_none(shell: Shell, typed: str) -> None:
    """Whoever edits specs could look for one that has the few digits of another."""
    assert shell.run(Approve, typed) == 64
    assert shell.enforce("--approve", typed) == 64
    assert shell.state.load_approvals() == ()


def test_an_approval_outlives_a_refresh_that_brings_the_same_specs(shell: Shell) -> None:
    """Every 15 minutes the file is written anew: a person has read the plan of the one before."""
    before = shell.revision()
    shell.refresh(issued=datetime.now(UTC) - HOUR)
    assert shell.run(Approve, before) == 0


def test_other_rules_with_the_same_catalogue_need_another_approval(shell: Shell) -> None:
    before = shell.revision()
    shell.rules.write_text("default: {limits: {total_iops_sec: 9}}")
    assert shell.run(Approve, before) == 64


def test_an_approval_is_not_of_rules_alone_where_a_catalogue_stands_beside_them(shell: Shell) -> None:
    rules, _ = rules_in_force(shell.settings, shell.state, keep=False)
    assert shell.run(Approve, rules.edition) == 64
    shell.source = "none"
    assert shell.run(Approve, rules.edition) == 0


# --- the clock


class Clock:
    """The clocks of a node: ``off`` is what somebody set that of the wall to be off by."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.true, self.off, self.boot, self.synchronised = datetime.now(UTC), timedelta(), "first", False
        monkeypatch.setattr("plimsoll_agent.clock.read", lambda _: self.read())

    def read(self) -> Clocks:
        uptime = 1000 + (self.true - datetime(2020, 1, 1, tzinfo=UTC)).total_seconds()
        return Clocks(self.true + self.off, self.boot, uptime, lambda: self.synchronised)


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def held(shell: Shell) -> bool:
    memory = shell.state.load_memory()
    assert memory is not None
    return bool(memory.holds)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_clock_far_ahead_ends_no_hold_and_forgets_no_guest_until_it_is_synchronised(
    tmp_path: Path, wall: Clock, restarted: bool
) -> None:
    shell = Shell(tmp_path)
    shell.source = "none"
    shell.rules.write_text("default: {limits: {total_iops_sec: 250}}")
    shell.hypervisor = FakeHypervisor(shell.guest, guest(2, a_volume(2)))
    assert shell.enforce() == 0
    key, off = remembered(shell)
    disk = DiskName(key, guest_of(key), "instance-00000001", None, "vda", "volumes", "x", key.partition("/")[2])
    memory = shell.state.load_memory()
    assert memory is not None
    hold = Hold(disk, Limits(total_iops_sec=250), wall.true, wall.true + 5 * HOUR, "ann", "import")
    shell.state.save_memory(replace(memory, holds={key: hold}))
    del shell.hypervisor.by_uuid[guest_of(off)]

    wall.true += HOUR
    wall.off = 40 * DAY
    wall.boot = "second" if restarted else "first"
    for _ in range(2):
        assert shell.enforce() == 3
        assert "the clock of this node is not trusted" in shell.out
        assert f"rm {shell.state.clock}" in shell.out
        assert held(shell)
        assert off in remembered(shell)
        wall.true += HOUR

    wall.synchronised = True
    assert shell.enforce() == 0
    assert not held(shell)
    assert off not in remembered(shell)


def remembered(shell: Shell) -> Mapping[str, object]:
    memory = shell.state.load_memory()
    assert memory is not None
    return memory.disks


def test_a_clock_that_a_person_says_is_right_counts_once_its_file_is_removed(tmp_path: Path, wall: Clock) -> None:
    shell = Shell(tmp_path)
    shell.source = "none"
    shell.enforce()
    wall.off = -400 * DAY
    assert shell.enforce() == 3
    assert "400 d behind" in shell.out
    shell.state.clock.unlink()
    assert shell.enforce() == 0


def test_a_plan_keeps_no_time(tmp_path: Path, wall: Clock) -> None:
    shell = Shell(tmp_path)
    shell.source = "none"
    shell.run(Plan)
    assert not shell.state.clock.exists()
    shell.enforce()
    before = shell.state.clock.read_bytes()
    wall.true += HOUR
    shell.run(Plan)
    assert shell.state.clock.read_bytes() == before


def test_time_that_cannot_be_read_or_kept_is_logged_and_the_pass_goes_on(
    tmp_path: Path, wall: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    shell = Shell(tmp_path)
    shell.source = "none"
    shell.enforce()
    shell.state.clock.unlink()
    shell.state.clock.mkdir()
    assert shell.enforce() == 0
    assert "clock.json" in caplog.text
    assert "the clock is taken as it is" in caplog.text
    assert "cannot be written" in caplog.text


# --- who


@pytest.mark.parametrize(
    ("login", "sudo", "cgroup", "expected"),
    [
        ("4294967295", None, "0::/system.slice/plimsoll-enforce.service\n", "root (plimsoll-enforce.service)"),
        ("4294967295", None, "1:name=systemd:/system.slice/x.service\n0::/\n", "root (x.service)"),
        ("4294967295", None, "0::/\n", "root"),
        ("4294967295", "ann", "0::/system.slice/ssh.service\n", "root (ann)"),
        ("0", None, "0::/user.slice/session-3.scope\n", "root"),
        ("54321", None, "0::/system.slice/ssh.service\n", "root (54321)"),
        ("54321", "54321", "", "root (54321)"),
        ("54321", "bob", "", "root (54321, sudo bob)"),
        ("0", "bob", "", "root (bob)"),
        ("", None, "", "root"),
        (None, None, None, "root"),
    ],
)
def test_who_is_the_login_that_the_kernel_keeps_and_who_used_sudo_or_else_the_unit(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    login: str | None,
    sudo: str | None,
    cgroup: str | None,
    expected: str,
) -> None:
    for name, content in (("_LOGINUID", login), ("_CGROUP", cgroup)):
        path = tmp_path / name
        if content is not None:
            path.write_text(content)
        monkeypatch.setattr(standing, name, path)
    monkeypatch.setattr("os.getuid", lambda: 0)
    monkeypatch.delenv("SUDO_USER", raising=False)
    if sudo is not None:
        monkeypatch.setenv("SUDO_USER", sudo)
    assert standing.who() == expected


# --- releasing orphaned limits


@pytest.fixture
def orphaned(shell: Shell) -> Shell:
    """The spec was taken away from the volume's type."""
    assert shell.enforce() == 0
    shell.refresh(None)
    assert shell.enforce() == 0
    assert in_force(shell) == RICH
    return shell


def digest_in(shell: Shell) -> str:
    (line,) = (line for line in shell.out.splitlines() if line.startswith("1 disk with orphaned limits: "))
    return line.rpartition(" --remove ")[2]


def removal(shell: Shell) -> tuple[object, ...]:
    """What the next pass is to put there, why, and why it is deferred: no cluster is there to say that it is well."""
    assert shell.enforce("--format", "json") == 3
    (outcome,) = json.loads(shell.out)["outcomes"]
    return outcome["change"]["after"], outcome["change"]["reason"]["code"], outcome["reason"]["code"]


def test_orphaned_limits_are_released_by_the_digest_that_the_plan_prints(orphaned: Shell) -> None:
    digest = digest_in(orphaned)
    assert orphaned.run(Approve, digest) == 64
    assert orphaned.run(Approve, digest, "--remove", "--reason", "ticket 4711") == 0
    assert orphaned.out == "Released: instance-00000001 vda. The next pass removes its limits.\n"
    assert removal(orphaned) == ({}, "released", "cluster-not-known")
    assert orphaned.run(Approve, digest, "--remove") == 64, "there is nothing to release any more"


def test_the_explanation_of_a_disk_names_what_releases_its_orphaned_limits(orphaned: Shell) -> None:
    digest = digest_in(orphaned)
    assert orphaned.run(DiskExplain, "instance-00000001") == 0
    assert "orphaned limits: they came from volume type gold, which gives none now" in orphaned.out
    assert f"plimsoll approve --remove {digest}" in orphaned.out


def test_orphaned_limits_are_released_by_volume_type(orphaned: Shell) -> None:
    for words in (("--type", "gold"), ("--type", "silver", "--remove"), ("--remove",), ("0" * 16, "--type", "gold")):
        assert orphaned.run(Approve, *words) == 64
    assert orphaned.run(Approve, "--remove", "--type", "gold") == 0
    assert removal(orphaned) == ({}, "released", "cluster-not-known")


def test_a_release_is_recorded_with_the_disk_and_the_reason(orphaned: Shell) -> None:
    orphaned.run(Approve, "--remove", "--type", "gold", "--reason", "ticket 4711")
    told = entries(Record(orphaned.state.record), Selection())
    (event,) = (each for each in told if isinstance(each, RecordedEvent) and each.what is Happening.APPROVED)
    assert (event.what, event.disk and event.disk.target) == (Happening.APPROVED, "vda")
    assert event.reason is not None
    assert event.reason.facts["why"] == "ticket 4711"


def test_nothing_is_released_while_a_pass_runs(orphaned: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plimsoll_agent.cli.approve.PATIENCE", 0)
    with orphaned.state.locked():
        assert orphaned.run(Approve, "--remove", "--type", "gold") == Busy.exit_status
