#!/usr/bin/env bash
# QEMU 7.2 (Debian 12): a disk's limit does not count discards; the same limit as a throttle filter counts them as
# written.
#
# libvirt's <iotune> sets the limit of a disk (block_set_io_throttle, throttling.* of -drive); a throttle filter, which
# libvirt has since 11.2 as <throttlefilters>, is the same code with the same numbers. One expects both to treat a
# discard alike. At 100 MiB/s a discard of 1 GiB costs nothing by the first: `fstrim` in a guest reaches Ceph unlimited.
# By the second it is 1 GiB of writes: it passes at once, and the read of 4 KiB behind it waits for 10 s. A write of 512
# MiB, to compare, makes it wait for 5 s by both.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
apt-get -q -o APT::Sandbox::User=root download qemu-system-x86=1:7.2+dfsg-7+deb12u18+b3 \
    qemu-system-common=1:7.2+dfsg-7+deb12u18+b3 libaio1 libbpf1 libcapstone4 libdaxctl1 libelf1 libfdt1 libffi8 libfuse3-3 \
    libglib2.0-0 libgmp10 libgnutls30 libhogweed6 libibverbs1 libidn2-0 libjpeg62-turbo libkmod2 libndctl6 libnettle8 \
    libnl-3-200 libnl-route-3-200 libnuma1 libp11-kit0 libpixman-1-0 libpmem1 libpng16-16 librdmacm1 libsasl2-2 \
    libseccomp2 libslirp0 libtasn1-6 libunistring2 liburing2 libvdeplug2 > /dev/null
for package in *.deb; do dpkg -x "$package" .; done
export LD_LIBRARY_PATH=$PWD/usr/lib/x86_64-linux-gnu:$PWD/lib/x86_64-linux-gnu
truncate -s 2G disk.raw
of_disk="-drive driver=raw,file.driver=file,file.filename=disk.raw,discard=unmap,if=none,id=disk,\
throttling.bps-total=104857600"
of_filter="-object throttle-group,id=group,x-bps-total=104857600 -drive driver=throttle,throttle-group=group,\
file.driver=raw,file.file.driver=file,file.file.filename=disk.raw,discard=unmap,if=none,id=disk"
waits() { # the seconds that a read takes behind a request
    local arguments
    read -ra arguments <<< "$1"
    {
        echo '{"execute": "qmp_capabilities"}'
        for request in "$2" "read 0 4k"; do
            printf '{"execute": "human-monitor-command", "arguments": {"command-line": "qemu-io disk \\"%s\\""}}\n' "$request"
        done
        echo '{"execute": "quit"}'
    } | usr/bin/qemu-system-x86_64 -machine none -nodefaults -display none -S -qmp stdio "${arguments[@]}" |
        sed -nE '/^read /,$ s/^4 KiB, 1 ops; ([0-9]+:)*0*([0-9]+)\..*/\2/p'
}
for limit in disk filter; do
    name=of_$limit
    declare "discard_$limit=$(waits "${!name}" "discard 0 1G")" "write_$limit=$(waits "${!name}" "write -z 0 512M")"
done
echo "a read behind a discard of 1 GiB: $discard_disk s by the disk's limit, $discard_filter s by the filter's"
echo "a read behind a write of 512 MiB: $write_disk s by the disk's limit, $write_filter s by the filter's"
[ "$discard_disk" = 0 ] && [ "$discard_filter" -ge 9 ] && [ "$write_disk" -ge 4 ] && [ "$write_filter" -ge 4 ]
