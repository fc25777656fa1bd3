"""``plimsoll return run``: starts OSDs that are down in waves that fit the memory of their hosts."""

from __future__ import annotations

import argparse
import os
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from plimsoll_agent.app.context import who
from plimsoll_agent.errors import PlimsollError, UsageError
from plimsoll_agent.terminal.base import YES, LocalCommand
from plimsoll_agent.terminal.moments import time_of
from plimsoll_agent.terminal.output import USUAL_WIDTH
from plimsoll_agent.terminal.until import ended_early
from plimsoll_agent.util import files, locks
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import printable
from plimsoll_insight.cli.drill_sources import ClusterLog, ClusterStatus
from plimsoll_insight.cli.return_plan import (
    SYSTEMD,
    ClusterLook,
    add_options,
    hosts_of,
    look_at,
    reserve_of,
    writer_of,
)
from plimsoll_insight.drill.recording import RecordingWriter, read
from plimsoll_insight.drill.sources import Sources
from plimsoll_insight.forecast.settings import DEGRADED_SLEEP, SLEEP, OsdSettings
from plimsoll_insight.ordered_return import journal, messages
from plimsoll_insight.ordered_return.control import ReturnBounds
from plimsoll_insight.ordered_return.hosts import Ways
from plimsoll_insight.ordered_return.journal import (
    ChangeTarget,
    ClusterChange,
    ReturnJournal,
    ReturnJournalError,
    TargetKind,
)
from plimsoll_insight.ordered_return.runner import ReturnEnding, ReturnOutcome, Runner, restore

FLAGS = ("noout", "nodown", "norebalance", "nobackfill", "norecover", "noscrub", "nodeep-scrub")
_BY_MCLOCK = "osd_mclock_profile"
_OVERRIDE = "osd_mclock_override_recovery_settings"
_WITHOUT_RECOVERY = frozenset({"norecover", "nobackfill", "norebalance"})
"""With the last, what is whole elsewhere is not moved back to OSDs that were out."""
_WITHOUT_MCLOCK = ("osd_max_backfills", "osd_recovery_max_active", SLEEP, DEGRADED_SLEEP)
SETTINGS = (*_WITHOUT_MCLOCK, _BY_MCLOCK, _OVERRIDE)
_NUMBER = re.compile(r"\d{1,9}(\.\d{1,6})?", re.ASCII)
_VALUES = {_BY_MCLOCK: re.compile(r"[a-z_]+"), _OVERRIDE: re.compile("true|false")}
_LATE = 3.0
"""Intervals for which a status counts without a next one."""


LOCK = "return.lock"


class ReturnBusy(PlimsollError):
    """Another return is under way."""

    exit_status = 75


