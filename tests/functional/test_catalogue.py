"""``plimsoll catalogue`` against a Keystone, Cinder and Nova of a few lines, and against a web server, that fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from plimsoll_agent.catalogue import attachments
from plimsoll_agent.catalogue import model as catalogue
from plimsoll_agent.catalogue.attachments import Attachment, Attachments
from plimsoll_agent.store.refresh_state import RefreshDir
from tests.functional import cloudserver
from tests.functional.cloudserver import PASSWORD, Cloud, Handler, cloud_server, credentials
from tests.functional.conftest import Ran

Plimsoll = Callable[..., Ran]

SPECS, TYPES, VOLUMES, SERVERS = "/volume/v3/qos-specs", "/volume/v3/types", "/volume/v3/volumes", "/compute/v2.1"
GOLD = {"id": "s-gold", "name": "gold-iops", "consumer": "front-end", "specs": {"total_iops_sec": "500"}}
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


def uuid(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-000000000000"


def volume(number: int, type: str = "t-gold", name: str = "gold") -> dict[str, Any]:
    return {"id": uuid(number), "volume_type": name, "volume_type_id": type, "size": 10}


class Node:
    """A node of that cloud, as its refresher has it."""

    def __init__(self, plimsoll: Plimsoll, home: Path, cloud: Cloud) -> None:
        self._plimsoll = plimsoll
        self.home = home
        self.cloud = cloud
        self.directory = home / "catalogue"
        self.settings: dict[str, object] = {
            "source": "openstack",
            "directory": self.directory,
            "credentials_file": credentials(home, f"{cloud.url}/identity/v3"),
            "deadline": 20,
            "nova": False,
            "host": "node1",
        }

    def sees(self, *volumes: int, guests: tuple[int, ...] = (), since: datetime = LONG_AGO, mark: str = "m") -> None:
        """As a pass leaves it."""
        (self.home / "state").mkdir(exist_ok=True)
        seen = Attachment(mark=mark, since=since)
        attachments.save(
            self.home / "state" / "attachments.json",
            Attachments({f"{uuid(9)}/{uuid(one)}": seen for one in volumes}, {uuid(one): seen for one in guests}),
        )

    def runs(self, *words: str, **environment: str) -> Ran:
        return self.command("catalogue", *words, **environment)

    def command(self, *words: str, **environment: str) -> Ran:
        lines = [f"{name} = {value}" for name, value in self.settings.items()]
        (self.home / "catalogue.conf").write_text("\n".join(["[catalogue]", *lines, ""]))
        return self._plimsoll("--config-file", str(self.home / "catalogue.conf"), *words, **environment)

    def refresh(self, *words: str, **environment: str) -> Ran:
        self.cloud.asked.clear()
        return self.runs("refresh", *words, **environment)

    @property
    def catalogue(self) -> catalogue.Catalogue:
        found = catalogue.load(self.directory)
        assert found is not None
        return found


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    with cloud_server() as cloud:
        cloud.specs = [GOLD, {"id": "s-x", "name": "x", "consumer": "back-end", "specs": {}}]
        cloud.types = [
            {"id": "t-gold", "name": "gold", "qos_specs_id": "s-gold"},
            {"id": "t-none", "name": "plain", "qos_specs_id": None},
        ]
        cloud.volumes = [volume(1), volume(2), volume(3, "t-none", "plain")]
        yield cloud


@pytest.fixture
def node(plimsoll: Plimsoll, tmp_path: Path, cloud: Cloud) -> Node:
    return Node(plimsoll, tmp_path, cloud)


# --- from the cloud -------------------------------------------------------------------------------------


def test_a_refresh_says_what_it_cost_and_a_second_one_costs_nothing(node: Node) -> None:
    node.sees(1)
    ran = node.refresh()
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == "3 calls: 2 QoS specs, 2 volume types, 1 of 1 new volume found; generation 1.\n"
    assert len(node.cloud.services_asked()) == 3
    known = node.catalogue
    assert known.volumes[uuid(1)].type == "t-gold"
    assert known.types["t-gold"].qos_spec == "s-gold"
    assert known.specs["s-gold"].keys == {"total_iops_sec": "500"}
    ran = node.refresh()
    assert (ran.status, ran.out) == (0, "0 calls: nothing due (--now fetches all); generation 1.\n")
    assert node.cloud.asked == []


def test_refreshes_with_a_spacing_begin_so_far_apart_and_cost_no_more(node: Node) -> None:
    node.sees(1)
    begun = []
    for _ in range(2):
        ran = node.refresh("--spacing", "1s")
        assert (ran.status, ran.err) == (0, "")
        begun.append(RefreshDir(node.directory).load_notes().begun)
    first, second = begun
    assert first is not None
    assert second is not None
    assert second - first >= timedelta(seconds=1)
    assert ran.out == "0 calls: nothing due (--now fetches all); generation 1.\n"


def test_an_attachment_during_a_refresh_leaves_a_file_on_which_systemd_starts_another(node: Node) -> None:
    node.sees(1)
    again = node.directory / "again"
    assert (node.refresh("--spacing", "1s").status, again.exists()) == (0, False)

    def attached_meanwhile(handler: Handler) -> None:
        node.sees(1, 2, 3)
        handler._service(node.cloud, handler.path.partition("?")[0])

    node.sees(1, 2)
    node.cloud.faults = {"/volume": [attached_meanwhile]}
    assert (node.refresh("--spacing", "1s").status, again.exists()) == (0, True)


def test_before_the_first_pass_a_refresh_says_that_no_volume_was_asked_about(node: Node) -> None:
    ran = node.refresh()
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "2 calls: 2 QoS specs, 2 volume types; generation 1.",
        "No volume was asked about: no pass has listed the attached ones yet. plimsoll enforce --refresh does both.",
    ]


def test_a_new_volume_costs_one_call_and_forty_cost_one_too(node: Node) -> None:
    node.sees(1)
    node.refresh()
    node.sees(1, 2)
    assert node.refresh().out.startswith("1 call: 1 of 1 new volume found;")
    node.cloud.volumes = [volume(number) for number in range(1, 41)]
    node.sees(*range(1, 41))
    assert node.refresh().out.startswith("1 call: 38 of 38 new volumes found;")
    assert set(node.catalogue.volumes) == {uuid(number) for number in range(1, 41)}


@pytest.mark.parametrize("answer", ["everything", "refusal"])
def test_a_cinder_that_does_not_filter_by_ids_is_asked_for_one_after_the_other(node: Node, answer: str) -> None:
    def unfiltered(handler: cloudserver.Handler) -> None:
        handler.say_json(200, {"volumes": node.cloud.volumes})

    refused = cloudserver.status(400, {"badRequest": {"message": "Invalid filters id are found in query options."}})
    node.cloud.faults = {f"{VOLUMES}/detail": [unfiltered if answer == "everything" else refused, ...]}
    node.sees(1, 3)
    assert node.refresh().out.startswith("5 calls: 2 QoS specs, 2 volume types, 2 of 2 new volumes found;")
    assert {id: one.type for id, one in node.catalogue.volumes.items()} == {uuid(1): "t-gold", uuid(3): "t-none"}


def test_a_volume_that_is_not_there_is_noted_as_missing_and_not_asked_for_each_time(node: Node) -> None:
    node.sees(1, 77)
    ran = node.refresh()
    assert ran.status == 0
    assert f"1 of 2 new volumes found (not in Cinder: {uuid(77)});" in ran.out
    assert node.catalogue.volumes[uuid(77)].missing
    assert not node.catalogue.volumes[uuid(1)].missing
    assert node.refresh().out.startswith("0 calls")


def test_calls_for_many_unknown_volumes_are_bounded_and_the_rest_waits(node: Node) -> None:
    refused = cloudserver.status(400, {"badRequest": {"message": "Invalid filters"}})
    node.cloud.faults = {f"{VOLUMES}/detail": [refused, ...]}
    node.cloud.volumes = [volume(number) for number in range(1, 81)]
    node.sees(*range(1, 81))
    assert node.refresh().out.startswith("52 calls: 2 QoS specs, 2 volume types, 49 of 80 new volumes found;")
    assert node.refresh().out.startswith("32 calls: 31 of 31 new volumes found;")


def test_a_cinder_before_wallaby_tells_names_and_the_lists_tell_the_ids(node: Node) -> None:
    def old(handler: cloudserver.Handler) -> None:
        if "OpenStack-API-Version" in handler.headers:
            handler.say_json(406, {"computeFault": {"message": "Version 3.63 is not supported by the API."}})
        else:
            handler.say_json(200, {"volume": {"id": uuid(1), "volume_type": "gold"}})

    node.cloud.faults = {f"{VOLUMES}/": [old, ...]}
    node.sees(1)
    assert node.refresh().status == 0
    assert node.catalogue.volumes[uuid(1)].type == "t-gold"


CREDITS = {"plimsoll:total_iops_sec_max": "3000", "plimsoll:capacity": "5400000"}


def test_flavors_of_a_nodes_guests_come_in_one_call_and_only_when_one_is_unknown(node: Node) -> None:
    node.settings["nova"] = True
    flavor = {"extra_specs": {"quota:disk_total_iops_sec": "300", "hw:cpu_policy": "shared", **CREDITS}}
    node.cloud.servers = [{"id": uuid(5), "flavor": flavor}, {"id": uuid(6), "flavor": {}}]
    node.sees(guests=(5, 6, 7))
    ran = node.refresh()
    assert ran.out.startswith("3 calls: 2 QoS specs, 2 volume types, 2 guests;")
    asked = next(line for line in node.cloud.asked if SERVERS in line)
    assert asked.endswith("?all_tenants=1&host=node1&limit=1000")
    assert ran.status == 3
    assert "os_compute_api:servers:show:flavor-extra-specs" in ran.err
    servers = node.catalogue.servers
    assert servers[uuid(5)].extra_specs == {"quota:disk_total_iops_sec": "300", **CREDITS}
    assert [servers[uuid(number)].missing for number in (5, 6, 7)] == [False, True, True]
    assert node.refresh().out.startswith("0 calls")


def test_a_host_that_nova_calls_otherwise_is_worth_a_word(node: Node) -> None:
    node.settings["nova"] = True
    node.sees(guests=(5,))
    ran = node.refresh()
    assert ran.status == 0
    assert "none of this node's guests on host node1" in ran.err


def test_a_nova_that_is_too_old_is_named(node: Node) -> None:
    node.settings["nova"] = True
    node.cloud.faults = {SERVERS: [cloudserver.status(406), ...]}
    node.sees(guests=(5,))
    ran = node.refresh()
    assert ran.status == 3
    assert "2.47" in ran.err
    assert len(ran.err.splitlines()) == 1
    assert node.catalogue.specs  # what was answered before counts


def test_while_nova_fails_cinder_is_read_as_ever(node: Node) -> None:
    node.settings["nova"] = True
    node.cloud.faults = {SERVERS: [cloudserver.status(503), ...]}
    node.sees(guests=(5,))
    for volume in range(1, 4):
        node.sees(*range(1, volume + 1), guests=(5,))
        ran = node.refresh()
        assert (ran.status, "not refreshed" in ran.err, "server error (503)" in ran.err) == (3, False, True)
        assert uuid(volume) in node.catalogue.volumes
        # Nova has a pause of its own.
        assert ("Nova not asked: waiting until" in ran.err) == (volume > 1)
        assert any(SERVERS in asked for asked in node.cloud.asked) == (volume == 1)
    node.refresh("--now")
    assert RefreshDir(node.directory).load_notes().most_failures[0] == 2
    node.cloud.faults = {}
    assert node.refresh("--now").status == 0
    assert RefreshDir(node.directory).load_notes().most_failures == (0, "")


@pytest.mark.parametrize(
    ("path", "fault", "words"),
    [
        (SPECS, cloudserver.status(500), "Cinder (URL/volume/v3/qos-specs): server error (500)"),
        (SPECS, cloudserver.html, "Cinder (URL/volume/v3/qos-specs): the answer is not JSON but text/html"),
        (SPECS, cloudserver.half, "Cinder (URL/volume/v3/qos-specs): the answer is not JSON, or incomplete"),
        (SPECS, cloudserver.cut, "Cinder (URL/volume/v3/qos-specs): the answer was cut off"),
        (SPECS, cloudserver.hang, "Cinder (URL/volume/v3/qos-specs): no answer within"),
        (SPECS, cloudserver.trickle, "Cinder (URL/volume/v3/qos-specs): no answer within 1 s"),
        (SPECS, cloudserver.huge, "Cinder (URL/volume/v3/qos-specs): the answer is longer than 64 MiB"),
        (
            SPECS,
            cloudserver.redirect("http://elsewhere.example/x?y=z"),
            "(302, http://elsewhere.example/x), and a token is not sent there;"
            " correct the endpoint in Keystone's service catalog",
        ),
        (SPECS, cloudserver.status(200, {"qos_specs": [{"id": "s"}]}), "QoS spec 's': name must be text"),
        (SPECS, cloudserver.status(200, {"qos_specs": {}}), "the answer has no list of qos_specs"),
        (SPECS, cloudserver.status(200, {"qos_specs": []}), "does not list the QoS spec of volume type gold, s-gold"),
        (SPECS, cloudserver.status(429), "Cinder (URL/volume/v3/qos-specs): too many requests (429)"),
        (TYPES, cloudserver.status(200, {"volume_types": []}), "Cinder lists no volume type"),
        ("/identity", cloudserver.status(404), "this is not Keystone's address"),
        (TYPES, cloudserver.status(200, {"volume_types": [{"id": 5, "name": "x"}]}), "no list of volume_types"),
        (TYPES, cloudserver.status(503, None, {"Retry-After": "3600"}), "/types): server error (503)"),
        ("/identity/v3/auth", cloudserver.status(500), "Keystone (URL/identity/v3/auth/tokens): server error (500)"),
        ("/identity/v3/auth", cloudserver.html, "Keystone (URL/identity/v3/auth/tokens): answer cannot be read"),
        ("/identity/v3/auth", cloudserver.trickle, "Keystone (URL/identity/v3/auth/tokens): no answer within 1 s"),
        ("/identity/v3/auth", cloudserver.status(401), "credentials refused (401)"),
        ("/identity", cloudserver.hang, "Keystone (URL/identity/v3): no answer within"),
    ],
)
def test_a_control_plane_in_trouble_changes_nothing_and_delays_no_pass(
    node: Node, path: str, fault: cloudserver.Fault, words: str
) -> None:
    node.sees(1)
    node.refresh()
    before = (node.directory / "catalogue.json").read_bytes()
    node.cloud.faults = {path: [fault, ...]}
    deadline = 2 if fault in (cloudserver.hang, cloudserver.trickle) else 20
    node.settings["deadline"] = deadline
    began = time.monotonic()
    ran = node.refresh("--now")
    assert time.monotonic() - began < deadline + 30  # a Python that starts on a busy machine took 3 s
    assert (ran.status, ran.out) == (1, "")
    assert words.replace("URL", node.cloud.url) in ran.err
    assert len(ran.err.splitlines()) == 1
    assert (node.directory / "catalogue.json").read_bytes() == before


def test_a_service_without_an_endpoint_is_looked_for_in_the_service_catalog(node: Node) -> None:
    with Path(str(node.settings["credentials_file"])).open("a") as file:
        file.write("region_name = S\n")
    ran = node.refresh("--now")
    assert (ran.status, ran.out) == (1, "")
    assert (
        "has no block-storage endpoint in region S of version v3;"
        " check its service catalog, region_name and interface\n" in ran.err
    )


def test_trouble_after_the_lists_keeps_what_was_answered(node: Node) -> None:
    node.cloud.faults = {VOLUMES: [cloudserver.status(500), ...]}
    node.sees(1)
    ran = node.refresh()
    assert ran.status == 3
    assert ran.out == "3 calls: 2 QoS specs, 2 volume types, 0 of 1 new volume found; generation 1.\n"
    assert "server error (500)" in ran.err
    node.cloud.faults = {}
    assert node.refresh("--now").status == 0
    assert node.catalogue.volumes[uuid(1)].type == "t-gold"


def test_trouble_that_passes_is_not_worth_a_word(node: Node) -> None:
    node.cloud.faults = {
        SPECS: [cloudserver.status(503, None, {"Retry-After": "1"}), cloudserver.cut, None],
        TYPES: [cloudserver.status(401), None],  # the token ran out in between
    }
    ran = node.refresh()
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith("5 calls")  # each attempt is a call
    assert node.cloud.logins == 2


def test_a_token_that_is_never_taken_is_asked_for_twice_and_no_more(node: Node) -> None:
    node.cloud.faults = {SPECS: [cloudserver.status(401), ...]}
    ran = node.refresh()
    assert ran.status == 1
    assert "access rules of an application credential must allow GET /qos-specs" in ran.err
    assert len(node.cloud.services_asked()) == 2


@pytest.mark.parametrize(
    ("path", "message", "rule"),
    [
        (SPECS, "Policy doesn't allow volume_extension:qos_specs_manage:get_all to be performed.", None),
        (SPECS, "User does not have admin privileges", "context_is_admin"),
        (TYPES, "Policy doesn't allow volume_extension:type_get_all to be performed.", None),
    ],
)
def test_what_is_forbidden_names_the_rule(node: Node, path: str, message: str, rule: str | None) -> None:
    node.cloud.faults = {path: [cloudserver.status(403, {"forbidden": {"code": 403, "message": message}}), ...]}
    ran = node.refresh()
    assert ran.status == 1
    assert f"forbidden (403) by its policy {rule or message.split()[3]}" in ran.err
    assert len(node.cloud.services_asked()) == (1 if path == SPECS else 2)  # no is no: it is not asked again


def test_a_policy_that_hides_the_specs_of_types_is_named(node: Node) -> None:
    for one in node.cloud.types:
        del one["qos_specs_id"]
    node.sees(1)
    ran = node.refresh()
    assert ran.status == 3
    assert "volume_extension:access_types_qos_specs_id" in ran.err
    assert all(one.hidden for one in node.catalogue.types.values())


def test_after_failures_no_service_is_asked_for_a_while_unless_an_operator_says_now(node: Node) -> None:
    node.cloud.faults = {"/identity": [cloudserver.status(500), ...]}
    node.refresh()
    ran = node.refresh()
    assert (ran.status, ran.out) == (1, "")
    assert "not refreshed: waiting until" in ran.err
    assert "server error (500)" in ran.err
    assert node.cloud.asked == []
    node.cloud.faults = {}
    assert node.refresh("--now").status == 0
    assert json.loads((node.directory / "refresh.json").read_text())["failures"] == 0
    assert node.refresh().status == 0


def test_no_service_listens_there(node: Node) -> None:
    node.settings["credentials_file"] = credentials(node.home, "http://someone:pass-word@127.0.0.1:9/identity/v3")
    ran = node.refresh()
    assert ran.status == 1
    assert "Keystone (http://127.0.0.1:9/identity/v3): connection refused" in ran.err
    assert "pass-word" not in ran.err
    node.settings["credentials_file"] = credentials(
        node.home, node.cloud.url.replace("http", "https") + "/identity/v3"
    )
    assert "TLS fails" in node.refresh("--now").err


def test_no_secret_comes_out_even_with_debug(node: Node, plimsoll: Plimsoll) -> None:
    node.sees(1)
    node.refresh()
    ran = plimsoll("--debug", "--config-file", str(node.home / "catalogue.conf"), "catalogue", "refresh", "--now")
    assert ran.status == 0
    for secret in (PASSWORD, cloudserver.TOKEN):
        assert secret not in ran.out + ran.err
        for file in node.directory.iterdir():
            assert secret not in file.read_text()


def test_a_credentials_file_that_others_may_read_is_refused(node: Node) -> None:
    Path(str(node.settings["credentials_file"])).chmod(0o644)
    ran = node.refresh()
    assert ran.status == 1
    assert "chmod 640" in ran.err
    assert node.cloud.asked == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[openstack]\nauth_type = password\npassword = x\n", "auth_url"),
        ("[openstack]\nauth_url = http://x\n", "has no auth_type"),
        ("[openstack]\nauth_type = pasword\n", "pasword"),
        (f"[openstack]\n{PASSWORD}\n", "openstack.conf:2: is not KEY = VALUE"),
        ("", "has no auth_type"),
        ("[openstack]\nauth_type = password\nauth_url = http://x\n", "[openstack] has no password"),
        ("[openstack]\nauth_type = password\npasswrd = " + PASSWORD, "unknown with auth_type password: passwrd"),
        (f"[openstack]\nauth_type = password\npassword = x${PASSWORD[:2]}\n", "write a plain $ as $$"),
    ],
)
def test_credentials_that_are_none_are_a_line_without_what_stands_in_them(
    node: Node, content: str, words: str
) -> None:
    Path(str(node.settings["credentials_file"])).write_text(content)
    ran = node.refresh()
    assert ran.status == 1
    assert words in ran.err
    assert "openstack.conf" in ran.err
    assert PASSWORD[:2] not in ran.err.replace("password", "")
    assert len(ran.err.splitlines()) == 1


def test_a_pipe_in_the_place_of_credentials_does_not_hold_the_refresher_up(node: Node) -> None:
    path = Path(str(node.settings["credentials_file"]))
    path.unlink()
    os.mkfifo(path, 0o600)
    ran = node.refresh()
    assert (ran.status, ran.err) == (1, f"{path}: is not a regular file\n")


def test_clouds_yaml_works_too(node: Node) -> None:
    clouds = node.home / "clouds.yaml"
    clouds.touch(0o600)
    auth = {
        "auth_url": f"{node.cloud.url}/identity/v3",
        "username": "reader",
        "password": PASSWORD,
        "project_name": "service",
        "user_domain_id": "default",
        "project_domain_id": "default",
    }
    clouds.write_text(json.dumps({"clouds": {"mine": {"auth": auth, "region_name": "R"}}}))
    node.settings |= {"cloud": "mine", "credentials_file": "/nowhere"}
    ran = node.refresh(OS_CLIENT_CONFIG_FILE=str(clouds))
    assert (ran.status, ran.err) == (0, "")
    assert node.catalogue.source == "mine"
    node.settings["cloud"] = "other"
    ran = node.refresh(OS_CLIENT_CONFIG_FILE=str(clouds))
    assert ran.status == 1
    assert "cloud 'other'" in ran.err
    clouds.write_text(f"clouds: {{mine: [{PASSWORD}")
    ran = node.refresh(OS_CLIENT_CONFIG_FILE=str(clouds))
    assert ran.status == 1
    assert ran.err == f"{clouds}: is not YAML\n"


@pytest.mark.parametrize(
    "content",
    [
        "[1]",
        "clouds: 5",
        "clouds: {mine: }",
        "clouds: {mine: {auth: text}}",
        "clouds: {mine: {auth: {auth_url: 'http://127.0.0.1:9', username: x}}}",
        f"clouds: {{mine: {{auth: {{auth_url: 5, password: {PASSWORD}}}}}}}",
    ],
)
def test_a_clouds_yaml_that_is_none_is_a_line_that_names_it(node: Node, content: str) -> None:
    """openstacksdk answers with errors of Python, which name no file."""
    clouds = node.home / "clouds.yaml"
    clouds.touch(0o600)
    clouds.write_text(content)
    node.settings["cloud"] = "mine"
    ran = node.refresh(OS_CLIENT_CONFIG_FILE=str(clouds))
    assert ran.status == 1
    assert ran.err.startswith(f"{clouds}: ")
    assert PASSWORD not in ran.err
    assert "Error" not in ran.err
    assert len(ran.err.splitlines()) == 1


def test_a_clouds_yaml_in_the_current_directory_or_of_others_is_not_used(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The current directory may be a tenant's; root would send its password where that file says."""
    here = node.home / "here"
    here.mkdir()
    auth = {"auth_url": f"{node.cloud.url}/identity/v3", "username": "u", "password": PASSWORD}
    (here / "clouds.yaml").touch(0o600)
    (here / "clouds.yaml").write_text(json.dumps({"clouds": {"mine": {"auth": auth}}}))
    node.settings["cloud"] = "mine"
    monkeypatch.chdir(here)
    ran = node.refresh(HOME=str(node.home))
    assert ran.status == 1
    assert "no clouds.yaml" in ran.err
    (here / "clouds.yaml").chmod(0o602)
    ran = node.refresh(OS_CLIENT_CONFIG_FILE=str(here / "clouds.yaml"))
    assert ran.status == 1
    assert "chmod 640" in ran.err
    assert node.cloud.asked == []


