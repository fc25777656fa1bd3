#!/usr/bin/env bash
# libvirt 9.0.0 (Debian 12): the test driver's rules for limits of block I/O are not those of QEMU's.
#
# One expects of test:///, which many use to try a program without a hypervisor, that a limit which QEMU's driver takes is
# taken. It refuses total_iops_sec without total_iops_sec_max ("cannot be set higher than": 0 is no burst for QEMU's driver,
# and a burst of nothing for this one), and takes a burst whose limit is gone, which QEMU's refuses ("cannot reset
# 'total_iops_sec' when 'total_iops_sec_max' is set").
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
apt-get -q -o APT::Sandbox::User=root download libvirt-clients=9.0.0-4+deb12u2 libvirt0=9.0.0-4+deb12u2 libxml2 \
    libnl-3-200 libssh2-1 libssh-4 libtirpc3 libyajl2 libnuma1 libglib2.0-0 libsasl2-2 libapparmor1 libcurl3-gnutls \
    librtmp1 libnghttp2-14 libpsl5 libldap-2.5-0 libbrotli1 > /dev/null
for package in *.deb; do dpkg -x "$package" .; done
export LD_LIBRARY_PATH=$PWD/usr/lib/x86_64-linux-gnu:$PWD/lib/x86_64-linux-gnu
cat > node.xml << 'XML'
<node>
  <domain type='test'>
    <name>guest</name>
    <memory>1024</memory>
    <os><type>hvm</type></os>
    <devices>
      <disk type='file' device='disk'><source file='/x'/><target dev='vda' bus='virtio'/></disk>
    </devices>
  </domain>
</node>
XML
# Each call of virsh has a node of its own, so all steps are one call.
usr/bin/virsh -c "test://$PWD/node.xml" "blkdeviotune guest vda --total-iops-sec 100" > alone.txt 2>&1 || true
usr/bin/virsh -c "test://$PWD/node.xml" "blkdeviotune guest vda --total-iops-sec 100 --total-iops-sec-max 200;
    blkdeviotune guest vda --total-iops-sec 0; blkdeviotune guest vda" > burst.txt 2>&1
echo "a limit alone: $(grep -i invalid alone.txt)"
echo "a burst whose limit is gone: $(grep -E '^total_iops_sec(_max)? ?:' burst.txt | tr '\n' ' ')"
grep -q "total_iops_sec cannot be set higher than total_iops_sec_max" alone.txt
grep -qx "total_iops_sec : 0" burst.txt
grep -qx "total_iops_sec_max: 200" burst.txt
