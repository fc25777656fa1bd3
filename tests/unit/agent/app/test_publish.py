"""What a pass leaves for others to see, and what it leaves when it could be none."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from plimsoll_agent.cli.passes import Plan
from plimsoll_agent.config.settings import MetricsSettings
from plimsoll_agent.errors import Unreachable
from plimsoll_agent.model.reason import Code, because
from plimsoll_agent.monitor import pass_metrics, pass_summary_file, usage_history
from plimsoll_agent.monitor.pass_summary import LastPass
from plimsoll_agent.reconcile.grade import Grade
from plimsoll_agent.reconcile.outcome import Kind
from plimsoll_agent.store.refresh_state import RefreshDir, RefreshNotes
from plimsoll_agent.store.state import StateError
from tests.fakes import domain_xml, hangs, raising
from tests.unit.enforcing import RICH, Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """With a place for metrics, before the first pass."""
    shell = Shell(tmp_path)
    textfiles = tmp_path / "textfiles"
    textfiles.mkdir()
    shell.metrics = MetricsSettings(textfiles, "disk")
    return shell


def last(shell: Shell) -> LastPass:
    last = pass_summary_file.load(shell.state)
    assert last is not None
    return last


def exposed(shell: Shell) -> dict[str, float]:
    """The series by their whole names, as node_exporter finds them."""
    assert shell.metrics.textfile_dir is not None
    text = (shell.metrics.textfile_dir / "plimsoll-pass.prom").read_text()
    rows = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in rows}


def test_a_pass_is_seen_in_the_state_and_in_the_metrics(shell: Shell) -> None:
    shell.enforce()
    shell.refresh()
    assert shell.enforce() == 0
    seen = last(shell)
    assert (seen.grade, seen.enforcing, seen.guests) == (Grade.GOOD, True, 1)
    assert [(disk.kind, disk.actual) for disk in seen.disks] == [(Kind.CHANGED, RICH)]
    assert seen.last_good == seen.ended
    assert list(seen.phases) == ["observe", "decide", "gate", "apply", "keep"]
    series = exposed(shell)
    assert series['plimsoll_passes_total{result="good"}'] == 1
    assert series['plimsoll_passes_total{result="partial"}'] == 1, "the first, when nobody knew what Cinder says"


def test_a_plan_and_a_pass_over_one_guest_leave_what_others_see_as_it_was(shell: Shell) -> None:
    shell.run(Plan)
    shell.enforce("--guest", shell.guest.name)
    assert pass_summary_file.load(shell.state) is None
    assert list((shell.metrics.textfile_dir or Path()).iterdir()) == []


def test_what_was_done_is_averaged_between_two_passes(shell: Shell) -> None:
    shell.enforce()
    assert last(shell).interval is None
    disk = shell.guest.disks["vda"]
    disk.done = tuple(100 + count for count in disk.done)  # type: ignore[assignment]
    shell.enforce()
    seen = last(shell)
    rates = seen.disks[0].rates
    assert seen.interval is not None
    assert rates is not None
    assert rates.read_iops * seen.interval == pytest.approx(100)
    (past,) = usage_history.passes(shell.state)
    assert past.at == seen.looked
    assert past.disks[seen.disks[0].named.key].operations == pytest.approx(rates.of("total_iops_sec"), rel=1e-3)


def test_a_guest_whose_counters_alone_hang_is_kept_as_one_that_did_not_answer(shell: Shell) -> None:
    """QEMU can freeze once its limits were read: its stall would be idle time for ``explain``."""
    shell.enforce()
    shell.hypervisor.before["block_stats"] = raising(hangs())
    shell.enforce()
    (past,) = usage_history.passes(shell.state)
    assert (dict(past.disks), past.unanswered) == ({}, {shell.guest.uuid})


def test_a_history_that_cannot_be_written_is_told_and_fails_no_pass(
    shell: Shell, caplog: pytest.LogCaptureFixture
) -> None:
    shell.enforce()
    shell.refresh()
    shell.state.usage.mkdir()
    assert shell.enforce() == 0
    assert [line for line in caplog.messages if "usage.jsonl: cannot be written: Is a directory" in line]


def test_without_a_place_for_metrics_no_counters_are_read(shell: Shell) -> None:
    shell.metrics = MetricsSettings(None, "disk")
    shell.enforce()
    assert "block_stats" not in shell.hypervisor.calls


def test_a_guest_that_does_not_answer_is_told_and_the_metrics_are_written_all_the_same(shell: Shell) -> None:
    shell.enforce()
    shell.guest.trouble = hangs()
    shell.enforce()
    series = exposed(shell)
    assert series['plimsoll_disks{state="unknown",volume_type=""}'] == 1
    assert not [name for name in series if name.startswith("plimsoll_disk_limit_actual")], "unknown is not zero"


def test_libvirt_that_is_not_there_is_told_and_what_was_known_of_the_disks_stays(shell: Shell) -> None:
    shell.enforce()
    shell.refresh()
    shell.enforce()
    good = last(shell).ended
    shell.hypervisor.before["guests"] = raising(Unreachable("libvirt is not there"))
    assert shell.enforce() == 1
    seen = last(shell)
    assert (seen.grade, seen.trouble, seen.last_good) == (Grade.FAILED, "libvirt is not there", good)
    assert [disk.actual for disk in seen.disks] == [RICH]
    series = exposed(shell)
    assert series['plimsoll_source_up{source="libvirt"}'] == 0
    assert series['plimsoll_passes_total{result="failed"}'] == 1


def test_a_node_without_a_disk_that_had_some_is_told_by_the_pass_and_the_metrics(
    shell: Shell, caplog: pytest.LogCaptureFixture
) -> None:
    shell.enforce()
    shell.refresh()
    assert shell.enforce() == 0
    shell.guest.xml = domain_xml(shell.guest).replace("rbd", "ceph")
    assert shell.enforce() == 3
    assert "no RBD disk found" in caplog.text
    assert f"{shell.guest.name} vda" in caplog.text
    assert exposed(shell)['plimsoll_source_up{source="disks"}'] == 0


def test_rules_that_cannot_be_read_are_told_to_those_who_watch(shell: Shell) -> None:
    shell.rules.write_text("rules: [")
    assert shell.enforce() == 1
    assert last(shell).grade is Grade.FAILED
    assert exposed(shell)['plimsoll_source_up{source="rules"}'] == 0


def test_a_nova_that_fails_for_long_is_a_source_that_is_down(shell: Shell) -> None:
    shell.refresh()
    directory, up = RefreshDir(shell.fetched), 'plimsoll_source_up{source="refresh"}'
    now = datetime.now(UTC)
    notes = RefreshNotes().nova_failed(now, "Nova: server error (503)", 1)
    directory.save_notes(notes)
    shell.enforce()
    assert exposed(shell)[up] == 1, "one may meet a restart"
    directory.save_notes(notes.nova_failed(now, "Nova: server error (503)", 1))
    shell.enforce()
    assert exposed(shell)[up] == 0
    assert because(Code.REFRESH_FAILED, refreshes=2, detail="Nova: server error (503)") in last(shell).notes


def test_a_pass_on_older_rules_is_no_good_one(shell: Shell) -> None:
    shell.enforce()
    shell.refresh()
    shell.rules.write_text("rules: [")
    assert shell.enforce() == 1
    seen = last(shell)
    assert (seen.grade, seen.last_good, seen.sources["rules"]) == (Grade.PARTIAL, None, False)


def test_a_pass_that_finds_the_node_held_is_counted_by_the_next(shell: Shell) -> None:
    shell.state.prepare()
    with shell.state.locked():
        assert shell.enforce() == 75
    shell.enforce()
    assert last(shell).busy == 1


def test_metrics_that_cannot_be_written_are_an_error_and_the_limits_are_put_actual(shell: Shell) -> None:
    shell.enforce()
    shell.refresh()
    shell.metrics = MetricsSettings(Path("/proc/nowhere"), "disk")
    assert shell.enforce() == 3
    assert shell.guest.disks["vda"].actual == RICH
    assert last(shell).grade is Grade.GOOD, "a pass is not worse for it"


def test_a_damaged_file_is_begun_again(shell: Shell) -> None:
    shell.enforce()
    shell.state.last_pass.write_text("{")
    shell.enforce()
    assert sum(last(shell).totals.passes.values()) == 1


def test_counters_that_cannot_be_kept_are_not_told(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next pass would begin from the old ones, and Prometheus would take the fall for a restart."""
    shell.enforce()
    before = exposed(shell)
    monkeypatch.setattr(pass_summary_file, "save", raising(StateError("no space left on device")))
    assert shell.enforce() == 3
    assert exposed(shell) == pytest.approx(exposed(shell) | {n: v for n, v in before.items() if "_total" in n})


@pytest.mark.parametrize("broken", [ValueError("a bug"), LookupError("a bug"), MemoryError()])
def test_an_unforeseen_error_while_publishing_leaves_the_pass_unchanged(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, broken: Exception
) -> None:
    shell.enforce()
    shell.refresh()
    monkeypatch.setattr(pass_metrics, "families", raising(broken))
    assert shell.enforce() == 3
    assert shell.guest.disks["vda"].actual == RICH
    assert "Done: 1 set, in " in shell.out, "the sum is said"


def test_of_a_pass_that_could_not_be_only_who_was_asked_is_up_or_down(shell: Shell) -> None:
    """Rules that cannot be read say nothing of libvirt."""
    shell.hypervisor.before["guests"] = raising(Unreachable("libvirt is not there"))
    shell.enforce()
    shell.state.last_rules.unlink(missing_ok=True)
    shell.rules.write_text("rules: [")
    shell.enforce()
    assert last(shell).sources == {"rules": False}
