"""The first process of the cloud's own process and mount namespace: starts its daemons and reaps them.

Run by file, isolated from the package, as process 1 behind `unshare --pid --mount`. When it dies, of whatever
cause, the kernel ends every process of the namespace with it, and its mounts are gone.

It answers on a unix socket, one JSON line each way:
{"start": NAME, "argv": [...], "log": FILE} -> {"pid": N} or {"error": TEXT}; {} -> {"alive": {NAME: N}}.
All pids are those inside the namespace.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any


def main(root: Path, shown: dict[str, str], covered: dict[str, str]) -> None:
    for private, public in shown.items():
        (root / private).mkdir(exist_ok=True)
        subprocess.run(["mount", "-o", "bind,ro", public, root / private], check=True)
    for private, public in covered.items():
        if not (root / private).is_file():
            (root / private).mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "--bind", root / private, public], check=True)
    (root / "run/lock").mkdir(exist_ok=True)

    # Without a handler the kernel shields process 1 from SIGTERM.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)

    path = root / "supervisor.sock"
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen()

    alive: dict[str, int] = {}
    while True:
        ready, _, _ = select.select([listener.fileno(), readable], [], [])
        if readable in ready:
            os.read(readable, 4096)
            _reap(alive)
        if listener.fileno() in ready:
            connection, _ = listener.accept()
            with connection:
                _converse(connection, alive)


def _reap(alive: dict[str, int]) -> None:
    """Collect the dead, daemons and orphans alike."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        for name in [name for name, known in alive.items() if known == pid]:
            del alive[name]


def _converse(connection: socket.socket, alive: dict[str, int]) -> None:
    connection.settimeout(5)
    try:
        line = connection.makefile("r").readline()
        if line:
            connection.sendall((json.dumps(_answer(json.loads(line), alive)) + "\n").encode())
    except (OSError, ValueError) as error:
        print(f"conversation: {error}", flush=True)


def _answer(request: dict[str, Any], alive: dict[str, int]) -> dict[str, Any]:
    _reap(alive)
    if "start" not in request:
        return {"alive": alive}
    name = request["start"]
    if name in alive:
        return {"error": f"{name} runs already"}
    try:
        alive[name] = _spawn(request["argv"], request["log"])
    except OSError as error:
        return {"error": f"{name}: {error}"}
    return {"pid": alive[name]}


def _spawn(argv: list[str], log: str) -> int:
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    return os.posix_spawnp(
        argv[0],
        argv,
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, append, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=[],
        setsigdef=[signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE],
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]), json.loads(sys.argv[3]))
