"""``plimsoll rules check`` and ``rules test`` as a person types it, and as a pipeline does."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from lab.command import NO_BRAKE, PLIMSOLL, Forked
from tests.functional.conftest import Ran

Plimsoll = Callable[..., Ran]

GOOD = """\
default: {limits: {total_iops_sec: 250}}
rules:
  - {name: a, match: {pool: vms}, limits: {total_iops_sec: 500}}
  - {name: b, match: {pool: volumes}, ceiling: {total_iops_sec: 5000}}
"""
BROKEN = """\
default:
  limits: {total_iops: 250}
rules:
  - name: a
    match: {kind: volum}
    manage: no
    until: 2026-12-01
"""
WARNED = "rules:\n  - {name: old, match: {pool: a}, manage: false, until: 2020-01-01T00:00:00Z}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Another file than the one of the settings."""
    return tmp_path / "other.yaml"


def test_a_file_without_fault_is_counted(plimsoll: Plimsoll, file: Path) -> None:
    file.write_text(GOOD)
    ran = plimsoll("rules", "check", str(file))
    assert (ran.status, ran.out, ran.err) == (0, f"{file}: 2 rules and a default, no faults\n", "")
    file.write_text("{}\n")
    assert plimsoll("rules", "check", str(file)).out == f"{file}: no rules and no default, no faults\n"


def test_every_fault_is_a_line_of_its_own_that_an_editor_can_jump_to(plimsoll: Plimsoll, file: Path) -> None:
    file.write_text(BROKEN)
    ran = plimsoll("rules", "check", str(file))
    assert (ran.status, ran.err) == (1, "")
    assert [line.split(": ")[:2] for line in ran.out.splitlines()] == [
        [f"{file}:2", "default.limits"],
        [f"{file}:5", "rules[0].match.kind"],
        [f"{file}:7", "rules[0].until"],
    ]
    assert "did you mean volume?" in ran.out


def test_a_warning_is_no_fault_and_says_since_when(plimsoll: Plimsoll, file: Path) -> None:
    file.write_text(WARNED)
    ran = plimsoll("rules", "check", str(file))
    assert ran.status == 0
    first, last = ran.out.splitlines()
    assert first.startswith(f"{file}:2: rules[0]: until has passed (2020-01-01 00:00 UTC)")
    assert first.endswith(" (warning)")
    assert last == f"{file}: 1 rule and no default, no faults, 1 warning"


def test_warnings_fail_only_a_strict_check_and_notes_never_do(plimsoll: Plimsoll, file: Path) -> None:
    file.write_text(WARNED)
    assert plimsoll("rules", "check", "--strict", str(file)).status == 1
    file.write_text("default: {limits: {total_bytes_sec: 100MiB}}\n")
    note = f"{file}:1: default.limits.total_bytes_sec: 100MiB is 104857600"
    for words, notes in (((), []), (("-v",), [note])):
        ran = plimsoll("rules", "check", "--strict", str(file), *words)
        assert (ran.status, ran.err) == (0, "")
        assert ran.out.splitlines() == [*notes, f"{file}: no rules and a default, no faults"]


@pytest.mark.parametrize(("text", "severities"), [(GOOD, []), (BROKEN, ["fault"] * 3), (WARNED, ["warning"])])
def test_json_has_every_remark_and_nothing_else(
    plimsoll: Plimsoll, file: Path, text: str, severities: list[str]
) -> None:
    file.write_text(text)
    ran = plimsoll("rules", "check", "-f", "json", str(file))
    remarks = json.loads(ran.out)
    assert [remark["severity"] for remark in remarks] == severities
    assert all(set(remark) == {"file", "line", "key", "code", "text", "severity"} for remark in remarks)
    assert yaml.safe_load(plimsoll("rules", "check", "-f", "yaml", str(file)).out) == remarks
    assert all(remark["file"] == str(file) for remark in remarks)


def test_without_a_file_it_is_the_one_of_the_settings(plimsoll: Plimsoll, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text("rule: []\n")
    ran = plimsoll("rules", "check")
    assert ran.out == f"{tmp_path}/rules.yaml:1: rule is not a key here; did you mean rules?\n"


def test_a_file_that_is_not_there_is_one_line(plimsoll: Plimsoll, file: Path) -> None:
    ran = plimsoll("rules", "check", str(file))
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith(f"{file}: no such file")
    assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("written", "status", "told"),
    [
        (GOOD.encode(), 0, "<stdin>: 2 rules and a default, no faults\n"),
        (b"rule: []\n", 1, "<stdin>:1: rule is not a key here; did you mean rules?\n"),
        (b"rules: []\n#\xff\n", 1, "<stdin>:2: cannot be read: "),
        (b"", 1, "<stdin>: is empty"),
        (b"#" * 2_000_000, 1, "<stdin>:1: is larger than 1 MiB"),
    ],
    ids=["good", "fault", "no-text", "empty", "large"],
)
def test_a_dash_is_standard_input(written: bytes, status: int, told: str) -> None:
    pipe = subprocess.PIPE
    with Forked("rules", "check", "-", stdin=pipe, stdout=pipe, stderr=pipe, text=False) as process:
        out, err = process.communicate(written, timeout=60)
    assert process.returncode == status
    assert (out + err).decode().startswith(told)
    assert b"Traceback" not in err


