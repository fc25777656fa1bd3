"""The first process of a newcomer's machine: run by file, isolated from the package, in namespaces of its own.

Its argument is JSON: {"root", "binds": {PATH: PATH IN ROOT}, "network": bool, "environment", "directory", "words",
"report": a file}. It makes the tree ``root`` the root, so that nothing else of this machine can be seen, runs the
words in there, and reports what they have left: {"processes": [...], "mounts": [...]}.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any


def main(spec: dict[str, Any]) -> int:
    # What a terminal interrupts is the command. The kernel shields process 1 only where it has no handler.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    root = Path(spec["root"])
    _run("mount", "--bind", root, root)
    _run("mount", "--rbind", "/dev", root / "dev")
    _run("mount", "--rbind", "/sys", root / "sys")
    _run("mount", "-t", "proc", "proc", root / "proc")
    for name in ("run", "dev/shm"):
        _run("mount", "-t", "tmpfs", "tmpfs", root / name)
    for path, inside in spec["binds"].items():
        (root / inside).mkdir(parents=True, exist_ok=True)
        _run("mount", "--bind", path, root / inside)
    if not spec["network"]:
        _run("ip", "link", "set", "lo", "up")
    with Path(spec["report"]).open("w") as report:
        os.chdir(root)
        # The old root lies on top of the new one then, and is taken off (pivot_root(2), "pivot_root . .").
        _run("pivot_root", ".", ".")
        _run("umount", "--lazy", ".")
        mounts = _mounts()
        command = subprocess.Popen(spec["words"], cwd=spec["directory"], env=spec["environment"])
        status = _wait(command.pid)
        json.dump({"processes": _processes(), "mounts": [each for each in _mounts() if each not in mounts]}, report)
    return status


def _wait(command: int) -> int:
    """As a shell has it; whatever else ends is collected, too."""
    while True:
        pid, status = os.wait()
        if pid == command:
            code = os.waitstatus_to_exitcode(status)
            break
    while _ended():
        pass
    return code if code >= 0 else 128 - code


def _ended() -> bool:
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


def _processes() -> list[str]:
    words = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes() or (entry / "comm").read_bytes()
            except OSError:
                continue  # it has just ended
            words.append(command.replace(b"\0", b" ").decode(errors="replace").strip())
    return words


def _mounts() -> list[str]:
    return [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]


def _run(*argv: str | Path) -> None:
    subprocess.run(argv, check=True)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
