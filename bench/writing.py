"""What a guest that writes from its first moment gets through above its limit, in requests.

A booted guest has writers that open a disk as soon as it is there. QEMU's counters and the limits are read in turns
from before an event until the limits are in force. Above the limit are the requests that were done by then, less
those that the limit would have allowed since the guest's first one (of an external change: since just before it).
"""

from __future__ import annotations

import re
import statistics
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.lab import say
from lab.cloud import Cloud, Guest, LabError
from lab.cloud.disk import volume
from lab.cloud.libvirtd import bindings

EACH = 0.005
"""Seconds between two readings."""
PATIENCE = 60.0
SETTLED = 2.0
"""Seconds over which a guest's writes are counted."""
AT_LIMIT = 0.5
"""The share of its limit that a guest writes at least before the limit is changed."""
OTHER = 9000
SIZE = 2**30
WRITERS = 4
LIVE = 1  # VIR_DOMAIN_AFFECT_LIVE
INACTIVE = 2  # VIR_DOMAIN_XML_INACTIVE

# They are there before the disk is, since under emulation a program takes a second to start. A request is written
# from an aligned address, as O_DIRECT asks for.
WRITE = """
use Fcntl;
my ($path, $writers) = @ARGV;
for (1 .. $writers) { last unless fork }
my $buffer = "x" x 8192;
my $offset = -unpack("J", pack("P", $buffer)) % 4096;
my $disk;
select(undef, undef, undef, 0.002) until sysopen($disk, $path, O_WRONLY | O_DIRECT);
while (1) {
    sysseek($disk, 4096 * int(rand(200000)), 0);
    syswrite($disk, $buffer, 4096, $offset) or die "$path: $!";
}
"""


@dataclass(frozen=True)
class Reading:
    at: float
    requests: int
    limited: bool
    """Whether the limit was in force just before the requests were counted."""


@dataclass(frozen=True)
class Through:
    """What a guest got through until its limit was in force."""

    above: float
    """Requests above the limit."""
    requests: int
    seconds: float
    """From the guest's first request, or from the external change, to the reading that found the limit."""


def through(requests: int, seconds: float, limit: int) -> Through:
    return Through(max(0.0, requests - limit * seconds), requests, seconds)


class _Watch:
    """Reads one disk in a thread of its own until its limit is in force: its guest may be about to start."""

    def __init__(self, uri: str, guest: Guest, target: str, limit: int) -> None:
        self.readings: list[Reading] = []
        self._uri, self._uuid, self._target, self._limit = uri, guest.uuid, target, limit
        self._error: str | None = None
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        libvirt = bindings()
        connection = libvirt.open(self._uri)
        until = time.monotonic() + PATIENCE
        try:
            while time.monotonic() < until:
                try:
                    reading = self._one(connection.lookupByUUIDString(self._uuid))
                except libvirt.libvirtError as error:  # neither guest nor disk needs to be there yet
                    self._error = str(error)
                else:
                    self.readings.append(reading)
                    if reading.limited:
                        self._error = None
                        return
                    self._error = "the limits are not in force"
                time.sleep(EACH)
        finally:
            connection.close()

    def _one(self, domain: Any) -> Reading:
        limited = domain.blockIoTune(self._target, LIVE)["total_iops_sec"] == self._limit
        at = time.monotonic()
        reads, _, writes, *_ = domain.blockStats(self._target)
        return Reading(at, reads + writes, limited)

    def last(self) -> Reading:
        """The first reading that found the limit in force."""
        self._thread.join(PATIENCE + 5)
        if self._error or not self.readings or self._thread.is_alive():
            raise LabError(f"{self._uuid} {self._target} after {PATIENCE:g} s: {self._error}")
        return self.readings[-1]

    def since_first_request(self) -> Through:
        last = self.last()
        first = next((reading for reading in self.readings if reading.requests), last)
        return through(last.requests, last.at - first.at, self._limit)


def rounds(cloud: Cloud, number: int, limit: int) -> Iterator[tuple[str, Through]]:
    """A guest for each, as passes over one and the same would be spaced out."""
    for done in range(number):
        say(f"booting guest {done + 1} of {number} that write")
        guest = cloud.another_booted_guest()
        try:
            for what, one in _round(cloud, guest, limit):
                above = f"{one.above:.0f} above the limit"
                say(f"{what}: {one.requests} requests in {one.seconds * 1000:.0f} ms, {above}")
                yield what, one
        finally:
            guest.destroy()


def _round(cloud: Cloud, guest: Guest, limit: int) -> Iterator[tuple[str, Through]]:
    disk = volume(SIZE)
    target = guest.free_target(disk)
    guest.agent("guest-exec", {"path": "perl", "arg": ["-e", WRITE, f"/dev/{target}", str(WRITERS)]})
    time.sleep(SETTLED)  # until the writers wait for the disk
    watch = _Watch(cloud.libvirt_uri, guest, target, limit)
    if guest.attach(disk) != target:
        raise LabError(f"{guest.name}: the disk is not {target}")
    yield "device added", watch.since_first_request()

    domain = guest.domain()
    _wait_for_writes(guest, domain, target, limit)
    yield "external change", _after_external_change(cloud, guest, target, limit)

    bare = re.sub(r"<iotune>.*?</iotune>", "", domain.XMLDesc(INACTIVE), flags=re.DOTALL)
    domain.destroy()
    started = domain.connect().defineXML(bare)
    watch = _Watch(cloud.libvirt_uri, guest, "vda", limit)
    started.create()
    yield "hard reboot", watch.since_first_request()


def _wait_for_writes(guest: Guest, domain: Any, target: str, limit: int) -> None:
    """Until it writes at its limit, more or less: one that writes less gets nothing through above it."""
    until = time.monotonic() + PATIENCE
    while True:
        before, began = _requests(domain, target), time.monotonic()
        time.sleep(SETTLED)
        rate = (_requests(domain, target) - before) / (time.monotonic() - began)
        if rate >= AT_LIMIT * limit:
            return
        if time.monotonic() > until:
            raise LabError(f"this machine is too slow: {guest.name} writes {rate:.0f} times a second to {target}")


def _after_external_change(cloud: Cloud, guest: Guest, target: str, limit: int) -> Through:
    domain = guest.domain()
    at = time.monotonic()
    before = _requests(domain, target)
    domain.setBlockIoTune(target, {"total_iops_sec": OTHER}, LIVE)
    last = _Watch(cloud.libvirt_uri, guest, target, limit).last()
    return through(last.requests - before, last.at - at, limit)


def _requests(domain: Any, target: str) -> int:
    reads, _, writes, *_ = domain.blockStats(target)
    return int(reads + writes)


def show(found: Mapping[str, Sequence[Through]]) -> None:
    say(f"a guest that writes 4 KiB from its first moment, {WRITERS} at once; requests until limits are in force:")
    for what, each in found.items():
        above = [one.above for one in each]
        if not any(above):
            began = "none did a request before" if not any(one.requests for one in each) else "within the limit"
            say(f"{what:16} {len(each):4} times  none above the limit ({began})")
            continue
        done = statistics.median(one.requests for one in each)
        took = statistics.median(one.seconds for one in each) * 1000
        say(
            f"{what:16} {len(each):4} times  above the limit: min {min(above):.0f}  median"
            f" {statistics.median(above):.0f}  max {max(above):.0f}  (median {done:.0f} done in {took:.0f} ms)"
        )
