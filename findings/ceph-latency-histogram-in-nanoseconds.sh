#!/usr/bin/env bash
# Ceph 16.2.15 (Debian 12): the histogram of an OSD's latencies says "Latency (usec)", and its bounds are nanoseconds.
#
# One expects of `perf histogram dump` that a write in the bucket 200000 to 399999 of the axis "Latency (usec)" took 0.2
# to 0.4 s. It took that many nanoseconds: 0.2 to 0.4 ms (only quant_size, 100000, is 100 usec). The counter
# op_w_latency of the same writes, in seconds, shows it. Who plots the axis as it is named has an OSD a thousand times
# too slow. One monitor and one OSD in memory; 200 writes.
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
mon_host = [v2:127.0.0.1:17311]
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
run_dir = $PWD
admin_socket = $PWD/\$name.asok
log_file =
mon_data = $PWD/mon
osd_data = $PWD/osd
osd_objectstore = memstore
osd_class_dir = $library/rados-classes
erasure_code_dir = $library/ceph/erasure-code
plugin_dir = $library/ceph
osd_pool_default_size = 1
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
mon_data_avail_crit = 0
CONF
mkdir mon osd
monmaptool --create --fsid "$fsid" --addv a '[v2:127.0.0.1:17311]' monmap > /dev/null
ceph-mon -i a --mkfs --monmap monmap
ceph-mon -i a -f 2> mon.log & pids+=($!)
python3 usr/bin/ceph osd new "$fsid" > /dev/null
ceph-osd -i 0 --mkfs --osd-uuid "$fsid" 2> mkfs.log
ceph-osd -i 0 -f 2> osd.log > osd.log & pids+=($!)
python3 usr/bin/ceph osd pool create p 1 2> /dev/null
timeout 60 rados -p p bench 30 write -b 4096 -t 1 --max-objects 200 --no-cleanup > /dev/null
for command in "perf histogram dump" "perf dump"; do
    python3 usr/bin/ceph --admin-daemon "$PWD/osd.0.asok" $command > "${command// /-}"
done
python3 - << 'PYTHON'
import json
import sys

histogram = json.load(open("perf-histogram-dump"))["osd"]["op_w_latency_in_bytes_histogram"]
latency = json.load(open("perf-dump"))["osd"]["op_w_latency"]
axis = histogram["axes"][0]
rows = [(bounds.get("min", 0), sum(row)) for bounds, row in zip(axis["ranges"], histogram["values"]) if sum(row)]
mean = sum(low * number for low, number in rows) / sum(number for _, number in rows)
print("axis:", axis["name"], "writes by lower bound:", rows)
print(f"mean of the lower bounds: {mean:.0f}, mean by op_w_latency: {latency['avgtime'] * 1e6:.0f} usec")
sys.exit(0 if axis["name"] == "Latency (usec)" and 0.3 < mean / (latency["avgtime"] * 1e9) < 1 else 1)
PYTHON
