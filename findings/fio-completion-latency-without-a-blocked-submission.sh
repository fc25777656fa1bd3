#!/usr/bin/env bash
# fio 3.33 (Debian 12): with ioengine=libaio and one request at a time, a write that the kernel blocks while it is
# submitted has a completion latency ("clat", of which fio prints the percentiles) of a microsecond or so, whatever the
# write took.
#
# One expects clat to be the time of the request, since it is that with psync and io_uring. With libaio its clock starts
# when io_submit has returned; what passed before is "slat". That a buffered O_SYNC write blocks there is known, and shown
# here because any file system does it. With direct=1 it depends on the file system and its version: btrfs blocks direct
# writes to files with checksums there (seen on Linux 6.18: clat 1 µs, slat 196 µs), so a disk that hangs for seconds has
# percentiles of microseconds. With iodepth=2 clat is roughly that of the next request. "lat" is right in all of these.
set -euo pipefail
directory=$(mktemp -d -p /var/tmp)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
apt-get -q -o APT::Sandbox::User=root download fio=3.33-3 > /dev/null
dpkg -x fio_3.33-3_*.deb .
export LD_LIBRARY_PATH=$PWD/usr/lib/x86_64-linux-gnu
usr/bin/fio --version
for engine in libaio psync; do
    usr/bin/fio --name=a --filename=data --ioengine=$engine --iodepth=1 --direct=0 --sync=1 --rw=randwrite --bs=16k \
        --size=8m --runtime=4 --time_based --output-format=json --output=$engine.json
done
python3 -c "
import json


def figures(engine):
    write = json.load(open(f'{engine}.json'))['jobs'][0]['write']
    return write['clat_ns']['percentile']['50.000000'] / 1e3, write['lat_ns']['mean'] / 1e3


for engine in ('libaio', 'psync'):
    median, mean = figures(engine)
    print(f'{engine}: median clat {median:.1f} µs, mean lat {mean:.1f} µs')
assert figures('libaio')[0] * 10 < figures('libaio')[1]
assert figures('psync')[0] * 10 > figures('psync')[1]
"
