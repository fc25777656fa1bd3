"""Sends entries of the record to the journal too, as fields."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial

from plimsoll_agent.adapters.journal import SystemJournal
from plimsoll_agent.messages.record import entry_words, reason_words
from plimsoll_agent.model.disk import DiskName
from plimsoll_agent.model.entries import Entry, RecordedEvent

CHANGE = "3d23c503be14461182a49385fced6db5"
"""``MESSAGE_ID`` of a change of a limit."""
EVENT = "11b6cb2ea0be4b1bbde5816019ebb1e4"
"""``MESSAGE_ID`` of an operator's decision."""
_NOTICE = "5"


def fields(entry: Entry) -> dict[str, str]:
    """The fields of the journal, without empty ones."""
    values = {"MESSAGE": entry_words(entry), "PRIORITY": _NOTICE, "SYSLOG_IDENTIFIER": "plimsoll"}
    values |= {f"PLIMSOLL_{name}": value for name, value in _facts(entry).items() if value}
    if entry.reason is not None:
        values |= {"PLIMSOLL_REASON": entry.reason.code.value, "PLIMSOLL_WHY": reason_words(entry.reason)}
    return values | _named(entry.disk)


def _facts(entry: Entry) -> dict[str, str | None]:
    if isinstance(entry, RecordedEvent):
        return {"WHAT": entry.what.value, "WHO": entry.by}
    return {
        "BEFORE": json.dumps(entry.before.in_effect()),
        "AFTER": json.dumps(entry.after.in_effect()),
        "DIRECTION": entry.direction.value,
        "CAUSE": entry.cause.value,
        "WHO": entry.by,
        "REVISION": entry.revision,
        "RESULT": entry.result.value if entry.result else "not-recorded",
        "DETAIL": entry.detail,
        "RECORD_ID": str(entry.id) if entry.id else None,
    }


def _named(disk: DiskName | None) -> dict[str, str]:
    if disk is None:
        return {}
    values = {
        "GUEST": disk.guest_name,
        "GUEST_UUID": disk.guest_uuid,
        "PROJECT": disk.project,
        "DISK": disk.target,
        "VOLUME": disk.volume_id,
        "POOL": disk.pool,
        "IMAGE": disk.image,
    }
    return {f"PLIMSOLL_{name}": value for name, value in values.items() if value}


def tell(journal: SystemJournal, entries: Iterable[Entry]) -> None:
    """Send them, each with the ``MESSAGE_ID`` of its kind."""
    journal.send(
        *({"MESSAGE_ID": EVENT if isinstance(entry, RecordedEvent) else CHANGE} | fields(entry) for entry in entries)
    )


to_journal = partial(tell, SystemJournal())
"""For those who write the record of this node."""
