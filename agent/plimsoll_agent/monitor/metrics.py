"""The metrics that plimsoll writes, and the names of what its rules record.

Queries are made of these: a name that is not here would find nothing. A constant has the metric's own name, without
the prefix; where a family has one metric a unit, it is a mapping by the unit.
"""

from __future__ import annotations


class Metric(str):
    """A name, with the help text and the labels of its family."""

    __slots__ = ("documentation", "labels")
    documentation: str
    labels: tuple[str, ...]

    def __new__(cls, name: str, documentation: str, *labels: str) -> Metric:
        metric = super().__new__(cls, name)
        metric.documentation, metric.labels = documentation, labels
        return metric

    def by(self, *labels: str) -> Metric:
        """With other labels."""
        return Metric(self, self.documentation, *labels)

    def part(self, name: str, *labels: str) -> Metric:
        """One of the series that make up a histogram: they share its help text."""
        return Metric(f"{self}_{name}", "", *self.labels, *labels)


# As the libvirt exporters name them, so that the series join.
DISK = ("domain", "target_device", "uuid")
POOL = ("cluster", "pool", "volume_type")
TARGET = ("domain", "uuid", "directory")
PROBE = (*TARGET, "probe")
UNITS = {"operations": "requests", "bytes": "bytes"}
"""The units of rates, and what is counted in them."""
_LIMIT_UNITS = {
    **{f"{unit}_per_second": f"{words} per second" for unit, words in UNITS.items()},
    "seconds": "seconds of a burst",
    "bytes": "bytes of a request that counts as one",
}


def _rates(name: str, about: str, *labels: str) -> dict[str, Metric]:
    """``about`` with the unit in place of ``{}``."""
    texts = {unit: about.format(f"{words} per second") for unit, words in UNITS.items()}
    return {
        unit: Metric(f"plimsoll_{name}_{unit}_per_second", text[0].upper() + text[1:], *labels)
        for unit, text in texts.items()
    }


def _limits(name: str, about: str) -> dict[str, Metric]:
    return {
        unit: Metric(
            f"plimsoll_disk_limit_{name}_{unit}", f"{about}, in {words}; only those that are set", *DISK, "parameter"
        )
        for unit, words in _LIMIT_UNITS.items()
    }


# --- passes, sources and rules

BUILD_INFO = Metric("plimsoll_build_info", "plimsoll on this node: always 1", "version")
PASS_LAST_TIMESTAMP_SECONDS = Metric("plimsoll_pass_last_timestamp_seconds", "When the last pass ended, good or not")
PASS_LAST_GOOD_TIMESTAMP_SECONDS = Metric(
    "plimsoll_pass_last_good_timestamp_seconds", "When the last pass ended that left nothing undone"
)
PASS_OBSERVED_TIMESTAMP_SECONDS = Metric(
    "plimsoll_pass_observed_timestamp_seconds",
    "When the disks were last observed; metrics of guests, disks and limits are from then",
)
PASS_DURATION_SECONDS = Metric("plimsoll_pass_duration_seconds", "Duration of each phase of the last pass", "phase")
PASS_INTERVAL_SECONDS = Metric(
    "plimsoll_pass_interval_seconds",
    "Time between the last two readings of the disks' counters; averages are over this time",
)
PASSES_TOTAL = Metric("plimsoll_passes_total", "Passes by result", "result")
PASS_LOCK_BUSY_TOTAL = Metric("plimsoll_pass_lock_busy_total", "Passes skipped because another one was running")
PASS_ENFORCING = Metric("plimsoll_pass_enforcing", "1 if the last pass was in mode enforce, else 0")
PASS_PAUSED = Metric("plimsoll_pass_paused", "1 while a pause file stops all writes, else 0")
PASS_BRAKED_DISKS = Metric(
    "plimsoll_pass_braked_disks",
    "Disks whose change is deferred until plimsoll approve, by the revision that needs it",
    "revision",
)
PASS_GUESTS_TO_PROBE = Metric("plimsoll_pass_guests_to_probe", "Guests that a rule with probe chooses")
RULES_INFO = Metric("plimsoll_rules_info", "Revision of the rules of the last pass: always 1", "revision")
HOLDS = Metric("plimsoll_holds", "Exceptions made by operators (plimsoll disk hold)")
SOURCE_UP = Metric("plimsoll_source_up", "1 if the source was up in the last pass, else 0", "source")
CATALOGUE_ISSUED_TIMESTAMP_SECONDS = Metric(
    "plimsoll_catalogue_issued_timestamp_seconds",
    "When the catalogue that the last pass used came from Cinder and Nova",
)
CATALOGUE_STALE_AFTER_SECONDS = Metric(
    "plimsoll_catalogue_stale_after_seconds", "Age from which the catalogue is stale"
)
CATALOGUE_CALLS_TOTAL = Metric(
    "plimsoll_catalogue_calls_total", "API calls of catalogue refreshes, by service", "service"
)
CATALOGUE_REFRESHES_TOTAL = Metric(
    "plimsoll_catalogue_refreshes_total", "Refreshes of the catalogue, by result", "result"
)
STAGE_POSITION = Metric(
    "plimsoll_stage_position", "Where the node is in stages of approvals: it has those of more than so many per cent"
)
STAGE_IN_EFFECT = Metric(
    "plimsoll_stage_in_effect",
    "An approval with stages whose QoS specs and types, or rules, the last pass used: always 1",
    "approval",
)
HEALTH_GATE_SHUT = Metric(
    "plimsoll_health_gate_shut",
    "1 while changes are deferred since the cluster is unhealthy or unreachable, else 0",
    "cluster",
)

