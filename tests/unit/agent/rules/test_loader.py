"""The rules file: what it may say, and what is wrong with it and where."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from plimsoll_agent.credits.model import Credits
from plimsoll_agent.errors import ConfigError
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code
from plimsoll_agent.rules.loader import NoRules, check, parse, read
from plimsoll_agent.rules.model import Match, Objective, Probing, Rule, Rules
from plimsoll_agent.util.schema import LARGEST, Severity
from tests import depth
from tests.unit.values import GUEST, NOON, PROJECT, VOLUME

FULL = f"""\
default:
  limits:
    total_iops_sec: 250
    total_bytes_sec: 104857600
rules:
  - name: batch
    match:
      project: {PROJECT}
      guest: ["batch-*", db]
    limits: {{read_iops_sec: 100, write_iops_sec: 50, group_name: batch}}
  - name: exempt
    match: {{volume: {VOLUME}}}
    manage: false
  - name: no limit on nvme
    match: {{pool: nvme, flavor: [big, huge]}}
    limits: unlimited
    override: true
"""


def faults(text: str) -> list[str]:
    with pytest.raises(ConfigError) as error:
        parse(text, "rules.yaml")
    return str(error.value).splitlines()


def fault(text: str) -> str:
    (only,) = faults(text)
    return only


ANY = {"iops": 0, "bytes": 0}
"""No limit is too low."""
LESS = "less than lowest_bytes in [brake], 1MiB"


def rule(body: str, name: str = "r") -> str:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"rules:\n  - name: {name}\n{lines}"


# --- what a file may say


def test_a_file_is_read_as_it_stands() -> None:
    limits = Limits(read_iops_sec=100, write_iops_sec=50, group_name="batch")
    assert parse(FULL, "rules.yaml") == Rules(
        rules=(
            Rule(name="batch", match=Match(project=(PROJECT,), guest=("batch-*", "db")), limits=limits),
            Rule(name="exempt", match=Match(volume=(VOLUME,)), manage=False),
            Rule(
                name="no limit on nvme",
                match=Match(pool=("nvme",), flavor=("big", "huge")),
                limits=Limits(),
                override=True,
            ),
        ),
        default=Limits(total_iops_sec=250, total_bytes_sec=104857600),
    )


def test_one_number_may_be_0_beside_another() -> None:
    rules = parse("default:\n  limits: {total_iops_sec: 0, total_bytes_sec: 5}\n", "rules.yaml")
    assert rules.default == Limits(total_bytes_sec=5)


def test_numbers_may_have_units() -> None:
    limits = (
        "{total_iops_sec: 2k, total_iops_sec_max: 3000, total_iops_sec_max_length: 1m, total_bytes_sec: 100 MiB/s}"
    )
    assert parse(f"default:\n  limits: {limits}\n", "rules.yaml").default == Limits(
        total_iops_sec=2000,
        total_iops_sec_max=3000,
        total_iops_sec_max_length=60,
        total_bytes_sec=104857600,
    )


def test_a_file_that_says_nothing_has_no_rules_and_no_default() -> None:
    assert parse("", "rules.yaml") == parse("# later\n", "rules.yaml") == parse("{}", "rules.yaml") == Rules()


def test_a_rules_reason_says_its_name_and_whether_it_manages() -> None:
    batch, exempt, nvme = parse(FULL, "rules.yaml").rules
    assert (batch.manage, exempt.manage, nvme.manage) == (True, False, True)
    assert [rule.reason.code for rule in (batch, exempt, nvme)] == [Code.RULE, Code.RULE_UNMANAGES, Code.RULE]
    assert exempt.reason.facts == {"rule": "exempt"}


# --- what is wrong with it, and where


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("defualt:\n  limits: unlimited\n", "1: defualt is not a key here; did you mean default?"),
        ("default: {}\n", "1: default: limits is missing"),
        ("default:\n  limits: {}\n", "2: default.limits: is empty"),
        # QEMU takes 0 for unlimited, and most who write it mean the opposite.
        ("default:\n  limits: {total_iops_sec: 0}\n", "2: default.limits: has no limit in it; for no"),
        (
            rule("match: {pool: a}\nlimits: {total_iops_sec: 0, read_bytes_sec: 0, size_iops_sec: 0}"),
            "4: rules[0].limits: has no limit in it; for no limit, write: limits: unlimited",
        ),
        (
            "default:\n  limits:\n",
            "2: default.limits: must be limits such as {total_iops_sec: 500}, or",
        ),
        (
            "default:\n  limits:\n    total_iop_sec: 5\n",
            "3: default.limits: total_iop_sec is not a key here; did you mean total_iops_sec?",
        ),
        (
            "default:\n  limits:\n    total_iops_sec: five\n",
            "3: default.limits.total_iops_sec: must be a whole number, or one with a unit, such as 500, 2k or 10M",
        ),
        (
            "default:\n  limits:\n    total_bytes_sec: 100m\n",
            "3: default.limits.total_bytes_sec: '100m' is ambiguous; write 100MB (100000000) or 100MiB (104857600)",
        ),
        ("default:\n  limits:\n    total_iops_sec: 1.5\n", "3: default.limits: total_iops_sec must be a whole"),
        ("default:\n  limits:\n    total_iops_sec: 5\n    read_iops_sec: 5\n", "3: default.limits: total_iops_sec"),
        (
            rule("match: {pool: a}\nlimits: none"),
            "4: rules[0].limits: must be limits such as {total_iops_sec: 500}, or the word unlimited, not 'none'",
        ),
        (
            rule("match: {pool: a}\nceiling: none"),
            "4: rules[0].ceiling: must be limits such as {total_iops_sec: 500}, not 'none'",
        ),
        ("rules:\n  - name: a\n   match: x\n", "3: YAML syntax, here or above: did not find expected '-' indicator;"),
        ("rules: {}\n", "1: rules: must be a list"),
        ("rules: [x]\n", "1: rules[0]: must be a mapping with name, match"),
        ("rules:\n  - match: {pool: a}\n    manage: false\n", "2: rules[0]: name is missing"),
        ("rules:\n  - name: 7\n    match: {pool: a}\n    manage: false\n", "2: rules[0].name: must be text, not 7"),
        (rule("manage: false"), "2: rules[0]: match is missing"),
        (rule("match: {}\nmanage: false"), "3: rules[0].match: is empty"),
        (rule("match: {pool: a}"), "2: rules[0]: has none of limits, credits, ceiling"),
        (rule("match: {pool: a}\nmanage: true"), "2: rules[0]: has none of limits, credits, ceiling"),
        (
            rule("match: {pool: a}\nrelease_when_silent: true\nreason: x"),
            "4: rules[0]: release_when_silent was removed: orphaned limits are released by plimsoll"
            " approve --remove, see Orphaned limits in the guide; take it out",
        ),
        (rule("match: {pool: a}\nboot_volume_by_flavor: false"), "2: rules[0]: has none of limits, credits, ceiling"),
        (
            rule("match: {pool: a}\nboot_volume_by_flavor: m1.small"),
            "4: rules[0].boot_volume_by_flavor: must be true or false, not 'm1.small'",
        ),
        (rule("match: {pool: a}\nlimit: unlimited"), "4: rules[0]: limit is not a key here; did you mean limits?"),
        (rule("mach: {pool: a}\nmanage: false"), "3: rules[0]: mach is not a key here; did you mean match?"),
        (
            rule("match: {pool: a}\nlimits: unlimted"),
            "4: rules[0].limits: must be limits or the word unlimited, not 'unlimted'; did you mean",
        ),
        (rule("match: {pool: a}\nmanage: 'no'"), "4: rules[0].manage: must be true or false, not 'no'"),
        (rule("match:\n  pol: a\nmanage: false"), "4: rules[0].match: pol is not a key here; did you mean pool?"),
        (rule("match:\n  pool: []\nmanage: false"), "4: rules[0].match.pool: is an empty list"),
        (rule("match:\n  pool: [a, '']\nmanage: false"), "4: rules[0].match.pool[1]: must be text"),
        (rule("match:\n  pool: {a: b}\nmanage: false"), "4: rules[0].match.pool: must be text"),
        (rule("match:\n  project: shop\nmanage: false"), "4: rules[0].match.project: must be an id"),
        (rule(f"match:\n  project: [{PROJECT}, '*']\nmanage: false"), "4: rules[0].match.project[1]: must be an id"),
        (rule("match:\n  volume: my volume\nmanage: false"), "4: rules[0].match.volume: must be an id"),
        (rule("match:\n  user: alice\nmanage: false"), "4: rules[0].match.user: must be an id"),
        (rule("match:\n  cluster: ceph\nmanage: false"), "4: rules[0].match.cluster: must be an id"),
        (
            rule("match:\n  kind: volum\nmanage: false"),
            "4: rules[0].match.kind: must be volume or ephemeral, not 'volum'; did you mean volume?",
        ),
        (rule(f"match:\n  image: {VOLUME}\n  pool: a\nmanage: false"), "4: rules[0].match: image needs project too"),
        (
            rule(f"match:\n  project: {PROJECT}\n  image: cirros\nmanage: false"),
            "5: rules[0].match.image: must be an id",
        ),
        (rule("match: {pool: a}\noverride: true\nceiling: {total_iops_sec: 5}"), "4: rules[0]: override needs"),
        (rule("match: {pool: a}\nceiling: unlimited"), "4: rules[0].ceiling: unlimited is not a bound"),
        (rule("match: {pool: a}\nfloor: {}"), "4: rules[0].floor: is empty"),
        (rule("match: {pool: a}\ncongestion: {share: 2}"), "4: rules[0].congestion: floor is missing: without one"),
        (rule("match: {pool: a}\ncongestion: {floor: {}}"), "4: rules[0].congestion.floor: is empty"),
        (
            rule("match: {pool: a}\ncongestion: {floor: {total_iops_sec: 5, total_iops_sec_max: 9}}"),
            "4: rules[0].congestion.floor: total_iops_sec_max is a burst",
        ),
        (
            rule("match: {pool: a}\ncongestion: {share: 0.5, floor: {total_iops_sec: 5}}"),
            "4: rules[0].congestion.share: must be a number from 1 to 1000, not 0.5",
        ),
        (
            rule("match: {pool: a}\nmanage: false\ncongestion: {floor: {total_iops_sec: 5}}"),
            "5: rules[0]: congestion has no effect",
        ),
        (
            rule("match: {pool: a}\nceiling: {total_iops_sec: 5, size_iops_sec: 4096}"),
            "4: rules[0].ceiling: size_iops_sec is not a bound",
        ),
        (
            rule("match: {pool: a}\nfloor: {total_iops_sec: 5, group_name: g}"),
            "4: rules[0].floor: group_name is not a bound",
        ),
        (
            rule("match: {pool: a}\nceiling: {total_iops_sec: 5, total_bytes_sec: 0}"),
            "4: rules[0].ceiling: total_bytes_sec is 0, which means unlimited",
        ),
        (
            rule("match: {pool: a}\nceiling: {total_iops_sec: 5, total_iops_sec_max: 4}"),
            "4: rules[0].ceiling: total_iops_sec_max (4) is below total_iops_sec (5)",
        ),
        (rule("match: {pool: a}\nmanage: false\nreason: ''"), "5: rules[0].reason: must be text"),
        (
            rule('match: {pool: a}\nmanage: false\nreason: "a\\nb"'),
            "5: rules[0].reason: must be one line of printable characters",
        ),
        (
            rule(f"match: {{pool: a}}\nmanage: false\nreason: {'x' * 201}"),
            "5: rules[0].reason: must be at most 200 characters",
        ),
        (
            rule('match: {pool: "vol\\u200bumes"}\nmanage: false'),
            "3: rules[0].match.pool: must be one line of printable characters",
        ),
    ],
)
def test_a_fault_is_told_with_its_line_and_key_and_the_word_that_was_meant(text: str, expected: str) -> None:
    assert fault(text).startswith(f"rules.yaml:{expected}")


def test_an_id_of_digits_without_quotes_is_a_number_and_is_told_to_be_quoted() -> None:
    told = fault(rule("match:\n  project: 76321294905901234567890525110902\nmanage: false"))
    assert told.startswith("rules.yaml:4: rules[0].match.project: must be text, not 76321294905901234567890525110902")
    assert "quotes" in told
    quoted = rule("match:\n  project: '76321294905901234567890525110902'\nmanage: false")
    assert parse(quoted, "rules.yaml").rules[0].match.project == ("76321294905901234567890525110902",)


def test_all_faults_are_told_at_once_in_the_order_of_their_lines() -> None:
    text = """\
