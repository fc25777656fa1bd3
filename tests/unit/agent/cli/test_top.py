"""The rounds of ``plimsoll top``: what the screen gets while guests and libvirt come and go."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from plimsoll_agent.cli.top import Explaining, Rounds
from plimsoll_agent.errors import Unreachable
from plimsoll_agent.top.keys import Pane, View
from plimsoll_agent.top.live import screen
from tests.fakes import raising
from tests.unit.agent.app.test_live_plan import A, B, Node

INTERVAL = 0.02
PATIENCE = 10


class Watched:
    """Rounds over a fake node, and what its screen shows."""

    def __init__(self, directory: Path) -> None:
        self.node = Node(directory)
        self.explaining = Explaining(self.node.plan, self.node.hypervisor)
        self.rounds = Rounds(self.node.sampler, self.node.plan, INTERVAL)
        self.view = View()

    def screen(self) -> str:
        shown = self.rounds.shown()
        if self.view.pane is not None:
            self.view = View(pane=self.explaining.of(self.view.pane, shown.sample))
        return "\n".join(line.plain for line in screen(shown, self.view, 100, 20).lines)

    def see(self, seen: Callable[[str], bool]) -> str:
        deadline = time.monotonic() + PATIENCE
        while not seen(text := self.screen()):
            assert time.monotonic() < deadline, text
            time.sleep(INTERVAL)
        return text


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    watched = Watched(tmp_path)
    yield watched
    watched.rounds.stop(PATIENCE)


def test_libvirt_that_goes_in_the_middle_is_told_and_its_return_too(watched: Watched) -> None:
    watched.see(lambda text: "1 unlimited" in text and "2 disks on 2 guests" in text)

    gone, before = True, watched.node.hypervisor.before

    def away() -> None:
        if gone:
            before["guests"] = away
            raise Unreachable("libvirt at qemu:///system: the connection was lost")

    before["guests"] = away
    text = watched.see(lambda text: "the connection was lost" in text)
    assert "2 unknown" in text
    assert "2 disks on 2 guests" in text  # none is forgotten
    gone = False
    text = watched.see(lambda text: "the connection was lost" not in text and "2 unknown" not in text)
    assert "1 unlimited" in text


def test_a_guest_that_vanishes_leaves_the_list_and_its_explanation_stays(watched: Watched) -> None:
    watched.see(lambda text: "2 guests" in text)
    watched.view = View(pane=Pane(key=watched.node.sampler.sample().usages[0].disk.key))
    watched.see(lambda text: "desired" in text.partition("plimsoll disk explain")[2])
    del watched.node.hypervisor.by_uuid[A]
    text = watched.see(lambda text: "1 disk on 1 guest" in text)
    assert "1 unlimited" not in text
    assert "250 IOPS, default" in text.partition("plimsoll disk explain")[2]


def test_a_guest_that_is_gone_is_explained_in_a_sentence(watched: Watched) -> None:
    watched.see(lambda text: "2 guests" in text)
    key = next(usage.disk.key for usage in watched.node.sampler.sample().usages if usage.disk.guest.uuid == B)
    del watched.node.hypervisor.by_uuid[B]
    watched.see(lambda text: "1 guest" in text)
    watched.view = View(pane=Pane(key=key))
    text = watched.see(lambda text: "reading" not in text.partition("plimsoll disk explain")[2])
    assert f"no running guest has the name or uuid {B}" in text


def test_an_unexpected_error_ends_the_screen(watched: Watched) -> None:
    watched.node.hypervisor.before["guests"] = raising(ZeroDivisionError)
    with pytest.raises(ZeroDivisionError):
        watched.see(lambda _: False)
