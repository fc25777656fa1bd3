"""The one rule of how good a pass was, and its exit status: by what its report says."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from plimsoll_agent.model.hypervisor import GuestRef
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.policy.decide import Desired
from plimsoll_agent.reconcile.grade import exit_status, grade
from plimsoll_agent.reconcile.outcome import Braked, Kind, Mode, PassReport, UnreachableGuest
from plimsoll_agent.util.frozen import replace
from tests.unit.outcomes import a_pass, staying
from tests.unit.values import a_disk, a_situation

WHY = because(Code.NODE_DEFAULT)
NOTE = because(Code.NO_RECORD, detail="a full disk")
HIDDEN = UnreachableGuest(GuestRef("u-2", "b"), because(Code.NOT_READ, detail="?"))
GONE = UnreachableGuest(GuestRef("u-3", "c"), because(Code.NOT_FOUND, detail="?"))
BRAKED = Braked(revision="4f21c8", catalogue=None, keys=frozenset({"a/1"}), of=9, removed=0, raised=0, lowered=1)
BLIND = replace(a_situation(), catalogue=Unknown(because(Code.NO_CATALOGUE, detail="?")))


def graded(mode: Mode, *kinds: Kind, **other: Any) -> tuple[str, int]:
    report = passed(mode, *kinds, **other)
    return grade(report).value, exit_status(report)


def passed(mode: Mode, *kinds: Kind, undecided: Code | None = None, **other: Any) -> PassReport:
    outcomes = [staying(a_disk(), Desired(Limits(), WHY), kind, WHY) for kind in kinds]
    if undecided is not None:
        why = because(undecided)
        outcomes.append(staying(a_disk(), Unknown(why), Kind.UNKNOWN, why))
    report = a_pass(*outcomes, mode=mode, seconds=1.0)
    return replace(report, **other)


@pytest.mark.parametrize(
    ("kinds", "other", "how", "plan", "observe", "enforce"),
    [
        ((), {}, "good", 0, 0, 0),
        ((Kind.IN_SYNC, Kind.LEFT_ALONE), {}, "good", 0, 0, 0),
        ((Kind.PLANNED, Kind.IN_SYNC), {}, "good", 2, 0, 0),
        ((Kind.IN_SYNC,), {"unreachable": (GONE,)}, "good", 0, 0, 0),
        ((Kind.IN_SYNC, Kind.FAILED), {}, "partial", 1, 3, 3),
        ((Kind.IN_SYNC, Kind.UNKNOWN), {}, "partial", 1, 3, 3),
        ((Kind.IN_SYNC,), {"unreachable": (HIDDEN,)}, "partial", 1, 3, 3),
        ((Kind.PLANNED, Kind.FAILED), {"braked": BRAKED}, "partial", 1, 4, 4),
        ((Kind.FAILED,), {"braked": BRAKED}, "partial", 1, 4, 4),
        ((Kind.FAILED, Kind.LEFT_ALONE), {}, "partial", 1, 1, 1),
        ((Kind.IN_SYNC,), {"situation": BLIND}, "partial", 1, 3, 3),
        ((Kind.IN_SYNC,), {"undecided": Code.SPEC_NOT_LISTED}, "partial", 3, 3, 3),
        ((Kind.PLANNED,), {"undecided": Code.VOLUME_MISSING}, "partial", 2, 3, 3),
        ((Kind.IN_SYNC,), {"undecided": Code.VOLUME_NOT_FETCHED}, "good", 0, 0, 0),
        ((Kind.IN_SYNC,), {"notes": (NOTE,)}, "partial", 0, 3, 3),
        ((Kind.IN_SYNC,), {"complaint": "rules.yaml:14: no"}, "partial", 1, 1, 1),
        ((Kind.PLANNED,), {"complaint": "rules.yaml:14: no", "braked": BRAKED}, "partial", 1, 1, 1),
    ],
)
def test_what_a_pass_leaves_undone_or_does_not_know_makes_it_partial_and_its_status_says_so(
    kinds: tuple[Kind, ...], other: dict[str, Any], how: str, plan: int, observe: int, enforce: int
) -> None:
    found = [graded(mode, *kinds, **other) for mode in Mode]
    assert found == [(how, status) for status in (plan, observe, enforce)]


def test_a_deferred_change_is_left_undone_only_where_limits_were_to_be_changed() -> None:
    found = [graded(mode, Kind.DEFERRED, Kind.IN_SYNC) for mode in Mode]
    assert found == [("good", 2), ("good", 0), ("partial", 3)]


def test_a_pass_that_observes_is_good_though_the_brake_stopped_it_and_its_status_tells_it_apart() -> None:
    found = [graded(mode, Kind.DEFERRED, Kind.IN_SYNC, braked=BRAKED) for mode in Mode]
    assert found == [("good", 4), ("good", 4), ("partial", 4)]
    out_of_scope = graded(Mode.ENFORCE, Kind.IN_SYNC, braked=BRAKED)
    assert out_of_scope == ("partial", 4), "what was braked need not be among the outcomes"


def test_an_enforcing_pass_is_good_just_where_its_command_ends_with_0() -> None:
    for kinds in product(Kind, repeat=2):
        for braked, notes in product((None, BRAKED), ((), (NOTE,))):
            how, status = graded(Mode.ENFORCE, *kinds, braked=braked, notes=notes)
            assert (how == "good") == (status == 0), (kinds, braked, notes)
