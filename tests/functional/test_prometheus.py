"""The rules and alerts in etc/prometheus: Prometheus' own tool takes them, and each is what the generator makes.

That each alert fires and keeps quiet is seen in ``test_simulated_week``; what needs a finer step, here.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from functools import cache
from itertools import chain, takewhile
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml
from docutils import nodes
from prometheus_client.parser import text_string_to_metric_families

from plimsoll_agent.errors import ConfigError
from plimsoll_agent.monitor.thresholds import MEASURE, MEASURES, Measure, Thresholds, alarms
from plimsoll_agent.util import durations
from plimsoll_agent.util.frozen import names, replace
from plimsoll_monitoring.alerts import files
from plimsoll_monitoring.alerts.site import Override, Site, outside, read
from plimsoll_monitoring.dashboards.files import files as dashboards
from plimsoll_monitoring.dashboards.region import overdue_number
from plimsoll_monitoring.dashboards.series import SiteNames
from plimsoll_monitoring.region.promised import Place, PromisedBy, group_places, row_questions
from tests.grafana import queries

ROOT = Path(__file__).parents[2]
RULES = ROOT / "etc/prometheus/plimsoll-rules.yaml"
ALERTS = ROOT / "etc/prometheus/plimsoll-alerts.yaml"
TESTS = sorted((ROOT / "tests/prometheus").glob("*.yaml"))
PAGE = ROOT / "docs/reference/alerts.rst"
# What the exporters' own tests hold them to: each has every family.
EXPORTED = [
    ROOT / f"tests/unit/data/{producer}_metrics.prom"
    for producer in ("pass", "daemon", "console", "probe", "region", "congestion")
]
PROMTOOL = "/usr/bin/promtool"
SEVERITIES = {"critical", "warning", "info"}
# Metrics of node_exporter 1.5 that the alerts hold ours against.
NODE_EXPORTER = {"node_textfile_scrape_error", "node_boot_time_seconds"}
# Labels that Prometheus adds.
OF_TARGETS = {"region", "instance", "job", "node", "role"}
SITE = Site(compute_nodes='job="node"', promised_ratio=4, burst_left=0.1)
"""With every alert."""


@cache
def _loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def rules_of(path: Path) -> Iterator[dict[str, Any]]:
    for group in _loaded(path)["groups"]:
        yield from group["rules"]


def _promtool(*words: str, cwd: Path = ROOT) -> str:
    done = subprocess.run([PROMTOOL, *words], cwd=cwd, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


ALERT = [rule for rule in rules_of(ALERTS) if "alert" in rule]
NAMES = sorted({alert["alert"] for alert in ALERT})


def each_alert() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("alert", ALERT, ids=[f"{a['alert']}-{a['labels']['severity']}" for a in ALERT])


def test_prometheus_takes_the_rules() -> None:
    told = _promtool("check", "rules", str(RULES), str(ALERTS))
    assert f"{len(list(rules_of(RULES)))} rules found" in told
    assert f"{len(list(rules_of(ALERTS)))} rules found" in told


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_what_the_rules_make_of_series_is_what_is_meant(path: Path, tmp_path: Path) -> None:
    (tmp_path / RULES.name).write_text(files.rules_text(SITE))
    # What alerts say is seen in the simulated week.
    alerts = yaml.safe_load(files.alerts_text(SITE))
    for rule in chain.from_iterable(group["rules"] for group in alerts["groups"]):
        rule.pop("annotations", None)
    (tmp_path / ALERTS.name).write_text(yaml.safe_dump(alerts))
    (tmp_path / path.name).write_bytes(path.read_bytes())
    _promtool("test", "rules", path.name, cwd=tmp_path)


@pytest.mark.parametrize(("path", "make"), [(RULES, files.rules_text), (ALERTS, files.alerts_text)])
def test_the_files_are_what_the_generator_makes(path: Path, make: Callable[[Site], str]) -> None:
    assert path.read_text() == make(Site()), f"plimsoll monitoring {path.stem.removeprefix('plimsoll-')} > {path}"


@each_alert()
def test_an_alert_tells_what_where_and_what_to_do(alert: dict[str, Any]) -> None:
    said = alert["annotations"]
    assert set(said) == {"summary", "description", "runbook_url", "dashboard"}
    assert alert["labels"]["severity"] in SEVERITIES
    assert alert["labels"]["component"] == "plimsoll"
    assert re.fullmatch(r"[1-9][0-9]*[mhd]", alert["for"])
    # "No limit for node1": a summary is read on a telephone.
    assert "$labels.region" in said["summary"]
    assert not said["summary"].endswith(".")
    assert len(re.sub(r"{{.*?}}", "", said["summary"])) < 80
    assert re.search(r"`(plimsoll|virsh) ", said["description"]) or "textfile_dir" in said["description"]


@each_alert()
def test_an_outage_of_a_region_asks_prometheus_no_question_for_each_node(alert: dict[str, Any]) -> None:
    queries = re.findall(
        r"query \(printf \"((?:[^\"\\]|\\.)*)\"", " ".join(alert["annotations"]["description"].split())
    )
    if "instance" in alert["expr"].partition("(")[0] or alert["annotations"]["dashboard"].count("instance"):
        assert not queries
    for query in queries:
        assert "region=%[1]q" in query or query.startswith("vector("), query


@each_alert()
def test_the_runbook_of_an_alert_is_there(alert: dict[str, Any]) -> None:
    url, _, anchor = alert["annotations"]["runbook_url"].partition("#")
    assert url == f"{Site().docs_url}{PAGE.relative_to(ROOT / 'docs').with_suffix('.html').as_posix()}"
    titles = re.findall(r"^(.+)\n([-~=])\2{3,}$", PAGE.read_text(), re.MULTILINE)
    assert anchor in {nodes.make_id(title) for title, _ in titles}
    assert anchor == alert["alert"].lower()


def test_prometheus_and_a_node_judge_by_one_table() -> None:
    """An alert on a measure is as severe as the measure's range makes it; what has no alert has a reason."""
    judged = {(alert.measure, alert.severity) for alert in files.alerts_of(SITE) if alert.measure}
    of_region = {"PlimsollPromiseBroken"}
    for measure in MEASURES:
        levels = {level for level in ("warning", "critical") if getattr(measure, level)}
        found = {
            alert.severity
            for alert in files.alerts_of(SITE)
            if alert.measure == measure.name and alert.name not in of_region
        }
        assert (found == levels) if measure.name not in files.WITHOUT_ALERT else not found, measure.name
    assert {name for name, _ in judged} <= MEASURE.keys()


