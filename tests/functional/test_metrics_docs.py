"""What the page about metrics says of families, labels and numbers is so, and its queries are queries."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from plimsoll_agent.monitor import pass_metrics
from plimsoll_agent.monitor.pool_metrics import PER_LIGHT, PER_POOL
from plimsoll_agent.monitor.prometheus_text import LABEL_MAX
from plimsoll_probes.output import metrics as of_probes

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/metrics.rst").read_text(encoding="utf-8")
GOLDEN = sorted((ROOT / "tests/unit/data").glob("*_metrics.prom"))
QUERIES = [
    "\n".join(line.strip() for line in block.splitlines())
    for block in re.findall(r"code-block:: promql\n\n((?:   .*\n|\n)+)", PAGE)
]
Family = tuple[str, frozenset[str]]
"""Its type, and the names of its labels."""


def told() -> dict[str, Family]:
    entries = re.findall(r"^``(plimsoll_\w+)(?:\{([\w,]+)\})?``, (\w+)\n    \S", PAGE, re.MULTILINE)
    assert len(entries) == len({name for name, _, _ in entries}), "each once"
    return {name: (type_, frozenset(filter(None, labels.split(",")))) for name, labels, type_ in entries}


def there() -> dict[str, Family]:
    """In the golden files, which have every family with all labels that it can have."""
    found = {}
    for golden in GOLDEN:
        for family in text_string_to_metric_families(golden.read_text(encoding="utf-8")):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            labels = frozenset(label for sample in family.samples for label in sample.labels)
            found[name] = (family.type, labels - {"le"})
    return found


def test_the_page_lists_the_families_that_there_are_with_their_types_and_labels() -> None:
    assert told() == there()


def test_what_the_page_says_of_the_cost_is_the_budget() -> None:
    table = dict(re.findall(r"^   \* - (.+)\n     - (?:at most )?(\d+)", PAGE, re.MULTILINE))

    def disk(parameters: int, limits: int, bursts: int = 0) -> str:
        each = (parameters * pass_metrics.PER_PARAMETER, limits * pass_metrics.PER_LIMIT)
        return str(pass_metrics.PER_DISK + sum(each) + bursts * pass_metrics.PER_BURST)

    # A histogram, +Inf, sum and count: the job read has none of writes, nor write one of reads.
    one_way = len(of_probes.LE) + 3
    assert list(table.values()) == [
        str(pass_metrics.PER_NODE),
        str(pass_metrics.PER_TYPE),
        str(PER_POOL),
        str(PER_LIGHT),
        str(pass_metrics.PER_CLUSTER),
        str(pass_metrics.PER_GUEST),
        disk(2, 2),
        disk(6, 2, 2),
        disk(13, 4, 4),
        str(3 * of_probes.PER_PROBE - 2 * one_way + of_probes.PER_TARGET),
        str(of_probes.PER_VERDICTS),
    ]
    formula = f"{pass_metrics.PER_DISK} for each disk, {pass_metrics.PER_PARAMETER} for each parameter that is set"
    assert formula in " ".join(PAGE.split())
    assert f"after {LABEL_MAX} characters" in PAGE
    assert f"{of_probes.SHOWN_FOR.days} days" in PAGE.replace("seven", "7")


def test_there_are_queries_to_look_at() -> None:
    assert len(QUERIES) == 2
    names = {name for query in QUERIES for name in re.findall(r"plimsoll_\w+", query)}
    assert names <= set(there())


@pytest.mark.parametrize("query", QUERIES)
def test_the_queries_are_ones_to_prometheus(tmp_path: Path, query: str) -> None:
    rules = tmp_path / "rules.yaml"  # JSON is YAML
    rules.write_text(json.dumps({"groups": [{"name": "page", "rules": [{"record": "page:query", "expr": query}]}]}))
    done = subprocess.run(["promtool", "check", "rules", rules], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
