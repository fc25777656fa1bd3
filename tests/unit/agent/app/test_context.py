"""What a pass stands on: what the commands say of it, and what is approved."""

from __future__ import annotations

import json
import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from plimsoll_agent.app import context
from plimsoll_agent.app.context import rules_actual
from plimsoll_agent.catalogue import model as catalogue
from plimsoll_agent.catalogue.model import NAME
from plimsoll_agent.cli.approve import Approve, PauseNode, ResumeNode
from plimsoll_agent.cli.disk import DiskExplain, DiskList
from plimsoll_agent.cli.passes import Enforce, Plan
from plimsoll_agent.cli.record import RecordList
from plimsoll_agent.cli.rules import RulesCheck
from plimsoll_agent.errors import ConfigError
from plimsoll_agent.model.approvals import Approval, digest_of_change
from plimsoll_agent.model.disk import DiskName, guest_of
from plimsoll_agent.model.entries import Happening, RecordedEvent
from plimsoll_agent.model.holds import Hold
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.usage import Rates, Used
from plimsoll_agent.monitor.usage_history import append
from plimsoll_agent.store.clock import Clocks
from plimsoll_agent.store.record import Record
from plimsoll_agent.store.record_query import Selection, entries
from plimsoll_agent.store.state import Busy, Given, State
from plimsoll_agent.util.frozen import replace
from tests.fakes import FakeHypervisor, hangs
from tests.unit.clouds import a_spec
from tests.unit.enforcing import RICH, Shell
from tests.unit.lastpasses import a_last_disk, a_last_pass, a_name
from tests.unit.node import a_volume, guest
from tests.unit.values import NOON

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


# --- commands


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """After the first pass, and the first refresh."""
    shell = Shell(tmp_path)
    assert shell.enforce() == 3
    shell.refresh()
    return shell


def actual(shell: Shell) -> Limits:
    return shell.guest.disks["vda"].actual


def codes_of_notes(shell: Shell) -> Sequence[str]:
    return [note["code"] for note in json.loads(shell.out)["notes"]]


