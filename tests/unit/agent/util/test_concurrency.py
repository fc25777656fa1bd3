"""Work shared among a few threads: who is done first, how many at once, and what an error does to the rest."""

from __future__ import annotations

import threading

import pytest

from plimsoll_agent.util.concurrency import side_by_side

PATIENT = 10.0
"""What a test waits for that should happen at once: it only passes when the test fails."""


@pytest.mark.parametrize("at_once", [1, 2, 4, 50])
def test_every_item_is_done_once_with_its_own_answer(at_once: int) -> None:
    answers = list(side_by_side(lambda number: number * number, range(20), at_once))
    assert sorted(answers) == [(number, number * number) for number in range(20)]


def test_equal_items_are_each_done() -> None:
    assert list(side_by_side(len, ["a", "a", "a"], 2)) == [("a", 1)] * 3


def test_where_there_is_nothing_to_do_no_thread_is_begun() -> None:
    before = threading.enumerate()
    assert list(side_by_side(len, [], 4)) == []
    assert threading.enumerate() == before


def test_one_at_a_time_is_done_in_the_order_of_the_items() -> None:
    assert [item for item, _ in side_by_side(str, [3, 1, 2], 1)] == [3, 1, 2]


def test_answers_come_as_they_are_done_and_no_slow_one_holds_them_up() -> None:
    go_on = threading.Event()

    def work(item: str) -> bool:
        return go_on.wait(PATIENT) if item == "slow" else True

    answers = side_by_side(work, ["slow", "quick", "quicker"], 2)
    assert [next(answers)[0], next(answers)[0]] == ["quick", "quicker"]
    go_on.set()
    assert next(answers) == ("slow", True)


def test_an_answer_that_is_nothing_is_an_answer() -> None:
    assert list(side_by_side(lambda _: None, [1], 1)) == [(1, None)]


def test_as_many_are_in_hand_as_allowed_and_no_more() -> None:
    begun, go_on = threading.Semaphore(0), threading.Semaphore(0)

    def work(_: int) -> None:
        begun.release()
        assert go_on.acquire(timeout=PATIENT)

    everything = threading.Thread(target=lambda: list(side_by_side(work, range(7), 3)))
    everything.start()
    for _ in range(3):
        assert begun.acquire(timeout=PATIENT)
    assert not begun.acquire(timeout=0.05)
    go_on.release()
    assert begun.acquire(timeout=PATIENT), "the next one takes the place of one that is done"
    go_on.release(7)
    everything.join(PATIENT)
    assert not everything.is_alive()


class Interrupted(BaseException):
    pass


@pytest.mark.parametrize("kind", [ValueError, Interrupted])
def test_an_error_is_raised_and_nothing_is_begun_after_it(kind: type[BaseException]) -> None:
    begun: list[int] = []
    error = kind("no")

    def work(number: int) -> None:
        begun.append(number)
        if number == 2:
            raise error

    answers = side_by_side(work, range(100), 1)
    assert [next(answers)[0], next(answers)[0]] == [0, 1]
    with pytest.raises(kind) as raised:
        next(answers)
    assert raised.value is error
    assert begun == [0, 1, 2]


def test_what_is_in_hand_when_another_fails_is_finished() -> None:
    both = threading.Barrier(2)
    finished: list[str] = []

    def work(item: str) -> None:
        both.wait(PATIENT)
        if item == "bad":
            raise ValueError(item)
        threading.Event().wait(0.05)
        finished.append(item)

    with pytest.raises(ValueError, match="bad"):
        list(side_by_side(work, ["bad", "good"], 2))
    assert finished == ["good"]


def test_a_caller_that_leaves_waits_for_what_is_in_hand_and_nothing_more_is_begun() -> None:
    begun: list[int] = []
    second, go_on = threading.Event(), threading.Event()

    def work(number: int) -> None:
        begun.append(number)
        if number == 1:
            second.set()
            assert go_on.wait(PATIENT)

    answers = side_by_side(work, range(5), 1)
    next(answers)
    assert second.wait(PATIENT)
    leaving = threading.Thread(target=answers.close)  # type: ignore[attr-defined]  # it is a generator
    leaving.start()
    leaving.join(0.05)
    assert leaving.is_alive(), "a limit may be on its way to QEMU"
    go_on.set()
    leaving.join(PATIENT)
    assert begun == [0, 1]


def test_where_a_thread_cannot_be_started_what_is_in_hand_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()
    start, begun_items, raised = threading.Thread.start, list[int](), list[BaseException]()

    def work(number: int) -> None:
        begun_items.append(number)
        begun.set()
        assert go_on.wait(PATIENT)

    def everything() -> None:
        try:
            list(side_by_side(work, range(9), 2))
        except RuntimeError as error:
            raised.append(error)

    def second_fails(thread: threading.Thread) -> None:
        if thread.name == "worker-1":
            assert begun.wait(PATIENT)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", second_fails)
    caller = threading.Thread(target=everything)
    caller.start()
    assert begun.wait(PATIENT)
    caller.join(0.05)
    assert caller.is_alive(), "a limit may be on its way to QEMU, and the pass holds the guest's lock"
    go_on.set()
    caller.join(PATIENT)
    assert (begun_items, [str(each) for each in raised]) == ([0], ["can't start new thread"])


def test_a_hand_that_is_stuck_does_not_hold_the_process() -> None:
    assert list(side_by_side(lambda _: threading.current_thread().daemon, [1], 2)) == [(1, True)]
