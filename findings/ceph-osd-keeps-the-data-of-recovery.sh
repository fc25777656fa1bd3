#!/usr/bin/env bash
# Ceph 16.2.15 (Debian 12): an OSD keeps the data of the last 20 objects that recovery sent it in memory for ten minutes.
#
# One expects that what an OSD was sent is freed once it is written: a client's write is. The history of done requests
# (osd_op_history_size 20, osd_op_history_duration 600 s) drops the data of a client's message when it is done, but not
# the objects within a push of recovery: with objects of 4 MiB that is 80 MiB (mempool bluestore_writing) beside a cache
# that gives way, on each OSD that returns, after all is clean. Where the time is short, it goes with the next look.
# One monitor, two OSDs on files, one of which is away while 40 objects of 4 MiB are written.
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
mon_host = [v2:127.0.0.1:17381]
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
admin_socket = $PWD/\$name.asok
CONF
mkdir mon osd.{0,1}
monmaptool --create --fsid "$fsid" --addv a '[v2:127.0.0.1:17381]' monmap > /dev/null
ceph-mon -i a --mkfs --monmap monmap
ceph-mon -i a -f 2> mon.log & pids+=($!)
ceph() { timeout 60 python3 usr/bin/ceph "$@" 2> said; }
begin() { ceph-osd -i "$1" -f 2> "osd.$1.log" > "osd.$1.log" & pids+=($!); }
for osd in 0 1; do
    uuid=$(cat /proc/sys/kernel/random/uuid)
    ceph osd new "$uuid" > /dev/null
    ceph-osd -i $osd --mkfs --osd-uuid "$uuid" 2> mkfs.log
    begin $osd
done
ceph osd pool create data 8 8
ceph osd pool set data size 2
ceph osd pool set data min_size 1
ceph osd set noout
head -c 4194304 /dev/urandom > object
until rados -p data put first object 2> /dev/null; do sleep 1; done
writing() { ceph --admin-daemon "$PWD/osd.$1.asok" dump_mempools | python3 -c 'import json, sys
print(json.load(sys.stdin)["mempool"]["by_pool"]["bluestore_writing"]["bytes"] >> 20)'; }
kill "${pids[2]}"
wait "${pids[2]}" || true
for number in {1..40}; do rados -p data put "object-$number" object; done
begin 1
recovered() { ceph --admin-daemon "$PWD/osd.1.asok" perf dump | python3 -c 'import json, sys
print(json.load(sys.stdin)["bluestore"]["bluestore_onodes"])'; }
for second in {1..120}; do [ "$(recovered)" -ge 40 ] && break; sleep 1; done
sleep 10
echo "written by a client, on osd.0: $(writing 0) MiB; sent by recovery, on osd.1: $(writing 1) MiB"
sender=$(writing 0) returned=$(writing 1)
ceph --admin-daemon "$PWD/osd.1.asok" config set osd_op_history_duration 1 > /dev/null
sleep 3
for number in 1 2; do rados -p data put "last-$number" ceph.conf; done
sleep 3
ceph --admin-daemon "$PWD/osd.1.asok" dump_historic_ops > /dev/null
later=$(writing 1)
echo "once its history is a second long: $later MiB"
[ "$sender" -lt 10 ] && [ "$returned" -ge 76 ] && [ "$returned" -le 84 ] && [ "$later" -lt 10 ]
