"""Slots of a region, on an etcd and a tooz that are modelled: locks on leases, with the driver's traps."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from plimsoll_agent.errors import ConfigError
from plimsoll_probes.adapters import slots
from plimsoll_probes.adapters.slots import Slot
from plimsoll_probes.model.finding import Trouble, Why
from tests.fakes import raising

URL = "etcd3+http://127.0.0.1:2379"
TTL = 60


@dataclass
class Etcd:
    """Keys on leases. ``before`` runs ahead of each answer, with the name of what is asked for."""

    now: float = 1000.0
    ends: dict[int, float] = field(default_factory=dict)
    ttls: dict[int, int] = field(default_factory=dict)
    keys: dict[bytes, tuple[object, int]] = field(default_factory=dict)
    before: Callable[[str], None] = lambda what: None
    ids: Iterator[int] = field(default_factory=lambda: count(7))

    def held(self) -> set[str]:
        self.expire()
        return {key.decode().removeprefix("/tooz/locksplimsoll-probe-") for key in self.keys}

    def expire(self) -> None:
        self.ends = {lease: end for lease, end in self.ends.items() if end > self.now}
        self.keys = {key: value for key, value in self.keys.items() if value[1] in self.ends}


class Client:
    def __init__(self, etcd: Etcd) -> None:
        self.etcd = etcd
        self.session = self

    def close(self) -> None: ...

    def lease(self, ttl: int) -> Lease:
        self.etcd.before("lease")
        lease = Lease(self.etcd, next(self.etcd.ids))
        self.etcd.ttls[lease.id], self.etcd.ends[lease.id] = ttl, self.etcd.now + ttl
        return lease

    def get_prefix(self, prefix: bytes) -> list[tuple[bytes, dict[str, Any]]]:
        self.etcd.before("get")
        self.etcd.expire()
        found = {key: lease for key, (_, lease) in self.etcd.keys.items() if key.startswith(prefix)}
        return [(b"", {"key": key} | ({"lease": str(lease)} if lease else {})) for key, lease in found.items()]


@dataclass
class Lease:
    etcd: Etcd
    id: int

    def refresh(self) -> int:
        self.etcd.before("refresh")
        self.etcd.expire()
        if self.id not in self.etcd.ends:
            return -1
        self.etcd.ends[self.id] = self.etcd.now + self.etcd.ttls[self.id]
        return self.etcd.ttls[self.id]


class Lock:
    """tooz's on etcd: a lease before every try, release compares, and heartbeat says True of a lease that is over."""

    def __init__(self, client: Client, name: bytes) -> None:
        self.name = name
        self._key = b"/tooz/locks" + name
        self._client = client

    def acquire(self, blocking: bool | float, timeout: int) -> bool:
        if blocking is not False:
            raise RuntimeError("RetryError")
        self._lease = self._client.lease(timeout)
        self._client.etcd.before("acquire")
        self._client.etcd.expire()
        if self._key in self._client.etcd.keys:
            return False
        self._client.etcd.keys[self._key] = (self, self._lease.id)
        return True

    def release(self) -> bool:
        self._client.etcd.before("release")
        if self._client.etcd.keys.get(self._key, (None, 0))[0] is not self:
            return False
        del self._client.etcd.keys[self._key]
        return True

    def heartbeat(self) -> bool:
        self._lease.refresh()
        return True


class Coordinator:
    def __init__(self, etcd: Etcd) -> None:
        self.client = Client(etcd)

    def get_lock(self, name: bytes) -> Lock:
        return Lock(self.client, name)


@pytest.fixture
def etcd() -> Etcd:
    return Etcd()


def acquire(etcd: Etcd, node: str = "n1", slots_: int = 3, **more: Any) -> AbstractContextManager[Slot]:
    keywords: dict[str, Any] = {"ttl": TTL, "clock": lambda: etcd.now} | more
    return slots.acquire(URL, slots_, node=node, connect=lambda *_: Coordinator(etcd), **keywords)


@contextmanager
def trouble(*words: str) -> Iterator[None]:
    with pytest.raises(Trouble) as caught:
        yield
    detail = str(caught.value.facts["detail"])
    assert caught.value.why is Why.NO_SLOT
    assert [word for word in words if word not in detail] == [], detail
    assert "\n" not in detail


