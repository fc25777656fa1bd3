"""Lines of disks as they are done: of many that are alike a terminal gets the first few, and the number of others."""

from __future__ import annotations

import argparse
import io
from contextlib import suppress

import pytest

from plimsoll_agent.messages.lines import DiskLine, Severity
from plimsoll_agent.terminal.telling import TellsDisks
from plimsoll_agent.util.frozen import replace
from tests.unit.person import Person, Terminal

LINES = {
    "done": DiskLine(
        sign="+", names=("", "", ""), what="unlimited → 250 IOPS", why="default; done in {} ms", severity=Severity.SET
    ),
    "removed": DiskLine(
        sign="-", names=("", "", ""), what="250 IOPS → unlimited", why="default; done in {} ms", severity=Severity.CUT
    ),
    "failed": DiskLine(
        sign="!",
        names=("", "", ""),
        what="unlimited → 250 IOPS",
        why="failed: rejected: cannot be set",
        severity=Severity.CUT,
    ),
    "timed out": DiskLine(
        sign="?", names=("", "", ""), what="unlimited → 250 IOPS", why="unknown: no answer", severity=Severity.UNKNOWN
    ),
    "deferred": DiskLine(
        sign="!", names=("", "", ""), what="unlimited → 250 IOPS", why="deferred: paused", severity=Severity.LOWERED
    ),
}


class Told(TellsDisks):
    """Ten disks of each kind, one by one; then libvirt may go."""

    trouble: BaseException = LookupError("libvirt is gone")

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--dies", action="store_true")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        with self.telling():
            for number in range(10):
                for line in LINES.values():
                    named = replace(line, names=(f"guest-{number}", "", "vda"), why=line.why.format(number))
                    self.tell_one(named, every=parsed_args.all)
            if parsed_args.dies:
                raise self.trouble
        return 0


class Interrupted(Told):
    trouble = KeyboardInterrupt()


def told(*words: str, stdout: io.StringIO) -> list[str]:
    person = Person()
    with suppress(LookupError):
        person.types(Told, *words, stdout=stdout)
    return person.out.splitlines()


def test_ctrl_c_tells_what_is_done_and_that_no_more_is_written(caplog: pytest.LogCaptureFixture) -> None:
    person = Person()
    with pytest.raises(KeyboardInterrupt):
        person.types(Interrupted, "--all", "--dies")
    assert "guest-9 vda" in person.out
    assert caplog.messages == ["interrupted: nothing more is written; what was changed before: plimsoll record"]


@pytest.mark.parametrize("words", [(), ("--dies",)])
def test_on_a_terminal_what_is_done_is_told_thrice_and_then_counted(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "dumb")
    lines = told(*words, stdout=Terminal())
    assert len([line for line in lines if "guest-" in line and "done in" in line]) == 3 + 3
    assert lines[-3:] == [
        "+ 7 more disks  unlimited → 250 IOPS  default (plimsoll record)",
        "- 7 more disks  250 IOPS → unlimited  default (plimsoll record)",
        "! 7 more disks  unlimited → 250 IOPS  deferred: paused (--dry-run --all lists them)",
    ]


def test_a_disk_whose_change_failed_or_timed_out_is_always_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    lines = told(stdout=Terminal())
    for why in ("failed: rejected: cannot be set", "unknown: no answer"):
        assert len([line for line in lines if "guest-" in line and why in line]) == 10


@pytest.mark.parametrize(("words", "stdout"), [((), io.StringIO), (("--all",), Terminal)])
def test_a_pipe_and_all_have_a_line_a_disk(words: tuple[str, ...], stdout: type[io.StringIO]) -> None:
    lines = told(*words, stdout=stdout())
    assert len([line for line in lines if "guest-" in line]) == 10 * len(LINES)
    assert not [line for line in lines if "more disk" in line]
