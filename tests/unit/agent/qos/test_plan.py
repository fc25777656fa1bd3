"""A plan brings Cinder to what was declared, by ways on which no volume is attached with less limits than meant."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from plimsoll_agent.catalogue.api import Refused
from plimsoll_agent.catalogue.qosspec import Evaluation, QosSpec, evaluate
from plimsoll_agent.errors import DeadlineExceeded, Rejected, Unreachable
from plimsoll_agent.model.limits import BASES, Limits
from plimsoll_agent.model.reason import Code
from plimsoll_agent.qos import apply as qos_apply
from plimsoll_agent.qos import cinder as qos_cinder
from plimsoll_agent.qos import file as qos_file
from plimsoll_agent.qos import plan as qos_plan
from plimsoll_agent.qos.apply import How, StepResult
from plimsoll_agent.qos.file import Declaration, DeclaredType, Spec
from plimsoll_agent.qos.plan import Associate, ChangeSpec, CreateSpec, CreateType, DeleteSpec, DeleteType, Step
from tests.fakecinder import FakeCinder
from tests.unit.values import examples


def declared(specs: Mapping[str, Mapping[str, str | None]], types: Mapping[str, str | None]) -> Declaration:
    return Declaration(
        {name: Spec(name, "front-end", keys) for name, keys in specs.items()},
        {name: DeclaredType(name=name, qos_spec=spec) for name, spec in types.items()},
    )


def planned(
    desired: Declaration, cinder: FakeCinder, *, prune: bool = False, force: bool = False
) -> tuple[Step, ...]:
    return qos_plan.plan(desired, qos_cinder.read(cinder), prune=prune, force=force)


def applied(
    desired: Declaration, cinder: FakeCinder, *, prune: bool = False, force: bool = False
) -> list[StepResult]:
    live = qos_cinder.read(cinder)
    return list(qos_apply.apply(qos_plan.plan(desired, live, prune=prune, force=force), live, cinder))


def has(cinder: FakeCinder) -> dict[str, str | None]:
    """The name of each type's spec."""
    return {name: type.qos_spec for name, type in qos_cinder.read(cinder).types.items()}


def keys(cinder: FakeCinder) -> dict[str, Mapping[str, str | None]]:
    return {name: spec.keys for name, spec in qos_cinder.read(cinder).specs.items()}


# --- from anything to anything

_NAMES = ["a", "b", "c"]
_NUMBER = st.sampled_from(["0", "1", "10", "500", "3000", "", "x"]) | st.none()
_KEY = st.sampled_from(
    ["total_iops_sec", "read_iops_sec", "total_iops_sec_per_gb", "total_iops_sec_max", "typo", "name"]
)
_EXTRA = st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from(["1", "2"]) | st.none(), max_size=2)


@st.composite
def _declared(draw: st.DrawFn) -> Declaration:
    specs = {
        name: Spec(
            name, draw(st.sampled_from(["front-end", "back-end", "both"])), draw(st.dictionaries(_KEY, _NUMBER))
        )
        for name in draw(st.sets(st.sampled_from(_NAMES)))
    }
    types = {
        name: DeclaredType(
            name=name,
            qos_spec=draw(st.sampled_from([*specs, None])),
            description=draw(st.none() | st.sampled_from(["", "fast"])),
            public=draw(st.none() | st.booleans()),
            extra_specs=draw(st.none() | _EXTRA),
        )
        for name in draw(st.sets(st.sampled_from(_NAMES)))
    }
    return Declaration(specs, types)


def _cinder_with(there: Declaration) -> FakeCinder:
    cinder = FakeCinder()
    ids = {spec.name: cinder.spec(spec.name, spec.keys, spec.consumer) for spec in there.specs.values()}
    for type in there.types.values():
        cinder.type(
            type.name,
            None if type.qos_spec is None else ids[type.qos_spec],
            description=type.description,
            is_public=type.public is not False,
            extra_specs=dict(type.extra_specs or {}),
        )
    # Cinder does not delete its last type, nor the default one.
    cinder.default = cinder.type("__DEFAULT__")
    return cinder


def _says(spec: Spec | QosSpec) -> tuple[str, dict[str, str]]:
    """To whoever reads a spec, null and absent are the same."""
    return spec.consumer, {key: value for key, value in spec.keys.items() if value is not None}


