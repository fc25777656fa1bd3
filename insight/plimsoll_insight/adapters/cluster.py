"""A running cluster, through ``ceph`` in a process that can be killed."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from plimsoll_agent.adapters import program
from plimsoll_agent.errors import Rejected
from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.slow import dumps, tree
from plimsoll_insight.slow.events import SlowRequest


@frozen
class LiveCluster:
    """As a client that may ``tell`` OSDs: one with ``osd 'allow *'``, as ``client.admin`` has."""

    conf: Path
    client: str
    deadline: float
    """Seconds, for each question."""
    command: str = "ceph"

    def tree(self) -> tree.Tree:
        """Raises ``Unreachable``, ``DeadlineExceeded``, ``Rejected``, ``UnreadableTree``."""
        return tree.parsed(self._run("osd", "tree").decode("utf-8", "replace"), "ceph osd tree")

    def up(self) -> list[int]:
        """The OSDs that are up. Raises as ``tree`` does."""
        told = json.loads(self._run("osd", "tree"))
        return [node["id"] for node in told["nodes"] if node["type"] == "osd" and node.get("status") == "up"]

    def requests(self, osd: int) -> Sequence[SlowRequest]:
        """The slow requests that the OSD remembers, and those it has now. Raises as ``tree`` does."""
        found = []
        for question in ("dump_historic_slow_ops", "dump_blocked_ops"):
            words = self._run("tell", f"osd.{osd}", question)
            found += dumps.requests(words, osd, f"{question} of osd.{osd}")
        return found

    def _run(self, *words: str) -> bytes:
        argv = [self.command, "--conf", str(self.conf), "--id", self.client]
        argv += ["--connect-timeout", str(max(1, int(self.deadline))), "--format", "json", *words]
        environment = {name: value for name, value in os.environ.items() if name != "CEPH_ARGS"} | {"LC_ALL": "C"}
        ended = program.run("Ceph", argv, self.deadline, environment=environment)
        if ended.status != 0:
            raise Rejected(f"ceph {' '.join(words)} ended with {ended.status}: {ended.last_complaint}")
        return ended.out
