"""Ceph through Debian's own Python, the only one that has Ceph's bindings: one process, for as long as its starter.

Run by file, with Ceph's configuration: an answer takes some milliseconds, where each `ceph` and each `rbd` process
costs half a second of a core. Each line of standard input is a JSON list of steps, and is answered by a line: a JSON
list with one answer each, or the words of the step that failed. A step is one of {"monitor": {"prefix": ...}},
{"create": [POOL, IMAGE, BYTES]}, {"protect": [POOL, IMAGE, SNAPSHOT]},
{"clone": [POOL, IMAGE, SNAPSHOT, POOL, IMAGE]}, {"remove": [POOL, IMAGE]}.
"""

from __future__ import annotations

import importlib
import json
import signal
import sys
from typing import Any

PATIENCE = 15
"""Seconds until a monitor that does not answer is given up."""

rados: Any = importlib.import_module("rados")
rbd: Any = importlib.import_module("rbd")


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, which then remove their images
    cluster = rados.Rados(conffile=sys.argv[1])
    for option in ("client_mount_timeout", "rados_mon_op_timeout"):
        cluster.conf_set(option, str(PATIENCE))
    with cluster:
        for line in sys.stdin:
            answer: list[str] | str
            try:
                answer = [_step(cluster, **step) for step in json.loads(line)]
            except (OSError, rados.Error, rbd.Error) as error:
                answer = str(error)
            print(json.dumps(answer), flush=True)


def _step(
    cluster: Any,
    monitor: dict[str, Any] | None = None,
    create: tuple[str, str, int] | None = None,
    clone: tuple[str, str, str, str, str] | None = None,
    protect: tuple[str, str, str] | None = None,
    remove: tuple[str, str] | None = None,
) -> str:
    if monitor:
        status, out, said = cluster.mon_command(json.dumps(monitor), b"")
        if status:
            raise OSError(f"{monitor['prefix']}: {said or f'no answer in {PATIENCE} s ({status})'}")
        return str(out.decode())
    if create:
        pool, image, size = create
        with cluster.open_ioctx(pool) as io:
            rbd.RBD().create(io, image, size, old_format=False)
    if protect:
        pool, image, snapshot = protect
        with cluster.open_ioctx(pool) as io, rbd.Image(io, image) as opened:
            opened.create_snap(snapshot)
            opened.protect_snap(snapshot)
    if clone:
        pool, image, snapshot, to_pool, to_image = clone
        with cluster.open_ioctx(pool) as io, cluster.open_ioctx(to_pool) as to_io:
            rbd.RBD().clone(io, image, snapshot, to_io, to_image)
    if remove:
        pool, image = remove
        with cluster.open_ioctx(pool) as io:
            try:
                rbd.RBD().remove(io, image)
            except (rbd.ImageBusy, rbd.ImageNotFound) as error:
                # A client that was killed keeps its watch for 30 s more; the image goes with the cloud.
                return str(error)
    return ""


if __name__ == "__main__":
    main()
