"""Limits under other rules and QoS specs, by what metrics tell; what they do not tell is unknown."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll_agent.model.limits import Limits
from plimsoll_agent.qos import file as qos_file
from plimsoll_agent.rules import loader
from plimsoll_insight.replay.deciding import Deciding
from plimsoll_insight.replay.values import Subject, Why, tightens
from tests.unit.node import FSID, uuid_of
from tests.unit.values import NOON, PROJECT, VOLUME

QOS = """
qos_specs:
  gold-iops: {consumer: front-end, keys: {total_iops_sec: 300}}
  sized: {consumer: front-end, keys: {total_iops_sec_per_gb: 30}}
  odd: {consumer: front-end, keys: {total_iops_sec: many}}
volume_types:
  gold: {qos_spec: gold-iops}
  sized: {qos_spec: sized}
  odd: {qos_spec: odd}
  free: {qos_spec: none}
"""
USER, IMAGE = "a" * 32, "6a4c3a37-0b6e-4b26-a1d7-0c2d9a1d6a10"
ACTUAL = Limits(total_iops_sec=500)


def a_subject(**other: Any) -> Subject:
    facts = {"volume": VOLUME, "project": PROJECT, "flavor": "m1.small", "volume_type": "gold", "pool": "volumes",
             "cluster": FSID, "server": "web-1", "project_name": "shop"}  # fmt: skip
    facts |= other.pop("facts", {})
    return Subject(
        **{"region": "r1", "uuid": uuid_of(1), "domain": "instance-1", "target": "vdb", "facts": facts,
           "actual": ACTUAL, "reason": "qos-spec"} | other
    )  # fmt: skip


def limits(subject: Subject, rules: str = "{}", qos: str | None = QOS) -> Limits | Why | None:
    declaration = None if qos is None else qos_file.parse(qos, "qos").declared
    return Deciding(loader.parse(rules, "rules"), declaration, NOON).limits(subject)


def rule(match: str, **effects: str) -> str:
    words = "".join(f", {name}: {value}" for name, value in effects.items())
    return f"rules: [{{name: one, match: {match}{words}}}]"


OWN = {"volume": "", "volume_type": ""}
FEW = "{total_iops_sec: 100}"


@pytest.mark.parametrize(
    ("subject", "rules", "answer"),
    [
        ({}, "{}", Limits(total_iops_sec=300)),
        ({}, rule("{project: '" + PROJECT + "'}", limits=FEW, override="true"), Limits(total_iops_sec=100)),
        ({}, rule("{pool: vol*}", ceiling="{total_iops_sec: 200}"), Limits(total_iops_sec=200)),
        ({}, rule("{pool: other}", limits=FEW, override="true"), Limits(total_iops_sec=300)),
        ({}, rule("{project: '" + PROJECT + "'}", manage="false"), None),
        ({"held": True}, "{}", None),
        ({"reason": "throttle-filters"}, "{}", None),
        ({"facts": {"volume_type": "sized"}}, "{}", Why.SIZE),
        ({"facts": {"volume_type": "odd"}}, "{}", Why.SPEC),
        ({"facts": {"volume_type": "gone"}}, "{}", Why.TYPE_NOT_LISTED),
        ({"facts": {"volume_type": ""}}, "{}", Why.TYPE),
        (
            {"facts": {"volume_type": ""}},
            rule("{pool: volumes}", limits=FEW, override="true"),
            Limits(total_iops_sec=100),
        ),
        ({"facts": {"cluster": ""}}, rule(f"{{cluster: {FSID}}}", limits=FEW, override="true"), Why.CLUSTER),
        ({"facts": OWN, "reason": "flavor"}, "{}", Why.FLAVOR),
        ({"facts": OWN, "reason": "rule"}, rule("{kind: ephemeral}", limits=FEW), Why.FLAVOR),
        (
            {"facts": OWN, "reason": "node-default"},
            rule("{kind: ephemeral}", limits=FEW),
            Limits(total_iops_sec=100),
        ),
        ({"facts": OWN, "reason": "foreign-limit"}, rule("{kind: ephemeral}", limits=FEW), None),
        (
            {"facts": OWN | {"project": "", "flavor": "", "server": ""}, "reason": "rule"},
            rule("{kind: ephemeral}", limits=FEW),
            Why.ATTACH,
        ),
        ({}, rule(f"{{user: {USER}}}", limits=FEW, override="true"), Why.RULE_KEYS),
        (
            {},
            rule(f"{{image: {IMAGE}, project: '{'0' * 32}'}}", limits=FEW, override="true"),
            Limits(total_iops_sec=300),
        ),
        (
            {},
            rule(f"{{user: {USER}}}", limits="{total_iops_sec: 300}", override="true"),
            Limits(total_iops_sec=300),
        ),
        ({"facts": {"volume_type": "free"}}, rule("{pool: volumes}", boot_volume_by_flavor="true"), Why.RULE_KEYS),
        ({}, rule("{pool: volumes}", boot_volume_by_flavor="true"), Limits(total_iops_sec=300)),
    ],
)
def test_the_limits_are_those_of_decide_or_it_is_unknown_why(
    subject: dict[str, Any], rules: str, answer: Any
) -> None:
    assert limits(a_subject(**subject), rules) == answer


def test_without_qos_specs_only_rules_that_override_tell() -> None:
    assert limits(a_subject(), qos=None) is Why.SPECS
    assert limits(a_subject(), rule("{pool: volumes}", limits=FEW, override="true"), None) == Limits(
        total_iops_sec=100
    )


def test_a_disk_is_unknown_where_too_many_rules_may_match() -> None:
    rules = ", ".join(
        f"{{name: r{number}, match: {{user: {USER}}}, limits: {{total_iops_sec: {300 + number}}}, override: true}}"
        for number in range(7)
    )
    assert limits(a_subject(), f"rules: [{rules}]") is Why.RULE_KEYS


@pytest.mark.parametrize(
    ("before", "after", "answer"),
    [
        ({"total_iops_sec": 500}, {"total_iops_sec": 300}, True),
        ({"total_iops_sec": 300}, {"total_iops_sec": 500}, False),
        ({"total_iops_sec": 300}, {}, False),
        ({}, {"total_iops_sec": 300}, True),
        ({"total_iops_sec": 300}, {"total_iops_sec": 300, "total_bytes_sec": 10}, True),
        ({"read_iops_sec": 100, "write_iops_sec": 100}, {"total_iops_sec": 200}, False),
        ({"read_iops_sec": 100, "write_iops_sec": 101}, {"total_iops_sec": 200}, True),
        ({"read_iops_sec": 100}, {"total_iops_sec": 200}, True),
        ({"total_iops_sec": 100}, {"read_iops_sec": 100, "write_iops_sec": 100}, False),
        ({"total_iops_sec": 100, "total_iops_sec_max": 200}, {"total_iops_sec": 100}, True),
        ({"total_iops_sec": 100}, {"total_iops_sec": 100, "total_iops_sec_max": 100}, False),
        # A longer burst, which has a rate of its own, is not more than a shorter one at once.
        (
            {"total_iops_sec": 100, "total_iops_sec_max": 200},
            {"total_iops_sec": 100, "total_iops_sec_max": 200, "total_iops_sec_max_length": 9},
            True,
        ),
        ({"total_iops_sec": 100}, {"total_iops_sec": 200, "size_iops_sec": 4096}, True),
        ({"total_iops_sec": 100, "size_iops_sec": 4096}, {"total_iops_sec": 100, "size_iops_sec": 8192}, False),
        ({"total_iops_sec": 100, "size_iops_sec": 8192}, {"total_iops_sec": 100, "size_iops_sec": 4096}, True),
        ({"total_iops_sec": 100}, {"total_iops_sec": 500, "group_name": "g"}, True),
    ],
)
def test_limits_are_tighter_where_some_load_would_wait_that_did_not(
    before: dict[str, Any], after: dict[str, Any], answer: bool
) -> None:
    assert tightens(Limits(**before), Limits(**after)) is answer
