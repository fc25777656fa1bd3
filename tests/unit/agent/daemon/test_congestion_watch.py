"""When another factor of congestion makes a pass over the node due."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from plimsoll_agent.config import settings as config
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.congestion.following import follow
from plimsoll_agent.congestion.published import LASTS, Factors, encode
from plimsoll_agent.daemon.congestion_watch import CongestionWatch
from plimsoll_agent.store.state import State
from plimsoll_agent.util.frozen import replace
from tests.unit.agent.congestion.values import a_factor, a_factor_file
from tests.unit.node import FSID
from tests.unit.regionfile import a_key, keep_public

POOL = (FSID, "volumes")


class Watched:
    def __init__(self, directory: Path) -> None:
        self.directory, self.state = directory, State(directory / "state")
        self.state.prepare()
        whole = config.load([], [])
        key = keep_public(directory / "congestion.pub", a_key())
        congestion = replace(whole.congestion, files=("a",), key=key, mode="enforce")
        self.settings: Settings = replace(
            whole,
            mode="enforce",
            state_dir=self.state.directory,
            catalogue=replace(whole.catalogue, directory=directory),
            congestion=congestion,
        )
        self.watch = CongestionWatch()
        self.generation = 0

    def publish(self, x: float) -> None:
        now, self.generation = datetime.now(UTC), self.generation + 1
        file = a_factor_file(
            a_factor(x), issued=now, valid_until=now + LASTS, generation=self.generation, pools={POOL: ("ssd",)}
        )
        self.file = file
        (self.directory / "congestion-0.json").write_bytes(a_key().seal(encode(file)))

    def changed(self, at: float) -> bool:
        return self.watch.changed(self.settings, at)

    def passes(self) -> None:
        pools = follow(self.state.load_factors(), Factors({FSID: self.file}), datetime.now(UTC), lambda _: True)
        self.state.save_factors(pools)


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_a_pass_is_due_once_for_a_factor_that_is_not_applied_and_again_later(watched: Watched) -> None:
    """Where passes fail, one a second would keep the node busy."""
    watched.publish(0.7)
    assert [watched.changed(at) for at in (0, 1, 29, 31, 32)] == [True, False, False, True, False]
    watched.passes()
    assert not watched.changed(70)
    watched.publish(0.6)
    assert watched.changed(71)


def test_none_is_due_for_a_factor_of_one_or_in_mode_observe(watched: Watched) -> None:
    watched.publish(1)
    assert not watched.changed(0)
    watched.publish(0.5)
    watched.settings = replace(watched.settings, mode="observe")
    assert not watched.changed(1)


def test_one_is_due_when_the_mode_is_no_longer_enforce(
    watched: Watched,
) -> None:
    watched.publish(0.7)
    watched.passes()
    congestion = replace(watched.settings.congestion, mode="observe", files=())
    watched.settings = replace(watched.settings, congestion=congestion)
    assert watched.changed(0)
