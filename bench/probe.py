"""``script/bench probe``: what a probe costs the node and the guest beside fio itself, and the cron way beside it.

One booted guest, a volume that is held to a limit, and the three jobs one after the other: once with ``plimsoll
probe run``, as a whole process with clocks inside, and once the cron way, which is fio through ``virsh`` and a
question a second. In turn, as often as --runs says, and paired run by run in the ratios. plimsoll also writes its
file and removes it again; the cron way has one that is there already and stays.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.cronprobe import JOBS, fio
from bench.lab import in_lab, say
from bench.measure import Cost, Spread, once
from bench.ways import HERE
from lab.cloud import Cloud, Guest
from lab.looking import put
from lab.node import Node
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.model.limits import Limits

IOPS = 250
DIRECTORY, TARGET = "/mnt/volume", "vdb"
FILE = f"{DIRECTORY}/fio-test"
MIB = 2**20
QUICK = {"runs": 1, "seconds": 8, "file_mib": 64}
# Those that the goals are for.
SECONDS = 30
MOST_SHARE, MOST_ADDED = 0.01, 2.0
START_AND_END = "fio's own start and end"

_TICKS = 100  # of /proc to a second: Linux has no other, whatever its CONFIG_HZ
_HOST_TICKS = os.sysconf("SC_CLK_TCK")


def main(words: Sequence[str]) -> int:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="script/bench probe", description=__doc__, formatter_class=layout)
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="of each way (default: %(default)s)")
    parser.add_argument("--seconds", type=int, default=SECONDS, metavar="N", help="of a job (default: %(default)s)")
    parser.add_argument(
        "--file-mib", type=int, default=256, metavar="N", help="of the probe's file (default: %(default)s)"
    )
    quick = ", ".join(f"--{name.replace('_', '-')} {value}" for name, value in QUICK.items())
    parser.add_argument("--quick", action="store_true", help=f"the same as {quick}: no goals then")
    arguments = parser.parse_args(words)
    if arguments.quick:
        vars(arguments).update(QUICK)

    def measure(cloud: Cloud) -> None:
        guest = cloud.booted_guest()
        with tempfile.TemporaryDirectory() as home:
            Bench(cloud, guest, Path(home), arguments.seconds, arguments.file_mib).measure(arguments.runs)

    return in_lab(measure)


@dataclass(frozen=True)
class Job:
    """One job of one run; seconds."""

    name: str
    wall: float
    cpu: float
    """On the node, of the process and what it started."""
    added: float
    """From guest-exec until the result is there, without fio's own runtime."""
    parts: Mapping[str, float]
    """Of what is added, where that is known."""

    @property
    def share(self) -> float:
        return self.cpu / self.wall


@dataclass(frozen=True)
class Run:
    """The three jobs one way, and what is around them; seconds."""

    cost: Cost
    jobs: Sequence[Job]
    libvirtd: float
    """CPU."""
    qemu: float
    """CPU: all that the guest does is in it."""
    agent: float
    """CPU in the guest, of its agent."""
    beside: float | None
    """CPU in the guest, of what the agent started, without fio's runs; None where it started nothing else."""
    in_jobs: float | None
    """Of that, what is spent between guest-exec and the end of its program, for all jobs."""
    around: Mapping[str, float]
    """CPU on the node outside of the jobs, by what it was for; empty where nothing is."""
    waited: Mapping[str, float]
    """Wall, likewise."""
    asked: Mapping[str, int]
    """How often whom."""
    ceph: float
    """CPU of Ceph's command."""
    verdicts: Sequence[str]

    @property
    def share(self) -> float:
        return self.cost.cpu / self.cost.wall


