"""Alerts on congestion: of the machine that publishes its factors, one a cluster, and of nodes without them."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import indent

from plimsoll_agent.congestion.law import Action
from plimsoll_agent.congestion.published import Gap
from plimsoll_agent.monitor import metrics
from plimsoll_monitoring.alerts.definition import Alert, number
from plimsoll_monitoring.alerts.region import example, worst
from plimsoll_monitoring.alerts.site import Site
from plimsoll_monitoring.promql import SeriesNames, equal, label_list, matching

SILENT = 300
"""Seconds without a new file: nodes have returned to x = 1 after 90, and on their way."""
_NOT_PUBLISHED = "not-published"
_FAULTS = (Gap.NO_ANSWER, Gap.TOO_SELDOM, Gap.CLUSTER_UNKNOWN, Gap.OSDS_UNKNOWN, Gap.HEALTH_UNKNOWN)
"""Reasons for no signal that are faults, and no quiet hour."""


def recent(its: SeriesNames, metric: str, *matchers: str) -> str:
    """Of machines that publish now: what another one published last stays in its file."""
    age = f"time() - {its(metrics.CONGESTION_PUBLISHED_TIMESTAMP_SECONDS)}"
    return f"{its(metric, *matchers)}\nand on {its.node()} {age} < 120"


def of_congestion(site: Site) -> Iterator[Alert]:
    cluster = site.own("cluster")
    its_class = site.in_region(cluster, "device_class")
    where = f"{{{{ $labels.device_class }}}} of cluster {{{{ $labels.{cluster} }}}}{site.in_words}"
    yield _of_signal(site, cluster)
    yield _of_nodes(site)
    yield _ineffective(site, cluster, where)
    yield Alert(
        name="PlimsollCongested",
        severity="warning",
        expr=f"max by {its_class} (\n{indent(recent(site, metrics.CONGESTION_FACTOR), '  ')}\n) < 1",
        hold="6h",
        of_node=False,
        why="For hours: x is there for the time until an OSD is back or a recovery has ended.",
        summary=f'Class {where} congested for hours: x is {{{{ $value | printf "%.2f" }}}}',
        description=f"For six hours x of class {where} has been below 1: light disks wait longer than the target, or"
        " would with x = 1. Where congestion is enforced, disks with a floor have lower limits. Run `plimsoll region"
        " congestion`, then `ceph status` for a recovery or for OSDs that are missing.",
    )


def _of_signal(site: Site, cluster: str) -> Alert:
    factor, last = site(metrics.CONGESTION_FACTOR), site(metrics.CONGESTION_PUBLISHED_TIMESTAMP_SECONDS)
    age = (
        f"time() - max by {site.in_region(cluster)} (\n"
        f"  0 * max by {site.node(cluster)} ({factor})\n"
        f"  + on {site.node()} group_left () max by {site.node()} ({last})\n"
        f") > {SILENT}"
    )

    def of_state(*reasons: str) -> str:
        state = recent(site, metrics.CONGESTION_STATE, matching("why", reasons))
        return f"max by {site.in_region(cluster, 'device_class', 'why')} (\n{indent(state, '  ')}\n)"

    here = f"cluster {{{{ $labels.{cluster} }}}}{site.in_words}"
    its_class = f"lass {{{{ $labels.device_class }}}} of {here}"
    expr = f'label_replace(\n{indent(age, "  ")},\n  "why", "{_NOT_PUBLISHED}", "", ""\n)\nor\n{of_state(*_FAULTS)}'
    return Alert(
        name="PlimsollCongestionNoSignal",
        severity="warning",
        expr=f"{expr}\nor\ncount_over_time((\n{indent(of_state(Gap.NO_TARGET), '  ')}\n)[2d:1h]) > 46",
        hold="5m",
        of_node=False,
        why="Of the machine that published a cluster last. That no light disk is at work is no fault, nor that a new"
        " class has no target for a day.",
        summary=f"No signal of congestion of {here}: {{{{ $labels.why }}}}",
        description=f"""\
{{{{ if eq $labels.why "{_NOT_PUBLISHED}" -}}}}
No factor of {here} was published for {{{{ $value | humanizeDuration }}}}.
{{{{- else if eq $labels.why "{Gap.NO_ANSWER}" -}}}}
Prometheus does not answer what the publisher asks of {here}, or answers only a part.
{{{{- else if eq $labels.why "{Gap.TOO_SELDOM}" -}}}}
Prometheus scrapes the nodes with disks on c{its_class} less than twice in two minutes: set scrape_interval to 60s or
less.
{{{{- else if eq $labels.why "{Gap.CLUSTER_UNKNOWN}" -}}}}
Prometheus has another name in the place of the fsid in the label cluster of plimsoll's metrics: targets have a label
cluster too. Name it in region_labels of [prometheus].
{{{{- else if eq $labels.why "{Gap.OSDS_UNKNOWN}" -}}}}
Light disks on c{its_class} are slow, and Prometheus has no ceph_osd_op_latency of its OSDs, or less than two values
in two minutes: scrape Ceph's mgr, and since Reef ceph-exporter, every 60s or more often, and compare osd_label in
[congestion] with the labels of ceph_osd_metadata.
{{{{- else if eq $labels.why "{Gap.HEALTH_UNKNOWN}" -}}}}
Light disks on c{its_class} are slow, and Ceph does not tell the publisher its health.
{{{{- else -}}}}
For two days c{its_class} has had no target: Prometheus has less than a day of the recorded latency of light disks.
Load the rules of `plimsoll monitoring rules`, or name its volume types in targets of [congestion].
{{{{- end }}}} x is not lowered, and returns to 1 where it was. Read the journal of `plimsoll congestion publish`.""",
    )


def _ineffective(site: Site, cluster: str, where: str) -> Alert:
    its_class, here = label_list(cluster, "device_class"), site.in_region(cluster, "device_class")
    state = recent(site, metrics.CONGESTION_STATE, equal("action", Action.INEFFECTIVE))
    return Alert(
        name="PlimsollCongestionIneffective",
        severity="warning",
        # Its disks may be in other regions than its publisher.
        expr=f"max by {here} (max_over_time((\n{indent(state, '  ')}\n)[30m:1m]))\n"
        f"and on {its_class} sum by {its_class} (max_over_time({site(metrics.DISKS_REDUCED, over='1h')})) > 0",
        hold="1m",
        of_node=False,
        why="Where no disk is reduced, as in mode observe, x cannot have an effect.",
        summary=f"Lower limits did not help class {where}",
        description=f"Disks of class {where} were reduced by 30 % or more, and the latency of light disks fell by"
        " less than 5 %: the load is not theirs. Limits return. Run `plimsoll slow` for an OSD that fails, and look"
        " for clients that plimsoll does not limit.",
    )


def _of_nodes(site: Site) -> Alert:
    def down(its: Site) -> str:
        return f"min by {its.node()} ({its(metrics.SOURCE_UP, _SOURCE)}) == 0{its.overdue}"

    moment = site(metrics.CONGESTION_PUBLISHED_TIMESTAMP_SECONDS)
    silent = f"unless on {site.in_region()} time() - max by {site.in_region()} ({moment}) > {SILENT}"
    if site.region:  # the publisher may be in another one
        silent += f"\nunless on () time() - max({moment}) > {SILENT}"
    among = example(site, lambda its, _: worst(its, down(its)))
    return Alert(
        name="PlimsollCongestionStale",
        severity="warning",
        measure="sources_down",
        expr=f"count by {site.in_region()} (\n{indent(down(site), '  ')}\n)\n{silent}",
        hold="15m",
        of_node=False,
        why="Where nothing is published, PlimsollCongestionNoSignal says so.",
        summary=f"Factors of congestion on {number('node')}{site.in_words} stale",
        description=f"{number('node')}{site.in_words}, for example {among}, found a file of [congestion] missing,"
        " expired or not signed at the last pass: x is 1 there, or returns to it. Read the journal of `plimsoll"
        " congestion fetch` there; on all nodes at once it is the file, its web server or the clock of the machine"
        " that publishes.",
    )


_SOURCE = 'source="congestion"'