class ReturnRun(LocalCommand):
    """Start OSDs that are down, in waves that fit their hosts' memory.

    Those come first that bring placement groups back to service. It names the cluster, the hosts and the waves, and
    asks. Then it starts one wave at a time: the next one when all of it is up, has peered, and its memory has peaked,
    and if the next fits into what is free. It holds, and says why, when something goes wrong, and ends if that lasts
    longer than --patience. Ctrl-C ends it; OSDs stay as they are.

    Flags and settings are set only as --flag and --set name them. They are recorded first, and restored at the end,
    whatever that is; after kill -9 by return stop, or by the next run. Until then systemd restarts no OSD of these
    hosts that fails, since it would take the memory of others.

    Exit status:
        0   done or, with --check, no OSD is down
        1   error: nothing was started
        2   with --check: OSDs would be started
        3   it ended early, or something could not be restored or recorded; with --check: no OSD is down, and what
            an earlier return has changed is not restored
        64  usage
        75  another return is under way

    Examples:
        plimsoll return run --flag noout
        plimsoll return run --within rack-2 --when-full restart --set osd_max_backfills=1
        plimsoll return run --unit 'ceph-{fsid}@osd.{osd}.service' --on-host 'ssh root@{host}' --check
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--check", action="store_true", help="show what would be done, and write nothing")
        parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
        parser.add_argument("--record", metavar="FILE", type=Path,
                            help="a new file for the recording; default: beside the record of returns")  # fmt: skip
        parser.add_argument("--until", choices=("active", "clean"), default="clean",
                            help="ends when all waves serve (active), or in sync (clean, the default)")  # fmt: skip
        bounds = parser.add_argument_group("when it holds")
        bounds.add_argument("--slow", metavar="N", type=int, default=100, help="more slow requests; default: 100")
        bounds.add_argument("--start-within", metavar="TIME", default="5m",
                            help="an OSD is not up so long after its start; default: 5m")  # fmt: skip
        bounds.add_argument("--stuck-after", metavar="TIME", default="10m",
                            help="no placement group less peers or recovers for so long; default: 10m")  # fmt: skip
        bounds.add_argument("--patience", metavar="TIME", default="15m", help="how long it holds; default: 15m")
        bounds.add_argument("--when-full", choices=("wait", "restart"), default="wait",
                            help="where the next does not fit: wait, or restart the OSD that holds most")  # fmt: skip
        bounds.add_argument("--interval", metavar="TIME", default="2s", help="between two looks; default: 2s")
        change = parser.add_argument_group("what is changed for that time")
        change.add_argument("--flag", metavar="FLAG", action="append", default=[], choices=FLAGS,
                            help=f"set it: {', '.join(FLAGS)}; repeatable")  # fmt: skip
        change.add_argument("--set", metavar="NAME=VALUE", action="append", default=[],
                            help=f"for all OSDs: {', '.join(SETTINGS)}; repeatable")  # fmt: skip
        change.add_argument("--keep-restarts", action="store_true",
                            help="systemd may go on to restart OSDs that fail")  # fmt: skip
        add_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        bounds, interval = bounds_of(parsed_args), time_of("--interval", parsed_args.interval)
        if not 0 < interval <= 60:
            raise UsageError("--interval: must be more than 0, and at most a minute")
        desired = desired_of(parsed_args)
        if bounds.until_clean and (flags := _WITHOUT_RECOVERY.intersection(parsed_args.flag)):
            raise UsageError(f"--flag {min(flags)}: nothing gets in sync with it; add --until active")
        home = self.settings(parsed_args).state_dir / "return"
        with nullcontext() if parsed_args.check else alone(home):
            return self._of(parsed_args, desired, bounds, interval, home)

    def _of(
        self,
        parsed_args: argparse.Namespace,
        desired: dict[ChangeTarget, str],
        bounds: ReturnBounds,
        interval: float,
        home: Path,
    ) -> int:
        entries = journal.read(home / journal.NAME)
        former = LeftChanges.of(entries)
        look = look_at(self, parsed_args)
        if look is None:
            self._say("No OSD is down that could return.")
            if not former.changes:
                return 0
            if parsed_args.check:
                self.warn_of(f"{former.words}: plimsoll return stop restores that")
                return 3
            return restore_former(self, parsed_args, home, entries, self._say)
        former.check(look.ways.fsid)
        former.check_unit(look.ways.unit)
        desired |= _no_restarts(parsed_args, look)
        _check_mclock(desired, look.has_mclock)
        _check_sleep(desired, look.settings)
        for line in (f"Cluster {look.ways.fsid}.", *messages.plan_lines(look.plan), *messages.wave_lines(look.plan)):
            self._say(line)
        for target, value in desired.items():
            self._say(f"{messages.target_words(target)}: {value} for that time.")
        refusals = [*look.refusals]
        if bounds.until_clean and (flags := sorted(look.cluster.osd_map.flags & _WITHOUT_RECOVERY)):
            how = f"ceph osd unset {flags[0]}, or add --until active"
            refusals.append(f"the cluster has the flag {', '.join(flags)}, with which nothing gets in sync: {how}")
        if refusals:
            raise PlimsollError(f"nothing is started: {'; '.join(refusals)}")
        if parsed_args.check:
            return 2
        if not self._agrees(parsed_args, look):
            self._say("Nothing started.")
            return 1
        return self._run(parsed_args, look, desired, former, bounds, interval, home)

    def _agrees(self, parsed_args: argparse.Namespace, look: ClusterLook) -> bool:
        """Raises ``UsageError`` without a terminal to ask on."""
        if parsed_args.yes:
            return True
        if not self.app.stdin.isatty():
            raise UsageError("nothing started: no terminal to ask on. Add --yes, or look first with --check")
        on = ", ".join(map(printable, sorted(look.views)))
        return self.answer_to(f"Start these OSDs of {on} in cluster {look.ways.fsid}? [y/N] ") in YES

    def _run(
        self, parsed_args: argparse.Namespace, look: ClusterLook, desired: Mapping[ChangeTarget, str],
        former: LeftChanges, bounds: ReturnBounds, interval: float, home: Path,
    ) -> int:  # fmt: skip
        from plimsoll_insight.adapters.returning_osds import ReturnWorld

        now = datetime.now(UTC)
        run = f"{now:%Y%m%dT%H%M%SZ}"
        path = parsed_args.record or home / f"{run}.drill"
        book = ReturnJournal(home / journal.NAME, run, who(), lambda: datetime.now(UTC))
        world = ReturnWorld(writer_of(self, parsed_args), hosts_of(look), sorted(look.views), bounds.tolerated)
        writer = RecordingWriter.begin(path, time.time(), socket.gethostname(), interval)
        ways = look.ways
        book.write("begin", fsid=ways.fsid, osds=sorted(look.plan.returning), pid=os.getpid(), recording=str(path),
                   unit=ways.unit, on_host=list(ways.on_host), version=journal.VERSION)  # fmt: skip
        sources = _sources(parsed_args, self, writer, interval)
        sources.start()

        def say(words: str) -> None:
            self._clear()
            self._say(f"{datetime.now(UTC):%H:%M:%S} {words}")
            writer.write(time.time(), {"mark": words[:500], "by": who()})

        with ended_early() as stop:
            runner = Runner(world, book, look.plan, look.whole, bounds, say=say, wait=stop.wait,
                            show=self._show, interval=interval)  # fmt: skip
            outcome = runner.run(desired, former.changes)
        sources.stop()
        self._clear()
        problems: list[str] = []
        over = "over" if outcome.ending is ReturnEnding.DONE else "stopped"
        for write in (
            partial(book.write, "end", text=outcome.text, ending=outcome.ending.value),
            partial(writer.write, time.time(), {"end": over}),
        ):
            try:
                write()
            except PlimsollError as error:
                problems.append(str(error))
        return self._summary(outcome, look, path, problems)

    def _summary(self, outcome: ReturnOutcome, look: ClusterLook, path: Path, problems: Sequence[str]) -> int:
        if outcome.ending is not ReturnEnding.DONE:
            self._say(f"Ended early: {outcome.text}. OSDs stay as they are; return run goes on with the rest.")
        starts = {one.osd for one in (*outcome.progress.finished, *outcome.progress.current)}
        number, osds = len(starts.intersection(look.plan.returning)), len(look.plan.returning)
        self._say(f"{number} of {osds} OSDs started in {messages.seconds(outcome.seconds)};"
                  f" forecast {messages.time_range(look.plan.seconds)} until the last wave serves.")  # fmt: skip
        try:
            score, unknown = impact_score(path)
            self._say(f"Impact score {score:.1f} PG·s peering"
                      + (f", {unknown:.0f} s unknown" if unknown >= 1 else "") + ".")  # fmt: skip
        except PlimsollError as error:
            self._say(f"Impact score unknown: {error}")
        for line in messages.memory_lines(outcome.progress, look.plan):
            self._say(line)
        self._say(f"Recorded in {path}: plimsoll drill report {path}")
        for words in problems:
            self.warn_of(f"Not recorded: {words}")
        for words in outcome.left:
            self.warn_of(f"{words}. Try again: plimsoll return stop")
        return 0 if outcome.ending is ReturnEnding.DONE and not outcome.left and not problems else 3

    def _say(self, words: str) -> None:
        self.app.stdout.write(f"{words}\n")
        self.app.stdout.flush()

    def _show(self, words: str) -> None:
        if self.app.stderr.isatty():
            self.app.stderr.write(f"\r\x1b[K{words[: (self.terminal.width or USUAL_WIDTH) - 1]}")
            self.app.stderr.flush()

    def _clear(self) -> None:
        if self.app.stderr.isatty():
            self.app.stderr.write("\r\x1b[K")
            self.app.stderr.flush()


def bounds_of(parsed_args: argparse.Namespace) -> ReturnBounds:
    """Raises ``UsageError``."""
    return ReturnBounds(
        reserve=reserve_of(parsed_args),
        slow=parsed_args.slow,
        start_within=time_of("--start-within", parsed_args.start_within),
        steady=time_of("--steady", parsed_args.steady),
        stuck_after=time_of("--stuck-after", parsed_args.stuck_after),
        patience=time_of("--patience", parsed_args.patience),
        restarts=parsed_args.when_full == "restart",
        until_clean=parsed_args.until == "clean",
        tolerated=frozenset(parsed_args.tolerate),
    )


def desired_of(parsed_args: argparse.Namespace) -> dict[ChangeTarget, str]:
    """Raises ``UsageError``."""
    desired = {ChangeTarget(TargetKind.FLAG, flag): "set" for flag in parsed_args.flag}
    for words in parsed_args.set:
        name, _, value = words.partition("=")
        if name not in SETTINGS:
            raise UsageError(f"--set {printable(words)}: only {', '.join(SETTINGS)} are set, as NAME=VALUE")
        if not _VALUES.get(name, _NUMBER).fullmatch(value):
            raise UsageError(f"--set {printable(words)}: needs a value, a plain number, true, false or a profile")
        if desired.setdefault(ChangeTarget(TargetKind.SETTING, name), value) != value:
            raise UsageError(f"--set {name} is given twice")
    # OSDs drop what they do not take yet, so what lets them take it is set first, and restored last.
    return dict(sorted(desired.items(), key=lambda each: each[0].name != _OVERRIDE))


def _check_mclock(desired: Mapping[ChangeTarget, str], has_mclock: bool | None) -> None:
    """Since Quincy OSDs with mClock take no notice of some settings. Raises ``UsageError``."""
    names = {target.name for target in desired if target.kind is TargetKind.SETTING}
    of_no_use = names.intersection(_WITHOUT_MCLOCK)
    if has_mclock and (sleeps := names.intersection((SLEEP, DEGRADED_SLEEP))):
        raise UsageError(f"--set {min(sleeps)}: OSDs have mclock_scheduler, which never sleeps, so it has no effect")
    if has_mclock and of_no_use and _OVERRIDE not in names:
        raise UsageError(
            f"--set {min(of_no_use)}: OSDs have mclock_scheduler, where it has no effect; give"
            f" --set {_BY_MCLOCK}=high_client_ops, or --set {_OVERRIDE}=true as well"
        )
    if has_mclock is False and names.intersection((_BY_MCLOCK, _OVERRIDE)):
        raise UsageError(f"--set {_BY_MCLOCK}: OSDs have no mclock_scheduler (osd_op_queue), so it has no effect")


def _check_sleep(desired: Mapping[ChangeTarget, str], osds: Sequence[OsdSettings]) -> None:
    """Where there is one for groups that lack copies, the other has no effect on them. Raises ``UsageError``."""
    names = {target.name for target in desired if target.kind is TargetKind.SETTING}
    if SLEEP in names and DEGRADED_SLEEP not in names and any(osd.sleep_name == DEGRADED_SLEEP for osd in osds):
        raise UsageError(
            f"--set {SLEEP}: these OSDs sleep by {DEGRADED_SLEEP} while copies are missing; give that, or both"
        )


def _no_restarts(parsed_args: argparse.Namespace, look: ClusterLook) -> dict[ChangeTarget, str]:
    if parsed_args.keep_restarts or not look.ways.is_systemd:
        return {}
    return {ChangeTarget(TargetKind.RESTARTS, host): "no" for host in sorted(look.views)}


def _sources(
    parsed_args: argparse.Namespace, command: LocalCommand, writer: RecordingWriter, interval: float
) -> Sources:
    status = ClusterStatus(writer_of(command, parsed_args), time.time)
    return Sources(writer, {"ceph": status, "log": ClusterLog(status, time.time())}, interval, time.time)


def impact_score(path: Path) -> tuple[float, float]:
    """PG·s that were peering, and for how many seconds that is unknown. Raises ``RecordingError``."""
    recording = read(path)
    statuses = recording.statuses
    ends = [time for time, _ in statuses[1:]] + [recording.last]
    lengths = [min(end - time, _LATE * recording.interval) for (time, _), end in zip(statuses, ends, strict=False)]
    score = sum(length * status.peering for length, (_, status) in zip(lengths, statuses, strict=False))
    return score, max(recording.last - recording.began - sum(lengths), 0.0)


def restore_former(
    command: LocalCommand,
    parsed_args: argparse.Namespace,
    home: Path,
    entries: Sequence[journal.ReturnEntry],
    say: Callable[[str], None],
) -> int:
    """What earlier returns have changed: the status of the command. Raises ``PlimsollError``."""
    from plimsoll_insight.adapters.returning_osds import OsdHosts, ReturnWorld

    former, cluster = LeftChanges.of(entries), writer_of(command, parsed_args)
    former.check(cluster.osd_map().fsid)
    begin = [entry for entry in entries if entry.what == "begin"][-1].facts
    ways = Ways(
        on_host=tuple(begin["on_host"]), unit=str(begin["unit"]), start=SYSTEMD, restart=SYSTEMD, fsid=former.fsid
    )
    host_of = {osd: bucket.host for osd, bucket in cluster.map().tree.bucket_of.items()}
    world = ReturnWorld(cluster, OsdHosts(ways=ways, host_of=host_of, deadline=cluster.deadline), (), frozenset())
    book = ReturnJournal(home / journal.NAME, entries[-1].run, who(), lambda: datetime.now(UTC))
    problems = restore(tuple(former.changes.values()), world, book, say)
    for words in problems:
        command.warn_of(f"{words}. Try again: plimsoll return stop")
    return 3 if problems else 0


@contextmanager
def alone(home: Path) -> Iterator[None]:
    """In the directory of returns, while no other one is under way. Raises ``ReturnBusy``, ``ReturnJournalError``."""
    files.prepare(home, 0o700, ReturnJournalError)
    lock = home / LOCK
    with locks.held(
        lock, ReturnBusy(f"{lock}: another return is under way: plimsoll return status"), ReturnJournalError
    ):
        yield


@frozen
class LeftChanges:
    """What an earlier return has changed and not restored, and in which cluster."""

    changes: dict[ChangeTarget, ClusterChange]
    fsid: str
    unit: str = ""
    """Of its OSDs, for those that systemd does not restart."""

    @classmethod
    def of(cls, entries: Sequence[journal.ReturnEntry]) -> LeftChanges:
        begins = [entry.facts for entry in entries if entry.what == "begin"]
        last = begins[-1] if begins else {"fsid": "", "unit": ""}
        return cls(journal.open_changes(entries), str(last["fsid"]), str(last["unit"]))

    @property
    def words(self) -> str:
        return f"an earlier return left changes: {', '.join(map(messages.target_words, self.changes))}"

    def check(self, fsid: str) -> None:
        """Raises ``PlimsollError`` where that is another cluster."""
        if self.changes and fsid != self.fsid:
            raise PlimsollError(
                f"{self.words} in cluster {self.fsid}, and this is {fsid}: restore it first, by return stop there"
            )

    def check_unit(self, unit: str) -> None:
        """Raises ``PlimsollError`` where restarts are forbidden of other units than would be allowed again."""
        if unit != self.unit and any(target.kind is TargetKind.RESTARTS for target in self.changes):
            raise PlimsollError(
                f"{self.words}, of units {self.unit}, not {unit}: give that --unit, or restore it first: plimsoll"
                " return stop"
            )
