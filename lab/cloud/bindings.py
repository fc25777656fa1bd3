"""Batches for Ceph through Debian's own Python, the only one that has Ceph's bindings.

Run by file: a batch of a hundred images takes one process and a second, not a hundred `rbd` processes.
Reads {"conf": FILE, "steps": [...]} and writes a JSON list with one answer each. A step is one of
{"monitor": {"prefix": ...}}, {"create": [POOL, IMAGE, BYTES]}, {"protect": [POOL, IMAGE, SNAPSHOT]},
{"clone": [POOL, IMAGE, SNAPSHOT, POOL, IMAGE]}, {"remove": [POOL, IMAGE]}.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

rados: Any = importlib.import_module("rados")
rbd: Any = importlib.import_module("rbd")


def main() -> None:
    request = json.load(sys.stdin)
    with rados.Rados(conffile=request["conf"]) as cluster:
        json.dump([_step(cluster, **step) for step in request["steps"]], sys.stdout)


def _step(
    cluster: Any,
    monitor: dict[str, Any] | None = None,
    create: tuple[str, str, int] | None = None,
    clone: tuple[str, str, str, str, str] | None = None,
    protect: tuple[str, str, str] | None = None,
    remove: tuple[str, str] | None = None,
) -> str:
    if monitor:
        status, out, said = cluster.mon_command(json.dumps(monitor), b"", timeout=30)
        if status:
            raise SystemExit(f"{monitor['prefix']}: {said or status}")
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
