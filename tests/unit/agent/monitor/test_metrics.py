"""Names in queries are the constants of ``metrics``: each is written or recorded, and no module spells one itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml
from prometheus_client.parser import text_string_to_metric_families

from plimsoll_agent.monitor import metrics
from plimsoll_agent.monitor.metrics import Metric

ROOT = Path(__file__).parents[4]
GOLDEN = sorted((ROOT / "tests/unit/data").glob("*_metrics.prom"))
RULES, ALERTS = ROOT / "etc/prometheus/plimsoll-rules.yaml", ROOT / "etc/prometheus/plimsoll-alerts.yaml"
SPELLED = re.compile(r"(?<![\w`$./])plimsoll_(?!agent\b|probes\b|monitoring\b|insight\b|drill\b)[a-z]\w*")


def names(value: object) -> Iterator[str]:
    """All in a constant of the module: a name, or names by unit, level or window."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from names(one)


CONSTANTS = {
    name for constant, value in vars(metrics).items() if re.fullmatch("[A-Z]\\w+", constant) for name in names(value)
}


def test_each_metric_is_written_with_its_help_text() -> None:
    """The golden files have every family: a query for another metric would find nothing."""
    families = [one for path in GOLDEN for one in text_string_to_metric_families(path.read_text(encoding="utf-8"))]
    written = {one.name + ("_total" if one.type == "counter" else ""): one.documentation for one in families}
    described = {name: name.documentation for name in CONSTANTS if isinstance(name, Metric) and name.documentation}
    assert described == written
    buckets = {one.name + of for one in families if one.type == "histogram" for of in ("_bucket", "_count")}
    others = {name for name in CONSTANTS if name.startswith("plimsoll_") and name not in described}
    assert others <= buckets


def test_each_recorded_name_is_recorded_and_each_that_is_has_a_name() -> None:
    files = (yaml.safe_load(file.read_text(encoding="utf-8")) for file in (RULES, ALERTS))
    groups = [group for file in files for group in file["groups"]]
    assert {name for name in CONSTANTS if ":" in name} == {
        rule["record"] for group in groups for rule in group["rules"] if "record" in rule
    }


def test_no_module_spells_the_name_of_a_metric() -> None:
    """A typo in a text is an empty panel; a constant that is not there is an error."""
    here = Path(metrics.__file__)
    modules = [
        path for package in ("agent", "probes", "monitoring", "insight") for path in (ROOT / package).rglob("*.py")
    ]
    assert {
        f"{path.relative_to(ROOT)}: {word}"
        for path in modules
        if path != here
        for word in SPELLED.findall(path.read_text(encoding="utf-8"))
    } == set()
