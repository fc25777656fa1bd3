"""Playbooks with the checkout's collection, and what Ansible says of each task as data."""

from __future__ import annotations

import atexit
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lab.cloud.layout import CHECKOUT
from lab.collection import link

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
    def own_results(self) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
        """The same without their role's name."""
        for task, host, result in self.results:
            yield task.partition(" : ")[2] or task, host, result

    @property
    def changed(self) -> list[tuple[str, str]]:
        """Tasks and handlers, without their role's name, and the hosts on which they changed something."""
        return [(task, host) for task, host, result in self.own_results if result.get("changed")]

    @property
    def failures(self) -> dict[str, str]:
        """What each host that failed says of it: of a loop, the first item's that did.

        With ansible-core 2.21 the JSON of a loop's items does not say that they failed, or were skipped.
        """
        found = {}
        for _, host, result in self.results:
            if result.get("failed") or result.get("unreachable"):
                items = [item for item in result.get("results", ()) if item.get("failed", "exception" in item)]
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
                if "skip_reason" not in one:
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
    with TemporaryDirectory() as written:
        output = Path(written, "output")
        status = _server_for(environment).run([str(word) for word in argv], cwd or Path.cwd(), output, timeout)
        said, complaints = output.read_text(), Path(f"{output}.err").read_text()
    # Behind all that -v has it say.
    report = re.search(r"^\{\n", said, re.MULTILINE)
    if report is None:
        raise AssertionError(said + complaints)
    return Played(status, json.loads(said[report.start() :]), said + complaints)


class _Server:
    """A process that has imported Ansible: see ansibleserver.py."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = dict(environment)
        program = [sys.executable, str(Path(__file__).with_name("ansibleserver.py"))]
        self._process = subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.environment
        )

    def run(self, argv: list[str], cwd: Path, output: Path, timeout: float) -> int:
        """The exit status. Raises ``TimeoutError`` when it was not done in time, and so killed."""
        assert self._process.stdin is not None
        request = {"argv": argv, "cwd": str(cwd), "output": str(output)}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        running = int(self._answer())
        late = threading.Timer(timeout, _kill, [running])
        late.start()
        try:
            status = int(self._answer())
        except BaseException:  # Ctrl-C, say
            _kill(running)
            self._answer()
            raise
        finally:
            late.cancel()
        if status == -signal.SIGKILL:
            raise TimeoutError(f"ansible-playbook {shlex.join(argv)}: not done after {timeout:g} s")
        return status

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def end(self) -> None:
        self._process.communicate()


def _kill(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


_servers: list[_Server] = []


def _server_for(environment: Mapping[str, str]) -> _Server:
    """One at a time, since each keeps Ansible in memory."""
    if not _servers or _servers[0].environment != dict(environment):
        _end_servers()
        _servers.append(_Server(environment))
    return _servers[0]


@atexit.register
def _end_servers() -> None:
    while _servers:
        _servers.pop().end()


def write_localhost(file: Path) -> Path:
    """An inventory with nobody but Ansible's implicit localhost."""
    its_own = '{ansible_connection: local, ansible_python_interpreter: "{{ ansible_playbook_python }}"}'
    file.parent.mkdir()
    file.write_text(f"---\nall: {{hosts: {{localhost: {its_own}}}}}\n")
    return file
