"""Lists that cannot be whole are refused; known volumes are asked for many in one call, and never in a storm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from plimsoll_agent.catalogue.api import Refused
from plimsoll_agent.catalogue.model import Lists, VolumeType
from plimsoll_agent.catalogue.planner import Agenda, TypeOf
from plimsoll_agent.catalogue.qosspec import QosSpec
from plimsoll_agent.catalogue.reader import MOST_CALLS, gather, lists, server_pages
from plimsoll_agent.errors import Rejected

IDS = tuple(f"00000000-0000-4000-8000-{number:012}" for number in range(5))


class FakeApi:
    """Volumes by id; ``filters`` says whether many may be asked for in one call."""

    name = "fake"

    def __init__(self, *there: str, filters: bool = True) -> None:
        self._there = there
        self._filters = filters
        self.asked: list[str] = []
        self.lists: dict[str, list[list[Any]]] = {}
        """By path what is answered, one after the other; the last one for ever."""

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

    def pages(self, _: str, path: str, *__: object, **___: object) -> Iterator[list[Any]]:
        self.asked.append(path)
        answers = self.lists[path]
        if path == "/servers/detail":
            yield from answers
            return
        yield answers.pop(0) if len(answers) > 1 else answers[0]

    @staticmethod
    def _volume(id: str) -> dict[str, str]:
        return {"id": id, "volume_type": "gold", "volume_type_id": "t1"}


def again(api: FakeApi) -> Mapping[str, TypeOf]:
    return gather(api, Agenda(lists=False, again=IDS), Lists({}, {}), "host").answers.volumes


def test_all_that_are_due_cost_one_call() -> None:
    api = FakeApi(*IDS)
    assert again(api) == dict.fromkeys(IDS, TypeOf(type="t1"))
    assert len(api.asked) == 1


def test_one_that_is_not_among_the_answers_is_asked_for_alone_and_the_others_later() -> None:
    """That it was not found may mean that it was not shown; to ask for each would be a call each."""
    api = FakeApi(IDS[0], IDS[3])
    told = again(api)
    assert told == {IDS[0]: TypeOf(type="t1"), IDS[3]: TypeOf(type="t1"), IDS[1]: TypeOf(type=None, missing=True)}
    assert len(api.asked) == 2


def test_where_cinder_does_not_filter_the_oldest_alone_is_asked_for() -> None:
    api = FakeApi(*IDS, filters=False)
    assert again(api) == {IDS[0]: TypeOf(type="t1")}
    assert len(api.asked) == 2


def test_an_answer_about_another_volume_is_of_none(monkeypatch: pytest.MonkeyPatch) -> None:
    api = FakeApi(*IDS, filters=False)
    monkeypatch.setattr(api, "_volume", lambda _: FakeApi._volume(IDS[4]))
    gathered = gather(api, Agenda(lists=False, again=IDS), Lists({}, {}), "host")
    assert gathered.answers.volumes == {}
    assert str(gathered.trouble) == f"Cinder answered with another volume than {IDS[0]}"


def test_a_caller_who_asks_for_all_gets_all_within_the_calls_of_a_run() -> None:
    """A retype of volumes is otherwise met a day later; a Cinder that does not filter is no reason for a storm."""
    many = tuple(f"00000000-0000-4000-8000-{number:012}" for number in range(120))
    api = FakeApi(*many)
    told = gather(api, Agenda(lists=False, again=many, at_once=True), Lists({}, {}), "host").answers.volumes
    assert (told.keys(), len(api.asked)) == (set(many), 3)
    api = FakeApi(*many, filters=False)
    gather(api, Agenda(lists=False, again=many, at_once=True), Lists({}, {}), "host")
    assert len(api.asked) == MOST_CALLS


# --- lists ----------------------------------------------------------------------------------------------

SPEC = {"id": "s1", "name": "gold-iops", "consumer": "front-end", "specs": {"total_iops_sec": "500"}}
GOLD = {"id": "t1", "name": "gold", "qos_specs_id": "s1"}
KNOWN = Lists({"s1": QosSpec.read(SPEC)}, {"t1": VolumeType(id="t1", name="gold", qos_spec="s1")})


def api_with(specs: list[list[Any]], types: list[Any]) -> FakeApi:
    api = FakeApi()
    api.lists = {"/qos-specs": specs, "/types": [types]}
    return api


def test_a_list_without_the_spec_that_a_type_names_does_not_remove_its_limits() -> None:
    with pytest.raises(Rejected, match="does not list the QoS spec of volume type gold, s1"):
        lists(api_with([[]], [GOLD]))


def test_a_spec_that_was_made_between_the_two_lists_is_found() -> None:
    api = api_with([[], [SPEC]], [GOLD])
    assert lists(api) == KNOWN
    assert api.asked == ["/qos-specs", "/types", "/qos-specs"]


def test_no_types_at_all_are_no_answer_where_there_were_some() -> None:
    with pytest.raises(Rejected, match="Cinder lists no volume type, and the catalogue has 1;"):
        lists(api_with([[SPEC]], []), KNOWN)


@pytest.mark.parametrize("known", [None, Lists({}, {})])
def test_a_cinder_before_train_may_have_no_types(known: Lists | None) -> None:
    assert lists(api_with([[SPEC]], []), known) == Lists(KNOWN.specs, {})


def test_a_policy_that_begins_to_hide_specs_does_not_replace_what_was_known() -> None:
    hidden = {"id": "t1", "name": "gold"}
    with pytest.raises(Rejected, match="access_types_qos_specs_id"):
        lists(api_with([[SPEC]], [hidden]), KNOWN)
    never_known = Lists({}, {"t1": VolumeType(id="t1", name="gold", qos_spec=None, hidden=True)})
    assert lists(api_with([[SPEC]], [hidden]), never_known).types["t1"].hidden
    assert lists(api_with([[SPEC]], [hidden, GOLD | {"id": "t2"}]), Lists({}, {})).types["t1"].hidden


def test_a_nova_with_small_pages_filters_by_host_until_it_lists_more_guests_than_a_host_has() -> None:
    api = FakeApi()
    pages = [
        [{"id": f"{page}-{number}", "flavor": {"extra_specs": {}}} for number in range(100)] for page in range(11)
    ]
    api.lists["/servers/detail"] = pages[:10]
    assert len(dict(guest for page in server_pages(api, "host") for guest in page)) == 1000
    api.lists["/servers/detail"] = pages
    assert sum(len(page) for page in server_pages(api, None)) == 1100
    with pytest.raises(Rejected, match="does not filter by host"):
        list(server_pages(api, "host"))
