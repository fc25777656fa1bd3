"""Lines of disks as they are done: of many that are alike a terminal gets the first few, and the number of others."""

from __future__ import annotations

import argparse
import io

import pytest

from plimsoll_agent.command.telling import TellsDisks
from plimsoll_agent.messages.plan import DiskLine, Severity
from tests.unit.person import Person, Terminal


class Told(TellsDisks):
    """Thirty disks that are refused, and four that are set, one by one."""

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        for number in range(34):
            names = (f"instance-{number:08x}", "web", "vda")
            line = DiskLine("!", names, "unlimited → 250 IOPS", "failed: rejected: cannot be set", Severity.CUT)
            if number % 10 == 0:
                line = DiskLine("+", names, "unlimited → 250 IOPS", f"default; done in {number} ms", Severity.SET)
            self.tell_one(line, every=parsed_args.all)
        self.tell_rest()
        return 0


def told(*words: str, stdout: io.StringIO) -> list[str]:
    person = Person()
    person.types(Told, *words, stdout=stdout)
    return person.out.splitlines()


def test_on_a_terminal_a_failure_is_told_thrice_and_then_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "dumb")
    lines = told(stdout=Terminal())
    assert [line.split()[1] for line in lines[:4]] == [f"instance-{number:08x}" for number in range(4)]
    assert lines[-2:] == [
        "+ 1 more disk  unlimited → 250 IOPS  default",
        "! 27 more disks  unlimited → 250 IOPS  failed: rejected: cannot be set",
    ]
    assert len(lines) == 8


@pytest.mark.parametrize(("words", "stdout"), [((), io.StringIO), (("--all",), Terminal)])
def test_a_pipe_and_all_have_a_line_a_disk(words: tuple[str, ...], stdout: type[io.StringIO]) -> None:
    lines = told(*words, stdout=stdout())
    assert len([line for line in lines if "instance-" in line]) == 34
    assert not [line for line in lines if "more disk" in line]