# --- volume types and pools

DISKS = Metric("plimsoll_disks", "RBD disks by their state in the last pass", "volume_type", "state")
DISKS_UNLIMITED = Metric("plimsoll_disks_unlimited", "Disks without a limit although one is desired", "volume_type")
DISKS_ORPHANED = Metric("plimsoll_disks_orphaned", "Disks with limits whose source is gone", "volume_type")
DISKS_UNKNOWN = Metric(
    "plimsoll_disks_unknown", "Disks whose actual or desired limits are unknown and should be known", "volume_type"
)
DISKS_UNKNOWN_ACKNOWLEDGED = Metric(
    "plimsoll_disks_unknown_acknowledged",
    "Disks whose limits are unknown, as an operator knows (plimsoll disk acknowledge)",
    "volume_type",
)
DISKS_AT_LIMIT = Metric(
    "plimsoll_disks_at_limit",
    "Disks that used 95 % of a limit or more, on average between the last two readings",
    "volume_type",
)
DISKS_LEFT_ALONE_AT_LIMIT = Metric(
    "plimsoll_disks_left_alone_at_limit", "Those of them whose limits plimsoll leaves alone", "volume_type"
)
EXTERNAL_CHANGES_REVERTED_TOTAL = Metric(
    "plimsoll_external_changes_reverted_total", "External changes to limits that plimsoll reverted", "volume_type"
)
POOL_DISKS = Metric("plimsoll_pool_disks", "RBD disks by their pool", *POOL)
POOL_DISKS_UNKNOWN = Metric(
    "plimsoll_pool_disks_unknown",
    "Disks whose actual limits are unknown, so that their promise is not in the sums",
    *POOL,
)
POOL_DISKS_UNLIMITED = Metric(
    "plimsoll_pool_disks_unlimited",
    "Disks without a limit on requests, or on bytes, so that the sum of promises is no bound",
    *POOL,
    "unit",
)
AVERAGE = _rates("average", "{} between the last two readings, of all disks together", "volume_type", "direction")
POOL_PROMISED = _rates(
    "pool_promised", "Sum of the actual limits, in {}, without bursts; disks without a limit add nothing", *POOL
)
POOL_AVERAGE = _rates("pool_average", "{} between the last two readings, of all disks together", *POOL)
LIGHT_LATENCY_SECONDS_TOTAL = Metric(
    "plimsoll_light_latency_seconds_total",
    "Seconds that requests of light disks took together: small requests, far below every limit",
    "cluster",
    "pool",
)
LIGHT_REQUESTS_TOTAL = Metric(
    "plimsoll_light_requests_total", "Requests of light disks whose time is in the sum", "cluster", "pool"
)
DISKS_REDUCED = Metric(
    "plimsoll_disks_reduced", "Disks whose limits are reduced under congestion", "cluster", "device_class"
)

