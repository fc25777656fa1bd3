"""Reasons, changes and passes as sentences for people. Programs use their codes, never this text."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from plimsoll_agent.catalogue.model import Catalogue
from plimsoll_agent.credits.ledger import FULL
from plimsoll_agent.messages.facts import (
    arithmetic_lines,
    ceiling_words,
    congestion_words,
    filter_words,
    large_words,
    minute_words,
    origin_words,
    pause_words,
    per_gib_words,
    second_words,
    stage_words,
    times_words,
)
from plimsoll_agent.messages.limits import UNLIMITED as UNLIMITED
from plimsoll_agent.messages.limits import exact_limits as exact_limits
from plimsoll_agent.messages.limits import listed
from plimsoll_agent.messages.limits import short_limits as short_limits
from plimsoll_agent.messages.limits import short_size as short_size
from plimsoll_agent.model.clusters import short_fsid
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.entries import TAKEN, Ending, RecordedChange
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Reason, Unknown
from plimsoll_agent.policy.decide import Answer, Desired, NoOpinion, Situation, Step, Unmanaged
from plimsoll_agent.reconcile.outcome import ACKNOWLEDGED, NEW, Kind, Outcome, PassReport, UnreachableGuest
from plimsoll_agent.util.text import ago, first_few, minute, plural, printable

_MOST_NAMES = 3
_BOUNDS: Mapping[str, str] = {
    "credits": "with credits",
    "floor": "raised",
    "ceiling": "capped",
    "guest_ceiling": "capped with its guest",
    "project_ceiling": "capped with its project",
}
"""What the rule of each of ``BOUNDS`` does."""
_SENTENCES: Mapping[Code, str | Callable[[Mapping[str, Any]], str]] = {
    Code.COMMAND_LINE: "given on the command line",
    Code.RULE: 'rule "{rule}"',
    Code.NODE_DEFAULT: "default",
    Code.RELEASED: lambda facts: (
        "removal of orphaned limits approved"
        + (f" while the volume type is {facts['type']}" if "type" in facts else "")
    ),
    Code.HOLD: lambda facts: (
        f"held{' in the whole region' if facts.get('region') else ''} until {minute_words(facts['until'])}"
        f" by {facts['by']}: {facts['why']}" + (" (ignores the health gate)" if facts.get("ignore_health") else "")
    ),
    Code.ACKNOWLEDGED: lambda facts: (
        f"acknowledged until {minute_words(facts['until'])} by {facts['by']}: {facts['why']}"
    ),
    Code.HOLD_ENDED: "hold ended: limits from before the hold",
    Code.DESIRED_BEFORE: lambda facts: (
        f"limits before approval {str(facts['approval'])[:16]} of the region, withdrawn by {facts['by']}:"
        f" {facts['why']}"
        if facts.get("approval")
        else f"previously desired limits; the new ones need plimsoll approve {str(facts['revision'])[:16]}"
    ),
    Code.TAKEN_BACK: lambda facts: (
        f'rule "{facts["rule"]}" has manage: false: the first limits of {minute_words(facts["since"])} are taken back'
    ),
    Code.UNDONE: lambda facts: f"undo of the changes since {second_words(facts['since'])}",
    Code.QOS_SPEC: lambda facts: f"QoS spec {facts['spec']}{per_gib_words(facts)}",
    Code.FLAVOR: "flavor {flavor}",
    Code.CREDITS_NOT_POSSIBLE: "no credits: {obstacle}; change the limits or the rule",
    Code.NO_VOLUME: "no opinion: not a Cinder volume",
    Code.NO_CATALOGUE_SOURCE: "not used: [catalogue] source is none",
    Code.NO_VOLUME_TYPE: "no opinion: the volume has no type",
    Code.NO_QOS_SPEC: "no opinion: volume type {type} has no QoS spec",
    Code.SPEC_FOR_BACK_END: "volume type {type} → QoS spec {spec} is not for QEMU (consumer {consumer})",
    Code.SPEC_WITHOUT_LIMITS: "volume type {type} → QoS spec {spec} sets no limit; to check it: plimsoll qos lint",
    Code.NOT_FOR_VOLUMES: "no opinion: flavor limits do not apply to volumes",
    Code.ATTACH_TIME_OVERRULED: lambda facts: (
        f"not kept: {listed(facts['limits'])}; with a catalogue, attach-time limits of volumes do not count"
    ),
    Code.NOT_BY_NOVA: "no opinion: the guest was not created by Nova",
    Code.NO_QUOTA: "no opinion: flavor {flavor} has no quota:disk_*",
    Code.FLAVOR_UNKNOWN: "not used: extra specs are not in libvirt's definition, and Nova is not asked",
    Code.NO_CATALOGUE: "no catalogue of Cinder and Nova yet",
    Code.CATALOGUE_UNREADABLE: "the catalogue of Cinder and Nova cannot be read",
    Code.CATALOGUE_EXPIRED: "the catalogue of Cinder and Nova is too old to be used",
    Code.CATALOGUE_STALE: "the catalogue of Cinder and Nova is stale, but still used",
    Code.REFRESH_FAILED: "the last {refreshes} refreshes of the catalogue failed",
    Code.ATTACHMENTS_NOT_WRITTEN: "the list of attached volumes for plimsoll catalogue refresh cannot be written",
    Code.VOLUME_NOT_FETCHED: lambda facts: (
        (
            f"limits changed externally at {minute_words(facts['since'])}, and volume not fetched from Cinder yet"
            if facts.get("changed")
            else f"volume not fetched from Cinder since it was attached (seen {minute_words(facts['since'])})"
        )
        + "; to fetch it: plimsoll enforce --refresh"
    ),
    Code.VOLUME_MISSING: "no such volume in Cinder, or hidden from plimsoll's user",
    Code.TYPE_NOT_LISTED: "volume type {id} is not in Cinder's list",
    Code.SPEC_HIDDEN: "QoS spec of volume type {type} is hidden by Cinder's policy"
    " volume_extension:access_types_qos_specs_id",
    Code.SPEC_NOT_LISTED: "QoS spec {id} of volume type {type} is not in Cinder's list",
    Code.SIZE_UNKNOWN: "QoS spec {spec} has limits per GiB, and the disk's size is unknown",
    Code.QUOTA_UNREADABLE: "invalid quota:disk_* in the flavor: {detail}",
    Code.QOS_SPEC_UNREADABLE: "invalid QoS spec {spec}: {detail}",
    Code.FLAVOR_NOT_FETCHED: "flavor's extra specs are not in libvirt's definition and not fetched from Nova yet",
    Code.SERVER_MISSING: "no such server in Nova, or its flavor's extra specs are hidden from plimsoll's user",
    Code.RULE_DOES_NOT_MATCH: "does not match ({word})",
    Code.RULE_ENDED: lambda facts: f"ended {minute_words(facts['until'])}",
    Code.RULE_WITHOUT_LIMITS: "no opinion: sets no limits",
    Code.CLUSTER_UNKNOWN: lambda facts: (
        f"no ceph.conf with mon_host {facts['monitors']}; add its path to [ceph] conf_files"
        if facts["monitors"]
        else "the disk names no monitors; [ceph] conf_files must have the ceph.conf that it names, or only one file"
    ),
    Code.NO_DEFAULT: "not set",
    Code.THROTTLE_FILTERS: lambda facts: f"limited by libvirt's throttle filters: {filter_words(facts['groups'])}",
    Code.RULE_UNMANAGES: 'rule "{rule}" has manage: false',
    Code.NO_LIMIT: "no source gives a limit",
    Code.NO_CONGESTION_FLOOR: "never reduced: no rule with congestion matches",
    Code.CONGESTION_UNKNOWN: "congestion unknown: {detail}",
    Code.CONGESTION: congestion_words,
    Code.CEILING: ceiling_words,
    Code.ORPHANED: lambda facts: f"orphaned limits: they came from {origin_words(facts)}",
    Code.FOREIGN_LIMIT: "attach-time limits, and no rule has override: true",
    Code.MIGRATING: "the guest is migrating out; the destination sets its limits",
    Code.INCOMING: "the guest is migrating in and not running yet",
    Code.TIMED_OUT: "{detail}; the next pass reads it again",
    Code.NOT_SENT: "{detail}; the next pass tries again",
    Code.REJECTED: "rejected: {detail}",
    Code.NOT_FOUND: "{detail}",
    Code.IMPOSSIBLE: "QEMU would reject its actual limits: {detail}",
    Code.UNREADABLE_XML: "libvirt's definition cannot be parsed: {detail}",
    Code.MARK_UNREADABLE: "plimsoll's metadata in a guest's definition is unreadable and ignored",
    Code.HOLD_NOT_ADOPTED: "hold not taken over from the other node: it would raise the limits that the disk has now",
    Code.NOT_READ: "could not be read: {detail}",
    Code.PAUSED: lambda facts: f"paused by {pause_words(facts)}{': ' + str(facts['why']) if facts['why'] else ''}",
    Code.ORDERS_UNKNOWN: "the region's orders are unknown, so no limit is raised or removed: {detail}",
    Code.BRAKED: "deferred by the brake ({disks} of {of} disks) until plimsoll approve {revision:.16}",
    Code.LARGE_CHANGE: lambda facts: (
        f"a {large_words(facts)} needs plimsoll approve{' --remove' * (facts['percent'] is None)}"
        f" {facts['digest'][:16]}"
    ),
    Code.GROUP_WITHHELD: lambda facts: (
        f"deferred with {facts['target']} in group {facts['group']} ({words(Reason.from_record(facts['because']))})"
    ),
    Code.GROUP_DISAGREES: "deferred: {target} in group {group} has other desired limits; a group shares one set",
    Code.GROUP_OF_OTHERS: "deferred: group {group} includes a disk that is not on RBD; use another group",
    Code.GROUP_OF_FILTERS: "deferred: group {group} is the guest's for throttle filters; use another group",
    Code.CEILING_FULL: '{whose}_ceiling of rule "{rule}" has no room: deferred until {target} of {guest} is lowered',
    Code.CLUSTER_UNHEALTHY: "deferred until Ceph cluster {cluster} is healthy: {checks}",
    Code.CLUSTER_UNREACHABLE: "deferred: health of Ceph cluster {cluster} unknown: {detail}",
    Code.CHANGED_SINCE: "limits changed during the pass; the next pass reads them again",
    Code.GUEST_BUSY: "deferred: another pass or command is changing this guest; the next pass reads it again",
    Code.NOT_APPROVED: "changed since it was shown and confirmed",
    Code.NOT_UNDONE: "not undone",
    Code.REVERTED_TOO_OFTEN: lambda facts: (
        f"external changes, reverted {times_words(facts['rounds'])};"
        " not reverted for a day, or now by plimsoll enforce --yes"
    ),
    Code.ANOTHER_DISK: lambda facts: (
        f"{facts['target']} is a different disk now ({facts['now']})"
        if facts.get("now")
        else f"{facts['target']} is no longer attached"
    ),
    Code.NOT_HERE: "no longer on this node",
    Code.REATTACHED: "reattached since then, or its guest restarted",
    Code.GUEST_TIMED_OUT: "not tried: its guest timed out in this pass",
    Code.NO_RECORD: "the record of changes cannot be written; no limit is raised or removed without it",
    Code.NO_RESULTS: "the results are not in the record of changes; the next pass reads them back",
    Code.NOT_REMEMBERED: "applied limits are not saved in memory; later passes will take them for attach-time limits",
    Code.SAVINGS_NOT_KEPT: "what disks have spent of their bursts is not saved; the next pass counts from the pass"
    " that saved it last",
    Code.NOT_SETTLED: "the results of an earlier pass are still unknown",
    Code.MEMORY_SET_ASIDE: "memory file damaged: moved aside and rebuilt from the record; holds are those in the"
    " guests' marks",
    Code.APPROVAL_SET_ASIDE: "approval file damaged: moved aside; nothing is approved",
    Code.RECORD_SET_ASIDE: "record of changes damaged: moved aside; a new one is started",
    Code.CLOCK_SUSPECT: "this node's clock is not trusted: time counts from the last pass; no hold"
    " or rule ends early",
    Code.READ_BACK_DIFFERS: lambda facts: f"QEMU reports {listed(facts['actual']) or 'no limit'} after the write",
    Code.TRIAL_FAILED: "no limit is written: the first writes under {versions} did not read back as written",
    Code.NO_DISK_FOUND: "no RBD disk found, though guests that run with the same disks had some",
    Code.NEVER_LIMITED: "limits not set yet",
    Code.CHANGED_OVER_QMP: "changed over QMP, not through libvirt",
    Code.DESIRED_CHANGED: "desired limits changed",
    Code.BURST_SAVED: "more of the burst is saved",
    Code.EXTERNAL_CHANGE: lambda facts: (
        f"external change to {listed(facts['actual']) or 'no limit'}, with unknown desired limits"
        if "actual" in facts
        else "external change"
    ),
    Code.APPROVED: lambda facts: (
        f"{str(facts['revision'])[:16]} approved{stage_words(facts)}"
        f"{': ' + str(facts['why']) if facts['why'] else ''}"
    ),
    Code.OPERATOR: lambda facts: (
        str(facts["why"]) + (f" (until {minute_words(facts['until'])})" if facts.get("until") else "")
    ),
}


def words(reason: Reason) -> str:
    """The sentence of a reason."""
    sentence = _SENTENCES[reason.code]
    facts = _shown(reason)
    text = sentence(facts) if callable(sentence) else sentence.format_map(facts)
    if reason.code in (Code.RULE, Code.RULE_UNMANAGES) and facts.get("why"):
        text += f" ({facts['why']})"
    for word, does in _BOUNDS.items():
        if word in facts:
            text += f', {does} by rule "{facts[word]}"'
    return f"{text}, the burst as long as what is saved of it" if FULL in facts else text


def _shown(reason: Reason) -> Mapping[str, Any]:
    facts = {name: printable(fact) if isinstance(fact, str) else fact for name, fact in reason.facts.items()}
    return facts | {"cluster": short_fsid(str(facts["cluster"]))} if "cluster" in facts else facts


def why_deferred(reason: Reason) -> str:
    """The sentence of a reason for which a change is deferred."""
    text = words(reason)
    return f"Ceph's health unknown: {text}" if reason.code is Code.CLUSTER_UNKNOWN else text


def deferred_words(reason: Reason) -> str:
    """``deferred: …``, with why or until when."""
    text = why_deferred(reason)
    return text if text.startswith("deferred") else f"deferred: {text}"


def unknown_words(reason: Reason) -> str:
    """``unknown: …``, if the sentence does not say it."""
    text = words(reason)
    return text if "unknown" in text else f"unknown: {text}"


def unreachable_words(unreachable: UnreachableGuest) -> str:
    """A guest that could not be read, and why."""
    return f"{printable(unreachable.guest.name)}  {words(unreachable.reason)}"


def note_words(note: Reason) -> str:
    """A note of a pass, with its detail."""
    text, detail = words(note), printable(str(note.facts["detail"]))
    return text if detail in text else f"{text} ({detail})"


def kernel_mapped_words(names: Sequence[str]) -> str:
    """Of disks on RBD, at least one, that QEMU reads through the kernel."""
    are = "is" if len(names) == 1 else "are"
    those = printable(first_few(names, _MOST_NAMES))
    return f"{plural(len(names), 'disk')} on RBD that the kernel maps {are} not limited by plimsoll: {those}"


def disk_name(disk: Disk) -> str:
    return f"{printable(disk.guest.name)} {printable(disk.target)}"


def approve_words(digest: str, remove: bool) -> str:
    return f"plimsoll approve{' --remove' * remove} {digest:.16} --reason TEXT"


def orphaned_lines(report: PassReport) -> Iterator[str]:
    """Disks with orphaned limits, by volume type (as they are approved), with where the limits came from."""
    orphans: dict[str | None, list[Reason]] = {}
    for outcome in report.outcomes:
        if outcome.result.reason.code is Code.ORPHANED:
            orphans.setdefault(outcome.disk.volume_type, []).append(outcome.result.reason)
    for type, reasons in orphans.items():
        number, digest = len(reasons), str(reasons[0].facts["digest"])
        origins = Counter(origin_words(_shown(reason)) for reason in reasons).most_common()
        came = "; ".join(f"{'they' if len(origins) == 1 else each} came from {origin}" for origin, each in origins)
        text = f"{plural(number, 'disk')} with orphaned limits: {came}; to remove them: plimsoll approve --remove"
        if number == 1:
            yield f"{text} {digest:.16} --reason TEXT"
        elif type is not None:
            yield f"{text} --type {shlex.quote(printable(type))} --reason TEXT"
        else:
            yield f"{text} DIGEST --reason TEXT for each (plimsoll disk explain prints it)"


STATE_WORDS: Mapping[str, str] = {
    Kind.IN_SYNC: "in sync",
    Kind.CHANGED: "in sync",
    Kind.PLANNED: "out of sync",
    Kind.DEFERRED: "deferred",
    Kind.LEFT_ALONE: "left alone",
    Kind.FAILED: "failed",
    Kind.UNKNOWN: "unknown",
    ACKNOWLEDGED: "unknown but acknowledged",
    NEW: "unknown until the next catalogue",
}
"""The short state of a disk after a pass, in the order of sums."""


def states_words(number: Mapping[str, int]) -> str:
    """``239 in sync, 1 unknown``, by how many disks are in each state; states of other versions come last."""
    words = Counter[str]()
    for state in (*STATE_WORDS, *sorted(number.keys() - STATE_WORDS.keys())):
        words[STATE_WORDS.get(state, printable(state))] += number.get(state, 0)
    return ", ".join(f"{words[word]} {word}" for word in words if words[word])


def state_now(outcome: Outcome, past: RecordedChange | None) -> Kind:
    """The kind of its result; ``FAILED`` for a change that is planned again after it failed."""
    return Kind.FAILED if past is not None and past.result in FAILED else outcome.result.kind


def state_word(outcome: Outcome, past: RecordedChange | None = None) -> str:
    """``STATE_WORDS``, but for a held disk, and for one without limits that no source limits."""
    kind, code = state_now(outcome, past), outcome.result.reason.code
    if kind is Kind.IN_SYNC and code is Code.HOLD:
        return "held"
    if kind is Kind.LEFT_ALONE and code is Code.NO_LIMIT and outcome.after.actual == Limits():
        return "no limits"
    return STATE_WORDS[kind]


def missed_words(last: Limits, reason: Reason) -> str:
    """Of an unlimited disk whose desired limits are unknown."""
    return f"unlimited, {short_limits(last)} desired last; {words(reason)}"


FAILED = {Ending.REFUSED: "rejected", Ending.NOT_SENT: "not sent", Ending.DID_NOT_TAKE: "without effect"}


def behind(outcome: Outcome, last: RecordedChange | None) -> RecordedChange | None:
    """The last recorded change of the disk if it is behind a planned change: an undo, or the same change, failed."""
    change, disk = outcome.change, outcome.disk
    if (
        last is None
        or change is None
        or outcome.result.kind is not Kind.PLANNED
        or last.attachment != disk.attachment
    ):
        return None
    undone = last.result in TAKEN and last.reason.code is Code.UNDONE and last.after == disk.actual
    return last if undone or (last.result in FAILED and last.after == change.after) else None


def _past_words(past: RecordedChange) -> str:
    if past.result not in FAILED:
        return f"undone {minute(past.at)} by {printable(past.by)}"
    times = f", {times_words(past.times)}" if past.times > 1 else ""
    detail = f": {printable(past.detail)}" if past.detail else ""
    return f"since {minute(past.at)}{times}: {FAILED[past.result]}{detail}"


def state_reason(outcome: Outcome, past: RecordedChange | None = None) -> str:
    """Why the disk is in that state; nothing where it is as it should be. ``past`` is the change ``behind`` it."""
    kind, reason, drift = outcome.result.kind, outcome.result.reason, outcome.after.drifted
    parts: list[str] = []
    if past is not None:
        parts.append(_past_words(past))
    elif kind is Kind.PLANNED and outcome.change is not None:
        parts.append(words(Reason(outcome.change.cause)))
    elif kind is Kind.DEFERRED:
        parts.append(why_deferred(reason).removeprefix("deferred ").removeprefix("deferred: "))
    elif state_word(outcome) not in ("in sync", "no limits"):
        parts.append(words(reason) if outcome.missed is None else missed_words(outcome.missed, reason))
    if outcome.after.reduced is not None:
        parts.append(_reduced_by(outcome))
    if drift and kind is Kind.IN_SYNC:
        parts.insert(0, "libvirt's definition differs")
    elif drift and kind is Kind.LEFT_ALONE:
        parts.append(words(Reason(Code.CHANGED_OVER_QMP)))
    if outcome.acknowledged is not None:
        parts.append(words(outcome.acknowledged))
    return "; ".join(parts)


def _reduced_by(outcome: Outcome) -> str:
    if outcome.reduced_by is None:
        return "reduced under congestion or by a ceiling"
    return "reduced under congestion" if outcome.reduced_by.code is Code.CONGESTION else words(outcome.reduced_by)


def _acknowledged(outcome: Outcome) -> str:
    return "" if outcome.acknowledged is None else f"; {words(outcome.acknowledged)}"


def state_words(outcome: Outcome) -> str:
    """The state of a disk with its reason, in one line."""
    disk, result, change = outcome.after, outcome.result, outcome.change
    if result.kind is Kind.IN_SYNC:
        hold = f", {words(result.reason)}" if result.reason.code is Code.HOLD else ""
        return f"in sync, but libvirt's definition differs{hold}" if disk.drifted else f"in sync{hold}"
    if result.kind is Kind.DEFERRED:
        return deferred_words(result.reason)
    if result.kind is Kind.PLANNED and change is not None:
        how = words(Reason(change.cause))
        if change.before.unlimited:
            return f"{UNLIMITED}: {how}"
        return f"out of sync: {how}"
    if result.kind is Kind.LEFT_ALONE:
        drift = f"; {words(Reason(Code.CHANGED_OVER_QMP))}" if disk.drifted else ""
        if result.reason.code is Code.ORPHANED:
            return f"{words(result.reason)}{drift}"
        if result.reason.code is Code.NO_LIMIT and disk.actual == Limits():
            return f"no limits{drift}"
        return f"left alone: {words(result.reason)}{drift}"
    text = unknown_words(result.reason) if result.kind is Kind.UNKNOWN else words(result.reason)
    return f"{text}{_acknowledged(outcome)}"


def step_lines(step: Step, situation: Situation, *, exact: bool = False) -> Iterator[tuple[str, str]]:
    """A source and its answer: one line, or more where it was calculated. ``exact`` as in ``limits_words``."""
    source, answer = printable(step.asked), step.answer
    bounds = (_BOUNDS.keys() - {"credits"}) & answer.reason.facts.keys()  # clamped by a rule: not what Cinder gives
    if not isinstance(answer, Desired) or answer.reason.code is not Code.QOS_SPEC or bounds:
        yield source, answer_words(answer, exact=exact)
        return
    facts: Mapping[str, Any] = answer.reason.facts
    catalogue = situation.catalogue
    read = f", read {ago(catalogue.issued, situation.now)}" if isinstance(catalogue, Catalogue) else ""
    yield source, printable(f"volume type {facts['type']} → QoS spec {facts['spec']} ({facts['consumer']}){read}")
    for line in arithmetic_lines(facts.get("arithmetic") or ()):
        yield "", line
    yield "", answer_words(answer, exact=exact)


def answer_words(answer: Answer, *, exact: bool = False) -> str:
    """What a source answered, for ``disk explain``."""
    match answer:
        case Desired():
            return limits_words(answer.limits, exact=exact)
        case Unmanaged():
            return f"left alone: {words(answer.reason)}"
        case Unknown():
            return f"unknown: {words(answer.reason)}"
        case NoOpinion():
            return "no limits" if answer.reason.code is Code.NO_LIMIT else words(answer.reason)


def limits_words(limits: Limits, *, exact: bool = False) -> str:
    """In units that people know; ``exact``: libvirt's parameters, and bytes."""
    return exact_limits(limits) if exact else short_limits(limits)


def desired_words(desired: Desired | Unmanaged | Unknown, *, exact: bool = False) -> str:
    if isinstance(desired, Desired):
        return limits_words(desired.limits, exact=exact)
    return "-" if isinstance(desired, Unmanaged) else "unknown"


def actual_words(actual: Limits | Unknown | None, *, exact: bool = False) -> str:
    return limits_words(actual, exact=exact) if isinstance(actual, Limits) else "unknown"
