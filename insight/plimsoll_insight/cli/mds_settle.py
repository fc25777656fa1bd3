"""``plimsoll mds settle`` and ``mds undo``: balancing off and pins, by a record, and the way back."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from plimsoll_agent.adapters.ceph import Ceph
from plimsoll_agent.app.context import who
from plimsoll_agent.app.node import state_of
from plimsoll_agent.config.settings import CephSettings
from plimsoll_agent.errors import PlimsollError, Rejected, Unreachable, UsageError
from plimsoll_agent.model.clusters import Cluster, Clusters
from plimsoll_agent.reconcile.health_gate import BlockingCheck, Gate
from plimsoll_agent.terminal.base import YES, LocalCommand
from plimsoll_agent.terminal.moments import time_of
from plimsoll_agent.terminal.until import ended_early
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import plural, printable, second
from plimsoll_insight.adapters.file_system import DirectoryGone, LiveFileSystems, LiveSettings
from plimsoll_insight.cli.cluster_options import add_file_system, cluster_of, file_system_of
from plimsoll_insight.mds.answers import FileSystem, Owners
from plimsoll_insight.mds.journal import FileSystemJournal, OpenStep
from plimsoll_insight.mds.settings import (
    PINS,
    CephSetting,
    Name,
    SettingStep,
    balancing_off,
    gathered,
    is_same,
    pin_of,
    pins_last,
    spread_by,
    steps,
    strays,
)

_DEADLINE = 30.0
_BETWEEN = 2.0
"""Seconds between two looks at where directories are."""
_MOST_SHARE = "mds_export_ephemeral_random_max"
_OF_FILE_SYSTEMS = tuple(map(BlockingCheck.read, ("FS_*", "MDS_DAMAGE", "MDS_ALL_DOWN", "MDS_HEALTH_READ_ONLY")))


@frozen(kw_only=True)
class _Place:
    """Where it acts: ``daemons`` in words, with their hosts."""

    live: LiveFileSystems
    file_system: FileSystem
    fsid: str
    daemons: str

    @property
    def words(self) -> str:
        return f"file system {printable(self.file_system.name)} of cluster {self.fsid} ({self.daemons})"


class _ChangesFileSystem(LocalCommand):
    """Asks, and keeps the record."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--mount", metavar="DIR", type=Path, help="where the root of the file system is mounted,"
                            " for pins; its client needs mds 'allow rwp'")  # fmt: skip
        parser.add_argument("--dry-run", action="store_true", help="show what would change; change nothing")
        parser.add_argument("--yes", action="store_true", help="do not ask")
        parser.add_argument("--ignore-health", action="store_true", help="also while the cluster is unhealthy")
        add_file_system(parser)
        return parser

    def place(self, parsed_args: argparse.Namespace) -> _Place:
        """Raises ``PlimsollError``, also where nothing may be changed now."""
        if not parsed_args.yes and not parsed_args.dry_run and not self.app.stdin.isatty():
            raise UsageError("no terminal to ask on; add --yes, or --dry-run to look first")
        settings = self.settings(parsed_args).ceph
        cluster = cluster_of(parsed_args, lambda: settings, _DEADLINE)
        live = LiveFileSystems(cluster)
        file_system = file_system_of(live.all(), parsed_args.fs)
        fsid, hosts = live.fsid(), live.hosts()
        daemons = ", ".join(
            printable(f"rank {rank}: mds.{name} on {hosts.get(name, 'an unknown host')}")
            for rank, name in file_system.ranks.items()
        )
        if file_system.inactive:
            ranks = ", ".join(map(str, file_system.inactive))
            raise Rejected(f"{file_system.name}: rank {ranks} is not active; mend that first (ceph fs status)")
        if not parsed_args.ignore_health:
            _check_health(settings, Cluster(cluster.conf, fsid, frozenset()), cluster.client)
        return _Place(live=live, file_system=file_system, fsid=fsid, daemons=daemons)

    def agrees(self, parsed_args: argparse.Namespace, question: str) -> bool:
        return parsed_args.yes or self.answer_to(f"{question} [y/N] ") in YES

    def say_reach(self, changes: Sequence[SettingStep], live: LiveFileSystems) -> None:
        """Raises ``PlimsollError``."""
        if any(step.setting.name is Name.INTERVAL for step in changes) and len(others := live.all()) > 1:
            self.say(f"  mds_bal_interval is of all {len(others)} file systems of this cluster")

    def say(self, line: str) -> None:
        self.app.stdout.write(f"{line}\n")
        self.app.stdout.flush()


