"""``plimsoll undo`` as a person types it: what it asks, refuses and says, and what its status promises."""

from __future__ import annotations

import io
import json
import re
import shutil
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from plimsoll_agent.app.node import state_of
from plimsoll_agent.cli import undo as cli
from plimsoll_agent.cli.undo import Undo
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.congestion.following import Followed, Following
from plimsoll_agent.errors import Rejected
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, because
from plimsoll_agent.monitor import daemon_status
from plimsoll_agent.reconcile.outcome import Kind, Result, Scope
from plimsoll_agent.reconcile.undo import Undone
from plimsoll_agent.rules.model import Match, Rule, UnderCongestion
from plimsoll_agent.store.record import Record
from plimsoll_agent.store.retention import Retention
from plimsoll_agent.util.frozen import replace
from tests.fakes import hangs, raising
from tests.unit import told
from tests.unit.agent.reconcile.test_undo import NEW, OLD, OTHERS, rules
from tests.unit.daemonstatus import FULL
from tests.unit.node import FSID, Node, guest, set_by_hand, uuid_of
from tests.unit.person import Person, Terminal
from tests.unit.places import settings_in
from tests.unit.values import a_disk, golden

WORDS = Path(__file__).parents[2] / "data" / "undo_words.txt"
NEXT_PASS = "The mode is enforce: the next pass applies the desired limits again."


class Shell(Person):
    """A person at a node whose guests have two disks each: they had ``OLD`` until a pass put ``NEW`` in force."""

    def __init__(self, directory: Path, guests: int = 2) -> None:
        self.directory = directory
        self.mode = "enforce"
        (directory / "state").mkdir()
        (directory / "rules.yaml").write_text("default: {limits: {total_iops_sec: 900}}\n")
        self.node = Node(directory / "state", *(guest(number + 1) for number in range(guests)), rules=rules(OLD))
        self.node.state = state_of(self.settings)
        self.node.now = datetime.now(UTC) - timedelta(hours=1)
        self.node.run()
        self.since = self.node.now + timedelta(seconds=1)
        self.node.rules = rules(NEW)
        self.node.run(yes=True)
        self.before_answer: Callable[[], object] = lambda: None

    @property
    def settings(self) -> Settings:
        return settings_in(self.directory, mode=self.mode)

    def undo(self, *words: str, answer: str | None = None, since: str | None = None) -> int:
        shell = self

        class Answers(Terminal):
            def readline(self, *_: Any) -> str:
                shell.before_answer()
                return super().readline()

        stdin = io.StringIO() if answer is None else Answers(answer)
        moment = since or self.since.isoformat()
        return self.types(
            Undo, "--since", moment, *words, settings=self.settings, hypervisor=self.node.hypervisor, stdin=stdin
        )

    @property
    def actual(self) -> list[Limits]:
        return [disk.actual for disk in self.node.disks()]


def gone(*_: object, **__: object) -> None:
    """Nobody reads any more."""
    raise BrokenPipeError


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setattr(cli, "_booted", lambda: datetime.min.replace(tzinfo=UTC))
    return Shell(tmp_path)


def test_with_yes_all_is_reverted_at_once(shell: Shell) -> None:
    assert shell.undo("--yes") == 0
    assert shell.actual == [OLD] * 4
    assert "Undone: 4 lowered, in " in shell.out


def test_of_disks_reduced_under_congestion_it_does_what_was_agreed_to_and_nothing_else(shell: Shell) -> None:
    floor = Rule(name="all", match=Match(), congestion=UnderCongestion(Limits(total_iops_sec=10)))
    shell.node.rules = replace(shell.node.rules, rules=(floor,))
    shell.node.following = Following(
        {
            (FSID, pool): Followed(x=0.5, device_class="ssd", published=0.5, until=shell.node.now, generation=1)
            for pool in ("volumes", "vms")
        }
    )
    shell.node.run()
    reduced = Limits(total_iops_sec=450)
    assert shell.actual == [reduced] * 4
    assert shell.undo("--guest", "instance-00000001", answer="y\n") == 0
    assert "450 → 250 IOPS" in shell.out
    assert shell.actual == [OLD, OLD, reduced, reduced]
    assert shell.undo("--yes", since=datetime.now(UTC).isoformat()) == 0
    assert shell.actual == [OLD, OLD, reduced, reduced]


