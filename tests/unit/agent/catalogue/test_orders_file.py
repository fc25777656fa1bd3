"""The two files beside the region's file: what is saved is what is read, and anything else is refused by its name."""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from plimsoll_agent.catalogue.model import CatalogueError, CorruptCatalogue, NewerCatalogue
from plimsoll_agent.catalogue.orders import Of, Orders, RegionApproval, RegionHold, RegionPause
from plimsoll_agent.catalogue.orders_file import MOST_BYTES, LastReading, RegionState
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.util import locks
from plimsoll_agent.util.frozen import replace
from tests.unit.nobody import umask
from tests.unit.values import NOON

DAY = timedelta(days=1)
APPROVAL = RegionApproval(
    of=Of.SPECS, digest="0a1b" * 16, since=NOON, until=NOON + DAY, by="ann", why="sale", remove=frozenset({"t1"})
)
BOUNDS = RegionApproval(
    of=Of.BOUNDS, digest="", since=NOON, until=NOON + DAY, by="ann", why="move", disks=40, percent=50
)
HOLD = RegionHold(disk="v1", limits=Limits(total_iops_sec=500), since=NOON, until=NOON + DAY, by="ann", why="import")
ORDERS = Orders(
    approvals=(APPROVAL, BOUNDS),
    pause=RegionPause(since=NOON, until=None, by="root", why="Ceph moves"),
    holds=(HOLD,),
)
LAST = LastReading(
    at=NOON,
    read="aa",
    published="bb",
    since=NOON - DAY,
    lines=("gold: 3000 → 30", "3 volumes"),
    removals=frozenset({"t2", "t1"}),
    types={"t1": "gold"},
    orders=ORDERS,
)


@pytest.fixture
def beside(tmp_path: Path) -> RegionState:
    return RegionState(tmp_path / "region.json")


def test_before_the_first_command_there_are_none(beside: RegionState) -> None:
    assert (beside.orders(), beside.last()) == (None, None)


def test_they_stand_beside_the_regions_file(beside: RegionState) -> None:
    beside.save_orders(ORDERS)
    beside.save_last(LAST)
    assert {file.name for file in beside.out.parent.iterdir()} == {"region.json.orders", "region.json.last"}


@pytest.mark.parametrize("orders", [ORDERS, Orders()])
def test_orders_are_read_as_saved(beside: RegionState, orders: Orders) -> None:
    beside.save_orders(orders)
    assert beside.orders() == orders


@pytest.mark.parametrize("last", [LAST, LastReading(at=NOON, read="aa", published="aa"), replace(LAST, since=None)])
def test_the_last_reading_is_read_as_it_was_saved(beside: RegionState, last: LastReading) -> None:
    beside.save_last(last)
    assert beside.last() == last


def test_both_files_are_for_their_owner_and_its_group_and_can_be_compared_line_by_line(beside: RegionState) -> None:
    """Who approved what, and why, is for operators."""
    with umask(0):
        beside.save_orders(ORDERS)
        beside.save_last(LAST)
    for file in (beside.orders_file, beside.last_file):
        assert stat.S_IMODE(file.stat().st_mode) == 0o640
        text = file.read_text()
        assert text.endswith("\n}\n")
        assert text.startswith('{\n "kind": ')


def test_equal_readings_are_equal_bytes(beside: RegionState) -> None:
    written = set()
    for removals in (("t1", "t2", "t3", "t4"), ("t4", "t3", "t2", "t1")):
        beside.save_last(replace(LAST, removals=frozenset(removals)))
        written.add(beside.last_file.read_bytes())
    assert len(written) == 1
    assert json.loads(written.pop())["removals"] == ["t1", "t2", "t3", "t4"]


Read = Callable[[RegionState], object]
BOTH: tuple[tuple[Read, str], ...] = ((RegionState.orders, "orders"), (RegionState.last, "last"))


