"""A guest to be probed whose agent and QEMU are fakes, and everything around a probe of it."""

from __future__ import annotations

import base64
import gzip
import json
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from plimsoll_agent.config import settings as config
from plimsoll_agent.model.clusters import Cluster, Clusters
from plimsoll_agent.model.disk import Guest
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.memory import Remembered
from plimsoll_agent.policy.decide import Situation
from plimsoll_agent.reconcile.health_gate import ClusterHealth, Gate
from plimsoll_agent.rules.model import Objective, Rules
from plimsoll_agent.util.frozen import replace
from plimsoll_probes.adapters.slots import Slot
from plimsoll_probes.execute.runner import Desk, GuestProbe, Progress
from plimsoll_probes.execute.witness import Witness
from plimsoll_probes.guest.shell import Ran
from plimsoll_probes.model.job import Job, JobName
from plimsoll_probes.model.result import Postponed, ProbeResult
from plimsoll_probes.schedule.admission import Admission
from plimsoll_probes.schedule.targets import Target
from tests.fakeagent import FakeAgent, Program
from tests.fakes import VOLUME, FakeGuest, FakeHypervisor, volume

UUID = "6695eb01-f6a4-8304-79aa-97f2502e193f"
NOW = datetime(2026, 11, 20, 9, 13, tzinfo=UTC)
MIB = 2**20
IOPS = 250
LIMIT = Limits(total_iops_sec=IOPS)
SETTINGS = replace(config.load([], []).probe, seconds=10, file_size=64 * MIB, directory="/mnt")
TARGET = Target(Guest(uuid=UUID, name="instance-0000002a", run="1", display_name="canary"), "/mnt", "canaries")
CONF = Path("/etc/ceph/ceph.conf")
WELL = ClusterHealth(fsid="4b5c8c0a-ff60-454b-a1b4-9747aa737d19", raised=())
UNWELL = ClusterHealth(fsid=WELL.fsid, raised=("OSD_DOWN",), words=("1 osds down",), counts={"OSD_DOWN": 1}, osds=3)


