"""The process that has imported what commands import, and forks them: see ``lab/command.py``, which starts it.

    python lab/commandserver.py CHANNEL SCRIPT

It has one thread, and nothing but what was imported: each command is a process of its own, with its own settings,
environment and descriptors. Each message on CHANNEL has five descriptors: the command's standard input, output and
error, a file with the rest of the request, and the socket for the report. There the new process writes ``pid N``
when it has the signals of a command, and this one ``status N`` when it has ended, as ``os.wait`` tells it. The
process stays a zombie, and so its number its own, until the other end of that socket is closed. When CHANNEL
closes, what still runs is killed.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import os
import posix
import runpy
import selectors
import signal
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, ClassVar

GROUP = "plimsoll.commands"
# Imported by functions, each with what it imports. matplotlib stays with the one command that plots: it reads the
# environment, and writes caches.
LATE = (
    "keystoneauth1.loading._plugins.identity.generic",
    "libvirt_qemu",
    "openstack.config",
    "openstack.exceptions",
    "plimsoll_agent.adapters.ed25519",
    "plimsoll_agent.adapters.https",
    "plimsoll_agent.adapters.openstack",
    "plimsoll_monitoring.adapters.prometheus",
    "rich.console",
    "rich.progress",
    "rich.table",
)
# What the interpreter, libc and libvirt read when they start.
EARLY = ("COVERAGE_", "GLIBC_", "LANG", "LC_", "LD_", "LIBVIRT_", "MALLOC_", "OPENSSL_", "PYTHON", "TZ")


class _Noting(type(os.environ)):  # type: ignore[misc]
    """The environment while modules are imported: it keeps the names of what they read."""

    names: ClassVar[set[str]] = set()

    def __getitem__(self, key: str) -> str:
        self.names.add(key)
        value: str = super().__getitem__(key)
        return value


def preload(script: Path) -> frozenset[str]:
    """Import it all; returns the names of the variables of the environment that had a part in that."""
    sys.path[0], sys.argv[:] = str(script.parent), [str(script)]  # which cliff looks at when it is imported
    importlib.import_module("wsgiref.handlers")  # copies the environment, for a CGI that no command is
    plain = type(os.environ)
    os.environ.__class__ = _Noting
    for point in distribution("plimsoll-agent").entry_points.select(group=GROUP):
        point.load()
    for name in ("plimsoll_agent.terminal.main", *LATE):
        importlib.import_module(name)
    os.environ.__class__ = plain
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads != 1 or threading.active_count() != 1:
        raise RuntimeError("an import has begun a thread, which a fork would lose")
    return frozenset(_Noting.names)


@dataclass(frozen=True)
class Request:
    """A command to become."""

    streams: tuple[int, ...]
    words: list[str]
    environment: dict[str, str]
    directory: str
    new_session: bool
    report: socket.socket


class Server:
    """What runs, and who is told of its end."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._selector = selectors.DefaultSelector()
        self._selector.register(channel, selectors.EVENT_READ)
        self._running: dict[int, tuple[int, socket.socket]] = {}  # by pidfd
        self._ended: dict[socket.socket, int] = {}

    def serve(self) -> Request:
        """Returns in each new process, with what it is to be; in this one never."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._channel:
                    if (request := self._accept()) is not None:
                        return request
                elif isinstance(key.fileobj, int):
                    self._tell(key.fileobj)
                else:
                    self._collect(key.fileobj)

    def _accept(self) -> Request | None:
        message, descriptors, _, _ = socket.recv_fds(self._channel, 1, 5)
        if not message:
            for pid, _ in self._running.values():
                os.kill(pid, signal.SIGKILL)
            sys.exit()
        *streams, content, report = descriptors
        said = socket.socket(fileno=report)
        pid = os.fork()
        if pid == 0:
            self._forget()
            with os.fdopen(content, encoding="utf-8") as file:
                return Request(tuple(streams), **json.load(file), report=said)
        for descriptor in (*streams, content):
            os.close(descriptor)
        pidfd = os.pidfd_open(pid)
        self._running[pidfd] = pid, said
        self._selector.register(pidfd, selectors.EVENT_READ)
        return None

    def _tell(self, pidfd: int) -> None:
        ended = os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        _, report = self._running.pop(pidfd)
        status = ended.si_status << 8 if ended.si_code == os.CLD_EXITED else ended.si_status
        with contextlib.suppress(OSError):  # the test has gone on without it
            report.send(b"status %d" % status)
        self._selector.unregister(pidfd)
        self._ended[report] = pidfd
        self._selector.register(report, selectors.EVENT_READ)

    def _collect(self, report: socket.socket) -> None:
        self._selector.unregister(report)
        pidfd = self._ended.pop(report)
        os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
        os.close(pidfd)
        report.close()

    def _forget(self) -> None:
        """Close all that is this server's own."""
        self._selector.close()
        self._channel.close()
        for pidfd, (_, report) in self._running.items():
            os.close(pidfd)
            report.close()
        for report, pidfd in self._ended.items():
            os.close(pidfd)
            report.close()


