"""Objects of Ceph written as guests do it, through Debian's own Python, which has Ceph's bindings. Run by file:

``objects.py CONF POOL fill NUMBER BYTES`` writes each whole, 16 at a time; ``objects.py CONF POOL touch NUMBER``
writes 4 KiB into one after the other, by chance, and prints how long each took, in seconds.
"""

from __future__ import annotations

import importlib
import random
import sys
import time
from collections import deque
from typing import Any

rados: Any = importlib.import_module("rados")
UNDER_WAY = 16


def main(conf: str, pool: str, way: str, number: str, size: str = "4096") -> None:
    content = b"\xa5" * int(size)
    with rados.Rados(conffile=conf) as cluster, cluster.open_ioctx(pool) as io:
        if way == "fill":
            _fill(io, int(number), content)
        while way == "touch":
            began = time.monotonic()
            io.write(f"object-{random.randrange(int(number))}", content)
            print(time.monotonic() - began, flush=True)


def _fill(io: Any, number: int, content: bytes) -> None:
    writes: deque[Any] = deque()
    for each in range(number):
        if len(writes) == UNDER_WAY:
            writes.popleft().wait_for_complete()
        writes.append(io.aio_write_full(f"object-{each}", content))
    for write in writes:
        write.wait_for_complete()


if __name__ == "__main__":
    main(*sys.argv[1:])
