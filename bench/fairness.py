"""What may be done against congestion, side by side, in a fluid model of regions: ``script/bench fairness``.

Each run loses a part of its cluster to recovery for 90 minutes. The sweep takes all combinations of servers of an
OSD, imbalance, delay and noise of the signal, and share of heavy disks. Targets are judged on each run.
"""

from __future__ import annotations

import argparse
import math
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from bench.fluid import NIGHT, Course, Region, curve, run
from plimsoll_agent.congestion.law import TUNING, ClassState, Signal, Tuning, step
from plimsoll_agent.util import frozen
from plimsoll_insight.simulate.arms import ARMS

SETTLES = 60
"""Periods after the begin of congestion that count as settling."""
NEAR = 1.25
WEEK = 7 * 2880


@dataclass(frozen=True)
class Judgement:
    """Of one run; times in periods, latencies in objectives."""

    region: Region
    arm: str
    first: float
    """From the begin of congestion until the latency is below 1.25; inf for never."""
    p95: float
    """Latency, settled."""
    swing: float
    """5th to 95th percentile of x, settled, by its median."""
    throughput: float
    """By that of doing nothing, settled."""
    jain: float
    writes: float
    outside: int
    x: float


def judge(region: Region, arm: str, nothing: Course, course: Course) -> Judgement:
    settled = slice(region.begins + SETTLES, region.ends)
    low, middle, high = np.percentile(course.x[settled], [5, 50, 95])
    return Judgement(
        region=region,
        arm=arm,
        first=_first(course.latency[region.begins : region.ends]),
        p95=float(np.percentile(course.latency[settled], 95)),
        swing=float((high - low) / middle),
        throughput=float(course.throughput[settled].sum() / nothing.throughput[settled].sum()),
        jain=float(np.nanmean(course.jain[settled])) if not np.isnan(course.jain[settled]).all() else math.nan,
        writes=course.writes,
        outside=course.outside,
        x=float(middle),
    )


def _first(latency: Sequence[float]) -> float:
    over = next((place for place, each in enumerate(latency) if each >= NEAR), None)
    if over is None:
        return 0
    return next((place for place, each in enumerate(latency) if place > over and each < NEAR), math.inf)


def regions(*, quick: bool) -> Iterator[Region]:
    """All combinations; quick: one of each number of servers."""
    if quick:
        yield from (Region(servers=servers, noise=0.3) for servers in (1, 4, 16))
        return
    axes = product((1, 4, 16), (0.0, 0.2), (0, 1, 3), (0.15, 0.3), (0.01, 0.3))
    for servers, imbalance, delay, noise, heavy in axes:
        yield Region(servers=servers, imbalance=imbalance, delay=delay, noise=noise, heavy=heavy)
    for servers in (1, 4, 16):
        yield Region(servers=servers, delay=2, noise=0.3, nodes=5000)
        yield Region(servers=servers, delay=1, noise=0.15, window=4)


def tuning_of(region: Region) -> Tuning:
    return frozen.replace(TUNING, delay=region.delay + region.window - 1)


def judged(region: Region, arms: Iterable[str]) -> Iterator[Judgement]:
    nothing = run(region, "nothing")
    for arm in arms:
        course = nothing if arm == "nothing" else run(region, arm, tuning_of(region))
        yield judge(region, arm, nothing, course)


def targets(one: Judgement, half: Judgement) -> dict[str, bool]:
    """By the words of the table: whether a run meets each."""
    region = one.region
    return {
        f"latency below {NEAR} in 10 periods (30 with one server)": one.first <= (30 if region.servers == 1 else 10),
        f"settled p95 of the latency at most {NEAR} (16 servers: 2.5)": one.p95
        <= (2.5 if region.servers == 16 else NEAR),
        "swing of x at most 5 %": one.swing <= 0.05,
        "throughput at least 85 % of doing nothing": one.throughput >= 0.85,
        "Jain's index of rate by share at least 0.98": not one.jain < 0.98,
        "beats half of all limits by latency or throughput": one.p95 < half.p95 or one.throughput > half.throughput,
        "no limit outside of floor and desired": not one.outside,
    }


def back_after_loss(region: Region) -> int:
    """Periods from the last signal until x is 1 again, congestion or not."""
    cut = region.begins + 100
    course = run(frozen.replace(region, cut=cut), "plimsoll", tuning_of(region))
    return int(np.argmax(course.x[cut:] >= 1))


def reductions_in_a_healthy_week(servers: int, noise: float, seed: int) -> int:
    """Steps with x below 1 in 7 days whose utilisation goes from 30 to 70 % and back each day."""
    random = np.random.RandomState(seed)
    loads, latencies = curve(servers, 0.1)
    hours = np.arange(WEEK) / 2880
    load = 0.5 - 0.2 * np.cos(2 * np.pi * hours)
    signals = np.interp(load, loads, latencies) * np.exp(noise * random.standard_normal(WEEK))
    objective = 3 * float(np.interp(NIGHT, loads, latencies))
    state, reduced = ClassState(), 0
    for latency, chance in zip(signals, random.random_sample(WEEK), strict=True):
        state = step(state, None if chance < 0.05 else Signal(latency=float(latency)), objective)
        reduced += state.x < 1
    return reduced


