"""The cron way: a list, one monitor command a guest, one more a change, each a process of its own.

What operators run today (a script around ``virsh``), only mended so that it finds the disks of a QEMU that is
driven with -blockdev: it reads ``qdev`` and the JSON in ``inserted.file`` where it used to match ``rbd:``.
Standard library only, so that nothing but its way of working is measured.
"""

from __future__ import annotations

import json
import subprocess
import sys


def virsh(uri: str, *words: str) -> str:
    return subprocess.run(["virsh", "-q", "-c", uri, *words], capture_output=True, text=True, check=True).stdout


def main(uri: str, iops: int, bps: int) -> None:
    for guest in virsh(uri, "list", "--name").split():
        devices = json.loads(virsh(uri, "qemu-monitor-command", guest, '{"execute": "query-block"}'))["return"]
        for device in devices:
            inserted = device.get("inserted", {})
            if '"pool"' not in inserted.get("file", ""):
                continue
            if (inserted["iops"], inserted["bps"]) == (iops, bps):
                continue
            limits = {"bps": bps, "bps_rd": 0, "bps_wr": 0, "iops": iops, "iops_rd": 0, "iops_wr": 0}
            command = {"execute": "block_set_io_throttle", "arguments": {"id": device["qdev"], **limits}}
            virsh(uri, "qemu-monitor-command", guest, json.dumps(command))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
