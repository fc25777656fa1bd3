"""What a pass stands on: how far Cinder's last word counts, what the commands say of it, and what is approved."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from plimsoll_agent import catalogue
from plimsoll_agent.catalogue import NAME, Catalogue, save
from plimsoll_agent.cli.approve import Approve
from plimsoll_agent.cli.passes import Plan
from plimsoll_agent.cli.standing import catalogue_in_force, rules_in_force
from plimsoll_agent.limits import Limits
from plimsoll_agent.reason import Code, Unknown
from plimsoll_agent.report import note_words
from tests.unit.clouds import a_spec
from tests.unit.enforcing import KNOWN, RICH, Shell, settings
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
    old = shell.edition()
    shell.refresh(a_spec("gold", total_iops_sec="30"))
    new = shell.edition()
    assert old != new
    assert shell.run(Approve, old) == 64, "the catalogue is another by now"
    assert shell.state.load_approval() is None
    assert shell.run(Approve, new) == 0
    approval = shell.state.load_approval()
    assert approval is not None
    assert approval.edition == new


def test_an_approval_outlives_a_refresh_that_brings_the_same_specs(shell: Shell) -> None:
    """Every 15 minutes the file is written anew: a person has read the plan of the one before."""
    before = shell.edition()
    shell.refresh(issued=datetime.now(UTC) - HOUR)
    assert shell.run(Approve, before) == 0


def test_other_rules_with_the_same_catalogue_need_another_approval(shell: Shell) -> None:
    before = shell.edition()
    shell.rules.write_text("default: {limits: {total_iops_sec: 9}}")
    assert shell.run(Approve, before) == 64


def test_an_approval_is_not_of_rules_alone_where_a_catalogue_stands_beside_them(shell: Shell) -> None:
    rules, _ = rules_in_force(shell.settings, shell.state, keep=False)
    assert shell.run(Approve, rules.edition) == 64
    shell.source = "none"
    assert shell.run(Approve, rules.edition) == 0
