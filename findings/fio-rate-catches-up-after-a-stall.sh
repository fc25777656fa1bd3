#!/usr/bin/env bash
# fio 3.33 (Debian 12): rate_iops=200 is 1600 requests within a fraction of a second, after the disk stood still.
#
# One expects a cap ("Cap the bandwidth to this number of IOPS") to hold at all times. The rate is a mean since the
# job began: what was missed in a stall of 4 s is made up for as fast as the disk can, and the job ends with iops 200,
# as if there had been no stall. So a probe that is to stay below a limit runs into it after each stall, and adds to
# the load when a cluster has just come back. That fio catches up is documented for thinktime (rate_ignore_thinktime)
# alone. rate_process=poisson, where requests have times of their own, makes up for it too. So has fio 3.41. The disk
# is an NBD server that is stopped and continued.
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
for process in linear poisson; do
    usr/bin/fio --name=a --ioengine=nbd --uri="nbd+unix:///?socket=$PWD/disk" --rw=randread --bs=4k --iodepth=4 \
        --rate_iops=200 --rate_process=$process --runtime=10 --time_based --write_lat_log=$process \
        --output-format=json --output=$process.json &
    job=$!
    sleep 3.2
    kill -STOP "$server"
    sleep 4
    kill -CONT "$server"
    wait "$job"
done
python3 - << 'PYTHON'
import collections
import json
import sys

problems = []
for process in ("linear", "poisson"):
    rate = json.load(open(f"{process}.json"))["jobs"][0]["read"]["iops"]
    ends = [int(row.split(",")[0]) for row in open(f"{process}_lat.1.log")]
    most = max(collections.Counter(end // 500 for end in ends).values())
    print(f"{process}: {rate:.0f} a second in all, {most} in the busiest half second")
    if not 180 < rate < 220:
        problems.append(f"{process}: rate")
    if most < 600:
        problems.append(f"{process}: busiest half second")
sys.exit(f"other than stated: {problems}" if problems else 0)
PYTHON
