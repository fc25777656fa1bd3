"""Whom a request waits for, by the state that Ceph prints: what the state means in Ceph's source, and since when.

``currently`` prints the last event of the request until Mimic (``TrackedOp::mark_event``), and a flag since Nautilus
(``OpRequest::state_string``), as the sums do. A flag says how far a request is, not what it waits for; but in the
line of a delayed request its event stands for the flag, and says that.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache

from plimsoll_agent.util.frozen import frozen, of_tuple


class Blame(StrEnum):
    """What a request waits for."""

    OWN = "own"
    """The disk, the queue or the work of the OSD that has it."""
    LOCK = "lock"
    """Another request to the same object."""
    REPLICA = "replica"
    """Other OSDs."""
    NETWORK = "network"
    """The request itself, which has not wholly arrived."""
    UNKNOWN = "unknown"


@frozen(kw_only=True)
class OpState:
    """``words``: how a state begins. ``place``: where Ceph sets it. ``releases``: that print it in logs."""

    words: str
    blame: Blame
    means: str
    place: str
    releases: str


_EVENTS = "Jewel to Mimic, dumps of all"
_FLAGS = "since Nautilus"
_DELAYS = "all, sums until Mimic"
_ROWS: tuple[tuple[str, Blame, str, str, str], ...] = (
    ("waiting for rw locks", Blame.LOCK, "another request holds the object", "PrimaryLogPG.cc", _DELAYS),
    ("waiting for blocked object", Blame.LOCK, "another request holds the object", "PrimaryLogPG.cc", _DELAYS),
    ("waiting for ondisk", Blame.LOCK, "an earlier write of the object", "ReplicatedPG.cc", "Jewel"),
    ("op_commit", Blame.REPLICA, "its own disk has committed, a replica not", "ReplicatedBackend.cc", _EVENTS),
    ("op_applied", Blame.REPLICA, "its own disk has applied, a replica not", "ReplicatedBackend.cc", _EVENTS),
    ("waiting for readable", Blame.REPLICA, "other OSDs must renew the lease", "PrimaryLogPG.cc",
     "since Octopus"),
    ("waiting for peered", Blame.REPLICA, "OSDs of the placement group must agree", "PrimaryLogPG.cc",
     _DELAYS),
    ("waiting for active", Blame.REPLICA, "OSDs of the placement group must agree", "PrimaryLogPG.cc",
     _DELAYS),
    ("waiting for pg to", Blame.REPLICA, "OSDs of the placement group must agree", "OSD.cc", _DELAYS),
    ("waiting for replay end", Blame.UNKNOWN, "clients, to send again what had no answer", "ReplicatedPG.cc",
     "Jewel"),
    ("waiting for missing object", Blame.UNKNOWN, "recovery, from any OSD", "PrimaryLogPG.cc", _DELAYS),
    ("waiting for unreadable object", Blame.UNKNOWN, "recovery, from any OSD", "PrimaryLogPG.cc", _DELAYS),
    ("waiting for degraded object", Blame.UNKNOWN, "recovery, to any OSD", "PrimaryLogPG.cc", _DELAYS),
    ("waiting for all missing", Blame.UNKNOWN, "recovery, from any OSD", "ReplicatedPG.cc", "Jewel"),
    ("waiting for clean to repair", Blame.UNKNOWN, "recovery, from any OSD", "PrimaryLogPG.cc", _DELAYS),
    ("waiting for cache not full", Blame.UNKNOWN, "a cache tier must write to the pool below it",
     "PrimaryLogPG.cc", _DELAYS),
    ("waiting for map", Blame.UNKNOWN, "a map of a monitor or of another OSD", "OSD.cc", _DELAYS),
    ("wait for new map", Blame.UNKNOWN, "a map of a monitor or of another OSD", "OSD.cc", _DELAYS),
    ("waiting_for_map not empty", Blame.UNKNOWN, "a map of a monitor or of another OSD", "PrimaryLogPG.cc", _DELAYS),
    ("op must wait for map", Blame.UNKNOWN, "a map of a monitor or of another OSD", "PrimaryLogPG.cc", _DELAYS),
    ("waiting_for_osdmap", Blame.UNKNOWN, "a map of a monitor or of another OSD", "OSD.cc", _EVENTS),
    ("waiting for sub ops", Blame.UNKNOWN, "its own disk or a replica: set before both", "OpRequest.h",
     _FLAGS),
    ("waiting for subops from", Blame.UNKNOWN, "its own disk or replicas; the line was cut before these",
     "ReplicatedBackend.cc", _EVENTS),
    ("sub_op_commit_rec", Blame.UNKNOWN, "one replica has answered; another one or its own disk",
     "ReplicatedBackend.cc", _EVENTS),
    ("sub_op_applied_rec", Blame.UNKNOWN, "one replica has answered; another one or its own disk",
     "ReplicatedBackend.cc", "Jewel to Luminous"),
    ("no flag points reached", Blame.UNKNOWN, "not queued yet", "OpRequest.h", _FLAGS),
    ("initiated", Blame.UNKNOWN, "nothing is known but its begin", "OpRequest.cc", _EVENTS),
    ("header_read", Blame.NETWORK, "its data are still to come, or too many requests wait", "TrackedOp.h",
     _EVENTS),
    ("throttled", Blame.NETWORK, "its data are still to come", "TrackedOp.h", _EVENTS),
    ("all_read", Blame.OWN, "its own messenger", "TrackedOp.h", _EVENTS),
    ("dispatched", Blame.OWN, "its own queue", "TrackedOp.h", _EVENTS),
    ("queued_for_pg", Blame.OWN, "its own queue", "OSD.cc", _EVENTS),
    ("queued for pg", Blame.OWN, "its own queue", "OpRequest.h", _FLAGS),
    ("reached_pg", Blame.OWN, "its own work", "OSD.cc", _EVENTS),
    ("reached pg", Blame.OWN, "its own work", "OpRequest.h", _FLAGS),
    ("started, erasure-coded", Blame.UNKNOWN, "``started`` in an erasure-coded pool: any shard, its own or"
     " another OSD's", "ECBackend.cc", "all"),
    ("sub_op_started", Blame.UNKNOWN, "any shard of an erasure-coded pool, its own or another OSD's",
     "ECBackend.cc", _EVENTS),
    ("sub_op_committed", Blame.REPLICA, "its own shard of an erasure-coded pool has committed, another not",
     "ECBackend.cc", _EVENTS),
    ("sub_op_applied", Blame.REPLICA, "its own shard of an erasure-coded pool has applied, another not",
     "ECBackend.cc", "Jewel to Luminous"),
    ("started", Blame.OWN, "its own disk; of a sum, where the pool is replicated", "PrimaryLogPG.cc",
     "all"),
    ("delayed", Blame.OWN, "its own queue, or a wait that no line names: a lock, recovery, scrub, a"
     " placement group that is not active", "OpRequest.h", _FLAGS),
    ("waiting for scrub", Blame.OWN, "its own scrub", "PrimaryLogPG.cc", _DELAYS),
    ("waiting for flush", Blame.OWN, "its own disk, after peering", "PrimaryLogPG.cc", _DELAYS),
    ("commit_queued_for_journal_write", Blame.OWN, "its own journal", "FileJournal.cc", "Jewel to Mimic"),
    ("write_thread_in_journal_buffer", Blame.OWN, "its own journal", "FileJournal.cc", "Jewel to Mimic"),
    ("journaled_completion_queued", Blame.OWN, "its own journal", "FileJournal.cc", "Jewel to Mimic"),
    ("commit_sent", Blame.OWN, "answered, not applied on its own disk", "PrimaryLogPG.cc", _EVENTS),
    ("commit sent; apply or cleanup", Blame.OWN, "answered, not applied on its own disk", "OpRequest.h",
     _FLAGS),
    ("unknown", Blame.UNKNOWN, "the line tells no state", "", ""),
)  # fmt: skip
STATES = tuple(of_tuple(OpState, row) for row in _ROWS)
"""As ``docs/guide/slow-requests.rst`` has them."""
_LONGEST_FIRST = sorted(STATES, key=lambda each: -len(each.words))


@lru_cache(maxsize=4096)
def of_state(state: str) -> Blame:
    """A state that the table has not is the OSD's own: it has the request, and no line says that it waits. What is
    left of a state in a line that was cut may be of several.
    """
    whole = next((each.blame for each in _LONGEST_FIRST if state.startswith(each.words)), None)
    possible = {each.blame for each in STATES if each.words.startswith(state)}
    return whole or (next(iter(possible)) if len(possible) == 1 else Blame.UNKNOWN if possible else Blame.OWN)
