"""The rules file: what it may say, and what is wrong with it and where."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from plimsoll_agent.credits.model import Credits
from plimsoll_agent.errors import ConfigError
from plimsoll_agent.model.direction import LOWEST
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code
from plimsoll_agent.rules.loader import NoRules, check, parse, read
from plimsoll_agent.rules.model import Match, Objective, Probing, Rule, Rules
from plimsoll_agent.util.schema import LARGEST, FaultSeverity
from tests import depth, golden
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


def remarks(kind: str, text: str) -> str:
    whole = rule(text) if kind == "rule" else f"{text}\n"
    found = check(whole, NOON, LOWEST if kind == "low" else ANY).remarks
    if any(remark.severity is FaultSeverity.FAULT for remark in found):
        assert faults(whole) == [remark.at("rules.yaml") for remark in found]
    return "\n".join(f"{remark.at('rules.yaml')} [{remark.severity} {remark.code}]" for remark in found)


def test_each_file_has_the_remarks_of_the_golden_file() -> None:
    golden.transcript("rules_remarks.txt", remarks)


def test_of_many_faults_the_last_remark_is_that_there_are_more() -> None:
    codes = [remark.code.value for remark in check("\n".join(f"x{n}: 1" for n in range(201)), NOON, ANY).remarks]
    assert codes == [*["unknown-key"] * 200, "more-faults"]


def test_an_id_of_digits_is_text_in_quotes() -> None:
    quoted = rule("match:\n  project: '76321294905901234567890525110902'\nmanage: false")
    assert parse(quoted, "rules.yaml").rules[0].match.project == ("76321294905901234567890525110902",)


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


# --- the file


def test_a_missing_file_says_nothing_and_an_unreadable_one_is_told(tmp_path: Path) -> None:
    assert read(tmp_path / "rules.yaml", required=False) == ""
    with pytest.raises(NoRules, match="no such file"):
        read(tmp_path / "rules.yaml", required=True)
    for text in ("\n", "# default: {}\n", "---\n", "--- # none\n  # yet\n...\n", "null\n...\n"):
        (tmp_path / "rules.yaml").write_text(text)
        with pytest.raises(NoRules, match="is empty"):
            read(tmp_path / "rules.yaml", required=True)
    (tmp_path / "rules.yaml").write_text("# none\n--- {}\n")
    assert parse(read(tmp_path / "rules.yaml", required=True), "rules.yaml").rules == ()
    (tmp_path / "rules.yaml").write_bytes(b"rules: \xff\n")
    with pytest.raises(ConfigError, match=r"rules\.yaml:1: cannot be read"):
        read(tmp_path / "rules.yaml", required=False)
    with pytest.raises(ConfigError, match="cannot be read"):
        read(tmp_path, required=False)


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


@pytest.mark.parametrize(
    "written",
    ["2026-12-01T18:00:00Z", "'2026-12-01T18:00:00Z'", "2026-12-01 18:00Z", "2026-12-01t19:00:00+01:00"],
)
def test_the_end_of_a_rule_is_one_moment_however_it_is_written(written: str) -> None:
    (only,) = parse(rule(f"match: {{pool: a}}\nmanage: false\nuntil: {written}"), "r").rules
    assert only.until == datetime(2026, 12, 1, 18, 0, tzinfo=UTC)


# --- credits


def test_the_capacity_is_written_with_the_units_of_its_rate() -> None:
    (only,) = parse(rule("match: {pool: a}\ncredits: {total_bytes_sec_max: 250MiB, capacity: 1GiB}"), "r").rules
    assert only.credits == Credits("total_bytes_sec", 250 * 2**20, 2**30)


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


@pytest.mark.parametrize("directory", ["/home", "/process", "/var/run.d", "/.x", "/..x/y", "/" + 199 * "x"])
def test_other_absolute_directories_are_taken(directory: str) -> None:
    (only,) = parse(rule(f"{IN_PROJECT}probe: {{every: 6h, directory: {directory}}}"), "r").rules
    assert only.probe is not None
    assert only.probe.directories == (directory,)
