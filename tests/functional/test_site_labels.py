"""A Prometheus whose targets have the labels ``cluster`` and ``node``, where others have ``region`` and ``instance``.

plimsoll's own metrics have a label ``cluster`` too, Ceph's fsid, which Prometheus then calls ``exported_cluster``.
What commands print and dashboards show is what it is everywhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from plimsoll_agent.config import settings as config
from plimsoll_agent.monitor.site_labels import SiteLabels
from plimsoll_insight.cli.explain import RegionExplain
from plimsoll_insight.cli.region_load import RegionLoadList
from plimsoll_insight.cli.simulate import Simulate
from plimsoll_monitoring.adapters.prometheus import Prometheus
from plimsoll_monitoring.alerts.files import alerts_text, rules_text
from plimsoll_monitoring.alerts.site import Site
from plimsoll_monitoring.cli.base import RegionCommand
from plimsoll_monitoring.cli.promised import RegionPromised
from plimsoll_monitoring.cli.region import RegionDisks, RegionProbes, RegionStatus
from plimsoll_monitoring.dashboards.files import files
from tests.functional.test_dashboard_queries import EXPECTED, VIEWS, matches
from tests.grafana import filled, panels
from tests.simulated_region import LAST, NODES, PROBED, STEP, Served, instance, region_of, served
from tests.unit.node import FSID, uuid_of
from tests.unit.person import Person, Ran

LABELS = SiteLabels(("cluster",), "node")
SITE = Site(region=LABELS.region, instance=LABELS.instance, compute_nodes='job="node"')
WITH_PLIMSOLL = {(region_of(node), instance(node)) for node in NODES if node != 9}
SOUTH = {(region, name) for region, name in WITH_PLIMSOLL if region == "south"}
Run = Callable[..., Ran]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(rules_text(SITE), alerts_text(SITE), tmp_path_factory.mktemp("site"), LABELS) as there:
        yield there


@pytest.fixture
def run(prometheus: Served, tmp_path: Path) -> Run:
    """As of the end of the simulated time."""
    settings = tmp_path / "plimsoll.conf"
    settings.write_text("[prometheus]\nregion_labels = cluster\ninstance_label = node\ndeadline = 60\n")

    def connect(command: Any, *given: Any) -> Prometheus:
        there = RegionCommand.connect(command, *given)
        there._at = LAST * STEP
        return there

    def ran(command: type[RegionCommand], *words: str) -> Ran:
        option = "--from-prometheus" if command is Simulate else "--prometheus"
        person, told = Person(), (*words, option, prometheus.url)
        status = person.types(command, *told, settings=config.load([settings], []), connect=connect)
        return Ran(status, person.out, person.err)

    return ran


def data(run: Run, command: type[RegionCommand], *words: str) -> Any:
    ran = run(command, *words, "-f", "json")
    assert ran.out, ran.err
    return json.loads(ran.out)


def nodes(rows: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(row["region"], row["node"]) for row in rows}


def test_status_has_all_nodes_of_each_region(run: Run) -> None:
    assert nodes(data(run, RegionStatus)["nodes"]) == WITH_PLIMSOLL
    assert nodes(data(run, RegionStatus, "--region", "south")["nodes"]) == SOUTH
    assert nodes(data(run, RegionStatus, "--node", "node7")["nodes"]) == {("north", instance(7))}


def test_disks_are_on_their_nodes(run: Run) -> None:
    unlimited = data(run, RegionDisks, "--state", "unlimited")
    assert nodes(unlimited) == {("north", instance(6)), ("north", instance(7))}
    assert {disk["cluster"] for disk in unlimited} == {FSID}
    assert nodes(data(run, RegionDisks, "--state", "at-limit", "--region", "north")) == {("north", instance(16))}
    assert data(run, RegionDisks, "--state", "unlimited", "--region", "south") == []


def test_probes_are_by_node_and_by_type(run: Run) -> None:
    assert nodes(data(run, RegionProbes, "--by", "node")) == {(region_of(node), instance(node)) for node in PROBED}
    by_type = data(run, RegionProbes, "--by", "type")
    assert {(row["region"], row["volume_type"]) for row in by_type} == {
        ("north", "gold"),
        ("north", "standard"),
        ("south", "standard"),
    }
    assert all(row["p99"] for row in by_type)
    assert {row["region"] for row in data(run, RegionProbes, "--region", "south")} == {"south"}


def test_what_is_promised_is_by_region_and_by_pool_of_each_ceph(run: Run) -> None:
    """The numbers are those of ``test_promised``."""
    rows = data(run, RegionPromised, "--over", "day")
    (gold,) = (
        row for row in rows if (row["region"], row["volume_type"], row["unit"]) == ("north", "gold", "operations")
    )
    assert (gold["promised"], gold["most"]) == (5500, 2100)
    pools = data(run, RegionPromised, "--over", "day", "--by", "pool")
    assert {(row["region"], row["cluster"], row["pool"]) for row in pools} == {
        ("north", FSID, "volumes"),
        ("south", FSID, "volumes"),
    }
    assert all(row["most"] for row in pools)


def test_load_is_by_region(run: Run) -> None:
    rows = data(run, RegionLoadList, "--by", "type", "--since", "1d")
    assert {(row["region"], row["volume_type"]) for row in rows} >= {("north", "gold"), ("south", "gold")}
    of_node = data(run, RegionLoadList, "--by", "guest", "--region", "north", "--node", "node7", "--since", "1d")
    assert [row["guest_uuid"] for row in of_node] == [uuid_of(7)]


def test_a_replay_finds_rates_and_limits_of_each_region(run: Run, tmp_path: Path) -> None:
    """150 requests a second, for 100."""
    (tmp_path / "rules.yaml").write_text(
        "rules: [{name: few, match: {pool: '*'}, limits: {total_iops_sec: 100}, override: true}]"
    )
    words = ("--rules", str(tmp_path / "rules.yaml"), "--since", "12h", "--step", "30m", "--by", "disk")
    rows = data(run, Simulate, *words)
    assert {row["region"] for row in rows} == {"north", "south"}
    assert {row["verdict"] for row in rows if row["region"] == "south"} == {"worse"}
    assert all(row["at_limit_after"] == {"low": 1, "high": 1} for row in rows if row["region"] == "south")


def test_explain_finds_the_guest_its_node_and_its_disks(run: Run) -> None:
    found = data(run, RegionExplain, uuid_of(16), "--region", "north", "--since", "1d")
    assert (found["region"], [stay["node"] for stay in found["nodes"]]) == ("north", [instance(16)])
    assert {disk["disk"] for disk in found["disks"]} == {"vda", "vdb"}
    assert {at["node"] for disk in found["disks"] for at in disk["intervals"]} >= {instance(16)}
    assert all(any(at["operations_per_second"] == 150 for at in disk["intervals"]) for disk in found["disks"])


def test_a_region_that_is_not_there_is_told_with_the_labels_that_were_asked_for(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    assert run(RegionStatus, "--region", "nroth").status == 1
    assert "no metrics of plimsoll of region nroth" in caplog.text
    assert "labels cluster, node or those that [prometheus] region_labels and instance_label name" in caplog.text


@pytest.mark.parametrize("view", VIEWS, ids="-".join)
def test_a_dashboard_shows_what_it_shows_everywhere(view: tuple[str, str], prometheus: Served) -> None:
    uid, which = view
    dashboard = json.loads(files(SITE)[f"{uid}.json"])
    for panel in panels(dashboard):
        for target in panel.get("targets", ()):
            what, ref, expected = (
                f"{panel['title']}, {target['refId']}",
                target["refId"],
                EXPECTED[uid][panel["title"]],
            )
            wanted = expected.all[ref] if which == "all" else expected.of_one(ref, uid == "plimsoll-region")
            ask = prometheus.over_a_day if target.get("range") else prometheus.at_the_end
            answer = ask(" ".join(filled(dashboard, target["expr"], VIEWS[view]).split()))
            ours = [(dict(LABELS.from_site(labels)), value) for labels, value in answer]
            matches(ours, wanted, expected.part, what)
            assert not re.search(r"{{(region|instance)}}", target.get("legendFormat", "")), what


def test_files_are_made_with_the_labels_of_the_settings_unless_their_values_name_others(
    plimsoll: Run, tmp_path: Path
) -> None:
    labels = {"OS_PROMETHEUS__REGION_LABELS": "cluster", "OS_PROMETHEUS__INSTANCE_LABEL": "node"}
    assert plimsoll("monitoring", "rules", **labels).out == rules_text(SITE)
    (tmp_path / "values.yaml").write_text("region: datacenter\n")
    made = plimsoll("monitoring", "rules", "--values", str(tmp_path / "values.yaml"), **labels).out
    assert made == rules_text(Site(region=("datacenter",), instance="node"))
    wrong = plimsoll("monitoring", "rules", OS_PROMETHEUS__REGION_LABELS="a-b")
    assert (wrong.status, wrong.out) == (1, "")
    assert "'a-b' is not the name of a label" in wrong.err
