"""Calls with a deadline: answers, errors, calls that hang, and how many threads all that takes."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator

import pytest

from plimsoll_agent.adapters.deadline import Deadlines, SharedCalls, StillHangs
from plimsoll_agent.errors import DeadlineExceeded, NotSent
from tests.fakes import raising

SOON = 0.05
"""A deadline to be missed."""
PATIENT = 10.0
"""What a test waits for that should happen at once: it only passes when the test fails."""


class Guest:
    """QEMU with a lid: its calls hang until it is let go."""

    def __init__(self) -> None:
        self.asked = threading.Semaphore(0)
        self.lid = threading.Event()
        self.threads: list[threading.Thread] = []

    def hang(self) -> str:
        self.threads.append(threading.current_thread())
        self.asked.release()
        self.lid.wait()
        return "late"


@pytest.fixture
def guest() -> Iterator[Guest]:
    guest = Guest()
    yield guest
    guest.lid.set()


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENT
    while not true():
        assert time.monotonic() < end
        time.sleep(0.001)


def stuck(deadlines: Deadlines, guest: Guest) -> None:
    with pytest.raises(DeadlineExceeded):
        deadlines.call("QEMU", guest.hang)


def test_the_answer_is_what_the_call_returned() -> None:
    answer = object()
    assert Deadlines(PATIENT, 1).call("QEMU", lambda: answer) is answer


class Interrupted(BaseException):
    pass


@pytest.mark.parametrize("error", [ValueError("no"), DeadlineExceeded("the connection was lost"), Interrupted()])
def test_what_the_call_raises_is_raised_where_it_was_asked(error: BaseException) -> None:
    deadlines = Deadlines(PATIENT, 1)
    with pytest.raises(type(error)) as raised:
        deadlines.call("QEMU", raising(error))
    assert raised.value is error
    assert deadlines.hung == 0
    assert deadlines.call("QEMU", lambda: "next") == "next", "its slot is free again"


def test_a_deadline_that_passes_is_told_with_who_and_how_long(guest: Guest) -> None:
    deadlines = Deadlines(SOON, 2)
    with pytest.raises(DeadlineExceeded, match=r"^no answer from QEMU within 0\.05 s$") as raised:
        deadlines.call("QEMU", guest.hang)
    assert not isinstance(raised.value, NotSent), "it was asked, and may still happen"
    assert deadlines.hung == 1


def test_a_call_that_hangs_leaves_the_other_slots_to_others(guest: Guest) -> None:
    deadlines = Deadlines(SOON, 2)
    stuck(deadlines, guest)
    deadlines.seconds = PATIENT
    assert [deadlines.call("QEMU", lambda n=n: n) for n in range(5)] == list(range(5))
    assert deadlines.hung == 1


def test_where_all_hang_nothing_more_is_asked_and_no_caller_waits(guest: Guest) -> None:
    deadlines = Deadlines(SOON, 2)
    stuck(deadlines, guest)
    stuck(deadlines, guest)
    assert deadlines.hung == 2
    deadlines.seconds = PATIENT
    asked: list[int] = []
    clock = time.monotonic()
    with pytest.raises(NotSent, match="2 calls to QEMU hang already"):
        deadlines.call("QEMU", lambda: asked.append(1))
    assert time.monotonic() - clock < PATIENT / 2
    assert asked == []


def test_a_call_that_finds_no_slot_before_its_deadline_is_not_sent(guest: Guest) -> None:
    deadlines = Deadlines(PATIENT, 1)
    threading.Thread(target=deadlines.call, args=("QEMU", guest.hang), daemon=True).start()
    assert guest.asked.acquire(timeout=PATIENT)
    deadlines.seconds = SOON
    asked: list[int] = []
    with pytest.raises(NotSent):
        deadlines.call("QEMU", lambda: asked.append(1))
    assert asked == []
    assert deadlines.hung == 0, "the other one still has time"


def test_a_hung_call_that_comes_back_gives_back_its_slot_and_that_once(guest: Guest) -> None:
    """Else every guest that hung would let one call more through to libvirtd, for ever."""
    deadlines = Deadlines(SOON, 1)
    stuck(deadlines, guest)
    guest.lid.set()
    until(lambda: deadlines.hung == 0)
    deadlines.seconds = PATIENT
    assert [deadlines.call("QEMU", lambda n=n: n) for n in range(3)] == [0, 1, 2]
    again = Guest()
    askers = [threading.Thread(target=deadlines.call, args=("QEMU", again.hang)) for _ in range(2)]
    for asker in askers:
        asker.start()
    assert again.asked.acquire(timeout=PATIENT)
    assert not again.asked.acquire(timeout=SOON), "two at once"
    again.lid.set()
    for asker in askers:
        asker.join(PATIENT)


def test_the_answer_of_a_hung_call_is_not_taken_for_that_of_another(guest: Guest) -> None:
    deadlines = Deadlines(SOON, 2)
    stuck(deadlines, guest)
    guest.lid.set()
    deadlines.seconds = PATIENT
    assert {deadlines.call("QEMU", lambda: "in time") for _ in range(20)} == {"in time"}


def test_no_more_calls_are_in_flight_than_allowed(guest: Guest) -> None:
    deadlines = Deadlines(PATIENT, 3)
    answers: list[str] = []
    askers = [threading.Thread(target=lambda: answers.append(deadlines.call("QEMU", guest.hang))) for _ in range(8)]
    for asker in askers:
        asker.start()
    for _ in range(3):
        assert guest.asked.acquire(timeout=PATIENT)
    assert not guest.asked.acquire(timeout=SOON)
    guest.lid.set()
    for asker in askers:
        asker.join(PATIENT)
    assert answers == ["late"] * 8, "those that waited had their turn"


def test_threads_are_used_again() -> None:
    deadlines = Deadlines(PATIENT, 4)
    # The threads themselves: the number of one that has ended is given to the next.
    threads = {deadlines.call("QEMU", threading.current_thread) for _ in range(200)}
    # One is still on its way back to the idle ones, now and then, when the next call comes.
    assert len(threads) < 20


def test_a_call_that_hangs_does_not_hold_the_process(guest: Guest) -> None:
    before = set(threading.enumerate())
    stuck(Deadlines(SOON, 1), guest)
    begun = set(threading.enumerate()) - before
    assert guest.threads[0] in begun
    assert all(thread.daemon for thread in begun)


def no_more_threads(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize("shared", [None, SharedCalls(2)], ids=["own", "shared"])
def test_a_thread_that_cannot_be_started_takes_no_slot(
    monkeypatch: pytest.MonkeyPatch, shared: SharedCalls | None
) -> None:
    deadlines = Deadlines(SOON, 2, shared)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_more_threads)
        for _ in range(3):
            with pytest.raises(NotSent, match=r"^QEMU not asked: can't start new thread$"):
                deadlines.call("QEMU", lambda: "asked")
    assert deadlines.call("QEMU", lambda: "asked") == "asked"


def test_a_call_that_hangs_needs_no_further_thread(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    deadlines = Deadlines(PATIENT, 1)
    deadlines.call("QEMU", lambda: "asked")
    until(lambda: not deadlines._idle.empty())
    monkeypatch.setattr(threading.Thread, "start", no_more_threads)
    deadlines.seconds = SOON
    stuck(deadlines, guest)
    guest.lid.set()
    until(lambda: deadlines.hung == 0)
    until(lambda: not deadlines._idle.empty())
    assert deadlines.call("QEMU", lambda: "asked") == "asked"


def test_close_ends_the_threads_and_one_that_hangs_when_its_call_returns(guest: Guest) -> None:
    deadlines = Deadlines(PATIENT, 2)
    used = [deadlines.call("QEMU", threading.current_thread)]
    hanging = Deadlines(SOON, 2)
    stuck(hanging, guest)
    for each in (deadlines, hanging):
        each.close()
    until(lambda: not used[0].is_alive())
    assert guest.threads[0].is_alive()
    guest.lid.set()
    until(lambda: not guest.threads[0].is_alive())


# --- several that share a bound


def test_hung_calls_that_are_shared_leave_all_slots_to_others_up_to_the_bound(guest: Guest) -> None:
    shared = SharedCalls(3)
    one, another = Deadlines(SOON, 1, shared), Deadlines(SOON, 1, shared)
    stuck(one, guest)
    stuck(one, guest)
    assert [each.call("QEMU", lambda: "answer") for each in (one, another)] == ["answer"] * 2
    stuck(another, guest)
    for each in (one, another, Deadlines(PATIENT, 1, shared)):
        with pytest.raises(NotSent, match=r"^not asked: 3 calls hang already$"):
            each.call("QEMU", lambda: "answer")
    guest.lid.set()
    until(lambda: shared.hung == 0)
    for each in (one, another):
        each.seconds = PATIENT
    assert [each.call("QEMU", lambda: "answer") for each in (one, another) * 5] == ["answer"] * 10


def test_shared_calls_are_never_more_in_flight_than_their_bound(guest: Guest) -> None:
    shared = SharedCalls(2)
    all_of_them = [Deadlines(PATIENT, 2, shared) for _ in range(2)]
    askers = [threading.Thread(target=each.call, args=("QEMU", guest.hang), daemon=True) for each in all_of_them * 2]
    for asker in askers:
        asker.start()
    for _ in range(2):
        assert guest.asked.acquire(timeout=PATIENT)
    assert not guest.asked.acquire(timeout=SOON)
    guest.lid.set()
    for _ in range(2):
        assert guest.asked.acquire(timeout=PATIENT), "then it is the turn of the others"


def test_what_hangs_is_not_asked_again_by_any_of_those_that_share_it(guest: Guest) -> None:
    shared = SharedCalls(3)
    one, another = Deadlines(SOON, 1, shared), Deadlines(PATIENT, 1, shared)
    with pytest.raises(DeadlineExceeded):
        one.call("QEMU", guest.hang, about="web-1")
    with pytest.raises(StillHangs, match=r"^no answer from QEMU to an earlier call$"):
        another.call("QEMU", lambda: "answer", about="web-1")
    assert another.call("QEMU", lambda: "answer", about="web-2") == "answer"
    assert another.call("libvirt", lambda: "answer") == "answer"
    guest.lid.set()
    until(lambda: not shared.hangs("web-1"))
    assert another.call("QEMU", lambda: "answer", about="web-1") == "answer"


def test_what_a_failed_call_used_is_gone_with_its_error() -> None:
    """Without Python's search for circles, which a daemon makes hours later: a lost connection has a descriptor."""

    class Connection:
        pass

    used: list[weakref.ref[Connection]] = []

    def fail() -> None:
        connection = Connection()
        used.append(weakref.ref(connection))
        raise ConnectionError

    deadlines = Deadlines(PATIENT, 1)
    gc.disable()
    try:
        try:
            deadlines.call("QEMU", fail)
        except ConnectionError:
            assert used[0]() is not None, "the error still leads to it"
        until(lambda: used[0]() is None)
    finally:
        gc.enable()
