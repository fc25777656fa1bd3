"""The role agent's preflight: each thing that is wrong with a node is said, with what to do, and nothing else is."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab import ansiblecore
from lab.collection import link

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
ROLE = ROOT / "ansible/roles/agent"
pytestmark = pytest.mark.usefixtures("programs_unmeasured")
FIT: Mapping[str, Any] = {
    "root": True,
    "os": "debian12",
    "manager": "apt",
    "packages": {},
    "files": {},
    "marked": [],
    "paths": ["/var/lib/prometheus/node-exporter"],
    "libvirt": {
        "version": "9.0.0",
        "needed": True,
        "desired": "/run/libvirt/libvirt-sock or /run/libvirt/virtqemud-sock",
        "socket": "/run/libvirt/libvirt-sock",
        "socket_group": 110,
        "group": 110,
        "group_name": "libvirt",
    },
    "qemu": "7.2.15",
    "clock_offset": 0.7,
    "clock_synchronised": True,
    "free_mib": {"/opt/plimsoll": 9000, "/var/lib/plimsoll": 9000, "/tmp": 9000},
    "unanswered": {},
    "cron": [],
    "units": [],
    "ceph": True,
    "setfacl": True,
    "calendar": True,
    "plimsoll": {"reload_needed": False, "timers": []},
}
# name: what the node is like else, what is set, and words of the one fault; none for a node that is fit.
CASES: Mapping[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "fit": ({}, {}, []),
    "containerised libvirt": ({"libvirt": {"version": None}, "qemu": None}, {}, []),
    "a socket for everybody": ({"libvirt": {"socket_group": None}}, {}, []),
    "libvirt's test driver": (
        {
            "libvirt": {"version": None, "needed": False, "socket": None, "socket_group": None, "group": None},
            "qemu": None,
        },
        {"plimsoll_libvirt_uri": "test:///node.xml"},
        [],
    ),
    "names of an earlier version": (
        {},
        {"agent_retire_cron": False, "rollout_fraction": 5},
        ["agent_retire_cron is now plimsoll_disable_cron, rollout_fraction is now plimsoll_rollout_fraction."],
    ),
    "a name of another role": ({}, {"agent_mode": "fast"}, []),  # plimsoll_mode is set, too
    "no setfacl": ({"setfacl": False}, {}, ["setfacl", "package acl", "plimsoll_textfile_dir"]),
    "no setfacl, and no metrics": ({"setfacl": False}, {"plimsoll_textfile_dir": ""}, []),
    "containers by the inventory": ({}, {"plimsoll_delivery": "container"}, ["Give plimsoll_delivery with -e"]),
    "another package manager": ({"manager": None}, {}, ["neither apt nor dnf"]),
    "a repository": ({}, {"plimsoll_repository": "https://r", "plimsoll_repository_key": "k"}, []),
    "a repository without a key": ({}, {"plimsoll_repository": "https://r"}, ["plimsoll_repository_key", "Set both"]),
    "no libvirt": (
        {"libvirt": {"socket": None, "socket_group": None}},
        {},
        ["virtqemud-sock", "plimsoll_libvirt_uri"],
    ),
    "old libvirt": ({"libvirt": {"version": "6.10.0"}}, {}, ["libvirt is 6.10.0", "7.0.0", "Upgrade"]),
    "old qemu": ({"qemu": "4.2.1"}, {}, ["QEMU is 4.2.1", "5.0.0"]),
    "a younger qemu than its digits": ({"qemu": "10.0.2"}, {}, []),
    "no group": ({"libvirt": {"group": None, "socket_group": 64055}}, {}, ["Group libvirt, by which", "64055"]),
    "another group": ({"libvirt": {"socket_group": 64055}}, {}, ["Set plimsoll_libvirt_group to 64055"]),
    "a clock behind": ({"clock_offset": -7198.4}, {}, ["7198 s behind", "30 s are allowed"]),
    "a clock ahead": ({"clock_offset": 31.0}, {}, ["31 s ahead of"]),
    "a clock that is trusted": ({"clock_offset": 31.0}, {"plimsoll_clock_tolerance": 40}, []),
    "a clock nobody keeps": ({"clock_synchronised": False}, {}, []),
    "a clock that cannot be asked": ({"clock_synchronised": None}, {}, []),
    "a full disk": ({"free_mib": {"/opt/plimsoll": 47, "/tmp": 59}}, {}, ["/opt/plimsoll has 47 MiB", "/tmp has 59"]),
    "full of plimsoll": (
        {"free_mib": {"/opt/plimsoll": 47}, "packages": {"plimsoll": "{version}-1+debian12"}},
        {},
        [],
    ),
    "full of another version": (
        {"free_mib": {"/opt/plimsoll": 47}, "packages": {"plimsoll": "{version}.1-1+debian12"}},
        {},
        ["/opt/plimsoll has 47 MiB"],
    ),
    "full, with an extra to come": (
        {"free_mib": {"/opt/plimsoll": 47}, "packages": {"plimsoll": "{version}-1+debian12"}},
        {"plimsoll_extras": ["region"]},
        ["/opt/plimsoll has 47 MiB"],
    ),
    "full of a build": (
        {"free_mib": {"/opt/plimsoll": 47}, "packages": {"plimsoll": "{version}-2.el9"}, "manager": "dnf"},
        {"plimsoll_version": "{version}-2"},
        [],
    ),
    "full of another build": (
        {"free_mib": {"/opt/plimsoll": 47}, "packages": {"plimsoll": "{version}-2+debian12"}},
        {"plimsoll_version": "{version}-1"},
        ["/opt/plimsoll has 47 MiB"],
    ),
    "a silent keystone": (
        {"unanswered": {"keystone:5000": "Connection refused"}},
        {"plimsoll_catalogue_source": "openstack", "plimsoll_openstack_conf": "auth_url = http://keystone:5000"},
        ["keystone:5000: Connection refused", "plimsoll_openstack_conf"],
    ),
    "a rival": (
        {"units": [{"unit": "limits.timer", "text": "/usr/sbin/limits"}]},
        {},
        ["limits.timer", "systemctl disable --now"],
    ),
    "cron, to be retired": (
        {"cron": [{"file": "/etc/crontab", "line": 7, "text": "x"}]},
        {"plimsoll_mode": "enforce"},
        [],
    ),
    "cron, to be kept": (
        {"cron": [{"file": "/etc/crontab", "line": 7, "text": "* * * * * limits"}]},
        {"plimsoll_mode": "enforce", "plimsoll_disable_cron": False},
        ["/etc/crontab:7 (* * * * * limits)", "plimsoll_disable_cron: true"],
    ),
    "cron, beside one that looks": (
        {"cron": [{"file": "/etc/crontab", "line": 7, "text": "x"}]},
        {"plimsoll_disable_cron": False},
        [],
    ),
    "no interval": ({"calendar": False}, {"plimsoll_interval": "often"}, ["often", "systemd.time(7)"]),
    "a setting of the role's": (
        {},
        {"plimsoll_settings": {"DEFAULT": {"mode": "enforce", "rounds": 3, "state_dir": "/x"}}},
        ["[DEFAULT] mode, [DEFAULT] state_dir,"],
    ),
    "other settings": ({}, {"plimsoll_settings": {"brake": {"disks": 3}, "catalogue": {"keep_for": 60}}}, []),
    "rules twice": (
        {},
        {"plimsoll_rules": {"rules": []}, "plimsoll_rules_file": "{home}/rules.yaml"},
        ["Set only one"],
    ),
    "rules from a file": ({}, {"plimsoll_rules_file": "{home}/rules.yaml"}, []),
    "rules from nowhere": (
        {},
        {"plimsoll_rules_file": "{home}/no.yaml"},
        ["does not exist on the controller", "no.yaml"],
    ),
    "no credentials": ({}, {"plimsoll_catalogue_source": "openstack"}, ["plimsoll_openstack_conf", "vault"]),
    "credentials that are there": (
        {"paths": ["/etc/plimsoll/openstack.conf"]},
        {"plimsoll_catalogue_source": "openstack"},
        [],
    ),
    "credentials that the role removes": (
        {"paths": ["/etc/plimsoll/openstack.conf"], "marked": ["/etc/plimsoll/openstack.conf"]},
        {"plimsoll_catalogue_source": "openstack"},
        ["plimsoll_openstack_conf", "vault"],
    ),
    "a cloud of clouds.yaml": (
        {},
        {"plimsoll_catalogue_source": "openstack", "plimsoll_settings": {"catalogue": {"cloud": "r1"}}},
        [],
    ),
    "no region file": (
        {},
        {"plimsoll_catalogue_source": "region-file", "plimsoll_region_key": "k"},
        ["plimsoll_region_file is not set"],
    ),
    "no region key": (
        {},
        {"plimsoll_catalogue_source": "region-file", "plimsoll_region_file": "https://r/f"},
        ["Set plimsoll_region_key"],
    ),
    "no key of congestion": (
        {},
        {"plimsoll_congestion_files": ["https://r/congestion.json"]},
        ["Set plimsoll_congestion_key"],
    ),
    "a key of congestion that is there": (
        {"paths": ["/etc/plimsoll/congestion.pub"]},
        {"plimsoll_congestion_files": ["https://r/congestion.json"]},
        [],
    ),
    "a publisher without Prometheus": (
        {},
        {"plimsoll_congestion_signing_key": "k"},
        ["is told no Prometheus", "prometheus.url"],
    ),
    "a publisher": (
        {},
        {"plimsoll_congestion_signing_key": "k", "plimsoll_settings": {"prometheus": {"url": "http://p:9090"}}},
        [],
    ),
    "a keyring without ceph-common": (
        {"ceph": False},
        {"plimsoll_ceph_keyring": "[client.plimsoll]"},
        ["Install ceph-common"],
    ),
    "a keyring of others": (
        {"ceph": True},
        {"plimsoll_ceph_keyring": "[client.cinder]", "plimsoll_settings": {"ceph": {"id": "cinder"}}},
        ["would replace the keyring of client.cinder"],
    ),
    "a keyring by another name": (
        {"ceph": True},
        {"plimsoll_ceph_keyring": "[client.plimsoll-fra]", "plimsoll_settings": {"ceph": {"id": "plimsoll-fra"}}},
        [],
    ),
    "names for networks": (
        {},
        {"plimsoll_ceph_networks": ["192.0.2.0/24", "mon1"]},
        ["entries that are not networks: mon1."],
    ),
    "both kinds of networks": ({}, {"plimsoll_ceph_networks": ["192.0.2.0/24", "2001:db8::/32", "192.0.2.7"]}, []),
    "lists and numbers as text": (
        {},
        {
            "plimsoll_ceph_networks": "192.0.2.0/24,2001:db8::/32",
            "plimsoll_clock_tolerance": "60",
            "plimsoll_extras": "probes,openstack",
            "plimsoll_minimum_free_mib": "600",
        },
        [],
    ),
    "no networks as text": (
        {},
        {"plimsoll_ceph_networks": "mon1,192.0.2.0/24"},
        ["entries that are not networks: mon1. Write"],
    ),
    "not root": ({"root": False}, {}, ["Ansible is not root on this node", "ansible_become: true"]),
    "a relative directory": ({}, {"plimsoll_textfile_dir": "metrics"}, ["plimsoll_textfile_dir", "metrics"]),
    "no directory": ({}, {"plimsoll_textfile_dir": ""}, []),
}
VERSION = yaml.safe_load((ROLE / "defaults/main.yml").read_text())["plimsoll_version"]


def merged(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Mappings within are merged; a list or a value takes the other's place."""
    new = deepcopy(dict(base))
    for key, value in more.items():
        new[key] = merged(new[key], value) if isinstance(value, dict) and value and key in new else value
    return new


