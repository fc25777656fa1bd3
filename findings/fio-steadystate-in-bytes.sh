#!/usr/bin/env bash
# fio 3.33 (Debian 12): in one JSON `bw` is in KiB a second, and in its steadystate in bytes a second.
#
# One expects `bw` and `bw_mean` to be of one unit in one document, since `bw` (KiB/s) and `bw_bytes` are told apart by
# name in a job's read and write. What --steadystate adds has `bw_mean` and a list `bw` in bytes: 1024 times as much
# beside the same names. So what is right by the first is a thousand times a disk's limit by the second.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
apt-get -q -o APT::Sandbox::User=root download fio=3.33-3 > /dev/null
dpkg -x fio_3.33-3_*.deb .
export LD_LIBRARY_PATH=$PWD/usr/lib/x86_64-linux-gnu
usr/bin/fio --name=a --ioengine=null --rw=read --bs=4k --size=1g --rate_iops=100 --runtime=8 --time_based \
    --steadystate=iops:20% --steadystate_duration=3 --steadystate_ramp_time=1 --output-format=json --output=out.json
python3 - << 'PYTHON'
import json
import sys

job = json.load(open("out.json"))["jobs"][0]
read, steady = job["read"], job["steadystate"]["data"]
print("read: bw_mean", read["bw_mean"], "iops_mean", read["iops_mean"])
print("steadystate: bw_mean", steady["bw_mean"], "bw", steady["bw"], "iops_mean", steady["iops_mean"])
ratio = steady["bw_mean"] / read["bw_mean"]
sys.exit(0 if 950 < ratio < 1100 and abs(steady["iops_mean"] - 100) < 10 else 1)
PYTHON
