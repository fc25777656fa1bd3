#!/usr/bin/env bash
# QEMU 7.2 (Debian 12): qemu-img convert with a rate (-r) and copy offloading (-C) has no rate.
#
# -r is the "rate limit for the convert process", with which a volume is copied beside guests in use. One expects it
# to hold of each way to copy. At 16 MiB a second 64 MiB take four seconds; with -C, which is to "improve
# performance", they take some tenths of one. The rate is that of QEMU's writes, and an offloaded copy is none. The
# status is 0, and nothing is said. Where the storage cannot copy by itself QEMU reads and writes, and the rate counts
# again: so what was tried on one storage floods another. The storage here is a temporary directory, whose files the
# kernel copies.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
# holds COMMAND...: it succeeds, or the behaviour has changed.
holds() { "$@" || { echo "other than stated: $*"; exit 1; }; }
apt-get -q -o APT::Sandbox::User=root download qemu-utils=1:7.2+dfsg-7+deb12u18+b3 libaio1 liburing2 libfuse3-3 \
    libglib2.0-0 > /dev/null
for package in *.deb; do dpkg -x "$package" .; done
export LD_LIBRARY_PATH=$PWD/usr/lib/x86_64-linux-gnu:$PWD/lib/x86_64-linux-gnu
head -c 64M /dev/urandom > volume
# took [OPTION]: the milliseconds of a copy at 16 MiB a second.
took() {
    local began=$EPOCHREALTIME
    usr/bin/qemu-img convert "$@" -r 16M -f raw -O raw volume copy
    echo $(((${EPOCHREALTIME/./} - ${began/./}) / 1000))
    cmp volume copy
    rm copy
}
read_and_written=$(took)
offloaded=$(took -C)
echo "64 MiB at 16 MiB a second: $read_and_written ms, with -C $offloaded ms"
holds [ "$read_and_written" -gt 3000 ]
holds [ "$offloaded" -lt 1500 ]
