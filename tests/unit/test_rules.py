"""The rules file: what it may say, what is wrong with it and where, and which disks a rule means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll_agent.errors import ConfigError
from plimsoll_agent.limits import Limits
from plimsoll_agent.reason import Code
from plimsoll_agent.rules import Match, Rule, Rules
from plimsoll_agent.rulesfile import parse, read
from tests.unit.values import GUEST, PROJECT, VOLUME, a_disk, a_guest, examples

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
        ("defualt:\n  limits: unlimited\n", "rules.yaml:1: defualt is no key here; did you mean default?"),
        ("default: {}\n", "rules.yaml:1: default: limits is missing"),
        ("default:\n  limits: {}\n", "rules.yaml:2: default.limits: is empty"),
        ("default:\n  limits:\n", "rules.yaml:2: default.limits: must be a mapping"),
        ("default:\n  limits: none\n", "rules.yaml:2: default.limits: must be a mapping"),
        (
            "default:\n  limits:\n    total_iop_sec: 5\n",
            "rules.yaml:3: default.limits: total_iop_sec is no key here; did you mean total_iops_sec?",
        ),
        (
            "default:\n  limits:\n    total_iops_sec: '5'\n",
            "rules.yaml:3: default.limits: total_iops_sec must be a whole",
        ),
        (
            "default:\n  limits:\n    total_iops_sec:\n",
            "rules.yaml:3: default.limits: total_iops_sec must be a whole",
        ),
        (
            "default:\n  limits:\n    total_iops_sec: 5\n    read_iops_sec: 5\n",
            "rules.yaml:3: default.limits: total_iops_sec",
        ),
        ("rules: {}\n", "rules.yaml:1: rules: must be a list"),
        ("rules:\n", "rules.yaml:1: rules: must be a list"),
        ("rules: [x]\n", "rules.yaml:1: rules[0]: must be a mapping with name, match"),
        ("rules:\n  - match: {pool: a}\n    manage: false\n", "rules.yaml:2: rules[0]: name is missing"),
        (
            "rules:\n  - name: 7\n    match: {pool: a}\n    manage: false\n",
            "rules.yaml:2: rules[0].name: must be text, not 7",
        ),
        (rule("manage: false"), "rules.yaml:2: rules[0]: match is missing"),
        (rule("match: {}\nmanage: false"), "rules.yaml:3: rules[0].match: is empty"),
        (rule("match: {pool: a}"), "rules.yaml:2: rules[0]: says neither limits nor manage: false"),
        (rule("match: {pool: a}\nmanage: true"), "rules.yaml:2: rules[0]: says neither limits nor manage: false"),
        (rule("match: {pool: a}\nmanage: 'no'"), "rules.yaml:4: rules[0].manage: must be true or false, not 'no'"),
        (
            rule("match: {pool: a}\nlimits: unlimited\nmanage: false"),
            "rules.yaml:5: rules[0]: manage: false and limits exclude each other",
        ),
        (
            rule("match: {pool: a}\nmanage: false\noverride: true"),
            "rules.yaml:5: rules[0]: override means nothing beside manage: false",
        ),
        (
            rule("match: {pool: a}\nlimits: unlimited\noveride: true"),
            "rules.yaml:5: rules[0]: overide is no key here; did you mean override?",
        ),
        (
            rule("match:\n  pol: a\nmanage: false"),
            "rules.yaml:4: rules[0].match: pol is no key here; did you mean pool?",
        ),
        (
            rule("match:\n  image: a\nmanage: false"),
            "rules.yaml:4: rules[0].match: image is no key here; known are project",
        ),
        (rule("match:\n  pool: []\nmanage: false"), "rules.yaml:4: rules[0].match.pool: is an empty list"),
        (rule("match:\n  pool: [a, '']\nmanage: false"), "rules.yaml:4: rules[0].match.pool: must be text"),
        (rule("match:\n  pool: {a: b}\nmanage: false"), "rules.yaml:4: rules[0].match.pool: must be text"),
        (rule("match:\n  project: shop\nmanage: false"), "rules.yaml:4: rules[0].match.project: must be an id"),
        (
            rule(f"match:\n  project: [{PROJECT}, '*']\nmanage: false"),
            "rules.yaml:4: rules[0].match.project: must be an id",
        ),
        (rule("match:\n  volume: my volume\nmanage: false"), "rules.yaml:4: rules[0].match.volume: must be an id"),
    ],
)
def test_a_fault_is_told_with_its_line_and_key_and_the_word_that_was_meant(text: str, expected: str) -> None:
    assert fault(text).startswith(expected)


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
        ("rules.yaml:9", "rules[1].limits"),
        ("rules.yaml:10", "rules[2]"),
        ("rules.yaml:13", "defaults is no key here; did you mean default?"),
    }
    assert [int(line.split(":")[1]) for line in told] == [3, 5, 5, 9, 10, 13]


def test_all_that_is_impossible_in_a_set_of_limits_is_told_each_at_its_line() -> None:
    text = "default:\n  limits:\n    total_iops_sec: 500\n    total_iops_sec_max: 5\n    read_bytes_sec_max: 7\n"
    assert [line.split(": ")[0] for line in faults(text)] == ["rules.yaml:4", "rules.yaml:5"]


def test_two_rules_of_one_name_are_refused_at_the_second() -> None:
    once = "  - name: a\n    match: {pool: x}\n    manage: false\n"
    assert fault(f"rules:\n{once}{once}").startswith("rules.yaml:5: rules[1]: name 'a' is taken")


def test_a_key_twice_and_an_alias_are_refused() -> None:
    assert fault("default:\n  limits: unlimited\n  limits: unlimited\n").startswith(
        "rules.yaml:3: limits stands here twice"
    )
    assert fault("default: &d\n  limits: unlimited\nrules: *d\n").startswith("rules.yaml:3: aliases")


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


def test_a_guest_that_is_called_by_anothers_id_is_not_that_guest() -> None:
    match = parse(rule(f"match: {{guest: {GUEST}}}\nmanage: false"), "rules.yaml").rules[0].match
    other = a_guest(uuid="6ae0acc4-f470-46e7-a341-a0b935479429", display_name=GUEST, name=GUEST)
    assert match.misfit(a_disk(other)) == "guest"
    assert match.misfit(a_disk()) is None


# --- which disks a rule means

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
def test_what_is_not_known_of_a_disk_matches_nothing(match: dict[str, Any], word: str) -> None:
    guest = a_guest(project=None, flavor=None, display_name=None, name="other")
    assert parsed(match).misfit(a_disk(guest, volume_id=None)) == word


# --- the file


def test_a_missing_file_says_nothing_and_an_unreadable_one_is_told(tmp_path: Path) -> None:
    assert read(tmp_path / "rules.yaml", required=False) == ""
    with pytest.raises(ConfigError, match="missing or empty"):
        read(tmp_path / "rules.yaml", required=True)
    (tmp_path / "rules.yaml").write_bytes(b"rules: \xff\n")
    with pytest.raises(ConfigError, match=r"rules\.yaml: cannot be read"):
        read(tmp_path / "rules.yaml", required=False)
    with pytest.raises(ConfigError, match="cannot be read"):
        read(tmp_path, required=False)


def test_a_group_has_one_set_of_limits_wherever_it_stands() -> None:
    one, other = "{total_iops_sec: 400, group_name: web}", "{total_iops_sec: 500, group_name: web}"
    rule = "  - {name: a, match: {pool: a}, limits: %s}\n"
    assert parse(f"default: {{limits: {one}}}\nrules:\n{rule % one}", "r").rules[0].limits
    with pytest.raises(ConfigError, match=r"r:3: rules\[0\].limits: group_name web stands with other limits"):
        parse(f"default: {{limits: {one}}}\nrules:\n{rule % other}", "r")


@pytest.mark.parametrize("name", ["drive-virtio-disk0", "/machine/peripheral/x", "plimsoll-alone:u:vda"])
def test_a_group_cannot_bear_a_name_that_reads_back_as_none(name: str) -> None:
    with pytest.raises(ConfigError, match="choose another"):
        parse(f"default: {{limits: {{total_iops_sec: 400, group_name: '{name}'}}}}", "r")


_keys = st.sampled_from(
    [
        "default",
        "rules",
        "name",
        "match",
        "limits",
        "manage",
        "override",
        "pool",
        "guest",
        "project",
        "total_iops_sec",
        "x",
    ]
)
_leaves = st.sampled_from(
    ["unlimited", "a", "''", "5", "-1", "1e9", "true", "~", "{}", "[]", PROJECT, "0x5", "2026-01-01"]
)


def _nodes(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    mappings = st.lists(st.tuples(_keys, children), max_size=4)
    return mappings.map(lambda items: "{" + ", ".join(f"{key}: {value}" for key, value in items) + "}") | st.lists(
        children, max_size=3
    ).map(lambda items: "[" + ", ".join(items) + "]")


@given(st.recursive(_leaves, _nodes, max_leaves=25) | st.text())
@examples
def test_any_text_is_rules_or_a_config_error(text: str) -> None:
    try:
        assert isinstance(parse(text, "rules.yaml"), Rules)
    except ConfigError as error:
        for line in str(error).splitlines():
            assert line.startswith("rules.yaml:")
