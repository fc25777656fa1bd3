"""The namespace that the cloud lives in, seen from outside."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from .command import LabError
from .layout import CHECKOUT, COVERED, COVERED_FILES, Layout

# Of plimsoll's image, by packaging/container/Containerfile.
CONTAINER_USER = 42990
# Of which systemd-sysusers takes the highest that is free.
SYSTEM_USERS = range(900, 1000)

# A supervisor outlives the program that started it, where its cloud is to stay up. Python warns of a process that
# still runs when its object goes, so the object stays.
_started: list[subprocess.Popen[bytes]] = []


class Namespace:
    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._process: subprocess.Popen[bytes] | None = None  # when started by this very program
        self.given_up = threading.Event()

    def check_desired(self) -> None:
        """For loops that wait for something in it. Raises LabError when whoever brings it up was interrupted."""
        if self.given_up.is_set():
            raise LabError("interrupted")

    def supervisor_pid(self) -> int | None:
        """Pid on this host, or None when there is no supervisor."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            try:
                connection.connect(str(self.layout.supervisor_socket))
            except (FileNotFoundError, ConnectionRefusedError):
                return None
            # The kernel translates the peer's pid into the asker's namespace, so no pid file can be stale.
            peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            return int(struct.unpack("3i", peer)[0])

    def start(self) -> None:
        """Start a supervisor over an empty root. The caller holds the root's lock."""
        self._write_accounts()
        covered = COVERED | {file.lstrip("/"): file for file in COVERED_FILES}
        # It may lie below one of the directories that are covered.
        shown = {
            self.layout.cache_inside.name: str(self.layout.cache),
            self.layout.checkout_inside.name: str(CHECKOUT),
            self.layout.python_inside.name: sys.prefix,
        }
        self.layout.cache.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.layout.alive, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            # Whoever inherits the descriptor lives in the namespace, so the lock goes with the last of them.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            with (self.layout.root / "supervisor.log").open("ab") as log:
                self._process = subprocess.Popen(
                    [
                        *("unshare", "--fork", "--pid", "--mount-proc", "--mount", "--kill-child", "--"),
                        *(sys.executable, "-I", str(Path(__file__).with_name("supervisor.py"))),
                        *(str(self.layout.root), json.dumps(shown), json.dumps(covered)),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(descriptor,),
                    start_new_session=True,
                    cwd="/",
                )
        finally:
            os.close(descriptor)
        _started.append(self._process)
        deadline = time.monotonic() + 10
        while self.supervisor_pid() is None:
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._process.kill()
                said = (self.layout.root / "supervisor.log").read_text().strip().splitlines()
                raise LabError(f"the namespace did not start: {said[-1] if said else 'no word from unshare'}")
            time.sleep(0.02)

    def _write_accounts(self) -> None:
        """What daemons look up beyond the machine's own accounts.

        Debian's libvirtd wants its user before it reads qemu.conf, and would need one more package. And it turns away
        clients whose user or group has no name (virNetServerClientCreateIdentity), so the system users of the fleet's
        hosts, which come from outside as to a libvirtd in a container, have one each.
        """
        etc = self.layout.root / "etc"
        etc.mkdir(exist_ok=True)
        names = {64055: "libvirt-qemu", CONTAINER_USER: "plimsoll"} | {
            number: f"of-a-host-{number}" for number in SYSTEM_USERS
        }
        for file, line in (
            ("passwd", "{name}:x:{id}:{id}::/nonexistent:/usr/sbin/nologin\n"),
            ("group", "{name}:x:{id}:\n"),
        ):
            text = Path("/etc", file).read_text()
            known = {entry.split(":")[2] for entry in text.splitlines() if entry.count(":") > 2}
            more = "".join(line.format(name=name, id=id) for id, name in names.items() if str(id) not in known)
            (etc / file).write_text(text + more)

    def kill(self) -> None:
        """End every process of the namespace; returns when all are gone."""
        deadline = time.monotonic() + 15
        while not self._nobody_alive():
            pid = self.supervisor_pid()
            if pid is not None:
                kill_and_wait(pid)
            if time.monotonic() > deadline:
                raise LabError(f"{self.layout.alive} stays locked: something of the cloud does not die")
            time.sleep(0.02)
        if self._process:
            self._process.wait()
            self._process = None

    def _nobody_alive(self) -> bool:
        """Covers the moment in which a supervisor was started but does not listen yet."""
        if not self.layout.alive.exists():
            return True
        with self.layout.alive.open("r") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    def spawn(self, name: str, argv: list[str], log: Path) -> None:
        answer = self._ask({"start": name, "argv": argv, "log": str(log)})
        if "error" in answer:
            raise LabError(answer["error"])

    def daemons(self) -> dict[str, int]:
        """Living daemons and their pids on this host."""
        if self.supervisor_pid() is None:
            return {}
        inner = self._ask({})["alive"]
        seen = self._host_pids()
        return {name: seen[pid] for name, pid in inner.items() if pid in seen}

    def host_pid(self, inner: int) -> int | None:
        return self._host_pids().get(inner)

    def _host_pids(self) -> dict[int, int]:
        """Pid inside the namespace → pid on this host."""
        supervisor = self.supervisor_pid()
        if supervisor is None:
            return {}
        ours = Path(f"/proc/{supervisor}/ns/pid").stat().st_ino
        pids = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if (entry / "ns/pid").stat().st_ino == ours:
                    pids[_innermost_pid(entry)] = int(entry.name)
            except (OSError, ValueError):
                continue  # ended while we looked
        return pids

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(10)
            try:
                connection.connect(str(self.layout.supervisor_socket))
                connection.sendall((json.dumps(request) + "\n").encode())
                line = connection.makefile("r").readline()
            except OSError as error:
                raise LabError(f"the cloud's supervisor does not answer: {error}") from None
        if not line:
            raise LabError("the cloud's supervisor hung up")
        answer: dict[str, Any] = json.loads(line)
        return answer


def _innermost_pid(entry: Path) -> int:
    for line in (entry / "status").read_text().splitlines():
        if line.startswith("NSpid:"):
            return int(line.split()[-1])
    raise ValueError(entry)


def kill_and_wait(pid: int, timeout: float = 15) -> None:
    """SIGKILL, and return when the process is gone. For process 1 of a namespace: when all of it are gone."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        if not select.select([descriptor], [], [], timeout)[0]:
            raise LabError(f"process {pid} does not die")
    except ProcessLookupError:
        pass
    finally:
        os.close(descriptor)
