"""``plimsoll record``: what was changed on this node and by whom, as a list or as it comes."""

from __future__ import annotations

import argparse
import json
import os
import select
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from plimsoll_agent import history, spans
from plimsoll_agent.cli.base import LocalCommand
from plimsoll_agent.cli.standing import now_of, state_of
from plimsoll_agent.entries import Entry, RecordedChange, RecordedEvent, Verdict
from plimsoll_agent.errors import UsageError
from plimsoll_agent.history import START, UNDER_WAY, Position, Selection
from plimsoll_agent.inforce import in_force
from plimsoll_agent.record import CorruptRecord, Record
from plimsoll_agent.record_words import (
    entry_data,
    entry_line,
    in_force_data,
    in_force_lines,
    time_words,
    verified_data,
    verified_lines,
)

_LISTED = 50
_BEFORE_FOLLOWING = 10


class RecordList(LocalCommand):
    """List what plimsoll changed on this node, and what operators told it.

    Oldest first; the last 50 entries unless --limit or --follow says otherwise. Times are in UTC. A moment is
    a time (2026-11-20T14:00, in UTC unless it has a zone of its own), a date (its midnight), today, yesterday,
    or a span back from now (90s, 30m, 2h, 3d, 1d12h).

    Exit status: 0, 1 trouble or a fault found by --verify, 64 usage.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--disk", help="only this disk, by its target (vda) or the id of its volume")
        parser.add_argument("--guest", help="only this guest, by libvirt's name or uuid")
        parser.add_argument("--project", help="only guests of this project, by its id")
        parser.add_argument("--since", metavar="MOMENT", help="only from this moment on")
        parser.add_argument("--until", metavar="MOMENT", help="only before this moment")
        parser.add_argument(
            "--reason",
            help="only for this reason: a code as in -f json, of a cause or an event too, or a rule's name",
        )
        parser.add_argument(
            "--result",
            choices=[*(verdict.value for verdict in Verdict), UNDER_WAY],
            help="only changes that ended so",
        )
        parser.add_argument(
            "--limit", metavar="N", type=int, help="the last N entries, 0 for all; default: 50, with --follow 10"
        )
        parser.add_argument(
            "-f",
            "--format",
            choices=("text", "json"),
            default="text",
            help="default: text; an object a line in --follow",
        )
        parser.add_argument(
            "named",
            nargs="*",
            metavar="NAME",
            help="with --at: the id of a volume, or a guest, and its disk by target (vdb) or volume id",
        )
        what = parser.add_mutually_exclusive_group()
        what.add_argument(
            "--at", metavar="MOMENT", help="say which limits were in force at this moment, by which change"
        )
        what.add_argument(
            "--follow", action="store_true", help="go on with what comes, and with the results of open changes"
        )
        what.add_argument("--verify", action="store_true", help="look for gaps and damage instead")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        state = state_of(self.settings(parsed_args))
        now, record = now_of(state), Record(state.record)
        selection = selected(parsed_args, now)
        if parsed_args.named and parsed_args.at is None:
            raise UsageError("names go with --at; to list some entries only: --guest, --disk")
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
        except BrokenPipeError:  # who reads has seen enough (| head)
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.app.stdout.fileno())
        return 0

    def _verify(self, record: Record, parsed_args: argparse.Namespace) -> int:
        if not record.exists():
            self._say("nothing is recorded yet" if parsed_args.format == "text" else "null")
            return 0
        verified = history.verify(record)
        if parsed_args.format == "json":
            self._say(json.dumps(verified_data(verified), indent=2))
        else:
            for line in verified_lines(verified):
                self._say(line)
        return 1 if verified.faults else 0

    def _at(self, record: Record, parsed_args: argparse.Namespace, now: datetime) -> None:
        moment, since = moment_of("--at", parsed_args.at, now), record.since()
        if not 1 <= len(parsed_args.named) <= 2:
            raise UsageError("--at is about a disk; give the id of a volume, or a guest and its disk")
        if moment > now:
            raise UsageError(f"--at {parsed_args.at} is still to come")
        if since is not None and moment < since:
            raise UsageError(
                f"--at {parsed_args.at}: entries from before {time_words(since)} UTC were removed from the record"
            )
        guest, *disk = parsed_args.named
        found = in_force(record, moment, guest, disk[0] if disk else None)
        if not found:
            raise UsageError(f"the record has no change of a disk {' '.join(parsed_args.named)!r}")
        if parsed_args.format == "json":
            self._say(json.dumps([in_force_data(one, moment) for one in found], indent=2))
            return
        for line in (line for one in found for line in in_force_lines(one)):
            self._say(line)

    def _list(self, record: Record, selection: Selection, parsed_args: argparse.Namespace) -> None:
        limit = parsed_args.limit
        left_out = False
        entries: Iterator[Entry]
        if limit == 0:
            entries = history.entries(record, selection)
        else:
            found = history.newest(record, selection, (limit or _LISTED) + 1)
            left_out = limit is None and len(found) > _LISTED
            entries = iter(found[-(limit or _LISTED) :])
        if parsed_args.format == "json":
            self._list_json(entries)
        elif not record.exists():
            self._say("nothing is recorded yet")
        else:
            number = 0
            for entry in entries:
                self._say(entry_line(entry))
                number += 1
            if not number:
                self._say("nothing of that kind is recorded")
        if left_out:
            self.app.stderr.write(f"older entries are left out after {_LISTED}; --limit 0 lists all\n")

    def _list_json(self, entries: Iterator[Entry]) -> None:
        """An array, written as it comes: a record may be larger than memory."""
        between = "["
        for entry in entries:
            self.app.stdout.write(f"{between}\n{json.dumps(entry_data(entry))}")
            between = ","
        self.app.stdout.write("[]\n" if between == "[" else "\n]\n")

    def _follow(self, record: Record, selection: Selection, parsed_args: argparse.Namespace) -> None:
        limit = _BEFORE_FOLLOWING if parsed_args.limit is None else parsed_args.limit
        following = Following(record, selection)
        complaint = None
        told = following.start(limit)
        while True:
            try:
                for entry, concluded in told:
                    line = entry_line(entry, concluded=concluded)
                    self._say(line if parsed_args.format == "text" else json.dumps(entry_data(entry)))
                complaint = None
            except CorruptRecord as error:  # the next pass sets it aside, and begins another
                if complaint is None:
                    complaint = str(error)
                    self.app.stderr.write(f"{complaint}\n")
            self.app.stdout.flush()
            if not self._wait():
                return
            told = following.new()

    def _wait(self) -> bool:
        """A second's pause; False when whoever read has gone."""
        try:
            output = self.app.stdout.fileno()
        except (OSError, ValueError):
            time.sleep(1)
            return True
        poll = select.poll()
        poll.register(output, 0)  # errors and hang-ups only
        return not poll.poll(1000)

    def _say(self, line: str) -> None:
        print(self.app.for_journal(line), file=self.app.stdout)


