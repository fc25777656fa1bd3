"""The lab's tests, in lanes: ``python -m tests.lab.run [--group GROUP] [OPTIONS OF PYTEST] [FILES]``.

What measures rates comes first, without another lane beside it, while there is neither OpenStack nor Nova. All else
waits more than it works, and follows side by side: a lane begins when those are over that must not be beside it, and
the machine has room. Nova comes up meanwhile. Clouds are taken down at the end, however it ends; the common one stays
where ``PLIMSOLL_LAB_KEEP`` is set.

With ``--second-try`` the tests that failed are tried once more at the end, alone and in a new cloud. With
``--others-over FILE`` some lanes wait for that file.

The status is 0 where all passed, 1 where any did not, 5 where there was none, 130 after an interrupt.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from lab.cloud import Cloud, LabError
from lab.cloud.layout import CHECKOUT, Layout
from lab.cloud.ports import OFFSET
from tests.times import SECOND_TRY

LOGS = CHECKOUT / "build"
TRIED = LOGS / "tried"
FAILED, NONE_FOUND = 1, 5  # pytest's statuses


@dataclass(frozen=True)
class Lane:
    """What one pytest runs, and in which cloud."""

    name: str
    group: str
    after: tuple[str, ...] = ()
    """The lanes that must be over before it begins."""
    offset: int = 0
    """Of the ports of a cloud of its own; 0: the common one."""
    later: bool = False
    """It does not begin before the groups that need no lab are over."""

    def words(self, markers: str) -> list[str]:
        """The lane's own choice of tests, narrowed by the caller's."""
        lane = [] if self.name == self.group else [f"--lane={self.name}"]
        cache = ["-o", f"cache_dir={TRIED / self.name}"]  # of its own, with what failed
        return ["-m", f"({self.group}) and ({markers})" if markers else self.group, *lane, *cache]

    def environment(self) -> dict[str, str]:
        """The common cloud stays up for the lanes that follow; pytest takes one of its own down."""
        if not self.offset:
            return {"PLIMSOLL_LAB_KEEP": "1"}
        root = Layout.from_environment().root
        return {
            "PLIMSOLL_LAB_DIR": str(root.with_name(f"{root.name}-{self.name}")),
            "PLIMSOLL_LAB_PORT_OFFSET": str(OFFSET + self.offset),
        }


LANES = (
    Lane("quiet", "quiet"),
    Lane("hosts", "hosts", after=("quiet",), offset=200),
    Lane("libvirt", "shared", after=("quiet",)),
    Lane("openstack", "shared", after=("quiet",)),
    Lane("booted", "hurt", after=("libvirt",), offset=500),
    Lane("rest", "hurt", after=("libvirt", "openstack")),
    Lane("newcomer", "newcomer", after=("libvirt", "openstack"), offset=700, later=True),
    Lane("faults", "faults", after=("newcomer",), offset=400),
)
"""Three at a time beside the groups that need no lab, four when these are over: with more of them emulated guests
answer too late on two cores."""
CROWD = 4 * (os.cpu_count() or 1)
"""Where so many processes want to run, one more lane makes none of them end sooner, and guests answer too late."""
SHOWS, LONGEST = 30.0, 600.0
"""Seconds until what a lane does is in the load, and those that the next one waits for room at most."""
LAST_WITH_THE_GUEST = "libvirt"
"""The last lane of the common cloud whose tests need the guest with a system in it."""


@dataclass
class Run:
    """One pytest. One that is alone has the terminal, what others say is shown when they are over."""

    lane: Lane
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
                # A Ctrl-C reaches it by us, once: at the second one pytest would not clean up. And where the kernel
                # shares cores by session, as most do, a lane has as much as all tests without the lab.
                start_new_session=True,
            )
        return cls(lane, process, log)

    def ended(self) -> bool:
        if self.seconds is None and self.process.poll() is not None:
            self.seconds = time.monotonic() - self.began
        return self.seconds is not None

    def interrupt(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)

    def show(self) -> None:
        if self.log:
            print(f"--- {self.lane.name}", flush=True)
            sys.stdout.buffer.write(self.log.read_bytes())
            sys.stdout.flush()


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--group", action="append", choices={lane.group for lane in LANES})
    parser.add_argument("-m", dest="markers", default="")
    parser.add_argument("-x", "--exitfirst", action="store_true")
    parser.add_argument("--second-try", action="store_true")
    parser.add_argument("--others-over", type=Path, metavar="FILE", help="there when the other groups are over")
    chosen, rest = parser.parse_known_args(words)
    if not any(Path(word.partition("::")[0]).exists() for word in rest):
        rest.append(str(Path(__file__).parent))
    if chosen.exitfirst:
        rest.append("--exitfirst")
    for number in (signal.SIGINT, signal.SIGTERM):  # the first is ignored where a script started us behind its back
        signal.signal(number, _as_interrupt)
    lanes = [lane for lane in LANES if chosen.group is None or lane.group in chosen.group]
    statuses: set[int] = set()
    times: list[str] = []
    failed: list[Lane] = []
    began = time.monotonic()
    for lane in lanes:
        shutil.rmtree(TRIED / lane.name, ignore_errors=True)
    try:
        over = chosen.others_over
        in_order = _in_order(
            lanes, lambda lane: [*lane.words(chosen.markers), *rest], lambda: over is None or over.exists()
        )
        with closing(in_order) as runs:
            for run in runs:
                if chosen.second_try and run.process.returncode == FAILED:
                    failed.append(run.lane)
                else:
                    statuses.add(run.process.returncode)
                times.append(f"{run.lane.name} {run.seconds:.0f} s")
                if run.lane.name == LAST_WITH_THE_GUEST:
                    with suppress(LabError):
                        Cloud().suspend_booted_guest()
                if chosen.exitfirst and statuses - {0, NONE_FOUND}:
                    break
        os.environ[SECOND_TRY] = "1"
        if failed:  # by a guest that hangs, say: what is left of the common cloud may be what failed
            _down(statuses)
        for lane in failed:
            words = [*lane.words(chosen.markers), "--last-failed", "--last-failed-no-failures=none", *rest]
            print(f"--- {lane.name}: the tests that failed, once more, alone", flush=True)
            run = Run.start(lane, words, None)
            try:
                statuses.add(run.process.wait())
            finally:
                run.interrupt()
                _wait(run)
    except KeyboardInterrupt:
        statuses = {130}
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        _take_down(statuses)
    print(f"lab: {time.monotonic() - began:.0f} s: {', '.join(times)}", flush=True)
    if 130 in statuses:
        return 130
    if statuses - {0, NONE_FOUND}:
        return 1
    return 0 if 0 in statuses else NONE_FOUND


def _in_order(
    lanes: Sequence[Lane], words: Callable[[Lane], list[str]], are_others_over: Callable[[], bool]
) -> Generator[Run]:
    """Each one as soon as it is over; what still runs when the caller stops early is interrupted."""
    waiting, running = list(lanes), list[Run]()
    LOGS.mkdir(exist_ok=True)
    try:
        while waiting or running:
            unfinished = {lane.name for lane in [*waiting, *(run.lane for run in running)]}
            ready = [lane for lane in waiting if not unfinished.intersection(lane.after)]
            if not are_others_over():
                ready = [lane for lane in ready if not lane.later]
            alone = not running and len(ready) == 1
            since = min((time.monotonic() - run.began for run in running), default=math.inf)
            if ready and since > (SHOWS if os.getloadavg()[0] < CROWD else LONGEST):
                lane = ready[0]
                waiting.remove(lane)
                running.append(Run.start(lane, words(lane), None if alone else LOGS / f"lab-{lane.name}.log"))
            for run in [run for run in running if run.ended()]:
                running.remove(run)
                run.show()
                yield run
            time.sleep(0.2)
    finally:
        for run in running:
            run.interrupt()
        for run in running:
            _wait(run)
            run.show()


def _wait(run: Run) -> None:
    """Until it has cleaned up, and no longer."""
    try:
        run.process.wait(timeout=120)
    except subprocess.TimeoutExpired:
        run.process.kill()
        run.process.wait()


def _take_down(statuses: set[int]) -> None:
    if not os.environ.get("PLIMSOLL_LAB_KEEP"):
        _down(statuses)


def _down(statuses: set[int]) -> None:
    try:
        Cloud().down()
    except LabError as error:
        print(f"lab cloud: {error}", file=sys.stderr)
        statuses.add(1)


def _as_interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
