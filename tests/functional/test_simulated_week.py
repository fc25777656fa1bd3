"""A simulated week: in a healthy region nothing fires; each fault fires what its runbook says, once, and it ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from plimsoll_monitoring.alerts import files
from plimsoll_monitoring.alerts.site import Override, Site
from tests.week import (
    DAY,
    END,
    EVERY,
    GUEST,
    HOUR,
    STEP,
    At,
    Fired,
    Labels,
    Node,
    ago,
    fired,
    firing_after,
    healthy,
    probed,
    stopped,
    verdict_is,
)

GOLDEN = Path(__file__).parents[1] / "unit/data/alerts.txt"
BEGIN = 2 * DAY
"""The step at which each fault begins."""
SITE = Site(compute_nodes='job="node"', promised_ratio=4, burst_left=0.1)
Nodes = list[Node]


@dataclass(frozen=True)
class Fault:
    """What happens in a region of its own, and which alerts fire for it: name, severity, and some of the labels."""

    happens: Callable[[Nodes], None]
    hours: float
    """How long it lasts."""
    fires: tuple[tuple[str, str, dict[str, str]], ...] = ()
    nodes: int = 2
    first: float = 0
    """Hours from its begin to when it is to be seen, for what has to last before it is a fault."""
    after: float = 0.5
    """Hours from its end within which nothing fires any more."""

    @property
    def end(self) -> int:
        return BEGIN + round(self.hours * HOUR)


FAULTS: dict[str, Fault] = {}


def fault(
    *fires: tuple[str, str, dict[str, str]], hours: float = 3, nodes: int = 2, first: float = 0, after: float = 0.5
) -> Callable[[Callable[[Nodes, int, int], None]], None]:
    """The decorated function changes healthy nodes from one step to another."""

    def known(happens: Callable[[Nodes, int, int], None]) -> None:
        end = BEGIN + round(hours * HOUR)
        FAULTS[happens.__name__.strip("_")] = Fault(
            lambda there: happens(there, BEGIN, end), hours, fires, nodes, first, after
        )

    return known


NODE = {"instance": "node1:9100"}


def passes_end(node: Node, begin: int, end: int) -> None:
    for name in ("last", "last_good", "observed"):
        node.is_(f"plimsoll_pass_{name}_timestamp_seconds", stopped(begin), begin, end)


@fault(("PlimsollPassOverdue", "warning", NODE))
def timer_stopped(there: Nodes, begin: int, end: int) -> None:
    passes_end(there[1], begin, end)


@fault(
    ("PlimsollPassOverdue", "warning", NODE), ("PlimsollPassOverdue", "critical", NODE), hours=60, nodes=3, first=0.5
)
def passes_ended_while_much_was_wrong(there: Nodes, begin: int, end: int) -> None:
    """What its last pass found is served for days; nobody can know whether it is still so."""
    passes_end(there[1], begin, end)
    node = there[1]
    node.is_("plimsoll_pass_braked_disks", lambda step: None, begin, end, revision="")
    node.is_("plimsoll_pass_braked_disks", 5, begin, end, revision="bbbbbbbbbbbbbbbb")
    node.is_("plimsoll_catalogue_issued_timestamp_seconds", lambda _: begin * STEP - 90_000, begin, end)
    node.is_("plimsoll_health_gate_shut", 1, begin, end, cluster="c1")
    node.is_("plimsoll_pass_duration_seconds", 280, begin, end, phase="observe")
    node.is_("plimsoll_guests", 2, begin, end, state="unreachable")
    node.is_("plimsoll_source_up", 0, begin, end, source="rules")
    for state in ("deferred", "failed"):
        node.is_("plimsoll_disks", 3, begin, end, volume_type="gold", state=state)
    for what in ("unlimited", "unknown"):
        node.is_(f"plimsoll_disks_{what}", 3, begin, end, volume_type="gold")


@fault(("PlimsollPassOverdue", "warning", NODE), ("PlimsollPassOverdue", "critical", NODE), hours=80, first=0.5)
def passes_ended_while_paused_in_observe_mode(there: Nodes, begin: int, end: int) -> None:
    passes_end(there[1], begin, end)
    there[1].is_("plimsoll_pass_paused", 1, begin, end)
    there[1].is_("plimsoll_pass_enforcing", 0, begin, end)


@fault(("PlimsollTextfileStale", "warning", {**NODE, "file": "plimsoll-pass.prom"}), hours=2.5)
def retired_node(there: Nodes, begin: int, end: int) -> None:
    there[1].gone(begin, but="^(node_|up)")
    there[1].is_("up", lambda step: None, begin)  # no compute node any more


@fault(("PlimsollTextfileStale", "warning", {**NODE, "file": "plimsoll-pass.prom"}), hours=20)
def textfile_refused(there: Nodes, begin: int, end: int) -> None:
    there[1].gone(begin, end)
    there[1].is_("node_textfile_scrape_error", 1, begin, end)


def with_daemon(node: Node) -> Node:
    node.is_("plimsoll_daemon_heartbeat_timestamp_seconds", ago(15))
    node.is_("plimsoll_daemon_connected", 1)
    node.is_("plimsoll_daemon_last_reload_successful", 1)
    return node


@fault(("PlimsollDaemonDown", "warning", NODE))
def daemon_killed(there: Nodes, begin: int, end: int) -> None:
    """What it told before stays."""
    with_daemon(there[0])
    node = with_daemon(there[1])
    node.is_("plimsoll_daemon_heartbeat_timestamp_seconds", stopped(begin), begin, end)
    node.is_("plimsoll_daemon_last_reload_successful", 0, begin, end)


@fault(("PlimsollDaemonDown", "warning", NODE))
def daemon_without_events(there: Nodes, begin: int, end: int) -> None:
    with_daemon(there[1]).is_("plimsoll_daemon_connected", 0, begin, end)


@fault(("PlimsollDaemonNotReloaded", "warning", NODE))
def daemon_with_earlier_settings(there: Nodes, begin: int, end: int) -> None:
    with_daemon(there[1]).is_("plimsoll_daemon_last_reload_successful", 0, begin, end)


def starts(node: Node, begin: int, times: int) -> None:
    """Once at each of so many steps."""
    with_daemon(node).is_("plimsoll_daemon_start_timestamp_seconds", DAY * STEP)
    for step in range(begin, begin + times):
        node.is_("plimsoll_daemon_start_timestamp_seconds", step * STEP - 600, step)


@fault(("PlimsollDaemonRestarts", "warning", NODE), hours=5, first=2, after=1.5)
def daemon_that_crashes_again_and_again(there: Nodes, begin: int, end: int) -> None:
    starts(there[0], begin, 1)
    starts(there[1], begin, end - begin)


@fault(hours=5)
def daemon_restarted_four_times(there: Nodes, begin: int, end: int) -> None:
    starts(there[1], begin, 4)


@fault()
def daemon_stopped_for_good(there: Nodes, begin: int, end: int) -> None:
    with_daemon(there[1]).gone(begin, but="^(?!plimsoll_daemon_)")


@fault()
def manual_probe(there: Nodes, begin: int, end: int) -> None:
    node = probed(there[1])
    node.gone(0, begin, "^(?!plimsoll_probe)")
    for metric in ("interval_seconds", "chosen_timestamp_seconds"):
        node.is_(f"plimsoll_probe_{metric}", lambda step: None, **GUEST)
    node.is_("plimsoll_probe_round_timestamp_seconds", lambda step: None)
    node.is_("plimsoll_probe_written_timestamp_seconds", begin * STEP, begin)
    for job in ("read", "write", "mixed"):
        node.is_("plimsoll_probe_last_timestamp_seconds", begin * STEP, begin, probe=job, **GUEST)
    verdict_is(node, "short", begin)


@fault(("PlimsollTextfileStale", "warning", {**NODE, "file": "plimsoll-probe.prom"}), hours=24)
def probes_switched_off(there: Nodes, begin: int, end: int) -> None:
    node = probed(there[1])
    for metric in ("round", "written"):
        node.is_(f"plimsoll_probe_{metric}_timestamp_seconds", stopped(begin), begin)
    for job in ("read", "write", "mixed"):
        node.is_("plimsoll_probe_last_timestamp_seconds", stopped(begin), begin, probe=job, **GUEST)


@fault(hours=6)
def canary_broken_by_one_blip(there: Nodes, begin: int, end: int) -> None:
    verdict_is(probed(there[1]), "short", begin, end)


@fault(("PlimsollPromiseBroken", "warning", {"volume_type": "gold"}), hours=18, first=6)
def one_guest_short_again(there: Nodes, begin: int, end: int) -> None:
    for number, node in enumerate(there):
        probed(node, number)
    verdict_is(there[1], "short", begin, end, again=begin + 6 * HOUR)


@fault(("PlimsollPromiseBroken", "critical", {"volume_type": "gold"}), hours=12, nodes=6)
def promise_broken(there: Nodes, begin: int, end: int) -> None:
    for number, node in enumerate(there):
        probed(node, number)
    for node in there[:4]:
        verdict_is(node, "short", begin, end, again=begin + 6 * HOUR)


@fault(("PlimsollPromiseBroken", "critical", {"volume_type": "gold"}), hours=12, nodes=12)
def promise_broken_of_few_in_many(there: Nodes, begin: int, end: int) -> None:
    for node in there:
        node.is_("plimsoll_probe_written_timestamp_seconds", ago(100))
        node.is_("plimsoll_probe_targets", 50, verdict="kept", volume_type="gold")
        node.is_("plimsoll_probe_targets", 0, verdict="slow", volume_type="gold")
        node.is_("plimsoll_probe_targets_broken_again", 0, volume_type="gold")
    for node in there:  # one of fifty on each
        node.is_("plimsoll_probe_targets", 1, begin, end, verdict="slow", volume_type="gold")


@fault(("PlimsollOverLimit", "warning", {"volume_type": "gold"}), hours=6)
def over_limit(there: Nodes, begin: int, end: int) -> None:
    verdict_is(probed(there[1]), "over-limit", begin, end)


@fault(("PlimsollProbesLate", "warning", {**NODE, "uuid": "u1"}), hours=24, first=13)
def one_guest_not_probed(there: Nodes, begin: int, end: int) -> None:
    node = probed(there[1])
    for job in ("read", "write", "mixed"):
        node.is_("plimsoll_probe_last_timestamp_seconds", stopped(begin), begin, end, probe=job, **GUEST)


@fault(("PlimsollProbesOff", "warning", NODE), hours=6, first=2)
def guests_to_probe_and_nothing_probes_them(there: Nodes, begin: int, end: int) -> None:
    for node in there:
        node.is_("plimsoll_pass_guests_to_probe", 2, begin, end)
    probed(there[0])


@fault(("PlimsollProbesFail", "warning", NODE), hours=60, first=24, after=7)
def probes_fail(there: Nodes, begin: int, end: int) -> None:
    node = probed(there[1], sums=True)

    def failed(step: int) -> float:
        return (min(step, end - 1) - begin) // (6 * HOUR) + 1

    own = {"domain": GUEST["domain"], "uuid": GUEST["uuid"], "volume_type": "gold"}
    for job in ("read", "write", "mixed"):
        node.is_("plimsoll_probe_runs_total", failed, begin, probe=job, verdict="failed", **own)
        node.still("plimsoll_probe_runs_total", begin, end, probe=job, verdict="kept", **own)
    verdict_is(node, "failed", begin, end)


@fault(
    ("PlimsollLatencyBudgetBurning", "critical", {"window": "6h"}),
    ("PlimsollLatencyBudgetBurning", "warning", {"window": "3d"}),
    hours=24,
    first=1,
    after=54,
)
def latency_budget_burns(there: Nodes, begin: int, end: int) -> None:
    objective = {"objective": "0.99", "volume_type": "gold"}
    for node in there:
        node.is_("plimsoll_probe_objective_budget_ratio", 0.01, **objective)
        node.is_("plimsoll_probe_objective_requests_total", lambda step: 10_000.0 * step, **objective)
        node.is_("plimsoll_probe_objective_missed_total", 0, **objective)
        rise = lambda step: 1000.0 * (min(step, end) - begin)  # noqa: E731
        node.is_("plimsoll_probe_objective_missed_total", rise, begin, **objective)


@fault(("PlimsollVersionSkew", "info", {}), hours=90, first=72, nodes=3)
def version_skew(there: Nodes, begin: int, end: int) -> None:
    for node in there[:1]:
        node.is_("plimsoll_build_info", lambda step: None, begin, end, version="1.0.0")
        node.is_("plimsoll_build_info", 1, begin, end, version="1.1.0")


@fault(hours=60, nodes=3)
def rollout_over_two_days(there: Nodes, begin: int, end: int) -> None:
    for number, node in enumerate(there):
        at = begin + number * 10 * HOUR
        node.is_("plimsoll_build_info", lambda step: None, at, version="1.0.0")
        node.is_("plimsoll_build_info", 1, at, version="1.1.0")


@fault(("PlimsollModeSkew", "info", {}), hours=90, first=72, nodes=3)
def mode_skew(there: Nodes, begin: int, end: int) -> None:
    for node in there[:2]:
        node.is_("plimsoll_pass_enforcing", 0, begin, end)


@fault(hours=24)
def region_in_observe_mode(there: Nodes, begin: int, end: int) -> None:
    for node in there:
        node.is_("plimsoll_pass_enforcing", 0)
        node.is_("plimsoll_disks_unlimited", 12, volume_type="gold")
        node.is_("plimsoll_disks", 12, volume_type="gold", state="planned")
        node.is_("plimsoll_pass_braked_disks", 12, revision="cccc")


@fault(("PlimsollMissing", "info", {}), hours=72, first=24)
def node_without_plimsoll(there: Nodes, begin: int, end: int) -> None:
    there[1].gone(0, end)
    there[1].is_("up", lambda step: None, 0, begin)


@fault(("PlimsollBraked", "warning", {"revision": "bbbbbbbbbbbbbbbb"}), nodes=41)
def brake_on_40_nodes(there: Nodes, begin: int, end: int) -> None:
    """And on one in mode observe, which is no fault: its disks are not counted."""
    there[40].is_("plimsoll_pass_enforcing", 0, begin, end)
    there[40].is_("plimsoll_pass_braked_disks", 4000, begin, end, revision="bbbbbbbbbbbbbbbb")
    for node in there[:40]:
        node.is_("plimsoll_pass_braked_disks", lambda step: None, begin, end, revision="")
        node.is_("plimsoll_pass_braked_disks", 5, begin, end, revision="bbbbbbbbbbbbbbbb")
        node.is_("plimsoll_pass_last_good_timestamp_seconds", stopped(begin), begin, end)
        node.is_("plimsoll_disks", 5, begin, end, volume_type="gold", state="deferred")


@fault(("PlimsollRegionBraked", "warning", {}))
def brake_of_the_region(there: Nodes, begin: int, end: int) -> None:
    there[0].is_("plimsoll_region_braked", lambda step: begin <= step < end)


@fault(("PlimsollStageStopped", "warning", {"approval": "cccccccccccccccc"}))
def stage_that_is_stopped(there: Nodes, begin: int, end: int) -> None:
    for condition, known in (("at-limit", "true"), ("health", "false")):
        there[0].is_(
            "plimsoll_region_stage_stopped",
            lambda step: 1 if begin <= step < end else None,
            approval="cccccccccccccccc",
            condition=condition,
            known=known,
        )


@fault(
    ("PlimsollCatalogueStale", "warning", {}),
    ("PlimsollCatalogueStale", "critical", {}),
    hours=30,
    first=2,
    nodes=10,
)
def catalogue_of_the_region_stale(there: Nodes, begin: int, end: int) -> None:
    for node in there:
        node.is_("plimsoll_catalogue_issued_timestamp_seconds", stopped(begin, 700), begin, end)
        node.is_("plimsoll_disks_unknown", 2, begin, end, volume_type="gold")


@fault(("PlimsollCatalogueStale", "warning", {}))
def catalogue_of_a_node_missing(there: Nodes, begin: int, end: int) -> None:
    there[1].is_("plimsoll_source_up", 0, begin, end, source="catalogue")
    there[1].is_("plimsoll_catalogue_issued_timestamp_seconds", lambda step: None, begin, end)


@fault(("PlimsollDisksUnknown", "warning", {}), hours=6, first=3)
def disks_unknown_on_many_nodes(there: Nodes, begin: int, end: int) -> None:
    for node in there:
        node.is_("plimsoll_disks_unknown", 1, begin, end, volume_type="gold")


@fault(("PlimsollGuestsUnreachable", "warning", NODE))
def guests_unreachable(there: Nodes, begin: int, end: int) -> None:
    node = there[1]
    node.is_("plimsoll_guests", 2, begin, end, state="unreachable")
    node.is_("plimsoll_disks", 4, begin, end, volume_type="gold", state="unknown")
    node.is_("plimsoll_disks_unknown", 4, begin, end, volume_type="gold")
    node.is_("plimsoll_pass_last_good_timestamp_seconds", stopped(begin), begin, end)


@fault(("PlimsollDisksUnlimited", "warning", NODE))
def disks_unlimited(there: Nodes, begin: int, end: int) -> None:
    there[1].is_("plimsoll_disks_unlimited", 2, begin, end, volume_type="gold")
    there[1].is_("plimsoll_disks_unlimited", 1, begin, end, volume_type="")


@fault(("PlimsollChangesFail", "warning", NODE))
def changes_fail(there: Nodes, begin: int, end: int) -> None:
    there[1].is_("plimsoll_disks", 1, begin, end, volume_type="gold", state="failed")
    there[1].is_("plimsoll_pass_last_good_timestamp_seconds", stopped(begin), begin, end)


@fault(("PlimsollSourceDown", "warning", {**NODE, "source": "rules"}))
def rules_broken(there: Nodes, begin: int, end: int) -> None:
    there[1].is_("plimsoll_source_up", 0, begin, end, source="rules")
    there[1].is_("plimsoll_pass_last_good_timestamp_seconds", stopped(begin), begin, end)


@fault(("PlimsollSourceDown", "warning", {**NODE, "source": "refresh"}))
def refreshes_fail(there: Nodes, begin: int, end: int) -> None:
    there[1].is_("plimsoll_source_up", 0, begin, end, source="refresh")


@fault(("PlimsollSourceDown", "warning", {**NODE, "source": "libvirt"}))
def libvirt_down(there: Nodes, begin: int, end: int) -> None:
    node = there[1]
    node.is_("plimsoll_source_up", 0, begin, end, source="libvirt")
    for source in ("rules", "record", "writes", "disks", "catalogue", "refresh"):
        node.is_("plimsoll_source_up", lambda step: None, begin, end, source=source)
    for name in ("last_good", "observed"):
        node.is_(f"plimsoll_pass_{name}_timestamp_seconds", stopped(begin), begin, end)
    for phase in ("observe", "apply"):
        node.is_("plimsoll_pass_duration_seconds", lambda step: None, begin, end, phase=phase)


@fault(("PlimsollSourceDown", "warning", {**NODE, "source": "disks"}))
def no_rbd_disk_found(there: Nodes, begin: int, end: int) -> None:
    node = there[1]
    node.is_("plimsoll_source_up", 0, begin, end, source="disks")
    for (metric, labels), values in node.series.items():
        if ("volume_type", "gold") in labels and not metric.endswith("_total"):
            values[begin:end] = [None] * (end - begin)
    node.is_("plimsoll_pass_last_good_timestamp_seconds", stopped(begin), begin, end)


@fault(("PlimsollSourceDown", "warning", {**NODE, "source": "writes"}))
def trial_write_fails(there: Nodes, begin: int, end: int) -> None:
    node = there[1]
    node.is_("plimsoll_source_up", 0, begin, end, source="writes")
    node.is_("plimsoll_disks", 3, begin, end, volume_type="gold", state="failed")
    node.is_("plimsoll_pass_last_good_timestamp_seconds", stopped(begin), begin, end)


@fault(("PlimsollSourceDown", "warning", {**NODE, "source": "record"}))
def state_dir_full(there: Nodes, begin: int, end: int) -> None:
    node = there[1]
    node.is_("plimsoll_source_up", 0, begin, end, source="record")
    node.is_("plimsoll_disks", 3, begin, end, volume_type="gold", state="failed")
    node.is_("plimsoll_pass_last_good_timestamp_seconds", stopped(begin), begin, end)


@fault(("PlimsollExternalChanges", "warning", NODE), hours=8, first=2, after=24)
def cron_script_changes_limits(there: Nodes, begin: int, end: int) -> None:
    hourly = lambda step: (min(step, end) - begin) // HOUR  # noqa: E731
    there[1].is_("plimsoll_external_changes_reverted_total", hourly, begin, volume_type="gold")


@fault(hours=24)
def no_second_writer(there: Nodes, begin: int, end: int) -> None:
    """One command that changes all disks of a node, twice."""
    for volume_type in ("gold", ""):
        rise = lambda step: 40 if step < begin + 3 * HOUR else 80  # noqa: E731
        there[1].is_("plimsoll_external_changes_reverted_total", rise, begin, volume_type=volume_type)


@fault(hours=10)
def guests_start_again_and_again(there: Nodes, begin: int, end: int) -> None:
    """A pass finds a new guest that it cannot limit yet, and the next one can."""
    there[1].is_("plimsoll_disks_unlimited", lambda step: step % 2, begin, end, volume_type="gold")
    there[1].is_("plimsoll_disks", lambda step: step % 2, begin, end, volume_type="gold", state="failed")


@fault(("PlimsollNodeWorseThanRegion", "warning", {**NODE, "volume_type": "gold"}), hours=30, nodes=6, after=30)
def node_slower_than_others(there: Nodes, begin: int, end: int) -> None:
    for node in there:
        probed(node, sums=True)
    latency = {"domain": GUEST["domain"], "uuid": GUEST["uuid"], "volume_type": "gold"}
    for job in ("read", "write", "mixed"):
        labels = {"probe": job, "direction": "write" if job == "write" else "read", **latency}
        for le in ("0.001048576", "0.004194304", "0.033554432"):
            there[1].still("plimsoll_probe_latency_seconds_bucket", begin, end, le=le, **labels)


@fault(("PlimsollPassSlow", "warning", NODE))
def passes_slow(there: Nodes, begin: int, end: int) -> None:
    there[1].is_("plimsoll_pass_duration_seconds", 280, begin, end, phase="observe")


@fault(("PlimsollNoGoodPass", "warning", NODE), hours=5, first=1)
def no_good_pass(there: Nodes, begin: int, end: int) -> None:
    there[1].is_("plimsoll_pass_last_good_timestamp_seconds", stopped(begin), begin, end)


@fault(("PlimsollPaused", "warning", {}), hours=48, first=24)
def forgotten_pause(there: Nodes, begin: int, end: int) -> None:
    for node in there[:2]:
        node.is_("plimsoll_pass_paused", 1, begin, end)
        node.is_("plimsoll_disks_unlimited", 3, begin, end, volume_type="gold")


@fault(hours=60, nodes=3)
def nodes_paused_one_after_another(there: Nodes, begin: int, end: int) -> None:
    for number, node in enumerate(there):
        node.is_("plimsoll_pass_paused", 1, begin + number * 10 * HOUR, begin + (number + 1) * 10 * HOUR)


@fault(("PlimsollHealthGateShut", "warning", {"cluster": "c1"}), hours=12, first=6)
def cluster_unhealthy(there: Nodes, begin: int, end: int) -> None:
    for node in there:
        node.is_("plimsoll_health_gate_shut", 1, begin, end, cluster="c1")
        node.is_("plimsoll_disks", 2, begin, end, volume_type="gold", state="deferred")
        node.is_("plimsoll_pass_last_good_timestamp_seconds", stopped(begin), begin, end)


def forwarding(node: Node, share: float, begin: int, end: int, rate: float = 100) -> None:
    """A rank with so many requests a second."""
    node.is_("ceph_mds_request", lambda step: step * STEP * rate, ceph_daemon="mds.a")
    node.is_("ceph_mds_forward", lambda step: (min(max(step, begin), end) - begin) * STEP * rate * share,
             ceph_daemon="mds.a")  # fmt: skip


@fault(("PlimsollMdsThrashing", "warning", {}), after=1)
def ranks_forward_requests(there: Nodes, begin: int, end: int) -> None:
    forwarding(there[1], 0.12, begin, end)


@fault()
def ranks_forward_few_requests_or_of_few(there: Nodes, begin: int, end: int) -> None:
    forwarding(there[0], 0.5, begin, end, rate=2)
    forwarding(there[1], 0.08, begin, end, rate=7)


C1 = {"cluster": "c1", "device_class": "ssd"}
C2 = {"cluster": "c2", "device_class": "ssd"}


def publishing(
    node: Node,
    last: At = ago(15),  # noqa: B008  # a value
    begin: int = 0,
    of: Labels = C1,
) -> Node:
    """It publishes the factors of a cluster, of which ssd is not congested."""
    node.is_("plimsoll_congestion_published_timestamp_seconds", last, begin)
    node.is_("plimsoll_congestion_factor", 1, begin, **of)
    node.is_("plimsoll_congestion_state", 1, begin, action="full", why="", **of)
    return node


def without_signal(node: Node, why: str, begin: int, end: int) -> None:
    node.is_("plimsoll_congestion_state", lambda _: None, begin, end, action="full", why="", **C1)
    node.is_("plimsoll_congestion_state", 1, begin, end, action="no-signal", why=why, **C1)


@fault(("PlimsollCongestionNoSignal", "warning", {"cluster": "c1", "why": "not-published"}))
def publisher_of_congestion_killed(there: Nodes, begin: int, end: int) -> None:
    """Factors on nodes have expired too, also in another region, which shares the cluster: that is the same fault."""
    publishing(there[0], stopped(begin, 15)).is_(
        "plimsoll_congestion_published_timestamp_seconds", ago(15), begin=end
    )
    for node in there:
        node.is_("plimsoll_source_up", lambda step: not begin <= step < end, source="congestion")
    there[1].is_("plimsoll_source_up", lambda step: not begin <= step < end, source="congestion", region="another")


@fault(hours=12)
def another_machine_publishes_congestion(there: Nodes, begin: int, end: int) -> None:
    """What the first one published last stays in its file, a low x among it."""
    publishing(there[0], stopped(begin, 15)).is_("plimsoll_congestion_factor", 0.5, begin - 2, **C1)
    publishing(there[1], begin=begin)


@fault(("PlimsollCongestionNoSignal", "warning", {"device_class": "ssd", "why": "osds-unknown"}))
def osds_without_latency(there: Nodes, begin: int, end: int) -> None:
    without_signal(publishing(there[0]), "osds-unknown", begin, end)


@fault(("PlimsollCongestionNoSignal", "warning", {"device_class": "ssd", "why": "no-target"}), hours=72, first=46,
       after=1)  # fmt: skip
def class_without_a_target_for_days(there: Nodes, begin: int, end: int) -> None:
    without_signal(publishing(there[0]), "no-target", begin, end)


@fault(hours=30)
def new_class_and_one_without_requests(there: Nodes, begin: int, end: int) -> None:
    without_signal(publishing(there[0]), "no-target", begin, end)
    without_signal(there[0], "no-requests", end, END)


@fault(("PlimsollCongestionStale", "warning", {}))
def a_node_does_not_fetch_congestion(there: Nodes, begin: int, end: int) -> None:
    publishing(there[0])
    for node in there:
        node.is_("plimsoll_source_up", 1, source="congestion")
    there[1].is_("plimsoll_source_up", 0, begin, end, source="congestion")


@fault(("PlimsollCongested", "warning", C1), hours=12, first=6)
def congested_for_hours(there: Nodes, begin: int, end: int) -> None:
    publishing(there[0]).is_("plimsoll_congestion_factor", lambda step: 0.6 + step % 3 / 10, begin, end, **C1)


def futile(node: Node, begin: int, end: int, of: Labels = C1) -> None:
    node.is_("plimsoll_congestion_state", lambda _: None, begin, end, action="full", why="", **of)
    node.is_("plimsoll_congestion_state", 1, begin, end, action="ineffective", why="", **of)


@fault(("PlimsollCongestionIneffective", "warning", C1), hours=1.5, after=1)
def load_of_others(there: Nodes, begin: int, end: int) -> None:
    """On nodes of another region, which shares the cluster."""
    futile(publishing(there[0]), begin, end)
    there[1].is_("plimsoll_disks_reduced", 4, begin - 2, begin, region="another", **C1)
    there[1].is_("plimsoll_disks_reduced", 1, begin, end, region="another", **C1)


@fault()
def load_of_others_where_no_limit_is_written_for_it(there: Nodes, begin: int, end: int) -> None:
    futile(publishing(there[0], of=C2), begin, end, of=C2)


@fault(hours=30)
def congested_again_and_again(there: Nodes, begin: int, end: int) -> None:
    publishing(there[0]).is_("plimsoll_congestion_factor", lambda step: 0.6 if step % 10 else 1, begin, end, **C1)


def a_guest_stalls(node: Node, project: str, begin: int, end: int) -> None:
    """Its console says so until the end; when it last did is served for ever."""
    last = lambda step: min(step, end) * STEP - 200  # noqa: E731
    node.is_("plimsoll_project_stalled_timestamp_seconds", last, begin, project=project)


@fault(("PlimsollGuestsStalled", "warning", {}), nodes=3)
def guests_of_several_projects_stall(there: Nodes, begin: int, end: int) -> None:
    for number, node in enumerate(there):
        a_guest_stalls(node, f"p{number}", begin, end)


@fault(nodes=3)
def guests_of_one_project_stall(there: Nodes, begin: int, end: int) -> None:
    for node in there:
        a_guest_stalls(node, "p1", begin, end)
    a_guest_stalls(there[0], "p2", begin, end)


@fault(hours=24, nodes=3)
def guests_of_several_projects_stall_one_after_another(there: Nodes, begin: int, end: int) -> None:
    for number, node in enumerate(there):
        a_guest_stalls(node, f"p{number}", begin + 7 * number * HOUR, begin + (7 * number + 6) * HOUR)


@fault(("PlimsollOversubscribed", "warning", {"volume_type": "gold", "unit": "IOPS"}), hours=48, first=24)
def more_promised_than_guests_ever_took(there: Nodes, begin: int, end: int) -> None:
    """Two nodes take 1,000 IOPS together; 6,000 are promised instead of 2,000. Bytes are as before."""
    pool = {"cluster": "c1", "pool": "volumes", "volume_type": "gold"}
    there[0].is_("plimsoll_pool_promised_operations_per_second", 5000, begin, end, **pool)


@fault(("PlimsollBurstsSpent", "warning", NODE), hours=3)
def burst_nearly_spent(there: Nodes, begin: int, end: int) -> None:
    for disk, left in (("vda", 0.05), ("vdb", 0.5)):
        labels = {**GUEST, "target_device": disk, "parameter": "total_iops_sec"}
        there[1].is_("plimsoll_disk_burst_saved_ratio", left, begin, end, **labels)


@fault(hours=60)
def node_with_many_promises_that_is_no_more(there: Nodes, begin: int, end: int) -> None:
    """Its file is served on for days. Its guests are elsewhere."""
    pool = {"cluster": "c1", "pool": "volumes", "volume_type": "gold"}
    there[1].is_("plimsoll_pool_promised_operations_per_second", 9000, begin, end, **pool)
    there[1].is_("plimsoll_pass_observed_timestamp_seconds", stopped(begin), begin, end)


@fault(hours=1)
def node_rebooted(there: Nodes, begin: int, end: int) -> None:
    node = probed(there[1])
    node.gone(begin, end, "^$")
    node.is_("node_boot_time_seconds", end * STEP, end)


@fault(hours=9)
def prometheus_down(there: Nodes, begin: int, end: int) -> None:
    """Nodes and probes went on; the counters rose without it."""
    for number, node in enumerate(there):
        probed(node, number, sums=True)
        node.gone(begin, end, "^$")


@fault(hours=1, nodes=3)
def state_directory_lost(there: Nodes, begin: int, end: int) -> None:
    """Counters begin at zero, and the time of the last good pass is unknown until there is one."""
    node = probed(there[1], sums=True)
    for (metric, _), values in node.series.items():
        if metric.endswith("_total") or "_latency_seconds_" in metric:
            values[begin:] = [(value or 0.0) - (values[begin] or 0.0) for value in values[begin:]]
    node.is_("plimsoll_pass_last_good_timestamp_seconds", lambda step: None, begin, end)


@fault(("PlimsollNoGoodPass", "warning", NODE))
def node_that_never_had_a_good_pass(there: Nodes, begin: int, end: int) -> None:
    """And one whose passes are paused, which has an alert of its own after a day."""
    for node in there:
        node.is_("plimsoll_pass_last_good_timestamp_seconds", lambda step: None, begin, end)
    there[0].is_("plimsoll_pass_paused", 1, begin, end)


@fault(hours=48, nodes=3)
def drained_node(there: Nodes, begin: int, end: int) -> None:
    """Without guests there are no volume types, and no clusters."""
    node = there[1]
    for (_, labels), values in node.series.items():
        if {"volume_type", "cluster"} & {name for name, _ in labels}:
            values[begin:end] = [None] * (end - begin)


def a_healthy_region() -> Nodes:
    """Twenty nodes, some with a probed guest; and what happens in a week that is no fault."""
    there = [healthy("healthy", number, *([""] if number % 5 else [])) for number in range(20)]
    for number, node in enumerate(there[:EVERY]):
        probed(node, number, sums=True)
    for number, node in enumerate(there):
        at = 11 + 25 * (number % 10) + number // 10  # two nodes one after another, each ten times
        node.is_("plimsoll_disks_unlimited", 1, at, at + 1, volume_type="gold")
        node.is_("plimsoll_disks", 1, at, at + 1, volume_type="gold", state="failed")
        node.is_("plimsoll_disks_unknown", 1, at + 9, at + 10, volume_type="gold")
        node.is_("plimsoll_guests", 1, at + 20, at + 21, state="unreachable")
        node.is_("plimsoll_external_changes_reverted_total", 1, at + 30, volume_type="gold")
        node.is_("plimsoll_pass_last_good_timestamp_seconds", stopped(at + 40), at + 40, at + 43)
    return there


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Fired], dict[str, str]]:
    nodes = a_healthy_region()
    for name, each in FAULTS.items():
        there = [healthy(name, number) for number in range(each.nodes)]
        each.happens(there)
        nodes += there
    return fired(nodes, files.rules_text(SITE), files.alerts_text(SITE), tmp_path_factory.mktemp("week"))


def test_in_a_healthy_region_nothing_fires_in_a_week(week: tuple[list[Fired], dict[str, str]]) -> None:
    assert [each for each in week[0] if each.labels["region"] == "healthy"] == []


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_fires_what_it_should_once_and_it_ends(name: str, week: tuple[list[Fired], dict[str, str]]) -> None:
    there = FAULTS[name]
    found = [each for each in week[0] if each.labels["region"] == name]
    assert sorted((each.labels["alertname"], each.labels["severity"]) for each in found) == sorted(
        (alert, severity) for alert, severity, _ in there.fires
    )
    for each in found:
        (labels,) = (
            labels
            for alert, severity, labels in there.fires
            if (alert, severity) == (each.labels["alertname"], each.labels["severity"])
        )
        assert labels.items() <= each.labels.items()
        assert each.labels["component"] == "plimsoll"
        assert each.once, f"{each.steps} steps from {each.first} to {each.last}"
        assert BEGIN + there.first * HOUR <= each.first <= there.end
        assert each.last <= there.end + there.after * HOUR


def test_every_alert_is_seen_firing(week: tuple[list[Fired], dict[str, str]]) -> None:
    seen = {(each.labels["alertname"], each.labels["severity"]) for each in week[0]}
    assert seen == {(alert.name, alert.severity) for alert in files.alerts_of(SITE)}


def test_what_is_said_of_them_is_the_golden_text(week: tuple[list[Fired], dict[str, str]]) -> None:
    said = "".join(f"{name}\n{text}\n\n" for name, text in sorted(week[1].items()))
    assert said == GOLDEN.read_text(), "look at each line that differs, then copy it there"


LATE = ("PlimsollDisksUnlimited", "PlimsollGuestsUnreachable", "PlimsollPassSlow")
BETWEEN = {
    "5": LATE,
    "12": LATE,
    "17": LATE,
    "20": LATE,
    "24": LATE,
    "26": LATE,
    "45": ("PlimsollPassOverdue",),
    "1000": ("PlimsollPassOverdue", "PlimsollPassOverdue"),
}
"""Minutes between the ends of passes that find always the same, and what fires at the fifth hour."""


@pytest.mark.parametrize("hold", ["", "30m"], ids=["as shipped", "held for longer"])
def test_a_node_whose_passes_are_late_is_never_without_an_alert(tmp_path: Path, hold: str) -> None:
    minute, nodes = 60, []
    for minutes in BETWEEN:
        node = Node(minutes, "node1:9100")
        last = lambda step, between=int(minutes): step // between * between * minute  # noqa: E731
        node.is_("plimsoll_pass_last_timestamp_seconds", last)
        node.is_("plimsoll_pass_enforcing", 1)
        node.is_("plimsoll_pass_paused", 0)
        node.is_("plimsoll_pass_duration_seconds", 290, phase="observe")
        node.is_("plimsoll_disks_unlimited", 3, volume_type="gold")
        node.is_("plimsoll_guests", 2, state="unreachable")
        nodes.append(node)
    site = Site(alerts={"PlimsollPassOverdue": Override(hold=hold or None)})
    found = firing_after(5, nodes, files.rules_text(site), files.alerts_text(site), tmp_path, step=minute)
    names = {each: tuple(sorted(its["alertname"] for its in found if its["region"] == each)) for each in BETWEEN}
    assert names == (BETWEEN if not hold else BETWEEN | {"45": LATE})
