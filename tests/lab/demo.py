"""``script/demo``: a guest's disk without a limit, at its limit, loosened behind libvirt's back, and put right."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from plimsoll_agent.adapters.libvirt import Libvirt
from plimsoll_agent.limits import Limits
from plimsoll_probes import fio
from tests.lab import behind
from tests.lab.cloud import Cloud, Completed, Guest, LabError
from tests.looking import put

FILE = "/mnt/volume/fio-test"
FILE_SIZE = 2**28
LIMIT = 250
SECONDS = 12
RULES = f"""\
default:
  limits:
    total_iops_sec: {LIMIT}
    total_bytes_sec: 104857600
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="script/demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave the cloud up afterwards, to look around in")
    parser.add_argument("--plot", type=Path, default=Path("build/demo/iops.png"), help="default: %(default)s")
    arguments = parser.parse_args()
    cloud = Cloud(say=lambda line: print(f"  {line}", flush=True))
    try:
        print("A small real cloud: Ceph with three OSDs, libvirt, and a Linux guest with two RBD disks", flush=True)
        cloud.up(("ceph", "libvirt", "guest"))
        Demo(cloud, arguments.plot).run()
        if arguments.keep:
            print(f"\nThe cloud stays up. libvirt: {cloud.libvirt_uri}")
            print("Take it down with: .venv/bin/python -m tests.lab.cloud down")
    except (LabError, fio.FioError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    finally:
        if not arguments.keep:
            cloud.down()
    return 0


@dataclass
class Phase:
    """A stretch of the demo with one run of fio in it."""

    name: str
    began: float
    iops: float


@dataclass
class Sampler:
    """Completed requests of one disk over time, as libvirt counts them on the host."""

    guest: Guest
    target: str
    started: float = field(default_factory=time.monotonic)
    times: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def now(self) -> float:
        return time.monotonic() - self.started

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(10)

    def _run(self) -> None:
        domain = self.guest.domain()
        before, at = None, 0.0
        while not self._stop.wait(0.5):
            reads, _, writes, _, _ = domain.blockStats(self.target)
            now = self.now()
            if before is not None:
                self.times.append(now)
                self.rates.append((reads + writes - before) / (now - at))
            before, at = reads + writes, now


class Demo:
    """The acts in their order."""

    def __init__(self, cloud: Cloud, plot: Path) -> None:
        self._guest = cloud.booted_guest()
        self._plot = plot
        home = cloud.layout.root / "demo"
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        hypervisor = Libvirt(cloud.libvirt_uri, deadline=5, at_once=1)
        for target in ("vda", "vdb"):  # a cloud that was kept up may have limits of an earlier demo
            put(hypervisor, self._guest.uuid, target, Limits())
        hypervisor.close()
        (home / "rules.yaml").write_text(RULES)
        self._settings = home / "plimsoll.conf"
        self._settings.write_text(
            f"[DEFAULT]\nmode = enforce\nrules_file = {home}/rules.yaml\nstate_dir = {home}/state\n"
            f"[libvirt]\nuri = {cloud.libvirt_uri}\n[ceph]\nconf_files = {cloud.ceph.conf}\n"
        )
        self._phases: list[Phase] = []
        self._marks: list[tuple[float, str]] = []

    def run(self) -> None:
        self._prepare()
        self._sampler = Sampler(self._guest, "vdb")
        try:
            self._act("1. No limit: the disk takes what the cluster gives", "no limit")
            print(
                "\n2. The rules give every disk a default:\n"
                + "".join(f"     {line}\n" for line in RULES.splitlines())
            )
            self._plimsoll("plan")
            self._plimsoll("enforce")
            self._mark("enforce")
            self._act("   The same fio, at the limit", "enforced")
            print("\n3. Somebody loosens it in QEMU, behind libvirt's back")
            behind.set_limits(self._guest, "vdb", Limits(total_iops_sec=LIMIT * 2))
            self._mark("loosened")
            self._plimsoll("disk", "list")
            self._act("   The same fio", "loosened")
            print("\n4. The next pass")
            self._plimsoll("enforce")
            self._mark("next pass")
            self._act("   The same fio", "put right")
            self._plimsoll("disk", "explain", self._guest.name, "vdb")
        finally:
            self._sampler.stop()
        self._table()
        self._draw()

    def _prepare(self) -> None:
        """Write the test file once, so that each run overwrites and none allocates."""
        print("  writing fio's test file in the guest", flush=True)
        job = fio.Job("randwrite", FILE, 1, size=FILE_SIZE)
        completed = self._guest.exec(
            [
                "fio",
                "--name=fill",
                f"--filename={job.filename}",
                f"--size={job.size}",
                "--rw=write",
                "--bs=1M",
                "--direct=1",
            ],
            timeout=300,
        )
        if completed.exit_code:
            raise fio.FioError(completed.err or completed.out)

    def _act(self, title: str, name: str) -> None:
        print(f"\n{title}: fio, random 16 KiB reads and writes, {SECONDS} s ", end="", flush=True)
        began = self._sampler.now()
        job = fio.Job("randrw", FILE, SECONDS, size=FILE_SIZE)
        completed = with_dots(lambda: self._guest.exec(job.argv(), timeout=SECONDS * 10))
        totals = fio.parse(completed.out or completed.err)
        self._phases.append(Phase(name, began, totals.iops))
        print(f" {totals.iops:.0f} operations/s", flush=True)

    def _plimsoll(self, *words: str) -> None:
        print(f"$ plimsoll {' '.join(words)}", flush=True)
        command = [str(Path(sys.executable).with_name("plimsoll")), "--config-file", str(self._settings), *words]
        status = subprocess.run(command, check=False).returncode
        if words[0] in ("plan", "enforce"):
            print(f"$ echo $?\n{status}", flush=True)

    def _mark(self, what: str) -> None:
        self._marks.append((self._sampler.now(), what))

    def _table(self) -> None:
        print(f"\n{'':12}{'operations/s in the guest':>26}   of the limit of {LIMIT}")
        for phase in self._phases:
            print(f"{phase.name:12}{phase.iops:26.0f}   {phase.iops / LIMIT:14.0%}")

    def _draw(self) -> None:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(10, 4.5), dpi=120, layout="constrained")
        axes = figure.subplots()
        axes.plot(self._sampler.times, self._sampler.rates, color="#1f5f99", linewidth=1.4)
        axes.axhline(LIMIT, color="#b3261e", linestyle="--", linewidth=1.2)
        axes.annotate(
            f"total_iops_sec {LIMIT}",
            (0.995, LIMIT),
            xycoords=("axes fraction", "data"),
            xytext=(0, 4),
            textcoords="offset points",
            ha="right",
            color="#b3261e",
        )
        top = max(self._sampler.rates, default=LIMIT) * 1.15
        axes.set_ylim(0, top)
        for at, what in self._marks:
            axes.axvline(at, color="#555555", linestyle=":", linewidth=1)
            axes.annotate(what, (at, top), xytext=(4, -12), textcoords="offset points", color="#333333")
        for phase in self._phases:
            axes.annotate(
                f"fio: {phase.iops:.0f}/s",
                (phase.began + SECONDS / 2, phase.iops),
                xytext=(0, 14),
                textcoords="offset points",
                ha="center",
                fontsize=9,
                bbox={"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": "none", "alpha": 0.8},
            )
        axes.set_xlabel("seconds")
        axes.set_ylabel("requests per second on vdb")
        axes.set_title("A guest's RBD disk, seen by libvirt: unlimited, enforced, loosened, put right")
        axes.spines[["top", "right"]].set_visible(False)
        self._plot.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(self._plot)
        print(f"\nThe plot: {self._plot.resolve()}")


def with_dots(work: Callable[[], Completed]) -> Completed:
    """A dot a second while it lasts."""
    done = threading.Event()

    def dots() -> None:
        while not done.wait(1):
            print(".", end="", flush=True)

    thread = threading.Thread(target=dots, daemon=True)
    thread.start()
    try:
        return work()
    finally:
        done.set()
        thread.join()


if __name__ == "__main__":
    sys.exit(main())
