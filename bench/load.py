"""``script/bench load``: what ``plimsoll load`` costs a guest, at an interval of a second and with ``--latency``.

fio in a booted guest, as fast as it can: alone, with ``plimsoll load`` beside it, with ``--latency``, and alone
again, in turns that begin with another each time. The ratios are paired round by round; that of the second run alone
shows what the machine itself varies by.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.lab import in_lab, say
from bench.ways import PLIMSOLL
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_insight.load.latency import devices
from tests.lab.cloud import Cloud, Guest
from tests.lab.node import Node, only

FILE = "/mnt/volume/fio-load"
ALONE, AGAIN = "alone", "alone again"
WAYS: Mapping[str, Sequence[str]] = {ALONE: (), "load": ("load",), "--latency": ("load", "--latency"), AGAIN: ()}


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="script/bench load", description=__doc__)
    parser.add_argument("--rounds", type=int, default=8, metavar="N", help="default: %(default)s")
    parser.add_argument("--seconds", type=int, default=10, metavar="N", help="of a run; default: %(default)s")
    arguments = parser.parse_args(words)

    def measure(cloud: Cloud) -> None:
        guest = cloud.booted_guest()
        with tempfile.TemporaryDirectory() as home:
            _fio(guest, "--rw=write", "--bs=1M", "--end_fsync=1")
            _measure(cloud, guest, Node(Path(home), cloud), arguments.rounds, arguments.seconds)

    return in_lab(measure)


def _measure(cloud: Cloud, guest: Guest, node: Node, rounds: int, seconds: int) -> None:
    iops: dict[str, list[float]] = {way: [] for way in WAYS}
    cpu: dict[str, list[float]] = {way: [] for way in WAYS}
    names = list(WAYS)
    hypervisor = Libvirt(cloud.libvirt_uri, deadline=20, at_once=2)
    try:
        for number in range(rounds):
            for way in names[number % len(names) :] + names[: number % len(names)]:
                did, spent = _run(hypervisor, guest, node, WAYS[way], seconds)
                iops[way].append(did)
                cpu[way].append(spent)
            say(f"round {number + 1} of {rounds}: " + ", ".join(f"{way} {iops[way][-1]:.0f} IOPS" for way in names))
    finally:
        hypervisor.close()
    say(f"{'':12} {'IOPS':>6} {'beside alone: mean':>18} {'deviation':>9} {'from':>6} {'to':>6} {'CPU of it':>9}")
    for way in names:
        ratios = [did / before for did, before in zip(iops[way], iops[ALONE], strict=True)]
        deviation = statistics.stdev(ratios) if len(ratios) > 1 else 0.0
        say(
            f"{way:12} {statistics.mean(iops[way]):6.0f} {statistics.mean(ratios):18.3f} {deviation:9.3f}"
            f" {min(ratios):6.3f} {max(ratios):6.3f} {statistics.mean(cpu[way]):8.1%}"
        )


def _run(hypervisor: Libvirt, guest: Guest, node: Node, words: Sequence[str], seconds: int) -> tuple[float, float]:
    """What fio did, and the share of a core that plimsoll took beside it."""
    job = ("--rw=randwrite", "--bs=4k", "--iodepth=4", "--time_based", f"--runtime={seconds}")
    if not words:
        return _fio(guest, *job), 0.0
    argv = [PLIMSOLL, "--config-file", str(node.settings), *words, "--for", "1h", *only(guest)]
    began = time.monotonic()
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        _wait_until_it_watches(hypervisor, guest, process, latency="--latency" in words)
        did = _fio(guest, *job)
        if process.poll() is not None:
            raise RuntimeError(f"{' '.join(argv)} ended early with {process.returncode}")
    finally:
        process.terminate()
        _, _, usage = os.wait4(process.pid, 0)
    return did, (usage.ru_utime + usage.ru_stime) / (time.monotonic() - began)


def _wait_until_it_watches(
    hypervisor: Libvirt, guest: Guest, process: subprocess.Popen[bytes], *, latency: bool
) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        if not latency:
            time.sleep(3)  # it has no sign of its own; imports and the first reading take less than one
            return
        if any(
            device.latencies is not None for device in devices(hypervisor.monitor(guest.uuid, "query-blockstats"))
        ):
            return
        time.sleep(0.2)
    raise RuntimeError("plimsoll load does not watch the guest")


def _fio(guest: Guest, *words: str) -> float:
    """Requests a second."""
    common = ["--name=load", f"--filename={FILE}", "--size=64M", "--direct=1", "--ioengine=libaio"]
    completed = guest.exec(["fio", "--output-format=json", *common, *words], timeout=600)
    if completed.exit_code != 0:
        raise RuntimeError(f"fio in the guest: {completed.err}")
    (job,) = json.loads(completed.out[completed.out.index("{") :])["jobs"]
    return float(job["write"]["iops"])
