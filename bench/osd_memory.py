"""What an OSD that starts holds in memory for its logs, and for objects that it misses: ``script/bench osd-memory``.

An OSD of the lab is killed and starts again, three times: with empty logs; with an entry for each object that was
written; and after each object was written again meanwhile, so that it misses all of them, while recovery is
forbidden. What it takes in the three cases differs by entries and by missing objects. Ceph's own count of what logs
take (``dump_mempools``) stands beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.forecast import OSD, until
from bench.lab import in_lab, say
from tests.lab.cloud import Cloud
from tests.lab.cloud.ceph import Ceph
from tests.lab.cloud.command import run

POOL = "osd-memory"
SIZE = 4096


@dataclass(frozen=True)
class Held:
    resident: int
    logs: int
    """Bytes, by Ceph's own count."""
    entries: int
    missing: int


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="script/bench osd-memory", description=__doc__)
    parser.add_argument("--objects", type=int, default=20_000, metavar="N", help="default: %(default)s")
    parser.add_argument("--groups", type=int, default=64, metavar="N", help="of the pool; default: %(default)s")
    parsed = parser.parse_args(words)
    return in_lab(lambda cloud: _measured(cloud, parsed.objects, parsed.groups), ("ceph",))


def _measured(cloud: Cloud, objects: int, groups: int) -> None:
    ceph = cloud.ceph
    ceph.run("osd", "pool", "create", POOL, str(groups), str(groups))
    ceph.run("osd", "pool", "application", "enable", POOL, "rbd")
    # Logs are not cut.
    for option, value in (("osd_max_pg_log_entries", 10**6), ("osd_min_pg_log_entries", 10**6)):
        ceph.run("tell", "osd.*", "config", "set", option, str(value))
    osd = ceph.daemon(OSD)
    try:
        until(ceph, lambda status: not _unclean(status))
        osd.kill()
        osd.start()
        empty = _at_rest(ceph)
        _write(ceph, objects)
        osd.kill()
        osd.start()
        logs = _at_rest(ceph)
        osd.kill()
        until(ceph, lambda status: status["osdmap"]["num_up_osds"] == 2)
        _write(ceph, objects)
        ceph.run("osd", "set", "norecover")
        osd.start()
        missing = _at_rest(ceph, clean=False)
    finally:
        osd.heal()
        ceph.run("osd", "unset", "norecover")
        ceph.run("osd", "pool", "delete", POOL, POOL, "--yes-i-really-really-mean-it")
    say("              resident      logs    entries  missing")
    for name, held in (("empty logs", empty), ("full logs", logs), ("missing", missing)):
        say(f"{name:12} {held.resident:10} {held.logs:9} {held.entries:10} {held.missing:8}")
    entries = logs.entries - empty.entries
    entry = (logs.resident - empty.resident) / entries
    rest = missing.resident - logs.resident - entry * (missing.entries - logs.entries)
    say(f"an entry: {entry:.0f} bytes resident, {(logs.logs - empty.logs) / entries:.0f} by Ceph's count")
    say(f"a missing object: {rest / max(missing.missing, 1):.0f} bytes resident beside its entry")
    say(f"load {os.getloadavg()[0]:.1f}")


def _unclean(status: object) -> bool:
    assert isinstance(status, dict)
    return {each["state_name"] for each in status["pgmap"]["pgs_by_state"]} != {"active+clean"}


def _at_rest(ceph: Ceph, *, clean: bool = True) -> Held:
    until(ceph, lambda status: status["osdmap"]["num_up_osds"] == 3)
    time.sleep(10)
    if clean:
        until(ceph, lambda status: not _unclean(status))
        time.sleep(5)
    number = int(OSD.partition(".")[2])
    groups = json.loads(ceph.run("pg", "dump", "pgs", "-f", "json"))["pg_stats"]
    on = [each for each in groups if number in each["up"]]
    told = json.loads(ceph.run("tell", OSD, "dump_mempools"))["mempool"]["by_pool"]["osd_pglog"]["bytes"]
    status = Path(f"/proc/{ceph.daemon(OSD).pid}/status").read_text()
    resident = next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS"))
    missing = sum(int(each["stat_sum"]["num_objects_degraded"]) for each in on)
    return Held(resident, int(told), sum(int(each["log_size"]) for each in on), missing)


def _write(ceph: Ceph, objects: int) -> None:
    words = ("bench", "900", "write", "-b", str(SIZE), "-O", str(SIZE), "-t", "16", "--max-objects", str(objects))
    run(["rados", "-c", ceph.conf, "-p", POOL, *words, "--no-cleanup", "--run-name", POOL], timeout=1000)
