"""``plimsoll disk explain --since``: what a node knows of the past of a disk, and what it does not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from plimsoll_agent.config import settings as config
from plimsoll_agent.model.direction import Direction
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Reason, because
from plimsoll_agent.model.usage import Rates
from plimsoll_agent.monitor import pass_summary_file
from plimsoll_agent.monitor.pass_summary import LastDisk
from plimsoll_agent.policy.decide import decide
from plimsoll_agent.policy.diff import Change
from plimsoll_agent.policy.sources import SOURCES
from plimsoll_agent.reconcile.outcome import Kind, Mode, Outcome, PassReport, Result, Scope
from plimsoll_agent.store.entries import Conclusion, Ending
from plimsoll_agent.store.record import Record
from plimsoll_agent.store.state import State
from plimsoll_insight.cli.disk_explain import DiskExplain
from tests import schemas
from tests.unit.lastpasses import a_last_disk, a_last_pass, a_name
from tests.unit.person import Person
from tests.unit.values import a_disk, a_situation

LIMITS = Limits(total_iops_sec=500)
DISK = a_disk(actual=LIMITS, defined=LIMITS)
NOW = datetime.now(UTC)


def ran(state: Path, *words: str) -> tuple[int, str, str]:
    situation = a_situation()
    outcome = Outcome(DISK, decide(DISK, situation, SOURCES), None, Result(Kind.LEFT_ALONE, because(Code.NO_LIMIT)))
    passed = PassReport(Mode.PLAN, Scope(), situation, 0.0, (outcome,), ())

    def look(command: Any, *_: object, **__: object) -> PassReport:
        command.status = 0
        return passed

    person = Person()
    settings = replace(config.load([], []), state_dir=state)
    status = person.types(DiskExplain, DISK.guest.name, *words, settings=settings, look=look)
    return status, person.out, person.err


def keep(state: Path, *disks: LastDisk) -> None:
    last = a_last_pass(*disks, ended=NOW - timedelta(seconds=41), looked=NOW - timedelta(seconds=42))
    pass_summary_file.save(State(state), last)


def of_itself(share: float, latency: float | None) -> LastDisk:
    rates = Rates(100, 400, 4e5, 1.6e6, 300, latency)
    return a_last_disk(DISK.named, actual=LIMITS, rates=rates, shares={"total_iops_sec": share})


def others(*rates: float) -> Sequence[LastDisk]:
    return [
        a_last_disk(a_name(number), volume_type="gold", rates=Rates(rate, 0, rate * 4096, 0, 300, 0.004))
        for number, rate in enumerate(rates, 50)
    ]


def test_without_since_it_is_the_explanation_of_limits_alone(tmp_path: Path) -> None:
    keep(tmp_path, of_itself(1.0, 0.04))
    status, out, _ = ran(tmp_path)
    assert (status, "last pass" in out) == (0, False)
    assert "past" not in json.loads(ran(tmp_path, "-f", "json")[1])


def test_a_disk_that_was_at_limit_in_the_last_pass_has_its_limit_as_cause(tmp_path: Path) -> None:
    keep(tmp_path, of_itself(0.99, 0.04), *others(100, 1400, 0))
    status, out, _ = ran(tmp_path, "--since", "24h")
    assert status == 0
    assert "500 IOPS, 99 % of total_iops_sec (limit 500 IOPS); a request took 40 ms" in out
    assert "all 3 took 4 ms (median)" in out
    assert "busiest other guest: instance-00000051 did 70 % of all requests" in out
    assert "Cause: its own limit in the last pass\n" in out
    assert f"plimsoll region explain {DISK.guest.uuid} --since 24h" in out


@pytest.mark.parametrize("disks", [[of_itself(0.2, 0.9)], [of_itself(0.2, None)], others(5)])
def test_one_pass_does_not_show_another_cause(tmp_path: Path, disks: list[LastDisk]) -> None:
    keep(tmp_path, *disks)
    status, out, _ = ran(tmp_path, "--since", "24h")
    assert status == 0
    assert "Cause: unknown: one pass does not show it\n" in out


def test_changes_in_that_time_are_told_with_why_and_older_ones_are_not(tmp_path: Path) -> None:
    keep(tmp_path, of_itself(0.2, 0.004))
    record = Record(tmp_path / "record.sqlite")
    for back, iops in ((timedelta(days=2), 111), (timedelta(hours=2), 333)):
        after = Limits(total_iops_sec=iops)
        change = Change(DISK, Limits(), after, Direction.LOWER, Reason(Code.NODE_DEFAULT), Code.DESIRED_CHANGED)
        (id_,) = record.intend([change], NOW - back, "root")
        record.conclude([Conclusion(id_, Ending.DONE)], NOW - back)
    out = ran(tmp_path, "--since", "1d")[1]
    past = out.partition("In the last 1d")[2]
    assert "unlimited → 333 IOPS" in past
    assert "111" not in past
    data = json.loads(ran(tmp_path, "--since", "1d", "-f", "json")[1])
    assert [entry["after"] for entry in data["past"]["entries"]] == [{"total_iops_sec": 333}]
    schemas.hold("disk explain", json.dumps(data), "json")


def test_what_cannot_be_read_is_told_and_is_not_zero(tmp_path: Path) -> None:
    (tmp_path / "pass.json").write_text("{")
    (tmp_path / "record.sqlite").write_text("no database " * 100)
    status, out, _ = ran(tmp_path, "--since", "24h", "-f", "json")
    past = json.loads(out)["past"]
    assert (status, past["last_pass"], past["entries"], past["cause"]) == (1, None, None, "unknown")
    assert len(past["complaints"]) == 2


@pytest.mark.parametrize("since", ["soon", "-1h", "0s", ""])
def test_a_time_that_is_none_is_a_usage_error(tmp_path: Path, since: str, caplog: pytest.LogCaptureFixture) -> None:
    status, out, _ = ran(tmp_path, f"--since={since}")
    assert (status, out) == (64, "")
    assert caplog.messages[0].startswith("--since: ")
