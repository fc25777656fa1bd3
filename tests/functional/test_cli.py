"""The command as a person types it: statuses, formats, and one clear line for every mistake."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from subprocess import PIPE

import pytest
import yaml

from lab.command import NO_BRAKE, Forked
from lab.terminal import on_a_terminal
from tests.functional.conftest import Ran

Plimsoll = Callable[..., Ran]
LIST_COLUMNS = [
    *("server", "guest", "disk", "volume", "type", "pool", "size", "actual", "desired", "state", "reason"),
    *("project", "project_name", "guest_uuid", "cluster"),
]


@pytest.mark.parametrize(
    "words",
    [
        ["plan", "--no-such-option"],
        ["plan", "--total-iops-sec", "many"],
        ["plan", "--total-iops-sec", "5", "--read-iops-sec", "5"],
        ["enforce", "--mode", "sometimes"],
        ["disk", "show"],
        ["disk", "lost"],
        ["plann"],
        ["--no-such-option"],
        ["-v"],
    ],
    ids=" ".join,
)
def test_a_mistake_on_the_command_line_is_64_never_changes(
    plimsoll: Plimsoll, test_node: str, words: list[str]
) -> None:
    ran = plimsoll(*words)
    assert ran.status == 64
    assert "Traceback" not in ran.err + ran.out
    assert (ran.err + ran.out).strip()


def test_a_guest_in_the_place_of_a_results_number_is_told_its_option(plimsoll: Plimsoll) -> None:
    for verb in ("show", "compare"):
        ran = plimsoll("probe", verb, "web-1")
        assert ran.status == 64
        assert "'web-1' is not the number of a result; of a guest the newest is shown with --guest" in ran.err


def test_impossible_limits_are_named(plimsoll: Plimsoll) -> None:
    ran = plimsoll("plan", "--total-iops-sec", "5", "--read-iops-sec", "5")
    assert ran.err == (
        "limits on the command line: total_iops_sec and read_iops_sec exclude each other; remove one\n"
    )


def test_a_number_with_a_unit_is_shown_as_given_and_with_v_in_exact_bytes(plimsoll: Plimsoll, test_node: str) -> None:
    words = ("plan", "--uri", test_node, "--total-bytes-sec", "1.5GiB", "--total-iops-sec", "400")
    assert "unlimited → 400 IOPS 1.5 GiB/s  given on the command line" in plimsoll(*words, **NO_BRAKE).out
    exact = plimsoll(*words, "-v", **NO_BRAKE).out
    assert "unlimited → total_bytes_sec 1610612736, total_iops_sec 400  given on the command line" in exact


def test_plan_tells_changes_by_its_status(plimsoll: Plimsoll, test_node: str) -> None:
    assert plimsoll("plan", "--uri", test_node).status == 0
    assert plimsoll("plan", "--uri", test_node, "--total-iops-sec", "400", **NO_BRAKE).status == 2
    assert plimsoll("plan", "--uri", "test:///nowhere.xml").status == 1


def test_a_dry_run_prints_the_plan(plimsoll: Plimsoll, test_node: str) -> None:
    plan = plimsoll("plan", "--uri", test_node, "--total-iops-sec", "400", **NO_BRAKE)
    dry = plimsoll("enforce", "--dry-run", "--uri", test_node, "--total-iops-sec", "400", **NO_BRAKE)
    assert (plan.status, dry.status) == (2, 2)
    assert dry.out == plan.out + "Dry run: nothing is written.\n"


def test_the_shipped_mode_observes(plimsoll: Plimsoll, test_node: str, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text("default: {limits: {total_iops_sec: 250, total_iops_sec_max: 250}}\n")
    ran = plimsoll("enforce", "--uri", test_node)
    assert ran.status == 0
    assert "nothing is written" in ran.out


def test_enforce_says_3_when_some_of_it_was_refused(plimsoll: Plimsoll, test_node: str) -> None:
    # libvirt's test driver refuses a base without a burst, and no cluster is known to raise a limit on.
    ran = plimsoll("enforce", "--uri", test_node, "--total-iops-sec", "400", **NO_BRAKE)
    assert "rejected: " in ran.out
    assert ran.status == 3


def test_machine_formats_have_stable_columns(plimsoll: Plimsoll, test_node: str) -> None:
    listing = ["disk", "list", "--uri", test_node]
    as_json = json.loads(plimsoll(*listing, "-f", "json").out)
    assert list(as_json[0]) == LIST_COLUMNS
    assert yaml.safe_load(plimsoll(*listing, "-f", "yaml").out) == as_json
    rows = list(csv.DictReader(io.StringIO(plimsoll(*listing, "-f", "csv").out)))
    assert [row["disk"] for row in rows] == [row["disk"] for row in as_json]
    assert list(rows[0]) == LIST_COLUMNS


def test_the_plan_is_data_too(plimsoll: Plimsoll, test_node: str, tmp_path: Path) -> None:
    ran = plimsoll("plan", "--uri", test_node, "--total-iops-sec", "400", "-f", "json", **NO_BRAKE)
    report = json.loads(ran.out)
    assert report["version"] == 2
    changes = [outcome["change"] for outcome in report["outcomes"] if outcome["change"]]
    assert sum(report["counts"].values()) == len(report["outcomes"])
    assert changes
    assert all(change["after"] == {"total_iops_sec": 400} for change in changes)
    unknown = {"known_seconds": 0, "at_limit": None, "limit": None, "present": None}
    assert [outcome["impact"] for outcome in report["outcomes"] if outcome["change"]] == [unknown] * len(changes)
    disk = next(outcome for outcome in report["outcomes"] if outcome["change"] and outcome["volume"])
    rates = {
        "at": 1795176000.0,
        "disks": {f"{disk['guest_uuid']}/{disk['volume']}": [500, 0, None, None, None, None]},
        "rates": [[500, 0, 0, 0, 300]],
    }
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "state" / "usage.jsonl").write_text(json.dumps(rates) + "\n")
    report = json.loads(plimsoll("plan", "--uri", test_node, "--total-iops-sec", "400", "-f", "json", **NO_BRAKE).out)
    known = [outcome["impact"] for outcome in report["outcomes"] if outcome["change"] and outcome["impact"]["limit"]]
    assert known == [{"known_seconds": 300, "at_limit": 1, "limit": "total_iops_sec", "present": 500}]


@pytest.mark.parametrize(
    "words",
    [
        ["plan", "--guest", "no-guest"],
        ["enforce", "--guest", "no-guest"],
        ["undo", "--last", "--dry-run", "--guest", "no-guest"],
        ["disk", "list", "--guest", "no-guest"],
        ["disk", "show", "no-guest"],
        ["disk", "explain", "no-guest"],
        ["probe", "run", "--guest", "no-guest"],
    ],
    ids=" ".join,
)
def test_a_guest_that_does_not_exist_is_64_everywhere(plimsoll: Plimsoll, test_node: str, words: list[str]) -> None:
    ran = plimsoll(*words, "--uri", test_node)
    assert ran.status == 64, ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("command", ["show", "explain"])
def test_a_disk_that_no_guest_has_is_a_sentence(plimsoll: Plimsoll, test_node: str, command: str) -> None:
    ran = plimsoll("disk", command, "--uri", test_node, "instance-00000001", "vdz")
    assert ran.status == 64
    assert ran.err == "guest instance-00000001 has no disk 'vdz', but vda, vdb\n"
    assert ran.err.count("\n") == 1


def test_a_disk_is_found_by_its_volume(plimsoll: Plimsoll, test_node: str) -> None:
    # cd0cc2f1 is attached to one guest of the samples only.
    ran = plimsoll("disk", "show", "--uri", test_node, "cd0cc2f1-0395-4c0f-960e-8835da997dad", "-f", "json")
    assert json.loads(ran.out)["disk"] == "vdc"


def test_a_name_that_can_mean_several_disks_is_a_question_back(plimsoll: Plimsoll, test_node: str) -> None:
    ran = plimsoll("disk", "show", "--uri", test_node, "instance-00000001")
    assert ran.status == 64
    assert "instance-00000001 vda" in ran.err


def test_explain_walks_through_the_rules(plimsoll: Plimsoll, test_node: str, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(
        "rules:\n"
        "  - {name: elsewhere, match: {pool: ssd}, manage: false}\n"
        "  - {name: everything, match: {pool: '*'}, override: true, limits: {total_iops_sec: 250}}\n"
    )
    told = json.loads(plimsoll("disk", "explain", "--uri", test_node, "instance-00000001", "vda", "-f", "json").out)
    assert [(row["source"], row["answer"]) for row in told["sources"]] == [
        ('rule "elsewhere"', "no-opinion"),
        ('rule "everything"', "limits"),
    ]
    assert told["desired"] == {
        "answer": "limits",
        "limits": {"total_iops_sec": 250},
        "reason": {"code": "rule", "rule": "everything"},
    }


def test_explain_says_that_a_change_waits_and_for_what(plimsoll: Plimsoll, test_node: str, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text("default: {limits: {total_iops_sec: 250}}\n")
    (tmp_path / "paused").write_text("a drill\n")
    words = ("disk", "explain", "--uri", test_node, "instance-00000001", "vda", "-f", "json")
    told = json.loads(plimsoll(*words, OS_DEFAULT__PAUSE_FILE=str(tmp_path / "paused")).out)
    assert told["state"] == "deferred"
    assert (told["reason"]["code"], told["reason"]["why"]) == ("paused", "a drill")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("default:\n  limits: {total_iops_sec: 5, read_iops_sec: 5}\n", ":2: default.limits"),
        ("rules:\n  - name: x\n    matsch: {pool: a}\n    limits: unlimited\n", ":3: rules[0]"),
        ("default: &x {limits: unlimited}\nrules: *x\n", ":2: "),
        ("\tdefault:\n", ":1: "),
    ],
)
def test_rules_that_are_broken_name_file_line_and_key(
    plimsoll: Plimsoll, test_node: str, tmp_path: Path, text: str, line: str
) -> None:
    (tmp_path / "rules.yaml").write_text(text)
    ran = plimsoll("plan", "--uri", test_node)
    assert ran.status == 1
    assert f"{tmp_path}/rules.yaml{line}" in ran.err
    assert "Traceback" not in ran.err


def test_settings_that_are_broken_name_file_line_and_key(plimsoll: Plimsoll, tmp_path: Path) -> None:
    (tmp_path / "plimsoll.conf").write_text("[DEFAULT]\nmode = enforced\n\n[libvirt]\nurl = qemu:///system\n")
    ran = plimsoll("plan")
    assert ran.status == 1
    assert f"{tmp_path}/plimsoll.conf:2: [DEFAULT] mode: " in ran.err
    assert f"{tmp_path}/plimsoll.conf:5: [libvirt] url: no such setting; did you mean uri?" in ran.err


def test_the_environment_comes_before_the_file(plimsoll: Plimsoll, test_node: str) -> None:
    assert plimsoll("plan").status != 0
    assert plimsoll("plan", OS_LIBVIRT__URI=test_node).status == 0


def test_a_bad_value_in_the_environment_is_named(plimsoll: Plimsoll) -> None:
    ran = plimsoll("plan", OS_DEFAULT__MODE="enforced")
    assert ran.status == 1
    assert ran.err.startswith("environment: OS_DEFAULT__MODE: ")
    assert ran.err.count("\n") == 1


def test_a_state_directory_that_cannot_be_made_is_a_sentence(
    plimsoll: Plimsoll, test_node: str, tmp_path: Path
) -> None:
    (tmp_path / "plimsoll.conf").write_text("[DEFAULT]\nstate_dir = /proc/plimsoll\n")
    ran = plimsoll("enforce", "--uri", test_node, "--total-iops-sec", "400", **NO_BRAKE)
    assert ran.status == 1
    assert ran.err.startswith("/proc/plimsoll")


def test_bash_completion_knows_the_commands(plimsoll: Plimsoll) -> None:
    completion = plimsoll("complete").out
    for word in ("enforce", "plan", "explain", "--total_iops_sec", "--dry-run"):
        assert word.replace("_", "-") in completion


def test_errors_carry_their_priority_into_the_journal(plimsoll: Plimsoll, tmp_path: Path) -> None:
    (tmp_path / "stderr").touch()
    status = (tmp_path / "stderr").stat()
    with (tmp_path / "stderr").open("w") as stderr:
        plimsoll(
            "plan", "--uri", "test:///nowhere.xml", stderr=stderr, JOURNAL_STREAM=f"{status.st_dev}:{status.st_ino}"
        )
    assert (tmp_path / "stderr").read_text().splitlines()[-1].startswith("<3>libvirt at test:///nowhere.xml")
    elsewhere = plimsoll("plan", "--uri", "test:///nowhere.xml", JOURNAL_STREAM="8:1")
    assert "<3>" not in elsewhere.err, "a shell below a service has the variable, but not the journal"


def test_a_reader_that_goes_away_does_not_end_the_pass(plimsoll: Plimsoll, test_node: str, tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        ran = plimsoll("enforce", "--uri", test_node, "--total-iops-sec", "400", stdout=full, **NO_BRAKE)
    assert ran.status == 1
    assert "the pass continues without it" in ran.err
    with closing(sqlite3.connect(tmp_path / "state" / "record.sqlite")) as database:
        results = {row[0] for row in database.execute("SELECT result FROM change")}
    assert results == {"refused"}, "every write was tried, and what became of it is recorded"


def test_a_list_that_no_program_reads_is_a_failure_without_a_traceback(plimsoll: Plimsoll, test_node: str) -> None:
    with Path("/dev/full").open("w") as full:
        ran = plimsoll("disk", "list", "--uri", test_node, stdout=full)
    assert ran.status == 1
    assert "Traceback" not in ran.err
    assert "Exception ignored" not in ran.err


def test_a_terminal_without_arrows_does_not_end_the_pass(plimsoll: Plimsoll, test_node: str) -> None:
    ran = plimsoll("plan", "--uri", test_node, "--total-iops-sec", "400", PYTHONIOENCODING="latin-1", **NO_BRAKE)
    assert ran.status == 2
    assert "unlimited ? 400 IOPS" in ran.out


@pytest.mark.parametrize("loss", ["removed", "emptied", "commented"])
def test_rules_that_disappear_are_a_fault_and_the_last_good_ones_hold(
    plimsoll: Plimsoll, test_node: str, tmp_path: Path, loss: str
) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("rules:\n  - {name: hands off, match: {pool: '*'}, manage: false}\n")
    assert plimsoll("enforce", "--uri", test_node, "--mode", "observe").status == 0
    rules.unlink() if loss == "removed" else rules.write_text("\n" if loss == "emptied" else "---\n# none\n")
    ran = plimsoll("enforce", "--uri", test_node, "--total-iops-sec", "400", **NO_BRAKE)
    assert ran.status == 1
    assert f"{rules}: {'no such file' if loss == 'removed' else 'is empty'}" in ran.err
    assert "Done: nothing changed" in ran.out
    rules.write_text("{}\n")
    assert plimsoll("plan", "--uri", test_node).status == 0, "a file with {} in it means no rules"


@pytest.mark.parametrize(
    "words",
    [["disk", "list"], ["plan"], ["disk", "explain", "instance-00000001", "vdb"], ["top", "--once"], ["status"]],
    ids=lambda words: words[0] if len(words) == 1 else " ".join(words[:2]),
)
@pytest.mark.parametrize("rules", ["default", "missing"])
def test_who_looks_needs_neither_settings_nor_rules(
    test_node: str, tmp_path: Path, rules: str, words: list[str]
) -> None:
    environment = os.environ | {"OS_DEFAULT__STATE_DIR": f"{tmp_path}/state", "OS_LIBVIRT__URI": test_node}
    if rules == "missing":
        environment["OS_DEFAULT__RULES_FILE"] = f"{tmp_path}/missing.yaml"
    (tmp_path / "empty").mkdir()
    with Forked("--config-dir", tmp_path / "empty", *words, stdout=PIPE, stderr=PIPE, env=environment) as process:
        out, err = process.communicate()
    shows = {"status": "no pass over this node yet", "plan": "disks left alone: attach-time limits"}
    assert shows.get(words[0], "instance-00000001") in out
    complains = rules == "missing" and words != ["status"]
    assert (f"{tmp_path}/missing.yaml: no such file" in err) is complains
    assert process.returncode == int(complains or words == ["status"]), err


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["record"], [("record", "keep_days"), ("record", "keep_mib")]),
        (["uri", "keep_mib"], [("record", "keep_mib"), ("probe", "keep_mib"), ("libvirt", "uri")]),
    ],
)
def test_settings_can_be_asked_for_by_section_and_name(
    plimsoll: Plimsoll, words: list[str], found: list[tuple[str, str]]
) -> None:
    listed = json.loads(plimsoll("settings", *words, "-f", "json").out)
    assert [(each["section"], each["setting"]) for each in listed] == found


def test_settings_have_units_and_a_mark_on_those_that_were_set(plimsoll: Plimsoll) -> None:
    lines = plimsoll("settings", "ceph", OS_CEPH__DEADLINE="90").out.splitlines()
    words = [line.split() for line in lines]
    assert ["ceph", "deadline", "*", "90s", "environment:", "OS_CEPH__DEADLINE"] in words
    assert lines[-1].startswith("* ")
    assert lines[-1].endswith("--changed lists only these")


def test_settings_of_which_none_was_changed_are_told_apart_from_all(plimsoll: Plimsoll) -> None:
    ran = plimsoll("settings", "ceph", "--changed")
    assert (ran.status, ran.out) == (0, "Every one of these settings has its default.\n")


def test_a_setting_that_there_is_not_is_answered_with_the_nearest(plimsoll: Plimsoll) -> None:
    ran = plimsoll("settings", "conf_file")
    assert (ran.status, ran.err) == (
        64,
        "no section and no setting is named 'conf_file'; did you mean conf_files?\n",
    )


@pytest.mark.parametrize("reason", ["", "  ", "x" * 201])
def test_a_reason_that_says_nothing_or_fills_the_screen_is_refused(
    plimsoll: Plimsoll, tmp_path: Path, reason: str
) -> None:
    file = tmp_path / "paused"
    ran = plimsoll("pause", "--reason", reason, OS_DEFAULT__PAUSE_FILE=str(file))
    assert (ran.status, file.exists()) == (64, False)
    assert plimsoll("disk", "hold", "add", "x", "--for", "1h", "--reason", reason).status == 64


def test_a_pause_lasts_as_long_as_it_is_given_and_can_be_given_again_after_its_end(
    plimsoll: Plimsoll, test_node: str, tmp_path: Path
) -> None:
    file = tmp_path / "paused"
    settings = {"OS_DEFAULT__PAUSE_FILE": str(file), "OS_DEFAULT__STATE_DIR": str(tmp_path / "state")}
    plan = ("plan", "--uri", test_node, "--total-iops-sec", "400")
    begun = plimsoll("pause", "--for", "2h", "--reason", "a drill", **settings)
    assert re.fullmatch(
        r"Paused: no limit is written on this node until \S+ \S+ UTC or plimsoll resume\.\n", begun.out
    )
    assert plimsoll("pause", "--for", "2h", "--reason", "again", **settings).status == 64
    assert "Nothing is written: paused" in plimsoll(*plan, **settings, **NO_BRAKE).out
    file.write_text("until 2026-01-01 00:00 UTC:\na drill\n")
    assert "Nothing is written" not in plimsoll(*plan, **settings, **NO_BRAKE).out
    assert plimsoll("pause", "--for", "1d", "--reason", "again", **settings).status == 0
    assert plimsoll("resume", "--reason", "done", **settings).status == 0
    assert plimsoll("pause", "--for", "soon", "--reason", "x", **settings).status == 64


def test_v_shows_the_parameters_of_libvirt_wherever_it_stands(plimsoll: Plimsoll, test_node: str) -> None:
    words = ["--uri", test_node, "--total-iops-sec", "400"]
    for ran in (plimsoll("-v", "plan", *words, **NO_BRAKE), plimsoll("plan", *words, "-v", **NO_BRAKE)):
        assert "unlimited → total_iops_sec 400  given on the command line" in ran.out
    shown = plimsoll("disk", "show", "-v", "--uri", test_node, "instance-00000001", "vdb")
    assert "_iops_sec " in shown.out


def test_the_plan_as_yaml_is_the_plan_as_json(plimsoll: Plimsoll, test_node: str) -> None:
    words = ["plan", "--uri", test_node, "--total-iops-sec", "400", "-f"]
    as_yaml, as_json = (plimsoll(*words, form, **NO_BRAKE) for form in ("yaml", "json"))
    told, same = yaml.safe_load(as_yaml.out), json.loads(as_json.out)
    for each in (told, same):
        del each["started"], each["seconds"]
    assert told == same


@pytest.mark.parametrize("columns", [40, 80])
@pytest.mark.parametrize(
    ("words", "command"),
    [
        (("disk", "hold", "add"), "plimsoll disk hold add --help"),
        (("plan", "--total-bytes-sec", "100MX"), None),
        (("probe", "list", "-f", "json"), "plimsoll probe run"),
        (("hold", "list"), "plimsoll region hold list"),
    ],
)
def test_a_terminal_breaks_no_word_and_no_command_of_a_message(
    plimsoll: Plimsoll, tmp_path: Path, words: tuple[str, ...], command: str | None, columns: int
) -> None:
    whole = plimsoll(*words)
    lines = on_a_terminal("--config-file", str(tmp_path / "plimsoll.conf"), *words, columns=columns)[1]
    lines = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in lines]
    words_shown = " ".join(lines).split()
    assert sorted(word for word in words_shown if word != "error:") == sorted((whole.out + whole.err).split())
    assert all(len(line) <= columns or " " not in line.strip() for line in lines)
    assert command is None or any(command in line for line in lines)
