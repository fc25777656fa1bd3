"""The words and the data of plans of QoS specs."""

from __future__ import annotations

import pytest

from plimsoll_agent.catalogue.qosspec import QosSpec
from plimsoll_agent.messages.disk_lines import Manner
from plimsoll_agent.messages.lines import Severity
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.qos import messages as words
from plimsoll_agent.qos import plan as qos_plan
from plimsoll_agent.qos import serialize
from plimsoll_agent.qos.apply import How, StepResult
from plimsoll_agent.qos.cinder import Live, LiveType
from plimsoll_agent.qos.effects import TypeEffect, VolumeChange
from plimsoll_agent.qos.file import Declaration, DeclaredType, Spec, parse
from plimsoll_agent.qos.plan import DeleteSpec, DeleteType, Step
from plimsoll_agent.qos.review import review
from tests import schemas

LIVE = Live(
    specs={
        "silver": QosSpec(id="i1", name="silver", consumer="both", keys={"total_iops_sec": "3000", "typo": None}),
        "idle": QosSpec(id="i2", name="idle", consumer="front-end", keys={}),
    },
    types={
        "gold": LiveType(
            id="t1", name="gold", qos_spec="silver", description="", public=True, extra_specs={"a": "1"}
        ),
        "bronze": LiveType(
            id="t2", name="bronze", qos_spec="silver", description="slow\n", public=True, extra_specs={}
        ),
        "old": LiveType(id="t3", name="old", qos_spec=None, description="", public=True, extra_specs={}),
        "__DEFAULT__": LiveType(
            id="t4", name="__DEFAULT__", qos_spec=None, description="", public=True, extra_specs={}
        ),
    },
    default="__DEFAULT__",
)
DESIRED = Declaration(
    specs={
        "gold": Spec("gold", "front-end", {"total_iops_sec": "5", "note": ""}),
        "silver": Spec("silver", "front-end", {"total_iops_sec": "30", "read_bytes_sec": None}),
    },
    types={
        "gold": DeclaredType(name="gold", qos_spec="gold", description="fast", public=False, extra_specs={"b": "2"}),
        "bronze": DeclaredType(name="bronze", qos_spec=None, description="", public=None),
        "new": DeclaredType(
            name="new", qos_spec="silver", description="new one", public=False, extra_specs={"x": "y"}
        ),
    },
)
STEPS = qos_plan.plan(DESIRED, LIVE, prune=True, force=True)


def test_each_step_is_a_line() -> None:
    assert [words.step_line(step).text for step in STEPS] == [
        '+ QoS spec gold  front-end: total_iops_sec 5, note ""',
        "~ QoS spec silver  consumer both → front-end, total_iops_sec 3000 → 30, typo null removed",
        '~ volume type bronze  description "slow?" → ""',
        '~ volume type gold  description "" → "fast", public → private',
        "~ volume type gold  b 2 added, a 1 removed",
        '+ volume type new  private, "new one", x y',
        "~ volume type gold  QoS spec silver → gold",
        "~ volume type new  QoS spec none → silver",
        "~ volume type bronze  QoS spec silver → none",
        "- volume type old",
        "- QoS spec idle  even though a volume type has it",
    ]
    told = {words.step_line(step).text[0]: words.step_line(step).severity for step in STEPS}
    assert told == {"+": Severity.SET, "~": Severity.LOWERED, "-": Severity.CUT}, "the last of its sign"
    assert words.plan_sum(STEPS) == "Plan: 2 to create, 7 to change, 2 to delete."


def test_each_step_is_data_with_its_own_name() -> None:
    told = [serialize.step_data(step) for step in STEPS]
    assert len({str(one["do"]) for one in told}) == 9
    for one in [*told, *(serialize.taken_data(StepResult(step, How.REFUSED, "in use")) for step in STEPS)]:
        schemas.hold_part("qos-plan.json#/$defs/step", one)
    assert told[1] == {
        "do": "change-spec",
        "name": "silver",
        "consumer": "front-end",
        "set": {"total_iops_sec": "30"},
        "unset": ["typo"],
    }


@pytest.mark.parametrize(
    ("how", "detail", "expected"),
    [
        (How.DONE, "", "- volume type gold   done"),
        (How.REFUSED, "in use", "- volume type gold   not done: in use"),
        (How.TIMED_OUT, "no answer", "- volume type gold   no answer: result unknown"),
        (How.NOT_TRIED, "gone", "- volume type gold   not tried: gone"),
    ],
)
def test_the_result_of_a_step_stands_behind_it(how: How, detail: str, expected: str) -> None:
    assert words.taken_line(StepResult(DeleteType("gold"), how, detail)).text == expected


