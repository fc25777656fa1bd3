"""Limits within ceilings and floors: always possible, bounded, never looser (a ceiling) or tighter (a floor)."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from plimsoll_agent.model.limits import Limits
from plimsoll_agent.policy.clamp import at_least, at_most
from plimsoll_agent.util.frozen import replace
from tests.unit.values import MOST, examples, pairs_of_limits, possible_limits, possible_numbers

INFINITE = float("inf")
SCOPES = ("total", "read", "write")
UNITS = ("bytes", "iops")


def iops(**numbers: int) -> Limits:
    """``iops(read=100, read_max=200)``: one unit is enough for a table, bytes go the same way."""
    return Limits.from_mapping({_spelled_out(name): value for name, value in numbers.items()})


def _spelled_out(name: str) -> str:
    scope, _, ending = name.partition("_")
    return f"{scope}_iops_sec" + (f"_{ending}" if ending else "")


# --- what a guest may do


class Said(NamedTuple):
    base: int
    burst: int
    length: int


Way = tuple[Said | None, ...]
"""The limits that one direction, or both together, are under; None where there is none."""
WAYS = ("read", "write", "both")


def said(limits: Limits, unit: str) -> dict[str, Said]:
    found = {
        scope: Said(*(getattr(limits, f"{scope}_{unit}_sec{ending}") for ending in ("", "_max", "_max_length")))
        for scope in SCOPES
    }
    return {scope: numbers for scope, numbers in found.items() if numbers.base}


def ways(limits: Limits, unit: str) -> dict[str, Way]:
    numbers = said(limits, unit)
    if total := numbers.get("total"):
        return dict.fromkeys(WAYS, (total,))
    read, write = numbers.get("read"), numbers.get("write")
    return {"read": (read,), "write": (write,), "both": (read, write)}


def held(scope: str) -> tuple[str, ...]:
    """The ways that a bound of this scope holds."""
    return WAYS if scope == "total" else (scope,)


def for_ever(way: Way) -> float:
    return sum(part.base if part else INFINITE for part in way)


def in_all(way: Way, seconds: int) -> float:
    """What may be done in so many seconds: docs/throttle.txt of QEMU, a burst for its length, then the base."""
    return sum(
        part.burst * min(part.length, seconds) + part.base * max(seconds - part.length, 0) if part else INFINITE
        for part in way
    )


def at_one_blow(way: Way) -> float:
    """What may be used up before the base holds: util/throttle.c, a tenth of a second of a base without a burst."""
    return sum((part.burst * part.length or part.base / 10) if part else INFINITE for part in way)


def exceeds(can: Way, could: Way) -> bool:
    # Both are straight lines between the ends of bursts.
    moments = {1, *(part.length for part in (*can, *could) if part and part.length)}
    return for_ever(can) > for_ever(could) or any(in_all(can, s) > in_all(could, s) for s in moments)


# --- strategies


def _as_bound(numbers: dict[str, int]) -> Limits:
    bound = {name: value for name, value in numbers.items() if name != "size_iops_sec"}
    return Limits.from_mapping(bound)


bounds = possible_numbers.map(_as_bound)
ungrouped = possible_numbers.map(Limits.from_mapping)


@st.composite
def _near(draw: st.DrawFn) -> tuple[Limits, Limits]:
    """Limits and a bound that differs from them in a few numbers."""
    limits, bound = draw(pairs_of_limits())
    return (
        Limits.from_mapping(limits.full_set() | {"group_name": None}),
        _as_bound({name: value for name, value in bound.full_set().items() if isinstance(value, int)}),
    )


@st.composite
def _parts_and_total(draw: st.DrawFn) -> tuple[Limits, Limits]:
    """Reads and writes, and a total about as high as their sum."""
    numbers: dict[str, int] = {}
    for scope in ("read", "write"):
        base = draw(st.integers(1, 20))
        numbers[scope] = base
        if draw(st.booleans()):
            numbers |= {
                f"{scope}_max": base + draw(st.integers(0, 20)),
                f"{scope}_max_length": draw(st.integers(1, 9)),
            }
    base = max(1, numbers["read"] + numbers["write"] + draw(st.integers(-20, 20)))
    total = {"total": base}
    if draw(st.booleans()):
        total |= {"total_max": base + draw(st.integers(0, 40)), "total_max_length": draw(st.integers(1, 9))}
    return iops(**numbers), iops(**total)


limits_and_bounds = st.one_of(st.tuples(ungrouped, bounds), _near(), _parts_and_total())


# --- ceilings


@given(limits_and_bounds)
@examples
def test_under_a_ceiling_no_disk_does_more_than_it_for_ever_or_in_any_time(pair: tuple[Limits, Limits]) -> None:
    limits, ceiling = pair
    result = at_most(limits, ceiling)
    for unit in UNITS:
        can = ways(result, unit)
        for scope, top in said(ceiling, unit).items():
            for way in held(scope):
                assert not exceeds(can[way], (top,)), (unit, way)


@given(limits_and_bounds)
@examples
def test_a_ceiling_raises_nothing_but_one_way_of_a_total_made_of_reads_and_writes(
    pair: tuple[Limits, Limits],
) -> None:
    limits, ceiling = pair
    result = at_most(limits, ceiling)
    assert result.size_iops_sec == limits.size_iops_sec, "requests are counted as before"
    for unit in UNITS:
        could, can = ways(limits, unit), ways(result, unit)
        made_a_total = "total" in said(result, unit) and {"read", "write"} & set(said(limits, unit))
        if made_a_total:
            # Only where the promised bases do not fit, and then up to the ceiling.
            assert for_ever(could["both"]) > said(ceiling, unit)["total"].base == for_ever(can["both"])
        for way in ["both"] if made_a_total else WAYS:
            assert not exceeds(can[way], could[way]), (unit, way)


@given(limits_and_bounds)
@examples
def test_a_ceiling_takes_no_more_of_a_base_than_it_must(pair: tuple[Limits, Limits]) -> None:
    limits, ceiling = pair
    result = at_most(limits, ceiling)
    for unit in UNITS:
        could, can, top = ways(limits, unit), ways(result, unit), said(ceiling, unit)
        if "total" in said(limits, unit) or "total" in top:
            assert for_ever(can["both"]) == min([for_ever(could["both"]), *(each.base for each in top.values())])
        else:
            for way in ("read", "write"):
                assert for_ever(can[way]) == min(for_ever(could[way]), top[way].base if way in top else INFINITE)


@given(limits_and_bounds)
@examples
def test_a_ceiling_that_is_not_reached_changes_nothing(pair: tuple[Limits, Limits]) -> None:
    limits, ceiling = pair
    for unit in UNITS:
        own = ways(limits, unit)
        for scope, top in said(ceiling, unit).items():
            for way in held(scope):
                parts = [part for part in own[way] if part]
                assume(len(parts) == len(own[way]))  # what is unlimited reaches every ceiling
                assume(sum(part.base for part in parts) <= top.base)
                assume(sum(part.burst or part.base for part in parts) <= (top.burst or top.base))
                assume(not top.burst or all(part.length <= top.length for part in parts))
    assert at_most(limits, ceiling) == limits


@given(possible_limits())
@examples
def test_limits_are_a_ceiling_and_a_floor_that_they_do_not_reach(limits: Limits) -> None:
    for bound in (limits, Limits()):
        assert at_most(limits, bound) == limits
        assert at_least(limits, bound) == limits


@example((iops(total=100, total_max=500, total_max_length=60), iops(read=300, write=50, write_max=400)))
@given(limits_and_bounds)
@examples
def test_a_bound_that_was_applied_has_nothing_left_to_do(pair: tuple[Limits, Limits]) -> None:
    limits, bound = pair
    lowered, raised = at_most(limits, bound), at_least(limits, bound)
    assert at_most(lowered, bound) == lowered
    assert at_least(raised, bound) == raised


@given(bounds)
@examples
def test_a_ceiling_is_the_limit_of_a_disk_that_has_none(ceiling: Limits) -> None:
    assert at_most(Limits(), ceiling) == ceiling


@given(possible_limits(), bounds)
@examples
def test_a_disk_in_a_group_keeps_the_limits_that_it_shares(limits: Limits, bound: Limits) -> None:
    assume(limits.group_name is not None)
    assert at_most(limits, bound) == limits
    assert at_least(limits, bound) == limits


# --- floors


@example((iops(total=1, total_max=3 * MOST // 10, total_max_length=3), iops(total=1, total_max=6 * MOST // 10)))
@example((iops(total=1, total_max=9, total_max_length=MOST // 9), iops(total=10)))
@example((iops(read=1, read_max=MOST, write=1, write_max=MOST), iops(total=3)))
@given(limits_and_bounds)
@examples
def test_a_floor_lowers_nothing(pair: tuple[Limits, Limits]) -> None:
    limits, floor = pair
    result = at_least(limits, floor)
    assert result.size_iops_sec == limits.size_iops_sec, "requests are counted as before"
    for unit in UNITS:
        could, can = ways(limits, unit), ways(result, unit)
        for way in WAYS:
            # QEMU counts no burst further than 10^15, and bursts last whole seconds.
            most = MOST - sum(part.burst for part in can[way] if part)
            assert at_one_blow(can[way]) >= min(at_one_blow(could[way]), most), (unit, way)
            assert most < in_all(could[way], 60) or not exceeds(could[way], can[way]), (unit, way)


@given(limits_and_bounds)
@examples
def test_above_a_floor_a_guest_may_do_what_it_promises_for_ever_and_in_any_time(pair: tuple[Limits, Limits]) -> None:
    limits, floor = pair
    result = at_least(limits, floor)
    for unit in UNITS:
        can = ways(result, unit)
        for scope, bottom in said(floor, unit).items():
            way = can["both" if scope == "total" else scope]
            most = MOST - sum(part.burst for part in way if part)
            assert for_ever(way) >= bottom.base
            assert most < in_all((bottom,), 60) or not exceeds((bottom,), way), (unit, scope)


@given(limits_and_bounds)
@examples
def test_a_floor_gives_no_more_of_a_base_than_it_must_and_limits_nothing(pair: tuple[Limits, Limits]) -> None:
    limits, floor = pair
    result = at_least(limits, floor)
    for unit in UNITS:
        could, can, bottom = ways(limits, unit), ways(result, unit), said(floor, unit)
        if "total" in said(limits, unit) or "total" in bottom:
            for_both = [for_ever(could["both"]), *(each.base for each in bottom.values())]
            assert for_ever(can["both"]) == (max(for_both) if said(limits, unit) else INFINITE)
        else:
            for way in ("read", "write"):
                assert for_ever(can[way]) == max(for_ever(could[way]), bottom[way].base if way in bottom else 0)
        assert [way for way in WAYS if None in can[way]] == [way for way in WAYS if None in could[way]], (
            "what is unlimited stays so"
        )


# --- worked examples, the numbers by hand


def numbered(text: str) -> Limits:
    """``read 100/200/5, write 50``: base, burst and its length; bytes go the same way as requests."""
    scopes = (each.split() for each in text.split(", ") if each != "unlimited")
    return iops(
        **{
            f"{scope}{ending}": int(number)
            for scope, numbers in scopes
            for ending, number in zip(("", "_max", "_max_length"), numbers.split("/"), strict=False)
        }
    )


def worked(table: str) -> list[tuple[Any, ...]]:
    """What it shows; the limits, the bound, and what they come to."""
    lines = [line.strip() for line in table.strip().splitlines()]
    return [
        (what, *map(numbered, numbers.split(" | "))) for what, numbers in zip(lines[::2], lines[1::2], strict=True)
    ]


CEILINGS = """
the cloud sample's 250 is under 300: nothing to do, and no burst is lent
    total 250 | total 300/600/10 | total 250
