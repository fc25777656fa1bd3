"""A probe from beginning to end: one guest, one directory in it, one job after the other on one file."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Protocol
from uuid import uuid4

from plimsoll_agent.clusters import Cluster
from plimsoll_agent.disk import Disk
from plimsoll_agent.limits import Limits
from plimsoll_agent.probesettings import ProbeSettings
from plimsoll_agent.rules import Objective
from plimsoll_probes.chosen import Target
from plimsoll_probes.finding import Finding, Trouble, Verdict, Why
from plimsoll_probes.guestexec import KILL_AFTER
from plimsoll_probes.guestshell import GuestShell
from plimsoll_probes.job import Job, JobName
from plimsoll_probes.leave import Leave
from plimsoll_probes.located import located, subject_of
from plimsoll_probes.result import Circumstances, Counted, Health, Measured, Postponed, ProbeResult, Subject
from plimsoll_probes.session import KILL, Premises, Session, longest_fill
from plimsoll_probes.shell import Shell
from plimsoll_probes.slots import Held
from plimsoll_probes.verdict import judge
from plimsoll_probes.witness import Watch, Witness

# After these there is nobody who could run the next job, or no file to run it on.
_FATAL = (Why.VANISHED, Why.REBOOTED, Why.UNREACHABLE, Why.AGENT_SILENT, Why.UNFINISHED, Why.FROZEN)
_NOT_BEGUN = (Why.NO_SLOT, Why.UNHEALTHY)
# What fio says, QEMU must have counted too, but for a few requests at both ends, and some that a volume manager in
# the guest made one of.
_BORNE_OUT = 0.95
_AT_THE_ENDS = 64
# By so many seconds fio's clock may be off ours.
_OFF = 2.0


class Phase(StrEnum):
    """What a probe is doing."""

    LOOKING = "looking"
    FILLING = "filling"
    RUNNING = "running"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a probe is; ``seconds`` is how long the phase lasts, None where nobody knows."""

    target: Target
    phase: Phase
    job: JobName | None
    elapsed: float
    seconds: float | None


class Stopped(Exception):
    """Somebody ended plimsoll: the probe is given up and cleaned away, and no result of it is kept."""


class Watching(Protocol):
    """One run, watched from outside."""

    def tell(self) -> None: ...

    def end(self, *, frozen: bool) -> tuple[Counted | None, Circumstances]: ...


@dataclass(frozen=True, slots=True)
class Desk:
    """What every probe of this process is done with."""

    node: str
    settings: ProbeSettings
    keep: Callable[[ProbeResult], ProbeResult]
    """Puts a result into the history, and gives it back with its number."""
    tell: Callable[[Progress], None]
    stop: threading.Event
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def job(self, name: JobName) -> Job:
        asked = self.settings
        return Job(
            name,
            seconds=asked.seconds,
            file_size=asked.file_size,
            block_size=asked.block_size,
            io_depth=asked.io_depth,
            processes=asked.processes,
            read_percent=asked.read_percent,
            engine=asked.engine,
        )

    def postponed(self, target: Target, why: Why, facts: Mapping[str, object]) -> Postponed:
        guest = target.guest
        return Postponed(self.now(), self.node, guest.uuid, guest.name, target.directory, why, facts)

    def sleep(self, seconds: float) -> None:
        """Raises ``Stopped``."""
        if self.stop.wait(seconds):
            raise Stopped

    def longest_job(self) -> int:
        """Seconds after which a job has ended, whatever becomes of us: the guest's own ``timeout`` sees to it."""
        return self.settings.seconds + self.settings.grace + KILL + KILL_AFTER

    def longest_fill(self) -> int:
        """The same of writing the file."""
        return longest_fill(self.settings.file_size, self.settings.grace) + KILL_AFTER

    def phase(self, target: Target, phase: Phase, job: JobName | None, seconds: float | None) -> Callable[[], None]:
        """What is to be called now and then while the phase lasts. It raises ``Stopped``."""
        begun = self.clock()

        def tell() -> None:
            if self.stop.is_set():
                raise Stopped
            self.tell(Progress(target, phase, job, self.clock() - begun, seconds))

        tell()
        return tell


@dataclass(frozen=True, slots=True)
class Ground:
    """Where the jobs of a target run: a session and what it found, the disk below it, and who watches."""

    session: Session
    premises: Premises
    subject: Subject
    objective: Objective | None
    watch: Callable[[Job], Watching]
    health: Health | None
    """What the disk's cluster said before the first job."""
    health_now: Callable[[], Health | None]
    against: Callable[[Health], str | None]
    """Why a cluster that says this is to be left alone."""


