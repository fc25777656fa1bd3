#!/usr/bin/env bash
# Ceph 16.2.15 (Debian 12): in ceph.conf 100M of rbd_qos_bps_limit is 100,000,000, of rbd_cache_size 104,857,600; 100MB
# of the first is no limit.
#
# One expects one meaning of M in one file, and of a value that cannot be read a complaint. Options of type size count
# in 1024, and those of type uint, as all limits of librbd are, in 1000, bytes or not; their help does not say so. And a
# uint refuses the unit's B: the value is left out, no word is said, and 0 is in force, which means unlimited. `ceph
# config set` refuses 100MB for the limit (and takes it for the size).
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
version=16.2.15+ds-0+deb12u2
apt-get -q -o APT::Sandbox::User=root download ceph-common=$version librados2=$version libboost-iostreams1.74.0 \
    libboost-thread1.74.0 > /dev/null
for package in *.deb; do dpkg -x "$package" .; done
export LD_LIBRARY_PATH=$PWD/usr/lib/x86_64-linux-gnu:$PWD/usr/lib/x86_64-linux-gnu/ceph
cat > ceph.conf << 'CONF'
[client]
rbd_cache_size = 100M
rbd_cache_max_dirty = 90MB
rbd_qos_bps_limit = 100M
rbd_qos_write_bps_limit = 100MB
CONF
value() { usr/bin/ceph-conf -c ceph.conf --name client.cinder --show-config-value "$1" 2>> said; }
for option in rbd_cache_size rbd_cache_max_dirty rbd_qos_bps_limit rbd_qos_write_bps_limit; do
    echo "$(grep "$option " ceph.conf): $(value $option)"
done
[ "$(value rbd_cache_size)" = 104857600 ]
[ "$(value rbd_cache_max_dirty)" = 94371840 ]
[ "$(value rbd_qos_bps_limit)" = 100000000 ]
[ "$(value rbd_qos_write_bps_limit)" = 0 ]
[ ! -s said ]