class Following:
    """Where a reader is in a record that grows, and which changes it was told of without their result."""

    def __init__(self, record: Record, selection: Selection) -> None:
        self._record = record
        self._selection = selection
        # Whatever its result is: an open change may end with the one that is asked for.
        self._whatever = replace(selection, result=None)
        self._identity: tuple[int, int] | None = None
        self._position = START
        self._open: dict[int, Verdict | None] = {}

    def start(self, number: int) -> Iterator[tuple[Entry, bool]]:
        """The last ``number`` entries, 0 for all; none of them is told again."""
        self._identity = self._record.identity()
        end = history.end(self._record)
        ids = [change.id for change in self._record.unsettled() if change.id <= end.change]
        self._open = {change.id: change.result for change in history.changes(self._record, ids, self._whatever)}
        self._position = end
        entries = (
            history.newest(self._record, self._selection, number, upto=end)
            if number
            else history.entries(self._record, self._selection, upto=end)
        )
        return ((entry, False) for entry in entries)

    def new(self) -> Iterator[tuple[Entry, bool]]:
        """Entries since the last call, and (with True) those of before whose result has come."""
        identity, end = self._record.identity(), history.end(self._record)
        if identity is None:  # somebody took it away: what comes in its place is another one
            self._identity = None
            return
        if identity != self._identity or end.change < self._position.change or end.event < self._position.event:
            self._identity, self._position, self._open = identity, START, {}
        yield from self._concluded()
        yield from self._added(end)

    def _concluded(self) -> Iterator[tuple[Entry, bool]]:
        for change in history.changes(self._record, self._open, self._whatever):
            if change.open and change.result is self._open[change.id]:
                continue
            if change.open:
                self._open[change.id] = change.result
            else:
                del self._open[change.id]
            if self._is_asked_for(change):
                yield change, True

    def _added(self, end: Position) -> Iterator[tuple[Entry, bool]]:
        for entry in history.entries(self._record, self._whatever, self._position, end):
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


def moment_of(option: str, text: str, now: datetime) -> datetime:
    """What an option means. Raises ``UsageError``."""
    try:
        return moment(text, now)
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"{option} {text!r} is no moment; write it like 2026-11-20, 2026-11-20T14:00, today, yesterday,"
            " or 2h for two hours ago"
        ) from error


def moment(text: str, now: datetime) -> datetime:
    """A time, a date, ``today``, ``yesterday`` or a span back, in UTC. Raises ``ValueError``, ``OverflowError``."""
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if text == "today":
        return midnight
    if text == "yesterday":
        return midnight - timedelta(days=1)
    if text[-1:].isalpha() and not text.endswith("Z"):
        return now - spans.parse(text)
    time = datetime.fromisoformat(text)
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