def _assert_has(cinder: FakeCinder, desired: Declaration) -> None:
    live = qos_cinder.read(cinder)
    assert {name: _says(spec) for name, spec in live.specs.items() if name in desired.specs} == {
        name: _says(spec) for name, spec in desired.specs.items()
    }
    for name, type in desired.types.items():
        there = live.types[name]
        assert there.qos_spec == type.qos_spec
        assert type.description in (None, there.description)
        assert type.public in (None, there.public)
        assert type.extra_specs in (None, there.extra_specs)


@examples
@given(_declared(), _declared(), st.booleans())
def test_after_a_plan_cinder_has_what_was_declared_and_the_next_plan_is_empty(
    before: Declaration, desired: Declaration, prune: bool
) -> None:
    cinder = _cinder_with(before)
    assert {one.how for one in applied(desired, cinder, prune=prune)} <= {How.DONE}
    _assert_has(cinder, desired)
    assert planned(desired, cinder, prune=prune) == ()
    gone = qos_plan.undeclared(desired, qos_cinder.read(cinder)) == (("__DEFAULT__",), ())
    assert gone or not prune


@examples
@given(_declared(), _declared())
def test_what_is_not_declared_is_left_as_it_is(before: Declaration, desired: Declaration) -> None:
    cinder = _cinder_with(before)
    others = {name: spec for name, spec in qos_cinder.read(cinder).specs.items() if name not in desired.specs}
    types = {name: type for name, type in qos_cinder.read(cinder).types.items() if name not in desired.types}
    applied(desired, cinder)
    live = qos_cinder.read(cinder)
    assert {name: live.specs[name] for name in others} == others
    assert {name: live.types[name] for name in types} == types


class _Killed(BaseException):
    """As kill -9: nothing of the program runs any more."""


@examples
@given(_declared(), _declared(), st.data())
def test_a_run_that_was_killed_at_any_request_is_finished_by_the_next(
    before: Declaration, desired: Declaration, data: st.DataObject
) -> None:
    rehearsal = _cinder_with(before)
    applied(desired, rehearsal, prune=True)
    at = data.draw(st.integers(0, len(rehearsal.writes())))
    done = data.draw(st.booleans(), label="Cinder did what it was asked last")
    cinder = _cinder_with(before)
    numbers = count()

    def die(method: str, path: str) -> None:
        if (method != "GET" or "associate" in path) and next(numbers) == at:
            raise _Killed

    def die_after() -> None:
        if next(numbers) == at:
            raise _Killed

    if done:
        cinder.between = die_after
    else:
        cinder.before = die
    with suppress(_Killed):
        applied(desired, cinder, prune=True)
    cinder.before, cinder.between = (lambda method, path: None), (lambda: None)
    assert {one.how for one in applied(desired, cinder, prune=True)} <= {How.DONE}
    _assert_has(cinder, desired)
    assert planned(desired, cinder, prune=True) == ()


@examples
@given(_declared())
def test_the_plan_after_an_export_is_empty(there: Declaration) -> None:
    cinder = _cinder_with(there)
    exported = qos_file.parse(qos_file.text_of(qos_cinder.read(cinder).declared()), "qos.yaml").declared
    assert planned(exported, cinder, prune=True) == ()
    other = _cinder_with(Declaration())
    applied(exported, other)
    _assert_has(other, qos_cinder.read(cinder).declared())


# --- what a volume gets that is attached meanwhile


def _rates(limits: Limits) -> list[float]:
    """The most that reads and writes may do of each unit, for long and in a burst."""
    return [
        min(rate(limits, f"{scope}_{unit}_sec"), rate(limits, f"total_{unit}_sec"))
        for unit in ("iops", "bytes")
        for scope in ("read", "write")
        for rate in (_lasting, _top)
    ]


def _lasting(limits: Limits, base: str) -> float:
    return getattr(limits, base) or math.inf


def _top(limits: Limits, base: str) -> float:
    return max(getattr(limits, base), getattr(limits, f"{base}_max")) or math.inf


_VALUES = st.sampled_from(["1", "20", "500", "3000"])
_WORKING_KEYS = st.dictionaries(
    st.sampled_from(
        [f"{base}{ending}" for base in BASES if "iops" in base for ending in ("", "_max", "_per_gb", "_per_gb_min")]
        + ["total_iops_sec_max_length", "size_iops_sec"]
    ),
    _VALUES,
    min_size=1,
    max_size=6,
).filter(
    lambda keys: all(
        isinstance(evaluate(QosSpec(id="i", name="n", consumer="front-end", keys=keys), gib), Evaluation)
        for gib in _SIZES
    )
)
_SIZES = (1, 100)


