"""One node: its passes and what they read, what its disks use of their limits, its probes.

Works with detail = aggregate, apart from the panels that say otherwise.
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
    Unit,
    coloured,
    dashed,
    figure,
    graph,
    heat,
    listing,
    name,
    named_type,
    states,
)
from dashboards.variables import NODE, NODE_OF_TYPE, REGION, datasource, instance, region, volume_type

DISK = "domain,target_device,uuid"
MODES = {"0": "observing", "1": "enforcing", "2": "paused", "3": "paused"}


def largest(metric: str, *matchers: str) -> str:
    return f"max({metric}{{{','.join([NODE, *matchers])}}})"


def ago(event: str) -> str:
    return f"time() - {largest(f'plimsoll_{event}_timestamp_seconds')}"


def glance() -> Row:
    return Row(
        "At a glance",
        [
            figure(
                "Last pass ago",
                "Since the last pass over the whole node ended, good or not.",
                ago("pass_last"),
                Unit.SECONDS,
                steps.shipped("pass_age"),
            ),
            figure(
                "Last good pass ago",
                "Since the last pass in which nothing was left undone.",
                ago("pass_last_good"),
                Unit.SECONDS,
                steps.shipped("good_pass_age"),
            ),
            figure(
                "Mode",
                "observing: passes only say what they would do. enforcing: they write. paused: a file forbids it.",
                f"{largest('plimsoll_pass_enforcing')} + 2 * {largest('plimsoll_pass_paused')}",
                steps=((None, "blue"), (1, steps.GOOD), (2, steps.WARNING)),
                words=MODES,
            ),
            figure(
                "Disks braked",
                "Disks whose change waits for plimsoll approve: a pass would have cut too many at once.",
                largest("plimsoll_pass_braked_disks"),
                steps=steps.shipped("braked"),
            ),
            shared.unlimited(NODE_OF_TYPE),
            figure(
                "Guests silent",
                "Guests whose QEMU did not answer in time: nobody knows what is in force on their disks.",
                largest("plimsoll_guests", 'state="silent"'),
                steps=steps.shipped("silent_guests"),
            ),
            figure(
                "Holds",
                "Exceptions of operators that stand; plimsoll disk hold list names them.",
                largest("plimsoll_holds"),
            ),
            name("Version", "The plimsoll that wrote this.", Query(f"plimsoll_build_info{{{NODE}}}", "{{version}}")),
        ],
    )


def results() -> timeseries.Panel:
    queries = [
        Query(f"sum by (result) (increase(plimsoll_passes_total{{{NODE}}}[1h]))", "{{result}}"),
        Query(f"sum(increase(plimsoll_pass_lock_busy_total{{{NODE}}}[1h]))", "lock busy"),
    ]
    about = (
        "good: nothing was left undone. partial: some disk or source was. failed: there was no pass. lock busy: "
        "another pass held the node."
    )
    colours = {"good": steps.GOOD, "partial": steps.WARNING, "failed": steps.BAD, "lock busy": "purple"}
    panel = graph("Passes of an hour, by result", about, queries, size=THIRD, stacked=True)
    return coloured(panel, colours)


def catalogue() -> timeseries.Panel:
    queries = [
        Query(ago("catalogue_issued"), "age"),
        Query(largest("plimsoll_catalogue_old_after_seconds"), "old from here on"),
    ]
    about = "Since Cinder said what counts now, and from when on that is called old. Empty without a catalogue."
    return dashed(graph("Age of the catalogue", about, queries, Unit.SECONDS, size=THIRD), "old from here on")


def passes() -> Row:
    refreshes = f"sum by (result) (increase(plimsoll_catalogue_refreshes_total{{{NODE}}}[1h]))"
    calls = f"sum by (service) (increase(plimsoll_catalogue_calls_total{{{NODE}}}[1h]))"
    return Row(
        "Passes",
        [
            graph(
                "How long a pass takes, by phase",
                "The newest pass at each point. observe asks libvirt, apply writes to QEMU.",
                [Query(f"max by (phase) (plimsoll_pass_duration_seconds{{{NODE}}})", "{{phase}}")],
                Unit.SECONDS,
                steps.shipped("pass_seconds"),
                THIRD,
                stacked=True,
            ),
            graph(
                "Age of the last pass",
                "A saw whose teeth are as wide as the timer's interval; a line that climbs on is a silent agent.",
                [Query(ago("pass_last"), "any pass"), Query(ago("pass_last_good"), "good pass")],
                Unit.SECONDS,
                steps.shipped("pass_age"),
                THIRD,
            ),
            results(),
            states(
                "Sources",
                "What a pass reads. While a source is down, what it said last stays in force.",
                Query(f"max by (source) (plimsoll_source_up{{{NODE}}})", "{{source}}"),
                {"0": ("down", steps.BAD), "1": ("up", steps.GOOD)},
                THIRD,
            ),
            catalogue(),
            graph(
                "Refreshes of the catalogue in an hour",
                "By result, and the API calls that they took. Only on a node that makes the catalogue.",
                [Query(refreshes, "{{result}}"), Query(calls, "calls to {{service}}")],
                size=THIRD,
            ),
        ],
    )


def use() -> Row:
    share = f"max by ({DISK}) (plimsoll_disk_average_limit_ratio{{{NODE}}})"
    operations, size = (
        f"sum by ({DISK}) (plimsoll_disk_average_{what}_per_second{{{NODE}}})" for what in ("operations", "bytes")
    )
    unlimited = f"max by ({DISK}) (plimsoll_disk_unlimited{{{NODE}}})"
    return Row(
        "Limits against use",
        [
            listing(
                f"Disks and what they use of their limits {shared.BETWEEN_PASSES}",
                "By the limit used most. Above 100 % a disk is on its burst; from 95 % on it is at the wall, and its "
                f"guest waits for the limit. {shared.ONLY_PER_DISK}",
                [
                    Column("Of its limit", share, Unit.SHARE, steps.WALL),
                    Column("Operations", operations, Unit.OPERATIONS),
                    Column("Bytes", size, Unit.BYTES),
                    Column("Unlimited", unlimited, steps=steps.shipped("unlimited")),
                ],
                worst="Of its limit",
                links={"domain": links.DISK_OF_ROW, "target_device": links.DISK_OF_ROW},
                size=TWO_THIRDS,
            ),
            shared.at_the_wall(NODE_OF_TYPE, BESIDE_IT),
            graph(
                f"The ten busiest disks {shared.BETWEEN_PASSES}",
                f"Share of the limit used most. {shared.ONLY_PER_DISK}",
                [Query(f"topk(10, {share})", "{{domain}} {{target_device}}")],
                Unit.SHARE,
                steps.WALL,
                THIRD,
            ),
            shared.done("operations", Unit.OPERATIONS, NODE_OF_TYPE, THIRD),
            shared.done("bytes", Unit.BYTES, NODE_OF_TYPE, THIRD),
        ],
    )


def disks() -> Row:
    outcomes = f"sum by (state) (increase(plimsoll_outcomes_total{{{NODE}}}[1h]))"
    counted = "Each pass counts each disk once."
    return Row(
        "Disks",
        [
            shared.disks_by_state(f"sum by (state) (plimsoll_disks{{{NODE_OF_TYPE}}})"),
            coloured(
                graph("Outcomes of an hour, by state", counted, [Query(outcomes, "{{state}}")], size=THIRD),
                steps.OF_STATE,
            ),
            shared.drift(NODE_OF_TYPE),
        ],
    )


def slowness() -> timeseries.Panel:
    here = f"instance_volume_type:plimsoll_probe_latency_seconds:p99_1d{{{NODE_OF_TYPE}}}"
    everywhere = f"region:plimsoll_probe_latency_seconds:p99_1d{{{REGION}}}"
    queries = [Query(named_type(here), "here, {{volume_type}}"), Query(everywhere, "region {{region}}")]
    about = "Over the day before each point. A node far above its region has a cause of its own: network, CPUs, rack."
    panel = graph("p99 of requests, here and in the region", about, queries, Unit.SECONDS, size=THIRD)
    return dashed(panel, "region.*")


def probes() -> Row:
    return Row(
        "Probes on this node",
        [
            slowness(),
            graph(
                "Promise kept",
                f"{shared.GIVEN} Over the day before each point.",
                [Query(f"max(instance:plimsoll_promise_kept:ratio_1d{{{NODE}}})", "kept")],
                Unit.SHARE,
                steps.PROMISE,
                THIRD,
            ).max(1),
            shared.runs_by_verdict(NODE_OF_TYPE, THIRD),
            heat(
                "Requests of probes, by how long they took",
                "The darker, the more requests.",
                NODE_OF_TYPE,
                HALF,
            ),
            graph(
                "Age of the probes' figures",
                "Since a probe last looked after this node, whether or not there was anything to run.",
                [Query(ago("probe_written"), "written")],
                Unit.SECONDS,
                size=HALF,
            ),
        ],
    )


def make() -> Dashboard:
    head = Head(
        links.NODE,
        "Plimsoll / Node",
        "What plimsoll does on one node: its passes, what they read, and what the disks use of their limits.",
        "now-24h",
        [datasource(), region(), instance(), volume_type(NODE)],
        {"Region": links.to(links.REGION), "Disk": links.to(links.DISK)},
    )
    return board(head, [glance(), passes(), use(), disks(), probes()])