rules:
  - name: a
    match: {pol: x}
    manage: false
  - match: {guest: "*"}
    limits:
      total_iops_sec: 500
      total_iops_sec_max: 5
      sise_iops_sec: 7
  - name: a
    match: {pool: x}
    manage: false
defaults: {}
"""
    told = faults(text)
    assert {tuple(line.split(": ")[:2]) for line in told} == {
        ("rules.yaml:3", "rules[0].match"),
        ("rules.yaml:5", "rules[1]"),
        ("rules.yaml:5", "rules[1].match"),
        ("rules.yaml:8", "rules[1].limits"),
        ("rules.yaml:9", "rules[1].limits"),
        ("rules.yaml:10", "rules[2]"),
        ("rules.yaml:13", "defaults is not a key here; did you mean default?"),
    }
    assert [int(line.split(":")[1]) for line in told] == [3, 5, 5, 8, 9, 10, 13]


def test_all_that_is_impossible_in_a_set_of_limits_is_told_each_at_its_line() -> None:
    text = "default:\n  limits:\n    total_iops_sec: 500\n    total_iops_sec_max: 5\n    read_bytes_sec_max: 7\n"
    assert [line.split(": ")[0] for line in faults(text)] == ["rules.yaml:4", "rules.yaml:5"]


def test_two_rules_of_one_name_are_refused_at_the_second() -> None:
    once = "  - name: a\n    match: {pool: x}\n    manage: false\n"
    assert fault(f"rules:\n{once}{once}").startswith("rules.yaml:5: rules[1]: name 'a' is taken")


def test_a_key_twice_and_an_alias_are_refused() -> None:
    assert fault("default:\n  limits: unlimited\n  limits: unlimited\n").startswith(
        "rules.yaml:3: default: limits is listed twice"
    )
    assert fault("default: &d\n  limits: unlimited\nrules: *d\n").startswith("rules.yaml:3: rules: aliases")


# --- tenants choose names


@pytest.mark.parametrize("guest", ["db", "'*'", f"[{GUEST}, db]", f"'{GUEST[:-1]}?'"])
@pytest.mark.parametrize(
    "what", ["manage: false", "limits: unlimited", "limits: {total_iops_sec: 5}\noverride: true"]
)
def test_a_guest_by_name_needs_its_project(guest: str, what: str) -> None:
    text = rule(f"match:\n  guest: {guest}\n{what}")
    assert fault(text).startswith("rules.yaml:4: rules[0].match: guest by name needs project too")
    with_project = rule(f"match:\n  guest: {guest}\n  project: {PROJECT}\n{what}")
    assert parse(with_project, "rules.yaml").rules[0].match.project == (PROJECT,)


def test_a_guest_by_name_in_a_pool_or_of_a_flavor_still_needs_its_project() -> None:
    text = rule("match: {guest: db, pool: volumes, flavor: m1.small}\nmanage: false")
    assert "needs project too" in fault(text)


# --- the file


def test_a_missing_file_says_nothing_and_an_unreadable_one_is_told(tmp_path: Path) -> None:
    assert read(tmp_path / "rules.yaml", required=False) == ""
    with pytest.raises(NoRules, match="no such file"):
        read(tmp_path / "rules.yaml", required=True)
    (tmp_path / "rules.yaml").write_text("\n")
    with pytest.raises(NoRules, match="is empty"):
        read(tmp_path / "rules.yaml", required=True)
    (tmp_path / "rules.yaml").write_bytes(b"rules: \xff\n")
    with pytest.raises(ConfigError, match=r"rules\.yaml:1: cannot be read"):
        read(tmp_path / "rules.yaml", required=False)
    with pytest.raises(ConfigError, match="cannot be read"):
        read(tmp_path, required=False)


def test_a_group_has_one_set_of_limits_wherever_it_stands() -> None:
    one, other = "{total_iops_sec: 400, group_name: web}", "{total_iops_sec: 500, group_name: web}"
    rule = "  - {name: a, match: {pool: a}, limits: %s}\n"
    assert parse(f"default: {{limits: {one}}}\nrules:\n{rule % one}", "r").rules[0].limits
    with pytest.raises(ConfigError, match=r"r:3: rules\[0\].limits: group_name web has different limits"):
        parse(f"default: {{limits: {one}}}\nrules:\n{rule % other}", "r")


@pytest.mark.parametrize("name", ["drive-virtio-disk0", "/machine/peripheral/x", "plimsoll-alone:u:vda"])
def test_a_group_cannot_bear_a_name_that_reads_back_as_none(name: str) -> None:
    with pytest.raises(ConfigError, match="choose another"):
        parse(f"default: {{limits: {{total_iops_sec: 400, group_name: '{name}'}}}}", "r")


# --- words that stand in the wrong place


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("limits: unlimited\n", "1: limits is not a key here; it belongs under default, or in a rule beside match"),
        ("rule: []\n", "1: rule is not a key here; did you mean rules?"),
        (f"project: {PROJECT}\n", "1: project is not a key here; it belongs under match"),
        ("default: {total_iops_sec: 5}\n", "1: default: total_iops_sec is not a key here; it belongs under limits"),
        (
            "default: {limits: unlimited, ceiling: {total_iops_sec: 5}}\n",
            "1: default: ceiling is not a key here; it belongs in a rule, beside match",
        ),
        (
            rule("match: {pool: a}\nmanage: false\nvolumes: x"),
            "5: rules[0]: volumes is not a key here; did you mean volume? It belongs under match",
        ),
        (
            rule("match: {pool: a, limits: unlimited}\nmanage: false"),
            "3: rules[0].match: limits is not a key here; it belongs under default, or in a rule beside match",
        ),
        (
            rule("match: {pool: a}\nlimits: {total_iops_sec: 5, override: true}"),
            "4: rules[0].limits: override is not a key here; it belongs in a rule, beside match",
        ),
    ],
)
def test_a_word_in_the_wrong_place_is_told_where_it_belongs(text: str, expected: str) -> None:
    assert [line for line in faults(text) if line.startswith(f"rules.yaml:{expected}")]


@pytest.mark.parametrize(
    ("written", "meant"),
    [("total_iops", "total_iops_sec"), ("Total-IOPS-sec", "total_iops_sec"), ("iops_size", "size_iops_sec")],
)
def test_a_parameter_is_answered_with_the_nearest_one(written: str, meant: str) -> None:
    told = fault(f"default:\n  limits:\n    {written}: 5\n    total_bytes_sec: 5\n")
    assert told == f"rules.yaml:3: default.limits: {written} is not a key here; did you mean {meant}?"


# --- the words of a rule


def test_every_word_of_a_rule_and_of_a_match_is_read() -> None:
    text = rule(
        f"match: {{user: {VOLUME.upper()}, project: {VOLUME}, image: {VOLUME.replace('-', '')},"
        f" kind: [volume, ephemeral], cluster: {VOLUME.upper()}}}\n"
        "ceiling: {total_iops_sec: 500, total_iops_sec_max: 900}\n"
        "floor: {read_iops_sec: 10}\n"
        "boot_volume_by_flavor: true\n"
        "until: 2026-12-01T18:00:00+01:00\n"
        "reason: import of the year's data"
    )
    bare = VOLUME.replace("-", "")
    assert parse(text, "r").rules == (
        Rule(
            name="r",
            match=Match(
                user=(bare,), project=(bare,), image=(VOLUME,), kind=("volume", "ephemeral"), cluster=(VOLUME,)
            ),
            ceiling=Limits(total_iops_sec=500, total_iops_sec_max=900),
            floor=Limits(read_iops_sec=10),
            boot_volume_by_flavor=True,
            until=datetime(2026, 12, 1, 17, 0, tzinfo=UTC),
            why="import of the year's data",
        ),
    )


@pytest.mark.parametrize(
    "effect", ["ceiling: {total_iops_sec: 5}", "floor: {total_iops_sec: 5}", "boot_volume_by_flavor: true"]
)
def test_each_effect_alone_is_enough_for_a_rule(effect: str) -> None:
    (only,) = parse(rule(f"match: {{pool: a}}\n{effect}"), "r").rules
    assert only.limits is None
    assert only.manage


def test_a_rule_that_unmanages_says_nothing_else() -> None:
    text = rule(
        "match: {pool: a}\nmanage: false\nlimits: unlimited\nceiling: {total_iops_sec: 5}\n"
        "floor: {total_iops_sec: 5}\noverride: true\nboot_volume_by_flavor: true"
    )
    assert [(line.split(":")[1], line.split()[2]) for line in faults(text)] == [
        ("5", "limits"),
        ("6", "ceiling"),
        ("7", "floor"),
        ("8", "override"),
        ("9", "boot_volume_by_flavor"),
    ]


@pytest.mark.parametrize(
    "written",
    ["2026-12-01T18:00:00Z", "'2026-12-01T18:00:00Z'", "2026-12-01 18:00Z", "2026-12-01t19:00:00+01:00"],
)
def test_the_end_of_a_rule_is_one_moment_however_it_is_written(written: str) -> None:
    (only,) = parse(rule(f"match: {{pool: a}}\nmanage: false\nuntil: {written}"), "r").rules
    assert only.until == datetime(2026, 12, 1, 18, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "written", ["2026-12-01", "2026-12-01T18:00:00", "tomorrow", "2026", "2026-13-01T18:00:00Z", "true",
                "0001-01-01T00:00:00+23:59", "2026-12-01T18:00:00 CET"],
)  # fmt: skip
def test_an_end_without_its_zone_is_refused_and_told_how_to_write_it(written: str) -> None:
    told = fault(rule(f"match: {{pool: a}}\nmanage: false\nuntil: {written}"))
    assert told.startswith("rules.yaml:5: rules[0].until: must be a time with its zone, such as 2026-12-01T18:00:00Z")


@pytest.mark.parametrize(
    ("floor", "ceiling", "named"),
    [
        ("{total_iops_sec: 6}", "{total_iops_sec: 5}", "total_iops_sec"),
        ("{read_iops_sec: 6}", "{total_iops_sec: 5}", "read_iops_sec"),
        ("{read_iops_sec: 3, write_iops_sec: 3}", "{total_iops_sec: 5}", "read_iops_sec"),
        ("{total_iops_sec: 6}", "{read_iops_sec: 3, write_iops_sec: 2}", "total_iops_sec"),
        ("{total_iops_sec: 5, total_iops_sec_max: 6}", "{total_iops_sec: 5}", "total_iops_sec_max"),
        (
            "{total_iops_sec: 5, total_iops_sec_max: 9}",
            "{total_iops_sec: 5, total_iops_sec_max: 8}",
            "total_iops_sec_max",
        ),
        (
            "{total_iops_sec: 5, total_iops_sec_max: 8, total_iops_sec_max_length: 60}",
            "{total_iops_sec: 5, total_iops_sec_max: 8}",
            "total_iops_sec_max_length",
        ),
    ],
)
def test_a_floor_above_its_own_ceiling_is_refused_naming_the_parameter(floor: str, ceiling: str, named: str) -> None:
    told = fault(rule(f"match: {{pool: a}}\nfloor: {floor}\nceiling: {ceiling}"))
    assert told.startswith(f"rules.yaml:4: rules[0].floor: {named} ")
    assert "above the ceiling's" in told


@pytest.mark.parametrize(
    ("floor", "ceiling"),
    [
        ("{total_iops_sec: 5}", "{total_iops_sec: 5}"),
        ("{read_iops_sec: 5}", "{total_iops_sec: 5}"),
        ("{read_iops_sec: 5}", "{write_iops_sec: 1}"),
        ("{total_iops_sec: 9}", "{read_iops_sec: 5}"),
        ("{total_iops_sec: 9}", "{total_bytes_sec: 5}"),
    ],
)
def test_a_floor_within_its_ceiling_is_taken(floor: str, ceiling: str) -> None:
    (only,) = parse(rule(f"match: {{pool: a}}\nfloor: {floor}\nceiling: {ceiling}"), "r").rules
    assert only.floor is not None


# --- credits


@pytest.mark.parametrize(
    ("effects", "words"),
    [
        ("credits: 3", "must be such as {total_iops_sec_max: 3000, capacity: 5400000}"),
        ("credits: {capacity: 9}", "must have one rate of a burst"),
        ("credits: {total_iops_sec_max: 9, read_iops_sec_max: 9, capacity: 9}", "must have one rate of a burst"),
        ("credits: {total_iops_sec_max: 9}", "capacity is missing"),
        ("credits: {total_iops_sec_max: 9, capacity: 8}", "capacity (8) must be at least total_iops_sec_max (9)"),
        ("credits: {total_iops_sec_max: 9, capacity: 1.5}", "capacity must be a whole number, not 1.5"),
        ("credits: {total_iops_sec_max: 9, capacity: 2GiB}", "rules[0].credits.capacity: '2GiB' is ambiguous"),
        ("credits: {total_iops_sec_max: 0, capacity: 9}", "total_iops_sec_max must be between 1 and 10^15"),
        ("credits: {total_iops_sec_max: 10, total_iops_sec: 9, capacity: 99}", "total_iops_sec is not a key here"),
        (
            "credits: {total_iops_sec_max: 9, capacity: 99}\nlimits: {total_bytes_sec: 5MiB}",
            "credits are not possible with these limits: there is no total_iops_sec",
        ),
        (
            "credits: {total_iops_sec_max: 9, capacity: 99}\nlimits: {total_iops_sec: 5, total_iops_sec_max: 7}",
            "credits are not possible with these limits: there is total_iops_sec_max already",
        ),
        (
            "credits: {total_iops_sec_max: 9, capacity: 99}\nlimits: {total_iops_sec: 5, size_iops_sec: 4096}",
            "credits are not possible with these limits: size_iops_sec counts a request as several",
        ),
        (
            "credits: {total_iops_sec_max: 9, capacity: 99}\nlimits: {total_iops_sec: 9}",
            "credits are not possible with these limits: total_iops_sec (9) is not below total_iops_sec_max (9)",
        ),
        (
            "credits: {total_iops_sec_max: 9, capacity: 99}\nmanage: false",
            "credits has no effect beside manage: false",
        ),
    ],
)
def test_credits_that_cannot_be_are_refused_where_they_stand(effects: str, words: str) -> None:
    assert words in fault(rule(f"match: {{pool: a}}\n{effects}"))


def test_the_capacity_is_written_with_the_units_of_its_rate() -> None:
    (only,) = parse(rule("match: {pool: a}\ncredits: {total_bytes_sec_max: 250MiB, capacity: 1GiB}"), "r").rules
    assert only.credits == Credits("total_bytes_sec", 250 * 2**20, 2**30)


# --- all at once


def test_faults_of_yaml_and_faults_of_rules_are_told_together() -> None:
    text = """\
