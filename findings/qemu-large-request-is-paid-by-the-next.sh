#!/usr/bin/env bash
# QEMU 7.2 (Debian 12): a request larger than a disk's bytes a second passes at once, and what comes behind it waits.
#
# One expects of 8 MiB/s that a read of 32 MiB takes 4 s. It takes none: a request is let through while there is
# anything left, whole, and what it owes is paid by the next one. A read of 4 KiB behind it takes 4 s. So latencies that
# are measured of small requests under such a limit are those of the large ones of another process, and the large ones
# look as if there were no limit.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
apt-get -q -o APT::Sandbox::User=root download qemu-utils=1:7.2+dfsg-7+deb12u18+b3 libaio1 liburing2 libfuse3-3 \
    libglib2.0-0 > /dev/null
for package in *.deb; do dpkg -x "$package" .; done
export LD_LIBRARY_PATH=$PWD/usr/lib/x86_64-linux-gnu:$PWD/lib/x86_64-linux-gnu
took() {
    local words=() request
    for request in "$@"; do words+=(-c "$request"); done
    local began=$EPOCHREALTIME
    usr/bin/qemu-io --object throttle-group,id=group,x-bps-total=8388608 --image-opts \
        "driver=throttle,throttle-group=group,file.driver=null-co,file.size=1073741824" "${words[@]}"
    echo $(((${EPOCHREALTIME/./} - ${began/./}) / 1000))
}
alone=$(took "read -q 0 32M")
small=$(took "read -q 0 4k")
both=$(took "read -q 0 32M" "read -q 0 4k")
echo "at 8 MiB/s: 32 MiB take $alone ms, 4 KiB take $small ms, the one and then the other $both ms"
[ "$alone" -lt 2000 ] && [ "$small" -lt 2000 ] && [ "$both" -gt 3500 ] && [ "$both" -lt 7000 ]
