"""``plimsoll return status`` and ``return stop``: how the last return stands, and what it has changed, restored."""

from __future__ import annotations

import argparse
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.terminal.base import LocalCommand
from plimsoll_agent.terminal.page import Page
from plimsoll_agent.util import locks
from plimsoll_agent.util.text import printable, second
from plimsoll_insight.cli.cluster_options import add_cluster
from plimsoll_insight.cli.return_run import LOCK, LeftChanges, ReturnBusy, alone, restore_former
from plimsoll_insight.ordered_return import journal, messages
from plimsoll_insight.ordered_return.journal import ReturnEntry

_UNTIL_STOPPED = 120.0


class ReturnStatus(LocalCommand, Page):
    """Show the last return: whether it runs, what it has done, and what it has changed and not restored.

    It reads the record of returns only, and asks no cluster.

    Exit status:
        0   nothing is left to restore, or it is under way
        1   error
        3   it was killed, and what it has changed is not restored
        64  usage

    Examples:
        plimsoll return status
        plimsoll return status -f json
        plimsoll return status -f yaml
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        home = home_of(self, parsed_args)
        entries = journal.read(home / journal.NAME)
        changes = list(journal.open_changes(entries).values())
        last = last_run(entries)
        state = state_of(home, last)
        self.status = 3 if changes and state != "running" else 0
        people = {"state": state}
        if last:
            begin, says = last[0], [entry for entry in last if entry.what == "say"]
            starts = [osd for entry in last if entry.what == "start" for osd in entry.facts["osds"]]
            people |= {
                "began": f"{second(begin.at)}, by {printable(begin.by)}",
                "cluster": printable(str(begin.facts["fsid"])),
                "start tried": f"{len(set(starts))} of {len(begin.facts['osds'])} OSDs",
                "recording": printable(str(begin.facts["recording"])),
            }
            if says:
                people["last hold"] = f"{second(says[-1].at)}: {printable(str(says[-1].facts['text']))}"
            if last[-1].what == "end":
                people["ended"] = f"{second(last[-1].at)}: {printable(str(last[-1].facts['text']))}"
            targets = (messages.target_words(change.target) for change in changes)
            people["not restored"] = ", ".join(targets) or "nothing"
        else:
            people["state"] = "no return has run on this machine; plimsoll return plan shows what one would do"
        if self.status:
            self.closing = ("Restore it: plimsoll return stop, or plimsoll return run, which goes on.",)
        return self.page(parsed_args, people, data(state, last, changes))


class ReturnStop(LocalCommand):
    """End a return that is under way, and restore what one has changed, also after kill -9.

    OSDs that it has started stay up. A flag or a setting that was changed by others since is left alone.

    Exit status:
        0   nothing is left to restore
        1   error
        3   something could not be restored
        64  usage
        75  the return that is under way does not end

    Examples:
        plimsoll return stop
        plimsoll return stop --id admin
        plimsoll return stop --ceph-conf /etc/ceph/other.conf
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_cluster(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        home = home_of(self, parsed_args)
        _end(home)
        with alone(home):
            entries = journal.read(home / journal.NAME)
            former = LeftChanges.of(entries)
            if not former.changes:
                self._say("Nothing is left to restore.")
                return 0
            return restore_former(self, parsed_args, home, entries, self._say)

    def _say(self, words: str) -> None:
        self.app.stdout.write(f"{words}\n")
        self.app.stdout.flush()


def home_of(command: LocalCommand, parsed_args: argparse.Namespace) -> Path:
    return command.settings(parsed_args).state_dir / "return"


def last_run(entries: Sequence[ReturnEntry]) -> list[ReturnEntry]:
    """From its beginning on."""
    return [entry for entry in entries if entry.run == entries[-1].run] if entries else []


def state_of(home: Path, last: Sequence[ReturnEntry]) -> str:
    if not last:
        return "none yet"
    if last[-1].what == "end":
        return str(last[-1].facts["ending"])
    return "killed" if locks.is_free(home / LOCK) else "running"


def _end(home: Path) -> None:
    """End the run that is under way, which restores by itself. Raises ``ReturnBusy``."""
    last = last_run(journal.read(home / journal.NAME))
    if state_of(home, last) != "running":
        return
    pid = int(last[0].facts["pid"])
    try:
        if not locks.is_open_in(
            pid, home / LOCK
        ):  # it was killed, and another one that has begun nothing has the lock
            return
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    except PermissionError as error:
        raise PlimsollError(f"process {pid} of the return cannot be ended: stop it as {last[0].by}") from error
    end = time.monotonic() + _UNTIL_STOPPED
    while not locks.is_free(home / LOCK):
        if time.monotonic() > end:
            raise ReturnBusy(f"process {pid} of the return has not ended for {_UNTIL_STOPPED:.0f} s: kill -9 {pid},"
                             " then plimsoll return stop")  # fmt: skip
        time.sleep(0.2)


def data(state: str, last: Sequence[ReturnEntry], changes: Sequence[journal.ClusterChange]) -> dict[str, object]:
    """As ``docs/html/schemas/return-status.json`` has it."""
    begin = last[0] if last else None
    return {
        "state": state,
        "run": None if begin is None else begin.run,
        "by": None if begin is None else begin.by,
        "fsid": None if begin is None else begin.facts["fsid"],
        "osds": [] if begin is None else begin.facts["osds"],
        "recording": None if begin is None else begin.facts["recording"],
        "entries": [
            {"at": entry.at.isoformat(timespec="milliseconds"), "what": entry.what, **_told(entry)}
            for entry in last[1:]
        ],
        "not_restored": [
            {"kind": each.target.kind.value, "name": each.target.name, "before": each.before, "after": each.after}
            for each in changes
        ],
    }


def _told(entry: ReturnEntry) -> dict[str, object]:
    return {key: value for key, value in entry.facts.items() if key in _SHOWN}


_SHOWN = ("osds", "text", "kind", "name", "before", "after", "how", "ending")
