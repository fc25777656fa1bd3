"""``plimsoll rules test`` on a terminal: disks that change alike once, with what is raised and what is removed."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from plimsoll_agent.cli.rules_test import RulesTest
from plimsoll_agent.config import settings as config
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.usage import Rates
from plimsoll_agent.monitor import usage_history
from plimsoll_agent.store.state import State
from plimsoll_agent.util.frozen import replace
from tests.fakes import FakeHypervisor
from tests.unit.lastpasses import a_last_disk, a_last_pass, a_name
from tests.unit.node import a_volume, guest, uuid_of
from tests.unit.person import Person, Terminal
from tests.unit.values import NOON
from tests.unit.widths import WIDTHS, plain

NOW = "default: {limits: {total_iops_sec: 250, total_bytes_sec: 100MiB}}\n"
THEN = "default: {limits: {total_iops_sec: 100}}\n"
GUESTS = 12


def ran(directory: Path, stdout: io.StringIO, *words: str, then: str = THEN) -> Person:
    here = directory / "rules.yaml"
    here.write_text(NOW)
    (directory / "then.yaml").write_text(then)
    settings = replace(config.load([], []), state_dir=directory / "state", rules_file=here)
    hypervisor = FakeHypervisor(*(guest(number, a_volume(number)) for number in range(1, GUESTS + 1)))
    person = Person()
    status = person.types(
        RulesTest, str(directory / "then.yaml"), *words, settings=settings, hypervisor=hypervisor, stdout=stdout
    )
    assert status == 2
    return person


@pytest.mark.parametrize("width", WIDTHS)
def test_disks_that_change_alike_are_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = plain(ran(tmp_path, Terminal()).out)
    assert all(cell_len(line) <= width for line in lines)
    told = " ".join(" ".join(lines).split())
    assert "250 → 100 IOPS, 100 MiB/s → unlimited IOPS lower (to 40 %), bytes remove: default" in told
    assert f"… {GUESTS - 1} more like it (--wide)" in told
    assert f"{GUESTS} of {GUESTS} disks would get other limits" in told
    assert len(lines) < GUESTS


def test_long_and_programs_get_every_disk(tmp_path: Path) -> None:
    assert ran(tmp_path, Terminal(), "--wide").out.count("instance-") == GUESTS
    assert ran(tmp_path, io.StringIO()).out.count("instance-") == GUESTS
    rows: list[dict[str, Any]] = json.loads(ran(tmp_path, Terminal(), "-f", "json").out)
    assert len(rows) == GUESTS
    assert rows[0]["desired_then"] == Limits(total_iops_sec=100).in_effect()


def test_the_sum_says_why_a_disk_would_not_be_written(tmp_path: Path) -> None:
    told = " ".join(plain(ran(tmp_path, Terminal(), then="{}\n").out))
    assert f"the next pass would write 0 ({GUESTS} left alone)" in " ".join(told.split())


def test_who_would_feel_it_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    state = State(tmp_path / "state")
    state.prepare()
    disks = [
        a_last_disk(a_name(number, key=f"{uuid_of(number)}/{a_volume(number).volume_id}"), rates=rates)
        for number, rates in (
            (3, Rates(read_iops=90.0, write_iops=30.0, read_bytes=0.0, write_bytes=0.0, seconds=300.0)),
            (4, Rates(read_iops=20.0, write_iops=10.0, read_bytes=0.0, write_bytes=0.0, seconds=300.0)),
        )
    ]
    usage_history.append(state, a_last_pass(*disks, looked=NOON))
    lines = plain(ran(tmp_path, Terminal()).out)
    told = " ".join(" ".join(lines).split())
    assert re.match(r"~ instance-00000003 .*? does 120 IOPS now, would be at limit 100 % of 5 min; IOPS low", told)
    assert f"Of {GUESTS} disks with a lower or a first limit, 1 will feel it, 1 will not, 10 may" in told
    impacts = {row["guest"]: row["impact"] for row in json.loads(ran(tmp_path, Terminal(), "-f", "json").out)}
    assert impacts["instance-00000003"] == {
        "known_seconds": 300,
        "at_limit": 1,
        "limit": "total_iops_sec",
        "present": 120,
    }
    assert impacts["instance-00000005"]["at_limit"] is None