@pytest.mark.parametrize(("read", "name"), BOTH)
def test_a_file_of_another_kind_or_of_no_kind_is_corrupt_by_its_name(
    beside: RegionState, read: Read, name: str
) -> None:
    beside.save_orders(ORDERS)
    beside.save_last(LAST)
    mine, other = beside.out.with_name(f"region.json.{name}"), beside.orders_file
    if name == "orders":
        other = beside.last_file
    good = json.loads(mine.read_text())
    for content in (other.read_text(), "", "{", "[]", json.dumps({**good, "version": 0})):
        mine.write_text(content)
        with pytest.raises(CorruptCatalogue, match=f"{mine}: is corrupt"):
            read(beside)


@pytest.mark.parametrize(("read", "name"), BOTH)
def test_a_file_of_a_newer_plimsoll_is_told_by_its_name(beside: RegionState, read: Read, name: str) -> None:
    beside.save_orders(ORDERS)
    beside.save_last(LAST)
    file = beside.out.with_name(f"region.json.{name}")
    good = json.loads(file.read_text())
    assert good["version"] == 1
    file.write_text(json.dumps({**good, "version": 2}))
    with pytest.raises(NewerCatalogue, match=rf"{file}: written by a newer plimsoll \(version 2, known up to 1\)"):
        read(beside)


GONE = object()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *((key, GONE) for key in ("at", "read", "published", "since", "lines", "removals", "types", "pause")),
        *(("read", 5), ("published", None), ("lines", [5]), ("removals", [5]), ("types", {"t1": 5}), ("since", 5)),
    ],
)
def test_a_last_reading_without_a_part_or_with_one_of_another_type_is_corrupt(
    beside: RegionState, key: str, value: object
) -> None:
    beside.save_last(LAST)
    parts = json.loads(beside.last_file.read_text()) | {key: value}
    beside.last_file.write_text(json.dumps({name: part for name, part in parts.items() if part is not GONE}))
    with pytest.raises(CorruptCatalogue):
        beside.last()


def test_a_file_that_is_too_large_or_no_file_is_refused(beside: RegionState) -> None:
    beside.orders_file.write_bytes(b" " * (MOST_BYTES + 1))
    with pytest.raises(CorruptCatalogue, match=f"is larger than {MOST_BYTES} bytes"):
        beside.orders()
    beside.last_file.mkdir()
    with pytest.raises(CatalogueError, match=r"region\.json\.last: ") as refused:
        beside.last()
    assert not isinstance(refused.value, CorruptCatalogue), "it may be whole"


@pytest.mark.parametrize(
    "save", [lambda beside: beside.save_orders(ORDERS), lambda beside: beside.save_last(LAST)], ids=["orders", "last"]
)
def test_what_cannot_be_written_is_told(tmp_path: Path, save: Callable[[RegionState], None]) -> None:
    with pytest.raises(CatalogueError, match=r"region\.json\.(orders|last): cannot be written"):
        save(RegionState(tmp_path / "gone" / "region.json"))


def test_one_command_changes_orders_at_a_time_and_the_next_one_waits(
    beside: RegionState, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, goes_on = threading.Event(), threading.Event()

    def change() -> None:
        with beside.locked():
            inside.set()
            goes_on.wait(20)

    first = threading.Thread(target=change)
    first.start()
    assert inside.wait(20)
    lock = beside.out.with_name("region.json.orders.lock")
    assert lock.exists(), "the directory itself is locked by a refresh, for a minute"
    with monkeypatch.context() as hasty:
        hasty.setattr(locks, "_LONGEST_CHANGE", 0.05)
        told = f"{lock}: another command is changing the region's orders; try again"
        with pytest.raises(CatalogueError, match=told), beside.locked():
            pass
    threading.Timer(0.05, goes_on.set).start()
    with beside.locked():
        assert goes_on.is_set(), "it has waited"
    first.join(20)


def test_what_a_killed_command_left_of_orders_is_removed_by_the_next(beside: RegionState) -> None:
    left, others = beside.out.with_name(".region.json.orders.x1y2z3"), beside.out.with_name(".region.json.x1y2z3")
    for file in (left, others):
        file.write_text("{")
        os.utime(file, (0, 0))
    with beside.locked():
        assert not left.exists()
    assert others.exists(), "a refresh writes it"
