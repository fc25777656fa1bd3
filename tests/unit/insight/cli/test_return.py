from __future__ import annotations

import argparse
import os
import signal
from pathlib import Path

import pytest

from plimsoll_agent.errors import PlimsollError, UsageError
from plimsoll_agent.util import locks
from plimsoll_insight.cli import return_plan, return_run, return_status
from plimsoll_insight.cli.return_run import LeftChanges
from plimsoll_insight.drill.recording import RecordingWriter, status_line
from plimsoll_insight.forecast.settings import OsdSettings
from plimsoll_insight.ordered_return import journal
from plimsoll_insight.ordered_return.journal import NAME, ChangeTarget, ClusterChange
from tests.unit.insight.ordered_return.seen import FLAG, RESTARTS, SETTING, counts, journal_at


def changes(*settings: str) -> dict[ChangeTarget, str]:
    return return_run.desired_of(argparse.Namespace(flag=["noout"], set=list(settings)))


def test_flags_and_settings_are_those_that_are_named() -> None:
    assert changes("osd_max_backfills=1") == {FLAG: "set", SETTING: "1"}


@pytest.mark.parametrize(
    "word",
    [
        "osd_max_backfills=1k",
        "osd_mclock_override_recovery_settings=yes",
        "osd_max_backfills",
        "osd_max_backfills=",
        "osd_memory_target=1",
        "osd_max_backfills=1 2",
        "=",
        "a=b",
    ],
)
def test_only_settings_of_recovery_with_a_plain_value_are_set(word: str) -> None:
    with pytest.raises(UsageError, match="--set"):
        changes(word)


@pytest.mark.parametrize(
    ("names", "has_mclock", "fine"),
    [
        (("osd_max_backfills=1",), False, True),
        (("osd_max_backfills=1",), None, True),
        (("osd_max_backfills=1",), True, False),
        (("osd_max_backfills=1", "osd_mclock_override_recovery_settings=true"), True, True),
        (("osd_recovery_sleep=0.1", "osd_mclock_override_recovery_settings=true"), True, False),
        (("osd_recovery_sleep_degraded=0.1", "osd_mclock_override_recovery_settings=true"), True, False),
        (("osd_mclock_profile=high_client_ops",), True, True),
        (("osd_mclock_profile=high_client_ops",), False, False),
    ],
)
def test_a_setting_that_would_have_no_effect_is_refused(names: tuple[str, ...], has_mclock: bool, fine: bool) -> None:
    if fine:
        return_run._check_mclock(changes(*names), has_mclock)
        return
    with pytest.raises(UsageError, match="no effect"):
        return_run._check_mclock(changes(*names), has_mclock)


@pytest.mark.parametrize(
    ("names", "in_force", "fine"),
    [
        (("osd_recovery_sleep=1",), {"osd_recovery_sleep": "0"}, True),
        (("osd_recovery_sleep=1",), {"osd_recovery_sleep": "0", "osd_recovery_sleep_degraded": "0"}, False),
        (
            ("osd_recovery_sleep=1", "osd_recovery_sleep_degraded=1"),
            {"osd_recovery_sleep": "0", "osd_recovery_sleep_degraded": "0"},
            True,
        ),
    ],
)
def test_a_sleep_that_is_not_of_missing_copies_is_refused_alone(
    names: tuple[str, ...], in_force: dict[str, str], fine: bool
) -> None:
    osds = [OsdSettings(in_force, is_rotational=True, journal_is_rotational=True)]
    if fine:
        return_run._check_sleep(changes(*names), osds)
        return
    with pytest.raises(UsageError, match="sleep by osd_recovery_sleep_degraded"):
        return_run._check_sleep(changes(*names), osds)


def test_what_lets_osds_take_a_setting_is_set_before_it() -> None:
    names = [target.name for target in changes("osd_max_backfills=1", "osd_mclock_override_recovery_settings=true")]
    assert names.index("osd_mclock_override_recovery_settings") < names.index("osd_max_backfills")


@pytest.mark.parametrize("holds", [True, False])
def test_stop_ends_the_process_that_has_the_lock_and_no_other_that_has_its_number_now(
    holds: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A return was killed, the host has booted, and another one waits for its answer."""
    lock, killed = locks.take(tmp_path / return_run.LOCK), []

    def kill(pid: int, number: int) -> None:
        killed.append((pid, number))
        os.close(lock)

    monkeypatch.setattr(return_status.os, "kill", kill)
    monkeypatch.setattr(return_status, "_UNTIL_STOPPED", 1.0)
    pid = os.getpid() if holds else os.getppid()
    journal_at(tmp_path / NAME).write("begin", fsid="f", osds=[1], pid=pid, recording="-")
    return_status._end(tmp_path)
    assert killed == ([(pid, signal.SIGTERM)] if holds else [])
    if not holds:
        os.close(lock)


WAYS = {"on_host": "ssh {host}", "unit": "ceph-osd@{osd}.service", "start": "systemctl start", "restart": None}


def test_units_are_restarted_by_what_starts_them() -> None:
    assert return_plan.ways_of(argparse.Namespace(**WAYS), "f").restart == ("systemctl", "restart")
    ways = return_plan.ways_of(argparse.Namespace(**WAYS | {"start": "docker start"}), "f")
    assert (ways.restart, ways.is_systemd) == (("docker", "restart"), False)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("on_host", ""),
        ("unit", "ceph-osd.target"),
        ("start", "a;b"),
        ("restart", ""),
    ],
)
def test_ways_that_cannot_work_are_refused_before_anything_is_asked(option: str, words: str) -> None:
    with pytest.raises(UsageError):
        return_plan.ways_of(argparse.Namespace(**WAYS | {option: words}), "f")


def test_what_was_changed_in_another_cluster_is_not_restored_in_this_one() -> None:
    former = LeftChanges({FLAG: ClusterChange(FLAG, None, "set")}, "one")
    former.check("one")
    with pytest.raises(PlimsollError, match="in cluster one, and this is two"):
        former.check("two")


def test_restarts_that_are_forbidden_by_one_unit_are_not_allowed_again_by_another(tmp_path: Path) -> None:
    """They would stay forbidden, and the record would say that they are not."""
    book = journal_at(tmp_path / NAME)
    book.write("begin", fsid="f", unit="ceph-f@osd.{osd}.service")
    book.intend(ClusterChange(RESTARTS, None, "no"))
    former = LeftChanges.of(journal.read(tmp_path / NAME))
    former.check_unit("ceph-f@osd.{osd}.service")
    with pytest.raises(PlimsollError, match="give that --unit"):
        former.check_unit("ceph-osd@{osd}.service")
    LeftChanges({FLAG: ClusterChange(FLAG, None, "set")}, "f", "one").check_unit("two")


def test_the_impact_score_counts_no_more_than_was_seen(tmp_path: Path) -> None:
    """Four groups peer for 2 s, then for 3 of 10 s of silence; nothing peers in the last second."""
    writer = RecordingWriter.begin(tmp_path / "drill", 100.0, "a", 1.0)
    peering = counts().states | {"peering": 4}
    for time, states in ((100.0, peering), (102.0, peering), (112.0, {"active+clean": 6})):
        line = status_line(counts())
        assert isinstance(line["ceph"], dict)
        writer.write(time, {"ceph": line["ceph"] | {"states": states}})
    writer.write(113.0, {"end": "over"})
    assert return_run.impact_score(tmp_path / "drill") == (20.0, 7.0)
