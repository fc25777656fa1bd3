"""A guest that is probed again and again."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from plimsoll_probes.execute.runner import Stopped
from plimsoll_probes.execute.steady import JOB, SteadyProbe
from plimsoll_probes.guest.fio import parse
from plimsoll_probes.model.finding import Trouble, Why
from tests.unit.probes.guest.test_session import LOOK, RESULT, RUN, FakeShell, pieces, said

DONE = said({"stopped": "no", "exit": "0"})
COMPRESSED = gzip.compress(RESULT)


class Checked(FakeShell):
    def check(self) -> None:
        self.asked.append(["check"])


@pytest.fixture
def shell() -> Checked:
    run = said(RUN | {"bytes": str(len(COMPRESSED))})
    answers = {
        "look": said(LOOK),
        "fill": DONE,
        "run": run,
        "piece": pieces(COMPRESSED),
        "clean": said({"clean": "yes"}),
    }
    return Checked(answers)


@pytest.fixture
def probe(shell: Checked) -> SteadyProbe:
    seconds = count(100)

    def made(sleep: Callable[[float], None]) -> Any:
        return shell

    return SteadyProbe(made, "/var/tmp", 0, lambda: float(next(seconds)))


def verbs(shell: Checked) -> list[str]:
    return [each[0] for each in shell.asked if each[0] != "piece"]


def test_the_file_is_written_once_and_each_job_has_its_time_and_latencies(probe: SteadyProbe, shell: Checked) -> None:
    probe.begin()
    runs = [probe.run(), probe.run()]
    assert verbs(shell) == ["check", "look", "fill", "run", "run"]
    assert [(run.began, run.ended) for run in runs] == [(100, 101), (102, 103)]
    measured = parse(RESULT.decode(), JOB, engine="libaio")
    assert measured.read is not None
    assert measured.write is not None
    assert runs[0].latency.count == measured.read.latency.count + measured.write.latency.count
    assert runs[0].slowest == max(measured.read.latency_max, measured.write.latency_max)


def test_after_a_job_that_failed_all_begins_again(probe: SteadyProbe, shell: Checked) -> None:
    probe.begin()
    run, shell.answers["run"] = shell.answers["run"], Trouble(Why.REBOOTED)
    with pytest.raises(Trouble):
        probe.run()
    shell.answers["run"] = run
    probe.run()
    assert verbs(shell)[3:] == ["run", "check", "look", "fill", "run"]


def test_it_is_ended_and_cleaned_and_does_not_sleep_any_more(probe: SteadyProbe, shell: Checked) -> None:
    probe.begin()
    assert probe.end()
    assert verbs(shell)[-1] == "clean"
    with pytest.raises(Stopped):
        probe._sleep(5)
