#!/usr/bin/env bash
# fio 3.33 (Debian 12): rate=10MiB is ten million bytes a second, and rate=10m or 10MB is 10,485,760.
#
# One expects the unit with an i, by IEC 80000-13, to be the binary one, as everywhere else and in what fio prints
# itself ("bw=10.0MiB/s"). In its options it is the other way round (kb_base=1024, for old scripts): MiB is decimal, M
# and MB are binary. So a probe that asks a disk with a limit of 10 MiB/s for `rate=10MiB` never reaches the limit (it
# stays 4.6 % below), and the report in MiB/s seems to show a disk that is too slow. `size=1GiB` is likewise
# 1,000,000,000 bytes.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
apt-get -q -o APT::Sandbox::User=root download fio=3.33-3 > /dev/null
dpkg -x fio_3.33-3_*.deb .
export LD_LIBRARY_PATH=$PWD/usr/lib/x86_64-linux-gnu
mib=10485760
for rate in 10MiB 10m 10MB $mib; do
    usr/bin/fio --name=a --ioengine=null --rw=read --bs=64k --size=4g --rate=$rate --runtime=3 --time_based \
        --output-format=json --output=out.json
    got=$(python3 -c "import json; print(int(json.load(open('out.json'))['jobs'][0]['read']['bw_bytes']))")
    echo "rate=$rate: $got bytes a second, $((got * 1000 / mib)) thousandths of 10 MiB"
    echo $((got * 1000 / mib)) > "of_$rate"
done
usr/bin/fio --name=a --ioengine=null --rw=read --bs=1000 --size=1MiB --output-format=json --output=size.json
total=$(python3 -c "import json; print(json.load(open('size.json'))['jobs'][0]['read']['io_bytes'])")
echo "size=1MiB: $total bytes"
between() { [ "$(cat "of_$1")" -gt "$2" ] && [ "$(cat "of_$1")" -lt "$3" ]; }
between 10MiB 930 964
between 10m 970 1030
between 10MB 970 1030
between $mib 970 1030
[ "$total" = 1000000 ]