class Bench:
    """A node and a guest for a series of measurements. All of it is below ``home``."""

    def __init__(self, cloud: Cloud, guest: Guest, home: Path, seconds: int, file_mib: int) -> None:
        self._cloud, self._guest, self._home = cloud, guest, home
        self._seconds, self._file_mib = seconds, file_mib
        self._node = Node(home, cloud)
        self._node.use_probes(seconds=seconds, file_size=file_mib * MIB)
        self._node.write_rules(
            f"rules:\n  - {{name: bench, match: {{guest: {guest.uuid}, kind: volume}},"
            f" limits: {{total_iops_sec: {IOPS}}}, probe: {{every: 1h}}}}\n"
        )
        # An installed package has its modules compiled.
        python = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        self._environment = python | {"PYTHONPYCACHEPREFIX": str(home / "compiled")}

    def measure(self, runs: int) -> None:
        emulated = ET.fromstring(self._guest.domain().XMLDesc()).get("type") != "kvm"
        with self._prepared():
            once(self._plimsoll("--dry-run"), self._environment)
            ours, crons = [], []
            for number in range(runs):
                say(f"run {number + 1} of {runs}: plimsoll")
                ours.append(self._ours())
                say(f"run {number + 1} of {runs}: cron")
                crons.append(self._cron())
        show(ours, crons, self._seconds, self._file_mib, emulated)

    @contextmanager
    def _prepared(self) -> Iterator[None]:
        hypervisor = Libvirt(self._cloud.libvirt_uri, deadline=5, at_once=1)
        put(hypervisor, self._guest.uuid, TARGET, Limits())
        try:
            words = [*fio("read", FILE, self._file_mib * MIB, self._seconds), "--create_only=1"]
            made = self._guest.exec(["fio", *words], timeout=300)
            if made.exit_code:
                raise RuntimeError(f"fio could not make its file: {made.out}{made.err}")
            enforced = self._node.run("enforce")
            if enforced.status:
                raise RuntimeError(f"the limit could not be put in force: {enforced.out}{enforced.err}")
            yield
        finally:
            self._guest.exec(["rm", "-f", FILE])
            put(hypervisor, self._guest.uuid, TARGET, Limits())
            hypervisor.close()

    def _plimsoll(self, *words: str) -> list[str]:
        into, settings = str(self._home / "told.json"), str(self._home / "plimsoll.conf")
        program = [sys.executable, str(HERE / "probed.py"), into, "--config-file", settings]
        return [*program, "probe", "run", "--guest", self._guest.uuid, *words]

    def _ours(self) -> Run:
        with self._watched() as watched:
            cost = once(self._plimsoll(), self._environment)
        steps = [Step(one) for one in json.loads((self._home / "told.json").read_text())]
        jobs = [step for step in steps if step.what == "one_job"]
        if len(jobs) != len(JOBS) or any(step.told["verdict"] == "failed" for step in jobs):
            raise RuntimeError(f"not all of the jobs went well: {[step.told for step in jobs]}")
        scripts = [step for step in steps if step.what == "script"]
        in_fio = sum(_fio_cpu(step.told["clocks"]) for step in scripts if step.told["clocks"])
        around = _around(steps, cost)
        asked = {
            "the guest's agent": _count(steps, "agent"),
            "block statistics": _count(steps, "block_stats"),
            "the disks' limits": _count(steps, "survey"),
            "Ceph's health": _count(steps, "health"),
        }
        return Run(
            cost,
            [_job(step, steps) for step in jobs],
            libvirtd=watched["libvirtd"],
            qemu=watched["qemu"],
            agent=watched["agent"],
            beside=watched["programs"] - in_fio,
            in_jobs=sum(_beside_fio(step.told["clocks"]) for step in scripts if step.told["verb"] == "run"),
            around=around,
            waited={words: _wall(steps, what) for what, words in _STEPS.items()},
            asked=asked,
            ceph=sum(step.children for step in steps if step.what == "health"),
            verdicts=[f"{step.told['job']} {step.told['verdict']}" for step in jobs],
        )

    def _cron(self) -> Run:
        into = self._home / "cron.json"
        size, seconds = str(self._file_mib * MIB), str(self._seconds)
        # Without the virtual environment, which it has no need of.
        program = [sys.executable, "-I", "-S", str(HERE / "cronprobe.py")]
        with self._watched() as watched:
            cost = once(
                [*program, self._cloud.libvirt_uri, self._guest.name, FILE, size, seconds, str(into)],
                self._environment,
            )
        jobs = [
            Job(told["job"], told["wall"], told["cpu"], told["wall"] - told["fio"], {})
            for told in json.loads(into.read_text())
        ]
        return Run(
            cost,
            jobs,
            libvirtd=watched["libvirtd"],
            qemu=watched["qemu"],
            agent=watched["agent"],
            beside=None,
            in_jobs=None,
            around={},
            waited={},
            asked={},
            ceph=0,
            verdicts=(),
        )

    @contextmanager
    def _watched(self) -> Iterator[dict[str, float]]:
        """CPU seconds of others, filled in at the end."""
        pids = {"libvirtd": self._cloud.libvirtd.pid, "qemu": self._guest.qemu_pid}

        def read() -> dict[str, float]:
            host = {name: _cpu(Path(f"/proc/{pid}/stat").read_text(), _HOST_TICKS)[0] for name, pid in pids.items()}
            # Whoever is run by the agent is its child.
            stat = self._guest.exec(["sh", "-c", "read -r stat </proc/$PPID/stat; echo $stat"]).out
            own, ended = _cpu(stat, _TICKS)
            return host | {"agent": own, "programs": ended}

        watched: dict[str, float] = {}
        before = read()
        yield watched
        watched |= {name: value - before[name] for name, value in read().items()}


