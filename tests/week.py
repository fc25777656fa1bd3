"""Made-up series of regions over a week, and what a real promtool makes of them: which alerts fire, and how long.

A step is half an hour. Every node begins as a healthy one; a fault changes some of its series for some steps.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

STEP = 1800
HOUR = 2
"""Steps."""
DAY = 24 * HOUR
END = 7 * DAY

Value = float | None
At = Callable[[int], Value]
"""The value at a step; None where there is no sample."""
Labels = Mapping[str, str]
_MOST_NODES = 100
_VERDICTS = ("kept", "short", "over-limit", "slow", "no-limit", "reduced", "inconclusive", "failed")
_STATES = ("deferred", "unknown", "failed")


def ago(seconds: float) -> At:
    """A time that is always so long ago."""
    return lambda step: step * STEP - seconds


def stopped(at: int, seconds: float = 60) -> At:
    """A time that went along until that step."""
    return lambda step: min(step, at) * STEP - seconds


@dataclass
class Node:
    """A node of a region, with the series that its node_exporter serves."""

    region: str
    name: str
    series: dict[tuple[str, tuple[tuple[str, str], ...]], list[Value]] = field(default_factory=dict)

    def is_(self, metric: str, value: float | At, begin: int = 0, end: int = END + 1, **labels: str) -> None:
        """What the metric is from one step to another, and was before where it was anything."""
        made = value if callable(value) else lambda step: value
        key = metric, tuple(sorted(labels.items()))
        values = self.series.setdefault(key, [None] * (END + 1))
        values[begin:end] = [made(step) for step in range(begin, min(end, END + 1))]

    def gone(self, begin: int, end: int = END + 1, but: str = "^(up|node_)") -> None:
        """No series is served but of these names."""
        for (metric, _), values in self.series.items():
            if not re.search(but, metric):
                values[begin:end] = [None] * (min(end, END + 1) - begin)

    def still(self, metric: str, begin: int, end: int, **labels: str) -> None:
        """A counter that does not rise from one step to another, and then as before."""
        values = self.series[metric, tuple(sorted(labels.items()))]
        lost = (values[end] or 0.0) - (values[begin] or 0.0)
        values[begin:end] = [values[begin]] * (end - begin)
        values[end:] = [(value or 0.0) - lost for value in values[end:]]

    def lines(self) -> Iterator[dict[str, str]]:
        for (metric, labels), values in self.series.items():
            named = {"region": self.region, "instance": self.name, "job": "node", **dict(labels)}
            shown = ", ".join(f"{name}={json.dumps(value)}" for name, value in named.items())
            yield {"series": f"{metric}{{{shown}}}", "values": encoded(values)}


def healthy(region: str, number: int, *volume_types: str) -> Node:
    """A node whose passes and catalogue are as they should be."""
    node = Node(region, f"node{number}:9100")
    node.is_("up", 1)
    node.is_("node_textfile_scrape_error", 0)
    node.is_("node_boot_time_seconds", 0)
    node.is_("plimsoll_build_info", 1, version="1.0.0")
    node.is_("plimsoll_pass_last_timestamp_seconds", ago(120))
    node.is_("plimsoll_pass_last_good_timestamp_seconds", ago(120))
    node.is_("plimsoll_pass_observed_timestamp_seconds", ago(120))
    node.is_("plimsoll_pass_duration_seconds", 1.5, phase="observe")
    node.is_("plimsoll_pass_duration_seconds", 0.5, phase="apply")
    node.is_("plimsoll_pass_enforcing", 1)
    node.is_("plimsoll_pass_paused", 0)
    node.is_("plimsoll_pass_braked_disks", 0, revision="")
    node.is_("plimsoll_pass_guests_to_probe", 0)
    for source in ("libvirt", "rules", "record", "writes", "disks", "catalogue", "refresh"):
        node.is_("plimsoll_source_up", 1, source=source)
    node.is_("plimsoll_guests", 0, state="unreachable")
    node.is_("plimsoll_catalogue_issued_timestamp_seconds", ago(700))
    node.is_("plimsoll_catalogue_stale_after_seconds", 7200)
    node.is_("plimsoll_health_gate_shut", 0, cluster="c1")
    for volume_type in ("gold", *volume_types):
        for state in _STATES:
            node.is_("plimsoll_disks", 0, volume_type=volume_type, state=state)
        node.is_("plimsoll_disks_unlimited", 0, volume_type=volume_type)
        node.is_("plimsoll_disks_unknown", 0, volume_type=volume_type)
        node.is_("plimsoll_external_changes_reverted_total", 0, volume_type=volume_type)
        for name, promised in (("operations", 1000), ("bytes", 4e6)):
            of = {"cluster": "c1", "pool": "volumes", "volume_type": volume_type}
            node.is_(f"plimsoll_pool_promised_{name}_per_second", promised, **of)
            node.is_(f"plimsoll_pool_average_{name}_per_second", lambda step, of=promised: of / 2, **of)
    return node


GUEST = {"domain": "instance-00000001", "uuid": "u1", "directory": "/srv"}
EVERY = 6 * HOUR
_SHARES = (("0.001048576", 0.5), ("0.004194304", 0.6), ("0.033554432", 0.999), ("0.268435456", 1.0), ("+Inf", 1.0))
RUNS = {"read": 50_000, "write": 50_000, "mixed": 25_000}
"""Requests of a probe, by its job."""


def probed(node: Node, phase: int = 0, *, guest: Labels = GUEST, sums: bool = False) -> Node:
    """A guest of the node is probed every six hours, and its promises are kept; ``sums`` counts runs, too."""

    def last(step: int) -> Value:
        run = (step - phase) // EVERY * EVERY + phase
        return (run * STEP if run >= 0 else 0.0) + 100

    def runs(step: int) -> int:
        return (step - phase) // EVERY + 1 if step >= phase else 0

    node.is_("plimsoll_probe_interval_seconds", EVERY * STEP, **guest)
    node.is_("plimsoll_probe_chosen_timestamp_seconds", 0, **guest)
    node.is_("plimsoll_probe_round_timestamp_seconds", ago(200))
    node.is_("plimsoll_probe_written_timestamp_seconds", ago(200))
    for job in RUNS:
        node.is_("plimsoll_probe_last_timestamp_seconds", last, probe=job, **guest)
    verdict_is(node, "kept")
    if sums:
        _counted(node, runs, {name: value for name, value in guest.items() if name != "directory"})
    return node


def _counted(node: Node, runs: Callable[[int], int], own: Labels) -> None:
    for job, requests in RUNS.items():
        for verdict in _VERDICTS:
            counted = runs if verdict == "kept" else 0
            node.is_("plimsoll_probe_runs_total", counted, probe=job, verdict=verdict, volume_type="gold", **own)
        latency = {"probe": job, "direction": "write" if job == "write" else "read", "volume_type": "gold"} | own
        for le, share in _SHARES:
            node.is_(
                "plimsoll_probe_latency_seconds_bucket",
                lambda step, most=requests * share: runs(step) * most,
                le=le,
                **latency,
            )
        node.is_("plimsoll_probe_latency_seconds_count", lambda step, most=requests: runs(step) * most, **latency)
    objective = {"objective": "0.99", "volume_type": "gold"}
    every_job = sum(RUNS.values())
    node.is_("plimsoll_probe_objective_requests_total", lambda step: runs(step) * every_job, **objective)
    node.is_("plimsoll_probe_objective_missed_total", lambda step: runs(step) * every_job * 0.001, **objective)
    node.is_("plimsoll_probe_objective_budget_ratio", 0.01, **objective)


def verdict_is(node: Node, verdict: str, begin: int = 0, end: int = END + 1, *, again: int = END + 1) -> None:
    """The newest verdict on its guest; from the step ``again`` on for the second time."""
    for each in _VERDICTS:
        node.is_("plimsoll_probe_targets", each == verdict, begin, end, verdict=each, volume_type="gold")
    node.is_("plimsoll_probe_targets_broken_again", lambda step: step >= again, begin, end, volume_type="gold")


def encoded(values: Sequence[Value]) -> str:
    """As promtool writes series: ``a+bxn`` are a and n more, each by b more than the last."""
    parts: list[str] = []
    at = 0
    while at < len(values):
        first = values[at]
        if first is None:
            end = at
            while end < len(values) and values[end] is None:
                end += 1
            parts.append(f"_x{end - at}")
            at = end
            continue
        rise = 0.0
        end = at + 1
        if end < len(values) and (second := values[end]) is not None:
            rise = second - first
            while end < len(values) and (value := values[end]) is not None and value == first + rise * (end - at):
                end += 1
        parts.append(f"{first:.15g}{rise:+.15g}x{end - at - 1}" if end - at > 1 else f"{first:.15g}")
        at = end
    return " ".join(parts)


@dataclass(frozen=True)
class Fired:
    """A series of ALERTS that fired: how often, from which step to which."""

    labels: Labels
    steps: int
    first: int
    last: int

    @property
    def once(self) -> bool:
        return self.steps == self.last - self.first + 1


_FIRING = 'ALERTS{alertstate="firing"}'
_ASKED = {
    "steps": f"count_over_time({_FIRING}[8d])",
    "first": f"min_over_time(timestamp({_FIRING})[8d:{STEP}s])",
    "last": f"max_over_time(timestamp({_FIRING})[8d:{STEP}s])",
}


def fired(nodes: Sequence[Node], rules: str, alerts: str, directory: Path) -> tuple[list[Fired], dict[str, str]]:
    """What fired in that week by these files; and what was said first, by the name of an alert."""
    groups = _groups(rules, alerts, directory)
    names = sorted({rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule})
    running = []
    for number, batch in enumerate(_batches(nodes)):
        week = {
            "rule_files": ["rules.yaml"],
            "evaluation_interval": f"{STEP}s",
            "group_eval_order": [group["name"] for group in groups],
            "tests": [
                {
                    "interval": f"{STEP}s",
                    "input_series": [line for node in batch for line in node.lines()],
                    "promql_expr_test": [{"expr": expr, "eval_time": "168h"} for expr in _ASKED.values()],
                    "alert_rule_test": [
                        {"alertname": name, "eval_time": f"{hour}h", "exp_alerts": []}
                        for name in names
                        for hour in (50, 52, 56, 60, 70, 76, 100, 125)
                    ],
                }
            ],
        }
        (directory / f"week{number}.yaml").write_text(json.dumps(week), encoding="utf-8")
        command = ["promtool", "test", "rules", f"week{number}.yaml"]
        lavish = {**os.environ, "GOGC": "1000"}  # a fifth less time
        running.append(
            subprocess.Popen(
                command, cwd=directory, env=lavish, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        )
    told = "\n".join(process.communicate()[0] for process in running)
    assert "err: " not in told, [line for line in told.splitlines() if "err: " in line][:5]
    return _series(told), _said(told)


def firing_after(
    hours: int, nodes: Sequence[Node], rules: str, alerts: str, directory: Path, *, step: int = STEP
) -> list[Labels]:
    """The alerts that fire at that hour; the values of the nodes are ``step`` seconds apart."""
    groups = _groups(rules, alerts, directory)
    test = {
        "interval": f"{step}s",
        "input_series": [line for node in nodes for line in node.lines()],
        "promql_expr_test": [{"expr": _FIRING, "eval_time": f"{hours}h"}],
    }
    hour = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": f"{step}s",
        "group_eval_order": [group["name"] for group in groups],
        "tests": [test],
    }
    (directory / "hour.yaml").write_text(json.dumps(hour), encoding="utf-8")
    command = ["promtool", "test", "rules", "hour.yaml"]
    told = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert "err: " not in told.stdout + told.stderr, told
    return [labels for labels, _ in answer(told.stdout + told.stderr, _FIRING)]


def _groups(rules: str, alerts: str, directory: Path) -> list[dict[str, Any]]:
    """What of both is needed, as one file."""
    groups = [*_needed(yaml.safe_load(rules)["groups"], alerts), *yaml.safe_load(alerts)["groups"]]
    (directory / "rules.yaml").write_text(json.dumps({"groups": groups}), encoding="utf-8")
    return groups


def _needed(groups: Sequence[dict[str, Any]], alerts: str) -> list[dict[str, Any]]:
    """The recording rules that alerts read, and those that these read: the others only take time."""
    read, last = alerts, ""
    while read != last:
        last = read
        needed = [rule for group in groups for rule in group["rules"] if rule["record"] in read]
        read = alerts + "".join(rule["expr"] for rule in needed)
    return [group | {"rules": here} for group in groups if (here := [r for r in group["rules"] if r in needed])]


def _batches(nodes: Sequence[Node]) -> list[list[Node]]:
    """Whole regions: promtool holds only so many samples at once."""
    regions: dict[str, list[Node]] = {}
    for node in nodes:
        regions.setdefault(node.region, []).append(node)
    batches: list[list[Node]] = [[]]
    for there in regions.values():
        if len(batches[-1]) + len(there) > _MOST_NODES:
            batches.append([])
        batches[-1] += there
    return batches


_SERIES = re.compile(r"(\{(?:\"(?:[^\"\\]|\\.)*\"|[^}\"])*\}) ([-+.0-9E]+)")


def _series(told: str) -> list[Fired]:
    found: dict[str, dict[str, float]] = {}
    for name, expr in _ASKED.items():
        for part in told.split(_told_of(expr))[1:]:
            for labels, value in _got(part):
                found.setdefault(labels, {})[name] = value
    return [
        Fired(labels_of(labels), int(each["steps"]), int(each["first"] / STEP), int(each["last"] / STEP))
        for labels, each in found.items()
    ]


def _told_of(expr: str) -> str:
    return f"expr: {json.dumps(expr)}, time: "


def _got(told: str) -> list[tuple[str, float]]:
    got = re.search(r"got: ?(.*)", told)
    return [(labels, float(value)) for labels, value in _SERIES.findall(got[1] if got else "")]


def answer(told: str, expr: str) -> list[tuple[dict[str, str], float]]:
    """Labels and value of each series that a query which was asked once returned, as promtool tells it."""
    asked, _, rest = told.partition(_told_of(expr))
    assert rest or asked.count(_told_of(expr)) == 0, expr
    return [(labels_of(labels), value) for labels, value in _got(rest)]


def labels_of(text: str) -> dict[str, str]:
    return {name: json.loads(value) for name, value in re.findall(r'(\w+)=("(?:[^"\\]|\\.)*")', text)}


def _said(told: str) -> dict[str, str]:
    said: dict[str, str] = {}
    for labels, words_ in re.findall(r"Labels:(\{.*\})\s+Annotations:(\{.*\})", told):
        alert, words = labels_of(labels), labels_of(words_)
        text = "\n".join(words[name] for name in ("summary", "description", "runbook_url", "dashboard"))
        # Which of several equal nodes is the example is Prometheus' choice.
        said.setdefault(f"{alert['alertname']} {alert['severity']}", re.sub(r"node\d+:9100", "node:9100", text))
    return said