def become(request: Request, script: Path, read_early: frozenset[str]) -> None:
    """Take over what a new process has from its parent, and what the interpreter makes of it when it starts.

    Returns when the command may run. Replaces this process by it where an import would have gone another way.
    """
    if request.new_session:
        os.setsid()
    os.chdir(request.directory)
    for number, descriptor in enumerate(request.streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    differing = {name for name, _ in request.environment.items() ^ os.environ.items()}
    other = any(name in read_early or name.startswith(EARLY) for name in differing)
    # As lab/interrupted.py has them.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if other:
        for name in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores, and a new program must not
            signal.signal(name, signal.SIG_DFL)
    request.report.send(b"pid %d" % os.getpid())
    request.report.close()
    if other:
        os.execve(script, [str(script), *request.words], request.environment)
    os.environ.clear()
    os.environ.update(request.environment)
    for name, mode, descriptor in (("stdin", "r", 0), ("stdout", "w", 1), ("stderr", "w", 2)):
        setattr(sys, name, _stream(getattr(sys, name), mode, descriptor))
        setattr(sys, f"__{name}__", getattr(sys, name))
    sys.argv[1:] = request.words


def _stream(old: io.TextIOWrapper, mode: str, descriptor: int) -> io.TextIOWrapper:
    """As pylifecycle.c makes it: lines are sent out at once to a terminal, and always from standard error."""
    unbuffered = mode == "w" and old.write_through  # PYTHONUNBUFFERED
    raw: Any = os.fdopen(descriptor, f"{mode}b", buffering=0 if unbuffered else -1, closefd=False)
    by_line = mode == "w" and not unbuffered and (descriptor == 2 or os.isatty(descriptor))
    again = {"newline": "\n", "line_buffering": by_line, "write_through": old.write_through}
    return io.TextIOWrapper(raw, old.encoding, old.errors, **again)


def keep_coverage_of_imports() -> Callable[[], None]:
    """What begins to measure a command, if coverage is measured; to make that ready takes longer than most commands.

    What was measured of the imports is written once, and not by every command again.
    """
    coverage = sys.modules.get("coverage")  # which .pth files import where COVERAGE_PROCESS_START is set
    if coverage is None:
        return lambda: None
    measured, way_out = coverage.Coverage.current(), os._exit
    measured.stop()
    measured.save()
    os._exit = posix._exit

    def begin() -> None:
        os._exit = way_out  # saves first; the file has another name, as the process has another number
        measured.start()

    return begin


def main() -> None:
    channel, script = socket.socket(fileno=int(sys.argv[1])), Path(sys.argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, which then close the channel
    read_early = preload(script)
    measure = keep_coverage_of_imports()
    gc.freeze()  # else the first collection of each command copies every page
    request = Server(channel).serve()
    become(request, script, read_early)
    measure()
    runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main()
