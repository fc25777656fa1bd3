"""The phases of failures, second by second, and what is none."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

import pytest

from plimsoll_agent.util.frozen import replace
from plimsoll_insight.drill.phases import DrillPhase, find
from tests.unit.insight.drill.recorded import DEGRADED, PEERING, RECOVERING, Second, drill, status


def spans(seconds: Sequence[Second], waited: Sequence[float] | None = None) -> list[tuple[str, int, int]]:
    iops = [nan if rate is None else rate for rate, _ in seconds]
    found = find(iops, [state for _, state in seconds], waited or [0.0] * len(seconds))
    return [(span.phase.value, span.begin, span.end) for span in found.spans]


WHOLE = [
    ("normal", 0, 20), ("outage", 20, 28), ("degraded", 28, 48), ("return", 48, 52), ("recovery", 52, 62),
    ("normal", 62, 82),
]  # fmt: skip


def test_each_phase_begins_where_it_was_made() -> None:
    assert spans(drill()) == WHOLE


def test_without_guests_placement_groups_tell_the_outage() -> None:
    seconds = [(None, state) for _, state in drill(outage=4)]
    seconds[21:24] = [(None, status(2, PEERING))] * 3
    assert spans(seconds) == [
        ("normal", 0, 21), ("outage", 21, 24), ("degraded", 24, 44), ("return", 44, 48), ("recovery", 48, 58),
        ("normal", 58, 78),
    ]  # fmt: skip


def test_without_the_cluster_guests_tell_the_outage_alone() -> None:
    seconds = [(rate, None) for rate, _ in drill()]
    # 60 of 100 IOPS are served, 5 are not.
    waited = [0.0] * len(seconds)
    waited[28] = waited[52] = 8.0
    assert spans(seconds, waited) == [
        ("normal", 0, 20), ("outage", 20, 28), ("normal", 28, 48), ("outage", 48, 52), ("normal", 52, 82),
    ]  # fmt: skip


def test_an_unknown_second_is_no_lost_one() -> None:
    seconds = drill()
    for second in (5, 6, 7, 30, 31, 32):
        seconds[second] = (None, None)
    assert spans(seconds) == WHOLE


def test_a_single_slow_second_is_no_outage_and_two_are() -> None:
    seconds = [(100.0, status())] * 40
    seconds[20] = (10.0, status())
    assert spans(seconds) == [("normal", 0, 40)]
    seconds[21] = (10.0, status())
    waited = [0.0] * 20 + [0.0, 0.0, 2.0] + [0.0] * 17
    assert spans(seconds, waited) == [("normal", 0, 20), ("outage", 20, 22), ("normal", 22, 40)]


def test_service_that_is_back_before_the_monitors_know_is_the_same_incident() -> None:
    seconds = drill()
    seconds[26:28] = [(100.0, status())] * 2
    assert spans(seconds)[:3] == [("normal", 0, 20), ("outage", 20, 26), ("degraded", 26, 48)]


def test_where_the_load_comes_and_goes_little_is_no_outage() -> None:
    uneven = [(100.0, status()), (100.0, status()), (20.0, status()), (20.0, status()), (90.0, status())] * 5
    whole = drill()
    seconds = [*uneven, *whole[20:30], *[(15.0, status(2, DEGRADED, 50))] * 5, *whole[30:]]
    # A fifth is usual, half of that is served, and 5 of 100 in the return are not an outage of their own.
    assert [phase for phase, _, _ in spans(seconds)] == [
        "normal", "outage", "degraded", "return", "recovery", "normal",
    ]  # fmt: skip
    assert spans(seconds)[1] == ("outage", 25, 33)


def test_guests_that_have_nothing_to_do_are_no_outage() -> None:
    seconds = [*[(100.0, status())] * 20, *[(0.0, status())] * 20, *[(100.0, status())] * 10]
    assert spans(seconds) == [("normal", 0, 50)]
    assert spans([*seconds[:40], *seconds[20:40] * 2]) == [("normal", 0, 80)]
    # As long as the monitors may not have seen it, it can be one.
    assert spans(seconds[:35]) == [("normal", 0, 20), ("outage", 20, 35)]
    # The cluster answered no more: whatever it said before the outage is no word on it.
    silent = [*seconds[:23], *[(0.0, None)] * 87]
    assert spans(silent) == [("normal", 0, 20), ("outage", 20, 110)]
    waited = [0.0] * 40 + [19.5] + [0.0] * 9
    assert spans(seconds, waited)[1] == ("outage", 20, 40)


def test_counts_that_lag_after_the_return_do_not_end_it() -> None:
    """The manager's counts are those of before for two seconds, and peering comes after them."""
    late = [(5.0, status(3, DEGRADED, 50))] * 2
    seconds = [*drill()[:48], *late, *drill()[48:]]
    assert spans(seconds)[3:5] == [("return", 48, 54), ("recovery", 54, 64)]


