"""Runs a probe: one guest, one directory in it, one job after the other on one file."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from enum import StrEnum
from typing import Protocol
from uuid import uuid4

from plimsoll_agent.config.probing import ProbeSettings
from plimsoll_agent.model.clusters import Cluster
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.rules.model import Objective
from plimsoll_agent.util.frozen import frozen, replace
from plimsoll_probes.adapters.slots import Slot
from plimsoll_probes.evaluate.verdict import judge
from plimsoll_probes.execute.located import locate, subject_of
from plimsoll_probes.execute.witness import Watch, Witness
from plimsoll_probes.guest.agent_shell import GuestShell
from plimsoll_probes.guest.qga_exec import KILL_AFTER
from plimsoll_probes.guest.session import KILL, Premises, Session, longest_fill
from plimsoll_probes.guest.shell import Shell
from plimsoll_probes.model.finding import Finding, Trouble, Verdict, Why
from plimsoll_probes.model.job import Job, JobName
from plimsoll_probes.model.result import Circumstances, Health, Measured, Postponed, ProbeResult, QemuCounts, Subject
from plimsoll_probes.schedule.admission import Admission
from plimsoll_probes.schedule.targets import Target

# After these the next job cannot run, or has no file to run on.
_FATAL = (
    Why.NOT_FOUND,
    Why.REBOOTED,
    Why.UNREACHABLE,
    Why.AGENT_TIMED_OUT,
    Why.EXEC_FORBIDDEN,
    Why.UNFINISHED,
    Why.FROZEN,
)
_NOT_BEGUN = (Why.NO_SLOT, Why.UNHEALTHY)
# QEMU must have counted this share of fio's requests: it may miss a few at both ends, and a volume manager in the
# guest may merge some.
_BORNE_OUT = 0.95
_AT_THE_ENDS = 64
# Seconds by which fio's clock and ours may differ.
_OFF = 2.0


class Phase(StrEnum):
    """The phase of a probe."""

    LOOKING = "looking"
    FILLING = "filling"
    RUNNING = "running"


@frozen(kw_only=True)
class Progress:
    """How far a probe is; ``seconds`` is how long the phase lasts, None where that is unknown."""

    target: Target
    phase: Phase
    job: JobName | None
    elapsed: float
    seconds: float | None


class Stopped(Exception):
    """A signal ended plimsoll: the probe cleans up, and its result is not kept."""


class Watching(Protocol):
    """Observes one run from outside the guest."""

    def tell(self) -> None: ...

    def end(self, *, frozen: bool) -> tuple[QemuCounts | None, Circumstances]: ...


@frozen(kw_only=True)
class Desk:
    """What all probes of this process share."""

    node: str
    settings: ProbeSettings
    keep: Callable[[ProbeResult], ProbeResult]
    """Adds a result to the history; returns it with its number."""
    tell: Callable[[Progress], None]
    stop: threading.Event
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def job(self, name: JobName) -> Job:
        settings = self.settings
        return Job(
            name=name,
            seconds=settings.seconds,
            file_size=settings.file_size,
            block_size=settings.block_size,
            io_depth=settings.io_depth,
            processes=settings.processes,
            read_percent=settings.read_percent,
        )

    def postpone(self, target: Target, why: Why, facts: Mapping[str, object]) -> Postponed:
        guest = target.guest
        return Postponed(
            at=self.now(),
            node=self.node,
            guest_uuid=guest.uuid,
            guest_name=guest.name,
            directory=target.directory,
            why=why,
            facts=facts,
        )

    def sleep(self, seconds: float) -> None:
        """Raises ``Stopped``."""
        if self.stop.wait(seconds):
            raise Stopped

    def longest_job(self) -> int:
        """Seconds after which ``timeout`` in the guest has ended a job, even if this process was killed."""
        return self.settings.seconds + self.settings.grace + KILL + KILL_AFTER

    def longest_fill(self) -> int:
        """The same for writing the file."""
        return longest_fill(self.settings.file_size, self.settings.grace) + KILL_AFTER

    def phase(self, target: Target, phase: Phase, job: JobName | None, seconds: float | None) -> Callable[[], None]:
        """Begin a phase; returns the function to call regularly while it lasts. It raises ``Stopped``."""
        begin = self.clock()

        def tell() -> None:
            if self.stop.is_set():
                raise Stopped
            self.tell(Progress(target=target, phase=phase, job=job, elapsed=self.clock() - begin, seconds=seconds))

        tell()
        return tell


@frozen(kw_only=True)
class Ground:
    """Where the jobs of a target run: the session and what it found, the disk, and what observes the run."""

    session: Session
    premises: Premises
    subject: Subject
    objective: Objective | None
    watch: Callable[[Job], Watching]
    health: Health | None
    """The health of the disk's cluster before the first job."""
    health_now: Callable[[], Health | None]
    against: Callable[[Health], str | None]
    """Why no job may begin with this health; None where it may."""


