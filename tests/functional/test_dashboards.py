"""The dashboards in etc/grafana: generated, understood by Grafana and by Prometheus, and made of what there is."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.cog.runtime import UnknownDataquery
from grafana_foundation_sdk.models.dashboard import Dashboard, Panel, RowPanel

from plimsoll_agent.terminal.main import Plimsoll
from plimsoll_monitoring.alerts.files import alerts_of
from plimsoll_monitoring.alerts.site import Site
from plimsoll_monitoring.dashboards.files import files
from plimsoll_monitoring.dashboards.steps import OF_STATE, OF_VERDICT
from tests.grafana import asked, chosen, queries, targets
from tests.grafana import panels as panels_of
from tests.unit.colours import DEFICIENCIES, contrast, seen_difference

ROOT = Path(__file__).parents[2]
GRAFANA = ROOT / "etc" / "grafana"
GOLDEN = [
    ROOT / "tests" / "unit" / "data" / name
    for name in (
        "pass_metrics.prom",
        "probe_metrics.prom",
        "console_metrics.prom",
        "congestion_metrics.prom",
        "region_metrics.prom",
    )
]
RULES, ALERTS = (ROOT / "etc" / "prometheus" / f"plimsoll-{name}.yaml" for name in ("rules", "alerts"))
NAMES = ("plimsoll-region", "plimsoll-node", "plimsoll-disk")
ONE_DISK = {
    "instance": "compute-1:9100",
    "volume": "e725b0de-c647-4620-be6b-d427f6cb59cf",
    "domain": "instance-00000001",
    "uuid": "1ebc1454-0d31-4367-8c90-06e18daa66f9",
    "target_device": "vdb",
}
METRIC = re.compile(r"\b(?:[a-z_]+:)?plimsoll_\w+(?::\w+)?")
# What only detail = disk writes.
PER_DISK = re.compile(
    r"plimsoll_disk_|plimsoll_probe_(?:verdict|allowed|last|chosen|postponed|info)|plimsoll_guest_stall|uuid!="
)


def read(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((GRAFANA / f"{name}.json").read_text())
    return loaded


def panels(name: str) -> list[dict[str, Any]]:
    return list(panels_of(read(name)))


def rows(name: str) -> list[dict[str, Any]]:
    return [panel for panel in read(name)["panels"] if panel["type"] == "row"]


def expressions(panel: dict[str, Any]) -> str:
    return " ".join(target["expr"] for target in panel["targets"])


def covered(at: dict[str, int]) -> set[tuple[int, int]]:
    columns, lines = range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])
    return {(x, y) for x in columns for y in lines}


def addresses(thing: object) -> Iterator[str]:
    """Every url in a dashboard, wherever it stands."""
    if isinstance(thing, dict):
        yield from (value for key, value in thing.items() if key == "url" and value)
        thing = list(thing.values())
    if isinstance(thing, list):
        for each in thing:
            yield from addresses(each)


def test_the_files_are_what_the_code_makes() -> None:
    written = {file.name: file.read_text() for file in GRAFANA.glob("*.json")}
    assert written == files(Site()), "the dashboards have changed: plimsoll monitoring dashboards etc/grafana"


@pytest.mark.parametrize("name", NAMES)
def test_grafanas_types_know_everything_in_a_file(name: str) -> None:
    # Reading drops what the types do not have, so that it would be missing from what is written again.
    register_default_plugins()
    dashboard = Dashboard.from_json(read(name))
    assert json.loads(json.dumps(dashboard, cls=JSONEncoder)) == read(name)
    top = dashboard.panels or []
    for panel in [*top, *(inner for row in top if isinstance(row, RowPanel) for inner in row.panels)]:
        if isinstance(panel, Panel):
            # What it has no type for is carried through as it is, which would prove nothing.
            assert not isinstance(panel.options, dict), panel.title
            assert not any(isinstance(target, UnknownDataquery) for target in panel.targets or []), panel.title
        else:
            assert isinstance(panel, RowPanel)


def test_prometheus_understands_every_query(tmp_path: Path) -> None:
    asked_for = [expr for name in NAMES for _, expr in queries(read(name), ONE_DISK)]
    asked_for += [
        note["expr"].replace("$region", ".*") for name in NAMES for note in read(name)["annotations"]["list"]
    ]
    rules = [{"record": f"dashboard:query:{number}", "expr": expr} for number, expr in enumerate(asked_for)]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboards", "rules": rules}]}))
    ran = subprocess.run(["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert f"{len(asked_for)} rules found" in ran.stdout


@pytest.mark.parametrize("name", NAMES)
def test_every_metric_asked_for_is_written_or_recorded(name: str) -> None:
    written = re.findall(r"^# TYPE (\S+) (\w+)", "".join(file.read_text() for file in GOLDEN), re.MULTILINE)
    known = {f"{family}_bucket" if kind == "histogram" else family for family, kind in written}
    groups = [group for file in (RULES, ALERTS) for group in yaml.safe_load(file.read_text())["groups"]]
    known |= {rule["record"] for group in groups for rule in group["rules"] if "record" in rule}
    dashboard = read(name)
    texts = [target["expr"] for _, target in targets(dashboard)]
    texts += [variable["query"] for variable in dashboard["templating"]["list"] if variable["type"] == "query"]
    assert {metric for text in texts for metric in METRIC.findall(text)} - known == set()


def test_that_no_alert_fires_is_told_only_where_alerts_are_evaluated() -> None:
    """The recording rules may be in a Prometheus, and the alerts in a ruler of Thanos."""
    tiles = [panel for panel in panels("plimsoll-region") if panel["title"].startswith("Alerts, ")]
    assert len(tiles) == 2
    recorded = {name for tile in tiles for name in re.findall(r"\w+:\w+:\w+", tile["targets"][0]["expr"])}
    (name,) = recorded
    assert f"record: {name}\n" in ALERTS.read_text()
    assert name not in RULES.read_text()


@pytest.mark.parametrize("name", NAMES)
def test_no_two_panels_overlap_and_none_leaves_the_grid(name: str) -> None:
    cells = [(panel["title"], covered(panel["gridPos"])) for panel in [*panels(name), *rows(name)]]
    assert [(one[0], other[0]) for one, other in combinations(cells, 2) if one[1] & other[1]] == []
    assert [title for title, covers in cells if not covers or max(x for x, _ in covers) > 23] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_panel_says_what_it_shows_and_in_which_unit(name: str) -> None:
    for panel in panels(name):
        assert panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["fieldConfig"]["defaults"]["thresholds"]["steps"][0]["value"] is None, panel["title"]
    titles = [panel["title"] for panel in panels(name)]
    assert len(set(titles)) == len(titles)
    numbers = [panel["id"] for panel in [*panels(name), *rows(name)]]
    assert len(set(numbers)) == len(numbers)


def test_what_is_wrong_is_open_and_everything_else_folded() -> None:
    """A folded row asks nothing of Prometheus; Grafana shows its panels only if they are inside of it."""
    opened = {name: [row["title"] for row in rows(name) if not row.get("collapsed")] for name in NAMES}
    assert opened == {
        "plimsoll-region": ["Overview", "What is wrong", "Promise"],
        "plimsoll-node": ["Overview", "What is wrong", "Disks", "Probes on this node", "Use of limits"],
        "plimsoll-disk": ["Disk", "Limits", "Use", "Probes of the guest"],
    }
    for name in NAMES:
        assert all(bool(row["panels"]) == bool(row.get("collapsed")) for row in rows(name))


@pytest.mark.parametrize("name", NAMES)
def test_a_tile_without_a_value_has_no_colour(name: str) -> None:
    """Grafana gives it the lowest threshold's: "unknown" in green, "no probes" in red."""
    for panel in panels(name):
        if panel["type"] == "stat" and panel["options"].get("textMode") != "name":
            defaults = panel["fieldConfig"]["defaults"]
            (absence,) = [each["options"] for each in defaults["mappings"] if each["type"] == "special"]
            assert absence["match"] == "null+nan", panel["title"]
            assert absence["result"]["color"] == "text", panel["title"]
            assert absence["result"]["text"] == defaults["noValue"], panel["title"]


