"""How soon limits are in force with ``plimsoll daemon``: ``script/bench reaction``.

An observer of libvirt's events, in a process of its own, takes the time from the event (guest started, device added,
limits set by another client) to the last event that tells of the limits. QEMU is asked after each whether they are in
force. Guests are paused and have two disks; a hard reboot is a stop, and a start from a definition without limits.
The cron way needs half its interval on average: 150 s with five minutes.

With ``--writing``, a booted guest that writes from its first moment follows: ``bench/writing.py``.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench import writing
from bench.lab import in_lab, say
from lab.cloud import Cloud, Guest, LabError
from lab.cloud.disk import ephemeral, volume
from lab.daemon import daemon_on
from lab.looking import actual
from lab.node import Node
from lab.observer import DEVICE_ADDED, STARTED, TUNABLE, Observer, observing
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.model.limits import Limits

IOPS, OTHER = 250, 9000
SIZE = 2**30
LIVE, PAUSED = 1, 1  # VIR_DOMAIN_AFFECT_LIVE, VIR_DOMAIN_START_PAUSED


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="script/bench reaction", description=__doc__)
    parser.add_argument("--number", type=int, default=25, metavar="N", help="of each; default: %(default)s")
    parser.add_argument("--guests", type=int, default=0, metavar="N", help="others on the node; default: %(default)s")
    parser.add_argument(
        "--writing",
        type=int,
        default=0,
        metavar="N",
        help="guests that write at once; default: %(default)s",
    )
    arguments = parser.parse_args(words)
    parts = ("ceph", "libvirt", "guest") if arguments.writing else ("ceph", "libvirt")
    return in_lab(lambda cloud: _measured(cloud, arguments.number, arguments.guests, arguments.writing), parts)


def _measured(cloud: Cloud, number: int, others: int, writers: int) -> None:
    made = cloud.paused_guests([[ephemeral(SIZE), volume(SIZE)] for _ in range(others)])
    took: dict[str, list[float]] = {}
    got: dict[str, list[writing.Through]] = {}
    try:
        with tempfile.TemporaryDirectory() as home, observing(cloud.libvirt_uri) as observer:
            node = Node(Path(home), cloud, f"default: {{limits: {{total_iops_sec: {IOPS}}}}}\n")
            with daemon_on(node, installed=True) as daemon:
                first = daemon.told()
                for _ in range(number):
                    for what, seconds in _round(cloud, observer):
                        took.setdefault(what, []).append(seconds)
                last = daemon.told()
                for what, through in writing.rounds(cloud, writers, IOPS):
                    got.setdefault(what, []).append(through)
    finally:
        cloud.destroy_guests(made)
    say(f"{others} other guests; milliseconds from libvirt's event to limits in force:")
    for what, each in took.items():
        each.sort()
        p50, p99 = (each[min(len(each) - 1, int(share * len(each)))] * 1000 for share in (0.5, 0.99))
        say(f"{what:16} {len(each):4} times  p50 {p50:5.0f}  p99 {p99:5.0f}  max {each[-1] * 1000:5.0f}")
    passes = sum(last.passes.values()) - sum(first.passes.values())
    mean = (last.seconds_sum - first.seconds_sum) / max(passes, 1)
    say(f"{passes} passes over a guest, {mean * 1000:.0f} ms each on average; {dict(last.passes)}")
    say(f"memory {last.memory / 2**20:.0f} MiB, {last.threads} threads, {last.descriptors} descriptors")
    if got:
        writing.show(got)


def _round(cloud: Cloud, observer: Observer) -> Iterator[tuple[str, float]]:
    """A guest's life: fewer passes than after which they are spaced out."""
    hypervisor = Libvirt(cloud.libvirt_uri, deadline=5, at_once=4)

    def timed(what: str, event: str, *targets: str) -> tuple[str, float]:
        seconds = observer.reaction(event, guest.uuid, IOPS, *targets, after=began)
        for target in targets:
            if actual(hypervisor, guest.uuid, target) != Limits(total_iops_sec=IOPS):
                raise LabError(f"{guest.name} {target}: QEMU has other limits than libvirt told")
        return what, seconds

    began = time.monotonic()
    (guest,) = cloud.paused_guests([[ephemeral(SIZE), volume(SIZE)]])
    try:
        yield timed("guest started", STARTED, "vda", "vdb")
        began = time.monotonic()
        yield timed("device added", DEVICE_ADDED, guest.attach(volume(SIZE)))
        bare = re.sub(r"<iotune>.*?</iotune>", "", _definition(guest), flags=re.DOTALL)
        began = time.monotonic()
        guest.domain().destroy()
        guest.domain().connect().defineXML(bare).createWithFlags(PAUSED)
        yield timed("hard reboot", STARTED, "vda", "vdb")
        began = time.monotonic()
        guest.domain().setBlockIoTune("vdb", {"total_iops_sec": OTHER}, LIVE)
        began = observer.wait(
            lambda seen: seen.uuid == guest.uuid and seen.limits.get("total_iops_sec") == OTHER, began
        ).at
        yield timed("external change", TUNABLE, "vdb")
    finally:
        hypervisor.close()
        guest.destroy()


def _definition(guest: Guest) -> str:
    text: str = guest.domain().XMLDesc(2)  # VIR_DOMAIN_XML_INACTIVE
    return text
