"""Why a disk has, keeps or gets its limits: a code and its facts. Only ``messages`` turns them into words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from plimsoll_agent.util.frozen import frozen


class Code(StrEnum):
    """Every reason there is. Records and tests use these codes, never the words made of them."""

    # where desired limits come from
    COMMAND_LINE = "command-line"
    RULE = "rule"
    NODE_DEFAULT = "node-default"
    RELEASED = "released"
    HOLD = "hold"
    HOLD_ENDED = "hold-ended"
    DESIRED_BEFORE = "desired-before"
    UNDONE = "undone"
    TAKEN_BACK = "taken-back"
    QOS_SPEC = "qos-spec"
    FLAVOR = "flavor"
    # why a source has no opinion
    NO_DEFAULT = "no-default"
    RULE_DOES_NOT_MATCH = "rule-does-not-match"
    RULE_ENDED = "rule-ended"
    RULE_WITHOUT_LIMITS = "rule-without-limits"
    CREDITS_NOT_POSSIBLE = "credits-not-possible"
    NO_VOLUME = "no-volume"
    NO_CATALOGUE_SOURCE = "no-catalogue-source"
    NO_VOLUME_TYPE = "no-volume-type"
    NO_QOS_SPEC = "no-qos-spec"
    SPEC_FOR_BACK_END = "spec-for-back-end"
    SPEC_WITHOUT_LIMITS = "spec-without-limits"
    NOT_FOR_VOLUMES = "not-for-volumes"
    ATTACH_TIME_OVERRULED = "attach-time-overruled"
    NOT_BY_NOVA = "not-by-nova"
    NO_QUOTA = "no-quota"
    FLAVOR_UNKNOWN = "flavor-unknown"
    # why a source's limits are unknown
    CLUSTER_UNKNOWN = "cluster-unknown"
    NO_CATALOGUE = "no-catalogue"
    CATALOGUE_UNREADABLE = "catalogue-unreadable"
    CATALOGUE_EXPIRED = "catalogue-expired"
    VOLUME_NOT_FETCHED = "volume-not-fetched"
    VOLUME_MISSING = "volume-missing"
    TYPE_NOT_LISTED = "type-not-listed"
    SPEC_HIDDEN = "spec-hidden"
    SPEC_NOT_LISTED = "spec-not-listed"
    SIZE_UNKNOWN = "size-unknown"
    QUOTA_UNREADABLE = "quota-unreadable"
    FLAVOR_NOT_FETCHED = "flavor-not-fetched"
    SERVER_MISSING = "server-missing"
    QOS_SPEC_UNREADABLE = "qos-spec-unreadable"
    # why a disk's limits are not changed
    RULE_UNMANAGES = "rule-unmanages"
    THROTTLE_FILTERS = "throttle-filters"
    NO_LIMIT = "no-limit"
    NO_CONGESTION_FLOOR = "no-congestion-floor"
    CONGESTION_UNKNOWN = "congestion-unknown"
    CONGESTION = "congestion"
    CEILING = "ceiling"
    FOREIGN_LIMIT = "foreign-limit"
    ORPHANED = "orphaned"
    MIGRATING = "migrating"
    INCOMING = "incoming"
    # what an operator says of an unknown disk
    ACKNOWLEDGED = "acknowledged"
    # why actual limits are unknown
    TIMED_OUT = "timed-out"
    NOT_SENT = "not-sent"
    REJECTED = "rejected"
    NOT_FOUND = "not-found"
    IMPOSSIBLE = "impossible"
    UNREADABLE_XML = "unreadable-xml"
    MARK_UNREADABLE = "mark-unreadable"
    HOLD_NOT_ADOPTED = "hold-not-adopted"
    NOT_READ = "not-read"
    # why a change is deferred
    PAUSED = "paused"
    ORDERS_UNKNOWN = "orders-unknown"
    BRAKED = "braked"
    LARGE_CHANGE = "large-change"
    GROUP_WITHHELD = "group-withheld"
    GROUP_DISAGREES = "group-disagrees"
    GROUP_OF_OTHERS = "group-of-others"
    GROUP_OF_FILTERS = "group-of-filters"
    CEILING_FULL = "ceiling-full"
    CLUSTER_UNHEALTHY = "cluster-unhealthy"
    CLUSTER_UNREACHABLE = "cluster-unreachable"
    REVERTED_TOO_OFTEN = "reverted-too-often"
    CHANGED_SINCE = "changed-since"
    GUEST_BUSY = "guest-busy"
    NOT_APPROVED = "not-approved"
    NOT_UNDONE = "not-undone"
    # why a change was not made, or not as meant
    ANOTHER_DISK = "another-disk"
    NOT_HERE = "not-here"
    REATTACHED = "reattached"
    GUEST_TIMED_OUT = "guest-timed-out"
    NO_RECORD = "no-record"
    NO_RESULTS = "no-results"
    NOT_REMEMBERED = "not-remembered"
    SAVINGS_NOT_KEPT = "savings-not-kept"
    NOT_SETTLED = "not-settled"
    MEMORY_SET_ASIDE = "memory-set-aside"
    APPROVAL_SET_ASIDE = "approval-set-aside"
    RECORD_SET_ASIDE = "record-set-aside"
    CLOCK_SUSPECT = "clock-suspect"
    CATALOGUE_STALE = "catalogue-stale"
    REFRESH_FAILED = "refresh-failed"
    ATTACHMENTS_NOT_WRITTEN = "attachments-not-written"
    READ_BACK_DIFFERS = "read-back-differs"
    TRIAL_FAILED = "trial-failed"
    NO_DISK_FOUND = "no-disk-found"
    # why actual and desired limits differ
    NEVER_LIMITED = "never-limited"
    CHANGED_OVER_QMP = "changed-over-qmp"
    DESIRED_CHANGED = "desired-changed"
    BURST_SAVED = "burst-saved"
    EXTERNAL_CHANGE = "external-change"
    # what an operator did
    APPROVED = "approved"
    OPERATOR = "operator"

    @classmethod
    def _missing_(cls, value: object) -> Code | None:
        successor = _RENAMED.get(value) if isinstance(value, str) else None
        return None if successor is None else cls(successor)


_RENAMED = {
    "anothers-hand": "reverted-too-often",
    "attached-anew": "reattached",
    "behind-libvirt": "changed-over-qmp",
    "catalogue-old": "catalogue-stale",
    "catalogue-outdated": "catalogue-expired",
    "changed-by-another": "external-change",
    "changed-meanwhile": "changed-since",
    "clock-doubted": "clock-suspect",
    "cluster-not-known": "cluster-unknown",
    "cluster-silent": "cluster-unreachable",
    "cluster-unwell": "cluster-unhealthy",
    "flavor-not-asked": "flavor-not-fetched",
    "flavor-not-told": "flavor-unknown",
    "nobody-asked": "no-catalogue-source",
    "not-agreed": "not-approved",
    "not-looked-at": "not-read",
    "not-sighted": "attachments-not-written",
    "rule-bounds-nothing": "rule-without-limits",
    "size-not-known": "size-unknown",
    "spec-says-nothing": "spec-without-limits",
    "too-many-hung": "guest-timed-out",
    "unanswered": "timed-out",
    "vanished": "not-found",
    "volume-not-asked": "volume-not-fetched",
    "wanted-before": "desired-before",
    "wanted-changed": "desired-changed",
}
"""Codes of 0.1.0, in its record and memory, and what they are called now."""

_RENAMED_FACTS = {"edition": "revision", "in_force": "actual", "theirs": "foreign"}


BOUNDS = ("credits", "floor", "ceiling", "guest_ceiling", "project_ceiling")
"""Facts of a reason: the rules that change what a source gives."""


@frozen
class Reason:
    """A code, and the facts for its sentence (plain values only: they go into records)."""

    code: Code
    facts: Mapping[str, object] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((self.code, tuple(sorted((name, str(fact)) for name, fact in self.facts.items()))))

    @property
    def of_type(self) -> str | None:
        """The volume type whose QoS spec gives exactly these limits, without a rule of ``BOUNDS``; else None."""
        if self.code is not Code.QOS_SPEC or set(BOUNDS) & self.facts.keys():
            return None
        return str(self.facts.get("type"))

    @property
    def rules(self) -> tuple[str, ...]:
        """The names of the rules in it."""
        return tuple(str(self.facts[word]) for word in ("rule", *BOUNDS) if word in self.facts)

    def as_record(self) -> dict[str, object]:
        return {"code": self.code.value, **self.facts}

    @classmethod
    def from_record(cls, record: object) -> Reason:
        """The reverse of ``as_record``. Raises ``ValueError``."""
        if not isinstance(record, dict) or not all(isinstance(name, str) for name in record):
            raise ValueError(f"not a reason: {record!r}")
        facts = {_RENAMED_FACTS.get(str(name), str(name)): fact for name, fact in record.items()}
        return cls(Code(facts.pop("code", None)), facts)


def because(code: Code, **facts: object) -> Reason:
    """``because(Code.RULE, rule="bronze racks")``."""
    return Reason(code, facts)


@frozen
class Unknown:
    """A fact that could not be found out; never treated as zero or as unlimited."""

    reason: Reason