def test_a_tile_of_the_region_opens_the_panel_with_its_rows() -> None:
    region = panels("plimsoll-region")
    numbers = {f"viewPanel={panel['id']}": panel["title"] for panel in region}
    tiles = {
        panel["title"]: [numbers[link["url"].rpartition("&")[2]] for link in panel.get("links", ())]
        for panel in region
        if panel["type"] == "stat"
    }
    assert tiles["Disks unlimited"] == ["Disks unlimited, one by one"]
    assert all(tiles.values()), tiles


@pytest.mark.parametrize("name", ["plimsoll-region", "plimsoll-node"])
def test_a_panel_that_stays_empty_without_series_per_disk_says_so(name: str) -> None:
    needs = {panel["title"] for panel in panels(name) if PER_DISK.search(expressions(panel))}
    says = {panel["title"] for panel in panels(name) if "detail = disk" in panel["description"]}
    assert needs == says
    assert len(needs) < len(panels(name)) / 3


@pytest.mark.parametrize("deficiency", DEFICIENCIES)
@pytest.mark.parametrize("colours", [OF_STATE, OF_VERDICT], ids=["states", "verdicts"])
def test_no_two_states_or_verdicts_look_alike_to_anybody_in_either_theme(
    colours: dict[str, str], deficiency: str
) -> None:
    """On Grafana's panels, which are #181b1f or white."""
    for (name, one), (another, other) in combinations(colours.items(), 2):
        alike = {name, another} < {"reduced", "inconclusive", "failed"}
        assert one == other if alike else seen_difference(one, other, deficiency) >= 25, (name, another)
    assert min(contrast(colour, paper) for colour in colours.values() for paper in ("#181b1f", "#ffffff")) > 1.4