def test_without_a_url_no_service_is_asked_and_nothing_runs_out() -> None:
    with slots.acquire("", 1, node="n1", names=["pool:f/p"], ttl=1, connect=raising(AssertionError("asked"))) as held:
        held.ensure(10**9)


def test_the_fourth_node_is_refused_until_one_of_three_ends(etcd: Etcd) -> None:
    with acquire(etcd, "n1"), acquire(etcd, "n2"):
        with acquire(etcd, "n3"), trouble("all 3 slots of the region are taken"), acquire(etcd, "n4"):
            pass
        with acquire(etcd, "n4"):
            assert len(etcd.held()) == 3
    assert etcd.held() == set()


def test_nodes_begin_their_search_at_different_slots_and_each_at_its_own(etcd: Etcd) -> None:
    def taken_by(node: str) -> set[str]:
        with acquire(etcd, node):
            return etcd.held()

    firsts = {node: taken_by(node) for node in map(str, range(30))}
    assert set.union(*firsts.values()) == {"slot-0", "slot-1", "slot-2"}
    assert firsts == {node: taken_by(node) for node in firsts}


def test_a_search_in_vain_leaves_no_leases_behind(etcd: Etcd) -> None:
    with acquire(etcd, "n1", 1):
        before = dict(etcd.ends)
        for _ in range(5):
            with trouble("the one slot of the region is taken"), acquire(etcd, "n2", 1):
                pass
        assert etcd.ends == before


def test_a_slot_that_another_takes_between_look_and_try_is_passed_over(etcd: Etcd) -> None:
    def snatch(what: str) -> None:
        if what == "acquire" and not etcd.keys:
            etcd.ends[1] = etcd.now + TTL
            etcd.keys |= {f"/tooz/locksplimsoll-probe-slot-{n}".encode(): ("other", 1) for n in (0, 1)}

    etcd.before = snatch
    with acquire(etcd, "0") as held:
        held.ensure(1)
        assert etcd.held() == {"slot-0", "slot-1", "slot-2"}


def test_a_slot_that_a_person_took_away_by_a_key_without_a_lease_stays_taken(etcd: Etcd) -> None:
    etcd.ends[0] = float("inf")
    etcd.keys[b"/tooz/locksplimsoll-probe-slot-0"] = ("a person", 0)
    with trouble("is taken"), acquire(etcd, slots_=1):
        pass


def test_ensure_starts_the_lease_again(etcd: Etcd) -> None:
    with acquire(etcd) as held:
        for _ in range(5):
            etcd.now += TTL - 1
            held.ensure(40)
            assert etcd.held()


def test_a_job_must_fit_into_the_lease_with_the_margin(etcd: Etcd) -> None:
    with acquire(etcd, margin=10) as held:
        held.ensure(TTL - 10)
        with trouble("lasts 60 s", "61 s are needed"):
            held.ensure(TTL - 9)


def test_the_time_that_an_answer_took_is_not_counted_on(etcd: Etcd) -> None:
    def slowly(what: str) -> None:
        if what == "refresh":
            etcd.now += 5

    with acquire(etcd, margin=10) as held:
        etcd.before = slowly
        held.ensure(TTL - 10 - 5)
        with trouble("lasts 55 s"):
            held.ensure(TTL - 10 - 4)


def test_the_proposed_lease_allows_for_the_slowest_answer(etcd: Etcd) -> None:
    def slowly(what: str) -> None:
        if what == "refresh":
            etcd.now += slots.DEADLINE

    with acquire(etcd, ttl=slots.lease_for(98.5)) as held:
        etcd.before = slowly
        held.ensure(98.5)


def test_a_lease_that_ended_is_seen_whoever_has_the_slot_now(etcd: Etcd) -> None:
    with acquire(etcd, "n1", 1) as held:
        etcd.now += TTL + 1
        with trouble("slot-0 was lost"):
            held.ensure(1)
        with acquire(etcd, "n2", 1) as other:
            with trouble("slot-0 was lost"):
                held.ensure(1)
            other.ensure(1)


def test_leaving_does_not_free_a_slot_that_went_to_another(etcd: Etcd) -> None:
    mine = acquire(etcd, "n1", 1)
    mine.__enter__()
    etcd.now += TTL + 1
    with acquire(etcd, "n2", 1) as other:
        mine.__exit__(None, None, None)
        other.ensure(1)


