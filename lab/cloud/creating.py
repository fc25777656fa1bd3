"""A client of CephFS that creates files, through Debian's own Python: Ceph's bindings are for no other.

Run by file: CONF DIRECTORY NUMBER SECONDS RATE PERIOD. Without a PERIOD each client has directories of its own; else
all clients create in one of three, another each PERIOD seconds. At its end it prints, as JSON, how many it created in
each second, and the longest wait of each.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from contextlib import suppress
from typing import Any

cephfs: Any = importlib.import_module("cephfs")
HOT = 3
FILES = 200
"""In a directory of one client."""


def main(conf: str, directory: str, number: str, seconds: str, rate: str, period: str) -> None:
    system = cephfs.LibCephFS(conffile=conf, auth_id="admin")
    system.mount()
    made: set[str] = set()
    created, waits = [0] * (int(float(seconds)) + 1), [0.0] * (int(float(seconds)) + 1)
    begin = time.monotonic()
    while (at := time.monotonic()) < begin + float(seconds):
        count = sum(created)
        if float(period):
            inside = f"{directory}/hot-{int(time.time() / float(period)) % HOT}"
        else:
            inside = f"{directory}/of-{number}/{count // FILES}"
        _make(system, inside, made)
        system.close(system.open(f"{inside}/{number}-{count}".encode(), "w", 0o644))
        second, wait = int(at - begin), time.monotonic() - at
        created[second] += 1
        waits[second] = max(waits[second], round(wait, 4))
        time.sleep(max(0.0, begin + (count + 1) / float(rate) - time.monotonic()))
    system.unmount()
    print(json.dumps({"created": created, "waits": waits}), flush=True)


def _make(system: Any, path: str, made: set[str]) -> None:
    parts = path.strip("/").split("/")
    for length in range(1, len(parts) + 1):
        each = "/" + "/".join(parts[:length])
        if each not in made:
            with suppress(cephfs.ObjectExists):
                system.mkdir(each.encode(), 0o755)
            made.add(each)


if __name__ == "__main__":
    main(*sys.argv[1:])
