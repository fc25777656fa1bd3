"""``plimsoll drill record``: watches the cluster and the guests of this node, into one file."""

from __future__ import annotations

import argparse
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from plimsoll_agent.app.context import pass_context
from plimsoll_agent.app.node import state_of
from plimsoll_agent.app.record_follow import FollowedRecord
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.errors import PlimsollError, Unreachable, UsageError
from plimsoll_agent.reconcile.outcome import Scope
from plimsoll_agent.store.record import Record
from plimsoll_agent.store.record_query import Selection
from plimsoll_agent.terminal.base import NodeCommand, add_guests
from plimsoll_agent.terminal.moments import time_of
from plimsoll_agent.terminal.until import ended_early
from plimsoll_agent.top.sampler import Sampler
from plimsoll_agent.util import durations
from plimsoll_agent.util.text import plural, printable
from plimsoll_insight.cli.cluster_options import add_cluster, cluster_of
from plimsoll_insight.cli.drill_sources import ClusterLog, ClusterStatus, changes, store_size, stores
from plimsoll_insight.drill.guests import GuestDisks
from plimsoll_insight.drill.probed import probing
from plimsoll_insight.drill.recording import RecordingWriter
from plimsoll_insight.drill.sources import Source, Sources
from plimsoll_insight.drill.stalled import StallWatch
from plimsoll_probes.app.pick import agents, alone, pick, targets_of
from plimsoll_probes.execute.steady import SteadyProbe
from plimsoll_probes.guest.agent_shell import GuestShell
from plimsoll_probes.model.finding import Trouble
from plimsoll_probes.output.messages import iops_words, latency_words, why_words

if TYPE_CHECKING:
    from plimsoll_agent.adapters.libvirt.client import Libvirt

_LEAST, _MOST = 0.5, 60.0
CLUSTER, LOG, GUESTS, CHANGES, STORE = "ceph", "log", "guests", "changes", "store"


