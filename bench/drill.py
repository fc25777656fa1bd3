"""``script/bench drill``: what the page of a long drill weighs, and how long its making and its drawing take.

The recording is made up: a failure within an hour, a reading each second, as many disks as guests, and two that are
probed all the time.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.functional.browser import browser
from tests.unit.insight.drill.recorded import drill, probed, status, write

PLIMSOLL = Path(sys.executable).with_name("plimsoll")
LOOKS = 5


def main(words: Sequence[str]) -> int:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="script/bench drill", description=__doc__, formatter_class=layout)
    parser.add_argument("--seconds", type=int, default=3600, metavar="N", help="default: %(default)s")
    parser.add_argument("--guests", type=int, default=512, metavar="N", help="default: %(default)s")
    arguments = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as home:
        file, page = Path(home, "drill"), Path(home, "page.html")
        calm = [(100.0, status())] * max(arguments.seconds - len(drill()), 0)
        write(file, [*calm, *drill()], arguments.guests)
        probed(file, len(calm) + len(drill()))
        print(f"load {os.getloadavg()[0]:.1f}; recording: {file.stat().st_size / 1e6:.1f} MB")
        began = time.monotonic()
        subprocess.run([PLIMSOLL, "drill", "report", str(file), "--plot", str(page)], check=True, capture_output=True)
        print(f"report --plot: {time.monotonic() - began:.1f} s; page: {page.stat().st_size / 1e6:.2f} MB")
        with browser(Path(home, "browser")) as tab:
            for width in (1280, 320):
                took = []
                for _ in range(LOOKS):
                    began = time.monotonic()
                    tab.open(page.as_uri(), width)
                    tab.ask("Page.captureScreenshot", captureBeyondViewport=True)
                    took.append(time.monotonic() - began)
                print(f"drawn whole, {width} pixels wide: {min(took):.2f} to {max(took):.2f} s, {LOOKS} times")
    return 0
