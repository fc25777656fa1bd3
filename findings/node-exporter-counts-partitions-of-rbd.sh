#!/usr/bin/env bash
# node_exporter 1.5.0 (Debian 12): partitions of rbd and nbd devices are counted beside their disks, those of others
# are not.
#
# node_exporter leaves partitions out of node_disk_* by itself (vda1, sda1, nvme0n1p1), so one sums over a host's
# devices. The names that --collector.diskstats.device-exclude knows by default do not have rbd0p1 and nbd0p1, which
# mapped Ceph images get, nor mmcblk0p1. Each request to a partition is counted by the kernel for it and for the disk:
# the sum of a host with mapped images is up to twice what they did, and a mean over devices counts those disks twice.
# So has 1.11.1. The /proc/diskstats here has five disks of 100 reads, and a partition of each.
set -euo pipefail
directory=$(mktemp -d)
trap 'kill "${exporter:-}" 2> /dev/null || true; rm -rf "$directory"' EXIT
cd "$directory"
apt-get -q -o APT::Sandbox::User=root download prometheus-node-exporter=1.5.0-1+b6 > /dev/null
dpkg -x prometheus-node-exporter_*.deb .
mkdir proc
number=0
for device in vda vda1 nvme0n1 nvme0n1p1 rbd0 rbd0p1 nbd0 nbd0p1 mmcblk0 mmcblk0p1; do
    echo "252 $((number++)) $device 100 0 800 10 0 0 0 0 0 10 10 0 0 0 0 0 0" >> proc/diskstats
done
usr/bin/prometheus-node-exporter --path.procfs=proc --collector.disable-defaults --collector.diskstats \
    --web.listen-address=127.0.0.1:19101 2> exporter.log &
exporter=$!
sleep 2
python3 -c 'import urllib.request; print(urllib.request.urlopen("http://127.0.0.1:19101/metrics").read().decode())' > metrics
devices=$(sed -n 's/^node_disk_reads_completed_total{device="\(.*\)"} 100$/\1/p' metrics | sort | tr '\n' ' ')
echo "counted: $devices"
[ "$devices" = "mmcblk0 mmcblk0p1 nbd0 nbd0p1 nvme0n1 rbd0 rbd0p1 vda " ]