CEILING = Metric(
    "plimsoll_ceiling",
    "Ceiling of all disks of a guest, or of a project on this node, together: requests or bytes a second",
    *(_CEILING := ("whose", "owner", "rule", "limit")),
)
CEILING_ALLOWED = Metric("plimsoll_ceiling_allowed", "What the limits of these disks allow together", *_CEILING)
CEILING_USED = Metric("plimsoll_ceiling_used", "What these disks did since the pass before", *_CEILING)

# --- guests and disks

GUESTS = Metric("plimsoll_guests", "Running guests, reachable and unreachable", "state")
DISK_INFO = Metric(
    "plimsoll_disk_info",
    "Labels of the disk: always 1",
    *DISK,
    "volume",
    "project",
    "flavor",
    "volume_type",
    "pool",
    "cluster",
)
DISK_STATE = Metric(
    "plimsoll_disk_state", "State of the disk in the last pass, and the reason: always 1", *DISK, "state", "reason"
)
GUEST_INFO = Metric(
    "plimsoll_guest_info",
    "Names of the guest and its project: always 1",
    "domain",
    "uuid",
    "server",
    "project",
    "project_name",
    "flavor",
)
GUEST_PAUSED = Metric("plimsoll_guest_paused", "1 while the guest is paused by a person", "domain", "uuid")
GUEST_HUNG = Metric("plimsoll_guest_hung", "1 if the guest did not answer the last pass in time", "domain", "uuid")
DISK_HOLD_END_TIMESTAMP_SECONDS = Metric(
    "plimsoll_disk_hold_end_timestamp_seconds", "When an operator's hold on the disk ends (plimsoll disk hold)", *DISK
)
DISK_UNLIMITED = Metric("plimsoll_disk_unlimited", "1 if the disk has no limit, else 0", *DISK)
DISK_EXTERNAL_CHANGES_REVERTED_TOTAL = Metric(
    "plimsoll_disk_external_changes_reverted_total",
    "External changes to the disk's limits that plimsoll reverted",
    *DISK,
)
DISK_OPERATIONS_TOTAL = Metric(
    "plimsoll_disk_operations_total", "Requests since the guest was started, as QEMU counts them", *DISK, "direction"
)
DISK_BYTES_TOTAL = Metric(
    "plimsoll_disk_bytes_total", "Bytes since the guest was started, as QEMU counts them", *DISK, "direction"
)
DISK_AVERAGE_LATENCY_SECONDS = Metric(
    "plimsoll_disk_average_latency_seconds",
    "Seconds that a request took between the last two readings, with what it waited at a limit",
    *DISK,
)
DISK_AVERAGE_LIMIT_RATIO = Metric(
    "plimsoll_disk_average_limit_ratio",
    "Used share of this limit, without its burst; of all disks that share it",
    *DISK,
    "parameter",
)
DISK_BURST_SAVED_RATIO = Metric(
    "plimsoll_disk_burst_saved_ratio",
    "Share of the burst of this limit that is saved; of all disks that share it",
    *DISK,
    "parameter",
)
DISK_AVERAGE = _rates("disk_average", "{} between the last two readings", *DISK, "direction")
DISK_AVERAGE_ALLOWED = _rates(
    "disk_average_allowed", "What this limit allows, burst included, in {}", *DISK, "parameter"
)
DISK_LIMIT_ACTUAL = _limits("actual", "Actual limits in QEMU")
DISK_LIMIT_DESIRED = _limits("desired", "Desired limits")

# --- consoles

CONSOLE_READ_TIMESTAMP_SECONDS = Metric(
    "plimsoll_console_read_timestamp_seconds", "When the consoles of guests were last read"
)
CONSOLES = Metric("plimsoll_consoles", "Guests by whether their console is read", "state")
CONSOLE_SKIPPED_BYTES_TOTAL = Metric(
    "plimsoll_console_skipped_bytes_total", "Bytes of consoles that were more than a pass reads"
)
PROJECT_STALLED_TIMESTAMP_SECONDS = Metric(
    "plimsoll_project_stalled_timestamp_seconds",
    "When a guest of the project was last found to have stalled, by its console",
    "project",
)
GUEST_STALL_LINES_TOTAL = Metric(
    "plimsoll_guest_stall_lines_total",
    "Lines of the guest's kernel about disks that do not answer",
    "domain",
    "uuid",
    "kind",
)

