#!/usr/bin/env bash
# Ceph 16.2.15 (Debian 12): ceph-authtool --cap mgr, for a key that has caps for mon and osd, drops those two.
#
# The manual has two options: --cap "will set the capability for given subsystem", --caps "all of capabilities
# associated with a given key, for all subsystems". One expects the first to leave the other subsystems alone, and adds
# what `rbd perf` and `rbd task` need: mgr "profile rbd". But it writes all caps anew. The key has one for the mgr then,
# and a client that is made of the file with `ceph auth import` has none for monitors and OSDs. The status is 0, and
# nothing is said. To give all three in one call is what works.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
# holds COMMAND...: it succeeds, or the behaviour has changed.
holds() { "$@" || { echo "other than stated: $*"; exit 1; }; }
version=16.2.15+ds-0+deb12u2
apt-get -q -o APT::Sandbox::User=root download ceph-common=$version librados2=$version libboost-iostreams1.74.0 \
    libboost-thread1.74.0 > /dev/null
for package in *.deb; do dpkg -x "$package" .; done
export LD_LIBRARY_PATH=$PWD/usr/lib/x86_64-linux-gnu:$PWD/usr/lib/x86_64-linux-gnu/ceph
# caps [SUBSYSTEM CAP]...: these caps, set in one call, and what the keyring has of them.
caps() {
    local options=()
    while [ $# -gt 0 ]; do
        options+=(--cap "$1" "$2")
        shift 2
    done
    usr/bin/ceph-authtool keyring --name client.cinder "${options[@]}"
    usr/bin/ceph-authtool keyring --list | sed -n 's/^\s*caps //p' | tee has
}
usr/bin/ceph-authtool keyring --create-keyring --gen-key --name client.cinder > /dev/null
caps mon 'profile rbd' osd 'profile rbd pool=volumes'
holds [ "$(wc -l < has)" = 2 ]
echo 'and with --cap mgr:'
caps mgr 'profile rbd pool=volumes'
holds [ "$(cat has)" = 'mgr = "profile rbd pool=volumes"' ]
echo 'and with all three:'
caps mon 'profile rbd' osd 'profile rbd pool=volumes' mgr 'profile rbd pool=volumes'
holds [ "$(wc -l < has)" = 3 ]
