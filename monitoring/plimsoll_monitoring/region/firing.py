"""The alerts of plimsoll that fire in the region's Prometheus, as its series ``ALERTS`` have them: without values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field

from plimsoll_agent.monitor.thresholds import Level
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import printable
from plimsoll_monitoring.alerts.files import alerts_of
from plimsoll_monitoring.alerts.site import Site
from plimsoll_monitoring.promql import SeriesSelection
from plimsoll_monitoring.region.answers import NodeKey, Series, key_of, label

_PLIMSOLL, _FIRING = 'alertname=~"Plimsoll.+"', 'alertstate="firing"'
_TYPE = "volume type {volume_type}"
SUMMARIES: Mapping[str, str] = {
    "PlimsollPassOverdue": "no pass",
    "PlimsollTextfileStale": "metrics are stale: {file}",
    "PlimsollSourceDown": "source down: {source}",
    "PlimsollNoGoodPass": "no good pass",
    "PlimsollPassSlow": "passes take long",
    "PlimsollDaemonDown": "the daemon does not run, or has no events",
    "PlimsollDaemonNotReloaded": "the daemon uses earlier settings",
    "PlimsollDaemonRestarts": "the daemon restarts again and again",
    "PlimsollDisksUnlimited": "disks unlimited",
    "PlimsollChangesFail": "limits cannot be set",
    "PlimsollGuestsUnreachable": "guests unreachable",
    "PlimsollExternalChanges": "another program keeps changing limits",
    "PlimsollCatalogueStale": "catalogues are stale",
    "PlimsollBraked": "changes deferred by the brake: revision {revision} needs approval",
    "PlimsollStageStopped": "the next stage of approval {approval} does not begin",
    "PlimsollRegionBraked": "region brake: changed QoS specs need approval",
    "PlimsollDisksUnknown": "disks unknown for hours",
    "PlimsollHealthGateShut": "health gate of cluster {cluster} shut for hours",
    "PlimsollCongestionNoSignal": "no signal of congestion of cluster {cluster}: {why}",
    "PlimsollCongestionStale": "factors of congestion are stale",
    "PlimsollCongestionIneffective": "lower limits did not help class {device_class} of cluster {cluster}",
    "PlimsollCongested": "class {device_class} of cluster {cluster} congested for hours",
    "PlimsollGuestsStalled": "guests of several projects stalled at once",
    "PlimsollMdsThrashing": "ranks of a CephFS forward many requests",
    "PlimsollPaused": "nodes paused for more than a day",
    "PlimsollPromiseBroken": f"probed guests on {_TYPE} get less than promised",
    "PlimsollOverLimit": f"probed guests on {_TYPE} got more than the limit",
    "PlimsollProbesOff": "guests that rules choose are not probed",
    "PlimsollProbesLate": "probe of guest {domain} overdue",
    "PlimsollProbesFail": "all probes fail",
    "PlimsollLatencyBudgetBurning": f"latency budget of {_TYPE} burns too fast",
    "PlimsollNodeWorseThanRegion": f"latency on {_TYPE} is far above that of the median node",
    "PlimsollBurstsSpent": "disks have spent nearly all of their bursts",
    "PlimsollOversubscribed": f"limits on {_TYPE} add up to far more than guests take",
}
"""By their names; labels are in plimsoll's own names."""
_MEASURES = {(each.name, each.severity): each.measure for each in alerts_of(Site())}


@frozen(kw_only=True)
class Firing:
    """An alert on a node, or on a region (then its instance is "")."""

    name: str
    level: Level
    node: NodeKey
    since: float | None
    """When its condition began to hold; None is unknown."""
    labels: Mapping[str, str] = field(hash=False)

    @property
    def summary(self) -> str:
        """Safe to show; of a site's own alert, or of another version, its name."""
        labels = {name: printable(value) for name, value in self.labels.items()}
        return SUMMARIES.get(self.name, "alert").format_map(_Labels(labels))

    @property
    def measure(self) -> str:
        """The figure of nodes that tells the same; "" where no node can tell."""
        warning = _MEASURES.get((self.name, "warning"), "")
        return _MEASURES.get((self.name, self.level.name.lower()), warning)


class _Labels(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return "(none)"


def question(selection: SeriesSelection) -> str:
    """Their value is when the condition began to hold, or 0."""
    firing = f"ALERTS{selection.matchers(_PLIMSOLL, _FIRING)}"
    since = f"ALERTS_FOR_STATE{selection.matchers(_PLIMSOLL)}"
    return f"{since} and ignoring (alertstate) {firing} or ignoring (alertstate) 0 * {firing}"


def alerts(answer: Iterable[Series]) -> Iterator[Firing]:
    """Those that are more than information."""
    for series in answer:
        severity = label(series, "severity")
        if severity in ("info", "none"):
            continue
        yield Firing(
            name=label(series, "alertname"),
            level=Level.CRITICAL if severity == "critical" else Level.WARNING,
            node=key_of(series),
            since=series.value or None,
            labels=series.labels,
        )
