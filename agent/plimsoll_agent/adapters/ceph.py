"""Ceph's own command line, in a process that can be killed: librados by itself waits five minutes for a monitor."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass

from plimsoll_agent.clusters import Cluster
from plimsoll_agent.errors import PlimsollError, Rejected, Unanswered, Unreachable
from plimsoll_agent.gate import ClusterHealth

_LONGEST_ANSWER = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Ceph:
    """``ceph status`` as a client that needs no more than ``mon 'allow r'``."""

    client: str
    """``plimsoll`` for ``client.plimsoll``."""
    deadline: float
    """Seconds."""
    command: str = "ceph"

    def health(self, cluster: Cluster) -> ClusterHealth:
        """The checks that are raised now, muted ones too: a mute says that somebody knows, not that it is well.

        Raises ``Unreachable`` without a ``ceph`` command, ``Unanswered`` after the deadline, ``Rejected`` when
        the answer is no, or none that can be read.
        """
        return parse(self._run(cluster, "status"))

    def _run(self, cluster: Cluster, *words: str) -> bytes:
        argv = [self.command, "--conf", str(cluster.conf), "--id", self.client]
        argv += ["--connect-timeout", str(max(1, int(self.deadline))), "--format", "json", *words]
        try:
            # A session of its own: what it starts is killed with it.
            process = subprocess.Popen(  # noqa: S603  # a list of words, no shell
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=_environment(),
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise Unreachable(f"{self.command}: cannot be run: {why}") from error
        try:
            out, complaint = _said(process, time.monotonic() + self.deadline)
        except TimeoutError as error:
            raise Unanswered(f"no answer from Ceph within {self.deadline:g} s") from error
        finally:
            _end(process)
        if process.returncode != 0:
            raise _translated(process.returncode, complaint)
        return out


def _environment() -> dict[str, str]:
    """Ours, without what would put words into the command, and with messages that are the same everywhere."""
    return {name: value for name, value in os.environ.items() if name != "CEPH_ARGS"} | {"LC_ALL": "C"}


def _said(process: subprocess.Popen[bytes], end: float) -> tuple[bytes, bytes]:
    """What it says until it ends. Raises ``TimeoutError`` then, ``Rejected`` when it will not stop."""
    streams = [stream for stream in (process.stdout, process.stderr) if stream is not None]
    said = {stream.fileno(): bytearray() for stream in streams}
    with selectors.DefaultSelector() as selector:
        for number in said:
            selector.register(number, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select(_left(end)):
                more = os.read(key.fd, 65536)
                said[key.fd] += more
                if not more:
                    selector.unregister(key.fd)
                elif len(said[key.fd]) > _LONGEST_ANSWER:
                    raise Rejected(f"ceph says more than {_LONGEST_ANSWER // 2**20} MiB")
    # Not wait(): while nobody has reaped it, its number is that of its group, and of no other.
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        time.sleep(min(0.01, _left(end)))
    out, complaint = (bytes(words) for words in said.values())
    return out, complaint


def _left(end: float) -> float:
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of it and of what it started, and reap it; one that even that does not stop is left."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=1)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def _translated(status: int, complaint: bytes) -> PlimsollError:
    lines = [line.strip() for line in complaint.decode("utf-8", "replace").splitlines() if line.strip()]
    return Rejected(f"ceph ended with {status}: {lines[-1][:300] if lines else 'without a word'}")


def parse(answer: bytes) -> ClusterHealth:
    """``ceph status --format json``. Raises ``Rejected`` for what is none."""
    try:
        status = json.loads(answer)
        checks = status["health"]["checks"]
        if not isinstance(checks, dict) or not isinstance(status["fsid"], str):
            raise ValueError("checks or fsid are something else")
        return ClusterHealth(status["fsid"], tuple(sorted(checks)))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        # Not repr(): that of a UnicodeDecodeError has the whole answer in it.
        raise Rejected(f"ceph status cannot be read: {type(error).__name__}: {error}") from error