def test_a_corrupt_catalogue_is_set_aside_and_fetched_again(node: Node) -> None:
    node.sees(1)
    node.refresh()
    (node.directory / "catalogue.json").write_text('{"kind": "plimsoll-cat')
    ran = node.refresh()
    assert ran.status == 0
    assert "moved to catalogue.json.corrupt" in ran.err
    assert node.catalogue.volumes[uuid(1)].type == "t-gold"
    assert (node.directory / "catalogue.json.corrupt").exists()


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_file_in_the_place_of_ours_does_not_stop_every_refresh(
    node: Node, make: Callable[[Path], None]
) -> None:
    node.directory.mkdir()
    make(node.directory / "catalogue.json")
    make(node.directory / "refresh.json")
    ran = node.refresh()
    assert ran.status == 0
    assert "catalogue.json: cannot be read" in ran.err
    assert "moved to catalogue.json.corrupt" in ran.err
    assert node.refresh().out.startswith("0 calls")


def test_a_directory_that_is_full_is_noticed_before_anybody_is_asked(node: Node) -> None:
    """A timer would else ask for all of it each time, as nothing says that somebody did."""
    node.directory.mkdir()
    full = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k,mode=755", "plimsoll-test", node.directory])
    if full.returncode:
        pytest.skip("needs the right to mount")
    try:
        with suppress(OSError), (node.directory / "rubbish").open("wb") as file:
            file.write(b"x" * 2**16)
        for words in ([], ["--now"]):
            ran = node.refresh(*words)
            assert ran.status == 1
            assert "refresh.json: cannot be written: No space left" in ran.err
            assert node.cloud.asked == []
    finally:
        subprocess.run(["umount", node.directory], check=True)