def test_beside_a_daemon_that_enforces_it_refuses_and_says_how_to_stop_it(
    shell: Shell, caplog: pytest.LogCaptureFixture
) -> None:
    daemon_status.save(state_of(shell.settings), replace(FULL, written=datetime.now(UTC)))
    for answer, words in ((None, ("--yes",)), ("y\n", ())):
        assert shell.undo(*words, answer=answer) == 64
        assert "systemctl stop plimsoll-daemon.service plimsoll-enforce.timer" in caplog.text
    assert shell.actual == [NEW] * 4
    assert shell.undo("--dry-run") == 0, "a plan writes nothing"


@pytest.mark.parametrize(("values", "age"), [({"mode": "observe"}, 0), ({}, 2)])
def test_a_daemon_that_reverts_nothing_is_no_reason_to_refuse(shell: Shell, values: dict[str, Any], age: int) -> None:
    written = datetime.now(UTC) - timedelta(minutes=age)
    daemon_status.save(state_of(shell.settings), replace(FULL, written=written, **values))
    assert shell.undo("--yes") == 0
    assert shell.actual == [OLD] * 4


def test_off_a_terminal_no_question_is_asked_and_nothing_done(shell: Shell, caplog: pytest.LogCaptureFixture) -> None:
    assert shell.undo() == 64
    assert shell.actual == [NEW] * 4
    assert "--yes" in caplog.text


@pytest.mark.parametrize(("answer", "status", "after"), [("y\n", 0, OLD), ("yes\n", 0, OLD), ("n\n", 1, NEW)])
def test_on_a_terminal_the_plan_is_shown_before_the_question(
    shell: Shell, answer: str, status: int, after: Limits
) -> None:
    assert shell.undo(answer=answer) == status
    shown, question, _ = shell.out.partition("Restore limits of 4 disks? [y/N] ")
    assert question
    assert shown.count("900 → 250 IOPS") == 4
    assert shell.actual == [after] * 4


@pytest.mark.parametrize("answer", ["", "\n", "Yes please\n", "j\n"])
def test_whatever_is_no_yes_is_a_no(shell: Shell, answer: str) -> None:
    assert shell.undo(answer=answer) == 1
    assert shell.actual == [NEW] * 4


MANY = 12
TYPED = re.compile(r"Restore limits of 12 disks from before \S+ \S+ UTC\? Type the number of disks: ")


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """The same with twelve disks: more than the brake allows."""
    monkeypatch.setattr(cli, "_booted", lambda: datetime.min.replace(tzinfo=UTC))
    return Shell(tmp_path, guests=6)


@pytest.mark.parametrize(("answer", "after"), [("12\n", OLD), ("y\n", NEW), ("11\n", NEW), ("\n", NEW)])
def test_for_more_disks_than_the_brake_allows_their_number_is_typed(many: Shell, answer: str, after: Limits) -> None:
    assert many.undo(answer=answer) == (0 if after is OLD else 1)
    assert TYPED.search(many.out)
    assert many.actual == [after] * MANY


@pytest.mark.parametrize(
    ("words", "after"),
    [([], NEW), (["--disks", "11"], NEW), (["--disks", "0"], NEW), (["--disks", "12"], OLD)],
)
def test_yes_alone_restores_no_more_disks_than_the_brake_allows(
    many: Shell, words: list[str], after: Limits, caplog: pytest.LogCaptureFixture
) -> None:
    assert many.undo("--yes", *words) == (0 if after is OLD else 64)
    assert many.actual == [after] * MANY
    assert ("limits of 12 disks would be restored" in caplog.text) is (after is NEW)
    assert ("add --disks 12" in caplog.text) is (after is NEW)


