"""What the configuration of running OSDs and of their manager means for a failure. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.util.frozen import frozen, replace
from plimsoll_insight.forecast import arithmetic
from plimsoll_insight.forecast.forecast import Inputs
from plimsoll_insight.forecast.ranges import Range, over, over_all

Values = Mapping[str, str]
PEERING = Range(1.0, 10.0)
"""Seconds until placement groups recover, an assumption for where none were measured: it grows with their number and
the load."""
SLOWEST = 2.0
"""How many times longer than on average the last of all placement groups peers, an assumption."""
_STEPS = ("getinfo", "getlog", "getmissing", "waitupthru")
"""The states within Peering; but for Down and Incomplete, in which a group waits for an OSD (PeeringState)."""
SLEEP, DEGRADED_SLEEP = "osd_recovery_sleep", "osd_recovery_sleep_degraded"
"""Since Tentacle, and late in Reef and Squid, the first is of groups that have all copies (pull request 59516)."""
_LOG_TARGET = "osd_target_pg_log_entries_per_osd"
"""Since Octopus."""
_TICKS = 3.0
"""Seconds that a report of an OSD takes to the next map: each OSD looks for silent ones once a second (OSD::tick),
and the monitors gather what they change for a second (paxos_propose_interval)."""


class UnreadableSettings(PlimsollError):
    """An answer of the cluster is not understood."""


@frozen
class OsdSettings:
    """What it has in force, and what is known of its device."""

    values: Values
    is_rotational: bool
    journal_is_rotational: bool

    @property
    def active(self) -> float:
        """OSD::get_recovery_max_active."""
        return self._of("osd_recovery_max_active") or self._of(f"osd_recovery_max_active_{self._device}")

    @property
    def sleep(self) -> float:
        """Before each object of a placement group that lacks copies (OSD::get_osd_recovery_sleep_degraded)."""
        hybrid = self.is_rotational and not self.journal_is_rotational
        return self._of(self.sleep_name) or self._of(f"{self.sleep_name}_{'hybrid' if hybrid else self._device}")

    @property
    def sleep_name(self) -> str:
        return DEGRADED_SLEEP if DEGRADED_SLEEP in self.values else SLEEP

    @property
    def places(self) -> float:
        return self._of("osd_max_backfills")

    @property
    def has_mclock(self) -> bool:
        return self.values.get("osd_op_queue") == "mclock_scheduler"

    @property
    def detect(self) -> Range:
        """The last answer came up to an interval before the failure."""
        grace = self._of("osd_heartbeat_grace")
        return Range(grace, grace + self._of("osd_heartbeat_interval") + _TICKS)

    def log_entries(self, groups: float) -> float:
        if _LOG_TARGET not in self.values:
            # Until Nautilus each group that is degraded has so many, no matter how many there are (calc_trim_to).
            return self._of("osd_max_pg_log_entries")
        names = _LOG_TARGET, "osd_max_pg_log_entries", "osd_min_pg_log_entries"
        return arithmetic.log_entries(groups, *map(self._of, names))

    @property
    def memory_target(self) -> float:
        return self._of("osd_memory_target")

    @property
    def _device(self) -> str:
        return "hdd" if self.is_rotational else "ssd"

    def _of(self, name: str) -> float:
        """Raises ``UnreadableSettings``."""
        return _number(self.values, name)


def known_by(osds: Sequence[OsdSettings], groups: Range | None) -> Inputs:
    """What these OSDs have, as ranges. Raises ``UnreadableSettings``."""
    inputs = Inputs(
        recovery_active=over(osd.active for osd in osds),
        recovery_sleep=over(osd.sleep for osd in osds),
        max_backfills=over(osd.places for osd in osds),
        osd_memory=over(osd.memory_target for osd in osds),
        detect=over_all(osd.detect for osd in osds),
    )
    if groups is None:
        return inputs
    ends = [osd.log_entries(each) for osd in osds for each in (groups.low, groups.high)]
    return replace(inputs, log_entries=over(ends))


def sample(osds: Collection[int], class_of: Mapping[int, str]) -> list[int]:
    """Of each device class the first, one in the middle and the last: each takes a second to ask."""
    by_class: dict[str, list[int]] = {}
    for osd in sorted(osds):
        by_class.setdefault(class_of.get(osd, ""), []).append(osd)
    return sorted({each[place] for each in by_class.values() for place in (0, len(each) // 2, -1)})


def usual() -> Inputs:
    """By Ceph's defaults."""
    return Inputs(
        max_backfills=Range(1, 1),
        peering=PEERING,
        status_delay=Range(0, 5.0 + 2.0),  # mgr_stats_period, mgr_tick_period
        detect=Range(20.0, 26.0 + _TICKS),  # osd_heartbeat_grace, osd_heartbeat_interval
    )


def status_delay(manager: Values) -> Range:
    """What passes until the status tells of something: OSDs report each period, and the manager tells the monitors
    each tick. Raises ``UnreadableSettings``.
    """
    return Range(0, _number(manager, "mgr_stats_period") + _number(manager, "mgr_tick_period"))


def _number(values: Values, name: str) -> float:
    try:
        return float(values[name])
    except (KeyError, ValueError) as error:
        raise UnreadableSettings(f"the configuration that is in force has no number for {name}") from error


def values(text: str, of: str) -> Values:
    """Of ``ceph config show-with-defaults`` as JSON. Raises ``UnreadableSettings``."""
    try:
        return {str(each["name"]): str(each["value"]) for each in json.loads(text)}
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableSettings(f"ceph config show-with-defaults {of}: not the JSON that it prints") from error


def osd(text: str, metadata: str, number: int) -> OsdSettings:
    """Of ``ceph config show-with-defaults osd.N`` and ``ceph osd metadata N``. Raises ``UnreadableSettings``."""
    try:
        document: Mapping[str, Any] = json.loads(metadata)
        turns = [str(document[name]) == "1" for name in ("rotational", "journal_rotational")]
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableSettings(f"ceph osd metadata {number}: not the JSON that it prints") from error
    return OsdSettings(values(text, f"osd.{number}"), *turns)


@frozen
class Counters:
    """What an OSD took on average since it started, in seconds; None where there was nothing to count."""

    write: Range | None
    """Of a client's write (``op_w_latency``)."""
    peering: Range | None
    """Of placement groups of which it is the primary, from the mean (``peering_latency``) to the last of them;
    without the time in which they waited for an OSD that was down.
    """


def counters(text: str, number: int) -> Counters:
    """Of ``ceph tell osd.N perf dump``. Raises ``UnreadableSettings``."""
    try:
        document = json.loads(text)
        write, states = document["osd"]["op_w_latency"], document["recoverystate_perf"]
        took = sum(float(states[f"{step}_latency"]["sum"]) for step in _STEPS)
        return Counters(_from_mean(float(write["sum"]), write), _from_mean(took, states["peering_latency"], SLOWEST))
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableSettings(f"perf dump of osd.{number}: not the JSON that it prints") from error


def _from_mean(took: float, counter: Mapping[str, Any], most: float = 1.0) -> Range | None:
    """From the mean to so many times that."""
    if not counter["avgcount"]:
        return None
    mean = took / float(counter["avgcount"])
    return Range(mean, most * mean)


def measured_by(each: Sequence[Counters]) -> Inputs:
    """What these OSDs counted, as ranges."""
    return Inputs(
        write_latency=over_all(one.write for one in each),
        peering=over_all(one.peering for one in each),
    )