class Step:
    """What ``probed`` told of one step."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.told = told
        self.what: str = told["what"]
        self.began: float = told["began"]
        self.ended: float = told["ended"]
        self.own: float = told["own"]
        self.children: float = told["children"]

    @property
    def cpu(self) -> float:
        return self.own + self.children

    @property
    def wall(self) -> float:
        return self.ended - self.began

    def within(self, other: Step) -> bool:
        return other.began <= self.began and self.ended <= other.ended


def _count(steps: Sequence[Step], what: str) -> int:
    return sum(step.what == what for step in steps)


def _wall(steps: Sequence[Step], what: str) -> float:
    return sum(step.wall for step in steps if step.what == what)


_STEPS = {
    "look": "looking around in the guest",
    "fill": "writing the probe's file",
    "clean": "removing all of it",
}


def _around(steps: Sequence[Step], cost: Cost) -> dict[str, float]:
    jobs = [step for step in steps if step.what == "one_job"]
    in_jobs = sum(step.cpu for step in jobs)
    ceph = sum(step.cpu for step in steps if step.what == "health" and not any(map(step.within, jobs)))
    named = {"asking for Ceph's health": ceph} | {
        words: sum(step.cpu for step in steps if step.what == what) for what, words in _STEPS.items()
    }
    rest = cost.cpu - in_jobs - sum(named.values())
    return {"interpreter, imports, settings, the way out": rest} | named


def _job(whole: Step, steps: Sequence[Step]) -> Job:
    (run,) = (step for step in steps if step.what == "run" and step.within(whole))
    scripts = [step for step in steps if step.what == "script" and step.within(run)]
    (script,) = (step for step in scripts if step.told["verb"] == "run")
    pieces = sum(step.wall for step in scripts if step.told["verb"] == "piece")
    asked = next(step for step in steps if step.what == "agent" and step.within(script))
    clocks = script.told["clocks"]
    up = {moment: told["up"] for moment, told in clocks.items()}
    # timeout(1) was started while guest-exec was asked, which takes some hundredths of a second.
    ahead = (asked.began + asked.ended) / 2 - int(_fields(clocks["limited"]["stat"])[19]) / _TICKS
    fio_ran: float = run.told["fio"]
    parts = {
        "until the script runs: guest-exec, timeout, sh": up["began"] + ahead - script.began,
        "the script, before fio": up["before_fio"] - up["began"],
        START_AND_END: up["after_fio"] - up["before_fio"] - fio_ran,
        "the script, after fio: gzip": up["ended"] - up["after_fio"],
        "until its end is noticed": script.ended - up["ended"] - ahead,
        "fetching the result": pieces,
        "reading it": run.wall - script.wall - pieces,
    }
    return Job(whole.told["job"], whole.wall, whole.cpu, run.wall - fio_ran, parts)


def _fields(stat: str) -> list[str]:
    """proc(5), from the third on: what stands before may have blanks in it."""
    return stat.rpartition(")")[2].split()


def _cpu(stat: str, ticks: int) -> tuple[float, float]:
    """CPU seconds of a process, and of its children that it has waited for."""
    used = [int(field) / ticks for field in _fields(stat)[11:15]]
    return sum(used[:2]), sum(used[2:])


def _fio_cpu(clocks: Mapping[str, Any]) -> float:
    """Of fio, and of timeout(1) beside it."""
    before, after = (_cpu(clocks[moment]["stat"], _TICKS)[1] for moment in ("before_fio", "after_fio"))
    return after - before


def _beside_fio(clocks: Mapping[str, Any]) -> float:
    """Of the script itself and of what it started, but for fio."""
    return sum(_cpu(clocks["ended"]["stat"], _TICKS)) - _fio_cpu(clocks)


# --- words ----------------------------------------------------------------------------------------------


def show(ours: Sequence[Run], crons: Sequence[Run], seconds: int, file_mib: int, emulated: bool) -> None:
    how = (
        "emulated (TCG), with one CPU: what runs in it takes many times as long as with KVM" if emulated else "on KVM"
    )
    say(f"\none guest, {how}")
    say(f"a volume held to total_iops_sec {IOPS}; three jobs of {seconds} s on a file of {file_mib} MiB")
    say(f"{len(ours)} runs of each way, in turn; median (least to greatest)")
    say(f"verdicts: {'; '.join(', '.join(run.verdicts) for run in ours)}")

    say(f"\n{'on the node, all three jobs':48}{'plimsoll':>24}{'cron':>24}   cron is")
    for label, of, digits in _ROWS:
        _row(label, [of(run) for run in ours], [of(run) for run in crons], digits)
    say("  where plimsoll's CPU s go")
    for part in ours[0].around:
        _row(f"  {part}", [run.around[part] for run in ours])
    _row("  the jobs", [sum(job.cpu for job in run.jobs) for run in ours])
    _row("of all that, Ceph's command", [run.ceph for run in ours])
    say("  how often plimsoll asks for")
    for whom in ours[0].asked:
        _row(f"  {whom}", [run.asked[whom] for run in ours], digits=0)
    say("  wall s of plimsoll beside the jobs")
    for part in ours[0].waited:
        _row(f"  {part}", [run.waited[part] for run in ours])

    say(f"\n{'a job':48}" + "".join(f"{name:>24}" for name in JOBS))
    for way, runs in (("plimsoll", ours), ("cron", crons)):
        _jobs(f"{way}: CPU s on the node", runs, lambda job: job.cpu, 3)
        _jobs(f"{way}: % of one core while it lasts", runs, lambda job: 100 * job.share, 2)
        _jobs(f"{way}: s added to fio's own runtime", runs, lambda job: job.added, 2)
        for part in runs[0].jobs[0].parts:
            _jobs(f"  {part}", runs, lambda job, part=part: job.parts[part], 2)  # type: ignore[misc]

    for label, of in (("CPU s on the node", lambda job: job.cpu), ("s added", lambda job: job.added)):
        _times(f"cron is, in {label}", ours, crons, of)

    say(f"\n{'CPU s in the guest beside fio, all three jobs':48}{'plimsoll':>24}{'cron':>24}   cron is")
    _row("its agent", [run.agent for run in ours], [run.agent for run in crons])
    _row("all else: sh, gzip, looking around", [run.beside for run in ours if run.beside is not None])
    _row("  of it while the jobs run", [run.in_jobs for run in ours if run.in_jobs is not None])
    _goals(ours, seconds)


_ROWS: tuple[tuple[str, Callable[[Run], float], int], ...] = (
    ("CPU s", lambda run: run.cost.cpu, 2),
    ("wall s", lambda run: run.cost.wall, 1),
    ("% of one core while it lasts", lambda run: 100 * run.share, 2),
    ("peak MiB, the largest process", lambda run: run.cost.memory / 1024, 0),
    ("CPU s of libvirtd meanwhile", lambda run: run.libvirtd, 2),
    ("CPU s of QEMU meanwhile, the guest in it", lambda run: run.qemu, 1),
)


def _row(label: str, ours: Sequence[float], crons: Sequence[float] = (), digits: int = 2) -> None:
    line = f"  {label:46}{_range(ours, digits):>24}"
    if crons:
        ratios = [cron / our for our, cron in zip(ours, crons, strict=True)]
        line += f"{_range(crons, digits):>24}   {_range(ratios, 2, ' ×')}"
    say(line)


def _jobs(label: str, runs: Sequence[Run], of: Callable[[Job], float], digits: int) -> None:
    columns = (_column(runs, name, of) for name in JOBS)
    say(f"  {label:46}" + "".join(f"{_range(column, digits):>24}" for column in columns))


def _times(label: str, ours: Sequence[Run], crons: Sequence[Run], of: Callable[[Job], float]) -> None:
    line = f"  {label:46}"
    for name in JOBS:
        pairs = zip(_column(ours, name, of), _column(crons, name, of), strict=True)
        line += f"{_range([cron / our for our, cron in pairs], 1, ' ×'):>24}"
    say(line)


def _column(runs: Sequence[Run], name: str, of: Callable[[Job], float]) -> list[float]:
    """Of the jobs of this name, run by run."""
    return [of(job) for run in runs for job in run.jobs if job.name == name]


def _range(values: Sequence[float], digits: int, unit: str = "") -> str:
    spread = Spread.of(values)
    middle = f"{spread.middle:.{digits}f}{unit}"
    return middle if len(values) == 1 else f"{middle} ({spread.least:.{digits}f} to {spread.greatest:.{digits}f})"


def _goals(ours: Sequence[Run], seconds: int) -> None:
    share = Spread.of(run.share for run in ours).middle
    jobs = [job for run in ours for job in run.jobs]
    added = Spread.of(job.added for job in jobs)
    without_fio = Spread.of(job.added - job.parts[START_AND_END] for job in jobs).middle
    a_job = Spread.of(job.share for job in jobs).middle
    say(f"\ngoals, for jobs of {SECONDS} s")
    for met, text in (
        (share < MOST_SHARE, f"less than 1 % of one core over the probe: {share:.2%}, over a job {a_job:.2%}"),
        (
            added.middle < MOST_ADDED,
            f"less than 2 s added to a job: {added.middle:.2f} s ({added.least:.2f} to {added.greatest:.2f}),"
            f" of which {without_fio:.2f} s are not {START_AND_END}",
        ),
    ):
        word = "shown " if seconds != SECONDS else "met   " if met else "MISSED"
        say(f"  {word}  {text}")