@pytest.mark.parametrize("name", ["plimsoll-region", "plimsoll-node"])
def test_a_panel_follows_the_choice_of_a_volume_type_or_says_that_it_does_not(name: str) -> None:
    """Like with like: a latency or a promise of all types beside one of the chosen type misleads."""
    typed = {
        line.partition("{")[0] for file in GOLDEN for line in file.read_text().splitlines() if "volume_type=" in line
    }
    for panel in panels(name):
        for target in panel["targets"]:
            asks = set(METRIC.findall(target["expr"]))
            if asks & typed or any(metric.split(":")[0].endswith("volume_type") for metric in asks):
                follows = "$volume_type" in target["expr"]
                assert follows or "of all volume types" in panel["description"], (panel["title"], asks)


@pytest.mark.parametrize("name", NAMES)
def test_averages_between_passes_are_called_so(name: str) -> None:
    averages = {panel["title"] for panel in panels(name) if "_average_" in expressions(panel)}
    assert averages
    assert {title for title in averages if not title.endswith("(average between passes)")} == set()


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_to_dashboards_that_are_there_and_set_variables_that_these_have(name: str) -> None:
    leads_to = set()
    for address in addresses(read(name)):
        if address == f"{Site().docs_url}reference/alerts.html":
            continue
        parts = urlsplit(address)
        other = parts.path.removeprefix("/d/")
        assert other in NAMES, address
        if "viewPanel=" in parts.query:
            assert other == name
            assert "${__all_variables}" in parts.query
            continue
        variables = {variable["name"] for variable in read(other)["templating"]["list"]}
        named = {key.removeprefix("var-") for key, _ in parse_qsl(parts.query) if key.startswith("var-")}
        named |= set(re.findall(r"\$\{(\w+):queryparam\}", address))
        assert {"datasource", "region"} <= named <= variables, address
        leads_to.add(other)
    assert leads_to >= set(NAMES) - {name}


@pytest.mark.parametrize("name", NAMES)
def test_a_site_without_regions_sees_everything(name: str) -> None:
    (region,) = [each for each in read(name)["templating"]["list"] if each["name"] == "region"]
    assert (region["includeAll"], region["current"]["value"]) == (True, "$__all")
    # A matcher that takes the empty text takes series without the label.
    assert re.fullmatch(region["allValue"], "")
    for _, target in targets(read(name)):
        # Ceph's targets may have no region where others have one.
        assert re.search(r'ceph_\w+{region=~"\$region\|"|region=~"\$region"', target["expr"]), target["expr"]


def test_a_query_without_a_value_for_its_variable_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no value for \$instance"):
        queries(read("plimsoll-node"))


def test_a_disk_is_chosen_by_its_volume_step_by_step() -> None:
    seen = []

    def ask(selector: str, label: str) -> Sequence[str]:
        seen.append((label, selector))
        return {"domain": ["instance-2", "instance-1"], "uuid": ["u"], "target_device": ["vda"]}[label]

    values = chosen(read("plimsoll-disk"), ask, {"volume": "v-1"})
    assert values == {
        "region": ".*", "volume": "v-1", "domain": "instance-1", "uuid": "u", "target_device": "vda",
    }  # fmt: skip
    narrowed = 'plimsoll_disk_info{region=~".*", volume=~"v-1"'
    assert seen == [
        ("domain", f"{narrowed}}}"),
        ("uuid", f'{narrowed}, domain="instance-1"}}'),
        ("target_device", f'{narrowed}, domain="instance-1", uuid="u"}}'),
    ]


