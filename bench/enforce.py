"""``script/bench [enforce]``: a pass of plimsoll beside the cron way, on the same paused guests, in turn, in one run.

Each way is run as a whole process, once with every disk to change and then with nothing to change. The limits
only ever get tighter: plimsoll asks Ceph's health before it raises one, and the cron way has no such care to
be compared with. plimsoll is called as its timer calls it, with a rules file; as a person does, with limits on the
command line; and with a catalogue, so that the volumes get what a QoS spec of Cinder says, once flat and once per
GiB, for which a pass has to ask how large they are. Then it runs once more with clocks inside, to see where its
time goes; and so does the daemon, whose passes over the node after its first have nothing to change.

All of them find their modules compiled, as an installed package has them. Ratios are taken in pairs, run by run.

Other measurements, each with ``--help``: nodes, metrics, reaction, forecast, ordered_return, fairness, hist, slow.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.lab import in_lab, say
from bench.measure import Cost, Span, Spread, covered, once
from bench.ways import BY_CINDER, BY_RULES, CRON, HERE, PER_GIB, WAYS, Way, Ways
from lab.cloud import Cloud, Guest, LabError, ephemeral, volume
from plimsoll_agent.monitor import daemon_status
from plimsoll_agent.store.state import State

GIB = 2**30

STEADY, CHANGING = "nothing to change", "every disk to change"
WITH_CLOCKS = (BY_RULES, BY_CINDER, PER_GIB)
RELOADS = 3
"""Each is followed by a pass of the daemon over the node."""
PATIENT = 60.0


def main(words: Sequence[str]) -> int:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="script/bench enforce", description=__doc__, formatter_class=layout)
    parser.add_argument(
        "--guests",
        type=int,
        nargs="+",
        default=[10, 50, 100],
        metavar="N",
        help="paused, with two RBD disks each; measured at each of these numbers (default: 10 50 100)",
    )
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="of each way (default: %(default)s)")
    arguments = parser.parse_args(words)
    return in_lab(lambda cloud: _measure_all(cloud, sorted(set(arguments.guests)), arguments.runs))


def _measure_all(cloud: Cloud, numbers: Sequence[int], runs: int) -> None:
    guests: list[Guest] = []
    try:
        measured = []
        with tempfile.TemporaryDirectory() as home:
            ways = Ways(cloud.libvirt_uri, Path(home))
            for number in numbers:
                say(f"starting {number - len(guests)} paused guests")
                guests += cloud.paused_guests([[ephemeral(GIB), volume(GIB)] for _ in range(number - len(guests))])
                measured.append(_measure(ways, number, runs, Path(home)))
                measured[-1].show()
        _show_goals(measured)
    finally:
        cloud.destroy_guests(guests)


@dataclass(frozen=True)
class Inside:
    """One run of plimsoll with nothing to change, seen from inside; seconds."""

    interpreter: float
    imports: float
    settings: float
    """Command line, settings, rules and state."""
    connect: float
    whole_pass: float
    in_libvirt: float
    """Of the pass: at least one call into libvirt was under way."""
    at_once: float
    """How many calls into libvirt were under way in the pass, on average."""
    xml: float
    """Of the pass: XML was read while nothing was under way in libvirt."""
    way_out: float
    """The closing lines, farewell to libvirt, the end of the process."""

    @classmethod
    def of(cls, cost: Cost, told: dict[str, list[Span]], began: float, imported: float) -> Inside:
        (connect,), (whole,) = told["connect"], told["pass"]
        in_pass = {
            kind: [span for span in told[kind] if whole[0] <= span[0] < whole[1]] for kind in ("libvirt", "xml")
        }
        in_libvirt = covered(in_pass["libvirt"])
        return cls(
            interpreter=began - cost.started,
            imports=imported - began,
            settings=connect[0] - imported,
            connect=connect[1] - connect[0],
            whole_pass=whole[1] - whole[0],
            in_libvirt=in_libvirt,
            at_once=sum(ended - began for began, ended in in_pass["libvirt"]) / (whole[1] - whole[0]),
            xml=covered(in_pass["libvirt"] + in_pass["xml"]) - in_libvirt,
            way_out=cost.started + cost.wall - whole[1],
        )


@dataclass(frozen=True)
class InDaemon:
    """Steady passes over the node in one daemon, by its rules: medians."""

    wall: float
    in_libvirt: float
    """The part of it in which at least one call into libvirt was under way."""

    @classmethod
    def of(cls, told: dict[str, list[Span]]) -> InDaemon:
        passes = told["pass"][1:]  # not that of its start
        inside = [covered([span for span in told["libvirt"] if one[0] <= span[0] < one[1]]) for one in passes]
        walls = [one[1] - one[0] for one in passes]
        shares = [spent / wall for spent, wall in zip(inside, walls, strict=True)]
        return cls(Spread.of(walls).middle, Spread.of(shares).middle)


@dataclass(frozen=True)
class Measured:
    """All runs at one number of guests."""

    guests: int
    costs: dict[tuple[str, str], list[Cost]]
    """By what there was to do, and way."""
    insides: dict[str, list[Inside]]
    """By way."""
    daemons: list[InDaemon]

    def ratio(self, task: str, way: str) -> Spread:
        """How many times as long the cron way takes."""
        pairs = zip(self.costs[task, CRON], self.costs[task, way], strict=True)
        return Spread.of(cron.wall / ours.wall for cron, ours in pairs)

    def of_pass(self) -> Spread:
        """How many times as long the cron way takes as a pass within a process."""
        pairs = zip(self.costs[STEADY, CRON], self.insides[BY_RULES], strict=True)
        return Spread.of(cron.wall / inside.whole_pass for cron, inside in pairs)

    def of_daemon(self) -> Spread:
        """How many times as long the cron way takes as a steady pass of the daemon."""
        pairs = zip(self.costs[STEADY, CRON], self.daemons, strict=True)
        return Spread.of(cron.wall / daemon.wall for cron, daemon in pairs)

    def in_libvirt(self) -> Spread:
        """The part of a pass that is spent in libvirt's own calls."""
        return Spread.of(inside.in_libvirt / inside.whole_pass for inside in self.insides[BY_RULES])

    def pass_per_guest(self) -> float:
        return Spread.of(inside.whole_pass for inside in self.insides[BY_RULES]).middle / self.guests

    def over_rules(self, way: str) -> Spread:
        """How many times as long this way takes as the one by rules, whole process, with nothing to change."""
        pairs = zip(self.costs[STEADY, way], self.costs[STEADY, BY_RULES], strict=True)
        return Spread.of(one.wall / by_rules.wall for one, by_rules in pairs)

    def pass_over_rules(self, way: str) -> Spread:
        """The same of the passes alone."""
        pairs = zip(self.insides[way], self.insides[BY_RULES], strict=True)
        return Spread.of(one.whole_pass / by_rules.whole_pass for one, by_rules in pairs)

    def peak(self) -> float:
        """MiB, the greatest of all runs of plimsoll."""
        return max(cost.memory for (_, way), costs in self.costs.items() if way != CRON for cost in costs) / 1024

    def show(self) -> None:
        runs = len(self.insides[BY_RULES])
        say(f"\n{self.guests} guests, {2 * self.guests} RBD disks; medians of {runs} runs of whole processes")
        for task in (STEADY, CHANGING):
            say(f"\n{task:30}{'wall s':>8}{'CPU s':>8}{'peak MiB':>10}   cron takes")
            for way in WAYS:
                costs = self.costs[task, way]
                wall, cpu = (Spread.of(getattr(cost, name) for cost in costs).middle for name in ("wall", "cpu"))
                memory = max(cost.memory for cost in costs) / 1024
                ratio = "" if way == CRON else f"   {_times(self.ratio(task, way))}"
                say(f"  {way:28}{wall:8.2f}{cpu:8.2f}{memory:10.0f}{ratio}")
        say("\nwhere the time goes with nothing to change, with clocks inside, ms")
        say(f"  {'plimsoll':38}{'by its rules':>26}{'by Cinder':>26}{'by Cinder per GiB':>26}")
        for name, part in _PARTS:
            spreads = [Spread.of(part(inside) * 1000 for inside in self.insides[way]) for way in WITH_CLOCKS]
            say(f"  {name:38}" + "".join(f"{_range(spread):>26}" for spread in spreads))
        at_once = Spread.of(inside.at_once for inside in self.insides[BY_RULES]).middle
        share = self.in_libvirt().middle
        say("  by its rules:")
        say(f"  a call into libvirt is under way for {share:.0%} of the pass, and {at_once:.1f} of them on average;")
        say(f"  a guest costs {1000 * self.pass_per_guest():.2f} ms of it")
        say(f"  the cron way takes {_times(self.of_pass())} as such a pass")
        for way in (BY_CINDER, PER_GIB):
            say(f"  {way} takes {self._beside_rules(way)} by its rules")
        walls, shares = (Spread.of(getattr(each, name) for each in self.daemons) for name in ("wall", "in_libvirt"))
        say(
            f"  a steady pass of the daemon takes {1000 * walls.middle:.1f} ms ({1000 * walls.least:.1f} to"
            f" {1000 * walls.greatest:.1f}), {shares.middle:.1%} of it in libvirt; the cron way takes"
            f" {_times(self.of_daemon())}"
        )
        say()

    def _beside_rules(self, way: str) -> str:
        return f"{_times(self.over_rules(way))}, its pass {_times(self.pass_over_rules(way))} as"


