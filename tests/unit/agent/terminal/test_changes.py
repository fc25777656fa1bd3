"""The lines of ``plan`` on terminals and pipes: none is too wide, none ends in a word, what matters comes first."""

from __future__ import annotations

import re

import pytest
from rich.cells import cell_len

from plimsoll_agent.messages.disk_lines import Manner
from plimsoll_agent.messages.lines import REMEDY, CommandLine, DiskLine, Severity, TextLine, alike
from plimsoll_agent.messages.plan import plan_lines
from plimsoll_agent.terminal.changes import laid_out
from plimsoll_agent.terminal.output import Terminal
from tests.unit.manydisks import a_pass_over
from tests.unit.widths import WIDTHS, misfits


def lines(number: int, width: int | None, *, every: bool = False, region: bool = False) -> list[str]:
    manner = Manner(every=every, region=region)
    return list(laid_out(plan_lines(a_pass_over(number), manner), Terminal(width, False), every=every, remedy=REMEDY))


@pytest.mark.parametrize("width", [60, *WIDTHS])
@pytest.mark.parametrize("number", [1, 50, 500])
@pytest.mark.parametrize("every", [False, True], ids=["grouped", "all"])
def test_no_line_is_too_wide_and_none_ends_within_a_word_or_before_a_unit(
    number: int, width: int, every: bool
) -> None:
    page = "\n".join(lines(number, width, every=every, region=True))
    pipe = "\n".join(lines(number, None, every=True, region=True))
    assert misfits(re.sub(r"… \d+ more like it \(.*\)", "", page), pipe, width) == []


def test_disks_that_change_alike_are_one_line_on_a_terminal_and_a_line_each_in_a_pipe() -> None:
    page, all_of_them = lines(500, 80), lines(500, None, every=True)
    assert len(page) < 40, "a screen or two, however many disks there are"
    assert page.count("  … 199 more like it (plimsoll plan --all)") == 1
    assert len([line for line in all_of_them if re.match(r"[-+~!?=] instance-", line)]) == 500
    assert page[-1].startswith("Plan: ") or page[-2].startswith("Plan: ")


def test_what_the_brake_stops_comes_first_with_its_edit_and_what_approves_it() -> None:
    told = lines(50, 80, region=True)
    assert told[:2] == [
        "BRAKE  5 of 50 disks deferred: 5 cut by more than half (to 1 %)",
        "       QoS spec gold-iops: 3000 → 30 IOPS (5 disks)",
    ]
    assert told[2].startswith("~ instance-00000005 ")
    commands = [line for line in told if "approve" in line]
    assert [line.partition("plimsoll ")[2] for line in commands] == [
        "approve 7f3a91c2b04d88e1 --reason TEXT",
        "region approve abababababababab --reason TEXT",
    ]
    assert told.index(commands[0]) < next(n for n, line in enumerate(told) if "unlimited" in line)


def test_one_reason_of_several_deferred_disks_is_told_once_above_them() -> None:
    def deferred(disk: str, what: str, why: str) -> DiskLine:
        return DiskLine(sign="!", names=("instance-1", "web", disk), what=what, why=why, severity=Severity.LOWERED)

    ceph, pause = "deferred until Ceph cluster c1a5e0de is healthy: OSD_DOWN", "deferred: paused"
    disks = [
        deferred("vda", "250 → 500 IOPS", ceph),
        deferred("vdb", "25 → 50 IOPS", pause),
        *(deferred(f"vd{letter}", "100 → 200 IOPS", ceph) for letter in "cdefg"),
    ]
    assert list(laid_out(alike(disks), Terminal(80, False), remedy=REMEDY)) == [
        f"!  {ceph}",
        "! instance-1 web vdc  100 → 200 IOPS",
        f"  … 4 more like it ({REMEDY})",
        "! instance-1 web vda  250 → 500 IOPS",
        f"! instance-1 web vdb  25 → 50 IOPS    {pause}",
    ]
    in_a_pipe = list(laid_out(alike(disks), Terminal(None, False), every=True))
    assert [line.endswith((ceph, pause)) for line in in_a_pipe] == [True] * 7


def test_few_that_are_alike_are_all_shown() -> None:
    assert not [line for line in lines(3, 80) if "more like it" in line]


def test_colour_is_around_what_is_said_in_words_too() -> None:
    line = DiskLine(
        sign="-", names=("g", "", "vda"), what="250 IOPS → unlimited (removed)", why="default", severity=Severity.CUT
    )
    for width in (None, 80):
        (plain,), (coloured,) = (laid_out([line], Terminal(width, colour)) for colour in (False, True))
        assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain
        assert "\x1b[1;31m" in coloured


def test_a_command_that_is_too_long_can_still_be_copied() -> None:
    command = f"plimsoll region approve --rules {'7f' * 32} --reason TEXT"
    (head, *rest) = laid_out([CommandLine("On all nodes", command)], Terminal(80, False))
    assert head == "On all nodes:"
    assert " ".join(" ".join(rest).replace("\\", "").split()) == command
    assert all(line.endswith(" \\") for line in rest[:-1])


def test_a_word_wider_than_the_terminal_is_broken_rather_than_lost() -> None:
    told = list(laid_out([TextLine("note " + "x" * 100)], Terminal(40, False)))
    assert all(cell_len(line) <= 40 for line in told)
    assert "".join(told).count("x") == 100


@pytest.mark.parametrize("width", range(1, 13))
def test_the_narrowest_terminal_gets_all_words(width: int) -> None:
    some = [
        DiskLine(
            sign="~",
            names=("instance-00000001", "web", "vda"),
            what="3000 → 30 IOPS",
            why="failed: rejected: x",
            severity=Severity.CUT,
        ),
        TextLine("30 of 100 disks deferred", Severity.CUT, head="BRAKE"),
        CommandLine("if intended", "plimsoll approve 0123456789abcdef --reason TEXT"),
    ]
    told = "".join("".join(laid_out(some, Terminal(width, False))).split())
    assert "failed:rejected:x" in told
    assert "disksdeferred" in told
    assert "--reason" in told.replace("\\", "")
