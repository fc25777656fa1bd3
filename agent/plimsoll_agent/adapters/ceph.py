"""Asks Ceph's monitors in a process that can be killed: librados itself waits five minutes for a monitor."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

from plimsoll_agent.adapters import program
from plimsoll_agent.errors import Rejected
from plimsoll_agent.model.clusters import Cluster
from plimsoll_agent.reconcile.health_gate import FLAGS, ClusterHealth
from plimsoll_agent.util.ceph_json import are_of_monitors
from plimsoll_agent.util.frozen import frozen

_PYTHON = re.compile(rb"#! ?(/\S*/python3[.\d]*)(?: -[a-zA-Z]+)?\n.*\bceph_argparse\b", re.DOTALL)
"""Ceph's own program: this module of Ceph reads its words."""
_SUMMED = ("SLOW_OPS", "PENDING_CREATING_PGS")
"""The mgr adds up what daemons tell: the count of these is 1, and the sum is in their text only."""
_SUM = re.compile(r"(\d{1,9}) ", re.ASCII)
_PAUSE = re.compile(r"\bpause(?:rd|wr)\b")
_BEGIN = 1 << 14
_ASKING_MONITORS = Path(__file__).with_name("asking_monitors.py")


@frozen(kw_only=True)
class CephProgram:
    """``ceph``, or where that is Ceph's own the interpreter of it: with Ceph's binding a fifth of the work."""

    conf: Path
    client: str
    """``plimsoll`` for ``client.plimsoll``."""
    deadline: float
    """Seconds, which the caller holds it to; told to librados as well, in whole ones."""
    command: str = "ceph"

    def argv(self, words: Sequence[str], question: str | None) -> list[str]:
        """Of ``ceph WORDS``, which is that question; None: only ``ceph`` itself has the answer, which is JSON."""
        if question is not None and (librados := self.librados_argv()) is not None:
            return [*librados, question]
        options = ["--conf", str(self.conf), "--id", self.client, "--connect-timeout", self._seconds]
        return [self.command, *options, "--format", "json", *words]

    def librados_argv(self) -> list[str] | None:
        """Of a program that answers a ``question``, or each of its input; None for a site's own ``ceph``."""
        if (path := shutil.which(self.command)) is None:
            return None
        try:
            with Path(path).open("rb") as file:
                match = _PYTHON.match(file.read(_BEGIN))
        except OSError:
            return None
        if match is None:
            return None
        return [os.fsdecode(match[1]), "-I", str(_ASKING_MONITORS), str(self.conf), self.client, self._seconds]

    @property
    def _seconds(self) -> str:
        return str(max(1, int(self.deadline)))


def question(*words: str, **arguments: object) -> str:
    """As monitors take it: the command's name, and arguments by theirs; ``to`` is another daemon that takes it."""
    return json.dumps({"prefix": " ".join(words), "format": "json", **arguments})


def environment() -> dict[str, str]:
    """Ours without ``CEPH_ARGS``, which would add arguments, and with messages in English."""
    return {name: value for name, value in os.environ.items() if name != "CEPH_ARGS"} | {"LC_ALL": "C"}


@frozen
class Ceph:
    """Asks ``ceph status`` as a client with ``mon 'allow r'``."""

    client: str
    """``plimsoll`` for ``client.plimsoll``."""
    deadline: float
    """Seconds."""
    command: str = "ceph"

    def health(self, cluster: Cluster) -> ClusterHealth:
        """The health checks that are raised, muted ones too: a muted problem is still there.

        Raises ``Unreachable`` without a ``ceph`` command, ``DeadlineExceeded``, ``Rejected`` when ``ceph`` fails or
        its output cannot be read.
        """
        return parse(self._run(cluster, "status"))

    def maps(self, cluster: Cluster) -> list[tuple[str, bytes]]:
        """Its pools and CRUSH rules, as two commands print them. Raises as ``health``."""
        commands = (("osd", "dump"), ("osd", "crush", "dump"))
        return [(f"ceph {' '.join(words)}", self._run(cluster, *words)) for words in commands]

    def _run(self, cluster: Cluster, *words: str) -> bytes:
        ceph = CephProgram(conf=cluster.conf, client=self.client, deadline=self.deadline, command=self.command)
        argv = ceph.argv(words, question(*words))
        result = program.run("Ceph", argv, self.deadline, environment=environment())
        if result.status != 0:
            raise Rejected(f"ceph ended with {result.status}: {result.last_complaint}")
        return result.out


def _texts(checks: dict[str, Any]) -> dict[str, str]:
    summaries = {name: _summary(check).get("message") for name, check in sorted(checks.items())}
    return {name: text[:200] for name, text in summaries.items() if isinstance(text, str)}


def _counts(checks: dict[str, Any], texts: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    """The number of each check that has one. Ceph has counts since Octopus; 0 stands for a check without a number."""
    for name, check in checks.items():
        count = _summary(check).get("count")
        if name in _SUMMED:
            match = _SUM.match(texts.get(name, ""))
            count = int(match[1]) if match else None
        if _is_number(count) and count:
            yield name, count


def _summary(check: object) -> dict[str, Any]:
    summary = check.get("summary") if isinstance(check, dict) else None
    return summary if isinstance(summary, dict) else {}


def _osds(status: dict[str, Any]) -> int | None:
    """How many OSDs the cluster has. Before Octopus ``osdmap`` was nested in another ``osdmap``."""
    osdmap = status.get("osdmap")
    if isinstance(osdmap, dict) and isinstance(osdmap.get("osdmap"), dict):
        osdmap = osdmap["osdmap"]
    number = osdmap.get("num_osds") if isinstance(osdmap, dict) else None
    return number if _is_number(number) else None


def _is_number(value: object) -> TypeGuard[int]:
    return type(value) is int and value >= 0


def parse(answer: bytes) -> ClusterHealth:
    """Parses ``ceph status --format json``. Raises ``Rejected``."""
    try:
        status = json.loads(answer)
        checks = status["health"]["checks"]
        if not isinstance(checks, dict) or not isinstance(status["fsid"], str):
            raise ValueError("checks or fsid has another type")
        texts = _texts(checks)
        return ClusterHealth(
            fsid=status["fsid"],
            raised=tuple(sorted(checks)),
            words=tuple(texts.values()),
            counts=dict(_counts(checks, texts)),
            osds=_osds(status),
            paused=tuple(_PAUSE.findall(texts.get(FLAGS, ""))),
            monitors_are_slow=are_of_monitors(texts.get("SLOW_OPS", "")),
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        # Not repr(): a UnicodeDecodeError's contains the whole answer.
        raise Rejected(f"ceph status cannot be read: {type(error).__name__}: {error}") from error