a base above the ceiling comes down to it; its burst is above the ceiling at any moment, and goes
    total 500/1000/60 | total 300 | total 300
a base below a ceiling without bursts may burst up to the ceiling, for as long as it was promised
    total 100/1000/60 | total 300 | total 100/300/60
a burst is cut to the ceiling's burst, and to its length
    total 500/1000/60 | total 300/600/10 | total 300/600/10
a lower burst is not raised to the ceiling's, a shorter one not prolonged
    total 500/550/5 | total 300/600/10 | total 300/550/5
a low burst that lasts too long is cut in its length alone
    total 100/200/60 | total 300/600/10 | total 100/200/10
reads and writes are held each by their own ceiling
    read 500, write 100 | read 300, write 200 | read 300, write 100
a ceiling on reads limits reads where only writes were limited, with its burst
    write 100 | read 300/900 | read 300/900, write 100
a ceiling on reads leaves writes unlimited where nothing limits them
    read 500 | read 300 | read 300
reads and writes whose sum fits are kept: one total of 500 would give reads 200 more
    read 300, write 200 | total 500 | read 300, write 200
reads and writes whose sum is one too high become the total
    read 300, write 201 | total 500 | total 500
reads alone are limited: they stay, and writes get what they leave; a total would give all of it to reads
    read 100 | total 500/900 | read 100, write 400
