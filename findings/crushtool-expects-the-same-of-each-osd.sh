#!/usr/bin/env bash
# Ceph 16.2.15 (Debian 12): crushtool's "expected" is the same for an OSD of 8 TiB and one of 1 TiB, and counts OSDs
# that the rule leaves out.
#
# --show-utilization "displays the expected and actual utilization for each device", to be compared before a map is
# set. One expects the expected number to go by the weights in the map, and to be for the OSDs of the rule. It is all
# that is stored by the number of OSDs in the map. Of a map that is right, with OSDs of 8, 4, 2 and 1 TiB, the largest
# has twice of what is expected, and the smallest less than a third; a rule for the two SSDs seems to overfill both.
# So an even map seems to be skewed, and OSDs get other weights for it. By the weights it is 546, 273, 137 and 68 of
# 1024.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
# holds COMMAND...: it succeeds, or the behaviour has changed.
holds() { "$@" || { echo "other than stated: $*"; exit 1; }; }
version=16.2.15+ds-0+deb12u2
apt-get -q -o APT::Sandbox::User=root download ceph-base=$version librados2=$version libboost-iostreams1.74.0 \
    libboost-thread1.74.0 > /dev/null
for package in *.deb; do dpkg -x "$package" .; done
export LD_LIBRARY_PATH=$PWD/usr/lib/x86_64-linux-gnu:$PWD/usr/lib/x86_64-linux-gnu/ceph
crushtool=usr/bin/crushtool
# rule ID NAME CLASS
rule() {
    printf 'rule %s {\n id %s\n type replicated\n min_size 1\n max_size 10\n' "$2" "$1"
    printf ' step take default%s\n step choose firstn 0 type osd\n step emit\n}\n' "${3:+ class $3}"
}
{
    printf 'device %s osd.%s class %s\n' 0 0 hdd 1 1 hdd 2 2 ssd 3 3 ssd
    printf 'type 0 osd\ntype 1 root\nroot default {\n id -1\n alg straw2\n hash 0\n'
    printf ' item osd.%s weight %s\n' 0 8 1 4 2 2 3 1
    printf '}\n'
    rule 0 all ''
    rule 1 fast ssd
} > map.txt
$crushtool -c map.txt -o map
# stored RULE: a line for each OSD that has any: its number, what it has, what crushtool expects.
stored() {
    $crushtool -i map --test --rule "$1" --num-rep 1 --show-utilization 2>&1 |
        sed -n 's/^ *device \([0-9]*\):\s*stored : \([0-9]*\)\s*expected : \(.*\)/\1 \2 \3/p'
}
for each in 0 1; do
    echo "rule $each, OSD, stored, expected:"
    stored $each | tee of-$each
done
holds [ "$(wc -l < of-0)" = 4 ]
holds [ "$(wc -l < of-1)" = 2 ]
holds [ "$(cut -d' ' -f3 of-0 of-1 | sort -u)" = 256 ]
python3 - << 'PYTHON'
import sys

has = [{int(osd): int(stored) for osd, stored, _ in map(str.split, open(f"of-{rule}"))} for rule in (0, 1)]
right = {osd: 1024 * weight / 15 for osd, weight in enumerate((8, 4, 2, 1))}
print("by weight:", {osd: round(number) for osd, number in right.items()})
problems = [osd for osd, stored in has[0].items() if not 0.7 * right[osd] < stored < 1.3 * right[osd]]
sys.exit(f"other than stated: {problems}" if problems or sum(has[1].values()) != 1024 else 0)
PYTHON