def test_a_catalogue_that_cannot_be_kept_is_a_failure_and_no_service_is_asked_for_a_while(node: Node) -> None:
    node.directory.mkdir()
    full = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k,mode=755", "plimsoll-test", node.directory])
    if full.returncode:
        pytest.skip("needs the right to mount")
    try:
        node.cloud.specs += [GOLD | {"id": f"s{number}", "name": f"{number}"} for number in range(200)]
        ran = node.refresh()
        assert ran.status == 1
        assert "catalogue.json: cannot be written: No space left" in ran.err
        ran = node.refresh()
        assert ran.status == 1
        assert "not refreshed: waiting until" in ran.err
        assert node.cloud.asked == []
    finally:
        subprocess.run(["umount", node.directory], check=True)


def test_a_catalogue_of_a_newer_plimsoll_is_left_alone(node: Node) -> None:
    node.refresh()
    path = node.directory / "catalogue.json"
    path.write_text(path.read_text().replace(f'"version": {catalogue.VERSION}', '"version": 99'))
    newer = path.read_bytes()
    ran = node.refresh("--now")
    assert ran.status == 1
    assert "newer plimsoll" in ran.err
    assert path.read_bytes() == newer


def test_attachments_that_cannot_be_read_do_not_keep_the_lists_from_being_fetched(node: Node) -> None:
    node.sees(1)
    node.refresh()
    (node.home / "state" / "attachments.json").write_text("{")
    node.cloud.specs = [GOLD | {"specs": {"total_iops_sec": "900"}}]
    ran = node.refresh("--now")
    assert ran.status == 3
    assert "attachments.json: unreadable" in ran.err
    assert len(ran.err.splitlines()) == 1
    assert "Error" not in ran.err
    assert node.catalogue.specs["s-gold"].keys == {"total_iops_sec": "900"}
    assert uuid(1) in node.catalogue.volumes