_PARTS: tuple[tuple[str, Callable[[Inside], float]], ...] = (
    ("the interpreter starts", lambda inside: inside.interpreter),
    ("imports", lambda inside: inside.imports),
    ("command line, settings, rules, state", lambda inside: inside.settings),
    ("connecting to libvirt", lambda inside: inside.connect),
    ("the pass", lambda inside: inside.whole_pass),
    ("  in libvirt's own calls", lambda inside: inside.in_libvirt),
    ("  reading XML, with none under way", lambda inside: inside.xml),
    ("  the rest", lambda inside: inside.whole_pass - inside.in_libvirt - inside.xml),
    ("closing lines, and the way out", lambda inside: inside.way_out),
)


def _times(ratio: Spread) -> str:
    digits = 1 if ratio.middle > 3 else 2
    return f"{ratio.middle:.{digits}f} × as long ({ratio.least:.{digits}f} to {ratio.greatest:.{digits}f})"


def _range(spread: Spread) -> str:
    return f"{spread.middle:.1f} ({spread.least:.1f} to {spread.greatest:.1f})"


def _measure(ways: Ways, guests: int, runs: int, home: Path) -> Measured:
    costs: dict[tuple[str, str], list[Cost]] = {(task, way): [] for task in (STEADY, CHANGING) for way in WAYS}
    insides: dict[str, list[Inside]] = {way: [] for way in WITH_CLOCKS}
    daemons = []
    compiled = ways.tighter(PER_GIB)
    once(compiled.command, ways.environment)
    _inside(ways, compiled, home)
    for number in range(runs):
        say(f"run {number + 1} of {runs}")
        for name in WAYS:
            way = ways.tighter(name)
            costs[CHANGING, name].append(once(way.command, ways.environment))
            costs[STEADY, name].append(once(way.command, ways.environment))
            if name in WITH_CLOCKS:
                insides[name].append(_inside(ways, way, home))
            if name == BY_RULES:
                daemons.append(_in_daemon(ways, way, home))
    return Measured(guests, costs, insides, daemons)


