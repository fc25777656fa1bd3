"""``script/demo``: a disk held to its limit; one that follows an edited QoS spec; both proven from inside; and a
guest whose first second is limited."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from lab.cloud import Cloud, LabError
from lab.demo import drift, probe, qos, start
from plimsoll_probes.model.finding import Trouble
from plimsoll_probes.output.messages import why_words


def main() -> int:
    parser = argparse.ArgumentParser(prog="script/demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave the cloud up afterwards, to look around in")
    parser.add_argument("--plots", type=Path, default=Path("build/demo"), help="where to; default: %(default)s")
    arguments = parser.parse_args()
    for ending in (signal.SIGTERM, signal.SIGHUP):  # the cloud must not stay up
        signal.signal(ending, signal.default_int_handler)
    cloud = Cloud(say=lambda line: print(f"  {line}", flush=True))
    try:
        print("A small real cloud: Ceph with three OSDs, libvirt, and a Linux guest with two RBD disks", flush=True)
        cloud.up(("ceph", "libvirt", "guest"))
        drift.play(cloud, arguments.plots / "drift.png")
        qos.play(cloud, arguments.plots / "qos.png")
        probe.play(cloud, arguments.plots / "probe.png")
        start.play(cloud, arguments.plots / "start.png")
        if arguments.keep:
            print(f"\nThe cloud stays up. libvirt: {cloud.libvirt_uri}")
            print("Take it down with: .venv/bin/python -m lab.cloud down")
    except (LabError, Trouble) as error:
        print(f"demo: {why_words(error.why, error.facts) if isinstance(error, Trouble) else error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ndemo: interrupted", file=sys.stderr)
        return 130
    finally:
        if not arguments.keep:
            cloud.down()
    return 0


if __name__ == "__main__":
    sys.exit(main())
