"""What an edit of QoS specs does to a whole region, counted before it is published."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll_agent.catalogue.model import Lists, VolumeType
from plimsoll_agent.catalogue.orders import Of, Orders, RegionApproval, RegionBrake
from plimsoll_agent.catalogue.planner import TypeOf
from plimsoll_agent.catalogue.qosspec import QosSpec
from plimsoll_agent.catalogue.region_brake import Effect, RegionEdit, RegionJudgement, judge, stopped
from plimsoll_agent.util.frozen import replace
from tests import golden
from tests.unit.values import NOON

GOLD, BRONZE = (
    VolumeType(id="t-gold", name="gold", qos_spec="s-gold"),
    VolumeType(id="t-bronze", name="bronze", qos_spec="s-bronze"),
)
SPECS = {
    "s-gold": QosSpec(id="s-gold", name="gold-iops", consumer="front-end", keys={"total_iops_sec": "3000"}),
    "s-bronze": QosSpec(id="s-bronze", name="bronze-iops", consumer="front-end", keys={"total_iops_sec": "500"}),
}
BEFORE = Lists(SPECS, {"t-gold": GOLD, "t-bronze": BRONZE})


def edited(spec: str = "s-gold", consumer: str = "front-end", **keys: str | None) -> Lists:
    """The lists after one spec was given these keys in the place of all that it had."""
    return replace(BEFORE, specs=SPECS | {spec: replace(SPECS[spec], keys=keys, consumer=consumer)})


def volumes(number: int, type: str | None = "t-gold", gib: int | None = 10) -> dict[str, TypeOf]:
    return {f"{type}-{one}": TypeOf(type=type, gib=gib) for one in range(number)}


def judged(after: Lists, number: int = 1, before: Lists = BEFORE, gib: int | None = 10) -> RegionJudgement:
    return judge(before, after, volumes(number, gib=gib), RegionBrake())


def effect(after: Lists, before: Lists = BEFORE, gib: int | None = 10) -> Effect | None:
    rows = judged(after, before=before, gib=gib).rows
    return next(iter(rows[0].counts)) if rows else None


def test_a_slip_in_one_spec_is_counted_over_the_region_with_the_edit_behind_it() -> None:
    region = volumes(7, None) | volumes(9000, "t-bronze") | volumes(3412)
    found = judge(BEFORE, edited(total_iops_sec="30"), region, RegionBrake())
    (row,) = found.rows
    assert (row.type, row.edits) == (
        GOLD,
        (RegionEdit(of="gold-iops", key="total_iops_sec", before="3000", after="30"),),
    )
    assert row.counts == {Effect.TENFOLD: 3412}
    assert (found.number, found.of, found.stops) == (3412, 3412 + 9000 + 7, True)


def counted(_: str, text: str) -> str:
    before, after = (edited(**json.loads(keys)) for keys in text.split(" | "))
    return str(effect(after, before=before))


def test_each_edit_has_the_effect_of_the_golden_file() -> None:
    golden.transcript("region_edits.txt", counted)


def test_edits_are_the_keys_that_differ() -> None:
    before = edited(total_iops_sec="3000", total_iops_sec_max="9000", x="1", same="5")
    found = judged(edited(total_iops_sec="30", read_bytes_sec="7", x=None, same="5"), before=before)
    assert found.rows[0].edits == (
        RegionEdit(of="gold-iops", key="read_bytes_sec", before=None, after="7"),
        RegionEdit(of="gold-iops", key="total_iops_sec", before="3000", after="30"),
        RegionEdit(of="gold-iops", key="total_iops_sec_max", before="9000", after=None),
        RegionEdit(of="gold-iops", key="x", before="1", after=None),
    )


def test_a_stop_is_ended_by_an_approval_of_just_this_state_and_of_each_type_that_loses_its_limits() -> None:
    def stops(
        found: RegionJudgement, *remove: str, digest: str = "d", of: Of = Of.SPECS, now: datetime = NOON
    ) -> bool:
        approval = RegionApproval(
            of=of,
            digest=digest,
            since=NOON,
            until=NOON + timedelta(days=7),
            by="ann",
            why="meant",
            remove=frozenset(remove),
        )
        return stopped(found, Orders(approvals=(approval,)), "d", now)

    cut, removed = judged(edited(total_iops_sec="30")), judged(edited())
    assert stopped(cut, Orders(), "d", NOON)
    assert not stopped(judged(BEFORE), Orders(), "d", NOON)
    assert not stops(cut)
    assert stops(cut, digest="e")
    assert stops(cut, of=Of.RULES)
    assert stops(cut, now=NOON + timedelta(days=7))
    assert stops(removed)
    assert stops(removed, "t-bronze")
    assert not stops(removed, "t-gold")


def test_a_spec_that_is_no_longer_for_nova_or_no_longer_associated_is_a_removal() -> None:
    found = judged(edited(consumer="back-end", total_iops_sec="3000"))
    assert found.rows[0].edits == (RegionEdit(of="gold-iops", key="consumer", before="front-end", after="back-end"),)
    assert found.rows[0].counts == {Effect.REMOVED: 1}
    alone = replace(BEFORE, types=BEFORE.types | {"t-gold": replace(GOLD, qos_spec=None)})
    found = judged(alone)
    assert found.rows[0].edits == (RegionEdit(of="gold", key="QoS spec", before="gold-iops", after=None),)
    assert (found.removals, found.stops) == ({"t-gold"}, True)


def test_another_spec_for_a_type_is_an_edit_by_the_names_of_both() -> None:
    found = judged(replace(BEFORE, types=BEFORE.types | {"t-gold": replace(GOLD, qos_spec="s-bronze")}))
    assert found.rows[0].edits == (RegionEdit(of="gold", key="QoS spec", before="gold-iops", after="bronze-iops"),)
    assert found.rows[0].counts == {Effect.CUT: 1}


def test_a_hidden_spec_or_a_type_that_is_new_is_no_edit() -> None:
    hidden = replace(BEFORE, types=BEFORE.types | {"t-gold": replace(GOLD, qos_spec=None, hidden=True)})
    assert effect(hidden) is None
    assert effect(BEFORE, before=hidden) is Effect.NOT_COMPARABLE
    assert effect(BEFORE, before=replace(BEFORE, types={"t-bronze": BRONZE})) is None
    assert effect(replace(BEFORE, types={"t-bronze": BRONZE})) is None  # deleted: it has no volumes


def test_a_volume_counts_by_its_present_type_and_size_under_both_states() -> None:
    """A retype and an extend are the owner's own change."""
    assert judged(BEFORE, 5000).rows == ()
    renamed = replace(BEFORE, specs=SPECS | {"s-gold": replace(SPECS["s-gold"], name="new")})
    assert judged(renamed, 5000).number == 0
    per_gb = edited(total_iops_sec_per_gb="30", total_iops_sec_per_gb_min="500")
    less = edited(total_iops_sec_per_gb="10", total_iops_sec_per_gb_min="500")
    assert effect(less, before=per_gb, gib=10) is None  # the minimum holds for both
    assert effect(less, before=per_gb, gib=1000) is Effect.CUT
    assert effect(less, before=per_gb, gib=None) is Effect.CUT  # the gravest of all sizes
    # Cinder refuses a maximum that is no number for every size.
    assert effect(edited(total_iops_sec_per_gb="1", total_iops_sec_per_gb_min="x"), before=per_gb) is None


