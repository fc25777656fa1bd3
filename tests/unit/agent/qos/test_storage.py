"""What openstacksdk would send otherwise than Cinder takes it, and lists that change while they are read."""

from __future__ import annotations

import pytest

from plimsoll_agent.errors import Rejected
from plimsoll_agent.qos import apply as qos_apply
from plimsoll_agent.qos import cinder as qos_cinder
from plimsoll_agent.qos import plan as qos_plan
from plimsoll_agent.qos.apply import How
from plimsoll_agent.qos.file import Declaration, Spec
from tests.fakecinder import FakeCinder

NAMES = (
    "id",
    "self",
    "qos_spec",
    "value",
    "resource_type",
    "base_path",
    "connection",
    "microversion",
    "_synchronized",
    "specs",
    "name",
)


def applied(cinder: FakeCinder, keys: dict[str, str | None]) -> list[How]:
    live = qos_cinder.read(cinder)
    steps = qos_plan.plan(Declaration({"gold": Spec("gold", "front-end", keys)}), live)
    return [taken.how for taken in qos_apply.apply(steps, live, cinder)]


@pytest.mark.parametrize("name", NAMES)
def test_a_key_is_written_though_openstacksdk_has_an_argument_of_its_name(name: str) -> None:
    cinder = FakeCinder()
    assert applied(cinder, {"total_iops_sec": "500"}) == [How.DONE]
    assert applied(cinder, {"total_iops_sec": "500", name: "5"}) == [How.DONE]
    assert qos_cinder.read(cinder).specs["gold"].keys == {"total_iops_sec": "500", name: "5"}


@pytest.mark.parametrize("name", [name for name in NAMES if name != "name"])
def test_a_spec_is_created_with_such_a_key(name: str) -> None:
    cinder = FakeCinder()
    assert applied(cinder, {name: "5"}) == [How.DONE]
    assert qos_cinder.read(cinder).specs["gold"].keys == {name: "5"}


@pytest.mark.parametrize("gone", [1, 2])
def test_entries_that_are_deleted_between_two_pages_end_no_list(gone: int) -> None:
    cinder = FakeCinder(page=3)
    ids = [cinder.spec(f"s{number}", {}) for number in range(7)]

    def before(method: str, path: str) -> None:
        if len(cinder.asked) == 2:
            for id in ids[3 - gone : 3]:
                del cinder.specs[id]

    cinder.before = before
    assert set(qos_cinder.read(cinder).specs) == {f"s{number}" for number in range(7)}


def test_a_list_that_does_not_end_is_refused() -> None:
    cinder = FakeCinder(page=1)
    cinder.spec("gold", {})
    cinder._page = lambda word, links, values, query: {word: values, links: [{"rel": "next"}]}  # type: ignore[method-assign]
    with pytest.raises(Rejected, match=r"^Cinder: /qos-specs: the pages repeat$"):
        qos_cinder.read(cinder)


@pytest.mark.parametrize("size", ["big", "", True])
def test_a_size_that_is_no_number_is_not_0(size: object) -> None:
    cinder = FakeCinder()
    cinder.volume(None, 1)
    cinder.volumes[0]["size"] = size
    with pytest.raises(Rejected, match=r"^Cinder: its answer to /volumes/detail cannot be read: "):
        qos_cinder.attached_volumes(cinder)


@pytest.mark.parametrize("answer", [[], "done", 5, {"qos_specs": []}])
def test_a_change_whose_answer_is_no_object_is_a_step_that_failed(answer: object) -> None:
    cinder = FakeCinder()
    assert applied(cinder, {"total_iops_sec": "500"}) == [How.DONE]
    put = cinder.put
    cinder.put = lambda *request: (put(*request), answer)[1]  # type: ignore[method-assign]
    assert applied(cinder, {"total_iops_sec": "600"}) == [How.REFUSED]


def test_a_spec_without_its_keys_is_not_one_that_has_none() -> None:
    cinder = FakeCinder()
    del cinder.specs[cinder.spec("gold", {"total_iops_sec": "500"})]["specs"]
    with pytest.raises(Rejected, match=r"^Cinder: its answer to /qos-specs cannot be read: QoS spec 'gold': specs"):
        qos_cinder.read(cinder)
