"""Which disks a rule means, and what it is as a value."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import yaml

from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Unknown
from plimsoll_agent.policy.decide import decide
from plimsoll_agent.policy.sources import SOURCES
from plimsoll_agent.rules.loader import parse
from plimsoll_agent.rules.model import Match, Objective, Probing, Rule, Rules
from tests import golden
from tests.unit.values import PROJECT, a_disk, a_guest, a_situation


def parsed(match: dict[str, Any]) -> Match:
    # JSON is YAML.
    text = str({"rules": [{"name": "r", "match": match, "limits": "unlimited"}]})
    return parse(text, "rules.yaml").rules[0].match


def answer(kind: str, text: str) -> str:
    match, *others = map(yaml.safe_load, text.split(" | "))
    if kind == "covers":
        return str(parsed(match).covers(parsed(others[0])))
    misfit = parsed(match).misfit(a_disk(a_guest(**others[0]), **others[1]))
    return f"not meant: {misfit}" if misfit else "meant"


def test_each_disk_is_meant_or_not_as_in_the_golden_file() -> None:
    golden.transcript("matches.txt", answer)


CLUSTER = "c4f0e2a8-3a6b-4f62-9b1c-0d7f2f9e6a11"


def test_a_cluster_that_cannot_be_told_is_unknown_only_where_it_alone_decides() -> None:
    match = parsed({"cluster": CLUSTER, "pool": "volumes"})
    answer = match.misfit(a_disk(monitors=("10.0.0.1:6789",)))
    assert isinstance(answer, Unknown)
    assert answer.reason.code is Code.CLUSTER_UNKNOWN
    assert match.misfit(a_disk(pool="vms")) == "pool"


def test_an_id_is_no_pattern_for_another_id() -> None:
    assert Match(volume=("*",)).misfit(a_disk()) == "volume"


# --- rules that speak of what is measured


MEASURED = Rule(
    name="canaries",
    match=Match(project=(PROJECT,)),
    probe=Probing(timedelta(hours=6)),
    objective=Objective(((0.99, 0.05),)),
)


@pytest.mark.parametrize("boot", [True, False], ids=["root", "other"])
@pytest.mark.parametrize(
    "others",
    [
        (),
        (Rule(name="a", match=Match(pool=("volumes",)), limits=Limits(total_iops_sec=500)),),
        (Rule(name="a", match=Match(pool=("volumes",)), limits=Limits(total_iops_sec=500), override=True),),
        (Rule(name="a", match=Match(pool=("volumes",)), ceiling=Limits(total_iops_sec=100)),),
        (Rule(name="a", match=Match(pool=("volumes",)), floor=Limits(total_iops_sec=9000)),),
        (Rule(name="a", match=Match(pool=("volumes",)), manage=False),),
    ],
    ids=["none", "limits", "override", "ceiling", "floor", "unmanaged"],
)
@pytest.mark.parametrize("default", [None, Limits(total_iops_sec=250)], ids=["no-default", "default"])
def test_a_rule_that_only_measures_is_no_word_on_limits(
    others: tuple[Rule, ...], default: Limits | None, boot: bool
) -> None:
    disk = a_disk(root=boot)
    without = decide(disk, a_situation(Rules(rules=others, default=default)), SOURCES)
    for rules in ((MEASURED, *others), (*others, MEASURED)):
        assert decide(disk, a_situation(Rules(rules=rules, default=default)), SOURCES) == without