def test_two_at_once_are_one_and_a_line(node: Node) -> None:
    node.cloud.faults = {SPECS: [cloudserver.hang, None]}
    first = threading.Thread(target=node.refresh)
    first.start()
    while not node.cloud.services_asked():
        time.sleep(0.02)
    ran = node.runs("refresh")
    first.join()
    assert ran.status == 75
    assert "another refresh is under way" in ran.err


def test_one_that_is_killed_midway_loses_nothing(node: Node) -> None:
    node.sees(1)
    node.refresh()
    before = (node.directory / "catalogue.json").read_bytes()
    node.cloud.faults = {TYPES: [cloudserver.hang, None]}
    node.cloud.asked.clear()
    command = Path(sys.executable).with_name("plimsoll")
    process = subprocess.Popen(
        [command, "--config-file", node.home / "plimsoll.conf", "--config-file", node.home / "catalogue.conf",
         "catalogue", "refresh", "--now"]
    )  # fmt: skip
    while len(node.cloud.services_asked()) < 2:
        time.sleep(0.02)
    calls = RefreshDir(node.directory).load_notes().calls
    assert (calls.good, calls.failed) == (1, 0)  # as a pass publishes them meanwhile
    process.kill()
    process.wait()
    assert (node.directory / "catalogue.json").read_bytes() == before
    node.cloud.asked.clear()
    ran = node.refresh()
    assert ran.status == 1
    assert "the last refresh was interrupted" in ran.err  # a timer whose runs are cut off each time would be a storm
    assert node.cloud.asked == []
    assert node.refresh("--now").status == 0
    calls = RefreshDir(node.directory).load_notes().calls
    assert (calls.good, calls.failed) == (2, 1)


