"""A running cluster, through ``ceph`` in a process that can be killed."""

from __future__ import annotations

import errno
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from plimsoll_agent.adapters import program
from plimsoll_agent.adapters.ceph import CephProgram, environment, question
from plimsoll_agent.errors import DeadlineExceeded, Rejected, Unreachable
from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.adapters.conversation import Conversation
from plimsoll_insight.drill import status as answers
from plimsoll_insight.drill.status import ClusterCounts, LogLine
from plimsoll_insight.forecast import failures, settings
from plimsoll_insight.ordered_return import cluster as osds
from plimsoll_insight.slow import dumps, pools, tree
from plimsoll_insight.slow.events import LogClock, SlowRequest
from plimsoll_insight.slow.tree import NO_OSD

OF_MONITORS = frozenset({
    "config dump", "df", "fs dump", "fsid", "mds metadata",
    "mgr dump", "osd dump", "osd lspools", "osd tree", "status",
})  # fmt: skip
"""Commands without arguments that monitors answer themselves, and no manager."""
_LONGEST = 256 * 2**20
"""Bytes of an answer. ``pg dump pgs_brief`` has some 130 a placement group, ``osd dump`` some 1500 an OSD."""


@frozen
class Map:
    """The OSDs that are up and down, and where they are."""

    tree: tree.Tree
    up: Sequence[int]
    down: Sequence[int]


@frozen
class OsdRequests:
    """The slow requests that an OSD remembers, the last 20, and those it has now."""

    requests: Sequence[SlowRequest]
    is_full: bool


@frozen(kw_only=True)
class LiveCluster:
    """As a client that may ``tell`` OSDs: one with ``mon 'allow r' osd 'allow *'``, as ``client.admin`` has."""

    conf: Path
    client: str
    deadline: float
    """Seconds, for each question."""
    command: str = "ceph"
    rbd: str = "rbd"
    osdmaptool: str = "osdmaptool"

    @property
    def remedy(self) -> str:
        """Where the client may not ask."""
        return f"; client.{self.client} may not: name another by --id"

    def map(self) -> Map:
        """Raises ``Unreachable``, ``DeadlineExceeded``, ``Rejected``, ``UnreadableTree``."""
        words = self._run("osd", "tree").decode("utf-8", "replace")
        osd_tree = tree.parse(words, "ceph osd tree")
        try:
            answer = json.loads(words)
            status = {
                int(node["id"]): node.get("status")
                for node in (*answer["nodes"], *answer.get("stray", ()))
                if node["type"] == "osd"
            }
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise tree.UnreadableTree("ceph osd tree: not the JSON that it prints with -f json") from error
        up = [osd for osd, word in status.items() if word == "up"]
        return Map(osd_tree, up, [osd for osd in status if osd not in set(up)])

    def requests(self, osd: int, end: float, clock: LogClock) -> OsdRequests:
        """Until ``end`` of the monotonic clock. Raises as ``map`` does."""
        slow: list[SlowRequest] = []
        is_full = False
        for dump in ("dump_historic_slow_ops", "dump_blocked_ops"):
            rest = min(self.deadline, end - time.monotonic())
            if rest <= 0:
                raise DeadlineExceeded("not asked: the time for all OSDs has ended")
            words = self._run("tell", f"osd.{osd}", dump, deadline=rest)
            slow += dumps.requests(words, osd, f"{dump} of osd.{osd}", clock)
            is_full |= dumps.is_full(words)
        return OsdRequests(slow, is_full)

    def placement(self) -> failures.Placement:
        """Raises as ``map`` does, and ``UnreadablePlacement``."""
        words = (("pg", "dump", "pgs_brief"), ("osd", "pool", "ls", "detail"), ("df",))
        return failures.placement(*(self._run(*each).decode("utf-8", "replace") for each in words))

    def osd_map(self, epoch: int | None = None) -> osds.OsdMap:
        """As it is, or was at this epoch. Raises as ``map`` does."""
        words = () if epoch is None else (str(epoch),)
        return osds.osd_map(self._run("osd", "dump", *words).decode("utf-8", "replace"))

    def groups(self) -> dict[str, osds.ReturnGroup]:
        """The placement groups as they are. Raises as ``map`` does."""
        return osds.groups(self._run("pg", "dump", "pgs_brief").decode("utf-8", "replace"))

    def log_sizes(self) -> dict[str, int]:
        """Entries in the logs of placement groups, by their ids. Raises as ``map`` does."""
        return osds.log_sizes(self._run("pg", "dump", "pgs").decode("utf-8", "replace"))

    def full_placement(self, osd_map: osds.OsdMap) -> dict[str, tuple[int, ...]]:
        """Where they are while all OSDs are up that could return. Raises as ``map`` does."""
        with tempfile.TemporaryDirectory(prefix="plimsoll-") as directory:
            file = f"{directory}/osdmap"
            self._run("osd", "getmap", "-o", file)
            # --mark-up-in would fill those too that are out or destroyed, and forget the reweights of all. One that
            # is up takes one OSD a run, and keeps it where a weight is adjusted: that of none here (osdmaptool.cc).
            for osd in osd_map.down:
                is_in = ("--mark-in", str(osd)) if osd_map.osds[osd].is_auto_out else ()
                self._map_tool(file, "--mark-up", str(osd), *is_in, "--adjust-crush-weight", f"{NO_OSD}:0", "--save")
            # A temporary placement stays while its last OSD is up, and hides those that were members before.
            answer = self._map_tool(file, "--clear-temp", "--test-map-pgs-dump")
        return osds.full_placement(answer.decode("utf-8", "replace"))

    def _map_tool(self, *words: str) -> bytes:
        try:
            return self._run_program("osdmaptool", [self.osdmaptool, *words], self.deadline)
        except Unreachable as error:
            raise Unreachable(f"{error} (Debian has it in the package ceph-base)") from error

    def health(self) -> tuple[ClusterCounts, osds.ReturnHealth]:
        """Both of one answer. Raises as ``map`` does."""
        words = self._run("status").decode("utf-8", "replace")
        return answers.status(words), osds.health(words)

    def osd_section(self) -> dict[str, str]:
        """What is set for all OSDs. Raises as ``map`` does."""
        return osds.osd_section(self._run("config", "dump").decode("utf-8", "replace"))

    def osd_settings(self, osd: int) -> settings.OsdSettings:
        """What it has in force. Raises as ``map`` does, and ``UnreadableSettings``."""
        values = self._run("config", "show-with-defaults", f"osd.{osd}").decode("utf-8", "replace")
        return settings.osd(values, self._run("osd", "metadata", str(osd)).decode("utf-8", "replace"), osd)

    def manager_settings(self) -> settings.Values:
        """Of the active manager. Raises as ``osd_settings`` does."""
        try:
            name = f"mgr.{json.loads(self._run('mgr', 'dump'))['active_name']}"
        except (ValueError, KeyError, TypeError) as error:
            raise settings.UnreadableSettings("ceph mgr dump: no active_name") from error
        return settings.values(self._run("config", "show-with-defaults", name).decode("utf-8", "replace"), name)

    def counters(self, osd: int) -> settings.Counters:
        """Raises as ``osd_settings`` does."""
        words = self._run("tell", f"osd.{osd}", "perf", "dump")
        return settings.counters(words.decode("utf-8", "replace"), osd)

    def pools(self) -> dict[int, str]:
        """By their numbers. Raises as ``map`` does."""
        return pools.parse(self._run("osd", "lspools").decode("utf-8", "replace"), "ceph osd lspools")

    def image(self, pool: str, id: str, end: float) -> str:
        """The name of the image with this id, in this pool. Until ``end``, and raises, as ``requests``."""
        rest = min(self.deadline, end - time.monotonic())
        if rest <= 0:
            raise DeadlineExceeded("not asked: the time for all images has ended")
        words = ("info", "--pool", pool, "--image-id", id, "--format", "json")
        argv = [self.rbd, "--conf", str(self.conf), "--id", self.client, *words]
        answer = self._run_program(f"rbd info --image-id {id}", argv, rest)
        try:
            return str(json.loads(answer)["name"])
        except (ValueError, KeyError, TypeError) as error:
            raise Rejected(f"rbd info: no name of image {id}") from error

    def ask(self, *words: str) -> str:
        """What ``ceph WORDS`` answers, in JSON. Raises as ``map`` does."""
        return self._run(*words).decode("utf-8", "replace")

    def _run(self, *words: str, deadline: float | None = None) -> bytes:
        deadline = deadline or self.deadline
        argv = self.program(deadline).argv(words, librados_question(words))
        return self._run_program(f"ceph {' '.join(words)}", argv, deadline)

    def program(self, deadline: float) -> CephProgram:
        return CephProgram(conf=self.conf, client=self.client, deadline=deadline, command=self.command)

    def _run_program(self, question: str, argv: Sequence[str], deadline: float) -> bytes:
        try:
            run = program.run("Ceph", argv, deadline, environment=environment(), longest=_LONGEST)
        except Rejected as error:
            raise Rejected(f"{question}: the answer is longer than {_LONGEST // 2**20} MiB") from error
        if run.status != 0:
            remedy = self.remedy if run.status == errno.EACCES else ""
            raise Rejected(f"{question} ended with {run.status}: {run.last_complaint}{remedy}")
        return run.out


