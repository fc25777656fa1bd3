"""The ``plimsoll`` command: forked from a process that has imported it already, or the installed program.

What sees only what a command does has ``Forked``, which takes a tenth of the time. ``Installed`` is for what
depends on the program itself: how it starts, what it imports, its words in /proc.
"""

from __future__ import annotations

import atexit
import inspect
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.interrupted import heeds_ctrl_c

NO_BRAKE = {
    "OS_BRAKE__PERCENT": "100",
    "OS_BRAKE__FACTOR": "1000000",
    "OS_BRAKE__LOWEST_IOPS": "0",
    "OS_BRAKE__LOWEST_BYTES": "0",
}
"""For a command whose changes the brake would defer, where that is not what is tested; it still defers removals."""

PLIMSOLL = Path(sys.executable).with_name("plimsoll")


checks: list[Callable[[Sequence[str], str], object]] = []
"""Each is called with the words and the output of a command that ended: tests hold its JSON to the schemas."""


class _Checked(subprocess.Popen[str]):
    """``plimsoll``, whose output ``checks`` look at."""

    def communicate(self, *given: Any, **others: Any) -> tuple[str, str]:
        out, err = super().communicate(*given, **others)
        if self.returncode >= 0:  # not killed in the middle of it
            for check in checks:
                check([str(word) for word in list(self.args)[1:]], out)  # type: ignore[call-overload]
        return out, err


class Installed(_Checked):
    """``plimsoll`` with these words, as a shell would start it."""

    def __init__(self, *words: str | Path, **others: Any) -> None:
        # os.environ, as for Forked: readline, which pytest imports, adds COLUMNS to the C library's only.
        super().__init__([PLIMSOLL, *words], preexec_fn=heeds_ctrl_c, **{"text": True, "env": os.environ} | others)


class Forked(_Checked):
    """``plimsoll`` with these words, forked from the server; of ``Popen``'s arguments it takes those in ``TAKEN``.

    It is no child of this process: ``os.wait`` does not know it. User, umask, limits and the seed of hashes are those
    that the server has got from this process when the first command began.
    """

    TAKEN = frozenset({"stdin", "stdout", "stderr", "env", "cwd", "start_new_session", "text", "encoding", "errors"})
    _report: socket.socket

    def __init__(self, *words: str | Path, **others: Any) -> None:
        if unknown := others.keys() - self.TAKEN:
            raise TypeError(f"not for a forked command: {', '.join(sorted(unknown))}")
        super().__init__([PLIMSOLL, *words], **{"text": True} | others)

    # Popen's own methods, of CPython 3.11 to 3.13, for what is not done by fork and waitpid here.

    def _execute_child(self, *given: Any) -> None:
        told = inspect.signature(subprocess.Popen._execute_child).bind(self, *given).arguments  # type: ignore[attr-defined]
        request = {
            "words": [os.fspath(word) for word in told["args"][1:]],
            "environment": dict(os.environ if told["env"] is None else told["env"]),
            "directory": str(told["cwd"] or Path.cwd()),
            "new_session": bool(told["start_new_session"]),
        }
        ends = [told[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        streams = [number if end == -1 else end for number, end in enumerate(ends)]
        self._report = _the_server().begin(request, streams)
        word, number = self._report.recv(64).split()
        if word != b"pid":
            raise RuntimeError("the command server's fork has failed; its standard error says why")
        self.pid = int(number)
        self._child_created = True
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(told[name] for name in pipes))  # type: ignore[attr-defined]

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        try:
            said = self._report.recv(64, socket.MSG_DONTWAIT if wait_flags & os.WNOHANG else 0)
        except BlockingIOError:
            return 0, 0
        self._report.close()
        if not said:
            raise RuntimeError("the command server is gone")
        return self.pid, int(said.split()[1])

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None and self._waitpid_lock.acquire(False):  # type: ignore[attr-defined]
            try:
                pid, status = self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode


class _Server:
    def __init__(self) -> None:
        self.of = os.getpid()
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            script = Path(__file__).with_name("commandserver.py")
            self._process = subprocess.Popen(
                [sys.executable, script, str(theirs.fileno()), PLIMSOLL],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        atexit.register(self._end)

    def begin(self, request: Mapping[str, object], streams: list[int]) -> socket.socket:
        """Returns the socket on which it tells of the process."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, os.fdopen(os.memfd_create("request"), "w+", encoding="utf-8") as content:
            json.dump(request, content)
            content.seek(0)
            socket.send_fds(self._channel, [b"."], [*streams, content.fileno(), theirs.fileno()])
        return ours

    def _end(self) -> None:
        if os.getpid() == self.of:
            self._channel.close()
            self._process.wait()


_server: _Server | None = None
_lock = threading.Lock()


def _the_server() -> _Server:
    global _server
    with _lock:
        if _server is None or _server.of != os.getpid():
            _server = _Server()
        return _server
