"""A node that probes again and again, for test_slots: what holds a slot here is a pause, and a line says when it was.

Run by file, with a JSON object of arguments. Each line of its log is ``[WORD, NODE, BEGAN, ENDED]``, the machine's
monotonic clock in seconds: ``probe``, ahead of time, as a guest goes on when the node's plimsoll is killed;
``attempt``, ``ensure``, ``leave`` for what was asked of etcd.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from typing import Any

# Here, and not within the first attempt: twelve that start together take seconds for it.
import etcd3gw  # noqa: F401
import tooz.coordination  # noqa: F401

from plimsoll_probes.adapters import slots
from plimsoll_probes.model.finding import Trouble


def main(url: str, count: int, node: str, log: str, longest: float, deadline: float, margin: float) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)

    def say(*words: Any) -> None:
        os.write(descriptor, (json.dumps(words) + "\n").encode())

    while True:
        began = time.monotonic()
        slot = slots.acquire(
            url,
            count,
            node=node,
            ttl=slots.lease_for(longest, deadline, margin),
            deadline=deadline,
            margin=margin,
        )
        try:
            held = slot.__enter__()
        except Trouble:
            say("attempt", node, began, time.monotonic())
            time.sleep(random.uniform(0.1, 0.4))
            continue
        say("attempt", node, began, time.monotonic())
        for _ in range(2):
            began = time.monotonic()
            try:
                held.ensure(longest)
            except Trouble:
                say("ensure", node, began, time.monotonic())
                break
            takes = random.uniform(longest / 4, longest / 2)
            now = time.monotonic()
            say("probe", node, now, now + takes)
            say("ensure", node, began, now)
            time.sleep(takes)
        began = time.monotonic()
        slot.__exit__(None, None, None)
        say("leave", node, began, time.monotonic())
        time.sleep(random.uniform(4, 6))


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
