"""What a refresh asks for, and what becomes of the answers."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from plimsoll_agent.catalogue.attachments import Attachment, Attachments
from plimsoll_agent.catalogue.model import Catalogue, Server, Volume, VolumeType
from plimsoll_agent.catalogue.planner import (
    AGAIN,
    MOST_KNOWN,
    MOST_UNKNOWN,
    SKEW,
    Agenda,
    Answers,
    Lists,
    TypeOf,
    agenda,
    complete,
    next_catalogue,
    slice_of,
)
from plimsoll_agent.catalogue.qosspec import QosSpec
from plimsoll_agent.catalogue.signed_file import Region
from plimsoll_agent.util.frozen import replace

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
INTERVAL = 900.0
GOLD = QosSpec(id="s1", name="gold-iops", consumer="front-end", keys={"total_iops_sec": "500"})
LISTS = Lists({"s1": GOLD}, {"t1": VolumeType(id="t1", name="gold", qos_spec="s1")})


def ago(**span: float) -> datetime:
    return NOW - timedelta(**span)


def met(
    volumes: Mapping[str, str] | None = None, guests: Mapping[str, str] | None = None, since: datetime = NOW
) -> Attachments:
    """Volumes by id with the mark of their attachment to one guest, and guests by uuid with theirs."""
    return Attachments(
        {f"g/{id}": Attachment(mark=mark, since=since) for id, mark in (volumes or {}).items()},
        {uuid: Attachment(mark=mark, since=since) for uuid, mark in (guests or {}).items()},
    )


def known(
    volumes: Mapping[str, Volume] | None = None, servers: Mapping[str, Server] | None = None, issued: datetime = NOW
) -> Catalogue:
    return Catalogue(7, issued, "lab", LISTS.specs, LISTS.types, volumes or {}, servers or {})


def volume(mark: str = "m", type: str | None = "t1", read: datetime = NOW, missing: bool = False) -> Volume:
    return Volume(type=type, marks=frozenset({mark}), read=read, missing=missing)


def due(catalogue: Catalogue | None, attachments: Attachments | None, now: datetime = NOW, **more: bool) -> Agenda:
    return agenda(catalogue, attachments, now, interval=INTERVAL, source="lab", **more)


# --- what is due ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (ago(minutes=13), False),
        (ago(minutes=14), True),  # a timer with jitter comes a little early
        (ago(days=3), True),
        (NOW + SKEW / 2, False),
        (NOW + timedelta(hours=5), True),  # the clock was set back: it would be fresh for hours else
    ],
)
def test_lists_are_asked_for_once_an_interval(read: datetime, expected: bool) -> None:
    assert due(known(issued=read), met()).lists == expected


def test_another_cloud_is_asked_for_its_lists_at_once() -> None:
    assert agenda(known(), met(), NOW, interval=INTERVAL, source="another").lists


def test_a_volume_is_asked_for_once_an_attachment() -> None:
    catalogue = known({"a": volume("m"), "b": volume("m")})
    assert due(catalogue, met({"a": "m", "b": "m"})) == Agenda(lists=False)
    assert due(catalogue, met({"a": "m", "b": "new", "c": "m"})).unknown == ("b", "c")


def test_a_volume_with_two_attachments_is_unknown_until_both_were_asked_for() -> None:
    seen = Attachments({"g1/a": Attachment(mark="m", since=NOW), "g2/a": Attachment(mark="n", since=NOW)})
    assert due(known({"a": volume("m")}), seen).unknown == ("a",)
    both = next_catalogue(
        known({"a": volume("m")}), Answers(volumes={"a": TypeOf(type="t1")}), seen, NOW, source="lab"
    )
    assert due(both, seen).unknown == ()


def test_known_volumes_are_asked_for_again_once_one_is_a_day_old_and_the_oldest_first() -> None:
    volumes = {f"v{hours:02}": volume(read=ago(hours=hours)) for hours in range(25)}
    seen = met(dict.fromkeys(volumes, "m"))
    assert due(known(volumes, issued=ago(hours=1)), seen).again == tuple(sorted(volumes, reverse=True))
    many = {f"v{number:02}": volume(read=ago(days=2)) for number in range(AGAIN + 9)}
    assert len(due(known(many, issued=ago(hours=1)), met(dict.fromkeys(many, "m"))).again) == AGAIN
    assert due(known(volumes), seen).again == ()  # not with every run that somebody starts
    assert due(known({"v": volume(read=ago(hours=23))}, issued=ago(hours=1)), met({"v": "m"})).again == ()


def test_what_is_missing_is_asked_for_again_after_twice_the_time() -> None:
    def again(read: datetime) -> bool:
        catalogue = known({"v": volume(read=read, missing=True)}, issued=ago(hours=1))
        return bool(due(catalogue, met({"v": "m"}, since=ago(hours=6))).again)

    assert [again(ago(hours=hours)) for hours in (0.5, 1, 2, 3.5)] == [False, False, False, True]
    assert due(known({"v": volume(missing=True)}), met({"v": "m"}), at_once=True).again == ("v",)


def test_now_asks_for_all_known_volumes_though_they_were_read_just_now() -> None:
    """Somebody who retyped volumes says --now, and would otherwise wait for a day."""
    volumes = {f"v{number:04}": volume(read=ago(minutes=number + 1)) for number in range(MOST_KNOWN + 5)}
    asked = due(known(volumes), met(dict.fromkeys(volumes, "m")), at_once=True)
    assert asked.at_once
    assert asked.again == tuple(sorted(volumes, reverse=True)[:MOST_KNOWN])  # the oldest first


def test_more_unknown_volumes_than_a_run_may_ask_for_wait() -> None:
    seen = met({f"{number:05}": "m" for number in range(MOST_UNKNOWN + 3)})
    asked = due(known(), seen)
    assert (len(asked.unknown), asked.left) == (MOST_UNKNOWN, 3)


def test_guests_are_asked_for_when_one_is_unknown() -> None:
    server = Server(extra_specs={}, marks=frozenset({"m"}), read=NOW)
    assert not due(known(servers={"g": server}), met(guests={"g": "m"})).servers
    assert due(known(servers={"g": server}), met(guests={"g": "started anew"})).servers
    assert due(known(), met(guests={"g": "m"})).servers
    assert not due(known(), met(guests={"g": "m"}), nova=False).servers


def test_a_guest_that_nova_did_not_know_is_asked_for_again_since_it_may_migrate() -> None:
    missing = Server(extra_specs={}, marks=frozenset({"m"}), read=ago(minutes=20), missing=True)
    assert due(known(servers={"g": missing}), met(guests={"g": "m"}, since=ago(minutes=25))).servers
    assert not due(known(servers={"g": missing}), met(guests={"g": "m"}, since=ago(hours=5))).servers


def test_without_attachments_the_lists_alone_are_due() -> None:
    assert due(None, None) == Agenda(lists=True)
    assert due(known(), None).empty


@pytest.mark.parametrize("volumes", [40, 200, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_node_costs_no_more_than_twelve_calls_an_hour_however_many_volumes_it_has(volumes: int) -> None:
    chance = random.Random(4)
    attachments = met({f"v{number}": "m" for number in range(volumes)}, {"g": "m"}, since=NOW)
    catalogue: Catalogue | None = None
    now = NOW
    calls: list[tuple[datetime, int]] = []
    while now < NOW + timedelta(days=3):
        asked = agenda(catalogue, attachments, now, interval=INTERVAL, source="lab")
        # Fifty a call, those that are asked for again apart from the unknown ones.
        cost = 2 * asked.lists + asked.servers - (-len(asked.unknown) // 50) - (-len(asked.again) // 50)
        calls.append((now, cost))
        told = {id: TypeOf(type="t1") for id in (*asked.unknown, *asked.again)}
        answers = Answers(LISTS if asked.lists else None, told, {"g": {}} if asked.servers else None)
        catalogue = next_catalogue(catalogue, answers, attachments, now, source="lab")
        now += timedelta(seconds=INTERVAL * chance.uniform(0.95, 1.05))
    started = NOW + timedelta(hours=1)
    hour = timedelta(hours=1)
    starts = [started + number * hour for number in range(71)]
    hours = [sum(cost for at, cost in calls if start <= at < start + hour) for start in starts]
    assert max(hours) <= 12 + 3  # a timer that comes a little early may come five times in an hour
    assert sum(hours) / len(hours) <= 12
    assert sum(cost for at, cost in calls if at < started) <= 12 + 1 + volumes / 50
    assert catalogue is not None
    assert min(one.read for one in catalogue.volumes.values()) > now - timedelta(days=1.5)


# --- what becomes of answers ----------------------------------------------------------------------------


def test_the_first_answers_are_generation_one() -> None:
    made = next_catalogue(None, Answers(LISTS, {"a": TypeOf(type="t1")}), met({"a": "m"}), NOW, source="lab")
    assert (made.generation, made.issued, made.source) == (1, NOW, "lab")
    assert made.volumes == {"a": volume("m")}


def test_a_generation_rises_with_content_and_not_with_times_of_reading() -> None:
    before = known({"a": volume(read=ago(days=2))}, issued=ago(hours=1))
    seen = met({"a": "m"})
    same = next_catalogue(before, Answers(LISTS, {"a": TypeOf(type="t1")}), seen, NOW, source="lab")
    assert (same.generation, same.issued, same.volumes["a"].read) == (7, NOW, NOW)
    other = Lists({"s1": replace(GOLD, keys={"total_iops_sec": "600"})}, LISTS.types)
    assert next_catalogue(before, Answers(other), seen, NOW, source="lab").generation == 8
    assert next_catalogue(before, Answers(LISTS, {"a": TypeOf(type=None)}), seen, NOW, source="lab").generation == 8


def test_what_was_not_asked_for_stays_with_the_time_it_was_read() -> None:
    before = known({"a": volume(read=ago(days=2))}, issued=ago(minutes=5))
    after = next_catalogue(before, Answers(), met({"a": "m"}), NOW, source="lab")
    assert after == before


def test_a_volume_that_is_not_sighted_any_more_is_forgotten() -> None:
    before = known({"a": volume(), "b": volume()}, {"g": Server(extra_specs={}, marks=frozenset({"m"}), read=NOW)})
    after = next_catalogue(before, Answers(LISTS), met({"b": "m"}), NOW, source="lab")
    assert (set(after.volumes), set(after.servers)) == ({"b"}, set())
    assert next_catalogue(before, Answers(LISTS), None, NOW, source="lab").volumes == before.volumes


def test_an_answer_counts_for_no_attachment_that_it_was_not_asked_for() -> None:
    before = known({"a": volume("old")})
    detached_and_attached_again = met({"a": "new"})
    assert next_catalogue(before, Answers(LISTS), detached_and_attached_again, NOW, source="lab").volumes == {}


BOTH = Volume(type="t1", marks=frozenset({"m", "n", "n.2"}), read=ago(days=1))


def test_after_an_external_change_a_volume_is_requested_again_and_what_is_known_of_its_attachment_stays() -> None:
    """The limits that it gives are put back meanwhile."""
    before, changed = known({"a": BOTH}), met({"a": "m.1"}, since=NOW)
    assert due(before, changed).unknown == ("a",)
    for after in (
        next_catalogue(before, Answers(LISTS), changed, NOW, source="lab"),
        slice_of(before, region(), changed, source="file"),
    ):
        assert after.volumes == {"a": replace(BOTH, marks=frozenset({"m"}))}, "n was another attachment"
    again = met({"a": "o.1"}, since=NOW)
    assert next_catalogue(before, Answers(LISTS), again, NOW, source="lab").volumes == {}
    assert slice_of(before, region(), again, source="file").volumes == {}


def test_what_is_not_there_is_missing_and_what_was_there_before_is_not_lost() -> None:
    seen = met({"a": "m"}, {"g": "m", "h": "m", "i": "m"})
    before = known(servers={"h": Server(extra_specs={"quota:x": "1"}, marks=frozenset({"m"}), read=ago(days=1))})
    answers = Answers(volumes={"a": TypeOf(type=None, missing=True)}, servers={"g": {"quota:y": "2"}, "i": None})
    after = next_catalogue(before, answers, seen, NOW, source="lab")
    assert after.volumes["a"].missing
    assert after.servers["g"] == Server(extra_specs={"quota:y": "2"}, marks=frozenset({"m"}), read=NOW)
    assert after.servers["h"] == before.servers["h"]  # Nova names another node while it migrates
    assert after.servers["i"].missing


# --- from the region's file -----------------------------------------------------------------------------


def region(**changes: object) -> Region:
    made = Region(
        generation=99,
        issued=NOW,
        begun=ago(minutes=1),
        source="lab",
        specs=LISTS.specs,
        types=LISTS.types,
        volumes={"a": "t1", "b": None, "z": "t1"},
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def test_a_slice_has_what_is_sighted_and_nothing_more() -> None:
    cut = slice_of(None, region(), met({"a": "m", "b": "m", "c": "m"}, since=ago(hours=1)), source="file")
    assert (cut.generation, cut.issued) == (99, ago(minutes=1))
    assert {id: (one.type, one.missing) for id, one in cut.volumes.items()} == {
        "a": ("t1", False),
        "b": (None, False),
        "c": (None, True),
    }


def test_a_region_says_nothing_of_an_attachment_that_came_after_it_was_read() -> None:
    # Detached, given another type and attached again while the region's machine read: the file has the old type.
    before = known({"a": volume("old", type="t0")})
    for since in (ago(seconds=59), ago(minutes=1), ago(minutes=1) - SKEW / 2):
        assert slice_of(before, region(), met({"a": "new"}, since=since), source="file").volumes == {}
    later = met({"a": "new"}, since=ago(minutes=1) - SKEW)
    assert slice_of(before, region(), later, source="file").volumes["a"].type == "t1"


def test_what_is_known_of_an_attachment_stays_where_the_region_says_nothing() -> None:
    before = known(
        {"a": volume("m", type="t0")}, {"g": Server(extra_specs={"quota:x": "1"}, marks=frozenset({"m"}), read=NOW)}
    )
    cut = slice_of(before, region(), met({"a": "m"}, {"g": "m"}, since=NOW), source="file")
    assert cut.volumes == before.volumes
    assert cut.servers == before.servers


def test_flavors_come_with_the_region_too() -> None:
    seen = met(guests={"g": "m", "h": "m", "i": "m"}, since=ago(hours=1))
    cut = slice_of(None, region(servers={"g": {"quota:x": "1"}, "h": None}), seen, source="file")
    assert cut.servers["g"].extra_specs == {"quota:x": "1"}
    assert [cut.servers[uuid].missing for uuid in "ghi"] == [False, True, True]


def test_a_guest_that_a_file_without_all_guests_does_not_have_is_unknown_and_not_missing() -> None:
    before = known({}, {"h": Server(extra_specs={"quota:x": "2"}, marks=frozenset({"m"}), read=NOW)})
    seen = met(guests={"g": "m", "h": "m", "i": "m"}, since=ago(hours=1))
    made = region(servers={"g": {"quota:x": "1"}}, has_all_servers=False)
    cut = slice_of(before, made, seen, source="file")
    assert {uuid: one.extra_specs for uuid, one in cut.servers.items()} == {
        "g": {"quota:x": "1"},
        "h": {"quota:x": "2"},
    }
    assert complete(cut, seen, has_all_servers=False)
    assert not complete(cut, seen)


def test_a_slice_is_complete_when_the_file_has_no_more_to_say() -> None:
    seen = met({"a": "m"}, {"g": "m"}, since=ago(hours=1))
    cut = slice_of(None, region(), seen, source="file")
    assert complete(cut, seen)
    assert complete(cut, met({"a": "new"}, since=NOW))
    assert not complete(cut, met({"a": "m", "b": "m"}, since=ago(hours=1)))
    assert not complete(cut, met({"a": "m"}, {"g": "m", "h": "m"}, since=ago(hours=1)))