class DrillRecord(NodeCommand):
    """Record Ceph and the guests of this node in a drill.

    A recording has Ceph's status and log, what the guests of this node get, and plimsoll's changes, each second.

    FILE is new, and grows until --for is over, or SIGINT or SIGTERM comes; what a killed recording has can be
    reported. A source that does not answer within --deadline is a gap, unknown, and stops no other. Guests lose
    nothing: their counters are read as by top. With --probe a job of one request at a time, 5 s long, runs in a guest
    again and again; probe run exits with 75 until it ends. Add what you do by drill mark.

    --until-stalled ends it, for a script that then brings everything back, when a busy disk (with requests in 90 % of
    30 readings) completes none for longer while the cluster is unhealthy; a failure that the monitors do not know yet
    counts once they do.

    Exit status:
        0   done
        1   error or a source that never answered
        3   a disk stalled for longer than --until-stalled or none was busy
        64  usage

    Examples:
        plimsoll drill record drill.jsonl --for 30m
        plimsoll drill record drill.jsonl --for 30m --probe instance-00000412
        plimsoll drill record drill.jsonl --until-stalled 60s
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("file", metavar="FILE", type=Path, help="a new file for the recording")
        parser.add_argument("--for", dest="length", metavar="TIME", help="how long; default: until it is stopped")
        parser.add_argument("--until-stalled", metavar="TIME",
                            help="end when a busy disk completes no request for longer, such as 30s")  # fmt: skip
        parser.add_argument("--interval", metavar="TIME", default="1s", help="between two readings; default: 1s")
        parser.add_argument("--deadline", metavar="TIME", default="5s", help="of Ceph for an answer; default: 5s")
        add_cluster(parser)
        parser.add_argument("--mon-store", metavar="DIR", type=Path, action="append", default=[],
                            help="store.db of a monitor; default: of the monitors on this machine")  # fmt: skip
        parser.add_argument("--probe", metavar="GUEST", action="append", default=[],
                            help="probe this guest all the time; a rule with probe must choose it")  # fmt: skip
        parser.add_argument("--no-guests", action="store_true", help="of a machine without guests, as a monitor's")
        parser.add_argument("--no-ceph", action="store_true", help="of a node that may not ask Ceph")
        add_guests(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        interval = time_of("--interval", parsed_args.interval)
        deadline = time_of("--deadline", parsed_args.deadline)
        length = None if parsed_args.length is None else time_of("--for", parsed_args.length)
        stalls = None
        if parsed_args.until_stalled is not None:
            stalls = StallWatch(_bound(parsed_args, interval))
        _check(parsed_args, interval, deadline, length)
        settings = self.settings(parsed_args)
        offset = time.time() - time.monotonic()  # a clock that is set meanwhile must not tear the recording apart

        def epoch(steady: float) -> float:
            return offset + steady

        def now() -> float:
            return epoch(time.monotonic())

        each: dict[str, Source] = {}
        cluster = None
        if not parsed_args.no_ceph:
            cluster = ClusterStatus(cluster_of(parsed_args, lambda: settings.ceph, deadline), now)
        with ExitStack() as stack:
            stop = stack.enter_context(ended_early())
            disks = None
            if not parsed_args.no_guests:
                hypervisor = stack.enter_context(self.libvirt(settings))
                sampler = Sampler(
                    hypervisor, Scope(frozenset(parsed_args.guest)), clock=time.monotonic,
                    at_once=settings.bounds.at_once,
                )  # fmt: skip
                if parsed_args.guest:
                    sampler.check()
                disks = GuestDisks(sampler, epoch, now, stalls)
                each |= self._of_guests(disks, hypervisor, parsed_args, settings, now, stack)
            if cluster is not None:
                each |= {CLUSTER: cluster, LOG: ClusterLog(cluster, now())}
            if directories := parsed_args.mon_store or stores():
                each[STORE] = store_size(directories, now)
            writer = RecordingWriter.begin(parsed_args.file, now(), socket.gethostname(), interval)
            sources = Sources(writer, each, interval, now)

            def beyond() -> list[str]:
                status = None if cluster is None or CLUSTER in sources.silent else cluster.last
                return [] if stalls is None or disks is None else _stall_lines(stalls.beyond(now(), status), disks)

            lines = self._watch(sources, stop.wait, length, interval, cluster, disks, beyond)
            writer.write(now(), {"end": "stalled" if lines else "stopped" if stop.is_set() else "over"})
        _check_answers(sources, each)
        if stalls is not None and not lines and not stalls.any_busy:
            lines = ["no disk of a guest was busy, so none could have stalled (--until-stalled): start a load"]
        self.app.stderr.writelines(f"{line}\n" for line in lines)
        return 3 if lines else 0

    def _of_guests(
        self,
        disks: GuestDisks,
        hypervisor: Libvirt,
        parsed_args: argparse.Namespace,
        settings: Settings,
        now: Callable[[], float],
        stack: ExitStack,
    ) -> dict[str, Source]:
        """Their disks, changes of limits and probes, which end with the stack. Raises ``PlimsollError``."""
        each: dict[str, Source] = {GUESTS: disks}
        each[CHANGES] = changes(FollowedRecord(Record(state_of(settings).record), Selection()))
        if parsed_args.probe:
            probes = self._probes(parsed_args, settings, hypervisor, now, stack)
            each |= {f"probe of {printable(name)}": probing(probe, name) for name, probe in probes}
        return each

    def _probes(
        self,
        parsed_args: argparse.Namespace,
        settings: Settings,
        hypervisor: Libvirt,
        now: Callable[[], float],
        stack: ExitStack,
    ) -> list[tuple[str, SteadyProbe]]:
        """They have begun, and are ended with the stack. Raises ``PlimsollError``."""
        state = state_of(settings)
        state.prepare()
        rules = pass_context(settings, read_only=True).situation.rules
        targets = targets_of(pick(hypervisor, settings, rules, datetime.now(UTC)), parsed_args.probe)
        stack.enter_context(alone(state))
        ask = stack.enter_context(agents(settings, len(targets) + 1))
        probes = []
        for target in targets:
            guest = target.guest
            shell = partial(GuestShell, partial(ask, guest.uuid), clock=time.monotonic)
            probe = SteadyProbe(shell, target.directory, settings.probe.keep_free, now)
            stack.callback(self._end, guest.name, probe)
            try:
                probe.begin()
            except Trouble as trouble:
                words = why_words(trouble.why, trouble.facts)
                raise PlimsollError(f"--probe {printable(guest.name)}: {words}") from trouble
            probes.append((guest.name, probe))
        return probes

    def _end(self, name: str, probe: SteadyProbe) -> None:
        if not probe.end():
            self.warn_of(f"{printable(name)}: the probe left its file there; the next one removes it")

    def _watch(
        self,
        sources: Sources,
        wait: Callable[[float], bool],
        length: float | None,
        interval: float,
        cluster: ClusterStatus | None,
        disks: GuestDisks | None,
        beyond: Callable[[], list[str]],
    ) -> list[str]:
        """What ``beyond`` told, which ends it. Raises ``RecordingError`` where the file cannot be written."""
        stderr, began = self.app.stderr, time.monotonic()
        lines: list[str] = []
        sources.start()
        try:
            while sources.failure is None and not (lines := beyond()):
                rest = interval if length is None else min(interval, began + length - time.monotonic())
                if rest <= 0 or wait(rest):
                    break
                if stderr.isatty():
                    stderr.write(f"\r\x1b[K{progress(time.monotonic() - began, sources.silent, cluster, disks)}")
                    stderr.flush()
        finally:
            sources.stop()
            if stderr.isatty():
                stderr.write("\r\x1b[K")
                stderr.flush()
        if sources.failure is not None:
            raise sources.failure
        return lines


def _check(parsed_args: argparse.Namespace, interval: float, deadline: float, length: float | None) -> None:
    """Raises ``UsageError``."""
    if not _LEAST <= interval <= _MOST:
        raise UsageError(f"--interval: must be from {_LEAST:g} seconds to a minute")
    if deadline <= 0 or (length is not None and length < interval):
        raise UsageError("--deadline must be more than 0, and --for an interval or more")
    if parsed_args.no_guests and (parsed_args.no_ceph or parsed_args.guest or parsed_args.probe):
        raise UsageError("--no-guests: nothing would be recorded, or --guest or --probe contradicts it")


def _check_answers(sources: Sources, names: Iterable[str]) -> None:
    """Raises ``Unreachable``."""
    for name in names:
        if name not in (CHANGES, LOG) and name not in sources.answered:
            raise Unreachable(f"{name}: never answered: {sources.silent.get(name, 'no reason')}")


def _bound(parsed_args: argparse.Namespace, interval: float) -> float:
    """Raises ``UsageError``."""
    bound = time_of("--until-stalled", parsed_args.until_stalled)
    if bound < 2 * interval:
        raise UsageError("--until-stalled: must be two intervals or more")
    if parsed_args.no_guests or parsed_args.no_ceph:
        raise UsageError("--until-stalled needs the guests, and Ceph to tell a stall from a guest that is idle")
    return bound


def _stall_lines(lengths: Mapping[int, float], disks: GuestDisks) -> list[str]:
    names = ((disks.names[number], length) for number, length in sorted(lengths.items()))
    return [f"{printable(name.words)} has completed no request for {length:.0f} s" for name, length in names]


def progress(seconds: float, silent: dict[str, str], cluster: ClusterStatus | None, disks: GuestDisks | None) -> str:
    parts = [durations.words(timedelta(seconds=seconds))]
    if cluster is not None and (last := cluster.last) is not None and CLUSTER not in silent:
        parts.append(f"{last.up} of {plural(last.osds, 'OSD')} up")
        for number, what in ((last.peering, "peering"), (last.unclean, "not clean")):
            if number:
                parts.append(f"{number} PGs {what}")
    if disks is not None and GUESTS not in silent:
        parts.append(f"{iops_words(disks.iops)} IOPS")
        if disks.latency is not None:
            parts.append(latency_words(disks.latency * 1e9))
    parts += [f"{name} unknown" for name in (CLUSTER, GUESTS) if name in silent]
    return ", ".join(parts)