def librados_question(words: Sequence[str]) -> str | None:
    """None for a command of other daemons, or one with arguments, whose names only ``ceph`` knows."""
    match words:
        case ("tell", daemon, *command) if daemon.startswith("osd."):
            return question(*command, to=daemon)
        case ("pg", "dump", contents):
            return question("pg", "dump", to="mgr", dumpcontents=[contents])
        case _:
            return question(*words) if " ".join(words) in OF_MONITORS else None


class StandingCluster:
    """The same cluster, asked each second: by one process, where librados can be asked. For one thread.

    Raises as ``LiveCluster.map`` does.
    """

    def __init__(self, cluster: LiveCluster) -> None:
        self._cluster = cluster
        argv = cluster.program(cluster.deadline).librados_argv()
        self._conversation = None if argv is None else Conversation(argv, environment())

    def status(self) -> ClusterCounts:
        return answers.status(self._ask(question("status"), "status"))

    def log(self, most: int) -> list[LogLine]:
        """The last lines of the cluster's log, without those for debugging."""
        lines = question("log", "last", num=most, level="info", channel="cluster")
        return answers.log(self._ask(lines, "log", "last", str(most), "info", "cluster"))

    def _ask(self, question: str, *words: str) -> str:
        if self._conversation is None:
            return self._cluster.ask(*words)
        try:
            return self._conversation.ask(question, self._cluster.deadline).decode("utf-8", "replace")
        except Rejected as error:
            is_forbidden = any(word in str(error) for word in ("EACCES", "[errno 13]"))
            raise Rejected(f"{error}{self._cluster.remedy if is_forbidden else ''}") from error
