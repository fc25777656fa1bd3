"""Probes a guest again and again by small jobs, for as long as a failure is watched."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from uuid import uuid4

from plimsoll_agent.util.frozen import frozen
from plimsoll_probes.execute.runner import Stopped
from plimsoll_probes.guest.agent_shell import GuestShell
from plimsoll_probes.guest.session import Premises, Session
from plimsoll_probes.model.histogram import Histogram
from plimsoll_probes.model.job import Job, JobName

JOB = Job(name=JobName.MIXED, seconds=5, file_size=2**25, block_size=4096, io_depth=1, processes=1)
"""One request at a time: little load, and a read that waits delays the writes, which librbd would cache.

fio writes its logs of histograms only when a job ends (3.33), so the job is short.
"""
GRACE = 120
"""Seconds that a request may wait; one that waits longer ends the job without a result."""
_PATIENCE = 20.0
"""Seconds to wait at the end for an answer of the agent."""


@frozen(kw_only=True)
class SteadyRun:
    """A job by the node's clock, in seconds since the Unix epoch."""

    began: float
    ended: float
    latency: Histogram
    """In nanoseconds, of reads and writes."""
    slowest: int


class SteadyProbe:
    """``shell`` makes one of the guest that sleeps so. ``begin`` and ``run`` are of one thread."""

    def __init__(
        self,
        shell: Callable[[Callable[[float], None]], GuestShell],
        directory: str,
        keep_free: int,
        now: Callable[[], float],
    ) -> None:
        self._directory, self._keep_free, self._now = directory, keep_free, now
        self._name = uuid4().hex[:12]
        self._stop = threading.Event()
        self._using = threading.Lock()
        self._premises: Premises | None = None
        # The cleaner has no way to be stopped.
        self._shell, self._cleaner = shell(self._sleep), shell(time.sleep)

    def begin(self) -> None:
        """Look at the guest and write the file. Raises ``Trouble``, ``Stopped``."""
        with self._using:
            self._premises = self._begin()

    def _begin(self) -> Premises:
        self._shell.check()
        session = self._session(self._shell)
        premises = session.look(JOB.file_size)
        session.fill(JOB.file_size)
        return premises

    def run(self) -> SteadyRun:
        """One job; after one that failed all begins again. Raises ``Trouble``, ``Stopped``."""
        with self._using:
            premises, self._premises = self._premises or self._begin(), None
            began = self._now()
            measurement, _ = self._session(self._shell).run(JOB, premises)
            self._premises = premises
        flows = [flow for flow in (measurement.read, measurement.write) if flow is not None]
        latency = Histogram.merged(flow.latency for flow in flows)
        return SteadyRun(
            began=began,
            ended=self._now(),
            latency=latency,
            slowest=max((flow.latency_max for flow in flows), default=0),
        )

    def end(self) -> bool:
        """End what runs in the guest and remove the file; whether nothing is left."""
        self._stop.set()
        if not self._using.acquire(timeout=_PATIENCE):
            return False
        try:
            return self._session(self._cleaner).clean()
        finally:
            self._using.release()

    def _session(self, shell: GuestShell) -> Session:
        return Session(
            shell=shell, directory=self._directory, name=self._name, grace=GRACE, keep_free=self._keep_free
        )

    def _sleep(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise Stopped