@frozen(kw_only=True)
class GuestProbe:
    """Probes a guest through libvirt and its agent."""

    desk: Desk
    witness: Callable[[str], Witness]
    """Makes the witness of the guest with this uuid."""
    ask: Callable[[str, str, int], str]
    """Asks the agent of a guest: its uuid, the request, and the seconds to wait for the answer."""
    admission: Admission
    objective: Callable[[Disk], Objective | None]
    heeds_health: bool = True

    def run(self, target: Target, jobs: Sequence[JobName], until: datetime | None = None) -> Postponed | None:
        """Run the jobs; results go to the desk. Returns why the probe, or the rest of it, did not begin.

        A probe that could not begin until ``until`` is silently left out. Raises ``Stopped``.
        """
        return _attempt(self.desk, target, jobs, lambda: self._run(target, jobs, until))

    def _run(self, target: Target, jobs: Sequence[JobName], until: datetime | None) -> None:
        witness = self.witness(target.guest.uuid)
        disks = witness.look().disks
        with self.admission.turn(disks) as names:
            # Only now: the probe may have waited for minutes.
            self.desk.phase(target, Phase.LOOKING, None, None)
            if until is not None and self.desk.now() > until:
                return
            # Without counters of a disk that was detached since, those of the others would not count. One that was
            # attached since is left out: it may be in a pool whose turn has not come.
            keys = {disk.key for disk in disks}
            disks = tuple(disk for disk in witness.look().disks if disk.key in keys)
            healths = witness.healths(disks)
            if self.heeds_health and (detail := witness.against(healths.values())) is not None:
                raise Trouble(Why.UNHEALTHY, detail=detail)
            with self.admission.slot(names) as slot:
                self._probe(target, jobs, witness, disks, healths, slot)

    def _probe(
        self,
        target: Target,
        jobs: Sequence[JobName],
        witness: Witness,
        disks: Sequence[Disk],
        healths: Mapping[Cluster | None, Health],
        slot: Slot,
    ) -> None:
        desk, size = self.desk, self.desk.settings.file_size

        def ask(request: str, seconds: int) -> str:
            return self.ask(target.guest.uuid, request, seconds)

        shell = GuestShell(ask, sleep=desk.sleep, clock=desk.clock)
        shell.check()
        # The cleaner has no way to be stopped: a session that began is cleaned up also after a signal.
        with _session(desk, target, shell, GuestShell(ask, sleep=time.sleep, clock=desk.clock)) as (
            session,
            premises,
        ):
            before = witness.read(disks)
            _fill(desk, target, session, slot)
            disk = locate(disks, premises, before, witness.read(disks), size)
            ground = Ground(
                session=session,
                premises=premises,
                subject=subject_of(target, disk),
                objective=self.objective(disk),
                watch=lambda job: Watch(witness, disk, job.seconds),
                health=healths[witness.gate.clusters.of(disk)],
                health_now=lambda: witness.health(disk),
                against=lambda health: witness.against([health]) if self.heeds_health else None,
            )
            _all_jobs(desk, target, ground, slot, jobs)


@frozen(kw_only=True)
class HereProbe:
    """Probes this machine itself, without an agent and without libvirt."""

    desk: Desk
    shell: Shell
    limits: Limits | None
    """The limits of its disk as given on the command line; None where none were given."""
    slot: Callable[[], AbstractContextManager[Slot]]

    def run(self, target: Target, jobs: Sequence[JobName]) -> Postponed | None:
        """Run the jobs as ``GuestProbe.run`` does."""
        return _attempt(self.desk, target, jobs, lambda: self._run(target, jobs))

    def _run(self, target: Target, jobs: Sequence[JobName]) -> None:
        watch = _NoWatch(Circumstances(promised=self.limits, before=self.limits, after=self.limits))
        with (
            self.slot() as slot,
            _session(self.desk, target, self.shell, self.shell) as (session, premises),
        ):
            _fill(self.desk, target, session, slot)
            ground = Ground(
                session=session,
                premises=premises,
                subject=subject_of(target, None),
                objective=None,
                watch=lambda _: watch,
                health=None,
                health_now=lambda: None,
                against=lambda _: None,
            )
            _all_jobs(self.desk, target, ground, slot, jobs)


@frozen
class _NoWatch:
    """A run that is not observed from outside."""

    circumstances: Circumstances

    def tell(self) -> None:
        """There is nothing to read."""

    def end(self, *, frozen: bool) -> tuple[None, Circumstances]:
        return None, replace(self.circumstances, frozen=frozen)


def _attempt(desk: Desk, target: Target, jobs: Sequence[JobName], work: Callable[[], None]) -> Postponed | None:
    """Do the work; an error before the first job becomes the result of each job."""
    start = desk.now()
    try:
        work()
    except Trouble as trouble:
        if trouble.why in _NOT_BEGUN:
            return desk.postpone(target, trouble.why, trouble.facts)
        for name in jobs:
            _without_result(desk, target, subject_of(target, None), name, start, trouble)
    return None


