"""Refreshes that new attachments wake: how far apart they are, what they cost Cinder, and that none is forgotten."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from plimsoll_agent.app.refresh import follow
from plimsoll_agent.catalogue.attachments import Attachment, Attachments
from plimsoll_agent.catalogue.model import Catalogue, Lists, VolumeType
from plimsoll_agent.catalogue.planner import agenda, next_catalogue
from plimsoll_agent.catalogue.reader import gather
from plimsoll_agent.store.refresh_state import RefreshNotes
from tests.unit.agent.catalogue.test_reader import FakeApi

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
SPACING = 10
"""As in plimsoll-catalogue.service."""
A_MINUTE = 6
"""Calls to Cinder, for each node that new guests arrive on: docs/guide/catalogue.rst."""


def following(*attached: str, status: int = 0) -> tuple[int, list[str]]:
    """What ``follow`` returns and does; ``attached`` is what is read each time."""
    did: list[str] = []
    seen = list(attached)

    def refresh() -> int:
        did.append("refresh")
        return status

    return follow(refresh, lambda: seen.pop(0), lambda: did.append("again")), did


@pytest.mark.parametrize("status", [0, 3])
def test_what_is_attached_during_a_refresh_is_fetched_by_another_one(status: int) -> None:
    assert following("a", "a", status=status) == (status, ["refresh"])
    assert following("a", "b", status=status) == (status, ["refresh", "again"])


@pytest.mark.parametrize("status", [1, 75])
def test_after_a_failure_no_service_is_asked_again_at_once(status: int) -> None:
    assert following("a", "b", status=status) == (status, ["refresh"])


class Woken:
    """A node on which guests arrive; a refresh is woken by each."""

    def __init__(self) -> None:
        self.api = FakeApi()
        types = {"t1": VolumeType(id="t1", name="gold", qos_spec=None)}
        self.catalogue = Catalogue(1, NOON, "fake", {}, types, {}, {})
        self.notes = RefreshNotes()
        self.calls: list[datetime] = []
        self.late: list[timedelta] = []

    def lives(self, arrivals: list[datetime]) -> None:
        left = list(arrivals)
        while left:
            now = left[0] + timedelta(seconds=self.notes.wait(left[0], SPACING))
            self.notes = RefreshNotes(begun=now)
            here = [at for at in arrivals if at <= now]
            ids = [f"00000000-0000-4000-8000-{number:012}" for number in range(len(here))]
            self.api._there = tuple(ids)
            met = Attachments(
                {f"g{id}/{id}": Attachment(mark="m", since=at) for id, at in zip(ids, here, strict=True)}
            )
            due = agenda(self.catalogue, met, now, interval=3600, source="fake")
            known = Lists(self.catalogue.specs, self.catalogue.types)
            asked = len(self.api.asked)
            answers = gather(self.api, due, known, "host").answers
            self.calls += [now] * (len(self.api.asked) - asked)
            self.catalogue = next_catalogue(self.catalogue, answers, met, now, source="fake")
            assert set(self.catalogue.volumes) == set(ids), "all that has arrived is known"
            self.late += [now - at for at in left if at <= now]
            left = [at for at in left if at > now]


def most_in_a_minute(calls: list[datetime]) -> int:
    return max(sum(begin <= at < begin + timedelta(minutes=1) for at in calls) for begin in calls)


@pytest.mark.parametrize("apart", [0.5, 4.0, 30.0])
def test_thirty_nodes_that_take_in_the_guests_of_thirty_cost_cinder_180_calls_a_minute_at_most(apart: float) -> None:
    chance = random.Random(19)  # need not be unpredictable
    nodes = [Woken() for _ in range(30)]
    arrived = 0
    for node in nodes:
        at, arrivals = NOON + timedelta(seconds=1), list[datetime]()
        while at < NOON + timedelta(minutes=3):
            at += timedelta(seconds=chance.uniform(0.2, 1.8) * apart)
            arrivals.append(at)
        arrived += len(arrivals)
        node.lives(arrivals)
        assert most_in_a_minute(node.calls) <= A_MINUTE
        assert max(node.late) <= timedelta(seconds=SPACING)
    calls = sorted(at for node in nodes for at in node.calls)
    assert most_in_a_minute(calls) <= 30 * A_MINUTE == 180
    assert len(calls) <= arrived, "no more than one for each guest"