def test_a_pass_without_any_word_of_cinder_says_so_and_does_not_end_as_if_all_was_well(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    assert shell.enforce() == 3
    assert "no catalogue of Cinder and Nova yet" in shell.out
    assert shell.hypervisor.writes == []


def test_a_pass_with_cinders_word_limits_and_ends_well(shell: Shell) -> None:
    assert shell.enforce("--format", "json") == 0
    assert actual(shell) == RICH
    said = json.loads(shell.out)
    assert said["notes"] == []
    assert said["catalogue"]["source"] == "north"
    assert shell.run(Plan) == 0, "and there is nothing left to change"


def test_an_old_catalogue_still_limits_and_is_told_by_the_status(shell: Shell) -> None:
    shell.refresh(issued=datetime.now(UTC) - DAY)
    assert shell.enforce("--format", "json") == 3
    assert codes_of_notes(shell) == ["catalogue-stale"]
    assert actual(shell) == RICH


def test_a_corrupt_catalogue_changes_no_limit_and_is_told_by_the_status(shell: Shell) -> None:
    assert shell.enforce() == 0
    (shell.fetched / NAME).write_bytes(b"\0" * 100)
    shell.hypervisor.restart(shell.guest)
    shell.hypervisor.writes.clear()
    shell.rules.write_text("default: {limits: {total_iops_sec: 9}}")
    assert shell.enforce("--format", "json") == 3
    assert codes_of_notes(shell) == ["catalogue-unreadable"]
    assert (shell.hypervisor.writes, actual(shell)) == ([], Limits())
    assert (shell.fetched / NAME).exists(), "the refresher sets it aside, a pass only reads"


def test_a_pass_asks_no_refresher_of_its_own_accord(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "save", lambda *_: pytest.fail("a pass wrote the catalogue"))
    before = (shell.fetched / NAME).read_bytes()
    assert shell.enforce() == 0  # a program that was started would fail this test: see conftest
    assert (shell.fetched / NAME).read_bytes() == before


def test_a_service_that_is_not_to_be_asked_cannot_be_refreshed(shell: Shell) -> None:
    shell.source = "none"
    assert shell.enforce("--refresh") == 64
    assert shell.hypervisor.writes == []


def no_change(shell: Shell) -> None:
    assert shell.enforce() == 0


def a_change(shell: Shell) -> None:
    no_change(shell)
    shell.refresh(a_spec("gold", total_iops_sec="2000"))


def a_slip(shell: Shell) -> None:
    no_change(shell)
    shell.refresh(a_spec("gold", total_iops_sec="30"))


def a_pause(shell: Shell) -> None:
    a_change(shell)
    shell.settings.pause_file.touch()


def trouble(shell: Shell) -> None:
    shell.hypervisor.by_uuid[shell.guest.uuid].trouble = hangs()


def broken_rules(shell: Shell) -> None:
    shell.rules.write_text("{}")
    no_change(shell)
    shell.rules.write_text("{")


def an_unreadable_catalogue(shell: Shell) -> None:
    (shell.fetched / NAME).write_bytes(b"")


@pytest.mark.parametrize(
    ("meets", "planned", "enforced"),
    [
        (no_change, 0, 0),
        (a_change, 2, 0),
        (a_slip, 4, 4),
        (a_pause, 2, 3),
        (trouble, 1, 1),
        (broken_rules, 1, 1),
        (an_unreadable_catalogue, 1, 3),
    ],
)
def test_a_dry_run_ends_as_the_plan_does(
    shell: Shell, meets: Callable[[Shell], None], planned: int, enforced: int
) -> None:
    meets(shell)
    ended = shell.run(Plan), shell.enforce("--dry-run"), shell.run(Enforce, "--dry-run")
    assert (*ended, shell.enforce()) == (planned, planned, planned, enforced)


# --- approving of it


def test_an_approval_is_of_rules_and_catalogue_as_they_are_now(shell: Shell) -> None:
    old = shell.revision()
    shell.refresh(a_spec("gold", total_iops_sec="30"))
    new = shell.revision()
    assert old != new
    assert shell.approve(old) == 64, "the catalogue is another by now"
    assert shell.state.load_approvals() == ()
    assert shell.approve(new[:16]) == 0
    (given,) = shell.state.load_approvals()
    assert given.approval == Approval(new), "the whole digest is kept"


@pytest.mark.parametrize(
    ("mode", "paused", "told"),
    [
        ("enforce", False, "the next pass applies it"),
        ("observe", False, "mode is observe: nothing will be written"),
        ("enforce", True, "the node is paused: nothing will be written until plimsoll resume"),
    ],
)
def test_approve_tells_whether_the_next_pass_applies_it(shell: Shell, mode: str, paused: bool, told: str) -> None:
    revision = shell.revision()
    if paused:
        shell.settings.pause_file.touch()
    here = replace(shell.settings, mode=mode)
    assert shell.types(Approve, revision, "--reason", "as intended", settings=here, hypervisor=shell.hypervisor) == 0
    assert shell.out == f"Approved: this revision, {revision:.16}; {told}.\n"


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        ("enforce", "the next pass writes limits again"),
        ("observe", "mode is observe: nothing will be written"),
    ],
)
def test_resume_tells_whether_the_next_pass_writes(shell: Shell, mode: str, told: str) -> None:
    shell.settings.pause_file.touch()
    assert shell.types(ResumeNode, "--reason", "over", settings=replace(shell.settings, mode=mode)) == 0
    assert shell.out == f"Resumed; {told}.\n"


def test_the_record_of_a_pause_has_its_end(shell: Shell) -> None:
    assert shell.run(PauseNode, "--for", "2h", "--reason", "Ceph is upgraded") == 0
    end = shell.out.partition(" until ")[2].partition(" or ")[0]
    assert shell.run(RecordList) == 0
    assert f"Ceph is upgraded (until {end})" in shell.out


