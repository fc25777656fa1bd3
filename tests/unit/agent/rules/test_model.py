"""Which disks a rule means, and what it is as a value."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Unknown
from plimsoll_agent.policy.decide import decide
from plimsoll_agent.policy.sources import SOURCES
from plimsoll_agent.rules.loader import parse
from plimsoll_agent.rules.model import Match, Objective, Probing, Rule, Rules
from tests.unit.values import GUEST, PROJECT, VOLUME, a_disk, a_guest, a_situation

DASHED = f"{PROJECT[:8]}-{PROJECT[8:12]}-{PROJECT[12:16]}-{PROJECT[16:20]}-{PROJECT[20:]}"


@pytest.mark.parametrize(
    "match",
    [
        {"project": PROJECT},
        {"project": DASHED.upper()},
        {"project": ["00000000000000000000000000000000", PROJECT]},
        {"flavor": "m1.small"},
        {"flavor": "m1.*"},
        {"pool": "vol*"},
        {"volume": VOLUME},
        {"volume": VOLUME.upper()},
        {"volume": VOLUME.replace("-", "")},
        {"guest": GUEST},
        {"guest": GUEST.upper()},
        {"guest": GUEST.replace("-", "")},
        {"guest": "web", "project": PROJECT},
        {"guest": "instance-*", "project": PROJECT},
        {"guest": ["nobody", "w?b"], "project": PROJECT, "pool": "volumes", "flavor": "m1.small"},
    ],
    ids=str,
)
def test_a_rule_means_a_disk_however_its_words_are_written(match: dict[str, Any]) -> None:
    assert parsed(match).misfit(a_disk()) is None


def test_a_project_is_the_same_with_dashes_and_without_on_either_side() -> None:
    guest = a_guest(project=DASHED.upper())
    for written in (PROJECT, DASHED):
        assert parsed({"project": written}).misfit(a_disk(guest)) is None


def parsed(match: dict[str, Any]) -> Match:
    # JSON is YAML.
    text = str({"rules": [{"name": "r", "match": match, "limits": "unlimited"}]})
    return parse(text, "rules.yaml").rules[0].match


@pytest.mark.parametrize(
    ("match", "word"),
    [
        ({"project": "00000000000000000000000000000000"}, "project"),
        ({"flavor": "m1"}, "flavor"),
        ({"flavor": "M1.small"}, "flavor"),
        ({"pool": "volume"}, "pool"),
        ({"volume": GUEST}, "volume"),
        ({"guest": VOLUME}, "guest"),
        ({"guest": "we", "project": PROJECT}, "guest"),
        ({"guest": "web", "project": "00000000000000000000000000000000"}, "project"),
        ({"pool": "volumes", "flavor": "m2.*"}, "flavor"),
    ],
    ids=str,
)
def test_a_rule_that_does_not_mean_a_disk_says_which_word(match: dict[str, Any], word: str) -> None:
    assert parsed(match).misfit(a_disk()) == word


@pytest.mark.parametrize(
    ("match", "word"),
    [
        ({"project": PROJECT}, "project"),
        ({"flavor": "*"}, "flavor"),
        ({"volume": VOLUME}, "volume"),
        ({"guest": "w*", "project": PROJECT}, "project"),
    ],
    ids=str,
)
def test_what_is_unknown_of_a_disk_matches_nothing(match: dict[str, Any], word: str) -> None:
    guest = a_guest(project=None, flavor=None, display_name=None, name="other")
    assert parsed(match).misfit(a_disk(guest, volume_id=None)) == word


# --- whose the disk is, and where


CLUSTER = "c4f0e2a8-3a6b-4f62-9b1c-0d7f2f9e6a11"
OTHER = "00000000-0000-4000-8000-000000000000"


@pytest.mark.parametrize(
    ("match", "guest", "disk"),
    [
        ({"user": DASHED.upper()}, {"user": PROJECT}, {}),
        ({"user": PROJECT}, {"user": DASHED}, {}),
        ({"image": CLUSTER.upper(), "project": PROJECT}, {"image": CLUSTER}, {}),
        ({"kind": "volume"}, {}, {}),
        ({"kind": "ephemeral"}, {}, {"volume_id": None}),
        ({"kind": ["volume", "ephemeral"]}, {}, {"volume_id": None}),
        ({"cluster": CLUSTER.upper()}, {}, {"cluster": CLUSTER}),
        ({"cluster": [OTHER, CLUSTER]}, {}, {"cluster": CLUSTER}),
    ],
    ids=str,
)
def test_a_rule_means_a_disk_by_its_user_image_kind_and_cluster(
    match: dict[str, Any], guest: dict[str, Any], disk: dict[str, Any]
) -> None:
    assert parsed(match).misfit(a_disk(a_guest(**guest), **disk)) is None


@pytest.mark.parametrize(
    ("match", "guest", "disk", "word"),
    [
        ({"user": PROJECT}, {"user": OTHER}, {}, "user"),
        ({"user": PROJECT}, {"user": None}, {}, "user"),
        ({"image": CLUSTER, "project": PROJECT}, {"image": OTHER}, {}, "image"),
        ({"image": CLUSTER, "project": PROJECT}, {"image": None}, {}, "image"),
        ({"kind": "volume"}, {}, {"volume_id": None}, "kind"),
        ({"kind": "ephemeral"}, {}, {}, "kind"),
        ({"cluster": CLUSTER}, {}, {"cluster": OTHER}, "cluster"),
    ],
    ids=str,
)
def test_a_disk_of_another_user_image_kind_or_cluster_is_not_meant(
    match: dict[str, Any], guest: dict[str, Any], disk: dict[str, Any], word: str
) -> None:
    assert parsed(match).misfit(a_disk(a_guest(**guest), **disk)) == word


def test_a_cluster_that_cannot_be_told_is_unknown_only_where_it_alone_decides() -> None:
    match = parsed({"cluster": CLUSTER, "pool": "volumes"})
    answer = match.misfit(a_disk(monitors=("10.0.0.1:6789",)))
    assert isinstance(answer, Unknown)
    assert answer.reason.code is Code.CLUSTER_UNKNOWN
    assert match.misfit(a_disk(pool="vms")) == "pool"


def test_a_guest_that_is_called_by_anothers_id_is_not_that_guest() -> None:
    match = parsed({"guest": GUEST})
    other = a_guest(uuid="6ae0acc4-f470-46e7-a341-a0b935479429", display_name=GUEST, name=GUEST)
    assert match.misfit(a_disk(other)) == "guest"
    assert match.misfit(a_disk()) is None


def test_an_id_is_no_pattern_for_another_id() -> None:
    assert Match(volume=("*",)).misfit(a_disk()) == "volume"


# --- one match within another


@pytest.mark.parametrize(
    ("match", "other", "covers"),
    [
        ({"pool": "a"}, {"pool": "a"}, True),
        ({"pool": ["a", "b"]}, {"pool": "b", "kind": "volume"}, True),
        ({"pool": "a"}, {"pool": ["a", "b"]}, False),
        ({"pool": "a", "kind": "volume"}, {"pool": "a"}, False),
        ({"flavor": "m1.*"}, {"flavor": "m1.small"}, True),
        ({"flavor": "m1.*"}, {"flavor": "m1.s*"}, False),
        ({"flavor": "m1.[ab]"}, {"flavor": "m1.[ab]"}, True),
        # An id means one guest; a name that fits its letters may be another's.
        ({"guest": "1*", "project": PROJECT}, {"guest": GUEST, "project": PROJECT}, False),
    ],
    ids=str,
)
def test_a_match_covers_another_where_it_surely_means_all_of_its_disks(
    match: dict[str, Any], other: dict[str, Any], covers: bool
) -> None:
    assert parsed(match).covers(parsed(other)) is covers


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
