"""Known volumes asked for again: many in one call, and never a storm where Cinder does not filter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from plimsoll_agent.cloudapi import Refused
from plimsoll_agent.gather import gather
from plimsoll_agent.refresh import Agenda, Lists, TypeOf

IDS = tuple(f"00000000-0000-4000-8000-{number:012}" for number in range(5))


class FakeApi:
    """Volumes by id; ``filters`` says whether many may be asked for in one call."""

    name = "fake"

    def __init__(self, *there: str, filters: bool = True) -> None:
        self._there = there
        self._filters = filters
        self.asked: list[str] = []

    def get(
        self, service: str, path: str, params: Mapping[str, str] | None = None, *, microversion: str | None = None
    ) -> Any:
        self.asked.append(path)
        if path == "/volumes/detail":
            if not self._filters:
                raise Refused("Invalid filters id are found in query options", 400)
            return {"volumes": [self._volume(id) for id in self._there if params and f"'{id}'" in params["id"]]}
        id = path.rpartition("/")[2]
        if id not in self._there:
            raise Refused("VolumeNotFound", 404)
        return {"volume": self._volume(id)}

    def pages(self, *_: object, **__: object) -> Iterator[list[Any]]:
        raise AssertionError("no lists are due")

    @staticmethod
    def _volume(id: str) -> dict[str, str]:
        return {"id": id, "volume_type": "gold", "volume_type_id": "t1"}


def again(api: FakeApi) -> Mapping[str, TypeOf]:
    return gather(api, Agenda(lists=False, again=IDS), Lists({}, {}), "host").answers.volumes


def test_all_that_are_due_cost_one_call() -> None:
    api = FakeApi(*IDS)
    assert again(api) == dict.fromkeys(IDS, TypeOf("t1"))
    assert len(api.asked) == 1


def test_one_that_is_not_among_the_answers_is_asked_for_alone_and_the_others_later() -> None:
    """That it was not found may mean that it was not shown; to ask for each would be a call each."""
    api = FakeApi(IDS[0], IDS[3])
    told = again(api)
    assert told == {IDS[0]: TypeOf("t1"), IDS[3]: TypeOf("t1"), IDS[1]: TypeOf(None, missing=True)}
    assert len(api.asked) == 2


def test_where_cinder_does_not_filter_the_oldest_alone_is_asked_for() -> None:
    api = FakeApi(*IDS, filters=False)
    assert again(api) == {IDS[0]: TypeOf("t1")}
    assert len(api.asked) == 2