def test_an_approval_needs_its_reason(shell: Shell, caplog: pytest.LogCaptureFixture) -> None:
    """The record would be without it for ever: a second approval changes nothing."""
    with pytest.raises(SystemExit, match="64"):
        shell.run(Approve, shell.revision())
    assert shell.run(Approve, shell.revision(), "--reason", " ") == 64
    assert "--reason: must have 1 to " in caplog.text
    assert shell.state.load_approvals() == ()


def test_a_script_says_what_it_approves_of_and_not_yes(shell: Shell) -> None:
    shell.at_a_terminal = False
    assert shell.enforce("--yes") == 64
    assert shell.hypervisor.writes == []
    assert shell.enforce("--approve", shell.revision()[:16]) == 0


@pytest.mark.parametrize("typed", ["", "0123456789abcde", "0123456789abcdeg", "0" * 65, "gold"])
def test_a_digest_of_too_few_digits_is_none(shell: Shell, typed: str) -> None:
    """Whoever edits specs could look for one that has the few digits of another."""
    assert shell.approve(typed) == 64
    assert shell.enforce("--approve", typed) == 64
    assert shell.state.load_approvals() == ()


def test_an_approval_outlives_a_refresh_that_brings_the_same_specs(shell: Shell) -> None:
    """Every 15 minutes the file is written anew: a person has read the plan of the one before."""
    before = shell.revision()
    shell.refresh(issued=datetime.now(UTC) - HOUR)
    assert shell.approve(before) == 0


def test_other_rules_with_the_same_catalogue_need_another_approval(shell: Shell) -> None:
    before = shell.revision()
    shell.rules.write_text("default: {limits: {total_iops_sec: 9}}")
    assert shell.approve(before) == 64


def test_an_approval_is_not_of_rules_alone_where_a_catalogue_stands_beside_them(shell: Shell) -> None:
    rules, _ = rules_actual(shell.settings, shell.state, keep=False)
    assert shell.approve(rules.revision) == 64
    shell.source = "none"
    assert shell.approve(rules.revision) == 0


def test_what_only_shows_goes_on_without_a_rules_file_that_enforce_needs(shell: Shell) -> None:
    assert shell.enforce() == 0
    shell.state.last_rules.unlink()
    shell.rules.unlink()
    assert shell.run(DiskList) == 1
    assert f"{shell.rules}: no such file" in shell.err
    assert "Shown without rules" in shell.err
    assert "volume-1" in shell.out or "instance" in shell.out
    assert shell.enforce() == 1
    with pytest.raises(ConfigError):
        rules_actual(shell.settings, shell.state, keep=False)


@pytest.mark.parametrize("text", [None, "", "# default: {}\n"])
@pytest.mark.parametrize("was_set", [False, True])
def test_the_check_of_rules_accepts_what_a_pass_does(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, text: str | None, was_set: bool
) -> None:
    """The sample is comments alone: with it a new node has no rules, which must not stop its first rollout."""
    shell.state.last_rules.unlink()
    shell.rules.unlink()
    if text is not None:
        shell.rules.write_text(text)
    if not was_set:
        monkeypatch.setattr(context, "RULES_FILE", shell.rules)
    assert shell.run(RulesCheck) == shell.enforce() == int(was_set)
    assert shell.run(RulesCheck, str(shell.rules)) == 1
    shell.rules.write_text("{}")
    assert shell.run(RulesCheck) == shell.enforce() == 0
    shell.rules.write_text("# default: {}\n")
    assert shell.run(RulesCheck) == shell.enforce() == 1, "there were rules"


def test_the_check_of_rules_passes_no_empty_file_for_who_cannot_read_what_it_had(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: object) -> bytes:
        raise PermissionError

    monkeypatch.setattr(context, "RULES_FILE", shell.rules)
    monkeypatch.setattr(type(shell.state), "read_last_rules", refused)
    shell.rules.write_text("")
    assert shell.run(RulesCheck) == 1


