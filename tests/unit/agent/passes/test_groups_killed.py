"""A pass that changes groups, killed at each of its writes: the next one converges, and the record has no gap."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest

from plimsoll_agent.model.entries import Ending
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.store.record import Record
from plimsoll_agent.store.state import State
from tests import depth
from tests.fakes import FakeHypervisor
from tests.unit.agent.reconcile.test_groups import a_node, desiring, of, own, rows, shared
from tests.unit.node import Node, kinds

EACH = depth.count(quick=11, landing=1, soak=1)
"""Of so many writes one is killed at."""
TWICE = depth.count(quick=0, landing=0, soak=1)
"""Whether the pass after the killed one is killed at each of its writes, too."""

WRITES: dict[type, tuple[str, ...]] = {
    FakeHypervisor: ("set_limits", "define_limits", "set_marks"),
    Record: ("intend", "conclude", "note"),
    State: ("save_memory", "save_attachments", "forget_approvals"),
}
BEFORE = {"vda": own(30), "vdb": shared(100), "vdc": shared(100), "vdd": shared(100)}
AFTERWARDS = {
    "lower": {"vda": shared(90), "vdb": shared(90), "vdc": own(50), "vdd": shared(60, "h")},
    "higher": {"vda": shared(150), "vdb": shared(150), "vdc": own(180), "vdd": shared(160, "h")},
    "together": dict.fromkeys(BEFORE, shared(110)),
    "apart": {target: own(100 + n) for n, target in enumerate(BEFORE)},
}
"""The limits of four disks of a guest: one comes into a group, one stays in it, two go out of it; and so on."""


class Killed(BaseException):
    pass


@contextmanager
def killed_at(moment: int, patch: pytest.MonkeyPatch) -> Iterator[Callable[[], bool]]:
    """The writes are numbered, the moment before each and the one after it; from the given one on, none is made.

    What is yielded tells whether it came to that.
    """
    moments, dead = count(), False

    def may_die() -> None:
        nonlocal dead
        dead = dead or next(moments) == moment
        if dead:
            raise Killed

    def mortal(write: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(write)
        def does(*arguments: Any, **named: Any) -> Any:
            may_die()
            done = write(*arguments, **named)
            may_die()
            return done

        return does

    with patch.context() as patched:
        for owner, names in WRITES.items():
            for name in names:
                patched.setattr(owner, name, mortal(getattr(owner, name)))
        yield lambda: dead


def run_and_kill(node: Node, moment: int, patch: pytest.MonkeyPatch) -> bool:
    """False where the pass ended before."""
    with killed_at(moment, patch) as died:
        try:
            node.run()
        except Killed:
            assert died()
    return died()


def check(node: Node, after: dict[str, Limits]) -> None:
    """The next pass converges: QEMU, memory and record agree."""
    report = node.run()
    assert set(kinds(report)) <= {"changed", "in-sync"}
    assert of(node) == after
    memory = {outcome.disk.target: node.memory[outcome.disk.key] for outcome in report.outcomes}
    assert {target: ours.applied for target, ours in memory.items()} == after
    assert {target: ours.desired for target, ours in memory.items()} == after
    assert Record(node.state.record).unsettled() == []
    every = rows(node)
    assert [row.id for row in every] == list(range(1, len(every) + 1))
    for target, limits in after.items():
        took = [row for row in every if row.disk.target == target and row.result in (Ending.DONE, Ending.TOOK)]
        assert took[0].before == Limits()
        assert all(later.before == earlier.after for earlier, later in pairwise(took)), "a change without its row"
        assert took[-1].after == limits
    node.hypervisor.writes.clear()
    assert set(kinds(node.run())) == {"in-sync"}
    assert node.hypervisor.writes == []


@pytest.mark.parametrize("after", AFTERWARDS.values(), ids=AFTERWARDS)
def test_a_pass_over_groups_that_is_killed_at_any_write_is_made_good_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: dict[str, Limits]
) -> None:
    def a_killed_node(name: str, moment: int) -> Node | None:
        (tmp_path / name).mkdir()
        node = a_node(tmp_path / name, disks=4, **BEFORE)
        node.rules = desiring(**after)
        died = run_and_kill(node, moment, monkeypatch)
        assert all(limits in (BEFORE[target], after[target]) for target, limits in of(node).items())
        return node if died else None

    met = 0
    for moment in count(0, EACH):
        node = a_killed_node(f"{moment}", moment)
        if node is None:
            break
        met += 1
        for again in count() if TWICE else ():
            twice = a_killed_node(f"{moment} {again}", moment)
            assert twice is not None
            if not run_and_kill(twice, again, monkeypatch):
                break
            check(twice, after)
        check(node, after)
    assert met * EACH >= 2 * (1 + 4 + 1 + 1), "intents, writes, memory and results, before and after each"