def test_volumes_that_are_not_attached_are_left_out() -> None:
    region = volumes(3) | {f"free-{one}": TypeOf(type="t-gold", gib=10, attached=False) for one in range(5000)}
    found = judge(BEFORE, edited(total_iops_sec="1400"), region, RegionBrake())
    assert (found.number, found.of, found.stops) == (3, 3, False)
    assert not judge(BEFORE, edited(), {"v": TypeOf(type="t-gold", gib=1, attached=False)}, RegionBrake()).stops


@pytest.mark.parametrize(
    ("number", "of", "stops"), [(50, 100, False), (51, 100, True), (100, 10000, False), (101, 10000, True)]
)
def test_the_larger_of_number_and_percent_is_the_bound(number: int, of: int, stops: bool) -> None:
    region = volumes(number) | volumes(of - number, "t-bronze")
    assert judge(BEFORE, edited(total_iops_sec="1400"), region, RegionBrake(50, 1)).stops == stops


@pytest.mark.parametrize(
    ("value", "stops"), [("300", True), ("0", True), ("301", False), ("9000", False), ("30000", True)]
)
def test_one_attached_volume_is_enough_if_it_is_cut_to_a_tenth_or_raised_tenfold_or_loses_its_limits(
    value: str, stops: bool
) -> None:
    assert judged(edited(total_iops_sec=value)).stops == stops


def test_the_factor_is_a_setting() -> None:
    one = volumes(1)
    found = judge(BEFORE, edited(total_iops_sec="1000"), one, RegionBrake(), 3)
    assert (found.stops, found.factor) == (True, 3)
    assert not judge(BEFORE, edited(total_iops_sec="1000"), one, RegionBrake(), 4).stops


def test_the_lowest_limits_are_settings() -> None:
    low = edited(total_iops_sec="3000", total_bytes_sec="100")
    found = judge(BEFORE, low, volumes(1), RegionBrake(), lowest={"iops": 0, "bytes": 100})
    assert (found.stops, found.rows[0].counts, found.lowest["bytes"]) == (False, {Effect.ADDED: 1}, 100)
    assert judge(BEFORE, low, volumes(1), RegionBrake(), lowest={"iops": 0, "bytes": 101}).stops


def test_several_types_come_with_the_most_volumes_first() -> None:
    both = replace(BEFORE, specs={id: replace(spec, keys={"total_iops_sec": "9999"}) for id, spec in SPECS.items()})
    region = volumes(2) | volumes(3, "t-bronze")
    assert [(row.type.name, row.number) for row in judge(BEFORE, both, region, RegionBrake()).rows] == [
        ("bronze", 3),
        ("gold", 2),
    ]


keys = st.dictionaries(
    st.sampled_from(["total_iops_sec", "read_iops_sec", "total_iops_sec_per_gb", "total_iops_sec_max", "x"]),
    st.sampled_from(["0", "1", "10", "500", "5000", "x", "", None]),
)


@given(keys, keys, st.sampled_from([None, 0, 1, 7, 100_000]))
def test_any_two_specs_can_be_judged_and_a_state_beside_itself_does_nothing(
    old: dict[str, str | None], new: dict[str, str | None], gib: int | None
) -> None:
    before, after = (
        replace(BEFORE, specs=SPECS | {"s-gold": replace(SPECS["s-gold"], keys=chosen)}) for chosen in (old, new)
    )
    judged(after, before=before, gib=gib)
    same = replace(before, types=dict(before.types))
    assert judged(same, before=before, gib=gib).rows == ()