def test_a_directory_that_cannot_be_written_is_a_line(node: Node) -> None:
    node.settings["directory"] = "/proc/nowhere"
    ran = node.refresh()
    assert ran.status == 1
    assert "/proc/nowhere: cannot be created" in ran.err


def test_without_openstacksdk_the_line_says_what_to_install(node: Node) -> None:
    hidden = node.home / "hidden"
    (hidden / "keystoneauth1").mkdir(parents=True)
    (hidden / "keystoneauth1" / "__init__.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'keystoneauth1'\", name='keystoneauth1')\n"
    )
    ran = node.refresh(PYTHONPATH=str(hidden))
    assert ran.status == 1
    assert "pip install 'plimsoll-agent[openstack]'" in ran.err


def test_without_a_source_there_is_no_service_to_ask(node: Node) -> None:
    node.settings["source"] = "none"
    ran = node.refresh()
    assert ran.status == 1
    assert "nothing to fetch" in ran.err


@pytest.mark.parametrize(
    "words",
    [
        ["--jitter", "-1"],
        ["--jitter", "nan"],
        ["--spacing", "-1"],
        ["--spacing", "2d"],
        ["--region-file", "x"],
        ["--approve", "abc"],
        *(["--region-file", "x", "--signing-key", "k", "--valid-for", one] for one in ("-5", "0", "99999999999999")),
    ],
)
def test_what_cannot_be_meant_is_refused(node: Node, words: list[str]) -> None:
    assert node.refresh(*words).status == 64
    assert node.cloud.asked == []


