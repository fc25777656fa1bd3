"""Alerts on what hits many nodes at once: one a region, with how many nodes there are and one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from textwrap import indent

from plimsoll_agent.monitor import metrics
from plimsoll_agent.util.frozen import replace
from plimsoll_monitoring.alerts.definition import Alert, by_measure, number, out_of_range
from plimsoll_monitoring.alerts.site import Site, outside
from plimsoll_monitoring.promql import once


def example(
    site: Site,
    query: Callable[[Site, str], str],
    label: str = "",
    then: str = "{{ (first .).Labels.%s }}",
) -> str:
    """The one series of a query in an annotation: one query an alert, however many nodes it is about.

    ``query`` makes it of the alert's own region, which the ``Site`` that it is given selects, and of a matcher for
    the alert's own value of ``label``. With the conditions of the alert it names none of the nodes that have others.
    """
    labels = (*site.region, *([label] if label else ()))
    matchers = [f"{name}=%[{place}]q" for place, name in enumerate(labels, 1)]
    own_region = ", ".join(filter(None, (site.selector.replace("%", "%%"), *matchers[: len(site.region)])))
    promql = " ".join(query(replace(site, selector=own_region), matchers[-1] if label else "").split())
    promql = promql.replace("\\", "\\\\").replace('"', '\\"')
    values = " ".join(f"$labels.{name}" for name in labels)
    template = then % site.instance if "%s" in then else then
    return f'{{{{ with query (printf "{promql}" {values}) }}}}{template}{{{{ end }}}}'


def worst(site: Site, vector: str) -> str:
    """The node with the highest value."""
    return f"topk(1, max by ({site.instance}) ({vector}))"


def of_nodes(site: Site) -> Iterator[Alert]:
    """What a node tells of itself, and many at once."""
    yield from _catalogue(site)
    yield from _brake(site)
    yield from _stages(site)
    yield from _unknown(site)
    yield from _gate(site)
    yield _stalls(site)

    def pauses(its: Site) -> tuple[str, str]:
        pause = its(metrics.PASS_PAUSED)
        day = f"max by {its.node()} (min_over_time({pause}[1d:1h]))"
        return day, f"\nand on {its.node()} {pause} offset 1d == 1"

    among = example(site, lambda its, _: worst(its, out_of_range(its, "paused", *pauses(its))))
    yield from by_measure(
        site,
        "paused",
        *pauses(site),
        site.in_region(),
        name="PlimsollPaused",
        hold="5m",
        why="Each of them for a whole day, so that nodes which are paused one after another raise nothing.",
        of_node=False,
        summary=f"{number('node')}{site.in_words} paused for more than a day",
        description=f"A pause file stops all writes on {number('node')}{site.in_words}, for example {among}: new"
        " guests get no limits, and no guest is probed. `plimsoll status` there prints the reason. To end the"
        " pause, run `plimsoll resume`, or `plimsoll region resume` for all nodes.",
    )


def _catalogue(site: Site) -> Iterator[Alert]:
    levels = site.levels("catalogue_age")
    oldest = "; the oldest, on {{ (first .).Labels.%s }}, is from {{ . | first | value | humanizeDuration }} ago"

    def stale(its: Site, level: str) -> str:
        age = f"{its(metrics.PASS_LAST_TIMESTAMP_SECONDS)} - {its(metrics.CATALOGUE_ISSUED_TIMESTAMP_SECONDS)}"
        if level == "critical" or "catalogue_age" in site.thresholds:
            old = outside(site.range_of("catalogue_age", level), age)
        else:
            old = f"{age} > {its(metrics.CATALOGUE_STALE_AFTER_SECONDS)}"
        usable = its(metrics.SOURCE_UP, 'source="catalogue"')
        missing = f"\nor\nmin by {its.node()} ({usable}) == 0" if level == levels[0] else ""
        return f"(\n{indent(f'max by {its.node()} ({old}){missing}', '  ')}\n){its.overdue}"

    def among(level: str) -> str:
        def age(its: Site, _: str) -> str:
            issue_time = its(metrics.CATALOGUE_ISSUED_TIMESTAMP_SECONDS)
            return worst(its, f"time() - {issue_time} and on {its.node()} ({stale(its, level)})")

        return example(site, age, then=oldest)

    fields = {
        "name": "PlimsollCatalogueStale",
        "measure": "catalogue_age",
        "hold": "15m",
        "of_node": False,
        "summary": f"Catalogue of {number('node')}{site.in_words} is stale",
    }
    for level in levels:
        yield Alert(
            severity=level,
            expr=f"count by {site.in_region()} (\n{indent(stale(site, level), '  ')}\n)",
            why="Its age at the last pass, by stale_after of the node: one without passes is PlimsollPassOverdue."
            if level == "warning" and "catalogue_age" not in site.thresholds
            else "",
            description=f"On {number('node')}{site.in_words} the catalogue from Cinder and Nova is stale"
            f" or missing{among(level)}. Actual limits stay; volumes attached since then keep their attach-time"
            " limits, and changes of QoS specs have no effect. Run `plimsoll catalogue age` there; the reason is in"
            " the journal of `plimsoll catalogue refresh`.",
            **fields,  # type: ignore[arg-type]
        )


def _brake(site: Site) -> Iterator[Alert]:
    revision = "{{ $labels.revision }}"

    def braked(its: Site, of_alert: str = "") -> tuple[str, str]:
        braked_disks = f"max by {its.node('revision')} ({its(metrics.PASS_BRAKED_DISKS, of_alert)})"
        return braked_disks, f"\nand on {its.node()} {its(metrics.PASS_ENFORCING)} == 1"

    def there(its: Site, of_alert: str) -> str:
        return out_of_range(its, "braked", *braked(its, of_alert))

    disks = example(
        site,
        lambda its, of_alert: f"sum({there(its, of_alert)})",
        "revision",
        then='{{ . | first | value | printf "%.0f" }}',
    )
    among = example(site, lambda its, of_alert: worst(its, there(its, of_alert)), "revision")
    yield from by_measure(
        site,
        "braked",
        *braked(site),
        site.in_region("revision"),
        name="PlimsollBraked",
        hold="15m",
        of_node=False,
        summary=f"Brake on {number('node')}{site.in_words}: revision {revision} needs approval",
        description=f"With revision {revision} of rules and QoS specs, disks would lose their limits, or have them"
        f" raised or cut by more than half: {disks} disks on {number('node')}{site.in_words}, for example {among}."
        " None was changed. Read `plimsoll plan` there; if the change is intended, run the `plimsoll approve`"
        " command that it prints, or `plimsoll region approve` for all nodes; if not, correct the rules or the QoS"
        " spec.",
    )
    yield Alert(
        name="PlimsollRegionBraked",
        severity="warning",
        expr=f"max by {site.node()} ({site(metrics.REGION_BRAKED)}) == 1",
        hold="15m",
        of_node=False,
        summary=f"Region brake on {site.node_words}{site.in_words}: changed QoS specs need approval",
        description=f"The brake keeps changed QoS specs or volume types out of the region file{site.in_words}; nodes"
        f" use the values from before. The journal of `plimsoll catalogue refresh` on {site.node_words} lists the"
        " changes; if they are intended, run the `plimsoll region approve` command that it prints; if not, correct"
        " the QoS spec.",
    )


def _stages(site: Site) -> Iterator[Alert]:
    yield Alert(
        name="PlimsollStageStopped",
        severity="warning",
        expr=f"count by {site.node('approval')} (max by {site.node('approval', 'condition')}"
        f" ({site(metrics.REGION_STAGE_STOPPED)}) == 1)",
        hold="15m",
        of_node=False,
        why="The value is the number of conditions.",
        summary=f"Approval {{{{ $labels.approval }}}}{site.in_words}: the next stage does not begin",
        description=f"{number('condition')} for the next stage of approval {{{{ $labels.approval }}}} "
        "{{ if eq $value 1.0 }}is{{ else }}are{{ end }} not met or"
        f" unknown{site.in_words}, so it does not reach more nodes. `plimsoll region approvals` on {site.node_words}"
        " has the reasons; go on once they are gone, or restore the limits of before by `plimsoll region withdraw`.",
    )


def _unknown(site: Site) -> Iterator[Alert]:
    def unknown(its: Site) -> tuple[str, str]:
        on, hours = f"on {its.node()}", f"(sum by {its.node()} ({once(its, metrics.DISKS_UNKNOWN)}))[3h:30m]"
        last_pass, issue_time, stale_after = (
            its(metric)
            for metric in (
                metrics.PASS_LAST_TIMESTAMP_SECONDS,
                metrics.CATALOGUE_ISSUED_TIMESTAMP_SECONDS,
                metrics.CATALOGUE_STALE_AFTER_SECONDS,
            )
        )
        unreachable = its(metrics.GUESTS, 'state="unreachable"')
        return f"min_over_time({hours})", (
            f"\nand count_over_time({hours}) >= 6"
            f"\nunless {on} {unreachable} > 0"
            f"\nunless {on} {its(metrics.SOURCE_UP)} == 0"
            f"\nunless {on} {last_pass} - {issue_time} > {stale_after}"
        )

    among = example(site, lambda its, _: worst(its, out_of_range(its, "unknown", *unknown(its))))
    yield from by_measure(
        site,
        "unknown",
        *unknown(site),
        site.in_region(),
        name="PlimsollDisksUnknown",
        hold="30m",
        why="For three hours on the same node, longer than a catalogue may be stale: a volume that was just attached"
        " is unknown until the next one. Not where guests are unreachable, or the catalogue is stale: those have"
        " alerts of their own.",
        of_node=False,
        summary=f"Disks of {number('node')}{site.in_words} unknown",
        description=f"On {number('node')}{site.in_words} the actual or the desired limits of disks have been unknown"
        f" for three hours, most of them on {among}. Such disks keep the limits that they have. `plimsoll plan` there"
        " prints the reason of each.",
    )


def _gate(site: Site) -> Iterator[Alert]:
    cluster = site.own("cluster")

    def gates(its: Site, of_alert: str = "") -> str:
        return f"max by {its.node(cluster)} ({its(metrics.HEALTH_GATE_SHUT, of_alert)}) == 1{its.overdue}"

    among = example(site, lambda its, of_alert: worst(its, gates(its, of_alert)), cluster)
    yield Alert(
        name="PlimsollHealthGateShut",
        severity="warning",
        measure="behind",
        expr=f"count by {site.in_region(cluster)} (\n{indent(gates(site), '  ')}\n)",
        hold="6h",
        of_node=False,
        why="For hours: what the cluster itself suffers from is told by Ceph's own alerts.",
        summary=f"Health gate of cluster {{{{ $labels.{cluster} }}}}{site.in_words} shut for 6 h on {number('node')}",
        description=f"Ceph cluster {{{{ $labels.{cluster} }}}} is unhealthy or unreachable for {number('node')}"
        f"{site.in_words}, for example {among}: no limit there is raised or removed, and guests that were started"
        " since may have lower limits than desired. Run `ceph health detail`, and `plimsoll plan` on the node.",
    )


STALLED_WITHIN = 900
"""Seconds within which guests stall at once: a pass and the hung-task timeout of Linux (120 s) are in it."""


def _stalls(site: Site) -> Alert:
    metric = metrics.PROJECT_STALLED_TIMESTAMP_SECONDS
    age = f"min by {site.in_region('project')} (time() - {site(metric)}) < {STALLED_WITHIN}"
    among = example(
        site,
        lambda its, _: f"topk(1, count by ({its.instance}) (time() - {once(its, metric)} < {STALLED_WITHIN}))",
    )
    return Alert(
        name="PlimsollGuestsStalled",
        severity="warning",
        expr=f"count by {site.in_region()} (\n  {age}\n) >= {site.stalled_projects}",
        hold="1m",
        of_node=False,
        why="Of several projects: a tenant writes to its consoles what it likes.",
        summary=f"Guests of {number('project')}{site.in_words} stalled at once",
        description=f"Within 15 min guests of {number('project')}{site.in_words} reported hung tasks, I/O errors or"
        f" timeouts of disks on their consoles, most on {among}. Run `ceph health detail`; `plimsoll status` on the"
        " node lists the guests.",
    )


def of_rollout(site: Site) -> Iterator[Alert]:
    """Nodes that differ from the others. Nothing is wrong on a node, so nothing pages, and no rollout that would end
    it stops.
    """
    build_info = site(metrics.BUILD_INFO)
    rare = example(
        site,
        lambda its, _: f"bottomk(1, count by (version) ({once(its, metrics.BUILD_INFO)}))",
        then="; {{ (first .).Labels.version }} on {{ . | first | value }} of them",
    )
    yield Alert(
        name="PlimsollVersionSkew",
        severity="info",
        expr=f"count by {site.in_region()} (count by {site.in_region('version')} ({build_info})) > 1",
        hold=site.rollout,
        of_node=False,
        summary=f"{number('version')} of plimsoll{site.in_words} for {site.rollout}",
        description=f"Nodes{site.in_words} have run {number('version')} of plimsoll for {site.rollout}{rare}. Finish"
        " the rollout, or take it back. `plimsoll region status` lists the versions.",
    )
    enforcing = site(metrics.PASS_ENFORCING)

    def observes(its: Site) -> str:
        return f"max by {its.node()} ({its(metrics.PASS_ENFORCING)}) == 0{its.overdue}"

    observing = example(site, lambda its, _: worst(its, observes(its)))
    yield Alert(
        name="PlimsollModeSkew",
        severity="info",
        expr=f"count by {site.in_region()} (\n{indent(observes(site), '  ')}\n)\n"
        f"and on {site.in_region()} count by {site.in_region()} (max by {site.node()} ({enforcing}) == 1)",
        hold=site.rollout,
        of_node=False,
        summary=f"Mode observe on {number('node')}{site.in_words}, enforce on others, for {site.rollout}",
        description=f"For {site.rollout} mode has been observe on {number('node')}{site.in_words}, for example"
        f" {observing}: no limit is written there, while other nodes enforce. Read `plimsoll plan` there, then set"
        " mode to enforce.",
    )
    if not site.compute_nodes:
        return
    up = f"max by {site.node()} (up{{{site.compute_nodes}}}"
    yield Alert(
        name="PlimsollMissing",
        severity="info",
        expr=f"count by {site.in_region()} (\n"
        f"  {up}) == 1 and on {site.node()} {up} offset 1d) == 1\n"
        f"  unless on {site.node()} max_over_time({build_info}[1d:1h])\n"
        ")",
        hold="15m",
        why="For a day: a node that is being installed, or whose file has just vanished, is not one.",
        of_node=False,
        summary=f"{number('node')}{site.in_words} without plimsoll",
        description=f"{number('compute node')}{site.in_words} "
        "{{ if eq $value 1.0 }}has{{ else }}have{{ end }} been up for a day, and plimsoll has no metrics there:"
        " guests there have no limits from it. Compare `plimsoll region status` with the inventory; install"
        " plimsoll, or take the node out of compute_nodes in the values of these alerts.",
    )


def of_oversubscription(site: Site) -> Iterator[Alert]:
    """Where the site says how much may be promised."""
    if site.promised_ratio is None:
        return
    times, of_type = '{{ $value | printf "%.3g" }} times', '{{ or $labels.volume_type "(none)" }}'
    promises, usage = metrics.PROMISED, metrics.TAKEN["volume_type"]
    for name, words in (("operations", "IOPS"), ("bytes", "bytes per second")):
        yield Alert(
            name="PlimsollOversubscribed",
            severity="warning",
            expr=f"{promises[name]}\n/\n(max_over_time({usage[name]}[7d]) > 0)\n> {site.promised_ratio:g}",
            hold="1d",
            labels={"unit": words},
            of_node=False,
            why="For a day, so that a new Prometheus has seen what guests take by day and by night. Disks without a"
            " limit are not in the sum, so the ratio is higher than this where there are any."
            if name == "operations"
            else "",
            summary=f"Limits on volume type {of_type}{site.in_words} add up to {times} what guests take",
            description=f"The limits in force on volume type {of_type}{site.in_words} add up to {times} the most"
            f" {words} that guests took together within a week; the site allows {site.promised_ratio:g} times. Run"
            " `plimsoll region promised` for the sums, and for the latency at that peak.",
        )
