#!/usr/bin/env bash
# fio 3.33 (Debian 12): the rows of a bandwidth log are no bandwidths, unless they are averaged.
#
# One expects the mean of the rows of --write_bw_log to be the bandwidth of the run. Without log_avg_msec there is a row
# for each request, and its value is the request's size by its own latency: at 400 KiB a second, in requests of 4 KiB
# that take microseconds, rows are of hundreds of MiB a second. All rows of --write_iops_log of the same run are 1. With
# log_avg_msec=500 both are what was measured. So a plot of the first log shows a limit of 400 KiB/s broken a thousand
# times.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
apt-get -q -o APT::Sandbox::User=root download fio=3.33-3 > /dev/null
dpkg -x fio_3.33-3_*.deb .
export LD_LIBRARY_PATH=$PWD/usr/lib/x86_64-linux-gnu
for average in 0 500; do
    usr/bin/fio --name=a --ioengine=null --rw=read --bs=4k --size=1g --rate_iops=100 --runtime=3 --time_based \
        --write_bw_log=every_$average --write_iops_log=every_$average --log_avg_msec=$average --output=out_$average.txt
done
mean() { awk -F, '{sum += $2} END {print int(sum / NR)}' "$1"; }
for average in 0 500; do
    echo "log_avg_msec=$average: mean of rows $(mean every_${average}_bw.1.log) KiB/s, $(mean every_${average}_iops.1.log) IOPS"
done
grep -h 'IOPS=' out_0.txt
[ "$(mean every_0_bw.1.log)" -gt 40000 ]
[ "$(cut -d, -f2 every_0_iops.1.log | sort -u | tr -d ' ')" = 1 ]
bandwidth=$(mean every_500_bw.1.log) iops=$(mean every_500_iops.1.log)
[ "$bandwidth" -gt 380 ] && [ "$bandwidth" -lt 420 ] && [ "$iops" -gt 95 ] && [ "$iops" -lt 105 ]