@pytest.mark.parametrize("text", ["5", "5:", "~:5", "2:5", "@2:5", "@5", "@2:"])
def test_a_range_means_the_same_to_prometheus_as_to_a_node(text: str, tmp_path: Path) -> None:
    values = range(8)
    series = {f'x{{at="{value}"}}': f"{value}x2" for value in values}
    samples = {f'x{{at="{value}"}}': value for value in values if alarms(text, value)}
    _test_answer(tmp_path, series, outside(text, "x"), samples, at="1m")


def test_a_probe_is_overdue_in_the_tile_of_a_region_whose_timetable_does_not_run(tmp_path: Path) -> None:
    """PlimsollTextfileStale stands for PlimsollProbesLate then, and the guest is not probed all the same."""
    target = 'instance="n1", domain="a", domain_uuid="u", directory="/"'
    series = {
        f"plimsoll_probe_interval_seconds{{{target}}}": "3600x400",
        f"plimsoll_probe_last_timestamp_seconds{{{target}}}": "0x400",
        'plimsoll_probe_round_timestamp_seconds{instance="n1"}': "0x400",
    }
    _test_answer(tmp_path, series, overdue_number(SiteNames(Site(), ())), {"{}": 1}, at="6h")


def _test_answer(
    directory: Path, series: Mapping[str, str], expr: str, samples: Mapping[str, float], at: str = "1h"
) -> None:
    asked: dict[str, object] = {"expr": expr, "eval_time": at}
    asked["exp_samples"] = [{"labels": labels, "value": value} for labels, value in samples.items()]
    rows = [{"series": name, "values": values} for name, values in series.items()]
    test = {"rule_files": [], "tests": [{"interval": "1m", "input_series": rows, "promql_expr_test": [asked]}]}
    (directory / "answer.yaml").write_text(json.dumps(test))
    _promtool("test", "rules", "answer.yaml", cwd=directory)


