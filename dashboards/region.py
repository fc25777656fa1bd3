"""A region at a glance: is the promise kept, how long do requests take, which guests and nodes are worst.

Made of series per node and volume type, so that it works with detail = aggregate as well; a panel that needs a series
per disk or guest says so in its description.
"""

from __future__ import annotations

from grafana_foundation_sdk.builders import timeseries
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards import links, shared, steps
from dashboards.board import Head, Row, board
from dashboards.panels import (
    BESIDE_IT,
    HALF,
    THIRD,
    TWO_THIRDS,
    Column,
    Query,
    Size,
    Unit,
    coloured,
    figure,
    graph,
    heat,
    listing,
    named_type,
    series_link,
)
from dashboards.variables import OF_TYPE, REGION, datasource, region, volume_type

NODE = "region,instance"
GUEST = "region,instance,domain,uuid"
PROBED = f"{GUEST},directory"

# A day back: a node whose node_exporter is gone stays in sight, with the age of what it said last.
LAST_PASS = f"max by ({NODE}) (max_over_time(plimsoll_pass_last_timestamp_seconds{{{REGION}}}[1d]))"
LAST_GOOD = f"max by ({NODE}) (max_over_time(plimsoll_pass_last_good_timestamp_seconds{{{REGION}}}[1d]))"
PROMISE_GOOD, PROMISE_BROKEN, NOTHING_PROVEN = "kept|no-limit", "short|over-limit|slow", "discarded|failed"


def newest(verdicts: str, by: str = "") -> str:
    """How many probes ended so in their newest run. Zero where probes ran and none did; nothing where none ran."""
    verdict = f"plimsoll_probe_verdict{{{REGION}"
    return f'count{by} ({verdict},verdict=~"{verdicts}"}}) or 0 * count{by} ({verdict}}})'


def overdue() -> str:
    """How many guests' probes were due twice and not made, since their newest run or since they were chosen."""
    last, chosen, every = (
        f"max by ({PROBED}) (plimsoll_probe_{what}_seconds{{{REGION}}})"
        for what in ("last_timestamp", "chosen_timestamp", "every")
    )
    return f"sum(time() - ({last} or {chosen}) > bool 2 * {every})"


def blocked() -> str:
    postponed = f"max by ({PROBED}) (plimsoll_probe_postponed_timestamp_seconds{{{REGION}}})"
    return f"count({postponed}) or 0 * count(plimsoll_probe_every_seconds{{{REGION}}})"


def glance() -> Row:
    silent, behind = steps.first("pass_age"), steps.first("good_pass_age")
    return Row(
        "At a glance",
        [
            figure(
                "Promise kept, last day",
                shared.GIVEN,
                f"region:plimsoll_promise_kept:ratio_1d{{{REGION}}}",
                Unit.SHARE,
                steps.PROMISE,
                legend="{{region}}",
            ),
            figure(
                "p99 of requests, last day",
                "99 of 100 requests that probes made in the last day took no longer than this.",
                f"region:plimsoll_probe_latency_seconds:p99_1d{{{REGION}}}",
                Unit.SECONDS,
                legend="{{region}}",
            ),
            figure(
                "Nodes silent",
                f"Nodes whose last pass ended {silent:g} s ago or earlier, those among them that are not scraped any "
                "more since less than a day. Their limits stay in force, but nobody watches over them.",
                f"sum(time() - {LAST_PASS} > bool {silent:g})",
                steps=((None, steps.GOOD), (1, steps.BAD)),
            ),
            figure(
                "Nodes behind",
                f"Nodes whose last good pass ended {behind:g} s ago or earlier, or that never had one: in each pass "
                "something is left undone.",
                f"sum(time() - ({LAST_GOOD} or 0 * {LAST_PASS}) > bool {behind:g})",
                steps=steps.NONE_EXPECTED,
            ),
            shared.unlimited(OF_TYPE),
            figure("Disks at the wall", shared.AT_THE_WALL, f"sum(plimsoll_disks_at_wall{{{OF_TYPE}}})"),
            figure(
                "Probes late",
                f"Guests whose probe was due twice and not made. {shared.ONLY_PER_DISK}",
                overdue(),
                steps=steps.shipped("probe_late"),
            ),
            figure(
                "Drift put back, last day",
                "Limits that somebody else had changed and plimsoll put back.",
                f"sum(increase(plimsoll_drift_corrected_total{{{OF_TYPE}}}[1d]))",
                steps=steps.NONE_EXPECTED,
            ).decimals(0),
        ],
    )