@contextmanager
def _session(desk: Desk, target: Target, shell: Shell, cleaner: Shell) -> Iterator[tuple[Session, Premises]]:
    settings, name = desk.settings, uuid4().hex[:12]
    directory, bounds = target.directory, {"grace": settings.grace, "keep_free": settings.keep_free}
    desk.phase(target, Phase.LOOKING, None, None)
    session = Session(shell=shell, directory=directory, name=name, **bounds)
    premises = session.look(settings.file_size)
    try:
        yield session, premises
    finally:
        Session(shell=cleaner, directory=directory, name=name, **bounds).clean()


def _fill(desk: Desk, target: Target, session: Session, slot: Slot) -> None:
    size = desk.settings.file_size
    slot.ensure(desk.longest_fill())
    session.fill(size, desk.phase(target, Phase.FILLING, None, None))


def _all_jobs(desk: Desk, target: Target, ground: Ground, slot: Slot, names: Sequence[JobName]) -> None:
    fatal: Why | None = None
    for name in names:
        if fatal is not None:
            not_reached = Trouble(Why.NOT_REACHED, after=fatal.value)
            _without_result(desk, target, ground.subject, name, desk.now(), not_reached)
            continue
        slot.ensure(desk.longest_job())
        result = _one_job(desk, target, ground, desk.job(name))
        # After a freeze that ended in time there is a result, useless but with the file still there.
        fatal = result.finding.why if result.finding.why in _FATAL and result.measured is None else None
        health = result.circumstances.health_after
        if fatal is None and name != names[-1] and health is not None and (detail := ground.against(health)):
            raise Trouble(Why.UNHEALTHY, detail=detail)


def _one_job(desk: Desk, target: Target, ground: Ground, job: Job) -> ProbeResult:
    start = desk.now()
    measurement: Measured | None = None
    counts: QemuCounts | None = None
    circumstances = Circumstances()
    progress, since = desk.phase(target, Phase.RUNNING, job.name, job.seconds), desk.clock()
    try:
        watch = ground.watch(job)

        def tell() -> None:
            progress()
            watch.tell()

        try:
            measurement, frozen = ground.session.run(job, ground.premises, tell)
        except Trouble as trouble:
            with suppress(Trouble):  # the run's own error is reported
                frozen = trouble.why is Why.FROZEN or bool(trouble.facts.get("frozen"))
                counts, circumstances = watch.end(frozen=frozen)
            raise
        duration = desk.clock() - since
        counts, circumstances = watch.end(frozen=frozen)
        finding = _unbelievable(measurement, counts, job, duration) or judge(
            job, measurement, counts, circumstances, ground.objective, desk.settings.tolerance
        )
    except Trouble as trouble:
        finding = _finding(trouble)
    # Only where a promise was not kept: the ceph command costs more than all the rest here.
    after = None if finding.verdict is Verdict.KEPT else ground.health_now()
    circumstances = replace(circumstances, health_before=ground.health, health_after=after)
    return desk.keep(
        ProbeResult(
            node=desk.node,
            subject=ground.subject,
            job=job,
            started=start,
            ended=desk.now(),
            finding=finding,
            measured=measurement,
            counted=counts,
            circumstances=circumstances,
            objective=ground.objective,
            rule=target.rule,
            session=ground.session.name,
        )
    )


def _without_result(
    desk: Desk, target: Target, subject: Subject, name: JobName, start: datetime, trouble: Trouble
) -> ProbeResult:
    return desk.keep(
        ProbeResult(
            node=desk.node,
            subject=subject,
            job=desk.job(name),
            started=start,
            ended=desk.now(),
            finding=_finding(trouble),
            rule=target.rule,
        )
    )


def _finding(trouble: Trouble) -> Finding:
    if trouble.why is Why.FROZEN or trouble.facts.get("frozen"):
        return Finding(Verdict.INCONCLUSIVE, Why.FROZEN)
    if trouble.facts.get("after") == Why.FROZEN:
        return Finding(Verdict.INCONCLUSIVE, trouble.why, trouble.facts)
    return Finding(Verdict.FAILED, trouble.why, trouble.facts)


def _unbelievable(measurement: Measured, counts: QemuCounts | None, job: Job, duration: float) -> Finding | None:
    """Whether what the guest reports contradicts what QEMU counted on its disk, or the time that it had."""
    if not job.seconds - _OFF <= measurement.seconds <= duration + _OFF:
        detail = f"fio reports a run of {measurement.seconds:.1f} s, which took {duration:.1f} s"
        return Finding(Verdict.FAILED, Why.NONSENSE, {"detail": detail})
    if counts is None or counts.operations + _AT_THE_ENDS >= measurement.operations * _BORNE_OUT:
        return None
    facts = {"said": measurement.operations, "counted": counts.operations}
    return Finding(Verdict.FAILED, Why.CONTRADICTED, facts)