# --- the daemon

DAEMON_HEARTBEAT_TIMESTAMP_SECONDS = Metric(
    "plimsoll_daemon_heartbeat_timestamp_seconds", "When the daemon wrote these metrics, every 15 seconds"
)
DAEMON_START_TIMESTAMP_SECONDS = Metric("plimsoll_daemon_start_timestamp_seconds", "When the daemon started")
DAEMON_CONNECTED = Metric("plimsoll_daemon_connected", "1 while libvirt's events arrive, else 0")
DAEMON_RECONNECTS_TOTAL = Metric("plimsoll_daemon_reconnects_total", "Connections for events after the first")
DAEMON_EVENTS_TOTAL = Metric("plimsoll_daemon_events_total", "Events of libvirt about guests", "kind")
DAEMON_EVENTS_LOST_TOTAL = Metric(
    "plimsoll_daemon_events_lost_total", "Events that found the queue full; a full pass took their place"
)
DAEMON_EVENT_PASSES_TOTAL = Metric(
    "plimsoll_daemon_event_passes_total", "Passes over single guests, by result", "result"
)
DAEMON_EVENT_PASS_DURATION_SECONDS = Metric(
    "plimsoll_daemon_event_pass_duration_seconds", "Duration of passes over single guests"
)
DAEMON_FULL_PASSES_TOTAL = Metric(
    "plimsoll_daemon_full_passes_total", "Passes of the daemon over the whole node, by result", "result"
)
DAEMON_QUEUE_LENGTH = Metric("plimsoll_daemon_queue_length", "Guests that wait for a pass")
DAEMON_GUESTS_SET_ASIDE = Metric("plimsoll_daemon_guests_set_aside", "Guests whose pass failed, until the next try")
DAEMON_GUESTS_DAMPED = Metric(
    "plimsoll_daemon_guests_damped", "Guests whose passes are spaced out, after many events"
)
DAEMON_LAST_RELOAD_SUCCESSFUL = Metric(
    "plimsoll_daemon_last_reload_successful", "1 if the settings in use are those of the last reload, else 0"
)
DAEMON_THREADS = Metric("plimsoll_daemon_threads", "Threads of the daemon")
DAEMON_OPEN_FDS = Metric("plimsoll_daemon_open_fds", "Open file descriptors of the daemon")
DAEMON_RESIDENT_MEMORY_BYTES = Metric("plimsoll_daemon_resident_memory_bytes", "Resident memory of the daemon")

# --- the machine that makes the region file

REGION_READ_TIMESTAMP_SECONDS = Metric(
    "plimsoll_region_read_timestamp_seconds", "When QoS specs, types and volumes were last read for the region file"
)
REGION_BRAKED = Metric(
    "plimsoll_region_braked",
    "1 while the brake defers a change of the region file until plimsoll region approve, else 0",
)
REGION_BRAKED_VOLUMES = Metric(
    "plimsoll_region_braked_volumes", "Attached volumes whose limits the deferred change affects"
)

REGION_STAGE = Metric(
    "plimsoll_region_stage", "The stage, from 1, that an approval of the region file has reached", "approval"
)
REGION_STAGES = Metric("plimsoll_region_stages", "How many stages that approval has", "approval")
REGION_STAGE_ENTERED_TIMESTAMP_SECONDS = Metric(
    "plimsoll_region_stage_entered_timestamp_seconds", "When that stage was first published", "approval"
)
REGION_STAGE_STOPPED = Metric(
    "plimsoll_region_stage_stopped",
    "1 for each condition that is not met, or unknown, so that the next stage does not begin",
    "approval",
    "condition",
    "known",
)

# --- the machine that publishes the factors of congestion