_FIXED = {"total_iops_sec": "20", "total_iops_sec_max": "500"}


# Most sets of keys are impossible, and are left out: how many, is chance.
@settings(examples, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@example({"total_iops_sec_per_gb": "3000", "total_iops_sec_max": "20"}, {"total_iops_sec": "500"})
@example({"total_iops_sec_per_gb": "20", "total_iops_sec_max": "1"}, _FIXED)
@example({"total_iops_sec_per_gb": "20", "total_iops_sec_max": "20"}, _FIXED)
@example({"total_iops_sec": "1", "total_iops_sec_per_gb_min": "20"}, {"total_iops_sec_per_gb": "1"})
@example({"total_iops_sec": "500", "size_iops_sec": "1"}, {"read_iops_sec": "20"})
@given(_WORKING_KEYS, _WORKING_KEYS)
def test_while_a_spec_changes_it_is_never_impossible_nor_looser_than_before_and_after(
    before: Mapping[str, str | None], after: Mapping[str, str | None]
) -> None:
    # A minimum without its per-GB key is a slip that lint finds, and would need one more request.
    assume(all(key.removesuffix("_min") in after for key in after if key.endswith("_min")))
    # Cinder removes keys in any order.
    seen = [keys for seed in range(4) for keys in _states(before, Spec("gold", "front-end", after), seed)]
    for gib in _SIZES:
        then, now = (_evaluated(keys, gib) for keys in (before, after))
        for meanwhile in seen:
            most = [max(pair) for pair in zip(_rates(then), _rates(now), strict=True)]
            assert all(a <= b for a, b in zip(_rates(_evaluated(meanwhile, gib)), most, strict=True)), (
                meanwhile,
                gib,
            )


def _states(before: Mapping[str, str | None], after: Spec, seed: int = 0) -> list[Mapping[str, str | None]]:
    """The keys that a spec has had on the way, one for each time that Cinder committed."""
    cinder = FakeCinder(chance=random.Random(seed))
    spec = cinder.specs[cinder.spec(after.name, before, after.consumer)]["specs"]
    seen: list[Mapping[str, str | None]] = []
    cinder.between = lambda: seen.append(dict(spec))
    applied(Declaration({after.name: after}), cinder)
    return seen


def _evaluated(keys: Mapping[str, str | None], gib: int) -> Limits:
    found = evaluate(QosSpec(id="i", name="n", consumer="front-end", keys=keys), gib)
    assert isinstance(found, Evaluation), (keys, found)
    return found.limits


def test_a_spec_of_the_storage_has_no_zeros_until_then() -> None:
    seen = _states({"total_iops_sec": "5"}, Spec("gold", "back-end", {"minIOPS": "1"}))
    assert seen == [{"total_iops_sec": "5", "minIOPS": "1"}, {"minIOPS": "1"}]


def test_a_type_that_moves_is_without_a_spec_for_one_request_only() -> None:
    cinder = FakeCinder()
    cinder.type("gold", cinder.spec("old", {}))
    cinder.spec("new", {})
    assert applied(declared({"old": {}, "new": {}}, {"gold": "new"}), cinder) == [
        StepResult(Associate("gold", "new", "old"), How.DONE)
    ]
    assert [one.rpartition("/")[2] for one in cinder.writes()] == ["disassociate", "associate"]
    assert has(cinder) == {"gold": "new"}


# --- the order


def test_a_type_gets_its_spec_when_that_is_whole_and_loses_one_last() -> None:
    cinder = FakeCinder()
    cinder.type("bare", cinder.spec("old", {}))
    cinder.type("moves", cinder.spec("silver", {"total_iops_sec": "1"}))
    cinder.spec("idle", {})
    desired = declared(
        {"gold": {"total_iops_sec": "5"}, "silver": {}}, {"bare": None, "moves": "gold", "new": "silver"}
    )
    kinds = [type(step).__name__ for step in planned(desired, cinder, prune=True)]
    assert kinds == [
        "CreateSpec",
        "ChangeSpec",
        "CreateType",
        *["Associate"] * 2,
        "Disassociate",
        *["DeleteSpec"] * 2,
    ]


# --- what Cinder refuses


def refusing(part: str, error: Exception) -> Callable[[str, str], None]:
    def before(method: str, path: str) -> None:
        if part in f"{method} {path}":
            raise error

    return before


def test_a_refused_move_gives_the_old_spec_back() -> None:
    cinder = FakeCinder()
    cinder.type("gold", cinder.spec("old", {}))
    new = cinder.spec("new", {})
    cinder.before = refusing(f"{new}/associate", Refused("no", 400))
    (taken,) = applied(declared({"old": {}, "new": {}}, {"gold": "new"}), cinder)
    assert (taken.how, taken.detail) == (How.REFUSED, "no")
    assert has(cinder) == {"gold": "old"}


@pytest.mark.parametrize("error", [DeadlineExceeded("no answer"), Unreachable("gone"), Refused("no", 400)])
def test_a_move_that_may_have_left_a_type_without_a_spec_says_so_and_is_finished_by_the_next_run(
    error: Exception,
) -> None:
    cinder = FakeCinder()
    cinder.type("gold", cinder.spec("old", {}))
    cinder.spec("new", {})
    desired = declared({"old": {}, "new": {}}, {"gold": "new"})
    cinder.before = refusing("/associate", error)
    (taken,) = applied(desired, cinder)
    assert taken.how is not How.DONE
    assert "QoS spec" in taken.detail
    assert has(cinder) == {"gold": None}
    cinder.before = lambda method, path: None
    applied(desired, cinder)
    assert has(cinder) == {"gold": "new"}


def test_what_needs_a_refused_step_is_not_tried_and_nothing_is_deleted_but_the_rest_is_done() -> None:
    cinder = FakeCinder()
    cinder.type("other", cinder.spec("idle", {}))
    cinder.before = refusing("POST /qos-specs", Refused("no", 409))
    taken = applied(declared({"gold": {}}, {"gold": "gold", "other": None}), cinder, prune=True)
    assert [(type(one.step).__name__, one.how) for one in taken] == [
        ("CreateSpec", How.REFUSED),
        ("CreateType", How.DONE),
        ("Associate", How.NOT_TRIED),
        ("Disassociate", How.DONE),
        ("DeleteSpec", How.NOT_TRIED),
    ]


def test_cinders_own_default_type_stays_also_where_the_project_has_another() -> None:
    cinder = FakeCinder()
    for name in ("__DEFAULT__", "gold"):
        cinder.type(name, None)
    assert planned(declared({}, {}), cinder, prune=True) == (DeleteType("gold"),)


@pytest.mark.parametrize("force", [False, True])
def test_the_spec_of_a_default_type_stays_with_it(force: bool) -> None:
    """Else volumes without a chosen type would be attached without limits."""
    cinder = FakeCinder()
    cinder.type("__DEFAULT__", cinder.spec("basic", {"total_iops_sec": "5"}))
    cinder.default = cinder.type("own", cinder.spec("own", {}))
    cinder.spec("idle", {})
    taken = applied(declared({}, {}), cinder, prune=True, force=force)
    assert [(one.step, one.how) for one in taken] == [(DeleteSpec("idle", force), How.DONE)]
    assert has(cinder) == {"__DEFAULT__": "basic", "own": "own"}


def test_no_type_is_given_a_spec_that_still_has_other_limits_than_the_plan_has_shown() -> None:
    cinder = FakeCinder()
    cinder.type("silver", cinder.spec("std", {"total_iops_sec": "1000"}))
    cinder.spec("burst", {"total_iops_sec": "20"})
    cinder.before = refusing("PUT /qos-specs", Refused("server error", 500))
    desired = declared({"std": {"total_iops_sec": "1000"}, "burst": {"total_iops_sec": "2000"}}, {"silver": "burst"})
    taken = applied(desired, cinder)
    assert [(type(one.step).__name__, one.how) for one in taken] == [
        ("ChangeSpec", How.REFUSED),
        ("Associate", How.NOT_TRIED),
    ]
    assert taken[1].detail == "its QoS spec could not be changed"
    assert has(cinder) == {"silver": "std"}


@pytest.mark.parametrize("error", [Unreachable("gone"), DeadlineExceeded("no answer within 60 s")])
def test_without_cinder_no_more_is_tried(error: Exception) -> None:
    cinder = FakeCinder()
    cinder.before = refusing("POST", error)
    taken = applied(declared({"a": {}, "b": {}}, {"t": "a"}), cinder)
    assert [one.how for one in taken[1:]] == [How.NOT_TRIED] * 3
    assert len(cinder.writes()) == 1


def test_a_type_that_volumes_have_keeps_its_spec_unless_forced() -> None:
    cinder = FakeCinder()
    cinder.default = cinder.type("__DEFAULT__")
    cinder.type("gold", cinder.spec("gold", {}))
    cinder.volume("gold", 1)
    nothing = declared({}, {})
    taken = applied(nothing, cinder, prune=True)
    assert [(one.step, one.how) for one in taken] == [
        (DeleteType("gold"), How.REFUSED),
        (DeleteSpec("gold", force=False), How.REFUSED),
    ]
    assert has(cinder)["gold"] == "gold"
    assert [one.how for one in applied(nothing, cinder, prune=True, force=True)] == [How.REFUSED, How.DONE]
    assert has(cinder)["gold"] is None


# --- what is no plan


def test_a_spec_that_no_volume_could_be_attached_with_is_named() -> None:
    desired = declared(
        {
            "both": {"total_iops_sec": "5", "read_iops_sec": "5"},
            "null": {"total_iops_sec_per_gb": None},
            # At 1 GiB the total is 0, which is no limit, and excludes nothing.
            "later": {"total_iops_sec_per_gb": str(10**13)},
            "good": {"total_iops_sec": "5"},
        },
        {},
    )
    found = qos_plan.impossible(planned(desired, FakeCinder()))
    assert {one.reason.facts["spec"] for one in found} == {"both", "null", "later"}
    assert {one.reason.code for one in found} == {Code.QOS_SPEC_UNREADABLE}


def test_a_spec_for_the_storage_alone_is_never_impossible() -> None:
    steps = planned(
        Declaration({"s": Spec("s", "back-end", {"total_iops_sec": "5", "read_iops_sec": "5"})}), FakeCinder()
    )
    assert qos_plan.impossible(steps) == ()


def test_two_specs_of_a_name_are_refused_with_their_ids() -> None:
    cinder = FakeCinder()
    ids = [cinder.spec("gold", {}), cinder.spec("gold", {})]
    with pytest.raises(Rejected, match=f"two QoS specs named gold \\({ids[0]} and {ids[1]}\\)"):
        qos_cinder.read(cinder)


def test_a_policy_that_hides_the_association_is_named() -> None:
    cinder = FakeCinder(hidden=frozenset({"qos_specs_id"}))
    cinder.type("gold")
    with pytest.raises(Rejected, match="volume_extension:access_types_qos_specs_id"):
        qos_cinder.read(cinder)


def test_private_types_and_all_pages_are_read() -> None:
    cinder = FakeCinder(page=2)
    for number in range(5):
        cinder.spec(f"s{number}", {})
        cinder.type(f"t{number}", is_public=False)
        cinder.volume(f"t{number}", number)
    live = qos_cinder.read(cinder)
    assert (len(live.specs), len(live.types), len(qos_cinder.attached_volumes(cinder))) == (5, 5, 5)


def test_an_answer_of_something_else_is_told_in_a_line() -> None:
    cinder = FakeCinder()
    cinder.types["x"] = {"id": "x", "name": None, "qos_specs_id": None, "extra_specs": {}, "is_public": True}
    with pytest.raises(Rejected, match=r"^Cinder: its answer to /types cannot be read: None is not a name$"):
        qos_cinder.read(cinder)


def test_a_changed_spec_is_one_step_that_says_what_was_there() -> None:
    cinder = FakeCinder()
    cinder.spec("gold", {"total_iops_sec": "3000", "typo": "1"}, "both")
    (step,) = planned(declared({"gold": {"read_iops_sec": "5"}}, {}), cinder)
    assert isinstance(step, ChangeSpec)
    assert (step.put, step.unset, step.before.consumer, step.after.consumer) == (
        {"read_iops_sec": "5"},
        ("total_iops_sec", "typo"),
        "both",
        "front-end",
    )


def test_a_new_spec_and_type_come_with_all_they_have() -> None:
    desired = Declaration(
        {"gold": Spec("gold", "front-end", {"total_iops_sec": "5"})},
        {
            "gold": DeclaredType(
                name="gold",
                qos_spec=None,
                description="fast",
                public=False,
                extra_specs={"volume_backend_name": "rbd"},
            )
        },
    )
    assert planned(desired, FakeCinder()) == (CreateSpec(desired.specs["gold"]), CreateType(desired.types["gold"]))