def filled(value: Any, home: Path) -> Any:
    return json.loads(json.dumps(value).replace("{home}", str(home)).replace("{version}", VERSION))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("preflight")
    link(home / "collections")
    (home / "rules.yaml").write_text("{}\n")
    return home


@pytest.fixture(scope="module", params=["newest", "oldest"])
def said(home: Path, request: pytest.FixtureRequest) -> Mapping[str, Mapping[str, list[str]]]:
    """The faults and remarks of each case, in one run of each Ansible: a host for each."""
    core = ansiblecore.environment() if request.param == "oldest" else {}
    hosts = {
        name: filled({"__agent_node": merged(FIT, node), **desired}, home)
        for name, (node, desired, _) in CASES.items()
    }
    defaults = yaml.safe_load((ROLE / "defaults/main.yml").read_text())
    (home / "hosts.yml").write_text(yaml.safe_dump({"all": {"vars": defaults, "hosts": hosts}}))
    show = {"msg": "{{ {'faults': __agent_faults, 'remarks': __agent_remarks} }}"}
    play = {"hosts": "all", "gather_facts": False, "vars_files": [str(ROLE / "vars/main.yml")]}
    (home / "play.yml").write_text(yaml.safe_dump([play | {"tasks": [{"ansible.builtin.debug": show}]}]))
    done = subprocess.run(
        [BIN / "ansible-playbook", "-i", home / "hosts.yml", home / "play.yml"],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ
        | {"ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json", "ANSIBLE_CONFIG": "/etc/hosts.none"}
        | {"ANSIBLE_COLLECTIONS_PATH": str(home / "collections")}
        | core,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    (task,) = json.loads(done.stdout[done.stdout.index("{") :])["plays"][0]["tasks"]
    return {host: result["msg"] for host, result in task["hosts"].items()}


@pytest.mark.parametrize("case", CASES)
def test_a_node_is_told_its_fault_and_nothing_else(
    said: Mapping[str, Mapping[str, list[str]]], home: Path, case: str
):
    words, faults = filled(CASES[case][2], home), said[case]["faults"]
    assert len(faults) == (1 if words else 0), faults
    for word in words:
        assert word in " ".join(faults[0].split())


def test_every_fault_that_can_be_told_is_told_in_a_case(said: Mapping[str, Mapping[str, list[str]]]):
    faults = [fault for case in said.values() for fault in case["faults"]]
    for question in yaml.safe_load((ROLE / "vars/main.yml").read_text())["__agent_questions"]:
        words = re.split(r"\{\{.*?\}\}", question["say"].strip(), flags=re.DOTALL)
        shape = re.compile(".*".join(map(re.escape, words)), re.DOTALL)
        assert any(shape.fullmatch(fault.strip()) for fault in faults), question["say"]


def test_what_deserves_a_look_stops_no_node(said: Mapping[str, Mapping[str, list[str]]]):
    assert said["fit"]["remarks"] == []
    assert "not synchronised" in said["a clock nobody keeps"]["remarks"][0]
    (cron,) = said["cron, beside one that looks"]["remarks"]
    assert "/etc/crontab:7 (x)" in cron
    assert "this preflight fails" in cron
