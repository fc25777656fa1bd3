"""``plimsoll record``: lists or follows the changes on this node."""

from __future__ import annotations

import argparse
import json
import os
import select
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, islice
from typing import Any

from plimsoll_agent.app.node import now_of, state_of
from plimsoll_agent.app.record_follow import FollowedRecord
from plimsoll_agent.cli import server_column, server_names
from plimsoll_agent.errors import UsageError
from plimsoll_agent.messages.record import (
    actual_data,
    actual_lines,
    entry_cells,
    entry_data,
    entry_line,
    time_words,
    verified_data,
    verified_lines,
)
from plimsoll_agent.messages.tones import TONES
from plimsoll_agent.model.entries import Ending, Entry
from plimsoll_agent.store import record_query
from plimsoll_agent.store.actual import actual
from plimsoll_agent.store.record import CorruptRecord, Record
from plimsoll_agent.store.record_query import UNDER_WAY, Selection
from plimsoll_agent.store.state import State, StateError
from plimsoll_agent.terminal import table
from plimsoll_agent.terminal.base import LocalCommand, add_verbose, text_of
from plimsoll_agent.terminal.columns import NOTHING, Column, guest_column
from plimsoll_agent.terminal.formats import Shown
from plimsoll_agent.terminal.listing import Listing, chosen_of, ordered
from plimsoll_agent.terminal.moments import add_window, ends, moment_of
from plimsoll_agent.terminal.table import Cell
from plimsoll_agent.util.text import printable

_LISTED = 50
_BEFORE_FOLLOWING = 10
_RESULTS = [*(result.value for result in Ending), UNDER_WAY]

_NO_RECORD = "No limit was changed yet: enforce, daemon and decisions of operators are recorded here."
_NO_GUEST = "No guest {} in the record or the last pass; names of servers that left are unknown here."


