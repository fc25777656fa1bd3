"""Every query of every panel, in a simulated region: a real Prometheus returns what the panel's title says.

What is expected is counted by hand from the facts in ``tests.simulated_region``; a panel without an expectation is a
failure. ``all`` of a dashboard is how it opens, ``one`` has a single region and volume type, and another node and
disk.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from plimsoll_monitoring.alerts.files import alerts_text, rules_text
from plimsoll_monitoring.alerts.site import Site
from plimsoll_monitoring.dashboards.files import files
from tests.grafana import asked as asked_of
from tests.grafana import filled
from tests.grafana import panels as panels_of
from tests.simulated_region import DIRECTORY, NODES, Answer, Served, guest, instance, region_of, served
from tests.unit.node import FSID, uuid_of

SITE = Site(compute_nodes='job="node"')
DASHBOARDS: dict[str, dict[str, Any]] = {
    name.removesuffix(".json"): json.loads(text) for name, text in files(SITE).items()
}
NORTH = {"region": "north", "volume_type": "gold"}
VIEWS: dict[tuple[str, str], dict[str, str]] = {
    ("plimsoll-region", "all"): {},
    ("plimsoll-region", "one"): NORTH,
    ("plimsoll-node", "all"): {"instance": instance(7)},
    ("plimsoll-node", "one"): NORTH | {"instance": instance(1)},
    ("plimsoll-disk", "all"): {"domain": guest(7), "uuid": uuid_of(7), "target_device": "vdb"},
    ("plimsoll-disk", "one"): {"region": "north", "domain": guest(15), "uuid": uuid_of(15), "target_device": "vdb"},
}


@dataclass(frozen=True)
class Between:
    """A value in a bucket of a histogram, or one that a test does not know so well."""

    low: float
    high: float

    def __eq__(self, other: object) -> bool:
        return isinstance(other, float) and self.low < other < self.high


MS_40, MS_200, MS_400 = Between(0.0335, 0.0504), Between(0.134, 0.202), Between(0.268, 0.403)
SOME_TIME = Between(0, 108001)
Value = float | Between
Series = tuple[Value, dict[str, str]]


def s(value: Value, **labels: str) -> Series:
    """A series with this value, and at least these labels."""
    return (value, labels)


def on(node: int, value: Value, **labels: str) -> Series:
    return s(value, instance=instance(node), region=region_of(node), **labels)


def of(node: int, value: Value, **labels: str) -> Series:
    """Of the node's guest, with the names of its server and project."""
    return on(node, value, server=f"web-{node}", project_name="shop", domain=guest(node), **labels)


@dataclass(frozen=True)
class Panel:
    """What its queries return, by their letters; ``one`` where it is not ``all`` in one region and volume type."""

    all: dict[str, list[Series]]
    one: dict[str, list[Series]] = field(default_factory=dict)
    part: bool = False
    """Other series are there too."""

    def of_one(self, ref: str, narrow: bool) -> list[Series]:
        if ref in self.one or not narrow:
            return self.one.get(ref, self.all[ref])
        return [
            (value, labels)
            for value, labels in self.all[ref]
            if labels.get("region", "north") == "north" and labels.get("volume_type", "gold") == "gold"
        ]


def figure(everywhere: Value, one: Value | None = None) -> Panel:
    return Panel({"A": [s(everywhere)]}, {} if one is None else {"A": [s(one)]})


def lines(label: str, everywhere: dict[str, Value], one: dict[str, Value] | None = None) -> Panel:
    """A graph of one query, with a line for each value of a label."""

    def series(values: dict[str, Value]) -> list[Series]:
        return [s(value, **{label: name}) for name, value in values.items()]

    return Panel({"A": series(everywhere)}, {} if one is None else {"A": series(one)})


def by_type(value: Value, **types: Value) -> list[Series]:
    """Of the types gold and standard, and of disks without one."""
    return [s(value, volume_type="no type"), *(s(each, volume_type=name) for name, each in types.items())]


