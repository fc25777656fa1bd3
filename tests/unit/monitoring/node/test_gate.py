"""What a rollout's gate lets pass."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from plimsoll_agent.model.hypervisor import GuestRef
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, because
from plimsoll_agent.monitor.pass_summary import LastPass
from plimsoll_agent.monitor.thresholds import SHIPPED, Level, Thresholds
from plimsoll_agent.reconcile.outcome import Kind, UnreachableGuest
from plimsoll_agent.util.frozen import replace
from plimsoll_monitoring.node.gate import LASTING, Requirements, Tolerance, faults
from plimsoll_monitoring.node.status import NodeStatus
from tests.unit.lastpasses import BRONZE, UNTOUCHED, a_last_disk, a_last_pass
from tests.unit.node import uuid_of
from tests.unit.values import NOON

BEGUN = NOON - timedelta(seconds=2)
REJECTED = because(Code.REJECTED, detail="no")
FAILED = a_last_disk(kind=Kind.FAILED, reason=REJECTED, desired=BRONZE)
UNLIMITED = a_last_disk(actual=Limits(), desired=BRONZE)
PLANNED = a_last_disk(kind=Kind.PLANNED)
STRICT = Tolerance()
LENIENT = Tolerance(warnings=True)


def by_name(*figures: str) -> Tolerance:
    return Tolerance(frozenset(figures))


def passed(*disks: Any, **other: Any) -> LastPass:
    unreachable = tuple(
        UnreachableGuest(GuestRef(uuid_of(number), f"g{number}"), UNTOUCHED) for number in other.pop("guests", ())
    )
    return a_last_pass(*disks, **{"unreachable": unreachable, "version": "0.1.1"} | other)


def found(
    last: LastPass | None,
    tolerance: Tolerance = STRICT,
    thresholds: Mapping[str, Thresholds] = SHIPPED,
    **other: Any,
) -> list[str]:
    here = NodeStatus(now=NOON, last=last, probes=None, paused=None, written={}, thresholds=thresholds)
    here = replace(here, **other)
    return [f"{each.level.name} {each.words}" for each in faults(here, Requirements("0.1.1", BEGUN, tolerance))]


def figures(*disks: Any, tolerance: Tolerance = STRICT, **other: Any) -> list[str]:
    """Those that make the node unhealthy."""
    return [text.split(":")[0].split()[1] for text in found(passed(*disks, **other), tolerance)]


def test_a_new_pass_of_the_version_without_faults_is_healthy() -> None:
    assert found(passed(a_last_disk())) == []


def test_a_pass_from_before_proves_nothing() -> None:
    (said,) = found(passed(started=BEGUN - timedelta(seconds=1)))
    assert said.startswith("UNKNOWN there was no pass: the last one started at ")
    assert found(passed(started=BEGUN)) == [], "one that began at that very moment is not from before"


def test_a_pass_by_another_version_proves_nothing() -> None:
    assert found(passed(version="0.1.0")) == ["UNKNOWN the last pass was made by plimsoll 0.1.0, not by 0.1.1"]


def test_a_node_without_a_pass_is_not_healthy() -> None:
    assert found(None) == ["UNKNOWN no pass over this node yet"]


@pytest.mark.parametrize("last", [None, passed()])
def test_a_file_that_cannot_be_read_is_told_and_not_called_a_node_without_a_pass(last: LastPass | None) -> None:
    assert found(last, complaints={"pass": "pass.json: not JSON"}) == ["UNKNOWN pass.json: not JSON"]


@pytest.mark.parametrize("tolerance", [STRICT, LENIENT, by_name("failed")])
def test_a_critical_figure_is_a_fault_whatever_is_tolerated(tolerance: Tolerance) -> None:
    thresholds = {**SHIPPED, "failed": Thresholds("", "0")}
    (said,) = found(passed(FAILED), tolerance, thresholds)
    assert said.startswith("CRITICAL failed: change failed on 1 disk")


def test_a_warning_is_a_fault_unless_it_is_named_or_warnings_pass() -> None:
    assert figures(guests=[7]) == ["unreachable_guests"]
    assert figures(guests=[7], tolerance=by_name("at_limit")) == ["unreachable_guests"]
    assert figures(guests=[7], tolerance=by_name("unreachable_guests")) == []
    assert figures(guests=[7], tolerance=LENIENT) == []


@pytest.mark.parametrize(
    ("figure", "last"),
    [
        ("failed", passed(FAILED)),
        ("sources_down", passed(sources={"libvirt": False})),
        ("unlimited", passed(UNLIMITED)),
    ],
)
def test_what_a_bad_version_would_cause_passes_only_by_its_name(figure: str, last: LastPass) -> None:
    (said,) = found(last, LENIENT)
    assert said.startswith(f"WARNING {figure}: ")
    assert found(last, by_name(figure)) == []


def test_a_missing_file_of_congestion_is_no_fault_and_hides_no_other_source() -> None:
    """Without it nothing is reduced; and its publisher may be down for all nodes at once."""
    assert figures(sources={"libvirt": True, "congestion": False}) == []
    assert figures(sources={"libvirt": False, "congestion": False}) == ["sources_down"]


def test_unknown_is_not_a_warning() -> None:
    (said,) = found(passed(looked=None), LENIENT)
    assert said.startswith("UNKNOWN observed_age: ")
    assert found(passed(looked=None), by_name("observed_age")) == []


@pytest.mark.parametrize(("figure", "disk"), [("behind", PLANNED), ("unlimited", UNLIMITED)])
def test_disks_out_of_sync_are_a_fault_only_where_the_node_enforces(figure: str, disk: Any) -> None:
    assert figures(disk, enforcing=False) == []
    assert figures(disk) == [figure]


def test_a_disk_of_two_figures_is_a_fault_though_one_of_them_is_tolerated() -> None:
    """``plimsoll status`` tells of each disk once, by the first of its figures."""
    both = replace(FAILED, actual=Limits())
    assert figures(both) == ["unlimited", "failed"]
    assert figures(both, tolerance=by_name("unlimited")) == ["failed"]
    assert figures(both, tolerance=by_name("failed")) == ["unlimited"]


def test_of_a_failed_pass_only_the_cause_is_told() -> None:
    last = passed(FAILED, trouble="libvirt cannot be reached", sources={"libvirt": False})
    assert found(last) == ["CRITICAL libvirt cannot be reached"]


def test_what_only_an_operator_ends_is_reported_of_a_failed_pass_too() -> None:
    paused = because(Code.PAUSED, file="/etc/plimsoll/paused", why="maintenance")
    last = passed(trouble="no", braked="a1b2c3", braked_disks=3)
    said = found(last, paused=paused)
    assert {line.split(":")[0].split()[-1] for line in said[1:]} == LASTING


def test_a_fault_has_the_command_to_run_next() -> None:
    here = NodeStatus(now=NOON, last=passed(FAILED), probes=None, paused=None, written={}, thresholds=SHIPPED)
    (fault,) = faults(here, Requirements("0.1.1"))
    assert (fault.level, fault.figure, fault.do.split()[0]) == (Level.WARNING, "failed", "plimsoll")
