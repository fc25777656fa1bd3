"""``plimsoll catalogue refresh`` with a real Keystone and Cinder: what it costs, and who may run it."""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from lab.cloud import Cloud, Nova, OpenStack
from lab.node import Node
from plimsoll_agent.catalogue import attachments
from plimsoll_agent.catalogue import model as catalogue
from plimsoll_agent.catalogue.attachments import Attachment, Attachments
from plimsoll_agent.catalogue.model import Catalogue

pytestmark = pytest.mark.shared

ETC = Path(__file__).parents[2] / "etc"
POLICY: dict[str, str] = yaml.safe_load((ETC / "cinder-policy.yaml").read_text())
ACCESS_RULES = [
    (rule["service"], rule["method"], rule["path"]) for rule in json.loads((ETC / "access-rules.json").read_text())
]


class Reader:
    """A node's refresher, as some user of the cloud."""

    def __init__(self, home: Path, cloud: Cloud) -> None:
        self._openstack = cloud.openstack
        self._cloud = cloud
        self._home = home
        self.node = Node(home, cloud)
        self.calls: Counter[str] = Counter()
        self.be(None)

    def be(self, login: Any, **settings: object) -> None:
        clouds = self._home / "clouds.yaml"
        clouds.unlink(missing_ok=True)
        if login is not None:
            self._openstack.clouds_yaml(clouds, lab=login)
        self.node.use_cinder(self._cloud, **settings)

    def sees(self, *volumes: str, guests: tuple[str, ...] = ()) -> None:
        self.node.state.prepare()
        seen = Attachment(mark="m", since=datetime.now(UTC))
        attachments.save(
            self.node.state.attachments,
            Attachments({f"g/{id}": seen for id in volumes}, dict.fromkeys(guests, seen)),
        )

    def refresh(self, *words: str) -> Any:
        mark = self._openstack.mark()
        ran = self.node.run("catalogue", "refresh", *words)
        self.calls = Counter(
            request.call
            for request in self._openstack.requests_since(mark, agent="plimsoll")
            if request.service == "cinder"
        )
        return ran

    @property
    def known(self) -> Catalogue:
        found = catalogue.load(self.node.catalogue)
        assert found is not None
        return found


@pytest.fixture
def reader(tmp_path: Path, cloud: Cloud, openstack: OpenStack) -> Reader:
    return Reader(tmp_path, cloud)


@pytest.fixture
def gold(openstack: OpenStack) -> Iterator[tuple[Any, Any, list[str]]]:
    """A QoS spec, the type that has it, and three volumes of that."""
    word = uuid4().hex[:8]
    qos = openstack.create_qos(f"gold-{word}", {"total_iops_sec": 500})
    kind = openstack.create_volume_type(f"gold-{word}", qos)
    volumes = [openstack.create_volume(kind).id for _ in range(3)]
    yield qos, kind, volumes
    for id in volumes:
        openstack.delete_volume(id)


Gold = tuple[Any, Any, list[str]]


def test_a_refresh_costs_two_calls_a_new_volume_one_more_and_many_new_ones_one_more(
    reader: Reader, gold: Gold
) -> None:
    qos, kind, volumes = gold
    lists = {"GET /v3/qos-specs": 1, "GET /v3/types": 1}
    reader.sees(volumes[0])
    assert reader.refresh().status == 0
    assert reader.calls == lists | {"GET /v3/volumes/ID": 1}
    assert reader.known.volumes[volumes[0]].type == kind.id
    assert reader.known.types[kind.id].qos_spec == qos.id
    assert reader.known.specs[qos.id].keys == {"total_iops_sec": "500"}
    assert reader.refresh().status == 0
    assert not reader.calls
    reader.sees(*volumes)
    assert reader.refresh().status == 0
    assert reader.calls == {"GET /v3/volumes/detail": 1}
    assert {one.type for one in reader.known.volumes.values()} == {kind.id}
    assert reader.refresh("--now").status == 0
    assert reader.calls == lists | {"GET /v3/volumes/detail": 1}, "known volumes too"


def test_a_volume_that_cinder_does_not_know_is_missing_and_others_are_not(reader: Reader, gold: Gold) -> None:
    nobody, (_, _, volumes) = str(uuid4()), gold
    reader.sees(*volumes, nobody)
    assert reader.refresh().status == 0
    assert reader.calls["GET /v3/volumes/ID"] == 1
    assert {id for id, one in reader.known.volumes.items() if one.missing} == {nobody}


def test_a_region_of_two_projects_is_written_whole(reader: Reader, openstack: OpenStack, gold: Gold) -> None:
    from tests.functional.webserver import key_pair

    key, _ = key_pair(reader.node.home)
    out = reader.node.home / "region.json"
    word = uuid4().hex[:8]
    login = openstack.create_user(f"tenant-{word}", ["member"], project=f"tenant-{word}")
    tenant = openstack.connect(login)
    theirs = tenant.block_storage.create_volume(size=1, volume_type=gold[1].name)
    try:
        ran = reader.node.run("catalogue", "refresh", "--region-file", str(out), "--signing-key", str(key))
        assert ran.status == 0
        assert {theirs.id, *gold[2]} <= set(_volumes(out))
    finally:
        openstack.wait_for_volume(theirs.id, "available")
        openstack.delete_volume(theirs.id)
        tenant.close()


