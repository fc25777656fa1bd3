#!/usr/bin/env bash
# crudini 0.9.6 (PyPI) with Ceph 16.2.15 (Debian 12): rbd_qos_iops_limit is deleted from ceph.conf, and is in force.
#
# Ceph reads "rbd qos iops limit" and rbd_qos_iops_limit as one option, and of several lines the last one counts.
# crudini, with which scripts of OpenStack edit files, takes them for two. One expects of what it deletes that it is
# gone. Where the file has the name with blanks, --set adds a line below, which is in force, and --del takes that one
# away and ends with 0; --get then finds none, and Ceph has the first limit. So a limit that is undone slows each
# client for ever. With underscores only, all is as expected.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
# holds COMMAND...: it succeeds, or the behaviour has changed.
holds() { "$@" || { echo "other than stated: $*"; exit 1; }; }
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check crudini==0.9.6
version=16.2.15+ds-0+deb12u2
apt-get -q -o APT::Sandbox::User=root download ceph-common=$version librados2=$version libboost-iostreams1.74.0 \
    libboost-thread1.74.0 > /dev/null
for package in *.deb; do dpkg -x "$package" .; done
export LD_LIBRARY_PATH=$PWD/usr/lib/x86_64-linux-gnu:$PWD/usr/lib/x86_64-linux-gnu/ceph
crudini=venv/bin/crudini
name=rbd_qos_iops_limit
in_force() { usr/bin/ceph-conf -c "$1" --name client.cinder --show-config-value $name; }
for spelled in 'rbd qos iops limit' $name; do
    printf '[client]\n%s = 500\n' "$spelled" > ceph.conf
    echo "with the line \"$spelled = 500\" in force: $(in_force ceph.conf)"
    $crudini --set ceph.conf client $name 2000
    in_force ceph.conf > was_set
    $crudini --del ceph.conf client $name
    in_force ceph.conf > was_deleted
    echo "after --set $(cat was_set), after --del $(cat was_deleted)"
    holds [ "$(cat was_set)" = 2000 ]
    holds [ "$(cat was_deleted)" = "$([ "$spelled" = $name ] && echo 0 || echo 500)" ]
    holds [ "$($crudini --get ceph.conf client $name 2>&1 | grep -c 'not found')" = 1 ]
done
