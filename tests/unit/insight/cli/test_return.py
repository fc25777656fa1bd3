from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from plimsoll_agent.errors import PlimsollError, UsageError
from plimsoll_insight.cli import return_plan, return_run
from plimsoll_insight.cli.return_run import Left
from plimsoll_insight.drill.recording import RecordingWriter, status_line
from plimsoll_insight.ordered_return.journal import Change, Target
from tests.unit.insight.ordered_return.seen import FLAG, SETTING, counts


def changes(*settings: str) -> dict[Target, str]:
    return return_run.desired_of(argparse.Namespace(flag=["noout"], set=list(settings)))


def test_flags_and_settings_are_those_that_are_named() -> None:
    assert changes("osd_max_backfills=1") == {FLAG: "set", SETTING: "1"}


@pytest.mark.parametrize(
    "word", ["osd_max_backfills", "osd_max_backfills=", "osd_memory_target=1", "osd_max_backfills=1 2", "=", "a=b"]
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
    former = Left({FLAG: Change(FLAG, None, "set")}, "one")
    former.check("one")
    with pytest.raises(PlimsollError, match="in cluster one, and this is two"):
        former.check("two")


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
