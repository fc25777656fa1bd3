"""What is decided for a region: how long it counts, and for what."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timedelta

import pytest

from plimsoll_agent.catalogue.model import Catalogue, VolumeType, digest_of
from plimsoll_agent.catalogue.orders import Of, Orders, RegionApproval, RegionHold, RegionPause
from plimsoll_agent.catalogue.qosspec import QosSpec
from plimsoll_agent.messages.sentences import words
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.holds import Hold
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code
from plimsoll_agent.util.frozen import replace
from tests.unit.values import GUEST, NOON, VOLUME, a_disk, a_situation

HOUR = timedelta(hours=1)
DIGEST = "0a1b" * 16
APPROVAL = RegionApproval(of=Of.SPECS, digest=DIGEST, since=NOON, until=NOON + HOUR, by="ann", why="sale")
HELD, LOCAL = Limits(total_iops_sec=500), Limits(total_iops_sec=99)


def test_an_approval_is_of_one_whole_digest_until_its_end() -> None:
    orders = Orders(approvals=(APPROVAL,))
    assert orders.approve(Of.SPECS, DIGEST, NOON)
    assert orders.approve(Of.SPECS, DIGEST, NOON - HOUR)  # a node whose clock is behind
    assert not orders.approve(Of.SPECS, DIGEST, NOON + HOUR)
    assert not orders.approve(Of.RULES, DIGEST, NOON)
    for other in (DIGEST[:16], DIGEST[:-1] + "c", ""):
        assert not orders.approve(Of.SPECS, other, NOON)


def test_a_removal_is_approved_of_for_the_types_that_are_named_only() -> None:
    orders = Orders(approvals=(APPROVAL, replace(APPROVAL, remove=frozenset({"t-1"}), until=NOON + 2 * HOUR)))
    assert orders.approve(Of.SPECS, DIGEST, NOON, removing="t-1")
    assert orders.approve(Of.SPECS, DIGEST, NOON + HOUR, removing="t-1")
    assert not orders.approve(Of.SPECS, DIGEST, NOON, removing="t-2")
    assert not orders.approve(Of.SPECS, DIGEST, NOON, removing="")  # a type that this node does not know


def test_a_spec_with_the_same_24_bits_is_not_what_was_approved_of() -> None:
    """Whoever may edit specs grinds an extra key until the first six digits are those that were approved of."""

    def made(salt: int) -> Catalogue:
        spec = QosSpec(id="s", name="gold", consumer="front-end", keys={"total_iops_sec": "1000000", "x": str(salt)})
        return Catalogue(1, NOON, "lab", {"s": spec}, {"t": VolumeType(id="t", name="gold", qos_spec="s")})

    good = replace(
        made(0), specs={"s": QosSpec(id="s", name="gold", consumer="front-end", keys={"total_iops_sec": "3000"})}
    )
    short = 3  # digits: the same forgery in a thousandth of the time
    forged = next(one for one in map(made, range(10**6)) if one.digest[:short] == good.digest[:short])
    whole, part = (
        Orders(approvals=(replace(APPROVAL, digest=digest),)) for digest in (good.digest, good.digest[:short])
    )

    def approved(known: Catalogue, orders: Orders) -> bool:
        return replace(a_situation(), catalogue=known, orders=orders).approved_specs()

    assert approved(good, whole)
    assert not approved(forged, whole)
    assert not approved(forged, part)


def test_the_digest_is_a_whole_sha256() -> None:
    content = json.dumps({"specs": {}, "types": {}}, sort_keys=True)
    assert digest_of({}, {}) == hashlib.sha256(content.encode()).hexdigest()


def test_the_highest_bounds_that_stand_count() -> None:
    low = replace(APPROVAL, of=Of.BOUNDS, digest="", disks=40, percent=10)
    high = replace(low, disks=10, percent=50, until=NOON + 2 * HOUR)
    orders = Orders(approvals=(APPROVAL, low, high))
    assert orders.bounds(NOON) == (40, 50)
    assert orders.bounds(NOON + HOUR) == (10, 50)
    assert orders.bounds(NOON + 2 * HOUR) == (0, 0)


def test_a_pause_ends_at_its_end_or_stands() -> None:
    pause = RegionPause(since=NOON, until=None, by="ann", why="Ceph moves")
    assert Orders().paused(NOON) is None
    assert Orders(pause=pause).paused(NOON + timedelta(days=999)) == pause.reason
    ends = Orders(pause=replace(pause, until=NOON + HOUR))
    assert ends.paused(NOON) is not None
    assert ends.paused(NOON + HOUR) is None
    assert words(pause.reason) == "paused by ann in the whole region: Ceph moves"


@pytest.mark.parametrize(
    ("name", "held"),
    [(VOLUME, True), (f"{GUEST}/{VOLUME}", True), ("another", False), (f"other/{VOLUME}", False), (GUEST, False)],
)
def test_a_hold_finds_its_disk_by_identity(name: str, held: bool) -> None:
    disk = a_disk()
    found = Orders(holds=(a_hold(name),)).hold(disk, NOON)
    assert (found is not None) == held
    if found is not None:
        assert found == Hold(
            disk=disk.named, limits=HELD, since=NOON, until=NOON + HOUR, by="ann", why="import", region=True
        )
        assert words(found.reason) == "held in the whole region until 2026-11-20 13:00 UTC by ann: import"


def a_hold(disk: str, limits: Limits | None = HELD) -> RegionHold:
    return RegionHold(disk=disk, limits=limits, since=NOON, until=NOON + HOUR, by="ann", why="import")


def test_a_disk_of_the_guests_own_is_held_by_its_image() -> None:
    own = a_disk(volume_id=None, pool="vms", image="g_disk")
    assert Orders(holds=(a_hold(f"{GUEST}/vms/g_disk"),)).hold(own, NOON) is not None
    assert Orders(holds=(a_hold("None"), a_hold(""))).hold(own, NOON) is None


def test_the_hold_for_the_disk_of_one_guest_comes_before_the_volumes_and_a_local_one_before_both() -> None:
    disk = a_disk()
    orders = Orders(holds=(a_hold(VOLUME), a_hold(f"{GUEST}/{VOLUME}", None)))
    assert held(disk, orders) == (None, True)
    local = Hold(disk=disk.named, limits=LOCAL, since=NOON, until=NOON + HOUR, by="bob", why="mine")
    assert held(disk, orders, local) == (LOCAL, False)
    ended = replace(local, until=NOON)
    assert held(disk, orders, ended) == (None, True)


def held(disk: Disk, orders: Orders, local: Hold | None = None) -> tuple[Limits | None, bool]:
    situation = replace(a_situation(), orders=orders, holds={} if local is None else {disk.key: local})
    found = situation.hold(disk)
    assert found is not None
    assert found.reason.code is Code.HOLD
    return found.limits, found.region


def test_what_has_ended_is_left_out() -> None:
    orders = Orders(
        approvals=(APPROVAL, replace(APPROVAL, until=NOON)),
        pause=RegionPause(since=NOON, until=NOON, by="a", why=""),
        holds=(a_hold(VOLUME), a_hold("x")),
    )
    assert orders.standing(NOON) == Orders(approvals=(APPROVAL,), pause=None, holds=orders.holds)
    assert orders.standing(NOON + HOUR) == Orders()
    pause = RegionPause(since=NOON, until=NOON + HOUR, by="a", why="")
    assert Orders(pause=pause).standing(NOON) == Orders(pause=pause)
    assert Orders(approvals=(APPROVAL,)).standing(NOON) == Orders(approvals=(APPROVAL,))


@pytest.mark.parametrize(("until", "told"), [(NOON + HOUR, "2026-11-20T13:00:00+00:00"), (None, None)])
def test_a_pause_tells_its_end(until: datetime | None, told: str | None) -> None:
    assert RegionPause(since=NOON, until=until, by="ann", why="Ceph moves").reason.facts["until"] == told


def test_bounds_are_the_highest_of_those_that_are_approved_now() -> None:
    given = replace(APPROVAL, of=Of.BOUNDS, digest="")
    disks, percent, less = replace(given, disks=7), replace(given, percent=30), replace(given, disks=6, percent=20)
    assert Orders(approvals=(disks, replace(APPROVAL, disks=99, percent=99))).bounds(NOON) == (7, 0)
    assert Orders(approvals=(percent,)).bounds(NOON) == (0, 30)
    assert Orders(approvals=(disks, less, percent)).bounds(NOON) == (7, 30)
    assert Orders(approvals=(disks, less, percent)).bounds(NOON + HOUR) == (0, 0)