def fio_says(operations: int, seconds: float, job: str = "read") -> bytes:
    """JSON+ of a job, as little of it as counts; each request took 32 ms."""
    reads = {"read": operations, "write": 0, "mixed": operations // 2}[job]
    flows = {"read": _flow(reads, seconds), "write": _flow(operations - reads, seconds)}
    told = {"jobname": job, "error": 0, **flows, "usr_cpu": 1.0, "sys_cpu": 2.0}
    return gzip.compress(json.dumps({"fio version": "fio-3.33", "jobs": [told]}).encode())


def _flow(operations: int, seconds: float) -> dict[str, object]:
    if not operations:
        return {"io_bytes": 0, "total_ios": 0, "runtime": 0, "clat_ns": {"min": 0, "max": 0, "N": 0}}
    bins = {"32112640": operations}
    latency = {"min": 32112640, "max": 32112640, "mean": 32112640, "stddev": 0, "N": operations, "bins": bins}
    return {
        "io_bytes": operations * 16384,
        "total_ios": operations,
        "runtime": round(seconds * 1000),
        "clat_ns": latency,
    }


@dataclass
class ProbedGuest(FakeAgent):
    """Answers the script's verbs as the script would. ``verbs`` are those that it was asked, in order."""

    qemu: FakeGuest = field(default_factory=lambda: FakeGuest("instance-0000002a", UUID, {"vdb": volume()}))
    operations: int = IOPS * 10
    """What fio tells of; QEMU counts as many unless ``counted`` says otherwise."""
    counted: int | None = None
    runtime: float = 10
    """How many seconds fio says that it ran."""
    on: str = "vdb"
    stalls: bool = False
    meanwhile: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        super().__init__()
        self.verbs: list[str] = []
        self.given = b""

    def _exec(self, arguments: dict[str, object]) -> object:
        self.given = base64.b64decode(str(arguments.get("input-data", "")))
        return super()._exec(arguments)

    def _program(self, argv: Sequence[str]) -> Program:
        if argv[0] != "sh":
            return super()._program(argv)
        verb = argv[4]
        self.verbs.append(verb)
        return getattr(self, f"_{verb}")()

    def _look(self) -> Program:
        words = "fio=fio-3.33\nengines=libaio psync \nonline=0\nallowed=0\nfree=4000000\nfilesystem=ext4\n"
        return Program(out=f"{words}device=vdb\nsectors=8388608\nserial={VOLUME[:20]}\n".encode())

    def _fill(self) -> Program:
        self._does(0, 64, MIB)
        return Program(seconds=1, out=b"stopped=no\nexit=0\n")

    def _run(self) -> Program:
        self.meanwhile()
        if self.stalls:
            return Program(seconds=70, out=b"disk_before=1 1 0\ndisk_after=801 13 8\nstopped=yes\nexit=143\n")
        (job,) = (name for name in JobName if f"[{name}]" in self.given.decode())
        self.result = fio_says(self.operations, self.runtime, job)
        done = self.operations if self.counted is None else self.counted
        reads = round(done * Job(name=job).shares.get("read", 0))
        self._does(reads, done - reads, 16384)
        cpu = b"cpu_before=0 0 0 0 0 0 0 0\ncpu_after=100 0 100 800 0 0 0 0\n"
        return Program(seconds=10, out=cpu + f"stopped=no\nexit=0\nbytes={len(self.result)}\n".encode())

    def _piece(self) -> Program:
        return Program(out=self.result)

    def _clean(self) -> Program:
        return Program(out=b"clean=yes\n")

    def _does(self, reads: int, writes: int, size: int) -> None:
        disk = self.qemu.disks[self.on]
        before = disk.done
        disk.done = (before[0] + reads, before[1] + reads * size, before[2] + writes, before[3] + writes * size)


@dataclass
class World:
    """Everything around a probe, to be set before it runs."""

    guest: ProbedGuest = field(default_factory=ProbedGuest)
    health: Callable[[], ClusterHealth] = lambda: WELL
    memory: dict[str, Remembered] = field(default_factory=dict)
    objective: Objective | None = None
    held: Slot = field(default_factory=Slot)
    admission: Admission | None = None
    """One that never waits, unless another is given."""
    heeds_health: bool = True
    settings: config.ProbeSettings = SETTINGS
    kept: list[ProbeResult] = field(default_factory=list)
    seen: list[Progress] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        for disk in self.guest.qemu.disks.values():
            disk.actual = disk.defined = LIMIT
        self.hypervisor = FakeHypervisor(self.guest.qemu)

    def desk(self) -> Desk:
        def keep(result: ProbeResult) -> ProbeResult:
            self.kept.append(result)
            return result

        return Desk(
            node="r2-n14",
            settings=self.settings,
            keep=keep,
            tell=self.seen.append,
            stop=self.stop,
            clock=self.guest.clock,
            now=lambda: NOW,
        )

    def probe(self, *jobs: JobName, until: datetime | None = None) -> Postponed | None:
        desk = replace(self.desk(), stop=_Clocked(self.stop, self.guest))
        gate = Gate(Clusters((Cluster(CONF, WELL.fsid, frozenset({"127.0.0.1:6789"})),)), lambda _: self.health())
        situation = Situation(now=NOW, rules=Rules(), memory=self.memory)

        probe = GuestProbe(
            desk=desk,
            witness=lambda uuid: Witness(self.hypervisor, uuid, lambda: situation, gate, self.guest.clock),
            ask=lambda uuid, request, seconds: self.guest.ask(request, seconds),
            admission=self.admission or Admission(lambda _: nullcontext(self.held), one_per_pool=False),
            objective=lambda disk: self.objective,
            heeds_health=self.heeds_health,
        )
        return probe.run(TARGET, jobs or (JobName.READ,), until)


class _Clocked:
    """The event, whose waiting takes the guest's time and none of ours."""

    def __init__(self, event: threading.Event, guest: FakeAgent) -> None:
        self._event, self._guest = event, guest

    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        self._guest.sleep(seconds)
        return self._event.is_set()


class Here:
    """This machine, on which the script would run."""

    def __init__(self, guest: ProbedGuest) -> None:
        self._guest = guest

    def run(
        self,
        argv: Sequence[str],
        *,
        seconds: float,
        lasts: float = 0,
        stdin: bytes = b"",
        tell: Callable[[], None] = lambda: None,
    ) -> Ran:
        tell()
        self._guest.given = stdin
        program = self._guest._program(argv)
        self._guest.sleep(program.seconds)
        self._guest.sleep(program.seconds)
        return Ran(status=program.status, signal=program.signal, out=program.out, err=program.err)