CONGESTION_PUBLISHED_TIMESTAMP_SECONDS = Metric(
    "plimsoll_congestion_published_timestamp_seconds", "When the factors of congestion were last published"
)
CONGESTION_FACTOR = Metric(
    "plimsoll_congestion_factor",
    "Factor x of the device class: 1 unless its latency is above target",
    "cluster",
    "device_class",
)
CONGESTION_STATE = Metric(
    "plimsoll_congestion_state",
    "What the last period did to the factor, and why there is no signal: always 1",
    "cluster",
    "device_class",
    "action",
    "why",
)
CONGESTION_LATENCY_SECONDS = Metric(
    "plimsoll_congestion_latency_seconds", "Mean latency of light disks", "cluster", "device_class"
)
CONGESTION_TARGET_SECONDS = Metric(
    "plimsoll_congestion_target_seconds", "Latency from which the factor is lowered", "cluster", "device_class"
)

# --- probes; an objective has no label "quantile", which promtool reserves for summaries

PROBE_RATE = _rates("probe", "{} in the newest run", *PROBE)
PROBE_VERDICT = Metric("plimsoll_probe_verdict", "Verdict of the newest run: always 1", *PROBE, "verdict")
PROBE_ALLOWED_RATIO = Metric(
    "plimsoll_probe_allowed_ratio", "Share of what its limits allowed that the newest run reached", *PROBE
)
PROBE_LAST_TIMESTAMP_SECONDS = Metric("plimsoll_probe_last_timestamp_seconds", "When the newest run ended", *PROBE)
PROBE_LAST_GOOD_TIMESTAMP_SECONDS = Metric(
    "plimsoll_probe_last_good_timestamp_seconds", "When the newest good run ended (kept or no-limit)", *PROBE
)
PROBE_INFO = Metric(
    "plimsoll_probe_info",
    "Labels of the probed target: always 1",
    *TARGET,
    "project",
    "volume",
    "volume_type",
    "pool",
)
PROBE_INTERVAL_SECONDS = Metric("plimsoll_probe_interval_seconds", "Interval between probes, by the rules", *TARGET)
PROBE_CHOSEN_TIMESTAMP_SECONDS = Metric(
    "plimsoll_probe_chosen_timestamp_seconds",
    "Since when the rules have chosen the target without interruption",
    *TARGET,
)
PROBE_POSTPONED_TIMESTAMP_SECONDS = Metric(
    "plimsoll_probe_postponed_timestamp_seconds",
    "When the probe was last postponed, and why; absent once it has started",
    *TARGET,
    "why",
)
PROBE_RUNS_TOTAL = Metric(
    "plimsoll_probe_runs_total", "Runs that ended, by verdict", "volume_type", "probe", "domain", "uuid", "verdict"
)
PROBE_LATENCY_SECONDS = Metric(
    "plimsoll_probe_latency_seconds",
    "Latency of probe requests; the sum uses the middles of fio's buckets",
    "volume_type",
    "probe",
    "domain",
    "uuid",
    "direction",
)
PROBE_LATENCY_SECONDS_BUCKET = PROBE_LATENCY_SECONDS.part("bucket", "le")
PROBE_LATENCY_SECONDS_COUNT = PROBE_LATENCY_SECONDS.part("count")
PROBE_OBJECTIVE_REQUESTS_TOTAL = Metric(
    "plimsoll_probe_objective_requests_total",
    "Requests of runs with an objective of this quantile",
    "volume_type",
    "objective",
)
PROBE_OBJECTIVE_MISSED_TOTAL = Metric(
    "plimsoll_probe_objective_missed_total",
    "Requests that exceeded the objective, or may have",
    "volume_type",
    "objective",
)
PROBE_OBJECTIVE_BUDGET_RATIO = Metric(
    "plimsoll_probe_objective_budget_ratio",
    "Share of requests that may exceed the objective",
    "volume_type",
    "objective",
)
PROBE_OBJECTIVE_SECONDS = Metric(
    "plimsoll_probe_objective_seconds",
    "The strictest objective of this quantile in the newest runs",
    "volume_type",
    "objective",
)
PROBE_TARGETS = Metric(
    "plimsoll_probe_targets",
    "Probed guests and directories, by the worst verdict of their newest probe",
    "volume_type",
    "verdict",
)
PROBE_TARGETS_BROKEN_AGAIN = Metric(
    "plimsoll_probe_targets_broken_again",
    "Those of them that were short or slow in the probe before, too",
    "volume_type",
)
PROBE_ROUND_TIMESTAMP_SECONDS = Metric(
    "plimsoll_probe_round_timestamp_seconds", "When the timetable was last run; absent while no guest is chosen"
)
PROBE_WRITTEN_TIMESTAMP_SECONDS = Metric(
    "plimsoll_probe_written_timestamp_seconds", "When these metrics of probes were written"
)

