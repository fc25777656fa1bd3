"""Playbooks with the checkout's collection, and what Ansible says of each task as data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.collection import link
from tests.lab.cloud.layout import CHECKOUT

SCENARIOS = CHECKOUT / "tests/ansible"


@dataclass(frozen=True)
class Played:
    """How a playbook ended; ``out`` is what Ansible wrote, its report and all."""

    status: int
    report: Mapping[str, Any]
    out: str

    @property
    def results(self) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
        """Each task by its name and host, and what came of it there."""
        for play in self.report["plays"]:
            for task in play["tasks"]:
                for host, result in task["hosts"].items():
                    yield task["task"]["name"], host, result

    @property
    def changed(self) -> list[tuple[str, str]]:
        """Tasks and handlers, without their role's name, and the hosts on which they changed something."""
        return [(_own(task), host) for task, host, result in self.results if result.get("changed")]

    @property
    def failures(self) -> dict[str, str]:
        """What each host that failed says of it: of a loop, the first item's that did."""
        found = {}
        for _, host, result in self.results:
            if result.get("failed") or result.get("unreachable"):
                items = [item for item in result.get("results", ()) if item.get("failed")]
                found[host] = (items or [result])[0].get("msg", "")
        return found

    @property
    def said(self) -> list[str]:
        """Lines for a person, as debug says them."""
        said: list[str] = []
        for _, _, result in self.results:
            if not result.get("action", "").endswith("debug"):
                continue
            for one in result.get("results", [result]):
                if not one.get("skipped"):
                    told = one["msg"]
                    said += told if isinstance(told, list) else [told]
        return said

    @property
    def ok(self) -> bool:
        return self.status == 0


class Playbooks:
    """Runs them in a home of their own, where Ansible finds no other collections, settings or keys."""

    def __init__(self, home: Path) -> None:
        link(home / "collections")
        self.environment = environment(home)

    def play(self, playbook: Path | str, inventory: Path, *words: str, **variables: object) -> Played:
        """``playbook`` is a path below tests/ansible, or a whole one."""
        argv = ["-i", inventory, *words, "-e", json.dumps(variables), SCENARIOS / playbook]
        return play(argv, self.environment, timeout=280)


def environment(home: Path) -> dict[str, str]:
    """Ansible's, where all that it finds and keeps is below ``home``, and its answer is data."""
    (home / "ansible.cfg").touch()
    return os.environ | {
        "ANSIBLE_COLLECTIONS_PATH": str(home / "collections"),
        "ANSIBLE_CONFIG": str(home / "ansible.cfg"),
        "ANSIBLE_FORKS": "8",
        "ANSIBLE_HOME": str(home / "ansible"),
        "ANSIBLE_PIPELINING": "1",
        "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }


def play(
    argv: Sequence[str | Path], environment: Mapping[str, str], timeout: float, cwd: Path | None = None
) -> Played:
    """``ansible-playbook`` with these words."""
    done = subprocess.run(
        ["ansible-playbook", *argv],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=environment,
        cwd=cwd,
        timeout=timeout,
    )
    begin = done.stdout.find("{\n")
    if begin < 0:
        raise AssertionError(done.stdout + done.stderr)
    return Played(done.returncode, json.loads(done.stdout[begin:]), done.stdout + done.stderr)


def write_localhost(file: Path) -> Path:
    """An inventory with nobody but Ansible's implicit localhost."""
    its_own = '{ansible_connection: local, ansible_python_interpreter: "{{ ansible_playbook_python }}"}'
    file.parent.mkdir()
    file.write_text(f"---\nall: {{hosts: {{localhost: {its_own}}}}}\n")
    return file


def _own(task: str) -> str:
    return task.partition(" : ")[2] or task
