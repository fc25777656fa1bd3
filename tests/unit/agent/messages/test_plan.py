"""What plan, enforce, undo and rules test say of changes, in the same words."""

from __future__ import annotations

import pytest

from plimsoll_agent.messages.brake import edits_words
from plimsoll_agent.messages.disk_lines import Manner, change_words, turn_words, turns_words
from plimsoll_agent.messages.lines import CommandLine, Severity, TextLine
from plimsoll_agent.messages.plan import plan_lines
from plimsoll_agent.messages.sums import incomplete_words
from plimsoll_agent.model.impact import Impact
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.reconcile.outcome import Edit, Kind, PassReport
from plimsoll_agent.util.frozen import replace
from tests.unit import told
from tests.unit.manydisks import GOLD, IOPS, a_pass_over
from tests.unit.outcomes import staying
from tests.unit.values import a_disk

ACKNOWLEDGED = because(Code.ACKNOWLEDGED, by="ann", until="2026-11-20T14:30:00+00:00", why="ticket 1")

MISSING = because(Code.VOLUME_MISSING)
UNKNOWN = staying(a_disk(actual=IOPS), Unknown(MISSING), Kind.UNKNOWN, MISSING)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (Limits(), IOPS, "set"),
        (IOPS, Limits(), "remove"),
        (IOPS, GOLD, "raise"),
        (IOPS, Limits(total_iops_sec=200), "lower"),
        (GOLD, Limits(total_iops_sec=30), "lower (to 1 %)"),
        (GOLD, Limits(total_iops_sec=20), "lower (to 0.67 %)"),
        (Limits(total_iops_sec=10**9), Limits(total_iops_sec=1), "lower (to less than 0.01 %)"),
        (IOPS, Limits(read_iops_sec=200, write_iops_sec=100), "raise and lower (to 40 %)"),
    ],
)
def test_a_change_has_one_word_and_what_is_left(before: Limits, after: Limits, words: str) -> None:
    assert turn_words(before, after) == words


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (IOPS, Limits(total_iops_sec=250, group_name="g"), "what waits passes at once"),
        (Limits(total_iops_sec=250, group_name="g"), Limits(total_iops_sec=25), "to 10 %; what waits passes at once"),
        (Limits(), Limits(total_iops_sec=250, group_name="g"), None),
        (Limits(total_iops_sec=250, group_name="g"), Limits(total_iops_sec=200, group_name="g"), None),
        (IOPS, Limits(), "removed"),
    ],
)
def test_a_change_of_group_says_that_waiting_requests_pass(before: Limits, after: Limits, words: str | None) -> None:
    note = change_words(before, after, Manner()).partition(" (")[2]
    assert note == ("" if words is None else f"{words})")


MIB = 2**20


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (Limits(total_iops_sec=200, total_bytes_sec=50 * MIB), "lower"),
        (Limits(total_iops_sec=100), "IOPS lower (to 40 %), bytes remove"),
        (Limits(total_iops_sec=500, total_bytes_sec=MIB), "IOPS raise, bytes lower (to 1 %)"),
        (Limits(total_iops_sec=500, total_bytes_sec=100 * MIB), "raise"),
        (Limits(), "remove"),
    ],
)
def test_what_is_raised_and_what_is_removed_is_said_by_unit(after: Limits, words: str) -> None:
    before = Limits(total_iops_sec=250, total_bytes_sec=100 * MIB)
    assert turns_words(before, after) == words


