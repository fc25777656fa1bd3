#!/usr/bin/env bash
# fio 3.33 (Debian 12): with rate_iops=50 and verify=crc32c the writes are 50 a second, and the reads that verify them
# have no limit.
#
# One expects the rate of a job to be that of all its requests: one number is the rate of reads and of writes. It is
# in a job of reads. The phase that reads back what was written (do_verify, on by default) does not look at it, be it
# rate_iops or rate: 100 blocks take 2 s to write and some milliseconds to read. So a slow check of a disk in use ends
# in a burst that runs into the disk's limit, and the reads of the report have hundreds of times the IOPS that were
# asked for. So has fio 3.41.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
apt-get -q -o APT::Sandbox::User=root download fio=3.33-3 > /dev/null
dpkg -x fio_3.33-3_*.deb .
export LD_LIBRARY_PATH=$PWD/usr/lib/x86_64-linux-gnu
# job NAME OPTION...: its requests and seconds, of both directions
job() {
    usr/bin/fio --filename=disk --size=400k --bs=4k --name="$1" "${@:2}" --output-format=json --output="$1.json"
    python3 -c '
import json
import sys

job = json.load(open(sys.argv[1]))["jobs"][0]
for name in ("write", "read"):
    print(job[name]["total_ios"], job[name]["runtime"], end=" ")' "$1.json"
}
read -r writes of_writes verified of_verified <<< "$(job verify --rw=write --verify=crc32c --rate_iops=50)"
read -r _ of_bytes _ of_checked <<< "$(job bytes --rw=write --verify=crc32c --rate=200k)"
read -r _ _ reads of_reads <<< "$(job read --rw=read --rate_iops=50)"
echo "$writes writes in $of_writes ms, verified by $verified reads in $of_verified ms; a job of $reads reads: $of_reads ms"
echo "with rate=200k: written in $of_bytes ms, verified in $of_checked ms"
[ "$writes" = 100 ]
[ "$of_writes" -gt 1800 ]
[ "$verified" = 100 ]
[ "$of_verified" -lt 500 ]
[ "$of_bytes" -gt 1800 ]
[ "$of_checked" -lt 500 ]
[ "$of_reads" -gt 1800 ]
