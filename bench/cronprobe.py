"""The cron way to probe a guest: fio through ``virsh qemu-agent-command``, asked once a second whether it is done.

What operators run today, with the parameters of the site that it comes from, but for the CPUs, of which a guest may
have fewer. Its file is there already and stays. Nothing is watched, judged or kept. Standard library only, so that
nothing but its way of working is measured. It writes what each job took to the file named last.
"""

from __future__ import annotations

import base64
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

JOBS = {"read": "randread", "write": "randwrite", "mixed": "randrw"}


def agent(uri: str, guest: str, command: str, **arguments: object) -> Any:
    request = json.dumps({"execute": command, "arguments": arguments})
    asked = ["virsh", "-q", "-c", uri, "qemu-agent-command", guest, request]
    return json.loads(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)["return"]


def fio(job: str, file: str, size: int, seconds: int) -> list[str]:
    return [
        f"--name={job}",
        f"--rw={JOBS[job]}",
        f"--filename={file}",
        f"--size={size}",
        "--time_based",
        f"--runtime={seconds}",
        "--direct=1",
        "--bs=16k",
        "--randrepeat=0",
        "--iodepth=2",
        "--numjobs=4",
        "--group_reporting",
        "--ioengine=libaio",
        "--output-format=json",
    ]


def run(uri: str, guest: str, arguments: list[str]) -> Any:
    given = {"path": "fio", "arg": arguments, "capture-output": True}
    pid = agent(uri, guest, "guest-exec", **given)["pid"]
    while True:
        status = agent(uri, guest, "guest-exec-status", pid=pid)
        if status["exited"]:
            return json.loads(base64.b64decode(status["out-data"]))
        time.sleep(1)


def used() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)


def main(uri: str, guest: str, file: str, size: int, seconds: int, into: Path) -> None:
    told = []
    for job in JOBS:
        began, before = time.monotonic(), used()
        (result,) = run(uri, guest, fio(job, file, size, seconds))["jobs"]
        wall, cpu = time.monotonic() - began, used() - before
        ran = max(result["read"]["runtime"], result["write"]["runtime"]) / 1000
        told.append({"job": job, "wall": wall, "cpu": cpu, "fio": ran})
    into.write_text(json.dumps(told))


if __name__ == "__main__":
    uri, guest, file, size, seconds, into = sys.argv[1:]
    main(uri, guest, file, int(size), int(seconds), Path(into))