THERE = [node for node in NODES if node not in (9, 11)]
BEHIND_GOOD = {1: 36120, 6: 36120, 7: 36120, 12: 36120, 14: 36120, 10: 7320, 11: 12720}
BEHIND = dict.fromkeys(BEHIND_GOOD, 120) | {10: 7320, 11: 12720}
DAY = 86400
SINCE_ALWAYS, FOR_SIX_HOURS = 30 * 3600, 6 * 3600


def alert(name: str, value: Value, node: int | None = None, **labels: str) -> Series:
    where = {"region": "north"} if node is None else {"region": "north", "instance": instance(node)}
    return s(value, alertname=f"Plimsoll{name}", **where, **labels)


WARNINGS = (
    (("Braked",), {}, SINCE_ALWAYS),
    (("CatalogueStale",), {}, SINCE_ALWAYS),
    (("ChangesFail", 6), {}, SINCE_ALWAYS),
    (("ChangesFail", 7), {}, SINCE_ALWAYS),
    (("DisksUnlimited", 6), {}, SINCE_ALWAYS),
    (("DisksUnlimited", 7), {}, SINCE_ALWAYS),
    (("ExternalChanges", 15), {}, SOME_TIME),
    (("GuestsUnreachable", 12), {}, SINCE_ALWAYS),
    (("HealthGateShut",), {"cluster": FSID}, SINCE_ALWAYS),
    (("PassOverdue", 10), {}, 3 * 1800),
    (("Paused",), {}, FOR_SIX_HOURS),
    (("ProbesLate", 16), {"domain": guest(16)}, SOME_TIME),
    (("PromiseBroken",), {"volume_type": "standard"}, SOME_TIME),
)
BURNING = {"volume_type": "standard"}
FIRING = {
    "A": [
        alert("LatencyBudgetBurning", 3, **BURNING),
        alert("Missing", 1),
        *(alert(name[0], 2, *name[1:], **labels) for name, labels, _ in WARNINGS),
    ],
    "B": [
        alert("LatencyBudgetBurning", SOME_TIME, **BURNING),
        alert("Missing", FOR_SIX_HOURS),
        *(alert(name[0], lasted, *name[1:], **labels) for name, labels, lasted in WARNINGS),
    ],
}
THRASHING = {"A": 2, "B": SOME_TIME}
"""Of a file system: Ceph's manager knows no region."""
NORTH_GOLD, NORTH_STANDARD, SOUTH_STANDARD = (
    {"region": region, "volume_type": volume_type}
    for region, volume_type in (("north", "gold"), ("north", "standard"), ("south", "standard"))
)


def promises(north: tuple[Value, Value, Value], south: tuple[Value, Value, Value]) -> list[Series]:
    """Of the types gold and standard, and of disks without one."""
    types = ("gold", "standard", "no type")
    return [
        s(value, region=region, volume_type=name)
        for region, values in (("north", north), ("south", south))
        for name, value in zip(types, values, strict=True)
    ]


def latencies(gold: Value, promised: tuple[float, float]) -> Panel:
    return Panel(
        {
            "A": [s(gold, **NORTH_GOLD), s(MS_400, **NORTH_STANDARD), s(MS_40, **SOUTH_STANDARD)],
            "B": [s(promised[0], **NORTH_GOLD), s(promised[1], **NORTH_STANDARD), s(promised[1], **SOUTH_STANDARD)],
        }
    )


KEPT = 7530 / 7525
RUNS = dict.fromkeys(("no-limit", "over-limit", "reduced", "inconclusive", "failed"), 0)
NONE_SO = dict.fromkeys(("changed", "left-alone", "unknown"), 0)
IDLE: dict[str, list[Series]] = {"A": []}


def each(values: dict[int, Value], **labels: str) -> list[Series]:
    return [on(node, value, **labels) for node, value in values.items()]


