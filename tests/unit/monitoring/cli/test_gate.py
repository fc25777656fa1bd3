"""``plimsoll gate``: the status that rollouts go by, and what it says."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from plimsoll_agent.adapters import container
from plimsoll_agent.errors import Unreachable, UsageError
from plimsoll_agent.monitor import pass_summary_file
from plimsoll_agent.reconcile.outcome import Kind
from plimsoll_agent.util.frozen import replace
from plimsoll_monitoring.cli.gate import GateCommand
from plimsoll_probes.cli.base import now
from tests import schemas
from tests.unit.lastpasses import a_last_disk, a_last_pass
from tests.unit.monitoring.cli.test_status import Here

VERSION = "1.2.3"


class Node(Here):
    def gate(self, *words: str, **methods: object) -> int:
        return self.types(GateCommand, *words, settings=self.settings(), **methods)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


BY = ["--by-version", VERSION]
FAILED = a_last_pass(a_last_disk(kind=Kind.FAILED))


def test_a_healthy_node_is_0_and_told_in_a_line(node: Node) -> None:
    node.passed(a_last_pass(a_last_disk()))
    assert node.gate(*BY) == 0
    assert node.out.splitlines() == [
        "OK  1 disk: 1 in sync",
        "",
        f"last pass  2 min ago, by plimsoll {VERSION}, mode enforce",
    ]


def test_another_node_is_3_and_told_why_by_the_figure_that_could_be_tolerated(node: Node) -> None:
    node.passed(FAILED)
    assert node.gate(*BY) == 3
    first, following = node.out.splitlines()[:2]
    assert first.startswith("WARNING  failed: change failed on 1 disk")
    assert following.strip().startswith("next: plimsoll ")
    assert node.gate(*BY, "--tolerate", "failed") == 0
    assert node.gate(*BY, "--tolerate-warnings") == 3, "a bad version would cause this"
    node.passed(replace(a_last_pass(), braked="a1b2c3", braked_disks=3))
    assert (node.gate(*BY), node.gate(*BY, "--tolerate-warnings")) == (3, 0)


def test_without_a_version_it_is_that_of_this_program(node: Node) -> None:
    node.passed(a_last_pass())
    assert node.gate() == 3
    assert f"made by plimsoll {VERSION}, not by 0." in node.out


def test_a_last_pass_that_cannot_be_read_is_unknown_and_not_none(node: Node) -> None:
    assert node.gate(*BY) == 3
    assert node.out.splitlines()[-1] == "last pass  none"
    node.state.last_pass.write_text("{")
    assert node.gate(*BY) == 3
    assert node.out.splitlines()[-1] == "last pass  unknown"


def test_a_pass_before_the_given_time_does_not_count(node: Node) -> None:
    node.passed(a_last_pass(), ago=timedelta(minutes=5))
    assert node.gate(*BY, "--since", "10m") == 0
    assert node.gate(*BY, "--since", "2m") == 3


@pytest.mark.parametrize("last", [a_last_pass(a_last_disk()), FAILED, None])
def test_its_data_are_as_the_schema_says(node: Node, last: object) -> None:
    if last is not None:
        node.passed(last)  # type: ignore[arg-type]
    status = node.gate(*BY, "-f", "json")
    told = json.loads(node.out)
    schemas.hold("gate", node.out, "json")
    assert told["healthy"] is (status == 0)
    assert bool(told["faults"]) is (status == 3)


class Units:
    """Units whose pass ends with a summary of now."""

    DAEMON = "plimsoll-daemon.service"

    def __init__(self, node: Node) -> None:
        self._node = node

    def daemon_runs(self) -> bool:
        return False

    def run_pass(self) -> str:
        last = a_last_pass(a_last_disk())
        moments = dict.fromkeys(("started", "ended", "looked", "last_good"), now())
        pass_summary_file.save(self._node.state, replace(last, **moments))
        return ""

    def reload_daemon(self) -> str:
        raise AssertionError

    def last_line(self, unit: str) -> str:
        raise AssertionError(unit)


def test_with_pass_one_is_made_and_judged(node: Node) -> None:
    node.passed(FAILED)
    assert node.gate(*BY, "--pass", "--wait", "10s", "-f", "json", units=Units(node)) == 0
    assert json.loads(node.out)["passes"] == 1


def test_in_the_daemons_container_the_daemon_makes_it(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.passed(FAILED)
    monkeypatch.setattr(container, "is_here", lambda: True)
    monkeypatch.setattr(container, "reload_daemon", Units(node).run_pass)
    assert node.gate(*BY, "--pass") == 0


@pytest.mark.parametrize("words", [["--wait", "10s"], ["--pass", "--since", "2m"], ["--pass", "--wait", "soon"]])
def test_words_that_do_not_go_together_are_an_error(node: Node, words: list[str]) -> None:
    assert node.gate(*words) == UsageError.exit_status


def test_a_figure_that_is_none_is_an_error(node: Node) -> None:
    with pytest.raises(SystemExit):
        node.gate("--tolerate", "guests_that_hang")


def test_without_systemd_a_pass_is_an_error(node: Node) -> None:
    class Gone(Units):
        def daemon_runs(self) -> bool:
            raise Unreachable("systemctl: cannot be run: No such file or directory")

    assert node.gate("--pass", units=Gone(node)) == Unreachable.exit_status == 1
