"""Settings as steps: what differs, in which order, and where directories are then."""

from __future__ import annotations

import pytest

from plimsoll_agent.errors import UsageError
from plimsoll_insight.mds.answers import FileSystem
from plimsoll_insight.mds.settings import (
    NOT_PINNED,
    CephSetting,
    Name,
    SettingStep,
    balancing_off,
    gathered,
    pin_of,
    pins_last,
    steps,
    strays,
)
from tests.unit.insight.mds.ranks import owned


@pytest.mark.parametrize(
    ("balances", "expected"),
    [
        (None, (CephSetting(Name.INTERVAL, "mds"), "0")),
        (True, (CephSetting(Name.AUTOMATE, "cephfs"), "false")),
        (False, (CephSetting(Name.AUTOMATE, "cephfs"), "false")),
    ],
)
def test_balancing_of_one_file_system_is_turned_off_where_the_release_can(
    balances: bool | None, expected: object
) -> None:
    assert (
        balancing_off(FileSystem(id=1, name="cephfs", ranks={0: "a"}, inactive=(), balances=balances, pools=(5,)))
        == expected
    )


@pytest.mark.parametrize(
    ("text", "path", "pin"),
    [
        ("/home=distributed", "/home", {Name.DISTRIBUTED: "1"}),
        ("/home/=2", "/home", {Name.PIN: "2"}),
        ("//home=2", "/home", {Name.PIN: "2"}),
        ("/a=b/c=0.010", "/a=b/c", {Name.RANDOM: "0.01"}),
        ("/home=none", "/home", {}),
    ],
)
def test_a_pin_says_all_three_attributes_so_that_none_of_before_stays(
    text: str, path: str, pin: dict[Name, str]
) -> None:
    assert pin_of(text, [0, 2]) == (path, {Name(name): value for name, value in NOT_PINNED.items()} | pin)


@pytest.mark.parametrize(
    "text",
    [
        "/=0",
        "//=0",
        "home=0",
        "/a/../..=0",
        "/a=1",
        "/a=-1",
        "/a=",
        "/a",
        "/a=0.0",
        "/a=nan",
        "/a=1.5",
        "/a=everywhere",
    ],
)
def test_a_pin_that_ceph_would_refuse_or_ignore_is_refused_at_once(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--pin "):
        pin_of(text, [0, 2])


def test_what_is_so_already_is_no_step_and_a_pin_is_set_when_the_others_are_gone() -> None:
    now = {Name.PIN: "-1", Name.DISTRIBUTED: "1", Name.RANDOM: "0"}
    _, pin = pin_of("/a=2", [0, 2])
    desired = [(CephSetting(name, "/a"), value) for name, value in pins_last(pin)]
    assert steps(desired, lambda setting: now[setting.name]) == [
        SettingStep(CephSetting(Name.DISTRIBUTED, "/a"), "1", "0"),
        SettingStep(CephSetting(Name.PIN, "/a"), "-1", "2"),
    ]
    assert steps([(CephSetting(Name.RANDOM, "/a"), "0.01")], lambda _: "0.010000") == []
    assert steps([(CephSetting(Name.INTERVAL, "mds"), "0")], lambda _: None) == [
        SettingStep(CephSetting(Name.INTERVAL, "mds"), None, "0")
    ]


def test_all_of_a_rank_is_reached_by_the_directories_below_the_root_that_others_have_parts_of() -> None:
    owners = owned({"/": 0, "/a": 0, "/a/x.1*": 1, "/b": 2, "/b/y": 0, "/c": 0})
    assert gathered(owners, 0) == ["/a", "/b"]
    assert gathered(owned({"/": 0}), 0) == []


@pytest.mark.parametrize(
    ("owners", "left"),
    [
        ({"/": 0, "/a": 1}, []),
        ({"/": 1}, []),
        ({"/": 0}, ["/a is on rank 0"]),
        ({"/.0*": 0, "/.1*": 1}, ["/a is on rank ?"]),
        ({"/": 0, "/a": 1, "/a/x": 2}, ["/a/x is on rank 2, below /a of rank 1"]),
        ({"/": 0, "/a": 1, "/a/own/y": 2}, []),
        ({"/": 0, "/a": 1, "/ab": 2}, []),
    ],
)
def test_it_waits_for_what_is_below_a_pin_but_not_below_another(owners: dict[str, int], left: list[str]) -> None:
    pins = dict([pin_of("/a=1", [0, 1, 2]), pin_of("/a/own=distributed", [0])])
    desired = [(CephSetting(name, path), value) for path, pin in pins.items() for name, value in pin.items()]
    assert strays(desired, owned(owners)) == left