def test_with_their_number_a_person_is_asked_as_for_few(many: Shell) -> None:
    assert many.undo("--disks", "12", answer="y\n") == 0
    assert "Restore limits of 12 disks? [y/N] " in many.out
    assert many.actual == [OLD] * MANY


@pytest.mark.parametrize(("hours", "status"), [(-1, 0), (1, 64)])
def test_for_a_time_more_than_a_day_ago_a_few_disks_need_their_number_too(
    shell: Shell, hours: int, status: int
) -> None:
    since = (datetime.now(UTC) - timedelta(days=1, hours=hours)).isoformat()
    assert shell.undo("--yes", "--ignore-health", since=since) == status
    if status:
        assert shell.undo("--yes", "--ignore-health", "--disks", "4", since=since) == 0
    assert shell.actual == [Limits()] * 4


def test_a_disk_that_changes_while_the_person_thinks_is_not_reverted_by_their_yes(shell: Shell) -> None:
    def meanwhile() -> None:
        shell.node.rules = rules(Limits(total_iops_sec=1000))
        shell.node.run(yes=True)
        shell.node.state = state_of(shell.settings)

    shell.before_answer = meanwhile
    assert shell.undo(answer="y\n") == 1
    assert shell.actual == [Limits(total_iops_sec=1000)] * 4
    assert shell.out.count("changed since it was shown and confirmed") == 4


def test_while_a_person_thinks_passes_go_on(shell: Shell) -> None:
    held: list[bool] = []

    def meanwhile() -> None:
        with shell.node.state.locked():
            held.append(True)

    shell.before_answer = meanwhile
    assert shell.undo(answer="y\n") == 0
    assert held


def test_no_question_is_asked_about_nothing(shell: Shell) -> None:
    shell.undo("--yes")
    assert shell.undo(answer="n\n") == 0
    assert "?" not in shell.out


@pytest.mark.parametrize(
    ("mode", "words", "said"),
    [("enforce", "--yes", True), ("enforce", "--dry-run", True), ("observe", "--yes", False)],
)
def test_that_the_next_pass_goes_back_to_what_is_desired_is_said_where_it_does(
    shell: Shell, mode: str, words: str, said: bool
) -> None:
    shell.mode = mode
    assert shell.undo(words) == 0
    assert (NEXT_PASS in shell.out) is said


def test_in_mode_observe_a_persons_word_is_enough(shell: Shell) -> None:
    shell.mode = "observe"
    assert shell.undo("--yes") == 0
    assert shell.actual == [OLD] * 4


def test_a_paused_node_is_not_written_to_and_it_is_said_what_to_do(
    shell: Shell, caplog: pytest.LogCaptureFixture
) -> None:
    (shell.directory / "paused").write_text("looking into it")
    assert shell.undo("--yes") == 1
    assert shell.actual == [NEW] * 4
    assert all(word in caplog.text for word in ("looking into it", "plimsoll resume", "plimsoll undo"))
    assert shell.undo("--dry-run") == 0
    assert "Nothing is written: paused" in shell.out
    assert NEXT_PASS not in shell.out


def test_a_dry_run_says_the_same_and_changes_nothing(shell: Shell) -> None:
    assert shell.undo("--dry-run") == 0
    dry = shell.out.splitlines()
    assert shell.actual == [NEW] * 4
    assert dry[-1] == "Dry run: nothing is written."
    shell.undo("--yes")
    # Guests are changed side by side, so their lines come in any order.
    assert sorted(line.partition("  undo of")[0] for line in shell.out.splitlines()[:4]) == sorted(dry[:4])


def test_a_second_one_at_once_does_nothing(
    shell: Shell, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "PATIENCE", 0.0)
    with shell.node.state.locked():
        assert shell.undo("--yes") == 75
    assert shell.actual == [NEW] * 4
    assert "another pass is under way" in caplog.text