def _inside(ways: Ways, way: Way, home: Path) -> Inside:
    """Of a way that has nothing to change."""
    into = home / "inside.json"
    _, *words = way.command
    cost = once([sys.executable, str(HERE / "inside.py"), str(into), *words], ways.environment)
    told = json.loads(into.read_text())
    return Inside.of(cost, told, told.pop("began"), told.pop("imported"))


def _in_daemon(ways: Ways, way: Way, home: Path) -> InDaemon:
    """The same settings and state, after the way itself: nothing is to change."""
    into = home / "inside.json"
    _, option, settings, _ = way.command
    state = State(Path(settings).parent / "state")
    command = [sys.executable, str(HERE / "inside.py"), str(into), option, settings, "daemon"]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, env=ways.environment, stdout=quiet, stderr=quiet) as process:
        try:
            last = None
            for number in range(RELOADS + 1):
                if number:
                    process.send_signal(signal.SIGHUP)
                end = time.monotonic() + PATIENT
                while (known := daemon_status.load(state)) is None or known.last_full_pass == last:
                    if time.monotonic() > end or process.poll() is not None:
                        raise LabError("the daemon makes no pass over the node")
                    time.sleep(0.02)
                last = known.last_full_pass
        finally:
            process.terminate()
    return InDaemon.of(json.loads(into.read_text()))


def _show_goals(measured: list[Measured]) -> None:
    largest = measured[-1]
    whole, inside, share = largest.ratio(STEADY, BY_RULES), largest.of_pass(), largest.in_libvirt()
    daemon, daemons = largest.of_daemon(), Spread.of(each.in_libvirt for each in largest.daemons)
    say(f"goals, at {largest.guests} guests with nothing to change")
    peak = max(one.peak() for one in measured)
    by_cinder = _over_rules(largest, BY_CINDER)
    goals = [
        (whole.middle >= 5, f"whole process at least 5 × as fast as cron: {whole.middle:.2f} ×"),
        (
            inside.middle >= 10 or share.middle >= 0.8,
            f"a pass at least 10 × as fast, or 80 % of it in libvirt: {inside.middle:.2f} ×, {share.middle:.1%}",
        ),
        (
            daemon.middle >= 10 or daemons.middle >= 0.9,
            f"a steady pass of the daemon at least 10 × as fast, or 90 % of it in libvirt: {daemon.middle:.2f} ×,"
            f" {daemons.middle:.1%}",
        ),
        (peak < 60, f"less than 60 MiB: {peak:.0f} MiB"),
        (max(by_cinder) <= 1.2, f"by Cinder at most 1.2 × as long as by its rules: {_both(by_cinder)}"),
    ]
    if len(measured) > 1:
        a_guest = [one.pass_per_guest() * 1000 for one in measured]
        each = ", ".join(f"{cost:.2f} ms at {one.guests}" for cost, one in zip(a_guest, measured, strict=True))
        goals.append((a_guest[-1] <= 1.25 * min(a_guest), f"linear, a guest costs no more among many: {each}"))
    for met, text in goals:
        say(f"  {'met   ' if met else 'MISSED'}  {text}")
    sizes = _over_rules(largest, PER_GIB)
    say(f"  shown   by Cinder per GiB, where a pass asks for sizes, beside by its rules: {_both(sizes)}")


def _over_rules(measured: Measured, way: str) -> tuple[float, float]:
    """Of whole processes, and of passes."""
    return measured.over_rules(way).middle, measured.pass_over_rules(way).middle


def _both(ratios: tuple[float, float]) -> str:
    return "whole process {:.2f} ×, pass {:.2f} ×".format(*ratios)
