#!/usr/bin/env bash
# Ceph 16.2.15 (Debian 12): with mClock, osd_mclock_scheduler_client_lim = 20 lets clients have hundreds of requests.
#
# One expects a limit of 20 requests a second for clients ("IO limit for each client", profile custom, one shard) to be
# kept: it is the "l" of mClock's reservation, weight and limit. While nobody else has work, this release serves who is
# above the limit too, so the setting only counts between clients and background work. A cluster that is made smaller
# by it, for a test or for fairness among clients, is not smaller at all. (Later releases have a limit that is kept, as
# a share of the OSD's capacity.) One monitor, one OSD on a file.
set -euo pipefail
directory=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2> /dev/null && wait || true; rm -rf "$directory"' EXIT
cd "$directory"
version=16.2.15+ds-0+deb12u2
apt-get -q -o APT::Sandbox::User=root download {ceph-mon,ceph-osd,ceph-base,ceph-common,librados2,libradosstriper1}=$version \
    {python3-rados,python3-ceph-argparse,python3-ceph-common}=$version python3-{prettytable,wcwidth,yaml} libboost-{iostreams,thread}1.74.0 libleveldb1d \
    libsnappy1v5 libfuse2 libfmt9 libibverbs1 librdmacm1 libnl-3-200 libnl-route-3-200 librbd1 > /dev/null
for package in *.deb; do dpkg -x "$package" .; done
rm -- *.deb
export PATH=$PWD/usr/bin:$PATH PYTHONPATH=$PWD/usr/lib/python3/dist-packages
library=$PWD/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$library:$library/ceph:$PWD/lib/x86_64-linux-gnu CEPH_CONF=$PWD/ceph.conf
fsid=$(cat /proc/sys/kernel/random/uuid)
cat > ceph.conf << CONF
[global]
fsid = $fsid
mon_host = [v2:127.0.0.1:17391]
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
run_dir = $PWD
log_file =
mon_data = $PWD/mon
osd_data = $PWD/osd.\$id
osd_class_dir = $library/rados-classes
plugin_dir = $library/ceph
osd_crush_chooseleaf_type = 0
mon_data_avail_crit = 0
ms_bind_ipv4 = true
public_addr = 127.0.0.1
bluestore_block_size = 1073741824
bluestore_block_db_create = false
bluestore_block_wal_create = false
[osd]
osd_op_queue = mclock_scheduler
osd_mclock_profile = custom
osd_op_num_shards = 1
osd_mclock_scheduler_client_lim = 20
admin_socket = $PWD/\$name.asok
CONF
mkdir mon osd.0
monmaptool --create --fsid "$fsid" --addv a '[v2:127.0.0.1:17391]' monmap > /dev/null
ceph-mon -i a --mkfs --monmap monmap
ceph-mon -i a -f 2> mon.log & pids+=($!)
ceph() { timeout 60 python3 usr/bin/ceph "$@" 2> said; }
uuid=$(cat /proc/sys/kernel/random/uuid)
ceph osd new "$uuid" > /dev/null
ceph-osd -i 0 --mkfs --osd-uuid "$uuid" 2> mkfs.log
ceph-osd -i 0 -f > osd.log 2>&1 & pids+=($!)
ceph osd pool create data 8 8
ceph osd pool set data size 1 --yes-i-really-mean-it
head -c 4096 /dev/urandom > object
until rados -p data put first object 2> /dev/null; do sleep 1; done
show() { ceph --admin-daemon "$PWD/osd.0.asok" config get "$1"; }
show osd_op_queue | tee queue
show osd_mclock_scheduler_client_lim | tee limit
grep -q '"mclock_scheduler"' queue && grep -q '"20"' limit
rados -p data bench 10 write -b 4096 -t 4 --no-cleanup > bench
rate=$(sed -n 's/^Average IOPS: *//p' bench)
echo "$rate requests a second with a limit of 20"
[ "$rate" -gt 60 ]
