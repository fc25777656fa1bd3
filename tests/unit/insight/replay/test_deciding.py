"""Limits under other rules and QoS specs, by what metrics tell; what they do not tell is unknown."""

from __future__ import annotations

import json
from typing import Any

import yaml

from plimsoll_agent.model.limits import Limits
from plimsoll_agent.qos import file as qos_file
from plimsoll_agent.rules import loader
from plimsoll_insight.replay.deciding import Deciding
from plimsoll_insight.replay.values import ReplayedDisk, UnknownReason, tightens
from tests import golden
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


def a_subject(**other: Any) -> ReplayedDisk:
    facts = {"volume": VOLUME, "project": PROJECT, "flavor": "m1.small", "volume_type": "gold", "pool": "volumes",
             "cluster": FSID, "server": "web-1", "project_name": "shop"}  # fmt: skip
    facts |= other.pop("facts", {})
    return ReplayedDisk(
        **{"region": "r1", "uuid": uuid_of(1), "domain": "instance-1", "target": "vdb", "facts": facts,
           "actual": ACTUAL, "reason": "qos-spec"} | other
    )  # fmt: skip


def limits(subject: ReplayedDisk, rules: str = "{}", qos: str | None = QOS) -> Limits | UnknownReason | None:
    declaration = None if qos is None else qos_file.parse(qos, "qos").declared
    return Deciding(loader.parse(rules, "rules"), declaration, NOON).limits(subject)


def rule(match: str, **effects: str) -> str:
    words = "".join(f", {name}: {value}" for name, value in effects.items())
    return f"rules: [{{name: one, match: {match}{words}}}]"


FEW = "{total_iops_sec: 100}"


def test_without_qos_specs_only_rules_that_override_tell() -> None:
    assert limits(a_subject(), qos=None) is UnknownReason.SPECS
    assert limits(a_subject(), rule("{pool: volumes}", limits=FEW, override="true"), None) == Limits(
        total_iops_sec=100
    )


def test_a_disk_is_unknown_where_too_many_rules_may_match() -> None:
    rules = ", ".join(
        f"{{name: r{number}, match: {{user: {USER}}}, limits: {{total_iops_sec: {300 + number}}}, override: true}}"
        for number in range(7)
    )
    assert limits(a_subject(), f"rules: [{rules}]") is UnknownReason.RULE_KEYS


def answer(kind: str, text: str) -> str:
    first, _, second = text.partition(" | ")
    if kind == "tightens":
        return str(tightens(Limits(**yaml.safe_load(first)), Limits(**yaml.safe_load(second))))
    found = limits(a_subject(**json.loads(first)), second)
    return str(found.in_effect()) if isinstance(found, Limits) else f"unknown: {found}" if found else "left alone"


def test_each_answer_is_that_of_the_golden_file() -> None:
    golden.transcript("replay_limits.txt", answer)