default:
  limits: {total_iops_sec: 0250}
  limits: unlimited
rules:
  - name: a
    match: {pool: &p x}
    ceiling: {total_iops_sec: 5, group_name: g}
    floor: {total_iops_sec: five}
  - {name: b, match: {pool: *p, [x]: y}, limit: unlimited}
"""
    assert [int(line.split(":")[1]) for line in faults(text)] == [2, 3, 7, 8, 9, 9, 9]


def test_a_value_that_yaml_reads_otherwise_is_told_once() -> None:
    assert "is 168 to YAML" in fault(rule("match: {pool: 0250}\nmanage: false"))


def test_a_broken_document_is_one_fault_at_its_line() -> None:
    assert fault("default:\n  limits: {a\nrules: []\n").startswith("rules.yaml:3: ")


# --- a file without end


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text("#" * (LARGEST + 1))
    with pytest.raises(ConfigError, match=r"rules\.yaml:1: is larger than 1 MiB"):
        read(tmp_path / "rules.yaml", required=False)


@pytest.mark.parametrize("kind", ["fifo", "device"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = Path("/dev/zero") if kind == "device" else tmp_path / "rules.yaml"
    if kind == "fifo":
        os.mkfifo(path)
    with pytest.raises(ConfigError, match="is not a regular file"):
        read(path, required=False)


def test_more_than_a_thousand_rules_are_refused_at_the_first_that_is_too_many() -> None:
    text = "rules:\n" + "".join(f"  - {{name: {n}x, match: {{pool: a}}, manage: false}}\n" for n in range(1001))
    assert fault(text) == "rules.yaml:1002: rules[1000]: are more than 1000"
    assert len(parse(text[: text.rindex("  -")], "r").rules) == 1000


SIZE = depth.count(quick=8, landing=1, soak=1)
"""How often the worst files are smaller than a mebibyte."""


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"total_iops_sec_{n}: 1\n" for n in range(40_000 // SIZE)),
        "default: {limits: {" + ", ".join(f"total_iops_{n}: 1" for n in range(40_000 // SIZE)) + "}}",
        "rules: [" + "x, " * (300_000 // SIZE) + "]",
        "rules:\n" + f"- {{name: r, match: {{pool: [{'x, ' * 300}]}}, manage: fals}}\n" * (900 // SIZE),
        "default: {limits: {total_iops_sec: " + "9" * (1_000_000 // SIZE) + "}}",
        "default: {limits: {total_iops_sec: " + "1:" * (500_000 // SIZE) + "1}}",
        "[" * (1_000_000 // SIZE),
        "? " * (500_000 // SIZE),
        "a: [" + "{b: " * (100_000 // SIZE),
        "default: " + "&a " * (300_000 // SIZE),
        "'" + "x" * (1_000_000 // SIZE),
        "objectives: {" + ", ".join(f"t{n}: {{p0: 1}}" for n in range(60_000 // SIZE)) + "}",
        "rules: [{probe: {jobs: [" + "read, " * (150_000 // SIZE) + "]}}]",
        "rules: [{objective: {" + "".join(f"p{n % 99 + 1}.{n}: 1, q{n}: 1, " for n in range(40_000 // SIZE)) + "}}]",
    ],
    ids=range(14),
)
def test_the_worst_file_of_a_mebibyte_takes_seconds_and_tells_what_a_person_can_read(text: str) -> None:
    began = time.process_time()
    told = faults(text)
    assert time.process_time() - began < 10
    assert len(told) <= 201
    assert max(map(len, told)) < 600


# --- what is no fault, and perhaps not meant so


def warnings(text: str) -> list[tuple[int, str]]:
    checked = check(text, NOON, ANY)
    assert checked.rules is not None
    assert {remark.severity for remark in checked.remarks} <= {Severity.WARNING}
    return [(remark.line, remark.key) for remark in checked.remarks]


def test_a_rule_whose_time_has_passed_is_told_with_its_end() -> None:
    body = "match: {pool: a}\nmanage: false\nuntil: {}"
    past, future = ((NOON + delta).isoformat() for delta in (timedelta(0), timedelta(seconds=1)))
    assert warnings(rule(body.replace("{}", future))) == []
    (remark,) = check(rule(body.replace("{}", past)), NOON).remarks
    assert (remark.line, remark.key) == (5, "rules[0].until")
    assert "2026-11-20 12:00 UTC" in remark.text


OTHER = "0a2b0c5e9a4e4f0c8f0e3a6a2a6f3f1d"
BOTH = f"[{PROJECT}, {OTHER}]"


@pytest.mark.parametrize(
    ("first", "second", "silenced"),
    [
        ("{pool: a}, limits: unlimited", "{pool: a}, limits: unlimited", ["limits"]),
        (f"{{project: {BOTH}}}, manage: false", f"{{project: {OTHER}, pool: a}}, manage: false", ["manage"]),
        (f"{{project: {OTHER}}}, manage: false", f"{{project: {BOTH}}}, manage: false", []),
        ("{pool: 'vol*'}, limits: unlimited", "{pool: volumes}, limits: unlimited", ["limits"]),
        ("{pool: 'v*'}, limits: unlimited", "{pool: 'vol*'}, limits: unlimited", []),
        ("{pool: a, kind: volume}, limits: unlimited", "{pool: a}, limits: unlimited", []),
        (
            "{pool: a}, ceiling: {total_iops_sec: 5}",
            "{pool: a}, ceiling: {total_iops_sec: 5}, limits: unlimited",
            ["ceiling"],
        ),
        ("{pool: a}, ceiling: {total_iops_sec: 5}", "{pool: a}, floor: {total_iops_sec: 5}", []),
        ("{pool: a}, manage: false, until: 2026-11-20T12:00Z", "{pool: a}, manage: false", None),
        ("{pool: a}, manage: false, until: 2026-11-21T12:00Z", "{pool: a}, manage: false", []),
        (
            "{pool: a}, manage: false, until: 2026-11-22T12:00Z",
            "{pool: a}, manage: false, until: 2026-11-21T12:00Z",
            ["manage"],
        ),
        (f"{{project: {BOTH}}}, probe: {{every: 6h}}", f"{{project: {OTHER}}}, probe: {{every: 1h}}", ["probe"]),
        (f"{{project: {OTHER}}}, probe: {{every: 6h}}", f"{{project: {BOTH}}}, probe: {{every: 1h}}", []),
        ("{pool: 'v*'}, objective: {p99: 1s}", "{pool: vms}, objective: {p99: 2s}", ["objective"]),
        ("{pool: a}, objective: {p99: 1s}", "{pool: a}, limits: unlimited", []),
        # What plimsoll never writes to it may measure.
        (
            f"{{project: {OTHER}}}, manage: false",
            f"{{project: {OTHER}}}, probe: {{every: 1h}}, objective: {{p99: 1s}}",
            [],
        ),
    ],
)
def test_a_rule_that_is_never_asked_is_told_where_that_is_certain(
    first: str, second: str, silenced: list[str] | None
) -> None:
    told = warnings(f"rules:\n- {{name: one, match: {first}}}\n- {{name: two, match: {second}}}\n")
    expected = [(2, "rules[0].until")] if silenced is None else [(3, f"rules[1].{word}") for word in silenced]
    assert told == expected


def test_a_rule_that_overrides_silences_an_earlier_one_that_does_not() -> None:
    once = "match: {pool: a}, limits: unlimited"
    text = f"rules:\n- {{name: a, {once}}}\n- {{name: b, {once}, override: true}}\n"
    assert warnings(text) == [(2, "rules[0].limits")]


@pytest.mark.parametrize(
    ("default", "limits", "told"),
    [
        ("total_iops_sec: 250, total_bytes_sec: 100MiB", "{total_iops_sec: 500}", ["total_bytes_sec: 100MiB"]),
        (
            "total_iops_sec: 250, total_bytes_sec: 1000",
            "{read_bytes_sec: 5}",
            ["write_bytes_sec: 1000", "total_iops_sec: 250"],
        ),
        ("read_iops_sec: 1, write_iops_sec: 2", "{total_bytes_sec: 5}", ["read_iops_sec: 1", "write_iops_sec: 2"]),
        # What stands there as 0 is meant so.
        ("total_iops_sec: 250, total_bytes_sec: 1", "{total_iops_sec: 500, total_bytes_sec: 0}", []),
        ("total_iops_sec: 250", "{read_iops_sec: 500, write_iops_sec: 500}", []),
        ("read_iops_sec: 250, write_iops_sec: 9", "{total_iops_sec: 500}", []),
        ("total_iops_sec: 250", "unlimited", []),
        ("total_iops_sec: 250", "{total_iops_sec: 500}, until: 2026-11-20T12:00Z", None),
    ],
)
def test_a_rule_that_leaves_out_what_the_default_limits_is_told_what_to_add(
    default: str, limits: str, told: list[str] | None
) -> None:
    text = f"default:\n  limits: {{{default}}}\nrules:\n- {{name: a, match: {{pool: a}}, limits: {limits}}}\n"
    remarks = [remark for remark in check(text, NOON, ANY).remarks if remark.severity is Severity.WARNING]
    if told is None:
        assert [remark.key for remark in remarks] == ["rules[0].until"]
        return
    assert {(remark.line, remark.key) for remark in remarks} <= {(4, "rules[0].limits")}
    assert [remark.text.partition(": add ")[2].partition(", or ")[0] for remark in remarks] == told


def test_each_number_with_a_unit_is_noted_with_what_it_is_read_as() -> None:
    text = "default:\n  limits:\n    total_iops_sec: 2k\n    total_bytes_sec: 1000\n" + rule(
        "match: {pool: a}\nceiling:\n  total_bytes_sec: 1.5MiB"
    )
    notes = [(remark.line, remark.key, remark.text) for remark in check(text, NOON, ANY).remarks]
    assert notes == [
        (3, "default.limits.total_iops_sec", "2k is 2000"),
        (9, "rules[0].ceiling.total_bytes_sec", "1.5MiB is 1572864"),
    ]
    assert {remark.severity for remark in check(text, NOON, ANY).remarks} == {Severity.NOTE}


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("default: {limits: {total_iops_sec: 1}\n", ["yaml"]),
        ("default: {limits: unlimited}\ndefault: {limits: unlimited}\n", ["yaml"]),
        ("defualt: {limits: unlimited}\n", ["unknown-key"]),
        ("rules:\n- match: {pool: a}\n  limits: unlimited\n", ["missing-key"]),
        ("default: {limits: {total_iops_sec: many}}\n", ["invalid-value"]),
        ("default: {limits: {total_iops_sec: 5, read_iops_sec: 5}}\n", ["invalid-value"]),
        (rule("match: {pool: a}\nlimits: {total_iops_sec: 5}\nuntil: 2020-01-01T00:00Z"), ["rule-ended"]),
        (
            "default: {limits: {total_bytes_sec: 5}}\n" + rule("match: {pool: a}\nlimits: {total_iops_sec: 5}"),
            ["limits-left-out"],
        ),
        (
            "rules:\n" + "".join(f"- {{name: {name}, match: {{pool: a}}, limits: unlimited}}\n" for name in "ab"),
            ["no-effect"],
        ),
        ("default: {limits: {total_bytes_sec: 1MiB}}\n", ["exact-number"]),
        ("default: {limits: {total_iops_sec: 5, group_name: throttle-all}}\n", ["group-of-filters"]),
        ("default: {limits: {total_iops_sec: 5, group_name: all}}\n", []),
        ("\n".join(f"x{n}: 1" for n in range(201)), [*["unknown-key"] * 200, "more-faults"]),
    ],
)
def test_each_remark_has_a_stable_code(text: str, codes: list[str]) -> None:
    assert [remark.code.value for remark in check(text, NOON, ANY).remarks] == codes


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        (
            "{total_iops_sec: 500, total_bytes_sec: 100}",
            [f"total_bytes_sec is {LESS}"],
        ),
        ("{total_iops_sec: 9}", ["total_iops_sec is less than lowest_iops in [brake], 10"]),
        ("{read_bytes_sec: 9, write_bytes_sec: 10MB}", [f"read_bytes_sec is {LESS}"]),
        (
            "{total_iops_sec: 500, size_iops_sec: 4}",
            [f"size_iops_sec allows large requests {LESS}"],
        ),
        ("{total_iops_sec: 10, total_bytes_sec: 1MiB}", []),
        ("unlimited", []),
    ],
)
def test_a_limit_that_is_lower_than_any_that_is_meant_is_a_warning(limits: str, told: list[str]) -> None:
    for text, key in (
        (f"default: {{limits: {limits}}}\n", "default.limits"),
        (rule(f"match: {{pool: a}}\nlimits: {limits}"), "rules[0].limits"),
        (rule(f"match: {{pool: a}}\nceiling: {limits}"), "rules[0].ceiling"),
    ):
        if ("size_iops_sec" in limits or limits == "unlimited") and "ceiling" in key:
            continue
        remarks = [remark for remark in check(text, NOON).remarks if remark.severity is Severity.WARNING]
        assert [remark.text.partition(": if")[0] for remark in remarks] == told
        for remark in remarks:
            assert (remark.code.value, remark.key) == ("too-low", f"{key}.{remark.text.split()[0]}")
            assert ("100MiB" in remark.text) == ("_bytes_sec is" in remark.text)


# --- who is probed, and how fast it is to be


IN_PROJECT = f"match: {{project: {PROJECT}}}\n"


def test_every_word_of_probes_and_objectives_is_read() -> None:
    text = "objectives:\n  gold: {p99.9: 50ms, p50: 800us, slowest: 1.5s}\n  '7': {slowest: 20 s}\n" + rule(
        IN_PROJECT + "probe:\n  every: 1d12h\n  jobs: [mixed, read]\n  directory: [/srv//data/, /var/tmp/./x]\n"
        "objective: {p1: 1ms, p99.99: 1ms}"
    )
    rules = parse(text, "r")
    assert rules.objectives == {
        "gold": Objective(((0.5, 0.0008), (0.999, 0.05)), slowest=1.5),
        "7": Objective(slowest=20),
    }
    assert rules.rules == (
        Rule(
            name="r",
            match=Match(project=(PROJECT,)),
            probe=Probing(timedelta(hours=36), ("mixed", "read"), ("/srv/data", "/var/tmp/x")),
            objective=Objective(((0.01, 0.001), (0.9999, 0.001))),
        ),
    )


@pytest.mark.parametrize("effect", ["probe: {every: 5m}", "probe: {every: 366d, jobs: read}", "objective: {p50: 1s}"])
@pytest.mark.parametrize("manage", ["", "\nmanage: false"], ids=["managed", "unmanaged"])
def test_a_rule_may_say_nothing_but_what_is_measured(effect: str, manage: str) -> None:
    (only,) = parse(rule(f"{IN_PROJECT}{effect}{manage}"), "r").rules
    assert (only.limits, only.ceiling, only.floor) == (None, None, None)
    assert only.manage is not bool(manage)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("every: 6", "probe.every: must be a duration such as 6h, 90m or 1d12h, not 6"),
        ("every: 6 hours", "probe.every: '6 hours' is not a duration; write it like"),
        ("every: 299s", "probe.every: must be at least 5m and at most 366d, not 299s"),
        ("every: 367d", "probe.every: must be at least 5m and at most 366d, not 367d"),
        ("{every: }", "probe.every: must be a duration"),
        ("jobs: read", "probe: every is missing: how often, such as every: 6h"),
        ("evry: 6h", "probe: evry is not a key here; did you mean every?"),
        (
            "{every: 6h, jobs: [read, raed]}",
            "probe.jobs[1]: must be read, write or mixed, not 'raed'; did you mean read?",
        ),
        ("{every: 6h, jobs: [read, mixed, read]}", "probe.jobs[2]: read is listed twice"),
        ("{every: 6h, jobs: []}", "probe.jobs: is an empty list"),
        ("{every: 6h, directory: 5}", "probe.directory: must be text, not 5"),
        ("{every: 6h, directory: [/srv/, //srv]}", "probe.directory[1]: /srv is listed twice"),
        ("{every: 6h, p99: 5ms}", "probe: p99 is not a key here; it belongs under objective"),
        ("6h", "probe: must be a mapping with every, jobs, directory"),
    ],
)
def test_what_is_wrong_with_a_probe_is_told_where_it_stands(body: str, expected: str) -> None:
    written = body if body.startswith("{") or ":" not in body else f"{{{body}}}"
    assert fault(rule(f"{IN_PROJECT}probe: {written}")).startswith(f"rules.yaml:4: rules[0].{expected}")


@pytest.mark.parametrize(
    "directory",
    ["/", "//", "/./", "/proc/1/cwd", "/./sys", "//dev/shm", "/run", "/srv/../etc", "srv", "", "~/x", "/a b", "/a:b",
     "/a;b", "/$HOME", "/a'b", "/ä", "/-x\\n", "/" + 200 * "x"],
)  # fmt: skip
def test_a_directory_that_is_none_for_files_or_that_a_shell_might_read_otherwise_is_refused(directory: str) -> None:
    text = rule(f'{IN_PROJECT}probe: {{every: 6h, directory: "{directory}"}}')
    assert fault(text).startswith("rules.yaml:4: rules[0].probe.directory: must ")


@pytest.mark.parametrize("directory", ["/home", "/process", "/var/run.d", "/.x", "/..x/y", "/" + 199 * "x"])
def test_other_absolute_directories_are_taken(directory: str) -> None:
    (only,) = parse(rule(f"{IN_PROJECT}probe: {{every: 6h, directory: {directory}}}"), "r").rules
    assert only.probe is not None
    assert only.probe.directories == (directory,)


@pytest.mark.parametrize(
    ("objective", "expected"),
    [
        ("{}", "objective: is empty; write how long requests may take, such as p99: 50ms"),
        ("50ms", "objective: must be a mapping with p50"),
        ("{p99: 50}", "objective.p99: must be a time with its unit, such as 800us, 50ms or 1.5s, not 50"),
        ("{p99: 0.05}", "objective.p99: must be a time with its unit, such as 800us, 50ms or 1.5s, not 0.05"),
        ("{p99: 1m}", "objective.p99: must be a time with its unit"),
        ("{p99: 0.0ms}", "objective.p99: must be more than 0"),
        ("{p99.9: 17s}", "objective.p99.9: must be less than 17s"),
        ("{slowest: 3600s}", "objective.slowest: must be less than 3600s"),
        ("{p999: 1s}", "objective: p999 is not a key here; did you mean p99.9?"),
        ("{p100: 1s}", "objective: p100 is not a key here"),
        ("{p0: 1s}", "objective: p0 is not a key here"),
        ("{p50: 2ms, p99: 1ms}", "objective.p99: must not be below p50 (2ms)"),
        ("{p99: 1ms, p50: 2ms}", "objective.p99: must not be below p50 (2ms)"),
        ("{p9: 2ms, p10: 1ms}", "objective.p10: must not be below p9 (2ms)"),
        ("{p50: 2ms, slowest: 1ms}", "objective.slowest: must not be below p50 (2ms)"),
        ("{p50: 1ms, p50.0: 1ms}", "objective.p50.0: is the same percentile as p50"),
    ],
)
def test_what_is_wrong_with_an_objective_is_told_in_a_rule_and_for_a_volume_type(
    objective: str, expected: str
) -> None:
    assert fault(rule(f"match: {{pool: a}}\nobjective: {objective}")).startswith(f"rules.yaml:4: rules[0].{expected}")
    of_type = expected.replace("objective", "objectives.gold", 1)
    assert fault(f"objectives:\n  gold: {objective}\n").startswith(f"rules.yaml:2: {of_type}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("objectives: []\n", "1: objectives: must be a mapping of names of volume types"),
        ("objectives:\n  '': {p50: 1s}\n", "2: objectives: a key must be a word"),
        (f"objectives:\n  {256 * 'x'}: {{p50: 1s}}\n", "2: objectives.xxx"),
        ("objective: {p50: 1s}\n", "1: objective is not a key here; it belongs in a rule"),
        (rule(IN_PROJECT + "prob: {every: 6h}"), "4: rules[0]: prob is not a key here; did you mean probe?"),
        (
            rule(IN_PROJECT + "manage: false\nevery: 6h"),
            "5: rules[0]: every is not a key here; it belongs under probe",
        ),
        (
            rule(IN_PROJECT + "manage: false\nobjectives: {gold: {p50: 1s}}"),
            "5: rules[0]: objectives is not a key here; it belongs at the top of the file",
        ),
        (rule(IN_PROJECT + "probe: {every: 6h}\noverride: true"), "5: rules[0]: override needs limits"),
    ],
)
def test_a_word_of_probes_and_objectives_in_the_wrong_place_is_told(text: str, expected: str) -> None:
    assert fault(text).startswith(f"rules.yaml:{expected}")


@pytest.mark.parametrize(
    "match",
    ["pool: a", "flavor: canary", f"user: {PROJECT}", f"cluster: {VOLUME}", "kind: volume", "pool: '*', flavor: '*'"],
)
def test_programs_are_run_only_in_guests_that_no_tenant_can_make_match(match: str) -> None:
    text = rule(f"match: {{{match}}}\nprobe: {{every: 6h}}")
    assert fault(text).startswith("rules.yaml:4: rules[0]: probe needs project, a guest's uuid or volume under match")
    assert parse(rule(f"match: {{{match}}}\nobjective: {{p50: 1s}}"), "r").rules, "which runs nothing"


@pytest.mark.parametrize(
    "match",
    [f"project: {PROJECT}, guest: '*'", f"guest: [{GUEST}, {VOLUME}]", f"volume: {VOLUME}"],
)
def test_a_project_guests_by_uuid_or_volumes_are_enough_for_a_probe(match: str) -> None:
    assert parse(rule(f"match: {{{match}}}\nprobe: {{every: 6h}}"), "r").rules[0].probe


@pytest.mark.parametrize("match", ["guest: canary", f"guest: [{GUEST}, 'canary-*']", f"image: {VOLUME}"])
def test_a_probe_by_a_name_or_an_image_alone_is_refused(match: str) -> None:
    assert any("needs project too" in told for told in faults(rule(f"match: {{{match}}}\nprobe: {{every: 6h}}")))
