#!/usr/bin/env bash
# Ceph 16.2.15 (Debian 12): osdmaptool --mark-up-in also gives OSDs of CRUSH weight 0 a weight of 1, and groups.
#
# The option answers where placement groups are while all OSDs are up and in. One expects that of the map as it is: an
# OSD that is drained (ceph osd crush reweight osd.5 0) has none, up or not. osdmaptool sets the CRUSH weight of each
# OSD without one to 1, and says nothing of it. Among weights in TiB that may be a twentieth of an OSD, among small ones
# a whole one. With --adjust-crush-weight 5:0, which comes after it, the drained OSD is empty.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
version=16.2.15+ds-0+deb12u2
apt-get -q -o APT::Sandbox::User=root download ceph-base=$version librados2=$version libboost-iostreams1.74.0 \
    libboost-thread1.74.0 > /dev/null
for package in *.deb; do dpkg -x "$package" .; done
export LD_LIBRARY_PATH=$PWD/usr/lib/x86_64-linux-gnu:$PWD/usr/lib/x86_64-linux-gnu/ceph
osdmaptool=usr/bin/osdmaptool
$osdmaptool --createsimple 6 map --with-default-pool --pg-bits 4 > /dev/null 2>&1
$osdmaptool map --mark-up-in --adjust-crush-weight 5:0 --save > /dev/null 2>&1
# of_5 OPTION...: the placement groups that have a copy on osd.5.
of_5() { $osdmaptool map "$@" --test-map-pgs-dump 2> /dev/null | grep -cP '^\d+\.[0-9a-f]+\t\[(\d+,)*5[,\]]' || true; }
as_it_is=$(of_5)
marked=$(of_5 --mark-up-in)
adjusted=$(of_5 --mark-up-in --adjust-crush-weight 5:0)
echo "osd.5, of CRUSH weight 0: $as_it_is groups; with --mark-up-in $marked; with its weight 0 again $adjusted"
[ "$as_it_is" = 0 ]
[ "$marked" -gt 10 ]
[ "$adjusted" = 0 ]
