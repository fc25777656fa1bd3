#!/usr/bin/env bash
# QEMU 7.2 (Debian 12): with a size for counting (size_iops_sec of libvirt, iops-size of QEMU) a request counts as a
# fraction.
#
# One expects that with a size of 4 KiB a request of 6 KiB counts as two. It counts as 1.5:
# its size divided by the other, never rounded, and at least 1. At 200 a second, 200 requests of 6 KiB, one by one, take
# 1.4 s instead of 1.9 s; those of 2 and 4 KiB take 0.9 s (the first 20 are free: a tenth of a second).
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
apt-get -q -o APT::Sandbox::User=root download qemu-utils=1:7.2+dfsg-7+deb12u18+b3 libaio1 liburing2 libfuse3-3 \
    libglib2.0-0 > /dev/null
for package in *.deb; do dpkg -x "$package" .; done
export LD_LIBRARY_PATH=$PWD/usr/lib/x86_64-linux-gnu:$PWD/lib/x86_64-linux-gnu
took() {
    local words=() number
    for number in $(seq 200); do words+=(-c "read -q $((number * 65536)) $1"); done
    local began=$EPOCHREALTIME
    usr/bin/qemu-io --object throttle-group,id=group,x-iops-total=200,x-iops-size=4096 --image-opts \
        "driver=throttle,throttle-group=group,file.driver=null-co,file.size=1073741824" "${words[@]}"
    echo $(((${EPOCHREALTIME/./} - ${began/./}) / 1000))
}
for size in 2048 4096 6144 8192; do
    declare "ms_$size=$(took $size)"
    name=ms_$size
    echo "200 requests of $size bytes at 200 a second, counted by 4096: ${!name} ms"
done
between() { [ "$1" -ge "$2" ] && [ "$1" -le "$3" ]; }
between "$ms_2048" 850 1100
between "$ms_4096" 850 1100
between "$ms_6144" 1350 1600
between "$ms_8192" 1850 2100
