#!/usr/bin/env bash
# Ceph 16.2.15 (Debian 12): a clone and a copy of an RBD image have its rbd_qos limits, and keep them when it is rid
# of them.
#
# One expects a limit that was set on an image (rbd config image set) to be that image's alone, and a new image to
# have those of its pool. They are metadata (conf_rbd_qos_iops_limit), and `rbd clone`, `rbd cp` and `rbd deep cp`
# copy metadata: once, and as the image has it now, not as it was at the snapshot. So a volume that is made from one
# that is slowed for a while stays slow, whatever limit QEMU has for it, and a limit that the parent gets later is
# none of the clone's. rbd(8) lists what copies keep, without it; SUSE's guide to the dashboard says it. So has Ceph
# 20.2.4. One monitor and one OSD in memory; images of 1 MiB, 100 reads of each.
set -euo pipefail
directory=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2> /dev/null && wait || true; rm -rf "$directory"' EXIT
cd "$directory"
version=16.2.15+ds-0+deb12u2
apt-get -q -o APT::Sandbox::User=root download {ceph-mon,ceph-osd,ceph-base,ceph-common,librados2,librbd1,libradosstriper1}=$version \
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
mon_host = [v2:127.0.0.1:17319]
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
run_dir = $PWD
admin_socket = $PWD/\$name.\$pid.asok
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
monmaptool --create --fsid "$fsid" --addv a '[v2:127.0.0.1:17319]' monmap > /dev/null
ceph-mon -i a --mkfs --monmap monmap
ceph-mon -i a -f 2> mon.log & pids+=($!)
python3 usr/bin/ceph osd new "$fsid" > /dev/null
ceph-osd -i 0 --mkfs --osd-uuid "$fsid" 2> mkfs.log
ceph-osd -i 0 -f 2> osd.log > osd.log & pids+=($!)
python3 usr/bin/ceph osd pool create rbd 1 2> /dev/null
# of IMAGE: its own limit, and the milliseconds of 100 reads
of() {
    local began
    limit=$(rbd image-meta get "$1" conf_rbd_qos_iops_limit 2> /dev/null || echo none)
    began=$EPOCHREALTIME
    rbd bench "$1" --io-type read --io-size 4K --io-threads 16 --io-total 400K > /dev/null
    milliseconds=$(((${EPOCHREALTIME/./} - ${began/./}) / 1000))
    echo "$1: limit $limit, 100 reads in $milliseconds ms"
}
timeout 60 rbd create template --size 1M
rbd snap create template@unlimited --no-progress
rbd snap protect template@unlimited
rbd clone template@unlimited before
rbd config image set template rbd_qos_iops_limit 20
rbd clone template@unlimited clone
rbd cp template copy --no-progress
rbd deep cp template deep --no-progress
rbd config image rm template rbd_qos_iops_limit
for image in clone copy deep; do
    of $image
    [ "$limit" = 20 ]
    [ "$milliseconds" -gt 3500 ]
done
for image in template before; do
    of $image
    [ "$limit" = none ]
    [ "$milliseconds" -lt 2500 ]
done