# --- to look at -----------------------------------------------------------------------------------------


def test_show_lists_types_and_volumes(node: Node) -> None:
    node.sees(1, 3, 77)
    node.refresh()
    assert node.runs("show").out.splitlines() == [
        "TYPE   QOS SPEC   CONSUMER   KEYS                VOLUMES",
        "gold   gold-iops  front-end  total_iops_sec=500        1",
        "plain  none       -          -                         1",
        "-      x          back-end   -                         -",
    ]
    rows = json.loads(node.runs("show", "gold", "-f", "json").out)
    assert rows == [
        {
            "type": "gold",
            "qos_spec": "gold-iops",
            "consumer": "front-end",
            "keys": {"total_iops_sec": "500"},
            "volumes": 1,
        }
    ]
    assert node.runs("show", uuid(1)).out.splitlines()[1].startswith(f"{uuid(1)}  gold  gold-iops  front-end")
    volumes = {row["volume"]: row["type"] for row in json.loads(node.runs("show", "--volumes", "-f", "json").out)}
    assert volumes == {uuid(1): "gold", uuid(3): "plain", uuid(77): None}
    assert node.runs("show", "nonsense").status == 64


def test_age_is_a_check_that_a_monitor_can_run(node: Node) -> None:
    assert node.runs("age").status == 1
    node.sees(1)
    node.refresh()
    ran = node.runs("age", "-f", "json")
    assert (ran.status, [row["entries"] for row in json.loads(ran.out)]) == (0, [2, 2, 1, 0])
    path = node.directory / "catalogue.json"
    old = (datetime.now(UTC) - timedelta(hours=3)).isoformat()
    path.write_text(path.read_text().replace(node.catalogue.issued.isoformat(), old, 1))
    ran = node.runs("age")
    assert ran.status == 1
    assert "3 h " in ran.out
    assert "not refreshed from" in ran.err


