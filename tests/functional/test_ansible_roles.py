"""The collection's frame: every role's variables are described as they are, and its parts fit the project."""

from __future__ import annotations

import re
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab import ansiblecore

ROOT = Path(__file__).parents[2]
COLLECTION = ROOT / "ansible"
ROLES = sorted(path for path in (COLLECTION / "roles").iterdir() if path.is_dir())
# The variables by which playbooks know packages from containers.
DELIVERED = "__delivery_"
DESIRED = {"agent", "kolla", "probe_guest", "canary", "nagios", "prometheus", "qos"}


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def options(role: Path) -> dict[str, dict[str, Any]]:
    return dict(load(role / "meta/argument_specs.yml")["argument_specs"]["main"]["options"])


def defaults(role: Path) -> dict[str, Any]:
    return load(role / "defaults/main.yml") or {}


def parts(option: dict[str, Any]) -> list[dict[str, Any]]:
    """An option, and those within it."""
    return [option, *(part for inner in option.get("options", {}).values() for part in parts(inner))]


def test_all_roles_are_there():
    assert {role.name for role in ROLES} == DESIRED


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_every_variable_of_a_role_is_described_with_the_default_that_it_has(role: Path):
    described = options(role)
    required = {name for name, option in described.items() if option.get("required")}
    assert defaults(role) == {
        name: option.get("default") for name, option in described.items() if name not in required
    }
    assert required.isdisjoint(defaults(role))


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_every_description_says_type_and_meaning(role: Path):
    for name, option in options(role).items():
        for part in parts(option):
            assert part.get("type"), name
            assert part.get("description"), name
            assert part["type"] != "list" or part.get("elements"), name


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_a_variable_bears_the_name_of_the_collection_and_of_its_role(role: Path):
    """All roles and collections of a site share one space of names."""
    prefix = "plimsoll_" if role.name == "agent" else f"plimsoll_{role.name}_"
    assert [name for name in options(role) if not name.startswith(prefix)] == []


def test_no_variable_belongs_to_two_roles():
    names = [name for role in ROLES for name in options(role)]
    others = tuple(f"plimsoll_{role.name}_" for role in ROLES)
    assert sorted(set(names)) == sorted(names)
    assert [name for name in options(COLLECTION / "roles/agent") if name.startswith(others)] == []


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_a_role_sets_no_variable_that_is_not_its_own(role: Path):
    file = role / "vars/main.yml"
    names = set(load(file) or {}) if file.exists() else set()
    for tasks in (role / "tasks").glob("*.yml"):
        names |= set(re.findall(r"^\s*register: *(\w+)$", tasks.read_text(encoding="utf-8"), re.MULTILINE))
    assert [name for name in names if not name.startswith((f"__{role.name}_", DELIVERED))] == []


def test_packages_and_containers_are_the_same_to_playbooks():
    """What differs has the same names in both roles, and those are the ones that playbooks use."""
    roles = [load(COLLECTION / f"roles/{role}/vars/main.yml") for role in ("agent", "kolla")]
    agent, kolla = ({name for name in names if name.startswith(DELIVERED)} for names in roles)
    assert agent == kolla
    texts = (path.read_text(encoding="utf-8") for path in (COLLECTION / "playbooks").glob("*.yml"))
    used = {name for text in texts for name in re.findall(rf"\b{DELIVERED}\w+", text)}
    assert used - {f"{DELIVERED}counted"} == agent


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_a_variable_that_is_used_is_described(role: Path):
    """A default that went, or a slip in a name, is found only by the site that sets it."""
    others = {path.stem for path in COLLECTION.rglob("*.*")}  # modules, files
    # Of the playbooks; and the metadata that the role canary marks its guests with.
    known = {
        *options(role),
        *defaults(role),
        "plimsoll_group",
        "plimsoll_rollout_regions",
        "plimsoll_delivery",
        "plimsoll_canary",
        "plimsoll_probe",  # a container
        # Of an earlier version, and what took its place.
        "plimsoll_kolla_serial",
        "plimsoll_kolla_gate_timeout",
        "plimsoll_rollout_gate_timeout",
        "plimsoll_rollout_fraction",
    } | others
    for file in (path for path in role.rglob("*") if path.suffix in (".yml", ".j2", ".sources")):
        text = file.read_text(encoding="utf-8")
        local = set(re.findall(r"^ +(\w+):", text, re.MULTILINE))
        assert set(re.findall(r"(?<![\w/'^|])plimsoll_[a-z]\w*", text)) - known - local == set(), file


def test_the_collection_has_the_projects_version_and_the_agent_installs_that():
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    version = setup["metadata"]["version"]
    assert load(COLLECTION / "galaxy.yml")["version"] == version
    assert defaults(COLLECTION / "roles/agent")["plimsoll_version"] == version


def test_the_collection_requires_the_oldest_ansible_that_tests_use():
    assert load(COLLECTION / "meta/runtime.yml") == {"requires_ansible": f">={ansiblecore.OLDEST}"}
    for role in ROLES:
        said = load(role / "meta/main.yml")["galaxy_info"]["min_ansible_version"]
        assert f"{said}.0" == ansiblecore.OLDEST


def test_no_task_edits_or_restarts_libvirtd_or_nova():
    services = re.compile(r"name: *[\"']?(libvirtd|virtqemud|nova-compute|openstack-nova|devstack@)", re.IGNORECASE)
    places = re.compile(r"(dest|path): *[\"']?/etc/(libvirt|nova)\b")
    for file in COLLECTION.rglob("*.yml"):
        text = file.read_text(encoding="utf-8")
        assert not services.search(text), file
        assert not places.search(text), file
