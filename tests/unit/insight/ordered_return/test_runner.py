from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from plimsoll_agent.errors import DeadlineExceeded, Rejected, Unreachable
from plimsoll_insight.ordered_return import journal
from plimsoll_insight.ordered_return.control import ReturnObservation
from plimsoll_insight.ordered_return.journal import ChangeTarget, ClusterChange, ReturnJournalError, TargetKind
from plimsoll_insight.ordered_return.runner import ReturnEnding, ReturnOutcome, Runner, restore
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


def run(world: FakeWorld, path: Path, said: list[str] | None = None, stop_after: int = 1000) -> ReturnOutcome:
    before = journal.open_changes(journal.read(path))
    return runner(world, path, ([] if said is None else said).append, stop_after).run(DESIRED, before)


def runner(
    world: FakeWorld, path: Path, say: Callable[[str], None] = lambda _: None, stop_after: int = 1000
) -> Runner:
    looks, down = iter(range(stop_after)), sorted(set(HOSTS) - world.up)
    return Runner(world, journal_at(path), planned(down), WHOLE, BOUNDS, say=say,
                  wait=lambda _: next(looks, None) is None)  # fmt: skip


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
    assert run(world, other).ending is ReturnEnding.DONE
    assert as_before(world)
    assert world.up == set(HOSTS)


def test_a_return_takes_as_many_acts_as_the_test_above_kills(tmp_path: Path) -> None:
    world = FakeWorld((0, 1, 2, 4))
    outcome = run(world, tmp_path / "return.jsonl")
    assert (outcome.ending, outcome.left, as_before(world)) == (ReturnEnding.DONE, (), True)
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


def test_a_change_that_had_no_answer_in_time_and_is_made_later_is_restored_too(tmp_path: Path) -> None:
    """The monitors carry it out after the look that finds all as before."""
    world, late = FakeWorld((0,)), list[ChangeTarget]()
    change, value = world.change, world.value

    def slow(target: ChangeTarget, after: str | None) -> None:
        if (target, after) == (FLAG, "set"):
            late.append(target)
            raise DeadlineExceeded("no answer from Ceph within 30 s")
        change(target, after)

    def looked(target: ChangeTarget) -> str | None:
        answer = value(target)
        if target in late:
            late.remove(target)
            world.values[FLAG] = "set"
        return answer

    world.change, world.value = slow, looked  # type: ignore[method-assign]
    path = tmp_path / "return.jsonl"
    assert run(world, path).ending is ReturnEnding.FAILED
    assert (as_before(world), journal.open_changes(journal.read(path))) == (True, {})


def test_a_value_that_the_monitors_write_in_another_way_is_restored(tmp_path: Path) -> None:
    """``config set osd osd_recovery_sleep 0.1`` is kept as ``0.100000``."""
    world, sleep = FakeWorld((0,)), ChangeTarget(TargetKind.SETTING, "osd_recovery_sleep")
    kept, world.value = world.value, lambda target: "0.100000" if kept(target) == "0.1" else kept(target)  # type: ignore[method-assign]
    outcome = runner(world, tmp_path / "return.jsonl").run({sleep: "0.1"}, {})
    assert (outcome.ending, world.values[sleep]) == (ReturnEnding.DONE, None)


def test_what_others_changed_between_two_runs_is_what_the_second_restores(tmp_path: Path) -> None:
    path, world = tmp_path / "return.jsonl", FakeWorld((0,), (4, True))
    with pytest.raises(Killed):
        run(world, path)
    world.values[SETTING], world.deadly = "8", None
    assert run(world, path).ending is ReturnEnding.DONE
    assert world.values[SETTING] == "8"


@pytest.mark.parametrize("afterwards", [False, True])
@pytest.mark.parametrize("act", [1, 2])
def test_a_second_run_with_another_value_that_is_killed_too_hides_nothing(
    act: int, afterwards: bool, tmp_path: Path
) -> None:
    path, world = tmp_path / "return.jsonl", FakeWorld((0,), (2, True))
    with pytest.raises(Killed):
        run(world, path)
    world.acts, world.deadly = [], (act, afterwards)
    with pytest.raises(Killed):
        runner(world, path).run({FLAG: "set", SETTING: "2"}, journal.open_changes(journal.read(path)))
    world.deadly = None
    restore(tuple(journal.open_changes(journal.read(path)).values()), world, journal_at(path), lambda _: None)
    assert as_before(world)


