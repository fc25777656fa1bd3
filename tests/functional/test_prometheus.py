"""The rules and alerts in etc/prometheus: Prometheus' own tool takes them, and each alert fires and keeps quiet."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml
from docutils import nodes
from prometheus_client.parser import text_string_to_metric_families

ROOT = Path(__file__).parents[2]
RULES = ROOT / "etc/prometheus/plimsoll-rules.yaml"
ALERTS = ROOT / "etc/prometheus/plimsoll-alerts.yaml"
TESTS = sorted((ROOT / "tests/prometheus").glob("*.yaml"))
PAGE = ROOT / "docs/reference/alerts.rst"
# What the exporters' own tests hold them to: each has every family.
EXPORTED = [ROOT / f"tests/unit/data/{producer}_metrics.prom" for producer in ("pass", "probe")]
PROMTOOL = "/usr/bin/promtool"
SEVERITIES = {"critical", "warning"}
# Metrics of node_exporter 1.5 that the alerts hold ours against.
NODE_EXPORTER = {"node_textfile_scrape_error", "node_boot_time_seconds"}
# Labels that Prometheus adds.
OF_TARGETS = {"region", "instance", "job"}


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


ALERT = list(rules_of(ALERTS))
NAMES = sorted({alert["alert"] for alert in ALERT})


def each_alert() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("alert", ALERT, ids=[f"{a['alert']}-{a['labels']['severity']}" for a in ALERT])


def test_prometheus_takes_the_rules() -> None:
    told = _promtool("check", "rules", str(RULES), str(ALERTS))
    assert f"{len(list(rules_of(RULES)))} rules found" in told
    assert f"{len(ALERT)} rules found" in told


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_what_the_rules_make_of_series_is_what_is_meant(path: Path) -> None:
    _promtool("test", "rules", path.name, cwd=path.parent)


@each_alert()
def test_an_alert_tells_what_where_and_what_to_do(alert: dict[str, Any]) -> None:
    said = alert["annotations"]
    assert set(said) == {"summary", "description", "documentation"}
    assert alert["labels"]["severity"] in SEVERITIES
    assert re.fullmatch(r"[1-9][0-9]*[mhd]", alert["for"])
    # "No limit for node1": a summary is read on a telephone.
    assert "{{" in said["summary"]
    assert not said["summary"].endswith(".")
    assert len(re.sub(r"{{.*?}}", "", said["summary"])) < 80
    assert re.search(r"`(plimsoll|virsh) ", said["description"]) or "textfile_dir" in said["description"]


def test_a_description_says_which_node_or_type_it_is() -> None:
    for alert in ALERT:
        assert re.search(r"\$labels\.(instance|volume_type)", alert["annotations"]["description"]), alert["alert"]
        assert "$labels.region" in alert["annotations"]["description"], alert["alert"]


def _asked() -> Iterator[tuple[str, bool]]:
    """Each alert that a test with promtool asks for, and whether it is to fire."""
    for test in chain.from_iterable(_loaded(path)["tests"] for path in TESTS):
        for question in test.get("alert_rule_test", ()):
            yield question["alertname"], bool(question["exp_alerts"])


@pytest.mark.parametrize("name", NAMES)
def test_each_alert_is_seen_firing_and_seen_quiet(name: str) -> None:
    assert {fires for asked, fires in _asked() if asked == name} == {True, False}


def test_each_severity_of_an_alert_is_seen_firing() -> None:
    seen = {
        (question["alertname"], fired["exp_labels"]["severity"])
        for path in TESTS
        for test in _loaded(path)["tests"]
        for question in test.get("alert_rule_test", ())
        for fired in question["exp_alerts"]
    }
    assert seen == {(alert["alert"], alert["labels"]["severity"]) for alert in ALERT}


def test_no_test_asks_for_an_alert_that_is_not_there() -> None:
    # promtool is content with an alert that nobody defined, as long as it is not to fire.
    assert {name for name, _ in _asked()} == set(NAMES)


@each_alert()
def test_the_documentation_that_an_alert_names_is_there(alert: dict[str, Any]) -> None:
    page, _, anchor = alert["annotations"]["documentation"].partition("#")
    assert page == PAGE.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
    titles = re.findall(r"^(.+)\n([-~=])\2{3,}$", PAGE.read_text(), re.MULTILINE)
    assert anchor in {nodes.make_id(title) for title, _ in titles}
    assert anchor == alert["alert"].lower()


def test_the_page_has_a_section_for_each_alert_and_no_other() -> None:
    text = PAGE.read_text()
    sections = re.findall(r"^\.\. _alert-(\w+):\n\n(\w+)\n~+$", text, re.MULTILINE)
    assert [label for label, _ in sections] == [title for _, title in sections]
    assert sorted(title for _, title in sections) == NAMES
    for section in re.split(r"^\.\. _alert-\w+:$", text, flags=re.MULTILINE)[1:]:
        words = [section.find(f"\n{word}\n") for word in ("Look first", "Do", "No fault")]
        assert -1 < words[0] < words[1] < words[2], section[:60]


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
    for rule in chain(rules_of(RULES), ALERT):
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
        # Only a binary operation and histogram_quantile keep what they are given.
        grouped = re.findall(r"by \(([^)]*)\)", rule["expr"])
        if grouped:
            kept = {label.strip() for labels in grouped for label in labels.split(",")}
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
