"""The formulas, each for exact numbers, with its source. Seconds, bytes, shares from 0 to 1."""

from __future__ import annotations

import math

GAIN = 1.2
"""The memory of an OSD that catches up, as a part of what it usually takes: operators who started the OSDs of a host
one by one after an outage saw some 20 % more."""
ENTRY = 1000.0
"""Bytes of memory of an entry of a placement group's log, an estimate: OSDs of the lab (16.2.15, 33 to 42 groups,
2,010 to 2,871 entries in all) had 520 to 544 by their own count (osd_pglog of dump_mempools). Requests that were
completed before (osd_pg_log_dups_tracked) and the allocator come to it."""
MISSING = 600.0
"""Bytes of memory of an object that a copy misses (pg_missing_item, hobject_t, missing_loc), an estimate."""
KEPT = 20
"""Requests that an OSD keeps for 10 minutes after they were done, copies that it was sent with their data among them
(osd_op_history_size, osd_op_history_duration): OSDs of the lab (16.2.15) that had returned held 20 objects of 4 MiB
(bluestore_writing of dump_mempools).
"""
LOG_TARGET, LOG_MOST, LOG_LEAST = 300_000, 10_000, 250
"""Entries of logs: of an OSD, and of a placement group (osd_target_pg_log_entries_per_osd, osd_max_pg_log_entries,
osd_min_pg_log_entries since Octopus)."""


def degraded_share(domains: int, losses: int, copies: int) -> float:
    """The share of placement groups with a copy in ``losses`` of ``domains`` failure domains of one size.

    CRUSH places the ``copies`` in different domains, each choice as likely: 1 - C(domains - losses, copies) /
    C(domains, copies). Of one lost domain that is copies / domains: all of three, 30 % of ten, 15 % of twenty.
    """
    return 1 - math.comb(domains - losses, copies) / math.comb(domains, copies)


def degraded_write(write: float, whole: float) -> float:
    """A write to an object of which a copy is stale: Ceph recovers the object first, it is read and written whole
    (``whole`` seconds each), and then the write is done: 22 + 22 + 1 = 45 ms. Since Octopus only the parts that
    changed are sent, so this is the most.
    """
    return 2 * whole + write


def mean_service(share: float, write: float, whole: float) -> float:
    """Of writes of which ``share`` goes to degraded objects: d · 45 + (1 - d) · 1 ms is 23 ms for a half, 34 for
    75 %, 41 for 90 %.
    """
    return share * degraded_write(write, whole) + (1 - share) * write


def served_share(write: float, mean: float) -> float:
    """The part of their usual rate that clients reach that have the same number of requests under way: it falls as
    the service time rises (Little's law: requests under way = rate · service time).
    """
    return write / mean


def written_objects(writes: float, objects: float) -> float:
    """How many of ``objects`` so many ``writes`` reach, each as likely as any other: n · (1 - e^(-w/n))."""
    return -objects * math.expm1(-writes / objects) if objects else 0.0


def log_entries(groups: float, target: float = LOG_TARGET, most: float = LOG_MOST, least: float = LOG_LEAST) -> float:
    """Of each placement group of an OSD that has so many, by Ceph's defaults since Octopus, or by these settings
    (PeeringState::calc_trim_to and OSDService::get_target_pg_log_entries). Of an OSD without groups, of as few as
    there may be.
    """
    return max(min(target / groups, most), least) if groups else most


def copies_held(missing: float, places: float) -> float:
    """Objects that are in the memory of one OSD while it catches up: those that it kept, and one of each placement
    group that recovers, of ``places`` (osd_max_backfills) of which it is the primary, and as many of others.
    """
    return min(missing, KEPT + 2 * places)


def memory_peak(memory: float, groups: float, entries: float, missing: float, copies: float = 0.0) -> float:
    """Bytes of one OSD that returns: it reads the logs of its placement groups, keeps for each object that a copy
    misses what it is and where the newest one is, and holds bytes of ``copies``. By experience no less than 20 %
    more than usual.
    """
    return max(GAIN * memory, memory + groups * entries * ENTRY + missing * MISSING + copies)
