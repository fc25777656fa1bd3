"""Who will feel new limits, as a plan says beforehand: three guests with known loads on a real QEMU."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.behind import device_of, read
from lab.cloud import Cloud, Guest
from lab.cloud.disk import volume
from lab.node import Node

pytestmark = pytest.mark.shared

RATES = (6, 24, 96)
"""Requests of 4 KiB a second of each guest's disk."""
SECONDS = 16
STEP = 2.0
SIZE = 4096
PLANS = [
    ({"total_iops_sec": 3}, 3),
    ({"total_iops_sec": 12}, 2),
    ({"total_iops_sec": 48}, 1),
    ({"total_iops_sec": 192}, 0),
    ({"total_bytes_sec": 48 * SIZE}, 1),
    # Each of the requests counts twice.
    ({"total_iops_sec": 24, "size_iops_sec": SIZE // 2}, 2),
]
"""Limits, each of which is half of one load or twice another, and how many of the guests will feel them."""


@contextmanager
def loaded(guests: list[Guest]) -> Iterator[None]:
    """Each at its rate, whatever the machine does meanwhile."""
    over = threading.Event()

    def load(guest: Guest, rate: int) -> None:
        device, number, began = device_of(guest, "vda"), 0, time.monotonic()
        while not over.wait(max(0.0, began + number / rate - time.monotonic())):
            read(guest, device, SIZE)
            number += 1

    threads = [threading.Thread(target=load, args=each) for each in zip(guests, RATES, strict=True)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def test_who_will_feel_each_of_six_limits_is_named(
    cloud: Cloud, guests: Callable[..., list[Guest]], tmp_path: Path
) -> None:
    loads = [guests(disks=[volume(2**30)])[0] for _ in RATES]
    named = [word for guest in loads for word in ("--guest", guest.uuid)]
    node = Node(tmp_path, cloud, mode="observe")
    node.use_metrics(tmp_path)
    with loaded(loads):
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            began = time.monotonic()
            assert node.run("enforce").status in {0, 3}  # others' guests may be there
            time.sleep(max(0.0, STEP - (time.monotonic() - began)))
    for limits, number in PLANS:
        node.write_rules(json.dumps({"default": {"limits": limits}}))
        planned = node.run("plan", *named, "-f", "json").data()["outcomes"]
        felt = {row["guest_uuid"] for row in planned if row["impact"]["at_limit"]}
        assert felt == {guest.uuid for guest in loads[3 - number :]}, limits