def test_edits_of_a_spec_with_limits_per_gib_are_one_line_with_the_range_over_all_sizes() -> None:
    edits = [
        Edit(source="gold", parameter="total_iops_sec", before=3000, after=30, disks=2, origin="qos-spec"),
        Edit(source="gold", parameter="total_iops_sec", before=1500, after=15, disks=1, origin="qos-spec"),
        Edit(source="rack 1", parameter="total_bytes_sec", before=1000, after=0, disks=1, origin="rule"),
        Edit(source="default", parameter="group_name", before=None, after="g", disks=1, origin="node-default"),
        Edit(source="m1", parameter="total_iops_sec", before=9, after=8, disks=1, origin="flavor"),
    ]
    assert list(edits_words(edits, exact=True)) == [
        'rule "rack 1": total_bytes_sec 1000 → unlimited (1 disk)',
        "QoS spec gold: total_iops_sec 1500–3000 → 15–30 (3 disks)",
        "flavor m1: total_iops_sec 9 → 8 (1 disk)",
        "default: group_name none → g (1 disk)",
    ]
    assert next(iter(edits_words(edits[:2]))) == "QoS spec gold: 1500–3000 → 15–30 IOPS (3 disks)"


@pytest.mark.parametrize(
    ("name", "before", "after", "words"),
    [
        ("total_iops_sec", 3000, 30, "3000 → 30 IOPS"),
        ("read_iops_sec", 3000, 0, "read 3000 IOPS → unlimited"),
        ("total_bytes_sec", 20971520, 104857600, "20 MiB/s → 100 MiB/s"),
        ("write_iops_sec_max", 0, 500, "write burst none → 500 IOPS"),
        ("total_iops_sec_max_length", 60, 1, "burst length 60 s → 1 s"),
        ("total_iops_sec_max_length", 0, 30, "burst length none → 30 s"),
        ("size_iops_sec", 0, 65536, "counted per request → 64 KiB"),
        ("group_name", None, "g", "shared as none → g"),
    ],
)
def test_an_edit_has_units_that_people_know(name: str, before: object, after: object, words: str) -> None:
    assert list(edits_words([Edit(source="d", parameter=name, before=before, after=after, disks=1)])) == [
        f"d: {words} (1 disk)"
    ]


def test_an_edit_of_several_values_is_a_range_with_its_unit_once() -> None:
    edits = [
        Edit(source="d", parameter="total_bytes_sec", before=size, after=2**30, disks=1)
        for size in (0, 2**20, 5 * 2**20)
    ]
    assert list(edits_words(edits)) == ["d: 1–5 MiB/s or unlimited → 1 GiB/s (3 disks)"]


def test_the_first_line_of_the_brake_tells_how_much_would_be_cut() -> None:
    report = a_pass_over(50)
    first = next(iter(plan_lines(report, Manner())))
    assert first == TextLine("5 of 50 disks deferred: 5 cut by more than half (to 1 %)", Severity.CUT, head="BRAKE")


def commands(report: PassReport) -> list[str]:
    return [line.command for line in plan_lines(report, Manner(region=True)) if isinstance(line, CommandLine)]


def test_the_region_approves_specs_by_their_digest_and_anything_else_by_the_whole_revision() -> None:
    report = a_pass_over(10)
    assert report.braked is not None
    assert commands(report)[1] == "plimsoll region approve abababababababab --reason TEXT"
    (edit,) = report.braked.edits
    of_rules = replace(report, braked=replace(report.braked, edits=(edit, replace(edit, origin="rule"))))
    assert commands(of_rules)[1] == f"plimsoll region approve --rules {report.braked.revision} --reason TEXT"


def test_a_removal_is_approved_by_the_name_of_the_type() -> None:
    report = a_pass_over(10)
    assert report.braked is not None
    (stopped,) = (each for each in report.outcomes if each.disk.key in report.braked.keys)
    assert stopped.change is not None
    change = replace(stopped.change, after=Limits(), direction=type(stopped.change.direction)("remove"))
    removal = replace(stopped, change=change, disk=replace(stopped.disk, volume_type="fast ones"))
    report = replace(report, outcomes=(removal,), braked=replace(report.braked, removed=1, lowered=0))
    assert commands(report) == [
        "plimsoll approve --remove 7f3a91c2b04d88e1 --reason TEXT",
        "plimsoll region approve abababababababab --remove 'fast ones' --reason TEXT",
    ]


def impacts_of(report: PassReport, *impacts: Impact | None) -> dict[str, Impact | None]:
    keys = (outcome.disk.key for outcome in report.outcomes if outcome.change is not None)
    return dict(zip(keys, impacts, strict=False))


