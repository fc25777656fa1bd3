"""Follows a record that grows."""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll_agent.model.entries import Ending, Entry, RecordedChange, RecordedEvent
from plimsoll_agent.store import record_query
from plimsoll_agent.store.record import Record
from plimsoll_agent.store.record_query import START, UNDER_WAY, Position, Selection
from plimsoll_agent.util.frozen import replace


class FollowedRecord:
    """A reader's position in a growing record, and the changes that it returned without a result."""

    def __init__(self, record: Record, selection: Selection) -> None:
        self._record = record
        self._selection = selection
        # An open change may get the selected result later.
        self._whatever = replace(selection, result=None)
        self._identity: tuple[int, int] | None = None
        self._position = START
        self._open: dict[int, Ending | None] = {}

    def start(self, number: int) -> Iterator[tuple[Entry, bool]]:
        """The last ``number`` entries, 0 for all; ``new`` does not return them again."""
        self._identity = self._record.identity()
        end = record_query.end(self._record)
        ids = [change.id for change in self._record.unsettled() if change.id <= end.change]
        self._open = {change.id: change.result for change in record_query.changes(self._record, ids, self._whatever)}
        self._position = end
        entries = (
            record_query.newest(self._record, self._selection, number, upto=end)
            if number
            else record_query.entries(self._record, self._selection, upto=end)
        )
        return ((entry, False) for entry in entries)

    def new(self) -> Iterator[tuple[Entry, bool]]:
        """Entries since the last call, and (with True) earlier ones that got their result since."""
        identity, end = self._record.identity(), record_query.end(self._record)
        if identity is None:  # it was removed: the next file is another record
            self._identity = None
            return
        if identity != self._identity or end.change < self._position.change or end.event < self._position.event:
            self._identity, self._position, self._open = identity, START, {}
        yield from self._concluded()
        yield from self._added(end)

    def _concluded(self) -> Iterator[tuple[Entry, bool]]:
        for change in record_query.changes(self._record, self._open, self._whatever):
            if change.open and change.result is self._open[change.id]:
                continue
            if change.open:
                self._open[change.id] = change.result
            else:
                del self._open[change.id]
            if self._is_asked_for(change):
                yield change, True

    def _added(self, end: Position) -> Iterator[tuple[Entry, bool]]:
        for entry in record_query.entries(self._record, self._whatever, self._position, end):
            if isinstance(entry, RecordedEvent):
                self._position = replace(self._position, event=entry.id)
            else:
                self._position = replace(self._position, change=entry.id)
                if entry.open:
                    self._open[entry.id] = entry.result
            if self._is_asked_for(entry):
                yield entry, False
        self._position = end

    def _is_asked_for(self, entry: Entry) -> bool:
        if self._selection.result is None:
            return True
        return isinstance(entry, RecordedChange) and (entry.result or UNDER_WAY) == self._selection.result
