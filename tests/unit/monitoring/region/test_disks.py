"""The disks of the region: which come first, and what is put together of each."""

from __future__ import annotations

import re

from plimsoll_monitoring.promql import SeriesSelection
from plimsoll_monitoring.region import disks as fleet_disks
from plimsoll_monitoring.region.answers import Series
from plimsoll_monitoring.region.disks import WORST, DiskKey, disks, fact_questions, numbers, search, worst_first

SELECTION = SeriesSelection()


def series(value: float, uuid: str = "u1", **labels: str) -> Series:
    disk = {"region": "r1", "instance": "n1", "domain": "i1", "target_device": "vda", "uuid": uuid}
    return Series(disk | labels, value)


def key(uuid: str) -> DiskKey:
    return ("r1", "n1"), "i1", "vda", uuid


class Asked:
    """Answers the question about a state with the disks that are in it."""

    def __init__(self, **told: list[Series]) -> None:
        self._told = {name.replace("_", "-"): answer for name, answer in told.items()}
        self.questions: list[str] = []
        self.numbers = {state: len(self._told.get(state, [])) for state in WORST}

    def __call__(self, question: str) -> list[Series]:
        self.questions.append(question)
        metrics = {"plimsoll_disk_unlimited{": "unlimited", "limit_ratio{": "at-limit"}
        metrics |= {f'state=~"{re.escape(state)}"'.replace("\\", "\\\\"): state for state in WORST}
        (state,) = {state for metric, state in metrics.items() if metric in question}
        return self._told[state]

    def search(self, most: int) -> list[DiskKey]:
        return search(self, SELECTION, self.numbers, WORST, most)


def test_a_disk_stands_where_its_worst_state_puts_it_and_only_once() -> None:
    told = Asked(
        at_limit=[series(0.97, "u3"), series(0.99, "u1"), series(1.0, "u4")],
        failed=[series(0.0, "u1")],
        unlimited=[series(5.0, "u6"), series(900.0, "u5"), series(float("nan"), "u7")],
    )
    assert told.search(0) == [key(uuid) for uuid in ("u5", "u6", "u7", "u1", "u4", "u3")]
    assert told.search(2) == [key("u5"), key("u6")]


def test_what_is_not_needed_is_not_asked_for() -> None:
    told = Asked(
        unlimited=[series(5.0, "u6"), series(900.0, "u5")], failed=[series(1, "u1")], waits=[series(1, "u2")]
    )
    told.search(3)
    assert len(told.questions) == 2
    assert not any("topk" in question for question in told.questions)
    told.questions.clear()
    told.search(1)
    (question,) = told.questions
    assert question.startswith("topk(1, ")


def test_the_worst_come_first_however_they_were_found() -> None:
    told = facts(
        state=[series(1, "u1", state="failed"), *(series(1, uuid, state="in-sync") for uuid in ("u2", "u3", "u4"))],
        unlimited=[series(1, "u2"), series(1, "u3")],
        shares=[series(0.96, "u4", parameter="total_iops_sec"), series(0.99, "u1", parameter="total_iops_sec")],
        operations=[series(5, "u1"), series(6, "u2"), series(700, "u3"), series(9000, "u4")],
    )
    found = disks(told, [key(uuid) for uuid in ("u4", "u1", "u2", "u3")])
    assert [disk.uuid for disk in worst_first(found, WORST)] == ["u3", "u2", "u1", "u4"]
    assert [disk.uuid for disk in worst_first(found, ("at-limit",))][:2] == ["u1", "u4"]


def test_the_numbers_are_those_of_all_disks() -> None:
    assert numbers({"failed": [Series({}, 212.0)], "deferred": []}, ("failed", "deferred")) == {
        "failed": 212,
        "deferred": 0,
    }


def facts(**told: list[Series]) -> dict[str, list[Series]]:
    return {name: told.get(name, []) for name in fact_questions(SELECTION, [key("u1")])}


def test_what_no_series_has_of_a_disk_is_unknown() -> None:
    (disk,) = disks(facts(), [key("u1")])
    assert (disk.state, disk.share, disk.limit, disk.operations, disk.bytes, disk.pass_ended) == (None,) * 6
    assert disk.states == ()
    assert not disk.unlimited


def test_the_wall_is_the_limit_of_which_it_used_the_most() -> None:
    told = facts(
        shares=[
            series(0.5, parameter="total_bytes_sec"),
            series(0.96, parameter="read_iops_sec"),
            series(float("nan"), parameter="write_iops_sec"),
        ],
        state=[series(1, state="in-sync")],
        pass_ended=[Series({"region": "r1", "instance": "n1"}, 7.0)],
        info=[series(1, volume="v1", project="p1")],
    )
    (disk,) = disks(told, [key("u1")])
    assert (disk.limit, disk.share, disk.pass_ended) == ("read_iops_sec", 0.96, 7.0)
    assert disk.states == ("in-sync", "at-limit")
    assert (disk.facts["volume"], disk.facts["project"], disk.facts["pool"]) == ("v1", "p1", "")


def test_a_disk_has_the_names_of_its_own_guest_and_none_on_a_node_that_does_not_tell_them() -> None:
    told = facts(
        info=[series(1, project="p1"), series(1, instance="n2", project="p1")],
        names=[series(1, server="web-1", project_name="shop"), series(1, uuid="u2", server="db")],
    )
    here, older = disks(told, [key("u1"), (("r1", "n2"), "i1", "vda", "u1")])
    assert (here.facts["server"], here.facts["project_name"], here.facts["project"]) == ("web-1", "shop", "p1")
    assert (older.facts["server"], older.facts["project_name"]) == ("", "")


def test_guests_of_one_name_on_two_nodes_are_not_mixed_up() -> None:
    there = {"instance": "n2", "state": "failed"}
    told = facts(state=[series(1, state="in-sync"), series(1, **there)])
    here, other = disks(told, [key("u1"), (("r1", "n2"), "i1", "vda", "u1")])
    assert (here.state, other.state) == ("in-sync", "failed")


def test_few_disks_are_asked_for_by_name_and_many_are_not() -> None:
    few = fact_questions(SELECTION, [key(f"u{number}") for number in range(3)])["state"]
    assert 'uuid=~"u0|u1|u2"' in few
    many = fact_questions(SELECTION, [key(f"u{number}") for number in range(fleet_disks._NAMED + 1)])["state"]
    assert "uuid=~" not in many