def test_diff_tells_key_by_key_what_a_refresh_would_change_and_keeps_nothing(node: Node) -> None:
    node.sees(1)
    node.refresh()
    assert node.runs("diff").status == 0
    before = {file.name: file.read_bytes() for file in node.directory.iterdir()}
    node.cloud.specs = [GOLD | {"specs": {"total_iops_sec": "900", "read_bytes_sec": "1"}}]
    node.cloud.types[1] |= {"qos_specs_id": "s-gold"}
    node.cloud.types.append({"id": "t-new", "name": "new", "qos_specs_id": "s-gold"})
    ran = node.runs("diff")
    assert ran.status == 2
    assert ran.out.splitlines() == [
        "~ QoS spec gold-iops: read_bytes_sec not set → 1",
        "~ QoS spec gold-iops: total_iops_sec 500 → 900",
        "- QoS spec x",
        "+ volume type new: QoS spec=gold-iops",
        "~ volume type plain: QoS spec none → gold-iops",
    ]
    assert {file.name: file.read_bytes() for file in node.directory.iterdir()} == before
    (node.home / "before.json").write_bytes(before["catalogue.json"])
    node.refresh("--now")
    ran = node.runs("diff", str(node.home / "before.json"))
    assert ran.status == 2
    assert "~ QoS spec gold-iops: total_iops_sec 900 → 500" in ran.out
    node.cloud.faults = {"/identity": [cloudserver.status(500), ...]}
    assert node.runs("diff").status == 1
    assert node.runs("diff", "/etc/passwd").status == 1
