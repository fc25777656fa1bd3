#!/usr/bin/env bash
# fio 3.33 (Debian 12): a replay (read_iolog) with rate_iops=20 has no rate.
#
# To replay what a guest did beside other guests, one caps it with rate_iops or rate. fio takes both without a word, and
# has them in the JSON's options. But it waits for a rate where it makes up the next request, and in a replay the log
# does: the 100 requests come at the log's times, here within a few milliseconds. The same job without the log takes
# five seconds. So a replay that is to stay below a limit is all that the disk can do. thinktime works (50ms is at most
# 20 a second); so does replay_time_scale in a log of blktrace, where rate_iops does nothing either. So has fio 3.42.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
apt-get -q -o APT::Sandbox::User=root download fio=3.33-3 > /dev/null
dpkg -x fio_3.33-3_*.deb .
export LD_LIBRARY_PATH=$PWD/usr/lib/x86_64-linux-gnu
truncate -s 4M disk
job() {
    local name=$1
    shift
    usr/bin/fio --name=a --filename=disk --rw=randread --bs=4k --size=4M --number_ios=100 --output-format=json \
        --output="$name.json" "$@"
}
job recorded --write_iolog=log
job rate --rate_iops=20
job replayed --read_iolog=log --rate_iops=20
job bytes --read_iolog=log --rate=80k
job thinktime --read_iolog=log --thinktime=50ms
head -n 4 log
python3 - << 'PYTHON'
import json
import sys

ran = {}
for name in ("recorded", "rate", "replayed", "bytes", "thinktime"):
    job = json.load(open(f"{name}.json"))["jobs"][0]
    ran[name] = (job["read"]["total_ios"], job["read"]["runtime"])
    print(f"{name}: {job['read']['total_ios']} requests in {job['read']['runtime']} ms, {job['job options']}")
problems = [
    name
    for name, holds in {
        "requests": {number for number, _ in ran.values()} == {100},
        "rate": ran["rate"][1] > 4500,
        "replayed": ran["replayed"][1] < 1000,
        "bytes": ran["bytes"][1] < 1000,
        "thinktime": ran["thinktime"][1] > 4500,
    }.items()
    if not holds
]
sys.exit(f"other than stated: {problems}" if problems else 0)
PYTHON
