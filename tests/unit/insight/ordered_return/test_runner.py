from __future__ import annotations

import itertools
from contextlib import suppress
from pathlib import Path

import pytest

from plimsoll_agent.errors import Rejected
from plimsoll_insight.ordered_return import journal
from plimsoll_insight.ordered_return.journal import JournalError
from plimsoll_insight.ordered_return.runner import Ending, Outcome, Runner, restore
from tests.unit.insight.ordered_return.seen import (
    BOUNDS,
    DESIRED,
    FLAG,
    HOSTS,
    RESTARTS,
    SETTING,
    WHOLE,
    FakeWorld,
    Killed,
    journal_at,
    planned,
)

ALL = {FLAG: None, SETTING: "4", RESTARTS: None}


def run(world: FakeWorld, path: Path, said: list[str] | None = None, stop_after: int = 1000) -> Outcome:
    looks = iter(range(stop_after))
    down = sorted(set(HOSTS) - world.up)
    before = journal.open_changes(journal.read(path))
    words = [] if said is None else said
    runner = Runner(world, journal_at(path), planned(down), WHOLE, BOUNDS, say=words.append,
                    wait=lambda _: next(looks, None) is None)  # fmt: skip
    return runner.run(DESIRED, before)


def as_before(world: FakeWorld) -> bool:
    return {target: world.values.get(target) for target in ALL} == ALL


ACTS = 8
"""Three changes, two waves, three restorations."""


@pytest.mark.parametrize("afterwards", [False, True])
@pytest.mark.parametrize("act", range(1, ACTS + 1))
def test_after_a_kill_anywhere_stop_restores_all_and_the_next_run_goes_on(
    act: int, afterwards: bool, tmp_path: Path
) -> None:
    path, world = tmp_path / "return.jsonl", FakeWorld((0, 1, 2, 4), (act, afterwards))
    with pytest.raises(Killed):
        run(world, path)
    up, world.deadly = set(world.up), None
    stopped, world.values = dict(world.values), dict(world.values)
    changes = tuple(journal.open_changes(journal.read(path)).values())
    assert restore(changes, world, journal_at(path, "stop"), lambda _: None) == []
    assert as_before(world)
    assert not journal.open_changes(journal.read(path))
    # The same kill, and no stop: the next run takes over what the first one found.
    world, other = FakeWorld((0, 1, 2, 4), (act, afterwards)), tmp_path / "other.jsonl"
    with suppress(Killed):
        run(world, other)
    assert (world.up, world.values) == (up, stopped)
    world.deadly = None
    assert run(world, other).ending is Ending.DONE
    assert as_before(world)
    assert world.up == set(HOSTS)


def test_a_return_takes_as_many_acts_as_the_test_above_kills(tmp_path: Path) -> None:
    world = FakeWorld((0, 1, 2, 4))
    outcome = run(world, tmp_path / "return.jsonl")
    assert (outcome.ending, outcome.left, as_before(world)) == (Ending.DONE, (), True)
    assert [act[0] for act in world.acts].count("start") == 2
    assert len(world.acts) == ACTS


def test_what_is_set_already_is_left_as_it_is_at_the_end(tmp_path: Path) -> None:
    world = FakeWorld((0,))
    world.values[FLAG] = "set"
    run(world, tmp_path / "return.jsonl")
    assert world.values[FLAG] == "set"


def test_what_others_changed_since_is_left_alone_and_named(tmp_path: Path) -> None:
    path, world, said = tmp_path / "return.jsonl", FakeWorld((0,), (4, True)), []
    with pytest.raises(Killed):
        run(world, path)
    world.values[SETTING], world.deadly = "8", None
    restore(tuple(journal.open_changes(journal.read(path)).values()), world, journal_at(path), said.append)
    assert world.values[SETTING] == "8"
    assert [words for words in said if "changed since, to 8" in words]


