#!/usr/bin/env bash
# fio 3.33 (Debian 12): rwmixread=70 with rate_iops=60 is 60 reads and 60 writes a second.
#
# One expects 60 requests a second, 42 of them reads, as without a rate 70 of 100 requests are reads. With a rate fio
# takes the mix from the rates, and one number is that of each direction: twice as many requests as it seems, half of
# them writes. A disk with a total limit of 100 IOPS that is probed so with 60 is found at its limit. Two numbers,
# rate_iops=42,18, give both: the sum and the mix.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
apt-get -q -o APT::Sandbox::User=root download fio=3.33-3 > /dev/null
dpkg -x fio_3.33-3_*.deb .
export LD_LIBRARY_PATH=$PWD/usr/lib/x86_64-linux-gnu
# mixed OPTION...: reads and writes.
mixed() {
    usr/bin/fio --name=a --ioengine=null --rw=randrw --rwmixread=70 --bs=4k --size=40m "$@" \
        --output-format=json --output=out.json
    python3 - << 'END'
import json

job = json.load(open("out.json"))["jobs"][0]
print(job["read"]["total_ios"], job["write"]["total_ios"])
END
}
read -r reads writes < <(mixed)
echo "no rate: $reads reads, $writes writes"
share=$((100 * reads / (reads + writes)))
[ $share -ge 68 ]
[ $share -le 72 ]
for rate in 60 42,18; do
    read -r reads writes < <(mixed --rate_iops=$rate --runtime=5 --time_based)
    echo "rate_iops=$rate: $((reads / 5)) reads and $((writes / 5)) writes a second"
    echo "$((reads / 5)) $((writes / 5))" > "of_$rate"
done
read -r reads writes < of_60
[ "$reads" -ge 57 ]
[ "$reads" -le 63 ]
[ "$writes" -ge 57 ]
[ "$writes" -le 63 ]
read -r reads writes < of_42,18
[ "$reads" -ge 39 ] && [ "$reads" -le 45 ] && [ "$writes" -ge 16 ] && [ "$writes" -le 20 ]
