"""Entries of the record as lines for people, and as plain data. Tenants chose the names in them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from plimsoll_agent.messages.limits import exact_change, exact_limits, short_change, short_limits
from plimsoll_agent.messages.sentences import words
from plimsoll_agent.model.clusters import short_fsid
from plimsoll_agent.model.disk import DiskName
from plimsoll_agent.model.entries import Ending, Entry, Happening, RecordedChange, RecordedEvent
from plimsoll_agent.model.reason import Reason
from plimsoll_agent.policy.diff import EXTERNAL
from plimsoll_agent.store.actual import LimitsAt
from plimsoll_agent.store.node_store import Move
from plimsoll_agent.store.reductions import Intended
from plimsoll_agent.util.decoding import data_of
from plimsoll_agent.util.text import plural, printable, second

if TYPE_CHECKING:
    from plimsoll_agent.store.record_query import Verified  # a pass does not need it

_RESULTS = {
    None: "under way",
    Ending.DONE: "done",
    Ending.REFUSED: "rejected",
    Ending.TIMED_OUT: "timed out, result unknown",
    Ending.NOT_SENT: "not sent",
    Ending.TOOK: "took effect, as found later",
    Ending.DID_NOT_TAKE: "did not take effect, as found later",
    Ending.GONE: "disk gone before it could be read back",
}

_MOVES = {
    Move.CAME.value: "; came with its guest from another node",
    Move.LEFT.value: "; guest left this node",
    Move.REPLACED.value: "; guest came back, its hold was ended or replaced on another node",
}


def time_words(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def entry_line(entry: Entry, *, server: str | None = None, concluded: bool = False, exact: bool = False) -> str:
    """``2026-11-20 14:02:11 UTC  instance-00000412 web-1 vdb  500 → 3000 IOPS   rule "gold"; done   by root``.

    ``concluded``: a change that was printed without its result before; the time is that of the result. ``exact``:
    libvirt's parameters, and bytes.
    """
    at = entry.at
    if concluded and isinstance(entry, RecordedChange) and entry.result_at:
        at = entry.result_at
    return f"{second(at)}  {entry_words(entry, server=server, exact=exact)}"


def entry_words(entry: Entry, *, server: str | None = None, exact: bool = False) -> str:
    """The line without its time."""
    by, subject = f"by {printable(entry.by)}", _subject(entry.disk, server)
    if isinstance(entry, RecordedEvent):
        why = event_reason_words(entry)
        return f"{subject}  {event_words(entry)}{why and ': '}{why}   {by}"
    return f"{subject}  {limits_words(entry, exact=exact)}   {_how(entry)}   {by}"


def entry_cells(entry: Entry, *, exact: bool = False) -> dict[str, str]:
    """The same by the columns of a list."""
    disk = entry.disk
    cells = {"at": time_words(entry.at), "guest": "this node" if disk is None else printable(disk.guest_name)}
    if isinstance(entry, RecordedEvent):
        return cells | {"after": event_words(entry), "reason": event_reason_words(entry)}
    why = f"{_why(entry)}{_more_words(entry)}"
    return cells | {"after": limits_words(entry, exact=exact), "result": _RESULTS[entry.result], "reason": why}


def limits_words(change: RecordedChange, *, exact: bool) -> str:
    return (exact_change if exact else short_change)(change.before, change.after)


def _how(change: RecordedChange) -> str:
    return f"{_why(change)}; {_RESULTS[change.result]}{_more_words(change)}"


def _subject(disk: DiskName | None, server: str | None = None) -> str:
    if disk is None:
        return "this node"
    return " ".join(printable(word) for word in (disk.guest_name, server, disk.target) if word)


def event_words(event: RecordedEvent) -> str:
    return event.what.value.replace("-", " ")


def event_reason_words(event: RecordedEvent) -> str:
    """Why it happened, and how it went on; empty if nothing is known of that."""
    if event.reason is None:
        return ""
    facts = event.reason.facts
    if event.what is Happening.RECORD_STARTED:
        aside = facts.get("instead_of")
        return f"instead of the damaged {printable(str(aside))}" if aside else ""
    early = f"; ended early: {printable(str(facts['ended']))}" if facts.get("ended") else ""
    return f"{reason_words(event.reason)}{early}{_MOVES.get(str(facts.get('moved')), '')}"


def _why(change: RecordedChange) -> str:
    why = reason_words(change.reason)
    return f"{why} ({reason_words(Reason(change.cause))})" if change.cause in EXTERNAL else why


def reason_words(reason: Reason) -> str:
    """The sentence of a recorded reason, or its code if a fact is missing or of another type."""
    try:
        return words(reason)
    except (LookupError, AttributeError, TypeError, ValueError):  # a fact that another version did not write
        return reason.code.value


def _more_words(change: RecordedChange) -> str:
    """Details of its result, and of later attempts."""
    detail = f" ({printable(change.detail)})" if change.detail else ""
    attempts = "" if change.last_at is None else f", {change.times} times until {second(change.last_at)}"
    again = "" if change.retried_at is None else f"; retried at {second(change.retried_at)}: "
    return detail + attempts + (again and again + _RESULTS[change.retried_result])


def entry_data(entry: Entry) -> dict[str, object]:
    """An entry with its ``kind``; a disk as in every other list, the rest by the names of the columns."""
    reason = None if entry.reason is None else entry.reason.as_record()
    if isinstance(entry, RecordedEvent):
        head: dict[str, object] = {"kind": "event", "id": entry.id, "at": entry.at.isoformat(), "by": entry.by}
        return head | {"what": entry.what.value} | _disk_data(entry.disk) | {"reason": reason}
    head = {"kind": "change", "id": entry.id, "intended_at": entry.at.isoformat(), "by": entry.by}
    return (
        head
        | _disk_data(entry.disk)
        | {
            "attachment": entry.attachment,
            "before": entry.before.in_effect(),
            "after": entry.after.in_effect(),
            "direction": entry.direction.value,
            "reason": reason,
            "cause": entry.cause.value,
            "revision": entry.revision,
            "rules": entry.rules,
            "result": entry.result and entry.result.value,
            "result_at": None if entry.result_at is None else entry.result_at.isoformat(),
            "detail": entry.detail,
            "times": entry.times,
            "last_at": entry.last_at and entry.last_at.isoformat(),
            "retried_at": entry.retried_at and entry.retried_at.isoformat(),
            "retried_result": entry.retried_result and entry.retried_result.value,
        }
    )


def _disk_data(disk: DiskName | None) -> dict[str, object]:
    return {
        "key": disk and disk.key,
        "guest": disk and disk.guest_name,
        "guest_uuid": disk and disk.guest_uuid,
        "project": disk and disk.project,
        "disk": disk and disk.target,
        "volume": disk and disk.volume_id,
        "pool": disk and disk.pool,
        "image": disk and disk.image,
    }


def verified_lines(verification: Verified) -> Iterator[str]:
    """A line for each fault; without faults, a summary."""
    if verification.faults:
        yield from (f"the file is damaged: {printable(fault)}" for fault in verification.faults)
        return
    yield f"{plural(verification.changes, 'change')} and {plural(verification.events, 'event')}, no damage found"
    if verification.since:
        yield f"complete since {time_words(verification.since)} UTC; before that only the newest change of each disk"


def verified_data(verification: Verified) -> dict[str, object]:
    return {
        "changes": verification.changes,
        "events": verification.events,
        "since": verification.since and verification.since.isoformat(),
        "faults": list(verification.faults),
    }


# --- at a time in the past


def actual_lines(past: LimitsAt, *, exact: bool = False) -> Iterator[str]:
    """The limits at that time, and below them what is uncertain; ``exact`` as in ``entry_line``."""
    show = exact_limits if exact else short_limits
    volume = f" ({past.disk.volume_id})" if past.disk.volume_id else ""
    name = f"{_subject(past.disk)}{volume}"
    change, unsure, later = past.change, past.unsure, past.found_next
    if past.limits is None:
        yield f"{name}  unknown: no change recorded up to then"
    elif past.reduction is not None:
        one = past.reduction
        why = _reduction_words(one, show(one.of))
        yield f"{name}  {show(past.limits)}   since {second(one.at)}: {printable(why)}   by {printable(one.by)}"
    elif change is not None:
        when = f"since {second(change.result_at or change.at)}: {_why(change)}   by {printable(change.by)}"
        yield f"{name}  {show(past.limits)}   {when} (change {change.id})"
    else:
        observation = "" if past.seen is None else f", found at {second(past.seen)}"
        yield f"{name}  {show(past.limits)}   not set by plimsoll{observation}"
    if unsure is not None:
        until = "unknown yet" if past.unsure_until is None else f"found at {second(past.unsure_until)}"
        how = f"change {unsure.id} of {second(unsure.at)} by {printable(unsure.by)}, result {until}"
        yield f"  or already {show(unsure.after)}: {how}"
    if later is not None:
        what = "external change to" if past.limits is not None else "the first change found"
        yield f"  {what} {show(later.before)} before {second(later.at)} (change {later.id})"


def _reduction_words(one: Intended, of: str) -> str:
    place = f"{one.device_class or 'unknown class'} of cluster {short_fsid(one.cluster)}"
    if not one.ceilings:
        return f"x {one.x:.2g} × {of} ({place})" if one.is_reduced else f"no longer reduced ({place})"
    names = ", ".join(f'{each.whose.word} of rule "{each.rule}"' for each in one.ceilings)
    if not one.is_reduced:
        return f"no longer reduced ({names})"
    return f"of {of}, {names}" + (f", and x {one.x:.2g} ({place})" if one.x < 1 else "")


def _reduction_data(reduction: Intended | None) -> dict[str, object] | None:
    if reduction is None:
        return None
    return {
        "at": reduction.at.isoformat(),
        "by": reduction.by,
        "x": reduction.x,
        "cluster": reduction.cluster,
        "class": reduction.device_class,
        "of": reduction.of.in_effect(),
        "ceilings": [data_of(each) for each in reduction.ceilings],
    }


def actual_data(past: LimitsAt, moment: datetime) -> dict[str, object]:
    unsure, later = past.unsure, past.found_next
    return _disk_data(past.disk) | {
        "at": moment.isoformat(),
        "limits": None if past.limits is None else past.limits.in_effect(),
        "seen": past.seen and past.seen.isoformat(),
        "reduction": _reduction_data(past.reduction),
        "change": None if past.change is None else entry_data(past.change),
        "unsure": None if unsure is None else entry_data(unsure),
        "unsure_until": past.unsure_until and past.unsure_until.isoformat(),
        "found_next": None if later is None else entry_data(later),
    }
