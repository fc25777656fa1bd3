#!/usr/bin/env bash
# fio 3.33 (Debian 12): a histogram log ends with the last whole interval, and what came after it is in no row.
#
# One expects the counts of all rows to be the requests of the job. In a run of 3.6 s with log_hist_msec=1000 a third of
# the requests are missing, with status 0 and without a word; the log of single latencies of the same run has them all.
# Percentiles of a short job (a probe of some seconds) are so made of its beginning alone.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
apt-get -q -o APT::Sandbox::User=root download fio=3.33-3 > /dev/null
dpkg -x fio_3.33-3_*.deb .
usr/bin/fio --name=job --ioengine=null --size=1T --rw=randread --bs=4k --rate_iops=50 --runtime=3.6 --time_based \
    --log_hist_msec=1000 --log_hist_coarseness=6 --write_hist_log=log --write_lat_log=log > fio.log
python3 - << 'PYTHON'
import sys

rows = [sum(map(int, line.split(",")[3:])) for line in open("log_clat_hist.1.log")]
latencies = sum(1 for _ in open("log_clat.1.log"))
print(f"rows {rows}: {sum(rows)} requests; log of latencies: {latencies}")
sys.exit(0 if len(rows) == 2 and 90 <= sum(rows) <= 110 and latencies >= 140 else 1)
PYTHON