def test_a_pass_that_is_under_way_is_waited_for(shell: Shell) -> None:
    passing = shell.node.state.locked()
    passing.__enter__()
    done = threading.Timer(0.3, passing.__exit__, (None, None, None))
    done.start()
    assert shell.undo("--yes") == 0
    done.join()
    assert shell.actual == [OLD] * 4


def test_a_dry_run_waits_for_no_pass_and_keeps_none_waiting(shell: Shell) -> None:
    with shell.node.state.locked():
        assert shell.undo("--dry-run") == 0


@pytest.mark.parametrize("since", ["2h ago", "tomorrow", "2999-01-01", "-2h"])
def test_a_moment_that_is_none_or_is_to_come_is_64(
    shell: Shell, since: str, caplog: pytest.LogCaptureFixture
) -> None:
    if since.startswith("-"):
        since = f" {since}"  # else argparse takes it for an option
    assert shell.undo("--yes", since=since) == 64
    assert "--since" in caplog.text


def test_on_a_node_without_a_pass_there_is_nothing_to_undo(shell: Shell) -> None:
    shutil.rmtree(shell.node.state.directory)
    shell.node.hypervisor.lose_marks()
    assert shell.undo("--dry-run") == 0
    assert shell.undo("--yes") == 0
    assert shell.out.startswith("No change that took effect is recorded: nothing to undo.")


def test_a_time_after_the_last_change_is_answered_with_that_change(shell: Shell) -> None:
    assert shell.undo("--dry-run", since=(datetime.now(UTC) - timedelta(microseconds=1)).isoformat()) == 0
    assert re.match(
        r"No change took effect since \S+ \S+ UTC; the newest that did is of \d{4}-\S+ \S+ UTC\.", shell.out
    )