# --- what is printed and drawn

_ROW = "{:>7} {:<9} {:>5} {:>11} {:>11} {:>11} {:>11} {:>11} {:>9}"


def _spread(values: Iterable[float], digits: int = 2) -> str:
    every = sorted(values)
    middle, worst = every[len(every) // 2], every[-1]
    return f"{middle:.{digits}f} / {worst:.{digits}f}"


def _table(each: Sequence[Judgement]) -> Iterator[str]:
    yield _ROW.format("SERVERS", "ARM", "RUNS", "FIRST", "P95", "SWING", "THROUGHPUT", "JAIN", "WRITES")
    for servers in sorted({one.region.servers for one in each}):
        for arm in ARMS:
            these = [one for one in each if one.region.servers == servers and one.arm == arm]
            yield _ROW.format(
                servers,
                arm,
                len(these),
                _spread((one.first for one in these), 0),
                _spread(one.p95 for one in these),
                _spread(one.swing for one in these),
                _least(one.throughput for one in these),
                _least(one.jain for one in these if not math.isnan(one.jain)),
                _spread((one.writes for one in these), 0),
            )


def _least(values: Iterable[float]) -> str:
    every = sorted(values)
    return f"{every[len(every) // 2]:.2f} / {every[0]:.2f}" if every else "-"


def _met(each: Sequence[Judgement]) -> Iterator[str]:
    half = {one.region: one for one in each if one.arm == "half"}
    for servers in (1, 4, 16):
        results = [
            targets(one, half[one.region]) for one in each if one.arm == "plimsoll" and one.region.servers == servers
        ]
        for words in results[0]:
            yield f"{servers:>7} {words}: {sum(result[words] for result in results)} of {len(results)}"


def _draw(region: Region, path: Path) -> None:
    from plimsoll_probes.output.report.drawing import COLOURS, themed_svg

    colours = {"nothing": "ink", "half": "p50", "aimd": "p999", "parda": "faint", "plimsoll": "limit"}
    courses = {arm: run(region, arm, tuning_of(region)) for arm in ARMS}
    minutes = np.arange(region.periods) / 2

    def draw(figure: object) -> None:
        above, below = figure.subplots(2, 1, gridspec_kw={"top": 0.9, "bottom": 0.1, "hspace": 0.35})  # type: ignore[attr-defined]
        for arm, course in courses.items():
            width = 1.8 if arm == "plimsoll" else 1.0
            above.plot(minutes, course.latency, color=COLOURS[colours[arm]], linewidth=width, label=arm)
            below.plot(minutes, course.x, color=COLOURS[colours[arm]], linewidth=width, label=arm)
        above.set_yscale("log")
        above.set_yticks([0.3, 1, 3, 10], ["0.3", "1", "3", "10"])
        above.minorticks_off()
        above.axhline(1, color=COLOURS["ink"], linewidth=0.6)
        above.set_title(f"latency of light disks / objective, {region.servers} servers an OSD", pad=16)
        below.set_title("x", pad=4)
        below.set_ylim(0, 1.05)
        below.set_xlabel("minutes")
        above.legend(loc="lower left", bbox_to_anchor=(0, 0.97), ncols=5, columnspacing=0.9, handlelength=1.4)

    # A path is one line: so many points are one change where they differ.
    path.write_bytes(re.sub(rb" \n(?=[A-Z] )", b" ", themed_svg(draw, 4.6, 7.2)))


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="script/bench fairness", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three regions in place of 78")
    parser.add_argument("--plot", metavar="DIRECTORY", type=Path, help="draw a region with 4 and one with 16 servers")
    options = parser.parse_args(words)
    began = time.process_time()
    each = [one for region in regions(quick=options.quick) for one in judged(region, ARMS)]
    print("Median / worst; periods of 30 s; latency in objectives; writes a disk and hour.", *_table(each), sep="\n")
    print("", "Targets that plimsoll's law meets, in so many runs:", *_met(each), sep="\n")
    lost = {servers: back_after_loss(Region(servers=servers)) for servers in (1, 4, 16)}
    print("", f"Without a signal x is 1 again after periods, by servers: {lost}", sep="\n")
    for servers, noise in product((1, 4, 16), (0.15, 0.3)):
        reduced = reductions_in_a_healthy_week(servers, noise, 1)
        print(f"A healthy week, {servers} servers, noise {noise:.0%}: {reduced} periods with a reduction")
    if options.plot:
        for servers in (4, 16):
            _draw(Region(servers=servers, noise=0.2), options.plot / f"fairness-{servers}.svg")
    print(f"{len(each)} runs, {time.process_time() - began:.0f} s of the processor")
    return 0
