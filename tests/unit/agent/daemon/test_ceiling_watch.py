"""When ceilings that disks share make a pass over the node due."""

from __future__ import annotations

from pathlib import Path

import pytest

from plimsoll_agent.ceilings.buckets import PERIOD, CeilingKey, Shared, Whose
from plimsoll_agent.config import settings as config
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.daemon.ceiling_watch import CeilingWatch
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.rules.model import Match, Rule, Rules
from plimsoll_agent.store.state import State
from plimsoll_agent.util.frozen import replace

SECONDS = PERIOD.total_seconds()
CEILING = Limits(total_iops_sec=1000)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return replace(config.load([], []), mode="enforce", state_dir=tmp_path)


def share(settings: Settings, **parts: dict[str, int]) -> None:
    its_split = Shared(ceiling=CEILING, disks=2, used={}, parts=parts)
    State(settings.state_dir).save_ceilings({CeilingKey(Whose.PROJECT, "p", "team"): its_split}, {})


def test_a_pass_is_due_each_period_while_disks_share(settings: Settings) -> None:
    watch = CeilingWatch()
    assert not watch.due(settings, 100)
    share(settings, a={}, b={})
    assert not watch.due(settings, 101), "their limits are within the ceiling"
    share(settings, a={"total_iops_sec": 500}, b={"total_iops_sec": 500})
    assert watch.due(settings, 102)
    assert not watch.due(settings, 101 + SECONDS)
    assert watch.due(settings, 102 + SECONDS)
    assert not CeilingWatch().due(replace(settings, mode="observe"), 200)


@pytest.mark.parametrize("shares", [True, False])
def test_a_disk_that_is_new_makes_one_due_if_rules_have_such_a_ceiling(settings: Settings, shares: bool) -> None:
    watch = CeilingWatch()
    rule = Rule(name="team", match=Match(), project_ceiling=CEILING if shares else None, floor=CEILING)
    watch.changed(Rules(rules=(rule,)))
    assert [watch.due(settings, at) for at in (100, 101, 101 + SECONDS)] == [shares, False, False]


def test_a_file_that_cannot_be_read_asks_for_nothing(settings: Settings) -> None:
    (settings.state_dir / "ceilings.json").write_text("{")
    assert not CeilingWatch().due(settings, 100)
