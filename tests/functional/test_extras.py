"""Commands where plimsoll was installed without any extra: the one that is lacking is named."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from tests.unit.tools.test_parts import installed

# What no distribution of those owns cannot be imported, as where it is not installed.
WITHOUT = """
import json, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
absent = Absent()
absent.names = set(json.loads(sys.argv.pop(1)))
sys.meta_path.insert(0, absent)
sys.argv[0] = "plimsoll"
from plimsoll_agent.terminal.main import main
sys.exit(main())
"""
LOG = "2026-11-20T08:00:00.000000+0000 mon.a (mon.0) 1 : cluster [INF] osdmap e1: 3 total, 3 up, 3 in\n"


def without_extras(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    brought = installed([])
    absent = [
        name
        for name, owners in packages_distributions().items()
        if not brought & {canonicalize_name(owner) for owner in owners} and not name.startswith("plimsoll")
    ]
    return without(absent, directory, *words)


def without(absent: list[str], directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    settings = directory / "plimsoll.conf"
    settings.write_text(
        f"[DEFAULT]\nstate_dir = {directory}/state\nrules_file = {directory}/rules.yaml\n"
        f"[catalogue]\nsource = openstack\ncloud = lab\ndirectory = {directory}/catalogue\n"
    )
    (directory / "rules.yaml").write_text("{}\n")
    (directory / "qos.yaml").write_text("qos_specs: {}\nvolume_types: {}\n")
    (directory / "ceph.log").write_text(LOG)
    (directory / "ceph.log.zst").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(8))
    (directory / "clat_hist.1.log").write_text("")
    command = [sys.executable, "-c", WITHOUT, json.dumps(absent), "--config-file", str(settings), *words]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        ("hist clat_hist.1.log", "insight"),
        ("slow --plot slow.png ceph.log", "insight"),
        ("slow ceph.log.zst", "insight"),
        ("drill report recording.jsonl", "insight"),
        ("probe report --output page.html", "report"),
        ("monitoring dashboards panels", "dashboards"),
        ("qos plan qos.yaml", "openstack"),
        ("catalogue refresh", "openstack"),
    ],
)
def test_a_command_names_the_extra_that_it_needs(tmp_path: Path, words: str, extra: str) -> None:
    ended = without_extras(tmp_path, *words.split())
    assert ended.returncode not in (0, 2), ended.stdout
    assert "Traceback" not in ended.stderr
    assert f"plimsoll-agent[{extra}]" in ended.stderr.splitlines()[-1]
    packages = {"insight": "report", "dashboards": None}  # the last one has none
    if package := packages.get(extra, extra):
        assert f"install the package plimsoll-{package}" in ended.stderr.splitlines()[-1]


@pytest.mark.parametrize("words", ["slow ceph.log", "rules check", "settings", "record list", "monitoring alerts"])
def test_a_command_that_needs_no_extra_works_without_one(tmp_path: Path, words: str) -> None:
    ended = without_extras(tmp_path, *words.split())
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    "words",
    ["slow ceph.log", "settings", "state check"],
)
def test_a_command_that_asks_no_guest_loads_no_libvirt(tmp_path: Path, words: str) -> None:
    """As on a monitoring host. And it costs 12 MiB and 15 ms."""
    ended = without(["libvirt", "libvirtmod", "libvirt_qemu"], tmp_path, *words.split())
    assert (ended.returncode, ended.stderr) == (0, "")
