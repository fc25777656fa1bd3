#!/usr/bin/env bash
# fio 3.33 (Debian 12): the JSON of several servers ends with one entry more, "All clients", the sum of the others.
#
# One expects `client_stats` of `fio --client=A --client=B` to have an entry for each server, as `jobs` has one for each
# job without servers, so one adds them up. With two servers or more there is a last one, whose jobname is "All clients"
# and whose hostname is that of the first server: the sum is twice of what was read. With one server there is none, so a
# tool that was tried with one is right there.
set -euo pipefail
directory=$(mktemp -d)
servers=()
trap 'kill "${servers[@]}" 2> /dev/null || true; rm -rf "$directory"' EXIT
cd "$directory"
apt-get -q -o APT::Sandbox::User=root download fio=3.33-3 > /dev/null
dpkg -x fio_3.33-3_*.deb .
export LD_LIBRARY_PATH=$PWD/usr/lib/x86_64-linux-gnu
printf '[a]\nioengine=null\nsize=1g\nbs=4k\nrw=read\nnumber_ios=1000\n' > job.fio
for port in 8791 8792; do
    usr/bin/fio --server=127.0.0.1,$port > /dev/null 2>&1 &
    servers+=($!)
done
sleep 1
first=(--client=127.0.0.1,8791 job.fio)
usr/bin/fio "${first[@]}" --output-format=json --output=one.json
usr/bin/fio "${first[@]}" --client=127.0.0.1,8792 job.fio --output-format=json --output=two.json
python3 - << 'PYTHON'
import json
import sys


def entries(name):
    text = open(name).read()
    stats = json.loads(text[text.index("{"):])["client_stats"]
    return [(each["jobname"], each["hostname"], each["read"]["total_ios"]) for each in stats]


one, two = entries("one.json"), entries("two.json")
print("one server:", one)
print("two servers:", two, "sum", sum(requests for _, _, requests in two))
name, host, requests = two[-1]
right = len(one) == 1 and len(two) == 3 and (name, host, requests) == ("All clients", two[0][1], 2000)
sys.exit(0 if right and sum(each[2] for each in two) == 4000 else 1)
PYTHON
