"""``plimsoll qos`` against a real Keystone and Cinder, which also keep the unit tests' fake honest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest

from lab.cloud import Cloud, Guest, OpenStack
from lab.node import Node
from plimsoll_agent.adapters.libvirt import domxml
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.adapters.openstack import OpenStack as Adapter
from plimsoll_agent.adapters.openstack import connect
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.qos import file as qos_file
from plimsoll_agent.qos.balances import KEY
from plimsoll_agent.qos.file import Declaration, DeclaredType, Spec
from plimsoll_agent.util.text import minute
from tests.cindercontract import CinderContract
from tests.simulated_region import prometheus_of

pytestmark = pytest.mark.shared

MEMBERS_WRITE = {"volume:create_volume_metadata": "rule:xena_system_admin_or_project_member"}
"""As Cinder has it from 2026.2 on; before, each role did."""


@pytest.fixture
def node(tmp_path: Path, cloud: Cloud, openstack: OpenStack) -> Node:
    node = Node(tmp_path, cloud)
    node.use_cinder(cloud)
    return node


class TestCinder(CinderContract):
    @pytest.fixture
    def cinder(self, node: Node, monkeypatch: pytest.MonkeyPatch) -> Adapter:
        monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", node.environment["OS_CLIENT_CONFIG_FILE"])
        return connect("lab", Path(), deadline=20)

    @pytest.fixture
    def volume(self, openstack: OpenStack) -> Iterator[Callable[[str], str]]:
        made: list[str] = []

        def make(type: str) -> str:
            kind = openstack.connection.block_storage.find_type(type)
            made.append(openstack.create_volume(kind).id)
            return made[-1]

        yield make
        for id in made:
            openstack.delete_volume(id)


def test_the_plan_after_an_export_is_empty_and_the_export_of_it_is_the_same(node: Node) -> None:
    file = node.home / "qos.yaml"
    exported = node.run("qos", "export", "--output", str(file))
    assert exported.status == 0, exported.err
    planned = node.run("qos", "plan", "--prune", str(file))
    assert (planned.status, planned.out) == (0, "Nothing to do: Cinder matches the file.\n"), planned
    assert node.run("qos", "export").out == file.read_text()
    assert node.run("qos", "apply", "--prune", str(file)).status == 0


def test_an_apply_that_is_killed_again_and_again_is_finished_by_the_next(node: Node, word: str) -> None:
    def declared(number: int, shift: int) -> Declaration:
        names = [f"s{one}-{word}" for one in range(number)]
        keys = {"total_iops_sec": str(100 + shift), f"{'read' if shift else 'write'}_bytes_sec": "5"}
        specs = {name: Spec(name, "front-end", keys) for name in names}
        types = {
            f"t{name}": DeclaredType(name=f"t{name}", qos_spec=names[(place + shift) % number])
            for place, name in enumerate(names)
        }
        return Declaration(specs, types)

    file = node.home / "qos.yaml"
    for shift in (0, 1):
        file.write_text(qos_file.text_of(declared(8, shift)))
        for steps in (1, 2, 3, 2):
            process = node.start("qos", "apply", str(file))
            assert process.stdout is not None
            for _ in range(steps):
                while not process.stdout.readline().endswith("   done\n"):
                    assert process.poll() is None
            process.kill()
            process.communicate()
            assert process.returncode == -9
        applied = node.run("qos", "apply", str(file))
        assert applied.status == 0, applied.out + applied.err
        assert node.run("qos", "plan", str(file)).status == 0


def test_an_effect_is_what_the_attached_disks_get_in_the_next_pass(
    node: Node,
    word: str,
    cloud: Cloud,
    openstack: OpenStack,
    guests: Callable[..., list[Guest]],
    hypervisor: Libvirt,
) -> None:
    qos = openstack.create_qos(f"gold-{word}", {"total_iops_sec_per_gb": 60, "total_iops_sec_per_gb_min": 100})
    kind = openstack.create_volume_type(f"gold-{word}", qos)
    (guest,) = guests(disks=[])
    sizes = (1, 3, 4)
    attached = {size: cloud.attach_volume(guest, openstack.create_volume(kind, size_gib=size).id) for size in sizes}
    openstack.create_volume(kind, size_gib=9)
    assert node.run("enforce", "--refresh").status == 0

    name = f"gold-{word}"
    keys = {"total_iops_sec_per_gb": "30", "total_iops_sec_per_gb_min": "100"}
    file = node.home / "qos.yaml"
    file.write_text(
        qos_file.text_of(
            Declaration({name: Spec(name, "front-end", keys)}, {name: DeclaredType(name=name, qos_spec=name)})
        )
    )
    planned = node.run("qos", "plan", str(file))
    assert planned.status == 2, planned.err
    (effect,) = (line for line in planned.out.splitlines() if line.startswith(f"{name}:"))
    change = "one of 4 GiB: 240 → 120 IOPS"
    assert effect == f"{name}: 2 attached volumes change, 1 does not; {change}"
    (told,) = node.run("qos", "plan", str(file), "-f", "json").data()["effects"]

    assert node.run("qos", "apply", str(file)).status == 64, "nobody can be asked here"
    assert node.run("qos", "apply", "--yes", str(file)).status == 0
    assert node.run("enforce", "--refresh").status == 0
    says = hypervisor.qemu_says(guest.uuid)
    disks = {disk.volume_id: disk for disk in domxml.parse(guest.domain().XMLDesc())[1]}
    actual = {size: says[disks[attachment.volume_id].path] for size, attachment in attached.items()}
    assert actual == {size: Limits(total_iops_sec=max(100, 30 * size)) for size in sizes}
    assert actual[4].in_effect() == told["median"]["after"]["limits"]


def test_a_spec_that_is_misspelled_in_cinder_is_found_without_a_file(
    node: Node, word: str, openstack: OpenStack
) -> None:
    openstack.create_volume_type(f"slip-{word}", openstack.create_qos(f"slip-{word}", {"total_iop_sec": 5}))
    ran = node.run("qos", "lint")
    assert ran.status == 1
    (line,) = (line for line in ran.out.splitlines() if f"slip-{word}" in line)
    assert line.endswith("did you mean total_iops_sec?")


def test_a_user_who_may_only_read_gets_the_name_of_the_rule_and_nothing_is_done(
    node: Node, word: str, openstack: OpenStack
) -> None:
    reader = openstack.create_user(f"reader-{word}", ["reader"])
    openstack.clouds_yaml(node.home / "clouds.yaml", lab=reader)
    file = node.home / "qos.yaml"
    file.write_text("qos_specs: {}\nvolume_types: {}\n")
    for verb in ("plan", "apply"):
        ran = node.run("qos", verb, str(file))
        assert ran.status == 1
        assert "qos_specs_manage" in ran.err


def test_a_tenant_reads_what_is_saved_in_the_metadata_of_his_attached_volume(
    node: Node, word: str, openstack: OpenStack, tmp_path: Path
) -> None:
    kind = openstack.create_volume_type(f"gold-{word}")
    tenant = openstack.create_user(f"tenant-{word}", ["member"], project=f"project-{word}")
    now = int(time.time())
    with closing(openstack.connect(tenant)) as connection:
        his = connection.block_storage
        volume = his.create_volume(size=1, volume_type=kind.name, metadata={"own": "1"})
        openstack.wait_for_volume(volume.id, "available")
        openstack.complete(openstack.attach(volume.id, str(uuid4())))
        disk = 'region="r1",instance="n1:9100",uuid="u",target_device="vdb"'
        lines = {
            "plimsoll_pass_observed_timestamp_seconds": [f'{{region="r1",instance="n1:9100"}} {now}'],
            "plimsoll_disk_info": [f'{{{disk},volume="{volume.id}"}} 1'],
            "plimsoll_disk_burst_saved_ratio": [f'{{{disk},parameter="total_iops_sec"}} 0.375'],
        }
        series = {name: [f"{name}{line} {now}" for line in its] for name, its in lines.items()}
        with prometheus_of(series, tmp_path) as prometheus:
            balances = ("qos", "balances", "--prometheus", prometheus.url)
            ran = node.run(*balances)
            assert ran.status == 0, ran
            assert " 1 written, 0 removed, " in ran.out
            text = f"38 % at {minute(datetime.fromtimestamp(now, UTC))}"
            assert his.get_volume(volume.id).metadata == {"own": "1", KEY: text}
            his.set_volume_metadata(volume.id, **{KEY: "all of it"})
            reader = openstack.create_user(f"reader-{word}", ["reader"], project=f"project-{word}")
            openstack.clouds_yaml(node.home / "clouds.yaml", lab=reader)
            with openstack.cinder_policy(MEMBERS_WRITE):
                refused = node.run(*balances)
            assert refused.status == 1
            assert "by its policy volume:create_volume_metadata" in refused.err
            openstack.clouds_yaml(node.home / "clouds.yaml")
            assert node.run(*balances).status == 0
            assert his.get_volume(volume.id).metadata == {"own": "1", KEY: text}