def test_a_variable_with_nothing_to_choose_from_is_named() -> None:
    with pytest.raises(ValueError, match=r"plimsoll-node: nothing to choose from for \$instance"):
        chosen(read("plimsoll-node"), lambda selector, label: [])


def test_a_variable_that_asks_otherwise_is_not_guessed_at() -> None:
    with pytest.raises(ValueError, match="not label_values"):
        asked({"name": "x", "query": "query_result(up)"}, {})


def test_a_site_s_names_are_in_every_query() -> None:
    site = Site(region=("datacenter", "cell"), instance="node", selector='job="node"', ceph='job="ceph"')
    for text in files(site).values():
        dashboard = json.loads(text)
        exprs = [target["expr"] for _, target in targets(dashboard)]
        exprs += [note["expr"] for note in dashboard["annotations"]["list"]]
        exprs += [variable["query"] for variable in dashboard["templating"]["list"] if variable["type"] == "query"]
        for expr in exprs:
            assert not re.search(r"\b(region|instance)\b(?!:)", re.sub(r"\w+:|\$\w+", "", expr)), expr
            for metric, matchers in re.findall(
                r"(?<![:\w])((?:plimsoll|ceph)_(?!daemon\b)\w+)(?![:\w])(?:\{([^}]*)\})?", expr
            ):
                assert matchers.startswith(f'job="{"ceph" if metric.startswith("ceph") else "node"}"'), expr
            for grouped in re.findall(r"by \(([^)]*node[^)]*)\)", expr):
                assert grouped.startswith("datacenter, cell, node"), expr


def test_ceph_s_dashboard_is_linked_where_the_site_has_one() -> None:
    linked = files(Site(ceph_url="https://ceph.example.com/"))["plimsoll-region.json"]
    assert [panel["title"] for panel in panels_of(json.loads(linked)) if "ceph.example.com" in json.dumps(panel)] == [
        "Ceph's health",
        "PGs that accept I/O",
    ]


# Of Grafana's own list, packages/grafana-data/src/valueFormats/categories.ts, those that the panels use.
UNITS = {"binBps", "iops", "none", "percentunit", "s", "short", "string"}


@pytest.mark.parametrize("name", NAMES)
def test_a_unit_is_one_of_grafanas(name: str) -> None:
    for panel in panels(name):
        config = panel["fieldConfig"]
        said = [each["value"] for rule in config["overrides"] for each in rule["properties"] if each["id"] == "unit"]
        assert {config["defaults"]["unit"], *said} <= UNITS, panel["title"]


@pytest.mark.parametrize("name", NAMES)
def test_latencies_have_a_logarithmic_axis_with_the_objective_and_heat_fits_both_themes(name: str) -> None:
    for panel in panels(name):
        defaults = panel["fieldConfig"]["defaults"]
        if panel["type"] == "timeseries" and ("latency," in panel["title"] or "percentiles" in panel["title"]):
            assert defaults["custom"]["scaleDistribution"] == {"type": "log", "log": 10}, panel["title"]
            assert "min" not in defaults, "zero is not on such an axis"
            assert "plimsoll_probe_objective_seconds" in expressions(panel), panel["title"]
        if panel["type"] == "heatmap":
            assert panel["options"]["color"]["mode"] == "opacity"


def test_a_dashboard_that_an_alert_names_is_there_with_its_variables() -> None:
    known = {name: {each["name"] for each in read(name)["templating"]["list"]} for name in NAMES}
    for alert in alerts_of(Site(compute_nodes='job="node"')):
        address = urlsplit(Site().dashboard(alert.of_node))
        uid = address.path.removeprefix("/d/")
        assert {key.removeprefix("var-") for key, _ in parse_qsl(address.query)} <= known[uid]


def test_without_grafanas_sdk_the_command_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "plimsoll_monitoring.dashboards.files", None)
    assert Plimsoll().run(["monitoring", "dashboards", str(tmp_path)]) == 64
    assert "plimsoll-agent[dashboards]" in capsys.readouterr().err