class MdsSettle(_ChangesFileSystem):
    """Turn the balancer of a CephFS off, and pin directories to ranks.

    It shows each setting with its value now and then, and the ranks and hosts that it is of, and asks. Each change is
    recorded before it is made: mds undo takes all back. Then it waits until each directory is on the rank of its pin.

    Balancing is turned off by balance_automate of the file system; before Reef by mds_bal_interval, which is of all
    file systems of the cluster. --gather pins the directories below the root that other ranks have parts of to one
    rank, until it has all. Pins need --mount, where the root of the file system is mounted.

    Exit status:
        0   done, or nothing to do
        3   some settings not changed, or directories not where their pins say in time
        1   error, and nothing changed
        64  usage
        75  another mds settle or undo runs

    Examples:
        plimsoll mds settle --dry-run
        plimsoll mds settle --mount /mnt/cephfs --gather 0
        plimsoll mds settle --mount /mnt/cephfs --pin /home=distributed --pin /scratch=2
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--gather", metavar="RANK", type=int, help="pin what other ranks have to this one")
        parser.add_argument("--pin", metavar="DIR=WHERE", action="append", default=[],
                            help="a rank, distributed, a share of directories, or none; repeatable")  # fmt: skip
        parser.add_argument("--keep-balancing", action="store_true", help="set pins only")
        parser.add_argument("--wait", metavar="TIME", default="5m", help="for directories to move; default: 5m")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        patience = time_of("--wait", parsed_args.wait)
        place = self.place(parsed_args)
        live, file_system = place.live, place.file_system
        settings = LiveSettings(live, parsed_args.mount)
        owners = _owners(live, file_system.name)
        desired = _desired(parsed_args, file_system, owners)
        if any(setting.name in PINS for setting, _ in desired):
            settings.check_mount(place.fsid, file_system)
            _check_distributed(live, file_system, desired)
            _check_share(live, file_system, desired)
        plan = steps(desired, settings.read)
        if not plan:
            self.say(f"{place.words}: all is set already; nothing to change.")
            return self._wait(place, desired, patience) if desired and not parsed_args.dry_run else 0
        self.say(f"{place.words}:")
        for step in plan:
            self.say(f"  {step_words(step)}")
        self.say_reach(plan, live)
        if parsed_args.dry_run:
            self.say("Dry run: nothing is changed.")
            return 0
        if not self.agrees(parsed_args, f"Make {plural(len(plan), 'change')}?"):
            self.say("Nothing changed.")
            return 1
        state = state_of(self.settings(parsed_args))
        with state.file_systems_locked():
            _check_as_shown(plan, settings)
            journal = FileSystemJournal(state.file_systems, place.fsid, file_system.name)
            number, is_whole = self._make(plan, settings, journal)
        if not is_whole:
            self.say(
                f"{number} of {plural(len(plan), 'change')} made. Next: plimsoll mds undo takes back what was made."
            )
            return 3 if number else 1
        self.say(f"{plural(number, 'change')} made. plimsoll mds undo takes back what is recorded.")
        return self._wait(place, desired, patience)

    def _make(
        self, plan: Sequence[SettingStep], settings: LiveSettings, journal: FileSystemJournal
    ) -> tuple[int, bool]:
        """How many were made or may have been, and whether all were."""
        for number, step in enumerate(plan):
            try:
                entry = journal.begin(step, datetime.now(UTC), who())
                settings.write(step.setting, step.after)
                _check_is(step.setting, step.after, settings)
                journal.done(entry, datetime.now(UTC), who())
            except PlimsollError as error:
                self.warn_of(f"{step_words(step)}: {error}")
                return number + _may_be_made(step, settings), False
        return len(plan), True

    def _wait(self, place: _Place, desired: Sequence[tuple[CephSetting, str]], patience: float) -> int:
        """Until daemons have the settings and directories are where their pins say."""
        end = time.monotonic() + patience
        with ended_early() as stop:
            while True:
                try:
                    rest = [
                        *_not_in_force(place, desired),
                        *strays(desired, _owners(place.live, place.file_system.name)),
                    ]
                except PlimsollError as error:
                    rest = [str(error)]
                if not rest or time.monotonic() > end or stop.wait(_BETWEEN):
                    break
        if rest:
            self.warn_of(f"not yet so: {printable('; '.join(rest[:3]))}{' …' if len(rest) > 3 else ''}")
            return 3
        if spread := [printable(path) for path in spread_by(desired)]:
            self.say(f"Ranks spread what is in {', '.join(spread)} from now on; plimsoll mds watch shows the moves.")
        else:
            self.say("All ranks have it so.")
            if any(setting.name in PINS for setting, _ in desired):
                self.say("For about two minutes clients still ask the ranks of before, which forward: then watch.")
        return 0


class MdsUndo(_ChangesFileSystem):
    """Restore the settings that mds settle changed.

    It takes back each change that the record has, the last first, to the value of before. A setting that has another
    value since was changed by something else: it is left alone and named. Directories stay on their ranks until the
    balancer moves them.

    Exit status:
        0   all as before, or nothing to do
        3   some not restored
        1   error, and none restored
        64  usage
        75  another mds settle or undo runs

    Examples:
        plimsoll mds undo --dry-run
        plimsoll mds undo --mount /mnt/cephfs
        plimsoll mds undo --fs cephfs --yes
    """

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        place = self.place(parsed_args)
        settings = LiveSettings(place.live, parsed_args.mount)
        state = state_of(self.settings(parsed_args))
        journal = FileSystemJournal(state.file_systems, place.fsid, place.file_system.name)
        open_steps = journal.open_steps()[::-1]
        if not open_steps:
            self.say(f"{place.words}: the record {state.file_systems} has nothing to take back.")
            return 0
        if any(each.step.setting.name in PINS for each in open_steps):
            settings.check_mount(place.fsid, place.file_system)
        self.say(f"{place.words}:")
        for each in open_steps:
            self.say(f"  {step_words(_back(each.step))}, set {second(each.at)} by {printable(each.by)}")
        self.say_reach([each.step for each in open_steps], place.live)
        if parsed_args.dry_run:
            self.say("Dry run: nothing is changed.")
            return 0
        if not self.agrees(parsed_args, f"Take back {plural(len(open_steps), 'change')}?"):
            self.say("Nothing changed.")
            return 1
        numbers = {each.number for each in open_steps}
        with state.file_systems_locked():
            rest = [each for each in journal.open_steps()[::-1] if each.number in numbers]
            failures = len(rest) - sum([self._undo(each, settings, journal) for each in rest])
        undone = len(open_steps) - failures
        self.say(f"{undone} of {plural(len(open_steps), 'change')} taken back.")
        return 0 if undone == len(open_steps) else 3 if undone else 1

    def _undo(self, open_step: OpenStep, settings: LiveSettings, journal: FileSystemJournal) -> bool:
        step = open_step.step
        try:
            if not self._takes_back(step, settings):
                return False
            journal.undone(open_step.number, datetime.now(UTC), who())
        except PlimsollError as error:
            self.warn_of(f"{step_words(_back(step))}: {error}")
            return False
        return True

    def _takes_back(self, step: SettingStep, settings: LiveSettings) -> bool:
        """Whether it is as before now. Raises ``PlimsollError``."""
        try:
            now = settings.read(step.setting)
            if is_same(now, step.after):
                settings.write(step.setting, step.before)
                _check_is(step.setting, step.before, settings)
            elif not is_same(now, step.before):
                self.warn_of(f"{_name(step.setting)}: left at {_value(now)}: something else changed it")
                return False
        except DirectoryGone:
            self.warn_of(f"{_name(step.setting)}: the directory is gone, and its pin with it")
        return True


def _check_health(settings: CephSettings, cluster: Cluster, client: str) -> None:
    """Raises ``PlimsollError`` where something else is wrong, or that is unknown."""
    ask = Ceph(client, settings.deadline).health
    gate = Gate(Clusters((cluster,)), ask, (*settings.blocking_checks, *_OF_FILE_SYSTEMS))
    if checks := gate.blocks(gate.health(cluster)):
        raise Rejected(
            f"cluster {cluster.fsid} is unhealthy: {', '.join(checks)}; mend that first, or --ignore-health"
        )


def _owners(live: LiveFileSystems, name: str) -> Owners:
    """Raises ``PlimsollError``, also where a rank does not answer."""
    reading = live.reading(name)
    if reading.owners is None:
        rank, why = next(iter(reading.errors.items()))
        raise Unreachable(f"{name}: rank {rank}: {why}; so it is unknown which directories it has")
    return reading.owners


def _desired(
    parsed_args: argparse.Namespace, file_system: FileSystem, owners: Owners
) -> list[tuple[CephSetting, str]]:
    """Raises ``UsageError``."""
    ranks = sorted(file_system.ranks)
    values = {}
    if parsed_args.gather is not None:
        if parsed_args.gather not in ranks:
            raise UsageError(
                f"--gather: no rank {parsed_args.gather} is active; there are {', '.join(map(str, ranks))}"
            )
        roots = {rank for each, rank in owners.items() if each.path == "/"}
        if roots and parsed_args.gather not in roots:
            raise UsageError(
                f"--gather {parsed_args.gather}: rank {min(roots)} has the root, which cannot be pinned, and all"
                f" in it without a pin; gather to rank {min(roots)}, or name directories by --pin"
            )
        values = dict(pin_of(f"{path}={parsed_args.gather}", ranks) for path in gathered(owners, parsed_args.gather))
    values |= dict(pin_of(text, ranks) for text in parsed_args.pin)
    off = [] if parsed_args.keep_balancing else [balancing_off(file_system)]
    return off + [(CephSetting(name, path), value) for path, pin in values.items() for name, value in pins_last(pin)]


def _check_distributed(
    live: LiveFileSystems, file_system: FileSystem, desired: Sequence[tuple[CephSetting, str]]
) -> None:
    """Raises ``Rejected`` where ranks would ignore the pin."""
    options = {Name.DISTRIBUTED: "mds_export_ephemeral_distributed", Name.RANDOM: "mds_export_ephemeral_random"}
    for name, option in options.items():
        if any(setting.name is name and value != "0" for setting, value in desired):
            for daemon in file_system.ranks.values():
                if live.in_force(daemon, option) != "true":
                    raise Rejected(
                        f"mds.{daemon} has {option} off, and ignores such pins: ceph config set mds {option} true"
                    )


def _check_share(live: LiveFileSystems, file_system: FileSystem, desired: Sequence[tuple[CephSetting, str]]) -> None:
    """Raises ``Rejected`` where Ceph would refuse the pin, when those of before are gone already."""
    share = max((float(value) for setting, value in desired if setting.name is Name.RANDOM), default=0.0)
    for daemon in file_system.ranks.values() if share else ():
        most = live.in_force(daemon, _MOST_SHARE)
        if share > float(most):
            raise Rejected(
                f"mds.{daemon} takes no share above {float(most):g}: give less, or ceph config set mds {_MOST_SHARE}"
            )


def _check_as_shown(plan: Sequence[SettingStep], settings: LiveSettings) -> None:
    """Raises ``Rejected`` where something else changed a value while a person read: the record would have another."""
    for step in plan:
        if not is_same(now := settings.read(step.setting), step.before):
            raise Rejected(
                f"{_name(step.setting)} is {_value(now)} now, and was {_value(step.before)} when it was shown;"
                " nothing was changed: run it again"
            )


def _check_is(setting: CephSetting, value: str | None, settings: LiveSettings) -> None:
    """Raises ``PlimsollError`` where it is not what was written: for a while a client has the pin of before."""
    end = time.monotonic() + _DEADLINE
    while not is_same(now := settings.read(setting), value):
        if time.monotonic() > end:
            raise Rejected(f"{_name(setting)} is {_value(now)} {_DEADLINE:g} s after it was written")
        time.sleep(_BETWEEN / 10)


def _may_be_made(step: SettingStep, settings: LiveSettings) -> bool:
    try:
        return settings.read(step.setting) != step.before
    except PlimsollError:
        return True


def _not_in_force(place: _Place, desired: Sequence[tuple[CephSetting, str]]) -> Iterator[str]:
    """Raises ``PlimsollError``."""
    for setting, value in desired:
        if setting.name is Name.INTERVAL:
            for daemon in place.file_system.ranks.values():
                if (now := place.live.in_force(daemon, setting.name)) != value:
                    yield f"mds.{daemon} has {setting.name} {now}, by a setting of its own"


def _back(step: SettingStep) -> SettingStep:
    return SettingStep(step.setting, step.after, step.before)


def step_words(step: SettingStep) -> str:
    return f"{_name(step.setting)}: {_value(step.before)} → {_value(step.after)}"


def _name(setting: CephSetting) -> str:
    return printable(f"{setting.name} of {setting.of}")


def _value(value: str | None) -> str:
    return "not set" if value is None else printable(value)