REGION = {
    "Alerts, critical": figure(1),
    "Alerts, warning": figure(16, 15),  # 14, and the latency budget of two quantiles
    "Promise kept": figure(3 / 5, 2 / 3),
    "Nodes unreachable or behind": figure(7),
    "Disks unlimited": figure(2, 1),
    "Probes overdue": figure(1),
    "Ceph's health": figure(1),
    "PGs that accept I/O": figure(0.95),
    "Alerts that fire": Panel(
        {ref: [*FIRING[ref], s(value, alertname="PlimsollMdsThrashing")] for ref, value in THRASHING.items()}, FIRING
    ),
    "Nodes unreachable or behind, one by one": Panel(
        {
            "A": each(BEHIND),
            "B": each(BEHIND_GOOD),
            "C": each(dict.fromkeys(BEHIND, 0) | {11: -1})[:-1],
            "D": each({1: 0, 6: 0, 7: 0, 10: 0, 12: 2, 14: 0}),
            "E": each({1: 2, 6: 1, 7: 1, 10: 0, 12: 0, 14: 1}),
        }
    ),
    "Promise kept, by volume type": Panel(
        {
            "A": [s(2 / 3, **NORTH_GOLD), s(0, **NORTH_STANDARD), s(1, **SOUTH_STANDARD)],
            "B": [s(16 / 18, **NORTH_GOLD), s(0, **NORTH_STANDARD), s(1, **SOUTH_STANDARD)],
        }
    ),
    "Probe runs in 24 h, by verdict": lines(
        "verdict", RUNS | {"kept": 24, "short": 2, "slow": 8}, RUNS | {"kept": 16, "short": 2, "slow": 0}
    ),
    "p50 latency, by volume type": latencies(MS_40, (0.1, 0.045)),
    "p99 latency, by volume type": latencies(MS_200, (0.25, 0.05)),
    "p99.9 latency, by volume type": latencies(MS_200, (0.5, 0.06)),
    "Latency of probe requests": Panel(
        {"A": [s(30120, le="0.050331648"), s(45180, le="0.201326592"), s(60240, le="+Inf")]},
        {"A": [s(15060, le="0.050331648"), s(30120, le="0.201326592"), s(30120, le="+Inf")]},
        part=True,
    ),
    "Slowest nodes for their volume type": Panel(
        {
            "A": [
                *each({7: 1, 13: Between(3.9, 4.1), 16: 1}, volume_type="gold"),
                *each({8: 1, 17: 1}, volume_type="standard"),
            ],
            "B": [
                *each({7: MS_40, 13: MS_200, 16: MS_40}, volume_type="gold"),
                *each({8: MS_400, 17: MS_40}, volume_type="standard"),
            ],
        }
    ),
    "Latency budget burn rate": Panel(
        {
            # Half of gold's requests took 200 ms, and are over the 100 ms of its median; all of standard's in the
            # north are over the objective of 99 of 100.
            "A": [s(1, **NORTH_GOLD), s(100, **NORTH_STANDARD), s(0, **SOUTH_STANDARD)],
        }
    ),
    "Worst guests": Panel(
        {
            "A": [of(8, 2), of(7, 1), of(13, 0), of(16, 0), of(17, 0)],
            "B": [of(7, 0.38), of(13, KEPT), of(16, KEPT), of(17, KEPT)],
            "C": [of(8, MS_400), of(7, MS_40), of(13, MS_200), of(16, MS_40), of(17, MS_40)],
            "D": [of(8, 60), of(7, 60), of(13, 60), of(16, 18 * 3600 + 60), of(17, 60)],
        },
        {
            "A": [of(7, 1), of(13, 0), of(16, 0)],
            "B": [of(7, 0.38), of(13, KEPT), of(16, KEPT)],
            "C": [of(7, MS_40), of(13, MS_200), of(16, MS_40)],
            "D": [of(7, 60), of(13, 60), of(16, 18 * 3600 + 60)],
        },
    ),
    "Probes by state": Panel(
        {"A": [s(7)], "B": [s(3)], "C": [s(0)], "D": [s(1)], "E": [s(1)]}, {"A": [s(5)], "B": [s(1)]}
    ),
    "Nodes braked, paused or observing": Panel({"A": each({1: 2}), "B": each({2: 1}), "C": each({3: 0})}),
    "Nodes: catalogue, version, revision": Panel(
        {
            "A": each({node: 18000 if node == 5 else 700 for node in THERE}),
            "B": [on(node, 1, version="1.1.0" if node == 4 else "1.2.3") for node in THERE],
            "C": [on(node, 1, revision=("b" if node == 13 else "a") * 16) for node in THERE],
        }
    ),
    "Nodes by version": lines("version", {"1.2.3": 17, "1.1.0": 1}, {"1.2.3": 13, "1.1.0": 1}),
    "Nodes by revision of the rules": lines("revision", {"a" * 16: 17, "b" * 16: 1}, {"a" * 16: 13, "b" * 16: 1}),
    "Nodes whose health gate is shut": lines("cluster", {FSID: 1}),
    "Compute nodes without plimsoll": Panel({"A": each({9: 1})}),
    "Disks unlimited, one by one": Panel(
        {
            "A": [
                of(6, 1, target_device="vdb", volume_type="gold", state="failed", reason="rejected"),
                of(7, 1, target_device="vda", state="failed", reason="rejected"),
            ],
            "B": [of(6, 500, target_device="vdb"), of(7, 250, target_device="vda")],
            "C": [of(6, 2e7, target_device="vdb"), of(7, 1e7, target_device="vda")],
        },
        {
            "A": [of(6, 1, target_device="vdb", volume_type="gold", state="failed", reason="rejected")],
            "B": [of(6, 500, target_device="vdb")],
            "C": [of(6, 2e7, target_device="vdb")],
        },
    ),
    "Disks by state": lines(
        "state",
        NONE_SO | {"in-sync": 30, "deferred": 3, "planned": 1, "failed": 2},
        NONE_SO | {"in-sync": 9, "deferred": 2, "planned": 1, "failed": 1},
    ),
    "Disks at limit, by volume type": Panel({"A": by_type(0, gold=1, standard=0)}),
    "External changes reverted in 1 h, by volume type": Panel({"A": by_type(0, gold=1, standard=0)}),
    "Operations per second, by volume type (average between passes)": Panel(
        {
            "A": [
                s(nodes * each_, volume_type=name, direction=direction)
                for name, nodes in (("gold", 16), ("standard", 2), ("no type", 18))
                for direction, each_ in (("read", 100), ("write", 50))
            ]
        },
        {"A": [s(1300, volume_type="gold", direction="read"), s(650, volume_type="gold", direction="write")]},
    ),
    "Bytes per second, by volume type (average between passes)": Panel(
        {
            "A": [
                s(nodes * each_, volume_type=name, direction=direction)
                for name, nodes in (("gold", 16), ("standard", 2), ("no type", 18))
                for direction, each_ in (("read", 1e6), ("write", 5e5))
            ]
        },
        {"A": [s(13e6, volume_type="gold", direction="read"), s(6.5e6, volume_type="gold", direction="write")]},
    ),
    "Busiest disks (average between passes)": Panel(
        {
            "A": [
                of(16, 0.98, target_device="vdb"),
                *(of(node, 0.3 + node / 1000, target_device="vdb") for node in (5, 6, 7, 8, 10, 12, 13, 14, 15)),
                *(of(node, 0.3 + node / 1000, target_device="vdb") for node in (17, 18, 19, 20)),
                *(of(node, 0.1 + node / 1000, target_device="vda") for node in (17, 18, 19, 20)),
            ]
        }
    ),
    # Without node 11, which is gone, and node 10, not observed for two hours; two disks in the north are unlimited.
    "IOPS taken and promised, by volume type (average between passes)": Panel(
        {
            "A": promises((12 * 150, 150, 13 * 150), (3 * 150, 150, 4 * 150)),
            "B": promises((11 * 500, 500, 12 * 250), (3 * 500, 500, 4 * 250)),
        }
    ),
    "Bytes per second taken and promised, by volume type (average between passes)": Panel(
        {
            "A": promises((12 * 1.5e6, 1.5e6, 13 * 1.5e6), (3 * 1.5e6, 1.5e6, 4 * 1.5e6)),
            "B": promises((11 * 2e7, 2e7, 12 * 1e7), (3 * 2e7, 2e7, 4 * 1e7)),
        }
    ),
    "IOPS promised, and the most taken in a week (average between passes)": Panel(
        {
            "A": promises((11 * 500, 500, 12 * 250), (3 * 500, 500, 4 * 250)),
            "B": promises((14 * 150, 150, 15 * 150), (3 * 150, 150, 4 * 150)),  # both were there
            "C": promises((5500 / 2100, 10 / 3, 3000 / 2250), (10 / 3, 10 / 3, 1000 / 600)),
            "D": promises((1, 0, 1), (0, 0, 0)),
        }
    ),
    "Projects with guests that stalled": lines("region", {"north": 1, "south": 0}),
    "Guests that stalled within a day": Panel({"A": [of(16, Between(2.9, 3.1))]}),
    "Approvals in stages": Panel(
        {
            ref: [s(value, region="north", approval="c" * 16)]
            for ref, value in zip("ABCDE", (1, 3, 2, 2, 36000), strict=True)
        }
    ),
    "What stops the next stage": Panel(
        {"A": [s(1, condition="at-limit", region="north"), s(2, condition="verdicts", region="north")]}
    ),
    "PGs that accept I/O, over time": figure(0.95),
    "Ceph's health over time": figure(1),
    "Congestion: x of each device class": lines("device_class", {"ssd": 0.73, "hdd": 1}),
    "Congestion: latency of light disks, and its target": Panel(
        {"A": [s(0.0091, device_class="ssd", cluster=FSID)], "B": [s(0.006, device_class="ssd", cluster=FSID)]}
    ),
    "Congestion: disks reduced": Panel({"A": [s(4, region="north", cluster=FSID, device_class="ssd")]}),
    "CephFS: requests of each MDS": lines("ceph_daemon", {"mds.a": 100, "mds.b": 50}),
    "CephFS: requests that ranks forward to each other": figure(0.2),
    "CephFS: inodes that each MDS exports": lines("ceph_daemon", {"mds.a": 5, "mds.b": 0}),
}
SOURCES = dict.fromkeys(("libvirt", "rules", "record", "catalogue"), 1)
PHASES = {"observe": 1.25, "decide": 0.0625, "gate": 0.25, "apply": 0.125, "keep": 0.03125}
NODE = {
    "Age of last pass": figure(120),
    "Age of last good pass": figure(36120),
    "Mode": figure(1),
    "Disks braked": figure(0, 2),
    "Disks unlimited": figure(1, 0),
    "Guests unreachable": figure(0),
    "Age of catalogue": figure(700),
    "Version": lines("version", {"1.2.3": 1}),
    "Alerts that fire on this node": Panel(
        {
            "A": [alert("ChangesFail", 2, 7), alert("DisksUnlimited", 2, 7)],
            "B": [alert("ChangesFail", SINCE_ALWAYS, 7), alert("DisksUnlimited", SINCE_ALWAYS, 7)],
        },
        {"A": [], "B": []},
    ),
    "Revision of the rules": lines("revision", {"a" * 16: 1}),
    "Holds": figure(0),
    "Duration of a pass, by phase": lines("phase", PHASES),
    "Age of last pass over time": Panel({"A": [s(120)], "B": [s(36120)]}),
    "Passes in 1 h, by result": Panel(
        {"A": [s(0, result="good"), s(12, result="partial"), s(0, result="failed")], "B": [s(0)]}
    ),
    "Sources": lines("source", SOURCES),
    "Age of catalogue over time": Panel({"A": [s(700)], "B": [s(7200)]}),
    "Catalogue refreshes in 1 h": Panel(
        {"A": [s(4, result="good"), s(0, result="failed")], "B": [s(40, service="cinder")]},
        {"A": [s(0, result="good"), s(0, result="failed")], "B": []},
    ),
    "Disks by use of their limits (average between passes)": Panel(
        {
            "A": [of(7, 0.307, target_device="vdb"), of(7, 0.107, target_device="vda")],
            "B": [of(7, 150, target_device="vdb"), of(7, 150, target_device="vda")],
            "C": [of(7, 1.5e6, target_device="vdb"), of(7, 1.5e6, target_device="vda")],
        },
        {
            "A": [of(1, 0.301, target_device="vdb")],
            "B": [of(1, 150, target_device="vdb")],
            "C": [of(1, 1.5e6, target_device="vdb")],
        },
    ),
    "Disks at limit, by volume type": Panel({"A": by_type(0, gold=0)}, {"A": [s(0, volume_type="gold")]}),
    "Ten busiest disks (average between passes)": Panel(
        {"A": [of(7, 0.307, target_device="vdb"), of(7, 0.107, target_device="vda")]},
        {"A": [of(1, 0.301, target_device="vdb")]},
    ),
    "Operations per second, by volume type (average between passes)": Panel(
        {
            "A": [
                s(value, volume_type=name, direction=direction)
                for name in ("gold", "no type")
                for direction, value in (("read", 100), ("write", 50))
            ]
        },
        {"A": [s(100, volume_type="gold", direction="read"), s(50, volume_type="gold", direction="write")]},
    ),
    "Bytes per second, by volume type (average between passes)": Panel(
        {
            "A": [
                s(value, volume_type=name, direction=direction)
                for name in ("gold", "no type")
                for direction, value in (("read", 1e6), ("write", 5e5))
            ]
        },
        {"A": [s(1e6, volume_type="gold", direction="read"), s(5e5, volume_type="gold", direction="write")]},
    ),
    "Disks unlimited, one by one": Panel(
        {
            "A": [of(7, 1, target_device="vda", state="failed", reason="rejected")],
            "B": [of(7, 250, target_device="vda")],
            "C": [of(7, 1e7, target_device="vda")],
        },
        {"A": [], "B": [], "C": []},
    ),
    "Disks by state": lines(
        "state",
        NONE_SO | {"in-sync": 1, "deferred": 0, "planned": 0, "failed": 1},
        NONE_SO | {"in-sync": 0, "deferred": 1, "planned": 0, "failed": 0},
    ),
    "External changes reverted in 1 h, by volume type": Panel(
        {"A": by_type(0, gold=0)}, {"A": [s(0, volume_type="gold")]}
    ),
    "Verdicts of probes": Panel(
        {"A": [of(7, 0, directory=DIRECTORY, probe="read"), of(7, 2, directory=DIRECTORY, probe="write")]}, IDLE
    ),
    "Probe runs in 24 h, by verdict": lines("verdict", RUNS | {"kept": 6, "short": 2, "slow": 0}, {}),
    "p99 latency, this node and the median node": Panel(
        {name: [s(value, volume_type="gold")] for name, value in (("A", MS_40), ("B", MS_40), ("C", 0.25))},
        {"A": [], "B": [], "C": []},
    ),
    "Promise kept, by volume type": Panel({"A": [s(6 / 8, volume_type="gold")]}, IDLE),
    "Age of probe metrics": Panel({"A": [s(0)]}, IDLE),
    "Latency of probe requests": Panel({"A": [s(15060, le="0.050331648"), s(15060, le="+Inf")]}, IDLE, part=True),
}
IOPS_, BYTES_ = "total_iops_sec", "total_bytes_sec"
PROBED = [("read", KEPT), ("write", 0.38)]
DISK = {
    "The disk": Panel(
        {"A": [of(7, 1, target_device="vdb", volume_type="gold", pool="volumes")]},
        {"A": [of(15, 1, target_device="vdb", volume_type="gold", pool="volumes")]},
    ),
    "Unlimited": figure(0),
    "External changes reverted, last day": figure(0, 24),
    "Limits on operations, actual and desired": Panel({name: [s(500, parameter=IOPS_)] for name in "AB"}),
    "Limits on bytes, actual and desired": Panel({name: [s(2e7, parameter=BYTES_)] for name in "AB"}),
    "Every parameter": Panel({name: [s(500, parameter=IOPS_), s(2e7, parameter=BYTES_)] for name in "AB"}),
    "State": lines("target_device", {"vdb": 0}),
    "Hold ends in": Panel(IDLE, {"A": [s(6 * 3600)]}),
    "External changes reverted in 1 h": figure(0, 1),
    "Operations and what limits allow (average between passes)": Panel(
        {"A": [s(100, direction="read"), s(50, direction="write")], "B": [s(600, parameter=IOPS_)]}
    ),
    "Bytes and what limits allow (average between passes)": Panel(
        {"A": [s(1e6, direction="read"), s(5e5, direction="write")], "B": [s(2e7, parameter=BYTES_)]}
    ),
    "Share of each limit used (average between passes)": lines("parameter", {IOPS_: 0.307}, {IOPS_: 0.315}),
    "Saved of each burst": lines("parameter", {IOPS_: 0.25}, {}),
    "Verdicts of probes": lines("probe", {"read": 0, "write": 2}, {}),
    "IOPS of newest probe": lines("probe", {"read": 251, "write": 251}, {}),
    "Share of limits reached by newest probe": lines("probe", dict(PROBED), {}),
    "Latency percentiles": Panel(
        {name: [s(MS_40)] for name in "ABC"}
        | {"D": [s(0.1, objective="0.5"), s(0.25, objective="0.99"), s(0.5, objective="0.999")]},
        {name: [] for name in "ABCD"},
    ),
    "Age of newest run": Panel(
        {"A": [s(60, probe="read"), s(60, probe="write")], "B": [s(6 * 3600, directory=DIRECTORY)]},
        {"A": [], "B": []},
    ),
    "Latency of probe requests": Panel({"A": [s(15060, le="0.050331648"), s(15060, le="+Inf")]}, IDLE, part=True),
}
EXPECTED = {"plimsoll-region": REGION, "plimsoll-node": NODE, "plimsoll-disk": DISK}
OF_REGION = 9
"""Alerts that are about no node."""
OF_NO_REGION = 1
"""Of a file system: Ceph's manager knows no region."""
MARKS = {
    ("plimsoll-region", "all"): 17 + OF_NO_REGION,
    ("plimsoll-region", "one"): 17,
    ("plimsoll-node", "all"): OF_REGION + OF_NO_REGION + 2,
    ("plimsoll-node", "one"): OF_REGION,
    ("plimsoll-disk", "all"): OF_REGION + OF_NO_REGION + 2,
    ("plimsoll-disk", "one"): OF_REGION + 1,
}
CHOICES: dict[str, set[str]] = {
    "region": {"north", "south"},
    "volume_type": {"gold", "standard"},
    "instance": {instance(node) for node in THERE},
    "domain": {guest(node) for node in THERE},
}


