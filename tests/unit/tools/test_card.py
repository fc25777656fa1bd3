"""What this project is built on is used by what it installs, not by its tests alone."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import grimp
import pytest
import yaml

from plimsoll_probes.guest import fio

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def imports() -> grimp.ImportGraph:
    return grimp.build_graph(
        "plimsoll_agent",
        "plimsoll_probes",
        "plimsoll_monitoring",
        "plimsoll_insight",
        include_external_packages=True,
        cache_dir=None,
    )


def started(name: str) -> str:
    """The module behind a program or a command."""
    (entry,) = (
        entry
        for group in ("console_scripts", "plimsoll.commands")
        for entry in entry_points(group=group, name=name)
        if entry.module.startswith("plimsoll_")
    )
    return entry.module


@pytest.mark.parametrize(
    ("command", "user", "library"),
    [
        ("enforce", "plimsoll_agent.adapters.libvirt.client", "libvirt"),
        ("qos_apply", "plimsoll_agent.adapters.block_storage", "openstack"),
        ("enforce", "plimsoll_agent.config.oslo", "oslo_config"),
        ("enforce", "plimsoll_agent.monitor.prometheus_text", "prometheus_client"),
        ("check_plimsoll", "plimsoll_monitoring.nagios.check", "nagiosplugin"),
    ],
)
def test_a_command_comes_to_each_library_by_its_imports(
    imports: grimp.ImportGraph, command: str, user: str, library: str
) -> None:
    module = started(command)
    assert library in imports.find_modules_directly_imported_by(user)
    assert module == user or imports.chain_exists(importer=module, imported=user), f"{module} does not reach {user}"


def test_qos_alone_comes_to_openstacksdk(imports: grimp.ImportGraph) -> None:
    """Beside what reads clouds.yaml for it and for the refresher."""
    assert imports.find_modules_that_directly_import("openstack") == {
        "plimsoll_agent.adapters.block_storage",
        "plimsoll_agent.adapters.credentials",
    }
    assert imports.find_modules_that_directly_import("plimsoll_agent.adapters.block_storage") == {
        "plimsoll_agent.adapters.openstack"
    }


def test_probes_run_fio() -> None:
    assert fio.ARGV[0] == "fio"


def test_nodes_are_set_up_by_an_ansible_collection() -> None:
    galaxy = yaml.safe_load((ROOT / "ansible" / "galaxy.yml").read_text(encoding="utf-8"))
    assert (galaxy["namespace"], galaxy["name"]) == ("plimsoll", "cloud")
    rollout = (ROOT / "ansible" / "playbooks" / "rollout.yml").read_text(encoding="utf-8")
    assert all("hosts" in play for play in yaml.safe_load(rollout))
    assert "name: plimsoll.cloud.{{ __rollout_role }}" in rollout
