"""``plimsoll disk acknowledge``: an operator knows of an unknown disk, and it raises no alert until a given time."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from plimsoll_agent.app.context import who
from plimsoll_agent.app.node import now_of, state_of
from plimsoll_agent.cli.disk import OneOrMany
from plimsoll_agent.cli.many import agree
from plimsoll_agent.cli.operator_entries import (
    OR_A_RULE,
    OperatorEntryList,
    add_choice,
    all_chosen,
    name_of,
    save,
    server_of,
    tell_notes,
)
from plimsoll_agent.errors import UsageError
from plimsoll_agent.messages import sentences
from plimsoll_agent.model.acknowledged import Acknowledgement
from plimsoll_agent.model.entries import Happening
from plimsoll_agent.model.reason import Code
from plimsoll_agent.reconcile.outcome import Kind, Outcome
from plimsoll_agent.store.node_store import NodeStore, acknowledgement_event
from plimsoll_agent.store.state import Memory, State
from plimsoll_agent.terminal.base import LocalCommand, given_duration, given_reason
from plimsoll_agent.util.frozen import replace

_NEXT = "the next pass tells status, metrics and checks"


class AcknowledgeAdd(OneOrMany):
    """Acknowledge that the limits of a disk, or of many, are unknown.

    Of many: all unknown ones of a project, type, pool or server.

    Until --for is over, or its limits are known, the disk does not make a pass partial, and status, check_plimsoll
    and alerts do not count it; lists still show it, with the reason. No limit is changed. A guest that does not
    answer counts as before. A second acknowledgement of a disk replaces the first.

    It outlasts restarts of the guest and of the node. It does not follow a guest to another node. Of many disks it
    asks for their number; disks whose limits are known are no part of it.

    Exit status:
        0   acknowledged, or with --dry-run could be
        1   not acknowledged
        64  usage, and a disk whose limits are known

    Examples:
        plimsoll disk acknowledge add instance-00000412 vdb --for 8h --reason "CHG-412"
        plimsoll disk acknowledge add instance-00000412 vdb --for 7d --reason "moves to Cinder"
        plimsoll disk acknowledge add instance-00000412 vdb --for 8h --reason CHG-412 --dry-run
    """

    writes = True

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--for", dest="span", metavar="DURATION", required=True, help="how long: 2h, 2d, 1d12h")
        parser.add_argument("--reason", metavar="TEXT", required=True, help="why; shown with the disk")
        parser.add_argument("--dry-run", action="store_true", help="check it and show it; change nothing")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        span, why = given_duration("--for", parsed_args.span, OR_A_RULE), given_reason(parsed_args.reason)
        state = state_of(self.settings(parsed_args))
        if parsed_args.dry_run:
            entries = self._entries(parsed_args, now_of(state), span, why)
            self.app.stdout.writelines(f"{_line(each)}\n" for each in entries.values())
            self.app.stdout.write("Dry run: nothing is written.\n")
            return 0
        state.prepare()
        now = now_of(state)
        entries, node_store = self._entries(parsed_args, now, span, why), NodeStore(state, who())
        if parsed_args.guest is None:
            agree(self, "acknowledges", [each.disk for each in entries.values()], parsed_args.disks)
        with node_store.changing(now) as memory:
            tell_notes(node_store, self)
            earlier = [memory.acknowledged[key] for key in entries if key in memory.acknowledged]
            events = [acknowledgement_event(each, Happening.ACKNOWLEDGEMENT_ENDED, now, who()) for each in earlier]
            events += [acknowledgement_event(each, Happening.ACKNOWLEDGED, now, who()) for each in entries.values()]
            save(state, replace(memory, acknowledged={**memory.acknowledged, **entries}), events)
        self.app.stdout.writelines(f"{_line(each)}; {_NEXT}\n" for each in entries.values())
        return 0

    def _entries(
        self, parsed_args: argparse.Namespace, now: datetime, span: timedelta, why: str
    ) -> dict[str, Acknowledgement]:
        """By ``Disk.key``. Raises ``UsageError`` for the one disk that cannot be acknowledged."""
        outcomes = self.find_all(parsed_args)
        self.status = 0  # that a disk is unknown is no error here
        if parsed_args.guest is None:
            outcomes = [each for each in outcomes if each.result.kind is Kind.UNKNOWN]
            silent = [each for each in outcomes if each.result.reason.code is Code.TIMED_OUT]
            outcomes = [each for each in outcomes if each not in silent]
            for each in silent:
                name = sentences.disk_name(each.disk)
                self.warn_of(f"left out: {name}: the guest does not answer: virsh domstate")
        else:
            self._check(outcomes[0])
        return {
            each.disk.key: Acknowledgement(disk=each.disk.named, since=now, until=now + span, by=who(), why=why)
            for each in outcomes
        }

    def _check(self, outcome: Outcome) -> None:
        """Raises ``UsageError`` where the disk cannot be acknowledged."""
        if outcome.result.reason.code is Code.TIMED_OUT:
            raise UsageError(f"{sentences.disk_name(outcome.disk)}: the guest does not answer: virsh domstate")
        if outcome.result.kind is not Kind.UNKNOWN:
            raise UsageError(
                f"{sentences.disk_name(outcome.disk)}: its limits are known ({sentences.state_words(outcome)});"
                " only an unknown disk can be acknowledged"
            )


class AcknowledgeEnd(LocalCommand):
    """End an acknowledgement early, or many.

    Many: all of a project, type, pool or server; it asks for their number.

    The next pass counts the disk again.

    Exit status:
        0   ended
        1   not ended
        64  no such acknowledgement, or usage

    Examples:
        plimsoll disk acknowledge end instance-00000412 vdb
        plimsoll disk acknowledge end instance-00000412 vdb --dry-run
        plimsoll disk acknowledge end instance-00000412
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_choice(parser, "acknowledged")
        parser.add_argument("--dry-run", action="store_true", help="show which one would end; change nothing")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        state = state_of(self.settings(parsed_args))
        if parsed_args.dry_run:
            now, node_store = now_of(state), NodeStore(state, who())
            memory = node_store.recall(now, read_only=True)
            server_of(parsed_args, memory.acknowledged.values(), state)
            for each in self._meant(parsed_args, memory.acknowledged, now, state):
                self.app.stdout.write(f"{name_of(each)}  would no longer be acknowledged\n")
            self.app.stdout.write("Dry run: nothing is written.\n")
            return 0
        state.prepare()
        now, node_store = now_of(state), NodeStore(state, who())
        entries = node_store.recall(now, read_only=False).acknowledged
        server = server_of(parsed_args, entries.values(), state)
        matches = self._meant(parsed_args, entries, now, state)
        if server is not None:
            server.confirm(self, sure=parsed_args.yes)
        if parsed_args.guest is None:
            agree(self, "ends the acknowledgements of", [each.disk for each in matches], parsed_args.disks)
        keys = {each.disk.key for each in matches}
        with node_store.changing(now) as memory:
            tell_notes(node_store, self)
            matches = [
                each for each in self._meant(parsed_args, memory.acknowledged, now, state) if each.disk.key in keys
            ]
            others = {key: each for key, each in memory.acknowledged.items() if each not in matches}
            events = [acknowledgement_event(each, Happening.ACKNOWLEDGEMENT_ENDED, now, who()) for each in matches]
            save(state, replace(memory, acknowledged=others), events)
        self.app.stdout.writelines(f"{name_of(each)}  no longer acknowledged; {_NEXT}\n" for each in matches)
        return 0

    def _meant(
        self,
        parsed_args: argparse.Namespace,
        acknowledgements: Mapping[str, Acknowledgement],
        now: datetime,
        state: State,
    ) -> list[Acknowledgement]:
        none = "no acknowledgement of {}; see: plimsoll disk acknowledge list"
        return all_chosen(parsed_args, acknowledgements.values(), now, none, state)


class AcknowledgeList(OperatorEntryList):
    """List the acknowledged unknown disks of this node.

    Exit status:
        0   done
        1   they are unknown (memory file damaged or unreadable)

    Examples:
        plimsoll disk acknowledge list
        plimsoll disk acknowledge list --sort-column until
        plimsoll disk acknowledge list -f json
    """

    none = "No acknowledged disks on this node; unknown ones: plimsoll disk list --state unknown"

    def entries(self, memory: Memory) -> Iterable[Acknowledgement]:
        return memory.acknowledged.values()


def _line(acknowledgement: Acknowledgement) -> str:
    return f"{name_of(acknowledgement)}  unknown, {sentences.words(acknowledgement.reason)}"