def panels(uid: str) -> list[dict[str, Any]]:
    return list(panels_of(DASHBOARDS[uid]))


def query(view: tuple[str, str], promql: str) -> str:
    """In a line, as it is told again in the answer."""
    return " ".join(filled(DASHBOARDS[view[0]], promql, VIEWS[view]).split())


def marks(view: tuple[str, str]) -> str:
    (note,) = DASHBOARDS[view[0]]["annotations"]["list"]
    return query(view, note["expr"])


def choices(uid: str) -> dict[str, str]:
    """The query of each variable, as it is when the dashboard opens."""
    found = {}
    for variable in DASHBOARDS[uid]["templating"]["list"]:
        if variable["type"] == "query":
            selector, label = asked_of(variable, {"region": ".*", "volume": ".*"} | VIEWS[uid, "all"])
            found[variable["name"]] = f"count by ({label}) ({selector})"
    return found


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(rules_text(SITE), alerts_text(SITE), tmp_path_factory.mktemp("region")) as there:
        yield there


@pytest.mark.parametrize("uid", DASHBOARDS)
def test_every_panel_has_an_expectation(uid: str) -> None:
    assert {panel["title"]: [each["refId"] for each in panel["targets"]] for panel in panels(uid)} == {
        title: sorted(panel.all) for title, panel in EXPECTED[uid].items()
    }


