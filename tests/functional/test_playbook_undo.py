"""The playbook undo over several nodes, by Ansible itself; of each node's plimsoll only what it prints is made up."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab import ansiblecore
from lab.collection import link
from tests.functional.test_playbooks import PLAYBOOKS, Ansible
from tests.schemas import hold

pytestmark = pytest.mark.usefixtures("programs_unmeasured")

SINCE = "2026-11-20T14:02:00+00:00"
# Prints the plan, does the undo with its exit status, and keeps what it was called with.
PLIMSOLL = """#!/bin/sh
echo "${0##*/}${OS_DEFAULT__PAUSE_FILE:+ unpaused} $*" >> "${0%/*}/calls"
case "$*" in
*--dry-run*) cat "$0.plan" ;;
undo*) cat "$0.done" >&$(($(cat "$0.status") == 64 ? 2 : 1)); exit "$(cat "$0.status")" ;;
esac
"""
PAUSED = {"code": "paused", "file": "/etc/plimsoll/paused", "why": "disks are exchanged"}


def disk(result: str, code: str, target: str = "vdb", **facts: str) -> dict[str, Any]:
    nothing = dict.fromkeys(("project", "volume", "before", "after", "direction"))
    named = {"key": f"u/{target}", "guest": "instance-00000412", "guest_uuid": "5d1f0c9a-0000-4000-8000-000000000001"}
    return (
        nothing
        | named
        | {
            "pool": "volumes",
            "image": "volume-1",
            "disk": target,
            "result": result,
            "reason": {"code": code} | facts,
            "seconds": 0.0,
        }
    )


def undo(
    *disks: dict[str, Any], mode: str = "enforce", paused: object = None, dry_run: bool = False
) -> dict[str, Any]:
    kinds = ("in-sync", "planned", "changed", "deferred", "left-alone", "unknown", "failed")
    counts = {kind: sum(each["result"] == kind for each in disks) for kind in kinds}
    head = {"version": 1, "since": SINCE, "dry_run": dry_run, "mode": mode, "seconds": 0.1, "counts": counts}
    return head | {"disks": list(disks), "unrecorded": 0, "notes": [], "paused": paused}


def planned(*more: dict[str, Any], number: int = 1, **options: Any) -> dict[str, Any]:
    return undo(
        *(disk("planned", "undone", f"vd{n}", since=SINCE) for n in range(number)), *more, dry_run=True, **options
    )


def done(*more: dict[str, Any], number: int = 1, **options: Any) -> dict[str, Any]:
    return undo(*(disk("changed", "undone", f"vd{n}", since=SINCE) for n in range(number)), *more, **options)


# Of both units: active, or enabled and stopped. A file "broken" is a start that fails.
SYSTEMCTL = """#!/bin/sh
cd "${0%/*}" || exit
[ "$1" = is-enabled ] && { echo enabled; exit; }
[ -e "$2" ] && state=active || state=inactive
case "$1" in
is-active) echo $state ;;
show) echo "Id=$2\nLoadState=loaded\nActiveState=$state" ;;
start) echo "$*" >> ../calls; [ ! -e broken ] && touch "$2" ;;
stop) rm "$2" ;;
esac
"""
TIMER, DAEMON = "plimsoll-enforce.timer", "plimsoll-daemon.service"


class Region:
    """Nodes with what their undo prints; one without anything is down."""

    def __init__(self, home: Path, collections: Path) -> None:
        self.ansible, self.home = Ansible(collections, home), home

    def play(self, nodes: Mapping[str, tuple[Any, Any, int] | None], *words: str) -> subprocess.CompletedProcess[str]:
        hosts: dict[str, dict[str, Any]] = {}
        (self.home / "calls").write_text("")
        for name, prints in nodes.items():
            hosts[name] = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
            if prints is None:
                hosts[name] = {"ansible_host": "127.0.0.1", "ansible_port": 1}
                continue
            *outputs, status = prints
            for output, end in zip(outputs, ("plan", "done"), strict=True):
                text = output if isinstance(output, str) else json.dumps(output)
                (self.home / f"{name}.{end}").write_text(text)
                if not isinstance(output, str):
                    hold("undo", text, "json")
            (self.home / f"{name}.status").write_text(str(status))
            (self.home / name).write_text(PLIMSOLL)
            (self.home / name).chmod(0o755)
        (self.home / "hosts.yml").write_text(yaml.safe_dump({"plimsoll": {"hosts": hosts}}))
        instead = {
            "__agent_command": f"{self.home}/{{{{ inventory_hostname }}}}",
            "__delivery_installed": "echo 0.2.0-1",
        }
        return self.ansible(
            *("ansible-playbook", "-i", "hosts.yml", str(PLAYBOOKS / "undo.yml")),
            *("-e", json.dumps(instead), "-e", "plimsoll_undo_since=2026-11-20T14:02", *words),
        )

    @property
    def changes(self) -> list[str]:
        """The calls that are no plan."""
        return [line for line in (self.home / "calls").read_text().splitlines() if "--dry-run" not in line]


@pytest.fixture
def region(tmp_path: Path) -> Region:
    link(tmp_path / "collections")
    return Region(tmp_path, tmp_path / "collections")


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a systemctl, and a file for each active unit; to be asked for before ``region``."""
    place = tmp_path / "systemd"
    place.mkdir()
    (place / "systemctl").write_text(SYSTEMCTL)
    (place / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
    return place


@pytest.fixture(params=["newest", "oldest"])
def each_region(region: Region, request: pytest.FixtureRequest) -> Region:
    """With both versions of ansible-core with which the collection is tested."""
    core = ansiblecore.environment() if request.param == "oldest" else {}
    region.ansible = Ansible(region.home / "collections", region.home, core)
    return region


def lines(ended: subprocess.CompletedProcess[str], task: str) -> list[str]:
    """What a task shows, without the marks of a list in YAML and its folding."""
    shown = re.sub(
        r"\n {8,}(?!- )", " ", ended.stdout.split(f"TASK [{task}]")[1].split("\nTASK")[0].split("\nPLAY")[0]
    )
    return [line.strip(" -").strip("'\"").strip() for line in shown.splitlines() if " - " in line]


UNDO = "n{} undo --since " + SINCE + " --yes --disks {} -f json"


def test_changes_are_undone_on_all_nodes_and_what_is_left_is_shown_with_the_command_that_goes_on(
    region: Region,
) -> None:
    ended = region.play(
        {
            "n1": (planned(disk("left-alone", "reattached"), number=2), done(number=2), 0),
            "n2": (planned(mode="observe"), done(disk("deferred", "guest-busy"), number=0, mode="observe"), 3),
            "n3": (planned(number=0), done(number=0), 0),
            "n4": None,
            "n5": (planned(paused=PAUSED), done(), 0),
        },
        *("-e", "plimsoll_undo_yes=true"),
    )
    assert lines(ended, "Show the plan") == [
        "n1: 2 to restore, 1 left (1 reattached), of 1 guest",
        "instance-00000412 vdb left: reattached",
        "n2: 1 to restore, of 1 guest",
        "n3: no change since then",
        "n4: cannot be reached: connect to host 127.0.0.1 port 1: Connection refused",
        "n5: 1 to restore, of 1 guest; paused (disks are exchanged): -e plimsoll_undo_paused=true restores its limits"
        " too, and it stays paused",
        "3 disks to restore on 2 of 5 nodes",
    ]
    pause = f"n1 pause --reason undo: limits from before {SINCE}"
    assert region.changes == [UNDO.format(1, 2), pause, UNDO.format(2, 1)], "n2 observes, so nothing would set them"
    assert ended.returncode != 0, "not all is done"
    *results, go_on, command, resume = lines(ended, "Show what was done and what is left")
    assert results == [
        "n1: 2 restored, of 1 guest",
        "paused: no limit is written until plimsoll resume",
        "n2: 1 left (1 guest busy), of 1 guest",
        "instance-00000412 vdb left: guest busy",
        "n3: no change since then",
        "n4: cannot be reached: connect to host 127.0.0.1 port 1: Connection refused",
        "n5: 1 to restore, of 1 guest; paused (disks are exchanged): -e plimsoll_undo_paused=true restores its limits"
        " too, and it stays paused",
    ]
    assert go_on == "To go on with the nodes where something is left:"
    assert command.startswith("ansible-playbook -i ")
    assert command.endswith(f"/undo.yml --limit n2,n4,n5 -e plimsoll_undo_since={SINCE}")
    assert resume.startswith("When the rules are right, plimsoll resume")


def test_a_node_that_stays_in_enforce_is_said_to_set_the_limits_again_and_one_that_is_paused_stays_so(
    region: Region,
) -> None:
    nodes = {"n1": (planned(), done(), 0), "n2": (planned(paused=PAUSED), done(), 0)}
    words = ("-e", "plimsoll_undo_yes=true", "-e", "plimsoll_undo_pause=false", "-e", "plimsoll_undo_paused=true")
    ended = region.play(nodes, *words)
    assert ended.returncode == 0, ended.stdout
    assert region.changes == [UNDO.format(1, 1), UNDO.format("2 unpaused", 1)]
    first = "mode enforce and not paused: its next pass sets the desired limits again, with the daemon at once"
    second = "paused: no limit is written until plimsoll resume"
    assert [line for line in lines(ended, "Show what was done and what is left") if line[0] != "n"][:2] == [
        first, second
    ]  # fmt: skip


def test_without_an_answer_or_in_a_check_nothing_is_changed(region: Region) -> None:
    nodes = {"n1": (planned(number=2), done(), 0), "n2": (planned(), done(), 0)}
    ended = region.play(nodes)
    assert ended.returncode != 0
    said = " ".join(ended.stdout.split())
    assert "no limit was restored: 3 disks would be. If these are the right ones: -e plimsoll_undo_yes=true" in said
    assert region.changes == []
    assert region.play(nodes, "--check").returncode == 0
    assert region.changes == []


def test_where_the_first_node_cannot_undo_no_other_is_begun(region: Region) -> None:
    nodes = {"n1": (planned(), "plimsoll daemon (pid 7) runs", 64), "n2": (planned(), done(), 0)}
    ended = region.play(nodes, "-e", "plimsoll_undo_yes=true")
    assert region.changes == [UNDO.format(1, 1)]
    shown = lines(ended, "Show what was done and what is left")
    assert shown[:2] == ["n1: plimsoll daemon (pid 7) runs", "n2: was not begun, since the first node failed"]
    assert shown[3].endswith(f"--limit n1,n2 -e plimsoll_undo_since={SINCE}")


def test_what_an_undo_that_was_interrupted_has_left_stopped_is_started(systemd: Path, region: Region) -> None:
    restored = disk("in-sync", "undone", since=SINCE)
    nodes = {"n1": (planned(restored, number=0), done(restored, number=0), 0), "n2": (planned(number=0), done(), 0)}
    ended = region.play(nodes)
    assert ended.returncode == 0, ended.stdout
    assert lines(ended, "Show the plan")[1] == f"to start again: {TIMER}, {DAEMON}"
    pause = f"n1 pause --reason undo: limits from before {SINCE}"
    assert region.changes == [UNDO.format(1, 0), pause, f"start {TIMER}", f"start {DAEMON}"]


def test_a_node_whose_timer_does_not_start_again_is_not_reported_as_restored(systemd: Path, region: Region) -> None:
    for name in (TIMER, DAEMON, "broken"):
        (systemd / name).touch()
    nodes = {"n1": (planned(), done(), 0), "n2": (planned(), done(), 0)}
    ended = region.play(nodes, "-e", "plimsoll_undo_yes=true")
    assert ended.returncode != 0
    shown = lines(ended, "Show what was done and what is left")
    assert any(line.startswith(f"n1: not started: {TIMER}: Unable to start") for line in shown), shown
    assert "n2: was not begun, since the first node failed" in shown


def test_the_first_node_is_alone_whatever_the_batches_are(region: Region) -> None:
    nodes = {name: (planned(), done(), 0) for name in ("n1", "n2", "n3")}
    words = ("-e", "plimsoll_undo_yes=true", "-e", "plimsoll_undo_pause=false", "-e", "plimsoll_undo_serial=100%")
    ended = region.play(nodes, *words)
    assert ended.returncode == 0, ended.stdout
    assert region.changes[0] == UNDO.format(1, 1)
    assert sorted(region.changes) == [UNDO.format(n, 1) for n in (1, 2, 3)]


def test_a_template_in_what_nodes_print_is_shown_and_not_run(each_region: Region) -> None:
    template = "{{ 6 * 7 }}"
    paused = PAUSED | {"why": template}
    nodes = {"n1": (planned(paused=paused), done(), 0), "n2": (planned(), f"refused: {template}", 64)}
    ended = each_region.play(nodes, "-e", "plimsoll_undo_yes=true")
    assert f"n1: 1 to restore, of 1 guest; paused ({template})" in lines(ended, "Show the plan")[0]
    assert f"n2: refused: {template}" in lines(ended, "Show what was done and what is left")
    assert "(42)" not in ended.stdout
    assert "refused: 42" not in ended.stdout


@pytest.mark.parametrize("since", ["", "2h", "yesterday 22:00", "2026-11-20", "2026-11-20T14:02 CET"])
def test_a_time_is_needed_that_is_the_same_on_each_node_and_has_its_hour(region: Region, since: str) -> None:
    """A value of ``-e`` ends at its first blank."""
    ended = region.play({"n1": (planned(), done(), 0)}, "-e", f"plimsoll_undo_since={since}")
    assert ended.returncode != 0
    actual = since.replace(" ", ", without ") or "not set"
    assert f"plimsoll_undo_since is {actual}: give the time" in " ".join(ended.stdout.split())
    assert not (region.home / "calls").read_text()
