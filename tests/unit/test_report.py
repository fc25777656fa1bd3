"""Words: every code has some, what people read stands in data/words.txt, and no name can speak to a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import plimsoll_agent
from plimsoll_agent import report
from plimsoll_agent.catalogue import Catalogue
from plimsoll_agent.changes import Change
from plimsoll_agent.decide import Answer, Decision, Silent, Step, Unmanaged, Wants
from plimsoll_agent.direction import direction
from plimsoll_agent.disk import Disk
from plimsoll_agent.hypervisor import GuestRef
from plimsoll_agent.limits import Limits
from plimsoll_agent.outcome import Braked, Kind, Outcome, Overlooked, PassReport, Result, Scope
from plimsoll_agent.reason import Code, Reason, Unknown, because
from tests.unit.values import GUEST, NOON, a_disk, a_guest, a_situation, golden

WORDS = Path(__file__).parent / "data" / "words.txt"
SOURCE = Path(plimsoll_agent.__file__).parent

IOPS = Limits(total_iops_sec=250)
NODE = Limits(total_iops_sec=250, total_bytes_sec=104857600)
DEFAULT, RULE = because(Code.NODE_DEFAULT), because(Code.RULE, rule="gold racks")
EXEMPT = because(Code.RULE_UNMANAGES, rule="gold racks")
FOREIGN = because(Code.FOREIGN_LIMIT, limits={"total_iops_sec": 3000})
SILENCE = because(Code.UNANSWERED, detail="no answer from QEMU within 5 s")
IMPOSSIBLE = because(Code.IMPOSSIBLE, detail="total_iops_sec and read_iops_sec exclude each other; remove one")
HELD = because(Code.HOLD, why="import runs", by="ann", until="2026-11-20T14:30:00+00:00")
STOPPED = because(Code.BRAKED, edition="4f21c8", disks=8, of=30)
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
UNWELL = because(Code.CLUSTER_UNWELL, cluster="bcebd1ee", checks="OSD_DOWN, SLOW_OPS")


# --- outcomes, one disk after the other


class Disks:
    """Makes outcomes for vda, vdb, vdc … of one guest."""

    def __init__(self) -> None:
        self._letters = iter("abcdefghijklmnopqrstuvwxyz")

    def changing(self, before: Limits, after: Limits, cause: Code, result: Result | Reason = DEFAULT) -> Outcome:
        disk = self._disk(before)
        reason = result if isinstance(result, Reason) else DEFAULT
        change = Change(disk, before, after, direction(before, after), reason, cause)
        if isinstance(result, Reason):
            result = Result(Kind.PLANNED, result)
        return Outcome(disk, Decision(Wants(after, reason), ()), change, result)

    def staying(self, kind: Kind, reason: Reason, *, drifted: bool = False, limits: Limits = IOPS) -> Outcome:
        disk = replace(self._disk(limits), defined=NODE if drifted else limits)
        answer = Wants(IOPS, reason) if kind is Kind.RIGHT else Unmanaged(reason)
        return Outcome(disk, Decision(answer, ()), None, Result(kind, reason))

    def _disk(self, in_force: Limits) -> Disk:
        return a_disk(target=f"vd{next(self._letters)}", in_force=in_force)


def a_pass(*outcomes: Outcome, overlooked: tuple[Overlooked, ...] = (), notes: tuple[Reason, ...] = ()) -> PassReport:
    return PassReport(Scope(), a_situation(), 1.5, outcomes, overlooked, notes)


def lines_of(passed: PassReport, *, planned: bool) -> list[str]:
    """What ``plan`` and ``enforce`` print."""
    told = [line for outcome in passed.outcomes if (line := report.outcome_line(outcome)) is not None]
    return told + list(report.closing_lines(passed, planned=planned))


def braked(*outcomes: Outcome, of: int, catalogue: str | None = None, **number: int) -> PassReport:
    keys = frozenset(str(n) for n in range(sum(number.values())))
    counts = {"released": 0, "loosened": 0, "cut": 0} | number
    return replace(a_pass(*outcomes), braked=Braked("4f21c8", catalogue, keys, of, **counts))


def overlooked(number: int, reason: Reason) -> Overlooked:
    return Overlooked(GuestRef(f"0000000{number}-0000-4000-8000-000000000000", f"instance-0000000{number}"), reason)


# --- the golden file


def planned() -> list[str]:
    disks = Disks()
    outcomes = [
        disks.changing(Limits(), NODE, Code.NEVER_LIMITED),
        disks.changing(Limits(total_iops_sec=500), Limits(total_iops_sec=3000), Code.WANTED_CHANGED, RULE),
        disks.changing(Limits(total_iops_sec=9999), IOPS, Code.BEHIND_LIBVIRT),
        disks.changing(Limits(total_iops_sec=100, total_iops_sec_max=200), IOPS, Code.CHANGED_BY_ANOTHER),
        disks.changing(Limits(total_iops_sec=3000), Limits(), Code.WANTED_CHANGED, RULE),
        disks.changing(
            Limits(total_iops_sec=500),
            Limits(read_iops_sec=300, group_name="both"),
            Code.NEVER_LIMITED,
            because(Code.COMMAND_LINE),
        ),
        disks.staying(Kind.RIGHT, DEFAULT),
        disks.staying(Kind.LEFT_ALONE, EXEMPT),
        disks.staying(Kind.LEFT_ALONE, FOREIGN),
        disks.staying(Kind.LEFT_ALONE, FOREIGN),
    ]
    return lines_of(a_pass(*outcomes), planned=True)


def planned_with_trouble() -> list[str]:
    unreadable = because(Code.UNREADABLE_XML, detail="no element found: line 1, column 0")
    outcome = Disks().staying(Kind.NOT_KNOWN, SILENCE)
    return lines_of(a_pass(outcome, overlooked=(overlooked(8, unreadable),)), planned=True)


def enforced() -> list[str]:
    disks = Disks()
    results = [
        Result(Kind.CHANGED, DEFAULT, 0.0062),
        Result(Kind.FAILED, because(Code.REJECTED, detail="QEMU says no")),
        Result(Kind.NOT_KNOWN, SILENCE),
        Result(Kind.FAILED, because(Code.READ_BACK_DIFFERS, in_force={"total_iops_sec": 1})),
        Result(Kind.FAILED, because(Code.READ_BACK_DIFFERS, in_force={})),
        Result(Kind.FAILED, because(Code.TOO_MANY_HUNG, hung=2)),
        Result(Kind.LEFT_ALONE, because(Code.ANOTHER_DISK, target="vdg", now="volume-7")),
        Result(Kind.LEFT_ALONE, because(Code.ANOTHER_DISK, target="vdh", now=None)),
        Result(Kind.LEFT_ALONE, because(Code.MIGRATING)),
        Result(Kind.LEFT_ALONE, because(Code.NO_RECORD)),
        Result(Kind.LEFT_ALONE, because(Code.VANISHED, detail="the guest has stopped")),
    ]
    outcomes = [disks.changing(Limits(), IOPS, Code.NEVER_LIMITED, result) for result in results]
    outcomes.append(disks.staying(Kind.LEFT_ALONE, because(Code.NO_LIMIT)))
    hidden = (
        overlooked(8, because(Code.NOT_LOOKED_AT, detail="OSError('?')")),
        overlooked(9, because(Code.VANISHED, detail="the guest is gone")),
    )
    note = because(Code.NO_RECORD, detail="/var/lib/plimsoll/memory.json: No space left on device")
    return lines_of(a_pass(*outcomes, overlooked=hidden, notes=(note,)), planned=False)


PAUSED = because(Code.PAUSED, file="/etc/plimsoll/paused", why="moving racks (by ann, 2026-11-20 11:02 UTC)")


def waiting() -> list[str]:
    """What a pass says that made nothing of what it planned."""
    disks = Disks()
    reasons = [
        PAUSED,
        UNWELL,
        because(Code.CLUSTER_SILENT, cluster="bcebd1ee", detail="no answer from ceph within 10 s"),
        because(Code.CLUSTER_NOT_KNOWN, monitors="10.0.0.1:6789, 10.0.0.2:6789"),
        because(Code.CLUSTER_NOT_KNOWN, monitors=""),
        because(Code.ANOTHERS_HAND, rounds=5),
        because(Code.ANOTHERS_HAND, rounds=1),
    ]
    outcomes = [disks.changing(IOPS, Limits(), Code.WANTED_CHANGED, Result(Kind.WAITS, reason)) for reason in reasons]
    outcomes.append(disks.staying(Kind.LEFT_ALONE, HELD))
    return lines_of(replace(a_pass(*outcomes), paused=PAUSED), planned=False)


def stopped() -> list[str]:
    """What a pass says that was braked: the commonest changes, and how to go on."""
    disks = Disks()
    rules = [because(Code.RULE, rule=f"rack {number}") for number in range(7)]
    wait = Result(Kind.WAITS, STOPPED)
    outcomes = []
    for rule in (*rules, rules[6], rules[6], rules[3]):
        outcome = disks.changing(Limits(total_iops_sec=3000), Limits(total_iops_sec=30), Code.WANTED_CHANGED, wait)
        assert outcome.change is not None
        outcomes.append(replace(outcome, change=replace(outcome.change, reason=rule)))
    outcomes.append(disks.changing(Limits(), NODE, Code.NEVER_LIMITED, Result(Kind.CHANGED, DEFAULT, 0.0062)))
    return lines_of(braked(*outcomes, of=40, cut=10, loosened=3, released=1), planned=False)


def stopped_plan() -> list[str]:
    outcome = Disks().changing(IOPS, Limits(), Code.WANTED_CHANGED, Result(Kind.WAITS, STOPPED))
    return lines_of(braked(outcome, of=30, released=8, catalogue="0a1b2c"), planned=True)


def reasons_for_limits() -> list[str]:
    """Why limits are wanted: what stands behind a change, and in the record."""
    why = {"why": "contract 7", "rule": "gold racks"}
    return [
        report.words(reason)
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
            because(Code.APPROVED, edition="4f21c8", why="as agreed"),
            because(Code.APPROVED, edition="4f21c8", why=""),
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
        Code.NOT_SETTLED,
        Code.NOT_SIGHTED,
        Code.NO_CATALOGUE,
        Code.CATALOGUE_UNREADABLE,
        Code.CATALOGUE_OUTDATED,
        Code.CATALOGUE_OLD,
    )
    notes = tuple(because(code, detail="/var/lib/plimsoll/x: is corrupt") for code in codes)
    return list(report.closing_lines(a_pass(notes=notes), planned=False))


# All facts that any sentence has. With which of them the program gives a code is held in conftest.
FACTS: Mapping[str, object] = {
    "arithmetic": [TOTAL],
    "because": {"code": "no-limit"},
    "by": "ann",
    "checks": "OSD_DOWN",
    "cluster": "bcebd1ee",
    "consumer": "back-end",
    "detail": "what was said",
    "digest": "4f21c8a09b3d5e67" * 4,
    "disks": 8,
    "edition": "4f21c8",
    "file": "/etc/plimsoll/paused",
    "flavor": "m1.large",
    "gib": 100,
    "group": "tenant",
    "hung": 2,
    "id": "t-7",
    "in_force": {"total_iops_sec": 1},
    "monitors": "10.0.0.1:6789",
    "of": 30,
    "rounds": 5,
    "percent": 0.1,
    "rule": "gold racks",
    "since": NOON.isoformat(),
    "spec": "gold-iops",
    "target": "vdb",
    "type": "gold",
    "until": NOON.isoformat(),
    "why": "racks move",
    "word": "project",
}


def every_code() -> list[str]:
    return [f"{code}: {report.words(because(code, **FACTS))}" for code in Code]


def states() -> list[str]:
    disks = Disks()
    outcomes = [
        disks.staying(Kind.RIGHT, DEFAULT),
        disks.staying(Kind.RIGHT, DEFAULT, drifted=True),
        disks.changing(Limits(), IOPS, Code.NEVER_LIMITED),
        disks.changing(NODE, IOPS, Code.NEVER_LIMITED),
        disks.changing(NODE, IOPS, Code.WANTED_CHANGED),
        disks.changing(NODE, IOPS, Code.CHANGED_BY_ANOTHER),
        disks.changing(Limits(), IOPS, Code.BEHIND_LIBVIRT),
        disks.staying(Kind.LEFT_ALONE, because(Code.NO_LIMIT), limits=Limits()),
        disks.staying(Kind.LEFT_ALONE, because(Code.NO_LIMIT), limits=Limits(), drifted=True),
        disks.staying(Kind.LEFT_ALONE, because(Code.NO_LIMIT)),
        disks.staying(Kind.LEFT_ALONE, EXEMPT),
        disks.staying(Kind.LEFT_ALONE, FOREIGN),
        disks.staying(Kind.LEFT_ALONE, because(Code.INCOMING)),
        disks.staying(Kind.LEFT_ALONE, IMPOSSIBLE),
        disks.staying(Kind.NOT_KNOWN, SILENCE),
        disks.staying(Kind.RIGHT, HELD),
        disks.staying(Kind.RIGHT, HELD, drifted=True),
        disks.staying(Kind.LEFT_ALONE, HELD),
        disks.changing(NODE, IOPS, Code.WANTED_CHANGED, HELD),
        disks.changing(NODE, IOPS, Code.WANTED_CHANGED, Result(Kind.WAITS, STOPPED)),
        disks.changing(NODE, IOPS, Code.WANTED_CHANGED, Result(Kind.WAITS, UNWELL)),
        disks.changing(NODE, IOPS, Code.WANTED_CHANGED, Result(Kind.WAITS, because(Code.ANOTHERS_HAND, rounds=5))),
    ]
    return [report.state_words(outcome) for outcome in outcomes]


def answers() -> list[str]:
    said: list[Answer] = [
        Silent(because(Code.RULE_DOES_NOT_MATCH, word="project")),
        Silent(because(Code.NO_DEFAULT)),
        Silent(because(Code.NO_LIMIT)),
        Wants(NODE, DEFAULT),
        Wants(Limits(), RULE),
        Unmanaged(EXEMPT),
        Unmanaged(FOREIGN),
        Unknown(IMPOSSIBLE),
        Silent(because(Code.RULE_ENDED, until="2026-11-20T12:00:00+00:00")),
        Silent(because(Code.RULE_BOUNDS_NOTHING)),
        Unknown(because(Code.CLUSTER_NOT_KNOWN, monitors="10.0.0.1:6789")),
        Unmanaged(HELD),
        Wants(NODE, because(Code.HOLD_ENDED)),
    ]
    return [report.answer_words(answer) for answer in said]


def sources() -> list[str]:
    """What Cinder and the flavor answered, as ``disk explain`` has it; what is reckoned takes some lines."""
    situation = replace(a_situation(), catalogue=Catalogue(1, NOON - timedelta(minutes=3), "north"))
    met = {"since": "2026-11-20T09:14:00+00:00"}
    cinder: list[Answer] = [
        Wants(Limits(total_iops_sec=3000), because(Code.QOS_SPEC, **PER_GIB)),
        Wants(
            Limits(total_iops_sec=3000, total_bytes_sec=104857600),
            because(Code.QOS_SPEC, **{**PER_GIB, "arithmetic": [TOTAL, BYTES]}),
        ),
        Wants(Limits(), because(Code.QOS_SPEC, **FIXED)),
        Silent(because(Code.NO_VOLUME)),
        Silent(because(Code.NOBODY_ASKED)),
        Silent(because(Code.NO_VOLUME_TYPE)),
        Silent(because(Code.NO_QOS_SPEC, type="gold")),
        Silent(because(Code.SPEC_FOR_BACK_END, type="gold", spec="gold-iops", consumer="back-end")),
        Silent(because(Code.SPEC_SAYS_NOTHING, **FIXED)),
        Unknown(because(Code.NO_CATALOGUE, detail="?")),
        Unknown(because(Code.CATALOGUE_UNREADABLE, detail="?")),
        Unknown(because(Code.CATALOGUE_OUTDATED, detail="?")),
        Unknown(because(Code.VOLUME_NOT_ASKED, **met)),
        Unknown(because(Code.VOLUME_MISSING)),
        Unknown(because(Code.TYPE_NOT_LISTED, id=GUEST)),
        Unknown(because(Code.SPEC_HIDDEN, type="gold")),
        Unknown(because(Code.SPEC_NOT_LISTED, type="gold", id=GUEST)),
        Unknown(because(Code.SIZE_NOT_KNOWN, **FIXED)),
        Unknown(because(Code.QOS_SPEC_UNREADABLE, spec="gold-iops", detail="total_iops_sec must be a whole number")),
    ]
    flavor: list[Answer] = [
        Wants(IOPS, because(Code.FLAVOR, flavor="m1.large")),
        Silent(because(Code.NOT_FOR_VOLUMES)),
        Silent(because(Code.NOT_BY_NOVA)),
        Silent(because(Code.NO_QUOTA, flavor="m1.large")),
        Silent(because(Code.FLAVOR_NOT_TOLD)),
        Unknown(because(Code.FLAVOR_NOT_ASKED)),
        Unknown(because(Code.SERVER_MISSING)),
        Unknown(because(Code.QUOTA_UNREADABLE, detail="quota:disk_total_iops_sec must be a whole number")),
    ]
    steps = [Step("Cinder", answer) for answer in cinder] + [Step("flavor", answer) for answer in flavor]
    return [f"{asked:7}| {said}" for step in steps for asked, said in report.step_lines(step, situation)]


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
    return [report.short_limits(each) for each in shown]


def wanted() -> list[str]:
    return [
        report.wanted_words(answer)
        for answer in (Wants(IOPS, DEFAULT), Wants(Limits(), RULE), Unmanaged(EXEMPT), Unknown(IMPOSSIBLE))
    ]


def in_force() -> list[str]:
    return [report.in_force_words(each) for each in (IOPS, Limits(), Unknown(SILENCE), None)]


SECTIONS = {
    "plan": planned,
    "plan with trouble": planned_with_trouble,
    "enforce": enforced,
    "waiting": waiting,
    "braked": stopped,
    "braked plan": stopped_plan,
    "reasons": reasons_for_limits,
    "notes": noted,
    "states in a list": states,
    "explain": answers,
    "explain Cinder and the flavor": sources,
    "limits": limits,
    "wanted": wanted,
    "in force": in_force,
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
        assert report.printable(text) == text


def test_nothing_that_a_terminal_would_obey_is_printable() -> None:
    shown = report.printable(HOSTILE)
    assert shown.isprintable()
    assert [letter for letter in shown if letter.isalpha() or letter == "["] == list("a[Jbcdefgmhij")


def _hostile_outcomes() -> Iterator[Outcome]:
    guest = a_guest(name=HOSTILE, display_name=HOSTILE, project_name=HOSTILE, flavor=HOSTILE)
    disk = a_disk(guest, target=HOSTILE, pool=HOSTILE, image=HOSTILE, in_force=NODE, defined=IOPS)
    hostile = {name: HOSTILE if isinstance(fact, str) else fact for name, fact in FACTS.items()}
    for code in Code:
        reason = because(code, **hostile)
        change = Change(disk, NODE, IOPS, direction(NODE, IOPS), reason, Code.BEHIND_LIBVIRT)
        for kind in Kind:
            yield Outcome(disk, Decision(Unmanaged(reason), ()), change, Result(kind, reason))
            yield Outcome(disk, Decision(Unmanaged(reason), ()), None, Result(kind, reason))


def test_a_name_that_a_tenant_chose_never_reaches_the_terminal_as_it_is() -> None:
    outcomes = list(_hostile_outcomes())
    note = because(Code.NO_RECORD, detail=HOSTILE)
    hidden = Overlooked(GuestRef("u", HOSTILE), because(Code.REJECTED, detail=HOSTILE))
    passed = a_pass(*outcomes, overlooked=(hidden,), notes=(note,))
    told = lines_of(passed, planned=True)
    told += [report.state_words(outcome) for outcome in outcomes]
    told += [report.answer_words(Unknown(outcome.result.reason)) for outcome in outcomes]
    told += [report.answer_words(Silent(outcome.result.reason)) for outcome in outcomes]
    steps = [Step(HOSTILE, Wants(IOPS, outcome.result.reason)) for outcome in outcomes]
    told += [text for step in steps for line in report.step_lines(step, a_situation()) for text in line if text]
    assert len(told) > 300
    assert [line for line in told if not line.isprintable()] == []


# --- sums


def test_a_plan_that_has_nothing_to_do_says_so() -> None:
    passed = a_pass(Disks().staying(Kind.RIGHT, DEFAULT))
    assert lines_of(passed, planned=True) == ["Plan: 0 disks to limit, 0 to release, 0 left alone, 1 already right."]


def test_a_disk_that_is_right_or_left_alone_as_ever_has_no_line_of_its_own() -> None:
    disks = Disks()
    assert report.outcome_line(disks.staying(Kind.RIGHT, DEFAULT)) is None
    assert report.outcome_line(disks.staying(Kind.LEFT_ALONE, FOREIGN)) is None


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
    assert report.short_size(size) == words


def test_what_was_braked_is_told_by_its_commonest_changes_and_none_is_left_out_of_the_count() -> None:
    told = stopped()
    changes = [line for line in told if line.startswith("  ")]
    assert len(changes) == 6, "a screen has room for no more"
    numbers = [int(line.split()[0]) for line in changes]
    assert sum(numbers) == 10
    assert numbers[0] == max(numbers)


def test_a_clock_that_was_set_back_makes_no_time_to_come_of_it() -> None:
    assert report.ago(NOON - timedelta(minutes=3), NOON) == "3 min ago"
    assert report.ago(NOON + timedelta(days=1), NOON) == "0 s ago"


@pytest.mark.parametrize("until", ["no time", "", None, "9999-12-31T23:59:59-12:00"])
def test_a_time_that_somebody_wrote_into_a_file_costs_no_traceback(until: object) -> None:
    assert "ann" in report.words(because(Code.HOLD, why="?", by="ann", until=until))