CASES = [(view, panel["title"]) for view in VIEWS for panel in panels(view[0])]


@pytest.mark.parametrize(("view", "title"), CASES, ids=[f"{view[0]}-{view[1]}-{title}" for view, title in CASES])
def test_a_panel_shows_what_its_title_says(view: tuple[str, str], title: str, prometheus: Served) -> None:
    uid, which = view
    (panel,) = [each for each in panels(uid) if each["title"] == title]
    expected = EXPECTED[uid][title]
    for target in panel["targets"]:
        ref = target["refId"]
        wanted = expected.all[ref] if which == "all" else expected.of_one(ref, uid == "plimsoll-region")
        ask = prometheus.over_a_day if target.get("range") else prometheus.at_the_end
        matches(ask(query(view, target["expr"])), wanted, expected.part, f"{title}, {ref}")


def test_where_there_are_no_metrics_no_figure_is_zero(prometheus: Served) -> None:
    """It would be green: a wrong selector, rules that are not loaded, an exporter that is gone from all nodes."""
    uid = "plimsoll-region"
    figures = [panel for panel in panels(uid) if panel["type"] == "stat"]
    values = {
        panel["title"]: prometheus.at_the_end(filled(DASHBOARDS[uid], target["expr"], {"region": "nowhere"}))
        for panel in figures
        for target in panel["targets"]
    }
    assert "Alerts, critical" in values
    assert [title for title, answer in values.items() if any(value == 0 for _, value in answer)] == []


