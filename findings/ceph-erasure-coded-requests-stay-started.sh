#!/usr/bin/env bash
# Ceph 16.2.15 (Debian 12): a write to an erasure-coded pool that waits for another OSD's shard is in the state "started".
#
# One expects what a write to a replicated pool shows: "waiting for sub ops", with the OSDs in its events. With the same OSD
# frozen, a write to an erasure-coded pool stays in "started" (so do the sums in the cluster's log, "by type"), the state of
# a request that the primary's own disk is at work on, and no event names the OSD that is late; only "sub_op_committed"
# tells that the primary's own shard is written. The primary looks as if it were slow.
# One monitor, three OSDs in memory, one of them stopped; nothing is marked down.
set -euo pipefail
directory=$(mktemp -d)
pids=()
trap 'kill -CONT "${pids[@]}" 2> /dev/null || true; kill "${pids[@]}" 2> /dev/null && wait || true; rm -rf "$directory"' EXIT
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
mon_host = [v2:127.0.0.1:17351]
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
run_dir = $PWD
log_file =
mon_data = $PWD/mon
osd_data = $PWD/osd.\$id
osd_objectstore = memstore
osd_class_dir = $library/rados-classes
erasure_code_dir = $library/ceph/erasure-code
plugin_dir = $library/ceph
osd_crush_chooseleaf_type = 0
mon_data_avail_crit = 0
ms_bind_ipv4 = true
public_addr = 127.0.0.1
[osd]
admin_socket = $PWD/\$name.asok
CONF
mkdir mon osd.{0,1,2}
monmaptool --create --fsid "$fsid" --addv a '[v2:127.0.0.1:17351]' monmap > /dev/null
ceph-mon -i a --mkfs --monmap monmap
ceph-mon -i a -f 2> mon.log & pids+=($!)
ceph() { timeout 60 python3 usr/bin/ceph "$@" 2> said; }
for osd in 0 1 2; do
    uuid=$(cat /proc/sys/kernel/random/uuid)
    ceph osd new "$uuid" > /dev/null
    ceph-osd -i $osd --mkfs --osd-uuid "$uuid" 2> mkfs.log
    ceph-osd -i $osd -f 2> osd.log > osd.log & pids+=($!)
done
frozen=${pids[3]} # osd.2
ceph osd erasure-code-profile set two-and-one k=2 m=1 crush-failure-domain=osd
ceph osd pool create erasure 1 1 erasure two-and-one
ceph osd pool create replicated 1 1
ceph osd pool set replicated size 3
ceph osd set nodown
head -c 4096 /dev/zero > block
for pool in erasure replicated; do
    # An object whose requests osd.2 has no more than a part of.
    until rados -p $pool put any block 2> /dev/null; do sleep 1; done
    ceph osd primary-affinity osd.2 0
done
until ! ceph osd map erasure any -f json | grep -q '"acting_primary":2' &&
    ! ceph osd map replicated any -f json | grep -q '"acting_primary":2'; do sleep 1; done
for pool in erasure replicated; do rados -p $pool put any block; done
kill -STOP "$frozen"
for pool in erasure replicated; do rados -p $pool put any block & pids+=($!); done
sleep 3
for osd in 0 1; do ceph --admin-daemon "$PWD/osd.$osd.asok" dump_ops_in_flight; done > dumps
kill -CONT "$frozen"
python3 - << 'PYTHON'
import json
import re
import sys

states = {}
decoder, text = json.JSONDecoder(), open("dumps").read()
while text.strip():
    dump, end = decoder.raw_decode(text.lstrip())
    text = text.lstrip()[end:]
    for request in dump["ops"]:
        if "write" in request["description"] and request["description"].startswith("osd_op("):
            of_type = request["type_data"]
            events = [each["event"] for each in of_type["events"]]
            kind = "erasure" if re.search(r" \d+\.0s\d ", request["description"]) else "replicated"
            states[kind] = of_type["flag_point"], any("subops from" in each for each in events), events[-1]
            print(kind, *states[kind], sep=" | ")
expected = {
    "erasure": ("started", False, "sub_op_committed"),
    "replicated": ("waiting for sub ops", True, states["replicated"][2]),
}
sys.exit(0 if states == expected else 1)
PYTHON
