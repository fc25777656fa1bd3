"""The collection's playbooks and sample inventory, by Ansible itself and without a node."""

from __future__ import annotations

import grp
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab import ansiblecore
from lab.collection import link

CHECKOUT = Path(__file__).parents[2]
PLAYBOOKS = CHECKOUT / "ansible/playbooks"
SAMPLE = CHECKOUT / "ansible/inventory.sample"
NAMES = ("rollout", "rollback", "undo", "status", "retire")
OTHER_ROLES = ("canary", "nagios", "probe_guest", "prometheus", "qos")
pytestmark = pytest.mark.usefixtures("programs_unmeasured")

# Nobody is asked here: each host is a name whose connection is the local one, and no task below starts a program.
REGIONS = """
plimsoll:
  vars: {ansible_connection: local, ansible_python_interpreter: PYTHON, plimsoll_rollout_regions: [south, north]}
  children:
    south: {hosts: {s1: {}, s2: {}, s3: {}}}
    north: {children: {north_cell1: {hosts: {n1: {}}}, north_cell2: {hosts: {n2: {}, n3: {}}}}}
north_canary: {hosts: {n2: {}}}
"""


@pytest.fixture(scope="module")
def collections(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place where Ansible finds the checkout's collection."""
    farm = tmp_path_factory.mktemp("collections")
    link(farm)
    return farm


class Ansible:
    def __init__(self, collections: Path, home: Path, core: Mapping[str, str] | None = None) -> None:
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")},
            **(core or {}),
            "ANSIBLE_COLLECTIONS_PATH": str(collections),
            "ANSIBLE_HOME": str(home / ".ansible"),
            "ANSIBLE_CONFIG": str(home / "none.cfg"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_LOCALHOST_WARNING": "0",
            "ANSIBLE_CALLBACK_RESULT_FORMAT": "yaml",
        }
        self.home = home

    def __call__(self, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        command = [str(Path(sys.executable).with_name(program)), *words]
        return subprocess.run(
            command, env=self._environment, cwd=self.home, text=True, capture_output=True, stdin=subprocess.DEVNULL
        )


# Each start of Ansible takes a second or two, so tests below share what can be asked of it at once.
@pytest.fixture
def ansible(collections: Path, tmp_path: Path) -> Ansible:
    return Ansible(collections, tmp_path)


@pytest.fixture
def inventory(tmp_path: Path) -> str:
    file = tmp_path / "hosts.yml"
    file.write_text(REGIONS.replace("PYTHON", sys.executable), encoding="utf-8")
    return str(file)


@pytest.fixture(params=["newest", "oldest"])
def each_ansible(collections: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Ansible:
    """Of both versions of ansible-core with which the collection is tested."""
    return Ansible(collections, tmp_path, ansiblecore.environment() if request.param == "oldest" else {})


def test_each_playbook_is_well_formed_with_the_sample_inventory(each_ansible: Ansible) -> None:
    playbooks = [str(PLAYBOOKS / f"{name}.yml") for name in (*NAMES, "kolla", "rehearsal", "return")]
    ended = each_ansible("ansible-playbook", "--syntax-check", "-i", str(SAMPLE), *playbooks)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert [line.split()[-1] for line in ended.stdout.splitlines() if line.startswith("playbook: ")] == playbooks


@pytest.fixture(scope="module")
def sample(collections: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The groups of the sample inventory, as Ansible reads them."""
    ended = Ansible(collections, tmp_path_factory.mktemp("sample"))("ansible-inventory", "-i", str(SAMPLE), "--list")
    assert ended.returncode == 0, ended.stderr
    assert "WARNING" not in ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def test_the_sample_inventory_has_two_regions_with_cells_and_canaries_that_are_among_their_hosts(
    sample: dict[str, Any],
) -> None:
    assert sample["plimsoll"]["children"] == ["ham", "fra"]

    def hosts(group: str) -> set[str]:
        below = sample.get(group, {})
        return set(below.get("hosts", ())).union(*map(hosts, below.get("children", ())))

    assert hosts("fra_canary")
    assert hosts("fra_canary") < hosts("fra")
    assert hosts("ham")
    assert not hosts("ham") & hosts("fra")


def test_the_sample_observes_everywhere(sample: dict[str, Any]) -> None:
    """Who follows the guide begins with it: a first rollout that enforced would set limits on every disk."""
    assert {each["plimsoll_mode"] for each in sample["_meta"]["hostvars"].values()} == {"observe"}


def test_the_sample_sets_only_what_the_role_or_a_playbook_knows(sample: dict[str, Any]) -> None:
    specs = yaml.safe_load((CHECKOUT / "ansible/roles/agent/meta/argument_specs.yml").read_text(encoding="utf-8"))
    playbooks = "".join((PLAYBOOKS / f"{name}.yml").read_text(encoding="utf-8") for name in NAMES)
    for variables in sample["_meta"]["hostvars"].values():
        for name in variables:
            if not name.startswith("vault_plimsoll_"):
                assert name in specs["argument_specs"]["main"]["options"] or name in playbooks, name


@pytest.mark.parametrize(("name", "page"), [("rehearsal", "failures"), ("return", "return")])
def test_every_variable_of_a_playbook_for_ceph_is_in_its_guide(name: str, page: str) -> None:
    guide = (CHECKOUT / f"docs/guide/{page}.rst").read_text(encoding="utf-8")
    text = "".join(path.read_text(encoding="utf-8") for path in PLAYBOOKS.rglob(f"*{name}*.yml"))
    variables = set(re.findall(rf"\bplimsoll_{name}_\w+", text))
    assert len(variables) > 10
    assert variables == set(re.findall(rf"``(plimsoll_{name}_\w+)``", guide))


def test_every_variable_of_the_playbooks_is_in_the_guide() -> None:
    guide = (CHECKOUT / "docs/guide/rollout.rst").read_text(encoding="utf-8")
    for name in NAMES:
        text = (PLAYBOOKS / f"{name}.yml").read_text(encoding="utf-8")
        words = "".join(each if each.isalnum() or each == "_" else " " for each in text).split()
        prefixes = ("rollout_", "rollback_", "undo_", "status_", "retire_", "group")
        variables = {word for word in words if word.startswith(tuple(f"plimsoll_{each}" for each in prefixes))}
        assert len(variables) > 1
        assert {each for each in variables if f"``{each}``" not in guide} == set()


def shown(ended: subprocess.CompletedProcess[str]) -> list[str]:
    """The batches that a rollout says it makes."""
    lines = ended.stdout.split("TASK [Show the batches]")[1].split("PLAY")[0].splitlines()
    said = [line.strip(" '-") for line in lines]
    return [line for line in said if ": " in line and ", " in line and not line.startswith("Left out")]


# "none" is a tag that no task has: what is left are the batches, their first task and the verdicts over them.
def batches(ansible: Ansible, inventory: str, *words: str) -> subprocess.CompletedProcess[str]:
    return ansible(
        "ansible-playbook",
        *("-i", inventory, str(PLAYBOOKS / "rollout.yml"), "--tags", "none", "--skip-tags", "preflight", *words),
    )


def test_regions_come_in_their_order_each_with_its_canaries_first_and_a_host_in_none_is_named(
    each_ansible: Ansible, inventory: str, tmp_path: Path
) -> None:
    (tmp_path / "more.yml").write_text("plimsoll: {hosts: {lost: {}}}\n", encoding="utf-8")
    ended = batches(each_ansible, inventory, "-i", str(tmp_path / "more.yml"))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert shown(ended) == [
        "south, canary: s1",
        "south, the first part: s2",
        "south, the rest: s3",
        "north, canary: n2",
        "north, the first part: n1",
        "north, the rest: n3",
    ]
    assert "Left out, since in none of plimsoll_rollout_regions: lost" in ended.stdout
    # And that is what the plays are made of, by Ansible's own word.
    reached = re.findall(r"^ok: \[(\w+)", ended.stdout.split("PLAY [Roll out]", 1)[1], re.MULTILINE)
    firsts = [host for number, host in enumerate(reached) if host not in reached[:number]]
    assert firsts == ["s1", "s2", "s3", "n2", "n1", "n3"]


def test_regions_and_the_share_are_as_told(ansible: Ansible, inventory: str) -> None:
    told = json.dumps({"plimsoll_rollout_regions": ["north"], "plimsoll_rollout_fraction": 100})
    assert shown(batches(ansible, inventory, "-e", told)) == ["north, canary: n2", "north, the first part: n1, n3"]


def test_regions_as_text_and_what_of_them_is_not_in_the_group(each_ansible: Ansible, inventory: str) -> None:
    """``-e`` knows only text; and a region that is not below the group would be left out without a word."""
    (each_ansible.home / "more.yml").write_text("west: {hosts: {w1: {}, w2: {}}}\n", encoding="utf-8")
    words = ("-i", str(each_ansible.home / "more.yml"), "-e", "plimsoll_rollout_regions=north,west")
    ended = batches(each_ansible, inventory, *words, "-e", "plimsoll_rollout_fraction=100")
    assert shown(ended) == ["north, canary: n2", "north, the first part: n1, n3"], ended.stdout + ended.stderr
    assert "Left out, since not in the group plimsoll: w1, w2" in ended.stdout


def test_a_limit_leaves_out_hosts_and_each_region_begins_with_a_canary_all_the_same(
    ansible: Ansible, inventory: str
) -> None:
    ended = batches(ansible, inventory, "--limit", "s2,s3,n1")
    assert shown(ended) == ["south, canary: s2", "south, the first part: s3", "north, canary: n1"]
    assert "Left out, since" not in ended.stdout


def test_without_batches_no_host_is_touched(ansible: Ansible, inventory: str) -> None:
    ended = batches(ansible, inventory, "--skip-tags", "always")
    assert "no hosts matched" in ended.stdout
    assert "ok: [" not in ended.stdout


def test_a_host_in_two_regions_is_refused_by_name(ansible: Ansible, inventory: str, tmp_path: Path) -> None:
    (tmp_path / "more.yml").write_text("south: {hosts: {n1: {}}}\n", encoding="utf-8")
    ended = batches(ansible, inventory, "-i", str(tmp_path / "more.yml"))
    assert ended.returncode != 0
    assert "n1 is in two regions, south and north" in " ".join((ended.stdout + ended.stderr).split())


def test_without_regions_a_rollout_says_what_to_set(ansible: Ansible, inventory: str) -> None:
    ended = batches(ansible, inventory, "-e", json.dumps({"plimsoll_rollout_regions": []}))
    assert ended.returncode != 0
    assert "plimsoll_rollout_regions is not set: name the groups" in " ".join(ended.stdout.split())


def test_another_delivery_is_refused(ansible: Ansible, inventory: str) -> None:
    ended = batches(ansible, inventory, "-e", "plimsoll_delivery=docker")
    assert ended.returncode != 0
    assert "plimsoll_delivery is docker: set it to package or to container" in " ".join(ended.stdout.split())


def test_kolla_s_playbook_is_the_rollout_of_one_region_with_the_tasks_of_containers(ansible: Ansible) -> None:
    """Kolla's own inventory has no groups of plimsoll's; the role is chosen when the playbook is read."""
    known = {"compute": {"vars": {"ansible_connection": "local"}, "hosts": {"c1": {}, "c2": {}, "c3": {}}}}
    (ansible.home / "multinode.yml").write_text(yaml.safe_dump(known), encoding="utf-8")
    words = ("-i", "multinode.yml", str(PLAYBOOKS / "kolla.yml"))
    listed = ansible("ansible-playbook", *words, "--list-tasks").stdout
    assert "plimsoll.cloud.kolla : " in listed
    assert "plimsoll.cloud.agent : " not in listed
    told = ansible(
        "ansible-playbook", *words, "--tags", "none", "--skip-tags", "preflight", "-e", "ansible_become=false"
    )
    assert shown(told) == ["compute, canary: c1", "compute, the first part: c2", "compute, the rest: c3"]


def test_the_group_of_the_nodes_is_a_variable_of_a_run_or_of_a_playbook_around_it(
    ansible: Ansible, inventory: str
) -> None:
    for name in NAMES:
        around = {"ansible.builtin.import_playbook": f"plimsoll.cloud.{name}", "vars": {"plimsoll_group": "south"}}
        (ansible.home / f"{name}.yml").write_text(yaml.safe_dump([around]), encoding="utf-8")
    chosen = [*(str(PLAYBOOKS / f"{name}.yml") for name in NAMES), "-e", "plimsoll_group=north_cell2"]
    for words, hosts in ((chosen, {"n2", "n3"}), ([f"{name}.yml" for name in NAMES], {"s1", "s2", "s3"})):
        listed = ansible("ansible-playbook", "-i", inventory, "--list-hosts", *words).stdout.split("playbook: ")[1:]
        firsts = [set(re.findall(r"^ +(\w+)$", each.split("play #2")[0], re.MULTILINE)) for each in listed]
        assert firsts == [hosts] * len(NAMES)


# --- names of an earlier version


def test_a_variable_that_is_set_by_the_name_of_an_earlier_version_stops_each_role_at_once(ansible: Ansible) -> None:
    """All of them, each on a host of its own; what another role of the site may use has both names."""
    specs = {role: CHECKOUT / f"ansible/roles/{role}/meta/argument_specs.yml" for role in OTHER_ROLES}
    options = {
        role: yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"]["main"]["options"]
        for role, path in specs.items()
    }
    old = {role: [name.removeprefix("plimsoll_") for name in names] for role, names in options.items()}
    old["qos"][old["qos"].index("qos_command")] = "qos_plimsoll"
    known = {role: dict.fromkeys(names, "x") for role, names in old.items()}
    for role, (name, *_) in options.items():
        known[role][name] = options[role][name]["default"]
    connection = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (ansible.home / "hosts.yml").write_text(
        yaml.safe_dump({"all": {"vars": connection, "hosts": known}}), encoding="utf-8"
    )
    tasks = [
        {"ansible.builtin.import_role": {"name": f"plimsoll.cloud.{role}"}, "when": f"inventory_hostname == '{role}'"}
        for role in OTHER_ROLES
    ]
    play = {"hosts": "all", "gather_facts": False, "tasks": tasks}
    (ansible.home / "old.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")
    ran = ansible("ansible-playbook", "-i", "hosts.yml", "old.yml")
    said = " ".join(ran.stdout.split())
    for role, names in old.items():
        told = re.search(
            rf"whose names begin with plimsoll_ now: ((?:{role}_\w+(?:, | \(plimsoll_qos_command\))*)+)\.", said
        )
        assert told is not None, ran.stdout + ran.stderr
        assert sorted(each.split()[0] for each in told[1].split(", ")) == sorted(names[1:])


@pytest.mark.parametrize(
    ("name", "variable", "new"),
    [
        ("retire", "retire_limits", "plimsoll_retire_limits"),
        ("retire", "agent_mode", "plimsoll_mode"),
        ("rollback", "agent_repository", "plimsoll_repository"),
        ("status", "status_output", "plimsoll_status_output"),
        ("rollout", "rollout_regions", "plimsoll_rollout_regions"),
    ],
)
def test_a_variable_that_is_set_by_the_name_of_an_earlier_version_stops_a_playbook(
    ansible: Ansible, inventory: str, name: str, variable: str, new: str
) -> None:
    given = {"plimsoll_rollout_regions": [], "plimsoll_rollback_to": "0.1.0", variable: "x"}
    ended = ansible("ansible-playbook", "-i", inventory, str(PLAYBOOKS / f"{name}.yml"), "-e", json.dumps(given))
    said = " ".join((ended.stdout + ended.stderr).split())
    assert ended.returncode != 0
    assert variable in said
    assert new in said
    assert ended.stdout.count("TASK [") <= 2, "nothing was done"


def test_status_of_a_host_without_plimsoll_says_that_it_is_not_installed(
    each_ansible: Ansible, inventory: str, tmp_path: Path
) -> None:
    """Each of both versions of Ansible has its own words for a program that is missing."""
    output = tmp_path / "status"
    options = {"plimsoll_delivery": "container", "plimsoll_kolla_engine": "/usr/bin/no-engine"}
    options["plimsoll_status_output"] = str(output)
    ended = each_ansible(
        "ansible-playbook", "-i", inventory, str(PLAYBOOKS / "status.yml"), "--limit", "s1", "-e", json.dumps(options)
    )
    assert ended.returncode == 0, ended.stdout
    assert output.read_text() == "s1: plimsoll is not installed: there is no /usr/bin/no-engine\n"


# --- how many disks, over all nodes


def sums(ansible: Ansible, playbook: str, name: str, hosts: Mapping[str, Any], *words: str) -> tuple[bool, str]:
    """Whether a play goes on after its sums over hosts, and what it says: its tasks that touch no node."""
    (play,) = [
        each
        for each in yaml.safe_load((PLAYBOOKS / f"{playbook}.yml").read_text(encoding="utf-8"))
        if each["name"] == name
    ]
    tasks = [task for each in play["tasks"] for task in each.get("block", [each])]
    shown = [
        task for task in tasks if re.search("number|Show how many|Keep the mode", task["name"])
        if "ansible.builtin.pause" not in task
    ]  # fmt: skip
    assert len(shown) == {"rollout": 3, "rollback": 1}[playbook], [task["name"] for task in tasks]
    connection = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    connection["__delivery_mode"] = "enforce"
    (ansible.home / "hosts.yml").write_text(yaml.safe_dump({"all": {"vars": connection, "hosts": dict(hosts)}}))
    alone = {"hosts": "all", "gather_facts": False, "vars": play["vars"], "tasks": shown}
    (ansible.home / "sums.yml").write_text(yaml.safe_dump([alone]))
    ran = ansible("ansible-playbook", "-i", "hosts.yml", "sums.yml", *words)
    return ran.returncode == 0, " ".join((ran.stdout + ran.stderr).split())


def test_large_changes_are_counted_over_all_nodes_that_can_tell(ansible: Ansible) -> None:
    """No node's brake sees 40 and 30 disks together; one that has no plimsoll, or an old one, tells nothing."""
    counted = {"n1": ["40", "300"], "n2": ["30", "300"], "n3": []}
    hosts = {name: {"__delivery_counted": {"stdout_lines": lines}} for name, lines in counted.items()} | {"n4": {}}
    goes_on, said = sums(ansible, "rollout", "Count large changes over all nodes", hosts)
    assert not goes_on
    assert (
        "would change 70 of 600 disks much, or at all where mode enforce begins, on the 2 of 4 nodes that can" in said
    )
    assert "-e plimsoll_rollout_large=70" in said
    assert sums(ansible, "rollout", "Count large changes over all nodes", hosts, "-e", "plimsoll_rollout_large=70")[0]
    of_many = {"n1": {"__delivery_counted": {"stdout_lines": ["70", "9000"]}}}
    assert sums(ansible, "rollout", "Count large changes over all nodes", of_many)[0], "less than 1 %"


def test_large_changes_stop_all_hosts_where_any_of_them_enforces(ansible: Ansible) -> None:
    counted = {"__delivery_counted": {"stdout_lines": ["70", "600"]}}
    observing = counted | {"__delivery_mode": "observe"}
    play = "Count large changes over all nodes"
    goes_on, said = sums(ansible, "rollout", play, {"n1": observing, "n2": counted})
    assert not goes_on
    assert re.findall(r"(n\d) : ok=\d .*? failed=(\d)", said) == [("n1", "1"), ("n2", "0")], (
        "asked once, none goes on"
    )
    assert sums(ansible, "rollout", play, {"n1": observing, "n2": observing})[0]


def test_a_host_whose_rules_cannot_be_read_is_not_counted_and_stays_in_the_rollout(each_ansible: Ansible) -> None:
    variables = {"plimsoll_rules_file": "/none/rules.yaml", "ansible_python_interpreter": sys.executable}
    tasks = [
        {"ansible.builtin.import_role": {"name": "plimsoll.cloud.agent", "tasks_from": "count"}},
        {"ansible.builtin.assert": {"that": "__delivery_counted is failed"}, "name": "Go on"},
    ]
    play = {"hosts": "all", "gather_facts": False, "connection": "local", "vars": variables, "tasks": tasks}
    (each_ansible.home / "count.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")
    ended = each_ansible("ansible-playbook", "-i", "n1,", "count.yml")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "TASK [Go on]" in ended.stdout


def test_a_canary_that_failed_before_the_rollout_ends_it(each_ansible: Ansible, inventory: str) -> None:
    fails = {"ansible.builtin.fail": {}, "when": "inventory_hostname == 's1'", "tags": "always"}
    before = {"hosts": "s1,s2", "gather_facts": False, "tasks": [fails]}
    around = [before, {"ansible.builtin.import_playbook": "plimsoll.cloud.rollout"}]
    (each_ansible.home / "site.yml").write_text(yaml.safe_dump(around), encoding="utf-8")
    ended = each_ansible(
        "ansible-playbook", "-i", inventory, "site.yml", "--tags", "none", "--skip-tags", "preflight"
    )
    assert ended.returncode != 0
    assert "no host of the batch before is left: s1 failed above" in " ".join(ended.stdout.split())
    assert "TASK [Read the node's state]" not in ended.stdout


def test_a_rollback_restores_the_number_of_disks_of_all_nodes_that_was_typed(ansible: Ansible) -> None:
    common = {"__rollback_undoes": True, "__rollback_node": {"stdout_lines": ["0.2.0"]}}
    hosts = {"n1": {"__rollback_disks": 40}, "n2": {"__rollback_disks": 30}, "n3": {}}
    words = ("-e", json.dumps(common | {"plimsoll_rollback_to": "0.1.0"}))
    goes_on, said = sums(ansible, "rollback", "Roll back", hosts, *words)
    assert not goes_on
    assert "70 disks would be" in said
    assert sums(ansible, "rollback", "Roll back", hosts, *words, "-e", "plimsoll_rollback_disks=70")[0]
    assert not sums(ansible, "rollback", "Roll back", hosts, *words, "-e", "plimsoll_rollback_disks=40")[0]


@pytest.mark.parametrize(("day", "rest"), [("yesterday", "22:00"), ("2026-11-20T14:02", "CET")])
def test_a_rollback_of_limits_needs_a_time_with_its_hour(
    ansible: Ansible, inventory: str, day: str, rest: str
) -> None:
    """Of ``yesterday 22:00`` Ansible leaves the day, and all limits since midnight would go back."""
    words = ("-e", "plimsoll_rollback_to=0.1.0", "-e", f"plimsoll_rollback_limits_since={day} {rest}")
    ended = ansible("ansible-playbook", "-i", inventory, str(PLAYBOOKS / "rollback.yml"), *words)
    assert ended.returncode != 0
    actual = f"plimsoll_rollback_limits_since is {day}, without {rest}: give the time"
    assert actual in " ".join(ended.stdout.split())


def rolled_back(ansible: Ansible, plimsoll: list[str], *words: str) -> subprocess.CompletedProcess[str]:
    """The tasks of a rollback from its plan of the undo, with this command in place of the earlier version's."""
    (play,) = yaml.safe_load((PLAYBOOKS / "rollback.yml").read_text(encoding="utf-8"))
    tasks = [task for each in play["tasks"] for task in each.get("block", [each])]
    names = [task["name"] for task in tasks]
    variables = play["vars"] | {
        "ansible_python_interpreter": sys.executable,
        "plimsoll_rollback_to": "registry/plimsoll:0.1.0",
        "plimsoll_rollback_limits_since": "14:02",
        "__rollback_node": {"stdout_lines": ["registry/plimsoll:0.2.0"]},
        "__delivery_new": plimsoll,
        "__delivery_running": ["true"],
        "__delivery_words": "",
    }
    alone = {"hosts": "all", "connection": "local", "gather_facts": False, "vars": variables}
    alone["tasks"] = tasks[names.index("Plan the undo") :]
    (ansible.home / "rollback.yml").write_text(yaml.safe_dump([alone]), encoding="utf-8")
    return ansible("ansible-playbook", "-i", "n1,", "rollback.yml", *words)


def test_a_check_of_a_rollback_goes_on_without_the_image_that_it_would_run(ansible: Ansible) -> None:
    missing = ["sh", "-c", "echo no such image >&2; exit 125"]
    ended = rolled_back(ansible, missing, "--check")
    assert ended.returncode == 0, ended.stdout
    assert "- no such image" in ended.stdout
    assert rolled_back(ansible, missing).returncode != 0


@pytest.mark.parametrize(
    ("rest", "tries_again"),
    [({"planned": 0, "deferred": 0, "left-alone": 2}, False), ({"planned": 0, "deferred": 1, "left-alone": 1}, True),
     (None, True)],
)  # fmt: skip
def test_a_rollback_fails_only_where_another_undo_may_restore_more_and_names_one_that_keeps_the_pause(
    each_ansible: Ansible, rest: dict[str, int] | None, tries_again: bool
) -> None:
    printed = "" if rest is None else json.dumps({"since": "2026-11-20T14:02:00+00:00", "counts": rest})
    script = f'echo "$*" >> calls; case "$*" in *--dry-run*) echo \'{printed}\' ;; *--yes) exit 3 ;; esac'
    ended = rolled_back(each_ansible, ["sh", "-c", script, "plimsoll"])
    said = " ".join(ended.stdout.split())
    assert (ended.returncode != 0) == tries_again, ended.stdout
    assert ("Not all limits were restored, see above. To try again, and keep the pause:" in said) == tries_again
    assert ("-e plimsoll_undo_paused=true" in said) == tries_again
    reason = "not all limits were restored" if tries_again else "to the limits before 14:02"
    assert (each_ansible.home / "calls").read_text().endswith(f"{reason}\n"), "the node is paused"


# --- a host that fails


def failing(
    ansible: Ansible, node: str, failure: Mapping[str, Any], variables: Mapping[str, Any] | None = None
) -> subprocess.CompletedProcess[str]:
    """The tasks of a rollout from the first that fails, on a canary whose first task ran ``node``."""
    plays = yaml.safe_load((PLAYBOOKS / "rollout.yml").read_text(encoding="utf-8"))
    (play,) = [each for each in plays if each["name"] == "Roll out"]
    (block,) = [task for task in play["tasks"] if "block" in task]
    after = play["tasks"][play["tasks"].index(block) + 1 :]
    tasks = [
        {"ansible.builtin.shell": node, "register": "__rollout_node"},
        {"name": block["name"], "block": [failure], "rescue": block["rescue"]},
        *(task for task in after if "Prometheus" not in task["name"]),
    ]
    batches = [{"region": "r1", "stage": "canary", "hosts": ["n1"]}]
    known = {
        "__rollout": {"batches": batches, "numbers": {"n1": 0}, "max_fail_percentage": 0, "since": "2026-11-20"}
        | {"back": [], "before": []},
        "__rollout_said": {"so_far": []},
        "__delivery_version": "0.2.0",
        "__delivery_words": "",
        "__delivery_installed": "echo 0.1.0-1",
        "plimsoll_rollout_limit_directory": str(ansible.home),
    }
    everywhere = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable} | known
    hosts = {"all": {"vars": everywhere | dict(variables or {}), "hosts": {"n1": {}, "localhost": {}}}}
    (ansible.home / "hosts.yml").write_text(yaml.safe_dump(hosts), encoding="utf-8")
    reduced = {"hosts": "n1", "gather_facts": False, "vars": play["vars"], "tasks": tasks}
    (ansible.home / "failing.yml").write_text(yaml.safe_dump([reduced]), encoding="utf-8")
    return ansible("ansible-playbook", "-i", "hosts.yml", "failing.yml")


def test_a_template_in_what_a_node_prints_is_shown_and_not_run(each_ansible: Ansible) -> None:
    printed = "printf 'refused: %s{ 6 * 7 }}' '{' >&2; exit 1"
    ended = failing(each_ansible, "echo none", {"name": "Install", "ansible.builtin.shell": printed})
    assert "n1: Install: refused: {{ 6 * 7 }}" in " ".join(ended.stdout.split()), ended.stdout
    assert "refused: 42" not in ended.stdout
    assert (each_ansible.home / "rollout-go-on.limit").read_text() == "n1\n"


def test_a_rollout_that_was_continued_is_rolled_back_as_a_whole(each_ansible: Ansible, inventory: str) -> None:
    home = each_ansible.home
    down = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}

    def rollout(host: str, *words: str) -> tuple[list[str], Any]:
        """With this host down: the hosts to roll back, and what is kept for the rollout that continues it."""
        (home / "down.yml").write_text(yaml.safe_dump({"plimsoll": {"hosts": {host: down}}}), encoding="utf-8")
        before = {"plimsoll_rollout_limit_directory": str(home), "__delivery_installed": "echo 0.0.9-1"}
        ended = batches(each_ansible, inventory, "-i", str(home / "down.yml"), "-e", json.dumps(before), *words)
        assert "STOPPED at" in ended.stdout, ended.stdout + ended.stderr
        back = (home / "rollout-back.limit").read_text().split()
        return back, json.loads((home / "rollout-begun.json").read_text())

    back, begun = rollout("s3")
    assert back == ["s1", "s2", "s3"]
    assert begun == {"since": begun["since"], "before": ["0.0.9-1"], "back": back}
    continued, same = rollout("n1", "--limit", "@rollout-go-on.limit")
    assert continued == ["s1", "s2", "s3", "n2", "n1"]
    assert same == begun | {"back": continued}
    assert rollout("s2", "--limit", "south")[0] == ["s1", "s2"], "that is another rollout"


# --- what the role agent enables


ROLE = CHECKOUT / "ansible/roles/agent"
ENABLED = "plimsoll-enforce.timer"
DAEMON = "plimsoll-daemon.service"
PUBLISH, FETCH = "plimsoll-congestion-publish.service", "plimsoll-congestion-fetch.service"


DROP_IN = "/etc/systemd/system/plimsoll-{}.d/50-ansible.conf"


def written(unit: str, changed: bool = True) -> dict[str, Any]:
    """What the task that writes drop-ins returns for this one."""
    return {"results": [{"changed": changed, "item": {"path": DROP_IN.format(unit)}}]}


KEY = {"results": [{"changed": True, "item": {"path": "/etc/plimsoll/congestion.key"}}]}
REMOVED = {"results": [{"changed": True, "item": DROP_IN.format("daemon.service")}]}
CHANGED = {"changed": True}
# By the name of a node: the units that are enabled on it, and what is set.
WITH_DAEMON = [ENABLED, DAEMON], {"plimsoll_daemon": True}
REDUCTIONS: Mapping[str, list[str]] = {
    **{name: [] for name in ("never_reduced", "as_it_was", "from_daemon")},
    "shared": ["/var/lib/plimsoll/ceilings.json"],
}
# What an earlier run has written and not restarted.
UNREAD: Mapping[str, dict[str, list[str]]] = {
    "rights_before": {"restarts": [DAEMON], "reloads": []},
    "rules_before": {"restarts": [PUBLISH, FETCH], "reloads": [DAEMON]},
}
NODES: Mapping[str, tuple[list[str], dict[str, Any]]] = {
    "to_daemon": ([ENABLED], {"plimsoll_daemon": True}),
    "from_daemon": ([ENABLED, DAEMON], {}),
    "stopped": (WITH_DAEMON[0], {**WITH_DAEMON[1], "plimsoll_timers": "stopped"}),
    "never_reduced": (WITH_DAEMON[0], {**WITH_DAEMON[1], "plimsoll_timers": "stopped"}),
    "shared": (WITH_DAEMON[0], {**WITH_DAEMON[1], "plimsoll_timers": "stopped"}),
    "stopped_before": ([], {**WITH_DAEMON[1], "plimsoll_timers": "stopped"}),
    "enforces": (WITH_DAEMON[0], {**WITH_DAEMON[1], "plimsoll_mode": "enforce", "__agent_settings_written": CHANGED}),
    "observes": (WITH_DAEMON[0], {**WITH_DAEMON[1], "__agent_settings_written": CHANGED}),
    "kept": (WITH_DAEMON[0], {**WITH_DAEMON[1], "plimsoll_timers": "kept"}),
    "openstack": (["plimsoll-catalogue.path"], {"plimsoll_catalogue_source": "openstack"}),
    "region_file": (["plimsoll-catalogue.path"], {"plimsoll_catalogue_source": "region-file"}),
    "fetches": ([ENABLED], {"plimsoll_congestion_files": ["https://r/c.json"]}),
    "published": ([ENABLED, PUBLISH, FETCH], {}),
    "another_key": ([ENABLED, PUBLISH], {"__agent_credentials_written": KEY}),
    "as_it_was": WITH_DAEMON,
    "rules": (WITH_DAEMON[0], {**WITH_DAEMON[1], "__agent_rules_written": {"changed": True}}),
    "rights_of_passes": (WITH_DAEMON[0], {**WITH_DAEMON[1], "__agent_drop_ins_written": written("enforce.timer")}),
    "rights": (WITH_DAEMON[0], {**WITH_DAEMON[1], "__agent_drop_ins_written": written("daemon.service")}),
    "same_rights": (
        WITH_DAEMON[0],
        {**WITH_DAEMON[1], "__agent_drop_ins_written": written("daemon.service", changed=False)},
    ),
    "rights_before": WITH_DAEMON,
    "rules_before": WITH_DAEMON,
    "no_rights": (WITH_DAEMON[0], {**WITH_DAEMON[1], "__agent_unneeded_removed": REMOVED}),
}


@pytest.fixture(scope="module")
def decided(collections: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the role decides on each of these nodes."""
    ansible = Ansible(collections, tmp_path_factory.mktemp("units"))
    defaults = yaml.safe_load((ROLE / "defaults/main.yml").read_text(encoding="utf-8"))
    hosts = {
        name: defaults
        | variables
        | {
            "__agent_node": {
                "plimsoll": {"timers": enabled} | UNREAD.get(name, {"restarts": [], "reloads": []}),
                "reductions": REDUCTIONS.get(name, ["/var/lib/plimsoll/factors.json"]),
            }
        }
        for name, (enabled, variables) in NODES.items()
    }
    connection = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (ansible.home / "hosts.yml").write_text(
        yaml.safe_dump({"all": {"vars": connection, "hosts": hosts}}), encoding="utf-8"
    )
    task = {
        "ansible.builtin.copy": {
            "content": "{{ {'units': __agent_changed_timers | dict2items, 'restarts': __agent_daemon_restarts,"
            " 'reloads': __agent_daemon_reloads,"
            " 'congestion': __agent_congestion_restarts, 'restores': __agent_restores} | to_json }}",
            "dest": f"{ansible.home}/{{{{ inventory_hostname }}}}.json",
            "mode": "0600",
        }
    }
    play = {"hosts": "all", "gather_facts": False, "vars_files": [str(ROLE / "vars/main.yml")], "tasks": [task]}
    (ansible.home / "units.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")
    ran = ansible("ansible-playbook", "-i", "hosts.yml", "units.yml")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return {name: json.loads((ansible.home / f"{name}.json").read_text(encoding="utf-8")) for name in NODES}


def units(decided: dict[str, Any], node: str) -> dict[str, bool]:
    return {each["key"]: each["value"] for each in decided[node]["units"]}


def test_the_timer_of_passes_is_enabled_before_the_daemon_starts_and_stays_when_it_ends(
    decided: dict[str, Any],
) -> None:
    assert list(units(decided, "to_daemon").items()) == [(ENABLED, True), (DAEMON, True)]
    assert list(units(decided, "from_daemon").items()) == [(ENABLED, True), (DAEMON, False)]


def test_stopped_timers_are_a_stopped_daemon_and_kept_ones_a_kept_one(decided: dict[str, Any]) -> None:
    assert units(decided, "stopped") == {ENABLED: False, DAEMON: False}
    assert units(decided, "kept") == {}


@pytest.mark.parametrize(("source", "watched"), [("openstack", True), ("region_file", False)])
def test_attachments_wake_the_refresher_only_where_it_asks_cinder(
    decided: dict[str, Any], source: str, watched: bool
) -> None:
    there = units(decided, source)
    assert (there["plimsoll-catalogue.timer"], there["plimsoll-catalogue.path"]) == (True, watched)


def test_congestion_is_fetched_where_it_has_files_and_published_where_there_is_a_key(decided: dict[str, Any]) -> None:
    assert units(decided, "fetches") == {ENABLED: True, FETCH: True}
    assert units(decided, "published") == {ENABLED: True, PUBLISH: False, FETCH: False}


@pytest.mark.parametrize(
    ("node", "restarts"),
    [
        ("as_it_was", []),
        ("rules", [PUBLISH, FETCH]),
        ("rules_before", [PUBLISH, FETCH]),
        ("rights_before", []),
        ("another_key", [PUBLISH]),
    ],
)
def test_what_reads_settings_or_its_key_only_when_it_starts_is_restarted(
    decided: dict[str, Any], node: str, restarts: list[str]
) -> None:
    """With the old key nodes refuse every file, and x returns to 1."""
    assert sorted(decided[node]["congestion"]) == sorted(restarts)


def test_a_retired_host_keeps_no_secret_that_the_role_wrote() -> None:
    """Without plimsoll_retire_state its settings stay; a key that nodes trust must not."""
    role = yaml.safe_load((ROLE / "vars/main.yml").read_text(encoding="utf-8"))
    [task] = [
        task
        for play in yaml.safe_load((PLAYBOOKS / "retire.yml").read_text(encoding="utf-8"))
        for task in play["tasks"]
        if "credentials" in task["name"]
    ]
    names = [Path(each["path"]).name for each in role["__agent_secret_files"] if "__agent_etc" in each["path"]]
    assert len(names) > 1
    assert [name for name in names if f"'/etc/plimsoll/{name}'" not in task["loop"]] == []


@pytest.mark.parametrize(
    ("node", "restarts"),
    [
        ("as_it_was", False),
        ("rules", False),
        ("rights_of_passes", False),
        ("rights", True),
        ("rights_before", True),
        ("rules_before", False),
        ("same_rights", False),
        ("no_rights", True),
    ],
)
def test_a_daemon_is_restarted_for_other_rights_only(decided: dict[str, Any], node: str, restarts: bool) -> None:
    assert decided[node]["restarts"] is restarts


@pytest.mark.parametrize(("node", "reloads"), [("as_it_was", False), ("rules", True), ("rules_before", True)])
def test_a_daemon_is_reloaded_for_settings_that_it_has_not_read(
    decided: dict[str, Any], node: str, reloads: bool
) -> None:
    assert decided[node]["reloads"] is reloads


@pytest.mark.parametrize(
    ("node", "restores"),
    [
        ("stopped", True),
        ("shared", True),
        ("stopped_before", False),
        ("never_reduced", False),
        ("observes", True),
        ("enforces", False),
        ("as_it_was", False),
        ("from_daemon", False),
        ("kept", False),
    ],
)
def test_limits_are_restored_before_no_pass_does_so_any_more(
    decided: dict[str, Any], node: str, restores: bool
) -> None:
    assert decided[node]["restores"] is restores


def test_containers_have_the_keys_of_what_they_fetch_and_publish_and_passes_those_to_check_what_came(
    collections: Path, tmp_path: Path
) -> None:
    """The words are those of the units of packages; the key that signs is in no other container."""
    ansible, role, files = (
        Ansible(collections, tmp_path / "home"),
        CHECKOUT / "ansible/roles/kolla",
        tmp_path / "files",
    )
    files.mkdir()
    ansible.home.mkdir()
    for name in ("plimsoll.conf", "rules.yaml", "ceph.conf", "congestion.pub", "congestion.key", "region.pub"):
        (files / name).write_text("")
    variables = yaml.safe_load((role / "defaults/main.yml").read_text(encoding="utf-8"))
    variables |= {"ansible_python_interpreter": sys.executable}
    variables |= {"plimsoll_kolla_files": str(files), "plimsoll_kolla_image": "x", "plimsoll_kolla_engine": "podman"}
    enabled = ("catalogue", "probes", "congestion_fetch", "congestion_publish")
    variables |= {f"plimsoll_kolla_{name}": True for name in enabled}
    task = {
        "ansible.builtin.template": {
            "src": str(role / "templates/config.json.j2"),
            "dest": f"{tmp_path}/{{{{ item }}}}",
        },
        "loop": "{{ __kolla_containers }}",
    }
    play = {"hosts": "localhost", "gather_facts": False, "connection": "local", "vars": variables}
    play |= {"vars_files": [str(role / "vars/main.yml")], "tasks": [task]}
    (ansible.home / "config.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")
    ran = ansible("ansible-playbook", "-i", "localhost,", "config.yml")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    read = {path.name: json.loads(path.read_text()) for path in tmp_path.glob("plimsoll*")}
    paths = {
        name: {Path(each["source"]).name: each["perm"] for each in its["config_files"]} for name, its in read.items()
    }
    passes = {"plimsoll", "plimsoll-probe"}
    assert {name for name, its in paths.items() if "congestion.pub" in its} == passes | {FETCH.partition(".")[0]}
    assert {name for name, its in paths.items() if "region.pub" in its} == passes | {"plimsoll-catalogue"}
    assert {name: its["congestion.key"] for name, its in paths.items() if "congestion.key" in its} == {
        PUBLISH.partition(".")[0]: "0600"
    }
    for unit in (FETCH, PUBLISH):
        text = (CHECKOUT / "systemd" / unit).read_text(encoding="utf-8")
        assert f"ExecStart=/opt/plimsoll/current/bin/{read[unit.partition('.')[0]]['command']}\n" in text


def test_users_join_libvirts_group_where_polkit_and_not_the_socket_judges_them(ansible: Ansible) -> None:
    """polkit reads the user database: the unit's SupplementaryGroups= alone let the first pass fail there."""
    tasks = yaml.safe_load((ROLE / "tasks/configure.yml").read_text(encoding="utf-8"))
    [task] = [task for task in tasks if "ansible.builtin.user" in task]
    group = grp.getgrgid(0).gr_name
    sockets: dict[str, tuple[str | None, int | None, bool]] = {
        "el": ("/run/libvirt/virtqemud-sock", None, True),
        "debian": ("/run/libvirt/libvirt-sock", 110, True),
        "no_socket": (None, None, True),
        "not_installed": ("/run/libvirt/virtqemud-sock", None, False),
    }
    hosts = {
        name: {
            "__agent_node": {"libvirt": {"socket": socket, "socket_group": owner, "group_name": group}},
            "__agent_is_installed": is_installed,
        }
        for name, (socket, owner, is_installed) in sockets.items()
    }
    connection = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (ansible.home / "hosts.yml").write_text(
        yaml.safe_dump({"all": {"vars": connection, "hosts": hosts}}), encoding="utf-8"
    )
    play = {"hosts": "all", "gather_facts": False, "tasks": [task]}
    (ansible.home / "users.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")
    ran = ansible("ansible-playbook", "--check", "-i", "hosts.yml", "users.yml")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    joined = [line for line in ran.stdout.splitlines() if line.startswith(("changed: ", "ok: "))]
    assert [line.partition(": ")[2] for line in joined] == [
        "[el] => (item=plimsoll)",
        "[el] => (item=plimsoll-probe)",
    ]


def test_commands_that_are_printed_reach_the_group_that_was_chosen(ansible: Ansible) -> None:
    """Else they match no host, and end with 0."""
    kolla = " -e plimsoll_delivery=container -e {} -e @/etc/kolla/globals.yml"
    cases = [
        ("agent", {}, ""),
        ("agent", {"plimsoll_group": "south"}, " -e plimsoll_group=south"),
        ("agent", {"plimsoll_group": "south:&new"}, " -e 'plimsoll_group=south:&new'"),
        ("kolla", {}, kolla.format("plimsoll_group=compute")),
        ("kolla", {"plimsoll_group": "south:&new"}, kolla.format("'plimsoll_group=south:&new'")),
    ]
    plays = [
        {
            "hosts": "localhost",
            "gather_facts": False,
            "connection": "local",
            "vars": {"ansible_python_interpreter": sys.executable, **variables},
            "vars_files": [str(CHECKOUT / f"ansible/roles/{role}/vars/main.yml")],
            "tasks": [
                {"ansible.builtin.copy": {"content": "{{ __delivery_words }}", "dest": f"{ansible.home}/{number}"}}
            ],
        }
        for number, (role, variables, _) in enumerate(cases)
    ]
    (ansible.home / "words.yml").write_text(yaml.safe_dump(plays), encoding="utf-8")
    ran = ansible("ansible-playbook", "-i", "localhost,", "words.yml")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert [(ansible.home / str(number)).read_text() for number in range(len(cases))] == [
        words for *_, words in cases
    ]


# --- the agent of a guest


def test_a_guest_agent_with_new_settings_is_restarted_though_a_later_task_fails(ansible: Ansible) -> None:
    role = CHECKOUT / "ansible/roles/probe_guest"
    (settings := ansible.home / "qemu-ga.conf").write_text("blacklist=guest-exec\n", encoding="utf-8")
    tasks = yaml.safe_load((role / "tasks/agent.yml").read_text(encoding="utf-8"))
    (first,) = [number for number, task in enumerate(tasks) if task["name"] == "Configure SELinux"]
    (handler,) = yaml.safe_load((role / "handlers/main.yml").read_text(encoding="utf-8"))
    restart = {"name": handler["name"], "ansible.builtin.command": "touch restarted"}
    play = {
        "hosts": "all",
        "connection": "local",
        "gather_facts": False,
        "vars": {
            "__probe_guest_agent_files": [str(settings)],
            "__probe_guest_commands": ["guest-exec"],
            "ansible_python_interpreter": sys.executable,
        },
        "tasks": [*tasks[:first], {"ansible.builtin.fail": {}}],
        "handlers": [restart | {"args": {"chdir": str(ansible.home)}}],
    }
    (ansible.home / "agent.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")
    assert ansible("ansible-playbook", "-i", "n1,", "agent.yml").returncode == 2
    assert settings.read_text(encoding="utf-8") == "blacklist=\n"
    assert (ansible.home / "restarted").exists()


# --- the rehearsal


def undoing() -> str:
    """What a host runs that undoes everything where it hears nothing more."""
    [play] = yaml.safe_load((PLAYBOOKS / "rehearsal.yml").read_text(encoding="utf-8"))
    [rehearse] = [task for task in play["tasks"] if "block" in task]
    [script] = [found for task in rehearse["block"] if (found := task.get("vars", {}).get("__rehearsal_guard"))]
    return str(script)


def test_a_host_undoes_everything_when_it_hears_nothing_more(tmp_path: Path) -> None:
    beat, undone = tmp_path / "beat", tmp_path / "undone"
    with subprocess.Popen(["sh", "-c", undoing(), "guard", beat, "3", "touch", undone]) as process:
        for _ in range(5):
            time.sleep(1)
            beat.touch()
        assert not undone.exists(), "it heard of the playbook"
        assert process.wait(30) == 0
    assert undone.exists()
    assert not beat.exists()


def test_a_host_that_was_told_the_end_undoes_nothing(tmp_path: Path) -> None:
    beat, undone = tmp_path / "beat", tmp_path / "undone"
    with subprocess.Popen(["sh", "-c", undoing(), "guard", beat, "3", "touch", undone]) as process:
        while not beat.exists():
            time.sleep(0.05)
        beat.unlink()
        assert process.wait(30) == 0
    assert not undone.exists()


def test_numbers_of_a_rehearsal_are_numbers_to_each_ansible(each_ansible: Ansible) -> None:
    """ansible-core 2.18 and earlier make text of them, and ``'60' > 0`` ended it. A truth stays one."""
    [play] = yaml.safe_load((PLAYBOOKS / "rehearsal.yml").read_text(encoding="utf-8"))
    tasks = {task["name"]: task for part in play["tasks"] for task in part.get("block", [part])}
    end = yaml.safe_load((PLAYBOOKS / "tasks/rehearsal_end.yml").read_text(encoding="utf-8"))
    [wait] = [task for task in end if "until" in task]
    status = {
        "osdmap": {"num_up_osds": 6, "num_in_osds": 6},
        "pgmap": {"pgs_by_state": [{"state_name": "active+clean"}]},
        "health": {"checks": {"OSDMAP_FLAGS": {"summary": {"message": "noout flag(s) set"}}}},
    }
    known = {f"plimsoll_rehearsal_{name}": value for name, value in {"host": "n1", "away": "12", "osds": "3"}.items()}
    known |= {"__rehearsal_asked": {"rc": 0, "stdout": json.dumps(status)}}
    known |= {"ansible_python_interpreter": sys.executable}
    told = [*wait["until"], "__rehearsal_undo | length == 1", "looks == [0, 5, 10]", "retries | int == 900",
            "__rehearsal_until | float - now().timestamp() < 13",
            "__rehearsal_longest | int == 30 + 12 + 1800 + 900"]  # fmt: skip
    asserted = {"ansible.builtin.assert": {"that": told},
                "vars": {"looks": tasks["Watch"]["loop"], "retries": wait["retries"]}}  # fmt: skip
    alone = [tasks[name] for name in ("Check the variables", "Keep what holds from now on", "Keep the time")]
    play = {"hosts": "all", "gather_facts": False, "connection": "local", "vars": play["vars"] | known}
    (each_ansible.home / "alone.yml").write_text(yaml.safe_dump([play | {"tasks": [*alone, asserted]}]), "utf-8")
    ended = each_ansible("ansible-playbook", "-i", "n1,", "alone.yml")
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("states", "osds", "message"),
    [
        (["active", "active"], "3,12", ""),
        (["inactive", "inactive"], "3,12", "ceph-osd@3.service, ceph-osd@12.service. Correct plimsoll_rehearsal_u"),
        (["active", "failed"], [3, 12], "no OSD: ceph-osd@12.service. Correct"),
        ([], 12, "no OSD: ceph-osd@12.service. Correct plimsoll_rehearsal_unit (of cephadm: ceph-0b1c@osd.{osd}.s"),
    ],
)
def test_a_rehearsal_that_would_stop_no_osd_is_refused(
    states: list[str], osds: object, message: str, ansible: Ansible
) -> None:
    """systemctl stops a unit of packages beside cephadm's without a word, and its guests would not have felt it."""
    [play] = yaml.safe_load((PLAYBOOKS / "rehearsal.yml").read_text(encoding="utf-8"))
    [task] = [task for task in play["tasks"] if task["name"] == "Fail where stopping these units would stop no OSD"]
    known = {"plimsoll_rehearsal_host": "n1", "plimsoll_rehearsal_osds": osds, "__rehearsal_running":
             {"stdout_lines": states}, "__rehearsal_asked": {"stdout": '{"fsid": "0b1c"}'}}  # fmt: skip
    alone = {"hosts": "all", "gather_facts": False, "connection": "local", "vars": play["vars"] | known}
    (ansible.home / "alone.yml").write_text(yaml.safe_dump([alone | {"tasks": [task]}]), encoding="utf-8")
    ended = ansible("ansible-playbook", "-i", "n1,", "alone.yml")
    assert (ended.returncode != 0) == bool(message), ended.stdout + ended.stderr
    assert message in " ".join((ended.stdout + ended.stderr).split())


# Keeps what it was called with; for --yes another return is under way, or it was cut short.
RETURNING = """#!/bin/sh
echo "$2" >> "${0%/*}/calls"
echo "Cluster 029b0680-c108-4b05-81a8-4c9dd2e3226e."
case "$*" in *--check*) exit 2 ;; *--yes*) exit STATUS ;; esac
"""


def test_the_playbook_of_returns_takes_lists_as_text(each_ansible: Ansible, tmp_path: Path) -> None:
    """Of ``-e plimsoll_return_skip=12`` the OSDs 1 and 2 were left out, and 12 was started."""
    program = tmp_path / "plimsoll"
    program.write_text('#!/bin/sh\necho "$*" > "${0%/*}/call"\n')
    program.chmod(0o755)
    variables = {"plimsoll": program, "skip": "12", "tolerated": "OSD_DOWN,PG_DEGRADED", "client": "'--id admin'",
                 "start": "'docker start'"}  # fmt: skip
    words = [word for name, value in variables.items() for word in ("-e", f"plimsoll_return_{name}={value}")]
    words += ["-e", f"ansible_python_interpreter={sys.executable}"]
    ended = each_ansible("ansible-playbook", "-i", "localhost,", "-c", "local", *words, str(PLAYBOOKS / "return.yml"))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert (tmp_path / "call").read_text().split(" ", 2)[2].strip() == (
        "--skip 12 --tolerate OSD_DOWN --tolerate PG_DEGRADED --start docker start --id admin --check"
    ), ended.stdout


@pytest.mark.parametrize(("status", "calls"), [(75, ["run", "run"]), (3, ["run", "run", "stop"])])
def test_the_playbook_of_returns_stops_its_own_return_and_not_that_of_another_operator(
    status: int, calls: list[str], ansible: Ansible, tmp_path: Path
) -> None:
    program = tmp_path / "plimsoll"
    program.write_text(RETURNING.replace("STATUS", str(status)))
    program.chmod(0o755)
    variables = {"plimsoll_return_plimsoll": [str(program)], "ansible_python_interpreter": sys.executable,
                 "plimsoll_return_confirm": "029b0680-c108-4b05-81a8-4c9dd2e3226e"}  # fmt: skip
    ended = ansible("ansible-playbook", "-i", "localhost,", "-c", "local", "-e", json.dumps(variables),
                    str(PLAYBOOKS / "return.yml"))  # fmt: skip
    assert (tmp_path / "calls").read_text().split() == calls, ended.stdout
    assert ended.returncode == 2
