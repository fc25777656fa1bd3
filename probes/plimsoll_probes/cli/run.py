"""``plimsoll probe run``: probe guests now, those that are due, or this machine itself."""

from __future__ import annotations

import argparse
import json
import logging
import os
import socket
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from plimsoll_agent import locks
from plimsoll_agent.adapters.libvirt import Libvirt
from plimsoll_agent.cli.base import NodeCommand, limits_from
from plimsoll_agent.cli.standing import Standing, pause_in_force, standing, state_of
from plimsoll_agent.config import Settings
from plimsoll_agent.disk import Guest
from plimsoll_agent.errors import PlimsollError, UsageError
from plimsoll_agent.report import overlooked_words, printable
from plimsoll_agent.report import words as reason_words
from plimsoll_agent.rules import directory_of
from plimsoll_agent.state import Busy, State, StateError
from plimsoll_probes import timetable
from plimsoll_probes.chosen import Planned, Target, objective_for
from plimsoll_probes.cli.base import history_of
from plimsoll_probes.cli.exposed import write_metrics
from plimsoll_probes.cli.picked import Picked, picked
from plimsoll_probes.cli.round import Round, keep_chosen
from plimsoll_probes.finding import Why
from plimsoll_probes.hereshell import HereShell
from plimsoll_probes.history import LOCK, History
from plimsoll_probes.job import JobName
from plimsoll_probes.result import Postponed
from plimsoll_probes.runner import GuestProbe, HereProbe
from plimsoll_probes.shell import Shell
from plimsoll_probes.witness import Witness

LOG = logging.getLogger(__name__)

