"""Why something is as it is: a code and its facts. Only ``report`` turns them into words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Code(StrEnum):
    """Every reason there is. Nothing parses the words made of them: records and tests use these codes."""

    # where wanted limits come from
    COMMAND_LINE = "command-line"
    RULE = "rule"
    NODE_DEFAULT = "node-default"
    RELEASED = "released"
    HOLD = "hold"
    HOLD_ENDED = "hold-ended"
    WANTED_BEFORE = "wanted-before"
    UNDONE = "undone"
    QOS_SPEC = "qos-spec"
    FLAVOR = "flavor"
    # why a source said nothing
    NO_DEFAULT = "no-default"
    RULE_DOES_NOT_MATCH = "rule-does-not-match"
    RULE_ENDED = "rule-ended"
    RULE_BOUNDS_NOTHING = "rule-bounds-nothing"
    NO_VOLUME = "no-volume"
    NOBODY_ASKED = "nobody-asked"
    NO_VOLUME_TYPE = "no-volume-type"
    NO_QOS_SPEC = "no-qos-spec"
    SPEC_FOR_BACK_END = "spec-for-back-end"
    SPEC_SAYS_NOTHING = "spec-says-nothing"
    NOT_FOR_VOLUMES = "not-for-volumes"
    NOT_BY_NOVA = "not-by-nova"
    NO_QUOTA = "no-quota"
    FLAVOR_NOT_TOLD = "flavor-not-told"
    # why a source cannot say
    CLUSTER_NOT_KNOWN = "cluster-not-known"
    NO_CATALOGUE = "no-catalogue"
    CATALOGUE_UNREADABLE = "catalogue-unreadable"
    CATALOGUE_OUTDATED = "catalogue-outdated"
    VOLUME_NOT_ASKED = "volume-not-asked"
    VOLUME_MISSING = "volume-missing"
    TYPE_NOT_LISTED = "type-not-listed"
    SPEC_HIDDEN = "spec-hidden"
    SPEC_NOT_LISTED = "spec-not-listed"
    SIZE_NOT_KNOWN = "size-not-known"
    QUOTA_UNREADABLE = "quota-unreadable"
    FLAVOR_NOT_ASKED = "flavor-not-asked"
    SERVER_MISSING = "server-missing"
    QOS_SPEC_UNREADABLE = "qos-spec-unreadable"
    # why a disk is left alone
    RULE_UNMANAGES = "rule-unmanages"
    NO_LIMIT = "no-limit"
    FOREIGN_LIMIT = "foreign-limit"
    ORPHANED = "orphaned"
    MIGRATING = "migrating"
    INCOMING = "incoming"
    # why limits in force are not known
    UNANSWERED = "unanswered"
    NOT_SENT = "not-sent"
    REJECTED = "rejected"
    VANISHED = "vanished"
    IMPOSSIBLE = "impossible"
    UNREADABLE_XML = "unreadable-xml"
    MARK_UNREADABLE = "mark-unreadable"
    HOLD_NOT_ADOPTED = "hold-not-adopted"
    NOT_LOOKED_AT = "not-looked-at"
    # why a change waits
    PAUSED = "paused"
    BRAKED = "braked"
    LARGE_CHANGE = "large-change"
    GROUP_WITHHELD = "group-withheld"
    GROUP_DISAGREES = "group-disagrees"
    GROUP_OF_OTHERS = "group-of-others"
    CLUSTER_UNWELL = "cluster-unwell"
    CLUSTER_SILENT = "cluster-silent"
    ANOTHERS_HAND = "anothers-hand"
    CHANGED_MEANWHILE = "changed-meanwhile"
    NOT_AGREED = "not-agreed"
    NOT_UNDONE = "not-undone"
    # why a change was not made, or not as meant
    ANOTHER_DISK = "another-disk"
    NOT_HERE = "not-here"
    ATTACHED_ANEW = "attached-anew"
    TOO_MANY_HUNG = "too-many-hung"
    NO_RECORD = "no-record"
    NO_RESULTS = "no-results"
    NOT_REMEMBERED = "not-remembered"
    NOT_SETTLED = "not-settled"
    MEMORY_SET_ASIDE = "memory-set-aside"
    APPROVAL_SET_ASIDE = "approval-set-aside"
    RECORD_SET_ASIDE = "record-set-aside"
    CLOCK_DOUBTED = "clock-doubted"
    CATALOGUE_OLD = "catalogue-old"
    NOT_SIGHTED = "not-sighted"
    READ_BACK_DIFFERS = "read-back-differs"
    # how a limit came to differ from what is wanted
    NEVER_LIMITED = "never-limited"
    BEHIND_LIBVIRT = "behind-libvirt"
    WANTED_CHANGED = "wanted-changed"
    CHANGED_BY_ANOTHER = "changed-by-another"
    # what an operator did
    APPROVED = "approved"
    OPERATOR = "operator"


BY_A_PERSON = (Code.COMMAND_LINE, Code.HOLD, Code.HOLD_ENDED, Code.UNDONE)
"""What a person decided for these very disks: it is no slip in a line, and no quarrel of two programs."""


@dataclass(frozen=True, slots=True)
class Reason:
    """A code, and the facts that its sentence needs (plain values only: they go into records)."""

    code: Code
    facts: Mapping[str, object] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((self.code, tuple(sorted((name, str(fact)) for name, fact in self.facts.items()))))

    @property
    def of_type(self) -> str | None:
        """The volume type whose QoS spec's own word it is, which no rule bounds; None for all else."""
        if self.code is not Code.QOS_SPEC or {"floor", "ceiling"} & self.facts.keys():
            return None
        return str(self.facts.get("type"))

    @property
    def rules(self) -> tuple[str, ...]:
        """The names of the rules that it tells of."""
        return tuple(str(self.facts[word]) for word in ("rule", "floor", "ceiling") if word in self.facts)

    def as_record(self) -> dict[str, object]:
        return {"code": self.code.value, **self.facts}

    @classmethod
    def from_record(cls, record: object) -> Reason:
        """The reverse of ``as_record``. Raises ``ValueError`` for what is no reason."""
        if not isinstance(record, dict) or not all(isinstance(name, str) for name in record):
            raise ValueError(f"no reason: {record!r}")
        facts = dict(record)
        return cls(Code(facts.pop("code", None)), facts)


def because(code: Code, **facts: object) -> Reason:
    """``because(Code.RULE, rule="bronze racks")``."""
    return Reason(code, facts)


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nobody can say; never taken for zero or for unlimited."""

    reason: Reason