def promise() -> Row:
    kept = named_type(f"volume_type:plimsoll_promise_kept:ratio_1d{{{OF_TYPE}}}")
    return Row(
        "Is the promise kept?",
        [
            graph(
                "Promise kept, by volume type",
                f"{shared.GIVEN} Over the day before each point.",
                [Query(kept, "{{region}} {{volume_type}}")],
                Unit.SHARE,
                steps.PROMISE,
            ).max(1),
            shared.runs_by_verdict(OF_TYPE),
        ],
    )


def percentile(name: str, share: str, rule: str) -> timeseries.Panel:
    about = (
        f"{share} requests that probes made in the day before each point took no longer than this, over all nodes."
    )
    expr = named_type(f"volume_type:plimsoll_probe_latency_seconds:{rule}{{{OF_TYPE}}}")
    legend = "{{region}} {{volume_type}}"
    return graph(f"{name} of requests, by volume type", about, [Query(expr, legend)], Unit.SECONDS, size=THIRD)


def slowest_nodes() -> timeseries.Panel:
    expr = f"topk(10, instance_volume_type:plimsoll_probe_latency_seconds:p99_1d{{{OF_TYPE}}})"
    about = "The ten highest of nodes and volume types, over the day before each point. A click leads to the node."
    queries = [Query(named_type(expr), "{{instance}} {{volume_type}}")]
    panel = graph("p99 of the slowest nodes", about, queries, Unit.SECONDS, size=BESIDE_IT)
    return series_link(panel, "Look at this node", links.NODE_OF_SERIES)


def budget() -> timeseries.Panel:
    burn = "volume_type:plimsoll_probe_objective_burn:ratio"
    queries = [
        Query(named_type(f"{burn}_{over}{{{OF_TYPE}}}"), f"{{{{volume_type}}}} {{{{objective}}}} over {over}")
        for over in ("1h", "6h", "3d")
    ]
    about = (
        "At 1 just as many requests are slow as the objective allows; at 10 a budget for a month lasts three days. "
        "Only volume types that have an objective, and only where there were enough requests."
    )
    burning = ((None, steps.GOOD), (1, steps.WARNING))
    return graph("How fast latency budgets are used up", about, queries, steps=burning, size=Size(24, 7))


def latency() -> Row:
    return Row(
        "How long requests take",
        [
            percentile("p50", "Half of the", "p50_1d"),
            percentile("p99", "99 of 100", "p99_1d"),
            percentile("p99.9", "999 of 1000", "p999_1d"),
            heat(
                "Requests of probes, by how long they took",
                "The darker, the more requests. A second band far above the first is a part of the cluster that "
                "stalls, which a percentile hides. The top row is all that lies beyond fio's last bucket, 17 s.",
                OF_TYPE,
                TWO_THIRDS,
            ),
            slowest_nodes(),
            budget(),
        ],
    )


def probes() -> Row:
    by_guest = f" by ({GUEST})"
    buckets = f'plimsoll_probe_latency_seconds_bucket{{{OF_TYPE},uuid!=""}}'
    p99 = f"histogram_quantile(0.99, sum by ({GUEST},le) (increase({buckets}[1d]))) >= 0"
    last = f"max{by_guest} (plimsoll_probe_last_timestamp_seconds{{{REGION}}})"
    allowed = f"min{by_guest} (plimsoll_probe_allowed_ratio{{{REGION}}})"
    return Row(
        "Guests that are probed",
        [
            listing(
                "Worst guests",
                "Every probed guest, most broken promises first: how many of its read, write and mixed probes "
                f"ended short, over-limit or slow when they last ran. {shared.ONLY_PER_DISK}",
                [
                    Column("Broken", newest(PROMISE_BROKEN, by_guest), steps=steps.shipped("probe_broken")),
                    Column("Of what limits allow", allowed, Unit.SHARE, steps.PROMISE),
                    Column("p99, last day", p99, Unit.SECONDS),
                    Column("Last run ago", f"time() - {last}", Unit.SECONDS),
                ],
                worst="Broken",
                size=TWO_THIRDS,
                links={"instance": links.NODE_OF_ROW, "domain": links.GUEST_OF_ROW},
            ),
            standing(),
        ],
    )


