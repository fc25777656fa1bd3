#!/usr/bin/env bash
# Ceph 16.2.15 (Debian 12): a CRUSH map that was decompiled and compiled without an edit is another map, and moves data.
#
# Ceph's documentation edits a map as text: crushtool -d, an editor, crushtool -c. One expects both steps to keep what
# is not edited. The text has weights with three digits, the map has 16 bits behind the point: 0.0049 comes back as
# 0.005, and 0.0004 as 0, which takes an OSD (a small one of a test, or of a metadata pool's partition) out of the map.
# Here OSDs of 5, 6 and 9 GiB; the weight of a large disk (1.81940) loses digits too.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
version=16.2.15+ds-0+deb12u2
apt-get -q -o APT::Sandbox::User=root download ceph-base=$version librados2=$version libboost-iostreams1.74.0 \
    libboost-thread1.74.0 > /dev/null
for package in *.deb; do dpkg -x "$package" .; done
export LD_LIBRARY_PATH=$PWD/usr/lib/x86_64-linux-gnu:$PWD/usr/lib/x86_64-linux-gnu/ceph
crushtool=usr/bin/crushtool
{
    printf 'device %s osd.%s\n' 0 0 1 1 2 2 3 3
    printf 'type 0 osd\ntype 1 root\nroot default {\n id -1\n alg straw2\n hash 0\n'
    printf ' item osd.%s weight %s\n' 0 0.0049 1 0.0059 2 0.0088 3 0.0004
    printf '}\nrule replicated {\n id 0\n type replicated\n min_size 1\n max_size 10\n'
    printf ' step take default\n step choose firstn 0 type osd\n step emit\n}\n'
} > exact.txt
$crushtool -c exact.txt -o first.map
$crushtool -d first.map -o map.txt
$crushtool -c map.txt -o second.map
placed() { $crushtool -i "$1" --test --rule 0 --num-rep 1 --min-x 0 --max-x 9999 --show-mappings 2>&1; }
placed first.map > first
placed second.map > second
moved=$(diff first second | grep -c '^>' || true)
grep -E '^\s+item' map.txt
echo "of 10000 objects $moved are elsewhere; on osd.3: $(grep -c '\[3\]' first || true), then $(grep -c '\[3\]' second || true)"
if cmp -s first.map second.map; then exit 1; fi
[ "$moved" -gt 100 ] && grep -q '\[3\]' first && ! grep -q '\[3\]' second
