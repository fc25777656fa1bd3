"""The lab's tests in one cloud: ``python -m tests.lab.run [OPTIONS OF PYTEST] [FILES]``.

What measures rates comes first and alone, while there is neither OpenStack nor Nova. What may run beside others
follows in two lanes, side by side; Nova comes up meanwhile. What hurts the cloud is last. It waits more than it
works: what needs a guest with a system in it runs beside the rest, in a cloud of its own. The cloud is taken down at
the end, however it ends, unless ``PLIMSOLL_LAB_KEEP`` is set.

The status is 0 where all passed, 1 where any did not, 5 where there was none, 130 after an interrupt.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from lab.cloud import Cloud, LabError
from lab.cloud.layout import CHECKOUT, Layout
from lab.cloud.ports import OFFSET

LOGS = CHECKOUT / "build"
NONE_FOUND = 5  # pytest's status


@dataclass(frozen=True)
class Lane:
    """What one pytest runs, and in which cloud."""

    group: str
    name: str = ""
    own_cloud: bool = False

    def words(self, markers: str) -> list[str]:
        """The lane's own choice of tests, narrowed by the caller's."""
        lane = [f"--lane={self.name}"] if self.name else []
        return ["-m", f"({self.group}) and ({markers})" if markers else self.group, *lane]

    def environment(self) -> dict[str, str]:
        """The common cloud stays up for the lanes that follow; pytest takes one of its own down."""
        if not self.own_cloud:
            return {"PLIMSOLL_LAB_KEEP": "1"}
        root = Layout.from_environment().root
        return {
            "PLIMSOLL_LAB_DIR": str(root.with_name(f"{root.name}-{self.group}")),
            "PLIMSOLL_LAB_PORT_OFFSET": str(OFFSET + 500),
        }


STEPS = (
    (Lane("quiet"),),
    (Lane("shared", "libvirt"), Lane("shared", "openstack")),
    (Lane("hurt", "rest"), Lane("hurt", "booted", own_cloud=True)),
)
"""What follows upon each other; in each, what runs side by side."""


@dataclass
class Run:
    """One pytest. The first of a step has the terminal, what others say is shown after it."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path | None
    began: float = field(default_factory=time.monotonic)
    seconds: float | None = None

    @classmethod
    def start(cls, lane: Lane, words: Sequence[str], log: Path | None) -> Run:
        with (log or Path(os.devnull)).open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "pytest", *words],
                env=os.environ | lane.environment(),
                stdin=subprocess.DEVNULL,
                stdout=file if log else None,
                stderr=file if log else None,
                # A Ctrl-C reaches it by us, once: at the second one pytest would not clean up.
                process_group=0,
            )
        return cls(lane.name or lane.group, process, log)

    def ended(self) -> bool:
        if self.seconds is None and self.process.poll() is not None:
            self.seconds = time.monotonic() - self.began
        return self.seconds is not None

    def interrupt(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)

    def show(self) -> None:
        if self.log:
            print(f"--- {self.name}", flush=True)
            sys.stdout.buffer.write(self.log.read_bytes())
            sys.stdout.flush()


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("-m", dest="markers", default="")
    parser.add_argument("-x", "--exitfirst", action="store_true")
    chosen, rest = parser.parse_known_args(words)
    if not any(Path(word.partition("::")[0]).exists() for word in rest):
        rest.append(str(Path(__file__).parent))
    if chosen.exitfirst:
        rest.append("--exitfirst")
    for number in (signal.SIGINT, signal.SIGTERM):  # the first is ignored where a script started us behind its back
        signal.signal(number, _as_interrupt)
    statuses: set[int] = set()
    times: list[str] = []
    try:
        for lanes in STEPS:
            began = time.monotonic()
            ended = _side_by_side([(lane, [*lane.words(chosen.markers), *rest]) for lane in lanes])
            statuses |= {run.process.returncode for run in ended}
            each = ", ".join(f"{run.name} {run.seconds:.0f} s" for run in ended)
            took = f"{lanes[0].group} {time.monotonic() - began:.0f} s"
            times.append(f"{took} ({each})" if len(ended) > 1 else took)
            if chosen.exitfirst and statuses - {0, NONE_FOUND}:
                break
    except KeyboardInterrupt:
        statuses = {130}
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        _take_down(statuses)
    print(f"lab: {', '.join(times)}", flush=True)
    if 130 in statuses:
        return 130
    if statuses - {0, NONE_FOUND}:
        return 1
    return 0 if 0 in statuses else NONE_FOUND


def _side_by_side(lanes: list[tuple[Lane, list[str]]]) -> list[Run]:
    runs: list[Run] = []
    LOGS.mkdir(exist_ok=True)
    try:
        for lane, words in lanes:
            runs.append(Run.start(lane, words, LOGS / f"lab-{lane.name}.log" if runs else None))
        while [run for run in runs if not run.ended()]:
            time.sleep(0.2)
    except BaseException:
        for run in runs:
            run.interrupt()
        for run in runs:
            _wait(run)
        raise
    finally:
        for run in runs:
            run.show()
    return runs


def _wait(run: Run) -> None:
    """Until it has cleaned up, and no longer."""
    try:
        run.process.wait(timeout=120)
    except subprocess.TimeoutExpired:
        run.process.kill()
        run.process.wait()


def _take_down(statuses: set[int]) -> None:
    if os.environ.get("PLIMSOLL_LAB_KEEP"):
        return
    try:
        Cloud().down()
    except LabError as error:
        print(f"lab cloud: {error}", file=sys.stderr)
        statuses.add(1)


def _as_interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
