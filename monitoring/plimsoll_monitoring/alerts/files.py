"""The files for Prometheus, as text: YAML with a comment above what needs a reason."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from plimsoll_agent.monitor import metrics
from plimsoll_monitoring.alerts import cephfs, congestion, node, probes, records, region
from plimsoll_monitoring.alerts.definition import Alert, RecordingRule, RuleGroup
from plimsoll_monitoring.alerts.site import Override, Site

_WIDTH = 118
_RULES_HEAD = """\
Recording rules over what plimsoll writes for node_exporter: see docs/guide/monitoring.rst. Made by `plimsoll
monitoring rules`: change the values that it is given, not this file.

The label of the region is one that the site's scrape configuration may give its targets. Without it the rules
work too: there is one region, without a name.

Cost for 750 nodes with 40 disks, two limits a disk, and one probed guest on each node; scraped once a minute:
  plimsoll-disks    60,000 series of disks and 16,000 of nodes, the newest sample of each
  plimsoll-load     420,000 series of disks, the newest sample of each
  plimsoll-pools    24,000 series of nodes, of four pairs of pool and volume type on each, the newest sample; 3,000
                    of light disks in two pools, over five minutes
  plimsoll-probes   90,000 series of buckets (30 bounds, 4 pairs of job and direction) over an hour, the 22,500
                    that come of them over a day, 16,000 of runs and 3,000 of requests over a day
  plimsoll-burn     3,000 series of objectives over an hour, and the few that come of them over three days
