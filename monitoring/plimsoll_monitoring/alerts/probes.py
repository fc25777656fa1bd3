"""Alerts on probes: what guests get, and whether they are asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from textwrap import indent

from plimsoll_agent.monitor import metrics
from plimsoll_agent.monitor.thresholds import ROUND_OVERDUE
from plimsoll_agent.util.frozen import replace
from plimsoll_monitoring.alerts.definition import Alert, by_measure, number
from plimsoll_monitoring.alerts.records import of_present
from plimsoll_monitoring.alerts.region import example
from plimsoll_monitoring.alerts.site import Site
from plimsoll_monitoring.promql import BELOW, SeriesNames

_TYPE = '{{ or $labels.volume_type "(none)" }}'


def of_promises(site: Site) -> Iterator[Alert]:
    """Do guests get what their limits and objectives promise? Guests are counted, by their newest probe, not runs."""
    share = f"100 * {metrics.TARGETS_BROKEN_RATIO}"
    many = (
        f"{share} >= {site.broken_percent} and {metrics.TARGETS_BROKEN} >= {site.broken_guests}\n"
        f"or\n{share} and {metrics.TARGETS_BROKEN} >= {site.broken_many}"
    )

    def most(verdicts: str) -> Callable[[Site, str], str]:
        return lambda its, of_alert: (
            f"topk(1, sum by ({its.instance}) ({of_present(its, metrics.PROBE_TARGETS, of_alert, verdicts)}) > 0)"
        )

    worst = example(
        site,
        most(BELOW),
        "volume_type",
        then="; see {{ (first .).Labels.%s }}",
    )
    do = (
        " Run `plimsoll probe list` there: each line has the verdict, its reason, Ceph's health and since when. Then"
        " run `ceph health detail`."
    )
    yield Alert(
        name="PlimsollPromiseBroken",
        severity="critical",
        expr=many,
        hold="10m",
        of_node=False,
        why="Guests by the verdict of their newest probe: a blip of one guest is one, and no fault of the cluster.",
        summary=f'{{{{ $value | printf "%.0f" }}}} % of probed guests on volume type {_TYPE}{site.in_words} get less'
        " than"
        " promised",
        description="By their newest probes, "
        + example(
            replace(site, selector=""),  # what is recorded has no label of a job
            lambda its, of_alert: f"sum({its(metrics.TARGETS_BROKEN, of_alert)})",
            "volume_type",
            then='{{ . | first | value | printf "%.0f" }} guests, ',
        )
        + f'{{{{ $value | printf "%.0f" }}}} % of those probed on volume type {_TYPE}{site.in_words}, get less than'
        " limits"
        f" and objectives promise{worst}.{do}",
    )
    yield from by_measure(
        site,
        "probe_broken",
        metrics.TARGETS_BROKEN_AGAIN,
        f"\nunless (\n{indent(many, '  ')}\n)",
        name="PlimsollPromiseBroken",
        hold="10m",
        of_node=False,
        why="In two probes or more of the same guest.",
        summary=f"{number('guest')} on volume type {_TYPE}{site.in_words} again got less than promised",
        description=f"{number('guest')} on volume type {_TYPE}{site.in_words} got less than limits and objectives"
        f" promise, in two probes or more{worst}.{do}",
    )
    over = example(
        site,
        most(_OVER),
        "volume_type",
    )
    yield Alert(
        name="PlimsollOverLimit",
        severity="warning",
        measure="probe_broken",
        expr=f"sum by {site.in_region('volume_type')} ({metrics.TARGETS}{{{_OVER}}}) > 0",
        hold="10m",
        of_node=False,
        summary=f"{number('guest')} on volume type {_TYPE}{site.in_words} got more than the limit",
        description=f"By the newest probe {number('guest')} on volume type {_TYPE}{site.in_words} got more than the"
        f" limit allows: it is not in force. Run `plimsoll probe list` on {over}, then `plimsoll disk"
        " explain` for the disk that it names.",
    )


_OVER = 'verdict="over-limit"'


def overdue_for(its: SeriesNames) -> str:
    """Seconds for which a guest has missed two probes, and an hour."""
    place, interval = its.node(*metrics.TARGET), its(metrics.PROBE_INTERVAL_SECONDS)
    return f"""\
