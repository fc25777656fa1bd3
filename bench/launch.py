"""Runs a command and writes, into the file named first, how long it took and what it used.

A program of its own, and a small one: the kernel counts for the peak memory of a process what its parent had when it
made it, and who measures may have much.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path


def main(into: Path, command: list[str]) -> None:
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        os.execvp(command[0], command)
    _, status, usage = os.wait4(child, 0)
    told = {
        "started": started,
        "wall": time.monotonic() - started,
        "cpu": usage.ru_utime + usage.ru_stime,
        "memory": usage.ru_maxrss,
    }
    into.write_text(json.dumps({"status": os.waitstatus_to_exitcode(status), "cost": told}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
