#!/usr/bin/env bash
# QEMU 7.2 (Debian 12): query-named-block-nodes says iops 0 and bps 0 of a node that a throttle filter limits.
#
# Each block node has iops, bps and their kin in QMP, and 0 means no limit. One expects of the node of a throttle filter
# the numbers of its group, or none. It has zeros, with no word of the group: only a disk's own limit
# (block_set_io_throttle) is shown there. The truth is in the property `limits` of the group's object, and which group a
# node has is nowhere in that answer. So a monitor that reads these fields counts a disk at 100 IOPS as unlimited.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
apt-get -q -o APT::Sandbox::User=root download qemu-system-common=1:7.2+dfsg-7+deb12u18+b3 \
    qemu-utils=1:7.2+dfsg-7+deb12u18+b3 libaio1 liburing2 libfuse3-3 libglib2.0-0 > /dev/null
for package in *.deb; do dpkg -x "$package" .; done
export LD_LIBRARY_PATH=$PWD/usr/lib/x86_64-linux-gnu:$PWD/lib/x86_64-linux-gnu
printf '%s\n' '{"execute": "qmp_capabilities"}' \
    '{"execute": "query-named-block-nodes", "arguments": {"flat": true}}' \
    '{"execute": "qom-get", "arguments": {"path": "/objects/group", "property": "limits"}}' '{"execute": "quit"}' > commands
usr/bin/qemu-storage-daemon --object throttle-group,id=group,limits.iops-total=100 \
    --blockdev driver=null-co,node-name=storage,size=1073741824 \
    --blockdev driver=throttle,node-name=limited,throttle-group=group,file=storage \
    --chardev stdio,id=console --monitor chardev=console < commands > answers
python3 - << 'PYTHON'
import json
import sys

answers = [json.loads(line).get("return") for line in open("answers")]
nodes = next(each for each in answers if isinstance(each, list))
node = next(each for each in nodes if each["node-name"] == "limited")
limits = next(each for each in answers if isinstance(each, dict) and "iops-total" in each)
print("node:", {key: node[key] for key in sorted(node) if key in ("drv", "iops", "bps", "group")})
print("object:", {"iops-total": limits["iops-total"]})
sys.exit(0 if (node["drv"], node["iops"], limits["iops-total"]) == ("throttle", 0, 100) and "group" not in node else 1)
PYTHON
