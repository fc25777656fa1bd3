#!/usr/bin/env bash
# fio 3.33 (Debian 12): a job of less than half a second has bw_mean 0 and iops_mean 0, beside a right bw and iops.
#
# One expects the mean of a bandwidth to be near the bandwidth. `bw` and `iops` are the whole job's, by its runtime;
# `bw_mean`, `bw_min`, `iops_mean` and so on are of samples that are taken each 500 ms (bwavgtime, iopsavgtime), and a
# job that is over before the first has none: iops_samples is 0, and so are all of them. Who reads bw_mean of a short
# probe, as many scripts do since the text output has it as "avg=", sees a disk that does nothing.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
apt-get -q -o APT::Sandbox::User=root download fio=3.33-3 > /dev/null
dpkg -x fio_3.33-3_*.deb .
export LD_LIBRARY_PATH=$PWD/usr/lib/x86_64-linux-gnu
for number in 30 600; do # of 100 a second: 0.3 and 6 seconds
    usr/bin/fio --name=a --ioengine=null --rw=read --bs=4k --size=$((number * 4))k --rate_iops=100 \
        --output-format=json --output=out.json
    python3 - << 'END'
import json

read = json.load(open("out.json"))["jobs"][0]["read"]
print(*(int(read[name]) for name in ("total_ios", "iops", "bw", "iops_samples", "iops_mean", "bw_mean")))
END
done | tee seen
read -r total iops bw samples iops_mean bw_mean < seen
[ "$total" = 30 ]
[ "$iops" -ge 90 ]
[ "$bw" -ge 360 ]
[ "$samples $iops_mean $bw_mean" = "0 0 0" ]
read -r total iops bw samples iops_mean bw_mean < <(tail -n 1 seen)
[ "$total" = 600 ] && [ "$samples" -gt 5 ] && [ "$iops_mean" -ge 90 ] && [ "$bw_mean" -ge 360 ]