(
  time()
  - max by {place} (
      {its(metrics.PROBE_LAST_TIMESTAMP_SECONDS)}
      or {its(metrics.PROBE_CHOSEN_TIMESTAMP_SECONDS)}
      or label_replace(
        0 * {interval}
        + on {its.node()} group_left () max by {its.node()} ({its("node_boot_time_seconds")}),
        "since", "boot", "", ""
      )
    )
  - on {place} 2 * max by {place} ({interval}) - 3600
)"""


def of_runs(site: Site) -> Iterator[Alert]:
    """Are guests probed, and do probes give a result?"""
    node = site.node_words
    yield from by_measure(
        site,
        "probe_off",
        f"max by {site.node()} ({site(metrics.PASS_GUESTS_TO_PROBE)})",
        f"\nunless on {site.node()} time() - {site(metrics.PROBE_ROUND_TIMESTAMP_SECONDS)}"
        f" < {site.seconds_of('probes_off')}",
        name="PlimsollProbesOff",
        hold="2h",
        why="A timetable that was run within `probes_off` and is not any more is PlimsollTextfileStale.",
        summary=f"{number('guest')} on {node}{site.in_words} not probed, though a rule chooses them",
        description=f"Rules with `probe` choose {number('guest')} on {node}, and `plimsoll probe run --due` does not"
        " run there. Enable plimsoll-probe.timer there, or take `probe` out of the rule.",
    )
    yield from by_measure(
        site,
        "probe_late",
        overdue_for(site),
        f"\nand on {site.node()} time() - {site(metrics.PROBE_ROUND_TIMESTAMP_SECONDS)} < {ROUND_OVERDUE}"
        f"\nunless on {site.node()} {site(metrics.PASS_PAUSED)} == 1",
        name="PlimsollProbesLate",
        hold="15m",
        why="Missed twice, while the timetable is run. Counted from the latest of: the last run, the time since which"
        " the guest is chosen (it may never have run), and the node's boot (probes missed while it was off are not"
        " made up for). `since` keeps the last two apart, since `or` drops a series whose labels it has already.",
        summary=f"Probe of guest {{{{ $labels.domain }}}} on {node}{site.in_words} overdue",
        description=f"Guest {{{{ $labels.domain }}}} ({{{{ $labels.uuid }}}}) on {node} missed two probes in"
        " {{ $labels.directory }}, and is overdue for {{ $value | humanizeDuration }}. Run `plimsoll probe timetable`"
        " there: it prints why the probe was postponed.",
    )
    runs = f"sum by {site.node()} ({metrics.NODE_RUNS}"
    failures, others = f'{runs}{{verdict="failed"}}', f'{runs}{{verdict!="failed"}}'
    yield Alert(
        name="PlimsollProbesFail",
        severity="warning",
        measure="probe_failed",
        expr=f"""\
(
  {failures})
  + ({failures} offset 1d) or 0 * {failures}))
  >= 6
)
unless {others}) > 0
unless {others} offset 1d) > 0""",
        hold="15m",
        why="Two probes of three jobs within two days, and no run with a result. Two days are today and a day ago.",
        summary=f"All probes on {node}{site.in_words} fail",
        description=f'All {{{{ $value | printf "%.0f" }}}} probe runs of the last two days on {node} failed: nothing'
        " was"
        " measured. Run `plimsoll probe list` there: each line has the reason, and what to do in the guest.",
    )


def of_latency(site: Site) -> Iterator[Alert]:
    """Site Reliability Workbook, chapter 5, "multiwindow, multi-burn-rate", without its fastest pair (5 minutes and
    an hour): a guest is probed every few hours, so most windows of five minutes have no probe. ``unless`` instead of
    ``and``: without a probe in the short window the alert stays.
    """
    burn = metrics.BURN
    times = '{{ $value | printf "%.3g" }}'
    sentence = (
        f"requests of probes on volume type {_TYPE}{site.in_words} missed the latency objective of quantile"
        f" {{{{ $labels.objective }}}} {times} times as often as it allows."
    )
    summary = f"Latency budget of volume type {_TYPE}{site.in_words} burns {times}×"
    in_all = '{{ with query (printf "vector(30 * 86400 / %f)" $value) }}'
    month = f"{in_all}{{{{ . | first | value | humanizeDuration }}}}{{{{ end }}}}"
    yield Alert(
        name="PlimsollLatencyBudgetBurning",
        severity="critical",
        expr=f"{burn['6h']} > 6\nunless {burn['1h']} <= 6",
        hold="10m",
        labels={"window": "6h"},
        of_node=False,
        why="5 % of a month's budget in six hours.",
        summary=summary,
        description=f"In the last 6 h {sentence} At this rate the budget of a month is used up in {month}. Run"
        " `plimsoll region probes` for the worst guests, `plimsoll probe list` on their nodes, and `ceph health"
        " detail`.",
    )
    yield Alert(
        name="PlimsollLatencyBudgetBurning",
        severity="warning",
        expr=f"{burn['3d']} > 1\nunless {burn['6h']} <= 1",
        hold="1h",
        labels={"window": "3d"},
        of_node=False,
        why="10 % of a month's budget in three days.",
        summary=summary,
        description=f"In the last 3 d {sentence} Run `plimsoll region probes` for the worst guests, and"
        " `plimsoll probe compare` on their nodes to compare with earlier runs.",
    )
    on = f"and on {site.node('volume_type')}"
    p99, requests = metrics.NODE_P99, metrics.NODE_REQUESTS
    types = site.in_region("volume_type")
    yield Alert(
        name="PlimsollNodeWorseThanRegion",
        severity="warning",
        expr=f"""\
(
  (
    {p99} > 0.01
    {on} {requests} >= 1000
    {on} sum by {site.node("volume_type")} (
      {metrics.NODE_RUNS}{{verdict!="failed"}}
    ) >= 6
  )
  / on {types} group_left ()
  (
    quantile by {types} (0.5, {p99} {on} {requests} >= 1000)
    and
    count by {types} ({requests} >= 1000) >= 5
  )
) > 3""",
        hold="1h",
        why="Compared with nodes on the same volume type, since a type's limits make requests wait. Only nodes with"
        " 1000 requests (10 beyond the percentile) count, only where there are five of them, and the slow node must"
        " have six runs (two probes). A p99 below 10 ms does not alert.",
        summary=f"Latency on {site.node_words}{site.in_words} is {times} times that of the median node",
        description=f"p99 of one day on {site.node_words}, volume type {_TYPE}, is {times} times that of the median"
        f" node{site.in_words}. Other nodes are not slow, so check this node: its network to Ceph, its CPUs, the"
        " probed guest. Start with `plimsoll probe history --since 1d` there.",
    )