so too where writes alone are limited
    write 100 | total 500 | read 400, write 100
reads alone are limited, and by just the ceiling: one total, since the 0 that they leave would not limit writes
    read 500 | total 500 | total 500
the burst of the one that is limited may rise by what the ceiling's burst leaves above it: 900 - 500
    read 100/2000 | total 500/900 | read 100/500, write 400
writes alone are limited, and by more than the ceiling: one total
    write 600 | total 500 | total 500
a burst of a total is the sum of what both do at once: 500 + 200, for the only burst's 5 s
    read 400/500/5, write 200 | total 500/900/10 | total 500/700/5
a burst of a total is no longer than the shorter of two, nor above the ceiling's
    read 400/800/5, write 200/800/9 | total 500/900/7 | total 500/900/5
bases that fit are kept, and the 300 above them go to the bursts 2:1, as they asked (400 and 200)
    read 100/500/30, write 200/400/3 | total 400/600/10 | read 100/300/10, write 200/300/3
shares are rounded down: 3 above the bases are 1 and 1, never 2 and 2
    read 10/13, write 10/13 | total 23 | read 10/11, write 10/11
bases that fill a ceiling without bursts leave nothing for one
    read 100/500, write 200/400 | total 300 | read 100, write 200
a direction without a burst gets none, and takes none of the room
    read 100/500, write 200 | total 350 | read 100/150, write 200