@dataclass(frozen=True, slots=True)
class GuestProbe:
    """Probes a guest through libvirt and its agent."""

    desk: Desk
    witness: Callable[[str], Witness]
    """Of the guest with this uuid."""
    ask: Callable[[str, str, int], str]
    """The agent of the guest with this uuid: a request, and the seconds that it has."""
    leave: Leave
    objective: Callable[[Disk], Objective | None]
    heeds_health: bool = True

    def run(self, target: Target, jobs: Sequence[JobName], until: datetime | None = None) -> Postponed | None:
        """Every result goes to the desk. Why the probe, or the rest of it, was not begun. Raises ``Stopped``.

        One that has not got its turn by ``until`` is not begun, and nothing is to be told of that.
        """
        return _told(self.desk, target, jobs, lambda: self._run(target, jobs, until))

    def _run(self, target: Target, jobs: Sequence[JobName], until: datetime | None) -> None:
        witness = self.witness(target.guest.uuid)
        disks = witness.look().disks
        with self.leave.turn(disks) as names:
            # Not before: its turn may have come after minutes of waiting.
            self.desk.phase(target, Phase.LOOKING, None, None)
            if until is not None and self.desk.now() > until:
                return
            healths = witness.healths(disks)
            if self.heeds_health and (detail := witness.against(healths.values())) is not None:
                raise Trouble(Why.UNHEALTHY, detail=detail)
            with self.leave.slot(names) as held:
                self._probe(target, jobs, witness, disks, healths, held)

    def _probe(
        self,
        target: Target,
        jobs: Sequence[JobName],
        witness: Witness,
        disks: Sequence[Disk],
        healths: Mapping[Cluster | None, Health],
        held: Held,
    ) -> None:
        desk, size = self.desk, self.desk.settings.file_size

        def ask(request: str, seconds: int) -> str:
            return self.ask(target.guest.uuid, request, seconds)

        shell = GuestShell(ask, sleep=desk.sleep, clock=desk.clock)
        shell.check()
        # What is begun is cleaned away also when nobody wants to wait for the rest.
        with _session(desk, target, shell, GuestShell(ask, sleep=time.sleep, clock=desk.clock)) as (
            session,
            premises,
        ):
            before = witness.read(disks)
            _fill(desk, target, session, held)
            disk = located(disks, premises, before, witness.read(disks), size)
            ground = Ground(
                session,
                premises,
                subject_of(target, disk),
                self.objective(disk),
                lambda job: Watch(witness, disk, job.seconds),
                healths[witness.gate.clusters.of(disk)],
                lambda: witness.health(disk),
                lambda health: witness.against([health]) if self.heeds_health else None,
            )
            _all_jobs(desk, target, ground, held, jobs)


@dataclass(frozen=True, slots=True)
class HereProbe:
    """Probes this machine itself, without an agent and without libvirt."""

    desk: Desk
    shell: Shell
    limits: Limits | None
    """What its disk is said to be held to; None where nobody said it."""
    slot: Callable[[], AbstractContextManager[Held]]

    def run(self, target: Target, jobs: Sequence[JobName]) -> Postponed | None:
        """Every result goes to the desk. Why the probe, or the rest of it, was not begun. Raises ``Stopped``."""
        return _told(self.desk, target, jobs, lambda: self._run(target, jobs))

    def _run(self, target: Target, jobs: Sequence[JobName]) -> None:
        unwatched = _Unwatched(Circumstances(promised=self.limits, before=self.limits, after=self.limits))
        with (
            self.slot() as held,
            _session(self.desk, target, self.shell, self.shell) as (session, premises),
        ):
            _fill(self.desk, target, session, held)
            ground = Ground(
                session,
                premises,
                subject_of(target, None),
                objective=None,
                watch=lambda _: unwatched,
                health=None,
                health_now=lambda: None,
                against=lambda _: None,
            )
            _all_jobs(self.desk, target, ground, held, jobs)


@dataclass(frozen=True, slots=True)
class _Unwatched:
    """A run that nobody sees from outside."""

    circumstances: Circumstances

    def tell(self) -> None:
        """There is nothing to read."""

    def end(self, *, frozen: bool) -> tuple[None, Circumstances]:
        return None, replace(self.circumstances, frozen=frozen)


def _told(desk: Desk, target: Target, jobs: Sequence[JobName], work: Callable[[], None]) -> Postponed | None:
    """Do the work; what lets none of the jobs begin is a result of each."""
    started = desk.now()
    try:
        work()
    except Trouble as trouble:
        if trouble.why in _NOT_BEGUN:
            return desk.postponed(target, trouble.why, trouble.facts)
        for name in jobs:
            _without_result(desk, target, subject_of(target, None), name, started, trouble)
    return None


