"""The record for people, a line an entry, and for programs. Names in it are those that tenants chose."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from plimsoll_agent.changes import BY_OTHERS
from plimsoll_agent.disk import DiskName
from plimsoll_agent.entries import Entry, Happening, RecordedChange, RecordedEvent, Verdict
from plimsoll_agent.history import Fault, Flaw, Verified
from plimsoll_agent.inforce import InForce
from plimsoll_agent.ledger import Move
from plimsoll_agent.reason import Reason
from plimsoll_agent.report import limits_change_words, printable, short_limits, words

_RESULTS = {
    None: "under way",
    Verdict.DONE: "done",
    Verdict.REFUSED: "refused",
    Verdict.UNANSWERED: "not answered, and not known yet whether it took",
    Verdict.NOT_SENT: "not sent",
    Verdict.TOOK: "took, as was found later",
    Verdict.DID_NOT_TAKE: "did not take, as was found later",
    Verdict.GONE: "the disk was gone before it could be read back",
}

_MOVES = {
    Move.CAME.value: "; it came with its guest from another node",
    Move.LEFT.value: "; the guest has left this node",
    Move.REPLACED.value: "; the guest came back, and its hold was ended or replaced on another node",
}


def time_words(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def entry_line(entry: Entry, *, concluded: bool = False) -> str:
    """``2026-11-20 14:02:11  instance-00000412 vdb  total_iops_sec 500 → 3000   rule "gold"; done   by root``.

    ``concluded`` tells of a change that stood in an earlier line without its result: the time is the result's.
    """
    at = entry.at
    if concluded and isinstance(entry, RecordedChange) and entry.result_at:
        at = entry.result_at
    return f"{time_words(at)}  {entry_words(entry)}"


def entry_words(entry: Entry) -> str:
    """The line without its time."""
    if isinstance(entry, RecordedEvent):
        return f"{_subject(entry.disk)}  {_event_words(entry)}   by {printable(entry.by)}"
    limits = limits_change_words(entry.before, entry.after)
    how = f"{_why(entry)}; {_result_words(entry)}"
    return f"{_subject(entry.disk)}  {limits}   {how}   by {printable(entry.by)}"


def _subject(disk: DiskName | None) -> str:
    return "this node" if disk is None else f"{printable(disk.guest_name)} {printable(disk.target)}"


def _event_words(event: RecordedEvent) -> str:
    if event.what is Happening.RECORD_STARTED:
        aside = None if event.reason is None else event.reason.facts.get("instead_of")
        return f"record begun in place of {printable(str(aside))}, which was damaged" if aside else "record begun"
    what = event.what.value.replace("-", " ")
    if event.reason is None:
        return what
    early = event.reason.facts.get("ended")
    told = f"; ended early: {printable(str(early))}" if early else ""
    told += _MOVES.get(str(event.reason.facts.get("moved")), "")
    return f"{what}: {reason_words(event.reason)}{told}"


def _why(change: RecordedChange) -> str:
    why = reason_words(change.reason)
    return f"{why} ({reason_words(Reason(change.cause))})" if change.cause in BY_OTHERS else why


def reason_words(reason: Reason) -> str:
    """The sentence of a recorded reason, or its code where a fact of the sentence is missing or odd."""
    try:
        return words(reason)
    except (LookupError, AttributeError, TypeError, ValueError):  # a fact that another version did not write
        return reason.code.value


def _result_words(change: RecordedChange) -> str:
    detail = f" ({printable(change.detail)})" if change.detail else ""
    counted = "" if change.last_at is None else f", {change.times} times until {time_words(change.last_at)}"
    again = "" if change.retried_at is None else f"; again at {time_words(change.retried_at)}: "
    return _RESULTS[change.result] + detail + counted + (again and again + _RESULTS[change.retried_result])


def entry_data(entry: Entry) -> dict[str, object]:
    """An entry with its ``kind``; a disk is named as in every other list, all else as its column is."""
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
            "edition": entry.edition,
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


def verified_lines(verified: Verified) -> Iterator[str]:
    """A line for each fault; without one, what there is."""
    if verified.faults:
        yield from map(_fault_words, verified.faults)
        return
    counted = f"{_number(verified.changes, 'change')} and {_number(verified.events, 'event')}"
    span = (
        f", from {time_words(verified.first)} to {time_words(verified.last)} UTC"
        if verified.first and verified.last
        else ""
    )
    yield f"{counted}, ids without a gap{span}"
    if verified.since:
        yield f"all entries since {time_words(verified.since)} UTC; of older ones the newest change of each disk"
    if verified.open:
        yield f"{_number(verified.open, 'change')} without a result yet: the next pass finds it out"
    if verified.instead_of:
        yield f"what was recorded before is in {printable(verified.instead_of)}, which was damaged and set aside"


def verified_data(verified: Verified) -> dict[str, object]:
    return {
        "changes": verified.changes,
        "events": verified.events,
        "open": verified.open,
        "first": verified.first and verified.first.isoformat(),
        "last": verified.last and verified.last.isoformat(),
        "instead_of": verified.instead_of,
        "since": verified.since and verified.since.isoformat(),
        "faults": [
            {
                "flaw": fault.flaw.value,
                "table": fault.table or None,
                "first": fault.first or None,
                "last": fault.last or None,
                "detail": fault.detail or None,
            }
            for fault in verified.faults
        ],
    }


def _number(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _fault_words(fault: Fault) -> str:
    which = f"{fault.table} {fault.first}" + (f" to {fault.last}" if fault.last > fault.first else "")
    match fault.flaw:
        case Flaw.BROKEN:
            return f"the file is damaged: {printable(fault.detail)}"
        case Flaw.MISSING:
            return f"{which}: missing, taken out by somebody"
        case Flaw.UNREADABLE:
            return f"{which}: cannot be read: {printable(fault.detail)}"
        case Flaw.COUNTER:
            return f"{fault.table}: the ids go on to {fault.last}, and only {fault.first} were given"


# --- at a moment of the past


def in_force_lines(found: InForce) -> Iterator[str]:
    """A line that says what was in force, and what is not known of that below it."""
    volume = f" ({found.disk.volume_id})" if found.disk.volume_id else ""
    name = f"{_subject(found.disk)}{volume}"
    change, unsure, later = found.change, found.unsure, found.found_next
    if found.limits is None:
        yield f"{name}  not known: no change up to then is recorded"
    elif change is not None:
        when = f"since {time_words(change.result_at or change.at)}: {_why(change)}   by {printable(change.by)}"
        yield f"{name}  {short_limits(found.limits)}   {when} (change {change.id})"
    else:
        seen = "" if found.seen is None else f", as found at {time_words(found.seen)}"
        yield f"{name}  {short_limits(found.limits)}   not set by plimsoll{seen}"
    if unsure is not None:
        until = "is not known yet" if found.unsure_until is None else f"was known at {time_words(found.unsure_until)}"
        how = f"change {unsure.id} of {time_words(unsure.at)} by {printable(unsure.by)}; whether it took {until}"
        yield f"  or already {short_limits(unsure.after)}: {how}"
    if later is not None:
        what = "something else had set" if found.limits is not None else "the first change found"
        yield f"  {what} {short_limits(later.before)} by {time_words(later.at)} (change {later.id})"


def in_force_data(found: InForce, moment: datetime) -> dict[str, object]:
    unsure, later = found.unsure, found.found_next
    return _disk_data(found.disk) | {
        "at": moment.isoformat(),
        "limits": None if found.limits is None else found.limits.in_effect(),
        "seen": found.seen and found.seen.isoformat(),
        "change": None if found.change is None else entry_data(found.change),
        "unsure": None if unsure is None else entry_data(unsure),
        "unsure_until": found.unsure_until and found.unsure_until.isoformat(),
        "found_next": None if later is None else entry_data(later),
    }
