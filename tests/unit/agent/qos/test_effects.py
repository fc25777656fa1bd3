"""What a plan does to the volumes that are attached."""

from __future__ import annotations

from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Unknown
from plimsoll_agent.qos import cinder as qos_cinder
from plimsoll_agent.qos import serialize
from plimsoll_agent.qos.cinder import AttachedVolume
from plimsoll_agent.qos.effects import TypeEffect, VolumeChange, effects
from plimsoll_agent.qos.file import Declaration, DeclaredType, Spec
from tests.fakecinder import FakeCinder

PER_GB = {"total_iops_sec_per_gb": "30", "total_iops_sec_per_gb_min": "100"}


def gold(keys: dict[str, str | None], consumer: str = "front-end") -> Declaration:
    return Declaration({"gold": Spec("gold", consumer, keys)}, {"gold": DeclaredType(name="gold", qos_spec="gold")})


def found(there: FakeCinder, desired: Declaration) -> tuple[TypeEffect, ...]:
    return effects(desired, qos_cinder.read(there), qos_cinder.attached_volumes(there))


def cinder(*sizes: int, keys: dict[str, str | None], consumer: str = "front-end") -> FakeCinder:
    """The type gold with the spec gold, and volumes of it."""
    there = FakeCinder()
    there.type("gold", there.spec("gold", keys, consumer))
    for size in sizes:
        there.volume("gold", size)
    return there


def test_volumes_that_change_are_counted_by_what_comes_of_their_size() -> None:
    # 100 at least: three are below that before and after, at 2, 5 and 10 GiB the ceiling cuts.
    there = cinder(1, 1, 1, 2, 5, 10, keys={"total_iops_sec_per_gb": "60", "total_iops_sec_per_gb_min": "100"})
    assert found(there, gold(PER_GB)) == (
        TypeEffect(
            type="gold",
            changed=3,
            unchanged=3,
            median=VolumeChange(5, Limits(total_iops_sec=300), Limits(total_iops_sec=150)),
        ),
    )


def test_volumes_that_are_not_attached_do_not_count() -> None:
    there = cinder(1, keys={})
    there.volume("gold", 1, status="available")
    (effect,) = found(there, gold({"total_iops_sec": "5"}))
    assert (effect.changed, effect.unchanged) == (1, 0)


def test_only_types_whose_spec_says_something_else_are_told() -> None:
    there = cinder(1, keys=PER_GB)
    there.type("same", there.spec("copy", PER_GB))
    there.volume("same", 1)
    there.volume(None, 1)
    # Another spec with the same keys, and another consumer that Nova is told of as well.
    desired = Declaration(
        {"gold": Spec("gold", "both", PER_GB)}, {"same": DeclaredType(name="same", qos_spec="gold")}
    )
    assert found(there, desired) == ()
    desired = Declaration({"copy": Spec("copy", "front-end", {})}, {})
    assert [effect.type for effect in found(there, desired)] == ["same"], "of a type that no file declares too"


def test_a_type_that_loses_its_spec_or_its_place_at_nova_is_a_change() -> None:
    there = cinder(1, keys={"total_iops_sec": "5"})
    for desired in (
        gold({"total_iops_sec": "5"}, "back-end"),
        Declaration({}, {"gold": DeclaredType(name="gold", qos_spec=None)}),
    ):
        (effect,) = found(there, desired)
        assert effect.median == VolumeChange(1, Limits(total_iops_sec=5), None)


def test_a_volume_that_could_not_be_attached_again_is_counted_as_such() -> None:
    there = cinder(1, 200, keys={"read_iops_sec": "5"})
    # Nothing of 1 GiB: 0 is no limit, so only the larger one has a total beside its reads.
    desired = gold({"read_iops_sec": "5", "total_iops_sec_per_gb": "0", "total_iops_sec_per_gb_min": "0"})
    assert found(there, desired)[0].changed == 0
    desired = gold({"read_iops_sec": "5", "total_iops_sec": "5"})
    (effect,) = found(there, desired)
    assert (effect.changed, effect.refused) == (2, 2)
    assert effect.median is not None
    assert isinstance(effect.median.after, Unknown)


def test_a_spec_that_was_impossible_and_still_is_changes_nothing() -> None:
    there = cinder(1, keys={"read_iops_sec": "5", "total_iops_sec": "5"})
    (effect,) = found(there, gold({"read_iops_sec": "x"}))
    assert (effect.changed, effect.unchanged) == (0, 1)


def test_the_middle_one_is_that_of_the_volumes_not_of_the_sizes() -> None:
    there = cinder(1, 1, 1, 100, 1000, keys={})
    (effect,) = found(there, gold({"total_iops_sec": "5"}))
    assert effect.median is not None
    assert effect.median.gib == 1


def test_a_volume_of_a_type_that_is_gone_since_is_passed_over() -> None:
    there = qos_cinder.read(cinder(keys={}))
    (effect,) = effects(
        gold({"total_iops_sec": "5"}), there, [AttachedVolume("gone", 1, "a"), AttachedVolume("gold", 1, "b")]
    )
    assert effect.changed == 1


def test_where_attached_volumes_are_unknown_it_is_not_said_that_none_feels_it() -> None:
    data = serialize.plan_data((), None, ((), ()), ())
    assert (data["effects"], data["impacts"]) == (None, None)