def test_a_test_of_rules_ends_with_how_many_disks_get_other_limits_and_what_is_written(
    plimsoll: Plimsoll, test_node: str, tmp_path: Path, file: Path
) -> None:
    disks = json.loads(plimsoll("disk", "list", "--uri", test_node, "-f", "json").out)
    of_guest = [disk for disk in disks if disk["guest_uuid"] == disks[-1]["guest_uuid"]]
    match = f"{{guest: {disks[-1]['guest_uuid']}}}"
    (tmp_path / "rules.yaml").write_text("{}\n")
    file.write_text(f"rules: [{{name: one, match: {match}, override: true, limits: {{total_iops_sec: 3000}}}}]\n")
    ran = plimsoll("rules", "test", str(file), "--uri", test_node, **NO_BRAKE)
    assert f"{len(of_guest)} of {len(disks)} disks would get other limits" in ran.out
    assert f"; the next pass would write {len(of_guest)}" in ran.out


@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_what_the_brake_would_stop_is_told_in_every_format(
    plimsoll: Plimsoll, test_node: str, tmp_path: Path, file: Path, form: str
) -> None:
    node = ("--uri", test_node)
    rule = "rules: [{name: all, match: {pool: '*'}, override: true, limits: {total_iops_sec: %d}}]"
    (tmp_path / "rules.yaml").write_text(rule % 3000)
    plimsoll("enforce", *node)  # it is remembered what was desired
    file.write_text(rule % 30)
    careful = {"OS_BRAKE__DISKS": "0", "OS_BRAKE__PERCENT": "0"}
    ran = plimsoll("rules", "test", str(file), *node, "-f", form, **careful)
    assert ran.status == 2
    told, other = (ran.out, ran.err) if form == "table" else (ran.err, ran.out)
    assert "plimsoll approve" in told
    assert "plimsoll approve" not in other
    if form == "table":  # what the brake defers is not written
        pattern = r"(\d+) of \S+ disks would .* would write (\d+).*The brake would defer (\d+) of"
        counts = re.search(pattern, ran.out, re.DOTALL)
        assert counts is not None
        differing, written, deferred = map(int, counts.groups())
        assert written + deferred == differing > written
    assert "looked at" not in told
    some = plimsoll("rules", "test", str(file), *node, "--guest", "instance-00000001", "-f", form, **careful)
    assert " disks of these guests: " in (some.out if form == "table" else some.err)


def test_what_is_wrong_with_probes_and_objectives_is_told_in_one_go(plimsoll: Plimsoll, file: Path) -> None:
    file.write_text(
        "objectives:\n"
        "  gold: {p99: 50}\n"
        "rules:\n"
        "  - name: canaries\n"
        "    match: {pool: vms}\n"
        "    probe:\n"
        "      every: 6\n"
        "      directory: [/proc, /var/tmp/..]\n"
        "    objective: {p50: 2ms, p99: 1ms}\n"
    )
    ran = plimsoll("rules", "check", str(file))
    assert (ran.status, ran.err) == (1, "")
    assert [line.split(": ")[:2] for line in ran.out.splitlines()] == [
        [f"{file}:2", "objectives.gold.p99"],
        [f"{file}:6", "rules[0]"],
        [f"{file}:7", "rules[0].probe.every"],
        [f"{file}:8", "rules[0].probe.directory[0]"],
        [f"{file}:8", "rules[0].probe.directory[1]"],
        [f"{file}:9", "rules[0].objective.p99"],
    ]


def test_rules_that_only_measure_change_no_limit(
    plimsoll: Plimsoll, test_node: str, tmp_path: Path, file: Path
) -> None:
    (tmp_path / "rules.yaml").write_text(GOOD)
    measured = "match: {guest: 00000001-0d31-4367-8c90-06e18daa66f9}, probe: {every: 6h}, objective: {p99: 50ms}"
    file.write_text(f"objectives: {{gold: {{p99: 1s}}}}\n{GOOD}  - {{name: canaries, {measured}}}\n")
    ran = plimsoll("rules", "test", str(file), "--uri", test_node, "--all", "-f", "json")
    rows = json.loads(ran.out)
    assert ran.status == 0, ran.err
    assert rows
    assert [row["desired_now"] for row in rows] == [row["desired_then"] for row in rows]


def test_a_rollout_counts_with_new_rules_what_the_brake_would(
    plimsoll: Plimsoll, test_node: str, tmp_path: Path
) -> None:
    """By the script of the role; libvirt's test driver reads attach-time limits of some disks.

    Where the node begins to enforce it counts each change.
    """
    script = (Path(__file__).parents[2] / "ansible/roles/agent/files/count.sh").read_text(encoding="utf-8")
    script = script.replace("plimsoll ", f"{PLIMSOLL} --config-file {tmp_path / 'plimsoll.conf'} ")
    rules = "rules:\n- {name: all, match: {pool: '*'}, override: true, limits: {total_iops_sec: 40}}\n"

    def count(before: str, then: str) -> str:
        node = os.environ | {"OS_LIBVIRT__URI": test_node, "OS_DEFAULT__MODE": before}
        words = ["sh", "-c", script, "count", then]
        return subprocess.run(words, input=rules, env=node, capture_output=True, text=True, check=True).stdout

    (tmp_path / "rules.yaml").write_text(rules)
    planned = json.loads(plimsoll("plan", "--uri", test_node, "-f", "json").out)
    large, changes = planned["large"], sum(each["change"] is not None for each in planned["outcomes"])
    assert 0 < large["disks"] < changes <= large["of"] == len(planned["outcomes"])
    for before, then in (("observe", "observe"), ("enforce", "enforce"), ("enforce", "observe")):
        assert count(before, then) == f"{large['disks']}\n{large['of']}\n"
    assert count("observe", "enforce") == f"{changes}\n{large['of']}\n", "none was made before"