def test_a_tile_shows_each_of_two_nodes_that_have_the_same_name_in_their_regions(tmp_path: Path) -> None:
    """The dashboard of a node opens so from that of all regions: the one whose passes stopped must be in sight."""
    series = {
        'plimsoll_pass_last_timestamp_seconds{region="north", instance="n1"}': "0+60x60",
        'plimsoll_pass_last_timestamp_seconds{region="south", instance="n1"}': "0x60",
    }
    node = json.loads(dashboards(SITE)["plimsoll-node.json"])
    (tile,) = (promql for title, promql in queries(node, {"instance": "n1"}) if title == "Age of last pass")
    _test_answer(tmp_path, series, tile, {'{region="north"}': 0, '{region="south"}': 3600})


def test_a_source_is_up_only_where_it_is_up_on_each_node_of_the_name(tmp_path: Path) -> None:
    series = {
        'plimsoll_source_up{source="libvirt", region="north", instance="n1"}': "1x60",
        'plimsoll_source_up{source="libvirt", region="south", instance="n1"}': "0x60",
    }
    node = json.loads(dashboards(SITE)["plimsoll-node.json"])
    (panel,) = (promql for title, promql in queries(node, {"instance": "n1"}) if title == "Sources")
    _test_answer(tmp_path, series, panel, {'{source="libvirt"}': 0})


@pytest.mark.parametrize("by", PromisedBy)
def test_what_two_prometheuses_record_of_the_same_is_promised_once(by: PromisedBy, tmp_path: Path) -> None:
    """A third one may federate both of a pair, or read both without merging them."""
    place = Place(region="north", cluster="c1", pool="volumes", volume_type="gold")
    record = "pool_volume_type:plimsoll_pool_promised_operations_per_second:sum"
    labels = 'region="north", cluster="c1", pool="%s", volume_type="gold", replica="%s"'
    series = {
        f"{record}{{{labels % (pool, replica)}}}": f"{value}x60"
        for pool, value in (("volumes", 500), ("images", 70))
        for replica in "ab"
    }
    groups = group_places([place, replace(place, pool="images")], by, {})
    promised = {f'{{row="{number}"}}': 500 + 70 for number in range(len(groups))}
    if by is PromisedBy.POOL:
        promised = {'{row="0"}': 500, '{row="1"}': 70}
    _test_answer(tmp_path, series, row_questions(groups, by, 3600)["promised_operations"], promised)


def test_a_clock_that_is_ahead_is_told_where_a_site_has_only_the_critical_age() -> None:
    """What is muted by it would have no alert in its place."""
    for site in (Site(), Site(thresholds={"pass_age": Thresholds("", "1800")})):
        overdue = [alert.expr for alert in files.alerts_of(site) if alert.name == "PlimsollPassOverdue"]
        assert sum("< -" in expr for expr in overdue) == 1


def test_a_missing_catalogue_is_told_where_a_site_has_only_the_critical_age() -> None:
    site = Site(thresholds={"catalogue_age": Thresholds("", "7200")})
    [stale] = [alert for alert in files.alerts_of(site) if alert.name == "PlimsollCatalogueStale"]
    assert 'source="catalogue"' in stale.expr


