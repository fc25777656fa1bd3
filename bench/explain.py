"""``script/bench explain``: how long ``plimsoll region explain`` takes, in the simulated region of its tests.

That has 50 nodes with 400 disks and a sample each five minutes over a day, in a real Prometheus on this machine. Each
run is the whole command, from its start to its end; nothing is cached in it, but Prometheus is warm after the first.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.measure import Spread, once
from bench.ways import PLIMSOLL
from tests.functional import test_explain as simulated
from tests.simulated_region import prometheus_of
from tests.unit.node import uuid_of

ASKED = {
    "a server at its limit": uuid_of(simulated.HELD),
    "a server with a loud neighbour": uuid_of(simulated.LOUD + 1),
    "a server that moved": uuid_of(simulated.MOVED),
    "a server, by its name": f"web-{simulated.ALONE}",
    "a volume": simulated.volume(simulated.HELD),
}
SINCE = ("1h", "24h")


def main(words: Sequence[str]) -> int:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="script/bench explain", description=__doc__, formatter_class=layout)
    parser.add_argument("--runs", type=int, default=10, metavar="N", help="of each; default: %(default)s")
    arguments = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as name:
        home, lines = Path(name), simulated.lines()
        (home / "plimsoll.conf").write_text(f"[DEFAULT]\nstate_dir = {home}/state\n")
        with prometheus_of(lines, home) as prometheus:
            series = {one.split(" ")[0] for each in lines.values() for one in each}
            print(f"{sum(map(len, lines.values()))} samples of {len(series)} series; {arguments.runs} runs of each\n")
            print(f"{'':32}{'since':>6}{'wall s':>8}{'least to most':>16}{'CPU s':>8}")
            for what, asked in ASKED.items():
                for since in SINCE:
                    command = (PLIMSOLL, "--config-file", f"{home}/plimsoll.conf", "region", "explain", asked)
                    options = ("--prometheus", prometheus.url, "--since", since)
                    costs = [once([*command, *options], os.environ) for _ in range(arguments.runs)]
                    wall, cpu = (Spread.of(getattr(cost, kind) for cost in costs) for kind in ("wall", "cpu"))
                    spread = f"{wall.least:.2f} to {wall.greatest:.2f}"
                    print(f"  {what:30}{since:>6}{wall.middle:8.2f}{spread:>16}{cpu.middle:8.2f}")
    return 0