That is 51 million samples every three minutes. On two busy cores a sample took 0.25 µs: 13 s of one of them.
"""
_ALERTS_HEAD = f"""\
Alerts over plimsoll's metrics and the rules of plimsoll-rules.yaml, which must be loaded too. Made by `plimsoll
monitoring alerts`: change the values that it is given, not this file. Thresholds and severities are those of
`check_plimsoll`; docs/reference/alerts.rst has a section for each alert.

Cost for 750 nodes: mostly the newest sample of one to four series per node. To leave out nodes whose passes are
overdue, 16 alerts read 12 samples of each node. Over a day: {metrics.PASS_PAUSED}, every hour (750), and
{metrics.EXTERNAL_CHANGES_REVERTED_TOTAL} (2,000); over a week {metrics.BUILD_INFO}, every six hours (750), and with
promised_ratio two recorded series of each volume type. An annotation asks at most two queries, and only alerts on a
region or a volume type have any.
"""


def groups_of_rules(site: Site) -> tuple[RuleGroup, ...]:
    return (
        RuleGroup(name="plimsoll-disks", rules=tuple(records.of_disks(site))),
        RuleGroup(name="plimsoll-load", rules=tuple(records.of_load(site))),
        RuleGroup(name="plimsoll-pools", rules=(*records.of_pools(site), *records.of_light(site))),
        RuleGroup(
            name="plimsoll-probes",
            rules=tuple(records.of_probes(site)),
            interval="3m",
            why="Less than five minutes, after which Prometheus counts a series as stale; not more often, since these"
            " rules read a whole day. An hour has 20 evaluations at this interval.",
        ),
        RuleGroup(
            name="plimsoll-burn",
            rules=tuple(records.of_burn(site)),
            interval="3m",
            why="Burn rate of the latency budget: 1 is what the objective allows (Site Reliability Workbook, chapter"
            " 5). Only where the budget is at least 10 requests: with fewer, a single stall, which delays all"
            " requests in flight, would alert. An objective without a budget has no burn rate.",
        ),
    )


def groups_of_alerts(site: Site) -> tuple[RuleGroup, ...]:
    """Without those that the site switches off."""
    groups: Mapping[str, Iterable[Alert | RecordingRule]] = {
        "evaluated": (records.of_alerts(site),),
        "agent": chain(node.of_passes(site), node.of_daemon(site)),
        "disks": chain(node.of_disks(site), node.of_bursts(site)),
        "region": chain(region.of_nodes(site), region.of_rollout(site), region.of_oversubscription(site)),
        "congestion": congestion.of_congestion(site),
        "cephfs": cephfs.of_file_systems(site),
        "probes": chain(probes.of_promises(site), probes.of_runs(site), probes.of_latency(site)),
    }
    return tuple(
        RuleGroup(
            name=f"plimsoll-alerts-{name}",
            rules=tuple(rule for rule in rules if site.alerts.get(rule.name, Override()).enabled),
        )
        for name, rules in groups.items()
    )


WITHOUT_ALERT = {
    "observed_age": "as old as the last pass that libvirt answered: PlimsollSourceDown",
    "at_limit": "a limit that is used is no fault",
}
"""Measures, and why Prometheus raises no alert of their own."""


def alerts_of(site: Site) -> tuple[Alert, ...]:
    return tuple(rule for group in groups_of_alerts(site) for rule in group.rules if isinstance(rule, Alert))


EVERY_ALERT = tuple(
    dict.fromkeys(
        alert.name for alert in alerts_of(Site(compute_nodes='job="node"', promised_ratio=1, burst_left=0.1))
    )
)
"""Their names."""


def rules_text(site: Site) -> str:
    return _file(_RULES_HEAD, groups_of_rules(site), site)


def alerts_text(site: Site) -> str:
    return _file(_ALERTS_HEAD, groups_of_alerts(site), site)


def _file(head: str, groups: tuple[RuleGroup, ...], site: Site) -> str:
    lines = [f"# {line}".rstrip() for line in head.splitlines()]
    lines.append("groups:")
    for group in groups:
        lines += _comment(group.why, 2)
        lines.append(f"  - name: {group.name}")
        if group.interval:
            lines.append(f"    interval: {group.interval}")
        lines.append("    rules:")
        for rule in group.rules:
            lines += _alert(rule, site) if isinstance(rule, Alert) else _record(rule)
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _record(rule: RecordingRule) -> Iterator[str]:
    yield from _comment(rule.why, 6)
    yield f"      - record: {rule.name}"
    yield from _expression(rule.expr)


def _alert(alert: Alert, site: Site) -> Iterator[str]:
    override = site.alerts.get(alert.name, Override())
    yield f"      - alert: {alert.name}"
    yield from _comment(alert.why, 8)
    yield from _expression(alert.expr)
    yield f"        for: {override.hold or alert.hold}"
    labels = {"component": "plimsoll", "severity": override.severity or alert.severity}
    yield "        labels:"
    for name, value in (labels | dict(alert.labels) | dict(site.labels)).items():
        yield f"          {name}: {value if value.isalnum() and not value.isdigit() else json.dumps(value)}"
    yield "        annotations:"
    yield f"          summary: {json.dumps(alert.summary, ensure_ascii=False)}"
    yield "          description: >-"
    yield from _wrap(alert.description, 12)
    yield f"          runbook_url: {json.dumps(site.runbook(alert.name))}"
    yield f"          dashboard: {json.dumps(site.dashboard(alert.of_node))}"


def _expression(expr: str) -> Iterator[str]:
    if "\n" in expr or len(expr) > _WIDTH - 14 or any(sign in expr for sign in ("{", ": ", " #", '"')):
        yield "        expr: |"
        for line in expr.splitlines():
            yield f"          {line}"
    else:
        yield f"        expr: {expr}"


def _comment(text: str, indent: int) -> Iterator[str]:
    for line in textwrap.wrap(text, _WIDTH - indent - 2, break_long_words=False, break_on_hyphens=False):
        yield f"{' ' * indent}# {line}"


def _wrap(text: str, indent: int) -> Iterator[str]:
    """Folded again by YAML's reader: only blanks become line breaks."""
    for line in textwrap.wrap(
        " ".join(text.split()), _WIDTH - indent, break_long_words=False, break_on_hyphens=False
    ):
        yield f"{' ' * indent}{line}"
