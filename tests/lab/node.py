"""The ``plimsoll`` command on the lab's libvirtd, with settings, rules and state of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plimsoll_agent.state import State
from tests.lab.cloud import Cloud


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    status: int
    out: str
    err: str

    def data(self) -> Any:
        return json.loads(self.out)


class Node:
    """A compute node as its operator has it."""

    def __init__(
        self, home: Path, cloud: Cloud, rules: str = "{}\n", mode: str = "enforce", deadline: float = 5
    ) -> None:
        self._home = home
        self.state = State(home / "state")
        self._settings = home / "plimsoll.conf"
        self._settings.write_text(
            f"[DEFAULT]\nmode = {mode}\nrules_file = {home}/rules.yaml\nstate_dir = {home}/state\n"
            f"[libvirt]\nuri = {cloud.libvirt_uri}\ndeadline = {deadline}\n"
        )
        self.write_rules(rules)

    def write_rules(self, text: str) -> None:
        (self._home / "rules.yaml").write_text(text)

    def start(self, *words: str) -> subprocess.Popen[str]:
        command = [str(Path(sys.executable).with_name("plimsoll")), "--config-file", str(self._settings), *words]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"COLUMNS": "200"}
        )

    def run(self, *words: str, timeout: float = 60) -> Ran:
        process = self.start(*words)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return Ran(process.returncode, out, err)