a ceiling without a burst leaves the lengths of what fits under it
    read 100/500/9, write 200 | total 350 | read 100/150/9, write 200
a total is held by the lower of two ceilings: reads alone could use up all of it
    total 500/1000 | read 400, write 300 | total 300
a burst of a total is held by each ceiling at any moment, whichever stands first
    total 100/1000/60 | read 300, write 200/400/10 | total 100/300/10
"""
FLOORS = """
what is unlimited stays so
    unlimited | total 300 | unlimited
a base that is too low is raised
    total 100 | total 300 | total 300
a base that is high enough is left
    total 500 | total 300 | total 500
a floor's burst is promised too
    total 100 | total 300/600/10 | total 300/600/10
a base that reaches the floor's burst for ever needs none
    total 600 | total 300/600/10 | total 600
a higher burst is kept and prolonged, a longer one kept and raised
    read 100/900/2, write 100/200/30 | read 300/600/10, write 300/600/10 | read 300/900/10, write 300/600/30
a burst that the base overtakes is raised with it: of a mere base QEMU lets only 30 pass at once, not 200
    total 100/200 | total 300 | total 300/300
reads and writes that make up the floor together are kept
    read 100, write 200 | total 300 | read 100, write 200
reads and writes that do not make it up become the total
    read 100, write 199 | total 300 | total 300
a total made of them can burst like both together, as long as the longer
    read 100/500/5, write 100/200/60 | total 300/400 | total 300/700/60
bursts that do not make up the floor's are raised by their share: 600 of 300 is twice each
    read 100, write 150/200/5 | total 250/600/10 | read 100/200/10, write 150/400/10
bursts that are high enough are prolonged
    read 100/500, write 150 | total 250/600/10 | read 100/500/10, write 150
a floor's burst that the bases reach for ever prolongs none
    read 100/500, write 150 | total 200/250/10 | read 100/500, write 150
a burst of one floor that the other's base reaches for ever is none
    total 100 | read 150/200, write 300 | total 300
where writes are unlimited, so are both together: nothing is to be raised
    read 100 | total 300/600 | read 100
a total must reach the higher of two floors, not their sum
    total 100 | read 300, write 200 | total 300
a floor on reads says nothing of writes, and limits none
    read 100, write 50 | read 300 | read 300, write 50
a floor on reads limits no reads where only writes are limited
    write 50 | read 300, write 60 | write 60
"""
OF_BOTH_UNITS = [
    (
        "bytes and requests are no business of each other's, and requests are counted as before",
        Limits(total_bytes_sec=10**8, total_iops_sec=500, size_iops_sec=4096),
        Limits(read_bytes_sec=10**7, total_iops_sec=250),
        Limits(total_bytes_sec=10**7, total_iops_sec=250, size_iops_sec=4096),
    ),
    (
        "a ceiling on requests limits those of a disk that has only bytes limited",
        Limits(total_bytes_sec=10**8),
        Limits(total_iops_sec=250),
        Limits(total_bytes_sec=10**8, total_iops_sec=250),
    ),
]


@pytest.mark.parametrize(("what", "limits", "ceiling", "expected"), [*worked(CEILINGS), *OF_BOTH_UNITS])
def test_ceiling(what: str, limits: Limits, ceiling: Limits, expected: Limits) -> None:
    assert at_most(limits, ceiling) == expected, what


@pytest.mark.parametrize(("what", "limits", "floor", "expected"), worked(FLOORS))
def test_floor(what: str, limits: Limits, floor: Limits, expected: Limits) -> None:
    assert at_least(limits, floor) == expected, what


def test_above_a_floor_requests_are_counted_as_before() -> None:
    limits, floor = (Limits(total_iops_sec=rate, size_iops_sec=4096) for rate in (100, 300))
    assert at_least(limits, replace(floor, size_iops_sec=0, total_bytes_sec=10**8)) == floor
