"""Which guests another catalogue concerns, and that other orders for the region concern all of them."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from plimsoll_agent.app.fetched import load_catalogue
from plimsoll_agent.catalogue import model as catalogue
from plimsoll_agent.catalogue import signed_file
from plimsoll_agent.catalogue.attachments import Attachment, Attachments
from plimsoll_agent.catalogue.model import Catalogue, Volume
from plimsoll_agent.catalogue.orders import Orders, RegionPause
from plimsoll_agent.config import settings as config
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.daemon.catalogue_watch import CatalogueWatch
from plimsoll_agent.store.state import State
from plimsoll_agent.util.frozen import replace
from tests.unit.clouds import a_catalogue, a_spec, a_type
from tests.unit.node import uuid_of
from tests.unit.regionfile import keep_region_file
from tests.unit.values import NOON

NO_GUESTS: frozenset[str] = frozenset()
GOLD = a_spec("gold-iops", total_iops_sec="500")
KNOWN = a_catalogue(GOLD, types=[a_type("gold", GOLD)])
PAUSED = Orders(pause=RegionPause(since=NOON, until=None, by="ann", why="Ceph moves"))


class Node:
    def __init__(self, directory: Path) -> None:
        whole = config.load([], [])
        self.directory = directory / "catalogue"
        self.directory.mkdir()
        self.state = State(directory / "state")
        self.state.prepare()
        chosen = replace(whole.catalogue, source="openstack", directory=self.directory)
        self.settings: Settings = replace(whole, state_dir=directory / "state", catalogue=chosen)

    def goes_by_the_region(self) -> None:
        public = keep_region_file(self.directory)
        chosen = replace(self.settings.catalogue, source="region-file", region_key=public)
        self.settings = replace(self.settings, catalogue=chosen)

    def without_a_source(self) -> Settings:
        return replace(self.settings, catalogue=replace(self.settings.catalogue, source="none"))

    def save(self, known: Catalogue) -> None:
        catalogue.save(self.directory, known)

    def watch(self) -> CatalogueWatch:
        return CatalogueWatch(self.settings)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_what_is_there_at_the_start_is_no_change(node: Node) -> None:
    node.save(KNOWN)
    assert node.watch().changed(node.settings) == NO_GUESTS


def test_the_first_catalogue_may_concern_every_guest_once(node: Node) -> None:
    watch = node.watch()
    node.save(KNOWN)
    assert [watch.changed(node.settings) for _ in range(3)] == [None, NO_GUESTS, NO_GUESTS]


def test_a_file_that_did_not_change_is_not_read(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.save(KNOWN)
    watch = node.watch()
    monkeypatch.setattr("plimsoll_agent.daemon.catalogue_watch.load_catalogue", lambda _: pytest.fail("it was read"))
    assert watch.changed(node.settings) == NO_GUESTS


def test_data_of_a_volume_concern_the_guest_that_has_it_attached(node: Node) -> None:
    met = {f"{uuid_of(number)}/v{number}": Attachment(mark="m", since=NOON) for number in (1, 2)}
    node.state.save_attachments(Attachments(met, {}))
    node.save(KNOWN)
    watch = node.watch()
    node.save(
        replace(KNOWN, generation=2, volumes={"v2": Volume(type="id-of-gold", marks=frozenset("m"), read=NOON)})
    )
    assert watch.changed(node.settings) == {uuid_of(2)}
    node.save(replace(KNOWN, generation=3))
    assert watch.changed(node.settings) == {uuid_of(2)}, "compared with the one before"


def test_a_catalogue_that_is_damaged_and_whole_again_concerns_every_guest_each_time(node: Node) -> None:
    node.save(KNOWN)
    watch = node.watch()
    (node.directory / catalogue.NAME).write_text("{")
    assert [watch.changed(node.settings) for _ in range(2)] == [None, NO_GUESTS]
    (node.directory / catalogue.NAME).write_text("{{")
    assert watch.changed(node.settings) == NO_GUESTS, "it is as damaged as before"
    node.save(KNOWN)
    assert watch.changed(node.settings) is None


def test_without_a_source_no_file_concerns_a_guest_and_with_one_again_it_does(node: Node) -> None:
    none = node.without_a_source()
    watch = CatalogueWatch(none)
    node.save(KNOWN)
    node.goes_by_the_region()
    assert watch.changed(none) == NO_GUESTS
    assert watch.changed(node.settings) is None


def test_the_source_openstack_has_no_orders(node: Node) -> None:
    node.save(KNOWN)
    watch = node.watch()
    keep_region_file(node.directory, PAUSED, 2)
    assert watch.changed(node.settings) == NO_GUESTS


def test_other_orders_concern_every_guest_and_the_same_ones_in_another_file_none(node: Node) -> None:
    node.goes_by_the_region()
    node.save(KNOWN)
    watch = node.watch()
    changed = []
    for generation, orders in ((2, Orders()), (3, PAUSED), (4, PAUSED), (5, Orders())):
        keep_region_file(node.directory, orders, generation)
        changed.append(watch.changed(node.settings))
    assert changed == [NO_GUESTS, None, NO_GUESTS, None]


def test_orders_that_become_unknown_or_known_concern_every_guest(node: Node) -> None:
    node.goes_by_the_region()
    node.save(KNOWN)
    watch = node.watch()
    (node.directory / signed_file.NAME).write_bytes(b"{}")
    assert [watch.changed(node.settings) for _ in range(2)] == [None, NO_GUESTS]
    (node.directory / signed_file.NAME).unlink()
    assert watch.changed(node.settings) == NO_GUESTS, "they are as unknown as before"
    keep_region_file(node.directory, generation=2)
    assert watch.changed(node.settings) is None
    key = node.settings.catalogue.region_key
    pem = key.read_bytes()
    key.unlink()
    assert watch.changed(node.settings) is None, "without the key no signature can be checked"
    key.write_bytes(pem)
    assert watch.changed(node.settings) is None


def test_a_look_remembers_no_orders_for_passes(node: Node) -> None:
    """What a pass remembers it has also obeyed."""
    node.goes_by_the_region()
    watch = node.watch()
    keep_region_file(node.directory, PAUSED, 2)
    assert watch.changed(node.settings) is None
    assert not node.state.orders.exists()


def test_passes_and_the_watch_share_one_catalogue(node: Node) -> None:
    node.save(replace(KNOWN, issued=datetime.now(UTC)))
    path = node.directory / catalogue.NAME
    os.utime(path, (1, 1))
    end = time.monotonic() + 20
    while time.time_ns() - path.stat().st_ctime_ns <= timedelta(seconds=0.1).total_seconds() * 10**9:
        assert time.monotonic() < end  # before, it could change unseen
    watch = node.watch()
    assert watch._known is not None
    assert watch._known is load_catalogue(node.settings.catalogue)