# --- recorded by rules: the labels that are left, the metric, and how it was summed up

DISKS_OF_TYPE = f"volume_type:{DISKS}:sum"
DISKS_OF_NODE = f"instance:{DISKS}:sum"
ALERTS_EVALUATED = "region:plimsoll_alerts_evaluated:count"
"""Recorded beside the alerts: nodes of whose disks these know."""
BUSIEST_DISKS = f"instance:{DISK_AVERAGE_LIMIT_RATIO}:top10"
BUSIEST_GUESTS = {unit: f"uuid_pool:{name}:top3" for unit, name in DISK_AVERAGE.items()}
LATENCY_COUNT = f"volume_type:{DISK_AVERAGE_LATENCY_SECONDS}:count"
LATENCY_MEDIAN = f"volume_type:{DISK_AVERAGE_LATENCY_SECONDS}:median"
_OF_POOLS = (POOL_DISKS, POOL_DISKS_UNKNOWN, POOL_DISKS_UNLIMITED, *POOL_PROMISED.values(), *POOL_AVERAGE.values())
POOL_SUM = {name: f"pool_volume_type:{name}:sum" for name in _OF_POOLS}
PROMISED = {unit: f"volume_type:{name}:sum" for unit, name in POOL_PROMISED.items()}
_LEVELS = ("volume_type", "pool")
LIGHT = {
    LIGHT_LATENCY_SECONDS_TOTAL: "pool:plimsoll_light_latency_seconds:increase_5m",
    LIGHT_REQUESTS_TOTAL: "pool:plimsoll_light_requests:increase_5m",
}
TAKEN = {level: {unit: f"{level}:{name}:sum" for unit, name in POOL_AVERAGE.items()} for level in _LEVELS}
USED = {level: {unit: f"{level}:plimsoll_pool_used_{unit}:ratio" for unit in UNITS} for level in _LEVELS}
TARGETS = f"volume_type:{PROBE_TARGETS}:sum"
TARGETS_BROKEN = f"volume_type:{PROBE_TARGETS}_broken:sum"
TARGETS_BROKEN_RATIO = f"volume_type:{PROBE_TARGETS}_broken:ratio"
TARGETS_BROKEN_AGAIN = f"volume_type:{PROBE_TARGETS_BROKEN_AGAIN}:sum"
NODE_BUCKETS = f"instance_volume_type:{PROBE_LATENCY_SECONDS_BUCKET}:increase_1h"
TYPE_BUCKETS = f"volume_type:{PROBE_LATENCY_SECONDS_BUCKET}:increase_1h"
NODE_P99 = f"instance_volume_type:{PROBE_LATENCY_SECONDS}:p99_1d"
REGION_P99 = f"region:{PROBE_LATENCY_SECONDS}:p99_1d"
QUANTILES = {name: f"volume_type:{PROBE_LATENCY_SECONDS}:{name}_1d" for name in ("p50", "p99", "p999")}
NODE_REQUESTS = "instance_volume_type:plimsoll_probe_requests:increase_1d"
NODE_RUNS = "instance_volume_type:plimsoll_probe_runs:increase_1d"
NODE_KEPT = "instance_volume_type:plimsoll_promise_kept:ratio_1d"
TYPE_KEPT = "volume_type:plimsoll_promise_kept:ratio_1d"
REGION_KEPT = "region:plimsoll_promise_kept:ratio_1d"
OBJECTIVE_BUDGET = "volume_type:plimsoll_probe_objective_budget:ratio"
OBJECTIVE_MISSED = "volume_type:plimsoll_probe_objective_missed:increase_1h"
OBJECTIVE_REQUESTS = "volume_type:plimsoll_probe_objective_requests:increase_1h"
BURN = {window: f"volume_type:plimsoll_probe_objective_burn:ratio_{window}" for window in ("1h", "6h", "3d")}