# libvirt gives its own question to the agent 5 s before it puts ours.
_AGENT_DEADLINE = 25.0


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A target to be probed, and when it is too late to begin; None for a person, who waits."""

    target: Planned
    until: datetime | None = None


class ProbeRun(NodeCommand):
    """Probe guests: fio reads, writes and both, inside the guest, held against the limit in force.

    Only guests that a rule with probe chooses are probed. Without --guest and --due it is all of this node's.
    A probe makes a file of its own in the guest, and removes it afterwards; it begins only while the disk's
    cluster is well.

    Exit status: 0 every promise is kept, or nothing is due; 3 some are not, or some probes failed or had to wait;
    1 none could be made; 64 usage.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        which = parser.add_mutually_exclusive_group()
        which.add_argument(
            "--guest",
            metavar="GUEST",
            action="append",
            default=[],
            help="only this guest, by its name or uuid; may be given more than once",
        )
        which.add_argument("--due", action="store_true", help="only what the timetable says is due now: for a timer")
        which.add_argument("--here", action="store_true", help="probe this machine itself, without libvirt")
        parser.add_argument(
            "--job",
            choices=[name.value for name in JobName],
            action="append",
            default=[],
            help="only this job; may be given more than once",
        )
        parser.add_argument(
            "--directory", metavar="DIR", help="with --here: where the file is made; else as in the settings"
        )
        parser.add_argument(
            "--limits",
            metavar="NAME=VALUE[,NAME=VALUE...]",
            help="with --here: what the disk is held to (total_iops_sec=500), or the word unlimited",
        )
        parser.add_argument(
            "--ignore-health", action="store_true", help="probe also while the disk's cluster is not well"
        )
        parser.add_argument("--dry-run", action="store_true", help="say what would be probed, and do nothing")
        parser.add_argument("-f", "--format", choices=("text", "json"), default="text", help="default: text")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        _check(parsed_args)
        settings = self.settings(parsed_args)
        if parsed_args.dry_run:
            return self._run(parsed_args, settings)
        try:
            status = self._run(parsed_args, settings)
        except UsageError:
            raise
        except PlimsollError:
            _told_prometheus(settings)
            raise
        return (status or 3) if not _told_prometheus(settings) else status

    def _run(self, parsed_args: argparse.Namespace, settings: Settings) -> int:
        state = state_of(settings)
        jobs = tuple(map(JobName, dict.fromkeys(parsed_args.job)))
        if parsed_args.here:
            return self._here(parsed_args, settings, state, jobs or tuple(JobName))
        paused = pause_in_force(settings, datetime.now(UTC)) if parsed_args.due else None
        if paused is not None:
            self._nothing(parsed_args, f"Nothing is probed: {reason_words(paused)}.")
            return 3
        stand = standing(settings, look_only=True)
        if stand.complaint:
            self.app.stderr.write(f"{stand.complaint}\n")
        with self.libvirt(settings) as hypervisor:
            found = picked(hypervisor, settings, stand.situation.rules, datetime.now(UTC))
            for line in found.complaints:
                self.app.stderr.write(f"{line}\n")
            targets, status = _meant(found, parsed_args.guest), 0
            if parsed_args.dry_run:
                with history_of(settings) as history:
                    wanted = _wanted(parsed_args, settings, targets, history.last_begun)
                self._would_probe(parsed_args, [(one.target, jobs or one.target.jobs) for one in wanted])
            elif targets:
                status = self._probe(parsed_args, settings, stand, hypervisor, state, found, targets, jobs)
            else:
                self._nothing(
                    parsed_args, "No guest of this node is chosen by a rule with probe; see plimsoll-rules(5)."
                )
                keep_chosen(History(state.probes), found)
        if stand.complaint:  # by other rules than meant, whatever came of it
            return 1
        return status or (3 if found.overlooked and not parsed_args.guest else 0)

    def _would_probe(
        self, parsed_args: argparse.Namespace, wanted: Sequence[tuple[Target, Sequence[JobName]]]
    ) -> None:
        if parsed_args.format == "json":
            told = [
                {
                    "guest": target.guest.name,
                    "guest_uuid": target.guest.uuid,
                    "directory": target.directory,
                    "rule": target.rule,
                    "jobs": list(jobs),
                }
                for target, jobs in wanted
            ]
            self._say(json.dumps(told, indent=2))
            return
        for target, jobs in wanted:
            by = f'  (rule "{printable(target.rule)}")' if target.rule else ""
            self._say(f"{printable(target.guest.name)}  {target.directory}  {', '.join(jobs)}{by}")
        self._say(f"{len(wanted)} to probe. This was a dry run: nothing was done.")

    def _nothing(self, parsed_args: argparse.Namespace, why: str) -> None:
        """A program finds its document in standard output also then, and nothing else."""
        if parsed_args.format == "json":
            self._say(json.dumps({"results": [], "postponed": []}, indent=2))
            self.app.stderr.write(f"{why}\n")
        else:
            self._say(why)

    # --- how

    def _probe(
        self,
        parsed_args: argparse.Namespace,
        settings: Settings,
        stand: Standing,
        hypervisor: Libvirt,
        state: State,
        found: Picked,
        targets: Sequence[Planned],
        jobs: tuple[JobName, ...],
    ) -> int:
        rules, gate, paused = stand.situation.rules, stand.caution.gate, stand.caution.paused
        with self._round(parsed_args, settings, state) as round_:
            round_.keep_chosen(found)
            # Alone by now: what another run had not yet begun when we came it has begun, or has not.
            wanted = _wanted(parsed_args, settings, targets, round_.last_begun)
            if not wanted:
                self._nothing(parsed_args, "Nothing is due.")
                return 0
            with self.agents(settings) as ask:
                probe = GuestProbe(
                    round_.desk,
                    witness=lambda uuid: Witness(hypervisor, uuid, stand.situation, gate),
                    ask=ask,
                    leave=round_.leave,
                    objective=lambda disk: objective_for(rules, disk, datetime.now(UTC)),
                    heeds_health=not parsed_args.ignore_health,
                )

                def work(one: _Wanted) -> Postponed | None:
                    if parsed_args.due and paused() is not None:  # since we came
                        return round_.desk.postponed(one.target, Why.PAUSED, {})
                    return probe.run(one.target, jobs or one.target.jobs, one.until)

                round_.go(wanted, lambda one: one.target, work)
            return round_.close()

    @contextmanager
    def agents(self, settings: Settings) -> Iterator[Callable[[str, str, int], str]]:
        """A connection of their own: what agents are asked may take its time, and no look at a disk waits for it.

        Raises ``Unreachable``.
        """
        libvirt = Libvirt(settings.uri, deadline=_AGENT_DEADLINE, at_once=settings.probe.at_once + 1)
        yield libvirt.agent
        if not libvirt.hung:
            libvirt.close()

    def _here(
        self, parsed_args: argparse.Namespace, settings: Settings, state: State, jobs: tuple[JobName, ...]
    ) -> int:
        name, limits = socket.gethostname(), limits_from(parsed_args.limits)
        target = Target(Guest(_machine_id(name), name, None), parsed_args.directory or settings.probe.directory)
        if parsed_args.dry_run:
            self._would_probe(parsed_args, [(target, jobs)])
            return 0
        with self._round(parsed_args, settings, state) as round_:
            probe = HereProbe(round_.desk, self.here(), limits, lambda: round_.leave.slot(()))
            round_.go([target], lambda one: one, lambda one: probe.run(one, jobs))
            return round_.close()

    def here(self) -> Shell:
        """This machine."""
        return HereShell()

    @contextmanager
    def _round(self, parsed_args: argparse.Namespace, settings: Settings, state: State) -> Iterator[Round]:
        """Alone on this node. Raises ``Busy``, ``StateError``."""
        state.prepare()
        with _alone(state):
            history = History(state.probes)
            yield Round(self.app, settings, history, as_json=parsed_args.format == "json")

    def _say(self, line: str) -> None:
        print(self.app.for_journal(line), file=self.app.stdout, flush=True)


