#!/usr/bin/env bash
# Ceph 16.2.15 (Debian 12): `dump loads` of an MDS, asked for in JSON, is no JSON, and its counters have no names.
#
# One expects of `ceph daemon mds.x dump loads`, Ceph's own view of the load of each directory, JSON as of every other
# dump. Under mds_load each counter has a "halflife" of -inf, which JSON does not have: Python's json refuses the whole
# answer. Each load is five numbers without a name (reads and writes of inodes, listings, fetches and
# stores of directories), so the sum that the balancer goes by cannot be computed from the answer alone.
# One monitor, one OSD in memory and one MDS.
set -euo pipefail
directory=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2> /dev/null && wait || true; rm -rf "$directory"' EXIT
cd "$directory"
version=16.2.15+ds-0+deb12u2
apt-get -q -o APT::Sandbox::User=root download {ceph-mon,ceph-osd,ceph-mds,ceph-base,ceph-common,librados2,libradosstriper1}=$version \
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
mon_host = [v2:127.0.0.1:17341]
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
run_dir = $PWD
admin_socket = $PWD/\$name.asok
log_file =
mon_data = $PWD/mon
osd_data = $PWD/osd
mds_data = $PWD/mds
osd_objectstore = memstore
osd_class_dir = $library/rados-classes
erasure_code_dir = $library/ceph/erasure-code
plugin_dir = $library/ceph
osd_pool_default_size = 1
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
mon_data_avail_crit = 0
CONF
mkdir mon osd mds
monmaptool --create --fsid "$fsid" --addv a '[v2:127.0.0.1:17341]' monmap > /dev/null
ceph-mon -i a --mkfs --monmap monmap
ceph-mon -i a -f 2> mon.log & pids+=($!)
python3 usr/bin/ceph osd new "$fsid" > /dev/null
ceph-osd -i 0 --mkfs --osd-uuid "$fsid" 2> mkfs.log
ceph-osd -i 0 -f 2> osd.log > osd.log & pids+=($!)
ceph() { timeout 60 python3 usr/bin/ceph "$@" 2> said; }
ceph osd pool create metadata 1
ceph osd pool create data 1
ceph fs new cephfs metadata data > new
ceph-mds -i x -f 2> mds.log > mds.log & pids+=($!)
until ceph fs dump -f json | grep -q up:active; do sleep 1; done
ceph --admin-daemon "$PWD/mds.x.asok" --format json dump loads > loads
python3 - << 'PYTHON'
import json
import sys

text = open("loads").read()
print(text[-160:].strip())


def refuse(name):
    raise ValueError(name)


try:
    json.loads(text, parse_constant=refuse)
    is_json = True
except ValueError as error:
    print("not JSON:", error)
    is_json = False
load = json.loads(text.replace("-inf", "null"))["dirfrags"][0]["pop_me"]
print("a load:", json.dumps(load))
unnamed = [set(one) for one in load["Decay Counters"]] == [{"value", "halflife"}] * 5
sys.exit(0 if not is_json and "-inf" in text and unnamed else 1)
PYTHON
