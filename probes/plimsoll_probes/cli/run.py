"""``plimsoll probe run``: probe guests now, those that are due, or this machine itself."""

from __future__ import annotations

import argparse
import logging
import socket
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from plimsoll_agent.app.context import PassContext, pass_context
from plimsoll_agent.app.node import pause_actual, state_of
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.errors import PlimsollError, UsageError
from plimsoll_agent.messages.sentences import words as reason_words
from plimsoll_agent.model.disk import Guest
from plimsoll_agent.policy.decide import Situation
from plimsoll_agent.rules.model import directory_of
from plimsoll_agent.store.state import State, StateError
from plimsoll_agent.terminal.base import NodeCommand, add_format, add_guests, limits_from, text_of
from plimsoll_agent.util.frozen import frozen, replace
from plimsoll_agent.util.text import printable
from plimsoll_probes.adapters.local_shell import HereShell
from plimsoll_probes.app.history import history_of
from plimsoll_probes.app.pick import Pick, agents, alone, pick, targets_of
from plimsoll_probes.app.publish import write_metrics
from plimsoll_probes.cli.round import Round, keep_chosen
from plimsoll_probes.execute.runner import GuestProbe, HereProbe
from plimsoll_probes.execute.witness import Witness
from plimsoll_probes.guest.shell import Shell
from plimsoll_probes.model.finding import Why
from plimsoll_probes.model.job import JobName
from plimsoll_probes.model.result import Postponed
from plimsoll_probes.schedule import timetable
from plimsoll_probes.schedule.targets import PlannedTarget, Target, objective_for
from plimsoll_probes.store.history import History

if TYPE_CHECKING:
    from plimsoll_agent.adapters.libvirt.client import Libvirt

LOG = logging.getLogger(__name__)


class Nothing(StrEnum):
    """Why there was nothing to probe, for programs."""

    PAUSED = "paused"
    NOT_CHOSEN = "not-chosen"
    """No rule with probe chooses a guest of this node."""
    NOT_DUE = "not-due"


@frozen
class _Desired:
    """A target to probe, and when it is too late to start; None without --due."""

    target: PlannedTarget
    until: datetime | None = None


