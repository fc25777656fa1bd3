"""What disks did lately, for the limits that they may get."""

from __future__ import annotations

from pathlib import Path

import pytest

from plimsoll_agent.app.impacts import impacts_of
from plimsoll_agent.cli.passes import Plan
from plimsoll_agent.cli.rules_test import RulesTest
from plimsoll_agent.config.settings import MetricsSettings
from plimsoll_agent.model.impact import Impact
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.usage import Rates
from plimsoll_agent.monitor import usage_history
from plimsoll_agent.store.state import State
from tests.unit.enforcing import Shell
from tests.unit.lastpasses import a_last_disk, a_last_pass, a_name
from tests.unit.person import Terminal
from tests.unit.values import NOON

CUT = (Limits(total_iops_sec=250), Limits(total_iops_sec=25))
RAISE = (Limits(total_iops_sec=25), Limits(total_iops_sec=250))


@pytest.fixture
def state(tmp_path: Path) -> State:
    used = a_last_disk(
        a_name(1), rates=Rates(read_iops=100.0, write_iops=40.0, read_bytes=0.0, write_bytes=0.0, seconds=300.0)
    )
    usage_history.append(State(tmp_path), a_last_pass(used, looked=NOON))
    return State(tmp_path)


def test_each_disk_that_is_cut_has_an_answer_and_unknown_is_one(state: State) -> None:
    keys = [a_name(number).key for number in (1, 2, 3)]
    assert impacts_of(state, dict(zip(keys, (CUT, CUT, RAISE), strict=True))) == {
        keys[0]: Impact(seconds=300, share=1, base="total_iops_sec", present=140),
        keys[1]: None,
    }


def test_the_history_is_read_only_where_a_limit_is_cut(state: State) -> None:
    """It has up to 16 MiB, and a plan without cuts must not wait for it."""
    state.usage.unlink()
    state.usage.mkdir()  # cannot be read
    assert impacts_of(state, {a_name(1).key: RAISE}) == {}


def test_a_history_that_cannot_be_read_is_told_and_nothing_is_known(
    state: State, caplog: pytest.LogCaptureFixture
) -> None:
    state.usage.unlink()
    state.usage.mkdir()
    assert impacts_of(state, {a_name(1).key: CUT}) == {a_name(1).key: None}
    assert "what disks used is unknown" in caplog.text


@pytest.mark.parametrize(
    ("measures", "why"),
    [
        (False, "passes measure disks only where [metrics] textfile_dir is set"),
        (True, "no pass has measured the 1 disk yet"),
    ],
)
def test_a_plan_without_any_use_says_what_is_missing(tmp_path: Path, measures: bool, why: str) -> None:
    shell = Shell(tmp_path)
    shell.source = "none"
    shell.rules.write_text("default: {limits: {total_iops_sec: 250}}")
    shell.metrics = MetricsSettings(tmp_path if measures else None, "disk")
    shell.run(Plan)
    assert f"Who will feel it is unknown: {why}." in shell.out.splitlines()
    then = tmp_path / "then.yaml"
    then.write_text("default: {limits: {total_iops_sec: 25}}")
    shell.types(RulesTest, str(then), settings=shell.settings, hypervisor=shell.hypervisor, stdout=Terminal())
    assert f"Who will feel it is unknown: {why}." in " ".join(shell.out.split())