class RecordList(LocalCommand, Listing):
    """List the changes of limits and operators' decisions.

    Oldest first; the last 50 entries by default. Times are in UTC, and so is MOMENT without a zone; a time of the day
    is the last one. With --follow, -f json prints one object per line.

    Exit status:
        0   done
        1   error, or a fault found by --verify
        64  usage

    Examples:
        plimsoll record --since 2h
        plimsoll record instance-00000412 vda --at 14:00
        plimsoll record --follow -f json
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--disk", help="only this disk, by its target (vda) or volume ID")
        parser.add_argument("--guest", help="only this guest, by its libvirt name, UUID or server name")
        parser.add_argument("--project", help="only guests of this project, by its ID")
        add_window(parser, "only entries")
        parser.add_argument(
            "--reason",
            help="only with this reason, cause or event (a code as in -f json), or a rule's name",
        )
        parser.add_argument(
            "--result",
            metavar="RESULT",
            choices=_RESULTS,
            help=f"only changes with this result: {', '.join(_RESULTS)}",
        )
        parser.add_argument(
            "--last", metavar="N", type=int, help="the last N entries, 0 for all; default: 50, with --follow 10"
        )
        add_verbose(parser)
        parser.add_argument(
            "named",
            nargs="*",
            metavar="NAME",
            help="with --at: a volume ID, or a guest as in --guest and its disk (target or volume ID)",
        )
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--at", metavar="MOMENT", help="show the limits at this time, and the change that set them")
        what.add_argument(
            "--follow", action="store_true", help="keep printing new entries, and the results of open changes"
        )
        what.add_argument("--verify", action="store_true", help="check the record for damage instead")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        state = state_of(self.settings(parsed_args))
        now, record, self._state = now_of(state), Record(state.record), state
        self._exact, self._left_out = self.wants_exact(parsed_args), False
        word = parsed_args.guest
        parsed_args.guest = self._guest(state, word)
        parsed_args.named[:1] = [self._guest(state, word) for word in parsed_args.named[:1]]
        selection = selected(parsed_args, now)
        if parsed_args.named and parsed_args.at is None:
            raise UsageError("NAME needs --at; to filter the list use --guest, --disk")
        self._is_list = not (parsed_args.at or parsed_args.verify or parsed_args.follow)
        if self._is_list:
            self.empty = "No such entries; plimsoll record lists the last ones." if record.is_there() else _NO_RECORD
            entries = self._entries(record, selection, parsed_args.last)
            first = list(islice(entries, 1))
            if word is not None and not first and record.is_there() and self._is_unknown(state, record, selection):
                self.empty = _NO_GUEST.format(printable(word))
                if parsed_args.formatter != "table" or parsed_args.columns:  # without a line for people
                    self.warn_of(self.empty)
            return COLUMNS, chain(first, entries)
        if parsed_args.formatter in ("csv", "value"):
            raise UsageError(f"-f {parsed_args.formatter} is for lists; with --at, --follow and --verify use -f json")
        parsed_args.format = "text" if parsed_args.formatter == "table" else parsed_args.formatter
        try:
            if parsed_args.at is not None:
                self._at(record, parsed_args, now)
            elif parsed_args.verify:
                self.status = self._verify(record, parsed_args)
            else:
                self._follow(record, selection, parsed_args)
            self.app.stdout.flush()
        except KeyboardInterrupt:
            pass
        except BrokenPipeError:
            self._reader_gone()
        return (), ()

    def _guest(self, state: State, word: str | None) -> str | None:
        """The uuid of the guest whose server has this name, else the word. Raises ``UsageError`` for several."""
        if word is None:
            return None
        try:
            server = server_names.of_last_pass(state, word)
        except StateError as error:
            self.warn_of(f"{error}; names of servers are unknown")
            return word
        return word if server is None else server.uuid

    def _is_unknown(self, state: State, record: Record, selection: Selection) -> bool:
        """Whether the guest that was asked for is neither in the record nor in the last pass."""
        word = selection.guest or ""
        try:
            is_here = server_names.in_last_pass(state, word) or server_names.in_last_pass(state, word.lower())
        except StateError:  # ``_guest`` has warned of it
            return False
        return not is_here and not record_query.guest_names(record) & {word, word.lower()}

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Iterable[Any]
    ) -> int:
        if not self._is_list:
            return 0
        names = server_column.names_of(self._state, self)
        try:
            if parsed_args.formatter in ("json", "yaml"):
                say = self._list_json if parsed_args.formatter == "json" else self._list_yaml
                say(_data(data, names, self._exact, parsed_args))
            else:
                rows = (_cells(entry, names, self._exact) for entry in data)
                super().produce_output(parsed_args, column_names, rows)
            self.app.stdout.flush()
        except KeyboardInterrupt:
            pass
        except BrokenPipeError:
            self._reader_gone()
        if self._left_out:
            self.app.stderr.write(f"only the last {_LISTED} entries; --last 0 lists all\n")
        return 0

    def _reader_gone(self) -> None:
        """As with ``| head``."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.app.stdout.fileno())

    def _verify(self, record: Record, parsed_args: argparse.Namespace) -> int:
        if not record.is_there():
            self._say(_NO_RECORD if parsed_args.format == "text" else "null")
            return 0
        verification = record_query.verify(record)
        if parsed_args.format != "text":
            self._say(text_of(verified_data(verification), parsed_args.format))
        else:
            for line in verified_lines(verification):
                self._say(line)
        return 1 if verification.faults else 0

    def _at(self, record: Record, parsed_args: argparse.Namespace, now: datetime) -> None:
        moment, since = moment_of("--at", parsed_args.at, now), record.since()
        if not 1 <= len(parsed_args.named) <= 2:
            raise UsageError("--at needs a disk: give a volume ID, or a guest and its disk")
        if moment > now:
            raise UsageError(f"--at {parsed_args.at} is in the future")
        if since is not None and moment < since:
            raise UsageError(f"--at {parsed_args.at}: the record starts at {time_words(since)} UTC")
        guest, *disk = parsed_args.named
        answers = actual(record, moment, guest, disk[0] if disk else None)
        if not answers:
            raise UsageError(
                f"the record has no change of a disk {' '.join(parsed_args.named)!r}; see: plimsoll record"
            )
        if parsed_args.format != "text":
            self._say(text_of([actual_data(one, moment) for one in answers], parsed_args.format))
            return
        for line in (line for one in answers for line in actual_lines(one, exact=self._exact)):
            self._say(line)

    def _entries(self, record: Record, selection: Selection, limit: int | None) -> Iterator[Entry]:
        if limit == 0:
            return record_query.entries(record, selection)
        entries = record_query.newest(record, selection, (limit or _LISTED) + 1)
        self._left_out = limit is None and len(entries) > _LISTED
        return iter(entries[-(limit or _LISTED) :])

    def _list_json(self, entries: Iterable[dict[str, object]]) -> None:
        """Write the array entry by entry: a record may be larger than memory."""
        between = "["
        for entry in entries:
            self.app.stdout.write(f"{between}\n{json.dumps(entry)}")
            between = ","
        self.app.stdout.write("[]\n" if between == "[" else "\n]\n")

    def _list_yaml(self, entries: Iterable[dict[str, object]]) -> None:
        empty = True
        for entry in entries:
            self._say(text_of([entry], "yaml"))
            empty = False
        if empty:
            self._say("[]")

    def _follow(self, record: Record, selection: Selection, parsed_args: argparse.Namespace) -> None:
        limit = _BEFORE_FOLLOWING if parsed_args.last is None else parsed_args.last
        following = FollowedRecord(record, selection)
        complaint = None
        entries, names = following.start(limit), server_column.names_of(self._state, self)
        is_read = True
        """In this round: the disks of a guest that is gone are in no pass."""
        while True:
            try:
                for entry, is_result in entries:
                    if not is_read and entry.disk is not None and entry.disk.guest_uuid not in names:
                        names, is_read = server_column.names_of(self._state, self), True  # a guest that came since
                    data = _named(entry, names)
                    if parsed_args.format == "text":
                        server = None if data["server"] is None else str(data["server"])
                        line = entry_line(entry, server=server, concluded=is_result, exact=self._exact)
                        self._say_entry(line)
                    elif parsed_args.format == "json":
                        self._say(json.dumps(data))
                    else:
                        self._say(text_of([data], "yaml"))
                complaint = None
            except CorruptRecord as error:  # the next pass moves it aside, and starts a new one
                if complaint is None:
                    complaint = str(error)
                    self.warn_of(complaint)
            self.app.stdout.flush()
            if not self._wait():
                return
            entries, is_read = following.new(), False

    def _wait(self) -> bool:
        """Wait a second; False when the reader is gone."""
        try:
            output = self.app.stdout.fileno()
        except (OSError, ValueError):
            time.sleep(1)
            return True
        poll = select.poll()
        poll.register(output, 0)  # errors and hang-ups only
        return not poll.poll(1000)

    def _say_entry(self, line: str) -> None:
        """On a terminal, what does not fit stands below the first words, right of the time."""
        at, _, words = line.partition("  ")
        for part in table.pairs([(Cell(at), Cell(words))], self.terminal):
            self._say(part)

    def _say(self, line: str) -> None:
        print(self.app.for_journal(line), file=self.app.stdout)