def test_a_change_that_was_refused_or_of_another_guest_is_no_newest_one(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record has it, and nothing is to be undone of it."""
    took = shell.node.now
    shell.node.now += timedelta(minutes=10)
    first, second = shell.node.hypervisor.by_uuid
    with monkeypatch.context() as patch:
        patch.setattr(shell.node.hypervisor, "set_limits", raising(Rejected("busy")))
        shell.node.rules = rules(OLD)
        shell.node.run(yes=True)
    since = (took + timedelta(minutes=5)).isoformat()
    assert shell.undo("--dry-run", since=since) == 0
    assert shell.out.startswith(f"No change took effect since {took + timedelta(minutes=5):%Y-%m-%d %H:%M:%S} UTC;")
    assert f"the newest that did is of {took:%Y-%m-%d %H:%M:%S} UTC." in shell.out
    shell.node.now += timedelta(minutes=10)
    shell.node.run(scope=Scope(frozenset([first])), yes=True)
    assert shell.undo("--dry-run", "--guest", second, since=since) == 0
    assert f"the newest that did is of {took:%Y-%m-%d %H:%M:%S} UTC." in shell.out


def test_a_record_that_was_moved_away_is_not_nothing_to_undo(shell: Shell) -> None:
    shell.node.state.record.unlink()
    assert shell.undo("--yes") == 3
    assert shell.out.splitlines() == golden(WORDS)["record moved away"]
    assert shell.undo("--yes", "-f", "json") == 3
    assert json.loads(shell.out)["unrecorded"] == 4


def test_where_the_start_of_the_node_is_unknown_no_change_counts_as_made_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "_BOOTED", "a line that the kernel does not write ")
    shell = Shell(tmp_path)
    assert shell.undo("--yes") == 1
    assert shell.out.count("reattached since") == 4
    assert shell.actual == [NEW] * 4


def test_json_asks_no_question(shell: Shell) -> None:
    assert shell.undo("-f", "json", answer="y\n") == 64


def test_json_counts_the_results_of_the_disks(shell: Shell) -> None:
    set_by_hand(shell.node.disk(1), OTHERS)
    assert shell.undo("--yes", "-f", "json") == 3
    data = json.loads(shell.out)
    assert data["counts"] == dict.fromkeys(Kind, 0) | {"changed": 3, "left-alone": 1}
    (alone,) = (disk for disk in data["disks"] if disk["result"] == "left-alone")
    assert (alone["guest"], alone["disk"], alone["reason"]) == (
        "instance-00000001",
        "vda",
        {"code": "external-change"},
    )
    assert (alone["before"], alone["after"]) == ({"total_iops_sec": 97}, {"total_iops_sec": 250})
    assert (data["version"], data["dry_run"], data["mode"]) == (1, False, "enforce")
    assert datetime.fromisoformat(data["since"]) == shell.since


def test_what_waits_for_the_cluster_goes_ahead_when_a_person_says_so(shell: Shell) -> None:
    begin = (shell.since - timedelta(minutes=30)).isoformat()
    assert shell.undo("--yes", since=begin) == 1  # to lift; and no ceph.conf here names the cluster
    assert shell.actual == [NEW] * 4
    assert "Deferred and failed disks are not retried automatically" in shell.out
    assert shell.undo("--yes", "--ignore-health", since=begin) == 0
    assert shell.actual == [Limits()] * 4


def test_some_is_3_and_none_is_1(shell: Shell) -> None:
    shell.node.hypervisor.by_uuid[uuid_of(1)].trouble = hangs()
    assert shell.undo("--yes") == 3
    for one in shell.node.hypervisor.by_uuid.values():
        one.trouble = hangs()
    assert shell.undo("--yes") == 1


def test_a_reader_that_goes_away_does_not_end_it_in_the_middle(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builtins.print", gone)
    assert shell.undo("--yes") == 1
    assert shell.actual == [OLD] * 4


def test_the_words_are_those_of_the_file(shell: Shell) -> None:
    node = shell.node
    set_by_hand(node.disk(1, "vda"), OTHERS)
    node.hypervisor.restart(node.hypervisor.by_uuid[uuid_of(2)], NEW)
    shell.undo("--dry-run")
    said = shell.out.replace(f"{shell.since:%Y-%m-%d %H:%M:%S}", "2026-11-20 12:00:00")
    assert said.splitlines() == golden(WORDS)["dry run"]
    del node.hypervisor.by_uuid[uuid_of(1)]
    node.hypervisor.by_uuid[uuid_of(2)].trouble = hangs()
    shell.undo("--yes")
    assert re.sub(r"in \d+\.\d s", "in 0.0 s", shell.out).splitlines() == golden(WORDS)["afterwards"]


def test_a_name_that_speaks_to_the_terminal_is_not_heard() -> None:
    named = replace(a_disk().named, guest_name="in\x1b[31mstance")
    for kind in Kind:
        result = Result(kind, because(Code.NOT_HERE))
        for line in told.undone(
            [Undone(disk=named, actual=None, target=None, change=None, result=result, server="\x07")]
        ):
            assert line.isprintable()
            assert "in?[31mstance" in line


def test_what_the_record_does_not_keep_any_more_is_64_and_says_since_when_it_answers(
    shell: Shell, caplog: pytest.LogCaptureFixture
) -> None:
    Record(shell.node.state.record).retain(Retention(keep_days=1), datetime.now(UTC) + timedelta(days=2))
    assert shell.undo("--dry-run", since="2020-01-01") == 64
    assert "; give a later time" in caplog.text


def test_last_undoes_the_last_pass_that_changed_limits_and_no_undo(shell: Shell) -> None:
    assert shell.types(Undo, "--last", "--yes", settings=shell.settings, hypervisor=shell.node.hypervisor) == 0
    assert shell.actual == [OLD] * 4
    assert shell.out.startswith("The last pass that changed limits began at ")
    assert shell.types(Undo, "--last", "--yes", settings=shell.settings, hypervisor=shell.node.hypervisor) == 0
    assert shell.actual == [OLD] * 4, "an undo is no pass of its own"


def test_a_moment_after_all_changes_is_answered_with_the_last_pass(shell: Shell) -> None:
    assert shell.undo("--dry-run", since=datetime.now(UTC).isoformat()) == 0
    assert "; the newest that did is of " in shell.out
    assert "plimsoll undo --last" in shell.out
