"""What Ceph answers about file systems: trimmed answers of 16.2.15."""

from __future__ import annotations

import json

import pytest

from plimsoll_insight.mds import answers
from plimsoll_insight.mds.answers import Directory, UnreadableAnswer

INFO = {
    "gid_4126": {"name": "a", "rank": 1, "state": "up:active"},
    "gid_4127": {"name": "b", "rank": 0, "state": "up:active"},
    "gid_4128": {"name": "c", "rank": 0, "state": "up:standby-replay"},
    "gid_4129": {"name": "d", "rank": 2, "state": "up:rejoin"},
}
MAP = {"fs_name": "cephfs", "in": [0, 1, 2], "info": INFO, "data_pools": [5]}
SUBTREES = [
    {"is_auth": True, "auth_first": 1, "auth_second": -2, "dir": {"path": "~mds1", "dirfrag": "0x101"}},
    {"is_auth": True, "auth_first": 1, "auth_second": -2, "dir": {"path": "/a", "dirfrag": "0x10000000004.001*"}},
    {"is_auth": True, "auth_first": 1, "auth_second": -2, "dir": {"path": "", "dirfrag": "0x1"}},
    {"is_auth": False, "auth_first": 0, "auth_second": -2, "dir": {"path": "/b", "dirfrag": "0x10000000005"}},
]


def dump(**more: object) -> str:
    return json.dumps({"filesystems": [{"id": 1, "mdsmap": MAP | more}]})


def test_a_rank_is_of_its_active_daemon_and_one_that_rejoins_is_not_active() -> None:
    [one] = answers.file_systems(dump())
    assert (one.name, one.ranks, one.inactive, one.pools) == ("cephfs", {0: "b", 1: "a"}, [2], [5])


@pytest.mark.parametrize(("more", "balances"), [({}, None), ({"flags_state": {"balance_automate": False}}, False)])
def test_a_release_without_a_setting_of_the_balancer_is_not_one_with_it_off(
    more: dict[str, object], balances: bool | None
) -> None:
    assert answers.file_systems(dump(**more))[0].balances is balances


def test_a_rank_has_what_is_its_own_and_not_what_it_knows_of_others() -> None:
    subtrees = answers.subtrees(json.dumps(SUBTREES), "a")
    assert subtrees.own == {Directory("/a", "001"): 1, Directory("/", ""): 1}
    assert subtrees.others == {Directory("/b"): 0}


@pytest.mark.parametrize("answer", ["", "[]", '{"filesystems": [{}]}', '{"filesystems": [{"mdsmap": []}]}', "-inf"])
def test_an_answer_of_another_form_is_named_and_is_no_cluster_without_file_systems(answer: str) -> None:
    with pytest.raises(UnreadableAnswer, match=r"^ceph fs dump: not the JSON that is known"):
        answers.file_systems(answer)


def test_a_value_of_another_section_or_for_some_daemons_is_not_that_of_all() -> None:
    entries = [
        {"section": "mds.a", "name": "mds_bal_interval", "value": "3", "mask": ""},
        {"section": "mds", "name": "mds_bal_interval", "value": "4", "mask": "host:one"},
    ]
    assert answers.stored(json.dumps(entries), "mds", "mds_bal_interval") is None
    entries.append({"section": "mds", "name": "mds_bal_interval", "value": "5", "mask": ""})
    assert answers.stored(json.dumps(entries), "mds", "mds_bal_interval") == "5"


def test_the_load_of_a_directory_is_what_the_balancer_counts_in_all_its_fragments_and_not_below_it() -> None:
    """As 16.2.15 prints them: rates of empty counters are no JSON."""

    def entry(path: str, dirfrag: str, *own: float) -> str:
        counters = ", ".join(f'{{"value": {value}, "halflife":-inf}}' for value in own)
        below = '{"Decay Counters": [{"value": 900, "halflife": 2}]}'
        return (f'{{"path": "{path}", "dirfrag": "{dirfrag}", "pop_me": {{"Decay Counters": [{counters}]}},'
                f' "pop_nested": {below}}}')  # fmt: skip

    each = (
        entry("", "0x1", 0, 0, 0, 0, 0),
        entry("/a", "0x10.0*", 1, 10, 100, 1000, 1e4),
        entry("/a", "0x10.1*", 0, 1, 0, 0, 0),
    )
    loads = answers.loads(f'{{"dirfrags": [{", ".join(each)}], "mds_load": {{"meta_load":-inf}}}}', "a")
    assert loads == {"/": 0, "/a": 1 + 20 + 100 + 2000 + 4e4 + 2}
