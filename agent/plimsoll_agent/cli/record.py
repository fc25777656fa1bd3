"""``plimsoll record``: lists or follows the changes on this node."""

from __future__ import annotations

import argparse
import json
import os
import select
import time
from collections.abc import Iterator
from datetime import datetime

from plimsoll_agent.app.context import now_of, state_of
from plimsoll_agent.app.record_follow import Following
from plimsoll_agent.command import table
from plimsoll_agent.command.base import LocalCommand, add_verbose, text_of
from plimsoll_agent.command.moments import moment_of
from plimsoll_agent.command.table import Cell
from plimsoll_agent.errors import UsageError
from plimsoll_agent.messages.record import (
    actual_data,
    actual_lines,
    entry_data,
    entry_line,
    time_words,
    verified_data,
    verified_lines,
)
from plimsoll_agent.store import record_query
from plimsoll_agent.store.actual import actual
from plimsoll_agent.store.entries import Ending, Entry
from plimsoll_agent.store.record import CorruptRecord, Record
from plimsoll_agent.store.record_query import UNDER_WAY, Selection

_LISTED = 50
_BEFORE_FOLLOWING = 10
_RESULTS = [*(result.value for result in Ending), UNDER_WAY]


class RecordList(LocalCommand):
    """List the changes that plimsoll made on this node, and the decisions of operators.

    Oldest first; the last 50 entries by default. Times are in UTC. MOMENT is a time (2026-11-20T14:00, in UTC unless
    it has a time zone), a date (its midnight), today, yesterday, or a duration ago (90s, 30m, 2h, 3d, 1d12h).

    Exit status: 0; 1 error, or a fault found by --verify; 64 usage.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--disk", help="only this disk, by its target (vda) or volume ID")
        parser.add_argument("--guest", help="only this guest, by its libvirt name or UUID")
        parser.add_argument("--project", help="only guests of this project, by its ID")
        parser.add_argument("--since", metavar="MOMENT", help="only since this time")
        parser.add_argument("--until", metavar="MOMENT", help="only before this time")
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
            "--limit", metavar="N", type=int, help="the last N entries, 0 for all; default: 50, with --follow 10"
        )
        parser.add_argument(
            "-f",
            "--format",
            choices=("text", "json", "yaml"),
            default="text",
            help="default: text; with --follow, JSON is one object per line",
        )
        add_verbose(parser)
        parser.add_argument(
            "named",
            nargs="*",
            metavar="NAME",
            help="with --at: a volume ID, or a guest and its disk (target or volume ID)",
        )
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--at", metavar="MOMENT", help="show the limits at this time, and the change that set them")
        what.add_argument(
            "--follow", action="store_true", help="keep printing new entries, and the results of open changes"
        )
        what.add_argument("--verify", action="store_true", help="check the record for damage instead")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        state = state_of(self.settings(parsed_args))
        now, record = now_of(state), Record(state.record)
        self._exact = self.wants_exact(parsed_args)
        selection = selected(parsed_args, now)
        if parsed_args.named and parsed_args.at is None:
            raise UsageError("NAME needs --at; to filter the list use --guest, --disk")
        try:
            if parsed_args.at is not None:
                self._at(record, parsed_args, now)
                return 0
            if parsed_args.verify:
                return self._verify(record, parsed_args)
            if parsed_args.follow:
                self._follow(record, selection, parsed_args)
            else:
                self._list(record, selection, parsed_args)
            self.app.stdout.flush()
        except KeyboardInterrupt:
            pass
        except BrokenPipeError:  # as with | head
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.app.stdout.fileno())
        return 0

    def _verify(self, record: Record, parsed_args: argparse.Namespace) -> int:
        if not record.exists():
            self._say("nothing is recorded yet" if parsed_args.format == "text" else "null")
            return 0
        verified = record_query.verify(record)
        if parsed_args.format != "text":
            self._say(text_of(verified_data(verified), parsed_args.format))
        else:
            for line in verified_lines(verified):
                self._say(line)
        return 1 if verified.faults else 0

    def _at(self, record: Record, parsed_args: argparse.Namespace, now: datetime) -> None:
        moment, since = moment_of("--at", parsed_args.at, now), record.since()
        if not 1 <= len(parsed_args.named) <= 2:
            raise UsageError("--at needs a disk: give a volume ID, or a guest and its disk")
        if moment > now:
            raise UsageError(f"--at {parsed_args.at} is in the future")
        if since is not None and moment < since:
            raise UsageError(f"--at {parsed_args.at}: the record starts at {time_words(since)} UTC")
        guest, *disk = parsed_args.named
        found = actual(record, moment, guest, disk[0] if disk else None)
        if not found:
            raise UsageError(
                f"the record has no change of a disk {' '.join(parsed_args.named)!r}; see: plimsoll record"
            )
        if parsed_args.format != "text":
            self._say(text_of([actual_data(one, moment) for one in found], parsed_args.format))
            return
        for line in (line for one in found for line in actual_lines(one, exact=self._exact)):
            self._say(line)

    def _list(self, record: Record, selection: Selection, parsed_args: argparse.Namespace) -> None:
        limit = parsed_args.limit
        left_out = False
        entries: Iterator[Entry]
        if limit == 0:
            entries = record_query.entries(record, selection)
        else:
            found = record_query.newest(record, selection, (limit or _LISTED) + 1)
            left_out = limit is None and len(found) > _LISTED
            entries = iter(found[-(limit or _LISTED) :])
        if parsed_args.format == "json":
            self._list_json(entries)
        elif parsed_args.format == "yaml":
            self._list_yaml(entries)
        elif not record.exists():
            self._say("nothing is recorded yet")
        else:
            number = 0
            for entry in entries:
                self._say_entry(entry_line(entry, exact=self._exact))
                number += 1
            if not number:
                self._say("no such entries")
        if left_out:
            self.app.stderr.write(f"only the last {_LISTED} entries; --limit 0 lists all\n")

    def _list_json(self, entries: Iterator[Entry]) -> None:
        """Write the array entry by entry: a record may be larger than memory."""
        between = "["
        for entry in entries:
            self.app.stdout.write(f"{between}\n{json.dumps(entry_data(entry))}")
            between = ","
        self.app.stdout.write("[]\n" if between == "[" else "\n]\n")

    def _list_yaml(self, entries: Iterator[Entry]) -> None:
        empty = True
        for entry in entries:
            self._say(text_of([entry_data(entry)], "yaml"))
            empty = False
        if empty:
            self._say("[]")

    def _follow(self, record: Record, selection: Selection, parsed_args: argparse.Namespace) -> None:
        limit = _BEFORE_FOLLOWING if parsed_args.limit is None else parsed_args.limit
        following = Following(record, selection)
        complaint = None
        told = following.start(limit)
        while True:
            try:
                for entry, concluded in told:
                    if parsed_args.format == "text":
                        self._say_entry(entry_line(entry, concluded=concluded, exact=self._exact))
                    elif parsed_args.format == "json":
                        self._say(json.dumps(entry_data(entry)))
                    else:
                        self._say(text_of([entry_data(entry)], "yaml"))
                complaint = None
            except CorruptRecord as error:  # the next pass moves it aside, and starts a new one
                if complaint is None:
                    complaint = str(error)
                    self.app.stderr.write(f"{complaint}\n")
            self.app.stdout.flush()
            if not self._wait():
                return
            told = following.new()

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


def selected(parsed_args: argparse.Namespace, now: datetime) -> Selection:
    """Raises ``UsageError``."""
    if parsed_args.limit is not None and parsed_args.limit < 0:
        raise UsageError("--limit must be 0 or more")
    since, until = (
        None if text is None else moment_of(option, text, now)
        for option, text in (("--since", parsed_args.since), ("--until", parsed_args.until))
    )
    if since is not None and until is not None and since >= until:
        raise UsageError("--since must be before --until")
    return Selection(
        disk=parsed_args.disk,
        guest=parsed_args.guest,
        project=parsed_args.project,
        since=since,
        until=until,
        reason=parsed_args.reason,
        result=parsed_args.result,
    )
