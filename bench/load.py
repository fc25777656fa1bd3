"""``script/bench load``: what ``plimsoll load`` costs a guest, at an interval of a second and with ``--latency``.

fio writes in a booted guest as fast as it can, for all of the time. In turns it is left alone, watched as ``load``
watches a node, left alone, and watched with histograms as ``--latency`` sets them; QEMU's counters tell what it did
in each turn. A turn's ratio is to the mean of those alone before and after it; the same of turns alone shows what the
machine itself varies by. fio always has four requests under way, so their mean latency changes by the inverse ratio.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.lab import in_lab, say
from lab.cloud import Cloud, Guest
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.monitor.sampler import Sampler
from plimsoll_agent.reconcile.outcome import Scope
from plimsoll_agent.store.state import State
from plimsoll_insight.load.latency import Histograms

FILE, TARGET = "/mnt/volume/fio-load", "vdb"
TURNS = ("alone", "load", "alone", "--latency")
INTERVAL = 1.0
_BEGIN = 60.0


def main(words: Sequence[str]) -> int:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="script/bench load", description=__doc__, formatter_class=layout)
    parser.add_argument("--pairs", type=int, default=20, metavar="N", help="of each kind; default: %(default)s")
    parser.add_argument("--seconds", type=int, default=4, metavar="N", help="of a turn; default: %(default)s")
    arguments = parser.parse_args(words)

    def measure(cloud: Cloud) -> None:
        guest = cloud.booted_guest()
        hypervisor = Libvirt(cloud.libvirt_uri, deadline=20, at_once=2)
        with tempfile.TemporaryDirectory() as home:
            _show(*_measure(hypervisor, guest, State(Path(home)), arguments.pairs, arguments.seconds))
        hypervisor.close()

    return in_lab(measure)


def _measure(
    hypervisor: Libvirt, guest: Guest, state: State, pairs: int, seconds: int
) -> tuple[list[float], dict[str, list[float]]]:
    """Requests a second of each turn, and by way how long the guest's counters took."""
    turns = [*TURNS * pairs, "alone"]
    common = ["fio", "--name=load", f"--filename={FILE}", "--size=64M", "--direct=1", "--ioengine=libaio"]
    guest.exec([*common, "--rw=write", "--bs=1M", "--end_fsync=1"], timeout=300)
    # Longer than the turns, which begin when it is at work.
    runtime = f"--runtime={len(turns) * (seconds + 1) + 10}"
    job = [*common, "--rw=randwrite", "--bs=4k", "--iodepth=4", "--time_based", runtime]
    guest.agent("guest-exec", {"path": job[0], "arg": job[1:]})
    until = time.monotonic() + _BEGIN
    while _turn(hypervisor, guest, 2, None)[0] < 50:
        if time.monotonic() > until:
            raise RuntimeError("fio does not write in the guest")
    (disk,) = (disk for disk in hypervisor.look(guest.uuid).disks if disk.target == TARGET)
    did: list[float] = []
    took: dict[str, list[float]] = {turn: [] for turn in TURNS if turn != "alone"}
    for turn in turns:
        histograms = Histograms(hypervisor, state, hypervisor.uri) if turn == "--latency" else None
        if histograms is not None:
            histograms.set([disk])
        sampler = None if turn == "alone" else Sampler(hypervisor, Scope(frozenset()), clock=time.monotonic)
        rate, asked = _turn(hypervisor, guest, seconds, sampler)
        if histograms is not None:
            histograms.remove()
            if histograms.complaints:
                raise RuntimeError("; ".join(histograms.complaints))
        did.append(rate)
        if sampler is not None:
            took[turn] += asked
    return did, took


def _turn(hypervisor: Libvirt, guest: Guest, seconds: int, sampler: Sampler | None) -> tuple[float, list[float]]:
    """What fio did in a second, and the seconds that each reading but the first took, which reads definitions too."""
    before, began, asked = _writes(hypervisor, guest), time.monotonic(), []
    for number in range(round(seconds / INTERVAL)):
        if sampler is not None:
            start = time.monotonic()
            sampler.ask()
            asked.append(time.monotonic() - start)
        time.sleep(max(began + (number + 1) * INTERVAL - time.monotonic(), 0))
    return (_writes(hypervisor, guest) - before) / (time.monotonic() - began), asked[1:]


def _writes(hypervisor: Libvirt, guest: Guest) -> int:
    return hypervisor.block_stats(guest.uuid, [TARGET])[TARGET].write_requests


def _show(did: Sequence[float], took: Mapping[str, Sequence[float]]) -> None:
    rates: dict[str, list[float]] = {turn: [] for turn in TURNS}
    ratios: dict[str, list[float]] = {turn: [] for turn in TURNS}
    for number, rate in enumerate(did):
        turn = TURNS[number % len(TURNS)]
        rates[turn].append(rate)
        apart = 2 if turn == "alone" else 1
        if apart <= number < len(did) - apart:
            ratios[turn].append(rate / statistics.mean((did[number - apart], did[number + apart])))
    say(f"{'':10} {'IOPS: mean':>10} {'± its error':>11} {'ratio: median':>13} {'middle half':>13}  a reading")
    for turn in ratios:
        error = statistics.stdev(rates[turn]) / math.sqrt(len(rates[turn]))
        low, middle, high = statistics.quantiles(ratios[turn], n=4)
        reading = f"{statistics.median(took[turn]) * 1000:.1f} ms" if turn in took else ""
        say(
            f"{turn:10} {statistics.mean(rates[turn]):10.0f} {error:11.0f} {middle:13.3f} {low:6.3f}-{high:.3f}"
            f"  {reading}"
        )
