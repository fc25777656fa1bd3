"""A few threads that share the work of a pass. They are daemon threads: a call that hangs must not keep the process.

Those of ``concurrent.futures`` are not: Python joins them at exit. And after an error they still begin what is
queued: a pass that has failed would write to another guest.
"""

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

    However it ends, also if the caller is interrupted, no item is begun afterwards, and those begun are waited for:
    each of their calls has a deadline.
    """
    todo: SimpleQueue[Item] = SimpleQueue()
    outcomes: SimpleQueue[tuple[Item, Answer | None, BaseException | None]] = SimpleQueue()
    for item in items:
        todo.put(item)

    def next_item() -> Iterator[Item]:
        with suppress(Empty):
            while True:
                yield todo.get_nowait()

    def worker() -> None:
        for item in next_item():
            try:
                outcomes.put((item, work(item), None))
            except BaseException as error:  # the waiting thread raises it; no thread begins anything after it
                for _ in next_item():
                    pass
                outcomes.put((item, None, error))

    workers: list[threading.Thread] = []
    try:
        for number in range(min(at_once, len(items))):
            thread = threading.Thread(target=worker, name=f"worker-{number}", daemon=True)
            thread.start()  # raises where the process may have no more
            workers.append(thread)
        for _ in items:
            item, answer, error = outcomes.get()
            if error is not None:
                raise error
            yield item, answer  # type: ignore[misc]  # an answer, since there was no error
    finally:
        for _ in next_item():
            pass
        for thread in workers:
            thread.join()
