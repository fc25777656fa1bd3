#!/usr/bin/env bash
# Ceph 16.2.15 (Debian 12): of an OSD that was killed, `ceph osd dump` says that it went down at time 0, or at an older failure.
#
# One expects of down_stamp in osd_xinfo the time since which an OSD is down, as it is after a stop or a failed network. Where its
# connections are refused the monitors know that it is dead, and the same change of the map that marks it down brings an
# osd_xinfo from before that (with dead_epoch), which is applied last. down_at, an epoch, is right: the map of that epoch
# has the time (modified). Who sorts by down_stamp takes those that were killed for never down, or down since 1970.
# One monitor and two OSDs in memory; one is killed.
set -euo pipefail
directory=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2> /dev/null && wait || true; rm -rf "$directory"' EXIT
cd "$directory"
version=16.2.15+ds-0+deb12u2
apt-get -q -o APT::Sandbox::User=root download {ceph-mon,ceph-osd,ceph-base,ceph-common,librados2,libradosstriper1}=$version \
    {python3-rados,python3-ceph-argparse,python3-ceph-common}=$version python3-{prettytable,wcwidth,yaml} libboost-{iostreams,thread}1.74.0 libleveldb1d \
    libsnappy1v5 libfuse2 libfmt9 libibverbs1 librdmacm1 libnl-3-200 libnl-route-3-200 > /dev/null
for package in *.deb; do dpkg -x "$package" .; done
rm -- *.deb
export PATH=$PWD/usr/bin:$PATH PYTHONPATH=$PWD/usr/lib/python3/dist-packages
library=$PWD/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$library:$library/ceph:$PWD/lib/x86_64-linux-gnu CEPH_CONF=$PWD/ceph.conf
fsid=$(cat /proc/sys/kernel/random/uuid)
cat > ceph.conf << CONF
[global]
fsid = $fsid
mon_host = [v2:127.0.0.1:17331]
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
run_dir = $PWD
admin_socket = $PWD/\$name.asok
log_file =
mon_data = $PWD/mon
osd_data = $PWD/osd.\$id
osd_objectstore = memstore
osd_class_dir = $library/rados-classes
erasure_code_dir = $library/ceph/erasure-code
plugin_dir = $library/ceph
osd_pool_default_size = 2
mon_osd_min_down_reporters = 1
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
mon_data_avail_crit = 0
CONF
mkdir mon osd.0 osd.1
monmaptool --create --fsid "$fsid" --addv a '[v2:127.0.0.1:17331]' monmap > /dev/null
ceph-mon -i a --mkfs --monmap monmap
ceph-mon -i a -f 2> mon.log & pids+=($!)
ceph() { timeout 60 python3 usr/bin/ceph "$@" 2> said; }
for id in 0 1; do
    ceph osd new "$(sed "s/^./$id/" <<< "$fsid")" > new
    ceph-osd -i $id --mkfs --osd-uuid "$(sed "s/^./$id/" <<< "$fsid")" 2> mkfs.log
    ceph-osd -i $id -f 2> osd.$id.log > osd.$id.log & pids+=($!)
done
ceph osd pool create p 8 > new
until ceph osd stat | grep -q '2 up'; do sleep 1; done
sleep 15 # until they know each other
kill -9 "${pids[2]}"
until ceph osd dump -f json > dump && grep -q '"osd":1,[^{]*"up":0' dump; do sleep 1; done
python3 - << 'PYTHON'
import json
import sys

dump = json.load(open("dump"))
[osd], [info] = ([each for each in dump[name] if each["osd"] == 1] for name in ("osds", "osd_xinfo"))
print("down_at:", osd["down_at"], "down_stamp:", info["down_stamp"], "dead_epoch:", info["dead_epoch"])
sys.exit(0 if osd["down_at"] > 0 and info["down_stamp"] == "0.000000" and info["dead_epoch"] > 0 else 1)
PYTHON