def standing() -> timeseries.Panel:
    about = (
        "Probes by the verdict of their newest run; late: guests whose probe was due twice and not made; blocked: "
        f"guests whose probe is postponed, for the cluster's health or another reason. {shared.ONLY_PER_DISK}"
    )
    queries = [
        Query(newest(PROMISE_GOOD), "good"),
        Query(newest(PROMISE_BROKEN), "broken"),
        Query(newest(NOTHING_PROVEN), "no result"),
        Query(overdue(), "late"),
        Query(blocked(), "blocked"),
    ]
    colours = (steps.GOOD, steps.BAD, "gray", steps.WARNING, "purple")
    panel = graph("Probes good, late and blocked", about, queries, size=BESIDE_IT)
    return coloured(panel, {query.legend: colour for query, colour in zip(queries, colours, strict=True)})


def nodes() -> Row:
    def summed(metric: str, *matchers: str) -> str:
        return f"sum by ({NODE}) ({metric}{{{','.join([REGION, *matchers])}}})"

    not_as_wanted = 'state=~"planned|waits|not-known|failed"'
    down = f"sum by ({NODE}) (1 - plimsoll_source_up{{{REGION}}})"
    return Row(
        "Nodes",
        [
            listing(
                "Nodes silent or behind",
                "Every node of the last day, the longest silent first. Not as wanted: disks planned, waiting, not "
                "known or failed.",
                [
                    Column("Last pass ago", f"time() - {LAST_PASS}", Unit.SECONDS, steps.shipped("pass_age")),
                    Column(
                        "Last good pass ago", f"time() - {LAST_GOOD}", Unit.SECONDS, steps.shipped("good_pass_age")
                    ),
                    Column("Sources down", down, steps=steps.shipped("sources_down")),
                    Column(
                        "Guests silent",
                        summed("plimsoll_guests", 'state="silent"'),
                        steps=steps.shipped("silent_guests"),
                    ),
                    Column(
                        "Not as wanted",
                        summed("instance:plimsoll_disks:sum", not_as_wanted),
                        steps=steps.NONE_EXPECTED,
                    ),
                    Column("At the wall", summed("plimsoll_disks_at_wall")),
                    Column(
                        "Promise kept",
                        f"max by ({NODE}) (instance:plimsoll_promise_kept:ratio_1d{{{REGION}}})",
                        Unit.SHARE,
                        steps.PROMISE,
                    ),
                ],
                worst="Last pass ago",
                links={"instance": links.NODE_OF_ROW},
            ),
        ],
    )


def disks() -> Row:
    busiest = f"instance:plimsoll_disk_average_limit_ratio:top10{{{REGION}}}"
    return Row(
        "Disks",
        [
            shared.disks_by_state(f"sum by (state) (volume_type:plimsoll_disks:sum{{{OF_TYPE}}})"),
            shared.at_the_wall(OF_TYPE),
            shared.drift(OF_TYPE),
            shared.done("operations", Unit.OPERATIONS, OF_TYPE, HALF),
            shared.done("bytes", Unit.BYTES, OF_TYPE, HALF),
            listing(
                f"Busiest disks {shared.BETWEEN_PASSES}",
                f"Ten of each region, by the limit used most; above 100 % on its burst. {shared.ONLY_PER_DISK}",
                [Column("Of its limit", busiest, Unit.SHARE, steps.WALL)],
                worst="Of its limit",
                links={
                    "instance": links.NODE_OF_ROW,
                    "domain": links.DISK_OF_ROW,
                    "target_device": links.DISK_OF_ROW,
                },
                leave_out=["__name__"],
            ),
        ],
    )


def make() -> Dashboard:
    head = Head(
        links.REGION,
        "Plimsoll / Region",
        "Whether the limits of a region are in force, and whether its guests get what they were promised.",
        "now-2d",
        [datasource(), region(), volume_type(REGION)],
        {"Node": links.to(links.NODE)},
    )
    return board(head, [glance(), promise(), latency(), probes(), nodes(), disks()])
