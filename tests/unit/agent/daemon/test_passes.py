"""How a pass of the daemon over one guest ends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from plimsoll_agent.config import settings as config
from plimsoll_agent.daemon.connections import Connections
from plimsoll_agent.daemon.passes import Between, guest_pass
from plimsoll_agent.daemon.schedule import PassResult
from plimsoll_agent.errors import DeadlineExceeded, NotSent, PlimsollError, Rejected
from plimsoll_agent.model.hypervisor import Movement
from tests.fakes import FakeHypervisor
from tests.unit.node import guest, uuid_of


class Connected(FakeHypervisor):
    hung = False

    def close(self) -> None: ...


class Passes:
    def __init__(self, directory: Path) -> None:
        whole = config.load([], [])
        rules = directory / "rules.yaml"
        rules.write_text("default: {limits: {total_iops_sec: 250}}")
        self.settings = replace(
            whole,
            mode="enforce",
            state_dir=directory / "state",
            rules_file=rules,
            pause_file=directory / "paused",
            ceph=replace(whole.ceph, conf_files=(), blocking_checks=()),
        )
        self.hypervisor = Connected(guest(1), guest(2))
        self.guest = self.hypervisor.by_uuid[uuid_of(1)]

    def over(self, uuid: str = uuid_of(1)) -> PassResult:
        return guest_pass(self.settings, Connections(lambda: self.hypervisor), Between(), uuid)


@pytest.fixture
def passes(tmp_path: Path) -> Passes:
    return Passes(tmp_path)


def test_a_pass_changes_what_differs_and_the_next_finds_it_in_sync(passes: Passes) -> None:
    assert [passes.over(), passes.over()] == [PassResult.CHANGED, PassResult.IN_SYNC]


@pytest.mark.parametrize("movement", [Movement.LEAVING, Movement.ARRIVING])
def test_a_guest_that_migrates_has_its_pass_postponed(passes: Passes, movement: Movement) -> None:
    passes.guest.movement = movement
    assert passes.over() is PassResult.POSTPONED
    passes.guest.movement = Movement.STAYS
    assert passes.over() is PassResult.CHANGED


@pytest.mark.parametrize(
    ("trouble", "result"),
    [
        (NotSent("not asked: the guest is busy"), PassResult.POSTPONED),
        (DeadlineExceeded("no answer from QEMU within 5 s"), PassResult.UNREACHABLE),
        (Rejected("libvirt: no"), PassResult.INCOMPLETE),
    ],
)
def test_what_is_known_of_a_guest_whose_limits_are_unknown(
    passes: Passes, trouble: PlimsollError, result: PassResult
) -> None:
    passes.guest.trouble = trouble
    assert passes.over() is result
