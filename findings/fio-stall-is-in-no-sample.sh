#!/usr/bin/env bash
# fio 3.33 (Debian 12): a disk that stands still for 4 of 10 seconds has an iops_min above 0 and the iops_mean of a
# disk that never did.
#
# One expects of iops_min 0, and of iops_mean what `iops` is (126 here, requests by time). fio takes a sample each 500
# ms, but none where nothing was done in it: there are 13 of 20, so iops_mean is 194, and iops_min is that of a time
# in which the stall began or ended. bw_min, bw_mean and the rows of write_iops_log are the same samples: the mean of
# a log, and a plot with lines, have no stall either. `iops`, clat_ns.max and the times of the rows show it. Issue
# 1145 of fio, closed without an answer, asks where the 0 is. So has fio 3.41. The disk is an NBD server that is
# stopped and continued.
set -euo pipefail
directory=$(mktemp -d)
trap 'kill -CONT "${server:-}" 2> /dev/null || true; kill "${server:-}" 2> /dev/null || true; rm -rf "$directory"' EXIT
cd "$directory"
apt-get -q -o APT::Sandbox::User=root download fio=3.33-3 libnbd0 qemu-utils=1:7.2+dfsg-7+deb12u18+b3 libaio1 liburing2 \
    libfuse3-3 libglib2.0-0 > /dev/null
for package in *.deb; do dpkg -x "$package" .; done
export LD_LIBRARY_PATH=$PWD/usr/lib/x86_64-linux-gnu:$PWD/lib/x86_64-linux-gnu
truncate -s 64M disk.raw
usr/bin/qemu-nbd --persistent --format=raw --socket="$PWD/disk" disk.raw &
server=$!
sleep 1
usr/bin/fio --name=a --ioengine=nbd --uri="nbd+unix:///?socket=$PWD/disk" --rw=randread --bs=4k --thinktime=4700 \
    --runtime=10 --time_based --write_iops_log=log --log_avg_msec=500 --output-format=json --output=out.json &
job=$!
sleep 3.2
kill -STOP "$server"
sleep 4
kill -CONT "$server"
wait "$job"
python3 - << 'PYTHON'
import json
import sys

read = json.load(open("out.json"))["jobs"][0]["read"]
values = [int(row.split(",")[1]) for row in open("log_iops.1.log")]
print({name: read[name] for name in ("iops", "iops_min", "iops_mean", "iops_samples")}, "log", values)
print(f"longest request {read['clat_ns']['max'] / 1e9:.1f} s")
problems = [
    name
    for name, holds in {
        "stall": read["clat_ns"]["max"] > 3.5e9,
        "iops": read["iops"] < 140,
        "iops_min": read["iops_min"] > 0,
        "iops_mean": read["iops_mean"] > 1.3 * read["iops"],
        "samples": read["iops_samples"] < 15,
        "log": min(values) > 0 and len(values) < 15,
    }.items()
    if not holds
]
sys.exit(f"other than stated: {problems}" if problems else 0)
PYTHON
