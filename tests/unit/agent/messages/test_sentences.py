"""Words: every code has some, what people read stands in data/words.txt, and no name can speak to a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import plimsoll_agent
from plimsoll_agent.catalogue.model import Catalogue
from plimsoll_agent.messages import sentences
from plimsoll_agent.messages.disk_lines import Manner
from plimsoll_agent.messages.plan import plan_lines
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.hypervisor import GuestRef
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Reason, Unknown, because
from plimsoll_agent.policy.decide import Answer, Decision, Desired, NoOpinion, Step, Unmanaged
from plimsoll_agent.policy.diff import change_between
from plimsoll_agent.reconcile.outcome import Braked, Kind, Outcome, PassReport, Result, UnreachableGuest
from plimsoll_agent.util.frozen import replace
from plimsoll_agent.util.text import ago, printable
from tests.unit import outcomes, told
from tests.unit.manydisks import a_pass_over
from tests.unit.values import GUEST, NOON, a_disk, a_guest, a_situation, golden

WORDS = Path(__file__).parents[2] / "data" / "words.txt"
SOURCE = Path(plimsoll_agent.__file__).parent

IOPS = Limits(total_iops_sec=250)
NODE = Limits(total_iops_sec=250, total_bytes_sec=104857600)
DEFAULT, RULE = because(Code.NODE_DEFAULT), because(Code.RULE, rule="gold racks")
EXEMPT = because(Code.RULE_UNMANAGES, rule="gold racks")
FOREIGN = because(Code.FOREIGN_LIMIT, limits={"total_iops_sec": 3000})
SILENCE = because(Code.TIMED_OUT, detail="no answer from QEMU within 5 s")
IMPOSSIBLE = because(Code.IMPOSSIBLE, detail="total_iops_sec and read_iops_sec exclude each other; remove one")
HELD = because(Code.HOLD, why="import runs", by="ann", until="2026-11-20T14:30:00+00:00")
STOPPED = because(Code.BRAKED, revision="4f21c8", disks=8, of=30)
FIXED: Mapping[str, object] = {"type": "gold", "spec": "gold-iops", "consumer": "front-end"}
TOTAL = {"parameter": "total_iops_sec", "per_gb": 30, "gib": 100, "minimum": 500, "maximum": None, "result": 3000}
BYTES = {
    "parameter": "total_bytes_sec",
    "per_gb": 2097152,
    "gib": 100,
    "group": "tenant",
    "minimum": None,
    "maximum": 104857600,
    "result": 104857600,
}
PER_GIB: Mapping[str, Any] = {**FIXED, "gib": 100, "arithmetic": [TOTAL]}
UNWELL = because(Code.CLUSTER_UNHEALTHY, cluster="bcebd1ee", checks="OSD_DOWN, SLOW_OPS")


# --- outcomes, one disk after the other


class Disks:
    """Makes outcomes for vda, vdb, vdc … of one guest."""

    def __init__(self) -> None:
        self._letters = iter("abcdefghijklmnopqrstuvwxyz")

    def changing(self, before: Limits, after: Limits, cause: Code, result: Result | Reason = DEFAULT) -> Outcome:
        if isinstance(result, Reason):
            return outcomes.planned(self._disk(before), after, result, cause)
        return outcomes.planned(self._disk(before), after, DEFAULT, cause, result=result)

    def staying(self, kind: Kind, reason: Reason, *, drifted: bool = False, limits: Limits = IOPS) -> Outcome:
        disk = replace(self._disk(limits), defined=NODE if drifted else limits)
        answer = Desired(IOPS, reason) if kind is Kind.IN_SYNC else Unmanaged(reason)
        return outcomes.staying(disk, answer, kind, reason)

    def _disk(self, actual: Limits) -> Disk:
        return a_disk(target=f"vd{next(self._letters)}", actual=actual)


a_pass = partial(outcomes.a_pass, seconds=1.5)


def braked(*outcomes: Outcome, of: int, catalogue: str | None = None, **number: int) -> PassReport:
    keys = frozenset(str(n) for n in range(sum(number.values())))
    counts = {"removed": 0, "raised": 0, "lowered": 0} | number
    left = (0.01,) if counts["lowered"] else ()
    return replace(
        a_pass(*outcomes),
        braked=Braked(revision="4f21c8", catalogue=catalogue, keys=keys, of=of, **counts, left=left),
    )


def unreachable(number: int, reason: Reason) -> UnreachableGuest:
    return UnreachableGuest(
        GuestRef(f"0000000{number}-0000-4000-8000-000000000000", f"instance-0000000{number}"), reason
    )


# --- the golden file


def planned() -> list[str]:
    disks = Disks()
    outcomes = [
        disks.changing(Limits(), NODE, Code.NEVER_LIMITED),
        disks.changing(Limits(total_iops_sec=500), Limits(total_iops_sec=3000), Code.DESIRED_CHANGED, RULE),
        disks.changing(Limits(total_iops_sec=9999), IOPS, Code.CHANGED_OVER_QMP),
        disks.changing(Limits(total_iops_sec=100, total_iops_sec_max=200), IOPS, Code.EXTERNAL_CHANGE),
        disks.changing(Limits(total_iops_sec=3000), Limits(), Code.DESIRED_CHANGED, RULE),
        disks.changing(
            Limits(total_iops_sec=500),
            Limits(read_iops_sec=300, group_name="both"),
            Code.NEVER_LIMITED,
            because(Code.COMMAND_LINE),
        ),
        disks.staying(Kind.IN_SYNC, DEFAULT),
        disks.staying(Kind.LEFT_ALONE, EXEMPT),
        disks.staying(Kind.LEFT_ALONE, FOREIGN),
        disks.staying(Kind.LEFT_ALONE, FOREIGN),
    ]
    return told.planned(a_pass(*outcomes))


def planned_with_trouble() -> list[str]:
    unreadable = because(Code.UNREADABLE_XML, detail="no element found: line 1, column 0")
    outcome = Disks().staying(Kind.UNKNOWN, SILENCE)
    return told.planned(a_pass(outcome, unreachable=(unreachable(8, unreadable),)))


def enforced() -> list[str]:
    disks = Disks()
    results = [
        Result(Kind.CHANGED, DEFAULT, 0.0062),
        Result(Kind.FAILED, because(Code.REJECTED, detail="QEMU says no")),
        Result(Kind.UNKNOWN, SILENCE),
        Result(Kind.FAILED, because(Code.READ_BACK_DIFFERS, actual={"total_iops_sec": 1})),
        Result(Kind.FAILED, because(Code.READ_BACK_DIFFERS, actual={})),
        Result(Kind.FAILED, because(Code.GUEST_TIMED_OUT)),
        Result(Kind.LEFT_ALONE, because(Code.ANOTHER_DISK, target="vdg", now="volume-7")),
        Result(Kind.LEFT_ALONE, because(Code.ANOTHER_DISK, target="vdh", now=None)),
        Result(Kind.LEFT_ALONE, because(Code.MIGRATING)),
        Result(Kind.LEFT_ALONE, because(Code.NO_RECORD)),
        Result(Kind.LEFT_ALONE, because(Code.NOT_FOUND, detail="the guest has stopped")),
    ]
    outcomes = [disks.changing(Limits(), IOPS, Code.NEVER_LIMITED, result) for result in results]
    outcomes.append(disks.staying(Kind.LEFT_ALONE, because(Code.NO_LIMIT)))
    hidden = (
        unreachable(8, because(Code.NOT_READ, detail="OSError('?')")),
        unreachable(9, because(Code.NOT_FOUND, detail="the guest is gone")),
    )
    note = because(Code.NO_RECORD, detail="/var/lib/plimsoll/memory.json: No space left on device")
    return told.enforced(a_pass(*outcomes, unreachable=hidden, notes=(note,)))


PAUSED = because(Code.PAUSED, file="/etc/plimsoll/paused", why="moving racks (by ann, 2026-11-20 11:02 UTC)")


def deferred() -> list[str]:
    """What a pass says that made nothing of what it planned."""
    disks = Disks()
    reasons = [
        PAUSED,
        UNWELL,
        because(Code.CLUSTER_UNREACHABLE, cluster="bcebd1ee", detail="no answer from ceph within 10 s"),
        because(Code.CLUSTER_UNKNOWN, monitors="10.0.0.1:6789, 10.0.0.2:6789"),
        because(Code.CLUSTER_UNKNOWN, monitors=""),
        because(Code.REVERTED_TOO_OFTEN, rounds=5),
        because(Code.REVERTED_TOO_OFTEN, rounds=1),
    ]
    outcomes = [
        disks.changing(IOPS, Limits(), Code.DESIRED_CHANGED, Result(Kind.DEFERRED, reason)) for reason in reasons
    ]
    outcomes.append(disks.staying(Kind.LEFT_ALONE, HELD))
    return told.enforced(replace(a_pass(*outcomes), paused=PAUSED))


def stopped() -> list[str]:
    """What a pass says that was braked: the commonest changes, and how to go on."""
    disks = Disks()
    rules = [because(Code.RULE, rule=f"rack {number}") for number in range(7)]
    wait = Result(Kind.DEFERRED, STOPPED)
    outcomes = []
    for rule in (*rules, rules[6], rules[6], rules[3]):
        outcome = disks.changing(Limits(total_iops_sec=3000), Limits(total_iops_sec=30), Code.DESIRED_CHANGED, wait)
        assert outcome.change is not None
        outcomes.append(replace(outcome, change=replace(outcome.change, reason=rule)))
    outcomes.append(disks.changing(Limits(), NODE, Code.NEVER_LIMITED, Result(Kind.CHANGED, DEFAULT, 0.0062)))
    return told.enforced(braked(*outcomes, of=40, lowered=10, raised=3, removed=1))


def stopped_alone() -> list[str]:
    """What a pass says of disks that are deferred each for itself; the last two have no change in its report."""
    disks, digest = Disks(), "08c2e6f1a9b3d750" * 4
    cut = because(Code.LARGE_CHANGE, digest=digest, percent=1.0)
    removal = because(Code.LARGE_CHANGE, digest=digest[1:] + "0", percent=None)
    group = because(Code.GROUP_WITHHELD, target="vda", group="g", because=cut.as_record())
    wait = [(Limits(total_iops_sec=3), cut), (Limits(), removal), (Limits(total_iops_sec=200), group)]
    outcomes = [
        disks.changing(IOPS, after, Code.DESIRED_CHANGED, Result(Kind.DEFERRED, reason)) for after, reason in wait
    ]
    outcomes = [replace(o, disk=replace(o.disk, volume_id=str(number))) for number, o in enumerate(outcomes)]
    silent = disks.staying(Kind.UNKNOWN, SILENCE)
    key = f"{silent.disk.guest.uuid}/elsewhere"
    elsewhere = replace(silent.disk.named, key=key, guest_name="instance-00000009", target="vdb")
    alone = {outcome.disk.key: outcome.result.reason for outcome in outcomes[:2]}
    later = replace(cut, facts={**cut.facts, "from": "2026-11-23T06:00:00+00:00"})
    alone |= {silent.disk.key: later, elsewhere.key: removal}
    stop = Braked(
        revision="4f21c8" * 6,
        catalogue=None,
        keys=frozenset(alone),
        of=30,
        removed=2,
        raised=0,
        lowered=2,
        many=False,
        alone=alone,
        left=(0.01, 0.012),
        named={silent.disk.key: silent.disk.named, elsewhere.key: elsewhere},
    )
    return told.enforced(replace(a_pass(*outcomes, silent), braked=stop))


def stopped_plan() -> list[str]:
    outcome = Disks().changing(IOPS, Limits(), Code.DESIRED_CHANGED, Result(Kind.DEFERRED, STOPPED))
    return told.planned(braked(outcome, of=30, removed=8, catalogue="0a1b2c"))


def reasons_for_limits() -> list[str]:
    """Why limits are desired: what stands behind a change, and in the record."""
    why = {"why": "contract 7", "rule": "gold racks"}
    return [
        sentences.words(reason)
        for reason in (
            HELD,
            because(Code.HOLD_ENDED),
            because(Code.RULE, **why),
            because(Code.RULE_UNMANAGES, **why),
            because(Code.NODE_DEFAULT, ceiling="night"),
            because(Code.RULE, **why, floor="least", ceiling="night"),
            because(Code.QOS_SPEC, **PER_GIB),
            because(Code.QOS_SPEC, **{**PER_GIB, "arithmetic": [TOTAL, BYTES]}, ceiling="night"),
            because(Code.QOS_SPEC, **FIXED),
            because(Code.FLAVOR, flavor="m1.large"),
            because(Code.APPROVED, revision="4f21c8", why="as agreed"),
            because(Code.APPROVED, revision="4f21c8", why=""),
            because(Code.OPERATOR, why="moving racks"),
            because(Code.RELEASED, type="gold"),
            because(Code.RELEASED),
        )
    ]


def noted() -> list[str]:
    """What is wrong with the files of the state."""
    codes = (
        Code.MEMORY_SET_ASIDE,
        Code.APPROVAL_SET_ASIDE,
        Code.RECORD_SET_ASIDE,
        Code.NO_RECORD,
        Code.NO_RESULTS,
        Code.NOT_REMEMBERED,
        Code.SAVINGS_NOT_KEPT,
        Code.NOT_SETTLED,
        Code.ATTACHMENTS_NOT_WRITTEN,
        Code.NO_CATALOGUE,
        Code.CATALOGUE_UNREADABLE,
        Code.CATALOGUE_EXPIRED,
        Code.CATALOGUE_STALE,
    )
    notes = tuple(because(code, detail="/var/lib/plimsoll/x: is corrupt") for code in codes)
    return told.enforced(a_pass(notes=notes))


# All facts that any sentence has. With which of them the program gives a code is held in conftest.
FACTS: Mapping[str, object] = {
    "class": "ssd",
    "x": 0.73,
    "ceilings": [{"whose": "project", "owner": "p", "rule": "databases"}],
    "ends": False,
    "arithmetic": [TOTAL],
    "because": {"code": "no-limit"},
    "by": "ann",
    "checks": "OSD_DOWN",
    "cluster": "bcebd1ee",
    "consumer": "back-end",
    "detail": "what was said",
    "digest": "4f21c8a09b3d5e67" * 4,
    "disks": 8,
    "revision": "4f21c8",
    "file": "/etc/plimsoll/paused",
    "flavor": "m1.large",
    "gib": 100,
    "group": "tenant",
    "guest": "instance-00000003",
    "groups": {"guest": {"total_iops_sec": 300}, "gone": None},
    "id": "t-7",
    "actual": {"total_iops_sec": 1},
    "limits": {"total_iops_sec": 3000},
    "monitors": "10.0.0.1:6789",
    "obstacle": "there is no total_iops_sec",
    "of": 30,
    "rounds": 5,
    "percent": 0.1,
    "refreshes": 2,
    "rule": "gold racks",
    "since": NOON.isoformat(),
    "spec": "gold-iops",
    "target": "vdb",
    "type": "gold",
    "until": NOON.isoformat(),
    "versions": "libvirt 9.0.0 and QEMU 7.2.22",
    "whose": "guest",
    "why": "racks move",
    "word": "project",
}


def every_code() -> list[str]:
    return [f"{code}: {sentences.words(because(code, **FACTS))}" for code in Code]


def states() -> list[str]:
    disks = Disks()
    outcomes = [
        disks.staying(Kind.IN_SYNC, DEFAULT),
        disks.staying(Kind.IN_SYNC, DEFAULT, drifted=True),
        disks.changing(Limits(), IOPS, Code.NEVER_LIMITED),
        disks.changing(NODE, IOPS, Code.NEVER_LIMITED),
        disks.changing(NODE, IOPS, Code.DESIRED_CHANGED),
        disks.changing(NODE, IOPS, Code.EXTERNAL_CHANGE),
        disks.changing(Limits(), IOPS, Code.CHANGED_OVER_QMP),
        disks.staying(Kind.LEFT_ALONE, because(Code.NO_LIMIT), limits=Limits()),
        disks.staying(Kind.LEFT_ALONE, because(Code.NO_LIMIT), limits=Limits(), drifted=True),
        disks.staying(Kind.LEFT_ALONE, because(Code.NO_LIMIT)),
        disks.staying(Kind.LEFT_ALONE, EXEMPT),
        disks.staying(Kind.LEFT_ALONE, FOREIGN),
        disks.staying(Kind.LEFT_ALONE, because(Code.INCOMING)),
        disks.staying(Kind.LEFT_ALONE, IMPOSSIBLE),
        disks.staying(Kind.UNKNOWN, SILENCE),
        disks.staying(Kind.IN_SYNC, HELD),
        disks.staying(Kind.IN_SYNC, HELD, drifted=True),
        disks.staying(Kind.LEFT_ALONE, HELD),
        disks.changing(NODE, IOPS, Code.DESIRED_CHANGED, HELD),
        disks.changing(NODE, IOPS, Code.DESIRED_CHANGED, Result(Kind.DEFERRED, STOPPED)),
        disks.changing(NODE, IOPS, Code.DESIRED_CHANGED, Result(Kind.DEFERRED, UNWELL)),
        disks.changing(
            NODE, IOPS, Code.DESIRED_CHANGED, Result(Kind.DEFERRED, because(Code.REVERTED_TOO_OFTEN, rounds=5))
        ),
    ]
    return [sentences.state_words(outcome) for outcome in outcomes]


def answers() -> list[str]:
    said: list[Answer] = [
        NoOpinion(because(Code.RULE_DOES_NOT_MATCH, word="project")),
        NoOpinion(because(Code.NO_DEFAULT)),
        NoOpinion(because(Code.NO_LIMIT)),
        Desired(NODE, DEFAULT),
        Desired(Limits(), RULE),
        Unmanaged(EXEMPT),
        Unmanaged(FOREIGN),
        Unknown(IMPOSSIBLE),
        NoOpinion(because(Code.RULE_ENDED, until="2026-11-20T12:00:00+00:00")),
        NoOpinion(because(Code.RULE_WITHOUT_LIMITS)),
        Unknown(because(Code.CLUSTER_UNKNOWN, monitors="10.0.0.1:6789")),
        Unmanaged(HELD),
        Desired(NODE, because(Code.HOLD_ENDED)),
    ]
    return [sentences.answer_words(answer) for answer in said]


def sources() -> list[str]:
    """What Cinder and the flavor answered, as ``disk explain`` has it; what is reckoned takes some lines."""
    situation = replace(a_situation(), catalogue=Catalogue(1, NOON - timedelta(minutes=3), "north"))
    met = {"since": "2026-11-20T09:14:00+00:00"}
    cinder: list[Answer] = [
        Desired(Limits(total_iops_sec=3000), because(Code.QOS_SPEC, **PER_GIB)),
        Desired(
            Limits(total_iops_sec=3000, total_bytes_sec=104857600),
            because(Code.QOS_SPEC, **{**PER_GIB, "arithmetic": [TOTAL, BYTES]}),
        ),
        Desired(Limits(), because(Code.QOS_SPEC, **FIXED)),
        NoOpinion(because(Code.NO_VOLUME)),
        NoOpinion(because(Code.NO_CATALOGUE_SOURCE)),
        NoOpinion(because(Code.NO_VOLUME_TYPE)),
        NoOpinion(because(Code.NO_QOS_SPEC, type="gold")),
        NoOpinion(because(Code.SPEC_FOR_BACK_END, type="gold", spec="gold-iops", consumer="back-end")),
        NoOpinion(because(Code.SPEC_WITHOUT_LIMITS, **FIXED)),
        Unknown(because(Code.NO_CATALOGUE, detail="?")),
        Unknown(because(Code.CATALOGUE_UNREADABLE, detail="?")),
        Unknown(because(Code.CATALOGUE_EXPIRED, detail="?")),
        Unknown(because(Code.VOLUME_NOT_FETCHED, **met)),
        Unknown(because(Code.VOLUME_MISSING)),
        Unknown(because(Code.TYPE_NOT_LISTED, id=GUEST)),
        Unknown(because(Code.SPEC_HIDDEN, type="gold")),
        Unknown(because(Code.SPEC_NOT_LISTED, type="gold", id=GUEST)),
        Unknown(because(Code.SIZE_UNKNOWN, **FIXED)),
        Unknown(because(Code.QOS_SPEC_UNREADABLE, spec="gold-iops", detail="total_iops_sec must be a whole number")),
    ]
    flavor: list[Answer] = [
        Desired(IOPS, because(Code.FLAVOR, flavor="m1.large")),
        NoOpinion(because(Code.NOT_FOR_VOLUMES)),
        NoOpinion(because(Code.NOT_BY_NOVA)),
        NoOpinion(because(Code.NO_QUOTA, flavor="m1.large")),
        NoOpinion(because(Code.FLAVOR_UNKNOWN)),
        Unknown(because(Code.FLAVOR_NOT_FETCHED)),
        Unknown(because(Code.SERVER_MISSING)),
        Unknown(because(Code.QUOTA_UNREADABLE, detail="quota:disk_total_iops_sec must be a whole number")),
    ]
    steps = [Step("Cinder", answer) for answer in cinder] + [Step("flavor", answer) for answer in flavor]
    return [f"{asked:7}| {said}" for step in steps for asked, said in sentences.step_lines(step, situation)]


def limits() -> list[str]:
    shown = [
        Limits(),
        NODE,
        Limits(read_iops_sec=300, write_iops_sec=200, total_bytes_sec=20971520),
        Limits(
            total_iops_sec=250,
            total_iops_sec_max=500,
            read_bytes_sec=1536,
            read_bytes_sec_max=2048,
            read_bytes_sec_max_length=30,
        ),
        Limits(total_iops_sec=250, size_iops_sec=4096),
        Limits(total_iops_sec=250, group_name="vm total"),
        Limits(total_bytes_sec=100),
        Limits(total_bytes_sec=10**15),
    ]
    return [sentences.short_limits(each) for each in shown]


def desired() -> list[str]:
    return [
        sentences.desired_words(answer)
        for answer in (Desired(IOPS, DEFAULT), Desired(Limits(), RULE), Unmanaged(EXEMPT), Unknown(IMPOSSIBLE))
    ]


def actual() -> list[str]:
    return [sentences.actual_words(each) for each in (IOPS, Limits(), Unknown(SILENCE), None)]


def on_a_terminal() -> list[str]:
    return told.printed(plan_lines(a_pass_over(50), Manner()), width=80)


def exactly() -> list[str]:
    return told.planned(a_pass_over(10), exact=True, region=True)


SECTIONS = {
    "plan": planned,
    "plan of 50 disks on a terminal of 80 columns": on_a_terminal,
    "plan -v of 10 disks": exactly,
    "plan with trouble": planned_with_trouble,
    "enforce": enforced,
    "deferred": deferred,
    "braked": stopped,
    "braked for itself": stopped_alone,
    "braked plan": stopped_plan,
    "reasons": reasons_for_limits,
    "notes": noted,
    "states in a list": states,
    "explain": answers,
    "explain Cinder and the flavor": sources,
    "limits": limits,
    "desired": desired,
    "in force": actual,
    "every code": every_code,
}


@pytest.mark.parametrize("section", SECTIONS)
def test_people_read_what_the_golden_file_says(section: str) -> None:
    assert SECTIONS[section]() == golden(WORDS)[section]


def test_every_section_of_the_golden_file_is_compared() -> None:
    assert golden(WORDS).keys() == SECTIONS.keys()


def test_every_code_is_given_somewhere() -> None:
    sources = [file for file in SOURCE.rglob("*.py") if file.name not in ("reason.py", "report.py")]
    given = {name for file in sources for name in re.findall(r"\bCode\.([A-Z_]+)", file.read_text(encoding="utf-8"))}
    assert [code for code in Code if code.name not in given] == []


# --- hostile names

HOSTILE = "a\x1b[2J\x07b\nc\r\td\u202ee\u2066f\u200bg\x9b1mh\ud800i\u2028j"


def test_printable_text_stays_as_it_is() -> None:
    for text in ("", "vm 1", "naïve Bestände", "データ", "🚢", "<b>&amp;"):
        assert printable(text) == text


def test_nothing_that_a_terminal_would_obey_is_printable() -> None:
    shown = printable(HOSTILE)
    assert shown.isprintable()
    assert [letter for letter in shown if letter.isalpha() or letter == "["] == list("a[Jbcdefgmhij")


def _hostile_outcomes() -> Iterator[Outcome]:
    guest = a_guest(name=HOSTILE, display_name=HOSTILE, project_name=HOSTILE, flavor=HOSTILE)
    disk = a_disk(guest, target=HOSTILE, pool=HOSTILE, image=HOSTILE, actual=NODE, defined=IOPS)
    hostile = {name: HOSTILE if isinstance(fact, str) else fact for name, fact in FACTS.items()}
    for code in Code:
        reason = because(code, **hostile)
        change = change_between(disk, NODE, IOPS, reason, Code.CHANGED_OVER_QMP)
        for kind in Kind:
            yield Outcome(
                disk=disk,
                decision=Decision(desired=Unmanaged(reason), trail=()),
                change=change,
                result=Result(kind, reason),
            )
            yield outcomes.staying(disk, Unmanaged(reason), kind, reason)


def test_a_name_that_a_tenant_chose_never_reaches_the_terminal_as_it_is() -> None:
    outcomes = list(_hostile_outcomes())
    note = because(Code.NO_RECORD, detail=HOSTILE)
    hidden = UnreachableGuest(GuestRef("u", HOSTILE), because(Code.REJECTED, detail=HOSTILE))
    passed = a_pass(*outcomes, unreachable=(hidden,), notes=(note,))
    said = told.planned(passed)
    said += [sentences.state_words(outcome) for outcome in outcomes]
    said += [sentences.answer_words(Unknown(outcome.result.reason)) for outcome in outcomes]
    said += [sentences.answer_words(NoOpinion(outcome.result.reason)) for outcome in outcomes]
    steps = [Step(HOSTILE, Desired(IOPS, outcome.result.reason)) for outcome in outcomes]
    said += [text for step in steps for line in sentences.step_lines(step, a_situation()) for text in line if text]
    assert len(said) > 300
    assert [line for line in said if not line.isprintable()] == []


# --- sums


def test_a_plan_that_has_nothing_to_do_says_so() -> None:
    passed = a_pass(Disks().staying(Kind.IN_SYNC, DEFAULT))
    assert told.planned(passed) == ["Plan: nothing to change, 1 in sync."]
    assert told.enforced(passed) == ["Done: nothing changed, 1 in sync, in 1.5 s."]


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (None, "?"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (10 * 2**30, "10 GiB"),
        (3 * 2**39, "1.5 TiB"),
    ],
)
def test_sizes_are_short(size: int | None, words: str) -> None:
    assert sentences.short_size(size) == words


def test_a_clock_that_was_set_back_makes_no_time_to_come_of_it() -> None:
    assert ago(NOON - timedelta(minutes=3), NOON) == "3 min ago"
    assert ago(NOON + timedelta(days=1), NOON) == "0 s ago"


@pytest.mark.parametrize("until", ["no time", "", None, "9999-12-31T23:59:59-12:00"])
def test_a_time_that_was_edited_in_a_file_costs_no_traceback(until: object) -> None:
    assert "ann" in sentences.words(because(Code.HOLD, why="?", by="ann", until=until))