@contextmanager
def _session(desk: Desk, target: Target, shell: Shell, cleaner: Shell) -> Iterator[tuple[Session, Premises]]:
    settings, name = desk.settings, uuid4().hex[:12]
    directory, bounds = target.directory, {"grace": settings.grace, "keep_free": settings.keep_free}
    desk.phase(target, Phase.LOOKING, None, None)
    session = Session(shell, directory, name, **bounds)
    premises = session.look(settings.file_size)
    try:
        yield session, premises
    finally:
        Session(cleaner, directory, name, **bounds).clean()


def _fill(desk: Desk, target: Target, session: Session, held: Held) -> None:
    size = desk.settings.file_size
    held.ensure(desk.longest_fill())
    session.fill(size, desk.phase(target, Phase.FILLING, None, None))


def _all_jobs(desk: Desk, target: Target, ground: Ground, held: Held, names: Sequence[JobName]) -> None:
    fatal: Why | None = None
    for name in names:
        if fatal is not None:
            not_reached = Trouble(Why.NOT_REACHED, after=fatal.value)
            _without_result(desk, target, ground.subject, name, desk.now(), not_reached)
            continue
        held.ensure(desk.longest_job())
        result = _one_job(desk, target, ground, desk.job(name))
        # A freeze that ended in time has spoiled a result, and left the file.
        fatal = result.finding.why if result.finding.why in _FATAL and result.measured is None else None
        health = result.circumstances.health_after
        if fatal is None and name != names[-1] and health is not None and (detail := ground.against(health)):
            raise Trouble(Why.UNHEALTHY, detail=detail)


def _one_job(desk: Desk, target: Target, ground: Ground, job: Job) -> ProbeResult:
    started = desk.now()
    measured: Measured | None = None
    counted: Counted | None = None
    circumstances = Circumstances()
    progress, begun = desk.phase(target, Phase.RUNNING, job.name, job.seconds), desk.clock()
    try:
        watch = ground.watch(job)

        def tell() -> None:
            progress()
            watch.tell()

        try:
            measured, frozen = ground.session.run(job, ground.premises, tell)
        except Trouble as trouble:
            with suppress(Trouble):  # that of the run is the one to tell
                frozen = trouble.why is Why.FROZEN or bool(trouble.facts.get("frozen"))
                counted, circumstances = watch.end(frozen=frozen)
            raise
        passed = desk.clock() - begun
        counted, circumstances = watch.end(frozen=frozen)
        finding = _unbelievable(measured, counted, job, passed) or judge(
            job, measured, counted, circumstances, ground.objective, desk.settings.tolerance
        )
    except Trouble as trouble:
        finding = _finding(trouble)
    # Where all is as it should be nobody needs to know; ceph's command costs more than all else here.
    after = None if finding.verdict is Verdict.KEPT else ground.health_now()
    circumstances = replace(circumstances, health_before=ground.health, health_after=after)
    return desk.keep(
        ProbeResult(
            node=desk.node,
            subject=ground.subject,
            job=job,
            started=started,
            ended=desk.now(),
            finding=finding,
            measured=measured,
            counted=counted,
            circumstances=circumstances,
            objective=ground.objective,
            rule=target.rule,
            session=ground.session.name,
        )
    )


def _without_result(
    desk: Desk, target: Target, subject: Subject, name: JobName, started: datetime, trouble: Trouble
) -> ProbeResult:
    return desk.keep(
        ProbeResult(
            node=desk.node,
            subject=subject,
            job=desk.job(name),
            started=started,
            ended=desk.now(),
            finding=_finding(trouble),
            rule=target.rule,
        )
    )


def _finding(trouble: Trouble) -> Finding:
    if trouble.why is Why.FROZEN or trouble.facts.get("frozen"):
        return Finding(Verdict.DISCARDED, Why.FROZEN)
    if trouble.facts.get("after") == Why.FROZEN:
        return Finding(Verdict.DISCARDED, trouble.why, trouble.facts)
    return Finding(Verdict.FAILED, trouble.why, trouble.facts)


def _unbelievable(measured: Measured, counted: Counted | None, job: Job, passed: float) -> Finding | None:
    """A guest can say what it likes; what it did on its disk, QEMU has counted, and how long it had, we know."""
    if not job.seconds - _OFF <= measured.seconds <= passed + _OFF:
        detail = f"a run of {measured.seconds:.1f} s, and it lasted {passed:.1f} s"
        return Finding(Verdict.FAILED, Why.NONSENSE, {"detail": detail})
    if counted is None or counted.operations + _AT_THE_ENDS >= measured.operations * _BORNE_OUT:
        return None
    facts = {"said": measured.operations, "counted": counted.operations}
    return Finding(Verdict.FAILED, Why.CONTRADICTED, facts)
