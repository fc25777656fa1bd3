#!/usr/bin/env bash
# fio 3.33 (Debian 12, glibc 2.36): with ioengine=posixaio and iodepth=32 one request of a file is in flight, while the
# report says that 8 or more were for nearly all of the time ("iodepth_level").
#
# One expects the depth that was asked for, as libaio has it. glibc's aio_read has threads, and the requests of one
# open file follow one another in one of them; the others wait in the process. So a disk is asked for one request at a time,
# and a latency of 1 ms looks like a limit of 1000 IOPS, at any iodepth. fio counts what it has handed to glibc. More
# files (nrfiles), or more jobs, are more requests in flight. Images without fio's libaio engine, where io_uring is off,
# get posixaio.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
apt-get -q -o APT::Sandbox::User=root download fio=3.33-3 > /dev/null
dpkg -x fio_3.33-3_*.deb .
export LD_LIBRARY_PATH=$PWD/usr/lib/x86_64-linux-gnu
# threads FILES: those that the job has for its requests, at most.
threads() {
    usr/bin/fio --name=a --ioengine=posixaio --iodepth=32 --rw=randread --bs=64k --nrfiles="$1" --openfiles="$1" \
        --filesize=8m --file_service_type=random --runtime=4 --time_based --output-format=json --output="of_$1.json" &
    local most=0 number
    while kill -0 $! 2> /dev/null; do
        for job in $(pgrep -P $! || true); do
            number=$(($(find "/proc/$job/task" -maxdepth 1 -mindepth 1 2> /dev/null | wc -l) - 1))
            [ "$number" -le "$most" ] || most=$number
        done
        sleep 0.2
    done
    wait $!
    echo "$most"
}
one=$(threads 1)
eight=$(threads 8)
deep=$(python3 -c "
import json

levels = json.load(open('of_1.json'))['jobs'][0]['iodepth_level']
print(int(sum(levels[depth] for depth in ('8', '16', '32'))))")
echo "iodepth=32: $one thread for one file, $eight for eight; the report has 8 or more in flight for $deep %"
[ "$one" = 1 ]
[ "$eight" -ge 8 ]
[ "$deep" -ge 90 ]
