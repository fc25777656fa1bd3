"""Where the acts play: the booted guest, a node with its plimsoll, and fio."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.cloud import Cloud, Completed, LabError
from lab.demo.measured import Phase, Sampler
from lab.looking import put
from lab.node import Node
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.util.frozen import asdict
from plimsoll_probes.guest import fio
from plimsoll_probes.model.job import Job, JobName
from plimsoll_probes.store.history import History

FILE_SIZE = 2**28
SECONDS = 12


class Stage:
    """One disk of the guest, to be limited; ``directory`` is where it is mounted in there."""

    def __init__(
        self,
        cloud: Cloud,
        name: str,
        rules: str,
        settings: str = "",
        target: str = "vdb",
        directory: str = "/mnt/volume",
    ) -> None:
        """``name`` is the demo's, ``settings`` are more than every demo has."""
        self.home = cloud.layout.root / f"demo-{name}"
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir()
        self.node = Node(self.home, cloud, rules, braked=True)
        with self.node.settings.open("a") as file:
            file.write(settings)
        self.cloud = cloud
        self.guest = cloud.booted_guest()
        hypervisor = Libvirt(cloud.libvirt_uri, deadline=5, at_once=1)
        for each in ("vda", "vdb"):  # a cloud that was kept up may have limits of an earlier demo
            put(hypervisor, self.guest.uuid, each, Limits())
        hypervisor.close()
        self.target = target
        self.phases: list[Phase] = []
        self.marks: list[tuple[float, str]] = []
        self.more_figures: dict[str, float] = {}
        self.environment = dict(os.environ)
        self._file = f"{directory}/fio-test"

    def play(self, scenes: Callable[[], None]) -> Sampler:
        """Fill the test file, and watch the scenes."""
        self._prepare()
        return self.watch(scenes)

    def watch(self, scenes: Callable[[], None]) -> Sampler:
        """Count the disk's requests while the scenes last."""
        self.sampler = Sampler(self.guest, self.target)
        try:
            scenes()
        finally:
            self.sampler.stop()
        return self.sampler

    def _prepare(self) -> None:
        """Write the test file once, so that each run overwrites and none allocates."""
        print("  writing fio's test file in the guest", flush=True)
        words = f"fio --name=fill --filename={self._file} --size={FILE_SIZE} --rw=write --bs=1M --direct=1"
        completed = self.guest.exec(words.split(), timeout=300)
        if completed.exit_code:
            raise LabError(f"fio: {completed.err or completed.out}")

    def measure(self, title: str, name: str) -> None:
        print(f"\n{title}: fio, random 16 KiB reads and writes, {SECONDS} s ", end="", flush=True)
        limit = self.guest.domain().blockIoTune(self.target)["total_iops_sec"] or None
        job = Job(name=JobName.MIXED, seconds=SECONDS, file_size=FILE_SIZE)
        text = fio.job_file(job, self._file, None, "libaio")
        completed = with_dots(lambda: self.guest.exec(list(fio.ARGV), timeout=SECONDS * 10, input=text))
        measured = fio.parse(completed.out or completed.err, job, engine="libaio")
        # Until fio begins, a guest on a busy machine may take as long as it then runs.
        began = self.sampler.now() - SECONDS
        self.phases.append(Phase(name, began, measured.iops, SECONDS, limit))
        print(f" {measured.iops:.0f} operations/s", flush=True)

    def plimsoll(self, *words: str) -> None:
        with self.beside(*words):
            pass

    @contextmanager
    def beside(self, *words: str) -> Iterator[None]:
        """A command, and what happens while it runs; waits for its end."""
        print(f"$ plimsoll {' '.join(words)}", flush=True)
        with subprocess.Popen(self.node.command(*words), env=self.environment) as process:
            yield
        if words[0] in ("plan", "enforce", "status") or words[:2] == ("probe", "run"):
            print(f"$ echo $?\n{process.returncode}", flush=True)

    def check(self, *words: str) -> None:
        """What Nagios is told."""
        print(f"$ check_plimsoll {' '.join(words)}", flush=True)
        command = [
            str(Path(sys.executable).with_name("check_plimsoll")),
            *words,
            "--config-file",
            str(self.node.settings),
        ]
        status = subprocess.run(command, env=self.environment, check=False).returncode
        print(f"$ echo $?\n{status}", flush=True)

    def probes(self) -> None:
        """What the probes of the node measured, as phases."""
        for result in reversed(History(self.home / "state/probes.sqlite").runs()):
            began = (result.started - self.sampler.began).total_seconds()
            iops = result.measured.iops if result.measured else 0.0
            seconds = result.measured.seconds if result.measured else SECONDS
            limits = result.circumstances.before
            limit = limits.total_iops_sec if limits else None
            self.phases.append(
                Phase(result.job.name.value, began, iops, seconds, limit, result.finding.verdict.value)
            )

    def mark(self, what: str) -> None:
        self.marks.append((self.sampler.now(), what))

    def save(self, file: Path) -> None:
        """What was measured, for programs."""
        phases = [asdict(phase) for phase in self.phases]
        marks = [{"at": at, "what": what} for at, what in self.marks]
        figures = {"disk": self.target, "phases": phases, "marks": marks, **self.more_figures}
        file.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")

    def table(self, limit: int) -> None:
        print(f"\n{'':12}{'operations/s in the guest':>26}   of {limit}")
        for phase in self.phases:
            print(f"{phase.name:12}{phase.iops:26.0f}   {phase.iops / limit:8.0%}")


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