def test_short_peering_in_a_recovery_is_a_part_of_it() -> None:
    seconds = drill()
    seconds[57] = (60.0, status(3, PEERING))
    seconds[60] = (60.0, status())
    assert spans(seconds) == WHOLE


def test_a_second_osd_that_fails_begins_again() -> None:
    seconds = [*drill()[:55], *[(0.0, status(3, RECOVERING, 20))] * 7, *drill()[27:]]
    assert [phase for phase, _, _ in spans(seconds)] == [
        "normal", "outage", "degraded", "return", "recovery", "outage", "degraded", "return", "recovery", "normal",
    ]  # fmt: skip
    assert spans(seconds)[5] == ("outage", 55, 63)


def test_a_manager_that_counts_late_does_not_make_a_failure_normal() -> None:
    seconds = drill()
    # All are in sync by its counts until three seconds after the OSD is down, for more than ten seconds.
    seconds[28:31] = [(seconds[28][0], status(2))] * 3
    assert spans(seconds) == WHOLE


def test_copies_that_were_made_elsewhere_are_normal_after_ten_seconds_in_sync() -> None:
    away = [(100.0, status(2))] * 15
    seconds = [*drill()[:48], *away]
    assert spans(seconds)[2:] == [("degraded", 28, 48), ("normal", 48, 63)]
    assert spans(seconds[:-6])[2:] == [("degraded", 28, 57)]


def test_a_cluster_that_moves_data_without_a_failure_recovers() -> None:
    seconds = [*[(100.0, status())] * 20, *[(90.0, status(3, RECOVERING, 5))] * 10, *[(100.0, status())] * 10]
    assert spans(seconds) == [("normal", 0, 20), ("recovery", 20, 30), ("normal", 30, 40)]


def changed(seconds: Sequence[Second], moves: Sequence[int], **fields: int) -> list[Second]:
    """With so many placement groups more that are moved, in each second."""
    return [
        (rate, state and replace(state, states={**state.states, "active+remapped+backfilling": more}, **fields))
        for (rate, state), more in zip(seconds, moves, strict=True)
    ]


def test_an_osd_that_was_down_and_out_before_is_no_trouble() -> None:
    seconds = drill()
    assert spans(changed(seconds, [0] * len(seconds), osds=5)) == WHOLE


def test_an_osd_that_was_down_and_in_before_is_a_failure_under_way() -> None:
    seconds = [(100.0, status(2))] * 10
    assert find([100.0] * 10, [state for _, state in seconds], [0.0] * 10).normal is None


def test_what_the_balancer_moves_at_the_start_is_no_trouble() -> None:
    seconds = drill()
    assert spans(changed(seconds, [4] * len(seconds))) == WHOLE
    # It is done before the OSD fails: all must be in sync again then.
    done = [max(4 - second // 4, 0) for second in range(len(seconds))]
    assert spans(changed(seconds, done)) == WHOLE
    assert spans(changed(seconds, [*done[:62], 1, 1, *done[64:]]))[-2:] == [("recovery", 52, 64), ("normal", 64, 82)]


def test_copies_that_are_made_at_the_start_leave_normal_unknown() -> None:
    state = status(3, RECOVERING, 20)
    assert find([100.0] * 10, [state] * 10, [0.0] * 10).normal is None


@pytest.mark.parametrize("iops", [[], [nan] * 10, [0.0] * 10])
def test_without_normal_seconds_nothing_is_normal(iops: list[float]) -> None:
    found = find(iops, [None] * len(iops), [0.0] * len(iops))
    assert found.normal is None
    assert {span.phase for span in found.spans} <= {DrillPhase.NORMAL}
