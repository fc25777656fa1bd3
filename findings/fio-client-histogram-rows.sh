#!/usr/bin/env bash
# fio 3.33 (Debian 12), client and server: the rows of a histogram log are no intervals of their own.
#
# One expects of write_hist_log with log_hist_msec=1000 at 100 requests a second some 100 requests in each row, as
# without a server. Written by `fio --client`, each row also holds what the row two before it holds: 100, 100, 200, 200,
# 300. A tool that reads the log takes the load for one that grows for ever, and merges old latencies into new ones.
set -euo pipefail
directory=$(mktemp -d)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$directory"' EXIT
cd "$directory"
apt-get -q -o APT::Sandbox::User=root download fio=3.33-3 > /dev/null
dpkg -x fio_3.33-3_*.deb .
cat > job.fio << 'JOB'
[job]
ioengine=null
size=1T
rw=randread
bs=4k
rate_iops=100
runtime=6
time_based
log_hist_msec=1000
log_hist_coarseness=6
write_hist_log=log
JOB
usr/bin/fio --server=127.0.0.1,18765 > server.log 2>&1 &
server=$!
sleep 1
usr/bin/fio --client=127.0.0.1,18765 job.fio > client.log 2>&1
python3 - << 'PYTHON'
import glob
import sys

(name,) = glob.glob("log_clat_hist.1.log*")
rows = [sum(map(int, line.split(",")[3:])) for line in open(name)]
own = [count - (rows[number - 2] if number > 1 else 0) for number, count in enumerate(rows)]
print(f"{name}: requests in each row {rows}; less those of the row two before {own}")
sys.exit(0 if len(rows) >= 4 and all(90 <= count <= 110 for count in own) and rows[3] > 180 else 1)
PYTHON