def test_every_lock_is_renewed_and_each_one_lost_is_seen(etcd: Etcd) -> None:
    with acquire(etcd, names=["pool:f/a", "pool:f/b"]) as held:
        etcd.now += TTL - 1
        held.ensure(1)
        etcd.now += 2
        assert len(etcd.held()) == 3
        del etcd.keys[b"/tooz/locksplimsoll-probe-pool:f/b"]
        with trouble("pool:f/b was lost"):
            held.ensure(1)


def test_a_name_is_held_by_one_and_who_is_refused_keeps_nothing(etcd: Etcd) -> None:
    with acquire(etcd, "n1", names=["pool:f/b"]):
        before = etcd.held()
        with trouble("holds pool:f/b"), acquire(etcd, "n2", names=["pool:f/b", "pool:f/a"]):
            pass
        assert etcd.held() == before
        with acquire(etcd, "n2", names=["pool:f/a"]):
            pass
    assert etcd.held() == set()


def test_without_a_free_slot_the_names_are_given_back(etcd: Etcd) -> None:
    with acquire(etcd, "n1", 1):
        with trouble("is taken"), acquire(etcd, "n2", 1, names=["pool:f/a"]):
            pass
        assert etcd.held() == {"slot-0"}


class DriverError(Exception):
    """As etcd3gw's: what it has to say is not what str() gives."""

    detail_text = "etcdserver: no leader\nthere is none\x1b[2J"


def broken(what: str) -> None:
    try:
        raise DriverError
    except DriverError as error:
        raise RuntimeError(f"{what} failed") from error


def test_an_error_of_the_driver_is_one_line_from_the_bottom_of_it(etcd: Etcd) -> None:
    etcd.before = broken
    with trouble("etcd at 127.0.0.1:2379: DriverError: etcdserver: no leader there is none?[2J"), acquire(etcd):
        pass


@pytest.mark.parametrize("answer", [KeyError("lease"), ValueError("no JSON"), ConnectionRefusedError(111, "refused")])
def test_whatever_goes_wrong_no_job_begins(etcd: Etcd, answer: Exception) -> None:
    with acquire(etcd) as held:
        etcd.before = raising(answer)
        with trouble("127.0.0.1"):
            held.ensure(1)
    with trouble("127.0.0.1"), acquire(etcd):
        raise AssertionError("held")


def test_a_slot_that_cannot_be_given_back_does_not_hide_how_the_block_ended(etcd: Etcd) -> None:
    def fail() -> None:
        etcd.before = broken
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), acquire(etcd):
        fail()
    etcd.before = lambda what: None
    with acquire(etcd):
        etcd.before = broken


def test_a_service_that_hangs_costs_the_deadline_and_no_slot(etcd: Etcd) -> None:
    answers, tried = threading.Event(), threading.Event()

    def hang(what: str) -> None:
        answers.wait(10)
        if what == "release":
            tried.set()

    etcd.before = hang
    started = time.monotonic()
    with trouble("within 0.2 s"), acquire(etcd, deadline=0.2, clock=time.monotonic):
        pass
    assert time.monotonic() - started < 2
    # What was abandoned goes on by itself: it gets its slot, sees that it is late, and gives it back.
    answers.set()
    assert tried.wait(5)
    deadline = time.monotonic() + 5
    while etcd.keys and time.monotonic() < deadline:
        time.sleep(0.01)
    assert etcd.keys == {}


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("zookeeper://geheim@10.0.0.5:2181", "must be etcd3+http://"),
        ("etcd3+http://plimsoll:geheim@10.0.0.5:2379", "certificate"),
        ("etcd3+http://geheim:port", "must be"),
        ("etcd3+https://", "must be"),
        ("10.0.0.5:2379/geheim", "must be"),
        ("etcd3+http://10.0.0.5:2379?lock_timeout=geheim", "[probe] coordination"),
    ],
)
def test_a_url_that_cannot_be_meant_is_the_operators_and_is_not_repeated(url: str, word: str) -> None:
    with pytest.raises(ConfigError) as caught, slots.acquire(url, 3, node="n1", ttl=60):
        pass
    assert word in str(caught.value)
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("module", ["tooz", "etcd3gw"])
def test_without_tooz_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=r"plimsoll-agent\[region\]"), slots.acquire(URL, 3, node="n1", ttl=60):
        pass
