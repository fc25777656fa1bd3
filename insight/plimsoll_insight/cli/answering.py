"""The answer of ``disk explain`` and ``region explain``, for what stands behind the command's output."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TextIO

from plimsoll_agent.terminal.formats import terminal_for
from plimsoll_insight.explain import answer
from plimsoll_insight.explain.answer import ExplainCase
from plimsoll_insight.explain.strip import StripMark


def answer_lines(case: ExplainCase, stdout: TextIO, parsed_args: argparse.Namespace) -> Iterator[str]:
    """In ASCII where the output cannot show blocks."""
    try:
        "".join(mark.block for mark in StripMark).encode(stdout.encoding or "utf-8")
        blocks = True
    except UnicodeEncodeError:
        blocks = False
    return answer.lines(case, terminal_for(stdout, parsed_args), blocks=blocks)
