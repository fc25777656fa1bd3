"""Random nodes, as Prometheus sees them: alerts fire on what the node itself finds wrong."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from plimsoll_agent.monitor.thresholds import Level
from plimsoll_monitoring.alerts import files
from plimsoll_monitoring.alerts.site import Site
from tests import depth, week
from tests.unit.monitoring.node.test_one_truth import Seen, Whole, nodes

SITE = Site()
HOURS = 30
"""No alert waits longer."""
MEASURE = {(alert.name, alert.severity): alert.measure for alert in files.alerts_of(SITE)}
READ = set(re.findall(r"plimsoll_\w+", files.alerts_text(SITE) + files.rules_text(SITE)))
"""The metrics that alerts need."""
ANY_CATALOGUE = ("PlimsollSourceDown", "PlimsollCatalogueStale")
Told = Mapping[str, tuple[float | None, Level]]

ALERTS: Mapping[str, tuple[str, ...]] = {
    "sources_down": ANY_CATALOGUE,
    "catalogue_age": ANY_CATALOGUE,
    "paused": ("PlimsollPaused",),
    "braked": ("PlimsollBraked",),
    "unlimited": ("PlimsollDisksUnlimited",),
    "failed": ("PlimsollChangesFail",),
    "unknown": ("PlimsollDisksUnknown",),
    "unreachable_guests": ("PlimsollGuestsUnreachable",),
    "daemon_faults": ("PlimsollDaemonDown", "PlimsollDaemonNotReloaded"),
}
STARTED = "plimsoll_daemon_start_timestamp_seconds"
"""It stays as it is while the daemon runs; all other moments are of the last pass."""
QUIET: Mapping[str, Callable[[Whole, Told], bool]] = {
    "braked": lambda whole, told: not whole.enforcing,
    "unlimited": lambda whole, told: whole.paused or not whole.enforcing,
    "failed": lambda whole, told: _is_wrong(told, "sources_down"),
    "unknown": lambda whole, told: any(
        _is_wrong(told, name) for name in ("unreachable_guests", "sources_down", "catalogue_age")
    ),
}
"""Where the page on alerts says that there is none of its own, by the measure."""


def _is_wrong(told: Told, name: str) -> bool:
    return name in told and told[name][1] is not Level.OK


def as_scraped(region: str, seen: Seen) -> week.Node:
    """The node of a region of its own: it stays as it is, and its passes go on."""
    node = week.Node(region, "node1:9100")
    for metric, series in seen.series.items():
        for labels, value in series if metric in READ else ():
            ago = seen.node.now.timestamp() - value
            moves = metric.endswith("_timestamp_seconds") and metric != STARTED
            node.is_(metric, week.ago(ago) if moves else value, **labels)
    return node


class Some(tuple[Whole, ...]):
    """Nodes; the one that matters is in the message."""

    def __repr__(self) -> str:
        return f"{len(self)} nodes"


@given(st.lists(nodes, min_size=15, max_size=15).map(Some))
@settings(
    max_examples=depth.count(quick=3, landing=8, soak=60),  # the first is the simplest
    phases=[Phase.generate],  # a smaller example would take minutes
    deadline=None,
    database=None,
)
def test_alerts_fire_on_what_the_node_finds_wrong_and_on_nothing_else(wholes: Some) -> None:
    with tempfile.TemporaryDirectory() as directory:
        seen = {f"r{number}": Seen(whole, _made(directory, number)) for number, whole in enumerate(wholes)}
        scraped = [as_scraped(region, its) for region, its in seen.items()]
        every = {region: its.told()["Nagios"] for region, its in seen.items()}
        fired = week.firing_after(HOURS, scraped, files.rules_text(SITE), files.alerts_text(SITE), Path(directory))
    for region, told in every.items():
        alerts = {(labels["alertname"], labels["severity"]) for labels in fired if labels["region"] == region}
        for name, severity in alerts:
            measure = MEASURE[name, severity]
            if name in ANY_CATALOGUE:
                found = _is_wrong(told, "sources_down") or _is_wrong(told, "catalogue_age")
            else:
                found = told[measure][1] >= level(severity)
            assert found, (name, severity, told, seen[region].whole)
        for measure, names in ALERTS.items():
            if _is_wrong(told, measure) and not QUIET.get(measure, _never)(seen[region].whole, told):
                assert {name for name, _ in alerts} & set(names), (measure, told, seen[region].whole)


def _made(directory: str, number: int) -> Path:
    made = Path(directory, str(number))
    made.mkdir()
    return made


def _never(_whole: Whole, _told: Told) -> bool:
    return False


def level(severity: str) -> Level:
    return Level[severity.upper()]
