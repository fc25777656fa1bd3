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
from plimsoll_agent.changes import Change
from plimsoll_agent.cli.disk import DiskExplain, DiskList, DiskShow
from plimsoll_agent.config import Settings
from plimsoll_agent.decide import decide
from plimsoll_agent.direction import Direction
from plimsoll_agent.disk import Disk
from plimsoll_agent.entries import Conclusion, Verdict
from plimsoll_agent.hypervisor import GuestRef
from plimsoll_agent.limits import Limits
from plimsoll_agent.marks import Mark, Marks
from plimsoll_agent.outcome import Kind, Outcome, Overlooked, PassReport, Result, Scope
from plimsoll_agent.reason import Code, Reason, because
from plimsoll_agent.record import Record
from plimsoll_agent.rules import Match, Rule, Rules
from plimsoll_agent.sources import SOURCES
from tests.unit.clouds import a_catalogue, a_spec, a_type, knowing, met
from tests.unit.values import NOON, VOLUME, a_disk, a_guest, a_situation

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
    return PassReport(Scope(), a_situation(rules), 0.0, (outcome,), (hidden,))


def printed(command: type, passed: PassReport, state: Path, *words: str) -> list[str]:
    """What the command says of a pass that was made already."""

    class Seen(command):  # type: ignore[misc]
        """The command, without a node."""

        def look(self, parsed_args: argparse.Namespace, guests: Any = ()) -> PassReport:
            return passed

        def settings(self, parsed_args: argparse.Namespace) -> Settings:
            return replace(config.load([], []), state_dir=state)

    app = SimpleNamespace(stdout=io.StringIO(), stderr=io.StringIO())
    seen = Seen(app, None)
    seen.run(seen.get_parser("plimsoll").parse_args(words))
    return str(app.stdout.getvalue() + app.stderr.getvalue()).split("\n")


@pytest.mark.parametrize("command", [DiskList, DiskShow, DiskExplain])
def test_no_name_reaches_the_terminal_as_it_is(command: type, tmp_path: Path) -> None:
    lines = printed(command, hostile_pass(), tmp_path, *([] if command is DiskList else [HOSTILE]))
    assert [line for line in lines if not line.isprintable()] == []
    assert any("a?[2J?b?c?d?e?f" in line for line in lines)


def explained(disk: Disk, tmp_path: Path) -> list[str]:
    """What ``disk explain`` says of a volume that Cinder limits by its size."""
    spec = a_spec("gold-iops", total_iops_sec_per_gb="30", total_iops_sec_per_gb_min="500")
    gold = a_type("gold", spec)
    known = a_catalogue(spec, types=[gold], volumes={VOLUME: gold}, met=met(disk))
    situation = knowing(
        known, met(disk), Rule(name="night", match=Match(pool=("*",)), ceiling=Limits(total_iops_sec=2000))
    )
    decision = decide(disk, situation, SOURCES)
    outcome = Outcome(disk, decision, None, Result(Kind.LEFT_ALONE, because(Code.NO_LIMIT)))
    return printed(DiskExplain, PassReport(Scope(), situation, 0.0, (outcome,), ()), tmp_path, disk.guest.name)


def test_explain_prints_the_whole_chain_from_the_volume_to_its_limit(tmp_path: Path) -> None:
    told = "\n".join(explained(a_disk(size=100 * 2**30, target="vda"), tmp_path))
    chain = [
        f"volume {VOLUME}, 100 GiB",
        "volume type gold → QoS spec gold-iops (front-end), read 0 s ago",
        "total_iops_sec = max(500, 30 × 100 GiB) = 3000",
        'ceiling of rule "night"',
        'capped by rule "night"',
    ]
    places = [told.find(link) for link in chain]
    assert -1 not in places
    assert places == sorted(places)


def test_explain_says_that_each_attachment_of_a_shared_volume_is_limited_alone(tmp_path: Path) -> None:
    """Two guests with 3000 IOPS each may do 6000 to one volume, which its owner did not pay for."""
    for shareable in (True, False):
        told = "\n".join(explained(a_disk(size=2**30, shareable=shareable), tmp_path))
        assert ("each of its attachments is limited alone" in told) is shareable


def test_a_recorded_reason_without_its_facts_is_explained_by_its_code(tmp_path: Path) -> None:
    limits = Limits(total_iops_sec=500)
    disk = a_disk(in_force=limits, defined=limits)
    record = Record(tmp_path / "record.sqlite")
    change = Change(disk, Limits(), limits, Direction.TIGHTEN, Reason(Code.RULE), Code.WANTED_CHANGED)
    (id_,) = record.intend([change], NOON, "root")
    record.conclude([Conclusion(id_, Verdict.DONE)], NOON)
    decision = decide(disk, a_situation(), SOURCES)
    outcome = Outcome(disk, decision, None, Result(Kind.LEFT_ALONE, because(Code.NO_LIMIT)))
    lines = printed(DiskExplain, PassReport(Scope(), a_situation(), 0.0, (outcome,), ()), tmp_path, disk.guest.name)
    assert any("(by plimsoll, rule, run by root)" in line for line in lines)


@pytest.mark.parametrize("put", [Limits(total_iops_sec=500), Limits(total_iops_sec=501), None])
def test_explain_says_whose_limits_a_guest_brought_along(tmp_path: Path, put: Limits | None) -> None:
    limits = Limits(total_iops_sec=500)
    disk = a_disk(a_guest(marks=Marks({VOLUME: Mark(limits, NOON, put)})), in_force=limits, defined=limits)
    told = "\n".join(explained(disk, tmp_path))
    whose = "set by plimsoll, which this node's record does not have" if put == limits else "not set by plimsoll"
    assert f"500 iops, {whose}" in told
