"""A few threads that share the work of a pass. They are daemons: a stuck call must not hold the process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def side_by_side(
    work: Callable[[Item], Answer], items: Sequence[Item], at_once: int
) -> Iterator[tuple[Item, Answer]]:
    """Each item with its answer, in the order in which they are done; what ``work`` raises is raised here.

    However it ends, also when the caller is interrupted between two answers, nothing is begun afterwards and
    what is in hand is waited for: each of its calls has a deadline.
    """
    waiting: SimpleQueue[Item] = SimpleQueue()
    done: SimpleQueue[tuple[Item, Answer | None, BaseException | None]] = SimpleQueue()
    for item in items:
        waiting.put(item)

    def next_item() -> Iterator[Item]:
        with suppress(Empty):
            while True:
                yield waiting.get_nowait()

    def hand() -> None:
        for item in next_item():
            try:
                done.put((item, work(item), None))
            except BaseException as error:  # raised in the thread that waits; nobody begins anything after it
                for _ in next_item():
                    pass
                done.put((item, None, error))

    hands = [
        threading.Thread(target=hand, name=f"hand-{number}", daemon=True)
        for number in range(min(at_once, len(items)))
    ]
    for thread in hands:
        thread.start()
    try:
        for _ in items:
            item, answer, error = done.get()
            if error is not None:
                raise error
            yield item, answer  # type: ignore[misc]  # an answer, since there was no error
    finally:
        for _ in next_item():
            pass
        for thread in hands:
            thread.join()