FAULTS = {
    "a monitor is gone": lambda world: world.silent.add("cluster"),
    "an OSD never comes up": lambda world: world.never_up.add(0),
    "a check is raised": lambda world: world.faults.update(unexpected=("OSD_FULL (1 full osd(s))",)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_it_holds_with_a_sentence_gives_up_and_restores_what_it_can(fault: str, tmp_path: Path) -> None:
    path, world, said = tmp_path / "return.jsonl", FakeWorld((0,)), []
    world.start = lambda osds: (FakeWorld.start(world, osds), FAULTS[fault](world))  # type: ignore[method-assign,assignment]
    if fault == "an OSD never comes up":
        FAULTS[fault](world)
    outcome = run(world, path, said)
    assert outcome.ending is Ending.GAVE_UP
    words = {"a monitor is gone": "Ceph does not answer", "an OSD never comes up": "osd.0 of a (failed (oom-kill))",
             "a check is raised": "OSD_FULL (1 full osd(s))"}[fault]  # fmt: skip
    assert sum(line.startswith("holds: ") and words in line for line in said) == 1
    assert words in outcome.text
    if fault == "a monitor is gone":
        assert len(outcome.left) == 2  # the drop-in of a host needs no monitor
        world.silent.clear()
        restore(tuple(journal.open_changes(journal.read(path)).values()), world, journal_at(path), said.append)
    else:
        assert outcome.left == ()
    assert as_before(world)


def test_a_start_that_fails_is_tried_again_and_holds_until_then(tmp_path: Path) -> None:
    world, said, tries = FakeWorld((0,)), [], []

    def start(osds: tuple[int, ...]) -> None:
        tries.append(world.now)
        if len(tries) < 3:
            raise Rejected("a: systemctl start ended with 255: out of reach")
        FakeWorld.start(world, osds)

    world.start = start  # type: ignore[method-assign,assignment]
    assert run(world, tmp_path / "return.jsonl", said).ending is Ending.DONE
    assert [later - earlier for earlier, later in itertools.pairwise(tries)] == [30, 30]
    assert sum("could not be started: a: systemctl" in line for line in said) == 1


def test_a_signal_ends_it_and_all_is_restored(tmp_path: Path) -> None:
    world = FakeWorld((0, 1, 2))
    outcome = run(world, tmp_path / "return.jsonl", stop_after=1)
    assert (outcome.ending, as_before(world)) == (Ending.STOPPED, True)
    assert world.up < set(HOSTS)


def test_nothing_is_changed_that_cannot_be_written_down_first(tmp_path: Path) -> None:
    world = FakeWorld((0,))
    outcome = run(world, tmp_path / "no-directory" / "return.jsonl")
    assert (outcome.ending, world.acts) == (Ending.FAILED, [])
    assert "cannot be written" in outcome.text


@pytest.mark.parametrize(
    ("tail", "fine"),
    [(b'{"at":"2026-11-30T00:00:00+00:00","run":"x","by":"root","what":"chan', True), (b"rubbish}\n", False),
     (b'{"at":"2026-11-30T00:00:00+00:00","run":"x","by":"r","what":"begin","version":2}\n', False),
     (b'{"at":"2026-11-30T00:00:00+00:00","run":"x","by":"r","what":"change","kind":"fla","name":"a"}\n', False)],
)  # fmt: skip
def test_a_torn_last_line_is_what_was_not_done_and_other_rubbish_ends_it(
    tail: bytes, fine: bool, tmp_path: Path
) -> None:
    path, world = tmp_path / "return.jsonl", FakeWorld((0,), (3, True))
    with pytest.raises(Killed):
        run(world, path)
    whole = journal.open_changes(journal.read(path))
    with path.open("ab") as file:
        file.write(tail)
    if not fine:
        with pytest.raises(JournalError, match=r"return\.jsonl:\d+: "):
            journal.read(path)
        return
    assert journal.open_changes(journal.read(path)) == whole
    journal_at(path).restored(FLAG, "restored")
    assert list(journal.open_changes(journal.read(path))) == [SETTING, RESTARTS]