@pytest.fixture
def slipped(shell: Shell) -> Shell:
    """The spec of the volume's type was cut to a hundredth."""
    assert shell.enforce() == 0
    shell.refresh(a_spec("gold", total_iops_sec="30"))
    return shell


def digests_of(shell: Shell) -> tuple[str, str]:
    """Of the revision, and of the change of the one disk."""
    (key,) = remembered(shell)
    return shell.revision(), digest_of_change(key, Limits(total_iops_sec=30))


def approved(shell: Shell) -> set[str]:
    return {given.approval.digest for given in shell.state.load_approvals()}


def test_two_approvals_at_once_are_both_kept(slipped: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    both = digests_of(slipped)
    waits = threading.Event()
    monkeypatch.setattr("plimsoll_agent.util.locks.time.sleep", lambda _: waits.set())
    other = threading.Thread(target=lambda: slipped.approve(both[1]))
    save_approvals = State.save_approvals

    def save_after_the_other(state: State, given: Sequence[Given]) -> None:
        if other.ident is None:
            other.start()
            while other.is_alive() and not waits.wait(0.01):
                pass
        save_approvals(state, given)

    monkeypatch.setattr(State, "save_approvals", save_after_the_other)
    assert slipped.approve(both[0]) == 0
    other.join()
    assert approved(slipped) == set(both)


def test_what_is_approved_already_is_said_and_changes_nothing(slipped: Shell) -> None:
    for digest in digests_of(slipped):
        assert slipped.approve(digest) == 0
        before, events = slipped.state.approval.read_bytes(), approvals_of(slipped)
        assert slipped.approve(digest[:20]) == 0
        assert slipped.out.startswith(
            f"Already approved: this {'change' if events[1:] else 'revision'}, {digest:.16}, "
        )
        assert slipped.state.approval.read_bytes() == before
        assert approvals_of(slipped) == events


def test_who_adds_removals_to_an_approval_or_takes_them_out_approves_again(slipped: Shell) -> None:
    digest = slipped.revision()
    for words in ((), ("--remove",), ()):
        assert slipped.approve(digest, *words) == 0
        assert slipped.out.startswith("Approved: ")
        (given,) = slipped.state.load_approvals()
        assert given.approval == Approval(digest, remove=bool(words))


def test_limits_on_the_command_line_are_approved_by_the_command_that_is_printed(shell: Shell) -> None:
    assert shell.enforce() == 0
    limits = ("--guest", shell.guest.name, "--total-bytes-sec", "0 MiB", "--total-iops-sec", "30")
    assert shell.run(Plan, *limits) == 4
    assert shell.enforce(*limits) == 4
    alone, whole = (
        shlex.split(shell.out.partition(words)[2].splitlines()[0]) for words in ("alone: ", "If it is meant: ")
    )
    for command in (alone, whole):
        assert command[:2] == ["plimsoll", "enforce"]
        assert command[2:-2] == ["--guest", shell.guest.name, "--mode", "enforce", *limits[2:]]
    assert shell.run(Enforce, *whole[2:]) == 0
    assert actual(shell) == Limits(total_iops_sec=30)


def test_a_damaged_file_of_approvals_is_set_aside_by_who_approves(slipped: Shell) -> None:
    slipped.state.approval.write_text("damaged")
    assert slipped.approve(slipped.revision()) == 0
    assert approved(slipped) == {slipped.revision()}
    assert Path(f"{slipped.state.approval}.corrupt").read_text() == "damaged"


# --- the clock


class Clock:
    """The clocks of a node: ``off`` is what somebody set that of the wall to be off by."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.true, self.off, self.boot, self.synchronised = datetime.now(UTC), timedelta(), "first", False
        monkeypatch.setattr("plimsoll_agent.store.clock.read", lambda _: self.read())

    def read(self) -> Clocks:
        uptime = 1000 + (self.true - datetime(2020, 1, 1, tzinfo=UTC)).total_seconds()
        return Clocks(
            wall=self.true + self.off, boot=self.boot, uptime=uptime, synchronised=lambda: self.synchronised
        )


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
    disk = DiskName(
        key=key,
        guest_uuid=guest_of(key),
        guest_name="instance-00000001",
        project=None,
        target="vda",
        pool="volumes",
        image="x",
        volume_id=key.partition("/")[2],
    )
    memory = shell.state.load_memory()
    assert memory is not None
    hold = Hold(
        disk=disk,
        limits=Limits(total_iops_sec=250),
        since=wall.true,
        until=wall.true + 5 * HOUR,
        by="ann",
        why="import",
    )
    shell.state.save_memory(replace(memory, holds={key: hold}))
    del shell.hypervisor.by_uuid[guest_of(off)]

    wall.true += HOUR
    wall.off = 40 * DAY
    wall.boot = "second" if restarted else "first"
    for _ in range(2):
        assert shell.enforce() == 3
        assert "this node's clock is not trusted" in shell.out
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
    assert "using the system clock" in caplog.text
    assert "cannot be written" in caplog.text


def test_what_a_person_says_has_the_time_of_the_passes_and_so_its_place_among_them(
    tmp_path: Path, wall: Clock
) -> None:
    shell = Shell(tmp_path)
    shell.source = "none"
    shell.enforce()
    wall.off = 40 * DAY
    shell.rules.write_text("default: {limits: {total_iops_sec: 250}}")
    for command, words in ((Approve, (shell.revision(),)), (PauseNode, ()), (ResumeNode, ())):
        wall.true += HOUR
        assert shell.run(command, *words, "--reason", "a test") == 0
    (given,) = shell.state.load_approvals()
    said = (Happening.APPROVED, Happening.PAUSED, Happening.RESUMED)
    events = (each for each in entries(Record(shell.state.record), Selection()) if isinstance(each, RecordedEvent))
    told = [event.at for event in events if event.what in said]
    expected = [wall.true - hours * HOUR for hours in (2, 1, 0)]
    assert sorted(told) == expected
    assert given.at == expected[0]


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
        monkeypatch.setattr(context, name, path)
    monkeypatch.setattr("os.getuid", lambda: 0)
    monkeypatch.delenv("SUDO_USER", raising=False)
    if sudo is not None:
        monkeypatch.setenv("SUDO_USER", sudo)
    assert context.who() == expected


# --- releasing orphaned limits


@pytest.fixture
def orphaned(shell: Shell) -> Shell:
    """The spec was taken away from the volume's type."""
    assert shell.enforce() == 0
    shell.refresh(None)
    assert shell.enforce() == 0
    assert actual(shell) == RICH
    return shell


def digest_in(shell: Shell) -> str:
    (line,) = (line for line in shell.out.splitlines() if line.startswith("1 disk with orphaned limits: "))
    return line.rpartition(" --remove ")[2].removesuffix(" --reason TEXT")


def removal(shell: Shell) -> tuple[object, ...]:
    """What the next pass is to put there, why, and why it is deferred: no cluster is there to say that it is well."""
    assert shell.enforce("--format", "json") == 3
    (outcome,) = json.loads(shell.out)["outcomes"]
    return outcome["change"]["after"], outcome["change"]["reason"]["code"], outcome["reason"]["code"]


def test_orphaned_limits_are_released_by_the_digest_that_the_plan_prints(orphaned: Shell) -> None:
    digest = digest_in(orphaned)
    assert orphaned.approve(digest) == 64
    assert orphaned.run(Approve, digest, "--remove", "--reason", "ticket 4711") == 0
    assert orphaned.out == (
        "Approved: removal of the limits of instance-00000001 vda; mode is observe: nothing will be written.\n"
    )
    assert removal(orphaned) == ({}, "released", "cluster-unknown")
    assert orphaned.approve(digest) == 64, "it is a removal still"


def test_a_removal_that_is_approved_in_mode_enforce_is_one_of_the_next_pass(orphaned: Shell) -> None:
    here = replace(orphaned.settings, mode="enforce")
    words = ("--type", "gold", "--remove", "--reason", "ticket 4711")
    assert orphaned.types(Approve, *words, settings=here, hypervisor=orphaned.hypervisor) == 0
    assert orphaned.out.endswith("instance-00000001 vda; the next pass removes them.\n")


@pytest.mark.parametrize("words", [(), ("--type", "gold")], ids=["digest", "type"])
def test_what_is_released_already_is_said(orphaned: Shell, words: Sequence[str]) -> None:
    words = ("--remove", *(words or (digest_in(orphaned),)))
    assert orphaned.approve(*words) == 0
    before = approvals_of(orphaned)
    assert orphaned.approve(*words) == 0
    assert orphaned.out == "Already approved: the removal of these limits. Nothing changed.\n"
    assert approvals_of(orphaned) == before


def test_the_explanation_of_a_disk_names_what_releases_its_orphaned_limits(orphaned: Shell) -> None:
    digest = digest_in(orphaned)
    assert orphaned.run(DiskExplain, "instance-00000001") == 0
    assert "orphaned limits: they came from volume type gold, which sets none now" in orphaned.out
    assert f"plimsoll approve --remove {digest}" in orphaned.out


def test_orphaned_limits_are_released_by_volume_type(orphaned: Shell) -> None:
    for words in (("--type", "gold"), ("--type", "silver", "--remove"), ("--remove",), ("0" * 16, "--type", "gold")):
        assert orphaned.approve(*words) == 64
    assert orphaned.approve("--remove", "--type", "gold") == 0
    assert removal(orphaned) == ({}, "released", "cluster-unknown")


def approvals_of(shell: Shell) -> list[RecordedEvent]:
    told = entries(Record(shell.state.record), Selection())
    return [each for each in told if isinstance(each, RecordedEvent) and each.what is Happening.APPROVED]


def test_a_release_is_recorded_with_the_disk_and_the_reason(orphaned: Shell) -> None:
    orphaned.run(Approve, "--remove", "--type", "gold", "--reason", "ticket 4711")
    (event,) = approvals_of(orphaned)
    assert (event.what, event.disk and event.disk.target) == (Happening.APPROVED, "vda")
    assert event.reason is not None
    assert event.reason.facts["why"] == "ticket 4711"


def test_nothing_is_released_while_something_changes_its_guest(
    orphaned: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plimsoll_agent.cli.approve.PATIENCE", 0)
    with orphaned.state.locked(), orphaned.state.guest_locks() as locks:
        locks.take([guest.uuid for guest in orphaned.hypervisor.by_uuid.values()])
        assert orphaned.approve("--remove", "--type", "gold") == Busy.exit_status
        locks.close()
        assert orphaned.approve("--remove", "--type", "gold") == 0, "it waits for no pass over the node"


def test_what_disks_used_is_read_from_the_history_and_unknown_where_that_cannot_be_read(
    shell: Shell, caplog: pytest.LogCaptureFixture
) -> None:
    def used() -> Mapping[str, Used]:
        return context.pass_context(shell.settings, read_only=True).situation.used()

    assert used() == {}
    state = context.state_of(shell.settings)
    append(
        state,
        a_last_pass(
            a_last_disk(
                a_name(1),
                rates=Rates(read_iops=70.0, write_iops=0.0, read_bytes=0.0, write_bytes=900.0, seconds=300.0),
            ),
            looked=NOON,
        ),
    )
    assert used() == {a_name(1).key: Used(70, 900)}
    state.usage.unlink()
    state.usage.symlink_to("/etc/passwd")
    assert used() == {}
    assert "what disks used is unknown" in caplog.text
