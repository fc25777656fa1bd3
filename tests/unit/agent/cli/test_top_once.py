"""``plimsoll top --once``: a disk as a row for programs and for people."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from cliff import columns

from plimsoll_agent.cli import top, top_once
from plimsoll_agent.cli.top import Top
from plimsoll_agent.errors import DeadlineExceeded
from plimsoll_agent.model.hypervisor import BlockStats
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.memory import Remembered
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.model.usage import Usage, unreachable
from plimsoll_agent.terminal import output as terminal
from plimsoll_agent.terminal import table
from plimsoll_agent.terminal.base import OneLineErrors
from plimsoll_agent.terminal.listing import Listing
from plimsoll_agent.top import sampler
from plimsoll_agent.top.rows import Planned, rows
from plimsoll_agent.top.sampler import Sample
from plimsoll_agent.util.frozen import replace
from tests.fakes import FakeHypervisor
from tests.unit.agent.app.test_live_plan import Node
from tests.unit.agent.monitor.usages import NODE_LIMITS, SILENCE, desiring, disk_named, using
from tests.unit.manydisks import a_pass_over
from tests.unit.person import Person, Terminal
from tests.unit.values import NOON
from tests.unit.widths import WIDTHS, misfits, plain

FREE = using(disk_named("free", 3, Limits()), iops=5000)
DARK = unreachable((), [disk_named("dark", 5)], SILENCE)[0]


def cells(usage: Usage, planned: Planned, *, people: bool = False) -> dict[str, Any]:
    (row,) = rows(Sample((usage,), (), 1), planned)
    shown = {}
    for name, cell in zip(top_once.COLUMNS, top_once.cells(row), strict=True):
        if isinstance(cell, columns.FormattableColumn):
            cell = cell.human_readable() if people else cell.machine_readable()
        shown[str(name)] = cell
    return shown if people else dict(json.loads(json.dumps(shown)))


def test_a_row_tells_unknown_from_nothing() -> None:
    usage = using(disk_named("a"), iops=248)
    known = cells(usage, desiring(NODE_LIMITS, usage.disk))
    assert (known["server"], known["guest"], known["guest_uuid"], known["disk"]) == ("a", "a", "guest-0", "vda")
    assert known["actual"] == known["desired"] == {"total_iops_sec": 250, "total_bytes_sec": 104857600}
    assert (known["iops"], known["rates"]["total_iops_sec"], known["state"]) == (248, 248, "in-sync")
    assert (known["share"], known["at_limit"], known["at_limit_window"], known["seconds"]) == (0.992, 1, 2, 2)
    assert known["shares"] == {"total_iops_sec": 0.992, "total_bytes_sec": 0.01}
    assert known["saved"] == {}
    saved = replace(desiring(NODE_LIMITS, usage.disk), saved={usage.disk.key: {"total_iops_sec": 0.25}})
    assert cells(usage, saved)["saved"] == {"total_iops_sec": 0.25}
    free = cells(FREE, desiring(None, FREE.disk))
    assert (free["actual"], free["desired"], free["share"], free["reason"]) == ({}, None, None, None)
    disk = disk_named("x", 9, Unknown(SILENCE))
    blind = cells(using(disk), desiring(NODE_LIMITS, disk))
    assert (blind["actual"], blind["share"], blind["state"], blind["reason"]["code"]) == (
        None, None, "unknown", "timed-out",
    )  # fmt: skip
    dark = cells(DARK, Planned())
    assert (dark["rates"], dark["iops"], dark["state"], dark["reason"]["code"]) == (
        None,
        None,
        "unknown",
        "timed-out",
    )
    unknown = cells(FREE, desiring(Unknown(SILENCE), FREE.disk))
    assert (unknown["desired"], unknown["state"], unknown["reason"]["code"]) == (None, "unknown", "timed-out")


@pytest.mark.parametrize(
    ("actual", "state", "words"),
    [
        (NODE_LIMITS, "in-sync", "in sync"),
        (replace(NODE_LIMITS, total_iops_sec=300), "planned", "out of sync"),
        (Limits(), "unlimited", "unlimited"),
    ],
)
def test_a_disk_with_limits_by_its_size_has_the_state_of_its_limits(actual: Limits, state: str, words: str) -> None:
    """Sizes are not read: its desired limits are those of the last pass."""
    usage = using(disk_named("a", 3, actual))
    planned = desiring(Unknown(because(Code.SIZE_UNKNOWN, spec="gold-iops")), usage.disk)
    ((key, outcome),) = planned.outcomes.items()
    ours = Remembered(desired=NODE_LIMITS, since=NOON, seen=NOON, applied=None, attachment=usage.disk.attachment)
    remembered = Planned(outcomes={key: replace(outcome, decision=replace(outcome.decision, ours=ours))})
    assert cells(usage, remembered)["state"] == state
    assert cells(usage, remembered, people=True)["state"] == words
    assert "unknown" not in top_once.sum_of(rows(Sample((usage,), (), 1), remembered))
    assert cells(usage, planned)["reason"]["code"] == "size-unknown", "without a last pass it is unknown, and why"
    assert ": 1 unknown, " in top_once.sum_of(rows(Sample((usage,), (), 1), desiring(Unknown(SILENCE), usage.disk)))


def test_what_is_wrong_is_said_to_people_too() -> None:
    told = cells(FREE, desiring(NODE_LIMITS, FREE.disk), people=True)
    assert (told["state"], told["actual"]) == ("unlimited", "unlimited")
    assert told["desired"] == "250 IOPS 100 MiB/s"
    assert cells(DARK, Planned(), people=True)["desired"] == "unknown"


BURST = Limits(
    read_iops_sec=600, read_iops_sec_max=1200, write_iops_sec=400, write_iops_sec_max=800, total_bytes_sec=20971520
)


def shown(width: int | None, *usages: Usage) -> list[str]:
    sample = Sample(usages, (), len(usages))
    found = rows(sample, desiring(NODE_LIMITS, *(usage.disk for usage in usages)))
    columns_of_people = [column for column in top_once.COLUMNS if not column.long]
    cells = [
        [
            table.Cell(cell.human_readable() if isinstance(cell, columns.FormattableColumn) else cell or "-")
            for column, cell in zip(top_once.COLUMNS, top_once.cells(row), strict=True)
            if not column.long
        ]
        for row in found
    ]
    return list(table.lines(columns_of_people, cells, terminal.Terminal(width, colour=False)))


@pytest.mark.parametrize("width", [80, 100, 120, 160, 200])
def test_a_disk_is_a_row_at_each_width_and_its_guest_is_never_cut(width: int) -> None:
    usages = [
        using(disk_named(f"instance-{number:08x}", number, limits), iops=13.37 * 9**number)
        for number, limits in enumerate((Limits(), BURST, NODE_LIMITS, Limits(), BURST))
    ]
    head, *lines = shown(width, *usages)
    assert head.split()[:4] == ["SERVER", "GUEST", "DISK", "IOPS"]
    assert "OF LIMIT" in head
    assert max(map(len, lines)) <= width
    for usage in usages:
        (line,) = [line for line in lines if usage.disk.guest.name in line.split()]
        assert "vda" in line
    assert sum("unlimited" in line for line in lines) == 2


def test_heads_are_those_of_the_live_screen() -> None:
    line = shown(None, using(disk_named("a"), iops=248, of_bytes=4.1 * 2**20))[0].split("  ")
    assert [head.strip() for head in line if head][3:7] == ["IOPS", "MiB/s", "OF LIMIT", "TYPE"], "without AT LIMIT"


def test_the_sum_counts_what_is_wrong_first() -> None:
    busy = using(disk_named("a"), iops=250)
    sample = Sample((FREE, DARK, busy), (), 3)
    found = rows(sample, desiring(NODE_LIMITS, FREE.disk, busy.disk))
    assert top_once.sum_of(found) == "3 disks, 3 guests: 1 unlimited, 1 unknown, 1 at limit"


def test_the_sum_counts_as_unknown_what_no_decision_was_made_on() -> None:
    found = rows(Sample((using(disk_named("a"), iops=250),), (), 1), Planned(complaint="the rules file is broken"))
    assert [top_once.state(row) for row in found] == ["unknown"]
    assert top_once.sum_of(found) == "1 disk, 1 guest: 1 unknown, 1 at limit"


class Silent(FakeHypervisor):
    """No counters can be read in the first ``silent`` seconds."""

    silent, now = 1.0, 0.0

    def block_stats(self, uuid: str, targets: Iterable[str]) -> Mapping[str, BlockStats]:
        if self.now < self.silent:
            raise DeadlineExceeded("no answer from QEMU within 5 s")
        return super().block_stats(uuid, targets)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def listed(person: Person, directory: Path, monkeypatch: pytest.MonkeyPatch, *words: str, silent: float) -> int:
    node = Node(directory)
    hypervisor = Silent(node.a, node.b)
    hypervisor.silent = silent
    monkeypatch.setattr(top, "time", hypervisor)
    monkeypatch.setattr(sampler, "LOOK_AGAIN", 0)  # a guest that hangs is left alone for as long
    return person.types(Top, "--once", *words, settings=node.settings, hypervisor=hypervisor)


def test_a_disk_with_one_reading_is_unknown_and_the_list_incomplete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = Person()
    assert listed(person, tmp_path, monkeypatch, "-f", "json", silent=0) == 0
    assert listed(person, tmp_path, monkeypatch, "-f", "json", silent=1) == 1
    rows = json.loads(person.out)
    assert [(row["iops"], row["reason"]["detail"]) for row in rows] == [(None, "only one reading")] * 2


def test_a_guest_that_cannot_be_read_is_told_without_a_word_about_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = Person()
    listed(person, tmp_path, monkeypatch, silent=9)
    assert person.err == "a  no answer from QEMU within 5 s\nb  no answer from QEMU within 5 s\n"


class Once(OneLineErrors, Listing):
    """The list of a made-up sample."""

    number = 0

    def take_action(self, parsed_args: object) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        outcomes = a_pass_over(self.number).outcomes
        usages = tuple(using(outcome.disk, iops=7 * each) for each, outcome in enumerate(outcomes))
        found = rows(Sample(usages, (), 1), Planned(outcomes={outcome.disk.key: outcome for outcome in outcomes}))
        self.closing = (top_once.sum_of(found),)
        return top_once.COLUMNS, [top_once.cells(row) for row in found]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("number", [1, 50, 500])
def test_the_list_fits_every_terminal_and_names_every_guest(
    monkeypatch: pytest.MonkeyPatch, number: int, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))

    def listed(stdout: io.StringIO) -> str:
        person = Person()
        person.types(Once, stdout=stdout, number=number)
        return person.out

    page, pipe = listed(Terminal()), listed(io.StringIO())
    assert misfits(page, pipe, width) == []
    named = [name for line in plain(page) for name in line.split() if name.startswith("instance-")]
    assert sorted(named) == [f"instance-{each:08x}" for each in range(number)]
    assert len(pipe.splitlines()) == number + 2, "a line a row, its heads and its sum"