def test_what_a_site_changes_is_in_its_files_and_nothing_else_is(tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(
        """\
region: [datacenter, cluster]
instance: node
selector: 'job="node"'
compute_nodes: 'job="node", role="compute"'
labels: {team: storage}
promised_ratio: 2.5
burst_left: 0.1
docs_url: https://docs.example.com/p
thresholds: {pass_age: {warning: 3600}}
alerts:
  PlimsollPaused: {for: 3d, severity: info}
  PlimsollVersionSkew: {enabled: false}
"""
    )
    site = read(values, files.EVERY_ALERT)
    alerts, rules = files.alerts_text(site), files.rules_text(site)
    for name, text in (("alerts.yaml", alerts), ("rules.yaml", rules)):
        (tmp_path / name).write_text(text)
    _promtool("check", "rules", "alerts.yaml", "rules.yaml", cwd=tmp_path)
    both = [rule for group in yaml.safe_load(alerts)["groups"] for rule in group["rules"]]
    made = {rule["alert"]: rule for rule in both if "alert" in rule}
    assert made["PlimsollPassOverdue"]["labels"]["team"] == "storage"
    assert made["PlimsollPaused"]["for"] == "3d"
    assert made["PlimsollPaused"]["labels"]["severity"] == "info"
    assert made.keys() == set(files.EVERY_ALERT) - {"PlimsollVersionSkew"}
    assert made["PlimsollPaused"]["annotations"]["runbook_url"].startswith("https://docs.example.com/p/reference/")
    assert made["PlimsollPassOverdue"]["expr"].strip().endswith("> 14400"), "the last one by that name"
    assert 'plimsoll_pass_last_timestamp_seconds{job="node"}) > 3600' in alerts
    recorded = [rule for group in yaml.safe_load(rules)["groups"] for rule in group["rules"]]
    for rule in (*made.values(), *recorded):
        assert not re.search(r"\b(region|instance)\b(?!:)", re.sub(r"\w+:", "", rule["expr"])), rule
        for grouped in re.findall(r"by \(([^)]*)\)", rule["expr"]):
            # A class of a cluster of Ceph may be of several regions.
            assert grouped.startswith("datacenter, cluster") or grouped == "exported_cluster, device_class", rule
        for selector in re.findall(r"(?<![:\w])plimsoll_\w+(?![:\w])(\{[^}]*\})?", rule["expr"]):
            assert selector.startswith('{job="node"'), rule


def test_a_range_that_no_value_is_outside_of_is_no_alert(tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text('thresholds: {good_pass_age: {warning: "~:"}, unlimited: {critical: "~:"}}')
    made = {alert.name for alert in files.alerts_of(read(values, files.EVERY_ALERT))}
    assert made == {alert.name for alert in files.alerts_of(Site())} - {"PlimsollNoGoodPass"}


def test_without_the_alert_on_overdue_passes_the_others_leave_out_no_node() -> None:
    site = Site(alerts={"PlimsollPassOverdue": Override(enabled=False)})
    shipped, without = files.alerts_text(Site()), files.alerts_text(site)
    left_out = re.compile(r"unless.*time\(\) - plimsoll_pass_last_timestamp_seconds")
    assert left_out.search(shipped)
    assert not left_out.search(without)


@pytest.mark.parametrize(
    ("written", "wrong"),
    [
        ("regoin: x", "1: regoin is not a key here; did you mean region?"),
        ("region: []", "1: region: must name at least one label"),
        ("region: a-b", "1: region: must be the name of a label"),
        ("selector: '{job=\"x\"}'", "1: selector: must be matchers without braces"),
        ("rollout: soon", "1: rollout: must be a duration like 15m"),
        ("broken_guests: 0", "1: broken_guests: must be a number from 1"),
        ("promised_ratio: 0", "1: promised_ratio: must be a number above 0, not 0"),
        ("promised_ratio: .inf", "1: promised_ratio: must be a number above 0"),
        ("docs_url: docs", "1: docs_url: must be an address"),
        ("labels: {severity: x}", "1: labels.severity: is not a label that a site may add"),
        ("thresholds: {pass_age: {warning: '9:1'}}", "1: thresholds.pass_age.warning: '9:1' is not a range"),
        ("alerts: {PlimsollPause: {}}", "1: alerts: PlimsollPause is not a key here; did you mean PlimsollPaused?"),
        ("alerts: {PlimsollPaused: {severity: bad}}", "severity: must be critical, warning or info"),
    ],
)
def test_a_fault_in_the_values_is_told_with_its_line(written: str, wrong: str, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(written)
    with pytest.raises(ConfigError) as raised:
        read(values, files.EVERY_ALERT)
    assert wrong in str(raised.value)


def test_the_values_that_the_page_shows_are_good_and_it_names_every_key(tmp_path: Path) -> None:
    text = PAGE.read_text()
    (tmp_path / "values.yaml").write_text(_yaml_after(text, ":caption: values.yaml"))
    site = read(tmp_path / "values.yaml", files.EVERY_ALERT)
    assert site != Site()
    assert "PlimsollVersionSkew" not in {alert.name for alert in files.alerts_of(site)}
    missing = {key for key in names(Site) if f"``{key}``" not in text.partition("One message")[0]}
    assert not missing


def test_alertmanager_takes_what_the_page_shows(tmp_path: Path) -> None:
    text = PAGE.read_text().partition(".. _alerts-alertmanager:")[2]
    config = yaml.safe_load(_yaml_after(text, ".. code-block:: yaml"))
    config["receivers"] = [{"name": "on-call"}]
    config["route"]["receiver"] = "on-call"
    (tmp_path / "alertmanager.yml").write_text(json.dumps(config))
    done = subprocess.run(["/usr/bin/amtool", "check-config", tmp_path / "alertmanager.yml"], capture_output=True)
    assert done.returncode == 0, done


def _yaml_after(text: str, mark: str) -> str:
    """The indented block of YAML after the mark."""
    lines = text.partition(mark)[2].strip("\n").splitlines()
    return dedent("\n".join(takewhile(lambda line: not line or line.startswith("   "), lines)))


def test_the_page_has_a_section_for_each_alert_and_no_other() -> None:
    text = PAGE.read_text()
    sections = re.findall(r"^\.\. _alert-(\w+):\n\n(\w+)\n~+$", text, re.MULTILINE)
    assert [label for label, _ in sections] == [title for _, title in sections]
    assert sorted(title for _, title in sections) == sorted(files.EVERY_ALERT)
    for section in re.split(r"^\.\. _alert-\w+:$", text, flags=re.MULTILINE)[1:]:
        words = re.findall(r"^(Look first|Do|No fault)$", section, re.MULTILINE)
        assert words in (["Look first", "Do"], ["Look first", "Do", "No fault"]), section[:60]


def test_the_page_has_the_one_table() -> None:
    rows = re.findall(
        r"^   \* - ``(\w+)``\n     - (.+)\n     - (.+)\n     - (.+)$",
        PAGE.read_text().partition("\nWhat a site changes\n")[0],
        re.MULTILINE,
    )

    def shown(measure: Measure, bound: str) -> str:
        if measure.unit == "s" and bound:
            return f"{bound} ({durations.words(timedelta(seconds=int(bound)))})"
        return bound or "never"

    names: dict[str, dict[str, None]] = {}
    for alert in files.alerts_of(SITE):
        names.setdefault(alert.measure, {})[f":ref:`alert-{alert.name}`"] = None
    assert rows == [
        (
            measure.name,
            shown(measure, measure.warning),
            shown(measure, measure.critical),
            ", ".join(names.get(measure.name, [f"none: {files.WITHOUT_ALERT.get(measure.name)}"])),
        )
        for measure in MEASURES
    ]


def test_the_page_has_each_recording_rule() -> None:
    listed = PAGE.read_text()
    for rule in rules_of(RULES):
        level, metric, operation = rule["record"].split(":")
        assert re.search(rf"{level}:({metric}|…)", listed), rule["record"]
        assert f":{operation}``" in listed, rule["record"]


def _names_in(text: str) -> set[str]:
    """Names of series in an expression or a template; a name with colons is a recording rule."""
    return set(re.findall(r"(?<![\w:.-])(?:\w+:)?(?:plimsoll|node)_\w+(?::\w+)?(?![\w:.-])", text))


def _texts() -> Iterator[str]:
    for rule in chain(rules_of(RULES), rules_of(ALERTS)):
        yield rule["expr"]
        yield from re.findall(r"{{.*?}}", " ".join(rule.get("annotations", {}).values()))


def test_what_one_rule_reads_another_makes_or_plimsoll_exports(exported: dict[str, set[str]]) -> None:
    recorded = {rule["record"] for rule in rules_of(RULES)}
    read = set().union(*map(_names_in, _texts()))
    assert len(read) > 20
    assert not read - exported.keys() - recorded - NODE_EXPORTER


def test_every_recorded_name_says_which_labels_are_left() -> None:
    for rule in rules_of(RULES):
        level = rule["record"].partition(":")[0]
        # A binary operation, histogram_quantile and topk keep what they are given: the outermost other counts.
        grouped = re.findall(r"(?!topk)\b[a-z]+ by \(([^)]*)\)", rule["expr"])
        if grouped:
            kept = {label.strip() for label in grouped[0].split(",")}
            assert {"region"} <= kept, rule["record"]
            assert {name for name in ("instance", "volume_type") if name in kept} == {
                name for name in ("instance", "volume_type") if name in level
            }, rule["record"]


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_the_series_of_the_tests_are_such_as_plimsoll_exports(path: Path, exported: dict[str, set[str]]) -> None:
    for series in chain.from_iterable(test["input_series"] for test in _loaded(path)["tests"]):
        name, _, labels = series["series"].partition("{")
        if name not in NODE_EXPORTER:
            given = set(re.findall(r'(\w+)="', labels)) - OF_TARGETS
            assert given <= exported.get(name, set()), series["series"]


@pytest.fixture(scope="module")
def exported() -> dict[str, set[str]]:
    """The labels of each series by its name, as node_exporter reads them."""
    found: dict[str, set[str]] = {}
    for family in chain.from_iterable(text_string_to_metric_families(path.read_text()) for path in EXPORTED):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found