def _volumes(out: Path) -> list[str]:
    return [id for group in json.loads(out.read_text())["volumes"] for id in group["volumes"]]


# --- who may ----------------------------------------------------------------------------------------------


def test_a_user_without_rights_gets_the_name_of_the_rule_that_refuses(reader: Reader, openstack: OpenStack) -> None:
    reader.be(openstack.create_user(f"reader-{uuid4().hex[:8]}", ["reader", "plimsoll"], project="onlookers"))
    ran = reader.refresh()
    assert ran.status == 1
    assert "volume_extension:qos_specs_manage:get_all" in ran.err
    with openstack.cinder_policy({"volume_extension:qos_specs_manage:get_all": "role:plimsoll"}):
        ran = reader.refresh("--now")
    assert ran.status == 1
    assert "context_is_admin" in ran.err
    assert sum(reader.calls.values()) == 1


def test_the_policy_lines_let_a_reader_read_and_change_nothing(
    reader: Reader, openstack: OpenStack, gold: Gold
) -> None:
    qos, kind, volumes = gold
    login = openstack.create_user(f"reader-{uuid4().hex[:8]}", ["reader", "plimsoll"], project="onlookers")
    reader.be(login)
    reader.sees(*volumes)
    connection = openstack.connect(login)
    admin = openstack.connection.block_storage
    connector = {"instance_uuid": str(uuid4()), "volume_uuid": volumes[1]}
    attachment = admin.post("/attachments", json={"attachment": connector}, microversion="3.27").json()["attachment"]
    try:
        with openstack.cinder_policy(POLICY):
            assert reader.refresh().status == 0
            assert {one.type for one in reader.known.volumes.values()} == {kind.id}
            assert not reader.known.types[kind.id].hidden
            refused = {what: call().status_code for what, call in _harm(connection, qos, kind, volumes[0])}
            path = f"/attachments/{attachment['id']}"
            refused["detach"] = connection.block_storage.delete(path, microversion="3.27").status_code
    finally:
        connection.close()
        admin.delete(f"/attachments/{attachment['id']}", microversion="3.27")
    assert refused == dict.fromkeys(refused, 403)
    assert openstack.wait_for_volume(volumes[0], "available").volume_type == kind.name


