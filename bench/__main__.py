"""``script/bench``: a pass of plimsoll beside the cron way, on the same paused guests, in turn, in one run."""

from __future__ import annotations

import argparse
import sys
import tempfile
from itertools import cycle
from pathlib import Path

from bench.measure import Cost, median, once
from tests.lab.cloud import Cloud, LabError, ephemeral, volume

BYTES = 104857600
GIB = 2**30


def main() -> int:
    parser = argparse.ArgumentParser(prog="script/bench", description=__doc__)
    parser.add_argument(
        "--guests", type=int, default=50, help="paused, with two RBD disks each (default: %(default)s)"
    )
    parser.add_argument("--runs", type=int, default=5, help="of each way (default: %(default)s)")
    arguments = parser.parse_args()
    cloud = Cloud(say=lambda line: print(line, flush=True))
    try:
        cloud.up(("ceph", "libvirt"))
        print(f"starting {arguments.guests} paused guests", flush=True)
        made = cloud.paused_guests([[ephemeral(GIB), volume(GIB)] for _ in range(arguments.guests)])
        try:
            _compare(cloud, arguments.guests, arguments.runs)
        finally:
            cloud.destroy_guests(made)
    except (LabError, RuntimeError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    finally:
        cloud.down()
    return 0


def _compare(cloud: Cloud, guests: int, runs: int) -> None:
    with tempfile.TemporaryDirectory() as state:
        plimsoll = [str(Path(sys.executable).with_name("plimsoll")), "--config-file", _settings(Path(state), cloud)]
        # Other numbers each time: then there is everything to change, and for the same ones nothing.
        numbers = cycle(range(250, 1000))

        def by_plimsoll(iops: int) -> list[str]:
            return [*plimsoll, "enforce", f"--total-iops-sec={iops}", f"--total-bytes-sec={BYTES}"]

        def by_cron(iops: int) -> list[str]:
            return [sys.executable, "-m", "bench.cron", cloud.libvirt_uri, str(iops), str(BYTES)]

        changing: dict[str, list[Cost]] = {"cron": [], "plimsoll": []}
        steady: dict[str, list[Cost]] = {"cron": [], "plimsoll": []}
        for number in range(runs):
            print(f"run {number + 1} of {runs}", flush=True)
            for name, way in (("cron", by_cron), ("plimsoll", by_plimsoll)):
                iops = next(numbers)
                changing[name].append(once(way(iops)))
                steady[name].append(once(way(iops)))
    print(f"\n{guests} guests, {2 * guests} RBD disks; medians of {runs} runs of whole processes")
    _table("nothing to change", steady)
    _table("every disk to change", changing)


def _settings(home: Path, cloud: Cloud) -> str:
    file = home / "plimsoll.conf"
    file.write_text(f"[DEFAULT]\nmode = enforce\nstate_dir = {home}/state\n[libvirt]\nuri = {cloud.libvirt_uri}\n")
    return str(file)


def _table(title: str, costs: dict[str, list[Cost]]) -> None:
    print(f"\n{title:24}{'wall s':>9}{'CPU s':>9}{'peak MiB':>10}")
    for name, measured in costs.items():
        cost = median(measured)
        print(f"  {name:22}{cost.wall:9.2f}{cost.cpu:9.2f}{cost.memory / 1024:10.0f}")
    ratios = sorted(cron.wall / ours.wall for cron, ours in zip(costs["cron"], costs["plimsoll"], strict=True))
    print(f"  cron takes {ratios[len(ratios) // 2]:.1f} × as long ({ratios[0]:.1f} to {ratios[-1]:.1f}, run by run)")


if __name__ == "__main__":
    sys.exit(main())
