"""What ``plimsoll disk`` shows of names that tenants chose."""

from __future__ import annotations

import argparse
import io
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from plimsoll_agent import config
from plimsoll_agent.cli.disk import DiskExplain, DiskList, DiskShow
from plimsoll_agent.config import Settings
from plimsoll_agent.decide import decide
from plimsoll_agent.hypervisor import GuestRef
from plimsoll_agent.limits import Limits
from plimsoll_agent.outcome import Kind, Outcome, Overlooked, PassReport, Result, Scope
from plimsoll_agent.reason import Code, because
from plimsoll_agent.rules import Match, Rule, Rules
from plimsoll_agent.sources import SOURCES
from tests.unit.values import NOON, a_disk, a_guest, a_situation

HOSTILE = "a\x1b[2J\x07b\nc\rd\u202ee\u2028f"


def hostile_pass() -> PassReport:
    words = ("name", "display_name", "project_name", "project", "user", "flavor", "image", "uuid")
    guest = a_guest(**dict.fromkeys(words, HOSTILE))
    names = dict.fromkeys(("target", "pool", "image", "namespace", "bus", "alias"), HOSTILE)
    # Its definition says otherwise: that has a line of its own in ``explain``.
    disk = a_disk(guest, **names, volume_id=None, monitors=(HOSTILE,), defined=Limits(total_iops_sec=1))
    rules = Rules((Rule(name=HOSTILE, match=Match(pool=("x",)), manage=False),))
    decision = decide(disk, a_situation(rules), SOURCES)
    outcome = Outcome(disk, decision, None, Result(Kind.FAILED, because(Code.REJECTED, detail=HOSTILE)))
    hidden = Overlooked(GuestRef("u", HOSTILE), because(Code.NOT_LOOKED_AT, detail=HOSTILE))
    return PassReport(Scope(), NOON, 0.0, (outcome,), (hidden,))


@pytest.mark.parametrize("command", [DiskList, DiskShow, DiskExplain])
def test_no_name_reaches_the_terminal_as_it_is(command: type, tmp_path: Path) -> None:
    class Seen(command):  # type: ignore[misc]
        """The command, over a pass that was made already."""

        def look(self, parsed_args: argparse.Namespace, guests: Any = ()) -> PassReport:
            return hostile_pass()

        def settings(self, parsed_args: argparse.Namespace) -> Settings:
            return replace(config.load([], []), state_dir=tmp_path)

    app = SimpleNamespace(stdout=io.StringIO(), stderr=io.StringIO())
    seen = Seen(app, None)
    seen.run(seen.get_parser("plimsoll").parse_args([] if command is DiskList else [HOSTILE]))
    lines = (app.stdout.getvalue() + app.stderr.getvalue()).split("\n")
    assert [line for line in lines if not line.isprintable()] == []
    assert any("a?[2J?b?c?d?e?f" in line for line in lines)
