"""Who is blamed where OSDs wait for each other."""

from __future__ import annotations

from plimsoll_insight.slow.events import LOCKS, REPLICAS, UNKNOWN, Operation, SlowRequest
from plimsoll_insight.slow.peers import settle


def request(
    begin: float, end: float, osd: int, *peers: int, state: str = "", is_replica: bool = False
) -> SlowRequest:
    one = Operation(
        id=f"client.1.0:{osd}{peers}{begin}".encode(), is_replica=is_replica, pool=1, image=None, image_pool=1
    )
    state = state or ("waiting for sub ops" if peers else "queued_for_pg")
    return SlowRequest(begin, osd, state, end - begin, peers, one, tells_locks=True)


def blamed(*requests: SlowRequest) -> list[tuple[int, ...]]:
    return [each.peers for each in settle(requests)]


def test_the_one_is_blamed_for_which_more_osds_wait() -> None:
    """osd.2 stands still for ten seconds, and reads the answers of both others late."""
    found = blamed(request(0, 10, 0, 2), request(1, 10, 1, 2), request(0, 10, 2, 0), request(0, 10, 2, 1))
    assert found == [(2,), (2,), (), ()]


def test_of_two_osds_the_one_is_blamed_whose_own_requests_wait() -> None:
    assert blamed(request(0, 10, 0, 2), request(0, 10, 2, 0), request(1, 10, 2)) == [(2,), (), ()]
    assert blamed(request(0, 10, 0, 2), request(0, 10, 2, 0), request(1, 10, 2, is_replica=True)) == [(2,), (), ()]
    for state in (LOCKS, REPLICAS, UNKNOWN):
        assert blamed(request(0, 10, 0, 2), request(0, 10, 2, 0), request(1, 10, 2, state=state)) == [(2,), (0,), ()]


def test_who_is_waited_for_at_another_time_is_no_reason() -> None:
    """For less than half of the time counts as another time; parts of it count together."""
    waits = request(0, 10, 2, 1)
    assert blamed(waits, request(20, 30, 0, 2), request(20, 30, 3, 2))[0] == (1,)
    assert blamed(waits, request(6, 30, 0, 2), request(6, 30, 3, 2))[0] == (1,)
    assert blamed(waits, request(4, 30, 0, 2), request(4, 30, 3, 2))[0] == ()
    parts = [request(begin, begin + 2, osd, 2) for osd in (0, 3) for begin in (0, 4, 7)]
    assert blamed(waits, *parts)[0] == ()


def test_who_waits_for_one_that_is_slow_is_right_though_others_wait_for_it_too() -> None:
    """osd.1 is slow: three wait for it, one of which another one waits for."""
    found = blamed(request(0, 10, 0, 1), request(0, 10, 2, 1), request(0, 10, 3, 1), request(0, 10, 3, 2))
    assert found == [(1,), (1,), (1,), (2,)]


def test_of_several_replicas_each_is_judged_for_itself() -> None:
    assert blamed(request(0, 10, 2, 0, 1), request(0, 10, 3, 2), request(0, 10, 4, 2), request(0, 10, 5, 1),
                  request(0, 10, 6, 1))[0] == (1,)  # fmt: skip


def test_thousands_of_requests_take_no_time() -> None:
    many = [request(number / 10, number / 10 + 5, number % 9, (number + 1) % 9) for number in range(20_000)]
    assert len(blamed(*many)) == 20_000