def test_the_type_that_loses_most_comes_first_and_bytes_are_exact_on_request() -> None:
    half, all_of_it, tenth = (Limits(total_bytes_sec=number * 2**20) for number in (45, 100, 10))
    effects = [
        TypeEffect(type="raised", changed=1, unchanged=0, median=VolumeChange(1, half, all_of_it)),
        TypeEffect(type="halved", changed=1, unchanged=0, median=VolumeChange(1, all_of_it, half)),
        TypeEffect(type="cut", changed=1, unchanged=0, median=VolumeChange(1, all_of_it, tenth)),
    ]
    told = list(words.effect_lines(effects, Manner()))
    assert [(line.text.split(":")[0], line.severity) for line in told] == [
        ("cut", Severity.CUT),
        ("halved", Severity.LOWERED),
        ("raised", Severity.PLAIN),
    ]
    assert told[0].text.endswith("one of 1 GiB: 100 MiB/s → 10 MiB/s (to 10 %)")
    (exact,) = words.effect_lines(effects[2:], Manner(exact=True))
    assert exact.text.endswith("total_bytes_sec 104857600 → 10485760 (to 10 %)")


IDLE = TypeEffect(type="idle", changed=0, unchanged=0, median=None)


def effect(changed: int, unchanged: int, before: Limits | Unknown | None, after: Limits | Unknown | None) -> str:
    refused = changed if isinstance(after, Unknown) else 0
    effects = [
        TypeEffect(
            type="gold",
            changed=changed,
            unchanged=unchanged,
            median=VolumeChange(100, before, after),
            refused=refused,
        ),
        IDLE,
    ]
    (line,) = words.effect_lines(effects, Manner())
    return line.text


def test_an_effect_is_a_line_with_the_change_of_one_volume() -> None:
    few, many = Limits(total_iops_sec=30), Limits(total_iops_sec=3000)
    unusable = Unknown(because(Code.QOS_SPEC_UNREADABLE, spec="gold", detail="x is null"))
    assert [
        effect(812, 12, many, few),
        effect(1, 1, few, None),
        effect(2, 0, few, Limits()),
        effect(2, 0, few, unusable),
        *(
            line.text
            for line in words.effect_lines([TypeEffect(type="gold", changed=0, unchanged=3, median=None)], Manner())
        ),
        *(line.text for line in words.effect_lines([IDLE], Manner())),
        *words.effect_lines([], Manner()),
    ] == [
        "gold: 812 attached volumes change, 12 do not; one of 100 GiB: 3000 → 30 IOPS (to 1 %)",
        "gold: 1 attached volume changes, 1 does not; one of 100 GiB: 30 IOPS → no QoS spec for Nova",
        "gold: 2 attached volumes change; one of 100 GiB: 30 IOPS → unlimited (removed)",
        "gold: 2 attached volumes change; one of 100 GiB: 30 IOPS → invalid QoS spec gold: x is null;"
        " 2 of them keep their limits: the new ones are invalid",
        "gold: 3 attached volumes, and none changes",
        "No attached volume changes: none is of these types.",
    ]


def test_what_is_left_alone_is_named_and_why() -> None:
    default = "Kept: 1 volume type (__DEFAULT__); default types and their QoS specs are never deleted."
    assert [*words.undeclared_lines(DESIRED, LIVE, prune=False)] == [
        "Kept: 1 volume type (old) and 1 QoS spec (idle); not in the file; --prune deletes them.",
        default,
    ]
    assert [*words.undeclared_lines(DESIRED, LIVE, prune=True)] == [default]
    assert [*words.undeclared_lines(LIVE.declared(), LIVE, prune=False)] == []


def test_the_last_line_says_how_much_was_done_and_is_left() -> None:
    step: Step = DeleteSpec("x", force=False)
    taken = [StepResult(step, How.DONE), StepResult(step, How.REFUSED, "no")]
    assert words.result_line(taken, 3, (step,)) == "1 of 3 steps done; 1 left: see plimsoll qos plan."
    assert words.result_line(taken[:1], 1, ()) == "1 of 1 step done; Cinder matches the file."
    assert words.result_line(taken, 3, None) == "1 of 3 steps done."


def test_a_review_finds_faults_of_specs_and_what_hangs_in_the_air_with_lines() -> None:
    file = parse(
        "qos_specs:\n  gold:\n    consumer: front-end\n    keys:\n      total_iop_sec: 5\n  idle:\n"
        "    consumer: back-end\n    keys: {}\nvolume_types:\n  gold: {qos_spec: gold}\n  bare: {qos_spec: none}\n",
        "qos.yaml",
    )
    found = list(review(file.declared))
    assert [(file.line_of(one.path), one.severity, words.finding_words(one)) for one in found] == [
        (
            5,
            "error",
            'QoS spec "gold", total_iop_sec: unknown key, it does nothing; did you mean total_iops_sec?',
        ),
        (7, "error", words.finding_words(found[1])),
        (11, "warning", 'volume type "bare": has no QoS spec, so Cinder limits none of its volumes'),
        (6, "warning", 'QoS spec "idle": no volume type has it, so it limits nothing'),
    ]
    assert words.review_sum(file.declared, found) == "2 QoS specs and 2 volume types, 2 errors, 2 warnings"
    told = serialize.finding_data(found[2], "qos.yaml", 11)
    assert (told["code"], told["volume_type"], told["qos_spec"]) == ("type-without-spec", "bare", None)
