"""What ``disk hold`` and ``disk acknowledge`` share: which entries of operators are meant, kept, and listed."""

from __future__ import annotations

import argparse
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from plimsoll_agent.app.audit import to_journal
from plimsoll_agent.app.context import who
from plimsoll_agent.app.node import now_of, state_of
from plimsoll_agent.cli import server_column, server_names
from plimsoll_agent.cli.disk import GUEST_HELP
from plimsoll_agent.cli.many import add_many, one_or_many
from plimsoll_agent.cli.server_names import NamedServer
from plimsoll_agent.errors import UsageError
from plimsoll_agent.messages import sentences
from plimsoll_agent.model.acknowledged import Acknowledgement
from plimsoll_agent.model.entries import Event
from plimsoll_agent.model.holds import Hold
from plimsoll_agent.store.node_store import NodeStore
from plimsoll_agent.store.record import Record
from plimsoll_agent.store.state import Memory, State
from plimsoll_agent.terminal.base import LocalCommand, OneLineErrors
from plimsoll_agent.terminal.columns import Column, guest_column
from plimsoll_agent.terminal.formats import Shown
from plimsoll_agent.terminal.listing import Listing
from plimsoll_agent.util import durations
from plimsoll_agent.util.text import minute, printable

OR_A_RULE = "; use a rule for permanent limits"
"""After the error about a longer time than operators decide for."""
Given = TypeVar("Given", Hold, Acknowledgement)


def columns_with(*own: Column) -> tuple[Column, ...]:
    return (
        server_column.SERVER,
        guest_column(drop=4),
        Column("disk", most=12),
        Column("volume", drop=1),
        *own,
        Column("since", drop=2),
        Column("until"),
        Column("left", drop=3),
        Column("by", most=16),
        Column("reason", wraps=True),
    )


class OperatorEntryList(LocalCommand, Listing):
    """What operators decided about disks until some time."""

    none = ""
    columns = columns_with()

    @abstractmethod
    def entries(self, memory: Memory) -> Iterable[Hold | Acknowledgement]: ...

    def own_cells(self, entry: Any) -> tuple[object, ...]:
        return ()

    def why(self, entry: Any) -> object:
        return entry.why

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        state = state_of(self.settings(parsed_args))
        now, node_store = now_of(state), NodeStore(state, who())
        memory = node_store.recall(now, read_only=True)
        tell_notes(node_store, self)
        self.status, names = int(bool(node_store.notes)), server_column.names_of(state, self)
        self.empty = "" if self.status else self.none
        active = [each for each in self.entries(memory) if not each.ended(now)]
        return self.columns, [
            (
                server_column.cell(names, each.disk),
                each.disk.guest_name,
                each.disk.target,
                Shown(each.disk.volume_id, each.disk.volume_id or "(own disk)"),
                *self.own_cells(each),
                Shown(each.since.isoformat(timespec="seconds"), minute(each.since)),
                Shown(each.until.isoformat(timespec="seconds"), minute(each.until)),
                Shown(int((each.until - now).total_seconds()), durations.words(each.until - now)),
                each.by,
                self.why(each),
            )
            for each in sorted(active, key=lambda each: each.until)
        ]


def save(state: State, memory: Memory, events: Sequence[Event]) -> None:
    """Write the record first, then the memory. Raises ``StateError``."""
    Record(state.record, to_journal).note(events)
    state.save_memory(memory)


def tell_notes(node_store: NodeStore, command: OneLineErrors) -> None:
    for note in node_store.notes:
        command.warn_of(sentences.note_words(note))


def add_choice(parser: argparse.ArgumentParser, what: str) -> None:
    """The arguments that choose disks of those that are held, or whatever ``what`` says."""
    parser.add_argument("guest", nargs="?", help=GUEST_HELP)
    parser.add_argument(
        "disk", nargs="?", help=f"the disk, by its target (vda) or volume ID; optional if only one is {what}"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask whether a server name means this guest")
    add_many(parser)


def server_of(parsed_args: argparse.Namespace, entries: Iterable[Given], state: State) -> NamedServer | None:
    """The server that the arguments name; they get the name of its guest. A guest of the entries comes first.

    Raises ``UsageError``, and ``StateError`` where the last pass is needed and cannot be read.
    """
    word = parsed_args.guest
    if word is None or any(each.disk.means(word, parsed_args.disk) for each in entries):
        return None
    server = server_names.of_last_pass(state, word)
    if server is not None:
        parsed_args.guest = server.guest_name
    return server


def all_chosen(
    parsed_args: argparse.Namespace, entries: Iterable[Given], now: datetime, none: str, state: State
) -> list[Given]:
    """The active ones that the arguments mean, as ``chosen`` or as the options choose. Raises ``UsageError``."""
    choice = one_or_many(parsed_args)
    if choice is None:
        return [chosen(parsed_args, entries, now, none)]
    active = [each for each in entries if not each.ended(now)]
    keys = choice.named([each.disk for each in active], state)
    return [each for each in active if each.disk.key in keys]


def chosen(parsed_args: argparse.Namespace, entries: Iterable[Given], now: datetime, none: str) -> Given:
    """The active one that the arguments mean; ``none`` is the error with ``{}`` for what was asked for.

    Raises ``UsageError``.
    """
    matches = [
        each for each in entries if not each.ended(now) and each.disk.means(parsed_args.guest, parsed_args.disk)
    ]
    query = repr(" ".join(filter(None, (parsed_args.guest, parsed_args.disk))))
    if not matches:
        raise UsageError(none.format(query))
    if len(matches) > 1:
        names = ", ".join(map(name_of, matches))
        raise UsageError(f"{query} matches several disks: {names}; give the guest and the disk")
    return matches[0]


def name_of(entry: Hold | Acknowledgement) -> str:
    return f"{printable(entry.disk.guest_name)} {printable(entry.disk.target)}"
