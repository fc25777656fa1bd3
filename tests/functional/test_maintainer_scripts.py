"""What the scripts of the packages do as root, where another user owns the directory: with real shells, in a tree of
their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGING = Path(__file__).parents[2] / "packaging"
LIST = "instance-00000001 vda 250 IOPS"
SECRET = "a file of root"  # no password


class Node:
    """A node with the package, in a directory instead of in ``/``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.state, self.metrics = root / "var/lib/plimsoll", root / "var/lib/prometheus/node-exporter"
        self.left = root / "var/backups/plimsoll-limits-left.txt"
        self.secret = root / "secret"
        self.secret.write_text(SECRET)
        self.programs = root / "programs"
        for directory in (self.state, self.metrics, self.programs):
            directory.mkdir(parents=True)
        self.program(
            root / "opt/plimsoll/current/bin/plimsoll",
            f'case "$*" in "settings textfile_dir "*) echo {self.metrics} ;; disk*) echo {LIST} ;; *) exit 1 ;; esac',
        )

    def program(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def owner_is_faster(self) -> None:
        """What root makes in the state directory by a name is a link before root writes to it."""
        real = shutil.which("mktemp")
        self.program(
            self.programs / "mktemp", f'made=$({real} "$@") && ln -sf {self.secret} "$made" && printf "%s" "$made"'
        )

    def runs(self, script: str, *words: str, status: int = 0, **environment: str) -> str:
        """What it says."""
        text = (PACKAGING / "functions.sh").read_text() + "systemd_runs() { false; }\n"
        text += (PACKAGING / script).read_text()
        for place in ("/opt/plimsoll", "/var/lib/plimsoll", "/var/backups", "/etc/plimsoll", "/etc/systemd"):
            text = text.replace(place, f"{self.root}{place}")
        (self.root / "etc/systemd/system").mkdir(parents=True, exist_ok=True)
        path = f"{self.programs}:{os.environ['PATH']}"
        ran = subprocess.run(
            ["sh", "-e", "-c", text, script, *words],
            env={"PATH": path} | environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ran.returncode == status, ran.stderr
        return ran.stderr


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_removal_lists_limits_in_a_file_that_only_root_may_read_and_a_purge_keeps_it(node: Node) -> None:
    for name in ("plimsoll-catalogue", "plimsoll-publish"):
        node.state.with_name(name).mkdir()
    assert LIST in node.runs("prerm", "remove")
    assert (node.left.read_text(), node.left.stat().st_mode & 0o777) == (f"{LIST}\n", 0o600)
    assert LIST in node.runs("postrm", "purge")
    assert node.left.read_text() == f"{LIST}\n"
    assert [*node.state.parent.glob("plimsoll*")] == []


@pytest.mark.parametrize(
    ("status", "calls"), [(0, ["pause", "resume"]), (3, ["pause", "resume"]), (64, ["pause"]), (None, [])]
)
@pytest.mark.parametrize("file", ["factors.json", "ceilings.json"])
@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_a_removal_restores_what_is_reduced_and_ends_no_pause_of_an_operator(
    node: Node, status: int | None, calls: list[str], file: str, *, is_elsewhere: bool
) -> None:
    """Without the daemon and its timer it would stay reduced until the guest is restarted. 64: already paused."""
    state = node.root / "srv/plimsoll" if is_elsewhere else node.state
    state.mkdir(parents=True, exist_ok=True)
    if status is not None:
        (state / file).touch()
    log = node.root / "calls"
    log.touch()
    node.program(
        node.root / "opt/plimsoll/current/bin/plimsoll",
        f'case "$*" in pause*|resume*) echo "$*" >> {log} ;; disk*) echo {LIST} ;;'
        f' "settings state_dir "*) echo {state if is_elsewhere else ""} ;; esac\n'
        f'case "$*" in pause*) exit {status} ;; esac',
    )
    said = node.runs("prerm", "remove")
    called = [line.split() for line in log.read_text().splitlines()]
    assert [words[0] for words in called] == calls
    assert all("--restore" in words for words in called if words[0] == "pause")
    assert ("may stay so" in said) is (status in (3, 64))
    assert LIST in said


def test_a_list_of_limits_that_fails_leaves_no_file_and_does_not_stop_the_removal(node: Node) -> None:
    (node.root / "opt/plimsoll/current/bin/plimsoll").write_text("#!/bin/sh\nexit 1\n")
    assert "could not be listed" in node.runs("prerm", "remove")
    assert [*node.left.parent.iterdir()] == []


def test_limits_of_the_guests_that_answer_are_listed_where_another_does_not(node: Node) -> None:
    node.program(node.root / "opt/plimsoll/current/bin/plimsoll", f'case "$*" in disk*) echo {LIST} ;; esac; exit 1')
    for said in (node.runs("prerm", "remove"), node.runs("postrm", "purge")):
        assert LIST in said
        assert "may be incomplete" in said
    assert node.left.read_text().startswith(f"{LIST}\nThis list may be incomplete")


def test_the_owner_of_the_state_directory_leads_root_to_no_other_file(node: Node) -> None:
    node.owner_is_faster()
    (node.state / "limits-left.txt").symlink_to(node.secret)
    said = node.runs("prerm", "remove") + node.runs("postrm", "purge")
    assert node.secret.read_text() == SECRET
    assert SECRET not in said
    assert node.left.read_text() == f"{LIST}\n"


def test_a_removal_leaves_no_metrics_not_even_of_a_daemon_that_was_killed(node: Node) -> None:
    for kind in ("pass", "console", "probe", "daemon", "congestion", "region"):
        (node.metrics / f"plimsoll-{kind}.prom").touch()
    (node.metrics / "apt.prom").touch()
    node.runs("prerm", "remove")
    assert [path.name for path in node.metrics.iterdir()] == ["apt.prom"]


def test_a_link_in_the_place_of_the_metrics_directory_is_not_followed(node: Node) -> None:
    elsewhere = node.root / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "plimsoll-pass.prom").touch()
    node.metrics.rmdir()
    node.metrics.symlink_to(elsewhere)
    node.runs("prerm", "remove")
    assert (elsewhere / "plimsoll-pass.prom").exists()


@pytest.mark.parametrize("undone", [1, 3])
@pytest.mark.parametrize(
    ("left", "status"),
    [({"left-alone": 2}, 0), ({"deferred": 1}, 1), ({"failed": 1}, 1), ({"unknown": 1}, 1), ({"planned": 9}, 1),
     (None, 1)],
)  # fmt: skip
def test_a_removal_that_restores_limits_stays_only_while_another_undo_may_restore_more(
    node: Node, left: dict[str, int] | None, status: int, undone: int
) -> None:
    """A guest that was restarted since has lost them: that would be so at each try."""
    kinds = ("in-sync", "planned", "changed", "deferred", "left-alone", "unknown", "failed")
    answer = "" if left is None else json.dumps({"counts": dict.fromkeys(kinds, 0) | {"changed": 3} | left})
    log = node.root / "calls"
    node.program(
        node.root / "opt/plimsoll/current/bin/plimsoll",
        f'echo "$*" >> {log}\ncase "$*" in *--dry-run*) echo \'{answer}\'; exit {undone} ;; undo*) exit {undone} ;;'
        f" disk*) echo {LIST} ;; esac",
    )
    node.program(node.root / "opt/plimsoll/current/bin/python", f'exec {sys.executable} "$@"')
    said = node.runs("prerm", "remove", status=status, PLIMSOLL_UNDO_SINCE="2026-11-20T14:00")
    assert "undo --since 2026-11-20T14:00 --yes --all\n" in log.read_text()
    assert (LIST in said) is (status == 0)
    assert ("PLIMSOLL_UNDO_DISKS=NUMBER" in said) is (status == 1)


def test_the_number_of_disks_that_undo_asks_for_is_given_in_the_environment(node: Node) -> None:
    log = node.root / "calls"
    node.program(node.root / "opt/plimsoll/current/bin/plimsoll", f'echo "$*" >> {log}')
    node.runs("prerm", "remove", PLIMSOLL_UNDO_SINCE="2h", PLIMSOLL_UNDO_DISKS="9")
    assert "undo --since 2h --yes --all --disks 9\n" in log.read_text()