def _told_prometheus(settings: Settings) -> bool:
    """Whatever became of the probes: a file that nobody writes any more says that plimsoll is gone."""
    try:
        write_metrics(settings, datetime.now(UTC))
    except PlimsollError as error:
        LOG.error("%s", error)
        return False
    return True


def _meant(found: Picked, names: Sequence[str]) -> tuple[Planned, ...]:
    """Those that bear one of the names, or without any all that the rules choose.

    Raises ``UsageError`` for a guest that no rule chooses, ``PlimsollError`` for one that could not be looked at.
    """
    targets = found.chosen.targets
    for name in names:
        if any(_means(name, target.guest) for target in targets):
            continue
        for overlooked in found.overlooked:
            if name in (overlooked.guest.name, overlooked.guest.uuid):
                raise PlimsollError(overlooked_words(overlooked))
        here = any(_means(name, guest) for guest in found.guests)
        raise UsageError(
            f"{printable(name)}: no rule with probe chooses it, and only guests that their owner gave leave for are"
            " probed; see plimsoll-rules(5)"
            if here
            else f"no guest with an RBD disk runs here by the name or uuid of {printable(name)}"
        )
    return tuple(one for one in targets if not names or any(_means(name, one.guest) for name in names))


def _means(name: str, guest: Guest) -> bool:
    return name in (guest.name, guest.display_name) or name.lower() == guest.uuid


def _wanted(
    parsed_args: argparse.Namespace,
    settings: Settings,
    targets: Sequence[Planned],
    last_begun: Callable[[datetime], Mapping[tuple[str, str], datetime]],
) -> list[_Wanted]:
    """All of them, or with --due those whose time it is. Raises ``StateError``."""
    if not parsed_args.due:
        return [_Wanted(target) for target in targets]
    now, late = datetime.now(UTC), settings.probe.late
    return [
        _Wanted(due.target, due.at + timedelta(seconds=late))
        for due in timetable.due(targets, last_begun(now), now, late)
    ]


def _check(parsed_args: argparse.Namespace) -> None:
    """Raises ``UsageError``."""
    for option in ("directory", "limits"):
        if getattr(parsed_args, option) is not None and not parsed_args.here:
            raise UsageError(f"--{option} goes with --here; of guests the rules and libvirt say it")
    if parsed_args.directory is not None:
        try:
            parsed_args.directory = directory_of(parsed_args.directory)
        except ValueError as error:
            raise UsageError(f"--directory {error}") from error
    if parsed_args.ignore_health and parsed_args.due:
        raise UsageError("--ignore-health is for a person, and --due for a timer")


@contextmanager
def _alone(state: State) -> Iterator[None]:
    """Hold the probes of this node. Raises ``Busy``, ``StateError``."""
    path = state.directory / LOCK
    try:
        lock = locks.take(path)
    except BlockingIOError as error:
        raise Busy("another plimsoll probes on this node; this one began nothing") from error
    except OSError as error:
        raise StateError(f"{path}: cannot be locked: {error.strerror}; nothing was probed") from error
    try:
        yield
    finally:
        os.close(lock)


def _machine_id(name: str) -> str:
    """As a uuid; of a machine that has none, one that its name always gives."""
    try:
        return str(uuid.UUID(Path("/etc/machine-id").read_text(encoding="ascii").strip()))
    except (OSError, ValueError):
        return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))
