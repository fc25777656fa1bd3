"""The command to run next: as it works on a node with these units, this catalogue and these settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from plimsoll_agent.app.node_setup import node_setup
from plimsoll_agent.config import settings as config
from plimsoll_agent.model.reason import Code, because
from plimsoll_agent.monitor.next_command import CATALOGUE_UNIT, ENFORCE_UNIT, FETCH_SERVICE, PROBE_UNIT, NodeSetup
from plimsoll_agent.util.frozen import replace
from tests.unit.lastpasses import a_name

ROOT = NodeSetup()
NAME = a_name(7, target="vda")
GUEST = "instance-00000007"


@pytest.mark.parametrize(
    ("source", "do"),
    [
        ("openstack", "plimsoll enforce --refresh"),
        ("region-file", "plimsoll catalogue age"),  # a node asks no Cinder
        ("none", f"plimsoll disk explain {GUEST} vda"),
    ],
)
def test_a_volume_that_was_not_fetched_is_fetched_as_this_node_can(source: str, do: str) -> None:
    assert NodeSetup(catalogue=source).disk(because(Code.VOLUME_NOT_FETCHED), NAME) == do


def test_a_daemon_is_enabled_where_systemd_wants_it_and_it_is_not_masked(tmp_path: Path) -> None:
    def enabled() -> bool:
        return node_setup(config.load([], []), (), [str(tmp_path)], str(tmp_path)).daemon_enabled

    (tmp_path / "plimsoll-daemon.service").touch()
    assert not enabled()
    (tmp_path / "multi-user.target.wants").mkdir()
    (tmp_path / "multi-user.target.wants/plimsoll-daemon.service").symlink_to(tmp_path / "plimsoll-daemon.service")
    assert enabled()
    (tmp_path / "plimsoll-daemon.service").unlink()
    (tmp_path / "plimsoll-daemon.service").symlink_to("/dev/null")
    assert not enabled()


def test_a_missing_file_of_congestion_leads_to_its_service_or_is_fetched_by_hand(tmp_path: Path) -> None:
    def found() -> str:
        setup = node_setup(config.load([], []), (), [str(tmp_path)], str(tmp_path))
        return replace(setup, sudo=False).source_down("congestion")

    assert found() == "plimsoll congestion fetch"
    (tmp_path / FETCH_SERVICE).touch()
    assert found() == f"systemctl status {FETCH_SERVICE}"


@pytest.mark.parametrize(
    ("unit", "ask", "running", "without"),
    [
        (ENFORCE_UNIT, NodeSetup.no_recent_pass, f"systemctl status {ENFORCE_UNIT}.timer {ENFORCE_UNIT}.service",
         "plimsoll enforce"),
        (PROBE_UNIT, NodeSetup.no_recent_probe, f"systemctl status {PROBE_UNIT}.timer {PROBE_UNIT}.service",
         "plimsoll probe timetable"),
        (CATALOGUE_UNIT, NodeSetup.no_catalogue, f"journalctl -n 20 -u {CATALOGUE_UNIT}.service",
         "plimsoll catalogue refresh --now"),
    ],
)  # fmt: skip
def test_a_timer_is_looked_at_or_done_without_and_never_enabled(
    unit: str, ask: object, running: str, without: str, tmp_path: Path
) -> None:
    """Who disabled or masked it meant that nothing is written; a masked one cannot be enabled either."""

    def found() -> tuple[str, str]:
        units = [str(tmp_path / "etc"), str(tmp_path / "usr")]
        setup = replace(node_setup(config.load([], []), (), units, str(tmp_path)), sudo=False)
        return str(ask(setup)), setup.not_enabled(unit)  # type: ignore[operator]

    for directory in ("etc/timers.target.wants", "usr"):
        (tmp_path / directory).mkdir(parents=True)
    off = f"systemctl status {unit}.timer {unit}.service", f"{unit}.timer is not enabled"
    assert found() == (without, "")
    (tmp_path / f"usr/{unit}.timer").touch()
    assert found() == off
    (tmp_path / f"etc/timers.target.wants/{unit}.timer").symlink_to(tmp_path / f"usr/{unit}.timer")
    assert found() == (running, "")
    (tmp_path / f"etc/{unit}.timer").symlink_to("/dev/null")
    assert found() == off


def test_in_a_container_no_unit_is_looked_at_though_the_image_has_the_files_of_the_package(tmp_path: Path) -> None:
    for name in (f"{ENFORCE_UNIT}.timer", f"{CATALOGUE_UNIT}.timer", f"{PROBE_UNIT}.timer", FETCH_SERVICE):
        (tmp_path / name).touch()
    setup = node_setup(config.load([], []), (), [str(tmp_path)], str(tmp_path / "run/systemd/system"))
    assert [setup.not_enabled(unit) for unit in (ENFORCE_UNIT, CATALOGUE_UNIT, PROBE_UNIT)] == ["", "", ""]
    logs = [setup.no_recent_pass(), setup.daemon(), setup.no_catalogue(), setup.source_down("congestion")]
    assert [do.split("   ")[0] for do in logs] == [
        "podman logs plimsoll",
        "podman logs plimsoll",
        "podman logs plimsoll-catalogue",
        "podman logs plimsoll-congestion-fetch",
    ]
    assert replace(setup, sudo=False).no_recent_probe() == "plimsoll probe timetable"


def test_a_node_is_resumed_where_it_was_paused() -> None:
    assert ROOT.pause(because(Code.PAUSED, file="/etc/plimsoll/paused", why="x")) == "plimsoll resume --reason TEXT"
    region = because(Code.PAUSED, region=True, why="x")
    assert ROOT.pause(region) == "plimsoll region resume   (on the machine that makes the region file)"


def test_who_is_not_root_is_told_sudo_and_other_settings_are_named() -> None:
    setup = NodeSetup(sudo=True, options=("--config-file=/tmp/x y.conf",))
    assert setup.no_good_pass() == "sudo plimsoll '--config-file=/tmp/x y.conf' plan"