def matches(answer: Answer, wanted: list[Series], part: bool, where: str) -> None:
    """Each series is one of those that are wanted, and each of them is there once."""
    left = list(answer)
    for value, labels in wanted:
        found = [each for each in left if labels.items() <= each[0].items()]
        assert len(found) == 1 if labels or not part else found, f"{where}: {labels} in {left}"
        got = found[0][1]
        same = got == value if isinstance(value, Between) else got == pytest.approx(value, abs=1e-6)
        assert same, f"{where}: {labels} is {got}, not {value}"
        left.remove(found[0])
    assert part or left == [], where


@pytest.mark.parametrize("view", VIEWS, ids="-".join)
def test_graphs_have_the_marks_of_their_alerts(view: tuple[str, str], prometheus: Served) -> None:
    found = prometheus.over_a_day(marks(view))
    assert len(found) == MARKS[view], found
    assert {labels["component"] for labels, _ in found} == {"plimsoll"}


@pytest.mark.parametrize("uid", DASHBOARDS)
def test_variables_offer_what_there_is(uid: str, prometheus: Served) -> None:
    for name, expr in choices(uid).items():
        offered = {value for labels, _ in prometheus.at_the_end(expr) for value in labels.values()}
        known = {"gold"} if (uid, name) == ("plimsoll-node", "volume_type") else CHOICES.get(name)
        assert offered == known if known else len(offered) >= 1, name


@pytest.mark.parametrize("uid", DASHBOARDS)
def test_a_graph_over_time_chooses_its_lines_once(uid: str) -> None:
    """``topk`` chooses anew at each point of a graph, so that it may draw hundreds of lines."""
    for panel in panels(uid):
        for target in panel["targets"]:
            if "topk" in target["expr"] and target.get("range"):
                assert "@ end()" in target["expr"], panel["title"]