def _harm(connection: Any, qos: Any, kind: Any, volume: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    cinder = connection.block_storage
    specs = {"qos_specs": {"total_iops_sec": "9"}}
    yield "create a spec", lambda: cinder.post("/qos-specs", json={"qos_specs": {"name": "x", "consumer": "both"}})
    yield "edit a spec", lambda: cinder.put(f"/qos-specs/{qos.id}", json=specs)
    yield "delete a spec", lambda: cinder.delete(f"/qos-specs/{qos.id}")
    # Three GETs that change things.
    yield "associate", lambda: cinder.get(f"/qos-specs/{qos.id}/associate?vol_type_id={kind.id}")
    yield "disassociate", lambda: cinder.get(f"/qos-specs/{qos.id}/disassociate?vol_type_id={kind.id}")
    yield "disassociate all", lambda: cinder.get(f"/qos-specs/{qos.id}/disassociate_all")
    yield "edit a type", lambda: cinder.put(f"/types/{kind.id}", json={"volume_type": {"name": "x"}})
    yield "delete a type", lambda: cinder.delete(f"/types/{kind.id}")
    yield "rename a volume", lambda: cinder.put(f"/volumes/{volume}", json={"volume": {"name": "x"}})
    yield "delete a volume", lambda: cinder.delete(f"/volumes/{volume}")
    snapshot = {"snapshot": {"volume_id": volume, "name": "x"}}
    yield "copy a volume", lambda: cinder.post("/snapshots", json=snapshot)
    copy = {"volume": {"source_volid": volume, "size": 1, "volume_type": kind.id}}
    yield "clone a volume", lambda: cinder.post("/volumes", json=copy)
    yield "back a volume up", lambda: cinder.post("/backups", json={"backup": {"volume_id": volume, "name": "x"}})
    attachment = {"attachment": {"instance_uuid": str(uuid4()), "volume_uuid": volume}}
    yield "attach a volume", lambda: cinder.post("/attachments", json=attachment, microversion="3.27")
    transfer = {"transfer": {"volume_id": volume, "name": "x"}}
    yield "give a volume away", lambda: cinder.post("/volume-transfers", json=transfer, microversion="3.55")
    for action, body in {
        "os-extend": {"new_size": 2},
        "os-retype": {"new_type": kind.name, "migration_policy": "never"},
        "os-reset_status": {"status": "error"},
        "os-force_delete": {},
        "os-initialize_connection": {"connector": {}},
        "os-volume_upload_image": {"image_name": "x"},
    }.items():
        yield action, lambda words={action: body}: cinder.post(f"/volumes/{volume}/action", json=words)


def test_a_volume_of_a_volume_group_hides_no_other_volume_from_the_role(
    reader: Reader, openstack: OpenStack, gold: Gold
) -> None:
    """Cinder shows a volume of a group by the policy of groups, and refuses the whole list without it."""
    from tests.functional.webserver import key_pair

    cinder, kind, word = openstack.connection.block_storage, gold[1], uuid4().hex[:8]

    def make(what: str, words: dict[str, object]) -> str:
        made = cinder.post(f"/{what}s", json={what: words}, microversion="3.13").json()
        return str(made[what]["id"])

    group_type = make("group_type", {"name": f"together-{word}"})
    group = make("group", {"name": word, "group_type": group_type, "volume_types": [kind.id]})
    volume = make("volume", {"size": 1, "volume_type": kind.id, "group_id": group})
    openstack.wait_for_volume(volume, "available")
    key, _ = key_pair(reader.node.home)
    out = reader.node.home / "region.json"
    reader.be(openstack.create_user(f"reader-{word}", ["reader", "plimsoll"], project="onlookers"), nova=False)
    try:
        with openstack.cinder_policy(POLICY):
            ran = reader.node.run("catalogue", "refresh", "--region-file", str(out), "--signing-key", str(key))
        assert ran.status == 0, ran.err
        assert {volume, *gold[2]} <= set(_volumes(out))
    finally:
        words = {"delete": {"delete-volumes": True}}
        cinder.post(f"/groups/{group}/action", json=words, microversion="3.13")
        cinder.wait_for_delete(cinder.get_volume(volume), interval=0.2, wait=60)
        cinder.delete(f"/group_types/{group_type}", microversion="3.13")


def test_an_application_credential_with_access_rules_reads_and_not_even_an_admins_does_more(
    reader: Reader, openstack: OpenStack, gold: Gold
) -> None:
    qos, kind, volumes = gold
    login = openstack.create_application_credential(
        openstack.admin, f"plimsoll-{uuid4().hex[:8]}", access_rules=ACCESS_RULES
    )
    reader.be(login)
    reader.sees(*volumes)
    assert reader.refresh().status == 0
    assert {one.type for one in reader.known.volumes.values()} == {kind.id}
    connection = openstack.connect(login)
    try:
        refused = {what: call().status_code for what, call in _harm(connection, qos, kind, volumes[0])}
    finally:
        connection.close()
    assert refused == dict.fromkeys(refused, 401)
    assert openstack.connection.block_storage.get(f"/qos-specs/{qos.id}").json()["qos_specs"]["specs"] == {
        "total_iops_sec": "500"
    }


def test_access_rules_that_are_too_narrow_are_named_after_two_calls(reader: Reader, openstack: OpenStack) -> None:
    rules = [rule for rule in ACCESS_RULES if rule[2] != "/v3/types"]
    reader.be(
        openstack.create_application_credential(openstack.admin, f"narrow-{uuid4().hex[:8]}", access_rules=rules)
    )
    ran = reader.refresh()
    assert ran.status == 1
    assert "access rules of an application credential must allow GET /types" in ran.err
    assert reader.calls == {"GET /v3/qos-specs": 1, "GET /v3/types": 2}


def test_a_policy_that_hides_the_specs_of_types_is_named_and_no_type_passes_for_one_without(
    reader: Reader, openstack: OpenStack, gold: Gold
) -> None:
    with openstack.cinder_policy({"volume_extension:access_types_qos_specs_id": "!"}):
        ran = reader.refresh()
    assert ran.status == 3
    assert "volume_extension:access_types_qos_specs_id" in ran.err
    assert reader.known.types[gold[1].id].hidden


# --- Nova -------------------------------------------------------------------------------------------------


def test_flavors_of_guests_come_from_nova_in_one_call(reader: Reader, nova: Nova) -> None:
    word = uuid4().hex[:8]
    quota = {"quota:disk_read_iops_sec": "222"}
    server = nova.boot(f"web-{word}", nova.create_flavor(f"m1-{word}", quota | {"hw:mem_page_size": "any"}))
    try:
        host = server.hypervisor_hostname or socket.gethostname()
        reader.be(None, nova=True, host=server.compute_host or host)
        reader.sees(guests=(server.id, str(uuid4())))
        ran = reader.refresh()
        assert ran.status == 0
        assert ran.out.startswith("3 calls:")
        assert reader.known.servers[server.id].extra_specs == quota
        assert sorted(one.missing for one in reader.known.servers.values()) == [False, True]
    finally:
        nova.delete(server.id)
