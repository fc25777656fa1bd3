"""The region's file as bytes, and which one to go by."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from plimsoll_agent.catalogue.model import Lists, VolumeType
from plimsoll_agent.catalogue.orders import Of, Orders, RegionApproval, RegionHold, RegionPause, Withdrawal
from plimsoll_agent.catalogue.qosspec import QosSpec
from plimsoll_agent.catalogue.signed_file import (
    Region,
    UnfitRegion,
    UnreadableRegion,
    check_fit,
    check_follows,
    decode,
    encode,
)
from plimsoll_agent.catalogue.stages import StageCheck, Stages
from plimsoll_agent.util.frozen import replace
from tests.unit import oldregion

DATA = Path(__file__).parents[2] / "data"
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
REGION = Region(
    generation=5,
    issued=NOW,
    begun=NOW - timedelta(minutes=2),
    source="lab",
    specs={"s1": QosSpec(id="s1", name="gold-iops", consumer="front-end", keys={"total_iops_sec": "500", "x": None})},
    types={
        "t1": VolumeType(id="t1", name="gold", qos_spec="s1"),
        "t2": VolumeType(id="t2", name="hidden", qos_spec=None, hidden=True),
    },
    volumes={"v1": "t1", "v2": "t1", "v3": None},
    servers={
        "g1": {"quota:disk_total_iops_sec": "9"},
        "g2": {"quota:disk_total_iops_sec": "9"},
        "g3": {},
        "g4": None,
    },
    orders=Orders(
        approvals=(
            RegionApproval(
                of=Of.SPECS,
                digest="0a1b" * 16,
                since=NOW,
                until=NOW + timedelta(days=7),
                by="ann",
                why="sale",
                remove=frozenset({"t1"}),
            ),
            RegionApproval(
                of=Of.BOUNDS,
                digest="",
                since=NOW,
                until=NOW + timedelta(hours=2),
                by="ann",
                why="move",
                disks=40,
                percent=50,
            ),
        ),
        pause=RegionPause(since=NOW, until=NOW + timedelta(hours=1), by="root", why="Ceph moves"),
        holds=(
            RegionHold(disk="v1", limits=None, since=NOW, until=NOW + timedelta(hours=1), by="ann", why="import"),
        ),
    ),
    valid_until=NOW + timedelta(days=1),
)


OTHER = Lists(
    {"s1": QosSpec(id="s1", name="gold-iops", consumer="front-end", keys={"total_iops_sec": "5"})}, REGION.types
)
IN_STAGES = replace(
    REGION,
    other=OTHER,
    orders=Orders(
        staged=(
            RegionApproval(
                of=Of.SPECS,
                digest=OTHER.digest,
                since=NOW,
                until=NOW + timedelta(days=7),
                by="ann",
                why="sale",
                stages=Stages(
                    percent=(1.0, 12.5, 100.0),
                    wait=timedelta(minutes=30),
                    before=Lists(REGION.specs, REGION.types).digest,
                    types=("gold",),
                    without=frozenset({StageCheck.HEALTH}),
                    reached=1,
                    entered=NOW,
                    began=NOW - timedelta(hours=1),
                ),
            ),
        ),
        withdrawals=(
            Withdrawal(
                of=Of.RULES,
                digest="0a1b" * 16,
                before="",
                began=NOW,
                since=NOW + timedelta(hours=1),
                until=NOW + timedelta(days=30),
                by="ann",
                why="slow",
            ),
        ),
    ),
)


@pytest.mark.parametrize("region", [REGION, IN_STAGES])
def test_what_is_written_is_what_is_read(region: Region) -> None:
    assert decode(encode(region), "it") == region


def staged_at(number: int) -> Region:
    (one,) = IN_STAGES.orders.staged
    assert one.stages is not None
    orders = Orders(staged=(replace(one, stages=one.stages.at(number, NOW)),))
    if number < 2:
        return replace(IN_STAGES, orders=orders)
    return replace(IN_STAGES, orders=orders, specs=OTHER.specs, other=Lists(REGION.specs, REGION.types))


@pytest.mark.parametrize(("number", "nodes"), [(0, [0.5]), (1, [0.5, 12.0]), (2, [0.5, 12.0, 60.0])])
def test_only_nodes_of_a_stage_see_its_specs_and_an_approval_of_them(number: int, nodes: list[float]) -> None:
    region = decode(encode(staged_at(number)), "it")
    for position in (0.5, 12.0, 60.0):
        here, orders = region.on_node(position), region.orders.on_node(position)
        assert (here.specs == OTHER.specs) == (position in nodes)
        assert orders.approve(Of.SPECS, OTHER.digest, NOW) == (position in nodes)


def test_the_last_stage_has_its_specs_also_where_those_of_before_are_approved() -> None:
    """They were edited in the same week, or approved for the return from an approval that was withdrawn."""
    region = staged_at(2)
    assert region.other is not None
    before = RegionApproval(
        of=Of.SPECS, digest=region.other.digest, since=NOW, until=NOW + timedelta(days=7), by="ann", why="sale"
    )
    region = replace(region, orders=replace(region.orders, approvals=(before,)))
    assert [region.on_node(position).specs for position in (0.5, 60.0)] == [OTHER.specs] * 2


@pytest.mark.parametrize("read", [oldregion.read, oldregion.read_with_approvals])
@pytest.mark.parametrize(("number", "limit"), [(0, "500"), (1, "500"), (2, "5")])
def test_a_node_of_an_earlier_release_waits_for_the_last_stage(read: Any, number: int, limit: str) -> None:
    then = read(encode(staged_at(number)))
    assert then["specs"]["s1"]["total_iops_sec"] == limit
    approved = {one["digest"] for one in then.get("approvals", [])}
    assert approved == ({OTHER.digest} if number == 2 and "approvals" in then else set())


@pytest.mark.parametrize("hours", [-1, 1])
def test_on_a_node_whose_clock_is_an_hour_off_a_stage_begins_no_sooner(hours: int) -> None:
    """What differs: an hour behind it refuses the file, and stays where it is."""
    clock = NOW + timedelta(hours=hours)
    for number, share in enumerate((1.0, 12.5)):
        region = staged_at(number)
        assert region.on_node(share + 1).specs == REGION.specs
        assert not region.orders.on_node(share + 1).approve(Of.SPECS, OTHER.digest, clock)
        if hours < 0:
            with pytest.raises(UnfitRegion, match="is from the future"):
                check_fit(region, "d", (0, None), clock, "it")
        else:
            check_fit(region, "d", (0, None), clock, "it")


def test_equal_regions_are_equal_bytes() -> None:
    shuffled = replace(REGION, volumes=dict(reversed(REGION.volumes.items())))
    assert encode(shuffled) == encode(REGION)


def test_a_flavor_stands_in_it_once_however_many_guests_have_it() -> None:
    many = replace(REGION, servers={f"g{number}": {"quota:disk_total_iops_sec": "9"} for number in range(500)})
    assert encode(many).count(b"quota:disk_total_iops_sec") == 1


APPROVAL = json.loads(encode(REGION))["approvals"][0]
STAGES = json.loads(encode(IN_STAGES))["staged"][0]["stages"]


ABSENT = {"approved", "approvals", "pause", "holds", "staged", "withdrawals"}
"""Files of earlier releases are without these."""


def _without(name: str) -> Any:
    envelope = json.loads(encode(REGION))
    del envelope[name]
    return envelope


def _with(**changes: Any) -> Any:
    return json.loads(encode(REGION)) | changes


NO_REGION: list[Any] = [
    *map(_without, json.loads(encode(REGION)).keys() - ABSENT),
    [],
    None,
    5,
    _with(kind="plimsoll-catalogue"),
    _with(version=2),
    _with(version=True),
    _with(generation=-1),
    _with(begun="yesterday"),
    _with(valid_until=5),
    _with(approvals=[5]),
    _with(approvals=[{"of": "specs"}]),
    _with(approvals=None),
    _with(pause={}),
    _with(pause=True),
    _with(holds={}),
    _with(holds=[APPROVAL]),
    _with(staged=[APPROVAL]),
    _with(staged=[APPROVAL | {"stages": STAGES | {"percent": [1, 10]}}]),
    _with(staged=[APPROVAL | {"stages": STAGES | {"percent": [True, 100]}}]),
    _with(staged=[APPROVAL | {"stages": STAGES | {"reached": 3}}]),
    _with(staged=[APPROVAL | {"stages": STAGES | {"at_limit": 1e400}}]),
    _with(withdrawals=[APPROVAL]),
    _with(other_specs=[]),
    _with(specs={}),
    _with(specs=[{"id": "s1"}]),
    _with(specs=[{"id": "s", "name": "a", "consumer": "both", "specs": {}}] * 2),
    _with(types=[{"id": "t", "name": "a", "qos_spec": 5, "hidden": False}]),
    _with(types=[{"id": "t", "name": "a", "qos_spec": None, "hidden": "no"}]),
    _with(volumes=[{"type": 5, "volumes": ["v"]}]),
    _with(volumes=[{"type": "t", "volumes": "v1"}]),
    _with(volumes=[{"type": "t", "volumes": [["v1"]]}]),
    _with(volumes={"v": "t"}),
    _with(servers=[{"extra_specs": {"a": 5}, "servers": ["g"]}]),
    _with(servers=[{"extra_specs": [], "servers": [None]}]),
]


@pytest.mark.parametrize(
    "content",
    [
        *(json.dumps(envelope).encode() for envelope in NO_REGION),
        b"\xff\xfe",
        b"[" * 100_000,
        encode(REGION)[:-40],
        encode(REGION).replace(b'"generation": 5', b'"generation": 1e400'),
    ],
)
def test_what_is_no_region_file_is_refused_in_one_line(content: bytes) -> None:
    with pytest.raises(UnreadableRegion) as refused:
        decode(content, "it")
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 400


HEAD = replace(REGION, specs={}, types={}, volumes={}, servers={})


def test_a_pass_reads_the_orders_and_not_the_thousands_of_volumes() -> None:
    assert decode(encode(REGION), "it", whole=False) == HEAD
    damaged = _with(specs=5, types=5, volumes=5, servers=5)
    assert decode(json.dumps(damaged).encode(), "it", whole=False) == HEAD
    with pytest.raises(UnreadableRegion):
        decode(json.dumps(_with(pause=5)).encode(), "it", whole=False)


def test_orders_of_a_file_count_after_its_time_and_whatever_the_clock_says() -> None:
    """They have ends of their own; so an earlier file is told by its generation alone."""
    late = replace(REGION, valid_until=NOW - timedelta(days=9), begun=NOW + timedelta(days=9))
    check_follows(late, "this one", (5, "this one"), "it")
    check_follows(late, "this one", (4, "another"), "it")
    with pytest.raises(UnfitRegion, match=r"^it: is older \(generation 5\) than the last one \(6\)$"):
        check_follows(late, "this one", (6, None), "it")
    told = r"^it: has the same generation \(5\) as the last one, but other content$"
    with pytest.raises(UnfitRegion, match=told):
        check_follows(late, "this one", (5, "another"), "it")


def fit(region: Region, generation: int = 0, digest: str | None = None, now: datetime = NOW) -> None:
    check_fit(region, "this one", (generation, digest), now, "it")


def test_the_same_file_and_a_newer_one_are_fit() -> None:
    fit(REGION)
    fit(REGION, 4, "another")
    fit(REGION, 5, "this one")
    fit(REGION, 5, None)


def test_yesterdays_file_and_another_of_the_same_generation_are_not() -> None:
    with pytest.raises(UnfitRegion, match=r"^it: is older"):
        fit(REGION, 6)
    with pytest.raises(UnfitRegion, match="other content"):
        fit(REGION, 5, "another")


def test_a_file_has_its_time() -> None:
    fit(REGION, now=NOW + timedelta(days=1))
    with pytest.raises(UnfitRegion, match="was valid until 2026-11-22 12:00 UTC"):
        fit(REGION, now=NOW + timedelta(hours=25))
    fit(REGION, now=NOW - timedelta(minutes=7))
    with pytest.raises(UnfitRegion, match="from the future"):
        fit(REGION, now=NOW - timedelta(days=1))


# --- nodes and publishers of different age


def test_a_node_of_before_reads_todays_file_and_its_brake_takes_nothing_in_it_for_an_approval() -> None:
    old = oldregion.read(encode(REGION))
    assert old["volumes"] == REGION.volumes
    assert old["servers"] == REGION.servers
    assert old["types"] == {"t1": ("gold", "s1"), "t2": ("hidden", None)}
    assert not oldregion.lets_through(old, REGION.orders.approvals[0].digest[:6])


def test_a_file_of_before_is_read_and_its_part_of_a_digest_approves_of_nothing() -> None:
    region = decode((DATA / "region_0ee6323.json").read_bytes(), "it")
    assert region.volumes == {"v1": "t1"}
    assert region.orders == Orders()


def test_what_a_newer_publisher_adds_is_not_looked_at_and_lets_nothing_through() -> None:
    newer = _with(moon="full", approvals=[APPROVAL | {"of": "moon"}, APPROVAL | {"colour": "blue"}])
    region = decode(json.dumps(newer).encode(), "it")
    assert region.orders.approvals == REGION.orders.approvals[:1]