_PEOPLE = ("at", "guest", "after", "result", "reason")
COLUMNS = (
    Column("at", head="AT (UTC)"),
    server_column.SERVER,
    guest_column(drop=2),
    Column("disk", most=12),
    Column("after", head="CHANGE", wraps=True),
    Column("reason", wraps=True, note=True),
    Column("result", wraps=True),
    Column("by", drop=1, most=24),
    *(
        Column(name, long=True)
        for name in (
            *("kind", "id", "what", "before", "direction", "cause", "detail", "result_at", "times", "last_at"),
            *("retried_at", "retried_result", "guest_uuid", "project", "volume", "pool", "image", "key"),
            *("attachment", "revision", "rules"),
        )
    ),
)


def _named(entry: Entry, names: Mapping[str, str | None]) -> dict[str, object]:
    """An entry's data with the name of its server."""
    return entry_data(entry) | {"server": entry.disk and names.get(entry.disk.guest_uuid)}


def _cells(entry: Entry, names: Mapping[str, str | None], exact: bool) -> Sequence[object]:
    """In the order of ``COLUMNS``; ``at`` is when a change was intended."""
    data, people = entry_data(entry), entry_cells(entry, exact=exact)
    data["server"] = server_column.cell(names, entry.disk)
    data["at"] = data.get("intended_at", data.get("at"))
    tones = {"result": TONES.get(str(data.get("result")))}
    return [
        Shown(data.get(name), people.get(name) or NOTHING, tones.get(name)) if name in _PEOPLE else data.get(name)
        for name in COLUMNS
    ]


def _data(
    entries: Iterable[Entry], names: Mapping[str, str | None], exact: bool, parsed_args: argparse.Namespace
) -> Iterator[dict[str, object]]:
    """Entries with the keys of their kind, of which the columns that were chosen."""
    keys = {str(COLUMNS[number]) for number in chosen_of(COLUMNS, parsed_args)}
    keys |= {"intended_at"} if "at" in keys else set()
    if parsed_args.sort_columns:
        rows = ordered([(*_cells(entry, names, exact), entry) for entry in entries], COLUMNS, parsed_args)
        entries = (row[-1] for row in rows)
    for entry in entries:
        yield {name: value for name, value in _named(entry, names).items() if not keys or name in keys}


def selected(parsed_args: argparse.Namespace, now: datetime) -> Selection:
    """Raises ``UsageError``."""
    if parsed_args.last is not None and parsed_args.last < 0:
        raise UsageError("--last must be 0 or more")
    since, until = ends(parsed_args, now)
    return Selection(
        disk=parsed_args.disk,
        guest=parsed_args.guest,
        project=parsed_args.project,
        since=since,
        until=until,
        reason=parsed_args.reason,
        result=parsed_args.result,
    )
