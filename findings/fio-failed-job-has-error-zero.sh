#!/usr/bin/env bash
# fio 3.33 (Debian 12): a job that never ran has "error": 0 in the JSON, and rates of 0.
#
# One expects `jobs[].error` to be other than 0 for a job that fails, as it is 28 where a disk is full. Where setting up
# the job's file fails (here: it is not there, and may not be made), the job is in the JSON with error 0 and no
# requests; only the exit status is 1, and a line stands on stderr. A parser that looks at `error` alone takes it for a
# disk of 0 IOPS.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
apt-get -q -o APT::Sandbox::User=root download fio=3.33-3 > /dev/null
dpkg -x fio_3.33-3_*.deb .
export LD_LIBRARY_PATH=$PWD/usr/lib/x86_64-linux-gnu
status=0
usr/bin/fio --name=a --ioengine=psync --rw=read --bs=4k --size=1m --filename=no-file --allow_file_create=0 \
    --output-format=json --output=out.json 2> said || status=$?
cat said
STATUS=$status python3 - << 'PYTHON'
import json
import os
import sys

text = open("out.json").read()
job = json.loads(text[text.index("{"):])["jobs"][0]
print("exit status", os.environ["STATUS"], "error", job["error"], "total_ios", job["read"]["total_ios"])
sys.exit(0 if (os.environ["STATUS"], job["error"], job["read"]["total_ios"]) == ("1", 0, 0) else 1)
PYTHON