def test_a_host_that_is_gone_with_an_earlier_change_keeps_no_other_from_its_return(tmp_path: Path) -> None:
    path, world, said = tmp_path / "return.jsonl", FakeWorld((0,)), []
    gone = ChangeTarget(TargetKind.RESTARTS, "burnt")
    journal_at(path).intend(ClusterChange(gone, None, "no"))
    change = world.change

    def reached(target: ChangeTarget, value: str | None) -> None:
        if target == gone:
            raise Unreachable("no answer from burnt within 30 s")
        change(target, value)

    world.change = reached  # type: ignore[method-assign]
    outcome = run(world, path, said)
    assert (outcome.ending, world.up, len(outcome.left)) == (ReturnEnding.DONE, set(HOSTS), 1)
    assert [words for words in said if "of an earlier return, restarts by systemd on burnt" in words]
    assert list(journal.open_changes(journal.read(path))) == [gone]


def test_a_terminal_that_is_gone_keeps_nothing_from_being_restored(tmp_path: Path) -> None:
    world = FakeWorld((0, 1))

    def say(words: str) -> None:
        if "starts" in words or said:
            said.append(words)
            raise BrokenPipeError(32, "Broken pipe")

    said: list[str] = []
    outcome = runner(world, tmp_path / "return.jsonl", say).run(DESIRED, {})
    assert (outcome.ending, outcome.left, as_before(world)) == (ReturnEnding.FAILED, (), True)


def test_osds_that_went_down_since_the_plan_hold_it_even_if_the_first_look_is_silent(tmp_path: Path) -> None:
    world, said = FakeWorld((0,)), []
    plan_runner = runner(world, tmp_path / "return.jsonl", said.append)
    world.up.remove(4)
    looks, observe = iter((True, False)), world.observe
    world.observe = lambda: (  # type: ignore[method-assign]
        ReturnObservation(now=0, trouble="no answer") if next(looks, False) else observe()
    )
    assert plan_runner.run({}, {}).ending is ReturnEnding.GAVE_UP
    assert [words for words in said if "holds: osd.4 went down during the return" in words]


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
    assert outcome.ending is ReturnEnding.GAVE_UP
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
    assert run(world, tmp_path / "return.jsonl", said).ending is ReturnEnding.DONE
    assert [later - earlier for earlier, later in itertools.pairwise(tries)] == [30, 30]
    assert sum("could not be started: a: systemctl" in line for line in said) == 1


def test_a_signal_ends_it_and_all_is_restored(tmp_path: Path) -> None:
    world = FakeWorld((0, 1, 2))
    outcome = run(world, tmp_path / "return.jsonl", stop_after=1)
    assert (outcome.ending, as_before(world)) == (ReturnEnding.STOPPED, True)
    assert world.up < set(HOSTS)


def test_nothing_is_changed_that_cannot_be_written_down_first(tmp_path: Path) -> None:
    world = FakeWorld((0,))
    outcome = run(world, tmp_path / "no-directory" / "return.jsonl")
    assert (outcome.ending, world.acts) == (ReturnEnding.FAILED, [])
    assert "cannot be written" in outcome.text


@pytest.mark.parametrize(
    ("tail", "fine"),
    [(b'{"at":"2026-11-30T00:00:00+00:00","run":"x","by":"root","what":"chan', True),
     (b'{"at":"2026-11-30T00:00:00+00:00","run":"x","by":"a\xc3', True), (bytes(4096), True),
     (b"rubbish}\n", False),
     (b'{"at":"2026-11-30T00:00:00+00:00","run":"x","by":"r","what":"begin","version":2}\n', False),
     (b'{"at":"2026-11-30T00:00:00+00:00","run":"x","by":"r","what":"change","kind":"fla","name":"a"}\n', False),
     (b'{"at":"2026-11-30T00:00:00+00:00","run":"x","by":"r","what":"change","kind":"flag","name":"a"}\n', False),
     (b'{"at":"2026-11-30T00:00:00","run":"x","by":"r","what":"say","text":"a"}\n', False)],
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
        with pytest.raises(ReturnJournalError, match=r"return\.jsonl:\d+: "):
            journal.read(path)
        return
    assert journal.open_changes(journal.read(path)) == whole
    journal_at(path).restored(FLAG, "restored")
    assert list(journal.open_changes(journal.read(path))) == [SETTING, RESTARTS]
