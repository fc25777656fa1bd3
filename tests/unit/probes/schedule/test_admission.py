"""Whose turn it is: no two probes of a process on one pool, and nobody waits for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import permutations

import pytest

from plimsoll_agent.model.disk import Disk
from plimsoll_probes.adapters.slots import Slot
from plimsoll_probes.model.finding import Trouble, Why
from plimsoll_probes.schedule.admission import Admission
from tests.unit.values import a_disk

PATIENT = 10.0


class Slots:
    """What a region would be asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    @contextmanager
    def __call__(self, names: Sequence[str]) -> Iterator[Slot]:
        self.asked.append(tuple(names))
        yield Slot()


def disks(*pools: str) -> list[Disk]:
    return [a_disk(pool=pool, cluster="fsid") for pool in pools]


def all_done(threads: Sequence[threading.Thread]) -> bool:
    for thread in threads:
        thread.start()
    end = time.monotonic() + PATIENT
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return not any(thread.is_alive() for thread in threads)


def test_two_guests_on_one_pool_never_have_their_turn_at_once() -> None:
    admission, on, most = Admission(Slots(), one_per_pool=True), [0], [0]

    def probe() -> None:
        for _ in range(5):
            with admission.turn(disks("a")):
                on[0] += 1
                most[0] = max(most[0], on[0])
                time.sleep(0.001)
                on[0] -= 1

    assert all_done([threading.Thread(target=probe, daemon=True) for _ in range(4)])
    assert most == [1]


def test_guests_on_the_same_pools_in_another_order_do_not_wait_for_each_other_for_ever() -> None:
    admission = Admission(Slots(), one_per_pool=True)

    def probe(pools: Sequence[str]) -> None:
        for _ in range(30):
            with admission.turn(disks(*pools)):
                time.sleep(0.0001)

    orders = list(permutations("abc"))
    assert all_done([threading.Thread(target=probe, args=(order,), daemon=True) for order in orders])


def test_guests_on_other_pools_wait_for_none() -> None:
    admission = Admission(Slots(), one_per_pool=True)
    both = threading.Barrier(2)

    def probe(pool: str) -> None:
        with admission.turn(disks(pool)):
            both.wait(PATIENT)

    assert all_done([threading.Thread(target=probe, args=(pool,), daemon=True) for pool in "ab"])
    assert not both.broken


def test_pools_of_one_name_on_two_clusters_are_two() -> None:
    admission = Admission(Slots(), one_per_pool=True)
    with ExitStack() as turns:
        names = {
            turns.enter_context(admission.turn([disk]))
            for disk in (
                a_disk(pool="a", cluster="one"),
                a_disk(pool="a", cluster="other"),
                a_disk(pool="a", monitors=("10.0.0.1:6789",)),
            )
        }
    assert len(names) == 3


def test_a_guest_with_several_disks_on_a_pool_does_not_wait_for_itself() -> None:
    admission = Admission(Slots(), one_per_pool=True)
    done: list[tuple[str, ...]] = []

    def probe() -> None:
        with admission.turn(disks("a", "a", "b")) as names:
            done.append(names)

    assert all_done([threading.Thread(target=probe, daemon=True)])
    assert done == [("pool:fsid/a", "pool:fsid/b")]


def test_pools_bind_no_guest_unless_the_settings_say_so() -> None:
    slots = Slots()
    admission = Admission(slots, one_per_pool=False)
    with (
        admission.turn(disks("a")) as one,
        admission.turn(disks("a")) as other,
        admission.slot(one),
        admission.slot(other),
    ):
        assert slots.asked == [(), ()]


def test_a_turn_that_ends_in_trouble_is_the_next_ones() -> None:
    """Else one guest without a slot would keep its pool from all others until the run ends."""
    admission = Admission(Slots(), one_per_pool=True)
    with pytest.raises(Trouble), admission.turn(disks("a")):
        raise Trouble(Why.NO_SLOT, detail="taken")

    def probe() -> None:
        with admission.turn(disks("a")):
            pass

    assert all_done([threading.Thread(target=probe, daemon=True)])
