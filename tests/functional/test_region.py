"""The region's file from its making to a node's catalogue: by path, and over TLS from a server that nobody trusts."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from plimsoll_agent.adapters.ed25519 import read_private, read_public, unsealed
from plimsoll_agent.app.fetched import RegionOrders, region_orders
from plimsoll_agent.catalogue import signed_file
from plimsoll_agent.catalogue.orders import Of, Orders, RegionPause
from plimsoll_agent.catalogue.orders_file import RegionState
from plimsoll_agent.catalogue.signed_file import Region
from plimsoll_agent.config import settings as config
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.store.refresh_state import RefreshDir
from plimsoll_agent.store.state import State
from plimsoll_agent.util.frozen import replace
from tests.functional import cloudserver
from tests.functional.cloudserver import Cloud, cloud_server
from tests.functional.conftest import Ran
from tests.functional.test_catalogue import GOLD, LONG_AGO, Node, uuid, volume
from tests.functional.webserver import Web, key_pair, web_server

Plimsoll = Callable[..., Ran]


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    with cloud_server() as cloud:
        cloud.specs = [GOLD]
        cloud.types = [{"id": "t-gold", "name": "gold", "qos_specs_id": "s-gold"}]
        cloud.volumes = [volume(number) for number in range(1, 8)]
        cloud.servers = [{"id": uuid(50), "flavor": {"extra_specs": {"quota:disk_total_iops_sec": "9"}}}]
        yield cloud


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    with web_server(tmp_path) as web:
        yield web


class RegionalNode(Node):
    """A node without credentials, and beside it the one machine that has them."""

    def __init__(self, plimsoll: Plimsoll, home: Path, cloud: Cloud) -> None:
        super().__init__(plimsoll, home, cloud)
        self.key, self.public = key_pair(home)
        (home / "www").mkdir(exist_ok=True)
        self.file = home / "www" / "region.json"
        self._maker = self.settings | {"source": "none", "nova": True}
        self.settings = {
            "source": "region-file",
            "directory": self.directory,
            "region_file": self.file,
            "region_key": self.public,
            "deadline": 5,
        }

    def make(self, *words: str, **environment: str) -> Ran:
        mine, self.settings = self.settings, self._maker
        self.cloud.asked.clear()
        made = ("refresh", "--region-file", str(self.file), "--signing-key", str(self.key))
        ran = self.runs(*made, *words, **environment)
        self.settings = mine
        return ran

    def orders(self, *words: str) -> Ran:
        """What an operator decides for the region, on the machine that makes the file."""
        return self.command("region", *words, OS_REGION__FILE=str(self.file))

    def write(self, region: Region, key: Path | None = None) -> None:
        """A file that no plimsoll of today made: its signature stands beside it."""
        self.sign(signed_file.encode(region), key)

    def sign(self, content: bytes, key: Path | None = None) -> None:
        self.file.write_bytes(content)
        self.file.with_name("region.json.sig").write_bytes(read_private(key or self.key).sign(content))

    @property
    def believed(self) -> RegionOrders:
        """As a pass on the node believes them."""
        chosen = replace(config.load([], []).catalogue, source="region-file", directory=self.directory)
        return region_orders(replace(chosen, region_key=self.public), State(self.home / "state"), keep=False)

    def region(self) -> Region:
        return signed_file.decode(self.file.read_bytes(), "it")


@pytest.fixture
def node(plimsoll: Plimsoll, tmp_path: Path, cloud: Cloud) -> RegionalNode:
    return RegionalNode(plimsoll, tmp_path, cloud)


def region(generation: int, **changes: Any) -> Region:
    now = datetime.now(UTC)
    return Region(generation=generation, issued=now, begun=now, source="lab", **changes)


# --- made -----------------------------------------------------------------------------------------------


def test_the_file_holds_all_pages_of_volumes_and_guests_and_its_signatures_are_good(node: RegionalNode) -> None:
    node.cloud.most = 3
    ran = node.make()
    assert (ran.status, ran.err) == (0, "")
    assert re.fullmatch(
        r"6 calls in \d+\.\d s: 1 QoS spec, 1 volume type, 7 volumes, 1 guest;"
        rf" generation \d+, specs and types [0-9a-f]{{16}}, in {node.file}\.\n",
        ran.out,
    )
    made = node.region()
    assert dict(made.volumes) == {uuid(number): "t-gold" for number in range(1, 8)}
    assert made.servers == {uuid(50): {"quota:disk_total_iops_sec": "9"}}
    content, signature = unsealed(node.file.read_bytes())
    assert signature is not None
    read_public(node.public).verify(content, signature, "it")
    # That of nodes of before.
    signature = node.file.with_name("region.json.sig").read_bytes()
    read_public(node.public).verify(node.file.read_bytes(), signature, "it")


def test_a_long_reading_says_how_far_it_is(node: RegionalNode) -> None:
    node.cloud.most = 1
    node.cloud.volumes = [volume(number) for number in range(1, 13)]
    ran = node.make()
    assert (ran.status, ran.err) == (0, "10 volumes so far\n")


def test_each_file_has_a_higher_generation_and_a_forged_one_does_not_push_it(node: RegionalNode) -> None:
    node.make()
    first = node.region().generation
    node.make()
    second = node.region().generation
    assert second > first
    other, _ = key_pair(node.home, "other")
    node.write(
        region(10**15, orders=Orders(pause=RegionPause(since=LONG_AGO, until=None, by="x", why="forged"))), other
    )
    ran = node.make()
    assert ran.status == 0
    assert "is replaced" in ran.err
    # Where it is not known, the clock gives it; two files of one second had counted on from there.
    assert first <= node.region().generation < 10**12
    assert node.region().orders == Orders()


def test_a_link_to_the_next_page_leads_nowhere_else_and_not_in_a_circle(node: RegionalNode) -> None:
    stolen: list[str] = []

    def elsewhere(handler: cloudserver.Handler) -> None:
        if "marker" in handler.query:
            handler.say_json(200, {"volumes": [], "volumes_links": []})
        else:
            links = [{"rel": "next", "href": "http://127.0.0.1:9/stolen"}]
            handler.say_json(200, {"volumes": [volume(1)], "volumes_links": links})

    node.cloud.faults = {"/volume/v3/volumes": [elsewhere, ...]}
    assert node.make().status == 0
    assert not stolen
    assert list(node.region().volumes) == [uuid(1)]
    before = node.file.read_bytes()

    def circle(handler: cloudserver.Handler) -> None:
        links = [{"rel": "next", "href": "x"}]
        handler.say_json(200, {"volumes": [volume(1)], "volumes_links": links})

    node.cloud.faults = {"/volume/v3/volumes": [circle, ...]}
    ran = node.make()
    assert ran.status == 1
    assert "the pages repeat" in ran.err
    assert node.file.read_bytes() == before


def test_a_volume_that_is_deleted_between_two_pages_does_not_end_the_reading(node: RegionalNode) -> None:
    node.cloud.most = 3

    def gone(handler: cloudserver.Handler) -> None:
        if handler.query.get("marker") == uuid(3):
            handler.say_json(404, {"itemNotFound": {"message": "Volume could not be found."}})
        else:
            answer = node.cloud.page("volumes", node.cloud.volumes, handler.query, node.cloud.url)
            handler.say_json(200, answer)

    node.cloud.faults = {"/volume/v3/volumes": [gone, ...]}
    assert node.make().status == 0
    assert set(node.region().volumes) == {uuid(number) for number in range(1, 8)}


def test_a_cloud_in_trouble_leaves_the_old_file(node: RegionalNode) -> None:
    node.make()
    before = node.file.read_bytes()
    node.cloud.faults = {"/volume/v3/volumes": [cloudserver.status(500), ...]}
    ran = node.make()
    assert (ran.status, ran.out) == (1, "")
    assert "Cinder" in ran.err
    assert node.file.read_bytes() == before


def test_while_nova_fails_what_is_read_of_cinder_is_published(node: RegionalNode) -> None:
    node.make()
    node.cloud.faults = {"/compute": [cloudserver.status(503), ...]}
    node.cloud.volumes.append(node.cloud.volumes[0] | {"id": uuid(8)})
    ran = node.make()
    assert (ran.status, ran.err.count("Nova"), "server error (503)" in ran.err) == (3, 1, True)
    assert uuid(8) in node.region().volumes
    assert (node.region().servers, node.region().has_all_servers) == ({}, False)


@pytest.mark.parametrize("path", ["/volume/v3/qos-specs", "/volume/v3/volumes", "/identity"])
def test_orders_reach_nodes_while_cinder_or_keystone_is_down_with_data_that_look_no_newer(
    node: RegionalNode, path: str
) -> None:
    node.make("--valid-for", "86400")
    node.sees(1)
    assert node.refresh().status == 0
    before, catalogue = node.region(), node.catalogue
    node.cloud.faults = {path: [cloudserver.status(500), ...]}
    node.orders("pause", "--reason", "Ceph moves")
    node.cloud.volumes = [volume(9)]
    ran = node.make("--valid-for", "86400")
    assert (ran.status, ran.out) == (1, "")
    assert "server error (500)" in ran.err
    assert (
        f"Only orders (approvals, pause, holds) published, with the data of {before.begun:%Y-%m-%d %H:%M}" in ran.err
    )
    after = node.region()
    orders = after.orders
    assert orders.pause is not None
    assert after == replace(before, generation=before.generation + 1, orders=orders)
    assert node.refresh("--now").status == 0
    assert node.believed == RegionOrders(orders=orders, begun=before.begun)
    assert node.catalogue == replace(catalogue, generation=after.generation)
    content = node.file.read_bytes()
    assert node.make().status == 1
    assert node.file.read_bytes() == content, "nothing new to tell"
    node.orders("resume")
    node.make()
    assert node.region().orders == Orders()
    node.cloud.faults = {}
    assert node.make().status == 0
    assert set(node.region().volumes) == {uuid(9)}
    assert node.refresh("--now").status == 0


def test_data_that_nodes_may_not_use_any_more_get_no_new_orders(node: RegionalNode) -> None:
    node.make("--valid-for", "1")
    content = node.file.read_bytes()
    time.sleep(1.1)
    node.orders("pause", "--reason", "Ceph moves")
    node.cloud.faults = {"/volume": [cloudserver.status(500), ...]}
    ran = node.make("--valid-for", "86400")
    assert ran.status == 1
    assert "new orders not published: nodes take no file with this data after" in ran.err
    assert node.file.read_bytes() == content


# --- what the brake of the region stops


def edit(node: RegionalNode, **keys: str) -> None:
    node.cloud.specs = [GOLD | {"specs": keys}]


def digest_in(ran: Ran) -> str:
    found = re.search(r"plimsoll region approve ([0-9a-f]{16})", ran.err)
    assert found, ran.err
    return found[1]


def published(node: RegionalNode) -> Any:
    return dict(node.region().specs["s-gold"].keys)


def test_a_slip_in_a_spec_stops_at_the_publisher_and_nothing_of_what_nodes_know_goes_stale(
    node: RegionalNode,
) -> None:
    node.cloud.volumes = [volume(number) for number in range(1, 3413)]
    node.make()
    first = node.region()
    edit(node, total_iops_sec="5")
    node.cloud.volumes += [volume(5000), volume(5001) | {"status": "available", "attachments": []}]
    ran = node.make()
    assert ran.status == 4
    assert "would change the limits of 3413 of 3413 attached volumes (allowed: 50 volumes or" in ran.err
    assert "gold-iops total_iops_sec 500 → 5: 3413 volumes of type gold, cut to 1/10 or less\n" in ran.err
    stopped = node.region()
    assert published(node) == {"total_iops_sec": "500"}
    assert uuid(5000) in stopped.volumes
    assert stopped.generation > first.generation
    assert stopped.begun > first.begun
    node.sees(1, 5000)
    assert node.refresh().status == 0
    assert node.catalogue.specs == first.specs
    assert node.make().status == 4, "the next run stops it again"
    edit(node, total_iops_sec="500")
    ran = node.make()
    assert (ran.status, ran.err) == (0, "")


def test_the_bounds_are_settings(node: RegionalNode) -> None:
    node.make()
    edit(node, total_iops_sec="249")
    bounds = {"OS_REGION__BRAKE_VOLUMES": "6", "OS_REGION__BRAKE_PERCENT": "80"}
    assert node.make(**bounds).status == 4
    wide = bounds | {"OS_REGION__BRAKE_PERCENT": "100"}
    assert node.make(**wide, OS_BRAKE__FACTOR="2").status == 4, "to less than half"
    assert node.make(**wide).status == 0


def test_an_approval_lets_just_that_state_through_and_goes_out_with_its_end(node: RegionalNode) -> None:
    node.make()
    edit(node, total_iops_sec="5")
    digest = digest_in(node.make())
    ran = node.orders("approve", digest, "--reason", "as agreed", "--for", "2h")
    assert (ran.status, ran.err) == (0, "")
    assert f"QoS specs and types {digest}" in ran.out
    edit(node, total_iops_sec="4")
    assert node.make().status == 4, "edited again since"
    edit(node, total_iops_sec="5")
    assert node.make().status == 0
    assert published(node) == {"total_iops_sec": "5"}
    node.make()  # the timer's
    (approval,) = node.region().orders.approvals
    assert (len(approval.digest), approval.digest[:16], approval.why) == (64, digest, "as agreed")
    assert approval.until - approval.since == timedelta(hours=2)
    node.sees(1)
    node.refresh()
    assert node.believed == RegionOrders(orders=node.region().orders, begun=node.region().begun)


def test_a_removal_is_approved_of_by_the_volume_type_only(node: RegionalNode) -> None:
    node.make()
    edit(node, total_bytes_sec="0")
    ran = node.make()
    digest = digest_in(ran)
    assert f"plimsoll region approve {digest} --remove gold --reason TEXT" in ran.err
    ran = node.orders("approve", digest, "--reason", "sold")
    assert ran.status == 64
    assert "would remove the limits of volumes of type gold" in ran.err
    assert node.orders("approve", digest, "--reason", "sold", "--remove", "silver").status == 64
    assert node.orders("approve", digest, "--reason", "sold", "--remove", "gold").status == 0
    assert node.make().status == 0
    assert node.region().orders.approvals[0].remove == {"t-gold"}


@pytest.mark.parametrize("typed", ["abcdef", "0" * 15, "0" * 16, "z" * 16, "", "0" * 65])
def test_what_is_no_digest_of_what_was_read_is_refused(node: RegionalNode, typed: str) -> None:
    ran = node.orders("approve", typed, "--reason", "x")
    assert ran.status == 64
    assert "no QoS specs read yet" in ran.err
    node.make()
    edit(node, total_iops_sec="5")
    digest = digest_in(node.make())
    for one in (typed, digest[:15], digest + "z"):
        ran = node.orders("approve", one, "--reason", "x")
        assert ran.status == 64
        assert len(ran.err.splitlines()) == 1
    assert not RegionState(node.file).orders_file.exists()
    assert node.make().status == 4


def test_rules_and_bounds_are_approved_of_for_all_nodes(node: RegionalNode) -> None:
    rules = "0a1b" * 16
    ran = node.orders("approve", "--rules", rules, "--disks", "40", "--reason", "new rules")
    assert (ran.status, ran.err) == (0, "")
    assert "bounds of the nodes' brakes: 40 disks, 0 %" in ran.out
    for wrong in (
        ["--rules", rules[:16]],
        ["--percent", "101"],
        ["--disks", "0"],
        [],
        ["--disks", "5", "--remove", "x"],
    ):
        assert node.orders("approve", *wrong, "--reason", "x").status == 64
    node.make()
    orders = node.region().orders
    now = datetime.now(UTC)
    assert orders.approve(Of.RULES, rules, now)
    assert orders.bounds(now) == (40, 0)


def test_approvals_are_listed_and_withdrawn(node: RegionalNode) -> None:
    node.make()
    edit(node, total_iops_sec="5")
    digest, rules = digest_in(node.make()), "ab" * 32
    assert json.loads(node.orders("approvals", "-f", "json").out) == []
    node.orders("approve", digest, "--reason", "as agreed", "--for", "2h", "--remove", "gold")
    node.orders("approve", "--rules", rules, "--disks", "40", "--percent", "50", "--reason", "move", "--for", "3d")
    node.make()
    assert published(node) == {"total_iops_sec": "5"}
    listed = json.loads(node.orders("approvals", "-f", "json").out)
    assert [(one["of"], one["digest"][:16], one["remove"], one["disks"], one["percent"]) for one in listed] == [
        ("specs", digest, ["gold"], None, None),
        ("bounds", "", [], 40, 50),
        ("rules", rules[:16], [], None, None),
    ]
    assert [(one["reason"], 0 < one["left"] <= 3 * 86400) for one in listed] == [
        ("as agreed", True),
        ("move", True),
        ("move", True),
    ]
    assert f"specs {digest} - gold" in " ".join(node.orders("approvals").out.split())

    for typed in ("c" * 16, digest[:15], "gold"):
        assert node.orders("withdraw", digest, typed).status == 64
    assert len(json.loads(node.orders("approvals", "-f", "json").out)) == 3, "one that is none withdraws none"
    ran = node.orders("withdraw", digest, "bounds")
    assert (ran.status, ran.err) == (0, "")
    assert f"Withdrawn: QoS specs and types {digest}, removals of gold.\n" in ran.out
    assert "Withdrawn: bounds of the nodes' brakes: 40 disks, 50 %.\n" in ran.out
    node.make()
    (left,) = node.region().orders.approvals
    assert left.digest == rules
    assert published(node) == {"total_iops_sec": "5"}, "what was published stays"
    edit(node, total_iops_sec="7")
    assert node.make().status == 0
    edit(node, total_iops_sec="5")
    assert node.make().status == 4, "withdrawn is not approved"


def metrics_of(directory: Path) -> dict[str, float]:
    families = text_string_to_metric_families((directory / "plimsoll-region.prom").read_text())
    return {sample.name: sample.value for family in families for sample in family.samples}


def test_deferred_changes_are_in_prometheus(node: RegionalNode, tmp_path: Path) -> None:
    into = {"OS_METRICS__TEXTFILE_DIR": str(tmp_path)}
    node.make(**into)
    told = metrics_of(tmp_path)
    assert told["plimsoll_region_braked"] == 0
    assert told["plimsoll_region_read_timestamp_seconds"] == node.region().issued.timestamp()
    assert "plimsoll_region_braked_volumes" not in told
    edit(node, total_iops_sec="5")
    digest = digest_in(node.make(**into))
    told = metrics_of(tmp_path)
    assert (told["plimsoll_region_braked"], told["plimsoll_region_braked_volumes"]) == (1, 7)
    node.file.unlink()
    node.make(**into)
    told = metrics_of(tmp_path)
    assert told["plimsoll_region_braked"] == 1, "there is nothing to compare with"
    assert "plimsoll_region_braked_volumes" not in told
    node.orders("approve", digest, "--reason", "as agreed")
    assert node.make(**into).status == 0
    assert metrics_of(tmp_path)["plimsoll_region_braked"] == 0


def test_metrics_that_cannot_be_written_keep_no_file_back_and_are_told(node: RegionalNode, tmp_path: Path) -> None:
    ran = node.make(OS_METRICS__TEXTFILE_DIR=str(tmp_path / "none"))
    assert ran.status == 3
    assert "plimsoll-region.prom: the metrics cannot be written" in ran.err
    assert node.region()


def test_a_file_that_got_lost_does_not_take_the_brake_along(node: RegionalNode) -> None:
    node.make()
    edit(node, total_iops_sec="5")
    node.file.unlink()
    ran = node.make()
    assert ran.status == 4
    assert not node.file.exists()
    assert node.orders("approve", digest_in(ran), "--reason", "looked at").status == 0
    assert node.make().status == 0
    node.file.write_text("{}")
    assert node.make().status == 0, "the same specs as before need nothing to be compared with"


# --- pause and holds of the region


def test_a_pause_goes_out_with_each_file_until_it_is_resumed(node: RegionalNode) -> None:
    assert node.orders("resume").status == 64
    ran = node.orders("pause", "--reason", "Ceph moves")
    assert (ran.status, ran.err) == (0, "")
    assert "already" in node.orders("pause", "--reason", "again").err
    for _ in range(2):
        node.make()
        pause = node.region().orders.pause
        assert pause is not None
        assert (pause.why, pause.until) == ("Ceph moves", None)
    node.sees(1)
    node.refresh()
    assert node.believed.orders.pause == pause
    assert node.orders("resume").status == 0
    node.make()
    assert node.region().orders.pause is None
    assert node.orders("pause", "--reason", "Ceph moves", "--for", "2h").status == 0
    node.make()
    pause = node.region().orders.pause
    assert pause is not None
    assert pause.until == pause.since + timedelta(hours=2)


def test_holds_go_out_by_the_identity_of_the_disk(node: RegionalNode) -> None:
    own = f"{uuid(9)}/vms/{uuid(9)}_disk"
    ran = node.orders(
        "hold", "add", uuid(1).upper(), own, "--for", "1d", "--limits", "total_iops_sec=50", "--reason", "noisy"
    )
    assert ran.status == 0
    assert ran.err.startswith(
        "warning: --limits is the full set, without a limit of bytes: the disks have none during"
    )
    assert node.orders("hold", "add", f"{uuid(9)}/{uuid(2)}", "--for", "2d", "--reason", "import").status == 0
    node.make()
    holds = {hold.disk: hold.limits for hold in node.region().orders.holds}
    limits = Limits(total_iops_sec=50)
    assert holds == {uuid(1): limits, own: limits, f"{uuid(9)}/{uuid(2)}": None}
    listed = json.loads(node.orders("hold", "list", "-f", "json").out)
    assert [(one["disk"], one["reason"]) for one in listed] == [
        (uuid(1), "noisy"),
        (own, "noisy"),
        (f"{uuid(9)}/{uuid(2)}", "import"),
    ]
    assert node.orders("hold", "add", uuid(1), "--for", "1d", "--reason", "as it is").status == 0
    assert node.orders("hold", "remove", own).status == 0
    assert node.orders("hold", "remove", own).status == 64
    node.make()
    assert {hold.disk: hold.limits for hold in node.region().orders.holds} == {
        uuid(1): None,
        f"{uuid(9)}/{uuid(2)}": None,
    }


@pytest.mark.parametrize(
    "disk", ["vda", "", "instance-1/vda", f"{uuid(9)}/", f"{uuid(9)}/vda", f"{uuid(9)}//x", "a\nb"]
)
def test_what_is_no_identity_of_a_disk_is_refused(node: RegionalNode, disk: str) -> None:
    ran = node.orders("hold", "add", disk, "--for", "1d", "--reason", "x")
    assert ran.status == 64
    assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize("damage", ["{", '{"kind": "plimsoll-region-orders", "version": 1}', None])
def test_what_was_decided_outlasts_the_file_that_it_was_in(node: RegionalNode, damage: str | None) -> None:
    node.orders("pause", "--reason", "Ceph moves")
    node.orders("hold", "add", uuid(1), "--for", "1d", "--reason", "noisy")
    node.make()
    orders = node.region().orders
    file = RegionState(node.file).orders_file
    file.unlink()
    if damage is not None:
        file.write_text(damage)
        ran = node.orders("hold", "add", uuid(2), "--for", "1d", "--reason", "x")
        assert ran.status == 1
        assert "is corrupt" in ran.err
        ran = node.make()
        assert ran.status == 3
        assert "stay in effect" in ran.err
        assert node.region().orders == orders
        file.unlink()
    assert node.make().status == 0
    assert node.region().orders == orders
    assert node.orders("hold", "add", uuid(2), "--for", "1d", "--reason", "x").status == 0
    node.make()
    assert node.region().orders.pause == orders.pause
    assert len(node.region().orders.holds) == 2


def test_what_was_read_last_is_written_new_where_it_is_damaged(node: RegionalNode) -> None:
    node.make()
    file = RegionState(node.file).last_file
    file.write_text("{")
    ran = node.make()
    assert ran.status == 3
    assert "is corrupt" in ran.err
    ran = node.make()
    assert (ran.status, ran.err) == (0, "")


def test_a_machine_that_makes_no_file_is_told_so(node: RegionalNode) -> None:
    ran = node.command("region", "pause", "--reason", "x")
    assert ran.status == 1
    assert "[region] file: not set" in ran.err
    ran = node.command("region", "pause", "--reason", "x", "--region-file", "/nowhere/region.json")
    assert ran.status == 1
    assert "/nowhere: is not a directory" in ran.err


def test_a_signing_key_that_others_may_read_signs_nothing(node: RegionalNode) -> None:
    node.key.chmod(0o644)
    ran = node.make()
    assert ran.status == 1
    assert "chmod 640" in ran.err
    assert not node.file.exists()
    node.key.chmod(0o600)
    node.key.write_text("no key")
    assert "is not a private key in PEM" in node.make().err


# --- taken ----------------------------------------------------------------------------------------------


def test_a_node_takes_its_slice_and_nothing_for_attachments_that_came_after_the_reading(node: RegionalNode) -> None:
    node.make()
    node.sees(1, 2, 99, guests=(50, 51))
    ran = node.refresh()
    assert (ran.status, ran.err) == (0, "")
    assert "1 QoS spec, 1 volume type, 2 volumes of this node" in ran.out
    assert node.cloud.asked == []
    known = node.catalogue
    types = {id: one.type for id, one in known.volumes.items()}
    assert types == {uuid(1): "t-gold", uuid(2): "t-gold", uuid(99): None}
    assert known.volumes[uuid(99)].missing
    assert known.servers[uuid(50)].extra_specs == {"quota:disk_total_iops_sec": "9"}
    assert known.servers[uuid(51)].missing
    assert known.generation == node.region().generation
    node.sees(1, 3, since=datetime.now(UTC), mark="new")
    node.refresh("--now")
    assert set(node.catalogue.volumes) == set()
    later = datetime.now(UTC) + timedelta(seconds=90)
    node.write(
        Region(generation=known.generation + 1, issued=later, begun=later, source="lab", volumes={uuid(1): "t-gold"})
    )
    node.refresh("--now")
    assert {id: one.type for id, one in node.catalogue.volumes.items()} == {uuid(1): "t-gold", uuid(3): None}


@pytest.mark.parametrize("place", [0, 0.3, 0.6, 0.999])
def test_a_byte_that_was_changed_is_found_out_before_anything_is_parsed(node: RegionalNode, place: float) -> None:
    node.make()
    node.sees(1)
    node.refresh()
    before = (node.directory / "catalogue.json").read_bytes()
    content = bytearray(node.file.read_bytes())
    content[int(place * len(content))] ^= 1
    node.file.write_bytes(content)
    ran = node.refresh("--now")
    assert (ran.status, ran.out) == (1, "")
    assert "the signature is not that of" in ran.err
    assert len(ran.err.splitlines()) == 1
    assert (node.directory / "catalogue.json").read_bytes() == before


@pytest.mark.parametrize(
    ("signature", "words"),
    [
        (b"", "the signature is not that of"),
        (b"not base64 at all!", "is not a signature"),
        (b"A" * 88 + b"\n", "the signature is not that of"),
        (b"A" * 5000, "is longer than"),
        (None, "region.json.sig: cannot be read"),
    ],
)
def test_a_signature_that_is_none_is_refused(node: RegionalNode, signature: bytes | None, words: str) -> None:
    node.write(region(1))
    path = node.file.with_name("region.json.sig")
    path.unlink()
    if signature is not None:
        path.write_bytes(signature)
    ran = node.refresh()
    assert ran.status == 1
    assert words in ran.err


def test_another_key_is_refused(node: RegionalNode) -> None:
    other, _ = key_pair(node.home, "other")
    node.write(region(1), other)
    ran = node.refresh()
    assert ran.status == 1
    assert "signed with another key" in ran.err


def test_older_files_and_other_files_of_the_same_generation_are_refused(node: RegionalNode) -> None:
    node.write(region(5))
    assert node.refresh().status == 0
    node.write(region(4))
    ran = node.refresh("--now")
    assert ran.status == 1
    assert "is older (generation 4) than the last one (5)" in ran.err
    node.write(region(5, orders=Orders(pause=RegionPause(since=LONG_AGO, until=None, by="ann", why="another"))))
    ran = node.refresh("--now")
    assert ran.status == 1
    assert "but other content" in ran.err
    # Nor does it help to take away what the refresher wrote down of it, or the catalogue.
    (node.directory / "refresh.json").unlink()
    node.write(region(4))
    assert "is older" in node.refresh("--now").err
    node.write(region(6))
    assert node.refresh("--now").status == 0
    (node.directory / "catalogue.json").write_text("{")
    node.write(region(5))
    assert "is older" in node.refresh("--now").err


def test_a_file_whose_time_is_over_or_still_to_come_is_refused(node: RegionalNode) -> None:
    assert node.make("--valid-for", "1").status == 0
    time.sleep(1.1)
    ran = node.refresh()
    assert ran.status == 1
    assert "was valid until" in ran.err
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    node.write(Region(generation=10**10, issued=tomorrow, begun=tomorrow, source="lab"))
    ran = node.refresh("--now")
    assert ran.status == 1
    assert "check the clocks" in ran.err


@pytest.mark.parametrize("written", ["region.json", "region.json.sig"])
def test_a_crash_between_the_file_and_the_signature_beside_it_loses_nothing(node: RegionalNode, written: str) -> None:
    node.orders("pause", "--reason", "Ceph moves")
    node.make()
    decided = node.region().orders
    assert decided.pause is not None
    other = node.file.with_name({"region.json": "region.json.sig"}.get(written, "region.json"))
    before = other.read_bytes()
    node.make()
    other.write_bytes(before)
    node.sees(1)
    ran = node.refresh()
    assert (ran.status, ran.err) == (0, "")
    assert node.believed.orders == decided
    for beside in (RegionState(node.file).orders_file, RegionState(node.file).last_file):
        beside.unlink()  # then the file alone has it
    crashed = node.region().generation
    ran = node.make()
    assert (ran.status, ran.err) == (0, "")
    assert node.region().orders == decided
    assert node.region().generation > crashed
    assert node.refresh("--now").status == 0


def test_a_seal_of_another_key_is_refused_though_the_signature_beside_it_is_good(node: RegionalNode) -> None:
    other, _ = key_pair(node.home, "other")
    node.sign(read_private(other).seal(signed_file.encode(region(1))))
    ran = node.refresh()
    assert ran.status == 1
    assert "signed with another key" in ran.err


def test_a_reader_between_the_writing_of_file_and_signature_reads_again(node: RegionalNode) -> None:
    node.write(region(1))
    signature = node.file.with_name("region.json.sig")
    old = node.file.read_bytes(), signature.read_bytes()
    node.write(region(2))
    new = signature.read_bytes()
    assert new != old[1]
    signature.write_bytes(old[1])
    mend = threading.Timer(1.5, signature.write_bytes, [new])
    mend.start()
    ran = node.refresh()
    mend.join()
    assert (ran.status, ran.err) == (0, "")
    assert node.catalogue.generation == node.region().generation


# --- what passes have of it


def pause(node: RegionalNode) -> None:
    """In the whole region; the node has fetched it, and a pass has met it."""
    node.sees(1)
    node.orders("pause", "--reason", "Ceph moves")
    node.make()
    assert node.refresh().status == 0
    rules = node.home / "rules.yaml"
    rules.write_text("{}")
    environment = {"OS_LIBVIRT__URI": "test:///default", "OS_DEFAULT__RULES_FILE": str(rules)}
    enforced = node.command("enforce", "--mode", "observe", **environment)
    assert "paused by" in enforced.out
    assert node.believed.orders.pause is not None


def is_paused(node: RegionalNode) -> bool:
    told = json.loads(node.command("status", "-f", "json").out)
    return told["paused"] is not None


@pytest.mark.parametrize("damaged", [["catalogue.json"], ["catalogue.json", "region-file.json"]])
@pytest.mark.parametrize("how", ["damaged", "gone"])
def test_a_pause_outlasts_files_that_are_lost_and_refreshes_that_fail(
    node: RegionalNode, damaged: list[str], how: str
) -> None:
    pause(node)
    files = [node.directory / name for name in damaged]
    for file in files:
        file.write_text("{") if how == "damaged" else file.unlink()
    assert is_paused(node)
    node.file.rename(node.file.with_name("away"))
    assert node.refresh("--now").status == 1
    assert [file.exists() for file in files] == [how == "damaged"] * len(files), "set aside for another one only"
    assert is_paused(node)
    node.file.with_name("away").rename(node.file)
    ran = node.refresh("--now")
    assert ran.status == 0
    assert ("moved to catalogue.json.corrupt" in ran.err) == (how == "damaged" and "catalogue.json" in damaged)
    assert node.believed.unknown is None
    node.orders("resume")
    node.make()
    node.refresh("--now")
    assert not is_paused(node)


def test_a_file_that_a_server_has_not_changed_is_fetched_whole_where_passes_have_lost_it(
    remote: RegionalNode, web: Web
) -> None:
    ca = {"REQUESTS_CA_BUNDLE": str(web.ca)}
    for lost, answer in ((False, 200), (False, 304), (True, 200), (False, 304)):
        if lost:
            (remote.directory / "region-file.json").write_text("{}")
        web.answered.clear()
        assert remote.refresh("--now", **ca).status == 0
        assert web.answered == [("/region.json", answer)]
        assert remote.believed.unknown is None


def test_a_signature_in_a_file_of_its_own_is_kept_with_what_it_is_of(node: RegionalNode) -> None:
    node.sees(1)
    decided = Orders(pause=RegionPause(since=LONG_AGO, until=None, by="ann", why="Ceph moves"))
    node.write(region(5, orders=decided))
    for _ in range(2):
        assert node.refresh("--now").status == 0
        assert node.believed.orders == decided


def test_a_refresh_that_is_not_due_does_not_call_a_newer_file_unchanged(node: RegionalNode) -> None:
    node.sees(1)
    node.write(region(5))
    assert node.refresh().status == 0
    node.write(region(6))
    line = r"Region file not read before \S+ \S+ UTC \(--now reads it now\); generation 5 of \S+ \S+ UTC stays\.\n"
    assert re.fullmatch(line, node.refresh().out)
    assert "generation 6" in node.refresh("--now").out


# --- over TLS -------------------------------------------------------------------------------------------


@pytest.fixture
def remote(web: Web, node: RegionalNode) -> RegionalNode:
    node.settings["region_file"] = f"{web.url}/region.json"
    node.make()
    node.sees(1)
    return node


def test_a_file_over_https_is_fetched_once_and_then_only_asked_for(remote: RegionalNode, web: Web) -> None:
    ca = {"REQUESTS_CA_BUNDLE": str(web.ca)}
    ran = remote.refresh(**ca)
    assert (ran.status, ran.err) == (0, "")
    assert remote.catalogue.source == f"{web.url}/region.json"
    web.answered.clear()
    assert remote.refresh(**ca).status == 0
    assert web.answered == []  # not due
    assert remote.refresh("--now", **ca).out.startswith("Region file unchanged since ")
    assert web.answered == [("/region.json", 304)]
    remote.make()
    assert remote.refresh("--now", **ca).status == 0
    assert remote.catalogue.generation == remote.region().generation
    # What a pass met since, though it was there when the file was read, must not wait for the next file.
    remote.sees(1, 2)
    web.answered.clear()
    assert remote.refresh(**ca).status == 0
    assert web.answered[0] == ("/region.json", 200)
    assert set(remote.catalogue.volumes) == {uuid(1), uuid(2)}


@pytest.mark.parametrize(("seconds", "validator", "asked"), [(20, True, 0), (28, True, 1), (28, False, 0)])
def test_a_server_that_can_say_that_nothing_is_new_is_asked_twice_a_minute(
    remote: RegionalNode, web: Web, seconds: int, validator: bool, asked: int
) -> None:
    """Another one sends the whole file each time: it is asked once an interval."""
    ca = {"REQUESTS_CA_BUNDLE": str(web.ca)}
    assert remote.refresh(**ca).status == 0
    directory = RefreshDir(remote.directory)
    notes = directory.load_notes()
    assert notes.region is not None
    region = replace(notes.region, asked=notes.region.asked - timedelta(seconds=seconds))
    region = region if validator else replace(region, etag=None, modified=None)
    directory.save_notes(replace(notes, region=region))
    web.answered.clear()
    assert remote.refresh(**ca).status == 0
    assert web.answered == [("/region.json", 304)] * asked


def test_without_its_ca_and_without_tls_nothing_is_fetched(remote: RegionalNode, web: Web) -> None:
    ran = remote.refresh()
    assert ran.status == 1
    assert "certificate not trusted" in ran.err
    remote.settings["region_file"] = web.url.replace("https", "http") + "/region.json"
    ran = remote.refresh("--now")
    assert ran.status == 1
    assert "not an https address" in ran.err


@pytest.mark.parametrize(
    ("fault", "words", "deferred"),
    [
        (lambda handler: handler.say(500, b""), "server error (500)", True),
        (lambda handler: handler.say(404, b""), "request refused (404)", False),
        (lambda handler: handler.say(200, b"<html>"), "the signature is not that of", False),
        (lambda handler: handler.say(200, b"x", length=500), "the answer was cut off", True),
        (cloudserver.hang, "no answer within 2 s", True),
        (cloudserver.trickle, "no answer within 2 s", True),
        (cloudserver.redirect("http://127.0.0.1:9/region.json"), "to an address without https", False),
        (cloudserver.redirect("/region.json"), "redirects more than 5 times", False),
    ],
)
def test_a_server_in_trouble_changes_nothing(
    remote: RegionalNode, web: Web, fault: Any, words: str, deferred: bool
) -> None:
    ca = {"REQUESTS_CA_BUNDLE": str(web.ca)}
    remote.refresh(**ca)
    before = (remote.directory / "catalogue.json").read_bytes()
    remote.settings["deadline"] = 2
    web.faults = {"/region.json": [fault, ...]}
    began = time.monotonic()
    ran = remote.refresh("--now", **ca)
    assert time.monotonic() - began < 2 + 30  # a Python that starts on a busy machine took 3 s
    assert (ran.status, ran.out) == (1, "")
    assert words in ran.err
    assert len(ran.err.splitlines()) == 1
    assert (remote.directory / "catalogue.json").read_bytes() == before
    # A bad file costs nobody anything; only a server that is in trouble is left alone.
    assert (json.loads((remote.directory / "refresh.json").read_text())["failures"] > 0) == deferred


def test_a_file_that_has_no_end_is_not_read_to_it(remote: RegionalNode, web: Web) -> None:
    remote.write(region(1))
    web.faults = {"/region.json.sig": [cloudserver.huge, ...]}
    ran = remote.refresh(REQUESTS_CA_BUNDLE=str(web.ca))
    assert ran.status == 1
    assert "region.json.sig: is longer than 1024 bytes" in ran.err


def test_a_redirect_to_https_is_followed(remote: RegionalNode, web: Web) -> None:
    remote.write(region(1))  # its signature is fetched too
    web.faults = {"/old.json": [cloudserver.redirect("/region.json"), ...]}
    web.faults["/old.json.sig"] = [cloudserver.redirect("/region.json.sig"), ...]
    remote.settings["region_file"] = f"{web.url}/old.json"
    assert remote.refresh(REQUESTS_CA_BUNDLE=str(web.ca)).status == 0


def test_what_may_be_a_secret_in_the_address_is_not_shown(remote: RegionalNode, web: Web) -> None:
    remote.settings["region_file"] = f"{web.url.replace('//', '//me:pw@')}/none.json?token=hush"
    ran = remote.refresh(REQUESTS_CA_BUNDLE=str(web.ca))
    assert ran.status == 1
    assert "hush" not in ran.err
    assert "pw@" not in ran.err


def test_diff_reads_a_region_file_without_taking_it(node: RegionalNode) -> None:
    node.make()
    node.sees(1)
    node.refresh()
    node.cloud.specs = [GOLD | {"specs": {"total_iops_sec": "900"}}]
    node.cloud.volumes[0] = volume(1, "t-other", "other")
    node.make()
    for words in (["diff"], ["diff", str(node.file)]):
        ran = node.runs(*words)
        assert ran.status == 2
        assert "~ QoS spec gold-iops: total_iops_sec 500 → 900" in ran.out
        assert f"~ volume {uuid(1)}: type gold → t-other (not listed)" in ran.out
    assert node.catalogue.issued > LONG_AGO


def test_a_relative_path_is_refused_since_a_timer_runs_anywhere(node: RegionalNode) -> None:
    node.settings["region_file"] = "region.json"
    ran = node.refresh()
    assert ran.status == 1
    assert "must be an absolute path or an https URL" in ran.err
    assert len(ran.err.splitlines()) == 1


def test_a_policy_that_begins_to_hide_specs_makes_no_new_file(node: RegionalNode) -> None:
    """All nodes of the region would leave all volumes alone by it."""
    node.make()
    before = node.file.read_bytes()
    del node.cloud.types[0]["qos_specs_id"]
    ran = node.make()
    assert ran.status == 1
    assert "access_types_qos_specs_id" in ran.err
    assert node.file.read_bytes() == before
