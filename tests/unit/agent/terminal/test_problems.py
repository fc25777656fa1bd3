"""Problems as lines: text that is wrapped, and commands that are not."""

from __future__ import annotations

import pytest

from plimsoll_agent.monitor.thresholds import Level
from plimsoll_agent.terminal.output import Terminal
from plimsoll_agent.terminal.problems import Line, problem_lines


@pytest.mark.parametrize(
    ("command", "lines"),
    [
        ("plimsoll plan", ["         next: plimsoll plan"]),
        ("c" * 65, ["         next: " + "c" * 65]),
        ("c" * 66, ["         next:", "c" * 66]),
        ("c" * 80, ["         next:", "c" * 80]),
        ("c" * 81, ["         next: " + "c" * 81]),
    ],
    ids=["short", "just-fits", "without-indent", "whole-line", "fits-nowhere"],
)
def test_a_command_is_on_one_line_wherever_one_holds_it(command: str, lines: list[str]) -> None:
    _, *told = problem_lines([Line(Level.WARNING, "x", command)], Terminal(80, colour=False))
    assert told == lines


def test_a_pipe_wraps_nothing() -> None:
    told = list(problem_lines([Line(Level.WARNING, "x " * 99, "c" * 99)], Terminal(None, colour=False)))
    assert len(told) == 2