class ProbeRun(NodeCommand):
    """Measure guests by fio, and compare with their limits.

    fio runs inside the guest: read, write and mixed.

    Only guests that a rule with probe chooses are probed; without --guest or --due all of them on this node.
    A probe creates a file in the guest and removes it afterwards; it starts only while the disk's cluster is
    healthy.

    Exit status:
        0   all promises kept, or nothing due
        3   a promise not kept, or a probe failed or was postponed
        1   no probe could run
        64  usage

    Examples:
        plimsoll probe run --dry-run
        plimsoll probe run --guest instance-00000412
        plimsoll probe run --guest instance-00000412 --job read --ignore-health
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        which = parser.add_mutually_exclusive_group()
        add_guests(which)
        which.add_argument(
            "--due", action="store_true", help="only targets that are due now by the timetable: for a timer"
        )
        which.add_argument("--here", action="store_true", help="probe this machine itself, without libvirt")
        parser.add_argument(
            "--job",
            choices=[name.value for name in JobName],
            action="append",
            default=[],
            help="only this job; repeatable",
        )
        parser.add_argument(
            "--directory", metavar="DIR", help="with --here: where the file is created; default: directory in [probe]"
        )
        parser.add_argument(
            "--limits",
            metavar="NAME=VALUE[,NAME=VALUE...]",
            help="with --here: the disk's limits (total_iops_sec=2k,total_bytes_sec=100MiB), or unlimited",
        )
        parser.add_argument(
            "--ignore-health", action="store_true", help="probe even while the disk's cluster is unhealthy"
        )
        parser.add_argument("--dry-run", action="store_true", help="print what would be probed, and do nothing")
        add_format(parser)
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
            _metrics_written(settings, parsed_args)
            raise
        return (status or 3) if not _metrics_written(settings, parsed_args) else status

    def _run(self, parsed_args: argparse.Namespace, settings: Settings) -> int:
        state = state_of(settings)
        jobs = tuple(map(JobName, dict.fromkeys(parsed_args.job)))
        if parsed_args.here:
            return self._here(parsed_args, settings, state, jobs or tuple(JobName))
        pause = pause_actual(settings, datetime.now(UTC)) if parsed_args.due else None
        if pause is not None:
            self._nothing(parsed_args, Nothing.PAUSED, f"No probe starts: {reason_words(pause)}.")
            return 3
        context = pass_context(settings, read_only=True, without_rules=parsed_args.dry_run)
        if context.complaint:
            self.warn_of(context.complaint)
        with self.libvirt(settings) as hypervisor:
            selection = pick(hypervisor, settings, context.situation.rules, datetime.now(UTC))
            for line in selection.complaints:
                self.app.stderr.write(f"{line}\n")
            targets, status = targets_of(selection, parsed_args.guest), 0
            if parsed_args.dry_run:
                with history_of(settings) as history:
                    desired = _desired(parsed_args, settings, targets, history.last_begun)
                self._would_probe(parsed_args, [(one.target, jobs or one.target.jobs) for one in desired])
            elif targets:
                status = self._probe(parsed_args, settings, context, hypervisor, state, selection, targets, jobs)
            else:
                self._nothing(
                    parsed_args,
                    Nothing.NOT_CHOSEN,
                    "No guest of this node is chosen by a rule with probe; see plimsoll-rules(5).",
                )
                if parsed_args.due:
                    keep_chosen(History(state.probes), selection)
        if context.complaint:  # these are not the rules that the operator meant
            return 1
        return status or (3 if selection.unreachable and not parsed_args.guest else 0)

    def _would_probe(
        self, parsed_args: argparse.Namespace, desired: Sequence[tuple[Target, Sequence[JobName]]]
    ) -> None:
        if parsed_args.format != "text":
            data = [
                {
                    "guest": target.guest.name,
                    "guest_uuid": target.guest.uuid,
                    "directory": target.directory,
                    "rule": target.rule,
                    "jobs": list(jobs),
                }
                for target, jobs in desired
            ]
            self._say(text_of(data, parsed_args.format))
            return
        for target, jobs in desired:
            by = f'  (rule "{printable(target.rule)}")' if target.rule else ""
            self._say(f"{printable(target.guest.name)}  {target.directory}  {', '.join(jobs)}{by}")
        self._say(f"{len(desired)} to probe. Dry run: nothing was done.")

    def _nothing(self, parsed_args: argparse.Namespace, code: Nothing, why: str) -> None:
        """Print a document without results for a program, and the sentence on stderr."""
        if parsed_args.format != "text":
            self._say(text_of({"results": [], "postponed": [], "nothing": code.value}, parsed_args.format))
            self.warn_of(why)
        else:
            self._say(why)

    # --- how

    def _probe(
        self,
        parsed_args: argparse.Namespace,
        settings: Settings,
        context: PassContext,
        hypervisor: Libvirt,
        state: State,
        selection: Pick,
        targets: Sequence[PlannedTarget],
        jobs: tuple[JobName, ...],
    ) -> int:
        rules, gate, current_pause = context.situation.rules, context.caution.gate, context.caution.paused
        with self._round(parsed_args, settings, state) as round_:
            if parsed_args.due:  # a run by hand does not tell that there will be more
                round_.keep_chosen(selection)
            # Only now, with the lock: another run may have started some of them.
            desired = _desired(parsed_args, settings, targets, round_.last_begun)
            if not desired:
                self._nothing(parsed_args, Nothing.NOT_DUE, "Nothing is due.")
                return 0
            with self.agents(settings) as ask:
                probe = GuestProbe(
                    desk=round_.desk,
                    witness=lambda uuid: Witness(hypervisor, uuid, lambda: as_of_now(context.situation, state), gate),
                    ask=ask,
                    admission=round_.admission,
                    objective=lambda disk: objective_for(rules, disk, datetime.now(UTC)),
                    heeds_health=not parsed_args.ignore_health,
                )

                def work(one: _Desired) -> Postponed | None:
                    if parsed_args.due and current_pause() is not None:  # paused since this run started
                        return round_.desk.postpone(one.target, Why.PAUSED, {})
                    return probe.run(one.target, jobs or one.target.jobs, one.until)

                round_.go(desired, lambda one: one.target, work)
            return round_.close()

    def agents(self, settings: Settings) -> AbstractContextManager[Callable[[str, str, int], str]]:
        """Raises ``Unreachable``."""
        return agents(settings, settings.probe.at_once + 1)

    def _here(
        self, parsed_args: argparse.Namespace, settings: Settings, state: State, jobs: tuple[JobName, ...]
    ) -> int:
        name, limits = socket.gethostname(), limits_from(parsed_args.limits)
        target = Target(
            Guest(uuid=_machine_id(name), name=name, run=None),
            parsed_args.directory or settings.probe.directory,
            None,
        )
        if parsed_args.dry_run:
            self._would_probe(parsed_args, [(target, jobs)])
            return 0
        with self._round(parsed_args, settings, state) as round_:
            probe = HereProbe(
                desk=round_.desk, shell=self.here(), limits=limits, slot=lambda: round_.admission.slot(())
            )
            round_.go([target], lambda one: one, lambda one: probe.run(one, jobs))
            return round_.close()

    def here(self) -> Shell:
        """This machine."""
        return HereShell()

    @contextmanager
    def _round(self, parsed_args: argparse.Namespace, settings: Settings, state: State) -> Iterator[Round]:
        """A round that is alone on this node. Raises ``Busy``, ``StateError``."""
        state.prepare()
        with alone(state):
            history = History(state.probes)
            yield Round(self.app, settings, history, format=parsed_args.format)

    def _say(self, line: str) -> None:
        print(self.app.for_journal(line), file=self.app.stdout, flush=True)


def _metrics_written(settings: Settings, parsed_args: argparse.Namespace) -> bool:
    """Write the metrics, after every run: an old time of the timetable means that the timer does not run."""
    try:
        write_metrics(settings, datetime.now(UTC), by_timetable=parsed_args.due)
    except PlimsollError as error:
        LOG.error("%s", error)
        return False
    return True


def _desired(
    parsed_args: argparse.Namespace,
    settings: Settings,
    targets: Sequence[PlannedTarget],
    last_begun: Callable[[datetime], Mapping[tuple[str, str], datetime]],
) -> list[_Desired]:
    """All targets, or with --due those that are due. Raises ``StateError``."""
    if not parsed_args.due:
        return [_Desired(target) for target in targets]
    now, late = datetime.now(UTC), settings.probe.late
    return [
        _Desired(due.target, due.at + timedelta(seconds=late))
        for due in timetable.due(targets, last_begun(now), now, late)
    ]


def _check(parsed_args: argparse.Namespace) -> None:
    """Raises ``UsageError``."""
    for option in ("directory", "limits"):
        if getattr(parsed_args, option) is not None and not parsed_args.here:
            raise UsageError(f"--{option} needs --here; for guests it comes from the rules and libvirt")
    if parsed_args.directory is not None:
        try:
            parsed_args.directory = directory_of(parsed_args.directory)
        except ValueError as error:
            raise UsageError(f"--directory {error}") from error
    if parsed_args.ignore_health and parsed_args.due:
        raise UsageError("--ignore-health cannot be used with --due")


def _machine_id(name: str) -> str:
    """The machine's id as a uuid; a machine without one gets a uuid from its name."""
    try:
        return str(uuid.UUID(Path("/etc/machine-id").read_text(encoding="ascii").strip()))
    except (OSError, ValueError):
        return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


def as_of_now(situation: Situation, state: State) -> Situation:
    """The situation with what passes have remembered since; as it is where that cannot be read."""
    memory = None
    with suppress(StateError):
        memory = state.load_memory()
    return situation if memory is None else replace(situation, memory=memory.disks)