FELT = Impact(seconds=93600, share=0.71, base="total_iops_sec", present=140.4)
BARELY = replace(FELT, share=0.004, base="write_bytes_sec", present=3 * 2**20)
NOT = replace(FELT, share=0)


def test_who_feels_it_most_comes_first_with_what_it_does_now() -> None:
    report = a_pass_over(4)  # four disks that get the same first limit
    manner = Manner(every=True, impacts=impacts_of(report, NOT, BARELY, FELT, None))
    lines = told.printed(plan_lines(report, manner), every=True)
    assert [line.partition("100 MiB/s  ")[2] for line in lines[:4]] == [
        "does 140 IOPS now, would be at limit 71 % of 1 d 2 h; default",
        "does 3 MiB/s now, would be at limit less than 1 % of 1 d 2 h; default",
        "will not feel it; default",
        "use unknown; default",
    ]
    assert lines[4] == (
        "Of 4 disks with a lower or a first limit, 2 will feel it, 1 will not, 1 may: their use is"
        " unknown (averages between passes of 1 d 2 h)."
    )


def test_where_none_will_feel_it_the_sentence_is_whole() -> None:
    report = a_pass_over(2)
    lines = told.printed(plan_lines(report, Manner(impacts=impacts_of(report, NOT, NOT))))
    assert "2 disks with a lower or a first limit will not feel it (averages between passes of 1 d 2 h)." in lines


def test_where_no_pass_has_measured_anything_one_line_says_so() -> None:
    report = a_pass_over(2)
    lines = told.printed(plan_lines(report, Manner(impacts=impacts_of(report, None, None))))
    assert [line for line in lines if "feel" in line or "use" in line] == [
        "Who will feel it is unknown: no pass has measured the 2 disks yet."
    ]


def test_what_the_brake_defers_has_who_would_feel_it_too() -> None:
    report = a_pass_over(6)
    its = report.outcomes[5].disk.key
    lines = told.printed(plan_lines(report, Manner(every=True, impacts={its: FELT})), every=True)
    assert [line for line in lines if "3000 → 30 IOPS (to 1 %)" in line and "does 140 IOPS now" in line]


def test_what_makes_a_pass_incomplete_is_named_with_the_status() -> None:
    report = a_pass_over(10)
    report = replace(report, outcomes=(*report.outcomes, UNKNOWN))
    assert incomplete_words(report, complete=True) == "Incomplete: 1 disk unknown, 2 disks deferred (exit status 3)."
    note = because(Code.NO_RECORD, detail="full")
    noted = replace(report, outcomes=(), notes=(note,))
    assert incomplete_words(noted, complete=False) == "Incomplete: see the note and the error above (exit status 3)."
    noted = replace(report, notes=(note, note))
    assert incomplete_words(noted, complete=True).endswith("2 disks deferred, see the 2 notes above (exit status 3).")


def test_an_acknowledged_disk_is_counted_apart_as_in_status() -> None:
    known = replace(UNKNOWN, acknowledgement=ACKNOWLEDGED)
    line, sum_of_all = told.planned(replace(a_pass_over(0), outcomes=(known,)))
    assert line.endswith("acknowledged until 2026-11-20 14:30 UTC by ann: ticket 1")
    assert sum_of_all == "Plan: nothing to change, 1 unknown but acknowledged."


def test_disks_that_the_kernel_maps_are_told_once_whatever_else_is_planned() -> None:
    words = "2 disks on RBD that the kernel maps are not limited by plimsoll: a vdb, b vda"
    texts = [line.text for line in plan_lines(a_pass_over(2), Manner()) if isinstance(line, TextLine)]
    report = replace(a_pass_over(2), kernel_mapped=("a vdb", "b vda"))
    lines = [line.text for line in plan_lines(report, Manner()) if isinstance(line, TextLine)]
    assert (words in texts, lines.count(words)) == (False, 1)
